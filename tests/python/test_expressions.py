"""Expressions: their SQL, their behaviour as Python objects, and the pairs that a join keeps."""

import copy
import enum
import math
import pickle
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tidegate
from cases import grid
from tidegate import Expr, case, left, right


class Venue(enum.StrEnum):
    """A str whose `repr` shows another name."""

    PARIS = "XPAR"


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (left.price < right.bid * 1.01, "left.price < right.bid * 1.01"),
        ((left.a == 1) & (left.b != 2) | ~left.c, "left.a = 1 AND left.b != 2 OR NOT left.c"),
        ((left.a <= 1) & ((left.b > 2) | left.c), "left.a <= 1 AND (left.b > 2 OR left.c)"),
        (left.a - (left.b - 1) - 2 * (left.c + 3), "left.a - (left.b - 1) - 2 * (left.c + 3)"),
        (5 - left.a / 2 >= 7 % left.b, "5 - left.a / 2 >= 7 % left.b"),
        (1 / left.a + 1 < 2, "1 / left.a + 1 < 2"),
        (-(-left.a) > -5, "-(-left.a) > -5"),  # noqa: B002 - not a decrement
        (-(left.a + 1) * -2 > 0, "-(left.a + 1) * -2 > 0"),
        (~(left.a == 1) | ~~left.b, "NOT left.a = 1 OR NOT NOT left.b"),
        (1 < left.a, "left.a > 1"),  # noqa: SIM300 - Python itself reverses it
        ((left.a == 1) == left.b, "(left.a = 1) = left.b"),
        (abs(left.x - right.x).between(0, 5), "abs(left.x - right.x) BETWEEN 0 AND 5"),
        ((left.a > 1).is_null(), "(left.a > 1) IS NULL"),
        ((left.a + 1).is_not_null(), "left.a + 1 IS NOT NULL"),
        (left.venue.is_in(["XPAR", None]), "left.venue IN ('XPAR', NULL)"),
        (left.venue.is_in([]), "FALSE"),
        (left.venue.like("it's %"), "left.venue LIKE 'it''s %'"),
        (~(left.a + left.b).matches("^x"), "NOT left.a + left.b REGEXP '^x'"),
        (left.venue.starts_with("a.b"), "starts_with(left.venue, 'a.b')"),
        (~left.venue.ilike("x%"), "NOT left.venue ILIKE 'x%'"),
        (left.a.coalesce(None, 0) * 2 > 1, "coalesce(left.a, NULL, 0) * 2 > 1"),
        (
            case((left.a > 1, 2), (True, left.b)) == 2,
            "CASE WHEN left.a > 1 THEN 2 WHEN TRUE THEN left.b END = 2",
        ),
        (
            round(left.a, 1) + round(left.b) > math.floor(-left.c),
            "round(left.a, 1) + round(left.b) > floor(-left.c)",
        ),
        (left.a.cast("decimal(9, 2)"), "CAST(left.a AS DECIMAL(9, 2))"),
        (True & left.a | False, "TRUE AND left.a OR FALSE"),
        (left["odd name"] > right['"'], 'left."odd name" > right.""""'),
        (left["_x"] > right.é, 'left._x > right."é"'),
    ],
)
def test_repr_is_the_sql_text(expr: Expr, text: str) -> None:
    assert repr(expr) == str(expr) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (2**63, "9223372036854775808"),
        (0.1, "0.1"),
        (1e300, "1e+300"),
        (-0.0, "-0.0"),
        (math.inf, "DOUBLE 'inf'"),
        (math.nan, "DOUBLE 'nan'"),
        ("it's", "'it''s'"),
        (Venue.PARIS, "'XPAR'"),
        (b"\x00\xff", "X'00ff'"),
        (Decimal("-1.50"), "DECIMAL '-1.50'"),
        (Decimal("1e3"), "DECIMAL '1000'"),
        (date(2024, 1, 31), "DATE '2024-01-31'"),
        (datetime(2024, 1, 31, 12), "TIMESTAMP '2024-01-31 12:00:00'"),  # noqa: DTZ001 - naive
        (
            datetime(2024, 1, 31, 1, tzinfo=timezone(timedelta(hours=2))),
            "TIMESTAMP '2024-01-30 23:00:00+00:00'",
        ),
        (timedelta(minutes=90), "INTERVAL '5400 seconds'"),
        (timedelta(milliseconds=-5), "INTERVAL '-5 milliseconds'"),
        (timedelta(microseconds=1), "INTERVAL '1 microseconds'"),
        (np.int8(-5), "-5"),
        (np.float64(0.5), "0.5"),
        (np.bool_(0), "FALSE"),
        (np.str_("a"), "'a'"),
        (np.datetime64("2024-01"), "TIMESTAMP '2024-01-01 00:00:00'"),
        (
            np.datetime64("2024-01-31T12:00:00.000000001"),
            "TIMESTAMP '2024-01-31 12:00:00.000000001'",
        ),
        (np.datetime64("NaT"), "NULL"),
        (np.timedelta64(3, "h"), "INTERVAL '10800 seconds'"),
        (np.timedelta64(7, "ns"), "INTERVAL '7 nanoseconds'"),
        (
            pd.Timestamp("2024-01-31 12:00:00.000000001"),
            "TIMESTAMP '2024-01-31 12:00:00.000000001'",
        ),
        (pd.Timestamp("2024-01-31", tz="Europe/Berlin"), "TIMESTAMP '2024-01-30 23:00:00+00:00'"),
        (pd.NaT, "NULL"),
        (pd.Timedelta("1us 1ns"), "INTERVAL '1001 nanoseconds'"),
    ],
)
def test_literal_is_written_without_loss(value: object, text: str) -> None:
    assert repr(left.x == value) == f"left.x = {text}"
    # NumPy scalars on the left behave in the same way.
    assert repr(value + left.x) == f"{text} + left.x"


