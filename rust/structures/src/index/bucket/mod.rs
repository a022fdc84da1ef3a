//! The bucket index, which computes the block of a key.

mod ask;
mod block;
mod directory;
mod find;
mod instructions;
mod make;
mod store;

use std::fmt;

use ask::{GROUP, Groups, Lookup, UNDER_WAY, ask, group};
#[cfg(target_arch = "aarch64")]
use block::Neon;
#[cfg(target_arch = "x86_64")]
use block::{Avx2, Avx512};
use block::{BucketBlock, Kernel, NOBODYS, Portable};
use directory::{Address, Directory, Margins};
#[cfg(target_arch = "aarch64")]
use instructions::has_neon;
#[cfg(target_arch = "x86_64")]
use instructions::{has_avx2, has_avx512};
use store::BlockStore;

use super::{BPlusTree, Entry, Probe, WindowIndex};
use crate::memory::gather::prefetch;

/// After this many insertions, the index checks whether the directory is still suitable.
const TOGETHER: usize = 1024;

/// Below this number of rows, rebuilding the directory is not worthwhile.
const SMALL: usize = 64;

/// The rows in a window, which are stored in value order, in blocks that are one cache line
/// long. The positions of the blocks are computed from the keys.
///
/// ```text
///             key ── directory: cell, place in it ──▶ block
///                                                      │
///   blocks    │ 1 3 3 2 . │ 5 4 4 . . │ 8 7 6 7 8 │ 9 9 . . . │   blocks in value order
///                                           └─▶ │ 8 7 . . . │     for rows whose block is full
///
///   B+-tree   keys beyond all cells
/// ```
///
/// Rows are not removed explicitly. A row's number shows whether the row has left the window. If it
/// has left, the row's position is reused. A block contains codes instead of keys. Rows with the
/// same code are distinguished by their keys, which are stored by row number. A crowded cell is
/// rebuilt separately, with more blocks. The whole directory is rebuilt when the window has grown
/// or when there are many rows beyond the directory. If possible, the directory is shifted towards
/// these rows instead. A rebuild costs as much as a PIM-Tree merge. The key distribution can
/// therefore be skewed, and can shift over time.
pub struct BucketIndex {
    directory: Directory,
    store: BlockStore,
    /// Rows whose keys are beyond all cells. The field below counts the rows that have arrived
    /// below and above the cells since the directory was built.
    beyond: BPlusTree,
    came_beyond: (usize, usize),
    /// When more than this many rows are beyond the cells at one end, the directory tries to move
    /// in that direction.
    slide_at: usize,
    margins: Margins,
    /// One key from each crowded cell.
    crowded: Vec<i64>,
    /// Rows whose blocks were full, each preceded by its block and code.
    left: Vec<(u32, u16, Entry)>,
    /// The next root cell to check for too many blocks, and the number of rows inserted since the
    /// last check.
    next: usize,
    untidied: usize,
    /// The number of rows and cells for which the directory was built, and the oldest row at that
    /// time.
    made_for: usize,
    made_cells: usize,
    made_at: u32,
    /// The keys of the rows. A key's position is the row number modulo a power of two.
    keys: Vec<i64>,
    /// The number of the oldest row, or the preceding number.
    first: u32,
    len: usize,
    /// All rows and their keys, while the directory is being built.
    rows: Vec<Entry>,
    sorted: Vec<i64>,
    /// The codes and numbers of the rows taken out of a cell.
    moved: Vec<(u16, u32)>,
}

impl fmt::Debug for BucketIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BucketIndex")
            .field("len", &self.len)
            .field("blocks", &self.store.blocks.len())
            .finish_non_exhaustive()
    }
}

impl Default for BucketIndex {
    fn default() -> Self {
        Self::new()
    }
}

impl BucketIndex {
    /// Creates an index without rows.
    pub fn new() -> Self {
        let mut index = BucketIndex {
            directory: Directory::default(),
            store: BlockStore::new(0),
            beyond: BPlusTree::new(),
            came_beyond: (0, 0),
            slide_at: 0,
            margins: Margins::default(),
            crowded: Vec::new(),
            left: Vec::new(),
            next: 0,
            untidied: 0,
            made_for: 0,
            made_cells: 0,
            made_at: 0,
            keys: vec![0; SMALL],
            first: 0,
            len: 0,
            rows: Vec::new(),
            sorted: Vec::new(),
            moved: Vec::new(),
        };
        index.make();
        index
    }

