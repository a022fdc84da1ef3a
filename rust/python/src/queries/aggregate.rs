//! The query for `aggregate`, and the class `Aggregate`. Only this file declares the options of
//! aggregations.
//!
//! Long because both classes declare every option, and each option is checked against the others.

use std::ffi::CString;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use pyo3::exceptions::{PyTypeError, PyUserWarning};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping, PyString};
use tidegate::query::aggregate::{
    Aggregation, Design, EmptyWindows, Fill, Fills, RowCounts, SlidingArguments, Weekday,
    WindowTable, Windows, stream_names,
};
use tidegate::stream::{self, AggregateOptions};
use tidegate::{Bound as Duration, Digest, Driver, Error, Length, Stop, Table, with_threads};

use crate::arrow::export;
use crate::arrow::import::UncheckedRows;
use crate::inputs::arguments::{self, bound, bytes, count, row_count, threads_of, word};
use crate::inputs::expression::extract_row;
use crate::inputs::functions::aggregates;
use crate::inputs::keys::{group_keys, value};
use crate::inputs::rows::{listed, read, schema};
use crate::inputs::time::given_time;
use crate::inputs::untyped;
use crate::interpreter::error::raise;
use crate::interpreter::interrupt;
use crate::operators::operator::Operator;
use crate::queries::plan::AggregationPlan;

#[doc = manual!(AggregationQuery)]
#[pyclass(frozen, module = "tidegate._tidegate")]
pub(crate) struct AggregationQuery {
    /// The original arguments, from which another process can build the same query.
    arguments: Py<PyDict>,
    query: Arc<Aggregation>,
}

#[pymethods]
impl AggregationQuery {
    #[new]
    #[pyo3(signature = (
        *, on, size=None, advance=None, step=None, closed=None, offset=None, zone=None, week_start=None, session=None, windows=None,
        empty=None, keep=None, start=None, end=None, by=None, aggs, r#where=None, algorithm="auto", threads=None, max_rows=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "the arguments of the Python class")]
    fn new<'py>(
        py: Python<'py>,
        on: &str,
        size: Option<&Bound<'py, PyAny>>,
        advance: Option<&Bound<'py, PyAny>>,
        step: Option<&Bound<'py, PyAny>>,
        closed: Option<&str>,
        offset: Option<&Bound<'py, PyAny>>,
        zone: Option<&str>,
        week_start: Option<&str>,
        session: Option<&Bound<'py, PyAny>>,
        windows: Option<&Bound<'py, PyAny>>,
        empty: Option<&Bound<'py, PyAny>>,
        keep: Option<&Bound<'py, PyAny>>,
        start: Option<&Bound<'py, PyAny>>,
        end: Option<&Bound<'py, PyAny>>,
        by: Option<&Bound<'py, PyAny>>,
        aggs: &Bound<'py, PyAny>,
        r#where: Option<&Bound<'py, PyAny>>,
        algorithm: &str,
        threads: Option<&Bound<'py, PyAny>>,
        max_rows: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Self> {
        let arguments = Arguments {
            on,
            size,
            advance,
            step,
            closed,
            offset,
            zone,
            week_start,
            session,
            windows,
            empty,
            keep,
            start,
            end,
            by,
            aggs,
            r#where,
            algorithm,
            threads,
            max_rows,
        };
        let by_name = arguments.by_name(py)?.unbind();
        Ok(AggregationQuery { arguments: by_name, query: Arc::new(arguments.read()?) })
    }

