//! Separates a predicate into comparisons that are pushed down into the operators' scan, and a
//! residual predicate.
//!
//! A conjunct such as `left.x BETWEEN right.a - 10 AND right.a + 10` or `abs(left.x - right.x) <=
//! 5` compares a number from the left row with a number from the right row. Each number is read
//! from a column or computed by an expression over one side. Such an expression is evaluated once
//! per row instead of once per pair. Linear forms over both sides are first split into such numbers
//! (`linear.rs`). A pushed conjunct yields the same value as the evaluator, including rounding.
//!
//! The order of evaluation does not change observably. No conjunct is moved ahead of one that can
//! fail, because the latter would then be evaluated for fewer pairs.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, new_empty_array};
use arrow_schema::DataType;
use tidegate_operators::predicate::{Constraint, Numbers, Operand, Order, Relation, Term};
use tidegate_operators::rows::Side;

use super::bind::Predicate;
use super::bound::{Operation, TypedOperation};
use super::evaluate::BlockPairs;
use super::linear;
use super::overflow::Overflow;
use super::{Arithmetic, Comparison, Origin};
use crate::columns::cast::cast;

/// A conjunct of a predicate.
#[derive(Clone, Debug)]
struct Conjunct {
    whole: TypedOperation,
    /// The parts of the conjunct, if a scan can test it.
    pushable: Option<Pushable>,
}

/// The comparisons that make up a conjunct.
#[derive(Clone, Debug, Default)]
pub(super) struct Pushable {
    pub(super) pushed: Vec<PushedComparison>,
    /// Integer expressions over both sides. The comparisons do not compute these expressions in
    /// their original form, so overflow is monitored.
    pub(super) watched: Vec<TypedOperation>,
}

/// A comparison that is pushed down into a scan. Such a comparison relates a number from one side
/// to a number from the other.
#[derive(Clone, Debug)]
pub(super) struct PushedComparison {
    pub(super) left: TypedOperation,
    pub(super) right: TypedOperation,
    pub(super) relation: Relation,
}

impl PushedComparison {
    /// Returns the names of the two numbers, and their types.
    fn names(&self) -> [(&str, &DataType); 2] {
        [&self.left, &self.right].map(|bound| (&*bound.text, &bound.data_type))
    }
}

/// The arithmetic that a comparison uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Domain {
    Whole,
    Float,
}

/// Tests a predicate. A scan tests the pushed comparisons, and the residual predicate is evaluated
/// on the remaining pairs.
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    pushed: Vec<PushedComparison>,
    watched: Vec<Overflow>,
    residual: Option<Predicate>,
}

impl Scan {
    /// Returns the pushed comparisons, for sides that have no rows yet.
    pub(crate) fn terms(&self) -> Vec<Term> {
        let none = |bound: &TypedOperation| Operand::new(no_numbers(&bound.data_type), None);
        let term = |one: &PushedComparison| {
            Term::new(none(&one.left), none(&one.right), one.relation.clone())
        };
        self.pushed.iter().map(|one| term(one).expect("a term without rows")).collect()
    }

    /// Returns the numbers that each pushed comparison compares, with one number per row. Returns
    /// `None` if the whole predicate has to be evaluated on each pair. There are three such cases:
    ///
    /// - A number cannot be computed. The row with this number might not be in any pair.
    /// - A pair of rows from this call or an earlier one may overflow.
    /// - A number is missing and the residual predicate can fail. A comparison with null yields
    ///   null, and `and` then still evaluates the residual predicate.
    pub(crate) fn numbers(
        &mut self,
        left: &SideColumns,
        right: &SideColumns,
    ) -> Option<Vec<(Operand, Operand)>> {
        let sides = ColumnsOfSides { left, right };
        let numbers = |one: &PushedComparison| {
            Some((sides.numbers(&one.left, Side::Left)?, sides.numbers(&one.right, Side::Right)?))
        };
        let all: Vec<(Operand, Operand)> =
            self.pushed.iter().map(numbers).collect::<Option<_>>()?;
        for watched in &mut self.watched {
            watched.add(|part, side| sides.values(part, side)).filter(|may| !may)?;
        }
        let has_missing = all.iter().any(|(left, right)| left.has_missing() || right.has_missing());
        let residual_can_fail =
            self.residual.as_ref().is_some_and(|residual| residual.root().can_fail);
        (!has_missing || !residual_can_fail).then_some(all)
    }

