//! The latest version of a value that readers share with writers.
//!
//! A reader gets one version and keeps it for as long as it needs it. A writer builds a new version
//! from the latest one without holding a lock, and then replaces the latest version. If another
//! writer has replaced it in the meantime, the writer starts again from the new version. Readers
//! never wait for a version to be built, and every version contains all earlier changes.

use crate::atomic::Arc;
use crate::lock::Lock;

/// A value that is replaced by successive versions.
///
/// ```
/// use tidegate_sync::Latest;
///
/// let numbers = Latest::new(vec![1]);
/// let before = numbers.get();
/// numbers.update(|latest| Ok::<_, ()>([&latest[..], &[2]].concat()))?;
/// assert_eq!((&before[..], &numbers.get()[..]), (&[1][..], &[1, 2][..]));
/// # Ok::<(), ()>(())
/// ```
#[derive(Debug)]
pub struct Latest<T>(Lock<Arc<T>>);

impl<T> From<Arc<T>> for Latest<T> {
    fn from(value: Arc<T>) -> Self {
        Latest(Lock::new(value))
    }
}

impl<T> Latest<T> {
    /// Creates the first version.
    pub fn new(value: T) -> Self {
        Latest::from(Arc::new(value))
    }

    /// Returns the latest version.
    pub fn get(&self) -> Arc<T> {
        self.0.with(|latest| latest.clone())
    }

    /// Replaces the latest version with the result of `build`, which receives the latest version.
    /// Calls `build` again if another thread has replaced this version in the meantime. If `build`
    /// fails, the latest version remains.
    pub fn update<E>(&self, mut build: impl FnMut(&Arc<T>) -> Result<T, E>) -> Result<(), E> {
        loop {
            let latest = self.get();
            let next = Arc::new(build(&latest)?);
            // The previous version is dropped after the lock has been released.
            let replaced = self.0.with(|current| {
                Arc::ptr_eq(current, &latest).then(|| std::mem::replace(current, next))
            });
            if replaced.is_some() {
                return Ok(());
            }
        }
    }
}
