//! Rolling windows: for each row, the rows of its key that directly precede it.

use arrow_schema::Schema;
use tidegate_operators::rows::{Closed, Interval};

use super::identity::Identity;
use super::options::{JoinOptions, JoinPlan};
use super::plan::{Difference, QueryPlan, Reach, distances};
use crate::columns::table::column;
use crate::columns::time::{self, Bound, Unit};
use crate::{Error, Result};

/// A table in which each row has a window that ends at the row. The window contains rows with the
/// same key. Null keys are equal.
///
/// ```
/// # use std::sync::Arc;
/// #
/// # use arrow_array::cast::AsArray;
/// # use arrow_array::types::Int64Type;
/// # use arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// use tidegate::query::aggregate::{Aggregate, Function};
/// use tidegate::{Bound, Closed, Driver, How, JoinOptions, PartnerAggregation, PartnerJoin};
/// use tidegate::{RollingWindows, RollingSize, Stop, Table};
///
/// let column = |values: &[i64]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
/// let rows = RecordBatch::try_from_iter([("ts", column(&[1, 4, 5, 12]))])?;
/// let table = Table::new("table", rows.schema(), vec![rows], &Driver::new(1, Stop::default()))?;
/// let rolling = RollingWindows {
///     on: "ts".to_owned(),
///     size: RollingSize::Time(Bound::Steps(5)),
///     closed: Closed::Right,
///     options: JoinOptions {
///         by: Vec::new(),
///         predicate: None,
///         how: How::Semi,
///         suffix: String::new(),
///         columns: None,
///         threads: 1,
///         max_rows: None,
///         batch_rows: None,
///     },
/// };
/// let (name, function) = ("n".to_owned(), Function::Count);
/// let count = Aggregate { name, function, columns: Vec::new(), predicate: None, interval: None };
/// let query = PartnerAggregation::new(PartnerJoin::Rolling(rolling), vec![count], How::Left)?;
/// let found = query.start(&table, &table, Stop::default())?.read_all()?;
/// assert_eq!(found[0]["n"].as_primitive::<Int64Type>().values(), &[1, 2, 3, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RollingWindows {
    /// The time column.
    pub on: String,
    /// The length of the windows.
    pub size: RollingSize,
    /// The ends that a window includes. The upper end is the row itself. The lower end precedes the
    /// row by the length of the window.
    pub closed: Closed,
    /// The key columns, the columns of the result, and how the query runs.
    pub options: JoinOptions,
}

/// The length of rolling windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RollingSize {
    /// A length of time.
    Time(Bound),
    /// A number of rows with the same key, in time order.
    Rows(u64),
}

/// The plan for a table with a known schema.
#[derive(Debug)]
pub(crate) struct RollingPlan {
    /// The time column.
    pub(crate) time: usize,
    pub(crate) unit: Unit,
    /// The positions of a window's rows relative to the row at its end: times, or numbers of rows.
    pub(crate) interval: Interval,
    pub(crate) join: JoinPlan,
}

impl RollingWindows {
    pub(crate) fn plan(&self, schema: &Schema) -> Result<RollingPlan> {
        let time = column(TABLE, schema, &self.on, "on")?;
        let unit = Unit::of(TABLE, schema.field(time))?;
        let interval = match self.size {
            RollingSize::Rows(rows) => {
                let lower = Some(-(rows.min(1 << 62) as i64));
                Interval { lower, upper: Some(0), closed: self.closed }
            }
            RollingSize::Time(size) => self.interval(size, unit)?,
        };
        let join = self.options.plan_of_one(TABLE, schema)?;
        Ok(RollingPlan { time, unit, interval, join })
    }

    fn interval(&self, size: Bound, unit: Unit) -> Result<Interval> {
        if time::least_length("size", size, unit)? == 0 {
            return Err(Error::argument(
                "size must be positive, got 0; for the last rows instead of a length of time, \
                 write tidegate.rows(n)",
            ));
        }
        let lower = match size {
            Bound::Steps(steps) => Bound::Steps(-steps),
            Bound::Nanoseconds(nanoseconds) => Bound::Nanoseconds(-nanoseconds),
        };
        time::interval(Some(lower), Some(Bound::Steps(0)), self.closed, unit)
    }

    /// Returns whether windows are row-based.
    pub(crate) fn counts_rows(&self) -> bool {
        matches!(self.size, RollingSize::Rows(_))
    }

    /// Returns the pairs of columns that are compared.
    pub(crate) fn pairs(&self) -> Vec<(String, String)> {
        let on = (self.on.clone(), self.on.clone());
        std::iter::once(on).chain(self.options.by.iter().cloned()).collect()
    }

    /// Returns the plan for a table with this schema.
    pub(crate) fn query_plan(&self, schema: &Schema) -> Result<QueryPlan> {
        let plan = self.plan(schema)?;
        let columns = (plan.time, plan.time);
        let (reach, distances) = match self.counts_rows() {
            true => {
                let upper = Some(Difference::Steps(0));
                (Reach { columns, lower: None, upper }, (None, Some(0)))
            }
            false => (Reach::of_interval(columns, plan.interval), distances(plan.interval)),
        };
        let mut lines = self.describe(&plan);
        lines.extend([
            "  algorithm  the partners of an interval join of the table with itself; keys are \
             numbered and rows are sorted once"
                .to_owned(),
            format!("  threads    {}", self.options.threads),
            "  memory     inputs + 24 bytes per row, + result".to_owned(),
        ]);
        let query = QueryPlan::new(lines.join("\n"), &plan.join, Vec::new(), Some(reach));
        Ok(QueryPlan { unit: Some(plan.unit), distances, ..query })
    }

    /// Returns the text that determines the results.
    pub(crate) fn identity(&self, schema: &Schema) -> Identity {
        Identity::of("rolling")
            .columns("table", schema)
            .line("on", &self.on)
            .line("size", format_args!("{:?}", self.size))
            .line("closed", format_args!("{:?}", self.closed))
            .line("by", format_args!("{:?}", self.options.by))
            .line("columns", format_args!("{:?}", self.options.columns))
    }

    /// Returns the lines of an explanation that describe the windows.
    pub(crate) fn describe(&self, plan: &RollingPlan) -> Vec<String> {
        let Interval { lower, closed, .. } = plan.interval;
        let open = if matches!(closed, Closed::Both | Closed::Left) { '[' } else { '(' };
        let close = if matches!(closed, Closed::Both | Closed::Right) { ']' } else { ')' };
        let size = lower.map_or(0, i64::unsigned_abs);
        let window = match self.counts_rows() {
            true => {
                format!("{open}n - {size}, n{close}, where n is the row's number within its key")
            }
            false => {
                format!("{open}t - {size}, t{close} {}, where t is {}", plan.unit.name(), self.on)
            }
        };
        let keys: Vec<&str> = self.options.by.iter().map(|(key, _)| &**key).collect();
        vec![
            "rolling".to_owned(),
            format!("  window     {window}"),
            match keys.is_empty() {
                true => "  key        none: all rows are one group".to_owned(),
                false => format!("  key        {}; null is a group", keys.join(", ")),
            },
        ]
    }
}

/// The name of the input in messages.
pub(crate) const TABLE: &str = "table";
