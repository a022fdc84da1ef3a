//! Aggregates the partners of each left row.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow_array::{ArrayRef, BooleanArray, UInt32Array};
use arrow_schema::SchemaRef;
use arrow_select::filter::filter;
use tidegate_operators::aggregate::{
    Aggregate, OutputColumn, OutputValues, PartnerAggregates, PartnerValues, aggregate_matches,
    all_values_of_matches, fold_intervals,
};
use tidegate_operators::driver::{Driver, Stopped};
use tidegate_operators::interval::{PartnerColumns, Partners, interval_partners};
use tidegate_operators::matches::{BitSet, Matches};
use tidegate_operators::rows::Interval;
use tidegate_sync::Stop;

use super::join::Join;
use super::pairs::{Candidates, FoundPairs, Pairs};
use super::sides::{OneTable, TableSides, take_one_sided};
use crate::aggregate::columns::{Columns, Extent};
use crate::aggregate::streams::Streams;
use crate::aggregate::values::FunctionValues;
use crate::columns::faults::Faults;
use crate::columns::table::Table;
use crate::columns::time::Int64s;
use crate::query::aggregate::plan::Span;
use crate::query::function_intervals::PartnerInterval;
use crate::query::options::JoinPlan;
use crate::query::partners::{PartnerAggregation, PartnerJoin, PartnersPlan};
use crate::{Error, Result};

/// The partners that a join found in two tables.
pub(super) struct FoundPartners {
    pub(super) plan: JoinPlan,
    pub(super) key_method: &'static str,
    pub(super) partners: PartnerPlaces,
}

/// The representation of the partners found for left rows.
pub(super) enum PartnerPlaces {
    /// The partners are runs of rows with the same key, in time order. Conditions have not been
    /// evaluated yet.
    Runs(Box<TimedPartners>),
    /// The partners are listed as pairs. If times are given, functions read the partners in time
    /// order. Otherwise, or if times are equal, functions use the order of the right rows.
    Pairs(FoundPairs, Option<Int64s>),
}

/// For each left row, the right rows that have the same key and lie in the left row's interval. The
/// partners are found when they are requested.
///
/// Functions can have different intervals. All intervals share the times and keys.
#[derive(Debug)]
pub(super) struct TimedPartners {
    sides: PartnerSides,
    intervals: Vec<IntervalPartners>,
}

/// The partners in one of the intervals.
#[derive(Debug)]
struct IntervalPartners {
    ends: PartnerInterval,
    found: OnceLock<Partners>,
}

impl IntervalPartners {
    fn new(ends: PartnerInterval) -> Self {
        IntervalPartners { ends, found: OnceLock::new() }
    }
}

/// The times and keys of left rows and of their possible partners.
#[derive(Debug)]
enum PartnerSides {
    Two(TableSides),
    One(OneTable),
}

impl TimedPartners {
    pub(super) fn new(sides: TableSides, intervals: &[PartnerInterval]) -> Self {
        let intervals = intervals.iter().copied().map(IntervalPartners::new).collect();
        TimedPartners { sides: PartnerSides::Two(sides), intervals }
    }

    /// Like [`new`](Self::new) for a single interval, but the partners have already been found.
    pub(super) fn found(sides: TableSides, ends: PartnerInterval, partners: Partners) -> Self {
        let intervals = vec![IntervalPartners { ends, found: OnceLock::from(partners) }];
        TimedPartners { sides: PartnerSides::Two(sides), intervals }
    }

    /// Returns the partners of a table's rows among the rows of the same table.
    pub(super) fn within(table: OneTable, interval: Interval) -> Self {
        let ends = PartnerInterval { interval, with_prevailing: false };
        TimedPartners {
            sides: PartnerSides::One(table),
            intervals: vec![IntervalPartners::new(ends)],
        }
    }

    /// Removes the keys of left rows that are not in `kept`, so these rows have no partners.
    fn keep_left(&mut self, kept: &BitSet) -> Result<()> {
        // Partners that an index has found include those of the other left rows.
        self.intervals.iter_mut().for_each(|one| drop(one.found.take()));
        match &mut self.sides {
            PartnerSides::Two(sides) => sides.keep_left(kept),
            PartnerSides::One(_) => return Err(Error::bug("one table has no condition on pairs")),
        }
        Ok(())
    }

