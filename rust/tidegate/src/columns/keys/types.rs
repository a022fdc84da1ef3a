//! The types of keys, which determine whether and how two keys can be compared for equality.

use arrow_schema::{DataType, TimeUnit};

/// Returns the type in which values of two types can be compared for equality, if there is one.
pub(crate) fn common_type(left: &DataType, right: &DataType) -> Option<DataType> {
    use DataType::{
        Binary, BinaryView, Boolean, Date32, Date64, Decimal32, Decimal64, Decimal128, Decimal256,
        Dictionary, FixedSizeBinary, Float64, Int64, LargeBinary, LargeUtf8, Null, Timestamp,
        UInt64, Utf8, Utf8View,
    };
    let string = |t: &DataType| matches!(t, Utf8 | LargeUtf8 | Utf8View);
    let binary = |t: &DataType| matches!(t, Binary | LargeBinary | BinaryView | FixedSizeBinary(_));
    match (left, right) {
        (Dictionary(_, values), other) | (other, Dictionary(_, values)) => {
            common_type(values, other)
        }
        (a, b) if a.is_signed_integer() && b.is_signed_integer() => Some(Int64),
        (a, b) if a.is_unsigned_integer() && b.is_unsigned_integer() => Some(UInt64),
        (a, b) if a.is_integer() && b.is_integer() => Some(Int64),
        (a, b) if a.is_floating() && b.is_floating() => Some(Float64),
        (a, b) if string(a) && string(b) => Some(if a == b { a.clone() } else { LargeUtf8 }),
        (a, b) if binary(a) && binary(b) => Some(if a == b { a.clone() } else { LargeBinary }),
        (Null, Null) | (Boolean, Boolean) => Some(Boolean),
        // A null matches nothing, so the type on the other side decides.
        (Null, other) | (other, Null) => common_type(other, other),
        (Date32 | Date64, Date32 | Date64) => {
            Some(if left == right { left.clone() } else { Date64 })
        }
        (Timestamp(a, zone), Timestamp(b, other)) if zone.is_some() == other.is_some() => {
            Some(Timestamp(finer(*a, *b), zone.clone()))
        }
        (
            Decimal32(a, s) | Decimal64(a, s) | Decimal128(a, s) | Decimal256(a, s),
            Decimal32(b, t) | Decimal64(b, t) | Decimal128(b, t) | Decimal256(b, t),
        ) => {
            let scale = *s.max(t);
            let whole = (i16::from(*a) - i16::from(*s)).max(i16::from(*b) - i16::from(*t));
            let digits = u8::try_from(whole + i16::from(scale)).ok()?;
            match digits {
                0..=38 => Some(Decimal128(digits, scale)),
                39..=76 => Some(Decimal256(digits, scale)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// If columns of these types can contain both negative integers and integers that need all 64
/// unsigned bits, returns a type that can represent both. No 64-bit integer type can hold all of
/// these values.
pub(crate) fn beyond_64_bits(types: &[&DataType]) -> Option<DataType> {
    let plain = |t: &&DataType| match t {
        DataType::Dictionary(_, values) => (**values).clone(),
        other => (*other).clone(),
    };
    let types: Vec<DataType> = types.iter().map(plain).collect();
    let needs_both = types.contains(&DataType::UInt64)
        && types.iter().any(DataType::is_signed_integer)
        && types.iter().all(DataType::is_integer);
    needs_both.then_some(DataType::Decimal128(20, 0))
}

fn finer(a: TimeUnit, b: TimeUnit) -> TimeUnit {
    let rank = |unit| match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    };
    if rank(a) >= rank(b) { a } else { b }
}

/// Returns whether values of this type can be compared for equality as 64-bit words, provided that
/// floats are in canonical form.
pub(crate) fn is_word(data_type: &DataType) -> bool {
    use DataType::{Boolean, Date32, Date64, Float64, Int64, Timestamp, UInt64};
    matches!(data_type, Boolean | Date32 | Date64 | Float64 | Int64 | Timestamp(..) | UInt64)
}

pub(super) fn is_bytes(data_type: &DataType) -> bool {
    use DataType::{Binary, BinaryView, FixedSizeBinary, LargeBinary, LargeUtf8, Utf8, Utf8View};
    matches!(
        data_type,
        Binary | BinaryView | FixedSizeBinary(_) | LargeBinary | LargeUtf8 | Utf8 | Utf8View
    )
}
