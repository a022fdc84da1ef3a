//! The index-based window join. The join receives rows in merged order, and emits pairs of rows
//! whose values are close.
//!
//! ```text
//!                 ┌▶ probe S's index for rows of R ─┐
//!   rows of R ────┴──▶ R's index                    ├─▶ by later row, then earlier row ─▶ results
//!   rows of S ────┬──▶ S's index                    │
//!                 └▶ probe R's index for rows of S ─┘
//! ```
//!
//! For each row, a window join performs three steps. The join searches the other side's window for
//! matches, removes expired rows from the row's own window, and inserts the row. This join performs
//! each step for many rows at a time, and inserts rows first. Row numbers identify the rows to
//! ignore: rows that arrived after the searching row and rows that have left its window. As in the
//! paper's parallel join, each row stores the numbers of the first and last rows on the other side
//! that it can match. The memory accesses of many probes can overlap. Threads process pieces of the
//! rows without locks. Another way to [`Find`] matches is the join in section 4 of the paper, in
//! which threads take tasks from a queue and share PIM-Trees.
//!
//! Values are represented by codes: 64-bit integers that sort in the same order as the values. For
//! every column with a band, a row has its own code and the range of codes it matches on the other
//! side. The first column is indexed; the others are compared directly.
//!
//! # Trade-offs
//!
//! Each row takes 40 to 60 bytes for its time, codes and index entry. A row's matches are sorted by
//! number, because an index returns them in order of value.
//!
//! # When to use something else
//!
//! Use [`interval::streaming`](crate::interval::streaming) for pairs with equal keys. Use
//! [`window::scale`](crate::window::scale), which compares rows with whole windows, for conditions
//! without a band on any column.
//!
//! Shahvarani and Jacobsen, "Parallel Index-based Stream Join on a Multicore CPU" (SIGMOD 2020),
//! sections 2 and 4.

mod ahead;
mod bands;
mod codes;
mod epoch;
mod find;
mod results;
mod rows;
mod window;

use std::fmt;
use std::ops::Range;

use tidegate_structures::index::{Probe, WindowIndex};

use crate::driver::Driver;
use crate::rows::{
    Extent, Filter, How, Interval, JoinError, Progress, Reach, Results, Retention, RowJoin, RowLog,
    SavedRows, Side, SideWatermarks,
};
use crate::selectivity;
pub use ahead::Ahead;
pub use bands::Bands;
use codes::CodeColumns;
use epoch::Epoch;
pub use find::{Find, MOST_MATCHES, PIECE, RowMatches};
pub use rows::Rows;
use rows::SIDES;
use window::WindowEdge;

/// The approximate number of pairs whose results a thread computes at a time.
const PIECE_PAIRS: usize = if cfg!(test) { 10 } else { 1 << 14 };

/// Returns the column whose index returns the fewest candidates, and the factor by which it
/// improves on `current`. Both values are estimated from a sample of rows from both sides. Returns
/// `current` if either side has no rows.
pub fn most_selective(left: &[Bands<'_>], right: &[Bands<'_>], current: usize) -> (usize, f64) {
    let pairs = |column: usize| {
        let (left, right) = (left[column], right[column]);
        let ranges =
            selectivity::sample(left.codes.len()).map(|row| (left.low[row], left.high[row]));
        let valued =
            selectivity::sample(right.codes.len()).filter(|&row| right.low[row] <= right.high[row]);
        selectivity::pairs(ranges, valued.map(|row| right.codes[row]).collect()) as f64
    };
    let of_current = pairs(current);
    let others =
        (0..left.len()).filter(|&column| column != current).map(|column| (column, pairs(column)));
    let best = others.min_by(|a, b| a.1.total_cmp(&b.1)).filter(|&(_, pairs)| pairs < of_current);
    best.map_or((current, 1.0), |(column, pairs)| (column, of_current / pairs.max(1.0)))
}

