//! The in-memory merge tree.

use super::CssTree;
use tidegate_structures::index::{BPlusTree, Entry, Probe, WindowIndex};

/// The IM-Tree (section 3.2 of the paper). New rows are inserted into a B+-tree, and older rows are
/// in an immutable tree. The two trees are merged when the B+-tree's share of the window reaches
/// the *merge ratio*. Rows that have left the window are skipped by number, and are dropped at the
/// next merge.
#[derive(Debug)]
pub struct ImTree {
    mutable: BPlusTree,
    immutable: CssTree,
    merge_ratio: f64,
    /// Rows with numbers below this one have left the window.
    first: u32,
    len: usize,
    /// The rows in the B+-tree during a merge.
    delta: Vec<Entry>,
    merges: u64,
}

impl ImTree {
    /// Creates an empty index. The index merges its two trees when the B+-tree contains
    /// `merge_ratio` times the number of rows in the window.
    ///
    /// # Panics
    ///
    /// Panics unless the merge ratio is greater than 0 and at most 1.
    pub fn new(merge_ratio: f64) -> Self {
        assert!(
            merge_ratio > 0.0 && merge_ratio <= 1.0,
            "the merge ratio must be greater than 0 and at most 1"
        );
        let (mutable, immutable) = (BPlusTree::new(), CssTree::default());
        ImTree { mutable, immutable, merge_ratio, first: 0, len: 0, delta: Vec::new(), merges: 0 }
    }

    #[cold]
    fn merge(&mut self) {
        self.merges += 1;
        let (delta, first) = (&mut self.delta, self.first);
        delta.clear();
        self.mutable.for_each(|key, row| delta.push(Entry { key, row }));
        self.immutable = self.immutable.merge(delta, first, self.len);
        self.mutable.clear();
    }
}

impl WindowIndex for ImTree {
    fn insert(&mut self, key: i64, row: u32) {
        if self.len == 0 {
            self.first = row;
        }
        self.mutable.insert(key, row);
        self.len += 1;
        if self.mutable.len() as f64 >= self.merge_ratio * self.len as f64 {
            self.merge();
        }
    }

    fn remove(&mut self, _key: i64, row: u32) {
        self.first = row.wrapping_add(1);
        self.len -= 1;
    }

    fn find(&self, probe: &Probe, found: &mut Vec<u32>) {
        self.immutable.find(probe, found);
        self.mutable.find(probe, found);
    }

    fn len(&self) -> usize {
        self.len
    }

    fn memory(&self) -> usize {
        self.mutable.memory() + self.immutable.memory() + self.delta.capacity() * size_of::<Entry>()
    }

    fn clear(&mut self) {
        *self = Self::new(self.merge_ratio);
    }

    fn merges(&self) -> u64 {
        self.merges
    }
}