    /// Returns the user-facing names of the numbers that are compared in right rows.
    pub(crate) fn of_right(&self) -> Vec<&str> {
        let mut texts: Vec<&str> = Vec::new();
        for PushedComparison { right, .. } in &self.pushed {
            if !texts.contains(&&*right.text) {
                texts.push(&right.text);
            }
        }
        texts
    }

    /// Returns the residual predicate, which consists of the conjuncts that no scan can test.
    pub(crate) fn residual(&self) -> Option<&Predicate> {
        self.residual.as_ref()
    }
}

impl Predicate {
    /// Separates the comparisons that a scan can test from the residual predicate.
    pub(crate) fn scan(&self) -> Scan {
        self.scan_of(|_| true)
    }

    /// Like [`scan`](Self::scan), but pushes only some of the conjuncts that a scan is able to
    /// test.
    fn scan_of(&self, is_pushed: impl Fn(&Pushable) -> bool) -> Scan {
        let mut pushed: Vec<PushedComparison> = Vec::new();
        let mut watched: Vec<TypedOperation> = Vec::new();
        let mut residual: Vec<TypedOperation> = Vec::new();
        for Conjunct { whole, pushable } in self.conjuncts() {
            match pushable {
                Some(pushable)
                    if is_pushed(&pushable)
                        && !residual.iter().any(|conjunct| conjunct.can_fail) =>
                {
                    for one in pushable.pushed {
                        // Merge comparisons between the same two numbers.
                        let same = pushed.iter_mut().find(|other| other.names() == one.names());
                        if !same.is_some_and(|other| other.relation.extend(&one.relation)) {
                            pushed.push(one);
                        }
                    }
                    for form in pushable.watched {
                        if !watched.iter().any(|other| other.text == form.text) {
                            watched.push(form);
                        }
                    }
                }
                _ => residual.push(whole),
            }
        }
        let residual =
            residual.into_iter().reduce(TypedOperation::and).map(|part| self.of_part(part));
        let left_columns = self.columns(Origin::Left).len();
        let watched = watched.into_iter().map(|form| Overflow::new(form, left_columns)).collect();
        Scan { pushed, watched, residual }
    }

    /// Returns the pushed comparisons between the columns of two tables, and the residual
    /// predicate.
    pub(crate) fn split(
        &self,
        left: &SideColumns,
        right: &SideColumns,
    ) -> (Vec<Term>, Option<Predicate>) {
        // If a pair may overflow in one conjunct, the other conjuncts can still be scanned.
        for mut scan in [self.scan(), self.scan_of(|pushable| pushable.watched.is_empty())] {
            let term = |(one, (left, right)): (&PushedComparison, _)| {
                Term::new(left, right, one.relation.clone())
            };
            let numbers = scan.numbers(left, right);
            let terms = numbers.and_then(|all| scan.pushed.iter().zip(all).map(term).collect());
            if let Some(terms) = terms {
                return (terms, scan.residual);
            }
        }
        (Vec::new(), Some(self.clone()))
    }

