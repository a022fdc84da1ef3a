//! Indexes of the rows of a sliding window by value: rows enter and leave all the time, and are
//! looked for by range.
//!
//! ```text
//!   rows enter ──▶ ┌──────── window ────────┐ ──▶ rows leave, in the order in which they came
//!                  │ 7  3  9  3  1  8  2  5 │
//!                  └────────────┬───────────┘
//!                               ▼                 "whose value is in 2..=3, of rows 4..8?"
//!                    an index: 1 2 3 3 5 7 8 9    ─────────────────────────────────────▶ their numbers
//! ```
//!
//! An index knows a row by its value, a *key* of 64 bits whose order is that of the values, and by
//! its *number*, which rises with every row and wraps around after 2^32. All indexes are
//! [`WindowIndex`]es and answer alike:
//!
//! - [`BucketIndex`]: the block of a value is computed, not searched; many rows are looked for at
//!   the same time. The fastest.
//! - [`BPlusTree`]: rows are inserted and removed one by one. Values that the blocks do not have
//!   are in one.
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
//! index.remove(7, 0); // the oldest row leaves
//!
//! let mut found = Vec::new();
//! index.find(&Probe { low: 3, high: 8, from: 1, to: 4 }, &mut found);
//! found.sort_unstable();
//! assert_eq!(found, [1, 3]); // in the order in which they came
//! ```
//!
//! All but the first are from Shahvarani and Jacobsen, "Parallel Index-based Stream Join on a
//! Multicore CPU" (SIGMOD 2020), sections 2 and 3.
#![doc = include_str!("README.md")]

mod bplus;
mod bucket;
pub mod search;

pub use bplus::BPlusTree;
pub use bucket::BucketIndex;

/// A search for rows with these keys and numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The least key.
    pub low: i64,
    /// The greatest key, included; there is none if it is below `low`.
    pub high: i64,
    /// The first number.
    pub from: u32,
    /// The number after the last one. Less than 2^31 rows lie between the two.
    pub to: u32,
}

impl Probe {
    /// Whether a row's number is among those looked for. Numbers wrap around.
    #[inline]
    pub fn takes(&self, row: u32) -> bool {
        row.wrapping_sub(self.from) < self.to.wrapping_sub(self.from)
    }
}

/// A row in an index: its key and its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Its value, or a code for it of the same order.
    pub key: i64,
    /// Its number among the rows of its stream, modulo 2^32.
    pub row: u32,
}

/// The rows of a window, by key. There are less than 2^31, and they leave in the order in which
/// they came.
pub trait WindowIndex: Send + Sync {
    /// Adds a row that is younger than all others.
    fn insert(&mut self, key: i64, row: u32);

    /// Removes the oldest row, whose key is given.
    fn remove(&mut self, key: i64, row: u32);

    /// Adds the numbers of the rows that the probe takes to `found`, in any order. Each of the
    /// probe's numbers belongs to a row that has been inserted and not removed.
    fn find(&self, probe: &Probe, found: &mut Vec<u32>);

    /// Rows that were inserted and not removed.
    fn len(&self) -> usize;

    /// Bytes held.
    fn memory(&self) -> usize;

    /// Removes all rows.
    fn clear(&mut self);

    /// How often new rows have been merged with the others, by indexes that do so.
    fn merges(&self) -> u64 {
        0
    }

    /// Whether there are no rows.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds rows, each younger than those before.
    fn insert_all(&mut self, rows: &[Entry]) {
        rows.iter().for_each(|row| self.insert(row.key, row.row));
    }

    /// Removes the oldest rows, oldest first.
    fn remove_all(&mut self, rows: &[Entry]) {
        rows.iter().for_each(|row| self.remove(row.key, row.row));
    }

    /// What [`find`](Self::find) gives for each probe, one after the other, and in `ends` the
    /// length of `found` after each.
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

/// Whether a row is not before the row `first` of the same window.
#[inline]
pub fn is_live(row: u32, first: u32) -> bool {
    row.wrapping_sub(first).cast_signed() >= 0
}

/// Adds those rows that the probe takes of rows in key order that begin at its low end, and says
/// whether a key above its high end came.
#[inline]
pub fn take_run(keys: &[i64], rows: &[u32], probe: &Probe, found: &mut Vec<u32>) -> bool {
    let end = keys.iter().position(|&key| key > probe.high);
    let rows = &rows[..end.unwrap_or(keys.len())];
    found.extend(rows.iter().copied().filter(|&row| probe.takes(row)));
    end.is_some()
}
