//! The class `Aggregate`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyType};
use pyo3_arrow::PySchema;
use tidegate::incremental::{AggregateOptions, Memory, News, OnlineAggregation};

use crate::aggregate::Arguments;
use crate::error::raise;
use crate::input::{bound, count, schema};
use crate::interrupt::detached;
use crate::operator::{self, Source, bytes, check_process, source_stats};

/// Aggregate rows as they come.
#[pyclass(frozen, module = "tidegate")]
pub(crate) struct Aggregate {
    aggregation: Mutex<OnlineAggregation>,
    schema: SchemaRef,
    news: Arc<News>,
    memory: Memory,
    process: u32,
}

impl Aggregate {
    fn lock(&self) -> MutexGuard<'_, OnlineAggregation> {
        self.aggregation.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Aggregate {
    #[new]
    #[pyo3(signature = (
        schema, *, on, size=None, advance=None, offset=None, session=None, by=None, aggs, r#where=None, sources=None,
        lateness=None, algorithm="auto", threads=None, memory_limit=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "the arguments of the Python class")]
    fn new<'py>(
        schema: &Bound<'py, PyAny>,
        on: &str,
        size: Option<&Bound<'py, PyAny>>,
        advance: Option<&Bound<'py, PyAny>>,
        offset: Option<&Bound<'py, PyAny>>,
        session: Option<&Bound<'py, PyAny>>,
        by: Option<&Bound<'py, PyAny>>,
        aggs: &Bound<'py, PyAny>,
        r#where: Option<&Bound<'py, PyAny>>,
        sources: Option<&Bound<'py, PyAny>>,
        lateness: Option<&Bound<'py, PyAny>>,
        algorithm: &str,
        threads: Option<&Bound<'py, PyAny>>,
        memory_limit: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Self> {
        let max_rows = None;
        let query =
            Arguments { on, size, advance, offset, session, by, aggs, r#where, algorithm, threads, max_rows }.read()?;
        let options = AggregateOptions {
            sources: count("sources", sources, 1, 1 << 16)?.unwrap_or(1) as usize,
            lateness: lateness.map(|lateness| bound("lateness", lateness)).transpose()?.flatten(),
            memory_limit: count("memory_limit", memory_limit, 0, i64::MAX)?.map(|bytes| bytes as usize),
        };
        let schema = self::schema("schema", schema)?;
        let aggregation = OnlineAggregation::new(&query, schema, &options).map_err(raise)?;
        Ok(Aggregate {
            news: aggregation.news(),
            memory: aggregation.memory(),
            schema: aggregation.schema().clone(),
            aggregation: Mutex::new(aggregation),
            process: std::process::id(),
        })
    }

    /// The schema of the results.
    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        PySchema::new(self.schema.clone()).into_pyarrow(py)
    }

    /// The sources, by number.
    #[getter]
    fn sources(&self, py: Python<'_>) -> PyResult<Vec<Source>> {
        check_process(self.process, "aggregation")?;
        Ok(py.detach(|| self.lock().sources().iter().map(Source::new).collect()))
    }

    /// Bytes that the operator may hold.
    #[getter]
    fn memory_limit(&self) -> Option<usize> {
        self.memory.limit()
    }

    #[setter]
    fn set_memory_limit(&self, limit: &Bound<'_, PyAny>) -> PyResult<()> {
        check_process(self.process, "aggregation")?;
        operator::set_limit(&self.memory, limit)
    }

    /// Hand out the next results that are final, if there are any.
    fn poll<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        check_process(self.process, "aggregation")?;
        operator::poll(py, || self.lock().poll())
    }

    /// Return the late rows that were not returned yet.
    fn late<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        check_process(self.process, "aggregation")?;
        let (batches, schema) = detached(py, || {
            let aggregation = self.lock();
            aggregation.late().map(|batches| (batches, aggregation.late_schema()))
        })?;
        operator::table(py, batches, schema)
    }

    /// Return numbers that describe the aggregation so far.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        check_process(self.process, "aggregation")?;
        let stats = py.detach(|| self.lock().stats());
        let dict = PyDict::new(py);
        let sources = source_stats(py, &stats.sources, &dict)?;
        dict.set_item("rows_out", stats.rows_out)?;
        dict.set_item("watermark", stats.watermark)?;
        dict.set_item("latency", stats.latency)?;
        dict.set_item("state_keys", stats.state_keys)?;
        dict.set_item("state_cells", stats.state_cells)?;
        dict.set_item("state_bytes", stats.state_bytes)?;
        dict.set_item("memory", stats.memory)?;
        dict.set_item("memory_limit", stats.memory_limit)?;
        dict.set_item("sources", sources)?;
        Ok(dict)
    }

    /// Say what the aggregation does, as `tidegate.explain` would.
    fn explain(&self, py: Python<'_>) -> PyResult<String> {
        check_process(self.process, "aggregation")?;
        Ok(py.detach(|| self.lock().explain()))
    }

    /// Return the state as bytes.
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        check_process(self.process, "aggregation")?;
        let snapshot = detached(py, || self.lock().snapshot())?;
        bytes(py, &snapshot)
    }

    /// Go on from a snapshot.
    fn restore(&self, py: Python<'_>, snapshot: &[u8]) -> PyResult<()> {
        check_process(self.process, "aggregation")?;
        detached(py, || self.lock().restore(snapshot))
    }

    /// Drop what is held; sources and polls fail from now on.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        check_process(self.process, "aggregation")?;
        py.detach(|| self.lock().close());
        Ok(())
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        check_process(self.process, "aggregation")?;
        operator::next(py, &self.news, || self.lock().poll())
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
