//! Groups the rows on one side by key, in time order within each key.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

use bytemuck::Pod;
use tidegate_structures::memory;
use tidegate_structures::memory::pages::{Pages, Slot, UnwrittenPages};
use tidegate_structures::memory::partition::{
    Buckets, MAX_BUCKETS, Part, Rows, Target, ranges, split_buckets, writers,
};

use super::JoinColumns;
use super::sort::{SortedRows, are_many, sort_by_key, sort_groups, sort_rows};
use crate::driver::{Driver, PART_ROWS, Stopped};

/// At 8 bytes per row, this many rows fit in half of a small cache.
const CACHED_ROWS: usize = 1 << 14;

/// With fewer indexed rows per left row than this, a pass over two sides in time order takes less
/// time than following the left rows of each key.
const PASSED_OVER: usize = 4;

/// An 8-byte value that is moved together with a row.
pub(crate) trait Value: Pod + Default + Send + Sync {}

impl<T: Pod + Default + Send + Sync> Value for T {}

/// A side's rows, sorted by key, then time, then row number.
#[derive(Debug)]
pub(crate) struct Groups<'a> {
    /// The position at which each key's rows start, followed by the number of rows that have a key.
    pub(crate) starts: Cow<'a, [u32]>,
    ts: Times<'a>,
    /// The row numbers. `None` if positions are row numbers.
    numbers: Option<Arc<Pages<u32>>>,
    ascending: bool,
    is_sorted: bool,
}

/// The rows on a side, grouped by key and sorted by time, for many joins.
///
/// ```
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_operators::order::{JoinColumns, SideIndex};
/// use tidegate_sync::Stop;
///
/// let side = JoinColumns { ts: &[20, 10, 30], keys: Some(&[1, 0, 0]) };
/// let index = SideIndex::new(side, 2, &Driver::new(1, Stop::default()))?;
/// assert_eq!((index.rows(), index.key_count()), (3, 2));
/// # Ok::<(), Stopped>(())
/// ```
#[derive(Debug)]
pub struct SideIndex {
    starts: Vec<u32>,
    ts: Pages<i64>,
    numbers: Option<Arc<Pages<u32>>>,
    ascending: bool,
    is_sorted: bool,
    rows: usize,
}

impl SideIndex {
    /// Groups the rows of `side`, whose keys must be below `key_count`.
    pub fn new(side: JoinColumns<'_>, key_count: usize, driver: &Driver) -> Result<Self, Stopped> {
        let Groups { starts, ts, numbers, ascending, is_sorted } =
            Groups::new(side, key_count, driver)?;
        let ts = match ts {
            Times::Borrowed(ts) => Pages::copied(ts),
            Times::Owned(ts) => ts,
        };
        let starts = starts.into_owned();
        Ok(SideIndex { starts, ts, numbers, ascending, is_sorted, rows: side.ts.len() })
    }

    /// Returns the index with these saved arrays, or `None` if the arrays are inconsistent. The
    /// flags are those of [`ascending`](Self::ascending) and [`is_sorted`](Self::is_sorted).
    ///
    /// The times of each key must be in ascending order, and the row numbers must be below `rows`.
    pub fn of_saved(
        starts: Vec<u32>,
        ts: Pages<i64>,
        numbers: Option<Pages<u32>>,
        (ascending, is_sorted): (bool, bool),
        rows: usize,
    ) -> Option<Self> {
        let fits = starts.first() == Some(&0)
            && starts.is_sorted()
            && starts.last().is_some_and(|&end| end as usize == ts.len())
            && ts.len() <= rows
            && numbers.as_ref().is_none_or(|numbers| numbers.len() == ts.len());
        let numbers = numbers.map(Arc::new);
        fits.then_some(SideIndex { starts, ts, numbers, ascending, is_sorted, rows })
    }

    /// The position at which each key's rows start, followed by the number of rows that have a key.
    pub fn starts(&self) -> &[u32] {
        &self.starts
    }

    /// The times, key by key.
    pub fn times(&self) -> &[i64] {
        &self.ts
    }

    /// The row numbers, key by key, or `None` if positions are row numbers.
    pub fn numbers(&self) -> Option<&[u32]> {
        self.numbers.as_ref().map(|numbers| &numbers[..])
    }

