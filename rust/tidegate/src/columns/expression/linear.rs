//! Converts comparisons of linear forms over both sides, such as `left.x + 2 * right.y - 1 > 5` or
//! `abs(left.x - right.x) <= left.tolerance`, to comparisons that a scan can test.
//!
//! A *part* is a maximal subexpression over one side, which is computed once per row.
//!
//! - For integers, parts and constants are collected. A constant is compared with the sum or
//!   difference of a number from the left row and a number from the right row. The comparison is
//!   exact if no pair overflows in the original form. An [`Overflow`](super::overflow::Overflow)
//!   monitors this.
//! - For floats, each operation rounds, so parts cannot be collected. However, rounding is
//!   monotone. An operation with a constant can therefore be undone: a single bound separates the
//!   operands that satisfy the comparison from those that do not ([`Turn`]). A single sum or
//!   difference of two parts remains.
//! - If one side contributes a single part to a float comparison, operations with the other side's
//!   parts are undone in the same way, row by row. The single part is compared with the resulting
//!   number.
//!
//! Everything else yields `None` and is evaluated pair by pair.

use std::sync::Arc;

use arrow_array::Int64Array;
use arrow_schema::DataType;
use tidegate_operators::predicate::{Constraint, Order, Relation};
use tidegate_operators::rows::Side;

use super::Arithmetic;
use super::bound::{Operation, TypedOperation, cast};
use super::split::{Constant, Domain, Pushable, PushedComparison, column, domain, reads};
use super::turn::Turn;

/// Converts `first <order> second` for all given orders. Returns `None` if a scan cannot test the
/// comparison.
pub(super) fn compared(
    first: &TypedOperation,
    orders: &[Order],
    second: &TypedOperation,
    left_columns: usize,
) -> Option<Pushable> {
    let mut forms = Forms { left_columns, found: Pushable::default() };
    for &order in orders {
        match domain(&first.data_type)? {
            Domain::Whole => forms.whole(first, order, second)?,
            Domain::Float => {
                let before = forms.found.clone();
                if forms.than_constant(first, order, second).is_none() {
                    forms.found = before;
                    forms.turns(first, order, second)?;
                }
            }
        }
    }
    Some(forms.found)
}

/// The comparisons found so far, to which further forms are added.
struct Forms {
    left_columns: usize,
    found: Pushable,
}

impl Forms {
    fn reads_both(&self, bound: &TypedOperation) -> bool {
        reads(bound, self.left_columns) == (true, true)
    }

    fn whole(
        &mut self,
        first: &TypedOperation,
        order: Order,
        second: &TypedOperation,
    ) -> Option<()> {
        self.watch(first);
        self.watch(second);
        match &second.operation {
            Operation::Abs(inner) if self.reads_both(inner) => {
                self.whole_form(second, order.across(), &self.sum(first)?)
            }
            _ => self.whole_form(first, order, &self.sum(second)?),
        }
    }

    /// `form <order> than` in integers.
    fn whole_form(&mut self, form: &TypedOperation, order: Order, than: &Sum) -> Option<()> {
        match &form.operation {
            Operation::Abs(inner) if self.reads_both(inner) => {
                // `abs(x) > d` selects two ranges, but a scan accepts only one.
                if !order.is_less() {
                    return None;
                }
                let inner = self.sum(inner)?;
                self.whole_sum(inner.clone().plus(than, -1)?, order)?;
                self.whole_sum(inner.plus(than, 1)?, order.across())
            }
            _ => self.whole_sum(self.sum(form)?.plus(than, -1)?, order),
        }
    }

    /// `sum <order> 0`
    fn whole_sum(&mut self, sum: Sum, order: Order) -> Option<()> {
        let is_left = |part: &Addend| reads(&part.bound, self.left_columns).0;
        let (mut left, mut right): (Vec<Addend>, Vec<Addend>) =
            sum.parts.into_iter().partition(is_left);
        let (mut order, mut than) = (order, sum.constant.checked_neg()?);
        // The first part of each side is written without a sign.
        if left.first()?.factor < 0 {
            negate(&mut left)?;
            negate(&mut right)?;
            (order, than) = (order.across(), than.checked_neg()?);
        }
        let constraint = match right.first()?.factor < 0 {
            true => {
                negate(&mut right)?;
                Constraint::Difference { order, than }
            }
            false => Constraint::Sum { order, than },
        };
        let relation = Relation::Whole(vec![constraint]);
        self.found.pushed.push(PushedComparison {
            left: number(&left)?,
            right: number(&right)?,
            relation,
        });
        Some(())
    }

