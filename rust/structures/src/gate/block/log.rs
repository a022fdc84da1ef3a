//! The log of a source: its actions in order, for every reader to follow. It is the only state that
//! sources and readers of the block gate share.
//!
//! Runs, promises, forks and the end are entries of one list that only its source extends, by a
//! [`OnceLink`]. So a reader that has followed a log up to an entry knows everything that the
//! source did before, and nothing can overtake anything. An entry is freed when the source and all
//! readers have gone past it.

use tidegate_sync::atomic::Arc;
use tidegate_sync::{Charge, OnceLink};

use crate::gate::key::{Rank, RowId};

/// A sorted column of event times, and its payload.
pub trait Run: Send + Sync {
    /// Event times, none smaller than the one before it.
    fn ts(&self) -> &[i64];

    /// Bytes that the run holds.
    fn bytes(&self) -> usize {
        size_of_val(self.ts())
    }
}

impl Run for Vec<i64> {
    fn ts(&self) -> &[i64] {
        self
    }
}

impl Run for std::sync::Arc<[i64]> {
    fn ts(&self) -> &[i64] {
        self
    }
}

/// A run in the gate.
#[derive(Debug)]
pub struct PushedRun<R> {
    /// The id of its first row.
    pub first: RowId,
    /// The run that was pushed; never empty.
    pub run: R,
    _charge: Charge,
}

impl<R> PushedRun<R> {
    pub(super) fn new(first: RowId, run: R, charge: Charge) -> Self {
        PushedRun { first, run, _charge: charge }
    }
}

/// One thing that a source did.
#[derive(Debug)]
pub(super) enum LogEntry<R> {
    /// Nothing yet: where a log begins.
    Begin,
    /// It pushed a run.
    Rows(PushedRun<R>),
    /// It promised that no later row is below this.
    Advance(i64),
    /// Another source was forked from this one, starting with the promise `from`.
    Fork { rank: Rank, from: i64, log: Arc<LogRecord<R>> },
    /// It closed.
    Close,
}

/// An entry and the link to the next one.
#[derive(Debug)]
pub(super) struct LogRecord<R> {
    pub(super) entry: LogEntry<R>,
    /// Written by the source.
    pub(super) next: OnceLink<LogRecord<R>>,
}

impl<R> LogRecord<R> {
    pub(super) fn new(entry: LogEntry<R>) -> Arc<Self> {
        Arc::new(LogRecord { entry, next: OnceLink::default() })
    }

    /// The run of a record that is known to hold one.
    #[inline]
    pub(super) fn rows(&self) -> &PushedRun<R> {
        match &self.entry {
            LogEntry::Rows(pushed) => pushed,
            _ => unreachable!("only records of runs are kept for their rows"),
        }
    }
}

impl<R> Drop for LogRecord<R> {
    fn drop(&mut self) {
        self.next.unchain(|record| &mut record.next);
    }
}
