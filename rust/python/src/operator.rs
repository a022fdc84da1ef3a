//! The class `Operator`, which has everything of an operator except its constructor; and sources.

use std::ffi::CString;
use std::sync::Arc;
use std::time::Duration;

use arrow_schema::{DataType, Field, SchemaRef};
use parking_lot::Mutex;
use pyo3::exceptions::{PyResourceWarning, PyTypeError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBool, PyBytes, PyDate, PyDateTime, PyDict, PyList, PyTuple, PyType};
use tidegate::stream::{self, Driven, Figure, Memory, ResultTime, Side, SourceStats, Stats, lock};
use tidegate::{Digest as Rows, Error, Extra, Stop, TypeName, WorkOf};

use crate::digest::Digest;
use crate::error::raise;
use crate::handle::{Handle, briefly, check_process, in_turn, number_of};
use crate::input::bytes;
use crate::interpreter::{attached, calling, released};
use crate::{export, import, input, interrupt, notice};

/// The time between two looks for room within the memory limit.
const ROOM: Duration = Duration::from_millis(1);

/// Rows that a source puts in order within a moment.
const FEW_ROWS: usize = 1 << 17;

#[doc = manual!(Source)]
#[pyclass(frozen, module = "tidegate")]
#[derive(Clone)]
pub(crate) struct Source {
    source: Arc<Mutex<stream::Source>>,
    side: Option<Side>,
    number: u16,
    time_field: Field,
    process: u32,
}

impl Source {
    pub(crate) fn new(source: &Arc<Mutex<stream::Source>>, side: Option<Side>) -> Self {
        let (number, time_field) = {
            let source = lock(source);
            (source.number(), source.time_field().clone())
        };
        Source { source: source.clone(), side, number, time_field, process: std::process::id() }
    }

    /// Rows that are dicts or tuples, as a table.
    fn table<'py>(&self, rows: &Bound<'py, PyList>, extra: Extra) -> PyResult<Bound<'py, PyAny>> {
        let py = rows.py();
        let (name, schema) =
            self.briefly(py, |source| Ok((source.stats().name, source.schema().clone())))?;
        let schema = export::schema(py, &schema)?;
        let arguments = (rows, schema, &*name, extra == Extra::Ignore);
        calling(py, || py.import("tidegate._rows")?.call_method1("table", arguments))
    }

    /// Calls `work` with the source, once it is its turn: in the background if it puts many rows in
    /// order, those that the source holds back and so many more.
    fn feed<R: Send + 'static>(
        &self,
        py: Python<'_>,
        rows: usize,
        work: impl FnOnce(&mut stream::Source, &Stop) -> tidegate::Result<R> + Send + 'static,
    ) -> PyResult<R> {
        let (stop, mut work) = (Stop::default(), Some(work));
        let mut take = || work.take().expect("it is taken once");
        let at_once = |source: &mut stream::Source| {
            let is_short = source.rows_held() + rows < FEW_ROWS;
            is_short.then(|| take()(source, &stop)).transpose()
        };
        if let Some(done) = self.briefly(py, at_once)? {
            return Ok(done);
        }
        let (source, asked, work) = (self.source.clone(), stop.clone(), take());
        // This may run code that calls the source, such as the release of a producer's batch.
        let object = number_of(&self.source);
        interrupt::run(py, &stop, move || {
            in_turn(&source, &asked, |source| WorkOf::one(object, || work(source, &asked)))
        })
    }

    fn briefly<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut stream::Source) -> tidegate::Result<R> + Send,
    ) -> PyResult<R> {
        briefly(py, &self.source, "source", work)
    }
}

#[pymethods]
impl Source {
    #[doc = manual!(Source.number)]
    #[getter]
    fn number(&self) -> u16 {
        self.number
    }

