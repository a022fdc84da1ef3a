//! Encodes band columns as codes, which are integers with the same order as the values.

use std::fmt;
use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Decimal128Type, Float64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use tidegate_operators::band::index::Bands;
use tidegate_operators::band::{Band, NO_RANGE, float_code};
use tidegate_operators::driver::Driver;
use tidegate_operators::rows::{NO_KEY, Side};
use tidegate_structures::memory;
use tidegate_structures::memory::pages::{Pages, Slot};

use super::cast::cast;
use super::distance::{CodeStep, Distance, Within};
use super::keys::common_type;
use super::misfit::misfit;
use super::table::{Table, column};
use super::time::{Int64s, Unit, as_int64, common_unit};
use crate::columns::type_name::TypeName;
use crate::{Error, Result};

/// The number of rows that a thread encodes at a time.
const PART_ROWS: usize = 1 << 16;

/// A pair of band columns with compatible types.
#[derive(Clone, Debug)]
pub(crate) struct ColumnPlan {
    left: usize,
    right: usize,
    names: (String, String),
    /// The type in which values from the two sides are compared.
    common: DataType,
    within: Within,
    pub(crate) band: Band,
}

/// The values of one side.
pub(crate) struct Codes {
    pub(crate) values: Int64s,
    /// Rows that are null or NaN. Their codes are meaningless.
    pub(crate) missing: Vec<u32>,
}

/// The values on one side, each with the smallest and largest value on the other side within its
/// band.
pub(crate) struct CodeRanges {
    pub(crate) codes: Int64s,
    pub(crate) low: Vec<i64>,
    pub(crate) high: Vec<i64>,
}

impl CodeRanges {
    pub(crate) fn bands(&self) -> Bands<'_> {
        self.part(0..self.low.len())
    }

    /// The bands of some rows.
    pub(crate) fn part(&self, rows: Range<usize>) -> Bands<'_> {
        Bands {
            codes: &self.codes[rows.clone()],
            low: &self.low[rows.clone()],
            high: &self.high[rows],
        }
    }

    /// Returns the ranges of the rows with these numbers.
    pub(crate) fn take(&self, rows: &[u32]) -> Self {
        let of =
            |values: &[i64]| -> Vec<i64> { rows.iter().map(|&row| values[row as usize]).collect() };
        CodeRanges {
            codes: Int64s::Arrow(of(&self.codes).into()),
            low: of(&self.low),
            high: of(&self.high),
        }
    }
}

/// Returns a band of width zero, in which only equal keys match.
pub(crate) fn of_keys(keys: &[u32]) -> CodeRanges {
    let range = |&key: &u32| if key == NO_KEY { NO_RANGE } else { (key.into(), key.into()) };
    let (low, high) = keys.iter().map(range).unzip();
    let codes = Int64s::Arrow(keys.iter().map(|&key| i64::from(key)).collect());
    CodeRanges { codes, low, high }
}

impl ColumnPlan {
    /// Returns the left and right columns.
    pub(crate) fn columns(&self) -> (usize, usize) {
        (self.left, self.right)
    }

    pub(crate) fn new(
        names: &(String, String),
        within: Within,
        left: &Schema,
        right: &Schema,
    ) -> Result<Self> {
        let at = (column("left", left, &names.0, "on")?, column("right", right, &names.1, "on")?);
        let common = compared_as(left.field(at.0), right.field(at.1))?;
        if (within.below, within.above) == (None, None) {
            return Err(Error::argument(format!(
                "within for `{}` has no bound; leave the column out of on",
                names.0
            )));
        }
        for distance in [within.below, within.above].into_iter().flatten() {
            distance.check(&names.0)?;
        }
        let band = match step(&common) {
            None => {
                let float = |end: Option<Distance>| {
                    end.map_or(Ok(f64::INFINITY), |end| end.as_float(&names.0))
                };
                Band::Floats { below: float(within.below)?, above: float(within.above)? }
            }
            Some(step) => {
                let steps = |end: Option<Distance>| {
                    end.map_or(Ok(None), |end| end.as_steps(&names.0, step))
                };
                Band::Steps { below: steps(within.below)?, above: steps(within.above)? }
            }
        };
        Ok(ColumnPlan { left: at.0, right: at.1, names: names.clone(), common, within, band })
    }

    /// Returns the name of the right column, as shown to users.
    pub(crate) fn right_name(&self) -> String {
        format!("right.{}", self.names.1)
    }

    /// The codes of both sides.
    pub(crate) fn codes(
        &self,
        left: &Table,
        right: &Table,
        driver: &Driver,
    ) -> Result<(Codes, Codes)> {
        Ok((self.side(left, self.left, driver)?, self.side(right, self.right, driver)?))
    }

