"""Joins a DataFrame with an index, whose file each Python worker maps.

Each left row is matched with the whole index, so each partition is joined independently of the
others. No rows are shuffled, and the index is not sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import tidegate
from tidegate.spark.query.input import by_position
from tidegate.spark.worker.indexed import IndexTask
from tidegate.spark.worker.task import on_worker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidegate.spark.driver.tasks import Ending
    from tidegate.spark.plan.indexed import IndexPlan
    from tidegate.spark.worker.task import Output


def check_ending(ending: Ending) -> None:
    """Reject a sink, because Spark itself reads the left rows."""
    if ending.sink is not None:
        message = "sink: left is a DataFrame, so the result is a Spark DataFrame; leave out sink "
        message += "and call `write` on the result, or give the Parquet files of left"
        raise tidegate.TidegateError(message)


def joined(plan: IndexPlan, schema: StructType, output: Output) -> DataFrame:
    """Return the join as a DataFrame with the same partitions as the left side."""
    task = IndexTask(plan.file, plan.sent, plan.query, plan.columns, plan.schema, output)
    rows = by_position(plan.left, plan.sent)
    if plan.partitions is not None:
        rows = rows.coalesce(plan.partitions)
    return rows.mapInArrow(on_worker(task.run, "tidegate_index_join"), schema)
