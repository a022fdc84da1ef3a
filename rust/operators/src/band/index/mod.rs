//! The index-based window join: rows in merged order in, pairs whose values are close out.
//!
//! ```text
//!                 ┌▶ probe S's index for rows of R ─┐
//!   rows of R ────┴──▶ R's index                    ├─▶ by later row, then earlier row ─▶ results
//!   rows of S ────┬──▶ S's index                    │
//!                 └▶ probe R's index for rows of S ─┘
//! ```
//!
//! The three steps of a window join for each row: look for it in the other side's window, remove
//! what has left its own, insert it. They are done for many rows at a time, inserting first: a row
//! that came later than the one that looks, or has left its window, is told by its number. So each
//! row has, as the paper's parallel join records it, the numbers of the first and the last row of
//! the other side that it may match; probes of many rows can wait for memory together, and threads
//! take pieces of the rows without any lock. The join of the paper's section 4, in which threads
//! take tasks from a queue and share PIM-Trees, is [`IndexJoin::by_tasks`].
//!
//! Values are codes: 64-bit integers with the values' order. Each row brings its own code and the
//! range of codes of the other side's rows that it matches, for every column with a band. The first
//! column is indexed; the others are compared.
//!
//! # Trade-offs
//!
//! A row costs its time, its codes and a place in an index: 40 to 60 bytes. The matches of a row
//! are sorted by number, since an index gives them by value.
//!
//! # When to use something else
//!
//! Pairs with equal keys are found by [`interval::streaming`](crate::interval::streaming); conditions without
//! a band on any column by [`handshake`](crate::papers::handshake), which compares with whole
//! windows.
//!
//! Shahvarani and Jacobsen, "Parallel Index-based Stream Join on a Multicore CPU" (SIGMOD 2020),
//! sections 2 and 4.

mod codes;
mod epoch;
mod find;
mod kind;
mod results;
mod tasks;
mod window;

use std::fmt;
use std::ops::Range;

use tidegate_structures::index::{Probe, WindowIndex};

use crate::driver::{Driver, Stopped};
use crate::rows::{
    Extent, Failed, Filter, FilterError, How, Kept, Progress, Results, Retention, RowJoin, RowLog,
    Side,
};
use crate::selectivity;
use codes::CodeColumns;
use epoch::Epoch;
use find::Found;
pub use kind::IndexKind;
pub use tasks::{TaskJoin, TaskOptions, TaskRow, Worker};
use window::Edge;

const SIDES: [Side; 2] = [Side::Left, Side::Right];

/// Rows that enter the indexes ahead of those that look for others, at least and at most.
const FEW_ROWS: usize = if cfg!(test) { 5 } else { 1 << 8 };
const MANY_ROWS: usize = if cfg!(test) { 40 } else { 1 << 15 };

/// Rows that a thread looks for by itself: fewer are not worth waking it.
const PIECE: usize = if cfg!(test) { 7 } else { 1 << 11 };

/// Pairs of which a thread makes the results by itself, about.
const PIECE_PAIRS: usize = if cfg!(test) { 10 } else { 1 << 14 };

/// A column with a band, of some rows of one side: for each row its code, and the least and the
/// greatest code of the other side's rows that it matches. A row without a value has a least code
/// above the greatest.
#[derive(Clone, Copy, Debug)]
pub struct Bands<'a> {
    /// Codes.
    pub codes: &'a [i64],
    /// Least codes that match.
    pub low: &'a [i64],
    /// Greatest codes that match.
    pub high: &'a [i64],
}

/// The column of which a sample of rows of both sides says that an index on it gives the fewest
/// candidates, and how many times fewer than `current` does. Without rows of both sides it is that
/// one.
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

/// The state of a join.
pub struct IndexJoin<I> {
    window: Retention,
    how: How,
    ordered: bool,
    /// One a side, or a single one for a join of a stream with itself.
    logs: Vec<RowLog<CodeColumns>>,
    /// As many, or none if threads take tasks, which have their own.
    indexes: Vec<I>,
    tasks: Option<TaskJoin>,
    /// The oldest row of each side that a row of the epoch may match, and the oldest that is in the
    /// index.
    edges: Vec<Edge>,
    indexed: Vec<u64>,
    epoch: Epoch,
    /// How many rows of the epoch have entered the indexes,
    entered: usize,
    /// and how many have been looked for.
    next: usize,
    /// The matches of the rows that were looked for last.
    found: Vec<Found>,
    comparisons: u64,
}