    /// Returns the times of left rows, or `None` if both sides are the same rows, and the times of
    /// right rows.
    fn into_times(self) -> (Option<Int64s>, Int64s) {
        match self.sides {
            PartnerSides::Two(sides) => (Some(sides.left), sides.right),
            PartnerSides::One(table) => (None, table.ts),
        }
    }

    /// The number of left rows.
    pub(super) fn left_rows(&self) -> usize {
        self.left_times().len()
    }

    fn left_times(&self) -> &[i64] {
        match &self.sides {
            PartnerSides::Two(sides) => &sides.left,
            PartnerSides::One(table) => table.columns().0.ts,
        }
    }

    /// Returns the columns and the interval that determine which right rows are partners.
    fn columns(&self, interval: usize) -> PartnerColumns<'_> {
        let ends = &self.intervals[interval].ends;
        let ((left, right), key_count) = match &self.sides {
            PartnerSides::Two(sides) => (sides.columns(), sides.key_count()),
            PartnerSides::One(table) => (table.columns(), table.key_count),
        };
        PartnerColumns {
            left,
            right,
            key_count,
            interval: &ends.interval,
            with_prevailing: ends.with_prevailing,
        }
    }

    fn find(&self, interval: usize, driver: &Driver) -> Result<&Partners, Stopped> {
        let known = &self.intervals[interval].found;
        match known.get() {
            Some(found) => Ok(found),
            None => {
                let found = interval_partners(self.columns(interval), driver)?;
                Ok(known.get_or_init(|| found))
            }
        }
    }

    /// Returns the partners in each interval as matches.
    fn find_matches(&mut self, driver: &Driver) -> Result<Vec<Matches>, Stopped> {
        let mut matches = Vec::with_capacity(self.intervals.len());
        for interval in 0..self.intervals.len() {
            self.find(interval, driver)?;
            let found = self.intervals[interval].found.take();
            matches.push(found.expect("the partners have been found").into_matches());
        }
        Ok(matches)
    }

    /// Returns up to `rows` left rows, beginning at `start`, that together have at most `most`
    /// partners in each interval. Always returns at least one left row.
    pub(super) fn page(
        &self,
        start: usize,
        rows: usize,
        most: Option<u64>,
        driver: &Driver,
    ) -> Result<Range<usize>, Stopped> {
        let mut page = start..self.left_rows().min(start.saturating_add(rows));
        if let Some(most) = most {
            for interval in 0..self.intervals.len() {
                page = self.find(interval, driver)?.page(start, page.len(), most);
            }
        }
        Ok(page)
    }
}

/// The aggregates of a join whose partners have been found.
#[derive(Debug)]
pub(super) struct PartnerResults {
    plan: PartnersPlan,
    keeps_all: bool,
    /// True if partners are rows of the same table.
    is_of_one: bool,
    /// The right rows, in their original order.
    right: Streams,
    /// For each interval, the columns that its functions read.
    columns: Vec<Columns>,
    /// For each function, its interval and its position among the functions of that interval.
    places: Vec<(usize, usize)>,
    /// The right rows that satisfy the condition, if the condition reads only right rows.
    counted: Option<BitSet>,
    /// The partners, if pairs do not have to be compared to find them.
    partners: Option<Box<TimedPartners>>,
    /// The pairs of all intervals except the first, if partners are found by comparing pairs.
    other_pairs: Vec<Pairs>,
    /// The times by which partners are ordered, if partners are found by comparing pairs.
    order: Option<Int64s>,
    /// The times of left rows, if partners in intervals of the same length are found by comparing
    /// pairs.
    left_times: Option<Int64s>,
    /// If the left rows belong to a stream, the number of stream rows that precede the table's
    /// rows.
    before: Option<u64>,
}

/// The functions that aggregate the values of right rows, for all left rows.
pub(super) struct PartnerFunctions<'a> {
    intervals: Vec<IntervalFunctions<'a>>,
}

/// The functions that have the same interval.
struct IntervalFunctions<'a> {
    columns: &'a Columns,
    of_states: PartnerAggregates<'a>,
    of_all_values: Option<PartnerValues<'a>>,
}

/// The values of the functions in one interval, followed by the number of partners if only left
/// rows with partners are in the result.
pub(super) type IntervalValues = Vec<OutputColumn>;

