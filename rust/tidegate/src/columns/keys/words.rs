//! Keys that are 64-bit words.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, Int64Array};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::DataType;
use tidegate_operators::driver::Driver;
use tidegate_operators::rows::NO_KEY;
use tidegate_structures::memory::pages::{Pages, Slot};
use tidegate_structures::memory::partition::ranges;

use super::chunks::ColumnChunks;
use super::numbering::{KeyColumns, Keys, PART_ROWS, split};
use crate::columns::cast::cast;
use crate::columns::table::Table;
use crate::columns::time::{self, as_int64};
use crate::columns::type_name::TypeName;
use crate::{Error, Result};

/// Converts a chunk to words that are equal if and only if the values are equal.
pub(super) fn word_chunk(
    table: &Table,
    column: usize,
    chunk: &ArrayRef,
    common: &DataType,
) -> Result<Int64Array> {
    let failed = |error| {
        let name = table.schema().field(column).name().clone();
        Error::data(format!(
            "{}: key column `{name}` cannot be compared as {}: {error}",
            table.name(),
            TypeName(common)
        ))
    };
    if let Some(values) = as_int64(chunk)
        && chunk.data_type() == common
    {
        return Ok(Int64Array::new(values, chunk.nulls().cloned()));
    }
    let chunk = match chunk.data_type() {
        DataType::Dictionary(_, values) => cast(chunk, values).map_err(failed)?,
        _ => chunk.clone(),
    };
    // A null or an unsigned key above the signed range equals no key on a side with signed keys.
    if *common == DataType::Int64 && *chunk.data_type() == DataType::UInt64 {
        return Ok(chunk
            .as_primitive::<UInt64Type>()
            .unary_opt::<_, Int64Type>(|key| i64::try_from(key).ok()));
    }
    // A time that does not fit in the other side's finer unit also equals no key there.
    if let (DataType::Timestamp(..), Some(values)) = (common, as_int64(&chunk)) {
        let nanoseconds = |data_type: &DataType| match data_type {
            DataType::Timestamp(unit, _) => Some(time::nanoseconds(*unit)),
            _ => None,
        };
        if let (Some(coarse), Some(fine)) = (nanoseconds(chunk.data_type()), nanoseconds(common)) {
            let keys = Int64Array::new(values, chunk.nulls().cloned());
            return Ok(keys.unary_opt::<_, Int64Type>(|key| key.checked_mul(coarse / fine)));
        }
    }
    let plain = |to: &DataType| cast(&chunk, to).map_err(failed);
    Ok(match common {
        DataType::Float64 => plain(common)?
            .as_primitive::<Float64Type>()
            .unary::<_, Int64Type>(|key| canonical(key).to_bits().cast_signed()),
        DataType::UInt64 => {
            plain(common)?.as_primitive::<UInt64Type>().unary::<_, Int64Type>(u64::cast_signed)
        }
        DataType::Date32 | DataType::Boolean => cast(&plain(common)?, &DataType::Int32)
            .and_then(|array| cast(&array, &DataType::Int64))
            .map_err(failed)?
            .as_primitive::<Int64Type>()
            .clone(),
        _ => {
            let array = plain(common)?;
            let values = as_int64(&array).expect("the type is stored as 64-bit integers");
            Int64Array::new(values, array.nulls().cloned())
        }
    })
}

/// Returns a single bit pattern for all NaN values, and another for both zeros.
pub(crate) fn canonical(value: f64) -> f64 {
    if value.is_nan() {
        f64::NAN
    } else if value == 0.0 {
        0.0
    } else {
        value
    }
}

/// A column as words.
pub(crate) struct WordColumn {
    chunks: Vec<(ScalarBuffer<i64>, Option<NullBuffer>)>,
    starts: ColumnChunks,
}

pub(super) fn words(
    table: &Table,
    column: usize,
    common: &DataType,
    driver: &Driver,
) -> Result<WordColumn> {
    let arrays = table.chunks(column);
    let chunks = driver.map(arrays, |chunk| word_chunk(table, column, &chunk, common))?;
    let chunks = chunks.into_iter().map(|chunk| {
        chunk.map(|chunk| {
            let (_, values, nulls) = chunk.into_parts();
            (values, nulls.filter(|nulls| nulls.null_count() > 0))
        })
    });
    Ok(WordColumn {
        chunks: chunks.collect::<Result<_>>()?,
        starts: ColumnChunks::new(table, Vec::new()),
    })
}

impl KeyColumns for WordColumn {
    type Key = i64;

