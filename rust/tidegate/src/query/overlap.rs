//! The overlap join.

use arrow_schema::{Schema, SchemaRef};
use tidegate_operators::rows::Closed;

use super::options::{JoinOptions, JoinPlan};
use super::plan::QueryPlan;
use crate::columns::table::column;
use crate::columns::time::{self, Bound, Unit};
use crate::{Error, Result};

/// An overlap join, which returns the pairs of rows whose intervals overlap. Each row has a start
/// and an end.
///
/// A pair `(l, r)` is in the result if all `by` columns are equal, `l.start <= r.end`, `r.start <=
/// l.end` and `predicate` holds. With [`Closed::Left`], intervals exclude their ends: comparisons
/// use `<` instead of `<=`, and an empty interval overlaps nothing. A row whose start or end is
/// null also overlaps nothing.
///
/// This example matches each alarm with the jobs that were running during the alarm:
///
/// ```
/// # use std::sync::Arc;
/// #
/// # use arrow_array::cast::AsArray;
/// # use arrow_array::types::Int64Type;
/// # use arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// use tidegate::{Closed, Driver, How, JoinOptions, OverlapJoin, Stop, Table};
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
/// let alarms = table("alarms", &[("start", &[10, 20]), ("end", &[15, 29])])?;
/// let jobs = table("jobs", &[("start", &[0, 12, 15]), ("end", &[99, 14, 20])])?;
/// let names = || ("start".to_owned(), "end".to_owned());
/// let join = OverlapJoin {
///     on: [names(), names()],
///     closed: Closed::Both,
///     min_overlap: None,
///     options, // of an inner join
/// };
/// let pairs = join.start(&alarms, &jobs, Stop::default())?.read_all()?;
/// assert_eq!(pairs[0]["start"].as_primitive::<Int64Type>().values(), &[10, 10, 10, 20, 20]);
/// assert_eq!(pairs[0]["start_right"].as_primitive::<Int64Type>().values(), &[0, 12, 15, 0, 15]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct OverlapJoin {
    /// Each side's start and end columns.
    pub on: [(String, String); 2],
    /// [`Closed::Both`], or [`Closed::Left`] if intervals exclude their ends.
    pub closed: Closed,
    /// The minimum length of the overlap; `None` if a single point is enough.
    pub min_overlap: Option<Bound>,
    /// The options that all joins have.
    pub options: JoinOptions,
}

/// The memory that pairs take up, as shown in an explanation.
pub(crate) const OF_PAIRS: &str = " + 8 per pair, for up to 4,194,304 pairs at a time";

/// The algorithm, as shown in an explanation.
pub(crate) const OF_LISTS: &str = "lists of the right rows that are open at selected times; O(n \
                                   log n + m log m + pairs), however long rows are";

/// The explanation line that describes the order of the right rows.
pub(crate) const BY_START: &str =
    "  index      right rows grouped by key, in the order of their starts";

/// An overlap join whose names and types fit two schemas.
#[derive(Debug)]
pub(crate) struct OverlapPlan {
    /// The start and end columns of each side.
    pub(crate) columns: [(usize, usize); 2],
    pub(crate) unit: Unit,
    /// The minimum number of time steps from the later start to the earlier end. This number is at
    /// least 1 if intervals exclude their ends.
    pub(crate) least: i64,
    pub(crate) join: JoinPlan,
}

impl OverlapJoin {
    /// Returns the pairs of left and right columns that are compared.
    pub fn pairs(&self) -> Vec<(String, String)> {
        let [left, right] = self.on.clone();
        let mut pairs = vec![(left.0, right.0), (left.1, right.1)];
        pairs.extend_from_slice(&self.options.by);
        pairs
    }

    pub(crate) fn plan(&self, left: &Schema, right: &Schema) -> Result<OverlapPlan> {
        let find = |table, schema, name: &String| column(table, schema, name, "on");
        let [(left_start, left_end), (right_start, right_end)] = &self.on;
        let of_left = (find("left", left, left_start)?, find("left", left, left_end)?);
        let of_right = (find("right", right, right_start)?, find("right", right, right_end)?);
        let unit = time::finest_unit(&[
            ("left", left.field(of_left.0)),
            ("left", left.field(of_left.1)),
            ("right", right.field(of_right.0)),
            ("right", right.field(of_right.1)),
        ])?;
        let least = match self.min_overlap {
            None => 0,
            Some(length) => time::least_length("min_overlap", length, unit)?,
        };
        let least = match self.closed {
            Closed::Both => least,
            Closed::Left => least.max(1),
            Closed::Right | Closed::Neither => {
                return Err(Error::argument(
                    "closed must be one of both, left: with both, intervals include their ends; \
                     with left, they do not",
                ));
            }
        };
        Ok(OverlapPlan {
            columns: [of_left, of_right],
            unit,
            least,
            join: self.options.plan(left, right)?,
        })
    }

    /// The schema of the result.
    pub fn schema(&self, left: &Schema, right: &Schema) -> Result<SchemaRef> {
        Ok(self.plan(left, right)?.join.schema)
    }

    /// Returns the plan for joining two tables with these schemas.
    pub fn query_plan(&self, left: &Schema, right: &Schema) -> Result<QueryPlan> {
        let plan = self.plan(left, right)?;
        let explanation = self.explain(&plan);
        let query = QueryPlan::new(explanation, &plan.join, Vec::new(), None);
        let query = query.reading(plan.columns.map(|(start, end)| vec![start, end]));
        Ok(QueryPlan { intervals: Some(plan.columns), unit: Some(plan.unit), ..query })
    }

    /// Returns an explanation of the join of two tables, as shown to users.
    fn explain(&self, plan: &OverlapPlan) -> String {
        let [left, right] = &self.on;
        let than = if self.closed == Closed::Both { "<=" } else { "<" };
        let mut lines = vec![
            format!("overlap_join ({:?})", self.options.how).to_lowercase(),
            format!(
                "  overlap    left.{} {than} right.{} and right.{} {than} left.{}",
                left.0, right.1, right.0, left.1
            ),
        ];
        if self.min_overlap.is_some() {
            lines.push(format!(
                "  common     at least {} {} from the later start to the earlier end",
                plan.least,
                plan.unit.steps_name()
            ));
        }
        lines.push(self.options.describe_keys());
        lines.extend(self.options.describe_predicate());
        lines.extend([
            format!("  algorithm  {OF_LISTS}"),
            BY_START.to_owned(),
            format!("  threads    {}", self.options.threads),
            format!("  memory     inputs + up to 110 bytes per row{OF_PAIRS}, + result"),
            format!(
                "  output     {} columns, in left row order, then right row order",
                plan.join.schema.fields().len()
            ),
        ]);
        lines.join("\n")
    }
}
