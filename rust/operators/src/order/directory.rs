//! Finds a value's position among a key's sorted values. An approximate position is computed first,
//! and the search starts from there.
//!
//! Each key's value range is divided into equal-length *stretches*. There are about as many
//! stretches as values. The first position of each stretch is recorded. A value's position is
//! therefore between the start of its stretch and the start of the next stretch.
//!
//! ```text
//!   values of a key     1  2 │  7  │     │ 14 15 16 │ 21
//!   stretches             0  │  1  │  2  │    3     │  4
//!   first positions       0     2     3       3        6
//!   position of 15                       3 to 6, and there 4
//! ```
//!
//! Most values may be concentrated in a few stretches, for example if the data spans several years
//! but all times fall on a few days. Values are therefore first divided into *segments* of a few
//! hundred values, and each segment has its own stretches. A value's segment is found by binary
//! search.
//!
//! Looking up the positions of unsorted rows is faster than sorting the rows, because several
//! lookups can wait for memory at the same time. Unsorted values need no sorting either if they are
//! evenly distributed. Such values are distributed into stretches by counting, and only the few
//! stretches with many values are sorted.
//!
//! # Trade-offs
//!
//! The directory takes up to 4 bytes per value and 20 bytes per key. A lookup takes a few steps and
//! at most two binary searches.

use tidegate_structures::memory;
use tidegate_structures::memory::gather::prefetch;
use tidegate_structures::memory::pages::{Pages, Slot};
use tidegate_structures::memory::partition::ranges;
use tidegate_structures::simd::wide::{Work, wide};

use super::JoinColumns;
use super::group::{OrderedTimes, Times, Value, are_sorted};
use super::sort::{RowsByRange, are_many};
use crate::driver::{Driver, PART_ROWS, Stopped};
use crate::rows::interval::LeftReach;

/// The number of rows looked up together. With half as many or twice as many rows, a lookup takes
/// 1.5 times as long.
const BLOCK: usize = 8;

/// The number of left rows in a task. Tasks are so small that a stop is noticed soon and all
/// threads finish at about the same time.
const TASK_ROWS: usize = 1 << 16;

/// Most stretches have at most this many values. These values are compared without branches,
/// regardless of their order.
const FEW: usize = 4;

/// A stretch with more values than this is crowded.
const CROWD: usize = 8;

/// With more values per left row than this, sorting the left rows takes less time than building a
/// directory of the values.
const VALUES_A_ROW: usize = 16;

/// The approximate number of values in a segment, if a key has several segments. A search within a
/// segment of this size is fast.
const SEGMENT: usize = if cfg!(test) { 16 } else { 1 << 9 };

/// A range is full if it has more than `FULL` times the mean number of values. If full ranges
/// contain more than one in `UNEVEN` values, all values are sorted, and each key gets its own
/// stretches.
const FULL: usize = 8;
const UNEVEN: usize = 8;

/// The position at which each stretch begins, for all keys. A key's stretches are in value order.
#[derive(Debug)]
pub(crate) struct Directory<'a> {
    /// The values are sorted within each stretch that has more than [`FEW`] values.
    values: Times<'a>,
    /// For each key, the number of its first segment. The last entry is the number of segments. The
    /// list begins with the segment for rows without a key, which has no values.
    keys: Vec<u32>,
    /// The segments, followed by an end marker.
    segments: Vec<Segment>,
    /// The first position of each stretch, followed by the position after all values.
    starts: Pages<u32>,
}

/// All of a key's values, or a range of adjacent values. A segment has at least one stretch.
#[derive(Clone, Copy, Debug)]
struct Segment {
    /// The first value.
    low: i64,
    /// The number of the segment's first stretch.
    first: u32,
    /// The binary logarithm of the stretch length.
    shift: u32,
}

