//! A handshake join that is given its rows in epochs.

use std::collections::VecDeque;
use std::sync::Arc;

use super::feed::Burst;
use super::finder::Found;
use super::predicate::{Columns, Kind, Predicate};
use super::{Chain, HandshakeAlgorithm};
use crate::driver::{Driver, Stopped, Turn};
use crate::rows::{Results, Retention, Side};
use tidegate_sync::Stop;

/// Rows that are fed at once. A node's kernel then has several new rows for each piece of its
/// window, as in the paper.
const BURST: usize = if cfg!(test) { 3 } else { 64 };

/// Pairs that the rows of a burst may find together, about. There is memory for the pairs of all
/// bursts on their way.
const BURST_PAIRS: u64 = 1 << 18;

/// Comparisons after which it is known how many pairs come of them.
const KNOWN: u64 = 1 << 20;

/// Results after which [`HandshakeJoin::advance`] returns.
const MOST_RESULTS: usize = if cfg!(test) { 20 } else { 1 << 18 };

/// Comparisons below which an epoch is not worth waking threads for: a fraction of a millisecond.
const SMALL_WORK: u64 = if cfg!(test) { 64 } else { 1 << 20 };

/// The state of a join. Rows of each side are numbered from 0; results name a row by its distance
/// from the oldest row of its side that is kept, [`first`](Self::first).
///
/// Rows match whose values are at most 5 apart:
///
/// ```
/// # use std::sync::Arc;
/// #
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_operators::papers::handshake::{
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
/// let mut join = HandshakeJoin::new(predicate, window, algorithm, nodes, true);
/// // Left rows at 1 and 2, and a right row at 3.
/// let sides = vec![Side::Left, Side::Left, Side::Right];
/// join.begin(vec![1, 2, 3], sides, rows(vec![100, 200]), rows(vec![203]));
/// let (driver, mut pairs) = (Driver::new(2, Stop::default()), Vec::new());
/// while !join.is_done() {
///     let found = join.advance(&driver)?;
///     pairs.extend(found.left.into_iter().zip(found.right));
/// }
/// assert_eq!(pairs, [(1, 0)]); // 200 with 203
/// # Ok::<(), Stopped>(())
/// ```
#[derive(Debug)]
pub struct HandshakeJoin<P: Predicate> {
    algorithm: HandshakeAlgorithm,
    looks_up: bool,
    chain: Chain<P>,
    epoch: Epoch<P>,
    /// Results in order that were not given yet.
    found: Vec<Found>,
    /// Results before this place of the merged order were given.
    given: u64,
    /// Results before this place were given by another join, see `restore`.
    restored: u64,
    /// For places of the merged order, the first row of each side that results from there on may
    /// have.
    firsts: VecDeque<(u64, [u64; 2])>,
    /// The oldest rows that are kept.
    first: [u64; 2],
    pace: Pace,
}

/// How many pairs come of how many comparisons, about.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    compared: u64,
    taken: u64,
    found: u64,
}

impl Pace {
    /// How many rows to feed at once, if each of them meets `window` rows.
    fn burst(&self, window: u64) -> usize {
        let pairs = match self.compared {
            0..KNOWN => window as f64,
            compared => window as f64 * self.found as f64 / compared as f64,
        };
        (BURST_PAIRS as f64 / pairs.max(1.0)).clamp(1.0, BURST as f64) as usize
    }
}

/// Rows that wait to be fed.
#[derive(Debug)]
struct Epoch<P: Predicate> {
    ts: Vec<i64>,
    sides: Vec<Side>,
    left: P::Left,
    right: P::Right,
    /// Rows that were fed, in all and of each side.
    fed: (usize, [usize; 2]),
    /// Punctuations that are to follow the rows.
    punctuations: usize,
    /// All that there will ever be was fed.
    ended: bool,
    /// Nothing is on its way.
    through: bool,
}

impl<P: Predicate> HandshakeJoin<P> {
    /// A join without rows, on a chain of `nodes` nodes.
    pub fn new(
        predicate: Arc<P>,
        window: Retention,
        algorithm: HandshakeAlgorithm,
        nodes: usize,
        ordered: bool,
    ) -> Self {
        let looks_up = algorithm == HandshakeAlgorithm::LowLatency
            && predicate.lookup().is_some_and(|lookup| lookup.kind() == Kind::Hash);
        let epoch = Epoch {
            ts: Vec::new(),
            sides: Vec::new(),
            left: P::Left::default(),
            right: P::Right::default(),
            fed: (0, [0; 2]),
            punctuations: 0,
            ended: false,
            through: true,
        };
        HandshakeJoin {
            algorithm,
            looks_up,
            chain: Chain::new(predicate, window, algorithm, nodes, ordered),
            epoch,
            found: Vec::new(),
            given: 0,
            restored: 0,
            firsts: VecDeque::from([(0, [0; 2])]),
            first: [0; 2],
            pace: Pace::default(),
        }
    }

