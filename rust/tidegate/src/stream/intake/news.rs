//! Wakes a thread that waits for a source to bring something.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

/// Counts the actions of sources, for threads that wait for more.
#[derive(Debug, Default)]
pub struct News {
    told: Mutex<NewsState>,
    changed: Condvar,
}

/// The work of a thread that drives an operator: it polls for as long as there is something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverWork {
    /// Whether it fetches late rows, too.
    pub fetches_late: bool,
}

/// How many notifications sources have sent, and which thread drives the operator.
#[derive(Debug, Default)]
struct NewsState {
    /// The number of notifications.
    count: u64,
    /// The number of notifications when the operator last ran out of work, or `None` if it never
    /// has.
    settled: Option<u64>,
    /// Whether a thread drives the operator, and how.
    driven: Option<DriverWork>,
    /// The thread that drives the operator, once it has started.
    driver: Option<ThreadId>,
    /// Whether the driving thread ended with an error and the operator has not been polled since.
    is_left: bool,
}

impl News {
    fn lock(&self) -> MutexGuard<'_, NewsState> {
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
    pub fn set_driven(&self, driven: Option<DriverWork>) -> Option<DriverWork> {
        let mut told = self.lock();
        let before = told.driven;
        if driven.is_none() || before.is_none() {
            told.driven = driven;
            told.driver = None;
            told.is_left &= driven.is_none();
        }
        before
    }

    /// This thread is the one that drives the operator, if one does.
    pub fn drive_here(&self) {
        let mut told = self.lock();
        if told.driven.is_some() && told.driver.is_none() {
            told.driver = Some(thread::current().id());
        }
    }

    /// Whether this thread drives the operator, so that nobody polls while it waits.
    pub fn is_driven_here(&self) -> bool {
        self.lock().driver == Some(thread::current().id())
    }

    /// The thread that drove the operator has ended with an error. Until somebody polls, nobody
    /// makes room.
    pub fn leave(&self) {
        self.lock().is_left = true;
    }

    /// Somebody polls.
    pub fn go_on(&self) {
        self.lock().is_left = false;
    }

    /// Whether the thread that drove the operator has ended with an error, and nobody has polled
    /// since.
    pub(crate) fn is_left(&self) -> bool {
        self.lock().is_left
    }

    /// How a thread drives the operator, so that rows leave it without the feeder's doing, if one
    /// does.
    pub fn driven(&self) -> Option<DriverWork> {
        self.lock().driven
    }

    /// Waits until more than `seen` was told, at most for `patience`.
    pub fn wait(&self, seen: u64, patience: Duration) {
        let waited =
            self.changed.wait_timeout_while(self.lock(), patience, |told| told.count == seen);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}
