//! Rows that come in any order of time: for how long they are needed, and which come out alone.
//!
//! Watermarks say both. A row that can match nothing any more leaves with all before it. Where one
//! that stays long is in front of many others, the rows that stay are to be kept by themselves.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{KeptColumns, Reach, Side, SideWatermarks};

/// Rows that may be of no use behind one that is, before the others are kept by themselves.
const FEW_ROWS: usize = if cfg!(test) { 8 } else { 1 << 14 };

/// The last time that matches a row, if one does, and the number of the row.
type Expiry = Reverse<(Option<i64>, u64)>;

/// What a log knows of its rows beside their columns.
#[derive(Debug)]
pub(super) struct Arrival {
    side: Side,
    reach: Reach,
    /// The rows that may come out without a match, unless none do, by when they do. Some may have had
    /// a match since.
    alone: Option<BinaryHeap<Expiry>>,
    /// Rows that are worth the look for rows of no use among them.
    worth_a_look: usize,
}

impl Arrival {
    pub(super) fn new(side: Side, reach: Reach, comes_alone: bool) -> Self {
        let alone = comes_alone.then(BinaryHeap::new);
        Arrival { side, reach, alone, worth_a_look: FEW_ROWS }
    }

    /// The last time that matches the row at an offset; `None` if no time does, as where its values
    /// match nothing.
    #[inline]
    fn last(&self, columns: &impl KeptColumns, offset: usize) -> Option<i64> {
        let ts = columns.ts(offset).filter(|_| columns.can_match(offset));
        self.reach.last(self.side, ts?)
    }

    /// Whether no row that is still to come matches one that the times up to `last` match.
    #[inline]
    fn is_over(&self, last: Option<i64>, now: SideWatermarks) -> bool {
        match (last, now[self.side.other() as usize]) {
            (None, _) | (_, None) => true,
            (Some(last), Some(now)) => last < now,
        }
    }

    /// Notes rows at these offsets, which have had no match. The number of the oldest row is `first`.
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

    /// Forgets the rows.
    pub(super) fn clear(&mut self) {
        self.alone.iter_mut().for_each(BinaryHeap::clear);
    }

    /// The number of the next row that no row to come can match, unless it has had a match.
    pub(super) fn next_over(&mut self, now: SideWatermarks) -> Option<u64> {
        let &Reverse((last, number)) = self.alone.as_ref()?.peek()?;
        if !self.is_over(last, now) {
            return None;
        }
        self.alone.as_mut()?.pop();
        Some(number)
    }

    /// How many rows from the oldest on no row to come can match.
    pub(super) fn over(&self, columns: &impl KeptColumns, now: SideWatermarks) -> usize {
        let is_over = |&offset: &usize| self.is_over(self.last(columns, offset), now);
        (0..columns.len()).take_while(is_over).count()
    }

    /// The offsets of the rows that rows to come may match.
    pub(super) fn needed(&self, columns: &impl KeptColumns, now: SideWatermarks) -> Vec<u32> {
        let is_needed = |&offset: &u32| !self.is_over(self.last(columns, offset as usize), now);
        (0..columns.len() as u32).filter(is_needed).collect()
    }

    /// Whether rows to come may match half of the rows at most. It is looked for when the rows have
    /// doubled.
    pub(super) fn is_sparse(&mut self, columns: &impl KeptColumns, now: SideWatermarks) -> bool {
        let rows = columns.len();
        if rows <= self.worth_a_look {
            return false;
        }
        let needed = self.needed(columns, now).len();
        self.worth_a_look = FEW_ROWS.max(2 * needed);
        needed <= rows / 2
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        self.alone.as_ref().map_or(0, |alone| alone.capacity() * size_of::<Expiry>())
    }
}
