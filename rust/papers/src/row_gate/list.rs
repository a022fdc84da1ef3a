//! The row gate: ScaleGate's list, with its sources (`source.rs`) and readers (`reader.rs`).
//!
//! Line numbers in these files refer to ScaleJoin's Algorithm 2. README.md quotes this algorithm
//! and lists the departures from it.

use tidegate_sync::Budget;
use tidegate_sync::atomic::Arc;

use super::node::Node;
use super::reader::Reader;
use super::reclaim::GateState;
use super::source::{ListPlace, Source};
use tidegate_structures::gate::promise::PromiseCell;
use tidegate_structures::gate::{Handles, TooManySources};
use tidegate_structures::gate::{Key, MAX_SOURCES, RowId};

/// A ready row, borrowed from the reader that returned it.
#[derive(Debug, PartialEq, Eq)]
pub struct Row<'a, T> {
    /// The event time.
    pub ts: i64,
    /// The source and the position.
    pub id: RowId,
    /// The payload that was pushed.
    pub payload: &'a T,
}

impl<T> Clone for Row<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Row<'_, T> {}

impl<'a, T> Row<'a, T> {
    /// Returns the row of `node`.
    ///
    /// # Safety
    ///
    /// The node is not the head.
    #[inline]
    pub(super) unsafe fn of(node: &'a Node<T>) -> Self {
        let Key { ts, id } = node.key();
        // SAFETY: the caller guarantees that the node is not the head.
        Row { ts, id, payload: unsafe { node.payload() } }
    }
}

/// Creates row gates; see the module documentation.
#[derive(Debug)]
pub struct ScaleGate;

impl ScaleGate {
    /// Creates a gate with sources `0..sources` and `readers` readers. Each reader receives every
    /// row.
    #[allow(clippy::new_ret_no_self, reason = "a gate is its handles")]
    pub fn new<T: Send + Sync>(sources: usize, readers: usize) -> Handles<Source<T>, Reader<T>> {
        Self::with_memory_limit(sources, readers, usize::MAX)
    }

    /// Creates a gate whose rows use at most `limit` bytes. Memory that payloads point to is not
    /// counted.
    pub fn with_memory_limit<T: Send + Sync>(
        sources: usize,
        readers: usize,
        limit: usize,
    ) -> Handles<Source<T>, Reader<T>> {
        if sources > MAX_SOURCES {
            return Err(TooManySources);
        }
        let shared = Arc::new(GateState::new(sources, Budget::new(limit)));
        let cells: Vec<_> = (0..sources).map(|_| Arc::new(PromiseCell::new(i64::MIN))).collect();
        // A reader is created first, because it holds the head while the other handles are being
        // created.
        let seed = Reader::seed(&shared, &cells);
        let readers = (0..readers).map(|_| seed.fork()).collect();
        let place = ListPlace::at(shared.head());
        let sources = cells
            .into_iter()
            .enumerate()
            .map(|(number, cell)| Source::new(&shared, number as u16, cell, place))
            .collect();
        Ok((sources, readers))
    }
}
