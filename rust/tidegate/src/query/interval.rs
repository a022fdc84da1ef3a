//! The interval join.

use arrow_schema::{Schema, SchemaRef};
use tidegate_operators::asof::{Nearness, Preference};
use tidegate_operators::rows::{Closed, Interval};

use super::identity::Identity;
use super::options::{JoinOptions, JoinPlan};
use super::overlap::{BY_START, OF_LISTS, OF_PAIRS};
use super::plan::{QueryPlan, Reach, distances};
use crate::columns::expression::{Origin, Predicate};
use crate::columns::row_ends::{End, RowEnd, RowEnds, Width};
use crate::columns::table::column;
use crate::columns::time::{self, Bound, Unit};
use crate::{Error, Result};

/// An interval join, which selects pairs of rows from two tables.
///
/// A pair `(l, r)` is in the result if all `by` columns are equal, `l.ts + lower <= r.ts <= l.ts +
/// upper` (`closed` specifies which ends are included) and `predicate` holds. Each end of the
/// interval is either a fixed distance or the value of an expression over one side's columns
/// ([`End`]).
///
/// This example matches each trade with the quotes of its symbol that are at most 2 older:
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
///     lower: Some(Bound::Steps(-2).into()),
///     upper: Some(Bound::Steps(0).into()),
///     closed: Closed::Both,
///     open_ends: false,
///     limit: None,
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
    /// The distance from the left time to the start of the interval; `None` for no bound.
    pub lower: Option<End>,
    /// The distance from the left time to the end of the interval; `None` for no bound.
    pub upper: Option<End>,
    /// The ends that belong to the interval.
    pub closed: Closed,
    /// Whether a computed end that is null means that the interval has no bound there. Otherwise, a
    /// row whose lower or upper end is null matches nothing.
    pub open_ends: bool,
    /// The pairs of each left row that are kept; `None` for all pairs.
    pub limit: Option<PairLimit>,
    /// The options that all joins have.
    pub options: JoinOptions,
}

/// The maximum number of pairs per left row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairLimit {
    /// The maximum number of pairs of each left row.
    pub most: u32,
    /// The pairs that are kept if there are more.
    pub preference: Preference,
}

impl PairLimit {
    /// Returns the rule that selects a left row's pairs.
    pub(crate) fn nearness(self) -> Nearness {
        Nearness { preference: self.preference, limit: self.most, exact: true }
    }

    /// Returns the line of an explanation that names the pairs that are kept.
    fn describe(self) -> String {
        let PairLimit { most, preference } = self;
        let (which, pairs) = match preference {
            Preference::First => ("first", "in time order"),
            Preference::Last => ("last", "in time order"),
            Preference::Nearest => ("nearest", "in time, the earlier one at a tie"),
        };
        format!("  limit      the {which} {most} of each left row's pairs {pairs}")
    }
}

/// An interval join whose names and types fit two schemas.
#[derive(Debug)]
pub(crate) struct IntervalPlan {
    pub(crate) times: (usize, usize),
    pub(crate) unit: Unit,
    pub(crate) ends: IntervalEnds,
    pub(crate) join: JoinPlan,
}

/// The ends of the left rows' intervals.
#[derive(Debug)]
pub(crate) enum IntervalEnds {
    /// Ends that are at the same distance from the left time for all rows.
    Fixed(Interval),
    /// Ends that vary from row to row.
    OfRows(Box<RowEnds>),
}

/// The algorithm shown in explanations if one end is computed from left columns and the other from
/// right columns.
const OF_MIXED_ENDS: &str = "lists of the right rows that are open at selected times; a row whose \
                             end is on the wrong side of its time is compared with more rows than \
                             it matches";

