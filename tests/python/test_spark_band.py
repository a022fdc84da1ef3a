"""Band joins of Spark DataFrames: the rows of `tidegate.band_join`, each once, however divided."""

import datetime as dt
import math
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

import spark_session
import tidegate
import tidegate.spark
from cases import grid, more
from tidegate.spark.driver import division
from tidegate.spark.layout.balance import Sample, by_time
from tidegate.spark.layout.layout import Reach
from tidegate.spark.plan.join import Plan
from tidegate.spark.query.axis import TimeAxis, of_band
from tidegate.spark.query.query import SparkQuery
from tidegate.spark.worker.pack import LEFT as LEFT_SIDE
from tidegate.spark.worker.pack import RIGHT as RIGHT_SIDE
from tidegate.spark.worker.pack import Packer, unpacked

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def spark():
    return spark_session.start()


def table(seed: int, rows: int, payload: str) -> pa.Table:
    """Create rows; half have one value, a tenth null, and a tenth NaN if the type has it."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 1000, rows)
    values[rng.random(rows) < 0.5] = 500
    floats = values / 8
    floats[rng.random(rows) < 0.1] = math.nan
    lacking = rng.random(rows) < 0.1
    cents = [Decimal(int(value)) / 100 for value in values]
    return pa.table(
        {
            "x": pa.array(values, pa.int32(), mask=lacking),
            "y": pa.array(floats, mask=lacking),
            "price": pa.array(cents, pa.decimal128(9, 2)),
            "at": pa.array(values * 1_000_000, pa.timestamp("us", "UTC")),
            "key": pa.array(rng.integers(0, 4, rows), mask=rng.random(rows) < 0.1),
            payload: pa.array(range(rows), pa.int64()),
        }
    )


LEFT, RIGHT = table(1, 150, "l"), table(2, 120, "r")


@pytest.fixture(scope="module")
def sides(spark):
    return tuple(spark.createDataFrame(t).repartition(3).cache() for t in (LEFT, RIGHT))


def counted(rows: pa.Table) -> Counter[str]:
    """Count equal rows, regardless of their order."""
    return Counter(map(repr, rows.to_pylist()))


def same(found: Any, left: pa.Table = LEFT, right: pa.Table = RIGHT, **arguments: Any) -> None:
    """Assert that the DataFrame has the native join's columns and rows."""
    expected = tidegate.band_join(left, right, **arguments)
    rows = found.toArrow()
    assert rows.column_names == expected.column_names
    assert counted(rows) == counted(expected)


def test_the_sides_test_something():
    pairs = tidegate.band_join(LEFT, RIGHT, on="x", within=3)
    assert 2_000 < pairs.num_rows < 12_000
    full = tidegate.band_join(LEFT, RIGHT, on="x", within=3, how="full")
    assert full["l"].null_count > 5
    assert full["r"].null_count > 5


@grid(how=["inner", "right", "semi", *more("left", "full", "anti")], partitions=[1, 4, 9])
def test_rows_are_those_of_the_native_join(sides, how, partitions):
    query = {"on": "x", "within": (3, 1), "how": how}
    found = tidegate.spark.band_join(
        *sides, **query, parallelism="value", partitions=partitions, columns=None
    )
    same(found, **query)


@pytest.mark.parametrize("how", ["right", *more("full", "inner", "left", "semi", "anti")])
def test_a_small_side_is_sent_whole(sides, how):
    query = {"on": "y", "within": 0.5, "how": how}
    # The size of decimals is not known in advance.
    query["columns"] = ["y", "l"] if how in ("semi", "anti") else ["y", "l", "y_right", "r"]
    plan = tidegate.spark.explain(tidegate.spark.band_join, *sides, **query)
    assert ("is sent in full to every task" in plan) == (how != "full")
    same(tidegate.spark.band_join(*sides, **query), **query)


