"""Chooses slice boundaries, and finds the row groups that each slice reads.

A boundary is the first time in a slice. Boundaries are chosen so that each slice reads about the
same number of bytes. Rows are assumed to be evenly distributed over their row group's time span. A
boundary is moved to the start of a nearby row group, so that fewer row groups are read by two
slices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tidegate.slices.footers import HIGHEST, LOWEST, Groups, Integers
from tidegate.slices.task import Range

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Target: TypeAlias = "int | Callable[[int], int]"
"""The number of bytes that a slice should read, or a function that converts the total input size in
bytes to the number of slices."""


def bytes_per_slice(target: Target, sides: Sequence[Groups]) -> int:
    """Return the number of bytes that a slice should read.

    Example:
        >>> bytes_per_slice(lambda size: 3, []), bytes_per_slice(100, [])
        (1, 100)
    """
    if not callable(target):
        return target
    size = sum(int(side.size.sum()) for side in sides)
    return max(1, -(-size // max(1, target(size))))


NEAR = 0.25
"""How far a boundary may move to reach a row group's start, as a share of a slice's bytes."""


def borders(
    sides: Sequence[Groups], target: int, grid: Callable[[Integers], Integers] | None = None
) -> Integers:
    """Return the slice boundaries in ascending order: the first time in each slice but the first.

    Args:
        sides: The row groups of each input. Boundaries move to the starts of the first input's row
            groups.
        target: The number of bytes that a slice should read.
        grid: Moves times back to possible boundaries. None means that all times are possible.

    Example:
        >>> first, last = np.array([0, 10, 20]), np.array([9, 19, 29])
        >>> number, rows, size = np.arange(3), np.full(3, 9), np.full(3, 90)
        >>> borders([Groups(number, number, rows, size, first, last, last)], 100).tolist()
        [10, 20]
    """
    size, first, last = (
        np.concatenate([getattr(side, name) for side in sides])
        for name in ("size", "first", "last")
    )
    # Rows without a time all belong to the first slice.
    timed = first > LOWEST
    size, first, last = size[timed].astype(float), first[timed], last[timed]
    slices = int(-(-size.sum() // target))
    if slices <= 1:
        return np.zeros(0, np.int64)
    origin = int(first.min())
    # Exact up to 2^53 units, which is enough to choose boundaries.
    begin = (first - origin).astype(float)
    end = np.maximum((last - origin).astype(float) + 1, begin + 1)
    curve = Curve.of(begin, end, size)
    wanted = np.arange(1, slices) * (curve.total[-1] / slices)
    found = np.interp(wanted, curve.total, curve.at)
    starts = np.unique(begin[: np.count_nonzero(sides[0].first > LOWEST)])
    if not len(starts):
        starts = begin
    near = starts[np.clip(np.searchsorted(starts, found), 0, len(starts) - 1)]
    before = starts[np.clip(np.searchsorted(starts, found) - 1, 0, len(starts) - 1)]
    for other in (before, near):
        moved = np.abs(np.interp(other, curve.at, curve.total) - wanted)
        found = np.where(moved <= NEAR * curve.total[-1] / slices, other, found)
    times = np.ceil(found).astype(np.int64) + origin
    if grid is not None:
        times = grid(times)
    return np.unique(times[(times > origin) & (times <= int(last.max()))])


@dataclass(frozen=True)
class Curve:
    """The number of bytes before each time, interpolated linearly between the times in `at`."""

    at: np.ndarray
    total: np.ndarray

    @staticmethod
    def of(begin: np.ndarray, end: np.ndarray, size: np.ndarray) -> Curve:
        """Distribute each span's bytes evenly over time."""
        # Large times are not exact.
        end = np.maximum(end, np.nextafter(begin, np.inf))
        density = size / (end - begin)
        at = np.concatenate([begin, end])
        change = np.concatenate([density, -density])
        order = np.argsort(at, kind="stable")
        at, rate = at[order], np.cumsum(change[order])
        total = np.concatenate([[0.0], np.cumsum(rate[:-1] * np.diff(at))])
        return Curve(at, np.maximum.accumulate(total))

    def before(self, times: np.ndarray) -> np.ndarray:
        """Return the number of bytes before each of these times."""
        found: np.ndarray = np.interp(times, self.at, self.total)
        return found


