//! The typing rules, which determine the types for comparing and computing values.

use arrow_schema::DataType::{
    self, Binary, BinaryView, Boolean, Date32, Date64, Decimal32, Decimal64, Decimal128,
    Decimal256, Duration, FixedSizeBinary, Float16, Float32, Float64, Int8, Int16, Int32, Int64,
    LargeBinary, LargeUtf8, Null, Time32, Time64, Timestamp, UInt8, UInt16, UInt32, UInt64, Utf8,
    Utf8View,
};
use arrow_schema::TimeUnit;

use super::{Arithmetic, Literal};

/// All instants are computed and compared in UTC. UTC is written as an offset, because Arrow
/// supports time zone names only if an optional feature is enabled.
const UTC: &str = "+00:00";

/// A decimal type that can hold every `uint64`.
const UINT64_DECIMAL: DataType = Decimal128(20, 0);

/// Returns the type of the values. For a dictionary, this is the type of the dictionary's values.
pub(super) fn leaf(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

pub(crate) fn is_text_or_binary(data_type: &DataType) -> bool {
    is_text(data_type) || is_binary(data_type)
}

pub(super) fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, Utf8 | LargeUtf8 | Utf8View)
}

fn is_binary(data_type: &DataType) -> bool {
    matches!(data_type, Binary | LargeBinary | BinaryView | FixedSizeBinary(_))
}

fn is_float(data_type: &DataType) -> bool {
    matches!(data_type, Float16 | Float32 | Float64)
}

/// Returns the type in which values of two types can be compared without loss, or `None` if they
/// cannot be compared.
pub(super) fn comparison_type(left: &DataType, right: &DataType) -> Option<DataType> {
    match (left, right) {
        (Null, Null) => Some(Null),
        (Null, other) | (other, Null) => comparison_type(other, other),
        (Boolean, Boolean) => Some(Boolean),
        _ if is_text(left) && is_text(right) => {
            Some(if left == right { left.clone() } else { Utf8View })
        }
        _ if is_binary(left) && is_binary(right) => {
            Some(if left == right { left.clone() } else { BinaryView })
        }
        (Date32, Date32) => Some(Date32),
        (Duration(l), Duration(r)) => Some(Duration(*l.max(r))),
        (Time32(l) | Time64(l), Time32(r) | Time64(r)) => Some(time_type(*l.max(r))),
        _ => numbers(left, right).or_else(|| times(left, right)),
    }
}

fn numbers(left: &DataType, right: &DataType) -> Option<DataType> {
    let ((left_precision, left_scale), (right_precision, right_scale)) =
        match (digits(left), digits(right)) {
            (Some(left), Some(right)) => (left, right),
            // One type is a float, and the other is any numeric type.
            _ if is_float(left) && is_float(right) => {
                return Some(if *left == Float64 || *right == Float64 { Float64 } else { Float32 });
            }
            (Some(_), None) if is_float(right) => return Some(Float64),
            (None, Some(_)) if is_float(left) => return Some(Float64),
            _ => return None,
        };
    if let (Some(left), Some(right)) = (integer(left), integer(right)) {
        return Some(common_integer(left, right));
    }
    if left == right {
        return Some(left.clone());
    }
    let scale = left_scale.max(right_scale);
    let whole = (left_precision - left_scale).max(right_precision - right_scale);
    decimal_type(whole + scale, scale)
}

fn times(left: &DataType, right: &DataType) -> Option<DataType> {
    let ((left_unit, left_zoned), (right_unit, right_zoned)) = (instant(left)?, instant(right)?);
    (left_zoned == right_zoned).then(|| {
        if left == right {
            left.clone()
        } else {
            timestamp_type(left_unit.max(right_unit), left_zoned)
        }
    })
}

/// Returns whether an integer type is signed. Also returns its width in bits.
fn integer(data_type: &DataType) -> Option<(bool, u8)> {
    Some(match data_type {
        Int8 => (true, 8),
        Int16 => (true, 16),
        Int32 => (true, 32),
        Int64 => (true, 64),
        UInt8 => (false, 8),
        UInt16 => (false, 16),
        UInt32 => (false, 32),
        UInt64 => (false, 64),
        _ => return None,
    })
}

