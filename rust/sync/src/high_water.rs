//! A number that only increases. A thread that reads the number also sees all work that was done
//! before the number was increased.

use crate::CachePadded;
use crate::atomic::{AtomicI64, Ordering};

/// A mark that one thread raises and others read. A thread that reads the mark sees all work done
/// before the mark was raised.
#[derive(Debug)]
pub struct HighWater(CachePadded<AtomicI64>);

impl Default for HighWater {
    fn default() -> Self {
        HighWater(CachePadded::new(AtomicI64::new(0)))
    }
}

impl HighWater {
    /// Raises the mark to `to`, which must not be below the current mark. Only one thread may raise
    /// the mark.
    pub fn raise(&self, to: u64) {
        // Relaxed: a single thread raises the mark, so it reads its own last value.
        debug_assert!(self.0.load(Ordering::Relaxed) as u64 <= to, "a mark only increases");
        // Release: publishes what was done before to the Acquire of `get`.
        self.0.store(to as i64, Ordering::Release);
    }

    /// Returns the mark. A stale mark is lower than the actual mark.
    pub fn get(&self) -> u64 {
        // Acquire: pairs with the Release of `raise`.
        self.0.load(Ordering::Acquire) as u64
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn it_rises_from_zero() {
        let mark = HighWater::default();
        assert_eq!(mark.get(), 0);
        mark.raise(u64::MAX);
        assert_eq!(mark.get(), u64::MAX);
    }
}
