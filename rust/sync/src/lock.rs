//! A value that only one thread at a time can use, while others wait.

#[cfg(loom)]
use loom::sync::Mutex;
#[cfg(not(loom))]
use std::sync::Mutex;
use std::sync::PoisonError;

/// A mutex that loom can model. If the thread that holds the lock panics, other threads can still
/// acquire the lock. The other threads see the value as the panicking thread left it. The panic
/// reaches the caller in another way.
#[derive(Debug, Default)]
pub struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    /// Creates a lock that contains `value`.
    pub fn new(value: T) -> Self {
        Lock(Mutex::new(value))
    }

    /// Calls `work` with the value, once no other thread holds the lock.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_thread_at_a_time_works_and_a_panic_does_not_keep_others_out() {
        let lock = Lock::new(0);
        std::thread::scope(|scope| {
            (0..4).for_each(|_| {
                scope.spawn(|| (0..1000).for_each(|_| lock.with(|value| *value += 1)));
            });
        });
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            lock.with(|_| panic!("work failed"))
        }));
        assert!(caught.is_err());
        assert_eq!(lock.with(|value| *value), 4000);
    }
}