    #[doc = manual!(Source.push)]
    #[pyo3(signature = (data, *, extra = "error", block = None))]
    fn push(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        extra: &str,
        block: Option<bool>,
    ) -> PyResult<()> {
        check_process(self.process, "source")?;
        let extra = input::word("extra", extra, &EXTRA)?;
        // All is read before the source is touched, so that a stream may use the source itself.
        if data.is_instance_of::<PyDict>() || data.is_instance_of::<PyTuple>() {
            let kind = data.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "data: expected Arrow data, or rows as a list of dicts or tuples, got {kind}; write \
                 push([row]) for one row"
            )));
        }
        let given = match data.cast::<PyList>() {
            Err(_) => import::read("data", data, &Stop::default())?,
            Ok(rows) => import::read("data", &self.table(rows, extra)?, &Stop::default())?,
        };
        let count = given.rows();
        let mut waits = false;
        loop {
            let given = given.clone();
            let push = move |source: &mut stream::Source, stop: &Stop| {
                let before = source.rows_late();
                given.push(source, extra, stop)?;
                let late = source.rows_late() - before;
                Ok((late > 0).then(|| (late, source.stats())))
            };
            let error = match self.feed(py, count, push) {
                Ok(None) => return Ok(()),
                Ok(Some((late, SourceStats { name, rows_late, rows_in, .. }))) => {
                    let text = format!(
                        "{name}: {late} of {count} rows are set aside, as late or too wide; so far \
                         {rows_late} of {rows_in}; late() returns them"
                    );
                    notice::tell(py, &self.source, "late", &text);
                    return Ok(());
                }
                Err(error) => error,
            };
            let (is_full, news) =
                self.briefly(py, |source| Ok((source.is_full(), source.news())))?;
            if is_full && !std::mem::replace(&mut waits, true) {
                notice::tell(py, &self.source, "full", &error.value(py).to_string());
            }
            // A thread that drives the operator would wait for itself.
            let waits_for_polls =
                block.unwrap_or(news.driven().is_some()) && !news.is_driven_here();
            if !is_full || !waits_for_polls {
                return Err(error);
            }
            // Nothing tells of room: it comes with the next results, a millisecond's work.
            released(py, || std::thread::sleep(ROOM));
            py.check_signals()?;
        }
    }

    #[doc = manual!(Source.push_async)]
    #[pyo3(signature = (data, *, extra = "error"))]
    fn push_async<'py>(
        slf: &Bound<'py, Self>,
        data: &Bound<'py, PyAny>,
        extra: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("tidegate._awaiting")?.call_method1("push", (slf, data, extra))
    }

    /// From now on the rows are the results of an operator. Returns the name of the time column, and
    /// the columns of which it is to be made, if the results do not have it.
    #[pyo3(signature = (operator, of))]
    fn _follow(
        &self,
        py: Python<'_>,
        operator: &Operator,
        of: Option<&str>,
    ) -> PyResult<(String, Vec<String>)> {
        let of = of.map(|of| input::word("feeds", of, &RESULT_TIME)).transpose()?;
        let times = operator.handle.briefly(py, |operator| Ok(operator.times()))?;
        let schema = operator.schema.clone();
        let follow = move |source: &mut stream::Source| source.follow(&times, &schema, of);
        Ok((self.time_field.name().clone(), self.briefly(py, follow)?))
    }

    /// Promises what the operator before does, unless results of it wait.
    fn _promise(&self, py: Python<'_>, operator: &Operator) -> PyResult<()> {
        match operator.handle.briefly(py, |operator| Ok(operator.promised()))? {
            None => Ok(()),
            Some(place) => self.feed(py, 0, move |source, _| source.promise_of_results(place)),
        }
    }

    /// Whether the last push was refused by the memory limit, and would fit if less were held.
    fn _is_full(&self, py: Python<'_>) -> PyResult<bool> {
        self.briefly(py, |source| Ok(source.is_full()))
    }

    #[doc = manual!(Source.advance)]
    fn advance(&self, py: Python<'_>, ts: &Bound<'_, PyAny>) -> PyResult<()> {
        check_process(self.process, "source")?;
        let ts = time("ts", ts, &self.time_field)?;
        self.feed(py, 0, move |source, _| source.advance(ts))
    }

    #[doc = manual!(Source.idle)]
    fn idle(&self, py: Python<'_>) -> PyResult<()> {
        check_process(self.process, "source")?;
        self.feed(py, 0, |source, _| source.idle())
    }

    #[doc = manual!(Source.close)]
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        check_process(self.process, "source")?;
        self.feed(py, 0, |source, _| {
            source.close();
            Ok(())
        })
    }

    #[doc = manual!(Source.abandon)]
    fn abandon(&self, py: Python<'_>, reason: String) -> PyResult<()> {
        check_process(self.process, "source")?;
        self.feed(py, 0, move |source, _| {
            source.abandon(&reason);
            Ok(())
        })
    }

    /// Views of one source are equal.
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Source>().is_ok_and(|other| Arc::ptr_eq(&self.source, &other.get().source))
    }

    fn __hash__(&self) -> u64 {
        Arc::as_ptr(&self.source).addr() as u64
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<&Bound<'_, PyType>>,
        value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        match kind {
            None => self.close(py),
            Some(kind) => self.abandon(py, format!("{}: {value}", kind.name()?)),
        }
    }
}

