"""Samples an input's times to estimate how its rows are distributed over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tidegate.slices.footers import HIGHEST, LOWEST, Groups
from tidegate.slices.task import Part, Range, Rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.slices.footers import Integers, Source, Times

SAMPLED_GROUPS = 32
"""The maximum number of an input's row groups whose times are read."""

SAMPLED_ROWS = 1 << 12
"""The maximum number of rows to sample from each of these row groups."""

BINS = 1 << 10
"""The maximum number of time spans with equal numbers of rows."""


@dataclass(frozen=True)
class Sample:
    """Some rows of an input, in time order."""

    first: Integers
    length: np.ndarray

    @staticmethod
    def of(source: Source, groups: Groups, times: Times, which: np.ndarray) -> Sample:
        """Read the times of some rows.

        Args:
            source: The input.
            groups: The input's row groups.
            times: The columns that contain the times.
            which: The numbers of the row groups to choose from.
        """
        some = np.linspace(0, len(which) - 1, min(len(which), SAMPLED_GROUPS)).round()
        found = [
            _times_of(source, groups, times, at) for at in which[some.astype(np.int64)].tolist()
        ]
        first, length = (np.concatenate(column) for column in zip(*found, strict=True))
        order = np.argsort(first, kind="stable")
        return Sample(first[order], length[order])

    def by_length(self, limits: Sequence[int]) -> list[Integers]:
        """Return the row times in each class.

        Args:
            limits: The maximum row length in each class.
        """
        kind = np.searchsorted(np.array(limits, np.uint64), self.length)
        return [self.first[kind == at] for at in range(len(limits))]

    def bins(self, size: int) -> Groups:
        """Return row groups, in time order, with the same distribution over time as the sample.

        Args:
            size: The total size of the row groups in bytes.
        """
        timed = self.first[self.first > LOWEST]
        count = min(BINS, len(timed))
        at = np.arange(count + 1) * len(timed) // max(count, 1)
        first, last = timed[at[:-1]], timed[at[1:] - 1]
        none = np.zeros(count, np.int64)
        # Adds up to `size`.
        of_bins = np.diff(np.arange(count + 1) * size // max(count, 1))
        return Groups(none, none, none, of_bins, first, last, last)


def _times_of(source: Source, groups: Groups, times: Times, at: int) -> tuple[Integers, np.ndarray]:
    """Return the times and lengths of a row group's rows, or of an evenly spaced sample."""
    columns = [*dict.fromkeys((times.first, times.until))]
    everything = Range(LOWEST, HIGHEST)
    rows = Rows(
        name=source.name,
        schema=pa.schema([source.schema.field(name) for name in columns]),
        parts=(Part(source.files[int(groups.file[at])], (int(groups.number[at]),)),),
        where=source.where,
        on=times.first,
        until=times.until,
        step=times.step,
        horizon=times.open_until,
        own=everything,
        reach=None,
        home=None,
    )
    found = [rows.spans(batch) for batch in rows.read().to_batches()]
    first, length = (np.concatenate(column) for column in zip(*found, strict=True))
    step = -(-len(first) // SAMPLED_ROWS)
    return first[::step], length[::step]
