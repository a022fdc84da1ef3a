//! Which pages come faster at the moment, huge ones or small ones.
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
pub(super) enum Pages {
    Huge,
    Small,
}

/// Bytes without pages that are given out before both are tried again, where huge pages were taken,
/// and small ones: a few huge pages may be at hand where most are not.
const HUGE_HOLDS: usize = 32 << 20;
const SMALL_HOLDS: usize = 128 << 20;

/// The last trial.
pub(super) struct Supply {
    /// For how many bytes its outcome holds still.
    left: Counter,
    /// Whether that was small pages: 0 or 1.
    is_small: Counter,
}

impl Supply {
    /// Huge pages, before the first trial.
    pub(super) const fn new() -> Self {
        Supply { left: Counter::new(0), is_small: Counter::new(0) }
    }

    /// The pages for so many bytes, by the last trial, unless it is time for another one.
    pub(super) fn known(&self, bytes: usize) -> Option<Pages> {
        let left = self.left.get();
        if left == 0 {
            return None;
        }
        // Two threads at a time may count once: then the next trial comes a little later.
        self.left.set(left.saturating_sub(bytes));
        Some(self.last())
    }

    /// The outcome of the last trial.
    pub(super) fn last(&self) -> Pages {
        if self.is_small.get() == 0 { Pages::Huge } else { Pages::Small }
    }

    /// Takes note of how long as many bytes took in huge pages and in small ones; the pages to take.
    pub(super) fn note(&self, huge: Duration, small: Duration) -> Pages {
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
        assert_eq!((supply.known(1), supply.last()), (None, Pages::Huge));
        assert_eq!(supply.note(ms(21), ms(10)), Pages::Small);
        assert_eq!(supply.known(SMALL_HOLDS - 1), Some(Pages::Small));
        assert_eq!(supply.note(ms(20), ms(10)), Pages::Huge);
        assert_eq!((supply.known(HUGE_HOLDS), supply.known(1)), (Some(Pages::Huge), None));
    }
}
