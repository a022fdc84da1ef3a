//! Arrow arrays as plain numbers.

use std::ops::Deref;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int32Type, Int64Type, UInt64Type};
use arrow_array::{ArrayRef, ArrowPrimitiveType};
use arrow_buffer::{ArrowNativeType, ScalarBuffer};
use arrow_schema::DataType;
use bytemuck::{AnyBitPattern, NoUninit};
use tidegate_operators::aggregate::order_of;
use tidegate_operators::driver::Driver;
use tidegate_structures::memory::pages::Pages;

use super::columns::Extent;
use super::streams::Streams;
use crate::columns::cast::cast;
use crate::query::aggregate::plan::OutputPlan;
use crate::{Error, Result};

/// The number of values that one thread reads at a time.
const BLOCK: usize = 1 << 16;

/// The numbers of a column, source by source.
#[derive(Clone, Debug)]
pub(super) enum PlainNumbers {
    None,
    Integers(Vec<Array64<i64>>),
    Wide(Vec<Array64<i128>>),
    Floats(Vec<Array64<f64>>),
}

/// The values of a source, borrowed from Arrow if they are stored as a single array.
#[derive(Clone, Debug)]
pub(super) enum Array64<T: ArrowNativeType> {
    Arrow(ScalarBuffer<T>),
    Own(Arc<Pages<T>>),
}

impl<T: ArrowNativeType + AnyBitPattern + NoUninit> Deref for Array64<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Array64::Arrow(values) => values,
            Array64::Own(values) => values,
        }
    }
}

/// Returns the values of a primitive type for every source.
pub(super) fn primitives<T: ArrowPrimitiveType>(
    sources: &[&[ArrayRef]],
    driver: &Driver,
) -> Result<Vec<Array64<T::Native>>>
where
    T::Native: AnyBitPattern + NoUninit,
{
    mapped::<T, T::Native>(
        sources,
        &T::DATA_TYPE,
        driver,
        |value| value,
        |values| Some(values.clone()),
    )
}

/// Returns the values of every source as type `to`, each converted by `new`. If no conversion is
/// needed, `same` returns a chunk's own values.
fn mapped<T: ArrowPrimitiveType, N: ArrowNativeType + AnyBitPattern + NoUninit>(
    sources: &[&[ArrayRef]],
    to: &DataType,
    driver: &Driver,
    new: impl Fn(T::Native) -> N + Sync,
    same: impl Fn(&ScalarBuffer<T::Native>) -> Option<ScalarBuffer<N>> + Sync,
) -> Result<Vec<Array64<N>>> {
    let source = |chunks: &[ArrayRef]| -> Result<Array64<N>> {
        let chunks = driver.map(chunks.to_vec(), |chunk| cast(&chunk, to))?;
        let chunks: Vec<ArrayRef> = chunks.into_iter().collect::<Result<_, _>>()?;
        let values: Vec<_> =
            chunks.iter().map(|chunk| chunk.as_primitive::<T>().values()).collect();
        if let [values] = values[..]
            && let Some(values) = same(values)
        {
            return Ok(Array64::Arrow(values));
        }
        let mut all = Pages::unwritten(values.iter().map(|values| values.len()).sum());
        let mut rest = &mut all[..];
        let mut blocks = Vec::new();
        for block in values.iter().flat_map(|values| values.chunks(BLOCK)) {
            let (out, others) = std::mem::take(&mut rest).split_at_mut(block.len());
            rest = others;
            blocks.push((block, out));
        }
        driver.map(blocks, |(values, out)| {
            out.iter_mut().zip(values).for_each(|(out, value)| out.set(new(*value)));
        })?;
        Ok(Array64::Own(Arc::new(all.written())))
    };
    sources.iter().map(|chunks| source(chunks)).collect()
}

/// The maximum number of rows that one stream can have in a window. More rows would take years to
/// arrive.
pub(super) const STREAM_ROWS: u128 = 1 << 48;

