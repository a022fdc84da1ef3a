//! Locates rows in columns that consist of several chunks, and copies their values.

use std::hint::select_unpredictable;

use bytemuck::{AnyBitPattern, NoUninit};
use tidegate_operators::rows::NO_ROW;
use tidegate_structures::memory::gather::{Store, Value, gather, prefetch};
use tidegate_structures::memory::pages::Slot;

use super::column::Column;

/// The number of rows that are located at a time. A core can wait for this many rows' values
/// simultaneously.
const GROUP: usize = 8;

/// The number of rows that are copied at a time if they all lie in one chunk. If a side is in time
/// order, this is how most of its rows are copied. In each column, this many values fill whole
/// cache lines and still fit in the L1 cache.
const BLOCK: usize = 1 << 9;

/// Rows in two chunks are also copied together if they are at most this far apart. The values of
/// such close rows are cached or loaded in order.
const NEAR: u32 = if cfg!(test) { 64 } else { 1 << 14 };

/// The number of groups that are processed at the same time. While the newest group's values are
/// prefetched, the oldest group's values are copied.
const UNDER_WAY: usize = 3;

/// A row's location: its chunk and its position in that chunk.
pub(super) type Place = (usize, usize);

/// The location of a missing row.
const NO_PLACE: Place = (usize::MAX, 0);

/// A column with several chunks from which values are gathered.
pub(super) trait ChunkedColumn {
    /// Prefetches the values at these positions.
    fn ask(&self, places: &[Place]);

    /// Appends the values at these positions to the output.
    fn copy(&mut self, places: &[Place]);

    /// Appends the values at these positions in one chunk to the output.
    fn copy_of_chunk(&mut self, chunk: usize, places: &[u32], store: Store);

    /// Appends values from a chunk and the next chunk to the output. Positions are counted from the
    /// start of the first chunk.
    fn copy_of_two(&mut self, chunk: usize, places: &[u32]);
}

/// The distribution of rows across chunks.
enum Spread {
    /// All rows are in this chunk.
    One(usize),
    /// All rows are in this chunk or the next one, and are close together.
    Two(usize),
    /// The rows are in more than two chunks or far apart, or at least one row is missing.
    Wide,
}

pub(super) struct Chunks<'a, T> {
    pub(super) chunks: Vec<&'a [T]>,
    /// The part of the output that has not been written yet.
    pub(super) out: &'a mut [Slot<T>],
}

impl<T: Value + AnyBitPattern + NoUninit + Default> ChunkedColumn for Chunks<'_, T> {
    fn ask(&self, places: &[Place]) {
        for &(chunk, place) in places {
            if let Some(chunk) = self.chunks.get(chunk) {
                prefetch(chunk, place);
            }
        }
    }

    fn copy(&mut self, places: &[Place]) {
        let (out, rest) = std::mem::take(&mut self.out).split_at_mut(places.len());
        for (out, &(chunk, place)) in out.iter_mut().zip(places) {
            out.set(self.chunks.get(chunk).map_or_else(T::default, |chunk| chunk[place]));
        }
        self.out = rest;
    }

    fn copy_of_chunk(&mut self, chunk: usize, places: &[u32], store: Store) {
        let (out, rest) = std::mem::take(&mut self.out).split_at_mut(places.len());
        gather(self.chunks[chunk], places, out, store);
        self.out = rest;
    }

    fn copy_of_two(&mut self, chunk: usize, places: &[u32]) {
        let (out, rest) = std::mem::take(&mut self.out).split_at_mut(places.len());
        let (one, other) = (self.chunks[chunk], self.chunks[chunk + 1]);
        for (out, &place) in out.iter_mut().zip(places) {
            // This avoids a branch on the chunk, which would be unpredictable.
            let place = place as usize;
            let is_other = place >= one.len();
            let values = select_unpredictable(is_other, other, one);
            out.set(values[place - select_unpredictable(is_other, one.len(), 0)]);
        }
        self.out = rest;
    }
}

