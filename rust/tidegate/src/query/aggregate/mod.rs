//! Queries for aggregates over sliding windows.

pub(crate) mod fill;
pub(crate) mod group_key;
pub(crate) mod inputs;
pub(crate) mod listed;
pub(crate) mod plan;
pub(crate) mod row_counts;
pub(crate) mod session_gaps;
pub(crate) mod udf;
pub(crate) mod user;
pub(crate) mod value_types;
pub(crate) mod windows;

use arrow_schema::{Field, Schema, SchemaRef};
pub use tidegate_operators::aggregate::{
    Interpolation, Quantile, RowOrder, STATE_WORDS, UserFunction,
};
use tidegate_operators::rows::Closed;

use super::identity::Identity;
use super::plan::AggregationPlan;
use crate::columns::expression::Expr;
use crate::columns::table::column;
use crate::columns::time::Bound;
use crate::{Error, Result, shown};
pub use fill::{EmptyWindows, Fill, Fills, GivenTime};
pub use group_key::GroupKey;
pub use listed::WindowTable;
use plan::AggregatePlan;
pub use row_counts::RowCounts;
pub use udf::Udf;
pub use user::{UserDefined, UserResult};
pub use windows::{SlidingArguments, Weekday, Windows};

/// An aggregation: its windows, keys and values. For each window, the result has one row for each
/// key that occurs in the window.
///
/// This example counts how often each sensor was read in windows of length 10:
///
/// ```
/// # use std::sync::Arc;
/// #
/// # use arrow_array::cast::AsArray;
/// # use arrow_array::types::Int64Type;
/// # use arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// use tidegate::query::aggregate::{Aggregate, Aggregation, Function, Windows};
/// use tidegate::{Bound, Driver, Stop, Table};
///
/// let column = |values: &[i64]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
/// let columns = [("ts", column(&[1, 4, 8, 12])), ("sensor", column(&[7, 5, 7, 7]))];
/// let rows = RecordBatch::try_from_iter(columns)?;
/// let (name, function) = ("reads".to_owned(), Function::Count);
/// let query = Aggregation {
///     on: "ts".to_owned(),
///     windows: Windows::of_lengths(Bound::Steps(10), Bound::Steps(10)),
///     empty: None,
///     by: vec!["sensor".into()],
///     aggregates: vec![Aggregate { name, function, columns: Vec::new(), predicate: None, interval: None }],
///     predicate: None,
///     algorithm: None,
///     threads: 1,
///     max_rows: None,
/// };
/// let table = Table::new("reads", rows.schema(), vec![rows], &Driver::new(1, Stop::default()))?;
/// let found = query.run(vec![table], Stop::default())?;
/// let numbers = |name: &str| found[0][name].as_primitive::<Int64Type>().values().to_vec();
/// assert_eq!(numbers("window_start"), [0, 0, 10]);
/// assert_eq!(numbers("sensor"), [5, 7, 7]);
/// assert_eq!(numbers("reads"), [1, 2, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Aggregation {
    /// The time column.
    pub on: String,
    /// The kind of windows.
    pub windows: Windows,
    /// Whether the result also contains windows without rows.
    pub empty: Option<EmptyWindows>,
    /// The keys.
    pub by: Vec<GroupKey>,
    /// The columns to compute.
    pub aggregates: Vec<Aggregate>,
    /// The condition that selects rows.
    pub predicate: Option<Expr>,
    /// The design that turns rows into slice states. `None` means the fastest design. Sessions have
    /// no slices.
    pub algorithm: Option<Design>,
    /// The number of threads.
    pub threads: usize,
    /// The maximum number of rows in the result.
    pub max_rows: Option<u64>,
}

/// A design that turns rows into slice states. All designs return the same results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Design {
    /// Each source has separate states, and functions are processed one at a time.
    #[default]
    Slices,
    /// Each source has a locked queue. One thread merges the rows and updates the states.
    MultiQueue,
    /// Like `MultiQueue`, but with lock-free queues.
    LockFreeMultiQueue,
    /// A gate merges the rows. One thread updates the states.
    MergedSingleConsumer,
    /// A gate merges the rows. Several threads update the states, each for a subset of the keys.
    MergedMultipleConsumer,
    /// Each source updates the states itself, without merging.
    WindowMerged,
}

