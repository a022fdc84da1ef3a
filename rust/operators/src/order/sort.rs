//! Sorts rows by time, stably.
//!
//! - If keys have many rows, the rows are partitioned by key and by time range in one step
//!   ([`sort_by_key`]). Each range is then sorted in a cache.
//! - If keys have few rows, the rows are partitioned by key, and each group is sorted in a cache
//!   ([`sort_groups`]). A group with far more rows than the others is partitioned by its own time
//!   ranges. Times can therefore have any distribution.
//! - Within a cache, small numbers of rows are sorted by insertion. Larger numbers of rows are
//!   distributed into buckets by their highest bits. If any bucket is crowded, all rows are sorted
//!   by comparisons instead.
//!
//! If row numbers are requested, they are moved together with the times.

use tidegate_structures::memory;
use tidegate_structures::memory::pages::{Pages, Slot};
use tidegate_structures::memory::partition::{MAX_BUCKETS, NO_KEY, ranges, split_buckets};

use super::group::{are_sorted, partition, split_some};
use crate::driver::{Driver, PART_ROWS, Stopped};

/// The number of rows that a task sorts or checks at a time. This number is small enough that a
/// request to stop is noticed quickly.
const TASK_ROWS: usize = 1 << 18;

/// The maximum number of rows that are sorted without partitioning. At 16 bytes per row, this many
/// rows fill half of a 2 MiB cache.
const CACHED_ROWS: usize = 1 << 16;

/// The maximum number of rows sorted in place.
const FEW_ROWS: usize = 16;

/// If a bucket has more words than this, moving them to their positions one by one takes too long.
const CROWDED: u32 = 32;

/// The target number of rows in a time range. This many rows can be sorted within the smallest
/// cache.
const RANGE_ROWS: usize = if cfg!(test) { 1 << 5 } else { 1 << 9 };

/// Sorts each group by time with a stable sort. Returns whether all groups were already sorted. Row
/// numbers, if any, are moved along with their times.
pub(crate) fn sort_groups(
    starts: &[u32],
    ts: &mut [i64],
    numbers: Option<&mut [u32]>,
    driver: &Driver,
) -> Result<bool, Stopped> {
    let total = starts[starts.len() - 1] as usize;
    let (mut large, mut small) = (Vec::new(), Vec::new());
    let mut task = Vec::new();
    let mut task_rows = 0;
    let (ts, numbers) = (&mut ts[..total], numbers.map(|numbers| &mut numbers[..total]));
    for (ts, numbers) in split_buckets(ts, starts).into_iter().zip(split_some(numbers, starts)) {
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
        let mut scratch = Scratch::default();
        groups.into_iter().fold(true, |all, (ts, numbers)| sort(ts, numbers, &mut scratch) & all)
    })?;
    let mut all = sorted.into_iter().all(|sorted| sorted);
    for (ts, numbers) in large {
        all &= sort_large(ts, numbers, driver)?;
    }
    Ok(all)
}

/// Memory that is reused for sorting one group after another.
#[derive(Default)]
struct Scratch {
    words: Vec<u64>,
    sorted: Vec<u64>,
    counts: Vec<u32>,
    from: Vec<u32>,
}

/// Sorts rows by time with a stable sort. Returns whether they were already sorted.
fn sort(ts: &mut [i64], numbers: Option<&mut [u32]>, scratch: &mut Scratch) -> bool {
    let sorted = ts.is_sorted();
    match numbers {
        _ if sorted => {}
        Some(numbers) if ts.len() <= FEW_ROWS => insert(ts, numbers),
        Some(numbers) => sort_cached(ts, numbers, scratch),
        None if ts.len() <= FEW_ROWS => ts.sort_unstable(),
        None => sort_times(ts, scratch),
    }
    sorted
}

/// Sorts a few rows in place.
fn insert(ts: &mut [i64], numbers: &mut [u32]) {
    for next in 1..ts.len() {
        let (time, number) = (ts[next], numbers[next]);
        let mut at = next;
        while at > 0 && ts[at - 1] > time {
            (ts[at], numbers[at]) = (ts[at - 1], numbers[at - 1]);
            at -= 1;
        }
        (ts[at], numbers[at]) = (time, number);
    }
}

