//! Keeps track of rows in arrival order. This module determines how long each row is needed and
//! which rows are emitted unmatched.
//!
//! The watermarks determine how long rows are needed and when unmatched rows are emitted. A row is
//! *expired* once no future row can match it. Expired rows are dropped from the front of the log.
//! If a long-lived row precedes many expired rows, the rows that are still needed are packed
//! together instead.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{KeptColumns, Reach, Side, SideWatermarks};

/// A log with at most this many rows is not checked for sparseness. Debug builds also pack small
/// logs, so that tests at all layers cover packing.
const FEW_ROWS: usize = if cfg!(debug_assertions) { 8 } else { 1 << 14 };

/// The last time at which a row can be matched, and the row's number. The time is `None` if the row
/// cannot be matched.
type Expiry = Reverse<(Option<i64>, u64)>;

/// Data about the rows in a log in arrival order. The log keeps this data in addition to the
/// columns.
#[derive(Debug)]
pub(super) struct Arrival {
    side: Side,
    reach: Reach,
    /// Rows that may have to be emitted unmatched, ordered by the last time at which they can be
    /// matched. `None` if unmatched rows are never emitted. Some of these rows may have been
    /// matched since they were added.
    alone: Option<BinaryHeap<Expiry>>,
    /// If the log has more rows than this, it is checked for expired rows.
    worth_a_look: usize,
}

impl Arrival {
    pub(super) fn new(side: Side, reach: Reach, comes_alone: bool) -> Self {
        let alone = comes_alone.then(BinaryHeap::new);
        Arrival { side, reach, alone, worth_a_look: FEW_ROWS }
    }

    /// Returns the last time at which the row at an offset can be matched. Returns `None` if the
    /// row cannot be matched at any time, for example because of its values.
    #[inline]
    fn last(&self, columns: &impl KeptColumns, offset: usize) -> Option<i64> {
        let ts = columns.ts(offset).filter(|_| columns.can_match(offset));
        self.reach.last(self.side, ts?)
    }

    /// Returns whether a row has expired. The argument is the last time at which the row can be
    /// matched.
    #[inline]
    fn is_over(&self, last: Option<i64>, now: SideWatermarks) -> bool {
        match (last, now[self.side.other() as usize]) {
            (None, _) | (_, None) => true,
            (Some(last), Some(now)) => last < now,
        }
    }

    /// Records the unmatched rows at these offsets. `first` is the number of the oldest row.
    pub(super) fn add(
        &mut self,
        columns: &impl KeptColumns,
        first: u64,
        offsets: impl Iterator<Item = usize>,
    ) {
        if let Some(mut alone) = self.alone.take() {
            let row = |offset| Reverse((self.last(columns, offset), first + offset as u64));
            alone.extend(offsets.map(row));
            self.alone = Some(alone);
        }
    }

    /// Removes all rows.
    pub(super) fn clear(&mut self) {
        self.alone.iter_mut().for_each(BinaryHeap::clear);
    }

    /// Removes the next expired row and returns its number. The row may have been matched since it
    /// was added.
    pub(super) fn next_over(&mut self, now: SideWatermarks) -> Option<u64> {
        let &Reverse((last, number)) = self.alone.as_ref()?.peek()?;
        if !self.is_over(last, now) {
            return None;
        }
        self.alone.as_mut()?.pop();
        Some(number)
    }

    /// Returns the number of expired rows before the oldest row that is still needed.
    pub(super) fn over(&self, columns: &impl KeptColumns, now: SideWatermarks) -> usize {
        let is_over = |&offset: &usize| self.is_over(self.last(columns, offset), now);
        (0..columns.len()).take_while(is_over).count()
    }

    /// Returns the offsets of the rows that are not expired.
    pub(super) fn needed(&self, columns: &impl KeptColumns, now: SideWatermarks) -> Vec<u32> {
        let is_needed = |&offset: &u32| !self.is_over(self.last(columns, offset as usize), now);
        (0..columns.len() as u32).filter(is_needed).collect()
    }

    /// Returns whether at least half of the rows have expired. After each count, rows are counted
    /// again only once the log has twice as many rows as were needed at that count.
    pub(super) fn is_sparse(&mut self, columns: &impl KeptColumns, now: SideWatermarks) -> bool {
        let rows = columns.len();
        if rows <= self.worth_a_look {
            return false;
        }
        let needed = self.needed(columns, now).len();
        self.worth_a_look = FEW_ROWS.max(2 * needed);
        needed <= rows / 2
    }

    /// Returns the memory held, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.alone.as_ref().map_or(0, |alone| alone.capacity() * size_of::<Expiry>())
    }
}
