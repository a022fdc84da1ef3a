//! Computes the block of a key arithmetically. The directory is a tree of cells. The depth of this
//! tree depends on the key distribution.

#[cfg(target_arch = "x86_64")]
mod wide;

use std::ops::{Range, RangeInclusive};

use super::block::{Codes, NOBODYS};
use super::store::BlockStore;
use crate::index::{Entry, Probe};

/// The number of rows per block above which a cell is divided further.
const CROWDED: usize = 9;

/// The number of rows per cell in the root. The first constant below is the number of rows per cell
/// in other nodes. A cell with more rows than the second constant has child cells.
const ROWS_OF_ROOT_CELL: usize = 64;
const ROWS_OF_CELL: usize = 32;
const ROWS_OF_LEAF: usize = 512;

/// The binary logarithm of the maximum number of cells in a node. All cells of a root of this size
/// fit into a core's cache.
const MOST_BITS: u32 = 14;
const LEAST_BITS: u32 = 4;

/// A range of keys. All cells of a node have the same width.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Cell {
    /// The cell's first child cell, or its first block if it has no child cells.
    base: u32,
    /// `value << 2 | kind`. In a leaf, the value is the number of blocks. In a node, it is the
    /// binary logarithm of the number of cells.
    extent: u32,
}

/// A cell whose keys are divided evenly among its blocks.
const EVEN: u32 = 0;
/// A cell with a single key, whose rows are divided by number.
const SPREAD: u32 = 1;
/// A cell that has child cells.
const NODE: u32 = 2;

impl Cell {
    fn kind(self) -> u32 {
        self.extent & 3
    }

    fn blocks(self) -> u32 {
        self.extent >> 2
    }

    /// Returns the block for a code. Within a cell, the code is sufficient to determine the block.
    #[inline(always)]
    fn nth(self, code: u16) -> u32 {
        self.base + ((u64::from(code) * u64::from(self.blocks())) >> u16::BITS) as u32
    }

    /// Returns the block for a row number.
    fn spread(self, row: u32) -> u32 {
        let part = u64::from(row.wrapping_mul(0x9E37_79B9));
        self.base + ((part * u64::from(self.blocks())) >> u32::BITS) as u32
    }
}

/// Maps keys to the blocks of their rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Directory {
    /// The cells of the root, followed by the cells of the other nodes.
    cells: Vec<Cell>,
    /// For each cell, the number of additional blocks, which hold rows whose own block was full.
    more: Vec<u32>,
    /// Removed nodes, by the binary logarithm of their cell count. Each node is identified by its
    /// first cell.
    free: [Vec<u32>; MOST_BITS as usize + 1],
    /// The first key, and the greatest distance from the first key. Keys outside this range have no
    /// blocks.
    start: i64,
    span: u64,
    /// Each cell of the root covers 2^shift keys.
    shift: u32,
}

/// The block for a row, and the code of the row's key in this block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Address {
    pub(super) block: u32,
    pub(super) code: u16,
}

/// The one or two blocks that may contain the keys in a range. Ranges that span more blocks are
/// looked up differently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Pair {
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) codes: Codes,
    /// True if no other blocks may contain keys in the range.
    pub(super) is_all: bool,
    /// True if several keys may have the same code as one end of the range.
    pub(super) is_vague: bool,
}

/// The position of a key within a cell that has blocks.
#[derive(Clone, Copy)]
struct Place {
    cell: Cell,
    /// The position of the cell.
    at: usize,
    /// The code of the key in the cell.
    code: u16,
    /// The cell covers 2^shift keys.
    shift: u32,
}

/// A cell that has blocks.
#[derive(Clone, Copy)]
pub(super) struct BlockCell {
    cell: Cell,
    /// The position of the cell.
    at: usize,
    /// The cell covers 2^shift keys.
    shift: u32,
    /// The distance of the cell's first key from the directory's first key.
    start: u64,
}

