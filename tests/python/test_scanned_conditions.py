"""Comparisons between the sides of a join: pushed to the scan, or evaluated, with equal results.

A condition in a disjunction is evaluated pair by pair, so `(...) OR FALSE` is the condition's own
oracle. `test_expressions.py` tests evaluation separately.
"""

import math
import random
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate
from tidegate import (
    TidegateError,
    WindowJoin,
    interval_join,
    window_join,
    window_join_batches,
)

START = datetime(2024, 1, 1)  # noqa: DTZ001 - naive
FLOATS = st.one_of(
    st.integers(-8, 8).map(lambda n: n / 2),
    st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 0.1, 1e-30, 1e30]),
)
COLUMNS = {
    "i8": (pa.int8(), st.integers(-9, 9) | st.sampled_from([-128, 127])),
    "i32": (pa.int32(), st.integers(-9, 9) | st.sampled_from([-(2**31), 2**31 - 1])),
    "u32": (pa.uint32(), st.integers(0, 9) | st.just(2**32 - 1)),
    "i64": (pa.int64(), st.integers(-9, 9) | st.sampled_from([2**53 + 1, -(2**62), 2**63 - 1])),
    "small": (pa.int64(), st.integers(-9, 9)),
    "f32": (pa.float32(), FLOATS),
    "f64": (pa.float64(), FLOATS),
    "us": (pa.timestamp("us"), st.integers(-3, 3).map(lambda n: START + timedelta(seconds=n))),
    "s": (pa.timestamp("s"), st.integers(-3, 3).map(lambda n: START + timedelta(seconds=n))),
    "day": (pa.date32(), st.integers(-1, 1).map(lambda n: (START + timedelta(days=n)).date())),
    "text": (pa.string(), st.sampled_from(["", "a", "b"])),
}
NUMBERS = ["i8", "i32", "u32", "i64", "small", "f32", "f64"]
TIMES = ["us", "s", "day"]
ORDERS = st.sampled_from(["=", "<", "<=", ">", ">=", "!="])
CONSTANTS = st.sampled_from(["0", "1", "-3", "0.5", "0.1", "9223372036854775807"])


@st.composite
def comparisons(draw: st.DrawFn) -> str:
    """Draw a conjunct, which may or may not have one of the forms that can be pushed."""
    here, there = draw(st.permutations(["left", "right"]))
    a, b = draw(st.sampled_from(NUMBERS)), draw(st.sampled_from(NUMBERS))
    order, c, d = draw(ORDERS), draw(CONSTANTS), draw(CONSTANTS)
    t, u = draw(st.sampled_from(TIMES)), draw(st.sampled_from(TIMES))
    return draw(
        st.sampled_from(
            [
                f"{here}.{a} {order} {there}.{b}",
                f"{here}.{a} + {c} {order} {there}.{b} - {d}",
                f"{here}.{a} - {there}.{b} {order} {c}",
                f"abs({here}.{a} - {there}.{b}) {order} {c}",
                f"{here}.{a} BETWEEN {there}.{b} - {c} AND {there}.{b} + {d}",
                f"{here}.{a} - {there}.{b} BETWEEN -3 AND {c}",
                f"{here}.{a} * 2 {order} {there}.{b} + {here}.{b}",
                f"{here}.{a} + {there}.{b} {order} {c}",
                f"2 * ({here}.{a} + {there}.{b}) - {c} {order} {d}",
                f"{c} - ({here}.{a} / 3 - {there}.{b}) {order} {d}",
                f"({there}.{b} + {here}.{a}) / 2 {order} {c}",
                f"abs({here}.{a} + {there}.{b} - {c}) {order} {d}",
                f"abs({here}.{a} - {there}.{b}) {order} {here}.{b}",
                f"{here}.{a} + {there}.{b} BETWEEN {c} AND {here}.f64",
                f"3 * {here}.{a} - {there}.{b} {order} {there}.small - {here}.{b}",
                f"{here}.{t} - {there}.{u} {order} {here}.{u} - {there}.{t}",
                f"{c} / {here}.small {order} {there}.{b}",
                f"{here}.{t} {order} {there}.{u}",
                f"{here}.{t} - {there}.{u} {order} INTERVAL '1 second'",
                f"{here}.{t} + INTERVAL '2 seconds' {order} {there}.{u}",
                f"{here}.text {order} {there}.text",
                f"{here}.{a} * {there}.{b} {order} {c}",
            ]
        )
    )


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    rows = draw(st.integers(0, 12))
    nulls = draw(st.booleans())

    def column(type_: pa.DataType, values: st.SearchStrategy[object]) -> pa.Array:
        value = st.none() | values if nulls else values
        return pa.array(draw(st.lists(value, min_size=rows, max_size=rows)), type_)

    whole = {name: column(*of) for name, of in COLUMNS.items()}
    table = pa.table(whole).append_column("ts", pa.array(range(rows), pa.int64()))
    cut = draw(st.integers(0, rows))
    return pa.concat_tables([table[:cut], table[cut:]])


