//! The functions that a caller can name, and the kind of each function. Only this module defines
//! the functions for tables, streams, and the partners of joins.

use super::kind::{AggregateKind, kind_of};
use super::user::{UserAggregate, UserFunction};
use crate::aggregate::inputs::columns::{Column, ColumnPairs, Mask, NumberColumns, Stream};
use crate::aggregate::inputs::values::{
    CountedRows, RowCandidates, RowCandidatesByValue, TimedValues, ValuePairs,
};
use crate::aggregate::states::functions::{
    Count, Covariance, Extreme, Mean, Pick, Product, RowOfExtreme, Sum, Variance, WeightedMean,
};
use crate::aggregate::states::timed::{DecayedMean, HalfLife, TimeWeightedMean};
use crate::aggregate::states::whole::WholeMean;

/// An aggregate function and its input columns, one per source.
#[derive(Clone, Debug)]
pub enum Aggregate<'a> {
    /// The number of rows.
    Count(Vec<Mask<'a>>),
    /// The sum of the values.
    Sum(NumberColumns<'a>),
    /// The mean of the values.
    Mean(NumberColumns<'a>),
    /// The mean of integers, rounded to the nearest integer. The columns must not be floats.
    WholeMean(NumberColumns<'a>),
    /// The product of the values.
    Product(Vec<Column<'a, f64>>),
    /// The mean of the first values, weighted by the second values.
    WeightedMean(ColumnPairs<'a>),
    /// The mean of the values, weighted by the time for which each value holds. A value holds until
    /// the next row.
    TimeWeightedMean(Vec<Column<'a, f64>>),
    /// The mean of the values. A row's weight halves with each half-life before the last row.
    DecayedMean {
        /// The values.
        values: Vec<Column<'a, f64>>,
        /// The half-life, which is greater than 0.
        half_life: i64,
    },
    /// The sample covariance of the two values.
    Covariance(ColumnPairs<'a>),
    /// The correlation of the two values.
    Correlation(ColumnPairs<'a>),
    /// The smallest value.
    Min(Vec<Column<'a, i64>>),
    /// The largest value.
    Max(Vec<Column<'a, i64>>),
    /// The sample variance of the values.
    Variance(Vec<Column<'a, f64>>),
    /// The square root of the variance.
    Deviation(Vec<Column<'a, f64>>),
    /// The first row by time, source and position.
    First(Vec<Mask<'a>>),
    /// The last row by time, source and position.
    Last(Vec<Mask<'a>>),
    /// The row with the smallest value. In a tie, the first of these rows by time, source and
    /// position is chosen.
    RowOfMin(Vec<Column<'a, i64>>),
    /// The row with the largest value. In a tie, the first of these rows by time, source and
    /// position is chosen.
    RowOfMax(Vec<Column<'a, i64>>),
    /// A user-defined function; see [`UserFunction`].
    User(UserAggregate<'a>),
}

impl<'a> Aggregate<'a> {
    /// Creates a user-defined function over one column per source.
    pub fn user<F: UserFunction>(columns: Vec<Column<'a, F::Input>>) -> Self {
        Aggregate::User(UserAggregate::new::<F>(columns))
    }
}

/// Returns values with the times of their rows.
fn timed<'a, P>(
    streams: &'a [Stream<'a>],
    values: &'a [Column<'a, f64>],
    parameter: P,
) -> TimedValues<'a, P> {
    TimedValues { streams, values, parameter }
}

/// Returns an aggregate's function, with its input from each source. Row `n` of source `s` is row
/// number `first_rows[s] + n`.
pub(in crate::aggregate) fn kind<'a>(
    aggregate: &'a Aggregate<'a>,
    rows: &'a [Stream<'a>],
    first_rows: &'a [u32],
) -> Box<dyn AggregateKind + 'a> {
    let chosen = |masks: &'a [Mask<'a>]| RowCandidates { streams: rows, first_rows, masks };
    let pairs = |of: &'a ColumnPairs<'a>| ValuePairs { values: &of.values, others: &of.others };
    match aggregate {
        Aggregate::Count(masks) => kind_of::<Count, _>(rows, CountedRows(masks)),
        Aggregate::Sum(NumberColumns::Integers(columns)) => {
            kind_of::<Sum<i64>, _>(rows, &columns[..])
        }
        Aggregate::Sum(NumberColumns::Wide(columns)) => kind_of::<Sum<i128>, _>(rows, &columns[..]),
        Aggregate::Sum(NumberColumns::Floats(columns)) => {
            kind_of::<Sum<f64>, _>(rows, &columns[..])
        }
        Aggregate::Mean(NumberColumns::Integers(columns)) => {
            kind_of::<Mean<i64>, _>(rows, &columns[..])
        }
        Aggregate::Mean(NumberColumns::Wide(columns)) => {
            kind_of::<Mean<i128>, _>(rows, &columns[..])
        }
        Aggregate::Mean(NumberColumns::Floats(columns)) => {
            kind_of::<Mean<f64>, _>(rows, &columns[..])
        }
        Aggregate::WholeMean(NumberColumns::Integers(columns)) => {
            kind_of::<WholeMean<i64>, _>(rows, &columns[..])
        }
        Aggregate::WholeMean(NumberColumns::Wide(columns)) => {
            kind_of::<WholeMean<i128>, _>(rows, &columns[..])
        }
        Aggregate::WholeMean(NumberColumns::Floats(_)) => {
            panic!("only the mean of integers can be rounded")
        }
        Aggregate::Product(columns) => kind_of::<Product, _>(rows, &columns[..]),
        Aggregate::TimeWeightedMean(values) => {
            kind_of::<TimeWeightedMean, _>(rows, timed(rows, values, ()))
        }
        Aggregate::DecayedMean { values, half_life } => {
            kind_of::<DecayedMean, _>(rows, timed(rows, values, HalfLife(*half_life)))
        }
        Aggregate::WeightedMean(of) => kind_of::<WeightedMean, _>(rows, pairs(of)),
        Aggregate::Min(columns) => kind_of::<Extreme<false>, _>(rows, &columns[..]),
        Aggregate::Max(columns) => kind_of::<Extreme<true>, _>(rows, &columns[..]),
        Aggregate::Variance(columns) => kind_of::<Variance<false>, _>(rows, &columns[..]),
        Aggregate::Deviation(columns) => kind_of::<Variance<true>, _>(rows, &columns[..]),
        Aggregate::Covariance(of) => kind_of::<Covariance<false>, _>(rows, pairs(of)),
        Aggregate::Correlation(of) => kind_of::<Covariance<true>, _>(rows, pairs(of)),
        Aggregate::First(masks) => kind_of::<Pick<false>, _>(rows, chosen(masks)),
        Aggregate::Last(masks) => kind_of::<Pick<true>, _>(rows, chosen(masks)),
        Aggregate::RowOfMin(values) => kind_of::<RowOfExtreme<false>, _>(
            rows,
            RowCandidatesByValue { rows: chosen(&[]), values },
        ),
        Aggregate::RowOfMax(values) => kind_of::<RowOfExtreme<true>, _>(
            rows,
            RowCandidatesByValue { rows: chosen(&[]), values },
        ),
        Aggregate::User(user) => user.kind(rows),
    }
}
