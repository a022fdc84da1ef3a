//! The types and values of functions, `CASE` and `coalesce`.

use std::sync::Arc;

use arrow_arith::temporal::{DatePart, date_part};
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Int64Array, StringViewArray};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{ArrowError, DataType, TimeUnit};
use arrow_select::filter::{FilterBuilder, FilterPredicate};
use arrow_select::merge::merge;
use arrow_string::like::{contains, ends_with, starts_with};

use super::bound::{Operation, Rounding, TextFunction, Toward, TypedOperation, any_can_fail};
use super::casts::converted;
use super::evaluate::{BlockPairs, Value};
use super::types::{computed, is_text, leaf};
use super::{ScalarFunction, TimePart};
use crate::columns::cast::cast;
use crate::columns::type_name::TypeName;
use crate::{Error, Result};

/// The maximum number of decimal digits to which a number can be rounded.
const MOST_DIGITS: i64 = 15;

/// Binds a string function or a rounding function to its operands.
pub(super) fn bind(
    function: ScalarFunction,
    operands: Vec<TypedOperation>,
    text: String,
) -> Result<TypedOperation> {
    let to = match function {
        ScalarFunction::Floor => Toward::Smaller,
        ScalarFunction::Ceil => Toward::Larger,
        ScalarFunction::Round => Toward::Nearest,
        _ => return of_text(function, operands, text),
    };
    let mut operands = operands.into_iter();
    let (value, digits) = (operands.next(), operands.next());
    let value = value.expect("`parse_sql` counts the values of a function");
    let digits = digits.map_or(Ok(0), |digits| digits_of(&digits, &text))?;
    rounded(value, Rounding { to, digits }, text)
}

/// Returns the first value that is not null. All operands have the same type.
pub(super) fn coalesce(operands: Vec<TypedOperation>, text: String) -> TypedOperation {
    let (data_type, can_fail) = (operands[0].data_type.clone(), any_can_fail(&operands));
    TypedOperation { operation: Operation::Coalesce(operands), data_type, text, can_fail }
}

/// Returns the value of the first condition that holds. All values have the same type.
pub(super) fn case(
    branches: Vec<(TypedOperation, TypedOperation)>,
    otherwise: TypedOperation,
    text: String,
) -> TypedOperation {
    let of_branches = branches.iter().any(|(condition, x)| condition.can_fail || x.can_fail);
    let (data_type, can_fail) = (otherwise.data_type.clone(), of_branches || otherwise.can_fail);
    TypedOperation {
        operation: Operation::Case(branches, Box::new(otherwise)),
        data_type,
        text,
        can_fail,
    }
}

/// Converts operands to the type in which they are compared, and removes their dictionaries.
pub(super) fn in_one_type(operands: Vec<TypedOperation>) -> Vec<TypedOperation> {
    let Some(first) = operands.first() else { return operands };
    let to = match leaf(&first.data_type) {
        text if is_text(text) => DataType::Utf8View,
        other => other.clone(),
    };
    let one = |operand: TypedOperation| {
        let (text, can_fail) = (operand.text.clone(), operand.can_fail);
        // Strings and binary values fit any layout, and all other values already have the type.
        TypedOperation { can_fail, ..converted(operand, to.clone(), text) }
    };
    operands.into_iter().map(one).collect()
}

/// Extracts a part of a date or time.
pub(super) fn extract(
    part: TimePart,
    time: TypedOperation,
    text: String,
) -> Result<TypedOperation> {
    let is_time = match leaf(&time.data_type) {
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => true,
        DataType::Time32(_) | DataType::Time64(_) => {
            matches!(part, TimePart::Hour | TimePart::Minute | TimePart::Second)
        }
        _ => false,
    };
    if !is_time {
        return Err(Error::schema(format!(
            "where `{text}`: expected a date or a time that has the part {part}, but `{}` is {}",
            time.text,
            TypeName(&time.data_type)
        )));
    }
    let time = match leaf(&time.data_type) {
        DataType::Date32 | DataType::Date64 => {
            let text = time.text.clone();
            converted(time, DataType::Timestamp(TimeUnit::Second, None), text)
        }
        other => {
            let (other, text, can_fail) = (other.clone(), time.text.clone(), time.can_fail);
            TypedOperation { can_fail, ..converted(time, other, text) }
        }
    };
    // Some instants are in years outside the calendar's range.
    let operation = Operation::Extract(part, Box::new(time));
    Ok(TypedOperation { operation, data_type: DataType::Int64, text, can_fail: true })
}

