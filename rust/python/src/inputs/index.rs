//! The class `Index`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::SchemaRef;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use tidegate::{Driver, Latest, Stop, Table, open_index, with_room};

use super::arguments::{bound, names, threads_of};
use super::rows::read;
use super::time::time;
use crate::arrow::export;
use crate::arrow::import::UncheckedRows;
use crate::interpreter::interrupt::{self, Size};

/// The name of a time column, or the names of a start and an end column.
#[derive(Clone, IntoPyObject)]
pub(crate) enum TimeNames {
    Time(String),
    Interval(String, String),
}

impl TimeNames {
    fn names(&self) -> (&str, Option<&str>) {
        match self {
            TimeNames::Time(time) => (time, None),
            TimeNames::Interval(start, end) => (start, Some(end)),
        }
    }

    /// The time or end column.
    fn last(&self) -> &str {
        let (start, end) = self.names();
        end.unwrap_or(start)
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for TimeNames {
    type Error = PyErr;

    fn extract(ob: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(time) = ob.extract() {
            return Ok(TimeNames::Time(time));
        }
        let (start, end) = ob.extract().map_err(|_| {
            PyTypeError::new_err(format!(
                "on: expected the name of the time column, or a tuple with the names of the start \
                 and end columns, as in (\"start\", \"end\"), got {}",
                ob.get_type()
            ))
        })?;
        Ok(TimeNames::Interval(start, end))
    }
}

impl From<(String, Option<String>)> for TimeNames {
    fn from((start, end): (String, Option<String>)) -> Self {
        match end {
            None => TimeNames::Time(start),
            Some(end) => TimeNames::Interval(start, end),
        }
    }
}

/// Formats the names as they are written in Python.
impl std::fmt::Display for TimeNames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TimeNames::Time(time) => write!(f, "{time:?}"),
            TimeNames::Interval(start, end) => write!(f, "({start:?}, {end:?})"),
        }
    }
}

#[doc = manual!(Index)]
#[pyclass(frozen, subclass, module = "tidegate")]
pub(crate) struct Index {
    latest: Arc<Latest<Table>>,
    /// The file that was opened, with the version of the rows that it contains.
    file: Option<(PathBuf, Arc<Table>)>,
    schema: SchemaRef,
    on: TimeNames,
    by: Vec<String>,
    threads: usize,
}

#[pymethods]
impl Index {
    #[new]
    #[pyo3(signature = (table, *, on, by=None, keep=None, open_ends=false, threads=None))]
    fn new(
        table: &Bound<'_, PyAny>,
        on: TimeNames,
        by: Option<&Bound<'_, PyAny>>,
        keep: Option<&Bound<'_, PyAny>>,
        open_ends: bool,
        threads: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let threads = threads_of(threads)?;
        if let Ok(saved) = table.cast::<SavedIndex>() {
            return Ok(saved.get().index(threads));
        }
        let by = names("by", by)?.unwrap_or_default();
        let keep = keep.map(|keep| bound("keep", keep)).transpose()?.flatten();
        let columns = (on.clone(), by.clone());
        let table = checked(table, "table", threads, move |table, driver| {
            let table = with_room(vec![table], &[])?.remove(0);
            table.with_index(columns.0.names(), &columns.1, keep, open_ends, driver)
        })?;
        let schema = table.schema().clone();
        Ok(Index { latest: Arc::new(Latest::new(table)), file: None, schema, on, by, threads })
    }

    /// Writes the index and its rows to a file.
    fn _write(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let (stop, latest) = (Stop::default(), self.latest.get());
        let driver = Driver::new(self.threads, stop.clone());
        interrupt::run(py, &stop, move || latest.save_index(&path, &driver))
    }

    #[doc = manual!(Index.path)]
    #[getter]
    fn path(&self) -> Option<&Path> {
        let (path, opened) = self.file.as_ref()?;
        Arc::ptr_eq(opened, &self.latest.get()).then_some(path)
    }

    #[doc = manual!(Index.append)]
    fn append(&self, table: &Bound<'_, PyAny>) -> PyResult<()> {
        let rows = Arc::new(checked(table, "table", self.threads, |rows, _| Ok(rows))?);
        self.change(table.py(), |latest, driver| {
            let rows = rows.clone();
            move || latest.appended(&rows, &driver)
        })
    }

