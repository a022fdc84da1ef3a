//! Stable partitioning of rows by a dense key, by several threads at once.
//!
//! The rows are cut into chunks. Each chunk counts its rows a bucket ([`Chunk::count`]); from all counts together every
//! chunk knows, for each bucket, the places that are its own ([`writers`]); then all chunks write at the same time, no
//! two to one place ([`Writer::run`]), or step by step ([`Writer::write_to`]). Rows of one bucket keep their order, since chunks follow each other in row order.
//!
//! # Trade-offs
//!
//! Counters are `buckets` a chunk, and a write goes to as many streams at once as there are buckets: beyond
//! [`MAX_BUCKETS`] the caller partitions in two levels.

use std::fmt;

/// The key of a row that belongs to no bucket.
pub const NO_KEY: u32 = u32::MAX;

/// The most buckets one level should have when times travel: their open cache lines (two arrays written) still fit a
/// 2 MiB cache with their counters, and their pages its translation buffers.
pub const MAX_BUCKETS: usize = 1 << 12;

/// Rows by column: the row's number, its time, and its key.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// A dense key a row, or [`NO_KEY`].
    pub keys: &'a [u32],
    /// A time a row, where it travels with the row.
    pub ts: Option<&'a [i64]>,
    /// A number a row, or none where a row's number is `first` plus its place.
    pub numbers: Option<&'a [u32]>,
    /// The number of the first row, where numbers are not listed.
    pub first: u32,
}

impl<'a> Rows<'a> {
    /// The rows of a range.
    pub fn slice(&self, range: std::ops::Range<usize>) -> Rows<'a> {
        Rows {
            keys: &self.keys[range.clone()],
            ts: self.ts.map(|ts| &ts[range.clone()]),
            numbers: self.numbers.map(|numbers| &numbers[range.clone()]),
            first: self.first + range.start as u32,
        }
    }
}

/// Where partitioned rows go: the columns that travel, each as long as there are rows.
#[derive(Debug)]
pub struct Target<'a> {
    /// The keys, if wanted.
    pub keys: Option<&'a mut [u32]>,
    /// The times, if the rows have them.
    pub ts: Option<&'a mut [i64]>,
    /// The row numbers.
    pub numbers: &'a mut [u32],
}

/// How keys become buckets: `(key - first) >> shift`, below `count`.
#[derive(Clone, Copy, Debug)]
pub struct Buckets {
    /// The smallest key.
    pub first: u32,
    /// Low bits of a key that do not count.
    pub shift: u32,
    /// The number of buckets.
    pub count: usize,
}

/// Consecutive rows and their number a bucket.
#[derive(Debug)]
pub struct Chunk<'a> {
    rows: Rows<'a>,
    buckets: Buckets,
    /// Rows a bucket. Counted from `rows` by `count` and private, so that a `Writer` can rely on it.
    counts: Vec<u32>,
}

impl<'a> Chunk<'a> {
    /// Counts the rows of each bucket; rows without a key are in none.
    ///
    /// # Panics
    ///
    /// When a key lies outside the buckets, or the columns differ in length.
    pub fn count(rows: Rows<'a>, buckets: Buckets) -> Self {
        assert!(rows.ts.is_none_or(|ts| ts.len() == rows.keys.len()), "a time a key");
        assert!(rows.numbers.is_none_or(|numbers| numbers.len() == rows.keys.len()), "a number a key");
        let mut counts = vec![0_u32; buckets.count];
        for &key in rows.keys {
            if key != NO_KEY {
                counts[((key - buckets.first) >> buckets.shift) as usize] += 1;
            }
        }
        Chunk { rows, buckets, counts }
    }
}

/// Gives every chunk its places in `target`, and returns where each bucket starts, with the end as last element.
///
/// The first `starts.last()` places of `target` are written when all writers have run.
///
/// # Panics
///
/// When the chunks differ in their number of buckets, or `target` is shorter than the rows with a key.
pub fn writers<'a>(chunks: Vec<Chunk<'a>>, target: Target<'a>) -> (Vec<u32>, Vec<Writer<'a>>) {
    let count = chunks.first().map_or(0, |chunk| chunk.counts.len());
    assert!(chunks.iter().all(|chunk| chunk.counts.len() == count), "chunks of one partitioning");
    let mut chunks = chunks;
    let mut starts = Vec::with_capacity(count + 1);
    let mut next = 0_u32;
    for bucket in 0..count {
        starts.push(next);
        for chunk in &mut chunks {
            let rows = std::mem::replace(&mut chunk.counts[bucket], next);
            next = next.checked_add(rows).expect("row numbers fit in 32 bits");
        }
    }
    starts.push(next);
    let total = next as usize;
    let Target { mut keys, mut ts, numbers } = target;
    assert!(numbers.len() >= total, "room for every row");
    assert!(keys.as_ref().is_none_or(|keys| keys.len() >= total), "room for every key");
    assert!(ts.as_ref().is_none_or(|ts| ts.len() >= total), "room for every time");
    assert!(chunks.iter().all(|chunk| chunk.rows.ts.is_some() == ts.is_some()), "times travel from all chunks or none");
    let places = Places {
        keys: keys.as_deref_mut().map(<[u32]>::as_mut_ptr),
        ts: ts.as_deref_mut().map(<[i64]>::as_mut_ptr),
        numbers: numbers.as_mut_ptr(),
        total,
    };
    let writer = |Chunk { rows, buckets, counts }| Writer { rows, buckets, next: counts, written: 0, places };
    (starts, chunks.into_iter().map(writer).collect())
}

