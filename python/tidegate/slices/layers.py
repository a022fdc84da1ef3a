"""Layers: additional tasks in an overlap join, for rows that are longer than most.

To find all partners of its rows, a task reads the other side as far as its longest row reaches. To
keep this distance short, slice tasks process only short rows. Each layer processes rows in a
certain length range, in slices about as wide as these rows are long.
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
    """The input rows that belong to a task."""

    times: Range
    lengths: tuple[int, int] | None = None
    """The minimum and maximum lengths of these rows; None for any length."""

    only: bool = False
    """Whether the task reads no other rows from the input."""


@dataclass(frozen=True)
class Layer:
    """The rows from one side that an additional task processes."""

    side: int
    own: Range
    """The time range of the rows."""

    shortest: int
    longest: int
    """The inclusive range of row lengths."""

    is_likely: bool
    """Whether such rows are likely to exist. If none exist, the task reads nothing else."""

    def of(self, side: int) -> Own:
        """Return the rows from a side that belong to the task."""
        if side == self.side:
            return Own(self.own, (self.shortest, self.longest), only=True)
        return Own(NONE)


@dataclass(frozen=True)
class Layers:
    """The additional tasks in a plan."""

    limit: int
    """The length of the longest row that the slice tasks process."""

    tasks: tuple[Layer, ...]
    """Ordered by side, then by length, then by time."""


@dataclass(frozen=True)
class Access:
    """The rows that each task reads from one side."""

    ranges: Ranges
    """The time range that each task reads: slice tasks in time order, followed by layers."""

    is_own: bool = False
    """Whether tasks read only rows that belong to their slices."""

    cells: Cells | None = None
    """The cells into which to sort rows; None to derive them from the ranges."""

    layers: Layers | None = None
    side: int = 0

    @property
    def slices(self) -> int:
        """The number of slices."""
        return len(self.ranges.first) - (0 if self.layers is None else len(self.layers.tasks))

    @property
    def needed(self) -> Ranges:
        """The time ranges in which tasks need all rows, not only rows of certain lengths."""
        every = np.arange(len(self.ranges.first))
        if self.layers is not None:
            own = [False] * self.slices + [one.side == self.side for one in self.layers.tasks]
            every = every[~np.array(own)]
        return self.ranges.those(every)

    def reads(self, groups: Groups, shortest: np.ndarray, longest: np.ndarray) -> Reads:
        """Return the row groups that each task reads.

        Args:
            groups: The side's row groups.
            shortest: The minimum possible row length in each row group.
            longest: The maximum possible row length in each row group.
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
    """Return the lengths of spans as unsigned 64-bit integers; 0 for negative lengths."""
    found: np.ndarray = np.where(last > first, last.view(np.uint64) - first.view(np.uint64), 0)
    return found.astype(np.uint64)
