//! The indexes of a paper.

use tidegate_papers::trees::{Archive, ChainedIndex, ImTree, OlcTree, PimTree, RoundRobin};
use tidegate_structures::index::WindowIndex;

/// Returns every type of index, with parameters that make its rare operations happen often, rarely
/// or never.
pub(crate) fn indexes() -> Vec<(String, Box<dyn WindowIndex>)> {
    let mut indexes: Vec<(String, Box<dyn WindowIndex>)> =
        vec![("OLC tree".into(), Box::new(OlcTree::new()))];
    for length in [2, 3, 9] {
        for archive in [Archive::BPlus, Archive::Immutable] {
            indexes.push((
                format!("{archive:?} chain of {length}"),
                Box::new(ChainedIndex::new(archive, length)),
            ));
        }
    }
    for trees in [1, 2, 7] {
        indexes.push((format!("{trees} in turns"), Box::new(RoundRobin::new(trees))));
    }
    for ratio in [1e-9, 0.1, 0.5, 1.0] {
        indexes.push((format!("IM-Tree at {ratio}"), Box::new(ImTree::new(ratio))));
        for depth in [None, Some(0), Some(1), Some(2), Some(9)] {
            indexes.push((
                format!("PIM-Tree at {ratio} and {depth:?}"),
                Box::new(PimTree::new(ratio, depth)),
            ));
        }
    }
    indexes
}
