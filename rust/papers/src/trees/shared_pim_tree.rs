//! The PIM-Tree that threads share.

use tidegate_sync::{CachePadded, Counter, Lock};

use super::CssTree;
use super::css::GROUP;
use super::pim_tree::insertion_depth;
use tidegate_structures::index::{BPlusTree, Entry, Probe, WindowIndex, is_live};
use tidegate_structures::memory;
use tidegate_structures::memory::gather::prefetch;

/// A PIM-Tree between two merges (section 3.3.3 of the paper). Threads insert and search for rows
/// at the same time. Each subindex has a lock. The immutable tree has no lock, because it does not
/// change.
///
/// A merge creates a new tree and leaves this one unchanged, so threads can continue searching this
/// tree.
#[derive(Debug)]
pub struct SharedPimTree {
    immutable: CssTree,
    /// One subindex per node of the immutable tree at `depth`.
    subindexes: Vec<CachePadded<Lock<BPlusTree>>>,
    depth: usize,
    /// The number of rows in subindexes.
    mutable: Counter,
}

/// The position of a probe's lowest key in a tree.
#[derive(Clone, Copy, Debug, Default)]
pub struct PimPlace {
    subindex: usize,
    /// The number of the leaf in the immutable tree.
    leaf: usize,
}

impl Default for SharedPimTree {
    fn default() -> Self {
        Self::over(CssTree::default(), 0)
    }
}

impl SharedPimTree {
    fn over(immutable: CssTree, depth: usize) -> Self {
        let nodes = 0..immutable.nodes(depth);
        let subindexes =
            memory::collect(nodes.map(|_| CachePadded::new(Lock::new(BPlusTree::new()))));
        SharedPimTree { immutable, subindexes, depth, mutable: Counter::new(0) }
    }

    /// Creates a tree whose immutable part contains all of this tree's rows from row `first`
    /// onwards. The new tree is merged when `merge_ratio` times as many rows have been inserted. No
    /// thread may insert rows during the call, because the new tree might not contain those rows.
    pub fn merged(&self, first: u32, merge_ratio: f64, depth: Option<usize>) -> SharedPimTree {
        let mut delta = memory::vec(self.mutable_rows());
        for subindex in &self.subindexes {
            subindex.with(|tree| {
                tree.for_each(|key, row| {
                    if is_live(row, first) {
                        delta.push(Entry { key, row });
                    }
                });
            });
        }
        let immutable =
            self.immutable.merge(&delta, first, self.immutable.live(first) + delta.len());
        let depth = insertion_depth(&immutable, depth, merge_ratio);
        Self::over(immutable, depth)
    }

    /// Inserts a row. Rows with equal keys are ordered by number only if they are inserted in that
    /// order.
    pub fn insert(&self, key: i64, row: u32) {
        self.insert_all(&[Entry { key, row }]);
    }

    /// Inserts rows, like calling [`insert`](Self::insert) for each of them.
    pub fn insert_all(&self, rows: &[Entry]) {
        for rows in rows.chunks(GROUP) {
            let (mut keys, mut nodes) = ([0; GROUP], [0; GROUP]);
            let (keys, nodes) = (&mut keys[..rows.len()], &mut nodes[..rows.len()]);
            keys.iter_mut().zip(rows).for_each(|(key, row)| *key = row.key);
            self.immutable.descend_all(keys, 0, nodes, self.depth);
            self.prefetch(nodes);
            for (row, &node) in rows.iter().zip(&*nodes) {
                self.subindexes[node].with(|tree| tree.insert(row.key, row.row));
            }
            // Threads contend here, so the counter is not updated for each row.
            self.mutable.add(rows.len());
        }
    }

    /// Appends the numbers of the rows that match the probe to `found`, in any order. The result
    /// includes all rows whose insertion finished before the call. Rows that are inserted during
    /// the call may also be included.
    pub fn find(&self, probe: &Probe, found: &mut Vec<u32>) {
        let mut place = [PimPlace::default()];
        self.locate(&[probe.low], &mut place);
        self.find_at(place[0], probe, found);
    }

    /// For several probes at the same time, finds the position of each probe's lowest key, so that
    /// the memory accesses overlap.
    ///
    /// # Panics
    ///
    /// Panics unless there are as many keys as positions.
    pub fn locate(&self, lows: &[i64], places: &mut [PimPlace]) {
        assert_eq!(lows.len(), places.len(), "one place per key");
        for (lows, places) in lows.chunks(GROUP).zip(places.chunks_mut(GROUP)) {
            let mut nodes = [0; GROUP];
            let nodes = &mut nodes[..lows.len()];
            self.immutable.descend_all(lows, 0, nodes, self.depth);
            let mut leaves = [0; GROUP];
            let leaves = &mut leaves[..lows.len()];
            leaves.copy_from_slice(nodes);
            nodes.iter().for_each(|&node| prefetch(&self.subindexes, node));
            self.immutable.descend_all(lows, self.depth, leaves, self.immutable.height());
            self.prefetch(nodes);
            for ((place, &subindex), &leaf) in places.iter_mut().zip(&*nodes).zip(&*leaves) {
                *place = PimPlace { subindex, leaf };
            }
        }
    }

    /// Prefetches subindexes into the cache. Prefetching acquires the locks of the subindexes,
    /// except in a loom model, which has no caches.
    fn prefetch(&self, subindexes: &[usize]) {
        if cfg!(loom) {
            return;
        }
        subindexes.iter().for_each(|&subindex| prefetch(&self.subindexes, subindex));
        for &subindex in subindexes {
            self.subindexes[subindex].with(|tree| tree.prefetch());
        }
    }

    /// Does the same as [`find`](Self::find), given the position of the probe's lowest key in this
    /// tree.
    pub fn find_at(&self, place: PimPlace, probe: &Probe, found: &mut Vec<u32>) {
        self.immutable.find_from(place.leaf, probe, found);
        let mut node = place.subindex;
        // A row is only in the subindex of its key. No row is therefore missed or seen twice
        // between two locks.
        loop {
            self.subindexes[node].with(|tree| tree.find(probe, found));
            if probe.high <= self.immutable.limit(self.depth, node) {
                return;
            }
            node += 1;
        }
    }

    /// Returns the number of rows in the immutable part.
    pub fn immutable_rows(&self) -> usize {
        self.immutable.len()
    }

    /// Returns the approximate number of rows that have been inserted since the last merge.
    pub fn mutable_rows(&self) -> usize {
        self.mutable.get()
    }

    /// Returns the number of subindexes.
    pub fn subindexes(&self) -> usize {
        self.subindexes.len()
    }

    /// Returns the number of bytes in use.
    pub fn memory(&self) -> usize {
        let of_subindex =
            |subindex: &CachePadded<Lock<BPlusTree>>| subindex.with(|tree| tree.memory());
        let own = self.subindexes.len() * size_of::<CachePadded<Lock<BPlusTree>>>();
        self.immutable.memory() + own + self.subindexes.iter().map(of_subindex).sum::<usize>()
    }
}
