//! Aggregates each left row's partners in a join.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use tidegate_operators::rows::{How, Interval, Retention};

use super::aggregate::inputs::InputPlan;
use super::aggregate::plan::{FunctionsPlan, Span, show};
use super::aggregate::{Aggregate, Function, with_aggregate};
use super::band::BandJoin;
use super::function_intervals::{FunctionIntervals, NOTHING_BEFORE, PartnerInterval};
use super::identity::Identity;
use super::interval::{IntervalEnds, IntervalJoin, IntervalPlan};
use super::options::{JoinOptions, JoinPlan};
use super::overlap::{OF_PAIRS, OverlapJoin};
use super::plan::QueryPlan;
use super::rolling::{RollingWindows, TABLE};
use super::window::{Window, WindowJoin, WindowPlan};
use crate::columns::expression::Predicate;
use crate::columns::metadata::of_partners;
use crate::columns::row_ends::Width;
use crate::columns::time::{Bound, Unit};
use crate::{Error, Result, shown};

/// A join that returns one row per left row instead of pairs. Each result row contains a left row's
/// columns and aggregates of that row's partners. The partners are the right rows with which an
/// ordinary join would pair the left row.
///
/// This example computes the mean price of the quotes that are at most 2 older than each trade:
///
/// ```
/// # use std::sync::Arc;
/// #
/// # use arrow_array::cast::AsArray;
/// # use arrow_array::types::Float64Type;
/// # use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch};
/// use tidegate::query::aggregate::{Aggregate, Function};
/// use tidegate::{Bound, Closed, Driver, How, IntervalJoin, JoinOptions};
/// use tidegate::{PartnerAggregation, PartnerJoin, Stop, Table};
///
/// # let driver = Driver::new(1, Stop::default());
/// # let table = |name: &str, columns: Vec<(&str, ArrayRef)>| {
/// #     let rows = RecordBatch::try_from_iter(columns)?;
/// #     Table::new(name, rows.schema(), vec![rows], &driver)
/// # };
/// # let (by, how, suffix) = (Vec::new(), How::Inner, "_right".to_owned());
/// # let (predicate, columns, threads, max_rows, batch_rows) = (None, None, 1, None, None);
/// # let options = JoinOptions {
/// #     by, predicate, how, suffix, columns, threads, max_rows, batch_rows,
/// # };
/// let times = |ts: &[i64]| Arc::new(Int64Array::from(ts.to_vec())) as ArrayRef;
/// let trades = table("trades", vec![("ts", times(&[10, 20]))])?;
/// let bids = Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0])) as ArrayRef;
/// let quotes = table("quotes", vec![("ts", times(&[7, 8, 9])), ("bid", bids)])?;
/// let join = IntervalJoin {
///     on: ("ts".to_owned(), "ts".to_owned()),
///     lower: Some(Bound::Steps(-2).into()),
///     upper: Some(Bound::Steps(0).into()),
///     closed: Closed::Both,
///     open_ends: false,
///     limit: None,
///     options,
/// };
/// let (name, columns) = ("bid".to_owned(), vec!["bid".to_owned()]);
/// let function = Function::Mean;
/// let mean = Aggregate { name, function, columns, predicate: None, interval: None };
/// let join = PartnerJoin::Interval { join, with_prevailing: false };
/// let query = PartnerAggregation::new(join, vec![mean], How::Left)?;
/// let rows = query.start(&trades, &quotes, Stop::default())?.read_all()?;
/// let bid = rows[0]["bid"].as_primitive::<Float64Type>();
/// assert_eq!((bid.value(0), bid.is_null(1)), (2.5, true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct PartnerAggregation {
    pub(crate) join: PartnerJoin,
    pub(crate) aggregates: Vec<Aggregate>,
    /// True if the result includes left rows without partners.
    pub(crate) keeps_all: bool,
    /// The interval of each aggregate.
    pub(crate) intervals: FunctionIntervals,
}

