//! The rows of a join by index: those that are kept, and those of the epoch.

use std::ops::Range;

use tidegate_structures::index::{Entry, Probe};

use super::codes::CodeColumns;
use super::epoch::Epoch;
use crate::rows::{RowLog, Side};

pub(super) const SIDES: [Side; 2] = [Side::Left, Side::Right];

/// The rows of a join: the rows that are kept, and the rows of the epoch with their probes.
#[derive(Debug)]
pub struct Rows {
    /// Whether the matches of a row come in the order in which they came.
    pub(super) ordered: bool,
    /// One a side, or a single one for a join of a stream with itself.
    pub(super) logs: Vec<RowLog<CodeColumns>>,
    pub(super) epoch: Epoch,
}

impl Rows {
    /// How many rows the epoch has.
    #[inline]
    pub fn len(&self) -> usize {
        self.epoch.len()
    }

    /// Whether the epoch has no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers of the rows of a side that are kept.
    pub fn numbers(&self, side: usize) -> Range<u64> {
        self.logs[side].first()..self.logs[side].end()
    }

    /// The kept rows of a side with these numbers that can match anything, as an index has them.
    pub fn entries(&self, side: usize, numbers: Range<u64>) -> Vec<Entry> {
        self.logs[side].entries(numbers)
    }

    /// The number of the side that rows of a side look at.
    #[inline]
    pub fn other(&self, side: Side) -> usize {
        if self.logs.len() == 1 { 0 } else { side.other() as usize }
    }

    /// The side of a row of the epoch, the low bits of its number, its code if it can match
    /// anything, and what it looks for.
    #[inline]
    pub fn row(&self, row: usize) -> (Side, u32, Option<i64>, Probe) {
        let (side, number) = (self.epoch.sides[row], self.epoch.number(row));
        let log = &self.logs[side as usize];
        let code = log.joins(number).then(|| log.code(0, number));
        (side, number, code, *self.epoch.probe(row))
    }
}
