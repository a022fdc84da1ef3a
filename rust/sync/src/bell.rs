//! A bell: threads wait until it rings, and no ring is missed.
//!
//! To wait for a condition, a thread reads the number of rings, checks the condition, and then
//! waits until the bell rings again. A thread that makes the condition true rings the bell
//! afterwards. If the bell rings before the thread reads the number, the check finds the condition
//! true. If the bell rings afterwards, the ring ends the wait.
//!
//! ```text
//! waiting   rings() ─ checks: false ───────── wait(heard) ───────┐ checks again
//! ringing             makes the condition true ────────── ring() ┘
//! ```

use std::sync::PoisonError;
#[cfg(not(loom))]
use std::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
use std::time::Duration;

#[cfg(loom)]
use loom::sync::{Condvar, Mutex, MutexGuard};

/// A bell that any thread can ring and any thread can wait for.
///
/// ```
/// use tidegate_sync::{Bell, Stop};
///
/// let (bell, over) = (Bell::default(), Stop::default());
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         over.request();
///         bell.ring();
///     });
///     loop {
///         let heard = bell.rings();
///         if over.is_requested() {
///             break;
///         }
///         bell.wait(heard);
///     }
/// });
/// ```
#[derive(Debug, Default)]
pub struct Bell {
    rings: Mutex<u64>,
    rung: Condvar,
}

impl Bell {
    fn lock(&self) -> MutexGuard<'_, u64> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many times the bell has rung.
    pub fn rings(&self) -> u64 {
        *self.lock()
    }

    /// Rings the bell. A thread that hears the ring sees all work that was done before the ring.
    pub fn ring(&self) {
        *self.lock() += 1;
        self.rung.notify_all();
    }

    /// Waits until the bell has rung more than `heard` times.
    pub fn wait(&self, heard: u64) {
        let mut rings = self.lock();
        while *rings == heard {
            rings = self.rung.wait(rings).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Like [`wait`](Self::wait), but waits for at most `patience`.
    #[cfg(not(loom))]
    pub fn wait_for(&self, heard: u64, patience: Duration) {
        let waited = self.rung.wait_timeout_while(self.lock(), patience, |rings| *rings == heard);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits without a time limit, because loom has no clock.
    #[cfg(loom)]
    pub fn wait_for(&self, heard: u64, _: std::time::Duration) {
        self.wait(heard);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_ring_that_came_before_the_wait_ends_it() {
        let bell = Bell::default();
        let heard = bell.rings();
        bell.ring();
        bell.wait(heard);
        assert_eq!(bell.rings(), heard + 1);
        // There are no more rings.
        bell.wait_for(bell.rings(), Duration::from_millis(1));
    }
}
