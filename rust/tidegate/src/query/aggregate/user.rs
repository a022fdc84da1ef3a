//! User-defined functions, written in Rust, that operate on Arrow columns.

use std::fmt;

use arrow_schema::DataType;
use tidegate_operators::aggregate::{Aggregate, Column, OutputValue, UserFunction};

use super::{Function, Takes};

/// A [`UserFunction`] on a numeric column (see [`Function::of_floats`] and
/// [`Function::of_integers`]).
#[derive(Clone, Copy)]
pub struct UserDefined {
    pub(crate) name: &'static str,
    pub(crate) of: UserInput,
    result: &'static DataType,
}

/// The input of a user-defined function, and the aggregate that it computes from the input.
#[derive(Clone, Copy)]
pub(crate) enum UserInput {
    Integers(for<'a> fn(Vec<Column<'a, i64>>) -> Aggregate<'a>),
    Floats(for<'a> fn(Vec<Column<'a, f64>>) -> Aggregate<'a>),
}

/// The result type of a user-defined function: `i64` or `f64`.
pub trait UserResult: OutputValue {
    /// The type of the result column.
    const TYPE: &'static DataType;
}

impl UserResult for i64 {
    const TYPE: &'static DataType = &DataType::Int64;
}

impl UserResult for f64 {
    const TYPE: &'static DataType = &DataType::Float64;
}

impl UserDefined {
    /// Returns the type of the result, or `None` if the function does not accept values of type
    /// `values`.
    pub(super) fn result(&self, values: &DataType) -> Option<DataType> {
        let is_decimal = matches!(
            values,
            DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..)
        );
        let fits = match self.of {
            UserInput::Integers(_) => values.is_integer() && *values != DataType::UInt64,
            UserInput::Floats(_) => values.is_integer() || values.is_floating() || is_decimal,
        };
        fits.then(|| self.result.clone())
    }

    pub(super) fn takes(&self) -> Takes {
        match self.of {
            UserInput::Integers(_) => Takes::Integers,
            UserInput::Floats(_) => Takes::Floats,
        }
    }

    /// Describes the input of the function, for messages.
    pub(super) fn expected(&self) -> &'static str {
        match self.of {
            UserInput::Integers(_) => "whole numbers that fit int64",
            UserInput::Floats(_) => "numbers",
        }
    }
}

impl fmt::Debug for UserDefined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UserDefined").field(&self.name).finish()
    }
}

