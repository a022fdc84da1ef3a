//! Finds matches among the right rows of an index.

use tidegate_structures::memory;
use tidegate_structures::memory::pages::{Pages, Slot};

use super::sweep;
use crate::driver::{Driver, PART_ROWS, Stopped};
use crate::matches::{MAX_ROWS, Matches, Run};
use crate::order::{Groups, JoinColumns, Search, SideIndex, is_searched, search};
use crate::rows::interval::LeftReach;
use crate::rows::{Interval, NO_KEY};

/// The number of left rows whose matches are searched for together.
const BLOCK: usize = 8;

/// If more than one in this many right rows is a partner, visiting all right rows takes less time.
const VISITED: usize = 16;

/// Finds the matches of every left row, like [`interval_join`](super::interval_join), among the
/// rows of an index. A left row's key is its number in the index.
///
/// Left times, and the ends of the interval, have a unit that is `factor` times as fine as that of
/// the index.
///
/// ```
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_operators::interval::interval_join_in;
/// use tidegate_operators::order::{JoinColumns, SideIndex};
/// use tidegate_operators::rows::{Closed, Interval};
/// use tidegate_sync::Stop;
///
/// let driver = Driver::new(1, Stop::default());
/// let index = SideIndex::new(JoinColumns { ts: &[8, 9, 30], keys: None }, 1, &driver)?;
/// let left = JoinColumns { ts: &[10, 20], keys: None };
/// let before = Interval { lower: Some(-2), upper: Some(0), closed: Closed::Both };
/// assert_eq!(interval_join_in(left, &index, &before, 1, &driver)?.pairs(), 2);
/// # Ok::<(), Stopped>(())
/// ```
///
/// # Panics
///
/// Panics if the left side has [`MAX_ROWS`] rows or more, columns differ in length, a key is out of
/// bounds, or `factor` is not positive.
pub fn interval_join_in(
    left: JoinColumns<'_>,
    right: &SideIndex,
    interval: &Interval,
    factor: i64,
    driver: &Driver,
) -> Result<Matches, Stopped> {
    assert!(left.ts.len() < MAX_ROWS, "row numbers fit in 32 bits");
    assert!(left.keys.is_none_or(|keys| keys.len() == left.ts.len()), "a key a time");
    assert!(factor > 0, "a factor");
    let groups = right.groups();
    let reach = Coarse { reach: interval, factor };
    let runs = if is_searched(left.ts.len(), right) {
        searched(left, &groups, &reach, driver)?
    } else {
        sweep(left, &groups, right.key_count(), &reach, driver)?
    };
    let ascending = groups.ascending();
    Ok(Matches::new(runs, groups.into_numbers(), ascending, right.rows()))
}

/// Returns the numbers of all right rows in an index that are partners of a left row, in ascending
/// order. With `with_prevailing`, the key's last row before each interval is also a partner.
///
/// Returns `None` if there are so many left rows or partners that it takes less time to visit all
/// right rows.
///
/// ```
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_operators::interval::partner_rows_in;
/// use tidegate_operators::order::{JoinColumns, SideIndex};
/// use tidegate_operators::rows::{Closed, Interval};
/// use tidegate_sync::Stop;
///
/// let ts: Vec<i64> = (0..1000).collect();
/// let right = JoinColumns { ts: &ts, keys: None };
/// let index = SideIndex::new(right, 1, &Driver::new(1, Stop::default()))?;
/// let left = JoinColumns { ts: &[10, 11], keys: None };
/// let before = Interval { lower: Some(-1), upper: Some(0), closed: Closed::Both };
/// assert_eq!(partner_rows_in(left, &index, &before, true, 1), Some(vec![8, 9, 10, 11]));
/// # Ok::<(), Stopped>(())
/// ```
///
/// # Panics
///
/// Panics if columns differ in length, a key is out of bounds, or `factor` is not positive.
pub fn partner_rows_in(
    left: JoinColumns<'_>,
    right: &SideIndex,
    interval: &Interval,
    with_prevailing: bool,
    factor: i64,
) -> Option<Vec<u32>> {
    assert!(left.keys.is_none_or(|keys| keys.len() == left.ts.len()), "a key a time");
    assert!(factor > 0, "a factor");
    if !is_searched(left.ts.len(), right) {
        return None;
    }
    let groups = right.groups();
    let mut searches = memory::vec(left.ts.len());
    for (row, &ts) in left.ts.iter().enumerate() {
        let key = left.keys.map_or(0, |keys| keys[row]);
        let (start, end) = match key {
            NO_KEY => (0, 0),
            key => (groups.starts[key as usize], groups.starts[key as usize + 1]),
        };
        let at = |limit: Option<i64>| match limit {
            Some(limit) => Search { low: start, len: end - start, limit },
            None => Search { low: end, len: 0, limit: 0 },
        };
        let first = interval.first(ts).map(|first| ceil(first, factor));
        // Without a last time, no row is a partner, except for a prevailing one.
        let limit = match interval.last(ts) {
            Some(last) => floor(last, factor).checked_add(1),
            None => Some(i64::MIN),
        };
        searches.push([at(first), at(limit)]);
    }
    search(groups.ts(), searches.as_flattened_mut());
    let mut places = Vec::new();
    for (row, [first, end]) in searches.iter().enumerate() {
        let key = left.keys.map_or(0, |keys| keys[row]);
        if key == NO_KEY {
            continue;
        }
        let prevails = with_prevailing && first.low > groups.starts[key as usize];
        let start = if prevails { first.low - 1 } else { first.low };
        let run = start..end.low.max(first.low);
        if places.len() + run.len() > right.rows() / VISITED {
            return None;
        }
        memory::reserve(&mut places, run.len());
        places.extend(run);
    }
    if let Some(numbers) = groups.numbers() {
        places.iter_mut().for_each(|place| *place = numbers[*place as usize]);
    }
    places.sort_unstable();
    places.dedup();
    Some(places)
}