/// For several columns of one table, writes the values of the same rows. Rows whose number is
/// [`NO_ROW`] get zeros.
pub(super) fn gather_columns(
    columns: Vec<(&Column, &mut [Slot<u8>])>,
    rows: &[u32],
    optional: bool,
    store: Store,
) {
    let Some(starts) = columns.first().map(|(column, _)| &column.starts) else { return };
    debug_assert!(
        columns.iter().all(|(column, _)| column.starts == *starts),
        "columns of a table are cut alike"
    );
    if starts.len() == 2 {
        return columns
            .into_iter()
            .for_each(|(column, out)| column.gather_values(rows, optional, out, store));
    }
    let finder = ChunkFinder::new(starts);
    let mut columns: Vec<_> =
        columns.into_iter().map(|(column, out)| column.chunked(out)).collect();
    let mut places = [0; BLOCK];
    for rows in rows.chunks(BLOCK) {
        let places = &mut places[..rows.len()];
        let mut count_from = |start: u32| {
            places.iter_mut().zip(rows).for_each(|(place, row)| *place = row - start);
        };
        match finder.spread(rows) {
            Spread::One(chunk) => {
                count_from(starts[chunk]);
                columns.iter_mut().for_each(|column| column.copy_of_chunk(chunk, places, store));
            }
            Spread::Two(chunk) => {
                count_from(starts[chunk]);
                columns.iter_mut().for_each(|column| column.copy_of_two(chunk, places));
            }
            Spread::Wide => gather_scattered(&finder, &mut columns, rows),
        }
    }
}

/// Writes the values of rows from several chunks.
fn gather_scattered(
    finder: &ChunkFinder<'_>,
    columns: &mut [Box<dyn ChunkedColumn + '_>],
    rows: &[u32],
) {
    // All columns share the positions of rows. The positions are determined in advance so that
    // values are loaded from memory in the meantime.
    let mut groups = [[NO_PLACE; GROUP]; UNDER_WAY];
    let count = rows.len().div_ceil(GROUP);
    let group = |nth: usize| &rows[nth * GROUP..rows.len().min((nth + 1) * GROUP)];
    for step in 0..count + UNDER_WAY - 1 {
        if step < count {
            let (rows, places) = (group(step), &mut groups[step % UNDER_WAY]);
            for (place, &row) in places.iter_mut().zip(rows) {
                *place = if row == NO_ROW { NO_PLACE } else { finder.find(row) };
            }
            columns.iter().for_each(|column| column.ask(&places[..rows.len()]));
        }
        if let Some(nth) = step.checked_sub(UNDER_WAY - 1) {
            let places = &groups[nth % UNDER_WAY][..group(nth).len()];
            columns.iter_mut().for_each(|column| column.copy(places));
        }
    }
}

/// Finds the chunk that contains a row. Rows are divided into blocks, and only a few blocks contain
/// the end of a chunk. Therefore, the branch on a row's position is rarely mispredicted, whatever
/// the order of the rows.
pub(super) struct ChunkFinder<'a> {
    starts: &'a [u32],
    /// The chunk that contains the first row in each block, followed by the chunk that contains the
    /// last row.
    chunk_of: Vec<u32>,
    /// The base-2 logarithm of the number of rows per block.
    shift: u32,
}

impl<'a> ChunkFinder<'a> {
    pub(super) fn new(starts: &'a [u32]) -> Self {
        let (chunks, rows) = (starts.len() - 1, starts[starts.len() - 1]);
        let Some(last) = rows.checked_sub(1) else {
            return ChunkFinder { starts, chunk_of: Vec::new(), shift: 0 };
        };
        // Use several blocks per chunk.
        let shift = (rows / chunks as u32 / 8).checked_ilog2().unwrap_or(0);
        let mut chunk = 0;
        let mut chunk_at = |row: u32| {
            while starts[chunk + 1] <= row {
                chunk += 1;
            }
            chunk as u32
        };
        let firsts = (0..=last >> shift).map(|block| block << shift);
        let chunk_of = firsts.chain([last]).map(&mut chunk_at).collect();
        ChunkFinder { starts, chunk_of, shift }
    }

    /// Returns how the given rows are distributed across chunks.
    fn spread(&self, rows: &[u32]) -> Spread {
        let last = self.starts[self.starts.len() - 1];
        let (low, high) =
            rows.iter().fold((u32::MAX, 0), |(low, high), &row| (low.min(row), high.max(row)));
        if high >= last {
            return Spread::Wide;
        }
        let (chunk, _) = self.find(low);
        match high {
            _ if high < self.starts[chunk + 1] => Spread::One(chunk),
            _ if high < self.starts[chunk + 2] && high - low < NEAR => Spread::Two(chunk),
            _ => Spread::Wide,
        }
    }

    #[inline]
    pub(super) fn find(&self, row: u32) -> (usize, usize) {
        let block = (row >> self.shift) as usize;
        let (first, last) = (self.chunk_of[block] as usize, self.chunk_of[block + 1] as usize);
        let chunk = match first == last {
            true => first,
            false => first + self.starts[first + 1..=last].partition_point(|&start| start <= row),
        };
        (chunk, (row - self.starts[chunk]) as usize)
    }
}
