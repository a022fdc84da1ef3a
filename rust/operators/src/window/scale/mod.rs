//! The window join of rows in merged order: every pair within the windows is compared, by all
//! threads.
//!
//! ```text
//!              ┌─ share 0: windows of rows 0, 2, 4 .. ─▶ pairs ─┐
//! epoch ───────┤                                                ├─▶ by later row, then earlier row ─▶ results
//!              └─ share 1: windows of rows 1, 3, 5 .. ─▶ pairs ─┘
//! ```
//!
//! Gulisano, Nikolakopoulos, Papatriantafilou and Tsigas, "ScaleJoin: a Deterministic,
//! Disjoint-Parallel and Skew-Resilient Stream Join", Algorithm 1. A row is stored in one share,
//! round robin (L19-20), and compared with the rows that every share has of the other side's window
//! (L16-18). So each pair is compared once, and the work is equal whatever the values, the rates
//! and the sources.
//!
//! # Departures
//!
//! 1. Rows are taken in epochs, which a gate has made ready, and not one by one. All rows of an
//!    epoch are stored first; a row's window then ends before the row itself.
//! 2. A pair is compared if its rows are within the window. In the paper's order of steps a row may
//!    also meet some that are just out of it (section III).
//! 3. Each side is counted by itself. Were rows of five left sources and one right source counted
//!    together, every row of the right side would go to the same two of four shares.
//! 4. The caller, and not a second gate, puts together the pairs that the threads found. They are
//!    in order, epoch by epoch.
//!
//! # Other ways
//!
//! [`ScaleJoin::of_parts`] makes a join whose threads compare other parts of the windows, and
//! [`ScaleJoin::comparing_by`] one whose shares compare row by row. Algorithms to compare with are
//! made of these; all find the same pairs.
//!
//! Window joins without a numeric condition use ScaleJoin by default, so it is in this crate, not in
//! `rust/papers`.
//!
//! # Beyond the paper
//!
//! [`ScaleAlgorithm::Indexed`]: there is one share, and threads share the new rows of an epoch instead. Each row then
//! costs one thread some time as such, and not every thread: much of the work, where a row's part of a window is short.
//! Where few pairs of long windows match, the share's rows are in blocks by value, in which new rows are looked up
//! ([`Index`](crate::predicate::Index)).
//!
//! Long because it contains the whole protocol of an epoch: what the threads do, and in what order.

mod epoch;
mod share;

use std::fmt;
use std::ops::Range;

use tidegate_structures::memory;
use tidegate_structures::memory::partition::ranges;

use super::{Operands, TimeLog};
use crate::driver::{Driver, Stopped};
use crate::predicate::Term;
use crate::rows::{
    Extent, Filter, FilterError, How, Interval, JoinError, KeptColumn, Progress, Reach, Results,
    Retention, RowJoin, RowLog, SavedRows, Side, SideWatermarks,
};
use epoch::Epoch;
use share::{MatchOffsets, Share};

/// How threads share the comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleAlgorithm {
    /// Each thread has a share of the rows in the windows. The default of joins without terms, where
    /// there is nothing to look up.
    ScaleJoin,
    /// Each thread has a share of the new rows. They are looked up by value where that takes less
    /// time, by a sample.
    Indexed,
}

/// Pairs that are found before they are taken, about.
const MOST_PAIRS: u64 = if cfg!(test) { 20 } else { 1 << 18 };

/// Pairs that the first rows compared may leave at most, and how many times as many those after
/// them.
const FIRST_PAIRS: u64 = if cfg!(test) { 50 } else { 1 << 22 };
const GROWTH: u64 = 16;

/// Pairs that a thread compares in one step, at most: a fraction of a second, after which a call may
/// be ended.
const STEP_PAIRS: u64 = if cfg!(test) { 500 } else { 1 << 28 };

/// Rows compared in one step, at most: there is memory for each.
const MOST_ROWS: usize = if cfg!(test) { 16 } else { 1 << 14 };