    /// Returns the parts of an integer expression.
    fn sum(&self, bound: &TypedOperation) -> Option<Sum> {
        let mut sum = Sum::default();
        self.collect(bound, 1, &mut sum)?;
        Some(sum)
    }

    fn collect(&self, bound: &TypedOperation, factor: i64, into: &mut Sum) -> Option<()> {
        if let Some(constant) = Constant::of(bound) {
            into.constant = into.constant.checked_add(constant.whole.checked_mul(factor)?)?;
            return Some(());
        }
        match reads(bound, self.left_columns) {
            (true, true) => {}
            (false, false) => return None,
            _ => {
                into.parts.push(Addend { bound: bound.clone(), factor });
                return Some(());
            }
        }
        match &bound.operation {
            Operation::Negate(inner) => self.collect(inner, factor.checked_neg()?, into),
            Operation::Cast(inner) if is_number_of_duration(bound) => {
                self.collect(inner, factor, into)
            }
            Operation::Arithmetic(operator, operands) => {
                let [first, second] = &**operands;
                match operator {
                    Arithmetic::Add | Arithmetic::Subtract => {
                        let minus = *operator == Arithmetic::Subtract;
                        self.collect(first, factor, into)?;
                        self.collect(
                            second,
                            if minus { factor.checked_neg()? } else { factor },
                            into,
                        )
                    }
                    Arithmetic::Multiply => {
                        let (by, form) = match Constant::of(first) {
                            Some(by) => (by, second),
                            None => (Constant::of(second)?, first),
                        };
                        let factor = factor.checked_mul(by.whole)?;
                        (factor != 0).then_some(())?;
                        self.collect(form, factor, into)
                    }
                    Arithmetic::Divide | Arithmetic::Remainder => None,
                }
            }
            _ => None,
        }
    }

    /// Registers an expression that reads both sides so that overflow in it is detected.
    fn watch(&mut self, form: &TypedOperation) {
        if self.reads_both(form) {
            self.found.watched.push(form.clone());
        }
    }

    /// Converts a comparison of floats, `first <order> second`, if one operand is a constant.
    fn than_constant(
        &mut self,
        first: &TypedOperation,
        order: Order,
        second: &TypedOperation,
    ) -> Option<()> {
        match Constant::of(second) {
            Some(than) => self.float(first, order, than.float),
            None => self.float(second, order.across(), Constant::of(first)?.float),
        }
    }

    /// `form <order> than` in floats.
    fn float(&mut self, form: &TypedOperation, order: Order, than: f64) -> Option<()> {
        match &form.operation {
            Operation::Abs(inner) if order.is_less() => {
                self.float(inner, order, than)?;
                self.float(inner, order.across(), -than)
            }
            Operation::Negate(inner) => self.float(inner, order.across(), -than),
            Operation::Cast(inner) if domain(&inner.data_type) == Some(Domain::Whole) => {
                let holds = |x: i64| order.holds(x as f64, than);
                let (order, than) = Order::turn_of_whole(holds)?;
                self.watch(inner);
                self.whole_form(inner, order, &Sum { parts: Vec::new(), constant: than })
            }
            Operation::Divide(operands, _) => {
                self.float_step(Arithmetic::Divide, operands, order, than)
            }
            Operation::Arithmetic(operator, operands) => {
                self.float_step(*operator, operands, order, than)
            }
            _ => None,
        }
    }

    fn float_step(
        &mut self,
        operator: Arithmetic,
        operands: &[TypedOperation; 2],
        order: Order,
        than: f64,
    ) -> Option<()> {
        let [first, second] = operands;
        let (inner, by, is_second) = match (Constant::of(first), Constant::of(second)) {
            (Some(by), _) => (second, by.float, true),
            (_, Some(by)) => (first, by.float, false),
            _ => return self.float_sum(operator, (first, second), order, than),
        };
        let (order, than) = Turn { operator, is_second, order }.of_constant(by, than)?;
        self.float(inner, order, than)
    }

