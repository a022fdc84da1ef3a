"""Converts the values by which rows are divided to 64-bit integers, preserving their order.

The join itself compares the original values. The integers determine only where rows are sent. A
reach can therefore be wider than the join's own reach, but never narrower.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.spark.layout.layout import LIMIT, Reach

if TYPE_CHECKING:
    from collections.abc import Sequence

Integers = npt.NDArray[np.int64]

_DAY = 86_400_000_000

# The number of steps in a band of floats. With this number, rounding outwards adds a thousandth of
# the band.
_STEPS = 1024


class Axis(Protocol):
    """Converts a column to integers. Instances are sent to the workers."""

    def integers(self, values: pa.Array | pa.ChunkedArray) -> Integers:
        """Return integers that have the same order as the values. A null becomes any integer."""


@dataclass(frozen=True)
class TimeAxis:
    """Times as integers: unchanged, in days if all of them are dates, otherwise in microseconds."""

    days: bool

    def integers(self, values: pa.Array | pa.ChunkedArray) -> Integers:
        """Return the times as integers."""
        unit = 1
        if pa.types.is_date(values.type):
            values, unit = values.cast(pa.int32()), 1 if self.days else _DAY
        integers: Integers = values.cast(pa.int64()).fill_null(0).to_numpy()
        return integers * unit


@dataclass(frozen=True)
class DecimalAxis:
    """Decimals and integers, as integers with `scale` implied decimal places."""

    scale: int

    def integers(self, values: pa.Array | pa.ChunkedArray) -> Integers:
        """Return the low 64 bits, which can hold all values that a band join accepts."""
        whole = pa.chunked_array([pc.fill_null(values.cast(pa.decimal128(38, self.scale)), 0)])
        if isinstance(values, pa.ChunkedArray):
            whole = pc.fill_null(values.cast(pa.decimal128(38, self.scale)), 0)
        chunks = [_low_words(chunk) for chunk in whole.chunks]
        return np.concatenate([np.zeros(0, np.int64), *chunks])


def _low_words(decimals: pa.Array) -> Integers:
    words = np.frombuffer(decimals.buffers()[1], dtype="<i8")
    return words[0::2][decimals.offset : decimals.offset + len(decimals)]


@dataclass(frozen=True)
class FloatAxis:
    """Numbers as rounded-down multiples of a power of two, or as bit patterns if `step` is None."""

    step: float | None

    def integers(self, values: pa.Array | pa.ChunkedArray) -> Integers:
        """Return the numbers of steps."""
        # Adding 0 makes a negative zero positive.
        numbers = np.asarray(values.cast(pa.float64()).fill_null(0).to_numpy()) + 0.0
        if self.step is None:
            bits = numbers.view(np.int64)
            return bits ^ ((bits >> 63).view(np.uint64) >> np.uint64(1)).view(np.int64)
        with np.errstate(over="ignore", under="ignore"):
            steps = np.floor(np.nan_to_num(numbers / self.step, nan=0.0))
        return np.clip(steps, -(2.0**61), 2.0**61).astype(np.int64)


def of_time(
    kinds: Sequence[pa.DataType], lower: float | None, upper: float | None
) -> tuple[Axis, Reach]:
    """Return the axis for time columns of these types, and the reach of pairs on this axis."""
    days = all(pa.types.is_date(kind) for kind in kinds)
    return TimeAxis(days), whole(lower, upper)


def of_band(
    kinds: tuple[pa.DataType, pa.DataType], lower: float | None, upper: float | None
) -> tuple[Axis, Reach]:
    """Return the axis for a band column of these types, and the reach of pairs on this axis.

    `lower` and `upper` are the bounds in the native plan.
    """
    if any(pa.types.is_floating(kind) for kind in kinds):
        return _of_floats(lower, upper)
    scales = [kind.scale for kind in kinds if pa.types.is_decimal(kind)]
    if scales:
        return DecimalAxis(max(scales)), whole(lower, upper)
    return of_time(kinds, lower, upper)


def _of_floats(lower: float | None, upper: float | None) -> tuple[Axis, Reach]:
    below = math.inf if lower is None else -lower
    above = math.inf if upper is None else upper
    ends = [end for end in (below, above) if 0 < end < math.inf]
    if not ends:
        # Pairs have equal values, or no bound on one side, so comparing bits is enough.
        low, high = (None if end else 0 for end in (below, above))
        return FloatAxis(None), Reach.of(low, high)
    # The logarithm of a quotient would fail: dividing the smallest float gives 0.
    step = 2.0 ** max(-1000, math.floor(math.log2(max(ends)) - math.log2(_STEPS)))

    def steps(end: float) -> int | None:
        # One step for the rounded native difference, and one for values that are rounded down.
        far = end / step
        return None if far > LIMIT else math.ceil(far) + 2

    low, high = steps(below), steps(above)
    return FloatAxis(step), Reach.of(None if low is None else -low, high)


def whole(lower: float | None, upper: float | None) -> Reach:
    """Return a reach from bounds that the native plan counts in whole steps.

    There may be no whole step between the bounds, for example from "1h" to "23h" after a date. The
    native plan rounds both bounds inwards, so the lower bound exceeds the upper one. No rows match
    in this case, but the rows are divided as usual.
    """
    low, high = (None if end is None else int(end) for end in (lower, upper))
    if low is not None and high is not None and low > high:
        low, high = high, low
    return Reach.of(low, high)
