//! Wakes a thread that waits for a source to bring something.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Counts the actions of sources, for threads that wait for more.
#[derive(Debug, Default)]
pub struct News {
    told: Mutex<Told>,
    changed: Condvar,
}

/// The work of a thread that drives an operator: it polls for as long as there is something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Driven {
    /// Whether it fetches late rows, too.
    pub fetches_late: bool,
}

#[derive(Debug, Default)]
struct Told {
    /// How much.
    count: u64,
    /// How much had been told when the operator found nothing more to do; none before.
    settled: Option<u64>,
    /// Whether a thread drives the operator, and how.
    driven: Option<Driven>,
}

impl News {
    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells that there is something new.
    pub(crate) fn tell(&self) {
        self.lock().count += 1;
        self.changed.notify_all();
    }

    /// How much has been told so far.
    pub fn count(&self) -> u64 {
        self.lock().count
    }

    /// The operator has nothing to do, and keeps no results, after all that was told up to `seen`.
    pub(crate) fn settle(&self, seen: u64) {
        self.lock().settled = Some(seen);
    }

    /// Whether the operator has nothing to do, after all that was told.
    pub(crate) fn is_settled(&self) -> bool {
        let told = self.lock();
        told.settled == Some(told.count)
    }

    /// From now on a thread drives the operator, unless one does already; or none does any more.
    /// Returns how one did before.
    pub fn set_driven(&self, driven: Option<Driven>) -> Option<Driven> {
        let mut told = self.lock();
        let before = told.driven;
        if driven.is_none() || before.is_none() {
            told.driven = driven;
        }
        before
    }

    /// How a thread drives the operator, so that rows leave it without the feeder's doing, if one
    /// does.
    pub fn driven(&self) -> Option<Driven> {
        self.lock().driven
    }

    /// Waits until more than `seen` was told, at most for `patience`.
    pub fn wait(&self, seen: u64, patience: Duration) {
        let waited =
            self.changed.wait_timeout_while(self.lock(), patience, |told| told.count == seen);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}
