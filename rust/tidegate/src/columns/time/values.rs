//! Time columns as 64-bit integers in a common unit.

use std::ops::Deref;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Date64Type, Int32Type, Int64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, make_array};
use arrow_buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, TimeUnit};
use tidegate_structures::memory;
use tidegate_structures::memory::pages::{Pages, Slot};

use super::unit::Unit;
use crate::columns::cast::text;
use crate::columns::table::Table;
use crate::columns::type_name::TypeName;
use crate::{Error, Result};

/// A column of 64-bit integers, borrowed from Arrow where possible.
#[derive(Debug)]
pub(crate) enum Int64s {
    Arrow(ScalarBuffer<i64>),
    Own(Pages<i64>),
}

impl Int64s {
    /// Returns the values as one Arrow buffer, which can be shared.
    pub(crate) fn into_buffer(self) -> ScalarBuffer<i64> {
        match self {
            Int64s::Arrow(values) => values,
            Int64s::Own(values) => ScalarBuffer::from(values.to_vec()),
        }
    }
}

impl Deref for Int64s {
    type Target = [i64];

    fn deref(&self) -> &[i64] {
        match self {
            Int64s::Arrow(values) => values,
            Int64s::Own(values) => values,
        }
    }
}

/// Returns a column's times in `unit`.
pub(crate) fn times(table: &Table, column: usize, unit: Unit) -> Result<Int64s> {
    let field = table.schema().field(column);
    let chunks = table.chunks(column);
    let mut first = 0;
    for chunk in &chunks {
        no_nulls(table.name(), field, chunk, first)?;
        first += chunk.len();
    }
    read(table, column, &chunks, unit)
}

/// Returns a nullable column's times in `unit`, with 0 in place of nulls. Also returns the numbers
/// of the rows with nulls.
pub(crate) fn times_or_nulls(
    table: &Table,
    column: usize,
    unit: Unit,
) -> Result<(Int64s, Vec<u32>)> {
    let mut nulls = Vec::new();
    let mut first = 0;
    let mut chunks = table.chunks(column);
    for chunk in &mut chunks {
        let missing = chunk.nulls().filter(|nulls| nulls.null_count() > 0).cloned();
        if let Some(missing) = missing {
            let rows = missing.iter().zip(first..).filter(|(is_there, _)| !is_there);
            nulls.extend(rows.map(|(_, row): (_, u32)| row));
            *chunk = zero_nulls(chunk, &missing);
        }
        first += chunk.len() as u32;
    }
    Ok((read(table, column, &chunks, unit)?, nulls))
}

/// Returns both sides' times in `unit`, for a join that compares the distances between left and
/// right times only with `ends`.
///
/// Times that do not fit in 64 bits in the finer unit are moved beyond all other times and keep
/// their order. Returns an error only if such a time, shifted by one of `ends`, could reach a time
/// on the other side.
pub(crate) fn both_times(
    (left, right): (&Table, &Table),
    columns: (usize, usize),
    unit: Unit,
    ends: &[i128],
) -> Result<(Int64s, Int64s)> {
    let error = match (times(left, columns.0, unit), times(right, columns.1, unit)) {
        (Ok(left), Ok(right)) => return Ok((left, right)),
        (Err(error), _) | (_, Err(error)) => error,
    };
    for (table, column) in [(left, columns.0), (right, columns.1)] {
        let mut first = 0;
        for chunk in table.chunks(column) {
            no_nulls(table.name(), table.schema().field(column), &chunk, first)?;
            first += chunk.len();
        }
    }
    let (mut moved, beyond) = moved_times(&[(left, columns.0), (right, columns.1)], unit, &error)?;
    // On the side with the finer unit, no time has been moved.
    let is_left = scale(left.schema().field(columns.0), unit) > 1;
    let others = &moved[usize::from(is_left)];
    let settled = ends.iter().map(|end| if is_left { *end } else { -end }).all(|end| {
        let is_above = |other| beyond.above.is_none_or(|first| i128::from(first) + end > other);
        let is_below = |other| beyond.below.is_none_or(|last| i128::from(last) + end < other);
        let mut others = others.iter().map(|other| i128::from(*other));
        others.all(|other| is_above(other) && is_below(other))
    });
    let right = moved.pop().expect("two columns were read");
    let left = moved.pop().expect("two columns were read");
    if settled { Ok((Int64s::Own(left), Int64s::Own(right))) } else { Err(error) }
}

