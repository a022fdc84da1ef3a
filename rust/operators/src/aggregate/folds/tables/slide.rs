//! Combines cells into windows. Each window consists of two runs of states that meet at a fixed
//! border.
//!
//! A window consists of a fixed number of adjacent slices. Time is divided into *blocks* with the
//! same number of slices. A window then consists of the end of one block and the start of the next:
//!
//! ```text
//!   slices    │ 0  1  2  3  4 │ 5  6  7  8  9 │          size = 5 slices
//!   window          └─────────┼───────┘                  2..7
//!                     suffix  │ prefix
//!             ◀───────────────┤├──────────────▶
//!             folded backwards  folded forwards
//! ```
//!
//! All suffixes of a block are computed once, working backward from the end of the block, and then
//! kept. Slices then move from the suffix to the prefix one by one. Each cell is therefore combined
//! twice. A result takes one combination regardless of the window size, and no function needs an
//! inverse. The method is van Herk's, from "A fast algorithm for local minimum and maximum filters
//! on rectangular and octagonal kernels" (1992), applied to whole columns of keys. Which states are
//! combined, and in which order, depends only on the slice numbers. Floating-point results are
//! therefore always bit-identical.
//!
//! Each block's windows are computed independently, from the cells of two blocks, so threads do not
//! share any mutable data.

use std::ops::Range;

use tidegate_structures::memory;
use tidegate_structures::memory::pages::{Pages, UnwrittenPages};

use super::part::{SliceCells, TimePart};
use crate::aggregate::output::{OutputColumn, OutputValue, Page, Window};
use crate::aggregate::slices::steps::{Present, Step, WindowSteps};
use crate::aggregate::slices::suffix_prefix::{SliceStates, SuffixPrefix};
use crate::aggregate::slices::windows::{Slice, Windows};
use crate::aggregate::states::functions::Function;

/// The approximate number of rows per page. A column of 8-byte values then takes 2 MiB, which is
/// one huge page.
pub(in crate::aggregate) const PAGE_ROWS: usize = 1 << 18;

/// The approximate minimum number of result rows per task.
const TASK_ROWS: u128 = 1 << 16;

/// The windows that begin in a nonempty range of slices in one block.
#[derive(Clone, Debug)]
pub(in crate::aggregate) struct Piece {
    windows: Range<Slice>,
    /// The slice at which suffixes end and prefixes start.
    end: Slice,
}

impl Piece {
    fn most_windows(&self, stride: i64) -> u128 {
        ((self.windows.end - self.windows.start + stride - 1) / stride) as u128
    }
}

/// The pieces that one thread computes one after another.
#[derive(Debug, Default)]
pub(in crate::aggregate) struct PieceTask {
    pub(in crate::aggregate) pieces: Vec<Piece>,
    /// The maximum number of rows that the pieces can produce.
    rows: u128,
}

/// All slices with cells, in time order.
pub(in crate::aggregate) struct CellSlices<'a> {
    parts: &'a [TimePart],
    all: Vec<(usize, &'a SliceCells)>,
}

