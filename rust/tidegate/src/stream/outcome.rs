//! The outcomes of polls and steps, and statistics about an operator.

use std::sync::Arc;

use arrow_array::RecordBatch;

use crate::stream::intake::source::SourceStats;

/// The outcome of a poll.
#[derive(Debug)]
pub enum Poll {
    /// A batch of final rows.
    Batch(RecordBatch),
    /// All final rows have already been returned, and more may follow.
    NotYet,
    /// All sources are closed, and all rows have been returned.
    End,
}

/// The outcome of a step. Whatever the outcome, the step may have produced results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The step made progress, and there may be more work.
    Went,
    /// There is no work until a source delivers rows or makes a promise.
    NotYet,
    /// No work is left.
    End,
}

impl Step {
    /// Returns the outcome of a poll after this step, if there is no batch to return.
    pub(super) fn found(self) -> Option<Poll> {
        match self {
            Step::Went => None,
            Step::NotYet => Some(Poll::NotYet),
            Step::End => Some(Poll::End),
        }
    }
}

/// The statistics of an operator.
#[derive(Clone, Debug)]
pub struct Stats {
    /// The sources, sorted by number, with left sources first.
    pub sources: Vec<SourceStats>,
    /// The number of result rows returned so far.
    pub rows_out: u64,
    /// The time before which all rows have been processed. `None` before all sources have made a
    /// promise, and at the end.
    pub watermark: Option<i64>,
    /// The median, 99th-percentile and maximum latency, in seconds. A row's latency is the time
    /// from its push until the row has been processed and all results that it makes final have been
    /// produced. `None` before the first row.
    pub latency: Option<(f64, f64, f64)>,
    /// The number of bytes that count toward the memory limit.
    pub memory: usize,
    /// The memory limit in bytes; `None` for no limit.
    pub memory_limit: Option<usize>,
    /// The source for which rows are waiting; `None` if no rows are waiting.
    pub waiting: Option<WaitingRows>,
    /// Further statistics, by name.
    pub figures: Vec<(&'static str, Figure)>,
}

/// Rows that are waiting for a source that may still deliver earlier rows.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitingRows {
    /// The source with the lowest watermark.
    pub source: Arc<str>,
    /// The number of seconds since the source last delivered rows or made a promise.
    pub seconds: f64,
    /// The number of waiting rows.
    pub rows: u64,
}

impl WaitingRows {
    /// Returns the source for which rows are waiting, or `None` if no rows are waiting. `sources`
    /// is sorted by rank, and `begun` is the number of rows that are no longer waiting.
    pub(super) fn of(sources: &[SourceStats], begun: u64) -> Option<Self> {
        let used = sources.iter().map(|source| source.rows_in - source.rows_late).sum::<u64>();
        let rows = used.checked_sub(begun).filter(|&rows| rows > 0)?;
        let open =
            |idle: bool| sources.iter().filter(move |source| !source.closed && source.idle == idle);
        let least = open(false).min_by_key(|source| source.watermark);
        let least = least.or_else(|| open(true).max_by_key(|source| source.watermark))?;
        Some(WaitingRows { source: least.name.clone(), seconds: least.silent, rows })
    }

    /// Returns the line that an explanation shows.
    pub(super) fn line(&self) -> String {
        let WaitingRows { source, seconds, rows } = self;
        format!(
            "\n  waiting    {rows} rows, for {source}, which has been silent for {seconds:.1} s"
        )
    }
}

/// The value of a statistic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Figure {
    /// A count.
    Number(u64),
    /// Several counts.
    Numbers(Vec<u64>),
    /// A name.
    Text(String),
}
