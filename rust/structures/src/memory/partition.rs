//! Stable partitioning of rows by a dense key, using several threads.
//!
//! The rows are divided into parts. Each part counts its rows per bucket ([`Part::count`]). From
//! the counts of all parts, [`writers`] determines each part's positions in each bucket. All parts
//! then write at the same time, and each part writes only to its own positions ([`Writer::run`]).
//! Rows in the same bucket keep their order, because the parts follow each other in row order.
//! [`Writer::merge`] also finds the matches of other rows in the same pass.
//!
//! # Trade-offs
//!
//! Each part has one counter per bucket, and it writes to as many memory streams as there are
//! buckets. Callers should partition in two levels if there are more than [`MAX_BUCKETS`] buckets.

mod merge;

use std::fmt;

use super::pages::Slot;
pub use merge::{LeavingRows, TimedRows};

const TOO_MANY: &str = "row numbers fit in 32 bits";

/// The key of a row that belongs to no bucket.
pub const NO_KEY: u32 = u32::MAX;

/// The maximum number of buckets in one level if times are moved with the rows. With this many
/// buckets, the counters and the open cache lines of two output arrays still fit into a 2 MiB
/// cache. The addresses of the arrays' pages also fit into the processor's translation buffers.
pub const MAX_BUCKETS: usize = 1 << 12;

/// Rows as columns: row numbers, times and keys.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// One dense key per row, or [`NO_KEY`].
    pub keys: &'a [u32],
    /// One time per row, if times are moved with the rows.
    pub ts: Option<&'a [i64]>,
    /// One number per row. `None` means that each row's number is `first` plus the row's position.
    pub numbers: Option<&'a [u32]>,
    /// The number of the first row, if numbers are not listed.
    pub first: u32,
}

impl<'a> Rows<'a> {
    /// Returns the rows in a range.
    pub fn slice(&self, range: std::ops::Range<usize>) -> Rows<'a> {
        Rows {
            keys: &self.keys[range.clone()],
            ts: self.ts.map(|ts| &ts[range.clone()]),
            numbers: self.numbers.map(|numbers| &numbers[range.clone()]),
            first: self.first + range.start as u32,
        }
    }
}

/// The output of partitioning: the columns that are moved, each with one element per row.
#[derive(Debug)]
pub struct Target<'a> {
    /// The keys, if requested.
    pub keys: Option<&'a mut [Slot<u32>]>,
    /// The times, if the rows have any.
    pub ts: Option<&'a mut [Slot<i64>]>,
    /// The row numbers, if requested.
    pub numbers: Option<&'a mut [Slot<u32>]>,
}

/// Maps keys to buckets: `(key - first) >> shift`, below `count`. An additional bucket at the end
/// contains the rows without a key, so no loop has to check for such rows.
#[derive(Clone, Copy, Debug)]
pub struct Buckets {
    /// The smallest key.
    pub first: u32,
    /// The number of low key bits that are ignored.
    pub shift: u32,
    /// The number of buckets.
    pub count: usize,
}

impl Buckets {
    #[inline]
    fn of(self, key: u32) -> usize {
        if key == NO_KEY { self.count } else { ((key - self.first) >> self.shift) as usize }
    }
}

/// Consecutive rows, with the number of rows per bucket.
#[derive(Debug)]
pub struct Part<'a> {
    rows: Rows<'a>,
    buckets: Buckets,
    /// The number of rows per bucket. `count` counts them from `rows`. The field is private, so a
    /// `Writer` can rely on its value.
    counts: Vec<u32>,
}

