"""Numeric times with a `unit`, and columns of durations, on Spark: the rows of calls on tables."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import spark_session
import tidegate as tg
import tidegate.spark
from tidegate import SchemaError, TidegateError

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")

WHOLE = np.array([-3_750_000, 0, 250_000, 1_500_000, 2_000_000])
COUNT = {"n": tg.agg.count()}


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return spark_session.start()


def rows(values: Any) -> pa.Table:
    times = pa.array(values, mask=np.arange(len(values)) == len(values))
    return pa.table({"a `t`": times, "e": times, "k": np.arange(len(values)) % 2})


def same(found: DataFrame, wanted: pa.Table) -> None:
    table = found.toArrow()
    assert table.schema.types == wanted.schema.types
    assert sorted(map(str, table.to_pylist())) == sorted(map(str, wanted.to_pylist()))


START = datetime(2026, 3, 8, 6, 59, tzinfo=UTC)
"""A minute before New York's clocks are changed."""


@pytest.mark.parametrize(
    ("values", "unit"),
    [
        (WHOLE / 10**6, "s"),
        ((WHOLE // 1000).astype(np.int32), "ms"),
        (WHOLE, ("us", START.replace(tzinfo=None))),
        (WHOLE * 1000, ("ns", START)),
        (WHOLE * 1000.0, "ns"),
    ],
)
def test_numbers_are_converted_as_in_tables(spark, values, unit) -> None:
    table = rows(values)
    frame = spark.createDataFrame(table)
    query: dict[str, Any] = {"on": "a `t`", "lower": "-1s", "upper": "1s", "by": "k", "unit": unit}
    found = tidegate.spark.interval_join(frame, frame, **query)
    wanted = tg.interval_join(table, table, **query)
    # Spark's timestamps count microseconds.
    kinds = [
        pa.timestamp("us", one.tz) if pa.types.is_timestamp(one) else one
        for one in wanted.schema.types
    ]
    same(found, wanted.cast(pa.schema(zip(wanted.schema.names, kinds, strict=True))))


def test_other_calls_convert_numbers(spark) -> None:
    table = rows((WHOLE // 1000).astype(np.int64)).rename_columns(["t", "e", "k"])
    frame = spark.createDataFrame(table)
    overlap: dict[str, Any] = {"on": ("t", "e"), "unit": "ms"}
    same(
        tidegate.spark.overlap_join(frame, frame, **overlap),
        tg.overlap_join(table, table, **overlap),
    )
    windows: dict[str, Any] = {"on": "t", "size": "1s", "aggs": COUNT, "unit": "ms"}
    same(tidegate.spark.rolling(frame, **windows), tg.rolling(table, **windows))
    stamped = tg.merge([table], on="t", unit="ms")
    frames = [frame, spark.createDataFrame(stamped)]
    same(tidegate.spark.aggregate(frames, **windows), tg.aggregate([table, stamped], **windows))
    asof = tidegate.spark.asof_join
    assert "right.t <= left.t" in tidegate.spark.explain(asof, *frames, on="t", unit="ms")


def test_durations_are_bounds_values_and_columns(spark) -> None:
    frame = spark.sql(
        "SELECT id % 2 AS k, timestamp_seconds(id * 10) AS ts, make_dt_interval(0, 0, 0, id) AS gap"
        " FROM range(6)"
    )
    table = frame.toArrow()
    query: dict[str, Any] = {"on": "ts", "lower": -10 * tg.left.gap, "upper": "0s"}
    query["where"] = tg.left.gap >= tg.right.gap
    same(
        tidegate.spark.interval_join(frame, frame, **query), tg.interval_join(table, table, **query)
    )
    names = ("sum", "mean", "max", "first", "count_distinct", "collect")
    aggs = {name: getattr(tg.agg, name)("gap") for name in names}
    windows: dict[str, Any] = {"on": "ts", "size": "30s", "aggs": aggs}
    same(tidegate.spark.aggregate(frame, **windows), tg.aggregate(table, **windows))
    for option in ({"on": "gap"}, {"on": "ts", "by": "gap"}):
        with pytest.raises(SchemaError, match=r"gap` is duration\[us\]"):
            tidegate.spark.asof_join(frame, frame, **option)
    months = frame.selectExpr("*", "make_ym_interval(0, 1) AS months")
    with pytest.raises(SchemaError, match="'months' is interval year to month, which Spark cannot"):
        tidegate.spark.asof_join(months, frame, on="ts")


def test_messages(spark, tmp_path) -> None:
    asof = tidegate.spark.asof_join
    for values, unit, shown in (
        ([0.1234567], "s", "0.1234567 s"),
        ([float("nan")], "ms", "NaN ms"),
        ([1e300], "s", "1.0E300 s"),
        ([1_500], "ns", "1500 ns"),
    ):
        frame = spark.createDataFrame(pa.table({"t": values}))
        with pytest.raises(PySparkException, match=f"unit: column `t`: {shown} is not a whole num"):
            asof(frame, frame, on="t", unit=unit).collect()
    frame = spark.createDataFrame(pa.table({"t": [1], "s": pa.array([1], pa.timestamp("us"))}))
    with pytest.raises(SchemaError, match="no time column contains numbers"):
        asof(frame, frame, on="s", unit="s")
    with pytest.raises(SchemaError, match="right: the times of an index cannot be converted"):
        asof(frame, tg.Index({"t": [1]}, on="t"), on="t", unit="s")
    with pytest.raises(TypeError, match="unit: expected one of 's'"):
        asof(frame, frame, on="t", unit="min")
    with pytest.raises(TidegateError, match="unit: Spark's timestamps count microseconds"):
        asof(frame, frame, on="t", unit=("s", np.datetime64(1, "ns")))
    path = str(tmp_path / "a.parquet")
    with pytest.raises(TidegateError, match=r"write timestamps to the files, or read them with"):
        asof(path, path, on="t", unit="s")
    stream = spark.readStream.format("rate").load().selectExpr("value AS t")
    with pytest.raises(TidegateError, match="convert the numbers before withWatermark"):
        tidegate.spark.aggregate(stream, on="t", size="1s", aggs=COUNT, unit="s")
