//! The messages that travel through the chain, and the queues that they travel in.

use std::sync::Arc;

use tidegate_sync::{HighWater, Receiver, Sender, ring};

use super::local::Chunk;
use super::window::Span;

/// Messages that may be on their way through the chain in each direction. Every message begins at
/// one end, is passed on by each node and ends at the other, so no queue holds more.
pub(super) const IN_FLIGHT: usize = if cfg!(loom) { 2 } else { 16 };

/// A message, and the numbers that ride on it: what the neighbour has to know before it sees the
/// rows.
#[derive(Debug)]
pub(super) struct Message<C> {
    /// Rows, if any come at this time.
    pub(super) rows: Option<Arc<Chunk<C>>>,
    /// No later message has rows before this place in merged order.
    pub(super) seq: u64,
    /// Rows of the other side below this number have
    /// - left to right: arrived at the sender (they are acknowledged),
    /// - right to left: passed the far end of the chain (their expedition has ended).
    pub(super) passed: u64,
    /// The rows of the other side that are in their window: those before have expired.
    pub(super) opposite: Span,
}

/// How far one direction has come. Raised by the node at its end.
#[derive(Debug, Default)]
pub(super) struct Arrived {
    /// Messages that have arrived.
    pub(super) messages: HighWater,
    /// The high-water mark: rows of the side before this place in merged order find no more pairs
    /// (in the low-latency algorithm), or have left the chain (left rows in the original one).
    pub(super) seq: HighWater,
}

/// A node's place in the queues of one direction.
#[derive(Debug)]
pub(super) struct Station<C> {
    pub(super) from: Receiver<Message<C>>,
    /// `None` at the end of the chain.
    pub(super) to: Option<Sender<Message<C>>>,
}

/// Lays the queues of one direction: what the feed sends into, and the stations in the direction of
/// travel.
pub(super) fn line<C>(nodes: usize) -> (Sender<Message<C>>, Vec<Station<C>>) {
    let (first, mut from) = ring(IN_FLIGHT);
    let mut stations = Vec::with_capacity(nodes);
    for _ in 1..nodes {
        let (to, next) = ring(IN_FLIGHT);
        stations.push(Station { from: std::mem::replace(&mut from, next), to: Some(to) });
    }
    stations.push(Station { from, to: None });
    (first, stations)
}
