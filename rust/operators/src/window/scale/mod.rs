//! A window join for rows in merged order. Together, the threads of the join compare all pairs
//! within the windows.
//!
//! ```text
//!              ┌─ share 0: windows of rows 0, 2, 4 .. ─▶ pairs ─┐
//! epoch ───────┤                                                ├─▶ by later row, then earlier row ─▶ results
//!              └─ share 1: windows of rows 1, 3, 5 .. ─▶ pairs ─┘
//! ```
//!
//! Gulisano, Nikolakopoulos, Papatriantafilou and Tsigas, "ScaleJoin: a Deterministic,
//! Disjoint-Parallel and Skew-Resilient Stream Join", Algorithm 1. Rows are assigned to the shares
//! in turn, and each row is stored in one share (L19-20). In every share, a row is compared with
//! the rows in the other side's window (L16-18). Each pair is therefore compared exactly once. The
//! work is evenly distributed regardless of values, rates and sources.
//!
//! # Departures
//!
//! 1. Rows arrive in epochs, which a gate has made ready, instead of one by one. All rows in an
//!    epoch are stored before any row is compared, so each row's window has to end just before that
//!    row.
//! 2. A pair is compared if its rows are within the window. In the paper, a row can also be
//!    compared with rows that have just left its window, because of the order of the steps (section
//!    III).
//! 3. Each side has its own counter. With a shared counter, an unlucky arrival order could store
//!    all right rows in the same shares. For example, with five left sources and one right source,
//!    right rows could be stored in only two of four shares.
//! 4. The caller collects the pairs that the threads have found, so no second gate is needed. The
//!    pairs of each epoch are in order.
//!
//! # Other ways
//!
//! [`ScaleJoin::of_parts`] creates a join in which the threads compare different parts of the
//! windows. [`ScaleJoin::comparing_by`] creates a join in which the shares compare row by row. Both
//! constructors are used to build other algorithms for comparison. All of these algorithms find the
//! same pairs.
//!
//! Window joins without a numeric condition use ScaleJoin by default, so ScaleJoin is in this crate
//! and not in `rust/papers`.
//!
//! # Beyond the paper
//!
//! [`ScaleAlgorithm::Indexed`] uses a single share, and the threads divide the new rows in an epoch
//! among themselves. Only one thread then pays a row's fixed cost, instead of every thread. This
//! matters if each row is compared with only a few rows. If few pairs in long windows match, the
//! rows in the share are grouped into blocks by value. New rows are then looked up in these blocks
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

/// The division of the comparisons among the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleAlgorithm {
    /// Each thread compares all new rows with one share of the rows in the windows. This is the
    /// default for joins without terms, which have no values to look up.
    ScaleJoin,
    /// Each thread compares one share of the new rows with the whole windows. New rows are looked
    /// up by value if a sample shows that this takes less time.
    Indexed,
}

/// Pairs are returned once about this many have been found.
const MOST_PAIRS: u64 = if cfg!(test) { 20 } else { 1 << 18 };

/// The maximum number of pairs compared in the first step.
const FIRST_PAIRS: u64 = if cfg!(test) { 50 } else { 1 << 22 };
/// The maximum factor by which this limit grows from one step to the next.
const GROWTH: u64 = 16;

/// The maximum number of pairs that a thread compares in one step. A step takes a fraction of a
/// second, and a call can be stopped after each step.
const STEP_PAIRS: u64 = if cfg!(test) { 500 } else { 1 << 28 };

/// The maximum number of rows compared in one step, because each row takes memory.
const MOST_ROWS: usize = if cfg!(test) { 16 } else { 1 << 14 };

/// For steps with fewer pairs than this, waking other threads is not worthwhile.
const SMALL_STEP: u64 = if cfg!(test) { 10 } else { 1 << 18 };

/// The number of pairs passed to a filter at a time.
const FILTER_PAIRS: usize = 1 << 12;

