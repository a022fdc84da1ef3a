//! Finds the matches of new rows in the indexes.

use std::ops::Range;

use tidegate_structures::index::{Probe, WindowIndex};
use tidegate_structures::simd::wide::{Work, wide};

use super::epoch::Epoch;
use super::rows::{Rows, SIDES};
use crate::driver::Driver;
use crate::matches::{SHORT, sort_short};
use crate::rows::{Filter, FilterError, JoinError, Side};

/// The initial and maximum numbers of rows per search for matches. The initial number is used while
/// the number of matches is unknown.
const FIRST_ROWS: usize = if cfg!(test) { 3 } else { 16 };
const MOST_ROWS: usize = if cfg!(test) { 8 } else { 2048 };

/// The approximate number of matches that are found together. This many matches fit in a core's
/// cache.
const MATCHES: usize = 1 << 14;

/// Once a piece has this many matches, its search is interrupted. The remaining rows are processed
/// later.
pub const MOST_MATCHES: usize = if cfg!(test) { 20 } else { 1 << 18 };

/// The minimum number of rows for which waking a thread is worthwhile.
pub const PIECE: usize = if cfg!(test) { 7 } else { 1 << 11 };

/// Finds the matches of an epoch's rows, using the indexed column.
pub trait Find: Send + Sync {
    /// Begins an epoch with these rows. All rows in the previous epoch must have been processed.
    fn begin(&mut self, rows: &Rows);

    /// Returns the matches of the epoch's rows from `next` onwards. If the rows have many matches,
    /// or if the driver is asked to pause, the result covers only some of the rows.
    fn find(
        &mut self,
        rows: &Rows,
        next: usize,
        driver: &Driver,
        filter: Option<&Filter<'_>>,
    ) -> Result<Vec<RowMatches>, JoinError>;

    /// Rebuilds the index of a side from the rows in its window. The epoch must have been processed
    /// completely.
    fn refill(&mut self, rows: &Rows, side: usize);

    /// Records that the rows on a side before `first` are no longer searched for. If `is_all` is
    /// `true`, the side has no other rows.
    fn expire(&mut self, rows: &Rows, side: usize, first: u64, is_all: bool);

    /// Returns how many times new rows have been merged with existing rows.
    fn merges(&self) -> u64;

    /// Returns the amount of memory in use, in bytes.
    fn memory(&self) -> usize;
}

impl<F: Find + ?Sized> Find for Box<F> {
    fn begin(&mut self, rows: &Rows) {
        (**self).begin(rows);
    }

    fn find(
        &mut self,
        rows: &Rows,
        next: usize,
        driver: &Driver,
        filter: Option<&Filter<'_>>,
    ) -> Result<Vec<RowMatches>, JoinError> {
        (**self).find(rows, next, driver, filter)
    }

    fn refill(&mut self, rows: &Rows, side: usize) {
        (**self).refill(rows, side);
    }

    fn expire(&mut self, rows: &Rows, side: usize, first: u64, is_all: bool) {
        (**self).expire(rows, side, first, is_all);
    }

    fn merges(&self) -> u64 {
        (**self).merges()
    }

    fn memory(&self) -> usize {
        (**self).memory()
    }
}

/// The matches of a range of the epoch's rows.
#[derive(Debug, Default)]
pub struct RowMatches {
    /// The rows that the search covered.
    pub rows: Range<usize>,
    /// The low bits of the numbers of each row's matches.
    pub numbers: Vec<u32>,
    /// The end of each row's matches.
    pub ends: Vec<u32>,
    /// The number of candidates returned by the index to each thread. Trailing threads that
    /// received no candidates are omitted.
    pub comparisons: Vec<u64>,
}

impl RowMatches {
    /// Adds to the number of candidates returned to `thread`.
    #[inline]
    pub fn compare(&mut self, thread: usize, candidates: u64) {
        if self.comparisons.len() <= thread {
            self.comparisons.resize(thread + 1, 0);
        }
        self.comparisons[thread] += candidates;
    }

    /// Returns the matches of each given row.
    pub fn matches(&self, rows: Range<usize>) -> impl Iterator<Item = (usize, &[u32])> {
        let skipped = rows.start - self.rows.start;
        let begin = skipped.checked_sub(1).map_or(0, |before| self.ends[before]);
        rows.zip(&self.ends[skipped..]).scan(begin as usize, |begin, (row, &end)| {
            let matches = &self.numbers[std::mem::replace(begin, end as usize)..end as usize];
            Some((row, matches))
        })
    }
}