/// Sorts rows in a cache. If a row's time and position fit together in one word, words are sorted
/// instead of pairs.
fn sort_cached(ts: &mut [i64], numbers: &mut [u32], scratch: &mut Scratch) {
    let (low, high) = span(ts);
    let place_bits = usize::BITS - (ts.len() - 1).leading_zeros();
    let time_bits = u64::BITS - low.abs_diff(high).leading_zeros();
    scratch.from.clear();
    scratch.from.extend_from_slice(numbers);
    if place_bits + time_bits <= u64::BITS {
        scratch.words.clear();
        let places = ts.iter().zip(0..);
        scratch.words.extend(places.map(|(&time, place)| time.abs_diff(low) << place_bits | place));
        scratch.sort_words(place_bits + time_bits);
        let mask = (1 << place_bits) - 1;
        for ((row, time), number) in scratch.words.iter().zip(ts).zip(numbers) {
            *time = low.wrapping_add_unsigned(row >> place_bits);
            *number = scratch.from[(row & mask) as usize];
        }
    } else {
        let mut rows: Vec<(i64, u32)> = ts.iter().copied().zip(0..).collect();
        rows.sort_unstable();
        for ((row, time), number) in rows.into_iter().zip(ts).zip(numbers) {
            (*time, *number) = (row.0, scratch.from[row.1 as usize]);
        }
    }
}

/// Sorts times in a cache.
fn sort_times(ts: &mut [i64], scratch: &mut Scratch) {
    let (low, high) = span(ts);
    scratch.words.clear();
    scratch.words.extend(ts.iter().map(|time| time.abs_diff(low)));
    scratch.sort_words(u64::BITS - low.abs_diff(high).leading_zeros());
    for (word, time) in scratch.words.iter().zip(ts) {
        *time = low.wrapping_add_unsigned(*word);
    }
}

impl Scratch {
    /// Sorts words that are `bits` bits long.
    ///
    /// The words are distributed into buckets by their highest bits. There are about two buckets
    /// per word. Each word is then only one or two positions away from its final position, and is
    /// moved there. If any bucket is crowded, all words are sorted by comparisons instead.
    fn sort_words(&mut self, bits: u32) {
        let bucket_bits = self.words.len().ilog2() + 1;
        let bucket = |word: u64| (word >> bits.saturating_sub(bucket_bits)) as usize;
        self.counts.clear();
        self.counts.resize(1 << bucket_bits, 0);
        self.words.iter().for_each(|&word| self.counts[bucket(word)] += 1);
        if self.counts.iter().any(|&count| count > CROWDED) {
            self.words.sort_unstable();
            return;
        }
        let mut start = 0;
        for count in &mut self.counts {
            (*count, start) = (start, start + *count);
        }
        self.sorted.clear();
        self.sorted.resize(self.words.len(), 0);
        for &word in &self.words {
            let place = &mut self.counts[bucket(word)];
            self.sorted[*place as usize] = word;
            *place += 1;
        }
        for next in 1..self.sorted.len() {
            let word = self.sorted[next];
            let mut at = next;
            while at > 0 && self.sorted[at - 1] > word {
                self.sorted[at] = self.sorted[at - 1];
                at -= 1;
            }
            self.sorted[at] = word;
        }
        std::mem::swap(&mut self.words, &mut self.sorted);
    }
}

/// Sorts rows like [`sort`], using all threads.
fn sort_large(
    ts: &mut [i64],
    numbers: Option<&mut [u32]>,
    driver: &Driver,
) -> Result<bool, Stopped> {
    if are_sorted(&[ts], driver)? {
        return Ok(true);
    }
    let (sorted_ts, places) = sort_rows(ts, numbers.is_some(), driver)?;
    let tasks = ts.chunks_mut(TASK_ROWS).zip(sorted_ts.chunks(TASK_ROWS)).collect();
    driver.map(tasks, |(ts, sorted_ts)| ts.copy_from_slice(sorted_ts))?;
    if let (Some(numbers), Some(places)) = (numbers, places) {
        let from = memory::collect(numbers.iter().copied());
        let tasks = numbers.chunks_mut(TASK_ROWS).zip(places.chunks(TASK_ROWS)).collect();
        driver.map(tasks, |(numbers, places)| {
            let places = numbers.iter_mut().zip(places);
            places.for_each(|(number, &place)| *number = from[place as usize]);
        })?;
    }
    Ok(false)
}