impl<'a> CellSlices<'a> {
    pub(in crate::aggregate) fn new(parts: &'a [TimePart]) -> Self {
        let of =
            |(at, part): (usize, &'a TimePart)| part.slices.iter().map(move |slice| (at, slice));
        CellSlices { parts, all: parts.iter().enumerate().flat_map(of).collect() }
    }

    fn place(&self, slice: Slice) -> usize {
        self.all.partition_point(|(_, cells)| cells.slice < slice)
    }

    fn cells(&self, slices: Range<Slice>) -> usize {
        self.all[self.place(slices.start)..self.place(slices.end)]
            .iter()
            .map(|(_, slice)| slice.cells.len())
            .sum()
    }

    /// Returns all windows that contain rows, divided into tasks of a certain size. Tasks depend
    /// only on the data, not on the number of threads.
    pub(in crate::aggregate) fn tasks(
        &self,
        windows: &Windows,
        key_count: usize,
    ) -> Vec<PieceTask> {
        let (length, stride) = (windows.length(), windows.stride());
        let made = windows.starting_slices();
        let mut blocks: Vec<i64> = Vec::new();
        for (_, cells) in &self.all {
            let block = cells.slice.div_euclid(length);
            // A window that begins in the previous block can extend into this one, unless it grows.
            let extends = length > 1 && !windows.grow();
            blocks.extend(extends.then(|| block - 1).into_iter().chain([block]));
        }
        blocks.sort_unstable();
        blocks.dedup();
        let mut tasks = Vec::new();
        let mut task = PieceTask::default();
        for block in blocks {
            let border = |block: i64| {
                let slice = i128::from(block) * i128::from(length);
                slice.clamp(Slice::MIN.into(), Slice::MAX.into()) as Slice
            };
            let (start, end) = (border(block), border(block + 1));
            let most = if windows.grow() { end } else { end.saturating_add(length) };
            let cells = self.cells(start..most);
            // Windows that grow are the prefixes of a block, without suffixes of the previous block.
            let (start, end, next) = match windows.grow() {
                true => (start.saturating_sub(length - 1), start.saturating_add(1), start),
                false => (start, end, end),
            };
            let count = (length + stride - 1) / stride;
            let rows = count as u128 * cells.min(key_count) as u128;
            // Each piece folds the cells of both blocks. This cost should be small compared to the
            // cost of the piece's results.
            let piece_count =
                (rows / (4 * cells as u128).max(TASK_ROWS)).clamp(1, 256).min(count as u128) as i64;
            for number in 0..piece_count {
                let cut = |number: i64| match number == piece_count {
                    true => end,
                    false => {
                        start
                            + (i128::from(end - start) * i128::from(number)
                                / i128::from(piece_count)) as i64
                    }
                };
                let begin = cut(number).max(made.start)..cut(number + 1).min(made.end);
                let first = (begin.start + stride - 1).div_euclid(stride) * stride;
                if first >= begin.end {
                    continue;
                }
                let piece = Piece { windows: begin, end: next };
                task.rows += piece.most_windows(stride) * cells.min(key_count) as u128;
                task.pieces.push(piece);
                if task.rows >= TASK_ROWS {
                    tasks.push(std::mem::take(&mut task));
                }
            }
        }
        tasks.extend((!task.pieces.is_empty()).then_some(task));
        tasks
    }
}

/// The keys in use and their indices, as scratch space for one thread.
pub(in crate::aggregate) struct Scratch {
    /// One bit per key.
    used: Vec<u64>,
    /// One bit per word of `used`.
    summary: Vec<u64>,
    local: Vec<u32>,
}

impl Scratch {
    pub(in crate::aggregate) fn new(key_count: usize) -> Self {
        let words = key_count.div_ceil(64);
        Scratch {
            used: vec![0; words],
            summary: vec![0; words.div_ceil(64)],
            local: memory::filled(key_count, 0),
        }
    }

    fn insert(&mut self, key: u32) {
        let word = key as usize / 64;
        self.used[word] |= 1 << (key % 64);
        self.summary[word / 64] |= 1 << (word % 64);
    }

    /// Removes the keys, numbers them in ascending order, and returns them in that order.
    fn drain(&mut self) -> Vec<u32> {
        let mut keys = Vec::new();
        for (at, summary) in self.summary.iter_mut().enumerate() {
            for word in bits(std::mem::take(summary)) {
                let word = at * 64 + word;
                for bit in bits(std::mem::take(&mut self.used[word])) {
                    let key = word * 64 + bit;
                    self.local[key] = keys.len() as u32;
                    keys.push(key as u32);
                }
            }
        }
        keys
    }
}

/// Returns the positions of the set bits in ascending order.
fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
        word &= word - 1;
        Some(bit)
    })
}

/// The cells from which the windows of a piece are computed.
pub(in crate::aggregate) struct CellBlock {
    /// The keys that occur, in ascending order. Within the block, a key's index in this list
    /// identifies the key.
    keys: Vec<u32>,
    slices: Vec<SlicePlace>,
    /// The key index of each cell, slice by slice.
    locals: Vec<u32>,
    /// The number of slices in the first of the two blocks.
    suffix: usize,
}

struct SlicePlace {
    slice: Slice,
    part: usize,
    cells: Range<usize>,
    locals: Range<usize>,
}

