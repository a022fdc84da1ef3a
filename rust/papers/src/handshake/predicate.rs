//! The comparisons that nodes perform. This module defines columns of rows, and predicates that
//! determine which pairs match.

use std::fmt::Debug;
use std::ops::Range;

/// Columns for the rows on one side. The columns contain a batch of new rows, or the rows that a
/// node keeps.
pub trait Columns: Default + Debug + Send + Sync {
    /// Returns the number of rows.
    fn len(&self) -> usize;

    /// Returns whether there are no rows.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies some of the rows in `from` and appends the copies.
    fn push_rows(&mut self, from: &Self, rows: Range<usize>);

    /// Drops the first `rows` rows.
    fn drop_first(&mut self, rows: usize);

    /// Returns the number of bytes per row.
    fn row_bytes(&self) -> usize;
}

/// A left and a right row, by their positions in the given columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    /// The left row.
    pub left: u32,
    /// The right row.
    pub right: u32,
}

/// Determines which pairs of rows have matching values. The join itself checks the windows.
pub trait Predicate: Debug + Send + Sync {
    /// The columns of left rows.
    type Left: Columns;
    /// The columns of right rows.
    type Right: Columns;

    /// Appends every matching pair of the given rows, in any order. One range is a short range of
    /// new rows, and the other range is part of a window.
    fn pairs(
        &self,
        left: &Self::Left,
        left_rows: Range<usize>,
        right: &Self::Right,
        right_rows: Range<usize>,
        pairs: &mut Vec<Pair>,
    );

    /// Returns a way to look up kept rows by value, if lookups are faster than comparing all kept
    /// rows.
    fn lookup(&self) -> Option<&dyn Lookup<Self::Left, Self::Right>> {
        None
    }
}

/// Looks up kept rows by one of their values. Finds every matching pair, and possibly others.
pub trait Lookup<L, R>: Send + Sync {
    /// Returns the data structure that nodes use to look up rows.
    fn kind(&self) -> SearchStructure;

    /// Returns the values by which left rows are looked up.
    fn left_values<'a>(&self, left: &'a L) -> &'a [i64];

    /// Returns the values by which right rows are looked up.
    fn right_values<'a>(&self, right: &'a R) -> &'a [i64];

    /// Returns the smallest and largest values with which a left row can match the given right row.
    /// Returns `None` if that row matches nothing.
    fn left_reach(&self, right: &R, row: usize) -> Option<(i64, i64)>;

    /// Returns the smallest and largest values with which a right row can match the given left row.
    /// Returns `None` if that row matches nothing.
    fn right_reach(&self, left: &L, row: usize) -> Option<(i64, i64)>;

    /// Keeps only the pairs that match.
    fn retain(&self, left: &L, right: &R, pairs: &mut Vec<Pair>);
}

/// Data structures that look up rows by value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchStructure {
    /// A hash table, for predicates with an equality. With an equality, both ends of a reach are
    /// the same value.
    Hash,
    /// An ordered index, for predicates with a band. A node uses such an index only while new rows
    /// reach few of the node's rows.
    Ordered,
}
