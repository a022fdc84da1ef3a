//! The joins and aggregations that papers have published, which are asked for by name: no other
//! file of this crate names them.

use tidegate_operators::papers::aggregate_designs::MultiwayDesign;
pub(crate) use tidegate_operators::papers::aggregate_designs::{
    aggregate_by, streaming_aggregate_by,
};

use super::aggregate::Design;

/// The published design of a name; none for slices, which are the way of tidegate.
pub(crate) fn multiway_design(design: Design) -> Option<MultiwayDesign> {
    match design {
        Design::Slices => None,
        Design::MultiQueue => Some(MultiwayDesign::MultiQueue),
        Design::LockFreeMultiQueue => Some(MultiwayDesign::LockFreeMultiQueue),
        Design::MergedSingleConsumer => Some(MultiwayDesign::MergedSingleConsumer),
        Design::MergedMultipleConsumer => Some(MultiwayDesign::MergedMultipleConsumer),
        Design::WindowMerged => Some(MultiwayDesign::WindowMerged),
    }
}
