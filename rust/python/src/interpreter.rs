//! How threads let go of the interpreter and come back to it. All of them do it here.
//!
//! Once the interpreter ends, Python up to 3.13 ends each thread that asks for it, by unwinding the
//! thread's stack. Rust's frames do not let that through: the process would abort. So threads pass
//! a [`Door`] on their way back, which is closed as the last thing before the end. A thread that
//! Python has made then waits for ever, as Python itself has it from 3.14 on. A thread of ours
//! leaves the interpreter alone.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyCFunction;
use tidegate::{Door, Error, WorkOf};

use crate::error::raise;

/// Inside are the threads on their way back, and those whose Python code native code has called.
static DOOR: Door = Door::new();

thread_local! {
    /// Whether this is the thread that ends the interpreter.
    static ENDS_ALL: Cell<bool> = const { Cell::new(false) };
    /// How many times this thread is inside.
    static INSIDE: Cell<usize> = const { Cell::new(0) };
}

/// Lets this thread through the door, until what is returned is dropped.
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

/// Calls `work` without the interpreter, and comes back to it.
pub(crate) fn released<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    let (outcome, inside) = py.detach(|| {
        let outcome = catch_unwind(AssertUnwindSafe(work));
        (outcome, enter().unwrap_or_else(|| wait_for_ever()))
    });
    // Here again.
    drop(inside);
    outcome.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Calls Python code that may let go of the interpreter, and comes back to it beneath native code.
pub(crate) fn calling<T>(py: Python<'_>, code: impl FnOnce() -> T) -> T {
    let _inside = enter().unwrap_or_else(|| py.detach(|| wait_for_ever()));
    code()
}

/// Nobody waits for this thread: what it has begun stays as it is.
fn wait_for_ever() -> ! {
    for _ in 0..INSIDE.take() {
        DOOR.leave();
    }
    loop {
        std::thread::park();
    }
}

/// Calls `work` with the interpreter, for a thread that may not have it; `None` once it ends.
pub(crate) fn attached<T>(work: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    let _inside = enter()?;
    Python::try_attach(work)
}

/// Calls `release`, which lets go of memory of another library. That may ask for the interpreter,
/// and so the memory is left alone once it ends.
pub(crate) fn release(release: &mut dyn FnMut()) {
    if let Some(_inside) = enter() {
        release();
    }
}

/// Closes the door, and waits while `is_patient` until nobody is inside.
pub(crate) fn end(py: Python<'_>, mut is_patient: impl FnMut() -> PyResult<bool>) -> PyResult<()> {
    ENDS_ALL.set(true);
    DOOR.close();
    while DOOR.inside() > INSIDE.get() && is_patient()? {
        released(py, || std::thread::sleep(std::time::Duration::from_millis(1)));
    }
    Ok(())
}

/// Has each forked child count its own thread alone.
pub(crate) fn count_anew_after_fork(py: Python<'_>) -> PyResult<()> {
    let Some(register) = py.import("os")?.getattr_opt("register_at_fork")? else { return Ok(()) };
    let count_anew = |_: &Bound<'_, _>, _: Option<&Bound<'_, _>>| DOOR.set_inside(INSIDE.get());
    let count_anew = PyCFunction::new_closure(py, None, None, count_anew)?;
    let named = pyo3::types::PyDict::new(py);
    named.set_item("after_in_child", count_anew)?;
    register.call((), Some(&named)).map(drop)
}

/// A thread in Python code that native work has called, by Python's number, and whose work it is.
type Caller = (u64, WorkOf);

static CALLERS: Mutex<Vec<Caller>> = Mutex::new(Vec::new());

/// Calls a function of the user's from native work.
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

/// The number by which Python knows this thread.
pub(crate) fn this_thread(py: Python<'_>) -> PyResult<u64> {
    py.import("threading")?.call_method0("get_ident")?.extract()
}

/// An error if this thread is called by the work of an object, which would wait for itself.
pub(crate) fn check_call_to(object: usize, name: &str) -> tidegate::Result<()> {
    if WorkOf::here().includes(object) { Err(within_itself(name)) } else { Ok(()) }
}

/// An error if a function that the work of an object has called waits for this thread, which waits
/// for that work.
pub(crate) fn check_wait_for(py: Python<'_>, object: usize, name: &str) -> PyResult<()> {
    let mut callers = CALLERS.lock().clone();
    callers.retain(|(_, work)| work.includes(object));
    if callers.is_empty() {
        return Ok(());
    }
    let (caller, waiting) = (this_thread(py)?, py.import("tidegate._waiting")?);
    for (thread, _) in callers {
        if waiting.call_method1("waits_for", (thread, caller))?.is_truthy()? {
            return Err(raise(within_itself(name)));
        }
    }
    Ok(())
}

#[cold]
fn within_itself(name: &str) -> Error {
    Error::argument(format!(
        "this {name} is called by a function or stream that it waits for, or by a thread that one \
         of them waits for; call it once the function has returned, and outside of the stream"
    ))
}
