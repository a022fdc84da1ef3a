//! A trait for joins whose rows arrive epoch by epoch.

use std::fmt::Debug;
use std::ops::Range;

use super::{Filter, JoinError, Progress, Results, SavedRows, Side, SideWatermarks};
use crate::driver::Driver;

/// A join whose rows arrive in epochs, either in merged order or in arrival order. `V` is the type
/// of the values by which rows are compared: keys, codes with bands, or numbers.
///
/// The rows on each side are numbered from 0, starting with the first row that arrives. Results
/// identify a row by its *offset*, the distance from the oldest kept row on the same side.
///
/// ```
/// use tidegate_operators::driver::Driver;
/// use tidegate_operators::interval::streaming::{Parallelism, StreamingJoin};
/// use tidegate_operators::rows::{Closed, How, Interval, Progress, RowJoin, Side};
/// use tidegate_sync::Stop;
///
/// let driver = Driver::new(1, Stop::default());
/// let near = Interval { lower: Some(-2), upper: Some(2), closed: Closed::Both };
/// let mut join = StreamingJoin::new(&near, How::Inner, Parallelism::Auto, 1, true);
/// // A left row at 10 and right rows at 11 and 14, all with the key 0.
/// let sides = vec![Side::Left, Side::Right, Side::Right];
/// join.begin(&driver, vec![10, 11, 14], sides, [&[0], &[0, 0]]);
/// while !join.is_done() {
///     let Progress::Pieces(pieces) = join.advance(&driver, None)? else { unreachable!() };
///     for piece in pieces {
///         let pairs = join.assemble(piece);
///         assert_eq!((pairs.left, pairs.right), (vec![0], vec![0]));
///     }
/// }
/// // The first row on each side is no longer needed.
/// join.purge([Some(14); 2]);
/// assert_eq!((join.first(Side::Left), join.first(Side::Right)), (1, 1));
/// # Ok::<(), tidegate_operators::rows::JoinError>(())
/// ```
pub trait RowJoin<V>: Debug + Send + Sync {
    /// Begins an epoch with the given rows. The arguments are the time and side of each row, and
    /// the values on both sides. In merged order, a row must not be earlier than any row in an
    /// earlier epoch. In arrival order, all left rows precede all right rows, regardless of their
    /// times.
    ///
    /// # Panics
    ///
    /// Panics if the join is not currently able to [take rows](Self::takes_rows), or if the number
    /// of values differs from the number of rows.
    fn begin(&mut self, driver: &Driver, ts: Vec<i64>, sides: Vec<Side>, values: V);

    /// Returns whether all rows so far could be compared by value. If the result is `false`, it
    /// never becomes `true` again. From then on, the join returns every pair that matches by time
    /// or row number, so the filter has to compare the values.
    fn compares(&self) -> bool {
        true
    }

    /// Returns the number of rows in the epoch. If the join [has threads](Self::has_threads),
    /// returns the number of rows in progress across all epochs.
    fn epoch_rows(&self) -> usize;

    /// Returns whether all results that can be determined so far have been returned, for all epochs
    /// that have begun.
    fn is_done(&self) -> bool;

    /// Returns whether the join has its own threads. Such threads keep working between calls.
    fn has_threads(&self) -> bool {
        false
    }

    /// Returns whether a new epoch can begin now. If the join does not accept rows, the caller must
    /// first retrieve results.
    fn takes_rows(&self) -> bool {
        self.is_done()
    }

    /// Returns a time up to which all results have been returned. This time is needed if rows from
    /// several epochs are in progress, or if results are [held back](Self::holds_back).
    fn given(&self) -> Option<i64> {
        None
    }

    /// Finds the results for more rows in the epoch. If a pause has been requested, this method may
    /// return no results. After an error, the join can no longer be used.
    fn advance(
        &mut self,
        driver: &Driver,
        filter: Option<&Filter<'_>>,
    ) -> Result<Progress, JoinError>;

    /// Returns the results for one piece. The piece must be from the last call of
    /// [`advance`](Self::advance). Several threads can call this method at the same time.
    fn assemble(&self, _rows: Range<usize>) -> Results {
        unreachable!("a join without pieces does not assemble any")
    }

    /// Returns whether some results of earlier epochs are held back until later results are
    /// returned.
    fn holds_back(&self) -> bool {
        false
    }

    /// Begins an empty epoch. When this epoch ends, all results have been returned. After the call,
    /// no rows can be added unless [`refill`](Self::refill) is called.
    fn flush(&mut self) {}

    /// Undoes the effect of a [`flush`](Self::flush). The argument contains the values of the kept
    /// rows.
    fn refill(&mut self, _values: V) {}

    /// Returns the unmatched rows that no row at `now` or later can match, in order. Either the
    /// epoch must have ended, or `now` must not be later than [`given`](Self::given).
    fn unmatched(&mut self, now: SideWatermarks) -> Results;

    /// Drops the rows that no row at `now` or later can match, unless pending results refer to
    /// them. Either the epoch must have ended, or `now` must not be later than
    /// [`given`](Self::given). After the call, offsets are counted from the oldest row that
    /// remains.
    fn purge(&mut self, now: SideWatermarks);

    /// If rows are in arrival order, returns the offsets of those rows on a side that can still be
    /// matched by a row at `now` or later. The epoch must be done, and [`purge`](Self::purge) must
    /// have been called with `now`.
    fn needed(&self, _side: Side, _now: SideWatermarks) -> Option<Vec<u32>> {
        None
    }

    /// Drops all rows that are not [`needed`](Self::needed), if doing so is worthwhile. The method
    /// then returns the offsets of the remaining rows, which are renumbered without gaps, starting
    /// at [`first`](Self::first). The epoch must be done, and [`purge`](Self::purge) must have been
    /// called with `now`.
    fn pack(&mut self, _now: SideWatermarks) -> Option<[Vec<u32>; 2]> {
        None
    }

    /// Returns the number of the oldest kept row on a side.
    fn first(&self, side: Side) -> u64;

    /// Returns how many rows are kept on a side.
    fn rows(&self, side: Side) -> usize;

    /// For each kept row on a side, returns whether the row has been matched. The list is empty if
    /// matches are not tracked. Also returns the number of settled rows. It is already known
    /// whether these rows are emitted unmatched.
    fn matched(&self, side: Side) -> (Vec<bool>, usize);

    /// Returns the number of candidate pairs compared by each of the join's threads.
    fn comparisons(&self) -> Vec<u64>;

    /// Returns the memory used in addition to the rows themselves, in bytes.
    fn memory(&self) -> usize;

    /// Restores the rows that a join of the same query has kept, together with their values.
    ///
    /// # Panics
    ///
    /// Panics if this join has already received rows, or if the number of values differs from the
    /// number of rows.
    fn restore(&mut self, kept: &[SavedRows; 2], values: V);

    /// Stops the join's threads. The join cannot be used afterwards.
    fn close(&mut self) {}
}
