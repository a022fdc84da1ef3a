"""Builds the DataFrame of an aggregation. A single shuffle moves rows or partial aggregates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.spark.driver.join import in_partitions, outgoing
from tidegate.spark.driver.route import Streamed, of_aggregation
from tidegate.spark.stream.aggregate import aggregated as stream_aggregated
from tidegate.spark.worker.aggregate import AggregateTask
from tidegate.spark.worker.task import on_worker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidegate.spark.plan.aggregate import AggregatePlan
    from tidegate.spark.worker.task import Then


def aggregated(
    plan: AggregatePlan, then: Then | None, then_schema: StructType | str | None
) -> DataFrame:
    """Return the aggregation as a DataFrame."""
    session = plan.frames[0].sparkSession
    schema, output = outgoing(session, plan.result, then, then_schema, plan.late_as)
    way = of_aggregation(plan)
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
