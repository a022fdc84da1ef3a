//! Defines how long rows are kept.

use super::Side;

/// The period for which the rows of each side are kept for later rows to match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// For a length of time, in the unit of the rows' times: a row matches later rows up to its own
    /// `ts` plus this length. [`u64::MAX`] means forever.
    Time {
        /// The period for which left rows are kept.
        left: u64,
        /// The period for which right rows are kept.
        right: u64,
    },
    /// Rows are kept while they are among the last rows of their side. Each side has its own number
    /// of rows.
    Rows {
        /// The number of left rows.
        left: u64,
        /// The number of right rows.
        right: u64,
    },
}

impl Retention {
    /// Returns how long rows of a side are kept: a length of time, or a number of subsequent rows.
    #[inline]
    pub fn length(self, side: Side) -> u64 {
        match (self, side) {
            (Retention::Time { left, .. } | Retention::Rows { left, .. }, Side::Left) => left,
            (Retention::Time { right, .. } | Retention::Rows { right, .. }, Side::Right) => right,
        }
    }
}
