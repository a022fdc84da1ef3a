//! Represents a column by bitmaps of its rows. The values are divided into a few buckets, and each
//! bucket has one bitmap.
//!
//! A bitmap contains the rows of all buckets before its own. To find the rows in a range of
//! buckets, it is therefore enough to subtract one bitmap from another, however wide the range is.
//! Four loads are enough to test 64 rows of two columns. This is the range encoding from Chan and
//! Ioannidis, "Bitmap Index Design and Evaluation" (SIGMOD 1998), applied to blocks of rows. The
//! bitmaps that are needed for a group of ranges therefore stay in the second-level cache. The
//! bitmaps are on huge pages, because each test reads different ones.

use std::ops::Range;

use super::scan::Span;
use super::wide::{Work, wide};
use crate::memory::gather::prefetch;
use crate::memory::pages::Pages;

/// The number of buckets in a column.
pub const BUCKETS: usize = 128;

/// The number of rows whose bitmaps are stored together.
pub const BLOCK_ROWS: usize = 64 * BLOCK_WORDS;
const BLOCK_WORDS: usize = if cfg!(test) { 2 * TILE } else { 32 * TILE };

/// The number of words in a block. The constant below is the number of blocks in a huge page.
const BLOCK: usize = BUCKETS * BLOCK_WORDS;
const SEGMENT: usize = if cfg!(test) { 2 } else { 8 };

/// The number of words that are tested between two branches.
const TILE: usize = 8;
const TILE_ROWS: usize = 64 * TILE;

/// The number of cache lines that are prefetched per bitmap.
const ANNOUNCED: usize = 4;

/// The rows in a block that are in earlier buckets.
type Bitmap = [u64; BLOCK_WORDS];

/// The bitmap after the last bucket. This bitmap contains all rows, including those that do not
/// exist yet.
static ALL: Bitmap = [!0; BLOCK_WORDS];

/// The bitmaps of a column.
#[derive(Debug, Default)]
pub struct Bitmaps {
    rows: usize,
    /// One bitmap per bucket, block by block. Zeros follow the bitmaps of the last block.
    segments: Vec<Pages<u64>>,
}

/// Returns a block's segment, and the block's position in that segment.
#[inline]
fn place(block: usize) -> (usize, usize) {
    (block / SEGMENT, block % SEGMENT * BLOCK)
}

impl Bitmaps {
    /// Appends rows, given their buckets.
    ///
    /// # Panics
    ///
    /// Panics if a bucket number is not below [`BUCKETS`].
    pub fn extend(&mut self, buckets: impl Iterator<Item = u8>) {
        let mut of_tile = [[0; TILE]; BUCKETS];
        for bucket in buckets {
            if self.rows.is_multiple_of(BLOCK_ROWS) {
                self.add_block();
            }
            of_tile[usize::from(bucket)][self.rows / 64 % TILE] |= 1 << (self.rows % 64);
            self.rows += 1;
            if self.rows.is_multiple_of(TILE_ROWS) {
                self.add(self.rows / TILE_ROWS - 1, &mut of_tile);
            }
        }
        if !self.rows.is_multiple_of(TILE_ROWS) {
            self.add(self.rows / TILE_ROWS, &mut of_tile);
        }
    }

    /// Creates a block for future rows.
    fn add_block(&mut self) {
        let (segment, start) = place(self.rows / BLOCK_ROWS);
        let end = start + BLOCK;
        if segment == self.segments.len() {
            // A few rows use little memory, and many rows do not need to be copied.
            self.segments
                .push(Pages::filled(if segment == 0 { BLOCK } else { SEGMENT * BLOCK }, 0));
        }
        let words = &mut self.segments[segment];
        if end > words.len() {
            let mut more = Pages::filled(2 * start, 0);
            more[..start].copy_from_slice(words);
            *words = more;
        }
    }

