//! Relations between a number in the left row and a number in the right row. Given one of the
//! numbers, a relation determines the range of matching numbers on the other side.
//!
//! Every constraint is monotone: if one number is fixed, the constraint holds either for all
//! numbers above some limit or for all numbers below some limit. The search for this limit
//! evaluates the original expression in rank order, and begins near the exact result. Rounding
//! therefore has the same effect on the limit as on the expression. For example, the range for
//! `right.y - 0.1 <= left.y` contains exactly the floats `right.y` that pass this test. This range
//! may differ from the range of numbers up to `left.y + 0.1`.

use super::numbers::{Number, Numbers, Whole};
use crate::rows::Side;

/// A comparison operator between two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl std::fmt::Display for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Order::Less => "<",
            Order::LessOrEqual => "<=",
            Order::Greater => ">",
            Order::GreaterOrEqual => ">=",
        })
    }
}

/// A condition on the numbers of a left and a right row, computed in the type `W`. Constants are
/// finite, except that a sum or a difference can be compared with `>= inf` or `<= -inf`. When an
/// infinity is added to the opposite infinity, the result is NaN, which satisfies no comparison.
/// NaN results occur only at one end of the other number's range, where these two comparisons are
/// false. Any other comparison with an infinity would be true at that end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Constraint<W> {
    /// `left + left_plus <order> right + right_plus`
    Compare {
        /// The constant added to the left number.
        left_plus: W,
        /// The comparison between the sums.
        order: Order,
        /// The constant added to the right number.
        right_plus: W,
    },
    /// `left + right <order> than`
    Sum {
        /// The comparison of the sum.
        order: Order,
        /// The constant with which the sum is compared.
        than: W,
    },
    /// `left - right <order> than`
    Difference {
        /// The comparison of the difference.
        order: Order,
        /// The constant with which the difference is compared.
        than: W,
    },
}

/// All constraints that must hold between two numbers.
#[derive(Clone, Debug, PartialEq)]
pub enum Relation {
    /// The constraints use 64-bit integer arithmetic. Both columns must be integers.
    Whole(Vec<Constraint<i64>>),
    /// The constraints use 64-bit floating-point arithmetic.
    Float(Vec<Constraint<f64>>),
}

/// The type in which constraints are computed.
pub(super) trait Wide: Copy + PartialOrd {
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
}

impl Wide for i64 {
    /// Returns the sum, saturated. For a join that [`Relation::fits`] accepts, the sum is exact for
    /// all rows. For all other numbers, the sum is still monotone.
    fn plus(self, other: Self) -> Self {
        self.saturating_add(other)
    }

    fn minus(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
}

impl Wide for f64 {
    fn plus(self, other: Self) -> Self {
        self + other
    }

    fn minus(self, other: Self) -> Self {
        self - other
    }
}

impl Order {
    /// Returns a comparison with a constant that is equivalent to `holds` for all integers. There
    /// must be a limit such that `holds` is true either for exactly the integers at or above it, or
    /// for exactly the integers at or below it. Returns `None` if `holds` is true for all integers
    /// or for none.
    pub fn turn_of_whole(holds: impl Fn(i64) -> bool) -> Option<(Order, i64)> {
        turn(0, holds)
    }

    /// Returns the equivalent comparison for floats, as [`turn_of_whole`](Self::turn_of_whole) does
    /// for integers. The search is short if the limit is close to `near`.
    pub fn turn_of_float(near: f64, holds: impl Fn(f64) -> bool) -> Option<(Order, f64)> {
        turn(near, holds)
    }

    /// Returns the comparison that holds when the two sides are exchanged, or when both signs are
    /// inverted.
    #[must_use]
    pub fn across(self) -> Order {
        match self {
            Order::Less => Order::Greater,
            Order::LessOrEqual => Order::GreaterOrEqual,
            Order::Greater => Order::Less,
            Order::GreaterOrEqual => Order::LessOrEqual,
        }
    }

