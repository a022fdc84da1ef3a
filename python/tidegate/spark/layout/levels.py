"""Bins of several widths for rows that have a start and an end, and what a join by them costs.

Bins that suit short rows break on a long one, which stands in thousands of them, and wide bins hold
more rows to compare. So rows are sorted by their length into *levels*, each with a width of bins.
There are two ways to have each pair meet, and each pair meets once.

*One side has one place.* A row of that side is in the bin of its start, at its level. A row of the
other side is, at each level, in each bin where a row may start that overlaps it: from the bin of
`start - longest` to the bin of `end`, if rows of the level are up to `longest` long. This is for
joins that return rows without a partner, and for points.

*Both sides have several.* The longer row of a pair has the level at which the two meet. A row is in
each bin that it covers, in these *cells*::

    cell A of level c     left rows of level c            right rows of levels up to c
    cell B of level c     left rows of levels below c     right rows of level c

Two rows that overlap may have several bins of their cell in common. They are a pair in the first of
these, which is the bin of the later start. A short row has one copy more for each higher level that
the other side has, and never one for each short bin of a long row. This is for inner joins.

One level is enough where the long rows are few: their copies then cost less than a copy of each row
of the other side. All ways are weighed by what a sample says, and the cheapest is taken. How long
rows are at most is known exactly, since no row may miss a partner.

Everything here is arithmetic on the driver: neither Spark nor Arrow is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tidegate.spark.layout.balance import Sample as Times
from tidegate.spark.layout.bins import Ends, counted
from tidegate.spark.layout.costs import comparing, copying, looking
from tidegate.spark.layout.overlap import LEFT, RIGHT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidegate.spark.layout.costs import Width
    from tidegate.spark.layout.lengths import Sample

# A level of their own may be for rows longer than this share of the sample's rows. Levels are at
# most three: a row has a copy for each.
_SHORT = (0.5, 0.9, 0.99, 0.999, 1.0)
_LEVELS = 3

# A row covers at most so many bins of a level. Spark makes an array of a row's bins.
_MOST_BINS = 1 << 14

# How many times as wide as rows are long bins are at most: wider ones save few copies.
_WIDEST = 16

# Bins are not wider than this, so that their ends fit 64 bits.
_LARGEST = 1 << 62


class Lengths(NamedTuple):
    """How long the rows of a side are at most, and all together."""

    longest: int
    total: float


class Level(NamedTuple):
    """How long rows of the level are at most, and the width of its bins."""

    longest: int
    width: int


@dataclass(frozen=True)
class Levels:
    """The levels by rising length, the side whose rows have one place, and what the sample says.

    `single` is None where rows of both sides have several. `longest` is how long rows of the left
    and of the right side are at most, and `placed` how many there are with their copies.
    """

    single: int | None
    levels: tuple[Level, ...]
    longest: tuple[int, int]
    rows: float
    of_copied: float
    placed: tuple[float, float]
    candidates: float
    pairs: float

    @property
    def copies(self) -> float:
        """Copies beside the rows."""
        return sum(self.placed) - self.rows

    @property
    def cells(self) -> int:
        """Cells that a bin's number tells apart."""
        return len(self.levels) if self.single is not None else 2 * len(self.levels) - 1

    def cells_of(self, side: int, level: int) -> tuple[int, ...]:
        """The cells of a row of a level, if rows of both sides have several places.

        Cell A of level c has the number c, and cell B is behind all these.
        """
        count = len(self.levels)
        if side == LEFT:
            return (level, *(count - 1 + higher for higher in range(level + 1, count)))
        own = (count - 1 + level,) if level else ()
        return (*range(level, count), *own)

    def width_of(self, cell: int) -> int:
        """The width of the bins of a cell."""
        count = len(self.levels)
        return self.levels[cell if cell < count else cell - count + 1].width


def measuring(sample: Sample) -> float:
    """Seconds of processor time of the job that finds how long rows are."""
    rows = sum(
        len(side.hashes)
        for side, longest in zip(sample.sides, sample.longest, strict=True)
        if longest is None
    )
    return looking(rows * sample.weight) if rows else 0.0


