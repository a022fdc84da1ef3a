//! A handshake join whose nodes have threads that keep running between calls.

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

/// The number of waiting rows at which no more rows are accepted.
const MOST_ROWS: usize = if cfg!(test) { 16 } else { 1 << 16 };

/// The number of rows that a call waits for, if at least this many are in flight.
const STRIDE: u64 = if cfg!(any(test, loom)) { 2 } else { 1 << 12 };

/// The time that a call waits before it continues with fewer rows.
const PATIENCE: Duration = Duration::from_millis(1);

/// The number of results at which a call stops collecting.
const MOST_RESULTS: usize = if cfg!(test) { 20 } else { 1 << 18 };

/// The state of a join. The rows on each side are numbered from 0. Results refer to a row by its
/// distance from the oldest kept row on the same side. [`first`](Self::first) returns that oldest
/// row's number.
///
/// In this example, rows match if their values differ by at most 5:
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
/// // The nodes run in their own threads. Collect their results here.
/// let (driver, mut pairs) = (Driver::new(1, Stop::default()), Vec::new());
/// while !join.is_done() {
///     let found = join.advance(&driver).expect("the driver is not stopped");
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
    /// The number of rows passed to `begin`, and the number that all nodes had handled at the last
    /// check. Rows on both sides are counted.
    put: u64,
    handled: u64,
    /// True if nothing was in flight at the last check.
    is_idle: bool,
    /// The number of times that the nodes' threads had rung the caller's bell by the last check.
    heard: u64,
    /// Ordered results that have not been returned yet.
    found: Vec<ResultPair>,
    /// Results before this position in merged order have been returned.
    given: u64,
    /// The results before this position were returned by another join (see `restore`). The flag is
    /// true if rows before this position may be in flight.
    restored: u64,
    is_restoring: bool,
    /// The oldest kept row on each side.
    first: [u64; 2],
    figures: Arc<Vec<NodeFigures>>,
    seats: Vec<Next<P>>,
    crew: atomic::Arc<Crew>,
    /// `None` if the caller provides the threads.
    workers: Option<Workers>,
}

