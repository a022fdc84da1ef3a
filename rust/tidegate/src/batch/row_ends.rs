//! The interval join of two tables, for intervals whose ends differ from row to row.
//!
//! Ends computed from columns of the left side give each left row a separate interval. Its partners
//! are a run of right rows with the same key:
//!
//! ```text
//!   left        ●                     lower and upper of the left row
//!            ├──┴──────┤
//!   right  ●─┼──●───●──┼──●
//! ```
//!
//! An end computed from columns of the right side determines the interval that must contain the
//! left time. In that case, the interval belongs to the right row. Two rows are a pair if their
//! intervals overlap. If one end belongs to the left side and the other to the right side, both
//! rows have an interval.

use std::ops::Range;

use arrow_array::RecordBatch;
use tidegate_operators::driver::Driver;
use tidegate_operators::interval::row_interval_join;
use tidegate_operators::matches::Matches;
use tidegate_operators::rows;
use tidegate_structures::memory::pages::{Pages, Slot};
use tidegate_sync::Stop;

use super::overlap::OverlapSides;
use super::pairs::{Candidates, FoundPairs};
use super::sides::{TableSides, take_one_sided};
use crate::Result;
use crate::columns::expression::Origin;
use crate::columns::intervals::Intervals;
use crate::columns::row_ends::{RowEnd, RowEnds};
use crate::columns::table::Table;
use crate::columns::time::{self, Int64s};
use crate::query::options::JoinPlan;
use crate::query::plan::QueryPlan;

/// The number of rows whose ends a thread computes at a time.
const BLOCK_ROWS: usize = 1 << 13;

/// Finds the pairs of two tables. If only the number of pairs is needed and counting is cheaper,
/// each left row's pairs are counted without being listed. Also returns the times of right rows.
///
/// If each part of a condition reads a single table, the condition can be evaluated here. The
/// condition is then removed from the plan.
pub(super) fn find(
    ends: &RowEnds,
    plan: &mut JoinPlan,
    mut rows: TableSides,
    (left, right): (&Table, &Table),
    are_counted: bool,
    driver: &Driver,
) -> Result<(FoundPairs, Int64s)> {
    let key_method = rows.key_method();
    let [of_left, of_right] = endpoints(ends);
    if !ends.reads(Origin::Right) {
        if let Some(kept) = take_one_sided(plan, (left, right), driver)? {
            rows.keep(&kept);
        }
        let matches = of_left_rows(left, &rows, of_left, ends.are_open, driver)?;
        return Ok((FoundPairs { key_method, candidates: Candidates::runs(matches) }, rows.right));
    }
    let is_mixed = ends.reads(Origin::Left);
    let rule = IntervalRule { are_open: ends.are_open, are_ordered: !is_mixed };
    let interval = |table, ts: &[i64], side, endpoints| {
        let RowIntervals { starts, ends, without } =
            intervals(table, ts, side, endpoints, rule, driver)?;
        Ok::<_, crate::Error>(Intervals {
            starts: Int64s::Own(starts),
            ends: Some(Int64s::Own(ends)),
            without,
        })
    };
    let of_right = interval(right, &rows.right, Origin::Right, of_right)?;
    let of_left = match is_mixed {
        false => Intervals { starts: rows.left, ends: None, without: Vec::new() },
        true => interval(left, &rows.left, Origin::Left, of_left)?,
    };
    let sides = OverlapSides::new(plan, (left, of_left), (right, of_right), rows.keys, driver)?;
    // If rows can end before they start, pairs cannot be counted by starts and ends.
    let are_counted = are_counted && !is_mixed && plan.predicate.is_none();
    let (candidates, _) = sides.find(are_counted, driver)?;
    Ok((FoundPairs { key_method, candidates }, rows.right))
}

/// Finds the right rows in each left row's interval, in time order, if ends are computed from left
/// columns only.
pub(super) fn of_left(
    ends: &RowEnds,
    left: &Table,
    rows: &TableSides,
    driver: &Driver,
) -> Result<Matches> {
    let [of_left, _] = endpoints(ends);
    of_left_rows(left, rows, of_left, ends.are_open, driver)
}

