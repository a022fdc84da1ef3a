//! The PIM-Tree that threads share.

use tidegate_sync::{CachePadded, Counter, Lock};

use super::CssTree;
use super::css::GROUP;
use super::pim_tree::insertion_depth;
use crate::index::{BPlusTree, Entry, Probe, WindowIndex, is_live};

/// A PIM-Tree from one merge to the next, section 3.3.3 of the paper: threads insert and search at
/// the same time. Each subindex has a lock; the immutable tree has none, since nothing in it
/// changes.
///
/// A merge makes another tree and leaves this one as it is, so that threads may go on searching it.
#[derive(Debug)]
pub struct SharedPimTree {
    immutable: CssTree,
    /// One a node of the immutable tree at `depth`.
    subindexes: Vec<CachePadded<Lock<BPlusTree>>>,
    depth: usize,
    /// Rows in subindexes.
    mutable: Counter,
}

impl Default for SharedPimTree {
    fn default() -> Self {
        Self::over(CssTree::default(), 0)
    }
}

impl SharedPimTree {
    fn over(immutable: CssTree, depth: usize) -> Self {
        let subindexes = (0..immutable.nodes(depth))
            .map(|_| CachePadded::new(Lock::new(BPlusTree::new())))
            .collect();
        SharedPimTree { immutable, subindexes, depth, mutable: Counter::new(0) }
    }

    /// The rows of this tree that are not before `first`, all of them in the immutable part of a
    /// new tree, which is to get `merge_ratio` times as many rows before it is merged. Nobody may
    /// insert meanwhile: their rows could be missing.
    pub fn merged(&self, first: u32, merge_ratio: f64, depth: Option<usize>) -> SharedPimTree {
        let mut delta = Vec::with_capacity(self.mutable_rows());
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

    /// Adds a row. Rows with one key come in the order of their numbers only as far as threads
    /// insert them so.
    pub fn insert(&self, key: i64, row: u32) {
        self.insert_all(&[Entry { key, row }]);
    }

    /// Adds rows, as [`insert`](Self::insert) does one after the other.
    pub fn insert_all(&self, rows: &[Entry]) {
        for rows in rows.chunks(GROUP) {
            let (mut keys, mut nodes) = ([0; GROUP], [0; GROUP]);
            let (keys, nodes) = (&mut keys[..rows.len()], &mut nodes[..rows.len()]);
            keys.iter_mut().zip(rows).for_each(|(key, row)| *key = row.key);
            self.immutable.descend_all(keys, 0, nodes, self.depth);
            for (row, &node) in rows.iter().zip(&*nodes) {
                self.subindexes[node].with(|tree| tree.insert(row.key, row.row));
            }
            // Threads wait for each other here, so not a row at a time.
            self.mutable.add(rows.len());
        }
    }

    /// Adds the numbers of the rows that the probe takes to `found`, in any order: the numbers of
    /// all rows whose insertion was over before, and of others that came in time.
    pub fn find(&self, probe: &Probe, found: &mut Vec<u32>) {
        let mut node = self.immutable.descend(probe.low, 0, 0, self.depth);
        let leaf = self.immutable.descend(probe.low, self.depth, node, self.immutable.height());
        self.immutable.find_from(leaf, probe, found);
        // A row is in the subindex of its key only, so none is missed or seen twice between two
        // locks.
        loop {
            self.subindexes[node].with(|tree| tree.find(probe, found));
            if probe.high <= self.immutable.limit(self.depth, node) {
                return;
            }
            node += 1;
        }
    }

    /// Rows in the immutable part.
    pub fn immutable_rows(&self) -> usize {
        self.immutable.len()
    }

    /// Rows that were inserted since the merge, about.
    pub fn mutable_rows(&self) -> usize {
        self.mutable.get()
    }

    /// The number of subindexes.
    pub fn subindexes(&self) -> usize {
        self.subindexes.len()
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        let of_subindex =
            |subindex: &CachePadded<Lock<BPlusTree>>| subindex.with(|tree| tree.memory());
        let own = self.subindexes.len() * size_of::<CachePadded<Lock<BPlusTree>>>();
        self.immutable.memory() + own + self.subindexes.iter().map(of_subindex).sum::<usize>()
    }
}
