//! Time columns as 64-bit integers of one unit, and durations in that unit.

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
use tidegate_operators::rows::{Closed, Interval};
use tidegate_structures::memory;
use tidegate_structures::memory::pages::{Pages, Slot};

use super::cast::text;
use super::duration::duration_text;
use super::table::Table;
use crate::columns::type_name::TypeName;
use crate::{Error, Result};

/// The meaning of one step of a time column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// A plain number.
    Integer,
    /// This number of nanoseconds.
    Nanoseconds(i64),
}

pub(crate) const DAY: i64 = 86_400_000_000_000;

/// How to make a time of another column.
fn mend(given: &DataType) -> &'static str {
    match given {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            "; parse the text first, for instance by pandas.to_datetime or pyarrow.compute.strptime"
        }
        DataType::Float16 | DataType::Float32 | DataType::Float64 => {
            "; cast it to int64 or to a timestamp first"
        }
        given if given.is_integer() => "; cast it to int64 first",
        _ => "",
    }
}

impl Unit {
    pub(crate) fn of(table: &str, field: &Field) -> Result<Unit> {
        let extension = field.metadata().get("ARROW:extension:name");
        if extension.is_some_and(|name| name == "pandas.period") {
            let name = field.name();
            return Err(Error::schema(format!(
                "{table}: column `{name}` is of periods of pandas, which have a start and an end, \
                 expected a time; write {table}.assign({name}={table}[\"{name}\"].dt.to_timestamp())"
            )));
        }
        match field.data_type() {
            DataType::Int32 | DataType::Int64 | DataType::UInt32 | DataType::UInt64 => {
                Ok(Unit::Integer)
            }
            DataType::Date32 => Ok(Unit::Nanoseconds(DAY)),
            DataType::Date64 => Ok(Unit::Nanoseconds(1_000_000)),
            DataType::Timestamp(unit, _) => Ok(Unit::Nanoseconds(nanoseconds(*unit))),
            other => Err(Error::schema(format!(
                "{table}: column `{}` is {}, expected a time: int32, int64, uint32, uint64, \
                 date32, date64 or timestamp{}",
                field.name(),
                TypeName(other),
                mend(other)
            ))),
        }
    }

    /// The word for some steps in messages.
    pub(crate) fn steps_name(self) -> &'static str {
        match self {
            Unit::Integer => "steps",
            unit => unit.name(),
        }
    }

    /// Formats a number of time steps as a duration, for messages and plans.
    pub(crate) fn length(self, steps: i64) -> String {
        match self {
            Unit::Integer => steps.to_string(),
            Unit::Nanoseconds(step) => duration_text(i128::from(steps) * i128::from(step)),
        }
    }

    /// The name of the unit in messages and plans.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Unit::Integer => "integer",
            Unit::Nanoseconds(1) => "ns",
            Unit::Nanoseconds(1_000) => "us",
            Unit::Nanoseconds(1_000_000) => "ms",
            Unit::Nanoseconds(1_000_000_000) => "s",
            Unit::Nanoseconds(_) => "days",
        }
    }
}

