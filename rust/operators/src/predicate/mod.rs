//! Conditions on two rows, which are tested for every pair. A condition is a conjunction of
//! comparisons and bands between numbers.
//!
//! ```text
//!   new rows          for each: a range of the window's column that matches       window
//!   x = 40   ───────▶ [30, 50] ─────────────────────────────────────────────▶  35 82 47 11 ..
//!   x = 12   ───────▶ [ 2, 22] ──┘ four rows' ranges against one tile of it
//! ```
//!
//! A [`Term`] relates a number in the left row to a number in the right row. One example is
//! `left.x <= right.a + 10`. Given a new row, the term determines the range of matching numbers in
//! the window ([`relation`]). Numbers are stored as unsigned integers that sort in the same order
//! ([`numbers`]). A subtraction and a comparison then suffice to test a pair of numbers of any type
//! ([`ScanColumns`]). If codes are faster to compare, the first two columns are also stored as
//! 16-bit codes, or as bitmaps if there are few codes. Only the few pairs that pass this test are
//! tested exactly.
//!
//! If few pairs match and windows are long, rows are looked up by value instead of being compared
//! ([`Index`]).
//!
//! The three-step procedure of Kang, Naughton and Viglas tests the same pairs. Teubner and
//! Mueller's handshake join also compares several new rows with each part of the window. Comparing
//! several rows at a time explains the high throughput of that join on vector units.
//!
//! # Files
//!
//! | file | what is in it |
//! | --- | --- |
//! | `relation.rs` | the condition between two numbers |
//! | `numbers.rs` | numbers as integers with the same order |
//! | `scan_columns.rs`, `column.rs` | the columns of kept rows that a scan reads |
//! | `codes.rs`, `ranges.rs` | codes and their bitmaps; ranges that match |
//! | `index.rs` | looks rows up by value, in blocks |

mod codes;
mod column;
mod index;
mod numbers;
mod ranges;
mod relation;
mod scan_columns;

#[cfg(test)]
mod tests;

pub use index::Index;
pub(crate) use index::News;
pub use numbers::{Numbers, Operand};
pub use ranges::Ranges;
pub use relation::{Constraint, Order, Relation};
pub use scan_columns::ScanColumns;

use tidegate_structures::simd::scan::Span;

use crate::rows::Side;
use numbers::Number;

/// The rank of a row's number, and the range of ranks on the other side that the row matches.
/// `None` if the row matches nothing.
pub type RankAndTakes = Option<(u64, Span<u64>)>;

/// A condition that relates a number in the left row to a number in the right row.
#[derive(Clone, Debug)]
pub struct Term {
    left: Operand,
    right: Operand,
    relation: Relation,
}

impl Term {
    /// Creates the condition that relates a left number to a right number. Returns `None` if the
    /// condition has to be evaluated separately for each pair. Separate evaluation is needed if a
    /// number could overflow, or if a side contains both the smallest and the largest 64-bit value.
    /// Such a side leaves no rank for rows without a number.
    pub fn new(left: Operand, right: Operand, relation: Relation) -> Option<Self> {
        let term = Term { left, right, relation };
        term.fits().then_some(term)
    }

    /// Returns the same condition without any rows.
    pub fn without_rows(&self) -> Term {
        let [left, right] = [&self.left, &self.right].map(|operand| operand.rows_at(&[]));
        Term { left, right, relation: self.relation.clone() }
    }

    /// Appends rows to each side. Returns whether the condition can still be tested by ranks. If
    /// the method returns `false`, the term can no longer be used.
    ///
    /// # Panics
    ///
    /// Panics if the numbers differ in type from the existing ones.
    pub fn append(&mut self, left: &Operand, right: &Operand) -> bool {
        self.left.append(left);
        self.right.append(right);
        self.fits()
    }

    /// Returns the same condition for other rows.
    pub fn of_rows(&self, left: &Operand, right: &Operand) -> Term {
        Term { left: left.clone(), right: right.clone(), relation: self.relation.clone() }
    }

    /// Extends the ranges of numbers like [`append`](Self::append), but does not store the rows'
    /// numbers.
    pub fn widen(&mut self, left: &Operand, right: &Operand) -> bool {
        self.left.widen(left);
        self.right.widen(right);
        self.fits()
    }

    /// Appends a row from another term to a side. The term must have the same condition, and the
    /// row's number must fit.
    #[inline]
    pub fn push(&mut self, side: Side, from: &Term, row: usize) {
        match side {
            Side::Left => self.left.push(&from.left, row),
            Side::Right => self.right.push(&from.right, row),
        }
    }

    /// Removes rows from the front of a side.
    pub fn drop_front(&mut self, side: Side, rows: usize) {
        match side {
            Side::Left => self.left.drop_front(rows),
            Side::Right => self.right.drop_front(rows),
        }
    }

    fn fits(&self) -> bool {
        let has_room =
            |operand: &Operand| operand.ends().is_none_or(|(first, last)| last - first < u64::MAX);
        if !has_room(&self.left) || !has_room(&self.right) {
            return false;
        }
        let (left, right) = (self.left.ends(), self.right.ends());
        if left.is_none() && right.is_none() {
            return true;
        }
        self.relation.fits((&self.left.numbers, left), (&self.right.numbers, right))
    }

    /// Returns the rank of a row on the given side, and the range of ranks that the row matches.
    #[inline]
    pub fn rank_and_takes(&self, side: Side, row: usize) -> RankAndTakes {
        let (own, other) = (self.operand(side), self.operand(side.other()));
        if !own.compares(row) {
            return None;
        }
        let rank = numbers::with_values!(&own.numbers, values => values[row].rank());
        let (low, high) = self.relation.range(side.other(), &other.numbers, &own.numbers, row)?;
        Some((rank, Span { low, width: high - low }))
    }

    /// Returns whether each row matches exactly the rows that have one particular number.
    pub fn is_equality(&self) -> bool {
        self.relation.is_equality()
    }

    /// Returns whether each row matches exactly the rows whose numbers are between two limits. The
    /// limits depend on the row's own number.
    pub fn is_band(&self) -> bool {
        self.relation.is_band()
    }

    /// Returns whether the ranks of all numbers have 32 bits.
    pub fn is_narrow(&self) -> bool {
        let narrow =
            |operand: &Operand| matches!(operand.numbers, Numbers::I32(_) | Numbers::F32(_));
        narrow(&self.left) && narrow(&self.right)
    }

    /// Returns the numbers on a side.
    pub fn operand(&self, side: Side) -> &Operand {
        match side {
            Side::Left => &self.left,
            Side::Right => &self.right,
        }
    }
}
