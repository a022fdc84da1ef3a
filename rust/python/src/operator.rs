//! What the classes of all incremental operators share: sources, waiting, and numbers for people.

use std::sync::{Arc, Mutex};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyType};
use pyo3_arrow::{PyField, PyRecordBatch};
use tidegate::Error;
use tidegate::incremental::{self, News, Polled, SourceStats, lock};

use crate::error::raise;
use crate::{input, interrupt};

/// Refuses handles of a process that has forked: the child has neither their threads nor their locks.
pub(crate) fn check_process(made_in: u32, what: &str) -> PyResult<()> {
    if made_in == std::process::id() {
        return Ok(());
    }
    Err(raise(Error::closed(format!("this {what} was made before the process forked; make one in the child"))))
}

/// Feed rows into an operator.
#[pyclass(frozen, module = "tidegate")]
pub(crate) struct Source {
    source: Arc<Mutex<incremental::Source>>,
    process: u32,
}

impl Source {
    pub(crate) fn new(source: &Arc<Mutex<incremental::Source>>) -> Self {
        Source { source: source.clone(), process: std::process::id() }
    }
}

#[pymethods]
impl Source {
    /// The number of the source.
    #[getter]
    fn number(&self, py: Python<'_>) -> u16 {
        py.detach(|| lock(&self.source).number())
    }

    /// Add rows.
    fn push(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        check_process(self.process, "source")?;
        let rows = input::table("data", data)?;
        py.detach(|| lock(&self.source).push(&rows.schema, rows.batches)).map_err(raise)
    }

    /// Promise that no later row is before a time.
    fn advance(&self, py: Python<'_>, ts: &Bound<'_, PyAny>) -> PyResult<()> {
        check_process(self.process, "source")?;
        let field = py.detach(|| lock(&self.source).time_field().clone());
        let ts = time(ts, field)?;
        py.detach(|| lock(&self.source).advance(ts)).map_err(raise)
    }

    /// Promise that there are no more rows.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        check_process(self.process, "source")?;
        py.detach(|| lock(&self.source).close());
        Ok(())
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _type: Option<&Bound<'_, PyType>>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.close(py)
    }
}

/// A time in steps of the unit of a column: an integer, or whatever pyarrow converts to the column's type.
fn time(ob: &Bound<'_, PyAny>, field: arrow_schema::Field) -> PyResult<i64> {
    let wrong = |why: String| {
        raise(Error::argument(format!(
            "ts: expected a time of column `{}`, which is {}, or an integer in its unit, got {ob:?}{why}",
            field.name(),
            field.data_type()
        )))
    };
    if ob.is_instance_of::<pyo3::types::PyBool>() || ob.is_none() {
        return Err(PyTypeError::new_err(wrong(String::new()).value(ob.py()).to_string()));
    }
    if ob.is_instance_of::<PyInt>() {
        return ob.extract().map_err(|_| wrong(": it does not fit 64 bits".into()));
    }
    let pyarrow = ob.py().import("pyarrow")?;
    let field_of = PyField::new(Arc::new(field.clone()));
    let data_type = field_of.to_pyarrow(ob.py())?.getattr("type")?;
    let steps = |ob: &Bound<'_, PyAny>| -> PyResult<i64> {
        let scalar = pyarrow.call_method1("scalar", (ob, &data_type))?;
        scalar.call_method1("cast", (pyarrow.call_method0("int64")?,))?.call_method0("as_py")?.extract()
    };
    steps(ob).map_err(|error| wrong(format!(": {}", error.value(ob.py()))))
}

/// Hands out the next batch of an operator, and waits until there is one, or the end.
pub(crate) fn next<'py>(
    py: Python<'py>,
    news: &News,
    poll: impl Fn() -> tidegate::Result<Polled> + Sync,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    loop {
        let seen = news.count();
        match py.detach(&poll).map_err(raise)? {
            Polled::Batch(batch) => return PyRecordBatch::new(batch).into_pyarrow(py).map(Some),
            Polled::End => return Ok(None),
            Polled::NotYet => py.detach(|| news.wait(seen, interrupt::PATIENCE)),
        }
        py.check_signals()?;
    }
}

/// Hands out the next batch of an operator, if it is there.
pub(crate) fn poll<'py>(
    py: Python<'py>,
    poll: impl FnOnce() -> tidegate::Result<Polled> + Send,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    match py.detach(poll).map_err(raise)? {
        Polled::Batch(batch) => PyRecordBatch::new(batch).into_pyarrow(py).map(Some),
        Polled::NotYet | Polled::End => Ok(None),
    }
}

/// Batches as a `pyarrow.Table`.
pub(crate) fn table<'py>(py: Python<'py>, batches: Vec<RecordBatch>, schema: SchemaRef) -> PyResult<Bound<'py, PyAny>> {
    pyo3_arrow::PyTable::try_new(batches, schema)?.into_pyarrow(py)
}

/// Numbers that describe sources, one dict a source, and their sums into `total`.
pub(crate) fn source_stats<'py>(
    py: Python<'py>,
    sources: &[SourceStats],
    total: &Bound<'py, PyDict>,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let sum = |of: fn(&SourceStats) -> u64| sources.iter().map(of).sum::<u64>();
    let (rows_in, rows_late) = (sum(|source| source.rows_in), sum(|source| source.rows_late));
    total.set_item("rows_in", rows_in)?;
    total.set_item("rows_used", rows_in - rows_late)?;
    total.set_item("rows_late", rows_late)?;
    let one = |source: &SourceStats| {
        let dict = PyDict::new(py);
        dict.set_item("name", &*source.name)?;
        dict.set_item("rows_in", source.rows_in)?;
        dict.set_item("rows_used", source.rows_in - source.rows_late)?;
        dict.set_item("rows_late", source.rows_late)?;
        dict.set_item("watermark", source.watermark)?;
        dict.set_item("closed", source.closed)?;
        Ok(dict)
    };
    sources.iter().map(one).collect()
}
