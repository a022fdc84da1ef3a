//! Makes a chosen memory request fail, so that tests can cover every point where memory can run
//! out. Builds without debug assertions do not contain this module.

use std::sync::{Mutex, PoisonError};

static TO_COME: Mutex<Option<usize>> = Mutex::new(None);

/// Makes one checked request fail after `requests` others have succeeded. `None` cancels the
/// refusal. Returns whether an earlier refusal was still pending.
pub fn after(requests: Option<usize>) -> bool {
    let mut to_come = TO_COME.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::replace(&mut *to_come, requests).is_some()
}

/// Returns whether the current request should be refused.
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
