//! Detaches threads from the interpreter and reattaches them. No other code in the package detaches
//! or reattaches threads, except `error.rs`, which attaches a thread to set the cause of an error.
//!
//! When the interpreter shuts down, Python 3.13 and earlier terminate each thread that tries to
//! reattach, by unwinding its stack. Rust code does not allow such unwinding, so the process would
//! abort. Threads therefore pass through a [`Door`] before they reattach. Closing the door is the
//! last step before shutdown. After that, threads created by Python wait forever, as they do in
//! Python 3.14 and later. The package's own threads have stopped using the interpreter by the time
//! the door is closed.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyCFunction;
use tidegate::{Door, Error, WorkOf};

/// A thread is inside the door while it is reattaching, or while it is running Python code called
/// by native code.
static DOOR: Door = Door::new();

thread_local! {
    /// True if this thread is shutting down the interpreter.
    static ENDS_ALL: Cell<bool> = const { Cell::new(false) };
    /// How many times this thread has entered the door without leaving. Calls can be nested.
    static INSIDE: Cell<usize> = const { Cell::new(0) };
}

/// Lets this thread through the door. Returns `None` if the door is closed. The thread leaves when
/// the returned guard is dropped.
fn enter() -> Option<Inside> {
    if ENDS_ALL.get() {
        return Some(Inside { counts: false });
    }
    DOOR.enter().then(|| {
        INSIDE.set(INSIDE.get() + 1);
        Inside { counts: true }
    })
}

struct Inside {
    counts: bool,
}

impl Drop for Inside {
    fn drop(&mut self) {
        if self.counts {
            INSIDE.set(INSIDE.get() - 1);
            DOOR.leave();
        }
    }
}

/// Runs `work` detached from the interpreter, then reattaches.
pub(crate) fn released<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    let (outcome, inside) = py.detach(|| {
        let outcome = catch_unwind(AssertUnwindSafe(work));
        (outcome, enter().unwrap_or_else(|| wait_for_ever()))
    });
    // This thread is attached again.
    drop(inside);
    outcome.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Calls Python code that can detach from the interpreter and reattach while native code is on the
/// stack.
pub(crate) fn calling<T>(py: Python<'_>, code: impl FnOnce() -> T) -> T {
    let _inside = enter().unwrap_or_else(|| py.detach(|| wait_for_ever()));
    code()
}

/// Parks this thread forever, leaving its work unfinished. The thread leaves the door first, so
/// that shutdown does not wait for the thread.
fn wait_for_ever() -> ! {
    for _ in 0..INSIDE.take() {
        DOOR.leave();
    }
    loop {
        std::thread::park();
    }
}

/// Attaches the current thread to the interpreter and runs `work`. Returns `None` once the
/// interpreter shuts down.
pub(crate) fn attached<T>(work: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    let _inside = enter()?;
    Python::try_attach(work)
}

/// Calls `release`, which frees another library's memory. Releasing the memory may require the
/// interpreter, so the memory is leaked once the interpreter shuts down.
pub(crate) fn release(release: &mut dyn FnMut()) {
    if let Some(_inside) = enter() {
        release();
    }
}

/// Closes the door and waits until all other threads have left or `is_patient` returns false.
pub(crate) fn end(py: Python<'_>, mut is_patient: impl FnMut() -> PyResult<bool>) -> PyResult<()> {
    ENDS_ALL.set(true);
    DOOR.close();
    while DOOR.inside() > INSIDE.get() && is_patient()? {
        released(py, || std::thread::sleep(std::time::Duration::from_millis(1)));
    }
    Ok(())
}

/// After a fork, makes the child process count only its one remaining thread.
pub(crate) fn count_anew_after_fork(py: Python<'_>) -> PyResult<()> {
    let Some(register) = py.import("os")?.getattr_opt("register_at_fork")? else { return Ok(()) };
    let count_anew = |_: &Bound<'_, _>, _: Option<&Bound<'_, _>>| DOOR.set_inside(INSIDE.get());
    let count_anew = PyCFunction::new_closure(py, None, None, count_anew)?;
    let named = pyo3::types::PyDict::new(py);
    named.set_item("after_in_child", count_anew)?;
    register.call((), Some(&named)).map(drop)
}

/// A thread on which native work has called Python code. The fields are the thread's Python
/// identifier and the objects on whose behalf the work runs.
type Caller = (u64, WorkOf);

static CALLERS: Mutex<Vec<Caller>> = Mutex::new(Vec::new());

/// Calls a user's function on behalf of native work.
pub(crate) fn called<T>(py: Python<'_>, function: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    struct Leave(u64);
    impl Drop for Leave {
        fn drop(&mut self) {
            let mut callers = CALLERS.lock();
            if let Some(at) = callers.iter().rposition(|(thread, _)| *thread == self.0) {
                drop(callers.remove(at));
            }
        }
    }
    let thread = this_thread(py)?;
    CALLERS.lock().push((thread, WorkOf::here()));
    let _leave = Leave(thread);
    function()
}

/// Returns this thread's Python identifier.
pub(crate) fn this_thread(py: Python<'_>) -> PyResult<u64> {
    py.import("threading")?.call_method0("get_ident")?.extract()
}

/// Returns an error if this thread is already working on behalf of the object. Otherwise, the call
/// would wait for itself.
pub(crate) fn check_call_to(object: usize, name: &str) -> tidegate::Result<()> {
    if WorkOf::here().includes(object) { Err(within_itself(name)) } else { Ok(()) }
}

/// Returns the threads that are in a call to Python on behalf of the object.
pub(crate) fn callers_for(object: usize) -> Vec<u64> {
    let callers = CALLERS.lock();
    callers.iter().filter(|(_, work)| work.includes(object)).map(|(thread, _)| *thread).collect()
}

#[cold]
pub(crate) fn within_itself(name: &str) -> Error {
    Error::argument(format!(
        "this {name} is called by a function or stream that it waits for, or by a thread that one \
         of them waits for; call it once the function has returned, and from code outside the \
         stream"
    ))
}
