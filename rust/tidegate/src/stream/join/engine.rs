//! The engine that finds the pairs of a streaming join. The engine consists of a row join and a
//! part that computes the values to compare from the rows' columns.

use std::fmt::Debug;

use arrow_array::RecordBatch;
use tidegate_operators::driver::Driver;
use tidegate_operators::rows::{Filter, Progress, RowJoin, SavedRows, Side, SideWatermarks};
use tidegate_sync::Stop;

use crate::Result;
use crate::columns::expression::{self, Predicate};
use crate::query::options::JoinPlan;
use crate::results::gather::Column;
use crate::stream::outcome::Figure;
use crate::stream::state::store::Store;

/// Computes the values that a row join compares (keys, codes or numbers) from the columns of rows.
/// Each kind of streaming join implements this trait separately.
pub(in crate::stream) trait Prepare: Debug + Send + Sync + 'static {
    /// The values by which rows are compared.
    type Values<'a>;

    /// The join that compares the values.
    type Join: for<'a> RowJoin<Self::Values<'a>> + ?Sized;

    /// Computes the values from additional rows on both sides and passes the values to `then`. The
    /// function may first switch the join to another index.
    fn prepare(
        &mut self,
        join: &mut Self::Join,
        driver: &Driver,
        batches: [&RecordBatch; 2],
        then: impl FnOnce(&mut Self::Join, Self::Values<'_>),
    ) -> Result<()>;

    /// Computes the values of the kept rows again, and passes them to `then`. This function is
    /// called only for joins that hold results back and are refilled afterwards.
    fn prepare_again(
        &mut self,
        _join: &mut Self::Join,
        _batches: [&RecordBatch; 2],
        _then: impl FnOnce(&mut Self::Join, Self::Values<'_>),
    ) -> Result<()> {
        unreachable!("a join that returns all results is never refilled")
    }

    /// Returns whether every candidate is a result when there is no condition.
    fn finds_results(&self) -> bool {
        false
    }

    /// Returns the approximate number of row comparisons that take as long as finding the matches
    /// for one row.
    fn comparisons_a_row(&self) -> u64 {
        1
    }

    /// Returns the test, if any, that the pairs found by the join still have to pass.
    fn test<'a>(&'a self, _join: &Self::Join, kept: &'a KeptRows<'_>) -> Option<Box<Filter<'a>>> {
        kept.test()
    }

    /// Drops the values of the rows that the join has dropped.
    fn release(&mut self, join: &mut Self::Join);

    /// On each side, keeps only the rows at these offsets, as the join does.
    fn retain(&mut self, _offsets: [&[u32]; 2]) {}

    /// The number of bytes that a join of this kind keeps per row, in addition to the row itself
    /// and the bytes that every join keeps.
    fn row_bytes(&self) -> usize {
        0
    }

    /// Returns whether the rows in results are scattered among the kept rows. Scattered rows
    /// require some columns to be stored row by row.
    fn scatters(&self) -> bool {
        false
    }

    /// Returns the number of bytes held in addition to the rows and the join.
    fn memory(&self) -> usize {
        0
    }

    /// Returns additional statistics about the join, by name.
    fn figures(&self, _join: &Self::Join) -> Vec<(&'static str, Figure)> {
        Vec::new()
    }
}

/// Determines which rows on the two sides are in the result. [`JoinTactic`](super::JoinTactic) does
/// the rest of a join's work.
#[derive(Debug)]
pub(in crate::stream) struct Engine<P: Prepare> {
    pub(in crate::stream) prepare: P,
    pub(in crate::stream) join: Box<P::Join>,
}

impl<P: Prepare> Engine<P> {
    /// Starts an epoch with the next rows. The previous epoch must have ended. In merged order, no
    /// row is earlier than a row from a previous epoch.
    pub(super) fn begin(
        &mut self,
        driver: &Driver,
        ts: Vec<i64>,
        sides: Vec<Side>,
        batches: &[RecordBatch; 2],
    ) -> Result<()> {
        let Engine { prepare, join } = self;
        prepare.prepare(join, driver, batches.each_ref(), |join, values| {
            join.begin(driver, ts, sides, values);
        })
    }

