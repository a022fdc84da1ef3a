//! Casts the values of an array to another type.

use arrow_array::{Array, ArrayRef};
use arrow_cast::display::ArrayFormatter;
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType, TimeUnit};

use super::time::{Unit, nanoseconds};
use super::type_name::TypeName;
use crate::shown;

/// Values that do not fit cause an error; by default, Arrow would replace them with nulls.
pub(crate) const EXACT: CastOptions<'static> =
    CastOptions { safe: false, format_options: arrow_cast::display::FormatOptions::new() };

/// Casts the values of an array to `to`. Returns an error if a value does not fit.
pub(crate) fn cast(array: &dyn Array, to: &DataType) -> Result<ArrayRef, ArrowError> {
    cast_with_options(array, to, &EXACT)
}

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

/// Formats a value for messages. A time outside the calendar's range is formatted as an integer, in
/// the unit of its type.
pub(crate) fn text(array: &dyn Array, row: usize) -> String {
    let text = |array: &dyn Array, row| {
        let values = ArrayFormatter::try_new(array, &EXACT.format_options).ok()?;
        values.value(row).try_to_string().ok().filter(|text| text != "<invalid>")
    };
    let steps = || text(&cast(&array.slice(row, 1), &DataType::Int64).ok()?, 0);
    text(array, row)
        .or_else(steps)
        .map_or_else(|| "a value".to_owned(), |text| shown(&text).into_owned())
}
