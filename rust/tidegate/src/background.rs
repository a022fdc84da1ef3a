//! Threads that the system may refuse.

use std::sync::mpsc::Receiver;
use std::thread;

use tidegate_operators::driver::{self, Driver};
use tidegate_sync::Stop;

use crate::{Error, Result};

/// Runs `work` on a thread of its own, as [`driver::in_background`] does.
pub fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<Receiver<thread::Result<T>>> {
    driver::in_background(work).map_err(no_thread)
}

/// Runs `work` on one of the threads of a driver, as [`Driver::in_background`] does.
pub fn in_background_of<T: Send + 'static>(
    driver: &Driver,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<Receiver<thread::Result<T>>> {
    driver.in_background(work).map_err(no_thread)
}

/// Threads for as long as an operator lives, each on a processor of its own if they are to be
/// pinned.
pub(crate) fn lasting(threads: usize, pin: bool) -> Result<Driver> {
    Driver::lasting(threads, Stop::default(), pin).map_err(no_thread)
}

fn no_thread(error: std::io::Error) -> Error {
    Error::memory(format!(
        "the system has refused a thread ({error}); ask for fewer threads, or give the process \
         more threads or memory"
    ))
}
