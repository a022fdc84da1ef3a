//! The window join of two tables.

use tidegate_operators::driver::{Driver, Stopped};
use tidegate_operators::interval::interval_join;
use tidegate_operators::matches::Matches;
use tidegate_operators::rows::{Interval, Retention};
use tidegate_operators::window::counts::{Counts, count_window_join};
use tidegate_sync::Stop;

use super::index::{self, PartnerIntervals, pairs};
use super::join::Join;
use super::pairs::{Candidates, FoundPairs};
use super::partners::{FoundPartners, PartnerPlaces, TimedPartners};
use super::sides::TableSides;
use super::sliding;
use crate::Result;
use crate::columns::table::Table;
use crate::query::function_intervals::PartnerInterval;
use crate::query::options::JoinPlan;
use crate::query::window::{WindowJoin, WindowJoinPlan};

impl WindowJoin {
    /// Finds the pairs of two tables. The result rows are built when they are read.
    pub fn start(&self, left: &Table, right: &Table, stop: Stop) -> Result<Join> {
        let driver = Driver::new(self.options.threads, stop);
        let plan = self.plan(left.schema(), right.schema())?;
        if let (Some(index), None, Retention::Time { left: before, right: after }) =
            (right.index(), self.algorithm, plan.windows.retention)
        {
            let interval = Interval::of_windows(before, after);
            let times = (plan.windows.times, plan.windows.unit);
            let found = pairs(index, (left, right), times, &plan.join, &interval, &driver)?;
            if let Some(found) = found {
                return Join::new(&self.options, plan.join, (left, right), found, None, driver);
            }
        }
        let rows = sides(&plan, left, right, &driver)?;
        let key_method = rows.key_method();
        if let Some(algorithm) = self.algorithm {
            let ts: [&[i64]; 2] = [&rows.left, &rows.right];
            let tables = sliding::Tables { left, right, ts, keys: rows.keys.as_ref() };
            let matches = self.compare(algorithm, &plan, &tables, &driver)?;
            let plan = JoinPlan { predicate: None, ..plan.join };
            let found = FoundPairs { key_method, candidates: Candidates::runs(matches) };
            return Join::new(&self.options, plan, (left, right), found, None, driver);
        }
        let (left_side, right_side) = rows.columns();
        let matches = match plan.windows.retention {
            Retention::Time { left, right } => {
                let interval = Interval::of_windows(left, right);
                interval_join(left_side, right_side, rows.key_count(), &interval, &driver)?
            }
            Retention::Rows { left, right } => in_counts(&rows, left, right, &driver)?,
        };
        let found = FoundPairs { key_method, candidates: Candidates::runs(matches) };
        Join::new(&self.options, plan.join, (left, right), found, None, driver)
    }

    /// Finds the partners in the right table's index, if it has one. Returns a right table with only
    /// the partners. `read` contains the columns that functions read.
    pub(super) fn partners_in_index(
        &self,
        tables: (&Table, &Table),
        read: Vec<usize>,
        driver: &Driver,
    ) -> Result<Option<(Table, FoundPartners)>> {
        let Some(index) = tables.1.index() else { return Ok(None) };
        let plan = self.plan(tables.0.schema(), tables.1.schema())?;
        let Retention::Time { left, right } = plan.windows.retention else { return Ok(None) };
        let times = (plan.windows.times, plan.windows.unit);
        let interval = Interval::of_windows(left, right);
        let ends = PartnerIntervals::one(PartnerInterval { interval, with_prevailing: false });
        index::partners(index, tables, times, plan.join, &ends, read, driver)
    }

    /// Finds the partners of the left table's rows.
    pub(super) fn partners(
        &self,
        left: &Table,
        right: &Table,
        driver: &Driver,
    ) -> Result<FoundPartners> {
        let plan = self.plan(left.schema(), right.schema())?;
        let rows = sides(&plan, left, right, driver)?;
        let key_method = rows.key_method();
        let partners = match plan.windows.retention {
            Retention::Time { left, right } => {
                let interval = Interval::of_windows(left, right);
                let ends = PartnerInterval { interval, with_prevailing: false };
                PartnerPlaces::Runs(Box::new(TimedPartners::new(rows, &[ends])))
            }
            Retention::Rows { left, right } => {
                let matches = in_counts(&rows, left, right, driver)?;
                let found = FoundPairs { key_method, candidates: Candidates::runs(matches) };
                PartnerPlaces::Pairs(found, Some(rows.right))
            }
        };
        Ok(FoundPartners { plan: plan.join, key_method, partners })
    }
}

/// Returns the times and keys of two tables.
fn sides(
    plan: &WindowJoinPlan,
    left: &Table,
    right: &Table,
    driver: &Driver,
) -> Result<TableSides> {
    let (left_ts, right_ts) = plan.windows.times(left, right)?;
    let keys = plan.join.encode_keys(left, right, driver)?;
    Ok(TableSides { left: left_ts, right: right_ts, keys })
}

/// Returns the pairs within row-based windows of the given sizes.
fn in_counts(
    sides: &TableSides,
    left: u64,
    right: u64,
    driver: &Driver,
) -> Result<Matches, Stopped> {
    let counts = Counts { left: left as usize, right: right as usize };
    let (left, right) = sides.columns();
    count_window_join(left, right, sides.key_count(), counts, driver)
}
