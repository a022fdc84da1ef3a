//! The promises of sources, and how far they make the merged stream ready.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use tidegate_sync::CachePadded;
use tidegate_sync::OnceLink;
use tidegate_sync::atomic::{Arc, AtomicBool, AtomicI64, Ordering};

use super::key::{Key, Rank};

/// The promise of a source about its future rows. It only ever rises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// None has a smaller `ts` than this.
    From(i64),
    /// There are none.
    Closed,
}

/// A source's promise where readers can see it: the paper's `written` array, one element.
#[derive(Debug)]
pub struct PromiseCell {
    /// No later row has a smaller `ts`. Written by the source, only upward.
    ts: CachePadded<AtomicI64>,
    /// Whether there are no later rows; looked at only when `ts` stands at its maximum.
    closed: AtomicBool,
    /// The first source that began beside this one. Written by the source.
    pub first_fork: OnceLink<Fork>,
}

/// A source that began beside another one while the gate was running.
#[derive(Debug)]
pub struct Fork {
    /// The rank of the source.
    pub rank: Rank,
    /// The fork's initial promise.
    pub from: i64,
    /// The fork's current promise.
    pub cell: Arc<PromiseCell>,
    /// The next one beside the same source. Written by that source.
    pub next: OnceLink<Fork>,
}

impl PromiseCell {
    /// The promise of a source whose first row is not below `from`.
    pub fn new(from: i64) -> Self {
        PromiseCell {
            ts: CachePadded::new(AtomicI64::new(from)),
            closed: AtomicBool::new(false),
            first_fork: OnceLink::default(),
        }
    }

    /// Promises that no later row is below `ts`.
    #[inline]
    pub fn raise(&self, ts: i64) {
        // Release: a thread that sees the promise with `get` sees every row that was linked under
        // an earlier one, and every fork (P2).
        self.ts.store(ts, Ordering::Release);
    }

    /// Promises that there are no later rows.
    pub fn close(&self) {
        // Relaxed: published by the Release of `raise`.
        self.closed.store(true, Ordering::Relaxed);
        self.raise(i64::MAX);
    }

    /// The promise at some moment during the call.
    #[inline]
    pub fn get(&self) -> Promise {
        // Acquire: pairs with the Release of `raise`.
        let ts = self.ts.load(Ordering::Acquire);
        // Relaxed: written before the Release store of the maximum that `close` makes. A source
        // that pushes at the maximum and has not closed is seen as open, which it was.
        if ts == i64::MAX && self.closed.load(Ordering::Relaxed) {
            Promise::Closed
        } else {
            Promise::From(ts)
        }
    }
}

impl Drop for PromiseCell {
    fn drop(&mut self) {
        self.first_fork.unchain(|fork| &mut fork.next);
    }
}

/// A reader's view of the sources, from which the frontier asks what it needs.
pub trait Sources {
    /// Rereads the promise of the source with this rank. Calls `joined` for each fork of that
    /// source that has not been seen before, with the fork's initial promise and its rank.
    fn look(&mut self, source: Rank, joined: impl FnMut(i64, Rank)) -> Promise;
}

/// The place in the merged order up to which rows are ready, as far as one reader knows.
///
/// A row `(ts, s)` is ready when for every other source `j` the pair `(promise(j), j)` sorts after
/// `(ts, s)`; its own source's promise never holds it back. So the ready rows are those that sort
/// no later than the smallest `(promise(j), j)`, ties at it included, and that place is the
/// frontier. Promises only rise, so a stale one gives a frontier that is too low, never too high:
/// the heap keeps what was last seen of each source and looks again at its top only.
#[derive(Clone, Debug)]
pub struct Frontier {
    /// Open sources by the promise last seen, smallest first.
    heap: BinaryHeap<Reverse<(i64, Rank)>>,
    /// Rows that sort no later are ready.
    bound: Key,
}

impl Frontier {
    /// Creates the initial state, in which these sources have not been read yet.
    pub fn new(sources: impl Iterator<Item = Rank>) -> Self {
        let heap: BinaryHeap<_> = sources.map(|source| Reverse((i64::MIN, source))).collect();
        let mut frontier = Frontier { heap, bound: Key::FIRST };
        frontier.bound = frontier.top();
        frontier
    }

    fn top(&self) -> Key {
        self.heap.peek().map_or(Key::LAST, |&Reverse((ts, source))| Key::last_of(ts, source))
    }

    /// Rows that sort no later are ready.
    #[inline]
    pub fn bound(&self) -> Key {
        self.bound
    }

    /// Whether every source is known to have closed.
    #[inline]
    pub fn is_end(&self) -> bool {
        self.heap.is_empty()
    }

    /// Looks at every source.
    pub fn look_at_all(&mut self, sources: &mut impl Sources) {
        let mut open = std::mem::take(&mut self.heap).into_vec();
        let mut at = 0;
        // Sources that join are put at the end, and looked at in their turn.
        while let Some(&Reverse((_, source))) = open.get(at) {
            match sources.look(source, |from, fork| open.push(Reverse((from, fork)))) {
                Promise::From(ts) => {
                    open[at] = Reverse((ts, source));
                    at += 1;
                }
                Promise::Closed => {
                    open.swap_remove(at);
                }
            }
        }
        self.heap = open.into();
        self.bound = self.top();
    }

    /// Raises the bound until it covers `key` or is exact: `false` means that at some moment during
    /// the call the row at `key` was not ready.
    #[cold]
    pub fn raise(&mut self, key: Key, sources: &mut impl Sources) -> bool {
        while self.bound < key {
            let Some(mut top) = self.heap.peek_mut() else { break };
            let Reverse((seen, source)) = *top;
            let mut joined = Vec::new();
            let promise = sources.look(source, |from, fork| joined.push(Reverse((from, fork))));
            match promise {
                Promise::From(ts) => {
                    *top = Reverse((ts, source));
                    drop(top);
                }
                Promise::Closed => {
                    PeekMut::pop(top);
                }
            }
            // A fork goes in before the bound moves: the promise just seen may be one that its
            // parent made after it began (P2).
            self.heap.extend(joined);
            if promise == Promise::From(seen) {
                // Exact: the others' promises are no lower than what was seen of them, and this
                // one still stands where it was seen.
                return false;
            }
            self.bound = self.top();
        }
        key <= self.bound
    }
}
