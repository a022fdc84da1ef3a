"""Sending both sides to their partitions, and the text that explains it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

import tidegate
from tidegate.spark._send import Slots, Traveller
from tidegate.spark._task import LEFT, LEFT_COPY, RIGHT, RIGHT_COPY, Task, Then

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.spark._layout import Layout
    from tidegate.spark._plan import Plan


def joined(plan: Plan, then: Then | None, then_schema: StructType | str | None) -> DataFrame:
    """The join as a DataFrame: one shuffle, then one native call a partition."""
    if (then is None) != (then_schema is None):
        message = "`then` and `then_schema` go together: give both or none"
        raise tidegate.TidegateError(message)
    schema = plan.columns.result
    arrow_schema = None
    if then_schema is not None:
        schema = _struct(plan.left.sparkSession, then_schema)
        arrow_schema = _arrow(plan.left.sparkSession, schema)
    slots = Slots.of(
        [field.dataType for field in plan.left_input.fields],
        [field.dataType for field in plan.right_input.fields],
    )
    home = _home_names(plan) if reports_at_home(plan.layout) else None
    placed = places_rows()
    task = Task(
        version=tidegate.__version__,
        left=tuple(zip(slots.left, plan.columns.left, strict=True)),
        right=tuple(zip(slots.right, plan.columns.right, strict=True)),
        side=len(slots.types),
        partition=None if placed else len(slots.types) + 1,
        home=home,
        arguments={**plan.query.arguments, "columns": [*plan.columns.native, *(home or ())]},
        names=tuple(plan.columns.result.names),
        then=then,
        schema=arrow_schema,
    )
    rows = _sent(plan, slots)
    if placed:
        rows = rows.repartitionById(plan.layout.partitions, "partition").drop("partition")
    else:
        rows = rows.repartition(plan.layout.partitions, "partition")
    return rows.mapInArrow(task.run, schema)


def places_rows() -> bool:
    """Whether Spark can put a row into a partition by its number (4.1 and later).

    Otherwise the number travels with the row, for Spark may put several of them together.
    """
    return hasattr(DataFrame, "repartitionById")


def reports_at_home(layout: Layout) -> bool:
    """Whether both sides are copied, so that a partition must tell rows at home from copies."""
    return layout.copied == "both" and layout.is_cut


def _sent(plan: Plan, slots: Slots) -> DataFrame:
    """Both sides in one stream of slots, `side` and `partition`."""
    layout, how = plan.layout, plan.query.how
    left, right = plan.left_input, plan.right_input
    left_tags, right_tags = (LEFT, LEFT), (RIGHT, RIGHT)
    if reports_at_home(layout):
        left_tags, right_tags = (LEFT, LEFT_COPY), (RIGHT, RIGHT_COPY)
    sides = (
        Traveller(
            left,
            right,
            slots.columns(left, slots.left),
            kept=how in ("left", "anti", "full"),
            span=layout.left_span,
            tags=left_tags,
        ),
        Traveller(
            right,
            left,
            slots.columns(right, slots.right),
            kept=how in ("right", "full"),
            span=layout.right_span,
            tags=right_tags,
        ),
    )
    sent = [side.sent(layout, days=plan.in_days) for side in sides]
    return sent[0].union(sent[1])


def _home_names(plan: Plan) -> tuple[str, str]:
    """Names that no column of either side has."""
    taken = {*plan.columns.left, *plan.columns.right, *plan.columns.native}
    longest = max(len(name) for name in taken)
    return "l".ljust(longest + 1, "_"), "r".ljust(longest + 1, "_")


def _struct(session: SparkSession, schema: StructType | str) -> StructType:
    if isinstance(schema, StructType):
        return schema
    return session.createDataFrame([], schema).schema


def _arrow(session: SparkSession, schema: StructType) -> pa.Schema:
    """The Arrow types that Spark takes for `schema`."""
    return session.createDataFrame([], schema).toArrow().schema
