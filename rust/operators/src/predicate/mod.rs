//! Conditions between two rows that are tested for every pair: conjunctions of comparisons and
//! bands between numbers.
//!
//! ```text
//!   new rows          for each: a range of the window's column that matches       window
//!   x = 40   ───────▶ [30, 50] ─────────────────────────────────────────────▶  35 82 47 11 ..
//!   x = 12   ───────▶ [ 2, 22] ──┘ four rows' ranges against one tile of it
//! ```
//!
//! A [`Term`] relates a number of the left row to one of the right row, such as
//! `left.x <= right.a + 10`. Given a new row, it leaves a range of the window's numbers
//! ([`relation`]). Numbers are kept as unsigned integers of the same order ([`numbers`]). So one
//! subtraction and one comparison test a pair, of any types ([`ScanColumns`]). Where that wins, the
//! first two columns are also kept as codes of 16 bits, or as bitmaps of fewer codes, which leave
//! few pairs to test exactly.
//!
//! If few pairs pass and windows are long, rows are not even compared: they are looked up by value
//! ([`Index`]).
//!
//! The three-step procedure of Kang, Naughton and Viglas tests the same pairs. Teubner and
//! Mueller's handshake join, too, compares several new rows with each part of the window; so it
//! reaches its rates on vector units.
//!
//! # Files
//!
//! | file | what is in it |
//! | --- | --- |
//! | `relation.rs` | the condition between two numbers |
//! | `numbers.rs` | numbers as integers of the same order |
//! | `scan_columns.rs`, `column.rs` | columns of kept rows that are scanned |
//! | `codes.rs`, `ranges.rs` | codes and bitmaps of them; ranges that match |
//! | `index.rs` | rows looked up in blocks by value |

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

/// The rank of a row's number, and the ranks of the other side's numbers that it matches; `None` if
/// it matches nothing.
pub type RankAndTakes = Option<(u64, Span<u64>)>;

/// A condition between a number of the left row and one of the right row.
#[derive(Clone, Debug)]
pub struct Term {
    left: Operand,
    right: Operand,
    relation: Relation,
}

impl Term {
    /// The condition that must hold between a left number and a right number; `None` where a number
    /// could overflow, or a side has both ends of 64 bits, so that no rank is left for rows without
    /// a number: the condition has to be computed pair by pair.
    pub fn new(left: Operand, right: Operand, relation: Relation) -> Option<Self> {
        let term = Term { left, right, relation };
        term.fits().then_some(term)
    }

    /// The same condition, between rows of which there are none yet.
    pub fn without_rows(&self) -> Term {
        let [left, right] = [&self.left, &self.right].map(|operand| operand.rows_at(&[]));
        Term { left, right, relation: self.relation.clone() }
    }

    /// Adds rows behind the rows of each side. Says whether the condition can still be tested by
    /// ranks. If not, the term is of no more use.
    ///
    /// # Panics
    ///
    /// When their numbers are of another type.
    pub fn append(&mut self, left: &Operand, right: &Operand) -> bool {
        self.left.append(left);
        self.right.append(right);
        self.fits()
    }

    /// The same condition, between other rows.
    pub fn of_rows(&self, left: &Operand, right: &Operand) -> Term {
        Term { left: left.clone(), right: right.clone(), relation: self.relation.clone() }
    }

    /// As [`append`](Self::append), without keeping the numbers of the rows.
    pub fn widen(&mut self, left: &Operand, right: &Operand) -> bool {
        self.left.widen(left);
        self.right.widen(right);
        self.fits()
    }

    /// Adds a row of another term of the same condition, which fits, behind the rows of a side.
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

    /// The rank and the range that a row of a side compares by.
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

    /// Whether a row matches just those with one number.
    pub fn is_equality(&self) -> bool {
        self.relation.is_equality()
    }

    /// Whether a row matches just those with numbers between two that depend on its own.
    pub fn is_band(&self) -> bool {
        self.relation.is_band()
    }

    /// Whether the ranks of all numbers have 32 bits.
    pub fn is_narrow(&self) -> bool {
        let narrow =
            |operand: &Operand| matches!(operand.numbers, Numbers::I32(_) | Numbers::F32(_));
        narrow(&self.left) && narrow(&self.right)
    }

    /// The numbers of a side.
    pub fn operand(&self, side: Side) -> &Operand {
        match side {
            Side::Left => &self.left,
            Side::Right => &self.right,
        }
    }
}
