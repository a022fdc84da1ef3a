"""Joins with hand-written NumPy on one thread. Inputs and results are NumPy columns.

Key and time are combined into one number. Both sides are sorted by this number, so that searches
and copies access memory sequentially.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from systems import Query
from workload import COLUMNS, KEY_SHIFT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from workload import Inputs

Columns = list["NDArray[np.generic]"]


def by_hand(inputs: Inputs, _threads: int) -> Query[Columns]:
    """Sort both sides, search the right one, and repeat rows for each match."""
    left = [column.to_numpy() for column in inputs.left.columns]
    right = [column.to_numpy() for column in inputs.right.columns]
    return Query(
        lambda: _join(left, right, inputs.upper),
        lambda columns: pa.table(dict(zip(COLUMNS, columns, strict=True))).to_batches(),
    )


def _join(left: Columns, right: Columns, upper: int) -> Columns:
    left, right = _sorted(left), _sorted(right)
    left_codes, right_codes = _codes(left), _codes(right)
    first = np.searchsorted(right_codes, left_codes - upper, "left")
    counts = np.searchsorted(right_codes, left_codes + upper, "right") - first
    ends = np.cumsum(counts)
    places = np.arange(ends[-1])
    places += np.repeat(first - ends + counts, counts)
    pairs = [np.repeat(column, counts) for column in left]
    return pairs + [column.take(places) for column in right]


def _sorted(columns: Columns) -> Columns:
    """Sort rows by key and time. Times already ascend, so a stable sort by key is enough."""
    keys = columns[0]
    if keys.max() < 1 << 16:
        keys = keys.astype(np.uint16)  # NumPy uses a radix sort for 16-bit values
    order = np.argsort(keys, kind="stable")
    return [column.take(order) for column in columns]


def _codes(columns: Columns) -> NDArray[np.int64]:
    keys, times = columns[:2]
    codes: NDArray[np.int64] = np.left_shift(keys, KEY_SHIFT) + times
    return codes
