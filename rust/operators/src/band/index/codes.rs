//! The columns kept for the rows on one side: times and codes.

use std::ops::Range;

use tidegate_structures::index::Entry;

use super::bands::Bands;
use crate::rows::{KeptColumn, KeptColumns, RowLog};

/// The times of rows, and their codes in the columns with bands.
#[derive(Debug)]
pub(crate) struct CodeColumns {
    ts: KeptColumn<i64>,
    /// For each row, a flag that is set if its values can match any row.
    joins: KeptColumn<bool>,
    /// The rows' codes, by column.
    codes: Vec<KeptColumn<i64>>,
}

impl CodeColumns {
    /// Creates `columns` empty code columns.
    pub(super) fn new(columns: usize) -> Self {
        CodeColumns {
            ts: KeptColumn::default(),
            joins: KeptColumn::default(),
            codes: (0..columns).map(|_| KeptColumn::default()).collect(),
        }
    }

    /// Exchanges two columns.
    pub(super) fn swap(&mut self, a: usize, b: usize) {
        self.codes.swap(a, b);
    }

    /// Keeps only the rows at these offsets.
    pub(super) fn retain(&mut self, offsets: &[u32]) {
        self.ts.retain(offsets);
        self.joins.retain(offsets);
        self.codes.iter_mut().for_each(|codes| codes.retain(offsets));
    }

    /// Appends rows.
    pub(super) fn extend(&mut self, ts: impl Iterator<Item = i64>, bands: &[Bands<'_>]) {
        fn joins<'a>(band: &Bands<'a>) -> impl Iterator<Item = bool> + use<'a> {
            band.low.iter().zip(band.high).map(|(low, high)| low <= high)
        }
        let new = self.ts.len();
        self.ts.extend(ts);
        self.joins.extend(joins(&bands[0]));
        for band in &bands[1..] {
            let of_rows = &mut self.joins.as_mut_slice()[new..];
            of_rows.iter_mut().zip(joins(band)).for_each(|(all, joins)| *all &= joins);
        }
        for (codes, band) in self.codes.iter_mut().zip(bands) {
            codes.extend(band.codes.iter().copied());
        }
    }
}

impl KeptColumns for CodeColumns {
    #[inline]
    fn len(&self) -> usize {
        self.ts.len()
    }

    #[inline]
    fn ts(&self, offset: usize) -> Option<i64> {
        self.ts.ts(offset)
    }

    fn drop_front(&mut self, rows: usize) {
        self.ts.drop_front(rows);
        self.joins.drop_front(rows);
        self.codes.iter_mut().for_each(|codes| codes.drop_front(rows));
    }

    fn memory(&self) -> usize {
        let of_codes = self.codes.iter().map(KeptColumn::memory).sum::<usize>();
        self.ts.memory() + self.joins.memory() + of_codes
    }
}

impl RowLog<CodeColumns> {
    /// Returns the time of the row with this number, if the row is kept.
    #[inline]
    pub(super) fn ts(&self, number: u64) -> Option<i64> {
        self.columns().ts(number.checked_sub(self.first())? as usize)
    }

    /// Returns whether the row can match any row.
    #[inline]
    pub(super) fn joins(&self, number: u32) -> bool {
        self.columns().joins[self.offset(number)]
    }

    /// Returns a row's code in a column.
    #[inline]
    pub(super) fn code(&self, column: usize, number: u32) -> i64 {
        self.columns().codes[column][self.offset(number)]
    }

    /// Returns index entries for the rows with these numbers, except rows that cannot match
    /// anything.
    pub(super) fn entries(&self, numbers: Range<u64>) -> Vec<Entry> {
        let offset = |number: u64| (number - self.first()) as usize;
        let offsets = offset(numbers.start)..offset(numbers.end);
        let CodeColumns { joins, codes, .. } = self.columns();
        let keys = &codes[0].as_slice()[offsets.clone()];
        let joins = &joins.as_slice()[offsets];
        let entry = |(&key, number): (&i64, u64)| Entry { key, row: number as u32 };
        // Usually, all rows can match something, so the number of entries is known.
        if joins.iter().fold(true, |all, &joins| all & joins) {
            return keys.iter().zip(numbers).map(entry).collect();
        }
        let rows = keys.iter().zip(numbers).zip(joins).filter(|(_, joins)| **joins);
        rows.map(|(row, _)| entry(row)).collect()
    }
}