def outcome(left: pa.Table, right: pa.Table, where: str, how: str) -> pa.Table | str:
    try:
        return interval_join(
            left, right, on="ts", lower=-9, upper=6, where=where, how=how, threads=2
        )
    except TidegateError as error:
        return type(error).__name__


@given(
    tables(),
    tables(),
    st.lists(comparisons(), min_size=1, max_size=4),
    st.sampled_from(["inner", "left", "full", "semi", "anti"]),
)
def test_oracle_the_evaluated_condition(
    left: pa.Table, right: pa.Table, conjuncts: list[str], how: str
) -> None:
    condition = " AND ".join(conjuncts)
    found = outcome(left, right, condition, how)
    wanted = outcome(left, right, f"({condition}) OR FALSE", how)
    if isinstance(found, str) or isinstance(wanted, str):
        assert found == wanted, condition
    else:
        assert repr(found.to_pylist()) == repr(wanted.to_pylist()), condition


def test_a_number_overflows_also_beside_rows_without_one() -> None:
    left = pa.table({"ts": [0, 1], "x": pa.array([None, None], pa.int8())})
    right = pa.table({"ts": [0], "y": pa.array([2**32 - 1], pa.uint32())})
    condition = "right.y + 9223372036854775807 = left.x"
    for where in (condition, f"({condition}) OR FALSE"):
        assert outcome(left, right, where, "inner") == "TidegateError"


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 63, 64, 1000, 5000])
def test_long_windows_are_scanned_in_parts(rows: int) -> None:
    numbers = pa.array((i * 7919 % 10_000 for i in range(rows)), pa.int32())
    table = pa.table({"ts": range(rows), "x": numbers, "y": numbers.cast(pa.float32())})
    where = "abs(left.x - right.x) <= 2 AND right.y BETWEEN left.y - 1 AND left.y + 1"
    bounds = {"on": "ts", "lower": -4000, "upper": 100}
    wanted = interval_join(table, table, where=f"({where}) OR FALSE", **bounds)
    assert wanted.num_rows >= rows
    for threads in (1, 3):
        assert interval_join(table, table, where=where, threads=threads, **bounds).equals(wanted)


def test_explain_says_what_is_scanned() -> None:
    table = pa.table({"ts": [1], "x": [1], "s": ["a"]})
    plan = {"on": "ts", "lower": 0, "upper": 1}
    where = "left.x < right.x AND left.s = right.s"
    text = tidegate.explain(interval_join, table, table, where=where, **plan)
    assert "  scan       1 of 2 conjuncts, as ranges of numbers, with " in text
    assert "in time order; also in blocks by the value of right.x, if a sample shows that" in text
    where = "left.x + 2 * right.x > 3 AND abs(left.x - right.x) <= left.ts"
    text = tidegate.explain(interval_join, table, table, where=where, **plan)
    assert "  scan       2 of 2 conjuncts, as ranges of numbers, with " in text
    assert "in blocks by the value of 2 * right.x or right.x, if a sample shows that" in text
    text = tidegate.explain(interval_join, table, table, where="left.x > 1", **plan)
    assert "  scan       none: the condition has no conjunct that compares numbers" in text
    assert "in time order; none by value, because no numbers of the two sides are compared" in text


