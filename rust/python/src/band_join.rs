//! `band_join` and the forms of it, and the class `BandJoin`.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyList, PyTuple};
use tidegate::{
    BandAlgorithm, Bound as Duration, Distance, Error, IndexKind, JoinOptions, Sliding, Within,
    stream,
};

use crate::error::raise;
use crate::input::{bound, name_pair, name_pairs, schema};
use crate::join::{Options, to_reader, to_table, word};
use crate::reader::BatchReader;
use crate::stream_join::{StreamJoin, options};
use crate::window_join::windows;

#[doc = manual!(band_join)]
#[pyfunction]
#[pyo3(signature = (
    left, right, *, on, within, time=None, window=None, by=None, r#where=None, how="inner", suffix="_right", columns=None,
    algorithm="auto", threads=None, max_rows=None
))]
#[expect(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub(crate) fn band_join<'py>(
    py: Python<'py>,
    left: &Bound<'py, PyAny>,
    right: &Bound<'py, PyAny>,
    on: &Bound<'py, PyAny>,
    within: &Bound<'py, PyAny>,
    time: Option<&Bound<'py, PyAny>>,
    window: Option<&Bound<'py, PyAny>>,
    by: Option<&Bound<'py, PyAny>>,
    r#where: Option<&Bound<'py, PyAny>>,
    how: &str,
    suffix: &str,
    columns: Option<&Bound<'py, PyAny>>,
    algorithm: &str,
    threads: Option<&Bound<'py, PyAny>>,
    max_rows: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let options =
        Options { by, r#where, how, suffix, columns, threads, max_rows, batch_rows: None };
    let join = Query { on, within, time, window, algorithm }.read(options.read()?)?;
    to_table(py, left, right, join.options.threads, move |left, right, stop| {
        join.start(left, right, stop)
    })
}

