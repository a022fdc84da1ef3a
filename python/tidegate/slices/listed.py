"""Divides the windows of a table among tasks.

A window belongs to the slice that contains its start. The slice's task also reads the rows of later
slices, up to the latest end of its windows:

    slice    │      0      │      1      │      2      │
    windows  │  ├────┤  ├──┼─────┤       │   ├─────┤   │
             │       ├─────┤             │             │
    task 0      └──── reads ─────┘
    task 2                                   └─────┘
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tidegate import _tidegate
from tidegate.bounded.ordered import LOWEST, places
from tidegate.io.pruning import step_of
from tidegate.slices.cuts import Ranges
from tidegate.slices.windows import AggregationWork

if TYPE_CHECKING:
    from tidegate._tidegate import AggregationQuery
    from tidegate.slices.footers import Integers
    from tidegate.slices.task import Range, Work


@dataclass(frozen=True)
class ListedWindows:
    """The windows of a table."""

    starts: Integers
    ends: Integers

    @staticmethod
    def of(table: pa.Table, step: int) -> ListedWindows:
        """Read the windows of a table; `step` is the number of nanoseconds per time unit."""
        bounds = (table.column(name) for name in ("window_start", "window_end"))
        starts, ends = (
            places(times, step_of(times.type) // step, nulls=LOWEST) for times in bounds
        )
        return ListedWindows(starts, ends)

    def ranges(self, cut: Integers) -> Ranges:
        """Return the rows that each slice reads: those in the windows that start in the slice."""
        # Slices without windows read nothing.
        first = np.full(len(cut) + 1, LOWEST)
        last = np.full(len(cut) + 1, LOWEST)
        slices = np.searchsorted(cut, self.starts, "right")
        found = np.unique(slices)
        first[found] = np.iinfo(np.int64).max
        np.minimum.at(first, slices, self.starts)
        np.maximum.at(last, slices, self.ends - (self.ends > LOWEST))
        return Ranges(first, last)


@dataclass(frozen=True)
class ListedWork(AggregationWork):
    """Aggregates the windows of a table that start in a slice."""

    listed: ListedWindows

    def of_slice(self, number: int, own: Range) -> Work:  # noqa: ARG002 - as for any work
        """Return the work for a task, with only the windows that start in the slice."""
        windows: pa.Table = self.query.arguments["windows"]
        here = windows.filter(pa.array(own.has(self.listed.starts))).combine_chunks()
        return AggregationWork(self.query.replace(windows=here), self.start, self.step)


def told(query: AggregationQuery) -> dict[str, object]:
    """Return the arguments of a query, with a digest in place of its windows."""
    digest = _tidegate.Digest(query.arguments["windows"].schema)
    digest.update(query.arguments["windows"])
    return {**query.arguments, "windows": digest.ordered}
