//! The joins and aggregations that papers have published, which are asked for by name: no other
//! file of this crate names them.

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

/// A handshake join without rows, on a chain of `nodes` nodes, which compares by `terms`. It starts
/// a thread for each node.
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

/// ScaleJoin as published, with this number of processing threads, which it starts.
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

/// The three-step procedure, which compares on one thread.
pub(crate) fn three_step_join(
    retention: Retention,
    how: How,
    ordered: bool,
    terms: Vec<Term>,
) -> Box<SlidingJoin> {
    Box::new(baselines::three_step_join(retention, how, ordered, terms))
}

/// CellJoin, with this number of threads.
pub(crate) fn cell_join(
    retention: Retention,
    how: How,
    threads: usize,
    ordered: bool,
    terms: Vec<Term>,
) -> Box<SlidingJoin> {
    Box::new(baselines::cell_join(retention, how, threads, ordered, terms))
}

/// SplitJoin, with this number of join cores.
pub(crate) fn split_join(
    retention: Retention,
    how: How,
    threads: usize,
    ordered: bool,
    terms: Vec<Term>,
) -> Box<SlidingJoin> {
    Box::new(split_join::split_join(retention, how, threads, ordered, terms))
}

/// Scale-OIJ, with this number of joiners.
pub(crate) fn scale_oij(interval: &Interval, how: How, joiners: usize) -> Box<dyn KeyedJoin> {
    Box::new(ScaleOij::new(interval, how, joiners))
}

/// Finds the matches of the rows of this number of sides in an index a side, which rows enter
/// ahead.
pub(crate) fn index(sides: usize, kind: IndexKind) -> Box<dyn Find> {
    Box::new(Ahead::new(sides, || kind.index()))
}

/// Finds the matches of the rows of this number of sides by tasks that threads take from a queue.
pub(crate) fn index_tasks(sides: usize, options: TaskOptions) -> Box<dyn Find> {
    Box::new(TaskJoin::new(sides, options))
}

/// Finds the matches of the rows of this number of sides in partitions, one a thread.
pub(crate) fn tree_partitions(sides: usize, threads: usize) -> Box<dyn Find> {
    Box::new(TreePartitions::new(sides, threads))
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
