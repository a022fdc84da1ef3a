"""Determines a row's partitions from its key bucket and, in heavy buckets, from its time slice.

A *bucket* contains all keys whose hashes are equal modulo the number of buckets. A bucket is cut
into one or more *slices* of time, and each slice is in a separate partition::

    bucket 0   ├──────────────── slice 0 ────────────────┤           partition 2
    bucket 1   ├─ slice 1 ─┼───── slice 2 ─────┼─ slice 3 ┤          partitions 0, 1, 2

The quantity by which rows are divided is called time here, although in a band join it is a value. A
single bucket with one slice per partition divides rows only by time. Many buckets with one slice
each divide rows only by key. The driver chooses a layout. The tasks that send rows use it to look
up each row's partitions. This module contains only arithmetic, and depends on neither Spark nor
Arrow.

Halo. Let `reach` be such that every pair satisfies `lower <= r.ts - l.ts <= upper`. Within a
bucket, where `slice(t)` increases with `t`:

===========  ==============================================  ===================
row          is sent to slices                               its home
===========  ==============================================  ===================
right, kept  `slice(r - upper) .. slice(r - lower)`          the first of them
left, kept   `slice(l - (upper - lower)) .. slice(l)`        the last of them
===========  ==============================================  ===================

1. A pair meets in the left row's home: `r - upper <= l <= r - lower`, and `slice` is monotone.
2. A pair meets in the right row's home, `slice(r - upper)`. The left row's home is this slice or a
   later one, because `l >= r - upper`. The left row's first slice is this slice or an earlier one,
   because `l - (upper - lower) <= r - upper`.

A join that keeps left rows (left, semi, anti, and optionally inner) therefore copies right rows and
sends each left row only to its home. A right join sends right rows only to their homes and copies
left rows. A full join copies both sides. A slice reports a pair if it is the left row's home. The
slice reports an unmatched row if it is that row's home. By statements 1 and 2, a home receives
every row that its own rows could match, so each result row is returned once.

`reach` can be wider than the join's own interval. A wider reach causes more copies, but no result
row is ever lost.

Pieces. A single time may have more rows than a partition should hold, and no border can divide
them. In that case, the slice that contains this time has several *pieces*, each in a separate
partition. A row that is sent only to its home goes to one piece, selected by a hash of the row. A
copied row goes to all pieces of its slices. Pieces are numbered consecutively, so statements 1 and
2 also apply to pieces. A partition can hold pieces of several slices. A row that is copied to
several of these pieces is sent to the partition only once. If both sides are copied, each slice has
one piece. Otherwise, unmatched rows could not be detected.

Nearest rows. If a left row can match only the nearest right row with the same key, most of the halo
is unnecessary. `nearest.py` determines which rows are copied in that case. If rows have a start and
an end, `overlap.py` determines their destinations.

Partial rows. If left rows are returned with aggregates of their partners, a slice can combine the
right rows that match all of its left rows. `covered` finds these slices, and `worker/partials.py`
combines the rows sent to them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Copied = Literal["left", "right", "both"]


class Span(NamedTuple):
    """The offsets from a row's time to its first and last slices; None means unbounded.

    A row on a side that is not `copied` is sent only to the first slice.
    """

    first: int | None
    last: int | None
    copied: bool


# The largest distance of a bound from zero. Borders are at most half as far away, so the difference
# between a border and a bound fits into 64 bits. If times are in microseconds, the limit lies after
# the year 140000.
LIMIT = 2**62


@dataclass(frozen=True)
class Reach:
    """The bounds of `r.ts - l.ts` for all pairs, in the layout's unit; None means unbounded.

    `nearest` specifies that a left row needs at most two right rows with the same key: the last one
    before it and the first one after it. `partial` specifies that a slice can receive a single row
    instead of all right rows that have the same key and match all of its left rows. With `partial`,
    time differences in pairs reach the bounds or fall one step short of them.
    """

    lower: int | None
    upper: int | None
    nearest: bool = False
    partial: bool = False

    @classmethod
    def of(cls, lower: int | None, upper: int | None) -> Reach:
        """Return a reach of at least `lower .. upper` whose sums with borders fit into 64 bits."""
        return cls(
            None if lower is None or lower < -LIMIT else min(lower, LIMIT),
            None if upper is None or upper > LIMIT else max(upper, -LIMIT),
        )

    @property
    def width(self) -> int | None:
        """The halo of a slice, `upper - lower`, or None if the halo is unbounded."""
        if self.lower is None or self.upper is None or self.upper - self.lower > LIMIT:
            return None
        return self.upper - self.lower

    def left_span(self, *, copied: bool) -> Span:
        """Return the span of a left row."""
        if not copied:
            return Span(0, 0, copied=False)
        return Span(None if self.width is None else -self.width, 0, copied=True)

    def right_span(self, *, copied: bool) -> Span:
        """Return the span of a right row."""
        first = None if self.upper is None else -self.upper
        return Span(first, None if self.lower is None else -self.lower, copied)


@dataclass(frozen=True)
class Bucket:
    """The partitions of a bucket's slices, and the first time in every slice except the first one.

    If any slice has several pieces, `pieces` contains the number of pieces per slice, and
    `partitions` contains one partition per piece.
    """

    partitions: tuple[int, ...]
    borders: tuple[int, ...] = ()
    pieces: tuple[int, ...] = ()

    def slices(
        self,
        times: Integers,
        span: Span,
        hashes: Integers | None = None,
        ends: Integers | None = None,
    ) -> tuple[Integers, Integers]:
        """Return each row's first and last slices, or first and last pieces.

        `hashes` are the hashes of the rows. If a row has two times, `times` determines its first
        slice and `ends` its last slice.
        """
        first = self._slice_of(times, span.first, 0)
        last = first
        if span.copied:
            last = self._slice_of(times if ends is None else ends, span.last, len(self.borders))
        if not self.pieces or hashes is None:
            return first, last
        counts = np.array(self.pieces)
        ends = np.cumsum(counts)
        if span.copied:
            return (ends - counts)[first], ends[last] - 1
        piece = (ends - counts)[first] + hashes % counts[first]
        return piece, piece

    def _slice_of(self, times: Integers, shift: int | None, end: int) -> Integers:
        """Return the slice of each time plus `shift`, without a sum that could overflow."""
        if shift is None:
            return np.full(len(times), end)
        borders = np.asarray(self.borders, dtype=np.int64) - shift
        return np.searchsorted(borders, times, side="right")


@dataclass(frozen=True)
class Places:
    """Buckets with their partitions and the row counts predicted from a sample.

    `rows` is the number of rows in both inputs, and `sent` also counts copies. `fullest` is the
    number of rows in the fullest partition.
    """

    partitions: int
    buckets: tuple[Bucket, ...]
    rows: float = field(default=0.0, kw_only=True)
    sent: float = field(default=0.0, kw_only=True)
    fullest: float = field(default=0.0, kw_only=True)

    @property
    def keys(self) -> int:
        """The number of buckets into which keys are hashed."""
        return len(self.buckets)

    @property
    def is_cut(self) -> bool:
        """Return whether any bucket has more than one slice, so that some rows are copied."""
        return any(len(bucket.partitions) > 1 for bucket in self.buckets)

    @property
    def has_pieces(self) -> bool:
        """Return whether any slice has several pieces."""
        return any(bucket.pieces for bucket in self.buckets)

    @property
    def reports_at_home(self) -> bool:
        """Return whether both sides are copied, which means that copies must be marked."""
        raise NotImplementedError

    @cached_property
    def partition_of(self) -> Integers:
        """The partition of each slice. Slices are numbered consecutively over all buckets."""
        return np.array([p for bucket in self.buckets for p in bucket.partitions], dtype=np.int64)

    def between(
        self,
        bucket: Integers,
        times: Integers,
        span: Span,
        hashes: Integers | None,
        ends: Integers | None = None,
    ) -> tuple[Integers, Integers]:
        """Return each row's first and last slices, numbered over all buckets and pieces."""
        counts = np.array([len(bucket.partitions) for bucket in self.buckets])
        first = (np.cumsum(counts) - counts)[bucket]
        last = first.copy()
        for number in np.flatnonzero(counts > 1):
            rows = np.flatnonzero(bucket == number)
            of_rows = None if hashes is None else hashes[rows]
            until = None if ends is None else ends[rows]
            firsts, lasts = self.buckets[number].slices(times[rows], span, of_rows, until)
            first[rows] += firsts
            last[rows] += lasts
        return first, last

    @property
    def cost(self) -> float:
        """The mean number of rows per partition (the work) plus the maximum number (the wait)."""
        return self.sent / self.partitions + self.fullest


