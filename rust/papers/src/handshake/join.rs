//! A handshake join whose nodes have threads that go on between calls.

use std::sync::Arc;
use std::time::Duration;

use tidegate_sync::{Lock, atomic};

use super::entry::{Epoch, FeedEntry, NodeFigures, Progress};
use super::finder::ResultPair;
use super::predicate::Predicate;
use super::seat::{Next, Seat, WaitingNode};
use super::{Bells, Chain, Collector, HandshakeAlgorithm, MAX_NODES};
use crate::threads::{Crew, Workers};
use tidegate_operators::driver::{Driver, Stopped};
use tidegate_operators::rows::{Results, Retention, Side};

/// Rows that wait to be fed from which on no more are taken.
const MOST_ROWS: usize = if cfg!(test) { 16 } else { 1 << 16 };

/// Rows that a call waits for, if this number is on its way.
const STRIDE: u64 = if cfg!(any(test, loom)) { 2 } else { 1 << 12 };

/// How long a call waits before it is content with fewer rows.
const PATIENCE: Duration = Duration::from_millis(1);

/// Results from which on a call takes no more of them.
const MOST_RESULTS: usize = if cfg!(test) { 20 } else { 1 << 18 };

/// The state of a join. Rows of each side are numbered from 0; results name a row by its distance
/// from the oldest row of its side that is kept, [`first`](Self::first).
///
/// Rows match whose values are at most 5 apart:
///
/// ```
/// # use std::sync::Arc;
/// #
/// use tidegate_operators::driver::Driver;
/// use tidegate_papers::handshake::{
///     BandPredicate, HandshakeAlgorithm, HandshakeJoin, NumberColumn, NumberRows,
/// };
/// use tidegate_operators::rows::{Retention, Side};
/// use tidegate_structures::simd::scan::Span;
/// use tidegate_sync::Stop;
///
/// let rows = |values: Vec<u64>| {
///     let takes = values.iter().map(|value| Span { low: value - 5, width: 10 }).collect();
///     NumberRows::new(values.len(), vec![NumberColumn { values, takes }], false)
/// };
/// let predicate = Arc::new(BandPredicate::new(None));
/// let (window, nodes) = (Retention::Time { left: 10, right: 10 }, 2);
/// let algorithm = HandshakeAlgorithm::LowLatency;
/// let mut join = HandshakeJoin::new(predicate, window, algorithm, nodes, true, false)?;
/// // Left rows at 1 and 2, and a right row at 3.
/// let sides = vec![Side::Left, Side::Left, Side::Right];
/// join.begin(vec![1, 2, 3], sides, rows(vec![100, 200]), rows(vec![203]));
/// // The nodes are at work; what they find is taken here.
/// let (driver, mut pairs) = (Driver::new(1, Stop::default()), Vec::new());
/// while !join.is_done() {
///     let found = join.advance(&driver).expect("nobody stops it");
///     pairs.extend(found.left.into_iter().zip(found.right));
/// }
/// assert_eq!(pairs, [(1, 0)]); // 200 with 203
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct HandshakeJoin<P: Predicate> {
    algorithm: HandshakeAlgorithm,
    window: Retention,
    ordered: bool,
    entry: atomic::Arc<Lock<FeedEntry<P>>>,
    collector: Collector,
    /// Rows that were put, of both sides together, and rows that all nodes had handled when this was
    /// looked at last.
    put: u64,
    handled: u64,
    /// Nothing was on its way then.
    is_idle: bool,
    /// How often the nodes' threads had rung then.
    heard: u64,
    /// Results in order that were not given yet.
    found: Vec<ResultPair>,
    /// Results before this place of the merged order were given.
    given: u64,
    /// Results before this place were given by another join, see `restore`; and whether rows before
    /// it may be on their way.
    restored: u64,
    is_restoring: bool,
    /// The oldest rows that are kept.
    first: [u64; 2],
    figures: Arc<Vec<NodeFigures>>,
    seats: Vec<Next<P>>,
    crew: atomic::Arc<Crew>,
    /// None if the caller has brought the threads.
    workers: Option<Workers>,
}

impl<P: Predicate + 'static> HandshakeJoin<P> {
    /// A join without rows, on a chain of `nodes` nodes. It starts a thread for each, on a processor
    /// of its own if they are to be pinned.
    pub fn new(
        predicate: Arc<P>,
        window: Retention,
        algorithm: HandshakeAlgorithm,
        nodes: usize,
        ordered: bool,
        pin: bool,
    ) -> std::io::Result<Self> {
        let (mut join, seats) = Self::with_seats(predicate, window, algorithm, nodes, ordered);
        let (crew, work) = (join.crew.clone(), seats.into_iter().map(|seat| || seat.run()));
        join.workers = Some(Workers::start(work, pin, move || crew.end())?);
        Ok(join)
    }
}

