//! Finds the pairs of a left table and a right table with an index.

use tidegate_operators::driver::Driver;
use tidegate_operators::interval::{interval_join_in, partner_rows_in};
use tidegate_operators::rows::Interval;

use super::join::{Candidates, FoundPairs};
use crate::Result;
use crate::columns::index::TableIndex;
use crate::columns::table::Table;
use crate::columns::time::{self, Unit};
use crate::query::options::JoinPlan;

/// The method that assigns an index's key numbers to left keys.
pub(super) const METHOD: &str = "looked up in the index";

/// Finds the pairs of left and indexed rows whose times are within an interval. Returns `None` if it
/// takes less time to visit all rows.
pub(super) fn pairs(
    index: &TableIndex,
    tables: (&Table, &Table),
    (times, unit): ((usize, usize), Unit),
    plan: &JoinPlan,
    interval: &Interval,
    driver: &Driver,
) -> Result<Option<FoundPairs>> {
    let fit = index.fit(tables, (times.1, unit), &plan.keys, driver)?;
    let ts = time::times(tables.0, times.0, unit)?;
    let matches = interval_join_in(&ts, &fit.rows(), interval, fit.factor, driver)?;
    let of_matches =
        |matches| FoundPairs { key_method: METHOD, candidates: Candidates::runs(matches) };
    Ok(matches.map(of_matches))
}

/// Returns the right table with only the rows that are partners of a left row. Returns `None` if it
/// takes less time to visit all rows.
pub(super) fn partners_only(
    index: &TableIndex,
    tables: (&Table, &Table),
    (times, unit): ((usize, usize), Unit),
    plan: &JoinPlan,
    (interval, with_prevailing): (&Interval, bool),
    driver: &Driver,
) -> Result<Option<Table>> {
    let fit = index.fit(tables, (times.1, unit), &plan.keys, driver)?;
    let ts = time::times(tables.0, times.0, unit)?;
    let rows = partner_rows_in(&ts, &fit.rows(), interval, with_prevailing, fit.factor);
    rows.map(|rows| tables.1.taken(&rows)).transpose()
}
