"""Window joins of Spark DataFrames: the rows of `tidegate.window_join`, however divided."""

import datetime as dt
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import spark_session
import tidegate
import tidegate.spark
from cases import grid, more

pytestmark = pytest.mark.filterwarnings("ignore")

NEAR = "abs(left.x - right.x) <= 3"


@pytest.fixture(scope="module")
def spark():
    return spark_session.start()


def table(seed: int, rows: int, payload: str) -> pa.Table:
    """Create rows with few different times, a third of them at one time."""
    rng = np.random.default_rng(seed)
    seconds = rng.integers(0, 400, rows)
    seconds[rng.random(rows) < 0.3] = 200
    return pa.table(
        {
            "ts": pa.array(seconds * 1_000_000, pa.timestamp("us", "UTC")),
            "k": pa.array(rng.integers(0, 3, rows), mask=rng.random(rows) < 0.1),
            "x": pa.array(rng.integers(0, 20, rows), pa.int32()),
            payload: pa.array(range(rows), pa.int64()),
        }
    )


LEFT, RIGHT = table(1, 300, "l"), table(2, 250, "r")


@pytest.fixture(scope="module")
def sides(spark):
    return tuple(spark.createDataFrame(t).repartition(3).cache() for t in (LEFT, RIGHT))


def same(found, **arguments) -> None:
    """Assert that the DataFrame has the native join's columns and rows."""
    expected = tidegate.window_join(LEFT, RIGHT, **arguments)
    rows = found.toArrow()
    assert rows.column_names == expected.column_names
    assert Counter(map(repr, rows.to_pylist())) == Counter(map(repr, expected.to_pylist()))


@grid(how=["right", "semi", "anti", *more("inner", "left", "full")], partitions=[1, 4, 9])
def test_rows_are_those_of_the_native_join(sides, how, partitions):
    query = {"on": "ts", "window": ("30s", "5s"), "where": NEAR, "how": how}
    found = tidegate.spark.window_join(*sides, **query, partitions=partitions, parallelism="time")
    same(found, **query)


@pytest.mark.parametrize("how", ["left", *more("full", "inner", "right", "semi", "anti")])
def test_a_small_side_is_sent_whole(sides, how):
    query = {"on": "ts", "window": dt.timedelta(seconds=9), "where": NEAR, "how": how}
    for arguments in ({}, *more(*([{"parallelism": "broadcast"}] if how != "full" else []))):
        same(tidegate.spark.window_join(*sides, **query, **arguments), **query)


@grid(
    parallelism=["hybrid", *more("key")],
    window=[np.timedelta64(20, "s"), *more(("0s", "1m"), "0s")],
)
def test_windows_of_keys(sides, parallelism, window):
    query = {"on": "ts", "window": window, "by": "k", "how": "full"}
    found = tidegate.spark.window_join(*sides, **query, parallelism=parallelism, partitions=4)
    same(found, **query)


def test_windows_of_integers(spark):
    left = pa.table({"n": [1, 5, 9], "a": ["x", "y", "z"]})
    right = pa.table({"n": [3, 4, 20], "b": [1, 2, 3]})
    found = tidegate.spark.window_join(
        spark.createDataFrame(left), spark.createDataFrame(right), on="n", window=(2, 1)
    )
    expected = tidegate.window_join(left, right, on="n", window=(2, 1))
    assert expected.num_rows == 2
    assert sorted(map(tuple, found.collect())) == sorted(
        tuple(row.values()) for row in expected.to_pylist()
    )


@pytest.mark.parametrize(
    ("window", "error", "message"),
    [
        (
            tidegate.rows(5),
            tidegate.TidegateError,
            r"rows\(5\) counts rows in order, but the",
        ),
        (("1s", tidegate.rows(5)), tidegate.TidegateError, r"rows\(5\) counts rows in order"),
        ("-1s", tidegate.TidegateError, r"window must not be negative, got -1000000 \(us\)"),
        (dt.timedelta(seconds=-1), tidegate.TidegateError, "window must not be negative, got "),
        (np.timedelta64(-1, "s"), tidegate.TidegateError, "window must not be negative, got "),
        (("1s", "2s", "3s"), TypeError, "window: expected one window or a pair of windows, got 3"),
        (None, TypeError, "window: expected a timedelta, a string such as"),
        (True, TypeError, "window: expected a timedelta, a string such as"),
    ],
)
def test_windows_that_cannot_be_are_refused(sides, window, error, message):
    with pytest.raises(error, match=message):
        tidegate.spark.window_join(*sides, on="ts", window=window)


def test_explain_tells_how_rows_are_divided(sides):
    plan = tidegate.spark.explain(
        tidegate.spark.window_join, *sides, on="ts", window=("30s", "5s"), parallelism="time",
        partitions=3, where=NEAR,
    )  # fmt: skip
    assert "  divided    by time: 3 slices in 3 partitions" in plan
    with pytest.raises(TypeError, match=r"expected tidegate\.spark\.interval_join, "):
        tidegate.spark.explain(tidegate.window_join, *sides, on="ts")