/// A column of the result.
#[derive(Clone, Debug)]
pub struct Aggregate {
    /// The name of the column.
    pub name: String,
    /// The function to compute.
    pub function: Function,
    /// The columns that the function reads. A count reads at most one column, functions of two
    /// columns read two, a [`Udf`] reads any number, and all others read one.
    pub columns: Vec<String>,
    /// The condition that selects the rows to aggregate.
    pub predicate: Option<Expr>,
    /// The interval of this function, if it differs from the interval of the join that finds the
    /// rows.
    pub interval: Option<OwnInterval>,
}

/// The interval of one function in an interval join. Settings that are `None` are
/// inherited from the join.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OwnInterval {
    /// The distance from the left time to the start of the interval; `Some(None)` for no bound.
    pub lower: Option<Option<Bound>>,
    /// The distance from the left time to the end of the interval; `Some(None)` for no bound.
    pub upper: Option<Option<Bound>>,
    /// Which ends the interval includes.
    pub closed: Option<Closed>,
    /// Whether the last right row with the same key before the interval is also a partner.
    pub with_prevailing: Option<bool>,
}

/// The information that a function reads from the rows to aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// The presence of a value.
    Presence,
    /// The row itself, regardless of its values. The function chooses one row, or all rows.
    Rows,
    /// The value's position in sorted order. The function chooses one value.
    Order,
    /// The value's position in sorted order. Equal floats count as one value.
    Distinct,
    /// An integer or a float to be summed.
    Sums,
    /// An integer.
    Integers,
    /// A float.
    Floats,
}

/// A function of the rows in a window. Nulls are included only if the function chooses or lists
/// rows.
#[derive(Clone, Debug)]
pub enum Function {
    /// The number of rows, or the number of values in a column.
    Count,
    /// The sum of the values.
    Sum,
    /// The mean of the values.
    Mean,
    /// The smallest value.
    Min,
    /// The largest value.
    Max,
    /// The first value in order of time, source and position.
    First,
    /// The last value in order of time, source and position.
    Last,
    /// A list of the first values, up to this number.
    FirstRows(u32),
    /// A list of the last values, up to this number.
    LastRows(u32),
    /// A list of the values of one column in the rows where another column is largest, up to this
    /// number.
    Top(u32),
    /// The sample variance.
    Var,
    /// The sample standard deviation.
    Std,
    /// The mean of the values, weighted by another column.
    WeightedMean,
    /// The mean of the values, weighted by the time for which each value holds.
    TimeWeightedMean,
    /// The mean of the values, weighted by age. Weights halve in this time.
    EwmMean(Bound),
    /// The product of the values.
    Product,
    /// True if any value is true.
    Any,
    /// True if no value is false.
    All,
    /// The value of one column in the row where another column is smallest.
    ArgMin,
    /// The value of one column in the row where another column is largest.
    ArgMax,
    /// The sample covariance of two columns.
    Covar,
    /// The correlation of two columns.
    Corr,
    /// The median, which is the mean of the two middle values for an even count.
    Median,
    /// A quantile: the value that is not exceeded by a given share of the values.
    Quantile(Quantile),
    /// The number of distinct values.
    CountDistinct,
    /// A list of all values.
    Collect,
    /// A user-defined function with states that can be combined.
    User(UserDefined),
    /// A user-defined function of all values.
    Udf(Udf),
}

impl Function {
    /// All functions except user-defined functions and those with parameters.
    pub const ALL: [Function; 21] = [
        Function::Count,
        Function::Sum,
        Function::Mean,
        Function::Min,
        Function::Max,
        Function::First,
        Function::Last,
        Function::Var,
        Function::Std,
        Function::WeightedMean,
        Function::TimeWeightedMean,
        Function::Product,
        Function::Any,
        Function::All,
        Function::ArgMin,
        Function::ArgMax,
        Function::Covar,
        Function::Corr,
        Function::Median,
        Function::CountDistinct,
        Function::Collect,
    ];