def known(sample: Sample) -> tuple[Lengths, Lengths]:
    """The lengths that the sample has, which may lack the longest rows."""
    left, right = (
        Lengths(int(found.max(initial=0)), float(found.sum()) * sample.weight)
        for found in (_lengths(sample, side) for side in (LEFT, RIGHT))
    )
    return left, right


def fitting(
    sample: Sample, lengths: tuple[Lengths, Lengths], single: Sequence[int | None], columns: Width
) -> Levels:
    """The cheapest levels, of which the given sides may have one place."""
    sides = [_Side.of(sample, side, lengths[side]) for side in (LEFT, RIGHT)]
    near = max(1, *(math.ceil(side.mean) for side in sides))
    starts = Times(
        sample.sides[LEFT].hashes,
        sample.sides[LEFT].starts,
        sample.sides[RIGHT].hashes,
        sample.sides[RIGHT].starts,
        sample.weight,
    )
    density = counted(starts, Ends(-near, near)) / (2 * near + 1)
    weighing = _Weighing((sides[LEFT], sides[RIGHT]), density, columns)
    ways = [way for side in single for way in weighing.ways(side)]
    return min(ways, key=weighing.cost)


def _lengths(sample: Sample, side: int) -> np.ndarray:
    """Lengths of the sample's rows, rising. Those of 64 bits are no shorter than what is said."""
    rows = sample.sides[side]
    return np.sort(np.maximum(rows.ends, rows.starts).astype(np.float64) - rows.starts)


class _Share(NamedTuple):
    """Rows of a side that are in some levels, and how long they are together."""

    rows: float
    total: float


@dataclass(frozen=True)
class _Side:
    """The lengths of a side's rows."""

    lengths: np.ndarray
    sums: np.ndarray
    weight: float
    known: Lengths

    @classmethod
    def of(cls, sample: Sample, side: int, known: Lengths) -> _Side:
        lengths = _lengths(sample, side)
        return cls(lengths, np.append(0.0, np.cumsum(lengths)), sample.weight, known)

    @property
    def rows(self) -> float:
        return len(self.lengths) * self.weight

    @property
    def mean(self) -> float:
        return self.known.total / self.rows if self.rows else 0.0

    def upto(self, length: int) -> _Share:
        """The rows of at most this length."""
        if length >= self.known.longest:
            return _Share(self.rows, self.known.total)
        found = int(np.searchsorted(self.lengths, length, side="right"))
        # The sample may lack the longer rows, of which there is one at least.
        rows = max(0.0, min(found * self.weight, self.rows - 1))
        return _Share(rows, min(float(self.sums[found]) * self.weight, self.known.total))

    def within(self, shorter: int, length: int) -> _Share:
        """The rows that are longer than one length, and not longer than another."""
        upper = self.upto(length)
        lower = _Share(0.0, 0.0) if shorter < 0 else self.upto(shorter)
        return _Share(upper.rows - lower.rows, upper.total - lower.total)


