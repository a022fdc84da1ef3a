//! `aggregate`, and the class `Aggregate`: the options of aggregations are in this file only.

use arrow_schema::SchemaRef;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use tidegate::query::aggregate::{Aggregation, Design, Windows, stream_names};
use tidegate::stream::{self, AggregateOptions};
use tidegate::{Bound as Duration, Driver, Error, MAX_THREADS, Stop, with_threads};

use crate::arrow::export;
use crate::arrow::import::Unchecked;
use crate::arrow::reader::BatchReader;
use crate::inputs::arguments::{self, bound, bytes, count, names, word};
use crate::inputs::expression::extract_row;
use crate::inputs::functions::aggregates;
use crate::inputs::opened::{self, listed, schema};
use crate::inputs::untyped;
use crate::interpreter::error::raise;
use crate::interpreter::interrupt;
use crate::operators::operator::Operator;
use crate::queries::bounded::{self, Call, Limits};
use crate::queries::merge::check_distinct;
use crate::queries::plan::AggregationPlan;

/// A function of an aggregation; `$run` makes its result of the streams and the query.
macro_rules! aggregate_function {
    ($name:ident -> $result:ty: $run:ident) => {
        #[doc = manual!($name)]
        #[pyfunction]
        #[pyo3(signature = (
            streams, *, on, size=None, advance=None, offset=None, session=None, by=None, aggs,
            r#where=None, algorithm="auto", threads=None, max_rows=None, memory_limit=None,
            lateness=None
        ))]
        #[expect(clippy::too_many_arguments, reason = "the arguments of the Python function")]
        pub(crate) fn $name<'py>(
            py: Python<'py>,
            streams: &Bound<'py, PyAny>,
            on: &str,
            size: Option<&Bound<'py, PyAny>>,
            advance: Option<&Bound<'py, PyAny>>,
            offset: Option<&Bound<'py, PyAny>>,
            session: Option<&Bound<'py, PyAny>>,
            by: Option<&Bound<'py, PyAny>>,
            aggs: &Bound<'py, PyAny>,
            r#where: Option<&Bound<'py, PyAny>>,
            algorithm: &str,
            threads: Option<&Bound<'py, PyAny>>,
            max_rows: Option<&Bound<'py, PyAny>>,
            memory_limit: Option<&Bound<'py, PyAny>>,
            lateness: Option<&Bound<'py, PyAny>>,
        ) -> PyResult<$result> {
            let arguments = Arguments {
                on, size, advance, offset, session, by, aggs, r#where, algorithm, threads, max_rows,
            };
            let limits = Limits { memory_limit, lateness };
            let limited = match limits.read()? {
                None => None,
                Some(limit) => Some(Limited { limit, lateness, arguments: arguments.by_name(py)? }),
            };
            let query = arguments.read()?;
            $run(py, listed(streams)?, query, limited)
        }
    };
}

aggregate_function! { aggregate -> Bound<'py, PyAny>: to_table }
aggregate_function! { aggregate_batches -> BatchReader: to_reader }
aggregate_function! { plan_aggregate -> AggregationPlan: to_plan }

#[doc = manual!(Aggregate)]
#[pyclass(frozen, extends = Operator, subclass, module = "tidegate")]
pub(crate) struct Aggregate;

#[pymethods]
impl Aggregate {
    #[new]
    #[pyo3(signature = (
        schema, *, on, size=None, advance=None, offset=None, session=None, by=None, aggs, r#where=None, sources=None,
        lateness=None, algorithm="auto", threads=None, memory_limit=None, digest=false
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
        digest: bool,
    ) -> PyResult<PyClassInitializer<Self>> {
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
            lateness: arguments::lateness(lateness)?,
            memory_limit: bytes("memory_limit", memory_limit)?,
        };
        let py = schema.py();
        let schema = self::schema("schema", schema)?;
        let aggregation = interrupt::detached(py, || stream::aggregate(&query, schema, &options))?;
        Ok(PyClassInitializer::from(Operator::new(aggregation, digest)).add_subclass(Aggregate))
    }
}