    /// Returns whether this comparison is true for two numbers.
    pub fn holds<W: PartialOrd>(self, left: W, right: W) -> bool {
        match self {
            Order::Less => left < right,
            Order::LessOrEqual => left <= right,
            Order::Greater => left > right,
            Order::GreaterOrEqual => left >= right,
        }
    }

    /// Returns whether this comparison sets an upper bound on the first number.
    pub fn is_less(self) -> bool {
        matches!(self, Order::Less | Order::LessOrEqual)
    }
}

/// Returns whether a constraint holds for two numbers.
fn holds<W: Wide>(constraint: &Constraint<W>, left: W, right: W) -> bool {
    match *constraint {
        Constraint::Compare { left_plus, order, right_plus } => {
            order.holds(left.plus(left_plus), right.plus(right_plus))
        }
        Constraint::Sum { order, than } => order.holds(left.plus(right), than),
        Constraint::Difference { order, than } => order.holds(left.minus(right), than),
    }
}

/// Returns whether a constraint holds for all numbers on `side` above some limit rather than below
/// it.
fn rises_with<W>(constraint: &Constraint<W>, side: Side) -> bool {
    match constraint {
        Constraint::Compare { order, .. } | Constraint::Difference { order, .. } => {
            order.is_less() == (side == Side::Right)
        }
        Constraint::Sum { order, .. } => !order.is_less(),
    }
}

/// Returns the approximate number on `side` at which matches begin or end.
fn turns_near<W: Wide>(constraint: &Constraint<W>, side: Side, other: W) -> W {
    match (*constraint, side) {
        (Constraint::Compare { left_plus, right_plus, .. }, Side::Right) => {
            other.plus(left_plus).minus(right_plus)
        }
        (Constraint::Compare { left_plus, right_plus, .. }, Side::Left) => {
            other.plus(right_plus).minus(left_plus)
        }
        (Constraint::Sum { than, .. }, _) => than.minus(other),
        (Constraint::Difference { than, .. }, Side::Right) => other.minus(than),
        (Constraint::Difference { than, .. }, Side::Left) => other.plus(than),
    }
}

impl Constraint<i64> {
    /// Returns whether overflow is impossible for all left and right numbers between these bounds.
    fn fits(&self, left: (i64, i64), right: (i64, i64)) -> bool {
        match *self {
            Constraint::Compare { left_plus, right_plus, .. } => {
                let adds = |ends: (i64, i64), plus: i64| {
                    [ends.0, ends.1].iter().all(|end| end.checked_add(plus).is_some())
                };
                adds(left, left_plus) && adds(right, right_plus)
            }
            Constraint::Sum { .. } => {
                left.0.checked_add(right.0).is_some() && left.1.checked_add(right.1).is_some()
            }
            // The absolute value must not overflow either.
            Constraint::Difference { .. } => {
                let least = left.0.checked_sub(right.1);
                left.1.checked_sub(right.0).is_some() && least.is_some_and(|least| least > i64::MIN)
            }
        }
    }
}

impl Relation {
    /// Adds the constraints of another relation. If the two relations are computed in different
    /// types, returns `false` and adds nothing.
    pub fn extend(&mut self, other: &Relation) -> bool {
        match (self, other) {
            (Relation::Whole(all), Relation::Whole(more)) => all.extend(more),
            (Relation::Float(all), Relation::Float(more)) => all.extend(more),
            _ => return false,
        }
        true
    }

    /// Returns whether the relation requires two integers to be equal.
    pub(super) fn is_equality(&self) -> bool {
        let Relation::Whole(constraints) = self else { return false };
        let has = |wanted: Order| {
            constraints.iter().any(|constraint| match *constraint {
                Constraint::Compare { left_plus: 0, order, right_plus: 0 } => order == wanted,
                Constraint::Difference { order, than: 0 } => order == wanted,
                Constraint::Compare { .. }
                | Constraint::Sum { .. }
                | Constraint::Difference { .. } => false,
            })
        };
        has(Order::LessOrEqual) && has(Order::GreaterOrEqual)
    }

