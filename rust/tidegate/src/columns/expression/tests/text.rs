use proptest::prelude::*;

use crate::columns::expression::{
    Arithmetic, Binary, CastType, Comparison, Expr, Language, Literal, Origin, ScalarFunction,
    TimePart, Unary, parse_row_sql, parse_sql,
};

fn literal() -> impl Strategy<Value = Literal> {
    prop_oneof![
        Just(Literal::Null),
        any::<bool>().prop_map(Literal::Boolean),
        prop_oneof![Just(i128::from(i64::MIN)), Just(i128::from(u64::MAX)), -5..=5_i128]
            .prop_map(Literal::Integer),
        prop_oneof![
            any::<f64>().prop_filter("NaN is not equal to itself", |x| !x.is_nan()),
            Just(-0.0),
            Just(1e300)
        ]
        .prop_map(Literal::Float),
        (-99_999..99_999_i128, 0..8_u8)
            .prop_map(|(value, scale)| Literal::Decimal { value, scale }),
        "\\PC{0,8}".prop_map(Literal::Text),
        Just(Literal::Text("it's \"odd\" \\ -- /* \n\0".into())),
        proptest::collection::vec(any::<u8>(), 0..4).prop_map(Literal::Binary),
        // Years 0 to 9999.
        (-719_528..2_932_896).prop_map(Literal::Date),
        (-62_167_219_200_000_000_000..253_402_300_799_999_999_999_i128, any::<bool>(), 0..10_u32)
            .prop_map(|(nanoseconds, zoned, places)| {
                let nanoseconds = nanoseconds - nanoseconds.rem_euclid(10_i128.pow(places));
                Literal::Timestamp { nanoseconds, zoned }
            }),
        any::<i64>().prop_map(|x| Literal::Duration { nanoseconds: x.into() }),
        any::<i32>().prop_map(|x| Literal::Duration { nanoseconds: i128::from(x) * 1_000_000_000 }),
    ]
}

fn column() -> impl Strategy<Value = Expr> {
    let side = prop_oneof![Just(Origin::Left), Just(Origin::Right)];
    let keyword = (0..sqlparser::keywords::ALL_KEYWORDS.len())
        .prop_map(|i| sqlparser::keywords::ALL_KEYWORDS[i].to_lowercase());
    (side, prop_oneof![keyword, "[a-z_][a-z0-9_]{0,5}", "\\PC{1,8}"])
        .prop_map(|(side, name)| Expr::Column(side, name))
}

fn binary() -> impl Strategy<Value = Binary> {
    use Arithmetic::{Add, Divide, Multiply, Remainder, Subtract};
    use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    prop_oneof![
        Just(Binary::And),
        Just(Binary::Or),
        proptest::sample::select(vec![Add, Subtract, Multiply, Divide, Remainder])
            .prop_map(Binary::Arithmetic),
        proptest::sample::select(vec![Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual])
            .prop_map(Binary::Compare),
    ]
}

/// A `CASE`.
fn chosen(inner: BoxedStrategy<Expr>) -> impl Strategy<Value = Expr> {
    let branches = proptest::collection::vec((inner.clone(), inner.clone()), 1..3);
    (branches, proptest::option::of(inner)).prop_map(|(branches, otherwise)| Expr::Case {
        branches,
        otherwise: otherwise.map(Box::new),
    })
}

/// Generates a function, a cast or a part of a time.
fn called(inner: BoxedStrategy<Expr>) -> impl Strategy<Value = Expr> {
    use CastType::{
        BigInt, Boolean, Date, Decimal, Double, Integer, Real, SmallInt, Text, Timestamp, TinyInt,
    };
    let types = vec![
        Boolean,
        TinyInt,
        SmallInt,
        Integer,
        BigInt,
        Real,
        Double,
        Decimal(38, 0),
        Decimal(5, 5),
        Text,
        Date,
        Timestamp,
    ];
    use TimePart::{Day, DayOfWeek, DayOfYear, Hour, Minute, Month, Quarter, Second, Week, Year};
    let parts = vec![Year, Quarter, Month, Week, Day, DayOfWeek, DayOfYear, Hour, Minute, Second];
    let arguments = proptest::collection::vec(inner.clone(), 3);
    prop_oneof![
        (proptest::sample::select(&ScalarFunction::ALL[..]), arguments).prop_map(
            |((function, _, least, most), mut arguments)| {
                arguments.truncate(most.min(3).max(least));
                Expr::Call(function, arguments)
            }
        ),
        (inner.clone(), proptest::sample::select(types))
            .prop_map(|(x, to)| Expr::Cast(x.into(), to)),
        (proptest::sample::select(parts), inner)
            .prop_map(|(part, x)| Expr::Extract(part, x.into())),
    ]
}