@grid(parallelism=["key", "hybrid", *more("value")], how=["inner", "full", *more("anti")])
def test_with_keys_and_two_columns(sides, how, parallelism):
    query = {"on": ["y", "x"], "within": {"x": 100, "y": (None, 2.5)}, "by": "key", "how": how}
    query |= {"where": "left.l <= right.r + 90"}
    found = tidegate.spark.band_join(*sides, **query, parallelism=parallelism, partitions=4)
    same(found, **query)


@grid(parallelism=["hybrid", *more("value", "auto")], how=["anti", *more("full", "inner")])
def test_within_windows_of_time(sides, how, parallelism):
    query = {"on": "y", "within": 20, "by": "key", "time": "at", "window": ("40s", "90s")}
    query |= {"how": how}
    found = tidegate.spark.band_join(*sides, **query, parallelism=parallelism, partitions=4)
    same(found, **query)
    without = {**query, "time": None, "window": None}
    assert counted(tidegate.band_join(LEFT, RIGHT, **without)) != counted(found.toArrow())


@pytest.mark.parametrize(
    ("on", "within"),
    [
        ("price", Decimal("0.025")),
        ("at", "3s"),
        ([("x", "y")], 0.3),
        ("y", (math.inf, 0)),
        ("x", 2**70),
        *more(
            ("at", (dt.timedelta(0), dt.timedelta(seconds=2))),
            ([("price", "x")], 1),
            ("y", 1e-300),
            ("x", 2.99),
            ("price", 0.1),
            ("at", np.timedelta64(2500, "ms")),
            ("y", 0),
        ),
    ],
)
def test_types_and_distances(sides, on, within):
    query = {"on": on, "within": within, "how": "full", "columns": ["l", "r"]}
    found = tidegate.spark.band_join(*sides, **query, parallelism="value", partitions=5)
    same(found, **query)


@pytest.mark.parametrize("how", ["left", *more("inner", "right", "semi", "anti")])
def test_a_value_with_half_of_the_rows_makes_no_task(spark, monkeypatch, how):
    monkeypatch.setattr(division, "FRACTION", 1.0)
    rng = np.random.default_rng(5)
    rows = 2_000
    heavy = rng.integers(0, 10**6, rows)
    heavy[rng.random(rows) < 0.5] = 77_777
    many = pa.table({"x": heavy, "m": np.arange(rows)})
    few = pa.table({"x": rng.integers(0, 10**6, rows // 10), "f": np.arange(rows // 10)})
    tables = (few, many) if how == "right" else (many, few)
    frames = [spark.createDataFrame(table) for table in tables]
    query = {"on": "x", "within": 200, "how": how}
    plan = Plan.of(*frames, SparkQuery.of("band_join", query), partitions=8, parallelism="value")
    layout = division.of_join(plan)
    assert layout.has_pieces
    assert layout.fullest <= 1.5 * layout.sent / layout.partitions
    found = tidegate.spark.band_join(*frames, **query, partitions=8, parallelism="value")
    found = found.withColumn("task", F.spark_partition_id()).toArrow()
    assert counted(found.drop_columns("task")) == counted(tidegate.band_join(*tables, **query))
    # The tasks also divide the work: none joins half of the rows.
    counts = found["task"].value_counts().field("counts").to_pylist() if how == "left" else []
    assert all(count < rows * 0.3 for count in counts)
    text = tidegate.spark.explain(
        tidegate.spark.band_join, *frames, **query, partitions=8, parallelism="value"
    )
    assert "  divided    by value: " in text
    assert "heavy ones divided by row into " in text


def test_rows_without_a_value_are_spread(spark):
    rows = 1_000
    lacking = pa.table({"x": pa.array([None] * rows, pa.int64()), "l": np.arange(rows)})
    other = pa.table({"x": np.arange(500), "r": np.arange(500)})
    frames = [spark.createDataFrame(t) for t in (lacking, other)]
    query = {"on": "x", "within": 1, "how": "left"}
    found = tidegate.spark.band_join(*frames, **query, partitions=4, parallelism="value")
    rows_of_tasks = found.withColumn("task", F.spark_partition_id()).toArrow()
    expected = tidegate.band_join(lacking, other, **query)
    assert counted(rows_of_tasks.drop_columns("task")) == counted(expected)
    counts = rows_of_tasks["task"].value_counts().field("counts").to_pylist()
    assert max(counts) < 0.5 * rows


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"within": -1}, tidegate.TidegateError, "within must not be negative or NaN"),
        ({"on": "l"}, tidegate.SchemaError, "right: there is no column `l`, which `on` names"),
        ({"on": ("x", "y")}, TypeError, 'give ["x", "y"] for two columns'),
        ({"on": []}, tidegate.TidegateError, "on is empty; a band join needs"),
        (
            {"parallelism": "time"},
            tidegate.TidegateError,
            "parallelism: expected one of auto, broadcast, files, key, value, hybrid, got 'time'",
        ),
        (
            {"parallelism": "hybrid"},
            tidegate.TidegateError,
            "divides rows by key; give `by`, or choose 'value'",
        ),
    ],
)
def test_bad_arguments(sides, arguments, error, text):
    with pytest.raises(error) as caught:
        tidegate.spark.band_join(*sides, **{"on": "x", "within": 1, **arguments})
    assert text in str(caught.value)


