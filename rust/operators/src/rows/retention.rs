//! How long rows are kept.

use super::Side;

/// How long the rows of each side are kept for later rows to match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// For a time, in the unit of the rows' times: a row matches later ones of up to its own `ts`
    /// plus this. [`u64::MAX`] stands for ever.
    Time {
        /// How long left rows stay.
        left: u64,
        /// How long right rows stay.
        right: u64,
    },
    /// While it is among the last rows of its side. Each side has a number of rows of its own.
    Rows {
        /// The number of left rows.
        left: u64,
        /// The number of right rows.
        right: u64,
    },
}

impl Retention {
    /// How long rows of a side stay: a time, or a number of rows that come after.
    #[inline]
    pub fn length(self, side: Side) -> u64 {
        match (self, side) {
            (Retention::Time { left, .. } | Retention::Rows { left, .. }, Side::Left) => left,
            (Retention::Time { right, .. } | Retention::Rows { right, .. }, Side::Right) => right,
        }
    }
}
