//! The chained index, which consists of one index for each section of the window.

use std::collections::VecDeque;

use super::CssTree;
use tidegate_structures::index::{BPlusTree, Entry, Probe, WindowIndex, is_live};

/// The minimum number of rows in each full index of a chain.
const LEAST: usize = 32;

/// The form that an index takes when it is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Archive {
    /// Full indexes remain B+-trees (B-chain).
    BPlus,
    /// Full indexes are converted to immutable trees (IB-chain).
    Immutable,
}

/// The chained index of Lin et al., in both forms described in section 5.1 of the paper. Rows are
/// inserted into the newest index of a chain. When its last row has left the window, the oldest
/// index is dropped. Every probe searches all indexes.
#[derive(Debug)]
pub struct ChainedIndex {
    archive: Archive,
    /// The number of indexes that cover the window.
    length: usize,
    active: BPlusTree,
    /// The most recently inserted row.
    last: u32,
    /// The full indexes, oldest first, each with the number of its last row.
    archived: VecDeque<(TreePart, u32)>,
    len: usize,
}

#[derive(Debug)]
enum TreePart {
    BPlus(BPlusTree),
    Immutable(CssTree),
}

impl ChainedIndex {
    /// Creates an empty index: a chain of at least two indexes.
    ///
    /// # Panics
    ///
    /// Panics if `length` is below 2.
    pub fn new(archive: Archive, length: usize) -> Self {
        assert!(length >= 2, "a chain has an active and an archived index");
        ChainedIndex {
            archive,
            length,
            active: BPlusTree::new(),
            last: 0,
            archived: VecDeque::new(),
            len: 0,
        }
    }

    fn archive(&mut self) {
        let full = std::mem::take(&mut self.active);
        let part = match self.archive {
            Archive::BPlus => TreePart::BPlus(full),
            Archive::Immutable => {
                let mut rows = Vec::with_capacity(full.len());
                full.for_each(|key, row| rows.push(Entry { key, row }));
                let oldest = rows
                    .iter()
                    .map(|entry| entry.row)
                    .reduce(|one, other| if is_live(one, other) { other } else { one });
                TreePart::Immutable(CssTree::default().merge(
                    &rows,
                    oldest.unwrap_or(0),
                    rows.len(),
                ))
            }
        };
        self.archived.push_back((part, self.last));
    }
}

impl WindowIndex for ChainedIndex {
    fn insert(&mut self, key: i64, row: u32) {
        if self.active.len() >= LEAST.max(self.len / (self.length - 1)) {
            self.archive();
        }
        self.active.insert(key, row);
        self.last = row;
        self.len += 1;
    }

    fn remove(&mut self, _key: i64, row: u32) {
        self.len -= 1;
        while self.archived.front().is_some_and(|&(_, last)| is_live(row, last)) {
            self.archived.pop_front();
        }
    }

    fn find(&self, probe: &Probe, found: &mut Vec<u32>) {
        for (part, _) in &self.archived {
            match part {
                TreePart::BPlus(tree) => tree.find(probe, found),
                TreePart::Immutable(tree) => tree.find(probe, found),
            }
        }
        self.active.find(probe, found);
    }

    fn len(&self) -> usize {
        self.len
    }

    fn memory(&self) -> usize {
        let of_part = |(part, _): &(TreePart, u32)| match part {
            TreePart::BPlus(tree) => tree.memory(),
            TreePart::Immutable(tree) => tree.memory(),
        };
        self.active.memory() + self.archived.iter().map(of_part).sum::<usize>()
    }

    fn clear(&mut self) {
        *self = Self::new(self.archive, self.length);
    }
}
