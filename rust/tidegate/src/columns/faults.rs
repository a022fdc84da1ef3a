//! What has no value: the rows for which a condition or a sum cannot be computed.
//!
//! A call on tables raises at the first of them. An operator must not: it would stop in the middle of
//! its rows. It notes them, goes on without them to the end of its step, and then stands until its
//! user has decided.

use std::sync::{Arc, Mutex, PoisonError};

use crate::Error;

/// The faults of one step. Clones belong to one operator.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults(Arc<Mutex<Option<Error>>>);

impl Faults {
    /// Notes a fault. Of several the one is kept whose text is the least, so that it does not depend
    /// on threads.
    pub(crate) fn note(&self, error: Error) {
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if first.as_ref().is_none_or(|first| error.message() < first.message()) {
            *first = Some(error);
        }
    }

    /// The fault that was noted, if there was one. It is noted no longer.
    pub(crate) fn take(&self) -> Option<Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