const SIDE: [(&str, Side); 2] = [("left", Side::Left), ("right", Side::Right)];

const RESULT_TIME: [(&str, ResultTime); 2] =
    [("later", ResultTime::Later), ("earlier", ResultTime::Earlier)];

const EXTRA: [(&str, Extra); 2] = [("error", Extra::Refuse), ("ignore", Extra::Ignore)];

/// A time in steps of the unit of a column: an integer, or a date or time of the column's kind,
/// without loss.
fn time(argument: &str, ob: &Bound<'_, PyAny>, field: &Field) -> PyResult<i64> {
    let wrong = |why: &str| {
        let (name, data_type) = (field.name(), TypeName(field.data_type()));
        Error::argument(format!(
            "{argument}: expected a time of column `{name}`, which is {data_type}, or an integer in its \
             unit, got {ob:?}{why}"
        ))
    };
    if ob.hasattr("__index__")? && !ob.is_instance_of::<PyBool>() {
        return ob.extract().map_err(|_| raise(wrong(", which does not fit 64 bits")));
    }
    let Some(kind) = Kind::of(ob)? else {
        return Err(PyTypeError::new_err(wrong("").message().to_owned()));
    };
    if ob.ne(ob)? {
        return Err(raise(wrong(", which is not a time")));
    }
    match (kind, field.data_type()) {
        (Kind::Time { zoned: true }, DataType::Timestamp(_, None)) => {
            Err(raise(wrong(", which has a zone")))
        }
        (Kind::Time { zoned: false }, DataType::Timestamp(_, Some(_))) => {
            Err(raise(wrong(", which has no zone")))
        }
        (Kind::Time { .. }, DataType::Timestamp(..))
        | (Kind::Date, DataType::Date32 | DataType::Date64) => {
            steps(ob, field).map_err(|error| raise(wrong(&format!(": {}", error.value(ob.py())))))
        }
        _ => Err(raise(wrong(""))),
    }
}

/// What an object says about time.
enum Kind {
    Date,
    Time { zoned: bool },
}

impl Kind {
    fn of(ob: &Bound<'_, PyAny>) -> PyResult<Option<Kind>> {
        if ob.is_instance_of::<PyDateTime>() {
            return Ok(Some(Kind::Time { zoned: !ob.getattr("tzinfo")?.is_none() }));
        }
        if ob.is_instance_of::<PyDate>() {
            return Ok(Some(Kind::Date));
        }
        let numpy = ob.py().import("numpy")?;
        if !ob.is_instance(&numpy.getattr("datetime64")?)? {
            return Ok(None);
        }
        let (unit, _): (String, i64) =
            numpy.call_method1("datetime_data", (ob.getattr("dtype")?,))?.extract()?;
        Ok(Some(if unit == "D" { Kind::Date } else { Kind::Time { zoned: false } }))
    }
}

/// A date or time in the unit of a column.
fn steps(ob: &Bound<'_, PyAny>, field: &Field) -> PyResult<i64> {
    calling(ob.py(), || steps_of(ob, field))
}

fn steps_of(ob: &Bound<'_, PyAny>, field: &Field) -> PyResult<i64> {
    let pyarrow = ob.py().import("pyarrow")?;
    let data_type = export::field(ob.py(), field)?.getattr("type")?;
    // Only the NumPy form of a `pandas.Timestamp` represents every UTC instant exactly. Its C
    // fields are limited to microseconds, and hold a different year beyond 9999.
    let numpy = if ob.hasattr("to_datetime64")? {
        Some(ob.call_method0("to_datetime64")?)
    } else if ob.hasattr("dtype")? {
        Some(ob.clone())
    } else {
        None
    };
    let scalar = match numpy {
        Some(value) => {
            pyarrow.call_method1("array", (value.call_method1("reshape", (1,))?,))?.get_item(0)?
        }
        None => pyarrow.call_method1("scalar", (ob,))?,
    };
    scalar.call_method1("cast", (data_type,))?.getattr("value")?.extract()
}