impl PartnerFunctions<'_> {
    /// Returns the values of each interval's functions for a range of left rows.
    pub(super) fn of(&self, left: &Range<usize>) -> Vec<IntervalValues> {
        self.intervals.iter().map(|functions| functions.of(left.clone())).collect()
    }
}

impl IntervalFunctions<'_> {
    fn of(&self, left: Range<usize>) -> IntervalValues {
        let all_values = self.of_all_values.as_ref().map(|functions| functions.of(left.clone()));
        self.columns.put_together(self.of_states.of(left), all_values.unwrap_or_default())
    }
}

/// Some rows of the result.
pub(super) struct PartnerRows {
    pub(super) left: Vec<u32>,
    pub(super) aggregates: Vec<ArrayRef>,
}

impl PartnerAggregation {
    /// Finds the right table's partners for each row in the left table. The result rows are built
    /// when they are read.
    pub fn start(&self, left: &Table, right: &Table, stop: Stop) -> Result<Join> {
        let driver = Driver::new(self.options().threads, stop);
        match self.find_in_index(left, right, &driver)? {
            Some((partners, found)) => {
                let tables = (left, &partners);
                self.start_found(found, tables, right.schema(), None, None, driver)
            }
            None => self.start_on(left, right, None, None, driver),
        }
    }

    /// Finds the partners in the right table's index, if it has one. Returns a right table with only
    /// the partners. Returns `None` if it takes less time to visit all rows.
    fn find_in_index(
        &self,
        left: &Table,
        right: &Table,
        driver: &Driver,
    ) -> Result<Option<(Table, FoundPartners)>> {
        if right.index().is_none() {
            return Ok(None);
        }
        let tables = (left, right);
        let read = self.columns_read(left.schema(), right.schema())?;
        match &self.join {
            PartnerJoin::Interval { join, with_prevailing } => {
                join.partners_in_index(tables, (self, *with_prevailing), read, driver)
            }
            PartnerJoin::Window(join) => join.partners_in_index(tables, read, driver),
            PartnerJoin::Overlap(join) => {
                let Some(right) = join.partners_only(tables, driver)? else { return Ok(None) };
                let found = join.partners(left, &right, self.are_counts(), driver)?;
                Ok(Some((right, found)))
            }
            PartnerJoin::Band(_) | PartnerJoin::Rolling(_) => Ok(None),
        }
    }

    /// Like [`start`](Self::start), but uses existing threads. For a stream, `before` is the number
    /// of left rows that precede the rows in `left`.
    pub(crate) fn start_on(
        &self,
        left: &Table,
        right: &Table,
        before: Option<u64>,
        faults: Option<&Faults>,
        driver: Driver,
    ) -> Result<Join> {
        let found = match &self.join {
            PartnerJoin::Interval { join, with_prevailing } => {
                join.partners(left, right, (self, *with_prevailing), &driver)?
            }
            PartnerJoin::Window(join) => join.partners(left, right, &driver)?,
            PartnerJoin::Band(join) => join.partners(left, right, &driver)?,
            PartnerJoin::Overlap(join) => join.partners(left, right, self.are_counts(), &driver)?,
            PartnerJoin::Rolling(rolling) => rolling.partners(right, &driver)?,
        };
        self.start_found(found, (left, right), right.schema(), before, faults, driver)
    }