pub(crate) fn nanoseconds(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

/// The finest of the units of time columns, if they can be compared. Each has the name of its table.
pub(crate) fn finest_unit(columns: &[(&str, &Field)]) -> Result<Unit> {
    let [(table, field), others @ ..] = columns else { unreachable!("there is a time column") };
    let with = |unit: Result<Unit>, other: &(&str, &Field)| {
        Ok(match (unit?, finer_unit((table, field), *other)?) {
            (Unit::Nanoseconds(a), Unit::Nanoseconds(b)) => Unit::Nanoseconds(a.min(b)),
            (_, unit) => unit,
        })
    };
    others.iter().fold(Unit::of(table, field), with)
}

/// The finer of the units of two time columns, if they can be compared.
pub(crate) fn common_unit(left: &Field, right: &Field) -> Result<Unit> {
    finer_unit(("left", left), ("right", right))
}

/// The finer of the units of two time columns of these tables, if they can be compared.
fn finer_unit((of_left, left): (&str, &Field), (of_right, right): (&str, &Field)) -> Result<Unit> {
    let units = (Unit::of(of_left, left)?, Unit::of(of_right, right)?);
    let describe = || {
        format!(
            "{of_left} `{}` is {}, {of_right} `{}` is {}",
            left.name(),
            TypeName(left.data_type()),
            right.name(),
            TypeName(right.data_type())
        )
    };
    let zoned = |field: &Field| match field.data_type() {
        DataType::Timestamp(_, zone) => zone.is_some(),
        _ => false,
    };
    if zoned(left) != zoned(right) {
        let next = "give both a zone or neither";
        return Err(Error::schema(format!(
            "times with and without a zone cannot be compared: {}; {next}",
            describe()
        )));
    }
    match units {
        (Unit::Integer, Unit::Integer) => Ok(Unit::Integer),
        (Unit::Nanoseconds(a), Unit::Nanoseconds(b)) => Ok(Unit::Nanoseconds(a.min(b))),
        _ => Err(Error::schema(format!(
            "an integer and a time cannot be compared: {}; cast one of them",
            describe()
        ))),
    }
}

/// A column of 64-bit integers, borrowed from Arrow where it already is one.
#[derive(Debug)]
pub(crate) enum Int64s {
    Arrow(ScalarBuffer<i64>),
    Own(Pages<i64>),
}

impl Int64s {
    /// As one Arrow buffer, which many can hold.
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

/// The times of a column in `unit`.
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

/// As [`times`], of a column that may have nulls: 0 in their rows, and the numbers of these rows.
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

/// Returns the times of both sides in `unit`, for a join that compares the distance between a left
/// and a right time only with `ends`.
///
/// Times that do not fit in 64 bits in the finer unit are placed beyond all other times, in their
/// original order. This is an error only if such a time, shifted by one of `ends`, could reach a
/// time on the other side.
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
    // No time was moved on the side with the finer unit.
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
    /// The latest of the times that are too early.
    below: Option<i64>,
    /// The earliest of the times that are too late.
    above: Option<i64>,
}

/// Returns the times of nullable columns in one unit, with 0 for nulls. Times that do not fit are
/// placed beyond the others, in order. Returns an error if a time that does fit already occupies
/// such a position.
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
/// the others. Returns `error` if there is no room for such times.
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

/// Returns the times of a column in `unit`, with 0 for nulls. Returns `None` if the column contains
/// plain numbers.
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

/// The times of an array of a type that [`Unit::of`] accepts, with 0 in place of nulls.
fn zero_nulls(chunk: &ArrayRef, nulls: &NullBuffer) -> ArrayRef {
    let data = chunk.to_data();
    let width = chunk.data_type().primitive_width().expect("a time has a width");
    let from = data.offset() * width;
    let given = &data.buffers()[0][from..from + data.len() * width];
    // From 8-byte values, so that these are aligned.
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
    make_array(data.build().expect("values of the type, without nulls"))
}

/// The times of the chunks of a column, which have no nulls, in `unit`.
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

/// The times of a chunk in `unit`. Its first row is called row `first` in messages.
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

/// How many steps of `unit` a step of a time column is.
pub(crate) fn scale(field: &Field, unit: Unit) -> i64 {
    match (Unit::of("", field).expect("a column whose type was checked"), unit) {
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
            "{name}: column `{}`, row {}: the time is null, expected a time in every row; filter \
             such rows out first",
            field.name(),
            first + row
        )))
    })
}

/// The values of an array whose type is stored as a 64-bit integer.
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

/// The time column whose times in `unit` are `values`, if it is stored as they are.
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

/// Whether a time column has its times in `unit`, in 64 bits.
pub(crate) fn is_int64(field: &Field, unit: Unit) -> bool {
    let data_type = field.data_type();
    matches!(data_type, DataType::Int64 | DataType::Date64 | DataType::Timestamp(..))
        && scale(field, unit) == 1
}

/// Writes the times of a chunk times `factor`; the row of the first that does not fit, if one does
/// not.
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
            let values = as_int64(chunk).expect("a type that `Unit::of` accepts");
            if factor == 1 {
                Slot::copy(out, &values);
                return None;
            }
            each(&values, out, |v| v.checked_mul(factor))
        }
    }
}

/// An end of an interval as the caller gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// In the unit of the time columns, the finer where they differ.
    Steps(i128),
    /// In nanoseconds.
    Nanoseconds(i128),
}

/// A duration in whole steps of `unit`.
pub(crate) fn steps(name: &str, bound: Bound, unit: Unit) -> Result<i64> {
    let end = end(name, bound, unit, Round::Down)?;
    if !end.whole {
        return Err(Error::argument(format!(
            "{name} is {} {unit}, but times are whole {unit}; cast the time column to a finer unit",
            end.exact.show(),
            unit = unit.name()
        )));
    }
    Ok(end.steps)
}