    /// Begins an epoch with rows in merged order, none before a row of a former epoch: the time and
    /// the side of each, and the columns of each side's rows.
    ///
    /// # Panics
    ///
    /// When the former epoch is not done, or there are not as many rows in the columns.
    pub fn begin(&mut self, ts: Vec<i64>, sides: Vec<Side>, left: P::Left, right: P::Right) {
        assert!(self.is_done(), "an epoch begins when the one before is done");
        assert_eq!(
            (ts.len(), ts.len()),
            (sides.len(), left.len() + right.len()),
            "a side and columns for each row"
        );
        let punctuations = usize::from(!ts.is_empty());
        self.epoch = Epoch {
            ts,
            sides,
            left,
            right,
            fed: (0, [0; 2]),
            punctuations,
            ended: false,
            through: false,
        };
    }

    /// Takes in the rows of each side that a join of the same query has kept once all its results
    /// were given: their times, and their columns. This one has no rows yet.
    ///
    /// What they give among themselves is found again and left out, on this thread; in the original
    /// algorithm, as it comes later.
    ///
    /// # Panics
    ///
    /// When there are rows already.
    pub fn restore(
        &mut self,
        ts: [&[i64]; 2],
        left: P::Left,
        right: P::Right,
    ) -> Result<(), Stopped> {
        assert_eq!(self.chain.feed.rows(), 0, "rows are restored before any come");
        let of_side = |side: Side| ts[side as usize].iter().map(move |&ts| (ts, side));
        let mut rows: Vec<(i64, Side)> = of_side(Side::Left).chain(of_side(Side::Right)).collect();
        // Left sources are first in merged order.
        rows.sort_by_key(|&(ts, side)| (ts, side as u8));
        self.restored = rows.len() as u64;
        self.given = self.restored;
        let (ts, sides) = rows.into_iter().unzip();
        self.begin(ts, sides, left, right);
        while !self.is_done() {
            self.advance(&Driver::new(1, Stop::default()))?;
        }
        Ok(())
    }

    /// No more rows will come: the original algorithm then lets the last ones flow past each other.
    ///
    /// # Panics
    ///
    /// When the former epoch is not done.
    pub fn end(&mut self) {
        assert!(self.is_done(), "the join ends when the last epoch is done");
        self.chain.feed.end();
        self.epoch.punctuations = 2;
        self.epoch.ended = true;
        self.epoch.through = false;
    }

