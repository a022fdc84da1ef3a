//! The hive contains windows for many keys. Threads update the windows concurrently. A window is
//! handed out as soon as no thread can update it any more.
//!
//! ```text
//! writer 0  ─ update(6, k) ─┐        ┌ start 3 ┐   ┌ start 6 ┐   ┌ start 9 ┐
//! writer 1  ─ update(3, k) ─┼──▶     │ k ▶ V   │──▶│ k ▶ V   │──▶│ k ▶ V   │──▶      a list of winsets, with shortcuts
//! writer 2  ─ update(9, l) ─┘        └─────────┘   └─────────┘   └─────────┘
//!                                         │ once every writer has passed 3
//!                                         ▼
//!                                 next_winset ─▶ its keys and values
//! ```
//!
//! A *winset* contains all windows that begin at the same time. Winsets are kept in a list that is
//! sorted by start. A writer finds or creates the winset in this list, and then finds or creates
//! the window for its key in the winset's trie. No thread waits for another: if two writers try to
//! create the same winset, one writer succeeds, and both writers use its winset. Threads that
//! update a window at the same time share a reference to it, so the window's type determines how
//! the updates are synchronized.
//!
//! The hive is the W-Hive from Cederman, Gulisano, Nikolakopoulos, Papatriantafilou and Tsigas,
//! "Efficient data streaming multiway aggregation through concurrent algorithmic designs and new
//! abstract data types", section 5.6. README.md contains the invariants, proofs and departures.
//!
//! # Trade-offs
//!
//! The memory of a winset is freed after the reader and all writers have passed it. An idle writer
//! that makes no promises therefore holds back results, and keeps all later winsets in memory. To
//! find a window, a writer first moves along the list from its last winset to the new one, using
//! shortcuts. Finally, the writer takes up to eight steps down the trie.

mod list;
mod trie;

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

use tidegate_sync::CachePadded;
use tidegate_sync::atomic::{Arc, AtomicI64, Ordering};

use list::{Cursor, Garbage, List};
pub use tidegate_structures::gate::Next;
use trie::Trie;

/// Marks a handle that can be moved to another thread but cannot be shared by two threads.
type NotSync = PhantomData<Cell<()>>;

/// Creates hives; see the module documentation.
///
/// ```
/// use std::sync::Mutex;
/// use tidegate_papers::hive::{Hive, Next};
///
/// let (mut writers, mut reader) = Hive::new(2, Mutex::<u32>::default);
/// writers[0].update(3, 7, |window| *window.lock().unwrap() += 1);
/// writers[1].update(3, 7, |window| *window.lock().unwrap() += 1);
/// assert!(matches!(reader.next_winset(), Next::NotYet));
///
/// writers.iter_mut().for_each(|writer| writer.advance(4));
/// let Next::Ready(winset) = reader.next_winset() else { unreachable!() };
/// assert_eq!(winset.start(), 3);
/// let windows: Vec<_> = winset.into_windows().map(|(key, window)| (key, window.into_inner().unwrap())).collect();
/// assert_eq!(windows, [(7, 2)]);
/// ```
#[derive(Debug)]
pub struct Hive;

impl Hive {
    /// Creates a hive that is updated by `writers` threads and read by one thread. `new` creates a
    /// window.
    #[allow(clippy::new_ret_no_self, reason = "a hive is its handles")]
    pub fn new<V: Send + Sync, N: Fn() -> V + Send + Sync>(
        writers: usize,
        new: N,
    ) -> (Vec<HiveWriter<V, N>>, HiveReader<V, N>) {
        let places: Vec<Arc<WriterPlace>> =
            (0..writers).map(|_| Arc::new(WriterPlace::default())).collect();
        let shared = Arc::new(HiveState { list: List::new(), new });
        let writer = |place: &Arc<WriterPlace>| HiveWriter {
            cursor: shared.list.start(),
            place: place.clone(),
            shared: shared.clone(),
            not_sync: PhantomData,
        };
        let all = places.iter().map(writer).collect();
        let reader = HiveReader {
            at: shared.list.start(),
            garbage: Garbage::default(),
            places,
            shared,
            not_sync: PhantomData,
        };
        (all, reader)
    }
}

/// The state that all handles share. The state is dropped with the last handle, together with the
/// list.
struct HiveState<V, N> {
    list: List<Trie<V>>,
    new: N,
}

/// A writer's progress, which the reader can see.
#[derive(Debug)]
struct WriterPlace {
    /// The writer no longer updates any window that begins before this promise: the paper's
    /// `written`. Only the writer changes the promise, which never decreases. Once the writer has
    /// been dropped, the promise is `i64::MAX`.
    promise: CachePadded<AtomicI64>,
    /// The writer no longer accesses any winset that begins before this hold. Only the writer
    /// changes the hold, which never decreases.
    hold: CachePadded<AtomicI64>,
}

impl Default for WriterPlace {
    fn default() -> Self {
        WriterPlace {
            promise: CachePadded::new(AtomicI64::new(i64::MIN)),
            hold: CachePadded::new(AtomicI64::new(i64::MIN)),
        }
    }
}

/// A handle that updates windows. Dropping the handle promises that no more windows will be
/// updated.
pub struct HiveWriter<V, N> {
    cursor: Cursor<Trie<V>>,
    place: Arc<WriterPlace>,
    shared: Arc<HiveState<V, N>>,
    not_sync: NotSync,
}

// SAFETY: the cursor leads to nodes of the list, which live at least until the writer's hold passes
// them (H1) and whose values are `Send` and `Sync`; everything else is `Send` by itself.
unsafe impl<V: Send + Sync, N: Send + Sync> Send for HiveWriter<V, N> {}

