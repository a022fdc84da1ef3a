//! Round-robin partitioning: several indexes to which rows are assigned regardless of their values.

use tidegate_structures::index::{BPlusTree, Probe, WindowIndex};

/// Rows are assigned to B+-trees in turn. The low-latency handshake join, SplitJoin and BiStream
/// assign rows to threads in the same way (section 2.2.3 of the paper). The trees are smaller, but
/// every probe searches all of them.
#[derive(Debug)]
pub struct RoundRobin {
    trees: Vec<BPlusTree>,
    /// The tree for the next insertion, and the tree for the next removal.
    enters: usize,
    leaves: usize,
}

impl RoundRobin {
    /// Creates an empty index that consists of `trees` trees.
    ///
    /// # Panics
    ///
    /// Panics if `trees` is 0.
    pub fn new(trees: usize) -> Self {
        assert!(trees > 0, "there is at least one tree");
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
