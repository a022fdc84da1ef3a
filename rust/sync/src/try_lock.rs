//! A value that one thread at a time may work on. No thread waits for it.

use crate::atomic::{AtomicBool, Ordering, RaceCell};

/// Work that any thread may do, unless another thread is at it.
#[derive(Debug)]
pub struct TryLock<T> {
    /// Whether a thread has the value. Written by the thread that takes it or gives it back.
    taken: AtomicBool,
    value: RaceCell<T>,
}

// SAFETY: the flag lets one thread at a time reach the value, so sharing the lock moves the value
// between threads and never shares it.
unsafe impl<T: Send> Sync for TryLock<T> {}

impl<T> TryLock<T> {
    /// Holds `value`.
    pub fn new(value: T) -> Self {
        TryLock { taken: AtomicBool::new(false), value: RaceCell::new(value) }
    }

    /// Calls `work` with the value, or gives `None` at once if somebody else has it.
    pub fn try_with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        struct GiveBack<'a>(&'a AtomicBool);
        impl Drop for GiveBack<'_> {
            fn drop(&mut self) {
                // Release: what was done to the value is seen by the Acquire of the next
                // `try_with`.
                self.0.store(false, Ordering::Release);
            }
        }
        // Acquire: pairs with the Release of `GiveBack`. Relaxed on failure: nothing is looked at.
        if self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return None;
        }
        let _give_back = GiveBack(&self.taken);
        // SAFETY: `taken` was false and is now true, so until `_give_back` is dropped every other
        // thread returns above.
        Some(self.value.with_mut(|value| work(unsafe { &mut *value })))
    }

    /// The value, for the owner of the lock.
    pub fn get_mut(&mut self) -> &mut T {
        // SAFETY: `self` is borrowed exclusively.
        self.value.with_mut(|value| unsafe { &mut *value })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn it_is_taken_by_one_at_a_time_and_given_back_on_panic() {
        let lock = TryLock::new(1);
        let inner = lock.try_with(|value| {
            *value += 1;
            lock.try_with(|_| ())
        });
        assert_eq!(inner, Some(None));
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            lock.try_with(|_| panic!("work failed"))
        }));
        assert!(caught.is_err());
        assert_eq!(lock.try_with(|value| *value), Some(2));
    }
}
