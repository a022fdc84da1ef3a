//! Stores the values of several columns side by side. Accessing a row at a random position then
//! costs one cache line instead of one per column.

use std::fmt;
use std::ops::Deref;

use bytemuck::Pod;

use super::gather::{Store, prefetch};
use super::pages::{Pages, Slot};
#[cfg(target_arch = "x86_64")]
use crate::instructions::Instructions;

/// The maximum number of columns in a record.
pub const COLUMNS: usize = 4;

/// The number of rows that are written together, column by column. This many rows fit into the
/// first-level cache.
const BLOCK: usize = 512;

/// The number of records that are read together if no kernel reads several at a time. The constant
/// below specifies how many positions ahead a record is prefetched.
const GROUP: usize = 8;
const AHEAD: usize = 32;

/// The number of rows for which the smallest log has room.
const FEW: usize = 64;

/// The destination of a column's values.
#[derive(Debug)]
pub enum Out<'a> {
    /// The whole values.
    Longs(&'a mut [Slot<u64>]),
    /// The lower halves of the values.
    Words(&'a mut [Slot<u32>]),
}

impl Out<'_> {
    fn len(&self) -> usize {
        match self {
            Out::Longs(out) => out.len(),
            Out::Words(out) => out.len(),
        }
    }

    /// Writes a value, or only its lower half.
    #[inline]
    pub fn set(&mut self, at: usize, value: u64) {
        match self {
            Out::Longs(out) => out[at].set(value),
            Out::Words(out) => out[at].set(value as u32),
        }
    }

    /// Writes consecutive values, starting at `at`.
    #[inline]
    fn set_some(&mut self, at: usize, values: impl Iterator<Item = u64>) {
        match self {
            Out::Longs(out) => {
                out[at..].iter_mut().zip(values).for_each(|(slot, value)| slot.set(value));
            }
            Out::Words(out) => {
                out[at..].iter_mut().zip(values).for_each(|(slot, value)| slot.set(value as u32));
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn begins_at_a_line(&self) -> bool {
        let start: *const u8 = match self {
            Out::Longs(out) => out.as_ptr().cast(),
            Out::Words(out) => out.as_ptr().cast(),
        };
        start.align_offset(64) == 0
    }
}

/// A row's values, in column order. Unused values are zeros.
pub trait Record: Pod + Default + Send + Sync + AsRef<[u64]> + AsMut<[u64]> {
    /// Gathers as many records as possible. Returns the number of gathered records, and `true` if
    /// all of their positions were in range.
    ///
    /// # Panics
    ///
    /// Panics if there are more columns than a record has values, or if a column and `places`
    /// differ in length.
    fn gather_wide(
        records: &[Self],
        places: &[u32],
        out: &mut [Out<'_>],
        store: Store,
    ) -> (usize, bool);
}

/// Writes the columns' rows as records. All columns must have the same length.
///
/// # Panics
///
/// Panics if there are more columns than a record has values, or if a column and `out` differ in
/// length.
pub fn interleave<R: Record>(columns: &[&[u64]], out: &mut [Slot<R>]) {
    let out = Slot::values(out);
    assert!(columns.iter().all(|column| column.len() == out.len()), "one value per record");
    let is_part = columns.len() * size_of::<u64>() < size_of::<R>();
    for (block, start) in out.chunks_mut(BLOCK).zip((0..).step_by(BLOCK)) {
        if is_part {
            block.fill(R::default());
        }
        for (slot, column) in columns.iter().enumerate() {
            block
                .iter_mut()
                .zip(&column[start..])
                .for_each(|(record, value)| record.as_mut()[slot] = *value);
        }
    }
}

/// Writes column `c` of `records[places[i]]` to `out[c][i]`.
///
/// # Panics
///
/// Panics if a position is out of range, if there are more columns than values in a record, or if a
/// column and `places` differ in length.
pub fn gather<R: Record>(records: &[R], places: &[u32], out: &mut [Out<'_>], store: Store) {
    assert_a_value_a_place(out, places, size_of::<R>() / size_of::<u64>());
    let (done, in_range) = R::gather_wide(records, places, out, store);
    assert!(in_range, "all positions must be less than {}", records.len());
    let mut taken = [R::default(); GROUP];
    for (group, at) in places[done..].chunks(GROUP).zip((done..).step_by(GROUP)) {
        let later = places.iter().skip(at + AHEAD).take(GROUP);
        later.for_each(|&place| prefetch(records, place as usize));
        for (record, &place) in taken.iter_mut().zip(group) {
            *record = records[place as usize];
        }
        for (slot, column) in out.iter_mut().enumerate() {
            column.set_some(at, taken[..group.len()].iter().map(|record| record.as_ref()[slot]));
        }
    }
}

/// Checks the lengths, because kernels write one value per position to each column.
fn assert_a_value_a_place(out: &[Out<'_>], places: &[u32], most: usize) {
    assert!(
        out.len() <= most && out.iter().all(|column| column.len() == places.len()),
        "one value per place"
    );
}

/// The records of rows that are appended at the end and removed from the front. All records are in
/// one piece of memory, which has room for twice as many rows as the log contains. Each row is
/// therefore moved only about once.
pub struct RecordLog<R> {
    /// The elements from `first` to `end` have been written.
    values: Pages<R>,
    /// The range of rows in the log.
    first: usize,
    end: usize,
}

impl<R: Record> Default for RecordLog<R> {
    fn default() -> Self {
        RecordLog { values: Pages::default(), first: 0, end: 0 }
    }
}

impl<R> fmt::Debug for RecordLog<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordLog").field("len", &(self.end - self.first)).finish_non_exhaustive()
    }
}

impl<R: Record> From<Pages<R>> for RecordLog<R> {
    fn from(values: Pages<R>) -> Self {
        let end = values.len();
        RecordLog { values, first: 0, end }
    }
}

impl<R: Record> Deref for RecordLog<R> {
    type Target = [R];

    fn deref(&self) -> &[R] {
        &self.values[self.first..self.end]
    }
}

impl<R: Record> RecordLog<R> {
    /// Adds rows, given as columns of equal length.
    ///
    /// # Panics
    ///
    /// Panics if there are no columns, if there are more columns than values in a record, or if the
    /// columns differ in length.
    pub fn push(&mut self, columns: &[&[u64]]) {
        let rows = columns[0].len();
        self.make_room(rows);
        interleave(columns, Slot::of(&mut self.values[self.end..][..rows]));
        self.end += rows;
    }

    /// Removes the oldest rows.
    ///
    /// # Panics
    ///
    /// Panics if the log has fewer than `rows` rows.
    pub fn drop_front(&mut self, rows: usize) {
        assert!(rows <= self.len(), "{rows} rows of {}", self.len());
        self.first += rows;
    }

    /// Returns the number of bytes in use.
    pub fn memory(&self) -> usize {
        size_of_val(&*self.values)
    }

    fn make_room(&mut self, rows: usize) {
        let (len, needed) = (self.len(), self.len() + rows);
        let is_large = self.values.len() > FEW.max(8 * needed);
        if self.end + rows <= self.values.len() && !is_large {
            return;
        }
        if 2 * needed <= self.values.len() && !is_large {
            self.values.copy_within(self.first..self.end, 0);
        } else {
            // There is room for a little more than twice as many rows, so that adding a few rows
            // does not always allocate memory.
            let mut values = Pages::arbitrary(FEW.max(2 * needed + needed / 4));
            values[..len].copy_from_slice(self);
            self.values = values;
        }
        (self.first, self.end) = (0, len);
    }
}

/// Implements [`Record`] with a kernel that processes eight records at a time. NEON has no kernel,
/// because a NEON register holds only two values and Rust has no streaming stores for NEON.
macro_rules! wide {
    ($columns:literal, $kernel:ident) => {
        impl Record for [u64; $columns] {
            fn gather_wide(
                records: &[Self],
                places: &[u32],
                out: &mut [Out<'_>],
                store: Store,
            ) -> (usize, bool) {
                #[cfg(target_arch = "x86_64")]
                if Instructions::Avx512.are_used() && !records.is_empty() {
                    assert_a_value_a_place(out, places, $columns);
                    let done = places.len() / 8 * 8;
                    // Streaming stores write whole cache lines.
                    let aligned = out.iter().all(Out::begins_at_a_line);
                    // SAFETY: the processor has the feature, there is a record, and the lengths
                    // were compared.
                    let in_range = unsafe {
                        match store == Store::Streaming && aligned {
                            true => avx512::$kernel::<true>(records, &places[..done], out),
                            false => avx512::$kernel::<false>(records, &places[..done], out),
                        }
                    };
                    return (done, in_range);
                }
                let _ = (records, places, out, store);
                (0, true)
            }
        }
    };
}

wide!(2, gather_two);
wide!(4, gather_four);

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::*;

    use super::Out;

    /// Stores a cache line.
    ///
    /// # Safety
    ///
    /// `to` must be valid for writes of 64 bytes. If the store is streaming, the address must be a
    /// multiple of 64.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn store<const STREAMING: bool>(to: *mut __m512i, values: __m512i) {
        debug_assert!(!STREAMING || to.cast::<u8>().align_offset(64) == 0);
        // SAFETY: guaranteed by the caller.
        unsafe {
            match STREAMING {
                true => _mm512_stream_si512(to, values),
                false => _mm512_storeu_si512(to, values),
            }
        }
    }

    /// Makes streaming stores visible to other threads before any later store.
    #[inline]
    fn finish<const STREAMING: bool>() {
        if STREAMING {
            // SAFETY: every x86-64 processor has the instruction.
            unsafe { _mm_sfence() };
        }
    }

    /// Writes 8 values of a column, starting at position `at`.
    ///
    /// # Safety
    ///
    /// The column must have at least `at + 8` elements, and `at` must be a multiple of 8. If the
    /// store is streaming, the column must begin at a cache line boundary.
    #[target_feature(enable = "avx512f")]
    #[inline]
    unsafe fn write<const STREAMING: bool>(column: &mut Out<'_>, at: usize, values: __m512i) {
        debug_assert!(at + 8 <= column.len() && at.is_multiple_of(8));
        debug_assert!(!STREAMING || column.begins_at_a_line());
        // SAFETY: guaranteed by the caller; 8 words are half a cache line.
        unsafe {
            match column {
                Out::Longs(out) => store::<STREAMING>(out.as_mut_ptr().add(at).cast(), values),
                Out::Words(out) => {
                    let (to, words) =
                        (out.as_mut_ptr().add(at).cast(), _mm512_cvtepi64_epi32(values));
                    match STREAMING {
                        true => _mm256_stream_si256(to, words),
                        false => _mm256_storeu_si256(to, words),
                    }
                }
            }
        }
    }

    /// Gathers 8 records at a time and returns whether all positions were in range. If a position
    /// is out of range, the last record is read instead.
    ///
    /// # Safety
    ///
    /// There must be at least one record. `places.len()` must be a multiple of 8. `out` must have
    /// at most two columns, each at least as long as `places`. If stores are streaming, the columns
    /// must begin at a cache line boundary.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn gather_two<const STREAMING: bool>(
        records: &[[u64; 2]],
        places: &[u32],
        out: &mut [Out<'_>],
    ) -> bool {
        debug_assert!(!records.is_empty() && places.len().is_multiple_of(8) && out.len() <= 2);
        debug_assert!(out.iter().all(|column| column.len() >= places.len()));
        let (even, odd) = (
            _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14),
            _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15),
        );
        let last = records.len() - 1;
        let mut largest = 0;
        for (places, at) in places.chunks_exact(8).zip((0..).step_by(8)) {
            largest = places.iter().fold(largest, |largest, &place| largest.max(place));
            let (a, b) = (four(records, &places[..4], last), four(records, &places[4..], last));
            let columns =
                [_mm512_permutex2var_epi64(a, even, b), _mm512_permutex2var_epi64(a, odd, b)];
            for (column, values) in out.iter_mut().zip(columns) {
                // SAFETY: a column has as many values as there are positions, and the caller
                // guarantees its alignment.
                unsafe { write::<STREAMING>(column, at, values) };
            }
        }
        finish::<STREAMING>();
        (largest as usize) <= last
    }

    /// Loads four consecutive records into one register.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn four(records: &[[u64; 2]], places: &[u32], last: usize) -> __m512i {
        let record = |number: usize| {
            let record = &records[(places[number] as usize).min(last)];
            // SAFETY: a record is 16 bytes long.
            unsafe { _mm_loadu_si128(record.as_ptr().cast()) }
        };
        let one = _mm512_castsi128_si512(record(0));
        let two = _mm512_inserti32x4::<1>(one, record(1));
        _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(two, record(2)), record(3))
    }

    /// Does the same as [`gather_two`] for up to four columns.
    ///
    /// # Safety
    ///
    /// The requirements of [`gather_two`] apply, but there may be up to four columns.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn gather_four<const STREAMING: bool>(
        records: &[[u64; 4]],
        places: &[u32],
        out: &mut [Out<'_>],
    ) -> bool {
        debug_assert!(!records.is_empty() && places.len().is_multiple_of(8) && out.len() <= 4);
        debug_assert!(out.iter().all(|column| column.len() >= places.len()));
        let (low, high) = (
            _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13),
            _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15),
        );
        let last = records.len() - 1;
        let mut largest = 0;
        for (places, at) in places.chunks_exact(8).zip((0..).step_by(8)) {
            largest = places.iter().fold(largest, |largest, &place| largest.max(place));
            let pair = |first: usize| two(records, places[first], places[first + 4], last);
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
                // SAFETY: a column has as many values as there are positions, and the caller
                // guarantees its alignment.
                unsafe { write::<STREAMING>(column, at, values) };
            }
        }
        finish::<STREAMING>();
        (largest as usize) <= last
    }

    /// Loads two records into one register.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn two(records: &[[u64; 4]], one: u32, other: u32, last: usize) -> __m512i {
        let record = |place: u32| {
            let record = &records[(place as usize).min(last)];
            // SAFETY: a record is 32 bytes long.
            unsafe { _mm256_loadu_si256(record.as_ptr().cast()) }
        };
        _mm512_inserti64x4::<1>(_mm512_castsi256_si512(record(one)), record(other))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::memory::pages::UnwrittenPages;
    use proptest::prelude::*;

    fn agrees_with_indexing<R: Record>(
        rows: usize,
        columns: usize,
        places: &[u32],
        narrow: [bool; COLUMNS],
    ) {
        let values: Vec<Vec<u64>> = (0..columns as u64)
            .map(|column| (0..rows as u64).map(|row| row << 40 | row << 8 | column).collect())
            .collect();
        let mut records = Pages::<R>::unwritten(rows);
        interleave(&values.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut records);
        let records = records.written();
        for store in [Store::Cached, Store::Streaming] {
            let mut longs: Vec<UnwrittenPages<u64>> =
                (0..columns).map(|_| Pages::unwritten(places.len())).collect();
            let mut words: Vec<UnwrittenPages<u32>> =
                (0..columns).map(|_| Pages::unwritten(places.len())).collect();
            let both = longs.iter_mut().zip(&mut words).zip(narrow);
            let out = both.map(
                |((longs, words), narrow)| {
                    if narrow { Out::Words(words) } else { Out::Longs(longs) }
                },
            );
            gather(&records, places, &mut out.collect::<Vec<_>>(), store);
            for ((column, values), (longs, words)) in
                values.iter().enumerate().zip(longs.into_iter().zip(words))
            {
                let expected = places.iter().map(|&place| values[place as usize]);
                match narrow[column] {
                    false => assert!(longs.written().iter().copied().eq(expected)),
                    true => assert!(
                        words.written().iter().copied().eq(expected.map(|value| value as u32))
                    ),
                }
            }
        }
    }

    proptest! {
        #[test]
        fn oracle_indexing(
            rows in 1_usize..1500,
            places in prop::collection::vec(any::<u32>(), 0..200),
            narrow: [bool; COLUMNS],
        ) {
            let places: Vec<u32> = places.into_iter().map(|place| place % rows as u32).collect();
            (1..=2).for_each(|columns| agrees_with_indexing::<[u64; 2]>(rows, columns, &places, narrow));
            (1..=4).for_each(|columns| agrees_with_indexing::<[u64; 4]>(rows, columns, &places, narrow));
        }

        #[test]
        fn oracle_rows_come_and_leave(steps in prop::collection::vec((0_usize..300, 0_usize..300), 0..60)) {
            let (mut log, mut expected, mut next) = (RecordLog::<[u64; 2]>::default(), VecDeque::new(), 0);
            for (come, leave) in steps {
                let values: Vec<u64> = (next..next + come as u64).collect();
                let others: Vec<u64> = values.iter().map(|value| value * 7).collect();
                next += come as u64;
                log.push(&[&values, &others]);
                expected.extend(values.iter().map(|&value| [value, value * 7]));
                let leave = leave.min(expected.len());
                log.drop_front(leave);
                expected.drain(..leave);
                prop_assert!(log.iter().eq(&expected));
                // A large log shrinks when the next rows are added.
                log.push(&[&[], &[]]);
                prop_assert!(log.values.len() <= FEW.max(8 * expected.len()));
            }
        }
    }

    #[test]
    fn rows_stay_where_they_are_while_there_is_room() {
        let mut log = RecordLog::<[u64; 2]>::default();
        assert_eq!((log.memory(), format!("{log:?}")), (0, "RecordLog { len: 0, .. }".into()));
        log.push(&[&[7; 1000]]);
        let (memory, room) = (log.memory(), log.values.len());
        assert_eq!((memory, room), (16 * 2250, 2250));
        // With an eighth of its room in use, a log keeps its memory.
        log.drop_front(718);
        log.push(&[&[8]]);
        assert_eq!((log.first, log.end, log.values.len()), (718, 1001, room));
        assert_eq!(format!("{log:?}"), "RecordLog { len: 283, .. }");
        log.push(&[&[9; 1249]]);
        assert_eq!((log.first, log.end, log.values.len()), (718, room, room));
        // One more row does not fit behind the others, and there are too many rows to move them to
        // the front.
        log.push(&[&[10]]);
        let room = 2 * 1533 + 1533 / 4;
        assert_eq!((log.first, log.end, log.values.len()), (0, 1533, room));
        log.drop_front(1000);
        log.push(&[&vec![11; room - 1533]]);
        assert_eq!((log.first, log.end, log.values.len()), (1000, room, room));
        // Now there are few enough rows to move them to the front, and later few enough for a
        // smaller log.
        log.drop_front(log.len() - 500);
        log.push(&[&[12]]);
        assert_eq!((log.first, log.end, log.values.len()), (0, 501, room));
        log.drop_front(400);
        log.push(&[&[13]]);
        assert_eq!((log.first, log.end, log.values.len()), (0, 102, 2 * 102 + 102 / 4));
    }

    #[test]
    fn a_kernel_refuses_columns_that_are_too_short_or_too_many() {
        #[cfg(target_arch = "x86_64")]
        if Instructions::Avx512.are_used() {
            let places = [0; 16];
            let refused = |work: &mut dyn FnMut()| {
                let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work))
                    .expect_err("the call panics");
                panic
                    .downcast_ref::<&str>()
                    .is_some_and(|text| text.contains("one value per place"))
            };
            let (mut short, mut long) = ([0; 8], [[0; 16]; 3]);
            assert!(refused(&mut || {
                <[u64; 2]>::gather_wide(
                    &[[1; 2]],
                    &places,
                    &mut [Out::Longs(Slot::of(&mut short))],
                    Store::Cached,
                );
            }));
            assert!(refused(&mut || {
                let mut out: Vec<Out<'_>> =
                    long.iter_mut().map(|column| Out::Longs(Slot::of(column))).collect();
                <[u64; 2]>::gather_wide(&[[1; 2]], &places, &mut out, Store::Cached);
            }));
        }
    }

    #[test]
    fn a_place_out_of_range_panics_wherever_it_stands() {
        for bad in 0..20 {
            for place in [5, u32::MAX] {
                let mut places = [0_u32; 20];
                places[bad] = place;
                let gathered = || {
                    gather(
                        &[[1_u64; 4]; 5],
                        &places,
                        &mut [Out::Longs(Slot::of(&mut [0; 20]))],
                        Store::Cached,
                    )
                };
                assert!(std::panic::catch_unwind(gathered).is_err());
            }
        }
        assert!(
            std::panic::catch_unwind(|| gather(
                &[] as &[[u64; 4]],
                &[0],
                &mut [Out::Words(Slot::of(&mut [0]))],
                Store::Cached
            ))
            .is_err()
        );
    }
}
