//! The bucket index: the block of a key is computed.

mod block;
mod directory;

use std::fmt;

#[cfg(target_arch = "x86_64")]
use block::Avx512;
use block::{Block, Kernel, Portable};
use directory::{Blocks, Directory, Margins};

use super::{BPlusTree, Entry, Probe, WindowIndex, is_live};
use crate::gather::prefetch;
use crate::pages::Pages;

/// Rows or probes whose blocks are asked for together, while those asked for before are looked into: as many as a core waits
/// for at a time, and some more.
const GROUP: usize = 32;

/// Rows that enter before it is asked whether the directory still serves.
const TOGETHER: usize = 8 * GROUP;

/// Rows below which nothing is gained by making the directory anew.
const SMALL: usize = 64;

/// About what spilled rows cost, and what it costs to make the directory anew, in nanoseconds: a row that enters the tree, a
/// probe that has to look into it, and a row of the new directory.
const SPILL_NS: usize = 100;
const LOOK_NS: usize = 60;
const MAKE_NS: usize = 25;

/// Rows in value order in blocks of a cache line, whose places are computed from the keys.
///
/// ```text
///             key ── directory: cell, place in it ──▶ block
///                                                      │
///   blocks    │ 1 3 3 2 . │ 5 4 4 . . │ 8 7 6 7 8 │ 9 9 . . . │   in value order, rows within one in none
///                                           └─▶ │ 8 7 . . . │     one more for those that find theirs full
///                                                 └─▶ B+-tree     for those that find that one full, too
/// ```
///
/// No row is removed: one that has left is told by its number, and its place taken by another. A block has codes for keys;
/// those that one code stands for are told apart by the keys themselves, which are kept by number. When many rows have
/// spilled into the tree, or the window has grown, the directory is made anew for the rows there are, which costs as much as
/// a merge of a PIM-Tree; so the distribution of keys may be skewed, and may move.
pub struct BucketIndex {
    directory: Directory,
    /// Those of the directory, the first one being nobody's, then those for rows that find theirs full.
    blocks: Pages<Block>,
    /// Blocks for such rows that are not in use.
    free: Vec<u32>,
    spilled: BPlusTree,
    /// Blocks whose rows have spilled.
    full_blocks: usize,
    /// What spilled rows have cost since the directory was made, in nanoseconds times blocks.
    cost: usize,
    /// How many of the rows that spilled since were beyond all cells.
    beyond: (usize, usize),
    margins: Margins,
    /// For how many rows the directory was made.
    made_for: usize,
    /// The keys of rows by number, modulo a power of two.
    keys: Vec<i64>,
    /// The oldest row's number, or one before it.
    first: u32,
    len: usize,
    /// The rows while the directory is made, and their keys.
    rows: Vec<Entry>,
    sorted: Vec<i64>,
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
            free: Vec::new(),
            spilled: BPlusTree::new(),
            full_blocks: 0,
            cost: 0,
            beyond: (0, 0),
            margins: Margins::default(),
            made_for: 0,
            keys: vec![0; SMALL],
            first: 0,
            len: 0,
            rows: Vec::new(),
            sorted: Vec::new(),
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
        self.sorted.clear();
        self.sorted.extend(self.rows.iter().map(|row| row.key));
        self.directory = Directory::new(&self.sorted, self.margins);
        let of_directory = 1 + self.directory.blocks();
        self.blocks = Pages::new(of_directory + of_directory.div_ceil(8));
        self.blocks.iter_mut().for_each(Block::reset);
        self.free.clear();
        self.free.extend((of_directory as u32..self.blocks.len() as u32).rev());
        self.spilled.clear();
        (self.full_blocks, self.cost, self.beyond, self.made_for) = (0, 0, (0, 0), self.len);
        let rows = std::mem::take(&mut self.rows);
        self.put(&rows);
        self.rows = rows;
        self.cost = 0;
    }

    /// Brings the rows into key order.
    fn collect(&mut self) {
        let (rows, first) = (&mut self.rows, self.first);
        rows.clear();
        // Blocks are in value order, but for those that share the rows of a key and have got others since.
        let blocks: &[Block] = &self.blocks;
        let mask = self.keys.len() - 1;
        for block in blocks.iter().take(1 + self.directory.blocks()).skip(1) {
            let from = rows.len();
            let more = if block.next == 0 { &[] } else { blocks[block.next as usize].rows() };
            let live = block.rows().iter().chain(more).filter(|&&row| is_live(row, first));
            rows.extend(live.map(|&row| Entry { key: self.keys[row as usize & mask], row }));
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

    /// Puts rows into blocks, or into the tree if these are full.
    fn put(&mut self, rows: &[Entry]) {
        #[cfg(target_arch = "x86_64")]
        if has_avx512() {
            // SAFETY: the processor has the instructions.
            return unsafe { self.put_avx512(rows) };
        }
        self.put_groups::<Portable>(rows);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512vl,popcnt")]
    fn put_avx512(&mut self, rows: &[Entry]) {
        self.put_groups::<Avx512>(rows);
    }

    /// Puts each row into its block, while those of the next rows are on their way.
    #[inline(always)]
    fn put_groups<K: Kernel>(&mut self, rows: &[Entry]) {
        let (mut some, mut rest) = rows.split_at(GROUP.min(rows.len()));
        let mut memory = [[(0, 0); GROUP]; 2];
        let [places, ahead] = &mut memory;
        let (mut places, mut ahead) = (places, ahead);
        self.ask(some, places);
        while !some.is_empty() {
            let (next, others) = rest.split_at(GROUP.min(rest.len()));
            self.ask(next, ahead);
            let mut left = 0_u32;
            for (nth, (&(at, code), row)) in places.iter().zip(some).enumerate() {
                let block = &mut self.blocks[at];
                let live = K::live(block, self.first);
                let is_here = block.put(live, code, row.row) && block.next == 0;
                left |= u32::from(!is_here) << nth;
            }
            while left != 0 {
                let nth = left.trailing_zeros() as usize;
                self.put_more::<K>(places[nth], some[nth]);
                left &= left - 1;
            }
            (some, rest) = (next, others);
            std::mem::swap(&mut places, &mut ahead);
        }
    }

    /// Asks for the blocks of rows, and notes where they are, with the codes of the rows there.
    #[inline(always)]
    fn ask(&self, rows: &[Entry], places: &mut [(usize, u32); GROUP]) {
        let blocks: &[Block] = &self.blocks;
        for (place, row) in places.iter_mut().zip(rows) {
            let (block, code) = self.directory.block(row.key, row.row);
            *place = (1 + block, code);
            prefetch(blocks, place.0);
        }
    }

    /// Puts a row that has found its block full into the next one or into the tree. If it was put into its block, looks
    /// whether the next one is still of use.
    #[inline(never)]
    fn put_more<K: Kernel>(&mut self, (at, code): (usize, u32), row: Entry) {
        let mut next = self.blocks[at].next as usize;
        if self.blocks[at].rows().contains(&row.row) {
            if next != 0 && K::live(&self.blocks[next], self.first) == 0 {
                self.blocks[at].next = 0;
                self.free.push(next as u32);
            }
            return;
        }
        if next == 0 {
            let Some(free) = self.free.pop() else { return self.spill(at, row) };
            next = free as usize;
            self.blocks[at].next = free;
            self.blocks[next].reset();
        }
        let block = &mut self.blocks[next];
        let live = K::live(block, self.first);
        if !block.put(live, code, row.row) {
            self.spill(at, row);
        }
    }

    /// Puts a row for which no block has room into the tree.
    #[cold]
    fn spill(&mut self, at: usize, row: Entry) {
        let (below, above) = self.directory.is_beyond(row.key);
        self.beyond.0 += usize::from(below);
        self.beyond.1 += usize::from(above);
        self.cost += SPILL_NS * self.blocks.len();
        self.full_blocks += usize::from(std::mem::replace(&mut self.blocks[at].has_spilled, 1) == 0);
        self.spilled.insert(row.key, row.row);
    }

    /// Keeps the keys of new rows by number.
    fn keep_keys(&mut self, rows: &[Entry]) {
        let Some(last) = rows.last() else { return };
        let there = last.row.wrapping_sub(self.first) as usize + 1;
        if there > self.keys.len() {
            self.resize_keys(there);
        }
        let mask = self.keys.len() - 1;
        rows.iter().for_each(|row| self.keys[row.row as usize & mask] = row.key);
    }

    #[cold]
    fn resize_keys(&mut self, rows: usize) {
        let mut keys = vec![0; rows.next_power_of_two()];
        let (from, to) = (self.keys.len() - 1, keys.len() - 1);
        for nth in 0..self.keys.len() {
            let row = self.first.wrapping_add(nth as u32) as usize;
            keys[row & to] = self.keys[row & from];
        }
        self.keys = keys;
    }

    /// Whether a directory for the rows there are now would serve better: spilled rows have cost as much as it will, or
    /// the window has doubled.
    #[inline]
    fn is_outgrown(&self) -> bool {
        self.cost > MAKE_NS * (SMALL + self.made_for) * self.blocks.len() || self.len > SMALL + 2 * self.made_for
    }

    /// Adds what the probe takes of its blocks, and says whether others have spilled.
    #[inline(always)]
    fn find_one<K: Kernel>(&self, blocks: &[Block], range: &Blocks, probe: &Probe, found: &mut Vec<u32>) -> bool {
        let (first, last) = (&blocks[1 + range.first], &blocks[1 + range.last]);
        let is_usual = range.last - range.first <= 1 && first.next | last.next == 0 && probe.low <= probe.high;
        if !is_usual {
            return probe.low <= probe.high && self.find_many::<K>(blocks, range, probe, found);
        }
        // Two blocks are looked at even where they are one, since how many they are cannot be predicted.
        let (mut bits, ends) = K::matching(first, range.reach(range.first), probe);
        let (mut more, more_ends) = K::matching(last, range.reach(range.last), probe);
        if range.is_vague && ends | more_ends != 0 {
            bits ^= self.wrong(first, ends, probe);
            more ^= self.wrong(last, more_ends, probe);
        }
        let are_two = u8::from(range.first != range.last).wrapping_neg();
        K::append(first, bits, found);
        K::append(last, more & are_two, found);
        first.has_spilled | last.has_spilled != 0
    }

    /// The same where there are more blocks than two.
    #[inline(always)]
    fn find_many<K: Kernel>(&self, blocks: &[Block], range: &Blocks, probe: &Probe, found: &mut Vec<u32>) -> bool {
        let mut has_spilled = false;
        for at in range.first..=range.last {
            let mut block = &blocks[1 + at];
            has_spilled |= block.has_spilled != 0;
            loop {
                let (mut bits, ends) = K::matching(block, range.reach(at), probe);
                if range.is_vague && ends != 0 {
                    bits ^= self.wrong(block, ends, probe);
                }
                K::append(block, bits, found);
                if block.next == 0 {
                    break;
                }
                block = &blocks[block.next as usize];
            }
        }
        has_spilled
    }

    /// Which of the rows with a bit have keys that the probe does not take.
    #[inline(never)]
    fn wrong(&self, block: &Block, mut bits: u8, probe: &Probe) -> u8 {
        let mut wrong = 0;
        while bits != 0 {
            let key = self.keys[block.row_of(bits) as usize & (self.keys.len() - 1)];
            let bit = bits & bits.wrapping_neg();
            wrong |= if (probe.low..=probe.high).contains(&key) { 0 } else { bit };
            bits ^= bit;
        }
        wrong
    }

    /// Finds what each probe takes, while the blocks of the next probes are on their way.
    #[inline(always)]
    fn find_groups<K: Kernel>(&self, probes: &[Probe], found: &mut Vec<u32>, ends: &mut Vec<u32>) {
        let blocks: &[Block] = &self.blocks;
        let ask = |probes: &[Probe], ranges: &mut [Blocks; GROUP]| {
            for (range, probe) in ranges.iter_mut().zip(probes) {
                *range = self.directory.range(probe.low, probe.high.max(probe.low));
                prefetch(blocks, 1 + range.first);
                prefetch(blocks, 1 + range.last);
            }
        };
        let (mut some, mut rest) = probes.split_at(GROUP.min(probes.len()));
        let mut memory = [[Blocks::default(); GROUP]; 2];
        let [ranges, ahead] = &mut memory;
        let (mut ranges, mut ahead) = (ranges, ahead);
        ask(some, ranges);
        while !some.is_empty() {
            let (next, others) = rest.split_at(GROUP.min(rest.len()));
            ask(next, ahead);
            for (range, probe) in ranges.iter().zip(some) {
                if self.find_one::<K>(blocks, range, probe, found) {
                    self.spilled.find(probe, found);
                }
                ends.push(found.len() as u32);
            }
            (some, rest) = (next, others);
            std::mem::swap(&mut ranges, &mut ahead);
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512vl,popcnt")]
    fn find_all_avx512(&self, probes: &[Probe], found: &mut Vec<u32>, ends: &mut Vec<u32>) {
        self.find_groups::<Avx512>(probes, found, ends);
    }
}

/// Whether the processor has the instructions of the widest kernel.
#[cfg(target_arch = "x86_64")]
#[inline]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("popcnt")
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
        self.find_all(std::slice::from_ref(probe), found, &mut Vec::with_capacity(1));
    }

    fn len(&self) -> usize {
        self.len
    }

    fn memory(&self) -> usize {
        let keys = self.keys.capacity() + self.sorted.capacity();
        let of_rows = self.rows.capacity() * size_of::<Entry>() + keys * size_of::<i64>();
        size_of_val(&*self.blocks) + self.directory.memory() + self.spilled.memory() + of_rows
    }

    fn clear(&mut self) {
        *self = Self::new();
    }

    fn insert_all(&mut self, rows: &[Entry]) {
        for rows in rows.chunks(TOGETHER) {
            if self.len == 0 {
                self.first = rows[0].row;
            }
            self.keep_keys(rows);
            self.put(rows);
            self.len += rows.len();
            // There are as many probes as rows, about, and each looks into a block or two.
            self.cost += 3 * LOOK_NS / 2 * self.full_blocks * rows.len();
            if self.is_outgrown() {
                self.make();
            }
        }
    }

    fn find_all(&self, probes: &[Probe], found: &mut Vec<u32>, ends: &mut Vec<u32>) {
        #[cfg(target_arch = "x86_64")]
        if has_avx512() {
            // SAFETY: the processor has the instructions.
            return unsafe { self.find_all_avx512(probes, found, ends) };
        }
        self.find_groups::<Portable>(probes, found, ends);
    }
}
