//! The promises that sources make, and the frontier up to which these promises make rows ready.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use tidegate_sync::CachePadded;
use tidegate_sync::OnceLink;
use tidegate_sync::atomic::{Arc, AtomicBool, AtomicI64, Ordering};

use super::key::{Key, Rank};

/// A source's promise about its future rows. A promise can only rise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// No future row has a smaller `ts`.
    From(i64),
    /// There are no future rows.
    Closed,
}

/// A source's promise, as seen by readers. The cell corresponds to one element of the paper's
/// `written` array.
#[derive(Debug)]
pub struct PromiseCell {
    /// No subsequent row has a smaller `ts`. Only the source writes this value, and the value only
    /// increases.
    ts: CachePadded<AtomicI64>,
    /// True if no more rows follow. Readers check this flag only if `ts` is at its maximum.
    closed: AtomicBool,
    /// The first source that was forked from this one. Written by the source.
    pub first_fork: OnceLink<Fork>,
}

/// A source that was forked from another source while the gate was running.
#[derive(Debug)]
pub struct Fork {
    /// The rank of the source.
    pub rank: Rank,
    /// The fork's initial promise.
    pub from: i64,
    /// The fork's current promise.
    pub cell: Arc<PromiseCell>,
    /// The next fork of the same source. Written by that source.
    pub next: OnceLink<Fork>,
}

impl PromiseCell {
    /// Creates the promise of a source whose rows are all at or after `from`.
    pub fn new(from: i64) -> Self {
        PromiseCell {
            ts: CachePadded::new(AtomicI64::new(from)),
            closed: AtomicBool::new(false),
            first_fork: OnceLink::default(),
        }
    }

    /// Promises that no subsequent row is before `ts`.
    #[inline]
    pub fn raise(&self, ts: i64) {
        // Release: a thread that reads the promise with `get` sees every row that was linked under
        // an earlier promise, and every fork (P2).
        self.ts.store(ts, Ordering::Release);
    }

    /// Promises that there will be no more rows.
    pub fn close(&self) {
        // Relaxed: published by the Release of `raise`.
        self.closed.store(true, Ordering::Relaxed);
        self.raise(i64::MAX);
    }

    /// Returns the promise that was in effect at some moment during the call.
    #[inline]
    pub fn get(&self) -> Promise {
        // Acquire: pairs with the Release of `raise`.
        let ts = self.ts.load(Ordering::Acquire);
        // Relaxed: written before the Release store of the maximum in `close`. A source that pushes
        // at the maximum and has not closed is seen as open, which it was.
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

/// A reader's view of the sources, which the frontier queries.
pub trait Sources {
    /// Rereads the promise of the source with this rank. For each fork of that source that has not
    /// been seen before, calls `joined` with the fork's initial promise and rank.
    fn look(&mut self, source: Rank, joined: impl FnMut(i64, Rank)) -> Promise;
}

/// The position in the merged order up to which rows are ready, according to what one reader has
/// seen.
///
/// A row `(ts, s)` is ready if, for every other source `j`, the pair `(promise(j), j)` sorts after
/// `(ts, s)`. The promise of source `s` itself never holds the row back. The ready rows are
/// therefore those that do not sort after the smallest `(promise(j), j)`. This smallest pair is the
/// frontier. Promises only rise, so a stale promise produces a frontier that is too low, never one
/// that is too high. The heap contains the last promise seen from each source. Only the promise at
/// the top is reread.
#[derive(Clone, Debug)]
pub struct Frontier {
    /// The open sources, ordered by the last promise that was seen, smallest first.
    heap: BinaryHeap<Reverse<(i64, Rank)>>,
    /// Rows that do not sort after this key are ready.
    bound: Key,
}

impl Frontier {
    /// Creates the initial state, in which none of these sources' promises has been read yet.
    pub fn new(sources: impl Iterator<Item = Rank>) -> Self {
        let heap: BinaryHeap<_> = sources.map(|source| Reverse((i64::MIN, source))).collect();
        let mut frontier = Frontier { heap, bound: Key::FIRST };
        frontier.bound = frontier.top();
        frontier
    }

    fn top(&self) -> Key {
        self.heap.peek().map_or(Key::LAST, |&Reverse((ts, source))| Key::last_of(ts, source))
    }

    /// Returns the bound. Rows that do not sort after the bound are ready.
    #[inline]
    pub fn bound(&self) -> Key {
        self.bound
    }

    /// Returns whether every source is known to have closed.
    #[inline]
    pub fn is_end(&self) -> bool {
        self.heap.is_empty()
    }

    /// Reads the promise of every source.
    pub fn look_at_all(&mut self, sources: &mut impl Sources) {
        let mut open = std::mem::take(&mut self.heap).into_vec();
        let mut at = 0;
        // Sources that join are appended and then read as well.
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

    /// Raises the bound until it covers `key` or is exact. Returns `false` if, at some moment
    /// during the call, the row at `key` was not ready.
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
            // A fork is added before the bound moves, because its parent may have made the promise
            // that was just read after the fork began (P2).
            self.heap.extend(joined);
            if promise == Promise::From(seen) {
                // The bound is exact: the other promises are at least as high as when they were
                // last seen, and this one has not changed.
                return false;
            }
            self.bound = self.top();
        }
        key <= self.bound
    }
}
