use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::*;
use arrow_buffer::i256;
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use proptest::prelude::*;

use crate::columns::cast::cast;
use crate::columns::expression::{
    Arithmetic, Binary, Comparison, Expr, Literal, Origin, Predicate, ScalarFunction, Unary,
};

/// A value of one row. Times are in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
enum Cell {
    Null,
    Boolean(bool),
    /// Computed in `int64`.
    Whole(i64),
    /// A value computed in `decimal128`: a decimal or a `uint64`.
    Decimal(i128, u32),
    Float(f64),
    Text(String),
    Time(i128),
    Span(i128),
}

use Cell::{Float, Null, Span, Text, Time, Whole};

/// The reason why a row has no value.
#[derive(Debug, PartialEq)]
enum Failure {
    /// Overflow or division by zero.
    Error,
    /// A case that the rules leave open: a value with more than 38 digits may or may not fit in
    /// `decimal128`.
    Unknown,
}

type Outcome = Result<Cell, Failure>;

const SECOND: i128 = 1_000_000_000;

// The data. Both sides have the same columns, and each type has its own extremes.

fn types() -> Vec<(&'static str, DataType)> {
    use DataType::*;
    let dictionary = |key, value| Dictionary(Box::new(key), Box::new(value));
    vec![
        ("i8", Int8),
        ("u16", UInt16),
        ("i64", Int64),
        ("u64", UInt64),
        ("i64_dictionary", dictionary(Int16, Int64)),
        ("f32", Float32),
        ("f64", Float64),
        ("decimal", Decimal128(10, 2)),
        ("small_decimal", Decimal32(4, 3)),
        ("utf8", Utf8),
        ("large", LargeUtf8),
        ("view", Utf8View),
        ("dictionary", dictionary(Int8, Utf8)),
        ("large_dictionary", dictionary(Int32, LargeUtf8)),
        ("flag", Boolean),
        ("s", Timestamp(TimeUnit::Second, None)),
        ("ns", Timestamp(TimeUnit::Nanosecond, None)),
        ("day", Date32),
        ("berlin", Timestamp(TimeUnit::Millisecond, Some("Europe/Berlin".into()))),
        ("utc", Timestamp(TimeUnit::Microsecond, Some("UTC".into()))),
        ("d_s", Duration(TimeUnit::Second)),
        ("d_us", Duration(TimeUnit::Microsecond)),
    ]
}

const NUMBERS: [&str; 9] =
    ["i8", "u16", "i64", "u64", "i64_dictionary", "f32", "f64", "decimal", "small_decimal"];
const TEXTS: [&str; 5] = ["utf8", "large", "view", "dictionary", "large_dictionary"];
const TIMES: [&str; 3] = ["s", "ns", "day"];
const INSTANTS: [&str; 2] = ["berlin", "utc"];
const SPANS: [&str; 2] = ["d_s", "d_us"];

