//! Buffers that store rows by key. For each key and side, a buffer contains the row numbers
//! contiguously in merged order.
//!
//! A replica's buffers share one array of cells, in which each buffer has its own block. Rows are
//! appended at the end of a buffer. A read skips old rows at the front of the buffer, so they do
//! not have to be removed one by one. When a block is full, the rows that are still needed are
//! moved to the start of the block, or to another block with enough room.

/// The number of row numbers that are read or written together, even if fewer are needed. Most rows
/// have at most this many matches.
pub(super) const LANES: usize = 8;

/// The approximate number of bytes per row in a buffer if several rows have the same key. This
/// includes the row's number and the free space after it.
pub const NUMBER_BYTES: usize = 2 * size_of::<u32>();

/// The minimum number of free cells at the end of a new block.
const LEAST_ROOM: usize = 4;

/// The number of unused cells above which moving all buffers can be worthwhile (64 KiB).
const WORTH_PACKING: usize = if cfg!(test) { 1 << 10 } else { 1 << 14 };

/// The cells that contain the rows on one side with the same key.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Buffer {
    /// The position of the oldest row that may still be needed.
    begin: u32,
    /// The position after the newest row.
    end: u32,
    /// The start of the block.
    start: u32,
    limit: u32,
}

impl Buffer {
    #[inline]
    pub(super) fn len(&self) -> usize {
        (self.end - self.begin) as usize
    }

    fn size(&self) -> usize {
        (self.limit - self.start) as usize
    }
}

/// The blocks of all buffers. A row is represented by the low bits of its number. The numbers of
/// any two rows that are compared differ by less than 2^31.
#[derive(Debug)]
pub(super) struct Cells {
    /// The cells of all blocks, followed by [`LANES`] extra cells, because that many cells are read
    /// together.
    numbers: Vec<u32>,
    /// The starts of unused blocks, grouped by size class.
    free: Vec<Vec<u32>>,
    /// The number of cells in unused blocks.
    idle: usize,
}

impl Default for Cells {
    fn default() -> Self {
        Cells { numbers: vec![0; LANES], free: Vec::new(), idle: 0 }
    }
}

/// Returns whether row `number` arrived before row `other`.
#[inline]
fn is_before(number: u32, other: u32) -> bool {
    number.wrapping_sub(other).cast_signed() < 0
}

/// Returns the smallest size class whose blocks have at least `cells` cells. There are four classes
/// per octave.
fn class_of(cells: usize) -> usize {
    let octave = (cells.max(4).ilog2() - 2) as usize;
    octave * 4 + cells.max(4).div_ceil(1 << octave) - 4
}

/// Returns the number of cells in each block of this size class.
fn size_of_class(class: usize) -> usize {
    (4 + class % 4) << (class / 4)
}

/// Returns the class of a block with room for `rows` rows and some future ones.
fn class_with_room(rows: usize) -> usize {
    class_of(rows + rows / 4 + rows.min(LEAST_ROOM) + LEAST_ROOM)
}

impl Cells {
    #[inline(always)]
    fn lanes(&self, from: u32) -> &[u32; LANES] {
        let from = from as usize;
        self.numbers[from..from + LANES].try_into().expect("so many lanes")
    }

    /// Returns how many rows in a buffer, counted from position `from`, arrived before row
    /// `number`. The code does not branch on the values, because the outcome would be
    /// unpredictable.
    #[inline(always)]
    fn count_before(&self, mut from: u32, end: u32, number: u32) -> u32 {
        let start = from;
        loop {
            let left = (end - from).cast_signed();
            let lanes = (0..LANES as i32).zip(self.lanes(from));
            let before = lanes
                .map(|(lane, &row)| u32::from(is_before(row, number) & (lane < left)))
                .sum::<u32>();
            from += before;
            if before < LANES as u32 {
                return from - start;
            }
        }
    }

    /// Skips the rows that arrived before row `number`.
    #[inline(always)]
    pub(super) fn drop_before(&self, buffer: &mut Buffer, number: u32) {
        buffer.begin += self.count_before(buffer.begin, buffer.end, number);
    }

