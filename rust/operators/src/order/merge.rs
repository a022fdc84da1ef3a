//! Sorted runs as one: which rows come next to each other, and in what order.
//!
//! All runs are cut where a row of the longest run is, or would be: so all rows before the cuts
//! come before all rows behind them. First the rows are cut in two at the middle of the longest
//! run, each half again, and so on, into stretches that threads take. A thread then cuts slabs that
//! fit a cache off the front of its stretch, and [merges](Slabs) each. It guesses where a run is
//! cut, and reads the times around the guess, which it needs soon anyway.
//!
//! ```text
//! run 0   1 4 | 4 7 9         cut before the second 4 of run 0: the equal time of a later run
//! run 1   2   | 4 8           comes after it
//! ```

use std::cmp::Ordering;
use std::ops::Range;

use tidegate_structures::gate::{RowId, Slabs};
use tidegate_structures::memory::gather::prefetch;

use super::group::are_sorted;
use crate::driver::{Driver, Stopped};

/// The most runs that are merged: with more of them, most rows of a slab are of another run each.
pub const MAX_RUNS: usize = 1 << 12;

/// Rows that are merged at once, and a run's share of them where there are many runs.
const SLAB_ROWS: usize = 1 << 12;
const SLAB_ROWS_PER_RUN: usize = 1 << 4;

/// The most rows that are merged at once, whatever is guessed.
const MOST_SLAB_ROWS: usize = 1 << 15;

/// Times that are read around a guess.
const AROUND: usize = 32;

/// Rows that follow each other in the order of all runs: a range of each run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    ranges: Vec<Range<usize>>,
    rows: usize,
}

/// Cuts the rows of sorted runs into stretches, one after the other in the order by time, then by
/// run, then by row. A stretch has at most `most` rows, or as many as there are runs. The answer is
/// `None` if the times of a run fall somewhere.
///
/// # Panics
///
/// When there are more than [`MAX_RUNS`].
pub fn stretches(
    runs: &[&[i64]],
    most: usize,
    driver: &Driver,
) -> Result<Option<Vec<Stretch>>, Stopped> {
    assert!(runs.len() <= MAX_RUNS, "at most {MAX_RUNS} runs");
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

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Which rows of each run.
    pub fn ranges(&self) -> &[Range<usize>] {
        &self.ranges
    }

    /// Merges the rows. Calls `each` with the times and the runs of rows that follow each other.
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

    /// Asks for the times that follow: as many of each run as this has, since a merge needs a time
    /// before it knows which one is next.
    fn announce_next(&self, runs: &[&[i64]]) {
        const LINE: usize = 64 / size_of::<i64>();
        for (range, run) in self.ranges.iter().zip(runs) {
            let next = range.end..range.end + range.len();
            next.step_by(LINE).for_each(|row| prefetch(run, row));
        }
    }

    /// Takes about `share` of the rows off the front, or all if there are not many more.
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

    /// Calls `each` with stretches of at most `most` rows that make up this one, in order.
    fn cut(&self, runs: &[&[i64]], most: usize, each: &mut impl FnMut(&Stretch)) {
        // One row a run is no longer cut.
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

    /// Cuts the rows before the one that is `at` in the range of the run `by`. `search` says how
    /// many of the times of a range are at most a limit.
    fn cut_at(
        &self,
        runs: &[&[i64]],
        by: usize,
        at: usize,
        search: impl Fn(&Range<usize>, &[i64], i64) -> usize,
    ) -> [Stretch; 2] {
        let ts = runs[by][self.ranges[by].start + at];
        // Equal times of the runs before that one come before the row, and of the others after it.
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

/// How many of the times are at most `limit`: perhaps about `guess`.
fn near(times: &[i64], guess: usize, limit: i64) -> usize {
    let start = guess.saturating_sub(AROUND);
    let around = &times[start..times.len().min(guess + AROUND)];
    // Without branches, so that many are compared at once.
    let found: usize = around.iter().map(|&time| usize::from(time <= limit)).sum();
    let is_first = found == 0 && start > 0;
    let is_last = found == around.len() && start + found < times.len();
    if is_first || is_last {
        return times.partition_point(|&time| time <= limit);
    }
    start + found
}

/// Memory to merge in.
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

    /// Merges the runs in one stretch, so that slabs are cut off it.
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
        // Times that come ever faster and ever slower, at once, and all before or after the others.
        check(&[
            rows().map(|row| row * row / 7_000).collect(),
            rows().map(|row| 60_000 - (20_000 - row).pow(2) / 7_000).collect(),
            rows().map(|_| 30_000).collect(),
            rows().map(|row| row / 10 - 9_000).collect(),
            rows().map(|row| row / 10 + 90_000).collect(),
            vec![5; 3],
        ]);
        // As many rows of one time as no slab has.
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
