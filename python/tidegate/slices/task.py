"""Reads the rows of a slice, and returns or writes the result of a task.

Examples use this plan:

    >>> import pathlib
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> import tidegate as tg
    >>> pq.write_table(pa.table({"ts": [10, 20, 30], "price": [1.0, 2.0, 3.0]}), "trades.parquet")
    >>> pq.write_table(pa.table({"ts": [8, 19, 29], "bid": [9, 8, 7]}), "quotes.parquet")
    >>> plan = tg.tasks(
    ...     tg.interval_join, "trades.parquet", "quotes.parquet", on="ts", lower=-2, upper=0
    ... )
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from tidegate.bounded.ordered import LOWEST, places
from tidegate.io.destinations import file_in, written_whole
from tidegate.io.files import Format, converted, reading
from tidegate.io.open_tables import checked
from tidegate.io.pruning import step_of
from tidegate.slices.scratch import rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow.compute as pc

    from tidegate.slices.footers import File, Integers

BATCH_ROWS = 1 << 18


@dataclass(frozen=True)
class Range:
    """A range of times, both ends inclusive."""

    first: int
    last: int

    def has(self, times: Integers) -> np.ndarray:
        """Return which times are in the range."""
        found: np.ndarray = (times >= self.first) & (times <= self.last)
        return found


@dataclass(frozen=True)
class Part:
    """Some row groups of a file."""

    file: File
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Rows:
    """The rows that a task reads from one input."""

    name: str
    """The name of the argument, as shown in messages."""

    schema: pa.Schema
    """The columns to read."""

    parts: tuple[Part, ...]
    where: pc.Expression | None
    on: str
    until: str
    step: int
    """The number of nanoseconds per unit of the times below."""

    own: Range
    """The times of the rows that belong to the slice."""

    reach: Range | None
    """The times of the rows to read in addition: those that begin by its end and end at or after
    its start. None reads only the rows that belong to the slice."""

    home: str | None
    """The name of a column to add, which shows the rows that belong to the slice."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    """Files in the scratch folder whose rows come before and after these rows."""

    def read(self) -> pa.Table:
        """Read the rows.

        Raises:
            TidegateError: A file has changed since the plan was made, or cannot be read.
        """
        schema = self.schema
        if self.home is not None:
            schema = schema.append(pa.field(self.home, pa.bool_()))
        before, after = (
            chain.from_iterable(rows_of(path, schema) for path in paths)
            for paths in (self.before, self.after)
        )
        return pa.Table.from_batches(chain(before, self._batches(), after), schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for part in self.parts:
            part.file.check()
            for batch in checked(self._of_file(part), self.name):
                if kept := self._kept(batch):
                    yield kept

    def _of_file(self, part: Part) -> Iterator[pa.RecordBatch]:
        file = part.file
        with reading(file.name, Format.PARQUET):
            whole = ds.ParquetFileFormat().make_fragment(file.path, file.filesystem, file.values)
            # `make_fragment` does not keep the order of row groups.
            scanner = whole.subset(row_group_ids=[*part.numbers]).scanner(
                schema=self.schema,
                columns=self.schema.names,
                filter=self.where,
                batch_size=BATCH_ROWS,
                use_threads=False,
            )
            yield from scanner.to_batches()

    def _kept(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Return the rows that may match or belong to the slice, or None if there are none."""
        first = self._times(batch, self.on)
        own = self.own.has(first)
        kept = own
        if self.reach is not None:
            last = first if self.until == self.on else self._times(batch, self.until)
            kept = (first <= self.reach.last) & (last >= self.reach.first) | own
        if self.home is not None:
            batch = batch.append_column(self.home, pa.array(own))
        if kept.all():
            return batch
        rows = np.flatnonzero(kept)
        if not len(rows):
            return None
        if rows[-1] - rows[0] == len(rows) - 1:
            return batch.slice(rows[0], len(rows))
        return batch.filter(pa.array(kept))

    def _times(self, batch: pa.RecordBatch, column: str) -> Integers:
        times = batch.column(column)
        return places(times, step_of(times.type) // self.step, nulls=LOWEST)


class Work(Protocol):
    """What a task does with the rows that it reads."""

    def batches(self, tables: list[pa.Table], own: Range) -> Iterator[pa.RecordBatch]:
        """Yield the part of the result that belongs to a slice."""


@dataclass(frozen=True)
class Task:
    """A part of a call: reads some row groups, and returns one slice of the result.

    Tasks can be pickled, and can run in any process that can read the files. A task returns the
    same rows in the same order each time it runs.

    Example:
        >>> [task] = plan.tasks
        >>> task.number, task.row_groups, task.rows, task.share
        (0, 2, 6, 1.0)
    """

    number: int
    """The position of the task in the plan. Slices are numbered in time order."""

    name: str
    """The name of the file that `write` creates, which depends only on the plan."""

    schema: pa.Schema
    """The columns of the result."""

    row_groups: int
    """The number of row groups that the task reads."""

    rows: int
    """The number of rows in these row groups."""

    size: int
    """The uncompressed size of their columns in bytes."""

    share: float
    """The task's share of the bytes that all tasks of the plan read."""

    _own: Range = field(repr=False)
    _work: Work = field(repr=False)
    _inputs: tuple[Rows, ...] = field(repr=False)

    def run(self) -> pa.RecordBatchReader:
        """Run the task, and return its part of the result, batch by batch.

        Example:
            >>> plan.tasks[0].run().read_all()["bid"].to_pylist()
            [9, 8, 7]

        Raises:
            TidegateError: A file has changed since the plan was made, or cannot be read.
        """
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        tables = [rows.read() for rows in self._inputs]
        for batch in self._work.batches(tables, self._own):
            if batch.num_rows:
                same = batch.schema.equals(self.schema)
                yield batch if same else converted(batch, self.schema)

    def write(self, folder: str | os.PathLike[str]) -> str:
        """Run the task, and write its part of the result to a Parquet file.

        The file appears under its name only when it is complete. If the task runs again, its file
        is replaced by one with the same rows.

        Example:
            >>> pathlib.Path("pairs").mkdir()
            >>> pq.read_table(plan.tasks[0].write("pairs")).num_rows
            3

        Args:
            folder: An existing folder, or the URL of a folder, such as "s3://bucket/result".

        Returns:
            The path or URL of the file.

        Raises:
            TidegateError: The task failed, or the file cannot be written.
        """
        address = file_in(os.fspath(folder), self.name)
        with written_whole(address, Format.PARQUET, self.schema) as writer:
            for batch in self._batches():
                writer.write_batch(batch)
        return address
