//! The papers' driver, which tracks the windows and feeds rows into the ends of the chain.

use std::ops::Range;
use std::sync::Arc;

use super::local::Chunk;
use super::message::{ArrivalMarks, IN_FLIGHT, Link, Message};
use super::predicate::{Columns, Predicate};
use super::window::{Tracker, WindowPlace};
use tidegate_operators::rows::{Retention, Side};

/// Rows in merged order, with the columns of each side's rows.
#[derive(Clone, Debug)]
pub struct Burst<'a, P: Predicate> {
    /// The time of each row.
    pub ts: &'a [i64],
    /// The side of each row.
    pub sides: &'a [Side],
    /// The columns that contain the left rows.
    pub left: &'a P::Left,
    /// The positions of the left rows in `left`.
    pub left_rows: Range<usize>,
    /// The columns that contain the right rows.
    pub right: &'a P::Right,
    /// The positions of the right rows in `right`.
    pub right_rows: Range<usize>,
}

/// Feeds a chain.
#[derive(Debug)]
pub struct Feed<P: Predicate> {
    pub(super) tracker: Tracker,
    to_right: Link<P::Left>,
    to_left: Link<P::Right>,
    arrived: [Arc<ArrivalMarks>; 2],
    /// The number of messages sent in each direction.
    sent: [u64; 2],
    /// For each side and node, the number of rows that have their home on the node.
    homes: [Vec<u64>; 2],
    /// The number of rows fed.
    pub(super) rows: u64,
}

impl<P: Predicate> Feed<P> {
    pub(super) fn new(
        window: Retention,
        nodes: usize,
        to_right: Link<P::Left>,
        to_left: Link<P::Right>,
        arrived: [Arc<ArrivalMarks>; 2],
    ) -> Self {
        let homes = [vec![0; nodes], vec![0; nodes]];
        Feed {
            tracker: Tracker::new(window),
            to_right,
            to_left,
            arrived,
            sent: [0; 2],
            homes,
            rows: 0,
        }
    }

    /// Returns the number of rows fed so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns whether all queues have room for another burst.
    pub fn has_room(&self) -> bool {
        self.on_their_way().iter().all(|&messages| messages < IN_FLIGHT as u64)
    }

    /// Returns whether all messages have passed through the chain.
    pub fn is_through(&self) -> bool {
        self.on_their_way() == [0, 0]
    }

    /// Returns the number of rows that all nodes have handled, counting both sides.
    pub fn handled(&self) -> u64 {
        self.arrived.each_ref().map(|arrived| arrived.seq.get()).into_iter().min().unwrap_or(0)
    }

    fn on_their_way(&self) -> [u64; 2] {
        [0, 1].map(|side: usize| self.sent[side] - self.arrived[side].messages.get())
    }

    /// Feeds rows. No row may precede a row from an earlier burst. One message is sent in each
    /// direction so that the high-water marks at both ends advance together. A message without rows
    /// serves only as a punctuation.
    ///
    /// # Panics
    ///
    /// Panics if there is no room.
    pub fn feed(&mut self, burst: &Burst<'_, P>) {
        assert!(self.has_room(), "there is room for a burst");
        let mut places =
            [Vec::with_capacity(burst.left_rows.len()), Vec::with_capacity(burst.right_rows.len())];
        for (&ts, &side) in burst.ts.iter().zip(burst.sides) {
            places[side as usize].push(self.tracker.place(side, ts));
        }
        self.rows += burst.ts.len() as u64;
        let [left, right] = places;
        let left = chunk(&mut self.homes[0], left, burst.left, burst.left_rows.clone());
        let right = chunk(&mut self.homes[1], right, burst.right, burst.right_rows.clone());
        self.send_right(left);
        self.send_left(right);
    }

    /// Feeds messages without rows. Once these messages have passed through the chain, everything
    /// fed earlier has also passed through it.
    ///
    /// # Panics
    ///
    /// Panics if there is no room.
    pub fn punctuate(&mut self) {
        assert!(self.has_room(), "there is room for a punctuation");
        self.send_right(None);
        self.send_left(None);
    }

    /// Expires all rows. After the next message has passed through the chain, every node knows that
    /// all rows have expired. In the original algorithm, the subsequent message moves the rows that
    /// are still resting in the chain.
    pub fn end(&mut self) {
        self.tracker.end();
    }

    pub(super) fn send_right(&mut self, rows: Option<Arc<Chunk<P::Left>>>) {
        let seq = rows.as_ref().map_or(self.rows, |chunk| chunk.first().seq());
        let message = Message { rows, seq, passed: 0, opposite: self.tracker.span(Side::Right) };
        self.to_right.send(message);
        self.sent[0] += 1;
    }

    pub(super) fn send_left(&mut self, rows: Option<Arc<Chunk<P::Right>>>) {
        let seq = rows.as_ref().map_or(self.rows, |chunk| chunk.first().seq());
        let message = Message { rows, seq, passed: 0, opposite: self.tracker.span(Side::Left) };
        self.to_left.send(message);
        self.sent[1] += 1;
    }
}

/// Copies rows into a chunk. The chunk's home is the node to which the fewest rows have been
/// assigned.
fn chunk<C: Columns>(
    homes: &mut [u64],
    places: Vec<WindowPlace>,
    from: &C,
    rows: Range<usize>,
) -> Option<Arc<Chunk<C>>> {
    assert_eq!(places.len(), rows.len(), "one side per row");
    if rows.is_empty() {
        return None;
    }
    let home = (0..homes.len()).min_by_key(|&node| homes[node]).expect("a chain has nodes");
    homes[home] += rows.len() as u64;
    let mut columns = C::default();
    columns.push_rows(from, rows);
    Some(Arc::new(Chunk { home, places, columns }))
}
