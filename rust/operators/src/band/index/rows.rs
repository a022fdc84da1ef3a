//! The rows of a join by index: those that are kept, and those of the epoch.

use tidegate_structures::index::Probe;

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
    pub(crate) logs: Vec<RowLog<CodeColumns>>,
    pub(super) epoch: Epoch,
}

impl Rows {
    /// How many rows the epoch has.
    pub(crate) fn len(&self) -> usize {
        self.epoch.len()
    }

    /// The number of the side that rows of a side look at.
    #[inline]
    pub(crate) fn other(&self, side: Side) -> usize {
        if self.logs.len() == 1 { 0 } else { side.other() as usize }
    }

    /// The side of a row of the epoch, the low bits of its number, its code if it can match
    /// anything, and what it looks for.
    pub(crate) fn row(&self, row: usize) -> (Side, u32, Option<i64>, Probe) {
        let (side, number) = (self.epoch.sides[row], self.epoch.number(row));
        let log = &self.logs[side as usize];
        let code = log.joins(number).then(|| log.code(0, number));
        (side, number, code, *self.epoch.probe(row))
    }
}
