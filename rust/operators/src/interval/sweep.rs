//! Finds the run of right rows that matches each left row.

use tidegate_structures::memory::pages::Pages;

use crate::driver::{Driver, Stopped};
use crate::matches::Run;
use crate::order::{Directory, Follow, Groups, JoinColumns, follow, gallop, gallop_back, look_up};
use crate::rows::interval::LeftReach;

/// Returns each left row's matches, as a run of positions in `right`.
pub(crate) fn sweep<R: LeftReach>(
    left: JoinColumns<'_>,
    right: &Groups<'_>,
    key_count: usize,
    reach: &R,
    driver: &Driver,
) -> Result<Pages<Run>, Stopped> {
    if Directory::pays(left.ts, right.ts().len(), driver)? {
        let directory = Directory::new(&right.starts, right.ts(), driver)?;
        return look_up(left, [&directory; 2], reach, driver);
    }
    follow(left, key_count, &Sweep { right, reach }, driver)
}

/// Moves both ends of a run from one left row to the next. The ends mostly increase while a key's
/// left rows are in time order.
struct Sweep<'a, R> {
    right: &'a Groups<'a>,
    reach: &'a R,
}

impl<R: LeftReach> Follow for Sweep<'_, R> {
    type Place = Run;
    type Output = Run;

    fn begin(&self, key: u32) -> Run {
        let start = self.right.starts[key as usize];
        Run { start, end: start }
    }

    /// Returns the run of right rows that have this `key` and lie in the left row's interval. The
    /// search starts at the run in `place`.
    #[inline]
    fn next(&self, place: &mut Run, key: u32, row: usize, ts: i64) -> Run {
        let (start, end) = (self.right.starts[key as usize], self.right.starts[key as usize + 1]);
        let Some((first, last)) = self.reach.at(row, ts) else { return Run { start, end: start } };
        let group = &self.right.ts()[..end as usize];
        if !R::RISING {
            place.start = gallop_back(group, start, place.start, |ts| ts < first);
            place.end = gallop_back(group, start, place.end, |ts| ts <= last);
        }
        place.start = gallop(group, place.start, |ts| ts < first);
        place.end = gallop(group, place.end.max(place.start), |ts| ts <= last);
        *place
    }
}
