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

/// Slots a row: more make fewer rows share one, and more counts to sum.
const SLOTS_PER_ROW: usize = 2;

/// Rows in a slot above which they are sorted by merging; below, by insertion.
const CROWDED: u32 = 16;

/// Memory for the passes.
#[derive(Debug, Default)]
pub(super) struct Scatter {
    /// Rows in each slot, then the slot's next place.
    slots: Vec<u32>,
    crowd: Vec<(i64, RowId)>,
}

impl Scatter {
    /// Writes the rows of `pieces` to `ts` and `ids`, sorted by time, then as they come.
    ///
    /// A piece is sorted; `ts` and `ids` have room for exactly all rows.
    pub(super) fn merge(&mut self, pieces: &[(RowId, &[i64])], ts: &mut [i64], ids: &mut [RowId]) {
        let rows: usize = pieces.iter().map(|(_, times)| times.len()).sum();
        assert!(ts.len() == rows && ids.len() == rows, "a slab's output has a place for each of its {rows} rows");
        let ends = pieces.iter().filter_map(|(_, times)| Some((*times.first()?, *times.last()?)));
        let Some((low, high)) = ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) else { return };

        let range = high.wrapping_sub(low) as u64;
        let most = (rows * SLOTS_PER_ROW).next_power_of_two();
        let shift = (u64::BITS - range.leading_zeros()).saturating_sub(most.trailing_zeros());
        let slot = |ts: i64| (ts.wrapping_sub(low) as u64 >> shift) as usize;

        // 1. Rows in each slot.
        let crowded = self.count(pieces, slot, slot(high) + 1);
        // 2. The first place of each slot.
        let mut place = 0;
        for slot in &mut self.slots {
            place += std::mem::replace(slot, place);
        }
        // 3. Each row to its slot's next place.
        for (first, times) in pieces {
            let mut id = *first;
            for &time in *times {
                // SAFETY: pass 1 indexed the same slot of the same slice, checked.
                let next = unsafe { self.slots.get_unchecked_mut(slot(time)) };
                let place = *next as usize;
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
        self.slots.resize(slots, 0);
        let mut most = 0;
        for (_, times) in pieces {
            for &time in *times {
                let count = &mut self.slots[slot(time)];
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
        for end in self.slots.iter().map(|&end| end as usize) {
            let (ts, ids) = (&mut ts[begin..end], &mut ids[begin..end]);
            begin = end;
            if ts.len() <= CROWDED as usize {
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

    proptest! {
        #[test]
        fn oracle_a_slab_is_sorted(mut columns in prop::collection::vec(prop::collection::vec(times(), 0..200), 0..8)) {
            columns.iter_mut().for_each(|column| column.sort());
            prop_assert_eq!(merged(&columns), sorted(&columns));
        }
    }
}
