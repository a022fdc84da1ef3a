//! What finds the pairs of a streaming join.

use std::fmt::Debug;
use std::ops::Range;

use arrow_array::RecordBatch;
use tidegate_operators::driver::Driver;
use tidegate_operators::rows::{Progress, Results, Side};

use crate::Result;
use crate::columns::expression::{self, Predicate};
use crate::query::options::JoinPlan;
use crate::results::gather::Column;
use crate::stream::operator::Figure;
use crate::stream::state::store::Store;

/// Finds which rows of two sides are in the result. All else of a join is done by
/// [`JoinTactic`](super::JoinTactic).
///
/// Rows come in epochs, in merged order, and are numbered by side from the first ever. Results name
/// a row by its *place*, its distance from the oldest row of its side that is kept.
pub(in crate::stream) trait Engine: Debug + Send + Sync {
    /// Begins an epoch, when the former is done, with rows in merged order, none before those of
    /// former epochs.
    fn begin(&mut self, driver: &Driver, rows: Rows<'_>) -> Result<()>;

    /// The rows of the epoch.
    fn epoch_rows(&self) -> usize;

    /// Pairs that may be compared for so many rows until some results are given, at most.
    fn comparisons_for(&self, rows: usize, _has_condition: bool) -> u64 {
        rows as u64 * (rows + self.rows(Side::Left) + self.rows(Side::Right)) as u64
    }

    /// Whether the results of all rows of the epoch have been given.
    fn is_done(&self) -> bool;

    /// Finds the results of more rows of the epoch.
    fn advance(&mut self, driver: &Driver, kept: &KeptRows<'_>) -> Result<Progress>;

    /// The results of a piece of the epoch that [`advance`](Self::advance) named last. Threads
    /// assemble at the same time.
    fn assemble(&self, rows: Range<usize>) -> Results;

    /// Whether results of former epochs may be left to give, which come with later ones.
    fn holds_back(&self) -> bool {
        false
    }

    /// Begins an epoch without rows, at whose end all results have been given. No rows follow,
    /// unless there is a [`refill`](Self::refill).
    fn flush(&mut self) {}

    /// Goes on after a [`flush`](Self::flush) as if there had been none, given the rows that are
    /// kept.
    fn refill(&mut self, _batches: [&RecordBatch; 2]) -> Result<()> {
        Ok(())
    }

    /// The rows that have had no match and can have none from `now` on, in order; `None` stands for
    /// the end of time. The epoch is done.
    fn unmatched(&mut self, now: Option<i64>) -> Results;

    /// Lets go of rows that no row at `now` or later can match; `None` stands for the end of time.
    /// The epoch is done.
    fn purge(&mut self, now: Option<i64>);

    /// The number of the oldest row of a side that is kept.
    fn first(&self, side: Side) -> u64;

    /// Rows of a side that are kept.
    fn rows(&self, side: Side) -> usize;

    /// Bytes that a row is charged for what is kept of it beside itself and what every engine
    /// keeps.
    fn row_bytes(&self) -> usize {
        0
    }

    /// Whether the rows of results lie anywhere among those that are kept, so that some columns are
    /// kept row by row, too.
    fn scatters(&self) -> bool {
        false
    }

    /// Bytes held beside the rows themselves.
    fn memory(&self) -> usize;

    /// Candidate pairs that each thread's share of the work has looked at.
    fn comparisons(&self) -> Vec<u64>;

    /// What else describes it, with names.
    fn figures(&self) -> Vec<(&'static str, Figure)>;

    /// Which kept rows of a side have had a match, where that matters; and of how many from the
    /// first on it is settled whether they come out without one. The epoch is done.
    fn matched(&self, side: Side) -> (Vec<bool>, usize);

    /// Takes in the rows that an engine of the same query has kept. This one has no rows yet.
    fn restore(&mut self, rows: [RestoredRows; 2]) -> Result<()>;
}

/// Rows that are ready, in merged order.
#[derive(Debug)]
pub(in crate::stream) struct Rows<'a> {
    pub(in crate::stream) ts: Vec<i64>,
    pub(in crate::stream) sides: Vec<Side>,
    /// The rows of each side.
    pub(in crate::stream) batches: &'a [RecordBatch; 2],
}

/// Rows of one side that were kept, in merged order.
#[derive(Debug)]
pub(in crate::stream) struct RestoredRows {
    pub(in crate::stream) ts: Vec<i64>,
    pub(in crate::stream) batch: RecordBatch,
    /// What [`Engine::matched`] said of them.
    pub(in crate::stream) matched: Vec<bool>,
    pub(in crate::stream) settled: usize,
}

/// Reads the columns of kept rows.
#[derive(Debug)]
pub(in crate::stream) struct KeptRows<'a> {
    condition: Option<Condition<'a>>,
    /// The low bits of the number of the row of each side that has place 0.
    first: [u32; 2],
}

#[derive(Debug)]
struct Condition<'a> {
    predicate: &'a Predicate,
    /// The columns of each side that it reads.
    columns: [Vec<Column>; 2],
}

impl<'a> KeptRows<'a> {
    pub(super) fn new(plan: &'a JoinPlan, stores: &[Store; 2], first: [u64; 2]) -> Self {
        let columns = |store: &Store, columns: &[usize]| {
            columns.iter().map(|&column| store.column(column)).collect()
        };
        let condition = plan.predicate.as_ref().map(|predicate| Condition {
            predicate,
            columns: [
                columns(&stores[0], predicate.columns(expression::Origin::Left)),
                columns(&stores[1], predicate.columns(expression::Origin::Right)),
            ],
        });
        KeptRows { condition, first: first.map(|first| first as u32) }
    }

    /// Whether the join has a condition on pairs.
    pub(in crate::stream) fn has_condition(&self) -> bool {
        self.condition.is_some()
    }

    /// Which pairs meet the condition, given the low bits of the numbers of their left and right
    /// rows.
    pub(in crate::stream) fn keep(&self, left: &[u32], right: &[u32]) -> Result<Vec<bool>> {
        match &self.condition {
            Some(condition) => self.keep_by(condition.predicate, left, right),
            None => Ok(vec![true; left.len()]),
        }
    }

    /// As [`keep`](Self::keep), by a part of the condition.
    pub(in crate::stream) fn keep_by(
        &self,
        predicate: &Predicate,
        left: &[u32],
        right: &[u32],
    ) -> Result<Vec<bool>> {
        let Condition { predicate: whole, columns } =
            self.condition.as_ref().expect("a part is of a whole");
        let gather = |side: Side, of: expression::Origin, numbers: &[u32]| {
            let first = self.first[side as usize];
            let places: Vec<u32> =
                numbers.iter().map(|number| number.wrapping_sub(first)).collect();
            let column = |read: &usize| {
                let at = whole
                    .columns(of)
                    .binary_search(read)
                    .expect("the whole reads what its parts do");
                columns[side as usize][at].gather(&places)
            };
            predicate.columns(of).iter().map(column).collect::<Result<Vec<_>, _>>()
        };
        let left_columns = gather(Side::Left, expression::Origin::Left, left)?;
        let right_columns = gather(Side::Right, expression::Origin::Right, right)?;
        Ok(predicate.evaluate(&left_columns, &right_columns, left.len())?.iter().collect())
    }
}
