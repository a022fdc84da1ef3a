//! Finds the pairs of a left table and a right table with an index.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, NullArray, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use tidegate_operators::asof::interval_candidates_in;
use tidegate_operators::driver::Driver;
use tidegate_operators::interval::{IndexedPartners, interval_join_in, interval_partners_in};
use tidegate_operators::matches::Matches;
use tidegate_operators::overlap::{OverlapRule, overlapping_rows_in, overlaps_in};
use tidegate_operators::rows::Interval;
use tidegate_structures::memory::partition::ranges;

use super::pairs::{Candidates, FoundPairs};
use super::partners::{FoundPartners, PartnerPlaces, TimedPartners};
use super::sides::TableSides;
use crate::columns::expression::Origin;
use crate::columns::index::{IndexFit, TableIndex};
use crate::columns::intervals::Intervals;
use crate::columns::keys::Keys;
use crate::columns::table::Table;
use crate::columns::time::{self, Int64s, Unit};
use crate::query::function_intervals::PartnerInterval;
use crate::query::interval::IntervalPlan;
use crate::query::options::JoinPlan;
use crate::query::overlap::OverlapPlan;
use crate::results::gather::Column;
use crate::{Error, Result};

/// The intervals of left rows, one for each group of functions.
pub(super) struct PartnerIntervals {
    pub(super) each: Vec<PartnerInterval>,
    /// The interval that covers all of them.
    pub(super) covering: PartnerInterval,
}

impl PartnerIntervals {
    pub(super) fn one(interval: PartnerInterval) -> Self {
        PartnerIntervals { each: vec![interval], covering: interval }
    }
}

/// The method that assigns an index's key numbers to left keys.
pub(super) const METHOD: &str = "looked up in the index";

/// The minimum number of partners that justifies waking a thread to gather them.
const PART_ROWS: usize = if cfg!(test) { 8 } else { 1 << 12 };

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
    let ts = time::times(tables.0, times.0, unit)?;
    if index.is_passed_over(&ts, (tables.1, (times.1, None)), &plan.keys, driver)? {
        return Ok(None);
    }
    let fit = index.fit(tables, ((times.1, None), unit), &plan.keys, driver)?;
    let matches = interval_join_in(&ts, &fit.rows(), interval, fit.factor, driver)?;
    Ok(matches.map(found_pairs))
}

/// The right rows in each left row's interval, in time order, and the times of all rows.
pub(super) struct TimedCandidates {
    pub(super) key_method: &'static str,
    pub(super) matches: Matches,
    pub(super) left_ts: Int64s,
    pub(super) right_ts: Int64s,
}

/// Finds the indexed rows in each left row's interval. Returns `None` if it takes less time to visit
/// all rows.
pub(super) fn candidates(
    index: &TableIndex,
    tables: (&Table, &Table),
    plan: &IntervalPlan,
    interval: &Interval,
    driver: &Driver,
) -> Result<Option<TimedCandidates>> {
    let IntervalPlan { times, unit, ref join, .. } = *plan;
    let left_ts = time::times(tables.0, times.0, unit)?;
    if index.is_passed_over(&left_ts, (tables.1, (times.1, None)), &join.keys, driver)? {
        return Ok(None);
    }
    let fit = index.fit(tables, ((times.1, None), unit), &join.keys, driver)?;
    let found = interval_candidates_in(&left_ts, &fit.rows(), interval, fit.factor, driver)?;
    let Some(matches) = found else { return Ok(None) };
    let right_ts = time::times(tables.1, times.1, unit)?;
    Ok(Some(TimedCandidates { key_method: METHOD, matches, left_ts, right_ts }))
}

fn found_pairs(matches: Matches) -> FoundPairs {
    FoundPairs { key_method: METHOD, candidates: Candidates::runs(matches) }
}

/// Finds the partners of left rows among indexed rows. Returns the partners, and a right table that
/// contains only these rows. Only the columns in `read` have values. Returns `None` if it takes
/// less time to visit all rows.
pub(super) fn partners(
    index: &TableIndex,
    tables: (&Table, &Table),
    (times, unit): ((usize, usize), Unit),
    plan: JoinPlan,
    intervals: &PartnerIntervals,
    mut read: Vec<usize>,
    driver: &Driver,
) -> Result<Option<(Table, FoundPartners)>> {
    let fit = index.fit(tables, ((times.1, None), unit), &plan.keys, driver)?;
    let ts = time::times(tables.0, times.0, unit)?;
    let PartnerInterval { interval, with_prevailing } = intervals.covering;
    let found =
        interval_partners_in(&ts, &fit.rows(), &interval, with_prevailing, fit.factor, driver)?;
    let Some(IndexedPartners { partners, rows, ts: right_ts, keys }) = found else {
        return Ok(None);
    };
    read.extend(plan.predicate.iter().flat_map(|predicate| predicate.columns(Origin::Right)));
    let right = gathered(tables.1, &rows, &read, driver)?;
    let [left, right_keys] = keys;
    let count = left.len();
    let keys = Keys { left, right: right_keys, count, smallest: None, method: METHOD };
    let sides = TableSides { left: ts, right: Int64s::Own(right_ts), keys: Some(keys) };
    let timed = match &intervals.each[..] {
        [one] => TimedPartners::found(sides, *one, partners),
        each => TimedPartners::new(sides, each),
    };
    let partners = PartnerPlaces::Runs(Box::new(timed));
    Ok(Some((right, FoundPartners { plan, key_method: METHOD, partners })))
}

