//! The matches found by a join, and the rows of its result.
//!
//! For every left row, a join finds a *run* of adjacent rows in an array of right rows. The
//! remaining steps are the same for all joins:
//!
//! 1. *Narrow* ([`Matches::narrow`]): if a band join has several columns, each run is replaced with
//!    a run that contains only matching rows. *Filter* ([`Matches::scan`], [`Matches::filter`]): if
//!    there is a predicate, the predicate narrows the runs in the same way. A scan tests
//!    comparisons and bands. The rest of the predicate is evaluated on the remaining pairs.
//! 2. *Output* ([`Output`]): result rows are numbered based on the run lengths, and any range of
//!    result rows can be listed independently. Work is divided by ranges of result rows, so every
//!    thread is busy even if all matches belong to a single left row.
//!
//! # Files
//!
//! | file | what is in it |
//! | --- | --- |
//! | `narrow.rs` | checks runs against further columns |
//! | `scan.rs` | scans for a condition |
//! | `listed.rs` | creates matches from pairs in any order |
//! | `pieces.rs` | creates matches from lists, one per left row |
//! | `output.rs` | numbers and lists result rows |

mod listed;
mod narrow;
mod output;
mod pieces;
mod scan;

use std::ops::Range;
use std::sync::Arc;

pub use tidegate_structures::memory::bits::BitSet;
use tidegate_structures::memory::pages::{Pages, Slot};

use crate::driver::{Driver, Stopped};
use crate::rows::{How, NO_ROW};
pub use narrow::Check;
pub use output::{Output, Pairs};
pub(crate) use output::{SHORT, sort_short};
pub(crate) use pieces::{RowLists, cut};

/// The maximum number of rows per side. Row numbers have 32 bits, and the largest 32-bit number is
/// reserved for [`NO_ROW`].
pub const MAX_ROWS: usize = u32::MAX as usize;

/// One left row's matches: a run of adjacent rows in [`Matches::rows`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Run {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl From<[u32; 2]> for Run {
    #[inline(always)]
    fn from([start, end]: [u32; 2]) -> Self {
        Run { start, end }
    }
}

impl Run {
    #[inline]
    pub(crate) fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    /// Returns a run that consists of one right row.
    #[inline]
    pub(crate) fn of_partner(row: u32) -> Self {
        Run { start: row, end: row + 1 }
    }

    /// Returns the right row in a run with one row, or `None` for the empty default run.
    #[inline]
    pub(crate) fn partner(self) -> Option<u32> {
        self.end.checked_sub(1)
    }
}

/// The right rows that match each left row.
#[derive(Debug)]
pub struct Matches {
    /// For each left row, a run of positions in `rows`. Runs can overlap.
    runs: Pages<Run>,
    /// The number of the first left row.
    first_left: u32,
    /// The numbers of the right rows. `None` if positions are row numbers.
    rows: Option<Arc<Pages<u32>>>,
    /// `true` if the row numbers in each run are in ascending order.
    ascending: bool,
    right_rows: usize,
    /// `true` if each run contains one right row or is the default run.
    are_partners: bool,
}

/// A predicate over candidate pairs. The function receives the left row and the right row of each
/// pair, and determines which pairs to keep.
pub type Keep<'a, E> = dyn Fn(&[u32], &[u32]) -> Result<Vec<bool>, E> + Sync + 'a;

/// The number of pairs that a predicate receives at a time. That many pairs amortise the overhead
/// of kernels, but still fit in a cache. A column with that many 8-byte values stays below the size
/// at which allocators request memory from the operating system.
const CANDIDATES: usize = 1 << 13;

/// The number of left rows whose pair counts are added up together.
const PAGE_ROWS: usize = if cfg!(test) { 3 } else { 1 << 10 };

