//! Imports Arrow data. All imported data passes through this file and is checked here.
//!
//! `tidegate-import` checks the structures of Arrow's C interfaces. This file checks the contents
//! of the buffers before any value is read. It rejects decreasing offsets, invalid UTF-8, and
//! out-of-bounds dictionary indices. [`UncheckedRows`] does not expose its rows until they have
//! been checked.

use std::cell::OnceCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, OffsetSizeTrait, RecordBatch, RecordBatchOptions, RecordBatchReader,
};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use tidegate::stream::Source;
use tidegate::{Driver, Error, Extra, Stop, Table, check_call, without_index};
use tidegate_import::{ArrowStream, UnopenedStream, UnreadBatch};

use crate::arrow::reader::{BatchReader, SharedStream, next};
use crate::arrow::{capsule, export, frames};
use crate::interpreter::error::{error, raise};
use crate::interpreter::interrupt;
use crate::interpreter::threads::{attached, calling, this_thread};

/// Rows whose values have not been checked yet. Every method that returns the rows checks them
/// first.
#[derive(Clone)]
pub(crate) struct UncheckedRows {
    name: String,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    /// The same rows as a table with an index. These rows have been checked.
    indexed: Option<Table>,
}

impl UncheckedRows {
    /// Returns the schema, which has already been checked.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the rows of a table with an index.
    pub(crate) fn of_index(name: &str, table: &Table) -> Self {
        UncheckedRows {
            name: name.to_owned(),
            schema: table.schema().clone(),
            batches: table.batches().to_vec(),
            indexed: Some(table.clone().named(name)),
        }
    }

    /// Returns the number of rows that a join has to read, which is zero for rows with an index.
    pub(crate) fn rows_to_read(&self) -> usize {
        if self.indexed.is_some() { 0 } else { self.rows() }
    }

    /// Returns the number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Returns the approximate number of bytes in the rows, computed from their unchecked offsets.
    /// For nested values and views, which can share buffers with other rows, the result is an upper
    /// bound.
    pub(crate) fn bytes(&self) -> usize {
        let columns = self.batches.iter().flat_map(RecordBatch::columns);
        columns.map(claimed_bytes).fold(0, usize::saturating_add)
    }

    /// Replaces the schema with one that has different column types. The schema can be replaced
    /// only while there are no rows.
    pub(crate) fn of_schema(self, schema: SchemaRef) -> Self {
        UncheckedRows { schema, ..self }
    }

    /// Returns the rows as a table.
    pub(crate) fn table(self, driver: &Driver) -> tidegate::Result<Table> {
        match self.indexed {
            Some(table) if table.schema() == &self.schema => Ok(table),
            _ => Table::new(self.name, self.schema, self.batches, driver),
        }
    }

    /// Pushes the rows into a source, which checks them.
    pub(crate) fn push(
        self,
        source: &mut Source,
        extra: Extra,
        stop: &Stop,
    ) -> tidegate::Result<()> {
        source.push_fitting(&self.schema, self.batches, extra, stop)
    }

    /// Returns the non-empty batches.
    fn batches(self, driver: &Driver) -> tidegate::Result<Vec<RecordBatch>> {
        Ok(self.table(driver)?.batches().to_vec())
    }
}

/// Returns the number of bytes in a column whose values have not been checked.
fn claimed_bytes(column: &ArrayRef) -> usize {
    fn between<O: OffsetSizeTrait>(offsets: &[O]) -> usize {
        let place = |end: Option<&O>| end.map_or(0, |end| end.as_usize());
        place(offsets.last()).saturating_sub(place(offsets.first()))
    }
    match column.data_type() {
        DataType::Utf8 => between(column.as_string::<i32>().value_offsets()),
        DataType::LargeUtf8 => between(column.as_string::<i64>().value_offsets()),
        DataType::Binary => between(column.as_binary::<i32>().value_offsets()),
        DataType::LargeBinary => between(column.as_binary::<i64>().value_offsets()),
        kind => match kind.primitive_width() {
            Some(width) => column.len().saturating_mul(width),
            None => column.get_array_memory_size(),
        },
    }
}

