//! `merge`, `merge_batches` and the class `Merge`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyType};
use pyo3_arrow::PySchema;
use tidegate::incremental::{self, MergeOptions, MergeStats, MergeStreams, News, Reader};
use tidegate::{MAX_THREADS, Next};

use crate::error::raise;
use crate::input::{bound, count, reader, schema};
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
    let mut streams = Streams::open(streams, on, lateness, threads)?;
    let schema = streams.merge.schema().clone();
    let mut batches = Vec::new();
    loop {
        match py.detach(|| streams.next()) {
            Ok(Some(batch)) => batches.push(batch),
            Ok(None) => return operator::table(py, batches, schema),
            Err(error) => return Err(streams.raised().unwrap_or_else(|| raise(error))),
        }
        py.check_signals()?;
    }
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
    let streams = Streams::open(streams, on, lateness, threads)?;
    let schema = streams.merge.schema().clone();
    Ok(BatchReader::new(streams, schema, "merge_batches"))
}

/// Streams that are merged, and the exception that one of them raised.
struct Streams {
    merge: MergeStreams,
    raised: Arc<Mutex<Option<PyErr>>>,
}

impl Streams {
    fn open(
        streams: &Bound<'_, PyAny>,
        on: &str,
        lateness: Option<&Bound<'_, PyAny>>,
        threads: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let wrong = || {
            let kind = streams.get_type();
            PyTypeError::new_err(format!("streams: expected a list of Arrow streams or tables, got {kind}"))
        };
        if streams.is_instance_of::<PyString>() || streams.hasattr("__arrow_c_stream__")? {
            return Err(wrong());
        }
        let lateness = lateness.map(|lateness| bound("lateness", lateness)).transpose()?.flatten();
        let threads = threads_of(threads)?;
        let raised = Arc::new(Mutex::new(None));
        let open = |(number, stream): (usize, PyResult<Bound<'_, PyAny>>)| {
            let reader = reader(&format!("streams[{number}]"), &stream?)?;
            Ok(Box::new(Keeping { reader, raised: raised.clone() }) as Reader)
        };
        let streams = streams.try_iter().map_err(|_| wrong())?.enumerate().map(open).collect::<PyResult<_>>()?;
        let merge = MergeStreams::new(streams, on, lateness, threads).map_err(raise)?;
        Ok(Streams { merge, raised })
    }

    fn next(&mut self) -> tidegate::Result<Option<RecordBatch>> {
        self.merge.next()
    }
}

fn threads_of(threads: Option<&Bound<'_, PyAny>>) -> PyResult<usize> {
    let threads = count("threads", threads, 1, MAX_THREADS as i64)?;
    Ok(threads.map_or_else(tidegate::default_threads, |threads| threads as usize))
}

impl BatchStream for Streams {
    fn next_within(&mut self, _patience: Duration) -> tidegate::Result<Next> {
        Ok(self.next()?.map_or(Next::End, Next::Batch))
    }

    fn stats(&self) -> Numbers {
        let stats = self.merge.stats();
        Box::new(move |py| stats_dict(py, &stats))
    }

    fn raised(&mut self) -> Option<PyErr> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn close(&mut self) {
        self.merge.close();
    }
}

/// A stream that keeps the exception behind its error.
struct Keeping {
    reader: Reader,
    raised: Arc<Mutex<Option<PyErr>>>,
}

impl Iterator for Keeping {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.reader.next()?;
        Some(batch.map_err(|error| match error {
            ArrowError::ExternalError(error) => match error.downcast::<PyErr>() {
                Ok(error) => {
                    let text = error.to_string();
                    *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(*error);
                    ArrowError::CDataInterface(text)
                }
                Err(error) => ArrowError::ExternalError(error),
            },
            error => error,
        }))
    }
}

impl RecordBatchReader for Keeping {
    fn schema(&self) -> SchemaRef {
        self.reader.schema()
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
            sources: count("sources", sources, 0, 1 << 16)?.unwrap_or(1) as usize,
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
        let (batches, schema) = py
            .detach(|| {
                let merge = self.lock();
                merge.late().map(|batches| (batches, merge.late_schema()))
            })
            .map_err(raise)?;
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
