"""The layout of rows with a start and an end that suits a sample of them.

`balance.py` makes the buckets, and the same algorithm cuts them. This module says how one bucket is
cut: the number of layers, the lengths of their rows, and the borders. Ways to cut are tried on the
rows of the sample, and the cheapest is taken.

Everything here is arithmetic on the driver: neither Spark nor Arrow is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from tidegate.bugs import bug
from tidegate.spark.layout.balance import BALANCED, BUCKETS, cut, likely, spread_out
from tidegate.spark.layout.layout import LIMIT, Bucket, Integers
from tidegate.spark.layout.overlap import BOTH, LEFT, RIGHT, Layer, OverlapLayout, Rows, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidegate.spark.layout.balance import Division

# The rows that must have all that overlap them at their home: those of a side, or of both. Of an
# inner join it is either.
Kept = Literal["left", "right", "both", "either"]

# A layer of their own may be for rows longer than this share of the sample's rows.
_SHORT = (0.5, 0.9, 0.99, 0.999, 1.0)

# Rows are worth a layer of their own if their length is so many times that of the others.
_LONGER = 2

# Of two layers, so many ways are tried on the sample.
_TRIED = 3

# How many times as many slices are tried where so many do not do.
_STEP = 1.25


class Side(NamedTuple):
    """Rows of a side: hashes of their keys, starts and ends."""

    hashes: Integers
    starts: Integers
    ends: Integers


@dataclass(frozen=True)
class Sample:
    """A share of both inputs, and how many rows each row stands for.

    `longest` is how long rows of the left and the right side are at most, None if nobody knows.
    """

    sides: tuple[Side, Side]
    longest: tuple[int | None, int | None]
    weight: float

    @property
    def rows(self) -> float:
        """Rows of both inputs."""
        return sum(len(side.hashes) for side in self.sides) * self.weight

    def of_bucket(self, bucket: int, count: int) -> Sample:
        """The rows of one of `count` buckets."""
        chosen = [side.hashes % count == bucket for side in self.sides]
        left, right = (
            Side(*(column[mine] for column in side))
            for side, mine in zip(self.sides, chosen, strict=True)
        )
        return replace(self, sides=(left, right))


def chosen(sample: Sample, partitions: int, kept: Kept, division: Division) -> OverlapLayout:
    """The layout that was asked for; of all, the one that suits the sample best."""
    if division == "time":
        return by_time(sample, partitions, kept)
    divided = hybrid(sample, partitions, kept, most=partitions)
    if division == "hybrid":
        return divided
    every = [uncut(sample, partitions, kept), divided, by_time(sample, partitions, kept)]
    return min(every, key=lambda layout: layout.cost)


def uncut(sample: Sample, partitions: int, kept: Kept) -> OverlapLayout:
    """Whole buckets of keys."""
    return hybrid(sample, partitions, kept, most=1)


def by_time(sample: Sample, partitions: int, kept: Kept) -> OverlapLayout:
    """One bucket for all keys, cut into as many slices as there are partitions."""
    layers = _cut(sample, partitions, kept).layers
    return measured(OverlapLayout.of(partitions, [layers]), sample)


def hybrid(sample: Sample, partitions: int, kept: Kept, *, most: int) -> OverlapLayout:
    """Buckets of keys, the heavy ones cut until no partition has more than its share."""
    count = BUCKETS * partitions
    left, right = (
        likely(np.bincount(side.hashes % count, minlength=count)) for side in sample.sides
    )
    loads = [
        _Load(float(rows) * sample.weight, cache(partial(_of_bucket, sample, bucket, count, kept)))
        for bucket, rows in enumerate(left + right)
    ]
    homes = spread_out(loads, partitions, BALANCED * sample.rows / partitions, most)
    layers = [
        _moved(load.cut_into(len(home)).layers, home)
        for load, home in zip(loads, homes, strict=True)
    ]
    return measured(OverlapLayout.of(partitions, layers), sample)


def measured(layout: OverlapLayout, sample: Sample) -> OverlapLayout:
    """The layout with the shares it would give the sample's rows."""
    full = np.zeros(layout.partitions)
    for number, side in enumerate(sample.sides):
        # The sample has no hashes of rows; any that spread evenly do.
        spread = np.arange(len(side.hashes)) if layout.has_pieces else None
        rows = Rows(side.hashes % layout.keys, side.starts, side.ends, spread)
        for sent in layout.places(number, rows):
            full += np.bincount(sent.partitions, minlength=layout.partitions) * sample.weight
    return replace(layout, rows=sample.rows, sent=float(full.sum()), fullest=float(full.max()))


class _Cut(NamedTuple):
    """The layers of a bucket in as many partitions as it has slices, and the fullest of these."""

    layers: tuple[Layer, ...]
    fullest: float


@dataclass(frozen=True)
class _Load:
    """Rows of a bucket, and its cut into a number of slices."""

    rows: float
    cut_into: Callable[[int], _Cut]

    def piece(self, degree: int) -> float:
        """Rows of the fullest of `degree` slices."""
        return self.rows if degree == 1 else self.cut_into(degree).fullest

    def degree(self, share: float, most: int) -> int:
        """About the fewest slices of at most `share` rows each, or as many as make them small."""
        degree = min(most, max(1, math.ceil(self.rows / share))) if share else 1
        while degree < most and self.piece(degree) > share:
            degree = min(most, math.ceil(_STEP * degree))
        return degree if self.piece(degree) < self.rows else 1


