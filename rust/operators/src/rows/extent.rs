//! For how long a row may be matched.

use super::{Interval, Reach, Retention};

/// For how long the rows of each side may be matched by later rows.
#[derive(Clone, Copy, Debug)]
pub enum Extent {
    /// As far as they reach in time.
    Time(Reach),
    /// Until this number of rows of their side have come after them.
    Rows([u64; 2]),
}

impl Extent {
    /// How long the rows that a join retains may be matched.
    pub fn new(retention: Retention) -> Self {
        match retention {
            Retention::Time { left, right } => {
                Extent::Time(Reach::new(&Interval::of_windows(left, right)))
            }
            Retention::Rows { left, right } => Extent::Rows([left, right]),
        }
    }
}