fn cell(data_type: &DataType) -> BoxedStrategy<Cell> {
    use proptest::sample::select;
    let value = match data_type {
        DataType::Int8 => {
            select(vec![i8::MIN, -1, 0, 1, 2, i8::MAX]).prop_map(|x| Whole(x.into())).boxed()
        }
        DataType::UInt16 => select(vec![0, 1, 2, u16::MAX]).prop_map(|x| Whole(x.into())).boxed(),
        DataType::UInt64 => select(vec![0, 1, 2, 127, 1 << 63, u64::MAX])
            .prop_map(|x| Cell::Decimal(x.into(), 0))
            .boxed(),
        DataType::Float32 => {
            let floats =
                vec![f32::NAN, -0.0, 0.0, 1.0, -1.5, 0.1, 127.0, f32::INFINITY, f32::MIN_POSITIVE];
            select(floats).prop_map(|x| Float(x.into())).boxed()
        }
        DataType::Float64 => select(vec![
            f64::NAN,
            -f64::NAN,
            -0.0,
            0.0,
            1.0,
            -1.5,
            0.1,
            2.0,
            127.0,
            1e300,
            f64::NEG_INFINITY,
        ])
        .prop_map(Float)
        .boxed(),
        DataType::Decimal128(..) => select(vec![-9_999_999_999, -150, 0, 10, 100, 200, 12_700])
            .prop_map(|x| Cell::Decimal(x, 2))
            .boxed(),
        DataType::Decimal32(..) => {
            select(vec![-9_999, -1_500, 0, 100, 1000]).prop_map(|x| Cell::Decimal(x, 3)).boxed()
        }
        DataType::Boolean => any::<bool>().prop_map(Cell::Boolean).boxed(),
        // The values are far from overflow, because overflow depends on the unit.
        DataType::Timestamp(unit, _) | DataType::Duration(unit) => {
            let (size, is_time) =
                (nanoseconds(*unit), matches!(data_type, DataType::Timestamp(..)));
            prop_oneof![
                -2 * 86_400..2 * 86_400_i128,
                Just(0),
                Just(-1),
                Just(86_400),
                -100_000_000..100_000_000_i128
            ]
            .prop_flat_map(move |seconds| (Just(seconds), 0..(SECOND / size).min(3)))
            .prop_map(move |(seconds, ticks)| {
                let value = seconds * SECOND + ticks * size;
                if is_time { Time(value) } else { Span(value) }
            })
            .boxed()
        }
        DataType::Date32 => (-3..3_i128).prop_map(|day| Time(day * 86_400 * SECOND)).boxed(),
        DataType::Dictionary(_, values) if **values == DataType::Int64 => return cell(values),
        DataType::Int64 => {
            select(vec![i64::MIN, -1, 0, 1, 2, 127, 1 << 53, i64::MAX]).prop_map(Whole).boxed()
        }
        _ => select(vec!["", "a", "b", "a longer string than a view holds inline", "é", "Z"])
            .prop_map(|x| Text(x.into()))
            .boxed(),
    };
    prop_oneof![1 => Just(Null), 5 => value].boxed()
}

fn nanoseconds(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => SECOND,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

/// The cells of one side, column by column.
type Cells = Vec<Vec<Cell>>;

/// Generates a condition, and rows for it. Columns that the condition does not read have no cells,
/// because generating all columns would take several times as long as the rest of the test.
fn condition_and_rows() -> impl Strategy<Value = (Expr, usize, Cells, Cells)> {
    (condition(), 0..150_usize).prop_flat_map(|(expr, rows)| {
        let mut read = [Vec::new(), Vec::new()];
        expr.for_each_column(&mut |side, name| {
            read[usize::from(side == Origin::Right)].push(name.to_owned());
        });
        let [left, right] = read.map(|names| cells(&names, rows));
        (Just(expr), Just(rows), left, right)
    })
}

fn cells(names: &[String], rows: usize) -> impl Strategy<Value = Cells> + use<> {
    let rows_of = |name: &str| if names.iter().any(|read| read == name) { rows } else { 0 };
    let columns: Vec<_> =
        types().iter().map(|(name, t)| proptest::collection::vec(cell(t), rows_of(name))).collect();
    columns
}

fn array(data_type: &DataType, cells: &[Cell]) -> ArrayRef {
    let number = |size: i128| {
        let values = cells.iter().map(move |cell| match cell {
            Time(x) | Span(x) => Some(i64::try_from(x / size).expect("chosen to fit")),
            Whole(x) => Some(*x),
            _ => None,
        });
        Int64Array::from_iter(values)
    };
    let array: ArrayRef = match data_type {
        DataType::Boolean => {
            let value = |cell: &Cell| if let Cell::Boolean(x) = cell { Some(*x) } else { None };
            Arc::new(BooleanArray::from_iter(cells.iter().map(value)))
        }
        DataType::Float32 | DataType::Float64 => {
            let value = |cell: &Cell| if let Float(x) = cell { Some(*x) } else { None };
            Arc::new(Float64Array::from_iter(cells.iter().map(value)))
        }
        DataType::UInt64 | DataType::Decimal32(..) | DataType::Decimal128(..) => {
            let value = |cell: &Cell| if let Cell::Decimal(x, _) = cell { Some(*x) } else { None };
            let scale = if let DataType::Decimal32(_, s) | DataType::Decimal128(_, s) = data_type {
                *s
            } else {
                0
            };
            let values = Decimal128Array::from_iter(cells.iter().map(value));
            Arc::new(values.with_precision_and_scale(38, scale).expect("38 digits hold them"))
        }
        DataType::Timestamp(unit, _) | DataType::Duration(unit) => {
            Arc::new(number(nanoseconds(*unit)))
        }
        DataType::Date32 => cast(&number(86_400 * SECOND), &DataType::Int32).expect("few days"),
        DataType::Int8 | DataType::UInt16 | DataType::Int64 => Arc::new(number(1)),
        DataType::Dictionary(_, values) if **values == DataType::Int64 => Arc::new(number(1)),
        _ => {
            let value = |cell: &Cell| if let Text(x) = cell { Some(x.clone()) } else { None };
            Arc::new(StringArray::from_iter(cells.iter().map(value)))
        }
    };
    if matches!(data_type, DataType::Timestamp(..)) {
        // The array is not cast, because a cast would treat the numbers as local time in the time
        // zone.
        let data = array.to_data().into_builder().data_type(data_type.clone()).build();
        return make_array(data.expect("a timestamp is an int64"));
    }
    let array = cast(&array, data_type).expect("chosen to fit");
    assert_eq!(array.data_type(), data_type);
    array
}

// The expressions. Their types are valid, because invalid ones have separate tests.

fn column(names: &'static [&'static str]) -> impl Strategy<Value = Expr> {
    let side = prop_oneof![Just(Origin::Left), Just(Origin::Right)];
    (side, proptest::sample::select(names)).prop_map(|(side, name)| Expr::Column(side, name.into()))
}