    /// Aggregates partners that have been found; see [`start_on`](Self::start_on). The right table
    /// needs values only in the columns that functions and conditions read. `schema` contains the
    /// types of all right columns.
    pub(super) fn start_found(
        &self,
        found: FoundPartners,
        (left, right): (&Table, &Table),
        schema: &SchemaRef,
        before: Option<u64>,
        faults: Option<&Faults>,
        driver: Driver,
    ) -> Result<Join> {
        let FoundPartners { plan: mut join, key_method, partners } = found;
        let mut plan = self.plan(&join.schema, (left.schema(), schema))?;
        if let Some(faults) = faults {
            join.note(faults);
            plan.inputs.note(faults);
            plan.functions.faults = Some(faults.clone());
        }
        let (mut counted, mut order, mut left_times, mut other_pairs) = (None, None, None, vec![]);
        let (partners, pairs) = match partners {
            PartnerPlaces::Pairs(found, ts) => {
                order = ts;
                (None, found)
            }
            PartnerPlaces::Runs(mut timed) => {
                match take_one_sided(&mut join, (left, right), &driver)? {
                    None => {
                        let mut found = timed.find_matches(&driver)?.into_iter();
                        let (of_left, of_right) = timed.into_times();
                        (order, left_times) = (Some(of_right), of_left);
                        let first = found.next().expect("there is at least one interval");
                        let pairs = |matches| {
                            let (runs, predicate) = (Candidates::runs(matches), &join.predicate);
                            Pairs::new(runs, predicate.clone(), left, right, &driver)
                        };
                        other_pairs = found.map(pairs).collect::<Result<_>>()?;
                        (None, FoundPairs { key_method, candidates: Candidates::runs(first) })
                    }
                    Some([of_left, of_right]) => {
                        if let Some(kept) = &of_left {
                            timed.keep_left(kept)?;
                        }
                        counted = of_right;
                        let candidates = Candidates::runs(Matches::none());
                        (Some(timed), FoundPairs { key_method, candidates })
                    }
                }
            }
        };
        let mut streams = Streams::in_row_order(right, &plan.inputs, &plan.functions, &driver)?;
        if let Some(counted) = &counted {
            streams.intersect(counted);
        }
        let columns = Columns::new(&streams, &plan.functions, Extent::Whole, &driver)?;
        let (columns, places) =
            columns.divided(self.intervals.of_functions(), self.intervals.count());
        let aggregation = PartnerResults {
            plan,
            keeps_all: self.keeps_all,
            is_of_one: self.rolling().is_some(),
            right: streams,
            columns,
            places,
            counted,
            partners,
            other_pairs,
            order,
            left_times,
            before,
        };
        Join::new(self.options(), join, (left, right), pairs, Some(aggregation), driver)
    }
}

