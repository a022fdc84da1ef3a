"""Builds the DataFrame of an aggregation. A single shuffle moves rows or partial aggregates."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.spark.driver.by_files import Files
from tidegate.spark.driver.join import check_sink, in_partitions, of_files, outgoing
from tidegate.spark.driver.route import Streamed, of_aggregation
from tidegate.spark.stream.aggregate import aggregated as stream_aggregated
from tidegate.spark.worker.aggregate import AggregateTask
from tidegate.spark.worker.task import on_worker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.spark.driver.tasks import Ending
    from tidegate.spark.plan.aggregate import AggregatePlan


def aggregated(plan: AggregatePlan, ending: Ending) -> DataFrame:
    """Return the aggregation as a DataFrame."""
    session = plan.frames[0].sparkSession
    schema, output = outgoing(session, plan.result, ending, plan.late_as)
    if ending.sink is not None:
        check_sink(plan.parallelism)
        plan = replace(plan, parallelism="files")
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
