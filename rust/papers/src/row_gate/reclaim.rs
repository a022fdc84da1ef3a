//! Frees the rows that all readers and sources have passed.

use tidegate_sync::atomic::Arc;
use tidegate_sync::{Budget, Counter, Stack, TryLock};

use super::node::{Head, Hold, Node, NodePtr, PassedNodes};
use tidegate_structures::gate::Key;

/// Nodes given out between two looks for memory to free: a look reads a word of every handle.
const NODES_BETWEEN: usize = if cfg!(any(loom, tidegate_stress)) { 1 } else { 1024 };

/// The parts that all handles of a gate share.
pub(super) struct GateState<T> {
    head: Box<Head<T>>,
    /// Handles that the reclaimer does not know yet.
    arrivals: Stack<KnownHandle<T>>,
    /// The handles. The thread that has the lock is the reclaimer.
    known: TryLock<Vec<KnownHandle<T>>>,
    /// Nodes for which memory was taken since the last look. Written by sources.
    taken: Counter,
    /// Handles at the last look. Written by the reclaimer.
    handles: Counter,
    /// Number of the next source. Written by sources.
    next_source: Counter,
    pub(super) budget: Budget,
}

/// A handle as the reclaimer sees it.
pub(super) struct KnownHandle<T> {
    pub(super) hold: Arc<Hold<T>>,
    /// The rows that came through it.
    pub(super) passed: PassedNodes<T>,
}

// SAFETY: the head's links lead to nodes that the gate hands from thread to thread; everything else
// is `Send` by itself.
unsafe impl<T: Send + Sync> Send for GateState<T> {}
// SAFETY: shared, the head gives out references to nodes, whose payloads are `Sync`, and takes in
// nodes, whose payloads are `Send`; everything else is `Sync` by itself.
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

    /// A hold at `node`, known to the reclaimer.
    ///
    /// A hold that stands at `node` or before it must outlast the call.
    pub(super) fn hold(&self, node: NodePtr<T>, passed: PassedNodes<T>) -> Arc<Hold<T>> {
        let hold = Arc::new(Hold::at(node));
        self.arrivals.push(KnownHandle { hold: hold.clone(), passed });
        hold
    }

    /// A number for one more source.
    pub(super) fn number(&self) -> usize {
        self.next_source.add(1)
    }

    /// Says that memory for `nodes` nodes was taken or may be given back, and frees some if it is
    /// time to.
    pub(super) fn took(&self, nodes: usize) {
        let taken = self.taken.add(nodes) + nodes;
        if taken >= NODES_BETWEEN.max(4 * self.handles.get()) {
            self.reclaim();
        }
    }

    /// Frees the rows that everybody has passed, unless another thread is at it.
    pub(super) fn reclaim(&self) {
        self.known.try_with(|known| {
            self.taken.set(0);
            let low = self.lowest(known);
            for handle in known.iter_mut() {
                // SAFETY: having the lock makes this thread the reclaimer.
                let gone = unsafe { handle.hold.place() }.is_none();
                // SAFETY: no hold stands before `low`, see `lowest`; and a source gives up its hold
                // as the last thing it does.
                unsafe { handle.passed.free(low, gone) };
            }
            known.retain(|handle| {
                // SAFETY: having the lock makes this thread the reclaimer.
                !handle.passed.is_empty() || unsafe { handle.hold.place() }.is_some()
            });
            self.handles.set(known.len());
        });
    }

    /// The lowest place that any handle holds.
    ///
    /// A handle may arrive while the others are read, and the one it was made from may then move
    /// on. But it arrives before the other moves. So if the reclaimer has read the other's new
    /// place, it finds the new handle among the arrivals afterwards, and reads again; and if it has
    /// read the old place, that is no higher than where the new handle begins.
    fn lowest(&self, known: &mut Vec<KnownHandle<T>>) -> Key {
        loop {
            known.extend(self.arrivals.take_all());
            // SAFETY: `known` is reached through the lock, so this thread is the reclaimer.
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
            // SAFETY: every handle shares the gate, so all are gone: nothing is held.
            unsafe { handle.passed.free(Key::LAST, true) };
        }
    }
}