fn literals(values: Vec<Literal>) -> impl Strategy<Value = Expr> {
    proptest::sample::select(values).prop_map(Expr::Literal)
}

fn arithmetic(
    left: BoxedStrategy<Expr>,
    operators: Vec<Arithmetic>,
    right: BoxedStrategy<Expr>,
) -> BoxedStrategy<Expr> {
    (left, proptest::sample::select(operators), right)
        .prop_map(|(l, operator, r)| Expr::Binary(l.into(), Binary::Arithmetic(operator), r.into()))
        .boxed()
}

fn signed(inner: BoxedStrategy<Expr>) -> BoxedStrategy<Expr> {
    (proptest::sample::select(vec![Unary::Negate, Unary::Abs]), inner)
        .prop_map(|(operator, x)| Expr::Unary(operator, x.into()))
        .boxed()
}

fn number(depth: u32) -> BoxedStrategy<Expr> {
    use Arithmetic::{Add, Divide, Multiply, Remainder, Subtract};
    let integers = [i64::MIN.into(), -1, 0, 1, 2, 127, 128, i64::MAX.into(), u64::MAX.into()]
        .map(Literal::Integer);
    let floats = [0.0, -0.0, 0.1, 1.5, f64::NAN, f64::INFINITY].map(Literal::Float);
    let decimals =
        [(150, 2), (1, 1), (-5, 0)].map(|(value, scale)| Literal::Decimal { value, scale });
    let leaf = prop_oneof![
        4 => column(&NUMBERS),
        1 => literals([&integers[..], &floats, &decimals, &[Literal::Null]].concat())
    ];
    if depth == 0 {
        return leaf.boxed();
    }
    let inner = number(depth - 1);
    let operators = vec![Add, Subtract, Multiply, Divide, Remainder];
    prop_oneof![2 => leaf, 2 => arithmetic(inner.clone(), operators, inner.clone()), 1 => signed(inner)].boxed()
}

fn text() -> BoxedStrategy<Expr> {
    let texts = ["", "a", "é"].map(|x| Literal::Text(x.into())).to_vec();
    prop_oneof![3 => column(&TEXTS), 1 => literals([texts, vec![Literal::Null]].concat())].boxed()
}

fn time(names: &'static [&'static str], zoned: bool, depth: u32) -> BoxedStrategy<Expr> {
    let times = [0, 86_400 * SECOND, 1_500_000_000, 1, -1];
    let leaf = prop_oneof![
        3 => column(names),
        1 => literals(times.map(|nanoseconds| Literal::Timestamp { nanoseconds, zoned }).to_vec())
    ];
    if depth == 0 {
        return leaf.boxed();
    }
    let shifted = arithmetic(
        time(names, zoned, depth - 1),
        vec![Arithmetic::Add, Arithmetic::Subtract],
        span(depth - 1),
    );
    let span_first =
        arithmetic(span(depth - 1), vec![Arithmetic::Add], time(names, zoned, depth - 1));
    prop_oneof![2 => leaf, 1 => shifted, 1 => span_first].boxed()
}

