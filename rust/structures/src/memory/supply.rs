//! Determines which page size the system currently supplies faster.
//!
//! If the machine's memory is available, a huge page costs less time than 512 small pages. If the
//! host of a virtual machine has to supply the memory first, the small pages may cost less. On one
//! such machine, the first join of ten million rows took 3.1 to 3.9 s with huge pages, and 0.8 s
//! with small pages. No interface reports which of the two is the case, and the answer changes over
//! time. From time to time, the first bytes of a large array are therefore requested with both page
//! sizes, and the time needed for each is compared.
//!
//! # Trade-offs
//!
//! An array on small pages keeps these pages for as long as the process uses the memory. If the
//! result takes up gigabytes, later calls of the join can then take up to 1.8 times as long. A join
//! with a result of 200 MB is as fast as before. Huge pages are therefore abandoned only if they
//! take more than twice as long.

use std::time::Duration;

use tidegate_sync::Counter;

/// A page size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageSize {
    Huge,
    Small,
}

/// The number of bytes that can be supplied before a trial is repeated. The first constant is for
/// huge pages, the second for small pages. The number is smaller for huge pages, because a few of
/// them may be available even if most are not.
const HUGE_HOLDS: usize = 32 << 20;
const SMALL_HOLDS: usize = 128 << 20;

/// The result of the last trial.
pub(super) struct Supply {
    /// The number of bytes for which the last trial is still valid.
    left: Counter,
    /// 1 if the trial chose small pages, and 0 otherwise.
    is_small: Counter,
}

impl Supply {
    /// Creates a state that chooses huge pages until the first trial.
    pub(super) const fn new() -> Self {
        Supply { left: Counter::new(0), is_small: Counter::new(0) }
    }

    /// Returns the page size that the last trial chose, and counts `bytes` more bytes as allocated
    /// with this size. Returns `None` if a new trial is due.
    pub(super) fn known(&self, bytes: usize) -> Option<PageSize> {
        let left = self.left.get();
        if left == 0 {
            return None;
        }
        // If two threads do this at the same time, the bytes of only one may be counted. The next
        // trial then starts a little later.
        self.left.set(left.saturating_sub(bytes));
        Some(self.last())
    }

    /// Returns the page size that the last trial chose.
    pub(super) fn last(&self) -> PageSize {
        if self.is_small.get() == 0 { PageSize::Huge } else { PageSize::Small }
    }

    /// Chooses a page size. `huge` and `small` are the times taken to supply the same number of
    /// bytes with huge and with small pages.
    pub(super) fn note(&self, huge: Duration, small: Duration) -> PageSize {
        let is_small = huge > 2 * small;
        self.is_small.set(usize::from(is_small));
        self.left.set(if is_small { SMALL_HOLDS } else { HUGE_HOLDS });
        self.last()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_holds_for_a_while_and_huge_pages_go_where_they_are_far_slower() {
        let (supply, ms) = (Supply::new(), Duration::from_millis);
        assert_eq!((supply.known(1), supply.last()), (None, PageSize::Huge));
        assert_eq!(supply.note(ms(21), ms(10)), PageSize::Small);
        assert_eq!(supply.known(SMALL_HOLDS - 1), Some(PageSize::Small));
        assert_eq!(supply.note(ms(20), ms(10)), PageSize::Huge);
        assert_eq!((supply.known(HUGE_HOLDS), supply.known(1)), (Some(PageSize::Huge), None));
    }
}
