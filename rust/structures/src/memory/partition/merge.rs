//! Partitions rows in time order. The same pass determines where each left row's matches begin and
//! end in their bucket.
//!
//! ```text
//!   right rows in time order   ──●──●──┊──●──●──●──┊──●──●──▶
//!                                 left ┊ entered   ┊ not yet
//!   left row at ts                   early  ts    late
//! ```
//!
//! A right row *enters* once it is no longer too late for the current left row, and *leaves* once
//! it is too early for that left row. When a row enters, its number is written to the next free
//! position in its bucket. For a left row, the matches therefore end at the next free position in
//! the bucket of its key. The matches begin at the position of the bucket's first row that has not
//! left. Regardless of the number of buckets, each right time is read at most twice, and no search
//! is needed.
//!
//! Entering and leaving both merge left and right rows. The side of the next row is unpredictable,
//! so no branch depends on it. Both cases perform the same reads and writes, and a case without a
//! result writes to an unused location. A branch would be mispredicted for every other row, and the
//! merge would take more than twice as long.

use std::hint::{black_box, select_unpredictable};

use super::{Rows, Writer};
use crate::memory::pages::Slot;

/// Rows in time order.
#[derive(Clone, Copy, Debug)]
pub struct TimedRows<'a> {
    /// The times, which never decrease.
    pub ts: &'a [i64],
    /// One dense key per row, or [`NO_KEY`](super::NO_KEY).
    pub keys: &'a [u32],
}

/// Rows that leave their buckets.
#[derive(Debug)]
pub struct LeavingRows<'a> {
    /// The right rows that have not left yet.
    pub rows: TimedRows<'a>,
    /// The position of the first such row in each bucket, followed by the position where the rows
    /// without a key start.
    pub first: Vec<u32>,
    /// A right row is too early for a left row if `right_time - left_time <= early`.
    pub early: i64,
}

impl Writer<'_> {
    /// Writes the numbers of the part's rows, whose times are `ts`. Also finds the run of positions
    /// that each left row matches. This run contains the rows with the same key that have entered
    /// but not left. A right row is too late for a left row if `right_time - left_time > late`. A
    /// left row without a key receives an empty run.
    ///
    /// # Panics
    ///
    /// Panics if columns differ in length, if any column other than the number travels, if the keys
    /// are not themselves the buckets, if there is no bucket for rows without a key, or if the sum
    /// of a left time and a distance overflows 64 bits.
    pub fn merge(
        mut self,
        ts: &[i64],
        late: i64,
        leaving: LeavingRows<'_>,
        left: TimedRows<'_>,
        runs: &mut [Slot<[u32; 2]>],
    ) {
        let runs = Slot::values(runs);
        let Rows { keys, ts: None, numbers: None, first } = self.rows else {
            panic!("only numbers are moved")
        };
        let (None, Some(numbers)) = (self.places.keys, self.places.numbers) else {
            panic!("only numbers are moved")
        };
        assert!(self.buckets.first == 0 && self.buckets.shift == 0, "one bucket per key");
        assert!(left.ts.len() == runs.len(), "one run per left row");
        let (places, runs, mut left_by) = (self.places, runs.as_mut_ptr(), leaving.first);
        let mut leave = End::<0>::new(left, leaving.rows, leaving.early, &mut left_by, runs);
        let mut enter = End::<1>::new(left, TimedRows { ts, keys }, late, &mut self.next, runs);
        // This is opaque to the compiler, which would otherwise use a branch to skip these writes.
        let mut unused = 0;
        let nowhere = black_box(&raw mut unused);
        let enter_row = |enter: &mut End<'_, 1>| {
            let number = first + enter.right_row as u32;
            // SAFETY: the caller has checked `steps`.
            let (due, place) = unsafe { enter.step() };
            debug_assert!(!due || (place as usize) < places.total);
            let to = select_unpredictable(due, numbers.wrapping_add(place as usize), nowhere);
            // SAFETY: a row that is due has a place below `total` that belongs to this writer
            // alone, because `next` is incremented once for each row that was counted (P1).
            // `unused` is a local variable.
            unsafe { to.write(number) };
        };
        // Neither end waits for the other, so the processor works on both ends at the same time.
        loop {
            let steps = enter.steps().min(leave.steps());
            if steps == 0 {
                break;
            }
            for _ in 0..steps {
                // SAFETY: `steps` must not return 0.
                unsafe { leave.step() };
                enter_row(&mut enter);
            }
        }
        while leave.steps() > 0 {
            // SAFETY: `steps` was just checked.
            unsafe { leave.step() };
        }
        while enter.steps() > 0 {
            enter_row(&mut enter);
        }
        leave.finish();
        enter.finish();
        self.rows = self.rows.slice(enter.right_row..keys.len());
        self.run();
    }
}

/// One end of the runs. After all right rows before a left row's end have been processed, the end
/// is the next position in the left row's bucket.
struct End<'a, const AT: usize> {
    left: TimedRows<'a>,
    right: TimedRows<'a>,
    /// A right row is before the end of a left row's run if `right_time - left_time <= distance`.
    distance: i64,
    /// The next position in each bucket.
    next: &'a mut [u32],
    runs: *mut [u32; 2],
    left_row: usize,
    right_row: usize,
}

