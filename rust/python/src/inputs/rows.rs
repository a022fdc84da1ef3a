//! Reads the inputs of native calls. Arrow data is read in full and checked later.

use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use tidegate::Stop;

use crate::arrow::export;
use crate::arrow::import::{self, UncheckedRows};
use crate::inputs::index::Index;

// The package reads each input in full before it requests the schema of the next one. A database
// connection may be unable to return another result while one is open.
#[doc = manual!(InputRows)]
#[pyclass(frozen, module = "tidegate._tidegate")]
pub(crate) struct InputRows {
    rows: UncheckedRows,
}

#[pymethods]
impl InputRows {
    /// Reads all rows in Arrow data. Error messages refer to this input as `name`.
    #[new]
    fn new(data: &Bound<'_, PyAny>, name: &str) -> PyResult<Self> {
        Ok(InputRows { rows: import::read(name, data, &Stop::default())? })
    }

    #[doc = manual!(InputRows.schema)]
    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        export::schema(py, self.rows.schema())
    }
}

/// Reads an input in full, unless it has already been read.
pub(crate) fn read(name: &str, ob: &Bound<'_, PyAny>, stop: &Stop) -> PyResult<UncheckedRows> {
    if let Ok(rows) = ob.cast::<InputRows>() {
        return Ok(rows.get().rows.clone());
    }
    match ob.cast::<Index>() {
        Ok(index) => Ok(index.get().named(name)),
        Err(_) => import::read(name, ob, stop),
    }
}

/// Returns the schema of an input or of another object that has a schema.
pub(crate) fn schema(name: &str, ob: &Bound<'_, PyAny>) -> PyResult<SchemaRef> {
    if let Ok(rows) = ob.cast::<InputRows>() {
        return Ok(rows.get().rows.schema().clone());
    }
    match ob.cast::<Index>() {
        Ok(index) => Ok(index.get().columns().clone()),
        Err(_) => import::schema(name, ob),
    }
}

/// Returns the streams in the `streams` argument. A single input counts as one stream.
pub(crate) fn listed<'py>(ob: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if ob.is_instance_of::<PyList>() || ob.is_instance_of::<PyTuple>() {
        return ob.try_iter()?.collect();
    }
    Ok(vec![ob.clone()])
}

#[doc = manual!(is_arrow)]
#[pyfunction]
pub(crate) fn is_arrow(ob: &Bound<'_, PyAny>) -> PyResult<bool> {
    let is_read = ob.is_instance_of::<InputRows>() || ob.is_instance_of::<Index>();
    Ok(is_read || import::is_arrow(ob)?)
}
