//! The rows of one side that are still needed, in merged order.

use std::collections::VecDeque;

use crate::rows::{Matched, NO_KEY, Reach, Side};

/// Rows of a chunk: few enough that what is kept behind the oldest row is little.
const CHUNK_ROWS: usize = if cfg!(test) { 8 } else { 1 << 9 };

/// Times that are compared at once.
const LANES: usize = 4;

/// Rows by number. The number of a row counts the rows of its side from the first ever;
/// [`Log::first`] is that of the oldest row still here, and a row's *place* its distance from that.
#[derive(Debug)]
pub(super) struct Log {
    side: Side,
    first: u64,
    len: usize,
    /// How many rows of the first chunk have been let go of.
    gone: usize,
    /// All of [`CHUNK_ROWS`] rows but the last.
    chunks: VecDeque<Chunk>,
    /// Whether it matters which rows have had a match: those that come out without one, or once.
    is_outer: bool,
    /// How many rows from the first on have been looked at for having had no match.
    settled: usize,
}

#[derive(Debug, Default)]
struct Chunk {
    ts: Vec<i64>,
    keys: Vec<u32>,
    /// Which rows have had a match, where that matters.
    matched: Vec<bool>,
}

/// Goes through the times of a log.
#[derive(Debug)]
pub(super) struct Mark<'a> {
    log: &'a Log,
    chunk: usize,
    /// The times of that chunk.
    times: &'a [i64],
    at: usize,
}

impl Mark<'_> {
    /// Passes the rows before `ts`; the low bits of the number of the row that it comes to.
    #[inline(always)]
    pub(super) fn pass(&mut self, ts: i64) -> u32 {
        // Without a branch on each time, which nothing could predict.
        while let Some(lanes) = self.times.get(self.at..self.at + LANES) {
            let before = lanes.iter().map(|&row| usize::from(row < ts)).sum::<usize>();
            self.at += before;
            if before < LANES {
                return self.number() as u32;
            }
        }
        self.pass_end(ts)
    }

    /// As [`pass`](Self::pass), near the end of a chunk.
    #[inline(never)]
    fn pass_end(&mut self, ts: i64) -> u32 {
        loop {
            while self.times.get(self.at).is_some_and(|&row| row < ts) {
                self.at += 1;
            }
            if self.at < CHUNK_ROWS {
                return self.number() as u32;
            }
            (self.chunk, self.at) = (self.chunk + 1, 0);
            self.times = self.log.times(self.chunk);
        }
    }

    /// The number of the row that it has come to.
    #[inline]
    pub(super) fn number(&self) -> u64 {
        self.log.first - self.log.gone as u64 + (self.chunk * CHUNK_ROWS + self.at) as u64
    }
}

impl Log {
    pub(super) fn new(side: Side, is_outer: bool) -> Self {
        Log { side, first: 0, len: 0, gone: 0, chunks: VecDeque::new(), is_outer, settled: 0 }
    }

    /// The number of the oldest row.
    #[inline]
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// One more than the number of the newest row.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.first + self.len as u64
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The chunk and the row in it of a place.
    #[inline]
    fn find(&self, place: usize) -> (usize, usize) {
        ((place + self.gone) / CHUNK_ROWS, (place + self.gone) % CHUNK_ROWS)
    }

    /// The time at a place.
    fn ts(&self, place: usize) -> Option<i64> {
        let (chunk, at) = self.find(place);
        self.chunks.get(chunk)?.ts.get(at).copied()
    }