impl CellBlock {
    pub(in crate::aggregate) fn new(
        piece: &Piece,
        slices: &CellSlices<'_>,
        windows: &Windows,
        scratch: &mut Scratch,
    ) -> Self {
        let last = (piece.windows.end - 1).div_euclid(windows.stride()) * windows.stride();
        let first = if windows.grow() { piece.end } else { piece.windows.start };
        let range = slices.place(first)..slices.place(last.saturating_add(windows.length()));
        let suffix = slices.place(piece.end) - range.start;
        let cells = || slices.all[range.clone()].iter();
        let keys_of =
            |(part, slice): &(usize, &SliceCells)| &slices.parts[*part].keys[slice.cells.clone()];
        for slice in cells() {
            keys_of(slice).iter().for_each(|key| scratch.insert(*key));
        }
        let keys = scratch.drain();
        let mut locals = memory::vec(cells().map(|(_, slice)| slice.cells.len()).sum());
        let mut place = |found: &(usize, &SliceCells)| {
            let first = locals.len();
            locals.extend(keys_of(found).iter().map(|key| scratch.local[*key as usize]));
            let (part, slice) = *found;
            SlicePlace {
                slice: slice.slice,
                part,
                cells: slice.cells.clone(),
                locals: first..locals.len(),
            }
        };
        let slices = cells().map(&mut place).collect();
        CellBlock { keys, slices, locals, suffix }
    }

    fn locals(&self, slice: &SlicePlace) -> &[u32] {
        &self.locals[slice.locals.clone()]
    }
}

/// Writes the pages of a task.
pub(in crate::aggregate) struct Writer<'a> {
    sliders: Vec<Box<dyn Slide + 'a>>,
    windows: Vec<Window>,
    keys: UnwrittenPages<u32>,
    filled: usize,
    /// The maximum number of rows that remain to be written.
    rows: u128,
}

impl<'a> Writer<'a> {
    pub(in crate::aggregate) fn new(
        task: &PieceTask,
        functions: &'a [Box<dyn FunctionStates>],
    ) -> Self {
        let sliders = functions.iter().map(|function| function.slider()).collect();
        Writer {
            sliders,
            windows: Vec::new(),
            keys: UnwrittenPages::default(),
            filled: 0,
            rows: task.rows,
        }
    }

    /// Computes the results of a piece. `take` receives each full page, and `announce` receives the
    /// number of rows about to be written.
    pub(in crate::aggregate) fn write<E>(
        &mut self,
        piece: &Piece,
        block: &CellBlock,
        windows: &Windows,
        announce: &impl Fn(usize) -> Result<(), E>,
        take: &mut impl FnMut(Page) -> Result<(), E>,
    ) -> Result<(), E> {
        let (length, stride) = (windows.length(), windows.stride());
        let mut present = Present::default();
        present.make_room(block.keys.len());
        let mut new_suffix = Some(0..block.suffix);
        block.slices[..block.suffix].iter().for_each(|slice| present.insert(block.locals(slice)));
        // The slices of the window: the rest of the suffix, and the prefix.
        let (mut begin, mut end) = (0, block.suffix);
        let mut steps = WindowSteps::default();
        let mut start = (piece.windows.start + stride - 1).div_euclid(stride) * stride;
        while start < piece.windows.end {
            let next = |from: usize, slice: Slice| {
                from + block.slices[from..].iter().take_while(|placed| placed.slice < slice).count()
            };
            let from_suffix = begin..next(begin, start).min(block.suffix);
            let to_prefix = end..next(end, start.saturating_add(length));
            (begin, end) = (from_suffix.end, to_prefix.end);
            for slice in &block.slices[from_suffix.clone()] {
                present.remove(block.locals(slice));
            }
            for slice in &block.slices[to_prefix.clone()] {
                present.insert(block.locals(slice));
            }
            let following = if present.cells > 0 {
                start.saturating_add(stride)
            } else if let Some(slice) = block.slices.get(end) {
                // Continue with the first window that reaches the next slice.
                (slice.slice - length + stride).div_euclid(stride) * stride
            } else {
                break;
            };
            if self.filled + steps.keys.len() + block.keys.len() > self.keys.len() {
                self.apply(&mut steps, block, announce)?;
                self.flush(take)?;
                self.open(block.keys.len());
            }
            let step = Step { new_suffix: new_suffix.take(), from_suffix, to_prefix, rows: 0 };
            steps.push(step, start, windows, present.all());
            start = following;
        }
        self.apply(&mut steps, block, announce)
    }

