"""Workload W1: two tables of events, whose rows form pairs if keys are equal and times are close.

This module has everything that a system needs to join, and everything to check its result:

- `generate` generates both tables from one seed and chooses the interval so that a left row has
  `MATCHES` partners on average, for any skew of the keys.
- `reference` counts and hashes the result block by block, without storing it.
- `checksum` hashes a result regardless of row order, so that systems can be compared before timing.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from tidegate import Operator

SEED = 42
SPAN_US = 1_000_000_000  # time span of the rows of each side: 1 000 s
MATCHES = 4  # average number of partners per left row
SKEW = 0.35  # share 1 - s of the rows falls on share s of the keys, recursively
KEY_SHIFT = 40  # key * 2**40 + time is a single sortable number, because times are below 2**31

LEFT = ("k", "t", "a", "b")
RIGHT = ("k2", "t2", "c", "d")
COLUMNS = LEFT + RIGHT

PUSHED_ROWS = 100_000  # rows per push of a source
BLOCK_ROWS = 1 << 18  # rows hashed or paired at a time: a few MB, which fit in the cache


@dataclasses.dataclass(frozen=True)
class Case:
    """A point of the workload: the rows per side, the number of keys and their skew."""

    rows: int
    keys: int
    skew: str

    @property
    def name(self) -> str:
        """Return a name that can also be a file name."""
        return f"{self.rows}-{self.keys}-{self.skew}"


@dataclasses.dataclass(frozen=True)
class Inputs:
    """Both tables, and the interval `t - upper <= t2 <= t + upper`."""

    left: pa.Table
    right: pa.Table
    upper: int


@dataclasses.dataclass(frozen=True)
class Fingerprint:
    """The expected result: the number of rows, and a hash that ignores their order."""

    rows: int
    checksum: int


def generate(case: Case) -> Inputs:
    """Return both tables of `case` and the calibrated interval, identical on every machine."""
    left, right = tables(case)
    return Inputs(left, right, _calibrate(left, right, MATCHES * case.rows))


def tables(case: Case) -> tuple[pa.Table, pa.Table]:
    """Return both tables of `case`, identical on every machine."""
    rng = np.random.Generator(np.random.PCG64(SEED))
    return _table(rng, case, LEFT), _table(rng, case, RIGHT)


def push_by_turns(join: Operator, left: pa.Table, right: pa.Table) -> pa.Table:
    """Push both tables in chunks, and read the results of each chunk before the next."""
    found = []
    for start in range(0, left.num_rows, PUSHED_ROWS):
        for source, table in zip(join.sources, (left, right), strict=True):
            source.push(table.slice(start, PUSHED_ROWS))
        while (batch := join.poll()) is not None:
            found.append(batch)
    for source in join.sources:
        source.close()
    return pa.Table.from_batches([*found, *join])


def _table(rng: np.random.Generator, case: Case, names: tuple[str, ...]) -> pa.Table:
    mean_step = SPAN_US // case.rows
    columns = (
        _keys(rng, case),
        np.cumsum(rng.integers(0, 2 * mean_step, case.rows, endpoint=True)),
        rng.integers(0, 1 << 62, case.rows),
        rng.random(case.rows),
    )
    return pa.table(dict(zip(names, columns, strict=True)))


def _keys(rng: np.random.Generator, case: Case) -> NDArray[np.int64]:
    if case.skew == "uniform":
        return rng.integers(0, case.keys, case.rows)
    # u ** (ln s / ln (1 - s)) maps [0, 1 - s) to [0, s), [0, (1 - s)**2) to [0, s**2), and so on:
    # Gray et al., Quickly Generating Billion-Record Synthetic Databases, SIGMOD 1994, section 3.2.
    exponent = np.log(SKEW) / np.log(1 - SKEW)
    keys: NDArray[np.int64] = (case.keys * rng.random(case.rows) ** exponent).astype(np.int64)
    return keys


def _calibrate(left: pa.Table, right: pa.Table, target: int) -> int:
    """Return the interval with about `target` pairs (within 0.1 %), by exact counts.

    The count rises almost linearly with the interval, so the secant through the last two
    counts is close after three or four steps.
    """
    low, low_count = 0, 0
    sorted_left, sorted_right = np.sort(_codes(left)), np.sort(_codes(right))
    upper = _first_guess(left, right, target)
    while True:
        count = _count_pairs(sorted_left, sorted_right, upper)
        if abs(count - target) * 1000 <= target:
            return upper
        slope = (count - low_count) / (upper - low)
        low, low_count = upper, count
        step = round((target - count) / slope)
        if step == 0:
            return upper
        upper = max(1, upper + step)


def _first_guess(left: pa.Table, right: pa.Table, target: int) -> int:
    candidates = pairs_of_equal_keys(left, right)
    return max(1, round(target / candidates * SPAN_US / 2))


def pairs_of_equal_keys(left: pa.Table, right: pa.Table) -> int:
    """Return the number of pairs that a plain equi-join visits before its filter."""
    left_counts = np.bincount(left.column(0).to_numpy())
    right_counts = np.bincount(right.column(0).to_numpy())
    shared = min(len(left_counts), len(right_counts))
    return int(left_counts[:shared] @ right_counts[:shared])


def pairs_of_close_times(inputs: Inputs) -> int:
    """Return the approximate number of pairs that a range join on time alone visits."""
    pairs_of_rows: int = inputs.left.num_rows * inputs.right.num_rows
    return pairs_of_rows * 2 * inputs.upper // SPAN_US


def _codes(table: pa.Table) -> NDArray[np.int64]:
    keys, times = (column.to_numpy() for column in table.columns[:2])
    codes: NDArray[np.int64] = (keys << KEY_SHIFT) + times
    return codes


def _count_pairs(left: NDArray[np.int64], right: NDArray[np.int64], upper: int) -> int:
    # Times past either end of the span cannot reach another key: the codes of two keys are 2**40
    # apart, and times and intervals are below 2**31.
    first = np.searchsorted(right, left - upper, "left")
    last = np.searchsorted(right, left + upper, "right")
    return int((last - first).sum())


def reference(inputs: Inputs) -> Fingerprint:
    """Return rows and checksum of the correct result, with at most one block in memory."""
    left, left_codes = _by_code(inputs.left)
    right, right_codes = _by_code(inputs.right)
    first = np.searchsorted(right_codes, left_codes - inputs.upper, "left")
    last = np.searchsorted(right_codes, left_codes + inputs.upper, "right")
    total = Fingerprint(0, 0)
    for start in range(0, len(left_codes), BLOCK_ROWS):
        block = slice(start, start + BLOCK_ROWS)
        left_rows, right_rows = _expand(first[block], last[block])
        pairs = [column[block][left_rows] for column in left]
        pairs += [column[right_rows] for column in right]
        total = _add(total, len(left_rows), hash_rows(pairs))
    return total


def _by_code(table: pa.Table) -> tuple[list[NDArray[np.generic]], NDArray[np.int64]]:
    """Return the columns of a table sorted by key and time, and key and time as one number."""
    codes = _codes(table)
    order = np.argsort(codes, kind="stable")
    return [column.to_numpy()[order] for column in table.columns], codes[order]


def _expand(
    first: NDArray[np.int64], last: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return every `(row, place)` with `first[row] <= place < last[row]`."""
    counts = last - first
    rows = np.repeat(np.arange(len(counts)), counts)
    skipped = np.cumsum(counts) - counts
    return rows, np.arange(len(rows)) + np.repeat(first - skipped, counts)


