//! The as-of join.

use arrow_schema::{Schema, SchemaRef};
use tidegate_operators::asof::{AsOf, Strategy};
use tidegate_operators::rows::{Closed, How, Interval};

use super::identity::Identity;
use super::lookups::{LookupPlan, Lookups};
use super::options::{JoinOptions, JoinPlan};
use super::plan::{QueryPlan, Reach};
use crate::columns::table::column;
use crate::columns::time::{self, Bound, Unit};
use crate::{Error, Result};

/// An as-of join, which matches each left row with the right row that is nearest in time.
///
/// A right row is a candidate if all `by` columns are equal, `predicate` holds, and its time is
/// within `tolerance` in the direction that `strategy` specifies. The nearest candidate is the
/// partner. If several candidates at the nearest time precede the left row, the last of them is the
/// partner. If these candidates follow the left row, the first of them is the partner.
///
/// This example matches each trade with the last quote of its symbol:
///
/// ```
/// # use std::sync::Arc;
/// #
/// # use arrow_array::cast::AsArray;
/// # use arrow_array::types::Int64Type;
/// # use arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// use tidegate::{AsofJoin, Driver, How, JoinOptions, Stop, Strategy, Table};
///
/// # let driver = Driver::new(1, Stop::default());
/// # let table = |name: &str, columns: &[(&str, &[i64])]| {
/// #     let column = |values: &[i64]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
/// #     let columns = columns.iter().map(|(name, values)| (*name, column(values)));
/// #     let rows = RecordBatch::try_from_iter(columns)?;
/// #     Table::new(name, rows.schema(), vec![rows], &driver)
/// # };
/// # let (by, how, suffix) = (Vec::new(), How::Left, "_right".to_owned());
/// # let (predicate, columns, threads, max_rows, batch_rows) = (None, None, 1, None, None);
/// # let options = JoinOptions {
/// #     by, predicate, how, suffix, columns, threads, max_rows, batch_rows,
/// # };
/// let trades = table("trades", &[("ts", &[10, 20]), ("symbol", &[1, 2])])?;
/// let quotes = table("quotes", &[("ts", &[8, 9, 19, 30]), ("symbol", &[1, 1, 2, 2])])?;
/// let join = AsofJoin {
///     on: ("ts".to_owned(), "ts".to_owned()),
///     strategy: Strategy::Backward,
///     tolerance: None,
///     allow_exact_matches: true,
///     lookups: None,
///     // The other options ask for a left join.
///     options: JoinOptions { by: vec![("symbol".to_owned(), "symbol".to_owned())], ..options },
/// };
/// let rows = join.start(&trades, &quotes, Stop::default())?.read_all()?;
/// assert_eq!(rows[0]["ts_right"].as_primitive::<Int64Type>().values(), &[9, 19]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct AsofJoin {
    /// The time column of each side.
    pub on: (String, String),
    /// The direction in which to search for a left row's partner.
    pub strategy: Strategy,
    /// The maximum time distance between partners, inclusive; `None` for no limit.
    pub tolerance: Option<Bound>,
    /// True if two rows with equal times can be partners.
    pub allow_exact_matches: bool,
    /// The lookups of a join that returns more than a single partner per left row.
    pub lookups: Option<Lookups>,
    /// The options that all joins have. Unmatched right rows cannot be kept.
    pub options: JoinOptions,
}

/// An as-of join whose names and types fit two schemas.
#[derive(Debug)]
pub(crate) struct AsofPlan {
    pub(crate) times: (usize, usize),
    pub(crate) unit: Unit,
    pub(crate) asof: AsOf,
    pub(crate) join: JoinPlan,
    pub(crate) lookups: Option<LookupPlan>,
}

impl AsofJoin {
    /// Returns the pairs of left and right columns that are compared.
    pub fn pairs(&self) -> Vec<(String, String)> {
        std::iter::once(&self.on).chain(&self.options.by).cloned().collect()
    }

    pub(crate) fn plan(&self, left: &Schema, right: &Schema) -> Result<AsofPlan> {
        if let How::Right | How::Full = self.options.how {
            return Err(Error::argument(format!(
                "how must be one of left, inner, semi, anti, got `{}`: an as-of join looks up a \
                 partner for each left row; swap left and right to keep the rows of the other side",
                format!("{:?}", self.options.how).to_lowercase()
            )));
        }
        let times =
            (column("left", left, &self.on.0, "on")?, column("right", right, &self.on.1, "on")?);
        let unit = time::common_unit(left.field(times.0), right.field(times.1))?;
        let steps = |tolerance| time::length("tolerance", tolerance, unit);
        let tolerance = self.tolerance.map(steps).transpose()?;
        let asof = AsOf { strategy: self.strategy, exact: self.allow_exact_matches, tolerance };
        let (lookups, join) = match &self.lookups {
            None => (None, self.options.plan(left, right)?),
            Some(lookups) => {
                let schemas = (left, right);
                let (lookups, join) =
                    lookups.plan(schemas, times, unit, tolerance, &self.options)?;
                (Some(lookups), join)
            }
        };
        Ok(AsofPlan { times, unit, asof, join, lookups })
    }

