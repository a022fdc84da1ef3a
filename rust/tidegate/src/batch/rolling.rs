//! The rows in the rolling windows of a table.

use std::ops::Range;

use tidegate_operators::driver::Driver;
use tidegate_operators::order::{JoinColumns, ordinals};
use tidegate_structures::memory;
use tidegate_structures::memory::pages::Pages;

use super::join::Join;
use super::partners::{FoundPartners, PartnerPlaces, TimedPartners};
use super::sides::OneTable;
use crate::aggregate::groups::number_groups;
use crate::columns::faults::Faults;
use crate::columns::table::Table;
use crate::columns::time::{self, Int64s};
use crate::query::partners::PartnerAggregation;
use crate::query::rolling::{RollingPlan, RollingWindows};
use crate::{Error, Result};

/// Some rows of a stream, in merged order.
pub(crate) struct RolledRows<'a> {
    pub(crate) table: &'a Table,
    /// The rows that have results.
    pub(crate) due: Range<usize>,
    /// The number of rows with results before `due`.
    pub(crate) before: u64,
    /// For the first rows, the number of earlier rows with the same key. These rows include the
    /// last row of each key that precedes the other rows.
    pub(crate) ordinals: &'a [i64],
}

/// The aggregates over the windows of the given rows.
pub(crate) struct RolledResults {
    pub(crate) join: Join,
    /// For each row, the number of earlier rows with the same key, if windows consist of rows.
    pub(crate) ordinals: Option<Vec<i64>>,
}

impl RollingWindows {
    /// Finds the rows in the window of each row in a table.
    pub(super) fn partners(&self, table: &Table, driver: &Driver) -> Result<FoundPartners> {
        let plan = self.plan(table.schema())?;
        let (keys, key_count) = numbered(&plan, table, driver)?;
        let mut ts = time::times(table, plan.time, plan.unit)?;
        if self.counts_rows() {
            let rows = JoinColumns { ts: &ts, keys: keys.as_deref() };
            ts = Int64s::Own(ordinals(rows, key_count, driver)?);
        }
        Ok(found(plan, OneTable { ts, keys, key_count, left: 0..table.rows() }))
    }
}

impl PartnerAggregation {
    /// Aggregates the windows of the given rows in a stream.
    pub(crate) fn start_rolled(
        &self,
        rows: &RolledRows<'_>,
        faults: &Faults,
        driver: Driver,
    ) -> Result<RolledResults> {
        let RolledRows { table, due, before, ordinals } = rows;
        let rolling = self.rolling().ok_or_else(|| Error::bug("these are no rolling windows"))?;
        let plan = rolling.plan(table.schema())?;
        let (keys, key_count) = numbered(&plan, table, &driver)?;
        let mut continued = None;
        let ts = match rolling.counts_rows() {
            false => time::times(table, plan.time, plan.unit)?,
            true => {
                let found = continued_ordinals(ordinals, keys.as_deref(), key_count, table.rows());
                continued = Some(found.clone());
                Int64s::Own(Pages::copied(&found))
            }
        };
        let found = found(plan, OneTable { ts, keys, key_count, left: due.clone() });
        let left = table.sliced(due.clone())?;
        let (before, faults) = (Some(*before), Some(faults));
        let join =
            self.start_found(found, (&left, table), table.schema(), before, faults, driver)?;
        Ok(RolledResults { join, ordinals: continued })
    }
}

fn found(plan: RollingPlan, table: OneTable) -> FoundPartners {
    let partners = TimedPartners::within(table, plan.interval);
    let partners = PartnerPlaces::Runs(Box::new(partners));
    FoundPartners { plan: plan.join, key_method: "groups", partners }
}

/// Returns the number of each row's key, if there are keys, and a number greater than all of them.
fn numbered(
    plan: &RollingPlan,
    table: &Table,
    driver: &Driver,
) -> Result<(Option<Pages<u32>>, usize)> {
    if plan.join.keys.is_empty() {
        return Ok((None, 1));
    }
    let (numbers, count) = number_groups(table, &plan.join.keys, driver)?;
    Ok((Some(numbers), count))
}

/// Returns the number of earlier rows with the same key for each row, given these numbers for the
/// first rows. The rows are in merged order.
pub(super) fn continued_ordinals(
    first: &[i64],
    keys: Option<&[u32]>,
    key_count: usize,
    rows: usize,
) -> Vec<i64> {
    let mut next = memory::filled(key_count, 0_i64);
    let mut found = memory::vec(rows);
    for row in 0..rows {
        let next = &mut next[keys.map_or(0, |keys| keys[row] as usize)];
        let ordinal = first.get(row).copied().unwrap_or(*next);
        found.push(ordinal);
        *next = ordinal + 1;
    }
    found
}
