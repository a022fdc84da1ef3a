//! Indexes that look up the rows in a sliding window by value. Rows are inserted and removed
//! continuously, and are looked up by range.
//!
//! ```text
//!   rows enter ──▶ ┌──────── window ────────┐ ──▶ rows leave, in order of arrival
//!                  │ 7  3  9  3  1  8  2  5 │
//!                  └────────────┬───────────┘
//!                               ▼                 "whose value is in 2..=3, of rows 4..8?"
//!                    an index: 1 2 3 3 5 7 8 9    ─────────────────────────────────────▶ their numbers
//! ```
//!
//! An index identifies a row by its value and number. Values are represented by 64-bit *keys*,
//! which have the same order. The *number* increases with every row and wraps around after 2^32.
//! All indexes are [`WindowIndex`]es and return the same rows:
//!
//! - [`BucketIndex`]: a value's block is computed rather than searched for, and many rows are
//!   looked up at the same time. This is the fastest index.
//! - [`BPlusTree`]: rows are inserted and removed one by one. The bucket index uses a B+-tree for
//!   values outside its blocks.
//!
//! The folders `bucket/` and `bplus/` contain these two indexes.
//!
//! ```
//! use tidegate_structures::index::{BucketIndex, Probe, WindowIndex};
//!
//! let mut index = BucketIndex::new();
//! for (row, key) in [7, 3, 9, 3].into_iter().enumerate() {
//!     index.insert(key, row as u32);
//! }
//! index.remove(7, 0); // remove the oldest row
//!
//! let mut found = Vec::new();
//! index.find(&Probe { low: 3, high: 8, from: 1, to: 4 }, &mut found);
//! found.sort_unstable();
//! assert_eq!(found, [1, 3]); // in order of arrival
//! ```
//!
//! All indexes except the bucket index are from Shahvarani and Jacobsen, "Parallel Index-based
//! Stream Join on a Multicore CPU" (SIGMOD 2020), sections 2 and 3.
#![doc = include_str!("README.md")]

mod bplus;
mod bucket;
pub mod search;

pub use bplus::BPlusTree;
pub use bucket::BucketIndex;

/// A search for rows with these keys and numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The lowest key.
    pub low: i64,
    /// The highest key, inclusive. If this key is below `low`, the range is empty.
    pub high: i64,
    /// The first number.
    pub from: u32,
    /// The end of the number range (exclusive). `to` must be less than 2^31 rows after `from`.
    pub to: u32,
}

impl Probe {
    /// Returns whether a row number is in the probe's range. Numbers wrap around.
    #[inline]
    pub fn takes(&self, row: u32) -> bool {
        row.wrapping_sub(self.from) < self.to.wrapping_sub(self.from)
    }
}

/// The key and number of a row in an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The row's value, or a code with the same order.
    pub key: i64,
    /// The row's number in its stream, modulo 2^32.
    pub row: u32,
}

/// The rows in a window, indexed by key. A window has fewer than 2^31 rows. Rows are removed in the
/// order in which they were inserted.
pub trait WindowIndex: Send + Sync {
    /// Inserts a row that is newer than all others.
    fn insert(&mut self, key: i64, row: u32);

    /// Removes the oldest row. `key` must be the oldest row's key.
    fn remove(&mut self, key: i64, row: u32);

    /// Appends the numbers of the rows that match the probe to `found`, in any order. Every row
    /// number in the probe's range must belong to a row that has been inserted and not removed.
    fn find(&self, probe: &Probe, found: &mut Vec<u32>);

    /// Returns the number of rows that have been inserted but not removed.
    fn len(&self) -> usize;

    /// Returns the number of bytes in use.
    fn memory(&self) -> usize;

    /// Removes all rows.
    fn clear(&mut self);

    /// Returns how many times new rows have been merged with older ones. Indexes that do not merge
    /// return 0.
    fn merges(&self) -> u64 {
        0
    }

    /// Returns whether there are no rows.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Inserts rows. Each row must be newer than all rows before it.
    fn insert_all(&mut self, rows: &[Entry]) {
        rows.iter().for_each(|row| self.insert(row.key, row.row));
    }

    /// Removes the oldest rows, oldest first.
    fn remove_all(&mut self, rows: &[Entry]) {
        rows.iter().for_each(|row| self.remove(row.key, row.row));
    }

    /// Like [`find`](Self::find), but for several probes, one after the other. Appends the length
    /// of `found` after each probe to `ends`.
    fn find_all(&self, probes: &[Probe], found: &mut Vec<u32>, ends: &mut Vec<u32>) {
        for probe in probes {
            self.find(probe, found);
            ends.push(found.len() as u32);
        }
    }
}

impl<I: WindowIndex + ?Sized> WindowIndex for Box<I> {
    fn insert(&mut self, key: i64, row: u32) {
        (**self).insert(key, row);
    }

    fn remove(&mut self, key: i64, row: u32) {
        (**self).remove(key, row);
    }

    fn find(&self, probe: &Probe, found: &mut Vec<u32>) {
        (**self).find(probe, found);
    }

    fn len(&self) -> usize {
        (**self).len()
    }

    fn memory(&self) -> usize {
        (**self).memory()
    }

    fn clear(&mut self) {
        (**self).clear();
    }

    fn merges(&self) -> u64 {
        (**self).merges()
    }

    fn insert_all(&mut self, rows: &[Entry]) {
        (**self).insert_all(rows);
    }

    fn remove_all(&mut self, rows: &[Entry]) {
        (**self).remove_all(rows);
    }

    fn find_all(&self, probes: &[Probe], found: &mut Vec<u32>, ends: &mut Vec<u32>) {
        (**self).find_all(probes, found, ends);
    }
}

/// Returns whether a row is at or after row `first` in the same window.
#[inline]
pub fn is_live(row: u32, first: u32) -> bool {
    row.wrapping_sub(first).cast_signed() >= 0
}

/// Appends the numbers of the rows that match the probe. The rows are in key order, starting at the
/// probe's low end. Returns whether a key above the probe's high end was reached.
#[inline]
pub fn take_run(keys: &[i64], rows: &[u32], probe: &Probe, found: &mut Vec<u32>) -> bool {
    let end = keys.iter().position(|&key| key > probe.high);
    let rows = &rows[..end.unwrap_or(keys.len())];
    found.extend(rows.iter().copied().filter(|&row| probe.takes(row)));
    end.is_some()
}
