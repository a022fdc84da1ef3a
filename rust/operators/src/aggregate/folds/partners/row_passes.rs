//! Passes over the rows of a table with row-based windows.
//!
//! The rows of each key are numbered, and a pane has as many rows as a window. Each key has two
//! lists of words: the words of the rows in the current pane, and the suffixes of the previous
//! pane. A window consists of a suffix of the previous pane and a prefix of the current one, so
//! each row combines one word of each. When a pane is complete, its words are folded from the end
//! and become the suffixes for the next pane.
//!
//! ```text
//!   rows of a key    0  1  2 │ 3  4  5 │ 6           panes of 3 rows
//!   suffixes                   345 45 5              of the previous pane
//!   window of row 6               └──────┘           45 and the prefix 6
//! ```
//!
//! No searches are needed, and rows are read and written sequentially. The rows of all keys may be
//! interleaved. Rows are divided into ranges. Before a thread folds a range, it collects the last
//! rows of each key before the range, and adds them to the lists.

use std::ops::Range;

use tidegate_structures::memory;
use tidegate_structures::memory::pages::{Pages, Slot};
use tidegate_structures::memory::partition::ranges;

use super::blocks::FoldedWord;
use super::words::{Operation, Word};
use crate::driver::{Driver, PART_ROWS, Stopped};
use crate::interval::PartnerColumns;
use crate::order::RangeCounts;
use crate::rows::Closed;

/// The number of rows whose words are written at a time.
const BLOCK_ROWS: usize = if cfg!(test) { 3 } else { 1 << 11 };

/// The minimum number of rows in a range.
const RANGE_ROWS: usize = if cfg!(test) { 5 } else { PART_ROWS };

/// The minimum number of rows in a range per word that is kept.
const ROWS_PER_KEPT: usize = if cfg!(test) { 0 } else { 8 };

/// The maximum number of words that are kept per row.
const KEPT_PER_ROW: usize = 2;

/// The number of words that may always be kept.
const KEPT_WORDS: usize = 1 << 12;

/// Rows that are numbered within their keys, and row-based windows over these rows.
pub(in crate::aggregate) struct RowPasses<'a> {
    keys: Option<&'a [u32]>,
    ranges: Vec<RowRange>,
    rows: usize,
    key_count: usize,
    /// The number of rows in a window.
    size: usize,
}

/// Adjacent rows that a thread folds.
struct RowRange {
    rows: Range<usize>,
    /// The earlier rows that share a window with rows in the range, in ascending order.
    needed: Vec<u32>,
}

impl<'a> RowPasses<'a> {
    /// Prepares passes over rows whose times are their numbers within their keys. Each window
    /// consists of a row and the rows before it. Returns `None` for any other rows or windows, or if
    /// too many words would have to be kept.
    pub(in crate::aggregate) fn new(
        columns: PartnerColumns<'a>,
        driver: &Driver,
    ) -> Result<Option<Self>, Stopped> {
        let PartnerColumns { left, right, key_count, interval, with_prevailing } = columns;
        let are_same = std::ptr::eq(left.ts, right.ts)
            && match (left.keys, right.keys) {
                (Some(left), Some(right)) => std::ptr::eq(left, right),
                (None, None) => true,
                _ => false,
            };
        let (Some(lower), Some(0)) = (interval.lower, interval.upper) else { return Ok(None) };
        let is_window = lower < 0 && interval.closed == Closed::Right && !with_prevailing;
        let rows = right.ts.len();
        let size = usize::try_from(lower.unsigned_abs()).unwrap_or(usize::MAX);
        let kept = key_count.saturating_mul(size);
        if !are_same || !is_window || kept > KEPT_WORDS.max(KEPT_PER_ROW.saturating_mul(rows)) {
            return Ok(None);
        }
        let least = RANGE_ROWS.max(ROWS_PER_KEPT * kept);
        let (ranges, before) = match right.keys {
            None => {
                let ranges = ranges(rows, driver.parts(rows, least));
                let before = ranges.iter().map(|range| vec![range.start as u32]).collect();
                (ranges, before)
            }
            Some(keys) => match RangeCounts::new(keys, key_count, least, driver)? {
                Some(counts) => (counts.ranges, counts.before),
                None => return Ok(None),
            },
        };
        let mut passes = RowPasses { keys: right.keys, ranges: Vec::new(), rows, key_count, size };
        let tasks = ranges.into_iter().zip(before).collect();
        let prepared =
            driver.map(tasks, |(rows, before)| passes.prepare(right.ts, rows, before))?;
        let Some(ranges) = prepared.into_iter().collect() else { return Ok(None) };
        passes.ranges = ranges;
        Ok(Some(passes))
    }

    /// Checks the numbers of the rows in a range, and finds the earlier rows that are needed. Also
    /// receives the number of earlier rows of each key. Returns `None` if a row has another number.
    fn prepare(
        &self,
        numbers: &[i64],
        rows: Range<usize>,
        mut before: Vec<u32>,
    ) -> Option<RowRange> {
        let needed = self.needed(rows.start, &before);
        for (row, &number) in rows.clone().zip(&numbers[rows.clone()]) {
            let next = before.get_mut(self.key(row))?;
            if number != i64::from(*next) {
                return None;
            }
            *next += 1;
        }
        Some(RowRange { rows, needed })
    }

