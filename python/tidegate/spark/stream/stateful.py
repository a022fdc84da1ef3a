"""The stateful operator of joins and aggregations, whose state Spark keeps and restores.

`store.py` defines how the operator processes a bucket's rows.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import StructField, StructType

from tidegate.spark.layout.cycle import Cycle
from tidegate.spark.layout.hashed import hashed_to
from tidegate.spark.plan.session import shuffle_partitions
from tidegate.spark.plan.streams import WATERMARK
from tidegate.spark.stream.metrics import observed
from tidegate.spark.worker.pack import MARK, of_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from tidegate.spark.layout.layout import Layout
    from tidegate.spark.stream.operators import Work
    from tidegate.spark.worker.task import Batches, Output

# The default maximum number of buckets of keys.
_BUCKETS = 64


def buckets(partitions: int | None, session: SparkSession) -> int:
    """Return the requested number of buckets. The default is one per task of a micro-batch.

    More buckets would not divide the work further, and each bucket makes requests to Spark in every
    micro-batch. If there are many tasks, only every second or third task has a bucket, so that no
    task has two.
    """
    tasks = shuffle_partitions(session)
    even = max(n for n in range(1, min(_BUCKETS, tasks) + 1) if tasks % n == 0)
    return partitions or (even if 2 * even >= min(_BUCKETS, tasks) else _BUCKETS)


def stateful(packs: DataFrame, work: Work, buckets: int, function: str) -> DataFrame:
    """Return the stateful operator's output for the given packs, in a call to `function`."""
    # This module needs protobuf, which PySpark does not require, so it is imported only when used.
    from tidegate.spark.stream.store import OUTPUT, PandasProcessor, Processor  # noqa: PLC0415

    # Spark assigns a key to a task by its hash. Each bucket has a separate task if the number of
    # buckets divides the number of tasks.
    places = tuple(hashed_to(buckets))
    place = F.expr(f"array({', '.join(map(str, places))})[partition]")
    place = F.when(F.col("partition") == MARK, MARK).otherwise(place)
    grouped = packs.withColumn("partition", place).groupBy("partition")
    if not hasattr(grouped, "transformWithState"):
        # Before PySpark 4.1.
        pandas = PandasProcessor(work, places)
        results = grouped.transformWithStateInPandas(pandas, OUTPUT, "Append", "EventTime")
    else:
        results = grouped.transformWithState(Processor(work, places), OUTPUT, "Append", "EventTime")
    told = observed(results, function, digest=not work.gives_parts)
    return told.where("rows is not null").select("late", "rows")


def outgoing(schema: StructType, late: StructField | None) -> StructType:
    """Return the schema of a stream's output; `late` is the column for late rows."""
    columns = [StructField(f.name, f.dataType, f.nullable, _unmarked(f.metadata)) for f in schema]
    if late is not None:
        columns = [StructField(f.name, f.dataType, metadata=f.metadata) for f in columns]
        columns.append(late)
    return StructType(columns)


def digest(*parts: object) -> str:
    """Return a digest that identifies a query."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def division(layout: Layout) -> tuple[int, int] | None:
    """Return the layout properties that must not change when a query is restarted.

    The number of buckets is checked separately.
    """
    return (len(layout.buckets), layout.width) if isinstance(layout, Cycle) else None


def _unmarked(metadata: Mapping[str, object]) -> dict[str, object]:
    """Return metadata without the watermark, because results are older than the watermark."""
    return {key: value for key, value in metadata.items() if key != WATERMARK}


@dataclass(frozen=True)
class Finish(ABC):
    """Converts the operator's output to the requested columns.

    `schema` is the schema of the output, or None if late rows are not emitted.
    """

    output: Output
    schema: pa.Schema | None

    def run(self, batches: Batches) -> Batches:
        """Convert the operator's output."""
        for rows, side in self.taken(batches):
            yield self.finished(rows, side)

    def taken(self, batches: Batches) -> Iterator[tuple[pa.RecordBatch, int | None]]:
        """Yield results with None as their side, and late rows with their actual side."""
        for batch in batches:
            sides, streams = batch.columns
            for side, stream in zip(sides.to_pylist(), streams, strict=True):
                for rows in pa.ipc.open_stream(stream.as_buffer()):
                    yield rows, side

    def finished(self, rows: pa.RecordBatch, side: int | None) -> pa.RecordBatch:
        """Return results, or one side's late rows, as output columns."""
        if self.schema is None:
            return self.output.finished(rows)
        if side is None:
            kind = self.schema.types[-1]
            columns = [*self.output.finished(rows).columns, pa.nulls(rows.num_rows, kind)]
        else:
            columns = self.late(rows, side, self.schema)
        typed = [
            of_type(column, field.type) for column, field in zip(columns, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(typed, schema=self.schema)

    @abstractmethod
    def late(self, rows: pa.RecordBatch, side: int, schema: pa.Schema) -> list[pa.Array]:
        """Return the columns of late rows."""
