"""The join as a DataFrame: one side sent whole, or both packed, sent in one shuffle, and joined."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

import tidegate
from tidegate.spark import _whole
from tidegate.spark._pack import LEFT, NAMES, PACKS, RIGHT, Packer
from tidegate.spark._task import Call, Task, Then, on_worker

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.spark._plan import Plan


def joined(plan: Plan, then: Then | None, then_schema: StructType | str | None) -> DataFrame:
    """The join as a DataFrame."""
    if (then is None) != (then_schema is None):
        message = "`then` and `then_schema` go together: give both or none"
        raise tidegate.TidegateError(message)
    schema = plan.columns.result
    arrow_schema = None
    if then_schema is not None:
        schema = _struct(plan.left.sparkSession, then_schema)
        arrow_schema = _arrow(plan.left.sparkSession, schema)
    call = Call(
        arguments={**plan.query.arguments, "columns": list(plan.columns.native)},
        names=tuple(plan.columns.result.names),
        then=then,
        schema=arrow_schema,
    )
    whole = plan.choice.whole
    if whole is not None:
        return _whole.joined(plan, whole, call, schema)
    home = _home_names(plan) if plan.layout.reports_at_home else None
    task = Task((plan.columns.left, plan.columns.right), home, call)
    packs = _packed(plan, LEFT).union(_packed(plan, RIGHT))
    count = plan.layout.partitions
    if places_rows():
        packs = packs.repartitionById(count, "partition")
    else:
        packs = packs.repartition(count, "partition")
    return packs.mapInArrow(on_worker(task.run, "tidegate_join"), schema)


def places_rows() -> bool:
    """Whether Spark can put a row into a partition by its number (4.1 and later).

    Otherwise it goes by the number's hash, and Spark may put several numbers together.
    """
    return hasattr(DataFrame, "repartitionById")


def _packed(plan: Plan, side: int) -> DataFrame:
    """The rows of a side as packs, each for a partition."""
    mine, other = plan.inputs[side], plan.inputs[1 - side]
    packer = Packer(plan.layout, side, mine.on, days=plan.in_days)
    slices = len(plan.layout.partition_of)
    rows = mine.with_bucket(other, len(plan.layout.buckets), slices, kept=plan.keeps[side])
    return rows.mapInArrow(on_worker(packer.run, f"tidegate_pack_{NAMES[side]}"), PACKS)


def _home_names(plan: Plan) -> tuple[str, str]:
    """Names that no column of either side has."""
    taken = {*plan.columns.left.names, *plan.columns.right.names, *plan.columns.native}
    longest = max(len(name) for name in taken)
    return "l".ljust(longest + 1, "_"), "r".ljust(longest + 1, "_")


def _struct(session: SparkSession, schema: StructType | str) -> StructType:
    if isinstance(schema, StructType):
        return schema
    return session.createDataFrame([], schema).schema


def _arrow(session: SparkSession, schema: StructType) -> pa.Schema:
    """The Arrow types that Spark takes for `schema`."""
    return session.createDataFrame([], schema).toArrow().schema