/// A join that determines which right rows are partners.
#[derive(Clone, Debug)]
pub enum PartnerJoin {
    /// The right rows within the interval.
    Interval {
        /// The join.
        join: IntervalJoin,
        /// True if the last right row with the same key before the interval is also a partner.
        with_prevailing: bool,
    },
    /// The right rows within the window.
    Window(WindowJoin),
    /// The right rows whose values are close.
    Band(BandJoin),
    /// The right rows whose intervals overlap.
    Overlap(OverlapJoin),
    /// The rows in the window that ends at a row. Both sides are the same table.
    Rolling(RollingWindows),
}

/// The plan for aggregating partners.
#[derive(Debug)]
pub(crate) struct PartnersPlan {
    /// The aggregate functions, which are applied to right rows.
    pub(crate) functions: FunctionsPlan,
    pub(crate) inputs: InputPlan,
    /// The left columns, followed by the aggregates.
    pub(crate) schema: SchemaRef,
    /// The unit of the times, and the span of each function's interval, if a function weights
    /// values by time.
    pub(crate) timed: Option<(Unit, Vec<TimedInterval>)>,
}

/// The intervals whose values are weighted by time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimedInterval {
    /// The distance from the left time to the start of the interval, if earlier rows can prevail.
    lower: Option<i64>,
    /// The distance from the left time to the end of the interval, if values hold until then.
    upper: Option<i64>,
}

impl TimedInterval {
    /// Returns the interval of a left row with this time.
    pub(crate) fn span(&self, ts: i64) -> Span {
        let end = |distance: i64| ts.saturating_add(distance);
        Span { start: self.lower.map(end), end: self.upper.map_or(i64::MAX, end) }
    }
}

/// The plan for aggregating partners in streams.
#[derive(Debug)]
pub(crate) struct PartnerStreamPlan {
    /// The time column of each side.
    pub(crate) times: (usize, usize),
    pub(crate) unit: Unit,
    /// The times of a left row's partners, relative to the left row. Rows within these times are
    /// not necessarily partners.
    pub(crate) interval: Interval,
    /// True if the last right row with the same key before the interval is also a partner.
    pub(crate) with_prevailing: bool,
    /// True if partners are found by comparing pairs of rows.
    pub(crate) looks_at_pairs: bool,
    /// On each side, the maximum distance between a computed end and the time of its row.
    pub(crate) widths: [Option<Width>; 2],
    /// The left columns of the result.
    pub(crate) join: JoinPlan,
    /// The left columns, followed by the aggregates.
    pub(crate) schema: SchemaRef,
    /// The text that determines the results.
    pub(crate) identity: Identity,
    /// The explanation lines that describe the result rows.
    pub(crate) lines: Vec<String>,
}

impl PartnerAggregation {
    /// Returns the pairs of left and right columns that are compared.
    pub fn pairs(&self) -> Vec<(String, String)> {
        match &self.join {
            PartnerJoin::Interval { join, .. } => join.pairs(),
            PartnerJoin::Window(join) => join.pairs(),
            PartnerJoin::Band(join) => join.pairs(),
            PartnerJoin::Overlap(join) => join.pairs(),
            PartnerJoin::Rolling(rolling) => rolling.pairs(),
        }
    }

