//! Numbers result rows and lists any range of them.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use tidegate_structures::memory;
use tidegate_structures::memory::gather::prefetch;
use tidegate_structures::memory::partition::ranges;

use super::{Matches, Run};
use crate::driver::{Driver, PART_ROWS, Stopped};
use crate::rows::{How, NO_ROW};

/// The number of left rows between two recorded positions. A search therefore takes at most this
/// many additions.
const BLOCK: usize = 1 << 10;

/// For runs of at most this length, exactly this many rows are copied, so no loop is needed.
pub(crate) const SHORT: usize = 8;

/// Rows are prefetched this many runs in advance, because the rows of adjacent runs are far apart
/// in memory.
const AHEAD: usize = 32;

/// The rows of a result. Result rows are in left row order and, for each left row, in right row
/// order.
#[derive(Debug)]
pub struct Output {
    matches: Arc<Matches>,
    how: How,
    /// The left rows that are listed, as positions in `matches`.
    left: Range<usize>,
    /// The number of result rows before each block of left rows, followed by the total number of
    /// result rows.
    before: Vec<u64>,
    /// Memory for reuse. If two calls list adjacent ranges, the second call reuses a long run that
    /// is already sorted.
    scratch: Mutex<Vec<Pairs>>,
}

/// Result rows, as the row numbers of both sides.
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    left: Vec<u32>,
    right: Vec<u32>,
    len: usize,
    /// The sorted rows in a run, and the position of the run's left row. The run is kept in case a
    /// later call lists an adjacent range.
    sorted: Option<(usize, Vec<u32>)>,
}

impl Pairs {
    /// Returns the left row of each result row, or [`NO_ROW`].
    pub fn left(&self) -> &[u32] {
        &self.left[..self.len]
    }

    /// Returns the right row of each result row, or [`NO_ROW`]. The slice is empty for semi and
    /// anti joins.
    pub fn right(&self) -> &[u32] {
        &self.right[..self.len.min(self.right.len())]
    }
}

impl Output {
    /// Creates the result rows for all left rows. The result rows do not include unmatched right
    /// rows.
    pub fn new(matches: Arc<Matches>, how: How, driver: &Driver) -> Result<Self, Stopped> {
        let left = 0..matches.runs.len();
        Self::of_left(matches, how, left, driver)
    }

    /// Creates the result rows for the left rows at the given positions of `matches`.
    pub(super) fn of_left(
        matches: Arc<Matches>,
        how: How,
        left: Range<usize>,
        driver: &Driver,
    ) -> Result<Self, Stopped> {
        let runs = &matches.runs[left.clone()];
        let blocks = runs.len().div_ceil(BLOCK);
        if matches.are_partners && how == How::Left {
            let before = (0..blocks).map(|block| (block * BLOCK) as u64);
            let before = before.chain([runs.len() as u64]).collect();
            return Ok(Output { matches, how, left, before, scratch: Mutex::default() });
        }
        let parts = ranges(blocks, driver.parts(runs.len(), PART_ROWS));
        let counts = driver.map(parts, |part| {
            let blocks = runs[part.start * BLOCK..runs.len().min(part.end * BLOCK)].chunks(BLOCK);
            blocks
                .map(|block| block.iter().map(|run| how.rows(run.len()) as u64).sum())
                .collect::<Vec<u64>>()
        })?;
        let mut before = Vec::with_capacity(blocks + 1);
        let mut total = 0;
        for count in counts.into_iter().flatten() {
            before.push(total);
            total += count;
        }
        before.push(total);
        Ok(Output { matches, how, left, before, scratch: Mutex::default() })
    }

    /// Returns the number of result rows.
    pub fn rows(&self) -> u64 {
        self.before[self.before.len() - 1]
    }

    /// Divides the result rows into ranges of `size` rows.
    pub fn cut(&self, size: usize) -> Vec<Range<u64>> {
        (0..self.rows())
            .step_by(size)
            .map(|start| start..self.rows().min(start + size as u64))
            .collect()
    }

    /// Returns the approximate number of listed left rows that precede a result row's left row.
    pub fn left_row(&self, row: u64) -> usize {
        (self.before.partition_point(|&before| before <= row) - 1) * BLOCK
    }