    /// Returns the sum or difference of one number per side.
    fn float_sum(
        &mut self,
        operator: Arithmetic,
        (first, second): (&TypedOperation, &TypedOperation),
        order: Order,
        than: f64,
    ) -> Option<()> {
        let sides = [first, second].map(|operand| reads(operand, self.left_columns));
        let swapped = match sides {
            [(true, false), (false, true)] => false,
            [(false, true), (true, false)] => true,
            _ => return None,
        };
        let constraint = match (operator, swapped) {
            (Arithmetic::Add, _) => Constraint::Sum { order, than },
            (Arithmetic::Subtract, false) => Constraint::Difference { order, than },
            (Arithmetic::Subtract, true) => {
                Constraint::Difference { order: order.across(), than: -than }
            }
            _ => return None,
        };
        let (left, right) = if swapped { (second, first) } else { (first, second) };
        self.found.pushed.push(PushedComparison {
            left: column(left, Domain::Float)?.clone(),
            right: column(right, Domain::Float)?.clone(),
            relation: Relation::Float(vec![constraint]),
        });
        Some(())
    }

    /// Converts a comparison of floats, `first <order> second`, if one side has a single part. The
    /// single part is compared with a number from the other side.
    fn turns(
        &mut self,
        first: &TypedOperation,
        order: Order,
        second: &TypedOperation,
    ) -> Option<()> {
        let parts = [first, second].map(|bound| self.parts(bound));
        let [left, right] = [parts[0].0 + parts[1].0, parts[0].1 + parts[1].1];
        let (side, in_first) = match (left, right) {
            (1.., 1) => (Side::Right, parts[0].1 == 1),
            (1, 1..) => (Side::Left, parts[0].0 == 1),
            _ => return None,
        };
        match in_first {
            true => self.turn(first, order, second.clone(), side),
            false => self.turn(second, order.across(), first.clone(), side),
        }
    }

    /// Returns the number of parts on each side.
    fn parts(&self, bound: &TypedOperation) -> (usize, usize) {
        match reads(bound, self.left_columns) {
            (true, true) => bound
                .operands()
                .into_iter()
                .map(|operand| self.parts(operand))
                .fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1)),
            (left, right) => (left.into(), right.into()),
        }
    }

    /// Converts the float comparison `form <order> than` if one side is read only by a single part,
    /// which is in `form`.
    fn turn(
        &mut self,
        form: &TypedOperation,
        order: Order,
        than: TypedOperation,
        side: Side,
    ) -> Option<()> {
        if !self.reads_both(form) {
            return self.turned(form, order, than, side);
        }
        let (operator, operands) = match &form.operation {
            Operation::Abs(inner) if order.is_less() => {
                self.turn(inner, order, than.clone(), side)?;
                return self.turn(inner, order.across(), negated(than), side);
            }
            Operation::Negate(inner) => {
                return self.turn(inner, order.across(), negated(than), side);
            }
            Operation::Divide(operands, _) => (Arithmetic::Divide, operands),
            Operation::Arithmetic(operator, operands) => (*operator, operands),
            _ => return None,
        };
        let [first, second] = &**operands;
        let (left, right) = reads(second, self.left_columns);
        let is_second = if side == Side::Left { left } else { right };
        let (inner, by) = if is_second { (second, first) } else { (first, second) };
        let turn = Turn { operator, is_second, order };
        let order = turn.order_found(Constant::of(by).map(|by| by.float))?;
        let than = TypedOperation {
            text: format!("the end of {} {} {}", form.text, turn.order, than.text),
            operation: Operation::Turn(turn, Box::new([by.clone(), than])),
            data_type: DataType::Float64,
            can_fail: true,
        };
        self.turn(inner, order, than, side)
    }

    /// Converts a comparison of floats, `part <order> than`, where `part` belongs to one side and
    /// `than` to the other.
    fn turned(
        &mut self,
        part: &TypedOperation,
        order: Order,
        than: TypedOperation,
        side: Side,
    ) -> Option<()> {
        let part = column(part, Domain::Float)?.clone();
        let (left, order, right) = match side {
            Side::Left => (part, order, than),
            Side::Right => (than, order.across(), part),
        };
        let constraint = Constraint::Compare { left_plus: 0.0, order, right_plus: 0.0 };
        let relation = Relation::Float(vec![constraint]);
        self.found.pushed.push(PushedComparison { left, right, relation });
        Some(())
    }
}