/// Returns the input for sums and means. The numbers are 64-bit if no sum over this many rows can
/// overflow, and 128-bit otherwise. For streams, the choice depends only on the type.
pub(super) fn numbers(
    sources: &[&[ArrayRef]],
    data_type: &DataType,
    output: &OutputPlan,
    rows: u128,
    extent: Extent<'_>,
    driver: &Driver,
) -> Result<PlainNumbers> {
    let is_narrow = match data_type {
        DataType::Boolean => true,
        other => other.primitive_width().is_some_and(|width| width <= 2),
    };
    let fits = |largest: u64| match extent {
        Extent::Whole => u128::from(largest) * rows <= i64::MAX as u128,
        Extent::Stream(_) => is_narrow,
    };
    if data_type.is_floating() {
        return Ok(PlainNumbers::Floats(primitives::<Float64Type>(sources, driver)?));
    }
    if data_type.is_unsigned_integer() {
        let values = primitives::<UInt64Type>(sources, driver)?;
        let largest = largest(&values, driver, |value| value)?;
        if fits(largest) {
            let bits = |value: u64| value.cast_signed();
            let same = |values: &ScalarBuffer<u64>| {
                Some(ScalarBuffer::new(values.inner().clone(), 0, values.len()))
            };
            return Ok(PlainNumbers::Integers(mapped::<UInt64Type, i64>(
                sources,
                &DataType::UInt64,
                driver,
                bits,
                same,
            )?));
        }
        return Ok(PlainNumbers::Wide(widened(&values, driver)?));
    }
    if data_type.is_integer() || matches!(data_type, DataType::Boolean | DataType::Duration(_)) {
        let values = primitives::<Int64Type>(sources, driver)?;
        let largest = largest(&values, driver, i64::unsigned_abs)?;
        if fits(largest) {
            return Ok(PlainNumbers::Integers(values));
        }
        return Ok(PlainNumbers::Wide(widened(&values, driver)?));
    }
    let scale = match data_type {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale) => *scale,
        other => return Err(Error::bug(format!("{other} is not a number"))),
    };
    let to = DataType::Decimal128(38, scale);
    let values = mapped::<Decimal128Type, i128>(
        sources,
        &to,
        driver,
        |value| value,
        |values| Some(values.clone()),
    )?;
    let largest = largest(&values, driver, i128::unsigned_abs)?;
    if largest.checked_mul(rows).is_none_or(|most| most > i128::MAX as u128) {
        return Err(Error::data(format!(
            "aggs: `{}`: the sum of these decimals may exceed 128 bits; cast the column to float64",
            output.name
        )));
    }
    Ok(PlainNumbers::Wide(values))
}

/// Returns the largest magnitude of all values, including those in null slots.
fn largest<T: ArrowNativeType + AnyBitPattern + NoUninit + Sync, M: Ord + Default + Copy + Send>(
    sources: &[Array64<T>],
    driver: &Driver,
    magnitude: impl Fn(T) -> M + Sync,
) -> Result<M> {
    let blocks: Vec<&[T]> = sources.iter().flat_map(|values| values.chunks(BLOCK)).collect();
    let found = driver.map(blocks, |block| {
        block.iter().fold(M::default(), |largest, value| largest.max(magnitude(*value)))
    })?;
    Ok(found.into_iter().max().unwrap_or_default())
}

fn widened<T: ArrowNativeType + AnyBitPattern + NoUninit + Into<i128> + Sync>(
    sources: &[Array64<T>],
    driver: &Driver,
) -> Result<Vec<Array64<i128>>> {
    let widen = |values: &Array64<T>| {
        Array64::Own(Arc::new(Pages::collect(values.iter().map(|value| (*value).into()))))
    };
    Ok(driver.map(sources.iter().collect(), widen)?)
}

/// Returns whether values of a type are ordered but cannot be converted cheaply to 64-bit integers
/// with the same order.
pub(crate) fn is_ordered_only(data_type: &DataType) -> bool {
    use DataType::{Boolean, Date32, Date64, Duration, Time32, Time64, Timestamp};
    let is_number = data_type.is_integer() || data_type.is_floating();
    !is_number
        && !matches!(
            data_type,
            Boolean | Date32 | Date64 | Duration(_) | Time32(_) | Time64(_) | Timestamp(..)
        )
}

/// Maps a float to an integer that sorts the same way. Positive and negative zero map to the same
/// integer, as they do in keys.
fn order(value: f64) -> i64 {
    order_of(value + 0.0)
}

/// Converts values to integers with the same order, for types that allow a cheap conversion.
pub(super) fn codes(
    sources: &[&[ArrayRef]],
    data_type: &DataType,
    driver: &Driver,
) -> Result<Vec<Array64<i64>>> {
    use DataType::{Date32, Time32, UInt64};
    match data_type {
        UInt64 => {
            let code = |value: u64| value.cast_signed() ^ i64::MIN;
            mapped::<UInt64Type, i64>(sources, &UInt64, driver, code, |_| None)
        }
        Date32 | Time32(_) => {
            mapped::<Int32Type, i64>(sources, &DataType::Int32, driver, i64::from, |_| None)
        }
        other if other.is_floating() => {
            mapped::<Float64Type, i64>(sources, &DataType::Float64, driver, order, |_| None)
        }
        _ => primitives::<Int64Type>(sources, driver),
    }
}

/// Returns the codes of all rows, source by source.
pub(super) fn of_sources(
    mut all: impl Iterator<Item = i64>,
    streams: &Streams,
) -> Vec<Array64<i64>> {
    let source = |rows: usize| {
        let mut codes = Pages::unwritten(rows);
        codes.iter_mut().zip(&mut all).for_each(|(code, value)| code.set(value));
        Array64::Own(Arc::new(codes.written()))
    };
    streams.sources.iter().map(super::streams::SortedSource::rows).map(source).collect()
}
