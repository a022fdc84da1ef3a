//! The overlap join.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema, SchemaRef};
use tidegate_operators::rows::{Closed, Interval};

use super::aggregate::inputs::{ReadColumn, input, is_plain};
use super::identity::Identity;
use super::options::{JoinOptions, JoinPlan};
use super::plan::QueryPlan;
use crate::columns::expression::{Expr, Origin};
use crate::columns::row_ends::{RowEnd, Width};
use crate::columns::table::{Names, Table, column};
use crate::columns::time::{self, Bound, Unit};
use crate::{Error, Result};

/// An overlap join, which returns the pairs of rows whose intervals overlap. Each row has a start
/// and an end.
///
/// A pair `(l, r)` is in the result if all `by` columns are equal, `l.start <= r.end`, `r.start <=
/// l.end` and `predicate` holds. With [`Closed::Left`], intervals exclude their ends: comparisons
/// use `<` instead of `<=`, and an empty interval overlaps nothing. Without `open_ends`, a row whose
/// start or end is null also overlaps nothing.
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
///     open_ends: false,
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
    /// Each side's start and end columns, or SQL expressions over the side's columns.
    pub on: [(String, String); 2],
    /// [`Closed::Both`], or [`Closed::Left`] if intervals exclude their ends.
    pub closed: Closed,
    /// Whether a null start means that the interval has no start, and a null end that it has no end.
    pub open_ends: bool,
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

/// The start and the end of a side's rows.
#[derive(Debug)]
pub(crate) struct EndColumns {
    start: (Field, ReadColumn),
    end: (Field, ReadColumn),
    /// Whether nulls mean that intervals are open.
    pub(crate) are_open: bool,
}

impl EndColumns {
    fn new(table: &str, schema: &Schema, on: &(String, String), are_open: bool) -> Result<Self> {
        let names = Names::new(schema);
        let read = |name: &str| input(table, schema, &names, name, "on");
        // A null point in time does not count as an unbounded interval.
        let are_open = are_open && on.0 != on.1;
        Ok(EndColumns { start: read(&on.0)?, end: read(&on.1)?, are_open })
    }

    /// Returns the positions of the columns that contain the start and the end, unless one of them
    /// is computed.
    pub(crate) fn stored(&self) -> Option<(usize, usize)> {
        match (&self.start.1, &self.end.1) {
            (ReadColumn::Stored(start), ReadColumn::Stored(end)) => Some((*start, *end)),
            _ => None,
        }
    }

    /// Returns the names of the start and the end.
    pub(crate) fn names(&self) -> (&str, &str) {
        (self.start.0.name(), self.end.0.name())
    }

    /// Returns the columns of the table from which the start and the end are read.
    fn reads(&self) -> Vec<usize> {
        [&self.start.1, &self.end.1].into_iter().flat_map(ReadColumn::columns).copied().collect()
    }

    /// Returns a table whose two columns are the start and the end of each row.
    pub(crate) fn of(&self, table: &Table) -> Result<Table> {
        let fields = [&self.start.0, &self.end.0].map(|field| field.clone().with_nullable(true));
        let schema = Arc::new(Schema::new(fields.to_vec()));
        let every: Vec<usize> = (0..table.schema().fields().len()).collect();
        let both = |batch: &RecordBatch| {
            let read = [&self.start.1, &self.end.1].map(|column| column.values(batch, &every));
            let columns = read.into_iter().collect::<Result<Vec<_>>>()?;
            Ok(RecordBatch::try_new(schema.clone(), columns)?)
        };
        let batches = table.batches().iter().map(both).collect::<Result<_>>()?;
        Table::of_valid(table.name(), schema.clone(), batches)
    }
}

/// An overlap join whose names and types fit two schemas.
#[derive(Debug)]
pub(crate) struct OverlapPlan {
    /// The start and the end of each side's rows.
    pub(crate) columns: [EndColumns; 2],
    pub(crate) unit: Unit,
    /// The minimum number of time steps from the later start to the earlier end. This number is at
    /// least 1 if intervals exclude their ends.
    pub(crate) least: i64,
    pub(crate) join: JoinPlan,
}

/// The start and end columns of a side in a stream.
struct SpanColumns<'a> {
    side: Origin,
    /// The position of the start column.
    start: usize,
    /// The names of the start and the end.
    names: [&'a str; 2],
}

impl SpanColumns<'_> {
    /// Returns whether each row is a point in time.
    fn is_point(&self) -> bool {
        self.names[0] == self.names[1]
    }
}

/// Returns the maximum length of the rows on each side. Points need no maximum.
fn most_lengths(
    max_width: Option<[Bound; 2]>,
    are_points: [bool; 2],
    unit: Unit,
) -> Result<[i64; 2]> {
    let Some([left, right]) = max_width else {
        return match are_points {
            [true, true] => Ok([0; 2]),
            _ => Err(Error::argument(
                "max_width: a row can have any length, so rows would be kept forever; give the \
                 maximum length, such as max_width=\"1h\"",
            )),
        };
    };
    let most = |width, is_point| {
        let most = time::length("max_width", width, unit)?;
        Ok::<_, Error>(if is_point { 0 } else { most })
    };
    Ok([most(left, are_points[0])?, most(right, are_points[1])?])
}