floats = st.one_of(
    st.floats(-10, 10), st.floats(allow_nan=False), st.sampled_from([0.0, -0.0, 1e300, -1e300])
)
widths = st.one_of(st.none(), st.floats(0, 5), st.floats(0, allow_nan=False))


@example(0.0, 0.0, None, 5e-324)
@given(floats, floats, widths, widths)
def test_no_float_pair_is_out_of_reach(left, right, below, above):
    if below is None and above is None:
        return
    axis, reach = of_band((pa.float64(), pa.float64()), None if below is None else -below, above)
    low, high = (axis.integers(pa.array([value]))[0] for value in (left, right))
    is_pair = (below is None or left - right <= below) and (above is None or right - left <= above)
    if is_pair:
        gap = int(high) - int(low)
        assert reach.lower is None or gap >= reach.lower
        assert reach.upper is None or gap <= reach.upper


@given(st.lists(floats, min_size=2, max_size=9), widths)
def test_floats_keep_their_order(values, below):
    axis, _ = of_band((pa.float64(), pa.float64()), None if below is None else -below, 1.0)
    steps = axis.integers(pa.chunked_array([pa.array(sorted(values), pa.float64())]))
    assert steps.tolist() == sorted(steps.tolist())


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=40),
    st.lists(st.integers(0, 5), max_size=40),
    st.sampled_from([0, 1, 2, 6]),
    st.integers(1, 9),
    st.sampled_from(["left", "right"]),
)
def test_every_pair_meets_once_where_slices_have_pieces(left, right, width, count, copied):
    sides = [np.array(rows, dtype=np.int64) for rows in (left, right)]
    hashes = [np.arange(len(rows)) * 7919 for rows in sides]
    sample = Sample(np.zeros_like(sides[0]), sides[0], np.zeros_like(sides[1]), sides[1], 1.0)
    layout = by_time(sample, count, copied, Reach.of(-width, width))
    (bucket,) = layout.buckets
    assert len(bucket.partitions) >= len(bucket.borders) + 1

    def sent(side: int) -> list[list[int]]:
        """Return the partitions to which each row is sent."""
        names = ("key", "number", "bucket", "hash")
        number = range(len(sides[side]))
        bucket = np.zeros(len(sides[side]), np.int32)
        rows = pa.table([sides[side], number, bucket, hashes[side]], names=names)
        found: list[list[int]] = [[] for _ in number]
        packer = Packer(layout, side, 0, TimeAxis(days=False), extra=2)
        for packs in packer.run(iter(rows.to_batches())):
            for pack in unpacked(packs):
                for row in pack.rows["number"].to_pylist():
                    found[row].append(pack.partition)
        return found

    of_left, of_right = sent(LEFT_SIDE), sent(RIGHT_SIDE)
    for l_time, l_places in zip(left, of_left, strict=True):
        for r_time, r_places in zip(right, of_right, strict=True):
            if abs(l_time - r_time) <= width:
                assert sum(place in r_places for place in l_places) == 1
