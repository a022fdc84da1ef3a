//! Merges sorted runs: finds rows that are adjacent in the merged order, and then sorts these rows.
//!
//! A row of the longest run determines where all runs are cut. All rows before the cuts precede all
//! rows after them. The rows are first cut in two at the middle of the longest run. Each half is
//! then cut in the same way, and so on, until each stretch is small enough for one thread. Each
//! thread cuts slabs off the front of its stretch and [merges](Slabs) each slab. A slab fits in a
//! cache. To find a cut, the thread guesses a position and reads the times around it. These times
//! are needed soon anyway.
//!
//! ```text
//! run 0   1 4 | 4 7 9         cut before the second 4 of run 0: the equal time of a later run
//! run 1   2   | 4 8           is after it
//! ```

use std::cmp::Ordering;
use std::ops::Range;

use tidegate_structures::gate::{RowId, Slabs};
use tidegate_structures::memory::gather::prefetch;

use super::group::are_sorted;
use crate::driver::{Driver, Stopped};

/// The maximum number of runs that can be merged. With more runs, most rows in a slab would come
/// from different runs.
pub const MAX_RUNS: usize = 1 << 12;

/// The number of rows merged together.
const SLAB_ROWS: usize = 1 << 12;
/// The number of rows per run that are merged together if there are many runs.
const SLAB_ROWS_PER_RUN: usize = 1 << 4;

/// The maximum number of rows merged together, however inaccurate a guess is.
const MOST_SLAB_ROWS: usize = 1 << 15;

/// The number of time values read around a guess.
const AROUND: usize = 32;

/// Rows that are consecutive in the merged order of all runs, stored as one range per run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    ranges: Vec<Range<usize>>,
    rows: usize,
}

/// Divides the rows in sorted runs into consecutive stretches. The rows are ordered by time, then
/// by run, then by position. A stretch has at most `most` rows, or at most `runs.len()` rows if
/// that is more. Returns `None` if the times of any run are not sorted.
///
/// # Panics
///
/// Panics if there are more than [`MAX_RUNS`] runs.
pub fn stretches(
    runs: &[&[i64]],
    most: usize,
    driver: &Driver,
) -> Result<Option<Vec<Stretch>>, Stopped> {
    assert!(runs.len() <= MAX_RUNS, "there can be at most {MAX_RUNS} runs");
    if !are_sorted(runs, driver)? {
        return Ok(None);
    }
    let whole = Stretch::of(runs.iter().map(|run| 0..run.len()).collect());
    let mut all = Vec::new();
    whole.cut(runs, most, &mut |stretch| all.push(stretch.clone()));
    Ok(Some(all))
}

