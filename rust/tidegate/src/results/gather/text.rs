//! Computes the total length of the strings in some rows before they are copied. A few long strings
//! may occur in many rows.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use tidegate_structures::memory;

/// The offsets at which the values in a chunk end.
enum ValueEnds<'a> {
    Words(&'a [i32]),
    Longs(&'a [i64]),
    /// The values are not copied, or their lengths are all close to the average.
    Any,
}

impl<'a> ValueEnds<'a> {
    fn of(chunk: &'a dyn Array) -> Self {
        match chunk.data_type() {
            DataType::Utf8 => ValueEnds::Words(chunk.as_string::<i32>().value_offsets()),
            DataType::Binary => ValueEnds::Words(chunk.as_binary::<i32>().value_offsets()),
            DataType::LargeUtf8 => ValueEnds::Longs(chunk.as_string::<i64>().value_offsets()),
            DataType::LargeBinary => ValueEnds::Longs(chunk.as_binary::<i64>().value_offsets()),
            _ => ValueEnds::Any,
        }
    }

    /// Returns the number of bytes in a row's string, or `None` if the row is missing.
    fn len(&self, row: usize) -> Option<usize> {
        let (start, end) = match self {
            ValueEnds::Words(ends) => ((*ends.get(row)?).into(), (*ends.get(row + 1)?).into()),
            ValueEnds::Longs(ends) => (*ends.get(row)?, *ends.get(row + 1)?),
            ValueEnds::Any => return None,
        };
        usize::try_from(end - start).ok()
    }
}

/// Unwinds unless there is enough memory for the strings in these rows. Each row is specified by
/// its chunk and its position in that chunk. Missing rows have no strings.
pub(crate) fn demand_texts(chunks: &[ArrayRef], places: impl Iterator<Item = (usize, usize)>) {
    let ends: Vec<ValueEnds<'_>> = chunks.iter().map(|chunk| ValueEnds::of(chunk)).collect();
    if !ends.iter().all(|ends| matches!(ends, ValueEnds::Any)) {
        let lengths = places.filter_map(|(chunk, row)| ends.get(chunk)?.len(row));
        memory::demand(lengths.fold(0, usize::saturating_add));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{BinaryArray, Int32Array, LargeStringArray, StringArray};

    use super::*;
    use crate::Error;

    #[test]
    fn long_texts_in_many_rows_are_refused_before_they_are_copied() {
        let long = "x".repeat(1 << 20);
        let demand = |chunk: ArrayRef, rows: usize| {
            let chunks = [chunk.clone(), chunk.slice(1, 1)];
            // The string is the second row in one chunk and the first row of the other. In
            // addition, there is a missing row.
            let places = (0..rows).flat_map(|_| [(0, 1), (1, 0), (0, u32::MAX as usize)]);
            Error::catch(|| {
                demand_texts(&chunks, places);
                Ok(())
            })
        };
        let texts: [ArrayRef; 3] = [
            Arc::new(StringArray::from(vec!["", &long])),
            Arc::new(LargeStringArray::from(vec!["a", &long])),
            Arc::new(BinaryArray::from(vec![&b""[..], long.as_bytes()])),
        ];
        for text in texts {
            assert!(demand(text.clone(), 2).is_ok());
            let error = demand(text, 1 << 21).unwrap_err();
            assert!(
                error.is_memory() && error.message().contains(&format!("{} bytes", 1_u64 << 42)),
                "{error}"
            );
        }
        assert!(demand(Arc::new(Int32Array::from(vec![1, 2])), 10).is_ok());
    }
}