/// Returns the sorted times and, if requested, the original position of each time.
pub(super) fn sort_rows(
    ts: &[i64],
    with_places: bool,
    driver: &Driver,
) -> Result<(Pages<i64>, Option<Pages<u32>>), Stopped> {
    if ts.len() <= CACHED_ROWS {
        let mut sorted_ts = Pages::copied(ts);
        let mut places = with_places.then(|| Pages::collect(0..ts.len() as u32));
        sort(&mut sorted_ts, places.as_deref_mut(), &mut Scratch::default());
        return Ok((sorted_ts, places));
    }
    let keys = Pages::filled(ts.len(), 0);
    let sorted = sort_by_key(&keys, ts, 1, with_places, driver)?;
    Ok((sorted.ts, sorted.numbers))
}

/// Rows sorted by key, then time, then row number.
#[derive(Debug)]
pub(super) struct SortedRows {
    /// The start of each key's rows, followed by the number of rows that have a key.
    pub(super) starts: Vec<u32>,
    pub(super) ts: Pages<i64>,
    /// The row numbers, if they were requested.
    pub(super) numbers: Option<Pages<u32>>,
    /// `true` if each key's row numbers are known to be in ascending order.
    pub(super) ascending: bool,
}

/// Returns whether there are enough rows per key for [`sort_by_key`] to be worthwhile.
pub(super) fn are_many(rows: usize, key_count: usize) -> bool {
    rows / key_count.max(1) > CACHED_ROWS / 2
}

/// Sorts rows with few keys and many rows per key. The rows are partitioned by key and time range
/// in one step.
pub(super) fn sort_by_key(
    keys: &[u32],
    ts: &[i64],
    key_count: usize,
    with_numbers: bool,
    driver: &Driver,
) -> Result<SortedRows, Stopped> {
    RowsByRange::new(keys, ts, key_count, with_numbers, driver)?.sorted(driver)
}

/// Rows partitioned by key and time range. Within a range, rows are in any order.
#[derive(Debug)]
pub(super) struct RowsByRange {
    /// The smallest of all times.
    pub(super) low: i64,
    /// The binary logarithm of the range length.
    pub(super) shift: u32,
    pub(super) ranges_a_key: usize,
    /// The position at which each range starts, for every key. The list ends with the number of
    /// rows that have a key.
    pub(super) starts: Vec<u32>,
    pub(super) ts: Pages<i64>,
    numbers: Option<Pages<u32>>,
}

impl RowsByRange {
    pub(super) fn new(
        keys: &[u32],
        ts: &[i64],
        key_count: usize,
        with_numbers: bool,
        driver: &Driver,
    ) -> Result<Self, Stopped> {
        // All keys have the same ranges.
        let parts = ranges(ts.len(), driver.parts(ts.len(), PART_ROWS));
        let spans = driver.map(parts.clone(), |part| span(&ts[part]))?;
        let (low, high) =
            spans.into_iter().reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).expect("a part");
        // One level of partitioning is sufficient if its ranges fit in a cache.
        let wanted = (ts.len() / key_count.max(1) / RANGE_ROWS).min(MAX_BUCKETS / key_count.max(1));
        let wanted = wanted.max(2);
        let shift = (u64::BITS - low.abs_diff(high).leading_zeros()).saturating_sub(wanted.ilog2());
        let ranges_a_key = (low.abs_diff(high) >> shift) as u32 + 1;
        let code = |(&key, &time): (&u32, &i64)| match key {
            NO_KEY => NO_KEY,
            key => key * ranges_a_key + (time.abs_diff(low) >> shift) as u32,
        };
        let mut codes = Pages::unwritten(ts.len());
        let mut rest = &mut codes[..];
        let cut = |part: std::ops::Range<usize>| {
            let (codes, others) = std::mem::take(&mut rest).split_at_mut(part.len());
            rest = others;
            (&keys[part.clone()], &ts[part], codes)
        };
        let cuts = parts.into_iter().map(cut).collect();
        driver.map(cuts, |(keys, ts, codes): (&[u32], &[i64], &mut [Slot<u32>])| {
            codes.iter_mut().zip(keys.iter().zip(ts)).for_each(|(slot, row)| slot.set(code(row)));
        })?;
        let codes = codes.written();
        let count = key_count * ranges_a_key as usize;
        let mut sorted_ts = Pages::unwritten(ts.len());
        let mut numbers = with_numbers.then(|| Pages::unwritten(ts.len()));
        let starts = partition(&codes, ts, count, &mut sorted_ts, numbers.as_deref_mut(), driver)?;
        drop(codes);
        // Rows without a key have no position.
        let with_key = starts[count] as usize;
        let ts = sorted_ts.written_upto(with_key);
        let numbers = numbers.map(|numbers| numbers.written_upto(with_key));
        Ok(RowsByRange { low, shift, ranges_a_key: ranges_a_key as usize, starts, ts, numbers })
    }

    /// Returns the rows in time order within each key.
    pub(super) fn sorted(self, driver: &Driver) -> Result<SortedRows, Stopped> {
        let RowsByRange { ranges_a_key, starts, mut ts, mut numbers, .. } = self;
        sort_groups(&starts, &mut ts, numbers.as_deref_mut(), driver)?;
        let starts: Vec<u32> = starts.into_iter().step_by(ranges_a_key).collect();
        let ascend = |numbers: &Pages<u32>| {
            starts.windows(2).all(|group| numbers[group[0] as usize..group[1] as usize].is_sorted())
        };
        let ascending = numbers.as_ref().is_some_and(ascend);
        Ok(SortedRows { starts, ts, numbers, ascending })
    }
}

