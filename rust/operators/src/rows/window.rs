//! How long rows stay in a sliding window.

/// How long the rows of each side stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// For a time, in the unit of the rows' times: a row matches later ones of up to its own `ts`
    /// plus this. [`u64::MAX`] stands for ever.
    Time {
        /// The time of left rows.
        left: u64,
        /// The time of right rows.
        right: u64,
    },
    /// While it is among the last so many of its side.
    Rows {
        /// The number of left rows.
        left: u64,
        /// The number of right rows.
        right: u64,
    },
}