    /// Creates a query that aggregates the partners determined by `join`, whose own `how` is
    /// ignored. `how` is [`How::Left`] to keep all left rows, or [`How::Inner`] to keep only left
    /// rows with partners.
    pub fn new(mut join: PartnerJoin, aggregates: Vec<Aggregate>, how: How) -> Result<Self> {
        let intervals = match &mut join {
            PartnerJoin::Interval { join, with_prevailing } => {
                FunctionIntervals::new(join, with_prevailing, &aggregates)?
            }
            _ => FunctionIntervals::of_join(&aggregates)?,
        };
        let keeps_all = match how {
            How::Left => true,
            How::Inner => false,
            how => {
                return Err(Error::argument(format!(
                    "how: with aggs, the result has one row for each left row; give \"left\" for \
                     all of them, or \"inner\" for left rows with partners; got \"{}\"",
                    format!("{how:?}").to_lowercase()
                )));
            }
        };
        match &join {
            PartnerJoin::Interval { join, with_prevailing: true } if join.lower.is_none() => {
                return Err(Error::argument(NOTHING_BEFORE));
            }
            PartnerJoin::Interval { join, with_prevailing: true } if join.has_row_ends() => {
                return Err(Error::argument(
                    "prevailing: it requires ends that are the same for all rows; give lower and \
                     upper as durations or integers, or leave prevailing out",
                ));
            }
            PartnerJoin::Window(join) if join.algorithm.is_some() => {
                return Err(Error::argument(
                    "algorithm: aggregates of partners have their own algorithm; \
                     omit this argument",
                ));
            }
            _ => {}
        }
        if aggregates.is_empty() {
            return Err(Error::argument(
                "aggs: expected at least one function; leave aggs out for pairs",
            ));
        }
        // Use only the columns of the left side.
        join.options_mut().how = How::Semi;
        Ok(PartnerAggregation { join, aggregates, keeps_all, intervals })
    }

    /// Returns whether the lower and upper ends of intervals vary from row to row.
    pub fn row_ends(&self) -> [bool; 2] {
        match &self.join {
            PartnerJoin::Interval { join, .. } => join.row_ends(),
            PartnerJoin::Window(_)
            | PartnerJoin::Band(_)
            | PartnerJoin::Overlap(_)
            | PartnerJoin::Rolling(_) => [false; 2],
        }
    }

    /// Returns the options that all joins have.
    pub fn options(&self) -> &JoinOptions {
        match &self.join {
            PartnerJoin::Interval { join, .. } => &join.options,
            PartnerJoin::Window(join) => &join.options,
            PartnerJoin::Band(join) => &join.options,
            PartnerJoin::Overlap(join) => &join.options,
            PartnerJoin::Rolling(rolling) => &rolling.options,
        }
    }

    /// Returns the right columns that the functions and their conditions read.
    pub(crate) fn columns_read(&self, left: &Schema, right: &Schema) -> Result<Vec<usize>> {
        let timed = self.timed_interval(left, right)?;
        Ok(self.functions(timed.as_ref().map(|timed| timed.0), right)?.1.columns())
    }

    /// Returns the plan of an interval join whose interval covers the intervals of all functions,
    /// and whether earlier right rows can be partners.
    fn covering_plan(
        &self,
        join: &IntervalJoin,
        with_prevailing: bool,
        (left, right): (&Schema, &Schema),
    ) -> Result<(IntervalPlan, bool)> {
        let mut plan = join.plan(left, right)?;
        let mut looks_back = with_prevailing;
        if let IntervalEnds::Fixed(interval) = &mut plan.ends {
            let first = PartnerInterval { interval: *interval, with_prevailing };
            let all = self.intervals.covering(first, plan.unit)?;
            (*interval, looks_back) = (all.interval, all.with_prevailing);
        }
        Ok((plan, looks_back))
    }

    fn functions(&self, unit: Option<Unit>, right: &Schema) -> Result<(FunctionsPlan, InputPlan)> {
        let name = if self.rolling().is_some() { TABLE } else { "right" };
        FunctionsPlan::of_table(&self.aggregates, unit, name, right)
    }

    /// Returns the plan for the aggregates, given both schemas and the schema of the result's left
    /// columns.
    pub(crate) fn plan(
        &self,
        of_left: &Schema,
        (left, right): (&Schema, &Schema),
    ) -> Result<PartnersPlan> {
        let timed = self.timed_interval(left, right)?;
        let (functions, inputs) = self.functions(timed.as_ref().map(|timed| timed.0), right)?;
        let mut fields: Vec<_> = of_left.fields().iter().cloned().collect();
        fields.extend(functions.fields()?.into_iter().map(Arc::new));
        let mut names = HashSet::with_capacity(fields.len());
        for field in &fields {
            if !names.insert(field.name()) {
                let column = if self.rolling().is_some() { "column" } else { "left column" };
                return Err(Error::schema(format!(
                    "the result would have two columns `{}`; rename the aggregate, or leave the \
                     {column} out of columns",
                    shown(field.name())
                )));
            }
        }
        let results = fields[of_left.fields().len()..].iter().map(|field| &**field);
        let columns: Vec<_> = functions.origins(results, &[right]).collect();
        let metadata = of_partners(of_left, right, &columns);
        let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
        Ok(PartnersPlan { functions, inputs, schema, timed })
    }