fn digits_of(digits: &TypedOperation, text: &str) -> Result<u8> {
    if let Operation::Scalar(value) = &digits.operation
        && *value.data_type() == DataType::Int64
        && let value = value.as_primitive::<Int64Type>().value(0)
        && (0..=MOST_DIGITS).contains(&value)
    {
        return Ok(u8::try_from(value).unwrap_or_default());
    }
    Err(Error::schema(format!(
        "where `{text}`: expected a number of digits from 0 to {MOST_DIGITS}, but found `{}`",
        digits.text
    )))
}

fn rounded(value: TypedOperation, rounding: Rounding, text: String) -> Result<TypedOperation> {
    let from = leaf(&value.data_type).clone();
    if from.is_integer() {
        return Ok(TypedOperation { text, ..value });
    }
    let (operand_type, data_type) = match computed(&from) {
        Some(DataType::Float64) => (DataType::Float64, DataType::Float64),
        Some(DataType::Decimal128(precision, scale)) => {
            let kept = i8::try_from(rounding.digits).unwrap_or(i8::MAX);
            let operand = DataType::Decimal128(precision, scale);
            if scale <= kept {
                return Ok(TypedOperation { text, ..converted_to(value, operand) });
            }
            // This allows one more digit before the decimal point, because 9.9 is rounded to 10.
            let whole = i16::from(precision) - i16::from(scale) + 1 + i16::from(kept);
            let digits = u8::try_from(whole.clamp(1, 38)).unwrap_or(38);
            (operand, DataType::Decimal128(digits, kept))
        }
        _ => {
            return Err(Error::schema(format!(
                "where `{text}`: expected a number of at most 38 digits, but `{}` is {}",
                value.text,
                TypeName(&value.data_type)
            )));
        }
    };
    let value = converted_to(value, operand_type);
    let can_fail = value.can_fail || data_type != DataType::Float64;
    Ok(TypedOperation {
        operation: Operation::Round(rounding, Box::new(value)),
        data_type,
        text,
        can_fail,
    })
}

/// Converts a number to the type that is used to compute with it. The target type can represent the
/// number.
fn converted_to(value: TypedOperation, data_type: DataType) -> TypedOperation {
    let (text, can_fail) = (value.text.clone(), value.can_fail);
    TypedOperation { can_fail, ..converted(value, data_type, text) }
}

fn of_text(
    function: ScalarFunction,
    operands: Vec<TypedOperation>,
    text: String,
) -> Result<TypedOperation> {
    let (function, data_type) = match function {
        ScalarFunction::Lower => (TextFunction::Lower, DataType::Utf8View),
        ScalarFunction::Upper => (TextFunction::Upper, DataType::Utf8View),
        ScalarFunction::Length => (TextFunction::Length, DataType::Int64),
        ScalarFunction::Substr => (TextFunction::Substr, DataType::Utf8View),
        ScalarFunction::StartsWith => (TextFunction::StartsWith, DataType::Boolean),
        ScalarFunction::EndsWith => (TextFunction::EndsWith, DataType::Boolean),
        _ => (TextFunction::Contains, DataType::Boolean),
    };
    let operands = operands.into_iter().enumerate().map(|(place, operand)| {
        let is_number = function == TextFunction::Substr && place > 0;
        let from = leaf(&operand.data_type);
        let fits = match is_number {
            true => computed(from) == Some(DataType::Int64),
            false => is_text(from) || *from == DataType::Null,
        };
        if !fits {
            let expected = if is_number { "a whole number" } else { "text" };
            return Err(Error::schema(format!(
                "where `{text}`: expected {expected}, but `{}` is {}",
                operand.text,
                TypeName(&operand.data_type)
            )));
        }
        Ok(converted_to(operand, if is_number { DataType::Int64 } else { DataType::Utf8View }))
    });
    let operands = operands.collect::<Result<Vec<_>>>()?;
    // The length of a part may be negative.
    let can_fail = any_can_fail(&operands) || operands.len() == 3;
    Ok(TypedOperation { operation: Operation::Call(function, operands), data_type, text, can_fail })
}