/// Pairs below which a step is not worth waking other threads for.
const SMALL_STEP: u64 = if cfg!(test) { 10 } else { 1 << 18 };

/// Pairs that a filter is given at a time.
const FILTER_PAIRS: usize = 1 << 12;

/// Rows that are gone before they are moved out.
const GONE: usize = 1 << 12;

/// What a thread compares with all rows of a step: a share's part of each row's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    share: usize,
    /// The number of a piece of that, and of how many; all of it if there is none.
    piece: Option<(usize, usize)>,
}

impl Part {
    /// All that the share of this number has of a window.
    pub fn of_share(share: usize) -> Self {
        Part { share, piece: None }
    }

    /// The piece of this number, of so many pieces of equal length that a window is cut into. One
    /// share keeps all rows.
    pub fn of_window(nth: usize, pieces: usize) -> Self {
        debug_assert!(nth < pieces, "piece {nth} of {pieces}");
        Part { share: 0, piece: Some((nth, pieces)) }
    }
}

/// Who compares what.
enum Way {
    /// Each thread compares a share of the new rows with the whole windows.
    NewRows,
    /// Each thread compares all new rows with a part of the windows.
    Parts(Vec<Part>),
    /// Each share compares all new rows with what it keeps, one row after the other.
    RowByRow(Box<dyn CompareRows>),
}

/// What a thread compares in a step.
struct Task {
    part: Part,
    /// Rows of the epoch.
    rows: Range<usize>,
}

/// Another way in which shares compare the rows of an epoch than all at once.
pub trait CompareRows: Send + Sync {
    /// The matches of rows of the epoch, whose sides these are, by row. Each processor has been
    /// given every row, in order.
    fn compare(
        &self,
        rows: Range<usize>,
        sides: &[Side],
        processors: Vec<Processor<'_>>,
        driver: &Driver,
    ) -> Result<Vec<MatchedRow>, Stopped>;
}

/// Matches that a processor found of a row of the epoch.
#[derive(Debug)]
pub struct MatchedRow {
    /// The row's place in the epoch.
    pub row: usize,
    /// The offsets of the other side's rows.
    pub offsets: Vec<u32>,
}

/// A share, and what it takes to compare rows with it one by one.
#[derive(Debug)]
pub struct Processor<'a> {
    share: &'a mut Share,
    number: u64,
    /// How many there are.
    processors: u64,
    /// Rows of each side ever stored by all of them: a processor counts for itself.
    counters: [u64; 2],
    terms: &'a [Term],
    gone: [usize; 2],
    firsts: [u64; 2],
    epoch: &'a Epoch,
    compared: &'a mut u64,
}

impl Processor<'_> {
    /// Compares the next row of the epoch with what came before it, and stores it if it is this
    /// share's turn. Returns the offsets of its matches.
    pub fn process(&mut self, row: usize) -> Vec<u32> {
        let (terms, gone, epoch) = (self.terms, self.gone, self.epoch);
        let firsts = self.firsts.map(|first| first as u32);
        // Algorithm 1, L16-18.
        let found = self.share.compare(terms, gone, firsts, epoch, row..row + 1, None);
        *self.compared += found.compared;
        // L19-20.
        let side = epoch.sides[row];
        let counter = &mut self.counters[side as usize];
        if *counter % self.processors == self.number {
            let mut rows = [Vec::new(), Vec::new()];
            rows[side as usize].push(epoch.offsets[row]);
            self.share.store(terms, gone, self.firsts, rows);
        }
        *counter += 1;
        found.into_offsets()
    }
}