impl Stretch {
    fn of(ranges: Vec<Range<usize>>) -> Self {
        let rows = ranges.iter().map(ExactSizeIterator::len).sum();
        Stretch { ranges, rows }
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the range of rows in each run.
    pub fn ranges(&self) -> &[Range<usize>] {
        &self.ranges
    }

    /// Merges the rows. Calls `each` with the times and the runs of consecutive rows.
    pub fn merge(
        &self,
        runs: &[&[i64]],
        merger: &mut Merger,
        mut each: impl FnMut(&[i64], &[u16]),
    ) {
        let share = (SLAB_ROWS_PER_RUN * runs.len()).clamp(SLAB_ROWS, MOST_SLAB_ROWS / 2);
        let mut rest = self.clone();
        while rest.rows > 0 {
            let slab = rest.cut_off(runs, share);
            slab.announce_next(runs);
            slab.cut(runs, MOST_SLAB_ROWS, &mut |slab| {
                let pieces = slab.ranges.iter().zip(runs).enumerate();
                let pieces = pieces.filter(|(_, (range, _))| !range.is_empty());
                let pieces: Vec<_> = pieces
                    .map(|(run, (range, ts))| (RowId::new(run as u16, 0), &ts[range.clone()]))
                    .collect();
                merger.ts.resize(slab.rows, 0);
                merger.runs.resize(slab.rows, 0);
                merger.slabs.merge(&pieces, &mut merger.ts, &mut merger.runs);
                each(&merger.ts, &merger.runs);
            });
        }
    }

    /// For each run, prefetches as many of the times after this stretch as the stretch itself
    /// contains. A merge needs the next time from each run before it can determine which run is
    /// next.
    fn announce_next(&self, runs: &[&[i64]]) {
        const LINE: usize = 64 / size_of::<i64>();
        for (range, run) in self.ranges.iter().zip(runs) {
            let next = range.end..range.end + range.len();
            next.step_by(LINE).for_each(|row| prefetch(run, row));
        }
    }

    /// Removes about `share` rows from the front, or all rows if only a few more are left.
    fn cut_off(&mut self, runs: &[&[i64]], share: usize) -> Stretch {
        if self.rows <= share + share / 2 {
            return std::mem::replace(self, Stretch::of(Vec::new()));
        }
        let longest = self.longest();
        let of_longest = self.ranges[longest].len();
        let step = (of_longest as u128 * share as u128 / self.rows as u128).max(1) as usize;
        let [before, after] = self.cut_at(runs, longest, step, |run, times, limit| {
            let guess = (run.len() as u128 * step as u128 / of_longest as u128) as usize;
            near(times, guess, limit)
        });
        *self = after;
        before
    }

    /// Divides this stretch into stretches of at most `most` rows. Calls `each` for every such
    /// stretch, in order.
    fn cut(&self, runs: &[&[i64]], most: usize, each: &mut impl FnMut(&Stretch)) {
        // A stretch with one row per run is not divided further.
        if self.rows <= most.max(runs.len()) {
            if self.rows > 0 {
                each(self);
            }
            return;
        }
        let longest = self.longest();
        let middle = self.ranges[longest].len() / 2;
        let halves = self.cut_at(runs, longest, middle, |_, times, limit| {
            times.partition_point(|&time| time <= limit)
        });
        halves.iter().for_each(|half| half.cut(runs, most, each));
    }

    fn longest(&self) -> usize {
        (0..self.ranges.len()).max_by_key(|&run| self.ranges[run].len()).unwrap_or(0)
    }

    /// Cuts all runs at the row with position `at` in the range of run `by`. Returns the rows
    /// before the cuts and the rows after them. `search` returns how many times in a range do not
    /// exceed a given limit.
    fn cut_at(
        &self,
        runs: &[&[i64]],
        by: usize,
        at: usize,
        search: impl Fn(&Range<usize>, &[i64], i64) -> usize,
    ) -> [Stretch; 2] {
        let ts = runs[by][self.ranges[by].start + at];
        // Rows with equal times precede that row if they are from an earlier run, and follow it if
        // they are from a later run.
        let of_later = ts.checked_sub(1);
        let cut = |(run, range): (usize, &Range<usize>)| {
            let count = |limit| search(range, &runs[run][range.clone()], limit);
            range.start
                + match run.cmp(&by) {
                    Ordering::Less => count(ts),
                    Ordering::Equal => at,
                    Ordering::Greater => of_later.map_or(0, count),
                }
        };
        let cuts: Vec<usize> = self.ranges.iter().enumerate().map(cut).collect();
        let before = self.ranges.iter().zip(&cuts).map(|(range, &cut)| range.start..cut);
        let after = self.ranges.iter().zip(&cuts).map(|(range, &cut)| cut..range.end);
        [Stretch::of(before.collect()), Stretch::of(after.collect())]
    }
}

/// Returns how many times do not exceed `limit`. The search starts at `guess`.
fn near(times: &[i64], guess: usize, limit: i64) -> usize {
    let start = guess.saturating_sub(AROUND);
    let around = &times[start..times.len().min(guess + AROUND)];
    // There are no branches, so that many times are compared together.
    let found: usize = around.iter().map(|&time| usize::from(time <= limit)).sum();
    let is_first = found == 0 && start > 0;
    let is_last = found == around.len() && start + found < times.len();
    if is_first || is_last {
        return times.partition_point(|&time| time <= limit);
    }
    start + found
}

/// Memory for merging.
#[derive(Debug, Default)]
pub struct Merger {
    slabs: Slabs,
    ts: Vec<i64>,
    runs: Vec<u16>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidegate_sync::Stop;

