//! The rows of one side that are still needed, in merged order.

use std::ops::Range;

use tidegate_structures::index::Entry;

use super::Bands;
use crate::rows::{Matched, Retention, Side, drop_front};

/// Rows by number, counted from the first of the side ever. A row's *place* is its distance from
/// [`Log::first`], the oldest row still here.
#[derive(Debug)]
pub(super) struct Log {
    side: Side,
    first: u64,
    /// How many of the values below stand for rows that have been let go of. They are moved out
    /// when they are many.
    gone: usize,
    ts: Vec<i64>,
    /// Whether a row can match anything by its values.
    joins: Vec<bool>,
    /// The rows' codes, by column.
    codes: Vec<Vec<i64>>,
    /// For rows that come out without a match, or once: whether they have had one.
    matched: Option<Vec<bool>>,
    /// How many rows from the first on have been looked at for having had no match.
    settled: usize,
}

impl Log {
    pub(super) fn new(side: Side, columns: usize, is_outer: bool) -> Self {
        let codes = vec![Vec::new(); columns];
        let matched = is_outer.then(Vec::new);
        Log {
            side,
            first: 0,
            gone: 0,
            ts: Vec::new(),
            joins: Vec::new(),
            codes,
            matched,
            settled: 0,
        }
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

    pub(super) fn len(&self) -> usize {
        self.ts.len() - self.gone
    }

    /// Where the values of a row are, given the low bits of its number.
    #[inline]
    fn at(&self, number: u32) -> usize {
        self.gone + number.wrapping_sub(self.first as u32) as usize
    }

    /// The time of the row of that number, if it is here.
    #[inline]
    pub(super) fn ts(&self, number: u64) -> Option<i64> {
        let place = number.checked_sub(self.first)?;
        self.ts.get(self.gone + place as usize).copied()
    }

    /// Whether the row can match anything.
    #[inline]
    pub(super) fn joins(&self, number: u32) -> bool {
        self.joins[self.at(number)]
    }

    /// A row's code in a column.
    #[inline]
    pub(super) fn code(&self, column: usize, number: u32) -> i64 {
        self.codes[column][self.at(number)]
    }

    /// The rows of these numbers that can match anything, as an index has them.
    pub(super) fn entries(&self, numbers: Range<u64>) -> Vec<Entry> {
        let at = |number: u64| self.gone + (number - self.first) as usize;
        let places = at(numbers.start)..at(numbers.end);
        let (keys, joins) = (&self.codes[0][places.clone()], &self.joins[places]);
        let entry = |(&key, number): (&i64, u64)| Entry { key, row: number as u32 };
        // How many they are is known where all can match something, as they mostly can.
        if joins.iter().fold(true, |all, &joins| all & joins) {
            return keys.iter().zip(numbers).map(entry).collect();
        }
        let rows = keys.iter().zip(numbers).zip(joins).filter(|(_, joins)| **joins);
        rows.map(|(row, _)| entry(row)).collect()
    }

    /// Exchanges two columns.
    pub(super) fn swap_columns(&mut self, a: usize, b: usize) {
        self.codes.swap(a, b);
    }

    /// Adds rows behind the others.
    pub(super) fn extend(&mut self, ts: impl Iterator<Item = i64>, bands: &[Bands<'_>]) {
        self.ts.extend(ts);
        let new = self.joins.len();
        fn joins<'a>(band: &Bands<'a>) -> impl Iterator<Item = bool> + use<'a> {
            band.low.iter().zip(band.high).map(|(low, high)| low <= high)
        }
        self.joins.extend(joins(&bands[0]));
        for band in &bands[1..] {
            self.joins[new..].iter_mut().zip(joins(band)).for_each(|(all, joins)| *all &= joins);
        }
        for (codes, band) in self.codes.iter_mut().zip(bands) {
            codes.extend_from_slice(band.codes);
        }
        if let Some(matched) = &mut self.matched {
            matched.resize(self.ts.len(), false);
        }
    }

    /// Notes which of the rows have had a match, and how many have been settled.
    pub(super) fn restore(&mut self, matched: &[bool], settled: usize) {
        if let Some(own) = &mut self.matched {
            own.clear();
            own.extend_from_slice(matched);
            own.resize(self.ts.len(), false);
            self.settled = settled.min(self.ts.len());
        }
    }

    /// Which rows have had a match, by place, where it matters; and how many have been settled.
    pub(super) fn matched(&self) -> (&[bool], usize) {
        (self.matched.as_ref().map_or(&[], |matched| &matched[self.gone..]), self.settled)
    }

    /// The last time at which a row of the other side may match a row; `None` if that is never or
    /// not yet known.
    fn last_matchable(&self, window: &Retention, number: u64) -> Option<i64> {
        match window {
            Retention::Time { .. } => {
                let last = i128::from(self.ts(number)?) + i128::from(window.length(self.side));
                i64::try_from(last).ok()
            }
            // The row that takes its place in the window.
            Retention::Rows { .. } => self.ts(number.checked_add(window.length(self.side))?),
        }
    }

    /// Drops rows before the one of that number, other than those that may still come out.
    pub(super) fn drop_before(&mut self, number: u64) {
        let mut rows = number.saturating_sub(self.first).min(self.len() as u64) as usize;
        if self.is_outer() {
            rows = rows.min(self.settled);
        }
        self.first += rows as u64;
        self.gone += rows;
        self.settled = self.settled.saturating_sub(rows);
        // Each value is moved about twice.
        if self.gone > self.ts.len() / 3 {
            drop_front(&mut self.ts, self.gone);
            drop_front(&mut self.joins, self.gone);
            self.codes.iter_mut().for_each(|codes| drop_front(codes, self.gone));
            self.matched.iter_mut().for_each(|matched| drop_front(matched, self.gone));
            self.gone = 0;
        }
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        let numbers = self.ts.capacity() + self.codes.iter().map(Vec::capacity).sum::<usize>();
        let flags = self.joins.capacity() + self.matched.as_ref().map_or(0, Vec::capacity);
        numbers * size_of::<i64>() + flags
    }
}

impl Matched for Log {
    type Reach = Retention;

    fn is_outer(&self) -> bool {
        self.matched.is_some()
    }

    fn set_matched(&mut self, place: u32) -> bool {
        let matched = self.matched.as_mut().expect("rows that may come out once are told apart");
        !std::mem::replace(&mut matched[self.gone + place as usize], true)
    }

    fn unmatched(&mut self, window: &Retention, now: Option<i64>) -> Option<(i64, i64, u32)> {
        while self.matched.is_some() && self.settled < self.len() {
            let last = self.last_matchable(window, self.first + self.settled as u64);
            if now.is_some_and(|now| last.is_none_or(|last| last >= now)) {
                return None;
            }
            if self.matched.as_ref().is_some_and(|matched| !matched[self.gone + self.settled]) {
                return Some((
                    last.unwrap_or(i64::MAX),
                    self.ts[self.gone + self.settled],
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