impl Segment {
    /// Creates the segment for these values, with stretches numbered from `first`. Also returns the
    /// number of stretches.
    fn new(values: &[i64], first: u32) -> (Self, u32) {
        let [low, .., high] = values else {
            return (Segment { low: values.first().copied().unwrap_or(0), first, shift: 0 }, 1);
        };
        // The smallest power of two with at most as many stretches as values.
        let span = low.abs_diff(*high);
        let shift = u64::BITS - (span / values.len() as u64).leading_zeros();
        (Segment { low: *low, first, shift }, (span >> shift) as u32 + 1)
    }

    /// Returns the stretch that contains a value, or the nearest stretch, given the first stretch
    /// of the next segment.
    #[inline(always)]
    fn stretch(self, value: i64, end: u32) -> u32 {
        let distance = value.max(self.low).wrapping_sub(self.low).cast_unsigned() >> self.shift;
        self.first + distance.min(u64::from(end - self.first - 1)) as u32
    }
}

/// Estimates from a sample whether many of the values are in crowded stretches.
fn are_crowded(values: &[i64]) -> bool {
    const SAMPLES: usize = 32;
    if values.len() <= 2 * SEGMENT {
        return false;
    }
    let (segment, end) = Segment::new(values, 0);
    let is_crowded = |sample: usize| {
        let at = (values.len() - CROWD) * sample / SAMPLES;
        let (one, other) = (values[at], values[at + CROWD]);
        // Equal values cannot be separated anyway.
        one != other && segment.stretch(one, end) == segment.stretch(other, end)
    };
    (0..SAMPLES).filter(|&sample| is_crowded(sample)).count() > SAMPLES / 8
}

/// Divides a key's values into segments, and calls `each` with the start of each segment. Equal
/// values are always in the same segment.
fn cut(values: &[i64], mut each: impl FnMut(usize)) {
    each(0);
    if !are_crowded(values) {
        return;
    }
    let mut begin = 0;
    while let Some(value) = values.get(begin + SEGMENT) {
        let first_equal = begin + values[begin..].partition_point(|other| other < value);
        begin = match first_equal > begin {
            true => first_equal,
            false => begin + values[begin..].partition_point(|other| other <= value),
        };
        if begin < values.len() {
            each(begin);
        }
    }
}

impl<'a> Directory<'a> {
    /// Creates a directory of values that are sorted within each key. `of_keys` contains the
    /// position at which each key's values start, followed by the end of all values.
    pub(crate) fn new(
        of_keys: &[u32],
        values: &'a [i64],
        driver: &Driver,
    ) -> Result<Self, Stopped> {
        // 1. Find the segments, and the position where each begins.
        let mut keys = memory::vec(of_keys.len() + 1);
        let mut places = memory::vec(of_keys.len() + 1);
        keys.push(0);
        places.push(0);
        for of_key in of_keys.windows(2) {
            keys.push(places.len() as u32);
            let values = &values[of_key[0] as usize..of_key[1] as usize];
            cut(values, |place| {
                memory::reserve(&mut places, 1);
                places.push(of_key[0] + place as u32);
            });
        }
        keys.push(places.len() as u32);
        places.push(values.len() as u32);
        let mut segments = memory::vec(places.len());
        let mut count = 0;
        let places_of = |at: usize| places[at] as usize..places[at + 1] as usize;
        for at in 0..places.len() - 1 {
            let (segment, stretches) = Segment::new(&values[places_of(at)], count);
            segments.push(segment);
            count += stretches;
        }
        segments.push(Segment { low: 0, first: count, shift: 0 });
        // 2. Find their stretches.
        let mut starts = Pages::unwritten(count as usize + 1);
        starts[count as usize].set(values.len() as u32);
        let mut rest = &mut starts[..count as usize];
        let mut work = Vec::new();
        for part in ranges(count as usize, driver.parts(count as usize, PART_ROWS)) {
            let (head, tail) = rest.split_at_mut(part.len());
            work.push((part.start as u32, head));
            rest = tail;
        }
        driver.map(work, |(mut from, mut starts): (u32, &mut [Slot<u32>])| {
            let mut at = segments.partition_point(|segment| segment.first <= from) - 1;
            while !starts.is_empty() {
                let (segment, end, places) = (segments[at], segments[at + 1].first, places_of(at));
                let (own, others) = starts.split_at_mut(starts.len().min((end - from) as usize));
                let stretch = |value: i64| segment.stretch(value, end);
                note(&values[places.clone()], places.start as u32, from, stretch, own);
                (starts, from, at) = (others, end, at + 1);
            }
        })?;
        Ok(Directory { values: Times::Borrowed(values), keys, segments, starts: starts.written() })
    }

