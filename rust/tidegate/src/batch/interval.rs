//! The interval join of two tables.

use tidegate_operators::driver::Driver;
use tidegate_operators::interval::interval_join;
use tidegate_sync::Stop;

use super::join::{Candidates, Found, Join};
use super::partners::{FoundPartners, Source, TimedPartners};
use super::sides::Sides;
use crate::Result;
use crate::columns::table::Table;
use crate::columns::time;
use crate::query::interval::{IntervalJoin, IntervalPlan};

impl IntervalJoin {
    /// Finds the pairs of two tables. The rows of the result are made when they are read.
    pub fn start(&self, left: &Table, right: &Table, stop: Stop) -> Result<Join> {
        let driver = Driver::new(self.options.threads, stop);
        let plan = self.plan(left.schema(), right.schema())?;
        let rows = sides(&plan, left, right, &driver)?;
        let (left_side, right_side) = rows.columns();
        let matches =
            interval_join(left_side, right_side, rows.key_count(), &plan.interval, &driver)?;
        let found = Found { key_method: rows.key_method(), candidates: Candidates::runs(matches) };
        Join::new(&self.options, plan.join, (left, right), found, None, driver)
    }

    /// Finds the partners of the left rows of two tables.
    pub(super) fn partners(
        &self,
        left: &Table,
        right: &Table,
        with_prevailing: bool,
        driver: &Driver,
    ) -> Result<FoundPartners> {
        let plan = self.plan(left.schema(), right.schema())?;
        let rows = sides(&plan, left, right, driver)?;
        let key_method = rows.key_method();
        let timed = TimedPartners::new(rows, plan.interval, with_prevailing);
        Ok(FoundPartners { plan: plan.join, key_method, partners: Source::Runs(Box::new(timed)) })
    }
}

/// The times and keys of two tables.
fn sides(plan: &IntervalPlan, left: &Table, right: &Table, driver: &Driver) -> Result<Sides> {
    Ok(Sides {
        left: time::times(left, plan.times.0, plan.unit)?,
        right: time::times(right, plan.times.1, plan.unit)?,
        keys: plan.join.encode_keys(left, right, driver)?,
    })
}
