//! The nodes of a B+-tree, and their arenas.

use crate::index::search::{count_below, count_upto};
use crate::memory;

/// The maximum number of entries in a leaf, and of children in an inner node. A key search takes
/// four 512-bit comparisons.
pub(super) const FANOUT: usize = 32;

/// A node with fewer entries is merged with a neighbour if possible.
pub(super) const FEW: usize = FANOUT / 4;

/// Two neighbours are merged if together they have at most this many entries. The next few
/// insertions therefore do not split the node again.
pub(super) const MERGED: usize = 3 * FANOUT / 4;

/// Represents no node.
pub(super) const NONE: u32 = u32::MAX;

/// Rows in key order. Rows with equal keys are in insertion order.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    /// The keys, padded with `i64::MAX`.
    pub(super) keys: [i64; FANOUT],
    pub(super) rows: [u32; FANOUT],
    pub(super) len: usize,
    /// The neighbouring leaves, or [`NONE`].
    pub(super) previous: u32,
    pub(super) next: u32,
}

impl Default for Leaf {
    fn default() -> Self {
        Leaf { keys: [i64::MAX; FANOUT], rows: [0; FANOUT], len: 0, previous: NONE, next: NONE }
    }
}

impl Leaf {
    /// Returns the position of the first key at or above `key`.
    #[inline]
    pub(super) fn lower(&self, key: i64) -> usize {
        count_below(&self.keys, key).min(self.len)
    }

    /// Returns the position after the last key at or below `key`.
    #[inline]
    pub(super) fn upper(&self, key: i64) -> usize {
        count_upto(&self.keys, key).min(self.len)
    }

    #[inline]
    pub(super) fn insert(&mut self, at: usize, key: i64, row: u32) {
        debug_assert!(self.len < FANOUT && at <= self.len);
        self.keys.copy_within(at..self.len, at + 1);
        self.rows.copy_within(at..self.len, at + 1);
        (self.keys[at], self.rows[at]) = (key, row);
        self.len += 1;
    }

    #[inline]
    pub(super) fn remove(&mut self, at: usize) {
        self.keys.copy_within(at + 1..self.len, at);
        self.rows.copy_within(at + 1..self.len, at);
        self.len -= 1;
        self.keys[self.len] = i64::MAX;
    }

    /// Moves the entries from `at` onwards into a new leaf.
    pub(super) fn split(&mut self, at: usize) -> Leaf {
        let mut right = Leaf { len: self.len - at, ..Leaf::default() };
        right.keys[..right.len].copy_from_slice(&self.keys[at..self.len]);
        right.rows[..right.len].copy_from_slice(&self.rows[at..self.len]);
        self.keys[at..].fill(i64::MAX);
        self.len = at;
        right
    }

    /// Appends the entries of the leaf to the right.
    pub(super) fn append(&mut self, right: &Leaf) {
        self.keys[self.len..][..right.len].copy_from_slice(&right.keys[..right.len]);
        self.rows[self.len..][..right.len].copy_from_slice(&right.rows[..right.len]);
        self.len += right.len;
    }
}

/// Children in key order. A separator is not less than any key in the child before it, and not
/// greater than any key in the child after it.
#[derive(Clone, Debug)]
pub(super) struct Inner {
    /// The separators between the children, padded with `i64::MAX`.
    pub(super) separators: [i64; FANOUT],
    pub(super) children: [u32; FANOUT],
    pub(super) len: usize,
}

impl Default for Inner {
    fn default() -> Self {
        Inner { separators: [i64::MAX; FANOUT], children: [NONE; FANOUT], len: 0 }
    }
}

impl Inner {
    /// Returns the first child that may contain `key`.
    #[inline]
    pub(super) fn lower(&self, key: i64) -> usize {
        count_below(&self.separators, key).min(self.len - 1)
    }

    /// Returns the last child that may contain `key`.
    #[inline]
    pub(super) fn upper(&self, key: i64) -> usize {
        count_upto(&self.separators, key).min(self.len - 1)
    }

    /// Inserts a child after the one at `at`, with the separator between the two.
    pub(super) fn insert(&mut self, at: usize, separator: i64, child: u32) {
        debug_assert!(self.len < FANOUT && at < self.len);
        self.separators.copy_within(at..self.len - 1, at + 1);
        self.children.copy_within(at + 1..self.len, at + 2);
        (self.separators[at], self.children[at + 1]) = (separator, child);
        self.len += 1;
    }

    /// Removes the child at `at`. If there is a previous child, it takes over the removed child's
    /// keys.
    pub(super) fn remove(&mut self, at: usize) {
        if self.len > 1 {
            let separator = at.saturating_sub(1);
            self.separators.copy_within(separator + 1..self.len - 1, separator);
            self.separators[self.len - 2] = i64::MAX;
        }
        self.children.copy_within(at + 1..self.len, at);
        self.len -= 1;
    }

    /// Moves the upper half of the children into a new node. Returns the separator between the two
    /// nodes.
    pub(super) fn split(&mut self) -> (i64, Inner) {
        let half = self.len / 2;
        let mut right = Inner { len: self.len - half, ..Inner::default() };
        right.children[..right.len].copy_from_slice(&self.children[half..self.len]);
        right.separators[..right.len - 1].copy_from_slice(&self.separators[half..self.len - 1]);
        let separator = self.separators[half - 1];
        self.separators[half - 1..].fill(i64::MAX);
        self.len = half;
        (separator, right)
    }

    /// Appends the children of the node to the right.
    pub(super) fn append(&mut self, separator: i64, right: &Inner) {
        self.children[self.len..][..right.len].copy_from_slice(&right.children[..right.len]);
        self.separators[self.len - 1] = separator;
        self.separators[self.len..][..right.len - 1]
            .copy_from_slice(&right.separators[..right.len - 1]);
        self.len += right.len;
    }
}

/// The nodes of one kind, indexed by number. The numbers of removed nodes are reused.
#[derive(Clone, Debug)]
pub(super) struct Arena<T> {
    nodes: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Arena { nodes: Vec::new(), free: Vec::new() }
    }
}

impl<T> Arena<T> {
    pub(super) fn add(&mut self, node: T) -> u32 {
        if let Some(number) = self.free.pop() {
            self.nodes[number as usize] = node;
            return number;
        }
        memory::reserve(&mut self.nodes, 1);
        self.nodes.push(node);
        (self.nodes.len() - 1) as u32
    }

    pub(super) fn give_back(&mut self, number: u32) {
        self.free.push(number);
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> &T {
        &self.nodes[number as usize]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, number: u32) -> &mut T {
        &mut self.nodes[number as usize]
    }

    /// Returns two different nodes.
    pub(super) fn pair(&mut self, one: u32, other: u32) -> (&mut T, &T) {
        let [one, other] =
            self.nodes.get_disjoint_mut([one as usize, other as usize]).expect("two nodes");
        (one, other)
    }

    pub(super) fn clear(&mut self) {
        self.nodes.clear();
        self.free.clear();
    }

    pub(super) fn memory(&self) -> usize {
        self.nodes.capacity() * size_of::<T>() + self.free.capacity() * size_of::<u32>()
    }
}