/// The state of a join that finds matches with `F`.
///
/// In this example, rows match if their values differ by at most 5 and their times by at most 10:
///
/// ```
/// use tidegate_operators::band::index::{Bands, IndexJoin};
/// use tidegate_operators::driver::Driver;
/// use tidegate_operators::rows::{How, Progress, Retention, RowJoin, Side};
/// use tidegate_structures::index::BucketIndex;
/// use tidegate_sync::Stop;
///
/// let driver = Driver::new(1, Stop::default());
/// let window = Retention::Time { left: 10, right: 10 };
/// let mut join = IndexJoin::new(window, How::Inner, 1, true, BucketIndex::new);
/// // Two left rows with the values 100 and 200, then a right row with the value 203.
/// let sides = vec![Side::Left, Side::Left, Side::Right];
/// let left = Bands { codes: &[100, 200], low: &[95, 195], high: &[105, 205] };
/// let right = Bands { codes: &[203], low: &[198], high: &[208] };
/// join.begin(&driver, vec![1, 2, 3], sides, [&[left], &[right]]);
/// let Progress::Pieces(pieces) = join.advance(&driver, None)? else { unreachable!() };
/// let pairs = join.assemble(pieces[0].clone());
/// assert_eq!((pairs.left, pairs.right), (vec![1], vec![0])); // 200 with 203
/// # Ok::<(), tidegate_operators::rows::JoinError>(())
/// ```
pub struct IndexJoin<F> {
    window: Retention,
    how: How,
    rows: Rows,
    finder: F,
    /// For each side, the oldest row that a row in the epoch can match.
    edges: Vec<WindowEdge>,
    /// The number of the epoch's rows processed so far.
    next: usize,
    /// The most recently found matches.
    found: Vec<RowMatches>,
    /// The number of comparisons per thread.
    comparisons: Vec<u64>,
}

impl<F> fmt::Debug for IndexJoin<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexJoin")
            .field("window", &self.window)
            .field("how", &self.how)
            .finish_non_exhaustive()
    }
}

impl<I: WindowIndex> IndexJoin<Ahead<I>> {
    /// Creates an empty join of two streams, with bands on `columns` columns. Unless the join is
    /// `ordered`, the pairs of a row are returned in any order.
    pub fn new(
        window: Retention,
        how: How,
        columns: usize,
        ordered: bool,
        index: impl Fn() -> I,
    ) -> Self {
        Self::of_two_streams(window, how, columns, ordered, Ahead::new(SIDES.len(), index))
    }
}

impl<F: Find> IndexJoin<F> {
    /// Creates a join of two streams like [`new`](IndexJoin::new), with matches found by `finder`.
    pub fn of_two_streams(
        window: Retention,
        how: How,
        columns: usize,
        ordered: bool,
        finder: F,
    ) -> Self {
        Self::of_sides(&SIDES, window, how, columns, ordered, finder)
    }

    /// Creates a self-join, which pairs each row with the earlier rows in its window. All
    /// rows are added as left rows. In each result, the left row is the later one. Right rows are
    /// identified by their numbers as left rows. `finder` must have been created for one side.
    pub fn of_one_stream(window: Retention, columns: usize, ordered: bool, finder: F) -> Self {
        Self::of_sides(&[Side::Left], window, How::Inner, columns, ordered, finder)
    }

    fn of_sides(
        sides: &[Side],
        window: Retention,
        how: How,
        columns: usize,
        ordered: bool,
        finder: F,
    ) -> Self {
        assert!(columns > 0, "a column is indexed");
        let log = |&side: &Side| RowLog::new(side, how, CodeColumns::new(columns));
        let logs: Vec<_> = sides.iter().map(log).collect();
        let edges = vec![WindowEdge::default(); logs.len()];
        IndexJoin {
            window,
            how,
            rows: Rows { ordered, logs, epoch: Epoch::default() },
            finder,
            edges,
            next: 0,
            found: Vec::new(),
            comparisons: vec![0],
        }
    }

