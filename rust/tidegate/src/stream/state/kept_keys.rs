//! The keys of the rows that a join keeps, for joins that do not index keys.

use std::collections::VecDeque;

use arrow_array::RecordBatch;
use tidegate_operators::rows::{NO_KEY, Side};

use super::keys::KeyNumbers;
use crate::Result;
use crate::columns::keys::KeyColumn;

/// The numbers of keys. A key keeps its number as long as any row has that key.
#[derive(Debug)]
pub(crate) struct KeptKeys {
    numbers: KeyNumbers,
    /// The key of each kept row, in offset order.
    kept: [VecDeque<u32>; 2],
    /// The number of kept rows with each key, indexed by the key's number.
    rows: Vec<u32>,
}

impl KeptKeys {
    pub(crate) fn new(columns: Vec<KeyColumn>) -> Self {
        KeptKeys {
            numbers: KeyNumbers::new(columns),
            kept: [VecDeque::new(), VecDeque::new()],
            rows: Vec::new(),
        }
    }

    /// Adds the keys of further rows on a side, and returns their numbers. A row that matches
    /// nothing gets [`NO_KEY`].
    pub(crate) fn push(&mut self, side: Side, batch: &RecordBatch) -> Result<Vec<u32>> {
        let keys = self.numbers.of(side, batch)?;
        for &key in keys.iter().filter(|&&key| key != NO_KEY) {
            if self.rows.len() <= key as usize {
                self.rows.resize((key as usize + 1).next_power_of_two(), 0);
            }
            self.rows[key as usize] += 1;
        }
        self.kept[side as usize].extend(&keys);
        Ok(keys)
    }

    /// Returns the keys of the kept rows on a side.
    pub(crate) fn of_kept(&self, side: Side) -> Vec<u32> {
        self.kept[side as usize].iter().copied().collect()
    }

    /// Drops the first rows on each side until only the given number of rows remains.
    pub(crate) fn keep(&mut self, rows: [usize; 2]) {
        let mut silent = Vec::new();
        for (kept, rows) in self.kept.iter_mut().zip(rows) {
            let gone = kept.drain(..kept.len() - rows);
            gone.for_each(|key| leave(&mut self.rows, key, &mut silent));
        }
        self.numbers.release(&silent);
    }

    /// On each side, keeps only the rows at these offsets.
    pub(crate) fn retain(&mut self, offsets: [&[u32]; 2]) {
        let mut silent = Vec::new();
        for (kept, offsets) in self.kept.iter_mut().zip(offsets) {
            let (mut staying, mut offset) = (offsets.iter().peekable(), 0);
            kept.retain(|&key| {
                let stays = staying.next_if_eq(&&offset).is_some();
                if !stays {
                    leave(&mut self.rows, key, &mut silent);
                }
                offset += 1;
                stays
            });
        }
        self.numbers.release(&silent);
    }

    /// Returns whether the kept rows at these offsets have the same key.
    pub(crate) fn are_equal(&self, left: u32, right: u32) -> bool {
        let key = self.kept[0][left as usize];
        key != NO_KEY && key == self.kept[1][right as usize]
    }

    /// Returns the number of bytes held.
    pub(crate) fn memory(&self) -> usize {
        let of_rows: usize = self.kept.iter().map(VecDeque::capacity).sum();
        self.numbers.memory() + (of_rows + self.rows.capacity()) * size_of::<u32>()
    }
}

/// Records that a row with the given key has been dropped. If no other row has this key, the key is
/// added to `silent`.
fn leave(rows: &mut [u32], key: u32, silent: &mut Vec<u32>) {
    if key == NO_KEY {
        return;
    }
    let rows = &mut rows[key as usize];
    *rows -= 1;
    if *rows == 0 {
        silent.push(key);
    }
}
