//! What the logger `tidegate` is told. `tidegate._logger` decides how often.

use std::sync::Arc;

use pyo3::prelude::*;

/// Tells of something that concerns a source or an operator.
pub(crate) fn tell<T: ?Sized>(py: Python<'_>, of: &Arc<T>, kind: &str, text: &str) {
    let number = Arc::as_ptr(of).addr();
    let told = py
        .import("tidegate._logger")
        .and_then(|logger| logger.call_method1("tell", (kind, number, text)));
    if let Err(error) = told {
        // A handler of the user's that raises ends no push and no poll.
        error.write_unraisable(py, None);
    }
}