    /// Inserts rows into blocks, or into the tree if they are beyond the directory.
    fn put(&mut self, rows: &[Entry]) {
        #[cfg(target_arch = "x86_64")]
        if has_avx512() {
            // SAFETY: the processor has the instructions.
            return rows.chunks(TOGETHER).for_each(|rows| unsafe { self.put_avx512(rows) });
        }
        #[cfg(target_arch = "x86_64")]
        if has_avx2() {
            // SAFETY: the processor has the instructions.
            return rows.chunks(TOGETHER).for_each(|rows| unsafe { self.put_avx2(rows) });
        }
        #[cfg(target_arch = "aarch64")]
        if has_neon() {
            return rows.chunks(TOGETHER).for_each(|rows| self.put_each::<Neon>(rows));
        }
        rows.chunks(TOGETHER).for_each(|rows| self.put_each::<Portable>(rows));
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,popcnt")]
    fn find_all_avx512(&self, probes: &[Probe], found: &mut Vec<u32>, ends: &mut Vec<u32>) {
        self.find_each::<Avx512>(probes, found, ends, |probe, found| {
            self.find_run_avx512(probe, found)
        });
    }

    /// The loop over probes seldom calls this function, so it is not inlined.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,popcnt")]
    #[inline(never)]
    fn find_run_avx512(&self, probe: &Probe, found: &mut Vec<u32>) {
        self.find_run::<Avx512>(probe, found);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,popcnt")]
    fn put_avx512(&mut self, rows: &[Entry]) {
        self.put_each::<Avx512>(rows);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,popcnt")]
    fn find_all_avx2(&self, probes: &[Probe], found: &mut Vec<u32>, ends: &mut Vec<u32>) {
        self.find_each::<Avx2>(probes, found, ends, |probe, found| {
            self.find_run_avx2(probe, found)
        });
    }

    /// This function is kept separate for the same reason as `find_run_avx512`.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,popcnt")]
    #[inline(never)]
    fn find_run_avx2(&self, probe: &Probe, found: &mut Vec<u32>) {
        self.find_run::<Avx2>(probe, found);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,popcnt")]
    fn put_avx2(&mut self, rows: &[Entry]) {
        self.put_each::<Avx2>(rows);
    }

    /// Inserts each row into its block while the blocks for the next groups are being prefetched.
    #[inline(always)]
    fn put_each<K: Kernel + Lookup>(&mut self, rows: &[Entry]) {
        let (directory, first) = (&self.directory, self.first);
        let blocks: &mut [BucketBlock] = &mut self.store.blocks;
        let mut groups: Groups<Address> = Default::default();
        let count = rows.len().div_ceil(GROUP);
        for step in 0..count + UNDER_WAY - 1 {
            let before = |steps: usize| step.checked_sub(steps).filter(|&nth| nth < count);
            if let Some(nth) = before(0) {
                K::addresses(directory, group(rows, nth), &mut groups[nth % UNDER_WAY]);
            }
            if let Some(nth) = before(1) {
                ask(blocks, &groups[nth % UNDER_WAY]);
            }
            let Some(nth) = before(UNDER_WAY - 1) else { continue };
            for (row, &Address { block: at, code }) in
                group(rows, nth).iter().zip(&groups[nth % UNDER_WAY])
            {
                let block = &mut blocks[at as usize];
                let is_room = at != NOBODYS && block.more == NOBODYS;
                if !(is_room && block.put(K::live(block, first), code, row.row)) {
                    let more = block.more as usize;
                    prefetch(blocks, more);
                    self.left.push((at, code, *row));
                }
            }
        }
        let mut left = std::mem::take(&mut self.left);
        for (at, code, row) in left.drain(..) {
            self.put_more::<K>(at, code, row);
        }
        self.left = left;
    }

    /// Inserts a row into its block, or into the first overflow block that has room. The last
    /// overflow block is freed when it has no live rows.
    #[inline(never)]
    fn put_more<K: Kernel>(&mut self, mut at: u32, code: u16, row: Entry) {
        if at == NOBODYS {
            return self.put_beyond(row);
        }
        loop {
            let block = &mut self.store.blocks[at as usize];
            let is_put = block.put(K::live(block, self.first), code, row.row);
            let more = block.more;
            if is_put {
                if more != NOBODYS {
                    self.drop_empty::<K>(at, more, row.key);
                }
                return;
            }
            if more == NOBODYS {
                break;
            }
            at = more;
        }
        let more = self.store.take(1, self.first);
        let block = &mut self.store.blocks[more as usize];
        block.put(0, code, row.row);
        self.store.blocks[at as usize].more = more;
        if self.directory.count_more(row.key, 1) {
            self.crowded.push(row.key);
        }
    }

    /// Frees a block's overflow block if it is the last one and has no live rows.
    fn drop_empty<K: Kernel>(&mut self, at: u32, more: u32, key: i64) {
        let block = &self.store.blocks[more as usize];
        if block.more == NOBODYS && K::live(block, self.first) == 0 {
            self.store.blocks[at as usize].more = NOBODYS;
            self.store.give_back(more, 1);
            self.directory.count_more(key, -1);
        }
    }

    #[cold]
    fn put_beyond(&mut self, row: Entry) {
        let (below, above) = self.directory.is_beyond(row.key);
        self.came_beyond.0 += usize::from(below);
        self.came_beyond.1 += usize::from(above);
        self.beyond.insert(row.key, row.row);
    }

    /// Returns the key of a row.
    fn key(&self, row: u32) -> i64 {
        self.keys[row as usize & (self.keys.len() - 1)]
    }

    /// Stores the keys of new rows by number.
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
        self.store.memory() + self.directory.memory() + self.beyond.memory() + of_rows
    }

    fn clear(&mut self) {
        *self = Self::new();
    }

    fn insert_all(&mut self, rows: &[Entry]) {
        for rows in rows.chunks(TOGETHER) {
            if self.len == 0 {
                self.first = rows[0].row;
                if self.is_old() {
                    self.make();
                }
            }
            self.keep_keys(rows);
            self.put(rows);
            self.len += rows.len();
            if !self.crowded.is_empty() {
                self.relieve();
            }
            self.untidied += rows.len();
            if self.untidied >= TOGETHER {
                self.untidied -= TOGETHER;
                if self.store.is_scarce() {
                    self.tidy();
                }
            }
            if self.has_drifted() {
                self.slide();
            }
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
        #[cfg(target_arch = "x86_64")]
        if has_avx2() {
            // SAFETY: the processor has the instructions.
            return unsafe { self.find_all_avx2(probes, found, ends) };
        }
        #[cfg(target_arch = "aarch64")]
        if has_neon() {
            return self.find_each::<Neon>(probes, found, ends, |probe, found| {
                self.find_run::<Neon>(probe, found)
            });
        }
        self.find_each::<Portable>(probes, found, ends, |probe, found| {
            self.find_run::<Portable>(probe, found)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slides a window over rows with rising or falling keys, and compares the results with a scan
    /// of the window. Returns how many times the directory was rebuilt while the second half of the
    /// rows was processed.
    fn drift(key: impl Fn(u32) -> i64) -> usize {
        const ROWS: u32 = 40_000;
        const WINDOW: u32 = 3_000;
        const STEP: u32 = 100;
        let (mut index, mut made) = (BucketIndex::new(), 0);
        for from in (0..ROWS).step_by(STEP as usize) {
            let rows: Vec<Entry> =
                (from..from + STEP).map(|row| Entry { key: key(row), row }).collect();
            let made_at = index.made_at;
            index.insert_all(&rows);
            made += usize::from(from > ROWS / 2 && index.made_at != made_at);
            assert!(index.beyond.len() <= index.len() / 4 + SMALL);
            let first = from.saturating_sub(WINDOW);
            let gone: Vec<Entry> = (first.saturating_sub(STEP)..first)
                .map(|row| Entry { key: key(row), row })
                .collect();
            index.remove_all(&gone);
            let (middle, to) = (key(from), from + STEP);
            for width in [0, 1_000, 1_000_000] {
                let (low, high) = (middle.saturating_sub(width), middle.saturating_add(width));
                let mut found = Vec::new();
                index.find(&Probe { low, high, from: first, to }, &mut found);
                found.sort_unstable();
                assert!(
                    found
                        .into_iter()
                        .eq((first..to).filter(|&row| (low..=high).contains(&key(row))))
                );
            }
        }
        made
    }

    #[test]
    fn a_directory_goes_with_values_that_rise_or_fall() {
        // It would be rebuilt five times each if it could not move.
        let noise = |row: u32| i64::from(row.wrapping_mul(0x9E37_79B9) >> 12);
        let rises = |row: u32| i64::from(row) * 1_000 + noise(row);
        assert!(drift(rises) < 3);
        assert!(drift(|row| -rises(row)) < 3);
        // Most rows of some cells have one key, so these cells have child cells.
        assert!(
            drift(|row| if row % 3 == 0 { i64::from(row / 500) * 500_000 } else { rises(row) }) < 3
        );
        // The keys jump farther than the directory can move.
        assert!(drift(|row| if row < 25_000 { rises(row) } else { i64::MAX / 2 + rises(row) }) < 5);
        // The keys move up to the greatest and down to the least possible key.
        drift(|row| (i64::MAX - 20_000_000).saturating_add(rises(row)));
        drift(|row| (i64::MIN + 20_000_000).saturating_sub(rises(row)));
    }
}