    /// The keys of all rows, by place.
    pub(super) fn keys(&self) -> impl Iterator<Item = u32> + '_ {
        self.chunks.iter().flat_map(|chunk| &chunk.keys).copied().skip(self.gone)
    }

    fn times(&self, chunk: usize) -> &[i64] {
        self.chunks.get(chunk).map_or(&[], |chunk| &chunk.ts)
    }

    /// A mark at the row of a number, or at the oldest row if that is younger.
    pub(super) fn mark(&self, number: u64) -> Mark<'_> {
        let (chunk, at) = self.find(number.saturating_sub(self.first) as usize);
        Mark { log: self, chunk, times: self.times(chunk), at }
    }

    /// Adds rows behind the others: their times and keys.
    pub(super) fn extend(&mut self, mut ts: &[i64], mut keys: &[u32]) {
        debug_assert_eq!(ts.len(), keys.len(), "a key a row");
        self.len += ts.len();
        while !ts.is_empty() {
            if self.chunks.back().is_none_or(|chunk| chunk.ts.len() == CHUNK_ROWS) {
                self.chunks.push_back(Chunk::default());
            }
            let chunk = self.chunks.back_mut().expect("there is one");
            let free = CHUNK_ROWS - chunk.ts.len();
            let taken = ts.len().min(free);
            if taken > free / 2 {
                // No more than it will hold.
                chunk.ts.reserve_exact(free);
                chunk.keys.reserve_exact(free);
            }
            let (head, tail) = ts.split_at(taken);
            chunk.ts.extend_from_slice(head);
            ts = tail;
            let (head, tail) = keys.split_at(taken);
            chunk.keys.extend_from_slice(head);
            keys = tail;
            if self.is_outer {
                chunk.matched.resize(chunk.ts.len(), false);
            }
        }
    }

    /// Takes in rows that were kept before, with which of them have had a match, and how many have
    /// been settled.
    pub(super) fn restore(&mut self, ts: &[i64], keys: &[u32], matched: &[bool], settled: usize) {
        assert!(
            self.len == 0 && ts.len() == keys.len(),
            "a log without rows takes in rows with their keys"
        );
        self.extend(ts, keys);
        if self.is_outer {
            matched.iter().take(self.len).enumerate().filter(|(_, matched)| **matched).for_each(
                |(place, _)| {
                    self.set_matched(place as u32);
                },
            );
            self.settled = settled.min(self.len);
        }
    }

    /// Which rows have had a match, by place, where it matters; and how many have been settled.
    pub(super) fn matched(&self) -> (Vec<bool>, usize) {
        (
            self.chunks.iter().flat_map(|chunk| &chunk.matched).copied().skip(self.gone).collect(),
            self.settled,
        )
    }

    /// Drops rows that no row at `now` or later can match, and gives each one's key to `gone`.
    pub(super) fn purge(&mut self, reach: &Reach, now: Option<i64>, mut gone: impl FnMut(u32)) {
        let is_needed = self.is_outer || reach.is_stored(self.side);
        let most = if self.is_outer { self.settled } else { self.len };
        let over = |ts: i64| {
            now.is_none_or(|now| reach.last_matchable(self.side, ts).is_some_and(|last| last < now))
        };
        let mut left = most;
        while let Some(chunk) = self.chunks.front() {
            let ts = &chunk.ts[self.gone..];
            let rows =
                if is_needed { ts.partition_point(|&ts| over(ts)) } else { ts.len() }.min(left);
            let keys = &chunk.keys[self.gone..self.gone + rows];
            keys.iter().copied().filter(|&key| key != NO_KEY).for_each(&mut gone);
            left -= rows;
            self.gone += rows;
            if self.gone < chunk.ts.len() {
                break;
            }
            self.chunks.pop_front();
            self.gone = 0;
        }
        let rows = most - left;
        self.first += rows as u64;
        self.len -= rows;
        self.settled = self.settled.saturating_sub(rows);
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        let of_chunk = |chunk: &Chunk| {
            let Chunk { ts, keys, matched } = chunk;
            ts.capacity() * size_of::<i64>()
                + keys.capacity() * size_of::<u32>()
                + matched.capacity()
        };
        self.chunks.capacity() * size_of::<Chunk>()
            + self.chunks.iter().map(of_chunk).sum::<usize>()
    }
}

impl Matched for Log {
    type Reach = Reach;

    fn is_outer(&self) -> bool {
        self.is_outer
    }

    #[inline]
    fn set_matched(&mut self, place: u32) -> bool {
        debug_assert!(self.is_outer, "rows that may come out once are told apart");
        let (chunk, at) = self.find(place as usize);
        !std::mem::replace(&mut self.chunks[chunk].matched[at], true)
    }

    fn unmatched(&mut self, reach: &Reach, now: Option<i64>) -> Option<(i64, i64, u32)> {
        if !self.is_outer {
            return None;
        }
        while let Some(ts) = self.ts(self.settled) {
            let last = reach.last_matchable(self.side, ts);
            if now.is_some_and(|now| last.is_none_or(|last| last >= now)) {
                return None;
            }
            let (chunk, at) = self.find(self.settled);
            if !self.chunks[chunk].matched[at] {
                return Some((last.unwrap_or(i64::MAX), ts, self.settled as u32));
            }
            self.settled += 1;
        }
        None
    }

    fn settle(&mut self) {
        self.settled += 1;
    }
}
