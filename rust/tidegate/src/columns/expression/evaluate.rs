//! Runs a bound expression over a block of pairs with Arrow kernels. Each operation is one pass,
//! without intermediate work per row.

use std::sync::Arc;

use arrow_arith::boolean::{and_kleene, is_not_null, is_null, not, or_kleene};
use arrow_arith::numeric;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal128Type, Decimal256Type, DurationMicrosecondType, DurationMillisecondType,
    DurationNanosecondType, DurationSecondType, Float64Type, Int64Type,
};
use arrow_array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, BooleanArray, Datum, Float64Array,
    Scalar, UInt32Array,
};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{ArrowError, DataType, Field, TimeUnit};
use arrow_select::filter::{FilterBuilder, FilterPredicate};
use arrow_select::merge::merge;
use arrow_select::nullif::nullif;
use arrow_select::take::take;

use super::bound::{Operation, TypedOperation, ZeroDivisor};
use super::compare::{compare, compare_times};
use super::functions::{case_values, first_values, part_values};
use super::pattern;
use super::{Arithmetic, Comparison};
use crate::columns::cast::cast;
use crate::columns::misfit::misfit;
use crate::columns::time::{Unit, nanoseconds};
use crate::columns::type_name::TypeName;
use crate::{Error, Result};

/// The pairs on which an expression is evaluated.
pub(super) enum BlockPairs<'a> {
    /// A whole block.
    All { columns: &'a [ArrayRef], len: usize },
    /// The subset of `rows` that is still undecided after evaluating the left side of `and` or
    /// `or`, a `case` condition or a `coalesce` value.
    Some { rows: &'a BlockPairs<'a>, undecided: &'a FilterPredicate },
}

impl BlockPairs<'_> {
    fn len(&self) -> usize {
        match self {
            BlockPairs::All { len, .. } => *len,
            BlockPairs::Some { undecided, .. } => undecided.count(),
        }
    }

    fn column(&self, slot: usize) -> Result<ArrayRef> {
        match self {
            BlockPairs::All { columns, .. } => Ok(columns[slot].clone()),
            BlockPairs::Some { rows, undecided } => Ok(undecided.filter(&rows.column(slot)?)?),
        }
    }
}

/// One value per pair, or one value for all pairs.
pub(super) enum Value {
    Array(ArrayRef),
    Scalar(ArrayRef),
}

impl Value {
    pub(super) fn array(&self) -> &ArrayRef {
        match self {
            Value::Array(array) | Value::Scalar(array) => array,
        }
    }

    /// A boolean for each pair. Expands a scalar, because the Boolean kernels do not accept
    /// scalars. At one bit per pair, the cost is negligible.
    fn booleans(&self, rows: usize) -> BooleanArray {
        match self {
            Value::Array(array) => array.as_boolean().clone(),
            Value::Scalar(array) if array.is_null(0) => BooleanArray::new_null(rows),
            Value::Scalar(array) if array.as_boolean().value(0) => {
                BooleanBuffer::new_set(rows).into()
            }
            Value::Scalar(_) => BooleanBuffer::new_unset(rows).into(),
        }
    }

    /// Returns the result of a kernel that returns as many values as it receives.
    fn like(&self, array: ArrayRef) -> Value {
        match self {
            Value::Array(_) => Value::Array(array),
            Value::Scalar(_) => Value::Scalar(array),
        }
    }

    /// Returns the result of a kernel with two operands.
    fn like_both(&self, other: &Value, array: ArrayRef) -> Value {
        if let Value::Scalar(_) = self { other.like(array) } else { Value::Array(array) }
    }
}

impl Datum for Value {
    fn get(&self) -> (&dyn Array, bool) {
        (self.array().as_ref(), matches!(self, Value::Scalar(_)))
    }
}

/// Returns the values of a struct's field. The field of a null struct is null.
fn field_values(structs: &ArrayRef, at: usize) -> Result<ArrayRef, ArrowError> {
    let values = structs.as_struct().column(at);
    match structs.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => Ok(values.clone()),
        Some(nulls) => nullif(values, &BooleanArray::new(!nulls.inner(), None)),
    }
}

/// `and` or `or`. The left value alone can decide the result.
#[derive(Clone, Copy)]
enum Connective {
    And,
    Or,
}

impl TypedOperation {
    /// A boolean for each pair.
    pub(super) fn boolean(&self, rows: &BlockPairs) -> Result<BooleanArray> {
        Ok(self.evaluate(rows)?.booleans(rows.len()))
    }