    /// Returns, for each side, the conjuncts that read only that side's columns. Returns `None` if
    /// a conjunct reads both sides, or can fail for a row that is not in any pair.
    pub(crate) fn by_side(&self) -> Option<[Option<Predicate>; 2]> {
        let left_columns = self.columns(Origin::Left).len();
        let mut sides: [Vec<TypedOperation>; 2] = [Vec::new(), Vec::new()];
        for Conjunct { whole, .. } in self.conjuncts() {
            match reads(&whole, left_columns) {
                _ if whole.can_fail => return None,
                (true, true) => return None,
                (false, true) => sides[1].push(whole),
                (_, false) => sides[0].push(whole),
            }
        }
        Some(sides.map(|side| {
            side.into_iter().reduce(TypedOperation::and).map(|part| self.of_part(part))
        }))
    }

    /// Returns the number of conjuncts that a scan can test, and the total number of conjuncts.
    pub(crate) fn comparisons(&self) -> (usize, usize) {
        let conjuncts = self.conjuncts();
        (conjuncts.iter().filter(|conjunct| conjunct.pushable.is_some()).count(), conjuncts.len())
    }

    fn conjuncts(&self) -> Vec<Conjunct> {
        fn collect(bound: &TypedOperation, left_columns: usize, into: &mut Vec<Conjunct>) {
            match &bound.operation {
                Operation::And(operands) => {
                    operands.iter().for_each(|operand| collect(operand, left_columns, into))
                }
                _ => into.push(Conjunct {
                    whole: bound.clone(),
                    pushable: pushable(bound, left_columns),
                }),
            }
        }
        let mut conjuncts = Vec::new();
        collect(self.root(), self.columns(Origin::Left).len(), &mut conjuncts);
        conjuncts
    }
}

/// The columns of one side that [`Predicate::columns`] returns.
#[derive(Debug)]
pub(crate) struct SideColumns {
    /// The columns, each as a single array if possible.
    pub(crate) arrays: Vec<Option<ArrayRef>>,
    pub(crate) rows: usize,
}

/// The columns of both sides.
struct ColumnsOfSides<'a> {
    left: &'a SideColumns,
    right: &'a SideColumns,
}

impl ColumnsOfSides<'_> {
    /// Returns the values of an expression over one side, with one value per row.
    fn values(&self, bound: &TypedOperation, side: Side) -> Option<ArrayRef> {
        let columns: Vec<_> = self.left.arrays.iter().chain(&self.right.arrays).collect();
        if reads_any(bound, &|slot| columns[slot].is_none()) {
            return None;
        }
        // For columns that are not read, neither the values nor the types matter.
        let columns = columns.into_iter().cloned();
        let columns: Vec<ArrayRef> = columns.map(|array| array.unwrap_or_else(nothing)).collect();
        let len = match side {
            Side::Left => self.left.rows,
            Side::Right => self.right.rows,
        };
        let array = bound.values(&BlockPairs::All { columns: &columns, len }).ok()?;
        (array.len() == len).then_some(array)
    }

    fn numbers(&self, bound: &TypedOperation, side: Side) -> Option<Operand> {
        let array = self.values(bound, side)?;
        let numbers = match number_type(array.data_type())? {
            DataType::Int32 => Numbers::I32(
                cast(&array, &DataType::Int32).ok()?.as_primitive::<Int32Type>().values().to_vec(),
            ),
            DataType::Int64 => Numbers::I64(
                cast(&array, &DataType::Int64).ok()?.as_primitive::<Int64Type>().values().to_vec(),
            ),
            DataType::Float32 => Numbers::F32(
                cast(&array, &DataType::Float32)
                    .ok()?
                    .as_primitive::<Float32Type>()
                    .values()
                    .to_vec(),
            ),
            _ => Numbers::F64(
                cast(&array, &DataType::Float64)
                    .ok()?
                    .as_primitive::<Float64Type>()
                    .values()
                    .to_vec(),
            ),
        };
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
        let missing = nulls.map(|nulls| nulls.iter().map(|valid| !valid).collect());
        Some(Operand::new(numbers, missing))
    }
}