fn common_integer((left_signed, left): (bool, u8), (right_signed, right): (bool, u8)) -> DataType {
    let signed = left_signed || right_signed;
    // With a sign on the other side, an unsigned integer needs the next width.
    let bits = |of_signed: bool, bits: u8| if signed && !of_signed { 2 * bits } else { bits };
    match (signed, bits(left_signed, left).max(bits(right_signed, right))) {
        (true, 8) => Int8,
        (true, 16) => Int16,
        (true, 32) => Int32,
        (true, 64) => Int64,
        (true, _) => UINT64_DECIMAL,
        (false, 8) => UInt8,
        (false, 16) => UInt16,
        (false, 32) => UInt32,
        (false, _) => UInt64,
    }
}

/// Returns the precision and scale of a decimal type that can represent every value of an integer
/// or decimal type.
fn digits(data_type: &DataType) -> Option<(i16, i16)> {
    let (precision, scale) = match data_type {
        Int8 | UInt8 => (3, 0),
        Int16 | UInt16 => (5, 0),
        Int32 | UInt32 => (10, 0),
        Int64 => (19, 0),
        UInt64 => (20, 0),
        Decimal32(p, s) | Decimal64(p, s) | Decimal128(p, s) | Decimal256(p, s) => (*p, *s),
        _ => return None,
    };
    Some((precision.into(), scale.into()))
}

fn decimal_type(precision: i16, scale: i16) -> Option<DataType> {
    let (precision, scale) = (u8::try_from(precision.max(1)).ok()?, i8::try_from(scale).ok()?);
    match precision {
        0..=38 => Some(Decimal128(precision, scale)),
        39..=76 => Some(Decimal256(precision, scale)),
        _ => None,
    }
}

/// Returns an instant's unit. Also returns whether the instant has a time zone. A date is treated
/// as midnight on that day.
fn instant(data_type: &DataType) -> Option<(TimeUnit, bool)> {
    match data_type {
        Date32 => Some((TimeUnit::Second, false)),
        Date64 => Some((TimeUnit::Millisecond, false)),
        Timestamp(unit, zone) => Some((*unit, zone.is_some())),
        _ => None,
    }
}

fn timestamp_type(unit: TimeUnit, zoned: bool) -> DataType {
    Timestamp(unit, zoned.then(|| UTC.into()))
}

fn time_type(unit: TimeUnit) -> DataType {
    match unit {
        TimeUnit::Second | TimeUnit::Millisecond => Time32(unit),
        TimeUnit::Microsecond | TimeUnit::Nanosecond => Time64(unit),
    }
}

/// Returns the reason why two similar types are incompatible, or an empty string if the reason is
/// evident from the types.
pub(super) fn hint(left: &DataType, right: &DataType) -> &'static str {
    match (instant(left), instant(right)) {
        (Some((_, left)), Some((_, right))) if left != right => {
            ": one has a time zone and the other does not"
        }
        (Some(_), None) if is_text(right) => ": write a time as TIMESTAMP '2024-01-31 12:00:00'",
        (None, Some(_)) if is_text(left) => ": write a time as TIMESTAMP '2024-01-31 12:00:00'",
        _ => "",
    }
}

/// Returns the types to which arithmetic converts its two operands. Returns `None` if the operands
/// do not support the operation.
pub(super) fn operand_types(
    operator: Arithmetic,
    left: &DataType,
    right: &DataType,
) -> Option<(DataType, DataType)> {
    use Arithmetic::{Add, Divide, Subtract};
    let (left, right) = match (left, right) {
        (Null, Null) => (Int64, Int64),
        (Null, other) | (other, Null) if instant(other).is_none() => {
            (computed(other)?, computed(other)?)
        }
        _ => (computed(left)?, computed(right)?),
    };
    match (operator, &left, &right) {
        (Subtract, Timestamp(..), Timestamp(..)) => {
            times(&left, &right).map(|both| (both.clone(), both))
        }
        (Add | Subtract, Timestamp(l, zone), Duration(r)) => {
            Some((timestamp_type(*l.max(r), zone.is_some()), Duration(*l.max(r))))
        }
        (Add, Duration(l), Timestamp(r, zone)) => {
            Some((Duration(*l.max(r)), timestamp_type(*l.max(r), zone.is_some())))
        }
        (Add | Subtract | Divide, Duration(l), Duration(r)) => {
            Some((Duration(*l.max(r)), Duration(*l.max(r))))
        }
        _ if instant_or_duration(&left) || instant_or_duration(&right) => None,
        (Divide, ..) => Some((Float64, Float64)),
        _ if left == Float64 || right == Float64 => Some((Float64, Float64)),
        (_, Int64, Int64) => Some((Int64, Int64)),
        _ => {
            let wide = matches!(left, Decimal256(..)) || matches!(right, Decimal256(..));
            Some((as_decimal(&left, wide)?, as_decimal(&right, wide)?))
        }
    }
}

