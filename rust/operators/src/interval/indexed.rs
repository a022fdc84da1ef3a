//! Finds matches among the right rows of an index.

use std::ops::Range;

use tidegate_structures::memory;
use tidegate_structures::memory::pages::{Pages, Slot};

use super::sweep;
use crate::driver::{Driver, PART_ROWS, Stopped};
use crate::matches::{BitSet, MAX_ROWS, Matches, RowLists, Run};
use crate::order::{IndexedRows, JoinColumns, Search, SearchedPart};
use crate::rows::Interval;
use crate::rows::interval::LeftReach;

/// The number of left rows whose matches are searched for together.
const BLOCK: usize = 8;

/// If more than one in this many right rows is a partner, visiting all right rows takes less time.
const VISITED: usize = 16;

/// If fewer than one in this many right rows is a partner, sorting their numbers takes less time
/// than marking them in a set of all row numbers.
const SPARSE: usize = 512;

/// Finds the matches of every left row, like [`interval_join`](super::interval_join), among the
/// rows of an index.
///
/// Left times, and the ends of the interval, have a unit that is `factor` times as fine as that of
/// the index.
///
/// Returns `None` if the index has several parts, and there are so many left rows or matches that it
/// takes less time to visit all right rows.
///
/// ```
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_operators::interval::interval_join_in;
/// use tidegate_operators::order::{IndexPart, IndexedRows, JoinColumns, SideIndex};
/// use tidegate_operators::rows::{Closed, Interval};
/// use tidegate_sync::Stop;
///
/// let driver = Driver::new(1, Stop::default());
/// let rows = &SideIndex::new(JoinColumns { ts: &[9, 8, 30], keys: None }, 1, &driver)?;
/// let part = IndexPart { rows, expired: 0, earliest: i64::MIN, left_keys: None };
/// let before = Interval { lower: Some(-2), upper: Some(0), closed: Closed::Both };
/// let found = interval_join_in(&[10, 20], &IndexedRows::new([part]), &before, 1, &driver)?;
/// assert_eq!(found.expect("there is only one part").pairs(), 2);
/// # Ok::<(), Stopped>(())
/// ```
///
/// # Panics
///
/// Panics if the left side has [`MAX_ROWS`] rows or more, a left row has no key, a key is out of
/// bounds, or `factor` is not positive.
pub fn interval_join_in(
    left: &[i64],
    right: &IndexedRows<'_>,
    interval: &Interval,
    factor: i64,
    driver: &Driver,
) -> Result<Option<Matches>, Stopped> {
    assert!(left.len() < MAX_ROWS, "row numbers fit in 32 bits");
    assert!(factor > 0, "a factor");
    right.check(left.len());
    let reach = Coarse { reach: interval, factor };
    let are_searched = right.are_searched(left.len());
    let Some(part) = right.whole() else {
        return if are_searched { listed(left, right, &reach, driver) } else { Ok(None) };
    };
    let runs = if are_searched {
        searched(left, part, &reach, driver)?
    } else {
        let left = JoinColumns { ts: left, keys: part.left_keys };
        sweep(left, &part.groups, part.key_count, &reach, driver)?
    };
    let groups = &part.groups;
    Ok(Some(Matches::new(runs, groups.shared_numbers(), groups.ascending(), right.rows())))
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
/// use tidegate_operators::order::{IndexPart, IndexedRows, JoinColumns, SideIndex};
/// use tidegate_operators::rows::{Closed, Interval};
/// use tidegate_sync::Stop;
///
/// let ts: Vec<i64> = (0..1000).collect();
/// let right = JoinColumns { ts: &ts, keys: None };
/// let rows = &SideIndex::new(right, 1, &Driver::new(1, Stop::default()))?;
/// let part = IndexPart { rows, expired: 0, earliest: i64::MIN, left_keys: None };
/// let before = Interval { lower: Some(-1), upper: Some(0), closed: Closed::Both };
/// let found = partner_rows_in(&[10, 11], &IndexedRows::new([part]), &before, true, 1);
/// assert_eq!(found, Some(vec![8, 9, 10, 11]));
/// # Ok::<(), Stopped>(())
/// ```
///
/// # Panics
///
/// Panics if a left row has no key, a key is out of bounds, or `factor` is not positive.
pub fn partner_rows_in(
    left: &[i64],
    right: &IndexedRows<'_>,
    interval: &Interval,
    with_prevailing: bool,
    factor: i64,
) -> Option<Vec<u32>> {
    assert!(factor > 0, "a factor");
    right.check(left.len());
    if !right.are_searched(left.len()) {
        return None;
    }
    let mut rows = Vec::new();
    for part in right.parts() {
        let mut searches: Vec<[Search; 2]> = memory::vec(left.len());
        searches.extend(left.iter().enumerate().map(|(row, &ts)| {
            let first = interval.first(ts).map(|first| ceil(first, factor));
            // Without a last time, no row is a partner, except for a prevailing one.
            let limit = match interval.last(ts) {
                Some(last) => floor(last, factor).checked_add(1),
                None => Some(i64::MIN),
            };
            [part.search(row, first), part.search(row, limit)]
        }));
        part.find(searches.as_flattened_mut());
        for (row, &[first, end]) in searches.iter().enumerate() {
            let before = if with_prevailing { part.before(row, first) } else { None };
            let places = before.unwrap_or(first.low)..end.low.max(first.low);
            if rows.len() + places.len() > right.rows() / VISITED {
                return None;
            }
            memory::reserve(&mut rows, places.len());
            rows.extend(places.map(|place| part.row(place)));
        }
    }
    if rows.len().saturating_mul(SPARSE) < right.rows() {
        rows.sort_unstable();
        rows.dedup();
        return Some(rows);
    }
    let mut set = BitSet::new(right.rows());
    rows.iter().for_each(|&row| set.insert(row as usize));
    rows.clear();
    rows.extend(set.present().map(|row| row as u32));
    Some(rows)
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

/// Searches for the matches of each left row in a part.
fn searched(
    left: &[i64],
    part: &SearchedPart<'_>,
    reach: &impl LeftReach,
    driver: &Driver,
) -> Result<Pages<Run>, Stopped> {
    let mut found = Pages::<Run>::unwritten(left.len());
    let rows = left.len().div_ceil(driver.parts(left.len(), PART_ROWS)).max(1);
    let tasks = found.chunks_mut(rows).enumerate().collect();
    driver.fit(left.len()).map(tasks, |(task, found): (usize, &mut [Slot<Run>])| {
        for (block, found) in found.chunks_mut(BLOCK).enumerate() {
            let first = task * rows + block * BLOCK;
            let runs = search_block(left, part, reach, first..first + found.len());
            found.iter_mut().zip(runs).for_each(|(found, run)| found.set(run));
        }
    })?;
    Ok(found.written())
}

/// Lists the matches of each left row in all parts. Returns `None` if there are so many matches
/// that it takes less time to visit all right rows.
fn listed(
    left: &[i64],
    right: &IndexedRows<'_>,
    reach: &impl LeftReach,
    driver: &Driver,
) -> Result<Option<Matches>, Stopped> {
    let most = right.rows() / VISITED;
    let rows = left.len().div_ceil(driver.parts(left.len(), PART_ROWS)).max(1);
    let tasks = (0..left.len()).step_by(rows).map(|first| first..left.len().min(first + rows));
    let pieces = driver.fit(left.len()).map(tasks.collect(), |task: Range<usize>| {
        let mut lists = RowLists::default();
        for first in task.clone().step_by(BLOCK) {
            let block = first..task.end.min(first + BLOCK);
            let of_parts = right
                .parts()
                .iter()
                .map(|part| (part, search_block(left, part, reach, block.clone())));
            let of_parts: Vec<_> = of_parts.collect();
            for at in 0..block.len() {
                let begin = lists.rows.len();
                for (part, runs) in &of_parts {
                    let run = runs[at];
                    let from = lists.rows.len();
                    if from + run.len() > most {
                        return None;
                    }
                    memory::reserve(&mut lists.rows, run.len());
                    lists.rows.extend((run.start..run.end).map(|place| part.row(place)));
                    if !part.groups.ascending() {
                        lists.rows[from..].sort_unstable();
                    }
                }
                lists.lengths.push((lists.rows.len() - begin) as u32);
            }
        }
        Some(lists)
    })?;
    let pieces: Option<Vec<RowLists>> = pieces.into_iter().collect();
    let fits =
        |pieces: &Vec<RowLists>| pieces.iter().map(|piece| piece.rows.len()).sum::<usize>() <= most;
    let Some(pieces) = pieces.filter(fits) else { return Ok(None) };
    Matches::of_pieces(pieces, 0, left.len(), right.rows(), driver).map(Some)
}

/// Returns the matches of up to [`BLOCK`] left rows in a part.
fn search_block(
    left: &[i64],
    part: &SearchedPart<'_>,
    reach: &impl LeftReach,
    rows: Range<usize>,
) -> [Run; BLOCK] {
    let mut searches = [[Search::default(); 2]; BLOCK];
    for (row, searches) in rows.clone().zip(&mut searches) {
        let Some((first, last)) = reach.at(row, left[row]) else { continue };
        *searches = [part.search(row, Some(first)), part.search(row, last.checked_add(1))];
    }
    part.find(searches[..rows.len()].as_flattened_mut());
    searches.map(|[start, end]| Run { start: start.low, end: end.low })
}