impl BlockCell {
    /// Returns the range of the cell's blocks.
    pub(super) fn blocks(&self) -> Range<u32> {
        self.cell.base..self.cell.base + self.cell.blocks()
    }

    /// Returns the distance of the cell's last key from the directory's first key.
    pub(super) fn last(&self) -> u64 {
        self.start + ((1 << self.shift) - 1)
    }

    /// Returns the blocks that may contain keys in a range, and the codes of these keys. The range
    /// is given as distances from the first key.
    pub(super) fn part(&self, from: u64, to: u64) -> (RangeInclusive<u32>, Codes) {
        let (low, high) =
            (code(from.max(self.start), self.shift), code(to.min(self.last()), self.shift));
        let blocks = match self.cell.kind() {
            SPREAD => self.cell.base..=self.cell.base + self.cell.blocks() - 1,
            _ => self.cell.nth(low)..=self.cell.nth(high),
        };
        (blocks, Codes { low, high })
    }

    /// Returns the block of a code. The rows in the cell must not be divided by number.
    pub(super) fn block(&self, code: u16) -> u32 {
        self.cell.nth(code)
    }

    /// Returns whether several keys may share a code.
    pub(super) fn is_vague(&self) -> bool {
        is_vague(self.shift)
    }
}

/// The margins by which the cells extend beyond the keys, in eighths of the keys' range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Margins {
    pub(super) below: u32,
    pub(super) above: u32,
}

/// The parameters for building a directory: the store for blocks, the number of rows per block, and
/// the oldest row.
pub(super) struct Maker<'a> {
    pub(super) store: &'a mut BlockStore,
    pub(super) rows_of_block: usize,
    pub(super) first: u32,
}

impl Maker<'_> {
    fn cell(&mut self, rows: usize, kind: u32) -> Cell {
        let blocks = rows.div_ceil(self.rows_of_block).max(1) as u32;
        // Lengths are rounded to few different values, so that a freed run can be reused for
        // another cell.
        let blocks = blocks.next_multiple_of(1 << blocks.ilog2().saturating_sub(2));
        Cell { base: self.store.take(blocks, self.first), extent: blocks << 2 | kind }
    }
}

impl Directory {
    /// Creates a directory for keys with the distribution of `keys`, which must be sorted.
    pub(super) fn new(keys: &[i64], margins: Margins, maker: &mut Maker<'_>) -> Self {
        let mut directory = Directory {
            start: i64::MIN,
            span: u64::MAX,
            shift: u64::BITS - 1,
            ..Directory::default()
        };
        let mut cells = 2;
        if !keys.is_empty() {
            // A few outliers must not make the cells so wide that a single cell contains all other
            // keys.
            let rare = keys.len() / 512;
            let (low, high) = (keys[rare], keys[keys.len() - 1 - rare]);
            let beyond = |eighths: u32| (low.abs_diff(high) / 8).saturating_mul(u64::from(eighths));
            directory.start = low.saturating_sub_unsigned(beyond(margins.below));
            directory.span =
                directory.start.abs_diff(high.saturating_add_unsigned(beyond(margins.above)));
            let bits = (keys.len() / ROWS_OF_ROOT_CELL).max(2).ilog2().min(MOST_BITS);
            directory.shift = (u64::BITS - directory.span.leading_zeros()).saturating_sub(bits);
            cells = (directory.span >> directory.shift) as usize + 1;
        }
        let inside = directory.inside(keys);
        directory.cells.resize(cells, Cell::default());
        directory.divide(&keys[inside], 0, directory.shift, 0..cells, maker);
        directory.more = vec![0; directory.cells.len()];
        directory
    }

    /// Returns the range of those sorted keys that are within the cells.
    pub(super) fn inside(&self, keys: &[i64]) -> Range<usize> {
        let from = keys.partition_point(|&key| key < self.start);
        from..from + keys[from..].partition_point(|&key| self.distance(key) <= self.span)
    }

