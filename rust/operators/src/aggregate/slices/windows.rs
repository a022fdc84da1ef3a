//! Time-based windows and the slices that they share.

use crate::aggregate::output::Window;

/// The windows `[k * advance + offset, k * advance + offset + size)` for every integer k, aligned
/// to the epoch.
///
/// The starts and ends of windows divide time into *slices*, so that every window consists of the
/// same number of whole slices:
///
/// ```text
///   size = 2.5 * advance     ┌────────┬────────┬────┐
///                            └────────┴────────┴────┘                a window: 5 slices
///                                     ┌────────┬────────┬────┐
///                                     └────────┴────────┴────┘       the next: 2 slices later
///   slices                   ├────┼───┼────┼───┼────┼───┼────┼──▶
/// ```
///
/// If the size is a multiple of the advance, there is one slice per advance; otherwise, there are
/// two. If the advance is greater than the size, every other slice is a gap that no window covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    size: i64,
    advance: i64,
    /// The offset, which is at least 0 and less than the advance.
    offset: i64,
    /// The remainder of the size divided by the advance.
    rest: i64,
    /// The starts of the first and last windows to compute.
    starts: (i64, i64),
}

/// The number of a slice. Slices are numbered in time order.
pub type Slice = i64;

impl Windows {
    /// # Panics
    ///
    /// Panics if the size or the advance is not positive.
    pub fn new(size: i64, advance: i64, offset: i64) -> Self {
        assert!(size > 0 && advance > 0, "size and advance must be positive");
        let starts = (i64::MIN, i64::MAX);
        Windows { size, advance, offset: offset.rem_euclid(advance), rest: size % advance, starts }
    }

    /// Restricts the windows of tables to those that end after `after` but no later than `upto`.
    /// The result can include a few additional windows.
    #[must_use]
    pub fn that_end(self, after: Option<i64>, upto: Option<i64>) -> Self {
        let first = after.and_then(|after| after.checked_sub(self.size - 1)).unwrap_or(i64::MIN);
        let last = upto.map_or(i64::MAX, |upto| upto.saturating_sub(self.size));
        Windows { starts: (first, last), ..self }
    }

    /// Returns the range of slices at which the windows to compute begin.
    pub(in crate::aggregate) fn starting_slices(&self) -> std::ops::Range<Slice> {
        let (first, last) = self.starts;
        let first = if first == i64::MIN { Slice::MIN } else { self.slice_of(first) };
        let last = if last == i64::MAX { Slice::MAX } else { self.slice_of(last) + 1 };
        first..last
    }

    /// Returns whether all windows that contain times from `low` to `high` begin and end within 64
    /// bits.
    pub fn fit(&self, low: i64, high: i64) -> bool {
        let [low, high, size, advance, offset] =
            [low, high, self.size, self.advance, self.offset].map(i128::from);
        // The first window that ends after `low`, and the last one that begins at or before `high`.
        let first = ((low - offset - size).div_euclid(advance) + 1) * advance + offset;
        let last = (high - offset).div_euclid(advance) * advance + offset + size;
        i64::try_from(first).is_ok() && i64::try_from(last).is_ok()
    }

    /// Returns the size, the advance and the offset. The offset is at least 0 and less than the
    /// advance.
    pub fn lengths(&self) -> (i64, i64, i64) {
        (self.size, self.advance, self.offset)
    }

    /// Returns the number of slices in a window.
    pub(in crate::aggregate) fn length(&self) -> i64 {
        let whole = self.size / self.advance;
        if self.rest == 0 { whole } else { 2 * whole + 1 }
    }

    /// Returns the number of slices from one window's start to the next. Windows begin at multiples
    /// of this number.
    pub(in crate::aggregate) fn stride(&self) -> i64 {
        if self.rest == 0 { 1 } else { 2 }
    }

