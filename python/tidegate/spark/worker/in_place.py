"""A join of rows that are where they belong: both sides come in one pass, and none is packed.

Spark hands over a union of both sides. A left and a right column of one type share a column of it,
a *slot*, and the last column says which side a row is of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tidegate.spark.worker.pack import LEFT, RIGHT

if TYPE_CHECKING:
    from tidegate.spark.worker.order import Order
    from tidegate.spark.worker.task import Batches, Call


@dataclass(frozen=True)
class InPlaceTask:
    """A join of the rows of a Spark partition, as it is sent to the workers.

    `slots` has the slot of each column of either side, and `order` that of the right rows, where it
    matters. A row that is of no side is not ours.
    """

    schemas: tuple[pa.Schema, pa.Schema]
    slots: tuple[tuple[int, ...], tuple[int, ...]]
    call: Call
    order: Order | None

    def run(self, batches: Batches) -> Batches:
        """Join the rows of a Spark partition."""
        sides: tuple[list[pa.RecordBatch], list[pa.RecordBatch]] = ([], [])
        for batch in batches:
            of = batch.column(batch.num_columns - 1).fill_null(-1).to_numpy()
            for side in (LEFT, RIGHT):
                mine = of == side
                if mine.any():
                    rows = batch.select([*self.slots[side]])
                    sides[side].append(rows if mine.all() else _where(rows, mine))
        if any(sides):
            yield from self.call.run(
                self._table(sides[LEFT], LEFT), self._table(sides[RIGHT], RIGHT)
            )

    def _table(self, batches: list[pa.RecordBatch], side: int) -> pa.Table:
        """The rows of a side in one chunk. The list is emptied, so that each row is there once."""
        names = self.schemas[side].names
        if not batches:
            return self.schemas[side].empty_table()
        table = pa.Table.from_batches(batches).combine_chunks().rename_columns(names)
        batches.clear()
        return table if side == LEFT or self.order is None else self.order.put(table)


def _where(rows: pa.RecordBatch, wanted: np.ndarray) -> pa.RecordBatch:
    """The wanted rows, without a copy where they follow each other, as the rows of a side do."""
    numbers = np.flatnonzero(wanted)
    if numbers[-1] - numbers[0] == len(numbers) - 1:
        return rows.slice(numbers[0], len(numbers))
    return rows.take(pa.array(numbers))