fn span(depth: u32) -> BoxedStrategy<Expr> {
    let spans = [0, 86_400 * SECOND, 1_500_000_000, 1, -1]
        .map(|nanoseconds| Literal::Duration { nanoseconds });
    let leaf = prop_oneof![3 => column(&SPANS), 1 => literals(spans.to_vec())];
    if depth == 0 {
        return leaf.boxed();
    }
    let between = |names, zoned| {
        let time = time(names, zoned, depth - 1);
        arithmetic(time.clone(), vec![Arithmetic::Subtract], time)
    };
    let inner = span(depth - 1);
    let sums =
        arithmetic(inner.clone(), vec![Arithmetic::Add, Arithmetic::Subtract], inner.clone());
    prop_oneof![leaf, between(&TIMES, false), between(&INSTANTS, true), sums, signed(inner)].boxed()
}

/// Generates a `coalesce`, or a `CASE` whose conditions can fail, with values of one kind.
fn chosen(value: BoxedStrategy<Expr>) -> BoxedStrategy<Expr> {
    let condition = (number(1), number(0))
        .prop_map(|(l, r)| Expr::Binary(l.into(), Binary::Compare(Comparison::Less), r.into()));
    let branches = proptest::collection::vec((condition, value.clone()), 1..3);
    let case = (branches, proptest::option::of(value.clone())).prop_map(|(branches, otherwise)| {
        Expr::Case { branches, otherwise: otherwise.map(Box::new) }
    });
    let values = proptest::collection::vec(value, 1..4);
    prop_oneof![case, values.prop_map(|values| Expr::Call(ScalarFunction::Coalesce, values))]
        .boxed()
}

/// Generates a comparison between values of the same kind, or a ratio of durations.
fn comparison(plain: BoxedStrategy<Expr>) -> BoxedStrategy<Expr> {
    use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    let operand = prop_oneof![5 => plain.clone(), 1 => chosen(plain)].boxed();
    let operator =
        proptest::sample::select(vec![Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual]);
    prop_oneof![
        4 => (operand.clone(), operator, operand.clone())
            .prop_map(|(l, operator, r)| Expr::Binary(l.into(), Binary::Compare(operator), r.into())),
        1 => (operand.clone(), operand.clone(), operand.clone())
            .prop_map(|(value, low, high)| Expr::Between { value: value.into(), low: low.into(), high: high.into() }),
        1 => (operand.clone(), proptest::collection::vec(operand.clone(), 1..4))
            .prop_map(|(value, items)| Expr::In { value: value.into(), items }),
        1 => (proptest::sample::select(vec![Unary::IsNull, Unary::IsNotNull]), operand)
            .prop_map(|(operator, x)| Expr::Unary(operator, x.into())),
    ]
    .boxed()
}

fn condition() -> impl Strategy<Value = Expr> {
    let ratio = prop_oneof![arithmetic(span(1), vec![Arithmetic::Divide], span(1)), number(0)];
    let leaf = prop_oneof![
        6 => comparison(number(2)),
        2 => comparison(text()),
        2 => comparison(time(&TIMES, false, 1)),
        2 => comparison(time(&INSTANTS, true, 1)),
        2 => comparison(span(2)),
        1 => comparison(ratio.boxed()),
        1 => column(&["flag"]),
        1 => literals(vec![Literal::Boolean(true), Literal::Boolean(false), Literal::Null]),
    ];
    leaf.prop_recursive(3, 12, 2, |inner| {
        prop_oneof![
            3 => (inner.clone(), prop_oneof![Just(Binary::And), Just(Binary::Or)], inner.clone())
                .prop_map(|(l, operator, r)| Expr::Binary(l.into(), operator, r.into())),
            1 => inner.prop_map(|x| Expr::Unary(Unary::Not, x.into())),
        ]
    })
}

// The oracle.

struct Row<'a> {
    left: &'a Cells,
    right: &'a Cells,
    row: usize,
}

