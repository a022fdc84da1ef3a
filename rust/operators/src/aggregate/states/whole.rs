//! The mean of integers, rounded to an integer.

use super::functions::{CountedValue, Function, RowOrder, Sum, Summand};

/// Integers that can be summed.
pub(in crate::aggregate) trait WholeSummand: Summand + Into<i128> {}

impl WholeSummand for i64 {}

impl WholeSummand for i128 {}

/// The mean of integers, rounded to the nearest integer. Halves are rounded away from zero. The
/// mean must fit in 64 bits.
pub(in crate::aggregate) struct WholeMean<T>(std::marker::PhantomData<T>);

impl<T: WholeSummand> Function for WholeMean<T> {
    type Input = T;
    type State = CountedValue<T>;
    type Output = i64;

    const ORDER: RowOrder = T::ORDER;
    const EMPTY: CountedValue<T> = Sum::<T>::EMPTY;

    #[inline]
    fn add(state: &mut CountedValue<T>, value: T) {
        Sum::<T>::add(state, value);
    }

    #[inline]
    fn combine(earlier: CountedValue<T>, later: CountedValue<T>) -> CountedValue<T> {
        Sum::<T>::combine(earlier, later)
    }

    fn finish(state: CountedValue<T>) -> Option<i64> {
        let (sum, rows): (i128, i128) = (state.value.into(), state.rows.into());
        let magnitude = || (sum.abs() * 2 + rows) / (rows * 2);
        (rows > 0).then(|| (magnitude() * sum.signum()) as i64)
    }
}
