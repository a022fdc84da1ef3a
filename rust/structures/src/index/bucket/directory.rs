//! From a key to its block, by arithmetic: a tree of cells as deep as the distribution of keys asks
//! for.

#[cfg(target_arch = "x86_64")]
mod wide;

use std::ops::{Range, RangeInclusive};

use super::block::{Codes, NOBODYS};
use super::store::BlockStore;
use crate::index::{Entry, Probe};

/// Rows of a block above which a cell is divided further.
const CROWDED: usize = 9;

/// Rows of a cell of the root, and of another node; and more than a cell without cells of its own
/// is to have.
const ROWS_OF_ROOT_CELL: usize = 64;
const ROWS_OF_CELL: usize = 32;
const ROWS_OF_LEAF: usize = 512;

/// Cells of a node, as bits: all cells of a root this large are in a core's cache.
const MOST_BITS: u32 = 14;
const LEAST_BITS: u32 = 4;

/// A part of the keys, all cells of a node being as wide.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Cell {
    /// The first of its blocks, or of its cells if it has any.
    base: u32,
    /// `value << 2 | kind`: the number of a leaf's blocks, or the binary logarithm of the number of
    /// a node's cells.
    extent: u32,
}

/// A cell whose keys are divided evenly between its blocks.
const EVEN: u32 = 0;
/// One whose rows are divided by number, since all keys are one.
const SPREAD: u32 = 1;
/// One that has cells of its own.
const NODE: u32 = 2;

impl Cell {
    fn kind(self) -> u32 {
        self.extent & 3
    }

    fn blocks(self) -> u32 {
        self.extent >> 2
    }

    /// The block of a code. All blocks of a cell can be told by the code alone.
    #[inline(always)]
    fn nth(self, code: u16) -> u32 {
        self.base + ((u64::from(code) * u64::from(self.blocks())) >> u16::BITS) as u32
    }

    /// The block of a row by its number.
    fn spread(self, row: u32) -> u32 {
        let part = u64::from(row.wrapping_mul(0x9E37_79B9));
        self.base + ((part * u64::from(self.blocks())) >> u32::BITS) as u32
    }
}

/// Where the rows of a key are.
#[derive(Clone, Debug, Default)]
pub(super) struct Directory {
    /// The cells of the root, then the cells of the other nodes.
    cells: Vec<Cell>,
    /// By cell, how many blocks it has got for rows that found theirs full.
    more: Vec<u32>,
    /// Nodes that are no more: their first cells, by how many bits the number of their cells is.
    free: [Vec<u32>; MOST_BITS as usize + 1],
    /// The first key, and the greatest distance from it. Keys outside have no blocks.
    start: i64,
    span: u64,
    /// A cell of the root has 2^shift keys.
    shift: u32,
}

/// The block for a row, and the code of its key there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Address {
    pub(super) block: u32,
    pub(super) code: u16,
}

/// The one or two blocks that may have keys of a range, as long as that is all there is to a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Pair {
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) codes: Codes,
    /// Whether nothing else may have such keys but these blocks.
    pub(super) is_all: bool,
    /// Whether other keys may have the codes of the ends.
    pub(super) is_vague: bool,
}

/// A key's place in the cell that has blocks for it.
#[derive(Clone, Copy)]
struct Place {
    cell: Cell,
    /// Where the cell is.
    at: usize,
    /// The code of the key there.
    code: u16,
    /// The cell has 2^shift keys.
    shift: u32,
}

/// A cell that has blocks.
#[derive(Clone, Copy)]
pub(super) struct BlockCell {
    cell: Cell,
    /// Where the cell is.
    at: usize,
    /// The cell has 2^shift keys.
    shift: u32,
    /// How far its first key is from that of the directory.
    start: u64,
}

impl BlockCell {
    /// Its blocks, the first and the one behind the last.
    pub(super) fn blocks(&self) -> Range<u32> {
        self.cell.base..self.cell.base + self.cell.blocks()
    }

    /// How far its last key is from the first one of the directory.
    pub(super) fn last(&self) -> u64 {
        self.start + ((1 << self.shift) - 1)
    }

    /// The blocks that may have keys of a range, given by distances, and their codes.
    pub(super) fn part(&self, from: u64, to: u64) -> (RangeInclusive<u32>, Codes) {
        let (low, high) =
            (code(from.max(self.start), self.shift), code(to.min(self.last()), self.shift));
        let blocks = match self.cell.kind() {
            SPREAD => self.cell.base..=self.cell.base + self.cell.blocks() - 1,
            _ => self.cell.nth(low)..=self.cell.nth(high),
        };
        (blocks, Codes { low, high })
    }

