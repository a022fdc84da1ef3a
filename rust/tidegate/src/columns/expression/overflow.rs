//! Monitors integer expressions that may overflow for some pair.
//!
//! A comparison that was split is not computed in its original form. A pair that overflows in the
//! original form must cause an error. Only evaluating the pair reveals such an overflow. The
//! smallest and largest numbers on each side show whether any pair can overflow. These numbers need
//! not occur in the same pair.

use arrow_arith::aggregate::{max, min};
use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_schema::DataType;
use tidegate_operators::rows::Side;

use super::Arithmetic;
use super::bound::{Operation, TypedOperation};
use super::linear::is_number_of_duration;
use super::split::{Constant, reads};
use crate::columns::cast::cast;

/// The smallest and largest numbers.
type NumberRange = (i64, i64);

/// An integer expression over both sides, with the ranges of its parts. The parts are its maximal
/// subexpressions over one side.
#[derive(Clone, Debug)]
pub(super) struct Overflow {
    form: TypedOperation,
    left_columns: usize,
    /// The parts in the order in which they appear in the expression. The range is `None` until a
    /// row contains a number.
    parts: Vec<(TypedOperation, Option<NumberRange>)>,
}

impl Overflow {
    pub(super) fn new(form: TypedOperation, left_columns: usize) -> Self {
        let mut parts = Vec::new();
        collect(&form, left_columns, &mut parts);
        Overflow { form, left_columns, parts }
    }

    /// Adds rows. `values` returns the values of a part for these rows. Returns whether any pair of
    /// the rows added so far may overflow, or `None` if a value is unavailable.
    pub(super) fn add(
        &mut self,
        values: impl Fn(&TypedOperation, Side) -> Option<ArrayRef>,
    ) -> Option<bool> {
        for (part, ends) in &mut self.parts {
            let side = if reads(part, self.left_columns).0 { Side::Left } else { Side::Right };
            let values = cast(&values(part, side)?, &DataType::Int64).ok()?;
            let values = values.as_primitive::<Int64Type>();
            if let (Some(low), Some(high)) = (min(values), max(values)) {
                let (least, most) = ends.unwrap_or((low, high));
                *ends = Some((least.min(low), most.max(high)));
            }
        }
        let mut ends = self.parts.iter().map(|(_, ends)| *ends);
        Some(self.range(&self.form, &mut ends).is_err())
    }

    /// Returns the range of an expression, given the ranges of its parts in order. Returns `None`
    /// if the expression has no values.
    fn range(
        &self,
        bound: &TypedOperation,
        parts: &mut impl Iterator<Item = Option<NumberRange>>,
    ) -> Result<Option<NumberRange>, MayOverflow> {
        if let Some(constant) = Constant::of(bound) {
            return Ok(Some((constant.whole, constant.whole)));
        }
        if is_part(bound, self.left_columns) {
            return Ok(parts.next().expect("there is a range for each part"));
        }
        let corners: Vec<Option<i64>> = match &bound.operation {
            Operation::Negate(inner) | Operation::Abs(inner) => {
                let Some((low, high)) = self.range(inner, parts)? else { return Ok(None) };
                match bound.operation {
                    Operation::Abs(_) if low <= 0 && high >= 0 => {
                        vec![Some(0), low.checked_abs(), high.checked_abs()]
                    }
                    Operation::Abs(_) => vec![low.checked_abs(), high.checked_abs()],
                    _ => vec![low.checked_neg(), high.checked_neg()],
                }
            }
            Operation::Cast(inner) if is_number_of_duration(bound) => {
                return self.range(inner, parts);
            }
            Operation::Arithmetic(operator, operands) => {
                let [first, second] = &**operands;
                let both = (self.range(first, parts)?, self.range(second, parts)?);
                let (Some(first), Some(second)) = both else { return Ok(None) };
                let step: fn(i64, i64) -> Option<i64> = match operator {
                    Arithmetic::Add => i64::checked_add,
                    Arithmetic::Subtract => i64::checked_sub,
                    Arithmetic::Multiply => i64::checked_mul,
                    Arithmetic::Divide | Arithmetic::Remainder => return Err(MayOverflow),
                };
                [(first.0, second.0), (first.0, second.1), (first.1, second.0), (first.1, second.1)]
                    .map(|(x, y)| step(x, y))
                    .to_vec()
            }
            _ => return Err(MayOverflow),
        };
        let corners: Vec<i64> = corners.into_iter().collect::<Option<_>>().ok_or(MayOverflow)?;
        Ok(corners.iter().copied().min().zip(corners.iter().copied().max()))
    }
}

/// At least one pair may overflow.
struct MayOverflow;

fn is_part(bound: &TypedOperation, left_columns: usize) -> bool {
    let (left, right) = reads(bound, left_columns);
    left != right
}

fn collect(
    bound: &TypedOperation,
    left_columns: usize,
    into: &mut Vec<(TypedOperation, Option<NumberRange>)>,
) {
    match is_part(bound, left_columns) {
        true => into.push((bound.clone(), None)),
        false => bound.operands().into_iter().for_each(|one| collect(one, left_columns, into)),
    }
}
