//! Arguments: Arrow data by capsule, columns, durations.

use std::cell::OnceCell;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDelta, PyDict, PyInt, PyList, PyString, PyTuple};
use tidegate::stream::Lateness;
use tidegate::{
    Bound as Duration, End, Error, MAX_THREADS, Stop, check_call, parse_duration, shown,
};
use tidegate_import::{Stream, Unopened, UnreadBatch};

use crate::error::{error, raise};
use crate::reader::{BatchReader, SharedStream, next, this_thread};
use crate::{capsule, expression, interrupt};

/// A type that gives its rows as a stream, too. That takes pyarrow twice as long.
const RECORD_BATCH: &str = "pyarrow.lib.RecordBatch";

/// Types whose rows are in memory, so that their streams never wait for anything.
const IN_MEMORY: [&str; 4] = [
    "pyarrow.lib.Table",
    "polars.dataframe.frame.DataFrame",
    "pandas.DataFrame",
    "pandas.core.frame.DataFrame",
];

/// Arrow data that was taken over, and not yet read.
pub(crate) struct Input {
    name: String,
    rows: Rows,
    /// Whether reading may take long, or need the GIL.
    pub(crate) waits: bool,
}

enum Rows {
    Stream(Unopened),
    Batch(UnreadBatch),
    /// A reader of ours, and the thread that gave it.
    Reader(SharedStream, SchemaRef, u64),
}

/// Takes over the data of any object with `__arrow_c_stream__` or `__arrow_c_array__`. Nothing is
/// read yet: a stream may wait for a thread that needs the GIL, so it is read without.
pub(crate) fn take(name: &str, ob: &Bound<'_, PyAny>) -> PyResult<Input> {
    let input = |rows, waits| Ok(Input { name: name.to_owned(), rows, waits });
    if let Ok(reader) = ob.cast::<BatchReader>() {
        let (batches, schema) = reader.get().shared()?;
        return input(Rows::Reader(batches, schema, this_thread(ob.py())?), true);
    }
    check_lengths(name, ob)?;
    let kind = ob.get_type().fully_qualified_name()?;
    let kind = kind.to_string_lossy();
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

/// Whether [`take`] takes the object as it is. A relation of DuckDB would, and can do better: it
/// reads the columns that it is asked for.
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
    /// Asks for the schema, which may take as long as reading.
    pub(crate) fn open(self) -> tidegate::Result<Batches> {
        let name = self.name;
        let (rows, schema) = match self.rows {
            Rows::Stream(stream) => {
                check_call()?;
                let stream = stream.open().map_err(|failure| error(&name, failure))?;
                let schema = stream.schema();
                (Open::Stream(stream), schema)
            }
            Rows::Batch(batch) => {
                let schema = batch.schema();
                (Open::Batch(Some(batch)), schema)
            }
            Rows::Reader(batches, schema, caller) => (Open::Reader(batches, caller), schema),
        };
        Ok(Batches { name, rows, schema, stop: Stop::default(), user_thread: None })
    }

    /// As [`open`](Self::open); waits end when `stop` is requested.
    pub(crate) fn open_until(self, stop: &Stop) -> tidegate::Result<Batches> {
        let mut batches = self.open()?;
        batches.stop = stop.clone();
        Ok(batches)
    }

    fn read(self, stop: &Stop) -> tidegate::Result<(SchemaRef, Vec<RecordBatch>)> {
        let mut batches = self.open_until(stop)?;
        let mut read = Vec::new();
        while let Some(batch) = batches.next_batch()? {
            read.push(batch);
            check(stop)?;
        }
        Ok((batches.schema, read))
    }
}

/// Takes over the data of an object and reads all of it, such that Ctrl-C ends the wait.
///
/// One object is read before the next is asked for its stream: an open result of DuckDB keeps its
/// connection from giving another.
pub(crate) fn read(
    name: &str,
    ob: &Bound<'_, PyAny>,
    stop: &Stop,
) -> PyResult<(SchemaRef, Vec<RecordBatch>)> {
    let input = take(name, ob)?;
    let reading = stop.clone();
    if input.waits {
        interrupt::run(ob.py(), stop, move || input.read(&reading))
    } else {
        interrupt::detached(ob.py(), move || input.read(&reading))
    }
}

