//! Aggregates as functions: the one place that knows which is which.

use std::marker::PhantomData;

use super::super::functions::{Count, Extreme, Mean, Pick, Sum, Variance};
use super::super::{Aggregate, Column, Mask, Numbers, Stream};
use super::designs::{Adder, Adding};
use super::functions::Stored;
use super::lane::{Lane, States, Task};
use super::open::Open;

/// The states of what an aggregate computes.
pub(super) fn lane(aggregate: &Aggregate<'_>, sources: usize) -> Box<dyn Lane> {
    fn of<F: Stored>(sources: usize) -> Box<dyn Lane> {
        Box::new(States::<F>::new(sources))
    }
    match aggregate {
        Aggregate::Count(_) => of::<Count>(sources),
        Aggregate::Sum(Numbers::Integers(_)) => of::<Sum<i64>>(sources),
        Aggregate::Sum(Numbers::Wide(_)) => of::<Sum<i128>>(sources),
        Aggregate::Sum(Numbers::Floats(_)) => of::<Sum<f64>>(sources),
        Aggregate::Mean(Numbers::Integers(_)) => of::<Mean<i64>>(sources),
        Aggregate::Mean(Numbers::Wide(_)) => of::<Mean<i128>>(sources),
        Aggregate::Mean(Numbers::Floats(_)) => of::<Mean<f64>>(sources),
        Aggregate::Min(_) => of::<Extreme<false>>(sources),
        Aggregate::Max(_) => of::<Extreme<true>>(sources),
        Aggregate::Variance(_) => of::<Variance<false>>(sources),
        Aggregate::Deviation(_) => of::<Variance<true>>(sources),
        Aggregate::First(_) => of::<Pick<false>>(sources),
        Aggregate::Last(_) => of::<Pick<true>>(sources),
    }
}

/// Appends the work of adding the rows of an epoch to what an aggregate computes.
pub(super) fn add<'a>(
    lane: &'a mut dyn Lane,
    aggregate: &'a Aggregate<'a>,
    open: &'a [Open],
    rows: &'a [Stream<'a>],
    first_rows: &'a [u32],
    tasks: &mut Vec<Task<'a>>,
) {
    fn states<F: Stored>(lane: &mut dyn Lane) -> &mut States<F> {
        lane.as_any().downcast_mut().expect("an aggregate computes the same in every epoch")
    }
    fn of<'a, F: Stored>(
        lane: &'a mut dyn Lane,
        open: &'a [Open],
        columns: &'a [Column<'a, F::Input>],
        tasks: &mut Vec<Task<'a>>,
    ) {
        let values = columns.iter().map(|column| (column.values.iter().copied(), column.mask));
        tasks.extend(states::<F>(lane).add(open, values));
    }
    let picked = |masks: &'a [Mask<'a>]| {
        let row =
            |((rows, &first), &mask): ((&'a Stream<'a>, &u32), &Mask<'a>)| (rows.ts.iter().copied().zip(first..), mask);
        rows.iter().zip(first_rows).zip(masks).map(row)
    };
    match aggregate {
        Aggregate::Count(masks) => {
            tasks.extend(states::<Count>(lane).add(open, masks.iter().map(|&mask| (std::iter::repeat(()), mask))));
        }
        Aggregate::Sum(Numbers::Integers(columns)) => of::<Sum<i64>>(lane, open, columns, tasks),
        Aggregate::Sum(Numbers::Wide(columns)) => of::<Sum<i128>>(lane, open, columns, tasks),
        Aggregate::Sum(Numbers::Floats(columns)) => of::<Sum<f64>>(lane, open, columns, tasks),
        Aggregate::Mean(Numbers::Integers(columns)) => of::<Mean<i64>>(lane, open, columns, tasks),
        Aggregate::Mean(Numbers::Wide(columns)) => of::<Mean<i128>>(lane, open, columns, tasks),
        Aggregate::Mean(Numbers::Floats(columns)) => of::<Mean<f64>>(lane, open, columns, tasks),
        Aggregate::Min(columns) => of::<Extreme<false>>(lane, open, columns, tasks),
        Aggregate::Max(columns) => of::<Extreme<true>>(lane, open, columns, tasks),
        Aggregate::Variance(columns) => of::<Variance<false>>(lane, open, columns, tasks),
        Aggregate::Deviation(columns) => of::<Variance<true>>(lane, open, columns, tasks),
        Aggregate::First(masks) => tasks.extend(states::<Pick<false>>(lane).add(open, picked(masks))),
        Aggregate::Last(masks) => tasks.extend(states::<Pick<true>>(lane).add(open, picked(masks))),
    }
}

/// What an aggregate adds for each row.
pub(super) fn adder<'a>(
    aggregate: &'a Aggregate<'a>,
    rows: &'a [Stream<'a>],
    first_rows: &'a [u32],
) -> Box<dyn Adder + 'a> {
    fn adding<'a, F: Stored, V>(masks: Vec<Mask<'a>>, value: V) -> Box<dyn Adder + 'a>
    where
        V: Fn(usize, usize) -> F::Input + Send + Sync + 'a,
    {
        Box::new(Adding::<F, V> { value, masks, function: PhantomData })
    }
    fn of<'a, F: Stored>(columns: &'a [Column<'a, F::Input>]) -> Box<dyn Adder + 'a> {
        let masks = columns.iter().map(|column| column.mask).collect();
        adding::<F, _>(masks, |source, row| columns[source].values[row])
    }
    let picked = |source: usize, row: usize| (rows[source].ts[row], first_rows[source] + row as u32);
    match aggregate {
        Aggregate::Count(masks) => adding::<Count, _>(masks.clone(), |_, _| ()),
        Aggregate::Sum(Numbers::Integers(columns)) => of::<Sum<i64>>(columns),
        Aggregate::Sum(Numbers::Wide(columns)) => of::<Sum<i128>>(columns),
        Aggregate::Sum(Numbers::Floats(columns)) => of::<Sum<f64>>(columns),
        Aggregate::Mean(Numbers::Integers(columns)) => of::<Mean<i64>>(columns),
        Aggregate::Mean(Numbers::Wide(columns)) => of::<Mean<i128>>(columns),
        Aggregate::Mean(Numbers::Floats(columns)) => of::<Mean<f64>>(columns),
        Aggregate::Min(columns) => of::<Extreme<false>>(columns),
        Aggregate::Max(columns) => of::<Extreme<true>>(columns),
        Aggregate::Variance(columns) => of::<Variance<false>>(columns),
        Aggregate::Deviation(columns) => of::<Variance<true>>(columns),
        Aggregate::First(masks) => adding::<Pick<false>, _>(masks.clone(), picked),
        Aggregate::Last(masks) => adding::<Pick<true>, _>(masks.clone(), picked),
    }
}
