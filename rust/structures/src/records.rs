//! Values of several columns side by side: a row at a random place then costs one cache line, not one a column.

use crate::gather::Store;

/// The values of a row, in the order of the columns; those of no column are arbitrary. Half a cache line.
pub type Record = [u64; 4];

/// The most columns of a record.
pub const COLUMNS: usize = 4;

/// Records that are written together, column by column: few enough for the first-level cache.
const BLOCK: usize = 512;

/// Writes the rows of the columns, which have as many values each, as records.
///
/// # Panics
///
/// When there are more than [`COLUMNS`] columns, or one has another length than `out`.
pub fn interleave(columns: &[&[u64]], out: &mut [Record]) {
    assert!(columns.iter().all(|column| column.len() == out.len()), "a value a record");
    for (block, start) in out.chunks_mut(BLOCK).zip((0..).step_by(BLOCK)) {
        for (slot, column) in columns.iter().enumerate() {
            block.iter_mut().zip(&column[start..]).for_each(|(record, value)| record[slot] = *value);
        }
    }
}

/// Writes column `c` of `records[places[i]]` to `out[c][i]`.
///
/// # Panics
///
/// When a place is not below the number of records, there are more than [`COLUMNS`] columns, or one has another length
/// than `places`.
pub fn gather(records: &[Record], places: &[u32], out: &mut [&mut [u64]], store: Store) {
    assert!(out.len() <= COLUMNS && out.iter().all(|column| column.len() == places.len()), "a value a place");
    let (done, in_range) = gather_wide(records, places, out, store);
    assert!(in_range, "a place is not below {}", records.len());
    for (at, &place) in places.iter().enumerate().skip(done) {
        let record = &records[place as usize];
        out.iter_mut().zip(record).for_each(|(column, value)| column[at] = *value);
    }
}

/// Gathers as many records as possible; how many, and whether all their places were in range.
fn gather_wide(records: &[Record], places: &[u32], out: &mut [&mut [u64]], store: Store) -> (usize, bool) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512f") && !records.is_empty() {
        let done = places.len() / 8 * 8;
        // Streaming stores are of whole cache lines.
        let aligned = out.iter().all(|column| column.as_ptr().align_offset(64) == 0);
        // SAFETY: the processor has the feature, there is a record, and `gather` has compared the lengths.
        let in_range = unsafe {
            match store == Store::Streaming && aligned {
                true => avx512::gather::<true>(records, &places[..done], out),
                false => avx512::gather::<false>(records, &places[..done], out),
            }
        };
        return (done, in_range);
    }
    let _ = (records, places, out, store);
    (0, true)
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::{
        __m512i, _mm256_loadu_si256, _mm512_castsi256_si512, _mm512_inserti64x4, _mm512_permutex2var_epi64,
        _mm512_setr_epi64, _mm512_unpackhi_epi64, _mm512_unpacklo_epi64,
    };

    use super::{COLUMNS, Record};
    use crate::gather::avx512::{finish, store};

    /// Gathers 8 records at a time and returns whether all places were in range; one that is not reads the last record.
    ///
    /// # Safety
    ///
    /// There is a record; `places` has a multiple of 8 values; there are at most [`COLUMNS`] columns in `out`, each with
    /// as many values or more, which begin at a cache line if stores are streaming.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn gather<const STREAMING: bool>(
        records: &[Record],
        places: &[u32],
        out: &mut [&mut [u64]],
    ) -> bool {
        debug_assert!(!records.is_empty() && places.len().is_multiple_of(8) && out.len() <= COLUMNS);
        debug_assert!(out.iter().all(|column| column.len() >= places.len()));
        let (low, high) = (_mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13), _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15));
        let last = records.len() - 1;
        let mut largest = 0;
        for (places, at) in places.chunks_exact(8).zip((0..).step_by(8)) {
            // Two records whose numbers differ by 4 in one register.
            let pair = |first: usize| -> __m512i {
                let record = |number: usize| {
                    let record = &records[(places[number] as usize).min(last)];
                    // SAFETY: a record has 32 bytes.
                    unsafe { _mm256_loadu_si256(record.as_ptr().cast()) }
                };
                _mm512_inserti64x4::<1>(_mm512_castsi256_si512(record(first)), record(first + 4))
            };
            largest = places.iter().fold(largest, |largest, &place| largest.max(place));
            let (a, b, c, d) = (pair(0), pair(1), pair(2), pair(3));
            let (even, odd) = (_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
            let (next_even, next_odd) = (_mm512_unpacklo_epi64(c, d), _mm512_unpackhi_epi64(c, d));
            let columns = [
                _mm512_permutex2var_epi64(even, low, next_even),
                _mm512_permutex2var_epi64(odd, low, next_odd),
                _mm512_permutex2var_epi64(even, high, next_even),
                _mm512_permutex2var_epi64(odd, high, next_odd),
            ];
            for (column, values) in out.iter_mut().zip(columns) {
                // SAFETY: 8 values are written, of which there are as many as of places.
                unsafe { store::<STREAMING>(column.as_mut_ptr().add(at).cast(), values) };
            }
        }
        finish::<STREAMING>();
        (largest as usize) <= last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::Pages;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn oracle_indexing(
            rows in 1_usize..1500,
            columns in 1_usize..=COLUMNS,
            places in prop::collection::vec(any::<u32>(), 0..200),
        ) {
            let places: Vec<u32> = places.into_iter().map(|place| place % rows as u32).collect();
            let values: Vec<Vec<u64>> =
                (0..columns as u64).map(|column| (0..rows as u64).map(|row| row << 8 | column).collect()).collect();
            let mut records = Pages::new(rows);
            interleave(&values.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut records);
            for store in [Store::Cached, Store::Streaming] {
                let mut out: Vec<Pages<u64>> = (0..columns).map(|_| Pages::new(places.len())).collect();
                gather(&records, &places, &mut out.iter_mut().map(|column| &mut column[..]).collect::<Vec<_>>(), store);
                for (out, values) in out.iter().zip(&values) {
                    prop_assert!(out.iter().zip(&places).all(|(value, place)| *value == values[*place as usize]));
                }
            }
        }
    }

    #[test]
    fn a_place_out_of_range_panics_wherever_it_stands() {
        for bad in 0..20 {
            for place in [5, u32::MAX] {
                let mut places = [0_u32; 20];
                places[bad] = place;
                let gathered = || gather(&[[1; 4]; 5], &places, &mut [&mut [0; 20]], Store::Cached);
                assert!(std::panic::catch_unwind(gathered).is_err());
            }
        }
        assert!(std::panic::catch_unwind(|| gather(&[], &[0], &mut [&mut [0]], Store::Cached)).is_err());
    }
}
