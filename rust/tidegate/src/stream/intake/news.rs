//! Wakes a thread that waits for a source to bring something.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Counts the actions of sources, for threads that wait for more.
#[derive(Debug, Default)]
pub struct News {
    count: Mutex<u64>,
    changed: Condvar,
}

impl News {
    fn lock(&self) -> MutexGuard<'_, u64> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells that there is something new.
    pub(crate) fn tell(&self) {
        *self.lock() += 1;
        self.changed.notify_all();
    }

    /// How much has been told so far.
    pub fn count(&self) -> u64 {
        *self.lock()
    }

    /// Waits until more than `seen` was told, at most for `patience`.
    pub fn wait(&self, seen: u64, patience: Duration) {
        let waited = self.changed.wait_timeout_while(self.lock(), patience, |count| *count == seen);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}