impl<V: Send + Sync, N: Fn() -> V + Send + Sync> HiveWriter<V, N> {
    /// Updates the window of `key` that begins at `start`. The window is created if it does not
    /// exist.
    ///
    /// A thread can update windows in any order, but no updated window may begin before the time
    /// promised by [`advance`](Self::advance).
    ///
    /// # Panics
    ///
    /// Panics if `start` is before the promise, or if `start` is `i64::MAX`, which is later than
    /// any time.
    #[inline]
    pub fn update(&mut self, start: i64, key: u32, update: impl FnOnce(&V)) {
        // Relaxed: only this thread writes it.
        let promise = self.place.promise.load(Ordering::Relaxed);
        assert!(promise <= start && start < i64::MAX, "no window before the promise is updated");
        // SAFETY: this thread has promised to update only windows from `promise` onwards, and has
        // not passed `promise`. So nodes that begin there or later are not freed (H1), and their
        // values are not taken (R1).
        let winset = unsafe { self.cursor.find(start, Trie::new) };
        update(winset.get(key, &self.shared.new));
    }

    /// Promises that this thread will not update any window that begins before `start`.
    pub fn advance(&mut self, start: i64) {
        // Relaxed: only this thread writes it.
        if start <= self.place.promise.load(Ordering::Relaxed) {
            return;
        }
        // SAFETY: as in `update`.
        let hold = unsafe { self.cursor.advance(start) };
        // Release: this thread's accesses to nodes before `hold` happened before the nodes are
        // freed. Pairs with the Acquire of `HiveReader::collect`.
        self.place.hold.store(hold, Ordering::Release);
        // Release: this thread's updates of earlier windows, and the winsets that it has created,
        // are visible to every thread that reads the promise. Pairs with the Acquire of
        // `HiveReader::frontier`.
        self.place.promise.store(start, Ordering::Release);
    }
}

impl<V, N> Drop for HiveWriter<V, N> {
    fn drop(&mut self) {
        // Release: as in `advance`.
        self.place.hold.store(i64::MAX, Ordering::Release);
        self.place.promise.store(i64::MAX, Ordering::Release);
    }
}

impl<V, N> fmt::Debug for HiveWriter<V, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HiveWriter").field("place", &self.place).finish_non_exhaustive()
    }
}

/// The handle that receives winsets, in order of their start.
pub struct HiveReader<V, N> {
    /// The winset handed out last.
    at: Cursor<Trie<V>>,
    /// Winsets that were handed out and have not been freed.
    garbage: Garbage<Trie<V>>,
    places: Vec<Arc<WriterPlace>>,
    shared: Arc<HiveState<V, N>>,
    not_sync: NotSync,
}

// SAFETY: as for the writer; the reader frees nodes on the thread that owns it.
unsafe impl<V: Send + Sync, N: Send + Sync> Send for HiveReader<V, N> {}

impl<V: Send + Sync, N: Fn() -> V + Send + Sync> HiveReader<V, N> {
    /// Returns the next winset that no thread can update any more.
    pub fn next_winset(&mut self) -> Next<Winset<V>> {
        // This is read before the list: every winset below the frontier is in the list by now, and
        // no more can be added.
        let frontier = self.frontier();
        // SAFETY: only this reader frees nodes from the last one handed out onwards, and only after
        // it has passed them.
        let found = unsafe { self.at.next_before(frontier) };
        let Some(node) = found else {
            self.collect();
            return if frontier == i64::MAX { Next::End } else { Next::NotYet };
        };
        // SAFETY: the node begins below the frontier, so all writers have promised not to update it
        // any more, and their earlier updates are visible (R1). It is handed out once.
        let trie = unsafe { node.take() };
        let start = node.start();
        self.garbage.add(node);
        self.collect();
        Next::Ready(Winset { start, trie })
    }

    /// Frees winsets that no handle accesses any more.
    fn collect(&mut self) {
        // Acquire: pairs with the Release of `HiveWriter::advance`.
        let holds = self.places.iter().map(|place| place.hold.load(Ordering::Acquire));
        let low = holds.min().unwrap_or(i64::MAX);
        // SAFETY: no writer accesses nodes that begin before `low` (H1). The reader's position is
        // the last node, which is kept.
        unsafe { self.garbage.free_before(low) };
    }

    /// Returns the frontier: no window that begins before it is updated any more.
    fn frontier(&self) -> i64 {
        // Acquire: pairs with the Release of `HiveWriter::advance`.
        self.places
            .iter()
            .map(|place| place.promise.load(Ordering::Acquire))
            .min()
            .unwrap_or(i64::MAX)
    }

    /// Returns the number of winsets that were handed out but have not been freed.
    pub fn unfreed(&self) -> usize {
        self.garbage.len()
    }
}

impl<V, N> Drop for HiveReader<V, N> {
    fn drop(&mut self) {
        // Winsets that were handed out may still be in use, so they are freed with the rest of the
        // list.
        self.shared.list.leave(&mut self.garbage);
    }
}

impl<V, N> fmt::Debug for HiveReader<V, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HiveReader").field("places", &self.places).finish_non_exhaustive()
    }
}

/// All windows that begin at the same time.
#[derive(Debug)]
pub struct Winset<V> {
    start: i64,
    trie: Trie<V>,
}

impl<V> Winset<V> {
    /// Returns the time at which the windows begin.
    pub fn start(&self) -> i64 {
        self.start
    }

    /// Returns the windows with their keys, in no particular order.
    pub fn into_windows(mut self) -> impl Iterator<Item = (u32, V)> {
        self.trie.take_entries().into_iter()
    }
}