/// For each side, returns the points at which its rows' intervals start and end. The points are
/// chosen so that two rows form a pair if their intervals overlap.
///
/// Two conditions make intervals overlap. The lower end requires the left start to be at or before
/// the right end. The upper end requires the right start to be at or before the left end. If ends
/// are computed from both sides, an interval's start can be after its end.
fn endpoints(ends: &RowEnds) -> [[Endpoint<'_>; 2]; 2] {
    let (lower, upper) = (Endpoint::of(ends.lower.as_ref()), Endpoint::of(ends.upper.as_ref()));
    let own = [Endpoint::Own, Endpoint::Own];
    match (ends.reads(Origin::Left), ends.reads(Origin::Right)) {
        (_, false) => [[lower, upper], own],
        (false, true) => [own, [upper, lower]],
        (true, true) if lower.is_of(Origin::Left) => {
            [[lower, Endpoint::Own], [upper, Endpoint::Own]]
        }
        (true, true) => [[Endpoint::Own, upper], [Endpoint::Own, lower]],
    }
}

impl QueryPlan {
    /// Returns a start and an end for each of a side's rows, for an interval join whose ends are
    /// computed from columns. Rows on the two sides match only if their intervals overlap. For a
    /// row that matches nothing, both the start and the end are the row's time. A missing time
    /// counts as 0. Returns `None` for other joins.
    ///
    /// The rows must have the columns for which the plan was made. Times are in the finer of the
    /// two sides' units.
    pub fn row_intervals(&self, rows: &Table, of_left: bool) -> Result<Option<[Vec<i64>; 2]>> {
        let (Some(ends), Some(unit), Some(reach)) = (&self.row_ends, self.unit, &self.time) else {
            return Ok(None);
        };
        let [left, right] = endpoints(ends);
        let (side, column, endpoints) = match of_left {
            true => (Origin::Left, reach.columns.0, left),
            false => (Origin::Right, reach.columns.1, right),
        };
        let (ts, _) = time::times_or_nulls(rows, column, unit)?;
        let is_mixed = ends.reads(Origin::Left) && ends.reads(Origin::Right);
        let driver = Driver::new(1, Stop::default());
        let rule = IntervalRule { are_open: ends.are_open, are_ordered: !is_mixed };
        let found = intervals(rows, &ts, side, endpoints, rule, &driver)?;
        let (mut starts, mut ends) = (found.starts.to_vec(), found.ends.to_vec());
        for row in found.without {
            let row = row as usize;
            (starts[row], ends[row]) = (ts[row], ts[row]);
        }
        // If the start is after the end, the interval that contains both points overlaps everything
        // that this interval overlaps.
        for (start, end) in starts.iter_mut().zip(&ends) {
            *start = (*start).min(*end);
        }
        Ok(Some([starts, ends]))
    }
}

/// Finds the pairs if all computed ends belong to the left side.
fn of_left_rows(
    left: &Table,
    rows: &TableSides,
    endpoints: [Endpoint<'_>; 2],
    are_open: bool,
    driver: &Driver,
) -> Result<Matches> {
    let rule = IntervalRule { are_open, are_ordered: true };
    let found = intervals(left, &rows.left, Origin::Left, endpoints, rule, driver)?;
    let ends = rows::RowEnds { first: &found.starts, last: &found.ends };
    let (left, right) = rows.columns();
    Ok(row_interval_join(left, right, rows.key_count(), ends, driver)?)
}

/// The start or end of a row's interval.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Limit {
    Start,
    End,
}

/// The start or end of the interval that contains a row's matching times on the other side.
#[derive(Clone, Copy)]
enum Endpoint<'a> {
    /// The time of the row.
    Own,
    /// There is no such point.
    Unbounded,
    /// The point that the end specifies as a distance from the row's time.
    Of(&'a RowEnd),
}

impl<'a> Endpoint<'a> {
    fn of(end: Option<&'a RowEnd>) -> Self {
        end.map_or(Endpoint::Unbounded, Endpoint::Of)
    }

    /// Returns whether the end is computed from this side's columns.
    fn is_of(self, side: Origin) -> bool {
        matches!(self, Endpoint::Of(end) if end.side() == Some(side))
    }
}

/// The intervals of one side's rows. If a row matches nothing, its interval starts at the latest
/// possible time and ends at the earliest.
struct RowIntervals {
    starts: Pages<i64>,
    ends: Pages<i64>,
    /// The rows that match nothing.
    without: Vec<u32>,
}

/// Which rows match nothing.
#[derive(Clone, Copy)]
struct IntervalRule {
    /// Whether a null end means that the row has no bound there. Otherwise, the row matches
    /// nothing.
    are_open: bool,
    /// Whether a row whose start is after its end matches nothing.
    are_ordered: bool,
}

/// The intervals of one side's rows.
fn intervals(
    table: &Table,
    ts: &[i64],
    side: Origin,
    endpoints: [Endpoint<'_>; 2],
    rule: IntervalRule,
    driver: &Driver,
) -> Result<RowIntervals> {
    let mut starts = Pages::unwritten(table.rows());
    let mut ends = Pages::unwritten(table.rows());
    let (mut rest_starts, mut rest_ends) = (&mut starts[..], &mut ends[..]);
    let mut work = Vec::new();
    let mut first = 0;
    for batch in table.batches() {
        for from in (0..batch.num_rows()).step_by(BLOCK_ROWS) {
            let block = batch.slice(from, BLOCK_ROWS.min(batch.num_rows() - from));
            let rows = first..first + block.num_rows();
            first = rows.end;
            let (starts, next_starts) = rest_starts.split_at_mut(rows.len());
            let (ends, next_ends) = rest_ends.split_at_mut(rows.len());
            (rest_starts, rest_ends) = (next_starts, next_ends);
            work.push((block, rows, starts, ends));
        }
    }
    type Work<'a> = (RecordBatch, Range<usize>, &'a mut [Slot<i64>], &'a mut [Slot<i64>]);
    let found = driver.map(work, |(block, rows, starts, ends): Work<'_>| {
        let ts = &ts[rows.clone()];
        let [start, end] = endpoints;
        let found_starts = times(start, Limit::Start, &block, ts, (side, rule.are_open))?;
        let found_ends = times(end, Limit::End, &block, ts, (side, rule.are_open))?;
        let mut without = Vec::new();
        for (at, row) in rows.enumerate() {
            let interval = found_starts[at].zip(found_ends[at]);
            let interval = interval.filter(|(start, end)| !rule.are_ordered || start <= end);
            let (start, end) = interval.unwrap_or_else(|| {
                without.push(row as u32);
                (i64::MAX, i64::MIN)
            });
            starts[at].set(start);
            ends[at].set(end);
        }
        Ok(without)
    })?;
    let without = found.into_iter().collect::<Result<Vec<_>>>()?.concat();
    Ok(RowIntervals { starts: starts.written(), ends: ends.written(), without })
}

/// For each row in a block, returns the time at which its interval starts or ends, or `None` if the
/// row matches nothing.
fn times(
    endpoint: Endpoint<'_>,
    limit: Limit,
    block: &RecordBatch,
    ts: &[i64],
    (side, are_open): (Origin, bool),
) -> Result<Vec<Option<i64>>> {
    let no_bound = match limit {
        Limit::Start => i64::MIN,
        Limit::End => i64::MAX,
    };
    match endpoint {
        Endpoint::Own => Ok(ts.iter().copied().map(Some).collect()),
        Endpoint::Unbounded => Ok(vec![Some(no_bound); ts.len()]),
        Endpoint::Of(end) => end.times(side, block, ts, are_open.then_some(no_bound)),
    }
}