impl<P: Predicate> HandshakeJoin<P> {
    /// The same for a caller that brings the threads: one for each seat.
    pub fn with_seats(
        predicate: Arc<P>,
        window: Retention,
        algorithm: HandshakeAlgorithm,
        nodes: usize,
        ordered: bool,
    ) -> (Self, Vec<Seat<P>>) {
        let nodes = nodes.clamp(1, MAX_NODES);
        let (crew, figures) =
            (Crew::new(nodes), (0..nodes).map(|_| NodeFigures::default()).collect());
        let figures: Arc<Vec<NodeFigures>> = Arc::new(figures);
        let bells = Bells(Some(crew.clone()));
        let made = Chain::with_bells(predicate, window, algorithm, nodes, ordered, bells);
        let Chain { feed, nodes, collector } = made;
        let entry = atomic::Arc::new(Lock::new(FeedEntry::new(feed, figures.clone())));
        let seat = |(number, node)| {
            let waiting = WaitingNode { node, entry: entry.clone() };
            let next = atomic::Arc::new(Lock::new(Some(waiting)));
            Seat { number, next, figures: figures.clone(), crew: crew.clone() }
        };
        let seats: Vec<Seat<P>> = nodes.into_iter().enumerate().map(seat).collect();
        let join = HandshakeJoin {
            algorithm,
            window,
            ordered,
            entry,
            collector,
            put: 0,
            handled: 0,
            is_idle: true,
            heard: 0,
            found: Vec::new(),
            given: 0,
            restored: 0,
            is_restoring: false,
            first: [0; 2],
            figures,
            seats: seats.iter().map(|seat| seat.next.clone()).collect(),
            crew,
            workers: None,
        };
        (join, seats)
    }

    /// Goes on with an empty chain, in which rows are numbered anew.
    ///
    /// # Panics
    ///
    /// When something is on its way.
    pub(super) fn renew(&mut self, predicate: Arc<P>) {
        let is_idle = |entry: &mut FeedEntry<P>| entry.look(0).is_idle;
        assert!(self.is_done() && self.entry.with(is_idle), "the former chain is at rest");
        let (nodes, bells) = (self.seats.len(), Bells(Some(self.crew.clone())));
        let made =
            Chain::with_bells(predicate, self.window, self.algorithm, nodes, self.ordered, bells);
        let Chain { feed, nodes, collector } = made;
        self.entry = atomic::Arc::new(Lock::new(FeedEntry::new(feed, self.figures.clone())));
        self.collector = collector;
        (self.put, self.handled, self.given, self.restored) = (0, 0, 0, 0);
        self.first = [0; 2];
        for (number, (next, node)) in self.seats.iter().zip(nodes).enumerate() {
            let waiting = WaitingNode { node, entry: self.entry.clone() };
            next.with(|next| *next = Some(waiting));
            self.crew.call(number).ring();
        }
    }

    /// Puts rows in merged order behind those that are on their way, none before a row of a former
    /// epoch: the time and the side of each, and the columns of each side's rows.
    ///
    /// # Panics
    ///
    /// When there are not as many rows in the columns, or after the end.
    pub fn begin(&mut self, ts: Vec<i64>, sides: Vec<Side>, left: P::Left, right: P::Right) {
        if ts.is_empty() {
            return;
        }
        self.put += ts.len() as u64;
        self.is_idle = false;
        let epoch = Epoch::new(ts, sides, left, right);
        self.entry.with(|entry| {
            entry.put(epoch);
            entry.go_on()
        });
    }

    /// Takes in the rows of each side that a join of the same query has kept once all its results
    /// were given: their times, and their columns. This one has no rows yet.
    ///
    /// What they give among themselves is found again, and left out.
    ///
    /// # Panics
    ///
    /// When there are rows already.
    pub fn restore(&mut self, ts: [&[i64]; 2], left: P::Left, right: P::Right) {
        assert_eq!(self.put, 0, "rows are restored before any come");
        let of_side = |side: Side| ts[side as usize].iter().map(move |&ts| (ts, side));
        let mut rows: Vec<(i64, Side)> = of_side(Side::Left).chain(of_side(Side::Right)).collect();
        // Left sources are first in merged order.
        rows.sort_by_key(|&(ts, side)| (ts, side as u8));
        self.restored = rows.len() as u64;
        self.given = self.restored;
        self.is_restoring = self.restored > 0;
        let (ts, sides) = rows.into_iter().unzip();
        self.begin(ts, sides, left, right);
    }

    /// No more rows will come: the original algorithm then lets the last ones flow past each other.
    ///
    /// # Panics
    ///
    /// When rows are on their way.
    pub fn end(&mut self) {
        assert!(self.is_done(), "the join ends when all rows are through");
        self.is_idle = false;
        self.entry.with(|entry| {
            entry.end();
            entry.go_on()
        });
    }

