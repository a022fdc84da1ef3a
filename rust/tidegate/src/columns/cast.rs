//! Values of an array in another type.

use arrow_array::{Array, ArrayRef};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType};

/// A value that does not fit is an error. Arrow's own default makes null of it.
pub(crate) const EXACT: CastOptions<'static> =
    CastOptions { safe: false, format_options: arrow_cast::display::FormatOptions::new() };

/// The values of an array as `to`, or an error if one of them does not fit.
pub(crate) fn cast(array: &dyn Array, to: &DataType) -> Result<ArrayRef, ArrowError> {
    cast_with_options(array, to, &EXACT)
}