impl TextFunction {
    /// Returns the function's values. The operands must have the types that the function expects.
    pub(super) fn values(self, operands: &[Value]) -> Result<ArrayRef, ArrowError> {
        let text = || operands[0].array().as_string_view();
        Ok(match self {
            TextFunction::Lower => changed(text(), str::to_lowercase),
            TextFunction::Upper => changed(text(), str::to_uppercase),
            TextFunction::Length => {
                let count = |text: &str| i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
                Arc::new(text().iter().map(|text| text.map(count)).collect::<Int64Array>())
            }
            TextFunction::StartsWith => Arc::new(starts_with(&operands[0], &operands[1])?),
            TextFunction::EndsWith => Arc::new(ends_with(&operands[0], &operands[1])?),
            TextFunction::Contains => Arc::new(contains(&operands[0], &operands[1])?),
            TextFunction::Substr => {
                let numbers = |place: usize| operands[place].array().as_primitive::<Int64Type>();
                let parts = match operands.len() {
                    2 => text()
                        .iter()
                        .zip(numbers(1).iter())
                        .map(|(text, start)| {
                            Ok(text.zip(start).map(|(text, start)| part_of(text, start, i64::MAX)))
                        })
                        .collect::<Result<StringViewArray, ArrowError>>()?,
                    _ => text()
                        .iter()
                        .zip(numbers(1).iter())
                        .zip(numbers(2).iter())
                        .map(|((text, start), length)| match (text, start, length) {
                            (.., Some(length)) if length < 0 => Err(ArrowError::ComputeError(
                                format!("the length {length} is negative"),
                            )),
                            (Some(text), Some(start), Some(length)) => {
                                Ok(Some(part_of(text, start, length)))
                            }
                            _ => Ok(None),
                        })
                        .collect::<Result<StringViewArray, ArrowError>>()?,
                };
                Arc::new(parts)
            }
        })
    }

    /// Returns whether the function's kernel accepts a mix of scalars and arrays.
    pub(super) fn takes_scalars(self) -> bool {
        matches!(self, Self::StartsWith | Self::EndsWith | Self::Contains)
    }
}

fn changed(texts: &StringViewArray, change: impl Fn(&str) -> String) -> ArrayRef {
    Arc::new(texts.iter().map(|text| text.map(&change)).collect::<StringViewArray>())
}

/// Returns `length` characters from position `start`, where the first character has position 1.
fn part_of(text: &str, start: i64, length: i64) -> &str {
    let end = start.saturating_add(length);
    let skipped = usize::try_from(start.saturating_sub(1)).unwrap_or(0);
    let taken = usize::try_from(end.saturating_sub(start.max(1))).unwrap_or(0);
    let place = |text: &str, characters: usize| {
        text.char_indices().nth(characters).map_or(text.len(), |(place, _)| place)
    };
    let rest = &text[place(text, skipped)..];
    &rest[..place(rest, taken)]
}

/// Returns the part of each time, as `int64`.
pub(super) fn part_values(part: TimePart, times: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let part = match part {
        TimePart::Year => DatePart::Year,
        TimePart::Quarter => DatePart::Quarter,
        TimePart::Month => DatePart::Month,
        TimePart::Week => DatePart::WeekISO,
        TimePart::Day => DatePart::Day,
        TimePart::DayOfWeek => DatePart::DayOfWeekSunday0,
        TimePart::DayOfYear => DatePart::DayOfYear,
        TimePart::Hour => DatePart::Hour,
        TimePart::Minute => DatePart::Minute,
        TimePart::Second => DatePart::Second,
    };
    let parts = date_part(times, part)?;
    if parts.null_count() > times.logical_null_count() {
        let reason = "a time is in a year outside the calendar's range";
        return Err(ArrowError::ComputeError(reason.to_owned()));
    }
    cast(&parts, &DataType::Int64)
}