    /// Returns the name by which callers refer to the function.
    pub fn name(&self) -> &'static str {
        match self {
            Function::Count => "count",
            Function::Sum => "sum",
            Function::Mean => "mean",
            Function::Min => "min",
            Function::Max => "max",
            Function::First | Function::FirstRows(_) => "first",
            Function::Last | Function::LastRows(_) => "last",
            Function::Top(_) => "top",
            Function::Var => "var",
            Function::Std => "std",
            Function::WeightedMean => "weighted_mean",
            Function::TimeWeightedMean => "time_weighted_mean",
            Function::EwmMean(_) => "ewm_mean",
            Function::Product => "product",
            Function::Any => "any",
            Function::All => "all",
            Function::ArgMin => "arg_min",
            Function::ArgMax => "arg_max",
            Function::Covar => "covar",
            Function::Corr => "corr",
            Function::Median => "median",
            Function::Quantile(_) => "quantile",
            Function::CountDistinct => "count_distinct",
            Function::Collect => "collect",
            Function::User(function) => function.name,
            Function::Udf(_) => "udf",
        }
    }

    /// Returns the information that the function reads from the rows to aggregate.
    pub(crate) fn takes(&self) -> Takes {
        match self {
            Function::Count => Takes::Presence,
            Function::First
            | Function::Last
            | Function::FirstRows(_)
            | Function::LastRows(_)
            | Function::Collect
            | Function::Udf(_) => Takes::Rows,
            Function::CountDistinct => Takes::Distinct,
            Function::Min
            | Function::Max
            | Function::Any
            | Function::All
            | Function::ArgMin
            | Function::ArgMax
            | Function::Top(_) => Takes::Order,
            Function::Sum | Function::Mean => Takes::Sums,
            Function::Var
            | Function::Std
            | Function::WeightedMean
            | Function::TimeWeightedMean
            | Function::EwmMean(_)
            | Function::Product
            | Function::Covar
            | Function::Corr
            | Function::Median
            | Function::Quantile(_) => Takes::Floats,
            Function::User(function) => function.takes(),
        }
    }

    /// Returns whether the function reads two columns.
    pub(crate) fn is_of_two(&self) -> bool {
        use Function::{ArgMax, ArgMin, Corr, Covar, Top, WeightedMean};
        matches!(self, WeightedMean | ArgMin | ArgMax | Covar | Corr | Top(_))
    }

    /// Returns whether the function needs all values of a window together.
    pub(crate) fn is_of_all_values(&self) -> bool {
        self.lists_rows()
            || matches!(self, Function::Median | Function::Quantile(_) | Function::CountDistinct)
    }

    /// Returns whether the function returns lists of row values.
    pub(crate) fn lists_rows(&self) -> bool {
        use Function::{Collect, FirstRows, LastRows, Top, Udf};
        matches!(self, FirstRows(_) | LastRows(_) | Top(_) | Collect | Udf(_))
    }

    /// Returns whether the weights of values depend on the times of their rows.
    pub(crate) fn is_timed(&self) -> bool {
        matches!(self, Function::TimeWeightedMean | Function::EwmMean(_))
    }
}

impl Aggregation {
    /// The schema of the result.
    pub fn schema(&self, schemas: &[SchemaRef]) -> Result<SchemaRef> {
        Ok(AggregatePlan::new(self, &named(schemas))?.schema)
    }

