//! The bucket index: the block of a key is computed.

mod block;
mod directory;

use std::fmt;

use block::Block;
use directory::{Directory, Margins};

use super::{BPlusTree, Entry, Probe, WindowIndex, is_live};
use crate::gather::prefetch;
use crate::pages::Pages;

/// Rows or probes whose blocks are asked for together: as many as a core waits for at a time, and some more.
const GROUP: usize = 32;

/// Rows below which nothing is gained by making the directory anew.
const SMALL: usize = 64;

/// Rows in value order in blocks of two cache lines, whose places are computed from the keys.
///
/// ```text
///             key ── directory: cell, place in it ──▶ block
///                                                      │
///   blocks    │ 1 3 3 2 . │ 5 4 4 . . │ 8 7 6 7 8 │ 9 9 . . . │   in value order, rows within one in none
///                                                 └─▶ B+-tree    for those that find their block full
/// ```
///
/// No row is removed: one that has left is told by its number, and makes room when its block is full. What finds no room
/// goes into a B+-tree. When that has grown, or the window has, the directory is made anew for the rows there are, which
/// costs as much as a merge of a PIM-Tree; so the distribution of keys may be skewed, and may move.
pub struct BucketIndex {
    directory: Directory,
    blocks: Pages<Block>,
    spilled: BPlusTree,
    /// How many rows had spilled when the directory was made.
    spilled_at_first: usize,
    /// How many of the rows that spilled since were beyond all cells.
    beyond: (usize, usize),
    margins: Margins,
    /// For how many rows the directory was made.
    made_for: usize,
    /// The oldest row's number, or one before it.
    first: u32,
    len: usize,
    /// The rows while the directory is made, and their keys.
    rows: Vec<Entry>,
    keys: Vec<i64>,
}

impl fmt::Debug for BucketIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BucketIndex")
            .field("len", &self.len)
            .field("blocks", &self.blocks.len())
            .finish_non_exhaustive()
    }
}

impl Default for BucketIndex {
    fn default() -> Self {
        Self::new()
    }
}

impl BucketIndex {
    /// An index without rows.
    pub fn new() -> Self {
        let mut index = BucketIndex {
            directory: Directory::default(),
            blocks: Pages::new(0),
            spilled: BPlusTree::new(),
            spilled_at_first: 0,
            beyond: (0, 0),
            margins: Margins::default(),
            made_for: 0,
            first: 0,
            len: 0,
            rows: Vec::new(),
            keys: Vec::new(),
        };
        index.make();
        index
    }

    /// Makes the directory anew, for the rows there are.
    #[cold]
    fn make(&mut self) {
        self.collect();
        let (spilled, (below, above)) = (self.spilled.len(), self.beyond);
        self.margins.below = margin(self.margins.below, below, spilled);
        self.margins.above = margin(self.margins.above, above, spilled);
        self.keys.clear();
        self.keys.extend(self.rows.iter().map(|row| row.key));
        self.directory = Directory::new(&self.keys, self.margins);
        self.blocks = Pages::new(self.directory.blocks());
        self.blocks.iter_mut().for_each(Block::reset);
        self.spilled.clear();
        for at in 0..self.rows.len() {
            let row = self.rows[at];
            self.put(self.directory.block(row.key, row.row), row);
        }
        (self.spilled_at_first, self.beyond, self.made_for) = (self.spilled.len(), (0, 0), self.len);
    }

    /// Brings the rows into key order.
    fn collect(&mut self) {
        let (rows, first) = (&mut self.rows, self.first);
        rows.clear();
        // Blocks are in value order, but for those that share the rows of a key and have got others since.
        for block in self.blocks.iter() {
            let from = rows.len();
            let live = block.rows().filter(|&(_, row)| is_live(row, first));
            rows.extend(live.map(|(key, row)| Entry { key, row }));
            rows[from..].sort_unstable_by_key(|row| row.key);
        }
        self.spilled.for_each(|key, row| {
            if is_live(row, first) {
                rows.push(Entry { key, row });
            }
        });
        // Few runs that are in order, which a stable sort merges.
        if !rows.is_sorted_by_key(|row| row.key) {
            rows.sort_by_key(|row| row.key);
        }
        debug_assert_eq!(rows.len(), self.len, "every row is in a block or in the tree");
    }

    /// Puts a row into a block, or into the tree if that is full.
    #[inline]
    fn put(&mut self, block: usize, row: Entry) {
        if !self.blocks[block].insert(row.key, row.row, self.first) {
            self.spill(row);
        }
    }

    #[cold]
    fn spill(&mut self, row: Entry) {
        let (below, above) = self.directory.is_beyond(row.key);
        self.beyond.0 += usize::from(below);
        self.beyond.1 += usize::from(above);
        self.spilled.insert(row.key, row.row);
    }

