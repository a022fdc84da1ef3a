//! The columns of the kept rows on one side: times and keys, in chunks.

use std::collections::VecDeque;

use crate::rows::{KeptColumns, RowLog};

/// The number of rows in a chunk. Chunks are small, so only a few dropped rows stay in memory
/// together with the oldest row that is still needed.
const CHUNK_ROWS: usize = if cfg!(test) { 8 } else { 1 << 9 };

/// The number of times that are compared together.
const LANES: usize = 4;

/// The times and keys of rows, indexed by offset.
#[derive(Debug, Default)]
pub struct Chunks {
    len: usize,
    /// The number of rows in the first chunk that have already been dropped.
    gone: usize,
    /// All chunks except the last have [`CHUNK_ROWS`] rows.
    chunks: VecDeque<Chunk>,
}

#[derive(Debug, Default)]
struct Chunk {
    ts: Vec<i64>,
    keys: Vec<u32>,
}

/// A cursor that moves through the times of a log.
#[derive(Debug)]
pub(super) struct Mark<'a> {
    chunks: &'a Chunks,
    /// The number of the first row in the first chunk. That row may already have been dropped.
    first: u64,
    chunk: usize,
    /// The times in that chunk.
    times: &'a [i64],
    at: usize,
}

impl Mark<'_> {
    /// Moves forward to the first row at or after `ts`, and returns the low bits of its number.
    #[inline(always)]
    pub(super) fn pass(&mut self, ts: i64) -> u32 {
        // There is no branch on each time, because it is unpredictable.
        while let Some(lanes) = self.times.get(self.at..self.at + LANES) {
            let before = lanes.iter().map(|&row| usize::from(row < ts)).sum::<usize>();
            self.at += before;
            if before < LANES {
                return self.number() as u32;
            }
        }
        self.pass_end(ts)
    }

    /// Works like [`pass`](Self::pass) near the end of a chunk.
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
            self.times = self.chunks.times(self.chunk);
        }
    }

    /// Returns the number of the row that the cursor has reached.
    #[inline]
    pub(super) fn number(&self) -> u64 {
        self.first + (self.chunk * CHUNK_ROWS + self.at) as u64
    }
}

impl RowLog<Chunks> {
    /// Returns a cursor at the row with this number, or at the oldest kept row if that row is
    /// newer.
    pub(super) fn mark(&self, number: u64) -> Mark<'_> {
        let chunks = self.columns();
        let (chunk, at) = chunks.find(number.saturating_sub(self.first()) as usize);
        let first = self.first() - chunks.gone as u64;
        Mark { chunks, first, chunk, times: chunks.times(chunk), at }
    }
}

impl Chunks {
    /// Returns the chunk that contains the row at this offset, and the row's position in that
    /// chunk.
    #[inline]
    fn find(&self, offset: usize) -> (usize, usize) {
        ((offset + self.gone) / CHUNK_ROWS, (offset + self.gone) % CHUNK_ROWS)
    }

    /// Returns the keys of all rows, in order.
    pub fn keys(&self) -> impl Iterator<Item = u32> + '_ {
        let mut gone = self.gone;
        self.chunks.iter().flat_map(move |chunk| &chunk.keys[std::mem::take(&mut gone)..]).copied()
    }

    /// Returns the keys of the first `rows` rows, with one slice per chunk.
    pub fn first_keys(&self, rows: usize) -> impl Iterator<Item = &[u32]> {
        let (mut gone, mut left) = (self.gone, rows.min(self.len));
        let pieces = self.chunks.iter().map(move |chunk| {
            let keys = &chunk.keys[std::mem::take(&mut gone)..];
            let keys = &keys[..keys.len().min(left)];
            left -= keys.len();
            keys
        });
        pieces.take_while(|keys| !keys.is_empty())
    }

    fn times(&self, chunk: usize) -> &[i64] {
        self.chunks.get(chunk).map_or(&[], |chunk| &chunk.ts)
    }

    /// Appends rows with these times and keys.
    pub fn extend(&mut self, mut ts: &[i64], mut keys: &[u32]) {
        assert_eq!(ts.len(), keys.len(), "a key a row");
        self.len += ts.len();
        while !ts.is_empty() {
            if self.chunks.back().is_none_or(|chunk| chunk.ts.len() == CHUNK_ROWS) {
                self.chunks.push_back(Chunk::default());
            }
            let chunk = self.chunks.back_mut().expect("there is one");
            let free = CHUNK_ROWS - chunk.ts.len();
            let taken = ts.len().min(free);
            if taken > free / 2 {
                // The capacity is exactly what the chunk can hold.
                chunk.ts.reserve_exact(free);
                chunk.keys.reserve_exact(free);
            }
            let (head, tail) = ts.split_at(taken);
            chunk.ts.extend_from_slice(head);
            ts = tail;
            let (head, tail) = keys.split_at(taken);
            chunk.keys.extend_from_slice(head);
            keys = tail;
        }
    }
}

impl KeptColumns for Chunks {
    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn ts(&self, offset: usize) -> Option<i64> {
        let (chunk, at) = self.find(offset);
        self.chunks.get(chunk)?.ts.get(at).copied()
    }

    fn drop_front(&mut self, rows: usize) {
        self.len -= rows;
        self.gone += rows;
        while self.chunks.front().is_some_and(|chunk| self.gone >= chunk.ts.len()) {
            self.gone -= self.chunks.pop_front().map_or(0, |chunk| chunk.ts.len());
        }
    }

    fn memory(&self) -> usize {
        let of_chunk = |Chunk { ts, keys }: &Chunk| {
            ts.capacity() * size_of::<i64>() + keys.capacity() * size_of::<u32>()
        };
        self.chunks.capacity() * size_of::<Chunk>()
            + self.chunks.iter().map(of_chunk).sum::<usize>()
    }
}
