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

Nearest rows. Where a left row has one partner, the nearest right row of its key, most of the halo
can stay away: `nearest.py` says which rows are copied then. Where rows have a start and an end,
`overlap.py` says where they go.

Partial rows. Where a left row comes with functions of its partners, a right row need not be told
from others in a slice of which it pairs with every left row: `covered` says which slices these are,
and `worker/partials.py` what travels to them.
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
    """What to add to a row's time for its first and its last slice; None is that end of time.

    A row that is not `copied` goes to the first only.
    """

    first: int | None
    last: int | None
    copied: bool


# Bounds are within this of zero and borders within half of it, so that the difference of a border
# and a bound stays within 64 bits. It is later than the year 140000 in microseconds.
LIMIT = 2**62


@dataclass(frozen=True)
class Reach:
    """Bounds of `r.ts - l.ts` over all pairs, in the unit rows are sent by; None is unbounded.

    `nearest` says that of the right rows before a left row the last of its key is enough, and of
    the right rows after it the first. `partial` says that one row is enough for all right rows of a
    key that pair with every left row of a slice; pairs are then as far apart as the reach says, or
    one step less.
    """

    lower: int | None
    upper: int | None
    nearest: bool = False
    partial: bool = False

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
        self,
        times: Integers,
        span: Span,
        hashes: Integers | None = None,
        ends: Integers | None = None,
    ) -> tuple[Integers, Integers]:
        """First and last slice of each row, or of their pieces; `hashes` are the rows'.

        The last slice is that of `ends`, if a row has one time for its first and one for its last.
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
        """Slice of each time plus `shift`, without a sum that could overflow."""
        if shift is None:
            return np.full(len(times), end)
        borders = np.asarray(self.borders, dtype=np.int64) - shift
        return np.searchsorted(borders, times, side="right")


@dataclass(frozen=True)
class Places:
    """Buckets with their places, and the sample's rows: of both inputs, as sent, in the fullest."""

    partitions: int
    buckets: tuple[Bucket, ...]
    rows: float = field(default=0.0, kw_only=True)
    sent: float = field(default=0.0, kw_only=True)
    fullest: float = field(default=0.0, kw_only=True)

    @property
    def keys(self) -> int:
        """The number that a hash of the key is taken modulo."""
        return len(self.buckets)

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
        raise NotImplementedError

    @cached_property
    def partition_of(self) -> Integers:
        """Partition of each slice, slices being numbered over all buckets."""
        return np.array([p for bucket in self.buckets for p in bucket.partitions], dtype=np.int64)

    def between(
        self,
        bucket: Integers,
        times: Integers,
        span: Span,
        hashes: Integers | None,
        ends: Integers | None = None,
    ) -> tuple[Integers, Integers]:
        """First and last slice of each row, slices and pieces being numbered over all buckets."""
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
        """Rows of a mean partition plus rows of the fullest: all the work, and the wait for it."""
        return self.sent / self.partitions + self.fullest


@dataclass(frozen=True)
class Layout(Places):
    """The places of rows that have one time, by how far pairs reach for each other."""

    copied: Copied
    reach: Reach

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

    def slices(
        self, bucket: Integers, times: Integers, span: Span, hashes: Integers | None
    ) -> tuple[Integers, Integers]:
        """First and last slice of each row, slices and pieces being numbered over all buckets."""
        return self.between(bucket, times, span, hashes)

    def covered(self, first: Integers, last: Integers) -> tuple[Integers, Integers]:
        """Of the slices of a right row, the first and last of which it pairs with all left rows.

        The first is behind the last where there are none. These left rows are more than the
        reach's lower end before the row, and less than its upper end.
        """
        # The slices between the ends are within the reach; one that is the end of time, too.
        lower, upper = self.reach.lower, self.reach.upper
        return first + (upper is not None), last - (lower is not None)

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


def by_key(partitions: int, copied: Copied, reach: Reach) -> Layout:
    """One bucket a partition, none cut: needs no sample."""
    buckets = tuple(Bucket(partitions=(p,)) for p in range(partitions))
    return Layout(partitions, buckets, copied, reach)
