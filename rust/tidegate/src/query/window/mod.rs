//! The window join.

mod algorithm;

use arrow_schema::{Schema, SchemaRef};
use tidegate_operators::rows::{Interval, Retention};

use super::identity::Identity;
use super::options::{JoinOptions, JoinPlan};
use super::plan::{QueryPlan, Reach};
use crate::columns::table::{Table, column};
use crate::columns::time::{self, Bound, Int64s, Unit};
use crate::{Error, Result};
pub use algorithm::Algorithm;
pub(crate) use algorithm::{SlidingJoinParts, equal_keys, numbers_of};

/// Determines how long a side's rows stay in its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// Rows stay for a fixed time.
    Time(Bound),
    /// A row stays until this number of later rows have arrived on the same side.
    Rows(usize),
}

/// A window join, which selects pairs of rows from two tables.
///
/// A pair is in the result if all `by` columns are equal and `predicate` holds. In addition, the
/// row that is first in merged order must still be in its side's window when the other row arrives.
///
/// This example pairs each ask with the bids that are at least as high and at most 5 apart in time:
///
/// ```
/// # use std::sync::Arc;
/// #
/// # use arrow_array::cast::AsArray;
/// # use arrow_array::types::Int64Type;
/// # use arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// use tidegate::columns::expression::parse_sql;
/// use tidegate::{Bound, Driver, How, JoinOptions, Stop, Table, Window, WindowJoin};
///
/// # let driver = Driver::new(1, Stop::default());
/// # let table = |name: &str, columns: &[(&str, &[i64])]| {
/// #     let column = |values: &[i64]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
/// #     let columns = columns.iter().map(|(name, values)| (*name, column(values)));
/// #     let rows = RecordBatch::try_from_iter(columns)?;
/// #     Table::new(name, rows.schema(), vec![rows], &driver)
/// # };
/// # let (by, how, suffix) = (Vec::new(), How::Inner, "_right".to_owned());
/// # let (predicate, columns, threads, max_rows, batch_rows) = (None, None, 1, None, None);
/// # let options = JoinOptions {
/// #     by, predicate, how, suffix, columns, threads, max_rows, batch_rows,
/// # };
/// let asks = table("asks", &[("ts", &[1, 10]), ("price", &[50, 51])])?;
/// let bids = table("bids", &[("ts", &[4, 7, 11]), ("price", &[52, 53, 50])])?;
/// let stay = Window::Time(Bound::Steps(5));
/// let not_below = parse_sql("left.price <= right.price")?;
/// let join = WindowJoin {
///     on: ("ts".to_owned(), "ts".to_owned()),
///     window: (stay, stay),
///     algorithm: None,
///     // The other options ask for an inner join.
///     options: JoinOptions { predicate: Some(not_below), ..options },
/// };
/// let pairs = join.start(&asks, &bids, Stop::default())?.read_all()?;
/// // The bid at 11 is too low. The bid at 7 came before the ask at 10, and is still in its window.
/// assert_eq!(pairs[0]["ts"].as_primitive::<Int64Type>().values(), &[1, 10]);
/// assert_eq!(pairs[0]["ts_right"].as_primitive::<Int64Type>().values(), &[4, 7]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct WindowJoin {
    /// The time column of each side.
    pub on: (String, String),
    /// The window of each side.
    pub window: (Window, Window),
    /// The algorithm that compares rows; `None` to choose the best one.
    pub algorithm: Option<Algorithm>,
    /// The options that all joins have.
    pub options: JoinOptions,
}

/// A window join whose names and types fit two schemas.
#[derive(Debug)]
pub(crate) struct WindowJoinPlan {
    pub(crate) windows: WindowPlan,
    pub(crate) join: JoinPlan,
}

/// The windows of a join, for rows with two given schemas.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowPlan {
    /// The time column of each side.
    pub(crate) times: (usize, usize),
    pub(crate) unit: Unit,
    pub(crate) retention: Retention,
}

impl WindowPlan {
    /// Creates the windows for rows with these time columns; `role` is the name of the argument.
    pub(crate) fn new(
        role: &str,
        names: &(String, String),
        window: (Window, Window),
        left: &Schema,
        right: &Schema,
    ) -> Result<Self> {
        let times =
            (column("left", left, &names.0, role)?, column("right", right, &names.1, role)?);
        let unit = time::common_unit(left.field(times.0), right.field(times.1))?;
        let length = |of| time::length("window", of, unit).map(i64::unsigned_abs);
        let retention = match window {
            (Window::Time(left), Window::Time(right)) => {
                Retention::Time { left: length(left)?, right: length(right)? }
            }
            (Window::Rows(left), Window::Rows(right)) => {
                Retention::Rows { left: left as u64, right: right as u64 }
            }
            _ => {
                return Err(Error::argument(
                    "window: one side has a time and the other has a number of rows; use the same kind for both",
                ));
            }
        };
        Ok(WindowPlan { times, unit, retention })
    }

