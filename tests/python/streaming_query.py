"""A process that resumes a streaming query, from a folder of `streaming` to Parquet files.

Its arguments are the folder, the query's name in `QUERIES`, and optionally the master, if it is not
that of the tests. The process ends after the whole input has been read.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import campaign
import streaming
import tidegate.spark
from spark_session import settings, start
from tidegate import agg

AGGS = {"n": agg.count(), "sum": agg.sum("v"), "last": agg.last("v")}
PARTS = {"by": None, "aggs": {"n": agg.count(), "sum": agg.sum("v"), "most": agg.max("v")}}
LAST: dict[str, Any] = {"aggs": {"v_right": agg.last("v")}, "prevailing": True}


def _left_rows(spark: SparkSession, folder: Path) -> DataFrame:
    sides = streaming.read(spark, folder, streaming.LONG)
    return tidegate.spark.interval_join(*sides, **streaming.QUERY, **LAST, partitions=4)


def _with_a_table(spark: SparkSession, folder: Path) -> DataFrame:
    stream, _ = streaming.read(spark, folder)
    table = spark.read.parquet(str(folder / "right"))
    return tidegate.spark.interval_join(stream, table, **streaming.QUERY, how="left")


QUERIES: dict[str, Callable[[SparkSession, Path], DataFrame]] = {
    "interval_join": lambda spark, folder: streaming.joined(spark, folder, how="full"),
    "window_join": lambda *at: streaming.joined(*at, "window_join", how="left"),
    "band_join": lambda *at: streaming.joined(*at, "band_join", how="full"),
    "asof_join": lambda *at: streaming.joined(*at, "asof_join"),
    "by_time": lambda *at: streaming.joined(*at, how="left", parallelism="hybrid"),
    "full_by_time": lambda *at: streaming.joined(*at, how="full", parallelism="hybrid"),
    "left_rows": _left_rows,
    "with_a_table": _with_a_table,
    "aggregate": lambda spark, folder: streaming.aggregated(spark, folder, aggs=AGGS),
    "parts": lambda spark, folder: streaming.aggregated(spark, folder, **PARTS),
}

BY_TIME = ("by_time", "full_by_time")


def check(name: str, folder: Path, found: pa.Table, *, restarted: bool) -> None:
    """Check that the rows are those of the batch query."""
    if name == "aggregate":
        streaming.check_windows(folder, found, restarted=restarted, aggs=AGGS)
    elif name == "parts":
        streaming.check_windows(folder, found, restarted=restarted, **PARTS)
    elif name == "left_rows":
        streaming.check_of_all(folder, found, "interval_join", **LAST)
    elif name == "with_a_table":
        streaming.check_of_all(folder, found, "interval_join", how="left")
    else:
        how = {"window_join": "left", "asof_join": "left", "by_time": "left"}.get(name, "full")
        join = "interval_join" if name in BY_TIME else name
        streaming.check(folder, found, join, restarted=restarted, how=how)


def tried(name: str) -> list[str]:
    """Return the queries to try: all in a campaign, otherwise one, to save time."""
    return list(QUERIES) if campaign.ALL else [name]


def run(spark: SparkSession, folder: Path, name: str) -> None:
    """Resume the query with this name until the whole input has been read."""
    with settings(spark, **streaming.STORE):
        query = (
            QUERIES[name](spark, folder)
            .writeStream.trigger(availableNow=True)
            .option("checkpointLocation", str(folder / "checkpoint"))
            .format("parquet")
            .start(str(folder / "found"))
        )
        query.awaitTermination()


if __name__ == "__main__":
    run(start(*sys.argv[3:]), Path(sys.argv[1]), sys.argv[2])