    #[doc = manual!(AggregationQuery.arguments)]
    #[getter]
    fn arguments<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.arguments.bind(py).copy()
    }

    #[doc = manual!(AggregationQuery.on)]
    #[getter]
    fn on(&self) -> &str {
        &self.query.on
    }

    #[doc = manual!(AggregationQuery.threads)]
    #[getter]
    fn threads(&self) -> usize {
        self.query.threads
    }

    #[doc = manual!(AggregationQuery.max_rows)]
    #[getter]
    fn max_rows(&self) -> Option<u64> {
        self.query.max_rows
    }

    #[doc = manual!(AggregationQuery.replace)]
    #[pyo3(signature = (**changes))]
    fn replace<'py>(
        slf: &Bound<'py, Self>,
        changes: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let arguments = slf.get().arguments(slf.py())?;
        if let Some(changes) = changes {
            arguments.update(changes.as_mapping())?;
        }
        slf.get_type().call((), Some(&arguments))
    }

    #[doc = manual!(AggregationQuery.plan)]
    fn plan(&self, streams: &Bound<'_, PyAny>) -> PyResult<AggregationPlan> {
        let schemas = schemas(streams)?;
        // It is not known whether a stream has rows before it is read, so assume here that all
        // streams are empty.
        let schemas = untyped::of_aggregation(&self.query, &schemas, |_| true);
        let plan = self.query.query_plan(&schemas).map_err(raise)?;
        Ok(AggregationPlan::new(plan, schemas))
    }

    #[doc = manual!(AggregationQuery.table)]
    #[pyo3(signature = (streams, *, ordinals=None))]
    fn table<'py>(
        &self,
        py: Python<'py>,
        streams: &Bound<'py, PyAny>,
        ordinals: Option<Vec<i64>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        to_table(py, &listed(streams)?, self.query.clone(), ordinals)
    }

    #[doc = manual!(AggregationQuery.filled)]
    #[pyo3(signature = (windows, streams, *, first=i64::MIN, last=i64::MAX))]
    fn filled<'py>(
        &self,
        py: Python<'py>,
        windows: &Bound<'py, PyAny>,
        streams: &Bound<'py, PyAny>,
        first: i64,
        last: i64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let schemas = schemas(streams)?;
        let stop = Stop::default();
        let (windows, running) = (read("windows", windows, &stop)?, stop.clone());
        let query = self.query.clone();
        let (batches, schema) = interrupt::run(py, &stop, move || {
            let windows = windows.table(&Driver::new(query.threads, running.clone()))?;
            let batches = query.filled(&schemas, &windows, (first, last), running)?;
            Ok((batches, query.schema(&schemas)?))
        })?;
        export::table(py, batches, schema)
    }

    #[doc = manual!(AggregationQuery.operator)]
    #[pyo3(signature = (schema, *, sources=None, lateness=None, memory_limit=None))]
    fn operator<'py>(
        &self,
        py: Python<'py>,
        schema: &Bound<'py, PyAny>,
        sources: Option<&Bound<'py, PyAny>>,
        lateness: Option<&Bound<'py, PyAny>>,
        memory_limit: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Operator>> {
        let options = options(sources, lateness, memory_limit)?;
        let schema = self::schema("schema", schema)?;
        warn(py, self.query.advice(std::slice::from_ref(&schema)).map_err(raise)?)?;
        let aggregation =
            interrupt::detached(py, || stream::aggregate(&self.query, schema, &options))?;
        Bound::new(py, Operator::new(aggregation, false))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let text = |(name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
            Ok(format!("{name}={}", value.repr()?))
        };
        let arguments = self.arguments.bind(py).iter().map(text);
        Ok(format!("aggregate({})", arguments.collect::<PyResult<Vec<_>>>()?.join(", ")))
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyDict>,))> {
        let again = slf.py().import(slf.get_type().module()?)?.getattr("aggregation_query")?;
        Ok((again, (slf.get().arguments(slf.py())?,)))
    }
}

#[doc = manual!(aggregation_query)]
#[pyfunction]
pub(crate) fn aggregation_query<'py>(
    arguments: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    arguments.py().get_type::<AggregationQuery>().call((), Some(arguments))
}

/// Reads the options for aggregating push sources.
pub(crate) fn options(
    sources: Option<&Bound<'_, PyAny>>,
    lateness: Option<&Bound<'_, PyAny>>,
    memory_limit: Option<&Bound<'_, PyAny>>,
) -> PyResult<AggregateOptions> {
    Ok(AggregateOptions {
        sources: count("sources", sources, 1, 1 << 16)?.unwrap_or(1) as usize,
        lateness: arguments::lateness(lateness)?,
        memory_limit: bytes("memory_limit", memory_limit)?,
    })
}

#[doc = manual!(Aggregate)]
#[pyclass(frozen, extends = Operator, subclass, module = "tidegate")]
pub(crate) struct Aggregate {
    query: Aggregation,
    schema: SchemaRef,
    options: AggregateOptions,
    is_digested: bool,
}

