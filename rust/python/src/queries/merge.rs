//! `merge`, `merge_batches`, and the class `Merge`.

use std::sync::PoisonError;
use std::time::Duration;

use arrow_schema::{DataType, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::PyType;
use tidegate::stream::{self, MergeOptions, MergeStreams, merge_tables, merged_schema};
use tidegate::{Bound as Length, Driver, Next, Stop, Table};

use crate::arrow::export;
use crate::arrow::import::{Input, UncheckedRows, UserThread, take};
use crate::arrow::reader::{BatchReader, BatchStream, HeldInputs, Numbers};
use crate::inputs::arguments::{self, bound, bytes, count, threads_of};
use crate::inputs::rows::{listed, read, schema};
use crate::inputs::untyped;
use crate::interpreter::interrupt::{self, Size};
use crate::operators::handle::Handle;
use crate::operators::operator::Operator;
use crate::operators::stats::stats;
use crate::queries::tables::are_few;

#[doc = manual!(merge)]
#[pyfunction]
#[pyo3(signature = (streams, *, on="ts", lateness=None, threads=None))]
pub(crate) fn merge<'py>(
    py: Python<'py>,
    streams: &Bound<'py, PyAny>,
    on: &str,
    lateness: Option<&Bound<'py, PyAny>>,
    threads: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let lateness = lateness.map(|lateness| bound("lateness", lateness)).transpose()?.flatten();
    let threads = threads_of(threads)?;
    let streams = listed(streams)?;
    let stop = Stop::default();
    // Tables are in memory, and the whole result will be in memory too, so streams are read
    // completely first.
    let named = streams.iter().enumerate();
    let read: Vec<UncheckedRows> = named
        .map(|(at, stream)| read(&format!("streams[{at}]"), stream, &stop))
        .collect::<PyResult<_>>()?;
    let rows = read.iter().map(UncheckedRows::rows).sum();
    let (on, time, running) = (on.to_owned(), on.to_owned(), stop.clone());
    let is_short = are_few(&read.iter().collect::<Vec<_>>());
    let size = if is_short { Size::Short } else { Size::Rows(rows) };
    let check = move |driver: &Driver| {
        let schemas: Vec<SchemaRef> = read.iter().map(|rows| rows.schema().clone()).collect();
        let time = |name: &str| (name == time).then_some(DataType::Int64);
        let schemas = untyped::of_streams(&schemas, |at| read[at].rows() == 0, time);
        let typed = read.into_iter().zip(schemas).map(|(rows, schema)| rows.of_schema(schema));
        let tables = typed.map(|rows| rows.table(driver));
        untyped::with_room(tables.collect::<tidegate::Result<Vec<_>>>()?)
    };
    let work = move |tables: &[Table]| {
        let merged = merge_tables(tables, &on, lateness, &Driver::new(threads, running))?;
        Ok((merged, merged_schema(tables)))
    };
    let (batches, schema) = interrupt::run_on_tables(py, &stop, threads, size, check, work)?;
    export::table(py, batches, schema)
}

#[doc = manual!(merge_batches)]
#[pyfunction]
#[pyo3(signature = (streams, *, on="ts", lateness=None, threads=None, memory_limit=None))]
pub(crate) fn merge_batches(
    py: Python<'_>,
    streams: &Bound<'_, PyAny>,
    on: &str,
    lateness: Option<&Bound<'_, PyAny>>,
    threads: Option<&Bound<'_, PyAny>>,
    memory_limit: Option<&Bound<'_, PyAny>>,
) -> PyResult<BatchReader> {
    let mut opening = MergeArguments::read(streams, on, lateness, threads)?;
    opening.memory_limit = bytes("memory_limit", memory_limit)?;
    let user_thread = UserThread::default();
    let told = user_thread.clone();
    let merge = interrupt::run(py, &Stop::default(), move || opening.open(&told))?;
    let schema = merge.schema().clone();
    Ok(BatchReader::new(RunningMerge { merge, user_thread }, schema, "merge_batches"))
}

/// The arguments for merging streams.
struct MergeArguments {
    streams: Vec<Input>,
    on: String,
    lateness: Option<Length>,
    threads: usize,
    memory_limit: Option<usize>,
}

impl MergeArguments {
    fn read(
        streams: &Bound<'_, PyAny>,
        on: &str,
        lateness: Option<&Bound<'_, PyAny>>,
        threads: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let lateness = lateness.map(|lateness| bound("lateness", lateness)).transpose()?.flatten();
        let threads = threads_of(threads)?;
        let streams = listed(streams)?;
        let take = |(number, stream)| {
            let name = format!("streams[{number}]");
            take(&name, stream)
        };
        let streams = streams.iter().enumerate().map(take).collect::<PyResult<_>>()?;
        Ok(MergeArguments { streams, on: on.to_owned(), lateness, threads, memory_limit: None })
    }

