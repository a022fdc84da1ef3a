//! How the pairs of a band join are found.

use std::fmt;

use tidegate_operators::band::index::{Ahead, Find, IndexJoin, IndexKind};
use tidegate_operators::rows::{How, Retention};

use crate::query::published::{self, TaskOptions};

/// How the pairs of a band join are found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BandAlgorithm {
    /// As is fastest.
    Auto,
    /// Whole tables are sorted.
    Sort,
    /// Rows enter an index a side as they come.
    Index(IndexKind),
    /// Threads take tasks from a queue and share PIM-Trees.
    Tasks(TaskOptions),
}

/// A join of rows as they come, whatever finds their matches.
pub(crate) type AnyIndexJoin = IndexJoin<Box<dyn Find>>;

impl BandAlgorithm {
    /// A join of rows as they come, which compares this number of columns.
    pub(crate) fn join(
        self,
        retention: Option<Retention>,
        how: How,
        columns: usize,
        ordered: bool,
    ) -> AnyIndexJoin {
        let retention = retention.unwrap_or(Retention::Time { left: u64::MAX, right: u64::MAX });
        let finder = match self {
            BandAlgorithm::Auto | BandAlgorithm::Sort => ahead(IndexKind::Buckets),
            BandAlgorithm::Index(kind) => ahead(kind),
            BandAlgorithm::Tasks(options) => published::index_tasks(options),
        };
        IndexJoin::of_two_streams(retention, how, columns, ordered, finder)
    }

    /// The index of rows that come, for people.
    pub(crate) fn index(self) -> &'static str {
        match self {
            BandAlgorithm::Auto
            | BandAlgorithm::Sort
            | BandAlgorithm::Index(IndexKind::Buckets) => "buckets",
            BandAlgorithm::Index(IndexKind::PimTree { .. }) => "PIM-Tree",
            BandAlgorithm::Index(IndexKind::ImTree { .. }) => "IM-Tree",
            BandAlgorithm::Index(IndexKind::BPlusTree) => "B+-tree",
            BandAlgorithm::Index(IndexKind::BChain(_)) => "chain of B+-trees",
            BandAlgorithm::Index(IndexKind::IbChain(_)) => "chain of immutable B+-trees",
            BandAlgorithm::Index(IndexKind::RoundRobin(_)) => "B+-trees in turns",
            BandAlgorithm::Tasks(_) => "PIM-Tree that threads share",
        }
    }
}

impl BandAlgorithm {
    /// How the index is set, for people; empty for one that has no settings.
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
            BandAlgorithm::Tasks(TaskOptions { merge_ratio, insertion_depth, .. }) => {
                format!(", merge ratio {merge_ratio}{}", depth(insertion_depth))
            }
            _ => String::new(),
        }
    }
}

/// Rows enter an index a side, and look for others in it.
fn ahead(kind: IndexKind) -> Box<dyn Find> {
    Box::new(Ahead::new(2, || kind.index()))
}

impl fmt::Display for BandAlgorithm {
    /// How rows are joined as they come.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BandAlgorithm::Tasks(TaskOptions { is_blocking, rows, .. }) => {
                let merge = if *is_blocking { "all threads wait for a merge" } else { "merged in two phases" };
                write!(f, "index-based window join (IBWJ): threads take tasks of {rows} rows; {merge}")
            }
            _ => f.write_str(
                "index-based window join: some rows enter the indexes, then threads look for the matches of a piece each",
            ),
        }
    }
}
