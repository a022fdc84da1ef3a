//! Defines how long rows are kept.

use super::Side;

/// The period for which the rows of each side are kept, so that later rows can match them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// Rows are kept for a length of time, in the unit of their times. A row matches later rows up
    /// to its own `ts` plus this length. [`u64::MAX`] means forever.
    Time {
        /// The period for which left rows are kept.
        left: u64,
        /// The period for which right rows are kept.
        right: u64,
    },
    /// Rows are kept while they are among the most recent rows on their side. The number of rows is
    /// set separately for each side.
    Rows {
        /// The number of left rows.
        left: u64,
        /// The number of right rows.
        right: u64,
    },
}

impl Retention {
    /// Returns how long the rows of a side are kept, as a length of time or as a number of
    /// subsequent rows.
    #[inline]
    pub fn length(self, side: Side) -> u64 {
        match (self, side) {
            (Retention::Time { left, .. } | Retention::Rows { left, .. }, Side::Left) => left,
            (Retention::Time { right, .. } | Retention::Rows { right, .. }, Side::Right) => right,
        }
    }
}