/// Returns the type in which the numbers of a column are scanned, if there is one.
fn number_type(data_type: &DataType) -> Option<DataType> {
    use DataType::{
        Date32, Date64, Duration, Float16, Float32, Float64, Int8, Int16, Int32, Int64, Time32,
        Time64, Timestamp, UInt8, UInt16, UInt32,
    };
    match data_type {
        Int8 | Int16 | Int32 | UInt8 | UInt16 | Date32 | Time32(_) => Some(Int32),
        Int64 | UInt32 | Date64 | Time64(_) | Timestamp(..) | Duration(_) => Some(Int64),
        Float16 | Float32 => Some(Float32),
        Float64 => Some(Float64),
        _ => None,
    }
}

fn nothing() -> ArrayRef {
    new_empty_array(&DataType::Null)
}

fn no_numbers(data_type: &DataType) -> Numbers {
    match number_type(data_type).expect("the type of a number") {
        DataType::Int32 => Numbers::I32(Vec::new()),
        DataType::Int64 => Numbers::I64(Vec::new()),
        DataType::Float32 => Numbers::F32(Vec::new()),
        _ => Numbers::F64(Vec::new()),
    }
}

pub(super) fn domain(data_type: &DataType) -> Option<Domain> {
    number_type(data_type)
        .map(|found| if found.is_floating() { Domain::Float } else { Domain::Whole })
}

/// Returns the sides from which an expression reads columns.
pub(super) fn reads(bound: &TypedOperation, left_columns: usize) -> (bool, bool) {
    match bound.operation {
        Operation::Column(slot) => (slot < left_columns, slot >= left_columns),
        _ => bound
            .operands()
            .into_iter()
            .map(|operand| reads(operand, left_columns))
            .fold((false, false), |all, one| (all.0 | one.0, all.1 | one.1)),
    }
}

/// Returns whether an expression reads any of the columns that `is_meant` selects.
fn reads_any(bound: &TypedOperation, is_meant: &impl Fn(usize) -> bool) -> bool {
    match bound.operation {
        Operation::Column(slot) => is_meant(slot),
        _ => bound.operands().into_iter().any(|operand| reads_any(operand, is_meant)),
    }
}

/// Returns the comparisons that make up a conjunct, or `None` if a scan cannot test it.
fn pushable(bound: &TypedOperation, left_columns: usize) -> Option<Pushable> {
    match &bound.operation {
        Operation::Compare(comparison, operands) => {
            compared(*comparison, &operands[0], &operands[1], left_columns)
        }
        Operation::Between(operands) => {
            let [value, low, high] = &**operands;
            let mut all = compared(Comparison::GreaterOrEqual, value, low, left_columns)?;
            let below = compared(Comparison::LessOrEqual, value, high, left_columns)?;
            all.pushed.extend(below.pushed);
            all.watched.extend(below.watched);
            Some(all)
        }
        _ => None,
    }
}

fn compared(
    comparison: Comparison,
    first: &TypedOperation,
    second: &TypedOperation,
    left_columns: usize,
) -> Option<Pushable> {
    let domain = domain(&first.data_type)?;
    let orders = match comparison {
        Comparison::Equal => vec![Order::LessOrEqual, Order::GreaterOrEqual],
        Comparison::Less => vec![Order::Less],
        Comparison::LessOrEqual => vec![Order::LessOrEqual],
        Comparison::Greater => vec![Order::Greater],
        Comparison::GreaterOrEqual => vec![Order::GreaterOrEqual],
        Comparison::NotEqual => return None,
    };
    let orders_across = orders.iter().map(|order| order.across()).collect();
    match (reads(first, left_columns), reads(second, left_columns)) {
        ((true, false), (false, true)) => sums(first, second, orders, domain),
        ((false, true), (true, false)) => sums(second, first, orders_across, domain),
        _ => linear::compared(first, &orders, second, left_columns),
    }
}

