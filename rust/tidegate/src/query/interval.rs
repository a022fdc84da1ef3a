//! The interval join.

use arrow_schema::{Schema, SchemaRef};
use tidegate_operators::rows::{Closed, Interval};

use super::identity::Identity;
use super::options::{JoinOptions, JoinPlan};
use super::plan::{QueryPlan, Reach};
use crate::Result;
use crate::columns::table::column;
use crate::columns::time::{self, Bound, Unit};

/// An interval join: which pairs of rows of two tables are wanted.
///
/// A pair `(l, r)` is in the result when all `by` columns are equal, `l.ts + lower <= r.ts <= l.ts
/// + upper` (`closed` says which ends count) and `predicate` holds.
///
/// Each trade with the quotes of its symbol that are at most 2 older:
///
/// ```
/// # use std::sync::Arc;
/// #
/// # use arrow_array::cast::AsArray;
/// # use arrow_array::types::Int64Type;
/// # use arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// use tidegate::{Bound, Closed, Driver, How, IntervalJoin, JoinOptions, Stop, Table};
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
/// let trades = table("trades", &[("ts", &[10, 20]), ("symbol", &[1, 2])])?;
/// let quotes = table("quotes", &[("ts", &[9, 10, 19]), ("symbol", &[1, 2, 2])])?;
/// let join = IntervalJoin {
///     on: ("ts".to_owned(), "ts".to_owned()),
///     lower: Some(Bound::Steps(-2)),
///     upper: Some(Bound::Steps(0)),
///     closed: Closed::Both,
///     // The other options ask for an inner join.
///     options: JoinOptions { by: vec![("symbol".to_owned(), "symbol".to_owned())], ..options },
/// };
/// let pairs = join.start(&trades, &quotes, Stop::default())?.read_all()?;
/// assert_eq!(pairs[0]["ts"].as_primitive::<Int64Type>().values(), &[10, 20]);
/// assert_eq!(pairs[0]["ts_right"].as_primitive::<Int64Type>().values(), &[9, 19]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct IntervalJoin {
    /// The time column of each side.
    pub on: (String, String),
    /// How far from the left time matches begin; `None` for no bound.
    pub lower: Option<Bound>,
    /// How far from the left time matches end; `None` for no bound.
    pub upper: Option<Bound>,
    /// Which ends of the interval match.
    pub closed: Closed,
    /// The options that all joins have.
    pub options: JoinOptions,
}

/// A join whose names and types fit two schemas.
#[derive(Debug)]
pub(crate) struct IntervalPlan {
    pub(crate) times: (usize, usize),
    pub(crate) unit: Unit,
    pub(crate) interval: Interval,
    pub(crate) join: JoinPlan,
}

impl IntervalJoin {
    pub(crate) fn plan(&self, left: &Schema, right: &Schema) -> Result<IntervalPlan> {
        let times =
            (column("left", left, &self.on.0, "on")?, column("right", right, &self.on.1, "on")?);
        let unit = time::common_unit(left.field(times.0), right.field(times.1))?;
        let interval = time::interval(self.lower, self.upper, self.closed, unit)?;
        Ok(IntervalPlan { times, unit, interval, join: self.options.plan(left, right)? })
    }

    /// The schema of the result.
    pub fn schema(&self, left: &Schema, right: &Schema) -> Result<SchemaRef> {
        Ok(self.plan(left, right)?.join.schema)
    }

    /// The plan of the join of two tables of these schemas.
    pub fn query_plan(&self, left: &Schema, right: &Schema) -> Result<QueryPlan> {
        let plan = self.plan(left, right)?;
        Ok(QueryPlan::new(
            self.explain(&plan),
            &plan.join,
            Vec::new(),
            Some(Reach::of_interval(plan.times, plan.interval)),
        ))
    }

    /// The text that decides the results.
    pub(crate) fn identity(&self, left: &Schema, right: &Schema) -> Identity {
        self.options.identity(
            "interval_join",
            [left, right],
            &[
                ("on", &self.on),
                ("lower", &self.lower),
                ("upper", &self.upper),
                ("closed", &self.closed),
            ],
        )
    }

    /// An explanation of the join of two tables, for people.
    fn explain(&self, plan: &IntervalPlan) -> String {
        let mut lines = self.describe(plan);
        lines.extend(plan.join.describe_scan());
        lines.extend([
            "  algorithm  group and sweep: the only batch algorithm; O(n + results) for rows in time order".to_owned(),
            plan.join.describe_index(),
            format!("  threads    {}", self.options.threads),
            "  memory     inputs + 12 bytes a left row and 8 a right row in time order, up to 60 a row otherwise, up to 24 a \
             row where partners are far apart, + result"
                .to_owned(),
            format!("  output     {} columns, in left row order, then right row order", plan.join.schema.fields().len()),
        ]);
        lines.join("\n")
    }

    /// The lines of an explanation that say which pairs there are.
    pub(crate) fn describe(&self, plan: &IntervalPlan) -> Vec<String> {
        let name =
            |end: Option<i64>, sign: &str| end.map_or(format!("{sign}inf"), |end| end.to_string());
        let Interval { lower, upper, closed } = plan.interval;
        let open = if lower.is_some() && matches!(closed, Closed::Both | Closed::Left) {
            '['
        } else {
            '('
        };
        let close = if upper.is_some() && matches!(closed, Closed::Both | Closed::Right) {
            ']'
        } else {
            ')'
        };
        let mut lines = vec![
            format!("interval_join ({:?})", self.options.how).to_lowercase(),
            format!(
                "  time       right.{} - left.{} in {open}{}, {}{close} {}",
                self.on.1,
                self.on.0,
                name(lower, "-"),
                name(upper, "+"),
                plan.unit.name()
            ),
            self.options.describe_keys(),
        ];
        lines.extend(self.options.describe_predicate());
        lines
    }
}
