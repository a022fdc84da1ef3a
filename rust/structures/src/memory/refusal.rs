//! Refuses a request that a test has chosen, so that each place is tried that memory may be short at.
//! Builds without checks do not have it.

use std::sync::{Mutex, PoisonError};

static TO_COME: Mutex<Option<usize>> = Mutex::new(None);

/// From now on the announced request after so many others is refused, once; with none, no more.
/// Returns whether one was still to be refused.
pub fn after(requests: Option<usize>) -> bool {
    let mut to_come = TO_COME.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::replace(&mut *to_come, requests).is_some()
}

/// Whether this request is the chosen one.
pub(super) fn is_due() -> bool {
    let mut to_come = TO_COME.lock().unwrap_or_else(PoisonError::into_inner);
    match *to_come {
        None => false,
        Some(0) => to_come.take().is_some(),
        Some(requests) => {
            *to_come = Some(requests - 1);
            false
        }
    }
}
