//! Converts a time argument to the unit of a column.

use arrow_schema::{DataType, Field, TimeUnit};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDate, PyDateTime};
use tidegate::query::aggregate::GivenTime;
use tidegate::{Error, TypeName};

use crate::arrow::export;
use crate::interpreter::error::raise;
use crate::interpreter::threads::calling;

/// Returns a time as a number of steps in a column's unit. The argument is an integer, or a date or
/// time of the column's kind, and is converted without loss.
pub(crate) fn time(argument: &str, ob: &Bound<'_, PyAny>, field: &Field) -> PyResult<i64> {
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
    let Some(kind) = TimeKind::of(ob)? else {
        return Err(PyTypeError::new_err(wrong("").message().to_owned()));
    };
    if ob.ne(ob)? {
        return Err(raise(wrong(", which is not a time")));
    }
    match (kind, field.data_type()) {
        (TimeKind::Time { zoned: true }, DataType::Timestamp(_, None)) => {
            Err(raise(wrong(", which has a zone")))
        }
        (TimeKind::Time { zoned: false }, DataType::Timestamp(_, Some(_))) => {
            Err(raise(wrong(", which has no zone")))
        }
        (TimeKind::Time { .. }, DataType::Timestamp(..))
        | (TimeKind::Date, DataType::Date32 | DataType::Date64) => {
            steps(ob, field).map_err(|error| raise(wrong(&format!(": {}", error.value(ob.py())))))
        }
        _ => Err(raise(wrong(""))),
    }
}

/// The kind of date or time that an object represents.
enum TimeKind {
    Date,
    Time { zoned: bool },
}

impl TimeKind {
    fn of(ob: &Bound<'_, PyAny>) -> PyResult<Option<TimeKind>> {
        if ob.is_instance_of::<PyDateTime>() {
            return Ok(Some(TimeKind::Time { zoned: !ob.getattr("tzinfo")?.is_none() }));
        }
        if ob.is_instance_of::<PyDate>() {
            return Ok(Some(TimeKind::Date));
        }
        let numpy = ob.py().import("numpy")?;
        if !ob.is_instance(&numpy.getattr("datetime64")?)? {
            return Ok(None);
        }
        let (unit, _): (String, i64) =
            numpy.call_method1("datetime_data", (ob.getattr("dtype")?,))?.extract()?;
        Ok(Some(if unit == "D" { TimeKind::Date } else { TimeKind::Time { zoned: false } }))
    }
}

/// Converts a date or time to the unit of a column.
fn steps(ob: &Bound<'_, PyAny>, field: &Field) -> PyResult<i64> {
    calling(ob.py(), || steps_of(ob, field))
}

fn steps_of(ob: &Bound<'_, PyAny>, field: &Field) -> PyResult<i64> {
    let pyarrow = ob.py().import("pyarrow")?;
    let data_type = export::field(ob.py(), field)?.getattr("type")?;
    // Only the NumPy form of a `pandas.Timestamp` represents every UTC instant exactly. Its C
    // fields are limited to microseconds, and contain a different year for years after 9999.
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

/// Returns a time that is given before its column is known: an integer, a date, a time, or an ISO
/// 8601 string.
pub(crate) fn given_time(argument: &str, ob: &Bound<'_, PyAny>) -> PyResult<GivenTime> {
    let wrong = || {
        PyTypeError::new_err(format!(
            "{argument}: expected a date, a time, a string such as \"2026-03-02T09:30\", or an \
             integer in the unit of the time column, got {ob:?}"
        ))
    };
    if let Ok(text) = ob.extract::<String>() {
        let datetime = ob.py().import("datetime")?.getattr("datetime")?;
        let parsed = datetime.call_method1("fromisoformat", (text,)).map_err(|_| wrong())?;
        return given_time(argument, &parsed);
    }
    if ob.hasattr("__index__")? && !ob.is_instance_of::<PyBool>() {
        return Ok(GivenTime::Steps(ob.extract()?));
    }
    let Some(kind) = TimeKind::of(ob)? else { return Err(wrong()) };
    if ob.ne(ob)? {
        return Err(wrong());
    }
    let is_zoned = matches!(kind, TimeKind::Time { zoned: true });
    let zone = is_zoned.then(|| "UTC".into());
    let field = |unit| Field::new(argument, DataType::Timestamp(unit, zone.clone()), true);
    // Nanoseconds reach only to the year 2262.
    let since_epoch = match steps(ob, &field(TimeUnit::Nanosecond)) {
        Ok(steps) => i128::from(steps),
        Err(_) => i128::from(steps(ob, &field(TimeUnit::Microsecond))?) * 1_000,
    };
    Ok(GivenTime::Nanoseconds { since_epoch, is_zoned })
}

#[doc = manual!(instants_of)]
#[pyfunction]
pub(crate) fn instants_of(zone: &str, local: Vec<i64>) -> PyResult<Vec<i64>> {
    tidegate::instants_of(zone, &local).map_err(raise)
}
