//! Finds matches among the right rows of an index.

use std::ops::Range;

use tidegate_structures::memory;
use tidegate_structures::memory::pages::{Pages, Slot};
use tidegate_structures::memory::partition::split_buckets;

use super::partners::{PartnerCount, Partners};
use super::sweep;
use crate::driver::{Driver, PART_ROWS, Stopped};
use crate::matches::{MAX_ROWS, Matches, RowLists, Run, cut};
use crate::order::{IndexedRows, JoinColumns, Search, SearchedPart};
use crate::rows::Interval;
use crate::rows::interval::LeftReach;

/// The number of left rows whose matches are searched for together.
const BLOCK: usize = 8;

/// If more than one in this many right rows is a partner, visiting all right rows takes less time.
const VISITED: usize = 16;

/// The minimum number of left rows that justifies waking a thread to search for their partners.
const SEARCHED_ROWS: usize = if cfg!(test) { 8 } else { 1 << 9 };

/// Finds the matches of every left row, like [`interval_join`](super::interval_join), among the
/// rows of an index.
///
/// The unit of left times and of the interval's ends is `factor` times finer than that of the
/// index.
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

/// The partners of left rows among the rows of an index. Each left row has its own copies of its
/// partners, which are stored consecutively. A partner's position is its right row number.
#[derive(Debug)]
pub struct IndexedPartners {
    /// The partners.
    pub partners: Partners,
    /// The index row number of each partner.
    pub rows: Pages<u32>,
    /// The time of each partner, in the unit of the left times.
    pub ts: Pages<i64>,
    /// The key of each left row, and of each partner. Each left row has its own key.
    pub keys: [Pages<u32>; 2],
}

/// Finds the partners of every left row, like [`interval_partners`](super::interval_partners),
/// among the rows of an index.
///
/// The unit of left times and of the interval's ends is `factor` times finer than that of the
/// index.
///
/// Returns `None` if there are so many left rows or partners that it takes less time to visit all
/// right rows.
///
/// ```
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_operators::interval::interval_partners_in;
/// use tidegate_operators::order::{IndexPart, IndexedRows, JoinColumns, SideIndex};
/// use tidegate_operators::rows::{Closed, Interval};
/// use tidegate_sync::Stop;
///
/// let driver = Driver::new(1, Stop::default());
/// let ts: Vec<i64> = (0..1000).collect();
/// let rows = &SideIndex::new(JoinColumns { ts: &ts, keys: None }, 1, &driver)?;
/// let part = IndexPart { rows, expired: 0, earliest: i64::MIN, left_keys: None };
/// let before = Interval { lower: Some(-1), upper: Some(0), closed: Closed::Both };
/// let found = interval_partners_in(&[11, 10], &IndexedRows::new([part]), &before, true, 1, &driver)?;
/// let found = found.expect("there are few partners");
/// assert_eq!(found.rows[..], [9, 10, 11, 8, 9, 10]);
/// assert_eq!(found.partners.count(0), 3);
/// # Ok::<(), Stopped>(())
/// ```
///
/// # Panics
///
/// Panics if a left row has no key, a key is out of bounds, or `factor` is not positive.
pub fn interval_partners_in(
    left: &[i64],
    right: &IndexedRows<'_>,
    interval: &Interval,
    with_prevailing: bool,
    factor: i64,
    driver: &Driver,
) -> Result<Option<IndexedPartners>, Stopped> {
    assert!(factor > 0, "a factor");
    right.check(left.len());
    if !right.are_searched(left.len()) {
        return Ok(None);
    }
    let rows = left.len().div_ceil(driver.parts(left.len(), SEARCHED_ROWS)).max(1);
    let tasks = (0..left.len()).step_by(rows).map(|first| first..left.len().min(first + rows));
    let reach = (interval, factor, with_prevailing);
    let searched =
        driver.map(tasks.collect(), |task| FoundPlaces::new(left, right, reach, task))?;
    let of_each: Vec<PartnerCount> = searched.iter().flat_map(FoundPlaces::counts).collect();
    let mut starts = memory::vec(left.len() + 1);
    let mut total = 0;
    for one in &of_each {
        starts.push(total as u32);
        total += one.count as usize;
        if total > right.rows() / VISITED {
            return Ok(None);
        }
    }
    starts.push(total as u32);

    let pieces = cut(0..left.len(), |row| of_each[row].count as usize);
    let first_rows = pieces.iter().map(|piece| starts[piece.start]);
    let borders: Vec<u32> = first_rows.chain([total as u32]).collect();
    let mut columns = (Pages::unwritten(total), Pages::unwritten(total), Pages::unwritten(total));
    let lists = split_buckets(&mut columns.0, &borders)
        .into_iter()
        .zip(split_buckets(&mut columns.1, &borders))
        .zip(split_buckets(&mut columns.2, &borders));
    let tasks = pieces.into_iter().zip(lists).collect();
    driver.map(tasks, |(piece, ((mut numbers, mut ts), mut keys)): ListTask<'_>| {
        for left in piece {
            let one = of_each[left];
            let count = one.count as usize;
            let own = (take_first(&mut numbers, count), take_first(&mut ts, count));
            searched[left / rows].list(left % rows, one, factor, own);
            Slot::fill(take_first(&mut keys, count), left as u32);
        }
    })?;
    let (numbers, ts, keys) = (columns.0.written(), columns.1.written(), columns.2.written());
    let partners = Partners::of_lists(&of_each, &starts, with_prevailing, &ts, interval, driver)?;
    let left_keys = Pages::collect(0..left.len() as u32);
    Ok(Some(IndexedPartners { partners, rows: numbers, ts, keys: [left_keys, keys] }))
}

