//! The chained index: one index a stretch of the window.

use std::collections::VecDeque;

use super::CssTree;
use tidegate_structures::index::{BPlusTree, Entry, Probe, WindowIndex, is_live};

/// Rows below which no index of a chain is full.
const LEAST: usize = 32;

/// The form of an index once it is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Archive {
    /// It stays a B+-tree (B-chain).
    BPlus,
    /// It becomes an immutable tree (IB-chain).
    Immutable,
}

/// The chained index of Lin et al., in both forms of section 5.1 of the paper: rows enter the
/// youngest index of a chain, and the oldest is dropped as a whole when its last row has left.
/// Every probe looks into all of them.
#[derive(Debug)]
pub struct ChainedIndex {
    archive: Archive,
    /// Indexes that cover the window.
    length: usize,
    active: BPlusTree,
    /// The row that came last.
    last: u32,
    /// Full ones with their last rows, oldest first.
    archived: VecDeque<(TreePart, u32)>,
    len: usize,
}

#[derive(Debug)]
enum TreePart {
    BPlus(BPlusTree),
    Immutable(CssTree),
}

impl ChainedIndex {
    /// An index without rows, as a chain of at least two indexes.
    ///
    /// # Panics
    ///
    /// When `length` is below 2.
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