    /// Returns the number of bytes in use.
    pub(super) fn memory(&self) -> usize {
        let numbers = self.more.capacity() + self.free.iter().map(Vec::capacity).sum::<usize>();
        self.cells.capacity() * size_of::<Cell>() + numbers * size_of::<u32>()
    }

    /// Returns the number of cells in the root.
    pub(super) fn root_cells(&self) -> usize {
        (self.span >> self.shift) as usize + 1
    }

    /// Returns the number of cells.
    pub(super) fn cells(&self) -> usize {
        let free: usize =
            self.free.iter().enumerate().map(|(bits, nodes)| nodes.len() << bits).sum();
        self.cells.len() - free
    }

    /// Returns whether a key is below or above all cells.
    #[inline]
    pub(super) fn is_beyond(&self, key: i64) -> (bool, bool) {
        (key < self.start, key > self.start && self.distance(key) > self.span)
    }

    /// Returns the distance of a key from the first key. For keys before the first key, the
    /// distance is greater than the span.
    #[inline(always)]
    fn distance(&self, key: i64) -> u64 {
        key.wrapping_sub(self.start).cast_unsigned()
    }

    /// Creates the cells of a node. Each cell covers 2^shift keys, and the first cell begins at
    /// `start`. `keys` are the node's keys.
    fn divide(
        &mut self,
        keys: &[i64],
        start: u64,
        shift: u32,
        cells: Range<usize>,
        maker: &mut Maker<'_>,
    ) {
        let mut from = 0;
        for (nth, at) in cells.enumerate() {
            let begins = start + ((nth as u64) << shift);
            let last = begins + ((1 << shift) - 1);
            let end = from + keys[from..].partition_point(|&key| self.distance(key) <= last);
            self.cells[at] = self.fit(&keys[from..end], begins, shift, maker);
            from = end;
        }
    }

    /// Allocates 2^bits cells for a node and returns the first one.
    fn take_node(&mut self, bits: u32) -> u32 {
        if let Some(base) = self.free[bits as usize].pop() {
            self.more[base as usize..][..1 << bits].fill(0);
            return base;
        }
        let base = self.cells.len();
        self.cells.resize(base + (1 << bits), Cell::default());
        base as u32
    }

    /// Frees the node below a cell, if there is one, and all nodes below that node.
    fn give_nodes_back(&mut self, cell: Cell) {
        if cell.kind() == NODE {
            let bits = cell.blocks();
            (cell.base..cell.base + (1 << bits))
                .for_each(|at| self.give_nodes_back(self.cells[at as usize]));
            self.free[bits as usize].push(cell.base);
        }
    }

    /// Creates a cell that covers 2^shift keys, starting at the given distance from the first key.
    fn fit(&mut self, keys: &[i64], start: u64, shift: u32, maker: &mut Maker<'_>) -> Cell {
        // 1. If there is only one key, its rows are divided by number.
        if shift == 0 || (keys.len() > CROWDED && keys.first() == keys.last()) {
            return maker.cell(keys.len(), SPREAD);
        }
        // 2. Otherwise, the keys are divided evenly among the blocks, if this balances them.
        let blocks = keys.len().div_ceil(maker.rows_of_block) as u32;
        let codes = keys.iter().map(|&key| code(self.distance(key), shift));
        if keys.len() <= CROWDED || !is_crowded(codes, blocks) {
            return maker.cell(keys.len(), EVEN);
        }
        // 3. Otherwise, child cells are created, and each is processed separately.
        let bits =
            (keys.len() / ROWS_OF_CELL).max(2).ilog2().clamp(LEAST_BITS, MOST_BITS).min(shift);
        let base = self.take_node(bits);
        self.divide(keys, start, shift - bits, base as usize..(base + (1 << bits)) as usize, maker);
        Cell { base, extent: bits << 2 | NODE }
    }

