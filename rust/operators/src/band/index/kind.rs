//! The indexes by name.

use tidegate_structures::index::{BPlusTree, BucketIndex, WindowIndex};
use tidegate_structures::papers::trees::{Archive, ChainedIndex, ImTree, PimTree, RoundRobin};

/// The merge ratio of an IM-Tree and of a PIM-Tree, as measured.
const IM_MERGE_RATIO: f64 = 1.0 / 8.0;
const PIM_MERGE_RATIO: f64 = 1.0 / 4.0;

/// Indexes of a chain: the fewest there can be find the fastest.
const CHAIN: usize = 2;

/// An index of the rows of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// Blocks whose places are computed: the fastest.
    Buckets,
    /// PIM-Tree.
    PimTree,
    /// IM-Tree.
    ImTree,
    /// B+-tree.
    BPlusTree,
    /// A chain of B+-trees.
    BChain,
    /// A chain of immutable trees behind a B+-tree.
    IbChain,
    /// This number of B+-trees, to which rows are dealt out in turns.
    RoundRobin(usize),
}

impl IndexKind {
    /// An index without rows.
    pub fn index(self) -> Box<dyn WindowIndex> {
        match self {
            IndexKind::Buckets => Box::new(BucketIndex::new()),
            IndexKind::PimTree => Box::new(PimTree::new(PIM_MERGE_RATIO, None)),
            IndexKind::ImTree => Box::new(ImTree::new(IM_MERGE_RATIO)),
            IndexKind::BPlusTree => Box::new(BPlusTree::new()),
            IndexKind::BChain => Box::new(ChainedIndex::new(Archive::BPlus, CHAIN)),
            IndexKind::IbChain => Box::new(ChainedIndex::new(Archive::Immutable, CHAIN)),
            IndexKind::RoundRobin(trees) => Box::new(RoundRobin::new(trees)),
        }
    }
}
