"""Counts the rows of each key, and carries the counts into later slices.

The counts of a slice's keys are stored in a table with one row per key. In this table, a count is a
negative number, which distinguishes it from the number of a row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tidegate import _tidegate, agg
from tidegate.io.files import converted
from tidegate.slices.carries import Carry, merging
from tidegate.slices.footers import HIGHEST, LOWEST
from tidegate.slices.layers import Own
from tidegate.slices.plan import Stage
from tidegate.slices.scratch import rows_of, write_rows
from tidegate.slices.task import Range
from tidegate.slices.window_rows import ROW, collected, rows_of_windows, selected
from tidegate.windows import MOST, Rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate._tidegate import AggregationQuery
    from tidegate.slices.footers import Integers
    from tidegate.slices.plan import Preparation, Side
    from tidegate.slices.task import Rows as TaskRows

TIME = "\x1ftime"


@dataclass(frozen=True)
class KeyRows:
    """The rows of a slice, key by key, and the number of rows of each key before the slice."""

    before: Integers
    """For each key, the number of rows before the slice."""

    rows: Integers
    """The numbers of the rows of all keys, key by key, each in merged order."""

    count: Integers
    """For each key, how many of `rows` belong to it."""

    @property
    def key(self) -> Integers:
        """The key of each row."""
        return np.repeat(np.arange(len(self.count)), self.count)

    @property
    def place(self) -> Integers:
        """The position of each row among the rows of its key."""
        place: Integers = np.arange(len(self.rows)) - (np.cumsum(self.count) - self.count)[self.key]
        return place

    @property
    def ordinals(self) -> Integers:
        """For each row, the number of earlier rows with the same key in all slices."""
        ordinals: Integers = self.place + self.before[self.key]
        return ordinals

    def without(self, skipped: Integers) -> Integers:
        """Return the rows that remain if the given number of first rows is removed per key."""
        kept: Integers = self.rows[self.place >= skipped[self.key]]
        return kept


@dataclass(frozen=True)
class RowCounter:
    """Counts the rows of each key."""

    query: AggregationQuery
    """Returns a single window for each key."""

    keys: tuple[str, ...]
    schema: pa.Schema
    """A time, the keys, and the number of rows."""

    @staticmethod
    def of(query: AggregationQuery, schemas: Sequence[pa.Schema]) -> RowCounter:
        """Return a counter of the rows that a query aggregates."""
        query = query.replace(size=Rows(MOST), advance=None)
        by = query.arguments["by"] or ()
        keys = (by,) if isinstance(by, str) else tuple(by)
        plan = query.plan(schemas)
        fields = [plan.schema.field(0).with_name(TIME), *map(plan.schema.field, keys)]
        return RowCounter(query, keys, pa.schema([*fields, pa.field(ROW, pa.int64())]))

    @property
    def _of_counts(self) -> AggregationQuery:
        """The sum of several counts for each key."""
        return _tidegate.AggregationQuery(
            on=TIME,
            size=Rows(MOST),
            by=[*self.keys] or None,
            aggs={ROW: agg.sum(ROW)},
            threads=self.query.threads,
        )

    def counts(self, found: pa.Table, first: Integers) -> pa.Table:
        """Return the number of rows of each key, given what `rows_of_windows` returns."""
        return self._typed(found, pa.array(-np.diff(first)))

    def sums(self, counts: pa.Table) -> pa.Table:
        """Return the sums of several counts."""
        found = self._of_counts.table([counts])
        return self._typed(found, found.column(ROW))

    def _typed(self, found: pa.Table, counts: pa.Array | pa.ChunkedArray) -> pa.Table:
        columns = [found.column(0), *map(found.column, self.keys), counts]
        rows = pa.table(columns, self.schema.names)
        batches = [converted(batch, self.schema) for batch in rows.to_batches()]
        return pa.Table.from_batches(batches, self.schema)

    def rows(self, tables: Sequence[pa.Table], counts: Sequence[str]) -> KeyRows:
        """Return the rows of each key; `counts` contains the files with counts."""
        batches = [batch for path in counts for batch in rows_of(path, self.schema)]
        marked, start = [pa.Table.from_batches(batches, self.schema)], 0
        _, rows, _ = rows_of_windows(self.query, tables)
        used = np.zeros(sum(table.num_rows for table in tables), bool)
        used[rows] = True
        for table in tables:
            mine = np.flatnonzero(used[start : start + table.num_rows])
            columns = [table.column(self.query.on), *map(table.column, self.keys)]
            plain = pa.table(columns, [TIME, *self.keys]).take(pa.array(mine))
            marked.append(plain.append_column(ROW, pa.array(mine + start)))
            start += table.num_rows
        _, values, first = collected(self._of_counts, marked)
        keys = len(first) - 1
        key = np.repeat(np.arange(keys), np.diff(first))
        is_row = values >= 0
        before = -np.bincount(key, np.where(is_row, 0, values), keys).astype(np.int64)
        count = np.bincount(key, is_row, keys).astype(np.int64)
        return KeyRows(before, values[is_row], count)


@dataclass(frozen=True)
class Counts(Carry):
    """Carries the number of rows of each key into later slices."""

    counter: RowCounter | None = None

    @staticmethod
    def of(counter: RowCounter, slices: int, folder: str) -> Counts:
        """Return the counts of a call."""
        return Counts(folder, "counts", slices, counter.schema, counter.keys, counter=counter)

    def last_rows(self, rows: pa.Table, on: str | None = None) -> pa.Table:  # noqa: ARG002 - as for rows
        """Return the number of rows of each key."""
        assert self.counter is not None  # noqa: S101 - for mypy
        return self.counter.sums(rows)


@dataclass(frozen=True)
class CountRows:
    """A preparation step that counts a slice's rows, and writes rows to carry."""

    counter: RowCounter
    inputs: tuple[TaskRows, ...]
    counts: Counts
    carries: tuple[Carry, ...]
    """One for each input, or none."""

    number: int

    def run(self) -> None:
        """Write the counts and the rows.

        Raises:
            TidegateError: A file has changed since the plan was created, or cannot be read or
                written.
        """
        tables = [rows.read() for rows in self.inputs]
        found, rows, first = rows_of_windows(self.counter.query, tables)
        counts = self.counts
        if counts.reads(self.number):
            path = counts.total(0, counts.node(self.number))
            write_rows(path, self.counter.counts(found, first))
        for carry, every in zip(self.carries, selected(tables, rows), strict=False):
            if carry.reads(self.number):
                kept = carry.last_rows(every, self.counter.query.on)
                write_rows(carry.total(0, carry.node(self.number)), kept)