    /// Returns the position of the key at the given distance, which must be within the span.
    #[inline(always)]
    fn place(&self, distance: u64) -> Place {
        let mut shift = self.shift;
        let mut at = (distance >> shift) as usize;
        let mut cell = self.cells[at];
        while cell.kind() == NODE {
            let within = distance & ((1 << shift) - 1);
            shift -= cell.blocks();
            at = cell.base as usize + (within >> shift) as usize;
            cell = self.cells[at];
        }
        Place { cell, at, code: code(distance, shift), shift }
    }

    /// Returns the block for a row, and the code of the row's key in this block. For keys beyond
    /// all cells, the unused block is returned.
    #[inline(always)]
    pub(super) fn address(&self, row: &Entry) -> Address {
        let distance = self.distance(row.key);
        if distance > self.span {
            return Address { block: NOBODYS, code: 0 };
        }
        let Place { cell, code, .. } = self.place(distance);
        let block = match cell.kind() {
            SPREAD => cell.spread(row.row),
            _ => cell.nth(code),
        };
        Address { block, code }
    }

    /// Returns the blocks at both ends of a probe's key range.
    #[inline(always)]
    pub(super) fn pair(&self, probe: &Probe) -> Pair {
        let (from, to) = (self.distance(probe.low), self.distance(probe.high));
        if from.max(to) > self.span || from > to {
            return Pair::default();
        }
        let (first, last) = (self.place(from), self.place(to));
        let (first_block, last_block) = (first.cell.nth(first.code), last.cell.nth(last.code));
        Pair {
            first: first_block,
            last: last_block,
            codes: Codes { low: first.code, high: last.code },
            is_all: (first.at == last.at)
                & (last_block.wrapping_sub(first_block) <= 1)
                & (first.cell.kind() != SPREAD),
            is_vague: is_vague(first.shift),
        }
    }

    /// Returns the part of a range that is within the cells, as distances. Returns `None` if no
    /// keys in the range are within the cells.
    pub(super) fn distances(&self, low: i64, high: i64) -> Option<(u64, u64)> {
        let from = self.distance(low.max(self.start));
        (high >= low.max(self.start) && from <= self.span)
            .then(|| (from, self.distance(high).min(self.span)))
    }

    /// Returns the greatest distance from the first key.
    pub(super) fn span(&self) -> u64 {
        self.span
    }

    /// Returns the cell at the given distance from the first key.
    pub(super) fn leaf(&self, distance: u64) -> BlockCell {
        let Place { cell, at, shift, .. } = self.place(distance);
        BlockCell { cell, at, shift, start: distance >> shift << shift }
    }

    /// Records that the number of additional blocks in a key's cell has increased or decreased by
    /// one. Returns whether the cell should be rebuilt because it has too many additional blocks.
    pub(super) fn count_more(&mut self, key: i64, by: i32) -> bool {
        let place = self.place(self.distance(key));
        let more = &mut self.more[place.at];
        *more = more.saturating_add_signed(by);
        *more * 4 > place.cell.blocks()
    }

    /// Returns a key's cell if the cell should be rebuilt because it has too many additional
    /// blocks.
    pub(super) fn crowded(&self, key: i64) -> Option<BlockCell> {
        let leaf = self.leaf(self.distance(key));
        (self.more[leaf.at] * 4 > leaf.cell.blocks()).then_some(leaf)
    }

    /// Returns the cells that hold a root cell's blocks: the cell itself or cells below it.
    pub(super) fn leaves(&self, nth: usize) -> Vec<BlockCell> {
        let first = (nth as u64) << self.shift;
        let last = first + ((1 << self.shift) - 1);
        let next = |leaf: &BlockCell| (leaf.last() < last).then(|| self.leaf(leaf.last() + 1));
        std::iter::successors(Some(self.leaf(first)), next).collect()
    }

    /// Returns a cell of the root, unless it has child cells.
    pub(super) fn root_leaf(&self, nth: usize) -> Option<BlockCell> {
        let cell = self.cells[nth];
        let (shift, start) = (self.shift, (nth as u64) << self.shift);
        (cell.kind() != NODE).then_some(BlockCell { cell, at: nth, shift, start })
    }

