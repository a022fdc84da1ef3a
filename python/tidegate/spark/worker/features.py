"""Computes the features of the labels in a Spark partition."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.calls.feature_joins import Call, ViewJoin, joined
from tidegate.spark.query.axis import TimeAxis
from tidegate.spark.worker.order import Order
from tidegate.spark.worker.pack import of_type
from tidegate.spark.worker.task import threads

if TYPE_CHECKING:
    from tidegate.spark.worker.task import Batches


@dataclass(frozen=True)
class FeaturesTask:
    """Computes the features of a partition, which contains all rows of its keys.

    Instances are sent to the workers. Each batch contains the number of a table, followed by one
    column of structs per table, in which only the rows of that table are not null.
    """

    steps: tuple[ViewJoin, ...]
    days: tuple[bool, ...]
    call: Call
    columns: tuple[str, ...]
    names: tuple[tuple[str, ...], ...]
    """The columns of each table, labels first."""

    schema: pa.Schema

    def run(self, batches: Batches) -> Batches:
        """Compute the features of the labels in a Spark partition."""
        parts: list[list[pa.RecordBatch]] = [[] for _ in self.names]
        for batch in batches:
            for number, rows in enumerate(parts):
                own = pc.equal(batch.column(0), number)
                if pc.any(own).as_py():
                    structs = batch.column(number + 1).filter(own)
                    names = [*self.names[number]]
                    rows.append(pa.RecordBatch.from_arrays(structs.flatten(), names))
        if not parts[0]:
            return
        labels, *events = [pa.Table.from_batches(rows) if rows else None for rows in parts]
        steps = [self._with_rows(at, rows) for at, rows in enumerate(events)]
        found = joined(labels, steps, self.call, self.columns, threads())
        for batch in found.to_batches():
            columns = [
                of_type(column, field.type)
                for column, field in zip(batch.columns, self.schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _with_rows(self, at: int, rows: pa.Table | None) -> ViewJoin:
        """Return the join of a view with the rows of the partition.

        Events with equal times are ordered by value, because Spark does not preserve their order.
        """
        step = self.steps[at]
        if rows is None:
            return replace(step, table=step.table.select(self.names[at + 1]))
        on = step.arguments["on"]
        time = on if isinstance(on, str) else on[1]
        return replace(step, table=Order(time, TimeAxis(self.days[at]), by_number=False).put(rows))