LINEAR = [
    "left.n + right.n > 90000",
    "abs(left.n + right.n - 100000) <= left.m",
    "3 * left.n - 2 * right.n = left.m",
    "left.f + right.f BETWEEN 0.3 AND 0.300005",
    "abs(left.f - right.f) <= left.g / 3e5",
    "right.f + left.f - 2 * left.g > 0.9",
    "(left.n + right.n) / 2 < 1000.5",
]


@pytest.mark.parametrize("where", LINEAR)
def test_linear_forms_are_scanned_in_every_join(where: str) -> None:
    random = np.random.Generator(np.random.PCG64(5))

    def table() -> pa.Table:
        n, m = random.integers(0, 100_000, 2000), random.integers(0, 50, 2000)
        f, g = random.random(2000), random.random(2000)
        return pa.table({"ts": range(2000), "n": n, "m": m, "f": f, "g": g})

    left, right = table(), table()
    evaluated = f"({where}) OR FALSE"
    query = {"on": "ts", "window": 800}
    wanted = window_join(left, right, where=evaluated, **query)
    assert 0 < wanted.num_rows < 1600 * 2000
    for algorithm in ("auto", "scalejoin"):
        found = window_join(left, right, where=where, algorithm=algorithm, threads=2, **query)
        assert found.equals(wanted)
    bounds = {"on": "ts", "lower": -800, "upper": 800}
    assert interval_join(left, right, where=where, **bounds).equals(wanted)
    with window_join_batches(left, right, where=where, **query) as reader:
        assert reader.stats()["where"] != "evaluated on every pair"
    with WindowJoin(left.schema, right.schema, where=where, **query) as join:
        for source, rows in zip(join.sources, (left, right), strict=True):
            source.push(rows)
            source.close()
        streamed = pa.Table.from_batches(list(join), wanted.schema)
    order = [("ts", "ascending"), ("ts_right", "ascending")]
    assert streamed.sort_by(order).equals(wanted.sort_by(order))


@pytest.mark.parametrize("where", ["left.n + right.n > 0", "abs(right.n - left.n) <= left.n"])
def test_a_pair_that_overflows_is_an_error_as_it_is_where_each_is_evaluated(where: str) -> None:
    most = 2**63 - 1

    def table(ts: int, n: int) -> pa.Table:
        return pa.table({"ts": pa.array([ts], pa.int64()), "n": pa.array([n], pa.int64())})

    left, right = table(0, most), table(1, -2 if "abs" in where else 2)
    with pytest.raises(TidegateError, match="verflow"):
        interval_join(left, right, on="ts", lower=0, upper=9, where=where)
    # A pair outside the interval causes no error.
    assert interval_join(left, right, on="ts", lower=5, upper=9, where=where).num_rows == 0
    # With each of the rows alone, the comparison would be pushed.
    with WindowJoin(left.schema, right.schema, on="ts", window=9, where=where) as join:
        join.sources[0].push(left)
        join.sources[1].push(table(0, 0))
        join.sources[0].push(table(1, 0))
        assert join.poll() is not None
        join.sources[1].push(right)
        join.sources[0].push(table(2, 0))
        with pytest.raises(TidegateError, match="verflow"):
            list(iter(join.poll, None))


@pytest.mark.parametrize("how", ["inner", "full", "semi"])
def test_rows_without_a_key_beside_many_keys(how):
    # The rows have no order, and there are more keys than one pass can distinguish.
    rng = random.Random(3)  # noqa: S311 - not for secrets

    def table(rows: int) -> pa.Table:
        keys = [rng.randrange(5000) if at % 7 else None for at in range(rows)]
        times = [rng.randrange(10_000) for _ in range(rows)]
        return pa.table({"ts": times, "k": keys, "n": [rng.randrange(100) for _ in range(rows)]})

    arguments = {"on": "ts", "by": "k", "lower": -2000, "upper": 2000, "how": how, "threads": 2}
    left, right = table(9_000), table(11_000)
    found = interval_join(left, right, **arguments, where="left.n < right.n + 30")
    assert found == interval_join(
        left, right, **arguments, where="(left.n < right.n + 30) OR FALSE"
    )
