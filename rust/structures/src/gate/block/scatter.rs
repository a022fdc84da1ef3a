//! Sorts a slab, which consists of sorted pieces, by writing each row to its final position.
//!
//! A slab contains only a few rows, whose times are close together. Each row is converted to a
//! 32-bit word, and words sort in the same order as rows. The upper part of a word is the
//! difference between the row's event time and the smallest one. The lower part is the row's
//! number, counted by source and position. The upper bits of a word select its slot. The rows in
//! each slot are counted, positions are computed by summing these counts, and each word is written
//! to its slot's next position. All these passes are linear and need no comparisons. Words that
//! share a slot may be in the wrong order, which the next pass corrects. The last pass converts
//! words back to rows.
//!
//! ```text
//! source 0:  3 7 9     slot   0   1   2   3      places   0   2   3   4
//! source 1:  4 8       rows  3,4  -  7,8  9      result   3 4 7 8 9
//! ```
//!
//! # Trade-offs
//!
//! - Rows that crowd into a few slots, for example because their times grow exponentially, are
//!   sorted by comparison. Such a sort costs as much as a merge.
//! - If the slab's times do not fit into words, their lowest bits are dropped. Rows whose times
//!   differ only in the dropped bits are sorted at the end.
//! - If there are only two pieces, they are merged by comparison, which is cheaper.

use std::hint::select_unpredictable;

#[cfg(target_arch = "x86_64")]
use super::avx2::{self, Avx2};
#[cfg(target_arch = "x86_64")]
use super::avx512::{self, Avx512};
use crate::gate::key::RowId;

/// If any slot contains more words than this, all words are sorted by comparison. Otherwise,
/// neighbours are exchanged.
const CROWDED: u16 = 16;

/// The maximum number of rows in a slab, which ensures that a position fits into a slot.
pub(super) const MOST_ROWS: usize = u16::MAX as usize;

/// The number of slots is always a multiple of `LANES`. There is always room for `LANES` additional
/// words.
pub(super) const LANES: usize = 32;

/// If rows would have to move farther than this on average in the last pass, it is cheaper to sort
/// them by comparison.
const MOST_MOVES_PER_ROW: usize = 4;

/// The two passes that a compiler does not vectorize on its own.
pub(super) trait Passes {
    /// The number of slots per row. With more slots, fewer rows share a slot, but there are more
    /// counts to sum.
    const SLOTS_PER_ROW: usize;

    /// Replaces the count in each slot with the sum of the counts before it, and returns the
    /// largest count. The sums must not overflow, and the number of slots must be a multiple of
    /// [`LANES`].
    fn sum_before(slots: &mut [u16]) -> u16;

    /// Sorts the first `len` elements of `words`. Words may be out of order only within groups of
    /// at most `crowd` adjacent words. These words must be followed by [`LANES`] more words, none
    /// of which is smaller.
    fn settle(words: &mut [u32], len: usize, crowd: u16);
}

/// The data that is written for a row in addition to its time.
pub(super) trait Label: Copy {
    /// The label for positions without a row.
    const NONE: Self;

    /// Returns the label of the row that is `rows` positions after `first`, the first row of a
    /// piece.
    fn of(first: RowId, rows: usize) -> Self;
}

impl Label for RowId {
    const NONE: Self = RowId::from_bits(0);

    #[inline(always)]
    fn of(first: RowId, rows: usize) -> Self {
        RowId::from_bits(first.to_bits() + rows as u64)
    }
}

/// The source without the position.
impl Label for u16 {
    const NONE: Self = 0;

    #[inline(always)]
    fn of(first: RowId, _: usize) -> Self {
        first.source()
    }
}

/// The memory for the passes.
#[derive(Debug)]
pub(super) struct Scatter<L> {
    /// The rows, ordered by rank and position.
    words: Vec<u32>,
    labels: Vec<L>,
    /// The event times, if they do not fit into words.
    times: Vec<i64>,
    /// The number of rows in each slot, and later the slot's next position.
    slots: Vec<u16>,
    /// The rows, ordered by time.
    sorted: Vec<u32>,
}

impl<L> Default for Scatter<L> {
    fn default() -> Self {
        Scatter {
            words: Vec::new(),
            labels: Vec::new(),
            times: Vec::new(),
            slots: Vec::new(),
            sorted: Vec::new(),
        }
    }
}

/// Merges sorted pieces of a few thousand rows. For each row, the time and the source are written
/// to the output.
#[derive(Debug, Default)]
pub struct Slabs(Scatter<u16>);

