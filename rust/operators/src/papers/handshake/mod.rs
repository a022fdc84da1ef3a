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
//! # Trade-offs
//!
//! A node holds 24 bytes a row beside its columns. A chunk of rows is copied once, into its home
//! node's window, or once a node in the original algorithm. The work is that of comparing each new
//! row with its whole window, divided evenly, unless the predicate [looks rows up](Lookup).
//!
//! # When to use something else
//!
//! Pairs with equal keys and close times are found by [`interval::streaming`](crate::interval::streaming)
//! without comparing others.
#![doc = include_str!("README.md")]

mod bands;
mod collect;
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
mod sliding;
#[cfg(all(test, not(loom)))]
mod tests;
mod window;

use std::sync::Arc;

use tidegate_sync::ring;

use crate::rows::Retention;
pub use bands::{BandPredicate, NumberColumn, NumberRows};
pub use collect::Collector;
pub use feed::{Burst, Feed};
pub use finder::Found;
pub use join::HandshakeJoin;
use message::{Arrived, line};
pub use node::Node;
pub use predicate::{Columns, Kind, Lookup, Pair, Predicate};
pub use sliding::{Rank, SlidingHandshake};

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
        let nodes = nodes.clamp(1, MAX_NODES);
        let (to_right, rightward) = line(nodes);
        let (to_left, mut leftward) = line(nodes);
        leftward.reverse();
        let arrived = [(); 2].map(|()| Arc::new(Arrived::default()));
        let feed = Feed::new(window, nodes, to_right, to_left, arrived.clone());
        let (results, queues): (Vec<_>, Vec<_>) = (0..nodes).map(|_| ring(RESULTS)).unzip();
        let nodes = rightward
            .into_iter()
            .zip(leftward)
            .zip(results)
            .enumerate()
            .map(|(number, (stations, results))| {
                Node::new(
                    algorithm,
                    (number, nodes),
                    predicate.clone(),
                    stations,
                    arrived.clone(),
                    results,
                )
            })
            .collect();
        Chain { feed, nodes, collector: Collector::new(algorithm, queues, arrived, ordered) }
    }
}