/// Aggregates streams and returns the result as a `pyarrow.Table`.
fn to_table<'py>(
    py: Python<'py>,
    streams: Vec<Bound<'py, PyAny>>,
    query: Aggregation,
    limited: Option<Limited<'_, 'py>>,
) -> PyResult<Bound<'py, PyAny>> {
    check_distinct(&streams)?;
    if let Some(limited) = limited {
        return limited.call(py, &streams)?.table(py, "aggregated");
    }
    let names = stream_names(streams.len());
    let stop = Stop::default();
    let inputs: Vec<_> = names.iter().map(String::as_str).zip(&streams).collect();
    let read = opened::read(&inputs, &stop, |schemas| {
        // Whether a stream has rows is not known before it is read, so assume here that all are
        // empty.
        Ok(query.query_plan(&untyped::of_aggregation(&query, schemas, |_| true))?.reads)
    })?;
    let running = stop.clone();
    let (threads, rows) = (query.threads, read.iter().map(Unchecked::rows).sum());
    let work = move || {
        let schemas: Vec<SchemaRef> = read.iter().map(|rows| rows.schema().clone()).collect();
        let schemas = untyped::of_aggregation(&query, &schemas, |at| read[at].rows() == 0);
        let driver = Driver::new(query.threads, running.clone());
        let typed = read.into_iter().zip(schemas).map(|(rows, schema)| rows.of_schema(schema));
        let tables = typed.map(|rows| rows.table(&driver));
        let tables = untyped::with_room(tables.collect::<tidegate::Result<_>>()?)?;
        let schemas: Vec<SchemaRef> = tables.iter().map(|table| table.schema().clone()).collect();
        let schema = query.schema(&schemas)?;
        Ok((query.run(tables, running)?, schema))
    };
    let (batches, schema) = interrupt::run(py, &stop, move || with_threads(threads, rows, work))?;
    export::table(py, batches, schema)
}

/// The plan of the aggregation of streams. Only their schemas are read.
fn to_plan(
    _py: Python<'_>,
    streams: Vec<Bound<'_, PyAny>>,
    query: Aggregation,
    limited: Option<Limited<'_, '_>>,
) -> PyResult<AggregationPlan> {
    let names = stream_names(streams.len());
    let schemas = names
        .iter()
        .zip(&streams)
        .map(|(name, stream)| schema(name, stream))
        .collect::<PyResult<Vec<_>>>()?;
    let schemas = untyped::of_aggregation(&query, &schemas, |_| true);
    let plan = query.query_plan(&schemas).map_err(raise)?;
    let plan = AggregationPlan::new(plan, schemas);
    let Some(Limited { limit, .. }) = limited else { return Ok(plan) };
    Ok(plan.with_line(&format!(
        "  limit      {limit} bytes: rows by time, aggregates of windows that are over; a stream \
         that is not known to be in order is sorted in temporary files"
    )))
}

/// The batches of the aggregation of streams.
fn to_reader<'py>(
    py: Python<'py>,
    streams: Vec<Bound<'py, PyAny>>,
    query: Aggregation,
    limited: Option<Limited<'_, 'py>>,
) -> PyResult<BatchReader> {
    check_distinct(&streams)?;
    if let Some(limited) = limited {
        return limited.call(py, &streams)?.open("aggregated", 1.0);
    }
    let table = to_table(py, streams, query, None)?;
    let schema = schema("the result", &table)?;
    let batches = table.call_method0("to_reader")?;
    let rows = py.import(bounded::ROOM)?.call_method1("known", (batches,))?;
    Ok(BatchReader::new(bounded::Made::new(rows.unbind()), schema, "aggregate_batches"))
}

/// The limits of a call, and its other arguments by their names.
struct Limited<'a, 'py> {
    limit: usize,
    lateness: Option<&'a Bound<'py, PyAny>>,
    arguments: Bound<'py, PyDict>,
}

