//! Gathers rows from many batches into new columns. Each row is specified by a batch number and a
//! row number.
//!
//! [`super::gather`] does the same for tables, whose rows are identified by a single number. A
//! streaming operator's rows are in batches that are added and removed over time.

use std::ops::Range;

use arrow_array::{Array, ArrayRef, make_array, new_null_array};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, NullBuffer};
use arrow_data::ArrayDataBuilder;
use arrow_schema::{ArrowError, DataType};
use bytemuck::AnyBitPattern;
use tidegate_structures::memory;

use super::gather::{demand_texts, fixed_width, raw_values};
use crate::Result;
use crate::columns::dictionary::interleave as interleave_any;

/// A row's location: the number of its batch among the gathered batches and its row number in that
/// batch.
pub(crate) type Place = (u32, u32);

/// The location of a missing row, which yields nulls.
pub(crate) const NO_PLACE: Place = (u32::MAX, 0);

/// Returns the values at `places` in a column that consists of `chunks`, one per batch.
pub(crate) fn interleave(
    data_type: &DataType,
    chunks: &[ArrayRef],
    places: &[Place],
) -> Result<ArrayRef, ArrowError> {
    if let Some((chunk, first)) = neighbours(places) {
        return Ok(chunks[chunk as usize].slice(first as usize, places.len()));
    }
    match fixed_width(data_type) {
        Some(1) => fixed::<u8>(data_type, chunks, places),
        Some(2) => fixed::<u16>(data_type, chunks, places),
        Some(4) => fixed::<u32>(data_type, chunks, places),
        Some(8) => fixed::<u64>(data_type, chunks, places),
        Some(16) => fixed::<i128>(data_type, chunks, places),
        _ => {
            let null = new_null_array(data_type, 1);
            let mut sources: Vec<&dyn Array> = chunks.iter().map(|chunk| &**chunk).collect();
            sources.push(&*null);
            let place = |&(chunk, row): &Place| match (chunk, row) {
                NO_PLACE => (chunks.len(), 0),
                _ => (chunk as usize, row as usize),
            };
            let places: Vec<_> = memory::collect(places.iter().map(place));
            demand_texts(chunks, places.iter().copied());
            interleave_any(&sources, &places)
        }
    }
}

/// Returns the first location, if the rows are adjacent in one chunk.
fn neighbours(places: &[Place]) -> Option<Place> {
    let (&(chunk, first), &(last_chunk, last)) = (places.first()?, places.last()?);
    let likely = chunk == last_chunk
        && (chunk, first) != NO_PLACE
        && last.wrapping_sub(first) as usize == places.len() - 1;
    (likely && (first..).zip(places).all(|(row, &place)| place == (chunk, row)))
        .then_some((chunk, first))
}

fn fixed<T: ArrowNativeType + AnyBitPattern>(
    data_type: &DataType,
    chunks: &[ArrayRef],
    places: &[Place],
) -> Result<ArrayRef, ArrowError> {
    let buffers: Vec<Buffer> =
        chunks.iter().map(|chunk| raw_values(chunk, size_of::<T>())).collect();
    let values: Vec<&[T]> = buffers.iter().map(|buffer| bytemuck::cast_slice(buffer)).collect();
    let is_missing = places.contains(&NO_PLACE);
    let found: Vec<T> = if is_missing {
        let value = |&(chunk, row): &Place| {
            values.get(chunk as usize).map_or_else(T::default, |of| of[row as usize])
        };
        memory::collect(places.iter().map(value))
    } else {
        memory::collect(places.iter().map(|&(chunk, row)| values[chunk as usize][row as usize]))
    };
    let has_nulls = is_missing || chunks.iter().any(|chunk| chunk.null_count() > 0);
    let valid = |at: usize| {
        let (chunk, row) = places[at];
        chunks.get(chunk as usize).is_some_and(|chunk| chunk.is_valid(row as usize))
    };
    let nulls =
        has_nulls.then(|| NullBuffer::new(BooleanBuffer::collect_bool(places.len(), valid)));
    let data = ArrayDataBuilder::new(data_type.clone())
        .len(places.len())
        .add_buffer(Buffer::from_vec(found))
        .nulls(nulls.filter(|nulls| nulls.null_count() > 0));
    data.build().map(make_array)
}

/// Calls `gather` for the rows. If gathering fails, each half of the rows is gathered separately.
/// An array can hold at most 2 GiB of strings or list items. A single row always fits, because it
/// was taken from such an array.
pub(crate) fn in_pieces(
    rows: Range<usize>,
    gather: &mut impl FnMut(Range<usize>) -> Result<()>,
) -> Result<()> {
    let Err(error) = gather(rows.clone()) else { return Ok(()) };
    if rows.len() <= 1 {
        return Err(error);
    }
    let middle = rows.start + rows.len() / 2;
    in_pieces(rows.start..middle, gather)?;
    in_pieces(middle..rows.end, gather)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int32Array, StringArray};

    use super::*;
    use crate::Error;

    #[test]
    fn values_and_nulls_come_from_their_places() {
        let numbers: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from(vec![Some(1), None, Some(3)])),
            Arc::new(Int32Array::from(vec![Some(9), Some(4), Some(5)]).slice(1, 2)),
        ];
        let places = [(0, 2), (1, 0), (0, 1), NO_PLACE, (1, 1)];
        let found = interleave(&DataType::Int32, &numbers, &places).unwrap();
        assert_eq!(*found, Int32Array::from(vec![Some(3), Some(4), None, None, Some(5)]));

        let words: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(vec!["a", "b"])),
            Arc::new(StringArray::from(vec!["c"])),
        ];
        let found = interleave(&DataType::Utf8, &words, &[(1, 0), NO_PLACE, (0, 1)]).unwrap();
        assert_eq!(*found, StringArray::from(vec![Some("c"), None, Some("b")]));
    }

    #[test]
    fn neighbours_are_not_copied() {
        assert_eq!(neighbours(&[(3, 4), (3, 5), (3, 6)]), Some((3, 4)));
        assert_eq!(neighbours(&[(3, 4), (3, 6), (3, 6)]), None);
        assert_eq!(neighbours(&[(3, 4), (2, 5)]), None);
        assert_eq!(neighbours(&[NO_PLACE]), None);
        assert_eq!(neighbours(&[]), None);
    }

    #[test]
    fn rows_that_fit_no_array_are_gathered_in_pieces() {
        let mut gathered = Vec::new();
        let mut gather = |rows: Range<usize>| match rows.len() {
            0..=3 => {
                gathered.push(rows);
                Ok(())
            }
            _ => Err(Error::bug("too many")),
        };
        in_pieces(0..10, &mut gather).unwrap();
        assert_eq!(gathered, [0..2, 2..5, 5..7, 7..10]);
        assert!(in_pieces(0..2, &mut |_| Err(Error::bug("always"))).is_err());
    }
}
