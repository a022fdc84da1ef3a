//! The windows of a result, for callers that divide its rows by time.

use tidegate_operators::aggregate::{CalendarUnit, Windows};

use crate::columns::duration::CalendarLength;
use crate::columns::time::{Bound, DAY, Length, Unit};

/// Sliding windows in the unit of the time columns.
#[derive(Clone, Debug)]
pub struct ResultWindows {
    windows: Windows,
    unit: Unit,
}

impl ResultWindows {
    pub(crate) fn new(windows: Windows, unit: Unit) -> Self {
        ResultWindows { windows, unit }
    }

    /// Returns an upper bound on the length of a window, in the unit of the times.
    pub fn longest(&self) -> i64 {
        self.windows.longest()
    }

    /// Returns the start and the end of the last window that starts at or before a time.
    pub fn last_window(&self, ts: i64) -> (i64, i64) {
        self.windows.last_window(ts)
    }

    /// Returns the size and offset of adjacent windows that can be combined into every window. The
    /// size is the largest possible one.
    pub fn slices(&self) -> (Length, Length) {
        let (size, advance, offset) = self.windows.lengths();
        let size = gcd(size, advance);
        let offset = offset % size;
        let step = match self.unit {
            Unit::Integer => {
                let steps = |steps: i64| Length::Fixed(Bound::Steps(steps.into()));
                return (steps(size), steps(offset));
            }
            Unit::Nanoseconds(step) => i128::from(step),
        };
        let fixed = |steps: i64| Length::Clock(i128::from(steps) * step);
        let Some(calendar) = self.windows.calendar() else { return (fixed(size), fixed(offset)) };
        // All parts of a length have the same sign.
        let offset = if calendar.shift() < 0 { offset - size } else { offset };
        let units = |count: i64, clock: i64| {
            let (count, clock) = (i128::from(count), i128::from(clock) * step);
            Length::Calendar(match calendar.unit() {
                CalendarUnit::Day => {
                    let days = count * i128::from(DAY);
                    CalendarLength { days, clock, ..CalendarLength::default() }
                }
                CalendarUnit::Month => {
                    CalendarLength { months: count, clock, ..CalendarLength::default() }
                }
            })
        };
        (units(size, 0), units(offset, calendar.shift()))
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
