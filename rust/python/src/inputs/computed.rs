//! Adds columns that are computed from expressions to an input, before a call reads the input.

use pyo3::prelude::*;
use tidegate::{Driver, Stop, computed};

use crate::arrow::export;
use crate::inputs::arguments::threads_of;
use crate::inputs::keys::value;
use crate::inputs::rows::read;
use crate::interpreter::interrupt;

/// Returns an input as a table with a column for each expression in `values`, and the names of the
/// columns that `values` refers to. `argument` is the argument in which the values were passed.
#[pyfunction]
pub(crate) fn with_computed<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    name: &str,
    argument: &str,
    values: Vec<Bound<'py, PyAny>>,
    taken: Vec<String>,
    threads: Option<Bound<'py, PyAny>>,
) -> PyResult<(Bound<'py, PyAny>, Vec<String>)> {
    let role = if argument == "by" { "by" } else { "on" };
    let texts = values.iter().map(|one| Ok(value(one)?.unwrap_or_default()));
    let texts = texts.collect::<PyResult<Vec<String>>>()?;
    let stop = Stop::default();
    let rows = read(name, data, &stop)?;
    let driver = Driver::new(threads_of(threads.as_ref())?, stop.clone());
    let (table, names) = interrupt::run(py, &stop, move || {
        computed(&rows.table(&driver)?, &texts, role, &taken, &driver)
    })?;
    Ok((export::table(py, table.batches().to_vec(), table.schema().clone())?, names))
}