impl Matches {
    /// Creates the matches of all left rows. Each run contains positions in `rows`, or right row
    /// numbers if `rows` is `None`. Set `ascending` if the row numbers in each run are in ascending
    /// order.
    pub(crate) fn new(
        runs: Pages<Run>,
        rows: Option<Arc<Pages<u32>>>,
        ascending: bool,
        right_rows: usize,
    ) -> Self {
        let is_row = |row: &u32| (*row as usize) < right_rows;
        debug_assert!(
            rows.as_ref().is_none_or(|rows| rows.iter().all(is_row)),
            "every place has a right row"
        );
        Matches { runs, first_left: 0, rows, ascending, right_rows, are_partners: false }
    }

    /// Creates the matches of all left rows. Each left row has either a run with one right row or
    /// the default run.
    pub(crate) fn of_partners(runs: Pages<Run>, right_rows: usize) -> Self {
        let is_partner = |run: &Run| {
            run.partner().is_none_or(|row| run.len() == 1 && (row as usize) < right_rows)
        };
        debug_assert!(runs.iter().all(is_partner), "each run is a single partner or the default");
        Matches { are_partners: true, ..Self::new(runs, None, true, right_rows) }
    }

    /// Replaces the runs. Returns the previous runs and the updated matches.
    pub(crate) fn replace_runs(self, runs: Pages<Run>) -> (Pages<Run>, Self) {
        (self.runs, Matches { runs, are_partners: false, ..self })
    }

    /// Removes the runs, which [`with_runs`](Self::with_runs) puts back.
    pub(crate) fn take_runs(&mut self) -> Pages<Run> {
        debug_assert!(!self.are_partners, "any run");
        std::mem::take(&mut self.runs)
    }

    /// Returns the matches with these runs.
    pub(crate) fn with_runs(self, runs: Pages<Run>) -> Self {
        Matches { runs, ..self }
    }

    /// Returns matches with other runs of positions of the same right rows.
    pub(crate) fn with_same_rows(&self, runs: Pages<Run>) -> Self {
        let Matches { first_left, ref rows, ascending, right_rows, .. } = *self;
        Matches { runs, first_left, rows: rows.clone(), ascending, right_rows, are_partners: false }
    }

    /// Returns listed matches, marked as being in time order rather than in row order.
    pub(crate) fn in_time_order(self) -> Self {
        Matches { ascending: false, ..self }
    }

    /// Returns the right rows that match a left row, in the order of their positions.
    pub fn rows_of(&self, left: usize) -> impl ExactSizeIterator<Item = u32> {
        let run = self.runs[left];
        (run.start..run.end).map(|place| self.row(place))
    }

    /// Returns the right row that matches a left row, if there is one. No left row may have more
    /// than one match.
    #[inline]
    pub fn partner(&self, left: usize) -> Option<u32> {
        debug_assert!(self.are_partners, "at most one match for each left row");
        self.runs[left].partner()
    }

    /// Keeps only the pairs of a left and a right row for which `keep` returns `true`. No left row
    /// may have more than one match.
    pub fn keep_partners(&mut self, keep: impl Fn(usize, u32) -> bool) {
        assert!(self.are_partners, "at most one match for each left row");
        for (left, run) in self.runs.iter_mut().enumerate() {
            if run.partner().is_some_and(|row| !keep(left, row)) {
                *run = Run::default();
            }
        }
    }

    /// Returns the runs for modification.
    pub(crate) fn runs_mut(&mut self) -> &mut [Run] {
        debug_assert!(!self.are_partners, "any run");
        &mut self.runs
    }

    /// Returns the right rows that match each left row. The matches must be listed in row order.
    pub fn rows_of_each(&self) -> impl Iterator<Item = &[u32]> {
        let rows = self.rows().expect("the matches are listed");
        self.runs.iter().map(move |run| &rows[run.start as usize..run.end as usize])
    }

    /// Returns the right row that matches each left row, if any. No left row may have more than one
    /// match.
    ///
    /// # Panics
    ///
    /// Panics if the matches were created as runs.
    pub fn partners(&self) -> impl Iterator<Item = Option<u32>> {
        assert!(self.are_partners, "at most one match for each left row");
        self.runs.iter().map(|run| run.partner())
    }

