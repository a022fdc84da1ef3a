"""Measures when pairs are emitted: `IntervalJoin` with `ordered=False` and in order.

    python benches/w1s_eager.py rates --rows 1000000 --keys 10,1000,100000
    python benches/w1s_eager.py latency --seconds 10 --keys 1000

`rates` pushes W1's tables in chunks, as fast as possible, alternating between the ordered and the
eager join. One row in a hundred is late by up to a second. Rows are compared with the reference.

`latency` runs in real time: rows are pushed when they are due, at a share of the rate that the
slower join has reached. The right source lags by a second, like a source behind a slow network, and
both sides declare a lateness of a second. The latency of a pair is the time from the later push of
its two rows to the poll that returns the pair.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import tidegate
import workload
from w1s import LATE_US, Streams, feed, pieces, streams

ORDERS = {"in order": True, "eager": False}
LAG = 1.0
UPPER_US = 2_000


def join(given: Streams, *, ordered: bool, threads: int) -> tidegate.IntervalJoin:
    """Return the join of W1."""
    upper = given.inputs.upper
    schemas = given.inputs.left.schema, given.inputs.right.schema
    return tidegate.IntervalJoin(
        *schemas, on=("t", "t2"), by={"k": "k2"}, lower=-upper, upper=upper,
        lateness=given.lateness, threads=threads, ordered=ordered,
    )  # fmt: skip


def rates(options: argparse.Namespace) -> None:
    """Return millions of rows per second for both sides: medians with ranges, and the ratio."""
    print("| keys | threads | in order, M rows/s | eager, M rows/s | eager / in order |")
    print("| --: | --: | --: | --: | --: |")
    for keys in options.keys:
        given = streams(options.rows, keys, "uniform", late=True)
        sides = [pieces(table, options.piece) for table in (given.inputs.left, given.inputs.right)]
        for threads in options.threads:
            found: dict[str, list[float]] = {name: [] for name in ORDERS}
            for turn in range(options.rounds + 1):
                for name, ordered in ORDERS.items():
                    joining = join(given, ordered=ordered, threads=threads)
                    if turn == 0:
                        rows = workload.checksum(feed(joining, *sides))
                        if rows != given.expected:
                            sys.exit(f"{name}: expected {given.expected}, found {rows}")
                        continue
                    start = time.perf_counter()
                    for batch in feed(joining, *sides):
                        del batch
                    found[name].append(2 * options.rows / (time.perf_counter() - start) / 1e6)
            ratios = [
                eager / ordered
                for ordered, eager in zip(found["in order"], found["eager"], strict=True)
            ]
            cells = [spread(values) for values in (*found.values(), ratios)]
            print(f"| {keys:,} | {threads} | {' | '.join(cells)} |", flush=True)


def spread(values: list[float]) -> str:
    """Return the median, minimum and maximum."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("row", pa.int64())])


@dataclass(frozen=True)
class Paced:
    """Rows of both sides, with a push about every millisecond."""

    pushes: list[pa.RecordBatch]
    """The pushes per side; the right side's rows are pushed later by the lag."""

    step: float
    """The seconds between pushes."""


def paced(rate: float, seconds: float, keys: int, seed: int) -> Paced:
    """Return a source's rows of a stream with `rate` rows per second."""
    rng = np.random.default_rng(seed)
    step = max(0.001, 16 / rate)
    each = round(rate * step)
    pushes = []
    for push in range(round(seconds / step)):
        first = push * each
        # Times are microseconds since the start, in ascending order.
        ts = np.sort(rng.integers(0, round(step * 1e6), each)) + round(push * step * 1e6)
        columns = [ts, rng.integers(0, keys, each), np.arange(first, first + each)]
        pushes.append(pa.RecordBatch.from_arrays([pa.array(one) for one in columns], schema=SCHEMA))
    return Paced(pushes, step)