    /// A value for each row.
    pub(super) fn values(&self, rows: &BlockPairs) -> Result<ArrayRef> {
        match self.evaluate(rows)? {
            Value::Array(array) => Ok(array),
            Value::Scalar(array) => {
                Ok(take(&array, &UInt32Array::from(vec![0; rows.len()]), None)?)
            }
        }
    }

    fn evaluate(&self, rows: &BlockPairs) -> Result<Value> {
        match &self.operation {
            Operation::Column(slot) => rows.column(*slot).map(Value::Array),
            Operation::Field(x, at) => self.map(x, rows, |array| field_values(array, *at)),
            Operation::Scalar(value) => Ok(Value::Scalar(value.clone())),
            Operation::Cast(x) => self.cast(x, rows),
            Operation::Negate(x) => self.map(x, rows, |array| numeric::neg(array)),
            Operation::Abs(x) => self.map(x, rows, abs),
            Operation::Not(x) => self.map(x, rows, |array| Ok(Arc::new(not(array.as_boolean())?))),
            Operation::IsNull(x) => self.map(x, rows, |array| Ok(Arc::new(is_null(array)?))),
            Operation::IsNotNull(x) => self.map(x, rows, |array| Ok(Arc::new(is_not_null(array)?))),
            Operation::Arithmetic(operator, operands) => {
                let (left, right) = both(operands, rows)?;
                let result = arithmetic_kernel(*operator, &left, &right)
                    .map_err(|error| self.failed(&error))?;
                Ok(left.like_both(&right, result))
            }
            Operation::Divide(operands, zero) => self.divide(operands, *zero, rows),
            Operation::Turn(turn, operands) => {
                let [by, than] = &**operands;
                let found = turn.found(&by.values(rows)?, &than.values(rows)?);
                Ok(Value::Array(found.map_err(|error| self.failed(&error))?))
            }
            Operation::End(rule, side, operands) => {
                let [ts, value] = &**operands;
                let ends = rule.times(*side, &ts.values(rows)?, &value.values(rows)?)?;
                Ok(Value::Array(Arc::new(ends)))
            }
            Operation::Compare(operator, operands) => {
                let [left, right] = &**operands;
                compared(*operator, left, right, rows)
            }
            Operation::And(operands) => connect(Connective::And, operands, rows),
            Operation::Or(operands) => connect(Connective::Or, operands, rows),
            Operation::Between(operands) => between(operands, rows),
            Operation::In(value, items) => any_equal(value, items, rows),
            Operation::Match(x, pattern) => {
                self.map(x, rows, |array| pattern::matches(array, pattern))
            }
            Operation::Case(..)
            | Operation::Coalesce(_)
            | Operation::Extract(..)
            | Operation::Round(..)
            | Operation::Call(..) => self.evaluate_called(rows),
        }
    }

    /// Evaluates a function or `CASE`. This code is not part of the recursive function
    /// [`evaluate`](Self::evaluate), whose stack frames must stay small.
    #[inline(never)]
    fn evaluate_called(&self, rows: &BlockPairs) -> Result<Value> {
        match &self.operation {
            Operation::Case(branches, otherwise) => {
                case_values(branches, otherwise, rows).map(Value::Array)
            }
            Operation::Coalesce(operands) => first_values(operands, rows).map(Value::Array),
            Operation::Extract(part, x) => self.map(x, rows, |array| part_values(*part, array)),
            Operation::Round(rounding, x) => {
                self.map(x, rows, |array| rounding.values(array, &self.data_type))
            }
            Operation::Call(function, operands) => {
                let operands = operands.iter().map(|operand| match function.takes_scalars() {
                    true => operand.evaluate(rows),
                    false => operand.values(rows).map(Value::Array),
                });
                let operands = operands.collect::<Result<Vec<_>>>()?;
                let values = function.values(&operands).map_err(|error| self.failed(&error))?;
                let is_scalar = operands.iter().all(|x| matches!(x, Value::Scalar(_)));
                Ok(if is_scalar { Value::Scalar(values) } else { Value::Array(values) })
            }
            _ => unreachable!("`evaluate` keeps all other operations"),
        }
    }

    fn map(
        &self,
        operand: &TypedOperation,
        rows: &BlockPairs,
        kernel: impl FnOnce(&ArrayRef) -> Result<ArrayRef, ArrowError>,
    ) -> Result<Value> {
        let value = operand.evaluate(rows)?;
        let result = kernel(value.array()).map_err(|error| self.failed(&error))?;
        Ok(value.like(result))
    }

