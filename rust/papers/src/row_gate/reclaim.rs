//! Frees the rows that all readers and sources have passed.

use tidegate_sync::atomic::Arc;
use tidegate_sync::{Budget, Counter, Stack, TryLock};

use super::node::{Head, Hold, Node, NodePtr, PassedNodes};
use tidegate_structures::gate::Key;

/// The number of nodes handed out before the next check for memory that can be freed. A check reads
/// one word per handle.
const NODES_BETWEEN: usize = if cfg!(any(loom, tidegate_stress)) { 1 } else { 1024 };

/// The parts shared by all of a gate's handles.
pub(super) struct GateState<T> {
    head: Box<Head<T>>,
    /// Handles that the reclaimer has not seen yet.
    arrivals: Stack<KnownHandle<T>>,
    /// The known handles. The thread that holds the lock is the reclaimer.
    known: TryLock<Vec<KnownHandle<T>>>,
    /// The number of nodes allocated since the last check. Sources write this counter.
    taken: Counter,
    /// The number of handles at the last check. The reclaimer writes this counter.
    handles: Counter,
    /// The number of the next source. Sources write this counter.
    next_source: Counter,
    pub(super) budget: Budget,
}

/// The part of a handle that the reclaimer accesses.
pub(super) struct KnownHandle<T> {
    pub(super) hold: Arc<Hold<T>>,
    /// The rows that were pushed through the handle.
    pub(super) passed: PassedNodes<T>,
}

// SAFETY: the head's links lead to nodes that the gate passes between threads; everything else is
// `Send` by itself.
unsafe impl<T: Send + Sync> Send for GateState<T> {}
// SAFETY: when shared, the head hands out references to nodes, whose payloads are `Sync`, and
// receives nodes, whose payloads are `Send`. Everything else is `Sync` by itself.
unsafe impl<T: Send + Sync> Sync for GateState<T> {}

impl<T> GateState<T> {
    pub(super) fn new(sources: usize, budget: Budget) -> Self {
        GateState {
            head: Node::head(),
            arrivals: Stack::default(),
            known: TryLock::new(Vec::new()),
            taken: Counter::new(0),
            handles: Counter::new(0),
            next_source: Counter::new(sources),
            budget,
        }
    }

    pub(super) fn head(&self) -> NodePtr<T> {
        NodePtr::of(&self.head.node)
    }

    /// Creates a hold at `node` that is known to the reclaimer.
    ///
    /// Another hold at or before `node` must exist for the whole call.
    pub(super) fn hold(&self, node: NodePtr<T>, passed: PassedNodes<T>) -> Arc<Hold<T>> {
        let hold = Arc::new(Hold::at(node));
        self.arrivals.push(KnownHandle { hold: hold.clone(), passed });
        hold
    }

    /// Returns a number for a new source.
    pub(super) fn number(&self) -> usize {
        self.next_source.add(1)
    }

    /// Records that memory for `nodes` nodes has been allocated or can be freed. If a check is due,
    /// frees memory.
    pub(super) fn took(&self, nodes: usize) {
        let taken = self.taken.add(nodes) + nodes;
        if taken >= NODES_BETWEEN.max(4 * self.handles.get()) {
            self.reclaim();
        }
    }

    /// Frees the rows that all handles have passed, unless another thread is doing so.
    pub(super) fn reclaim(&self) {
        self.known.try_with(|known| {
            self.taken.set(0);
            let low = self.lowest(known);
            for handle in known.iter_mut() {
                // SAFETY: this thread holds the lock, so it is the reclaimer.
                let gone = unsafe { handle.hold.place() }.is_none();
                // SAFETY: no hold is before `low`, see `lowest`, and giving up its hold is the last
                // step of a source.
                unsafe { handle.passed.free(low, gone) };
            }
            known.retain(|handle| {
                // SAFETY: this thread holds the lock, so it is the reclaimer.
                !handle.passed.is_empty() || unsafe { handle.hold.place() }.is_some()
            });
            self.handles.set(known.len());
        });
    }

    /// Returns the lowest position that any handle holds.
    ///
    /// A new handle may be created while the positions of other handles are being read, and the
    /// original handle may then move. However, the new handle is always added to the arrivals
    /// before the original handle moves. If the reclaimer has read the original handle's new
    /// position, it then finds the new handle among the arrivals and reads all positions again. If
    /// the reclaimer has read the old position, the new handle begins at or after that position.
    fn lowest(&self, known: &mut Vec<KnownHandle<T>>) -> Key {
        loop {
            known.extend(self.arrivals.take_all());
            // SAFETY: `known` is accessed through the lock, so this thread is the reclaimer.
            let low = known
                .iter()
                .filter_map(|handle| unsafe { handle.hold.place() })
                .min()
                .unwrap_or(Key::LAST);
            if self.arrivals.is_empty() {
                return low;
            }
        }
    }
}

impl<T> Drop for GateState<T> {
    fn drop(&mut self) {
        let arrivals = self.arrivals.take_all();
        for mut handle in arrivals.into_iter().chain(self.known.get_mut().drain(..)) {
            // SAFETY: every handle shares the gate, so all handles are gone and nothing is held.
            unsafe { handle.passed.free(Key::LAST, true) };
        }
    }
}
