//! The merged order: a row's time, source and position as one key.

use std::cell::Cell;
use std::cmp::Ordering;
use std::fmt;
use std::marker::PhantomData;

/// Says that a handle may move to another thread and not be used by two at once.
pub(crate) type NotSync = PhantomData<Cell<()>>;

/// Sources a gate may have had in its life.
pub const MAX_SOURCES: usize = 1 << 16;

/// Bits of a [`RowId`] that hold the position: 2^48 rows a source, a year at ten million a second.
const POSITION_BITS: u32 = 48;
const POSITION_MASK: u64 = (1 << POSITION_BITS) - 1;

/// A row's source and its position there, in one word that sorts by source, then position.
///
/// ```text
/// 0x5555_pppp_pppp_pppp      source (16 bits), position (48 bits)
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct RowId(u64);

impl RowId {
    /// The row at `position` of `source`.
    #[inline]
    pub fn new(source: u16, position: u64) -> Self {
        assert!(position <= POSITION_MASK, "source {source} has more than 2^48 rows");
        RowId(u64::from(source) << POSITION_BITS | position)
    }

    /// The last id that `source` may give.
    pub(crate) fn last_of(source: u16) -> Self {
        RowId::new(source, POSITION_MASK)
    }

    /// Number of the source.
    #[inline]
    pub fn source(self) -> u16 {
        (self.0 >> POSITION_BITS) as u16
    }

    /// Position within the source, from 0.
    #[inline]
    pub fn position(self) -> u64 {
        self.0 & POSITION_MASK
    }

    /// The id `rows` further in the same source.
    #[inline]
    pub fn plus(self, rows: usize) -> Self {
        RowId::new(self.source(), self.position() + rows as u64)
    }

    /// The word.
    #[inline]
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// The id whose [`to_bits`](Self::to_bits) gave `bits`.
    #[inline]
    pub const fn from_bits(bits: u64) -> Self {
        RowId(bits)
    }
}

impl fmt::Debug for RowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.source(), self.position())
    }
}

/// A row's place in the merged order `(ts, source, position)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Event time.
    pub ts: i64,
    /// Source and position.
    pub id: RowId,
}

impl PartialOrd for Key {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    /// As one number of 128 bits: keys are compared at every step of a search, and a branch on
    /// equal times is one too many.
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        let number = |key: &Key| i128::from(key.ts) << 64 | i128::from(key.id.0);
        number(self).cmp(&number(other))
    }
}

impl Key {
    /// Before every row.
    pub(crate) const FIRST: Key = Key { ts: i64::MIN, id: RowId(0) };
    /// After every row.
    pub(crate) const LAST: Key = Key { ts: i64::MAX, id: RowId(u64::MAX) };

    /// The last place that a row of `source` at `ts` may have.
    pub(crate) fn last_of(ts: i64, source: u16) -> Self {
        Key { ts, id: RowId::last_of(source) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_by_time_then_source_then_position() {
        let key = |ts, source, position| Key { ts, id: RowId::new(source, position) };
        let sorted = [
            key(-1, 9, 9),
            key(0, 0, 0),
            key(0, 0, 1),
            key(0, 1, 0),
            key(0, u16::MAX, 0),
            key(1, 0, 0),
        ];
        assert!(sorted.is_sorted_by(|a, b| a < b));
        assert!(sorted.iter().all(|key| Key::FIRST < *key && *key < Key::LAST));
        assert_eq!(RowId::last_of(3).plus(0).source(), 3);
    }
}
