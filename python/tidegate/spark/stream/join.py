"""Streaming DataFrames: one stateful operator, whose state Spark keeps and restores.

Rows travel as in a join of tables, packed by buckets of keys, of which there are as many as
partitions. What the operator does with a bucket is told in `store.py`.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import GroupedData
from pyspark.sql.types import StringType, StructField, StructType

import tidegate
from tidegate.spark.layout.cycle import Cycle
from tidegate.spark.layout.layout import by_key
from tidegate.spark.query.schema import arrow
from tidegate.spark.stream.operators import Sides
from tidegate.spark.worker.pack import LEFT, NAMES, RIGHT
from tidegate.spark.worker.task import on_worker

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from tidegate.spark.layout.layout import Copied, Layout
    from tidegate.spark.plan.join import Plan
    from tidegate.spark.query.schema import KeyPairs, Origin
    from tidegate.spark.stream.operators import Work
    from tidegate.spark.worker.task import Batches, Call, Output

# Buckets of keys if the caller does not say. It must not depend on the cluster, which may be
# another one when a query is restarted.
BUCKETS = 64

# Where Spark notes what `withWatermark` said of a column.
_WATERMARK = "spark.watermarkDelayMs"

# How the names begin of the nodes of Spark's plans whose rows may come out once the watermark has
# passed them.
_STATEFUL = ("Aggregate", "Distinct", "FlatMapGroups", "Join", "TransformWithState")

_STORE = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def check(plan: Plan) -> None:
    """Refuse what a join of streams cannot do, before the query starts."""
    if plan.query.time is None:
        message = "time: a band join of streams needs the time columns, and with them a window, "
        message += "without which no row could be forgotten: give time='ts' and window='10 minutes'"
        raise tidegate.TidegateError(message)
    for side, frame in enumerate((plan.left, plan.right)):
        check_watermark(frame, NAMES[side], plan.query.time[side])
    check_host(plan.left.sparkSession)
    if plan.parallelism == "broadcast":
        message = "parallelism 'broadcast' sends one side whole, which no stream ever is: leave it "
        message += "out, or join each micro-batch inside `foreachBatch`"
        raise tidegate.TidegateError(message)
    if plan.parallelism in (plan.query.divided, "hybrid") and not _is_sliced(plan):
        why = "its pairs may be any distance apart"
        if plan.query.how == "full":
            why = "in a full join no side can be copied alone to where slices meet"
        message = f"parallelism {plan.parallelism!r} cuts streams into slices, but {why}: leave it "
        message += "out, or give 'key'"
        raise tidegate.TidegateError(message)


def layout(plan: Plan) -> Layout:
    """How the rows of streams are divided: into slices if that was asked for or there is no key."""
    buckets = plan.partitions or BUCKETS
    if _is_sliced(plan):
        copied: Copied = "left" if plan.query.how == "right" else "right"
        keyed = plan.parallelism == "hybrid"
        return Cycle.of(buckets, copied, plan.reach, keyed=keyed)
    return by_key(buckets if plan.query.by else 1, "right", plan.reach)


def _is_sliced(plan: Plan) -> bool:
    """Whether rows are divided by time or by value, beside or instead of their keys."""
    asked = plan.parallelism in (plan.query.divided, "hybrid") or not plan.query.by
    return asked and plan.query.how != "full" and plan.reach.width is not None


def check_host(session: SparkSession) -> None:
    """Refuse what no stateful operator can do here."""
    if not hasattr(GroupedData, "transformWithState"):
        message = f"streams need PySpark 4.1 or later, found {pyspark.__version__}: work inside "
        message += "`foreachBatch`, or update PySpark"
        raise tidegate.TidegateError(message)
    store = session.conf.get(_STORE)
    # A vendor's Spark may have a store of its own class, but of this name.
    if not (store or "").endswith(_ROCKSDB.rpartition(".")[2]):
        message = "the state of a stream needs Spark's RocksDB state store: set "
        message += f"{_STORE} to {_ROCKSDB} with spark.conf.set before this call"
        raise tidegate.TidegateError(message)


def check_watermark(frame: DataFrame, stream: str, name: str) -> None:
    """Refuse a time column without a watermark, and rows that the watermark has passed."""
    _check_rows_in_time(frame, stream)
    if _WATERMARK not in frame.schema[name].metadata:
        message = f"{stream}: column {name!r} has no watermark, without which no result "
        message += f"is final and no row forgotten: call .withWatermark({name!r}, "
        message += "'10 minutes') on the DataFrame, with as much as rows may be late"
        raise tidegate.TidegateError(message)


def _check_rows_in_time(frame: DataFrame, stream: str) -> None:
    """Refuse rows of another stateful operation of the query: they are older than the watermark.

    Spark Connect does not show its plans.
    """
    try:
        plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - no other way
    except PySparkException:
        return
    name = next(_stateful_nodes(plan), None)
    if name is not None:
        message = (
            f"{stream}: its rows come out of a stateful operation of the same query ({name}), "
        )
        message += "with the watermark past them already, so that they would be late here: write "
        message += "them to a sink, and read that as the stream of a query of its own"
        raise tidegate.TidegateError(message)


def _stateful_nodes(plan: Any) -> Iterator[str]:  # noqa: ANN401 - an object of Java
    """Names of a plan's nodes that have two streams or a state, beside those that pass rows on."""
    children = [plan.children().apply(at) for at in range(plan.children().size())]
    streams = [child for child in children if child.isStreaming()]
    name = plan.nodeName()
    if streams and name.startswith(_STATEFUL) and (name != "Join" or len(streams) > 1):
        yield name
    for child in streams:
        yield from _stateful_nodes(child)


