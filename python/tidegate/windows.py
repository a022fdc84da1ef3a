"""Row-based windows for window joins and band joins."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import SupportsIndex

from tidegate._tidegate import TidegateError

__all__ = ["Rows", "rows"]

MOST = 2**32
"""The largest number of rows in a window."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A window that holds the last `count` rows on one side; created by `rows`."""

    count: int

    def __repr__(self) -> str:
        return f"rows({self.count})"


def rows(count: SupportsIndex) -> Rows:
    """Return a window that holds the last `count` rows on one side, in merged order.

    Example:
        Each trade with the last quote before it, and each quote with the last trade before it:

        >>> import pyarrow as pa, tidegate as tg
        >>> trades = pa.table({"ts": [10, 20, 30]})
        >>> quotes = pa.table({"ts": [8, 9, 25]})
        >>> tg.window_join(trades, quotes, on="ts", window=tg.rows(1)).to_pydict()
        {'ts': [10, 20, 20, 30], 'ts_right': [9, 9, 25, 25]}

    Args:
        count: The number of rows, at least 1. Rows with equal times are ordered by source, with
            left sources first.

    Raises:
        TypeError: `count` is not an integer.
        TidegateError: `count` is less than 1, or exceeds the largest possible number of rows.
    """
    if isinstance(count, bool):
        message = f"rows: expected an integer, got {count!r}"
        raise TypeError(message)
    number = operator.index(count)
    if not 1 <= number <= MOST:
        message = f"rows: expected a number of rows from 1 to {MOST}, got {number}"
        raise TidegateError(message)
    return Rows(number)
