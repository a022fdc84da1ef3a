"""Reads a slice's rows, and returns or writes a task's result.

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

from tidegate.bounded.ordered import HIGHEST, LOWEST, PLACE, places
from tidegate.io.destinations import file_in, written_whole
from tidegate.io.files import Format, converted, with_wide_indices, without_views
from tidegate.io.open_tables import checked
from tidegate.io.pruning import step_of
from tidegate.slices.scratch import rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow.compute as pc

    from tidegate.slices.files import File
    from tidegate.slices.footers import Groups, Integers


@dataclass(frozen=True)
class Range:
    """An inclusive range of times."""

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
    starts: tuple[int, ...] = ()
    """The position of each row group's first row in the input. Empty for files written by a
    preparation step, which contain the position of each row."""


def parts_of(
    files: Sequence[File], groups: Groups, which: Integers, starts: Integers | None = None
) -> tuple[Part, ...]:
    """Return some row groups, file by file.

    Args:
        files: The files that contain the row groups.
        groups: The row groups.
        which: The numbers of the row groups to return.
        starts: The position of each row group's first row in the input.
    """
    found: dict[int, list[int]] = {}
    for at in which.tolist():
        found.setdefault(int(groups.file[at]), []).append(at)
    return tuple(
        Part(
            files[file],
            tuple(groups.number[some].tolist()),
            () if starts is None else tuple(starts[some].tolist()),
        )
        for file, some in found.items()
    )


@dataclass(frozen=True)
class AllRows:
    """All rows in some row groups of an input."""

    name: str
    """The argument name to show in messages."""

    schema: pa.Schema
    """The columns to read."""

    parts: tuple[Part, ...]
    where: pc.Expression | None

    def read(self) -> pa.Table:
        """Read the rows.

        Raises:
            TidegateError: A file has changed since the plan was created, or cannot be read.
        """
        return pa.Table.from_batches(self._unfiltered(), self.schema)

    def _unfiltered(self) -> Iterator[pa.RecordBatch]:
        for part in self.parts:
            part.file.check()
            yield from self._of(part, self.schema)

    def _of(self, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        return checked(part.file.batches(part.numbers, schema, self.where), self.name)


@dataclass(frozen=True)
class Rows(AllRows):
    """The rows that a task reads from one input because of their times."""

    on: str
    until: str
    step: int
    """The number of nanoseconds per unit in the times below."""

    own: Range
    """The time range of the rows that belong to the slice."""

    reach: Range | None
    """The time range of additional rows to read: rows that begin no later than its end and end no
    earlier than its start. If None, only rows that belong to the slice are read."""

    home: str | None
    """The name of a column to add, which marks the rows that belong to the slice."""

    lengths: tuple[int, int] | None = None
    """The minimum and maximum lengths of rows that belong to the slice; None for any length."""

    restores: bool = False
    """Whether a preparation step wrote some of the parts. If so, the rows are sorted by position to
    restore the input order."""

    horizon: int | None = None
    """The latest start on either side, which replaces null and later ends. A null start is then
    earlier than all times. If None, a row with a null start or end matches nothing."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    """Files in the scratch folder whose rows precede and follow these rows."""

    def read(self) -> pa.Table:
        """Read the rows.

        Raises:
            TidegateError: A file has changed since the plan was created, or cannot be read.
        """
        schema = self._with_home(widened(self.schema) if self.restores else self.schema)
        before, after = (
            chain.from_iterable(rows_of(path, schema) for path in paths)
            for paths in (self.before, self.after)
        )
        rows: Iterator[pa.RecordBatch] = self._batches()
        if self.restores:
            found = in_order_of_input(self.with_places()).drop_columns(PLACE)
            rows = iter(found.to_batches())
        return pa.Table.from_batches(chain(before, rows, after), schema)

    def with_places(self) -> pa.Table:
        """Read the rows, with a `PLACE` column that contains their positions in the input."""
        schema = with_place(self.schema)
        return pa.Table.from_batches(self._batches(), self._with_home(schema))

    def _with_home(self, schema: pa.Schema) -> pa.Schema:
        return schema if self.home is None else schema.append(pa.field(self.home, pa.bool_()))

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for part in self.parts:
            part.file.check()
            batches = self._placed(part) if self.restores else self._of(part, self.schema)
            for batch in batches:
                if kept := self._kept(batch):
                    yield kept

    def _placed(self, part: Part) -> Iterator[pa.RecordBatch]:
        """Yield the rows in a part, with their positions."""
        schema = with_place(self.schema)
        if not part.starts:
            yield from self._of(part, schema)
            return
        for start, rows in zip(
            part.starts, part.file.by_row_group(part.numbers, self.schema), strict=True
        ):
            at = start
            for batch in checked(rows, self.name):
                place = pa.array(np.arange(at, at + batch.num_rows))
                at += batch.num_rows
                yield converted(batch.append_column(PLACE, place), schema)

    def _kept(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Return the rows that belong to the slice or may match its rows, or None for no rows."""
        first = self._times(batch, self.on)
        own = self.own.has(first)
        if self.lengths is not None:
            length = self.spans(batch)[1]
            own &= (length >= self.lengths[0]) & (length <= self.lengths[1])
        kept = own
        if self.reach is not None:
            last = first if self.until == self.on else self._ends(batch)
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

    def spans(self, batch: pa.RecordBatch) -> tuple[Integers, np.ndarray]:
        """Return each row's time and length; the length is 0 if the row can match nothing."""
        first = self._times(batch, self.on)
        if self.until == self.on:
            return first, np.zeros(len(first), np.uint64)
        last = self._ends(batch)
        # The difference of two 64-bit integers fits into 64 bits without a sign.
        length = np.where(last > first, last.view(np.uint64) - first.view(np.uint64), 0)
        if batch.column(self.on).null_count and self.horizon is None:
            length[batch.column(self.on).is_null().to_numpy(zero_copy_only=False)] = 0
        return first, length.astype(np.uint64)

    def _ends(self, batch: pa.RecordBatch) -> Integers:
        if self.horizon is None:
            return self._times(batch, self.until)
        ends: Integers = np.minimum(self._times(batch, self.until, HIGHEST), self.horizon)
        return ends

    def _times(self, batch: pa.RecordBatch, column: str, nulls: int = LOWEST) -> Integers:
        times = batch.column(column)
        return places(times, step_of(times.type) // self.step, nulls=nulls)


def with_place(schema: pa.Schema) -> pa.Schema:
    """Return the schema of a file that a preparation step writes."""
    return widened(schema).append(pa.field(PLACE, pa.int64(), nullable=False))


def widened(schema: pa.Schema) -> pa.Schema:
    """Return the schema of rows that have been written to several files and read back."""
    return with_wide_indices(without_views(schema))


def in_order_of_input(table: pa.Table) -> pa.Table:
    """Sort rows by position in the input."""
    place = table.column(PLACE).to_numpy()
    if np.all(place[1:] > place[:-1]):
        return table
    return table.combine_chunks().take(pa.array(np.argsort(place, kind="stable")))


class Work(Protocol):
    """Processes the rows that a task reads."""

    def batches(self, tables: list[pa.Table], own: Range) -> Iterator[pa.RecordBatch]:
        """Yield the part of the result that belongs to a slice."""

    def of_slice(self, number: int, own: Range) -> Work:  # noqa: ARG002 - most works are alike
        """Return what the task of a slice does, given the slice's number and time range."""
        return self


@dataclass(frozen=True)
class Task:
    """A part of a call: reads some row groups, and returns one slice of the result.

    Tasks can be pickled and run in any process that can read the files. A task returns the same
    rows in the same order each time it runs.

    Example:
        >>> [task] = plan.tasks
        >>> task.number, task.row_groups, task.rows, task.share
        (0, 2, 6, 1.0)
    """

    number: int
    """The position of the task in the plan. Slices are numbered in time order. Tasks that process
    long rows in an overlap join have higher numbers. Tasks that join with an index are numbered in
    the order of their left rows."""

    name: str
    """The name of the file that `write` creates, which depends only on the plan."""

    schema: pa.Schema
    """The columns of the result."""

    row_groups: int
    """The number of row groups that the task reads."""

    rows: int
    """The number of rows in these row groups; an estimate if preparation steps sort some rows."""

    size: int
    """The uncompressed size, in bytes, of the columns that the task reads; an estimate if
    preparation steps sort some rows, or if the task probably has no rows to process."""

    share: float
    """The task's share of the bytes that all tasks in the plan read."""

    _own: Range = field(repr=False)
    _work: Work = field(repr=False)
    _inputs: tuple[AllRows, ...] = field(repr=False)
    _needed: int | None = field(default=None, repr=False)
    """An input; if it has no rows, neither does the result."""

    def run(self) -> pa.RecordBatchReader:
        """Run the task, and return its part of the result, batch by batch.

        Example:
            >>> plan.tasks[0].run().read_all()["bid"].to_pylist()
            [9, 8, 7]

        Raises:
            TidegateError: A file has changed since the plan was created, or cannot be read.
        """
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        tables = self._tables()
        if tables is None:
            return
        for batch in self._work.batches(tables, self._own):
            if batch.num_rows:
                same = batch.schema.equals(self.schema)
                yield batch if same else converted(batch, self.schema)

    def _tables(self) -> list[pa.Table] | None:
        """Read the inputs, or return None if the result has no rows."""
        if self._needed is None:
            return [rows.read() for rows in self._inputs]
        needed = self._inputs[self._needed].read()
        if not needed.num_rows:
            return None
        return [
            needed if at == self._needed else rows.read() for at, rows in enumerate(self._inputs)
        ]

    def write(self, folder: str | os.PathLike[str]) -> str:
        """Run the task, and write its part of the result to a Parquet file.

        The file appears under its name only when it is complete. If the task runs again, its file
        is replaced by one with the same rows.

        Example:
            >>> pathlib.Path("pairs").mkdir()
            >>> pq.read_table(plan.tasks[0].write("pairs")).num_rows
            3

        Args:
            folder: An existing folder, or a folder URL such as "s3://bucket/result".

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
