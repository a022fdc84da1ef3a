//! The interval join of two tables.

use tidegate_operators::driver::Driver;
use tidegate_operators::interval::interval_join;
use tidegate_sync::Stop;

use super::index::{self, pairs};
use super::join::{Candidates, FoundPairs, Join};
use super::partners::{FoundPartners, PartnerPlaces, TimedPartners};
use super::row_ends;
use super::sides::TableSides;
use crate::Result;
use crate::columns::table::Table;
use crate::columns::time;
use crate::query::interval::{IntervalEnds, IntervalJoin, IntervalPlan};

impl IntervalJoin {
    /// Finds the pairs of two tables. The result rows are built when they are read.
    pub fn start(&self, left: &Table, right: &Table, stop: Stop) -> Result<Join> {
        let driver = Driver::new(self.options.threads, stop);
        let mut plan = self.plan(left.schema(), right.schema())?;
        if let (Some(index), IntervalEnds::Fixed(interval)) = (right.index(), &plan.ends) {
            let found = pairs(
                index,
                (left, right),
                (plan.times, plan.unit),
                &plan.join,
                interval,
                &driver,
            )?;
            if let Some(found) = found {
                return Join::new(&self.options, plan.join, (left, right), found, None, driver);
            }
        }
        let rows = sides(&plan, left, right, &driver)?;
        let found = match &plan.ends {
            IntervalEnds::Fixed(interval) => {
                let (left, right) = rows.columns();
                let matches = interval_join(left, right, rows.key_count(), interval, &driver)?;
                FoundPairs { key_method: rows.key_method(), candidates: Candidates::runs(matches) }
            }
            IntervalEnds::OfRows(ends) => {
                // The number of pairs shows whether a row has any pairs.
                let are_counted = !self.options.how.pairs();
                let tables = (left, right);
                row_ends::find(ends, &mut plan.join, rows, tables, are_counted, &driver)?.0
            }
        };
        Join::new(&self.options, plan.join, (left, right), found, None, driver)
    }

    /// Finds the partners in the right table's index, if it has one. Returns a right table with only
    /// the partners. `read` contains the columns that functions read.
    pub(super) fn partners_in_index(
        &self,
        tables: (&Table, &Table),
        with_prevailing: bool,
        read: Vec<usize>,
        driver: &Driver,
    ) -> Result<Option<(Table, FoundPartners)>> {
        let Some(index) = tables.1.index() else { return Ok(None) };
        let plan = self.plan(tables.0.schema(), tables.1.schema())?;
        let IntervalEnds::Fixed(interval) = plan.ends else { return Ok(None) };
        let times = (plan.times, plan.unit);
        let ends = (interval, with_prevailing);
        index::partners(index, tables, times, plan.join, ends, read, driver)
    }

    /// Finds the partners of the left table's rows. If only the number of partners is needed, and
    /// counting is less work, the partners are only counted.
    pub(super) fn partners(
        &self,
        left: &Table,
        right: &Table,
        with_prevailing: bool,
        are_counted: bool,
        driver: &Driver,
    ) -> Result<FoundPartners> {
        let mut plan = self.plan(left.schema(), right.schema())?;
        let rows = sides(&plan, left, right, driver)?;
        let key_method = rows.key_method();
        let partners = match &plan.ends {
            IntervalEnds::Fixed(interval) => {
                PartnerPlaces::Runs(Box::new(TimedPartners::new(rows, *interval, with_prevailing)))
            }
            IntervalEnds::OfRows(ends) => {
                let tables = (left, right);
                let (found, ts) =
                    row_ends::find(ends, &mut plan.join, rows, tables, are_counted, driver)?;
                PartnerPlaces::Pairs(found, Some(ts))
            }
        };
        Ok(FoundPartners { plan: plan.join, key_method, partners })
    }
}

/// Returns the times and keys of two tables.
fn sides(plan: &IntervalPlan, left: &Table, right: &Table, driver: &Driver) -> Result<TableSides> {
    let (left_ts, right_ts) = match &plan.ends {
        IntervalEnds::Fixed(interval) => {
            let ends = [interval.lower, interval.upper].into_iter().flatten().map(i128::from);
            let ends: Vec<i128> = ends.collect();
            time::both_times((left, right), plan.times, plan.unit, &ends)?
        }
        IntervalEnds::OfRows(_) => (
            time::times(left, plan.times.0, plan.unit)?,
            time::times(right, plan.times.1, plan.unit)?,
        ),
    };
    Ok(TableSides {
        left: left_ts,
        right: right_ts,
        keys: plan.join.encode_keys(left, right, driver)?,
    })
}
