"""Streams that are divided by time or by value: their slices are dealt to the buckets in turn.

The end of a stream and the spread of its values are unknown beforehand. So all slices have one
width, and slice n of a key whose hash says bucket b is in bucket (b + n) modulo the
number of buckets::

    slice    0   1   2   3   4   5   6   7
    bucket   0   1   2   0   1   2   0   1     of three, for the keys of bucket 0

What `layout.py` says of pairs and homes holds, for `slice(t)` rises with t. A bucket has slices
that are far from each other, and a copied row that belongs to several of them once: the pair is
found in the bucket that the other row is sent to, which it is once. In a full join both sides are
copied. There a bucket reports a pair if the left row is at home, and a row without a partner if
this row is at home. Slices are so wide that a row is sent to two at most, so that each home of a
pair has both rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tidegate.spark.layout.layout import LIMIT, Bucket, Copied, Integers, Layout, Reach, Span

# Widths of the reach that a slice has: a copied row goes to 1 + 1/8 slices on average. Wider ones
# would leave more buckets idle while a micro-batch has rows of a short time.
WIDTHS = 8


@dataclass(frozen=True)
class Cycle(Layout):
    """Slices of a width, dealt to the partitions in turn, from one on that the key's hash says."""

    width: int = 1

    @classmethod
    def of(cls, partitions: int, copied: Copied, reach: Reach, *, keyed: bool) -> Cycle:
        """The cycle for a reach, which must be bounded."""
        if reach.width is None:
            message = "no slice is as wide as an unbounded reach"
            raise ValueError(message)
        buckets = tuple(Bucket((partition,)) for partition in range(partitions if keyed else 1))
        width = min(max(1, WIDTHS * reach.width), LIMIT)
        return cls(partitions, buckets, copied, reach, width=width)

    @property
    def reports_at_home(self) -> bool:
        """Late rows come out where they are at home only."""
        return True

    @cached_property
    def partition_of(self) -> Integers:
        """Two turns, as a row's slices may begin in one and end in the next."""
        return np.arange(2 * self.partitions) % self.partitions

    @cached_property
    def before(self) -> Integers:
        """A row is sent to no more slices than a turn has, so to no partition twice."""
        return np.full(2 * self.partitions, -1)

    def slices(
        self,
        bucket: Integers,
        times: Integers,
        span: Span,
        hashes: Integers | None,  # noqa: ARG002 - no slice has pieces
    ) -> tuple[Integers, Integers]:
        """First and last place in two turns of each row."""
        first = self._slice_of(times, span.first)
        last = self._slice_of(times, span.last) if span.copied else first
        begin = (first % self.partitions + bucket) % self.partitions
        return begin, begin + np.minimum(last - first, self.partitions - 1)

    def _slice_of(self, times: Integers, shift: int | None) -> Integers:
        """Slice of each time plus `shift`, which is no further than 64 bits go."""
        by = shift or 0
        ends = np.iinfo(np.int64)
        inside = np.clip(times, ends.min - min(by, 0), ends.max - max(by, 0))
        slices: Integers = (inside + by) // self.width
        return slices
