//! The partitioned in-memory merge tree (PIM-Tree) for a single thread.

use super::CssTree;
use super::css::GROUP;
use tidegate_structures::index::{BPlusTree, Entry, Probe, WindowIndex};
use tidegate_structures::memory::gather::prefetch;

/// If the tree chooses the insertion depth, each subindex contains about this many rows when it is
/// merged. This is the size of one leaf.
const ROWS_OF_SUBINDEX: usize = 20;

/// The PIM-Tree (section 3.3 of the paper). A PIM-Tree is an IM-Tree with one B+-tree, called a
/// *subindex*, for each node at the *insertion depth* of the immutable tree. A subindex contains
/// the keys that belong to its node. Every merge therefore adapts the subindex ranges to the key
/// distribution.
#[derive(Debug)]
pub struct PimTree {
    immutable: CssTree,
    /// One subindex per node of the immutable tree at `depth`.
    subindexes: Vec<BPlusTree>,
    depth: usize,
    /// The requested insertion depth.
    wanted_depth: Option<usize>,
    merge_ratio: f64,
    /// The number of the oldest row, or the preceding number.
    first: u32,
    len: usize,
    /// The number of rows in subindexes.
    mutable: usize,
    /// The rows in the subindexes during a merge.
    delta: Vec<Entry>,
    merges: u64,
}

impl PimTree {
    /// Creates an empty index. The index merges its rows when the subindexes contain `merge_ratio`
    /// times the number of rows in the window. Without an `insertion_depth`, the index uses the
    /// smallest depth at which a subindex contains no more rows than a leaf.
    ///
    /// # Panics
    ///
    /// Panics unless the merge ratio is greater than 0 and at most 1.
    pub fn new(merge_ratio: f64, insertion_depth: Option<usize>) -> Self {
        assert!(
            merge_ratio > 0.0 && merge_ratio <= 1.0,
            "the merge ratio must be greater than 0 and at most 1"
        );
        PimTree {
            immutable: CssTree::default(),
            subindexes: vec![BPlusTree::new()],
            depth: 0,
            wanted_depth: insertion_depth,
            merge_ratio,
            first: 0,
            len: 0,
            mutable: 0,
            delta: Vec::new(),
            merges: 0,
        }
    }

    /// Returns the number of subindexes.
    pub fn subindexes(&self) -> usize {
        self.subindexes.len()
    }

    #[cold]
    fn merge(&mut self) {
        self.merges += 1;
        let (delta, first) = (&mut self.delta, self.first);
        delta.clear();
        for subindex in &mut self.subindexes {
            subindex.for_each(|key, row| delta.push(Entry { key, row }));
            subindex.clear();
        }
        self.immutable = self.immutable.merge(delta, first, self.len);
        self.depth = insertion_depth(&self.immutable, self.wanted_depth, self.merge_ratio);
        self.subindexes.resize(self.immutable.nodes(self.depth), BPlusTree::new());
        self.mutable = 0;
    }

    /// Inserts a row into the subindex of the node to which the row's key belongs.
    #[inline]
    fn insert_at(&mut self, node: usize, row: Entry) {
        self.subindexes[node].insert(row.key, row.row);
        self.mutable += 1;
        self.len += 1;
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.mutable as f64 >= self.merge_ratio * self.len as f64
    }

    /// Appends the matching rows of the subindexes, starting at the subindex to which the probe's
    /// low end belongs.
    #[inline]
    fn find_mutable(&self, mut node: usize, probe: &Probe, found: &mut Vec<u32>) {
        loop {
            let subindex = &self.subindexes[node];
            if !subindex.is_empty() {
                subindex.find(probe, found);
            }
            if probe.high <= self.immutable.limit(self.depth, node) {
                return;
            }
            node += 1;
        }
    }
}

