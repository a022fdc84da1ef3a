//! Arguments: Arrow data by capsule, columns, durations.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDelta, PyDeltaAccess, PyDict, PyInt, PyString, PyTuple};
use pyo3_arrow::{PyRecordBatch, PyRecordBatchReader, PySchema};
use tidegate::{Bound as Duration, Error, parse_duration};

use crate::error::raise;

/// Arrow data whose buffers have been taken over but not yet checked.
pub(crate) struct Input {
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Vec<RecordBatch>,
}

/// Takes over the data of any object with `__arrow_c_stream__` or `__arrow_c_array__`.
pub(crate) fn table(name: &str, ob: &Bound<'_, PyAny>) -> PyResult<Input> {
    check_lengths(name, ob)?;
    let failed = |error: ArrowError| match error {
        ArrowError::ExternalError(error) => match error.downcast::<PyErr>() {
            Ok(error) => *error,
            Err(error) => raise(Error::data(format!("{name}: reading the Arrow stream failed: {error}"))),
        },
        error => raise(Error::data(format!("{name}: reading the Arrow stream failed: {error}"))),
    };
    let reader = reader(name, ob)?;
    let schema = reader.schema();
    let batches = reader.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    if let Some(at) = batches.iter().position(|batch| batch.schema().fields() != schema.fields()) {
        return Err(raise(Error::data(format!("{name}: batch {at} has another schema than the stream announced"))));
    }
    Ok(Input { schema, batches })
}

/// The schema of the same objects, which are not consumed where they tell it without.
pub(crate) fn schema(name: &str, ob: &Bound<'_, PyAny>) -> PyResult<SchemaRef> {
    for candidate in [Some(ob.clone()), ob.getattr_opt("schema")?].into_iter().flatten() {
        if candidate.hasattr("__arrow_c_schema__")? {
            return Ok(candidate.extract::<PySchema>()?.into_inner());
        }
    }
    Ok(reader(name, ob)?.schema())
}

pub(crate) fn reader(name: &str, ob: &Bound<'_, PyAny>) -> PyResult<Box<dyn RecordBatchReader + Send>> {
    if !ob.hasattr("__arrow_c_stream__")? && !ob.hasattr("__arrow_c_array__")? {
        let kind = ob.get_type().fully_qualified_name()?.to_string();
        let next = if kind.contains("LazyFrame") { "; call .collect() on it first" } else { "" };
        return Err(PyTypeError::new_err(format!(
            "{name}: expected Arrow data (an object with __arrow_c_stream__ or __arrow_c_array__, such as a pyarrow \
             Table, a polars or pandas DataFrame, or a DuckDB relation), got {kind}{next}"
        )));
    }
    let not_rows = |error: PyErr| {
        let what = error.value(ob.py()).to_string();
        if what.contains("released") {
            return raise(Error::closed(format!(
                "{name}: the Arrow data was consumed before; pass a table, or a new reader"
            )));
        }
        raise(Error::schema(format!("{name}: expected rows (record batches, or an array of structs): {what}")))
    };
    if ob.hasattr("__arrow_c_stream__")? {
        let capsule = ob.call_method0("__arrow_c_stream__")?;
        let capsule = capsule.cast::<PyCapsule>().map_err(|_| no_capsule(name, "__arrow_c_stream__"))?;
        let stream = PyRecordBatchReader::from_arrow_pycapsule(capsule).map_err(not_rows)?;
        return stream.into_reader();
    }
    let capsules = ob.call_method0("__arrow_c_array__")?;
    let (schema, array) = capsules
        .extract::<(Bound<'_, PyCapsule>, Bound<'_, PyCapsule>)>()
        .map_err(|_| no_capsule(name, "__arrow_c_array__"))?;
    // A capsule that was used before shows an array without content, over which the import panics.
    let imported = catch_unwind(AssertUnwindSafe(|| PyRecordBatch::from_arrow_pycapsule(&schema, &array)));
    let batch =
        imported.map_err(|_| not_rows(PyTypeError::new_err("a released array")))?.map_err(not_rows)?.into_inner();
    let schema = batch.schema();
    Ok(Box::new(RecordBatchIterator::new([Ok(batch)], schema)))
}

fn no_capsule(name: &str, method: &str) -> PyErr {
    PyTypeError::new_err(format!("{name}: {method}() returned no Arrow capsule"))
}

/// Refuses one stream for both sides: it can be read once only.
pub(crate) fn check_distinct(left: &Bound<'_, PyAny>, right: &Bound<'_, PyAny>) -> PyResult<()> {
    if left.is(right) && (left.hasattr("__next__")? || left.hasattr("read_next_batch")?) {
        return Err(raise(Error::closed(
            "left and right are the same stream, which can be read once only; read it into a table first",
        )));
    }
    Ok(())
}

