//! Tests linear forms over both sides: a scan must select the same pairs as evaluating every pair.

use std::sync::Arc;

use arrow_array::*;
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use arrow_select::take::take;
use proptest::prelude::*;
use proptest::sample::select;
use tidegate_operators::predicate::{Ranges, ScanColumns, Term};
use tidegate_operators::rows::Side;

use crate::columns::cast::cast;
use crate::columns::expression::{Origin, Predicate, SideColumns, parse_sql};

const ROWS: usize = 24;

fn schema() -> Schema {
    let field = |name: &str, data_type| Field::new(name, data_type, true);
    Schema::new(vec![
        field("i", DataType::Int32),
        field("n", DataType::Int64),
        field("big", DataType::Int64),
        field("f", DataType::Float32),
        field("d", DataType::Float64),
        field("e", DataType::Float64),
        field("p", DataType::Decimal128(10, 2)),
        field("t", DataType::Timestamp(TimeUnit::Microsecond, None)),
        field("s", DataType::Duration(TimeUnit::Microsecond)),
    ])
}

/// Numbers whose sums require rounding, cancel out, overflow or are NaN.
const FLOATS: [f64; 22] = [
    0.0,
    -0.0,
    0.1,
    0.2,
    0.3,
    -0.3,
    1.0,
    -1.5,
    3.0,
    5e-324,
    -5e-324,
    2.3e-308,
    1e16,
    -1e16,
    9_007_199_254_740_993.0,
    1e308,
    -1e308,
    f64::MAX,
    f64::MIN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
];

fn floats() -> impl Strategy<Value = Vec<Option<f64>>> {
    let any = prop_oneof![8 => select(FLOATS.to_vec()), 2 => any::<f64>(), 4 => -4.0..4.0];
    some(any)
}

fn some<T: std::fmt::Debug>(
    any: impl Strategy<Value = T>,
) -> impl Strategy<Value = Vec<Option<T>>> {
    prop::collection::vec(prop::option::weighted(0.95, any), ROWS)
}

fn side() -> impl Strategy<Value = RecordBatch> {
    let narrow = prop_oneof![9 => -4..4_i32, 1 => select(vec![i32::MIN, i32::MAX])];
    let whole = prop_oneof![9 => -4..4_i64, 1 => (0..4_i64).prop_map(|n| n + (1 << 53))];
    // In some tables, no pair overflows.
    let big = prop_oneof![
        some(-4..4_i64),
        some(select(vec![i64::MIN / 2, -1, 0, 7, i64::MAX / 2])),
        some(select(vec![i64::MIN, i64::MIN + 1, -1, 0, 3, i64::MAX - 1, i64::MAX])),
    ];
    let doubles = prop_oneof![floats(), some((-4..4_i32).prop_map(f64::from))];
    let ticks = || some(prop_oneof![9 => -4..4_i64, 1 => Just(i64::MAX - 3)]);
    let columns = (
        some(narrow),
        some(whole),
        big,
        floats(),
        doubles,
        floats(),
        (some(-400..400_i128), ticks(), ticks()),
    );
    columns.prop_map(|(i, n, big, f, d, e, (p, t, s))| {
        let f = f.into_iter().map(|x| x.map(|x| x as f32));
        let p = Decimal128Array::from(p).with_precision_and_scale(10, 2).expect("few digits");
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from(i)),
            Arc::new(Int64Array::from(n)),
            Arc::new(Int64Array::from(big)),
            Arc::new(Float32Array::from_iter(f)),
            Arc::new(Float64Array::from(d)),
            Arc::new(Float64Array::from(e)),
            Arc::new(p),
            Arc::new(TimestampMicrosecondArray::from(t)),
            Arc::new(DurationMicrosecondArray::from(s)),
        ];
        RecordBatch::try_new(Arc::new(schema()), arrays).expect("the columns match the schema")
    })
}

fn constant() -> impl Strategy<Value = String> {
    let whole = prop_oneof![9 => -5..6_i64, 1 => select(vec![i64::MAX, i64::MIN + 1, 1 << 53])];
    let float = prop_oneof![
        3 => select(FLOATS.to_vec()).prop_filter("finite", |x| x.is_finite()),
        1 => -4.0..4.0,
    ];
    let (whole, float) = (whole.prop_map(|n| n.to_string()), float.prop_map(|x| format!("{x:?}")));
    prop_oneof![3 => whole, 2 => float].prop_map(|text| format!("({text})"))
}

