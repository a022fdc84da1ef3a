"""Aggregates of partners on Spark: the rows of the native join, however the rows were divided.

Rows are compared as strings, so that floats are equal to the last bit, and -0.0 differs from 0.0.
"""

import datetime as dt
from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import DateType, DecimalType, DoubleType, LongType, StringType, TimestampType

import campaign
import spark_session
import tidegate
import tidegate.spark
from cases import grid, more, of_campaigns
from tidegate import SchemaError, TidegateError, agg
from tidegate.spark.driver import division, whole
from tidegate.spark.plan.join import Plan
from tidegate.spark.query.axis import TimeAxis
from tidegate.spark.query.query import SparkQuery
from tidegate.spark.stream import join as stream_join
from tidegate.spark.worker.order import Order, by_value

pytestmark = pytest.mark.filterwarnings("ignore")

ROWS = 400
SECOND = 1_000_000


@pytest.fixture(scope="module")
def spark():
    return spark_session.start()


@pytest.fixture(autouse=True)
def whole_sample(monkeypatch):
    """Include all rows in the sample, so that few rows are divided like many."""
    monkeypatch.setattr(division, "FRACTION", 1.0)


@pytest.fixture
def large(monkeypatch):
    """Treat no side as small enough to be sent in full."""
    monkeypatch.setattr(whole, "LIMIT", 0)
    monkeypatch.setattr(whole, "_SURE", 0)


def events(seed: int) -> pa.Table:
    """Create rows, half with one key and a tenth without. Times are unique, without ties."""
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 6, ROWS)
    keys[rng.random(ROWS) < 0.5] = 1
    seconds = rng.permutation(8 * ROWS)[:ROWS]
    ints = rng.integers(-9, 100, ROWS)
    floats = rng.standard_normal(ROWS) * 10.0 ** rng.integers(-9, 9, ROWS)
    return pa.table(
        {
            "key": pa.array(keys, mask=rng.random(ROWS) < 0.1),
            "ts": pa.array(seconds * SECOND, pa.timestamp("us", "UTC")),
            "x": pa.array(ints, mask=rng.random(ROWS) < 0.2),
            "v": pa.array(floats, mask=rng.random(ROWS) < 0.1),
            "y": pa.array(rng.random(ROWS) * 100),
            "price": pa.array([Decimal(int(x)) / 100 for x in ints], pa.decimal128(10, 2)),
            "day": pa.array([dt.date(2026, 1, 1 + abs(int(x)) % 28) for x in ints]),
            "flag": pa.array(ints % 3 == 0, mask=rng.random(ROWS) < 0.1),
            "name": pa.array([f"name{x}" if x % 5 else None for x in ints.tolist()]),
        }
    )


LEFT, RIGHT = events(1), events(2)


def _largest() -> Callable[[pa.ListArray, pa.ListArray], pa.Array]:
    """Return a user function that is pickled by value, as workers cannot import this file."""

    def largest(v: pa.ListArray, y: pa.ListArray) -> pa.Array:
        both = zip(v.to_pylist(), y.to_pylist(), strict=True)
        return pa.array([max(filter(None, [*v, *y]), default=None) for v, y in both], pa.float32())

    return largest


AGGS = {
    "n": agg.count(),
    "n_x": agg.count("x"),
    "n_high": agg.count(where="row.x > 40"),
    "sum_x": agg.sum("x"),
    "sum_v": agg.sum("v"),
    "sum_price": agg.sum("price"),
    "mean_x": agg.mean("x"),
    "mean_v": agg.mean("v", where=tidegate.row.x > 20),
    "var_v": agg.var("v"),
    "std_x": agg.std("x"),
    "weighted_v": agg.weighted_mean("v", "y"),
    "product_y": agg.product("y"),
    "any_flag": agg.any("flag"),
    "all_flags": agg.all("flag"),
    "min_v": agg.min("v"),
    "max_price": agg.max("price"),
    "min_day": agg.min("day"),
    "max_ts": agg.max("ts"),
    "min_name": agg.min("name"),
    "first_name": agg.first("name"),
    "first_ts": agg.first("ts"),
    "last_price": agg.last("price"),
    "last_day": agg.last("day", where="row.x IS NOT NULL"),
    "median_v": agg.median("v"),
    "p90_price": agg.quantile("price", 0.9),
    "names": agg.count_distinct("name"),
    "all_days": agg.collect("day"),
    "cheapest": agg.arg_min("name", "price"),
    "covar": agg.covar("v", "y"),
    "corr": agg.corr("v", "y"),
    "largest": agg.udf(_largest(), ["v", "y"], pa.float32()),
}