fn check(stop: &Stop) -> tidegate::Result<()> {
    if stop.is_requested() { Err(Error::stopped("the work was asked to stop")) } else { Ok(()) }
}

/// The batches of an input, read without the GIL.
pub(crate) struct Batches {
    name: String,
    rows: Open,
    schema: SchemaRef,
    /// Ends the wait for a batch of a reader of ours.
    stop: Stop,
    /// Where to say which thread reads.
    user_thread: Option<UserThread>,
}

/// The thread, by Python's number, that runs the user code of streams, once it has begun.
pub(crate) type UserThread = Arc<Mutex<Option<u64>>>;

enum Open {
    Stream(Stream),
    Batch(Option<UnreadBatch>),
    Reader(SharedStream, u64),
}

impl Batches {
    /// Has the batches' thread say which it is.
    pub(crate) fn tell_thread(&mut self, user_thread: &UserThread) {
        self.user_thread = Some(user_thread.clone());
    }

    /// The columns of the batches.
    pub(crate) fn columns(&self) -> &SchemaRef {
        &self.schema
    }

    pub(crate) fn next_batch(&mut self) -> tidegate::Result<Option<RecordBatch>> {
        check_call()?;
        if let Some(user_thread) = &self.user_thread {
            *user_thread.lock().unwrap_or_else(PoisonError::into_inner) = own_number();
        }
        match &mut self.rows {
            Open::Stream(stream) => {
                stream.next_batch().map_err(|failure| error(&self.name, failure))
            }
            Open::Batch(batch) => {
                let read = batch.take().map(UnreadBatch::read).transpose();
                read.map_err(|failure| error(&self.name, failure))
            }
            Open::Reader(batches, caller) => next(batches, *caller, || check(&self.stop)),
        }
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.next_batch().transpose()?;
        Some(batch.map_err(|error| ArrowError::ExternalError(Box::new(error))))
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// The number by which Python knows this thread, asked for once; none without Python.
fn own_number() -> Option<u64> {
    thread_local! {
        static NUMBER: OnceCell<Option<u64>> = const { OnceCell::new() };
    }
    let ask = || Python::try_attach(this_thread).and_then(Result::ok);
    NUMBER.with(|number| *number.get_or_init(ask))
}

/// The schema of the same objects, which are not consumed where they tell it without.
pub(crate) fn schema(name: &str, ob: &Bound<'_, PyAny>) -> PyResult<SchemaRef> {
    for candidate in [Some(ob.clone()), ob.getattr_opt("schema")?].into_iter().flatten() {
        if candidate.hasattr("__arrow_c_schema__")? {
            return capsule::schema(name, &candidate);
        }
    }
    let input = take(name, ob)?;
    interrupt::run(ob.py(), &Stop::default(), move || Ok(Arc::clone(&input.open()?.schema)))
}

/// Refuses one stream for both sides: it can be read once only.
pub(crate) fn check_distinct(left: &Bound<'_, PyAny>, right: &Bound<'_, PyAny>) -> PyResult<()> {
    if left.is(right) && (left.hasattr("__next__")? || left.hasattr("read_next_batch")?) {
        return Err(raise(Error::closed(
            "left and right are the same stream, which can be read once only; read it into a table \
             first",
        )));
    }
    Ok(())
}

/// Lets pyarrow compare the buffers' lengths with the offsets, since the C data interface does not
/// carry lengths.
fn check_lengths(name: &str, ob: &Bound<'_, PyAny>) -> PyResult<()> {
    let module = ob.get_type().module()?;
    if module.to_str()?.starts_with("pyarrow") && ob.hasattr("validate")? {
        ob.call_method0("validate").map_err(|error| {
            raise(Error::data(format!("{name}: malformed Arrow data: {}", error.value(ob.py()))))
        })?;
    }
    Ok(())
}

/// A name for each side: one for both, or a pair.
pub(crate) fn name_pair(argument: &str, ob: &Bound<'_, PyAny>) -> PyResult<(String, String)> {
    if let Ok(name) = ob.extract::<String>() {
        return Ok((name.clone(), name));
    }
    ob.extract::<(String, String)>().map_err(|_| {
        let kind = ob.get_type();
        PyTypeError::new_err(format!(
            "{argument}: expected a column name or a pair (left name, right name), got {kind}"
        ))
    })
}

/// Key columns: a name, a list of names or pairs, or a mapping from left to right names.
pub(crate) fn name_pairs(
    argument: &str,
    ob: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<(String, String)>> {
    let Some(ob) = ob else { return Ok(Vec::new()) };
    if ob.is_instance_of::<PyString>() {
        return Ok(vec![name_pair(argument, ob)?]);
    }
    if let Ok((left, right)) = ob.extract::<(String, String)>()
        && ob.is_instance_of::<PyTuple>()
    {
        let quoted = |name: &str| PyString::new(ob.py(), name).repr().map(|name| name.to_string());
        let (left, right) = (quoted(&left)?, quoted(&right)?);
        return Err(PyTypeError::new_err(format!(
            "{argument}: ({left}, {right}) may mean two columns or one pair; write \
             {argument}=[{left}, {right}] for columns of these names on both sides, or \
             {argument}=[({left}, {right})] for the left column {left} with the right column {right}"
        )));
    }
    if let Ok(mapping) = ob.cast::<PyDict>() {
        return mapping
            .iter()
            .map(|(left, right)| {
                name_pair(argument, PyTuple::new(ob.py(), [left, right])?.as_any())
            })
            .collect();
    }
    let items = ob.try_iter().map_err(|_| {
        let kind = ob.get_type();
        PyTypeError::new_err(format!(
            "{argument}: expected a column name, a list of names or of pairs of a left and a right \
             name, or a mapping from left to right names; got {kind}"
        ))
    })?;
    items.map(|item| name_pair(argument, &item?)).collect()
}

/// An end of an interval join's intervals: as for [`bound`], or an expression over columns.
pub(crate) fn end(argument: &str, ob: &Bound<'_, PyAny>) -> PyResult<Option<End>> {
    match expression::extract_end(argument, ob)? {
        Some(expr) => Ok(Some(End::Computed(expr))),
        None => {
            let end = bound(argument, ob).map_err(|error| match ob.cast::<PyString>() {
                Ok(_) => with_hint(
                    ob.py(),
                    &error,
                    "; a column is named with its side, as in \"left.until\"",
                ),
                Err(_) => error,
            });
            Ok(end?.map(End::Fixed))
        }
    }
}

/// The same error, with more text.
fn with_hint(py: Python<'_>, error: &PyErr, hint: &str) -> PyErr {
    PyErr::from_type(error.get_type(py), format!("{}{hint}", error.value(py)))
}

/// How far rows of each source may be out of order: one duration, or a list with one for each.
pub(crate) fn lateness(ob: Option<&Bound<'_, PyAny>>) -> PyResult<Lateness> {
    let Some(ob) = ob else { return Ok(Lateness::All(None)) };
    match ob.cast::<PyList>() {
        Ok(each) => {
            let one =
                |(at, one): (usize, Bound<'_, PyAny>)| bound(&format!("lateness[{at}]"), &one);
            each.iter().enumerate().map(one).collect::<PyResult<_>>().map(Lateness::Each)
        }
        Err(_) => bound("lateness", ob).map(Lateness::All),
    }
}

/// An end of an interval: a duration, an integer of integer times, or `None` for no bound.
pub(crate) fn bound(argument: &str, ob: &Bound<'_, PyAny>) -> PyResult<Option<Duration>> {
    if ob.is_none() {
        return Ok(None);
    }
    if let Ok(text) = ob.extract::<String>() {
        let named = |error: Error| raise(Error::argument(format!("{argument}: {error}")));
        return parse_duration(&text).map(Duration::Nanoseconds).map(Some).map_err(named);
    }
    if ob.is_instance_of::<pyo3::types::PyBool>() {
        return Err(wrong_bound(argument, ob));
    }
    if ob.hasattr("dtype")? && ob.hasattr("astype")? {
        return numpy_bound(argument, ob).map(Some);
    }
    if let Some(nanoseconds) = timedelta(ob)? {
        return Ok(Some(Duration::Nanoseconds(nanoseconds)));
    }
    if let Some(nanoseconds) = offset(argument, ob)? {
        return Ok(Some(Duration::Nanoseconds(nanoseconds)));
    }
    if ob.is_instance_of::<PyInt>() {
        let steps = ob.extract().map_err(|_| {
            raise(Error::argument(format!(
                "{argument}: {} does not fit 64 bits; give None for no bound",
                shown(&ob.to_string())
            )))
        })?;
        return Ok(Some(Duration::Steps(steps)));
    }
    Err(wrong_bound(argument, ob))
}

/// The length of a timedelta, if it is one.
///
/// The object is asked for its attributes. A subclass may leave the C fields of its base class 0, as
/// `pandas.Timedelta` does for units other than nanoseconds before pandas 3.
fn timedelta(ob: &Bound<'_, PyAny>) -> PyResult<Option<i128>> {
    if !ob.is_instance_of::<PyDelta>() {
        return Ok(None);
    }
    let part = |name: &str| ob.getattr(name)?.extract::<i128>();
    let seconds = part("days")? * 86_400 + part("seconds")?;
    let whole = seconds * 1_000_000_000 + part("microseconds")? * 1_000;
    // pandas.Timedelta has the last three digits in an attribute of its own.
    let rest = if ob.hasattr("nanoseconds")? { part("nanoseconds")? } else { 0 };
    Ok(Some(whole + rest))
}

/// The length of an offset of pandas, if it is one.
fn offset(argument: &str, ob: &Bound<'_, PyAny>) -> PyResult<Option<i128>> {
    let is_of_pandas = ob.get_type().module()?.to_str()?.starts_with("pandas");
    if !is_of_pandas || !ob.hasattr("is_on_offset")? {
        return Ok(None);
    }
    match ob.getattr("nanos").and_then(|nanos| nanos.extract()) {
        Ok(nanoseconds) => Ok(Some(nanoseconds)),
        Err(_) => Err(raise(Error::argument(format!(
            "{argument}: {} has no fixed length; write a pandas.Timedelta, or a string such as \
             \"30d\"",
            shown(&ob.repr()?.to_string())
        )))),
    }
}

fn wrong_bound(argument: &str, ob: &Bound<'_, PyAny>) -> PyErr {
    let kind = ob.get_type();
    if kind.name().is_ok_and(|name| name == "NaTType") {
        return not_a_duration(argument);
    }
    PyTypeError::new_err(format!(
        "{argument}: expected a timedelta, a string such as \"-5s\", an integer where times are \
         integers, or None for no bound; got {kind}"
    ))
}

fn not_a_duration(argument: &str) -> PyErr {
    raise(Error::argument(format!("{argument}: NaT is not a duration; give None for no bound")))
}

/// A numpy scalar: timedelta64 of a fixed unit, or an integer.
fn numpy_bound(argument: &str, ob: &Bound<'_, PyAny>) -> PyResult<Duration> {
    if ob.getattr_opt("ndim")?.is_none_or(|ndim| !ndim.eq(0).unwrap_or(false)) {
        return Err(wrong_bound(argument, ob));
    }
    let kind: String = ob.getattr("dtype")?.getattr("kind")?.extract()?;
    match kind.as_str() {
        "i" | "u" => Ok(Duration::Steps(ob.call_method0("item")?.extract()?)),
        "m" => {
            let numpy = ob.py().import("numpy")?;
            if numpy.call_method1("isnat", (ob,))?.is_truthy()? {
                return Err(not_a_duration(argument));
            }
            let (unit, count): (String, i128) =
                numpy.call_method1("datetime_data", (ob.getattr("dtype")?,))?.extract()?;
            let number: i128 =
                ob.call_method1("astype", ("int64",))?.call_method0("item")?.extract()?;
            let size = match unit.as_str() {
                "W" => 604_800_000_000_000,
                "D" => 86_400_000_000_000,
                "h" => 3_600_000_000_000,
                "m" => 60_000_000_000,
                "s" => 1_000_000_000,
                "ms" => 1_000_000,
                "us" => 1_000,
                "ns" => 1,
                _ => {
                    return Err(raise(Error::argument(format!(
                        "{argument}: timedelta64[{unit}] has no fixed length in nanoseconds; use \
                         W, D, h, m, s, ms, us or ns"
                    ))));
                }
            };
            Ok(Duration::Nanoseconds(number * count * size))
        }
        _ => Err(wrong_bound(argument, ob)),
    }
}

/// A list of column names.
pub(crate) fn names(
    argument: &str,
    ob: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<Vec<String>>> {
    let Some(ob) = ob else { return Ok(None) };
    let wrong = || {
        let kind = ob.get_type();
        PyTypeError::new_err(format!("{argument}: expected a list of column names, got {kind}"))
    };
    if ob.is_instance_of::<PyString>() {
        return Err(wrong());
    }
    let items = ob.try_iter().map_err(|_| wrong())?;
    items
        .map(|item| item?.extract().map_err(|_| wrong()))
        .collect::<PyResult<Vec<String>>>()
        .map(Some)
}

/// A whole number within limits.
pub(crate) fn count(
    argument: &str,
    ob: Option<&Bound<'_, PyAny>>,
    least: i64,
    most: i64,
) -> PyResult<Option<i64>> {
    let Some(ob) = ob else { return Ok(None) };
    if ob.is_instance_of::<pyo3::types::PyBool>() || !ob.hasattr("__index__")? {
        let kind = ob.get_type();
        return Err(PyTypeError::new_err(format!("{argument}: expected an integer, got {kind}")));
    }
    match ob.extract::<i64>() {
        Ok(given) if (least..=most).contains(&given) => Ok(Some(given)),
        _ => {
            let is_large = ob.ge(least).unwrap_or(false);
            let range = match most {
                i64::MAX if is_large => "less than 2^63".to_owned(),
                i64::MAX => format!("at least {least}"),
                _ => format!("from {least} to {most}"),
            };
            let given = ob.to_string();
            Err(raise(Error::argument(format!(
                "{argument} must be {range}, got {}",
                shown(&given)
            ))))
        }
    }
}

/// The number of threads that work.
pub(crate) fn threads_of(threads: Option<&Bound<'_, PyAny>>) -> PyResult<usize> {
    let threads = count("threads", threads, 1, MAX_THREADS as i64)?;
    Ok(threads.map_or_else(tidegate::default_threads, |threads| threads as usize))
}

/// A number of bytes: an integer, or a text such as "2GB" or "512 MiB".
pub(crate) fn bytes(argument: &str, ob: Option<&Bound<'_, PyAny>>) -> PyResult<Option<usize>> {
    let Some(ob) = ob else { return Ok(None) };
    let Ok(text) = ob.extract::<String>() else {
        return Ok(count(argument, Some(ob), 0, i64::MAX)?.map(|bytes| bytes as usize));
    };
    let written = text.trim();
    let end = written.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(written.len());
    let (number, unit) = written.split_at(end);
    let unit = unit.trim().to_ascii_lowercase();
    let scale = BYTES.iter().find(|(name, _)| *name == unit).map(|(_, scale)| *scale);
    let bytes = number.parse::<f64>().ok().zip(scale).map(|(number, scale)| number * scale);
    match bytes {
        Some(bytes) if bytes < i64::MAX as f64 => Ok(Some(bytes as usize)),
        _ => Err(raise(Error::argument(format!(
            "{argument}: `{}` is no number of bytes; write for instance \"2GB\", \"512MiB\" or \
             2_000_000_000",
            shown(&text)
        )))),
    }
}

/// Units of memory, in lower case, with their bytes.
const BYTES: [(&str, f64); 9] = [
    ("b", 1.0),
    ("kb", 1e3),
    ("mb", 1e6),
    ("gb", 1e9),
    ("tb", 1e12),
    ("kib", 1024.0),
    ("mib", 1_048_576.0),
    ("gib", 1_073_741_824.0),
    ("tib", 1_099_511_627_776.0),
];

/// The value that a word stands for.
pub(crate) fn word<T: Copy>(argument: &str, given: &str, words: &[(&str, T)]) -> PyResult<T> {
    words.iter().find(|(word, _)| *word == given).map(|(_, value)| *value).ok_or_else(|| {
        let known: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        let meant = known.iter().find(|word| word.eq_ignore_ascii_case(of_other_libraries(given)));
        let hint = meant.map(|word| format!("; write `{word}`")).unwrap_or_default();
        raise(Error::argument(format!(
            "{argument} must be one of {}, got `{}`{hint}",
            known.join(", "),
            shown(given)
        )))
    })
}

/// The word here for what pandas, Polars, Spark or SQL call so.
pub(crate) fn of_other_libraries(given: &str) -> &str {
    let plain = given.to_lowercase().replace(['_', ' '], "");
    match plain.as_str() {
        "outer" | "fullouter" => "full",
        "leftouter" => "left",
        "rightouter" => "right",
        "leftsemi" => "semi",
        "leftanti" => "anti",
        _ => given,
    }
}

/// The number of rows of batches.
pub(crate) fn rows_of(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}
