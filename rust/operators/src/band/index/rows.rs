//! The rows of an index-based join: the kept rows and the epoch's rows.

use std::ops::Range;

use tidegate_structures::index::{Entry, Probe};

use super::codes::CodeColumns;
use super::epoch::Epoch;
use crate::rows::{RowLog, Side};

pub(super) const SIDES: [Side; 2] = [Side::Left, Side::Right];

/// The rows of a join: the kept rows, and the epoch's rows with their probes.
#[derive(Debug)]
pub struct Rows {
    /// `true` if the matches of a row must be returned in arrival order.
    pub(super) ordered: bool,
    /// One log per side, or a single one for a self-join.
    pub(super) logs: Vec<RowLog<CodeColumns>>,
    pub(super) epoch: Epoch,
}

impl Rows {
    /// Returns the number of rows in the epoch.
    #[inline]
    pub fn len(&self) -> usize {
        self.epoch.len()
    }

    /// Returns whether the epoch is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the numbers of a side's kept rows.
    pub fn numbers(&self, side: usize) -> Range<u64> {
        self.logs[side].first()..self.logs[side].end()
    }

    /// Returns index entries for a side's kept rows with these numbers, except rows that cannot
    /// match anything.
    pub fn entries(&self, side: usize, numbers: Range<u64>) -> Vec<Entry> {
        self.logs[side].entries(numbers)
    }

    /// Returns the index of the side whose rows are compared with the rows on the given side.
    #[inline]
    pub fn other(&self, side: Side) -> usize {
        if self.logs.len() == 1 { 0 } else { side.other() as usize }
    }

    /// Returns a row in the epoch: its side, the low bits of its number, its code if it can match
    /// anything, and its probe.
    #[inline]
    pub fn row(&self, row: usize) -> (Side, u32, Option<i64>, Probe) {
        let (side, number) = (self.epoch.sides[row], self.epoch.number(row));
        let log = &self.logs[side as usize];
        let code = log.joins(number).then(|| log.code(0, number));
        (side, number, code, *self.epoch.probe(row))
    }
}
