//! ScaleJoin over ScaleGates: threads process rows between two gates, without waiting for each
//! other.
//!
//! ```text
//! left rows  ─┐            ┌─ reader 0 ─▶ thread 0, its share of the windows ─▶ source 0 ─┐
//!             ├─▶ SG_in ───┤                                                              ├─▶ SG_out ─▶ matches in order
//! right rows ─┘            └─ reader 1 ─▶ thread 1, its share of the windows ─▶ source 1 ─┘
//! ```
//!
//! Gulisano, Nikolakopoulos, Papatriantafilou and Tsigas, "ScaleJoin: a Deterministic,
//! Disjoint-Parallel and Skew-Resilient Stream Join", Figure 2 and Algorithm 1. Both gates are the
//! [row gate](crate::row_gate). The gates, the threads and their shares exist as long as the join
//! does. Each thread has its own reader, so every thread sees all rows and no thread waits for
//! another. A thread compares each row with its share of the other side's window (L16-18). The
//! thread stores the row if its own counters show that it is this thread's turn (L19-20), and drops
//! rows that have left their window (L21-23). The thread then adds the matches to SG_out, as one of
//! its sources. SG_out hands out a row's matches once every thread has passed the row.
//!
//! The join's caller plays the roles of the paper's injecting and collecting threads. The threads
//! keep running between calls as long as rows are in flight, and sleep otherwise.
//!
//! | file | contents |
//! | --- | --- |
//! | `pipes.rs` | the gates, and the signals between threads |
//! | `share.rs` | a thread's share of the windows |
//!
//! # Departures
//!
//! Departure 3 of [`window::scale`](tidegate_operators::window::scale) applies here, too.
//!
//! 1. SG_in has two sources, one per side. The operator's own gate has already merged the rows from
//!    several physical streams. A row's position in the merged order is its time.
//!
//! 2. Rows that have left the window are dropped before the next row is compared with the window,
//!    instead of afterwards. In the paper's order of steps, a row may also meet rows that are just
//!    outside its window (section III).
//!
//! 3. If a thread finds no matches for some rows, it promises SG_out that it has passed these rows.
//!    In the paper, the matches of other threads wait until this thread finds a match.
//!
//! 4. A thread waits after it has found many matches that have not been taken. A thread that finds
//!    no row eventually goes to sleep, whereas the paper's thread keeps trying (L10).
//!
//! 5. A thread compares numbers. The thread that takes the matches evaluates all other conditions
//!    before it passes the matches on.
//!
//! # Trade-offs
//!
//! Rows are compared one by one, and every thread takes a step in a gate for each row. The default
//! algorithm avoids both costs (see BENCHMARKS.md).

mod pipes;
mod share;

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;

use parking_lot::Mutex;
use tidegate_structures::memory;
use tidegate_sync::atomic::Arc;

use crate::threads::Workers;
pub use pipes::{Entry, Exit, Passage, Process, WorkerMatches, pipes};
use share::{Item, Piece, Processor, ThreadFigures};
use tidegate_operators::driver::Driver;
use tidegate_operators::predicate::{Operand, Term};
use tidegate_operators::rows::{
    Extent, Filter, FilterError, How, JoinError, KeptColumn, Progress, Results, Retention, RowJoin,
    RowLog, SavedRows, Side, SideWatermarks,
};
use tidegate_operators::window::{Operands, TimeLog};

/// The number of rows in flight at which no more rows are accepted.
const MOST_ROWS: u64 = if cfg!(test) { 16 } else { 1 << 16 };

/// The number of rows that a call waits for, if at least this many are in flight.
const STRIDE: u64 = if cfg!(test) { 4 } else { 1 << 10 };

/// The approximate number of pairs that are taken at a time.
const MOST_PAIRS: usize = if cfg!(test) { 20 } else { 1 << 18 };

/// The number of pairs passed to a filter at a time.
const FILTER_PAIRS: usize = 1 << 12;