    /// Creates a directory of the times on one side, whose keys must be below `key_count`.
    pub(crate) fn of_side(
        side: JoinColumns<'a>,
        key_count: usize,
        driver: &Driver,
    ) -> Result<Self, Stopped> {
        if are_many(side.ts.len(), key_count) && !are_sorted(&[side.ts], driver)? {
            return match side.keys {
                Some(keys) => Self::spread(keys, side.ts, key_count, driver),
                None => Self::spread(&Pages::filled(side.ts.len(), 0), side.ts, 1, driver),
            };
        }
        Self::of_ordered(OrderedTimes::new(side, key_count, driver)?, driver)
    }

    fn of_ordered(times: OrderedTimes<'a>, driver: &Driver) -> Result<Self, Stopped> {
        let (of_keys, values) = times.into_times();
        let Directory { keys, segments, starts, .. } = Directory::new(&of_keys, &values, driver)?;
        Ok(Directory { values, keys, segments, starts })
    }

    /// Creates a directory of unsorted values. Evenly distributed values are moved twice: first to
    /// their range, then to their stretch. During the second move, a range's values stay in
    /// a cache.
    fn spread(
        keys: &[u32],
        values: &[i64],
        key_count: usize,
        driver: &Driver,
    ) -> Result<Self, Stopped> {
        // 1. Partition the values by key and range.
        let ranged = RowsByRange::new(keys, values, key_count, false, driver)?;
        let ranges = ranged.starts.len() - 1;
        let mean = (ranged.ts.len() / ranges.max(1)).max(1);
        let sizes = ranged.starts.windows(2).map(|range| (range[1] - range[0]) as usize);
        let crowd: usize = sizes.filter(|&size| size > FULL * mean).sum();
        if crowd > ranged.ts.len() / UNEVEN {
            let sorted = ranged.sorted(driver)?;
            let times = OrderedTimes::of_sorted(sorted);
            return Self::of_ordered(times, driver);
        }
        // 2. There are about as many stretches as values, with the same number in each range.
        let bits = mean.ilog2().min(ranged.shift);
        let RowsByRange { low, shift, ranges_a_key, starts: places, mut ts, .. } = ranged;
        let shift = shift - bits;
        let of_key = (ranges_a_key << bits) as u32;
        let firsts = (0..=key_count as u32).map(|key| 1 + key * of_key);
        let mut segments = memory::vec(key_count + 2);
        segments.push(Segment { low: 0, first: 0, shift: 0 });
        segments.extend(firsts.map(|first| Segment { low, first, shift }));
        let keys = memory::collect(0..key_count as u32 + 2);
        // 3. Process each range separately. The entry after a stretch is its end, which is the
        //    start of the next stretch.
        let mut starts = Pages::unwritten((ranges << bits) + 2);
        let (head, mut rest) = starts.split_at_mut(2);
        Slot::fill(head, 0);
        let mut values = &mut ts[..];
        let (mut tasks, mut first) = (Vec::new(), 0);
        while first < ranges {
            let full = places[first] as usize + TASK_ROWS;
            let end = places.partition_point(|&place| (place as usize) < full);
            let end = end.clamp(first + 1, ranges);
            let size = (places[end] - places[first]) as usize;
            let (own, others) = std::mem::take(&mut values).split_at_mut(size);
            let (ends, other_ends) = std::mem::take(&mut rest).split_at_mut((end - first) << bits);
            tasks.push((&places[first..=end], own, ends));
            (values, rest, first) = (others, other_ends, end);
        }
        driver.map(tasks, |(places, values, ends)| {
            Spread { low, shift, bits, places, values, ends }.run();
        })?;
        Ok(Directory { values: Times::Owned(ts), keys, segments, starts: starts.written() })
    }