    /// Lists the result rows of a range and passes them to `take`.
    ///
    /// # Panics
    ///
    /// Panics if the range exceeds the result.
    pub fn list<R>(&self, rows: Range<u64>, take: impl FnOnce(&Pairs) -> R) -> R {
        assert!(rows.end <= self.rows(), "rows of the result");
        let scratch = || {
            self.scratch
                .lock()
                .expect("the lock is held only while items are being pushed or popped")
        };
        let mut pairs = scratch().pop().unwrap_or_default();
        self.fill(rows, &mut pairs);
        let result = take(&pairs);
        scratch().push(pairs);
        result
    }

    fn fill(&self, rows: Range<u64>, pairs: &mut Pairs) {
        pairs.len = (rows.end - rows.start) as usize;
        // Short runs are written at full width, beyond their end.
        let more = (pairs.len + SHORT).saturating_sub(pairs.left.len());
        memory::reserve(&mut pairs.left, more);
        pairs.left.resize(pairs.len + SHORT, 0);
        pairs.right.resize(if self.how.pairs() { pairs.len + SHORT } else { 0 }, 0);
        if pairs.len == 0 {
            return;
        }
        // 1. Find the left row of the first result row.
        let block = self.before.partition_point(|&before| before <= rows.start) - 1;
        let mut place = self.left.start + block * BLOCK;
        let mut skip = (rows.start - self.before[block]) as usize;
        while skip >= self.how.rows(self.matches.runs[place].len()) {
            skip -= self.how.rows(self.matches.runs[place].len());
            place += 1;
        }
        // 2. List one left row after the other; only the first and the last can be incomplete.
        let (runs, rows) = (&self.matches.runs[..], self.matches.rows.as_deref());
        if self.matches.are_partners {
            return list_partners(
                self.how,
                &runs[place..],
                self.matches.first_left + place as u32,
                pairs,
            );
        }
        let mut at = 0;
        let plain = matches!(self.how, How::Inner | How::Right);
        while at < pairs.len {
            if let (true, Some(rows), 0) = (plain, rows, skip) {
                let first = self.matches.first_left + place as u32;
                let listed = match self.matches.ascending {
                    true => list_short_runs::<true>(&runs[place..], first, rows, at, pairs),
                    false => list_short_runs::<false>(&runs[place..], first, rows, at, pairs),
                };
                (place, at) = (place + listed.0, listed.1);
                if at == pairs.len {
                    break;
                }
            }
            let run = runs[place];
            let wanted = self.how.rows(run.len());
            let count = (wanted - skip).min(pairs.len - at);
            if count > 0 {
                let row = self.matches.first_left + place as u32;
                repeat(&mut pairs.left[at..], row, count);
                if self.how.pairs() {
                    self.list_run(place, skip, count, at, pairs);
                }
                at += count;
            }
            skip = 0;
            place += 1;
        }
    }

    /// Skips the first `skip` rows in a run and writes the next `count` right rows, starting at
    /// position `at`.
    fn list_run(&self, place: usize, skip: usize, count: usize, at: usize, pairs: &mut Pairs) {
        let (run, rows) = (self.matches.runs[place], self.matches.rows.as_deref());
        let start = run.start as usize + skip;
        match rows {
            _ if run.len() == 0 => pairs.right[at] = NO_ROW,
            None => pairs.right[at..at + count]
                .iter_mut()
                .zip(start as u32..)
                .for_each(|(out, row)| *out = row),
            Some(rows) if self.matches.ascending => {
                copy(&mut pairs.right[at..], rows, start, count)
            }
            Some(rows) => {
                let Pairs { right, sorted, .. } = pairs;
                if sorted.as_ref().is_none_or(|(of, _)| *of != place) {
                    let mut run_rows = sorted.take().map_or_else(Vec::new, |(_, rows)| rows);
                    run_rows.clear();
                    run_rows.extend_from_slice(&rows[run.start as usize..run.end as usize]);
                    run_rows.sort_unstable();
                    *sorted = Some((place, run_rows));
                }
                let (_, run_rows) = sorted.as_ref().expect("sorted above");
                right[at..at + count].copy_from_slice(&run_rows[skip..skip + count]);
            }
        }
    }
}

