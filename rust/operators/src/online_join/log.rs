//! The rows of one side that are still needed, in merged order.

use super::reach::{Reach, Side};
use crate::interval_join::NO_KEY;

/// Rows by number. The number of a row counts the rows of its side from the first ever; [`Log::first`] is that of the
/// oldest row still here, and a row's *place* its distance from that.
#[derive(Debug)]
pub(super) struct Log {
    side: Side,
    first: u64,
    /// How many of the values below stand for rows that have been let go of. They are moved out when they are many.
    gone: usize,
    ts: Vec<i64>,
    keys: Vec<u32>,
    /// For rows that come out without a match, or once: whether they have had one.
    matched: Option<Vec<bool>>,
    /// How many rows from the first on have been looked at for having had no match.
    settled: usize,
}

impl Log {
    pub(super) fn new(side: Side, is_outer: bool) -> Self {
        let matched = is_outer.then(Vec::new);
        Log { side, first: 0, gone: 0, ts: Vec::new(), keys: Vec::new(), matched, settled: 0 }
    }

    /// The number of the oldest row.
    #[inline]
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// One more than the number of the newest row.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.first + self.len() as u64
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.ts.len() - self.gone
    }

    /// The times of the rows, by place.
    #[inline]
    pub(super) fn ts(&self) -> &[i64] {
        &self.ts[self.gone..]
    }

    /// The keys of the rows, by place.
    #[inline]
    pub(super) fn keys(&self) -> &[u32] {
        &self.keys[self.gone..]
    }

    /// Takes in rows that were kept before, with which of them have had a match, and how many have been settled.
    pub(super) fn restore(&mut self, ts: &[i64], keys: &[u32], matched: &[bool], settled: usize) {
        assert!(self.len() == 0 && ts.len() == keys.len(), "a log without rows takes in rows with their keys");
        self.ts.extend_from_slice(ts);
        self.keys.extend_from_slice(keys);
        if let Some(own) = &mut self.matched {
            own.extend_from_slice(matched);
            own.resize(ts.len(), false);
            self.settled = settled.min(ts.len());
        }
    }

    /// Which rows have had a match, by place, where it matters; and how many have been settled.
    pub(super) fn matched(&self) -> (&[bool], usize) {
        (self.matched.as_ref().map_or(&[], |matched| &matched[self.gone..]), self.settled)
    }

    /// Adds the rows of this side behind the others: all rows' times and sides, and the keys of this side's.
    pub(super) fn extend(&mut self, ts: &[i64], sides: &[Side], keys: &[u32]) {
        // Without a branch on the side, which nothing could predict: others' times are written over.
        let mut at = self.ts.len();
        self.ts.resize(at + keys.len() + 1, 0);
        for (&ts, &side) in ts.iter().zip(sides) {
            self.ts[at] = ts;
            at += usize::from(side == self.side);
        }
        self.ts.truncate(at);
        self.keys.extend_from_slice(keys);
        debug_assert_eq!(self.ts.len(), self.keys.len(), "a key a row");
        if let Some(matched) = &mut self.matched {
            matched.resize(self.keys.len(), false);
        }
    }

    /// Notes that the row at `place` has a match; whether that is its first.
    #[inline]
    pub(super) fn set_matched(&mut self, place: u32) -> bool {
        let matched = self.matched.as_mut().expect("rows that may come out once are told apart");
        !std::mem::replace(&mut matched[self.gone + place as usize], true)
    }

    /// Whether it matters which rows have had a match.
    pub(super) fn is_outer(&self) -> bool {
        self.matched.is_some()
    }

    /// The oldest row that was not settled and has had no match, if no row at `now` or later can match it: the time
    /// after which it comes out, its own time, and its place. `None` for `now` stands for the end of time.
    pub(super) fn unmatched(&mut self, reach: &Reach, now: Option<i64>) -> Option<(i64, i64, u32)> {
        let matched = self.matched.as_ref()?;
        while let Some(&ts) = self.ts.get(self.gone + self.settled) {
            let last = reach.last_matchable(self.side, ts);
            if now.is_some_and(|now| last.is_none_or(|last| last >= now)) {
                return None;
            }
            if !matched[self.gone + self.settled] {
                return Some((last.unwrap_or(i64::MAX), ts, self.settled as u32));
            }
            self.settled += 1;
        }
        None
    }

    /// Goes past the row that [`unmatched`](Self::unmatched) gave.
    pub(super) fn settle(&mut self) {
        self.settled += 1;
    }

    /// Drops rows that no row at `now` or later can match, and gives each one's key to `gone`.
    pub(super) fn purge(&mut self, reach: &Reach, now: Option<i64>, gone: impl FnMut(u32)) {
        let is_needed = self.is_outer() || reach.is_stored(self.side);
        let over = |ts: &i64| now.is_none_or(|now| reach.last_matchable(self.side, *ts).is_some_and(|last| last < now));
        let mut rows = if is_needed { self.ts().partition_point(over) } else { self.len() };
        if self.is_outer() {
            rows = rows.min(self.settled);
        }
        self.keys()[..rows].iter().copied().filter(|&key| key != NO_KEY).for_each(gone);
        self.first += rows as u64;
        self.gone += rows;
        self.settled = self.settled.saturating_sub(rows);
        if self.gone > self.ts.len() / 4 {
            drop_front(&mut self.ts, self.gone);
            drop_front(&mut self.keys, self.gone);
            if let Some(matched) = &mut self.matched {
                drop_front(matched, self.gone);
            }
            self.gone = 0;
        }
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        let of_matched = self.matched.as_ref().map_or(0, Vec::capacity);
        self.ts.capacity() * size_of::<i64>() + self.keys.capacity() * size_of::<u32>() + of_matched
    }
}

/// Removes the first `gone` values, and gives memory back that a burst has taken once it is over.
fn drop_front<T>(values: &mut Vec<T>, gone: usize) {
    values.drain(..gone);
    if values.len() < values.capacity() / 4 {
        values.shrink_to(values.capacity() / 2);
    }
}