/// `left [+ constant] <order> right [+ constant]`
fn sums(
    left: &TypedOperation,
    right: &TypedOperation,
    orders: Vec<Order>,
    domain: Domain,
) -> Option<Pushable> {
    let ((left, left_plus), (right, right_plus)) = (sum(left, domain)?, sum(right, domain)?);
    let relation = match domain {
        Domain::Whole => {
            let (left_plus, right_plus) = (left_plus.whole, right_plus.whole);
            let one = |order| Constraint::Compare { left_plus, order, right_plus };
            Relation::Whole(orders.into_iter().map(one).collect())
        }
        Domain::Float => {
            let (left_plus, right_plus) = (left_plus.float, right_plus.float);
            let one = |order| Constraint::Compare { left_plus, order, right_plus };
            Relation::Float(orders.into_iter().map(one).collect())
        }
    };
    let pushed = vec![PushedComparison { left: left.clone(), right: right.clone(), relation }];
    Some(Pushable { pushed, watched: Vec::new() })
}

/// A finite constant, as an integer and as a float. The constant is exact in the form that the
/// comparison uses.
#[derive(Clone, Copy)]
pub(super) struct Constant {
    pub(super) whole: i64,
    pub(super) float: f64,
}

impl Constant {
    const ZERO: Constant = Constant { whole: 0, float: 0.0 };

    /// Returns the value of an expression that reads no columns, or `None` for other expressions.
    pub(super) fn of(bound: &TypedOperation) -> Option<Self> {
        if reads(bound, 0) != (false, false) {
            return None;
        }
        let value = bound.values(&BlockPairs::All { columns: &[], len: 1 }).ok()?;
        if value.is_null(0) {
            return None;
        }
        match domain(value.data_type())? {
            Domain::Whole => {
                let whole =
                    cast(&value, &DataType::Int64).ok()?.as_primitive::<Int64Type>().value(0);
                // The negated number must also fit.
                (whole > i64::MIN).then_some(Constant { whole, float: whole as f64 })
            }
            Domain::Float => {
                let float =
                    cast(&value, &DataType::Float64).ok()?.as_primitive::<Float64Type>().value(0);
                float.is_finite().then_some(Constant { whole: 0, float })
            }
        }
    }

    fn negated(self) -> Self {
        Constant { whole: -self.whole, float: -self.float }
    }
}

/// Splits an expression into a number and the constant that is added to the number.
fn sum(bound: &TypedOperation, domain: Domain) -> Option<(&TypedOperation, Constant)> {
    let inner = match &bound.operation {
        // A cast to another time unit is not a widening.
        Operation::Cast(inner)
            if self::domain(&inner.data_type) == Some(domain) && !bound.data_type.is_temporal() =>
        {
            inner
        }
        _ => bound,
    };
    if let Operation::Arithmetic(operator @ (Arithmetic::Add | Arithmetic::Subtract), operands) =
        &inner.operation
        && self::domain(&inner.data_type) == Some(domain)
    {
        let [first, second] = &**operands;
        if let Some(constant) = Constant::of(second) {
            let constant = if *operator == Arithmetic::Add { constant } else { constant.negated() };
            return Some((column(first, domain)?, constant));
        }
        if let (Some(constant), Arithmetic::Add) = (Constant::of(first), operator) {
            return Some((column(second, domain)?, constant));
        }
    }
    Some((column(bound, domain)?, Constant::ZERO))
}

