//! How long rows can be matched.

use super::{Interval, Reach, Retention};

/// How long the rows of each side can be matched by later rows.
#[derive(Clone, Copy, Debug)]
pub enum Extent {
    /// Within their reach in time.
    Time(Reach),
    /// Until this number of rows have arrived after them on their side.
    Rows([u64; 2]),
}

impl Extent {
    /// Returns the extent of the rows that a join with this retention keeps.
    pub fn new(retention: Retention) -> Self {
        match retention {
            Retention::Time { left, right } => {
                Extent::Time(Reach::new(&Interval::of_windows(left, right)))
            }
            Retention::Rows { left, right } => Extent::Rows([left, right]),
        }
    }
}
