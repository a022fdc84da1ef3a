"""Determines the partitions of a row that has a start and an end.

Rows match if their intervals overlap, so their starts can be any distance apart. As in `layout.py`,
key buckets are either whole or cut into time slices. A cut bucket has one or more *layers*. Each
layer cuts the bucket's entire time range and belongs to one side. Rows on that side are at home in
the layer. Such a row is at home in the first layer for rows of its length, in the slice containing
its start. A row on the other side is sent to each slice in which a row that it overlaps may be at
home::

    layer of left rows up to 5 long     ├─ slice 0 ─┼─ slice 1 ─┼─ slice 2 ─┼─ slice 3 ─┤
    layer of left rows up to 90 long    ├──────────────────── slice 4 ──────────────────┤
    a right row                                           ├───┤
    goes to                                         └ slices 1, 2 ┘   and slice 4

===================  ================================================  ========================
row                  is sent to slices                                 its home
===================  ================================================  ========================
of the layer's side  `slice(start)`                                    this one
of the other side    `slice(start - longest)` up to `slice(end)`       none in this layer
===================  ================================================  ========================

`longest` is the maximum length of the rows on the layer's side. If `l` overlaps `r`, then
`l.start <= r.end` and `l.start >= r.start - (l.end - l.start) >= r.start - longest`. Therefore, all
rows that overlap `l` are sent to the home of `l`.

With a single layer, a few very long rows would make `longest` so large that almost every slice
would receive the rows on the other side. If the long rows have a separate layer, it adds only one
copy of each row on the other side.

- A join that keeps left rows (left, semi, anti, aggregates) has layers for the left side. A right
  join has layers for the right side. The two rows of a pair meet in one home.
- A full join has layers for both sides. A partition reports a pair if the left row is at home
  there. The partition reports an unmatched row if that row is at home there.
- An inner join can also have one layer *of both sides*, for which row lengths do not matter. A row
  is sent to all slices from `slice(start)` to `slice(end)`. The first of these slices is its home.
  Two overlapping rows meet in the slice where the later one starts, and are reported there. The
  later row is at home in this slice, and the other row covers the later row's start. In any other
  slice that receives both rows, neither row is at home. A partition therefore reports the pairs in
  which at least one row is at home. A partition has at most one slice of such a layer.

A partition can have slices of several layers. A row that belongs to several slices of a partition
is sent to the partition once. Such a row counts as being at home if any of these slices is its
home. A bucket that is not cut is a single slice for both sides.

A row that starts after its end does not overlap any other row. Such a row is always sent to its
home, but not necessarily to other slices.

If an interval join computes its ends from columns, these ends define an interval for each row. Only
rows with overlapping intervals match. This module needs only these intervals: the join itself finds
the pairs.

This module contains only arithmetic, and depends on neither Spark nor Arrow.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from tidegate.spark.layout.layout import Bucket, Integers, Places, Span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# The sides whose rows are at home in a layer.
LEFT, RIGHT, BOTH = range(3)

_ENDS = np.iinfo(np.int64)

# The destinations of rows at home, and of copies.
_HOME = Span(0, 0, copied=False)
_COPIED = Span(0, 0, copied=True)


@dataclass(frozen=True)
class Layer:
    """A cut of a bucket, the side whose rows are at home in it, and their maximum length.

    `longest` is None if there is no limit.
    """

    side: int
    longest: int | None
    cut: Bucket


def whole(partition: int) -> tuple[Layer, ...]:
    """Return the layer of a bucket that is not cut."""
    return (Layer(BOTH, None, Bucket((partition,))),)


class Rows(NamedTuple):
    """One side's rows: buckets, starts, ends and, if there are pieces, hashes.

    If a row matches nothing, its bucket is negative: -1 minus the row's slice.
    """

    buckets: Integers
    starts: Integers
    ends: Integers
    hashes: Integers | None = None

    def of(self, numbers: Integers) -> Rows:
        """Return the rows with these numbers."""
        starts, ends = self.starts[numbers], self.ends[numbers]
        hashes = None if self.hashes is None else self.hashes[numbers]
        return Rows(self.buckets[numbers], starts, ends, hashes)


class Sent(NamedTuple):
    """Row numbers in ascending order, each with the destination partition and a flag for copies."""

    rows: Integers
    partitions: Integers
    copies: npt.NDArray[np.bool_]


class _Way(NamedTuple):
    """Row numbers in ascending order, with each row's first, last and home slice in a layer."""

    rows: Integers
    first: Integers
    last: Integers
    home: Integers

    def between(self, begin: int, end: int) -> _Way:
        """Return the rows with numbers from `begin` up to, but not including, `end`."""
        part = slice(*np.searchsorted(self.rows, [begin, end]))
        return _Way(*(column[part] for column in self))