    /// Appends the rows in a tile, given bucket by bucket, and clears the tile. Whole cache lines
    /// are written, because each bucket is in a different cache line.
    fn add(&mut self, tile: usize, of_tile: &mut [[u64; TILE]; BUCKETS]) {
        let (segment, start) = place(tile * TILE / BLOCK_WORDS);
        let at = tile * TILE % BLOCK_WORDS;
        let bitmaps = self.segments[segment][start..].chunks_exact_mut(BLOCK_WORDS);
        let mut before = [0; TILE];
        for (bitmap, rows) in bitmaps.zip(of_tile) {
            let words = bitmap[at..at + TILE].iter_mut().zip(&mut before).zip(rows);
            for ((word, before), rows) in words {
                *word |= *before;
                *before |= std::mem::take(rows);
            }
        }
    }

    /// Returns a bucket's bitmap in a block.
    #[inline]
    fn bitmap(&self, block: usize, bucket: usize) -> &Bitmap {
        if bucket == BUCKETS {
            return &ALL;
        }
        let (segment, start) = place(block);
        let words = &self.segments[segment][start + bucket * BLOCK_WORDS..];
        words.first_chunk().expect("the bitmaps of a block are complete")
    }

    /// Returns the number of bytes in use.
    pub fn memory(&self) -> usize {
        self.segments.iter().map(|words| words.len()).sum::<usize>() * size_of::<u64>()
    }

    /// Prefetches the data that [`scan`](Self::scan) reads first. The processor prefetches the rest
    /// once it recognizes the access pattern.
    pub fn announce(&self, span: Span<u8>, run: &Range<usize>) {
        let (block, first) = (run.start / BLOCK_ROWS, run.start % BLOCK_ROWS / 64);
        for bucket in [usize::from(span.low), usize::from(span.low) + usize::from(span.width) + 1] {
            let bitmap = self.bitmap(block, bucket);
            (0..ANNOUNCED).for_each(|line| prefetch(bitmap, first + line * 8));
        }
    }

    /// Appends the rows of `run` whose buckets are in the given range to `found`, in ascending
    /// order.
    pub fn scan(&self, span: Span<u8>, run: Range<usize>, found: &mut Vec<u32>) {
        wide(Find::<false> { columns: [self, self], spans: [span, span], run, found });
    }

    /// Like [`scan`](Self::scan), but the buckets of both columns must be in range.
    ///
    /// # Panics
    ///
    /// Panics if the columns differ in length.
    pub fn scan_two(
        &self,
        second: &Self,
        spans: [Span<u8>; 2],
        run: Range<usize>,
        found: &mut Vec<u32>,
    ) {
        assert_eq!(self.rows, second.rows, "both columns have the same length");
        wide(Find::<true> { columns: [self, second], spans, run, found });
    }
}

/// A search in one or two columns, within a run of rows.
struct Find<'a, const TWO: bool> {
    columns: [&'a Bitmaps; 2],
    spans: [Span<u8>; 2],
    run: Range<usize>,
    found: &'a mut Vec<u32>,
}

impl<const TWO: bool> Work for Find<'_, TWO> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let mut start = self.run.start;
        while start < self.run.end {
            let block = start / BLOCK_ROWS;
            let end = self.run.end.min((block + 1) * BLOCK_ROWS);
            find::<TWO>(self.columns, self.spans, block, start..end, self.found);
            start = end;
        }
    }
}