    /// Stores rows whose results have already been emitted, in merged order. The first `settled`
    /// rows can no longer be emitted as unmatched, so they are stored but not joined. The remaining
    /// rows start an epoch. The engine must be empty.
    pub(super) fn recall(
        &mut self,
        driver: &Driver,
        (mut ts, mut sides): (Vec<i64>, Vec<Side>),
        batches: &[RecordBatch; 2],
        settled: usize,
    ) -> Result<()> {
        let (later, later_sides) = (ts.split_off(settled), sides.split_off(settled));
        let kept = [Side::Left, Side::Right].map(|side| {
            let own = ts.iter().zip(&sides).filter(|(_, of)| **of == side);
            let ts: Vec<i64> = own.map(|(ts, _)| *ts).collect();
            SavedRows { matched: vec![true; ts.len()], ts, settled: 0 }
        });
        let part = |side: Side| {
            let (batch, rows) = (&batches[side as usize], kept[side as usize].ts.len());
            (batch.slice(0, rows), batch.slice(rows, batch.num_rows() - rows))
        };
        let ((left, later_left), (right, later_right)) = (part(Side::Left), part(Side::Right));
        if settled > 0 {
            self.restore(&kept, [&left, &right])?;
        }
        if !later.is_empty() {
            self.begin(driver, later, later_sides, &[later_left, later_right])?;
        }
        Ok(())
    }

    /// Returns the maximum number of pairs to compare before results are returned, for this number
    /// of rows.
    pub(super) fn comparisons_for(&self, rows: usize, has_condition: bool) -> u64 {
        let all_match = !has_condition && self.prepare.finds_results();
        let others = if all_match { 1 } else { (rows + self.rows()) as u64 };
        rows as u64 * others.max(self.prepare.comparisons_a_row())
    }

    /// Finds results for further rows in the epoch.
    pub(super) fn advance(&mut self, driver: &Driver, kept: &KeptRows<'_>) -> Result<Progress> {
        let test = self.prepare.test(&self.join, kept);
        Ok(self.join.advance(driver, test.as_deref())?)
    }

    /// Refills the engine with the kept rows after a flush, as if there had been no flush.
    pub(super) fn refill(&mut self, batches: [&RecordBatch; 2]) -> Result<()> {
        self.prepare.prepare_again(&mut self.join, batches, |join, values| join.refill(values))
    }

    /// At the end of an epoch, drops rows that no row at `now` or later can match.
    pub(super) fn purge(&mut self, now: SideWatermarks) {
        self.join.purge(now);
        self.prepare.release(&mut self.join);
    }

    /// Drops all rows that no row at `now` or later can match, including rows that lie between
    /// needed ones. Rows are dropped only if this is worth the cost. Returns the offsets of the
    /// rows that remain.
    pub(super) fn pack(&mut self, now: SideWatermarks) -> Option<[Vec<u32>; 2]> {
        let kept = self.join.pack(now)?;
        self.prepare.retain([&kept[0], &kept[1]]);
        self.prepare.release(&mut self.join);
        Some(kept)
    }

    /// Returns the number of the oldest kept row on each side.
    pub(super) fn first(&self) -> [u64; 2] {
        [self.join.first(Side::Left), self.join.first(Side::Right)]
    }

    /// Returns the number of kept rows on both sides.
    pub(super) fn rows(&self) -> usize {
        self.join.rows(Side::Left) + self.join.rows(Side::Right)
    }

    /// Returns the number of bytes held in addition to the rows.
    pub(super) fn memory(&self) -> usize {
        self.join.memory() + self.prepare.memory()
    }

    /// Restores the rows that were kept by an engine for the same query. This engine must be empty.
    pub(super) fn restore(
        &mut self,
        kept: &[SavedRows; 2],
        batches: [&RecordBatch; 2],
    ) -> Result<()> {
        let driver = Driver::new(1, Stop::default());
        self.prepare.prepare(&mut self.join, &driver, batches, |join, values| {
            join.restore(kept, values);
        })
    }
}

