//! The rows of one side that are still needed, in merged order.

use super::Extent;
use crate::rows::{Matched, Reach, Side, drop_front};

/// Rows by number. The number of a row counts the rows of its side from the first ever;
/// [`Log::first`] is that of the oldest row still here, and a row's *place* its distance from that.
#[derive(Debug)]
pub(crate) struct Log {
    side: Side,
    first: u64,
    /// How many of the values below stand for rows that have been let go of. They are moved out
    /// when they are many.
    gone: usize,
    ts: Vec<i64>,
    /// For rows that come out without a match, or once: whether they have had one.
    matched: Option<Vec<bool>>,
    /// How many rows from the first on have been looked at for having had no match.
    settled: usize,
}

impl Log {
    pub(crate) fn new(side: Side, is_outer: bool) -> Self {
        let matched = is_outer.then(Vec::new);
        Log { side, first: 0, gone: 0, ts: Vec::new(), matched, settled: 0 }
    }

    #[inline]
    pub(crate) fn side(&self) -> Side {
        self.side
    }

    /// The number of the oldest row.
    #[inline]
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// One more than the number of the newest row.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.first + self.len() as u64
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.ts.len() - self.gone
    }

    /// The times of the rows, by place.
    #[inline]
    pub(crate) fn ts(&self) -> &[i64] {
        &self.ts[self.gone..]
    }

    /// Takes in rows that were kept before, with which of them have had a match, and how many have
    /// been settled.
    pub(crate) fn restore(&mut self, ts: &[i64], matched: &[bool], settled: usize) {
        assert!(self.len() == 0, "a log without rows takes in rows");
        self.ts.extend_from_slice(ts);
        if let Some(own) = &mut self.matched {
            own.extend_from_slice(matched);
            own.resize(ts.len(), false);
            self.settled = settled.min(ts.len());
        }
    }

    /// Which rows have had a match, by place, where it matters; and how many have been settled.
    pub(crate) fn matched(&self) -> (&[bool], usize) {
        (self.matched.as_ref().map_or(&[], |matched| &matched[self.gone..]), self.settled)
    }

    /// Adds the rows of this side behind the others, given all rows' times and sides.
    pub(crate) fn extend(&mut self, ts: &[i64], sides: &[Side]) {
        let own = ts.iter().zip(sides).filter(|(_, side)| **side == self.side);
        self.ts.extend(own.map(|(ts, _)| *ts));
        if let Some(matched) = &mut self.matched {
            matched.resize(self.ts.len(), false);
        }
    }

    /// Drops rows that no row at `now` or later can match.
    pub(crate) fn purge(&mut self, reach: &Reach, now: Option<i64>) {
        let over = |ts: &i64| {
            now.is_none_or(|now| {
                reach.last_matchable(self.side, *ts).is_some_and(|last| last < now)
            })
        };
        let rows = self.ts().partition_point(over);
        self.drop_first(rows);
    }

    /// Drops rows with smaller numbers.
    pub(crate) fn purge_before(&mut self, number: u64) {
        self.drop_first(number.saturating_sub(self.first).min(self.len() as u64) as usize);
    }

    /// Drops so many rows from the front, as far as they are settled if that matters.
    fn drop_first(&mut self, rows: usize) {
        let rows = if self.is_outer() { rows.min(self.settled) } else { rows };
        self.first += rows as u64;
        self.gone += rows;
        self.settled = self.settled.saturating_sub(rows);
        if self.gone > self.ts.len() / 4 {
            drop_front(&mut self.ts, self.gone);
            if let Some(matched) = &mut self.matched {
                drop_front(matched, self.gone);
            }
            self.gone = 0;
        }
    }

    /// Bytes held.
    pub(crate) fn memory(&self) -> usize {
        let of_matched = self.matched.as_ref().map_or(0, Vec::capacity);
        self.ts.capacity() * size_of::<i64>() + of_matched
    }
}

impl Matched for Log {
    type Reach = Extent;

    fn is_outer(&self) -> bool {
        self.matched.is_some()
    }

    #[inline]
    fn set_matched(&mut self, place: u32) -> bool {
        let matched = self.matched.as_mut().expect("rows that may come out once are told apart");
        !std::mem::replace(&mut matched[self.gone + place as usize], true)
    }

    fn unmatched(&mut self, extent: &Extent, now: Option<i64>) -> Option<(i64, i64, u32)> {
        while self.matched.is_some() && self.settled < self.len() {
            let last = extent.last_matchable(self, self.settled);
            if now.is_some_and(|now| last.is_none_or(|last| last >= now)) {
                return None;
            }
            if self.matched.as_ref().is_some_and(|matched| !matched[self.gone + self.settled]) {
                return Some((
                    last.unwrap_or(i64::MAX),
                    self.ts()[self.settled],
                    self.settled as u32,
                ));
            }
            self.settled += 1;
        }
        None
    }

    fn settle(&mut self) {
        self.settled += 1;
    }
}