    /// Whether a directory for the rows there are now would serve better.
    #[inline]
    fn is_outgrown(&self) -> bool {
        self.spilled.len() > self.spilled_at_first + SMALL + self.made_for / 16 || self.len > SMALL + 2 * self.made_for
    }

    #[inline]
    fn find_in(&self, (first, last): (usize, usize), probe: &Probe, found: &mut Vec<u32>) {
        let mut has_spilled = false;
        for block in self.blocks.get(first..=last).unwrap_or_default() {
            block.find(probe, found);
            has_spilled |= block.has_spilled();
        }
        if has_spilled {
            self.spilled.find(probe, found);
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,popcnt")]
    #[inline]
    fn find_in_avx512(&self, (first, last): (usize, usize), probe: &Probe, found: &mut Vec<u32>) {
        let mut has_spilled = false;
        for block in self.blocks.get(first..=last).unwrap_or_default() {
            block.find_avx512(probe, found);
            has_spilled |= block.has_spilled();
        }
        if has_spilled {
            self.spilled.find(probe, found);
        }
    }

    /// Finds what each probe takes: asks for the blocks of all, then looks into them.
    #[inline(always)]
    fn find_group(
        &self,
        probes: &[Probe],
        found: &mut Vec<u32>,
        ends: &mut Vec<u32>,
        find: impl Fn((usize, usize), &Probe, &mut Vec<u32>),
    ) {
        for probes in probes.chunks(GROUP) {
            let mut ranges = [(0, 0); GROUP];
            for (range, probe) in ranges.iter_mut().zip(probes) {
                *range = self.directory.range(probe.low, probe.high.max(probe.low));
                self.prefetch(range.0);
                self.prefetch(range.1);
            }
            for (range, probe) in ranges.iter().zip(probes) {
                find(*range, probe, found);
                ends.push(found.len() as u32);
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,popcnt")]
    fn find_all_avx512(&self, probes: &[Probe], found: &mut Vec<u32>, ends: &mut Vec<u32>) {
        self.find_group(probes, found, ends, |range, probe, found| self.find_in_avx512(range, probe, found));
    }

    #[inline]
    fn prefetch(&self, block: usize) {
        let lines: &[[u8; 64]] = bytemuck::cast_slice(&self.blocks);
        prefetch(lines, 2 * block);
        prefetch(lines, 2 * block + 1);
    }
}

/// How far beyond the keys the next directory goes on one side, if so many of the rows that spilled were there.
fn margin(before: u32, beyond: usize, spilled: usize) -> u32 {
    if beyond * 4 > spilled && beyond > 0 { (2 * before).clamp(1, 8) } else { (before / 2).max(1) }
}

impl WindowIndex for BucketIndex {
    fn insert(&mut self, key: i64, row: u32) {
        self.insert_all(&[Entry { key, row }]);
    }

    fn remove(&mut self, _key: i64, row: u32) {
        self.first = row.wrapping_add(1);
        self.len -= 1;
    }

    fn remove_all(&mut self, rows: &[Entry]) {
        if let Some(last) = rows.last() {
            self.first = last.row.wrapping_add(1);
            self.len -= rows.len();
        }
    }

    fn find(&self, probe: &Probe, found: &mut Vec<u32>) {
        self.find_in(self.directory.range(probe.low, probe.high.max(probe.low)), probe, found);
    }

    fn len(&self) -> usize {
        self.len
    }

    fn memory(&self) -> usize {
        let of_rows = self.rows.capacity() * size_of::<Entry>() + self.keys.capacity() * size_of::<i64>();
        size_of_val(&*self.blocks) + self.directory.memory() + self.spilled.memory() + of_rows
    }

    fn clear(&mut self) {
        *self = Self::new();
    }

    fn insert_all(&mut self, rows: &[Entry]) {
        for rows in rows.chunks(GROUP) {
            if self.len == 0 {
                self.first = rows[0].row;
            }
            let mut blocks = [0; GROUP];
            for (block, row) in blocks.iter_mut().zip(rows) {
                *block = self.directory.block(row.key, row.row);
                self.prefetch(*block);
            }
            for (&block, &row) in blocks.iter().zip(rows) {
                self.put(block, row);
            }
            self.len += rows.len();
            if self.is_outgrown() {
                self.make();
            }
        }
    }

    fn find_all(&self, probes: &[Probe], found: &mut Vec<u32>, ends: &mut Vec<u32>) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("popcnt") {
            // SAFETY: the processor has the instructions.
            return unsafe { self.find_all_avx512(probes, found, ends) };
        }
        self.find_group(probes, found, ends, |range, probe, found| self.find_in(range, probe, found));
    }
}