@dataclass(frozen=True)
class Layout(Places):
    """The layout of rows that have a single time. Pairs lie within a reach."""

    copied: Copied
    reach: Reach

    @property
    def reports_at_home(self) -> bool:
        """Return whether both sides are copied, which means that copies must be marked."""
        return self.copied == "both" and self.is_cut

    @property
    def left_span(self) -> Span:
        """The span of a left row."""
        return self.reach.left_span(copied=self.copied != "right")

    @property
    def right_span(self) -> Span:
        """The span of a right row."""
        return self.reach.right_span(copied=self.copied != "left")

    def slices(
        self, bucket: Integers, times: Integers, span: Span, hashes: Integers | None
    ) -> tuple[Integers, Integers]:
        """Return each row's first and last slices, numbered over all buckets and pieces."""
        return self.between(bucket, times, span, hashes)

    def covered(self, first: Integers, last: Integers) -> tuple[Integers, Integers]:
        """Return the first and last slices in which a right row matches all left rows.

        If there are no such slices, the first is greater than the last. All left rows in these
        slices lie strictly within the reach of the right row.
        """
        # The slices between the first and the last are within the reach. If the reach is unbounded
        # at one end, so is the slice at that end.
        lower, upper = self.reach.lower, self.reach.upper
        return first + (upper is not None), last - (lower is not None)

    @cached_property
    def before(self) -> Integers:
        """For each slice or piece, the previous one in the same bucket and partition, or -1."""
        found = np.full(len(self.partition_of), -1)
        number = 0
        for bucket in self.buckets:
            last: dict[int, int] = {}
            for partition in bucket.partitions:
                found[number] = last.get(partition, -1)
                last[partition] = number
                number += 1
        return found


def by_key(partitions: int, copied: Copied, reach: Reach) -> Layout:
    """Return a layout with one uncut bucket per partition. This layout needs no sample."""
    buckets = tuple(Bucket(partitions=(p,)) for p in range(partitions))
    return Layout(partitions, buckets, copied, reach)