/// Lets pyarrow compare the buffers' lengths with the offsets, since the C data interface does not carry lengths.
fn check_lengths(name: &str, ob: &Bound<'_, PyAny>) -> PyResult<()> {
    let module = ob.get_type().module()?;
    if module.to_str()?.starts_with("pyarrow") && ob.hasattr("validate")? {
        ob.call_method0("validate")
            .map_err(|error| raise(Error::data(format!("{name}: malformed Arrow data: {}", error.value(ob.py())))))?;
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
pub(crate) fn name_pairs(argument: &str, ob: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<(String, String)>> {
    let Some(ob) = ob else { return Ok(Vec::new()) };
    if ob.is_instance_of::<PyString>() {
        return Ok(vec![name_pair(argument, ob)?]);
    }
    if let Ok(mapping) = ob.cast::<PyDict>() {
        return mapping
            .iter()
            .map(|(left, right)| name_pair(argument, PyTuple::new(ob.py(), [left, right])?.as_any()))
            .collect();
    }
    let items = ob.try_iter().map_err(|_| {
        let kind = ob.get_type();
        PyTypeError::new_err(format!("{argument}: expected a name, a list of names or a mapping, got {kind}"))
    })?;
    items.map(|item| name_pair(argument, &item?)).collect()
}

/// An end of an interval: a duration, an integer in the column's unit, or `None` for no bound.
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
    if let Ok(delta) = ob.cast::<PyDelta>() {
        let seconds = i128::from(delta.get_days()) * 86_400 + i128::from(delta.get_seconds());
        let whole = seconds * 1_000_000_000 + i128::from(delta.get_microseconds()) * 1_000;
        // pandas.Timedelta is a timedelta with the last three digits in an attribute.
        let rest: i128 = ob.getattr_opt("nanoseconds")?.map_or(Ok(0), |rest| rest.extract())?;
        return Ok(Some(Duration::Nanoseconds(whole + rest)));
    }
    if ob.is_instance_of::<PyInt>() {
        let steps = ob.extract().map_err(|_| {
            raise(Error::argument(format!("{argument}: {ob} does not fit 64 bits; None means no bound")))
        })?;
        return Ok(Some(Duration::Steps(steps)));
    }
    Err(wrong_bound(argument, ob))
}

fn wrong_bound(argument: &str, ob: &Bound<'_, PyAny>) -> PyErr {
    let kind = ob.get_type();
    PyTypeError::new_err(format!(
        "{argument}: expected a timedelta, a string such as \"-5s\", an integer in the time column's unit, or None for \
         no bound; got {kind}"
    ))
}

/// A numpy scalar: timedelta64 of a fixed unit, or an integer.
fn numpy_bound(argument: &str, ob: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let kind: String = ob.getattr("dtype")?.getattr("kind")?.extract()?;
    match kind.as_str() {
        "i" | "u" => Ok(Duration::Steps(ob.call_method0("item")?.extract()?)),
        "m" => {
            let numpy = ob.py().import("numpy")?;
            if numpy.call_method1("isnat", (ob,))?.is_truthy()? {
                return Err(raise(Error::argument(format!("{argument}: NaT is no duration; None means no bound"))));
            }
            let (unit, count): (String, i128) =
                numpy.call_method1("datetime_data", (ob.getattr("dtype")?,))?.extract()?;
            let number: i128 = ob.call_method1("astype", ("int64",))?.call_method0("item")?.extract()?;
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
                        "{argument}: timedelta64[{unit}] has no fixed length in nanoseconds; use W, D, h, m, s, ms, us or ns"
                    ))));
                }
            };
            Ok(Duration::Nanoseconds(number * count * size))
        }
        _ => Err(wrong_bound(argument, ob)),
    }
}

/// A list of column names.
pub(crate) fn names(argument: &str, ob: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Vec<String>>> {
    let Some(ob) = ob else { return Ok(None) };
    let wrong = || {
        let kind = ob.get_type();
        PyTypeError::new_err(format!("{argument}: expected a list of column names, got {kind}"))
    };
    if ob.is_instance_of::<PyString>() {
        return Err(wrong());
    }
    let items = ob.try_iter().map_err(|_| wrong())?;
    items.map(|item| item?.extract().map_err(|_| wrong())).collect::<PyResult<Vec<String>>>().map(Some)
}

/// A whole number within limits.
pub(crate) fn count(argument: &str, ob: Option<&Bound<'_, PyAny>>, least: i64, most: i64) -> PyResult<Option<i64>> {
    let Some(ob) = ob else { return Ok(None) };
    if ob.is_instance_of::<pyo3::types::PyBool>() || !ob.hasattr("__index__")? {
        let kind = ob.get_type();
        return Err(PyTypeError::new_err(format!("{argument}: expected an integer, got {kind}")));
    }
    match ob.extract::<i64>() {
        Ok(given) if (least..=most).contains(&given) => Ok(Some(given)),
        _ => {
            let range = if most == i64::MAX { format!("at least {least}") } else { format!("from {least} to {most}") };
            Err(raise(Error::argument(format!("{argument} must be {range}, got {ob}"))))
        }
    }
}