/// The state of a join.
///
/// In this example, rows match if their times differ by at most 10 and the left number is not
/// greater than the right one:
///
/// ```
/// use tidegate_operators::driver::Driver;
/// use tidegate_operators::predicate::{Constraint, Numbers, Operand, Order, Relation, Term};
/// use tidegate_operators::rows::{How, Retention, RowJoin, Side};
/// use tidegate_operators::window::scale::{ScaleAlgorithm, ScaleJoin};
/// use tidegate_sync::Stop;
///
/// let numbers = |values: &[i64]| Operand::new(Numbers::I64(values.to_vec()), None);
/// let order = Order::LessOrEqual;
/// let relation = Relation::Whole(vec![Constraint::Difference { order, than: 0 }]);
/// let term = Term::new(numbers(&[]), numbers(&[]), relation).expect("no row yet");
/// let (window, algorithm) = (Retention::Time { left: 10, right: 10 }, ScaleAlgorithm::ScaleJoin);
/// let mut join = ScaleJoin::new(window, How::Inner, algorithm, 2, true, vec![term]);
/// // Two left rows with the numbers 7 and 5, then a right row with the number 6.
/// let sides = vec![Side::Left, Side::Left, Side::Right];
/// let rows = [(numbers(&[7, 5]), numbers(&[6]))];
/// let driver = Driver::new(2, Stop::default());
/// join.begin(&driver, vec![1, 2, 3], sides, Some(&rows));
/// let pairs = join.advance(&driver, None)?.into_results();
/// assert_eq!((pairs.left, pairs.right), (vec![1], vec![0])); // 5 with 6
/// # Ok::<(), tidegate_operators::rows::JoinError>(())
/// ```
pub struct ScaleJoin {
    extent: Extent,
    /// Which times match; `None` if rows are in merged order.
    near: Option<Reach>,
    how: How,
    ordered: bool,
    logs: [TimeLog; 2],
    /// The conditions that are scanned for. They have the numbers of the rows in the logs, behind
    /// the numbers of some rows that are gone.
    terms: Vec<Term>,
    /// Whether it is. Not any more once a number does not fit.
    compares: bool,
    gone: [usize; 2],
    shares: Vec<Share>,
    /// Rows of each side ever stored, which says whose turn it is.
    counters: [u64; 2],
    comparisons: Vec<u64>,
    way: Way,
    epoch: Epoch,
    /// The next row of the epoch whose results are to be found.
    next: usize,
    /// Pairs that the next rows may have in their windows.
    budget: u64,
}

impl fmt::Debug for ScaleJoin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScaleJoin")
            .field("how", &self.how)
            .field("epoch", &self.epoch.ts.len())
            .finish_non_exhaustive()
    }
}

impl ScaleJoin {
    /// A join without rows, which scans for `terms`; those have no rows either.
    pub fn new(
        retention: Retention,
        how: How,
        algorithm: ScaleAlgorithm,
        threads: usize,
        ordered: bool,
        terms: Vec<Term>,
    ) -> Self {
        match algorithm {
            ScaleAlgorithm::ScaleJoin => {
                let parts = (0..threads).map(Part::of_share).collect();
                Self::of_parts(retention, how, ordered, terms, parts)
            }
            ScaleAlgorithm::Indexed => {
                let share = vec![Share::new(&terms, true)];
                Self::of_shares(retention, how, ordered, terms, share, threads, Way::NewRows)
            }
        }
    }

    /// As [`new`](Self::new), with a thread for each of these parts, which compares all new rows
    /// with it. Together the parts are whole windows. Rows go to as many shares as the parts name,
    /// round robin.
    pub fn of_parts(
        retention: Retention,
        how: How,
        ordered: bool,
        terms: Vec<Term>,
        parts: Vec<Part>,
    ) -> Self {
        let shares = parts.iter().map(|part| part.share + 1).max().expect("there is a part");
        let (shares, comparers) =
            ((0..shares).map(|_| Share::new(&terms, false)).collect(), parts.len());
        Self::of_shares(retention, how, ordered, terms, shares, comparers, Way::Parts(parts))
    }

