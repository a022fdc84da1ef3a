"""Cells: the row groups into which a preparation step divides rows, by length and time.

In a join on times, every row has length 0. In an overlap join, rows are first divided into length
classes. Each class has its own cells, and the cells for longer rows are wider. The latest possible
end in a cell is therefore known before its rows are read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tidegate.slices.cuts import moved
from tidegate.slices.footers import HIGHEST, Integers

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Cells:
    """The time ranges of the cells in each length class."""

    cuts: tuple[Integers, ...]
    """For each class, the first times of all cells except the first cell."""

    limits: tuple[int, ...]
    """The maximum row length in each class."""

    def within(self, first: int, last: int) -> Cells:
        """Return only the cells that can contain rows between these times."""
        some = tuple(cuts[(cuts > first) & (cuts <= last)] for cuts in self.cuts)
        return Cells(some, self.limits)

    @property
    def _starts(self) -> Integers:
        """The number of each class's first cell, followed by the number of cells."""
        return np.cumsum([0, *(len(cuts) + 1 for cuts in self.cuts)])

    def __len__(self) -> int:
        """Return the number of cells."""
        return int(self._starts[-1])

    def numbers(self, first: Integers, length: np.ndarray) -> Integers:
        """Return, for each row, the number of the cell that contains it."""
        kind = np.searchsorted(np.array(self.limits, np.uint64), length)
        found = self._starts[kind]
        for at, cuts in enumerate(self.cuts):
            of_class = slice(None) if len(self.cuts) == 1 else kind == at
            found[of_class] += np.searchsorted(cuts, first[of_class], "right")
        return found

    def counts(self, first: int, last: int, times: Sequence[Integers]) -> Integers:
        """Count the times in each cell.

        Args:
            first: The earliest time to count.
            last: The latest time to count.
            times: The row times in each class, in ascending order.
        """
        found = []
        for cuts, of_class in zip(self.cuts, times, strict=True):
            begin = np.searchsorted(of_class, [first, *cuts])
            end = np.searchsorted(of_class, last, "right")
            found.append(np.diff(np.append(begin, end)))
        return np.concatenate(found)

    def spans(self, first: int, last: int, until: int) -> tuple[Integers, Integers, Integers]:
        """Return the first time, the last time and the latest possible row end of each cell.

        Args:
            first: The earliest row time.
            last: The latest row time.
            until: The latest row end.
        """
        starts = [np.concatenate([[first], cuts]) for cuts in self.cuts]
        ends = [np.concatenate([cuts - 1, [last]]) for cuts in self.cuts]
        reach = [
            np.minimum(moved(end, limit if limit <= HIGHEST else None, HIGHEST), until)
            for end, limit in zip(ends, self.limits, strict=True)
        ]
        return np.concatenate(starts), np.concatenate(ends), np.concatenate(reach)

    def lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the minimum and maximum possible row lengths in each cell."""
        longest = np.array(self.limits, np.uint64)
        shortest = np.concatenate([np.zeros(1, np.uint64), longest[:-1] + np.uint64(1)])
        count = np.diff(self._starts)
        return np.repeat(shortest, count), np.repeat(longest, count)