impl<'a, 'py> Limited<'a, 'py> {
    fn call(self, py: Python<'py>, streams: &[Bound<'py, PyAny>]) -> PyResult<Call<'a, 'py>> {
        let Limited { limit, lateness, arguments } = self;
        let inputs = PyTuple::new(py, streams)?;
        Ok(Call { batches: "aggregate_batches", inputs, limit, lateness, arguments })
    }
}

const ALGORITHMS: [(&str, Option<Design>); 7] = [
    ("auto", None),
    ("slices", Some(Design::Slices)),
    ("mq", Some(Design::MultiQueue)),
    ("mq-lf", Some(Design::LockFreeMultiQueue)),
    ("tumlsc", Some(Design::MergedSingleConsumer)),
    ("tumlmc", Some(Design::MergedMultipleConsumer)),
    ("wiml", Some(Design::WindowMerged)),
];

/// The keyword arguments as they came.
struct Arguments<'a, 'py> {
    on: &'a str,
    size: Option<&'a Bound<'py, PyAny>>,
    advance: Option<&'a Bound<'py, PyAny>>,
    offset: Option<&'a Bound<'py, PyAny>>,
    session: Option<&'a Bound<'py, PyAny>>,
    by: Option<&'a Bound<'py, PyAny>>,
    aggs: &'a Bound<'py, PyAny>,
    r#where: Option<&'a Bound<'py, PyAny>>,
    algorithm: &'a str,
    threads: Option<&'a Bound<'py, PyAny>>,
    max_rows: Option<&'a Bound<'py, PyAny>>,
}

impl<'py> Arguments<'_, 'py> {
    /// The same, as Python's arguments.
    fn by_name(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let arguments = PyDict::new(py);
        arguments.set_item("on", self.on)?;
        arguments.set_item("size", self.size)?;
        arguments.set_item("advance", self.advance)?;
        arguments.set_item("offset", self.offset)?;
        arguments.set_item("session", self.session)?;
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
            by: key_names(self.by)?,
            aggregates: aggregates(self.aggs)?,
            predicate: self.r#where.map(extract_row).transpose()?,
            threads: count("threads", self.threads, 1, MAX_THREADS as i64)?
                .map_or_else(tidegate::default_threads, |threads| threads as usize),
            max_rows: count("max_rows", self.max_rows, 0, i64::MAX)?.map(i64::unsigned_abs),
        })
    }

    fn windows(&self) -> PyResult<Windows> {
        match (self.size, self.session) {
            (Some(size), None) => Ok(Windows::Sliding {
                size: duration("size", size)?,
                advance: self.advance.map(|advance| duration("advance", advance)).transpose()?,
                offset: self
                    .offset
                    .map_or(Ok(Duration::Steps(0)), |offset| duration("offset", offset))?,
            }),
            (None, None) => {
                Err(PyTypeError::new_err("size: expected a duration, got None; or give session"))
            }
            (size, Some(gap)) => {
                let given = [("size", size), ("advance", self.advance), ("offset", self.offset)];
                if let Some((name, _)) = given.into_iter().find(|(_, given)| given.is_some()) {
                    return Err(raise(Error::argument(format!(
                        "{name} cannot be combined with session: a session ends where its rows do. \
                         Leave one out"
                    ))));
                }
                Ok(Windows::Session(duration("session", gap)?))
            }
        }
    }
}

fn duration(argument: &str, ob: &Bound<'_, PyAny>) -> PyResult<Duration> {
    bound(argument, ob)?
        .ok_or_else(|| PyTypeError::new_err(format!("{argument}: expected a duration, got None")))
}

fn key_names(by: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<String>> {
    match by {
        Some(name) if name.is_instance_of::<PyString>() => Ok(vec![name.extract()?]),
        by => Ok(names("by", by)?.unwrap_or_default()),
    }
}
