//! The class `Index`.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use tidegate::{Latest, Stop, Table, with_room};

use super::arguments::{names, threads_of};
use super::rows::read;
use super::time::time;
use crate::arrow::export;
use crate::arrow::import::UncheckedRows;
use crate::interpreter::interrupt::{self, Size};

#[doc = manual!(Index)]
#[pyclass(frozen, subclass, module = "tidegate")]
pub(crate) struct Index {
    latest: Arc<Latest<Table>>,
    schema: SchemaRef,
    on: String,
    by: Vec<String>,
    threads: usize,
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
        let threads = threads_of(threads)?;
        let by = names("by", by)?.unwrap_or_default();
        let columns = (on.clone(), by.clone());
        let table = checked(table, "table", threads, move |table, driver| {
            let table = with_room(vec![table], &[])?.remove(0);
            table.with_index(&columns.0, &columns.1, driver)
        })?;
        let schema = table.schema().clone();
        Ok(Index { latest: Arc::new(Latest::new(table)), schema, on, by, threads })
    }

    #[doc = manual!(Index.append)]
    fn append(&self, rows: &Bound<'_, PyAny>) -> PyResult<()> {
        let latest = self.latest.clone();
        checked(rows, "rows", self.threads, move |rows, driver| {
            latest.update(|table| table.appended(&rows, driver))
        })
    }

    #[doc = manual!(Index.expire)]
    #[pyo3(signature = (*, before))]
    fn expire(&self, py: Python<'_>, before: &Bound<'_, PyAny>) -> PyResult<()> {
        let field = self.schema.field_with_name(&self.on).expect("the index has the column");
        let before = time("before", before, field)?;
        let (stop, latest) = (Stop::default(), self.latest.clone());
        let driver = tidegate::Driver::new(self.threads, stop.clone());
        interrupt::run(py, &stop, move || {
            latest.update(|table| table.without_rows_before(before, &driver))
        })
    }

    #[doc = manual!(Index.schema)]
    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        export::schema(py, &self.schema)
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
        self.latest.get().rows()
    }

    #[doc = manual!(Index.nbytes)]
    #[getter]
    fn nbytes(&self) -> usize {
        self.latest.get().index_bytes().unwrap_or_default()
    }

    fn __repr__(&self) -> String {
        let by = if self.by.is_empty() { String::new() } else { format!(", by={:?}", self.by) };
        format!("Index(rows={}, on={:?}{by})", self.rows(), self.on)
    }
}

impl Index {
    /// Returns the latest rows, which an error message calls `name`.
    pub(crate) fn named(&self, name: &str) -> UncheckedRows {
        UncheckedRows::of_index(name, &self.latest.get())
    }

    /// Returns the schema of the rows.
    pub(crate) fn columns(&self) -> &SchemaRef {
        &self.schema
    }
}

/// Reads an input, checks it, and passes it to `work`.
fn checked<T: Send + 'static>(
    input: &Bound<'_, PyAny>,
    name: &str,
    threads: usize,
    work: impl FnOnce(Table, &tidegate::Driver) -> tidegate::Result<T> + Send + 'static,
) -> PyResult<T> {
    let stop = Stop::default();
    let rows = read(name, input, &stop)?;
    let (size, running) = (Size::Rows(rows.rows()), stop.clone());
    let check = move |driver: &tidegate::Driver| Ok(vec![rows.table(driver)?]);
    interrupt::run_on_tables(input.py(), &stop, threads, size, check, move |tables| {
        work(tables[0].clone(), &tidegate::Driver::new(threads, running))
    })
}
