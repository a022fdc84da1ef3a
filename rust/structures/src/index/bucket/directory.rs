//! From a key to its block, by arithmetic: a tree of cells as deep as the distribution of keys asks for.

use std::ops::Range;

/// Rows that a block gets when the directory is made: room for as many more, so that few blocks overflow.
const ROWS_OF_BLOCK: usize = 3;

/// Rows of a block above which a cell is divided further.
const CROWDED: usize = 6;

/// Rows of a cell of a node.
const ROWS_OF_CELL: usize = 64;

/// Cells of a node, as bits: all cells of a root this large are in a core's cache.
const MOST_BITS: u32 = 14;
const LEAST_BITS: u32 = 4;

/// A part of the keys, all cells of a node being as wide. Keys within it are counted from its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cell {
    /// The first of its blocks, or of its cells if it has any.
    base: u32,
    /// Its blocks, between which its keys are divided evenly.
    blocks: u32,
    /// How many of a key's lower bits are to be told apart within its blocks.
    code_bits: u8,
    /// It has as many cells as so many bits have values; none if there are no bits.
    bits: u8,
    /// Whether all its keys are one, whose rows are divided between the blocks by number.
    is_spread: bool,
}

/// Rows of the last block when it is not to be shared.
const CLOSED: usize = usize::MAX / 2;

/// Where the rows of a key are.
#[derive(Clone, Debug, Default)]
pub(super) struct Directory {
    /// Cells of the root, then those of the others, children after their parents.
    cells: Vec<Cell>,
    /// The first key, and the greatest distance from it; keys outside belong to the blocks at the ends.
    start: i64,
    span: u64,
    /// A cell of the root has 2^shift keys.
    shift: u32,
    /// All blocks.
    blocks: u32,
    /// Rows of light cells that the last block has.
    open: usize,
}

/// Codes that are looked for in a block, both ends included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reach {
    pub(super) low: u32,
    pub(super) high: u32,
}

/// The blocks that may have keys of a range.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Blocks {
    pub(super) first: usize,
    pub(super) last: usize,
    /// Before this block the low end bounds codes, and from that one on the high end does.
    low_upto: usize,
    high_from: usize,
    reach: Reach,
    /// Whether other keys may have the codes of the ends.
    pub(super) is_vague: bool,
}

impl Blocks {
    /// The codes to look for in one of the blocks.
    #[inline(always)]
    pub(super) fn reach(&self, block: usize) -> Reach {
        Reach {
            low: if block < self.low_upto { self.reach.low } else { 0 },
            high: if block >= self.high_from { self.reach.high } else { u32::MAX },
        }
    }
}

/// How far beyond the keys there are to be cells, in eighths of their range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Margins {
    pub(super) below: u32,
    pub(super) above: u32,
}

impl Directory {
    /// A directory for keys like these, which are in order.
    pub(super) fn new(keys: &[i64], margins: Margins) -> Self {
        let mut directory = Directory::default();
        if keys.is_empty() {
            // One block for all keys there are.
            directory.cells = vec![Cell { blocks: 1, code_bits: u64::BITS as u8, ..Cell::default() }; 2];
            (directory.start, directory.span, directory.shift, directory.blocks) =
                (i64::MIN, u64::MAX, u64::BITS - 1, 1);
            return directory;
        }
        // A few keys far away from all others must not make the cells so wide that all others are in one.
        let rare = keys.len() / 512;
        let (low, high) = (keys[rare], keys[keys.len() - 1 - rare]);
        let beyond = |eighths: u32| (low.abs_diff(high) / 8).saturating_mul(u64::from(eighths));
        directory.start = low.saturating_sub_unsigned(beyond(margins.below));
        directory.span = directory.start.abs_diff(high.saturating_add_unsigned(beyond(margins.above)));
        let bits = (keys.len() / ROWS_OF_CELL).max(2).ilog2().clamp(LEAST_BITS, MOST_BITS);
        directory.shift = (u64::BITS - directory.span.leading_zeros()).saturating_sub(bits);
        let cells = (directory.span >> directory.shift) as usize + 1;
        directory.divide(keys, directory.start, directory.shift, cells);
        directory
    }

    /// Blocks there are to be.
    pub(super) fn blocks(&self) -> usize {
        self.blocks as usize
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        self.cells.capacity() * size_of::<Cell>()
    }

    /// Whether a key is beyond all cells: below, above.
    #[inline]
    pub(super) fn is_beyond(&self, key: i64) -> (bool, bool) {
        (key < self.start, key > self.start && key.abs_diff(self.start) > self.span)
    }

    /// Makes the cells of a node, each 2^shift keys wide and the first one beginning at `start`, whose keys are given.
    fn divide(&mut self, keys: &[i64], start: i64, shift: u32, cells: usize) {
        // Blocks that cells share are of one node, in which a code of all its bits tells keys apart.
        self.open = CLOSED;
        let node_bits = shift + cells.next_power_of_two().ilog2();
        let node = self.cells.len();
        self.cells.resize(node + cells, Cell::default());
        let mut parts: Vec<Range<usize>> = Vec::with_capacity(cells);
        let mut from = 0;
        for cell in 0..cells {
            let end = if cell + 1 == cells {
                keys.len()
            } else {
                let last = ((cell as u64 + 1) << shift) - 1;
                from + keys[from..].partition_point(|&key| key < start || key.abs_diff(start) <= last)
            };
            parts.push(from..end);
            from = end;
        }
        let expected = expected_rows(&parts);
        for (cell, (part, expected)) in parts.into_iter().zip(expected).enumerate() {
            let begins = start.wrapping_add_unsigned((cell as u64) << shift);
            self.cells[node + cell] = self.fit(&keys[part], begins, shift, node_bits, expected);
        }
        self.open = CLOSED;
    }