    /// Returns whether each key's row numbers are in ascending order.
    pub fn ascending(&self) -> bool {
        self.ascending
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of keys.
    pub fn key_count(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns whether a join takes less time if it passes over both sides instead of using the
    /// index. This is the case if there are many left rows, and both sides are in time order.
    pub fn is_passed_over(&self, left: &[i64], driver: &Driver) -> Result<bool, Stopped> {
        let are_many = self.rows < left.len().saturating_mul(PASSED_OVER);
        Ok(are_many && self.is_sorted && are_sorted(&[left], driver)?)
    }

    /// Returns whether the rows are in time order.
    pub fn is_sorted(&self) -> bool {
        self.is_sorted
    }

    /// The number of bytes.
    pub fn bytes(&self) -> usize {
        let of_numbers = self.numbers.as_ref().map_or(0, |numbers| size_of_val(&numbers[..]));
        size_of_val(&self.starts[..]) + size_of_val(&self.ts[..]) + of_numbers
    }

    /// Returns the rows in groups.
    pub(crate) fn groups(&self) -> Groups<'_> {
        Groups {
            starts: Cow::Borrowed(&self.starts),
            ts: Times::Borrowed(&self.ts),
            numbers: self.numbers.clone(),
            ascending: self.ascending,
            is_sorted: self.is_sorted,
        }
    }
}

/// Times, either in their original order or sorted.
#[derive(Debug)]
pub(super) enum Times<'a> {
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
    /// Groups the rows of `side`, whose keys must be below `key_count`.
    pub(crate) fn new(
        side: JoinColumns<'a>,
        key_count: usize,
        driver: &Driver,
    ) -> Result<Self, Stopped> {
        let is_sorted = are_sorted(&[side.ts], driver)?;
        let Some(keys) = side.keys else {
            return Self::of_one_key(side.ts, is_sorted, driver);
        };
        let sorted = sort_side(keys, side.ts, key_count, is_sorted, true, driver)?;
        let SortedRows { starts, ts, numbers, ascending } = sorted;
        let (starts, numbers) = (Cow::Owned(starts), numbers.map(Arc::new));
        Ok(Groups { starts, ts: Times::Owned(ts), numbers, ascending, is_sorted })
    }

    fn of_one_key(ts: &'a [i64], is_sorted: bool, driver: &Driver) -> Result<Self, Stopped> {
        let starts = Cow::Owned(vec![0, ts.len() as u32]);
        if is_sorted {
            let ts = Times::Borrowed(ts);
            return Ok(Groups { starts, ts, numbers: None, ascending: true, is_sorted });
        }
        let (sorted_ts, numbers) = sort_rows(ts, true, driver)?;
        let (ts, numbers) = (Times::Owned(sorted_ts), numbers.map(Arc::new));
        Ok(Groups { starts, ts, numbers, ascending: false, is_sorted })
    }

    /// Returns the times, group by group.
    pub(crate) fn ts(&self) -> &[i64] {
        &self.ts
    }

    /// Returns the row numbers, group by group, or `None` if positions are row numbers.
    pub(crate) fn numbers(&self) -> Option<&[u32]> {
        self.numbers.as_ref().map(|numbers| &numbers[..])
    }

    /// Returns whether each key's row numbers are in ascending order.
    pub(crate) fn ascending(&self) -> bool {
        self.ascending
    }

    /// Returns whether all rows on the side are in time order, regardless of their keys.
    pub(crate) fn is_sorted(&self) -> bool {
        self.is_sorted
    }

    /// Returns the row numbers, so that they can outlive the groups.
    pub(crate) fn shared_numbers(&self) -> Option<Arc<Pages<u32>>> {
        self.numbers.clone()
    }

    pub(crate) fn into_numbers(self) -> Option<Arc<Pages<u32>>> {
        self.numbers
    }

