//! The hive: windows of many keys. Threads update them at the same time, and a window is given out
//! once no thread can update it.
//!
//! ```text
//! writer 0  ─ update(6, k) ─┐        ┌ start 3 ┐   ┌ start 6 ┐   ┌ start 9 ┐
//! writer 1  ─ update(3, k) ─┼──▶     │ k ▶ V   │──▶│ k ▶ V   │──▶│ k ▶ V   │──▶      a list of winsets, with shortcuts
//! writer 2  ─ update(9, l) ─┘        └─────────┘   └─────────┘   └─────────┘
//!                                         │ once every writer has come past 3
//!                                         ▼
//!                                 next_winset ─▶ its keys and values
//! ```
//!
//! A *winset* is all windows that begin at one time. Writers find or make it in a list that is
//! sorted by start, and in it the window of their key, in a trie. Nobody waits for anybody: of two
//! writers that make the same winset, one wins, and both use the winner's. Threads that update the
//! same window at the same time share it by reference, so that its type says how.
//!
//! This is the W-Hive of Cederman, Gulisano, Nikolakopoulos, Papatriantafilou and Tsigas,
//! "Efficient data streaming multiway aggregation through concurrent algorithmic designs and new
//! abstract data types", section 5.6. README.md has invariants, proofs and departures.
//!
//! # Trade-offs
//!
//! A winset's memory is given back when the reader and all writers are past it. A writer that rests
//! without a promise therefore holds back results, and the memory of all winsets after its own.
//! Finding a window costs a walk along the winsets between the writer's last one and this one,
//! shortened by shortcuts, and up to eight steps down the trie.

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

/// Says that a handle may move to another thread and not be used by two at once.
type NotSync = PhantomData<Cell<()>>;

/// Makes a hive; the module's documentation says what it does.
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
    /// A hive that `writers` threads can update, and one reads; `new` makes a window.
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

/// The parts that all handles share. They are dropped with the last handle, and the list with them.
struct HiveState<V, N> {
    list: List<Trie<V>>,
    new: N,
}

/// How far a writer has come, where the reader sees it.
#[derive(Debug)]
struct WriterPlace {
    /// The writer updates no window that begins before it: the paper's `written`. Written by the
    /// writer, only upward; `i64::MAX` when it is gone.
    promise: CachePadded<AtomicI64>,
    /// The writer looks at no winset that begins before it. Likewise.
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

/// One that updates windows. Dropping it promises that it updates none any more.
pub struct HiveWriter<V, N> {
    cursor: Cursor<Trie<V>>,
    place: Arc<WriterPlace>,
    shared: Arc<HiveState<V, N>>,
    not_sync: NotSync,
}

// SAFETY: the cursor leads to nodes of the list, which live as long as the writer's hold says (H1)
// and whose values are `Send` and `Sync`; everything else is `Send` by itself.
unsafe impl<V: Send + Sync, N: Send + Sync> Send for HiveWriter<V, N> {}

impl<V: Send + Sync, N: Fn() -> V + Send + Sync> HiveWriter<V, N> {
    /// Updates the window that begins at `start`, of `key`; it is made if it is not there.
    ///
    /// Windows of one thread are updated in any order, but for this: none begins before what
    /// [`advance`](Self::advance) has promised.
    ///
    /// # Panics
    ///
    /// When `start` is before that, or is `i64::MAX`, which is after all times.
    #[inline]
    pub fn update(&mut self, start: i64, key: u32, update: impl FnOnce(&V)) {
        // Relaxed: only this thread writes it.
        let promise = self.place.promise.load(Ordering::Relaxed);
        assert!(
            promise <= start && start < i64::MAX,
            "no window before what was promised is updated"
        );
        // SAFETY: this thread has promised to update windows from `promise` on and has not come
        // past it, so nodes that begin there or later are not freed (H1), and their values are not
        // taken (R1).
        let winset = unsafe { self.cursor.find(start, Trie::new) };
        update(winset.get(key, &self.shared.new));
    }

