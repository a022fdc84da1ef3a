//! Follows each key's rows in time order. Each row starts at the position reached by the
//! previous row with the same key.
//!
//! If all rows on a side are in time order, each thread stores a position for each key. Otherwise,
//! the rows are grouped by key, and each group is followed from its start.

use tidegate_structures::memory::pages::{Pages, Slot};
use tidegate_structures::memory::partition::NO_KEY;
use tidegate_structures::simd::wide::{Work, wide};

use super::JoinColumns;
use super::group::{Groups, Value, are_sorted};
use crate::driver::{Driver, PART_ROWS, Stopped};

/// The number of rows in a task. Tasks are so small that a stop is noticed soon and all threads
/// finish at about the same time.
const TASK_ROWS: usize = 1 << 16;

/// The maximum number of keys for which a thread stores positions. With up to 12 bytes per key, the
/// positions take up a large part of a 2 MiB cache.
const CURSORS: usize = 1 << 16;

/// Finds a result for each row, starting at the position reached by an earlier row with the same
/// key.
pub(crate) trait Follow: Sync {
    /// The type of positions.
    type Place: Copy + Default + Send;
    /// The type of results. Rows without a key get the default value.
    type Output: Value;

    /// Returns the initial position for a key's first row.
    fn begin(&self, key: u32) -> Self::Place;

    /// Returns the result for the row with this number and time. `place` contains the position
    /// reached by an earlier row with the same key. This method updates it to the position reached
    /// by this row. Implementations are inlined so that they are compiled for wide instructions.
    fn next(&self, place: &mut Self::Place, key: u32, row: usize, ts: i64) -> Self::Output;
}

/// The current position in a group.
#[derive(Clone, Copy, Debug)]
struct Cursor<P> {
    key: u32,
    place: P,
}

impl<P: Copy + Default> Cursor<P> {
    fn new() -> Self {
        Cursor { key: NO_KEY, place: P::default() }
    }

    #[inline(always)]
    fn next<F: Follow<Place = P>>(
        &mut self,
        follow: &F,
        key: u32,
        row: usize,
        ts: i64,
    ) -> F::Output {
        if self.key != key {
            *self = Cursor { key, place: follow.begin(key) };
        }
        follow.next(&mut self.place, key, row, ts)
    }
}

/// Returns the results of `follow` for each row on a side.
pub(crate) fn follow<F: Follow>(
    side: JoinColumns<'_>,
    key_count: usize,
    follow: &F,
    driver: &Driver,
) -> Result<Pages<F::Output>, Stopped> {
    let mut found = Pages::unwritten(side.ts.len());
    if are_sorted(&[side.ts], driver)? {
        in_row_order(side, key_count, follow, &mut found, driver)?;
    } else {
        by_group(Groups::new(side, key_count, driver)?, follow, &mut found, driver)?;
    }
    Ok(found.written())
}

/// Follows rows whose times are in nondecreasing order, with one cursor per key.
///
/// Each thread processes its tasks in row order, so cursors only move forward. Two keys can share a
/// cursor. When a key takes over a shared cursor, the cursor moves to the start of the key's group.
/// From there, galloping is as fast as a binary search.
fn in_row_order<F: Follow>(
    side: JoinColumns<'_>,
    key_count: usize,
    follow: &F,
    found: &mut [Slot<F::Output>],
    driver: &Driver,
) -> Result<(), Stopped> {
    let rows = TASK_ROWS.min(side.ts.len().div_ceil(driver.parts(side.ts.len(), PART_ROWS)).max(1));
    let tasks = found.chunks_mut(rows).enumerate().collect();
    let slots = key_count.clamp(1, CURSORS).next_power_of_two();
    let cursors = || vec![Cursor::new(); slots];
    driver.map_with(tasks, cursors, |cursors, (task, found)| {
        let first = task * rows;
        let ts = &side.ts[first..first + found.len()];
        let keys = side.keys.map(|keys| &keys[first..first + found.len()]);
        wide(InRowOrder { follow, first, ts, keys, cursors, found });
    })?;
    Ok(())
}

/// The rows in a task, and the cursors of the thread that runs it. The number of cursors is a power
/// of two.
struct InRowOrder<'a, F: Follow> {
    follow: &'a F,
    /// The number of the first row.
    first: usize,
    ts: &'a [i64],
    keys: Option<&'a [u32]>,
    cursors: &'a mut [Cursor<F::Place>],
    found: &'a mut [Slot<F::Output>],
}

impl<F: Follow> Work for InRowOrder<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let InRowOrder { follow, first, ts, keys, cursors, found } = self;
        let Some(keys) = keys else {
            let cursor = &mut cursors[0];
            for ((found, &ts), row) in found.iter_mut().zip(ts).zip(first..) {
                found.set(cursor.next(follow, 0, row, ts));
            }
            return;
        };
        let last = cursors.len() - 1;
        for (((found, &ts), &key), row) in found.iter_mut().zip(ts).zip(keys).zip(first..) {
            found.set(if key == NO_KEY {
                F::Output::default()
            } else {
                cursors[key as usize & last].next(follow, key, row, ts)
            });
        }
    }
}

/// Follows rows that are grouped by key. Each group is followed from its start.
fn by_group<F: Follow>(
    side: Groups<'_>,
    follow: &F,
    found: &mut [Slot<F::Output>],
    driver: &Driver,
) -> Result<(), Stopped> {
    let total = side.starts[side.starts.len() - 1] as usize;
    let mut by_group = Pages::<F::Output>::unwritten(total);
    let tasks = by_group.chunks_mut(TASK_ROWS).enumerate().collect();
    driver.map(tasks, |(task, found): (usize, &mut [Slot<F::Output>])| {
        wide(ByGroup { follow, side: &side, first: task * TASK_ROWS, found });
    })?;
    side.put_by_row(by_group.written(), found, driver)
}

/// The positions of a task. The first position can be in the middle of a group.
struct ByGroup<'a, 'b, F: Follow> {
    follow: &'a F,
    side: &'a Groups<'b>,
    /// The first position.
    first: usize,
    found: &'a mut [Slot<F::Output>],
}

impl<F: Follow> Work for ByGroup<'_, '_, F> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let ByGroup { follow, side, first, found } = self;
        // The last nonempty group that starts at or before the task's first row.
        let mut key = side.starts.partition_point(|&start| start as usize <= first) - 1;
        let mut cursor = Cursor::new();
        for (place, found) in (first..).zip(found) {
            while side.starts[key + 1] as usize <= place {
                key += 1;
            }
            let row = side.numbers().map_or(place, |numbers| numbers[place] as usize);
            found.set(cursor.next(follow, key as u32, row, side.ts()[place]));
        }
    }
}