    /// Copies each row's value to the row's position in `out`. The values are given in group order.
    /// Rows without a key get the default value.
    pub(crate) fn put_by_row<T: Value>(
        &self,
        values: Pages<T>,
        out: &mut [Slot<T>],
        driver: &Driver,
    ) -> Result<(), Stopped> {
        const { assert!(size_of::<T>() == size_of::<i64>(), "a value has the size of a time") };
        let (rows, with_key) = (out.len(), values.len());
        let fill = |out: &mut [Slot<T>], values: &[T], numbers: &[u32], first: usize| {
            if numbers.len() < out.len() {
                Slot::fill(out, T::default());
            }
            values.iter().zip(numbers).for_each(|(&value, &row)| {
                out[row as usize - first].set(value);
            });
        };
        let Some(numbers) = self.numbers() else {
            Slot::copy(&mut out[..with_key], &values);
            Slot::fill(&mut out[with_key..], T::default());
            return Ok(());
        };
        if rows <= CACHED_ROWS {
            fill(out, &values, numbers, 0);
            return Ok(());
        }
        // Adjacent rows in a group can be anywhere among the rows. The values are first partitioned
        // by range of row numbers, so that each range is filled within a cache.
        let ranges = Buckets {
            first: 0,
            shift: CACHED_ROWS.trailing_zeros(),
            count: rows.div_ceil(CACHED_ROWS),
        };
        let (mut by_range, mut numbers_by_range) =
            (Pages::<i64>::unwritten(with_key), Pages::unwritten(with_key));
        let from = Rows {
            keys: numbers,
            ts: Some(bytemuck::cast_slice(&values)),
            numbers: Some(numbers),
            first: 0,
        };
        let target =
            Target { keys: None, ts: Some(&mut by_range), numbers: Some(&mut numbers_by_range) };
        let starts = scatter(from, ranges, target, driver)?;
        drop(values);
        let (mut by_range, mut numbers) = (by_range.written(), numbers_by_range.written());
        let cut = split_buckets(&mut by_range, &starts)
            .into_iter()
            .zip(split_buckets(&mut numbers, &starts));
        let tasks = out.chunks_mut(CACHED_ROWS).zip(cut).enumerate().collect();
        driver.map(tasks, |(range, (out, (values, numbers)))| {
            fill(out, bytemuck::cast_slice(values), numbers, range * CACHED_ROWS);
        })?;
        Ok(())
    }
}

/// A side's times, sorted by key and then by time. This type is like [`Groups`] without row
/// numbers, but takes less work to create.
#[derive(Debug)]
pub(crate) struct OrderedTimes<'a> {
    /// The position at which each key's times start, followed by the number of rows that have a
    /// key.
    pub(crate) starts: Vec<u32>,
    ts: Times<'a>,
}

impl<'a> OrderedTimes<'a> {
    /// Sorts the times of `side`, whose keys must be below `key_count`.
    pub(crate) fn new(
        side: JoinColumns<'a>,
        key_count: usize,
        driver: &Driver,
    ) -> Result<Self, Stopped> {
        let is_sorted = are_sorted(&[side.ts], driver)?;
        Ok(match side.keys {
            Some(keys) => {
                Self::of_sorted(sort_side(keys, side.ts, key_count, is_sorted, false, driver)?)
            }
            None => {
                let ts = match is_sorted {
                    true => Times::Borrowed(side.ts),
                    false => Times::Owned(sort_rows(side.ts, false, driver)?.0),
                };
                OrderedTimes { starts: vec![0, side.ts.len() as u32], ts }
            }
        })
    }

    /// Returns the times, key by key.
    pub(crate) fn ts(&self) -> &[i64] {
        &self.ts
    }

    pub(super) fn of_sorted(sorted: SortedRows) -> Self {
        OrderedTimes { starts: sorted.starts, ts: Times::Owned(sorted.ts) }
    }

    pub(super) fn into_times(self) -> (Vec<u32>, Times<'a>) {
        (self.starts, self.ts)
    }
}

