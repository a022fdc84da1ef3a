//! Refuses a memory request that a test has chosen, so that every place that may run out of memory
//! can be tested. Builds without debug assertions leave this out.

use std::sync::{Mutex, PoisonError};

static TO_COME: Mutex<Option<usize>> = Mutex::new(None);

/// Refuses, once, the announced request that follows this number of other requests; `None` cancels.
/// Returns whether an earlier refusal was still pending.
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