    /// Stores a row. Rows before `oldest` are no longer needed.
    #[inline]
    pub(super) fn push(&mut self, buffer: &mut Buffer, number: u32, oldest: u32) {
        if buffer.end == buffer.limit {
            self.make_room(buffer, oldest);
        }
        self.numbers[buffer.end as usize] = number;
        buffer.end += 1;
    }

    /// Makes room in a full block, or allocates another block. The number of free cells is then at
    /// least a quarter of the number of copied rows.
    #[inline(never)]
    fn make_room(&mut self, buffer: &mut Buffer, oldest: u32) {
        self.drop_before(buffer, oldest);
        let (rows, from) = (buffer.len(), buffer.begin as usize);
        let class = class_with_room(rows);
        // Memory from a burst is released afterwards.
        let fits = (size_of_class(class)..=4 * size_of_class(class)).contains(&buffer.size());
        let to = if fits { buffer.start } else { self.take(class) };
        self.numbers.copy_within(from..from + rows, to as usize);
        if !fits {
            self.free(*buffer);
            (buffer.start, buffer.limit) = (to, to + size_of_class(class) as u32);
        }
        (buffer.begin, buffer.end) = (to, to + rows as u32);
    }

    /// Returns a reused or new block of this size class.
    fn take(&mut self, class: usize) -> u32 {
        let size = size_of_class(class);
        if let Some(start) = self.free.get_mut(class).and_then(Vec::pop) {
            self.idle -= size;
            return start;
        }
        let start = self.numbers.len() - LANES;
        if self.numbers.len() + size > self.numbers.capacity() {
            // The array grows less than a vector would by default, since it is most of the state.
            self.numbers.reserve_exact(size + start / 8);
        }
        self.numbers.resize(start + size + LANES, 0);
        u32::try_from(start + size).expect("a replica has fewer than 2^32 cells");
        start as u32
    }

    /// Releases the block of a buffer.
    pub(super) fn free(&mut self, buffer: Buffer) {
        if buffer.size() > 0 {
            let class = class_of(buffer.size());
            if self.free.len() <= class {
                self.free.resize_with(class + 1, Vec::new);
            }
            self.free[class].push(buffer.start);
            self.idle += buffer.size();
        }
    }

    /// Returns whether many cells are unused.
    pub(super) fn is_sparse(&self) -> bool {
        self.idle > WORTH_PACKING.max(self.numbers.len() / 4)
    }

    /// Moves all buffers into as few cells as possible, dropping the rows before the `oldest` row
    /// on each side.
    pub(super) fn pack<'a>(&mut self, buffers: impl Iterator<Item = (&'a mut Buffer, u32)>) {
        let mut packed = Cells::default();
        for (buffer, oldest) in buffers {
            self.drop_before(buffer, oldest);
            let (rows, from) = (buffer.len(), buffer.begin as usize);
            *buffer = Buffer::default();
            if rows > 0 {
                let class = class_with_room(rows);
                let start = packed.take(class);
                let end = start + rows as u32;
                packed.numbers[start as usize..end as usize]
                    .copy_from_slice(&self.numbers[from..from + rows]);
                *buffer =
                    Buffer { begin: start, end, start, limit: start + size_of_class(class) as u32 };
            }
        }
        *self = packed;
    }

    /// Appends a buffer's rows to `found`: either all rows, or only those before row `upto`.
    #[inline(always)]
    pub(super) fn copy(&self, buffer: &Buffer, upto: Option<u32>, found: &mut FoundNumbers) {
        let rows = match upto {
            None => buffer.len(),
            Some(upto) => self.count_before(buffer.begin, buffer.end, upto) as usize,
        };
        found.make_room(rows);
        let (from, at) = (buffer.begin as usize, found.len);
        found.numbers[at..at + LANES].copy_from_slice(self.lanes(buffer.begin));
        if rows > LANES {
            found.numbers[at + LANES..at + rows]
                .copy_from_slice(&self.numbers[from + LANES..from + rows]);
        }
        found.len += rows;
    }

    /// Returns the amount of memory held, in bytes.
    pub(super) fn memory(&self) -> usize {
        let of_free: usize = self.free.iter().map(Vec::capacity).sum();
        (self.numbers.capacity() + of_free) * size_of::<u32>()
    }
}

