//! The units of time columns, and the unit in which two columns are compared.

use arrow_schema::{DataType, Field, TimeUnit};

use crate::columns::duration::duration_text;
use crate::columns::type_name::TypeName;
use crate::{Error, Result};

/// The unit of a time column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// A plain number without a unit.
    Integer,
    /// A fixed number of nanoseconds.
    Nanoseconds(i64),
}

pub(crate) const DAY: i64 = 86_400_000_000_000;

/// Returns advice on converting a column to times.
fn mend(given: &DataType) -> &'static str {
    match given {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            "; parse the text first, for instance with pandas.to_datetime or pyarrow.compute.strptime"
        }
        DataType::Float16 | DataType::Float32 | DataType::Float64 => {
            "; cast it to int64 or to a timestamp first"
        }
        given if given.is_integer() => "; cast it to int64 first",
        _ => "",
    }
}

impl Unit {
    pub(crate) fn of(table: &str, field: &Field) -> Result<Unit> {
        let extension = field.metadata().get("ARROW:extension:name");
        if extension.is_some_and(|name| name == "pandas.period") {
            let name = field.name();
            return Err(Error::schema(format!(
                "{table}: column `{name}` contains pandas periods, which have a start and an end, \
                 expected a time; write {table}.assign({name}={table}[\"{name}\"].dt.to_timestamp())"
            )));
        }
        match field.data_type() {
            DataType::Int32 | DataType::Int64 | DataType::UInt32 | DataType::UInt64 => {
                Ok(Unit::Integer)
            }
            DataType::Date32 => Ok(Unit::Nanoseconds(DAY)),
            DataType::Date64 => Ok(Unit::Nanoseconds(1_000_000)),
            DataType::Timestamp(unit, _) => Ok(Unit::Nanoseconds(nanoseconds(*unit))),
            other => Err(Error::schema(format!(
                "{table}: column `{}` is {}, expected a time: int32, int64, uint32, uint64, \
                 date32, date64 or timestamp{}",
                field.name(),
                TypeName(other),
                mend(other)
            ))),
        }
    }

    /// Returns this unit's name as written after a number in messages.
    pub(crate) fn steps_name(self) -> &'static str {
        match self {
            Unit::Integer => "steps",
            unit => unit.name(),
        }
    }

    /// Formats a number of units as a duration, for messages and plans.
    pub(crate) fn length(self, steps: i64) -> String {
        match self {
            Unit::Integer => steps.to_string(),
            Unit::Nanoseconds(step) => duration_text(i128::from(steps) * i128::from(step)),
        }
    }

    /// Returns the unit's name, as used in messages and plans.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Unit::Integer => "integer",
            Unit::Nanoseconds(1) => "ns",
            Unit::Nanoseconds(1_000) => "us",
            Unit::Nanoseconds(1_000_000) => "ms",
            Unit::Nanoseconds(1_000_000_000) => "s",
            Unit::Nanoseconds(_) => "days",
        }
    }
}

pub(crate) fn nanoseconds(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

/// Returns the finest unit among several time columns. Fails if the columns cannot be compared.
/// Each column is paired with the name of its table.
pub(crate) fn finest_unit(columns: &[(&str, &Field)]) -> Result<Unit> {
    let [(table, field), others @ ..] = columns else { unreachable!("there is a time column") };
    let with = |unit: Result<Unit>, other: &(&str, &Field)| {
        Ok(match (unit?, finer_unit((table, field), *other)?) {
            (Unit::Nanoseconds(a), Unit::Nanoseconds(b)) => Unit::Nanoseconds(a.min(b)),
            (_, unit) => unit,
        })
    };
    others.iter().fold(Unit::of(table, field), with)
}

/// Returns the finer of two time columns' units. Fails if the columns cannot be compared.
pub(crate) fn common_unit(left: &Field, right: &Field) -> Result<Unit> {
    finer_unit(("left", left), ("right", right))
}

/// Returns the finer of two time columns' units, given the names of their tables. Fails if the
/// columns cannot be compared.
fn finer_unit((of_left, left): (&str, &Field), (of_right, right): (&str, &Field)) -> Result<Unit> {
    let units = (Unit::of(of_left, left)?, Unit::of(of_right, right)?);
    let describe = || {
        format!(
            "{of_left} `{}` is {}, {of_right} `{}` is {}",
            left.name(),
            TypeName(left.data_type()),
            right.name(),
            TypeName(right.data_type())
        )
    };
    let zoned = |field: &Field| match field.data_type() {
        DataType::Timestamp(_, zone) => zone.is_some(),
        _ => false,
    };
    let is_date = |field: &Field| matches!(field.data_type(), DataType::Date32 | DataType::Date64);
    match units {
        (Unit::Integer, Unit::Integer) => Ok(Unit::Integer),
        (Unit::Nanoseconds(_), Unit::Nanoseconds(_)) if zoned(left) != zoned(right) => {
            let next = if is_date(left) || is_date(right) {
                "cast the date to a timestamp in the time zone in which its day begins"
            } else {
                "add a time zone to both, or to neither"
            };
            Err(Error::schema(format!(
                "times with and without a time zone cannot be compared: {}; {next}",
                describe()
            )))
        }
        (Unit::Nanoseconds(a), Unit::Nanoseconds(b)) => Ok(Unit::Nanoseconds(a.min(b))),
        _ => Err(Error::schema(format!(
            "an integer and a time cannot be compared: {}; cast one of them",
            describe()
        ))),
    }
}