    /// If a function weights values by time, returns the intervals in which these values lie.
    fn timed_interval(
        &self,
        left: &Schema,
        right: &Schema,
    ) -> Result<Option<(Unit, Vec<TimedInterval>)>> {
        let Some(one) = self.aggregates.iter().find(|one| one.function.is_timed()) else {
            return Ok(None);
        };
        let refuse = |why: &str| {
            let (name, function) = (&one.name, one.function.name());
            Err(Error::argument(format!("aggs: `{name}`: {function} {why}")))
        };
        let PartnerJoin::Interval { join, with_prevailing } = &self.join else {
            return refuse(
                "weights values by their times relative to an interval; write interval_join with \
                 lower and upper, or aggregate",
            );
        };
        let plan = join.plan(left, right)?;
        let intervals = match plan.ends {
            IntervalEnds::Fixed(interval) => {
                let first = PartnerInterval { interval, with_prevailing: *with_prevailing };
                self.intervals.each(first, plan.unit)?
            }
            IntervalEnds::OfRows(_) => Vec::new(),
        };
        let span = |(one, &at): (&Aggregate, &usize)| {
            if !matches!(one.function, Function::TimeWeightedMean) {
                return Ok(TimedInterval { lower: None, upper: None });
            }
            match intervals.get(at) {
                Some(PartnerInterval {
                    interval: Interval { lower, upper: Some(upper), .. },
                    with_prevailing,
                }) => Ok(TimedInterval {
                    lower: lower.filter(|_| *with_prevailing),
                    upper: Some(*upper),
                }),
                _ => Err(Error::argument(
                    "aggs: time_weighted_mean needs the end of each interval, because the last \
                     value holds until then; give upper as a duration or an integer",
                )),
            }
        };
        let spans = self.aggregates.iter().zip(self.intervals.of_functions()).map(span);
        Ok(Some((plan.unit, spans.collect::<Result<_>>()?)))
    }

    /// The schema of the result.
    pub fn schema(&self, left: &Schema, right: &Schema) -> Result<SchemaRef> {
        Ok(self.plan(&self.join.query_plan(left, right)?.schema, (left, right))?.schema)
    }

    /// Returns the plan for joining two tables with these schemas.
    pub fn query_plan(&self, left: &Schema, right: &Schema) -> Result<QueryPlan> {
        let (mut query, looks_back) = match &self.join {
            PartnerJoin::Interval { join, with_prevailing } => {
                let (plan, looks_back) =
                    self.covering_plan(join, *with_prevailing, (left, right))?;
                (join.query_plan_of(&plan), looks_back)
            }
            join => (join.query_plan(left, right)?, false),
        };
        let plan = self.plan(&query.schema, (left, right))?;
        let predicate = self.options().predicate.as_ref();
        let predicate = predicate.map(|expr| Predicate::bind(expr, left, right)).transpose()?;
        let is_scanned = predicate.is_some_and(|predicate| predicate.by_side().is_none());
        query.explanation = self.explain(&query.explanation, &plan, is_scanned);
        query.looks_back = looks_back;
        query.schema = plan.schema;
        query.origins.extend(plan.functions.outputs.iter().map(|_| (None, None)));
        query.reads[1].extend(plan.inputs.columns());
        query.reads[1].sort_unstable();
        query.reads[1].dedup();
        Ok(query)
    }