/// The positions assigned to times that do not fit in 64 bits.
#[derive(Debug)]
struct Beyond {
    /// The position of the latest time that is too early.
    below: Option<i64>,
    /// The position of the earliest time that is too late.
    above: Option<i64>,
}

/// Returns the times of nullable columns in one unit, with 0 for nulls. Times that do not fit are
/// placed beyond all others, in order. Returns an error if a time that fits already occupies such a
/// position.
pub(crate) fn times_in_order(
    columns: &[(&Table, usize)],
    unit: Unit,
) -> Result<Vec<(Int64s, Vec<u32>)>> {
    let read = columns.iter().map(|&(table, column)| times_or_nulls(table, column, unit));
    let error = match read.collect::<Result<Vec<_>>>() {
        Ok(times) => return Ok(times),
        Err(error) => error,
    };
    let (moved, _) = moved_times(columns, unit, &error)?;
    let with_nulls = |(times, &(table, column)): (Pages<i64>, &(&Table, usize))| {
        let nulls = table.chunks(column).into_iter().flat_map(|chunk| {
            (0..chunk.len()).map(|row| chunk.is_null(row)).collect::<Vec<bool>>()
        });
        let nulls = nulls.zip(0..).filter(|(is_null, _)| *is_null).map(|(_, row)| row).collect();
        (Int64s::Own(times), nulls)
    };
    Ok(moved.into_iter().zip(columns).map(with_nulls).collect())
}

/// Returns the times of these columns, with 0 for nulls. Times that do not fit are placed beyond
/// all others. Returns `error` if there is no room for such times.
fn moved_times(
    columns: &[(&Table, usize)],
    unit: Unit,
    error: &Error,
) -> Result<(Vec<Pages<i64>>, Beyond)> {
    let exact = columns.iter().map(|&(table, column)| exact_times(table, column, unit));
    let exact = exact.collect::<Option<Vec<Vec<i128>>>>().ok_or_else(|| error.clone())?;
    let (mut fitting, mut too_early, mut too_late) = (Vec::new(), Vec::new(), Vec::new());
    for &time in exact.iter().flatten() {
        match i64::try_from(time) {
            Ok(time) => fitting.push(time),
            Err(_) if time < 0 => too_early.push(time),
            Err(_) => too_late.push(time),
        }
    }
    for times in [&mut too_early, &mut too_late] {
        times.sort_unstable();
        times.dedup();
    }
    let last_place = i64::MAX - too_late.len() as i64;
    let moved = |time: &i128| match i64::try_from(*time) {
        Ok(time) => time,
        Err(_) if *time < 0 => i64::MIN + too_early.partition_point(|early| early < time) as i64,
        Err(_) => last_place + too_late.partition_point(|late| late <= time) as i64,
    };
    let beyond =
        Beyond { below: too_early.last().map(&moved), above: too_late.first().map(&moved) };
    let is_free = |time: &i64| {
        beyond.below.is_none_or(|below| *time > below)
            && beyond.above.is_none_or(|above| *time < above)
    };
    if !fitting.iter().all(is_free) {
        return Err(error.clone());
    }
    let times = exact.iter().map(|times| Pages::collect(times.iter().map(&moved)));
    Ok((times.collect(), beyond))
}