    /// Converts an empty join into one that processes rows in arrival order. The windows contain
    /// all kept rows, and time is one of the band columns. A row is kept as long as future rows can
    /// be `near` it in time.
    #[must_use]
    pub fn in_arrival_order(mut self, near: &Interval) -> Self {
        let (how, reach) = (self.how, Reach::new(near));
        self.window = Retention::Rows { left: u64::MAX, right: u64::MAX };
        let logs = self.rows.logs.into_iter();
        self.rows.logs = logs.map(|log| log.in_arrival_order(how, reach)).collect();
        self
    }

    /// Prepares the join for a driver with this many threads. Each thread has its own comparison
    /// counter.
    #[must_use]
    pub fn of_threads(mut self, threads: usize) -> Self {
        self.comparisons.resize(threads, 0);
        self
    }

    /// Returns how many times the indexes have merged new rows with existing rows.
    pub fn merges(&self) -> u64 {
        self.finder.merges()
    }

    /// Changes the indexed column, for existing and future rows. After the call, bands must be
    /// passed in the new order.
    pub fn index_by(&mut self, column: usize) {
        debug_assert!(self.next == self.rows.len(), "rows of the epoch may still match");
        self.rows.logs.iter_mut().for_each(|log| log.columns_mut().swap(0, column));
        for side in 0..self.rows.logs.len() {
            self.finder.refill(&self.rows, side);
        }
    }

    /// Divides the rows whose matches were found most recently into pieces with a given number of
    /// pairs.
    fn pieces(&self) -> Vec<Range<usize>> {
        let mut pieces: Vec<Range<usize>> = Vec::new();
        let mut pairs = usize::MAX;
        for found in &self.found {
            match pieces.last_mut() {
                Some(piece) if pairs < PIECE_PAIRS => piece.end = found.rows.end,
                _ => {
                    pieces.push(found.rows.clone());
                    pairs = 0;
                }
            }
            pairs += found.numbers.len();
        }
        pieces
    }
}

