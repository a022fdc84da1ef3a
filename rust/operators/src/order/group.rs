//! Rows of one side, grouped by key and in time order within a key.

use std::ops::Deref;

use tidegate_structures::memory;
use tidegate_structures::memory::pages::{Pages, Slot};
use tidegate_structures::memory::partition::{
    Buckets, Chunk, MAX_BUCKETS, Rows, Target, ranges, split_buckets, writers,
};

use super::JoinColumns;
use super::sort::{sort_groups, sort_rows};
use crate::driver::{Driver, PART_ROWS, Stopped};

/// The rows of a side by key, then time, then row number.
#[derive(Debug)]
pub(crate) struct Groups<'a> {
    /// Where each key's rows start, with the number of rows that have a key as last element.
    pub(crate) starts: Vec<u32>,
    ts: Times<'a>,
    /// The row numbers; `None` where a row's place is its number.
    numbers: Option<Pages<u32>>,
    ascending: bool,
    is_sorted: bool,
}

#[derive(Debug)]
enum Times<'a> {
    Borrowed(&'a [i64]),
    Owned(Pages<i64>),
}

impl Deref for Times<'_> {
    type Target = [i64];

    fn deref(&self) -> &[i64] {
        match self {
            Times::Borrowed(ts) => ts,
            Times::Owned(ts) => ts,
        }
    }
}

impl<'a> Groups<'a> {
    /// Groups the rows of `side`, whose keys are below `key_count`.
    pub(crate) fn new(
        side: JoinColumns<'a>,
        key_count: usize,
        driver: &Driver,
    ) -> Result<Self, Stopped> {
        let is_sorted = are_sorted(&[side.ts], driver)?;
        let Some(keys) = side.keys else {
            return Self::of_one_key(side.ts, is_sorted, driver);
        };
        assert_eq!(keys.len(), side.ts.len(), "a time a key");
        let mut ts = Pages::unwritten(keys.len());
        let mut numbers = Pages::unwritten(keys.len());
        let starts = partition(keys, side.ts, key_count, &mut ts, &mut numbers, driver)?;
        // Rows without a key have no place.
        let with_key = starts.last().map_or(0, |&end| end as usize);
        let (mut ts, mut numbers) = (ts.written_upto(with_key), numbers.written_upto(with_key));
        let ascending = is_sorted || sort_groups(&starts, &mut ts, &mut numbers, driver)?;
        Ok(Groups { starts, ts: Times::Owned(ts), numbers: Some(numbers), ascending, is_sorted })
    }

    fn of_one_key(ts: &'a [i64], is_sorted: bool, driver: &Driver) -> Result<Self, Stopped> {
        let starts = vec![0, ts.len() as u32];
        if is_sorted {
            let ts = Times::Borrowed(ts);
            return Ok(Groups { starts, ts, numbers: None, ascending: true, is_sorted });
        }
        let (sorted_ts, numbers) = sort_rows(ts, driver)?;
        let (ts, numbers) = (Times::Owned(sorted_ts), Some(numbers));
        Ok(Groups { starts, ts, numbers, ascending: false, is_sorted })
    }

    /// The times, group by group.
    pub(crate) fn ts(&self) -> &[i64] {
        &self.ts
    }

    /// The row numbers, group by group; `None` where a row's place is its number.
    pub(crate) fn numbers(&self) -> Option<&[u32]> {
        self.numbers.as_deref()
    }

    /// Whether the row numbers of each key ascend.
    pub(crate) fn ascending(&self) -> bool {
        self.ascending
    }

    /// Whether the rows of the side are in time order, whatever their keys.
    pub(crate) fn is_sorted(&self) -> bool {
        self.is_sorted
    }

    pub(crate) fn into_numbers(self) -> Option<Pages<u32>> {
        self.numbers
    }
}

/// Whether the times of no column ever fall.
pub(crate) fn are_sorted(columns: &[&[i64]], driver: &Driver) -> Result<bool, Stopped> {
    // A part looks at the first time of the next one too.
    let parts_of = |ts| {
        let parts = ranges(<[i64]>::len(ts), driver.parts(ts.len(), PART_ROWS));
        parts.into_iter().map(move |part| &ts[part.start..ts.len().min(part.end + 1)])
    };
    let sorted = driver
        .map(columns.iter().copied().flat_map(parts_of).collect(), |part: &[i64]| {
            part.is_sorted()
        })?;
    Ok(sorted.into_iter().all(|sorted| sorted))
}