    /// Returns the row number at each position, or `None` if positions are row numbers.
    pub(crate) fn rows(&self) -> Option<&[u32]> {
        self.rows.as_ref().map(|rows| &rows[..])
    }

    /// Returns the number of positions of right rows.
    pub fn places(&self) -> usize {
        self.rows.as_ref().map_or(self.right_rows, |rows| rows.len())
    }

    /// Creates matches without left rows.
    pub fn none() -> Self {
        Matches::new(Pages::default(), None, true, 0)
    }

    /// Returns the number of the first left row.
    pub fn first_left(&self) -> usize {
        self.first_left as usize
    }

    /// Returns the run of each left row.
    pub(crate) fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Returns the right row at a position.
    pub(crate) fn row(&self, place: u32) -> u32 {
        self.rows.as_ref().map_or(place, |rows| rows[place as usize])
    }

    /// Prepends a position to each left row's run. `before` contains this position, which must
    /// directly precede the run, or [`NO_ROW`] to leave the run unchanged.
    pub(crate) fn with_rows_before(mut self, before: &[u32]) -> Self {
        for (run, &place) in self.runs.iter_mut().zip(before) {
            if place != NO_ROW {
                let end = if run.len() == 0 { place + 1 } else { run.end };
                *run = Run { start: place, end };
            }
        }
        self
    }

    /// Returns the number of matches for a left row.
    pub fn count(&self, left: usize) -> usize {
        self.runs[left].len()
    }

    /// The number of left rows.
    pub fn left_rows(&self) -> usize {
        self.runs.len()
    }

    /// The number of right rows.
    pub fn right_rows(&self) -> usize {
        self.right_rows
    }

    /// Returns the longest range of left rows that begins at `start` and has at most `rows` rows
    /// and `most` pairs. If the first row alone has more pairs, returns only that row.
    pub fn page(&self, start: usize, rows: usize, most: u64) -> Range<usize> {
        let end = self.runs.len().min(start.saturating_add(rows));
        let (mut pairs, mut fitting) = (0, start);
        // Many rows are added together, without a branch per row.
        for some in self.runs[start..end].chunks(PAGE_ROWS) {
            let of_some: u64 = some.iter().map(|run| run.len() as u64).sum();
            if pairs + of_some > most {
                let fits = |run: &&Run| {
                    pairs += run.len() as u64;
                    pairs <= most
                };
                fitting += some.iter().take_while(fits).count();
                break;
            }
            pairs += of_some;
            fitting += some.len();
        }
        start..fitting.max(end.min(start + 1))
    }

    /// Returns the total number of pairs.
    pub fn pairs(&self) -> u64 {
        self.pairs_of(0..self.runs.len())
    }

    fn pairs_of(&self, rows: Range<usize>) -> u64 {
        self.runs[rows].iter().map(|run| run.len() as u64).sum()
    }

    /// Returns whether the right rows of adjacent left rows are far apart, judging by a sample. If
    /// the right rows are far apart, a cache cannot hold the rows between them.
    pub fn is_scattered(&self) -> bool {
        const SAMPLES: usize = 16;
        const NEIGHBOURS: usize = 64;
        /// 8-byte values at this distance are half a megabyte apart, so a few such columns fill a
        /// second-level cache.
        const FAR: u32 = 1 << 16;
        if self.rows.is_none() && !self.are_partners {
            return false;
        }
        let is_far = |sample: usize| {
            let start = self.runs.len() / SAMPLES * sample;
            let runs = self.runs[start..].iter().take(NEIGHBOURS).filter(|run| run.len() > 0);
            let ends = runs.flat_map(|run| [self.row(run.start), self.row(run.end - 1)]);
            let (first, last) =
                ends.fold((u32::MAX, 0), |(first, last), row| (first.min(row), last.max(row)));
            last.saturating_sub(first) >= FAR
        };
        (0..SAMPLES).filter(|&sample| is_far(sample)).count() > SAMPLES / 2
    }