#[pymethods]
impl Aggregate {
    #[new]
    #[pyo3(signature = (
        schema, *, on, size=None, advance=None, step=None, closed=None, offset=None, zone=None, week_start=None,
        session=None, windows=None, empty=None, keep=None, end=None, by=None, aggs, r#where=None, sources=None, lateness=None, algorithm="auto",
        threads=None, memory_limit=None, digest=false
    ))]
    #[expect(clippy::too_many_arguments, reason = "the arguments of the Python class")]
    fn new<'py>(
        schema: &Bound<'py, PyAny>,
        on: &str,
        size: Option<&Bound<'py, PyAny>>,
        advance: Option<&Bound<'py, PyAny>>,
        step: Option<&Bound<'py, PyAny>>,
        closed: Option<&str>,
        offset: Option<&Bound<'py, PyAny>>,
        zone: Option<&str>,
        week_start: Option<&str>,
        session: Option<&Bound<'py, PyAny>>,
        windows: Option<&Bound<'py, PyAny>>,
        empty: Option<&Bound<'py, PyAny>>,
        keep: Option<&Bound<'py, PyAny>>,
        end: Option<&Bound<'py, PyAny>>,
        by: Option<&Bound<'py, PyAny>>,
        aggs: &Bound<'py, PyAny>,
        r#where: Option<&Bound<'py, PyAny>>,
        sources: Option<&Bound<'py, PyAny>>,
        lateness: Option<&Bound<'py, PyAny>>,
        algorithm: &str,
        threads: Option<&Bound<'py, PyAny>>,
        memory_limit: Option<&Bound<'py, PyAny>>,
        digest: bool,
    ) -> PyResult<PyClassInitializer<Self>> {
        let (max_rows, start) = (None, None);
        let query = Arguments {
            on,
            size,
            advance,
            step,
            closed,
            offset,
            zone,
            week_start,
            session,
            windows,
            empty,
            keep,
            start,
            end,
            by,
            aggs,
            r#where,
            algorithm,
            threads,
            max_rows,
        }
        .read()?;
        let options = options(sources, lateness, memory_limit)?;
        let py = schema.py();
        let schema = self::schema("schema", schema)?;
        warn(py, query.advice(std::slice::from_ref(&schema)).map_err(raise)?)?;
        let aggregation =
            interrupt::detached(py, || stream::aggregate(&query, schema.clone(), &options))?;
        let made = Aggregate { query, schema, options, is_digested: digest };
        Ok(PyClassInitializer::from(Operator::new(aggregation, digest)).add_subclass(made))
    }

    #[doc = manual!(Aggregate.open)]
    fn open<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let (py, own) = (slf.py(), slf.get());
        let operator = slf.as_super().get();
        let (stop, running) = (Stop::default(), Stop::default());
        let snapshot = operator.handle.at_length(py, &stop, stream::Operator::snapshot)?;
        let (query, schema) = (own.query.clone(), own.schema.clone());
        let (options, is_digested) = (own.options.clone(), own.is_digested);
        let batches = interrupt::run(py, &running, move || {
            stream::open_windows(&query, schema, &options, is_digested, &snapshot)
        })?;
        export::table(py, batches, operator.schema.clone())
    }
}

/// Returns the schemas of streams.
fn schemas(streams: &Bound<'_, PyAny>) -> PyResult<Vec<SchemaRef>> {
    let streams = listed(streams)?;
    stream_names(streams.len()).iter().zip(&streams).map(|(name, one)| schema(name, one)).collect()
}

/// Aggregates streams and returns the result as a `pyarrow.Table`.
fn to_table<'py>(
    py: Python<'py>,
    streams: &[Bound<'py, PyAny>],
    query: Arc<Aggregation>,
    ordinals: Option<Vec<i64>>,
) -> PyResult<Bound<'py, PyAny>> {
    let names = stream_names(streams.len());
    let stop = Stop::default();
    let inputs = names.iter().zip(streams);
    let read: Vec<UncheckedRows> =
        inputs.map(|(name, stream)| read(name, stream, &stop)).collect::<PyResult<_>>()?;
    let running = stop.clone();
    let (threads, rows) = (query.threads, read.iter().map(UncheckedRows::rows).sum());
    let work = move || {
        let schemas: Vec<SchemaRef> = read.iter().map(|rows| rows.schema().clone()).collect();
        let schemas = untyped::of_aggregation(&query, &schemas, |at| read[at].rows() == 0);
        let driver = Driver::new(query.threads, running.clone());
        let typed = read.into_iter().zip(schemas).map(|(rows, schema)| rows.of_schema(schema));
        let tables = typed.map(|rows| rows.table(&driver));
        let tables = untyped::with_room(tables.collect::<tidegate::Result<_>>()?)?;
        let schemas: Vec<SchemaRef> = tables.iter().map(|table| table.schema().clone()).collect();
        let schema = query.schema(&schemas)?;
        let advice = query.advice(&schemas)?;
        let batches = match ordinals {
            None => query.run(tables, running),
            Some(ordinals) => query.run_on_part(tables, &ordinals, running),
        };
        Ok((batches?, schema, advice))
    };
    let (batches, schema, advice) =
        interrupt::run(py, &stop, move || with_threads(threads, rows, work))?;
    warn(py, advice)?;
    export::table(py, batches, schema)
}