/// Returns the given rows of a table. Only the columns in `read` have values. The others have the
/// type `Null`, which takes no memory.
fn gathered(table: &Table, rows: &[u32], read: &[usize], driver: &Driver) -> Result<Table> {
    let fields = table.schema().fields().iter().enumerate();
    let (columns, fields): (Vec<_>, Vec<_>) = fields
        .map(|(at, field)| match read.contains(&at) {
            true => (Some(Column::new(table, at)), field.clone()),
            false => (None, Arc::new(Field::new(field.name(), DataType::Null, true))),
        })
        .unzip();
    let schema = Arc::new(Schema::new_with_metadata(fields, table.schema().metadata().clone()));
    let parts = ranges(rows.len(), driver.parts(rows.len(), PART_ROWS));
    let batches = driver.map(parts, |part: Range<usize>| {
        let of_part = |column: &Option<Column>| match column {
            Some(column) => column.gather(&rows[part.clone()]),
            None => Ok(Arc::new(NullArray::new(part.len())) as ArrayRef),
        };
        let arrays = columns.iter().map(of_part).collect::<Result<_, ArrowError>>()?;
        RecordBatch::try_new(schema.clone(), arrays)
    })?;
    Table::of_valid(table.name(), schema, batches.into_iter().collect::<Result<_, _>>()?)
}

/// Finds the pairs of left and indexed rows whose intervals overlap. Returns `None` if it takes less
/// time to visit all rows.
pub(super) fn overlaps(
    index: &TableIndex,
    tables: (&Table, &Table),
    plan: &OverlapPlan,
    driver: &Driver,
) -> Result<Option<FoundPairs>> {
    let (fit, left) = overlap_sides(index, tables, plan, driver)?;
    let Some(left) = left else { return Ok(None) };
    let rule = OverlapRule { least: plan.least, factor: fit.factor };
    let matches = overlaps_in(left.columns(None), &fit.intervals(), rule, driver)?;
    Ok(matches.map(found_pairs))
}

/// Returns the right table with only the rows that overlap a left row. Returns `None` if it takes
/// less time to visit all rows.
pub(super) fn overlapping_only(
    index: &TableIndex,
    tables: (&Table, &Table),
    plan: &OverlapPlan,
    driver: &Driver,
) -> Result<Option<Table>> {
    let (fit, left) = overlap_sides(index, tables, plan, driver)?;
    let Some(left) = left else { return Ok(None) };
    let rule = OverlapRule { least: plan.least, factor: fit.factor };
    let rows = overlapping_rows_in(left.columns(None), &fit.intervals(), rule, driver)?;
    rows.map(|rows| tables.1.taken(&rows)).transpose()
}

/// Returns the index, and the intervals of the left rows. Returns no intervals if a left time in
/// the unit of the join does not fit in 64 bits. If possible, a join of all rows then compares such
/// times by their order.
fn overlap_sides<'a>(
    index: &'a TableIndex,
    tables: (&Table, &Table),
    plan: &OverlapPlan,
    driver: &Driver,
) -> Result<(IndexFit<'a>, Option<Intervals>)> {
    let [of_left, of_right] = &plan.columns;
    let Some((start, end)) = of_right.stored() else {
        return Err(Error::schema(
            "right: an index is on columns, but `on` computes the start or the end; add it to the \
             table as a column, and build the index on this column",
        ));
    };
    index.check_open_ends(of_right.are_open)?;
    let mut fit = index.fit(tables, ((start, Some(end)), plan.unit), &plan.join.keys, driver)?;
    let columns = of_left.of(tables.0)?;
    let times = |column| time::times_or_nulls(&columns, column, plan.unit);
    let (Ok(starts), Ok(ends)) = (times(0), times(1)) else {
        return Ok((fit, None));
    };
    let rule = (plan.least, of_left.are_open, plan.unit);
    let names = (tables.0.name(), of_left.names());
    let left = Intervals::of(names, [starts, ends], rule, driver)?;
    fit.leave_out(&left.without, tables.0.rows());
    Ok((fit, Some(left)))
}