impl<P: Predicate + 'static> HandshakeJoin<P> {
    /// Creates an empty join on a chain of `nodes` nodes, and starts one thread per node. If `pin`
    /// is true, each thread is pinned to a different processor.
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
    /// Creates a join for a caller that provides the threads, one for each seat.
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

    /// Continues with an empty chain, in which rows are numbered from 0 again.
    ///
    /// # Panics
    ///
    /// Panics if any rows are in flight.
    pub(super) fn renew(&mut self, predicate: Arc<P>) {
        let is_idle = |entry: &mut FeedEntry<P>| entry.look(0).is_idle;
        assert!(self.is_done() && self.entry.with(is_idle), "the previous chain is idle");
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

    /// Adds rows, in merged order, after those that are in flight. The arguments are the time and
    /// side of each row, and the columns for each side. No row may precede a row in an earlier
    /// epoch.
    ///
    /// # Panics
    ///
    /// Panics if the numbers of times, sides and rows in the columns differ, or if the join has
    /// ended.
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

    /// Restores rows that another join of the same query has kept. That join must have returned all
    /// of its results. The arguments are the times and columns of each side's rows. This join must
    /// not have any rows yet.
    ///
    /// Results that pair two restored rows are found again and dropped.
    ///
    /// # Panics
    ///
    /// Panics if the join already has rows.
    pub fn restore(&mut self, ts: [&[i64]; 2], left: P::Left, right: P::Right) {
        assert_eq!(self.put, 0, "rows are restored before any are added");
        let of_side = |side: Side| ts[side as usize].iter().map(move |&ts| (ts, side));
        let mut rows: Vec<(i64, Side)> = of_side(Side::Left).chain(of_side(Side::Right)).collect();
        // Left sources sort first in merged order.
        rows.sort_by_key(|&(ts, side)| (ts, side as u8));
        self.restored = rows.len() as u64;
        self.given = self.restored;
        self.is_restoring = self.restored > 0;
        let (ts, sides) = rows.into_iter().unzip();
        self.begin(ts, sides, left, right);
    }

    /// Declares that no more rows will arrive. In the original algorithm, the last rows then flow
    /// past each other.
    ///
    /// # Panics
    ///
    /// Panics if any rows are in flight.
    pub fn end(&mut self) {
        assert!(self.is_done(), "the join ends when no rows are in transit");
        self.is_idle = false;
        self.entry.with(|entry| {
            entry.end();
            entry.go_on()
        });
    }

    /// Returns the next results. These are the results for some of the rows in flight, or all
    /// results found before a pause. In the original algorithm, some of a row's results are
    /// returned only after later rows have arrived.
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

    /// Like [`advance`](Self::advance), but leaves the results to [`take`](Self::take).
    pub(super) fn find(&mut self, driver: &Driver) -> Result<(), Stopped> {
        let before = self.handled;
        let wanted = self.put.min(before + STRIDE);
        // Settles for fewer rows if the threads have rung since the last check, or after a wait.
        let mut is_content = false;
        loop {
            let rings = self.crew.told().rings();
            is_content |= std::mem::replace(&mut self.heard, rings) != rings;
            self.crew.check();
            // Read before the queues are emptied, so that all pairs found so far are in the queues.
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

    /// Returns the results found so far, in order if the join is ordered.
    pub(super) fn take(&mut self) -> Vec<ResultPair> {
        let mut found = std::mem::take(&mut self.found);
        found.retain_mut(|found| {
            let place = found.seq.checked_sub(self.restored);
            found.seq = place.unwrap_or_default();
            place.is_some()
        });
        found
    }

    /// Returns the number of rows whose results have been found, not counting restored rows.
    pub fn given(&self) -> u64 {
        self.given - self.restored
    }

    /// Drops the rows that no row at `now` or later can match and that no future result can
    /// contain. `None` means the end of time. From then on, positions are counted from the new
    /// oldest rows.
    ///
    /// # Panics
    ///
    /// Panics if any results have been found but not taken.
    pub fn purge(&mut self, now: Option<i64>) {
        assert!(self.found.is_empty(), "all results are taken before a purge");
        let given = self.given;
        self.first = self.entry.with(|entry| {
            let first = entry.expire(now, given);
            entry.go_on();
            first
        });
    }

    /// Returns whether all results available so far have been returned.
    pub fn is_done(&self) -> bool {
        self.is_idle && self.found.is_empty()
    }

    /// Returns whether rows can be added without waiting for other rows first.
    pub fn takes_rows(&self) -> bool {
        // A caller that waits for the restored rows does not wait for any others.
        !self.is_restoring && self.entry.with(|entry| entry.waiting()) < MOST_ROWS
    }

    /// Returns the number of rows that were in flight at the last check.
    pub fn on_their_way(&self) -> usize {
        (self.put - self.handled) as usize
    }

    /// Returns the algorithm.
    pub fn algorithm(&self) -> HandshakeAlgorithm {
        self.algorithm
    }

    /// Returns the number of the oldest kept row on a side.
    pub fn first(&self, side: Side) -> u64 {
        self.first[side as usize]
    }

    /// Returns the number of kept rows on a side, including rows that have not been fed yet.
    pub fn rows(&self, side: Side) -> usize {
        (self.entry.with(|entry| entry.next(side)) - self.first(side)) as usize
    }

    /// Returns the number of bytes in use, not counting the rows themselves.
    pub fn memory(&self) -> usize {
        self.figures.iter().map(|figures| figures.memory.get()).sum::<usize>()
            + self.entry.with(|entry| entry.memory())
            + self.collector.buffered() * size_of::<ResultPair>()
    }

    /// Returns the number of candidate pairs that each node has examined, as last reported by the
    /// node's thread.
    pub fn comparisons(&self) -> Vec<u64> {
        self.figures.iter().map(|figures| figures.compared.get() as u64).collect()
    }

    /// Returns the maximum number of results that have waited for earlier results at the same time.
    pub fn most_buffered(&self) -> usize {
        self.collector.most_buffered()
    }

    /// Stops the threads of the nodes. The join cannot be used afterwards.
    pub fn close(&mut self) {
        match &mut self.workers {
            Some(workers) => workers.end(),
            None => self.crew.end(),
        }
    }
}
