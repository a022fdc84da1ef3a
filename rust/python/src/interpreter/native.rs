//! The native module, which contains the functions that rebuild pickled objects.

use pyo3::PyClass;
use pyo3::prelude::*;

/// Returns the native module, given a class that only this module contains.
pub(crate) fn module<T: PyClass>(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import(py.get_type::<T>().module()?)
}
