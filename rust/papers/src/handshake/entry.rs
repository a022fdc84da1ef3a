//! The entry of the chain. Rows wait here until the chain has room for them.
//!
//! The end nodes' threads feed the chain after they have made room in it. The caller feeds the
//! chain whenever it adds rows. The chain is therefore fed as long as rows are waiting, even
//! between calls.

use std::collections::VecDeque;
use std::sync::Arc;

use tidegate_sync::Counter;

use super::Feed;
use super::feed::Burst;
use super::predicate::{Columns, Predicate};
use tidegate_operators::rows::Side;

/// The maximum number of rows that are fed together. As in the paper, a node's kernel can then
/// compare several new rows with each part of the node's window.
const BURST: usize = if cfg!(any(test, loom)) { 3 } else { 64 };

/// The approximate maximum number of pairs found for one burst of rows. Enough memory is reserved
/// for the pairs of all bursts in the chain.
const BURST_PAIRS: u64 = 1 << 18;

/// After this many comparisons, the share of matching pairs is considered known.
const KNOWN: u64 = 1 << 20;

/// The rows in an epoch, in merged order.
#[derive(Debug)]
pub(super) struct Epoch<P: Predicate> {
    pub(super) ts: Vec<i64>,
    pub(super) sides: Vec<Side>,
    pub(super) left: P::Left,
    pub(super) right: P::Right,
    /// The number of rows that have been fed, in total and per side.
    fed: (usize, [usize; 2]),
}

impl<P: Predicate> Epoch<P> {
    /// Creates an epoch of rows that have not been fed yet. The arguments are the time and side of
    /// each row, and the columns for each side.
    ///
    /// # Panics
    ///
    /// Panics if the numbers of times, sides and rows in the columns differ.
    pub(super) fn new(ts: Vec<i64>, sides: Vec<Side>, left: P::Left, right: P::Right) -> Self {
        let columns = left.len() + right.len();
        assert_eq!((ts.len(), ts.len()), (sides.len(), columns), "a side and columns for each row");
        Epoch { ts, sides, left, right, fed: (0, [0; 2]) }
    }

    fn is_fed(&self) -> bool {
        self.fed.0 == self.ts.len()
    }

    fn memory(&self) -> usize {
        let of_row = size_of::<i64>() + size_of::<Side>();
        self.ts.len() * of_row
            + self.left.len() * self.left.row_bytes()
            + self.right.len() * self.right.row_bytes()
    }
}

/// The figures of a node.
#[derive(Debug, Default)]
pub(super) struct NodeFigures {
    pub(super) compared: Counter,
    pub(super) found: Counter,
    pub(super) memory: Counter,
}

/// The approximate share of compared pairs that match.
#[derive(Debug)]
struct Pace {
    compared: u64,
    /// The figures of all nodes.
    figures: Arc<Vec<NodeFigures>>,
    /// The number of pairs that the nodes found in earlier chains.
    found_before: usize,
}

impl Pace {
    fn found(&self) -> usize {
        self.figures.iter().map(|figures| figures.found.get()).sum()
    }

    /// Returns how many rows to feed together if each fed row is compared with `window` rows.
    fn burst(&self, window: u64) -> usize {
        let pairs = match self.compared {
            0..KNOWN => window as f64,
            compared => {
                let found = self.found().saturating_sub(self.found_before);
                window as f64 * found as f64 / compared as f64
            }
        };
        (BURST_PAIRS as f64 / pairs.max(1.0)).clamp(1.0, BURST as f64) as usize
    }
}

/// The progress of a chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// The number of rows that, like all rows before them, have been handled by all nodes.
    pub(super) handled: u64,
    /// True if no rows are in flight or waiting.
    pub(super) is_idle: bool,
    /// True if all rows that will ever arrive have been fed.
    pub(super) has_ended: bool,
}

/// The feed, and the rows that are waiting to be fed.
#[derive(Debug)]
pub(super) struct FeedEntry<P: Predicate> {
    feed: Feed<P>,
    epochs: VecDeque<Epoch<P>>,
    /// The number of rows in `epochs` that have not been fed.
    waiting: usize,
    pace: Pace,
    /// The number of punctuations to send after the rows.
    punctuations: usize,
    has_ended: bool,
    /// Positions in merged order. Each position is stored with the first row on each side that can
    /// occur in results from that position onwards.
    firsts: VecDeque<(u64, [u64; 2])>,
    /// The number of handled rows for which the caller is waiting, and the last number for which it
    /// was woken.
    wanted: u64,
    told: u64,
}

impl<P: Predicate> FeedEntry<P> {
    pub(super) fn new(feed: Feed<P>, figures: Arc<Vec<NodeFigures>>) -> Self {
        let mut pace = Pace { compared: 0, figures, found_before: 0 };
        pace.found_before = pace.found();
        FeedEntry {
            feed,
            epochs: VecDeque::new(),
            waiting: 0,
            pace,
            punctuations: 0,
            has_ended: false,
            firsts: VecDeque::from([(0, [0; 2])]),
            wanted: 0,
            told: 0,
        }
    }

