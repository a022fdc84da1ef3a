//! The columns that a join or an aggregation reads and returns, as determined before the query
//! runs.

use arrow_schema::{FieldRef, Schema, SchemaRef};
use tidegate_operators::band::Band;
use tidegate_operators::rows::{Closed, Interval};

use super::options::JoinPlan;
use super::output::OutputColumn;
use super::result_windows::ResultWindows;
use crate::columns::codes::ColumnPlan;
use crate::columns::expression::Origin;
use crate::columns::row_ends::RowEnds;
use crate::columns::time::{self, Bound, Unit};
use crate::{Error, Result};

/// The plan for joining tables whose schemas are known.
#[derive(Clone, Debug)]
pub struct QueryPlan {
    /// An explanation of the join, for users.
    pub explanation: String,
    /// The schema of the result.
    pub schema: SchemaRef,
    /// The columns that the join reads from each table, in ascending order.
    pub reads: [Vec<usize>; 2],
    /// For each result column, the left and right columns from which it is computed.
    pub origins: Vec<(Option<usize>, Option<usize>)>,
    /// The left and right columns of each key.
    pub keys: Vec<(usize, usize)>,
    /// The band columns. A row with a null or NaN in such a column matches nothing.
    pub bands: Vec<Reach>,
    /// The time columns, if matches depend on times.
    pub time: Option<Reach>,
    /// The smallest and largest time differences within a pair, inclusive; `None` for no limit.
    pub distances: (Option<i64>, Option<i64>),
    /// Each side's start and end columns, if rows have both.
    pub intervals: Option<[(usize, usize); 2]>,
    /// True if, for each key, the last right row before the interval can match, no matter how old
    /// it is.
    pub looks_back: bool,
    /// The columns of each side that the condition reads.
    pub condition_reads: [Vec<usize>; 2],
    /// The time unit of an interval or overlap join.
    pub(crate) unit: Option<Unit>,
    /// For an interval join, the ends that vary from row to row.
    pub(crate) row_ends: Option<RowEnds>,
}

/// The maximum distance between a pair's two rows in one column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reach {
    /// The column of each side.
    pub columns: (usize, usize),
    /// The smallest value of `right - left` in a pair; `None` for no bound.
    pub lower: Option<Difference>,
    /// The largest value of `right - left` in a pair; `None` for no bound.
    pub upper: Option<Difference>,
}

/// The difference between two values of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Difference {
    /// A difference between two times, decimals or integers. Times are measured in the finer of the
    /// two sides' units, and decimals in units of their last decimal place.
    Steps(i64),
    /// A difference between floating-point numbers.
    Float(f64),
}

/// Returns the smallest and largest distances within an interval, inclusive.
pub(crate) fn distances(interval: Interval) -> (Option<i64>, Option<i64>) {
    let Interval { lower, upper, closed } = interval;
    let is_open_below = matches!(closed, Closed::Right | Closed::Neither);
    let is_open_above = matches!(closed, Closed::Left | Closed::Neither);
    (
        lower.map(|lower| lower.saturating_add(is_open_below.into())),
        upper.map(|upper| upper.saturating_sub(is_open_above.into())),
    )
}

impl Reach {
    /// Returns the reach of an interval join.
    pub(crate) fn of_interval(columns: (usize, usize), interval: Interval) -> Self {
        let [lower, upper] = [interval.lower, interval.upper].map(|end| end.map(Difference::Steps));
        Reach { columns, lower, upper }
    }

    /// Returns the reach of a band column.
    pub(crate) fn of_band(column: &ColumnPlan) -> Self {
        let steps = |end: Option<u64>| i64::try_from(end?).ok();
        let (lower, upper) = match column.band {
            Band::Steps { below, above } => (
                steps(below).map(|below| Difference::Steps(-below)),
                steps(above).map(Difference::Steps),
            ),
            Band::Floats { below, above } => {
                let float = |end: f64| end.is_finite().then_some(Difference::Float(end));
                (float(-below), float(above))
            }
        };
        Reach { columns: column.columns(), lower, upper }
    }
}

impl QueryPlan {
    /// Returns whether a bound of an interval join varies from row to row.
    pub fn has_row_bounds(&self) -> bool {
        self.row_ends.is_some()
    }

