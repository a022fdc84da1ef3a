//! The B+-tree, in which rows are inserted and removed one by one.

mod node;

use node::{Arena, FANOUT, FEW, Inner, Leaf, MERGED, NONE};

use super::{Probe, WindowIndex, take_run};
use crate::memory;
use crate::memory::gather::prefetch;

/// The maximum number of inner-node levels. A tree with 2^31 rows has this many levels if each node
/// is as empty as possible.
const MAX_HEIGHT: usize = 16;

/// A B+-tree with linked leaves (section 2.2.1 of the paper).
///
/// Rows with equal keys are in insertion order. Only the oldest row is ever removed. The oldest row
/// is the first one with its key, so no search among equal keys is needed.
#[derive(Clone, Debug)]
pub struct BPlusTree {
    leaves: Arena<Leaf>,
    inners: Arena<Inner>,
    root: u32,
    /// The number of inner-node levels. If there are no inner nodes, the root is a leaf.
    height: usize,
    /// The leaf with the lowest keys.
    first: u32,
    len: usize,
}

/// The path to a leaf: the inner nodes from the root, and the position of the chosen child in each.
struct Path {
    steps: [(u32, usize); MAX_HEIGHT],
    leaf: u32,
}

impl Default for BPlusTree {
    fn default() -> Self {
        Self::new()
    }
}

impl BPlusTree {
    /// Creates a tree without rows.
    pub fn new() -> Self {
        // Thousands of small trees would use up the memory that is kept for unwinding.
        memory::check();
        let mut leaves = Arena::default();
        let root = leaves.add(Leaf::default());
        BPlusTree { leaves, inners: Arena::default(), root, height: 0, first: root, len: 0 }
    }

    /// Calls `each` for every row, in key order.
    pub fn for_each(&self, mut each: impl FnMut(i64, u32)) {
        let mut at = self.first;
        while at != NONE {
            let leaf = self.leaves.get(at);
            leaf.keys[..leaf.len].iter().zip(&leaf.rows).for_each(|(&key, &row)| each(key, row));
            at = leaf.next;
        }
    }

    /// Prefetches the root into the cache.
    #[inline]
    pub fn prefetch(&self) {
        if self.height == 0 {
            let leaf = self.leaves.get(self.root);
            (0..FANOUT).step_by(8).for_each(|at| prefetch(&leaf.keys, at));
            (0..FANOUT).step_by(16).for_each(|at| prefetch(&leaf.rows, at));
            prefetch(std::slice::from_ref(&leaf.len), 0);
        }
    }

    /// Descends through the child that `choose` selects in each inner node.
    #[inline]
    fn descend(&self, choose: impl Fn(&Inner) -> usize) -> Path {
        let mut path = Path { steps: [(NONE, 0); MAX_HEIGHT], leaf: self.root };
        for step in &mut path.steps[..self.height] {
            let inner = self.inners.get(path.leaf);
            let at = choose(inner);
            *step = (path.leaf, at);
            path.leaf = inner.children[at];
        }
        path
    }

    /// Moves to the next leaf.
    fn advance(&self, path: &mut Path) {
        let mut level = self.height;
        // Move up until there is a next child, and then down through the first children.
        loop {
            level -= 1;
            let (node, at) = path.steps[level];
            if at + 1 < self.inners.get(node).len {
                path.steps[level].1 += 1;
                break;
            }
        }
        let child = |(node, at): (u32, usize)| self.inners.get(node).children[at];
        for below in level + 1..self.height {
            path.steps[below] = (child(path.steps[below - 1]), 0);
        }
        path.leaf = child(path.steps[self.height - 1]);
    }

    /// Splits a full leaf and returns the new leaf to its right.
    #[cold]
    fn split(&mut self, path: &Path) -> u32 {
        let full = self.leaves.get_mut(path.leaf);
        let next = full.next;
        // If keys only increase, an even split of the last leaf would leave all leaves half empty.
        let mut right = full.split(if next == NONE { FANOUT - 1 } else { FANOUT / 2 });
        let mut separator = full.keys[full.len - 1];
        (right.previous, right.next) = (path.leaf, next);
        let mut child = self.leaves.add(right);
        let new = child;
        self.leaves.get_mut(path.leaf).next = new;
        if next != NONE {
            self.leaves.get_mut(next).previous = new;
        }
        // Then split the inner nodes above, as long as they are full.
        for &(node, at) in path.steps[..self.height].iter().rev() {
            let inner = self.inners.get_mut(node);
            if inner.len < FANOUT {
                inner.insert(at, separator, child);
                return new;
            }
            let (middle, mut right) = inner.split();
            if at < inner.len {
                inner.insert(at, separator, child);
            } else {
                right.insert(at - inner.len, separator, child);
            }
            (separator, child) = (middle, self.inners.add(right));
        }
        let mut root = Inner { len: 2, ..Inner::default() };
        root.separators[0] = separator;
        (root.children[0], root.children[1]) = (self.root, child);
        self.root = self.inners.add(root);
        self.height += 1;
        assert!(self.height <= MAX_HEIGHT, "a window has fewer than 2^31 rows");
        new
    }

