"""Builds the DataFrame of a join, for the route that `route.py` chooses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

import tidegate
from tidegate.spark.driver.bins import joined as binned
from tidegate.spark.driver.by_files import Files
from tidegate.spark.driver.in_place import joined as joined_in_place
from tidegate.spark.driver.route import Binned, Broadcast, Stayed, Streamed, of_join
from tidegate.spark.driver.tasks import Ending, results, written
from tidegate.spark.driver.whole import joined as whole_joined
from tidegate.spark.layout.hashed import hashed_to
from tidegate.spark.plan.host import host_of
from tidegate.spark.query.schema import arrow, struct
from tidegate.spark.stream.join import joined as stream_joined
from tidegate.spark.worker.overlap import OverlapTask
from tidegate.spark.worker.pack import LEFT, RIGHT
from tidegate.spark.worker.partials import PartialsTask
from tidegate.spark.worker.task import Call, Output, Task, on_worker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from tidegate.spark.layout.layout import Places
    from tidegate.spark.plan.files import FilePlan
    from tidegate.spark.plan.join import Plan

# For each partition, this many numbers are tried to find one that an engine's hash maps to it.
_TRIED = 32

# The numbers that were found, by session and number of partitions.
_told: WeakKeyDictionary[SparkSession, dict[int, list[int] | None]] = WeakKeyDictionary()


def joined(plan: Plan, ending: Ending) -> DataFrame:
    """Return the join as a DataFrame."""
    session, then = plan.left.sparkSession, ending.then
    schema, output = outgoing(session, plan.columns.result, ending, plan.late_as)
    if ending.sink is not None:
        check_sink(plan.parallelism)
        plan = replace(plan, parallelism="files")
    call = Call(plan.query.native.replace(columns=list(plan.columns.native)), output)
    way = of_join(plan, fused=then is not None)
    if isinstance(way, Files):
        return of_files(way.plan, ending, schema, output)
    if isinstance(way, Binned):
        return binned(plan, way.bins)
    if isinstance(way, Streamed):
        return stream_joined(plan, way.layout, call, schema)
    if isinstance(way, Broadcast):
        return whole_joined(plan, way.whole, call, schema)
    if isinstance(way, Stayed):
        return joined_in_place(plan, way.sides, call, schema)
    layout = way.layout
    if plan.right_where is not None:
        # The tasks that send right rows test the condition.
        call = replace(call, query=call.query.replace(where=None))
    schemas = plan.columns.left, plan.columns.right
    task: Task
    if layout.reports_at_home and plan.query.how == "inner":
        task = OverlapTask(schemas, None, call)
    else:
        home = plan.home_names if layout.reports_at_home else None
        task = PartialsTask(schemas, home, call, plan.order, plan.parts)
    packs = plan.packed(LEFT, layout).union(plan.packed(RIGHT, layout))
    placed = in_partitions(packs, layout)
    return placed.mapInArrow(on_worker(task.run, "tidegate_join"), schema)


def of_files(plan: FilePlan, ending: Ending, schema: StructType, output: Output) -> DataFrame:
    """Return the results of tasks that read files, or one row per file that they write."""
    if ending.sink is not None:
        return written(plan, ending.sink)
    return results(plan, output, schema)


def check_sink(parallelism: str) -> None:
    """Reject a sink if the tasks do not read files."""
    if parallelism not in ("auto", "files"):
        message = f"sink: with parallelism {parallelism!r}, the result is a Spark DataFrame; "
        message += "leave out sink and call `write` on the result, or leave out parallelism"
        raise tidegate.TidegateError(message)


def outgoing(
    session: SparkSession, result: StructType, ending: Ending, late_as: str | None
) -> tuple[StructType, Output]:
    """Return the result's Spark schema, and the conversion of native results to this schema."""
    then, then_schema = ending.then, ending.then_schema
    if then is not None and late_as is not None:
        message = "`then` replaces the rows of the result, so `late_as` cannot mark late rows; "
        message += "give one of them"
        raise tidegate.TidegateError(message)
    if (then is None) != (then_schema is None):
        message = "`then` and `then_schema` require each other; give both or neither"
        raise tidegate.TidegateError(message)
    names = tuple(result.names)
    if then_schema is None or then is None:
        return result, Output(names, None, None)
    if not callable(then):
        message = f"then: expected a function of a pyarrow.RecordBatch, got {then!r}"
        raise TypeError(message)
    schema = struct(session, then_schema)
    return schema, Output(names, then, arrow(session, schema))


def in_partitions(packs: DataFrame, layout: Places) -> DataFrame:
    """Distribute the packs over Spark partitions, one for each layout partition."""
    host = host_of(packs.sparkSession)
    if host.places_rows:
        return packs.repartitionById(layout.partitions, "partition")
    found = told_by(packs.sparkSession, layout.partitions) if host.is_sail else None
    numbers = F.array(*map(F.lit, found or hashed_to(layout.partitions)))
    # If a number led to another partition, a task would join several layout partitions, one by one.
    return packs.repartition(layout.partitions, F.element_at(numbers, F.col("partition") + 1))


def told_by(session: SparkSession, partitions: int) -> list[int] | None:
    """Return, for each partition, a number that the engine's hash maps to it.

    The engine is queried for the partitions of small numbers. Returns None if these numbers leave a
    partition empty.
    """
    told = _told.setdefault(session, {})
    if partitions not in told:
        numbers = session.range(_TRIED * partitions).selectExpr("cast(id as int) number")
        placed = numbers.repartition(partitions, "number")
        rows = placed.select("number", F.spark_partition_id().alias("partition")).collect()
        found = {row["partition"]: row["number"] for row in rows}
        told[partitions] = sorted(found.values()) if len(found) == partitions else None
    return told[partitions]