    /// Returns the lines of an explanation that name the time columns and state how long rows stay
    /// in the windows.
    pub(crate) fn describe(&self, names: &(String, String)) -> [String; 2] {
        let window = match self.retention {
            Retention::Time { left, right } => {
                let unit = self.unit.name();
                format!("  window     left rows stay for {left}, right rows for {right} ({unit})")
            }
            Retention::Rows { left, right } => {
                format!("  window     the last {left} left rows, the last {right} right rows")
            }
        };
        [format!("  time       left.{}, right.{}", names.0, names.1), window]
    }

    /// Returns the maximum time between the rows of a pair. A right row can follow a left row only
    /// while the left row is in its window, and vice versa. Row-based windows do not limit the time
    /// between rows.
    pub(crate) fn reach(&self) -> Reach {
        match self.retention {
            Retention::Time { left, right } => {
                Reach::of_interval(self.times, Interval::of_windows(left, right))
            }
            Retention::Rows { .. } => Reach { columns: self.times, lower: None, upper: None },
        }
    }

    /// Returns the times of both sides.
    pub(crate) fn times(&self, left: &Table, right: &Table) -> Result<(Int64s, Int64s)> {
        let ends = match self.retention {
            Retention::Time { left, right } => [left, right]
                .into_iter()
                .filter(|&length| length < u64::MAX)
                .flat_map(|length| [i128::from(length), -i128::from(length)])
                .collect(),
            Retention::Rows { .. } => Vec::new(),
        };
        time::both_times((left, right), self.times, self.unit, &ends)
    }
}

impl WindowJoin {
    /// Returns the pairs of left and right columns that are compared.
    pub fn pairs(&self) -> Vec<(String, String)> {
        std::iter::once(&self.on).chain(&self.options.by).cloned().collect()
    }

    pub(crate) fn plan(&self, left: &Schema, right: &Schema) -> Result<WindowJoinPlan> {
        let windows = WindowPlan::new("on", &self.on, self.window, left, right)?;
        Ok(WindowJoinPlan { windows, join: self.options.plan(left, right)? })
    }

    /// The schema of the result.
    pub fn schema(&self, left: &Schema, right: &Schema) -> Result<SchemaRef> {
        Ok(self.plan(left, right)?.join.schema)
    }

    /// Returns the plan for joining two tables with these schemas.
    pub fn query_plan(&self, left: &Schema, right: &Schema) -> Result<QueryPlan> {
        let plan = self.plan(left, right)?;
        Ok(QueryPlan::new(self.explain(&plan), &plan.join, Vec::new(), Some(plan.windows.reach())))
    }

    /// Returns the text that determines the results.
    pub(crate) fn identity(&self, left: &Schema, right: &Schema) -> Identity {
        self.options.identity(
            "window_join",
            [left, right],
            &[("on", &self.on), ("window", &self.window)],
        )
    }

    /// Returns an explanation of the join of two tables, as shown to users.
    fn explain(&self, plan: &WindowJoinPlan) -> String {
        let mut lines = self.describe(plan);
        let (algorithm, index, memory) = match self.algorithm {
            None => (
                "group and sweep (auto): each left row's window is a run of right rows in time \
                 order, in which matching rows are looked up",
                plan.join.describe_index(),
                "inputs + up to 60 bytes per row, up to 17 per row for each scanned comparison, 84 \
                 per right row for finding matches, + result",
            ),
            Some(algorithm) => (
                algorithm.describe(),
                format!("  index      {}", algorithm.index(plan.join.has_equality())),
                "inputs + up to 60 bytes per row, and up to 50 for each scanned comparison, + 8 \
                 per pair, + result",
            ),
        };
        lines.extend([
            format!("  algorithm  {algorithm}"),
            index,
            format!("  threads    {}", self.options.threads),
            format!("  memory     {memory}"),
            format!(
                "  output     {} columns, in left row order, then right row order",
                plan.join.schema.fields().len()
            ),
        ]);
        lines.join("\n")
    }

    /// Returns the lines of an explanation that describe which pairs match.
    pub(crate) fn describe(&self, plan: &WindowJoinPlan) -> Vec<String> {
        let mut lines = vec![format!("window_join ({:?})", self.options.how).to_lowercase()];
        lines.extend(plan.windows.describe(&self.on));
        lines.push(self.options.describe_keys());
        lines.extend(self.options.describe_predicate());
        lines.extend(plan.join.describe_scan());
        lines
    }
}
