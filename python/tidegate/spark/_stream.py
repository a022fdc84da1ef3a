"""Joins of streaming DataFrames: one stateful operator, whose state Spark keeps and restores.

Rows travel as in a join of tables, packed by buckets of keys, of which there are as many as
partitions. What the operator does with a bucket is told in `_state`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyspark
from pyspark.sql import GroupedData
from pyspark.sql.types import StringType, StructField, StructType

import tidegate
from tidegate.spark import _schema
from tidegate.spark._pack import LEFT, NAMES, RIGHT
from tidegate.spark._task import on_worker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from tidegate.spark._plan import Plan
    from tidegate.spark._schema import KeyPairs, Origin
    from tidegate.spark._state import Sides
    from tidegate.spark._task import Batches, Call

# Buckets of keys if the caller does not say. It must not depend on the cluster, which may be
# another one when a query is restarted.
BUCKETS = 64

# Where Spark notes what `withWatermark` said of a column.
_WATERMARK = "spark.watermarkDelayMs"

_STORE = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def check(plan: Plan) -> None:
    """Refuse what a stream cannot do, before the query starts."""
    if plan.query.bands:
        message = "band_join joins tables, but left and right are streams: join the rows of each "
        message += "micro-batch in foreachBatch, or use interval_join with the band as `where`"
        raise tidegate.TidegateError(message)
    if not hasattr(GroupedData, "transformWithState"):
        message = f"joins of streams need PySpark 4.1 or later, found {pyspark.__version__}: join "
        message += "inside `foreachBatch`, or update PySpark"
        raise tidegate.TidegateError(message)
    if plan.parallelism not in ("auto", "key"):
        message = f"parallelism: streams are divided by key, found {plan.parallelism!r}: "
        message += "leave it out, or give 'key'"
        raise tidegate.TidegateError(message)
    for side, mine in enumerate(plan.inputs):
        field = mine.fields[mine.on]
        if _WATERMARK not in field.metadata:
            name = plan.query.compared[0][side]
            message = f"{NAMES[side]}: column {name!r} has no watermark, without which no result "
            message += f"is final and no row forgotten: call .withWatermark({name!r}, "
            message += "'10 minutes') on the DataFrame, with as much as rows may be late"
            raise tidegate.TidegateError(message)
    store = plan.left.sparkSession.conf.get(_STORE)
    if store != _ROCKSDB:
        message = "the state of a join needs Spark's RocksDB state store: set "
        message += f"{_STORE} to {_ROCKSDB} before the query starts"
        raise tidegate.TidegateError(message)


def joined(plan: Plan, call: Call, schema: StructType) -> DataFrame:
    """The join as a streaming DataFrame."""
    # Needs protobuf, which PySpark does not ask for by itself, so not before it is used.
    from tidegate.spark._state import OUTPUT, Processor  # noqa: PLC0415

    packs = plan.packed(LEFT).union(plan.packed(RIGHT))
    results = packs.groupBy("partition").transformWithState(
        Processor(_sides(plan, call)), OUTPUT, "Append", "EventTime"
    )
    columns = [StructField(f.name, f.dataType, f.nullable, _unmarked(f.metadata)) for f in schema]
    if plan.late_as is not None:
        columns = [StructField(f.name, f.dataType, metadata=f.metadata) for f in columns]
        columns.append(StructField(plan.late_as, StringType()))
    schema = StructType(columns)
    finish = _Finish(
        call=call,
        sides=(plan.columns.left, plan.columns.right),
        origins=plan.columns.origins,
        by=plan.query.by,
        schema=None if plan.late_as is None else _schema.arrow(plan.left.sparkSession, schema),
    )
    return results.mapInArrow(on_worker(finish.run, "tidegate_join"), schema)


def _sides(plan: Plan, call: Call) -> Sides:
    """The join as the workers need it."""
    from tidegate.spark._state import Sides  # noqa: PLC0415

    lower, upper, width = plan.reach.lower, plan.reach.upper, plan.reach.width
    reports = plan.reports
    schemas = plan.columns.left, plan.columns.right
    query = repr((plan.layout.partitions, [str(schema) for schema in schemas], call.arguments))
    return Sides(
        arguments=call.arguments,
        schemas=schemas,
        times=(plan.inputs[LEFT].on, plan.inputs[RIGHT].on),
        # A row is needed as long as one of the other side may come that it pairs with. And, where
        # it matters whether a row has had a partner, as long as any partner it may have had does.
        lasting=(
            _longest(upper, width if reports[RIGHT] else 0),
            _longest(None if lower is None else -lower, width if reports[LEFT] else 0),
        ),
        query=hashlib.sha256(query.encode()).hexdigest(),
        keeps_late=plan.late_as is not None,
    )


def _longest(*times: int | None) -> int | None:
    """The longest of the times, and not less than none; None is for ever."""
    return None if None in times else max(0, *(time for time in times if time is not None))


def _unmarked(metadata: Mapping[str, object]) -> dict[str, object]:
    """Metadata without the watermark: results are older than what it promises."""
    return {key: value for key, value in metadata.items() if key != _WATERMARK}


@dataclass(frozen=True)
class _Finish:
    """Makes the operator's output the columns that were asked for.

    `schema` is what comes out, None if late rows do not.
    """

    call: Call
    sides: tuple[pa.Schema, pa.Schema]
    origins: tuple[Origin, ...]
    by: KeyPairs
    schema: pa.Schema | None

    def run(self, batches: Batches) -> Batches:
        """Take the operator's output apart."""
        for batch in batches:
            sides, streams = batch.columns
            for side, stream in zip(sides.to_pylist(), streams, strict=True):
                for rows in pa.ipc.open_stream(stream.as_buffer()):
                    if self.schema is None:
                        yield self.call.output.finished(rows)
                    else:
                        yield self._marked(rows, side, self.schema)

    def _marked(self, rows: pa.RecordBatch, side: int | None, schema: pa.Schema) -> pa.RecordBatch:
        """Results, or late rows of a side, with the column that tells which."""
        if side is None:
            columns = [
                *self.call.output.finished(rows).columns,
                pa.nulls(rows.num_rows, pa.string()),
            ]
        else:
            columns = [self._column(rows, side, origin) for origin in self.origins]
            columns.append(pa.array([NAMES[side]] * rows.num_rows))
        typed = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(columns, schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(typed, schema=schema)

    def _column(self, rows: pa.RecordBatch, side: int, origin: Origin) -> pa.Array:
        """What a late row has in a column of the result."""
        shared = side == RIGHT and (origin.name, origin.name) in self.by
        if origin.side != NAMES[side] and not shared:
            return pa.nulls(rows.num_rows)
        return rows.column(self.sides[side].names.index(origin.name))