    /// Returns a description of everything that affects a streaming aggregation's results.
    pub(crate) fn identity(&self, schema: &Schema, plan: &AggregatePlan) -> Identity {
        let Aggregation { on, by, aggregates, predicate, .. } = self;
        let identity = Identity::of("aggregate")
            .columns("stream", schema)
            .line("on", format_args!("{on:?}"))
            .line("windows", &plan.described.identity)
            .line("by", format_args!("{by:?}"));
        let identity = match &self.empty {
            Some(EmptyWindows { fills, keep, start, end }) => {
                // Snapshots of older versions have an identity without a start and an end.
                let empty = format!("EmptyWindows {{ fills: {fills:?}, keep: {keep:?} }}");
                let identity = identity.line("empty", empty);
                match (start, end) {
                    (None, None) => identity,
                    bounds => identity.line("grid", format_args!("{bounds:?}")),
                }
            }
            None => identity,
        };
        let predicate = predicate.as_ref().map(ToString::to_string);
        aggregates
            .iter()
            .fold(identity, with_aggregate)
            .line("where", format_args!("{predicate:?}"))
    }

    /// Returns advice to the caller if the windows may differ from what the caller expects.
    pub fn advice(&self, schemas: &[SchemaRef]) -> Result<Option<String>> {
        let Windows::Sliding(sliding) = &self.windows else { return Ok(None) };
        let named = named(schemas);
        let field = |(name, schema): &(String, &'_ Schema)| column(name, schema, &self.on, "on");
        let places = named.iter().map(field).collect::<Result<Vec<usize>>>()?;
        let fields: Vec<&Field> =
            schemas.iter().zip(places).map(|(schema, at)| schema.field(at)).collect();
        Ok(sliding.advice(&fields))
    }

    /// Returns the plan for aggregating tables with these schemas.
    pub fn query_plan(&self, schemas: &[SchemaRef]) -> Result<AggregationPlan> {
        let plan = AggregatePlan::new(self, &named(schemas))?;
        Ok(AggregationPlan {
            explanation: plan.explain(self, schemas.len()),
            schema: plan.schema.clone(),
            reads: plan.tables.iter().map(|table| table.every()).collect(),
            windows: plan.result_windows(),
            calendar: plan.described.calendar.is_some().then_some(plan.described.identity),
            zone: plan.described.zone,
            gap_column: plan.span.gap_column().map(|gap| gap.name().to_owned()),
            advice: self.advice(schemas)?,
        })
    }
}

/// Returns the text with an additional line that describes an aggregate.
pub(crate) fn with_aggregate(identity: Identity, aggregate: &Aggregate) -> Identity {
    let Aggregate { name, function, columns, predicate, interval } = aggregate;
    let column = columns.first();
    let others: String = columns.iter().skip(1).map(|name| format!(" {name:?}")).collect();
    let condition = predicate.as_ref().map(ToString::to_string);
    let whose = if matches!(function, Function::User(_)) { "user's " } else { "" };
    let parameters = match function {
        Function::Quantile(quantile) => format!(" {quantile:?}"),
        Function::Udf(udf) => format!(" {}", udf.returns),
        Function::FirstRows(most) | Function::LastRows(most) | Function::Top(most) => {
            format!(" {most}")
        }
        Function::EwmMean(half_life) => format!(" {half_life:?}"),
        _ => String::new(),
    };
    let function = function.name();
    let identity = identity.line(
        "agg",
        format_args!("{name:?} {whose}{function}{parameters} {column:?}{others} {condition:?}"),
    );
    match interval {
        None => identity,
        Some(interval) => identity.line("interval", format_args!("{interval:?}")),
    }
}

/// Returns the error for a function with its own interval in a call that has no intervals.
pub(crate) fn own_interval_refused(one: &Aggregate) -> Error {
    Error::argument(format!(
        "aggs: `{}`: only functions in interval_join have their own interval; leave lower, upper, \
         closed and prevailing out of the function, or write interval_join",
        shown(&one.name)
    ))
}

/// Returns the names by which messages refer to the streams: `stream`, or `streams[2]`.
pub fn stream_names(count: usize) -> Vec<String> {
    match count {
        1 => vec!["stream".to_owned()],
        _ => (0..count).map(|at| format!("streams[{at}]")).collect(),
    }
}

fn named(schemas: &[SchemaRef]) -> Vec<(String, &Schema)> {
    stream_names(schemas.len()).into_iter().zip(schemas.iter().map(|schema| &**schema)).collect()
}