/// Returns a column's times in `unit`, with 0 for nulls. Returns `None` if the column contains
/// plain numbers instead of times.
fn exact_times(table: &Table, column: usize, unit: Unit) -> Option<Vec<i128>> {
    let field = table.schema().field(column);
    let Unit::Nanoseconds(_) = unit else { return None };
    let factor = i128::from(scale(field, unit));
    let mut times = memory::vec(table.rows());
    for chunk in table.chunks(column) {
        let mut values = memory::filled(chunk.len(), 0);
        widen(&chunk, 1, Slot::of(&mut values)).map_or(Some(()), |_| None)?;
        let values = values.iter().enumerate();
        times.extend(values.map(|(row, &value)| match chunk.is_null(row) {
            true => 0,
            false => i128::from(value) * factor,
        }));
    }
    Some(times)
}

/// Returns the times of an array whose type [`Unit::of`] accepts, with 0 in place of nulls.
fn zero_nulls(chunk: &ArrayRef, nulls: &NullBuffer) -> ArrayRef {
    let data = chunk.to_data();
    let width = chunk.data_type().primitive_width().expect("a time has a width");
    let from = data.offset() * width;
    let given = &data.buffers()[0][from..from + data.len() * width];
    // Allocate 8-byte values so that the data is aligned.
    let mut words = memory::filled(given.len().div_ceil(8), 0_i64);
    let bytes = &mut bytemuck::cast_slice_mut(&mut words)[..given.len()];
    bytes.copy_from_slice(given);
    for (value, is_there) in bytes.chunks_exact_mut(width).zip(nulls) {
        if !is_there {
            value.fill(0);
        }
    }
    let data = ArrayData::builder(chunk.data_type().clone())
        .len(chunk.len())
        .add_buffer(Buffer::from_vec(words));
    make_array(data.build().expect("the values have the right type and no nulls"))
}

/// Returns the times in a column's chunks, in `unit`. The chunks contain no nulls.
fn read(table: &Table, column: usize, chunks: &[ArrayRef], unit: Unit) -> Result<Int64s> {
    let field = table.schema().field(column);
    let factor = scale(field, unit);
    if let ([chunk], 1) = (chunks, factor)
        && let Some(values) = as_int64(chunk)
    {
        return Ok(Int64s::Arrow(values));
    }
    let mut times = Pages::unwritten(table.rows());
    let mut filled = 0;
    for chunk in chunks {
        let out = &mut times[filled..filled + chunk.len()];
        widen(chunk, factor, out)
            .map_or(Ok(()), |row| Err(too_long(table.name(), field, unit, (chunk, row, filled))))?;
        filled += chunk.len();
    }
    Ok(Int64s::Own(times.written()))
}

/// Returns a chunk's times in `unit`. Messages refer to the first row in the chunk as row number
/// `first`.
pub(crate) fn chunk_times(
    name: &str,
    field: &Field,
    chunk: &ArrayRef,
    unit: Unit,
    first: u64,
) -> Result<ScalarBuffer<i64>> {
    let (first, factor) = (first as usize, scale(field, unit));
    no_nulls(name, field, chunk, first)?;
    if let Some(values) = as_int64(chunk).filter(|_| factor == 1) {
        return Ok(values);
    }
    let mut times = memory::filled(chunk.len(), 0);
    match widen(chunk, factor, Slot::of(&mut times)) {
        Some(row) => Err(too_long(name, field, unit, (chunk, row, first))),
        None => Ok(times.into()),
    }
}

/// Returns how many steps of `unit` make up one step of a time column.
pub(crate) fn scale(field: &Field, unit: Unit) -> i64 {
    match (Unit::of("", field).expect("the type of the column was checked"), unit) {
        (Unit::Nanoseconds(coarse), Unit::Nanoseconds(fine)) => coarse / fine,
        _ => 1,
    }
}

