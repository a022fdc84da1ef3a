//! The joins and aggregations from published papers, which can be selected by name. No other file
//! in this crate refers to these joins and aggregations.

use tidegate_operators::band::index::{Ahead, Find};
use tidegate_operators::interval::streaming::KeyedJoin;
use tidegate_operators::predicate::Term;
use tidegate_operators::rows::{How, Interval, Retention};
use tidegate_operators::window::SlidingJoin;
use tidegate_papers::aggregate_designs::MultiwayDesign;
pub(crate) use tidegate_papers::aggregate_designs::{aggregate_by, streaming_aggregate_by};
use tidegate_papers::baselines;
pub(crate) use tidegate_papers::handshake::HandshakeAlgorithm;
use tidegate_papers::handshake::{Rank, SlidingHandshake};
pub use tidegate_papers::index_kind::IndexKind;
use tidegate_papers::index_tasks::TaskJoin;
pub use tidegate_papers::index_tasks::{MergeOptions, TaskIndex, TaskOptions};
use tidegate_papers::scale_gates::GatedScaleJoin;
pub(crate) use tidegate_papers::scale_oij::NODE_BYTES;
use tidegate_papers::scale_oij::ScaleOij;
use tidegate_papers::split_join;
use tidegate_papers::tree_partitions::TreePartitions;

use super::aggregate::Design;
use crate::Result;
use crate::background::starting_threads;

/// Creates a handshake join without rows, on a chain of `nodes` nodes that compare rows by `terms`.
/// The join starts one thread per node.
pub(crate) fn handshake(
    algorithm: HandshakeAlgorithm,
    retention: Retention,
    how: How,
    nodes: usize,
    terms: Vec<Term>,
    pin: bool,
) -> Result<Box<SlidingJoin>> {
    fn chain<T: Rank>(
        join: std::io::Result<SlidingHandshake<T>>,
    ) -> std::io::Result<Box<SlidingJoin>> {
        Ok(Box::new(join?))
    }
    starting_threads(|| match terms.iter().all(Term::is_narrow) {
        true => chain(SlidingHandshake::<u32>::new(retention, how, algorithm, nodes, terms, pin)),
        false => chain(SlidingHandshake::<u64>::new(retention, how, algorithm, nodes, terms, pin)),
    })
}

/// Creates ScaleJoin as published, with this number of processing threads.
pub(crate) fn scale_gates(
    retention: Retention,
    how: How,
    threads: usize,
    ordered: bool,
    terms: Vec<Term>,
    pin: bool,
) -> Result<Box<SlidingJoin>> {
    let join =
        starting_threads(|| GatedScaleJoin::new(retention, how, threads, ordered, terms, pin))?;
    Ok(Box::new(join))
}

/// Creates the three-step procedure, which compares rows on a single thread.
pub(crate) fn three_step_join(
    retention: Retention,
    how: How,
    ordered: bool,
    terms: Vec<Term>,
) -> Box<SlidingJoin> {
    Box::new(baselines::three_step_join(retention, how, ordered, terms))
}

/// Creates CellJoin with this number of threads.
pub(crate) fn cell_join(
    retention: Retention,
    how: How,
    threads: usize,
    ordered: bool,
    terms: Vec<Term>,
) -> Box<SlidingJoin> {
    Box::new(baselines::cell_join(retention, how, threads, ordered, terms))
}

/// Creates SplitJoin with this number of join cores.
pub(crate) fn split_join(
    retention: Retention,
    how: How,
    threads: usize,
    ordered: bool,
    terms: Vec<Term>,
) -> Box<SlidingJoin> {
    Box::new(split_join::split_join(retention, how, threads, ordered, terms))
}

/// Creates Scale-OIJ with this number of joiners.
pub(crate) fn scale_oij(interval: &Interval, how: How, joiners: usize) -> Box<dyn KeyedJoin> {
    Box::new(ScaleOij::new(interval, how, joiners))
}

/// Creates a finder for one or two sides. The finder has one index per side, into which rows are
/// inserted before matches are looked up.
pub(crate) fn index(sides: usize, kind: IndexKind) -> Box<dyn Find> {
    Box::new(Ahead::new(sides, || kind.index()))
}

/// Creates a finder for one or two sides, in which threads take tasks from a queue.
pub(crate) fn index_tasks(sides: usize, options: TaskOptions) -> Box<dyn Find> {
    Box::new(TaskJoin::new(sides, options))
}

/// Creates a finder for one or two sides, with one partition per thread.
pub(crate) fn tree_partitions(sides: usize, threads: usize) -> Box<dyn Find> {
    Box::new(TreePartitions::new(sides, threads))
}

/// Returns the published counterpart of a design, or `None` for slices, which are specific to
/// tidegate.
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
