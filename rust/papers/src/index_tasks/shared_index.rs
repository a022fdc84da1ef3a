//! A side's index, which all threads use at the same time.

use std::sync::Arc;

use crate::trees::{OlcTree, PimPlace, SharedPimTree};
use tidegate_structures::index::{Entry, Probe};

use super::TaskIndex;
use super::merge::MergeOptions;

/// The number of inserted rows below which an index is not merged.
const LEAST_MERGED: usize = if cfg!(any(test, loom)) { 4 } else { 64 };

/// An index that tasks search and insert into.
#[derive(Clone, Debug)]
pub(super) enum SharedIndex {
    /// Rows that have left the window are skipped, and dropped when the tree is merged.
    PimTree(Arc<SharedPimTree>, MergeOptions),
    /// Rows that have left the window are removed one by one.
    BPlusTree(Arc<OlcTree>),
}

impl SharedIndex {
    /// Creates an index without rows.
    pub(super) fn new(kind: TaskIndex) -> Self {
        match kind {
            TaskIndex::PimTree(options) => SharedIndex::PimTree(Arc::default(), options),
            TaskIndex::BPlusTree => SharedIndex::BPlusTree(Arc::default()),
        }
    }

    pub(super) fn insert_all(&self, rows: &[Entry]) {
        match self {
            SharedIndex::PimTree(tree, _) => tree.insert_all(rows),
            SharedIndex::BPlusTree(tree) => {
                rows.iter().for_each(|row| tree.insert(row.key, row.row));
            }
        }
    }

    /// Finds the positions of the probes' lowest keys, if the tree supports positions. All keys are
    /// processed together so that the memory accesses of the searches overlap.
    pub(super) fn locate(&self, lows: &[i64], places: &mut [PimPlace]) {
        if let SharedIndex::PimTree(tree, _) = self {
            tree.locate(lows, places);
        }
    }

    /// Finds the rows that match a probe, given the position that [`locate`](Self::locate) returned
    /// for it.
    #[inline]
    pub(super) fn find_at(&self, place: PimPlace, probe: &Probe, found: &mut Vec<u32>) {
        match self {
            SharedIndex::PimTree(tree, _) => tree.find_at(place, probe, found),
            SharedIndex::BPlusTree(tree) => tree.find(probe, found),
        }
    }

    /// Returns the tree and its merge options if the tree needs to be merged now.
    pub(super) fn full(&self) -> Option<(&Arc<SharedPimTree>, MergeOptions)> {
        let SharedIndex::PimTree(tree, options) = self else { return None };
        let (mutable, immutable) = (tree.mutable_rows(), tree.immutable_rows());
        let is_full =
            mutable >= LEAST_MERGED && mutable as f64 >= options.merge_ratio * immutable as f64;
        is_full.then_some((tree, *options))
    }

    /// Returns the number of bytes in use.
    pub(super) fn memory(&self) -> usize {
        match self {
            SharedIndex::PimTree(tree, _) => tree.memory(),
            SharedIndex::BPlusTree(tree) => tree.memory(),
        }
    }
}
