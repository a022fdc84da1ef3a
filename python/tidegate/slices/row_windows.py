"""Plans and runs aggregations over row-based windows in time slices.

A window belongs to the slice that contains its first row, and may end in any later slice. The rows
of each key are numbered from the key's first row:

    slice    │      0      │      1      │      2      │
    a key    │  0  1  2  3 │     4       │ 5  6  7     │
    windows  │  ├─────┤  ├─┼─────┼───────┼─┤           │   with 3 rows each
    task 0     └─── reads rows 0 to 5 ─────┘

One preparation step per slice writes two things to files:

- how many rows each key has in the slice; the sums are carried into later slices (`key_rows.py`)
- each key's first rows in the slice, which are carried into earlier slices (`carries.py`)

From the sums, a task determines the numbers of its rows. The carried rows complete the
windows that extend into later slices.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tidegate.slices.carries import Carry
from tidegate.slices.key_rows import Counts, RowCounter, counting, notes
from tidegate.slices.task import Work
from tidegate.slices.window_rows import selected

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from tidegate.slices.footers import Integers
    from tidegate.slices.plan import Call, Side
    from tidegate.slices.task import Range
    from tidegate.slices.windows import AggregationWork
    from tidegate.windows import Rows


@dataclass(frozen=True)
class RowWindowWork(Work):
    """Aggregates the windows that begin in a slice."""

    work: AggregationWork
    counts: Counts
    entries: tuple[str, ...] = ()
    """The files with the numbers of rows before the slice."""

    def of_slice(self, number: int, own: Range) -> Work:  # noqa: ARG002 - as for any work
        """Return what the task of a slice does."""
        return replace(self, entries=self.counts.entries(number))

    def batches(self, tables: list[pa.Table], own: Range) -> Iterator[pa.RecordBatch]:
        """Yield the windows that begin in a slice."""
        assert self.counts.counter is not None  # noqa: S101 - for mypy
        query = self.work.query
        found = self.counts.counter.rows(tables, self.entries)
        times = np.concatenate([self.work.times(table.column(query.on)) for table in tables])
        ordinals = np.zeros(len(times), np.int64)
        ordinals[found.rows] = found.ordinals
        every = np.sort(found.rows)
        merged = every[np.argsort(times[every], kind="stable")]
        rows = selected(tables, every)
        tables.clear()
        windows = query.table(rows, ordinals=ordinals[merged].tolist())
        yield from self.work.here(windows, own)


def prepared(
    call: Call, work: AggregationWork, sides: Sequence[Side], cut: Integers, folder: str
) -> tuple[Call, list[Side]]:
    """Add preparation steps to a call, and add the carried rows to its streams."""
    size: Rows = work.query.arguments["size"]
    slices, most = len(cut) + 1, size.count - 1
    counter = RowCounter.of(work.query, [side.schema for side in sides])
    counts = Counts.of(counter, slices, folder)
    carries = tuple(
        Carry(
            folder,
            f"after-{at}",
            slices,
            side.schema,
            counter.keys,
            backwards=True,
            nulls=True,
            most=most,
        )
        for at, side in enumerate(sides)
        if most
    )
    stages, full = counting(counts, carries, sides, cut)
    told = notes([counts, *carries], stages, most, "after")
    preparations = [*call.preparations, *stages]
    own = RowWindowWork(work, counts)
    return replace(call, work=own, preparations=preparations, notes=told, carries=True), full