    use super::*;

    fn merged(runs: &[&[i64]], most: usize) -> Option<Vec<(i64, u16)>> {
        let driver = Driver::new(2, Stop::default());
        let mut all = Vec::new();
        let mut merger = Merger::default();
        for stretch in stretches(runs, most, &driver).unwrap()? {
            assert!(stretch.rows() <= most.max(runs.len()));
            stretch.merge(runs, &mut merger, |ts, runs| {
                all.extend(ts.iter().copied().zip(runs.iter().copied()));
            });
        }
        Some(all)
    }

    proptest! {
        #[test]
        fn oracle_all_rows_sorted(
            mut runs in prop::collection::vec(prop::collection::vec(-40..40_i64, 0..300), 1..12),
            spread in 0..58_u32,
            most in 1..500_usize,
        ) {
            runs.iter_mut().for_each(|run| run.sort_unstable());
            runs.iter_mut().flatten().for_each(|ts| *ts <<= spread);
            let runs: Vec<&[i64]> = runs.iter().map(Vec::as_slice).collect();
            let rows = runs.iter().zip(0..).flat_map(|(run, number)| run.iter().map(move |&ts| (ts, number)));
            let mut expected: Vec<(i64, u16)> = rows.collect();
            expected.sort();
            prop_assert_eq!(merged(&runs, most), Some(expected));
        }
    }

    /// Checks the result of merging the runs of one stretch, slab by slab.
    fn check(runs: &[Vec<i64>]) {
        let runs: Vec<&[i64]> = runs.iter().map(Vec::as_slice).collect();
        let rows =
            runs.iter().zip(0..).flat_map(|(run, number)| run.iter().map(move |&ts| (ts, number)));
        let mut expected: Vec<(i64, u16)> = rows.collect();
        expected.sort();
        assert_eq!(merged(&runs, usize::MAX), Some(expected));
    }

    #[test]
    fn slabs_of_many_runs_are_merged() {
        let run = |run: i64| (0..97).map(|row| row * 31 + run % 7).collect();
        check(&(0..1_000).map(run).collect::<Vec<_>>());
    }

    #[test]
    fn slabs_are_merged_where_no_guess_is_near() {
        let rows = || 0..20_000_i64;
        // Times that accelerate and that slow down, together, and times that are all before or
        // after the others.
        check(&[
            rows().map(|row| row * row / 7_000).collect(),
            rows().map(|row| 60_000 - (20_000 - row).pow(2) / 7_000).collect(),
            rows().map(|_| 30_000).collect(),
            rows().map(|row| row / 10 - 9_000).collect(),
            rows().map(|row| row / 10 + 90_000).collect(),
            vec![5; 3],
        ]);
        // More rows with the same time than a slab can have.
        check(&[vec![7; 50_000], vec![7; 50_000], rows().collect()]);
    }

    #[test]
    fn any_guess_finds_as_many() {
        let times: Vec<i64> = (0..200).map(|row| row / 3).collect();
        for limit in -2..70 {
            let expected = times.partition_point(|&time| time <= limit);
            for guess in 0..=times.len() {
                assert_eq!(near(&times, guess, limit), expected, "{guess} for {limit}");
            }
        }
        assert_eq!(near(&[], 0, 3), 0);
    }

    #[test]
    fn a_run_whose_times_fall_is_refused() {
        assert_eq!(merged(&[&[1, 2], &[3, 2]], 10), None);
        assert_eq!(merged(&[], 10), Some(vec![]));
        assert_eq!(merged(&[&[], &[]], 10), Some(vec![]));
    }
}
