//! The panes of windows that all begin at the start of a block and grow step by step.
//!
//! ```text
//!   block        ├─────────┬─────────┬─────────┬────┤├─────────┬──▶
//!   windows      └─────────┘         │         │    ││
//!                └───────────────────┘         │    ││
//!                └─────────────────────────────┘    ││
//!                └──────────────────────────────────┘└─────────┘
//! ```
//!
//! A pane is a slice, so each window is the previous window of its block and one more pane. Blocks
//! can have different lengths, such as months of days. Every block is assigned as many slice numbers
//! as the longest block needs, so some numbers belong to empty panes.

use super::calendar::{Calendar, CalendarUnit};

/// The steps by which the windows of a block grow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WindowStep {
    /// A length of time.
    Time(i64),
    /// A number of units of a calendar.
    Units(i64, Calendar),
}

/// The panes of each block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WindowPanes {
    step: WindowStep,
    /// The number of slices per block.
    pub(super) most: i64,
}

impl WindowPanes {
    /// Creates the panes of blocks with `size` units of `calendar`, which are at most `longest` long.
    pub(super) fn new(
        step: WindowStep,
        size: i64,
        calendar: Option<&Calendar>,
        longest: i64,
    ) -> Self {
        let divided = |size: i64, step: i64| {
            assert!(step > 0, "steps must be positive");
            size.div_euclid(step) + i64::from(size.rem_euclid(step) != 0)
        };
        let most = match &step {
            WindowStep::Time(step) => divided(longest, *step),
            WindowStep::Units(count, of_step) => {
                let is_of_months = calendar.is_some_and(|of| of.unit() == CalendarUnit::Month);
                let days = is_of_months && of_step.unit() == CalendarUnit::Day;
                divided(if days { size.saturating_mul(31) } else { size }, *count)
            }
        };
        WindowPanes { step, most }
    }

    /// Returns the pane of a block that contains a time, given the start of the block.
    pub(super) fn pane_of(&self, ts: i64, block: i128) -> i64 {
        let pane = match &self.step {
            WindowStep::Time(step) => (i128::from(ts) - block).div_euclid(i128::from(*step)),
            WindowStep::Units(count, calendar) => {
                let first = calendar.unit_of(clamped(block));
                (i128::from(calendar.unit_of(ts)) - i128::from(first)).div_euclid((*count).into())
            }
        };
        clamped(pane).clamp(0, self.most - 1)
    }

    /// Returns the start of a pane, given the start of its block and of the next block.
    pub(super) fn start(&self, pane: i64, block: i128, next: i128) -> i128 {
        let start = match &self.step {
            _ if pane == 0 => block,
            WindowStep::Time(step) => block + i128::from(pane) * i128::from(*step),
            WindowStep::Units(count, calendar) => {
                let first = i128::from(calendar.unit_of(clamped(block)));
                calendar.start_of(first + i128::from(pane) * i128::from(*count))
            }
        };
        start.clamp(block, next)
    }
}

fn clamped(number: i128) -> i64 {
    number.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}
