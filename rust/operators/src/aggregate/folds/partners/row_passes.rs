//! Passes over the rows of a table with row-based windows.
//!
//! The rows of each key are numbered, and a pane has as many rows as a window. For each row, a
//! forward pass folds the rows from the start of its pane up to the row. The result is the row's
//! prefix. A backward pass folds the rows from each row to the end of its pane. The result is the
//! suffix for the last row of the window that begins at the row. This last row has already been
//! visited, so its number is kept for as long as it may be needed.
//!
//! ```text
//!   rows of a key    0  1  2 │ 3  4  5 │ 6           panes of 3 rows
//!   backward                   ◀─ 4: 45              the suffix for row 6
//!   forward                              6 ─▶        the prefix for row 6
//! ```
//!
//! No searches are needed, and rows are read and written almost sequentially. The rows of all keys
//! may be interleaved.

use std::ops::Range;

use tidegate_structures::memory;
use tidegate_structures::memory::pages::Pages;

use super::blocks::FoldedWord;
use super::words::{Operation, Word};
use crate::driver::{Driver, Stopped};
use crate::interval::PartnerColumns;
use crate::rows::{Closed, NO_ROW};

/// The number of rows whose words are written at a time.
const BLOCK_ROWS: usize = if cfg!(test) { 3 } else { 1 << 11 };

/// The maximum number of row numbers that are kept per row.
const KEPT_PER_ROW: usize = 2;

/// The number of row numbers that may always be kept.
const KEPT_ROWS: usize = 1 << 12;

/// Rows that are numbered within their keys, and row-based windows over these rows.
pub(in crate::aggregate) struct RowPasses<'a> {
    keys: Option<&'a [u32]>,
    /// The number of rows of each key.
    counts: Vec<u32>,
    rows: usize,
    /// The number of rows in a window.
    size: usize,
}

impl<'a> RowPasses<'a> {
    /// Prepares passes over rows whose times are their numbers within their keys. Each window
    /// consists of a row and the rows before it. Returns `None` for any other rows or windows, or if
    /// too many row numbers would have to be kept.
    pub(in crate::aggregate) fn new(columns: PartnerColumns<'a>) -> Option<Self> {
        let PartnerColumns { left, right, key_count, interval, with_prevailing } = columns;
        let are_same = std::ptr::eq(left.ts, right.ts)
            && match (left.keys, right.keys) {
                (Some(left), Some(right)) => std::ptr::eq(left, right),
                (None, None) => true,
                _ => false,
            };
        let size = usize::try_from(interval.lower?.unsigned_abs()).ok()?;
        let is_window = interval.upper == Some(0)
            && interval.lower? < 0
            && interval.closed == Closed::Right
            && !with_prevailing;
        let rows = right.ts.len();
        let kept = key_count.checked_mul(size)?;
        if !are_same || !is_window || kept > KEPT_ROWS.max(KEPT_PER_ROW * rows) {
            return None;
        }
        let mut counts = memory::filled(key_count, 0_u32);
        for (row, &number) in right.ts.iter().enumerate() {
            let count = counts.get_mut(right.keys.map_or(0, |keys| keys[row]) as usize)?;
            if number != i64::from(*count) {
                return None;
            }
            *count += 1;
        }
        Some(RowPasses { keys: right.keys, counts, rows, size })
    }

