"""Which partition a row belongs to: buckets of keys, the heavy ones cut into slices of time.

A *bucket* holds every key with one hash modulo the number of buckets. A bucket is cut into one or
more *slices* of time, and each slice lives in a partition of its own::

    bucket 0   ├──────────────── slice 0 ────────────────┤           partition 2
    bucket 1   ├─ slice 1 ─┼───── slice 2 ─────┼─ slice 3 ┤          partitions 0, 1, 2

What rows are divided by is called time here; in a band join it is a value. One bucket cut into a
slice a partition is a pure division by time; many buckets of one slice are a
pure division by key. The driver chooses a layout, and the tasks that send the rows look them up in
it. Everything here is arithmetic: neither Spark nor Arrow is known.

Halo. Let `reach` be such that every pair has `lower <= r.ts - l.ts <= upper`. Within a bucket, with
`slice(t)` rising in `t`:

===========  ==============================================  ===================
row          is sent to slices                               its home
===========  ==============================================  ===================
right, kept  `slice(r - upper) .. slice(r - lower)`          the first of them
left, kept   `slice(l - (upper - lower)) .. slice(l)`        the last of them
===========  ==============================================  ===================

1. A pair meets in the left row's home: `r - upper <= l <= r - lower`, and `slice` is monotone.
2. A pair meets in the right row's home, `slice(r - upper)`: `l >= r - upper` puts the left row's
   home at or after it, and `l - (upper - lower) <= r - upper` puts its first slice at or before it.

So a join that keeps left rows (left, semi, anti, and inner by choice) sends left rows home only and
copies right rows; a right join does the reverse; a full join copies both, and a slice reports a
pair when it is the left row's home, and an unmatched row when it is that row's home. By 1 and 2 a
home sees every row that its own rows could match, hence each row of the result comes once.

`reach` may be wider than the join's own interval: that costs copies, never a row.

Pieces. One time may have more rows than a partition should, and no border cuts it. Its slice then
has several *pieces*, each in a partition of its own: a row that is sent home only goes to the piece
that a hash of the row says, and rows that are copied go to all pieces of their slices. Numbered one
after the other, pieces are slices as far as 1 and 2 are concerned. A partition may have pieces of
several slices, and gets a row that is copied to more than one of them once. Where both sides are
copied, slices have one piece, since a row without a match could not be told.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

Integers = npt.NDArray[np.int64]
Copied = Literal["left", "right", "both"]
Division = Literal["auto", "key", "time", "hybrid"]


class Span(NamedTuple):
    """What to add to a row's time for its first and its last slice; None is that end of time.

    A row that is not `copied` goes to the first only.
    """

    first: int | None
    last: int | None
    copied: bool


# Bounds are within this of zero and borders within half of it, so that the difference of a border
# and a bound stays within 64 bits. It is later than the year 140000 in microseconds.
LIMIT = 2**62

# A partition may hold this multiple of the mean. Below 1.1 the noise of the sample decides.
_BALANCED = 1.1

# A slice whose rows are this multiple of what a partition may hold is cut into pieces.
_HEAVY = 1.5

# Buckets a partition: enough that uncut buckets alone can be spread evenly.
_BUCKETS = 8

# Splits tried beyond those that the frequencies ask for. More gained nothing on Zipf keys.
_ROUNDS = 16


@dataclass(frozen=True)
class Reach:
    """Bounds of `r.ts - l.ts` over all pairs, in the unit rows are sent by; None is unbounded."""

    lower: int | None
    upper: int | None

    @classmethod
    def of(cls, lower: int | None, upper: int | None) -> Reach:
        """A reach of at least `lower .. upper` whose sums with slice borders fit 64 bits."""
        return cls(
            None if lower is None or lower < -LIMIT else min(lower, LIMIT),
            None if upper is None or upper > LIMIT else max(upper, -LIMIT),
        )

    @property
    def width(self) -> int | None:
        """`upper - lower`, the halo of a slice."""
        if self.lower is None or self.upper is None or self.upper - self.lower > LIMIT:
            return None
        return self.upper - self.lower

    def left_span(self, *, copied: bool) -> Span:
        """Where a left row goes."""
        if not copied:
            return Span(0, 0, copied=False)
        return Span(None if self.width is None else -self.width, 0, copied=True)

    def right_span(self, *, copied: bool) -> Span:
        """Where a right row goes."""
        first = None if self.upper is None else -self.upper
        return Span(first, None if self.lower is None else -self.lower, copied)


@dataclass(frozen=True)
class Bucket:
    """The partitions of a bucket's slices, and the first time of every slice but the first.

    `pieces` are those of each slice, if any has several; `partitions` are then the pieces'.
    """

    partitions: tuple[int, ...]
    borders: tuple[int, ...] = ()
    pieces: tuple[int, ...] = ()

    def slices(
        self, times: Integers, span: Span, hashes: Integers | None = None
    ) -> tuple[Integers, Integers]:
        """First and last slice of each row, or of their pieces; `hashes` are the rows'."""
        first = self._slice_of(times, span.first, 0)
        last = self._slice_of(times, span.last, len(self.borders)) if span.copied else first
        if not self.pieces or hashes is None:
            return first, last
        counts = np.array(self.pieces)
        ends = np.cumsum(counts)
        if span.copied:
            return (ends - counts)[first], ends[last] - 1
        piece = (ends - counts)[first] + hashes % counts[first]
        return piece, piece

    def _slice_of(self, times: Integers, shift: int | None, end: int) -> Integers:
        """Slice of each time plus `shift`, without a sum that could overflow."""
        if shift is None:
            return np.full(len(times), end)
        borders = np.asarray(self.borders, dtype=np.int64) - shift
        return np.searchsorted(borders, times, side="right")


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


