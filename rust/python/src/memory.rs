//! The memory that is kept for reuse by later calls.

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;

use crate::interpreter::threads::released;

/// The environment variable that sets the maximum number of bytes to keep.
const VARIABLE: &str = "TIDEGATE_POOL_BYTES";

#[doc = manual!(release_memory)]
#[pyfunction]
pub(crate) fn release_memory(py: Python<'_>) -> bool {
    released(py, tidegate::release_memory)
}

/// Sets the amount of memory to keep, as specified by the environment variable.
pub(crate) fn keep_as_told() -> PyResult<()> {
    let Some(told) = std::env::var_os(VARIABLE).filter(|told| !told.is_empty()) else {
        return Ok(());
    };
    let told = told.to_string_lossy();
    let bytes: usize = told.trim().parse().map_err(|_| {
        PyImportError::new_err(format!(
            "{VARIABLE}: expected a number of bytes, such as 0 or 335544320, got {told:?}"
        ))
    })?;
    tidegate::keep_memory_at_most(bytes);
    Ok(())
}