    /// Returns those matches of the left rows in `page` that `keep` accepts, in order.
    pub fn filter<E: Send>(
        self: &Arc<Self>,
        page: Range<usize>,
        keep: &Keep<'_, E>,
        driver: &Driver,
    ) -> Result<Result<Matches, E>, Stopped> {
        let candidates = Output::of_left(self.clone(), How::Inner, page.clone(), driver)?;
        let kept = driver.map(candidates.cut(CANDIDATES), |block| {
            candidates.list(block, |pairs| {
                let verdicts = keep(pairs.left(), pairs.right())?;
                Ok::<_, E>(compact(pairs, &verdicts))
            })
        })?;
        let kept: Vec<(Vec<u32>, Vec<u32>)> = match kept.into_iter().collect() {
            Ok(kept) => kept,
            Err(error) => return Ok(Err(error)),
        };
        let first_left = self.first_left + page.start as u32;
        let mut runs = Pages::filled(page.len(), Run::default());
        let mut rows = Pages::unwritten(kept.iter().map(|(_, right)| right.len()).sum());
        let mut filled = 0;
        for (left, right) in kept {
            left.into_iter().for_each(|row| runs[(row - first_left) as usize].end += 1);
            Slot::copy(&mut rows[filled..filled + right.len()], &right);
            filled += right.len();
        }
        let mut end = 0;
        for run in runs.iter_mut() {
            // Up to this point, `end` is the number of the row's pairs.
            *run = Run { start: end, end: end + run.end };
            end = run.end;
        }
        let rows = rows.written();
        Ok(Ok(Matches {
            runs,
            first_left,
            rows: Some(Arc::new(rows)),
            ascending: true,
            right_rows: self.right_rows,
            are_partners: false,
        }))
    }

    /// Adds to `matched` the right rows that have a match.
    pub fn mark_matched(&self, matched: &mut BitSet) {
        let mut places = BitSet::new(self.places());
        for run in self.runs.iter() {
            places.insert_range(run.start as usize, run.end as usize);
        }
        for place in places.present() {
            matched.insert(self.row(place as u32) as usize);
        }
    }
}

/// Returns the pairs whose verdict is true. The code does not branch on the verdicts, because most
/// of them are unpredictable.
fn compact(pairs: &Pairs, verdicts: &[bool]) -> (Vec<u32>, Vec<u32>) {
    let (mut left, mut right) = (vec![0; verdicts.len()], vec![0; verdicts.len()]);
    let mut kept = 0;
    for ((&l, &r), &verdict) in pairs.left().iter().zip(pairs.right()).zip(verdicts) {
        (left[kept], right[kept]) = (l, r);
        kept += usize::from(verdict);
    }
    left.truncate(kept);
    right.truncate(kept);
    (left, right)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn oracle_a_page_has_as_many_rows_as_fit(
            lengths in prop::collection::vec(0..5_u32, 1..20),
            start in any::<prop::sample::Index>(),
            rows in 1..25_usize,
            most in 0..40_u64,
        ) {
            let runs = Pages::collect(lengths.iter().map(|&length| Run { start: 3, end: 3 + length }));
            let matches = Matches::new(runs, None, true, 9);
            let start = start.index(lengths.len());
            let fits = |end: &usize| {
                let pairs: u32 = lengths[start..*end].iter().sum();
                end - start <= rows && u64::from(pairs) <= most
            };
            let wanted = (start + 1..=lengths.len()).rfind(fits).unwrap_or(start + 1);
            prop_assert_eq!(matches.page(start, rows, most), start..wanted);
            if (start + 1..=lengths.len()).all(|end| fits(&end)) {
                prop_assert_eq!(matches.page(start, usize::MAX, most), start..lengths.len());
            }
        }
    }
}
