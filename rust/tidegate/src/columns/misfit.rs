//! Finds a value that cannot be converted to another type, and explains why.

use arrow_array::Array;
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, TimeUnit};

use super::cast::{EXACT, text};
use super::time::{Unit, nanoseconds};
use super::type_name::TypeName;

/// Returns the first row whose value does not fit `to`, with an error message. Returns `None` if
/// all values fit.
pub(crate) fn misfit(array: &dyn Array, to: &DataType) -> Option<(usize, String)> {
    let lenient = CastOptions { safe: true, ..EXACT };
    let found = cast_with_options(array, to, &lenient).ok()?;
    let row = (0..found.len()).find(|&row| found.is_null(row) && array.is_valid(row))?;
    let (value, from) = (text(array, row), array.data_type());
    let reason = match (from, to) {
        (_, DataType::Timestamp(unit, _)) if from.is_temporal() => beyond(*unit, "time", from),
        (DataType::Duration(_), DataType::Duration(unit)) => beyond(*unit, "duration", from),
        _ => format!("is not a value of {}; filter such rows out first", TypeName(to)),
    };
    Some((row, format!("{value} {reason}")))
}

fn beyond(unit: TimeUnit, what: &str, from: &DataType) -> String {
    format!(
        "does not fit 64 bits in {}; cast the other {what} to {}, or filter such rows out first",
        Unit::Nanoseconds(nanoseconds(unit)).name(),
        TypeName(from)
    )
}