impl<'a> Part<'a> {
    /// Counts the rows in each bucket.
    ///
    /// # Panics
    ///
    /// Panics if a key is outside the buckets, if the columns differ in length, or if row numbers
    /// do not fit in 32 bits.
    pub fn count(rows: Rows<'a>, buckets: Buckets) -> Self {
        // This ensures that no count of these rows wraps, which the writers' positions rely on
        // (P1). It also ensures that no row number wraps.
        assert!(
            u32::try_from(rows.keys.len()).is_ok_and(|len| rows.first.checked_add(len).is_some()),
            "{TOO_MANY}"
        );
        assert!(rows.ts.is_none_or(|ts| ts.len() == rows.keys.len()), "one time per key");
        assert!(
            rows.numbers.is_none_or(|numbers| numbers.len() == rows.keys.len()),
            "one number per key"
        );
        let mut counts = vec![0_u32; buckets.count + 1];
        rows.keys.iter().for_each(|&key| counts[buckets.of(key)] += 1);
        Part { rows, buckets, counts }
    }
}

/// Assigns positions in `target` to each part. Returns the position where each bucket starts,
/// followed by the position where the rows without a key start. Also returns one writer per part.
///
/// Once all writers have run, every position has been written.
///
/// # Panics
///
/// Panics if the parts have different numbers of buckets, or if `target` is too short for their
/// rows.
pub fn writers<'a>(parts: Vec<Part<'a>>, target: Target<'a>) -> (Vec<u32>, Vec<Writer<'a>>) {
    let count = parts.first().map_or(0, |part| part.counts.len());
    assert!(parts.iter().all(|part| part.counts.len() == count), "all parts have the same buckets");
    let mut parts = parts;
    let mut starts = Vec::with_capacity(count);
    let mut next = 0_u32;
    for bucket in 0..count {
        starts.push(next);
        for part in &mut parts {
            let rows = std::mem::replace(&mut part.counts[bucket], next);
            next = next.checked_add(rows).expect(TOO_MANY);
        }
    }
    let total = next as usize;
    let Target { keys, ts, numbers } = target;
    assert!(
        numbers.as_ref().is_none_or(|numbers| numbers.len() >= total),
        "there is room for every row"
    );
    assert!(keys.as_ref().is_none_or(|keys| keys.len() >= total), "there is room for every key");
    assert!(ts.as_ref().is_none_or(|ts| ts.len() >= total), "there is room for every time");
    assert!(
        parts.iter().all(|part| part.rows.ts.is_some() == ts.is_some()),
        "all parts have times, or none has"
    );
    let places = Places {
        keys: keys.map(|keys| Slot::values(keys).as_mut_ptr()),
        ts: ts.map(|ts| Slot::values(ts).as_mut_ptr()),
        numbers: numbers.map(|numbers| Slot::values(numbers).as_mut_ptr()),
        total,
    };
    let writer = |Part { rows, buckets, counts }| Writer { rows, buckets, next: counts, places };
    (starts, parts.into_iter().map(writer).collect())
}

/// Writes the rows in one part to their positions in the buckets.
pub struct Writer<'a> {
    rows: Rows<'a>,
    buckets: Buckets,
    /// The part's next free position in each bucket.
    next: Vec<u32>,
    places: Places,
}

#[derive(Clone, Copy)]
struct Places {
    keys: Option<*mut u32>,
    ts: Option<*mut i64>,
    numbers: Option<*mut u32>,
    total: usize,
}

// SAFETY: the pointers come from slices that `writers` borrows mutably for 'a. Each writer writes
// only to positions that `writers` assigned to it alone (P1), so no position is written by two
// threads.
unsafe impl Send for Writer<'_> {}

