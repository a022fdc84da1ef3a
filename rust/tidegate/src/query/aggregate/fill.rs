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
}

impl EmptyWindows {
    /// Checks the values against the columns of the functions' results. `outputs` contains the name
    /// of each result, and whether it is a count.
    pub(crate) fn plan(
        &self,
        outputs: &[(&str, bool)],
        fields: &[FieldRef],
        unit: Unit,
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
        Ok(FillPlan { fills, keep })
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
