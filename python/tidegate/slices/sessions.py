"""Plans and runs session aggregations in time slices.

A session belongs to the slice that contains its first row, and may end in any later slice:

    slice    │      0      │      1      │      2      │
    a key    │   ●●●   ●●●●┼●●●●●●●●●●●●●┼●●     ●●    │
    task 0       └────── both sessions ──────┘
    task 2                                      └─ one session

One preparation step per slice writes two kinds of rows to files:

- its *heads*: the rows of sessions that may have begun before the slice
- each key's last row, which is carried into later slices (`carries.py`)

From the carried rows, a task determines which of its rows belong to sessions that began earlier.
After its own rows, a task reads the heads of the following slices until all of its sessions have
ended. It then aggregates all rows of its sessions together, so its results are bit-for-bit the same
as those of the undivided call.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tidegate.bounded.ordered import LOWEST, places
from tidegate.io.destinations import file_in
from tidegate.io.pruning import step_of
from tidegate.slices.carries import Carry, merging
from tidegate.slices.footers import HIGHEST
from tidegate.slices.layers import Own
from tidegate.slices.plan import Stage
from tidegate.slices.scratch import metadata_of, rows_of, write_rows
from tidegate.slices.task import Range, Work
from tidegate.slices.window_rows import rows_of_windows, selected

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidegate._tidegate import AggregationQuery
    from tidegate.slices.footers import Integers
    from tidegate.slices.plan import Call, Preparation, Side
    from tidegate.slices.task import Rows

NEXT = b"next"
"""The metadata key in a heads file under which the first time in the next slice is stored."""


@dataclass(frozen=True)
class Found:
    """The sessions in some rows. The rows are numbered across all streams."""

    start: Integers
    end: Integers
    """The time at which each session ends if no further row arrives: its last row's time plus the
    gap."""

    rows: Integers
    """The rows of all sessions, session by session, each in merged order."""

    first: Integers
    """The position of each session's first row in `rows`, followed by the number of rows."""

    def rows_of(self, chosen: np.ndarray) -> Integers:
        """Return the rows of the chosen sessions."""
        rows: Integers = self.rows[np.repeat(chosen, np.diff(self.first))]
        return rows

    def last_rows(self, chosen: np.ndarray) -> Integers:
        """Return the last row of each chosen session."""
        rows: Integers = self.rows[self.first[1:][chosen] - 1]
        return rows

    def first_rows(self) -> Integers:
        """Return the first row of each session."""
        rows: Integers = self.rows[self.first[:-1]]
        return rows


