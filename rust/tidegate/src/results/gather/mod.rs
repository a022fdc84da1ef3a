//! Gathers rows of table columns into new arrays. The rows are specified by their numbers.
//!
//! This crate's kernels gather fixed-width columns, chunked or not, into memory on huge pages.
//! Results are large and newly allocated. On normal pages, their page faults would cost more than
//! the join (see [`tidegate_structures::memory::pages`]). All other columns are gathered with
//! `arrow-select`.
//!
//! # Files
//!
//! | file | what is in it |
//! | --- | --- |
//! | `column.rs`, `chunks.rs` | a column; a column of several chunks |
//! | `records.rs` | columns stored row by row, for scattered rows |
//! | `text.rs` | the total length of strings, before they are copied |
//! | `concat.rs` | concatenates batches |

mod chunks;
mod column;
mod concat;
mod records;
#[cfg(test)]
mod tests;
mod text;

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_schema::{ArrowError, DataType};
use bytes::Bytes;
use tidegate_operators::driver::{Driver, Stopped};
use tidegate_operators::rows::NO_ROW;
use tidegate_structures::memory::gather::Store;
use tidegate_structures::memory::pages::{Pages, Slot};
use tidegate_structures::memory::partition::ranges;

use chunks::gather_columns;
pub(crate) use column::{Column, fixed_width, raw_values};
pub(crate) use concat::concat_rows;
pub(crate) use records::{Records, Rows};
pub(crate) use text::demand_texts;

use crate::columns::cast::cast;
use crate::columns::dictionary::interleave;

/// The minimum number of result rows for which waking a thread is worthwhile. Waking a thread takes
/// as long as gathering a few hundred rows.
const PART_ROWS: usize = if cfg!(test) { 8 } else { 1 << 12 };

/// The source of a column in the result.
#[derive(Debug)]
pub(crate) enum ColumnSource {
    /// A column of the left side.
    Left(Arc<Column>),
    /// A column of the right side.
    Right(Arc<Column>),
    /// A key column, with the left side's value or, if there is no left row, the right side's
    /// value.
    Either(Arc<Column>, Arc<Column>),
}

/// The columns of a result and the sources from which they are gathered.
#[derive(Debug)]
pub(crate) struct Gather {
    pub(crate) sources: Vec<ColumnSource>,
    /// The types of the columns in the result.
    pub(crate) types: Vec<DataType>,
    /// For each side, true if result rows can lack a row from that side.
    pub(crate) optional: [bool; 2],
    /// The columns of each side that are also stored row by row.
    pub(crate) records: [Vec<Records>; 2],
    /// True if consecutive left values in the same chunk are sliced instead of copied. A slice
    /// keeps the entire chunk in memory.
    pub(crate) slices_left: bool,
}

impl Gather {
    /// Stores right columns row by row. This layout is worthwhile for a result that contains most
    /// of the right rows in scattered order.
    pub(crate) fn lay_out_right(
        &mut self,
        rows: (usize, usize),
        driver: &Driver,
    ) -> Result<(), Stopped> {
        let right = |(place, source): (usize, &ColumnSource)| match source {
            ColumnSource::Right(column) if Records::takes(column) => Some((place, column.clone())),
            _ => None,
        };
        let columns: Vec<_> = self.sources.iter().enumerate().filter_map(right).collect();
        self.records[1] = Records::lay_out(&columns, rows, driver)?;
        Ok(())
    }

    /// Returns the average number of bytes per result row.
    pub(crate) fn row_bytes(&self) -> usize {
        let bytes = |source: &ColumnSource| match source {
            ColumnSource::Left(column) | ColumnSource::Right(column) => column.row_bytes(),
            ColumnSource::Either(left, right) => left.row_bytes().max(right.row_bytes()),
        };
        self.sources.iter().map(bytes).sum()
    }

    /// Gathers the fixed-width values of the result rows, using all threads. Each result row is
    /// specified by a left row number and a right row number. Values that will not be read soon
    /// bypass the caches.
    pub(crate) fn values(
        &self,
        left: &[u32],
        right: &[u32],
        read_soon: bool,
        driver: &Driver,
    ) -> Result<Values, Stopped> {
        let rows = left.len();
        let first_left = match self.slices_left && self.records[0].is_empty() {
            true => consecutive(left),
            false => None,
        };
        let widths: Vec<usize> = self
            .sources
            .iter()
            .map(|source| width(source, first_left, rows).unwrap_or(0))
            .collect();
        let mut memory =
            Pages::<u8>::unwritten(widths.iter().map(|width| padded(width * rows)).sum());
        let store = if memory.is_warm() && !read_soon { Store::Streaming } else { Store::Cached };
        // All columns are divided at the same rows.
        let cuts = ranges(rows, driver.parts(rows, PART_ROWS));
        let mut parts: Vec<Vec<&mut [Slot<u8>]>> = cuts.iter().map(|_| Vec::new()).collect();
        let mut rest = &mut memory[..];
        for width in widths {
            let (mut column, others) = std::mem::take(&mut rest).split_at_mut(padded(width * rows));
            rest = others;
            for (part, cut) in parts.iter_mut().zip(&cuts) {
                let (out, beyond) = column.split_at_mut(width * cut.len());
                part.push(out);
                column = beyond;
            }
            Slot::fill(column, 0);
        }
        driver.map(cuts.into_iter().zip(parts).collect(), |(cut, out)| {
            // Results of semi and anti joins have no right rows.
            let right = right.get(cut.clone()).unwrap_or_default();
            self.write([&left[cut], right], out, store);
        })?;
        Ok(Values { memory: Bytes::from_owner(memory.written()), first_left })
    }

