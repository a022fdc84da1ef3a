//! A memory limit shared by many threads.

use std::sync::Arc;

use crate::Counter;

/// The number of bytes that can be held at the same time. Clones share the same limit.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Limit>);

#[derive(Debug)]
struct Limit {
    /// The number of bytes held. A refused request is also counted until it is subtracted again.
    used: Counter,
    limit: usize,
}

/// Bytes charged to a budget. The bytes are released when the charge is dropped.
#[derive(Debug)]
pub struct Charge {
    budget: Budget,
    bytes: usize,
}

/// A request that exceeded the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun {
    /// The number of bytes requested.
    pub asked: usize,
    /// The number of bytes that were already held.
    pub used: usize,
    /// The maximum number of bytes that can be held.
    pub limit: usize,
}

impl Budget {
    /// Creates a budget of `limit` bytes.
    pub fn new(limit: usize) -> Budget {
        Budget(Arc::new(Limit { used: Counter::new(0), limit }))
    }

    /// Returns the number of bytes currently held.
    pub fn used(&self) -> usize {
        self.0.used.get()
    }

    /// Returns whether more than half of the limit is held.
    pub fn is_short(&self) -> bool {
        self.used() > self.0.limit / 2
    }

    /// Charges `bytes` to the budget. Callers must charge memory before allocating it.
    pub fn charge(&self, bytes: usize) -> Result<Charge, Overrun> {
        let Limit { used, limit } = &*self.0;
        let overrun = |used| Overrun { asked: bytes, used, limit: *limit };
        if bytes > *limit {
            return Err(overrun(used.get()));
        }
        // A refused request is counted until it is subtracted again. Two simultaneous requests can
        // therefore both be refused even if one would have fit, but they are never both granted if
        // only one fits.
        let before = used.add(bytes);
        if before.checked_add(bytes).is_some_and(|total| total <= *limit) {
            return Ok(Charge { budget: self.clone(), bytes });
        }
        used.subtract(bytes);
        Err(overrun(before))
    }
}

impl Charge {
    /// Moves `bytes` bytes from this charge into a new charge. If this charge is smaller, moves all
    /// of it.
    pub fn split(&mut self, bytes: usize) -> Charge {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Charge { budget: self.budget.clone(), bytes }
    }

    /// Adds another charge against the same budget to this one.
    pub fn merge(&mut self, mut other: Charge) {
        assert!(
            Arc::ptr_eq(&self.budget.0, &other.budget.0),
            "both charges belong to the same budget"
        );
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Returns the number of bytes held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.0.used.subtract(self.bytes);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn all_of_the_limit_may_be_held() {
        let budget = Budget::new(100);
        let all = budget.charge(100).unwrap();
        assert_eq!((all.bytes(), budget.used()), (100, 100));
        assert_eq!(budget.charge(1).unwrap_err(), Overrun { asked: 1, used: 100, limit: 100 });
        drop(all);
        assert_eq!(budget.charge(101).unwrap_err(), Overrun { asked: 101, used: 0, limit: 100 });
        assert_eq!(Budget::new(0).charge(0).unwrap().bytes(), 0);
    }

    #[test]
    fn what_does_not_fit_is_refused_until_room_is_made() {
        let budget = Budget::new(100);
        let first = budget.charge(60).unwrap();
        assert_eq!(budget.charge(41).unwrap_err(), Overrun { asked: 41, used: 60, limit: 100 });
        assert!(budget.is_short());
        let second = budget.charge(40).unwrap();
        assert!(budget.charge(usize::MAX).is_err());
        drop(first);
        assert!(budget.charge(60).is_ok());
        assert!(budget.used() == 40 && !budget.is_short());
        let mut third = second;
        let part = third.split(15);
        assert_eq!((part.bytes(), third.bytes(), budget.used()), (15, 25, 40));
        drop(third);
        assert_eq!(budget.used(), 15);
        let mut all = budget.charge(5).unwrap();
        all.merge(part);
        assert_eq!((all.bytes(), budget.used()), (20, 20));
        drop(all);
        assert_eq!(budget.used(), 0);
    }
}