    /// Returns the plan for streams with these schemas. `max_width` is the maximum distance between
    /// a computed end and the time of its row on the left and on the right.
    pub(crate) fn stream_plan(
        &self,
        max_width: Option<[Bound; 2]>,
        left: &Schema,
        right: &Schema,
    ) -> Result<PartnerStreamPlan> {
        let mut with_prevailing = false;
        let mut widths = [None, None];
        let (times, unit, interval, join, identity, mut lines) = match &self.join {
            PartnerJoin::Interval { join, with_prevailing: is_asked } => {
                let (plan, looks_back) = self.covering_plan(join, *is_asked, (left, right))?;
                with_prevailing = looks_back;
                let bounded = join.bounded(&plan, max_width)?;
                let identity = join.stream_identity(&bounded, left, right);
                let mut lines = join.describe(&plan);
                lines.extend(bounded.describe(plan.unit));
                widths = bounded.widths;
                (plan.times, plan.unit, bounded.interval, plan.join, identity, lines)
            }
            PartnerJoin::Window(join) => {
                let plan = join.plan(left, right)?;
                let (identity, lines) = (join.identity(left, right), join.describe(&plan));
                let WindowPlan { times, unit, .. } = plan.windows;
                (times, unit, of_time(&plan.windows)?, plan.join, identity, lines)
            }
            PartnerJoin::Band(join) => {
                let plan = join.plan(left, right)?;
                let (Some(windows), Some(sliding)) = (plan.windows, &join.sliding) else {
                    return Err(Error::argument(
                        "a streaming band join needs a window and its time columns",
                    ));
                };
                let identity = join.identity(sliding, left, right);
                let lines = join.describe(&plan, false);
                (windows.times, windows.unit, of_time(&windows)?, plan.join, identity, lines)
            }
            PartnerJoin::Overlap(join) => {
                let plan = join.stream_plan(max_width, left, right)?;
                widths = plan.widths;
                (plan.times, plan.unit, plan.interval, plan.join, plan.identity, plan.lines)
            }
            PartnerJoin::Rolling(_) => {
                return Err(Error::bug("rolling windows have their own operator"));
            }
        };
        let schema = self.plan(&join.schema, (left, right))?.schema;
        let of_pairs = join.predicate.as_ref().is_some_and(|both| both.by_side().is_none());
        lines[0] = lines[0].replace("(semi)", &format!("({}), aggregates of partners", self.how()));
        lines.extend(self.describe());
        Ok(PartnerStreamPlan {
            times,
            unit,
            interval,
            with_prevailing,
            looks_at_pairs: of_pairs || self.join.looks_at_pairs(),
            widths,
            join,
            schema,
            identity: self.aggregates.iter().fold(
                identity.line("left rows", self.how()).line("prevailing", self.is_prevailing()),
                with_aggregate,
            ),
            lines,
        })
    }

    /// Returns whether the join's interval has a prevailing row.
    fn is_prevailing(&self) -> bool {
        matches!(self.join, PartnerJoin::Interval { with_prevailing: true, .. })
    }

    /// Returns the rolling windows, if partners are the rows in these windows.
    pub(crate) fn rolling(&self) -> Option<&RollingWindows> {
        match &self.join {
            PartnerJoin::Rolling(rolling) => Some(rolling),
            _ => None,
        }
    }

    /// Returns whether the partners are only counted.
    pub(crate) fn are_counts(&self) -> bool {
        let is_count = |one: &Aggregate| {
            matches!(one.function, Function::Count)
                && one.columns.is_empty()
                && one.predicate.is_none()
        };
        self.aggregates.iter().all(is_count)
    }

