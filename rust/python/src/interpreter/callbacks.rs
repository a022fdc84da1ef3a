//! Functions of the package that native code calls.
//!
//! The package passes these functions in when it is imported, so the native module imports nothing
//! from the package. No lock is held while a callback is running.

use std::sync::Arc;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::IntoPyDict;

use crate::interpreter::threads::calling;

/// The functions, described in `tidegate.runtime.methods`.
struct Callbacks {
    table_of_rows: Py<PyAny>,
    tell: Py<PyAny>,
    waits_for: Py<PyAny>,
}

static CALLBACKS: PyOnceLock<Callbacks> = PyOnceLock::new();

/// Stores the functions. If the package is imported again, the callbacks from the first import stay
/// in use.
#[pyfunction]
pub(crate) fn set_callbacks(
    py: Python<'_>,
    table_of_rows: Py<PyAny>,
    tell: Py<PyAny>,
    waits_for: Py<PyAny>,
) {
    let _ = CALLBACKS.set(py, Callbacks { table_of_rows, tell, waits_for });
}

fn callbacks(py: Python<'_>) -> PyResult<&'static Callbacks> {
    let missing = || PyRuntimeError::new_err("import tidegate, not tidegate._tidegate alone");
    CALLBACKS.get(py).ok_or_else(missing)
}

/// Returns a list of dicts or tuples, or a dict of lists, as a table with the schema of the source
/// `name`. Numbers in time columns count from 1970 in the given unit.
pub(crate) fn table_of_rows<'py>(
    rows: &Bound<'py, PyAny>,
    schema: Bound<'py, PyAny>,
    name: &str,
    ignores_extra: bool,
    unit: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = rows.py();
    let function = callbacks(py)?.table_of_rows.bind(py);
    let options = [("ignores_extra", ignores_extra)].into_py_dict(py)?;
    options.set_item("unit", unit)?;
    calling(py, || function.call((rows, schema, name), Some(&options)))
}

/// Logs an event that concerns a source or an operator.
pub(crate) fn tell<T: ?Sized>(py: Python<'_>, of: &Arc<T>, kind: &str, text: &str) {
    let number = Arc::as_ptr(of).addr();
    let tell = || callbacks(py)?.tell.bind(py).call1((kind, number, text)).map(drop);
    if let Err(error) = calling(py, tell) {
        // An error in a user's log handler must not end a push or a poll.
        error.write_unraisable(py, None);
    }
}

/// Returns whether a thread waits for another thread, either directly or through other threads and
/// futures.
pub(crate) fn waits_for(py: Python<'_>, thread: u64, other: u64) -> PyResult<bool> {
    calling(py, || callbacks(py)?.waits_for.bind(py).call1((thread, other))?.is_truthy())
}