    fn cast(&self, operand: &TypedOperation, rows: &BlockPairs) -> Result<Value> {
        let value = operand.evaluate(rows)?;
        let (array, to) = (value.array(), &self.data_type);
        let result = cast(array, to).map_err(|error| match misfit(array, to) {
            Some((_, text)) => Error::data(format!("where `{}`: {text}", self.text)),
            None => self.failed(&error),
        })?;
        Ok(value.like(result))
    }

    fn divide(
        &self,
        operands: &[TypedOperation; 2],
        zero: ZeroDivisor,
        rows: &BlockPairs,
    ) -> Result<Value> {
        let (left, right) = both(operands, rows)?;
        let quotient = numeric::div(&left, &right)?;
        let quotients = quotient.as_primitive::<Float64Type>();
        if zero == ZeroDivisor::IsAnError && divides_by_zero(quotients, &right) {
            return Err(self.failed(&ArrowError::DivideByZero));
        }
        Ok(left.like_both(&right, quotient))
    }

    #[cold]
    fn failed(&self, error: &ArrowError) -> Error {
        let text = match error {
            ArrowError::ArithmeticOverflow(text) => {
                let operation = text.strip_prefix("Overflow happened on: ").unwrap_or(text);
                let mend = match self.data_type.is_numeric() {
                    true => "cast one side to double",
                    false => "filter such rows out first",
                };
                format!("{operation} overflows {}; {mend}", TypeName(&self.data_type))
            }
            ArrowError::ComputeError(text) => text.clone(),
            other => other.to_string(),
        };
        Error::data(format!("where `{}`: {text}", self.text))
    }
}

fn both(operands: &[TypedOperation; 2], rows: &BlockPairs) -> Result<(Value, Value)> {
    Ok((operands[0].evaluate(rows)?, operands[1].evaluate(rows)?))
}

/// Compares pairs of values and returns a boolean for each pair. Times and durations in different
/// units are cast to the finer unit. If some values do not fit in 64 bits in that unit, all are
/// compared in their original units.
fn compared(
    operator: Comparison,
    left: &TypedOperation,
    right: &TypedOperation,
    rows: &BlockPairs,
) -> Result<Value> {
    let error = match (left.evaluate(rows), right.evaluate(rows)) {
        (Ok(left), Ok(right)) => {
            let result = compare(operator, &left, &right)?;
            return Ok(left.like_both(&right, Arc::new(result)));
        }
        (Err(error), _) | (_, Err(error)) => error,
    };
    match (in_own_unit(left), in_own_unit(right)) {
        (Some((left, of_left)), Some((right, of_right))) => {
            let (left, right) = (left.evaluate(rows)?, right.evaluate(rows)?);
            let result = compare_times(operator, (&left, of_left), (&right, of_right))?;
            Ok(left.like_both(&right, Arc::new(result)))
        }
        _ => Err(error),
    }
}

/// Returns the expression for a time or duration before any cast to another unit. Also returns the
/// number of nanoseconds per step in the original unit.
fn in_own_unit(bound: &TypedOperation) -> Option<(&TypedOperation, i64)> {
    let inner = match &bound.operation {
        Operation::Cast(inner) => inner,
        _ => bound,
    };
    if let DataType::Duration(unit) = inner.data_type {
        return Some((inner, nanoseconds(unit)));
    }
    match Unit::of("", &Field::new("", inner.data_type.clone(), true)) {
        Ok(Unit::Nanoseconds(step)) => Some((inner, step)),
        _ => None,
    }
}

/// `left operator right`, in types that `operand_types` returned.
pub(super) fn arithmetic_kernel(
    operator: Arithmetic,
    left: &dyn Datum,
    right: &dyn Datum,
) -> Result<ArrayRef, ArrowError> {
    match operator {
        Arithmetic::Add => numeric::add(left, right),
        Arithmetic::Subtract => numeric::sub(left, right),
        Arithmetic::Multiply => numeric::mul(left, right),
        Arithmetic::Divide => numeric::div(left, right),
        Arithmetic::Remainder => numeric::rem(left, right),
    }
}