/// The candidates for a group of rows on one side. One search finds the matches for all rows in the
/// group.
#[derive(Debug, Default)]
struct SideCandidates {
    numbers: Vec<u32>,
    /// The end of each row's candidates.
    ends: Vec<u32>,
}

impl SideCandidates {
    /// Looks up the candidates in an index.
    fn find(&mut self, index: &impl WindowIndex, probes: &[Probe]) {
        self.numbers.clear();
        self.ends.clear();
        index.find_all(probes, &mut self.numbers, &mut self.ends);
    }

    /// Keeps the candidates that `agrees` accepts. `agrees` receives the position of
    /// the row and the candidate.
    fn retain(&mut self, agrees: impl Fn(usize, u32) -> bool) {
        let (mut at, mut kept) = (0, 0);
        for (nth, end) in self.ends.iter_mut().enumerate() {
            while at < *end as usize {
                let number = self.numbers[at];
                self.numbers[kept] = number;
                kept += usize::from(agrees(nth, number));
                at += 1;
            }
            *end = kept as u32;
        }
        self.numbers.truncate(kept);
    }
}

impl Rows {
    /// Finds the matches for the epoch's rows. Stops early once there are enough matches to process
    /// together or a pause is requested. `thread` is the number of the calling thread.
    pub(super) fn look(
        &self,
        indexes: &[impl WindowIndex],
        rows: Range<usize>,
        filter: Option<&Filter<'_>>,
        driver: &Driver,
        thread: usize,
    ) -> Result<RowMatches, FilterError> {
        let mut found = RowMatches { rows: rows.start..rows.start, ..RowMatches::default() };
        found.ends.reserve(rows.len());
        let mut together = FIRST_ROWS;
        let mut candidates = [SideCandidates::default(), SideCandidates::default()];
        while found.rows.end < rows.end && found.numbers.len() < MOST_MATCHES && !driver.is_paused()
        {
            let some = found.rows.end..rows.end.min(found.rows.end + together);
            found.rows.end = some.end;
            let before = found.numbers.len();
            // 1. The rows on each side probe the other side's index together, and the other bands
            //    are checked.
            let (from, to) = (self.epoch.before(some.start), self.epoch.before(some.end));
            let mut compared = 0;
            for (side, candidates) in SIDES.into_iter().zip(&mut candidates) {
                let ranks = from[side as usize]..to[side as usize];
                candidates.find(&indexes[self.other(side)], self.epoch.probes(side, ranks.clone()));
                compared += candidates.numbers.len();
                if self.epoch.has_further() {
                    candidates.retain(|nth, other| self.agrees(side, ranks.start + nth, other));
                }
            }
            found.compare(thread, compared as u64);
            // 2. The remaining candidates are sorted.
            let (epoch, ordered) = (&self.epoch, self.ordered);
            wide(Merge {
                epoch,
                rows: some.clone(),
                candidates: &mut candidates,
                ordered,
                found: &mut found,
            });
            // 3. The condition is then applied to the candidates.
            if let Some(filter) = filter {
                found.filter(&self.epoch, before, some.clone(), filter)?;
            }
            let matches = (compared / some.len()).max(1);
            together = (2 * together).min(MATCHES / matches).clamp(1, MOST_ROWS);
        }
        Ok(found)
    }

    /// Sorts the candidates of rows, and drops the candidates that do not satisfy all other bands
    /// and the condition.
    pub fn refine(
        &self,
        candidates: RowMatches,
        filter: Option<&Filter<'_>>,
    ) -> Result<RowMatches, FilterError> {
        let mut found = RowMatches {
            rows: candidates.rows.clone(),
            comparisons: candidates.comparisons.clone(),
            ..RowMatches::default()
        };
        for (row, numbers) in candidates.matches(candidates.rows.clone()) {
            let (side, rank) = (self.epoch.sides[row], self.epoch.rank(row));
            let from = found.numbers.len();
            found
                .numbers
                .extend(numbers.iter().copied().filter(|&other| self.agrees(side, rank, other)));
            if self.ordered {
                sort(&mut found.numbers[from..], self.epoch.probe(row).from);
            }
            found.ends.push(found.numbers.len() as u32);
        }
        if let Some(filter) = filter {
            found.filter(&self.epoch, 0, candidates.rows, filter)?;
        }
        Ok(found)
    }