/// Returns the expression from which a number is read. The cast to the comparison's type is
/// omitted, because it does not change the order.
pub(super) fn column(bound: &TypedOperation, domain: Domain) -> Option<&TypedOperation> {
    let found = number_type(&bound.data_type)?;
    match &bound.operation {
        Operation::Cast(inner) => match (number_type(&inner.data_type), domain) {
            (Some(_), _) if bound.data_type.is_temporal() => Some(bound),
            (Some(narrow), Domain::Whole) if !narrow.is_floating() => Some(inner),
            (Some(_), Domain::Float) if found.is_floating() => Some(inner),
            _ => Some(bound),
        },
        _ => Some(bound),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::expression::parse_sql;
    use arrow_schema::{Field, Schema, TimeUnit};

    fn comparisons(text: &str) -> (usize, usize) {
        let field = |name: &str, data_type| Field::new(name, data_type, true);
        let schema = Schema::new(vec![
            field("i", DataType::Int32),
            field("n", DataType::Int64),
            field("f", DataType::Float32),
            field("d", DataType::Float64),
            field("s", DataType::Utf8),
            field("t", DataType::Timestamp(TimeUnit::Microsecond, None)),
            field("u", DataType::UInt64),
        ]);
        Predicate::bind(&parse_sql(text).unwrap(), &schema, &schema).unwrap().comparisons()
    }

    #[test]
    fn comparisons_between_the_sides_are_found() {
        for text in [
            "left.i = right.i",
            "left.i < right.n",
            "right.n >= left.d",
            "left.f + 1 > right.i",
            "left.i BETWEEN right.i - 10 AND right.i + 10",
            "right.f BETWEEN left.f - 0.5 AND 3 + left.f",
            "abs(left.n - right.i) <= 5",
            "abs(right.d - left.f) < 0.5",
            "left.n - right.n BETWEEN -2 AND 7",
            "10 > right.f - left.f",
            "left.i * 2 < right.n / 3",
            "left.t - right.t < INTERVAL '5 seconds'",
            "left.t < right.t + INTERVAL '5 seconds'",
            "left.i + right.i < 5",
            "left.n + right.i = 5",
            "5 <= right.f + left.d",
            "left.d + right.d BETWEEN -2 * 3 AND 7.5",
            "abs(left.d + right.f - 1) <= 0.25",
            "2 * (3 - (left.d + right.f / 2)) > -(1.5)",
            "(left.i + right.n) / 2 >= 2.5",
            "abs(left.i - right.n) < 2.5",
            "left.n + right.n > left.i",
            "abs(left.n - right.i) <= left.i + right.n",
            "3 * left.n - 2 * right.n + 1 < right.i - (left.n - 7)",
            "left.i BETWEEN right.i - left.n AND right.i + left.n",
            "left.d + right.f > left.f",
            "right.d - 2 * left.d < right.f / 3",
            "(left.d + right.d - left.f) / 2 > 3",
            "abs(right.d - left.d - right.f / 2) < 3",
            "abs(left.d - right.d) <= left.f",
            "left.d BETWEEN right.d - left.f AND right.d + left.f",
            "left.i + right.d = right.f - 1",
            "(left.t - right.t) / INTERVAL '1 second' < 2.5",
        ] {
            assert_eq!(comparisons(text), (1, 1), "{text}");
        }
        assert_eq!(
            comparisons("left.i < right.i AND left.s = right.s AND abs(left.n) < right.n"),
            (2, 3)
        );
    }

    #[test]
    fn what_is_no_range_is_left() {
        for text in [
            "left.i != right.i",
            "left.s < right.s",
            "left.u < right.u",
            "left.i < 5",
            "abs(left.n - right.n) > 5",
            "abs(left.d + right.d) >= 5",
            "0 * (left.i + right.i) < 5",
            "left.d * right.d < 5",
            "left.f * right.d + left.d < 5",
            "left.d + right.d < left.f + right.f",
            "(left.i + right.i) / 2 < left.d",
            "5 / (left.d + right.d) < 5",
            "(left.i + right.i) % 3 < 2",
            "(left.d + right.d) % 3 < 2",
            "left.i + right.i < 1 / 0",
            "left.u + right.u < 5",
            "left.i < right.i OR left.n < right.n",
            "left.i * right.i < 5",
            "left.i < NULL",
            "left.d < NULL",
            "left.d + 1 < 5",
        ] {
            assert_eq!(comparisons(text).0, 0, "{text}");
        }
    }
}
