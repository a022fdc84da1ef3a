//! The types of joins.
//!
//! To add a value of `how`:
//!
//! 1. Add the value to `How` and to `HOW` in `rust/python/src/queries/join.rs`. The compiler flags
//!    only `How::rows`, so search the Rust crates for each existing value, such as `How::Semi` and
//!    `How::Full`.
//! 2. Add the value to `types.py`, `options.py` and `_omits` in `io/pruning.py` in the Python
//!    package.
//! 3. For Spark, search the package's folder `spark/` for each existing value, such as `"semi"` and
//!    `"full"`. The main places are `plan/join.py`, `driver/division.py` and `driver/bins.py`.

use super::Side;

/// The rows that a join returns. The names have the same meaning as in SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Matching pairs.
    Inner,
    /// Matching pairs, and unmatched left rows.
    Left,
    /// Matching pairs, and unmatched right rows.
    Right,
    /// Matching pairs, and unmatched rows from either side.
    Full,
    /// Left rows that have a match, each returned once.
    Semi,
    /// Unmatched left rows.
    Anti,
}

impl How {
    /// Returns whether result rows have columns from the right side.
    pub fn pairs(self) -> bool {
        !matches!(self, How::Semi | How::Anti)
    }

    /// Returns whether the result includes unmatched left rows in addition to pairs.
    pub fn keeps_left(self) -> bool {
        matches!(self, How::Left | How::Full)
    }

    /// Returns whether the result includes unmatched right rows.
    pub fn keeps_right(self) -> bool {
        matches!(self, How::Right | How::Full)
    }

    /// Returns whether matches have to be tracked for a side. Matches are tracked if the side's
    /// rows may be emitted as unmatched, or are emitted only once.
    pub fn marks(self, side: Side) -> bool {
        match side {
            Side::Left => self.keeps_left() || !self.pairs(),
            Side::Right => self.keeps_right(),
        }
    }

    /// Returns the number of result rows for a left row with `matches` matches.
    pub(crate) fn rows(self, matches: usize) -> usize {
        match self {
            How::Inner | How::Right => matches,
            How::Left | How::Full => matches.max(1),
            How::Semi => usize::from(matches > 0),
            How::Anti => usize::from(matches == 0),
        }
    }
}
