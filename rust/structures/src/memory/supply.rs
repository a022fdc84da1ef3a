//! Which size of pages the system supplies faster at the moment.
//!
//! Where the memory of a machine is at hand, a huge page costs less than 512 small ones. Where the
//! host of a virtual machine has to supply the memory anew, it may be the other way round: on one
//! such machine a first join of ten million rows took 3.1 to 3.9 s with huge pages, and 0.8 s with
//! small ones. Nothing tells which of the two holds, and it changes. So now and then the first bytes
//! of a large array are fetched in both ways, by the clock.
//!
//! # Trade-offs
//!
//! An array of small pages stays so for as long as the process uses its memory. A join whose result
//! takes gigabytes is then up to 1.8 times as slow in later calls; one of 200 MB is as fast. So huge
//! pages are given up only where they take more than twice as long.

use std::time::Duration;

use tidegate_sync::Counter;

/// A size of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageSize {
    Huge,
    Small,
}

/// A trial that chose huge pages, or small ones, holds for this number of bytes. It is shorter for
/// huge pages, since a few of them may be at hand where most are not.
const HUGE_HOLDS: usize = 32 << 20;
const SMALL_HOLDS: usize = 128 << 20;

/// The last trial.
pub(super) struct Supply {
    /// The number of bytes for which it still holds.
    left: Counter,
    /// Whether it chose small pages: 0 or 1.
    is_small: Counter,
}

impl Supply {
    /// Chooses huge pages, until the first trial.
    pub(super) const fn new() -> Self {
        Supply { left: Counter::new(0), is_small: Counter::new(0) }
    }

    /// The size that the last trial chose, for `bytes` more bytes; `None` where a trial is due.
    pub(super) fn known(&self, bytes: usize) -> Option<PageSize> {
        let left = self.left.get();
        if left == 0 {
            return None;
        }
        // Two threads at a time may count once: then the next trial comes a little later.
        self.left.set(left.saturating_sub(bytes));
        Some(self.last())
    }

    /// The size that the last trial chose.
    pub(super) fn last(&self) -> PageSize {
        if self.is_small.get() == 0 { PageSize::Huge } else { PageSize::Small }
    }

    /// Chooses a size, by the times that as many bytes took in huge pages and in small ones.
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
