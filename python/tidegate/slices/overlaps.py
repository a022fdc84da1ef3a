"""Determines what the tasks of an overlap join read, and assigns long rows to layers.

Rows are divided into classes by length. The length limit of each class is four times that of the
previous class. Each class has tasks for slices about as wide as its rows are long, so each class
reads the other side about twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from tidegate.slices.cells import Cells
from tidegate.slices.cuts import Curve, Ranges, moved
from tidegate.slices.excess import EXCESS
from tidegate.slices.footers import HIGHEST, LOWEST
from tidegate.slices.layers import Access, Layer, Layers, lengths
from tidegate.slices.samples import Sample

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidegate.slices.division import Input
    from tidegate.slices.footers import Groups, Integers

FACTOR = 4
"""The ratio of each class's length limit to that of the previous class."""

LONGEST = (1 << 64) - 1
"""The largest possible difference between two signed 64-bit integers."""

LIMITS = (4, 1, 1 / 4)
"""The length limits to try for the first class, relative to the slice width."""

GAIN = 0.9
"""More layers are used only if they reduce the number of bytes to read below this fraction."""


@dataclass(frozen=True)
class Classes:
    """Length classes, and the slices of each class."""

    limits: tuple[int, ...]
    """The maximum row length in each class."""

    cuts: tuple[Integers, ...]
    """The slice boundaries of each class."""

    @staticmethod
    def of(cut: Integers, limit: int, longest: int) -> Classes:
        """Return classes for all rows.

        Args:
            cut: The plan's slice boundaries.
            limit: The maximum row length in the first class.
            longest: The length of the longest row.
        """
        limits, cuts = [max(limit, 0)], [cut]
        while limits[-1] < longest:
            # A row without a start is longer than all others, so classes in between are empty.
            is_last = longest > HIGHEST and len(cuts[-1]) <= 1
            limits.append(LONGEST if is_last else min(max(1, limits[-1]) * FACTOR, LONGEST))
            cuts.append(np.array([*_merged(cuts[-1].tolist(), limits[-1])], np.int64))
        return Classes(tuple(limits), tuple(cuts))


def _merged(cuts: list[int], width: int) -> Iterator[int]:
    """Omit boundaries so that every slice between two boundaries has a certain minimum width."""
    last = None
    for time in cuts:
        if last is None or time - last >= width:
            yield time
            last = time