@dataclass(frozen=True)
class Layout:
    """Every bucket's place, and the sample's rows: of both inputs, as sent, in the fullest one."""

    partitions: int
    buckets: tuple[Bucket, ...]
    copied: Copied
    reach: Reach
    rows: float = 0.0
    sent: float = 0.0
    fullest: float = 0.0

    @property
    def is_cut(self) -> bool:
        """Whether any bucket has more than one slice, and so rows that are copied."""
        return any(len(bucket.partitions) > 1 for bucket in self.buckets)

    @property
    def has_pieces(self) -> bool:
        """Whether any slice has several pieces."""
        return any(bucket.pieces for bucket in self.buckets)

    @property
    def reports_at_home(self) -> bool:
        """Whether both sides are copied, so that a partition must tell rows at home from copies."""
        return self.copied == "both" and self.is_cut

    @property
    def left_span(self) -> Span:
        """Where a left row goes."""
        return self.reach.left_span(copied=self.copied != "right")

    @property
    def right_span(self) -> Span:
        """Where a right row goes."""
        return self.reach.right_span(copied=self.copied != "left")

    @cached_property
    def partition_of(self) -> Integers:
        """Partition of each slice, slices being numbered over all buckets."""
        return np.array([p for bucket in self.buckets for p in bucket.partitions], dtype=np.int64)

    def slices(
        self, bucket: Integers, times: Integers, span: Span, hashes: Integers | None
    ) -> tuple[Integers, Integers]:
        """First and last slice of each row, slices and pieces being numbered over all buckets."""
        counts = np.array([len(bucket.partitions) for bucket in self.buckets])
        first = (np.cumsum(counts) - counts)[bucket]
        last = first.copy()
        for number in np.flatnonzero(counts > 1):
            rows = np.flatnonzero(bucket == number)
            of_rows = None if hashes is None else hashes[rows]
            firsts, lasts = self.buckets[number].slices(times[rows], span, of_rows)
            first[rows] += firsts
            last[rows] += lasts
        return first, last

    @cached_property
    def before(self) -> Integers:
        """For each slice or piece, the last one before it in its bucket and partition, or -1."""
        found = np.full(len(self.partition_of), -1)
        number = 0
        for bucket in self.buckets:
            last: dict[int, int] = {}
            for partition in bucket.partitions:
                found[number] = last.get(partition, -1)
                last[partition] = number
                number += 1
        return found

    @property
    def cost(self) -> float:
        """Rows of a mean partition plus rows of the fullest: all the work, and the wait for it."""
        return self.sent / self.partitions + self.fullest


