"""One stateful operator, whose state Spark keeps and restores, for joins and aggregations.

`store.py` has the work of the operator on the rows of a bucket.
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

# The most buckets of keys if the caller does not say.
_BUCKETS = 64


def buckets(partitions: int | None, session: SparkSession) -> int:
    """The buckets of a stream: as the caller says, or one for each task of a micro-batch.

    More would not divide the work further, and each costs requests to Spark in every micro-batch.
    Of many tasks, each second or third has one: then no task has two.
    """
    tasks = shuffle_partitions(session)
    even = max(n for n in range(1, min(_BUCKETS, tasks) + 1) if tasks % n == 0)
    return partitions or (even if 2 * even >= min(_BUCKETS, tasks) else _BUCKETS)


def stateful(packs: DataFrame, work: Work, buckets: int, function: str) -> DataFrame:
    """What the stateful operator of a call of `function` makes of packs."""
    # Needs protobuf, which PySpark does not ask for by itself, so not before it is used.
    from tidegate.spark.stream.store import OUTPUT, PandasProcessor, Processor  # noqa: PLC0415

    # Spark places a key by its hash. Each bucket has a task of its own if their number divides that
    # of the tasks.
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
    """What comes out of a stream; `late` is the column that late rows fill."""
    columns = [StructField(f.name, f.dataType, f.nullable, _unmarked(f.metadata)) for f in schema]
    if late is not None:
        columns = [StructField(f.name, f.dataType, metadata=f.metadata) for f in columns]
        columns.append(late)
    return StructType(columns)


def digest(*parts: object) -> str:
    """What tells a query from others."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def division(layout: Layout) -> tuple[int, int] | None:
    """What tells where rows go, beside the number of buckets, and stays at a restart."""
    return (len(layout.buckets), layout.width) if isinstance(layout, Cycle) else None


def _unmarked(metadata: Mapping[str, object]) -> dict[str, object]:
    """Metadata without the watermark: results are older than what it promises."""
    return {key: value for key, value in metadata.items() if key != WATERMARK}


@dataclass(frozen=True)
class Finish(ABC):
    """Makes the operator's output the columns that were asked for.

    `schema` is what comes out, None if late rows do not.
    """

    output: Output
    schema: pa.Schema | None

    def run(self, batches: Batches) -> Batches:
        """Take the operator's output apart."""
        for rows, side in self.taken(batches):
            yield self.finished(rows, side)

    def taken(self, batches: Batches) -> Iterator[tuple[pa.RecordBatch, int | None]]:
        """Results, whose side is None, and late rows with their side."""
        for batch in batches:
            sides, streams = batch.columns
            for side, stream in zip(sides.to_pylist(), streams, strict=True):
                for rows in pa.ipc.open_stream(stream.as_buffer()):
                    yield rows, side

    def finished(self, rows: pa.RecordBatch, side: int | None) -> pa.RecordBatch:
        """Results, or late rows of a side."""
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
        """The columns of late rows."""
