//! Time-based windows and the slices that they share.

use std::sync::Arc;

use super::calendar::Calendar;
use super::panes::{WindowPanes, WindowStep};
use crate::aggregate::output::Window;

/// The windows `[k * advance + offset, k * advance + offset + size)` for every integer k.
///
/// The numbers are times, aligned to the epoch or counts of calendar units, such as days in a
/// time zone ([`Calendar`]).
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windows {
    size: i64,
    advance: i64,
    /// The offset, which is at least 0 and less than the advance.
    offset: i64,
    /// The remainder of the size divided by the advance.
    rest: i64,
    /// The starts of the first and last windows to compute.
    starts: (i64, i64),
    /// The number of steps by which the times of rows must be reduced before they are passed.
    behind: i64,
    /// The panes by which windows grow, up to `size`. `None` means that all windows have this size.
    panes: Option<Arc<WindowPanes>>,
    /// The calendar whose units these numbers count. `None` means that they are times.
    calendar: Option<Arc<Calendar>>,
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
        let (offset, rest) = (offset.rem_euclid(advance), size % advance);
        let (panes, calendar) = (None, None);
        Windows { size, advance, offset, rest, starts, behind: 0, panes, calendar }
    }

    /// Creates windows whose size, advance and offset are numbers of calendar units.
    ///
    /// This example groups times in seconds by local day. On the second day, clocks are moved
    /// forward by an hour:
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use tidegate_operators::aggregate::{Calendar, CalendarUnit, Windows, ZoneOffsets};
    ///
    /// let hour = 3_600;
    /// let zone = Arc::new(ZoneOffsets::new(hour, [(25 * hour, 2 * hour)]));
    /// let days = Calendar::new(CalendarUnit::Day, 24 * hour, 0, Some(zone));
    /// let windows = Windows::of_calendar(1, 1, 0, days);
    /// assert_eq!(windows.last_window(0), (-hour, 23 * hour));
    /// assert_eq!(windows.last_window(24 * hour), (23 * hour, 46 * hour));
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the size or the advance is not positive.
    pub fn of_calendar(size: i64, advance: i64, offset: i64, calendar: Calendar) -> Self {
        let calendar = Some(Arc::new(calendar));
        Windows { calendar, ..Self::new(size, advance, offset) }
    }

    /// Returns the windows that contain their ends instead of their starts. Times are whole numbers,
    /// so a time is in `(start, end]` if the previous time is in `[start, end)`. The caller must
    /// reduce times by [`behind`](Self::behind).
    #[must_use]
    pub fn closed_right(self) -> Self {
        Windows { behind: 1, ..self }
    }

    /// Returns the number of steps by which times must be reduced before they are passed.
    pub fn behind(&self) -> i64 {
        self.behind
    }

    /// Returns windows that begin with these windows and end after one step, after two steps and so
    /// on. The last one ends with the original window. The original windows must be adjacent.
    ///
    /// ```
    /// use tidegate_operators::aggregate::{WindowStep, Windows};
    ///
    /// let windows = Windows::new(10, 10, 0).growing_by(WindowStep::Time(5));
    /// // The row at 3 is in the windows from 0 to 5 and from 0 to 10.
    /// assert_eq!(windows.last_window(3), (0, 10));
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the windows are not adjacent, or if the step is not positive.
    #[must_use]
    pub fn growing_by(self, step: WindowStep) -> Self {
        assert!(self.size == self.advance, "windows that grow must be adjacent");
        let panes = WindowPanes::new(step, self.size, self.calendar(), self.longest());
        Windows { panes: Some(Arc::new(panes)), ..self }
    }

    /// Returns whether all windows of a block begin at the same time.
    pub fn grow(&self) -> bool {
        self.panes.is_some()
    }

    /// Returns the first slice of the last window that begins at or before a slice, if windows grow.
    ///
    /// A window is identified by the slice that is `length - 1` before its last slice, as if it had
    /// the full length.
    pub(in crate::aggregate) fn first_slice(&self, window: Slice) -> Slice {
        let length = self.length();
        let last = i128::from(window) + i128::from(length) - 1;
        (last.div_euclid(length.into()) * i128::from(length)) as Slice
    }

    /// Returns whether a window differs from the previous window. Windows that would end after their
    /// block do not exist.
    pub(in crate::aggregate) fn exists(&self, window: Slice) -> bool {
        let Some(panes) = &self.panes else { return true };
        let last = i128::from(window) + i128::from(panes.most) - 1;
        self.start(last) < self.start(last + 1)
    }

    /// Returns the starts of the block that contains a slice and of the next one, and the pane.
    fn pane(&self, panes: &WindowPanes, slice: i128) -> (i128, i128, i64) {
        let most = i128::from(panes.most);
        let start =
            |block: i128| self.time_of(block * i128::from(self.size) + i128::from(self.offset));
        let block = slice.div_euclid(most);
        (start(block), start(block + 1), slice.rem_euclid(most) as i64)
    }

    /// Returns the slice that contains a time, if windows grow.
    fn pane_with(&self, panes: &WindowPanes, ts: i64) -> Slice {
        let since = i128::from(self.number_of(ts)) - i128::from(self.offset);
        let first = since.div_euclid(self.size.into()) * i128::from(panes.most);
        let (start, ..) = self.pane(panes, first);
        let slice = first + i128::from(panes.pane_of(ts, start));
        slice.clamp(Slice::MIN.into(), Slice::MAX.into()) as Slice
    }

    /// Returns the calendar, if the windows consist of calendar units.
    pub fn calendar(&self) -> Option<&Calendar> {
        self.calendar.as_deref()
    }

    /// Restricts the windows of tables to those that end after `after` but no later than `upto`.
    /// The result can include a few additional windows.
    #[must_use]
    pub fn that_end(self, after: Option<i64>, upto: Option<i64>) -> Self {
        if let Some(panes) = &self.panes {
            let first = |ts| self.pane_with(panes, ts).saturating_sub(panes.most - 1);
            let starts = (after.map_or(i64::MIN, first), upto.map_or(i64::MAX, first));
            return Windows { starts, ..self };
        }
        let number = |ts| self.number_of(ts);
        let first = after.and_then(|after| number(after).checked_sub(self.size - 1));
        let last = upto.map_or(i64::MAX, |upto| number(upto).saturating_sub(self.size));
        Windows { starts: (first.unwrap_or(i64::MIN), last), ..self }
    }

    /// Returns the range of slices at which the windows to compute begin.
    pub(in crate::aggregate) fn starting_slices(&self) -> std::ops::Range<Slice> {
        let (first, last) = self.starts;
        if self.panes.is_some() {
            return first..last.saturating_add(1);
        }
        let first = if first == i64::MIN { Slice::MIN } else { self.slice_with(first) };
        let last = if last == i64::MAX { Slice::MAX } else { self.slice_with(last) + 1 };
        first..last
    }

    /// Returns whether all windows that contain times from `low` to `high` begin and end within 64
    /// bits.
    pub fn fit(&self, low: i64, high: i64) -> bool {
        let [low, high] = [low, high].map(|ts| i128::from(self.number_of(ts)));
        let [size, advance, offset] = [self.size, self.advance, self.offset].map(i128::from);
        // The first window that ends after `low`, and the last one that begins at or before `high`.
        let first = ((low - offset - size).div_euclid(advance) + 1) * advance + offset;
        let last = (high - offset).div_euclid(advance) * advance + offset + size;
        let fits = |number| i64::try_from(self.time_of(number)).is_ok();
        // Each slice needs a number, too.
        let is_numbered = |number| i64::try_from(number).is_ok();
        let slices = |number: i128| {
            number.div_euclid(advance)
                * i128::from(self.panes.as_ref().map_or(1, |panes| panes.most))
        };
        [first, last]
            .into_iter()
            .all(|number| is_numbered(number) && fits(number) && is_numbered(slices(number)))
    }

    /// Returns the size, the advance and the offset, in calendar units if there is a calendar. The
    /// offset is at least 0 and less than the advance.
    pub fn lengths(&self) -> (i64, i64, i64) {
        (self.size, self.advance, self.offset)
    }

    /// Returns an upper bound on the length of a window. Without a calendar, this is the size.
    pub fn longest(&self) -> i64 {
        self.calendar.as_ref().map_or(self.size, |calendar| calendar.longest(self.size))
    }

    /// Returns the last window that begins at or before a time. Bounds outside the range of 64-bit
    /// integers are clamped to it.
    pub fn last_window(&self, ts: i64) -> (i64, i64) {
        let [number, size, advance, offset] =
            [self.number_of(ts), self.size, self.advance, self.offset].map(i128::from);
        let start = (number - offset).div_euclid(advance) * advance + offset;
        (self.clamped(start), self.clamped(start + size))
    }

    /// Returns the number of the last window that starts at or before a time. Windows are numbered
    /// in the order of their starts, then of their ends.
    pub fn last_started(&self, ts: i64) -> i64 {
        let since = i128::from(self.number_of(ts)) - i128::from(self.offset);
        let number = since.div_euclid(self.advance.into());
        match &self.panes {
            None => number as i64,
            Some(panes) => ((number + 1) * i128::from(panes.most) - 1) as i64,
        }
    }

    /// Returns the number of the last window that ends at or before a time.
    pub fn last_ended(&self, ts: i64) -> i64 {
        if let Some(panes) = &self.panes {
            return self.pane_with(panes, ts).saturating_sub(1);
        }
        let [number, size, offset] = [self.number_of(ts), self.size, self.offset].map(i128::from);
        (number - size - offset).div_euclid(self.advance.into()) as i64
    }

    /// Returns the number of the window with these bounds.
    pub fn number_of_window(&self, start: i64, end: i64) -> i64 {
        if let Some(panes) = &self.panes {
            return self.pane_with(panes, end.saturating_sub(1));
        }
        let mut number = self.last_started(start);
        // Several windows start at the same time if a time zone has skipped days.
        while self.nth_window(number).1 > end {
            number -= 1;
        }
        number
    }

    /// Returns the bounds of the window with this number. Bounds outside the range of 64-bit
    /// integers are clamped to it.
    pub fn nth_window(&self, number: i64) -> (i64, i64) {
        if let Some(panes) = &self.panes {
            let limits = (i64::MIN.into(), i64::MAX.into());
            let clamped = |time: i128| time.clamp(limits.0, limits.1) as i64;
            let (start, ..) = self.pane(panes, number.into());
            return (clamped(start), clamped(self.start(i128::from(number) + 1)));
        }
        let [number, size, advance, offset] =
            [number, self.size, self.advance, self.offset].map(i128::from);
        let start = number * advance + offset;
        (self.clamped(start), self.clamped(start + size))
    }

    /// Returns whether the window with this number contains any times and differs from the previous
    /// window.
    pub fn has_window(&self, number: i64) -> bool {
        let (start, end) = self.nth_window(number);
        match self.panes {
            None => start < end,
            Some(_) => self.start(number.into()) < self.start(i128::from(number) + 1),
        }
    }

    /// Returns whether any window ends after `after` but no later than `upto`.
    pub fn end_between(&self, after: i64, upto: i64) -> bool {
        if let Some(panes) = &self.panes {
            let next = i128::from(self.pane_with(panes, after)) + 1;
            return self.start(next) <= i128::from(upto);
        }
        let [after, upto] = [after, upto].map(|ts| i128::from(self.number_of(ts)));
        let [size, advance, offset] = [self.size, self.advance, self.offset].map(i128::from);
        after + 1 + (offset + size - after - 1).rem_euclid(advance) <= upto
    }

    /// Returns the first time that may be in a window that ends after `ts`.
    pub fn first_time_of_open(&self, ts: i64) -> i64 {
        if self.panes.is_some() {
            return self.last_window(ts).0;
        }
        self.clamped(i128::from(self.number_of(ts)) - i128::from(self.size) + 1)
    }

    /// Returns the number of slices in a window.
    pub(in crate::aggregate) fn length(&self) -> i64 {
        if let Some(panes) = &self.panes {
            return panes.most;
        }
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
        if let Some(panes) = &self.panes {
            return self.pane_with(panes, ts);
        }
        self.slice_with(self.number_of(ts))
    }

    /// Returns the slice that contains a time or calendar unit.
    fn slice_with(&self, number: i64) -> Slice {
        let Some(since) = number.checked_sub(self.offset) else {
            // One advance later, the difference fits in 64 bits.
            return self.slice_with(number + self.advance).saturating_sub(self.stride());
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
        if let Some(panes) = &self.panes {
            let last = i128::from(slice) + i128::from(panes.most) - 1;
            let time = |ts| i64::try_from(ts).expect("the windows of all rows fit");
            let (start, ..) = self.pane(panes, last);
            return Window { start: time(start), end: time(self.start(last + 1)), rows };
        }
        let start = self.window_start(slice);
        let end = match self.calendar {
            None => start + self.size,
            Some(_) => {
                let end = self.number(slice.into()) + i128::from(self.size);
                i64::try_from(self.time_of(end)).expect("the windows of all rows fit")
            }
        };
        Window { start, end, rows }
    }

    /// Returns whether the slice contains any times and all windows that cover these times begin
    /// and end within 64 bits.
    pub(in crate::aggregate) fn has(&self, slice: Slice) -> bool {
        let first = self.start(slice.into());
        let last = (self.start(i128::from(slice) + 1) - 1).min(i64::MAX.into());
        let is_whole = first <= last && i64::try_from(last).is_ok_and(|ts| self.fit(ts, ts));
        is_whole && !self.is_gap(slice)
    }

    /// Returns the first time in a slice.
    fn start(&self, slice: i128) -> i128 {
        if let Some(panes) = &self.panes {
            let (block, next, pane) = self.pane(panes, slice);
            return panes.start(pane, block, next);
        }
        self.time_of(self.number(slice))
    }

    /// Returns the first time or calendar unit in a slice.
    fn number(&self, slice: i128) -> i128 {
        let (step, within) = match self.rest {
            0 => (slice, 0),
            rest => (slice.div_euclid(2), slice.rem_euclid(2) * i128::from(rest)),
        };
        step * i128::from(self.advance) + i128::from(self.offset) + within
    }

    /// Returns the number that represents a time in lengths: the calendar unit, or the time itself.
    fn number_of(&self, ts: i64) -> i64 {
        self.calendar.as_ref().map_or(ts, |calendar| calendar.unit_of(ts))
    }

    /// Returns the first time with this number.
    fn time_of(&self, number: i128) -> i128 {
        self.calendar.as_ref().map_or(number, |calendar| calendar.start_of(number))
    }

    /// Returns the first time with this number, or the closest 64-bit integer.
    fn clamped(&self, number: i128) -> i64 {
        self.time_of(number).clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// Returns `true` if no window covers the slice.
    pub(in crate::aggregate) fn is_gap(&self, slice: Slice) -> bool {
        self.advance > self.size && slice.rem_euclid(2) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::super::calendar::{CalendarUnit, ZoneOffsets};
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

        #[test]
        fn oracle_a_calendar_window_is_a_run_of_units(
            size in 1_i64..6, advance in 1_i64..6, offset in -9_i64..9, shift in -30_i64..30,
            changes in proptest::collection::btree_map(-90_i64..90, -20_i64..20, 0..4),
            ts in -100_i64..100, months in proptest::bool::ANY,
        ) {
            let zone = ZoneOffsets::new(0, changes.into_iter().map(|(at, by)| (at * 86_400, by * 3_600)));
            let unit = if months { CalendarUnit::Month } else { CalendarUnit::Day };
            let day = 86_400;
            let calendar = Calendar::new(unit, day, shift * 3_600, Some(Arc::new(zone)));
            let start = |number: i64| i64::try_from(calendar.start_of(number.into())).unwrap();
            let ts = ts * day * if months { 30 } else { 1 } + 7;
            let windows = Windows::of_calendar(size, advance, offset, calendar.clone());
            let all: Vec<(i64, i64)> = (-200..200).map(|k| k * advance + offset)
                .map(|first| (start(first), start(first + size))).collect();
            let wanted: Vec<(i64, i64)> = all.iter().copied()
                .filter(|(start, end)| (*start..*end).contains(&ts)).collect();
            let slice = windows.slice_of(ts);
            prop_assert!(windows.start(slice.into()) <= ts.into() && ts <= windows.last_time(slice));
            prop_assert_eq!(windows.is_gap(slice), wanted.is_empty());
            let found: Vec<(i64, i64)> = (slice - windows.length() + 1..=slice)
                .filter(|first| first % windows.stride() == 0 && !windows.is_gap(slice))
                .map(|first| windows.window(first, 0)).map(|window| (window.start, window.end))
                .collect();
            prop_assert_eq!(&found, &wanted);
            prop_assert!(all.iter().all(|(start, end)| end - start <= windows.longest()));
            let last = all.iter().copied().filter(|(start, _)| *start <= ts).max_by_key(|one| one.0);
            prop_assert_eq!(windows.last_window(ts).0, last.unwrap().0);
            for other in [ts, ts + day, ts + 40 * day] {
                let ends = all.iter().any(|(_, end)| ts < *end && *end <= other);
                prop_assert_eq!(windows.end_between(ts, other), ends);
            }
            let open = all.iter().filter(|(_, end)| *end > ts).map(|(start, _)| *start).min();
            prop_assert!(windows.first_time_of_open(ts) <= open.unwrap());
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