#[doc = manual!(Operator)]
#[pyclass(frozen, subclass, generic, module = "tidegate")]
pub(crate) struct Operator {
    pub(crate) handle: Handle,
    pub(crate) schema: SchemaRef,
    /// A copy, so that they are found while the operator works.
    sources: Mutex<Vec<Source>>,
    memory: Memory,
}

impl Operator {
    /// An operator, which makes a digest of its results if that is asked for.
    pub(crate) fn new(operator: stream::Operator, digest: bool) -> Self {
        let operator = if digest { operator.with_digest() } else { operator };
        Operator {
            schema: operator.schema().clone(),
            sources: Mutex::new(sources(&operator)),
            memory: operator.memory(),
            handle: Handle::new(operator),
        }
    }

    /// The sources, by number; left ones first.
    fn all_sources(&self) -> PyResult<Vec<Source>> {
        self.handle.check()?;
        Ok(self.sources.lock().clone())
    }

    /// Keeps the sources, unless another call has added more.
    fn keep(&self, all: Vec<Source>) {
        let mut sources = self.sources.lock();
        if all.len() > sources.len() {
            *sources = all;
        }
    }

    /// The sources of a side, by number.
    pub(crate) fn sources_of(&self, side: Side) -> PyResult<Vec<Source>> {
        let mut sources = self.all_sources()?;
        sources.retain(|source| source.side == Some(side));
        Ok(sources)
    }
}

/// The sources of an operator.
fn sources(operator: &stream::Operator) -> Vec<Source> {
    let with_sides = operator.sources().iter().zip(operator.sides());
    with_sides.map(|(source, side)| Source::new(source, side)).collect()
}

/// Tells of rows that were pushed in vain. Python shows it in its development mode.
impl Drop for Operator {
    fn drop(&mut self) {
        let Some(lost) = self.handle.lost() else { return };
        // Not where Python has ended.
        attached(|py| {
            let kind = py.get_type::<PyResourceWarning>();
            if let Ok(text) = CString::new(lost)
                && let Err(error) = PyErr::warn(py, &kind, &text, 1)
            {
                error.write_unraisable(py, None);
            }
        });
    }
}