    /// The next results: of some rows that are on their way, or the ones before a pause. In the
    /// original algorithm, results of a row may also come once later rows do.
    pub fn advance(&mut self, driver: &Driver) -> Result<Results, Stopped> {
        self.find(driver)?;
        let [left, right] = self.first;
        let (left, right) = self
            .take()
            .iter()
            .map(|found| ((found.left - left) as u32, (found.right - right) as u32))
            .unzip();
        Ok(Results { left, right })
    }

    /// As [`advance`](Self::advance), and leaves the results to [`take`](Self::take).
    pub(super) fn find(&mut self, driver: &Driver) -> Result<(), Stopped> {
        let before = self.handled;
        let wanted = self.put.min(before + STRIDE);
        // The threads have rung since; or it would take long.
        let mut is_content = false;
        loop {
            let rings = self.crew.told().rings();
            is_content |= std::mem::replace(&mut self.heard, rings) != rings;
            self.crew.check();
            // Asked before the queues are emptied: whatever was found is then in them.
            let Progress { handled, is_idle, has_ended } =
                self.entry.with(|entry| entry.look(wanted));
            let mut upto = self.collector.collect(&mut self.found);
            if is_idle && has_ended {
                upto = self.put;
                self.collector.rest(upto, &mut self.found);
            }
            self.given = self.given.max(upto);
            (self.handled, self.is_idle) = (handled, is_idle);
            self.is_restoring &= !is_idle;
            let is_enough = is_idle
                || (wanted < self.put && handled >= wanted)
                || self.found.len() >= MOST_RESULTS
                || (is_content && (handled > before || !self.found.is_empty()));
            if is_enough || driver.is_paused() {
                return driver.check();
            }
            self.crew.told().wait_for(rings, PATIENCE);
            is_content = true;
        }
    }

    /// Takes the results that were found, in order if the join is ordered.
    pub(super) fn take(&mut self) -> Vec<ResultPair> {
        let mut found = std::mem::take(&mut self.found);
        found.retain_mut(|found| {
            let place = found.seq.checked_sub(self.restored);
            found.seq = place.unwrap_or_default();
            place.is_some()
        });
        found
    }

    /// The results of how many rows have been found, of those that came after the restored ones.
    pub fn given(&self) -> u64 {
        self.given - self.restored
    }

    /// Lets go of rows that no row at `now` or later can match, and no result that is to come has;
    /// `None` stands for the end of time. Places are counted anew from here on.
    ///
    /// # Panics
    ///
    /// When results were found that nobody has taken.
    pub fn purge(&mut self, now: Option<i64>) {
        assert!(self.found.is_empty(), "results name rows that are kept");
        let given = self.given;
        self.first = self.entry.with(|entry| {
            let first = entry.expire(now, given);
            entry.go_on();
            first
        });
    }

    /// Whether all results of the rows that were put were given, as far as they can be so far.
    pub fn is_done(&self) -> bool {
        self.is_idle && self.found.is_empty()
    }

    /// Whether rows may be put, and do not have to wait for others first.
    pub fn takes_rows(&self) -> bool {
        // Who waits for the restored rows waits for no others.
        !self.is_restoring && self.entry.with(|entry| entry.waiting()) < MOST_ROWS
    }

    /// Rows that were on their way when somebody looked last.
    pub fn on_their_way(&self) -> usize {
        (self.put - self.handled) as usize
    }

    /// The algorithm.
    pub fn algorithm(&self) -> HandshakeAlgorithm {
        self.algorithm
    }

    /// The number of the oldest row of a side that is kept.
    pub fn first(&self, side: Side) -> u64 {
        self.first[side as usize]
    }

    /// Rows of a side that are kept, those not fed yet included.
    pub fn rows(&self, side: Side) -> usize {
        (self.entry.with(|entry| entry.next(side)) - self.first(side)) as usize
    }

    /// Bytes held beside the rows themselves.
    pub fn memory(&self) -> usize {
        self.figures.iter().map(|figures| figures.memory.get()).sum::<usize>()
            + self.entry.with(|entry| entry.memory())
            + self.collector.buffered() * size_of::<ResultPair>()
    }

    /// Candidate pairs that each node has looked at, as far as its thread has told.
    pub fn comparisons(&self) -> Vec<u64> {
        self.figures.iter().map(|figures| figures.compared.get() as u64).collect()
    }

    /// The most results that have waited at a time for others to come before them.
    pub fn most_buffered(&self) -> usize {
        self.collector.most_buffered()
    }

    /// Ends the threads of the nodes. The join is of no more use.
    pub fn close(&mut self) {
        match &mut self.workers {
            Some(workers) => workers.end(),
            None => self.crew.end(),
        }
    }
}