    /// Returns whether it is worthwhile to look up left rows among this number of values. Lookups
    /// are used if the left rows are unsorted and there are enough of them.
    pub(crate) fn pays(left: &[i64], values: usize, driver: &Driver) -> Result<bool, Stopped> {
        Ok(left.len() >= values / VALUES_A_ROW && !are_sorted(&[left], driver)?)
    }

    /// Returns the contents as slices, because they are read often.
    fn slices(&self) -> Slices<'_> {
        let Directory { values, keys, segments, starts } = self;
        Slices { values, keys, segments, starts }
    }
}

/// A sequence of adjacent ranges. The values in each range are unsorted.
struct Spread<'a> {
    low: i64,
    /// The binary logarithms of the stretch length and the number of stretches per range.
    shift: u32,
    bits: u32,
    /// The start of each range, followed by the end of the last range.
    places: &'a [u32],
    values: &'a mut [i64],
    /// The end of each stretch.
    ends: &'a mut [Slot<u32>],
}

impl Spread<'_> {
    /// Groups the values by stretch. A stretch's values are sorted if there are many of them.
    fn run(self) {
        let Spread { low, shift, bits, places, mut values, ends } = self;
        let mask = (1_u64 << bits) - 1;
        let stretch = |value: i64| ((value.abs_diff(low) >> shift) & mask) as usize;
        let mut scratch = Vec::new();
        for (range, ends) in places.windows(2).zip(ends.chunks_mut(1 << bits)) {
            let (own, others) = values.split_at_mut((range[1] - range[0]) as usize);
            values = others;
            let ends = Slot::fill(ends, 0);
            own.iter().for_each(|&value| ends[stretch(value)] += 1);
            let mut next = range[0];
            let mut most = 0;
            for end in &mut *ends {
                most = most.max(*end);
                (*end, next) = (next, next + *end);
            }
            scratch.clear();
            scratch.extend_from_slice(own);
            for &value in &scratch {
                let place = &mut ends[stretch(value)];
                own[(*place - range[0]) as usize] = value;
                *place += 1;
            }
            if most as usize > FEW {
                let mut from = range[0];
                for &end in &*ends {
                    if (end - from) as usize > FEW {
                        own[(from - range[0]) as usize..(end - range[0]) as usize].sort_unstable();
                    }
                    from = end;
                }
            }
        }
    }
}

/// The contents of a [`Directory`].
#[derive(Clone, Copy)]
struct Slices<'a> {
    values: &'a [i64],
    keys: &'a [u32],
    segments: &'a [Segment],
    starts: &'a [u32],
}

impl Slices<'_> {
    /// Returns the stretch that contains a key's value, or the nearest stretch.
    #[inline(always)]
    fn stretch(self, key: u32, value: i64) -> u32 {
        // A row without a key has the largest number as its key.
        let [at, end] = two(self.keys, key.wrapping_add(1));
        let mut at = at;
        if end - at > 1 {
            let others = &self.segments[at as usize + 1..end as usize];
            at += others.partition_point(|segment| segment.low <= value) as u32;
        }
        let [segment, next] = two(self.segments, at);
        segment.stretch(value, next.first)
    }
}

/// Returns the value at a position and the next value, with a single bounds check.
#[inline(always)]
fn two<T: Copy>(values: &[T], at: u32) -> [T; 2] {
    let both = &values[at as usize..at as usize + 2];
    [both[0], both[1]]
}

