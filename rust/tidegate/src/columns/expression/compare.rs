//! Comparisons, which use Arrow's kernels, except for floats. Arrow compares floats in IEEE 754's
//! total order, so this module implements its own kernels for floats.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int64Type};
use arrow_array::{Array, ArrowPrimitiveType, BooleanArray, Datum, PrimitiveArray, make_array};
use arrow_buffer::{BooleanBuffer, MutableBuffer, NullBuffer};
use arrow_ord::cmp;
use arrow_schema::{ArrowError, DataType};

use super::Comparison;
use crate::columns::cast::cast;

/// Compares values of one type. Comparing null with anything yields null.
pub(super) fn compare(
    operator: Comparison,
    left: &dyn Datum,
    right: &dyn Datum,
) -> Result<BooleanArray, ArrowError> {
    match left.get().0.data_type() {
        DataType::Float32 => Ok(compare_floats::<Float32Type>(operator, left, right)),
        DataType::Float64 => Ok(compare_floats::<Float64Type>(operator, left, right)),
        _ => match operator {
            Comparison::Equal => cmp::eq(left, right),
            Comparison::NotEqual => cmp::neq(left, right),
            Comparison::Less => cmp::lt(left, right),
            Comparison::LessOrEqual => cmp::lt_eq(left, right),
            Comparison::Greater => cmp::gt(left, right),
            Comparison::GreaterOrEqual => cmp::gt_eq(left, right),
        },
    }
}

/// Compares times, given each side's number of nanoseconds per step. Comparing with null yields
/// null.
pub(super) fn compare_times(
    operator: Comparison,
    (left, of_left): (&dyn Datum, i64),
    (right, of_right): (&dyn Datum, i64),
) -> Result<BooleanArray, ArrowError> {
    let (left, left_is_scalar) = times(left, of_left)?;
    let (right, right_is_scalar) = times(right, of_right)?;
    let holds = |left: i128, right: i128| match operator {
        Comparison::Equal => left == right,
        Comparison::NotEqual => left != right,
        Comparison::Less => left < right,
        Comparison::LessOrEqual => left <= right,
        Comparison::Greater => left > right,
        Comparison::GreaterOrEqual => left >= right,
    };
    let rows = if left_is_scalar { right.len() } else { left.len() };
    let at = |times: &[Option<i128>], is_scalar: bool, row| times[if is_scalar { 0 } else { row }];
    let pair = |row| Some((at(&left, left_is_scalar, row)?, at(&right, right_is_scalar, row)?));
    Ok((0..rows).map(|row| pair(row).map(|(left, right)| holds(left, right))).collect())
}

/// Returns the times in nanoseconds. Also returns whether the same time applies to all rows.
fn times(times: &dyn Datum, step: i64) -> Result<(Vec<Option<i128>>, bool), ArrowError> {
    let (array, is_scalar) = times.get();
    let array = match array.data_type() {
        DataType::Date32 => cast(array, &DataType::Int32)?,
        _ => make_array(array.to_data()),
    };
    let steps = cast(&array, &DataType::Int64)?;
    let steps = steps.as_primitive::<Int64Type>().iter();
    let nanoseconds = |time: Option<i64>| time.map(|time| i128::from(time) * i128::from(step));
    Ok((steps.map(nanoseconds).collect(), is_scalar))
}

fn compare_floats<T>(operator: Comparison, left: &dyn Datum, right: &dyn Datum) -> BooleanArray
where
    T: ArrowPrimitiveType,
    T::Native: PartialOrd,
{
    match operator {
        Comparison::Equal => compare_by::<T>(left, right, |l, r| l == r),
        Comparison::NotEqual => compare_by::<T>(left, right, |l, r| l != r),
        Comparison::Less => compare_by::<T>(left, right, |l, r| l < r),
        Comparison::LessOrEqual => compare_by::<T>(left, right, |l, r| l <= r),
        Comparison::Greater => compare_by::<T>(left, right, |l, r| l > r),
        Comparison::GreaterOrEqual => compare_by::<T>(left, right, |l, r| l >= r),
    }
}

fn compare_by<T: ArrowPrimitiveType>(
    left: &dyn Datum,
    right: &dyn Datum,
    holds: impl Fn(T::Native, T::Native) -> bool,
) -> BooleanArray {
    let ((left, left_is_scalar), (right, right_is_scalar)) = (left.get(), right.get());
    let (left, right): (&PrimitiveArray<T>, &PrimitiveArray<T>) =
        (left.as_primitive(), right.as_primitive());
    match (left_is_scalar, right_is_scalar) {
        (true, false) => with_scalar(right, left, |value, scalar| holds(scalar, value)),
        (false, true) => with_scalar(left, right, holds),
        (true, true) | (false, false) => {
            let values = pack2(left.values(), right.values(), holds);
            BooleanArray::new(values, NullBuffer::union(left.nulls(), right.nulls()))
        }
    }
}

fn with_scalar<T: ArrowPrimitiveType>(
    array: &PrimitiveArray<T>,
    scalar: &PrimitiveArray<T>,
    holds: impl Fn(T::Native, T::Native) -> bool,
) -> BooleanArray {
    if scalar.is_null(0) {
        return BooleanArray::new_null(array.len());
    }
    let scalar = scalar.value(0);
    BooleanArray::new(pack(array.values(), |value| holds(value, scalar)), array.nulls().cloned())
}

/// A bit for each value.
fn pack<T: Copy>(values: &[T], holds: impl Fn(T) -> bool) -> BooleanBuffer {
    let (chunks, rest) = values.as_chunks::<64>();
    let words = chunks.iter().map(|chunk| word(chunk.len(), |i| holds(chunk[i])));
    collect(values.len(), words, word(rest.len(), |i| holds(rest[i])))
}

/// Computes one bit for each pair of values.
fn pack2<T: Copy>(left: &[T], right: &[T], holds: impl Fn(T, T) -> bool) -> BooleanBuffer {
    assert_eq!(left.len(), right.len(), "both columns hold a value for each pair");
    let ((left_chunks, left_rest), (right_chunks, right_rest)) =
        (left.as_chunks::<64>(), right.as_chunks::<64>());
    let words =
        left_chunks.iter().zip(right_chunks).map(|(l, r)| word(l.len(), |i| holds(l[i], r[i])));
    collect(left.len(), words, word(left_rest.len(), |i| holds(left_rest[i], right_rest[i])))
}

/// The loop has no branches and processes whole chunks of fixed length, so that the compiler can
/// use vector instructions.
#[inline(always)]
fn word(len: usize, bit: impl Fn(usize) -> bool) -> u64 {
    (0..len).fold(0, |word, i| word | u64::from(bit(i)) << i)
}

fn collect(len: usize, words: impl Iterator<Item = u64>, last: u64) -> BooleanBuffer {
    let mut buffer = MutableBuffer::with_capacity(len.div_ceil(64) * 8);
    words.for_each(|word| buffer.push(word.to_le()));
    if !len.is_multiple_of(64) {
        buffer.push(last.to_le());
    }
    BooleanBuffer::new(buffer.into(), 0, len)
}
