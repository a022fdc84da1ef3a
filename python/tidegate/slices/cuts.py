"""Chooses the borders of slices, and the row groups that each slice reads.

A border is the first time of a slice. Borders are chosen so that each slice reads about the same
number of bytes. The rows of a row group are assumed to be evenly distributed over its time span. A
border is moved to the start of a nearby row group, so that fewer row groups are read by two slices.
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

NEAR = 0.25
"""The share of a slice's bytes by which a border may move to the start of a row group."""


def borders(sides: Sequence[Groups], target: Target, grid: tuple[int, int] = (1, 0)) -> Integers:
    """Return the first time of each slice but the first, in ascending order.

    Args:
        sides: The row groups of each input. Borders move to the starts of row groups of the first.
        target: The number of bytes for a slice to read, or a function that returns the number of
            slices for a number of bytes.
        grid: The possible borders, as a step and an offset.

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
    slices = target(int(size.sum())) if callable(target) else int(-(-size.sum() // target))
    if slices <= 1:
        return np.zeros(0, np.int64)
    origin = int(first.min())
    # Exact up to 2^53 units, which is enough to choose borders.
    begin = (first - origin).astype(float)
    end = np.maximum((last - origin).astype(float) + 1, begin + 1)
    curve = _Curve.of(begin, end, size)
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
    step, offset = grid
    times = np.ceil(found).astype(np.int64) + origin
    times = (times - offset) // step * step + offset
    return np.unique(times[(times > origin) & (times <= int(last.max()))])


@dataclass(frozen=True)
class _Curve:
    """How many bytes lie before each time; linear between the times in `at`."""

    at: np.ndarray
    total: np.ndarray

    @staticmethod
    def of(begin: np.ndarray, end: np.ndarray, size: np.ndarray) -> _Curve:
        density = size / (end - begin)
        at = np.concatenate([begin, end])
        change = np.concatenate([density, -density])
        order = np.argsort(at, kind="stable")
        at, rate = at[order], np.cumsum(change[order])
        total = np.concatenate([[0.0], np.cumsum(rate[:-1] * np.diff(at))])
        return _Curve(at, np.maximum.accumulate(total))


@dataclass(frozen=True)
class Ranges:
    """The first and the last time of the rows that each slice reads from a side, inclusive."""

    first: Integers
    last: Integers

    @staticmethod
    def of(borders: Integers, before: int | None, after: int | None, *, own: bool) -> Ranges:
        """Return the ranges of slices, widened on each side.

        Args:
            borders: The first times of all slices but the first.
            before: The difference to add to the first time of a slice; None for no bound.
            after: The difference to add to the last time of a slice; None for no bound.
            own: Whether a range always includes the slice itself.
        """
        first = _moved(borders, before, LOWEST)
        last = _moved(borders - 1, after, HIGHEST)
        if own:
            first, last = np.minimum(first, borders), np.maximum(last, borders - 1)
        return Ranges(np.concatenate([[LOWEST], first]), np.concatenate([last, [HIGHEST]]))

    def at(self, number: int) -> Range:
        """Return the range of a slice."""
        return Range(int(self.first[number]), int(self.last[number]))

    def reads(self, first: Integers, last: Integers) -> Reads:
        """Return the row groups that each slice reads, in their order.

        Args:
            first: The earliest time of each row group.
            last: The latest time at which a row of each row group may match.
        """
        if not (np.all(np.diff(self.first) >= 0) and np.all(np.diff(self.last) >= 0)):
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
        return Reads(np.concatenate(found), starts)


@dataclass(frozen=True)
class Reads:
    """The row groups that each slice reads: `group[start[k] : start[k + 1]]` for slice `k`."""

    group: Integers
    start: Integers

    def of(self, number: int) -> Integers:
        """Return the row groups that a slice reads."""
        return self.group[self.start[number] : self.start[number + 1]]

    def sums(self, of_groups: Integers) -> Integers:
        """Add up a number of each row group, for each slice."""
        total: Integers = np.concatenate([[0], np.cumsum(of_groups[self.group])])
        found: Integers = total[self.start[1:]] - total[self.start[:-1]]
        return found


def _moved(times: Integers, by: int | None, unbounded: int) -> Integers:
    """Add a difference to times; saturates at the ends of the range."""
    if by is None:
        return np.full(len(times), unbounded, np.int64)
    by = min(max(by, LOWEST), HIGHEST)
    moved = times + np.int64(by)
    if by > 0:
        moved[moved < times] = HIGHEST
    else:
        moved[moved > times] = LOWEST
    return moved
