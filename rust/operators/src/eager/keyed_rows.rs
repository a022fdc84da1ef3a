//! The columns kept for the rows on one side: times and keys.

use crate::rows::{KeptColumn, KeptColumns, NO_KEY};

/// The times and keys of the kept rows, indexed by offset.
#[derive(Debug, Default)]
pub(super) struct KeyedRows {
    ts: KeptColumn<i64>,
    keys: KeptColumn<u32>,
}

impl KeyedRows {
    /// Returns the times of the rows.
    #[inline]
    pub(super) fn times(&self) -> &[i64] {
        self.ts.as_slice()
    }

    /// Returns the keys of the rows.
    #[inline]
    pub(super) fn keys(&self) -> &[u32] {
        self.keys.as_slice()
    }

    /// Appends rows.
    pub(super) fn extend(&mut self, ts: &[i64], keys: &[u32]) {
        assert_eq!(ts.len(), keys.len(), "a key a row");
        self.ts.extend(ts.iter().copied());
        self.keys.extend(keys.iter().copied());
    }

    /// Keeps only the rows at these offsets.
    pub(super) fn retain(&mut self, offsets: &[u32]) {
        self.ts.retain(offsets);
        self.keys.retain(offsets);
    }
}

impl KeptColumns for KeyedRows {
    #[inline]
    fn len(&self) -> usize {
        self.ts.len()
    }

    #[inline]
    fn ts(&self, offset: usize) -> Option<i64> {
        self.ts.get(offset).copied()
    }

    #[inline]
    fn can_match(&self, offset: usize) -> bool {
        self.keys[offset] != NO_KEY
    }

    fn drop_front(&mut self, rows: usize) {
        self.ts.drop_front(rows);
        self.keys.drop_front(rows);
    }

    fn memory(&self) -> usize {
        self.ts.memory() + self.keys.memory()
    }
}
