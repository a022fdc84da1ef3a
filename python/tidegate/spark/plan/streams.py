"""What a stateful operator asks of streaming DataFrames and of their session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import GroupedData

import tidegate
from tidegate.spark.plan.session import ROCKSDB, STORE, has_rocksdb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

# Where Spark notes what `withWatermark` said of a column.
WATERMARK = "spark.watermarkDelayMs"

# How the names begin of the nodes of Spark's plans whose rows may come out once the watermark has
# passed them.
_STATEFUL = ("Aggregate", "Distinct", "FlatMapGroups", "Join", "TransformWithState")


def check_host(session: SparkSession) -> None:
    """Refuse what no stateful operator can do here."""
    if not hasattr(GroupedData, "transformWithStateInPandas"):
        message = f"streams need PySpark 4.0 or later, found {pyspark.__version__}: work inside "
        message += "`foreachBatch`, or update PySpark"
        raise tidegate.TidegateError(message)
    if not has_rocksdb(session):
        message = "the state of a stream needs Spark's RocksDB state store: call "
        message += f"tidegate.spark.configure(spark) before this call, or set {STORE} to {ROCKSDB}"
        raise tidegate.TidegateError(message)


def check_watermark(frame: DataFrame, stream: str, name: str) -> None:
    """Refuse a time column without a watermark, and rows that the watermark has passed."""
    _check_rows_in_time(frame, stream)
    if WATERMARK not in frame.schema[name].metadata:
        message = f"{stream}: column {name!r} has no watermark, without which no result "
        message += f"is final and no row forgotten: call .withWatermark({name!r}, "
        message += "'10 minutes') on the DataFrame, with the time by which rows may be late"
        raise tidegate.TidegateError(message)


def _check_rows_in_time(frame: DataFrame, stream: str) -> None:
    """Refuse rows of another stateful operation of the query: they are older than the watermark.

    Spark Connect does not show its plans.
    """
    try:
        plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - no other way
    except PySparkException:
        return
    name = next(_stateful_nodes(plan), None)
    if name is not None:
        message = (
            f"{stream}: its rows come out of a stateful operation of the same query ({name}), "
        )
        message += "when the watermark has passed them, so that they would be late here: write "
        message += "them to a sink, and read the sink as the stream of another query"
        raise tidegate.TidegateError(message)


def _stateful_nodes(plan: Any) -> Iterator[str]:  # noqa: ANN401 - an object of Java
    """Names of a plan's nodes that have two streams or a state, beside those that pass rows on."""
    children = [plan.children().apply(at) for at in range(plan.children().size())]
    streams = [child for child in children if child.isStreaming()]
    name = plan.nodeName()
    if streams and name.startswith(_STATEFUL) and (name != "Join" or len(streams) > 1):
        yield name
    for child in streams:
        yield from _stateful_nodes(child)
