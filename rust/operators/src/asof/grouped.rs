//! Finds partners if a side is not in time order. The left and right groups for each key are
//! traversed at the same time.

use tidegate_structures::memory::pages::{Pages, Slot};

use super::{AsOf, Toward};
use crate::driver::{Driver, Stopped};
use crate::matches::Run;
use crate::order::{Groups, JoinColumns, gallop};

/// The number of left rows per task. Tasks are small enough for threads to notice a stop soon and
/// to finish at about the same time.
const TASK_ROWS: usize = 1 << 16;

/// Returns the partner of each left row.
pub(super) fn partners(
    left: JoinColumns<'_>,
    right: JoinColumns<'_>,
    key_count: usize,
    asof: &AsOf,
    driver: &Driver,
) -> Result<Pages<Run>, Stopped> {
    let right = Groups::new(right, key_count, driver)?;
    let rows = left.ts.len();
    let left = Groups::new(left, key_count, driver)?;
    let mut found = Pages::<Run>::unwritten(left.starts[left.starts.len() - 1] as usize);
    let tasks = found.chunks_mut(TASK_ROWS).enumerate().collect();
    driver.map(tasks, |(task, found): (usize, &mut [Slot<Run>])| {
        follow(&left, &right, asof, task * TASK_ROWS, found);
    })?;
    let found = found.written();
    drop(right);
    if left.numbers().is_none() {
        return Ok(found);
    }
    let mut runs = Pages::unwritten(rows);
    left.put_by_row(found, &mut runs, driver)?;
    Ok(runs.written())
}

/// Finds the partners of the left rows at positions from `first` onwards.
fn follow(
    left: &Groups<'_>,
    right: &Groups<'_>,
    asof: &AsOf,
    first: usize,
    found: &mut [Slot<Run>],
) {
    // The last nonempty group that starts at or before the first position.
    let mut key = left.starts.partition_point(|&start| start as usize <= first) - 1;
    let mut group = Group::new(right, key);
    let (right_ts, numbers) = (right.ts(), right.numbers());
    let left_ts = &left.ts()[first..first + found.len()];
    for ((place, found), &ts) in (first..).zip(found).zip(left_ts) {
        while left.starts[key + 1] as usize <= place {
            key += 1;
            group = Group::new(right, key);
        }
        let near = |place: Option<u32>| {
            let place = place?;
            let distance = right_ts[place as usize].abs_diff(ts);
            asof.admits(distance).then_some((distance, place))
        };
        let sides = asof.sides().iter();
        // The first of the nearest partners, which is on the side that wins ties.
        let nearest = sides
            .filter_map(|&toward| near(group.partner(toward, ts, asof.exact)))
            .min_by_key(|&(distance, _)| distance);
        found.set(nearest.map_or_else(Run::default, |(_, place)| {
            Run::of_partner(numbers.map_or(place, |numbers| numbers[place as usize]))
        }));
    }
}

/// A group of right rows, which is traversed for left rows in time order.
struct Group<'a> {
    /// The times of the rows up to the group's end.
    ts: &'a [i64],
    start: u32,
    /// The end of the rows before a left row and the start of the rows after it.
    past: u32,
    future: u32,
}

impl<'a> Group<'a> {
    fn new(rows: &'a Groups<'_>, key: usize) -> Self {
        let (start, end) = (rows.starts[key], rows.starts[key + 1]);
        Group { ts: &rows.ts()[..end as usize], start, past: start, future: start }
    }

    /// Returns the position of the first row found when moving in one direction from `ts`. The time
    /// must not be earlier than in the previous call.
    #[inline]
    fn partner(&mut self, toward: Toward, ts: i64, exact: bool) -> Option<u32> {
        let not_after = |from: u32| gallop(self.ts, from, |other| other <= ts);
        let before = |from: u32| gallop(self.ts, from, |other| other < ts);
        match toward {
            Toward::Past => {
                self.past = if exact { not_after(self.past) } else { before(self.past) };
                (self.past > self.start).then(|| self.past - 1)
            }
            Toward::Future => {
                self.future = if exact { before(self.future) } else { not_after(self.future) };
                ((self.future as usize) < self.ts.len()).then_some(self.future)
            }
        }
    }
}
