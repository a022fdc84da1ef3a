//! The joins and aggregations that papers have published, which are asked for by name: no other
//! file of this crate names them.

use tidegate_operators::band::index::Find;
use tidegate_operators::papers::aggregate_designs::MultiwayDesign;
pub(crate) use tidegate_operators::papers::aggregate_designs::{
    aggregate_by, streaming_aggregate_by,
};
pub(crate) use tidegate_operators::papers::handshake::HandshakeAlgorithm;
use tidegate_operators::papers::handshake::SlidingHandshake;
use tidegate_operators::papers::index_tasks::TaskJoin;
pub use tidegate_operators::papers::index_tasks::TaskOptions;
use tidegate_operators::predicate::Term;
use tidegate_operators::rows::{How, Retention};
use tidegate_operators::window::SlidingJoin;

use super::aggregate::Design;

/// A handshake join without rows, on a chain of `nodes` nodes, which compares by `terms`.
pub(crate) fn handshake(
    algorithm: HandshakeAlgorithm,
    retention: Retention,
    how: How,
    nodes: usize,
    terms: Vec<Term>,
) -> Box<SlidingJoin> {
    match terms.iter().all(Term::is_narrow) {
        true => Box::new(SlidingHandshake::<u32>::new(retention, how, algorithm, nodes, terms)),
        false => Box::new(SlidingHandshake::<u64>::new(retention, how, algorithm, nodes, terms)),
    }
}

/// Finds the matches of two sides' rows by tasks that threads take from a queue.
pub(crate) fn index_tasks(options: TaskOptions) -> Box<dyn Find> {
    Box::new(TaskJoin::new(2, options))
}

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
