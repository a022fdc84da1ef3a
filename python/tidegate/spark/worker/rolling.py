"""Aggregates the rolling windows of the keys in a Spark partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from tidegate.spark.query.axis import TimeAxis
from tidegate.spark.worker.order import by_value
from tidegate.spark.worker.pack import of_type
from tidegate.spark.worker.task import threads

if TYPE_CHECKING:
    from tidegate._tidegate import RollingQuery
    from tidegate.spark.worker.task import Batches


@dataclass(frozen=True)
class RollingTask:
    """Computes the windows of a partition, which contains all rows of its keys.

    Instances are sent to the workers. `schema` is the Arrow schema of the result.
    """

    query: RollingQuery
    schema: pa.Schema
    days: bool

    def run(self, batches: Batches) -> Batches:
        """Aggregate the windows of the rows in a Spark partition."""
        collected = [batch for batch in batches if batch.num_rows]
        if not collected:
            return
        rows = pa.Table.from_batches(collected)
        collected.clear()
        on = self.query.on
        # Rows with equal times are ordered by value, because Spark does not preserve their order.
        ordered = by_value(rows, on, TimeAxis(self.days).integers(rows[on]))
        query = self.query.replace(threads=threads())
        for batch in query.table([ordered]).to_batches():
            columns = [
                of_type(column, field.type)
                for column, field in zip(batch.columns, self.schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)