/// Dropped rows are removed from the terms only if there are more than this many.
const GONE: usize = 1 << 12;

/// The rows that a thread compares with all new rows in a step. These are the rows in each window
/// that belong to one share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    share: usize,
    /// If only one piece of that part is compared, the index of the piece and the number of pieces.
    /// `None` means the whole part.
    piece: Option<(usize, usize)>,
}

impl Part {
    /// Returns the part of each window stored in share number `share`.
    pub fn of_share(share: usize) -> Self {
        Part { share, piece: None }
    }

    /// Returns piece `nth` of every window. Windows are cut into `pieces` pieces of equal length.
    /// All rows are stored in a single share.
    pub fn of_window(nth: usize, pieces: usize) -> Self {
        debug_assert!(nth < pieces, "piece {nth} of {pieces}");
        Part { share: 0, piece: Some((nth, pieces)) }
    }
}

/// The assignment of comparisons to threads.
enum Way {
    /// Each thread compares a share of the new rows with the whole windows.
    NewRows,
    /// Each thread compares all new rows with a part of the windows.
    Parts(Vec<Part>),
    /// Each share compares all new rows with its stored rows, one new row after another.
    RowByRow(Box<dyn CompareRows>),
}

/// The work of one thread in a step.
struct Task {
    part: Part,
    /// The rows in the epoch that are compared.
    rows: Range<usize>,
}

/// A way to compare an epoch's rows one by one instead of all together.
pub trait CompareRows: Send + Sync {
    /// Returns the matches of the given `rows` of the epoch, in row order. `sides` contains the
    /// side of each row in the epoch. Each processor must receive every row, in order.
    fn compare(
        &self,
        rows: Range<usize>,
        sides: &[Side],
        processors: Vec<Processor<'_>>,
        driver: &Driver,
    ) -> Result<Vec<MatchedRow>, Stopped>;
}

/// The matches that one processor found for a row in the epoch.
#[derive(Debug)]
pub struct MatchedRow {
    /// The position of the row in the epoch.
    pub row: usize,
    /// The offsets of the matches on the other side.
    pub offsets: Vec<u32>,
}

/// A share, together with everything that is needed to compare single rows with it.
#[derive(Debug)]
pub struct Processor<'a> {
    share: &'a mut Share,
    number: u64,
    /// The number of processors.
    processors: u64,
    /// The total number of rows per side that all processors have stored so far. Each processor has
    /// its own copy of these counts.
    counters: [u64; 2],
    terms: &'a [Term],
    gone: [usize; 2],
    firsts: [u64; 2],
    epoch: &'a Epoch,
    compared: &'a mut u64,
}

