"""Streams whose rows may be in any bucket, since each bucket gives a part of every result.

Rows of one time go to one bucket, the one that a hash of the time says. So a row goes to the same
bucket when a task is tried again, and nothing is copied.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tidegate.spark.layout.layout import Bucket, Integers, Layout, Reach, Span

# A factor that spreads neighbours over 64 bits (2^64 over the golden ratio), and how many of the
# upper bits of the product are taken.
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_UPPER = np.uint64(32)


@dataclass(frozen=True)
class HashedTimes(Layout):
    """Rows go to the partitions by a hash of their times."""

    @classmethod
    def of(cls, partitions: int) -> HashedTimes:
        """The layout of this number of buckets."""
        return cls(partitions, (Bucket(tuple(range(partitions))),), "left", Reach.of(0, 0))

    @property
    def reports_at_home(self) -> bool:
        """There are no copies."""
        return False

    @cached_property
    def before(self) -> Integers:
        """A row is sent to one place."""
        return np.full(self.partitions, -1)

    def slices(
        self,
        bucket: Integers,  # noqa: ARG002 - there is one
        times: Integers,
        span: Span,  # noqa: ARG002 - nothing is copied
        hashes: Integers | None,  # noqa: ARG002 - no slice has pieces
    ) -> tuple[Integers, Integers]:
        """The place of each row, twice."""
        mixed = times.astype(np.uint64) * _FACTOR >> _UPPER
        places = (mixed % np.uint64(self.partitions)).astype(np.int64)
        return places, places.copy()
