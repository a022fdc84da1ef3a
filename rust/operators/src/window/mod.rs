//! What all joins of sliding windows share: the bounds of windows, the log of rows and their
//! matches, and the rows that leave without a match. Each algorithm compares the rows in its own
//! way.
//!
//! # Files
//!
//! | file | what is in it |
//! | --- | --- |
//! | `extent.rs` | which rows are in a window |
//! | `log.rs` | which have had a match |
//! | `tables.rs` | whole tables through such a join |
//! | `counts.rs` | windows of so many rows, as runs of an interval join |
//! | `scale/` | windows of rows as they come, compared by all threads, or looked up by value |

pub mod counts;
mod extent;
mod log;
pub mod scale;
mod tables;
#[cfg(all(test, not(loom)))]
mod tests;

use std::fmt::Debug;

use crate::driver::Driver;
use crate::predicate::Operand;
use crate::rows::{Closed, Failed, Filter, Interval, Results, Side};
pub(crate) use extent::Extent;
pub(crate) use log::Log;
pub use tables::pairs;

/// Rows of one side that a join has kept.
#[derive(Debug)]
pub struct Kept<'a> {
    /// Event times, in merged order.
    pub ts: &'a [i64],
    /// Which have had a match, where that matters.
    pub matched: &'a [bool],
    /// How many from the first on are settled.
    pub settled: usize,
}

/// A join of rows that come in epochs, in merged order, each with numbers that are compared.
///
/// The rows of a side are numbered from 0, from the first ever. Results name a row by its *place*,
/// its distance from the oldest row of its side that is kept.
pub trait SlidingJoin: Debug + Send + Sync {
    /// Begins an epoch with rows in merged order, none before those of former epochs: the time and
    /// the side of each, and for each term the numbers of both sides' rows.
    ///
    /// Returns whether all terms can be scanned for. If not, they are forgotten, for good: from now
    /// on every pair in the windows is found, for the filter to compare.
    ///
    /// # Panics
    ///
    /// When the results of the former epoch have not all been taken, or there are no numbers for a
    /// term.
    fn begin(
        &mut self,
        ts: Vec<i64>,
        sides: Vec<Side>,
        numbers: Option<&[(Operand, Operand)]>,
    ) -> bool;

    /// The rows of the epoch.
    fn epoch_rows(&self) -> usize;

    /// Whether the epoch's results have all been given, as far as they can be.
    fn is_done(&self) -> bool;

    /// Finds the results of more rows of the epoch.
    fn advance<E: Send>(
        &mut self,
        driver: &Driver,
        filter: Option<&Filter<'_, E>>,
    ) -> Result<Results, Failed<E>>;

    /// Whether results of former epochs may be left to give, which come with later ones.
    fn holds_back(&self) -> bool {
        false
    }

    /// Begins an epoch without rows, at whose end all results have been given. No rows may follow
    /// unless there is a [`refill`](Self::refill).
    fn flush(&mut self) {}

    /// Goes on after a [`flush`](Self::flush) as if there had been none, given the numbers of the
    /// rows that are kept.
    fn refill(&mut self, _numbers: Option<&[(Operand, Operand)]>) {}

    /// The rows that have had no match and can have none from `now` on, in order; `None` stands for
    /// the end of time. The epoch is done.
    fn unmatched(&mut self, now: Option<i64>) -> Results;

    /// Lets go of rows that no row at `now` or later can match, and no result that is to come has;
    /// `None` stands for the end of time. Places are counted anew from here on.
    fn purge(&mut self, now: Option<i64>);

    /// The number of the oldest row of a side that is kept.
    fn first(&self, side: Side) -> u64;

    /// Rows of a side that are kept.
    fn rows(&self, side: Side) -> usize;

    /// Which kept rows of a side have had a match, by place, where that matters; and of how many
    /// from the first on it is settled whether they come out without one.
    fn matched(&self, side: Side) -> (&[bool], usize);

    /// Pairs that each thread's part of the join has compared.
    fn comparisons(&self) -> Vec<u64>;

    /// Bytes held beside the rows themselves.
    fn memory(&self) -> usize;

    /// Takes in the rows that a join of the same query has kept: for each side their times, what
    /// [`matched`](Self::matched) said of them, and for each term their numbers. As for
    /// [`begin`](Self::begin), returns whether all terms can be scanned for.
    ///
    /// # Panics
    ///
    /// When this join has rows already.
    fn restore(&mut self, sides: [Kept<'_>; 2], numbers: Option<&[(Operand, Operand)]>) -> bool;
}

/// The interval that time windows of these lengths are: how long left and right rows stay.
pub fn interval(left: u64, right: u64) -> Interval {
    let steps = |time: u64| i64::try_from(time).unwrap_or(i64::MAX);
    Interval { lower: Some(-steps(right)), upper: Some(steps(left)), closed: Closed::Both }
}