/// Row numbers, followed by room for a few more.
#[derive(Debug)]
pub(super) struct FoundNumbers {
    numbers: Vec<u32>,
    len: usize,
}

impl Default for FoundNumbers {
    fn default() -> Self {
        FoundNumbers { numbers: vec![0; LANES], len: 0 }
    }
}

impl FoundNumbers {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the numbers, followed by arbitrary values.
    #[inline]
    pub(super) fn padded(&self) -> &[u32] {
        &self.numbers
    }

    pub(super) fn numbers_mut(&mut self) -> &mut [u32] {
        &mut self.numbers[..self.len]
    }

    #[inline]
    fn make_room(&mut self, rows: usize) {
        let needed = self.len + rows.max(LANES) + LANES;
        if self.numbers.len() < needed {
            self.numbers.resize(needed.next_power_of_two(), 0);
        }
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    pub(super) fn drop_front(&mut self, gone: usize) {
        self.numbers.copy_within(gone..self.len, 0);
        self.len -= gone;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    fn rows(cells: &Cells, buffer: &Buffer, upto: Option<u32>) -> Vec<u32> {
        let mut found = FoundNumbers::default();
        cells.copy(buffer, upto, &mut found);
        found.numbers[..found.len].to_vec()
    }

    #[test]
    fn a_class_has_blocks_that_are_large_enough_and_hardly_larger() {
        for cells in 1..10_000 {
            let size = size_of_class(class_of(cells));
            assert!(size >= cells && size <= (cells + cells / 4 + 1).max(4), "{size} for {cells}");
            assert_eq!(class_of(size), class_of(cells), "a block is of the class it was taken for");
        }
    }

    proptest! {
        /// The row numbers are about to wrap around.
        #[test]
        fn oracle_queues(
            steps in prop::collection::vec((0_usize..3, 0_u32..20, 0_u32..60, any::<bool>()), 1..400),
            start in prop_oneof![Just(0_u32), Just(u32::MAX - 50)],
        ) {
            let (mut cells, mut buffers) = (Cells::default(), [Buffer::default(); 3]);
            let mut expected = vec![VecDeque::new(); 3];
            let mut oldest = start;
            for (number, (at, leave, upto, packs)) in steps.into_iter().enumerate() {
                let number = start.wrapping_add(number as u32);
                let (buffer, queue): (&mut Buffer, &mut VecDeque<u32>) = (&mut buffers[at], &mut expected[at]);
                cells.push(buffer, number, oldest);
                queue.push_back(number);
                if leave < 10 {
                    let bound = number.wrapping_sub(leave);
                    if is_before(oldest, bound) {
                        oldest = bound;
                    }
                }
                queue.retain(|&row| !is_before(row, oldest));
                cells.drop_before(buffer, oldest);
                prop_assert_eq!(&rows(&cells, buffer, None), queue.make_contiguous());
                let upto = number.wrapping_sub(upto);
                let reached: Vec<u32> = queue.iter().copied().filter(|&row| is_before(row, upto)).collect();
                prop_assert_eq!(rows(&cells, buffer, Some(upto)), reached);
                if packs && number.is_multiple_of(7) {
                    cells.pack(buffers.iter_mut().map(|buffer| (buffer, oldest)));
                }
                prop_assert!(cells.numbers.len() < 3 * 64 + 1000);
            }
        }
    }

    #[test]
    fn blocks_that_were_given_back_are_used_again() {
        let mut cells = Cells::default();
        let mut all = 0;
        for round in 0..100 {
            let mut buffers = [Buffer::default(); 10];
            for number in 0..100 {
                buffers.iter_mut().for_each(|buffer| cells.push(buffer, number, 0));
            }
            buffers.into_iter().for_each(|buffer| cells.free(buffer));
            all = if round == 0 { cells.numbers.len() } else { all };
        }
        assert_eq!(cells.numbers.len(), all);
        assert!(cells.is_sparse());
        cells.pack([].into_iter());
        assert!(cells.memory() < 100 && !cells.is_sparse());
    }
}