def chosen(
    sample: Sample, partitions: int, copied: Copied, reach: Reach, division: Division
) -> Layout:
    """The layout that was asked for; of all, the one that suits the sample best."""
    by_time_alone = by_time(sample, partitions, copied, reach)
    if division == "time":
        return by_time_alone
    cut = hybrid(sample, partitions, copied, reach, most=partitions)
    if division == "hybrid":
        return cut
    uncut = hybrid(sample, partitions, copied, reach, most=1)
    return min(uncut, cut, by_time_alone, key=lambda layout: layout.cost)


def by_key(partitions: int, copied: Copied, reach: Reach) -> Layout:
    """One bucket a partition, none cut: needs no sample."""
    buckets = tuple(Bucket(partitions=(p,)) for p in range(partitions))
    return Layout(partitions, buckets, copied, reach)


def by_time(sample: Sample, partitions: int, copied: Copied, reach: Reach) -> Layout:
    """One bucket for all keys, cut into a slice a partition."""
    bucket = _cut(_centres(sample, reach), tuple(range(partitions)))
    if copied != "both":
        bucket = _in_pieces(bucket, sample, copied, reach, partitions)
    return _measured(Layout(partitions, (bucket,), copied, reach), sample)


def hybrid(sample: Sample, partitions: int, copied: Copied, reach: Reach, *, most: int) -> Layout:
    """Buckets of keys, the heavy ones cut by time until no partition has more than its share.

    A bucket is cut into at most `most` slices.

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
    share = _BALANCED * sample.rows / partitions
    loads = _bucket_loads(sample, _BUCKETS * partitions, copied, reach)
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
    buckets = tuple(
        _cut(_centres(sample.of_bucket(b, len(best)), reach), homes) for b, homes in enumerate(best)
    )
    return _measured(Layout(partitions, buckets, copied, reach), sample)


@dataclass(frozen=True)
class _Load:
    """Rows of a bucket, and the rows that every cut through it copies."""

    rows: float
    halo: float

    def piece(self, degree: int) -> float:
        """Rows of one of `degree` slices."""
        return self.rows / degree + self.halo * (degree - 1) / degree

    def degree(self, share: float, most: int) -> int:
        """Fewest slices of at most `share` rows each, or as many as make them smallest."""
        fitting = (degree for degree in range(1, most) if self.piece(degree) <= share)
        return next(fitting, most if self.rows > self.halo else 1)


def _bucket_loads(sample: Sample, count: int, copied: Copied, reach: Reach) -> list[_Load]:
    left = np.bincount(sample.left_hash % count, minlength=count) * sample.weight
    right = np.bincount(sample.right_hash % count, minlength=count) * sample.weight
    copies = {"left": left, "right": right, "both": left + right}[copied]
    times = np.concatenate([sample.left_time, sample.right_time])
    span = max(1, int(np.ptp(times))) if len(times) else 1
    crossing = 1.0 if reach.width is None else min(1.0, reach.width / span)
    return [
        _Load(float(rows), float(halo))
        for rows, halo in zip(left + right, copies * crossing, strict=True)
    ]


def _assign(
    loads: Sequence[_Load | _Slice], degrees: list[int], partitions: int
) -> tuple[list[tuple[int, ...]], list[float]]:
    """Largest slices first, each to the least loaded partition that has none of its bucket.

    Likewise of a slice's pieces.
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
    if reach.lower is None or reach.upper is None:
        return sample.left_time
    middle = (reach.lower + reach.upper) // 2
    right = np.clip(sample.right_time, -LIMIT // 2, LIMIT // 2) - middle
    return np.concatenate([sample.left_time, right])


def _cut(times: Integers, homes: tuple[int, ...]) -> Bucket:
    """Slices that hold equal numbers of `times`; fewer of them where ties leave no border."""
    if len(times) == 0 or len(homes) == 1:
        return Bucket(homes[:1])
    times = np.sort(np.clip(times, -LIMIT // 2, LIMIT // 2))
    borders = np.unique(times[np.arange(1, len(homes)) * len(times) // len(homes)])
    return Bucket(homes[: len(borders) + 1], tuple(borders.tolist()))


@dataclass(frozen=True)
class _Slice:
    """Rows of a slice that are at home in it, and those that each of its pieces gets."""

    rows: float
    copies: float

    def piece(self, degree: int) -> float:
        """Rows of one of `degree` pieces."""
        return self.rows / degree + self.copies


def _in_pieces(
    bucket: Bucket, sample: Sample, copied: Copied, reach: Reach, partitions: int
) -> Bucket:
    """The bucket with the slices in pieces that one time makes heavy.

    Only the rows that are sent home can be divided so: each piece gets all of the others. Once a
    slice has more than its share, slices are cut until no partition has, as far as that can be.
    """
    uncut = Layout(partitions, (bucket,), copied, reach)
    rows = [
        _spread(uncut, sample.left_hash, sample.left_time, uncut.left_span) * sample.weight,
        _spread(uncut, sample.right_hash, sample.right_time, uncut.right_span) * sample.weight,
    ]
    homes, copies = reversed(rows) if copied == "left" else rows
    share = max(1.0, _BALANCED * float(homes.sum() + copies.sum()) / partitions)
    slices = [_Slice(float(home), float(copy)) for home, copy in zip(homes, copies, strict=True)]
    if max(one.piece(1) for one in slices) < _HEAVY * share:
        return bucket
    pieces = [min(partitions, max(1, round(one.rows / share))) for one in slices]
    best, lowest = bucket, float("inf")
    for _ in range(_ROUNDS * partitions):
        places, full = _assign(slices, pieces, partitions)
        fullest = max(full)
        if fullest < lowest:
            flat = tuple(place for slice_ in places for place in slice_)
            best, lowest = Bucket(flat, bucket.borders, tuple(pieces)), fullest
        worst = full.index(fullest)
        inside = [
            at for at, place in enumerate(places) if worst in place and len(place) < partitions
        ]
        if fullest <= _BALANCED * sum(full) / partitions or not inside:
            break
        pieces[max(inside, key=lambda at: slices[at].piece(pieces[at]))] += 1
    return best


def _measured(layout: Layout, sample: Sample) -> Layout:
    """The layout with the shares it would give the sample's rows."""
    slices = _spread(layout, sample.left_hash, sample.left_time, layout.left_span)
    slices += _spread(layout, sample.right_hash, sample.right_time, layout.right_span)
    full = np.bincount(layout.partition_of, slices * sample.weight, layout.partitions)
    return replace(layout, rows=sample.rows, sent=float(full.sum()), fullest=float(full.max()))


def _spread(layout: Layout, hashes: Integers, times: Integers, span: Span) -> Integers:
    """Rows that each slice gets."""
    # The sample has no hashes of rows; any that spread evenly do.
    spread = np.arange(len(times)) if layout.has_pieces else None
    first, last = layout.slices(hashes % len(layout.buckets), times, span, spread)
    # Up where a row's slices begin, down after they end: the running sum is the rows of a slice.
    count = len(layout.partition_of) + 1
    change = np.bincount(first, minlength=count) - np.bincount(last + 1, minlength=count)
    return np.cumsum(change)[:-1]