/// Returns whether any non-null quotient has a zero divisor.
fn divides_by_zero(quotients: &Float64Array, divisor: &Value) -> bool {
    let divisors = divisor.array().as_primitive::<Float64Type>().values();
    match divisor {
        Value::Scalar(_) => divisors[0] == 0.0 && quotients.null_count() < quotients.len(),
        // A null slot can contain any value.
        Value::Array(_) => {
            divisors.iter().enumerate().any(|(i, &x)| x == 0.0 && quotients.is_valid(i))
        }
    }
}

fn abs(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    fn absolute<T: ArrowPrimitiveType>(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        let checked = |x: T::Native| if x.is_lt(T::Native::ZERO) { x.neg_checked() } else { Ok(x) };
        let result = array.as_primitive::<T>().try_unary::<_, T, _>(checked)?;
        Ok(Arc::new(result.with_data_type(array.data_type().clone())))
    }
    match array.data_type() {
        DataType::Int64 => absolute::<Int64Type>(array),
        DataType::Float64 => {
            Ok(Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(f64::abs)))
        }
        DataType::Decimal128(..) => absolute::<Decimal128Type>(array),
        DataType::Decimal256(..) => absolute::<Decimal256Type>(array),
        DataType::Duration(TimeUnit::Second) => absolute::<DurationSecondType>(array),
        DataType::Duration(TimeUnit::Millisecond) => absolute::<DurationMillisecondType>(array),
        DataType::Duration(TimeUnit::Microsecond) => absolute::<DurationMicrosecondType>(array),
        DataType::Duration(TimeUnit::Nanosecond) => absolute::<DurationNanosecondType>(array),
        other => Err(ArrowError::InvalidArgumentError(format!("abs of {other}"))),
    }
}

/// `left and right`, `left or right`. If the right side can fail, it is evaluated only on the pairs
/// that the left side leaves undecided. A guard on the left side therefore prevents the error.
/// Whether a pair causes an error does not depend on the other pairs in its block.
fn connect(
    connective: Connective,
    operands: &[TypedOperation; 2],
    rows: &BlockPairs,
) -> Result<Value> {
    let [left, right] = operands;
    let left = left.boolean(rows)?;
    let right = if right.can_fail {
        where_open(connective, &left, right, rows)?
    } else {
        right.boolean(rows)?
    };
    let result = match connective {
        Connective::And => and_kleene(&left, &right),
        Connective::Or => or_kleene(&left, &right),
    }?;
    Ok(Value::Array(Arc::new(result)))
}

/// Evaluates `right` on the pairs that `left` leaves undecided. The result is null on the other
/// pairs, where it does not matter.
fn where_open(
    connective: Connective,
    left: &BooleanArray,
    right: &TypedOperation,
    rows: &BlockPairs,
) -> Result<BooleanArray> {
    let open = BooleanArray::from(open(connective, left));
    let undecided = FilterBuilder::new(&open).optimize().build();
    match undecided.count() {
        0 => Ok(BooleanArray::new_null(rows.len())),
        count if count == rows.len() => right.boolean(rows),
        _ => {
            let found = right.boolean(&BlockPairs::Some { rows, undecided: &undecided })?;
            let elsewhere = Scalar::new(BooleanArray::new_null(1));
            Ok(merge(&open, &found, &elsewhere)?.as_boolean().clone())
        }
    }
}

fn open(connective: Connective, left: &BooleanArray) -> BooleanBuffer {
    let may_continue = match connective {
        Connective::And => left.values().clone(),
        Connective::Or => !left.values(),
    };
    match left.nulls() {
        Some(nulls) => &may_continue | &!nulls.inner(),
        None => may_continue,
    }
}

fn between(operands: &[TypedOperation; 3], rows: &BlockPairs) -> Result<Value> {
    let [value, low, high] = operands;
    let above = compared(Comparison::GreaterOrEqual, value, low, rows)?;
    let below = compared(Comparison::LessOrEqual, value, high, rows)?;
    let (above, below) = (above.booleans(rows.len()), below.booleans(rows.len()));
    Ok(Value::Array(Arc::new(and_kleene(&above, &below)?)))
}

fn any_equal(value: &TypedOperation, items: &[TypedOperation], rows: &BlockPairs) -> Result<Value> {
    let mut found = BooleanArray::from(BooleanBuffer::new_unset(rows.len()));
    for item in items {
        let equal = compared(Comparison::Equal, value, item, rows)?;
        found = or_kleene(&found, &equal.booleans(rows.len()))?;
    }
    Ok(Value::Array(Arc::new(found)))
}