@pytest.mark.parametrize(
    "value",
    [
        True,
        -(2**63),
        0.1,
        -1e300,
        5e-324,
        math.inf,
        'it\'s "odd" -- \\ \n\0 é',
        b"\x00\xff",
        Decimal("-1.50"),
        Decimal("0.0000001"),
        date(1, 1, 1),
        date(9999, 12, 31),
        datetime(2024, 1, 31, 12, 0, 0, 1),  # noqa: DTZ001 - naive
        datetime(1, 1, 1, tzinfo=UTC),
        timedelta(days=-3, microseconds=1),
        np.float32(0.1),
        np.uint64(2**64 - 1),
        np.datetime64("2024-01-31T12:00:00.000000001"),
        np.timedelta64(-(2**63) + 1, "ns"),
        pd.Timestamp("2024-01-31 12:00:00.000001", tz="Europe/Berlin"),
    ],
    ids=repr,
)
def test_literal_is_equal_to_the_value_that_it_was_made_from(value: object) -> None:
    row = pa.table({"ts": [0], "x": pa.array([value])})
    for where, rows in (
        (left.x == value, 1),
        (left.x.is_in([value]), 1),
        (left.x.between(value, value), 1),
        (left.x != value, 0),
    ):
        table = tidegate.interval_join(row, row, on="ts", lower=0, upper=0, where=where)
        assert table.num_rows == rows


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: bool(left.a == 1), "`left.a = 1` has a value for each pair of rows"),
        (lambda: 1 < left.a < 5, r"between\(\) for a < x < b"),
        (lambda: (left.a == 1) and left.b, "use & for and, | for or, ~ for not"),
        (lambda: left.a > 1 & left.b, "& expects conditions on both sides, got 1: put each"),
        (lambda: left.a | "x", r"\| expects conditions on both sides, got 'x'"),
        (lambda: left.a == [1], r"\[1\] of type list cannot be part of an expression"),
        (lambda: left.a + left, "tidegate.left of type Columns cannot be part of an expression"),
        (lambda: left.a == Decimal("NaN"), "finite Decimal"),
        (lambda: left.a == np.array([1, 2]), "of type ndarray cannot be part of an expression"),
        (lambda: left.a == np.longdouble(1), "of type longdouble cannot be part of an expression"),
        (lambda: left.a == np.timedelta64(1, "M"), "has no fixed length"),
        (lambda: left.a.is_in("abc"), r"is_in\(\) expects several values, got 'abc'"),
        (lambda: left[0], r"tidegate.left\[...\] expects the name of a column, got 0"),
    ],
)
def test_mistake_is_a_type_error_that_says_what_to_write(
    build: Callable[[], object], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        build()


def test_expressions_can_be_hashed_copied_and_pickled() -> None:
    expr = (left.a + 1 > right["odd name"]) & left.b
    for twin in (copy.copy(expr), copy.deepcopy(expr), pickle.loads(pickle.dumps(expr))):
        assert repr(twin | left.c) == repr(expr | left.c)
        assert len({expr, twin, expr}) == len({id(expr), id(twin)})
    with pytest.raises(AttributeError):
        expr._text = "left.b"  # type: ignore[misc]


def test_columns_can_be_copied_pickled_and_displayed() -> None:
    for twin in (copy.copy(left), copy.deepcopy(left), pickle.loads(pickle.dumps(left))):
        assert repr(twin.price) == "left.price"
    assert repr(left) == "tidegate.left"
    assert not hasattr(left, "_repr_html_")
    with pytest.raises(AttributeError, match=r"write left\['_x'\]"):
        _ = left._x


# Built with Arrow, because pandas turns NaN into null. The result has one pair per row, in row
# order: within two seconds, each left row meets the right row at the same position.
LEFT = pa.table(
    {
        "ts": pa.array([0, 10, 20, 30, 40], pa.timestamp("s")),
        "price": [1.0, 2.0, math.nan, 4.0, -0.0],
        "size": [1, 2, None, 4, 0],
        "venue": ["XPAR", "XAMS", None, "it's", "XPAR"],
        "odd name": [True, False, True, False, True],
        "row": [0, 1, 2, 3, 4],
    }
)
RIGHT = pa.table(
    {
        "at": pa.array([1000, 11_000, 21_000, 29_000, 41_000], pa.timestamp("ms")),
        "bid": [1.5, 1.5, math.nan, 4.0, 0.0],
        "lot": pa.array([2, 0, 3, None, 0], pa.uint64()),
        "venue": pa.array(["XPAR", "XPAR", None, "it's", "XAMS"]).dictionary_encode(),
    }
)


def kept(where: Expr | str) -> list[int]:
    """Return which of the five pairs of adjacent rows a join keeps."""
    table = tidegate.interval_join(
        LEFT,
        RIGHT,
        on=("ts", "at"),
        lower=timedelta(seconds=-2),
        upper=timedelta(seconds=2),
        where=where,
    )
    rows: list[int] = table["row"].to_pylist()
    return rows


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (left.price < right.bid, [0]),
        (left.price == right.bid, [3, 4]),
        (left.price != right.bid, [0, 1, 2]),
        (left.price.between(-1, 2), [0, 1, 4]),
        (abs(left.price - right.bid) <= 0.5, [0, 1, 3, 4]),
        (left["size"] < right.lot, [0]),
        (left["size"] - right.lot >= 0, [1, 4]),
        (left["size"].is_null() | right.lot.is_null(), [2, 3]),
        (~(left["size"] > 1), [0, 4]),
        ((right.lot != 0) & (left["size"] / right.lot < 1), [0]),
        (left.venue == right.venue, [0, 3]),
        (left.venue.is_in(["it's", "XAMS"]), [1, 3]),
        (left.venue.like("%A%"), [0, 1, 4]),
        (~left.venue.like("X_A_"), [1, 3]),
        (left.venue.matches("^[a-z']+$"), [3]),
        (right.venue.starts_with("XP"), [0, 1]),
        (left["odd name"], [0, 2, 4]),
        (left["odd name"] & (left.venue == "XPAR"), [0, 4]),
        (left.ts > right.at, [3]),
        (right.at - left.ts > timedelta(0), [0, 1, 2, 4]),
        (left.ts >= datetime(1970, 1, 1, 0, 0, 20), [2, 3, 4]),  # noqa: DTZ001 - naive
        (left.ts + timedelta(seconds=1) == right.at, [0, 1, 2, 4]),
        (left.price == None, []),  # noqa: E711 - SQL's NULL equals nothing
    ],
    ids=repr,
)
def test_join_keeps_the_pairs_that_match(where: Expr, expected: list[int]) -> None:
    assert kept(where) == expected
    assert kept(repr(where)) == expected
    assert kept(pickle.loads(pickle.dumps(where))) == expected