/// Records the first position of each stretch, starting with stretch number `from`. The stretches
/// contain the given values of one key. The first of these values is at position `first`.
fn note(
    values: &[i64],
    first: u32,
    from: u32,
    stretch: impl Fn(i64) -> u32,
    starts: &mut [Slot<u32>],
) {
    let last = from + starts.len() as u32 - 1;
    let [begin, end] =
        [from, last].map(|number| values.partition_point(|&value| stretch(value) < number));
    // A stretch starts after the last value of the previous stretches. Each value writes the
    // position after itself, and the last write remains.
    let starts = Slot::fill(starts, first + begin as u32);
    for (after, &value) in (first + begin as u32 + 1..).zip(&values[begin..end]) {
        starts[(stretch(value) - from) as usize + 1] = after;
    }
    // A stretch without values starts at the same position as the previous one.
    let mut latest = 0;
    for start in starts {
        latest = latest.max(*start);
        *start = latest;
    }
}

/// Returns the run of each left row. A run starts at the first value in `firsts` that is at or
/// after the start of the row's reach. A run ends at the first value in `lasts` that is after the
/// end of the reach. Both directories must have the same keys.
pub(crate) fn look_up<R: LeftReach, T: Value + From<[u32; 2]>>(
    left: JoinColumns<'_>,
    [firsts, lasts]: [&Directory<'_>; 2],
    reach: &R,
    driver: &Driver,
) -> Result<Pages<T>, Stopped> {
    let mut runs = Pages::unwritten(left.ts.len());
    let tasks = runs.chunks_mut(TASK_ROWS).enumerate().collect();
    driver.map(tasks, |(task, runs): (usize, &mut [Slot<T>])| {
        let first = task * TASK_ROWS;
        let rows = first..first + runs.len();
        let keys = left.keys.map(|keys| &keys[rows.clone()]);
        let directories = [firsts.slices(), lasts.slices()];
        wide(DirectorySearch { directories, reach, first, ts: &left.ts[rows], keys, runs });
    })?;
    Ok(runs.written())
}

/// The rows in a task.
struct DirectorySearch<'a, R, T> {
    directories: [Slices<'a>; 2],
    reach: &'a R,
    /// The number of the first row.
    first: usize,
    ts: &'a [i64],
    keys: Option<&'a [u32]>,
    runs: &'a mut [Slot<T>],
}

/// The left rows being looked up. For each row, the block contains the first and last values in the
/// row's run, the stretches of both values, and the positions of these stretches.
#[derive(Clone, Copy, Default)]
struct LeftBlock {
    values: [[i64; 2]; BLOCK],
    stretches: [[u32; 2]; BLOCK],
    places: [[Places; 2]; BLOCK],
}

/// The first positions of a stretch and of the next stretch.
type Places = [u32; 2];

impl<R: LeftReach, T: Value + From<[u32; 2]>> Work for DirectorySearch<'_, R, T> {
    type Output = ();

    /// Looks up rows in three steps. Each step prefetches the memory that the next step reads.
    /// While one block of rows waits for memory, other blocks execute their steps.
    #[inline(always)]
    fn run(mut self) {
        let mut blocks = [LeftBlock::default(); 3];
        let count = self.ts.len().div_ceil(BLOCK);
        for at in 0..count + 2 {
            if at < count {
                self.ask_for_starts(at * BLOCK, &mut blocks[at % 3]);
            }
            if (1..=count).contains(&at) {
                self.ask_for_values(&mut blocks[(at - 1) % 3]);
            }
            if at >= 2 {
                self.compare((at - 2) * BLOCK, &blocks[(at - 2) % 3]);
            }
        }
    }
}