    /// The cell for keys within 2^shift ones from `start` on.
    fn fit(&mut self, keys: &[i64], start: i64, shift: u32, node_bits: u32, expected: usize) -> Cell {
        // 1. A cell with few rows shares a block with its neighbours.
        if expected <= ROWS_OF_BLOCK {
            if self.open + expected > ROWS_OF_BLOCK {
                self.blocks += 1;
                self.open = 0;
            }
            self.open += expected;
            let code_bits = node_bits as u8;
            return Cell { base: self.blocks - 1, blocks: 1, code_bits, ..Cell::default() };
        }
        let blocks = expected.div_ceil(ROWS_OF_BLOCK) as u32;
        // 2. One key's rows are divided by number, other ones evenly between the blocks, if that divides them well.
        let is_spread = shift == 0 || (keys.len() > CROWDED && keys.first() == keys.last());
        let cell = Cell { base: self.blocks, blocks, code_bits: shift as u8, bits: 0, is_spread };
        if is_spread || shift == 0 || keys.len() <= CROWDED || !is_crowded(keys, start, shift, blocks) {
            self.blocks += blocks;
            self.open = CLOSED;
            return cell;
        }
        // 3. Otherwise its cells are looked at each by itself.
        let bits = (keys.len() / ROWS_OF_BLOCK).max(2).ilog2().clamp(LEAST_BITS, MOST_BITS).min(shift);
        let base = self.cells.len() as u32;
        self.divide(keys, start, shift - bits, 1 << bits);
        Cell { base, bits: bits as u8, ..Cell::default() }
    }

    /// A key's distance from the first, and its cell with the bits that the cell's keys differ in.
    #[inline(always)]
    fn cell(&self, key: i64) -> (u64, Cell, u32) {
        let distance = key.max(self.start).abs_diff(self.start).min(self.span);
        let mut shift = self.shift;
        let mut cell = self.cells[(distance >> shift) as usize];
        while cell.bits != 0 {
            let within = distance & ((1 << shift) - 1);
            shift -= u32::from(cell.bits);
            cell = self.cells[cell.base as usize + (within >> shift) as usize];
        }
        (distance, cell, shift)
    }

    /// The block for a row, and the code of its key there.
    #[inline(always)]
    pub(super) fn block(&self, key: i64, row: u32) -> (usize, u32) {
        let (distance, cell, shift) = self.cell(key);
        let mut place = part(distance, shift);
        if cell.is_spread {
            place = u64::from(row.wrapping_mul(0x9E37_79B9)) << 32;
        }
        (cell.base as usize + nth(place, cell.blocks), code(distance, cell))
    }

    /// The blocks that may have keys of a range.
    #[inline(always)]
    pub(super) fn range(&self, low: i64, high: i64) -> Blocks {
        let (low_distance, first, first_shift) = self.cell(low);
        let (high_distance, last, last_shift) = self.cell(high);
        let in_first = if first.is_spread { 0 } else { nth(part(low_distance, first_shift), first.blocks) };
        let in_last = match last.is_spread {
            true => last.blocks as usize - 1,
            false => nth(part(high_distance, last_shift), last.blocks),
        };
        // Keys beyond the cells have the codes of their ends.
        let is_end = |distance: u64| distance == 0 || distance == self.span;
        let is_vague = |distance: u64, cell: Cell| u32::from(cell.code_bits) > u32::BITS || is_end(distance);
        Blocks {
            first: first.base as usize + in_first,
            last: last.base as usize + in_last,
            low_upto: (first.base + first.blocks) as usize,
            high_from: last.base as usize,
            reach: Reach { low: code(low_distance, first), high: code(high_distance, last) },
            is_vague: is_vague(low_distance, first) | is_vague(high_distance, last),
        }
    }
}

/// The code of a key in the blocks of its cell: the bits in which their keys differ, or the upper 32 of them.
#[inline(always)]
fn code(distance: u64, cell: Cell) -> u32 {
    (part(distance, u32::from(cell.code_bits)) >> u32::BITS) as u32
}

/// How far into a cell of 2^shift keys a key is, as a part of 2^64.
#[inline]
fn part(distance: u64, shift: u32) -> u64 {
    if shift == 0 { 0 } else { distance << (u64::BITS - shift) }
}

/// Which of so many blocks has what is that far into a cell.
#[inline]
fn nth(part: u64, blocks: u32) -> usize {
    ((u128::from(part) * u128::from(blocks)) >> u64::BITS) as usize
}

/// Whether an even division leaves a noticeable part of the rows in blocks with too many.
fn is_crowded(keys: &[i64], start: i64, shift: u32, blocks: u32) -> bool {
    let (mut block, mut rows, mut too_many) = (0, 0_usize, 0);
    for &key in keys {
        let at = nth(part(key.max(start).abs_diff(start), shift), blocks);
        if at != block {
            (block, rows) = (at, 0);
        }
        rows += 1;
        too_many += usize::from(rows > CROWDED);
    }
    too_many * 16 > keys.len()
}

/// For how many rows each cell is to have room: its own, and half of what the cells nearby have on average, since the
/// distribution may be moving.
fn expected_rows(parts: &[Range<usize>]) -> Vec<usize> {
    let near = parts.len().div_ceil(16);
    let mean: Vec<usize> =
        parts.chunks(near).map(|some| some.iter().map(Range::len).sum::<usize>() / some.len()).collect();
    let nearby = |at: usize| {
        let around = at.saturating_sub(1)..mean.len().min(at + 2);
        mean[around].iter().copied().max().unwrap_or(0)
    };
    parts.iter().enumerate().map(|(at, part)| part.len().max(nearby(at / near) / 2)).collect()
}