    /// Appends the results of further steps to the existing results.
    fn apply<E>(
        &mut self,
        steps: &mut WindowSteps,
        block: &CellBlock,
        announce: &impl Fn(usize) -> Result<(), E>,
    ) -> Result<(), E> {
        let rows = steps.keys.len();
        announce(rows)?;
        let keys = self.keys[self.filled..self.filled + rows].iter_mut();
        keys.zip(&steps.keys).for_each(|(key, local)| key.set(block.keys[*local as usize]));
        self.sliders.iter_mut().for_each(|slider| slider.write(block, steps, self.filled));
        self.windows.append(&mut steps.windows);
        self.filled += rows;
        *steps = WindowSteps::default();
        Ok(())
    }

    /// Passes on the rows that have been written.
    pub(in crate::aggregate) fn flush<E>(
        &mut self,
        take: &mut impl FnMut(Page) -> Result<(), E>,
    ) -> Result<(), E> {
        let rows = std::mem::take(&mut self.filled);
        if rows == 0 {
            return Ok(());
        }
        self.rows -= rows as u128;
        take(Page {
            rows,
            windows: std::mem::take(&mut self.windows),
            keys: std::mem::take(&mut self.keys).written_upto(rows),
            columns: self.sliders.iter_mut().map(|slider| slider.take(rows)).collect(),
        })
    }

    /// Allocates a page with room for at least `rows` rows.
    fn open(&mut self, rows: usize) {
        let room = self.rows.min(PAGE_ROWS as u128) as usize;
        self.keys = Pages::unwritten(room.max(rows));
        self.sliders.iter_mut().for_each(|slider| slider.open(self.keys.len()));
    }
}

/// Computes the results of one function, piece by piece.
pub(in crate::aggregate) trait Slide {
    /// Allocates a page.
    fn open(&mut self, rows: usize);

    /// Writes the results of the next windows, starting at row `first` of the page.
    fn write(&mut self, block: &CellBlock, steps: &WindowSteps, first: usize);

    /// Hands out the page.
    fn take(&mut self, rows: usize) -> OutputColumn;
}

/// The states of one function of any type.
pub(in crate::aggregate) trait FunctionStates: Send + Sync {
    fn slider(&self) -> Box<dyn Slide + '_>;
}

/// The states of one function's cells, part by part.
pub(in crate::aggregate) struct CellStateParts<F: Function>(
    pub(in crate::aggregate) Vec<Vec<F::State>>,
);

impl<F: Function> FunctionStates for CellStateParts<F> {
    fn slider(&self) -> Box<dyn Slide + '_> {
        Box::new(Slider::<F> {
            states: &self.0,
            suffix_prefix: SuffixPrefix::default(),
            values: UnwrittenPages::default(),
            missing: Vec::new(),
        })
    }
}

struct Slider<'a, F: Function> {
    states: &'a [Vec<F::State>],
    suffix_prefix: SuffixPrefix<F>,
    values: UnwrittenPages<F::Output>,
    missing: Vec<usize>,
}

/// The cells of a block, as stored for one function.
struct BlockCells<'a, F: Function> {
    states: &'a [Vec<F::State>],
    block: &'a CellBlock,
}

impl<F: Function> SliceStates<F> for BlockCells<'_, F> {
    fn key_count(&self) -> usize {
        self.block.keys.len()
    }

    fn keys(&self, slice: usize) -> &[u32] {
        self.block.locals(&self.block.slices[slice])
    }

    fn cells(&self, slice: usize) -> &[F::State] {
        let slice = &self.block.slices[slice];
        &self.states[slice.part][slice.cells.clone()]
    }
}

impl<F: Function> Slide for Slider<'_, F> {
    fn open(&mut self, rows: usize) {
        self.values = Pages::unwritten(rows);
    }

    fn write(&mut self, block: &CellBlock, steps: &WindowSteps, first: usize) {
        let cells = BlockCells::<F> { states: self.states, block };
        self.suffix_prefix.slide(steps, &cells, first, &mut self.values, &mut self.missing);
    }

    fn take(&mut self, rows: usize) -> OutputColumn {
        let values = std::mem::take(&mut self.values).written_upto(rows);
        OutputColumn {
            values: F::Output::column(values),
            missing: std::mem::take(&mut self.missing),
        }
    }
}
