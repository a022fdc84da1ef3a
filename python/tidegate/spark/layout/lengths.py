"""Chooses the layout that best suits a sample of rows with a start and an end.

`balance.py` provides the algorithm for cutting the buckets. This module determines how many layers
a cut has, the row lengths in each layer, and the borders. Several cuts are applied to the rows in
the sample, and the cheapest is selected.

This module contains only arithmetic for the driver, and depends on neither Spark nor Arrow.
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

# The sides whose rows need all of their matches at home: one side, or both. An inner join can use
# either side.
Kept = Literal["left", "right", "both", "either"]

# Rows that are longer than one of these shares of the sampled rows may have a separate layer.
_SHORT = (0.5, 0.9, 0.99, 0.999, 1.0)

# Long rows have a separate layer only if they are at least this many times as long as the other
# rows.
_LONGER = 2

# The number of cuts into two layers that are tried on the sample.
_TRIED = 3

# The factor by which the number of slices grows while they are too heavy.
_STEP = 1.25


class Side(NamedTuple):
    """One side's rows: key hashes, starts and ends."""

    hashes: Integers
    starts: Integers
    ends: Integers


@dataclass(frozen=True)
class Sample:
    """A sample of both inputs, and the number of rows that one sampled row represents.

    `longest` contains the maximum row length on each side, or None where it is unknown.
    """

    sides: tuple[Side, Side]
    longest: tuple[int | None, int | None]
    weight: float

    @property
    def rows(self) -> float:
        """The number of rows in both inputs."""
        return sum(len(side.hashes) for side in self.sides) * self.weight

    def of_bucket(self, bucket: int, count: int) -> Sample:
        """Return the rows in one of `count` buckets."""
        chosen = [side.hashes % count == bucket for side in self.sides]
        left, right = (
            Side(*(column[mine] for column in side))
            for side, mine in zip(self.sides, chosen, strict=True)
        )
        return replace(self, sides=(left, right))


def chosen(sample: Sample, partitions: int, kept: Kept, division: Division) -> OverlapLayout:
    """Return the requested layout or, with `auto`, the layout that best suits the sample."""
    if division == "time":
        return by_time(sample, partitions, kept)
    divided = hybrid(sample, partitions, kept, most=partitions)
    if division == "hybrid":
        return divided
    every = [uncut(sample, partitions, kept), divided, by_time(sample, partitions, kept)]
    return min(every, key=lambda layout: layout.cost)


def uncut(sample: Sample, partitions: int, kept: Kept) -> OverlapLayout:
    """Return a layout with whole buckets of keys."""
    return hybrid(sample, partitions, kept, most=1)


def by_time(sample: Sample, partitions: int, kept: Kept) -> OverlapLayout:
    """Return a layout with one bucket for all keys, cut into one slice per partition."""
    layers = _cut(sample, partitions, kept).layers
    return measured(OverlapLayout.of(partitions, [layers]), sample)


def hybrid(sample: Sample, partitions: int, kept: Kept, *, most: int) -> OverlapLayout:
    """Return a layout with buckets of keys. Heavy buckets are cut to balance the partitions."""
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
    """Return the layout with its loads, measured on the sample."""
    full = np.zeros(layout.partitions)
    for number, side in enumerate(sample.sides):
        # The sample has no hashes of rows. Any evenly distributed numbers can replace them.
        spread = np.arange(len(side.hashes)) if layout.has_pieces else None
        rows = Rows(side.hashes % layout.keys, side.starts, side.ends, spread)
        for sent in layout.places(number, rows):
            full += np.bincount(sent.partitions, minlength=layout.partitions) * sample.weight
    return replace(layout, rows=sample.rows, sent=float(full.sum()), fullest=float(full.max()))


class _Cut(NamedTuple):
    """A bucket's layers, with one partition per slice, and the fullest partition's size."""

    layers: tuple[Layer, ...]
    fullest: float


@dataclass(frozen=True)
class _Load:
    """A bucket's rows, and a function that cuts the bucket into a specified number of slices."""

    rows: float
    cut_into: Callable[[int], _Cut]

    def piece(self, degree: int) -> float:
        """Return the number of rows in the fullest slice if there are `degree` slices."""
        return self.rows if degree == 1 else self.cut_into(degree).fullest

    def degree(self, share: float, most: int) -> int:
        """Return about the fewest slices with at most `share` rows each, or 1 if no cut helps."""
        degree = min(most, max(1, math.ceil(self.rows / share))) if share else 1
        while degree < most and self.piece(degree) > share:
            degree = min(most, math.ceil(_STEP * degree))
        return degree if self.piece(degree) < self.rows else 1


def _of_bucket(sample: Sample, bucket: int, count: int, kept: Kept, degree: int) -> _Cut:
    return _cut(sample.of_bucket(bucket, count), degree, kept)


def _cut(sample: Sample, degree: int, kept: Kept) -> _Cut:
    """Return the cheapest cut of one bucket into `degree` slices."""
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
    """Return the cheapest layout, or the first one that costs little more than an even share."""
    even = 2 * sample.rows / degree
    best: OverlapLayout | None = None
    for layers in ways:
        layout = _tried(sample, degree, layers)
        if best is None or layout.cost < best.cost:
            best = layout
        if best.cost <= BALANCED * even:
            break
    if best is None:
        bug("there is no way to cut a bucket")
    return best


def _tried(sample: Sample, degree: int, layers: tuple[Layer, ...]) -> OverlapLayout:
    return measured(OverlapLayout.of(degree, [layers]), sample)


def _either(sample: Sample, degree: int) -> Iterator[tuple[Layer, ...]]:
    """Yield cuts of a bucket for an inner join. Each layer belongs to one side or to both."""
    yield (Layer(BOTH, None, cut(_starts(sample), tuple(range(degree)))),)
    for side in (LEFT, RIGHT):
        if sample.longest[side] is not None:
            yield from _kept(sample, degree, side)


def _kept(sample: Sample, degree: int, side: int) -> Iterator[tuple[Layer, ...]]:
    """Yield cuts of a bucket with one or two layers in which one side's rows are at home."""
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
    """Return the cheapest pairs of layers: the length of short rows and the slices per layer.

    Long rows are in some of the partitions. Short rows are in the remaining partitions, or in all
    of them. The costs are rough estimates that assume evenly distributed starts.
    """
    mine, other = sample.sides[side], sample.sides[1 - side]
    if not len(mine.starts) or not len(other.starts):
        return []
    # Floats also represent lengths beyond 64 bits.
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
    """Return slices with equal numbers of rows.

    If a single time has many rows, its slice is divided into pieces.
    """
    if not len(starts):
        return Bucket((0,))
    times = np.sort(np.clip(starts, -LIMIT // 2, LIMIT // 2))
    borders, counts = np.unique(
        times[np.arange(1, degree) * len(times) // degree], return_counts=True
    )
    pieces = [1, *counts.tolist()]
    if borders[0] == times[0]:
        # There are no rows before the first border, so the first slice is empty.
        borders, pieces = borders[1:], [1 + pieces[1], *pieces[2:]]
    return Bucket(
        tuple(range(degree)), tuple(borders.tolist()), tuple(pieces) if max(pieces) > 1 else ()
    )


def _moved(layers: tuple[Layer, ...], home: tuple[int, ...]) -> tuple[Layer, ...]:
    """Return the layers with their slices assigned to these partitions."""
    return tuple(
        replace(
            layer,
            cut=replace(layer.cut, partitions=tuple(home[at] for at in layer.cut.partitions)),
        )
        for layer in layers
    )