/// A window join whose threads keep running between calls.
///
/// ```
/// use tidegate_operators::driver::Driver;
/// use tidegate_papers::scale_gates::GatedScaleJoin;
/// use tidegate_operators::rows::{How, Retention, RowJoin, Side};
/// use tidegate_sync::Stop;
///
/// let window = Retention::Time { left: 10, right: 10 };
/// let mut join = GatedScaleJoin::new(window, How::Inner, 2, true, Vec::new(), false)?;
/// let driver = Driver::new(1, Stop::default());
/// // Two epochs are in flight.
/// join.begin(&driver, vec![1, 2], vec![Side::Left, Side::Right], Some(&[]));
/// join.begin(&driver, vec![30, 31], vec![Side::Left, Side::Right], Some(&[]));
/// let mut pairs = (Vec::new(), Vec::new());
/// while !join.is_done() {
///     let found = join.advance(&driver, None).expect("the driver is not stopped").into_results();
///     pairs.0.extend(found.left);
///     pairs.1.extend(found.right);
/// }
/// assert_eq!(pairs, (vec![0, 1], vec![0, 1]));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct GatedScaleJoin {
    extent: Extent,
    how: How,
    ordered: bool,
    logs: [TimeLog; 2],
    /// The conditions that a scan tests, with the smallest and largest number in any row.
    terms: Vec<Term>,
    /// True as long as all numbers fit. The conditions are then scanned.
    compares: bool,
    entry: Mutex<Entry<Item>>,
    exit: Mutex<Exit>,
    /// The number of rows added.
    rows: u64,
    /// The number of rows for which results were returned, in total and per side. Also contains the
    /// last such row's time.
    given: u64,
    given_of: [u64; 2],
    last: Option<i64>,
    /// The pieces with rows in flight. The first piece may also contain rows whose results were
    /// returned.
    pieces: VecDeque<Arc<Piece>>,
    figures: Arc<Vec<ThreadFigures>>,
    workers: Workers,
}

impl fmt::Debug for GatedScaleJoin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatedScaleJoin")
            .field("how", &self.how)
            .field("rows", &self.rows)
            .field("given", &self.given)
            .finish_non_exhaustive()
    }
}

impl GatedScaleJoin {
    /// Creates a join that scans for `terms`. Neither the join nor the terms contain any rows yet.
    /// Starts `threads` threads. If `pin` is set, each thread is pinned to one processor.
    pub fn new(
        retention: Retention,
        how: How,
        threads: usize,
        ordered: bool,
        terms: Vec<Term>,
        pin: bool,
    ) -> std::io::Result<Self> {
        let extent = Extent::new(retention);
        let figures: Arc<Vec<ThreadFigures>> =
            Arc::new((0..threads).map(|_| ThreadFigures::default()).collect());
        let (entry, parts, exit, crew) = pipes(threads);
        let work = parts.into_iter().enumerate().map(|(id, part)| {
            let processor = Processor::new(extent, id, threads, &terms, figures.clone());
            move || part.run(processor)
        });
        let workers = Workers::start(work, pin, move || crew.end())?;
        let log = |side| RowLog::new(side, how, KeptColumn::default());
        Ok(GatedScaleJoin {
            extent,
            how,
            ordered,
            logs: [log(Side::Left), log(Side::Right)],
            terms,
            compares: true,
            entry: Mutex::new(entry),
            exit: Mutex::new(exit),
            rows: 0,
            given: 0,
            given_of: [0; 2],
            last: None,
            pieces: VecDeque::new(),
            figures,
            workers,
        })
    }

    /// Returns the conditions for additional rows, with the numbers of these rows. If a number does
    /// not fit, returns `None` from then on.
    fn terms_of(&mut self, numbers: Operands<'_>) -> Option<Vec<Term>> {
        self.compares &= numbers.is_some_and(|numbers| {
            assert_eq!(self.terms.len(), numbers.len(), "numbers for each term");
            let terms = self.terms.iter_mut().zip(numbers);
            terms.fold(true, |fit, (term, (left, right))| fit & term.widen(left, right))
        });
        if !self.compares {
            self.terms.clear();
            return None;
        }
        let of_rows =
            |(term, (left, right)): (&Term, &(Operand, Operand))| term.of_rows(left, right);
        Some(self.terms.iter().zip(numbers?).map(of_rows).collect())
    }

