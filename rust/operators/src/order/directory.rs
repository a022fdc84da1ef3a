//! Finds places in the sorted values of a key: it computes a place that is nearly right, and
//! searches from there.
//!
//! The range of a key's values is cut into *stretches* of one length, about as many as there are
//! values. The first place of each stretch is noted. So a value's place lies between the place of
//! its stretch and the place of the next.
//!
//! ```text
//!   values of a key     1  2 │  7  │     │ 14 15 16 │ 21
//!   stretches             0  │  1  │  2  │    3     │  4
//!   first places          0     2     3       3        6
//!   the place of 15                      3 to 6, and there 4
//! ```
//!
//! Where most values would crowd in a few stretches, such as times of some days in several years, the
//! values are cut into *segments* of some hundred first, each with stretches of its own. The segment
//! of a value is searched.
//!
//! For rows in no order this is faster than sorting them: lookups of several rows wait for memory
//! together. Nor are the values sorted, if they came in no order and are spread evenly: they are
//! counted into stretches, and only the few stretches with many values are put in order.
//!
//! # Trade-offs
//!
//! Up to 4 bytes a value, and 20 bytes a key. A lookup takes a few steps, and for no values more
//! than two binary searches.

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

/// Rows that are looked up together. With half or twice as many it takes half as long again.
const BLOCK: usize = 8;

/// Left rows of a task, so that a stop is seen soon and threads finish together.
const TASK_ROWS: usize = 1 << 16;

/// Most stretches have no more values. These are compared without a branch, in any order.
const FEW: usize = 4;

/// A stretch with more values is crowded.
const CROWD: usize = 8;

/// Sorting the left rows takes less time than noting the values, if there are more values than this
/// for each left row.
const VALUES_A_ROW: usize = 16;

/// About how many values a segment has, where a key has several. A search in a segment is quick.
const SEGMENT: usize = if cfg!(test) { 16 } else { 1 << 9 };

/// A range is full if it has `FULL` times as many values as the mean. If more than one value of
/// `UNEVEN` is in a full range, values are sorted, and each key has stretches of its own.
const FULL: usize = 8;
const UNEVEN: usize = 8;

/// The first place of each stretch of the values of each key. Stretches follow each other in the
/// order of their values.
#[derive(Debug)]
pub(crate) struct Directory<'a> {
    /// The values of a stretch of more than [`FEW`] are in order.
    values: Times<'a>,
    /// The first segment of rows without a key, which have no values; of each key; last, the number
    /// of segments.
    keys: Vec<u32>,
    /// Last, where all end.
    segments: Vec<Segment>,
    /// The first place of each stretch; last, the place after all values.
    starts: Pages<u32>,
}

/// Some neighbouring values of a key: all, or those from one value up to another. It has at least
/// one stretch.
#[derive(Clone, Copy, Debug)]
struct Segment {
    /// The first value.
    low: i64,
    /// The number of the first stretch.
    first: u32,
    /// The length of a stretch as a power of two.
    shift: u32,
}

impl Segment {
    /// The segment of these values whose stretches have numbers from `first` on, and how many.
    fn new(values: &[i64], first: u32) -> (Self, u32) {
        let [low, .., high] = values else {
            return (Segment { low: values.first().copied().unwrap_or(0), first, shift: 0 }, 1);
        };
        // The least power of two such that stretches are no more than values.
        let span = low.abs_diff(*high);
        let shift = u64::BITS - (span / values.len() as u64).leading_zeros();
        (Segment { low: *low, first, shift }, (span >> shift) as u32 + 1)
    }

    /// The stretch of a value, or the nearest one, given the first stretch of the next segment.
    #[inline(always)]
    fn stretch(self, value: i64, end: u32) -> u32 {
        let distance = value.max(self.low).wrapping_sub(self.low).cast_unsigned() >> self.shift;
        self.first + distance.min(u64::from(end - self.first - 1)) as u32
    }
}

/// Whether many of the values are in crowded stretches, by a sample.
fn are_crowded(values: &[i64]) -> bool {
    const SAMPLES: usize = 32;
    if values.len() <= 2 * SEGMENT {
        return false;
    }
    let (segment, end) = Segment::new(values, 0);
    let is_crowded = |sample: usize| {
        let at = (values.len() - CROWD) * sample / SAMPLES;
        let (one, other) = (values[at], values[at + CROWD]);
        // Equal ones cannot be told apart anyway.
        one != other && segment.stretch(one, end) == segment.stretch(other, end)
    };
    (0..SAMPLES).filter(|&sample| is_crowded(sample)).count() > SAMPLES / 8
}

