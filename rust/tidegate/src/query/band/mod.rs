//! The band join.

mod algorithm;

use std::fmt::Debug;

use arrow_schema::{Schema, SchemaRef};
use tidegate_operators::rows::How;

pub(crate) use self::algorithm::AnyIndexJoin;
pub use self::algorithm::BandAlgorithm;
use super::identity::Identity;
use super::options::{JoinOptions, JoinPlan};
use super::plan::{QueryPlan, Reach};
use super::window::{Window, WindowPlan};
use crate::columns::codes::ColumnPlan;
use crate::columns::distance::Within;
use crate::{Error, Result};

/// If left rows have more candidates than this on average, rows are inserted into an index so that
/// only rows within a window are compared. Measurements show that checking this many candidates
/// takes as long as using the index.
pub(crate) const MOST_CANDIDATES: f64 = 1024.0;

/// A band join, which selects pairs of rows from two tables.
///
/// A pair `(l, r)` is in the result if `l.x - below <= r.x <= l.x + above` for each column in `on`,
/// all `by` columns are equal and `predicate` holds.
///
/// This example matches each order with the offers that cost at most 1 less or 2 more:
///
/// ```
/// # use std::sync::Arc;
/// #
/// # use arrow_array::cast::AsArray;
/// # use arrow_array::types::Int64Type;
/// # use arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// use tidegate::{
///     BandAlgorithm, BandJoin, Distance, Driver, How, JoinOptions, Stop, Table, Within,
/// };
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
/// let orders = table("orders", &[("price", &[100, 200])])?;
/// let offers = table("offers", &[("price", &[98, 99, 102, 203])])?;
/// let join = BandJoin {
///     on: vec![("price".to_owned(), "price".to_owned())],
///     within: vec![Within { below: Some(Distance::Whole(1)), above: Some(Distance::Whole(2)) }],
///     sliding: None,
///     algorithm: BandAlgorithm::Auto,
///     options, // of an inner join
/// };
/// let pairs = join.start(&orders, &offers, Stop::default())?.read_all()?;
/// assert_eq!(pairs[0]["price"].as_primitive::<Int64Type>().values(), &[100, 100]);
/// assert_eq!(pairs[0]["price_right"].as_primitive::<Int64Type>().values(), &[99, 102]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct BandJoin {
    /// The band columns of both sides.
    pub on: Vec<(String, String)>,
    /// The maximum distance between the two sides' values in each band column.
    pub within: Vec<Within>,
    /// The windows in which rows are matched; `None` to match entire tables.
    pub sliding: Option<Sliding>,
    /// The algorithm that finds pairs.
    pub algorithm: BandAlgorithm,
    /// The options that all joins have.
    pub options: JoinOptions,
}

/// The windows of a band join.
#[derive(Clone, Debug)]
pub struct Sliding {
    /// The time column of each side.
    pub time: (String, String),
    /// The window of each side.
    pub window: (Window, Window),
}

/// A band join whose names and types fit two schemas.
#[derive(Debug)]
pub(crate) struct BandPlan {
    pub(crate) columns: Vec<ColumnPlan>,
    pub(crate) windows: Option<WindowPlan>,
    pub(crate) join: JoinPlan,
}

impl BandJoin {
    /// Returns the pairs of left and right columns that are compared.
    pub fn pairs(&self) -> Vec<(String, String)> {
        let times = self.sliding.iter().map(|sliding| &sliding.time);
        self.on.iter().chain(times).chain(&self.options.by).cloned().collect()
    }

    pub(crate) fn plan(&self, left: &Schema, right: &Schema) -> Result<BandPlan> {
        let (columns, widths) = (self.on.len(), self.within.len());
        if columns == 0 {
            return Err(Error::argument("on is empty; a band join needs at least one column"));
        }
        if columns != widths {
            return Err(Error::argument(format!(
                "within has {widths} entries, but on names {columns} columns"
            )));
        }
        let columns = self.on.iter().zip(&self.within);
        let columns = columns.map(|(names, within)| ColumnPlan::new(names, *within, left, right));
        let columns = columns.collect::<Result<_>>()?;
        let windows = self.sliding.as_ref().map(|Sliding { time, window }| {
            // Only this join uses this name, because the usual name refers to its band columns.
            WindowPlan::new("time", time, *window, left, right)
        });
        Ok(BandPlan {
            columns,
            windows: windows.transpose()?,
            join: self.options.plan(left, right)?,
        })
    }

