//! Sorting a slab of sorted pieces by putting each row where it belongs.
//!
//! A slab's rows are few and close in time. Their event times, less the smallest, shifted right until
//! they number about as many as the rows, are slots; a slot's rows are counted, the counts summed to
//! places, and each row written to its slot's next place: three straight passes, no comparison.
//! As pieces come in order of source and position, rows of equal time keep that order. Rows of
//! unequal time that share a slot may stand in the wrong order; a last pass puts those right.
//!
//! ```text
//! source 0:  3 7 9     slot   0   1   2   3      places   0   2   3   4
//! source 1:  4 8       rows  3,4  -  7,8  9      result   3 4 7 8 9
//! ```
//!
//! # Trade-offs
//!
//! Rows crowded into few slots, as of times that grow exponentially, make the last pass sort them in
//! earnest, at the cost of a merge.

use crate::gate::key::RowId;

/// Slots a row: more make fewer rows share one, and more counts to sum. With 1, 2 and 4 the benchmark
/// merged 92, 166 and 176 M rows/s at k = 20.
const SLOTS_PER_ROW: usize = 4;

/// Rows in a slot above which they are sorted by merging; below, by insertion.
const CROWDED: u16 = 16;

/// Rows that a slab may have, so that a place fits in a slot.
pub(super) const MOST_ROWS: usize = u16::MAX as usize;

/// Slots in a word.
const LANES: usize = size_of::<u64>() / size_of::<u16>();

/// Memory for the passes.
#[derive(Debug, Default)]
pub(super) struct Scatter {
    /// Rows in each slot, then the slot's next place: a `u16` each, four in a word.
    slots: Vec<u64>,
    crowd: Vec<(i64, RowId)>,
}

impl Scatter {
    /// Writes the rows of `pieces` to `ts` and `ids`, sorted by time, then as they come.
    ///
    /// A piece is sorted; `ts` and `ids` have room for exactly all rows.
    pub(super) fn merge(&mut self, pieces: &[(RowId, &[i64])], ts: &mut [i64], ids: &mut [RowId]) {
        let rows: usize = pieces.iter().map(|(_, times)| times.len()).sum();
        assert!(ts.len() == rows && ids.len() == rows, "a slab's output has a place for each of its {rows} rows");
        assert!(rows <= MOST_ROWS, "a slab has at most {MOST_ROWS} rows, not {rows}");
        let ends = pieces.iter().filter_map(|(_, times)| Some((*times.first()?, *times.last()?)));
        let Some((low, high)) = ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) else { return };

        let range = high.wrapping_sub(low) as u64;
        let most = (rows * SLOTS_PER_ROW).next_power_of_two();
        let shift = (u64::BITS - range.leading_zeros()).saturating_sub(most.trailing_zeros());
        let slot = |ts: i64| (ts.wrapping_sub(low) as u64 >> shift) as usize;

        // 1. Rows in each slot.
        let crowded = self.count(pieces, slot, slot(high) + 1);
        // 2. The first place of each slot.
        sum_before(&mut self.slots);
        let slots: &mut [u16] = bytemuck::cast_slice_mut(&mut self.slots);
        // 3. Each row to its slot's next place.
        for (first, times) in pieces {
            let mut id = *first;
            for &time in *times {
                // SAFETY: pass 1 indexed the same slot of the same slice, checked.
                let next = unsafe { slots.get_unchecked_mut(slot(time)) };
                let place = usize::from(*next);
                *next += 1;
                debug_assert!(place < rows);
                // SAFETY: slots begin where the rows of the earlier ones end and are written once for
                // each row counted, so places are below the number of rows, which both slices have.
                unsafe {
                    *ts.get_unchecked_mut(place) = time;
                    *ids.get_unchecked_mut(place) = id;
                }
                id = RowId::from_bits(id.to_bits() + 1);
            }
        }
        // 4. Rows that share a slot, by time. When nothing was shifted out a slot has one time.
        match (shift, crowded) {
            (0, _) => {}
            (_, false) => insertion_sort(ts, ids),
            (_, true) => self.sort_slots(ts, ids),
        }
    }

    /// Counts the rows of each of `slots` slots; whether one has many.
    #[inline]
    fn count(&mut self, pieces: &[(RowId, &[i64])], slot: impl Fn(i64) -> usize, slots: usize) -> bool {
        self.slots.clear();
        self.slots.resize(slots.div_ceil(LANES), 0);
        let slots: &mut [u16] = bytemuck::cast_slice_mut(&mut self.slots);
        let mut most = 0;
        for (_, times) in pieces {
            for &time in *times {
                let count = &mut slots[slot(time)];
                *count += 1;
                most = most.max(*count);
            }
        }
        most > CROWDED
    }

    /// Sorts each slot by itself; `slots` has where each ends.
    #[cold]
    fn sort_slots(&mut self, ts: &mut [i64], ids: &mut [RowId]) {
        let mut begin = 0;
        for end in bytemuck::cast_slice(&self.slots).iter().map(|&end: &u16| usize::from(end)) {
            let (ts, ids) = (&mut ts[begin..end], &mut ids[begin..end]);
            begin = end;
            if ts.len() <= usize::from(CROWDED) {
                insertion_sort(ts, ids);
                continue;
            }
            self.crowd.clear();
            self.crowd.extend(ts.iter().copied().zip(ids.iter().copied()));
            // The slot holds a sorted run of each source, which the standard library's sort merges.
            self.crowd.sort();
            for (at, &(time, id)) in self.crowd.iter().enumerate() {
                (ts[at], ids[at]) = (time, id);
            }
        }
    }
}