    /// Returns whether the relation bounds a number from above and below.
    pub(super) fn is_band(&self) -> bool {
        fn bounds<W>(constraints: &[Constraint<W>], less: bool) -> bool {
            constraints.iter().any(|constraint| match constraint {
                Constraint::Compare { order, .. }
                | Constraint::Sum { order, .. }
                | Constraint::Difference { order, .. } => order.is_less() == less,
            })
        }
        match self {
            Relation::Whole(constraints) => bounds(constraints, true) && bounds(constraints, false),
            Relation::Float(constraints) => bounds(constraints, true) && bounds(constraints, false),
        }
    }

    /// Returns whether the relation can be computed without overflow for all numbers in these
    /// columns. The arguments contain the ranks of each column's smallest and largest numbers. A
    /// side without numbers can still have rows for which the relation is computed. Such a row is
    /// treated as if its number were 0.
    pub(super) fn fits(
        &self,
        left: (&Numbers, Option<(u64, u64)>),
        right: (&Numbers, Option<(u64, u64)>),
    ) -> bool {
        let whole = |numbers: &Numbers, rank: u64| match numbers {
            Numbers::I32(_) => i32::of_rank(rank).whole(),
            Numbers::I64(_) => i64::of_rank(rank).whole(),
            Numbers::F32(_) | Numbers::F64(_) => panic!("integer arithmetic needs integer columns"),
        };
        match self {
            Relation::Float(_) => true,
            Relation::Whole(constraints) => {
                let ends = |(numbers, ends): (&Numbers, Option<(u64, u64)>)| {
                    ends.map_or((0, 0), |(low, high)| (whole(numbers, low), whole(numbers, high)))
                };
                constraints.iter().all(|constraint| constraint.fits(ends(left), ends(right)))
            }
        }
    }

