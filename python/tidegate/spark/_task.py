"""What runs in a Python worker: one native join for the rows of a partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import tidegate

Then = Callable[[pa.RecordBatch], pa.RecordBatch]

# Values of the column `side`. A copy is a row of a full join outside its home.
LEFT, RIGHT, LEFT_COPY, RIGHT_COPY = range(4)


@dataclass(frozen=True)
class Task:
    """A join of one partition, as it is sent to the workers.

    Rows of both sides come in one stream whose columns are shared by the sides: `left` and `right`
    give each side's columns by position in it and by name.
    """

    version: str
    left: tuple[tuple[int, str], ...]
    right: tuple[tuple[int, str], ...]
    side: int
    partition: int | None
    home: tuple[str, str] | None
    arguments: dict[str, Any]
    names: tuple[str, ...]
    then: Then | None
    schema: pa.Schema | None

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Join the rows of a Spark partition."""
        if tidegate.__version__ != self.version:
            message = (
                f"tidegate {self.version} planned this join, but the worker has "
                f"{tidegate.__version__}: install the same version on every node"
            )
            raise tidegate.TidegateError(message)
        received = list(batches)
        if not any(batch.num_rows for batch in received):
            return
        if self.partition is None:
            yield from self._join(received)
            return
        rows = pa.Table.from_batches(received)
        del received
        partitions = rows.column(self.partition).to_numpy()
        for partition in np.unique(partitions):
            yield from self._join(rows.filter(pa.array(partitions == partition)).to_batches())

    def _join(self, batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Join rows of one partition of the layout."""
        left, right = self._sides(batches)
        batches.clear()
        with tidegate.interval_join_batches(
            left, right, threads=_threads(), **self.arguments
        ) as joined:
            del left, right
            for batch in joined:
                rows = batch if self.home is None else _at_home(batch, *self.home)
                if rows.num_rows:
                    yield self._finished(rows)

    def _sides(self, batches: list[pa.RecordBatch]) -> tuple[pa.Table, pa.Table]:
        left, right = [], []
        for batch in batches:
            is_right = batch.column(self.side).to_numpy() % 2 == RIGHT
            # Shuffled blocks come from one side each, so that most batches need no filter.
            if not is_right.all():
                left.append(batch.filter(pa.array(~is_right)) if is_right.any() else batch)
            if is_right.any():
                right.append(batch if is_right.all() else batch.filter(pa.array(is_right)))
        schema = batches[0].schema
        return (
            self._side(pa.Table.from_batches(left, schema), self.left, LEFT),
            self._side(pa.Table.from_batches(right, schema), self.right, RIGHT),
        )

    def _side(self, rows: pa.Table, columns: tuple[tuple[int, str], ...], side: int) -> pa.Table:
        arrays = [rows.column(position) for position, _ in columns]
        names = [name for _, name in columns]
        if self.home is not None:
            arrays.append(pa.chunked_array([pa.array(rows.column(self.side).to_numpy() == side)]))
            names.append(self.home[side])
        return pa.Table.from_arrays(arrays, names=names)

    def _finished(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        batch = batch.rename_columns(list(self.names))
        if self.then is None or self.schema is None:
            return batch
        result = self.then(batch)
        if result.schema.names != self.schema.names:
            message = (
                f"`then` returned the columns {result.schema.names}, but `then_schema` has "
                f"{self.schema.names}"
            )
            raise tidegate.SchemaError(message)
        columns = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(result.columns, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _threads() -> int:
    """Cores that Spark gives this task (`spark.task.cpus`)."""
    from pyspark import TaskContext  # noqa: PLC0415 - only a worker has a task

    context = TaskContext.get()
    return 1 if context is None else context.cpus()


def _at_home(batch: pa.RecordBatch, left_home: str, right_home: str) -> pa.RecordBatch:
    """Rows of a full join that this partition reports, without the two columns that say so.

    A pair, and an unmatched left row, is reported where the left row is at home; the flag of the
    left row is null in an unmatched right row.
    """
    names = batch.schema.names
    left, right = (batch.column(names.index(name)) for name in (left_home, right_home))
    unmatched = left.is_null().to_numpy(zero_copy_only=False)
    at_home = np.where(
        unmatched,
        right.fill_null(False).to_numpy(zero_copy_only=False),  # noqa: FBT003 - pyarrow's own
        left.fill_null(False).to_numpy(zero_copy_only=False),  # noqa: FBT003
    )
    kept = [name for name in names if name not in (left_home, right_home)]
    return batch.filter(pa.array(at_home)).select(kept)
