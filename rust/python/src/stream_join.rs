//! The class `StreamJoin`: what the classes of incremental joins share, which is all but how they
//! are made.

use arrow_schema::SchemaRef;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyTuple, PyType};
use pyo3_arrow::PySchema;
use tidegate::stream::{self, Figure, Memory, StreamOptions};
use tidegate::{Bound as Duration, Stop};

use crate::handle::Handle;
use crate::input::{bound, count};
use crate::operator::{self, Source, bytes, source_stats};

/// Join the rows of sources.
#[pyclass(frozen, subclass, module = "tidegate")]
pub(crate) struct StreamJoin {
    join: Handle<stream::StreamJoin>,
    schema: SchemaRef,
    sources: Vec<Source>,
    left_sources: usize,
    memory: Memory,
}

impl StreamJoin {
    pub(crate) fn new(join: stream::StreamJoin) -> Self {
        StreamJoin {
            memory: join.memory(),
            schema: join.schema().clone(),
            sources: join.sources().iter().map(Source::new).collect(),
            left_sources: join.left_sources(),
            join: Handle::new(join.news(), join, "join"),
        }
    }
}

/// The arguments of all incremental joins, beside those of the query.
pub(crate) fn options(
    sources: Option<&Bound<'_, PyAny>>,
    lateness: Option<&Bound<'_, PyAny>>,
    memory_limit: Option<&Bound<'_, PyAny>>,
    ordered: bool,
    pin: bool,
) -> PyResult<StreamOptions> {
    Ok(StreamOptions {
        sources: sources_of(sources)?,
        lateness: lateness_of(lateness)?,
        memory_limit: count("memory_limit", memory_limit, 0, i64::MAX)?.map(|bytes| bytes as usize),
        ordered,
        pin,
    })
}

/// The number of sources of each side.
fn sources_of(sources: Option<&Bound<'_, PyAny>>) -> PyResult<(usize, usize)> {
    let Some(sources) = sources else { return Ok((1, 1)) };
    let wrong = || {
        let kind = sources.get_type();
        PyTypeError::new_err(format!(
            "sources: expected a pair (left sources, right sources), got {kind}"
        ))
    };
    let pair = sources.cast::<PyTuple>().map_err(|_| wrong())?;
    if pair.len() != 2 {
        return Err(wrong());
    }
    let number = |at: usize| -> PyResult<usize> {
        Ok(count("sources", Some(&pair.get_item(at)?), 1, 1 << 15)?.unwrap_or(1) as usize)
    };
    Ok((number(0)?, number(1)?))
}

/// How late rows of each side may be: one duration, or a pair.
fn lateness_of(
    lateness: Option<&Bound<'_, PyAny>>,
) -> PyResult<(Option<Duration>, Option<Duration>)> {
    let Some(lateness) = lateness else { return Ok((None, None)) };
    match lateness.cast::<PyTuple>() {
        Ok(pair) if pair.len() == 2 => {
            Ok((bound("lateness", &pair.get_item(0)?)?, bound("lateness", &pair.get_item(1)?)?))
        }
        _ => {
            let both = bound("lateness", lateness)?;
            Ok((both, both))
        }
    }
}

#[pymethods]
impl StreamJoin {
    /// The schema of the results.
    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        PySchema::new(self.schema.clone()).into_pyarrow(py)
    }

    /// The sources, left ones first.
    #[getter]
    fn sources(&self) -> PyResult<Vec<Source>> {
        self.join.check()?;
        Ok(self.sources.clone())
    }

    /// The sources of the left side.
    #[getter]
    fn left_sources(&self) -> PyResult<Vec<Source>> {
        self.join.check()?;
        Ok(self.sources[..self.left_sources].to_vec())
    }

    /// The sources of the right side.
    #[getter]
    fn right_sources(&self) -> PyResult<Vec<Source>> {
        self.join.check()?;
        Ok(self.sources[self.left_sources..].to_vec())
    }

    /// Bytes that the operator may hold.
    #[getter]
    fn memory_limit(&self) -> Option<usize> {
        self.memory.limit()
    }

    #[setter]
    fn set_memory_limit(&self, limit: &Bound<'_, PyAny>) -> PyResult<()> {
        self.join.check()?;
        operator::set_limit(&self.memory, limit)
    }

    /// Hand out the next results that are final, if there are any.
    fn poll<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.join.poll(py)
    }

    /// Return the late rows that were not returned yet.
    fn late<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.join.late(py)
    }

    /// Return numbers that describe the join so far.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.join.briefly(py, |join| Ok(join.stats()))?;
        let dict = PyDict::new(py);
        let sources = source_stats(py, &stats.sources, &dict)?;
        dict.set_item("rows_out", stats.rows_out)?;
        dict.set_item("watermark", stats.watermark)?;
        dict.set_item("state_rows", stats.state_rows.0 + stats.state_rows.1)?;
        dict.set_item("state_bytes", stats.state_bytes)?;
        dict.set_item("memory", stats.memory)?;
        dict.set_item("memory_limit", stats.memory_limit)?;
        dict.set_item("comparisons", stats.comparisons)?;
        dict.set_item("latency", stats.latency)?;
        for (name, figure) in &stats.figures {
            match figure {
                Figure::Number(number) => dict.set_item(*name, number)?,
                Figure::Text(text) => dict.set_item(*name, text)?,
            }
        }
        dict.set_item("sources", sources)?;
        Ok(dict)
    }

    /// Say what the join does, as `tidegate.explain` would.
    fn explain(&self, py: Python<'_>) -> PyResult<String> {
        self.join.briefly(py, |join| Ok(join.explain()))
    }

    /// Return the state as bytes.
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let snapshot =
            self.join.at_length(py, &Stop::default(), |join, stop| join.snapshot(stop))?;
        bytes(py, &snapshot)
    }

    /// Go on from a snapshot.
    fn restore(&self, py: Python<'_>, snapshot: PyBackedBytes) -> PyResult<()> {
        self.join.at_length(py, &Stop::default(), move |join, stop| join.restore(&snapshot, stop))
    }

    /// Drop what is held; sources and polls fail from now on.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.join.close(py, stream::StreamJoin::close)
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.join.next(py)
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
