"""The layout that suits a sample of the rows: few copies, and no partition much fuller than others.

Everything here is arithmetic on the driver: neither Spark nor Arrow is known.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
import numpy.typing as npt

from tidegate.spark.layout.layout import LIMIT, Bucket, Copied, Integers, Layout, Reach, Span
from tidegate.spark.layout.nearest import HOME, Slices, carried

if TYPE_CHECKING:
    from collections.abc import Sequence

Division = Literal["auto", "key", "time", "hybrid"]

# A partition may hold this multiple of the mean. Below 1.1 the noise of the sample decides.
BALANCED = 1.1

# Heavy slices are cut into pieces if a partition holds this multiple of the mean, and so many
# standard deviations more of what the sample says of a mean partition. A bucket is as heavy as the
# sample says if it is so many above the mean.
_HEAVY = 1.2
_DEVIATIONS = 4

# Buckets a partition: enough that uncut buckets alone can be spread evenly.
BUCKETS = 8

# Splits tried beyond the splits that the frequencies ask for. More gained nothing on Zipf keys.
_ROUNDS = 16


@dataclass(frozen=True)
class Sample:
    """A share of both inputs: hashes of keys, times, and how many rows each row stands for."""

    left_hash: Integers
    left_time: Integers
    right_hash: Integers
    right_time: Integers
    weight: float

    @property
    def rows(self) -> float:
        """Rows of both inputs."""
        return (len(self.left_hash) + len(self.right_hash)) * self.weight

    def of_bucket(self, bucket: int, count: int) -> Sample:
        """The rows of one of `count` buckets."""
        left = self.left_hash % count == bucket
        right = self.right_hash % count == bucket
        return Sample(
            self.left_hash[left],
            self.left_time[left],
            self.right_hash[right],
            self.right_time[right],
            self.weight,
        )


def chosen(
    sample: Sample, partitions: int, copied: Copied, reach: Reach, division: Division
) -> Layout:
    """The layout that was asked for; of all, the one that suits the sample best."""
    by_time_alone = by_time(sample, partitions, copied, reach)
    if division == "time":
        return by_time_alone
    divided = hybrid(sample, partitions, copied, reach, most=partitions)
    if division == "hybrid":
        return divided
    uncut = hybrid(sample, partitions, copied, reach, most=1)
    return min(uncut, divided, by_time_alone, key=lambda layout: layout.cost)


def by_time(sample: Sample, partitions: int, copied: Copied, reach: Reach) -> Layout:
    """One bucket for all keys, cut into a slice a partition."""
    bucket = cut(_centres(sample, reach), tuple(range(partitions)))
    return _evened(measured(Layout(partitions, (bucket,), copied, reach), sample), sample)


def hybrid(sample: Sample, partitions: int, copied: Copied, reach: Reach, *, most: int) -> Layout:
    """Buckets of keys, the heavy ones cut by time until no partition has more than its share.

    A bucket is cut into at most `most` slices, and what they are too heavy for into pieces.
    """
    loads = _bucket_loads(sample, BUCKETS * partitions, copied, reach)
    best = spread_out(loads, partitions, BALANCED * sample.rows / partitions, most)
    # Of many buckets few are cut, and to look for the rows of one takes as long as for all.
    buckets = tuple(
        cut(_centres(sample.of_bucket(b, len(best)), reach), homes)
        if len(homes) > 1
        else Bucket(homes)
        for b, homes in enumerate(best)
    )
    layout = measured(Layout(partitions, buckets, copied, reach), sample)
    return layout if most == 1 else _evened(layout, sample)


class Divisible(Protocol):
    """Rows that can be divided."""

    def piece(self, degree: int) -> float:
        """Rows of one of `degree` pieces."""


class Load(Divisible, Protocol):
    """Rows of a bucket."""

    def degree(self, share: float, most: int) -> int:
        """Fewest slices of at most `share` rows each, or as many as make them smallest."""


def spread_out(
    loads: Sequence[Load], partitions: int, share: float, most: int
) -> list[tuple[int, ...]]:
    """The partitions of each bucket's slices, so that none has more than its share of rows.

    Algorithm 1 of PPOIJ (Mencagli et al., DEBS 2025), which assigns keys in falling order of
    frequency to the least loaded replica and splits keys over more replicas until the load is
    balanced. Departures:

    1. Buckets instead of keys, so that the table has a bounded size; a hot key makes a hot bucket.
    2. A split cuts by time, not by turns: a row of the other side goes to the slices within its
       reach instead of to every replica of the key. The halo counts as load.
    3. Lines 11-24 split every key once a round, in order of frequency. Only the bucket with the
       largest slice in the fullest partition is split here, and the assignment is made afresh, so
       that a key is not split for another key's load.
    """
    degrees = [load.degree(share, most) for load in loads]
    best: list[tuple[int, ...]] = []
    lowest = float("inf")
    for _ in range(_ROUNDS):
        homes, full = _assign(loads, degrees, partitions)
        fullest = max(full)
        if fullest < lowest:
            best, lowest = homes, fullest
        worst = full.index(fullest)
        inside = [b for b, home in enumerate(homes) if worst in home and len(home) < most]
        if fullest <= share or not inside:
            break
        degrees[max(inside, key=lambda b: loads[b].piece(degrees[b]))] += 1
    return best


@dataclass(frozen=True)
class _Load:
    """Rows of a bucket, and the rows that every cut through it copies."""

    rows: float
    halo: float
    # Rows that are copied no further than to the next slice, if there are partial rows.
    ends: float = math.inf

    def piece(self, degree: int) -> float:
        """Rows of one of `degree` slices."""
        return self.rows / degree + min(self.halo * (degree - 1), self.ends) / degree

    def degree(self, share: float, most: int) -> int:
        """Fewest slices of at most `share` rows each, or as many as make them smallest."""
        fitting = (degree for degree in range(1, most) if self.piece(degree) <= share)
        return next(fitting, most if self.rows > self.halo else 1)


def likely(counts: Integers) -> npt.NDArray[np.float64]:
    """The rows of a sample that buckets likely have, beside the numbers that they have by chance.

    A sample has few rows a bucket if there are many partitions. A bucket of which it has none is
    then not empty. If it were taken for empty, all such buckets would go to one partition, as they
    seem to fill none. So counts move towards their mean, the further the more of their variance is
    that of chance (empirical Bayes: that of Poisson's distribution is the mean). Counts that chance
    does not explain stay, and do not count for the mean.
    """
    usual = counts <= counts.mean() + _DEVIATIONS * math.sqrt(counts.mean())
    mean, variance = float(counts[usual].mean()), float(counts[usual].var())
    kept = max(0.0, 1 - mean / variance) if variance else 0.0
    return np.where(usual, mean + (counts - mean) * kept, counts)


def _bucket_loads(sample: Sample, count: int, copied: Copied, reach: Reach) -> list[_Load]:
    left, right = (
        likely(np.bincount(hashes % count, minlength=count)) * sample.weight
        for hashes in (sample.left_hash, sample.right_hash)
    )
    copies = {"left": left, "right": right, "both": left + right}[copied]
    times = np.concatenate([sample.left_time, sample.right_time])
    span = max(1, int(np.ptp(times))) if len(times) else 1
    crossing = 1.0 if reach.width is None else min(1.0, reach.width / span)
    if reach.nearest:
        # A row a key crosses a border. A key of the sample stands for as many as a row does.
        keys = np.bincount(np.unique(sample.right_hash) % count, minlength=count) * sample.weight
        copies, crossing = np.minimum(copies * crossing, keys), 1.0
    ends = copies if reach.partial else np.full(count, math.inf)
    return [
        _Load(float(rows), float(halo), float(end))
        for rows, halo, end in zip(left + right, copies * crossing, ends, strict=True)
    ]


def _assign(
    loads: Sequence[Divisible], degrees: list[int], partitions: int
) -> tuple[list[tuple[int, ...]], list[float]]:
    """Largest slices first, each to the least loaded partition that has none of its bucket.

    The same holds for the pieces of a slice.
    """
    full = [(0.0, partition) for partition in range(partitions)]
    homes: list[tuple[int, ...]] = [()] * len(loads)
    order = sorted(range(len(loads)), key=lambda b: -loads[b].piece(degrees[b]))
    for bucket in order:
        piece = loads[bucket].piece(degrees[bucket])
        taken = [heapq.heappop(full) for _ in range(degrees[bucket])]
        for load, partition in taken:
            heapq.heappush(full, (load + piece, partition))
        homes[bucket] = tuple(sorted(partition for _, partition in taken))
    return homes, [load for load, _ in sorted(full, key=lambda entry: entry[1])]


def _centres(sample: Sample, reach: Reach) -> Integers:
    """Left times, and right times moved to the middle of the left times they can match."""
    if reach.nearest:
        return np.concatenate([sample.left_time, sample.right_time])
    if reach.lower is None or reach.upper is None:
        ends = [end for end in (reach.lower, reach.upper) if end is not None and reach.partial]
        right = np.clip(sample.right_time, -LIMIT // 2, LIMIT // 2)
        return np.concatenate([sample.left_time, *(right - end for end in ends)])
    middle = (reach.lower + reach.upper) // 2
    moves = [reach.lower, reach.upper] if reach.partial else [middle]
    right = np.clip(sample.right_time, -LIMIT // 2, LIMIT // 2)
    return np.concatenate([sample.left_time, *(right - move for move in moves)])


def cut(times: Integers, homes: tuple[int, ...]) -> Bucket:
    """Slices that hold equal numbers of `times`; fewer of them where ties leave no border."""
    if len(times) == 0 or len(homes) == 1:
        return Bucket(homes[:1])
    times = np.sort(np.clip(times, -LIMIT // 2, LIMIT // 2))
    borders = np.unique(times[np.arange(1, len(homes)) * len(times) // len(homes)])
    return Bucket(homes[: len(borders) + 1], tuple(borders.tolist()))


@dataclass(frozen=True)
class _Slice:
    """Rows of a slice that are at home in it, and the rows that each of its pieces gets."""

    rows: float
    copies: float

    def piece(self, degree: int) -> float:
        """Rows of one of `degree` pieces."""
        return self.rows / degree + self.copies


def _evened(layout: Layout, sample: Sample) -> Layout:
    """The layout with the slices in pieces that one time makes heavy, if that helps.

    Only the rows that are sent home can be divided so: each piece gets all of the others.
    """
    mean = layout.sent / layout.partitions
    spread = _DEVIATIONS * math.sqrt(mean * sample.weight)
    if layout.copied == "both" or layout.fullest <= _HEAVY * mean + spread:
        return layout
    divided = measured(replace(layout, buckets=_in_pieces(layout, sample)), sample)
    return min(layout, divided, key=lambda one: one.cost)


def _in_pieces(layout: Layout, sample: Sample) -> tuple[Bucket, ...]:
    """The buckets with slices cut until no partition has more than its share, if that can be."""
    rows = [
        likely(_spread(layout, hashes, times, span)) * sample.weight
        for hashes, times, span in (
            (sample.left_hash, sample.left_time, layout.left_span),
            (sample.right_hash, sample.right_time, layout.right_span),
        )
    ]
    homes, copies = reversed(rows) if layout.copied == "left" else rows
    partitions = layout.partitions
    share = max(1.0, BALANCED * layout.sent / partitions)
    slices = [_Slice(float(home), float(copy)) for home, copy in zip(homes, copies, strict=True)]
    pieces = [min(partitions, max(1, round(one.rows / share))) for one in slices]
    best: list[tuple[int, ...]] = []
    lowest = float("inf")
    # As many rounds as there are slices to cut, about; of many buckets, few are heavy.
    for _ in range(max(_ROUNDS, _ROUNDS * partitions // len(layout.buckets))):
        places, full = _assign(slices, pieces, partitions)
        fullest = max(full)
        if fullest < lowest:
            best, lowest = places, fullest
        worst = full.index(fullest)
        inside = [
            at for at, place in enumerate(places) if worst in place and len(place) < partitions
        ]
        if fullest <= BALANCED * sum(full) / partitions or not inside:
            break
        pieces[max(inside, key=lambda at: slices[at].piece(pieces[at]))] += 1
    placed = iter(best)
    return tuple(
        _placed(bucket.borders, [next(placed) for _ in range(len(bucket.borders) + 1)])
        for bucket in layout.buckets
    )


def _placed(borders: tuple[int, ...], places: list[tuple[int, ...]]) -> Bucket:
    """A bucket with the slices, or their pieces, in these partitions."""
    pieces = tuple(map(len, places))
    flat = tuple(partition for place in places for partition in place)
    return Bucket(flat, borders, pieces if max(pieces) > 1 else ())


def measured(layout: Layout, sample: Sample) -> Layout:
    """The layout with the shares it would give the sample's rows."""
    slices = _spread(layout, sample.left_hash, sample.left_time, layout.left_span)
    slices += _spread(layout, sample.right_hash, sample.right_time, layout.right_span)
    full = np.bincount(layout.partition_of, slices * sample.weight, layout.partitions)
    return replace(layout, rows=sample.rows, sent=float(full.sum()), fullest=float(full.max()))


def _spread(layout: Layout, hashes: Integers, times: Integers, span: Span) -> Integers:
    """Rows that each slice gets."""
    # The sample has no hashes of rows; any that spread evenly do.
    spread = np.arange(len(times)) if layout.has_pieces else None
    buckets = hashes % len(layout.buckets)
    slices = Slices(*layout.slices(buckets, times, span, spread))
    if span.copied and layout.reach.partial and not layout.has_pieces:
        return _with_partials(layout, hashes, slices)
    if not (span.copied and layout.reach.nearest):
        return _counted(layout, slices)
    home = Slices(*layout.slices(buckets, times, HOME, spread))
    order = np.argsort(times, kind="stable")
    copies = carried(hashes[order], home.of(order), slices.of(order)).slices
    return _counted(layout, home) + _counted(layout, copies)


def _with_partials(layout: Layout, hashes: Integers, slices: Slices) -> Integers:
    """Rows that each slice gets as they are, and partial rows: one of a key and its slices."""
    begin, end = layout.covered(*slices)
    none = begin > end
    begin, end = np.where(none, slices.last + 1, begin), np.where(none, slices.last, end)
    covered = np.unique(np.stack([hashes, begin, end])[:, ~none], axis=1)
    before, behind = Slices(slices.first, begin - 1), Slices(end + 1, slices.last)
    partial = Slices(*covered[1:])
    return _counted(layout, before) + _counted(layout, behind) + _counted(layout, partial)


def _counted(layout: Layout, slices: Slices) -> Integers:
    """Rows of each slice."""
    first, last = slices
    # Up where a row's slices begin, down after they end: the running sum is the rows of a slice.
    count = len(layout.partition_of) + 1
    change = np.bincount(first, minlength=count) - np.bincount(last + 1, minlength=count)
    return np.cumsum(change)[:-1]
