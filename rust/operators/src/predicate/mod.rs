//! Conditions between two rows that are tested for every pair: conjunctions of comparisons and bands between numbers.
//!
//! ```text
//!   new rows          for each: a range of the window's column that matches       window
//!   x = 40   ───────▶ [30, 50] ─────────────────────────────────────────────▶  35 82 47 11 ..
//!   x = 12   ───────▶ [ 2, 22] ──┘ four rows' ranges against one tile of it
//! ```
//!
//! A [`Term`] relates a number of the left row to one of the right row, such as `left.x <= right.a + 10`. Given a new row,
//! it leaves a range of the window's numbers ([`relation`]). Numbers are kept as unsigned integers of the same order
//! ([`numbers`]), so that whatever the types, one subtraction and one comparison test a pair ([`Window`]). Where that
//! wins, the first two columns are also kept as codes of 8 or 16 bits, which leave few pairs to test exactly.
//!
//! The pairs tested are those of Kang, Naughton and Viglas' three-step procedure; kernels that compare several new rows
//! with each part of the window are how Teubner and Mueller's handshake join reaches its rates on vector units.

mod codes;
mod numbers;
mod ranges;
mod relation;
mod window;

#[cfg(test)]
mod tests;

pub use numbers::{Numbers, Operand};
pub use ranges::Ranges;
pub use relation::{Constraint, Order, Relation, Side};
pub use window::Window;

/// A condition between a number of the left row and one of the right row.
#[derive(Clone, Debug)]
pub struct Term {
    left: Operand,
    right: Operand,
    relation: Relation,
}

impl Term {
    /// What must hold between a left number and a right number; `None` where a number could overflow, and the condition
    /// has to be computed pair by pair to find out which.
    pub fn new(left: Operand, right: Operand, relation: Relation) -> Option<Self> {
        let fits = match (left.extremes(), right.extremes()) {
            (Some(of_left), Some(of_right)) => relation.fits((&left.numbers, of_left), (&right.numbers, of_right)),
            _ => true,
        };
        fits.then_some(Term { left, right, relation })
    }

    fn operand(&self, side: Side) -> &Operand {
        match side {
            Side::Left => &self.left,
            Side::Right => &self.right,
        }
    }
}

impl Side {
    /// The side across.
    pub fn other(self) -> Side {
        match self {
            Side::Left => Side::Right,
            Side::Right => Side::Left,
        }
    }
}
