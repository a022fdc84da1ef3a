//! The messages that travel through the chain, and their queues.

use std::fmt::Debug;
use std::sync::Arc;

use tidegate_sync::{HighWater, Receiver, Sender, ring};

use super::Bells;
use super::local::Chunk;
use super::window::Span;

/// The maximum number of messages in flight in each direction. Every message is passed along the
/// whole chain, from one end to the other, so no queue contains more messages than this.
pub(super) const IN_FLIGHT: usize = if cfg!(loom) { 2 } else { 16 };

/// A message, which contains rows, and numbers that the neighbour needs before it handles these
/// rows.
#[derive(Debug)]
pub(super) struct Message<C> {
    /// The rows, if the message contains any.
    pub(super) rows: Option<Arc<Chunk<C>>>,
    /// No later message contains rows before this position in merged order.
    pub(super) seq: u64,
    /// Rows of the other side numbered below this have
    /// - left to right: arrived at the sender (they are acknowledged),
    /// - right to left: passed the far end of the chain (their expedition has ended).
    pub(super) passed: u64,
    /// The rows on the other side that are still in the window. Earlier rows have expired.
    pub(super) opposite: Span,
}

/// The progress of the messages in one direction. The node at the end of the chain raises the
/// marks.
#[derive(Debug, Default)]
pub(super) struct ArrivalMarks {
    /// The number of messages that have arrived.
    pub(super) messages: HighWater,
    /// All nodes have handled the rows on this side that precede this position in merged order.
    pub(super) seq: HighWater,
    /// In the original algorithm, left rows before this position have left the chain.
    pub(super) gone: HighWater,
}

/// A node's position in the queues of one direction.
#[derive(Debug)]
pub(super) struct Station<C> {
    pub(super) from: Receiver<Message<C>>,
    /// `None` at the end of the chain.
    pub(super) to: Option<Link<C>>,
}

/// The connection to a node.
#[derive(Debug)]
pub(super) struct Link<C> {
    to: Sender<Message<C>>,
    node: usize,
    bells: Bells,
}

impl<C: Debug> Link<C> {
    /// Sends a message to a node, and wakes the node if it has its own thread.
    pub(super) fn send(&mut self, message: Message<C>) {
        self.to.send(message).expect("a queue has room for all messages that can be in transit");
        self.bells.call(self.node);
    }
}

/// Creates the queues of one direction. The nodes must be listed in the direction of travel.
/// Returns the feed's connection and the stations.
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