#[pymethods]
impl Operator {
    #[doc = manual!(Operator.schema)]
    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        export::schema(py, &self.schema)
    }

    #[doc = manual!(Operator.sources)]
    #[getter]
    fn sources(&self) -> PyResult<Vec<Source>> {
        self.all_sources()
    }

    #[doc = manual!(Operator.add_source)]
    #[pyo3(signature = (*, side = None, since = None, lateness = None))]
    fn add_source(
        &self,
        py: Python<'_>,
        side: Option<&str>,
        since: Option<&Bound<'_, PyAny>>,
        lateness: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Source> {
        let side = side.map(|side| input::word("side", side, &SIDE)).transpose()?;
        let lateness = lateness.map(|one| input::bound("lateness", one)).transpose()?.flatten();
        let time_field = {
            let sources = self.sources.lock();
            let like = sources.iter().find(|source| source.side == side).or(sources.first());
            like.map(|source| source.time_field.clone())
        };
        let since = since.zip(time_field).map(|(since, field)| time("since", since, &field));
        let since = since.transpose()?;
        let add = |operator: &mut stream::Operator| operator.add_source(side, since, lateness);
        let added = Source::new(&self.handle.briefly(py, add)?, side);
        let mut sources = self.sources.lock();
        if usize::from(added.number) == sources.len() {
            sources.push(added.clone());
            return Ok(added);
        }
        // Concurrent calls may reach this point in a different order.
        drop(sources);
        self.keep(self.handle.briefly(py, |operator| Ok(self::sources(operator)))?);
        Ok(added)
    }

    #[doc = manual!(Operator.skip)]
    fn skip(&self, py: Python<'_>) -> PyResult<bool> {
        self.handle.briefly(py, |operator| Ok(operator.skip()))
    }

    #[doc = manual!(Operator.memory_limit)]
    #[getter]
    fn memory_limit(&self) -> Option<usize> {
        self.memory.limit()
    }

    #[setter]
    fn set_memory_limit(&self, limit: &Bound<'_, PyAny>) -> PyResult<()> {
        self.handle.check()?;
        let limit = if limit.is_none() { None } else { bytes("memory_limit", Some(limit))? };
        self.memory.set_limit(limit);
        Ok(())
    }

    #[doc = manual!(Operator.poll)]
    fn poll<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.handle.poll(py)
    }

    #[doc = manual!(Operator.late)]
    fn late<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.handle.late(py, stream::Operator::forget_late)
    }

    /// Like `late`, but the operator keeps the rows until `_settle_late` reports that they were
    /// taken.
    fn _lend_late<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.handle.late(py, stream::Operator::lend_late)
    }

    #[pyo3(signature = (*, were_taken))]
    fn _settle_late(&self, py: Python<'_>, were_taken: bool) -> PyResult<()> {
        self.handle.briefly(py, |operator| {
            operator.settle_late(were_taken);
            Ok(())
        })
    }

    #[doc = manual!(Operator.stats)]
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        stats(py, &self.handle.briefly(py, |operator| Ok(operator.stats()))?)
    }

    #[doc = manual!(Operator.digest)]
    fn digest(&self, py: Python<'_>) -> PyResult<Digest> {
        let rows = self.handle.briefly(py, |operator| operator.digest().cloned())?;
        Ok((rows, Rows::new(&self.schema)).into())
    }

    #[doc = manual!(Operator.promised)]
    #[getter]
    fn promised(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        self.handle.briefly(py, |operator| Ok(operator.promised()))
    }

    #[doc = manual!(Operator.explain)]
    fn explain(&self, py: Python<'_>) -> PyResult<String> {
        self.handle.briefly(py, |operator| Ok(operator.explain()))
    }

    #[doc = manual!(Operator.snapshot)]
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let snapshot = self.handle.at_length(py, &Stop::default(), stream::Operator::snapshot)?;
        // Python's error where it has no memory for them.
        PyBytes::new_with(py, snapshot.len(), |bytes| {
            bytes.copy_from_slice(&snapshot);
            Ok(())
        })
    }

    #[doc = manual!(Operator.restore)]
    fn restore(&self, py: Python<'_>, snapshot: PyBackedBytes) -> PyResult<()> {
        let restore =
            move |operator: &mut stream::Operator, stop: &Stop| operator.restore(&snapshot, stop);
        self.handle.at_length(py, &Stop::default(), restore)?;
        self.keep(self.handle.briefly(py, |operator| Ok(self::sources(operator)))?);
        self.handle.tell_restored(py)
    }

    /// Processes the rows that are ready now without emitting their results, which the operator
    /// that this one continues has already emitted.
    fn _recall(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.at_length(py, &Stop::default(), stream::Operator::recall)
    }

    #[doc = manual!(Operator.close)]
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.close(py)
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __aiter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("tidegate._awaiting")?.call_method1("batches", (slf,))
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<()> {
        let kind = slf.get_type();
        Err(PyTypeError::new_err(format!(
            "cannot pickle a {}, which has threads and open sources; write snapshot(), and restore() \
             its bytes into an operator of the same arguments",
            kind.name()?
        )))
    }

    fn __repr__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("tidegate._metrics")?.call_method1("text", (slf,))
    }

    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("tidegate._metrics")?.call_method1("page", (slf,))
    }

    #[doc = manual!(Operator.run)]
    #[pyo3(signature = (sink, *, late = None, punctuations = false))]
    fn run<'py>(
        slf: &Bound<'py, Self>,
        sink: &Bound<'py, PyAny>,
        late: Option<&Bound<'py, PyAny>>,
        punctuations: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        drive(slf, "run", sink, late, punctuations)
    }

    #[doc = manual!(Operator.running)]
    #[pyo3(signature = (sink, *, late = None, punctuations = false))]
    fn running<'py>(
        slf: &Bound<'py, Self>,
        sink: &Bound<'py, PyAny>,
        late: Option<&Bound<'py, PyAny>>,
        punctuations: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        drive(slf, "Running", sink, late, punctuations)
    }

    /// Takes a batch back that was polled last, for a sink that has not taken it.
    fn _take_back(&self, py: Python<'_>, batch: &Bound<'_, PyAny>) -> PyResult<()> {
        import::batch("batch", batch)?.map_or(Ok(()), |batch| self.handle.take_back(py, batch))
    }

    /// From now on a thread drives the operator, or none does any more; whether one did before. One
    /// that has failed makes no more room for pushes that wait.
    #[pyo3(signature = (*, is_driven, fetches_late = false, has_failed = false))]
    fn _set_driven(&self, is_driven: bool, fetches_late: bool, has_failed: bool) -> PyResult<bool> {
        self.handle.check()?;
        if has_failed {
            self.handle.leave();
        }
        Ok(self.handle.set_driven(is_driven.then_some(Driven { fetches_late })))
    }

    /// Somebody is about to poll, as a chain does that hands rows on before.
    fn _go_on(&self) {
        self.handle.go_on();
    }

    /// Makes one memory request fail after this many others have succeeded. `None` cancels the
    /// refusal. Returns whether an earlier refusal was still pending.
    #[cfg(debug_assertions)]
    #[staticmethod]
    fn _refuse_memory(after: Option<usize>) -> bool {
        tidegate::refusal::after(after)
    }

    /// Does what is to be done before the next batch: true once it is there, `None` if it is not
    /// within these seconds, or false at the end.
    fn _is_ready_within(&self, py: Python<'_>, seconds: f64) -> PyResult<Option<bool>> {
        self.handle.is_ready_within(py, Duration::from_secs_f64(seconds.clamp(0.0, 60.0)))
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        slf: &Bound<'py, Self>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let schema = export::schema(slf.py(), &slf.get().schema)?;
        calling(slf.py(), || {
            let readers = slf.py().import("pyarrow")?.getattr("RecordBatchReader")?;
            let reader = readers.call_method1("from_batches", (schema, slf))?;
            reader.call_method1("__arrow_c_stream__", (requested_schema,))
        })
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.handle.next(py)
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

/// Calls what drives operators, for a sink that may take punctuations, too.
fn drive<'py>(
    operator: &Bound<'py, Operator>,
    function: &str,
    sink: &Bound<'py, PyAny>,
    late: Option<&Bound<'py, PyAny>>,
    punctuations: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let py = operator.py();
    calling(py, || {
        let running = py.import("tidegate._running")?;
        if !punctuations {
            return running.call_method1(function, (operator, sink, late));
        }
        let module = py.import("tidegate._punctuations")?;
        let sink = module.call_method1("Punctuated", (operator, sink))?;
        running.call_method1(function, (operator, sink, late))
    })
}