/// Sorts a side's rows by key and then by time. If row numbers are requested, they are moved along
/// with the times.
fn sort_side(
    keys: &[u32],
    ts: &[i64],
    key_count: usize,
    is_sorted: bool,
    with_numbers: bool,
    driver: &Driver,
) -> Result<SortedRows, Stopped> {
    assert_eq!(keys.len(), ts.len(), "a time a key");
    if !is_sorted && are_many(keys.len(), key_count) {
        return sort_by_key(keys, ts, key_count, with_numbers, driver);
    }
    let mut sorted_ts = Pages::unwritten(keys.len());
    let mut numbers = with_numbers.then(|| Pages::unwritten(keys.len()));
    let starts = partition(keys, ts, key_count, &mut sorted_ts, numbers.as_deref_mut(), driver)?;
    // Rows without a key have no position.
    let with_key = starts.last().map_or(0, |&end| end as usize);
    let mut ts = sorted_ts.written_upto(with_key);
    let mut numbers = numbers.map(|numbers| numbers.written_upto(with_key));
    let ascending = is_sorted || sort_groups(&starts, &mut ts, numbers.as_deref_mut(), driver)?;
    Ok(SortedRows { starts, ts, numbers, ascending })
}

/// Returns whether the times in every column are in nondecreasing order.
pub(crate) fn are_sorted(columns: &[&[i64]], driver: &Driver) -> Result<bool, Stopped> {
    // A part also reads the first time of the next one.
    let parts_of = |ts| {
        let parts = ranges(<[i64]>::len(ts), driver.parts(ts.len(), PART_ROWS));
        parts.into_iter().map(move |part| &ts[part.start..ts.len().min(part.end + 1)])
    };
    let rows = columns.iter().map(|ts| ts.len()).sum();
    let parts = columns.iter().copied().flat_map(parts_of).collect();
    let sorted = driver.fit(rows).map(parts, |part: &[i64]| part.is_sorted())?;
    Ok(sorted.into_iter().all(|sorted| sorted))
}

/// Partitions the rows by key, in one or two levels, and returns the start of each key's rows. Row
/// numbers are written only if they are requested.
pub(crate) fn partition(
    keys: &[u32],
    ts: &[i64],
    key_count: usize,
    out_ts: &mut [Slot<i64>],
    out_numbers: Option<&mut [Slot<u32>]>,
    driver: &Driver,
) -> Result<Vec<u32>, Stopped> {
    let rows = Rows { keys, ts: Some(ts), numbers: None, first: 0 };
    if key_count <= MAX_BUCKETS {
        let buckets = Buckets { first: 0, shift: 0, count: key_count };
        let target = Target { keys: None, ts: Some(out_ts), numbers: out_numbers };
        return scatter(rows, buckets, target, driver);
    }
    // 1. Partition by the high bits of the key, into temporary columns.
    let shift = (key_count.div_ceil(MAX_BUCKETS)).next_power_of_two().trailing_zeros();
    let coarse = Buckets { first: 0, shift, count: key_count.div_ceil(1 << shift) };
    let (mut tmp_keys, mut tmp_ts) = (Pages::unwritten(keys.len()), Pages::unwritten(keys.len()));
    let mut tmp_numbers = out_numbers.is_some().then(|| Pages::unwritten(keys.len()));
    let target = Target {
        keys: Some(&mut tmp_keys),
        ts: Some(&mut tmp_ts),
        numbers: tmp_numbers.as_deref_mut(),
    };
    let coarse_starts = scatter(rows, coarse, target, driver)?;
    let (tmp_keys, tmp_ts) = (tmp_keys.written(), tmp_ts.written());
    let tmp_numbers = tmp_numbers.map(UnwrittenPages::written);
    // 2. Partition each of these by the low bits, into its own range of the output. A bucket that
    //    would keep a thread busy longer than its share is divided like the whole side; each of the
    //    others is a task.
    let share = (keys.len() / driver.threads()).max(PART_ROWS);
    let fine_of = |bucket: usize| {
        let first = bucket << shift;
        Buckets { first: first as u32, shift: 0, count: (key_count - first).min(1 << shift) }
    };
    let slices = split_buckets(out_ts, &coarse_starts)
        .into_iter()
        .zip(split_some(out_numbers, &coarse_starts));
    let (mut large, mut small) = (Vec::new(), Vec::new());
    for (bucket, (ts, numbers)) in slices.enumerate() {
        let at = coarse_starts[bucket] as usize..coarse_starts[bucket + 1] as usize;
        let rows = Rows {
            keys: &tmp_keys[at.clone()],
            ts: Some(&tmp_ts[at.clone()]),
            numbers: tmp_numbers.as_ref().map(|numbers| &numbers[at]),
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

/// Splits values like [`split_buckets`], or returns `None` for each bucket if there are no values.
pub(super) fn split_some<'a, T>(
    values: Option<&'a mut [T]>,
    starts: &[u32],
) -> Vec<Option<&'a mut [T]>> {
    match values {
        Some(values) => split_buckets(values, starts).into_iter().map(Some).collect(),
        None => starts.windows(2).map(|_| None).collect(),
    }
}

/// Partitions rows in one level, using all threads.
fn scatter<'a>(
    rows: Rows<'a>,
    buckets: Buckets,
    target: Target<'a>,
    driver: &Driver,
) -> Result<Vec<u32>, Stopped> {
    // A part needs enough rows to justify the cost of its counters.
    let parts = driver.parts(rows.keys.len(), PART_ROWS.max(buckets.count * 4));
    let counted = driver
        .map(ranges(rows.keys.len(), parts), |part| Part::count(rows.slice(part), buckets))?;
    let (starts, writers) = writers(counted, target);
    driver.map(writers, |writer| writer.run())?;
    Ok(starts)
}