impl Rounding {
    /// Returns the rounded numbers as floats or decimals of this type.
    pub(super) fn values(
        self,
        numbers: &ArrayRef,
        data_type: &DataType,
    ) -> Result<ArrayRef, ArrowError> {
        if let (DataType::Decimal128(.., from), DataType::Decimal128(precision, to)) =
            (numbers.data_type(), data_type)
        {
            let places = u32::try_from(from - to).unwrap_or(0);
            let numbers = numbers.as_primitive::<Decimal128Type>();
            let rounded = numbers.unary::<_, Decimal128Type>(|x| self.cut(x, places));
            let rounded = rounded.with_precision_and_scale(*precision, *to)?;
            rounded.validate_decimal_precision(*precision)?;
            return Ok(Arc::new(rounded));
        }
        let numbers = numbers.as_primitive::<Float64Type>();
        Ok(Arc::new(numbers.unary::<_, Float64Type>(|x| self.float(x))))
    }

    /// Returns a number without its last digits.
    fn cut(self, x: i128, places: u32) -> i128 {
        // A decimal has at most 38 digits, and its scale is at most 38.
        let step = 10_i128.pow(places.min(38));
        let (whole, rest) = (x.div_euclid(step), x.rem_euclid(step));
        let up = match self.to {
            Toward::Smaller => false,
            Toward::Larger => rest > 0,
            Toward::Nearest if x < 0 => rest > step / 2,
            Toward::Nearest => rest >= step - step / 2,
        };
        whole + i128::from(up)
    }

    fn float(self, x: f64) -> f64 {
        match self.to {
            Toward::Smaller => x.floor(),
            Toward::Larger => x.ceil(),
            Toward::Nearest => {
                let factor = 10_f64.powi(i32::from(self.digits));
                let rounded = (x * factor).round() / factor;
                // Such large numbers have no digits after the decimal point.
                if rounded.is_finite() { rounded } else { x }
            }
        }
    }
}

/// Returns one value per row, from the first operand that is not null.
pub(super) fn first_values(operands: &[TypedOperation], rows: &BlockPairs) -> Result<ArrayRef> {
    let (first, rest) = operands.split_first().expect("`coalesce` has a value");
    let values = first.values(rows)?;
    if rest.is_empty() || values.logical_null_count() == 0 {
        return Ok(values);
    }
    let is_there = match values.logical_nulls() {
        Some(nulls) => BooleanArray::from(nulls.into_inner()),
        None => return Ok(values),
    };
    let rest = first_values(rest, &of(rows, &among(!is_there.values())))?;
    let values = arrow_select::filter::filter(&values, &is_there)?;
    Ok(merge(&is_there, &values, &rest)?)
}

/// Returns one value per row, from the first branch whose condition holds.
pub(super) fn case_values(
    branches: &[(TypedOperation, TypedOperation)],
    otherwise: &TypedOperation,
    rows: &BlockPairs,
) -> Result<ArrayRef> {
    let Some(((condition, value), rest)) = branches.split_first() else {
        return otherwise.values(rows);
    };
    let condition = condition.boolean(rows)?;
    let holds = match condition.nulls() {
        Some(nulls) => condition.values() & nulls.inner(),
        None => condition.values().clone(),
    };
    match holds.count_set_bits() {
        0 => case_values(rest, otherwise, rows),
        count if count == holds.len() => value.values(rows),
        _ => {
            let values = value.values(&of(rows, &among(holds.clone())))?;
            let others = case_values(rest, otherwise, &of(rows, &among(!&holds)))?;
            Ok(merge(&BooleanArray::from(holds), &values, &others)?)
        }
    }
}

fn among(rows: BooleanBuffer) -> FilterPredicate {
    FilterBuilder::new(&BooleanArray::from(rows)).optimize().build()
}

fn of<'a>(rows: &'a BlockPairs<'a>, some: &'a FilterPredicate) -> BlockPairs<'a> {
    BlockPairs::Some { rows, undecided: some }
}