/// Issues a warning that refers to the line that called the package.
fn warn(py: Python<'_>, advice: Option<String>) -> PyResult<()> {
    let Some(advice) = advice else { return Ok(()) };
    let text = CString::new(advice).map_err(|error| raise(Error::bug(error.to_string())))?;
    let mut frame = py.import("sys")?.call_method0("_getframe")?;
    let mut level = 1;
    while frame.getattr("f_globals")?.get_item("__name__")?.extract::<String>()?.starts_with(OWN) {
        level += 1;
        frame = frame.getattr("f_back")?;
    }
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, level)
}

/// The beginning of the names of the package's modules.
const OWN: &str = "tidegate.";

const NO_OFFSET: Length = Length::Fixed(Duration::Steps(0));

const FILLS: [(&str, Fill); 4] =
    [("null", Fill::Null), ("zero", Fill::Zero), ("last", Fill::Last), ("linear", Fill::Linear)];

/// Whether windows contain their ends instead of their starts.
const WINDOW_ENDS: [(&str, bool); 2] = [("left", false), ("right", true)];

const WEEKDAYS: [(&str, Weekday); 7] = [
    ("monday", Weekday::Monday),
    ("tuesday", Weekday::Tuesday),
    ("wednesday", Weekday::Wednesday),
    ("thursday", Weekday::Thursday),
    ("friday", Weekday::Friday),
    ("saturday", Weekday::Saturday),
    ("sunday", Weekday::Sunday),
];

const ALGORITHMS: [(&str, Option<Design>); 7] = [
    ("auto", None),
    ("slices", Some(Design::Slices)),
    ("mq", Some(Design::MultiQueue)),
    ("mq-lf", Some(Design::LockFreeMultiQueue)),
    ("tumlsc", Some(Design::MergedSingleConsumer)),
    ("tumlmc", Some(Design::MergedMultipleConsumer)),
    ("wiml", Some(Design::WindowMerged)),
];

/// The keyword arguments, as they were passed.
struct Arguments<'a, 'py> {
    on: &'a str,
    size: Option<&'a Bound<'py, PyAny>>,
    advance: Option<&'a Bound<'py, PyAny>>,
    step: Option<&'a Bound<'py, PyAny>>,
    closed: Option<&'a str>,
    offset: Option<&'a Bound<'py, PyAny>>,
    zone: Option<&'a str>,
    week_start: Option<&'a str>,
    session: Option<&'a Bound<'py, PyAny>>,
    windows: Option<&'a Bound<'py, PyAny>>,
    empty: Option<&'a Bound<'py, PyAny>>,
    keep: Option<&'a Bound<'py, PyAny>>,
    start: Option<&'a Bound<'py, PyAny>>,
    end: Option<&'a Bound<'py, PyAny>>,
    by: Option<&'a Bound<'py, PyAny>>,
    aggs: &'a Bound<'py, PyAny>,
    r#where: Option<&'a Bound<'py, PyAny>>,
    algorithm: &'a str,
    threads: Option<&'a Bound<'py, PyAny>>,
    max_rows: Option<&'a Bound<'py, PyAny>>,
}