def latency(options: argparse.Namespace) -> None:
    """Return latencies of pairs from their later push in ms: median, p99 and maximum."""
    print("| keys | rows/s of both sides | order | pairs | p50, ms | p99, ms | max, ms |")
    print("| --: | --: | --- | --: | --: | --: | --: |")
    for keys in options.keys:
        for name, ordered in ORDERS.items():
            took = one_latency(options, keys, ordered=ordered)
            p50, p99, most = (1e3 * np.quantile(took, share) for share in (0.5, 0.99, 1.0))
            cells = f"{name} | {len(took):,} | {p50:.2f} | {p99:.2f} | {most:.1f}"
            print(f"| {keys:,} | {options.rate:,.0f} | {cells} |", flush=True)


def one_latency(options: argparse.Namespace, keys: int, *, ordered: bool) -> np.ndarray:
    """Return the latency of each pair in a run."""
    sides = [paced(options.rate / 2, options.seconds, keys, seed) for seed in (1, 2)]
    return watched(sides, UPPER_US, threads=options.threads[0], ordered=ordered).took(
        0.0, options.seconds
    )


@dataclass(frozen=True)
class Watched:
    """The times of a run, in seconds since its clock started."""

    pushed: np.ndarray
    """The time of each row's push, by side and row."""

    left: np.ndarray
    """The left row of each pair."""

    right: np.ndarray
    """The right row of each pair."""

    seen: np.ndarray
    """The time at which each pair was returned."""

    def later(self) -> np.ndarray:
        """Return the time at which the later row of each pair was pushed."""
        later: np.ndarray = np.maximum(self.pushed[0, self.left], self.pushed[1, self.right])
        return later

    def took(self, first: float, last: float) -> np.ndarray:
        """Return seconds from a pair's later push to the pair, for later rows in a time span.

        The last lateness of the feed is excluded, because closing the sources emits its pairs
        early.
        """
        later = self.later()
        took: np.ndarray = (self.seen - later)[(later >= first) & (later < last)]
        return took


def watched(sides: list[Paced], upper: int, *, threads: int, ordered: bool) -> Watched:
    """Push rows when they are due, from one thread that polls without a pause."""
    joining = tidegate.IntervalJoin(
        SCHEMA, SCHEMA, on="ts", by="k", lower=-upper, upper=upper, lateness=LATE_US,
        threads=threads, ordered=ordered, columns=["row", "row_right"],
    )  # fmt: skip
    rows = sum(batch.num_rows for batch in sides[0].pushes)
    pushed = np.zeros((2, rows))
    # The due time of each push by side; the right side lags.
    due = sorted(
        (number * side.step + at * LAG, at, number)
        for at, side in enumerate(sides)
        for number in range(len(side.pushes))
    )
    found: list[tuple[float, pa.RecordBatch]] = []
    start = time.perf_counter()

    def poll() -> None:
        while (batch := joining.poll()) is not None:
            found.append((time.perf_counter() - start, batch))

    for moment, at, number in due:
        while time.perf_counter() - start < moment:
            poll()
        batch = sides[at].pushes[number]
        first = batch.column("row")[0].as_py()
        pushed[at, first : first + batch.num_rows] = time.perf_counter() - start
        joining.sources[at].push(batch)
        poll()
    for source in joining.sources:
        source.close()
    poll()
    pairs = pa.Table.from_batches([batch for _, batch in found], joining.schema)
    left, right = (pairs.column(name).to_numpy() for name in ("row", "row_right"))
    seen = np.repeat([at for at, _ in found], [batch.num_rows for _, batch in found])
    return Watched(pushed, left, right, seen)


def main() -> None:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("what", choices=["rates", "latency"], help="what to measure")
    add("--rows", type=int, default=1_000_000, help="rows per side, for rates")
    add("--piece", type=int, default=10_000, help="rows per push, for rates")
    add("--rounds", type=int, default=5, help="timed runs per variant; the median counts")
    add("--keys", default="1000", help="numbers of keys, comma-separated")
    add("--threads", default="1,2", help="comma-separated; latency uses the first")
    add("--rate", type=float, default=500_000, help="rows per second of both sides, for latency")
    add("--seconds", type=float, default=10, help="seconds per run, for latency")
    options = parser.parse_args()
    options.keys = [int(keys) for keys in options.keys.split(",")]
    options.threads = [int(threads) for threads in options.threads.split(",")]
    rates(options) if options.what == "rates" else latency(options)


if __name__ == "__main__":
    main()
