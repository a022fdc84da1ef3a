//! Aggregates as functions of values: the one place that says which function an [`Aggregate`] is,
//! for the pass over tables, the pass over epochs, and the partners of joins.

use std::marker::PhantomData;

use super::fold::Fold;
use super::functions::{
    Count, Covariance, Extreme, Mean, Pick, Product, RowOfExtreme, Sum, Variance, WeightedMean,
};
use super::given::{Chosen, ChosenByValue, Given, Pairs, Rows};
use super::partners::{InPanes, OfPartners};
use super::streaming::AddRows;
use super::{Aggregate, ColumnPairs, Mask, NumberColumns, Stream};

/// Any function with its input, as the passes use it.
pub(super) trait Kind: Fold + AddRows + OfPartners {}

impl<T: Fold + AddRows + OfPartners> Kind for T {}

/// A function and what it is of. The passes say in [`fold`](super::fold),
/// [`streaming`](super::streaming) and [`partners`](super::partners) how they use it.
pub(super) struct Of<'a, F, G> {
    pub(super) streams: &'a [Stream<'a>],
    pub(super) given: G,
    function: PhantomData<F>,
}

/// A function of the rows of streams.
pub(super) fn kind_of<'a, F: InPanes, G: Given<F> + 'a>(
    streams: &'a [Stream<'a>],
    given: G,
) -> Box<dyn Kind + 'a> {
    Box::new(Of::<F, G> { streams, given, function: PhantomData })
}

/// The function of an aggregate, with its input from each source. Row `n` of source `s` has the
/// number `first_rows[s] + n`.
pub(super) fn kind<'a>(
    aggregate: &'a Aggregate<'a>,
    rows: &'a [Stream<'a>],
    first_rows: &'a [u32],
) -> Box<dyn Kind + 'a> {
    let chosen = |masks: &'a [Mask<'a>]| Chosen { streams: rows, first_rows, masks };
    let pairs = |of: &'a ColumnPairs<'a>| Pairs { values: &of.values, others: &of.others };
    match aggregate {
        Aggregate::Count(masks) => kind_of::<Count, _>(rows, Rows(masks)),
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
        Aggregate::Product(columns) => kind_of::<Product, _>(rows, &columns[..]),
        Aggregate::WeightedMean(of) => kind_of::<WeightedMean, _>(rows, pairs(of)),
        Aggregate::Min(columns) => kind_of::<Extreme<false>, _>(rows, &columns[..]),
        Aggregate::Max(columns) => kind_of::<Extreme<true>, _>(rows, &columns[..]),
        Aggregate::Variance(columns) => kind_of::<Variance<false>, _>(rows, &columns[..]),
        Aggregate::Deviation(columns) => kind_of::<Variance<true>, _>(rows, &columns[..]),
        Aggregate::Covariance(of) => kind_of::<Covariance<false>, _>(rows, pairs(of)),
        Aggregate::Correlation(of) => kind_of::<Covariance<true>, _>(rows, pairs(of)),
        Aggregate::First(masks) => kind_of::<Pick<false>, _>(rows, chosen(masks)),
        Aggregate::Last(masks) => kind_of::<Pick<true>, _>(rows, chosen(masks)),
        Aggregate::RowOfMin(values) => {
            kind_of::<RowOfExtreme<false>, _>(rows, ChosenByValue { rows: chosen(&[]), values })
        }
        Aggregate::RowOfMax(values) => {
            kind_of::<RowOfExtreme<true>, _>(rows, ChosenByValue { rows: chosen(&[]), values })
        }
        Aggregate::User(user) => user.kind(rows),
    }
}

/// The number of each source's first row, where all rows are counted, source after source.
pub fn first_rows(streams: &[Stream<'_>]) -> Vec<u32> {
    let next = |first: &mut u32, stream: &Stream<'_>| {
        Some(std::mem::replace(first, *first + stream.ts.len() as u32))
    };
    streams.iter().scan(0, next).collect()
}
