//! Which rows are wanted.

use super::Side;

/// Which rows a join returns, with the meaning the words have in SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Matching pairs.
    Inner,
    /// Matching pairs, and left rows without a match.
    Left,
    /// Matching pairs, and right rows without a match.
    Right,
    /// Matching pairs, and rows of either side without a match.
    Full,
    /// Left rows that have a match, once each.
    Semi,
    /// Left rows that have none.
    Anti,
}

impl How {
    /// Whether result rows have columns of the right side.
    pub fn pairs(self) -> bool {
        !matches!(self, How::Semi | How::Anti)
    }

    /// Whether left rows without a match are in the result beside pairs.
    pub fn keeps_left(self) -> bool {
        matches!(self, How::Left | How::Full)
    }

    /// Whether right rows without a match are in the result.
    pub fn keeps_right(self) -> bool {
        matches!(self, How::Right | How::Full)
    }

    /// Whether it matters which rows of a side have had a match: those that come out without one,
    /// or once.
    pub fn marks(self, side: Side) -> bool {
        match side {
            Side::Left => self.keeps_left() || !self.pairs(),
            Side::Right => self.keeps_right(),
        }
    }

    /// The number of result rows of a left row with `matches` matches.
    pub(crate) fn rows(self, matches: usize) -> usize {
        match self {
            How::Inner | How::Right => matches,
            How::Left | How::Full => matches.max(1),
            How::Semi => usize::from(matches > 0),
            How::Anti => usize::from(matches == 0),
        }
    }
}