/// An end as an amount of nanoseconds, or of steps of integers; how much of it a step of `unit` is;
/// and its steps, for people.
pub(crate) fn amount(name: &str, bound: Bound, unit: Unit) -> Result<(i128, i64, String)> {
    let Fraction { amount, step } = end(name, bound, unit, Round::Down)?.exact;
    Ok((amount, step, Fraction { amount, step }.show()))
}

/// Arrow's unit of timestamps; none for integers and days.
pub(crate) fn time_unit(unit: Unit) -> Option<TimeUnit> {
    let Unit::Nanoseconds(step) = unit else { return None };
    let units =
        [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];
    units.into_iter().find(|unit| nanoseconds(*unit) == step)
}

/// The interval in steps of `unit`, with the caller's meaning kept exactly where an end falls
/// between two steps.
pub(crate) fn interval(
    lower: Option<Bound>,
    upper: Option<Bound>,
    closed: Closed,
    unit: Unit,
) -> Result<Interval> {
    let low = lower.map(|bound| end("lower", bound, unit, Round::Up)).transpose()?;
    let high = upper.map(|bound| end("upper", bound, unit, Round::Down)).transpose()?;
    if let (Some(low), Some(high)) = (low, high)
        && low.exact > high.exact
    {
        let show = |bound: Option<Bound>| match bound {
            Some(Bound::Steps(steps)) => format!("{steps}"),
            Some(Bound::Nanoseconds(nanoseconds)) => duration_text(nanoseconds),
            None => "None".to_owned(),
        };
        return Err(Error::argument(format!(
            "lower must not be greater than upper, but lower is {} and upper is {}; swap them",
            show(lower),
            show(upper)
        )));
    }
    let open_below =
        matches!(closed, Closed::Right | Closed::Neither) && low.is_some_and(|low| low.whole);
    let open_above =
        matches!(closed, Closed::Left | Closed::Neither) && high.is_some_and(|high| high.whole);
    let closed = match (open_below, open_above) {
        (false, false) => Closed::Both,
        (false, true) => Closed::Left,
        (true, false) => Closed::Right,
        (true, true) => Closed::Neither,
    };
    Ok(Interval { lower: low.map(|low| low.steps), upper: high.map(|high| high.steps), closed })
}

/// How far rows may be out of order, in steps of `unit`; rows are whole steps, so a rest means
/// nothing.
pub(crate) fn lateness(lateness: Option<Bound>, unit: Unit) -> Result<i64> {
    lateness.map_or(Ok(0), |lateness| length("lateness", lateness, unit))
}

/// A length of time of at least 0, in steps of `unit`; times are whole steps, so a rest means
/// nothing.
pub(crate) fn length(name: &str, length: Bound, unit: Unit) -> Result<i64> {
    let WholeEnd { steps, exact, .. } = end(name, length, unit, Round::Down)?;
    if steps < 0 {
        return Err(negative(name, exact, unit));
    }
    Ok(steps)
}

/// The least length in whole steps of `unit` that is no less than this one.
pub(crate) fn least_length(name: &str, length: Bound, unit: Unit) -> Result<i64> {
    let WholeEnd { steps, exact, .. } = end(name, length, unit, Round::Up)?;
    if exact.amount < 0 {
        return Err(negative(name, exact, unit));
    }
    Ok(steps)
}

/// Refuses a length in steps of timestamps: a number does not say which unit it is in. None is
/// needed for nothing.
pub(crate) fn check_has_unit(name: &str, length: Bound, unit: Unit) -> Result<()> {
    match (length, unit) {
        (Bound::Steps(0), _) | (_, Unit::Integer) | (Bound::Nanoseconds(_), _) => Ok(()),
        (Bound::Steps(steps), Unit::Nanoseconds(step)) => {
            let own = if step == DAY { "d" } else { unit.name() };
            let other = if own == "s" { "min" } else { "s" };
            Err(Error::schema(format!(
                "{name} is the integer {steps}, but the time columns are dates or timestamps; give \
                 {name} a unit, as in \"{steps}{other}\" or, for the unit of the columns, \
                 \"{steps}{own}\""
            )))
        }
    }
}

fn negative(name: &str, exact: Fraction, unit: Unit) -> Error {
    Error::argument(format!("{name} must not be negative, got {} ({})", exact.show(), unit.name()))
}

#[derive(Clone, Copy)]
enum Round {
    Up,
    Down,
}