/// The bounds of a streaming interval join.
#[derive(Debug)]
pub(crate) struct IntervalBounds {
    /// The interval of time differences that covers all pairs.
    pub(crate) interval: Interval,
    /// For each side, the maximum distance between a computed end and its row's time.
    pub(crate) widths: [Option<Width>; 2],
    /// The maximum distance between a computed end and the time of its row on the left and on the
    /// right, if any ends are computed.
    max_width: Option<[i64; 2]>,
}

impl IntervalBounds {
    /// Returns the line of the explanation that describes which rows are set aside.
    pub(crate) fn describe(&self, unit: Unit) -> Option<String> {
        self.max_width.map(|[left, right]| {
            let steps = unit.steps_name();
            let most = match left == right {
                true => format!("{left} {steps} from the times of their rows"),
                false => format!(
                    "{left} {steps} from the times of left rows and {right} {steps} from those of \
                     right rows"
                ),
            };
            format!(
                "  width      ends are at most {most}; other rows are set aside, like late rows"
            )
        })
    }
}

impl IntervalPlan {
    /// Returns the range of time differences between matching rows. Ends that vary from row to row
    /// do not limit this range.
    fn reach(&self) -> Reach {
        match self.ends {
            IntervalEnds::Fixed(interval) => Reach::of_interval(self.times, interval),
            IntervalEnds::OfRows(_) => Reach { columns: self.times, lower: None, upper: None },
        }
    }
}

impl IntervalJoin {
    /// Returns the pairs of left and right columns that are compared.
    pub fn pairs(&self) -> Vec<(String, String)> {
        std::iter::once(&self.on).chain(&self.options.by).cloned().collect()
    }

    pub(crate) fn plan(&self, left: &Schema, right: &Schema) -> Result<IntervalPlan> {
        let times =
            (column("left", left, &self.on.0, "on")?, column("right", right, &self.on.1, "on")?);
        let unit = time::common_unit(left.field(times.0), right.field(times.1))?;
        let ends = self.ends((left, right), times, unit)?;
        self.check_limit(&ends)?;
        Ok(IntervalPlan { times, unit, ends, join: self.options.plan(left, right)? })
    }

    /// Rejects a limit on the pairs of a join that returns no pairs, or that does not find them in
    /// time order.
    fn check_limit(&self, ends: &IntervalEnds) -> Result<()> {
        if self.limit.is_none() {
            return Ok(());
        }
        if !self.options.how.pairs() {
            return Err(Error::argument(format!(
                "limit: a join with how=`{}` returns no pairs; leave limit out",
                format!("{:?}", self.options.how).to_lowercase()
            )));
        }
        match ends {
            IntervalEnds::OfRows(ends) if ends.reads(Origin::Right) => Err(Error::argument(
                "limit: an end of the interval is computed from right columns, so the pairs of a \
                 left row are not adjacent in time; give bounds that contain all pairs, and write \
                 the computed end as a condition in where",
            )),
            _ => Ok(()),
        }
    }

    fn ends(
        &self,
        schemas: (&Schema, &Schema),
        times: (usize, usize),
        unit: Unit,
    ) -> Result<IntervalEnds> {
        let fixed = |end: &Option<End>| match end {
            None => Some(None),
            Some(End::Fixed(bound)) => Some(Some(*bound)),
            Some(End::Computed(_)) => None,
        };
        if let (Some(lower), Some(upper)) = (fixed(&self.lower), fixed(&self.upper)) {
            if self.open_ends {
                return Err(Error::argument(
                    "open_ends: lower and upper are the same for all rows, so they are never null; \
                     leave open_ends out, or give None for no bound",
                ));
            }
            return Ok(IntervalEnds::Fixed(time::interval(lower, upper, self.closed, unit)?));
        }
        let end = |name, end: &Option<End>, is_open| {
            end.as_ref()
                .map(|end| RowEnd::bind(name, end, is_open, schemas, times, unit))
                .transpose()
        };
        let is_open_below = matches!(self.closed, Closed::Right | Closed::Neither);
        let is_open_above = matches!(self.closed, Closed::Left | Closed::Neither);
        Ok(IntervalEnds::OfRows(Box::new(RowEnds {
            lower: end("lower", &self.lower, is_open_below)?,
            upper: end("upper", &self.upper, is_open_above)?,
            are_open: self.open_ends,
        })))
    }