impl Slabs {
    /// Writes the rows in `pieces` to `ts` and `sources`, sorted by time. Rows with equal times
    /// stay in the order of the pieces. The id that is passed with a piece is that of the piece's
    /// first row. If a piece's times are not sorted, the output order is unspecified.
    ///
    /// ```
    /// use tidegate_structures::gate::{RowId, Slabs};
    ///
    /// let pieces = [(RowId::new(0, 0), &[3, 7, 9][..]), (RowId::new(1, 0), &[4, 8])];
    /// let (mut ts, mut sources) = ([0; 5], [0; 5]);
    /// Slabs::default().merge(&pieces, &mut ts, &mut sources);
    /// assert_eq!((ts, sources), ([3, 4, 7, 8, 9], [0, 1, 0, 1, 0]));
    /// ```
    ///
    /// # Panics
    ///
    /// Panics unless `ts` and `sources` have one element per row and there are at most 65,535 rows.
    pub fn merge(&mut self, pieces: &[(RowId, &[i64])], ts: &mut [i64], sources: &mut [u16]) {
        self.0.merge(pieces, ts, sources);
    }
}

/// The layout of a row that is stored as a word.
///
/// ```text
/// 0xtttt_tnnn      time less the smallest, scaled to fill its bits, and number
/// ```
#[derive(Clone, Copy, Debug)]
struct Layout {
    low: i64,
    /// The number of bits that hold the row number.
    number: u32,
    /// The number of low-order bits of the time that are dropped.
    lost: u32,
    /// The shift, in bits, that moves the remaining time to the upper end of the word.
    scale: u32,
}

impl Layout {
    fn new(low: i64, high: i64, rows: usize) -> Self {
        let number = usize::BITS - (rows - 1).leading_zeros();
        let time = u64::BITS - (high.wrapping_sub(low) as u64).leading_zeros();
        let room = u32::BITS - number;
        Layout {
            low,
            number,
            lost: time.saturating_sub(room),
            scale: number + room.saturating_sub(time),
        }
    }

    /// Returns the word for a row. The word contains `number`, regardless of the time.
    #[inline(always)]
    fn word(self, ts: i64, number: usize) -> u32 {
        ((ts.wrapping_sub(self.low) as u64 >> self.lost) << self.scale) as u32 | number as u32
    }

    #[inline(always)]
    fn ts(self, word: u32) -> i64 {
        debug_assert!(self.lost == 0);
        self.low.wrapping_add((u64::from(word) >> self.scale) as i64)
    }

    /// Returns the number of the row, which is below `2^number`.
    #[inline(always)]
    fn row(self, word: u32) -> usize {
        word as usize & ((1 << self.number) - 1)
    }
}

impl<L: Label> Scatter<L> {
    /// Writes the rows in `pieces` to `ts` and `labels`, sorted by time. Rows with equal times stay
    /// in the order of the pieces.
    ///
    /// Each piece must be sorted. `ts` and `labels` must have exactly one element per row.
    pub(super) fn merge(&mut self, pieces: &[(RowId, &[i64])], ts: &mut [i64], labels: &mut [L]) {
        let rows: usize = pieces.iter().map(|(_, times)| times.len()).sum();
        assert!(
            ts.len() == rows && labels.len() == rows,
            "a slab's output has one position for each of its {rows} rows"
        );
        assert!(rows <= MOST_ROWS, "a slab has at most {MOST_ROWS} rows, not {rows}");
        match pieces {
            [only] => return copy(*only, ts, labels),
            [one, other] => return merge_two(*one, *other, ts, labels),
            _ => {}
        }
        #[cfg(target_arch = "x86_64")]
        if avx512::is_supported() {
            // SAFETY: the processor has the features.
            unsafe { self.merge_avx512(pieces, ts, labels) };
            return;
        }
        #[cfg(target_arch = "x86_64")]
        if avx2::is_supported() {
            // SAFETY: as above.
            unsafe { self.merge_avx2(pieces, ts, labels) };
            return;
        }
        self.merge_by::<Portable>(pieces, ts, labels);
    }