/// A type that can also export its rows as a stream, but only at half the speed.
const RECORD_BATCH: &str = "pyarrow.lib.RecordBatch";

/// The type of a pandas frame, in pandas 3 and in earlier versions.
const PANDAS_FRAME: [&str; 2] = ["pandas.DataFrame", "pandas.core.frame.DataFrame"];

/// Types that hold their rows in memory. Reading streams of these types never blocks.
const IN_MEMORY: [&str; 4] =
    ["pyarrow.lib.Table", "polars.dataframe.frame.DataFrame", PANDAS_FRAME[0], PANDAS_FRAME[1]];

/// Imported Arrow data that has not been read yet.
pub(crate) struct Input {
    name: String,
    rows: Rows,
    /// True if reading can block or require the GIL.
    pub(crate) waits: bool,
}

enum Rows {
    Stream(UnopenedStream),
    Batch(UnreadBatch),
    /// One of the package's own readers, and the thread that passed it as an input.
    Reader(SharedStream, SchemaRef, u64),
}

/// Imports the data of any object with `__arrow_c_stream__` or `__arrow_c_array__`. Nothing is read
/// yet. A stream can wait for a thread that needs the GIL, so streams are read without the GIL.
pub(crate) fn take(name: &str, ob: &Bound<'_, PyAny>) -> PyResult<Input> {
    let input = |rows, waits| Ok(Input { name: name.to_owned(), rows, waits });
    if let Ok(reader) = ob.cast::<BatchReader>() {
        let (batches, schema) = reader.get().shared()?;
        return input(Rows::Reader(batches, schema, this_thread(ob.py())?), true);
    }
    let kind = ob.get_type().fully_qualified_name()?;
    let kind = kind.to_string_lossy();
    refuse_collected(name, &kind)?;
    // Rows are often pushed as small Arrow tables, which have no index to check for.
    let converted = if kind.starts_with("pyarrow.") {
        check_lengths(name, ob)?;
        None
    } else {
        Some(calling(ob.py(), || with_named_range(ob))?)
    };
    let ob = converted.as_ref().unwrap_or(ob);
    if PANDAS_FRAME.contains(&&*kind)
        && let Some(table) = calling(ob.py(), || frames::short(ob))?
    {
        return input(Rows::Stream(capsule::stream(name, &table)?), false);
    }
    if kind != RECORD_BATCH && ob.hasattr("__arrow_c_stream__")? {
        let waits = !IN_MEMORY.contains(&&*kind);
        return input(Rows::Stream(capsule::stream(name, ob)?), waits);
    }
    if ob.hasattr("__arrow_c_array__")? {
        return input(Rows::Batch(capsule::batch(name, ob)?), false);
    }
    Err(PyTypeError::new_err(format!(
        "{name}: expected Arrow data (an object with __arrow_c_stream__ or __arrow_c_array__, such \
         as a pyarrow Table, a polars or pandas DataFrame, or a DuckDB relation), got {kind}"
    )))
}

/// Converts a pandas frame's named range index to an index with stored values, because Arrow would
/// not export a range index as a column. Other objects are returned unchanged.
fn with_named_range<'py>(ob: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let Some(index) = ob.getattr_opt("index")? else { return Ok(ob.clone()) };
    let kind = index.get_type();
    let is_range = kind.name()? == "RangeIndex" && kind.module()?.to_str()?.starts_with("pandas");
    if !is_range || !ob.hasattr("columns")? {
        return Ok(ob.clone());
    }
    let name = index.getattr("name")?;
    if name.is_none() {
        return Ok(ob.clone());
    }
    let listed =
        ob.py().import("pandas")?.getattr("Index")?.call1((index.call_method0("to_numpy")?,))?;
    let frame = ob.call_method1("copy", (false,))?;
    frame.setattr("index", listed.call_method1("rename", (name,))?)?;
    Ok(frame)
}