fn column() -> impl Strategy<Value = String> {
    let names = select(vec!["i", "n", "n", "big", "f", "d", "d", "e", "p"]);
    (select(vec!["left", "right"]), names).prop_map(|(side, name)| format!("{side}.{name}"))
}

/// Generates linear forms, and a few nonlinear ones.
fn form() -> impl Strategy<Value = String> {
    column().prop_recursive(4, 8, 2, |inner| {
        prop_oneof![
            4 => (inner.clone(), select(vec!["+", "-"]), inner.clone())
                .prop_map(|(a, sign, b)| format!("({a} {sign} {b})")),
            2 => (inner.clone(), select(vec!["+", "-", "*", "/", "%"]), constant())
                .prop_map(|(a, sign, c)| format!("({a} {sign} {c})")),
            1 => (constant(), select(vec!["+", "-", "*", "/"]), inner.clone())
                .prop_map(|(c, sign, a)| format!("({c} {sign} {a})")),
            1 => inner.clone().prop_map(|a| format!("(-{a})")),
            1 => inner.prop_map(|a| format!("abs({a})")),
        ]
    })
}

/// Generates a sum or difference of one number from each side, with further operations applied to
/// it.
fn simple() -> impl Strategy<Value = String> {
    let names = || select(vec!["i", "n", "big", "f", "d", "e"]);
    let core = (names(), select(vec!["+", "-"]), names(), any::<bool>());
    let core = core.prop_map(|(a, sign, b, swap)| match swap {
        true => format!("(right.{b} {sign} left.{a})"),
        false => format!("(left.{a} {sign} right.{b})"),
    });
    core.prop_recursive(3, 3, 1, move |inner| {
        prop_oneof![
            3 => (inner.clone(), select(vec!["+", "-", "*", "/"]), constant())
                .prop_map(|(a, sign, c)| format!("({a} {sign} {c})")),
            2 => (constant(), select(vec!["+", "-", "*"]), inner.clone())
                .prop_map(|(c, sign, a)| format!("({c} {sign} {a})")),
            2 => (inner.clone(), select(vec!["+", "-"]), names())
                .prop_map(|(a, sign, name)| format!("({a} {sign} left.{name})")),
            1 => (select(vec!["+", "-"]), names(), inner.clone())
                .prop_map(|(sign, name, a)| format!("(right.{name} {sign} {a})")),
            1 => inner.clone().prop_map(|a| format!("(-{a})")),
            1 => inner.prop_map(|a| format!("abs({a})")),
        ]
    })
}

fn condition() -> impl Strategy<Value = String> {
    let orders = || select(vec!["<", "<=", ">", ">=", "=", "<>"]);
    let form = || prop_oneof![2 => simple(), 1 => form()];
    let than = || prop_oneof![4 => constant(), 2 => column()];
    let duration = select(vec![
        "left.s + right.s",
        "left.s - right.s",
        "left.t - right.t",
        "abs(left.t - right.t)",
    ]);
    let spans = select(vec![
        "INTERVAL '1 microsecond'",
        "left.s",
        "right.s - left.s",
        "INTERVAL '0 seconds'",
    ]);
    prop_oneof![
        4 => (form(), orders(), than()).prop_map(|(a, order, b)| format!("{a} {order} {b}")),
        2 => (than(), orders(), form()).prop_map(|(a, order, b)| format!("{a} {order} {b}")),
        2 => (form(), than(), than())
            .prop_map(|(a, low, high)| format!("{a} BETWEEN {low} AND {high}")),
        1 => (than(), form(), form())
            .prop_map(|(a, low, high)| format!("{a} BETWEEN {low} AND {high}")),
        1 => (duration, orders(), spans).prop_map(|(a, order, b)| format!("{a} {order} {b}")),
    ]
}

/// Returns the pairs that satisfy a predicate, or `None` if a pair causes an error.
fn evaluated(predicate: &Predicate, sides: [&RecordBatch; 2]) -> Option<Vec<(usize, usize)>> {
    let [left, right] = sides.map(RecordBatch::num_rows);
    let pairs: Vec<_> = (0..left).flat_map(|l| (0..right).map(move |r| (l, r))).collect();
    let gathered = |side: Origin, batch: &RecordBatch, rows: UInt32Array| -> Vec<ArrayRef> {
        let of = |&at: &usize| take(batch.column(at), &rows, None).expect("rows of the batch");
        predicate.columns(side).iter().map(of).collect()
    };
    let lefts = pairs.iter().map(|pair| pair.0 as u32).collect();
    let rights = pairs.iter().map(|pair| pair.1 as u32).collect();
    let kept = predicate.evaluate(
        &gathered(Origin::Left, sides[0], lefts),
        &gathered(Origin::Right, sides[1], rights),
        pairs.len(),
    );
    let kept = kept.ok()?;
    Some(pairs.into_iter().zip(&kept).filter(|(_, kept)| *kept).map(|(pair, _)| pair).collect())
}