def counting(
    counts: Counts, carries: tuple[Carry, ...], sides: Sequence[Side], cut: Integers
) -> tuple[list[Sequence[Preparation]], list[Side]]:
    """Return the preparation steps, stage by stage, and the sides with the carried rows."""
    starts = [LOWEST, *cut.tolist(), HIGHEST + 1]
    assert counts.counter is not None  # noqa: S101 - for mypy
    counter = counts.counter

    def found(number: int) -> Preparation:
        own = Range(starts[number], starts[number + 1] - 1)
        inputs = tuple(side.rows(number, Own(own)) for side in sides)
        return CountRows(counter, inputs, counts, carries, number)

    stages = [Stage(range(len(cut) + 1), found), *merging([counts, *carries])]
    if not carries:
        return stages, [*sides]
    full = [replace(side, carries=(one,)) for side, one in zip(sides, carries, strict=True)]
    return stages, full


def notes(
    carries: Sequence[Carry], stages: Sequence[Sequence[Preparation]], most: int, where: str
) -> list[str]:
    """Explain the preparation steps, which carry up to `most` rows per key."""
    merges = sum(map(len, stages[1:]))
    files = sum(one.files for one in carries)
    levels = sum(one.levels for one in carries)
    first = (
        f"  prepare    {len(stages[0]):,} preparation steps read all rows once more to count the "
    )
    first += f"rows of each key; stages: {len(stages)}, merges: {merges:,}"
    second = f"  scratch    {files:,} files: the number of rows of each key before each slice, and "
    second += f"up to {most:,} rows per key {where} it; a task reads up to {levels} of these files"
    return [first, second]
