"""Aggregates streaming DataFrames, keeps state, and handles late rows.

Rows are sent as in an aggregation of tables. They are never sent as aggregates of slices, because
some rows in a slice may be late. The *kept* state consists of the rows themselves if any result
depends on row order. Otherwise, it consists of aggregates of slices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import IntegerType, StructField, StructType

import tidegate
from tidegate.spark.layout.cycle import Cycle
from tidegate.spark.layout.hashed_times import HashedTimes
from tidegate.spark.layout.layout import by_key
from tidegate.spark.query.schema import arrow
from tidegate.spark.stream.operators import Windows
from tidegate.spark.stream.stateful import Finish, buckets, digest, division, outgoing, stateful
from tidegate.spark.worker.pack import of_type
from tidegate.spark.worker.task import on_worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from tidegate.spark.layout.layout import Layout
    from tidegate.spark.plan.aggregate import AggregatePlan
    from tidegate.spark.worker.aggregate import Aggregation
    from tidegate.spark.worker.task import Batches, Output


def layout(plan: AggregatePlan) -> Layout:
    """Return the layout of streams: by key, by time, or into buckets whose results are merged."""
    number = buckets(plan.partitions, plan.frames[0].sparkSession)
    if plan.merges:
        return HashedTimes.of(number)
    if plan.is_sliced:
        return Cycle.of(number, "right", plan.reach, keyed=False)
    return by_key(number if plan.aggregation.by else 1, "right", plan.reach)


def aggregated(
    plan: AggregatePlan, layout: Layout, schema: StructType, output: Output
) -> DataFrame:
    """Return the aggregation as a streaming DataFrame."""
    late = None if plan.late_as is None else _late_field(plan, plan.late_as)
    schema = outgoing(schema, late)
    finish = _Finish(
        output=output,
        schema=None if late is None else arrow(plan.frames[0].sparkSession, schema),
        columns=len(plan.sent),
        of_parts=plan.of_parts if plan.merges else None,
    )
    results = stateful(plan.packed(layout), windows(plan, layout), layout.partitions, "aggregate")
    if plan.merges:
        results = results.repartition(1)
    return results.mapInArrow(on_worker(finish.run, "tidegate_aggregate"), schema)


def windows(plan: AggregatePlan, layout: Layout) -> Windows:
    """Return the aggregation in the form that the workers need."""
    rows = plan.empty
    slices, final = plan.by_slice if plan.combines else (None, plan.aggregation)
    kept = rows if slices is None else slices.run([rows]).select(plan.kept)
    arguments = plan.aggregation.arguments
    if plan.aggregation.windows is not None:
        arguments["windows"] = tidegate.digest(plan.aggregation.windows, ordered=False)
    identity = [len(plan.frames), str(rows.schema), arguments]
    if plan.native.calendar is not None:
        identity.append(plan.native.calendar)
    return Windows(
        schema=rows.schema,
        kept_schema=kept.schema,
        slices=slices,
        final=final,
        sources=1 if plan.combines else len(plan.frames),
        source=plan.source,
        longest=plan.native.longest,
        query=digest("aggregate", division(layout), *identity),
        keeps_late=plan.late_as is not None,
        gives_parts=plan.merges,
        cycle=layout if isinstance(layout, Cycle) else None,
    )


def _late_field(plan: AggregatePlan, name: str) -> StructField:
    """Return the result field for late rows, with the DataFrame's number and the sent columns."""
    given = plan.frames[0].schema
    row = StructType([StructField(one, given[one].dataType) for one in plan.sent])
    late = StructType([StructField("stream", IntegerType()), StructField("row", row)])
    return StructField(name, late)


@dataclass(frozen=True)
class _Finish(Finish):
    """Finishes the output of an aggregation, with late rows in a separate column.

    `columns` is the number of input columns in a late row. The stream number may follow these
    columns. With `of_parts`, each result is a part of a window. All parts of a window arrive in the
    same micro-batch, because all buckets have the same watermark.
    """

    columns: int
    of_parts: tuple[Aggregation, str] | None = None

    def run(self, batches: Batches) -> Batches:
        """Split the operator's output into results and late rows, and merge parts of windows."""
        if self.of_parts is None:
            yield from super().run(batches)
            return
        parts = []
        for rows, side in self.taken(batches):
            if side is None:
                parts.append(rows)
            else:
                yield self.finished(rows, side)
        if parts:
            windows = merged(pa.Table.from_batches(parts), *self.of_parts)
            for batch in windows.to_batches():
                yield self.finished(batch, None)

    def late(self, rows: pa.RecordBatch, side: int, schema: pa.Schema) -> list[pa.Array]:  # noqa: ARG002 - one side
        """Return the columns of late rows."""
        nulls = [pa.nulls(rows.num_rows, kind) for kind in schema.types[:-1]]
        row, number = rows.columns[: self.columns], pa.repeat(0, rows.num_rows)
        if rows.num_columns > self.columns:
            number = rows.column(self.columns)
        late = schema.types[-1]
        return [*nulls, _struct([number, _struct(row, late.field("row").type)], late)]


def merged(parts: pa.Table, query: Aggregation, end: str) -> pa.Table:
    """Return the windows, merged from their parts."""
    names = parts.column_names
    renamed = parts.rename_columns([end if name == "window_end" else name for name in names])
    found = query.run([renamed], (end,)).drop_columns(["window_end"])
    return found.rename_columns({end: "window_end"}).select(names).combine_chunks()


def _struct(columns: Sequence[pa.Array], kind: pa.StructType) -> pa.StructArray:
    fields = [kind.field(at) for at in range(kind.num_fields)]
    typed = [of_type(column, field.type) for column, field in zip(columns, fields, strict=True)]
    return pa.StructArray.from_arrays(typed, fields=fields)
