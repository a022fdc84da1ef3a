//! Sliding windows, which determine the earlier rows on the other side that a row can match.

use std::collections::VecDeque;

use tidegate_operators::rows::{Retention, Side};

/// A row's number within its side, and the numbers of the earlier rows that it can match on the
/// other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WindowPlace {
    pub(super) number: u64,
    /// The number of the first row on the other side that is in this row's window.
    pub(super) from: u64,
    /// The number of the first row on the other side that follows this row.
    pub(super) upto: u64,
}

impl WindowPlace {
    /// Returns the row's position in the merged order of both sides.
    pub(super) fn seq(&self) -> u64 {
        self.number + self.upto
    }

    /// Returns whether the windows allow two rows on different sides to match.
    pub(super) fn meets(&self, other: &WindowPlace) -> bool {
        let reaches = |later: &WindowPlace, earlier: &WindowPlace| {
            (later.from..later.upto).contains(&earlier.number)
        };
        reaches(self, other) || reaches(other, self)
    }
}

/// Numbers arriving rows, and tracks which rows are still in the window.
#[derive(Debug)]
pub(super) struct Tracker {
    /// The lengths of the windows, by side.
    lengths: [u64; 2],
    /// The times of the rows that are still in the window, by side. `None` if windows count rows.
    times: Option<[VecDeque<i64>; 2]>,
    /// The number of the oldest row on each side that is still in the window.
    first: [u64; 2],
    /// The number of the next row on each side.
    next: [u64; 2],
}

impl Tracker {
    pub(super) fn new(window: Retention) -> Self {
        let (left, right, times) = match window {
            Retention::Time { left, right } => (left, right, Some(Default::default())),
            Retention::Rows { left, right } => (left, right, None),
        };
        Tracker { lengths: [left, right], times, first: [0; 2], next: [0; 2] }
    }

    /// Returns the position of the next row. The row must not precede any earlier row.
    pub(super) fn place(&mut self, side: Side, ts: i64) -> WindowPlace {
        self.expire(ts);
        let (own, other) = (side as usize, side.other() as usize);
        let place =
            WindowPlace { number: self.next[own], from: self.first[other], upto: self.next[other] };
        self.next[own] += 1;
        match &mut self.times {
            Some(times) => times[own].push_back(ts),
            None => self.first[own] = self.next[own].saturating_sub(self.lengths[own]),
        }
        place
    }

    /// Drops rows that no row at `now` or later can match.
    pub(super) fn expire(&mut self, now: i64) {
        let Some(times) = &mut self.times else { return };
        for (side, times) in times.iter_mut().enumerate() {
            while times.front().is_some_and(|&ts| ts < now && now.abs_diff(ts) > self.lengths[side])
            {
                times.pop_front();
                self.first[side] += 1;
            }
            shrink(times);
        }
    }

    /// Drops all rows.
    pub(super) fn end(&mut self) {
        self.first = self.next;
        self.times.iter_mut().flatten().for_each(VecDeque::clear);
    }

    /// Returns two row numbers for a side: that of the oldest row still in the window, and that of
    /// the next row.
    pub(super) fn span(&self, side: Side) -> Span {
        Span { first: self.first[side as usize], next: self.next[side as usize] }
    }

    /// Returns the number of bytes in use.
    pub(super) fn memory(&self) -> usize {
        self.times.iter().flatten().map(|times| times.capacity() * size_of::<i64>()).sum()
    }
}

/// Frees unused capacity if there is a lot of it.
pub(super) fn shrink<T>(values: &mut VecDeque<T>) {
    if values.capacity() > 4 * values.len() + LITTLE {
        values.shrink_to(2 * values.len());
    }
}

/// The capacity, in values, below which no memory is freed.
const LITTLE: usize = 1 << 10;

/// The numbers of a side's rows that are still in the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) first: u64,
    pub(super) next: u64,
}

impl Span {
    /// Divides the rows into `shares` equal parts, and returns the number of the first row after
    /// the oldest `share` parts.
    pub(super) fn oldest(&self, share: usize, shares: usize) -> u64 {
        self.first + (u128::from(self.next - self.first) * share as u128 / shares as u128) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_window_ends_with_its_last_time() {
        let mut tracker = Tracker::new(Retention::Time { left: 10, right: 0 });
        assert_eq!(tracker.place(Side::Left, 0), WindowPlace { number: 0, from: 0, upto: 0 });
        assert_eq!(tracker.place(Side::Right, 10), WindowPlace { number: 0, from: 0, upto: 1 });
        assert_eq!(tracker.place(Side::Left, 10), WindowPlace { number: 1, from: 0, upto: 1 });
        assert_eq!(tracker.place(Side::Right, 11), WindowPlace { number: 1, from: 1, upto: 2 });
        assert_eq!(tracker.span(Side::Right), Span { first: 1, next: 2 });
    }

    #[test]
    fn the_longest_window_never_ends() {
        let mut tracker = Tracker::new(Retention::Time { left: u64::MAX, right: u64::MAX - 1 });
        tracker.place(Side::Left, i64::MIN);
        tracker.place(Side::Right, i64::MIN);
        let last = tracker.place(Side::Left, i64::MAX);
        assert_eq!(tracker.span(Side::Left).first, 0);
        assert_eq!((last.from, last.upto), (1, 1), "the right row's window is one step too short");
    }

    #[test]
    fn a_count_window_counts_the_rows_of_its_side() {
        let mut tracker = Tracker::new(Retention::Rows { left: 2, right: 1 });
        let places: Vec<_> =
            [Side::Left, Side::Left, Side::Left, Side::Right, Side::Right, Side::Left]
                .map(|side| tracker.place(side, 0))
                .into_iter()
                .map(|place| (place.from, place.upto, place.seq()))
                .collect();
        assert_eq!(places, [(0, 0, 0), (0, 0, 1), (0, 0, 2), (1, 3, 3), (1, 3, 4), (1, 2, 5)]);
    }
}