    /// Runs [`merge_by`](Self::merge_by), compiled for AVX-512.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn merge_avx512(&mut self, pieces: &[(RowId, &[i64])], ts: &mut [i64], labels: &mut [L]) {
        self.merge_by::<Avx512>(pieces, ts, labels);
    }

    /// Runs [`merge_by`](Self::merge_by), compiled for AVX2.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    fn merge_avx2(&mut self, pieces: &[(RowId, &[i64])], ts: &mut [i64], labels: &mut [L]) {
        self.merge_by::<Avx2>(pieces, ts, labels);
    }

    #[inline(always)]
    fn merge_by<P: Passes>(
        &mut self,
        pieces: &[(RowId, &[i64])],
        ts: &mut [i64],
        labels: &mut [L],
    ) {
        let Some((low, high)) = ends(pieces) else { return };
        let layout = Layout::new(low, high, ts.len());
        self.write_words(layout, pieces, ts.len());
        let slot_bits = (ts.len() * P::SLOTS_PER_ROW).next_power_of_two().ilog2().max(1);
        self.count(slot_bits);
        let crowd = P::sum_before(&mut self.slots);
        self.scatter(slot_bits);
        match crowd {
            0..=1 => {}
            2..=CROWDED => P::settle(&mut self.sorted, ts.len(), crowd),
            _ => self.sorted[..ts.len()].sort_unstable(),
        }
        self.write_rows(layout, ts, labels);
    }

    /// 1. Writes each row's word and label.
    #[inline(always)]
    fn write_words(&mut self, layout: Layout, pieces: &[(RowId, &[i64])], rows: usize) {
        self.words.resize(rows, 0);
        // There is room for every number that fits into the layout's bits, so no number read from a
        // word is out of range.
        self.labels.resize(1 << layout.number, L::NONE);
        let mut at = 0;
        for (first, times) in pieces {
            let words = &mut self.words[at..at + times.len()];
            let labels = &mut self.labels[at..at + times.len()];
            for (row, ((word, label), &ts)) in words.iter_mut().zip(labels).zip(*times).enumerate()
            {
                *word = layout.word(ts, at + row);
                *label = L::of(*first, row);
            }
            at += times.len();
        }
        if layout.lost > 0 {
            self.times.clear();
            pieces.iter().for_each(|(_, times)| self.times.extend_from_slice(times));
            self.times.resize(1 << layout.number, 0);
        }
    }

    ///
    /// 2. Counts the rows in each of `2^slot_bits` slots.
    #[inline(always)]
    fn count(&mut self, slot_bits: u32) {
        self.slots.clear();
        self.slots.resize((1 << slot_bits).max(LANES), 0);
        for word in &self.words {
            let slot = (word >> (u32::BITS - slot_bits)) as usize;
            debug_assert!(slot < self.slots.len());
            // SAFETY: the upper `slot_bits` bits of a word are below `2^slot_bits`, which is the
            // number of slots.
            unsafe { *self.slots.get_unchecked_mut(slot) += 1 };
        }
    }

    ///
    /// 3. Writes each word to its slot's next position.
    #[inline(always)]
    fn scatter(&mut self, slot_bits: u32) {
        let rows = self.words.len();
        self.sorted.resize(rows + LANES, 0);
        self.sorted[rows..].fill(u32::MAX);
        for word in &self.words {
            // SAFETY: as in `count`.
            let next =
                unsafe { self.slots.get_unchecked_mut((word >> (u32::BITS - slot_bits)) as usize) };
            let place = usize::from(*next);
            *next += 1;
            debug_assert!(place < rows);
            // SAFETY: a slot begins at the end of the earlier slots, and is written once for each
            // word that was counted in it. So positions are below the number of rows.
            unsafe { *self.sorted.get_unchecked_mut(place) = *word };
        }
    }

    ///
    /// 4. Converts words to rows.
    #[inline(always)]
    fn write_rows(&mut self, layout: Layout, ts: &mut [i64], labels: &mut [L]) {
        if layout.lost == 0 {
            ts.iter_mut().zip(&self.sorted).for_each(|(ts, &word)| *ts = layout.ts(word));
        } else {
            let times = ts.iter_mut().zip(&self.sorted);
            times.for_each(|(ts, &word)| *ts = self.times[layout.row(word)]);
            put_right(layout, ts, &mut self.sorted);
        }
        self.write_labels(layout, labels);
    }

    /// This function is compiled separately, without wide instructions (see
    /// [`gather`](crate::memory::gather)).
    #[inline(never)]
    fn write_labels(&self, layout: Layout, labels: &mut [L]) {
        for (label, &word) in labels.iter_mut().zip(&self.sorted) {
            debug_assert!(layout.row(word) < self.labels.len());
            // SAFETY: there are as many labels as numbers that fit into a word's lower bits.
            *label = unsafe { *self.labels.get_unchecked(layout.row(word)) };
        }
    }
}

/// Writes the rows in a single piece.
fn copy<L: Label>((first, times): (RowId, &[i64]), ts: &mut [i64], labels: &mut [L]) {
    ts.copy_from_slice(times);
    labels.iter_mut().enumerate().for_each(|(row, label)| *label = L::of(first, row));
}

