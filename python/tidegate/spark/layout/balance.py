"""Chooses a layout for a sample, with few copies and no partition much fuller than the others.

This module contains only arithmetic for the driver, and depends on neither Spark nor Arrow.
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

# A partition may hold this multiple of the mean. Below 1.1, the choice would depend on noise in the
# sample.
BALANCED = 1.1

# Heavy slices are cut into pieces if a partition exceeds this multiple of the mean by this number
# of standard deviations. The deviation is that of a mean partition in the sample. The sampled size
# of a bucket is trusted if it exceeds the mean by the same number of deviations.
_HEAVY = 1.2
_DEVIATIONS = 4

# The number of buckets per partition. With this number, buckets that are not cut can be evenly
# distributed.
BUCKETS = 8

# The number of splits to try beyond those that the frequencies require. More splits had no benefit
# for Zipf-distributed keys.
_ROUNDS = 16


@dataclass(frozen=True)
class Sample:
    """A sample of both inputs: key hashes, times, and the weight of each sampled row."""

    left_hash: Integers
    left_time: Integers
    right_hash: Integers
    right_time: Integers
    weight: float

    @property
    def rows(self) -> float:
        """The number of rows in both inputs."""
        return (len(self.left_hash) + len(self.right_hash)) * self.weight

    def of_bucket(self, bucket: int, count: int) -> Sample:
        """Return the rows in a bucket, if there are `count` buckets."""
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
    """Return the requested layout or, with `auto`, the layout that best suits the sample."""
    by_time_alone = by_time(sample, partitions, copied, reach)
    if division == "time":
        return by_time_alone
    divided = hybrid(sample, partitions, copied, reach, most=partitions)
    if division == "hybrid":
        return divided
    uncut = hybrid(sample, partitions, copied, reach, most=1)
    return min(uncut, divided, by_time_alone, key=lambda layout: layout.cost)


def by_time(sample: Sample, partitions: int, copied: Copied, reach: Reach) -> Layout:
    """Return a layout with one bucket for all keys, cut into one slice per partition."""
    bucket = cut(_centres(sample, reach), tuple(range(partitions)))
    return _evened(measured(Layout(partitions, (bucket,), copied, reach), sample), sample)


def hybrid(sample: Sample, partitions: int, copied: Copied, reach: Reach, *, most: int) -> Layout:
    """Return a layout with buckets of keys. Heavy buckets are cut by time to balance partitions.

    A bucket is cut into at most `most` slices. Slices that are still too heavy are cut into pieces.
    """
    loads = _bucket_loads(sample, BUCKETS * partitions, copied, reach)
    best = spread_out(loads, partitions, BALANCED * sample.rows / partitions, most)
    # Few of many buckets are cut, and finding the rows of a single bucket takes as long as reading
    # all rows.
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
        """Return the number of rows in one of `degree` pieces."""


class Load(Divisible, Protocol):
    """The rows in a bucket."""

    def degree(self, share: float, most: int) -> int:
        """Return the fewest slices with at most `share` rows each, or else the best number."""


def spread_out(
    loads: Sequence[Load], partitions: int, share: float, most: int
) -> list[tuple[int, ...]]:
    """Return the partitions for each bucket's slices. No partition should exceed its share.

    Algorithm 1 of PPOIJ (Mencagli et al., DEBS 2025) takes the keys in descending order of
    frequency and assigns each to the least loaded replica. The algorithm splits keys over more
    replicas until the load is balanced. Departures:

    1. Buckets replace keys, so that the table has a bounded size. A hot key makes its bucket hot.
    2. A bucket is split by time, not round-robin. A row from the other side is sent only to the
       slices within its reach, not to every replica of the key. These copies, the halo, count as
       load.
    3. Lines 11-24 split every key once per round, in order of frequency. This function splits only
       the bucket with the largest slice in the fullest partition. The function then repeats the
       whole assignment, so no key is split because of another key's load.
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
    """A bucket's rows, and the number of copies required by each cut through the bucket."""

    rows: float
    halo: float
    # Rows that are copied only to the next slice, if there are partial rows.
    ends: float = math.inf

    def piece(self, degree: int) -> float:
        """Return the number of rows in one of `degree` slices."""
        return self.rows / degree + min(self.halo * (degree - 1), self.ends) / degree

    def degree(self, share: float, most: int) -> int:
        """Return the fewest slices with at most `share` rows each, or else the best number."""
        fitting = (degree for degree in range(1, most) if self.piece(degree) <= share)
        return next(fitting, most if self.rows > self.halo else 1)


