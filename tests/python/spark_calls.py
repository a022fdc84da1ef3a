"""Calls on tables in a session of any engine and version: the rows of the native calls.

    python spark_calls.py

runs a few calls in a local session of Spark, for `.github/scripts/test_spark_versions.sh`.
`test_sail.py` runs many more on Sail.
"""

import sys
import warnings
from collections import Counter
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tidegate
import tidegate.spark
from tidegate import agg
from tidegate.spark.driver import division
from tidegate.spark.query.schema import collected

NEAR: dict[str, Any] = {"on": "ts", "by": "k", "lower": -50, "upper": 30}
AGGS = {"n": agg.count(), "sum": agg.sum("b"), "last": agg.last("b"), "mean": agg.mean("b")}
WINDOWS: dict[str, Any] = {"on": "ts", "by": "k", "size": 100, "advance": 40}
COUNTS = {"n": agg.count(), "most": agg.max("a"), "sum": agg.sum("a")}
VALUES = {"mean": agg.mean("x"), "first": agg.first("a")}


def made(seed: int, count: int, value: str) -> pa.Table:
    """Return rows in time order. A third of them share a key, and some keys and values are null."""
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 40, count)
    keys[::3] = 0
    ts = np.sort(rng.integers(0, 40_000, count))
    return pa.table(
        {
            "ts": ts,
            "k": pa.array(keys, mask=rng.random(count) < 0.02),
            value: pa.array(rng.integers(0, 100, count), mask=rng.random(count) < 0.1),
            "end": ts + rng.integers(0, 80, count),
            "text": [f"text {key}" if key % 3 else "" for key in keys],
            "at": pa.array(ts * 1_000_003, pa.timestamp("us", "UTC")),
            "x": rng.random(count) * 500,
        }
    )


LEFT, RIGHT = made(1, 4_000, "a"), made(2, 3_000, "b")

# By name, the function and its arguments.
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "full join": ("interval_join", {**NEAR, "how": "full"}),
    "by time": ("interval_join", {**NEAR, "how": "left", "parallelism": "time"}),
    "hybrid": ("interval_join", {**NEAR, "how": "right", "parallelism": "hybrid"}),
    "bins": ("interval_join", {**NEAR, "parallelism": "bins"}),
    "broadcast": ("interval_join", {**NEAR, "parallelism": "broadcast"}),
    "timestamps": ("interval_join", {"on": "at", "by": "text", "lower": "-20s", "upper": "9s"}),
    "partners": ("interval_join", {**NEAR, "aggs": AGGS, "parallelism": "key"}),
    "as-of join": ("asof_join", {"on": "ts", "by": "k", "parallelism": "hybrid"}),
    "overlap join": ("overlap_join", {"on": ("ts", "end"), "by": "k", "how": "full"}),
    "band join": ("band_join", {"on": "x", "within": 0.5, "by": "k", "parallelism": "value"}),
    "window join": ("window_join", {"on": "ts", "by": "k", "window": 30}),
}


def counted(table: pa.Table) -> Counter[str]:
    return Counter(repr([*row.values()]) for row in table.to_pylist())


def same(
    frames: Any, function: str, *, left: pa.Table = LEFT, right: pa.Table = RIGHT, **arguments: Any
) -> None:
    """Compare the rows of a call with those of the native call, which has no parallelism."""
    found = collected(getattr(tidegate.spark, function)(*frames, **arguments))
    native = {name: arguments[name] for name in arguments if name not in OF_SPARK}
    if function == "asof_join" or "aggs" in native:
        # Spark orders right rows with equal times by value.
        names = [native["on"], *(name for name in right.column_names if name != native["on"])]
        right = right.sort_by([(name, "ascending") for name in names])
    expected = getattr(tidegate, function)(left, right, **native)
    assert expected.num_rows > 10
    assert found.column_names == expected.column_names
    assert counted(found) == counted(expected)


OF_SPARK = ("parallelism", "partitions")


def same_windows(frame: Any, **arguments: Any) -> None:
    """Compare the windows of an aggregation with those of the native call."""
    found = collected(tidegate.spark.aggregate(frame, **arguments))
    arguments.pop("parallelism", None)
    # Spark orders rows with equal times by the columns that are read.
    rows = LEFT.select(["ts", "k", "a", "x"])
    rows = rows.sort_by([(name, "ascending") for name in rows.column_names])
    expected = tidegate.aggregate(rows, **arguments)
    assert expected.num_rows > 100
    assert counted(found) == counted(expected)


def main() -> None:
    import pyspark  # noqa: PLC0415 - Sail has another session

    import spark_session  # noqa: PLC0415 - as above

    warnings.simplefilter("ignore")
    session = spark_session.start("local[2]")
    # Enough rows are sampled to split a heavy key.
    division.FRACTION, division.PARTITION_CELLS = 0.5, 3_000
    with TemporaryDirectory() as folder:
        frames = []
        for name, table in (("left", LEFT), ("right", RIGHT)):
            # PySpark 3.5 creates no DataFrame from Arrow data.
            pq.write_table(table, f"{folder}/{name}.parquet")
            frames.append(session.read.parquet(f"{folder}/{name}.parquet"))
        for name, (function, arguments) in CALLS.items():
            same(frames, function, **arguments)
            sys.stdout.write(f"pyspark {pyspark.__version__}: {name}\n")
        for aggs in (COUNTS, VALUES):
            same_windows(frames[0], **WINDOWS, aggs=aggs)
        sys.stdout.write(f"pyspark {pyspark.__version__}: windows\n")
    session.stop()


if __name__ == "__main__":
    main()
