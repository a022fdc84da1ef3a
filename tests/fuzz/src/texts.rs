//! Strings that callers write: durations and conditions.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use tidegate::columns::expression::{Origin, Predicate, parse_row_sql, parse_sql};
use tidegate::parse_duration;

/// Parses a duration: it is refused as an argument, or stays equal when it is written in
/// nanoseconds.
pub(crate) fn duration(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match parse_duration(text) {
        Ok(nanoseconds) => {
            assert_eq!(parse_duration(&format!("{nanoseconds}ns")), Ok(nanoseconds), "{text:?}");
            assert_eq!(parse_duration(&format!("  {text} ")), Ok(nanoseconds), "{text:?}");
            if nanoseconds != 0 {
                assert_eq!(nanoseconds < 0, text.trim_start().starts_with('-'), "{text:?}");
            }
        }
        Err(error) => assert!(error.is_argument(), "{text:?}: {error:?}"),
    }
}

/// Parses a condition: it is refused as an argument, or it is the same after it is written and
/// parsed again.
///
/// Bound to columns of all kinds, it is refused by the schema, fails because of the data, or has
/// the same results for single pairs as for all pairs together.
pub(crate) fn condition(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let parsed = [parse_sql(text), parse_row_sql(text)];
    let tables = [table(), table(), RecordBatch::new_empty(Arc::new(Schema::empty()))];
    for (expr, right) in parsed.into_iter().zip([&tables[1], &tables[2]]) {
        let expr = match expr {
            Ok(expr) => expr,
            Err(error) => {
                assert!(error.is_argument(), "{text:?}: {error:?}");
                continue;
            }
        };
        let written = expr.to_string();
        let parse = if right.num_columns() == 0 { parse_row_sql } else { parse_sql };
        let again = parse(&written)
            .unwrap_or_else(|error| panic!("{text:?} is written as {written:?}: {error:?}"));
        assert_eq!(again, expr, "{text:?} is written as {written:?}");
        match Predicate::bind(&expr, &tables[0].schema(), &right.schema()) {
            Ok(predicate) => evaluate(text, &predicate, &tables[0], right),
            Err(error) => assert!(
                error.is_schema() || error.is_argument() || error.is_data(),
                "{text:?}: {error:?}"
            ),
        }
    }
}

fn evaluate(text: &str, predicate: &Predicate, left: &RecordBatch, right: &RecordBatch) {
    let rows = left.num_rows();
    let columns = |table: &RecordBatch, side, from, len| -> Vec<ArrayRef> {
        predicate.columns(side).iter().map(|&at| table.column(at).slice(from, len)).collect()
    };
    let of = |from, len| {
        predicate.evaluate(
            &columns(left, Origin::Left, from, len),
            &columns(right, Origin::Right, from, len),
            len,
        )
    };
    let all = of(0, rows);
    let single: Result<Vec<bool>, _> =
        (0..rows).map(|row| of(row, 1).map(|found| found.value(0))).collect();
    match (all, single) {
        (Ok(all), Ok(single)) => assert_eq!(all.iter().collect::<Vec<_>>(), single, "{text:?}"),
        (Err(all), Err(single)) => {
            assert!(all.is_data() && single.is_data(), "{text:?}: {all:?}, {single:?}")
        }
        (all, single) => panic!("{text:?}: {all:?} together, {single:?} alone"),
    }
}

/// Builds a column of each kind, named by a letter. Some values are equal, extreme or null.
fn table() -> RecordBatch {
    const WHOLE: [&str; 6] = ["0", "1", "-1", "7", "-128", "127"];
    const REAL: [&str; 6] = ["0", "-0.0", "1.5", "NaN", "-inf", "1e300"];
    const DECIMAL: [&str; 6] = ["0", "1.50", "-1.5", "9999999.99", "-9999999.99", "0.01"];
    const TEXT: [&str; 6] = ["", "a", "ab", "A", "é%_", "0"];
    const TIME: [&str; 6] = [
        "2024-01-31 12:00:00",
        "1969-12-31 23:59:59",
        "2024-03-31 02:30:00",
        "2024-01-31 00:00:00",
        "1900-01-01 00:00:00",
        "2100-12-31 00:00:00",
    ];
    let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let columns = [
        (
            "i",
            DataType::Int64,
            ["0", "1", "-1", "7", "-9223372036854775808", "9223372036854775807"],
        ),
        ("j", DataType::Int8, WHOLE),
        ("u", DataType::UInt64, ["0", "1", "2", "7", "255", "18446744073709551615"]),
        ("f", DataType::Float64, REAL),
        ("g", DataType::Float32, REAL),
        ("d", DataType::Decimal128(9, 2), DECIMAL),
        ("e", DataType::Decimal256(50, 10), DECIMAL),
        ("s", DataType::Utf8, TEXT),
        ("v", DataType::Utf8View, TEXT),
        ("w", dictionary, TEXT),
        ("b", DataType::Boolean, ["true", "false", "true", "true", "false", "false"]),
        ("x", DataType::Binary, TEXT),
        ("t", DataType::Timestamp(TimeUnit::Microsecond, None), TIME),
        ("z", DataType::Timestamp(TimeUnit::Second, Some("Europe/Paris".into())), TIME),
        ("y", DataType::Date32, TIME.map(|time| &time[..10])),
    ];
    let column = |(name, data_type, texts): (&str, DataType, [&str; 6])| {
        let texts: StringArray = texts.into_iter().map(Some).chain([None]).collect();
        (
            Field::new(name, data_type.clone(), true),
            cast(&texts, &data_type).expect("values of the type"),
        )
    };
    let (fields, columns): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().map(column).unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("columns of equal length")
}
