"""Measures operators that run in the background and callers that poll: rates and latencies.

    python benches/w1s_running.py rates --rows 1000000 --keys 1000
    python benches/w1s_running.py latency --rate 500000 --seconds 10

`rates` joins W1's tables, which are pushed in chunks as fast as possible, in alternating variants:

- in turn: one thread pushes a chunk per side, then polls; work overlaps only inside a poll;
- busy poller: two threads push, and a third thread polls without a pause;
- running: two threads push, and the operator runs in the background.

Each variant is measured with a sink that counts, and with a slow sink that writes Parquet. Rows are
compared with the reference before timing.

`latency` pushes rows when they are due. It measures the time from a pair's later push to the sink,
for a busy poller and for an operator that runs in the background.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tidegate
import workload
from w1s import Streams, feed, join, pieces, streams
from w1s_eager import SCHEMA, UPPER_US, paced, spread

Take = Callable[[pa.RecordBatch], object]
Sides = list[list[pa.RecordBatch]]
Form = Callable[[tidegate.IntervalJoin, Sides, Take], None]

LIMIT = "1GB"


def in_turn(joining: tidegate.IntervalJoin, sides: Sides, take: Take) -> None:
    """Push and poll from one thread."""
    for batch in feed(joining, *sides):
        take(batch)


def pushing(joining: tidegate.IntervalJoin, sides: Sides) -> list[threading.Thread]:
    """Start one pushing thread per side, which wait while the operator is full."""

    def push(source: tidegate.Source, batches: list[pa.RecordBatch]) -> None:
        with source:
            for batch in batches:
                source.push(batch, block=True)

    both = zip(joining.sources, sides, strict=True)
    threads = [threading.Thread(target=push, args=one) for one in both]
    for thread in threads:
        thread.start()
    return threads


def polling(joining: tidegate.IntervalJoin, sides: Sides, take: Take) -> None:
    """Push from other threads, and poll from this thread without a pause."""
    threads = pushing(joining, sides)
    while any(thread.is_alive() for thread in threads):
        if (batch := joining.poll()) is not None:
            take(batch)
    for batch in iter(joining.poll, None):
        take(batch)


def running(joining: tidegate.IntervalJoin, sides: Sides, take: Take) -> None:
    """Push from other threads, while the operator is running in the background."""
    with joining.running(take):
        for thread in pushing(joining, sides):
            thread.join()


FORMS: dict[str, Form] = {"in turn": in_turn, "busy poller": polling, "running": running}


def timed(form: Form, given: Streams, sides: Sides, threads: int, sink: str) -> float:
    """Return millions of rows per second for both sides, including the end of the sink."""
    joining = join(given, "auto", threads)
    joining.memory_limit = LIMIT
    rows: int = sum(batch.num_rows for side in sides for batch in side)
    with TemporaryDirectory() as folder:
        start = time.perf_counter()
        if sink == "count":
            counts: list[int] = []
            form(joining, sides, lambda batch: counts.append(batch.num_rows))
        else:
            with pq.ParquetWriter(Path(folder) / "pairs", joining.schema) as writer:
                form(joining, sides, writer.write_batch)
        return rows / (time.perf_counter() - start) / 1e6


def rates(options: argparse.Namespace) -> None:
    """Return the medians of rounds, with their range."""
    print(f"| keys | threads | sink | {', M rows/s | '.join(FORMS)}, M rows/s |")
    print("| --: | --: | --- |" + " --: |" * len(FORMS))
    for keys in options.keys:
        given = streams(options.rows, keys, "uniform", late=False)
        sides = [pieces(table, options.piece) for table in (given.inputs.left, given.inputs.right)]
        for name, form in FORMS.items():
            found: list[pa.RecordBatch] = []
            form(join(given, "auto", options.threads[0]), sides, found.append)
            if (rows := workload.checksum(found)) != given.expected:
                sys.exit(f"{name}: expected {given.expected}, found {rows}")
        for threads in options.threads:
            for sink in ("count", "parquet"):
                took: dict[str, list[float]] = {name: [] for name in FORMS}
                for _ in range(options.rounds):
                    for name, form in FORMS.items():
                        took[name].append(timed(form, given, sides, threads, sink))
                cells = [spread(values) for values in took.values()]
                print(f"| {keys:,} | {threads} | {sink} | {' | '.join(cells)} |", flush=True)


def latency(options: argparse.Namespace) -> None:
    """Return latencies from a pair's later push to the sink in ms: medians and ranges."""
    print("| keys | rows/s of both sides | who polls | pairs | p50, ms | p99, ms | max, ms |")
    print("| --: | --: | --- | --: | --: | --: | --: |")
    for keys in options.keys:
        found: dict[str, list[tuple[float, ...]]] = {"busy poller": [], "running": []}
        pairs = 0
        for _ in range(options.rounds):
            for name, rounds in found.items():
                took = one_latency(options, keys, runs=name == "running")
                pairs = len(took)
                rounds.append(tuple(1e3 * np.quantile(took, at) for at in (0.5, 0.99, 1.0)))
        for name, rounds in found.items():
            cells = " | ".join(spread(list(one)) for one in zip(*rounds, strict=True))
            print(f"| {keys:,} | {options.rate:,.0f} | {name} | {pairs:,} | {cells} |", flush=True)
        poller, runs = ([one[1] for one in rounds] for rounds in found.values())
        ahead = sum(own <= other for own, other in zip(runs, poller, strict=True))
        print(f"p99 of running is no greater in {ahead} of {len(runs)} rounds", flush=True)


def one_latency(options: argparse.Namespace, keys: int, *, runs: bool) -> np.ndarray:
    """Return the latency of each pair in a run."""
    joining = tidegate.IntervalJoin(
        SCHEMA, SCHEMA, on="ts", by="k", lower=-UPPER_US, upper=UPPER_US,
        threads=options.threads[0], columns=["row", "row_right"],
    )  # fmt: skip
    sides = [paced(options.rate / 2, options.seconds, keys, seed) for seed in (1, 2)]
    pushed = np.zeros((2, sum(batch.num_rows for batch in sides[0].pushes)))
    took: list[np.ndarray] = []

    def take(batch: pa.RecordBatch) -> None:
        left, right = (batch.column(name).to_numpy() for name in ("row", "row_right"))
        took.append(time.perf_counter() - np.maximum(pushed[0, left], pushed[1, right]))

    start = time.perf_counter()

    def push(at: int) -> None:
        with joining.sources[at] as source:
            for number, batch in enumerate(sides[at].pushes):
                time.sleep(max(0.0, start + number * sides[at].step - time.perf_counter()))
                first = batch.column("row")[0].as_py()
                pushed[at, first : first + batch.num_rows] = time.perf_counter()
                source.push(batch)

    threads = [threading.Thread(target=push, args=(at,)) for at in (0, 1)]
    for thread in threads:
        thread.start()
    if runs:
        joining.run(take)
    else:
        while any(thread.is_alive() for thread in threads):
            if (batch := joining.poll()) is not None:
                take(batch)
        for batch in iter(joining.poll, None):
            take(batch)
    return np.concatenate(took)


def main() -> None:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
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