/// Replaces each `u16` of `words` by the sum of those before it, four at a time; no sum overflows.
#[inline]
fn sum_before(words: &mut [u64]) {
    const EACH: u64 = 0x0001_0001_0001_0001;
    let mut before = 0u64;
    for word in words {
        // Little-endian, so that a shift to the left moves a count to a later slot.
        let counts = u64::from_le(*word);
        let pairs = counts.wrapping_add(counts << 16);
        let sums = pairs.wrapping_add(pairs << 32);
        *word = ((sums << 16).wrapping_add(before.wrapping_mul(EACH))).to_le();
        before += sums >> 48;
    }
}

/// Sorts rows that stand close to their places by time, keeping the order of equals.
#[inline]
fn insertion_sort(ts: &mut [i64], ids: &mut [RowId]) {
    let mut before = i64::MIN;
    for at in 0..ts.len() {
        let time = ts[at];
        if time < before {
            let id = ids[at];
            let mut to = at;
            while to > 0 && ts[to - 1] > time {
                (ts[to], ids[to]) = (ts[to - 1], ids[to - 1]);
                to -= 1;
            }
            (ts[to], ids[to]) = (time, id);
        } else {
            before = time;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn merged(columns: &[Vec<i64>]) -> Vec<(i64, RowId)> {
        let pieces: Vec<_> =
            columns.iter().enumerate().map(|(source, ts)| (RowId::new(source as u16, 7), ts.as_slice())).collect();
        let rows = columns.iter().map(Vec::len).sum();
        let (mut ts, mut ids) = (vec![0; rows], vec![RowId::new(0, 0); rows]);
        Scatter::default().merge(&pieces, &mut ts, &mut ids);
        ts.into_iter().zip(ids).collect()
    }

    fn sorted(columns: &[Vec<i64>]) -> Vec<(i64, RowId)> {
        let rows = columns.iter().enumerate().flat_map(|(source, ts)| {
            ts.iter().enumerate().map(move |(at, &ts)| (ts, RowId::new(source as u16, 7 + at as u64)))
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

    #[test]
    fn each_slot_becomes_the_sum_before_it() {
        let counts: Vec<u16> = (0..64).map(|slot| slot * 31 % 17 * 60).collect();
        let mut words: Vec<u64> =
            counts.chunks(LANES).map(|lanes| bytemuck::pod_read_unaligned(bytemuck::cast_slice(lanes))).collect();
        sum_before(&mut words);
        let sums: &[u16] = bytemuck::cast_slice(&words);
        let expected = counts.iter().scan(0, |sum, count| Some(std::mem::replace(sum, *sum + count)));
        assert!(expected.eq(sums.iter().copied()));
    }

    proptest! {
        #[test]
        fn oracle_a_slab_is_sorted(mut columns in prop::collection::vec(prop::collection::vec(times(), 0..200), 0..8)) {
            columns.iter_mut().for_each(|column| column.sort());
            prop_assert_eq!(merged(&columns), sorted(&columns));
        }
    }
}