#[doc = manual!(band_join_batches)]
#[pyfunction]
#[pyo3(signature = (
    left, right, *, on, within, time=None, window=None, by=None, r#where=None, how="inner", suffix="_right", columns=None,
    algorithm="auto", threads=None, max_rows=None, batch_rows=None
))]
#[expect(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub(crate) fn band_join_batches<'py>(
    py: Python<'py>,
    left: &Bound<'py, PyAny>,
    right: &Bound<'py, PyAny>,
    on: &Bound<'py, PyAny>,
    within: &Bound<'py, PyAny>,
    time: Option<&Bound<'py, PyAny>>,
    window: Option<&Bound<'py, PyAny>>,
    by: Option<&Bound<'py, PyAny>>,
    r#where: Option<&Bound<'py, PyAny>>,
    how: &str,
    suffix: &str,
    columns: Option<&Bound<'py, PyAny>>,
    algorithm: &str,
    threads: Option<&Bound<'py, PyAny>>,
    max_rows: Option<&Bound<'py, PyAny>>,
    batch_rows: Option<&Bound<'py, PyAny>>,
) -> PyResult<BatchReader> {
    let options = Options { by, r#where, how, suffix, columns, threads, max_rows, batch_rows };
    let join = Query { on, within, time, window, algorithm }.read(options.read()?)?;
    let threads = join.options.threads;
    to_reader(
        py,
        left,
        right,
        threads,
        move |left, right, stop| join.start(left, right, stop),
        "band_join_batches",
    )
}

#[doc = manual!(explain_band_join)]
#[pyfunction]
#[pyo3(signature = (
    left, right, *, on, within, time=None, window=None, by=None, r#where=None, how="inner", suffix="_right", columns=None,
    algorithm="auto", threads=None, max_rows=None, batch_rows=None
))]
#[expect(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub(crate) fn explain_band_join<'py>(
    left: &Bound<'py, PyAny>,
    right: &Bound<'py, PyAny>,
    on: &Bound<'py, PyAny>,
    within: &Bound<'py, PyAny>,
    time: Option<&Bound<'py, PyAny>>,
    window: Option<&Bound<'py, PyAny>>,
    by: Option<&Bound<'py, PyAny>>,
    r#where: Option<&Bound<'py, PyAny>>,
    how: &str,
    suffix: &str,
    columns: Option<&Bound<'py, PyAny>>,
    algorithm: &str,
    threads: Option<&Bound<'py, PyAny>>,
    max_rows: Option<&Bound<'py, PyAny>>,
    batch_rows: Option<&Bound<'py, PyAny>>,
) -> PyResult<String> {
    let options = Options { by, r#where, how, suffix, columns, threads, max_rows, batch_rows };
    Query { on, within, time, window, algorithm }
        .read(options.read()?)?
        .explain(&*schema("left", left)?, &*schema("right", right)?)
        .map_err(raise)
}

/// Join rows as they come, by values that are close, over sliding windows.
#[pyclass(frozen, extends = StreamJoin, module = "tidegate")]
pub(crate) struct BandJoin;

#[pymethods]
impl BandJoin {
    #[new]
    #[pyo3(signature = (
        left, right, *, on, within, time, window, by=None, r#where=None, how="inner", suffix="_right", columns=None,
        sources=None, lateness=None, algorithm="auto", threads=None, memory_limit=None, ordered=true, pin=true
    ))]
    #[expect(clippy::too_many_arguments, reason = "the arguments of the Python class")]
    fn new<'py>(
        left: &Bound<'py, PyAny>,
        right: &Bound<'py, PyAny>,
        on: &Bound<'py, PyAny>,
        within: &Bound<'py, PyAny>,
        time: &Bound<'py, PyAny>,
        window: &Bound<'py, PyAny>,
        by: Option<&Bound<'py, PyAny>>,
        r#where: Option<&Bound<'py, PyAny>>,
        how: &str,
        suffix: &str,
        columns: Option<&Bound<'py, PyAny>>,
        sources: Option<&Bound<'py, PyAny>>,
        lateness: Option<&Bound<'py, PyAny>>,
        algorithm: &str,
        threads: Option<&Bound<'py, PyAny>>,
        memory_limit: Option<&Bound<'py, PyAny>>,
        ordered: bool,
        pin: bool,
    ) -> PyResult<PyClassInitializer<Self>> {
        let (max_rows, batch_rows) = (None, None);
        let join =
            Options { by, r#where, how, suffix, columns, threads, max_rows, batch_rows }.read()?;
        let join =
            Query { on, within, time: Some(time), window: Some(window), algorithm }.read(join)?;
        let options = options(sources, lateness, memory_limit, ordered, pin)?;
        let (left, right) = (schema("left", left)?, schema("right", right)?);
        let join = stream::StreamJoin::band(&join, left, right, &options).map_err(raise)?;
        Ok(PyClassInitializer::from(StreamJoin::new(join)).add_subclass(BandJoin))
    }
}

/// The arguments that say which pairs there are, and how they are found.
struct Query<'a, 'py> {
    on: &'a Bound<'py, PyAny>,
    within: &'a Bound<'py, PyAny>,
    time: Option<&'a Bound<'py, PyAny>>,
    window: Option<&'a Bound<'py, PyAny>>,
    algorithm: &'a str,
}

impl Query<'_, '_> {
    fn read(self, options: JoinOptions) -> PyResult<tidegate::BandJoin> {
        let Query { on, within, time, window, algorithm } = self;
        if on.is_instance_of::<PyTuple>() {
            return Err(PyTypeError::new_err(
                "on: expected a name, a list of names or pairs, or a mapping, got a tuple; give [\"x\", \"y\"] for two \
                 columns, or [(\"x\", \"y\")] for one that has another name on the right",
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
                    "window needs time, the column by which rows come; name it",
                )));
            }
            (Some(_), None) => {
                return Err(raise(Error::argument(
                    "time is for windows; give a window, or leave time out",
                )));
            }
        };
        let algorithm = self::algorithm(algorithm, options.threads)?;
        Ok(tidegate::BandJoin { on, within, sliding, algorithm, options })
    }
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
            "within names {}, which is no left column of on",
            name.repr()?
        ))));
    }
    let of = |(left, _): &(String, String)| match mapping.get_item(left)? {
        Some(within) => one_within(&within),
        None => {
            Err(raise(Error::argument(format!("within says nothing of `{left}`, which on names"))))
        }
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
        "within: expected a number or a duration, a pair (below, above) of these of which one may be None, or a list with \
         one for each column, got {kind}"
    ))
}