/// Returns the insertion depth for an immutable tree.
pub(super) fn insertion_depth(
    immutable: &CssTree,
    wanted: Option<usize>,
    merge_ratio: f64,
) -> usize {
    let rows = (immutable.len() as f64 * merge_ratio) as usize;
    let enough = |depth: &usize| immutable.nodes(*depth) * ROWS_OF_SUBINDEX >= rows;
    let depth = wanted
        .unwrap_or_else(|| (0..=immutable.height()).find(enough).unwrap_or(immutable.height()));
    depth.min(immutable.height())
}

impl WindowIndex for PimTree {
    fn insert(&mut self, key: i64, row: u32) {
        self.insert_all(&[Entry { key, row }]);
    }

    fn insert_all(&mut self, rows: &[Entry]) {
        for rows in rows.chunks(GROUP) {
            if self.len == 0 {
                self.first = rows[0].row;
            }
            let mut rest = rows;
            // The merges in between rebuild the tree, and its nodes with it.
            while !rest.is_empty() {
                let (mut keys, mut nodes) = ([0; GROUP], [0; GROUP]);
                keys.iter_mut().zip(rest).for_each(|(key, row)| *key = row.key);
                self.immutable.descend_all(
                    &keys[..rest.len()],
                    0,
                    &mut nodes[..rest.len()],
                    self.depth,
                );
                nodes[..rest.len()].iter().for_each(|&node| prefetch(&self.subindexes, node));
                nodes[..rest.len()].iter().for_each(|&node| self.subindexes[node].prefetch());
                let mut done = 0;
                while done < rest.len() && (done == 0 || !self.is_full()) {
                    self.insert_at(nodes[done], rest[done]);
                    done += 1;
                }
                rest = &rest[done..];
                if self.is_full() {
                    self.merge();
                }
            }
        }
    }

    fn remove(&mut self, _key: i64, row: u32) {
        self.first = row.wrapping_add(1);
        self.len -= 1;
    }

    fn find(&self, probe: &Probe, found: &mut Vec<u32>) {
        let node = self.immutable.descend(probe.low, 0, 0, self.depth);
        let leaf = self.immutable.descend(probe.low, self.depth, node, self.immutable.height());
        self.immutable.find_from(leaf, probe, found);
        self.find_mutable(node, probe, found);
    }

    fn find_all(&self, probes: &[Probe], found: &mut Vec<u32>, ends: &mut Vec<u32>) {
        for probes in probes.chunks(GROUP) {
            let (mut keys, mut nodes) = ([0; GROUP], [0; GROUP]);
            let (keys, nodes) = (&mut keys[..probes.len()], &mut nodes[..probes.len()]);
            keys.iter_mut().zip(probes).for_each(|(key, probe)| *key = probe.low);
            self.immutable.descend_all(keys, 0, nodes, self.depth);
            let mut leaves = [0; GROUP];
            let leaves = &mut leaves[..probes.len()];
            leaves.copy_from_slice(nodes);
            nodes.iter().for_each(|&node| prefetch(&self.subindexes, node));
            self.immutable.descend_all(keys, self.depth, leaves, self.immutable.height());
            nodes.iter().for_each(|&node| self.subindexes[node].prefetch());
            for ((probe, &node), &leaf) in probes.iter().zip(nodes.iter()).zip(leaves.iter()) {
                self.immutable.find_from(leaf, probe, found);
                self.find_mutable(node, probe, found);
                ends.push(found.len() as u32);
            }
        }
    }

    fn len(&self) -> usize {
        self.len
    }

    fn memory(&self) -> usize {
        let of_subindexes: usize =
            self.subindexes.iter().map(|tree| size_of::<BPlusTree>() + tree.memory()).sum();
        self.immutable.memory() + of_subindexes + self.delta.capacity() * size_of::<Entry>()
    }

    fn clear(&mut self) {
        *self = Self::new(self.merge_ratio, self.wanted_depth);
    }

    fn merges(&self) -> u64 {
        self.merges
    }
}
