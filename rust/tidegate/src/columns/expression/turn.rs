//! Inverts floating-point operations by finding the number at which a comparison of the result
//! changes between true and false.

use std::sync::Arc;

use arrow_arith::arity::try_binary;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{ArrayRef, Float64Array};
use arrow_schema::ArrowError;
use tidegate_operators::predicate::Order;

use super::Arithmetic;

/// Represents `x + by <order> than`, or the same with another operation, as a comparison of `x`.
///
/// Rounding is monotone. The comparison is therefore satisfied either by all numbers at or above
/// some bound or by all numbers at or below it. This bound is found by a search that applies the
/// operation itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) operator: Arithmetic,
    /// True if `x` is the second operand.
    pub(super) is_second: bool,
    pub(super) order: Order,
}

impl Turn {
    /// Returns the comparison of `x` with a constant. Returns `None` if there is no such
    /// comparison, or if it is satisfied by every number or by no number.
    pub(super) fn of_constant(self, by: f64, than: f64) -> Option<(Order, f64)> {
        self.order_found(Some(by))?;
        Order::turn_of_float(self.near(by, than), |x| self.holds(x, by, than))
    }

    /// Returns the order in which `x` is compared. Returns `None` if the operation is not monotone
    /// in `x` or depends on a factor that is not constant.
    pub(super) fn order_found(self, by: Option<f64>) -> Option<Order> {
        let falls = match self.operator {
            Arithmetic::Add => false,
            Arithmetic::Subtract => self.is_second,
            Arithmetic::Multiply => by.filter(|&by| by != 0.0)? < 0.0,
            Arithmetic::Divide if !self.is_second => by.filter(|&by| by != 0.0)? < 0.0,
            Arithmetic::Divide | Arithmetic::Remainder => return None,
        };
        let is_less = self.order.is_less() != falls;
        Some(if is_less { Order::LessOrEqual } else { Order::GreaterOrEqual })
    }

    /// For each row, returns the number with which `x` is compared, or NaN if no `x` satisfies the
    /// comparison.
    ///
    /// # Errors
    ///
    /// Returns an error if the numbers that satisfy the comparison do not form a range with a
    /// single bound, as the order requires. This error occurs if the comparison holds for an
    /// infinity but not for NaN, which operations on infinities can produce.
    pub(super) fn found(self, by: &ArrayRef, than: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        let (by, than) = (by.as_primitive::<Float64Type>(), than.as_primitive::<Float64Type>());
        let found: Float64Array = try_binary(by, than, |by, than| self.found_in_row(by, than))?;
        Ok(Arc::new(found))
    }

    fn found_in_row(self, by: f64, than: f64) -> Result<f64, ArrowError> {
        let is_less = self.order_found(Some(by)) == Some(Order::LessOrEqual);
        let holds = |x: f64| self.holds(x, by, than);
        match (holds(f64::NEG_INFINITY), holds(f64::INFINITY)) {
            (false, false) => Ok(f64::NAN),
            (true, true) => Ok(if is_less { f64::INFINITY } else { f64::NEG_INFINITY }),
            (from_least, _) if from_least != is_less => {
                Err(ArrowError::ComputeError("no comparison says where it holds".to_owned()))
            }
            _ => Ok(self.of_constant(by, than).map_or(f64::NAN, |(_, found)| found)),
        }
    }

    fn computed(self, x: f64, by: f64) -> f64 {
        let (first, second) = if self.is_second { (by, x) } else { (x, by) };
        match self.operator {
            Arithmetic::Add => first + second,
            Arithmetic::Subtract => first - second,
            Arithmetic::Multiply => first * second,
            Arithmetic::Divide => first / second,
            Arithmetic::Remainder => first % second,
        }
    }

    fn holds(self, x: f64, by: f64, than: f64) -> bool {
        self.order.holds(self.computed(x, by), than)
    }

    /// Returns a number near the point at which the comparison becomes true or false.
    fn near(self, by: f64, than: f64) -> f64 {
        match (self.operator, self.is_second) {
            (Arithmetic::Subtract, true) => by - than,
            (Arithmetic::Subtract, false) => than + by,
            (Arithmetic::Add, _) => than - by,
            (Arithmetic::Multiply, _) => than / by,
            (Arithmetic::Divide, _) => than * by,
            (Arithmetic::Remainder, _) => than,
        }
    }
}