/// Returns whether [`take`] should import the object directly. Importing a DuckDB relation directly
/// would also work, but DuckDB itself can read just the requested columns.
pub(crate) fn is_arrow(ob: &Bound<'_, PyAny>) -> PyResult<bool> {
    if ob.is_instance_of::<BatchReader>() {
        return Ok(true);
    }
    if ob.get_type().name()? == "DuckDBPyRelation" {
        return Ok(false);
    }
    Ok(ob.hasattr("__arrow_c_stream__")? || ob.hasattr("__arrow_c_array__")?)
}

impl Input {
    /// Requests the schema. This can take as long as reading the data.
    pub(crate) fn open(self) -> tidegate::Result<Batches> {
        let name = self.name;
        let (rows, schema) = match self.rows {
            Rows::Stream(stream) => {
                check_call()?;
                let stream = stream.open().map_err(|failure| error(&name, failure))?;
                let schema = stream.schema();
                (OpenInput::Stream(stream), schema)
            }
            Rows::Batch(batch) => {
                let schema = batch.schema();
                (OpenInput::Batch(Some(batch)), schema)
            }
            Rows::Reader(batches, schema, caller) => {
                (OpenInput::Reader(batches, Some(caller)), schema)
            }
        };
        let (schema, kept) = plain(schema, &rows);
        Ok(Batches { name, rows, schema, kept, stop: Stop::default(), user_thread: None })
    }

    /// Like [`open`](Self::open), but stops waiting when `stop` is requested.
    pub(crate) fn open_until(self, stop: &Stop) -> tidegate::Result<Batches> {
        let mut batches = self.open()?;
        batches.stop = stop.clone();
        Ok(batches)
    }

    fn read(self, stop: &Stop) -> tidegate::Result<UncheckedRows> {
        let mut given = self.open_until(stop)?;
        let mut batches = Vec::new();
        while let Some(batch) = given.next_unchecked()? {
            batches.push(batch);
            check(stop)?;
        }
        Ok(UncheckedRows { name: given.name, schema: given.schema, batches, indexed: None })
    }
}

/// Imports an object and reads all its data; Ctrl-C interrupts the wait.
///
/// Each object is read completely before the next object's stream is requested, because a DuckDB
/// connection cannot have two open results at the same time.
pub(crate) fn read(name: &str, ob: &Bound<'_, PyAny>, stop: &Stop) -> PyResult<UncheckedRows> {
    let input = take(name, ob)?;
    let reading = stop.clone();
    if input.waits {
        interrupt::run(ob.py(), stop, move || input.read(&reading))
    } else {
        interrupt::detached(ob.py(), move || input.read(&reading))
    }
}

/// Returns the rows in a single batch, checked on this thread, or `None` if there are no rows.
///
/// This function is intended for rows from Python code, and for callers that must not block.
pub(crate) fn batch(name: &str, ob: &Bound<'_, PyAny>) -> PyResult<Option<RecordBatch>> {
    let rows = read(name, ob, &Stop::default())?;
    let mut batches = interrupt::detached(ob.py(), || rows.batches(&one_thread()))?;
    if batches.len() > 1 {
        return Err(raise(Error::bug("rows arrive as one batch")));
    }
    Ok(batches.pop())
}

/// Rejects rows with malformed values. Python code calls this function before it processes any
/// rows.
#[pyfunction]
#[pyo3(name = "_check")]
pub(crate) fn check_rows(data: &Bound<'_, PyAny>, name: &str) -> PyResult<()> {
    let rows = read(name, data, &Stop::default())?;
    interrupt::detached(data.py(), || rows.batches(&one_thread()))?;
    Ok(())
}

/// The batches of another library's stream. Each batch is checked as it is read.
#[pyclass(frozen, name = "_CheckedBatches", module = "tidegate")]
pub(crate) struct CheckedBatches {
    /// `None` while a batch is being read, because the stream can run Python code that requests
    /// another batch.
    batches: Mutex<Option<Batches>>,
    schema: SchemaRef,
}