    /// Finds the next results of the epoch: all that can be given so far, or enough to be taken, or
    /// the ones before a pause. In the original algorithm, results of an epoch may also come in
    /// later ones.
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
        let alone = Driver::new(1, driver.stop());
        let pausing = driver;
        let driver = if self.work() < SMALL_WORK { &alone } else { driver };
        let Chain { feed, nodes, collector } = &mut self.chain;
        let (epoch, found, pace) = (&mut self.epoch, &mut self.found, &mut self.pace);
        let mut upto = 0;
        let mut ends = || {
            let fed = feed.has_room() && epoch.feed(feed, pace);
            // Asked before the queues are emptied: whatever was found is then in them.
            let through = epoch.is_fed() && feed.is_through();
            upto = collector.collect(found);
            pace.found = pace.taken + (found.len() + collector.buffered()) as u64;
            if through && epoch.ended {
                upto = feed.rows();
                collector.rest(upto, found);
            }
            epoch.through = through;
            match through || found.len() >= MOST_RESULTS || pausing.is_paused() {
                true => Turn::Finished,
                false if fed => Turn::Worked,
                false => Turn::Waiting,
            }
        };
        let mut steps: Vec<_> = nodes.iter_mut().map(|node| || node.step()).collect();
        let mut tasks: Vec<&mut (dyn FnMut() -> Turn + Send)> = vec![&mut ends];
        tasks.extend(steps.iter_mut().map(|step| step as &mut (dyn FnMut() -> Turn + Send)));
        driver.take_turns(tasks)?;
        self.given = self.given.max(upto);
        driver.check()
    }

    /// Takes the results that were found, in order if the join is ordered.
    pub(super) fn take(&mut self) -> Vec<Found> {
        let mut found = std::mem::take(&mut self.found);
        self.pace.taken += found.len() as u64;
        found.retain_mut(|found| {
            let place = found.seq.checked_sub(self.restored);
            found.seq = place.unwrap_or_default();
            place.is_some()
        });
        found
    }

    /// The results of how many rows have been found, of those that came after the restored ones.
    pub(super) fn given(&self) -> u64 {
        self.given - self.restored
    }

    /// Comparisons that are left to do, roughly.
    fn work(&self) -> u64 {
        let rows = (self.epoch.ts.len() - self.epoch.fed.0) as u64;
        let kept = [Side::Left, Side::Right].map(|side| self.rows(side) as u64);
        rows * if self.looks_up { 16 } else { kept[0] + kept[1] }
    }

    /// Lets go of rows that no row at `now` or later can match, and no result that is to come has;
    /// `None` stands for the end of time. Places are counted anew from here on.
    ///
    /// # Panics
    ///
    /// When the epoch is not done.
    pub fn purge(&mut self, now: Option<i64>) {
        assert!(self.is_done(), "rows of the epoch may still match");
        let feed = &mut self.chain.feed;
        match now {
            Some(now) => feed.tracker.expire(now),
            None => feed.end(),
        }
        let expired = [Side::Left, Side::Right].map(|side| feed.tracker.span(side).first);
        self.firsts.push_back((feed.rows(), expired));
        // Results from a place on have no row that had expired there.
        while self.firsts.get(1).is_some_and(|(from, _)| *from <= self.given) {
            self.firsts.pop_front();
        }
        self.first = self.firsts[0].1;
    }

    /// Whether all results of the epoch that can be given so far were given.
    pub fn is_done(&self) -> bool {
        self.epoch.through && self.found.is_empty()
    }

    /// The rows of the epoch.
    pub fn epoch_rows(&self) -> usize {
        self.epoch.ts.len()
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
        let next = self.chain.feed.tracker.span(side).next;
        let waiting = match side {
            Side::Left => self.epoch.left.len(),
            Side::Right => self.epoch.right.len(),
        } - self.epoch.fed.1[side as usize];
        (next - self.first(side)) as usize + waiting
    }

    /// Bytes held beside the rows themselves.
    pub fn memory(&self) -> usize {
        self.chain.nodes.iter().map(|node| node.memory()).sum::<usize>()
            + self.chain.feed.tracker.memory()
            + self.chain.collector.buffered() * size_of::<Found>()
    }

    /// Candidate pairs that each node has looked at.
    pub fn comparisons(&self) -> Vec<u64> {
        self.chain.nodes.iter().map(|node| node.comparisons()).collect()
    }

    /// The most results that have waited at a time for others to come before them.
    pub fn most_buffered(&self) -> usize {
        self.chain.collector.most_buffered()
    }
}

impl<P: Predicate> Epoch<P> {
    /// Whether rows and punctuations have all been fed.
    fn is_fed(&self) -> bool {
        self.fed.0 == self.ts.len() && self.punctuations == 0
    }

    /// Feeds the next rows, or a punctuation; false if there is nothing to feed.
    fn feed(&mut self, feed: &mut super::Feed<P>, pace: &mut Pace) -> bool {
        let (fed, [left, right]) = self.fed;
        let spans = [Side::Left, Side::Right].map(|side| feed.tracker.span(side));
        let window = spans.iter().map(|span| span.next - span.first).max().unwrap_or(0);
        let rows = fed..self.ts.len().min(fed + pace.burst(window));
        pace.compared += rows.len() as u64 * window;
        if rows.is_empty() {
            if self.punctuations == 0 || (self.ended && !feed.is_through()) {
                return false;
            }
            self.punctuations -= 1;
            feed.punctuate();
            return true;
        }
        let sides = &self.sides[rows.clone()];
        let lefts = sides.iter().filter(|side| **side == Side::Left).count();
        let (left_rows, right_rows) = (left..left + lefts, right..right + sides.len() - lefts);
        self.fed = (rows.end, [left_rows.end, right_rows.end]);
        let ts = &self.ts[rows];
        feed.feed(&Burst {
            ts,
            sides,
            left: &self.left,
            left_rows,
            right: &self.right,
            right_rows,
        });
        true
    }
}