/// Returns the earliest and latest times.
fn span(ts: &[i64]) -> (i64, i64) {
    // There is one pass for each, so that both are vectorised.
    (ts.iter().copied().fold(i64::MAX, i64::min), ts.iter().copied().fold(i64::MIN, i64::max))
}

#[cfg(test)]
mod tests {
    use tidegate_sync::Stop;

    use super::*;

    /// Returns the expected result of [`sort`].
    fn expected(ts: &[i64]) -> (Vec<i64>, Vec<u32>) {
        let mut rows: Vec<(i64, u32)> = ts.iter().copied().zip(7..).collect();
        rows.sort();
        rows.into_iter().unzip()
    }

    #[test]
    fn times_may_be_distributed_in_any_way() {
        let mut scratch = Scratch::default();
        let mut random = 1_u64;
        let mut next = move || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            random >> 16
        };
        for rows in [2, FEW_ROWS, FEW_ROWS + 1, 100, 1_000, 5_000] {
            let spread: Vec<i64> = (0..rows).map(|_| next() as i64).collect();
            let ties = (0..rows).map(|_| (next() % 3) as i64).collect();
            // All times except one are in the first bucket, and times fill a word together with
            // their position.
            let mut crowd: Vec<i64> = (0..rows).map(|_| next() as i64 % 99).collect();
            crowd[0] = 1 << 50;
            let far = (0..rows).map(|_| (next() << 17) as i64).collect();
            let falling = (0..rows).map(|row| -(row as i64)).collect();
            for times in [spread, ties, crowd, far, falling] {
                let (mut ts, mut numbers) = (times.clone(), Vec::from_iter(7..7 + rows as u32));
                sort(&mut ts, Some(&mut numbers), &mut scratch);
                let wanted = expected(&times);
                let mut alone = times;
                sort(&mut alone, None, &mut scratch);
                assert_eq!(alone, wanted.0, "{rows} times");
                assert_eq!((ts, numbers), wanted, "{rows} rows");
            }
        }
    }

    #[test]
    fn many_times_are_sorted_in_ranges() {
        let driver = Driver::new(2, Stop::default());
        let times: Vec<i64> = (0..CACHED_ROWS as i64 * 3).map(|row| row * row % 10_007).collect();
        let (ts, places) = sort_rows(&times, true, &driver).unwrap();
        let (alone, no_places) = sort_rows(&times, false, &driver).unwrap();
        assert!(no_places.is_none() && *alone == *ts);
        let places = places.unwrap();
        let (expected_ts, expected_places) = expected(&times);
        assert_eq!(*ts, *expected_ts);
        assert!(places.iter().zip(&expected_places).all(|(place, number)| place + 7 == *number));
    }
}
