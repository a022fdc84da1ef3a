//! The query for `interval_join`, and the class `IntervalJoin`.

use arrow_schema::SchemaRef;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use tidegate::stream::{self, Operator, Parallelism, StreamOptions};
use tidegate::{Bound as Length, Error, PairLimit, PartnerJoin, Preference};

use crate::inputs::arguments::{Argument, CLOSED, count, end, name_pair, widths, word};
use crate::interpreter::error::raise;
use crate::interpreter::interrupt::detached;
use crate::queries::join::{JoinRequest, Options, Sides, join_class, join_query, pairs};

join_query! {
    interval_join_query("interval_join") = ask;
    before_by(on: Argument, lower: Argument, upper: Argument)
    before_suffix(closed: &str = "both", open_ends: bool = false, prevailing: bool = false, limit: Option<Argument> = None, order: Option<&str> = None)
    before_threads()
}

join_class! {
    IntervalJoin = open;
    before_by(on: Argument, lower: Argument, upper: Argument)
    before_suffix(closed: &str = "both", prevailing: bool = false, max_width: Option<Argument> = None, load_factor: Option<Argument> = None)
    before_threads(parallelism: &str = "auto")
}

pairs! { tidegate::IntervalJoin {
    fn row_ends(&self) -> [bool; 2] {
        tidegate::IntervalJoin::row_ends(self)
    }

    fn operator(
        &self,
        left: SchemaRef,
        right: SchemaRef,
        max_width: Option<[Length; 2]>,
        options: &StreamOptions,
    ) -> tidegate::Result<Operator> {
        let parallelism = Parallelism::Auto;
        stream::interval_join(self, parallelism, None, max_width, left, right, options)
    }
} }

/// Requests pairs or aggregates, depending on the arguments.
#[expect(clippy::too_many_arguments, reason = "the arguments of the Python function")]
fn ask(
    on: Argument,
    lower: Argument,
    upper: Argument,
    closed: &str,
    open_ends: bool,
    prevailing: bool,
    limit: Option<Argument>,
    order: Option<&str>,
    options: Options,
) -> PyResult<JoinRequest<tidegate::IntervalJoin>> {
    let functions = options.functions()?;
    let limit = read_limit(limit, order)?;
    if limit.is_some() && functions.is_some() {
        return Err(raise(Error::argument(
            "limit: aggs aggregates all partners; leave limit out, or leave aggs out and aggregate \
             the pairs that the join returns",
        )));
    }
    if prevailing && functions.is_none() {
        return Err(raise(Error::argument(
            "prevailing: this adds a row to the partners that aggs aggregates; give aggs, such as \
             aggs={\"n\": tidegate.agg.count()}, or call asof_join to get the row itself",
        )));
    }
    let query = read(on, lower, upper, closed, open_ends, limit, options)?;
    JoinRequest::new(query, functions, |join| PartnerJoin::Interval {
        join,
        with_prevailing: prevailing,
    })
}

/// Builds the join that the arguments describe.
fn read(
    on: Argument,
    lower: Argument,
    upper: Argument,
    closed: &str,
    open_ends: bool,
    limit: Option<PairLimit>,
    options: Options,
) -> PyResult<tidegate::IntervalJoin> {
    Ok(tidegate::IntervalJoin {
        on: name_pair("on", on)?,
        lower: end("lower", lower)?,
        upper: end("upper", upper)?,
        closed: word("closed", closed, &CLOSED)?,
        open_ends,
        limit,
        options: options.read()?,
    })
}

/// Returns the maximum number of pairs per left row, and which pairs are kept.
fn read_limit(limit: Option<Argument>, order: Option<&str>) -> PyResult<Option<PairLimit>> {
    let preference = order.map(|order| word("order", order, &ORDERS)).transpose()?;
    match count("limit", limit, 1, u32::MAX.into())? {
        Some(most) => Ok(Some(PairLimit {
            most: most as u32,
            preference: preference.unwrap_or(Preference::First),
        })),
        None if preference.is_some() => Err(raise(Error::argument(
            "order: this selects the pairs that limit keeps; give limit, such as limit=1, or leave \
             order out",
        ))),
        None => Ok(None),
    }
}

const ORDERS: [(&str, Preference); 3] =
    [("first", Preference::First), ("last", Preference::Last), ("nearest", Preference::Nearest)];

#[expect(clippy::too_many_arguments, reason = "the arguments of the Python class")]
fn open(
    on: Argument,
    lower: Argument,
    upper: Argument,
    closed: &str,
    prevailing: bool,
    max_width: Option<Argument>,
    load_factor: Option<Argument>,
    parallelism: &str,
    options: Options,
    sides: Sides,
) -> PyResult<stream::Operator> {
    let py = on.py();
    let query = ask(on, lower, upper, closed, false, prevailing, None, None, options)?;
    let parallelism = word("parallelism", parallelism, &PARALLELISM)?;
    let max_width = widths(max_width)?;
    let load_factor = load_factor.map(factor).transpose()?;
    let (left, right, options) = sides.read()?;
    detached(py, || match query {
        JoinRequest::Pairs(query) => stream::interval_join(
            &query,
            parallelism,
            load_factor,
            max_width,
            left,
            right,
            &options,
        ),
        JoinRequest::Aggregates(_) if load_factor.is_some() => Err(Error::argument(
            "load_factor: with aggs, no keys are assigned to threads, since final left rows are \
             joined like tables; leave it out",
        )),
        JoinRequest::Aggregates(query) if parallelism == Parallelism::Auto => {
            stream::partner_aggregates(&query, max_width, left, right, &options)
        }
        JoinRequest::Aggregates(_) => Err(Error::argument(
            "parallelism: with aggs, no keys are assigned to threads, since final left rows are \
             joined like tables; leave it out",
        )),
    })
}

/// A number.
fn factor(given: Argument) -> PyResult<f64> {
    given.extract().map_err(|_| {
        PyTypeError::new_err(format!("load_factor: expected a number, got {}", given.get_type()))
    })
}

const PARALLELISM: [(&str, Parallelism); 5] = [
    ("auto", Parallelism::Auto),
    ("key", Parallelism::Key),
    ("data", Parallelism::Data),
    ("hybrid", Parallelism::Hybrid),
    ("scale-oij", Parallelism::ScaleOij),
];
