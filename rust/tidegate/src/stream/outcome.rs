//! What a poll or a step came to, and the numbers that describe an operator.

use std::sync::Arc;

use arrow_array::RecordBatch;

use crate::stream::intake::source::SourceStats;

/// The outcome of a poll.
#[derive(Debug)]
pub enum Poll {
    /// Rows that are final.
    Batch(RecordBatch),
    /// Nothing is final that was not handed out; there may be more later.
    NotYet,
    /// All sources have closed and everything was handed out.
    End,
}

/// How far a step went. Any of these may have made results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It did something; there may be more to do.
    Went,
    /// There is nothing to do until a source brings something.
    NotYet,
    /// There is nothing left to do.
    End,
}

impl Step {
    /// The outcome of a poll after it, if it made no batch.
    pub(super) fn found(self) -> Option<Poll> {
        match self {
            Step::Went => None,
            Step::NotYet => Some(Poll::NotYet),
            Step::End => Some(Poll::End),
        }
    }
}

/// Numbers that describe an operator so far.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Its sources, by number; left ones first.
    pub sources: Vec<SourceStats>,
    /// Result rows handed out.
    pub rows_out: u64,
    /// No row that was not worked on yet is below it; none before all sources have made a promise,
    /// and at the end.
    pub watermark: Option<i64>,
    /// Seconds from the push of a row until it was worked on, and the results were made that were
    /// final then: median, 99th percentile and maximum; none before the first row.
    pub latency: Option<(f64, f64, f64)>,
    /// Bytes that count towards the memory limit.
    pub memory: usize,
    /// Bytes that may be held; no limit if there is none.
    pub memory_limit: Option<usize>,
    /// The source that all rows wait for which are not at work yet; none where no row waits.
    pub waiting: Option<WaitingRows>,
    /// Further figures, with names.
    pub figures: Vec<(&'static str, Figure)>,
}

/// Rows that wait for a source, since it may bring earlier ones.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitingRows {
    /// The source with the lowest watermark.
    pub source: Arc<str>,
    /// Seconds since it has brought rows or a promise.
    pub seconds: f64,
    /// How many rows wait.
    pub rows: u64,
}

impl WaitingRows {
    /// Returns the source that rows are waiting for, or `None` if no rows are waiting. `sources`
    /// are sorted by rank, and `begun` rows are no longer waiting.
    pub(super) fn of(sources: &[SourceStats], begun: u64) -> Option<Self> {
        let used = sources.iter().map(|source| source.rows_in - source.rows_late).sum::<u64>();
        let rows = used.checked_sub(begun).filter(|&rows| rows > 0)?;
        let open =
            |idle: bool| sources.iter().filter(move |source| !source.closed && source.idle == idle);
        let least = open(false).min_by_key(|source| source.watermark);
        let least = least.or_else(|| open(true).max_by_key(|source| source.watermark))?;
        Some(WaitingRows { source: least.name.clone(), seconds: least.silent, rows })
    }

    /// The line of an explanation.
    pub(super) fn line(&self) -> String {
        let WaitingRows { source, seconds, rows } = self;
        format!(
            "\n  waiting    {rows} rows, for {source}, which has been silent for {seconds:.1} s"
        )
    }
}

/// Something to say of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Figure {
    /// How many there are.
    Number(u64),
    /// How many there are of each.
    Numbers(Vec<u64>),
    /// A name.
    Text(String),
}
