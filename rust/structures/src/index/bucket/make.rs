//! Rebuilds the directory or one of its cells.

use super::block::{Kernel, MOST_LEFT, NOBODYS, Portable, ROWS};
use super::directory::{BlockCell, Directory, Maker};
use super::store::BlockStore;
use super::{BucketIndex, SMALL, TOGETHER};
use crate::index::{Entry, WindowIndex, is_live};

/// The number of rows per block when the directory is built. Blocks then have room for the same
/// number of new rows, so few blocks overflow. When a crowded cell is rebuilt, the second constant
/// is used, because more rows are likely to arrive in such a cell.
const ROWS_OF_BLOCK: usize = 5;
const ROWS_OF_GROWING: usize = 4;

/// The approximate cost, in nanoseconds, of a row beyond the directory. Such rows are inserted into
/// a tree and looked up there. The second constant is the cost per row of rebuilding the directory.
const BEYOND_NS: usize = 400;
const MAKE_NS: usize = 25;

/// The directory moves only if more than one root cell in this many is empty. If the directory
/// moved for fewer cells, it would soon have to move again.
const LEAST_SLIDE: usize = 8;

impl BucketIndex {
    /// Rebuilds the directory for the current rows.
    #[cold]
    pub(super) fn make(&mut self) {
        self.collect();
        let (below, above) = self.came_beyond;
        self.margins.below = margin(self.margins.below, below, self.made_for);
        self.margins.above = margin(self.margins.above, above, self.made_for);
        // The memory of the old blocks is reused.
        self.store = BlockStore::new(0);
        self.store = BlockStore::new(3 * self.len / ROWS_OF_BLOCK + SMALL);
        let mut maker =
            Maker { store: &mut self.store, rows_of_block: ROWS_OF_BLOCK, first: self.first };
        self.directory = Directory::new(&self.sorted, self.margins, &mut maker);
        self.beyond.clear();
        self.next = 0;
        (self.made_for, self.made_cells, self.made_at) =
            (self.len, self.directory.cells(), self.first);
        // The array in which rows were sorted is up to two thirds as large as the blocks, and is
        // rarely needed.
        let rows = std::mem::take(&mut self.rows);
        self.put(&rows);
        self.sorted = Vec::new();
        self.crowded.clear();
        self.store.has_grown = false;
        self.expect_beyond();
    }

    /// Moves the directory along with rising or falling values. If cells at one end have no rows
    /// left, the directory moves towards the rows beyond its other end. If only a few cells are
    /// empty, the directory tries again once twice as many rows are beyond it.
    #[cold]
    pub(super) fn slide(&mut self) {
        self.slide_at *= 2;
        let (up, root) = (self.came_beyond.1 > self.came_beyond.0, self.directory.root_cells());
        let (mut empty, mut cells) = (Vec::new(), 0);
        while cells < root {
            let leaves = self.directory.leaves(if up { cells } else { root - 1 - cells });
            if leaves.iter().any(|leaf| self.has_rows(leaf)) {
                break;
            }
            empty.extend(leaves);
            cells += 1;
        }
        if cells <= root / LEAST_SLIDE {
            return;
        }
        let mut maker =
            Maker { store: &mut self.store, rows_of_block: ROWS_OF_BLOCK, first: self.first };
        if self.directory.slide(cells, up, &mut maker) {
            empty.iter().for_each(|leaf| self.give_back(leaf));
            if !self.enter_beyond() {
                self.make();
            }
        }
    }

    /// Reinserts the rows that were beyond the directory. Rows that are still beyond it go into the
    /// tree, and all others go into blocks. Returns whether at least half of these rows are now in
    /// blocks.
    fn enter_beyond(&mut self) -> bool {
        let (mut rows, first) = (std::mem::take(&mut self.rows), self.first);
        rows.clear();
        self.beyond.for_each(|key, row| {
            if is_live(row, first) {
                rows.push(Entry { key, row });
            }
        });
        self.beyond.clear();
        self.put(&rows);
        let has_reached = 2 * self.beyond.len() <= rows.len();
        self.rows = rows;
        self.expect_beyond();
        has_reached
    }

