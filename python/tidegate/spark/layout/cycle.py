"""Divides streams by time or by value: slices are assigned to the buckets in turn.

Neither the end of a stream nor the range of its values is known in advance. Therefore, all slices
have the same width. If the hash of a key selects bucket b, slice n of the key is in bucket (b + n)
modulo the number of buckets::

    slice    0   1   2   3   4   5   6   7
    bucket   0   1   2   0   1   2   0   1     of three, for the keys of bucket 0

The rules of `layout.py` for pairs and homes apply, because `slice(t)` increases with t. The slices
of a bucket are far apart. A copied row that belongs to several slices of a bucket is sent to the
bucket only once. The other row of a pair is sent to a single bucket, where the pair is found. A
full join copies both sides. In a full join, a bucket reports a pair if the left row is at home
there. The bucket reports an unmatched row if that row is at home there. Slices are wide enough that
a row is sent to at most two of them. Each row's home therefore receives both rows of a pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tidegate.spark.layout.layout import LIMIT, Bucket, Copied, Integers, Layout, Reach, Span

# The width of a slice as a multiple of the reach. With 8, a copied row is sent to 1 + 1/8 slices on
# average. Wider slices would leave more buckets idle if a micro-batch spans a short time.
WIDTHS = 8


@dataclass(frozen=True)
class Cycle(Layout):
    """Slices of equal width, assigned to partitions in turn; a key's hash selects the first one."""

    width: int = 1

    @classmethod
    def of(cls, partitions: int, copied: Copied, reach: Reach, *, keyed: bool) -> Cycle:
        """Return the cycle for a reach. The reach must be bounded."""
        if reach.width is None:
            message = "streams cannot be divided into slices if the reach is unbounded"
            raise ValueError(message)
        buckets = tuple(Bucket((partition,)) for partition in range(partitions if keyed else 1))
        width = min(max(1, WIDTHS * reach.width), LIMIT)
        return cls(partitions, buckets, copied, reach, width=width)

    @property
    def reports_at_home(self) -> bool:
        """Always true, because late rows are emitted only where they are at home."""
        return True

    @cached_property
    def partition_of(self) -> Integers:
        """The partitions of two turns: a row's slices can start in one and end in the next."""
        return np.arange(2 * self.partitions) % self.partitions

    @cached_property
    def before(self) -> Integers:
        """Always -1: a row is sent to at most one turn of slices, so never twice to a partition."""
        return np.full(2 * self.partitions, -1)

    def slices(
        self,
        bucket: Integers,
        times: Integers,
        span: Span,
        hashes: Integers | None,  # noqa: ARG002 - no slice has pieces
    ) -> tuple[Integers, Integers]:
        """Return each row's first and last positions in two turns."""
        first = self._slice_of(times, span.first)
        last = self._slice_of(times, span.last) if span.copied else first
        begin = (first % self.partitions + bucket) % self.partitions
        return begin, begin + np.minimum(last - first, self.partitions - 1)

    def _slice_of(self, times: Integers, shift: int | None) -> Integers:
        """Return the slice that contains each time plus `shift`; the sum is limited to 64 bits."""
        by = shift or 0
        ends = np.iinfo(np.int64)
        inside = np.clip(times, ends.min - min(by, 0), ends.max - max(by, 0))
        slices: Integers = (inside + by) // self.width
        return slices