    /// Adds rows that are already in the logs.
    fn put(&mut self, ts: Vec<i64>, sides: Vec<Side>, numbers: Operands<'_>, are_compared: bool) {
        let terms = self.terms_of(numbers);
        if ts.is_empty() {
            return;
        }
        let firsts = [Side::Left, Side::Right].map(|side| {
            let own = sides.iter().filter(|&&other| other == side).count();
            self.logs[side as usize].end() - own as u64
        });
        let piece = Arc::new(Piece::new(self.rows, firsts, ts, sides, terms, are_compared));
        let entry = self.entry.get_mut();
        for (nth, &side) in piece.sides.iter().enumerate() {
            entry.put(side, Item::Row { piece: piece.clone(), nth: nth as u32 });
        }
        entry.call();
        self.rows = piece.end();
        self.pieces.push_back(piece);
    }

    /// Returns the piece that contains a row whose results have not been returned.
    fn piece(&self, row: u64) -> &Piece {
        let at = self.pieces.partition_point(|piece| piece.end() <= row);
        &self.pieces[at]
    }

    /// Keeps only the pairs that pass a filter.
    fn filter(
        &self,
        taken: WorkerMatches,
        driver: &Driver,
        filter: &Filter<'_>,
    ) -> Result<WorkerMatches, JoinError> {
        let mut pairs = [memory::vec(taken.numbers.len()), memory::vec(taken.numbers.len())];
        let mut start = 0;
        for &(row, end) in &taken.rows {
            let piece = self.piece(row);
            let nth = (row - piece.first) as usize;
            let side = piece.sides[nth];
            pairs[side as usize].resize(end, piece.number(nth) as u32);
            pairs[side.other() as usize].extend_from_slice(&taken.numbers[start..end]);
            start = end;
        }
        let [left, right] = &pairs;
        let blocks: Vec<Range<usize>> = (0..left.len())
            .step_by(FILTER_PAIRS)
            .map(|start| start..left.len().min(start + FILTER_PAIRS))
            .collect();
        let keep = |block: Range<usize>| filter(&left[block.clone()], &right[block]);
        let kept = driver.map(blocks, keep).map_err(JoinError::Stopped)?;
        let kept = kept.into_iter().collect::<Result<Vec<_>, FilterError>>();
        let kept = memory::concat(&kept.map_err(JoinError::Filter)?);
        let mut left = WorkerMatches::default();
        let mut start = 0;
        for (row, end) in taken.rows {
            let before = left.numbers.len();
            let of_row = taken.numbers[start..end].iter().zip(&kept[start..end]);
            left.numbers.extend(of_row.filter(|(_, kept)| **kept).map(|(number, _)| *number));
            if left.numbers.len() > before {
                left.rows.push((row, left.numbers.len()));
            }
            start = end;
        }
        Ok(left)
    }

    /// Returns the results of rows whose matches have all been found.
    fn collect(&mut self, taken: WorkerMatches) -> Results {
        let mut results = Results::default();
        let WorkerMatches { rows, mut numbers } = taken;
        let mut start = 0;
        for (row, end) in rows {
            let piece = self.piece(row);
            let nth = (row - piece.first) as usize;
            let (ts, side, number) = (piece.ts[nth], piece.sides[nth], piece.number(nth));
            let offset = (number - self.logs[side as usize].first()) as u32;
            let first = self.logs[side.other() as usize].first() as u32;
            let matches = &mut numbers[start..end];
            start = end;
            // Several threads have found the matches.
            matches.iter_mut().for_each(|number| *number = number.wrapping_sub(first));
            matches.sort_unstable();
            // Rows expire after their last matchable time, so it is enough to check this when a row
            // has matches.
            if self.ordered {
                results.add_unmatched(&mut self.logs, &self.extent, self.how, [Some(ts); 2]);
            }
            results.add(&mut self.logs, self.how, side, offset, matches);
        }
        results
    }

    /// Records that the results of all rows before `upto` were returned.
    fn give(&mut self, upto: u64) {
        while let Some(piece) = self.pieces.front() {
            let rows =
                (self.given - piece.first) as usize..(upto.min(piece.end()) - piece.first) as usize;
            if let Some(&last) = piece.ts[rows.clone()].last() {
                self.last = Some(last);
            }
            for &side in &piece.sides[rows] {
                self.given_of[side as usize] += 1;
            }
            self.given = upto.min(piece.end());
            if self.given < piece.end() {
                return;
            }
            self.pieces.pop_front();
        }
    }

