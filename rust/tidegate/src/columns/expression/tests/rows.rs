use std::sync::Arc;

use arrow_array::builder::StringRunBuilder;
use arrow_array::types::{Int8Type, Int32Type};
use arrow_array::*;
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Schema, TimeUnit};

use crate::Result;
use crate::columns::expression::{Expr, Literal, Origin, Predicate, parse_sql};

/// A table of one row for each value, of named columns.
type Table = Vec<(&'static str, ArrayRef)>;

fn schema(table: &Table) -> Schema {
    let field =
        |(name, array): &(&str, ArrayRef)| Field::new(*name, array.data_type().clone(), true);
    Schema::new(table.iter().map(field).collect::<Vec<_>>())
}

fn evaluate(text: &str, left: &Table, right: &Table) -> Result<Vec<bool>> {
    evaluate_tree(&parse_sql(text)?, left, right)
}

/// Row i of the left table with row i of the right.
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
            // No wrapping on the way, whatever the widths.
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
        ("left.s > right.ns", "left.s"),
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
    let types = "`left.name` of type Utf8 with `left.x` of type Int64";
    for (condition, reason) in [
        ("left.y = 1", "the left table has no column `y`; it has `x`, `name`, `ts`"),
        ("right.x = 1", "the right table has no column `x`"),
        ("left.twice = 1", "the left table has more than one column `twice`"),
        ("left.name < left.x", types),
        ("left.name + left.x = 2", types),
        ("left.name = 1", "cannot compare `left.name` of type Utf8 with `1` of type Int64"),
        ("left.x in (1, 'a')", "cannot compare `left.x` of type Int64 with `'a'` of type Utf8"),
        ("left.name between 'a' and 2", "with `2` of type Int64"),
        ("left.x = true", "with `TRUE` of type Boolean"),
        ("left.ts = left.utc", "one has a time zone and the other has none"),
        ("left.ts - left.utc = INTERVAL '1 s'", "one has a time zone and the other has none"),
        ("left.utc > TIMESTAMP '2024-01-01'", "one has a time zone and the other has none"),
        ("left.ts > '2024-01-01'", "write a time as TIMESTAMP"),
        ("left.ts > 5", "cannot compare"),
        ("left.ts + 5 > left.ts", "cannot compute `left.ts` of type"),
        ("left.ts + left.ts > left.ts", "cannot compute"),
        ("left.ts * INTERVAL '1 s' > left.ts", "cannot compute"),
        ("left.months = left.months", "cannot compare"),
        ("left.list = left.list", "cannot compare"),
        ("-left.name = 1", "expected a number or a duration, but `left.name` is Utf8"),
        ("abs(left.ts) = 1", "expected a number or a duration"),
        ("left.x + 1", "expected a condition that is true or false, but `left.x + 1` is Int64"),
        (
            "left.x and left.x = 1",
            "expected a condition that is true or false, but `left.x` is Int64",
        ),
        ("not left.name", "expected a condition that is true or false, but `left.name` is Utf8"),
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
    ];
    // Half of what Rust gives to its threads.
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