impl Row<'_> {
    fn value(&self, expr: &Expr) -> Outcome {
        match expr {
            Expr::Field(..) => unreachable!("the tables have no structs"),
            Expr::Column(side, name) => {
                let cells = if *side == Origin::Left { self.left } else { self.right };
                let column =
                    types().iter().position(|(other, _)| other == name).expect("one of `types`");
                Ok(cells[column][self.row].clone())
            }
            Expr::Literal(literal) => Ok(constant(literal)),
            Expr::Unary(Unary::IsNull, x) => Ok(Cell::Boolean(self.value(x)? == Null)),
            Expr::Unary(Unary::IsNotNull, x) => Ok(Cell::Boolean(self.value(x)? != Null)),
            Expr::Unary(Unary::Not, x) => Ok(boolean(self.truth(x)?.map(|x| !x))),
            Expr::Unary(Unary::Negate, x) => negate(self.value(x)?),
            Expr::Unary(Unary::Abs, x) => match self.value(x)? {
                Float(x) => Ok(Float(x.abs())),
                Whole(x) if x < 0 => negate(Whole(x)),
                Cell::Decimal(x, scale) => Ok(Cell::Decimal(x.abs(), scale)),
                Span(x) => Ok(Span(x.abs())),
                other => Ok(other),
            },
            Expr::Binary(l, Binary::And, r) => Ok(boolean(match self.truth(l)? {
                Some(false) => Some(false),
                l => match (l, self.truth(r)?) {
                    (_, Some(false)) => Some(false),
                    (l, r) => l.zip(r).map(|(l, r)| l && r),
                },
            })),
            Expr::Binary(l, Binary::Or, r) => Ok(boolean(match self.truth(l)? {
                Some(true) => Some(true),
                l => match (l, self.truth(r)?) {
                    (_, Some(true)) => Some(true),
                    (l, r) => l.zip(r).map(|(l, r)| l || r),
                },
            })),
            Expr::Binary(l, Binary::Arithmetic(operator), r) => {
                compute(*operator, self.value(l)?, self.value(r)?)
            }
            Expr::Binary(l, Binary::Compare(operator), r) => {
                let as_floats = is_float(l) || is_float(r);
                Ok(boolean(holds(*operator, &self.value(l)?, &self.value(r)?, as_floats)))
            }
            Expr::Between { value, low, high } => {
                let as_floats = [value, low, high].into_iter().any(|x| is_float(x));
                let (value, low, high) = (self.value(value)?, self.value(low)?, self.value(high)?);
                let above = holds(Comparison::GreaterOrEqual, &value, &low, as_floats);
                let below = holds(Comparison::LessOrEqual, &value, &high, as_floats);
                Ok(boolean(match (above, below) {
                    (Some(false), _) | (_, Some(false)) => Some(false),
                    (above, below) => above.zip(below).map(|_| true),
                }))
            }
            Expr::In { value, items } => {
                let as_floats = is_float(value) || items.iter().any(is_float);
                let value = self.value(value)?;
                let items =
                    items.iter().map(|item| self.value(item)).collect::<Result<Vec<_>, _>>()?;
                let equal: Vec<_> = items
                    .iter()
                    .map(|item| holds(Comparison::Equal, &value, item, as_floats))
                    .collect();
                Ok(boolean(if equal.contains(&Some(true)) {
                    Some(true)
                } else if equal.contains(&None) {
                    None
                } else {
                    Some(false)
                }))
            }
            Expr::Case { branches, otherwise } => {
                for (condition, value) in branches {
                    if self.truth(condition)? == Some(true) {
                        return self.value(value);
                    }
                }
                otherwise.as_ref().map_or(Ok(Null), |value| self.value(value))
            }
            Expr::Call(ScalarFunction::Coalesce, values) => {
                for value in values {
                    match self.value(value)? {
                        Null => {}
                        found => return Ok(found),
                    }
                }
                Ok(Null)
            }
            Expr::Match { .. } | Expr::Cast(..) | Expr::Extract(..) | Expr::Call(..) => {
                unreachable!("not generated")
            }
        }
    }

    fn truth(&self, expr: &Expr) -> Result<Option<bool>, Failure> {
        match self.value(expr)? {
            Cell::Boolean(x) => Ok(Some(x)),
            Null => Ok(None),
            other => panic!("{expr} is {other:?}"),
        }
    }
}

fn boolean(value: Option<bool>) -> Cell {
    value.map_or(Null, Cell::Boolean)
}

