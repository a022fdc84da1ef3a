"""Builds and explains DataFrames with rolling windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.spark.driver.explain import rolling_streamed
from tidegate.spark.query.schema import arrow
from tidegate.spark.stream.rolling import layout
from tidegate.spark.stream.rolling import rolled as stream_rolled
from tidegate.spark.worker.rolling import RollingTask
from tidegate.spark.worker.task import on_worker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.spark.plan.rolling import RollingPlan


def rolled(plan: RollingPlan) -> DataFrame:
    """Return the rows and their aggregates as a DataFrame."""
    if plan.table.isStreaming:
        return stream_rolled(plan, layout(plan))
    task = RollingTask(plan.query, arrow(plan.table.sparkSession, plan.result), plan.in_days)
    return plan.divided.mapInArrow(on_worker(task.run, "tidegate_rolling"), plan.result)


def rolling_described(plan: RollingPlan) -> str:
    """Describe the native call, and the steps that Spark performs around it."""
    threads = int(plan.table.sparkSession.conf.get("spark.task.cpus", "1") or "1")
    native = plan.query.replace(threads=threads).plan([plan.rows]).explanation
    if plan.table.isStreaming:
        return "\n".join([native, *rolling_streamed(plan, layout(plan))])
    number = "" if plan.partitions is None else f" into {plan.partitions:,} partitions"
    divided = f"by key{number}; one task processes all rows of a key"
    if not plan.keys:
        divided = "not at all, because there is no key: one task processes all rows"
    lines = [
        f"  sent       {', '.join(plan.native.columns[0])}",
        f"  divided    {divided}",
        "  ties       rows with equal times are ordered by value",
    ]
    return "\n".join([native, *lines])