    /// Returns how many of a side's kept rows cannot match any row at `now` or later.
    fn over(&self, side: Side, now: Option<i64>) -> usize {
        let log = &self.logs[side as usize];
        match (now, self.extent) {
            // Rows in flight may still match the kept rows.
            (Some(_), Extent::Rows(counts)) => {
                let first = self.given_of[side as usize].saturating_sub(counts[side as usize]);
                first.saturating_sub(log.first()) as usize
            }
            _ => log.over(&self.extent, [now; 2]),
        }
    }
}

impl RowJoin<Operands<'_>> for GatedScaleJoin {
    fn begin(&mut self, _: &Driver, ts: Vec<i64>, sides: Vec<Side>, numbers: Operands<'_>) {
        assert!(self.takes_rows(), "the join accepts rows");
        assert_eq!(ts.len(), sides.len(), "one side per row");
        self.logs.iter_mut().for_each(|log| log.push(&ts, &sides));
        self.put(ts, sides, numbers, true);
    }

    fn compares(&self) -> bool {
        self.compares
    }

    fn epoch_rows(&self) -> usize {
        (self.rows - self.given) as usize
    }

    fn is_done(&self) -> bool {
        self.given == self.rows
    }

    fn has_threads(&self) -> bool {
        true
    }

    fn takes_rows(&self) -> bool {
        self.rows - self.given < MOST_ROWS
    }

    fn given(&self) -> Option<i64> {
        self.last
    }

    fn advance(
        &mut self,
        driver: &Driver,
        filter: Option<&Filter<'_>>,
    ) -> Result<Progress, JoinError> {
        if self.is_done() {
            return Ok(Progress::Results(Results::default()));
        }
        let wanted = self.rows.min(self.given + STRIDE);
        let exit = self.exit.get_mut();
        let passed = exit.wait(self.given, wanted, || driver.is_paused());
        let (mut taken, upto) = exit.take(passed, MOST_PAIRS);
        if let Some(filter) = filter {
            taken = self.filter(taken, driver, filter)?;
        }
        let results = self.collect(taken);
        self.give(upto);
        Ok(Progress::Results(results))
    }

    fn unmatched(&mut self, now: SideWatermarks) -> Results {
        debug_assert!(now[0].is_none_or(|now| self.is_done() || Some(now) <= self.last));
        let mut results = Results::default();
        results.add_unmatched(&mut self.logs, &self.extent, self.how, now);
        results
    }

    fn purge(&mut self, [now, _]: SideWatermarks) {
        debug_assert!(now.is_none_or(|now| self.is_done() || Some(now) <= self.last));
        for side in [Side::Left, Side::Right] {
            let over = self.over(side, now);
            self.logs[side as usize].drop_first(over);
        }
        // Threads drop rows when they see the times of later rows. A promise has to be passed on to
        // them.
        if now.is_none_or(|now| self.last.is_none_or(|last| last < now)) {
            let entry = self.entry.get_mut();
            entry.note(Item::Gone(self.logs.each_ref().map(RowLog::first)));
            entry.call();
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

    fn comparisons(&self) -> Vec<u64> {
        self.figures.iter().map(|figures| figures.compared.get() as u64).collect()
    }

    fn memory(&self) -> usize {
        self.figures.iter().map(|figures| figures.memory.get()).sum::<usize>()
            + self.pieces.iter().map(|piece| piece.memory()).sum::<usize>()
            + self.logs.iter().map(RowLog::memory).sum::<usize>()
    }

    fn restore(&mut self, kept: &[SavedRows; 2], numbers: Operands<'_>) {
        for (log, kept) in self.logs.iter_mut().zip(kept) {
            log.restore(kept, |columns| columns.extend(kept.ts.iter().copied()));
        }
        let [left, right] = kept;
        let ts = [&left.ts[..], &right.ts[..]].concat();
        let mut sides = vec![Side::Left; left.ts.len()];
        sides.resize(ts.len(), Side::Right);
        self.put(ts, sides, numbers, false);
        // These rows have no results.
        self.give(self.rows);
        self.last = None;
    }

    fn close(&mut self) {
        self.workers.end();
    }
}