    fn of_shares(
        retention: Retention,
        how: How,
        ordered: bool,
        terms: Vec<Term>,
        shares: Vec<Share>,
        comparers: usize,
        way: Way,
    ) -> Self {
        let log = |side| RowLog::new(side, how, KeptColumn::default());
        ScaleJoin {
            extent: Extent::new(retention),
            near: None,
            how,
            ordered,
            logs: [log(Side::Left), log(Side::Right)],
            shares,
            terms,
            compares: true,
            gone: [0; 2],
            counters: [0; 2],
            comparisons: vec![0; comparers],
            way,
            epoch: Epoch::default(),
            next: 0,
            budget: FIRST_PAIRS,
        }
    }

    /// Returns the same join for rows in arrival order; the join must be empty. Its windows contain
    /// all kept rows, and the times are among the numbers of the terms. A row is kept as long as
    /// future rows may be `near` it in time.
    #[must_use]
    pub fn in_arrival_order(self, near: &Interval) -> Self {
        let (how, reach) = (self.how, Reach::new(near));
        ScaleJoin {
            extent: Extent::Rows([u64::MAX; 2]),
            near: Some(reach),
            logs: self.logs.map(|log| log.in_arrival_order(how, reach)),
            ..self
        }
    }

    /// The same, whose shares compare in another way. They have been made for ScaleJoin.
    #[must_use]
    pub fn comparing_by(self, way: Box<dyn CompareRows>) -> Self {
        debug_assert_eq!(self.shares.len(), self.comparisons.len(), "a share for each comparer");
        ScaleJoin { way: Way::RowByRow(way), ..self }
    }

    /// The matches of rows of the epoch, by another way, on the caller's thread if they are `few`.
    fn compare_by(
        &mut self,
        rows: Range<usize>,
        few: bool,
        driver: &Driver,
    ) -> Result<Option<MatchOffsets>, JoinError> {
        let Way::RowByRow(way) = &self.way else { return Ok(None) };
        let processors = self.shares.len() as u64;
        let (terms, gone, counters, epoch) =
            (&self.terms[..], self.gone, self.counters, &self.epoch);
        let firsts = self.logs.each_ref().map(RowLog::first);
        let processor = |(number, (share, compared))| Processor {
            share,
            number,
            processors,
            counters,
            terms,
            gone,
            firsts,
            epoch,
            compared,
        };
        let all = (0..).zip(self.shares.iter_mut().zip(&mut self.comparisons)).map(processor);
        let driver = if few { driver.fit(0) } else { driver.clone() };
        let found = way.compare(rows.clone(), &epoch.sides, all.collect(), &driver);
        let found = found.map_err(JoinError::Stopped)?;
        for &side in &epoch.sides[rows.clone()] {
            self.counters[side as usize] += 1;
        }
        Ok(Some(MatchOffsets::of_rows(found, rows)))
    }