    /// Returns the range of ranks on `side` that match a row's number on the other side. Returns
    /// `None` if there is no match.
    pub(super) fn range(
        &self,
        side: Side,
        like: &Numbers,
        others: &Numbers,
        row: usize,
    ) -> Option<(u64, u64)> {
        match self {
            Relation::Whole(constraints) => {
                let other = match others {
                    Numbers::I32(values) => values[row].whole(),
                    Numbers::I64(values) => values[row].whole(),
                    Numbers::F32(_) | Numbers::F64(_) => {
                        panic!("integer arithmetic needs integer columns")
                    }
                };
                match like {
                    Numbers::I32(_) => range(constraints, side, other, i32::whole, i32::near_whole),
                    Numbers::I64(_) => range(constraints, side, other, i64::whole, i64::near_whole),
                    Numbers::F32(_) | Numbers::F64(_) => {
                        panic!("integer arithmetic needs integer columns")
                    }
                }
            }
            Relation::Float(constraints) => {
                let other = super::numbers::with_values!(others, values => values[row].float());
                match like {
                    Numbers::I32(_) => range(constraints, side, other, i32::float, i32::near_float),
                    Numbers::I64(_) => range(constraints, side, other, i64::float, i64::near_float),
                    Numbers::F32(_) => range(constraints, side, other, f32::float, f32::near_float),
                    Numbers::F64(_) => range(constraints, side, other, f64::float, f64::near_float),
                }
            }
        }
    }
}

fn range<T: Number, W: Wide>(
    constraints: &[Constraint<W>],
    side: Side,
    other: W,
    widen: impl Fn(T) -> W,
    narrow: impl Fn(W) -> T,
) -> Option<(u64, u64)> {
    let (mut low, mut high) = (T::FIRST, T::LAST);
    for constraint in constraints {
        let holds = |rank: u64| {
            let number = widen(T::of_rank(rank));
            match side {
                Side::Left => holds(constraint, number, other),
                Side::Right => holds(constraint, other, number),
            }
        };
        let near = narrow(turns_near(constraint, side, other)).rank().clamp(T::FIRST, T::LAST);
        if rises_with(constraint, side) {
            low = low.max(first(T::FIRST, T::LAST, near, holds)?);
        } else {
            match first(T::FIRST, T::LAST, near, |rank| !holds(rank)) {
                Some(beyond) if beyond == T::FIRST => return None,
                Some(beyond) => high = high.min(beyond - 1),
                None => {}
            }
        }
    }
    (low <= high).then_some((low, high))
}

fn turn<T: Number>(near: T, holds: impl Fn(T) -> bool) -> Option<(Order, T)> {
    let near = near.rank().clamp(T::FIRST, T::LAST);
    let holds = |rank: u64| holds(T::of_rank(rank));
    match (holds(T::FIRST), holds(T::LAST)) {
        (false, true) => {
            let least = first(T::FIRST, T::LAST, near, holds)?;
            Some((Order::GreaterOrEqual, T::of_rank(least)))
        }
        (true, false) => {
            let beyond = first(T::FIRST, T::LAST, near, |rank| !holds(rank))?;
            Some((Order::LessOrEqual, T::of_rank(beyond - 1)))
        }
        _ => None,
    }
}

/// Returns the first number between `from` and `to` for which `holds` is true, starting the search
/// at `near`. All subsequent numbers must also satisfy `holds`.
fn first(from: u64, to: u64, near: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    // `below` does not satisfy the condition or is `None`; `above` satisfies it or is `None`.
    let (mut below, mut above) = (None, None);
    let (mut at, mut step) = (near, 1_u64);
    loop {
        if holds(at) {
            above = Some(at);
            if at == from {
                return Some(at);
            }
            if below.is_some() {
                break;
            }
            at = at.saturating_sub(step).max(from);
        } else {
            below = Some(at);
            if at == to {
                return None;
            }
            if above.is_some() {
                break;
            }
            at = at.saturating_add(step).min(to);
        }
        step = step.saturating_mul(2);
    }
    let (mut below, mut above) = (below?, above?);
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        if holds(middle) { above = middle } else { below = middle }
    }
    Some(above)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn order() -> impl Strategy<Value = Order> {
        prop::sample::select(vec![
            Order::Less,
            Order::LessOrEqual,
            Order::Greater,
            Order::GreaterOrEqual,
        ])
    }

    fn constraint<W: Copy + std::fmt::Debug>(
        number: impl Strategy<Value = W> + Clone,
    ) -> impl Strategy<Value = Constraint<W>> {
        (0..3, order(), number.clone(), number).prop_map(|(form, order, a, b)| match form {
            0 => Constraint::Compare { left_plus: a, order, right_plus: b },
            1 => Constraint::Sum { order, than: a },
            _ => Constraint::Difference { order, than: a },
        })
    }

    /// Generates the comparisons with an infinity that are allowed for sums and differences.
    fn with_infinity() -> impl Strategy<Value = Constraint<f64>> {
        let ends = prop::sample::select(vec![
            (Order::GreaterOrEqual, f64::INFINITY),
            (Order::LessOrEqual, f64::NEG_INFINITY),
        ]);
        (any::<bool>(), ends).prop_map(|(sum, (order, than))| match sum {
            true => Constraint::Sum { order, than },
            false => Constraint::Difference { order, than },
        })
    }

    fn floats() -> impl Strategy<Value = f64> + Clone {
        let odd = prop::sample::select(vec![
            0.0,
            -0.0,
            0.1,
            1e-300,
            5e-324,
            -1e300,
            f64::INFINITY,
            f64::NEG_INFINITY,
        ]);
        prop_oneof![odd, -3.0..3.0, any::<f64>()]
    }

