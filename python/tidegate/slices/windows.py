"""Aggregates the windows that belong to a slice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from tidegate.bounded.ordered import LOWEST, places
from tidegate.io.pruning import step_of
from tidegate.slices.task import Work

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegate._tidegate import AggregationQuery
    from tidegate.slices.footers import Integers
    from tidegate.slices.task import Range


@dataclass(frozen=True)
class AggregationWork(Work):
    """Aggregates the rows of a slice."""

    query: AggregationQuery
    start: str
    """The result column that contains the start of each window."""

    step: int
    """The number of nanoseconds per time unit."""

    def times(self, column: pa.Array | pa.ChunkedArray) -> Integers:
        """Return times in units of `step`."""
        return places(column, step_of(column.type) // self.step, nulls=LOWEST)

    def batches(self, tables: list[pa.Table], own: Range) -> Iterator[pa.RecordBatch]:
        """Yield the windows that start in a slice."""
        yield from self.here(self.query.table(tables), own)

    def here(self, found: pa.Table, own: Range) -> Iterator[pa.RecordBatch]:
        """Yield those of the given windows that start in a slice."""
        for batch in found.to_batches():
            here = own.has(self.times(batch.column(self.start)))
            yield batch if here.all() else batch.filter(pa.array(here))
