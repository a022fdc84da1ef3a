"""Chooses the width of time bins for Spark's own join on equal keys and bins.

On one side, each row goes into one bin: `bin(t) = t / width`. A row on the other side matches rows
in a time interval no longer than a bin. Such a row therefore belongs to one or two bins. If there
is a second bin, the row is copied into it. The two rows of a pair share exactly one bin, so no pair
is found twice. A side can be copied only if the result omits its unmatched rows.

Wide bins cause few copies, and narrow bins cause few candidates. A candidate is a pair of rows with
the same key and bin. The two rows must be compared. If matches are spread evenly over an interval
of length `reach`, and `width` has the same unit, then::

    copies       rows of the copied side * reach / width
    candidates   pairs * (width + reach) / reach

The total cost is lowest if `width / reach` is `sqrt(copying / comparing)`, where `copying` is the
cost of copying each row once, and `comparing` is the cost of comparing each pair once. Bins are
never narrower than the interval. `costs.py` defines the cost of a copy and the cost of a candidate.

This module contains only arithmetic for the driver, and depends on neither Spark nor Arrow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from tidegate.spark.layout.costs import costs

if TYPE_CHECKING:
    from tidegate.spark.layout.balance import Sample
    from tidegate.spark.layout.costs import Asked
    from tidegate.spark.layout.layout import Integers

# The maximum width of bins, as a multiple of the interval's length. Wider bins save few copies.
_WIDEST = 16

# The width of bins without a sample, as a multiple of the interval's length. With four columns and
# 1 to 16 pairs per row, it costs up to 6% more than the best width.
_WIDE_ENOUGH = 1.5

# The numbers of pairs per copied row for which costs are compared if the actual number is unknown.
# Costs grow linearly with the number of pairs, so two values are enough.
_FEWEST, _MOST = 0.0, 1_000.0

# Rows with the same key and bin form a group. Rows count as adjacent if there are at most this many
# groups per row. The first 10,000 of 10 million rows in time order have 0.17 groups per row with 10
# keys, 0.20 with 1,000 and 0.95 with 100,000. If half of the rows share one key, there are up to
# 0.54 groups per row. With 0.95 groups per row, bins took 1.6 to 1.9 times as long as with 0.17.
_ALONE = 0.75

# Without a sample, bins may cost up to this multiple of the cost of native calls. The cost model is
# not exact.
_ABOUT = 1.05

# The number of sampled pairs that is enough for an estimate. The mean error is then a few percent.
_COUNTED = 1_000

# The number of bits for a time. The remaining bits are for the number of a key.
_BITS = 44


class Ends(NamedTuple):
    """The smallest and largest `r.ts - l.ts` of any pair. If the ends cross, no rows match."""

    lower: int
    upper: int

    @property
    def reach(self) -> int:
        """The length of the time interval in which a row has matches."""
        return max(0, self.upper - self.lower)


@dataclass(frozen=True)
class Bins:
    """The bin width, the copied side, and the sizes of both sides if known.

    `together` specifies whether rows with the same key and bin were found to be adjacent.
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
        """The number of copies, not counting the original rows."""
        return self.of_copied * self.ends.reach / self.width

    @property
    def candidates(self) -> float:
        """The number of pairs of rows that share a key and a bin, if matches are spread evenly."""
        length = self.ends.reach + 1
        return self.pairs * (self.width + length) / length


def fitting(sample: Sample, copied: Literal["left", "right"], ends: Ends, asked: Asked) -> Bins:
    """Return the bins with the cheapest width."""
    length = ends.reach + 1
    pairs = _counted(sample, ends)
    copied_rows = len(sample.left_time if copied == "left" else sample.right_time) * sample.weight
    cells = asked.columns.left if copied == "left" else asked.columns.right
    copy = asked.prices.copying(cells) * copied_rows
    candidates = asked.prices.candidate * pairs
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
    """Return the bins if the number of rows per side is known but the number of pairs is not."""
    width = math.ceil(_WIDE_ENOUGH * (ends.reach + 1))
    return Bins(width, copied, ends, sum(rows), rows[0 if copied == "left" else 1], 0.0)


def seen(bins: Bins, hashes: Integers, times: Integers) -> Bins:
    """Return the bins, with `together` set according to rows at the start of the copied side.

    If rows are adjacent, the part of the hash table that a row needs is in the processor's caches.
    Otherwise, each row's lookup waits for main memory.
    """
    groups = len(np.unique(hashes ^ (times // bins.width)))
    return replace(bins, together=groups <= _ALONE * len(hashes))


def are_safe(bins: Bins, asked: Asked) -> bool:
    """Return whether bins can never cost much more than native calls with a sample."""
    for pairs in (_FEWEST, _MOST):
        of_bins, native, *_ = costs(replace(bins, pairs=pairs * bins.of_copied), asked)
        if of_bins is None or of_bins > _ABOUT * (native + asked.prices.looking(bins.rows)):
            return False
    return True


def _counted(sample: Sample, ends: Ends) -> float:
    """Estimate the number of pairs between these bounds, even if a sample contains few or none.

    A longer interval includes more of the sample's pairs. Pairs are assumed to be spread evenly.
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
        # Most of a longer interval lies before the first time or after the last time.
        if found >= _COUNTED or 4 * wide > span:
            break
        wide *= 2
    return found * sample.weight**2 * length / wide


def _placed(keys: Integers, times: np.ndarray, scale: float, span: float) -> Integers:
    """Return one number per key and time, so that the numbers sort by key and then by time."""
    inside = np.clip((times + span) * scale, 0, 2.0**_BITS - 1).astype(np.int64)
    placed: Integers = (keys.astype(np.int64) << _BITS) + inside
    return placed