@dataclass
class Overlaps:
    """The rows that an overlap join's tasks read."""

    inputs: Sequence[Input]
    marks: bool
    """Whether the result contains unmatched right rows."""

    def access(self, cut: Integers) -> list[Access]:
        """Return what the tasks read from each side.

        Args:
            cut: The slice boundaries.
        """
        width, longest = self._width(cut), int(max(some.max(initial=0) for some in self._longest))
        classes = Classes.of(cut, width // FACTOR, longest)
        best = self._without_layers(cut)
        cost = self._cost(best)
        if any(cost > EXCESS):
            for share in LIMITS:
                of_limit = Classes.of(cut, int(width * share), longest)
                found = self._with_layers(of_limit)
                if self._cost(found).sum() < GAIN * cost.sum():
                    best, cost, classes = found, self._cost(found), of_limit
        return [replace(one, cells=_cells(classes, one)) for one in best]

    def _width(self, cut: Integers) -> int:
        """Return the width of a typical slice."""
        if not len(cut):
            return 1
        first = min(int(one.groups.first.min()) for one in self._filled)
        last = max(int(one.groups.last.max()) for one in self._filled)
        edges = [max(first, int(cut[0]) - (last - int(cut[0]))), *cut.tolist(), last + 1]
        return int(np.median([after - before for before, after in pairwise(edges)]))

    @property
    def _filled(self) -> list[Input]:
        return [one for one in self.inputs if len(one.groups)]

    @cached_property
    def _longest(self) -> list[np.ndarray]:
        """The maximum possible row length in each row group."""
        return [lengths(one.groups.first, one.groups.until) for one in self.inputs]

    @cached_property
    def _samples(self) -> list[np.ndarray]:
        """A sample of the row lengths on each side."""
        return [
            Sample.of(one.source, one.groups, one.times, np.arange(len(one.groups))).length
            if len(one.groups)
            else np.zeros(0, np.uint64)
            for one in self.inputs
        ]

    def _ends(self, side: int, own: Ranges, some: np.ndarray | slice) -> Integers:
        """Return the latest row end in each slice, or LOWEST for a slice without rows."""
        groups = self.inputs[side].groups.at(some)
        mine = own.reads(groups.first, groups.last)
        found = [groups.until[mine.of(at)].max(initial=LOWEST) for at in range(len(own.first))]
        return np.array(found, np.int64)

    def _without_layers(self, cut: Integers) -> list[Access]:
        own = Ranges.of(cut, 0, 0, own=True)
        # A row overlaps rows in a slice only if it starts before the last of them ends.
        left, right = (
            Ranges(own.first, np.maximum(own.last, self._ends(1 - side, own, slice(None))))
            for side in (0, 1)
        )
        return [Access(left if self.marks else own, is_own=not self.marks), Access(right, side=1)]

    def _with_layers(self, classes: Classes) -> list[Access]:
        own = Ranges.of(classes.cuts[0], 0, 0, own=True)
        ranges = [
            [
                own
                if side == 0 and not self.marks
                else _halo(own, self._ends(1 - side, own, slice(None)), classes.limits[0])
            ]
            for side in (0, 1)
        ]
        tasks: list[Layer] = []
        for side in (0, 1) if self.marks else (0,):
            for at in range(1, len(classes.limits)):
                own, halo, layers = self._layer(side, classes, at)
                ranges[side].append(own)
                ranges[1 - side].append(halo)
                tasks += layers
        found = Layers(classes.limits[0], tuple(tasks))
        left, right = (Ranges.joined(of_side) for of_side in ranges)
        return [
            Access(left, is_own=not self.marks, layers=found),
            Access(right, layers=found, side=1),
        ]

    def _layer(self, side: int, classes: Classes, at: int) -> tuple[Ranges, Ranges, list[Layer]]:
        """Return a class's slices, the ranges they read from the other side, and their tasks."""
        shortest, longest = classes.limits[at - 1] + 1, classes.limits[at]
        own = Ranges.of(classes.cuts[at], 0, 0, own=True)
        some = self._longest[side] >= shortest
        ends = self._ends(side, own, some)
        # Without such row groups, a slice has no rows of this class.
        own, ends = own.those(ends > LOWEST), ends[ends > LOWEST]
        groups, sample = self.inputs[side].groups, self._samples[side]
        is_likely = bool(
            np.any(lengths(groups.last, groups.until) >= shortest)
            or np.any((sample >= shortest) & (sample <= longest))
        )
        layers = [
            Layer(side, own.at(number), shortest, longest, is_likely)
            for number in range(len(own.first))
        ]
        return own, _halo(own, ends, longest), layers

    def _cost(self, found: Sequence[Access]) -> np.ndarray:
        """Estimate how many times the tasks read each side, assuming rows are sorted as needed."""
        costs = []
        for one, of_side in zip(self.inputs, found, strict=True):
            if of_side.layers is None:
                counts = np.ones(of_side.slices, bool)
            else:
                of_layers = [
                    layer.is_likely and layer.side != of_side.side for layer in of_side.layers.tasks
                ]
                counts = np.array([True] * of_side.slices + of_layers)
            ranges = of_side.ranges.those(counts)
            costs.append(Density.of(one.groups).share(ranges).sum())
        return np.array(costs)


def _halo(own: Ranges, ends: Integers, longest: int) -> Ranges:
    """Return the ranges that slices read from the other side, given a limit on row length."""
    reach = np.minimum(ends, moved(own.last, longest if longest <= HIGHEST else None, HIGHEST))
    last: Integers = np.maximum.accumulate(np.maximum(own.last, reach))
    return Ranges(own.first, last)


def _cells(classes: Classes, of_side: Access) -> Cells:
    """Return the cells for each class; those for the first class match the slices."""
    ranges = of_side.ranges.those(slice(of_side.slices))
    return Cells((ranges.cuts(classes.cuts[0]), *classes.cuts[1:]), classes.limits)


@dataclass(frozen=True)
class Density:
    """The distribution of an input's bytes over time."""

    origin: int
    last: int
    curve: Curve

    @staticmethod
    def of(groups: Groups) -> Density:
        """Assume that each row group's rows are evenly distributed over time."""
        timed = groups.at(groups.first > LOWEST)
        if not len(timed):
            return Density(0, 0, Curve(np.zeros(1), np.zeros(1)))
        origin = int(timed.first.min())
        begin, end = ((some - origin).astype(float) for some in (timed.first, timed.last))
        curve = Curve.of(begin, end + 1, timed.size.astype(float))
        return Density(origin, int(timed.last.max()), curve)

    def share(self, ranges: Ranges) -> np.ndarray:
        """Return the share of the bytes in each time range."""
        first, last = (
            (np.clip(some, self.origin, self.last) - self.origin).astype(float)
            for some in (ranges.first, ranges.last)
        )
        total = max(float(self.curve.total[-1]), 1.0)
        found: np.ndarray = (self.curve.before(last + 1) - self.curve.before(first)) / total
        return found