impl<R: LeftReach, T: Value + From<[u32; 2]>> DirectorySearch<'_, R, T> {
    #[inline(always)]
    fn ask_for_starts(&self, from: usize, block: &mut LeftBlock) {
        let rows = self.ts[from..].iter().zip(from..);
        for ((values, stretches), (&ts, at)) in
            block.values.iter_mut().zip(&mut block.stretches).zip(rows)
        {
            // No value is both greater than the last and less than the first.
            *values = self
                .reach
                .at(self.first + at, ts)
                .map_or([i64::MAX, i64::MIN], |(first, last)| [first, last]);
            let key = self.keys.map_or(0, |keys| keys[at]);
            for (at, directory) in self.directories.iter().enumerate() {
                stretches[at] = directory.stretch(key, values[at]);
                prefetch(directory.starts, stretches[at] as usize);
            }
        }
    }

    #[inline(always)]
    fn ask_for_values(&self, block: &mut LeftBlock) {
        for (stretches, places) in block.stretches.iter().zip(&mut block.places) {
            for (at, Slices { values, starts, .. }) in self.directories.iter().enumerate() {
                places[at] = two(starts, stretches[at]);
                let from = places[at][0] as usize;
                prefetch(values, from);
                prefetch(values, from + FEW - 1);
            }
        }
    }

    #[inline(always)]
    fn compare(&mut self, from: usize, block: &LeftBlock) {
        let [firsts, lasts] = self.directories.map(|directory| directory.values);
        for ((run, [first, last]), [first_in, last_in]) in
            self.runs[from..].iter_mut().zip(block.values).zip(block.places)
        {
            let start = place(firsts, first_in, |value| value < first);
            let end = place(lasts, last_in, |value| value <= last);
            run.set([start, end.max(start)].into());
        }
    }
}

