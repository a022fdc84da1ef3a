//! The functions of `aggs`, which aggregations and joins have.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyMapping, PyType};
use tidegate::query::aggregate::{Aggregate, Function};

use crate::expression::extract_row;
use crate::input::word;

/// The columns of the result, from names to `tidegate.agg` functions.
pub(crate) fn aggregates(aggs: &Bound<'_, PyAny>) -> PyResult<Vec<Aggregate>> {
    const EXAMPLE: &str = "such as tidegate.agg.sum(\"size\")";
    let mapping = aggs.cast::<PyMapping>().map_err(|_| {
        PyTypeError::new_err(format!(
            "aggs: expected a mapping from names to functions {EXAMPLE}, got {aggs:?}"
        ))
    })?;
    let one = |item: Bound<'_, PyAny>| {
        let (name, given): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
        let name: String = name.extract().map_err(|_| {
            PyTypeError::new_err(format!("aggs: expected names that are strings, got {name:?}"))
        })?;
        if !given.is_instance(aggregate_type(aggs.py())?)? {
            return Err(PyTypeError::new_err(format!(
                "aggs: `{name}`: expected a function {EXAMPLE}, got {given:?}"
            )));
        }
        let function: String = given.getattr("function")?.extract()?;
        let known = Function::ALL.map(|function| (function.name(), function));
        let condition: Option<Bound<'_, PyAny>> = given.getattr("where")?.extract()?;
        Ok(Aggregate {
            name,
            function: word("aggs", &function, &known)?,
            column: given.getattr("column")?.extract()?,
            weights: given.getattr("weights")?.extract()?,
            predicate: condition.as_ref().map(extract_row).transpose()?,
        })
    };
    mapping.items()?.iter().map(one).collect()
}

fn aggregate_type(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static AGGREGATE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    AGGREGATE.import(py, "tidegate.agg", "Aggregate")
}