    /// The block of a code, if its rows are not divided by number.
    pub(super) fn block(&self, code: u16) -> u32 {
        self.cell.nth(code)
    }

    /// Whether a code may stand for several keys.
    pub(super) fn is_vague(&self) -> bool {
        is_vague(self.shift)
    }
}

/// How far beyond the keys there are to be cells, in eighths of their range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Margins {
    pub(super) below: u32,
    pub(super) above: u32,
}

/// What a directory is made with: where it takes blocks from, how many rows these are to have, and
/// the oldest row.
pub(super) struct Maker<'a> {
    pub(super) store: &'a mut BlockStore,
    pub(super) rows_of_block: usize,
    pub(super) first: u32,
}

impl Maker<'_> {
    fn cell(&mut self, rows: usize, kind: u32) -> Cell {
        let blocks = rows.div_ceil(self.rows_of_block).max(1) as u32;
        // Few different lengths, so that a run that is given back will do for another cell.
        let blocks = blocks.next_multiple_of(1 << blocks.ilog2().saturating_sub(2));
        Cell { base: self.store.take(blocks, self.first), extent: blocks << 2 | kind }
    }
}

impl Directory {
    /// A directory for keys like these, which are in order.
    pub(super) fn new(keys: &[i64], margins: Margins, maker: &mut Maker<'_>) -> Self {
        let mut directory = Directory {
            start: i64::MIN,
            span: u64::MAX,
            shift: u64::BITS - 1,
            ..Directory::default()
        };
        let mut cells = 2;
        if !keys.is_empty() {
            // A few keys far away from all others must not make the cells so wide that all others
            // are in one.
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

    /// Of keys in order those that are not beyond all cells.
    pub(super) fn inside(&self, keys: &[i64]) -> Range<usize> {
        let from = keys.partition_point(|&key| key < self.start);
        from..from + keys[from..].partition_point(|&key| self.distance(key) <= self.span)
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        let numbers = self.more.capacity() + self.free.iter().map(Vec::capacity).sum::<usize>();
        self.cells.capacity() * size_of::<Cell>() + numbers * size_of::<u32>()
    }

    /// Cells of the root.
    pub(super) fn root_cells(&self) -> usize {
        (self.span >> self.shift) as usize + 1
    }

    /// How many cells there are.
    pub(super) fn cells(&self) -> usize {
        let free: usize =
            self.free.iter().enumerate().map(|(bits, nodes)| nodes.len() << bits).sum();
        self.cells.len() - free
    }

    /// Whether a key is beyond all cells: below, above.
    #[inline]
    pub(super) fn is_beyond(&self, key: i64) -> (bool, bool) {
        (key < self.start, key > self.start && self.distance(key) > self.span)
    }

    /// From the first key; of keys before it, more than the span.
    #[inline(always)]
    fn distance(&self, key: i64) -> u64 {
        key.wrapping_sub(self.start).cast_unsigned()
    }

    /// Makes cells of a node, each 2^shift keys wide and the first one beginning at `start`, whose
    /// keys are given.
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

    /// The first of 2^bits cells for a node.
    fn take_node(&mut self, bits: u32) -> u32 {
        if let Some(base) = self.free[bits as usize].pop() {
            self.more[base as usize..][..1 << bits].fill(0);
            return base;
        }
        let base = self.cells.len();
        self.cells.resize(base + (1 << bits), Cell::default());
        base as u32
    }

    /// Gives the node of a cell back, and the nodes below it, if the cell has one.
    fn give_nodes_back(&mut self, cell: Cell) {
        if cell.kind() == NODE {
            let bits = cell.blocks();
            (cell.base..cell.base + (1 << bits))
                .for_each(|at| self.give_nodes_back(self.cells[at as usize]));
            self.free[bits as usize].push(cell.base);
        }
    }

    /// The cell for keys within 2^shift ones from a distance on.
    fn fit(&mut self, keys: &[i64], start: u64, shift: u32, maker: &mut Maker<'_>) -> Cell {
        // 1. One key's rows are divided by number,
        if shift == 0 || (keys.len() > CROWDED && keys.first() == keys.last()) {
            return maker.cell(keys.len(), SPREAD);
        }
        // 2. other ones evenly between the blocks, if that divides them well.
        let blocks = keys.len().div_ceil(maker.rows_of_block) as u32;
        let codes = keys.iter().map(|&key| code(self.distance(key), shift));
        if keys.len() <= CROWDED || !is_crowded(codes, blocks) {
            return maker.cell(keys.len(), EVEN);
        }
        // 3. Otherwise its cells are looked at each by itself.
        let bits =
            (keys.len() / ROWS_OF_CELL).max(2).ilog2().clamp(LEAST_BITS, MOST_BITS).min(shift);
        let base = self.take_node(bits);
        self.divide(keys, start, shift - bits, base as usize..(base + (1 << bits)) as usize, maker);
        Cell { base, extent: bits << 2 | NODE }
    }

    /// The place at a distance that is within the span.
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

    /// The block for a row, and the code of its key there; nobody's if the key is beyond all cells.
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

    /// The blocks at the ends of a probe's keys.
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

    /// The distances of the keys of a range that are within the cells, if there are any.
    pub(super) fn distances(&self, low: i64, high: i64) -> Option<(u64, u64)> {
        let from = self.distance(low.max(self.start));
        (high >= low.max(self.start) && from <= self.span)
            .then(|| (from, self.distance(high).min(self.span)))
    }

    /// The greatest distance from the first key.
    pub(super) fn span(&self) -> u64 {
        self.span
    }

    /// The cell at a distance from the first key.
    pub(super) fn leaf(&self, distance: u64) -> BlockCell {
        let Place { cell, at, shift, .. } = self.place(distance);
        BlockCell { cell, at, shift, start: distance >> shift << shift }
    }

    /// Notes that the cell of a key has got one more block, or one less. Says whether the cell has
    /// so many that it should be made anew.
    pub(super) fn count_more(&mut self, key: i64, by: i32) -> bool {
        let place = self.place(self.distance(key));
        let more = &mut self.more[place.at];
        *more = more.saturating_add_signed(by);
        *more * 4 > place.cell.blocks()
    }

    /// The cell of a key, if it has got so many more blocks that it should be made anew.
    pub(super) fn crowded(&self, key: i64) -> Option<BlockCell> {
        let leaf = self.leaf(self.distance(key));
        (self.more[leaf.at] * 4 > leaf.cell.blocks()).then_some(leaf)
    }

    /// The cells that have the blocks of a cell of the root.
    pub(super) fn leaves(&self, nth: usize) -> Vec<BlockCell> {
        let first = (nth as u64) << self.shift;
        let last = first + ((1 << self.shift) - 1);
        let next = |leaf: &BlockCell| (leaf.last() < last).then(|| self.leaf(leaf.last() + 1));
        std::iter::successors(Some(self.leaf(first)), next).collect()
    }

    /// A cell of the root, unless it has cells of its own.
    pub(super) fn root_leaf(&self, nth: usize) -> Option<BlockCell> {
        let cell = self.cells[nth];
        let (shift, start) = (self.shift, (nth as u64) << self.shift);
        (cell.kind() != NODE).then_some(BlockCell { cell, at: nth, shift, start })
    }

    /// Moves up by some cells of the root, or down: the lowest ones go, whose blocks have been
    /// given back, and as many empty ones come above; or the other way round. Whether there are
    /// keys as far.
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

    /// Gives a cell blocks for rows with these codes, between which its keys are divided evenly as
    /// before; the cell, if that divides them well.
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

    /// Makes a cell anew for its keys, which are in order.
    pub(super) fn refit(&mut self, leaf: &BlockCell, keys: &[i64], maker: &mut Maker<'_>) {
        self.cells[leaf.at] = self.fit(keys, leaf.start, leaf.shift, maker);
        self.more.resize(self.cells.len(), 0);
        self.more[leaf.at] = 0;
    }
}

/// Whether an even division leaves a noticeable part of the rows in blocks with too many, or there
/// are too many at all.
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

/// The code of a key at a distance, in a cell of 2^shift keys: the bits in which their keys differ,
/// or the upper 16 of them.
#[inline(always)]
fn code(distance: u64, shift: u32) -> u16 {
    // How far into the cell it is, as a part of 2^64.
    let part = distance << 1 << (u64::BITS - 1 - shift);
    (part >> (u64::BITS - u16::BITS)) as u16
}

/// Whether several keys of a cell of 2^shift keys have the same code.
#[inline(always)]
fn is_vague(shift: u32) -> bool {
    shift > u16::BITS
}
