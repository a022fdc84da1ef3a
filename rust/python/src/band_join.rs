//! `band_join` and its other forms, and the class `BandJoin`.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyList, PyTuple};
use tidegate::{
    BandAlgorithm, Bound as Duration, Distance, Error, IndexKind, PartnerJoin, Sliding, Within,
    stream,
};

use crate::error::raise;
use crate::input::{bound, name_pair, name_pairs, word};
use crate::join::{Asked, Given, Options, Sides, join_class, join_functions};
use crate::window_join::windows;

join_functions! {
    tidegate::BandJoin = ask; band_join, band_join_batches, plan_band_join;
    before_by(on: Given, within: Given, time: Option<Given> = None, window: Option<Given> = None)
    before_suffix()
    before_threads(algorithm: &str = "auto")
}

join_class! {
    BandJoin = open;
    before_by(on: Given, within: Given, time: Given, window: Given)
    before_suffix()
    before_threads(algorithm: &str = "auto")
}

/// The pairs or the aggregates that the arguments of a function ask for.
fn ask(
    on: Given,
    within: Given,
    time: Option<Given>,
    window: Option<Given>,
    algorithm: &str,
    options: Options,
) -> PyResult<Asked<tidegate::BandJoin>> {
    let functions = options.functions()?;
    let query = read(on, within, time, window, algorithm, options)?;
    Asked::new(query, functions, PartnerJoin::Band)
}

/// The join that the arguments ask for.
fn read(
    on: Given,
    within: Given,
    time: Option<Given>,
    window: Option<Given>,
    algorithm: &str,
    options: Options,
) -> PyResult<tidegate::BandJoin> {
    let options = options.read()?;
    if on.is_instance_of::<PyTuple>() {
        return Err(PyTypeError::new_err(
            "on: expected a name, a list of names or pairs, or a mapping, got a tuple; give \
             [\"x\", \"y\"] for two columns, or [(\"x\", \"y\")] for a column that has another \
             name on the right",
        ));
    }
    let on = name_pairs("on", Some(on))?;
    let within = withins(&on, within)?;
    let sliding = match (time, window) {
        (None, None) => None,
        (Some(time), Some(window)) => {
            Some(Sliding { time: name_pair("time", time)?, window: windows(window)? })
        }
        (None, Some(_)) => {
            return Err(raise(Error::argument(
                "window needs the time column by which rows come; give time",
            )));
        }
        (Some(_), None) => {
            return Err(raise(Error::argument(
                "time is used with a window only; give a window, or leave time out",
            )));
        }
    };
    let algorithm = self::algorithm(algorithm, options.threads)?;
    Ok(tidegate::BandJoin { on, within, sliding, algorithm, options })
}

fn open(
    on: Given,
    within: Given,
    time: Given,
    window: Given,
    algorithm: &str,
    options: Options,
    sides: Sides,
) -> PyResult<stream::Operator> {
    let query = ask(on, within, Some(time), Some(window), algorithm, options)?;
    let (left, right, options) = sides.read()?;
    let join = match query {
        Asked::Pairs(query) => stream::band_join(&query, left, right, &options),
        Asked::Aggregates(query) => stream::partner_aggregates(&query, None, left, right, &options),
    };
    join.map_err(raise)
}

/// An algorithm by name; `threads` may use it.
fn algorithm(name: &str, threads: usize) -> PyResult<BandAlgorithm> {
    let index = BandAlgorithm::Index;
    let algorithms = [
        ("auto", BandAlgorithm::Auto),
        ("sort", BandAlgorithm::Sort),
        ("buckets", index(IndexKind::Buckets)),
        ("pim-tree", index(IndexKind::PimTree)),
        ("im-tree", index(IndexKind::ImTree)),
        ("bplus-tree", index(IndexKind::BPlusTree)),
        ("b-chain", index(IndexKind::BChain)),
        ("ib-chain", index(IndexKind::IbChain)),
        ("round-robin", index(IndexKind::RoundRobin(threads))),
        ("ibwj", BandAlgorithm::Tasks { is_blocking: false }),
        ("ibwj-blocking", BandAlgorithm::Tasks { is_blocking: true }),
    ];
    word("algorithm", name, &algorithms)
}

/// How far apart values may be: one for all columns, a list with one for each, or a mapping from
/// left names.
fn withins(on: &[(String, String)], within: &Bound<'_, PyAny>) -> PyResult<Vec<Within>> {
    if let Ok(list) = within.cast::<PyList>() {
        return list.iter().map(|within| one_within(&within)).collect();
    }
    let Ok(mapping) = within.cast::<PyDict>() else {
        return Ok(vec![one_within(within)?; on.len()]);
    };
    let known = |name: &str| on.iter().any(|(left, _)| left == name);
    if let Some(name) =
        mapping.keys().iter().find(|name| !name.extract::<String>().is_ok_and(|name| known(&name)))
    {
        return Err(raise(Error::argument(format!(
            "within names {}, but on has no such left column; add it to on, or leave it out",
            name.repr()?
        ))));
    }
    let of = |(left, _): &(String, String)| match mapping.get_item(left)? {
        Some(within) => one_within(&within),
        None => Err(raise(Error::argument(format!(
            "within has no distance for `{left}`, which on names; add one"
        )))),
    };
    on.iter().map(of).collect()
}

/// One distance, or how far below and above.
fn one_within(within: &Bound<'_, PyAny>) -> PyResult<Within> {
    let both = || {
        let distance = distance(within)?.ok_or_else(|| wrong(within))?;
        Ok(Within { below: Some(distance), above: Some(distance) })
    };
    let Ok(pair) = within.cast::<PyTuple>() else { return both() };
    if pair.len() != 2 {
        return Err(wrong(within));
    }
    Ok(Within { below: distance(&pair.get_item(0)?)?, above: distance(&pair.get_item(1)?)? })
}

/// A number or a duration; `None` for no bound.
fn distance(given: &Bound<'_, PyAny>) -> PyResult<Option<Distance>> {
    if given.is_instance_of::<PyFloat>() {
        return Ok(Some(Distance::Float(given.extract()?)));
    }
    if given.get_type().fully_qualified_name()? == "decimal.Decimal" {
        let text: String = given.call_method1("__format__", ("e",))?.extract()?;
        return Distance::decimal(&text).map(Some).map_err(raise);
    }
    if given.hasattr("dtype")?
        && given.getattr("dtype")?.getattr("kind")?.extract::<String>()? == "f"
    {
        return Ok(Some(Distance::Float(given.call_method0("__float__")?.extract()?)));
    }
    let found = bound("within", given);
    let found = found.map_err(|error| {
        if error.is_instance_of::<PyTypeError>(given.py()) { wrong(given) } else { error }
    });
    Ok(found?.map(|distance| match distance {
        Duration::Steps(steps) => Distance::Whole(steps),
        Duration::Nanoseconds(nanoseconds) => Distance::Nanoseconds(nanoseconds),
    }))
}

fn wrong(within: &Bound<'_, PyAny>) -> PyErr {
    let kind = within.get_type();
    PyTypeError::new_err(format!(
        "within: expected a number, a duration, a pair (below, above) of them, either of which may \
         be None, or a list with one for each column; got {kind}"
    ))
}