    /// Moves the directory up or down by a number of root cells. When the directory moves up, it
    /// drops the lowest cells and adds the same number of empty cells above. The blocks of the
    /// dropped cells must have been freed. Moving down works the other way round. Returns `false`
    /// if the directory would extend beyond the 64-bit range of keys.
    pub(super) fn slide(&mut self, by: usize, up: bool, maker: &mut Maker<'_>) -> bool {
        let (root, distance) = (self.root_cells(), (by as u64) << self.shift);
        let start = if up {
            self.start.checked_add_unsigned(distance)
        } else {
            self.start.checked_sub_unsigned(distance)
        };
        let Some(start) = start.filter(|start| start.checked_add_unsigned(self.span).is_some())
        else {
            return false;
        };
        self.start = start;
        let (stay, come) = if up { (by..root, root - by..root) } else { (0..root - by, 0..by) };
        let (to, go) = if up { (0, 0..by) } else { (by, root - by..root) };
        go.for_each(|at| self.give_nodes_back(self.cells[at]));
        self.cells.copy_within(stay.clone(), to);
        self.more.copy_within(stay, to);
        self.more[come.clone()].fill(0);
        come.for_each(|at| self.cells[at] = maker.cell(0, EVEN));
        true
    }

    /// Assigns new blocks to a cell for rows with these codes. The cell's keys are divided evenly
    /// among its blocks, as before. Returns the cell if this division balances the rows.
    pub(super) fn resize(
        &mut self,
        leaf: &BlockCell,
        rows: &[(u16, u32)],
        maker: &mut Maker<'_>,
    ) -> Option<BlockCell> {
        let blocks = rows.len().div_ceil(maker.rows_of_block) as u32;
        if leaf.cell.kind() != EVEN || is_crowded(rows.iter().map(|row| row.0), blocks) {
            return None;
        }
        let cell = maker.cell(rows.len(), EVEN);
        (self.cells[leaf.at], self.more[leaf.at]) = (cell, 0);
        Some(BlockCell { cell, ..*leaf })
    }

    /// Rebuilds a cell for `keys`, which must be sorted.
    pub(super) fn refit(&mut self, leaf: &BlockCell, keys: &[i64], maker: &mut Maker<'_>) {
        self.cells[leaf.at] = self.fit(keys, leaf.start, leaf.shift, maker);
        self.more.resize(self.cells.len(), 0);
        self.more[leaf.at] = 0;
    }
}

/// Returns whether an even division would leave a considerable share of the rows in crowded blocks.
/// Blocks also count as crowded if there are too many rows in total.
fn is_crowded(codes: impl ExactSizeIterator<Item = u16>, blocks: u32) -> bool {
    let len = codes.len();
    if len > ROWS_OF_LEAF {
        return true;
    }
    let cell = Cell { base: 0, extent: blocks << 2 };
    let (mut rows, mut too_many) = ([0_u16; ROWS_OF_LEAF], 0);
    for code in codes {
        let rows = &mut rows[cell.nth(code) as usize];
        *rows += 1;
        too_many += usize::from(usize::from(*rows) > CROWDED);
    }
    too_many * 16 > len
}

/// Returns the code of the key at the given distance, in a cell that covers 2^shift keys. The code
/// consists of the bits in which the cell's keys differ. If there are more than 16 such bits, only
/// the upper 16 are used.
#[inline(always)]
fn code(distance: u64, shift: u32) -> u16 {
    // The position in the cell, as a fraction of 2^64.
    let part = distance << 1 << (u64::BITS - 1 - shift);
    (part >> (u64::BITS - u16::BITS)) as u16
}

/// Returns whether several keys share a code in a cell that covers 2^shift keys.
#[inline(always)]
fn is_vague(shift: u32) -> bool {
    shift > u16::BITS
}