/// An end in whole steps, and its value before it was rounded.
#[derive(Clone, Copy)]
struct WholeEnd {
    steps: i64,
    /// Whether nothing was rounded away. A time can then be equal to the end.
    whole: bool,
    exact: Fraction,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Fraction {
    /// Nanoseconds, or steps of an integer column.
    amount: i128,
    step: i64,
}

impl Fraction {
    fn show(self) -> String {
        let (whole, rest) =
            (self.amount / i128::from(self.step), self.amount % i128::from(self.step));
        if rest == 0 {
            whole.to_string()
        } else {
            format!("{:.9}", self.amount as f64 / self.step as f64)
        }
    }
}

fn end(name: &str, bound: Bound, unit: Unit, round: Round) -> Result<WholeEnd> {
    check_has_unit(name, bound, unit)?;
    let (amount, step) = match (bound, unit) {
        (Bound::Steps(steps), Unit::Integer) => (steps, 1),
        (Bound::Steps(steps), Unit::Nanoseconds(step)) => {
            (steps.saturating_mul(i128::from(step)), step)
        }
        (Bound::Nanoseconds(amount), Unit::Nanoseconds(step)) => (amount, step),
        (Bound::Nanoseconds(_), Unit::Integer) => {
            return Err(Error::schema(format!(
                "{name} is a duration, but the time columns are integers; give {name} as an \
                 integer in their unit"
            )));
        }
    };
    let (floor, rest) = (amount.div_euclid(i128::from(step)), amount.rem_euclid(i128::from(step)));
    let steps = match round {
        Round::Up if rest > 0 => floor + 1,
        _ => floor,
    };
    let steps = i64::try_from(steps).map_err(|_| {
        let next = if matches!(name, "lower" | "upper" | "tolerance") {
            "; give None for no bound"
        } else {
            ""
        };
        Error::argument(format!(
            "{name} is {steps} {}, which does not fit 64 bits{next}",
            unit.name()
        ))
    })?;
    Ok(WholeEnd { steps, whole: rest == 0, exact: Fraction { amount, step } })
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Unit = Unit::Nanoseconds(1_000);

    #[test]
    fn ends_between_steps_keep_their_meaning() {
        let found = interval(
            Some(Bound::Nanoseconds(-1_500)),
            Some(Bound::Nanoseconds(1_500)),
            Closed::Neither,
            US,
        )
        .unwrap();
        assert_eq!(found, Interval { lower: Some(-1), upper: Some(1), closed: Closed::Both });
        let found = interval(
            Some(Bound::Nanoseconds(-1_000)),
            Some(Bound::Nanoseconds(2_000)),
            Closed::Neither,
            US,
        )
        .unwrap();
        assert_eq!(found, Interval { lower: Some(-1), upper: Some(2), closed: Closed::Neither });
    }

    #[test]
    fn an_integer_is_no_length_of_time() {
        let steps = |steps, unit| length("size", Bound::Steps(steps), unit);
        assert_eq!(steps(5, Unit::Integer).unwrap(), 5);
        assert_eq!(steps(0, US).unwrap(), 0);
        let message = steps(5, US).unwrap_err().message().to_owned();
        assert!(message.ends_with("as in \"5s\" or, for the unit of the columns, \"5us\""));
        let message = steps(-1, Unit::Nanoseconds(DAY)).unwrap_err().message().to_owned();
        assert!(message.contains("size is the integer -1") && message.ends_with("\"-1d\""));
        let message = steps(1, Unit::Nanoseconds(1_000_000_000)).unwrap_err().message().to_owned();
        assert!(message.ends_with("\"1min\" or, for the unit of the columns, \"1s\""));
    }

    #[test]
    fn crossed_and_oversized_ends_are_refused() {
        let error =
            interval(Some(Bound::Steps(1)), Some(Bound::Steps(0)), Closed::Both, Unit::Integer)
                .unwrap_err();
        assert_eq!(
            error.message(),
            "lower must not be greater than upper, but lower is 1 and upper is 0; swap them"
        );
        let error =
            interval(Some(Bound::Steps(1 << 70)), None, Closed::Both, Unit::Integer).unwrap_err();
        assert!(error.message().contains("does not fit 64 bits"), "{error}");
        let error =
            interval(Some(Bound::Nanoseconds(1)), None, Closed::Both, Unit::Integer).unwrap_err();
        assert!(error.is_schema());
    }
}
