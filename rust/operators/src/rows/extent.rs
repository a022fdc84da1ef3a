//! Defines how long rows can be matched.

use super::{Interval, Reach, Retention};

/// For each side, the period in which rows can be matched by later rows.
#[derive(Clone, Copy, Debug)]
pub enum Extent {
    /// Rows can be matched within their reach in time.
    Time(Reach),
    /// A row can be matched until this many more rows have arrived on its side.
    Rows([u64; 2]),
}

impl Extent {
    /// Returns the extent for a join with this retention.
    pub fn new(retention: Retention) -> Self {
        match retention {
            Retention::Time { left, right } => {
                Extent::Time(Reach::new(&Interval::of_windows(left, right)))
            }
            Retention::Rows { left, right } => Extent::Rows([left, right]),
        }
    }
}