def checksum(batches: Iterable[pa.RecordBatch]) -> Fingerprint:
    """Return rows and checksum of a result with the columns `COLUMNS`, in any row order."""
    total = Fingerprint(0, 0)
    for columns in _blocks(batches):
        total = _add(total, len(columns[0]), hash_rows(columns))
    return total


def _blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[list[NDArray[np.generic]]]:
    for batch in batches:
        for start in range(0, batch.num_rows, BLOCK_ROWS):
            block = batch.slice(start, BLOCK_ROWS)
            yield [block.column(name).to_numpy() for name in COLUMNS]


def hash_rows(columns: list[NDArray[np.generic]]) -> int:
    """Return the sum of the hashes of all rows, modulo 2**64.

    The hash mixes a row's columns in turn, so a value in the wrong row or column changes it. The
    sum does not depend on the order of the rows.
    """
    mixed = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        if column.dtype.itemsize != np.dtype(np.uint64).itemsize:
            message = f"expected columns of 8 bytes a value, found {column.dtype}"
            raise TypeError(message)
        mixed ^= column.view(np.uint64)
        mixed *= np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio, odd
        mixed ^= mixed >> np.uint64(32)
    return int(mixed.sum())


def _add(total: Fingerprint, rows: int, hashed: int) -> Fingerprint:
    return Fingerprint(total.rows + rows, (total.checksum + hashed) % (1 << 64))