    /// Folds words in both directions.
    pub(in crate::aggregate) fn fold(
        &self,
        words: &[Word<'_>],
        driver: &Driver,
    ) -> Result<Vec<FoldedWord>, Stopped> {
        let mut folded: Vec<_> = words.iter().map(|_| FoldedWord::default()).collect();
        let tasks: Vec<(usize, bool)> =
            (0..words.len()).flat_map(|word| [(word, false), (word, true)]).collect();
        let found = driver.map(tasks.clone(), |(word, is_forward)| {
            let word = &words[word];
            match word.operation {
                Operation::Add => self.run::<{ Operation::Add as u8 }>(word, is_forward, driver),
                Operation::AddFloats => {
                    self.run::<{ Operation::AddFloats as u8 }>(word, is_forward, driver)
                }
                Operation::Greatest => {
                    self.run::<{ Operation::Greatest as u8 }>(word, is_forward, driver)
                }
            }
        })?;
        for ((word, is_forward), pages) in tasks.into_iter().zip(found) {
            let folded = &mut folded[word];
            *(if is_forward { &mut folded.prefixes } else { &mut folded.suffixes }) = pages?;
        }
        Ok(folded)
    }

    fn run<const OPERATION: u8>(
        &self,
        word: &Word<'_>,
        is_forward: bool,
        driver: &Driver,
    ) -> Result<Pages<u64>, Stopped> {
        match is_forward {
            true => self.prefixes::<OPERATION>(word, driver),
            false => self.suffixes::<OPERATION>(word, driver),
        }
    }

    #[inline]
    fn key(&self, row: usize) -> usize {
        self.keys.map_or(0, |keys| keys[row] as usize)
    }

    /// For each row, folds the rows from the start of its pane up to the row.
    fn prefixes<const OPERATION: u8>(
        &self,
        word: &Word<'_>,
        driver: &Driver,
    ) -> Result<Pages<u64>, Stopped> {
        let operation = operation::<OPERATION>();
        let mut states = memory::filled(self.counts.len(), PaneState::new(operation, 0));
        let mut own = memory::filled(BLOCK_ROWS, 0_u64);
        let mut found = Pages::unwritten(self.rows);
        for start in (0..self.rows).step_by(BLOCK_ROWS) {
            driver.check()?;
            let block = start..self.rows.min(start + BLOCK_ROWS);
            let own = &mut own[..block.len()];
            (word.write)(block.clone(), own, 1);
            for ((row, &own), found) in block.clone().zip(&*own).zip(&mut found[block]) {
                let state = &mut states[self.key(row)];
                let before = if state.place == 0 { operation.empty() } else { state.word };
                state.word = operation.apply(before, own);
                found.set(state.word);
                state.place += 1;
                if state.place as usize == self.size {
                    state.place = 0;
                }
            }
        }
        Ok(found.written())
    }

    /// For each row, folds the rows of its window that are in the previous pane.
    fn suffixes<const OPERATION: u8>(
        &self,
        word: &Word<'_>,
        driver: &Driver,
    ) -> Result<Pages<u64>, Stopped> {
        let operation = operation::<OPERATION>();
        let size = self.size;
        // The position of the key's last row in its pane.
        let last = |&count: &u32| (count.saturating_sub(1) as usize % size) as u32;
        let mut states: Vec<PaneState> =
            memory::collect(self.counts.iter().map(|count| PaneState::new(operation, last(count))));
        let mut visited = memory::filled(self.counts.len() * size, NO_ROW);
        let mut own = memory::filled(BLOCK_ROWS, 0_u64);
        // A window that covers a whole pane, or begins before the first row, has no suffix.
        let mut found = Pages::filled(self.rows, operation.empty());
        let mut end = self.rows;
        while end > 0 {
            driver.check()?;
            let block: Range<usize> = end.saturating_sub(BLOCK_ROWS)..end;
            end = block.start;
            let own = &mut own[..block.len()];
            (word.write)(block.clone(), own, 1);
            for (row, &own) in block.zip(&*own).rev() {
                let key = self.key(row);
                let state = &mut states[key];
                let place = state.place as usize;
                let after = if place + 1 == size { operation.empty() } else { state.word };
                state.word = operation.apply(after, own);
                let visited = &mut visited[key * size..(key + 1) * size];
                visited[place] = row as u32;
                if place == 0 {
                    state.place = (size - 1) as u32;
                    continue;
                }
                state.place -= 1;
                // The window that begins here ends at the row with this position in the next pane.
                let row = visited[place - 1];
                if row != NO_ROW {
                    found[row as usize] = state.word;
                }
            }
        }
        Ok(found)
    }
}

/// The state of a key's current pane.
#[derive(Clone, Copy, Debug)]
struct PaneState {
    word: u64,
    /// The position of the key's next row in its pane.
    place: u32,
}

impl PaneState {
    fn new(operation: Operation, place: u32) -> Self {
        PaneState { word: operation.empty(), place }
    }
}

/// Returns the operation with this number, which the compiler can use as a constant.
#[inline(always)]
const fn operation<const OPERATION: u8>() -> Operation {
    const ALL: [Operation; 3] = [Operation::Add, Operation::AddFloats, Operation::Greatest];
    ALL[OPERATION as usize]
}
