//! A value that only one thread at a time can use. No thread ever waits for the value.

use crate::atomic::{AtomicBool, Ordering, RaceCell};

/// A lock for work that any thread can do, unless another thread is already doing it.
#[derive(Debug)]
pub struct TryLock<T> {
    /// `true` while a thread holds the lock. Written by the thread that acquires or releases the
    /// lock.
    taken: AtomicBool,
    value: RaceCell<T>,
}

// SAFETY: the flag lets only one thread at a time access the value, so sharing the lock moves the
// value between threads and never shares it.
unsafe impl<T: Send> Sync for TryLock<T> {}

impl<T> TryLock<T> {
    /// Creates a lock that contains `value`.
    pub fn new(value: T) -> Self {
        TryLock { taken: AtomicBool::new(false), value: RaceCell::new(value) }
    }

    /// Calls `work` with the value, or returns `None` immediately if another thread holds the lock.
    pub fn try_with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        struct GiveBack<'a>(&'a AtomicBool);
        impl Drop for GiveBack<'_> {
            fn drop(&mut self) {
                // Release: changes to the value are visible to the Acquire of the next `try_with`.
                self.0.store(false, Ordering::Release);
            }
        }
        // Acquire: pairs with the Release of `GiveBack`. Relaxed on failure: nothing is read.
        if self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return None;
        }
        let _give_back = GiveBack(&self.taken);
        // SAFETY: `taken` was false and is now true, so until `_give_back` is dropped every other
        // thread returns above.
        Some(self.value.with_mut(|value| work(unsafe { &mut *value })))
    }

    /// Returns the value, given exclusive access to the lock.
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