    fn rows(&self) -> usize {
        self.starts.rows()
    }

    fn for_each(&self, rows: Range<usize>, mut each: impl FnMut(Option<&i64>)) -> Result<()> {
        for (chunk, range) in self.starts.pieces(rows) {
            let (values, nulls) = &self.chunks[chunk];
            match nulls {
                None => values[range].iter().for_each(|key| each(Some(key))),
                Some(nulls) => {
                    range.for_each(|row| each(nulls.is_valid(row).then_some(&values[row])))
                }
            }
        }
        Ok(())
    }
}

/// The smallest and largest keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeySpan {
    low: i64,
    high: i64,
}

impl From<(i64, i64)> for KeySpan {
    fn from((low, high): (i64, i64)) -> Self {
        KeySpan { low, high }
    }
}

impl KeySpan {
    pub(super) fn ends(self) -> (i64, i64) {
        (self.low, self.high)
    }

    /// Returns the number of integers from the smallest key to the largest one.
    pub(super) fn count(self) -> usize {
        self.high.abs_diff(self.low) as usize + 1
    }

    /// Returns whether numbering the rows by distance requires no more memory than a hash table.
    pub(super) fn is_direct(self, rows: usize) -> bool {
        self.high.checked_sub(self.low).is_some_and(|width| (width as u64) < 2 * rows as u64 + 1024)
    }
}

pub(super) fn span(column: &WordColumn, driver: &Driver) -> Result<Option<KeySpan>> {
    let parts = ranges(column.rows(), column.rows().div_ceil(PART_ROWS));
    let spans = driver.map(parts, |rows| {
        let mut span: Option<KeySpan> = None;
        let mut widen = |low: i64, high: i64| {
            let wide = span.get_or_insert(KeySpan { low, high });
            *wide = KeySpan { low: wide.low.min(low), high: wide.high.max(high) };
        };
        for (chunk, range) in column.starts.pieces(rows) {
            let (values, nulls) = &column.chunks[chunk];
            match nulls {
                // Compute the minimum and the maximum in separate passes so that the compiler
                // vectorizes both passes.
                None => widen(
                    values[range.clone()].iter().copied().fold(i64::MAX, i64::min),
                    values[range].iter().copied().fold(i64::MIN, i64::max),
                ),
                Some(nulls) => range
                    .filter(|&row| nulls.is_valid(row))
                    .for_each(|row| widen(values[row], values[row])),
            }
        }
        span
    })?;
    let wider =
        |a: KeySpan, b: KeySpan| KeySpan { low: a.low.min(b.low), high: a.high.max(b.high) };
    Ok(spans.into_iter().flatten().reduce(wider))
}

/// Numbers keys by their distance from the smallest right key.
pub(super) fn direct(
    left: &WordColumn,
    right: &WordColumn,
    span: KeySpan,
    driver: &Driver,
) -> Result<Keys> {
    let (left, right) = (direct_numbers(left, span, driver)?, direct_numbers(right, span, driver)?);
    let (count, smallest) = (span.count(), Some(span.low));
    Ok(Keys { left, right, count, smallest, method: "direct integers" })
}

/// Returns each key's distance from the smallest key.
pub(super) fn direct_numbers(
    column: &WordColumn,
    span: KeySpan,
    driver: &Driver,
) -> Result<Pages<u32>> {
    let width = span.high.abs_diff(span.low);
    let number = |key: i64| {
        let distance = (key as u64).wrapping_sub(span.low as u64);
        if distance <= width { distance as u32 } else { NO_KEY }
    };
    let parts = ranges(column.rows(), column.rows().div_ceil(PART_ROWS));
    let mut numbers = Pages::unwritten(column.rows());
    let slices = split(&mut numbers, &parts);
    driver.map(
        parts.into_iter().zip(slices).collect(),
        |(rows, mut out): (_, &mut [Slot<u32>])| {
            for (chunk, range) in column.starts.pieces(rows) {
                let (values, nulls) = &column.chunks[chunk];
                let (head, rest) = std::mem::take(&mut out).split_at_mut(range.len());
                out = rest;
                head.iter_mut()
                    .zip(&values[range.clone()])
                    .for_each(|(out, &key)| out.set(number(key)));
                if let Some(nulls) = nulls {
                    head.iter_mut()
                        .zip(range)
                        .filter(|(_, row)| nulls.is_null(*row))
                        .for_each(|(out, _)| out.set(NO_KEY));
                }
            }
        },
    )?;
    Ok(numbers.written())
}