/// Merges two pieces from both ends at the same time, so that the processor can start a comparison
/// before the previous one has finished. No branch depends on a time.
fn merge_two<L: Label>(
    (first_a, a): (RowId, &[i64]),
    (first_b, b): (RowId, &[i64]),
    ts: &mut [i64],
    labels: &mut [L],
) {
    let ((mut i, mut i_end), (mut j, mut j_end)) = ((0, a.len()), (0, b.len()));
    let (mut at, mut end) = (0, ts.len());
    // Each step takes one row from each end, so neither piece runs out within these steps.
    while let steps @ 1.. = (i_end - i).min(j_end - j) / 2 {
        for _ in 0..steps {
            let is_b = b[j] < a[i];
            ts[at] = select_unpredictable(is_b, b[j], a[i]);
            labels[at] = select_unpredictable(is_b, L::of(first_b, j), L::of(first_a, i));
            (i, j, at) = (i + usize::from(!is_b), j + usize::from(is_b), at + 1);

            let is_a = b[j_end - 1] < a[i_end - 1];
            end -= 1;
            ts[end] = if is_a { a[i_end - 1] } else { b[j_end - 1] };
            labels[end] = if is_a { L::of(first_a, i_end - 1) } else { L::of(first_b, j_end - 1) };
            (i_end, j_end) = (i_end - usize::from(is_a), j_end - usize::from(!is_a));
        }
    }
    for (ts, label) in ts[at..end].iter_mut().zip(&mut labels[at..end]) {
        if i == i_end || (j < j_end && b[j] < a[i]) {
            (*ts, *label, j) = (b[j], L::of(first_b, j), j + 1);
        } else {
            (*ts, *label, i) = (a[i], L::of(first_a, i), i + 1);
        }
    }
}

