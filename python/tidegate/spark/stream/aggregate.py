"""Aggregations of streaming DataFrames: the state that is kept, and the late rows.

Rows travel as in an aggregation of tables, but never as aggregates of slices: among the rows of a
slice there may be late rows. The *kept* state is aggregates of slices, if the order of rows shows
in no result, and the rows themselves otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import IntegerType, StructField, StructType

from tidegate.spark.layout.layout import by_key
from tidegate.spark.query.schema import arrow
from tidegate.spark.stream.operators import Windows
from tidegate.spark.stream.stateful import BUCKETS, Finish, digest, outgoing, stateful
from tidegate.spark.worker.task import on_worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from tidegate.spark.layout.layout import Layout
    from tidegate.spark.plan.aggregate import AggregatePlan
    from tidegate.spark.worker.task import Output


def layout(plan: AggregatePlan) -> Layout:
    """How the rows of streams are divided: by key alone."""
    buckets = (plan.partitions or BUCKETS) if plan.aggregation.by else 1
    return by_key(buckets, "right", plan.reach)


def aggregated(
    plan: AggregatePlan, layout: Layout, schema: StructType, output: Output
) -> DataFrame:
    """The aggregation as a streaming DataFrame."""
    late = None if plan.late_as is None else _late_field(plan, plan.late_as)
    schema = outgoing(schema, late)
    finish = _Finish(
        output=output,
        schema=None if late is None else arrow(plan.frames[0].sparkSession, schema),
        columns=len(plan.sent),
    )
    results = stateful(plan.packed(layout), windows(plan, layout))
    return results.mapInArrow(on_worker(finish.run, "tidegate_aggregate"), schema)


def windows(plan: AggregatePlan, layout: Layout) -> Windows:
    """The aggregation as the workers need it."""
    rows = plan.empty
    slices, final = plan.by_slice if plan.combines else (None, plan.aggregation)
    kept = rows if slices is None else slices.run([rows]).select(plan.kept)
    size, _, offset = plan.windows or (None, None, 0)
    schema, arguments = str(rows.schema), plan.aggregation.arguments
    return Windows(
        schema=rows.schema,
        kept_schema=kept.schema,
        slices=slices,
        final=final,
        sources=1 if plan.combines else len(plan.frames),
        source=plan.source,
        size=size,
        slice=None if slices is None else plan.slice,
        offset=offset,
        query=digest("aggregate", layout.partitions, len(plan.frames), schema, arguments),
        keeps_late=plan.late_as is not None,
    )


def _late_field(plan: AggregatePlan, name: str) -> StructField:
    """A late row: the number of its DataFrame, and its columns that are read."""
    given = plan.frames[0].schema
    row = StructType([StructField(one, given[one].dataType) for one in plan.sent])
    late = StructType([StructField("stream", IntegerType()), StructField("row", row)])
    return StructField(name, late)


@dataclass(frozen=True)
class _Finish(Finish):
    """Late rows of an aggregation are in a column of their own.

    There are so many `columns`; behind them may be the number of the stream.
    """

    columns: int

    def late(self, rows: pa.RecordBatch, side: int, schema: pa.Schema) -> list[pa.Array]:  # noqa: ARG002 - one side
        """The columns of late rows."""
        nulls = [pa.nulls(rows.num_rows, kind) for kind in schema.types[:-1]]
        row, number = rows.columns[: self.columns], pa.repeat(0, rows.num_rows)
        if rows.num_columns > self.columns:
            number = rows.column(self.columns)
        late = schema.types[-1]
        return [*nulls, _struct([number, _struct(row, late.field("row").type)], late)]


def _struct(columns: Sequence[pa.Array], kind: pa.StructType) -> pa.StructArray:
    fields = [kind.field(at) for at in range(kind.num_fields)]
    typed = [column.cast(field.type) for column, field in zip(columns, fields, strict=True)]
    return pa.StructArray.from_arrays(typed, fields=fields)
