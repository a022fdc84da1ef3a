//! Puts rows in time order, stably.
//!
//! Many rows are first partitioned by time, in equal ranges of it, so that each range is sorted in
//! a cache; a range with far more rows than others is partitioned again, in its own range. So times
//! may be distributed in any way.

use tidegate_structures::memory;
use tidegate_structures::memory::pages::{Pages, Slot};
use tidegate_structures::memory::partition::{ranges, split_buckets};

use super::group::{are_sorted, partition};
use crate::driver::{Driver, PART_ROWS, Stopped};

/// Rows a task sorts or checks at a time, so that a stop is seen soon.
const TASK_ROWS: usize = 1 << 18;

/// The most rows that are sorted as they are: 16 bytes each are half of a 2 MiB cache.
const CACHED_ROWS: usize = 1 << 16;

/// How many rows a range of times should have: with so few they are sorted in the smallest cache.
const RANGE_ROWS: usize = 1 << 9;

/// Puts each group in time order, stably, and returns whether all were.
pub(crate) fn sort_groups(
    starts: &[u32],
    ts: &mut [i64],
    numbers: &mut [u32],
    driver: &Driver,
) -> Result<bool, Stopped> {
    let total = starts[starts.len() - 1] as usize;
    let (mut large, mut small) = (Vec::new(), Vec::new());
    let mut task = Vec::new();
    let mut task_rows = 0;
    let (ts, numbers) = (&mut ts[..total], &mut numbers[..total]);
    for (ts, numbers) in split_buckets(ts, starts).into_iter().zip(split_buckets(numbers, starts)) {
        if ts.len() > CACHED_ROWS {
            large.push((ts, numbers));
            continue;
        }
        task_rows += ts.len();
        task.push((ts, numbers));
        if task_rows >= TASK_ROWS {
            small.push(std::mem::take(&mut task));
            task_rows = 0;
        }
    }
    small.push(task);
    let sorted = driver.map(small, |groups| {
        groups.into_iter().fold(true, |all, (ts, numbers)| sort(ts, numbers) & all)
    })?;
    let mut all = sorted.into_iter().all(|sorted| sorted);
    for (ts, numbers) in large {
        all &= sort_large(ts, numbers, driver)?;
    }
    Ok(all)
}

/// Puts rows in time order, stably, and returns whether they were.
fn sort(ts: &mut [i64], numbers: &mut [u32]) -> bool {
    let sorted = ts.is_sorted();
    if !sorted {
        sort_cached(ts, numbers);
    }
    sorted
}

/// Sorts rows in a cache: as numbers of (time, place), in one word if they fit.
fn sort_cached(ts: &mut [i64], numbers: &mut [u32]) {
    let (low, high) = span(ts);
    let place_bits = usize::BITS - (ts.len() - 1).leading_zeros();
    let time_bits = u64::BITS - low.abs_diff(high).leading_zeros();
    let from = memory::collect(numbers.iter().copied());
    if place_bits + time_bits <= u64::BITS {
        let mut rows: Vec<u64> = ts
            .iter()
            .zip(0..)
            .map(|(&time, place)| time.abs_diff(low) << place_bits | place)
            .collect();
        rows.sort_unstable();
        let mask = (1 << place_bits) - 1;
        for ((row, time), number) in rows.into_iter().zip(ts).zip(numbers) {
            *time = low.wrapping_add_unsigned(row >> place_bits);
            *number = from[(row & mask) as usize];
        }
    } else {
        let mut rows: Vec<(i64, u32)> = ts.iter().copied().zip(0..).collect();
        rows.sort_unstable();
        for ((row, time), number) in rows.into_iter().zip(ts).zip(numbers) {
            (*time, *number) = (row.0, from[row.1 as usize]);
        }
    }
}

/// As [`sort`], on all threads.
fn sort_large(ts: &mut [i64], numbers: &mut [u32], driver: &Driver) -> Result<bool, Stopped> {
    if are_sorted(&[ts], driver)? {
        return Ok(true);
    }
    let (sorted_ts, places) = sort_rows(ts, driver)?;
    ts.copy_from_slice(&sorted_ts);
    let from = memory::collect(numbers.iter().copied());
    numbers
        .iter_mut()
        .zip(places.iter())
        .for_each(|(number, &place)| *number = from[place as usize]);
    Ok(false)
}

/// Times in order, and the place that each had.
pub(super) fn sort_rows(ts: &[i64], driver: &Driver) -> Result<(Pages<i64>, Pages<u32>), Stopped> {
    if ts.len() <= CACHED_ROWS {
        let (mut sorted_ts, mut places) = (Pages::copied(ts), Pages::collect(0..ts.len() as u32));
        sort(&mut sorted_ts, &mut places);
        return Ok((sorted_ts, places));
    }
    // 1. By range of time. More than one range, since there is more than one time.
    let parts = ranges(ts.len(), driver.parts(ts.len(), PART_ROWS));
    let spans = driver.map(parts.clone(), |part| span(&ts[part]))?;
    let (low, high) =
        spans.into_iter().reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).expect("a part");
    let wanted_bits = (ts.len() / RANGE_ROWS).ilog2();
    let shift = (u64::BITS - low.abs_diff(high).leading_zeros()).saturating_sub(wanted_bits);
    let mut keys = Pages::unwritten(ts.len());
    let mut rest = &mut keys[..];
    let cut = |part: std::ops::Range<usize>| {
        let (keys, others) = std::mem::take(&mut rest).split_at_mut(part.len());
        rest = others;
        (&ts[part], keys)
    };
    let cuts = parts.into_iter().map(cut).collect();
    driver.map(cuts, |(ts, keys): (&[i64], &mut [Slot<u32>])| {
        keys.iter_mut()
            .zip(ts)
            .for_each(|(key, &time)| key.set((time.abs_diff(low) >> shift) as u32));
    })?;
    let keys = keys.written();
    let count = (low.abs_diff(high) >> shift) as usize + 1;
    let (mut sorted_ts, mut places) = (Pages::unwritten(ts.len()), Pages::unwritten(ts.len()));
    let starts = partition(&keys, ts, count, &mut sorted_ts, &mut places, driver)?;
    drop(keys);
    let (mut sorted_ts, mut places) = (sorted_ts.written(), places.written());
    // 2. Each range by itself.
    sort_groups(&starts, &mut sorted_ts, &mut places, driver)?;
    Ok((sorted_ts, places))
}

/// The smallest and the largest of some times.
fn span(ts: &[i64]) -> (i64, i64) {
    // One pass each, so that both are vectorised.
    (ts.iter().copied().fold(i64::MAX, i64::min), ts.iter().copied().fold(i64::MIN, i64::max))
}