    fn finite() -> impl Strategy<Value = f64> + Clone {
        floats().prop_filter("finite", |number| number.is_finite())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn oracle_the_arithmetic_itself_in_floats(
            constraints in prop::collection::vec(prop_oneof![9 => constraint(finite()), 1 => with_infinity()], 1..3),
            left in prop::collection::vec(floats(), 1..8),
            narrow in any::<[bool; 2]>(),
        ) {
            let of = |narrow: bool| match narrow {
                true => Numbers::F32(left.iter().map(|&number| number as f32).collect()),
                false => Numbers::F64(left.clone()),
            };
            let (left, right) = (of(narrow[0]), of(narrow[1]));
            let value = |numbers: &Numbers, row: usize| super::super::numbers::with_values!(numbers, values => values[row].float());
            let rank = |numbers: &Numbers, row: usize| super::super::numbers::with_values!(numbers, values => values[row].rank());
            let relation = Relation::Float(constraints.clone());
            let rows = match &left { Numbers::F32(values) => values.len(), Numbers::F64(values) => values.len(), _ => 0 };
            for l in 0..rows {
                for r in 0..rows {
                    let expected = constraints.iter().all(|one| holds(one, value(&left, l), value(&right, r)));
                    let found = relation.range(Side::Right, &right, &left, l);
                    let found = found.is_some_and(|(low, high)| (low..=high).contains(&rank(&right, r)));
                    prop_assert_eq!(found, expected, "right, {} {}", l, r);
                    let found = relation.range(Side::Left, &left, &right, r);
                    let found = found.is_some_and(|(low, high)| (low..=high).contains(&rank(&left, l)));
                    prop_assert_eq!(found, expected, "left, {} {}", l, r);
                }
            }
        }

        #[test]
        fn oracle_the_arithmetic_itself_in_integers(
            constraints in prop::collection::vec(constraint(prop_oneof![-3_i64..4, any::<i64>()]), 1..3),
            left in prop::collection::vec(prop_oneof![-3_i64..4, any::<i64>()], 1..8),
        ) {
            let narrow: Vec<i32> = left.iter().map(|&number| number as i32).collect();
            let (wide, narrow_numbers) = (Numbers::I64(left.clone()), Numbers::I32(narrow.clone()));
            let relation = Relation::Whole(constraints.clone());
            for (l, &a) in left.iter().enumerate() {
                for (r, &b) in narrow.iter().enumerate() {
                    if !constraints.iter().all(|one| one.fits((a, a), (b.into(), b.into()))) {
                        continue;
                    }
                    let expected = constraints.iter().all(|one| holds(one, a, b.into()));
                    let found = relation.range(Side::Right, &narrow_numbers, &wide, l);
                    prop_assert_eq!(found.is_some_and(|(low, high)| (low..=high).contains(&b.rank())), expected);
                    let found = relation.range(Side::Left, &wide, &narrow_numbers, r);
                    prop_assert_eq!(found.is_some_and(|(low, high)| (low..=high).contains(&a.rank())), expected);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn a_comparison_turns_where_it_is_said_to(near in floats(), than in floats(), x in floats(), order in order()) {
            prop_assume!(!near.is_nan());
            let holds = |x: f64| order.holds(x, than);
            match Order::turn_of_float(near, holds) {
                Some((found, constant)) => prop_assert_eq!(found.holds(x, constant), holds(x)),
                None => prop_assert!(x.is_nan() || holds(x) == holds(0.0)),
            }
            let (whole, near) = (x as i64, near as i64);
            let holds = |x: i64| order.holds(x, near);
            match Order::turn_of_whole(holds) {
                Some((found, constant)) => prop_assert_eq!(found.holds(whole, constant), holds(whole)),
                None => prop_assert_eq!(holds(0), holds(whole)),
            }
        }
    }

    #[test]
    fn a_band_of_floats_is_found_in_few_steps() {
        let steps = std::cell::Cell::new(0);
        let near = 5000.1_f32.rank();
        let found = first(f32::FIRST, f32::LAST, near, |rank| {
            steps.set(steps.get() + 1);
            f64::from(f32::of_rank(rank)) + 10.0 >= 5010.1
        });
        assert!(found.is_some() && steps.get() < 8, "{} steps", steps.get());
    }
}
