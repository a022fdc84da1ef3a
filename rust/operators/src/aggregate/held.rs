//! Values that each hold until the next row, as a state that can be merged.

use bytemuck::{AnyBitPattern, NoUninit};

/// The distance between two times. `later` must not be less than `earlier`.
pub(super) fn span(earlier: i64, later: i64) -> f64 {
    later.abs_diff(earlier) as f64
}

/// Returns a value multiplied by the time for which it holds. A value that holds for zero time is
/// ignored, even if it is infinite.
pub(super) fn held(value: f64, time: f64) -> f64 {
    if time == 0.0 { 0.0 } else { value * time }
}

/// Values that each hold until the next row. The last value holds until a time that is not known
/// yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, AnyBitPattern, NoUninit)]
#[repr(C)]
pub struct HeldValues {
    /// The time of the first row.
    pub(super) first: i64,
    /// The value that holds from `first` to `second`.
    pub(super) value: f64,
    /// The first time after `first` at which there is a row, or `first` if all rows have the same
    /// time.
    pub(super) second: i64,
    /// The sum of the values that hold from `second` to `last`, each multiplied by the time for
    /// which it holds.
    pub(super) area: f64,
    /// The time of the last row.
    pub(super) last: i64,
    /// The value that holds from `last` on.
    pub(super) last_value: f64,
}

impl HeldValues {
    /// No values. Only then is the first time greater than the last.
    pub(super) const EMPTY: HeldValues = HeldValues {
        first: i64::MAX,
        value: 0.0,
        second: i64::MAX,
        area: 0.0,
        last: i64::MIN,
        last_value: 0.0,
    };

    pub(super) fn one(ts: i64, value: f64) -> Self {
        HeldValues { first: ts, value, second: ts, area: 0.0, last: ts, last_value: value }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first > self.last
    }

    /// Returns the sum of all values up to the last row, each multiplied by the time for which it
    /// holds.
    fn whole_area(&self) -> f64 {
        held(self.value, span(self.first, self.second)) + self.area
    }

    /// Returns the mean of the values from `start` to `end`, weighted by time. Only the first row
    /// can be earlier than `start`. If the values hold for zero time, the result is the last value.
    pub fn mean(&self, start: Option<i64>, end: i64) -> f64 {
        let from = start.map_or(self.first, |start| start.max(self.first));
        let mean = if self.first == self.last || end <= from {
            self.last_value
        } else {
            let first = held(self.value, span(from, self.second));
            let last = held(self.last_value, span(self.last, end.max(self.last)));
            (first + self.area + last) / span(from, end)
        };
        // NaN has many bit patterns, and which one an operation returns depends on the platform.
        if mean.is_nan() { f64::NAN } else { mean }
    }

    /// Returns the values of both groups of rows. The rows of `earlier` precede those of `later`.
    pub(super) fn combined(earlier: HeldValues, later: HeldValues) -> HeldValues {
        if earlier.is_empty() {
            return later;
        }
        if later.is_empty() || earlier.last > later.first {
            debug_assert!(later.is_empty(), "rows are in time order");
            return earlier;
        }
        let HeldValues { last, last_value, .. } = later;
        if earlier.last == later.last {
            // All rows of `later` have the time of the last row of `earlier`.
            let value = if earlier.first == earlier.last { last_value } else { earlier.value };
            return HeldValues { value, last_value, ..earlier };
        }
        if earlier.first == later.first {
            return later;
        }
        if earlier.first == earlier.last {
            let (value, area) = (earlier.last_value, later.whole_area());
            return HeldValues { value, second: later.first, area, last, last_value, ..earlier };
        }
        let between = held(earlier.last_value, span(earlier.last, later.first));
        let area = earlier.area + between + later.whole_area();
        HeldValues { area, last, last_value, ..earlier }
    }
}