    /// Resets the counts of rows beyond the directory.
    fn expect_beyond(&mut self) {
        (self.came_beyond, self.slide_at) = ((0, 0), SMALL + self.made_for / 256);
    }

    /// Returns whether a cell has rows that have not been removed.
    fn has_rows(&self, leaf: &BlockCell) -> bool {
        leaf.blocks().any(|mut at| {
            while at != NOBODYS {
                let block = &self.store.blocks[at as usize];
                if Portable::live(block, self.first) != 0 {
                    return true;
                }
                at = block.more;
            }
            false
        })
    }

    /// Collects all rows in key order.
    fn collect(&mut self) {
        self.rows.clear();
        self.sorted.clear();
        if self.len == 0 {
            return;
        }
        let mut distance = 0;
        loop {
            let leaf = self.directory.leaf(distance);
            for at in leaf.blocks() {
                let (from, mask) = (self.rows.len(), self.keys.len() - 1);
                self.moved.clear();
                self.take_out(at);
                self.rows.extend(
                    self.moved
                        .iter()
                        .map(|&(_, row)| Entry { key: self.keys[row as usize & mask], row }),
                );
                self.rows[from..].sort_unstable_by_key(|row| row.key);
            }
            if leaf.last() >= self.directory.span() {
                break;
            }
            distance = leaf.last() + 1;
        }
        let (rows, first) = (&mut self.rows, self.first);
        self.beyond.for_each(|key, row| {
            if is_live(row, first) {
                rows.push(Entry { key, row });
            }
        });
        // The rows consist of a few sorted runs, which a stable sort merges.
        if !rows.is_sorted_by_key(|row| row.key) {
            rows.sort_by_key(|row| row.key);
        }
        debug_assert_eq!(rows.len(), self.len, "every row is in a block or in the tree");
        self.sorted.extend(rows.iter().map(|row| row.key));
    }

    /// Collects the rows in a block and its overflow blocks.
    fn take_out(&mut self, mut at: u32) {
        while at != NOBODYS {
            let block = &self.store.blocks[at as usize];
            let mut rows = [(0, 0); ROWS];
            let live = block.live_rows(self.first, &mut rows);
            self.moved.extend_from_slice(&rows[..live]);
            at = block.more;
        }
    }

    /// Rebuilds a cell for its current rows.
    fn refit(&mut self, leaf: &BlockCell, rows_of_block: usize) {
        self.moved.clear();
        leaf.blocks().for_each(|at| self.take_out(at));
        self.give_back(leaf);
        let mut maker = Maker { store: &mut self.store, rows_of_block, first: self.first };
        match self.directory.resize(leaf, &self.moved, &mut maker) {
            Some(leaf) => self.put_moved(&leaf),
            None => self.divide(leaf, rows_of_block),
        }
    }

    /// Inserts the rows that were taken out of a cell into its new blocks. The rows keep their
    /// codes.
    fn put_moved(&mut self, leaf: &BlockCell) {
        let moved = std::mem::take(&mut self.moved);
        for &(code, row) in &moved {
            let at = leaf.block(code);
            let block = &mut self.store.blocks[at as usize];
            if !block.put(Portable::live(block, self.first), code, row) {
                let key = self.key(row);
                self.put_more::<Portable>(at, code, Entry { key, row });
            }
        }
        self.moved = moved;
    }

    /// Rebuilds a cell for the rows that were taken out of it. The cell is divided according to the
    /// keys of these rows.
    fn divide(&mut self, leaf: &BlockCell, rows_of_block: usize) {
        let mut rows: Vec<Entry> =
            self.moved.iter().map(|&(_, row)| Entry { key: self.key(row), row }).collect();
        rows.sort_unstable_by_key(|row| row.key);
        let keys: Vec<i64> = rows.iter().map(|row| row.key).collect();
        let mut maker = Maker { store: &mut self.store, rows_of_block, first: self.first };
        self.directory.refit(leaf, &keys, &mut maker);
        self.put(&rows);
    }