impl<I> fmt::Debug for IndexJoin<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexJoin")
            .field("window", &self.window)
            .field("how", &self.how)
            .finish_non_exhaustive()
    }
}

impl<I: WindowIndex> IndexJoin<I> {
    /// A join of two streams, without rows, with bands on so many columns. Unless it is `ordered`,
    /// the pairs of a row come in any order.
    pub fn new(
        window: Retention,
        how: How,
        columns: usize,
        ordered: bool,
        index: impl Fn() -> I,
    ) -> Self {
        Self::of_sides(&SIDES, window, how, columns, ordered, index)
    }

    /// A join of a stream with itself: each row with the earlier ones in its window, which is the
    /// left one. In its results left rows are the later ones.
    pub fn of_one_stream(
        window: Retention,
        columns: usize,
        ordered: bool,
        index: impl Fn() -> I,
    ) -> Self {
        Self::of_sides(&[Side::Left], window, How::Inner, columns, ordered, index)
    }

    fn of_sides(
        sides: &[Side],
        window: Retention,
        how: How,
        columns: usize,
        ordered: bool,
        index: impl Fn() -> I,
    ) -> Self {
        assert!(columns > 0, "a column is indexed");
        let log = |&side: &Side| RowLog::new(side, how, CodeColumns::new(columns));
        let logs: Vec<_> = sides.iter().map(log).collect();
        let sides = logs.len();
        IndexJoin {
            window,
            how,
            ordered,
            logs,
            indexes: (0..sides).map(|_| index()).collect(),
            tasks: None,
            edges: vec![Edge::default(); sides],
            indexed: vec![0; sides],
            epoch: Epoch::default(),
            entered: 0,
            next: 0,
            found: Vec::new(),
            comparisons: 0,
        }
    }

    /// The same join by tasks that threads take from a queue, and PIM-Trees that they share, as
    /// published; instead of rows that enter the indexes ahead, and pieces of them that threads
    /// look for.
    pub fn by_tasks(mut self, options: TaskOptions) -> Self {
        self.tasks = Some(TaskJoin::new(self.logs.len(), options));
        self.indexes.clear();
        self
    }

    /// The number of the side that rows of a side look at.
    #[inline]
    fn other(&self, side: Side) -> usize {
        if self.logs.len() == 1 { 0 } else { side.other() as usize }
    }

    /// How often the indexes have merged new rows with the others.
    pub fn merges(&self) -> u64 {
        let of_tasks = self.tasks.as_ref().map_or(0, TaskJoin::merges);
        of_tasks + self.indexes.iter().map(I::merges).sum::<u64>()
    }

    /// Exchanges the indexed column with another one, for the rows that are here and all that come:
    /// their bands are given in that order from now on.
    pub fn index_by(&mut self, column: usize) {
        debug_assert!(self.is_done(), "rows of the epoch may still match");
        for (at, log) in self.logs.iter_mut().enumerate() {
            log.columns_mut().swap(0, column);
            let numbers = match &self.tasks {
                Some(_) => log.first()..log.end(),
                None => self.indexed[at]..log.end(),
            };
            let rows = log.entries(numbers);
            match &mut self.tasks {
                Some(tasks) => tasks.refill(at, &rows),
                None => {
                    self.indexes[at].clear();
                    self.indexes[at].insert_all(&rows);
                }
            }
        }
    }

    /// A row of the epoch as tasks see it.
    fn task_row(&self, row: usize) -> TaskRow {
        let (side, number, probe) =
            (self.epoch.sides[row], self.epoch.number(row), *self.epoch.probe(row));
        let log = &self.logs[side as usize];
        let key = log.joins(number).then(|| log.code(0, number));
        TaskRow { side: side as usize, other: self.other(side), number, key, probe }
    }