    /// Writes the fixed-width values of these rows to one memory range per column.
    fn write(&self, rows: [&[u32]; 2], mut out: Vec<&mut [Slot<u8>]>, store: Store) {
        for ((records, rows), optional) in self.records.iter().zip(rows).zip(self.optional) {
            records.iter().for_each(|records| records.gather(rows, optional, &mut out, store));
        }
        let mut of_sides = [Vec::new(), Vec::new()];
        for (source, out) in self.sources.iter().zip(out).filter(|(_, out)| !out.is_empty()) {
            match source {
                ColumnSource::Left(column) => of_sides[0].push((&**column, out)),
                ColumnSource::Right(column) => of_sides[1].push((&**column, out)),
                ColumnSource::Either(..) => unreachable!("its width is not fixed"),
            }
        }
        for ((columns, rows), optional) in of_sides.into_iter().zip(rows).zip(self.optional) {
            gather_columns(columns, rows, optional, store);
        }
    }

    /// Returns the columns of the result rows, given their fixed-width values. The other columns
    /// are gathered one at a time.
    pub(crate) fn columns(
        &self,
        left: &[u32],
        right: &[u32],
        values: Values,
    ) -> Result<Vec<ArrayRef>, ArrowError> {
        let Values { memory, first_left } = values;
        let mut start = 0;
        let missing_of = |side: usize, rows| if self.optional[side] { missing(rows) } else { None };
        let (missing_left, missing_right) = (missing_of(0, left), missing_of(1, right));
        let mut fixed = |column: &Column, width: usize, rows: &[u32], missing| {
            let values = Buffer::from(memory.slice(start..start + width * rows.len()));
            start += padded(width * rows.len());
            column.array(values, rows, missing)
        };
        let mut array = |column: &Column, rows: &[u32], missing| match column.width {
            Some(width) => fixed(column, width, rows, missing),
            None => column.take(rows),
        };
        let one = |(source, data_type): (&ColumnSource, &DataType)| match source {
            ColumnSource::Left(column) => match column.slice(first_left, left.len()) {
                Some(slice) => Ok(slice),
                None => array(column, left, missing_left.as_ref()),
            },
            ColumnSource::Right(column) => array(column, right, missing_right.as_ref()),
            ColumnSource::Either(of_left, of_right) => {
                either(of_left, of_right, left, right, data_type)
            }
        };
        self.sources.iter().zip(&self.types).map(one).collect()
    }
}

/// The fixed-width values of all result columns that are not sliced. All values share one memory
/// allocation, in which each column starts at a cache line boundary.
#[derive(Debug)]
pub(crate) struct Values {
    memory: Bytes,
    /// The first left row, if left rows are consecutive and their columns are sliced.
    first_left: Option<usize>,
}

/// Returns the number of bytes that a column takes up in this memory, including padding.
fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(64)
}

/// Returns the width of the values that a column stores in this memory, or `None` if the column
/// stores no values there.
fn width(source: &ColumnSource, first_left: Option<usize>, rows: usize) -> Option<usize> {
    match source {
        ColumnSource::Left(column) if column.slice(first_left, rows).is_some() => None,
        ColumnSource::Left(column) | ColumnSource::Right(column) => column.width,
        ColumnSource::Either(..) => None,
    }
}

/// Returns a bitmap of the rows that exist, or `None` if all rows exist.
fn missing(rows: &[u32]) -> Option<NullBuffer> {
    let is_there = |at: usize| rows[at] != NO_ROW;
    rows.contains(&NO_ROW)
        .then(|| NullBuffer::new(BooleanBuffer::collect_bool(rows.len(), is_there)))
}

/// Returns the first of these rows if they are consecutive and none of them is missing.
fn consecutive(rows: &[u32]) -> Option<usize> {
    let (&first, &last) = (rows.first()?, rows.last()?);
    // This check detects most rows that are not consecutive.
    if last == NO_ROW || last.checked_sub(first)? as usize != rows.len() - 1 {
        return None;
    }
    // There is no branch per row, which allows the loop to be vectorized.
    let differences =
        rows.iter().zip(first..).fold(0, |all, (row, expected)| all | (row ^ expected));
    (differences == 0).then_some(first as usize)
}

/// Returns the left column's value where there is a left row, and the right column's value
/// elsewhere, cast to `data_type`.
fn either(
    of_left: &Column,
    of_right: &Column,
    left: &[u32],
    right: &[u32],
    data_type: &DataType,
) -> Result<ArrayRef, ArrowError> {
    let as_common = |array: ArrayRef| {
        cast(&array, data_type).map_err(|error| {
            let text = format!(
                "a key does not fit the result's key column: {error}; cast the keys of both sides \
                 to a type that can represent them"
            );
            ArrowError::CastError(text)
        })
    };
    if left.iter().all(|&row| row != NO_ROW) {
        return as_common(of_left.take(left)?);
    }
    let left_values = as_common(of_left.take(left)?)?;
    let right_values = as_common(of_right.take(right)?)?;
    let places: Vec<_> =
        left.iter().enumerate().map(|(at, &row)| (usize::from(row == NO_ROW), at)).collect();
    interleave(&[&*left_values, &*right_values], &places)
}