    fn give_back(&mut self, leaf: &BlockCell) {
        for at in leaf.blocks() {
            let mut more = self.store.blocks[at as usize].more;
            while more != NOBODYS {
                let next = self.store.blocks[more as usize].more;
                self.store.give_back(more, 1);
                more = next;
            }
        }
        self.store.give_back(leaf.blocks().start, leaf.blocks().len() as u32);
    }

    /// Rebuilds crowded cells.
    #[cold]
    pub(super) fn relieve(&mut self) {
        let crowded = std::mem::take(&mut self.crowded);
        for &key in &crowded {
            if let Some(leaf) = self.directory.crowded(key) {
                self.refit(&leaf, ROWS_OF_GROWING);
            }
        }
        // Cells that are still crowded are detected again when they receive another block.
        self.crowded = crowded;
        self.crowded.clear();
    }

    /// Rebuilds cells that have many more blocks than their rows need. Each cell is checked about
    /// twice in the time that it takes to replace all rows in the window.
    #[cold]
    pub(super) fn tidy(&mut self) {
        let cells = self.directory.root_cells();
        for _ in 0..1 + 2 * cells * TOGETHER / self.len.max(cells) {
            self.next = (self.next + 1) % cells;
            let Some(leaf) = self.directory.root_leaf(self.next) else { continue };
            let blocks = leaf.blocks().len();
            if blocks > 1 && self.rows_of(&leaf) < blocks * ROWS_OF_BLOCK / 3 {
                self.refit(&leaf, ROWS_OF_BLOCK);
            }
        }
    }

    fn rows_of(&self, leaf: &BlockCell) -> usize {
        let blocks = &self.store.blocks[leaf.blocks().start as usize..leaf.blocks().end as usize];
        blocks.iter().map(|block| block.live_rows(self.first, &mut [(0, 0); ROWS])).sum()
    }

    /// Returns whether a new directory would be better for the current rows. A new directory is
    /// better if rows beyond the old directory have cost as much as a rebuild, or if the window has
    /// doubled in size. A new directory is also better if cells have been divided often, if the
    /// store ran out of room, or if the old directory has been in use for a long time.
    #[inline]
    pub(super) fn is_outgrown(&self) -> bool {
        let beyond = self.came_beyond.0 + self.came_beyond.1;
        beyond * BEYOND_NS > MAKE_NS * (SMALL + self.made_for)
            || self.len > SMALL + 2 * self.made_for
            || self.directory.cells() > SMALL + 4 * self.made_cells
            || self.store.has_grown
            || self.has_filled()
            || self.is_old()
    }

    /// Returns whether two conditions hold: the window has grown since the directory was built, and
    /// all rows from that time have left the window. From then on, the window might stay at its
    /// current size.
    #[inline]
    fn has_filled(&self) -> bool {
        4 * self.len > SMALL + 5 * self.made_for
            && self.first.wrapping_sub(self.made_at) as usize >= self.made_for
    }

    /// Returns whether rows are arriving beyond the directory on one side.
    #[inline]
    pub(super) fn has_drifted(&self) -> bool {
        self.came_beyond.0.max(self.came_beyond.1) > self.slide_at
    }

    #[inline]
    pub(super) fn is_old(&self) -> bool {
        self.first.wrapping_sub(self.made_at) > MOST_LEFT
    }
}

/// Returns how far the next directory should extend beyond the keys on one side, given that
/// `beyond` rows arrived there.
fn margin(before: u32, beyond: usize, rows: usize) -> u32 {
    if beyond > SMALL + rows / 64 { (2 * before).clamp(1, 8) } else { (before / 2).max(1) }
}
