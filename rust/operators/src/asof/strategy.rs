//! Defines which right rows can be the partner of a left row.

use crate::rows::{Closed, Interval};

/// The direction in which to search for the partner of a left row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// The last right row at or before the time of the left row.
    Backward,
    /// The first right row at or after the time of the left row.
    Forward,
    /// The right row that is nearest in time. In a tie, the right row before the left row is
    /// chosen.
    Nearest,
}

/// The criteria for the partner of a left row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsOf {
    /// The direction in which to search for partners.
    pub strategy: Strategy,
    /// `true` if a right row with the same time as the left row can be its partner.
    pub exact: bool,
    /// The largest allowed distance, which must not be negative. `None` means unlimited.
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

/// A direction in time from a left row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Toward {
    Past,
    Future,
}

impl AsOf {
    /// Returns the directions in which to search for partners.
    pub(super) fn sides(&self) -> &'static [Toward] {
        match self.strategy {
            Strategy::Backward => &[Toward::Past],
            Strategy::Forward => &[Toward::Future],
            Strategy::Nearest => &[Toward::Past, Toward::Future],
        }
    }

    /// Returns whether a distance is within the tolerance.
    #[inline]
    pub(super) fn admits(&self, distance: u64) -> bool {
        self.tolerance.is_none_or(|most| distance <= most.unsigned_abs())
    }

    /// Returns the times, relative to a left row, at which right rows in one direction can be its
    /// partners.
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