@pytest.fixture(scope="module")
def sides(spark):
    """Return both tables, each in more Spark partitions than there are cores."""
    return tuple(spark.createDataFrame(t).repartition(3, "x").cache() for t in (LEFT, RIGHT))


def rows_of(table: pa.Table) -> list[str]:
    """Return the rows as strings, sorted."""
    return sorted(map(repr, table.to_pylist()))


def same(frame, expected: pa.Table) -> pa.Table:
    """Assert that the DataFrame has these columns, types and rows."""
    found = frame.toArrow()
    assert found.schema.names == expected.schema.names
    assert found.schema.types == expected.schema.types
    assert rows_of(found) == rows_of(expected)
    return found


NEAR = {"on": "ts", "by": "key", "lower": "-30s", "upper": "10s", "aggs": AGGS}

# Functions whose intervals differ from that of the call.
OWN = {
    "n_60": agg.count(lower="-60s"),
    "last_60": agg.last("name", lower="-60s", upper="0s", closed="left"),
    "sum_later": agg.sum("y", lower="5s", upper="40s"),
}


def test_the_sides_test_something():
    found = tidegate.interval_join(LEFT, RIGHT, **NEAR)
    assert found["n"].to_pylist().count(0) > 20
    assert max(found["n"].to_pylist()) > 3
    assert LEFT["key"].null_count > 10


@pytest.mark.parametrize(
    ("parallelism", "how", "where"),
    [
        ("broadcast", "inner", "left.x > right.x"),
        ("time", "left", "left.x > right.x"),
        ("hybrid", "left", None),
        *more(
            ("auto", "left", None),
            ("key", "left", "right.x > 10"),
            ("time", "inner", "right.x > 10 and left.x > 10"),
            ("broadcast", "left", None),
            ("broadcast", "inner", "right.x > 10"),
            ("key", "inner", None),
            ("hybrid", "inner", "right.x > 10"),
        ),
    ],
)
def test_interval_joins(sides, how, parallelism, where):
    query = {**NEAR, "how": how, "where": where, "aggs": {**AGGS, **OWN}}
    found = tidegate.spark.interval_join(*sides, **query, parallelism=parallelism, partitions=4)
    same(found, tidegate.interval_join(LEFT, RIGHT, **query))


@pytest.mark.parametrize(
    ("parallelism", "how"), [("time", None), *more(("broadcast", "inner"), ("auto", "left"))]
)
def test_without_keys(sides, parallelism, how):
    query = {**NEAR, "by": None, "how": how, "closed": "left", "aggs": {**AGGS, **OWN}}
    found = tidegate.spark.interval_join(*sides, **query, parallelism=parallelism, partitions=4)
    same(found, tidegate.interval_join(LEFT, RIGHT, **query))


# `test_heavy_keys_are_cut_by_time` and other tests have sides that are shuffled.
@of_campaigns
@pytest.mark.parametrize("by", ["key", None])
def test_large_sides_are_shuffled(sides, large, by):
    query = {**NEAR, "by": by}
    text = tidegate.spark.explain(tidegate.spark.interval_join, *sides, **query)
    assert "sent in full" not in text
    found = tidegate.spark.interval_join(*sides, **query, partitions=3)
    same(found, tidegate.interval_join(LEFT, RIGHT, **query))


@pytest.mark.parametrize(
    ("parallelism", "by"),
    [
        ("hybrid", "key"),
        *more(("time", None), ("broadcast", "key"), ("key", "key"), ("time", "key")),
    ],
)
def test_rows_that_prevail_may_be_any_time_before(sides, parallelism, by):
    query = {**NEAR, "lower": "-2s", "upper": "-1s", "by": by, "prevailing": True}
    query["where"] = "right.x > 10"
    found = tidegate.spark.interval_join(*sides, **query, parallelism=parallelism, partitions=4)
    same(found, tidegate.interval_join(LEFT, RIGHT, **query))