impl Processor<'_> {
    /// Compares the epoch's next row with the earlier rows in this share. If the row belongs to
    /// this share, it is then stored. Returns the offsets of the row's matches.
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
    /// The reach within which rows match in time. `None` if rows are in merged order.
    near: Option<Reach>,
    how: How,
    ordered: bool,
    logs: [TimeLog; 2],
    /// The conditions that a scan tests. The terms contain the numbers of the rows in the logs. A
    /// term may begin with the numbers of dropped rows.
    terms: Vec<Term>,
    /// `true` if pairs are compared by value. The flag becomes `false` permanently as soon as a
    /// number does not fit.
    compares: bool,
    gone: [usize; 2],
    shares: Vec<Share>,
    /// The number of rows stored so far on each side. This number determines which share receives
    /// the next row.
    counters: [u64; 2],
    comparisons: Vec<u64>,
    way: Way,
    epoch: Epoch,
    /// The next row in the epoch whose results are due.
    next: usize,
    /// The maximum number of pairs that the next rows may form with the rows in their windows.
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
    /// Creates an empty join, which scans for rows that satisfy `terms`. The terms must not contain
    /// any rows yet.
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

    /// Creates a join like [`new`](Self::new) in which one thread per part compares all new rows
    /// with that part. Together, the parts must cover the whole windows. Rows are assigned in turn
    /// to all shares that occur in the parts.
    pub fn of_parts(
        retention: Retention,
        how: How,
        ordered: bool,
        terms: Vec<Term>,
        parts: Vec<Part>,
    ) -> Self {
        let shares =
            parts.iter().map(|part| part.share + 1).max().expect("there is at least one part");
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

    /// Converts an empty join to arrival order. The windows then contain all kept rows, and times
    /// are compared as numbers in the terms. A row is kept as long as future rows can be `near` it
    /// in time.
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

    /// Replaces the way in which the shares compare rows. The shares must have been created for
    /// [`ScaleAlgorithm::ScaleJoin`].
    #[must_use]
    pub fn comparing_by(self, way: Box<dyn CompareRows>) -> Self {
        debug_assert_eq!(self.shares.len(), self.comparisons.len(), "one share per comparer");
        ScaleJoin { way: Way::RowByRow(way), ..self }
    }

    /// Finds the matches for some rows in the epoch, row by row. If there are only a `few`
    /// comparisons, the caller's thread performs all of them.
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

    /// Returns a readable description of the data used to compare pairs.
    pub fn compared_by(&self) -> &'static str {
        self.shares[0].compared_by()
    }

    /// Assigns the rows in the epoch to the shares in turn.
    fn store(&mut self, sides: &[Side]) {
        // Rows are distributed evenly, so a share receives at most this many rows on either side.
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

    /// Appends the numbers of new rows to the terms. If any number does not fit, the terms are
    /// dropped permanently.
    fn take_numbers(&mut self, numbers: Operands<'_>) {
        self.compares &= numbers.is_some_and(|numbers| {
            assert_eq!(self.terms.len(), numbers.len(), "numbers for each term");
            // No early exit: every term must receive the numbers of every row.
            let terms = self.terms.iter_mut().zip(numbers);
            let fit = terms.map(|(term, (left, right))| term.append(left, right));
            fit.fold(true, |all, fits| all & fits)
        });
        if !self.compares && !self.terms.is_empty() {
            self.terms.clear();
            self.shares.iter_mut().for_each(Share::forget_terms);
        }
    }

    /// Keeps only the matches whose times are within `reach`, for all rows in the epoch.
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

    /// Drops the given number of rows from each side, starting with the oldest.
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

    /// Returns results for the rows in the epoch whose matches have been found.
    fn collect(&mut self, rows: Range<usize>, found: &MatchOffsets) -> Results {
        let mut results = Results::default();
        for (nth, row) in rows.enumerate() {
            let (side, matches) = (self.epoch.sides[row], found.of(nth));
            if matches.is_empty() {
                continue;
            }
            // Unmatched rows are emitted at their last matchable time, so it is sufficient to check
            // for them when a row has matches.
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
        assert!(self.is_done(), "the previous epoch must have ended");
        assert_eq!(ts.len(), sides.len(), "one side per row");
        self.next = 0;
        // 1. Add the rows to the logs of their sides, and their numbers to the terms.
        self.epoch.offsets.clear();
        let mut next = self.logs.each_ref().map(RowLog::len);
        for &side in &sides {
            self.epoch.offsets.push(next[side as usize] as u32);
            next[side as usize] += 1;
        }
        self.logs.iter_mut().for_each(|log| log.push(&ts, &sides));
        self.take_numbers(numbers);
        // 2. Store each row in a share. Threads then compare the row with the earlier rows of the
        //    other side.
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
        // 1. Take as many rows as the budget of pairs allows.
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
        // 2. Compare these rows, on all threads.
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
        // 3. Put the matches in order, and filter them.
        let mut together = match (by_way, &self.way) {
            (Some(found), _) => found,
            (None, Way::NewRows) => MatchOffsets::concat(found),
            (None, _) => MatchOffsets::merge(found, rows.len()),
        };
        // If the next rows have as many matches per pair, this budget yields as many matches as
        // there is room for.
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