/// Writes one chunk's rows to their places.
pub struct Writer<'a> {
    rows: Rows<'a>,
    buckets: Buckets,
    /// The next free place of this chunk, a bucket.
    next: Vec<u32>,
    /// The rows of the chunk that have been written.
    written: usize,
    places: Places,
}

#[derive(Clone, Copy)]
struct Places {
    keys: Option<*mut u32>,
    ts: Option<*mut i64>,
    numbers: *mut u32,
    total: usize,
}

// SAFETY: the pointers come from slices that `writers` borrows mutably for 'a, and each writer writes only to places
// that `writers` gave to it alone (P1), so sending a writer to another thread shares nothing that is written twice.
unsafe impl Send for Writer<'_> {}

impl Writer<'_> {
    /// The next free place of each bucket.
    #[inline]
    pub fn next(&self) -> &[u32] {
        &self.next
    }

    /// Writes all rows of the chunk that are left.
    pub fn run(mut self) {
        let rows = self.rows.keys.len();
        match (self.rows.ts, self.rows.numbers, self.places.keys) {
            (None, None, None) => self.scatter::<false, false, false>(rows),
            (None, None, Some(_)) => self.scatter::<false, false, true>(rows),
            (None, Some(_), None) => self.scatter::<false, true, false>(rows),
            (None, Some(_), Some(_)) => self.scatter::<false, true, true>(rows),
            (Some(_), None, None) => self.scatter::<true, false, false>(rows),
            (Some(_), None, Some(_)) => self.scatter::<true, false, true>(rows),
            (Some(_), Some(_), None) => self.scatter::<true, true, false>(rows),
            (Some(_), Some(_), Some(_)) => self.scatter::<true, true, true>(rows),
        }
    }

    /// Writes the numbers of the chunk's first `rows` rows, as far as they have not been written. Other columns do not
    /// travel when rows are written step by step.
    ///
    /// # Panics
    ///
    /// When the rows have other columns, or the chunk fewer rows.
    #[inline]
    pub fn write_to(&mut self, rows: usize) {
        debug_assert!(self.rows.ts.is_none() && self.rows.numbers.is_none() && self.places.keys.is_none());
        self.scatter::<false, false, false>(rows);
    }

    /// P1: `next[b]` began where the chunks before this one end in bucket `b`, and is raised once for each row that
    /// [`Chunk::count`] counted in `b` from the same immutable columns, since `written` only rises; so it stays below
    /// the place where the next chunk begins, and below `total`.
    #[inline]
    fn scatter<const TIMED: bool, const NUMBERED: bool, const KEYED: bool>(&mut self, end: usize) {
        let Rows { keys, ts, numbers, first } = self.rows;
        let (ts, numbers) = (ts.unwrap_or(&[]), numbers.unwrap_or(&[]));
        let written = self.written.min(end);
        for (row, &key) in (written..end).zip(&keys[written..end]) {
            if key == NO_KEY {
                continue;
            }
            let number = if NUMBERED { numbers[row] } else { first + row as u32 };
            let next = &mut self.next[((key - self.buckets.first) >> self.buckets.shift) as usize];
            let place = *next as usize;
            *next += 1;
            debug_assert!(place < self.places.total);
            // SAFETY: `place < total`, which the slices' lengths cover, and no other writer has this place (P1).
            unsafe {
                self.places.numbers.add(place).write(number);
                if TIMED && let Some(to) = self.places.ts {
                    to.add(place).write(ts[row]);
                }
                if KEYED && let Some(to) = self.places.keys {
                    to.add(place).write(key);
                }
            }
        }
        self.written = written.max(end);
    }
}

impl fmt::Debug for Writer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("rows", &self.rows.keys.len()).finish_non_exhaustive()
    }
}

/// Splits `values` at the ends given by `starts`, one slice a bucket.
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

/// A column cut into `parts` nearly equal ranges, none of them empty.
pub fn ranges(len: usize, parts: usize) -> Vec<std::ops::Range<usize>> {
    let parts = parts.clamp(1, len.max(1));
    (0..parts).map(|part| part * len / parts..(part + 1) * len / parts).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn oracle_stable_sort(keys in prop::collection::vec(prop_oneof![9 => 0_u32..50, 1 => Just(NO_KEY)], 0..300),
                              parts in 1_usize..9, shift in 0_u32..3) {
            let ts: Vec<i64> = (0..keys.len() as i64).map(|row| row * 3 - 7).collect();
            let rows = Rows { keys: &keys, ts: Some(&ts), numbers: None, first: 0 };
            let buckets = Buckets { first: 0, shift, count: (50 >> shift) + 1 };
            let chunks = ranges(keys.len(), parts).into_iter().map(|r| Chunk::count(rows.slice(r), buckets)).collect();
            let (mut out_keys, mut out_ts, mut numbers) = (keys.clone(), ts.clone(), vec![0; keys.len()]);
            let target = Target { keys: Some(&mut out_keys), ts: Some(&mut out_ts), numbers: &mut numbers };
            let (starts, writers) = writers(chunks, target);
            std::thread::scope(|scope| writers.into_iter().for_each(|writer| { scope.spawn(|| writer.run()); }));

            let mut expected: Vec<usize> = (0..keys.len()).filter(|&row| keys[row] != NO_KEY).collect();
            expected.sort_by_key(|&row| keys[row] >> shift);
            let total = *starts.last().unwrap() as usize;
            prop_assert_eq!(total, expected.len());
            for (place, &row) in expected.iter().enumerate() {
                prop_assert_eq!((numbers[place], out_ts[place], out_keys[place]), (row as u32, ts[row], keys[row]));
            }
            for (bucket, pair) in starts.windows(2).enumerate() {
                prop_assert!((pair[0]..pair[1]).all(|place| out_keys[place as usize] >> shift == bucket as u32));
            }
        }
    }
}
