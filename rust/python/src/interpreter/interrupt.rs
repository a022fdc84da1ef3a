//! Runs native work without the GIL, so that Ctrl-C can interrupt the wait.
//!
//! Long-running calls run on a separate thread, while Python's main thread checks for signals every
//! 50 ms.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use pyo3::prelude::*;
use tidegate::{
    Driver, Error, Result, Stop, Table, WorkOf, in_background, in_background_of, is_in_pool,
    prepare_thread, with_threads,
};

use crate::interpreter::callbacks::waits_for;
use crate::interpreter::error::raise;
use crate::interpreter::threads::{callers_for, released, this_thread, within_itself};

/// The longest time for which a signal can go unnoticed. This time is well below 0.2 s, the longest
/// delay at which a response still feels immediate.
pub(crate) const PATIENCE: Duration = Duration::from_millis(50);

/// Calls `work` on this thread without the GIL; a panic becomes an error.
pub(crate) fn detached<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T> + Send,
) -> PyResult<T> {
    prepare_thread().map_err(raise)?;
    let outcome = released(py, || catch_unwind(AssertUnwindSafe(work)));
    outcome.unwrap_or_else(|panic| Err(Error::from_panic(&*panic))).map_err(raise)
}

/// A call whose work runs on another thread. The fields are the call's process, the means to stop
/// the call, and a reference that stays alive while the call holds inputs.
type Call = (u32, Stop, Weak<()>);

/// Calls that are running, or that were interrupted by Ctrl-C while their work continues.
static CALLS: Mutex<Vec<Call>> = Mutex::new(Vec::new());

/// Registers a running call, for as long as the returned value is alive.
fn begin(stop: &Stop) -> Arc<()> {
    let alive = Arc::new(());
    let mut calls = CALLS.lock().unwrap_or_else(PoisonError::into_inner);
    calls.retain(|(.., alive)| alive.strong_count() > 0);
    calls.push((std::process::id(), stop.clone(), Arc::downgrade(&alive)));
    alive
}

/// Stops all calls, and returns references that stay alive as long as the calls hold inputs.
pub(crate) fn end_calls() -> Vec<Weak<()>> {
    let calls = std::mem::take(&mut *CALLS.lock().unwrap_or_else(PoisonError::into_inner));
    let here = calls.into_iter().filter(|(process, ..)| *process == std::process::id());
    here.map(|(_, stop, alive)| {
        stop.request();
        alive
    })
    .collect()
}

/// Calls `work` on another thread and waits for it, checking for signals in the meantime.
///
/// When a signal handler raises an exception, `stop` is requested and the exception is returned
/// immediately. The other thread then ends on its own.
pub(crate) fn run<T: Send + 'static>(
    py: Python<'_>,
    stop: &Stop,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> PyResult<T> {
    run_on(py, stop, None, work)
}

/// The amount of work that a call on tables involves.
#[derive(Clone, Copy)]
pub(crate) enum Size {
    /// The work takes less time than starting another thread.
    Short,
    /// The tables have this many rows in total.
    Rows(usize),
}

/// Gets tables from `check` and passes them to `work`. If there is little to do, the work runs on
/// the current thread. Otherwise, it runs on another thread, as in [`run`].
pub(crate) fn run_on_tables<T: Send + 'static>(
    py: Python<'_>,
    stop: &Stop,
    threads: usize,
    size: Size,
    check: impl FnOnce(&Driver) -> Result<Vec<Table>> + Send + 'static,
    work: impl FnOnce(&[Table]) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    let checking = stop.clone();
    match size {
        // A caller's function may run on a thread of a pool. Such a thread would also take on the
        // pool's other work.
        Size::Short if !is_in_pool() => {
            detached(py, move || work(&check(&Driver::new(1, checking))?))
        }
        size => {
            let rows = if let Size::Rows(rows) = size { rows } else { 0 };
            let all = move || work(&check(&Driver::new(threads, checking))?);
            run(py, stop, move || with_threads(threads, rows, all))
        }
    }
}

/// The driver that provides a thread for the work, followed by the number and name of the object
/// for which the work is done.
pub(crate) type Worker<'a> = (&'a Driver, usize, &'a str);

/// Like [`run`], but on one of the driver's threads.
pub(crate) fn run_on<T: Send + 'static>(
    py: Python<'_>,
    stop: &Stop,
    worker: Option<Worker<'_>>,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> PyResult<T> {
    // The second value is alive as long as inputs are held.
    type Place<T> = Mutex<Option<(Result<T>, Arc<()>)>>;
    let place: Arc<Place<T>> = Arc::default();
    let (alive, found) = (begin(stop), place.clone());
    let work = move || {
        let outcome = work();
        *found.lock().unwrap_or_else(PoisonError::into_inner) = Some((outcome, alive));
    };
    wait_for(py, stop, worker, Box::new(work))?;
    let outcome = place.lock().unwrap_or_else(PoisonError::into_inner).take();
    let (outcome, _) = outcome.expect("the work has ended without a panic");
    outcome.map_err(raise)
}

/// Waits for the work to finish. The function is deliberately not generic. Otherwise, each caller
/// would get its own copy of the code.
fn wait_for(
    py: Python<'_>,
    stop: &Stop,
    worker: Option<Worker<'_>>,
    work: Box<dyn FnOnce() + Send>,
) -> PyResult<()> {
    // Starting a thread can block until the thread is running.
    let outcome = released(py, || match worker {
        Some((driver, object, _)) => in_background_of(driver, move || WorkOf::one(object, work)),
        None => in_background(work),
    });
    let mut outcome = outcome.map_err(raise)?;
    loop {
        // The receiver is moved through the closure because it cannot be shared with the waiting
        // thread.
        let (receiver, received) = released(py, move || {
            let received = outcome.recv_timeout(PATIENCE);
            (outcome, received)
        });
        outcome = receiver;
        match received {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(panic)) => return Err(raise(Error::from_panic(&*panic))),
            Err(RecvTimeoutError::Timeout) => {
                look(py, worker).inspect_err(|_| stop.request())?;
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(raise(Error::from_panic(&"a thread ended without an answer")));
            }
        }
    }
}

/// Returns an error if a function that was called on behalf of the object waits for this thread.
/// The current thread waits for the object's work, so neither would ever finish.
pub(crate) fn check_wait_for(py: Python<'_>, object: usize, name: &str) -> PyResult<()> {
    let callers = callers_for(object);
    if callers.is_empty() {
        return Ok(());
    }
    let caller = this_thread(py)?;
    for thread in callers {
        if waits_for(py, thread, caller)? {
            return Err(raise(within_itself(name)));
        }
    }
    Ok(())
}

/// Checks for signals and for a deadlock with user code.
fn look(py: Python<'_>, worker: Option<Worker<'_>>) -> PyResult<()> {
    py.check_signals()?;
    worker.map_or(Ok(()), |(_, object, name)| check_wait_for(py, object, name))
}