def _of_bucket(sample: Sample, bucket: int, count: int, kept: Kept, degree: int) -> _Cut:
    return _cut(sample.of_bucket(bucket, count), degree, kept)


def _cut(sample: Sample, degree: int, kept: Kept) -> _Cut:
    """The cheapest of the cuts of one bucket into so many slices."""
    if degree == 1:
        return _Cut(whole(0), sample.rows)
    if kept == "both":
        left, right = (_best(sample, degree, _kept(sample, degree, one)) for one in (LEFT, RIGHT))
        layout = _tried(sample, degree, (*left.layers[0], *right.layers[0]))
    elif kept == "either":
        layout = _best(sample, degree, _either(sample, degree))
    else:
        layout = _best(sample, degree, _kept(sample, degree, (LEFT, RIGHT)[kept == "right"]))
    return _Cut(layout.layers[0], layout.fullest)


def _best(sample: Sample, degree: int, ways: Iterator[tuple[Layer, ...]]) -> OverlapLayout:
    """The cheapest of the layouts, or the first that costs little more than an even share."""
    even = 2 * sample.rows / degree
    best: OverlapLayout | None = None
    for layers in ways:
        layout = _tried(sample, degree, layers)
        if best is None or layout.cost < best.cost:
            best = layout
        if best.cost <= BALANCED * even:
            break
    if best is None:
        bug("a bucket is cut in no way")
    return best


def _tried(sample: Sample, degree: int, layers: tuple[Layer, ...]) -> OverlapLayout:
    return measured(OverlapLayout.of(degree, [layers]), sample)


def _either(sample: Sample, degree: int) -> Iterator[tuple[Layer, ...]]:
    """Ways to cut a bucket for pairs: both sides are at home, or one of known lengths."""
    yield (Layer(BOTH, None, cut(_starts(sample), tuple(range(degree)))),)
    for side in (LEFT, RIGHT):
        if sample.longest[side] is not None:
            yield from _kept(sample, degree, side)


def _kept(sample: Sample, degree: int, side: int) -> Iterator[tuple[Layer, ...]]:
    """Ways to cut a bucket so that rows of one side are at home: one layer, or two."""
    longest = sample.longest[side]
    every, slices = _starts(sample), tuple(range(degree))
    yield (Layer(side, longest, cut(every, slices)),)
    in_pieces = _in_pieces(every, degree)
    if in_pieces.pieces:
        yield (Layer(side, longest, in_pieces),)
    for short, others, last in _in_two(sample, degree, side):
        yield (
            Layer(side, short, cut(every, slices[:others])),
            Layer(side, longest, cut(every, slices[-last:])),
        )


def _in_two(sample: Sample, degree: int, side: int) -> list[tuple[int, int, int]]:
    """The cheapest of two layers: the length of short rows, and the slices of these and of others.

    The long rows are in some of the partitions. The short ones are in the others, or in all. This
    is by a rough count for starts that are spread evenly.
    """
    mine, other = sample.sides[side], sample.sides[1 - side]
    if not len(mine.starts) or not len(other.starts):
        return []
    # Lengths beyond 64 bits are no shorter than what they are taken for.
    lengths = np.sort(np.maximum(mine.ends, mine.starts).astype(np.float64) - mine.starts)
    longest = sample.longest[side]
    starts = _starts(sample).astype(np.float64)
    span = max(1.0, float(np.ptp(starts)))
    far = 1.0 if longest is None else min(1.0, longest / span)
    found = []
    for share in _SHORT:
        short = math.ceil(lengths[math.ceil(share * len(lengths)) - 1])
        if longest is not None and _LONGER * short >= longest:
            break
        near = min(1.0, short / span)
        for last in (2**power for power in range(degree.bit_length())):
            copies = (1 / last + far) * len(other.starts)
            of_last = copies + (1 - share) * len(mine.starts) / last
            for others in (degree, degree - last):
                if others == 0:
                    continue
                near_copies = (1 / others + near) * len(other.starts)
                of_others = near_copies + share * len(mine.starts) / others
                fullest = of_others + of_last if others == degree else max(of_others, of_last)
                sent = of_others * others + of_last * last
                found.append((sent / degree + fullest, (short, others, last)))
    return [way for _, way in sorted(found)[:_TRIED]]


def _starts(sample: Sample) -> Integers:
    return np.concatenate([side.starts for side in sample.sides])


def _in_pieces(starts: Integers, degree: int) -> Bucket:
    """Slices with equal numbers of rows; one time with many of them has a slice in pieces."""
    if not len(starts):
        return Bucket((0,))
    times = np.sort(np.clip(starts, -LIMIT // 2, LIMIT // 2))
    borders, counts = np.unique(
        times[np.arange(1, degree) * len(times) // degree], return_counts=True
    )
    pieces = [1, *counts.tolist()]
    if borders[0] == times[0]:
        # No row is before the first border.
        borders, pieces = borders[1:], [1 + pieces[1], *pieces[2:]]
    return Bucket(
        tuple(range(degree)), tuple(borders.tolist()), tuple(pieces) if max(pieces) > 1 else ()
    )


def _moved(layers: tuple[Layer, ...], home: tuple[int, ...]) -> tuple[Layer, ...]:
    """The layers with their slices in these partitions."""
    return tuple(
        replace(
            layer,
            cut=replace(layer.cut, partitions=tuple(home[at] for at in layer.cut.partitions)),
        )
        for layer in layers
    )
