"""Layers: additional tasks of an overlap join, for rows that are longer than most.

A task finds all partners of its rows, so it reads the other side as far as the longest of them
reaches. To keep this distance short, the tasks of slices process only short rows. Each layer
processes the rows whose lengths are in a certain range, in slices about as wide as these rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from tidegate.slices.cuts import Reads
from tidegate.slices.task import Range

if TYPE_CHECKING:
    from tidegate.slices.cells import Cells
    from tidegate.slices.cuts import Ranges
    from tidegate.slices.footers import Groups


NONE = Range(1, 0)
"""A range without any times."""


@dataclass(frozen=True)
class Own:
    """The rows of an input that belong to a task."""

    times: Range
    lengths: tuple[int, int] | None = None
    """The lengths of the shortest and the longest of these rows; None for any lengths."""

    only: bool = False
    """Whether the task reads no other rows of the input."""


@dataclass(frozen=True)
class Layer:
    """The rows of one side that an additional task processes."""

    side: int
    own: Range
    """The times of the rows."""

    shortest: int
    longest: int
    """The lengths of the rows, both ends inclusive."""

    is_likely: bool
    """Whether there are probably such rows. If there are none, the task reads nothing else."""

    def of(self, side: int) -> Own:
        """Return the rows of a side that belong to the task."""
        if side == self.side:
            return Own(self.own, (self.shortest, self.longest), only=True)
        return Own(NONE)


@dataclass(frozen=True)
class Layers:
    """The additional tasks of a plan."""

    limit: int
    """The length of the longest row that the tasks of slices process."""

    tasks: tuple[Layer, ...]
    """Ordered by side, then by length, then by time."""


@dataclass(frozen=True)
class Access:
    """The rows that each task reads from one side."""

    ranges: Ranges
    """The times that each task reads: the slices in time order, and then the layers."""

    is_own: bool = False
    """Whether tasks read only rows that belong to their slices."""

    cells: Cells | None = None
    """The cells into which to sort rows; None for those of the slices."""

    layers: Layers | None = None
    side: int = 0

    @property
    def slices(self) -> int:
        """The number of slices."""
        return len(self.ranges.first) - (0 if self.layers is None else len(self.layers.tasks))

    @property
    def needed(self) -> Ranges:
        """The times at which tasks need all rows, not only those of certain lengths."""
        every = np.arange(len(self.ranges.first))
        if self.layers is not None:
            own = [False] * self.slices + [one.side == self.side for one in self.layers.tasks]
            every = every[~np.array(own)]
        return self.ranges.those(every)

    def reads(self, groups: Groups, shortest: np.ndarray, longest: np.ndarray) -> Reads:
        """Return the row groups that each task reads.

        Args:
            groups: The row groups of the side.
            shortest: The length of the shortest row that each row group may contain.
            longest: The length of the longest row that each row group may contain.
        """
        until = groups.last if self.is_own else groups.until
        if self.layers is None:
            return self.ranges.reads(groups.first, until)
        every = np.arange(len(groups))
        some = every[shortest <= self.layers.limit] if self.is_own else every
        at = self.slices
        found = [
            self.ranges.those(slice(at)).reads(groups.first[some], until[some]).renumbered(some)
        ]
        for (side, least), tasks in groupby(
            self.layers.tasks, lambda one: (one.side, one.shortest)
        ):
            of_class = [*tasks]
            some, until = every, groups.until
            if side == self.side:
                some = every[(longest >= least) & (shortest <= of_class[0].longest)]
                until = groups.last
            ranges = self.ranges.those(slice(at, at + len(of_class)))
            found.append(ranges.reads(groups.first[some], until[some]).renumbered(some))
            at += len(of_class)
        return Reads.joined(found)


def lengths(first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Return the lengths of spans as 64-bit integers without sign; 0 for a negative length."""
    found: np.ndarray = np.where(last > first, last.view(np.uint64) - first.view(np.uint64), 0)
    return found.astype(np.uint64)
