//! Finds partners if the right rows are grouped by key. The right group of a key is traversed while
//! the key's left rows are followed in time order.

use tidegate_structures::memory::pages::Pages;

use super::{AsOf, Toward};
use crate::driver::{Driver, Stopped};
use crate::matches::Run;
use crate::order::{Follow, Groups, JoinColumns, follow, gallop};

/// Returns the partner of each left row.
pub(super) fn partners(
    left: JoinColumns<'_>,
    right: &Groups<'_>,
    key_count: usize,
    asof: &AsOf,
    driver: &Driver,
) -> Result<Pages<Run>, Stopped> {
    follow(left, key_count, &GroupTraversal { right, asof }, driver)
}

/// Moves through a key's right rows from one left row to the next.
struct GroupTraversal<'a> {
    right: &'a Groups<'a>,
    asof: &'a AsOf,
}

/// Positions in a key's right rows.
#[derive(Clone, Copy, Default)]
struct GroupPlace {
    /// The end of the rows before a left row.
    past: u32,
    /// The start of the rows after a left row.
    future: u32,
}

impl Follow for GroupTraversal<'_> {
    type Place = GroupPlace;
    type Output = Run;

    fn begin(&self, key: u32) -> GroupPlace {
        let start = self.right.starts[key as usize];
        GroupPlace { past: start, future: start }
    }

    #[inline]
    fn next(&self, place: &mut GroupPlace, key: u32, _row: usize, ts: i64) -> Run {
        let (start, end) = (self.right.starts[key as usize], self.right.starts[key as usize + 1]);
        let group = Group { ts: &self.right.ts()[..end as usize], start };
        let near = |found: Option<u32>| {
            let found = found?;
            let distance = group.ts[found as usize].abs_diff(ts);
            self.asof.admits(distance).then_some((distance, found))
        };
        let sides = self.asof.sides().iter();
        // The first of the nearest partners, which is on the side that wins ties.
        let nearest = sides
            .filter_map(|&toward| near(group.partner(place, toward, ts, self.asof.exact)))
            .min_by_key(|&(distance, _)| distance);
        let numbers = self.right.numbers();
        nearest.map_or_else(Run::default, |(_, found)| {
            Run::of_partner(numbers.map_or(found, |numbers| numbers[found as usize]))
        })
    }
}

/// A group of right rows.
struct Group<'a> {
    /// The times of the rows up to the group's end.
    ts: &'a [i64],
    start: u32,
}

impl Group<'_> {
    /// Returns the position of the first row found when moving in one direction from `ts`. The time
    /// must not be earlier than the one that led to `place`.
    #[inline]
    fn partner(&self, place: &mut GroupPlace, toward: Toward, ts: i64, exact: bool) -> Option<u32> {
        let not_after = |from: u32| gallop(self.ts, from, |other| other <= ts);
        let before = |from: u32| gallop(self.ts, from, |other| other < ts);
        match toward {
            Toward::Past => {
                place.past = if exact { not_after(place.past) } else { before(place.past) };
                (place.past > self.start).then(|| place.past - 1)
            }
            Toward::Future => {
                place.future = if exact { before(place.future) } else { not_after(place.future) };
                ((place.future as usize) < self.ts.len()).then_some(place.future)
            }
        }
    }
}
