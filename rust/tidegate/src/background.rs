//! Threads that the system may refuse to start.

use std::sync::mpsc::Receiver;
use std::thread;

use tidegate_operators::driver::{self, Driver};
use tidegate_structures::memory;
use tidegate_sync::Stop;

use crate::{Error, Result};

/// Like [`driver::prepare_thread`].
pub fn prepare_thread() -> Result<()> {
    Ok(driver::prepare_thread()?)
}

/// Returns an error if a memory limit leaves too little room for this thread to call external code.
/// A call to external code needs thread-local variables and Python's state for the thread. Without
/// memory for them, glibc or Python would terminate the process.
pub fn check_call() -> Result<()> {
    memory::room_for_thread(0)?;
    Ok(())
}

/// Runs `work` on a separate thread, like [`driver::in_background`].
pub fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<Receiver<thread::Result<T>>> {
    driver::in_background(work).map_err(no_thread)
}

/// Runs `work` on one of a driver's threads, like [`Driver::in_background`].
pub fn in_background_of<T: Send + 'static>(
    driver: &Driver,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<Receiver<thread::Result<T>>> {
    driver.in_background(work).map_err(no_thread)
}

/// Creates a driver whose threads live as long as an operator. If requested, each thread is pinned
/// to a separate processor.
pub(crate) fn lasting(threads: usize, pin: bool) -> Result<Driver> {
    starting_threads(|| Driver::lasting(threads, Stop::default(), pin))
}

/// Creates an object that starts threads. The threads live as long as the object.
pub(crate) fn starting_threads<T>(make: impl FnOnce() -> std::io::Result<T>) -> Result<T> {
    // This covers the thread's other allocations.
    memory::ready()?;
    make().map_err(no_thread)
}

fn no_thread(error: std::io::Error) -> Error {
    Error::memory(format!(
        "the system refused to create a thread ({error}); use fewer threads, or allow the process \
         more threads or memory"
    ))
}
