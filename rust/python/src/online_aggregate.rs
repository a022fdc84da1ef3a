//! The class `Aggregate`.

use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyType};
use pyo3_arrow::PySchema;
use tidegate::Stop;
use tidegate::stream::{AggregateOptions, Memory, OnlineAggregation};

use crate::aggregate::Arguments;
use crate::error::raise;
use crate::handle::Handle;
use crate::input::{bound, count, schema};
use crate::operator::{self, Source, bytes, source_stats};

/// Aggregate rows as they come.
#[pyclass(frozen, module = "tidegate")]
pub(crate) struct Aggregate {
    aggregation: Handle<OnlineAggregation>,
    schema: SchemaRef,
    sources: Vec<Source>,
    memory: Memory,
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
        let query = Arguments {
            on,
            size,
            advance,
            offset,
            session,
            by,
            aggs,
            r#where,
            algorithm,
            threads,
            max_rows,
        }
        .read()?;
        let options = AggregateOptions {
            sources: count("sources", sources, 1, 1 << 16)?.unwrap_or(1) as usize,
            lateness: lateness.map(|lateness| bound("lateness", lateness)).transpose()?.flatten(),
            memory_limit: count("memory_limit", memory_limit, 0, i64::MAX)?
                .map(|bytes| bytes as usize),
        };
        let schema = self::schema("schema", schema)?;
        let aggregation = OnlineAggregation::new(&query, schema, &options).map_err(raise)?;
        Ok(Aggregate {
            memory: aggregation.memory(),
            schema: aggregation.schema().clone(),
            sources: aggregation.sources().iter().map(Source::new).collect(),
            aggregation: Handle::new(aggregation.news(), aggregation, "aggregation"),
        })
    }

    /// The schema of the results.
    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        PySchema::new(self.schema.clone()).into_pyarrow(py)
    }

    /// The sources, by number.
    #[getter]
    fn sources(&self) -> PyResult<Vec<Source>> {
        self.aggregation.check()?;
        Ok(self.sources.clone())
    }

    /// Bytes that the operator may hold.
    #[getter]
    fn memory_limit(&self) -> Option<usize> {
        self.memory.limit()
    }

    #[setter]
    fn set_memory_limit(&self, limit: &Bound<'_, PyAny>) -> PyResult<()> {
        self.aggregation.check()?;
        operator::set_limit(&self.memory, limit)
    }

    /// Hand out the next results that are final, if there are any.
    fn poll<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.aggregation.poll(py)
    }

    /// Return the late rows that were not returned yet.
    fn late<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.aggregation.late(py)
    }

    /// Return numbers that describe the aggregation so far.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.aggregation.briefly(py, |aggregation| Ok(aggregation.stats()))?;
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
        self.aggregation.briefly(py, |aggregation| Ok(aggregation.explain()))
    }

    /// Return the state as bytes.
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let snapshot =
            |aggregation: &mut OnlineAggregation, stop: &Stop| aggregation.snapshot(stop);
        let snapshot = self.aggregation.at_length(py, &Stop::default(), snapshot)?;
        bytes(py, &snapshot)
    }

    /// Go on from a snapshot.
    fn restore(&self, py: Python<'_>, snapshot: PyBackedBytes) -> PyResult<()> {
        let restore = move |aggregation: &mut OnlineAggregation, stop: &Stop| {
            aggregation.restore(&snapshot, stop)
        };
        self.aggregation.at_length(py, &Stop::default(), restore)
    }

    /// Drop what is held; sources and polls fail from now on.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.aggregation.close(py, OnlineAggregation::close)
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.aggregation.next(py)
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