impl<'a, const AT: usize> End<'a, AT> {
    fn new(
        left: TimedRows<'a>,
        right: TimedRows<'a>,
        distance: i64,
        next: &'a mut Vec<u32>,
        runs: *mut [u32; 2],
    ) -> Self {
        assert!(
            left.ts.len() == left.keys.len() && right.ts.len() == right.keys.len(),
            "one time per key"
        );
        let mut extremes = left.ts.first().into_iter().chain(left.ts.last());
        assert!(extremes.all(|ts| ts.checked_add(distance).is_some()), "ends fit in 64 bits");
        assert!(!next.is_empty(), "there is a bucket for rows without a key");
        // There is one more bucket, for left rows without a key. It contains no right rows.
        next.push(0);
        End { left, right, distance, next, runs, left_row: 0, right_row: 0 }
    }

    /// Returns a number of steps that do not go beyond the end of either side.
    fn steps(&self) -> usize {
        (self.left.ts.len() - self.left_row).min(self.right.ts.len() - self.right_row)
    }

    /// Advances by one row. Returns whether the row was from the right side, and the next position
    /// in the row's bucket.
    ///
    /// # Safety
    ///
    /// `steps` must not return 0.
    #[inline(always)]
    unsafe fn step(&mut self) -> (bool, u32) {
        debug_assert!(self.steps() > 0);
        // SAFETY: there are a left and a right row, so there are times and keys of both, and a run.
        // The bucket is at most the last one.
        unsafe {
            let left_ts = *self.left.ts.get_unchecked(self.left_row);
            let is_right =
                *self.right.ts.get_unchecked(self.right_row) <= left_ts.wrapping_add(self.distance);
            let left_key = self.left.keys.get_unchecked(self.left_row);
            let key = *select_unpredictable(
                is_right,
                self.right.keys.get_unchecked(self.right_row),
                left_key,
            );
            let bucket = (key as usize).min(self.next.len() - 1 - usize::from(is_right));
            let next = self.next.get_unchecked_mut(bucket);
            let place = *next;
            *next += u32::from(is_right);
            // If a right row writes a value here, the left row overwrites that value later.
            (*self.runs.add(self.left_row))[AT] = place;
            self.left_row += usize::from(!is_right);
            self.right_row += usize::from(is_right);
            (is_right, place)
        }
    }

    /// Processes the remaining left rows when there are no more right rows.
    fn finish(&mut self) {
        debug_assert!(self.steps() == 0);
        for row in self.left_row..self.left.ts.len() {
            let bucket = (self.left.keys[row] as usize).min(self.next.len() - 1);
            // SAFETY: there are as many runs as left rows.
            unsafe { (*self.runs.add(row))[AT] = self.next[bucket] };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Buckets, NO_KEY, Part, Target, writers};
    use super::*;
    use proptest::prelude::*;

    const KEYS: u32 = 5;

    fn side() -> impl Strategy<Value = Vec<(i64, u32)>> {
        let row = (0_i64..30, prop_oneof![9 => 0..KEYS, 1 => Just(NO_KEY)]);
        prop::collection::vec(row, 1..60).prop_map(|mut rows| {
            rows.sort_by_key(|row| row.0);
            rows
        })
    }

    proptest! {
        #[test]
        fn oracle_every_pair(left in side(), right in side(), early in -20_i64..5, width in 0_i64..20, cut in 0_usize..60) {
            let late = early + width;
            // The rows before `cut` belong to another part. None of them is too late for the first
            // left row.
            let not_late = |row: &(i64, u32)| row.0 <= left[0].0 + late;
            let cut = cut.min(right.iter().filter(|row| not_late(row)).count());
            let (ts, keys): (Vec<i64>, Vec<u32>) = right.iter().copied().unzip();
            let (left_ts, left_keys): (Vec<i64>, Vec<u32>) = left.iter().copied().unzip();
            let rows = Rows { keys: &keys, ts: None, numbers: None, first: 0 };
            let buckets = Buckets { first: 0, shift: 0, count: KEYS as usize };
            let parts = [0..cut, cut..keys.len()].map(|range| Part::count(rows.slice(range), buckets));
            let mut numbers = vec![0; keys.len()];
            let mut writers = writers(parts.into(), Target { keys: None, ts: None, numbers: Some(Slot::of(&mut numbers)) }).1;
            let leaving = LeavingRows { rows: TimedRows { ts: &ts, keys: &keys }, first: writers[0].next().to_vec(), early };
            let mut runs = vec![[7; 2]; left.len()];
            let left_side = TimedRows { ts: &left_ts, keys: &left_keys };
            writers.remove(1).merge(&ts[cut..], late, leaving, left_side, Slot::of(&mut runs));
            writers.remove(0).run();
            for (&(ts, key), [start, end]) in left.iter().zip(runs) {
                let found: Vec<u32> = (start..end).map(|place| numbers[place as usize]).collect();
                let matches = |row: &u32| {
                    let (right_ts, right_key) = right[*row as usize];
                    key != NO_KEY && key == right_key && ts + early < right_ts && right_ts <= ts + late
                };
                let expected: Vec<u32> = (0..right.len() as u32).filter(matches).collect();
                prop_assert!(start <= end);
                prop_assert_eq!(found, expected);
            }
        }
    }
}