    /// Rejects options that have no meaning when a stream is joined with itself.
    pub(crate) fn check_of_one_stream(&self) -> Result<()> {
        let refused = |why: &str| {
            Err(Error::argument(format!(
                "{why}, because the rows of one stream are joined with each other"
            )))
        };
        if self.options.how != How::Inner {
            return refused("how: expected inner");
        }
        let time =
            self.sliding.as_ref().map(|sliding| ("time", std::slice::from_ref(&sliding.time)));
        let names = [("on", &self.on[..]), ("by", &self.options.by[..])].into_iter().chain(time);
        for (argument, pairs) in names {
            if let Some((left, right)) = pairs.iter().find(|(left, right)| left != right) {
                return refused(&format!(
                    "{argument}: expected one name for both rows of a pair, got `{left}` and `{right}`"
                ));
            }
        }
        match &self.sliding {
            Some(Sliding { window: (left, right), .. }) if left != right => {
                refused("window: expected one window, got two")
            }
            _ => Ok(()),
        }
    }

    /// Returns the lines of an explanation that describe which pairs match.
    pub(crate) fn describe(&self, plan: &BandPlan, of_one_stream: bool) -> Vec<String> {
        let mut lines = vec![format!("band_join ({:?})", self.options.how).to_lowercase()];
        if of_one_stream {
            lines.push("  sides      a row and an earlier row of the same stream".to_owned());
        }
        lines.extend(plan.columns.iter().map(|column| format!("  band       {column}")));
        if let (Some(windows), Some(sliding)) = (&plan.windows, &self.sliding) {
            lines.extend(windows.describe(&sliding.time));
        }
        lines.push(self.options.describe_keys());
        lines.extend(self.options.describe_predicate());
        lines
    }

    /// The schema of the result.
    pub fn schema(&self, left: &Schema, right: &Schema) -> Result<SchemaRef> {
        Ok(self.plan(left, right)?.join.schema)
    }

    /// Returns the plan for joining two tables with these schemas.
    pub fn query_plan(&self, left: &Schema, right: &Schema) -> Result<QueryPlan> {
        let plan = self.plan(left, right)?;
        Ok(QueryPlan::new(
            self.explain(&plan),
            &plan.join,
            plan.columns.iter().map(Reach::of_band).collect(),
            plan.windows.as_ref().map(WindowPlan::reach),
        ))
    }

    /// Returns the text that identifies the results of a stream join.
    pub(crate) fn identity(&self, sliding: &Sliding, left: &Schema, right: &Schema) -> Identity {
        let Sliding { time, window } = sliding;
        let relation: [(&str, &dyn Debug); 4] =
            [("on", &self.on), ("within", &self.within), ("time", time), ("window", window)];
        self.options.identity("band_join", [left, right], &relation)
    }

    /// Returns an explanation of the join of two tables, as shown to users.
    fn explain(&self, plan: &BandPlan) -> String {
        let mut lines = self.describe(plan, false);
        let sorted = match &plan.columns[..] {
            [column] if plan.windows.is_none() => {
                format!("right rows grouped by key, in the order of {}", column.right_name())
            }
            _ => {
                "right rows grouped by key, in the order of the column or the window that leaves the fewest pairs of a \
                 sample; the others are checked pair by pair"
                    .to_owned()
            }
        };
        let (algorithm, index) = match self.algorithm {
            BandAlgorithm::Sort | BandAlgorithm::Auto => {
                let sort = "sort and sweep; O(n log n + pairs in the band of the indexed column)";
                let choice = match (self.algorithm, &plan.windows) {
                    (BandAlgorithm::Auto, Some(_)) => format!(
                        "; buckets instead, if a sample shows that this leaves more than \
                         {MOST_CANDIDATES} pairs to check per left row"
                    ),
                    (BandAlgorithm::Auto, None) => {
                        "; no index, since without windows rows are never removed from it"
                            .to_owned()
                    }
                    _ => String::new(),
                };
                (format!("{sort}{choice}"), sorted)
            }
            algorithm => {
                let (kind, settings) = (algorithm.index(), algorithm.settings());
                (algorithm.to_string(), format!("{kind} per side{settings}, as requested"))
            }
        };
        lines.extend([
            format!("  algorithm  {algorithm}"),
            format!("  index      {index}"),
            format!("  threads    {}", self.options.threads),
            format!(
                "  memory     inputs + up to 60 bytes per row{}, + result",
                if plan.columns.len() > 1 || plan.windows.is_some() {
                    " and 32 per row for each further band column and the window"
                } else {
                    ""
                }
            ),
            format!(
                "  output     {} columns, in left row order, then right row order",
                plan.join.schema.fields().len()
            ),
        ]);
        lines.join("\n")
    }
}
