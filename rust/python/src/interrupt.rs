//! Runs native work without the GIL, such that Ctrl-C ends the wait for it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use pyo3::prelude::*;
use tidegate::{Error, Result, Stop, in_background};

use crate::error::raise;

/// How long a signal may go unnoticed: well under the 0.2 s that a person takes for an answer.
pub(crate) const PATIENCE: Duration = Duration::from_millis(50);

/// Calls `work` on this thread without the GIL; a panic becomes an error.
pub(crate) fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    let outcome = py.detach(|| catch_unwind(AssertUnwindSafe(work)));
    outcome.unwrap_or_else(|panic| Err(Error::from_panic(&*panic))).map_err(raise)
}

/// Calls `work` on another thread and waits for it, looking for signals meanwhile.
///
/// When a signal handler raises, `stop` is requested and the exception returned at once; the thread ends by itself.
pub(crate) fn run<T: Send + 'static>(
    py: Python<'_>,
    stop: &Stop,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> PyResult<T> {
    let mut outcome = in_background(work)?;
    loop {
        // The receiver moves through the closure, since it cannot be shared with the thread that waits.
        let (receiver, received) = py.detach(move || {
            let received = outcome.recv_timeout(PATIENCE);
            (outcome, received)
        });
        outcome = receiver;
        match received {
            Ok(Ok(result)) => return result.map_err(raise),
            Ok(Err(panic)) => return Err(raise(Error::from_panic(&*panic))),
            Err(RecvTimeoutError::Timeout) => py.check_signals().inspect_err(|_| stop.request())?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(raise(Error::from_panic(&"a thread ended without an answer")));
            }
        }
    }
}