/// Returns the smallest and largest times in sorted pieces. This function is compiled
/// separately, like `write_labels`.
#[inline(never)]
fn ends(pieces: &[(RowId, &[i64])]) -> Option<(i64, i64)> {
    let ends = pieces.iter().filter_map(|(_, times)| Some((*times.first()?, *times.last()?)));
    ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

/// Sorts rows that are nearly sorted by time. Words with equal times are already ordered by number
/// and stay in this order.
#[cold]
fn put_right(layout: Layout, ts: &mut [i64], words: &mut [u32]) {
    let mut moves = ts.len() * MOST_MOVES_PER_ROW;
    for at in 1..ts.len() {
        let (time, word) = (ts[at], words[at]);
        let mut to = at;
        while to > 0 && ts[to - 1] > time {
            (ts[to], words[to]) = (ts[to - 1], words[to - 1]);
            to -= 1;
        }
        (ts[to], words[to]) = (time, word);
        let Some(left) = moves.checked_sub(at - to) else { return sort(layout, ts, words) };
        moves = left;
    }
}

fn sort(layout: Layout, ts: &mut [i64], words: &mut [u32]) {
    let mut rows: Vec<_> = ts.iter().copied().zip(words.iter().copied()).collect();
    rows.sort_unstable_by_key(|&(time, word)| (time, layout.row(word)));
    for (at, (time, word)) in rows.into_iter().enumerate() {
        (ts[at], words[at]) = (time, word);
    }
}

/// The passes for any processor, including processors with NEON. NEON would process two or four
/// lanes at a time. That would hardly be faster than the methods used here: four slots are packed
/// into one number, and insertion sort is used on nearly sorted words.
struct Portable;

impl Passes for Portable {
    const SLOTS_PER_ROW: usize = 4;

    /// Sums four slots at a time, packed into one number.
    #[inline]
    fn sum_before(slots: &mut [u16]) -> u16 {
        const EACH: u64 = 0x0001_0001_0001_0001;
        let most = slots.iter().copied().max().unwrap_or(0);
        let mut before = 0u64;
        for slots in slots.chunks_exact_mut(4) {
            let counts = slots.iter().rev().fold(0, |counts, &slot| counts << 16 | u64::from(slot));
            let pairs = counts.wrapping_add(counts << 16);
            let sums = pairs.wrapping_add(pairs << 32);
            let befores = (sums << 16).wrapping_add(before.wrapping_mul(EACH));
            slots
                .iter_mut()
                .enumerate()
                .for_each(|(lane, slot)| *slot = (befores >> (16 * lane)) as u16);
            before += sums >> 48;
        }
        most
    }

    /// Uses insertion sort, which is fast when words are close to their final positions.
    #[inline]
    fn settle(words: &mut [u32], len: usize, _: u16) {
        for at in 1..len {
            let word = words[at];
            if word < words[at - 1] {
                let mut to = at;
                while to > 0 && words[to - 1] > word {
                    words[to] = words[to - 1];
                    to -= 1;
                }
                words[to] = word;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    type Merge<L> = fn(&mut Scatter<L>, &[(RowId, &[i64])], &mut [i64], &mut [L]);

    /// Returns the rows in a slab, merged by `merge`.
    fn merged<L: Label>(columns: &[Vec<i64>], merge: Merge<L>) -> Vec<(i64, L)> {
        let pieces: Vec<_> = columns
            .iter()
            .enumerate()
            .map(|(source, ts)| (RowId::new(source as u16, 7), ts.as_slice()))
            .collect();
        let rows = columns.iter().map(Vec::len).sum();
        let (mut ts, mut labels) = (vec![0; rows], vec![L::NONE; rows]);
        merge(&mut Scatter::default(), &pieces, &mut ts, &mut labels);
        ts.into_iter().zip(labels).collect()
    }

    fn sorted(columns: &[Vec<i64>]) -> Vec<(i64, RowId)> {
        let rows = columns.iter().enumerate().flat_map(|(source, ts)| {
            ts.iter()
                .enumerate()
                .map(move |(at, &ts)| (ts, RowId::new(source as u16, 7 + at as u64)))
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort();
        rows
    }

    fn times() -> impl Strategy<Value = i64> {
        prop_oneof![
            -5..5i64,
            0..100_000i64,
            (0..62u32).prop_map(|bits| 1 << bits),
            Just(i64::MIN),
            Just(i64::MAX),
            any::<i64>(),
        ]
    }

    /// Checks that all passes return the expected rows.
    fn check(columns: &[Vec<i64>], expected: &[(i64, RowId)]) -> Result<(), TestCaseError> {
        prop_assert_eq!(&merged(columns, Scatter::merge), expected);
        prop_assert_eq!(&merged(columns, Scatter::merge_by::<Portable>), expected);
        #[cfg(target_arch = "x86_64")]
        if avx2::is_supported() {
            prop_assert_eq!(&merged(columns, Scatter::merge_by::<Avx2>), expected);
        }
        Ok(())
    }

    fn sums_are_right<P: Passes>() {
        let counts: Vec<u16> = (0..4 * LANES as u16).map(|slot| slot * 31 % 17 * 30).collect();
        let mut slots = counts.clone();
        assert_eq!(P::sum_before(&mut slots), 480);
        let expected =
            counts.iter().scan(0, |sum, count| Some(std::mem::replace(sum, *sum + count)));
        assert!(expected.eq(slots));
    }

    #[test]
    fn each_slot_becomes_the_sum_before_it() {
        sums_are_right::<Portable>();
        #[cfg(target_arch = "x86_64")]
        if avx2::is_supported() {
            sums_are_right::<Avx2>();
        }
        #[cfg(target_arch = "x86_64")]
        if avx512::is_supported() {
            sums_are_right::<Avx512>();
        }
    }

    proptest! {
        #[test]
        fn oracle_a_slab_is_sorted(mut columns in prop::collection::vec(prop::collection::vec(times(), 0..200), 0..8)) {
            columns.iter_mut().for_each(|column| column.sort());
            let expected = sorted(&columns);
            check(&columns, &expected)?;
        }

        /// The times fit into a word. Rows are not sorted at the end, so every pass must be
        /// correct.
        #[test]
        fn oracle_a_slab_of_near_times_is_sorted(
            mut columns in vec(vec(0..1_000_000i64, 0..200), 1..8),
            shift in 0..20u32,
        ) {
            columns.iter_mut().flatten().for_each(|ts| *ts >>= shift);
            columns.iter_mut().for_each(|column| column.sort());
            let expected = sorted(&columns);
            check(&columns, &expected)?;
        }

        /// The times do not fit into a word, and they differ in the bits that are dropped.
        #[test]
        fn oracle_a_slab_of_distant_times_is_sorted(
            mut columns in prop::collection::vec(prop::collection::vec(-50..50i64, 0..200), 1..8),
        ) {
            columns.iter_mut().for_each(|column| column.sort());
            columns[0].insert(0, i64::MIN);
            let expected = sorted(&columns);
            check(&columns, &expected)?;
            let of_sources = expected.into_iter().map(|(ts, id)| (ts, id.source()));
            prop_assert_eq!(merged(&columns, Scatter::<u16>::merge), of_sources.collect::<Vec<_>>());
        }
    }
}
