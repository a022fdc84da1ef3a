//! Typed operations and the functions that create them.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array,
    NullArray, StringArray, UInt64Array,
};
use arrow_cast::can_cast_types;
use arrow_schema::{DataType, TimeUnit};

use super::end::EndRule;
use super::pattern::Pattern;
use super::turn::Turn;
use super::types::{is_text_or_binary, leaf, literal_type, nanoseconds_of};
use super::{Arithmetic, Comparison, Literal, Origin, TimePart};
use crate::columns::cast::cast as exact;
use crate::columns::type_name::TypeName;
use crate::{Error, Result};

/// An operation whose type is known.
#[derive(Clone, Debug)]
pub(super) struct TypedOperation {
    pub(super) operation: Operation,
    pub(super) data_type: DataType,
    /// The text that the user wrote, for error messages.
    pub(super) text: String,
    /// True if some values cause an error.
    pub(super) can_fail: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Operation {
    /// One of the gathered columns. Left columns precede right columns.
    Column(usize),
    /// A field of a struct, by position.
    Field(Box<TypedOperation>, usize),
    /// An array of one value.
    Scalar(ArrayRef),
    Cast(Box<TypedOperation>),
    Negate(Box<TypedOperation>),
    Abs(Box<TypedOperation>),
    Not(Box<TypedOperation>),
    IsNull(Box<TypedOperation>),
    IsNotNull(Box<TypedOperation>),
    Arithmetic(Arithmetic, Box<[TypedOperation; 2]>),
    /// A division in `float64`, and the effect of dividing by zero.
    Divide(Box<[TypedOperation; 2]>, ZeroDivisor),
    /// The point at which a comparison becomes true or false. Users cannot write this operation.
    Turn(Turn, Box<[TypedOperation; 2]>),
    /// The end of an interval, computed from a value and a time on this side. The time is an
    /// `int64`.
    End(EndRule, Origin, Box<[TypedOperation; 2]>),
    Compare(Comparison, Box<[TypedOperation; 2]>),
    And(Box<[TypedOperation; 2]>),
    Or(Box<[TypedOperation; 2]>),
    /// Value, low, high.
    Between(Box<[TypedOperation; 3]>),
    /// The value and its items.
    In(Box<TypedOperation>, Vec<TypedOperation>),
    Match(Box<TypedOperation>, Pattern),
    /// The conditions with their values, and the value that is used if no condition holds.
    Case(Vec<(TypedOperation, TypedOperation)>, Box<TypedOperation>),
    Coalesce(Vec<TypedOperation>),
    Extract(TimePart, Box<TypedOperation>),
    Round(Rounding, Box<TypedOperation>),
    Call(TextFunction, Vec<TypedOperation>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ZeroDivisor {
    IsAnError,
    FollowsIeee754,
}

/// A function of a string and, for some functions, numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextFunction {
    Lower,
    Upper,
    Length,
    Substr,
    StartsWith,
    EndsWith,
    Contains,
}

/// The number of decimal digits to which a number is rounded, and the rounding mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rounding {
    pub(super) to: Toward,
    pub(super) digits: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Toward {
    Smaller,
    Larger,
    /// Rounds half away from zero.
    Nearest,
}

pub(super) fn any_can_fail(operands: &[TypedOperation]) -> bool {
    operands.iter().any(|operand| operand.can_fail)
}

impl TypedOperation {
    /// Combines two conditions with `and`.
    pub(super) fn and(self, other: TypedOperation) -> TypedOperation {
        let text = format!("{} AND {}", self.text, other.text);
        boolean(text, Operation::And(Box::new([self, other])))
    }
}

pub(super) fn boolean(text: String, operation: Operation) -> TypedOperation {
    let can_fail = match &operation {
        Operation::Not(x)
        | Operation::IsNull(x)
        | Operation::IsNotNull(x)
        | Operation::Match(x, _) => x.can_fail,
        Operation::Compare(_, operands) | Operation::And(operands) | Operation::Or(operands) => {
            any_can_fail(&**operands)
        }
        Operation::Between(operands) => any_can_fail(&**operands),
        Operation::In(value, items) => value.can_fail || any_can_fail(items),
        Operation::Call(_, operands) => any_can_fail(operands),
        _ => false,
    };
    TypedOperation { operation, data_type: DataType::Boolean, text, can_fail }
}

/// Converts the operand of a division to a float. Durations are first converted to integers.
pub(super) fn float(operand: TypedOperation) -> Result<TypedOperation> {
    match operand.data_type {
        DataType::Duration(_) => cast(cast(operand, &DataType::Int64)?, &DataType::Float64),
        _ => Ok(operand),
    }
}

/// Converts an operand to another type. Scalars are converted immediately.
pub(super) fn cast(operand: TypedOperation, to: &DataType) -> Result<TypedOperation> {
    let encoded = matches!(operand.data_type, DataType::RunEndEncoded(..));
    if !encoded && leaf(&operand.data_type) == to && is_text_or_binary(to)
        || operand.data_type == *to
    {
        return Ok(operand);
    }
    if let Operation::Scalar(value) = &operand.operation {
        let are_times = is_time(&operand.data_type) && is_time(to);
        if are_times && exact(value, to).is_err() {
            // The value does not fit in the finer unit of the other times, so it is compared in its
            // own unit.
            let (data_type, text) = (to.clone(), operand.text.clone());
            let operation = Operation::Cast(Box::new(operand));
            return Ok(TypedOperation { operation, data_type, text, can_fail: true });
        }
        let value = exact(value, to).map_err(|_| {
            Error::schema(format!(
                "where: the literal {} does not fit {}",
                operand.text,
                TypeName(to)
            ))
        })?;
        return Ok(TypedOperation {
            operation: Operation::Scalar(value),
            data_type: to.clone(),
            ..operand
        });
    }
    if !can_cast_types(&operand.data_type, to) {
        return Err(Error::schema(format!(
            "where: `{}` of type {} cannot be read as {}; convert the column first",
            operand.text,
            TypeName(&operand.data_type),
            TypeName(to)
        )));
    }
    // The value may not fit if the unit of time is finer or there are more decimal digits. Numbers
    // and text always fit.
    let can_fail =
        operand.can_fail || !(to.is_integer() || to.is_floating() || is_text_or_binary(to));
    let text = operand.text.clone();
    Ok(TypedOperation {
        operation: Operation::Cast(Box::new(operand)),
        data_type: to.clone(),
        text,
        can_fail,
    })
}

pub(super) fn scalar(literal: &Literal, data_type: &DataType) -> Result<TypedOperation> {
    let text = literal.to_string();
    let too_large = || {
        Error::schema(format!("where: the literal {text} does not fit {}", literal_type(literal)))
    };
    let value: ArrayRef = match literal {
        Literal::Null => Arc::new(NullArray::new(1)),
        Literal::Boolean(value) => Arc::new(BooleanArray::from(vec![*value])),
        Literal::Integer(value) => match (i64::try_from(*value), u64::try_from(*value)) {
            (Ok(value), _) => Arc::new(Int64Array::from(vec![value])),
            (_, Ok(value)) => Arc::new(UInt64Array::from(vec![value])),
            _ => return Err(too_large()),
        },
        Literal::Float(value) => Arc::new(Float64Array::from(vec![*value])),
        Literal::Decimal { value, .. } => {
            Arc::new(Decimal128Array::from(vec![*value]).with_data_type(literal_type(literal)))
        }
        Literal::Text(value) => Arc::new(StringArray::from(vec![value.as_str()])),
        Literal::Binary(value) => Arc::new(BinaryArray::from(vec![value.as_slice()])),
        Literal::Date(days) => Arc::new(Date32Array::from(vec![*days])),
        Literal::Timestamp { nanoseconds, .. } | Literal::Duration { nanoseconds } => {
            let (DataType::Timestamp(unit, _) | DataType::Duration(unit)) = literal_type(literal)
            else {
                unreachable!("this literal is a timestamp or a duration")
            };
            let value = in_unit(*nanoseconds, unit).ok_or_else(too_large)?;
            exact(&Int64Array::from(vec![value]), &literal_type(literal))?
        }
    };
    let data_type_on_its_own = value.data_type().clone();
    let bound = TypedOperation {
        operation: Operation::Scalar(value),
        data_type: data_type_on_its_own,
        text,
        can_fail: false,
    };
    cast(bound, data_type)
}

fn is_time(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..))
}

fn in_unit(nanoseconds: i128, unit: TimeUnit) -> Option<i64> {
    i64::try_from(nanoseconds / nanoseconds_of(unit)).ok()
}