def test_join_without_matches_keeps_what_its_how_keeps() -> None:
    table = tidegate.interval_join(
        LEFT,
        RIGHT,
        on=("ts", "at"),
        lower=timedelta(seconds=-2),
        upper=timedelta(seconds=2),
        where=left.price < right.bid,
        how="left",
    )
    assert table["bid"].to_pylist() == [1.5, None, None, None, None]


@pytest.mark.parametrize(
    ("where", "error", "message"),
    [
        ("left.price <", ValueError, "where `left.price <`: .*Expected: an expression"),
        ("price > 1", ValueError, "has no side; write left.price or right.price"),
        (left.prise > 1, tidegate.SchemaError, "the left table has no column `prise`; it has `ts`"),
        (left.venue > 1, tidegate.SchemaError, "cannot compare `left.venue`"),
        (left.price + 1, tidegate.SchemaError, "expected a condition that is true or false"),
        (
            left.ts > datetime(2024, 1, 1, tzinfo=UTC),
            tidegate.SchemaError,
            "one has a time zone and the other does not",
        ),
        (left["size"] % right.lot == 0, tidegate.TidegateError, "`left.size % right.lot`: Div"),
        (left["size"] * 2**62 > 0, tidegate.TidegateError, r"`left.size \* 4611686018427387904`"),
        (left.venue.matches("(X"), tidegate.TidegateError, "does not compile: unclosed group"),
        (left.price.like("1%"), tidegate.SchemaError, "expected text, but `left.price` is double"),
        ("left.venue LIKE right.venue", ValueError, "the pattern `right.venue` is not supported"),
        ("left.venue LIKE 'a' ESCAPE 'b'", ValueError, "is not supported"),
        (5, TypeError, "expected an expression of tidegate.left and tidegate.right columns"),
    ],
)
def test_join_names_what_is_wrong_with_an_expression(
    where: Expr, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        kept(where)


# Conditions on both tables in which one side of the comparison has two columns of one table.
OF_BOTH = [
    "left.x {0} right.y {1} right.x",
    "left.x {1} right.x {0} right.y",
    "left.x {0} left.y {1} right.x",
    "left.x {0} right.x {1} left.y {0} right.y",
    "coalesce(right.x, left.x) {0} right.y {1} 1",
    "case when right.x {1} left.x then right.y else left.y end {1} 1",
    "round(left.x {0} right.x) {1} right.y",
    "length(right.s) {1} length(left.s)",
    "cast(right.x as double) {0} left.y {1} right.y",
]
EMPTY_JOINS: dict[str, Callable[..., pa.Table]] = {
    "interval_join": lambda one, other, **more: tidegate.interval_join(
        one, other, on="ts", lower=0, upper=1, **more
    ),
    "window_join": lambda one, other, **more: tidegate.window_join(
        one, other, on="ts", window=1, **more
    ),
    "band_join": lambda one, other, **more: tidegate.band_join(
        one, other, on="ts", within=1, **more
    ),
    "overlap_join": lambda one, other, **more: tidegate.overlap_join(
        one, other, on=(("ts", "ts"), ("ts", "ts")), **more
    ),
    "asof_join": lambda one, other, **more: tidegate.asof_join(one, other, on="ts", **more),
}


@grid(kind=[pa.float64(), pa.float32(), pa.int64(), pa.decimal128(9, 2)], join=EMPTY_JOINS)
def test_conditions_are_computed_where_a_side_is_empty(join, kind):
    columns = {"ts": [1, 2], "x": pa.array([1, 2], kind), "y": pa.array([3, 1], kind)}
    rows = pa.table({**columns, "s": ["a", "b"]})
    chunks = {"no chunk": rows.schema.empty_table(), "an empty chunk": rows.slice(0, 0)}
    for form in OF_BOTH:
        for operator in ("+", "-", "*"):
            for comparison in ("<", "<=", "=", "!=", ">"):
                where = form.format(operator, comparison)
                for empty in chunks.values():
                    for how in ("inner", "left"):
                        call = EMPTY_JOINS[join]
                        found = call(rows, empty, where=where, how=how)
                        assert found.num_rows == (2 if how == "left" else 0), where
                        assert call(empty, rows, where=where, how=how).num_rows == 0, where


@pytest.mark.parametrize("where", [form.format("-", "<") for form in OF_BOTH])
def test_streams_compute_conditions_where_no_row_of_a_side_is_kept(where):
    rows = pa.table({"ts": [1, 2], "x": [1.0, 2.0], "y": [3.0, 1.0], "s": ["a", "b"]})
    query = {"on": "ts", "lower": 0, "upper": 1, "where": where}
    counted = {"n": tidegate.agg.count(), "most": tidegate.agg.max("x")}
    for more in ({"how": "left"}, {"aggs": counted}):
        join = tidegate.IntervalJoin(rows.schema, rows.schema, **query, **more)
        one, other = join.sources
        one.push(rows)
        other.advance(50)
        found = list(iter(join.poll, None))
        one.close()
        other.close()
        assert sum(batch.num_rows for batch in [*found, *join]) == 2