/// Numbers that describe an operator, and each of its sources.
pub(crate) fn stats<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let sources = source_stats(py, &stats.sources, &dict)?;
    dict.set_item("rows_out", stats.rows_out)?;
    dict.set_item("watermark", stats.watermark)?;
    dict.set_item("latency", stats.latency)?;
    dict.set_item("memory", stats.memory)?;
    dict.set_item("memory_limit", stats.memory_limit)?;
    let waiting = stats.waiting.as_ref().map(|waiting| {
        let dict = PyDict::new(py);
        dict.set_item("source", &*waiting.source)?;
        dict.set_item("seconds", waiting.seconds)?;
        dict.set_item("rows", waiting.rows)?;
        Ok::<_, PyErr>(dict)
    });
    dict.set_item("waiting", waiting.transpose()?)?;
    for (name, figure) in &stats.figures {
        match figure {
            Figure::Number(number) => dict.set_item(*name, number)?,
            Figure::Numbers(numbers) => dict.set_item(*name, numbers)?,
            Figure::Text(text) => dict.set_item(*name, text)?,
        }
    }
    dict.set_item("sources", sources)?;
    Ok(dict)
}

/// Numbers that describe sources, one dict a source, and their sums into `total`.
fn source_stats<'py>(
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
        dict.set_item("idle", source.idle)?;
        dict.set_item("abandoned", source.abandoned.as_deref())?;
        dict.set_item("memory", source.memory)?;
        Ok(dict)
    };
    sources.iter().map(one).collect()
}
