//! The trait of a join whose rows come epoch by epoch.

use std::fmt::Debug;
use std::ops::Range;

use super::{Filter, JoinError, Progress, Results, SavedRows, Side, SideWatermarks};
use crate::driver::Driver;

/// A join of rows that come in epochs: in merged order, or in the order of their arrival. `V` is how
/// the values come that rows are compared by: keys, codes with bands, or numbers.
///
/// The rows of a side are numbered from 0, from the first ever. Results name a row by its *offset*,
/// its distance from the oldest row of its side that is kept.
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
/// // A left row at 10, right rows at 11 and 14; all have the key 0.
/// let sides = vec![Side::Left, Side::Right, Side::Right];
/// join.begin(&driver, vec![10, 11, 14], sides, [&[0], &[0, 0]]);
/// while !join.is_done() {
///     let Progress::Pieces(pieces) = join.advance(&driver, None)? else { unreachable!() };
///     for piece in pieces {
///         let pairs = join.assemble(piece);
///         assert_eq!((pairs.left, pairs.right), (vec![0], vec![0]));
///     }
/// }
/// // The first row of each side is not needed any more.
/// join.purge([Some(14); 2]);
/// assert_eq!((join.first(Side::Left), join.first(Side::Right)), (1, 1));
/// # Ok::<(), tidegate_operators::rows::JoinError>(())
/// ```
pub trait RowJoin<V>: Debug + Send + Sync {
    /// Begins an epoch with rows: the time and the side of each, and the values of both sides' rows.
    /// In merged order none is before a row of a former epoch. In the order of arrival, left rows are
    /// first, whatever their times.
    ///
    /// # Panics
    ///
    /// When it does not [take rows](Self::takes_rows), or there are not values for each row.
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

    /// The rows that have had no match and can have none from `now` on, in order. The epoch is done,
    /// or `now` is not after what was [given](Self::given).
    fn unmatched(&mut self, now: SideWatermarks) -> Results;

    /// Lets go of rows that no row at `now` or later can match, and no result that is to come has.
    /// The epoch is done, or `now` is not after what was [given](Self::given). Offsets are counted
    /// anew from here on.
    fn purge(&mut self, now: SideWatermarks);

    /// Lets go of all rows that no row at `now` or later can match, wherever they are among the
    /// others. It does so where it is worth it, or `is_due`, and returns the offsets of the rows that
    /// stay, which have the numbers from the first on now. Only rows in the order of their arrival are
    /// so mixed. The epoch is done, and `now` has been [purged](Self::purge) by.
    fn pack(&mut self, _now: SideWatermarks, _is_due: bool) -> Option<[Vec<u32>; 2]> {
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
