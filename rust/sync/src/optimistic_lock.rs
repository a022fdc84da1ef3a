//! A lock whose readers write nothing. Readers check the version of the lock before and after they
//! read.
//!
//! Leis, Scheibner, Kemper and Neumann, "The ART of Practical Synchronization" (DaMoN 2016),
//! section 3, and Leis, Haubenschild and Neumann, "Optimistic Lock Coupling" (IEEE Data Engineering
//! Bulletin 42.1, 2019).
//!
//! ```text
//! version   4 ──lock──▶ 5 ──write──▶ 5 ──unlock──▶ 6
//! reader        4: reads ........ is it still 4? no: the values are discarded
//! ```

#[cfg(not(loom))]
use crossbeam_utils::Backoff;

use crate::atomic::{AtomicUsize, Ordering, fence};

/// A lock for values that are read far more often than they are written. All values must be
/// atomics, because a reader can read while a writer writes. The reader detects the write
/// afterwards.
///
/// ```
/// use tidegate_sync::OptimisticLock;
/// use tidegate_sync::atomic::{AtomicI64, Ordering};
///
/// let (lock, low, high) = (OptimisticLock::default(), AtomicI64::new(1), AtomicI64::new(2));
///
/// let before = lock.read();
/// let seen = (low.load(Ordering::Relaxed), high.load(Ordering::Relaxed));
/// assert!(lock.is_valid(before) && seen == (1, 2)); // no write in between
///
/// let held = lock.try_lock(before).expect("there was no write in between");
/// low.store(3, Ordering::Relaxed);
/// high.store(4, Ordering::Relaxed);
/// drop(held);
/// assert!(!lock.is_valid(before)); // what was read at the old version is out of date
/// ```
#[derive(Debug)]
pub struct OptimisticLock {
    /// The version is odd while a writer holds the lock. The version increases until it wraps
    /// around.
    version: AtomicUsize,
}

/// A version of the values that an [`OptimisticLock`] guards, at a time when no writer held the
/// lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(usize);

/// A lock that is held by a writer. Dropping this value releases the lock.
#[derive(Debug)]
pub struct Exclusive<'a> {
    lock: &'a OptimisticLock,
    version: usize,
}

impl Default for OptimisticLock {
    fn default() -> Self {
        OptimisticLock { version: AtomicUsize::new(0) }
    }
}

impl OptimisticLock {
    /// Waits until no writer holds the lock, and returns the version. All writes up to the returned
    /// version are visible afterwards.
    #[inline]
    pub fn read(&self) -> Version {
        #[cfg(not(loom))]
        let backoff = Backoff::new();
        loop {
            // Acquire: pairs with the Release of the writer that unlocked at this version.
            let version = self.version.load(Ordering::Acquire);
            if version.is_multiple_of(2) {
                return Version(version);
            }
            // A writer that was interrupted needs the processor, so spinning alone is not enough.
            #[cfg(not(loom))]
            backoff.snooze();
            #[cfg(loom)]
            loom::thread::yield_now();
        }
    }

    /// Returns whether all values read since [`read`](Self::read) returned `version` belong to that
    /// version.
    #[inline]
    pub fn is_valid(&self, version: Version) -> bool {
        // Acquire: if a value from a writer has been read, the writer's fence in `try_lock` comes
        // before this one, and its version is visible here.
        fence(Ordering::Acquire);
        // Relaxed: the fence orders it.
        self.version.load(Ordering::Relaxed) == version.0
    }

    /// Acquires the lock if there have been no writes since `version`. The method never waits.
    #[inline]
    pub fn try_lock(&self, version: Version) -> Option<Exclusive<'_>> {
        let locked = version.0.wrapping_add(1);
        // Acquire: nothing is written before the lock is acquired. Relaxed on failure: the values
        // that were read are discarded.
        self.version
            .compare_exchange(version.0, locked, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        // Release: pairs with the fence of `is_valid`, for readers of the values that are written
        // now.
        fence(Ordering::Release);
        Some(Exclusive { lock: self, version: locked })
    }
}

impl Drop for Exclusive<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: publishes the written values to the Acquire of `read`.
        self.lock.version.store(self.version.wrapping_add(1), Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::atomic::AtomicI64;

    #[test]
    fn one_writer_at_a_time_and_no_reader_takes_what_it_half_wrote() {
        const WRITES: i64 = if cfg!(miri) { 20 } else { 20_000 };
        let lock = OptimisticLock::default();
        let two = [AtomicI64::new(0), AtomicI64::new(0)];
        let writers = || {
            let mut left = WRITES;
            while left > 0 {
                let version = lock.read();
                let Some(_held) = lock.try_lock(version) else { continue };
                two.iter()
                    .for_each(|one| one.store(one.load(Ordering::Relaxed) + 1, Ordering::Relaxed));
                left -= 1;
            }
        };
        std::thread::scope(|scope| {
            (0..2).for_each(|_| {
                scope.spawn(writers);
            });
            loop {
                let version = lock.read();
                let seen = two.each_ref().map(|one| one.load(Ordering::Relaxed));
                if lock.is_valid(version) {
                    assert_eq!(seen[0], seen[1]);
                    if seen[0] == 2 * WRITES {
                        return;
                    }
                }
            }
        });
    }

    #[test]
    fn a_panic_of_the_writer_does_not_keep_others_out() {
        let lock = OptimisticLock::default();
        let before = lock.read();
        let caught = std::panic::catch_unwind(|| {
            let _held = lock.try_lock(before).unwrap();
            assert!(lock.try_lock(before).is_none());
            panic!("work failed");
        });
        assert!(caught.is_err());
        assert!(!lock.is_valid(before));
        assert!(lock.try_lock(lock.read()).is_some());
    }
}