impl Writer<'_> {
    /// Returns the next free position in each bucket.
    pub fn next(&self) -> &[u32] {
        &self.next
    }

    /// Writes all rows in the part.
    pub fn run(mut self) {
        match (self.rows.ts, self.rows.numbers, self.places.keys) {
            (None, None, None) => self.scatter::<false, false, false>(),
            (None, None, Some(_)) => self.scatter::<false, false, true>(),
            (None, Some(_), None) => self.scatter::<false, true, false>(),
            (None, Some(_), Some(_)) => self.scatter::<false, true, true>(),
            (Some(_), None, None) => self.scatter::<true, false, false>(),
            (Some(_), None, Some(_)) => self.scatter::<true, false, true>(),
            (Some(_), Some(_), None) => self.scatter::<true, true, false>(),
            (Some(_), Some(_), Some(_)) => self.scatter::<true, true, true>(),
        }
    }

    /// P1: a part has fewer than 2^32 rows, so no count wraps. `next[b]` starts at the end of the
    /// previous parts' positions in bucket `b`. Writing increments `next[b]` once for each row that
    /// [`Part::count`] counted in `b`. Counting and writing read the same immutable columns. Each
    /// position is therefore below the start of the next part's positions in `b`, and below
    /// `total`.
    #[inline]
    fn scatter<const TIMED: bool, const NUMBERED: bool, const KEYED: bool>(&mut self) {
        let Rows { keys, ts, numbers, first } = self.rows;
        let (ts, numbers) = (ts.unwrap_or(&[]), numbers.unwrap_or(&[]));
        for (row, &key) in keys.iter().enumerate() {
            let number = if NUMBERED { numbers[row] } else { first + row as u32 };
            let next = &mut self.next[self.buckets.of(key)];
            let place = *next as usize;
            *next += 1;
            debug_assert!(place < self.places.total);
            // SAFETY: `place < total`, which the slices' lengths cover, and no other writer has
            // this place (P1).
            unsafe {
                if let Some(to) = self.places.numbers {
                    to.add(place).write(number);
                }
                if TIMED && let Some(to) = self.places.ts {
                    to.add(place).write(ts[row]);
                }
                if KEYED && let Some(to) = self.places.keys {
                    to.add(place).write(key);
                }
            }
        }
    }
}

impl fmt::Debug for Writer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("rows", &self.rows.keys.len()).finish_non_exhaustive()
    }
}

/// Splits `values` at the starts of buckets, into one slice for each bucket except the last.
pub fn split_buckets<'a, T>(mut values: &'a mut [T], starts: &[u32]) -> Vec<&'a mut [T]> {
    let sizes = starts.windows(2).map(|pair| (pair[1] - pair[0]) as usize);
    sizes
        .map(|size| {
            let (bucket, rest) = std::mem::take(&mut values).split_at_mut(size);
            values = rest;
            bucket
        })
        .collect()
}

/// Divides a column into `parts` nearly equal ranges, none of which is empty.
pub fn ranges(len: usize, parts: usize) -> Vec<std::ops::Range<usize>> {
    let parts = parts.clamp(1, len.max(1));
    (0..parts).map(|part| part * len / parts..(part + 1) * len / parts).collect()
}

#[cfg(test)]
mod tests {
    use std::any::Any;
    use std::panic::AssertUnwindSafe;

    use proptest::prelude::*;

    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn more_rows_than_can_be_numbered_are_refused() {
        // These are only addresses: no code reads or writes the keys, which are all in one bucket.
        let keys = memmap2::MmapOptions::new()
            .len((1 << 32) * size_of::<u32>())
            .no_reserve_swap()
            .map_anon()
            .unwrap();
        let rows = Rows { keys: bytemuck::cast_slice(&keys), ts: None, numbers: None, first: 0 };
        let counted =
            |rows: Rows<'_>| drop(Part::count(rows, Buckets { first: 0, shift: 0, count: 1 }));
        let few = Rows { keys: &rows.keys[..10], first: u32::MAX - 9, ..rows };
        for rows in [rows, few] {
            let panic =
                std::panic::catch_unwind(|| counted(rows)).expect_err("the rows are rejected");
            assert!(panic.downcast_ref::<String>().is_some_and(|text| text.contains(TOO_MANY)));
        }
        counted(Rows { first: u32::MAX - 10, ..few });
    }

