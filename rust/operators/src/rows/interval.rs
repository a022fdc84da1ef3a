//! The times that match.

/// Specifies which ends of an interval are included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// Both ends.
    Both,
    /// Only the lower end.
    Left,
    /// Only the upper end.
    Right,
    /// Neither end.
    Neither,
}

/// The times of matching right rows, relative to the left row's time. An end that is `None` is
/// unbounded.
///
/// Arithmetic is exact, as with unlimited precision: an end outside the 64-bit range admits either
/// all rows or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The lower end.
    pub lower: Option<i64>,
    /// The upper end.
    pub upper: Option<i64>,
    /// The ends that are included.
    pub closed: Closed,
}

/// Determines the first and last times of the right rows that match a left row. Codes for other
/// values can be used instead of times. Such codes are integers in the same order as the values.
pub(crate) trait LeftReach: Sync {
    /// `true` if both ends are nondecreasing whenever a key's left rows are in time order.
    const RISING: bool = true;

    /// Returns the first and last matching times for the left row with this number and time.
    /// Returns `None` if the row matches nothing.
    fn at(&self, row: usize, ts: i64) -> Option<(i64, i64)>;

    /// Returns two distances. A right row is too early for a left row if `right time - left time`
    /// is at most the first distance. A right row is not too late if this difference is at most the
    /// second distance. Returns `None` if these conditions are not exact in 64 bits for all left
    /// times from `first` to `last`.
    fn distances(&self, _first: i64, _last: i64) -> Option<(i64, i64)> {
        None
    }
}

/// The first and last matching times for each left row, indexed by row number. If the first time is
/// after the last time, the row matches nothing.
#[derive(Clone, Copy, Debug)]
pub struct RowEnds<'a> {
    /// The first matching time of each row.
    pub first: &'a [i64],
    /// The last matching time of each row.
    pub last: &'a [i64],
}

impl LeftReach for RowEnds<'_> {
    const RISING: bool = false;

    #[inline]
    fn at(&self, row: usize, _ts: i64) -> Option<(i64, i64)> {
        let (first, last) = (self.first[row], self.last[row]);
        (first <= last).then_some((first, last))
    }
}

impl LeftReach for Interval {
    #[inline]
    fn at(&self, _row: usize, ts: i64) -> Option<(i64, i64)> {
        Interval::at(self, ts)
    }

    fn distances(&self, first: i64, last: i64) -> Option<(i64, i64)> {
        let early = match self.closed {
            Closed::Both | Closed::Left => self.lower?.checked_sub(1)?,
            Closed::Right | Closed::Neither => self.lower?,
        };
        let late = match self.closed {
            Closed::Both | Closed::Right => self.upper?,
            Closed::Left | Closed::Neither => self.upper?.checked_sub(1)?,
        };
        let adds_up = |distance: i64| {
            first.checked_add(distance).is_some() && last.checked_add(distance).is_some()
        };
        (early <= late && adds_up(early) && adds_up(late)).then_some((early, late))
    }
}

impl Interval {
    /// Returns the interval that is equivalent to time windows with these lengths for left and
    /// right rows.
    pub fn of_windows(left: u64, right: u64) -> Interval {
        let steps = |time: u64| i64::try_from(time).unwrap_or(i64::MAX);
        Interval { lower: Some(-steps(right)), upper: Some(steps(left)), closed: Closed::Both }
    }

    /// Returns the first and last matching times for a left row at `ts`, or `None` if no time
    /// matches.
    #[inline]
    pub fn at(&self, ts: i64) -> Option<(i64, i64)> {
        let first = self.first(ts)?;
        let last = self.last(ts)?;
        (first <= last).then_some((first, last))
    }

    /// Returns the first matching time, or `None` if it would be after the latest possible time.
    #[inline]
    pub fn first(&self, ts: i64) -> Option<i64> {
        let Some(lower) = self.lower else { return Some(i64::MIN) };
        match ts.checked_add(lower) {
            Some(first) if matches!(self.closed, Closed::Both | Closed::Left) => Some(first),
            Some(first) => first.checked_add(1),
            None if lower < 0 => Some(i64::MIN),
            None => None,
        }
    }

    /// Returns the last matching time, or `None` if it would be before the earliest possible time.
    #[inline]
    pub fn last(&self, ts: i64) -> Option<i64> {
        let Some(upper) = self.upper else { return Some(i64::MAX) };
        match ts.checked_add(upper) {
            Some(last) if matches!(self.closed, Closed::Both | Closed::Right) => Some(last),
            Some(last) => last.checked_sub(1),
            None if upper > 0 => Some(i64::MAX),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oracle_exact_arithmetic_at_the_ends_of_the_range() {
        let edges = [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX];
        for ts in edges {
            for lower in edges.map(Some).into_iter().chain([None]) {
                for upper in edges.map(Some).into_iter().chain([None]) {
                    for closed in [Closed::Both, Closed::Left, Closed::Right, Closed::Neither] {
                        let found = Interval { lower, upper, closed }.at(ts);
                        for r in edges {
                            let [lower, upper] =
                                [lower, upper].map(|end| end.map(|end| ts as i128 + end as i128));
                            let above = lower.is_none_or(|lower| match closed {
                                Closed::Both | Closed::Left => lower <= r as i128,
                                _ => lower < r as i128,
                            });
                            let below = upper.is_none_or(|upper| match closed {
                                Closed::Both | Closed::Right => r as i128 <= upper,
                                _ => (r as i128) < upper,
                            });
                            let inside =
                                found.is_some_and(|(first, last)| (first..=last).contains(&r));
                            assert_eq!(
                                inside,
                                above && below,
                                "{ts} {lower:?} {upper:?} {closed:?} {r}"
                            );
                        }
                    }
                }
            }
        }
    }
}
