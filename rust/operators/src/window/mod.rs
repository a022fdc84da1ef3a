//! Code shared by all sliding-window joins: the values of rows, the kept columns, and the
//! processing of tables. Each window join compares rows in its own way.
//!
//! # Files
//!
//! | file | what is in it |
//! | --- | --- |
//! | `tables.rs` | processes whole tables with such a join |
//! | `counts.rs` | windows that count rows, as runs of an interval join |
//! | `scale/` | windows of streaming rows, which are compared or looked up by value |

pub mod counts;
pub mod scale;
mod tables;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::predicate::Operand;
use crate::rows::{KeptColumn, RowJoin, RowLog, Side};
pub use tables::pairs;

/// The numbers that a sliding-window join compares, for some rows. Each term has one column of
/// numbers per side. `None` if any row has no numbers. From such a row on, the join compares no
/// values and passes every pair in the windows to the filter.
pub type Operands<'a> = Option<&'a [(Operand, Operand)]>;

/// A join of sliding windows. The joins differ in how they compare rows.
pub type SlidingJoin = dyn for<'a> RowJoin<Operands<'a>>;

/// The rows that a sliding-window join keeps on one side, with their times.
pub type TimeLog = RowLog<KeptColumn<i64>>;

impl TimeLog {
    /// Returns the times of the rows, indexed by offset.
    #[inline]
    pub fn ts(&self) -> &[i64] {
        self.columns().as_slice()
    }

    /// Appends the given rows that belong to this side.
    pub fn push(&mut self, ts: &[i64], sides: &[Side]) {
        let side = self.side();
        let own = ts.iter().zip(sides).filter(|(_, other)| **other == side);
        self.extend(|columns| columns.extend(own.map(|(ts, _)| *ts)));
    }
}