    /// Finds the matches of rows that enter the indexes ahead, until that are many.
    fn look_ahead(&mut self, driver: &Driver, filter: Option<&Filter<'_>>) -> Result<(), Failed> {
        self.found.clear();
        let mut matches = 0;
        while matches < find::MOST_MATCHES && !self.is_done() && !driver.is_paused() {
            // 1. Some rows enter the indexes: few, if they are many beside those that are there.
            if self.next == self.entered {
                let there = self.indexes.iter().map(I::len).max().unwrap_or(0);
                let ahead = (there / 8).clamp(FEW_ROWS, MANY_ROWS);
                self.enter(driver, self.epoch_rows().min(self.entered + ahead))
                    .map_err(Failed::Stopped)?;
            }
            // 2. They look for others, in pieces that no number of threads shows in.
            let pieces: Vec<Range<usize>> = (self.next..self.entered)
                .step_by(PIECE)
                .map(|from| from..self.entered.min(from + PIECE))
                .collect();
            let looked = driver
                .map(pieces, |rows| (rows.end, self.look(rows, filter, driver)))
                .map_err(Failed::Stopped)?;
            // 3. Results are taken up to the first row that was not looked for, since its piece has
            //    matches enough.
            for (end, found) in looked {
                let found = found.map_err(Failed::Filter)?;
                self.comparisons += found.comparisons;
                matches += found.numbers.len();
                self.next = found.rows.end;
                let is_whole = found.rows.end == end;
                self.found.push(found);
                if !is_whole {
                    break;
                }
            }
            if self.next == self.entered {
                self.leave();
            }
        }
        driver.check().map_err(Failed::Stopped)
    }

    /// Rows that were looked for last, cut where they have some pairs.
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

    /// Finds the matches of rows by tasks.
    fn run_tasks(&mut self, driver: &Driver, filter: Option<&Filter<'_>>) -> Result<(), Failed> {
        let tasks = self.tasks.as_mut().expect("the join goes by tasks");
        tasks.limit(find::MOST_MATCHES);
        let workers = (0..driver.threads()).map(|_| tasks.worker());
        let turns = workers.map(|mut worker| move || worker.step()).collect();
        driver.take_turns(turns).map_err(Failed::Stopped)?;
        let candidates = tasks.take();
        let refined =
            driver.map(candidates, |found| self.refine(found, filter)).map_err(Failed::Stopped)?;
        self.found =
            refined.into_iter().collect::<Result<_, FilterError>>().map_err(Failed::Filter)?;
        self.comparisons += self.found.iter().map(|found| found.comparisons).sum::<u64>();
        self.next = self.found.last().map_or(self.next, |found| found.rows.end);
        Ok(())
    }

    /// Inserts the rows of the epoch before `upto` into the indexes of their sides.
    fn enter(&mut self, driver: &Driver, upto: usize) -> Result<(), Stopped> {
        let (from, to) = (self.epoch.before(self.entered), self.epoch.before(upto));
        let (epoch, logs, rows) = (&self.epoch, &self.logs, upto - self.entered);
        let insert = |(side, index): (usize, &mut I)| {
            let first = epoch.first(side);
            index.insert_all(
                &logs[side].entries(first + from[side] as u64..first + to[side] as u64),
            );
        };
        let sides: Vec<(usize, &mut I)> = self.indexes.iter_mut().enumerate().collect();
        if rows < PIECE {
            sides.into_iter().for_each(insert);
        } else {
            driver.map(sides, insert)?;
        }
        self.entered = upto;
        Ok(())
    }

    /// Removes the rows from the indexes that no row that is still to look may match.
    fn leave(&mut self) {
        let came = self.epoch.before(self.next);
        for side in SIDES {
            let Some(last) = came[side as usize].checked_sub(1) else { continue };
            let other = self.other(side);
            let first = self.epoch.probe_of(side, last).from;
            let gone = first.wrapping_sub(self.indexed[other] as u32).cast_signed().max(0);
            self.remove_before(other, self.indexed[other] + gone.cast_unsigned() as u64);
        }
    }

    /// Removes the rows of a side before the one of that number from its index.
    fn remove_before(&mut self, side: usize, number: u64) {
        let from = self.indexed[side];
        self.indexes[side].remove_all(&self.logs[side].entries(from..number.max(from)));
        self.indexed[side] = number.max(from);
    }
}