    /// The data that pairs are compared by, for people.
    pub fn compared_by(&self) -> &'static str {
        self.shares[0].compared_by()
    }

    /// Gives the rows of the epoch to shares, round robin.
    fn store(&mut self, sides: &[Side]) {
        // Rows are dealt out evenly, so a share gets at most this many rows of either side.
        let most = sides.len().div_ceil(self.shares.len());
        let of_share = |_| [memory::vec(most), memory::vec(most)];
        let mut rows: Vec<[Vec<u32>; 2]> = (0..self.shares.len()).map(of_share).collect();
        for (&side, &offset) in sides.iter().zip(&self.epoch.offsets) {
            // Algorithm 1, L19.
            let counter = &mut self.counters[side as usize];
            rows[(*counter % self.shares.len() as u64) as usize][side as usize].push(offset);
            *counter += 1;
        }
        for (share, rows) in self.shares.iter_mut().zip(rows) {
            share.store(&self.terms, self.gone, self.logs.each_ref().map(RowLog::first), rows);
        }
    }

    /// Takes in the numbers of rows, behind the numbers that the terms have. If they do not all
    /// fit, the terms are forgotten, for good.
    fn take_numbers(&mut self, numbers: Operands<'_>) {
        self.compares &= numbers.is_some_and(|numbers| {
            assert_eq!(self.terms.len(), numbers.len(), "numbers for each term");
            // All of them, so that each has the numbers of every row.
            let terms = self.terms.iter_mut().zip(numbers);
            let fit = terms.map(|(term, (left, right))| term.append(left, right));
            fit.fold(true, |all, fits| all & fits)
        });
        if !self.compares && !self.terms.is_empty() {
            self.terms.clear();
            self.shares.iter_mut().for_each(Share::forget_terms);
        }
    }

    /// Keeps only the matches whose times are within `reach` of the epoch row that they match.
    fn keep_near(&self, found: MatchOffsets, rows: Range<usize>, reach: &Reach) -> MatchOffsets {
        let mut kept = memory::vec(found.pairs());
        for (nth, row) in rows.enumerate() {
            let side = self.epoch.sides[row];
            let (times, others) =
                (reach.times(side, self.epoch.ts[row]), self.logs[side.other() as usize].ts());
            let is_near = |&offset: &u32| {
                times.is_some_and(|(first, last)| (first..=last).contains(&others[offset as usize]))
            };
            kept.extend(found.of(nth).iter().map(is_near));
        }
        found.retain(&kept)
    }

    /// Distributes all kept rows among the shares, which must be empty.
    fn store_all(&mut self) {
        let [left, right] = self.logs.each_ref().map(RowLog::len);
        let mut sides = vec![Side::Left; left];
        sides.resize(left + right, Side::Right);
        self.epoch.offsets = (0..left as u32).chain(0..right as u32).collect();
        self.store(&sides);
        self.epoch.offsets.clear();
    }

    /// Drops the given number of rows from each side, oldest first.
    fn let_go(&mut self, rows: [usize; 2]) {
        for (side, rows) in [Side::Left, Side::Right].into_iter().zip(rows) {
            let log = &mut self.logs[side as usize];
            log.drop_first(rows);
            if self.terms.is_empty() {
                continue;
            }
            let gone = &mut self.gone[side as usize];
            *gone += rows;
            if *gone > GONE.max(log.len() / 4) {
                self.terms.iter_mut().for_each(|term| term.drop_front(side, *gone));
                *gone = 0;
            }
        }
        let firsts = self.logs.each_ref().map(RowLog::first);
        self.shares.iter_mut().for_each(|share| share.drop_before(firsts));
    }

    fn filter(
        &self,
        found: MatchOffsets,
        rows: Range<usize>,
        firsts: [u32; 2],
        driver: &Driver,
        filter: &Filter<'_>,
    ) -> Result<MatchOffsets, JoinError> {
        let (mut later, mut sides) = (memory::vec(found.pairs()), memory::vec(found.pairs()));
        for (nth, row) in rows.clone().enumerate() {
            let count = found.of(nth).len();
            later.resize(later.len() + count, self.epoch.offsets[row]);
            sides.resize(sides.len() + count, self.epoch.sides[row]);
        }
        let blocks: Vec<Range<usize>> = (0..later.len())
            .step_by(FILTER_PAIRS)
            .map(|start| start..later.len().min(start + FILTER_PAIRS))
            .collect();
        let keep = |block: Range<usize>| {
            let pair = |at: usize| {
                let (own, other) = (later[at], found.offsets()[at]);
                let (left, right) =
                    if sides[at] == Side::Left { (own, other) } else { (other, own) };
                (firsts[0].wrapping_add(left), firsts[1].wrapping_add(right))
            };
            let (mut left, mut right) = (memory::vec(block.len()), memory::vec(block.len()));
            left.extend(block.clone().map(|at| pair(at).0));
            right.extend(block.map(|at| pair(at).1));
            filter(&left, &right)
        };
        let kept = driver.map(blocks, keep).map_err(JoinError::Stopped)?;
        let kept = kept.into_iter().collect::<Result<Vec<_>, FilterError>>();
        let kept = memory::concat(&kept.map_err(JoinError::Filter)?);
        Ok(found.retain(&kept))
    }

    /// The results of rows of the epoch, whose matches have been found.
    fn collect(&mut self, rows: Range<usize>, found: &MatchOffsets) -> Results {
        let mut results = Results::default();
        for (nth, row) in rows.enumerate() {
            let (side, matches) = (self.epoch.sides[row], found.of(nth));
            if matches.is_empty() {
                continue;
            }
            // Rows leave at their last matchable time: it is enough to look when a row has matches.
            if self.ordered {
                results.add_unmatched(
                    &mut self.logs,
                    &self.extent,
                    self.how,
                    [Some(self.epoch.ts[row]); 2],
                );
            }
            results.add(&mut self.logs, self.how, side, self.epoch.offsets[row], matches);
        }
        results
    }
}

