//! The class `Index`.

use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use tidegate::{Stop, Table, with_room};

use super::arguments::{names, threads_of};
use super::rows::read;
use crate::arrow::export;
use crate::arrow::import::UncheckedRows;
use crate::interpreter::interrupt::{self, Size};

#[doc = manual!(Index)]
#[pyclass(frozen, subclass, module = "tidegate")]
pub(crate) struct Index {
    table: Table,
    on: String,
    by: Vec<String>,
}

#[pymethods]
impl Index {
    #[new]
    #[pyo3(signature = (table, *, on, by=None, threads=None))]
    fn new(
        table: &Bound<'_, PyAny>,
        on: String,
        by: Option<&Bound<'_, PyAny>>,
        threads: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let (py, stop) = (table.py(), Stop::default());
        let threads = threads_of(threads)?;
        let by = names("by", by)?.unwrap_or_default();
        let rows = read("table", table, &stop)?;
        let (columns, running) = ((on.clone(), by.clone()), stop.clone());
        let size = Size::Rows(rows.rows());
        let check = move |driver: &tidegate::Driver| with_room(vec![rows.table(driver)?], &[]);
        let table = interrupt::run_on_tables(py, &stop, threads, size, check, move |tables| {
            let driver = tidegate::Driver::new(threads, running);
            tables[0].clone().with_index(&columns.0, &columns.1, &driver)
        })?;
        Ok(Index { table, on, by })
    }

    #[doc = manual!(Index.schema)]
    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        export::schema(py, self.table.schema())
    }

    #[doc = manual!(Index.on)]
    #[getter]
    fn on(&self) -> &str {
        &self.on
    }

    #[doc = manual!(Index.by)]
    #[getter]
    fn by(&self) -> Vec<String> {
        self.by.clone()
    }

    #[doc = manual!(Index.rows)]
    #[getter]
    fn rows(&self) -> usize {
        self.table.rows()
    }

    #[doc = manual!(Index.nbytes)]
    #[getter]
    fn nbytes(&self) -> usize {
        self.table.index_bytes().unwrap_or_default()
    }

    fn __repr__(&self) -> String {
        let by = if self.by.is_empty() { String::new() } else { format!(", by={:?}", self.by) };
        format!("Index(rows={}, on={:?}{by})", self.table.rows(), self.on)
    }
}

impl Index {
    /// Returns the rows, which an error message calls `name`.
    pub(crate) fn named(&self, name: &str) -> UncheckedRows {
        UncheckedRows::of_index(name, &self.table)
    }

    /// Returns the schema of the rows.
    pub(crate) fn columns(&self) -> &SchemaRef {
        self.table.schema()
    }
}
