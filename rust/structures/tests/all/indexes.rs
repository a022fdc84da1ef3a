//! The indexes of this crate.

use tidegate_structures::index::{BPlusTree, BucketIndex, WindowIndex};

/// Returns every index.
pub(crate) fn indexes() -> Vec<(String, Box<dyn WindowIndex>)> {
    vec![
        ("B+-tree".into(), Box::new(BPlusTree::new())),
        ("buckets".into(), Box::new(BucketIndex::new())),
    ]
}
