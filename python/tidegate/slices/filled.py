"""Plans and runs aggregations with windows without rows in time slices.

A window belongs to the slice that contains its start. Whether a key has windows without rows in a
slice, and what they contain, depends on the key's nearest windows with rows in other slices:

    slice    │      0      │      1      │      2      │
    a key    │  ■   ■   ·  │  ·   ·   ·  │  ■   ·      │   ■ has rows, · is added
    task 1          └──────── reads ────────┘

One preparation step per slice computes the slice's windows with rows, and writes each key's first
and last window to files, which are carried into other slices (`carries.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from tidegate.io.files import converted
from tidegate.slices.carries import Carry, merging
from tidegate.slices.footers import HIGHEST, LOWEST
from tidegate.slices.layers import Own
from tidegate.slices.plan import Stage
from tidegate.slices.scratch import rows_of, write_rows
from tidegate.slices.task import Range, Work
from tidegate.slices.windows import AggregationWork

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tidegate._tidegate import AggregationQuery
    from tidegate.slices.footers import Integers
    from tidegate.slices.plan import Call, Preparation, Side
    from tidegate.slices.task import Rows


@dataclass(frozen=True)
class FilledWindows:
    """Adds windows without rows to windows with rows."""

    query: AggregationQuery
    work: AggregationWork
    """Computes the windows with rows."""

    streams: tuple[pa.Schema, ...]
    windows: pa.Schema
    """The columns of the result."""

    @staticmethod
    def of(
        query: AggregationQuery, streams: Sequence[pa.Schema], start: str, step: int
    ) -> FilledWindows:
        """Return the windows of a query for streams with these columns."""
        plain = without_fill(query)
        work = AggregationWork(plain, start, step)
        return FilledWindows(query, work, tuple(streams), plain.plan(streams).schema)

    @property
    def keys(self) -> tuple[str, ...]:
        """The key columns."""
        by = self.query.arguments["by"] or ()
        return (by,) if isinstance(by, str) else tuple(by)

    def with_rows(self, tables: list[pa.Table], own: Range) -> pa.Table:
        """Return the windows with rows that start in a slice, in time order."""
        return self.table(self.work.batches(tables, own))

    def table(self, batches: Iterable[pa.RecordBatch]) -> pa.Table:
        """Return batches of windows as a table."""
        typed = [converted(batch, self.windows) for batch in batches]
        return pa.Table.from_batches(typed, self.windows)

    def filled(self, windows: pa.Table, own: Range) -> pa.Table:
        """Add windows without rows, and return all windows that start in a slice."""
        return self.query.filled(windows, self.streams, first=own.first, last=own.last)


def without_fill(query: AggregationQuery) -> AggregationQuery:
    """Return the same query with only the windows that have rows."""
    return query.replace(empty=None, keep=None, start=None, end=None)


@dataclass(frozen=True)
class FillWork(Work):
    """Aggregates the windows that start in a slice, including those without rows."""

    windows: FilledWindows
    carries: tuple[Carry, ...]
    entries: tuple[str, ...] = ()
    """The files with the windows of other slices."""

    def of_slice(self, number: int, own: Range) -> Work:  # noqa: ARG002 - as for any work
        """Return what the task of a slice does."""
        entries = [path for one in self.carries for path in one.entries(number)]
        return replace(self, entries=tuple(entries))

    def batches(self, tables: list[pa.Table], own: Range) -> Iterator[pa.RecordBatch]:
        """Yield the windows that start in a slice."""
        windows = self.windows
        mine = windows.with_rows(tables, own)
        others = (batch for path in self.entries for batch in rows_of(path, windows.windows))
        every = pa.concat_tables([mine, pa.Table.from_batches(others, windows.windows)])
        yield from windows.filled(every, own).to_batches()


@dataclass(frozen=True)
class FindEnds:
    """A preparation step that writes each key's first and last window in a slice."""

    windows: FilledWindows
    inputs: tuple[Rows, ...]
    carries: tuple[Carry, ...]
    number: int
    own: Range

    def run(self) -> None:
        """Write the windows.

        Raises:
            TidegateError: A file has changed since the plan was created, or cannot be read or
                written.
        """
        found = self.windows.with_rows([rows.read() for rows in self.inputs], self.own)
        for carry in self.carries:
            if carry.reads(self.number):
                path = carry.total(0, carry.node(self.number))
                write_rows(path, carry.last_rows(found))


def prepared(
    call: Call, windows: FilledWindows, sides: Sequence[Side], cut: Integers, folder: str
) -> Call:
    """Add preparation steps to a call."""
    starts = [LOWEST, *cut.tolist(), HIGHEST + 1]
    slices = len(cut) + 1
    carries = tuple(
        Carry(folder, name, slices, windows.windows, windows.keys, backwards, nulls=True)
        for name, backwards in (("before", False), ("after", True))
    )

    def found(number: int) -> Preparation:
        own = Range(starts[number], starts[number + 1] - 1)
        inputs = tuple(side.rows(number, Own(own)) for side in sides)
        return FindEnds(windows, inputs, carries, number, own)

    stages = [Stage(range(slices), found), *merging(carries)]
    preparations = [*call.preparations, *stages]
    work = FillWork(windows, carries)
    notes = _notes(carries, stages)
    return replace(call, work=work, preparations=preparations, notes=notes, carries=True)


def _notes(carries: Sequence[Carry], stages: Sequence[Sequence[Preparation]]) -> list[str]:
    """Explain the preparation steps."""
    merges = sum(map(len, stages[1:]))
    files = sum(one.files for one in carries)
    levels = sum(one.levels for one in carries)
    first = (
        f"  prepare    {len(stages[0]):,} preparation steps read all rows once more to find the "
    )
    first += f"nearest windows with rows; stages: {len(stages)}, merges: {merges:,}"
    second = (
        f"  scratch    {files:,} files: one window per key before and after each slice; a task "
    )
    second += f"reads up to {levels} of these files"
    return [first, second]
