//! The immutable tree: sorted rows in an array, and above them the nodes of a B+-tree in
//! breadth-first order.

use std::fmt;

use tidegate_structures::index::search::count_below;
use tidegate_structures::index::{Entry, Probe, is_live, take_run};
use tidegate_structures::memory::gather::prefetch;
use tidegate_structures::memory::pages::{Pages, Slot};

/// Children of a node, and entries of a leaf: two cache lines of keys.
const FANOUT: usize = 16;

/// Probes that go down the tree together, so that they wait for memory together.
pub(super) const GROUP: usize = 32;

/// For each child the greatest key below it, and `i64::MAX` for the last one of a level and behind
/// it.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Node([i64; FANOUT]);

/// An immutable B+-tree without references (CSS-tree): a node's place gives the places of its
/// children.
///
/// ```text
///   depth 0                      ┌────────────┐
///   depth 1      ┌───────┬───────┴───┬────────┴───┐     node n's children are the nodes 16 n .. 16 n + 16
///   leaves    ┌──┴──┐ ┌──┴──┐     ┌──┴──┐      ┌──┴──┐
///   keys      │1 3 3│ │4 7 8│     │9 9 9│      │9 .. │   rows lie beside
/// ```
pub struct CssTree {
    /// In order, and `i64::MAX` behind them up to a whole leaf.
    keys: Pages<i64>,
    rows: Pages<u32>,
    len: usize,
    /// Inner nodes by depth, the root's first.
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
    /// A tree of the rows of this one that are not before `first` and of others, which are in key
    /// order; `len` in all.
    pub fn merge(&self, others: &[Entry], first: u32, len: usize) -> CssTree {
        Self::merged(&self.keys[..self.len], &self.rows, others, first, len)
    }

    /// The rows that are not before `first`, counted.
    pub(super) fn live(&self, first: u32) -> usize {
        self.rows[..self.len].iter().filter(|&&row| is_live(row, first)).count()
    }

    fn merged(keys: &[i64], rows: &[u32], others: &[Entry], first: u32, len: usize) -> CssTree {
        // One more than the rows, so that there is room for one that is written over.
        let padded = (len + 1).next_multiple_of(FANOUT);
        let (mut merged_keys, mut merged_rows) =
            (Pages::unwritten(padded), Pages::unwritten(padded));
        let mut into = 0;
        let mut add = |key, row| {
            // Without a branch on whether the row is live, which nothing could predict: another is
            // written over it.
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
        assert_eq!(into, len, "a tree has the live rows");
        Slot::fill(&mut merged_keys[len..], i64::MAX);
        Slot::fill(&mut merged_rows[len..], 0);
        let (keys, rows) = (merged_keys.written(), merged_rows.written());
        let mut merged = CssTree { keys, rows, len, levels: Vec::new() };
        merged.make_levels();
        merged
    }

    /// Makes the inner nodes, from the leaves up.
    fn make_levels(&mut self) {
        let mut last: Vec<i64> =
            self.keys.iter().skip(FANOUT - 1).step_by(FANOUT).copied().collect();
        while last.len() > 1 {
            *last.last_mut().expect("there is more than one") = i64::MAX;
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

    /// Rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The depth of the leaves.
    pub fn height(&self) -> usize {
        self.levels.len()
    }

    /// The number of nodes at a depth.
    pub fn nodes(&self, depth: usize) -> usize {
        self.levels.get(depth).map_or(self.keys.len() / FANOUT, Vec::len)
    }

    /// The greatest key that belongs to a node at a depth, whether or not it is there.
    #[inline]
    pub(super) fn limit(&self, depth: usize, node: usize) -> i64 {
        match depth {
            0 => i64::MAX,
            _ => self.levels[depth - 1][node / FANOUT].0[node % FANOUT],
        }
    }

    /// The node at depth `to` to which a key belongs, given the one at depth `from`.
    #[inline]
    pub(super) fn descend(&self, key: i64, from: usize, mut node: usize, to: usize) -> usize {
        for level in &self.levels[from..to] {
            node = node * FANOUT + count_below(&level[node].0, key);
        }
        node
    }

    /// As [`descend`](Self::descend) for keys that all begin at the root, waiting for memory
    /// together.
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

    /// Asks for a node to be in a cache soon.
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

    /// The place of the first key in a leaf, or behind it, that is not below `key`.
    #[inline]
    fn lower(&self, leaf: usize, key: i64) -> usize {
        (leaf * FANOUT + count_below(&self.keys.as_chunks::<FANOUT>().0[leaf], key)).min(self.len)
    }

    /// Adds the numbers of the rows that the probe takes, given the leaf to which its low end
    /// belongs.
    #[inline]
    pub(super) fn find_from(&self, leaf: usize, probe: &Probe, found: &mut Vec<u32>) {
        let from = self.lower(leaf, probe.low);
        take_run(&self.keys[from..self.len], &self.rows[from..self.len], probe, found);
    }

    /// Adds the numbers of the rows that the probe takes, in key order.
    pub fn find(&self, probe: &Probe, found: &mut Vec<u32>) {
        let leaf = self.descend(probe.low, 0, 0, self.height());
        self.find_from(leaf, probe, found);
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        let of_levels: usize = self.levels.iter().map(|level| size_of_val(&**level)).sum();
        size_of_val(&*self.keys) + size_of_val(&*self.rows) + of_levels
    }
}