impl CheckedBatches {
    fn left(&self) -> MutexGuard<'_, Option<Batches>> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl CheckedBatches {
    #[new]
    fn new(data: &Bound<'_, PyAny>, name: &str) -> PyResult<Self> {
        let input = take(name, data)?;
        let stop = Stop::default();
        let until = stop.clone();
        let batches = interrupt::run(data.py(), &stop, move || input.open_until(&until))?;
        let schema = batches.schema.clone();
        Ok(CheckedBatches { batches: Mutex::new(Some(batches)), schema })
    }

    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        export::schema(py, &self.schema)
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let thread = this_thread(py)?;
        let Some(mut batches) = self.left().take() else {
            return Err(raise(Error::argument(
                "the stream is already being read, and this code runs inside it; read it from code \
                 outside the stream",
            )));
        };
        batches.set_caller(Some(thread));
        let next = interrupt::detached(py, || Ok(batches.next_batch(&one_thread())));
        *self.left() = Some(batches);
        next?.map_err(raise)?.map(|batch| export::batch(py, batch)).transpose()
    }
}

fn one_thread() -> Driver {
    Driver::new(1, Stop::default())
}

fn check(stop: &Stop) -> tidegate::Result<()> {
    if stop.is_requested() { Err(Error::stopped("the work was asked to stop")) } else { Ok(()) }
}

/// The batches of an input, read without the GIL.
pub(crate) struct Batches {
    name: String,
    rows: OpenInput,
    schema: SchemaRef,
    /// The positions of the columns to keep, if the pandas index is dropped.
    kept: Option<Vec<usize>>,
    /// Ends the wait for a batch from one of the package's own readers.
    stop: Stop,
    /// The variable in which the reading thread's identifier is recorded.
    user_thread: Option<UserThread>,
}

/// The Python identifier of the thread that runs a stream's user code, while that thread runs it.
pub(crate) type UserThread = Arc<Mutex<Option<u64>>>;

enum OpenInput {
    Stream(ArrowStream),
    Batch(Option<UnreadBatch>),
    /// One of the package's own readers, and the thread that waits for it, if known.
    Reader(SharedStream, Option<u64>),
}

impl Batches {
    /// Makes a thread that reads in the background record whose user code it waits for.
    pub(crate) fn tell_thread(&mut self, user_thread: &UserThread) {
        self.user_thread = Some(user_thread.clone());
        self.set_caller(None);
    }

    /// Sets the thread that waits for the next batch. The thread that passed the input may have
    /// other work by now.
    fn set_caller(&mut self, thread: Option<u64>) {
        if let OpenInput::Reader(_, caller) = &mut self.rows {
            *caller = thread;
        }
    }