    #[test]
    fn a_target_without_a_place_for_each_row_is_refused() {
        let (keys, ts) = ([0_u32, 1, NO_KEY, 1], [1_i64, 2, 3, 4]);
        let rows = Rows { keys: &keys, ts: Some(&ts), numbers: None, first: 0 };
        let buckets = |count| Buckets { first: 0, shift: 0, count };
        let given = |parts: Vec<Part<'_>>, timed: bool, lens: [usize; 3]| {
            let (mut keys, mut ts, mut numbers) = ([0; 5], [0; 5], [0; 5]);
            let target = Target {
                keys: Some(Slot::of(&mut keys[..lens[0]])),
                ts: timed.then(|| Slot::of(&mut ts[..lens[1]])),
                numbers: Some(Slot::of(&mut numbers[..lens[2]])),
            };
            let made = AssertUnwindSafe(|| writers(parts, target).0);
            let message = |panic: Box<dyn Any + Send>| panic.downcast_ref::<&str>().copied();
            std::panic::catch_unwind(made).map_err(|panic| message(panic).unwrap_or_default())
        };
        let whole = || vec![Part::count(rows, buckets(2))];
        assert_eq!(given(whole(), true, [4; 3]), Ok(vec![0, 1, 3]));
        assert_eq!(given(whole(), true, [5; 3]), Ok(vec![0, 1, 3]));
        assert_eq!(given(whole(), true, [3, 4, 4]), Err("there is room for every key"));
        assert_eq!(given(whole(), true, [4, 3, 4]), Err("there is room for every time"));
        assert_eq!(given(whole(), true, [4, 4, 3]), Err("there is room for every row"));
        let untimed = "all parts have times, or none has";
        assert_eq!(given(whole(), false, [4; 3]), Err(untimed));
        let two = |count| {
            let first = Part::count(rows.slice(0..2), buckets(2));
            vec![first, Part::count(rows.slice(2..4), buckets(count))]
        };
        assert_eq!(given(two(2), true, [4; 3]), Ok(vec![0, 1, 3]));
        assert_eq!(given(two(3), true, [4; 3]), Err("all parts have the same buckets"));
    }

    proptest! {
        #[test]
        fn oracle_stable_sort(keys in prop::collection::vec(prop_oneof![9 => 0_u32..50, 1 => Just(NO_KEY)], 0..300),
                              count in 1_usize..9, shift in 0_u32..3) {
            let ts: Vec<i64> = (0..keys.len() as i64).map(|row| row * 3 - 7).collect();
            let rows = Rows { keys: &keys, ts: Some(&ts), numbers: None, first: 0 };
            let buckets = Buckets { first: 0, shift, count: (50 >> shift) + 1 };
            let parts = ranges(keys.len(), count).into_iter().map(|r| Part::count(rows.slice(r), buckets)).collect();
            let (mut out_keys, mut out_ts, mut numbers) = (keys.clone(), ts.clone(), vec![0; keys.len()]);
            let target = Target {
                keys: Some(Slot::of(&mut out_keys)),
                ts: Some(Slot::of(&mut out_ts)),
                numbers: Some(Slot::of(&mut numbers)),
            };
            let (starts, writers) = writers(parts, target);
            std::thread::scope(|scope| writers.into_iter().for_each(|writer| { scope.spawn(|| writer.run()); }));

            let mut expected: Vec<usize> = (0..keys.len()).collect();
            expected.sort_by_key(|&row| if keys[row] == NO_KEY { NO_KEY } else { keys[row] >> shift });
            let with_key = *starts.last().unwrap() as usize;
            prop_assert_eq!(with_key, keys.iter().filter(|key| **key != NO_KEY).count());
            for (place, &row) in expected.iter().enumerate() {
                prop_assert_eq!((numbers[place], out_ts[place], out_keys[place]), (row as u32, ts[row], keys[row]));
            }
            for (bucket, pair) in starts.windows(2).enumerate() {
                prop_assert!((pair[0]..pair[1]).all(|place| out_keys[place as usize] >> shift == bucket as u32));
            }
        }
    }
}
