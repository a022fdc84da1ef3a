//! A handshake join that compares rows by their numbers. The join converts the pairs found by the
//! chain into the results of any join type.
//!
//! Pairs are returned in the merged order of their later rows. Matched rows are therefore marked,
//! and unmatched rows emitted, as if each row had been joined on arrival. In the original
//! algorithm, results are returned about half a window later.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::ops::{Not, Range};
use std::sync::Arc;

use tidegate_structures::memory;
use tidegate_structures::simd::scan::{Lane, Span};
use tidegate_sync::Stop;

use super::bands::{BandPredicate, NumberColumn, NumberRows};
use super::finder::ResultPair;
use super::predicate::SearchStructure;
use super::window::shrink;
use super::{HandshakeAlgorithm, HandshakeJoin};
use tidegate_operators::driver::Driver;
use tidegate_operators::predicate::{RankAndTakes, Term};
use tidegate_operators::rows::{
    Extent, Filter, FilterError, How, JoinError, KeptColumn, Progress, Results, Retention, RowJoin,
    RowLog, SavedRows, Side, SideWatermarks,
};
use tidegate_operators::window::{Operands, TimeLog};

/// The number of pairs passed to a filter at a time.
const FILTER_PAIRS: usize = 1 << 12;

/// The rank of a number: 32 bits if all terms have 32-bit numbers, and 64 bits otherwise.
pub trait Rank: Lane + Into<u64> + TryFrom<u64> + Not<Output = Self> + Debug {}

impl Rank for u32 {}
impl Rank for u64 {}

/// The state of a join.
#[derive(Debug)]
pub struct SlidingHandshake<T: Rank> {
    algorithm: HandshakeAlgorithm,
    how: How,
    extent: Extent,
    logs: [TimeLog; 2],
    /// The conditions used to compare rows. The conditions themselves do not contain any rows. Rows
    /// can be looked up by the first condition. This is an equality if there is one, and a band
    /// otherwise.
    terms: Vec<Term>,
    /// The position of each term among the terms passed to `new`.
    order: Vec<usize>,
    /// True as long as all numbers fit. Rows are then compared by the terms.
    compares: bool,
    join: HandshakeJoin<BandPredicate<T>>,
    /// The point from which the chain counts: the first row on each side, and the position in
    /// merged order.
    origin: ([u64; 2], u64),
    /// Pairs that an earlier chain found and that have not been returned yet.
    found: Vec<ResultPair>,
    /// Marks the kept rows that match nothing.
    void: [VecDeque<bool>; 2],
    /// Rows with results that have not been returned: those from position `given` onwards, in
    /// merged order.
    waiting: VecDeque<(i64, Side)>,
    given: u64,
    /// The time of the last row whose results were returned.
    last: Option<i64>,
    /// The number of the next waiting row on each side.
    next: [u64; 2],
    flushed: bool,
}

impl<T: Rank> SlidingHandshake<T> {
    /// Creates an empty join on a chain of `nodes` nodes, which compare rows by `terms`. The terms
    /// must not contain any rows yet. One thread is started per node. If `pin` is true, each thread
    /// is pinned to its own processor.
    pub fn new(
        retention: Retention,
        how: How,
        algorithm: HandshakeAlgorithm,
        nodes: usize,
        terms: Vec<Term>,
        pin: bool,
    ) -> std::io::Result<Self> {
        let mut terms: Vec<(usize, Term)> = terms.into_iter().enumerate().collect();
        terms.sort_by_key(|(_, term)| (!term.is_equality(), !term.is_band()));
        let (order, terms): (Vec<usize>, Vec<Term>) = terms.into_iter().unzip();
        let log = |side| RowLog::new(side, how, KeptColumn::default());
        let predicate = Arc::new(predicate(&terms));
        Ok(SlidingHandshake {
            algorithm,
            how,
            extent: Extent::new(retention),
            logs: [log(Side::Left), log(Side::Right)],
            join: HandshakeJoin::new(predicate, retention, algorithm, nodes, true, pin)?,
            terms,
            order,
            compares: true,
            origin: ([0; 2], 0),
            found: Vec::new(),
            void: [VecDeque::new(), VecDeque::new()],
            waiting: VecDeque::new(),
            given: 0,
            last: None,
            next: [0; 2],
            flushed: false,
        })
    }
}

