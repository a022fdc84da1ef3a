//! `merge`, `merge_batches` and the class `Merge`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arrow_schema::SchemaRef;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyType};
use pyo3_arrow::PySchema;
use tidegate::incremental::{self, MergeOptions, MergeStats, MergeStreams, News};
use tidegate::{Error, MAX_THREADS, Next};

use crate::error::raise;
use crate::input::{bound, count, reader, schema};
use crate::interrupt::detached;
use crate::operator::{self, Source, check_process, source_stats};
use crate::reader::{BatchReader, BatchStream, Numbers};

/// Merge sorted streams into one.
#[pyfunction]
#[pyo3(signature = (streams, *, on="ts", lateness=None, threads=None))]
pub(crate) fn merge<'py>(
    py: Python<'py>,
    streams: &Bound<'py, PyAny>,
    on: &str,
    lateness: Option<&Bound<'py, PyAny>>,
    threads: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut merge = open(streams, on, lateness, threads)?;
    let mut batches = Vec::new();
    while let Some(batch) = detached(py, || merge.next())? {
        batches.push(batch);
        py.check_signals()?;
    }
    operator::table(py, batches, merge.schema().clone())
}

/// Do as `merge`, and return the rows batch by batch.
#[pyfunction]
#[pyo3(signature = (streams, *, on="ts", lateness=None, threads=None))]
pub(crate) fn merge_batches(
    streams: &Bound<'_, PyAny>,
    on: &str,
    lateness: Option<&Bound<'_, PyAny>>,
    threads: Option<&Bound<'_, PyAny>>,
) -> PyResult<BatchReader> {
    let merge = open(streams, on, lateness, threads)?;
    let schema = merge.schema().clone();
    Ok(BatchReader::new(merge, schema, "merge_batches"))
}

fn open(
    streams: &Bound<'_, PyAny>,
    on: &str,
    lateness: Option<&Bound<'_, PyAny>>,
    threads: Option<&Bound<'_, PyAny>>,
) -> PyResult<MergeStreams> {
    let lateness = lateness.map(|lateness| bound("lateness", lateness)).transpose()?.flatten();
    let threads = threads_of(threads)?;
    let streams = listed(streams)?;
    check_distinct(&streams)?;
    let open = |(number, stream)| reader(&format!("streams[{number}]"), stream);
    let streams = streams.iter().enumerate().map(open).collect::<PyResult<_>>()?;
    MergeStreams::new(streams, on, lateness, threads).map_err(raise)
}

fn listed<'py>(streams: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let wrong = || {
        let kind = streams.get_type();
        PyTypeError::new_err(format!("streams: expected a list of Arrow streams or tables, got {kind}"))
    };
    if streams.is_instance_of::<PyString>() || streams.hasattr("__arrow_c_stream__")? {
        return Err(wrong());
    }
    streams.try_iter().map_err(|_| wrong())?.collect()
}

/// Refuses one stream in two places: it can be read once only.
fn check_distinct(streams: &[Bound<'_, PyAny>]) -> PyResult<()> {
    let mut seen = HashMap::new();
    for (number, stream) in streams.iter().enumerate() {
        if !stream.hasattr("__next__")? && !stream.hasattr("read_next_batch")? {
            continue;
        }
        if let Some(first) = seen.insert(stream.as_ptr(), number) {
            return Err(raise(Error::closed(format!(
                "streams[{first}] and streams[{number}] are the same stream, which can be read once only; read it into \
                 a table first"
            ))));
        }
    }
    Ok(())
}

fn threads_of(threads: Option<&Bound<'_, PyAny>>) -> PyResult<usize> {
    let threads = count("threads", threads, 1, MAX_THREADS as i64)?;
    Ok(threads.map_or_else(tidegate::default_threads, |threads| threads as usize))
}

impl BatchStream for MergeStreams {
    fn next_within(&mut self, _patience: Duration) -> tidegate::Result<Next> {
        Ok(self.next()?.map_or(Next::End, Next::Batch))
    }

    fn stats(&self) -> Numbers {
        let stats = MergeStreams::stats(self);
        Box::new(move |py| stats_dict(py, &stats))
    }

    fn close(&mut self) {
        MergeStreams::close(self);
    }
}

fn stats_dict<'py>(py: Python<'py>, stats: &MergeStats) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let sources = source_stats(py, &stats.sources, &dict)?;
    dict.set_item("rows_out", stats.rows_out)?;
    dict.set_item("watermark", stats.watermark)?;
    dict.set_item("memory", stats.memory)?;
    dict.set_item("sources", sources)?;
    Ok(dict)
}

/// Merge sources that are pushed to.
#[pyclass(frozen, module = "tidegate")]
pub(crate) struct Merge {
    merge: Mutex<incremental::Merge>,
    schema: SchemaRef,
    news: Arc<News>,
    process: u32,
}

impl Merge {
    fn lock(&self) -> MutexGuard<'_, incremental::Merge> {
        self.merge.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Merge {
    #[new]
    #[pyo3(signature = (schema, *, on="ts", sources=None, lateness=None, memory_limit=None, threads=None))]
    fn new(
        schema: &Bound<'_, PyAny>,
        on: &str,
        sources: Option<&Bound<'_, PyAny>>,
        lateness: Option<&Bound<'_, PyAny>>,
        memory_limit: Option<&Bound<'_, PyAny>>,
        threads: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let options = MergeOptions {
            on: on.to_owned(),
            sources: count("sources", sources, 1, 1 << 16)?.unwrap_or(1) as usize,
            lateness: lateness.map(|lateness| bound("lateness", lateness)).transpose()?.flatten(),
            memory_limit: count("memory_limit", memory_limit, 0, i64::MAX)?.map(|bytes| bytes as usize),
            threads: threads_of(threads)?,
        };
        let schema = self::schema("schema", schema)?;
        let merge = incremental::Merge::new(schema.clone(), &options).map_err(raise)?;
        Ok(Merge { news: merge.news(), merge: Mutex::new(merge), schema, process: std::process::id() })
    }

    /// The schema of the sources and of the merged rows.
    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        PySchema::new(self.schema.clone()).into_pyarrow(py)
    }

    /// The sources, by number.
    #[getter]
    fn sources(&self, py: Python<'_>) -> PyResult<Vec<Source>> {
        check_process(self.process, "merge")?;
        Ok(py.detach(|| self.lock().sources().iter().map(Source::new).collect()))
    }

    /// Hand out the next rows that are ready, if there are any.
    fn poll<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        check_process(self.process, "merge")?;
        operator::poll(py, || self.lock().poll())
    }

    /// Return the late rows that were not returned yet.
    fn late<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        check_process(self.process, "merge")?;
        let (batches, schema) = detached(py, || {
            let merge = self.lock();
            merge.late().map(|batches| (batches, merge.late_schema()))
        })?;
        operator::table(py, batches, schema)
    }

    /// Return numbers that describe the merge so far.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        check_process(self.process, "merge")?;
        stats_dict(py, &py.detach(|| self.lock().stats()))
    }

    /// Drop what is held; sources and polls fail from now on.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        check_process(self.process, "merge")?;
        py.detach(|| self.lock().close());
        Ok(())
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        check_process(self.process, "merge")?;
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