@pytest.mark.parametrize("parallelism", ["broadcast", "time"])
def test_a_row_that_prevails_is_far_from_all_left_rows(spark, parallelism):
    tables = pa.table({"ts": [1_000]}), pa.table({"ts": [3, 7, 1_500]})
    frames = [spark.createDataFrame(table) for table in tables]
    query = {"on": "ts", "lower": -2, "upper": 0, "prevailing": True}
    query["aggs"] = {"n": agg.count(), "last": agg.last("ts")}
    found = tidegate.spark.interval_join(*frames, **query, parallelism=parallelism)
    assert found.toArrow().to_pylist() == [{"ts": 1_000, "n": 1, "last": 7}]


# `test_spark_partials` tests unbounded joins, whose right rows are combined before they are sent.
@of_campaigns
@pytest.mark.parametrize(
    ("lower", "upper", "how"),
    [("40m", None, "inner"), (None, None, "left"), (None, "-40m", "left")],
)
def test_without_bounds(sides, lower, upper, how):
    query = {**NEAR, "lower": lower, "upper": upper, "how": how}
    found = tidegate.spark.interval_join(*sides, **query, parallelism="time", partitions=3)
    same(found, tidegate.interval_join(LEFT, RIGHT, **query))


@pytest.mark.parametrize(("parallelism", "how"), [("key", "inner"), *more(("time", "left"))])
def test_window_joins(sides, parallelism, how):
    query = {"on": "ts", "window": ("9s", "30s"), "by": "key", "how": how, "aggs": AGGS}
    found = tidegate.spark.window_join(*sides, **query, parallelism=parallelism, partitions=4)
    same(found, tidegate.window_join(LEFT, RIGHT, **query))


# Functions receive the partners of a band in row order, which on Spark is by the band column.
BY_VALUE = RIGHT.sort_by("y")

BANDS = {
    "a band": {"on": "y", "within": 0.8},
    "a band and keys": {"on": "y", "within": (2.5, 0.5), "by": "key"},
    "two bands": {"on": ["y", "price"], "within": [4, 0.2]},
    "a band in a window": {
        "on": "y",
        "within": 9.0,
        "by": "key",
        "time": "ts",
        "window": "5m",
        "where": "right.x > 5",
    },
}


@pytest.mark.parametrize(
    ("band", "parallelism", "how"),
    [
        ("two bands", "value", "left"),
        ("a band in a window", "broadcast", "inner"),
        *more(
            ("a band and keys", "hybrid", "inner"),
            ("a band", "value", "inner"),
            ("a band", "broadcast", "left"),
            ("a band and keys", "key", "left"),
            ("a band in a window", "value", "left"),
        ),
    ],
)
def test_band_joins(sides, band, parallelism, how):
    query = {**BANDS[band], "aggs": AGGS}
    found = tidegate.spark.band_join(
        *sides, **query, how=how, parallelism=parallelism, partitions=4
    )
    expected = tidegate.band_join(LEFT, BY_VALUE, **query, how=how)
    assert same(found, expected).num_rows > 100