/// Calls `each` with the places where the segments of a key's values begin. Equal values are in one
/// segment.
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
    /// Of values in order within each key, given where each key's start, and where all end.
    pub(crate) fn new(
        of_keys: &[u32],
        values: &'a [i64],
        driver: &Driver,
    ) -> Result<Self, Stopped> {
        // 1. The segments, and the place where each begins.
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
        // 2. Their stretches.
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

    /// Of the times of a side, whose keys are below `key_count`.
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

    /// Of values in no order. Where they are spread evenly over the keys and over time, each is
    /// moved twice: to its range, and in a cache to its stretch.
    fn spread(
        keys: &[u32],
        values: &[i64],
        key_count: usize,
        driver: &Driver,
    ) -> Result<Self, Stopped> {
        // 1. By key and range.
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
        // 2. Stretches are about as many as values, and as many in each range.
        let bits = mean.ilog2().min(ranged.shift);
        let RowsByRange { low, shift, ranges_a_key, starts: places, mut ts, .. } = ranged;
        let shift = shift - bits;
        let of_key = (ranges_a_key << bits) as u32;
        let firsts = (0..=key_count as u32).map(|key| 1 + key * of_key);
        let mut segments = memory::vec(key_count + 2);
        segments.push(Segment { low: 0, first: 0, shift: 0 });
        segments.extend(firsts.map(|first| Segment { low, first, shift }));
        let keys = memory::collect(0..key_count as u32 + 2);
        // 3. Each range by itself. Behind a stretch is noted where it ends, which is where the next
        //    one starts.
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

    /// Whether left rows should look their places up among this number of values: if the rows are in
    /// no order, and not few.
    pub(crate) fn pays(left: &[i64], values: usize, driver: &Driver) -> Result<bool, Stopped> {
        Ok(left.len() >= values / VALUES_A_ROW && !are_sorted(&[left], driver)?)
    }

    /// The same, ready to be read often.
    fn slices(&self) -> Slices<'_> {
        let Directory { values, keys, segments, starts } = self;
        Slices { values, keys, segments, starts }
    }
}

/// Some neighbouring ranges of values in no order.
struct Spread<'a> {
    low: i64,
    /// The length of a stretch, and how many a range has, as powers of two.
    shift: u32,
    bits: u32,
    /// Where each range starts; last, where the last one ends.
    places: &'a [u32],
    values: &'a mut [i64],
    /// The end of each stretch.
    ends: &'a mut [Slot<u32>],
}

impl Spread<'_> {
    /// Puts the values of each stretch beside each other, and in order if they are many.
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

/// What a [`Directory`] has.
#[derive(Clone, Copy)]
struct Slices<'a> {
    values: &'a [i64],
    keys: &'a [u32],
    segments: &'a [Segment],
    starts: &'a [u32],
}

impl Slices<'_> {
    /// The stretch of a value of a key, or the nearest one.
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

/// A value and the next one, for one check of their places.
#[inline(always)]
fn two<T: Copy>(values: &[T], at: u32) -> [T; 2] {
    let both = &values[at as usize..at as usize + 2];
    [both[0], both[1]]
}

/// Notes the first places of stretches from number `from` on, which are of one key with these
/// values from place `first` on.
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
    // A stretch starts after the last value of the stretches before: each value says so, and the
    // last one's word stays.
    let starts = Slot::fill(starts, first + begin as u32);
    for (after, &value) in (first + begin as u32 + 1..).zip(&values[begin..end]) {
        starts[(stretch(value) - from) as usize + 1] = after;
    }
    // Without values, it starts where the one before does.
    let mut latest = 0;
    for start in starts {
        latest = latest.max(*start);
        *start = latest;
    }
}

/// The run of each left row: from the place of the first value of `firsts` that is not before its
/// reach, to the place of the first value of `lasts` that is behind it. Both have places of the
/// same keys.
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

/// The rows of a task.
struct DirectorySearch<'a, R, T> {
    directories: [Slices<'a>; 2],
    reach: &'a R,
    /// The number of the first row.
    first: usize,
    ts: &'a [i64],
    keys: Option<&'a [u32]>,
    runs: &'a mut [Slot<T>],
}

/// Left rows on their way: the first and the last value of each one's run, the stretches of both,
/// and the places of these.
#[derive(Clone, Copy, Default)]
struct LeftBlock {
    values: [[i64; 2]; BLOCK],
    stretches: [[u32; 2]; BLOCK],
    places: [[Places; 2]; BLOCK],
}

/// The first place of a stretch, and that of the next one.
type Places = [u32; 2];

impl<R: LeftReach, T: Value + From<[u32; 2]>> Work for DirectorySearch<'_, R, T> {
    type Output = ();

    /// Looks rows up in three steps. Each step asks for the memory that the next one reads. While
    /// memory comes for one block of rows, other blocks have their steps.
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
            // No value is above the last and below the first.
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

/// The first place from `from` to `to` whose value is not `before`, or `to`.
#[inline(always)]
fn place(values: &[i64], [from, to]: Places, before: impl Fn(i64) -> bool) -> u32 {
    let count = to - from;
    if count as usize <= FEW {
        let Some(some) = values.get(from as usize..from as usize + FEW) else {
            let few = &values[from as usize..to as usize];
            return from + few.iter().filter(|&&value| before(value)).count() as u32;
        };
        // Those behind may be of another key.
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

    /// Keys and values that lie close, with many equal ones, or in clusters, or far apart.
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
            // Two columns of the same keys.
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