#[cfg(test)]
mod tests {
    use tidegate_structures::memory::partition::NO_KEY;
    use tidegate_sync::Stop;

    use super::*;

    /// Returns the keys of rows. One in eleven rows has no key.
    fn keys(rows: usize, key_count: u32) -> Vec<u32> {
        let key = |row| if row % 11 == 5 { NO_KEY } else { row * 7 % key_count };
        (0..rows as u32).map(key).collect()
    }

    #[test]
    fn rows_are_grouped_whether_keys_have_many_or_few() {
        let driver = Driver::new(2, Stop::default());
        let rows = 5 * CACHED_ROWS + 3;
        let waves: Vec<i64> = (0..rows as i64).map(|row| row * row % 1_009 - 500).collect();
        // The rows of each key are in time order, but those of the side are not.
        let of_blocks = |row: usize| row as i64 - [0, 1 << 40][row * 7 % 2];
        let blocks: Vec<i64> = (0..rows).map(of_blocks).collect();
        for (ts, ascending) in [(waves, false), (blocks, true)] {
            for key_count in [1, 2, 94] {
                let keys = keys(rows, key_count);
                let side = JoinColumns { ts: &ts, keys: Some(&keys) };
                let groups = Groups::new(side, key_count as usize, &driver).unwrap();
                let mut wanted: Vec<u32> = (0..rows as u32).collect();
                wanted.retain(|&row| keys[row as usize] != NO_KEY);
                wanted.sort_by_key(|&row| (keys[row as usize], ts[row as usize]));
                assert_eq!(groups.numbers().unwrap(), wanted);
                assert!(wanted.iter().map(|&row| ts[row as usize]).eq(groups.ts().iter().copied()));
                let end = |key| wanted.partition_point(|&row| keys[row as usize] < key) as u32;
                assert_eq!(groups.starts, Vec::from_iter((0..=key_count).map(end)));
                assert_eq!(groups.ascending(), ascending && key_count > 1);
                assert!(!groups.is_sorted());
            }
        }
    }

    #[test]
    fn values_come_back_to_their_rows() {
        let driver = Driver::new(2, Stop::default());
        for rows in [1, 1_000, CACHED_ROWS, CACHED_ROWS + 1, 5 * CACHED_ROWS + 3] {
            let keys = keys(rows, 97);
            let ts: Vec<i64> = (0..rows as i64).map(|row| row * row % 1_009).collect();
            let side = JoinColumns { ts: &ts, keys: Some(&keys) };
            let groups = Groups::new(side, 97, &driver).unwrap();
            let numbers = groups.numbers().unwrap();
            let values = Pages::collect(numbers.iter().map(|&row| i64::from(row) + 1));
            let mut out = Pages::unwritten(rows);
            groups.put_by_row(values, &mut out, &driver).unwrap();
            let wanted = (0..rows).map(|row| if keys[row] == NO_KEY { 0 } else { row + 1 });
            assert!(out.written().iter().copied().eq(wanted.map(|value| value as i64)));
        }
    }
}