    /// Requests the streams' schemas. Streams that can block are read by another thread, whose
    /// identifier is recorded.
    fn open(self, user_thread: &UserThread) -> tidegate::Result<MergeStreams> {
        let open = |input: Input| {
            let waits = input.waits;
            let mut batches = input.open()?;
            if waits {
                batches.tell_thread(user_thread);
            }
            Ok(stream::MergeInput { batches: batches.for_sources(), waits })
        };
        let streams = self.streams.into_iter().map(open).collect::<tidegate::Result<_>>()?;
        MergeStreams::new(streams, &self.on, self.lateness, self.threads, self.memory_limit)
    }
}

/// A merge of streams in which one thread reads the streams that can block.
struct RunningMerge {
    merge: MergeStreams,
    user_thread: UserThread,
}

impl BatchStream for RunningMerge {
    fn next_within(&self, patience: Duration) -> tidegate::Result<Next> {
        self.merge.next_within(patience)
    }

    fn stats(&self) -> Numbers {
        let numbers = self.merge.stats();
        Box::new(move |py| stats(py, &numbers))
    }

    fn close(&self) {
        self.merge.close();
    }

    fn held(&self) -> HeldInputs {
        self.merge.held()
    }

    fn user_thread(&self) -> Option<u64> {
        if !self.merge.is_reading() {
            return None;
        }
        *self.user_thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn needs_gil(&self) -> bool {
        // Streams can run Python code, and rows can be stored in the memory of Python objects.
        true
    }
}

#[doc = manual!(Merge)]
#[pyclass(frozen, extends = Operator, subclass, module = "tidegate")]
pub(crate) struct Merge {
    on: String,
}

#[pymethods]
impl Merge {
    #[new]
    #[pyo3(signature = (schema, *, on="ts", sources=None, lateness=None, memory_limit=None, threads=None, digest=false))]
    fn new(
        schema: &Bound<'_, PyAny>,
        on: &str,
        sources: Option<&Bound<'_, PyAny>>,
        lateness: Option<&Bound<'_, PyAny>>,
        memory_limit: Option<&Bound<'_, PyAny>>,
        threads: Option<&Bound<'_, PyAny>>,
        digest: bool,
    ) -> PyResult<PyClassInitializer<Self>> {
        let options = MergeOptions {
            on: on.to_owned(),
            sources: count("sources", sources, 1, 1 << 16)?.unwrap_or(1) as usize,
            lateness: arguments::lateness(lateness)?,
            memory_limit: bytes("memory_limit", memory_limit)?,
            threads: threads_of(threads)?,
        };
        let py = schema.py();
        let schema = self::schema("schema", schema)?;
        let merge = interrupt::detached(py, || stream::merge(schema, &options))?;
        let merge = Operator::new(merge, digest);
        Ok(PyClassInitializer::from(merge).add_subclass(Merge { on: on.to_owned() }))
    }

    #[doc = manual!(Merge.on)]
    #[getter]
    fn on(&self) -> &str {
        &self.on
    }

    #[doc = manual!(Merge.reader)]
    fn reader(slf: PyRef<'_, Self>, py: Python<'_>) -> PyResult<MergeReader> {
        let merge = slf.as_super();
        Ok(MergeReader { handle: merge.handle.reader(py)?, schema: merge.schema.clone() })
    }
}

#[doc = manual!(MergeReader)]
#[pyclass(frozen, module = "tidegate")]
pub(crate) struct MergeReader {
    handle: Handle,
    schema: SchemaRef,
}

#[pymethods]
impl MergeReader {
    #[doc = manual!(MergeReader.schema)]
    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        export::schema(py, &self.schema)
    }

    #[doc = manual!(MergeReader.poll)]
    fn poll<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.handle.poll(py)
    }

    #[doc = manual!(MergeReader.close)]
    fn close(&self) -> PyResult<()> {
        self.handle.close_reader()
    }

    /// Like the operator method with the same name, adapted to asyncio.
    fn _is_ready_within(&self, py: Python<'_>, seconds: f64) -> PyResult<Option<bool>> {
        self.handle.is_ready_within(py, Duration::from_secs_f64(seconds.clamp(0.0, 60.0)))
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.handle.next(py)
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __exit__(
        &self,
        _type: Option<&Bound<'_, PyType>>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.close()
    }
}
