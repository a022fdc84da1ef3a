//! Wakes threads that are waiting for a source to act.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

/// Counts the actions of sources so that threads can wait for the next one.
#[derive(Debug, Default)]
pub struct News {
    told: Mutex<NewsState>,
    changed: Condvar,
}

/// Specifies how a thread drives an operator by polling it while there is work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverWork {
    /// True if the thread also fetches late rows.
    pub fetches_late: bool,
}

/// The number of notifications from sources, and the thread that drives the operator.
#[derive(Debug, Default)]
struct NewsState {
    /// The number of notifications.
    count: u64,
    /// The number of notifications when the operator last ran out of work, or `None` if it has
    /// never run out of work.
    settled: Option<u64>,
    /// The way in which a thread drives the operator, or `None` if no thread drives it.
    driven: Option<DriverWork>,
    /// The thread that drives the operator, if it has started.
    driver: Option<ThreadId>,
    /// True if the driving thread has ended with an error and the operator has not been polled
    /// since then.
    is_left: bool,
}

impl News {
    fn lock(&self) -> MutexGuard<'_, NewsState> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notifies waiting threads of a new action.
    pub(crate) fn tell(&self) {
        self.lock().count += 1;
        self.changed.notify_all();
    }

    /// Returns the number of notifications so far.
    pub fn count(&self) -> u64 {
        self.lock().count
    }

    /// Records that the operator has processed the first `seen` notifications, and has neither work
    /// nor results left.
    pub(crate) fn settle(&self, seen: u64) {
        self.lock().settled = Some(seen);
    }

    /// Returns whether the operator has processed all notifications and has no work left.
    pub(crate) fn is_settled(&self) -> bool {
        let told = self.lock();
        told.settled == Some(told.count)
    }

    /// Registers a driving thread if there is none yet, or unregisters it if `driven` is `None`.
    /// Returns how a thread drove the operator until now.
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

    /// Records that the current thread drives the operator, if a driving thread is registered.
    pub fn drive_here(&self) {
        let mut told = self.lock();
        if told.driven.is_some() && told.driver.is_none() {
            told.driver = Some(thread::current().id());
        }
    }

    /// Returns whether the current thread drives the operator. While the driving thread waits, the
    /// operator is not polled.
    pub fn is_driven_here(&self) -> bool {
        self.lock().driver == Some(thread::current().id())
    }

    /// Records that the driving thread ended with an error. No memory is released until the
    /// operator is polled again.
    pub fn leave(&self) {
        self.lock().is_left = true;
    }

    /// Records that the operator is being polled.
    pub fn go_on(&self) {
        self.lock().is_left = false;
    }

    /// Returns whether the driving thread has ended with an error and the operator has not been
    /// polled since then.
    pub(crate) fn is_left(&self) -> bool {
        self.lock().is_left
    }

    /// Returns how a thread drives the operator, or `None` if no thread drives it. A driving thread
    /// removes rows without any help from the thread that pushes them.
    pub fn driven(&self) -> Option<DriverWork> {
        self.lock().driven
    }

    /// Waits until there have been more than `seen` notifications, or until `patience` has elapsed.
    pub fn wait(&self, seen: u64, patience: Duration) {
        let waited =
            self.changed.wait_timeout_while(self.lock(), patience, |told| told.count == seen);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}
