"""Computes the layout of Spark joins too large for one machine, from a synthetic sample.

As in a real call, the driver samples 20,000 rows per side, or `--sampled` rows, and plans the
layout of an interval join from them. A larger sample of the same distribution then determines the
load of the tasks: the largest task, the copies, and the bytes shuffled. This needs neither Spark
nor real rows, so a laptop can lay out 10^12 rows with 10^6 keys on 10^4 tasks. The table also shows
the driver's memory and time.

    python benches/spark_scale.py --rows 1e12 --keys 1e6 --tasks 1e4
"""

from __future__ import annotations

import argparse
import pickle
import time
from typing import TYPE_CHECKING

import numpy as np

from tidegate.spark.driver.division import SAMPLED
from tidegate.spark.layout.balance import Sample, chosen, measured
from tidegate.spark.layout.layout import Reach

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegate.spark.layout.layout import Integers, Layout

    Keys = Callable[[np.random.Generator, int, int], Integers]

YEAR = 365 * 86_400_000_000  # microseconds


def even(rng: np.random.Generator, rows: int, keys: int) -> Integers:
    """Draw all keys equally often."""
    return rng.integers(0, keys, rows)


def zipf(rng: np.random.Generator, rows: int, keys: int) -> Integers:
    """Draw key k in proportion to 1 / k."""
    # The inverse of the integral of 1 / k is exact enough for more than a few keys.
    drawn: Integers = np.exp(rng.random(rows) * np.log(keys)).astype(np.int64)
    return drawn


def hot(rng: np.random.Generator, rows: int, keys: int) -> Integers:
    """Assign half of the rows to one key."""
    return np.where(rng.random(rows) < 1 / 2, 0, even(rng, rows, keys))


DRAWN: dict[str, Keys] = {"even": even, "zipf": zipf, "half on one key": hot}


def hashes(keys: Integers) -> Integers:
    """Mix the bits of keys, like the hash that Spark computes (splitmix64)."""
    bits = keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return (bits ^ (bits >> np.uint64(31))).view(np.int64)


def sample(seed: int, drawn: int, rows: float, keys: int, of_keys: Keys) -> Sample:
    """Return sampled rows, half of them per side, and the number of rows each represents."""
    rng = np.random.default_rng(seed)
    half = drawn // 2
    left, right = (
        (hashes(of_keys(rng, half, keys)), rng.integers(0, YEAR, half)) for _ in range(2)
    )
    return Sample(*left, *right, weight=rows / half)


def told(name: str, layout: Layout, seconds: float, every: Sample, row_bytes: int) -> str:
    """Return a row of the table."""
    real = measured(layout, every)
    mean = real.sent / layout.partitions
    cells = (
        f"{real.fullest:,.3g}",
        f"{real.fullest / mean:.2f}",
        f"{layout.fullest * layout.partitions / layout.sent:.2f}",
        f"{(real.sent - real.rows) / real.rows:.2%}",
        f"{real.sent * row_bytes / 1e12:,.1f}",
        f"{len(pickle.dumps(layout)) / 1e6:.1f}",
        f"{seconds:.1f}",
    )
    return f"{name:<18}" + "".join(f"{cell:>13}" for cell in cells)


def main() -> None:
    """Compute and print the layouts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, default=1e12, help="rows per side")
    parser.add_argument("--keys", type=float, default=1e6)
    parser.add_argument("--tasks", type=float, default=1e4)
    parser.add_argument("--minutes", type=float, default=1.0, help="half width of the interval")
    parser.add_argument("--sampled", type=int, default=SAMPLED, help="rows that the driver samples")
    parser.add_argument("--row-bytes", type=int, default=32)
    parser.add_argument(
        "--drawn", type=float, default=2e7, help="rows that determine the load of tasks"
    )
    arguments = parser.parse_args()
    keys, tasks, drawn = int(arguments.keys), int(arguments.tasks), int(arguments.drawn)
    half = int(arguments.minutes * 60_000_000)
    reach = Reach.of(-half, half)
    print(f"{arguments.rows:.0e} rows per side, {keys:,} keys, {tasks:,} tasks, +-{half:,} us\n")
    heads = ("fullest task", "of the mean", "as sampled", "copies", "TB shuffled", "MB layout", "s")
    print(f"{'keys':<18}" + "".join(f"{head:>13}" for head in heads))
    for name, of_keys in DRAWN.items():
        seen = sample(1, arguments.sampled, arguments.rows, keys, of_keys)
        begin = time.perf_counter()
        layout = chosen(seen, tasks, "right", reach, "auto")
        seconds = time.perf_counter() - begin
        every = sample(2, drawn, arguments.rows, keys, of_keys)
        print(told(name, layout, seconds, every, arguments.row_bytes), flush=True)


if __name__ == "__main__":
    main()
