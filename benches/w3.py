"""Workload W3: the 2-D band join over sliding windows of time, where every pair is compared.

The benchmark of CellJoin, the handshake joins and ScaleJoin: `r.x` within 10 of `s.a` and `r.y`
within 10 of `s.b`, integers and 32-bit floats uniform from 1 to 10 000, equal rates. Prints
Markdown, and writes it with every figure as JSON into benches/results/.

    python benches/w3.py tables            # window_join of whole tables
    python benches/w3.py streams           # WindowJoin with full windows, by algorithm
    python benches/w3.py latency           # from push to result at a share of the peak rate
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import tidegate
from workload import SEED

HERE = Path(__file__).parent
WHERE = (
    "left.x BETWEEN right.a - 10 AND right.a + 10 AND left.y BETWEEN right.b - 10 AND right.b + 10"
)
# The same without conjuncts that compare the sides: Arrow kernels on blocks of pairs.
EVALUATED = f"({WHERE}) OR FALSE"
US = 1_000_000
ALGORITHMS = ("three-step", "cell", "scalejoin")

Row = dict[str, object]


def table(
    rng: np.random.Generator, rows: int, first_us: float, rate: float, names: str
) -> pa.Table:
    """So many rows of one side, evenly spaced."""
    ts = (first_us + np.arange(rows) * (US / rate)).astype(np.int64)
    x = rng.integers(1, 10_001, rows).astype(np.int32)
    y = rng.uniform(1, 10_000, rows).astype(np.float32)
    return pa.table({"ts": ts, names[0]: x, names[1]: y})


def compared(rows: int, window_us: int, rate: float) -> int:
    """Pairs within the windows of two sides of so many rows."""
    reach = int(window_us * rate / US)
    full = rows * (2 * reach + 1)
    return full - reach * (reach + 1) if reach < rows else rows * rows


def tables(options: argparse.Namespace) -> list[Row]:
    """Whole tables: comparisons per second of the whole call, scanned for and evaluated."""
    results: list[Row] = []
    rng = np.random.Generator(np.random.PCG64(SEED))
    for rows, kind, where in ((400_000, "scanned", WHERE), (20_000, "evaluated", EVALUATED)):
        left, right = (table(rng, rows, 0, 1000, names) for names in ("xy", "ab"))
        window = rows // 4 * 1000
        for threads in map(int, options.threads.split(",")):
            seconds = []
            found = 0
            for _ in range(options.repeat):
                start = time.perf_counter()
                found = tidegate.window_join(
                    left, right, on="ts", window=window, where=where, threads=threads
                ).num_rows
                seconds.append(time.perf_counter() - start)
            pairs = compared(rows, window, 1000)
            rate = pairs / statistics.median(seconds) / 1e9
            results.append(
                {"conditions": kind, "rows a side": rows, "threads": threads, "pairs": found}
                | {"G comparisons/s": round(rate, 2)}
            )
            print(results[-1], file=sys.stderr)
    return results


class Load:
    """A join whose windows are full, and rows to push that keep them so."""

    def __init__(self, algorithm: str, threads: int, window_s: int, rate: float) -> None:
        rng = np.random.Generator(np.random.PCG64(SEED))
        self.rate, self.rows = rate, int(window_s * rate)
        schemas = [table(rng, 0, 0, 1, names).schema for names in ("xy", "ab")]
        self.join = tidegate.WindowJoin(
            *schemas, on="ts", window=window_s * US, where=WHERE, algorithm=algorithm,
            threads=threads,
        )  # fmt: skip
        self.sides = [table(rng, 3 * self.rows, 0, rate, names) for names in ("xy", "ab")]
        self.next = 0
        self.pairs = 0

    def has(self, rows: int) -> bool:
        """Whether there are so many rows of each side to push."""
        return self.next + rows <= self.sides[0].num_rows

    def push(self, rows: int) -> None:
        """So many rows of each side, and all results that are ready."""
        for source, side in zip(self.join.sources, self.sides, strict=True):
            source.push(side.slice(self.next, rows))
        self.next += rows
        self.take()

    def take(self) -> None:
        """All results that are ready."""
        while (batch := self.join.poll()) is not None:
            self.pairs += batch.num_rows

    def fill(self) -> None:
        """Fill the windows."""
        while self.next < self.rows:
            self.push(min(16_384, self.rows - self.next))


def streams(options: argparse.Namespace) -> list[Row]:
    """Streams with full windows: comparisons and rows per second, and the balance of threads."""
    results: list[Row] = []
    for minutes in map(int, options.minutes.split(",")):
        for algorithm in options.algorithms.split(","):
            for threads in map(int, options.threads.split(",")):
                if algorithm == "three-step" and threads > 1:
                    continue
                load = Load(algorithm, threads, minutes * 60, options.window_rows / (minutes * 60))
                load.fill()
                before = load.join.stats()["comparisons"]
                first, start = load.next, time.perf_counter()
                while time.perf_counter() - start < options.seconds and load.has(options.piece):
                    load.push(options.piece)
                took = time.perf_counter() - start
                work = np.array(load.join.stats()["comparisons"]) - np.array(before)
                speed = work.sum() / took
                results.append(
                    {"window": f"{minutes} min", "algorithm": algorithm, "threads": threads}
                    | {"G comparisons/s": round(speed / 1e9, 2)}
                    | {"rows/s of windows this full": round(2 * (load.next - first) / took)}
                    # T rows a second of each side and windows of W seconds are 2 W T² comparisons.
                    | {"rows/s sustained": round(2 * (speed / (2 * minutes * 60)) ** 0.5)}
                    | {"spread of work": f"{work.std() / work.mean():.3%}"}
                )
                load.join.close()
                print(results[-1], file=sys.stderr)
    return results


def latency(options: argparse.Namespace) -> list[Row]:
    """Pieces pushed by the clock, at shares of the rate at which comparisons take all the time."""
    results: list[Row] = []
    minutes = int(options.minutes.split(",")[0])
    for threads in map(int, options.threads.split(",")):
        for share in map(float, options.shares.split(",")):
            rate = share * options.peak * threads**0.5 / 2
            load = Load("scalejoin", threads, minutes * 60, rate)
            load.fill()
            took, start, first = [], time.perf_counter(), load.next
            pieces = int(options.seconds * rate / options.piece)
            for piece in range(pieces):
                due = start + piece * options.piece / rate
                time.sleep(max(0.0, due - time.perf_counter()))
                load.push(options.piece)
                # From when the piece was due, so that a late push counts as waiting.
                took.append(time.perf_counter() - due)
            spread = np.percentile(np.array(took) * 1000, (50, 99, 100))
            results.append(
                {"window": f"{minutes} min", "threads": threads, "rows/s": round(2 * rate)}
                | {"share of peak": share, "piece": options.piece, "rows": 2 * (load.next - first)}
                | dict(
                    zip(("p50 ms", "p99 ms", "max ms"), map(float, spread.round(2)), strict=True)
                )
            )
            load.join.close()
            print(results[-1], file=sys.stderr)
    return results


def markdown(results: list[Row]) -> str:
    """A table."""
    names = list(results[0])
    lines = ["| " + " | ".join(names) + " |", "|" + " --: |" * len(names)]
    lines += ["| " + " | ".join(str(row[name]) for name in names) + " |" for row in results]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("what", choices=("tables", "streams", "latency"))
    add("--threads", default="1,2", help="thread counts, comma-separated")
    add("--repeat", type=int, default=3, help="timed runs of tables; the median counts")
    add("--minutes", default="5,10,15", help="window lengths, comma-separated")
    add("--algorithms", default=",".join(ALGORITHMS), help="of streams, comma-separated")
    add("--window-rows", type=int, default=200_000, help="rows of each side in a full window")
    add("--piece", type=int, default=4096, help="rows of a side pushed at once")
    add("--seconds", type=float, default=5, help="of each measurement")
    add("--peak", type=float, default=10_000, help="rows/s that one thread sustains")
    add("--shares", default="0.5,0.8", help="of the peak, for latencies")
    options = parser.parse_args()
    results = {"tables": tables, "streams": streams, "latency": latency}[options.what](options)
    text = markdown(results)
    print(text)
    found = HERE / "results"
    found.mkdir(exist_ok=True)
    (found / f"w3_{options.what}.md").write_text(text)
    (found / f"w3_{options.what}.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