    /// Returns the codes on one side, and the range of codes on the other side that each row
    /// matches.
    pub(crate) fn ranges(&self, side: Side, table: &Table, driver: &Driver) -> Result<CodeRanges> {
        let (column, band) = match side {
            Side::Left => (self.left, self.band),
            Side::Right => (self.right, self.band.reversed()),
        };
        let Codes { values, missing } = self.side(table, column, driver)?;
        let (mut low, mut high) =
            (memory::filled(values.len(), 0), memory::filled(values.len(), 0));
        let size = values.len().div_ceil(driver.parts(values.len(), PART_ROWS)).max(1);
        let parts =
            values.chunks(size).zip(low.chunks_mut(size).zip(high.chunks_mut(size))).collect();
        driver.map(parts, |(values, (low, high)): (&[i64], (&mut [i64], &mut [i64]))| {
            band.ranges(values, low, high)
        })?;
        for row in missing {
            (low[row as usize], high[row as usize]) = NO_RANGE;
        }
        Ok(CodeRanges { codes: values, low, high })
    }

    fn side(&self, table: &Table, column: usize, driver: &Driver) -> Result<Codes> {
        let chunks = table.chunks(column);
        // In most cases, the values are used unchanged.
        if let [chunk] = &chunks[..]
            && *chunk.data_type() == self.common
            && chunk.null_count() == 0
            && let Some(values) = as_int64(chunk)
        {
            return Ok(Codes { values: Int64s::Arrow(values), missing: Vec::new() });
        }
        let mut values = Pages::unwritten(table.rows());
        let mut rest = &mut values[..];
        let mut first = 0;
        let mut pieces = Vec::new();
        for chunk in &chunks {
            for start in (0..chunk.len()).step_by(PART_ROWS) {
                let piece = chunk.slice(start, PART_ROWS.min(chunk.len() - start));
                let (out, others) = std::mem::take(&mut rest).split_at_mut(piece.len());
                rest = others;
                first += piece.len();
                pieces.push((first - piece.len(), piece, out));
            }
        }
        let missing =
            driver.map(pieces, |(first, piece, out): (usize, ArrayRef, &mut [Slot<i64>])| {
                encode(&piece, &self.common, first as u32, out).map_err(|error| {
                    let name = table.schema().field(column).name();
                    Error::data(format!("{}: column `{name}`, {error}", table.name()))
                })
            })?;
        let missing = missing.into_iter().collect::<Result<Vec<_>>>()?.concat();
        Ok(Codes { values: Int64s::Own(values.written()), missing })
    }
}

impl fmt::Display for ColumnPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ColumnPlan { names: (left, right), within: Within { below, above }, common, .. } = self;
        let lower = below.map_or(String::new(), |below| format!("left.{left} - {below} <= "));
        let upper = above.map_or(String::new(), |above| format!(" <= left.{left} + {above}"));
        write!(f, "{lower}right.{right}{upper}, compared as {}", TypeName(common))
    }
}

/// Returns the type in which the values of two band columns are compared.
fn compared_as(left: &Field, right: &Field) -> Result<DataType> {
    use DataType::{Date32, Date64, Decimal128, Dictionary, Float64, Timestamp};
    fn plain(data_type: &DataType) -> &DataType {
        if let Dictionary(_, values) = data_type { values } else { data_type }
    }
    let (l, r) = (plain(left.data_type()), plain(right.data_type()));
    let is_time = |t: &DataType| matches!(t, Date32 | Date64 | Timestamp(..));
    let is_number = |t: &DataType| t.is_integer() || t.is_floating();
    // An integer has up to 20 digits.
    let as_decimal = |t: &DataType| if t.is_integer() { Decimal128(20, 0) } else { t.clone() };
    let common = match (l, r) {
        (l, r) if is_time(l) && is_time(r) => {
            let zone = if let Timestamp(_, zone) = l { zone.clone() } else { None };
            let unit = common_unit(
                &left.clone().with_data_type(l.clone()),
                &right.clone().with_data_type(r.clone()),
            )?;
            Some(match unit {
                Unit::Nanoseconds(1) => Timestamp(TimeUnit::Nanosecond, zone),
                Unit::Nanoseconds(1_000) => Timestamp(TimeUnit::Microsecond, zone),
                Unit::Nanoseconds(1_000_000) => Timestamp(TimeUnit::Millisecond, zone),
                Unit::Nanoseconds(1_000_000_000) => Timestamp(TimeUnit::Second, zone),
                _ => Date32,
            })
        }
        (l, r) if l.is_integer() && r.is_integer() => common_type(l, r),
        (l, r) if is_number(l) && is_number(r) => Some(Float64),
        (l, r) if l.is_decimal() || r.is_decimal() => common_type(&as_decimal(l), &as_decimal(r)),
        _ => None,
    };
    let are_decimal = as_decimal(l).is_decimal() && as_decimal(r).is_decimal();
    common.filter(|common| !matches!(common, DataType::Decimal256(..))).ok_or_else(|| {
        let expected = match are_decimal {
            true => {
                "and comparing them exactly requires more than 38 digits; cast one to fewer digits"
            }
            false => "expected two numbers, or two dates or timestamps; cast one of them",
        };
        Error::schema(format!(
            "columns of these types cannot be joined by a band: left `{}` is {}, right `{}` is {}; \
             {expected}",
            left.name(),
            TypeName(left.data_type()),
            right.name(),
            TypeName(right.data_type())
        ))
    })
}

