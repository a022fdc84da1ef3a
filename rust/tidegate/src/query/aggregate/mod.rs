//! Aggregates over sliding windows, as they are asked for.

pub(crate) mod plan;
pub(crate) mod user;

use arrow_schema::{Schema, SchemaRef};
pub use tidegate_operators::aggregate::{RowOrder, STATE_WORDS, UserFunction};

use super::identity::Identity;
use super::plan::AggregationPlan;
use crate::Result;
use crate::columns::expression::Expr;
use crate::columns::time::Bound;
use plan::AggregatePlan;
pub use user::{UserDefined, UserResult};

/// Windows of time.
#[derive(Clone, Debug)]
pub enum Windows {
    /// `[k * advance + offset, k * advance + offset + size)` for every integer k.
    Sliding {
        /// How long a window is.
        size: Bound,
        /// How much later the next window begins; `None` for the size.
        advance: Option<Bound>,
        /// Where windows begin, counted from the epoch.
        offset: Bound,
    },
    /// Of each key, from a row up to this time after the last row that falls in the window.
    Session(Bound),
}

/// An aggregation: which windows, which keys, which values. The result has a row for each window
/// and key that rows fall in.
#[derive(Clone, Debug)]
pub struct Aggregation {
    /// The time column.
    pub on: String,
    /// Which windows there are.
    pub windows: Windows,
    /// The key columns.
    pub by: Vec<String>,
    /// What is computed.
    pub aggregates: Vec<Aggregate>,
    /// Which rows there are.
    pub predicate: Option<Expr>,
    /// How rows become the states of slices; `None` for the fastest. Sessions have no slices.
    pub algorithm: Option<Design>,
    /// The number of threads.
    pub threads: usize,
    /// The most rows the result may have.
    pub max_rows: Option<u64>,
}

/// How rows become the states of slices. All designs give the same results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Design {
    /// Each source has states of its own, function by function.
    #[default]
    Slices,
    /// A queue with a lock for each source; one thread merges and updates.
    MultiQueue,
    /// The same without locks.
    LockFreeMultiQueue,
    /// A gate merges; one thread updates.
    MergedSingleConsumer,
    /// A gate merges; many threads update, each some of the keys.
    MergedMultipleConsumer,
    /// Nobody merges; each source updates.
    WindowMerged,
}

/// A column of the result.
#[derive(Clone, Debug)]
pub struct Aggregate {
    /// Its name.
    pub name: String,
    /// What is computed.
    pub function: Function,
    /// Of which column; only a count needs none.
    pub column: Option<String>,
    /// Which of the rows count.
    pub predicate: Option<Expr>,
}

/// What a function takes of the rows that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// That there is a value.
    Presence,
    /// The row, whatever it holds; it chooses one.
    Rows,
    /// Where the value is in the order of values; it chooses one.
    Order,
    /// A number that is added to others: whole or a float.
    Sums,
    /// A whole number.
    Integers,
    /// A float.
    Floats,
}

/// What is computed of the rows of a window. Nulls count for the first and the last row only.
#[derive(Clone, Copy, Debug)]
pub enum Function {
    /// How many rows, or values.
    Count,
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The first by time, source and position.
    First,
    /// The last by time, source and position.
    Last,
    /// The variance, of a sample.
    Var,
    /// The standard deviation, of a sample.
    Std,
    /// A function of one's own.
    User(UserDefined),
}

impl Function {
    /// All functions but for those of one's own.
    pub const ALL: [Function; 9] = [
        Function::Count,
        Function::Sum,
        Function::Mean,
        Function::Min,
        Function::Max,
        Function::First,
        Function::Last,
        Function::Var,
        Function::Std,
    ];

    /// The name that a caller uses.
    pub fn name(self) -> &'static str {
        match self {
            Function::Count => "count",
            Function::Sum => "sum",
            Function::Mean => "mean",
            Function::Min => "min",
            Function::Max => "max",
            Function::First => "first",
            Function::Last => "last",
            Function::Var => "var",
            Function::Std => "std",
            Function::User(function) => function.name,
        }
    }

    /// What it takes of the rows that count.
    pub(crate) fn takes(self) -> Takes {
        match self {
            Function::Count => Takes::Presence,
            Function::First | Function::Last => Takes::Rows,
            Function::Min | Function::Max => Takes::Order,
            Function::Sum | Function::Mean => Takes::Sums,
            Function::Var | Function::Std => Takes::Floats,
            Function::User(function) => function.takes(),
        }
    }
}

impl Aggregation {
    /// The schema of the result.
    pub fn schema(&self, schemas: &[SchemaRef]) -> Result<SchemaRef> {
        Ok(AggregatePlan::new(self, &named(schemas))?.schema)
    }

    /// What decides the results of an aggregation of streams.
    pub(crate) fn identity(&self, schema: &Schema) -> Identity {
        let Aggregation { on, windows, by, aggregates, predicate, .. } = self;
        let identity = Identity::of("aggregate")
            .columns("stream", schema)
            .line("on", format_args!("{on:?}"))
            .line("windows", format_args!("{windows:?}"))
            .line("by", format_args!("{by:?}"));
        let aggregate = |identity: Identity, aggregate: &Aggregate| {
            let Aggregate { name, function, column, predicate } = aggregate;
            let condition = predicate.as_ref().map(ToString::to_string);
            let whose = if matches!(function, Function::User(_)) { "user's " } else { "" };
            let function = function.name();
            identity
                .line("agg", format_args!("{name:?} {whose}{function} {column:?} {condition:?}"))
        };
        let predicate = predicate.as_ref().map(ToString::to_string);
        aggregates.iter().fold(identity, aggregate).line("where", format_args!("{predicate:?}"))
    }

    /// The plan of the aggregation of tables of these schemas.
    pub fn query_plan(&self, schemas: &[SchemaRef]) -> Result<AggregationPlan> {
        let plan = AggregatePlan::new(self, &named(schemas))?;
        Ok(AggregationPlan::new(plan.explain(self, schemas.len()), &plan))
    }
}

/// The names that messages use: `stream`, or `streams[2]`.
pub fn stream_names(count: usize) -> Vec<String> {
    match count {
        1 => vec!["stream".to_owned()],
        _ => (0..count).map(|at| format!("streams[{at}]")).collect(),
    }
}

fn named(schemas: &[SchemaRef]) -> Vec<(String, &Schema)> {
    stream_names(schemas.len()).into_iter().zip(schemas.iter().map(|schema| &**schema)).collect()
}
