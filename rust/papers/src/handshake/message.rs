//! The messages that travel through the chain, and the queues that they travel in.

use std::fmt::Debug;
use std::sync::Arc;

use tidegate_sync::{HighWater, Receiver, Sender, ring};

use super::Bells;
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
pub(super) struct ArrivalMarks {
    /// Messages that have arrived.
    pub(super) messages: HighWater,
    /// All nodes have handled the rows of the side before this place in merged order.
    pub(super) seq: HighWater,
    /// In the original algorithm, left rows before this place have left the chain.
    pub(super) gone: HighWater,
}

/// A node's place in the queues of one direction.
#[derive(Debug)]
pub(super) struct Station<C> {
    pub(super) from: Receiver<Message<C>>,
    /// `None` at the end of the chain.
    pub(super) to: Option<Link<C>>,
}

/// The way to a node.
#[derive(Debug)]
pub(super) struct Link<C> {
    to: Sender<Message<C>>,
    node: usize,
    bells: Bells,
}

impl<C: Debug> Link<C> {
    /// Sends a message, and calls the node if it has a thread of its own.
    pub(super) fn send(&mut self, message: Message<C>) {
        self.to.send(message).expect("a queue has room for all messages that may be on their way");
        self.bells.call(self.node);
    }
}

/// Lays the queues of one direction, given the nodes in the direction of travel: what the feed sends
/// into, and the stations.
pub(super) fn line<C>(
    nodes: impl Iterator<Item = usize>,
    bells: &Bells,
) -> (Link<C>, Vec<Station<C>>) {
    let mut stations: Vec<Station<C>> = Vec::new();
    let mut first = None;
    for node in nodes {
        let (to, from) = ring(IN_FLIGHT);
        let link = Link { to, node, bells: bells.clone() };
        match stations.last_mut() {
            Some(last) => last.to = Some(link),
            None => first = Some(link),
        }
        stations.push(Station { from, to: None });
    }
    (first.expect("a chain has nodes"), stations)
}