/// Partitions the rows by key, in one level or two, and returns where each key's rows start.
pub(crate) fn partition(
    keys: &[u32],
    ts: &[i64],
    key_count: usize,
    out_ts: &mut [Slot<i64>],
    out_numbers: &mut [Slot<u32>],
    driver: &Driver,
) -> Result<Vec<u32>, Stopped> {
    let rows = Rows { keys, ts: Some(ts), numbers: None, first: 0 };
    if key_count <= MAX_BUCKETS {
        let buckets = Buckets { first: 0, shift: 0, count: key_count };
        return scatter(
            rows,
            buckets,
            Target { keys: None, ts: Some(out_ts), numbers: out_numbers },
            driver,
        );
    }
    // 1. By the high bits of the key, into temporary columns.
    let shift = (key_count.div_ceil(MAX_BUCKETS)).next_power_of_two().trailing_zeros();
    let coarse = Buckets { first: 0, shift, count: key_count.div_ceil(1 << shift) };
    let (mut tmp_keys, mut tmp_ts, mut tmp_numbers) =
        (Pages::unwritten(keys.len()), Pages::unwritten(keys.len()), Pages::unwritten(keys.len()));
    let target =
        Target { keys: Some(&mut tmp_keys), ts: Some(&mut tmp_ts), numbers: &mut tmp_numbers };
    let coarse_starts = scatter(rows, coarse, target, driver)?;
    let (tmp_keys, tmp_ts, tmp_numbers) =
        (tmp_keys.written(), tmp_ts.written(), tmp_numbers.written());
    // 2. Each of these by the low bits, into its own stretch of the output. A bucket that alone
    //    would keep a thread busy longer than its share is cut like the whole was; the others are a
    //    task each.
    let share = (keys.len() / driver.threads()).max(PART_ROWS);
    let fine_of = |bucket: usize| {
        let first = bucket << shift;
        Buckets { first: first as u32, shift: 0, count: (key_count - first).min(1 << shift) }
    };
    let slices = split_buckets(out_ts, &coarse_starts)
        .into_iter()
        .zip(split_buckets(out_numbers, &coarse_starts));
    let (mut large, mut small) = (Vec::new(), Vec::new());
    for (bucket, (ts, numbers)) in slices.enumerate() {
        let at = coarse_starts[bucket] as usize..coarse_starts[bucket + 1] as usize;
        let rows = Rows {
            keys: &tmp_keys[at.clone()],
            ts: Some(&tmp_ts[at.clone()]),
            numbers: Some(&tmp_numbers[at]),
            first: 0,
        };
        let target = Target { keys: None, ts: Some(ts), numbers };
        let list = if rows.keys.len() > share { &mut large } else { &mut small };
        list.push((bucket, rows, target));
    }
    let mut starts: Vec<Vec<u32>> = vec![Vec::new(); coarse.count];
    for (bucket, rows, target) in large {
        starts[bucket] = scatter(rows, fine_of(bucket), target, driver)?;
    }
    let one = Driver::new(1, driver.stop());
    let done = driver.map(small, |(bucket, rows, target)| {
        Ok((bucket, scatter(rows, fine_of(bucket), target, &one)?))
    })?;
    for outcome in done {
        let (bucket, fine) = outcome?;
        starts[bucket] = fine;
    }
    let mut all = memory::vec(key_count + 1);
    for (fine, &start) in starts.iter().zip(&coarse_starts) {
        all.extend(fine[..fine.len() - 1].iter().map(|place| start + place));
    }
    all.push(coarse_starts[coarse.count]);
    Ok(all)
}

/// Partitions rows in one level on all threads.
fn scatter<'a>(
    rows: Rows<'a>,
    buckets: Buckets,
    target: Target<'a>,
    driver: &Driver,
) -> Result<Vec<u32>, Stopped> {
    // A chunk's counters should not outweigh its rows.
    let parts = driver.parts(rows.keys.len(), PART_ROWS.max(buckets.count * 4));
    let chunks = driver
        .map(ranges(rows.keys.len(), parts), |part| Chunk::count(rows.slice(part), buckets))?;
    let (starts, writers) = writers(chunks, target);
    driver.map(writers, |writer| writer.run())?;
    Ok(starts)
}