    /// Returns which left rows the result contains: `left` for all of them, or `inner` for only
    /// those with partners.
    pub fn how(&self) -> &'static str {
        if self.keeps_all { "left" } else { "inner" }
    }

    /// Returns the lines of the explanation that name the functions and mention the prevailing row.
    pub(crate) fn describe(&self) -> impl Iterator<Item = String> {
        let aggregates: Vec<String> = self.aggregates.iter().map(show).collect();
        let prevailing = self.is_prevailing().then(|| {
            "  prevailing the last right row before the interval is also a partner".to_owned()
        });
        std::iter::once(format!("  aggregates {}", aggregates.join(", "))).chain(prevailing)
    }

    /// Returns the explanation of the join, with additional lines about the partners.
    fn explain(&self, join: &str, plan: &PartnersPlan, is_scanned: bool) -> String {
        let mut lines: Vec<String> = join.lines().map(str::to_owned).collect();
        lines[0] = lines[0].replace("(semi)", &format!("({}), aggregates of partners", self.how()));
        lines.retain(|line| !line.starts_with("  output"));
        let memory = lines.iter_mut().find(|line| line.starts_with("  memory"));
        if let Some(memory) = memory.filter(|_| !is_scanned) {
            *memory = memory.replace(
                ", + result",
                ", + 4 per right row, + 16 to 64 per function (none for count, first and last of all rows), + result",
            );
        }
        let has_no_pairs =
            matches!(self.join, PartnerJoin::Overlap(_)) && self.are_counts() && !is_scanned;
        if let Some(memory) = lines.iter_mut().find(|line| line.starts_with("  memory"))
            && has_no_pairs
        {
            *memory = memory.replace(OF_PAIRS, "");
        }
        let fold = match (&self.join, is_scanned) {
            (_, true) => {
                "partners are added one by one, as the condition finds them; no pairs are built"
            }
            _ if has_no_pairs => {
                "the rows that start before the end, minus the rows that end before the start: two \
                 lookups per left row, regardless of the number of partners"
            }
            (PartnerJoin::Rolling(_), _) => {
                "a suffix of one pane and a prefix of the next, which have the length of the \
                 window: one combination per row and function, regardless of the number of rows in \
                 the window"
            }
            (join, _) if join.looks_at_pairs() => {
                "partners are added one by one; no pairs are built"
            }
            _ => {
                "a suffix of one pane and a prefix of the next, which have the length of \
                 the interval: one combination per left row and function, regardless of the number of partners"
            }
        };
        lines.extend(self.describe());
        lines.push(format!("  fold       {fold}"));
        lines.extend(plan.functions.explain_all_values(is_scanned));
        let columns = plan.schema.fields().len();
        let order = if self.rolling().is_some() { "row order" } else { "left row order" };
        lines.push(format!("  output     {columns} columns, in {order}"));
        lines.join("\n")
    }
}

/// Returns the interval that corresponds to time-based windows.
fn of_time(windows: &WindowPlan) -> Result<Interval> {
    match windows.retention {
        Retention::Time { left, right } => Ok(Interval::of_windows(left, right)),
        Retention::Rows { .. } => Err(Error::argument(
            "window: aggs over windows of rows are for whole tables; give a window of time, such \
             as \"15m\", or call the function of this join on tables",
        )),
    }
}

impl PartnerJoin {
    /// Returns whether partners are found by checking pairs one by one, even if there is no
    /// condition.
    fn looks_at_pairs(&self) -> bool {
        match self {
            PartnerJoin::Interval { join, .. } => join.has_row_ends(),
            PartnerJoin::Window(join) => matches!(join.window.0, Window::Rows(_)),
            PartnerJoin::Band(_) | PartnerJoin::Overlap(_) => true,
            PartnerJoin::Rolling(_) => false,
        }
    }

    fn options_mut(&mut self) -> &mut JoinOptions {
        match self {
            PartnerJoin::Interval { join, .. } => &mut join.options,
            PartnerJoin::Window(join) => &mut join.options,
            PartnerJoin::Band(join) => &mut join.options,
            PartnerJoin::Overlap(join) => &mut join.options,
            PartnerJoin::Rolling(rolling) => &mut rolling.options,
        }
    }

    fn query_plan(&self, left: &Schema, right: &Schema) -> Result<QueryPlan> {
        match self {
            PartnerJoin::Interval { join, .. } => join.query_plan(left, right),
            PartnerJoin::Window(join) => join.query_plan(left, right),
            PartnerJoin::Band(join) => join.query_plan(left, right),
            PartnerJoin::Overlap(join) => join.query_plan(left, right),
            PartnerJoin::Rolling(rolling) => rolling.query_plan(left),
        }
    }
}