/// Returns the step between a type's codes, or `None` for floating-point numbers.
fn step(common: &DataType) -> Option<CodeStep> {
    match common {
        DataType::Float64 => None,
        DataType::Decimal128(_, scale) => Some(CodeStep::Power(i32::from(*scale))),
        DataType::Int64 | DataType::UInt64 => Some(CodeStep::Power(0)),
        time => {
            Some(CodeStep::Time(Unit::of("", &Field::new("", time.clone(), true)).expect("a time")))
        }
    }
}

/// Writes the codes of a chunk whose first row is `first`. Returns the rows that have no code.
fn encode(
    chunk: &ArrayRef,
    common: &DataType,
    first: u32,
    out: &mut [Slot<i64>],
) -> Result<Vec<u32>> {
    let chunk = match chunk.data_type() {
        DataType::Dictionary(_, values) => cast(chunk, values)?,
        _ => chunk.clone(),
    };
    if let (DataType::UInt64, DataType::Int64) = (chunk.data_type(), common) {
        check_int64(chunk.as_primitive(), first)?;
    }
    let array = cast(&chunk, common).map_err(|error| match misfit(&chunk, common) {
        Some((row, text)) => Error::data(format!("row {}: {text}", first as usize + row)),
        None => error.into(),
    })?;
    let mut missing: Vec<u32> = match array.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => Vec::new(),
        Some(nulls) => {
            (first..).zip(nulls).filter(|(_, valid)| !valid).map(|(row, _)| row).collect()
        }
    };
    match common {
        DataType::Float64 => {
            for ((value, out), row) in
                array.as_primitive::<Float64Type>().values().iter().zip(out).zip(first..)
            {
                out.set(float_code(*value).unwrap_or_else(|| {
                    missing.push(row);
                    0
                }));
            }
        }
        DataType::UInt64 => {
            each(array.as_primitive::<UInt64Type>().values(), out, |v| v.cast_signed() ^ i64::MIN)
        }
        DataType::Date32 => each(array.as_primitive::<Date32Type>().values(), out, i64::from),
        DataType::Decimal128(_, scale) => {
            let values = array.as_primitive::<Decimal128Type>();
            for (row, out) in out.iter_mut().enumerate() {
                let value =
                    if values.is_null(row) { Ok(0) } else { i64::try_from(values.value(row)) };
                out.set(value.map_err(|_| {
                    let value = values.value_as_string(row);
                    Error::data(format!(
                        "row {}: {value} does not fit 64 bits with {scale} decimal places; cast \
                         the column to float64",
                        first as usize + row
                    ))
                })?);
            }
        }
        _ => {
            Slot::copy(out, &as_int64(&array).expect("the type is stored as 64-bit integers"));
        }
    }
    Ok(missing)
}

/// Rejects unsigned numbers that do not fit in `int64`, because 64-bit codes cannot represent both
/// such numbers and negative numbers.
fn check_int64(values: &PrimitiveArray<UInt64Type>, first: u32) -> Result<()> {
    let beyond = (first..)
        .zip(values)
        .find(|(_, value)| value.is_some_and(|value| i64::try_from(value).is_err()));
    let Some((row, Some(value))) = beyond else { return Ok(()) };
    Err(Error::data(format!(
        "row {row}: {value} does not fit int64, the type in which unsigned integers are compared \
         with signed ones; cast the other side's column to uint64 if it has no negative numbers, \
         or to float64"
    )))
}

fn each<T: Copy>(values: &[T], out: &mut [Slot<i64>], code: impl Fn(T) -> i64) {
    values.iter().zip(out).for_each(|(&value, out)| out.set(code(value)));
}
