//! The rows of all sources in the order of their pushes, for operators that wait for no merged order.

use std::sync::Arc;

use parking_lot::Mutex;

use super::rows::SourceRun;

/// Rows that were pushed, and the promises of all sources. Clones belong to one operator.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals(Arc<Mutex<Delivery>>);

/// Rows that were pushed, and the promises that followed them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delivery {
    /// Pushes, each with its source.
    pub(crate) runs: Vec<(u16, SourceRun)>,
    /// The least time that a row still to come of each source may have; `None` if none comes.
    pub(crate) promises: Vec<Option<i64>>,
}

impl Arrivals {
    /// Without rows and promises of any of the sources.
    pub(crate) fn new(sources: usize) -> Self {
        let promises = vec![Some(i64::MIN); sources];
        Arrivals(Arc::new(Mutex::new(Delivery { runs: Vec::new(), promises })))
    }

    /// One more source, of which no row is before `since`.
    pub(crate) fn add_source(&self, since: i64) {
        self.0.lock().promises.push(Some(since));
    }

    /// Adds rows of a source.
    pub(crate) fn push(&self, source: u16, run: SourceRun) {
        self.0.lock().runs.push((source, run));
    }

    /// A source promises something; `None` that no row comes.
    pub(crate) fn promise(&self, source: u16, next: Option<i64>) {
        self.0.lock().promises[usize::from(source)] = next;
    }

    /// The rows that nobody has taken, and the promises of this moment: rows that are pushed later
    /// are not below them.
    pub(crate) fn take(&self) -> Delivery {
        let mut arrived = self.0.lock();
        let runs = std::mem::take(&mut arrived.runs);
        Delivery { runs, promises: arrived.promises.clone() }
    }

    /// How many rows nobody has taken.
    pub(crate) fn rows(&self) -> usize {
        self.0.lock().runs.iter().map(|(_, run)| run.ts.len()).sum()
    }

    /// The rows of a source that nobody has taken.
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