/// Returns the first time of a coarser unit that is not before `ts`. The earliest time stays the
/// earliest.
fn ceil(ts: i64, factor: i64) -> i64 {
    match ts {
        i64::MIN => ts,
        ts => ts.div_euclid(factor) + i64::from(ts.rem_euclid(factor) != 0),
    }
}

/// Returns the last time of a coarser unit that is not after `ts`. The latest time stays the latest.
fn floor(ts: i64, factor: i64) -> i64 {
    if ts == i64::MAX { ts } else { ts.div_euclid(factor) }
}

/// A reach in the coarser unit of the right rows.
struct Coarse<'a, R> {
    reach: &'a R,
    factor: i64,
}

impl<R: LeftReach> LeftReach for Coarse<'_, R> {
    const RISING: bool = R::RISING;

    #[inline]
    fn at(&self, row: usize, ts: i64) -> Option<(i64, i64)> {
        let (first, last) = self.reach.at(row, ts)?;
        if self.factor == 1 {
            return Some((first, last));
        }
        let (first, last) = (ceil(first, self.factor), floor(last, self.factor));
        (first <= last).then_some((first, last))
    }
}

/// Searches for the matches of each left row.
fn searched(
    left: JoinColumns<'_>,
    right: &Groups<'_>,
    reach: &impl LeftReach,
    driver: &Driver,
) -> Result<Pages<Run>, Stopped> {
    let mut found = Pages::<Run>::unwritten(left.ts.len());
    let rows = left.ts.len().div_ceil(driver.parts(left.ts.len(), PART_ROWS)).max(1);
    let tasks = found.chunks_mut(rows).enumerate().collect();
    driver.fit(left.ts.len()).map(tasks, |(task, found): (usize, &mut [Slot<Run>])| {
        for (block, found) in found.chunks_mut(BLOCK).enumerate() {
            search_block(left, right, reach, task * rows + block * BLOCK, found);
        }
    })?;
    Ok(found.written())
}

/// Writes the matches of some left rows, beginning with row `first`.
fn search_block(
    left: JoinColumns<'_>,
    right: &Groups<'_>,
    reach: &impl LeftReach,
    first: usize,
    found: &mut [Slot<Run>],
) {
    let mut searches = [[Search::default(); 2]; BLOCK];
    for (row, searches) in (first..first + found.len()).zip(&mut searches) {
        let key = left.keys.map_or(0, |keys| keys[row]);
        if key == NO_KEY {
            continue;
        }
        let (start, end) = (right.starts[key as usize], right.starts[key as usize + 1]);
        let Some((first, last)) = reach.at(row, left.ts[row]) else { continue };
        let all = Search { low: start, len: end - start, limit: first };
        searches[0] = all;
        searches[1] = match last.checked_add(1) {
            Some(limit) => Search { limit, ..all },
            None => Search { low: end, len: 0, limit: 0 },
        };
    }
    search(right.ts(), searches[..found.len()].as_flattened_mut());
    for (found, [start, end]) in found.iter_mut().zip(searches) {
        found.set(Run { start: start.low, end: end.low });
    }
}
