//! Which right rows can be the partner of a left row.

use crate::rows::{Closed, Interval};

/// On which side of a left row its partner is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// The last right row that is not later.
    Backward,
    /// The first right row that is not earlier.
    Forward,
    /// The right row of the least distance; of two of one distance, that before the left row.
    Nearest,
}

/// Which right rows can be the partner of a left row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsOf {
    /// On which side partners are.
    pub strategy: Strategy,
    /// Whether a right row of the same time is a partner.
    pub exact: bool,
    /// The largest distance, which is not negative; `None` for no bound.
    pub tolerance: Option<i64>,
}

impl AsOf {
    /// Returns the bounds on the time difference between a left row and its candidates. Returns
    /// `None` if candidates are chosen by comparing their distances.
    pub fn ends(&self) -> Option<Vec<i128>> {
        let tolerance = self.tolerance.map(i128::from);
        match (self.strategy, tolerance) {
            (Strategy::Backward, tolerance) => Some([Some(0), tolerance.map(|far| -far)]),
            (Strategy::Forward, tolerance) => Some([Some(0), tolerance]),
            (Strategy::Nearest, Some(far)) => Some([Some(-far), Some(far)]),
            (Strategy::Nearest, None) => None,
        }
        .map(|ends| ends.into_iter().flatten().collect())
    }
}

/// One side of a left row in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Toward {
    Past,
    Future,
}

impl AsOf {
    /// The sides on which partners are looked for.
    pub(super) fn sides(&self) -> &'static [Toward] {
        match self.strategy {
            Strategy::Backward => &[Toward::Past],
            Strategy::Forward => &[Toward::Future],
            Strategy::Nearest => &[Toward::Past, Toward::Future],
        }
    }

    /// Whether a distance is none too large.
    #[inline]
    pub(super) fn admits(&self, distance: u64) -> bool {
        self.tolerance.is_none_or(|most| distance <= most.unsigned_abs())
    }

    /// The times of the right rows that can be partners on one side, relative to the left row.
    pub(super) fn interval(&self, toward: Toward) -> Interval {
        match toward {
            Toward::Past => Interval {
                lower: self.tolerance.map(|most| -most),
                upper: Some(0),
                closed: if self.exact { Closed::Both } else { Closed::Left },
            },
            Toward::Future => Interval {
                lower: Some(0),
                upper: self.tolerance,
                closed: if self.exact { Closed::Both } else { Closed::Right },
            },
        }
    }
}