def likely(counts: Integers) -> npt.NDArray[np.float64]:
    """Return the probable number of sampled rows in each bucket, corrected for chance.

    If there are many partitions, a sample has few rows per bucket. A bucket without sampled rows is
    not necessarily empty. If such buckets counted as empty, all of them would be assigned to the
    same partition, because they would never appear to fill it. Counts are therefore moved towards
    their mean. The adjustment is larger if chance explains more of the variance (empirical Bayes:
    the variance of a Poisson distribution is its mean). Counts that chance cannot explain are left
    unchanged and excluded from the mean.
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
        # One row per key crosses a border. A sampled key represents as many keys as a sampled row
        # represents rows.
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
    """Assign slices to partitions, from the largest slice to the smallest.

    Each slice is assigned to the least loaded partition that does not contain a slice of the same
    bucket. The pieces of a slice are assigned in the same way.
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
    """Return left times, and right times moved to the middle of the left times they can match."""
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
    """Return slices with equal numbers of `times`, or fewer slices if too many times are equal."""
    if len(times) == 0 or len(homes) == 1:
        return Bucket(homes[:1])
    times = np.sort(np.clip(times, -LIMIT // 2, LIMIT // 2))
    borders = np.unique(times[np.arange(1, len(homes)) * len(times) // len(homes)])
    return Bucket(homes[: len(borders) + 1], tuple(borders.tolist()))


@dataclass(frozen=True)
class _Slice:
    """The rows at home in a slice, and the copies that each piece of the slice receives."""

    rows: float
    copies: float

    def piece(self, degree: int) -> float:
        """Return the number of rows in one of `degree` pieces."""
        return self.rows / degree + self.copies


def _evened(layout: Layout, sample: Sample) -> Layout:
    """Return the layout with heavy slices cut into pieces, if this helps.

    A slice can be heavy because many rows have the same time. Rows that are sent only to their
    homes can be divided among pieces. All other rows are sent to every piece.
    """
    mean = layout.sent / layout.partitions
    spread = _DEVIATIONS * math.sqrt(mean * sample.weight)
    if layout.copied == "both" or layout.fullest <= _HEAVY * mean + spread:
        return layout
    divided = measured(replace(layout, buckets=_in_pieces(layout, sample)), sample)
    return min(layout, divided, key=lambda one: one.cost)


def _in_pieces(layout: Layout, sample: Sample) -> tuple[Bucket, ...]:
    """Return the buckets with slices cut into pieces. No partition should exceed its share."""
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
    # About as many rounds as there are slices to cut. Few of many buckets are heavy.
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
    """Return a bucket with its slices, or their pieces, in these partitions."""
    pieces = tuple(map(len, places))
    flat = tuple(partition for place in places for partition in place)
    return Bucket(flat, borders, pieces if max(pieces) > 1 else ())


def measured(layout: Layout, sample: Sample) -> Layout:
    """Return the layout with its loads, measured on the sample."""
    slices = _spread(layout, sample.left_hash, sample.left_time, layout.left_span)
    slices += _spread(layout, sample.right_hash, sample.right_time, layout.right_span)
    full = np.bincount(layout.partition_of, slices * sample.weight, layout.partitions)
    return replace(layout, rows=sample.rows, sent=float(full.sum()), fullest=float(full.max()))


def _spread(layout: Layout, hashes: Integers, times: Integers, span: Span) -> Integers:
    """Return the number of rows that each slice receives."""
    # The sample has no hashes of rows. Any evenly distributed numbers can replace them.
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
    """Return the number of rows per slice. Each key has one partial row per range of slices."""
    begin, end = layout.covered(*slices)
    none = begin > end
    begin, end = np.where(none, slices.last + 1, begin), np.where(none, slices.last, end)
    covered = np.unique(np.stack([hashes, begin, end])[:, ~none], axis=1)
    before, behind = Slices(slices.first, begin - 1), Slices(end + 1, slices.last)
    partial = Slices(*covered[1:])
    return _counted(layout, before) + _counted(layout, behind) + _counted(layout, partial)


def _counted(layout: Layout, slices: Slices) -> Integers:
    """Return the number of rows in each slice."""
    first, last = slices
    # A count increases where a row's slices begin and decreases after they end, so the running sum
    # is the number of rows per slice.
    count = len(layout.partition_of) + 1
    change = np.bincount(first, minlength=count) - np.bincount(last + 1, minlength=count)
    return np.cumsum(change)[:-1]
