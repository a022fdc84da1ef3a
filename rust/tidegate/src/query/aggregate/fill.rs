//! Windows without rows, and the values of functions in such windows.

use std::collections::HashSet;

use arrow_schema::{DataType, Field, FieldRef};

use crate::columns::time::{self, Bound, Unit};
use crate::columns::type_name::TypeName;
use crate::{Error, Result};

/// Requests results for windows without rows.
///
/// The windows of a key extend from its first window with rows to its last one. With `keep`, they
/// also include windows that start at most this long after the start of a window with rows, and
/// longer gaps between two windows with rows are not filled further.
#[derive(Clone, Debug)]
pub struct EmptyWindows {
    /// The values of functions.
    pub fills: Fills,
    /// How long windows continue after a key's last window with rows.
    pub keep: Option<Bound>,
    /// The time from which every key has windows.
    pub start: Option<GivenTime>,
    /// The time before which every key has windows.
    pub end: Option<GivenTime>,
}

/// A time specified by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenTime {
    /// An integer in the unit of the time column.
    Steps(i64),
    /// A date or a time, in nanoseconds since the epoch.
    Nanoseconds {
        /// The number of nanoseconds.
        since_epoch: i128,
        /// Whether the time has a time zone.
        is_zoned: bool,
    },
}

impl GivenTime {
    /// Returns the time in steps of a unit, rounded up, for a time column with this field.
    fn in_steps(self, name: &str, field: &Field, unit: Unit) -> Result<i64> {
        let refuse = |what: &str, next: &str| {
            Err(Error::schema(format!(
                "{name} is {what}, but column `{}` is {}; {next}",
                field.name(),
                TypeName(field.data_type())
            )))
        };
        let column_is_zoned = matches!(field.data_type(), DataType::Timestamp(_, Some(_)));
        let (amount, step) = match (self, unit) {
            (GivenTime::Steps(steps), _) => return Ok(steps),
            (GivenTime::Nanoseconds { .. }, Unit::Integer) => {
                return refuse("a time", "give an integer in its unit");
            }
            (GivenTime::Nanoseconds { is_zoned: true, .. }, _) if !column_is_zoned => {
                return refuse("a time with a time zone", "give a time without one");
            }
            (GivenTime::Nanoseconds { is_zoned: false, .. }, _) if column_is_zoned => {
                return refuse("a time without a time zone", "give a time with one");
            }
            (GivenTime::Nanoseconds { since_epoch, .. }, Unit::Nanoseconds(step)) => {
                (since_epoch, i128::from(step))
            }
        };
        let steps = -(-amount).div_euclid(step);
        i64::try_from(steps)
            .map_err(|_| Error::argument(format!("{name} does not fit 64 bits ({})", unit.name())))
    }
}

/// The values of all functions in windows without rows.
#[derive(Clone, Debug)]
pub enum Fills {
    /// The same value for every function.
    Every(Fill),
    /// Values by result column name. All other columns are null.
    Named(Vec<(String, Fill)>),
}

/// The value of a function in a window without rows. Counts are always 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Null.
    Null,
    /// The number 0.
    Zero,
    /// The value of the key's previous window with rows.
    Last,
    /// A value on the line between the key's previous and next windows with rows, by their starts.
    Linear,
}

/// Empty windows whose values match the types of the result columns.
#[derive(Clone, Debug)]
pub(crate) struct FillPlan {
    /// The value of each function.
    pub(crate) fills: Vec<Fill>,
    /// In steps of the time unit.
    pub(crate) keep: Option<i64>,
    /// The range of times in which every key has windows, in steps of the time unit.
    pub(crate) start: Option<i64>,
    pub(crate) end: Option<i64>,
}

impl EmptyWindows {
    /// Checks the values against the columns of the functions' results. `outputs` contains the name
    /// of each result, and whether it is a count.
    pub(crate) fn plan(
        &self,
        outputs: &[(&str, bool)],
        fields: &[FieldRef],
        (on, unit): (&Field, Unit),
    ) -> Result<FillPlan> {
        if let Fills::Named(named) = &self.fills {
            let known: HashSet<&str> = outputs.iter().map(|(name, _)| *name).collect();
            if let Some((name, _)) = named.iter().find(|(name, _)| !known.contains(&**name)) {
                return Err(Error::argument(format!(
                    "empty: `{name}` is not in aggs; name one of the aggregates, or leave it out"
                )));
            }
        }
        let fill = |(&(name, is_count), field): (&(&str, bool), &FieldRef)| {
            let fill = match &self.fills {
                Fills::Every(fill) => *fill,
                Fills::Named(named) => named
                    .iter()
                    .find(|(filled, _)| filled == name)
                    .map_or(Fill::Null, |(_, fill)| *fill),
            };
            if is_count { Ok(Fill::Zero) } else { check(fill, name, field) }
        };
        let fills = outputs.iter().zip(fields).map(fill).collect::<Result<_>>()?;
        let keep = self.keep.map(|keep| time::length("keep", keep, unit)).transpose()?;
        let time = |name: &str, given: Option<GivenTime>| {
            given.map(|given| given.in_steps(name, on, unit)).transpose()
        };
        let (start, end) = (time("start", self.start)?, time("end", self.end)?);
        if let (Some(start), Some(end)) = (start, end)
            && start > end
        {
            return Err(Error::argument(format!(
                "start must not be after end, but start is {start} and end is {end} ({}); swap them",
                unit.name()
            )));
        }
        Ok(FillPlan { fills, keep, start, end })
    }
}

impl FillPlan {
    /// Returns an error if the windows of a key cannot be determined before all rows are known.
    pub(crate) fn check_stream(&self) -> Result<()> {
        if self.fills.contains(&Fill::Linear) {
            return Err(Error::argument(
                "empty: `linear` needs the next window with rows, which a stream or a call with \
                 memory_limit does not know yet; choose `last`, `zero` or `null`",
            ));
        }
        if self.start.is_some() {
            return Err(Error::argument(
                "start needs all rows, because the first row of a key may follow much later; leave \
                 it out in a stream or a call with memory_limit",
            ));
        }
        if self.keep.is_none() {
            return Err(Error::argument(
                "empty needs keep in a stream or a call with memory_limit, because further rows of \
                 a key may still follow; write, for example, keep=\"1d\"",
            ));
        }
        Ok(())
    }
}

/// Returns what a function's column contains in windows without rows.
fn check(fill: Fill, name: &str, field: &Field) -> Result<Fill> {
    let given = field.data_type();
    let is_decimal = matches!(
        given,
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..)
    );
    let refuse = |word: &str, expected: &str| {
        Err(Error::schema(format!(
            "empty: `{name}` is {}, but `{word}` needs {expected}; write, for example, \
             empty={{\"{name}\": \"last\"}}",
            TypeName(given)
        )))
    };
    match fill {
        Fill::Zero if !(given.is_integer() || given.is_floating() || is_decimal) => {
            refuse("zero", "numbers")
        }
        Fill::Linear if !matches!(given, DataType::Float32 | DataType::Float64) => {
            refuse("linear", "float32 or float64")
        }
        fill => Ok(fill),
    }
}