@dataclass(frozen=True)
class OverlapLayout(Places):
    """The layout of rows that have a start and an end.

    `layers` contains the layers of each key bucket, from short rows to long rows. `buckets`
    contains the cuts of these layers.
    """

    layers: tuple[tuple[Layer, ...], ...]

    @classmethod
    def of(cls, partitions: int, layers: Sequence[tuple[Layer, ...]]) -> OverlapLayout:
        """Return the layout that has these layers in each key bucket."""
        cuts = tuple(layer.cut for one in layers for layer in one)
        return cls(partitions, cuts, tuple(layers))

    @property
    def keys(self) -> int:
        """The number of buckets to which keys are assigned by their hashes."""
        return len(self.layers)

    @property
    def reports_at_home(self) -> bool:
        """Return whether both sides have copied rows. If so, copies must be marked."""
        # A row is also sent to several slices if a bucket has several layers of one slice each.
        counts = (sum(len(layer.cut.partitions) for layer in one) for one in self.layers)
        several = (one for one, count in zip(self.layers, counts, strict=True) if count > 1)
        cut = [layer.side for one in several for layer in one]
        copied = {1 - side for side in cut if side != BOTH}
        return BOTH in cut or copied == {LEFT, RIGHT}

    def places(self, side: int, rows: Rows, most: int | None = None) -> Iterator[Sent]:
        """Yield the destinations of one side's rows, about `most` of them at a time."""
        ways = [*self._ways(side, rows)]
        places = sum(int((way.last - way.first).sum()) + len(way.rows) for way in ways)
        parts = 1 if most is None else max(1, -(-places // most))
        borders = np.linspace(0, len(rows.starts), parts + 1).astype(np.int64).tolist()
        for begin, end in pairwise(borders):
            yield self._placed([way.between(begin, end) for way in ways])

    def _placed(self, ways: list[_Way]) -> Sent:
        ways = [way for way in ways if len(way.rows)]
        rows, slices, copies = ([np.zeros(0, np.int64)] for _ in range(3))
        for way in ways:
            counts = way.last - way.first + 1
            begins = np.cumsum(counts) - counts
            number = np.arange(int(counts.sum())) - np.repeat(begins, counts)
            slices.append(np.repeat(way.first, counts) + number)
            copies.append(slices[-1] != np.repeat(way.home, counts))
            rows.append(np.repeat(way.rows, counts))
        numbers, partitions = np.concatenate(rows), self.partition_of[np.concatenate(slices)]
        are_copies = np.concatenate(copies).astype(np.bool_)
        if len(ways) > 1 or self._has_several:
            # If a row is sent to a partition several times, the destination at home sorts first.
            every = np.unique((numbers * self.partitions + partitions) * 2 + are_copies)
            every = every[np.flatnonzero(np.diff(every // 2, prepend=-1))]
            numbers, partitions = np.divmod(every // 2, self.partitions)
            are_copies = every % 2 == 1
        return Sent(numbers, partitions, are_copies)

    def lost(self, side: int, rows: Rows) -> Integers:
        """Return the rows that need a home but are too long for every layer of their bucket."""
        keeps = [any(layer.side in (side, BOTH) for layer in one) for one in self.layers]
        lost = (rows.buckets >= 0) & np.array(keeps)[np.maximum(rows.buckets, 0)]
        for depth in range(self._depth):
            numbers, layers = self._at(rows.buckets, depth)
            lost[numbers[self._fit(side, layers, rows.of(numbers))]] = False
        return np.flatnonzero(lost)

    def _ways(self, side: int, rows: Rows) -> Iterator[_Way]:
        """Yield the destinations of rows, one layer per bucket at a time."""
        anywhere = np.flatnonzero(rows.buckets < 0)
        slices = -1 - rows.buckets[anywhere].astype(np.int64)
        yield _Way(anywhere, slices, slices, slices)
        has_home = np.zeros(len(rows.buckets), np.bool_)
        for depth in range(self._depth):
            numbers, layers = self._at(rows.buckets, depth)
            of = self._sides[layers]
            fit = self._fit(side, layers, rows.of(numbers)) & ~has_home[numbers]
            has_home[numbers[fit]] = True
            at_home = fit & (of == side)
            yield self._at_home(numbers[at_home], layers[at_home], rows)
            yield self._copied(numbers[of != side], layers[of != side], rows)

    def _at_home(self, numbers: Integers, layers: Integers, rows: Rows) -> _Way:
        """Return the destinations of rows in layers of their own side."""
        mine = rows.of(numbers)
        first, last = self.between(layers, mine.starts, _HOME, mine.hashes)
        return _Way(numbers, first, last, first)

    def _copied(self, numbers: Integers, layers: Integers, rows: Rows) -> _Way:
        """Return the destinations of rows in layers that belong to the other side or to both sides.

        In a layer of both sides, a row's first slice is its home.
        """
        mine = rows.of(numbers)
        both = self._sides[layers] == BOTH
        begin = np.where(both, mine.starts, _before(mine.starts, self._longest[layers]))
        end = np.where(both, np.maximum(mine.starts, mine.ends), mine.ends)
        first, last = self.between(layers, begin, _COPIED, mine.hashes, end)
        way = _Way(numbers, first, last, np.where(both, first, -1))
        return _Way(*(column[first <= last] for column in way))

    def _fit(self, side: int, layers: Integers, rows: Rows) -> npt.NDArray[np.bool_]:
        """Return whether each row can be at home in its layer."""
        of, longest = self._sides[layers], self._longest[layers]
        fit = (of == side) & (rows.starts >= _before(rows.ends, longest))
        at_home: npt.NDArray[np.bool_] = fit | (of == BOTH)
        return at_home

    def _at(self, buckets: Integers, depth: int) -> tuple[Integers, Integers]:
        """Return the rows in buckets with a layer at this depth, and each row's layer number."""
        counts = np.array([len(one) for one in self.layers])
        rows = np.flatnonzero((buckets >= 0) & (counts[np.maximum(buckets, 0)] > depth))
        return rows, (np.cumsum(counts) - counts)[buckets[rows]] + depth

    @cached_property
    def _has_several(self) -> bool:
        """Return whether a partition has several slices of a bucket."""
        places = ([p for layer in one for p in layer.cut.partitions] for one in self.layers)
        return any(len(set(one)) < len(one) for one in places)

    @cached_property
    def _depth(self) -> int:
        return max(map(len, self.layers))

    @cached_property
    def _sides(self) -> Integers:
        return np.array([layer.side for one in self.layers for layer in one])

    @cached_property
    def _longest(self) -> Integers:
        """The maximum length of rows in each layer; the largest integer means no limit."""
        every = (layer.longest for one in self.layers for layer in one)
        return np.array([_ENDS.max if one is None else min(one, _ENDS.max) for one in every])


def _before(times: Integers, lengths: Integers) -> Integers:
    """Return the times minus the lengths; on overflow or without a limit, the smallest integer."""
    earlier = np.maximum(times, _ENDS.min + lengths) - lengths
    return np.where(lengths == _ENDS.max, _ENDS.min, earlier)


def by_key(partitions: int) -> OverlapLayout:
    """Return a layout with one uncut bucket per partition, which needs no sample."""
    return OverlapLayout.of(partitions, [whole(partition) for partition in range(partitions)])