/// Returns the predicate by which nodes compare rows.
fn predicate<T: Rank>(terms: &[Term]) -> BandPredicate<T> {
    let lookup = match terms {
        [] => None,
        [first, ..] if first.is_equality() => Some(SearchStructure::Hash),
        _ => Some(SearchStructure::Ordered),
    };
    BandPredicate::new(lookup)
}

/// Returns the columns for a side's rows. Also returns a flag per row that is true if the row
/// matches nothing. The terms contain the rows' numbers and determine which numbers each row
/// matches.
fn columns<T: Rank>(terms: &[Term], side: Side, rows: usize) -> (NumberRows<T>, Vec<bool>) {
    let mut void = vec![false; rows];
    let narrow = |rank: u64| T::try_from(rank).unwrap_or(!T::default());
    let spans: Vec<Vec<RankAndTakes>> = terms
        .iter()
        .map(|term| (0..rows).map(|row| term.rank_and_takes(side, row)).collect())
        .collect();
    for of_term in &spans {
        void.iter_mut().zip(of_term).for_each(|(void, of_row)| *void |= of_row.is_none());
    }
    let column = |of_term: Vec<RankAndTakes>| {
        let of_row = |(nth, of_row): (usize, RankAndTakes)| match of_row {
            Some((rank, takes)) if !void[nth] => {
                (narrow(rank), Span { low: narrow(takes.low), width: narrow(takes.width) })
            }
            // The value and the range are far apart, so that such rows meet few rows that are
            // dropped later.
            _ => (T::default(), Span { low: !T::default(), width: T::default() }),
        };
        let (values, takes) = of_term.into_iter().enumerate().map(of_row).unzip();
        NumberColumn { values, takes }
    };
    let columns = spans.into_iter().map(column).collect();
    (NumberRows::new(rows, columns, !terms.is_empty()), void)
}

impl<T: Rank> SlidingHandshake<T> {
    /// Appends the numbers of new rows to the terms. Returns whether all numbers can be compared.
    fn take_numbers(&mut self, numbers: Operands<'_>) -> bool {
        let Some(numbers) = numbers else { return false };
        assert_eq!(self.terms.len(), numbers.len(), "numbers for each term");
        let fit = self.terms.iter_mut().zip(&self.order).map(|(term, &given)| {
            let (left, right) = &numbers[given];
            term.append(left, right)
        });
        // Folds over all terms, so that each term receives the numbers of every row.
        fit.fold(true, |all, fits| all & fits)
    }

    /// Returns the columns of `rows` rows per side, and removes their numbers from the terms.
    fn columns(&mut self, rows: [usize; 2]) -> [NumberRows<T>; 2] {
        [Side::Left, Side::Right].map(|side| {
            let rows = rows[side as usize];
            let (columns, void) = columns(&self.terms, side, rows);
            self.void[side as usize].extend(void);
            self.terms.iter_mut().for_each(|term| term.drop_front(side, rows));
            columns
        })
    }

    /// Makes the join find every pair in the windows from now on.
    fn forget_terms(&mut self) {
        if self.terms.is_empty() {
            return;
        }
        // Rows that are in flight or held back are still compared by the terms.
        self.drain();
        self.join.end();
        self.drain();
        self.terms.clear();
        self.void.iter_mut().for_each(VecDeque::clear);
        let rows = self.logs.each_ref().map(RowLog::len);
        let columns = self.columns(rows);
        self.fill(columns);
    }

