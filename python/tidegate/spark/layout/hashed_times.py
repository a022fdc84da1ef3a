"""Divides streams by a hash of the time if each bucket can compute part of every result.

Rows with equal times are sent to the same bucket. A retried task therefore sends each row to the
same bucket again. Rows are never copied.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tidegate.spark.layout.layout import Bucket, Integers, Layout, Reach, Span

# A factor that spreads adjacent values over 64 bits (2^64 divided by the golden ratio), and the
# number of upper bits of the product that are used.
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_UPPER = np.uint64(32)


@dataclass(frozen=True)
class HashedTimes(Layout):
    """A layout that assigns rows to partitions by hashing their times."""

    @classmethod
    def of(cls, partitions: int) -> HashedTimes:
        """Return the layout with this number of buckets."""
        return cls(partitions, (Bucket(tuple(range(partitions))),), "left", Reach.of(0, 0))

    @property
    def reports_at_home(self) -> bool:
        """Always false, because there are no copies."""
        return False

    @cached_property
    def before(self) -> Integers:
        """Always -1, because each row is sent to only one bucket."""
        return np.full(self.partitions, -1)

    def slices(
        self,
        bucket: Integers,  # noqa: ARG002 - there is one
        times: Integers,
        span: Span,  # noqa: ARG002 - nothing is copied
        hashes: Integers | None,  # noqa: ARG002 - no slice has pieces
    ) -> tuple[Integers, Integers]:
        """Return each row's bucket as both its first and its last slice."""
        mixed = times.astype(np.uint64) * _FACTOR >> _UPPER
        places = (mixed % np.uint64(self.partitions)).astype(np.int64)
        return places, places.copy()