fn expr() -> impl Strategy<Value = Expr> {
    let leaf = prop_oneof![column(), literal().prop_map(Expr::Literal)];
    leaf.prop_recursive(6, 40, 4, |inner| {
        let inner = inner.boxed();
        use Unary::{Abs, IsNotNull, IsNull, Negate, Not};
        let unary = proptest::sample::select(vec![Negate, Not, Abs, IsNull, IsNotNull]);
        prop_oneof![
            (unary, inner.clone()).prop_map(|(operator, x)| Expr::Unary(operator, x.into())),
            (inner.clone(), binary(), inner.clone()).prop_map(|(l, operator, r)| Expr::Binary(
                l.into(),
                operator,
                r.into()
            )),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(value, low, high)| {
                Expr::Between { value: value.into(), low: low.into(), high: high.into() }
            }),
            (inner.clone(), proptest::collection::vec(inner.clone(), 1..4))
                .prop_map(|(value, items)| Expr::In { value: value.into(), items }),
            chosen(inner.clone()),
            called(inner.clone()),
            (
                inner,
                proptest::sample::select(vec![Language::Like, Language::ILike, Language::Regexp]),
                "[a%_'.*]{0,4}"
            )
                .prop_map(|(value, language, pattern)| Expr::Match {
                    value: value.into(),
                    language,
                    pattern
                }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn text_of_a_tree_parses_to_the_same_tree(expr in expr()) {
        let text = expr.to_string();
        prop_assert_eq!(parse_sql(&text).map_err(|error| TestCaseError::fail(error.to_string()))?, expr, "{}", text);
    }
}

/// Checks how each text is displayed after parsing.
#[test]
fn text_is_read_as_sql() {
    for (text, shown) in [
        ("LEFT.a=1 and Right.b<>2 or not left.c", "left.a = 1 AND right.b != 2 OR NOT left.c"),
        ("left.a == 1", "left.a = 1"),
        ("left.a = 1 AND (left.b = 2 OR left.c = 3)", "left.a = 1 AND (left.b = 2 OR left.c = 3)"),
        ("left.a - (left.b - 1) - 2 * (left.c + 3)", "left.a - (left.b - 1) - 2 * (left.c + 3)"),
        ("left . a > -5", "left.a > -5"),
        ("-left.a > +5", "-left.a > 5"),
        ("-(5) < - -5", "-(5) < -(-5)"),
        ("left.a not between 1 and 2", "NOT left.a BETWEEN 1 AND 2"),
        ("left.a not in (1, 'x')", "NOT left.a IN (1, 'x')"),
        ("left.a not like 'it''s %'", "NOT left.a LIKE 'it''s %'"),
        (
            "left.a rlike '^x' or left.a not regexp 'y'",
            "left.a REGEXP '^x' OR NOT left.a REGEXP 'y'",
        ),
        ("left.date is null /* not a type */", "left.date IS NULL"),
        ("left.case is not null -- nor CASE", "left.case IS NOT NULL"),
        ("left.\"odd \"\"name\"\"\" = 'it''s'", "left.\"odd \"\"name\"\"\" = 'it''s'"),
        ("ABS(left.x) % 2 = .5e1", "abs(left.x) % 2 = 5.0"),
        ("left.x < DECIMAL '-01.50'", "left.x < DECIMAL '-1.50'"),
        (
            "left.x < double 'nan' or left.x = DOUBLE '-inf'",
            "left.x < DOUBLE 'NaN' OR left.x = DOUBLE '-inf'",
        ),
        ("left.x = X'00FF'", "left.x = X'00ff'"),
        ("left.t > DATE '2024-02-29'", "left.t > DATE '2024-02-29'"),
        ("left.t > TIMESTAMP '2024-02-29'", "left.t > TIMESTAMP '2024-02-29 00:00:00'"),
        (
            "left.t > TIMESTAMP '2024-02-29T01:02:03.5+01:00'",
            "left.t > TIMESTAMP '2024-02-29 00:02:03.500000000+00:00'",
        ),
        (
            "left.t > TIMESTAMP '2024-02-29 01:02:03Z'",
            "left.t > TIMESTAMP '2024-02-29 01:02:03+00:00'",
        ),
        ("left.t < INTERVAL '1 hour 30 minutes'", "left.t < INTERVAL '5400 seconds'"),
        ("left.t < interval '-1h30m0.5s'", "left.t < INTERVAL '-5400500 milliseconds'"),
        ("left.t < INTERVAL '5' SECOND", "left.t < INTERVAL '5 seconds'"),
        ("left.t < INTERVAL 2 WEEKS", "left.t < INTERVAL '1209600 seconds'"),
    ] {
        let expr = parse_sql(text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(expr.to_string(), shown, "{text}");
        // Compare the debug form, in which NaN equals itself.
        assert_eq!(
            format!("{:?}", parse_sql(shown)),
            format!("{:?}", Ok::<_, crate::Error>(expr)),
            "{text}"
        );
    }
}

#[test]
fn text_over_single_rows_names_columns_with_or_without_row() {
    for (text, shown) in [
        ("price > 1 and \"odd name\" is null", "row.price > 1 AND row.\"odd name\" IS NULL"),
        ("row.date = ROW.price", "row.date = row.price"),
        ("payload.\"odd name\".date > 1", "row.payload.\"odd name\".date > 1"),
        ("row.payload.price > 1", "row.payload.price > 1"),
    ] {
        let expr = parse_row_sql(text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(expr.to_string(), shown);
        assert_eq!(parse_row_sql(shown).unwrap(), expr);
    }
    let refused = |text| parse_row_sql(text).unwrap_err().message().to_owned();
    assert!(refused("left.price > 1").contains("have no sides; write row.price"));
    assert!(refused(" ").contains("expected a condition such as `price > 10`"));
    assert!(
        parse_sql("row.price > 1").unwrap_err().message().contains("has no side; write left.price")
    );
}

#[test]
fn text_that_is_not_understood_is_an_argument_error_that_says_why() {
    for (text, reason) in [
        ("", "the text is empty"),
        ("  -- nothing", "the text is empty"),
        ("left.a <", "Expected: an expression, found the end of the text at Line: 1, Column: 9"),
        ("left.a = 1 left.b", "expected the end, found `\"left\"`"),
        ("left.a = 'x", "Unterminated string literal"),
        ("price > 1", "`price` has no side; write left.price or right.price"),
        ("middle.a = 1", "expected left or right before the dot, found `middle`"),
        ("left.a || left.b = 'x'", "the operator `||` is not supported"),
        ("left.a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p = 1", "in at most 16 names"),
        ("left.a LIKE left.b", "the pattern `left.b` is not supported; expected text in quotes"),
        ("left.a LIKE 'x%' ESCAPE '!'", "is not supported"),
        ("left.a IN (SELECT 1)", "is not supported"),
        ("TRY_CAST(left.a AS INT) = 1", "is not supported"),
        ("CAST(left.a AS JSON) = 1", "a cast to `JSON` is not supported; write BOOLEAN"),
        ("CAST(left.a AS DECIMAL(39, 0)) = 1", "with at most 38 digits"),
        ("CAST(left.a AS DECIMAL) = 1", "give a precision and scale, such as DECIMAL(18, 2)"),
        ("EXTRACT(century FROM left.a) = 1", "write year, quarter, month"),
        ("sqrt(left.a) = 1", "there is no function `sqrt`; the functions are abs, coalesce, lower"),
        ("lowr(left.a) = 'x'", "did you mean lower?"),
        ("abs(left.a, 2) = 1", "`abs` takes one value, got 2"),
        ("substr(left.a) = 'x'", "is not supported"),
        ("round(left.a, 1, 2) = 1", "`round` takes 1 or 2 values, got 3"),
        ("coalesce() = 1", "`coalesce` takes 1 to 100 values, got 0"),
        ("abs(DISTINCT left.a) = 1", "`abs` accepts only values; write abs(left.x)"),
        ("left.a IS TRUE", "is not supported"),
        ("left.a = ?", "is not supported"),
        ("left.a = 18446744073709551616", "fits neither int64 nor uint64; write DECIMAL"),
        ("left.a = 1e999", "does not fit float64"),
        ("left.a = X'0'", "expected an even number of hexadecimal digits"),
        ("left.a = DATE '2024-02-30'", "is not valid"),
        ("left.a = DATE '2024-02-03 10:00:00'", "is not valid"),
        ("left.a = TIMESTAMP 'noon'", "is not valid"),
        ("left.a = DECIMAL '1e5'", "is not valid"),
        ("left.a = DECIMAL '123456789012345678901234567890123456789'", "is not valid"),
        ("left.a = TIME '10:00:00'", "expected DATE, TIMESTAMP, DECIMAL or DOUBLE"),
        ("left.a = INTERVAL '1 month'", "in units from nanoseconds to weeks"),
        ("left.a = INTERVAL '5'", "in units from nanoseconds to weeks"),
        ("left.a = INTERVAL '0.5 ns'", "in units from nanoseconds to weeks"),
        ("left.a = INTERVAL '1-2' YEAR TO MONTH", "in units from nanoseconds to weeks"),
    ] {
        let error = parse_sql(text).expect_err(text);
        assert!(error.is_argument(), "{text}: {error:?}");
        assert!(error.message().starts_with(&format!("where `{text}`: ")), "{text}: {error}");
        assert!(error.message().contains(reason), "{text}: {error}");
    }
}

#[test]
fn size_of_a_text_is_limited_before_the_stack_is() {
    let chain = |n: usize| format!("left.a = 0{}", " + 1".repeat(n));
    assert!(parse_sql(&chain(199)).is_ok());
    let error = parse_sql(&chain(1_000_000)).expect_err("a tree a million levels deep");
    assert!(error.message().contains("1000001 operators are more than the 200"), "{error}");

    let nested = |n: usize| format!("{}left.a{}", "(".repeat(n), ")".repeat(n));
    assert!(parse_sql(&nested(50)).is_ok());
    let error = parse_sql(&nested(400)).expect_err("400 parentheses");
    assert!(error.message().contains("recursion limit exceeded"), "{error}");

    let items = vec!["1"; 100_000].join(", ");
    assert!(parse_sql(&format!("left.a IN ({items})")).is_ok());
}