def skewed(seed: int, rows: int) -> pa.Table:
    """Create rows, nearly all with one key."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "key": np.where(rng.random(rows) < 0.9, 3, rng.integers(0, 50, rows)),
            "ts": rng.permutation(4 * rows)[:rows],
            "v": rng.standard_normal(rows),
        }
    )


@pytest.mark.parametrize(("parallelism", "how"), [("hybrid", "left"), *more(("time", "inner"))])
def test_heavy_keys_are_cut_by_time(spark, parallelism, how):
    # A join of pairs would copy the left rows, which are fewer.
    tables = skewed(3, 500), skewed(4, 3_000)
    frames = [spark.createDataFrame(table).repartition(3) for table in tables]
    functions = {"n": agg.count(), "sum": agg.sum("v"), "last": agg.last("v")}
    query = {"on": "ts", "by": "key", "lower": -200, "upper": 300, "how": how, "aggs": functions}
    plan = Plan.of(
        *frames, SparkQuery.of("interval_join", query), partitions=4, parallelism=parallelism
    )
    layout = division.of_join(plan)
    assert layout.is_cut
    assert layout.copied == "right"
    assert layout.sent > layout.rows, "no copies"
    found = tidegate.spark.interval_join(*frames, **query, partitions=4, parallelism=parallelism)
    same(found, tidegate.interval_join(*tables, **query))


def test_heavy_values_are_cut_into_pieces(spark):
    """Each left row is in one piece, and every piece has all right rows once."""
    rng = np.random.default_rng(5)
    values = np.where(rng.random(2_000) < 0.9, 1, rng.integers(0, 5, 2_000))
    left = pa.table({"y": values, "row": range(2_000)})
    right = pa.table({"y": np.arange(60) % 5, "v": rng.standard_normal(60)})
    frames = [spark.createDataFrame(table).repartition(3) for table in (left, right)]
    query = {"on": "y", "within": 1, "aggs": {"n": agg.count(), "sum": agg.sum("v")}}
    plan = Plan.of(*frames, SparkQuery.of("band_join", query), partitions=4, parallelism="value")
    assert division.of_join(plan).has_pieces
    found = tidegate.spark.band_join(*frames, **query, parallelism="value", partitions=4)
    in_order = right.sort_by([("y", "ascending"), ("v", "ascending")])
    same(found, tidegate.band_join(left, in_order, **query))


def tied() -> tuple[pa.Table, pa.Table]:
    """Create right rows, many with equal times. Sums of `v` depend on the order."""
    rng = np.random.default_rng(6)
    left = pa.table({"key": rng.integers(0, 3, 200), "ts": rng.integers(0, 50, 200)})
    values = rng.standard_normal(600) * 10.0 ** rng.integers(-9, 9, 600)
    values = np.where(rng.random(600) < 0.3, np.where(rng.random(600) < 0.5, 0.0, -0.0), values)
    right = pa.table(
        {
            "name": pa.array([None if n % 7 == 0 else "n" * (n % 3) for n in range(600)]),
            "key": rng.integers(0, 3, 600),
            "v": pa.array(values, mask=rng.random(600) < 0.1),
            "ts": rng.integers(0, 50, 600),
            "list": [[n] for n in range(600)],
        }
    )
    return left, right


TIES = {
    "first": agg.first("v"),
    "last": agg.last("name"),
    "sum": agg.sum("v"),
    "mean": agg.mean("v"),
    "std": agg.std("v"),
    "weighted": agg.weighted_mean("v", "v"),
    "product": agg.product("v"),
}


@pytest.mark.parametrize(
    ("parallelism", "prevailing"),
    [
        ("broadcast", True),
        ("time", False),
        *more(("hybrid", True), ("broadcast", False), ("key", True)),
    ],
)
def test_ties_are_decided_by_values(spark, parallelism, prevailing):
    left, right = tied()
    query = {"on": "ts", "by": "key", "lower": -1, "upper": 2, "prevailing": prevailing}
    query["aggs"] = TIES
    found = []
    for seed in range(campaign.tries(1)):
        order = np.random.default_rng(seed).permutation(right.num_rows)
        frame = spark.createDataFrame(right.take(order)).repartition(2 + seed)
        found.append(
            tidegate.spark.interval_join(
                spark.createDataFrame(left),
                frame,
                **query,
                parallelism=parallelism,
                partitions=3,
            )
        )
    # In Arrow, -0.0 equals 0.0.
    signed = pa.array(np.signbit(right["v"].fill_null(0).to_numpy()))
    by = [("ts", "ascending"), ("name", "ascending"), ("key", "ascending"), ("v", "ascending")]
    ordered = right.append_column("sign", signed).sort_by([*by, ("sign", "descending")])
    expected = tidegate.interval_join(left, ordered.drop_columns("sign"), **query)
    shuffled = tidegate.interval_join(left, right, **query)
    assert rows_of(shuffled) != rows_of(expected), "the result does not depend on the order"
    for frame in found:
        same(frame, expected)


def test_the_order_matters_to_some_functions_only(sides):
    def order(by: str | None = "key", *, prevailing: bool = False, **functions: agg.Aggregate):
        arguments = {"on": "ts", "by": by, "lower": "-1us", "upper": 0, "aggs": functions}
        query = SparkQuery.of("interval_join", {**arguments, "prevailing": prevailing})
        return Plan.of(*sides, query).order

    none = {
        "n": agg.count("v"),
        "sum": agg.sum("x"),
        "mean": agg.mean("price"),
        "min": agg.min("v"),
    }
    assert order(**none) is None
    assert order(**none, prevailing=True) is not None
    for one in (agg.first("x"), agg.last("x"), agg.var("x"), agg.std("x")):
        assert order(one=one) is not None
    for one in (agg.sum("v"), agg.mean("v")):
        assert order(one=one) == Order("ts", TimeAxis(days=False), by_number=False)


def test_rows_are_put_in_order_where_times_are_tied():
    times = pa.array([2, 1, 1, 1, 1, 3])
    floats = pa.array([7.0, None, 0.0, -0.0, float("nan"), -1.0])
    lists = pa.array([[n] for n in range(6)])
    rows = pa.table({"v": floats, "ts": times, "list": lists, "row": range(6)})
    found = by_value(rows, "ts", times.to_numpy())
    assert found["row"].to_pylist() == [3, 2, 4, 1, 0, 5]
    negative = rows.set_column(0, "v", pa.array([-1.0, -2.0, -1.5, float("-inf"), -0.0, 1.0]))
    assert by_value(negative, "ts", times.to_numpy())["row"].to_pylist() == [3, 1, 2, 4, 0, 5]
    # Without ties, the native join puts rows in time order, unless they are in row order.
    untied = rows.take([0, 1, 5])
    axis = TimeAxis(days=False)
    assert Order("ts", axis, by_number=False).put(untied) is untied
    assert Order("ts", axis, by_number=True).put(untied)["row"].to_pylist() == [1, 0, 5]
    sorted_rows = rows.take([1, 0, 5])
    assert Order("ts", axis, by_number=True).put(sorted_rows) is sorted_rows


def test_a_band_without_ties_comes_by_value(spark):
    left = pa.table({"y": [10.0]})
    right = pa.table({"y": [11.0, 9.0, 10.0], "name": ["a", "b", "c"]})
    frames = [spark.createDataFrame(table) for table in (left, right)]
    query = {"on": "y", "within": 1, "aggs": {"first": agg.first("name"), "last": agg.last("name")}}
    for parallelism in ("value", *more("broadcast")):
        found = tidegate.spark.band_join(*frames, **query, parallelism=parallelism)
        assert found.toArrow().to_pylist() == [{"y": 10.0, "first": "b", "last": "a"}]


@grid(empty=["right", *more("left", "both")], parallelism=["hybrid", *more("broadcast")])
def test_empty_sides(spark, sides, empty, parallelism):
    frames = [
        side.where("x > 1000") if empty in (name, "both") else side
        for name, side in zip(("left", "right"), sides, strict=True)
    ]
    tables = [
        table.slice(0, 0) if empty in (name, "both") else table
        for name, table in zip(("left", "right"), (LEFT, RIGHT), strict=True)
    ]
    found = tidegate.spark.interval_join(*frames, **NEAR, parallelism=parallelism)
    same(found, tidegate.interval_join(*tables, **NEAR))


def test_types_are_those_of_the_columns(sides):
    fields = tidegate.spark.interval_join(*sides, **NEAR).schema
    assert fields.names == [*LEFT.column_names, *AGGS]
    expected = {
        "n": LongType(),
        "sum_x": LongType(),
        "sum_v": DoubleType(),
        "sum_price": DecimalType(38, 2),
        "mean_x": DoubleType(),
        "max_price": DecimalType(10, 2),
        "min_day": DateType(),
        "max_ts": TimestampType(),
        "first_name": StringType(),
    }
    assert {name: fields[name].dataType for name in expected} == expected
    assert not fields["n"].nullable
    assert fields["first_ts"].nullable


@pytest.mark.parametrize("parallelism", ["key", *more("broadcast")])
def test_columns_are_of_the_left_side(sides, parallelism):
    """The result does not contain the key, so an aggregate may have its name."""
    functions = {"key": agg.count(), "ts_right": agg.max("ts")}
    query = {**NEAR, "aggs": functions, "columns": ["name", "ts"]}
    assert "by key" in tidegate.spark.explain(
        tidegate.spark.interval_join, *sides, **query, parallelism="key"
    )
    found = tidegate.spark.interval_join(*sides, **query, parallelism=parallelism)
    same(found, tidegate.interval_join(LEFT, RIGHT, **query))


def test_a_result_may_have_aggregates_only(sides):
    query = {**NEAR, "columns": []}
    found = tidegate.spark.interval_join(*sides, **query, parallelism="key")
    same(found, tidegate.interval_join(LEFT, RIGHT, **query))


def test_only_the_columns_that_are_read_travel(sides):
    functions = {"v": agg.sum("v", where="row.x > 3")}
    query = {**NEAR, "aggs": functions, "columns": ["name"], "where": "left.y > 50"}
    del query["on"], query["lower"], query["upper"]
    text = tidegate.spark.explain(tidegate.spark.window_join, *sides, **query, on="ts", window="5s")
    assert "sent       left key, ts, y, name; right key, ts, x, v" in text


def test_then_sees_the_aggregates(sides):
    def counted(batch: pa.RecordBatch) -> pa.Table:
        return pa.table(batch).group_by([]).aggregate([("n", "sum")]).rename_columns(["n"])

    found = tidegate.spark.interval_join(
        *sides, **NEAR, parallelism="key", then=counted, then_schema="n bigint"
    )
    expected = tidegate.interval_join(LEFT, RIGHT, **NEAR)
    assert sum(found.toArrow()["n"].to_pylist()) == sum(expected["n"].to_pylist())


def test_explain_tells_what_becomes_of_partners(sides):
    query = {**NEAR, "aggs": {"n": agg.count(), "all": agg.sum("v")}}
    text = tidegate.spark.explain(
        tidegate.spark.interval_join, *sides, **query, how="inner", prevailing=True
    )
    assert "interval_join (inner), aggregates of partners" in text
    assert "n = count(), all = sum(v)" in text
    assert "prevailing" in text
    assert "right rows with equal times are ordered by value, starting with ts" in text
    counts = {**query, "aggs": {"n": agg.count()}}
    text = tidegate.spark.explain(tidegate.spark.interval_join, *sides, **counts)
    assert "no result depends on the order of right rows" in text
    text = tidegate.spark.explain(
        tidegate.spark.band_join, *sides, on="y", within=1, aggs=query["aggs"]
    )
    assert "right rows are ordered by value, starting with y" in text


def test_the_left_side_is_never_sent_whole(sides):
    few = sides[0].limit(3)
    for how in ("left", *more("inner")):
        text = tidegate.spark.explain(
            tidegate.spark.interval_join, few, sides[1], **NEAR, how=how, parallelism="broadcast"
        )
        assert "right is sent in full" in text


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"how": "full"}, TidegateError, 'give "left" for all of them'),
        ({"how": "semi"}, TidegateError, 'got "semi"'),
        ({"columns": ["n"]}, SchemaError, "the result has no column `n`"),
        ({"columns": "ts"}, TypeError, "expected a list of column names"),
        ({"aggs": {"ts": agg.count()}}, SchemaError, "two columns `ts`"),
        ({"aggs": {}}, TidegateError, "at least one function"),
        ({"aggs": {"a": agg.sum("name")}}, SchemaError, "sum of column `name`.*expected numbers"),
        ({"aggs": {"a": agg.sum("nope")}}, SchemaError, "right: there is no column `nope`"),
        ({"aggs": ["n"]}, TypeError, "expected a mapping"),
        ({"aggs": None, "prevailing": True}, TidegateError, "give aggs"),
        ({"lower": None, "prevailing": True}, TidegateError, "without a lower bound"),
        ({"late_as": "late"}, TidegateError, "leave it out"),
    ],
)
def test_refusals_say_what_to_write(sides, changed, error, words):
    with pytest.raises(error, match=words):
        tidegate.spark.interval_join(*sides, **(NEAR | changed))


def test_joins_of_pairs_have_the_arguments_that_they_had(sides):
    """These arguments identify the query when a stream is restarted."""
    arguments = {"on": "ts", "lower": "-1us", "upper": 0, "how": None, "closed": "both"}
    query = SparkQuery.of("interval_join", {**arguments, "aggs": None, "prevailing": False})
    plan = Plan.of(*sides, query)
    known = stream_join._arguments(plan.query.native, plan)
    assert known.pop("columns") is None
    assert (known.pop("suffix"), known.pop("where")) == ("_right", None)
    assert known == {**arguments, "on": ("ts", "ts"), "by": None, "how": "inner"}


def test_joins_of_windows_have_the_arguments_that_they_had(sides):
    """They are now interval joins, and a restarted stream identifies them as such."""
    plan = Plan.of(*sides, SparkQuery.of("window_join", {"on": "ts", "window": "1us"}))
    known = stream_join._arguments(plan.query.native, plan)
    assert known.keys() == {"on", "lower", "upper", "by", "where", "how", "suffix", "columns"}
