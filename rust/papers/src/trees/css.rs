//! The immutable tree: an array of sorted rows, under B+-tree nodes that are stored in
//! breadth-first order.

use std::fmt;

use tidegate_structures::index::search::count_below;
use tidegate_structures::index::{Entry, Probe, is_live, take_run};
use tidegate_structures::memory::gather::prefetch;
use tidegate_structures::memory::pages::{Pages, Slot};

/// The number of children per node, and of entries per leaf. This many keys fill two cache lines.
const FANOUT: usize = 16;

/// The number of probes that descend the tree together, so that their memory accesses overlap.
pub(super) const GROUP: usize = 32;

/// The greatest key in the subtree of each child. The key is `i64::MAX` for the last child of a
/// level and for unused positions.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Node([i64; FANOUT]);

/// An immutable B+-tree without references (CSS-tree). The positions of a node's children are
/// computed from the node's own position.
///
/// ```text
///   depth 0                      ┌────────────┐
///   depth 1      ┌───────┬───────┴───┬────────┴───┐     node n's children are the nodes 16 n .. 16 n + 16
///   leaves    ┌──┴──┐ ┌──┴──┐     ┌──┴──┐      ┌──┴──┐
///   keys      │1 3 3│ │4 7 8│     │9 9 9│      │9 .. │   the rows are in a parallel array
/// ```
pub struct CssTree {
    /// The sorted keys, padded with `i64::MAX` to a whole leaf.
    keys: Pages<i64>,
    rows: Pages<u32>,
    len: usize,
    /// The inner nodes by depth, starting with the root.
    levels: Vec<Vec<Node>>,
}

impl fmt::Debug for CssTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CssTree")
            .field("len", &self.len)
            .field("height", &self.height())
            .finish_non_exhaustive()
    }
}

impl Default for CssTree {
    fn default() -> Self {
        Self::merged(&[], &[], &[], 0, 0)
    }
}

impl CssTree {
    /// Creates a tree of `len` rows. The new tree contains this tree's rows from row `first`
    /// onwards and the rows in `others`. The other rows must be in key order.
    pub fn merge(&self, others: &[Entry], first: u32, len: usize) -> CssTree {
        Self::merged(&self.keys[..self.len], &self.rows, others, first, len)
    }

    /// Returns the number of rows from row `first` onwards.
    pub(super) fn live(&self, first: u32) -> usize {
        self.rows[..self.len].iter().filter(|&&row| is_live(row, first)).count()
    }

    fn merged(keys: &[i64], rows: &[u32], others: &[Entry], first: u32, len: usize) -> CssTree {
        // One more position than there are rows, for a row that is overwritten.
        let padded = (len + 1).next_multiple_of(FANOUT);
        let (mut merged_keys, mut merged_rows) =
            (Pages::unwritten(padded), Pages::unwritten(padded));
        let mut into = 0;
        let mut add = |key, row| {
            // There is no branch on whether the row is live, because it could not be predicted. A
            // row that is not live is overwritten by the next one.
            merged_keys[into].set(key);
            merged_rows[into].set(row);
            into += usize::from(is_live(row, first));
        };
        let mut at = 0;
        for other in others {
            while at < keys.len() && keys[at] <= other.key {
                add(keys[at], rows[at]);
                at += 1;
            }
            add(other.key, other.row);
        }
        keys[at..].iter().zip(&rows[at..]).for_each(|(&key, &row)| add(key, row));
        assert_eq!(into, len, "a tree contains the live rows");
        Slot::fill(&mut merged_keys[len..], i64::MAX);
        Slot::fill(&mut merged_rows[len..], 0);
        let (keys, rows) = (merged_keys.written(), merged_rows.written());
        let mut merged = CssTree { keys, rows, len, levels: Vec::new() };
        merged.make_levels();
        merged
    }