impl<'py> Arguments<'_, 'py> {
    /// Returns the arguments by name, as they were passed.
    fn by_name(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let arguments = PyDict::new(py);
        arguments.set_item("on", self.on)?;
        arguments.set_item("size", self.size)?;
        arguments.set_item("advance", self.advance)?;
        arguments.set_item("step", self.step)?;
        arguments.set_item("closed", self.closed)?;
        arguments.set_item("offset", self.offset)?;
        arguments.set_item("zone", self.zone)?;
        arguments.set_item("week_start", self.week_start)?;
        arguments.set_item("session", self.session)?;
        arguments.set_item("windows", self.windows)?;
        arguments.set_item("empty", self.empty)?;
        arguments.set_item("keep", self.keep)?;
        arguments.set_item("start", self.start)?;
        arguments.set_item("end", self.end)?;
        arguments.set_item("by", self.by)?;
        arguments.set_item("aggs", self.aggs)?;
        arguments.set_item("where", self.r#where)?;
        arguments.set_item("algorithm", self.algorithm)?;
        arguments.set_item("threads", self.threads)?;
        arguments.set_item("max_rows", self.max_rows)?;
        Ok(arguments)
    }

    fn read(self) -> PyResult<Aggregation> {
        Ok(Aggregation {
            algorithm: word("algorithm", self.algorithm, &ALGORITHMS)?,
            on: self.on.to_owned(),
            windows: self.windows()?,
            empty: self.empty_windows()?,
            by: group_keys(self.by)?,
            aggregates: aggregates(self.aggs)?,
            predicate: self.r#where.map(extract_row).transpose()?,
            threads: threads_of(self.threads)?,
            max_rows: count("max_rows", self.max_rows, 0, i64::MAX)?.map(i64::unsigned_abs),
        })
    }

    /// Reads the values for windows without rows, for all functions or by result column.
    fn empty_windows(&self) -> PyResult<Option<EmptyWindows>> {
        let keep = self.keep.map(|keep| bound("keep", keep)).transpose()?.flatten();
        let text = |given: &Bound<'py, PyAny>| {
            given.extract::<String>().map_err(|_| {
                PyTypeError::new_err(format!(
                    "empty: expected \"skip\", \"null\", \"zero\", \"last\" or \"linear\", or a \
                     mapping from names of aggs to them, got {given:?}"
                ))
            })
        };
        let fills = match self.empty.map(|given| (given, given.cast::<PyMapping>())) {
            None => None,
            Some((_, Ok(named))) => {
                let one = |item: Bound<'py, PyAny>| {
                    let (name, given): (String, Bound<'py, PyAny>) = item.extract()?;
                    Ok((name, word("empty", &text(&given)?, &FILLS)?))
                };
                Some(Fills::Named(named.items()?.iter().map(one).collect::<PyResult<_>>()?))
            }
            Some((given, Err(_))) => match text(given)? {
                text if text == "skip" => None,
                text => Some(Fills::Every(word("empty", &text, &FILLS)?)),
            },
        };
        let time = |name: &str, given: Option<&Bound<'py, PyAny>>| {
            given.map(|given| given_time(name, given)).transpose()
        };
        let (start, end) = (time("start", self.start)?, time("end", self.end)?);
        let given = [("keep", keep.is_some()), ("start", start.is_some()), ("end", end.is_some())];
        match (fills, given.into_iter().find(|(_, is_given)| *is_given)) {
            (None, None) => Ok(None),
            (None, Some((name, _))) => Err(raise(Error::argument(format!(
                "{name} needs empty, which adds windows without rows; add it, or leave {name} out"
            )))),
            (Some(fills), _) => Ok(Some(EmptyWindows { fills, keep, start, end })),
        }
    }

    /// Reads windows that are listed in a table.
    fn listed_windows(&self, windows: &Bound<'py, PyAny>) -> PyResult<Windows> {
        let given = [
            ("size", self.size.is_some()),
            ("advance", self.advance.is_some()),
            ("step", self.step.is_some()),
            ("closed", self.closed.is_some()),
            ("offset", self.offset.is_some()),
            ("zone", self.zone.is_some()),
            ("week_start", self.week_start.is_some()),
            ("session", self.session.is_some()),
        ];
        if let Some((name, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
            return Err(raise(Error::argument(format!(
                "{name} cannot be combined with windows, which lists the start and end of each \
                 window; leave one out"
            ))));
        }
        let stop = Stop::default();
        let rows = read("windows", windows, &stop)?;
        let driver = Driver::new(1, stop);
        let digest = |table: &Table| {
            let mut digest = Digest::new(table.schema());
            table.batches().iter().try_for_each(|batch| digest.add(batch, &driver))?;
            Ok(digest.unordered())
        };
        let table = rows.table(&driver).map_err(raise)?;
        let table = WindowTable::new(&table, &group_keys(self.by)?, digest).map_err(raise)?;
        Ok(Windows::Listed(Box::new(table)))
    }

    /// Reads row-based windows, if `size` or `advance` is a number of rows.
    fn row_windows(&self) -> PyResult<Option<RowCounts>> {
        let count = |given: Option<&Bound<'py, PyAny>>| match given {
            None => Ok(None),
            Some(given) => Ok::<_, PyErr>(row_count(given)?.map(|rows| rows as i64)),
        };
        let (size, advance) = (count(self.size)?, count(self.advance)?);
        if size.is_none() && advance.is_none() {
            return Ok(None);
        }
        let refuse = |message: String| Err(raise(Error::argument(message)));
        if size.is_none() || advance.is_some() != self.advance.is_some() {
            return refuse(
                "size and advance must both be numbers of rows, or both be durations; write \
                 size=tidegate.rows(20), advance=tidegate.rows(5)"
                    .to_owned(),
            );
        }
        let given = [
            ("step", self.step.is_some()),
            ("closed", self.closed.is_some()),
            ("offset", self.offset.is_some()),
            ("zone", self.zone.is_some()),
            ("week_start", self.week_start.is_some()),
            ("session", self.session.is_some()),
        ];
        if let Some((name, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
            return refuse(format!(
                "{name} cannot be combined with a number of rows as size; leave one out"
            ));
        }
        Ok(size.map(|size| RowCounts { size, advance: advance.unwrap_or(size) }))
    }

    fn windows(&self) -> PyResult<Windows> {
        if let Some(windows) = self.windows {
            return self.listed_windows(windows);
        }
        if let Some(rows) = self.row_windows()? {
            return Ok(Windows::Rows(rows));
        }
        match (self.size, self.session) {
            (Some(size), None) => Ok(Windows::Sliding(Box::new(SlidingArguments {
                size: length("size", size)?,
                advance: self.advance.map(|advance| length("advance", advance)).transpose()?,
                step: self.step.map(|step| length("step", step)).transpose()?,
                is_closed_right: match self.closed {
                    None => false,
                    Some(closed) => word("closed", closed, &WINDOW_ENDS)?,
                },
                offset: self.offset.map_or(Ok(NO_OFFSET), |offset| length("offset", offset))?,
                zone: self.zone.map(str::to_owned),
                week_start: self
                    .week_start
                    .map(|day| word("week_start", day, &WEEKDAYS))
                    .transpose()?,
            }))),
            (None, None) => Err(PyTypeError::new_err(
                "size: expected a duration, got None; give size, session or windows",
            )),
            (size, Some(gap)) => {
                let given = [
                    ("size", size.is_some()),
                    ("advance", self.advance.is_some()),
                    ("step", self.step.is_some()),
                    ("closed", self.closed.is_some()),
                    ("offset", self.offset.is_some()),
                    ("zone", self.zone.is_some()),
                    ("week_start", self.week_start.is_some()),
                ];
                if let Some((name, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
                    return Err(raise(Error::argument(format!(
                        "{name} cannot be combined with session, because a session ends after its \
                         last row; leave one out"
                    ))));
                }
                session(gap)
            }
        }
    }
}

/// Returns sessions whose gap is a duration or an expression evaluated for each row. A string is an expression
/// if it begins with a letter, an underscore, a quote or a parenthesis and is not a duration.
fn session(gap: &Bound<'_, PyAny>) -> PyResult<Windows> {
    let text = value(gap)?;
    if let Some(text) = text {
        let begins_expression = |c: char| c.is_alphabetic() || matches!(c, '_' | '"' | '(');
        let is_text = gap.is_instance_of::<PyString>();
        match bound("session", gap) {
            Ok(Some(gap)) if is_text => return Ok(Windows::Session(gap)),
            Err(error) if is_text && !text.starts_with(begins_expression) => return Err(error),
            _ => return Ok(Windows::SessionOf(text)),
        }
    }
    Ok(Windows::Session(bound("session", gap)?.ok_or_else(|| no_length("session"))?))
}

fn no_length(argument: &str) -> PyErr {
    PyTypeError::new_err(format!("{argument}: expected a duration, got None"))
}

/// Returns a length that may consist of calendar units, which only strings can express.
fn length(argument: &str, ob: &Bound<'_, PyAny>) -> PyResult<Length> {
    if let Ok(text) = ob.extract::<String>() {
        let named = |error: Error| raise(Error::argument(format!("{argument}: {error}")));
        return Length::parse(&text).map_err(named);
    }
    bound(argument, ob)?.map(Length::Fixed).ok_or_else(|| no_length(argument))
}