    /// Merges a nearly empty leaf with a neighbour, or removes the leaf if it has no entries.
    #[cold]
    fn shrink_leaf(&mut self, path: &Path) {
        let Some(level) = self.height.checked_sub(1) else { return };
        let (parent, at) = path.steps[level];
        if self.leaves.get(path.leaf).len == 0 {
            self.unlink(path.leaf);
            return self.remove_child(path, level, at);
        }
        let node = self.inners.get(parent);
        let len = |at: usize| self.leaves.get(node.children[at]).len;
        if let Some(left) = mergeable(node, at, len) {
            let (left, right) = (node.children[left], (node.children[left + 1], left + 1));
            let (into, from) = self.leaves.pair(left, right.0);
            into.append(from);
            self.unlink(right.0);
            self.remove_child(path, level, right.1);
        }
    }

    /// Unlinks a leaf from the list of leaves.
    fn unlink(&mut self, leaf: u32) {
        let Leaf { previous, next, .. } = *self.leaves.get(leaf);
        match previous {
            NONE => self.first = next,
            _ => self.leaves.get_mut(previous).next = next,
        }
        if next != NONE {
            self.leaves.get_mut(next).previous = previous;
        }
        self.leaves.give_back(leaf);
    }

    /// Removes a child from the path's inner node at `level`. If the node has no other children,
    /// also removes the node from its parent.
    fn remove_child(&mut self, path: &Path, level: usize, at: usize) {
        let (node, _) = path.steps[level];
        let inner = self.inners.get_mut(node);
        inner.remove(at);
        let len = inner.len;
        if level == 0 {
            match len {
                0 => self.clear(),
                1 => self.lower_root(),
                _ => {}
            }
            return;
        }
        let (parent, at) = path.steps[level - 1];
        if len == 0 {
            self.inners.give_back(node);
            return self.remove_child(path, level - 1, at);
        }
        if len < FEW {
            let above = self.inners.get(parent);
            let len = |at: usize| self.inners.get(above.children[at]).len;
            if let Some(left) = mergeable(above, at, len) {
                let (separator, right) = (above.separators[left], above.children[left + 1]);
                let (into, from) = self.inners.pair(above.children[left], right);
                into.append(separator, from);
                self.inners.give_back(right);
                self.remove_child(path, level - 1, left + 1);
            }
        }
    }

    /// Replaces the root with its only child, and repeats this while the root has only one child.
    fn lower_root(&mut self) {
        while self.height > 0 && self.inners.get(self.root).len == 1 {
            let child = self.inners.get(self.root).children[0];
            self.inners.give_back(self.root);
            self.root = child;
            self.height -= 1;
        }
    }
}

/// Looks for a neighbour with which the node at position `at` can be merged, because the contents
/// of both fit into one node. Returns the position of the left node.
fn mergeable(parent: &Inner, at: usize, len: impl Fn(usize) -> usize) -> Option<usize> {
    let fits = |left: &usize| left + 1 < parent.len && len(*left) + len(left + 1) <= MERGED;
    [Some(at), at.checked_sub(1)].into_iter().flatten().find(fits)
}

impl WindowIndex for BPlusTree {
    fn insert(&mut self, key: i64, row: u32) {
        let path = self.descend(|inner| inner.upper(key));
        let leaf = self.leaves.get_mut(path.leaf);
        self.len += 1;
        if leaf.len < FANOUT {
            leaf.insert(leaf.upper(key), key, row);
            return;
        }
        let right = self.split(&path);
        let left = self.leaves.get_mut(path.leaf);
        let into = if key < left.keys[left.len - 1] { left } else { self.leaves.get_mut(right) };
        into.insert(into.upper(key), key, row);
    }

    fn remove(&mut self, key: i64, row: u32) {
        let mut path = self.descend(|inner| inner.lower(key));
        let mut at = self.leaves.get(path.leaf).lower(key);
        while at == self.leaves.get(path.leaf).len {
            self.advance(&mut path);
            at = self.leaves.get(path.leaf).lower(key);
        }
        let leaf = self.leaves.get_mut(path.leaf);
        assert_eq!(
            (leaf.keys[at], leaf.rows[at]),
            (key, row),
            "rows are removed in insertion order"
        );
        leaf.remove(at);
        self.len -= 1;
        if leaf.len < FEW {
            self.shrink_leaf(&path);
        }
    }

    fn find(&self, probe: &Probe, found: &mut Vec<u32>) {
        let mut leaf = self.leaves.get(self.descend(|inner| inner.lower(probe.low)).leaf);
        let mut from = leaf.lower(probe.low);
        while !take_run(&leaf.keys[from..leaf.len], &leaf.rows[from..leaf.len], probe, found)
            && leaf.next != NONE
        {
            leaf = self.leaves.get(leaf.next);
            from = 0;
        }
    }

    fn len(&self) -> usize {
        self.len
    }

    fn memory(&self) -> usize {
        self.leaves.memory() + self.inners.memory()
    }

    fn clear(&mut self) {
        self.leaves.clear();
        self.inners.clear();
        self.root = self.leaves.add(Leaf::default());
        (self.height, self.first, self.len) = (0, self.root, 0);
    }
}
