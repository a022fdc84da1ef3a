//! The query for `band_join`, and the class `BandJoin`.

use arrow_schema::SchemaRef;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyList, PyTuple};
use tidegate::stream::{self, Operator, StreamOptions};
use tidegate::{
    BandAlgorithm, Bound as Duration, Distance, Error, IndexKind, MergeOptions, PartnerJoin,
    Sliding, TaskIndex, TaskOptions, Within,
};

use crate::inputs::arguments::{Argument, bound, count, name_pair, name_pairs, word};
use crate::interpreter::error::raise;
use crate::interpreter::interrupt::detached;
use crate::queries::join::{
    JoinRequest, Options, Sides, check_no_width, join_class, join_query, pairs,
};
use crate::queries::window_join::windows;

join_query! {
    band_join_query("band_join") = ask;
    before_by(on: Argument, within: Argument, time: Option<Argument> = None, window: Option<Argument> = None)
    before_suffix(settings: Option<Argument> = None)
    before_threads(algorithm: &str = "auto")
}

join_class! {
    BandJoin = open;
    before_by(on: Argument, within: Argument, time: Argument, window: Argument)
    before_suffix(settings: Option<Argument> = None)
    before_threads(algorithm: &str = "auto")
}

pairs! { tidegate::BandJoin {
    fn operator(
        &self,
        left: SchemaRef,
        right: SchemaRef,
        max_width: Option<[Duration; 2]>,
        options: &StreamOptions,
    ) -> tidegate::Result<Operator> {
        check_no_width(max_width)?;
        stream::band_join(self, left, right, options)
    }
} }

/// Requests pairs or aggregates, depending on the arguments.
fn ask(
    on: Argument,
    within: Argument,
    time: Option<Argument>,
    window: Option<Argument>,
    settings: Option<Argument>,
    algorithm: &str,
    options: Options,
) -> PyResult<JoinRequest<tidegate::BandJoin>> {
    let functions = options.functions()?;
    let query = read(on, within, time, window, settings, algorithm, options)?;
    JoinRequest::new(query, functions, PartnerJoin::Band)
}