impl Function {
    /// Creates a user-defined function that accepts numbers of any type, receives them as floats,
    /// and ignores nulls.
    ///
    /// Such a function can be used wherever a built-in function can: over windows and sessions,
    /// with every algorithm, in [`Aggregation`](super::Aggregation) and in
    /// [`aggregate`](crate::stream::aggregate). `name` identifies the function in plans, messages
    /// and snapshots, so functions that compute different things need different names.
    ///
    /// # Examples
    ///
    /// This example computes the difference between the largest and the smallest value:
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use arrow_array::cast::AsArray;
    /// use arrow_array::types::Float64Type;
    /// use arrow_array::{Array, Float64Array, Int64Array, RecordBatch};
    /// use tidegate::query::aggregate::{Aggregate, Aggregation, Function, RowOrder, UserFunction, Windows};
    /// use tidegate::{Bound, Driver, Stop, Table};
    ///
    /// struct Spread;
    ///
    /// impl UserFunction for Spread {
    ///     type Input = f64;
    ///     type State = [f64; 2];
    ///     type Output = f64;
    ///
    ///     const ORDER: RowOrder = RowOrder::Any;
    ///     const EMPTY: [f64; 2] = [f64::INFINITY, f64::NEG_INFINITY];
    ///
    ///     fn add(state: &mut [f64; 2], value: f64) {
    ///         *state = Self::combine(*state, [value, value]);
    ///     }
    ///
    ///     fn combine(earlier: [f64; 2], later: [f64; 2]) -> [f64; 2] {
    ///         [earlier[0].min(later[0]), earlier[1].max(later[1])]
    ///     }
    ///
    ///     fn finish([smallest, largest]: [f64; 2]) -> Option<f64> {
    ///         (smallest <= largest).then_some(largest - smallest)
    ///     }
    ///
    ///     fn to_words([smallest, largest]: [f64; 2]) -> [u64; 3] {
    ///         [smallest.to_bits(), largest.to_bits(), 0]
    ///     }
    ///
    ///     fn of_words([smallest, largest, _]: [u64; 3]) -> [f64; 2] {
    ///         [f64::from_bits(smallest), f64::from_bits(largest)]
    ///     }
    /// }
    ///
    /// let rows = RecordBatch::try_from_iter([
    ///     ("ts", Arc::new(Int64Array::from(vec![1, 4, 12])) as Arc<dyn Array>),
    ///     ("price", Arc::new(Float64Array::from(vec![9.5, 7.0, 8.0]))),
    /// ])?;
    /// let spread = Aggregate {
    ///     name: "spread".to_owned(),
    ///     function: Function::of_floats::<Spread>("spread"),
    ///     columns: vec!["price".to_owned()],
    ///     predicate: None,
    ///     interval: None,
    /// };
    /// let query = Aggregation {
    ///     on: "ts".to_owned(),
    ///     windows: Windows::of_lengths(Bound::Steps(10), Bound::Steps(10)),
    ///     empty: None,
    ///     by: Vec::new(),
    ///     aggregates: vec![spread],
    ///     predicate: None,
    ///     algorithm: None,
    ///     threads: 1,
    ///     max_rows: None,
    /// };
    /// let driver = Driver::new(1, Stop::default());
    /// let table = Table::new("prices", rows.schema(), vec![rows], &driver)?;
    /// let found = query.run(vec![table], Stop::default())?;
    /// assert_eq!(found[0]["spread"].as_primitive::<Float64Type>().values(), &[2.5, 0.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of_floats<F: UserFunction<Input = f64, Output: UserResult>>(name: &'static str) -> Self {
        Function::User(UserDefined {
            name,
            of: UserInput::Floats(|columns| Aggregate::user::<F>(columns)),
            result: F::Output::TYPE,
        })
    }

    /// Does the same as [`of_floats`](Self::of_floats) for integers, which are passed to the
    /// function unchanged.
    pub fn of_integers<F: UserFunction<Input = i64, Output: UserResult>>(
        name: &'static str,
    ) -> Self {
        Function::User(UserDefined {
            name,
            of: UserInput::Integers(|columns| Aggregate::user::<F>(columns)),
            result: F::Output::TYPE,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
    use tidegate_operators::aggregate::RowOrder;
    use tidegate_sync::Stop;

    use super::super::{Aggregate, Aggregation, Design, Windows};
    use super::*;
    use crate::columns::table::Table;
    use crate::columns::time::Bound;
    use crate::stream::{AggregateOptions, Operator, Poll, aggregate, lock};
    use crate::{Driver, Result};

    /// Concatenates the values as digits of a number, so the result shows the order of the values.
    struct Digits;

    impl UserFunction for Digits {
        type Input = i64;
        type State = (i64, i64);
        type Output = i64;

        const ORDER: RowOrder = RowOrder::Merged;
        const EMPTY: (i64, i64) = (0, 1);

        fn add(state: &mut (i64, i64), value: i64) {
            *state = Self::combine(*state, (value, 10));
        }

        fn combine(earlier: (i64, i64), later: (i64, i64)) -> (i64, i64) {
            (earlier.0 * later.1 + later.0, earlier.1 * later.1)
        }

        fn finish((digits, tens): (i64, i64)) -> Option<i64> {
            (tens > 1).then_some(digits)
        }

        fn to_words((digits, tens): (i64, i64)) -> [u64; 3] {
            [digits.cast_unsigned(), tens.cast_unsigned(), 0]
        }

        fn of_words([digits, tens, _]: [u64; 3]) -> (i64, i64) {
            (digits.cast_signed(), tens.cast_signed())
        }
    }

    fn query(windows: Windows, algorithm: Option<Design>) -> Aggregation {
        let digits = Aggregate {
            name: "digits".to_owned(),
            function: Function::of_integers::<Digits>("digits"),
            columns: vec!["v".to_owned()],
            predicate: None,
            interval: None,
        };
        Aggregation {
            on: "ts".to_owned(),
            windows,
            empty: None,
            by: Vec::new(),
            aggregates: vec![digits],
            predicate: None,
            algorithm,
            threads: 2,
            max_rows: None,
        }
    }

    fn rows(ts: &[i64], v: &[Option<i32>]) -> RecordBatch {
        let (ts, v): (ArrayRef, ArrayRef) =
            (Arc::new(Int64Array::from(ts.to_vec())), Arc::new(Int32Array::from(v.to_vec())));
        RecordBatch::try_from_iter_with_nullable([("ts", ts, false), ("v", v, true)]).unwrap()
    }

    fn sources() -> [RecordBatch; 2] {
        [
            rows(&[0, 4, 9, 30], &[Some(1), None, Some(4), None]),
            rows(&[2, 4, 8], &[Some(2), Some(3), Some(5)]),
        ]
    }

    fn digits(batches: &[RecordBatch]) -> Vec<Option<i64>> {
        batches
            .iter()
            .flat_map(|batch| {
                batch["digits"].as_primitive::<Int64Type>().iter().collect::<Vec<_>>()
            })
            .collect()
    }

    fn of_tables(query: &Aggregation) -> Result<Vec<RecordBatch>> {
        let driver = Driver::new(1, Stop::default());
        let table = |batch: RecordBatch| Table::new("rows", batch.schema(), vec![batch], &driver);
        query.run(sources().into_iter().map(table).collect::<Result<_>>()?, Stop::default())
    }

    /// Computes the result from streaming rows, and restores a snapshot halfway through.
    fn of_sources(query: &Aggregation) -> Result<Vec<RecordBatch>> {
        let options = AggregateOptions { sources: 2, lateness: None.into(), memory_limit: None };
        let made = || aggregate(query, sources()[0].schema(), &options);
        let mut found = Vec::new();
        let mut poll = |operator: &mut Operator| -> Result<()> {
            while let Poll::Batch(batch) = operator.poll()? {
                found.push(batch);
            }
            Ok(())
        };
        let mut operator = made()?;
        for cut in 0..4 {
            for (source, batch) in operator.sources().to_vec().iter().zip(sources()) {
                if cut < batch.num_rows() {
                    lock(source).push(
                        &batch.schema(),
                        vec![batch.slice(cut, 1)],
                        &Stop::default(),
                    )?;
                }
            }
            poll(&mut operator)?;
            let snapshot = operator.snapshot(&Stop::default())?;
            operator = made()?;
            operator.restore(&snapshot, &Stop::default())?;
        }
        operator.sources().iter().for_each(|source| lock(source).close());
        poll(&mut operator)?;
        Ok(found)
    }

    #[test]
    fn a_function_of_one_s_own_is_computed_by_every_design() {
        use Design::{
            LockFreeMultiQueue, MergedMultipleConsumer, MergedSingleConsumer, MultiQueue, Slices,
            WindowMerged,
        };
        let designs = [
            Slices,
            MultiQueue,
            LockFreeMultiQueue,
            MergedSingleConsumer,
            MergedMultipleConsumer,
            WindowMerged,
        ];
        for algorithm in std::iter::once(None).chain(designs.map(Some)) {
            let size = Windows::of_lengths(Bound::Steps(5), Bound::Steps(4));
            let query = query(size, algorithm);
            let wanted = [Some(1), Some(123), Some(35), Some(54), None];
            assert_eq!(digits(&of_tables(&query).unwrap()), wanted, "{algorithm:?}");
            assert_eq!(digits(&of_sources(&query).unwrap()), wanted, "{algorithm:?}");
        }
        let sessions = query(Windows::Session(Bound::Steps(10)), None);
        assert_eq!(digits(&of_tables(&sessions).unwrap()), [Some(12354), None]);
        assert_eq!(digits(&of_sources(&sessions).unwrap()), [Some(12354), None]);
    }

    #[test]
    fn a_column_that_a_function_is_not_of_is_refused() {
        let v: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        let ts: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let schema = RecordBatch::try_from_iter([("ts", ts), ("v", v)]).unwrap().schema();
        let error = query(Windows::Session(Bound::Steps(10)), None).schema(&[schema]).unwrap_err();
        assert_eq!(
            error.message(),
            "aggs: `digits`: digits of column `v` of type string: expected whole numbers that fit int64; cast it first"
        );
    }
}