/// Returns the first position between `from` and `to` at which `before` returns `false` for the
/// value. Returns `to` if there is no such position.
#[inline(always)]
fn place(values: &[i64], [from, to]: Places, before: impl Fn(i64) -> bool) -> u32 {
    let count = to - from;
    if count as usize <= FEW {
        let Some(some) = values.get(from as usize..from as usize + FEW) else {
            let few = &values[from as usize..to as usize];
            return from + few.iter().filter(|&&value| before(value)).count() as u32;
        };
        // Values after these may belong to another key.
        let passed = |nth: usize| u32::from(before(some[nth])) << nth;
        return from + ((0..FEW).map(passed).sum::<u32>() & !(u32::MAX << count)).count_ones();
    }
    from + values[from as usize..to as usize].partition_point(|&value| before(value)) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidegate_structures::memory::partition::NO_KEY;
    use tidegate_sync::Stop;

    use super::*;
    use crate::order::OrderedTimes;
    use crate::rows::RowEnds;

    /// Generates keys and values. The values are close together (with many duplicates), in
    /// clusters, or far apart.
    fn rows(most: usize) -> impl Strategy<Value = Vec<(u32, i64)>> {
        let key = prop_oneof![8 => 0..3_u32, 1 => Just(4), 1 => Just(NO_KEY)];
        let near = -30..30_i64;
        let clusters =
            (0..5_i64, 0..300_i64).prop_map(|(cluster, at)| cluster.pow(9) * 40_000 + at);
        let value = move |kind| match kind {
            0 => near.clone().boxed(),
            1 => clusters.clone().boxed(),
            2 => any::<i64>().boxed(),
            _ => prop_oneof![
                6 => -9000..9000_i64,
                1 => Just(i64::MIN),
                1 => Just(i64::MAX),
                1 => near.clone(),
            ]
            .boxed(),
        };
        (0..4).prop_flat_map(move |kind| prop::collection::vec((key.clone(), value(kind)), 0..most))
    }

    proptest! {
        #[test]
        fn oracle_every_value(
            (firsts, lasts) in (rows(900), 0..2_i64),
            left in prop::collection::vec(
                (any::<prop::sample::Index>(), prop_oneof![6 => 0..5_u32, 1 => Just(NO_KEY)], -2..3_i64, -2..40_i64),
                0..60,
            ),
            threads in 1..4_usize,
        ) {
            let driver = Driver::new(threads, Stop::default());
            // Two columns with the same keys.
            let (keys, values): (Vec<u32>, Vec<i64>) = firsts.into_iter().unzip();
            let others: Vec<i64> = values.iter().map(|value| value.saturating_sub(lasts * (value & 31))).collect();
            let ordered = |values| {
                OrderedTimes::new(JoinColumns { ts: values, keys: Some(&keys) }, 5, &driver).unwrap()
            };
            let (firsts, lasts) = (ordered(&values), ordered(&others));
            let near = |at: &prop::sample::Index| if values.is_empty() { 0 } else { *at.get(&values) };
            let ends: Vec<(i64, i64)> = left.iter().map(|(at, _, off, length)| {
                let first = near(at).saturating_add(*off);
                (first, first.saturating_add(*length))
            }).collect();
            let (first, last): (Vec<i64>, Vec<i64>) = ends.into_iter().unzip();
            let of_left: Vec<u32> = left.iter().map(|row| row.1).collect();
            let sorted = [
                Directory::new(&firsts.starts, firsts.ts(), &driver).unwrap(),
                Directory::new(&lasts.starts, lasts.ts(), &driver).unwrap(),
            ];
            let spread = [&values, &others]
                .map(|values| Directory::spread(&keys, values, 5, &driver).unwrap());
            let reach = RowEnds { first: &first, last: &last };
            let side = JoinColumns { ts: &first, keys: Some(&of_left) };
            let look = |[firsts, lasts]: &[Directory<'_>; 2]| -> Pages<[u32; 2]> {
                look_up(side, [firsts, lasts], &reach, &driver).unwrap()
            };
            let runs = look(&sorted);
            prop_assert_eq!(&*runs, &*look(&spread));
            for (at, run) in runs.iter().enumerate() {
                let key = of_left[at];
                let with_key = |values: &[i64], passes: &dyn Fn(i64) -> bool| {
                    let rows = keys.iter().zip(values);
                    rows.filter(|(other, value)| **other == key && key != NO_KEY && passes(**value)).count()
                };
                let before = keys.iter().filter(|other| **other < key && key != NO_KEY).count();
                if first[at] > last[at] {
                    prop_assert_eq!(run[0], run[1]);
                    continue;
                }
                let start = before + with_key(&values, &|value| value < first[at]);
                let end = before + with_key(&others, &|value| value <= last[at]);
                prop_assert_eq!(run.map(|place| place as usize), [start, end.max(start)]);
            }
        }

        #[test]
        fn segments_are_cut_between_different_values(rows in rows(900)) {
            let mut values: Vec<i64> = rows.into_iter().map(|row| row.1).collect();
            values.sort_unstable();
            let mut begins = Vec::new();
            cut(&values, |begin| begins.push(begin));
            prop_assert!(begins[0] == 0 && begins.is_sorted_by(|a, b| a < b));
            for &begin in &begins[1..] {
                prop_assert!(values[begin - 1] < values[begin]);
            }
            begins.push(values.len());
            for segment in begins.windows(2).filter(|_| begins.len() > 2) {
                let of_segment = &values[segment[0]..segment[1]];
                prop_assert!(of_segment.len() <= SEGMENT || of_segment[0] == of_segment[of_segment.len() - 1]);
            }
        }
    }

    #[test]
    fn no_values_have_no_places() {
        let driver = Driver::new(1, Stop::default());
        for of_keys in [&[0, 0][..], &[0], &[0, 0, 0]] {
            let directory = Directory::new(of_keys, &[], &driver).unwrap();
            let keys = vec![NO_KEY; 3];
            let side = JoinColumns { ts: &[i64::MIN, 0, i64::MAX], keys: Some(&keys) };
            let reach = RowEnds { first: side.ts, last: &[i64::MAX; 3] };
            let runs: Pages<[u32; 2]> = look_up(side, [&directory; 2], &reach, &driver).unwrap();
            assert_eq!(*runs, [[0; 2]; 3]);
        }
    }

    #[test]
    fn values_that_crowd_are_cut_into_segments() {
        let even: Vec<i64> = (0..1_000).map(|at| at * 1_000 + at % 7).collect();
        let never =
            even.iter().map(|&value| if value > 990_000 { i64::MAX } else { value }).collect();
        let equal = vec![5; 1_000];
        for (values, cuts) in [(even, false), (never, true), (equal, false)] {
            let mut segments = 0;
            cut(&values, |_| segments += 1);
            assert_eq!(segments > 1, cuts);
        }
    }
}
