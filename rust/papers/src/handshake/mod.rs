//! The handshake joins: windows of rows that flow past each other through a chain of nodes, under
//! any predicate.
//!
//! Left rows flow from left to right and right rows from right to left; wherever two rows meet,
//! they are compared. A node talks to its neighbours alone, through FIFO queues, and compares with
//! rows of its own.
//!
//! ```text
//!              ┌────────┐ left rows ▶ ┌────────┐           ┌────────┐
//!   left  ───▶ │ node 0 │ ──────────▶ │ node 1 │ ── ... ─▶ │ node n │ ─▶ high-water mark
//!   mark  ◀─── │        │ ◀────────── │        │ ◀─ ... ── │        │ ◀─── right
//!              └───┬────┘ ◀ right rows└───┬────┘           └───┬────┘
//!                  └─ pairs ──────────────┴────────────────────┴──▶ collector ─▶ in order
//! ```
//!
//! - [`HandshakeAlgorithm::Original`]: rows rest on each node for their share of the window, as in Teubner
//!   and Mueller, "How Soccer Players Would do Stream Joins" (SIGMOD 2011). A pair is found when
//!   the windows have flowed so far that its rows meet, which takes up to half a window.
//! - [`HandshakeAlgorithm::LowLatency`]: rows rush through the whole chain, and one node, their home, keeps
//!   a copy: Roy, Teubner and Gemulla, "Low-Latency Handshake Join" (PVLDB 7.9, 2014), Figures 12
//!   to 14. A pair is found within the time of a hop and a scan.
//!
//! Both find each pair once, whatever the threads do: README.md has the argument. The order of
//! results is that of the contract: by the later row in merged order, then the earlier.
//!
//! In a [`HandshakeJoin`] each node has a thread of its own. The threads go on between calls for as
//! long as rows are on their way, and rest where there are none. A [`Chain`] is stepped by hand.
//!
//! # Trade-offs
//!
//! A node holds 24 bytes a row beside its columns. A chunk of rows is copied once, into its home
//! node's window, or once a node in the original algorithm. The work is that of comparing each new
//! row with its whole window, divided evenly, unless the predicate [looks rows up](Lookup).
//!
//! # When to use something else
//!
//! Pairs with equal keys and close times are found by
//! [`interval::streaming`](tidegate_operators::interval::streaming) without comparing others.
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

/// How rows travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeAlgorithm {
    /// Rows are expedited, and kept by their home node.
    LowLatency,
    /// Rows move as the windows do.
    Original,
}

/// The most nodes a chain may have.
pub const MAX_NODES: usize = 256;

/// Batches of results of a node that may wait for the collector.
const RESULTS: usize = if cfg!(any(test, loom)) { 2 } else { 64 };

/// Results of a node that may wait for the collector, before the node waits. The results of one
/// message may be more.
const MOST_WAITING: u64 = if cfg!(any(test, loom)) { 8 } else { 1 << 16 };

/// The bells of nodes that have threads of their own. Else somebody steps them again and again.
#[derive(Clone, Debug)]
struct Bells(Option<tidegate_sync::atomic::Arc<Crew>>);

impl Bells {
    /// Calls a node to look for something to do.
    fn call(&self, node: usize) {
        if let Some(crew) = &self.0 {
            crew.call(node).ring();
        }
    }
}

/// A chain of nodes with both its ends. Each part belongs to one thread at a time; parts may share
/// threads.
#[derive(Debug)]
pub struct Chain<P: Predicate> {
    /// Where rows go in.
    pub feed: Feed<P>,
    /// The nodes, from left to right.
    pub nodes: Vec<Node<P>>,
    /// Where pairs come out.
    pub collector: Collector,
}

impl<P: Predicate> Chain<P> {
    /// A chain of `nodes` nodes, between 1 and [`MAX_NODES`]. Unless it is `ordered`, results come
    /// as they are found.
    pub fn new(
        predicate: Arc<P>,
        window: Retention,
        algorithm: HandshakeAlgorithm,
        nodes: usize,
        ordered: bool,
    ) -> Self {
        Self::with_bells(predicate, window, algorithm, nodes, ordered, Bells(None))
    }

    /// The same, for nodes that wait for these bells.
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