    /// The schema of the result.
    pub fn schema(&self, left: &Schema, right: &Schema) -> Result<SchemaRef> {
        Ok(self.plan(left, right)?.join.schema)
    }

    /// Returns the plan for joining two tables with these schemas.
    pub fn query_plan(&self, left: &Schema, right: &Schema) -> Result<QueryPlan> {
        let plan = self.plan(left, right)?;
        let AsOf { strategy, tolerance, .. } = plan.asof;
        let reach = Interval {
            lower: if strategy == Strategy::Forward {
                Some(0)
            } else {
                tolerance.map(|most| -most)
            },
            upper: if strategy == Strategy::Backward { Some(0) } else { tolerance },
            closed: Closed::Both,
        };
        let looks_back = strategy == Strategy::Backward
            && tolerance.is_none()
            && self.options.predicate.is_none();
        let explanation = self.explain(&plan);
        let Some(lookups) = &plan.lookups else {
            let time = Some(Reach::of_interval(plan.times, reach));
            let query = QueryPlan::new(explanation, &plan.join, Vec::new(), time);
            return Ok(QueryPlan { looks_back, ..query });
        };
        let mut time = lookups.reach(plan.times, strategy);
        // Only the last right row of each key before the smallest offset can match.
        let looks_back = strategy == Strategy::Backward
            && !lookups.interpolates
            && lookups.partners.is_none_or(|most| most == 1)
            && time.lower.is_none()
            && self.options.predicate.is_none();
        if looks_back {
            time.lower = lookups.lowest();
        }
        let query = QueryPlan::new(explanation, &plan.join, Vec::new(), Some(time));
        let query = query.reading([lookups.clashes.clone(), Vec::new()]);
        Ok(QueryPlan { looks_back, origins: lookups.origins(plan.times.0), ..query })
    }

    /// Returns the text that identifies the query's results.
    pub(crate) fn identity(&self, left: &Schema, right: &Schema) -> Identity {
        self.options.identity(
            "asof_join",
            [left, right],
            &[
                ("on", &self.on),
                ("strategy", &self.strategy),
                ("tolerance", &self.tolerance),
                ("exact", &self.allow_exact_matches),
            ],
        )
    }

    /// Returns the lines of the explanation that describe which pairs match.
    pub(crate) fn describe(&self, plan: &AsofPlan) -> Vec<String> {
        let (l, r) = (format!("left.{}", self.on.0), format!("right.{}", self.on.1));
        let equal = if self.allow_exact_matches { "=" } else { "" };
        let time = match self.strategy {
            _ if self.interpolates() => {
                format!("between the last {r} <{equal} {l} and the first {r} > {l}")
            }
            Strategy::Backward => format!("the last {r} <{equal} {l}"),
            Strategy::Forward => format!("the first {r} >{equal} {l}"),
            Strategy::Nearest => {
                let other = if self.allow_exact_matches { "" } else { " but equal ones" };
                format!("the {r} nearest to {l}{other}, the one before at a tie")
            }
        };
        let within = plan
            .asof
            .tolerance
            .map_or(String::new(), |most| format!(", at most {} away", plan.unit.length(most)));
        let mut lines = vec![
            format!("asof_join ({:?})", self.options.how).to_lowercase(),
            format!("  time       {time}{within}"),
            self.options.describe_keys(),
        ];
        if let (Some(lookups), Some(planned)) = (&self.lookups, &plan.lookups) {
            lines.extend(lookups.describe(planned, plan.unit));
        }
        lines.extend(self.options.describe_predicate());
        lines.extend(plan.join.describe_scan());
        lines
    }

    /// Returns whether numbers are interpolated between the rows before and after.
    pub(crate) fn interpolates(&self) -> bool {
        self.lookups.as_ref().is_some_and(|lookups| lookups.interpolates)
    }

    /// Returns the explanation of a table join, as shown to users.
    fn explain(&self, plan: &AsofPlan) -> String {
        let mut lines = self.describe(plan);
        let (algorithm, memory) = match plan.join.predicate {
            None if self.lookups.is_some() => (
                "the right rows are read and their keys are numbered once; then, one as-of join \
                 finds the partners at each offset",
                "inputs + 12 bytes per left row and offset and 4 per right row in time order, \
                 otherwise up to 60 per row, up to 24 per row where partners are far apart, + result",
            ),
            None => (
                "one pass over both sides with the last right row for each key if both sides are in \
                 time order; otherwise, both sides are grouped by key and the groups are merged",
                "inputs + 12 bytes per left row and 4 per right row in time order, otherwise up to \
                 60 per row, up to 24 per row where partners are far apart, + result",
            ),
            Some(_) => (
                "candidates are runs of right rows grouped by key; the nearest 16 are tested, then \
                 the next 64, and so on",
                "inputs + up to 80 bytes per row, + up to 17 per row for each scanned comparison, \
                 + result",
            ),
        };
        lines.extend([
            format!("  algorithm  {algorithm}"),
            format!("  threads    {}", self.options.threads),
            format!("  memory     {memory}"),
            format!("  output     {} columns, in left row order", plan.join.schema.fields().len()),
        ]);
        lines.join("\n")
    }
}