impl<I: WindowIndex> RowJoin<[&[Bands<'_>]; 2]> for IndexJoin<I> {
    /// The columns of each side are given with the indexed one first.
    fn begin(&mut self, _: &Driver, ts: Vec<i64>, sides: Vec<Side>, bands: [&[Bands<'_>]; 2]) {
        assert!(self.is_done(), "an epoch begins when the one before is done");
        (self.next, self.entered) = (0, 0);
        let mut first = [0; 2];
        for (side, (log, first)) in SIDES.into_iter().zip(self.logs.iter_mut().zip(&mut first)) {
            *first = log.end();
            let of_side = ts.iter().zip(&sides).filter(|&(_, &other)| other == side);
            log.extend(|columns| {
                columns.extend(of_side.map(|(&ts, _)| ts), bands[side as usize]);
            });
        }
        let mut numbers = first;
        self.epoch.begin(ts, sides, first, bands);
        for row in 0..self.epoch.len() {
            let (ts, side) = (self.epoch.ts[row], self.epoch.sides[row]);
            let (own, other) = (side as usize, self.other(side));
            let (number, upto) = (numbers[own], numbers[other]);
            let from = self.edges[other].advance(self.window, &self.logs[other], upto, ts) as u32;
            let to = if self.logs[own].joins(number as u32) { upto as u32 } else { from };
            let (band, nth) = (&bands[own][0], (number - first[own]) as usize);
            self.epoch.push(side, Probe { low: band.low[nth], high: band.high[nth], from, to });
            numbers[own] += 1;
        }
        if let Some(mut tasks) = self.tasks.take() {
            tasks.begin((0..self.epoch_rows()).map(|row| self.task_row(row)).collect());
            self.tasks = Some(tasks);
        }
    }

    fn epoch_rows(&self) -> usize {
        self.epoch.len()
    }

    fn is_done(&self) -> bool {
        self.next == self.epoch.len()
    }

    fn advance(
        &mut self,
        driver: &Driver,
        filter: Option<&Filter<'_>>,
    ) -> Result<Progress, Failed> {
        let from = self.next;
        match self.tasks.is_some() {
            true => self.run_tasks(driver, filter)?,
            false => self.look_ahead(driver, filter)?,
        }
        let is_outer = self.logs.iter().any(RowLog::is_outer);
        Ok(if is_outer {
            Progress::Results(self.collect(from))
        } else {
            Progress::Pieces(self.pieces())
        })
    }

    fn assemble(&self, rows: Range<usize>) -> Results {
        self.pairs(rows)
    }

    fn unmatched(&mut self, now: Option<i64>) -> Results {
        debug_assert!(self.is_done(), "rows of the epoch may still match");
        let mut results = Results::default();
        // Rows of one stream that join each other all come out by their pairs.
        if let Ok(sides) = self.logs.as_mut_slice().try_into() {
            let sides: &mut [RowLog<CodeColumns>; 2] = sides;
            results.add_unmatched(sides, &Extent::new(self.window), self.how, now);
        }
        results
    }

    fn purge(&mut self, now: Option<i64>) {
        debug_assert!(self.is_done(), "rows of the epoch may still match");
        for at in 0..self.logs.len() {
            let end = self.logs[at].end();
            let first = match now {
                Some(now) => self.edges[at].advance(self.window, &self.logs[at], end, now),
                None => end,
            };
            match &mut self.tasks {
                Some(tasks) => tasks.expire(at, first as u32, now.is_none()),
                None => self.remove_before(at, first),
            }
            self.logs[at].drop_before(first);
        }
    }

    fn first(&self, side: Side) -> u64 {
        self.logs[side as usize].first()
    }

    fn rows(&self, side: Side) -> usize {
        self.logs[side as usize].len()
    }

    fn matched(&self, side: Side) -> (Vec<bool>, usize) {
        self.logs[side as usize].matched()
    }

    /// One number: threads take pieces, and have no part of the join to themselves.
    fn comparisons(&self) -> Vec<u64> {
        vec![self.comparisons]
    }

    fn memory(&self) -> usize {
        let of_tasks = self.tasks.as_ref().map_or(0, TaskJoin::memory);
        of_tasks
            + self.logs.iter().map(RowLog::memory).sum::<usize>()
            + self.indexes.iter().map(I::memory).sum::<usize>()
    }

    fn restore(&mut self, kept: &[Kept; 2], bands: [&[Bands<'_>]; 2]) {
        assert_eq!(self.logs.len(), 2, "a join of two streams");
        for (at, (log, kept)) in self.logs.iter_mut().zip(kept).enumerate() {
            log.restore(kept, |columns| columns.extend(kept.ts.iter().copied(), bands[at]));
            let rows = log.entries(0..log.end());
            match &mut self.tasks {
                Some(tasks) => tasks.refill(at, &rows),
                None => self.indexes[at].insert_all(&rows),
            }
        }
    }
}

#[cfg(test)]
mod tests;
