//! The rows of one side that are still needed, in merged order.

use std::collections::VecDeque;

use super::reach::{Reach, Side};
use crate::interval_join::NO_KEY;

/// Rows by number. The number of a row counts the rows of its side from the first ever; [`Log::first`] is that of the
/// oldest row still here.
#[derive(Debug)]
pub(super) struct Log {
    side: Side,
    first: u64,
    keys: VecDeque<u32>,
    /// Where each epoch's rows end, and their last time.
    marks: VecDeque<(u64, i64)>,
    /// For rows that come out without a match, or once: their times, and whether they have had one.
    outer: Option<Outer>,
}

#[derive(Debug, Default)]
struct Outer {
    ts: VecDeque<i64>,
    matched: VecDeque<bool>,
    /// How many of the rows have been looked at for having had no match.
    settled: usize,
}

impl Log {
    pub(super) fn new(side: Side, is_outer: bool) -> Self {
        Log { side, first: 0, keys: VecDeque::new(), marks: VecDeque::new(), outer: is_outer.then(Outer::default) }
    }

    /// The number of the oldest row.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// One more than the number of the newest row.
    pub(super) fn end(&self) -> u64 {
        self.first + self.keys.len() as u64
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn push(&mut self, ts: i64, key: u32) {
        self.keys.push_back(key);
        if let Some(outer) = &mut self.outer {
            outer.ts.push_back(ts);
            outer.matched.push_back(false);
        }
    }

    /// Notes that the epoch's rows end here, the last of all rows being at `last`.
    pub(super) fn mark(&mut self, last: i64) {
        let end = self.end();
        if self.marks.back().map_or(self.first, |&(end, _)| end) < end {
            self.marks.push_back((end, last));
        }
    }

    /// A row's distance from the oldest, from the low bits of its number.
    #[inline]
    pub(super) fn place(&self, number: u32) -> u32 {
        number.wrapping_sub(self.first as u32)
    }

    /// Notes that the row at `place` has a match; whether that is its first.
    #[inline]
    pub(super) fn set_matched(&mut self, place: u32) -> bool {
        match &mut self.outer {
            None => false,
            Some(outer) => !std::mem::replace(&mut outer.matched[place as usize], true),
        }
    }

    pub(super) fn is_outer(&self) -> bool {
        self.outer.is_some()
    }

    /// The oldest row that was not settled and has had no match, if no row at `now` or later can match it: the time
    /// after which it comes out, its own time, and its place. `None` for `now` stands for the end of time.
    pub(super) fn unmatched(&mut self, reach: &Reach, now: Option<i64>) -> Option<(i64, i64, u32)> {
        let outer = self.outer.as_mut()?;
        while let Some(&ts) = outer.ts.get(outer.settled) {
            let last = reach.last_matchable(self.side, ts);
            if now.is_some_and(|now| last.is_none_or(|last| last >= now)) {
                return None;
            }
            if !outer.matched[outer.settled] {
                return Some((last.unwrap_or(i64::MAX), ts, outer.settled as u32));
            }
            outer.settled += 1;
        }
        None
    }

    /// Goes past the row that [`unmatched`](Self::unmatched) gave.
    pub(super) fn settle(&mut self) {
        if let Some(outer) = &mut self.outer {
            outer.settled += 1;
        }
    }

    /// Drops rows, whole epochs of them, that no row at `now` or later can match, and gives each one's key to `gone`.
    pub(super) fn purge(&mut self, reach: &Reach, now: Option<i64>, mut gone: impl FnMut(u32)) {
        let is_needed = self.is_outer() || reach.is_stored(self.side);
        while let Some(&(end, last)) = self.marks.front() {
            let rows = (end - self.first) as usize;
            let last = reach.last_matchable(self.side, last);
            let matchable = is_needed && now.is_some_and(|now| last.is_none_or(|last| last >= now));
            let unsettled = self.outer.as_ref().is_some_and(|outer| outer.settled < rows);
            if matchable || unsettled {
                return;
            }
            self.keys.drain(..rows).filter(|&key| key != NO_KEY).for_each(&mut gone);
            if let Some(outer) = &mut self.outer {
                outer.ts.drain(..rows);
                outer.matched.drain(..rows);
                outer.settled -= rows;
            }
            self.first = end;
            self.marks.pop_front();
        }
        // What a burst has taken is given back when it is over.
        if self.keys.len() < self.keys.capacity() / 8 {
            self.keys.shrink_to(self.keys.capacity() / 4);
        }
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        let of_outer = |outer: &Outer| outer.ts.capacity() * size_of::<i64>() + outer.matched.capacity();
        self.keys.capacity() * size_of::<u32>() + self.outer.as_ref().map_or(0, of_outer)
    }
}