    /// Returns the slice that contains a time. For times before all numbered slices, returns the
    /// first slice.
    pub(in crate::aggregate) fn slice_of(&self, ts: i64) -> Slice {
        let Some(since) = ts.checked_sub(self.offset) else {
            // One advance later, the difference fits in 64 bits.
            return self.slice_of(ts + self.advance).saturating_sub(self.stride());
        };
        let (step, within) = (since.div_euclid(self.advance), since.rem_euclid(self.advance));
        if self.rest == 0 { step } else { 2 * step + i64::from(within >= self.rest) }
    }

    /// Returns the last time in a slice.
    pub(in crate::aggregate) fn last_time(&self, slice: Slice) -> i64 {
        i64::try_from(self.start(i128::from(slice) + 1) - 1).unwrap_or(i64::MAX)
    }

    /// Returns the first time in a slice. A window must begin with this slice.
    pub(in crate::aggregate) fn window_start(&self, slice: Slice) -> i64 {
        i64::try_from(self.start(i128::from(slice))).expect("the windows of all rows fit")
    }

    /// Returns the window that begins with a slice and has this number of rows in a page.
    pub(in crate::aggregate) fn window(&self, slice: Slice, rows: usize) -> Window {
        let start = self.window_start(slice);
        Window { start, end: start + self.size, rows }
    }

    /// Returns whether the slice contains any times and all windows that cover these times begin
    /// and end within 64 bits.
    pub(in crate::aggregate) fn has(&self, slice: Slice) -> bool {
        let first = self.start(slice.into());
        let last = (self.start(i128::from(slice) + 1) - 1).min(i64::MAX.into());
        let is_whole = first <= last && i64::try_from(last).is_ok_and(|ts| self.fit(ts, ts));
        is_whole && !self.is_gap(slice)
    }

    fn start(&self, slice: i128) -> i128 {
        let (step, within) = match self.rest {
            0 => (slice, 0),
            rest => (slice.div_euclid(2), slice.rem_euclid(2) * i128::from(rest)),
        };
        step * i128::from(self.advance) + i128::from(self.offset) + within
    }

    /// Returns `true` if no window covers the slice.
    pub(in crate::aggregate) fn is_gap(&self, slice: Slice) -> bool {
        self.advance > self.size && slice.rem_euclid(2) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn oracle_a_window_is_a_run_of_slices(
            size in 1_i64..40, advance in 1_i64..40, offset in -50_i64..50, ts in -200_i64..200,
        ) {
            let windows = Windows::new(size, advance, offset);
            let slice = windows.slice_of(ts);
            prop_assert!(windows.start(slice.into()) <= ts.into() && ts <= windows.last_time(slice));
            let starts: Vec<i64> = (-300..300).map(|k| k * advance + offset)
                .filter(|start| (*start..start + size).contains(&ts)).collect();
            prop_assert_eq!(windows.is_gap(slice), starts.is_empty());
            let found: Vec<i64> = (slice - windows.length() + 1..=slice)
                .filter(|first| first % windows.stride() == 0 && !windows.is_gap(slice))
                .map(|first| windows.window_start(first)).collect();
            prop_assert_eq!(found, starts);
        }
    }

    #[test]
    fn windows_beyond_64_bits_are_noticed() {
        let windows = Windows::new(10, 10, 0);
        assert!(windows.fit(-100, 100));
        assert!(!windows.fit(i64::MIN, 0) && !windows.fit(0, i64::MAX));
        assert!(windows.fit(i64::MIN + 8, i64::MAX - 8));
        assert!(!Windows::new(11, 10, 0).fit(i64::MIN + 8, 0));
        let first = Windows::new(16, 16, 0);
        assert!(first.fit(i64::MIN, i64::MAX - 16));
        assert_eq!(first.window_start(first.slice_of(i64::MIN)), i64::MIN);
        let late = Windows::new(4, 4, 1);
        assert_eq!(late.slice_of(i64::MIN + 1), late.slice_of(i64::MIN) + 1);
        assert_eq!(Windows::new(1, 2, 1).slice_of(i64::MIN), i64::MIN);
    }
}
