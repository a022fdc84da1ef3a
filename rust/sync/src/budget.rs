//! A limit on memory that many threads take from and give back to.

use crate::atomic::{Arc, AtomicUsize, Ordering};

/// Bytes that may be held at one time.
#[derive(Debug)]
pub struct Budget {
    /// Bytes held, a refused request included for the moment until it is taken back.
    used: AtomicUsize,
    limit: usize,
}

/// Bytes taken from a budget, given back when dropped.
#[derive(Debug)]
pub struct Charge {
    budget: Arc<Budget>,
    bytes: usize,
}

/// A request that did not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// Bytes asked for.
    pub asked: usize,
    /// Bytes that were held.
    pub used: usize,
    /// Bytes that may be held.
    pub limit: usize,
}

impl Budget {
    /// At most `limit` bytes.
    pub fn new(limit: usize) -> Arc<Budget> {
        Arc::new(Budget { used: AtomicUsize::new(0), limit })
    }

    /// Bytes held now.
    pub fn used(&self) -> usize {
        // Relaxed: a figure for statistics; it orders nothing.
        self.used.load(Ordering::Relaxed)
    }

    /// Takes `bytes`, before the memory is.
    pub fn charge(self: &Arc<Self>, bytes: usize) -> Result<Charge, Exceeded> {
        // Relaxed, here and in the two subtractions: the counter orders nothing but itself, and
        // read-modify-writes of one atomic lose no update. A request that is refused is counted
        // until it is taken back, so two at once may both be refused where one would have fitted,
        // and never both be granted where one does not.
        if bytes > self.limit {
            return Err(Exceeded { asked: bytes, used: self.used(), limit: self.limit });
        }
        let used = self.used.fetch_add(bytes, Ordering::Relaxed);
        if used.checked_add(bytes).is_some_and(|total| total <= self.limit) {
            return Ok(Charge { budget: self.clone(), bytes });
        }
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        Err(Exceeded { asked: bytes, used, limit: self.limit })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        // Relaxed: see `charge`.
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_until_room_is_made() {
        let budget = Budget::new(100);
        let first = budget.charge(60).unwrap();
        assert_eq!(budget.charge(41).unwrap_err(), Exceeded { asked: 41, used: 60, limit: 100 });
        let second = budget.charge(40).unwrap();
        assert!(budget.charge(usize::MAX).is_err());
        drop(first);
        assert!(budget.charge(60).is_ok());
        assert_eq!(budget.used(), 40);
        drop(second);
        assert_eq!(budget.used(), 0);
    }
}