    #[doc = manual!(Index.expire)]
    #[pyo3(signature = (*, before))]
    fn expire(&self, py: Python<'_>, before: &Bound<'_, PyAny>) -> PyResult<()> {
        let field = self.schema.field_with_name(self.on.last()).expect("the index has the column");
        let before = time("before", before, field)?;
        self.change(py, |latest, driver| move || latest.without_rows_before(before, &driver))
    }

    /// The largest number of left rows for which a join searches the index row by row.
    #[getter]
    fn _most_searched(&self) -> usize {
        self.latest.get().most_searched().unwrap_or_default()
    }

    #[doc = manual!(Index.schema)]
    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        export::schema(py, &self.schema)
    }

    #[doc = manual!(Index.on)]
    #[getter]
    fn on(&self) -> TimeNames {
        self.on.clone()
    }

    #[doc = manual!(Index.by)]
    #[getter]
    fn by(&self) -> Vec<String> {
        self.by.clone()
    }

    /// Whether rows without a start or an end are infinitely long.
    #[getter]
    fn _open_ends(&self) -> bool {
        self.latest.get().has_open_ends()
    }

    #[doc = manual!(Index.rows)]
    #[getter]
    fn rows(&self) -> usize {
        self.latest.get().rows()
    }

    /// The earliest and the latest time or start, in the unit of the column.
    #[getter]
    fn _span(&self) -> Option<(i64, i64)> {
        self.latest.get().index_span()
    }

    #[doc = manual!(Index.nbytes)]
    #[getter]
    fn nbytes(&self) -> usize {
        self.latest.get().index_bytes().unwrap_or_default()
    }

    /// Exports the latest version of the rows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let batches = self.latest.get().batches().to_vec();
        let batches = batches.into_iter().map(Ok);
        export::stream(py, batches, self.schema.clone(), requested_schema.as_ref())
    }

    fn __repr__(&self) -> String {
        let by = if self.by.is_empty() { String::new() } else { format!(", by={:?}", self.by) };
        format!("Index(rows={}, on={}{by})", self.rows(), self.on)
    }
}

#[doc = manual!(SavedIndex)]
#[pyclass(frozen, module = "tidegate._tidegate")]
pub(crate) struct SavedIndex {
    path: PathBuf,
    table: Arc<Table>,
}

#[pymethods]
impl SavedIndex {
    #[new]
    fn new(py: Python<'_>, path: PathBuf, verify: bool, threads: usize) -> PyResult<Self> {
        let (stop, opened) = (Stop::default(), path.clone());
        let driver = Driver::new(threads, stop.clone());
        let table = interrupt::run(py, &stop, move || open_index(&opened, verify, &driver))?;
        Ok(SavedIndex { path, table: Arc::new(table) })
    }

    #[doc = manual!(SavedIndex.on)]
    #[getter]
    fn on(&self) -> TimeNames {
        self.table.index_columns().0.into()
    }
}

impl SavedIndex {
    fn index(&self, threads: usize) -> Index {
        let (on, by) = self.table.index_columns();
        let on = on.into();
        Index {
            latest: Arc::new(Latest::from(self.table.clone())),
            file: Some((self.path.clone(), self.table.clone())),
            schema: self.table.schema().clone(),
            on,
            by,
            threads,
        }
    }
}

impl Index {
    /// Replaces the latest rows with those that `make` returns. The rows are built on another
    /// thread, but replaced on this one, so a call that is interrupted changes nothing.
    fn change<W>(&self, py: Python<'_>, make: impl Fn(Arc<Table>, Driver) -> W) -> PyResult<()>
    where
        W: FnOnce() -> tidegate::Result<Table> + Send + 'static,
    {
        self.latest.update(|latest| {
            let stop = Stop::default();
            let work = make(latest.clone(), Driver::new(self.threads, stop.clone()));
            interrupt::run(py, &stop, work)
        })
    }

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
    work: impl FnOnce(Table, &Driver) -> tidegate::Result<T> + Send + 'static,
) -> PyResult<T> {
    let stop = Stop::default();
    let rows = read(name, input, &stop)?;
    let (size, running) = (Size::Rows(rows.rows()), stop.clone());
    let check = move |driver: &Driver| Ok(vec![rows.table(driver)?]);
    interrupt::run_on_tables(input.py(), &stop, threads, size, check, move |tables| {
        work(tables[0].clone(), &Driver::new(threads, running))
    })
}
