//! Named indexes from a paper, for the index-based join that inserts rows ahead of time
//! ([`Ahead`](tidegate_operators::band::index::Ahead)).

use tidegate_structures::index::{BPlusTree, WindowIndex};

use crate::trees::{Archive, ChainedIndex, ImTree, PimTree};

/// An index on the rows in a window. It replaces tidegate's bucket index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum IndexKind {
    /// A PIM-Tree.
    PimTree {
        /// The subindexes are merged once their row count reaches this fraction of the window's row
        /// count. The fraction must be greater than 0 and at most 1.
        merge_ratio: f64,
        /// The depth of the subindexes. `None` means the smallest depth at which each subindex
        /// holds about one leaf's worth of rows.
        insertion_depth: Option<usize>,
    },
    /// An IM-Tree.
    ImTree {
        /// The B+-tree is merged once its row count reaches this fraction of the window's row
        /// count. The fraction must be greater than 0 and at most 1.
        merge_ratio: f64,
    },
    /// A B+-tree.
    BPlusTree,
    /// A chain with the given number of B+-trees, at least 2.
    BChain(usize),
    /// A chain with the given number of trees, at least 2: a B+-tree, followed by immutable trees.
    IbChain(usize),
}

impl IndexKind {
    /// A PIM-Tree with the merge ratio that was fastest in measurements.
    pub const PIM_TREE: IndexKind =
        IndexKind::PimTree { merge_ratio: 1.0 / 4.0, insertion_depth: None };
    /// An IM-Tree with the merge ratio that was fastest in measurements.
    pub const IM_TREE: IndexKind = IndexKind::ImTree { merge_ratio: 1.0 / 8.0 };
    /// The shortest chain of B+-trees, which is the fastest to search.
    pub const B_CHAIN: IndexKind = IndexKind::BChain(2);
    /// The shortest chain with immutable trees, which is the fastest to search.
    pub const IB_CHAIN: IndexKind = IndexKind::IbChain(2);

    /// Creates an index without rows.
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