    /// Promises that no window that begins before `start` is updated by this thread any more.
    pub fn advance(&mut self, start: i64) {
        // Relaxed: only this thread writes it.
        if start <= self.place.promise.load(Ordering::Relaxed) {
            return;
        }
        // SAFETY: as in `update`.
        let hold = unsafe { self.cursor.advance(start) };
        // Release: what this thread did to nodes before `hold` happened before they are freed.
        // Pairs with the Acquire of `HiveReader::collect`.
        self.place.hold.store(hold, Ordering::Release);
        // Release: this thread's updates of earlier windows, and winsets that it has made, are seen
        // by every thread that reads the promise. Pairs with the Acquire of `HiveReader::frontier`.
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

/// The one that gets winsets, in order of their start.
pub struct HiveReader<V, N> {
    /// The winset given out last.
    at: Cursor<Trie<V>>,
    /// Winsets given out and not freed.
    garbage: Garbage<Trie<V>>,
    places: Vec<Arc<WriterPlace>>,
    shared: Arc<HiveState<V, N>>,
    not_sync: NotSync,
}

// SAFETY: as for the writer; nodes are freed by the reader on whatever thread has it.
unsafe impl<V: Send + Sync, N: Send + Sync> Send for HiveReader<V, N> {}

impl<V: Send + Sync, N: Fn() -> V + Send + Sync> HiveReader<V, N> {
    /// The next winset that no thread updates any more.
    pub fn next_winset(&mut self) -> Next<Winset<V>> {
        // Before the list is looked at: every winset below the frontier is in it by now, and none
        // can come any more.
        let frontier = self.frontier();
        // SAFETY: nodes from the one given out last on are freed by this reader only, and not
        // before it is past them.
        let found = unsafe { self.at.next_before(frontier) };
        let Some(node) = found else {
            self.collect();
            return if frontier == i64::MAX { Next::End } else { Next::NotYet };
        };
        // SAFETY: the node begins below the frontier: all writers have promised not to update it
        // any more, and those that did are seen (R1). It is given out once.
        let trie = unsafe { node.take() };
        let start = node.start();
        self.garbage.add(node);
        self.collect();
        Next::Ready(Winset { start, trie })
    }

    /// Frees winsets that no handle looks at any more.
    fn collect(&mut self) {
        // Acquire: pairs with the Release of `HiveWriter::advance`.
        let holds = self.places.iter().map(|place| place.hold.load(Ordering::Acquire));
        let low = holds.min().unwrap_or(i64::MAX);
        // SAFETY: no writer looks at nodes that begin before `low` (H1); the reader stands at the
        // last one, which stays.
        unsafe { self.garbage.free_before(low) };
    }

    /// No window that begins before it is updated any more.
    fn frontier(&self) -> i64 {
        // Acquire: pairs with the Release of `HiveWriter::advance`.
        self.places
            .iter()
            .map(|place| place.promise.load(Ordering::Acquire))
            .min()
            .unwrap_or(i64::MAX)
    }

    /// How many winsets were given out whose memory is not given back.
    pub fn unfreed(&self) -> usize {
        self.garbage.len()
    }
}

impl<V, N> Drop for HiveReader<V, N> {
    fn drop(&mut self) {
        // What was given out may still be looked at: it is freed with the rest of the list.
        self.shared.list.leave(&mut self.garbage);
    }
}

impl<V, N> fmt::Debug for HiveReader<V, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HiveReader").field("places", &self.places).finish_non_exhaustive()
    }
}

/// All windows that begin at one time.
#[derive(Debug)]
pub struct Winset<V> {
    start: i64,
    trie: Trie<V>,
}

impl<V> Winset<V> {
    /// When its windows begin.
    pub fn start(&self) -> i64 {
        self.start
    }

    /// The windows by key, in no particular order.
    pub fn into_windows(mut self) -> impl Iterator<Item = (u32, V)> {
        self.trie.take_entries().into_iter()
    }
}