fn constant(literal: &Literal) -> Cell {
    match literal {
        Literal::Null => Null,
        Literal::Boolean(x) => Cell::Boolean(*x),
        Literal::Integer(x) => i64::try_from(*x).map_or(Cell::Decimal(*x, 0), Whole),
        Literal::Float(x) => Float(*x),
        Literal::Decimal { value, scale } => Cell::Decimal(*value, (*scale).into()),
        Literal::Text(x) => Text(x.clone()),
        Literal::Timestamp { nanoseconds, .. } => Time(*nanoseconds),
        Literal::Duration { nanoseconds } => Span(*nanoseconds),
        Literal::Binary(_) | Literal::Date(_) => unreachable!("not generated"),
    }
}

/// Returns whether the value of an expression is a float. The result depends only on types, because
/// even a null float makes its whole comparison a float comparison.
fn is_float(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_, name) => name == "f32" || name == "f64",
        Expr::Literal(literal) => matches!(literal, Literal::Float(_)),
        Expr::Unary(Unary::Negate | Unary::Abs, x) => is_float(x),
        Expr::Binary(_, Binary::Arithmetic(Arithmetic::Divide), _) => true,
        Expr::Binary(l, Binary::Arithmetic(_), r) => is_float(l) || is_float(r),
        Expr::Case { branches, otherwise } => {
            branches.iter().map(|(_, value)| value).chain(otherwise.as_deref()).any(is_float)
        }
        Expr::Call(ScalarFunction::Coalesce, values) => values.iter().any(is_float),
        _ => false,
    }
}

fn negate(x: Cell) -> Outcome {
    match x {
        Whole(x) => x.checked_neg().map(Whole).ok_or(Failure::Error),
        Float(x) => Ok(Float(-x)),
        Cell::Decimal(x, scale) => Ok(Cell::Decimal(-x, scale)),
        Span(x) => Ok(Span(-x)),
        other => Ok(other),
    }
}

fn float(x: &Cell) -> f64 {
    match x {
        Whole(x) => *x as f64,
        Cell::Decimal(x, scale) => {
            *x as f64 / 10_f64.powi(i32::try_from(*scale).expect("few digits"))
        }
        Float(x) => *x,
        other => panic!("{other:?} is not a number"),
    }
}

fn compute(operator: Arithmetic, l: Cell, r: Cell) -> Outcome {
    use Arithmetic::{Add, Divide, Remainder, Subtract};
    match (operator, l, r) {
        (_, Null, _) | (_, _, Null) => Ok(Null),
        (Subtract, Time(l), Time(r)) => Ok(Span(l - r)),
        (Add, Time(l), Span(r)) | (Add, Span(l), Time(r)) => Ok(Time(l + r)),
        (Subtract, Time(l), Span(r)) => Ok(Time(l - r)),
        (Add, Span(l), Span(r)) => Ok(Span(l + r)),
        (Subtract, Span(l), Span(r)) => Ok(Span(l - r)),
        (Divide, Span(_), Span(0)) => Err(Failure::Error),
        // Whole microseconds below 2^53 yield the same float in every unit. With nanoseconds, the
        // last bit may differ.
        (Divide, Span(l), Span(r)) if l % 1000 != 0 || r % 1000 != 0 => Err(Failure::Unknown),
        (Divide, Span(l), Span(r)) => Ok(Float((l / 1000) as f64 / (r / 1000) as f64)),
        (Divide, l, r) => {
            let ieee = matches!(l, Float(_)) || matches!(r, Float(_));
            if !ieee && float(&r) == 0.0 {
                Err(Failure::Error)
            } else {
                Ok(Float(float(&l) / float(&r)))
            }
        }
        (_, Float(l), r) => Ok(Float(compute_floats(operator, l, float(&r)))),
        (_, l, Float(r)) => Ok(Float(compute_floats(operator, float(&l), r))),
        (Remainder, Whole(_), Whole(0)) => Err(Failure::Error),
        (Remainder, Whole(l), Whole(r)) => Ok(Whole(l.wrapping_rem(r))),
        (_, Whole(l), Whole(r)) => match operator {
            Add => l.checked_add(r),
            Subtract => l.checked_sub(r),
            _ => l.checked_mul(r),
        }
        .map(Whole)
        .ok_or(Failure::Error),
        (_, l, r) => compute_decimals(operator, decimal(&l), decimal(&r)),
    }
}

