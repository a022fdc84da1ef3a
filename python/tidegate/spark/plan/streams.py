"""Checks that streaming DataFrames and their session meet a stateful operator's requirements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import GroupedData

import tidegate
from tidegate.spark.plan.host import host_of
from tidegate.spark.plan.session import ROCKSDB, STORE, has_rocksdb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

# The metadata key under which Spark stores the watermark of a column.
WATERMARK = "spark.watermarkDelayMs"

# Prefixes of the names of plan nodes that may emit rows only after the watermark has passed them.
_STATEFUL = ("Aggregate", "Distinct", "FlatMapGroups", "Join", "TransformWithState")


def check_engine(session: SparkSession) -> None:
    """Reject streams if the engine has no stateful operators."""
    if host_of(session).is_sail:
        message = "streams need Spark, but this session belongs to Sail, "
        message += "which has no transformWithState; read the rows as tables"
        raise tidegate.TidegateError(message)


def check_host(session: SparkSession) -> None:
    """Reject a PySpark version or a session that cannot run a stateful operator."""
    if not hasattr(GroupedData, "transformWithStateInPandas"):
        message = f"streams need PySpark 4.0 or later, but this is {pyspark.__version__}; "
        message += "call the function inside `foreachBatch`, or update PySpark"
        raise tidegate.TidegateError(message)
    if not has_rocksdb(session):
        message = "the state of a stream requires Spark's RocksDB state store; "
        message += "call tidegate.spark.configure(spark) before this call, "
        message += f"or set {STORE} to {ROCKSDB}"
        raise tidegate.TidegateError(message)


def check_watermark(frame: DataFrame, stream: str, name: str) -> None:
    """Reject a time column without a watermark, and rows that are older than the watermark."""
    _check_rows_in_time(frame, stream)
    if WATERMARK not in frame.schema[name].metadata:
        message = f"{stream}: column {name!r} has no watermark; "
        message += "without a watermark, no result is final and no row can be removed; "
        message += f"call .withWatermark({name!r}, '10 minutes') on the DataFrame, "
        message += "with the longest expected delay"
        raise tidegate.TidegateError(message)


def _check_rows_in_time(frame: DataFrame, stream: str) -> None:
    """Reject rows from another stateful operation in the query.

    Such rows are older than the watermark. Spark Connect does not expose its plans, so this check
    is skipped for Spark Connect.
    """
    try:
        plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - no other way
    except PySparkException:
        return
    name = next(_stateful_nodes(plan), None)
    if name is not None:
        message = f"{stream}: a stateful operation of the same query ({name}) "
        message += (
            "emits rows only after the watermark has passed them, so they would be late here; "
        )
        message += "write them to a sink, and read that sink as a stream in another query"
        raise tidegate.TidegateError(message)


def _stateful_nodes(plan: Any) -> Iterator[str]:  # noqa: ANN401 - an object of Java
    """Yield the names of the stateful nodes in a plan that have streaming inputs."""
    children = [plan.children().apply(at) for at in range(plan.children().size())]
    streams = [child for child in children if child.isStreaming()]
    name = plan.nodeName()
    if streams and name.startswith(_STATEFUL) and (name != "Join" or len(streams) > 1):
        yield name
    for child in streams:
        yield from _stateful_nodes(child)