    /// Returns the schema of the batches.
    pub(crate) fn columns(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the next non-empty batch.
    pub(crate) fn next_batch(&mut self, driver: &Driver) -> tidegate::Result<Option<RecordBatch>> {
        while let Some(batch) = self.next_unchecked()? {
            let (name, schema) = (self.name.clone(), self.schema.clone());
            let mut batches = UncheckedRows { name, schema, batches: vec![batch], indexed: None }
                .batches(driver)?;
            if let Some(batch) = batches.pop() {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }

    /// Returns the batches for a merge. The rows are checked later, when the merge pushes them into
    /// a source.
    pub(crate) fn for_sources(self) -> Box<dyn RecordBatchReader + Send> {
        Box::new(ForSources(self))
    }

    fn next_unchecked(&mut self) -> tidegate::Result<Option<RecordBatch>> {
        check_call()?;
        let reading = |thread: Option<u64>| {
            if let Some(user_thread) = &self.user_thread {
                *user_thread.lock().unwrap_or_else(PoisonError::into_inner) = thread;
            }
        };
        let batch = match &mut self.rows {
            OpenInput::Stream(stream) => {
                reading(own_number());
                stream.next_batch().map_err(|failure| error(&self.name, failure))
            }
            OpenInput::Batch(batch) => {
                reading(own_number());
                let read = batch.take().map(UnreadBatch::read).transpose();
                read.map_err(|failure| error(&self.name, failure))
            }
            OpenInput::Reader(batches, caller) => next(batches, *caller, || {
                reading(batches.user_thread());
                check(&self.stop)
            }),
        };
        // The next batch can be read by another thread, and this one can become its consumer.
        reading(None);
        batch?.map(|batch| self.without_index(batch)).transpose()
    }

    fn without_index(&self, batch: RecordBatch) -> tidegate::Result<RecordBatch> {
        let Some(kept) = &self.kept else { return Ok(batch) };
        let columns = kept.iter().map(|&at| batch.column(at).clone()).collect();
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &rows)
            .map_err(|failure| Error::data(format!("{}: {failure}", self.name)))
    }
}

/// Returns the schema without the pandas index, and the positions of the remaining columns. The
/// package's own readers do not have an index.
fn plain(schema: SchemaRef, rows: &OpenInput) -> (SchemaRef, Option<Vec<usize>>) {
    match without_index(&schema) {
        Some((schema, kept)) if !matches!(rows, OpenInput::Reader(..)) => (schema, Some(kept)),
        _ => (schema, None),
    }
}

struct ForSources(Batches);

impl Iterator for ForSources {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.0.next_unchecked().transpose()?;
        Some(batch.map_err(|error| ArrowError::ExternalError(Box::new(error))))
    }
}

impl RecordBatchReader for ForSources {
    fn schema(&self) -> SchemaRef {
        self.0.schema.clone()
    }
}

/// Returns this thread's Python identifier, or `None` if Python is not running. The thread's
/// identifier is looked up only once.
fn own_number() -> Option<u64> {
    thread_local! {
        static NUMBER: OnceCell<Option<u64>> = const { OnceCell::new() };
    }
    let ask = || attached(this_thread).and_then(Result::ok);
    NUMBER.with(|number| *number.get_or_init(ask))
}

/// Returns an Arrow object's schema. If the object can report its schema separately, the object is
/// not consumed.
pub(crate) fn schema(name: &str, ob: &Bound<'_, PyAny>) -> PyResult<SchemaRef> {
    for candidate in [Some(ob.clone()), ob.getattr_opt("schema")?].into_iter().flatten() {
        if candidate.hasattr("__arrow_c_schema__")? {
            let schema = capsule::schema(name, &candidate)?;
            return Ok(without_index(&schema).map_or(schema, |(schema, _)| schema));
        }
    }
    let input = take(name, ob)?;
    interrupt::run(ob.py(), &Stop::default(), move || Ok(Arc::clone(&input.open()?.schema)))
}

/// Rejects a Spark `DataFrame`, which would have to collect all its rows on the driver to export
/// them.
fn refuse_collected(name: &str, kind: &str) -> PyResult<()> {
    if !kind.starts_with("pyspark.") {
        return Ok(());
    }
    let frame = if kind.starts_with("pyspark.pandas.") { "to_spark()." } else { "" };
    Err(PyTypeError::new_err(format!(
        "{name}: a Spark DataFrame would be collected on the driver; call the function of \
         `tidegate.spark`, or, if it is small, give its {frame}toArrow()"
    )))
}

/// Makes pyarrow check the lengths of buffers against the offsets, because the C data interface
/// does not convey those lengths.
fn check_lengths(name: &str, ob: &Bound<'_, PyAny>) -> PyResult<()> {
    if ob.hasattr("validate")? {
        calling(ob.py(), || ob.call_method0("validate")).map_err(|error| {
            raise(Error::data(format!("{name}: malformed Arrow data: {}", error.value(ob.py()))))
        })?;
    }
    Ok(())
}
