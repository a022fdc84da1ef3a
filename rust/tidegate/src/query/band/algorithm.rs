//! Algorithms for finding the pairs of a band join.

use std::fmt;

use tidegate_operators::band::index::{Ahead, Find, IndexJoin};
use tidegate_operators::rows::{How, Retention};
use tidegate_structures::index::{BucketIndex, WindowIndex};

use crate::query::published::{self, IndexKind, MergeOptions, TaskIndex, TaskOptions};

/// Algorithms for finding the pairs of a band join.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BandAlgorithm {
    /// The fastest algorithm.
    Auto,
    /// Sorts whole tables.
    Sort,
    /// Rows are inserted, in order of arrival, into blocks at computed positions. This index is the
    /// fastest.
    Buckets,
    /// Rows are inserted into one index per side, in order of arrival.
    Index(IndexKind),
    /// Threads take tasks from a queue, and share one index per side.
    Tasks(TaskOptions),
    /// Uses this many threads, each with one B+-tree per side. Rows are distributed to the threads
    /// in turn.
    Partitions(usize),
}

/// A join of streaming rows, with any algorithm for finding matches.
pub(crate) type AnyIndexJoin = IndexJoin<Box<dyn Find>>;

impl BandAlgorithm {
    /// Creates a join of streaming rows that compares the given number of columns.
    pub(crate) fn join(
        self,
        retention: Option<Retention>,
        how: How,
        columns: usize,
        ordered: bool,
    ) -> AnyIndexJoin {
        let retention = retention.unwrap_or(Retention::Time { left: u64::MAX, right: u64::MAX });
        IndexJoin::of_two_streams(retention, how, columns, ordered, self.finder(2))
    }

    /// Creates the join of a stream with itself, which has a single index.
    pub(crate) fn self_join(
        self,
        retention: Retention,
        columns: usize,
        ordered: bool,
    ) -> AnyIndexJoin {
        IndexJoin::of_one_stream(retention, columns, ordered, self.finder(1))
    }

    /// Returns the join's finder, which looks up matches for rows from one or two sides.
    fn finder(self, sides: usize) -> Box<dyn Find> {
        match self {
            BandAlgorithm::Auto | BandAlgorithm::Sort | BandAlgorithm::Buckets => buckets(sides),
            BandAlgorithm::Index(kind) => published::index(sides, kind),
            BandAlgorithm::Tasks(options) => published::index_tasks(sides, options),
            BandAlgorithm::Partitions(threads) => published::tree_partitions(sides, threads),
        }
    }

    /// Returns the name of the index for streaming rows, as shown to users.
    pub(crate) fn index(self) -> &'static str {
        match self {
            BandAlgorithm::Auto | BandAlgorithm::Sort | BandAlgorithm::Buckets => "buckets",
            BandAlgorithm::Index(IndexKind::PimTree { .. }) => "PIM-Tree",
            BandAlgorithm::Index(IndexKind::ImTree { .. }) => "IM-Tree",
            BandAlgorithm::Index(IndexKind::BPlusTree) => "B+-tree",
            BandAlgorithm::Index(IndexKind::BChain(_)) => "chain of B+-trees",
            BandAlgorithm::Index(IndexKind::IbChain(_)) => "chain of immutable B+-trees",
            BandAlgorithm::Partitions(_) => "B+-tree a thread",
            BandAlgorithm::Tasks(TaskOptions { index: TaskIndex::PimTree(_), .. }) => {
                "shared PIM-Tree"
            }
            BandAlgorithm::Tasks(TaskOptions { index: TaskIndex::BPlusTree, .. }) => {
                "shared B+-tree with optimistic locks"
            }
        }
    }
}

impl BandAlgorithm {
    /// Describes the index settings for users. The description is empty if the index has no
    /// settings.
    pub(crate) fn settings(self) -> String {
        let depth = |depth: Option<usize>| match depth {
            Some(depth) => format!(", insertion depth {depth}"),
            None => String::new(),
        };
        match self {
            BandAlgorithm::Index(IndexKind::PimTree { merge_ratio, insertion_depth }) => {
                format!(", merge ratio {merge_ratio}{}", depth(insertion_depth))
            }
            BandAlgorithm::Index(IndexKind::ImTree { merge_ratio }) => {
                format!(", merge ratio {merge_ratio}")
            }
            BandAlgorithm::Index(IndexKind::BChain(length) | IndexKind::IbChain(length)) => {
                format!(", {length} in a chain")
            }
            BandAlgorithm::Tasks(TaskOptions {
                index: TaskIndex::PimTree(MergeOptions { merge_ratio, insertion_depth, .. }),
                ..
            }) => {
                format!(", merge ratio {merge_ratio}{}", depth(insertion_depth))
            }
            _ => String::new(),
        }
    }
}

/// Creates a finder with one index per side. Rows are inserted into an index, and the matches of
/// other rows are looked up in it. The index is boxed so that all indexes share one compiled copy
/// of the lookup code.
fn buckets(sides: usize) -> Box<dyn Find> {
    Box::new(Ahead::new(sides, || -> Box<dyn WindowIndex> { Box::new(BucketIndex::new()) }))
}

impl fmt::Display for BandAlgorithm {
    /// Describes how streaming rows are joined.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BandAlgorithm::Tasks(TaskOptions { rows, index }) => {
                let upkeep = match index {
                    TaskIndex::PimTree(options) if options.is_blocking => {
                        "all threads wait for a merge"
                    }
                    TaskIndex::PimTree(_) => "merged in two phases",
                    TaskIndex::BPlusTree => "threads remove the rows that have left",
                };
                write!(
                    f,
                    "index-based window join (IBWJ): threads take tasks of {rows} rows; {upkeep}"
                )
            }
            BandAlgorithm::Partitions(_) => f.write_str(
                "index-based window join, round-robin partitions: rows are distributed to threads \
                 in turn, and each thread looks up every row",
            ),
            _ => f.write_str(
                "index-based window join: some rows are added to the indexes, then each thread \
                 looks up the matches of some of these rows",
            ),
        }
    }
}