/// Provides access to the columns of kept rows.
#[derive(Debug)]
pub(in crate::stream) struct KeptRows<'a> {
    condition: Option<EngineCondition<'a>>,
    /// For each side, the low bits of the row number at offset 0.
    first: [u32; 2],
}

#[derive(Debug)]
struct EngineCondition<'a> {
    predicate: &'a Predicate,
    /// The columns of each side that the condition reads.
    columns: [Vec<Column>; 2],
}

impl<'a> KeptRows<'a> {
    pub(super) fn new(plan: &'a JoinPlan, stores: [&Store; 2], first: [u64; 2]) -> Self {
        let columns = |store: &Store, columns: &[usize]| {
            columns.iter().map(|&column| store.column(column)).collect()
        };
        let condition = plan.predicate.as_ref().map(|predicate| EngineCondition {
            predicate,
            columns: [
                columns(stores[0], predicate.columns(expression::Origin::Left)),
                columns(stores[1], predicate.columns(expression::Origin::Right)),
            ],
        });
        KeptRows { condition, first: first.map(|first| first as u32) }
    }

    /// Returns the condition that pairs have to satisfy, if there is one.
    pub(in crate::stream) fn condition(&self) -> Option<&Predicate> {
        self.condition.as_ref().map(|condition| condition.predicate)
    }

    /// Returns whether the join has a condition that pairs have to satisfy.
    pub(in crate::stream) fn has_condition(&self) -> bool {
        self.condition.is_some()
    }

    /// Returns the test for the condition, if there is one.
    pub(in crate::stream) fn test(&self) -> Option<Box<Filter<'_>>> {
        self.has_condition().then(|| -> Box<Filter<'_>> {
            Box::new(|left, right| self.keep(left, right).map_err(Into::into))
        })
    }

    /// Returns which pairs satisfy the condition. The pairs are given by the low bits of their left
    /// and right row numbers.
    pub(in crate::stream) fn keep(&self, left: &[u32], right: &[u32]) -> Result<Vec<bool>> {
        match &self.condition {
            Some(condition) => self.keep_by(condition.predicate, left, right),
            None => Ok(vec![true; left.len()]),
        }
    }

    /// Does the same as [`keep_by`](Self::keep_by), but only for the pairs that are candidates. The
    /// predicate might fail for the others.
    pub(in crate::stream) fn keep_candidates(
        &self,
        predicate: &Predicate,
        are_candidates: Vec<bool>,
        left: &[u32],
        right: &[u32],
    ) -> Result<Vec<bool>> {
        let candidates = |numbers: &[u32]| -> Vec<u32> {
            let pairs = numbers.iter().zip(&are_candidates);
            pairs.filter(|(_, is_candidate)| **is_candidate).map(|(number, _)| *number).collect()
        };
        let found = self.keep_by(predicate, &candidates(left), &candidates(right))?;
        let mut found = found.into_iter();
        let verdict = |is_candidate: bool| {
            is_candidate && found.next().expect("there is one verdict per candidate")
        };
        Ok(are_candidates.into_iter().map(verdict).collect())
    }

    /// Does the same as [`keep`](Self::keep), but evaluates only a part of the condition.
    pub(in crate::stream) fn keep_by(
        &self,
        predicate: &Predicate,
        left: &[u32],
        right: &[u32],
    ) -> Result<Vec<bool>> {
        let EngineCondition { predicate: whole, columns } =
            self.condition.as_ref().expect("a partial predicate belongs to a condition");
        let gather = |side: Side, of: expression::Origin, numbers: &[u32]| {
            let first = self.first[side as usize];
            let offsets: Vec<u32> =
                numbers.iter().map(|number| number.wrapping_sub(first)).collect();
            let column = |read: &usize| {
                let at = whole
                    .columns(of)
                    .binary_search(read)
                    .expect("the whole predicate reads all columns of its parts");
                columns[side as usize][at].gather(&offsets)
            };
            predicate.columns(of).iter().map(column).collect::<Result<Vec<_>, _>>()
        };
        let left_columns = gather(Side::Left, expression::Origin::Left, left)?;
        let right_columns = gather(Side::Right, expression::Origin::Right, right)?;
        Ok(predicate.evaluate(&left_columns, &right_columns, left.len())?.iter().collect())
    }
}