impl<F: Find> RowJoin<[&[Bands<'_>]; 2]> for IndexJoin<F> {
    /// The indexed column of each side must be passed first.
    fn begin(&mut self, _: &Driver, ts: Vec<i64>, sides: Vec<Side>, bands: [&[Bands<'_>]; 2]) {
        assert!(self.is_done(), "the previous epoch must have ended");
        self.next = 0;
        let mut first = [0; 2];
        for (side, (log, first)) in SIDES.into_iter().zip(self.rows.logs.iter_mut().zip(&mut first))
        {
            *first = log.end();
            let of_side = ts.iter().zip(&sides).filter(|&(_, &other)| other == side);
            log.extend(|columns| {
                columns.extend(of_side.map(|(&ts, _)| ts), bands[side as usize]);
            });
        }
        let mut numbers = first;
        self.rows.epoch.begin(ts, sides, first, bands);
        for row in 0..self.rows.epoch.len() {
            let (ts, side) = (self.rows.epoch.ts[row], self.rows.epoch.sides[row]);
            let (own, other) = (side as usize, self.rows.other(side));
            let (number, upto) = (numbers[own], numbers[other]);
            let from =
                self.edges[other].advance(self.window, &self.rows.logs[other], upto, ts) as u32;
            let to = if self.rows.logs[own].joins(number as u32) { upto as u32 } else { from };
            let (band, nth) = (&bands[own][0], (number - first[own]) as usize);
            self.rows
                .epoch
                .push(side, Probe { low: band.low[nth], high: band.high[nth], from, to });
            numbers[own] += 1;
        }
        self.finder.begin(&self.rows);
    }

    fn epoch_rows(&self) -> usize {
        self.rows.epoch.len()
    }

    fn is_done(&self) -> bool {
        self.next == self.rows.len()
    }

    fn advance(
        &mut self,
        driver: &Driver,
        filter: Option<&Filter<'_>>,
    ) -> Result<Progress, JoinError> {
        let from = self.next;
        self.found = self.finder.find(&self.rows, from, driver, filter)?;
        let threads = driver.threads().max(self.comparisons.len());
        self.comparisons.resize(threads, 0);
        for (thread, count) in
            self.found.iter().flat_map(|found| found.comparisons.iter().enumerate())
        {
            self.comparisons[thread] += count;
        }
        self.next = self.found.last().map_or(from, |found| found.rows.end);
        let is_outer = self.rows.logs.iter().any(RowLog::is_outer);
        Ok(if is_outer {
            Progress::Results(self.collect(from))
        } else {
            Progress::Pieces(self.pieces())
        })
    }

    fn assemble(&self, rows: Range<usize>) -> Results {
        self.pairs(rows)
    }

    fn unmatched(&mut self, now: SideWatermarks) -> Results {
        debug_assert!(self.is_done(), "rows of the epoch may still match");
        let mut results = Results::default();
        // In a self-join, all rows are emitted as part of pairs.
        if let Ok(sides) = self.rows.logs.as_mut_slice().try_into() {
            let sides: &mut [RowLog<CodeColumns>; 2] = sides;
            results.add_unmatched(sides, &Extent::new(self.window), self.how, now);
        }
        results
    }

    fn purge(&mut self, now: SideWatermarks) {
        debug_assert!(self.is_done(), "rows of the epoch may still match");
        for at in 0..self.rows.logs.len() {
            let log = &self.rows.logs[at];
            let first = match now[0] {
                _ if log.is_in_arrival_order() => {
                    self.edges[at].0 =
                        log.first() + log.over(&Extent::new(self.window), now) as u64;
                    self.edges[at].0
                }
                Some(now) => self.edges[at].advance(self.window, log, log.end(), now),
                None => log.end(),
            };
            self.finder.expire(&self.rows, at, first, now == [None; 2]);
            self.rows.logs[at].drop_before(first);
        }
    }

    fn needed(&self, side: Side, now: SideWatermarks) -> Option<Vec<u32>> {
        self.rows.logs.get(side as usize)?.needed(now)
    }

    fn pack(&mut self, now: SideWatermarks) -> Option<[Vec<u32>; 2]> {
        let sides: &mut [RowLog<CodeColumns>; 2] = self.rows.logs.as_mut_slice().try_into().ok()?;
        let kept = RowLog::needed_if_sparse(sides, now)?;
        for (at, kept) in kept.iter().enumerate() {
            self.rows.logs[at].retain(kept, |columns| columns.retain(kept));
            self.finder.refill(&self.rows, at);
        }
        Some(kept)
    }

    fn first(&self, side: Side) -> u64 {
        self.rows.logs.get(side as usize).map_or(0, RowLog::first)
    }

    fn rows(&self, side: Side) -> usize {
        self.rows.logs.get(side as usize).map_or(0, RowLog::len)
    }

    fn matched(&self, side: Side) -> (Vec<bool>, usize) {
        self.rows.logs.get(side as usize).map_or((Vec::new(), 0), RowLog::matched)
    }

    /// Each thread takes the next piece as soon as it is free, so the counts depend on scheduling.
    fn comparisons(&self) -> Vec<u64> {
        self.comparisons.clone()
    }

    fn memory(&self) -> usize {
        self.rows.logs.iter().map(RowLog::memory).sum::<usize>() + self.finder.memory()
    }

    fn restore(&mut self, kept: &[SavedRows; 2], bands: [&[Bands<'_>]; 2]) {
        for (at, (log, kept)) in self.rows.logs.iter_mut().zip(kept).enumerate() {
            log.restore(kept, |columns| columns.extend(kept.ts.iter().copied(), bands[at]));
        }
        for side in 0..self.rows.logs.len() {
            self.finder.refill(&self.rows, side);
        }
    }
}

#[cfg(test)]
mod tests;
