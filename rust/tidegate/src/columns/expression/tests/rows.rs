use std::sync::Arc;

use arrow_array::builder::StringRunBuilder;
use arrow_array::types::{Int8Type, Int32Type};
use arrow_array::*;
use arrow_schema::{DataType, Field, Schema, TimeUnit};

use crate::Result;
use crate::columns::cast::cast;
use crate::columns::expression::{Expr, Literal, Origin, Predicate, parse_sql};

/// A table of named columns, with one row per value.
type Table = Vec<(&'static str, ArrayRef)>;

fn schema(table: &Table) -> Schema {
    let field =
        |(name, array): &(&str, ArrayRef)| Field::new(*name, array.data_type().clone(), true);
    Schema::new(table.iter().map(field).collect::<Vec<_>>())
}

fn evaluate(text: &str, left: &Table, right: &Table) -> Result<Vec<bool>> {
    evaluate_tree(&parse_sql(text)?, left, right)
}

/// Evaluates a tree on pairs of rows at the same position in both tables.
fn evaluate_tree(expr: &Expr, left: &Table, right: &Table) -> Result<Vec<bool>> {
    let predicate = Predicate::bind(expr, &schema(left), &schema(right))?;
    let gathered = |side, table: &Table| -> Vec<ArrayRef> {
        predicate.columns(side).iter().map(|&i| table[i].1.clone()).collect()
    };
    let rows = left.iter().chain(right).next().map_or(0, |(_, column)| column.len());
    let matches =
        predicate.evaluate(&gathered(Origin::Left, left), &gathered(Origin::Right, right), rows)?;
    Ok(matches.iter().collect())
}

fn matches(text: &str, left: &Table, right: &Table) -> Vec<bool> {
    evaluate(text, left, right).unwrap_or_else(|error| panic!("{error}"))
}

fn one_row(column: ArrayRef) -> Table {
    vec![("x", column)]
}

fn int64(values: &[Option<i64>]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn float64(values: &[f64]) -> ArrayRef {
    Arc::new(Float64Array::from(values.to_vec()))
}

fn text(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn timestamps(unit: TimeUnit, zone: Option<&str>, value: i64) -> ArrayRef {
    let naive = cast(&Int64Array::from(vec![value]), &DataType::Timestamp(unit, None)).unwrap();
    let data =
        naive.to_data().into_builder().data_type(DataType::Timestamp(unit, zone.map(Into::into)));
    make_array(data.build().unwrap())
}

#[test]
fn logic_has_three_values_and_null_does_not_match() {
    let flags =
        |values: [Option<bool>; 3]| -> ArrayRef { Arc::new(BooleanArray::from(values.to_vec())) };
    let left = one_row(flags([Some(true), Some(false), None]));
    for (condition, expected) in [
        ("left.x", [true, false, false]),
        ("not left.x", [false, true, false]),
        ("left.x and null", [false, false, false]),
        ("not (left.x and null)", [false, true, false]),
        ("left.x or null", [true, false, false]),
        ("left.x is null", [false, false, true]),
        ("(left.x or null) is null", [false, true, true]),
        ("left.x = null", [false, false, false]),
        ("left.x in (true, null)", [true, false, false]),
        ("left.x not in (true, null)", [false, false, false]),
        ("null", [false, false, false]),
        ("true", [true, true, true]),
        ("1 < 2 and 3 between 2 and 4", [true, true, true]),
    ] {
        assert_eq!(matches(condition, &left, &vec![]), expected, "{condition}");
    }
}

#[test]
fn floats_compare_as_in_ieee_754() {
    let left = one_row(float64(&[f64::NAN, -0.0, 1.0]));
    let right = one_row(float64(&[f64::NAN, 0.0, f64::NAN]));
    for (condition, expected) in [
        ("left.x = right.x", [false, true, false]),
        ("left.x != right.x", [true, false, true]),
        ("left.x < right.x", [false, false, false]),
        ("left.x <= right.x", [false, true, false]),
        ("left.x > right.x", [false, false, false]),
        ("left.x >= right.x", [false, true, false]),
        ("left.x >= 0.0", [false, true, true]),
        ("0.0 > left.x", [false, false, false]),
        ("left.x between -1 and 1", [false, true, true]),
        ("left.x / 0 > 1", [false, false, true]),
        ("1 / left.x < 0", [false, true, false]),
    ] {
        assert_eq!(matches(condition, &left, &right), expected, "{condition}");
    }
}

#[test]
fn float32_compares_with_a_literal_in_float64_unless_float32_holds_it() {
    let left = one_row(Arc::new(Float32Array::from(vec![16_777_216.0, 0.1])));
    assert_eq!(matches("left.x = 16777217", &left, &vec![]), [false, false]);
    assert_eq!(matches("left.x = 16777216", &left, &vec![]), [true, false]);
    assert_eq!(matches("left.x > 0.1", &left, &vec![]), [true, true]);
}

#[test]
fn integers_of_any_width_and_sign_compare_exactly() {
    let ends: Vec<(ArrayRef, i128)> = vec![
        (Arc::new(Int8Array::from(vec![i8::MIN])), i8::MIN.into()),
        (Arc::new(UInt8Array::from(vec![u8::MAX])), u8::MAX.into()),
        (Arc::new(Int16Array::from(vec![-1])), -1),
        (Arc::new(UInt16Array::from(vec![u16::MAX])), u16::MAX.into()),
        (Arc::new(Int32Array::from(vec![i32::MIN])), i32::MIN.into()),
        (Arc::new(UInt32Array::from(vec![u32::MAX])), u32::MAX.into()),
        (Arc::new(Int64Array::from(vec![i64::MIN])), i64::MIN.into()),
        (Arc::new(Int64Array::from(vec![i64::MAX])), i64::MAX.into()),
        (Arc::new(UInt64Array::from(vec![1 << 63])), 1 << 63),
        (Arc::new(UInt64Array::from(vec![u64::MAX])), u64::MAX.into()),
    ];
    for (left, left_value) in &ends {
        let left = one_row(left.clone());
        for (right, right_value) in &ends {
            let right = one_row(right.clone());
            assert_eq!(matches("left.x < right.x", &left, &right), [left_value < right_value]);
            assert_eq!(matches("left.x = right.x", &left, &right), [left_value == right_value]);
            assert_eq!(
                matches(&format!("left.x >= {right_value}"), &left, &right),
                [left_value >= right_value]
            );
            // No intermediate result wraps, regardless of the widths.
            let difference = left_value - right_value;
            if i64::try_from(difference).is_ok() {
                assert_eq!(
                    matches(&format!("left.x - right.x = {difference}"), &left, &right),
                    [true]
                );
            }
        }
    }
}

#[test]
fn decimals_compare_and_compute_exactly() {
    let decimal = |value, precision, scale| -> ArrayRef {
        Arc::new(
            Decimal128Array::from(vec![value]).with_precision_and_scale(precision, scale).unwrap(),
        )
    };
    let left = vec![
        ("x", decimal(150, 10, 2)),
        ("wide", decimal(10_i128.pow(37), 38, 0)),
        ("n", int64(&[Some(2)])),
    ];
    let right = vec![("x", decimal(15, 5, 1)), ("fine", decimal(10_i128.pow(37), 38, 37))];
    for condition in [
        "left.x = right.x",
        "left.x = DECIMAL '1.5'",
        "left.x < left.n",
        "left.x = 1.5",
        "left.x + right.x = 3",
        "left.x * left.n = 3",
        "left.n / left.x > 1.3",
        "left.x % 1 = DECIMAL '0.5'",
        "abs(-left.x) = right.x",
        // 75 digits, in decimal256.
        "left.wide > right.fine",
        "18446744073709551615 * 2 = DECIMAL '36893488147419103230'",
    ] {
        assert_eq!(matches(condition, &left, &right), [true], "{condition}");
    }
}

#[test]
fn division_is_a_true_one_and_remainder_has_the_sign_of_the_dividend() {
    let left = one_row(int64(&[Some(1), Some(-7), None]));
    let right = one_row(int64(&[Some(2), Some(2), Some(0)]));
    assert_eq!(matches("left.x / right.x in (0.5, -3.5)", &left, &right), [true, true, false]);
    assert_eq!(matches("left.x % right.x = -1", &left, &right), [false, true, false]);
}

#[test]
fn text_and_binary_compare_by_bytes_in_every_layout() {
    let values = text(&[Some("b"), Some("é"), None]);
    let mut runs = StringRunBuilder::<Int32Type>::new();
    ["b", "é"].into_iter().for_each(|value| runs.append_value(value));
    runs.append_null();
    let dictionary = |key, value| DataType::Dictionary(Box::new(key), Box::new(value));
    let mut layouts: Vec<ArrayRef> = vec![values.clone(), Arc::new(runs.finish())];
    for layout in [
        DataType::LargeUtf8,
        DataType::Utf8View,
        dictionary(DataType::Int8, DataType::Utf8),
        dictionary(DataType::UInt32, DataType::LargeUtf8),
    ] {
        layouts.push(cast(&values, &layout).unwrap());
    }
    for left in &layouts {
        let left = one_row(left.clone());
        assert_eq!(
            matches("left.x > 'c'", &left, &vec![]),
            [false, true, false],
            "{:?}",
            left[0].1.data_type()
        );
        assert_eq!(matches("left.x in ('b', 'c')", &left, &vec![]), [true, false, false]);
        assert_eq!(matches("left.x is null", &left, &vec![]), [false, false, true]);
        for right in &layouts {
            assert_eq!(
                matches("left.x = right.x", &left, &one_row(right.clone())),
                [true, true, false]
            );
        }
    }

    let bytes = BinaryArray::from(vec![&b"\x00\xff"[..]]);
    let layouts = [
        DataType::Binary,
        DataType::LargeBinary,
        DataType::BinaryView,
        DataType::FixedSizeBinary(2),
    ]
    .map(|layout| one_row(cast(&bytes, &layout).unwrap()));
    for left in &layouts {
        assert_eq!(matches("left.x = X'00ff' and left.x < X'01'", left, &vec![]), [true]);
        for right in &layouts {
            assert_eq!(matches("left.x = right.x", left, right), [true]);
        }
    }
}

#[test]
fn null_in_the_values_of_a_dictionary_is_null() {
    let keys = Int8Array::from(vec![Some(0), Some(1), None]);
    let dictionary = DictionaryArray::<Int8Type>::new(keys, text(&[Some("a"), None]));
    let left = one_row(Arc::new(dictionary));
    assert_eq!(matches("left.x is null", &left, &vec![]), [false, true, true]);
    assert_eq!(matches("left.x != 'b'", &left, &vec![]), [true, false, false]);
}

#[test]
fn times_compare_and_compute_in_the_finer_unit() {
    let day: ArrayRef = Arc::new(Date32Array::from(vec![1]));
    let left = vec![
        ("s", timestamps(TimeUnit::Second, None, 86_400)),
        ("berlin", timestamps(TimeUnit::Second, Some("Europe/Berlin"), 86_400)),
        ("day", day.clone()),
        ("day64", cast(&day, &DataType::Date64).unwrap()),
        ("at", cast(&Int32Array::from(vec![60]), &DataType::Time32(TimeUnit::Second)).unwrap()),
    ];
    let right = vec![
        ("ns", timestamps(TimeUnit::Nanosecond, None, 86_400_000_000_001)),
        ("utc", timestamps(TimeUnit::Millisecond, Some("UTC"), 86_400_001)),
        (
            "at",
            cast(&Int64Array::from(vec![60_000_001]), &DataType::Time64(TimeUnit::Microsecond))
                .unwrap(),
        ),
    ];
    for condition in [
        "left.s < right.ns",
        "right.ns - left.s = INTERVAL '1 ns'",
        "left.s + INTERVAL '1 ns' = right.ns and INTERVAL '1 ns' + left.s = right.ns",
        "left.s - INTERVAL '1 day' = TIMESTAMP '1970-01-01'",
        "left.s = TIMESTAMP '1970-01-02 00:00:00'",
        "left.berlin < right.utc",
        "left.berlin = TIMESTAMP '1970-01-02 01:00:00+01:00'",
        "right.utc - left.berlin = INTERVAL '1 ms'",
        "abs(left.berlin - right.utc) between INTERVAL '0 s' and INTERVAL '2 ms'",
        "-(right.utc - left.berlin) < INTERVAL '0 s'",
        "left.day = left.s and left.day64 = left.day and left.day < right.ns",
        "left.day = DATE '1970-01-02'",
        "left.day - DATE '1970-01-01' = INTERVAL '1 day'",
        "left.day + INTERVAL '12 hours' > right.ns",
        "(left.day - DATE '1970-01-01') / INTERVAL '12 hours' = 2",
        "left.at < right.at",
    ] {
        assert_eq!(matches(condition, &left, &right), [true], "{condition}");
    }
}

#[test]
fn right_side_is_evaluated_only_where_the_left_has_not_decided() {
    let left = one_row(int64(&[Some(10), Some(10), Some(10), None]));
    let right = one_row(int64(&[Some(5), Some(0), Some(20), Some(0)]));
    let guarded = "right.x != 0 and left.x % right.x = 0 and left.x / right.x > 1";
    assert_eq!(matches(guarded, &left, &right), [true, false, false, false]);
    let skipped = "right.x = 0 or left.x / right.x > 1";
    assert_eq!(matches(skipped, &left, &right), [true, true, false, true]);
    assert_eq!(matches("false and 1 % 0 = 0", &left, &right), [false; 4]);
    assert!(
        evaluate("left.x % right.x = 0 and right.x != 0", &left, &right)
            .is_err_and(|error| error.is_data())
    );
}

#[test]
fn value_that_cannot_be_computed_is_a_data_error_that_names_the_expression() {
    let left = vec![
        ("x", int64(&[Some(i64::MAX)])),
        ("min", int64(&[Some(i64::MIN)])),
        ("s", timestamps(TimeUnit::Second, None, i64::MAX)),
        ("d", cast(&int64(&[Some(i64::MIN)]), &DataType::Duration(TimeUnit::Second)).unwrap()),
        (
            "big",
            Arc::new(
                Decimal128Array::from(vec![10_i128.pow(37)])
                    .with_precision_and_scale(38, 0)
                    .unwrap(),
            ),
        ),
    ];
    let right = vec![("x", int64(&[Some(0)])), ("ns", timestamps(TimeUnit::Nanosecond, None, 0))];
    for (condition, expression) in [
        ("left.x + 1 > 0", "left.x + 1"),
        ("1 < left.min - 1", "left.min - 1"),
        ("left.x * 2 > 0", "left.x * 2"),
        ("-left.min > 0", "-left.min"),
        ("abs(left.min) > 0", "abs(left.min)"),
        ("left.x / right.x > 0", "left.x / right.x"),
        ("left.x % right.x > 0", "left.x % right.x"),
        ("left.x / 0 > 0", "left.x / 0"),
        ("1 / 0 > 0", "1 / 0"),
        ("left.s + INTERVAL '1 s' > right.ns", "left.s + INTERVAL '1 seconds'"),
        ("left.s - right.ns > INTERVAL '1 s'", "left.s"),
        ("abs(left.d) > INTERVAL '1 s'", "abs(left.d)"),
        ("left.big * left.big > 0", "left.big * left.big"),
    ] {
        let error = evaluate(condition, &left, &right).expect_err(condition);
        assert!(error.is_data(), "{condition}: {error:?}");
        assert!(
            error.message().starts_with(&format!("where `{expression}`: ")),
            "{condition}: {error}"
        );
    }
    let no_rows =
        |table: Table| table.into_iter().map(|(name, column)| (name, column.slice(0, 0))).collect();
    assert_eq!(
        matches("left.x / right.x > 0 or 1 / 0 > 0", &no_rows(left), &no_rows(right)),
        [] as [bool; 0]
    );
}

#[test]
fn types_that_do_not_go_together_are_a_schema_error_that_names_them() {
    let interval = cast(
        &Int32Array::from(vec![1]),
        &DataType::Interval(arrow_schema::IntervalUnit::YearMonth),
    )
    .unwrap();
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>(vec![Some(vec![Some(1)])]);
    let left = vec![
        ("x", int64(&[Some(1)])),
        ("name", text(&[Some("a")])),
        ("ts", timestamps(TimeUnit::Second, None, 0)),
        ("utc", timestamps(TimeUnit::Second, Some("UTC"), 0)),
        ("months", interval),
        ("list", Arc::new(list)),
        ("twice", int64(&[Some(1)])),
        ("twice", int64(&[Some(1)])),
    ];
    let types = "`left.name` of type string with `left.x` of type int64";
    for (condition, reason) in [
        ("left.y = 1", "the left table has no column `y`; it has `x`, `name`, `ts`"),
        ("right.x = 1", "the right table has no column `x`"),
        ("left.twice = 1", "the left table has more than one column `twice`"),
        ("left.name < left.x", types),
        ("left.name + left.x = 2", types),
        ("left.name = 1", "cannot compare `left.name` of type string with `1` of type int64"),
        ("left.x in (1, 'a')", "cannot compare `left.x` of type int64 with `'a'` of type string"),
        ("left.name between 'a' and 2", "with `2` of type int64"),
        ("left.x = true", "with `TRUE` of type bool"),
        ("left.ts = left.utc", "one has a time zone and the other does not"),
        ("left.ts - left.utc = INTERVAL '1 s'", "one has a time zone and the other does not"),
        ("left.utc > TIMESTAMP '2024-01-01'", "one has a time zone and the other does not"),
        ("left.ts > '2024-01-01'", "write a time as TIMESTAMP"),
        ("left.ts > 5", "cannot compare"),
        ("left.ts + 5 > left.ts", "cannot compute `left.ts` of type"),
        ("left.ts + left.ts > left.ts", "cannot compute"),
        ("left.ts * INTERVAL '1 s' > left.ts", "cannot compute"),
        ("left.months = left.months", "cannot compare"),
        ("left.list = left.list", "cannot compare"),
        ("-left.name = 1", "expected a number or a duration, but `left.name` is string"),
        ("abs(left.ts) = 1", "expected a number or a duration"),
        ("left.x + 1", "expected a condition that is true or false, but `left.x + 1` is int64"),
        (
            "left.x and left.x = 1",
            "expected a condition that is true or false, but `left.x` is int64",
        ),
        ("not left.name", "expected a condition that is true or false, but `left.name` is string"),
    ] {
        let error = evaluate(condition, &left, &vec![]).expect_err(condition);
        assert!(error.is_schema(), "{condition}: {error:?}");
        assert!(error.message().starts_with("where"), "{condition}: {error}");
        assert!(error.message().contains(reason), "{condition}: {error}");
    }
    assert_eq!(
        matches("left.list is not null and left.months is not null", &left, &vec![]),
        [true]
    );

    let too_far = Literal::Timestamp { nanoseconds: i128::from(i64::MAX) * 1000 + 1, zoned: false };
    let expr =
        Expr::Unary(crate::columns::expression::Unary::IsNull, Box::new(Expr::Literal(too_far)));
    let error = evaluate_tree(&expr, &left, &vec![]).expect_err("nanoseconds far from 1970");
    assert!(error.is_schema() && error.message().contains("does not fit"), "{error}");
}

#[test]
fn longest_chains_fit_the_stack_of_a_thread() {
    let chains = [
        format!("left.x{} = 1000", " + 1".repeat(199)),
        format!("left.x = 1{}", " and left.x < 2".repeat(99)),
        format!("left.x + 1 = 2{}", " and left.x + 1 > 0".repeat(65)),
        format!("{} left.x = 1", "not ".repeat(100)),
        format!("{}left.x{} = 1", "coalesce(".repeat(40), ", 2)".repeat(40)),
        format!("coalesce(left.x{}) = 1", ", null".repeat(99)),
        format!("case{} end = 1", " when left.x is null then left.x".repeat(40)),
    ];
    // This is half the stack size of a Rust thread.
    let run = move || {
        for chain in chains {
            assert_eq!(matches(&chain, &one_row(int64(&[Some(1), Some(2)])), &vec![]).len(), 2);
        }
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap().join().unwrap();
}

#[test]
fn columns_are_those_that_are_read_each_once_in_schema_order() {
    let field = |name| Field::new(name, DataType::Int64, true);
    let schema = Schema::new(vec![field("a"), field("b"), field("c")]);
    let expr = parse_sql("left.c > left.a + left.c and right.b > 0").unwrap();
    let predicate = Predicate::bind(&expr, &schema, &schema).unwrap();
    assert_eq!(predicate.columns(Origin::Left), [0, 2]);
    assert_eq!(predicate.columns(Origin::Right), [1]);

    let of = |values: &[i64]| -> ArrayRef { Arc::new(Int64Array::from(values.to_vec())) };
    let matches = predicate.evaluate(&[of(&[-1, 1]), of(&[5, 5])], &[of(&[1, 1])], 2).unwrap();
    assert_eq!(matches.iter().collect::<Vec<_>>(), [true, false]);

    let other_type =
        predicate.evaluate(&[of(&[1]), text(&[Some("a")])], &[of(&[1])], 1).unwrap_err();
    assert!(other_type.is_bug(), "{other_type}");
    let other_length = predicate.evaluate(&[of(&[1]), of(&[1, 2])], &[of(&[1])], 1).unwrap_err();
    assert!(other_length.is_bug(), "{other_length}");
}

/// Checks that a function of `left.x` returns `right.x`, row by row.
fn check_function(function: &str, given: ArrayRef, expected: ArrayRef) {
    let (left, right) = (one_row(given), one_row(expected.clone()));
    let text = format!("{function} = right.x or {function} is null and right.x is null");
    let found = matches(&text, &left, &right);
    assert_eq!(found, vec![true; expected.len()], "{function} of {:?}", left[0].1);
}

#[test]
fn functions_of_text_see_characters_in_every_layout() {
    let layouts = [
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)),
    ];
    for layout in layouts {
        let check = |function: &str, given: &[Option<&str>], expected: ArrayRef| {
            check_function(function, cast(&text(given), &layout).unwrap(), expected);
        };
        let given = [Some("Épée"), Some(""), None, Some("aßc")];
        check("lower(left.x)", &given, text(&[Some("épée"), Some(""), None, Some("aßc")]));
        check("upper(left.x)", &given, text(&[Some("ÉPÉE"), Some(""), None, Some("ASSC")]));
        check("length(left.x)", &given, int64(&[Some(4), Some(0), None, Some(3)]));
        let parts = [
            ("substr(left.x, 2)", ["pée", "", "ßc"]),
            ("substr(left.x, 2, 2)", ["pé", "", "ßc"]),
            ("substring(left.x from 2 for 1)", ["p", "", "ß"]),
            ("substr(left.x, 0, 2)", ["É", "", "a"]),
            ("substr(left.x, -5, 7)", ["É", "", "a"]),
            ("substr(left.x, -5)", ["Épée", "", "aßc"]),
            ("substr(left.x, 9)", ["", "", ""]),
            ("substr(left.x, 1, 0)", ["", "", ""]),
            ("substr(left.x, length(left.x))", ["e", "", "c"]),
        ];
        for (function, [first, second, last]) in parts {
            check(function, &given, text(&[Some(first), Some(second), None, Some(last)]));
        }
        let left = one_row(cast(&text(&given), &layout).unwrap());
        for (condition, expected) in [
            ("starts_with(left.x, 'Ép')", [true, false, false, false]),
            ("ends_with(left.x, '')", [true, true, false, true]),
            ("contains(left.x, 'ß')", [false, false, false, true]),
            ("starts_with(left.x, left.x)", [true, true, false, true]),
            ("starts_with('aßcd', left.x)", [false, true, false, true]),
            ("starts_with('ab', 'a')", [true, true, true, true]),
            ("left.x ilike 'éP%'", [true, false, false, false]),
            ("left.x not ilike '_SSC'", [true, true, false, true]),
            ("lower(left.x) in ('épée', 'x')", [true, false, false, false]),
            ("coalesce(left.x, 'none') = 'none'", [false, false, true, false]),
            ("contains(left.x, null)", [false, false, false, false]),
        ] {
            assert_eq!(matches(condition, &left, &vec![]), expected, "{condition} of {layout}");
        }
    }
}

#[test]
fn like_takes_lines_and_backslashes_as_characters() {
    let left = one_row(text(&[Some("a\nb"), Some(r"a\b"), Some("a%b"), Some("a.b")]));
    for (pattern, expected) in [
        ("a%b", [true, true, true, true]),
        ("a_b", [true, true, true, true]),
        (r"a\b", [false, true, false, false]),
        (r"a\%", [false, true, false, false]),
        (r"a\_", [false, true, false, false]),
        (r"%\", [false, false, false, false]),
        ("a.b", [false, false, false, true]),
        ("A.B", [false, false, false, false]),
    ] {
        assert_eq!(
            matches(&format!("left.x like '{pattern}'"), &left, &vec![]),
            expected,
            "{pattern}"
        );
        let expected = expected.map(|like| like || pattern == "A.B");
        let ilike = matches(&format!("left.x ilike '{pattern}'"), &left, &vec![]);
        if pattern == "A.B" {
            assert_eq!(ilike, [false, false, false, true], "{pattern}");
        } else {
            assert_eq!(ilike, expected, "{pattern}");
        }
    }
}

#[test]
fn numbers_are_rounded_half_away_from_zero() {
    let given = float64(&[2.5, -2.5, 0.125, -0.4, 1e300, f64::INFINITY]);
    let cases = [
        ("round(left.x)", [3.0, -3.0, 0.0, -0.0, 1e300, f64::INFINITY]),
        ("round(left.x, 2)", [2.5, -2.5, 0.13, -0.4, 1e300, f64::INFINITY]),
        ("floor(left.x)", [2.0, -3.0, 0.0, -1.0, 1e300, f64::INFINITY]),
        ("ceil(left.x)", [3.0, -2.0, 1.0, -0.0, 1e300, f64::INFINITY]),
    ];
    for (function, expected) in cases {
        check_function(function, given.clone(), float64(&expected));
    }
    let decimals = |values: &[Option<i128>], precision, scale| -> ArrayRef {
        let values = Decimal128Array::from(values.to_vec());
        Arc::new(values.with_precision_and_scale(precision, scale).unwrap())
    };
    let given = decimals(&[Some(995), Some(-995), Some(125), Some(-125), None], 3, 2);
    for (function, expected) in [
        ("round(left.x)", [10, -10, 1, -1]),
        ("floor(left.x)", [9, -10, 1, -2]),
        ("ceil(left.x)", [10, -9, 2, -1]),
    ] {
        let expected = expected.map(Some).into_iter().chain([None]).collect::<Vec<_>>();
        check_function(function, given.clone(), decimals(&expected, 4, 0));
    }
    let expected = decimals(&[Some(100), Some(-100), Some(13), Some(-13), None], 4, 1);
    check_function("round(left.x, 1)", given.clone(), expected);
    check_function("round(left.x, 2)", given.clone(), given);
    let largest = 10_i128.pow(38) - 1;
    check_function(
        "round(left.x)",
        decimals(&[Some(largest), Some(-largest)], 38, 38),
        decimals(&[Some(1), Some(-1)], 4, 0),
    );
    check_function("round(left.x)", int64(&[Some(i64::MAX)]), int64(&[Some(i64::MAX)]));
}

#[test]
fn parts_of_times_are_those_of_the_zone_of_the_column() {
    // 2024-12-30 is a Monday, in the first week of the ISO year 2025.
    let time = timestamps(TimeUnit::Second, None, 1_735_599_296);
    let parts = [
        ("year", 2024),
        ("quarter", 4),
        ("month", 12),
        ("week", 1),
        ("day", 30),
        ("dow", 1),
        ("doy", 365),
        ("hour", 22),
        ("minute", 54),
        ("second", 56),
    ];
    for (part, expected) in parts {
        let function = format!("extract({part} from left.x)");
        check_function(&function, time.clone(), int64(&[Some(expected)]));
    }
    let paris = timestamps(TimeUnit::Nanosecond, Some("Europe/Paris"), 1_735_599_296_000_000_000);
    check_function("extract(hour from left.x)", paris, int64(&[Some(23)]));
    let days: ArrayRef = Arc::new(Date32Array::from(vec![Some(20_087), None, Some(-1)]));
    check_function("extract(dow from left.x)", days.clone(), int64(&[Some(1), None, Some(3)]));
    check_function("extract(hour from left.x)", days, int64(&[Some(0), None, Some(0)]));
    let noon: ArrayRef = Arc::new(Time32SecondArray::from(vec![43_261]));
    check_function("extract(minute from left.x)", noon, int64(&[Some(1)]));
}

#[test]
fn casts_are_exact_or_an_error() {
    let cases: [(&str, ArrayRef, ArrayRef); 11] = [
        ("cast(left.x as bigint)", text(&[Some("12"), None]), int64(&[Some(12), None])),
        ("cast(left.x as double)", text(&[Some("1.5")]), float64(&[1.5])),
        ("cast(left.x as integer)", float64(&[-1.9]), int64(&[Some(-1)])),
        ("cast(left.x as varchar)", int64(&[Some(-7)]), text(&[Some("-7")])),
        ("cast(left.x as double)", int64(&[Some(3)]), float64(&[3.0])),
        ("cast(left.x as decimal(5, 1))", float64(&[2.25]), float64(&[2.3])),
        (
            "cast(left.x as boolean)",
            text(&[Some("true")]),
            Arc::new(BooleanArray::from(vec![true])),
        ),
        ("cast(left.x as date)", text(&[Some("1970-01-03")]), Arc::new(Date32Array::from(vec![2]))),
        (
            "cast(left.x as date)",
            timestamps(TimeUnit::Second, None, -1),
            Arc::new(Date32Array::from(vec![-1])),
        ),
        (
            "cast(left.x as timestamp)",
            text(&[Some("1970-01-01 00:00:01.5")]),
            timestamps(TimeUnit::Millisecond, None, 1500),
        ),
        (
            "cast(left.x as timestamp)",
            Arc::new(Date32Array::from(vec![1])),
            timestamps(TimeUnit::Second, None, 86_400),
        ),
    ];
    for (function, given, expected) in cases {
        check_function(function, given, expected);
    }
    for (condition, column) in [
        ("CAST(left.x AS BIGINT) = 1", text(&[Some("one")])),
        ("CAST(left.x AS TINYINT) = 1", int64(&[Some(128)])),
        ("CAST(left.x AS BIGINT) = 1", float64(&[1e19])),
        ("CAST(left.x AS DECIMAL(2, 1)) = 1", int64(&[Some(10)])),
        ("CAST(left.x AS DATE) = DATE '2024-01-01'", text(&[Some("2024-02-30")])),
        ("substr('abc', 1, left.x) = 'a'", int64(&[Some(-1)])),
    ] {
        let error = evaluate(condition, &one_row(column), &vec![]).unwrap_err();
        assert!(error.is_data(), "{condition}: {error:?}");
        let function = condition.split(" = ").next().unwrap();
        assert!(error.message().contains(&format!("where `{function}`")), "{condition}: {error}");
    }
}

#[test]
fn values_of_case_and_coalesce_are_evaluated_where_they_are_taken() {
    let left = one_row(int64(&[Some(0), Some(1), Some(2), None]));
    for (condition, expected) in [
        ("case when left.x = 0 then 7 else 14 % left.x end = 7", [true, false, false, false]),
        ("case when left.x > 0 then 14 % left.x end = 0", [false, true, true, false]),
        ("case left.x when 0 then 'a' when 1 then 'b' end is null", [false, false, true, true]),
        ("case when null then 1 else 2 end = 2", [true, true, true, true]),
        ("case when left.x is null then null end is null", [true, true, true, true]),
        ("coalesce(left.x, 5) = 5", [false, false, false, true]),
        ("coalesce(null, left.x, 14 % 0) is null", [false, false, false, false]),
        ("case when left.x = 1 then left.x = 1 else false end", [false, true, false, false]),
        (
            "coalesce(case when left.x = 2 then null else 2.5 end, left.x) = 2",
            [false, false, true, false],
        ),
    ] {
        let found = evaluate(condition, &left, &vec![]);
        // Only the last row uses the value that cannot be computed.
        if condition.contains("14 % 0") {
            assert!(found.is_err_and(|error| error.is_data()), "{condition}");
        } else {
            assert_eq!(found.unwrap(), expected, "{condition}");
        }
    }
}

#[test]
fn functions_of_other_types_are_a_schema_error_that_says_what_was_expected() {
    for (condition, column, reason) in [
        ("lower(left.x) = 'a'", int64(&[None]), "expected text, but `left.x` is int64"),
        (
            "substr(left.x, 1.5) = 'a'",
            text(&[None]),
            "expected a whole number, but `1.5` is double",
        ),
        ("floor(left.x) = 1", text(&[None]), "expected a number of at most 38 digits"),
        ("round(left.x, left.x) = 1", float64(&[]), "expected a number of digits from 0 to 15"),
        ("round(left.x, 16) = 1", float64(&[]), "expected a number of digits from 0 to 15"),
        ("extract(hour from left.x) = 1", int64(&[None]), "a time that has the part hour"),
        ("coalesce(left.x, 'a') = 'a'", int64(&[None]), "cannot compare"),
        ("case when left.x then 1 end = 1", int64(&[None]), "expected a condition"),
        (
            "cast(left.x as bigint) = 1",
            timestamps(TimeUnit::Second, None, 0),
            "cannot be cast to BIGINT; to obtain a number, subtract times",
        ),
        (
            "cast(left.x as date) = null",
            timestamps(TimeUnit::Second, Some("UTC"), 0),
            "cannot be cast to DATE; its date depends on a time zone",
        ),
    ] {
        let error = evaluate(condition, &one_row(column), &vec![]).expect_err(condition);
        assert!(error.is_schema(), "{condition}: {error:?}");
        assert!(error.message().contains(reason), "{condition}: {error}");
    }
}
