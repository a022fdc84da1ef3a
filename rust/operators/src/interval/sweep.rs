//! Finds the run of right rows that matches each left row.

use tidegate_structures::memory::pages::{Pages, Slot};
use tidegate_structures::memory::partition::NO_KEY;

use super::directory::Directory;
use crate::driver::{Driver, PART_ROWS, Stopped};
use crate::matches::Run;
use crate::order::{Groups, JoinColumns, are_sorted, gallop};
use crate::rows::interval::LeftReach;

/// Left rows of a task, so that a stop is seen soon and threads finish together.
const TASK_ROWS: usize = 1 << 16;

/// The most keys a thread remembers its place in the group of: 12 bytes each, a good part of a 2
/// MiB cache.
const CURSORS: usize = 1 << 16;

/// The matches of every left row, as runs of places in `right`.
pub(crate) fn sweep<R: LeftReach>(
    left: JoinColumns<'_>,
    right: &Groups<'_>,
    key_count: usize,
    reach: &R,
    driver: &Driver,
) -> Result<Pages<Run>, Stopped> {
    let mut runs = Pages::unwritten(left.ts.len());
    if are_sorted(&[left.ts], driver)? {
        in_row_order(left, right, key_count, reach, &mut runs, driver)?;
    } else if left.keys.is_none()
        && let Some(directory) = Directory::new(right.ts(), driver)?
    {
        let tasks = runs.chunks_mut(TASK_ROWS).enumerate().collect();
        driver.map(tasks, |(task, runs): (usize, &mut [Slot<Run>])| {
            let first = task * TASK_ROWS;
            directory.find(reach, first, &left.ts[first..first + runs.len()], runs);
        })?;
    } else {
        by_group(Groups::new(left, key_count, driver)?, right, reach, &mut runs, driver)?;
    }
    Ok(runs.written())
}

/// The place a sweep has reached in one group.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    key: u32,
    run: Run,
}

/// Sweeps left rows whose times never fall, with a cursor a key.
///
/// A thread takes its tasks in row order, so its cursors only rise. Two keys may share a cursor;
/// the one that comes back then starts at the beginning of its group, from where galloping is a
/// binary search.
fn in_row_order<R: LeftReach>(
    left: JoinColumns<'_>,
    right: &Groups<'_>,
    key_count: usize,
    reach: &R,
    runs: &mut [Slot<Run>],
    driver: &Driver,
) -> Result<(), Stopped> {
    let rows = TASK_ROWS.min(left.ts.len().div_ceil(driver.parts(left.ts.len(), PART_ROWS)).max(1));
    let tasks = runs.chunks_mut(rows).enumerate().collect();
    let slots = key_count.clamp(1, CURSORS).next_power_of_two();
    let cursors = || vec![Cursor { key: NO_KEY, run: Run::default() }; slots];
    driver.map_with(tasks, cursors, |cursors, (task, runs)| {
        let first = task * rows;
        let ts = &left.ts[first..first + runs.len()];
        match left.keys.map(|keys| &keys[first..first + runs.len()]) {
            None => {
                let cursor = &mut cursors[0];
                for ((run, &ts), row) in runs.iter_mut().zip(ts).zip(first..) {
                    run.set(follow::<R>(cursor, 0, reach.at(row, ts), right));
                }
            }
            Some(keys) => {
                for (((run, &ts), &key), row) in runs.iter_mut().zip(ts).zip(keys).zip(first..) {
                    run.set(if key == NO_KEY {
                        Run::default()
                    } else {
                        follow::<R>(
                            &mut cursors[key as usize & (slots - 1)],
                            key,
                            reach.at(row, ts),
                            right,
                        )
                    });
                }
            }
        }
    })?;
    Ok(())
}

/// Sweeps left rows in any order: grouped as the right ones are, each group is followed from its
/// start.
fn by_group<R: LeftReach>(
    left: Groups<'_>,
    right: &Groups<'_>,
    reach: &R,
    runs: &mut [Slot<Run>],
    driver: &Driver,
) -> Result<(), Stopped> {
    let total = left.starts[left.starts.len() - 1] as usize;
    let mut found = Pages::<Run>::unwritten(total);
    let tasks = found.chunks_mut(TASK_ROWS).enumerate().collect();
    driver.map(tasks, |(task, found): (usize, &mut [Slot<Run>])| {
        let first = task * TASK_ROWS;
        // The last group that starts at or before the task's first row, and is not empty.
        let mut key = left.starts.partition_point(|&start| start as usize <= first) - 1;
        let mut cursor = Cursor { key: NO_KEY, run: Run::default() };
        for (place, found) in (first..).zip(found) {
            while left.starts[key + 1] as usize <= place {
                key += 1;
            }
            let row = left.numbers().map_or(place, |numbers| numbers[place] as usize);
            found.set(follow::<R>(&mut cursor, key as u32, reach.at(row, left.ts()[place]), right));
        }
    })?;
    left.put_by_row(found.written(), runs, driver)
}

/// The run of right rows of `key` whose times are from the first to the last of `ends`, not before
/// the cursor's run.
#[inline]
fn follow<R: LeftReach>(
    cursor: &mut Cursor,
    key: u32,
    ends: Option<(i64, i64)>,
    right: &Groups<'_>,
) -> Run {
    let (start, end) = (right.starts[key as usize], right.starts[key as usize + 1]);
    if cursor.key != key {
        *cursor = Cursor { key, run: Run { start, end: start } };
    }
    let Some((first, last)) = ends else { return Run { start, end: start } };
    let group = &right.ts()[..end as usize];
    if !R::RISING {
        let before = |place: u32| (place > start).then(|| group[place as usize - 1]);
        if before(cursor.run.start).is_some_and(|ts| ts >= first)
            || before(cursor.run.end).is_some_and(|ts| ts > last)
        {
            cursor.run = Run { start, end: start };
        }
    }
    cursor.run.start = gallop(group, cursor.run.start, |ts| ts < first);
    cursor.run.end = gallop(group, cursor.run.end.max(cursor.run.start), |ts| ts <= last);
    cursor.run
}