    /// Returns the rows before `start` that are in the current or the previous pane of their key,
    /// given the number of earlier rows of each key.
    fn needed(&self, start: usize, before: &[u32]) -> Vec<u32> {
        let of_key = |&before: &u32| {
            let before = before as usize;
            (before % self.size + self.size).min(before)
        };
        let mut missing: Vec<usize> = memory::collect(before.iter().map(of_key));
        let total = missing.iter().sum();
        let mut needed = memory::vec(total);
        for row in (0..start).rev() {
            if needed.len() == total {
                break;
            }
            let missing = &mut missing[self.key(row)];
            if *missing > 0 {
                *missing -= 1;
                needed.push(row as u32);
            }
        }
        needed.reverse();
        needed
    }

    #[inline]
    fn key(&self, row: usize) -> usize {
        self.keys.map_or(0, |keys| keys[row] as usize)
    }

    /// Folds the words of each row's window.
    pub(in crate::aggregate) fn fold(
        &self,
        words: &[Word<'_>],
        driver: &Driver,
    ) -> Result<Vec<FoldedWord>, Stopped> {
        let mut found: Vec<_> = words.iter().map(|_| Pages::unwritten(self.rows)).collect();
        let mut tasks = Vec::new();
        for (word, found) in words.iter().zip(&mut found) {
            let mut rest = &mut found[..];
            for range in &self.ranges {
                let (own, others) = std::mem::take(&mut rest).split_at_mut(range.rows.len());
                rest = others;
                tasks.push((word, range, own));
            }
        }
        let done = driver.map(tasks, |(word, range, found): (&Word<'_>, &RowRange, _)| {
            const ADD: u8 = Operation::Add as u8;
            const ADD_FLOATS: u8 = Operation::AddFloats as u8;
            const GREATEST: u8 = Operation::Greatest as u8;
            match word.operation {
                Operation::Add => self.fold_range::<ADD>(word, range, found, driver),
                Operation::AddFloats => self.fold_range::<ADD_FLOATS>(word, range, found, driver),
                Operation::Greatest => self.fold_range::<GREATEST>(word, range, found, driver),
            }
        })?;
        done.into_iter().collect::<Result<(), _>>()?;
        let whole = words.iter().zip(found);
        Ok(whole.map(|(word, found)| FoldedWord::whole(word.operation, found.written())).collect())
    }

    fn fold_range<const OPERATION: u8>(
        &self,
        word: &Word<'_>,
        range: &RowRange,
        found: &mut [Slot<u64>],
        driver: &Driver,
    ) -> Result<(), Stopped> {
        let mut panes = KeyPanes::<OPERATION>::new(self.key_count, self.size);
        let mut own = memory::filled(BLOCK_ROWS, 0_u64);
        for block in range.needed.chunks(BLOCK_ROWS) {
            driver.check()?;
            for &row in block {
                let row = row as usize;
                (word.write)(row..row + 1, &mut own[..1], 1);
                panes.add(self.key(row), own[0]);
            }
        }
        let starts = range.rows.clone().step_by(BLOCK_ROWS);
        for (start, found) in starts.zip(found.chunks_mut(BLOCK_ROWS)) {
            driver.check()?;
            let block = start..start + found.len();
            let own = &mut own[..found.len()];
            (word.write)(block.clone(), own, 1);
            match self.keys {
                None => {
                    found
                        .iter_mut()
                        .zip(&*own)
                        .for_each(|(slot, own)| slot.set(panes.add(0, *own)));
                }
                Some(keys) => {
                    for ((slot, &own), &key) in found.iter_mut().zip(&*own).zip(&keys[block]) {
                        slot.set(panes.add(key as usize, own));
                    }
                }
            }
        }
        Ok(())
    }
}

/// The current and the previous pane of each key.
struct KeyPanes<const OPERATION: u8> {
    size: usize,
    prefixes: Vec<Prefix>,
    /// For each key, the words of the rows in the current pane. At positions that the current pane
    /// has not reached, the suffixes of the previous pane.
    words: Vec<u64>,
}

/// The folded rows of a key's current pane.
#[derive(Clone, Copy)]
struct Prefix {
    word: u64,
    /// The number of rows.
    rows: usize,
}

impl<const OPERATION: u8> KeyPanes<OPERATION> {
    fn new(key_count: usize, size: usize) -> Self {
        let empty = operation::<OPERATION>().empty();
        KeyPanes {
            size,
            prefixes: memory::filled(key_count, Prefix { word: empty, rows: 0 }),
            words: memory::filled(key_count * size, empty),
        }
    }

    /// Adds a key's next row, and returns the word for the window that ends with this row.
    #[inline(always)]
    fn add(&mut self, key: usize, own: u64) -> u64 {
        let operation = operation::<OPERATION>();
        let prefix = &mut self.prefixes[key];
        let words = &mut self.words[key * self.size..][..self.size];
        prefix.word = operation.apply(prefix.word, own);
        words[prefix.rows] = own;
        prefix.rows += 1;
        if let Some(&suffix) = words.get(prefix.rows) {
            return operation.apply(suffix, prefix.word);
        }
        let whole = operation.apply(operation.empty(), prefix.word);
        *prefix = Prefix { word: operation.empty(), rows: 0 };
        let mut suffix = operation.empty();
        for word in words.iter_mut().rev() {
            suffix = operation.apply(suffix, *word);
            *word = suffix;
        }
        whole
    }
}

/// Returns the operation with this number, which the compiler can use as a constant.
#[inline(always)]
const fn operation<const OPERATION: u8>() -> Operation {
    const ALL: [Operation; 3] = [Operation::Add, Operation::AddFloats, Operation::Greatest];
    ALL[OPERATION as usize]
}