def joined(plan: Plan, call: Call, schema: StructType) -> DataFrame:
    """The join as a streaming DataFrame."""
    packs = plan.packed(LEFT).union(plan.packed(RIGHT))
    late = None if plan.late_as is None else StructField(plan.late_as, StringType())
    schema = outgoing(schema, late)
    finish = _Finish(
        output=call.output,
        schema=None if late is None else arrow(plan.left.sparkSession, schema),
        sides=(plan.columns.left, plan.columns.right),
        origins=plan.columns.origins,
        by=plan.query.by,
    )
    results = stateful(packs, _sides(plan, call))
    return results.mapInArrow(on_worker(finish.run, "tidegate_join"), schema)


def stateful(packs: DataFrame, work: Work) -> DataFrame:
    """What the stateful operator makes of packs."""
    # Needs protobuf, which PySpark does not ask for by itself, so not before it is used.
    from tidegate.spark.stream.store import OUTPUT, Processor  # noqa: PLC0415

    buckets = packs.groupBy("partition")
    return buckets.transformWithState(Processor(work), OUTPUT, "Append", "EventTime")


def outgoing(schema: StructType, late: StructField | None) -> StructType:
    """What comes out of a stream; `late` is the column that late rows fill."""
    columns = [StructField(f.name, f.dataType, f.nullable, _unmarked(f.metadata)) for f in schema]
    if late is not None:
        columns = [StructField(f.name, f.dataType, metadata=f.metadata) for f in columns]
        columns.append(late)
    return StructType(columns)


def digest(*parts: object) -> str:
    """What tells a query from others."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _sides(plan: Plan, call: Call) -> Sides:
    """The join as the workers need it."""
    reach = plan.query.reach_in_time()
    lower, upper, width = reach.lower, reach.upper, reach.width
    reports = plan.reports
    schemas = plan.columns.left, plan.columns.right
    left, right = plan.query.time or ("", "")
    function = plan.query.of_streams
    return Sides(
        function=function,
        arguments=call.arguments,
        schemas=schemas,
        times=(schemas[LEFT].names.index(left), schemas[RIGHT].names.index(right)),
        # A row is needed as long as one of the other side may come that it pairs with. And, where
        # it matters whether a row has had a partner, as long as any partner it may have had does.
        lasting=(
            _longest(upper, width if reports[RIGHT] else 0),
            _longest(None if lower is None else -lower, width if reports[LEFT] else 0),
        ),
        query=digest(function, _division(plan.layout), [*map(str, schemas)], call.arguments),
        keeps_late=plan.late_as is not None,
    )


def _division(layout: Layout) -> int | tuple[int, int, int]:
    """What tells where rows go, and is the same when a query is restarted."""
    if isinstance(layout, Cycle):
        return layout.partitions, len(layout.buckets), layout.width
    return layout.partitions


def _longest(*times: int | None) -> int | None:
    """The longest of the times, and not less than none; None is for ever."""
    return None if None in times else max(0, *(time for time in times if time is not None))


def _unmarked(metadata: Mapping[str, object]) -> dict[str, object]:
    """Metadata without the watermark: results are older than what it promises."""
    return {key: value for key, value in metadata.items() if key != _WATERMARK}


@dataclass(frozen=True)
class Finish(ABC):
    """Makes the operator's output the columns that were asked for.

    `schema` is what comes out, None if late rows do not.
    """

    output: Output
    schema: pa.Schema | None

    def run(self, batches: Batches) -> Batches:
        """Take the operator's output apart."""
        for batch in batches:
            sides, streams = batch.columns
            for side, stream in zip(sides.to_pylist(), streams, strict=True):
                for rows in pa.ipc.open_stream(stream.as_buffer()):
                    yield self._finished(rows, side)

    def _finished(self, rows: pa.RecordBatch, side: int | None) -> pa.RecordBatch:
        """Results, or late rows of a side."""
        if self.schema is None:
            return self.output.finished(rows)
        if side is None:
            kind = self.schema.types[-1]
            columns = [*self.output.finished(rows).columns, pa.nulls(rows.num_rows, kind)]
        else:
            columns = self.late(rows, side, self.schema)
        typed = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(columns, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(typed, schema=self.schema)

    @abstractmethod
    def late(self, rows: pa.RecordBatch, side: int, schema: pa.Schema) -> list[pa.Array]:
        """The columns of late rows."""


@dataclass(frozen=True)
class _Finish(Finish):
    """Late rows of a join have their own columns, and one more that tells the side."""

    sides: tuple[pa.Schema, pa.Schema]
    origins: tuple[Origin, ...]
    by: KeyPairs

    def late(self, rows: pa.RecordBatch, side: int, schema: pa.Schema) -> list[pa.Array]:  # noqa: ARG002 - cast to it later
        """The columns of late rows."""
        columns = [self._column(rows, side, origin) for origin in self.origins]
        return [*columns, pa.array([NAMES[side]] * rows.num_rows)]

    def _column(self, rows: pa.RecordBatch, side: int, origin: Origin) -> pa.Array:
        """What a late row has in a column of the result."""
        shared = side == RIGHT and (origin.name, origin.name) in self.by
        if origin.side != NAMES[side] and not shared:
            return pa.nulls(rows.num_rows)
        return rows.column(self.sides[side].names.index(origin.name))
