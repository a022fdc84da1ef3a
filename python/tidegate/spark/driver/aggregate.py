"""Builds the DataFrame of an aggregation.

A single shuffle moves rows or partial aggregates. If rows are divided by time and windows without
rows are requested, a second shuffle moves the windows with rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tidegate.spark.driver.by_files import Files
from tidegate.spark.driver.join import check_sink, in_partitions, of_files, outgoing
from tidegate.spark.driver.route import Streamed, of_aggregation
from tidegate.spark.driver.tasks import Ending
from tidegate.spark.stream.aggregate import aggregated as stream_aggregated
from tidegate.spark.worker.aggregate import AggregateTask, FillTask
from tidegate.spark.worker.task import on_worker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidegate.spark.plan.aggregate import AggregatePlan
    from tidegate.spark.worker.task import Output


def aggregated(plan: AggregatePlan, ending: Ending) -> DataFrame:
    """Return the aggregation as a DataFrame."""
    session = plan.frames[0].sparkSession
    schema, output = outgoing(session, plan.result, ending, plan.late_as)
    if ending.sink is not None:
        check_sink(plan.parallelism)
        plan = replace(plan, parallelism="files")
    if plan.fills_afterwards:
        return _filled(plan, schema, output)
    way = of_aggregation(plan)
    if isinstance(way, Files):
        return of_files(way.plan, ending, schema, output)
    if isinstance(way, Streamed):
        return stream_aggregated(plan, way.layout, schema, output)
    names, final = plan.names, plan.aggregation
    if plan.sends_slices:
        names, (_, final) = plan.kept, plan.by_slice
    owner = plan.owner(way.layout)
    more = () if owner is None else (owner,)
    task = AggregateTask(
        names=(*names, *more),
        aggregation=final,
        streams=len(plan.frames),
        source=plan.source,
        owner=owner,
        in_order=not plan.combines,
        days=plan.in_days,
        layout=way.layout,
        output=output,
    )
    packs = in_partitions(plan.packed(way.layout), way.layout)
    return packs.mapInArrow(on_worker(task.run, "tidegate_aggregate"), schema)


def _filled(plan: AggregatePlan, schema: StructType, output: Output) -> DataFrame:
    """Return the windows with and without rows. One task adds windows to those of a key."""
    windows = aggregated(plan.with_rows, Ending())
    keys = [F.col(f"a{2 + at}") for at in range(len(plan.aggregation.by))]
    # Columns are selected by position, so that no name needs quotes.
    plain = windows.toDF(*(f"a{at}" for at in range(len(windows.columns))))
    divided = plain.repartition(*keys) if keys else plain.repartition(1)
    task = FillTask(plan.aggregation, plan.empty.schema, output)
    return divided.mapInArrow(on_worker(task.run, "tidegate_fill"), schema)
