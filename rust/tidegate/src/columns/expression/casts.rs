//! `CAST`, for the types that users can convert explicitly.

use arrow_cast::can_cast_types;
use arrow_schema::{DataType, TimeUnit};

use super::CastType;
use super::bound::{Operation, TypedOperation};
use super::types::{is_text, leaf};
use crate::columns::type_name::TypeName;
use crate::{Error, Result};

/// The operand in another type. A value that the type cannot represent causes an error when the
/// value is evaluated.
pub(super) fn bind(operand: TypedOperation, to: CastType, text: String) -> Result<TypedOperation> {
    let from = leaf(&operand.data_type).clone();
    let Some(data_type) = target(&from, to).filter(|to| can_cast_types(&from, to)) else {
        let hint = match (&from, to) {
            (DataType::Timestamp(_, Some(_)), CastType::Date | CastType::Timestamp) => {
                "; its date depends on a time zone: convert the column first"
            }
            (DataType::Timestamp(..) | DataType::Duration(_), _) => {
                "; to obtain a number, subtract times or divide by an INTERVAL"
            }
            _ => "",
        };
        return Err(Error::schema(format!(
            "where `{text}`: `{}` of type {} cannot be cast to {to}{hint}",
            operand.text,
            TypeName(&operand.data_type)
        )));
    };
    Ok(converted(operand, data_type, text))
}

/// Converts the operand to exactly this type, because kernels rely on the exact type. Some values
/// may not fit.
pub(super) fn converted(
    operand: TypedOperation,
    data_type: DataType,
    text: String,
) -> TypedOperation {
    if operand.data_type == data_type {
        return TypedOperation { text, ..operand };
    }
    TypedOperation {
        operation: Operation::Cast(Box::new(operand)),
        data_type,
        text,
        can_fail: true,
    }
}

/// Returns the type that results from casting a value of this type, or `None` if such a cast is
/// impossible.
fn target(from: &DataType, to: CastType) -> Option<DataType> {
    let is_number = from.is_numeric() || *from == DataType::Null;
    let data_type = match to {
        CastType::Boolean => DataType::Boolean,
        CastType::TinyInt => DataType::Int8,
        CastType::SmallInt => DataType::Int16,
        CastType::Integer => DataType::Int32,
        CastType::BigInt => DataType::Int64,
        CastType::Real => DataType::Float32,
        CastType::Double => DataType::Float64,
        CastType::Decimal(precision, scale) => DataType::Decimal128(precision, scale),
        CastType::Text => DataType::Utf8View,
        CastType::Date => DataType::Date32,
        CastType::Timestamp => match from {
            DataType::Timestamp(unit, None) => DataType::Timestamp(*unit, None),
            DataType::Date32 | DataType::Date64 => DataType::Timestamp(TimeUnit::Second, None),
            _ => DataType::Timestamp(TimeUnit::Nanosecond, None),
        },
    };
    let is_possible = match to {
        _ if is_text(from) || *from == DataType::Null => true,
        CastType::Text => !from.is_nested() && !matches!(from, DataType::Duration(_)),
        CastType::Boolean => *from == DataType::Boolean || from.is_integer(),
        CastType::Decimal(..) => is_number,
        CastType::Date | CastType::Timestamp => {
            matches!(from, DataType::Date32 | DataType::Date64 | DataType::Timestamp(_, None))
        }
        _ => is_number || *from == DataType::Boolean,
    };
    is_possible.then_some(data_type)
}
