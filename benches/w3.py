"""Measures workload W3: a 2-D band join over sliding time windows that compares every pair.

This is the benchmark of CellJoin, the handshake joins and ScaleJoin. `r.x` is within 10 of `s.a`,
and `r.y` is within 10 of `s.b`. Values are integers and 32-bit floats, uniform from 1 to 10 000,
and both sides have equal rates. The script prints Markdown and writes it, with every figure as
JSON, to benches/out/.

    python benches/w3.py tables            # window_join of whole tables, by algorithm
    python benches/w3.py streams           # WindowJoin with full windows, by algorithm
    python benches/w3.py skew              # sides of different rates, from several sources
    python benches/w3.py latency           # from push to result at a share of the peak rate
    python benches/w3.py linear            # conditions on sums and differences of both sides
    python benches/w3.py sink              # the join runs in the background with a slow sink
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from itertools import product
from pathlib import Path
from typing import get_args

import numpy as np
import pyarrow as pa

import tidegate
from tidegate.types import WindowAlgorithm
from workload import SEED

HERE = Path(__file__).parent
WHERE = (
    "left.x BETWEEN right.a - 10 AND right.a + 10 AND left.y BETWEEN right.b - 10 AND right.b + 10"
)
# The same condition without conjuncts that compare the sides, for Arrow kernels on blocks of pairs.
EVALUATED = f"({WHERE}) OR FALSE"
# An equality and a band, for a hash table on each node and for algorithms that compare pairs.
EQUAL = "left.x = right.a AND left.y BETWEEN right.b - 10 AND right.b + 10"
CONDITIONS = {"band": WHERE, "equality": EQUAL}
US = 1_000_000
# Linear forms of both sides: with integers, with floats, and with two values of the left side.
LINEAR = (
    "left.x + right.a > 19900",
    "left.y + right.b > 19900",
    "left.y + 2 * right.b BETWEEN 9990 AND 10010",
    "abs(left.y - right.b) <= left.x / 1000",
)
ALGORITHMS = ("three-step", "cell", "scalejoin", "handshake", "low-latency-handshake")
# The number of left sources and the number of right sources in figure 8 of ScaleJoin.
SKEWS = ((1, 4), (3, 2), (4, 2))

Row = dict[str, object]


def table(
    rng: np.random.Generator, rows: int, first_us: float, rate: float, names: str
) -> pa.Table:
    """Return a number of evenly spaced rows of one side."""
    ts = (first_us + np.arange(rows) * (US / rate)).astype(np.int64)
    x = rng.integers(1, 10_001, rows).astype(np.int32)
    y = rng.uniform(1, 10_000, rows).astype(np.float32)
    return pa.table({"ts": ts, names[0]: x, names[1]: y})


def compared(rows: int, window_us: int, rate: float) -> int:
    """Return the number of pairs within the windows of two sides."""
    reach = int(window_us * rate / US)
    full = rows * (2 * reach + 1)
    return full - reach * (reach + 1) if reach < rows else rows * rows


def algorithms(options: argparse.Namespace, *more: WindowAlgorithm) -> list[WindowAlgorithm]:
    """Return the requested algorithms in order."""
    known: tuple[WindowAlgorithm, ...] = (*more, *get_args(WindowAlgorithm)[1:])
    return [name for name in known if name in (*more, *options.algorithms.split(","))]


def tables(options: argparse.Namespace) -> list[Row]:
    """Measure tables: comparisons per second of the whole call, by scan and by evaluation."""
    results: list[Row] = []
    rng = np.random.Generator(np.random.PCG64(SEED))
    for rows, kind, where in ((200_000, "scanned", WHERE), (20_000, "evaluated", EVALUATED)):
        left, right = (table(rng, rows, 0, 1000, names) for names in ("xy", "ab"))
        window = rows // 4 * 1000
        threads = map(int, options.threads.split(","))
        found: set[int] = set()
        for count, algorithm in product(threads, algorithms(options, "auto")):
            seconds = []
            for _ in range(options.repeat):
                start = time.perf_counter()
                joined = tidegate.window_join(
                    left, right, on="ts", window=window, where=where, algorithm=algorithm,
                    threads=count,
                )  # fmt: skip
                seconds.append(time.perf_counter() - start)
                found.add(joined.num_rows)
            pairs = compared(rows, window, 1000)
            rate = pairs / statistics.median(seconds) / 1e9
            results.append(
                {"conditions": kind, "rows per side": rows, "algorithm": algorithm}
                | {"threads": count, "pairs": joined.num_rows, "G comparisons/s": round(rate, 2)}
            )
            print(results[-1], file=sys.stderr)
        if len(found) > 1:
            sys.exit(f"algorithms differ in how many pairs they find: {found}")
    return results


def linear(options: argparse.Namespace) -> list[Row]:
    """Measure tables with linear forms: comparisons per second, by scan and by evaluation."""
    results: list[Row] = []
    for where, count in product(LINEAR, map(int, options.threads.split(","))):
        rng = np.random.Generator(np.random.PCG64(SEED))
        few = [table(rng, 8_000, 0, 1000, names) for names in ("xy", "ab")]
        many = [table(rng, 100_000, 0, 1000, names) for names in ("xy", "ab")]
        evaluated = f"({where}) OR FALSE"
        found, wanted = (
            tidegate.window_join(*few, window=2_000_000, on="ts", where=condition, threads=count)
            for condition in (where, evaluated)
        )
        if not found.equals(wanted):
            sys.exit(f"{where} differs from its evaluation")
        rates: dict[str, list[float]] = {"scanned": [], "evaluated": []}
        for _, kind in product(range(options.repeat), rates):
            sides, condition = (many, where) if kind == "scanned" else (few, evaluated)
            rows = sides[0].num_rows
            start = time.perf_counter()
            tidegate.window_join(
                *sides, window=rows // 4 * 1000, on="ts", where=condition, threads=count
            )
            took = time.perf_counter() - start
            rates[kind].append(compared(rows, rows // 4 * 1000, 1000) / took / 1e9)
        results.append(
            {"condition": where, "threads": count}
            | {
                f"G comparisons/s, {kind}": round(statistics.median(rates[kind]), 3)
                for kind in rates
            }
        )
        print(results[-1], file=sys.stderr)
    return results


class Load:
    """A join with full windows, and rows to push that keep them full."""

    def __init__(  # noqa: PLR0913 - what a measurement is of
        self,
        algorithm: WindowAlgorithm,
        threads: int,
        window_s: int,
        rate: float,
        *,
        sources: tuple[int, int] = (1, 1),
        where: str = WHERE,
    ) -> None:
        """Create a join whose sources have `rate` rows per second each."""
        rng = np.random.Generator(np.random.PCG64(SEED))
        self.rate, self.rows = rate, int(window_s * rate)
        schemas = [table(rng, 0, 0, 1, names).schema for names in ("xy", "ab")]
        self.join = tidegate.WindowJoin(
            *schemas, on="ts", window=window_s * US, where=where, algorithm=algorithm,
            threads=threads, sources=sources,
        )  # fmt: skip
        names = ["xy"] * sources[0] + ["ab"] * sources[1]
        self.sides = [table(rng, 3 * self.rows, 0, rate, of_side) for of_side in names]
        self.next = 0
        self.pairs = 0

    def has(self, rows: int) -> bool:
        """Return whether each source has that many rows left to push."""
        return bool(self.next + rows <= self.sides[0].num_rows)

    def push(self, rows: int) -> None:
        """Push a number of rows per source, and poll all ready results."""
        for source, side in zip(self.join.sources, self.sides, strict=True):
            source.push(side.slice(self.next, rows))
        self.next += rows
        self.take()

    def take(self) -> None:
        """Poll all ready results."""
        while (batch := self.join.poll()) is not None:
            self.pairs += batch.num_rows

    def fill(self) -> None:
        """Fill the windows."""
        while self.next < self.rows:
            self.push(min(16_384, self.rows - self.next))


def timed(load: Load, options: argparse.Namespace) -> tuple[float, float, str]:
    """Return comparisons and rows per second with full windows, and the imbalance of threads."""
    load.fill()
    before = load.join.stats()["comparisons"]
    first, start = load.next, time.perf_counter()
    while time.perf_counter() - start < options.seconds and load.has(options.piece):
        load.push(options.piece)
    took = time.perf_counter() - start
    work = np.array(load.join.stats()["comparisons"]) - np.array(before)
    rows = len(load.sides) * (load.next - first)
    load.join.close()
    return float(work.sum() / took), rows / took, f"{work.std() / work.mean():.3%}"


def streams(options: argparse.Namespace) -> list[Row]:
    """Measure streams with full windows: comparisons, rows per second and balance of threads."""
    results: list[Row] = []
    lengths = [int(minutes) * 60 for minutes in options.minutes.split(",")]
    threads = [int(count) for count in options.threads.split(",")]
    for window_s, algorithm, count in product(lengths, algorithms(options), threads):
        if algorithm == "three-step" and count > 1:
            continue
        where = CONDITIONS[options.condition]
        load = Load(algorithm, count, window_s, options.window_rows / window_s, where=where)
        speed, rows, spread = timed(load, options)
        results.append(
            {"window": f"{window_s // 60} min", "algorithm": algorithm, "threads": count}
            | {"G comparisons/s": round(speed / 1e9, 2)}
            | {"rows/s of windows this full": round(rows)}
            # T rows per second and side, with windows of W seconds, require 2 W T^2 comparisons.
            | {"rows/s sustained": round(2 * (speed / (2 * window_s)) ** 0.5)}
            | {"spread of work": spread}
        )
        print(results[-1], file=sys.stderr)
    return results


def skew(options: argparse.Namespace) -> list[Row]:
    """Measure sides with different rates; windows have as many rows as with equal rates."""
    results: list[Row] = []
    window_s = int(options.minutes.split(",")[0]) * 60
    for sources, count in product(SKEWS, map(int, options.threads.split(","))):
        rate = 2 * options.window_rows / sum(sources) / window_s
        load = Load("scalejoin", count, window_s, rate, sources=sources)
        speed, rows, spread = timed(load, options)
        results.append(
            {"sources": f"{sources[0]}R/{sources[1]}S", "threads": count}
            | {"G comparisons/s": round(speed / 1e9, 2), "rows/s": round(rows)}
            | {"spread of work": spread}
        )
        print(results[-1], file=sys.stderr)
    return results


def latency(options: argparse.Namespace) -> list[Row]:
    """Measure latencies of chunks that are pushed when due, at shares of the peak rate."""
    results: list[Row] = []
    window_s = options.latency_window
    known = algorithms(options)
    for algorithm, count in product(known, map(int, options.threads.split(","))):
        for share in map(float, options.shares.split(",")):
            speed = options.peak * 1e9 * (1 if algorithm == "three-step" else count)
            rate = share * (speed / (2 * window_s)) ** 0.5
            load = Load(algorithm, count, window_s, rate)
            load.fill()
            took, start, first = [], time.perf_counter(), load.next
            pieces = int(options.seconds * rate / options.piece)
            for piece in range(pieces):
                due = start + piece * options.piece / rate
                time.sleep(max(0.0, due - time.perf_counter()))
                load.push(options.piece)
                # Latency starts at the due time of a chunk, so a late push counts as waiting.
                took.append(time.perf_counter() - due)
            spread = np.percentile(np.array(took) * 1000, (50, 99, 100))
            results.append(
                {"window": f"{window_s} s", "algorithm": algorithm, "threads": count}
                | {"rows/s": round(2 * rate), "share of peak": share, "piece": options.piece}
                | {"rows": 2 * (load.next - first)}
                | dict(
                    zip(("p50 ms", "p99 ms", "max ms"), map(float, spread.round(2)), strict=True)
                )
            )
            load.join.close()
            print(results[-1], file=sys.stderr)
    return results


def sink(options: argparse.Namespace) -> list[Row]:
    """Run the join in the background, with a fast sink and one that takes as long as the join."""
    results: list[Row] = []
    window_s = int(options.minutes.split(",")[0]) * 60
    for algorithm, count in product(algorithms(options), map(int, options.threads.split(","))):
        seconds: list[float] = []
        pairs: set[int] = set()
        for _ in range(2):
            load = Load(algorithm, count, window_s, options.window_rows / window_s)
            load.fill()
            while load.has(options.piece):
                for source, side in zip(load.join.sources, load.sides, strict=True):
                    source.push(side.slice(load.next, options.piece))
                load.next += options.piece
            for source in load.join.sources:
                source.close()
            each = seconds[0] / max(pairs) if seconds else 0.0
            taken: list[int] = []

            def take(batch: pa.RecordBatch, each: float = each, taken: list[int] = taken) -> None:
                taken.append(batch.num_rows)
                if each:
                    time.sleep(each * batch.num_rows)

            start = time.perf_counter()
            load.join.run(take)
            seconds.append(time.perf_counter() - start)
            pairs.add(sum(taken))
            load.join.close()
        case: dict[str, object] = {"algorithm": algorithm, "threads": count, "pairs": max(pairs)}
        results.append(
            case
            | {"s, sink at once": round(seconds[0], 2), "s, slow sink": round(seconds[1], 2)}
            | {"of the sum": round(seconds[1] / (2 * seconds[0]), 2)}
        )
        print(results[-1], file=sys.stderr)
    return results


def markdown(results: list[Row]) -> str:
    """Return a table."""
    names = list(results[0])
    lines = ["| " + " | ".join(names) + " |", "|" + " --: |" * len(names)]
    lines += ["| " + " | ".join(str(row[name]) for name in names) + " |" for row in results]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("what", choices=("tables", "streams", "skew", "latency", "linear", "sink"))
    add("--threads", default="1,2", help="thread counts, comma-separated")
    add("--repeat", type=int, default=3, help="timed runs of tables and linear; the median counts")
    add("--minutes", default="5,10,15", help="window lengths, comma-separated")
    add("--algorithms", default=",".join(ALGORITHMS), help="comma-separated; not for skew")
    add("--condition", default="band", choices=tuple(CONDITIONS), help="algorithms of streams")
    add("--window-rows", type=int, default=200_000, help="rows per side in a full window")
    add("--piece", type=int, default=4096, help="rows per source and push")
    add("--seconds", type=float, default=5, help="seconds per measurement")
    add("--latency-window", type=int, default=10, help="seconds, for latencies")
    add("--peak", type=float, default=26, help="G comparisons/s per thread, for latencies")
    add("--shares", default="0.5,0.8", help="shares of the peak, for latencies")
    options = parser.parse_args()
    runs = (tables, streams, skew, latency, linear, sink)
    results = {run.__name__: run for run in runs}[options.what](options)
    text = markdown(results)
    print(text)
    found = HERE / "out"
    found.mkdir(exist_ok=True)
    (found / f"w3_{options.what}.md").write_text(text)
    (found / f"w3_{options.what}.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