    /// Returns whether a row in the epoch and an earlier row satisfy the bands of all unindexed
    /// columns.
    #[inline]
    fn agrees(&self, side: Side, rank: usize, other: u32) -> bool {
        let log = &self.logs[self.other(side)];
        let mut further = self.epoch.further(side, rank).zip(1..);
        further.all(|((low, high), column)| (low..=high).contains(&log.code(column, other)))
    }
}

/// Appends the candidates of both sides' rows, in row order. If requested, the candidates of each
/// row are sorted in arrival order.
struct Merge<'a> {
    epoch: &'a Epoch,
    rows: Range<usize>,
    candidates: &'a mut [SideCandidates; 2],
    ordered: bool,
    found: &'a mut RowMatches,
}

impl Work for Merge<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Merge { epoch, rows, candidates, ordered, found } = self;
        let mut at = found.numbers.len();
        let all = candidates.iter().map(|candidates| candidates.numbers.len()).sum::<usize>();
        // Entries after a row's candidates are read and written too, because the number of
        // candidates is unpredictable.
        found.numbers.resize(at + all + SHORT, 0);
        candidates.iter_mut().for_each(|candidates| candidates.numbers.extend([0; SHORT]));
        let (mut next, mut begin) = ([0; 2], [0; 2]);
        for row in rows {
            let side = epoch.sides[row] as usize;
            let SideCandidates { numbers, ends } = &candidates[side];
            let (from, end) = (begin[side], ends[next[side]] as usize);
            let (count, first) = (end - from, epoch.probe(row).from);
            if count <= SHORT {
                let mut ages: [u32; SHORT] =
                    numbers[from..from + SHORT].try_into().expect("there are SHORT numbers");
                if ordered {
                    ages = ages.map(|number| number.wrapping_sub(first));
                    sort_short(&mut ages, count);
                    ages = ages.map(|age| age.wrapping_add(first));
                }
                found.numbers[at..at + SHORT].copy_from_slice(&ages);
            } else {
                let out = &mut found.numbers[at..at + count];
                out.copy_from_slice(&numbers[from..end]);
                if ordered {
                    sort(out, first);
                }
            }
            at += count;
            found.ends.push(at as u32);
            (next[side], begin[side]) = (next[side] + 1, end);
        }
        found.numbers.truncate(at);
    }
}

/// Sorts a row's matches in arrival order. `first` is the oldest row that can be among the matches.
fn sort(numbers: &mut [u32], first: u32) {
    numbers.sort_unstable_by_key(|number| number.wrapping_sub(first));
}

impl RowMatches {
    /// From the last rows' matches, removes those that the condition rejects.
    fn filter(
        &mut self,
        epoch: &Epoch,
        first: usize,
        rows: Range<usize>,
        filter: &Filter<'_>,
    ) -> Result<(), FilterError> {
        // 1. Build complete pairs.
        let (mut left, mut right) = (Vec::new(), Vec::new());
        for (row, earlier) in self.matches(rows.clone()) {
            let later = std::iter::repeat_n(epoch.number(row), earlier.len());
            match epoch.sides[row] {
                Side::Left => {
                    left.extend(later);
                    right.extend_from_slice(earlier);
                }
                Side::Right => {
                    left.extend_from_slice(earlier);
                    right.extend(later);
                }
            }
        }
        // 2. Determine which of them are kept.
        let mut keep = Vec::with_capacity(left.len());
        for (left, right) in left.chunks(MATCHES).zip(right.chunks(MATCHES)) {
            keep.extend(filter(left, right)?);
        }
        // 3. Remove the others.
        let (mut at, mut kept) = (first, first);
        for end in &mut self.ends[rows.start - self.rows.start..] {
            while at < *end as usize {
                self.numbers[kept] = self.numbers[at];
                kept += usize::from(keep[at - first]);
                at += 1;
            }
            *end = kept as u32;
        }
        self.numbers.truncate(kept);
        Ok(())
    }
}