@dataclass(frozen=True)
class Ranges:
    """The inclusive range of row times that each slice reads from a side."""

    first: Integers
    last: Integers

    @staticmethod
    def of(borders: Integers, before: int | None, after: int | None, *, own: bool) -> Ranges:
        """Return slice ranges, widened at both ends.

        Args:
            borders: The first times of all slices except the first slice.
            before: The offset to add to each slice's first time; None for no lower bound.
            after: The offset to add to each slice's last time; None for no upper bound.
            own: Whether each range always includes the slice itself.
        """
        first = moved(borders, before, LOWEST)
        last = moved(borders - 1, after, HIGHEST)
        if own:
            first, last = np.minimum(first, borders), np.maximum(last, borders - 1)
        return Ranges(np.concatenate([[LOWEST], first]), np.concatenate([last, [HIGHEST]]))

    @staticmethod
    def joined(some: Sequence[Ranges]) -> Ranges:
        """Return all of these ranges."""
        return Ranges(
            np.concatenate([one.first for one in some]), np.concatenate([one.last for one in some])
        )

    def those(self, which: np.ndarray | slice) -> Ranges:
        """Return some of the ranges."""
        return Ranges(self.first[which], self.last[which])

    def cuts(self, borders: Integers) -> Integers:
        """Return cell boundaries such that each cell is entirely inside or outside every range."""
        starts, ends = self.first[self.first > LOWEST], self.last[self.last < HIGHEST] + 1
        return np.unique(np.concatenate([borders, starts, ends]))

    def at(self, number: int) -> Range:
        """Return the range of a slice."""
        return Range(int(self.first[number]), int(self.last[number]))

    def reads(self, first: Integers, last: Integers) -> Reads:
        """Return the row groups that each slice reads, in slice order.

        Args:
            first: The earliest time in each row group.
            last: For each row group, the latest time at which one of its rows may match.
        """
        # The difference of two times may exceed 64 bits.
        if not all(np.all(some[1:] >= some[:-1]) for some in (self.first, self.last)):
            return self._one_by_one(first, last)
        # The slices that read a row group are consecutive.
        begin = np.searchsorted(self.last, first, "left")
        end = np.searchsorted(self.first, last, "right")
        count = np.maximum(end - begin, 0)
        group = np.repeat(np.arange(len(first)), count)
        inside = np.arange(len(group)) - np.repeat(np.cumsum(count) - count, count)
        slices = np.repeat(begin, count) + inside
        order = np.argsort(slices, kind="stable")
        starts = np.searchsorted(slices[order], np.arange(len(self.first) + 1))
        return Reads(group[order], starts)

    def _one_by_one(self, first: Integers, last: Integers) -> Reads:
        found = [
            np.flatnonzero((first <= until) & (last >= since))
            for since, until in zip(self.first.tolist(), self.last.tolist(), strict=True)
        ]
        starts = np.cumsum([0, *map(len, found)])
        return Reads(np.concatenate([np.zeros(0, np.int64), *found]), starts)


@dataclass(frozen=True)
class Reads:
    """The row groups that each slice reads: `group[start[k] : start[k + 1]]` for slice `k`."""

    group: Integers
    start: Integers

    def of(self, number: int) -> Integers:
        """Return the row groups that a slice reads."""
        return self.group[self.start[number] : self.start[number + 1]]

    def renumbered(self, numbers: Integers) -> Reads:
        """Return the same reads with the row groups renumbered."""
        return Reads(numbers[self.group], self.start)

    @staticmethod
    def joined(some: Sequence[Reads]) -> Reads:
        """Return the reads of several groups of slices, concatenated."""
        counts = np.concatenate([np.diff(one.start) for one in some])
        group = np.concatenate([one.group for one in some])
        return Reads(group, np.concatenate([[0], np.cumsum(counts)]))

    def sums(self, of_groups: Integers) -> Integers:
        """Return, for each slice, the sum of a value over the row groups that it reads."""
        total: Integers = np.concatenate([[0], np.cumsum(of_groups[self.group])])
        found: Integers = total[self.start[1:]] - total[self.start[:-1]]
        return found


def moved(times: Integers, by: int | None, unbounded: int) -> Integers:
    """Add an offset to times; the results saturate at the ends of the 64-bit range."""
    if by is None:
        return np.full(len(times), unbounded, np.int64)
    by = min(max(by, LOWEST), HIGHEST)
    moved = times + np.int64(by)
    if by > 0:
        moved[moved < times] = HIGHEST
    else:
        moved[moved > times] = LOWEST
    return moved