/// Left rows, with the slots for the row numbers, times and keys of their partners.
type ListTask<'a> =
    (Range<usize>, ((&'a mut [Slot<u32>], &'a mut [Slot<i64>]), &'a mut [Slot<u32>]));

/// Removes and returns the first slots.
fn take_first<'a, T>(slots: &mut &'a mut [T], count: usize) -> &'a mut [T] {
    let (first, rest) = std::mem::take(slots).split_at_mut(count);
    *slots = rest;
    first
}

/// The positions of the partners of some left rows.
struct FoundPlaces<'a> {
    parts: &'a [SearchedPart<'a>],
    /// For each left row, a run of positions in each part.
    runs: Vec<Run>,
    /// The prevailing row of each left row, as its time in the unit of the index and its row number.
    /// Empty if such rows are not partners.
    before: Vec<Option<(i64, u32)>>,
}

impl<'a> FoundPlaces<'a> {
    fn new(
        left: &[i64],
        right: &'a IndexedRows<'_>,
        (interval, factor, with_prevailing): (&Interval, i64, bool),
        rows: Range<usize>,
    ) -> Self {
        let parts = right.parts();
        let mut found =
            FoundPlaces { parts, runs: memory::vec(rows.len() * parts.len()), before: Vec::new() };
        let mut of_parts = Vec::with_capacity(parts.len());
        for first in rows.clone().step_by(BLOCK) {
            let block = first..rows.end.min(first + BLOCK);
            for part in parts {
                let mut searches = [[Search::default(); 2]; BLOCK];
                for (row, searches) in block.clone().zip(&mut searches) {
                    let first = interval.first(left[row]).map(|first| ceil(first, factor));
                    // Without a last time, no row is a partner, except for a prevailing one.
                    let limit = match interval.last(left[row]) {
                        Some(last) => floor(last, factor).checked_add(1),
                        None => Some(i64::MIN),
                    };
                    *searches = [part.search(row, first), part.search(row, limit)];
                }
                part.find(searches[..block.len()].as_flattened_mut());
                of_parts.push(searches);
            }
            for (at, row) in block.enumerate() {
                found.runs.extend(of_parts.iter().map(|searches| {
                    let [start, end] = searches[at];
                    Run { start: start.low, end: end.low.max(start.low) }
                }));
                if with_prevailing {
                    let before = parts.iter().zip(&of_parts).filter_map(|(part, searches)| {
                        let place = part.before(row, searches[at][0])?;
                        Some((part.groups.ts()[place as usize], part.row(place)))
                    });
                    found.before.push(before.max());
                }
            }
            of_parts.clear();
        }
        found
    }

    /// Returns the number of partners for each left row.
    fn counts(&self) -> impl Iterator<Item = PartnerCount> {
        let runs = self.runs.chunks_exact(self.parts.len().max(1));
        runs.enumerate().map(|(row, runs)| {
            let is_prevailing = self.before.get(row).is_some_and(Option::is_some);
            let count: usize = runs.iter().map(|run| run.len()).sum();
            // Counts beyond the limit are only compared with it.
            let count = u32::try_from(count + usize::from(is_prevailing)).unwrap_or(u32::MAX);
            PartnerCount { count, is_prevailing }
        })
    }

    /// Writes the row numbers and times of a left row's partners, ordered by time and row number.
    fn list(
        &self,
        left: usize,
        one: PartnerCount,
        factor: i64,
        (mut rows, mut ts): (&mut [Slot<u32>], &mut [Slot<i64>]),
    ) {
        if one.is_prevailing {
            let (time, row) = self.before[left].expect("there is a prevailing row");
            take_first(&mut rows, 1)[0].set(row);
            // Only this time may not fit. The row still precedes the others.
            take_first(&mut ts, 1)[0].set(time.saturating_mul(factor));
        }
        let runs = &self.runs[left * self.parts.len()..][..self.parts.len()];
        let mut runs = self.parts.iter().zip(runs).filter(|(_, run)| run.len() > 0);
        let (first, second) = (runs.next(), runs.next());
        let places = |run: &Run| run.start..run.end;
        let Some((part, run)) = first else { return };
        let Some(second) = second else {
            part.write_rows(places(run), rows);
            let own = &part.groups.ts()[run.start as usize..run.end as usize];
            for (slot, &time) in ts.iter_mut().zip(own) {
                slot.set(time * factor);
            }
            return;
        };
        let mut both: Vec<(i64, u32)> = memory::vec(rows.len());
        for (part, run) in [(part, run), second].into_iter().chain(runs) {
            let own = part.groups.ts();
            both.extend(places(run).map(|place| (own[place as usize], part.row(place))));
        }
        both.sort_unstable();
        for (((time, row), slot), ts) in both.into_iter().zip(rows).zip(ts) {
            slot.set(row);
            ts.set(time * factor);
        }
    }
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
