//! Rebuilds the directory, or one of its cells.

use super::block::{Kernel, MOST_LEFT, NOBODYS, Portable, ROWS};
use super::directory::{BlockCell, Directory, Maker};
use super::store::BlockStore;
use super::{BucketIndex, SMALL, TOGETHER};
use crate::index::{Entry, WindowIndex, is_live};

/// Rows that a block gets when the directory is made: room for as many more, so that few blocks
/// overflow. And those it gets when its cell is made anew because there were too many, so likely
/// more are coming.
const ROWS_OF_BLOCK: usize = 5;
const ROWS_OF_GROWING: usize = 4;

/// About what rows beyond the directory cost, which are inserted into a tree and looked for there,
/// and what it costs to make the directory anew, in nanoseconds a row.
const BEYOND_NS: usize = 400;
const MAKE_NS: usize = 25;

/// The directory is moved if more than this part of its root's cells are empty: a few would soon be
/// too few again.
const LEAST_SLIDE: usize = 8;

impl BucketIndex {
    /// Makes the directory anew, for the rows there are.
    #[cold]
    pub(super) fn make(&mut self) {
        self.collect();
        let (below, above) = self.came_beyond;
        self.margins.below = margin(self.margins.below, below, self.made_for);
        self.margins.above = margin(self.margins.above, above, self.made_for);
        // The memory of the blocks there were is taken again.
        self.store = BlockStore::new(0);
        self.store = BlockStore::new(3 * self.len / ROWS_OF_BLOCK + SMALL);
        let mut maker =
            Maker { store: &mut self.store, rows_of_block: ROWS_OF_BLOCK, first: self.first };
        self.directory = Directory::new(&self.sorted, self.margins, &mut maker);
        self.beyond.clear();
        self.next = 0;
        (self.made_for, self.made_cells, self.made_at) =
            (self.len, self.directory.cells(), self.first);
        // What they were sorted in is as much as two thirds of the blocks, and rarely needed.
        let rows = std::mem::take(&mut self.rows);
        self.put(&rows);
        self.sorted = Vec::new();
        self.crowded.clear();
        self.store.has_grown = false;
        self.expect_beyond();
    }

    /// Lets the directory go with values that rise or fall: where cells at one end have no rows
    /// left, it moves to where rows are beyond it. If there are few such cells, it is tried again
    /// when twice as many rows are.
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

    /// Puts those rows into the tree anew that are still beyond, and the others into blocks;
    /// whether these are half of them or more.
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

    /// Counts rows beyond the directory anew.
    fn expect_beyond(&mut self) {
        (self.came_beyond, self.slide_at) = ((0, 0), SMALL + self.made_for / 256);
    }

    /// Whether a cell has rows that have not left.
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

    /// Brings all rows into key order.
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
        // Few runs that are in order, which a stable sort merges.
        if !rows.is_sorted_by_key(|row| row.key) {
            rows.sort_by_key(|row| row.key);
        }
        debug_assert_eq!(rows.len(), self.len, "every row is in a block or in the tree");
        self.sorted.extend(rows.iter().map(|row| row.key));
    }

    /// Notes the rows of a block, and of those that have what it had no room for.
    fn take_out(&mut self, mut at: u32) {
        while at != NOBODYS {
            let block = &self.store.blocks[at as usize];
            let mut rows = [(0, 0); ROWS];
            let live = block.live_rows(self.first, &mut rows);
            self.moved.extend_from_slice(&rows[..live]);
            at = block.more;
        }
    }

    /// Makes a cell anew, for the rows there are.
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

    /// Puts the rows that have been taken out of a cell into its new blocks. They keep their codes.
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

    /// Makes a cell anew for the rows that have been taken out of it, as their keys ask for.
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

    /// Makes crowded cells anew.
    #[cold]
    pub(super) fn relieve(&mut self) {
        let crowded = std::mem::take(&mut self.crowded);
        for &key in &crowded {
            if let Some(leaf) = self.directory.crowded(key) {
                self.refit(&leaf, ROWS_OF_GROWING);
            }
        }
        // Those that are so still are so when they get one more block.
        self.crowded = crowded;
        self.crowded.clear();
    }

    /// Makes cells anew that have many more blocks than their rows need. Of all cells as many are
    /// looked at as makes two rounds while the window is renewed once.
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

    /// Whether a directory for the rows there are now would serve better: rows beyond it have cost
    /// as much as it will, the window has doubled, cells have been divided often, or there was no
    /// room; or whether it has served for long.
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

    /// Whether the window has become larger since, and all rows there were have left: so it may
    /// stay as large.
    #[inline]
    fn has_filled(&self) -> bool {
        4 * self.len > SMALL + 5 * self.made_for
            && self.first.wrapping_sub(self.made_at) as usize >= self.made_for
    }

    /// Whether rows come beyond the directory on one side.
    #[inline]
    pub(super) fn has_drifted(&self) -> bool {
        self.came_beyond.0.max(self.came_beyond.1) > self.slide_at
    }

    #[inline]
    pub(super) fn is_old(&self) -> bool {
        self.first.wrapping_sub(self.made_at) > MOST_LEFT
    }
}

/// How far beyond the keys the next directory goes on one side, if `beyond` rows were there.
fn margin(before: u32, beyond: usize, rows: usize) -> u32 {
    if beyond > SMALL + rows / 64 { (2 * before).clamp(1, 8) } else { (before / 2).max(1) }
}