/// Returns the error for a row in a chunk. `first` is the number of the chunk's first row.
fn too_long(
    name: &str,
    field: &Field,
    unit: Unit,
    (chunk, row, first): (&ArrayRef, usize, usize),
) -> Error {
    let next = match unit {
        Unit::Integer => "filter such rows out first".to_owned(),
        Unit::Nanoseconds(_) => format!(
            "cast the other time column to {}, or filter such rows out first",
            TypeName(field.data_type())
        ),
    };
    Error::data(format!(
        "{name}: column `{}`, row {}: {} does not fit 64 bits in {}; {next}",
        field.name(),
        first + row,
        text(chunk, row),
        unit.name()
    ))
}

fn no_nulls(name: &str, field: &Field, chunk: &dyn Array, first: usize) -> Result<()> {
    let null = chunk
        .nulls()
        .filter(|nulls| nulls.null_count() > 0)
        .and_then(|nulls| nulls.iter().position(|ok| !ok));
    null.map_or(Ok(()), |row| {
        Err(Error::data(format!(
            "{name}: column `{}`, row {}: the time is null, but every row must have a time; filter \
             such rows out first",
            field.name(),
            first + row
        )))
    })
}

/// Returns the values of an array whose type is stored as 64-bit integers.
pub(crate) fn as_int64(array: &dyn Array) -> Option<ScalarBuffer<i64>> {
    match array.data_type() {
        DataType::Int64 => Some(array.as_primitive::<Int64Type>().values().clone()),
        DataType::Date64 => Some(array.as_primitive::<Date64Type>().values().clone()),
        DataType::Timestamp(TimeUnit::Second, _) => {
            Some(array.as_primitive::<TimestampSecondType>().values().clone())
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            Some(array.as_primitive::<TimestampMillisecondType>().values().clone())
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            Some(array.as_primitive::<TimestampMicrosecondType>().values().clone())
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            Some(array.as_primitive::<TimestampNanosecondType>().values().clone())
        }
        _ => None,
    }
}

/// If a time column stores exactly the integers `values`, which are times in `unit`, returns that
/// column.
pub(crate) fn from_int64(
    field: &Field,
    unit: Unit,
    values: &ScalarBuffer<i64>,
) -> Option<ArrayRef> {
    let data = ArrayData::builder(field.data_type().clone())
        .len(values.len())
        .add_buffer(values.inner().clone());
    is_int64(field, unit).then(|| make_array(data.build().expect("64-bit values")))
}

/// Returns whether a time column stores its times as 64-bit integers in `unit`.
pub(crate) fn is_int64(field: &Field, unit: Unit) -> bool {
    let data_type = field.data_type();
    matches!(data_type, DataType::Int64 | DataType::Date64 | DataType::Timestamp(..))
        && scale(field, unit) == 1
}

/// Writes a chunk's times, multiplied by `factor`. Returns the row of the first product that does
/// not fit, if any.
fn widen(chunk: &dyn Array, factor: i64, out: &mut [Slot<i64>]) -> Option<usize> {
    fn each<T: Copy>(
        values: &[T],
        out: &mut [Slot<i64>],
        convert: impl Fn(T) -> Option<i64>,
    ) -> Option<usize> {
        for (row, (&value, out)) in values.iter().zip(out).enumerate() {
            match convert(value) {
                Some(time) => out.set(time),
                None => return Some(row),
            }
        }
        None
    }
    match chunk.data_type() {
        DataType::Int32 => {
            each(chunk.as_primitive::<Int32Type>().values(), out, |v| Some(i64::from(v)))
        }
        DataType::UInt32 => {
            each(chunk.as_primitive::<UInt32Type>().values(), out, |v| Some(i64::from(v)))
        }
        DataType::UInt64 => {
            each(chunk.as_primitive::<UInt64Type>().values(), out, |v| i64::try_from(v).ok())
        }
        DataType::Date32 => each(chunk.as_primitive::<Date32Type>().values(), out, |v| {
            i64::from(v).checked_mul(factor)
        }),
        _ => {
            let values = as_int64(chunk).expect("`Unit::of` has accepted the type");
            if factor == 1 {
                Slot::copy(out, &values);
                return None;
            }
            each(&values, out, |v| v.checked_mul(factor))
        }
    }
}