fn columns(predicate: &Predicate, side: Origin, batch: &RecordBatch) -> SideColumns {
    let arrays = predicate.columns(side).iter().map(|&at| Some(batch.column(at).clone()));
    SideColumns { arrays: arrays.collect(), rows: batch.num_rows() }
}

/// Returns the pairs that a scan finds between the rows on one side and those on the other. Returns
/// `None` if a scan cannot distinguish some rows from rows without a number.
fn scanned(terms: &[Term], news: Side) -> Option<Vec<(usize, usize)>> {
    let window = ScanColumns::new(terms, news.other(), None, ROWS)?;
    let ranges = Ranges::new(&window, terms, news, 0..ROWS);
    let mut found = vec![Vec::new(); ROWS];
    window.find(&ranges, &vec![0..ROWS as u32; ROWS], &mut found);
    let pair =
        |row: usize, other: usize| if news == Side::Left { (row, other) } else { (other, row) };
    let of_row = |(row, places): (usize, &Vec<u32>)| -> Vec<_> {
        places.iter().map(|&place| pair(row, place as usize)).collect()
    };
    let mut pairs: Vec<_> = found.iter().enumerate().flat_map(of_row).collect();
    pairs.sort_unstable();
    Some(pairs)
}

fn check(text: &str, left: &RecordBatch, right: &RecordBatch) -> Result<(), TestCaseError> {
    let expr = parse_sql(text).map_err(|error| TestCaseError::fail(error.to_string()))?;
    // Not every decimal can be combined with every number.
    let Ok(predicate) = Predicate::bind(&expr, &schema(), &schema()) else { return Ok(()) };
    let of_left = columns(&predicate, Origin::Left, left);
    let of_right = columns(&predicate, Origin::Right, right);
    let (terms, residual) = predicate.split(&of_left, &of_right);
    if terms.is_empty() {
        return Ok(());
    }
    prop_assert!(residual.is_none(), "{} is one conjunct", text);
    let expected = evaluated(&predicate, [left, right]);
    for news in [Side::Left, Side::Right] {
        if let Some(found) = scanned(&terms, news) {
            prop_assert_eq!(Some(found), expected.clone(), "{}, for rows of {:?}", text, news);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn oracle_the_evaluation_of_every_pair(text in condition(), left in side(), right in side()) {
        check(&text, &left, &right)?;
    }
}

#[test]
fn longest_forms_fit_the_stack_of_a_thread() {
    let rows = || {
        let (schema, ones) = (schema(), Int64Array::from(vec![1; ROWS]));
        let arrays = schema.fields().iter().map(|field| match field.data_type() {
            DataType::Decimal128(..) | DataType::Timestamp(..) | DataType::Duration(_) => {
                new_null_array(field.data_type(), ROWS)
            }
            other => cast(&ones, other).expect("a number"),
        });
        let arrays: Vec<ArrayRef> = arrays.collect();
        RecordBatch::try_new(Arc::new(schema), arrays).expect("the columns match the schema")
    };
    let chains = ["left.d + right.d{} > 5", "left.n + right.n{} > 5"].map(|chain| {
        [" + 1", " - left.n", " + left.d"].map(|more| chain.replace("{}", &more.repeat(198)))
    });
    // This is half the stack size of a Rust thread.
    let run = move || {
        for chain in chains.iter().flatten() {
            check(chain, &rows(), &rows()).expect("the same pairs");
        }
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap().join().unwrap();
}

#[test]
fn a_form_that_may_overflow_leaves_the_others_to_the_scan() {
    let big: ArrayRef = Arc::new(Int64Array::from(vec![i64::MAX; 2]));
    let small: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let text = "left.i < right.i AND left.big + right.big > 0";
    let predicate = Predicate::bind(&parse_sql(text).unwrap(), &schema(), &schema()).unwrap();
    let columns = || SideColumns { arrays: vec![Some(small.clone()), Some(big.clone())], rows: 2 };
    let (terms, residual) = predicate.split(&columns(), &columns());
    assert_eq!((terms.len(), residual.is_some()), (1, true));
}