    /// Feeds rows as long as there is room. Returns `true` if the caller has to be woken. This is
    /// the case if all nodes have handled the rows for which it is waiting, or if the chain is
    /// idle.
    pub(super) fn go_on(&mut self) -> bool {
        while self.feed.has_room() && self.feed_next() {}
        let Progress { handled, is_idle, .. } = self.progress();
        let is_reached = self.told < self.wanted && self.wanted <= handled;
        if is_reached {
            self.told = self.wanted;
        }
        is_reached || is_idle
    }

    /// Feeds the next rows or a punctuation. Returns `false` if there is nothing to feed.
    fn feed_next(&mut self) -> bool {
        let spans = self.spans();
        let Some(epoch) = self.epochs.front_mut() else {
            if self.punctuations == 0 || (self.has_ended && !self.feed.is_through()) {
                return false;
            }
            self.punctuations -= 1;
            self.feed.punctuate();
            return true;
        };
        let (fed, [left, right]) = epoch.fed;
        let window = spans.iter().map(|span| span.next - span.first).max().unwrap_or(0);
        let rows = fed..epoch.ts.len().min(fed + self.pace.burst(window));
        self.pace.compared += rows.len() as u64 * window;
        self.waiting -= rows.len();
        let sides = &epoch.sides[rows.clone()];
        let lefts = sides.iter().filter(|side| **side == Side::Left).count();
        let (left_rows, right_rows) = (left..left + lefts, right..right + sides.len() - lefts);
        epoch.fed = (rows.end, [left_rows.end, right_rows.end]);
        self.feed.feed(&Burst {
            ts: &epoch.ts[rows],
            sides,
            left: &epoch.left,
            left_rows,
            right: &epoch.right,
            right_rows,
        });
        if epoch.is_fed() {
            self.epochs.pop_front();
        }
        self.punctuations = 1;
        self.note_firsts();
        true
    }

    fn spans(&self) -> [super::window::Span; 2] {
        [Side::Left, Side::Right].map(|side| self.feed.tracker.span(side))
    }

    /// Records which rows later results can contain. Returns whether the recorded rows have
    /// changed.
    fn note_firsts(&mut self) -> bool {
        let firsts = self.spans().map(|span| span.first);
        let is_new = self.firsts.back().is_none_or(|(_, last)| *last != firsts);
        if is_new {
            self.firsts.push_back((self.feed.rows(), firsts));
        }
        is_new
    }

    /// Adds rows that are waiting to be fed.
    pub(super) fn put(&mut self, epoch: Epoch<P>) {
        assert!(!self.has_ended, "no rows follow the end");
        if !epoch.is_fed() {
            self.waiting += epoch.ts.len();
            self.epochs.push_back(epoch);
        }
    }

    /// Declares that no more rows will arrive. All rows expire once nothing is in flight.
    pub(super) fn end(&mut self) {
        assert!(self.epochs.is_empty(), "the chain ends after all rows have been fed");
        self.feed.end();
        // After the first punctuation, every node knows of the end. The second moves the resting
        // rows.
        self.punctuations = 2;
        self.has_ended = true;
    }

    /// Expires the rows that no row at `now` or later can match; `None` means the end of time.
    /// Returns the first row on each side that can occur in results from position `given` onwards.
    pub(super) fn expire(&mut self, now: Option<i64>, given: u64) -> [u64; 2] {
        match now {
            Some(now) => self.feed.tracker.expire(now),
            None => self.feed.end(),
        }
        if self.note_firsts() && self.epochs.is_empty() && !self.has_ended {
            // The punctuation informs the nodes even if no row follows.
            self.punctuations = 1;
        }
        while self.firsts.get(1).is_some_and(|(from, _)| *from <= given) {
            self.firsts.pop_front();
        }
        self.firsts[0].1
    }

    /// Returns the progress of the chain. The caller is woken once all nodes have handled `wanted`
    /// rows.
    pub(super) fn look(&mut self, wanted: u64) -> Progress {
        self.wanted = self.wanted.max(wanted);
        self.progress()
    }

    fn progress(&self) -> Progress {
        let is_idle = self.epochs.is_empty() && self.punctuations == 0 && self.feed.is_through();
        Progress { handled: self.feed.handled(), is_idle, has_ended: self.has_ended }
    }

    /// Returns the number of rows that have not been fed yet.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns the number of the next row to be added on a side.
    pub(super) fn next(&self, side: Side) -> u64 {
        let waiting = |epoch: &Epoch<P>| {
            let rows = [epoch.left.len(), epoch.right.len()][side as usize];
            (rows - epoch.fed.1[side as usize]) as u64
        };
        self.feed.tracker.span(side).next + self.epochs.iter().map(waiting).sum::<u64>()
    }

    /// Returns the number of bytes in use.
    pub(super) fn memory(&self) -> usize {
        self.feed.tracker.memory() + self.epochs.iter().map(Epoch::memory).sum::<usize>()
    }
}
