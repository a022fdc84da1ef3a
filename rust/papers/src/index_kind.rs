//! The indexes of a paper by name, for the index-based join whose rows enter ahead
//! ([`Ahead`](tidegate_operators::band::index::Ahead)).

use tidegate_structures::index::{BPlusTree, WindowIndex};

use crate::trees::{Archive, ChainedIndex, ImTree, PimTree};

/// An index of the rows of a window, beside the buckets of tidegate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum IndexKind {
    /// PIM-Tree.
    PimTree {
        /// How many rows, of the rows of the window, its subindexes have when they are merged:
        /// above 0, and at most 1.
        merge_ratio: f64,
        /// The depth of its subindexes; `None` for the least at which each has about a leaf's rows.
        insertion_depth: Option<usize>,
    },
    /// IM-Tree.
    ImTree {
        /// How many rows, of the rows of the window, its B+-tree has when it is merged: above 0,
        /// and at most 1.
        merge_ratio: f64,
    },
    /// B+-tree.
    BPlusTree,
    /// A chain of this number of B+-trees, at least 2.
    BChain(usize),
    /// A chain of this number of trees, at least 2: a B+-tree, and immutable trees behind it.
    IbChain(usize),
}

impl IndexKind {
    /// A PIM-Tree with the merge ratio that was measured to be the fastest.
    pub const PIM_TREE: IndexKind =
        IndexKind::PimTree { merge_ratio: 1.0 / 4.0, insertion_depth: None };
    /// An IM-Tree with the merge ratio that was measured to be the fastest.
    pub const IM_TREE: IndexKind = IndexKind::ImTree { merge_ratio: 1.0 / 8.0 };
    /// The shortest chain of B+-trees, which finds the fastest.
    pub const B_CHAIN: IndexKind = IndexKind::BChain(2);
    /// The shortest chain with immutable trees, which finds the fastest.
    pub const IB_CHAIN: IndexKind = IndexKind::IbChain(2);

    /// An index without rows.
    pub fn index(self) -> Box<dyn WindowIndex> {
        match self {
            IndexKind::PimTree { merge_ratio, insertion_depth } => {
                Box::new(PimTree::new(merge_ratio, insertion_depth))
            }
            IndexKind::ImTree { merge_ratio } => Box::new(ImTree::new(merge_ratio)),
            IndexKind::BPlusTree => Box::new(BPlusTree::new()),
            IndexKind::BChain(length) => Box::new(ChainedIndex::new(Archive::BPlus, length)),
            IndexKind::IbChain(length) => Box::new(ChainedIndex::new(Archive::Immutable, length)),
        }
    }
}
