//! `band_join` and the forms of it.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyList, PyTuple};
use tidegate::{BandJoin, Bound as Duration, Distance, Error, JoinOptions, Within};

use crate::error::raise;
use crate::input::{bound, name_pairs, schema};
use crate::join::{Options, to_reader, to_table};
use crate::reader::BatchReader;

/// Pair the rows of two inputs whose values are close.
///
/// `(l, r)` is in the result when `abs(l.x - r.x) <= within` in each column of `on`, all `by` columns are equal and `where`
/// holds. Returns a `pyarrow.Table` in left row order, then right row order.
#[pyfunction]
#[pyo3(signature = (
    left, right, *, on, within, by=None, r#where=None, how="inner", suffix="_right", columns=None, threads=None,
    max_rows=None
))]
#[expect(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub(crate) fn band_join<'py>(
    py: Python<'py>,
    left: &Bound<'py, PyAny>,
    right: &Bound<'py, PyAny>,
    on: &Bound<'py, PyAny>,
    within: &Bound<'py, PyAny>,
    by: Option<&Bound<'py, PyAny>>,
    r#where: Option<&Bound<'py, PyAny>>,
    how: &str,
    suffix: &str,
    columns: Option<&Bound<'py, PyAny>>,
    threads: Option<&Bound<'py, PyAny>>,
    max_rows: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let options = Options { by, r#where, how, suffix, columns, threads, max_rows, batch_rows: None };
    let join = query(on, within, options.read()?)?;
    to_table(py, left, right, join.options.threads, move |left, right, stop| join.start(left, right, stop))
}

/// Do as `band_join`, and return the rows batch by batch.
///
/// Returns a `BatchReader`, for results larger than memory.
#[pyfunction]
#[pyo3(signature = (
    left, right, *, on, within, by=None, r#where=None, how="inner", suffix="_right", columns=None, threads=None,
    max_rows=None, batch_rows=None
))]
#[expect(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub(crate) fn band_join_batches<'py>(
    py: Python<'py>,
    left: &Bound<'py, PyAny>,
    right: &Bound<'py, PyAny>,
    on: &Bound<'py, PyAny>,
    within: &Bound<'py, PyAny>,
    by: Option<&Bound<'py, PyAny>>,
    r#where: Option<&Bound<'py, PyAny>>,
    how: &str,
    suffix: &str,
    columns: Option<&Bound<'py, PyAny>>,
    threads: Option<&Bound<'py, PyAny>>,
    max_rows: Option<&Bound<'py, PyAny>>,
    batch_rows: Option<&Bound<'py, PyAny>>,
) -> PyResult<BatchReader> {
    let options = Options { by, r#where, how, suffix, columns, threads, max_rows, batch_rows };
    let join = query(on, within, options.read()?)?;
    let threads = join.options.threads;
    to_reader(py, left, right, threads, move |left, right, stop| join.start(left, right, stop), "band_join_batches")
}

/// Say what `band_join` would do with these arguments; `tidegate.explain` calls it.
#[pyfunction]
#[pyo3(signature = (
    left, right, *, on, within, by=None, r#where=None, how="inner", suffix="_right", columns=None, threads=None,
    max_rows=None, batch_rows=None
))]
#[expect(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub(crate) fn explain_band_join<'py>(
    left: &Bound<'py, PyAny>,
    right: &Bound<'py, PyAny>,
    on: &Bound<'py, PyAny>,
    within: &Bound<'py, PyAny>,
    by: Option<&Bound<'py, PyAny>>,
    r#where: Option<&Bound<'py, PyAny>>,
    how: &str,
    suffix: &str,
    columns: Option<&Bound<'py, PyAny>>,
    threads: Option<&Bound<'py, PyAny>>,
    max_rows: Option<&Bound<'py, PyAny>>,
    batch_rows: Option<&Bound<'py, PyAny>>,
) -> PyResult<String> {
    let options = Options { by, r#where, how, suffix, columns, threads, max_rows, batch_rows };
    query(on, within, options.read()?)?.explain(&*schema("left", left)?, &*schema("right", right)?).map_err(raise)
}

fn query(on: &Bound<'_, PyAny>, within: &Bound<'_, PyAny>, options: JoinOptions) -> PyResult<BandJoin> {
    if on.is_instance_of::<PyTuple>() {
        return Err(PyTypeError::new_err(
            "on: expected a name, a list of names or pairs, or a mapping, got a tuple; give [\"x\", \"y\"] for two columns, \
             or [(\"x\", \"y\")] for one that has another name on the right",
        ));
    }
    let on = name_pairs("on", Some(on))?;
    let within = withins(&on, within)?;
    Ok(BandJoin { on, within, options })
}

/// How far apart values may be: one for all columns, a list with one for each, or a mapping from left names.
fn withins(on: &[(String, String)], within: &Bound<'_, PyAny>) -> PyResult<Vec<Within>> {
    if let Ok(list) = within.cast::<PyList>() {
        return list.iter().map(|within| one_within(&within)).collect();
    }
    let Ok(mapping) = within.cast::<PyDict>() else { return Ok(vec![one_within(within)?; on.len()]) };
    let known = |name: &str| on.iter().any(|(left, _)| left == name);
    if let Some(name) = mapping.keys().iter().find(|name| !name.extract::<String>().is_ok_and(|name| known(&name))) {
        return Err(raise(Error::argument(format!("within names {}, which is no left column of on", name.repr()?))));
    }
    let of = |(left, _): &(String, String)| match mapping.get_item(left)? {
        Some(within) => one_within(&within),
        None => Err(raise(Error::argument(format!("within says nothing of `{left}`, which on names")))),
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
    if given.hasattr("dtype")? && given.getattr("dtype")?.getattr("kind")?.extract::<String>()? == "f" {
        return Ok(Some(Distance::Float(given.call_method0("__float__")?.extract()?)));
    }
    let found = bound("within", given);
    let found =
        found.map_err(|error| if error.is_instance_of::<PyTypeError>(given.py()) { wrong(given) } else { error });
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
