"""Joins rows that are already in the right partition, without packing them.

Spark passes a union of both sides. A left and a right column with the same type share one column of
the union, a *slot*. The last column of the union specifies each row's side.
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
    """The task that joins the rows in a Spark partition. Instances are sent to the workers.

    `slots` contains each column's slot, for both sides. `order` is the required order of right
    rows, if the result depends on it. A row that belongs to neither side is ignored.
    """

    schemas: tuple[pa.Schema, pa.Schema]
    slots: tuple[tuple[int, ...], tuple[int, ...]]
    call: Call
    order: Order | None

    def run(self, batches: Batches) -> Batches:
        """Join the rows in a Spark partition."""
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
        """Return one side's rows in one chunk.

        Empties the list, so that no row is stored twice.
        """
        names = self.schemas[side].names
        if not batches:
            return self.schemas[side].empty_table()
        table = pa.Table.from_batches(batches).combine_chunks().rename_columns(names)
        batches.clear()
        return table if side == LEFT or self.order is None else self.order.put(table)


def _where(rows: pa.RecordBatch, wanted: np.ndarray) -> pa.RecordBatch:
    """Return the selected rows. Adjacent rows, such as those on one side, are not copied."""
    numbers = np.flatnonzero(wanted)
    if numbers[-1] - numbers[0] == len(numbers) - 1:
        return rows.slice(numbers[0], len(numbers))
    return rows.take(pa.array(numbers))