    /// Returns whether the lower end and the upper end vary from row to row.
    pub fn row_ends(&self) -> [bool; 2] {
        [&self.lower, &self.upper].map(|end| matches!(end, Some(End::Computed(_))))
    }

    /// Returns whether an end varies from row to row.
    pub(crate) fn has_row_ends(&self) -> bool {
        self.row_ends().contains(&true)
    }

    /// Returns the interval that covers all pairs of streaming rows, given the maximum distance
    /// between an end and its row's time on the left and on the right.
    pub(crate) fn bounded(
        &self,
        plan: &IntervalPlan,
        max_width: Option<[Bound; 2]>,
    ) -> Result<IntervalBounds> {
        if self.limit.is_some() {
            return Err(Error::argument(
                "limit: a join of streams returns each pair as soon as both rows have arrived, \
                 before all pairs of a left row are known; write aggs such as \
                 {\"prices\": tidegate.agg.first(\"price\", 3)}, or call interval_join on tables",
            ));
        }
        match (&plan.ends, max_width) {
            (IntervalEnds::OfRows(ends), _) if ends.are_open => Err(Error::argument(
                "open_ends: a row without an end would be kept forever; leave it out, and replace \
                 nulls in the bound, as in tidegate.left.end.coalesce(...)",
            )),
            (IntervalEnds::Fixed(interval), None) => {
                Ok(IntervalBounds { interval: *interval, widths: [None, None], max_width: None })
            }
            (IntervalEnds::Fixed(_), Some(_)) => Err(Error::argument(
                "max_width: it limits ends that are computed from columns, but here lower and \
                 upper are the same for all rows; leave it out",
            )),
            (IntervalEnds::OfRows(_), None) => Err(Error::argument(
                "max_width: an end that is computed from columns can be any distance away, so \
                 rows would be kept forever; give the maximum, such as max_width=\"1h\"",
            )),
            (IntervalEnds::OfRows(ends), Some([left, right])) => {
                let most = |width| time::length("max_width", width, plan.unit);
                let (left, right) = (most(left)?, most(right)?);
                Ok(IntervalBounds {
                    interval: ends.within([left, right]),
                    widths: [ends.width(Origin::Left, left), ends.width(Origin::Right, right)],
                    max_width: Some([left, right]),
                })
            }
        }
    }

    /// Returns the condition that each pair in the covering interval must satisfy, or `None` if
    /// every pair in that interval is a result.
    pub(crate) fn condition_within(
        &self,
        plan: &IntervalPlan,
        left: &Schema,
        right: &Schema,
    ) -> Result<Option<Predicate>> {
        match &plan.ends {
            IntervalEnds::Fixed(_) => Ok(plan.join.predicate.clone()),
            IntervalEnds::OfRows(ends) => {
                let ends = ends.conditions((&self.on.0, &self.on.1), plan.unit);
                let condition = self.options.predicate.as_ref();
                Predicate::bind_with_ends(&ends, condition, left, right).map(Some)
            }
        }
    }

    /// The schema of the result.
    pub fn schema(&self, left: &Schema, right: &Schema) -> Result<SchemaRef> {
        Ok(self.plan(left, right)?.join.schema)
    }

    /// Returns the plan for joining two tables with these schemas.
    pub fn query_plan(&self, left: &Schema, right: &Schema) -> Result<QueryPlan> {
        Ok(self.query_plan_of(&self.plan(left, right)?))
    }

