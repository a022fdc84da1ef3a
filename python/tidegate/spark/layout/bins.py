"""Bins of time for Spark's own join of equal keys and bins: their width, and what they make.

A row of one side has one bin, `bin(t) = t / width`. A row of the other side meets rows in an
interval of time that is at most as long as a bin is wide. So it has one bin or two, and is copied
into the second. Of a pair, the row with one bin has it in common with exactly one copy of the
other, so that no pair comes twice. The side that is copied is one whose rows need not be kept.

Wide bins make few copies, narrow ones few candidates: rows of one key and bin, which are compared.
With matches spread evenly over an interval of length `reach`, and `width` in the same unit::

    copies       rows of the copied side * reach / width
    candidates   pairs * (width + reach) / reach

The sum of both costs is least at a width that is a square root, if bins may be so narrow. What one
copy and one candidate cost: `costs.py`.

Everything here is arithmetic on the driver: neither Spark nor Arrow is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from tidegate.spark.layout.costs import comparing, copying, costs, looking

if TYPE_CHECKING:
    from tidegate.spark.layout.balance import Sample
    from tidegate.spark.layout.costs import Asked, Width
    from tidegate.spark.layout.layout import Integers

# How many times as wide as the interval is long bins are at most: wider ones save few copies.
_WIDEST = 16

# The same where no sample tells which width costs least. With four columns and 1 to 16 pairs
# a row it costs up to 6 % more than the best.
_WIDE_ENOUGH = 1.5

# Pairs a row of the copied side with which costs are compared where nobody knows the pairs. Costs
# grow with them in a straight line, so that two numbers do.
_FEWEST, _MOST = 0.0, 1_000.0

# Rows of one key and bin are a group. Rows lie together if groups are at most this share of rows.
# The first 10,000 of 10 million rows in order of time have 0.17 groups a row with 10 keys, 0.20
# with 1,000 and 0.95 with 100,000. With half of the rows on one key they have up to 0.54. Where it
# was 0.95, bins took 1.6 to 1.9 times as long as where it was 0.17.
_ALONE = 0.75

# How much more bins may then cost. The constants of the costs are not exact.
_ABOUT = 1.05

# Pairs of the sample that are enough to count: the mean error is then a few percent.
_COUNTED = 1_000

# Bits of a time; the other bits are for the number of a key.
_BITS = 44


class Ends(NamedTuple):
    """The least and the largest `r.ts - l.ts` of a pair. Nothing pairs if they cross."""

    lower: int
    upper: int

    @property
    def reach(self) -> int:
        """How long the interval of time is that a row meets rows in."""
        return max(0, self.upper - self.lower)


@dataclass(frozen=True)
class Bins:
    """A width of bins, the side that is copied, and what is known of both.

    `together` says whether rows of one key and bin were seen to follow each other closely.
    """

    width: int
    copied: Literal["left", "right"]
    ends: Ends
    rows: float
    of_copied: float
    pairs: float
    together: bool = False

    @property
    def copies(self) -> float:
        """Copies beside the rows."""
        return self.of_copied * self.ends.reach / self.width

    @property
    def candidates(self) -> float:
        """Pairs of rows of one key and bin, if matches are spread evenly."""
        length = self.ends.reach + 1
        return self.pairs * (self.width + length) / length


def fitting(sample: Sample, copied: Literal["left", "right"], ends: Ends, columns: Width) -> Bins:
    """The bins of the width that costs least."""
    length = ends.reach + 1
    pairs = _counted(sample, ends)
    copied_rows = len(sample.left_time if copied == "left" else sample.right_time) * sample.weight
    cells = columns.left if copied == "left" else columns.right
    copy = copying(cells) * copied_rows
    candidates = comparing() * pairs
    best = _WIDEST * length
    if candidates > 0:
        best = min(best, math.ceil(length * math.sqrt(copy / candidates)))
    width = max(1, length, best)
    return Bins(
        width=width,
        copied=copied,
        ends=ends,
        rows=sample.rows,
        of_copied=copied_rows,
        pairs=pairs,
    )


def unseen(rows: tuple[float, float], copied: Literal["left", "right"], ends: Ends) -> Bins:
    """The bins if only the rows of the left and the right side are known, and no pairs."""
    width = math.ceil(_WIDE_ENOUGH * (ends.reach + 1))
    return Bins(width, copied, ends, sum(rows), rows[0 if copied == "left" else 1], 0.0)


def seen(bins: Bins, hashes: Integers, times: Integers) -> Bins:
    """The same bins, and whether rows lie together by the first rows of the copied side.

    If they do, the part of the hash table that a row needs is in the processor's caches. If not,
    each row waits for memory.
    """
    groups = len(np.unique(hashes ^ (times // bins.width)))
    return replace(bins, together=groups <= _ALONE * len(hashes))


def are_safe(bins: Bins, asked: Asked) -> bool:
    """Whether bins do not cost clearly more than a sample and native calls, with any pairs."""
    for pairs in (_FEWEST, _MOST):
        of_bins, native, *_ = costs(replace(bins, pairs=pairs * bins.of_copied), asked)
        if of_bins is None or of_bins > _ABOUT * (native + looking(bins.rows)):
            return False
    return True


def _counted(sample: Sample, ends: Ends) -> float:
    """Pairs of the inputs within these ends; the sample has few or none of these.

    An interval that is longer has more pairs in the sample. They are taken to be spread evenly.
    """
    if not len(sample.left_time) or not len(sample.right_time):
        return 0.0
    _, keys = np.unique(np.append(sample.left_hash, sample.right_hash), return_inverse=True)
    times = np.append(sample.left_time, sample.right_time).astype(np.float64)
    times -= times.min()
    span = float(times.max()) + 1
    length, middle = ends.reach + 1.0, (ends.lower + ends.upper) / 2
    scale = min(1.0, 2.0**_BITS / (3 * span))
    left, right = np.split(times, [len(sample.left_time)])
    of_left, of_right = np.split(keys, [len(sample.left_time)])
    rows = np.sort(_placed(of_right, right, scale, span))
    found, wide = 0, length
    while True:
        begin, end = left + middle - wide / 2, left + middle + wide / 2
        first = np.searchsorted(rows, _placed(of_left, begin, scale, span), side="left")
        last = np.searchsorted(rows, _placed(of_left, end, scale, span), side="right")
        found = int(np.maximum(0, last - first).sum())
        # Most of an interval that is longer lies beyond the first and the last time.
        if found >= _COUNTED or 4 * wide > span:
            break
        wide *= 2
    return found * sample.weight**2 * length / wide


def _placed(keys: Integers, times: np.ndarray, scale: float, span: float) -> Integers:
    """One number for a key and a time, in the order of both."""
    inside = np.clip((times + span) * scale, 0, 2.0**_BITS - 1).astype(np.int64)
    placed: Integers = (keys.astype(np.int64) << _BITS) + inside
    return placed
