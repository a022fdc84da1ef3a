//! The merged order of rows. The order is defined by a key that combines a row's time, rank and
//! position.

use std::cell::Cell;
use std::cmp::Ordering;
use std::fmt;
use std::marker::PhantomData;

/// Marks a handle that can move to another thread but cannot be used by two threads at the same
/// time.
pub type NotSync = PhantomData<Cell<()>>;

/// The maximum number of sources that a gate can have during its lifetime.
pub const MAX_SOURCES: usize = 1 << 16;

/// The number of bits that hold the position in a [`RowId`]. A source can push 2^47 rows, which
/// takes five months at ten million rows per second.
const POSITION_BITS: u32 = 47;
const POSITION_MASK: u64 = (1 << POSITION_BITS) - 1;

/// A group of sources. Rows with equal times are ordered by tier first, then by source number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Rows from these sources sort before rows from the last tier.
    First = 0,
    /// Rows from these sources sort after rows from the first tier.
    Last = 1,
}

/// Orders sources whose rows have equal times: by tier, then by number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(u32);

impl Rank {
    /// Returns the rank of source `number` in `tier`.
    #[inline]
    pub const fn new(tier: Tier, number: u16) -> Self {
        Rank((tier as u32) << u16::BITS | number as u32)
    }

    /// Returns the tier of the source.
    pub const fn tier(self) -> Tier {
        if self.0 >> u16::BITS == 0 { Tier::First } else { Tier::Last }
    }

    /// Returns the number of the source.
    #[inline]
    pub const fn number(self) -> u16 {
        self.0 as u16
    }
}

impl From<u16> for Rank {
    /// Returns the rank of source `number` in the first tier.
    #[inline]
    fn from(number: u16) -> Self {
        Rank::new(Tier::First, number)
    }
}

impl fmt::Debug for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number())
    }
}

/// The rank of a row's source and the row's position in that source. Rank and position are packed
/// into one word, which sorts by rank and then by position.
///
/// ```text
/// tier (1 bit), source (16 bits), position (47 bits)
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct RowId(u64);

impl RowId {
    /// Returns the id of the row at `position` in `source`. The source must be in the first tier.
    #[inline]
    pub fn new(source: u16, position: u64) -> Self {
        RowId::ranked(Rank::from(source), position)
    }

    /// Returns the id of the row at `position` in the source with this rank.
    #[inline]
    pub fn ranked(rank: Rank, position: u64) -> Self {
        assert!(position <= POSITION_MASK, "source {rank:?} has more than 2^47 rows");
        RowId(u64::from(rank.0) << POSITION_BITS | position)
    }

    /// Returns the rank of the source.
    #[inline]
    pub fn rank(self) -> Rank {
        Rank((self.0 >> POSITION_BITS) as u32)
    }

    /// Returns the number of the source.
    #[inline]
    pub fn source(self) -> u16 {
        self.rank().number()
    }

    /// Returns the position within the source, counted from 0.
    #[inline]
    pub fn position(self) -> u64 {
        self.0 & POSITION_MASK
    }

    /// Returns the id of the row that is `rows` positions later in the same source.
    #[inline]
    pub fn plus(self, rows: usize) -> Self {
        RowId::ranked(self.rank(), self.position() + rows as u64)
    }

    /// Returns the packed word.
    #[inline]
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// Creates an id from the value returned by [`to_bits`](Self::to_bits).
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

/// A row's key. Keys sort by `(ts, rank, position)`, which is the merged order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The event time.
    pub ts: i64,
    /// The source's rank and the row's position.
    pub id: RowId,
}

impl PartialOrd for Key {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    /// Compares keys as 128-bit numbers. Every step of a search compares keys, and a branch on
    /// equal times would be too expensive.
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        let number = |key: &Key| i128::from(key.ts) << 64 | i128::from(key.id.0);
        number(self).cmp(&number(other))
    }
}

impl Key {
    /// A key before every row.
    pub const FIRST: Key = Key { ts: i64::MIN, id: RowId(0) };
    /// A key after every row.
    pub const LAST: Key = Key { ts: i64::MAX, id: RowId(u64::MAX) };

    /// Returns the first possible key of a row at `ts` from the source with this rank.
    #[inline]
    pub fn first_of(ts: i64, rank: Rank) -> Self {
        Key { ts, id: RowId::ranked(rank, 0) }
    }

    /// Returns the last possible key of a row at `ts` from the source with this rank.
    #[inline]
    pub fn last_of(ts: i64, rank: Rank) -> Self {
        Key { ts, id: RowId::ranked(rank, POSITION_MASK) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_by_time_then_rank_then_position() {
        let key = |ts, source, position| Key { ts, id: RowId::new(source, position) };
        let last = |ts, source, position| Key {
            ts,
            id: RowId::ranked(Rank::new(Tier::Last, source), position),
        };
        let sorted = [
            key(-1, 9, 9),
            key(0, 0, 0),
            key(0, 0, 1),
            key(0, 1, 0),
            key(0, u16::MAX, POSITION_MASK),
            last(0, 0, 0),
            last(0, 0, POSITION_MASK),
            last(0, 1, 0),
            last(0, u16::MAX, 0),
            key(1, 0, 0),
        ];
        assert!(sorted.is_sorted_by(|a, b| a < b));
        assert!(sorted.iter().all(|key| Key::FIRST < *key && *key < Key::LAST));
        let id = last(0, 3, 5).id.plus(4);
        assert_eq!((id.rank(), id.source(), id.position()), (Rank::new(Tier::Last, 3), 3, 9));
    }
}