    /// Takes all pairs that the chain finds until nothing is in flight.
    fn drain(&mut self) {
        while !self.join.is_done() {
            self.join.find(&Driver::new(1, Stop::default())).expect("the driver is not stopped");
            self.take_found();
        }
    }

    /// Empties the idle chain and fills it with the kept rows.
    fn fill(&mut self, [left, right]: [NumberRows<T>; 2]) {
        self.join.renew(Arc::new(predicate(&self.terms)));
        self.origin =
            (self.logs.each_ref().map(RowLog::first), self.given + self.waiting.len() as u64);
        self.join.restore(self.logs.each_ref().map(RowLog::ts), left, right);
        self.flushed = false;
    }

    /// Takes the pairs that the chain has found.
    fn take_found(&mut self) {
        let ([left, right], place) = self.origin;
        let of_chain = self.join.take().into_iter().map(|found| ResultPair {
            seq: found.seq + place,
            left: found.left + left,
            right: found.right + right,
        });
        self.found.extend(of_chain);
    }

    /// Returns the pairs that pass the filter and consist of two rows that can match.
    fn filter(
        &self,
        mut found: Vec<ResultPair>,
        driver: &Driver,
        filter: Option<&Filter<'_>>,
    ) -> Result<Vec<ResultPair>, JoinError> {
        if !self.terms.is_empty() {
            let [left, right] = self.logs.each_ref().map(RowLog::first);
            let is_void = |side: usize, offset: u64| self.void[side][offset as usize];
            found
                .retain(|found| !is_void(0, found.left - left) && !is_void(1, found.right - right));
        }
        let Some(filter) = filter else { return Ok(found) };
        let blocks: Vec<Range<usize>> = (0..found.len())
            .step_by(FILTER_PAIRS)
            .map(|at| at..found.len().min(at + FILTER_PAIRS))
            .collect();
        let keep = |block: Range<usize>| {
            let (left, right): (Vec<u32>, Vec<u32>) =
                found[block].iter().map(|found| (found.left as u32, found.right as u32)).unzip();
            filter(&left, &right)
        };
        let kept = driver.map(blocks, keep).map_err(JoinError::Stopped)?;
        let kept = kept.into_iter().collect::<Result<Vec<_>, FilterError>>();
        let mut kept = memory::concat(&kept.map_err(JoinError::Filter)?).into_iter();
        found.retain(|_| kept.next().expect("one verdict per pair"));
        Ok(found)
    }

    /// Returns the results of the rows up to a position in merged order. `found` must contain all
    /// pairs of these rows.
    fn give(&mut self, found: &[ResultPair], upto: u64) -> Results {
        let mut results = Results::default();
        let mut rest = found;
        let mut matches = Vec::new();
        while self.given < upto
            && let Some((ts, side)) = self.waiting.pop_front()
        {
            let (of_row, others) =
                rest.split_at(rest.partition_point(|found| found.seq <= self.given));
            rest = others;
            let [left, right] = self.logs.each_ref().map(RowLog::first);
            let offset =
                (self.next[side as usize] - if side == Side::Left { left } else { right }) as u32;
            let other = |found: &ResultPair| if side == Side::Left { found.right - right } else { found.left - left } as u32;
            matches.clear();
            matches.extend(of_row.iter().map(other));
            if !matches.is_empty() {
                results.add_unmatched(&mut self.logs, &self.extent, self.how, [Some(ts); 2]);
                results.add(&mut self.logs, self.how, side, offset, &matches);
            }
            self.next[side as usize] += 1;
            self.given += 1;
            self.last = Some(ts);
        }
        results
    }
}