fn compute_floats(operator: Arithmetic, l: f64, r: f64) -> f64 {
    match operator {
        Arithmetic::Add => l + r,
        Arithmetic::Subtract => l - r,
        Arithmetic::Multiply => l * r,
        Arithmetic::Divide => l / r,
        Arithmetic::Remainder => l % r,
    }
}

fn decimal(x: &Cell) -> (i128, u32) {
    match x {
        Whole(x) => (i128::from(*x), 0),
        Cell::Decimal(x, scale) => (*x, *scale),
        other => panic!("{other:?} is not a decimal"),
    }
}

fn compute_decimals(
    operator: Arithmetic,
    (l, l_scale): (i128, u32),
    (r, r_scale): (i128, u32),
) -> Outcome {
    let scale = l_scale.max(r_scale);
    let (l_wide, r_wide) =
        (l.checked_mul(10_i128.pow(scale - l_scale)), r.checked_mul(10_i128.pow(scale - r_scale)));
    let both = l_wide.zip(r_wide).ok_or(Failure::Error);
    let (value, scale) = match operator {
        Arithmetic::Multiply => (l.checked_mul(r), l_scale + r_scale),
        Arithmetic::Add => both.map(|(l, r)| (l.checked_add(r), scale))?,
        Arithmetic::Subtract => both.map(|(l, r)| (l.checked_sub(r), scale))?,
        Arithmetic::Remainder => both.map(|(l, r)| (l.checked_rem(r), scale))?,
        Arithmetic::Divide => unreachable!("a division is one of floats"),
    };
    match value {
        None => Err(Failure::Error),
        Some(value) if value.unsigned_abs() >= 10_u128.pow(38) => Err(Failure::Unknown),
        Some(value) => Ok(Cell::Decimal(value, scale)),
    }
}

fn holds(operator: Comparison, l: &Cell, r: &Cell, as_floats: bool) -> Option<bool> {
    let order = match (l, r) {
        (Null, _) | (_, Null) => return None,
        (Text(l), Text(r)) => Some(l.as_bytes().cmp(r.as_bytes())),
        (Time(l), Time(r)) | (Span(l), Span(r)) => Some(l.cmp(r)),
        (l, r) if as_floats => float(l).partial_cmp(&float(r)),
        (l, r) => {
            let ((l, l_scale), (r, r_scale)) = (decimal(l), decimal(r));
            let scaled = |x: i128, by: u32| {
                i256::from_i128(x).wrapping_mul(i256::from_i128(10_i128.pow(by)))
            };
            Some(scaled(l, r_scale).cmp(&scaled(r, l_scale)))
        }
    };
    Some(match operator {
        Comparison::Equal => order == Some(Ordering::Equal),
        Comparison::NotEqual => order != Some(Ordering::Equal),
        Comparison::Less => order == Some(Ordering::Less),
        Comparison::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        Comparison::Greater => order == Some(Ordering::Greater),
        Comparison::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn matches_are_those_of_an_evaluation_row_by_row(
        (expr, rows, left, right) in condition_and_rows(),
    ) {
        let fields: Vec<_> = types().into_iter().map(|(name, t)| Field::new(name, t, true)).collect();
        let schema = Schema::new(fields);
        let predicate = Predicate::bind(&expr, &schema, &schema).expect("the types go together");
        let gathered = |side: Origin, cells: &Cells| -> Vec<ArrayRef> {
            predicate.columns(side).iter().map(|&i| array(schema.field(i).data_type(), &cells[i])).collect()
        };
        let found = predicate.evaluate(&gathered(Origin::Left, &left), &gathered(Origin::Right, &right), rows);

        let expected: Vec<_> = (0..rows).map(|row| Row { left: &left, right: &right, row }.truth(&expr)).collect();
        prop_assume!(!expected.contains(&Err(Failure::Unknown)));
        if expected.contains(&Err(Failure::Error)) {
            prop_assert!(found.is_err_and(|error| error.is_data()), "{expr} is an error");
        } else {
            let expected: Vec<_> = expected.into_iter().map(|row| row == Ok(Some(true))).collect();
            let found: Vec<_> = found.map_err(|error| TestCaseError::fail(error.to_string()))?.iter().collect();
            prop_assert_eq!(found, expected, "{}", expr);
        }
    }
}