@dataclass(frozen=True)
class Sessions:
    """Finds sessions in the rows of several streams."""

    query: AggregationQuery
    columns: tuple[str, str]
    """The result columns that contain each session's start and end."""

    step: int
    """The number of nanoseconds per time unit."""

    def of(self, tables: Sequence[pa.Table]) -> Found:
        """Find the sessions in the rows that satisfy the query's condition."""
        found, rows, first = rows_of_windows(self.query, tables)
        start, end = (self.times(found.column(name)) for name in self.columns)
        return Found(start, end, rows, first)

    def times(self, column: pa.ChunkedArray) -> Integers:
        """Return times in units of `step`."""
        return places(column, step_of(column.type) // self.step, nulls=LOWEST)

    def times_of(self, tables: Sequence[pa.Table]) -> Integers:
        """Return the row times of all streams."""
        return np.concatenate([self.times(table.column(self.query.on)) for table in tables])


@dataclass(frozen=True)
class SessionWork(Work):
    """Aggregates the sessions that begin in a slice."""

    sessions: Sessions
    schemas: tuple[pa.Schema, ...]
    """The columns of each stream."""

    folder: str
    """The folder with the heads."""

    def batches(self, tables: list[pa.Table], own: Range) -> Iterator[pa.RecordBatch]:
        """Yield the sessions that begin in a slice."""
        found = self.sessions.of(tables)
        here = own.has(found.start)
        kept = [[table] for table in selected(tables, found.rows_of(here))]
        border = own.last + 1
        is_open = here & (found.end >= border)
        while is_open.any() and border <= HIGHEST:
            # The last row of an open session represents the whole session.
            ends = selected(tables, found.last_rows(is_open))
            heads, border = self._heads(border)
            tables = [pa.concat_tables(pair) for pair in zip(ends, heads, strict=True)]
            is_end = np.concatenate(
                [
                    np.repeat([True, False], [end.num_rows, head.num_rows])
                    for end, head in zip(ends, heads, strict=True)
                ]
            )
            found = self.sessions.of(tables)
            here = is_end[found.first_rows()]
            rows = found.rows_of(here)
            for parts, more in zip(kept, selected(tables, rows[~is_end[rows]]), strict=True):
                parts.append(more)
            is_open = here & (found.end >= border)
        whole = [pa.concat_tables(parts) for parts in kept]
        yield from self.sessions.query.table(whole).to_batches()

    def _heads(self, border: int) -> tuple[list[pa.Table], int]:
        """Return the heads of the slice that begins at a boundary, and the next boundary."""
        paths = [heads_path(self.folder, at, border) for at in range(len(self.schemas))]
        heads = [
            pa.Table.from_batches(rows_of(path, schema), schema)
            for path, schema in zip(paths, self.schemas, strict=True)
        ]
        return heads, int(metadata_of(paths[0])[NEXT])


@dataclass(frozen=True)
class FindHeads:
    """A preparation step that writes a slice's heads and each key's last row."""

    sessions: Sessions
    inputs: tuple[Rows, ...]
    carries: tuple[Carry, ...]
    number: int
    own: Range
    folder: str

    def run(self) -> None:
        """Write the rows.

        Raises:
            TidegateError: A file has changed since the plan was created, or cannot be read or
                written.
        """
        tables = [rows.read() for rows in self.inputs]
        found = self.sessions.of(tables)
        if self.number:
            rows = found.rows_of(self._may_continue(found, tables))
            for at, heads in enumerate(selected(tables, rows)):
                path = heads_path(self.folder, at, self.own.first)
                metadata = {NEXT: str(self.own.last + 1)}
                write_rows(path, heads.replace_schema_metadata(metadata))
        every = selected(tables, found.rows)
        for carry, rows in zip(self.carries, every, strict=True):
            if carry.reads(self.number):
                kept = carry.last_rows(rows, self.sessions.query.on)
                write_rows(carry.total(0, carry.node(self.number)), kept)

    def _may_continue(self, found: Found, tables: list[pa.Table]) -> np.ndarray:
        """Return which sessions may continue sessions that began before the slice."""
        if not len(found.start):
            return np.zeros(0, bool)
        last = self.sessions.times_of(tables)[found.last_rows(np.ones(len(found.start), bool))]
        gap = int((found.end - last).max())
        may: np.ndarray = found.start <= min(self.own.first + gap, HIGHEST)
        return may


def heads_path(folder: str, stream: int, border: int) -> str:
    """Return the path of a heads file."""
    return file_in(folder, f"heads-{stream}-{border}.arrows")


def prepared(
    call: Call, sessions: Sessions, sides: Sequence[Side], cut: Integers, folder: str
) -> tuple[Call, list[Side]]:
    """Add preparation steps to a call, and add the carried rows to its streams."""
    by = sessions.query.arguments["by"] or ()
    keys = (by,) if isinstance(by, str) else tuple(by)
    starts = [LOWEST, *cut.tolist(), HIGHEST + 1]
    carries = tuple(
        Carry(folder, f"before-{at}", len(cut) + 1, side.schema, keys, nulls=True)
        for at, side in enumerate(sides)
    )

    def found(number: int) -> Preparation:
        own = Range(starts[number], starts[number + 1] - 1)
        inputs = tuple(side.rows(number, Own(own)) for side in sides)
        return FindHeads(sessions, inputs, carries, number, own, folder)

    stages = [Stage(range(len(cut) + 1), found), *merging(carries)]
    work = SessionWork(sessions, tuple(side.schema for side in sides), folder)
    notes = _notes(carries, stages)
    full = [replace(side, carries=(one,)) for side, one in zip(sides, carries, strict=True)]
    return replace(call, work=work, preparations=[*call.preparations, *stages], notes=notes), full


def _notes(carries: Sequence[Carry], stages: Sequence[Sequence[Preparation]]) -> list[str]:
    """Explain the preparation steps."""
    merges = sum(map(len, stages[1:]))
    files = sum(one.files + len(stages[0]) - 1 for one in carries)
    levels = sum(one.levels for one in carries)
    first = f"  prepare    {len(stages[0]):,} preparation steps read all rows once more to find "
    first += "the sessions that cross slice boundaries and the last row per key before each slice; "
    first += f"stages: {len(stages)}, merges: {merges:,}"
    second = f"  scratch    {files:,} files: the rows of sessions that cross slice boundaries, and "
    second += f"the last row per key; a task reads up to {levels} of these, plus any that its "
    second += "sessions extend into"
    return [first, second]
