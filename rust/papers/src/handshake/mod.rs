//! The handshake joins, which support any predicate. The two sides' windows flow past each other
//! through a chain of nodes.
//!
//! Left rows flow from left to right and right rows from right to left. Rows are compared wherever
//! they meet. Each node communicates only with its neighbours, through FIFO queues. The node
//! compares new rows with the rows that it keeps.
//!
//! ```text
//!              ┌────────┐ left rows ▶ ┌────────┐           ┌────────┐
//!   left  ───▶ │ node 0 │ ──────────▶ │ node 1 │ ── ... ─▶ │ node n │ ─▶ high-water mark
//!   mark  ◀─── │        │ ◀────────── │        │ ◀─ ... ── │        │ ◀─── right
//!              └───┬────┘ ◀ right rows└───┬────┘           └───┬────┘
//!                  └─ pairs ──────────────┴────────────────────┴──▶ collector ─▶ in order
//! ```
//!
//! - [`HandshakeAlgorithm::Original`]: rows stay on each node while they are in the node's share of
//!   the window, as in Teubner and Mueller, "How Soccer Players Would do Stream Joins" (SIGMOD
//!   2011). A pair is found when its two rows meet in the chain, which takes up to half the length
//!   of a window.
//! - [`HandshakeAlgorithm::LowLatency`]: rows pass quickly through the whole chain, and only one
//!   node, their home, keeps a copy. This is Roy, Teubner and Gemulla, "Low-Latency Handshake Join"
//!   (PVLDB 7.9, 2014), Figures 12 to 14. A pair is found within the time of one hop and one scan.
//!
//! Both algorithms find each pair exactly once, regardless of how the threads interleave. The proof
//! is in README.md. As the contract specifies, results are ordered by their later rows in merged
//! order, then by their earlier rows.
//!
//! In a [`HandshakeJoin`], each node has its own thread. The threads keep running between calls as
//! long as rows are in flight, and sleep otherwise. In a [`Chain`], the caller steps the nodes.
//!
//! # Trade-offs
//!
//! In addition to its columns, a node needs 24 bytes per row. A chunk of rows is copied once, into
//! its home node's window. In the original algorithm, it is copied once per node. Each new row is
//! compared with its whole window, unless the predicate [looks up rows](Lookup). The comparisons
//! are divided evenly among the nodes.
//!
//! # When to use something else
//!
//! [`interval::streaming`](tidegate_operators::interval::streaming) finds pairs with equal keys and
//! nearby times without comparing any other rows.
#![doc = include_str!("README.md")]

mod bands;
mod collect;
mod entry;
mod feed;
mod finder;
mod index;
mod join;
mod local;
mod low_latency;
mod message;
mod node;
mod original;
mod predicate;
#[cfg(all(test, not(loom)))]
mod schedules;
mod seat;
mod sliding;
#[cfg(all(test, not(loom)))]
mod tests;
mod window;

use std::sync::Arc;

use tidegate_sync::{HighWater, ring};

use crate::threads::Crew;
pub use bands::{BandPredicate, NumberColumn, NumberRows};
pub use collect::Collector;
use collect::Inlet;
pub use feed::{Burst, Feed};
pub use finder::ResultPair;
pub use join::HandshakeJoin;
use message::{ArrivalMarks, line};
pub use node::Node;
use node::Outlet;
pub use predicate::{Columns, Lookup, Pair, Predicate, SearchStructure};
pub use seat::Seat;
pub use sliding::{Rank, SlidingHandshake};
use tidegate_operators::rows::Retention;

/// Determines how rows travel through the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeAlgorithm {
    /// Rows pass through the chain without delay. Each row is kept only by its home node.
    LowLatency,
    /// Rows move at the speed at which the windows advance.
    Original,
}

/// The maximum number of nodes in a chain.
pub const MAX_NODES: usize = 256;

/// The maximum number of a node's result batches that can wait for the collector.
const RESULTS: usize = if cfg!(any(test, loom)) { 2 } else { 64 };

/// The number of a node's results that can wait for the collector before the node itself waits. The
/// results of a single message may exceed this limit.
const MOST_WAITING: u64 = if cfg!(any(test, loom)) { 8 } else { 1 << 16 };

/// The bells of nodes that have their own threads. If there are no bells, the caller steps the
/// nodes repeatedly.
#[derive(Clone, Debug)]
struct Bells(Option<tidegate_sync::atomic::Arc<Crew>>);

impl Bells {
    /// Wakes a node to check for work.
    fn call(&self, node: usize) {
        if let Some(crew) = &self.0 {
            crew.call(node).ring();
        }
    }
}

/// A chain of nodes, including both ends. Each part is used by one thread at a time, and several
/// parts may be used by the same thread.
#[derive(Debug)]
pub struct Chain<P: Predicate> {
    /// The end through which rows are fed.
    pub feed: Feed<P>,
    /// The nodes, from left to right.
    pub nodes: Vec<Node<P>>,
    /// The collector, which returns the pairs.
    pub collector: Collector,
}

impl<P: Predicate> Chain<P> {
    /// Creates a chain of `nodes` nodes. The number of nodes must be between 1 and [`MAX_NODES`].
    /// If `ordered` is false, results are returned in the order in which they are found.
    pub fn new(
        predicate: Arc<P>,
        window: Retention,
        algorithm: HandshakeAlgorithm,
        nodes: usize,
        ordered: bool,
    ) -> Self {
        Self::with_bells(predicate, window, algorithm, nodes, ordered, Bells(None))
    }

    /// Like [`new`](Self::new), but the nodes' threads wait for these bells.
    fn with_bells(
        predicate: Arc<P>,
        window: Retention,
        algorithm: HandshakeAlgorithm,
        nodes: usize,
        ordered: bool,
        bells: Bells,
    ) -> Self {
        let nodes = nodes.clamp(1, MAX_NODES);
        let (to_right, rightward) = line(0..nodes, &bells);
        let (to_left, mut leftward) = line((0..nodes).rev(), &bells);
        leftward.reverse();
        let arrived = [(); 2].map(|()| Arc::new(ArrivalMarks::default()));
        let feed = Feed::new(window, nodes, to_right, to_left, arrived.clone());
        let way_out = |_| {
            let ((to, from), mark) = (ring(RESULTS), Arc::new(HighWater::default()));
            (Outlet { to, sent: 0, taken: mark.clone() }, Inlet { from, taken: 0, mark })
        };
        let (outlets, inlets): (Vec<_>, Vec<_>) = (0..nodes).map(way_out).unzip();
        let node = |(number, (stations, outlet))| {
            let (predicate, arrived) = (predicate.clone(), arrived.clone());
            Node::new(algorithm, (number, nodes), predicate, stations, arrived, outlet)
        };
        let stations = rightward.into_iter().zip(leftward);
        let nodes = stations.zip(outlets).enumerate().map(node).collect();
        let collector = Collector::new(algorithm, inlets, bells, arrived, ordered);
        Chain { feed, nodes, collector }
    }
}
