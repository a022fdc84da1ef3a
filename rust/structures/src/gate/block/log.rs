//! A source's log, which records the source's actions in order. Every reader follows the log. Logs
//! are the only state that the sources and readers of the block gate share.
//!
//! Runs, promises, forks and the end are entries in a single list. Only the source extends this
//! list, with a [`OnceLink`]. So a reader that has followed a log up to an entry knows all of the
//! source's earlier actions. An entry is freed when the source and all readers have passed it.

use tidegate_sync::atomic::Arc;
use tidegate_sync::{Charge, OnceLink};

use crate::gate::key::{Rank, RowId};

/// A sorted column of event times, and its payload.
pub trait Run: Send + Sync {
    /// Returns the event times, which never decrease.
    fn ts(&self) -> &[i64];

    /// Returns the number of bytes that the run uses.
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
    /// The id of the first row.
    pub first: RowId,
    /// The run that was pushed, which is never empty.
    pub run: R,
    _charge: Charge,
}

impl<R> PushedRun<R> {
    pub(super) fn new(first: RowId, run: R, charge: Charge) -> Self {
        PushedRun { first, run, _charge: charge }
    }
}

/// An action of a source.
#[derive(Debug)]
pub(super) enum LogEntry<R> {
    /// The beginning of a log, before the first action.
    Begin,
    /// The source pushed a run.
    Rows(PushedRun<R>),
    /// The source promised that all subsequent rows will be at or after this time.
    Advance(i64),
    /// Another source was forked from this one, starting with promise `from`.
    Fork { rank: Rank, from: i64, log: Arc<LogRecord<R>> },
    /// The source closed.
    Close,
}

/// A log entry and the link to the next one.
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

    /// Returns the run of a record that is known to contain one.
    #[inline]
    pub(super) fn rows(&self) -> &PushedRun<R> {
        match &self.entry {
            LogEntry::Rows(pushed) => pushed,
            _ => unreachable!("the record contains a run"),
        }
    }
}

impl<R> Drop for LogRecord<R> {
    fn drop(&mut self) {
        self.next.unchain(|record| &mut record.next);
    }
}
