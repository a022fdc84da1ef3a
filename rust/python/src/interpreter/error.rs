//! The exception classes, and the mapping from kinds of errors to exception classes.

use pyo3::create_exception;
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use tidegate::{Error, with_type_names};

create_exception!(tidegate, TidegateError, PyValueError, manual!(TidegateError));
create_exception!(tidegate, SchemaError, TidegateError, manual!(SchemaError));
create_exception!(tidegate, OrderError, TidegateError, manual!(OrderError));
create_exception!(tidegate, MemoryLimitError, TidegateError, manual!(MemoryLimitError));
create_exception!(tidegate, StateError, TidegateError, manual!(StateError));
create_exception!(tidegate, ClosedError, TidegateError, manual!(ClosedError));

/// Adds the exceptions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("TidegateError", py.get_type::<TidegateError>())?;
    module.add("SchemaError", py.get_type::<SchemaError>())?;
    module.add("OrderError", py.get_type::<OrderError>())?;
    module.add("MemoryLimitError", py.get_type::<MemoryLimitError>())?;
    module.add("StateError", py.get_type::<StateError>())?;
    module.add("ClosedError", py.get_type::<ClosedError>())
}

/// Converts an error to an exception with the same text, and sets the exception's cause.
pub(crate) fn raise(error: Error) -> PyErr {
    let raised = of_kind(&error);
    if let Some(cause) = error.cause().and_then(|cause| cause.downcast_ref::<PyErr>()) {
        Python::attach(|py| raised.set_cause(py, Some(cause.clone_ref(py))));
    }
    raised
}

fn of_kind(error: &Error) -> PyErr {
    let text = error.message().to_owned();
    if error.is_schema() {
        SchemaError::new_err(text)
    } else if error.is_order() {
        OrderError::new_err(text)
    } else if error.is_memory() {
        MemoryLimitError::new_err(text)
    } else if error.is_state() {
        StateError::new_err(text)
    } else if error.is_closed() {
        ClosedError::new_err(text)
    } else if error.is_stopped() {
        PyKeyboardInterrupt::new_err(text)
    } else {
        TidegateError::new_err(text)
    }
}

/// Converts an exception from Python code to an error. The package's own exceptions keep their
/// kind.
pub(crate) fn of_python(py: Python<'_>, error: PyErr) -> Error {
    let text = error.value(py).to_string();
    let is = |kind: Bound<'_, pyo3::types::PyType>| error.matches(py, kind).unwrap_or(false);
    if is(py.get_type::<PyKeyboardInterrupt>()) {
        Error::stopped(text)
    } else if is(py.get_type::<SchemaError>()) {
        Error::schema(text)
    } else if is(py.get_type::<OrderError>()) {
        Error::order(text)
    } else if is(py.get_type::<MemoryLimitError>()) {
        Error::memory(text)
    } else if is(py.get_type::<ClosedError>()) {
        Error::closed(text)
    } else if is(py.get_type::<TidegateError>()) {
        let cause = error.cause(py);
        let told = Error::data(text);
        cause.map_or(told.clone(), |cause| told.caused_by(cause))
    } else {
        Error::data(text).caused_by(error)
    }
}

/// Returns the error that explains why the data passed as the `name` argument was rejected.
pub(crate) fn error(name: &str, failure: tidegate_import::Error) -> Error {
    use tidegate_import::Error as Failure;
    let text = format!("{name}: {}", failure.text(with_type_names));
    match failure {
        Failure::Malformed { .. }
        | Failure::Unknown { .. }
        | Failure::NoSize { .. }
        | Failure::NoRows(_) => Error::schema(text),
        Failure::Released => Error::closed(text),
        Failure::Producer { .. } => Error::data(text),
    }
}
