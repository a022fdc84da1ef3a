//! What the logger `tidegate` is told. `tidegate._logger` decides how often.

use std::sync::Arc;

use pyo3::prelude::*;

use crate::interpreter::calling;

/// Tells of something that concerns a source or an operator.
pub(crate) fn tell<T: ?Sized>(py: Python<'_>, of: &Arc<T>, kind: &str, text: &str) {
    let number = Arc::as_ptr(of).addr();
    let tell =
        || py.import("tidegate._logger")?.call_method1("tell", (kind, number, text)).map(drop);
    let told = calling(py, tell);
    if let Err(error) = told {
        // A handler of the user's that raises ends no push and no poll.
        error.write_unraisable(py, None);
    }
}