impl PartnerResults {
    /// The schema of the result.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.plan.schema
    }

    /// Returns whether all left rows are in the result.
    pub(super) fn keeps_all(&self) -> bool {
        self.keeps_all
    }

    /// Returns the partners, if pairs do not have to be compared to find them.
    pub(super) fn partners(&self) -> Option<&TimedPartners> {
        self.partners.as_deref()
    }

    pub(super) fn values(&self) -> FunctionValues<'_> {
        let ranked = |at: usize| {
            let (interval, at) = self.places[at];
            self.columns[interval].ranked(at)
        };
        FunctionValues::of_tables(&self.plan.functions, &self.right, ranked)
    }

    /// Returns the functions of an interval. If left rows without partners are left out of the
    /// result, the last function counts the partners.
    fn aggregates(&self, interval: usize) -> Vec<Aggregate<'_>> {
        let mut aggregates = self.columns[interval].aggregates();
        if !self.keeps_all {
            aggregates.push(Aggregate::Count(vec![self.counted.as_ref()]));
        }
        aggregates
    }

    /// Aggregates the values of right rows.
    ///
    /// # Panics
    ///
    /// This method is called if partners have to be found by comparing pairs.
    pub(super) fn fold<'s>(&'s self, driver: &Driver) -> Result<PartnerFunctions<'s>, Stopped> {
        let partners = self.partners.as_deref().expect("the partners are stored as runs");
        let intervals = 0..self.columns.len();
        let aggregates: Vec<_> = intervals.clone().map(|at| self.aggregates(at)).collect();
        let columns = intervals.clone().map(|at| partners.columns(at));
        let with_columns: Vec<_> = columns.zip(aggregates.iter().map(Vec::as_slice)).collect();
        let folded = fold_intervals(&with_columns, driver)?;
        let of_interval = |(interval, folded): (usize, _), driver: &Driver| {
            let columns = &self.columns[interval];
            let find = || partners.find(interval, driver);
            let all_values = columns.all_values();
            let of_all_values = (!all_values.is_empty())
                .then(|| PartnerValues::new(find()?, &all_values, driver))
                .transpose()?;
            let of_states =
                PartnerAggregates::of_interval(folded, find, &aggregates[interval], driver)?;
            Ok(IntervalFunctions { columns, of_states, of_all_values })
        };
        let is_divided = intervals.len() > 1 && intervals.len() >= driver.threads();
        let folded = intervals.zip(folded);
        let functions: Result<Vec<_>, Stopped> = match is_divided {
            // Some folds cannot be divided, so each thread computes whole intervals.
            true => {
                let alone = |interval| of_interval(interval, &Driver::new(1, driver.stop()));
                driver.map(folded.collect(), alone)?.into_iter().collect()
            }
            false => folded.map(|interval| of_interval(interval, driver)).collect(),
        };
        Ok(PartnerFunctions { intervals: functions? })
    }

    /// Returns the pairs of all intervals except the first. They can be taken once.
    pub(super) fn take_other_pairs(&mut self) -> Vec<Pairs> {
        std::mem::take(&mut self.other_pairs)
    }

    /// Returns whether the result contains the values of all partners.
    pub(super) fn has_lists(&self) -> bool {
        self.columns.iter().any(Columns::has_lists)
    }

    /// Returns the values of an interval's functions for the left rows in a range of positions in
    /// `matches`.
    pub(super) fn of_matches(
        &self,
        interval: usize,
        matches: &Matches,
        left: Range<usize>,
    ) -> IntervalValues {
        let ts = self.order.as_deref();
        let columns = &self.columns[interval];
        let all_values = columns.all_values();
        let all_values = all_values
            .iter()
            .map(|function| all_values_of_matches(matches, left.clone(), ts, function))
            .collect();
        let of_states = aggregate_matches(matches, left, ts, &self.aggregates(interval));
        columns.put_together(of_states, all_values)
    }

    /// Returns the intervals of the given left rows for the function at position `at`.
    fn spans(&self, at: usize, left: Range<usize>) -> Vec<Span> {
        let timed = self.plan.timed.as_ref().expect("a function weights values by time").1[at];
        let ts = match (&self.partners, &self.left_times) {
            (Some(partners), _) => partners.left_times(),
            (None, Some(ts)) => ts,
            (None, None) => unreachable!("intervals have the same length"),
        };
        ts[left].iter().map(|ts| timed.span(*ts)).collect()
    }

    /// Returns the result rows for some left rows.
    pub(super) fn rows(
        &self,
        values: &FunctionValues<'_>,
        left: Range<usize>,
        found: Vec<IntervalValues>,
    ) -> Result<PartnerRows> {
        let outputs = self.plan.functions.outputs.len();
        let mut found: Vec<_> = found.into_iter().map(Vec::into_iter).collect();
        let columns: Vec<OutputColumn> = self
            .places
            .iter()
            .map(|&(interval, _)| found[interval].next().expect("a column for each function"))
            .collect();
        let counts: Vec<OutputColumn> =
            found.into_iter().filter_map(|mut rest| rest.next()).collect();
        let fields = &self.plan.schema.fields()[self.plan.schema.fields().len() - outputs..];
        let name = if self.is_of_one { "row" } else { "left row" };
        let place = |row: usize| match (left.start + row, self.before) {
            (row, None) => format!("for {name} {row} (from 0)"),
            (row, Some(before)) => {
                format!("for {name} {} (from 0, in merged order)", before + row as u64)
            }
        };
        let array = |((at, column), field): ((usize, OutputColumn), &Arc<_>)| {
            let field: &arrow_schema::Field = field;
            let spans = || self.spans(at, left.clone());
            values.column(at, column, left.len(), field.data_type(), &place, &spans)
        };
        let mut aggregates =
            columns.into_iter().enumerate().zip(fields).map(array).collect::<Result<Vec<_>>>()?;
        let mut rows: UInt32Array = (left.start as u32..left.end as u32).collect();
        if !self.keeps_all {
            let has_partners = |row: usize| {
                counts.iter().any(|counts| match &counts.values {
                    OutputValues::Integers(counts) => counts[row] > 0,
                    _ => false,
                })
            };
            let has_partners: BooleanArray =
                (0..left.len()).map(|row| Some(has_partners(row))).collect();
            if has_partners.false_count() > 0 {
                let kept = |array: &ArrayRef| filter(array, &has_partners);
                aggregates = aggregates.iter().map(kept).collect::<Result<_, _>>()?;
                rows = UInt32Array::from(filter(&rows, &has_partners)?.to_data());
            }
        }
        Ok(PartnerRows { left: rows.values().to_vec(), aggregates })
    }
}
