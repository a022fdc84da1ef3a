//! Round-robin partitioning: several indexes that know nothing of values.

use tidegate_structures::index::{BPlusTree, Probe, WindowIndex};

/// Rows dealt out to B+-trees in turns, as low-latency handshake join, SplitJoin and BiStream deal
/// them out to threads; section 2.2.3 of the paper. Trees are smaller, but every probe looks into
/// all of them.
#[derive(Debug)]
pub struct RoundRobin {
    trees: Vec<BPlusTree>,
    /// The tree of the next row that enters, and that of the next one that leaves.
    enters: usize,
    leaves: usize,
}

impl RoundRobin {
    /// An index of a number of trees, without rows.
    ///
    /// # Panics
    ///
    /// When there are to be none.
    pub fn new(trees: usize) -> Self {
        assert!(trees > 0, "rows are dealt out to one tree or more");
        RoundRobin { trees: vec![BPlusTree::new(); trees], enters: 0, leaves: 0 }
    }
}

impl WindowIndex for RoundRobin {
    fn insert(&mut self, key: i64, row: u32) {
        self.trees[self.enters].insert(key, row);
        self.enters = (self.enters + 1) % self.trees.len();
    }

    fn remove(&mut self, key: i64, row: u32) {
        self.trees[self.leaves].remove(key, row);
        self.leaves = (self.leaves + 1) % self.trees.len();
    }

    fn find(&self, probe: &Probe, found: &mut Vec<u32>) {
        self.trees.iter().for_each(|tree| tree.find(probe, found));
    }

    fn len(&self) -> usize {
        self.trees.iter().map(BPlusTree::len).sum()
    }

    fn memory(&self) -> usize {
        self.trees.iter().map(BPlusTree::memory).sum()
    }

    fn clear(&mut self) {
        self.trees.iter_mut().for_each(BPlusTree::clear);
        (self.enters, self.leaves) = (0, 0);
    }
}