@dataclass(frozen=True)
class _Weighing:
    """What ways cost. `density` is how many pairs of rows have starts that are so far apart."""

    sides: tuple[_Side, _Side]
    density: float
    columns: Width

    def ways(self, single: int | None) -> Iterator[Levels]:
        """The ways with one level or more."""
        kept = self.sides if single is None else (self.sides[single],)
        longest = max(side.known.longest for side in kept)
        lengths = np.sort(np.concatenate([side.lengths for side in kept]))
        tried = set()
        for share in _SHORT:
            if len(lengths):
                tried.add(math.ceil(lengths[math.ceil(share * len(lengths)) - 1]))
        limits = sorted(length for length in tried if length < longest)
        for more in range(_LEVELS):
            for shorter in combinations(limits, more):
                if single is None:
                    yield self._of_both((*shorter, longest))
                else:
                    yield self._of_one(single, (*shorter, longest))

    def cost(self, way: Levels) -> float:
        """Nanoseconds that the copies and the candidates take."""
        left, right = (self._copying(side) * way.placed[side] for side in (LEFT, RIGHT))
        return left + right + comparing() * way.candidates

    def _copying(self, side: int) -> float:
        return copying(self.columns.right if side == RIGHT else self.columns.left)

    @property
    def _pairs(self) -> float:
        # Two rows overlap if their starts are less apart than the earlier one is long.
        return self.density * (self.sides[LEFT].mean + self.sides[RIGHT].mean + 1)

    def _levels(
        self, single: int | None, levels: list[Level], placed: list[float], candidates: float
    ) -> Levels:
        rows = [side.rows for side in self.sides]
        copied = RIGHT if single is None else 1 - single
        return Levels(
            single=single,
            levels=tuple(levels),
            longest=(self.sides[LEFT].known.longest, self.sides[RIGHT].known.longest),
            rows=sum(rows),
            of_copied=rows[copied],
            placed=(placed[LEFT], placed[RIGHT]),
            candidates=candidates,
            pairs=self._pairs,
        )

    def _of_one(self, single: int, limits: tuple[int, ...]) -> Levels:
        """Rows of one side have one place."""
        one, other = self.sides[single], self.sides[1 - single]
        levels, shorter, candidates = [], -1, 0.0
        placed = [one.rows, one.rows]
        placed[1 - single] = 0.0
        for limit in limits:
            share = one.within(shorter, limit).rows / max(1.0, one.rows)
            reach = other.mean + limit + 1
            least = _least(len(limits), limit + other.known.longest)
            copies = self._copying(1 - single) * other.rows * reach
            width = _width(copies, comparing() * self.density * share, reach, least)
            levels.append(Level(limit, width))
            placed[1 - single] += other.rows * (1 + reach / width)
            candidates += self.density * share * (reach + width)
            shorter = limit
        return self._levels(single, levels, placed, candidates)

    def _of_both(self, limits: tuple[int, ...]) -> Levels:
        """Rows of both sides have several places."""
        left, right = self.sides
        cells = 2 * len(limits) - 1
        levels, shorter, candidates, placed = [], -1, 0.0, [0.0, 0.0]
        for limit in limits:
            # Cell A, and cell B, which the lowest level does not have.
            both = [(left.within(shorter, limit), right.upto(limit))]
            if shorter >= 0:
                both.append((left.upto(shorter), right.within(shorter, limit)))
            copies = met = fixed = 0.0
            for of_left, of_right in both:
                share = of_left.rows * of_right.rows / max(1.0, left.rows * right.rows)
                density = comparing() * self.density * share
                means = [one.total / max(1.0, one.rows) + 1 for one in (of_left, of_right)]
                copies += self._copying(LEFT) * of_left.total
                copies += self._copying(RIGHT) * of_right.total
                copies += density * means[LEFT] * means[RIGHT]
                met += density
                fixed += sum(means)
            width = _width(copies, met, fixed, _least(cells, limit))
            levels.append(Level(limit, width))
            for of_left, of_right in both:
                share = of_left.rows * of_right.rows / max(1.0, left.rows * right.rows)
                means = [one.total / max(1.0, one.rows) + 1 for one in (of_left, of_right)]
                placed[LEFT] += of_left.rows + of_left.total / width
                placed[RIGHT] += of_right.rows + of_right.total / width
                found = (means[LEFT] + width) * (means[RIGHT] + width) / width
                candidates += self.density * share * found
            shorter = limit
        return self._levels(None, levels, placed, candidates)


def _least(cells: int, longest: int) -> int:
    """The least width: a bin's number with its cell fits 64 bits, and no row has too many bins."""
    return max(1, 2 * cells if cells > 1 else 1, -(-longest // _MOST_BINS))


def _width(copies: float, met: float, reach: float, least: int) -> int:
    """The width at which `copies / width + met * width` is least, if it may be that."""
    best = _WIDEST * reach
    if met > 0:
        best = min(best, math.sqrt(copies / met))
    return min(_LARGEST, max(least, math.ceil(best)))
