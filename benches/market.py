"""Generates trades and quotes whose symbols follow Zipf's law."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

TICKS = 64  # prices are multiples of 1/64, so their sums are exact in any order


def random_of(*seed: int) -> np.random.Generator:
    """Return a random number generator for a table."""
    return np.random.Generator(np.random.PCG64(seed))


def ranks(random: np.random.Generator, symbols: int, rows: int) -> NDArray[np.int32]:
    """Return one symbol per row; the probability of symbol `i` is proportional to 1/(i+1).

    Symbol 0 is the most frequent one, and symbol `symbols - 1` the least frequent one.
    """
    shares = np.cumsum(1 / np.arange(1, symbols + 1))
    return np.searchsorted(shares / shares[-1], random.random(rows), "right").astype(np.int32)


def distinct_times(
    random: np.random.Generator, begin: int, end: int, rows: int
) -> NDArray[np.int64]:
    """Return distinct, uniformly distributed times in `[begin, end)` in ascending order.

    If two quotes of a symbol had the same time, systems could return either of them.
    """
    drawn = np.sort(random.integers(begin, end - rows, rows))
    return drawn + np.arange(rows)


def prices(random: np.random.Generator, rows: int) -> NDArray[np.float64]:
    """Return prices between 10 and 500."""
    return random.integers(10 * TICKS, 500 * TICKS, rows) / TICKS
