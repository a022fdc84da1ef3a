//! The overlap join of two tables.

use std::sync::Arc;

use tidegate_operators::driver::Driver;
use tidegate_operators::matches::{BitSet, Matches, Output};
use tidegate_operators::overlap::{IntervalColumns, Overlaps, count_overlaps};
use tidegate_operators::rows::{How, NO_KEY};
use tidegate_sync::Stop;

use super::index::{overlapping_only, overlaps};
use super::join::{Join, too_many};
use super::pairs::{Candidates, FoundPairs};
use super::partners::{FoundPartners, PartnerPlaces};
use super::sides::{some_keys, take_one_sided};
use crate::Result;
use crate::columns::intervals::Intervals;
use crate::columns::keys::Keys;
use crate::columns::table::Table;
use crate::columns::time::{self, Int64s};
use crate::query::options::{JoinOptions, JoinPlan};
use crate::query::overlap::{OverlapJoin, OverlapPlan};

impl OverlapJoin {
    /// Finds the pairs of two tables. The result rows are built when they are read.
    pub fn start(&self, left: &Table, right: &Table, stop: Stop) -> Result<Join> {
        let driver = Driver::new(self.options.threads, stop);
        let mut plan = self.plan(left.schema(), right.schema())?;
        if let Some(index) = right.index()
            && let Some(found) = overlaps(index, (left, right), &plan, &driver)?
        {
            return Join::new(&self.options, plan.join, (left, right), found, None, driver);
        }
        let sides = OverlapSides::read(&mut plan, left, right, &driver)?;
        let key_method = sides.key_method();
        let JoinOptions { how, max_rows, .. } = self.options;
        let has_condition = plan.join.predicate.is_some();
        if let Some(most) = max_rows.filter(|_| how.pairs() && !has_condition) {
            sides.check_number(how, most, &driver)?;
        }
        // The number of pairs shows whether a row has any.
        let are_counted = !how.pairs() && !has_condition;
        let candidates = sides.find(are_counted, &driver)?.0;
        let found = FoundPairs { key_method, candidates };
        Join::new(&self.options, plan.join, (left, right), found, None, driver)
    }

    /// Returns the right table with only the partners of left rows, if an index finds them. Returns
    /// `None` if it takes less time to visit all rows.
    pub(super) fn partners_only(
        &self,
        tables: (&Table, &Table),
        driver: &Driver,
    ) -> Result<Option<Table>> {
        let Some(index) = tables.1.index() else { return Ok(None) };
        let plan = self.plan(tables.0.schema(), tables.1.schema())?;
        overlapping_only(index, tables, &plan, driver)
    }

    /// Finds the partners of the left table's rows, or only counts them.
    pub(super) fn partners(
        &self,
        left: &Table,
        right: &Table,
        are_counted: bool,
        driver: &Driver,
    ) -> Result<FoundPartners> {
        let mut plan = self.plan(left.schema(), right.schema())?;
        let sides = OverlapSides::read(&mut plan, left, right, driver)?;
        let key_method = sides.key_method();
        let are_counted = are_counted && plan.join.predicate.is_none();
        let (candidates, starts) = sides.find(are_counted, driver)?;
        let partners = PartnerPlaces::Pairs(FoundPairs { key_method, candidates }, Some(starts));
        Ok(FoundPartners { plan: plan.join, key_method, partners })
    }
}

/// The intervals and keys of two tables.
pub(super) struct OverlapSides {
    left: Intervals,
    right: Intervals,
    keys: Option<Keys>,
}

impl OverlapSides {
    fn read(plan: &mut OverlapPlan, left: &Table, right: &Table, driver: &Driver) -> Result<Self> {
        let ends = [plan.columns[0].of(left)?, plan.columns[1].of(right)?];
        let columns = ends.iter().flat_map(|ends| [(ends, 0), (ends, 1)]);
        let times: Vec<_> = match plan.least {
            // Only the order of the times matters here, not their distances.
            0 | 1 => time::times_in_order(&columns.collect::<Vec<_>>(), plan.unit)?,
            _ => columns
                .map(|(table, column)| time::times_or_nulls(table, column, plan.unit))
                .collect::<Result<_>>()?,
        };
        let mut times = times.into_iter();
        let mut both = || [(); 2].map(|()| times.next().expect("each side has two columns"));
        let mut intervals = |side: usize, table: &Table| {
            let columns = &plan.columns[side];
            let rule = (plan.least, columns.are_open, plan.unit);
            Intervals::of((table.name(), columns.names()), both(), rule, driver)
        };
        let of_left = intervals(0, left)?;
        let of_right = intervals(1, right)?;
        let keys = plan.join.encode_keys(left, right, driver)?;
        OverlapSides::new(&mut plan.join, (left, of_left), (right, of_right), keys, driver)
    }

    /// If each part of a condition reads only one table, the condition is evaluated here and
    /// removed from the plan.
    pub(super) fn new(
        plan: &mut JoinPlan,
        (left, of_left): (&Table, Intervals),
        (right, of_right): (&Table, Intervals),
        mut keys: Option<Keys>,
        driver: &Driver,
    ) -> Result<Self> {
        let kept = take_one_sided(plan, (left, right), driver)?.unwrap_or_default();
        let rows = (left.rows(), right.rows());
        for (side, (intervals, kept)) in [&of_left, &of_right].into_iter().zip(kept).enumerate() {
            if intervals.without.is_empty() && kept.is_none() {
                continue;
            }
            let keys = some_keys(&mut keys, rows);
            let keys = if side == 0 { &mut keys.left } else { &mut keys.right };
            intervals.without.iter().for_each(|&row| keys[row as usize] = NO_KEY);
            kept.iter().flat_map(BitSet::missing).for_each(|row| keys[row] = NO_KEY);
        }
        Ok(OverlapSides { left: of_left, right: of_right, keys })
    }

    /// The method by which keys were numbered.
    fn key_method(&self) -> &'static str {
        self.keys.as_ref().map_or("none", |keys| keys.method)
    }

    /// Returns each side's columns and the number of keys.
    fn columns(&self) -> (IntervalColumns<'_>, IntervalColumns<'_>, usize) {
        let keys = self.keys.as_ref();
        let left = self.left.columns(keys.map(|keys| &*keys.left));
        let right = self.right.columns(keys.map(|keys| &*keys.right));
        (left, right, keys.map_or(1, |keys| keys.count))
    }

    /// Counts each left row's pairs.
    fn count(&self, driver: &Driver) -> Result<Matches> {
        let (left, right, key_count) = self.columns();
        Ok(count_overlaps(left, right, key_count, driver)?)
    }

    /// Rejects a result with more than `most` rows before any of them is built.
    fn check_number(&self, how: How, most: u64, driver: &Driver) -> Result<()> {
        let counts = Arc::new(self.count(driver)?);
        let rows = Output::new(counts, how, driver)?.rows();
        if rows > most { Err(too_many(rows, most)) } else { Ok(()) }
    }

    /// Returns the pairs, or only the number of pairs per left row. Also returns the starts of
    /// right rows.
    pub(super) fn find(self, are_counted: bool, driver: &Driver) -> Result<(Candidates, Int64s)> {
        let candidates = match are_counted {
            true => Candidates::runs(self.count(driver)?),
            false => {
                let (left, right, key_count) = self.columns();
                let overlaps = Overlaps::new(left, right, key_count, driver)?;
                Candidates::Overlaps(Box::new(overlaps), self.left.starts)
            }
        };
        Ok((candidates, self.right.starts))
    }
}
