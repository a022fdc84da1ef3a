"""Decides which row groups to sort: those that too many tasks would read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tidegate.slices.cuts import Ranges, Reads
    from tidegate.slices.footers import Groups, Integers

EXCESS = 2
"""An input is sorted only if the tasks would read more than this multiple of its size."""

SORTING = 2
"""The cost of sorting a row group, which is read once and written once."""

POINTS = 16
"""The number of points in time, within a row group's span, at which to count the tasks."""


def often_read(groups: Groups, reads: Reads, ranges: Ranges) -> np.ndarray:
    """Return which row groups to sort; none if sorting would not reduce reads.

    Args:
        groups: The row groups of an input.
        reads: The row groups that each task would read.
        ranges: The range of row times that each task needs.
    """
    count = np.bincount(reads.group, minlength=len(groups))
    if (count * groups.size).sum() <= EXCESS * groups.size.sum():
        return np.zeros(len(groups), bool)
    # How many tasks need a row on average, if the rows are evenly distributed.
    first, last = np.sort(ranges.first), np.sort(ranges.last)
    needed = np.zeros(len(groups))
    for share in np.linspace(0, 1, POINTS).tolist():
        time = _between(groups.first, groups.last, share)
        begun = np.searchsorted(first, time, "right")
        needed += (begun - np.searchsorted(last, time, "left")) / POINTS
    found: np.ndarray = count > needed + SORTING
    return found


def _between(first: Integers, last: Integers, share: float) -> Integers:
    """Return times that divide spans in a given ratio; precise enough for counting tasks."""
    half = first // 2 * (1 - share) + last // 2 * share
    found: Integers = np.clip(half.astype(np.int64), first // 2, last // 2) * 2
    return np.clip(found, first, last)