    /// Creates the inner nodes, from the leaves up.
    fn make_levels(&mut self) {
        let mut last: Vec<i64> =
            self.keys.iter().skip(FANOUT - 1).step_by(FANOUT).copied().collect();
        while last.len() > 1 {
            *last.last_mut().expect("there is more than one entry") = i64::MAX;
            let node = |keys: &[i64]| {
                let mut node = Node([i64::MAX; FANOUT]);
                node.0[..keys.len()].copy_from_slice(keys);
                node
            };
            let level: Vec<Node> = last.chunks(FANOUT).map(node).collect();
            last = level.iter().map(|node| node.0[FANOUT - 1]).collect();
            self.levels.insert(0, level);
        }
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the depth of the leaves.
    pub fn height(&self) -> usize {
        self.levels.len()
    }

    /// Returns the number of nodes at the given depth.
    pub fn nodes(&self, depth: usize) -> usize {
        self.levels.get(depth).map_or(self.keys.len() / FANOUT, Vec::len)
    }

    /// Returns the greatest key that belongs to the given node. The tree need not contain this key.
    #[inline]
    pub(super) fn limit(&self, depth: usize, node: usize) -> i64 {
        match depth {
            0 => i64::MAX,
            _ => self.levels[depth - 1][node / FANOUT].0[node % FANOUT],
        }
    }

    /// Returns the node at depth `to` to which a key belongs. The search starts at the given node,
    /// to which the key belongs at depth `from`.
    #[inline]
    pub(super) fn descend(&self, key: i64, from: usize, mut node: usize, to: usize) -> usize {
        for level in &self.levels[from..to] {
            node = node * FANOUT + count_below(&level[node].0, key);
        }
        node
    }

    /// Like [`descend`](Self::descend), but for several keys at the same time, so that the memory
    /// accesses overlap.
    #[inline]
    pub(super) fn descend_all(&self, keys: &[i64], from: usize, nodes: &mut [usize], to: usize) {
        for depth in from..to {
            let level = &self.levels[depth];
            for (node, &key) in nodes.iter_mut().zip(keys) {
                *node = *node * FANOUT + count_below(&level[*node].0, key);
                self.prefetch(depth + 1, *node);
            }
        }
    }

    /// Prefetches a node into the cache.
    #[inline]
    fn prefetch(&self, depth: usize, node: usize) {
        match self.levels.get(depth) {
            Some(level) => {
                prefetch(level, node);
                prefetch(&level[node].0, FANOUT / 2);
            }
            None => {
                prefetch(&self.keys, node * FANOUT);
                prefetch(&self.keys, node * FANOUT + FANOUT / 2);
                prefetch(&self.rows, node * FANOUT);
            }
        }
    }

    /// Returns the position of the first key that is at or above `key`. The position is in the leaf
    /// or directly after it.
    #[inline]
    fn lower(&self, leaf: usize, key: i64) -> usize {
        (leaf * FANOUT + count_below(&self.keys.as_chunks::<FANOUT>().0[leaf], key)).min(self.len)
    }

    /// Appends the numbers of the rows that match the probe. The probe's low end must belong to the
    /// given leaf.
    #[inline]
    pub(super) fn find_from(&self, leaf: usize, probe: &Probe, found: &mut Vec<u32>) {
        let from = self.lower(leaf, probe.low);
        take_run(&self.keys[from..self.len], &self.rows[from..self.len], probe, found);
    }

    /// Appends the numbers of the rows that match the probe, in key order.
    pub fn find(&self, probe: &Probe, found: &mut Vec<u32>) {
        let leaf = self.descend(probe.low, 0, 0, self.height());
        self.find_from(leaf, probe, found);
    }

    /// Returns the number of bytes in use.
    pub fn memory(&self) -> usize {
        let of_levels: usize = self.levels.iter().map(|level| size_of_val(&**level)).sum();
        size_of_val(&*self.keys) + size_of_val(&*self.rows) + of_levels
    }
}
