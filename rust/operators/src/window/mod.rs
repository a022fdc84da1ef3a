//! All joins of sliding windows share this part: the values of rows, the kept columns of a row, and
//! how tables go through such a join. Each algorithm compares the rows in its own way.
//!
//! # Files
//!
//! | file | what is in it |
//! | --- | --- |
//! | `tables.rs` | whole tables through such a join |
//! | `counts.rs` | windows that count rows, as runs of an interval join |
//! | `scale/` | windows of rows as they come, compared by all threads, or looked up by value |

pub mod counts;
pub mod scale;
mod tables;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::predicate::Operand;
use crate::rows::{KeptColumn, RowJoin, RowLog, Side};
pub use tables::pairs;

/// The numbers of some rows that a join of sliding windows compares: for each term, the numbers of
/// both sides. `None` if some row has none. From then on the join compares nothing, and the filter
/// is given every pair in the windows.
pub type Operands<'a> = Option<&'a [(Operand, Operand)]>;

/// A join of sliding windows, whichever algorithm compares the rows.
pub type SlidingJoin = dyn for<'a> RowJoin<Operands<'a>>;

/// The rows of a side that such a join keeps, with their times.
pub type TimeLog = RowLog<KeptColumn<i64>>;

impl TimeLog {
    /// The times of the rows, by offset.
    #[inline]
    pub fn ts(&self) -> &[i64] {
        self.columns().as_slice()
    }

    /// Adds the rows of this side behind the others, given all rows' times and sides.
    pub fn push(&mut self, ts: &[i64], sides: &[Side]) {
        let side = self.side();
        let own = ts.iter().zip(sides).filter(|(_, other)| **other == side);
        self.extend(|columns| columns.extend(own.map(|(ts, _)| *ts)));
    }
}
