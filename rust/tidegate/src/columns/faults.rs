//! Rows for which a condition or a sum cannot be computed.
//!
//! A call on tables returns an error for the first such row. An operator cannot return such an
//! error, because the operator would then stop after processing only some of its rows. Instead, the
//! operator records these faults and finishes its step without the affected rows. The operator is
//! then halted until the user decides how to continue.

use std::sync::{Arc, Mutex, PoisonError};

use crate::Error;

/// The faults of one step, shared by all clones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults(Arc<Mutex<Option<Error>>>);

impl Faults {
    /// Records a fault. If there are several faults, the fault whose message sorts first is kept.
    /// The choice therefore does not depend on thread scheduling.
    pub(crate) fn note(&self, error: Error) {
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if first.as_ref().is_none_or(|first| error.message() < first.message()) {
            *first = Some(error);
        }
    }

    /// Removes and returns the recorded fault, if any.
    pub(crate) fn take(&self) -> Option<Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