    /// Creates the plan for a join with these bands and times.
    pub(crate) fn new(
        explanation: String,
        join: &JoinPlan,
        bands: Vec<Reach>,
        time: Option<Reach>,
    ) -> Self {
        let origin = |column: &OutputColumn| match *column {
            OutputColumn::Left(at) => (Some(at), None),
            OutputColumn::Right(at) => (None, Some(at)),
            OutputColumn::Either(left, right) => (Some(left), Some(right)),
        };
        let origins: Vec<_> = join.columns.iter().map(origin).collect();
        let mut reads = [Vec::new(), Vec::new()];
        reads[0].extend(origins.iter().filter_map(|(left, _)| *left));
        reads[1].extend(origins.iter().filter_map(|(_, right)| *right));
        let keys: Vec<_> = join.keys.iter().map(|key| (key.left, key.right)).collect();
        let compared = bands.iter().chain(&time).map(|reach| reach.columns);
        for (left, right) in keys.iter().copied().chain(compared) {
            reads[0].push(left);
            reads[1].push(right);
        }
        let condition = |side| {
            let columns = join.predicate.as_ref().map(|predicate| predicate.columns(side));
            columns.into_iter().flatten().copied().collect()
        };
        let steps = |end: Option<Difference>| match end {
            Some(Difference::Steps(steps)) => Some(steps),
            Some(Difference::Float(_)) | None => None,
        };
        let distances = time.map_or((None, None), |time| (steps(time.lower), steps(time.upper)));
        let condition_reads: [Vec<usize>; 2] = [Origin::Left, Origin::Right].map(condition);
        let plan = QueryPlan {
            explanation,
            schema: join.schema.clone(),
            reads,
            origins,
            keys,
            bands,
            time,
            distances,
            intervals: None,
            looks_back: false,
            condition_reads: condition_reads.clone(),
            unit: None,
            row_ends: None,
        };
        plan.reading(condition_reads)
    }

    /// Adapts this plan to an interval join whose ends vary from row to row.
    pub(crate) fn with_row_ends(self, ends: &RowEnds) -> Self {
        let plan = self.reading([ends.columns(Origin::Left), ends.columns(Origin::Right)]);
        QueryPlan { row_ends: Some(ends.clone()), ..plan }
    }

    /// Returns, for each side, the columns from which interval ends are computed.
    pub fn end_reads(&self) -> [Vec<usize>; 2] {
        [Origin::Left, Origin::Right]
            .map(|side| self.row_ends.as_ref().map_or_else(Vec::new, |ends| ends.columns(side)))
    }

    /// Converts a duration to the join's time unit, rounding down.
    pub fn steps(&self, name: &str, length: Bound) -> Result<i64> {
        let Some(unit) = self.unit else {
            return Err(Error::bug("only interval and overlap joins convert durations"));
        };
        time::length(name, length, unit)
    }

    /// Returns the columns that tables with these schemas need for the join to return the same
    /// result. These are the columns that the join reads, and the left columns that have the same
    /// names as right columns. Such right columns get a suffix.
    pub fn needed(&self, left: &Schema, right: &Schema) -> [Vec<usize>; 2] {
        let clashes = |(field, &(_, right_at)): (&FieldRef, &(Option<usize>, Option<usize>))| {
            let name = right.field(right_at?).name();
            let is_renamed = name != field.name();
            is_renamed.then(|| left.index_of(name).ok()).flatten()
        };
        let [mut of_left, of_right] = self.reads.clone();
        of_left.extend(self.schema.fields().iter().zip(&self.origins).filter_map(clashes));
        of_left.sort_unstable();
        of_left.dedup();
        [of_left, of_right]
    }

    /// For each side, adds these columns to those that the join reads.
    pub(crate) fn reading(mut self, columns: [Vec<usize>; 2]) -> Self {
        for (reads, columns) in self.reads.iter_mut().zip(columns) {
            reads.extend(columns);
            reads.sort_unstable();
            reads.dedup();
        }
        self
    }
}

/// The plan for aggregating tables whose schemas are known.
#[derive(Clone, Debug)]
pub struct AggregationPlan {
    /// A human-readable explanation of the aggregation.
    pub explanation: String,
    /// The schema of the result.
    pub schema: SchemaRef,
    /// The columns that the aggregation reads from each table, in ascending order.
    pub reads: Vec<Vec<usize>>,
    /// The windows of the result. `None` for sessions.
    pub windows: Option<ResultWindows>,
    /// A description of the calendar, including a hash of the time zone's rules, if the windows
    /// consist of calendar units.
    pub calendar: Option<String>,
    /// The time zone of the windows, if they consist of calendar units in a time zone.
    pub zone: Option<String>,
    /// The column or expression that contains the gaps of sessions, if there is one.
    pub gap_column: Option<String>,
    /// Advice to the caller if the windows may differ from what the caller expects.
    pub advice: Option<String>,
}
