//! Casts the values of an array to another type.

use arrow_array::{Array, ArrayRef};
use arrow_cast::display::ArrayFormatter;
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType};

use crate::shown;

/// Values that do not fit cause an error, whereas Arrow would replace them with nulls by default.
pub(crate) const EXACT: CastOptions<'static> =
    CastOptions { safe: false, format_options: arrow_cast::display::FormatOptions::new() };

/// Casts the values of an array to `to`. Returns an error if a value does not fit.
pub(crate) fn cast(array: &dyn Array, to: &DataType) -> Result<ArrayRef, ArrowError> {
    cast_with_options(array, to, &EXACT)
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