/// Searches a run within a block.
#[inline(always)]
fn find<const TWO: bool>(
    columns: [&Bitmaps; 2],
    spans: [Span<u8>; 2],
    block: usize,
    run: Range<usize>,
    found: &mut Vec<u32>,
) {
    // Whole tiles are searched. Rows outside the run are skipped when the rows are listed.
    let first = run.start % BLOCK_ROWS / TILE_ROWS;
    let last = (run.end - block * BLOCK_ROWS).div_ceil(TILE_ROWS);
    let tiles = |nth: usize, bucket: usize| {
        &columns[nth].bitmap(block, bucket).as_chunks::<TILE>().0[first..last]
    };
    let ends = spans
        .map(|span| (usize::from(span.low), usize::from(span.low) + usize::from(span.width) + 1));
    let [(a_before, a_upto), (b_before, b_upto)] =
        [0, 1].map(|nth| (tiles(nth, ends[nth].0), tiles(nth, ends[nth].1)));
    let count = last - first;
    assert!(
        [a_before, a_upto, b_before, b_upto].iter().all(|tiles| tiles.len() == count),
        "the ranges below are in bounds"
    );
    for tile in 0..count {
        let mut rows = [0; TILE];
        let mut any = 0;
        for word in 0..TILE {
            let of_a = a_upto[tile][word] & !a_before[tile][word];
            let of_b = if TWO { b_upto[tile][word] & !b_before[tile][word] } else { !0 };
            rows[word] = of_a & of_b;
            any |= rows[word];
        }
        if any != 0 {
            list(&rows, block * BLOCK_ROWS + (first + tile) * TILE_ROWS, &run, found);
        }
    }
}

/// Appends the rows in a tile that are in the run.
// This is a separate function, so that the loop can use all registers.
#[inline(never)]
fn list(rows: &[u64; TILE], base: usize, run: &Range<usize>, found: &mut Vec<u32>) {
    for (word, &rows) in rows.iter().enumerate() {
        let mut left = rows;
        while left != 0 {
            let row = base + word * 64 + left.trailing_zeros() as usize;
            if run.contains(&row) {
                found.push(row as u32);
            }
            left &= left - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bitmaps(buckets: &[u8], cuts: &[usize]) -> Bitmaps {
        let mut bitmaps = Bitmaps::default();
        let mut rest = buckets;
        for &cut in cuts {
            let (head, tail) = rest.split_at(cut.min(rest.len()));
            bitmaps.extend(head.iter().copied());
            rest = tail;
        }
        bitmaps.extend(rest.iter().copied());
        bitmaps
    }

    proptest! {
        #[test]
        fn oracle_every_row(
            buckets in prop::collection::vec((0..BUCKETS as u8, 0..BUCKETS as u8), 1..4 * BLOCK_ROWS),
            cuts in prop::collection::vec(0_usize..300, 0..9),
            low in prop::array::uniform2(0..BUCKETS as u8),
            width in prop::array::uniform2(0..BUCKETS as u8),
            ends in prop::array::uniform2(0_usize..4 * BLOCK_ROWS),
        ) {
            let (a, b): (Vec<u8>, Vec<u8>) = buckets.iter().copied().unzip();
            let spans: [Span<u8>; 2] = std::array::from_fn(|nth| Span {
                low: low[nth],
                width: width[nth].min(BUCKETS as u8 - 1 - low[nth]),
            });
            let [from, to] = ends.map(|end| end.min(a.len()));
            let run = from.min(to)..from.max(to);
            let inside = |bucket: u8, span: Span<u8>| (span.low..=span.low + span.width).contains(&bucket);
            let of = |two: bool| -> Vec<u32> {
                let rows = run.clone().filter(|&row| inside(a[row], spans[0]) && (!two || inside(b[row], spans[1])));
                rows.map(|row| row as u32).collect()
            };
            let (first, second) = (bitmaps(&a, &cuts), bitmaps(&b, &[]));
            let mut found = vec![7];
            first.scan_two(&second, spans, run.clone(), &mut found);
            prop_assert_eq!(&found[1..], of(true));
            prop_assert_eq!(found[0], 7);
            found.clear();
            first.scan(spans[0], run.clone(), &mut found);
            prop_assert_eq!(found, of(false));
        }
    }

    #[test]
    fn rows_added_after_none_and_by_words_are_found() {
        let mut bitmaps = Bitmaps::default();
        bitmaps.extend(std::iter::empty());
        assert_eq!(bitmaps.memory(), 0);
        bitmaps.extend([0; 64].into_iter());
        bitmaps.extend([BUCKETS as u8 - 1].into_iter());
        let mut found = Vec::new();
        bitmaps.scan(Span { low: BUCKETS as u8 - 1, width: 0 }, 0..65, &mut found);
        assert_eq!(found, [64]);
    }
}
