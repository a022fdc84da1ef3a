//! The interval join of two tables.

use tidegate_operators::asof::{Nearness, Preference};
use tidegate_operators::driver::Driver;
use tidegate_operators::interval::interval_join;
use tidegate_operators::rows::Interval;
use tidegate_sync::Stop;

use super::asof::few;
use super::index::{self, PartnerIntervals, TimedCandidates, pairs};
use super::join::Join;
use super::pairs::{Candidates, FoundPairs};
use super::partners::{FoundPartners, PartnerPlaces, TimedPartners};
use super::row_ends;
use super::sides::TableSides;
use crate::Result;
use crate::columns::table::Table;
use crate::columns::time;
use crate::query::function_intervals::PartnerInterval;
use crate::query::interval::{IntervalEnds, IntervalJoin, IntervalPlan};
use crate::query::options::JoinPlan;
use crate::query::partners::PartnerAggregation;

impl IntervalJoin {
    /// Finds the pairs of two tables. The result rows are built when they are read.
    pub fn start(&self, left: &Table, right: &Table, stop: Stop) -> Result<Join> {
        let driver = Driver::new(self.options.threads, stop);
        let mut plan = self.plan(left.schema(), right.schema())?;
        if let Some(limit) = self.limit {
            return self.start_limited(plan, limit.nearness(), (left, right), driver);
        }
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
        let intervals: &[Interval] = match &plan.ends {
            IntervalEnds::Fixed(interval) => std::slice::from_ref(interval),
            IntervalEnds::OfRows(_) => &[],
        };
        let rows = sides(&plan, intervals, left, right, &driver)?;
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

    /// Finds a limited number of pairs per left row.
    fn start_limited(
        &self,
        plan: IntervalPlan,
        nearness: Nearness,
        (left, right): (&Table, &Table),
        driver: Driver,
    ) -> Result<Join> {
        let candidates = match (right.index(), &plan.ends) {
            (Some(index), IntervalEnds::Fixed(interval)) => {
                index::candidates(index, (left, right), &plan, interval, &driver)?
            }
            _ => None,
        };
        let candidates = match candidates {
            Some(candidates) => candidates,
            None => self.candidates(&plan, nearness, (left, right), &driver)?,
        };
        let TimedCandidates { key_method, matches, left_ts, right_ts } = candidates;
        let condition = (plan.join.predicate.as_ref(), (left, right));
        let times = (&left_ts[..], &right_ts[..]);
        let (matches, method) = few(matches, nearness, times, condition, &driver)?;
        let found = FoundPairs { key_method, candidates: Candidates::runs(matches) };
        let plan = JoinPlan { predicate: None, ..plan.join };
        let join = Join::new(&self.options, plan, (left, right), found, None, driver)?;
        Ok(join.with_condition_method(method))
    }

    /// Returns the right rows in each left row's interval, in time order.
    fn candidates(
        &self,
        plan: &IntervalPlan,
        nearness: Nearness,
        (left, right): (&Table, &Table),
        driver: &Driver,
    ) -> Result<TimedCandidates> {
        let rows =
            match &plan.ends {
                // Without both bounds, distances of any length are compared.
                IntervalEnds::Fixed(
                    Interval { lower: None, .. } | Interval { upper: None, .. },
                ) if nearness.preference == Preference::Nearest => TableSides {
                    left: time::times(left, plan.times.0, plan.unit)?,
                    right: time::times(right, plan.times.1, plan.unit)?,
                    keys: plan.join.encode_keys(left, right, driver)?,
                },
                IntervalEnds::Fixed(interval) => {
                    sides(plan, std::slice::from_ref(interval), left, right, driver)?
                }
                IntervalEnds::OfRows(_) => sides(plan, &[], left, right, driver)?,
            };
        let key_method = rows.key_method();
        let matches = match &plan.ends {
            IntervalEnds::Fixed(interval) => {
                let (left, right) = rows.columns();
                interval_join(left, right, rows.key_count(), interval, driver)?
            }
            IntervalEnds::OfRows(ends) => row_ends::of_left(ends, left, &rows, driver)?,
        };
        let TableSides { left: left_ts, right: right_ts, .. } = rows;
        Ok(TimedCandidates { key_method, matches, left_ts, right_ts })
    }

    /// Finds the partners in the right table's index, if it has one. Returns a right table with only
    /// the partners. `read` contains the columns that functions read.
    pub(super) fn partners_in_index(
        &self,
        tables: (&Table, &Table),
        (aggregation, with_prevailing): (&PartnerAggregation, bool),
        read: Vec<usize>,
        driver: &Driver,
    ) -> Result<Option<(Table, FoundPartners)>> {
        let Some(index) = tables.1.index() else { return Ok(None) };
        let plan = self.plan(tables.0.schema(), tables.1.schema())?;
        let IntervalEnds::Fixed(interval) = plan.ends else { return Ok(None) };
        let times = (plan.times, plan.unit);
        let first = PartnerInterval { interval, with_prevailing };
        let ends = PartnerIntervals {
            each: aggregation.intervals.each(first, plan.unit)?,
            covering: aggregation.intervals.covering(first, plan.unit)?,
        };
        index::partners(index, tables, times, plan.join, &ends, read, driver)
    }

    /// Finds the partners of the left table's rows in the interval of each function. If only the number of partners is needed, and
    /// counting is less work, the partners are only counted.
    pub(super) fn partners(
        &self,
        left: &Table,
        right: &Table,
        (aggregation, with_prevailing): (&PartnerAggregation, bool),
        driver: &Driver,
    ) -> Result<FoundPartners> {
        let mut plan = self.plan(left.schema(), right.schema())?;
        let intervals = match plan.ends {
            IntervalEnds::Fixed(interval) => aggregation
                .intervals
                .each(PartnerInterval { interval, with_prevailing }, plan.unit)?,
            IntervalEnds::OfRows(_) => Vec::new(),
        };
        let ends: Vec<_> = intervals.iter().map(|one| one.interval).collect();
        let rows = sides(&plan, &ends, left, right, driver)?;
        let key_method = rows.key_method();
        let partners = match &plan.ends {
            IntervalEnds::Fixed(_) => {
                PartnerPlaces::Runs(Box::new(TimedPartners::new(rows, &intervals)))
            }
            IntervalEnds::OfRows(ends) => {
                let (tables, are_counted) = ((left, right), aggregation.are_counts());
                let (found, ts) =
                    row_ends::find(ends, &mut plan.join, rows, tables, are_counted, driver)?;
                PartnerPlaces::Pairs(found, Some(ts))
            }
        };
        Ok(FoundPartners { plan: plan.join, key_method, partners })
    }
}

/// Returns the times and keys of two tables, given all intervals of left rows.
fn sides(
    plan: &IntervalPlan,
    intervals: &[Interval],
    left: &Table,
    right: &Table,
    driver: &Driver,
) -> Result<TableSides> {
    let (left_ts, right_ts) = match &plan.ends {
        IntervalEnds::Fixed(_) => {
            let ends = intervals.iter().flat_map(|one| [one.lower, one.upper]).flatten();
            let ends: Vec<i128> = ends.map(i128::from).collect();
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