/// Builds the join that the arguments describe.
fn read(
    on: Argument,
    within: Argument,
    time: Option<Argument>,
    window: Option<Argument>,
    settings: Option<Argument>,
    algorithm: &str,
    options: Options,
) -> PyResult<tidegate::BandJoin> {
    let options = options.read()?;
    if on.is_instance_of::<PyTuple>() {
        return Err(PyTypeError::new_err(
            "on: expected a name, a list of names or pairs, or a mapping, got a tuple; give \
             [\"x\", \"y\"] for two columns, or [(\"x\", \"y\")] for a column that has a different \
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
            return Err(raise(Error::argument("window requires a time column; give time")));
        }
        (Some(_), None) => {
            return Err(raise(Error::argument(
                "time is used only with a window; give a window, or leave time out",
            )));
        }
    };
    let algorithm = self::algorithm(algorithm, settings, options.threads)?;
    Ok(tidegate::BandJoin { on, within, sliding, algorithm, options })
}

#[expect(clippy::too_many_arguments, reason = "the arguments of the Python class")]
fn open(
    on: Argument,
    within: Argument,
    time: Argument,
    window: Argument,
    settings: Option<Argument>,
    algorithm: &str,
    options: Options,
    sides: Sides,
) -> PyResult<stream::Operator> {
    let py = on.py();
    let query = ask(on, within, Some(time), Some(window), settings, algorithm, options)?;
    if sides.right.is_none() {
        let JoinRequest::Pairs(query) = query else {
            return Err(raise(Error::argument(
                "aggs: without right rows, there are no partners to aggregate; leave aggs out, or \
                 give the same schema as right",
            )));
        };
        let (rows, options) = sides.read_one()?;
        return detached(py, || stream::band_self_join(&query, rows, &options));
    }
    let (left, right, options) = sides.read()?;
    detached(py, || match query {
        JoinRequest::Pairs(query) => stream::band_join(&query, left, right, &options),
        JoinRequest::Aggregates(query) => {
            stream::partner_aggregates(&query, None, left, right, &options)
        }
    })
}

/// Returns an algorithm by name, with its settings, for use by up to `threads` threads.
fn algorithm(name: &str, settings: Option<Argument>, threads: usize) -> PyResult<BandAlgorithm> {
    let index = BandAlgorithm::Index;
    let name = word("algorithm", name, &ALGORITHMS.map(|name| (name, name)))?;
    let mut settings = Settings::new(name, settings)?;
    let algorithm = match name {
        "auto" => BandAlgorithm::Auto,
        "sort" => BandAlgorithm::Sort,
        "buckets" => BandAlgorithm::Buckets,
        "bplus-tree" => index(IndexKind::BPlusTree),
        "round-robin" => BandAlgorithm::Partitions(threads),
        "pim-tree" => {
            let ratio = settings.merge_ratio()?;
            let insertion_depth = settings.number("insertion_depth", 0, MOST_DEPTH)?;
            index(match (ratio, IndexKind::PIM_TREE) {
                (Some(merge_ratio), _) | (None, IndexKind::PimTree { merge_ratio, .. }) => {
                    IndexKind::PimTree { merge_ratio, insertion_depth }
                }
                (None, other) => other,
            })
        }
        "im-tree" => {
            let ratio = settings.merge_ratio()?;
            index(ratio.map_or(IndexKind::IM_TREE, |merge_ratio| IndexKind::ImTree { merge_ratio }))
        }
        "b-chain" => {
            let length = settings.number("chain_length", 2, MOST_CHAINED)?;
            index(length.map_or(IndexKind::B_CHAIN, IndexKind::BChain))
        }
        "ib-chain" => {
            let length = settings.number("chain_length", 2, MOST_CHAINED)?;
            index(length.map_or(IndexKind::IB_CHAIN, IndexKind::IbChain))
        }
        _ => {
            let rows = settings.number("task_rows", 1, MOST_TASK_ROWS)?;
            let index = match name {
                "ibwj-bplus-tree" => TaskIndex::BPlusTree,
                _ => TaskIndex::PimTree(MergeOptions {
                    merge_ratio: settings
                        .merge_ratio()?
                        .unwrap_or(MergeOptions::default().merge_ratio),
                    insertion_depth: settings.number("insertion_depth", 0, MOST_DEPTH)?,
                    is_blocking: name == "ibwj-blocking",
                }),
            };
            BandAlgorithm::Tasks(TaskOptions {
                rows: rows.unwrap_or(TaskOptions::default().rows),
                index,
            })
        }
    };
    settings.check_all_known()?;
    Ok(algorithm)
}

const ALGORITHMS: [&str; 12] = [
    "auto",
    "sort",
    "buckets",
    "pim-tree",
    "im-tree",
    "bplus-tree",
    "b-chain",
    "ib-chain",
    "round-robin",
    "ibwj",
    "ibwj-blocking",
    "ibwj-bplus-tree",
];

/// Even a tree with four billion rows has fewer levels than this.
const MOST_DEPTH: i64 = 32;

/// Every index in a chain is searched for each row.
const MOST_CHAINED: i64 = 1 << 10;

/// With larger tasks, some threads would have nothing to do.
const MOST_TASK_ROWS: i64 = 1 << 16;

/// The settings of the algorithms. Each algorithm reads the settings that apply to it.
struct Settings<'a, 'py> {
    algorithm: &'static str,
    given: Option<&'a Bound<'py, PyDict>>,
    known: Vec<&'static str>,
}

impl<'a, 'py> Settings<'a, 'py> {
    fn new(algorithm: &'static str, given: Option<Argument<'a, 'py>>) -> PyResult<Self> {
        let given = given.map(|given| {
            given.cast::<PyDict>().map_err(|_| {
                PyTypeError::new_err(format!(
                    "settings: expected a dict such as {{\"merge_ratio\": 0.25}}, got {}",
                    given.get_type()
                ))
            })
        });
        Ok(Settings { algorithm, given: given.transpose()?, known: Vec::new() })
    }

    fn take(&mut self, name: &'static str) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.known.push(name);
        self.given.map_or(Ok(None), |given| given.get_item(name))
    }

    fn number(&mut self, name: &'static str, least: i64, most: i64) -> PyResult<Option<usize>> {
        let given = self.take(name)?;
        let number = count(&format!("settings: {name}"), given.as_ref(), least, most)?;
        Ok(number.map(|number| number as usize))
    }

    fn merge_ratio(&mut self) -> PyResult<Option<f64>> {
        let Some(given) = self.take("merge_ratio")? else { return Ok(None) };
        let ratio: f64 = given.extract().map_err(|_| {
            PyTypeError::new_err(format!(
                "settings: merge_ratio: expected a number, got {}",
                given.get_type()
            ))
        })?;
        if ratio > 0.0 && ratio <= 1.0 {
            return Ok(Some(ratio));
        }
        Err(raise(Error::argument(format!(
            "settings: merge_ratio must be above 0 and at most 1, got {ratio}; write \
             settings={{\"merge_ratio\": 0.25}}"
        ))))
    }

    /// Rejects settings that do not apply to the algorithm.
    fn check_all_known(&self) -> PyResult<()> {
        let Some(given) = self.given else { return Ok(()) };
        for name in given.keys() {
            if name.extract::<&str>().is_ok_and(|name| self.known.contains(&name)) {
                continue;
            }
            let (algorithm, name) = (self.algorithm, name.repr()?);
            let known = match &self.known[..] {
                [] => "it has no settings; leave them out, or choose another algorithm".to_owned(),
                known => format!("it has {}", known.join(", ")),
            };
            return Err(raise(Error::argument(format!(
                "settings: algorithm=\"{algorithm}\" has no {name}; {known}"
            ))));
        }
        Ok(())
    }
}

/// Returns the distances within which values match. The distances are given as one distance for all
/// columns, a list with one per column, or a mapping from left column names.
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
            "within specifies no distance for `{left}`, a column in on; add a distance"
        )))),
    };
    on.iter().map(of).collect()
}

/// Returns a single distance, or one distance below and one above.
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

/// Returns a number or a duration, or `None` for no bound.
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
