//! Reads the functions in `aggs`, an argument of aggregations and joins.

use std::sync::Arc;

use arrow_array::{RecordBatch, new_empty_array};
use pyo3::exceptions::{PyKeyboardInterrupt, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyMapping, PyType};
use tidegate::query::aggregate::{Aggregate, Function, Interpolation, OwnInterval, Quantile, Udf};
use tidegate::{Error, check_call};

use crate::arrow::{capsule, export, import};
use crate::inputs::arguments::{CLOSED, bound, count, word};
use crate::inputs::expression::extract_row;
use crate::interpreter::threads::{attached, called};

/// Returns the aggregates that a mapping from result columns to `tidegate.agg` functions specifies.
pub(crate) fn aggregates(aggs: &Bound<'_, PyAny>) -> PyResult<Vec<Aggregate>> {
    const EXAMPLE: &str = "such as tidegate.agg.sum(\"size\")";
    let mapping = aggs.cast::<PyMapping>().map_err(|_| {
        let line = function_named(aggs)
            .map_or_else(String::new, |function| format!("; write aggs={{{aggs:?}: {function}}}"));
        PyTypeError::new_err(format!(
            "aggs: expected a mapping from names to functions {EXAMPLE}, got {aggs:?}{line}"
        ))
    })?;
    let one = |item: Bound<'_, PyAny>| {
        let (name, given): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
        let name: String = name.extract().map_err(|_| {
            PyTypeError::new_err(format!("aggs: expected strings as names, got {name:?}"))
        })?;
        if !given.is_instance(aggregate_type(aggs.py())?)? {
            let line = function_named(&given)
                .map_or_else(String::new, |function| format!("; write \"{name}\": {function}"));
            return Err(PyTypeError::new_err(format!(
                "aggs: `{name}`: expected a function {EXAMPLE}, got {given:?}{line}"
            )));
        }
        let condition: Option<Bound<'_, PyAny>> = given.getattr("where")?.extract()?;
        Ok(Aggregate {
            function: function(&given)?,
            columns: given.getattr("columns")?.extract()?,
            predicate: condition.as_ref().map(extract_row).transpose()?,
            interval: own_interval(&name, &given)?,
            name,
        })
    };
    mapping.items()?.iter().map(one).collect()
}

/// Returns the interval that is passed to a function itself, if there is one.
fn own_interval(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Option<OwnInterval>> {
    let own: Vec<(String, Bound<'_, PyAny>)> = given.getattr("interval")?.extract()?;
    if own.is_empty() {
        return Ok(None);
    }
    let mut interval = OwnInterval::default();
    let of_function = |error: PyErr| {
        let py = given.py();
        PyErr::from_type(error.get_type(py), format!("aggs: `{name}`: {}", error.value(py)))
    };
    for (setting, value) in &own {
        match &**setting {
            "lower" => interval.lower = Some(bound("lower", value).map_err(of_function)?),
            "upper" => interval.upper = Some(bound("upper", value).map_err(of_function)?),
            "closed" => {
                let given =
                    value.extract::<String>().and_then(|given| word("closed", &given, &CLOSED));
                interval.closed = Some(given.map_err(of_function)?);
            }
            _ => interval.with_prevailing = Some(value.extract().map_err(of_function)?),
        }
    }
    Ok(Some(interval))
}

/// If only a function's name was passed, returns the function call to suggest.
fn function_named(given: &Bound<'_, PyAny>) -> Option<String> {
    let name: String = given.extract().ok()?;
    let known = Function::ALL.iter().any(|function| function.name() == name);
    let columns = if name == "count" { "" } else { "\"<the column>\"" };
    known.then(|| format!("tidegate.agg.{name}({columns})"))
}

/// Returns the function of an aggregate, with its parameters.
fn function(given: &Bound<'_, PyAny>) -> PyResult<Function> {
    let name: String = given.getattr("function")?.extract()?;
    match &*name {
        "quantile" => return quantile(given),
        "udf" => return udf(given),
        "ewm_mean" => return ewm_mean(given),
        _ => {}
    }
    let names = Function::ALL.map(|function| function.name());
    let mut known: Vec<(&str, usize)> = names.into_iter().zip(0..).collect();
    // These names are also valid, so messages list them.
    known.extend([("quantile", 0), ("udf", 0), ("ewm_mean", 0), ("top", 0)]);
    let rows: Option<Bound<'_, PyAny>> = given.getattr("n")?.extract()?;
    let rows = count("n", rows.as_ref(), 1, u32::MAX.into())?.map(|most| most as u32);
    match (&*name, rows) {
        ("first", Some(most)) => return Ok(Function::FirstRows(most)),
        ("last", Some(most)) => return Ok(Function::LastRows(most)),
        ("top", Some(most)) => return Ok(Function::Top(most)),
        _ => {}
    }
    Ok(Function::ALL[word("aggs", &name, &known)?].clone())
}

fn ewm_mean(given: &Bound<'_, PyAny>) -> PyResult<Function> {
    let half_life = bound("half_life", &given.getattr("half_life")?)?;
    half_life.map(Function::EwmMean).ok_or_else(|| {
        PyTypeError::new_err(
            "half_life: expected a duration such as \"5m\", got None; write \
             tidegate.agg.ewm_mean(\"<the column>\", \"5m\")",
        )
    })
}

fn quantile(given: &Bound<'_, PyAny>) -> PyResult<Function> {
    let interpolation: String = given.getattr("interpolation")?.extract()?;
    Ok(Function::Quantile(Quantile {
        share: given.getattr("share")?.extract()?,
        interpolation: word("interpolation", &interpolation, &INTERPOLATIONS)?,
    }))
}

const INTERPOLATIONS: [(&str, Interpolation); 5] = [
    ("linear", Interpolation::Linear),
    ("nearest", Interpolation::Nearest),
    ("lower", Interpolation::Lower),
    ("higher", Interpolation::Higher),
    ("midpoint", Interpolation::Midpoint),
];

/// Returns a user-defined function that holds the GIL only while it is running.
fn udf(given: &Bound<'_, PyAny>) -> PyResult<Function> {
    let udf = given.getattr("udf")?;
    let fields = [udf.getattr("field")?];
    let schema = given.py().import("pyarrow")?.call_method1("schema", (fields,))?;
    let returns = capsule::schema("returns", &schema)?.field(0).data_type().clone();
    let (call, of_none) = (udf.unbind(), returns.clone());
    let call = move |lists: RecordBatch| {
        check_call()?;
        let found = attached(|py| {
            let returned = || {
                let lists = export::batch(py, lists)?;
                let found = called(py, || call.bind(py).call1((lists,)))?;
                import::batch("the function's results", &found)
            };
            let found = returned().map_err(|error| {
                if error.is_instance_of::<PyKeyboardInterrupt>(py) {
                    return Error::stopped("the function was interrupted");
                }
                let text = error.value(py).to_string();
                // Use the exception that the function itself raised, if there is one.
                Error::data(text).caused_by(error.cause(py).unwrap_or(error))
            })?;
            Ok(found.map_or_else(|| new_empty_array(&of_none), |batch| batch.column(0).clone()))
        });
        found.unwrap_or_else(|| Err(Error::closed("the interpreter is shutting down")))
    };
    Ok(Function::Udf(Udf { returns, call: Arc::new(call) }))
}

fn aggregate_type(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static AGGREGATE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    AGGREGATE.import(py, "tidegate.agg", "Aggregate")
}
