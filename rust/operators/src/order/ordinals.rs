//! Numbers the rows of each key in time order.

use std::ops::Range;

use tidegate_structures::memory;
use tidegate_structures::memory::pages::{Pages, Slot};
use tidegate_structures::memory::partition::ranges;

use super::{Groups, JoinColumns, are_sorted};
use crate::driver::{Driver, PART_ROWS, Stopped};

/// Rows are counted in ranges that have at least this many rows per key.
const ROWS_PER_KEY: usize = if cfg!(test) { 1 } else { 8 };

/// Returns each row's position among the rows with the same key, counted from 0. The rows of a key
/// are sorted by time, and rows with equal times by row number.
///
/// ```
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_operators::order::{JoinColumns, ordinals};
/// use tidegate_sync::Stop;
///
/// let rows = JoinColumns { ts: &[20, 10, 30, 15], keys: Some(&[0, 0, 0, 1]) };
/// let found = ordinals(rows, 2, &Driver::new(1, Stop::default()))?;
/// assert_eq!(found[..], [1, 0, 2, 0]);
/// # Ok::<(), Stopped>(())
/// ```
///
/// # Panics
///
/// Panics if a row has no key.
pub fn ordinals(
    rows: JoinColumns<'_>,
    key_count: usize,
    driver: &Driver,
) -> Result<Pages<i64>, Stopped> {
    if are_sorted(&[rows.ts], driver)? {
        return in_row_order(rows, key_count, driver);
    }
    let groups = Groups::new(rows, key_count, driver)?;
    let mut found = Pages::filled(rows.ts.len(), 0);
    for (start, end) in groups.starts.iter().zip(&groups.starts[1..]) {
        for (place, ordinal) in (*start..*end).zip(0..) {
            let row = groups.numbers().map_or(place, |numbers| numbers[place as usize]);
            found[row as usize] = ordinal;
        }
    }
    Ok(found)
}

/// Numbers rows that are in time order.
fn in_row_order(
    rows: JoinColumns<'_>,
    key_count: usize,
    driver: &Driver,
) -> Result<Pages<i64>, Stopped> {
    let Some(keys) = rows.keys else {
        return Ok(Pages::collect((0..rows.ts.len()).map(|row| row as i64)));
    };
    let counts = RangeCounts::new(keys, key_count, PART_ROWS, driver)?;
    let counts = counts.expect("each row has a key that is less than the number of keys");
    let mut found = Pages::unwritten(keys.len());
    let mut rest = &mut found[..];
    let mut tasks = Vec::new();
    for (range, before) in counts.ranges.into_iter().zip(counts.before) {
        let (own, others) = std::mem::take(&mut rest).split_at_mut(range.len());
        rest = others;
        tasks.push((range, before, own));
    }
    driver.map(tasks, |(range, mut next, own): (Range<usize>, Vec<u32>, &mut [Slot<i64>])| {
        for (slot, &key) in own.iter_mut().zip(&keys[range]) {
            let next = &mut next[key as usize];
            slot.set(i64::from(*next));
            *next += 1;
        }
    })?;
    Ok(found.written())
}

/// Ranges of adjacent rows, and the number of earlier rows of each key.
pub(crate) struct RangeCounts {
    pub(crate) ranges: Vec<Range<usize>>,
    /// For each range, the number of rows of each key that precede the range.
    pub(crate) before: Vec<Vec<u32>>,
}

impl RangeCounts {
    /// Divides rows into as many ranges as there are threads, or into fewer if the ranges would
    /// otherwise have fewer than `least` rows. Returns `None` if a row's key is not less than
    /// `key_count`.
    pub(crate) fn new(
        keys: &[u32],
        key_count: usize,
        least: usize,
        driver: &Driver,
    ) -> Result<Option<Self>, Stopped> {
        let least = least.max(ROWS_PER_KEY.saturating_mul(key_count));
        let ranges = ranges(keys.len(), driver.parts(keys.len(), least));
        let (_, counted) = ranges.split_last().expect("there is at least one range");
        let count = |range: Range<usize>| {
            let mut counts = memory::filled(key_count, 0_u32);
            for &key in &keys[range] {
                *counts.get_mut(key as usize)? += 1;
            }
            Some(counts)
        };
        let Some(counts) = driver.map(counted.to_vec(), count)?.into_iter().collect() else {
            return Ok(None);
        };
        let counts: Vec<Vec<u32>> = counts;
        let mut before = vec![memory::filled(key_count, 0_u32)];
        for mut counts in counts {
            counts.iter_mut().zip(&before[before.len() - 1]).for_each(|(own, all)| *own += all);
            before.push(counts);
        }
        Ok(Some(RangeCounts { ranges, before }))
    }
}