    /// Returns the plan for joining two tables, given the plan of the join.
    pub(crate) fn query_plan_of(&self, plan: &IntervalPlan) -> QueryPlan {
        let explanation = self.explain(plan);
        let reach = Some(plan.reach());
        let unit = Some(plan.unit);
        let query =
            QueryPlan { unit, ..QueryPlan::new(explanation, &plan.join, Vec::new(), reach) };
        match &plan.ends {
            IntervalEnds::Fixed(interval) => QueryPlan { distances: distances(*interval), ..query },
            IntervalEnds::OfRows(ends) => query.with_row_ends(ends),
        }
    }

    /// Returns the text that determines the results.
    fn identity(&self, left: &Schema, right: &Schema) -> Identity {
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

    /// Does the same as [`identity`](Self::identity) for streaming rows.
    pub(crate) fn stream_identity(
        &self,
        bounded: &IntervalBounds,
        left: &Schema,
        right: &Schema,
    ) -> Identity {
        let identity = self.identity(left, right);
        match bounded.max_width {
            None => identity,
            Some([left, right]) if left == right => identity.line("max_width", left),
            Some(most) => identity.line("max_width", format_args!("{most:?}")),
        }
    }

    /// Returns an explanation of the join of two tables, as shown to users.
    fn explain(&self, plan: &IntervalPlan) -> String {
        let mut lines = self.describe(plan);
        let of_right = match &plan.ends {
            IntervalEnds::Fixed(_) => None,
            IntervalEnds::OfRows(ends) => Some(ends.reads(Origin::Right)),
        };
        let reads_both = match &plan.ends {
            IntervalEnds::Fixed(_) => false,
            IntervalEnds::OfRows(ends) => ends.reads(Origin::Left) && ends.reads(Origin::Right),
        };
        if of_right != Some(true) {
            lines.extend(plan.join.describe_scan());
        }
        let (algorithm, index, memory) = match of_right {
            None => (
                "group and sweep: the only batch algorithm; O(n + results) for rows in time order",
                plan.join.describe_index(),
                "12 bytes per left row and 8 per right row in time order, otherwise up to 60 per \
                 row, up to 24 per row where partners are far apart",
            ),
            Some(false) => (
                "group and sweep, with an interval for each left row; O(n log m + results) for rows in time order",
                plan.join.describe_index(),
                "28 bytes per left row and 8 per right row in time order, otherwise up to 76 per \
                 row, up to 24 per row where partners are far apart",
            ),
            Some(true) if reads_both => (OF_MIXED_ENDS, BY_START.to_owned(), ""),
            Some(true) => (OF_LISTS, BY_START.to_owned(), ""),
        };
        let memory = match of_right {
            Some(true) => format!("up to 126 bytes per row{OF_PAIRS}"),
            _ => memory.to_owned(),
        };
        lines.extend([
            format!("  algorithm  {algorithm}"),
            index,
            format!("  threads    {}", self.options.threads),
            format!("  memory     inputs + {memory}, + result"),
            format!(
                "  output     {} columns, in left row order, then right row order",
                plan.join.schema.fields().len()
            ),
        ]);
        lines.join("\n")
    }

    /// Returns the lines of an explanation that describe which pairs match.
    pub(crate) fn describe(&self, plan: &IntervalPlan) -> Vec<String> {
        let (lower, upper, closed) = match &plan.ends {
            IntervalEnds::Fixed(Interval { lower, upper, closed }) => {
                let text = |end: &Option<i64>| end.map(|end| end.to_string());
                (text(lower), text(upper), *closed)
            }
            IntervalEnds::OfRows(ends) => {
                let text = |end: &Option<RowEnd>| end.as_ref().map(|end| end.show(&self.on.0));
                (text(&ends.lower), text(&ends.upper), self.closed)
            }
        };
        let name = |end: &Option<String>, sign: &str| end.clone().unwrap_or(format!("{sign}inf"));
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
                name(&lower, "-"),
                name(&upper, "+"),
                plan.unit.name()
            ),
            self.options.describe_keys(),
        ];
        lines.extend(self.options.describe_predicate());
        lines.extend(self.limit.map(PairLimit::describe));
        lines
    }
}