impl RowJoin<Operands<'_>> for ScaleJoin {
    fn first(&self, side: Side) -> u64 {
        self.logs[side as usize].first()
    }

    fn rows(&self, side: Side) -> usize {
        self.logs[side as usize].len()
    }

    fn epoch_rows(&self) -> usize {
        self.epoch.ts.len()
    }

    fn is_done(&self) -> bool {
        self.next == self.epoch.ts.len()
    }

    fn comparisons(&self) -> Vec<u64> {
        self.comparisons.clone()
    }

    fn memory(&self) -> usize {
        let of_terms = |term: &Term| {
            [Side::Left, Side::Right].map(|side| term.operand(side).memory()).iter().sum::<usize>()
        };
        self.terms.iter().map(of_terms).sum::<usize>()
            + self.shares.iter().map(Share::memory).sum::<usize>()
            + self.logs.iter().map(RowLog::memory).sum::<usize>()
    }

    fn begin(&mut self, _: &Driver, ts: Vec<i64>, sides: Vec<Side>, numbers: Operands<'_>) {
        assert!(self.is_done(), "an epoch begins when the previous one ends");
        assert_eq!(ts.len(), sides.len(), "a side a row");
        self.next = 0;
        // 1. Rows go into the logs of their sides, and their numbers go into the terms.
        self.epoch.offsets.clear();
        let mut next = self.logs.each_ref().map(RowLog::len);
        for &side in &sides {
            self.epoch.offsets.push(next[side as usize] as u32);
            next[side as usize] += 1;
        }
        self.logs.iter_mut().for_each(|log| log.push(&ts, &sides));
        self.take_numbers(numbers);
        // 2. A share stores each row, and threads compare it with what comes before it of the other
        //    side.
        if !matches!(self.way, Way::RowByRow(_)) {
            self.store(&sides);
        }
        self.epoch.begin(ts, sides, &self.extent, &self.logs);
    }

    fn compares(&self) -> bool {
        self.compares
    }

    fn advance(
        &mut self,
        driver: &Driver,
        filter: Option<&Filter<'_>>,
    ) -> Result<Progress, JoinError> {
        // 1. As many rows as may have the pairs that there is room for.
        let mut sum = 0;
        let fits = |window: &&Range<u32>| {
            sum += window.len() as u64;
            sum <= self.budget
        };
        let count =
            self.epoch.windows[self.next..].iter().take(MOST_ROWS).take_while(fits).count().max(1);
        let rows = self.next..self.epoch.ts.len().min(self.next + count);
        let pairs: u64 =
            self.epoch.windows[rows.clone()].iter().map(|window| window.len() as u64).sum();
        // 2. All threads compare them.
        let comparers = self.comparisons.len();
        let firsts = self.logs.each_ref().map(|log| log.first() as u32);
        let whole = rows.clone();
        let tasks: Vec<Task> = match &self.way {
            Way::NewRows => ranges(whole.len(), comparers)
                .into_iter()
                .map(|own| whole.start + own.start..whole.start + own.end)
                .map(|rows| Task { part: Part::of_share(0), rows })
                .collect(),
            Way::Parts(parts) => {
                parts.iter().map(|&part| Task { part, rows: whole.clone() }).collect()
            }
            Way::RowByRow(_) => Vec::new(),
        };
        let small = pairs < SMALL_STEP;
        let by_way = self.compare_by(rows.clone(), small, driver)?;
        let compare = |Task { part: Part { share, piece }, rows }: Task| {
            self.shares[share].compare(&self.terms, self.gone, firsts, &self.epoch, rows, piece)
        };
        let found: Vec<MatchOffsets> = if small {
            tasks.into_iter().map(compare).collect()
        } else {
            driver.map(tasks, compare).map_err(JoinError::Stopped)?
        };
        for (comparisons, found) in self.comparisons.iter_mut().zip(&found) {
            *comparisons += found.compared;
        }
        // 3. What they found is put together in order, and filtered.
        let mut together = match (by_way, &self.way) {
            (Some(found), _) => found,
            (None, Way::NewRows) => MatchOffsets::concat(found),
            (None, _) => MatchOffsets::merge(found, rows.len()),
        };
        // If the next rows are like these, this budget leaves as many pairs as there is room for.
        let each = pairs / (together.pairs() as u64 + 1);
        let room = MOST_PAIRS.saturating_mul(each.max(1)).min(self.budget.saturating_mul(GROWTH));
        self.budget = room.min(STEP_PAIRS.saturating_mul(comparers as u64));
        if let Some(reach) = self.near.filter(|_| !self.compares) {
            // If values are not compared, neither are times. Pairs that are too far apart in time
            // are therefore removed here, before they reach the filter.
            together = self.keep_near(together, rows.clone(), &reach);
        }
        if let Some(filter) = filter {
            together = self.filter(together, rows.clone(), firsts, driver, filter)?;
        }
        self.next = rows.end;
        Ok(Progress::Results(self.collect(rows, &together)))
    }

    fn unmatched(&mut self, now: SideWatermarks) -> Results {
        debug_assert!(self.is_done(), "rows of the epoch may still match");
        let mut results = Results::default();
        results.add_unmatched(&mut self.logs, &self.extent, self.how, now);
        results
    }

    fn matched(&self, side: Side) -> (Vec<bool>, usize) {
        self.logs[side as usize].matched()
    }

    fn purge(&mut self, now: SideWatermarks) {
        debug_assert!(self.is_done(), "rows of the epoch may still match");
        self.let_go(self.logs.each_ref().map(|log| log.droppable(log.over(&self.extent, now))));
    }

    fn needed(&self, side: Side, now: SideWatermarks) -> Option<Vec<u32>> {
        self.logs[side as usize].needed(now)
    }

    fn pack(&mut self, now: SideWatermarks) -> Option<[Vec<u32>; 2]> {
        let kept = RowLog::needed_if_sparse(&mut self.logs, now)?;
        let gone = std::mem::take(&mut self.gone);
        let numbers = |term: &Term, side: Side| {
            let of_side = kept[side as usize].iter();
            let rows = of_side.map(|&offset| gone[side as usize] as u32 + offset);
            term.operand(side).rows_at(&rows.collect::<Vec<_>>())
        };
        for term in &mut self.terms {
            *term = term.of_rows(&numbers(term, Side::Left), &numbers(term, Side::Right));
        }
        for (log, kept) in self.logs.iter_mut().zip(&kept) {
            log.retain(kept, |columns| columns.retain(kept));
        }
        let without_rows: Vec<Term> = self.terms.iter().map(Term::without_rows).collect();
        self.shares.iter_mut().for_each(|share| share.clear(&without_rows));
        self.store_all();
        Some(kept)
    }

    fn restore(&mut self, kept: &[SavedRows; 2], numbers: Operands<'_>) {
        for (log, kept) in self.logs.iter_mut().zip(kept) {
            log.restore(kept, |columns| columns.extend(kept.ts.iter().copied()));
        }
        self.take_numbers(numbers);
        self.store_all();
    }
}