fn instant_or_duration(data_type: &DataType) -> bool {
    matches!(data_type, Timestamp(..) | Duration(_))
}

fn as_decimal(data_type: &DataType, wide: bool) -> Option<DataType> {
    let (precision, scale) = digits(data_type)?;
    let (precision, scale) = (u8::try_from(precision).ok()?, i8::try_from(scale).ok()?);
    Some(if wide { Decimal256(precision, scale) } else { Decimal128(precision, scale) })
}

/// Returns the type in which a value is computed. As a result, a few kernels suffice for all
/// types, and `int8 * 100` does not overflow.
pub(super) fn computed(data_type: &DataType) -> Option<DataType> {
    Some(match data_type {
        Null | Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 => Int64,
        UInt64 => UINT64_DECIMAL,
        Float16 | Float32 | Float64 => Float64,
        Decimal32(p, s) | Decimal64(p, s) | Decimal128(p, s) => Decimal128(*p, *s),
        Decimal256(..) | Duration(_) => data_type.clone(),
        _ => {
            let (unit, zoned) = instant(data_type)?;
            timestamp_type(unit, zoned)
        }
    })
}

/// Returns the default type of a literal.
pub(super) fn literal_type(literal: &Literal) -> DataType {
    match literal {
        Literal::Null => Null,
        Literal::Boolean(_) => Boolean,
        Literal::Integer(value) => {
            if i64::try_from(*value).is_ok() {
                Int64
            } else {
                UInt64
            }
        }
        Literal::Float(_) => Float64,
        Literal::Decimal { value, scale } => decimal_literal_type(*value, *scale),
        Literal::Text(_) => Utf8,
        Literal::Binary(_) => Binary,
        Literal::Date(_) => Date32,
        Literal::Timestamp { nanoseconds, zoned } => {
            timestamp_type(coarsest_unit(*nanoseconds), *zoned)
        }
        Literal::Duration { nanoseconds } => Duration(coarsest_unit(*nanoseconds)),
    }
}

/// Returns the type of a literal that is combined with a value of another type. If that other type
/// can represent the literal exactly, it is returned, so the column does not have to be cast.
pub(super) fn literal_type_beside(literal: &Literal, other: &DataType) -> DataType {
    let exact_in_f32 = |value: f64| f64::from(value as f32) == value || value.is_nan();
    match (literal, leaf(other)) {
        (Literal::Integer(value), other) if fits(*value, other) => other.clone(),
        (
            Literal::Integer(value),
            Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..),
        ) => decimal_literal_type(*value, 0),
        (Literal::Integer(value), Float32) if value.unsigned_abs() <= 1 << 24 => Float32,
        (Literal::Float(value), Float32) if exact_in_f32(*value) => Float32,
        (Literal::Text(_), other) if is_text(other) => other.clone(),
        (Literal::Binary(bytes), FixedSizeBinary(size))
            if usize::try_from(*size) != Ok(bytes.len()) =>
        {
            Binary
        }
        (Literal::Binary(_), other) if is_binary(other) => other.clone(),
        _ => literal_type(literal),
    }
}

fn fits(value: i128, data_type: &DataType) -> bool {
    integer(data_type).is_some_and(|(signed, bits)| {
        let (smallest, largest) =
            if signed { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) };
        (smallest..=largest).contains(&value)
    })
}

fn decimal_literal_type(value: i128, scale: u8) -> DataType {
    let digits = value.unsigned_abs().checked_ilog10().unwrap_or(0) + 1;
    // `parse_sql` has checked that there are at most 38 digits.
    Decimal128(
        u8::try_from(digits).unwrap_or(38).max(scale).max(1),
        i8::try_from(scale).unwrap_or(38),
    )
}

fn coarsest_unit(nanoseconds: i128) -> TimeUnit {
    let units = [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond];
    units
        .into_iter()
        .find(|unit| nanoseconds % nanoseconds_of(*unit) == 0)
        .unwrap_or(TimeUnit::Nanosecond)
}

/// Returns the number of nanoseconds in one unit.
pub(super) fn nanoseconds_of(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}