/// The plan of an overlap join of streams. Rows are ordered by their starts.
#[derive(Debug)]
pub(crate) struct OverlapStreamPlan {
    /// The start column of each side.
    pub(crate) times: (usize, usize),
    pub(crate) unit: Unit,
    /// The interval that contains the distance from the left to the right start of every pair.
    pub(crate) interval: Interval,
    /// The maximum length of the rows on each side, unless they are points in time.
    pub(crate) widths: [Option<Width>; 2],
    /// The ends of the rows on each side.
    pub(crate) ends: [RowEnd; 2],
    pub(crate) join: JoinPlan,
    /// The text that determines the results.
    pub(crate) identity: Identity,
    /// The explanation lines that describe which pairs match.
    pub(crate) lines: Vec<String>,
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
        let of_left = EndColumns::new("left", left, &self.on[0], self.open_ends)?;
        let of_right = EndColumns::new("right", right, &self.on[1], self.open_ends)?;
        let unit = time::finest_unit(&[
            ("left", &of_left.start.0),
            ("left", &of_left.end.0),
            ("right", &of_right.start.0),
            ("right", &of_right.end.0),
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
        let [of_left, of_right] = &plan.columns;
        let query = query.reading([of_left.reads(), of_right.reads()]);
        let intervals = of_left.stored().zip(of_right.stored()).map(|(left, right)| [left, right]);
        Ok(QueryPlan { intervals, unit: Some(plan.unit), ..query })
    }

    /// Returns the plan for streams with these schemas. `max_width` is the maximum length of the
    /// rows on the left and on the right.
    pub(crate) fn stream_plan(
        &self,
        max_width: Option<[Bound; 2]>,
        left: &Schema,
        right: &Schema,
    ) -> Result<OverlapStreamPlan> {
        let plan = self.plan(left, right)?;
        let (unit, least) = (plan.unit, plan.least);
        if self.open_ends {
            return Err(Error::argument(
                "open_ends: a row without an end would be kept forever; leave it out, and replace \
                 nulls in the end columns before rows are pushed",
            ));
        }
        let [of_left, of_right] = self.columns_in_streams(left, right)?;
        let are_points = [of_left.is_point(), of_right.is_point()];
        let most = most_lengths(max_width, are_points, unit)?;
        let end = |of: &SpanColumns<'_>| {
            let column = Expr::Column(of.side, of.names[1].to_owned());
            RowEnd::of_rows(column, least, (left, right), unit)
        };
        let ends = [end(&of_left)?, end(&of_right)?];
        let mut lines = self.describe(&plan);
        if are_points != [true; 2] {
            lines.push(format!(
                "  width      left rows are at most {} {steps} long, and right rows at most {} \
                 {steps}; longer rows are set aside, like late rows",
                most[0],
                most[1],
                steps = unit.steps_name()
            ));
        }
        let identity = self.options.identity(
            "overlap_join",
            [left, right],
            &[("on", &self.on), ("closed", &self.closed), ("min_overlap", &self.min_overlap)],
        );
        let width = |of: &SpanColumns<'_>, side: usize| {
            let end = ends[side].clone();
            (!of.is_point()).then(|| Width::of_rows(end, most[side], of.names, unit))
        };
        Ok(OverlapStreamPlan {
            times: (of_left.start, of_right.start),
            unit,
            interval: Interval {
                lower: Some(least.saturating_sub(most[1]).min(0)),
                upper: Some(most[0].saturating_sub(least).max(0)),
                closed: Closed::Both,
            },
            widths: [width(&of_left, 0), width(&of_right, 1)],
            ends,
            identity: identity.line("max_width", format_args!("{most:?}")),
            join: plan.join,
            lines,
        })
    }

    /// Returns the start and end columns of streams with these schemas.
    fn columns_in_streams<'a>(
        &self,
        left: &'a Schema,
        right: &'a Schema,
    ) -> Result<[SpanColumns<'a>; 2]> {
        let columns = |side, name: &str, schema: &'a Schema, on: &(String, String)| {
            let (start, end) =
                (column(name, schema, &on.0, "on")?, column(name, schema, &on.1, "on")?);
            let names = [start, end].map(|at| schema.field(at).name().as_str());
            Ok::<_, Error>(SpanColumns { side, start, names })
        };
        Ok([
            columns(Origin::Left, "left", left, &self.on[0])?,
            columns(Origin::Right, "right", right, &self.on[1])?,
        ])
    }

    /// Returns the lines of an explanation that describe which pairs match.
    fn describe(&self, plan: &OverlapPlan) -> Vec<String> {
        let [left, right] = &self.on;
        let shown = |side: &str, name: &str| match is_plain(name) {
            true => format!("{side}.{name}"),
            false => format!("{side}: {name}"),
        };
        let than = if self.closed == Closed::Both { "<=" } else { "<" };
        let mut lines = vec![
            format!("overlap_join ({:?})", self.options.how).to_lowercase(),
            format!(
                "  overlap    {} {than} {} and {} {than} {}",
                shown("left", &left.0),
                shown("right", &right.1),
                shown("right", &right.0),
                shown("left", &left.1)
            ),
        ];
        if self.min_overlap.is_some() {
            lines.push(format!(
                "  common     at least {} {} from the later start to the earlier end",
                plan.least,
                plan.unit.steps_name()
            ));
        }
        if self.open_ends {
            lines.push("  open       a null start or end means that there is none".to_owned());
        }
        lines.push(self.options.describe_keys());
        lines.extend(self.options.describe_predicate());
        lines
    }

    /// Returns an explanation of the join of two tables, as shown to users.
    fn explain(&self, plan: &OverlapPlan) -> String {
        let mut lines = self.describe(plan);
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
