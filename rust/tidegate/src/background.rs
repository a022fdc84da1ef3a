//! Threads that the system may refuse.

use std::sync::mpsc::Receiver;
use std::thread;

use tidegate_operators::driver::{self, Driver};
use tidegate_structures::memory;
use tidegate_sync::Stop;

use crate::{Error, Result};

/// As [`driver::prepare_thread`].
pub fn prepare_thread() -> Result<()> {
    Ok(driver::prepare_thread()?)
}

/// An error unless there is memory for this thread to call the code of others, as far as a limit
/// says. That takes thread-locals, and Python's state of a thread: without memory for them, glibc
/// or Python ends the process.
pub fn check_call() -> Result<()> {
    memory::room_for_thread(0)?;
    Ok(())
}

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
    starting_threads(|| Driver::lasting(threads, Stop::default(), pin))
}

/// Makes something that starts threads which last as long as it does.
pub(crate) fn starting_threads<T>(make: impl FnOnce() -> std::io::Result<T>) -> Result<T> {
    // For all else that it is made of.
    memory::ready()?;
    make().map_err(no_thread)
}

fn no_thread(error: std::io::Error) -> Error {
    Error::memory(format!(
        "the system has refused a thread ({error}); ask for fewer threads, or give the process \
         more threads or memory"
    ))
}
