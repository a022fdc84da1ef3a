//! The trait of a join whose rows come epoch by epoch.

use std::fmt::Debug;
use std::ops::Range;

use super::{Filter, JoinError, Progress, Results, SavedRows, Side, SideWatermarks};
use crate::driver::Driver;

/// A join whose rows arrive in epochs, either in merged order or in arrival order. `V` is the type
/// of the values by which rows are compared: keys, codes with bands, or numbers.
///
/// The rows of each side are numbered from 0, starting with the very first row to arrive.
/// Results identify a row by its *offset*: its distance from the oldest row that is still kept on
/// its side.
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
/// // The first row of each side is no longer needed.
/// join.purge([Some(14); 2]);
/// assert_eq!((join.first(Side::Left), join.first(Side::Right)), (1, 1));
/// # Ok::<(), tidegate_operators::rows::JoinError>(())
/// ```
pub trait RowJoin<V>: Debug + Send + Sync {
    /// Begins an epoch with the given rows: the time and side of each row, and the values of both
    /// sides' rows. In merged order, no row may be earlier than a row of an earlier epoch. In
    /// arrival order, all left rows precede all right rows, regardless of their times.
    ///
    /// # Panics
    ///
    /// Panics if the join does not [take rows](Self::takes_rows) at the moment, or if the number of
    /// values does not match the number of rows.
    fn begin(&mut self, driver: &Driver, ts: Vec<i64>, sides: Vec<Side>, values: V);

    /// Whether all rows so far could be compared by their values. If not, every pair that may match
    /// by its times or numbers is found, for good, for the filter to compare.
    fn compares(&self) -> bool {
        true
    }

    /// The rows of the epoch; or the rows on their way, of any epoch, if the join
    /// [has threads](Self::has_threads).
    fn epoch_rows(&self) -> usize;

    /// Whether the results of all rows that have begun have been given, as far as they can be.
    fn is_done(&self) -> bool;

    /// Whether the join has threads of its own, which go on between calls.
    fn has_threads(&self) -> bool {
        false
    }

    /// Whether an epoch may begin now. If not, results have to be taken first.
    fn takes_rows(&self) -> bool {
        self.is_done()
    }

    /// The time of the last row whose results have been given, with those of all rows before, where
    /// rows of several epochs may be on their way, or results are [held back](Self::holds_back).
    fn given(&self) -> Option<i64> {
        None
    }

    /// Finds the results of more rows of the epoch, which may be none if the driver is to pause.
    /// After an error the join is of no more use.
    fn advance(
        &mut self,
        driver: &Driver,
        filter: Option<&Filter<'_>>,
    ) -> Result<Progress, JoinError>;

    /// The results of a piece of the epoch that [`advance`](Self::advance) named last. Threads
    /// assemble at the same time.
    fn assemble(&self, _rows: Range<usize>) -> Results {
        unreachable!("a join that names no pieces assembles none")
    }

    /// Whether results of former epochs may be left to give, which come with later ones.
    fn holds_back(&self) -> bool {
        false
    }

    /// Begins an epoch without rows, at whose end all results have been given. No rows may follow
    /// unless there is a [`refill`](Self::refill).
    fn flush(&mut self) {}

    /// Goes on after a [`flush`](Self::flush) as if there had been none, given the values of the
    /// rows that are kept.
    fn refill(&mut self, _values: V) {}

    /// Returns the unmatched rows that no row at `now` or later can match, in order. Either the
    /// epoch must have ended, or `now` must not be later than [`given`](Self::given).
    fn unmatched(&mut self, now: SideWatermarks) -> Results;

    /// Drops rows that no row at `now` or later can match and that no pending result refers to.
    /// Either the epoch must have ended, or `now` must not be later than [`given`](Self::given).
    /// After the call, offsets are counted from the oldest row that remains.
    fn purge(&mut self, now: SideWatermarks);

    /// In arrival order, the offsets of the rows of a side that a row at `now` or later can match.
    /// The epoch must be done, and [`purge`](Self::purge) must have been called with `now`.
    fn needed(&self, _side: Side, _now: SideWatermarks) -> Option<Vec<u32>> {
        None
    }

    /// Drops all rows that are not [`needed`](Self::needed), if doing so is worthwhile. The method
    /// then returns the offsets of the remaining rows, which are renumbered without gaps from
    /// [`first`](Self::first) on. The epoch must be done, and [`purge`](Self::purge) must have been
    /// called with `now`.
    fn pack(&mut self, _now: SideWatermarks) -> Option<[Vec<u32>; 2]> {
        None
    }

    /// The number of the oldest row of a side that is kept.
    fn first(&self, side: Side) -> u64;

    /// Rows of a side that are kept.
    fn rows(&self, side: Side) -> usize;

    /// Which kept rows of a side have had a match, by offset, where that matters; and of how many
    /// from the first on it is settled whether they come out without one.
    fn matched(&self, side: Side) -> (Vec<bool>, usize);

    /// Candidate pairs that each thread's part of the join has looked at.
    fn comparisons(&self) -> Vec<u64>;

    /// Bytes held beside the rows themselves.
    fn memory(&self) -> usize;

    /// Takes in the rows that a join of the same query has kept, with their values.
    ///
    /// # Panics
    ///
    /// When this join has had rows already, or there are not values for each row.
    fn restore(&mut self, kept: &[SavedRows; 2], values: V);

    /// Ends the threads of the join, which is of no more use.
    fn close(&mut self) {}
}