impl<T: Rank> RowJoin<Operands<'_>> for SlidingHandshake<T> {
    fn begin(&mut self, _: &Driver, ts: Vec<i64>, sides: Vec<Side>, numbers: Operands<'_>) {
        assert!(!self.flushed, "no rows follow a flush");
        self.compares &= self.take_numbers(numbers);
        if !self.compares {
            self.forget_terms();
        }
        let left = sides.iter().filter(|side| **side == Side::Left).count();
        let [left, right] = self.columns([left, sides.len() - left]);
        self.logs.iter_mut().for_each(|log| log.push(&ts, &sides));
        self.waiting.extend(ts.iter().copied().zip(sides.iter().copied()));
        self.join.begin(ts, sides, left, right);
    }

    fn compares(&self) -> bool {
        self.compares
    }

    fn epoch_rows(&self) -> usize {
        self.join.on_their_way()
    }

    fn is_done(&self) -> bool {
        self.join.is_done() && self.found.is_empty()
    }

    fn has_threads(&self) -> bool {
        true
    }

    fn takes_rows(&self) -> bool {
        !self.flushed && self.join.takes_rows()
    }

    fn given(&self) -> Option<i64> {
        // Once all rows expire, the chain no longer reports which rows later results can contain.
        self.last.filter(|_| !self.flushed)
    }

    fn advance(
        &mut self,
        driver: &Driver,
        filter: Option<&Filter<'_>>,
    ) -> Result<Progress, JoinError> {
        self.join.find(driver).map_err(JoinError::Stopped)?;
        self.take_found();
        let found = std::mem::take(&mut self.found);
        let found = self.filter(found, driver, filter)?;
        let upto = self.origin.1 + self.join.given();
        Ok(Progress::Results(self.give(&found, upto)))
    }

    fn holds_back(&self) -> bool {
        self.algorithm == HandshakeAlgorithm::Original && !self.flushed
    }

    fn flush(&mut self) {
        self.join.end();
        self.flushed = true;
    }

    fn refill(&mut self, numbers: Operands<'_>) {
        assert!(self.flushed, "a chain is refilled only after a flush");
        self.take_numbers(numbers);
        self.void.iter_mut().for_each(VecDeque::clear);
        let rows = self.logs.each_ref().map(RowLog::len);
        let columns = self.columns(rows);
        self.fill(columns);
    }

    fn unmatched(&mut self, [now, _]: SideWatermarks) -> Results {
        // Rows whose pairs have not been given may still match.
        let now =
            self.waiting.front().map_or(now, |&(ts, _)| Some(now.map_or(ts, |now| now.min(ts))));
        let mut results = Results::default();
        results.add_unmatched(&mut self.logs, &self.extent, self.how, [now; 2]);
        results
    }

    fn purge(&mut self, [now, _]: SideWatermarks) {
        if self.flushed || now.is_none() {
            // The chain drops all rows.
            for log in &mut self.logs {
                log.drop_first(log.over(&self.extent, [now; 2]));
            }
        } else {
            self.join.purge(now);
            for log in &mut self.logs {
                let first = self.join.first(log.side());
                log.drop_before(self.origin.0[log.side() as usize] + first);
            }
        }
        for (void, log) in self.void.iter_mut().zip(&self.logs) {
            void.drain(..void.len() - log.len());
            shrink(void);
        }
        shrink(&mut self.waiting);
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
        self.join.comparisons()
    }

    fn memory(&self) -> usize {
        let of_void = self.void.iter().map(VecDeque::capacity).sum::<usize>();
        let of_waiting = self.waiting.capacity() * size_of::<(i64, Side)>();
        self.join.memory()
            + self.logs.iter().map(RowLog::memory).sum::<usize>()
            + of_void
            + of_waiting
    }

    fn restore(&mut self, kept: &[SavedRows; 2], numbers: Operands<'_>) {
        for (log, kept) in self.logs.iter_mut().zip(kept) {
            log.restore(kept, |columns| columns.extend(kept.ts.iter().copied()));
        }
        self.next = self.logs.each_ref().map(RowLog::end);
        self.compares &= self.take_numbers(numbers);
        if !self.compares {
            self.terms.clear();
        }
        let rows = self.logs.each_ref().map(RowLog::len);
        let columns = self.columns(rows);
        self.fill(columns);
        self.last = None;
    }

    fn close(&mut self) {
        self.join.close();
    }
}
