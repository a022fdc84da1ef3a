//! The rows from all sources in push order, for operators that do not need merged order.

use std::sync::Arc;

use parking_lot::Mutex;

use super::rows::SourceRun;

/// The rows that all sources have pushed, and the promises that the sources have made. All clones
/// belong to the same operator.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals(Arc<Mutex<Delivery>>);

/// Rows that have been pushed, and the promises that followed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delivery {
    /// The pushed rows, each paired with its source.
    pub(crate) runs: Vec<(u16, SourceRun)>,
    /// For each source, the earliest time at which it can still deliver a row, or `None` if it will
    /// deliver no more rows.
    pub(crate) promises: Vec<Option<i64>>,
}

impl Arrivals {
    /// Creates the arrivals for these sources, without any rows or promises.
    pub(crate) fn new(sources: usize) -> Self {
        let promises = vec![Some(i64::MIN); sources];
        Arrivals(Arc::new(Mutex::new(Delivery { runs: Vec::new(), promises })))
    }

    /// Adds a source whose rows are at or after `since`.
    pub(crate) fn add_source(&self, since: i64) {
        self.0.lock().promises.push(Some(since));
    }

    /// Adds rows of a source.
    pub(crate) fn push(&self, source: u16, run: SourceRun) {
        self.0.lock().runs.push((source, run));
    }

    /// Records a source's promise; `None` means that the source will deliver no more rows.
    pub(crate) fn promise(&self, source: u16, next: Option<i64>) {
        self.0.lock().promises[usize::from(source)] = next;
    }

    /// Takes the rows that have not been taken yet, together with the current promises. Rows pushed
    /// later keep these promises.
    pub(crate) fn take(&self) -> Delivery {
        let mut arrived = self.0.lock();
        let runs = std::mem::take(&mut arrived.runs);
        Delivery { runs, promises: arrived.promises.clone() }
    }

    /// Returns the number of rows that have not been taken yet.
    pub(crate) fn rows(&self) -> usize {
        self.0.lock().runs.iter().map(|(_, run)| run.ts.len()).sum()
    }

    /// Returns the rows from a source that have not been taken yet.
    pub(crate) fn of(&self, source: u16) -> Vec<SourceRun> {
        let arrived = self.0.lock();
        let own = arrived.runs.iter().filter(|(other, _)| *other == source);
        own.map(|(_, run)| run.clone()).collect()
    }

    /// Drops the rows.
    pub(crate) fn clear(&self) {
        self.0.lock().runs.clear();
    }
}