/// Lists left rows, starting with row `first`. Each left row has at most one right row, and the
/// code does not branch on whether there is one.
fn list_partners(how: How, runs: &[Run], first: u32, pairs: &mut Pairs) {
    let Pairs { left, right, len, .. } = pairs;
    // For an unmatched row, this wraps around to `NO_ROW`.
    let partner = |run: &Run| run.end.wrapping_sub(1);
    if how.keeps_left() {
        left.iter_mut().zip(first..).take(*len).for_each(|(left, row)| *left = row);
        right.iter_mut().zip(runs).take(*len).for_each(|(right, run)| *right = partner(run));
        return;
    }
    let mut at = 0;
    for (run, row) in runs.iter().zip(first..) {
        if at == *len {
            break;
        }
        left[at] = row;
        if let Some(right) = right.get_mut(at) {
            *right = partner(run);
        }
        at += how.rows(run.len());
    }
}

/// Lists whole runs, starting at position `at`, as long as the runs are short and there is room for
/// them. Returns the number of listed runs and the position that was reached.
///
/// Most joins list nearly all of their pairs here, so this code does not branch on the exact run
/// length.
fn list_short_runs<const ASCENDING: bool>(
    runs: &[Run],
    first: u32,
    rows: &[u32],
    mut at: usize,
    pairs: &mut Pairs,
) -> (usize, usize) {
    let (left, right) = (&mut pairs.left[..], &mut pairs.right[..]);
    for (listed, (run, row)) in runs.iter().zip(first..).enumerate() {
        if let Some(later) = runs.get(listed + AHEAD) {
            prefetch(rows, later.start as usize);
            prefetch(rows, later.start as usize + SHORT - 1);
        }
        let start = run.start as usize;
        let whole = run.len() <= SHORT && at + run.len() <= pairs.len;
        let (true, Some(from)) = (whole, rows.get(start..start + SHORT)) else {
            return (listed, at);
        };
        left[at..at + SHORT].fill(row);
        right[at..at + SHORT].copy_from_slice(from);
        if !ASCENDING && run.len() > 1 {
            sort_short(&mut right[at..at + SHORT], run.len());
        }
        at += run.len();
    }
    (runs.len(), at)
}

/// Sorts the first `count` of [`SHORT`] numbers, and replaces the others with arbitrary values.
///
/// The implementation uses sorting networks, in which the order of comparisons does not depend on
/// the values. Most runs that have to be sorted are short.
#[inline(always)]
pub(crate) fn sort_short(numbers: &mut [u32], count: usize) {
    const OF_4: [(usize, usize); 5] = [(0, 1), (2, 3), (0, 2), (1, 3), (1, 2)];
    const OF_8: [(usize, usize); 19] = [
        (0, 2),
        (1, 3),
        (4, 6),
        (5, 7),
        (0, 4),
        (1, 5),
        (2, 6),
        (3, 7),
        (0, 1),
        (2, 3),
        (4, 5),
        (6, 7),
        (2, 4),
        (3, 5),
        (1, 4),
        (3, 6),
        (1, 2),
        (3, 4),
        (5, 6),
    ];
    match count {
        0..=4 => sort_by(&OF_4, numbers, count),
        _ => sort_by(&OF_8, numbers, count),
    }
}

#[inline(always)]
fn sort_by<const COMPARISONS: usize>(
    network: &[(usize, usize); COMPARISONS],
    numbers: &mut [u32],
    count: usize,
) {
    let mut sorted: [u32; SHORT] = numbers.try_into().expect("there are SHORT numbers");
    sorted
        .iter_mut()
        .zip(0..)
        .for_each(|(number, at)| *number |= if at < count { 0 } else { u32::MAX });
    for &(a, b) in network {
        (sorted[a], sorted[b]) = (sorted[a].min(sorted[b]), sorted[a].max(sorted[b]));
    }
    numbers.copy_from_slice(&sorted);
}

/// Writes `value` to the first `count` positions of `out`. Some subsequent positions receive
/// arbitrary values.
#[inline]
fn repeat(out: &mut [u32], value: u32, count: usize) {
    if count <= SHORT {
        out[..SHORT].fill(value);
    } else {
        out[..count].fill(value);
    }
}

/// Copies `count` values of `from`, starting at `start`, to `out`. Some subsequent positions of
/// `out` receive arbitrary values.
#[inline]
fn copy(out: &mut [u32], from: &[u32], start: usize, count: usize) {
    if count <= SHORT && start + SHORT <= from.len() {
        out[..SHORT].copy_from_slice(&from[start..start + SHORT]);
    } else {
        out[..count].copy_from_slice(&from[start..start + count]);
    }
}