fn negated(bound: TypedOperation) -> TypedOperation {
    TypedOperation {
        text: format!("-({})", bound.text),
        data_type: DataType::Float64,
        can_fail: bound.can_fail,
        operation: Operation::Negate(Box::new(bound)),
    }
}

/// An expression over one side and the factor by which it is multiplied. The expression is computed
/// once per row.
#[derive(Clone)]
struct Addend {
    bound: TypedOperation,
    factor: i64,
}

/// A sum of integer parts.
#[derive(Clone, Default)]
struct Sum {
    parts: Vec<Addend>,
    constant: i64,
}

impl Sum {
    /// Adds another sum, multiplied by a sign.
    fn plus(mut self, other: &Sum, sign: i64) -> Option<Sum> {
        for Addend { bound, factor } in &other.parts {
            let factor = factor.checked_mul(sign)?;
            self.parts.push(Addend { bound: bound.clone(), factor });
        }
        self.constant = self.constant.checked_add(other.constant.checked_mul(sign)?)?;
        Some(self)
    }
}

fn negate(parts: &mut [Addend]) -> Option<()> {
    for part in parts {
        part.factor = part.factor.checked_neg()?;
    }
    Some(())
}

/// Returns the expression that computes a sum of parts. The first part has a positive factor.
fn number(parts: &[Addend]) -> Option<TypedOperation> {
    if let [Addend { bound, factor: 1 }] = parts {
        return column(bound, Domain::Whole).cloned();
    }
    let (first, rest) = parts.split_first()?;
    let mut sum = times(&first.bound, first.factor)?;
    for Addend { bound, factor } in rest {
        let (operator, sign) =
            if *factor < 0 { (Arithmetic::Subtract, "-") } else { (Arithmetic::Add, "+") };
        let more = times(bound, factor.checked_abs()?)?;
        let text = format!("{} {sign} {}", sum.text, more.text);
        sum = computed(operator, [sum, more], text);
    }
    Some(sum)
}

/// Returns a part multiplied by a positive factor.
fn times(part: &TypedOperation, factor: i64) -> Option<TypedOperation> {
    domain(&part.data_type).filter(|&domain| domain == Domain::Whole)?;
    let mut part = cast(part.clone(), &DataType::Int64).ok()?;
    if !is_column(&part) {
        part.text = format!("({})", part.text);
    }
    if factor == 1 {
        return Some(part);
    }
    let constant = TypedOperation {
        operation: Operation::Scalar(Arc::new(Int64Array::from(vec![factor]))),
        data_type: DataType::Int64,
        text: factor.to_string(),
        can_fail: false,
    };
    let text = format!("{factor} * {}", part.text);
    Some(computed(Arithmetic::Multiply, [constant, part], text))
}

fn is_column(bound: &TypedOperation) -> bool {
    match &bound.operation {
        Operation::Column(_) => true,
        Operation::Cast(inner) => is_column(inner),
        _ => false,
    }
}

fn computed(operator: Arithmetic, operands: [TypedOperation; 2], text: String) -> TypedOperation {
    let operation = Operation::Arithmetic(operator, Box::new(operands));
    TypedOperation { operation, data_type: DataType::Int64, text, can_fail: true }
}

/// Returns whether the expression is a duration cast to its number of ticks. A duration is stored
/// as this number.
pub(super) fn is_number_of_duration(bound: &TypedOperation) -> bool {
    match &bound.operation {
        Operation::Cast(inner) => {
            bound.data_type == DataType::Int64 && matches!(inner.data_type, DataType::Duration(_))
        }
        _ => false,
    }
}
