//! Windows that contain a fixed number of rows.

/// Row-based windows over the rows of each key, in merged order.
///
/// The rows of each key are numbered from 0. Window k contains the rows with the numbers
/// `[k * advance, k * advance + size)`, for every integer k of at least 0. The last window of a key
/// is the first one that contains the key's last row, and may have fewer rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowCounts {
    /// The number of rows in a window, which is positive.
    pub size: i64,
    /// The number of rows from the start of one window to the start of the next, which is positive.
    pub advance: i64,
}

impl RowCounts {
    /// Returns the number of windows that are complete once a key has `rows` rows.
    pub(crate) fn complete(self, rows: i64) -> i64 {
        match rows - self.size {
            rest if rest < 0 => 0,
            rest => rest / self.advance + 1,
        }
    }

    /// Returns the number of the first window that begins with the row of this number or a later one.
    pub(crate) fn first_from(self, row: i64) -> i64 {
        row / self.advance + i64::from(row % self.advance > 0)
    }

    /// Returns whether a window is the first one that contains a key's last row, given the number
    /// of this row.
    pub(crate) fn is_begun(self, window: i64, last: i64) -> bool {
        let start = window * self.advance;
        start <= last && (window == 0 || start - self.advance + self.size <= last)
    }
}
