//! Defines how long rows are kept.

use super::Side;

/// The period for which each side's rows are kept so that later rows can match them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// Rows are kept for a length of time, in the unit of the time columns. A row matches later
    /// rows up to `ts` plus this length, where `ts` is the row's own time. [`u64::MAX`] means
    /// forever.
    Time {
        /// The period for which left rows are kept.
        left: u64,
        /// The period for which right rows are kept.
        right: u64,
    },
    /// A row is kept while it is among the most recent rows on its side. The number of rows is set
    /// separately for each side.
    Rows {
        /// The number of left rows.
        left: u64,
        /// The number of right rows.
        right: u64,
    },
}

impl Retention {
    /// Returns how long rows on a side are kept, either as a length of time or as a number of
    /// subsequent rows.
    #[inline]
    pub fn length(self, side: Side) -> u64 {
        match (self, side) {
            (Retention::Time { left, .. } | Retention::Rows { left, .. }, Side::Left) => left,
            (Retention::Time { right, .. } | Retention::Rows { right, .. }, Side::Right) => right,
        }
    }
}
