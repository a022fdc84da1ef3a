//! Determines the times at which rows on the two sides match each other. Times are integers, and
//! both ends are included.

use super::{Closed, Interval, Side};

/// The matching times, relative to a row on each side. The offsets have 128 bits, so that sums
/// cannot overflow.
#[derive(Clone, Copy, Debug)]
pub struct Reach {
    /// For a row on each side, the smallest and largest values of `other.ts - row.ts`, where
    /// `other` is a matching row on the other side.
    offsets: [(i128, i128); 2],
    /// The smallest offsets as 64-bit integers, if they fit. Saturating addition then yields the
    /// same result as exact addition with clamping.
    short: [Option<i64>; 2],
}

/// A distance greater than any difference between two times.
const FAR: i128 = 1 << 65;

impl Reach {
    /// Creates the reach of an interval.
    pub fn new(interval: &Interval) -> Self {
        let opened = |end: i64, open: bool, by: i128| i128::from(end) + if open { by } else { 0 };
        let closed = interval.closed;
        let open_below = matches!(closed, Closed::Right | Closed::Neither);
        let open_above = matches!(closed, Closed::Left | Closed::Neither);
        let low = interval.lower.map_or(-FAR, |end| opened(end, open_below, 1));
        let high = interval.upper.map_or(FAR, |end| opened(end, open_above, -1));
        let short = [i64::try_from(low).ok(), i64::try_from(-high).ok()];
        Reach { offsets: [(low, high), (-high, -low)], short }
    }

    /// Returns the first time at which a row on the other side matches a row on `side` at `ts`.
    /// Returns the latest possible time if there is no match.
    #[inline]
    pub fn first(&self, side: Side, ts: i64) -> i64 {
        if let Some(low) = self.short[side as usize] {
            return ts.saturating_add(low);
        }
        let first = i128::from(ts) + self.offsets[side as usize].0;
        first.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// Returns the last time at which a row on the other side matches a row on `side` at `ts`.
    /// Returns `None` if no time matches.
    #[inline]
    pub fn last(&self, side: Side, ts: i64) -> Option<i64> {
        let (low, high) = self.offsets[side as usize];
        let (low, high) = (i128::from(ts) + low, i128::from(ts) + high);
        let none = high < low || low > i64::MAX.into() || high < i64::MIN.into();
        (!none).then_some(high.min(i64::MAX.into()) as i64)
    }

    /// Returns the first and last times at which a row on the other side matches a row on `side` at
    /// `ts`. Returns `None` if no time matches.
    #[inline]
    pub fn times(&self, side: Side, ts: i64) -> Option<(i64, i64)> {
        Some((self.first(side, ts), self.last(side, ts)?))
    }

    /// Returns the first time on the other side that is too late to match a row on `side` at `ts`.
    /// The result is correct only if it is not after `ts`. Returns the earliest possible time if no
    /// time matches.
    #[inline]
    pub fn end(&self, side: Side, ts: i64) -> i64 {
        self.last(side, ts).map_or(i64::MIN, |last| last.saturating_add(1))
    }

    /// Returns whether later rows can match a row on `side` at all. A later row has the same time
    /// as that row or a later time.
    #[inline]
    pub fn is_stored(&self, side: Side) -> bool {
        let (low, high) = self.offsets[side as usize];
        high >= 0 && low <= high
    }

    /// Returns whether a row on `side` matches all earlier rows on the other side that are not too
    /// old.
    #[inline]
    pub fn takes_all(&self, side: Side) -> bool {
        self.offsets[side as usize].1 >= 0
    }

    /// Returns the time after which no later row can match a row on `side` at `ts`. Returns `None`
    /// if there is no such time.
    #[inline]
    pub fn last_matchable(&self, side: Side, ts: i64) -> Option<i64> {
        let (low, high) = self.offsets[side as usize];
        let last = if low <= high { (i128::from(ts) + high).max(ts.into()) } else { ts.into() };
        i64::try_from(last).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oracle_both_sides_agree_with_the_interval() {
        let edges = [i64::MIN, i64::MIN + 1, -3, -1, 0, 1, 2, i64::MAX - 1, i64::MAX];
        for lower in edges.map(Some).into_iter().chain([None]) {
            for upper in edges.map(Some).into_iter().chain([None]) {
                for closed in [Closed::Both, Closed::Left, Closed::Right, Closed::Neither] {
                    let interval = Interval { lower, upper, closed };
                    let reach = Reach::new(&interval);
                    for l in edges {
                        for r in edges {
                            let expected = interval
                                .at(l)
                                .is_some_and(|(first, last)| (first..=last).contains(&r));
                            for (side, ts, other) in [(Side::Left, l, r), (Side::Right, r, l)] {
                                let last = reach.last(side, ts).is_some_and(|last| other <= last);
                                assert_eq!(
                                    last && reach.first(side, ts) <= other,
                                    expected,
                                    "{interval:?} {l} {r}"
                                );
                            }
                            let stored = reach.is_stored(Side::Left)
                                && reach.last_matchable(Side::Left, l) >= Some(r);
                            let never = reach.last_matchable(Side::Left, l).is_none();
                            assert!(!expected || r < l || stored || never, "{interval:?} {l} {r}");
                        }
                    }
                }
            }
        }
    }
}
