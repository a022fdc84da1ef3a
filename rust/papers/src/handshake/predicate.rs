//! The comparisons of the nodes of a chain: columns of rows, and which pairs of rows match.

use std::fmt::Debug;
use std::ops::Range;

/// Columns of rows of one side: a batch of new rows, or those that a node keeps.
pub trait Columns: Default + Debug + Send + Sync {
    /// The number of rows.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies rows of `from` behind these.
    fn push_rows(&mut self, from: &Self, rows: Range<usize>);

    /// Drops the first `rows` rows.
    fn drop_first(&mut self, rows: usize);

    /// Bytes that a row takes.
    fn row_bytes(&self) -> usize;
}

/// A left and a right row, by their places in the columns that were given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    /// The left row.
    pub left: u32,
    /// The right row.
    pub right: u32,
}

/// Which pairs match, as far as the rows' values say; windows are the join's affair.
pub trait Predicate: Debug + Send + Sync {
    /// Rows of the left side.
    type Left: Columns;
    /// Rows of the right side.
    type Right: Columns;

    /// Appends every matching pair of these rows, in any order. One of the ranges is short, that of
    /// the new rows; the other is a piece of a window.
    fn pairs(
        &self,
        left: &Self::Left,
        left_rows: Range<usize>,
        right: &Self::Right,
        right_rows: Range<usize>,
        pairs: &mut Vec<Pair>,
    );

    /// How kept rows are found by a value, where that is faster than to compare them all.
    fn lookup(&self) -> Option<&dyn Lookup<Self::Left, Self::Right>> {
        None
    }
}

/// How to look kept rows up by a value of theirs. Every matching pair is found so; others may be,
/// too.
pub trait Lookup<L, R>: Send + Sync {
    /// The structure that nodes keep.
    fn kind(&self) -> SearchStructure;

    /// The values of left rows.
    fn left_values<'a>(&self, left: &'a L) -> &'a [i64];

    /// The values of right rows.
    fn right_values<'a>(&self, right: &'a R) -> &'a [i64];

    /// The least and the greatest value of left rows that a right row may match; `None` if it
    /// matches nothing.
    fn left_reach(&self, right: &R, row: usize) -> Option<(i64, i64)>;

    /// The least and the greatest value of right rows that a left row may match; `None` if it
    /// matches nothing.
    fn right_reach(&self, left: &L, row: usize) -> Option<(i64, i64)>;

    /// Keeps the pairs that match.
    fn retain(&self, left: &L, right: &R, pairs: &mut Vec<Pair>);
}

/// Structures that find rows by a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchStructure {
    /// A hash table, for predicates with an equality: both ends of a reach are the one value.
    Hash,
    /// An ordered index, for predicates with a band, which a node makes while few of its rows are
    /// in reach.
    Ordered,
}
