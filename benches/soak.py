"""Runs a chain of three operators for an hour at half of its peak: memory and latency over time.

    MALLOC_ARENA_MAX=2 python benches/soak.py --minutes 60 --svg soak.svg --out soak.json
    python benches/soak.py --minutes 0.33 --peak-seconds 3     # a short run

An interval join of trades and quotes feeds a count of pairs per key and window. An as-of join uses
these counts as the right side of a third stream. First, the chain processes rows as fast as it can,
which is the peak: once to determine the density of rows, and once at this density. The operators
then hold as many rows as their limits allow, and the process keeps this memory. Then each of the
three sources pushes rows when they are due, at `--share` of the peak, while the chain's threads
work.

Every second, the script records the resident memory and the latencies of the results of that
second. A latency starts when the last row that makes a result final is due, and ends at the sink.
It starts at the due time, not at the time of the push, so delays of the feeders count, too.

The script prints "flat" if memory differs by no more than 5 % over time, comparing the medians of
ten parts of the time without the first part. Otherwise, the exit status is 1. It also checks that
there is one result per row of the third stream.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import tidegate as tg

FLAT = 0.05
PARTS = 10
KEYS = 200

# The reach of the join and the length of a window, in microseconds.
REACH = 2_000
SIZE = 10_000

# The seconds of event time in a push.
STEP = 0.005

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("row", pa.int64())])


@dataclass(frozen=True)
class Net:
    """A chain and its three outer sources."""

    chain: tg.Chain
    sources: list[tg.Source]


def made(threads: int, memory_limit: str) -> Net:
    """Return the chain."""
    options: dict[str, Any] = {"memory_limit": memory_limit, "threads": threads}
    pairs = tg.IntervalJoin(
        SCHEMA, SCHEMA, on="ts", by="k", lower=-REACH, upper=0, columns=["ts", "k"], **options
    )
    count = tg.Aggregate(
        pairs.schema, on="ts", size=SIZE, by="k", aggs={"pairs": tg.agg.count()}, **options
    )
    last = tg.AsofJoin(SCHEMA, count.schema, on=("ts", "window_end"), by="k", **options)
    chain = tg.Chain(last, {last.right_sources[0]: count, count.sources[0]: pairs})
    return Net(chain, [*pairs.sources, last.left_sources[0]])


def pushes(source: int, rate: float) -> Any:  # noqa: ANN401 - a generator of batches
    """Yield endless batches of a source in time order, of `STEP` seconds each."""
    rng = np.random.default_rng(source)
    each = max(1, round(rate * STEP))
    number = 0
    while True:
        first = round(number * STEP * 1e6)
        ts = np.sort(rng.integers(0, round(STEP * 1e6), each)) + first
        rows = np.arange(number * each, (number + 1) * each)
        columns = [pa.array(one) for one in (ts, rng.integers(0, KEYS, each), rows)]
        yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
        number += 1


@dataclass
class Taken:
    """The results that the sink has received."""

    rows: int = 0
    begin: float | None = None
    latencies: list[float] = field(default_factory=list)

    def take(self, batch: pa.RecordBatch) -> None:
        """Count results, and record their latencies in seconds."""
        now = time.perf_counter()
        self.rows += batch.num_rows
        if self.begin is not None:
            # A window that begins before the row's time can contain pairs up to its end, and pairs
            # are emitted up to the reach after their trade.
            ts = batch.column("ts").to_numpy()[:: max(1, batch.num_rows // 64)]
            final = (ts // SIZE + 1) * SIZE + REACH
            # A push contains rows up to the end of its step.
            due = self.begin + (np.floor(final / 1e6 / STEP) + 1) * STEP
            self.latencies += (now - due).tolist()


def feed(source: tg.Source, number: int, rate: float, until: float, begin: float | None) -> int:
    """Push rows until a time, when due or as fast as possible; return their number."""
    rows = 0
    for step, batch in enumerate(pushes(number, rate)):
        now = time.perf_counter()
        if now >= until:
            break
        if begin is not None:
            due = begin + (step + 1) * STEP
            if due > until:
                break
            time.sleep(max(0.0, due - now))
        source.push(batch)
        rows += batch.num_rows
    source.close()
    return rows


def fed(net: Net, rate: float, seconds: float, taken: Taken, each: Any) -> tuple[int, float]:  # noqa: ANN401 - a function
    """Feed all sources for some seconds; return the number of rows and the duration."""
    begin = time.perf_counter()
    until = begin + seconds
    paced = begin if taken.begin is not None else None
    if paced is not None:
        taken.begin = begin
    rows = [0] * len(net.sources)
    errors: list[BaseException] = []

    def one(number: int) -> None:
        try:
            rows[number] = feed(net.sources[number], number, rate, until, paced)
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    feeders = [threading.Thread(target=one, args=(number,)) for number in range(len(rows))]
    with net.chain.running(taken.take) as running:
        for feeder in feeders:
            feeder.start()
        while any(feeder.is_alive() for feeder in feeders) and running.error is None:
            feeders[0].join(1.0)
            each(time.perf_counter() - begin)
        for feeder in feeders:
            feeder.join()
        if errors:
            raise errors[0]
        running.wait()
    if taken.rows != rows[2]:
        sys.exit(f"expected {rows[2]:,} results, as rows of the third stream, got {taken.rows:,}")
    return sum(rows), time.perf_counter() - begin


def resident() -> int:
    """Return the bytes of memory of this process."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Measure the peak, then run at a share of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--share", type=float, default=0.5, help="share of the peak")
    parser.add_argument("--peak-seconds", type=float, default=15)
    parser.add_argument("--threads", type=int, default=tg.default_threads())
    parser.add_argument("--memory-limit", default="128MB", help="memory limit per operator")
    parser.add_argument("--svg", type=Path, help="output file for the plot")
    parser.add_argument("--out", type=Path, help="output file for the figures, as JSON")
    options = parser.parse_args()
    peak = 3e6
    for _ in range(2):
        net = made(options.threads, options.memory_limit)
        rows, took = fed(net, peak / 3, options.peak_seconds, Taken(), lambda _: None)
        peak = rows / took
    print(f"peak: {peak:,.0f} rows/s of all three sources", flush=True)
    rate = options.share * peak / 3
    taken, seen = Taken(begin=0.0), []

    def look(seconds: float) -> None:
        own, taken.latencies = taken.latencies, []
        quantiles = np.quantile(own, [0.5, 0.99]).tolist() if own else [None, None]
        seen.append(
            {"seconds": seconds, "rss": resident(), "p50": quantiles[0], "p99": quantiles[1]}
        )

    gc.collect()
    rows, took = fed(
        made(options.threads, options.memory_limit), rate, 60 * options.minutes, taken, look
    )
    print(
        f"pushed {rows:,} rows in {took:,.0f} s, {rows / took:,.0f} rows/s; {taken.rows:,} results"
    )
    parts = np.array_split(np.arange(len(seen)), PARTS)[1:]
    medians = [statistics.median(seen[at]["rss"] for at in part) for part in parts if len(part)]
    spread = max(medians) / min(medians) - 1
    late = [one["p99"] for one in seen[len(seen) // PARTS :] if one["p99"] is not None]
    middle = [one["p50"] for one in seen[len(seen) // PARTS :] if one["p50"] is not None]
    is_flat = spread <= FLAT
    verdict = (
        f"memory: {min(medians) / 1e6:,.0f} to {max(medians) / 1e6:,.0f} MB, {spread:.1%} apart: "
        + ("flat" if is_flat else "not flat")
        + f" within {FLAT:.0%}"
    )
    print(verdict)
    print(
        f"latency of a second, ms: median {1e3 * statistics.median(middle):.1f}; p99 "
        f"{1e3 * statistics.median(late):.1f} in the middle one, {1e3 * max(late):.1f} at most"
    )
    if options.out:
        found = {"peak": peak, "rate": rate, "rows": rows, "seen": seen, "flat": is_flat}
        options.out.write_text(json.dumps(found), "utf-8")
    if options.svg:
        draw(seen, f"{rows / took / 1e6:.2f} M rows/s; {verdict}", options.svg)
    sys.exit(0 if is_flat else 1)


def draw(seen: list[dict[str, Any]], title: str, path: Path) -> None:
    """Draw memory and latency over time."""
    import matplotlib as mpl  # noqa: PLC0415 - needed only to draw

    mpl.use("svg")
    mpl.rcParams["svg.fonttype"] = "none"  # text, not outlines
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, (memory, latency) = plt.subplots(2, 1, sharex=True, figsize=(9, 6))
    minutes = [one["seconds"] / 60 for one in seen]
    memory.plot(minutes, [one["rss"] / 1e6 for one in seen])
    memory.set_ylim(bottom=0)
    memory.set_ylabel("resident memory, MB")
    memory.set_title(title, fontsize=9)
    for name, label in (("p50", "median"), ("p99", "99th percentile")):
        values = [float("nan") if one[name] is None else 1e3 * one[name] for one in seen]
        latency.plot(minutes, values, label=label, linewidth=0.8)
    latency.set_yscale("log")
    latency.set_ylabel("latency of a second's results, ms")
    latency.set_xlabel("minutes")
    latency.legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None, "Title": "A chain of three operators over time"})


if __name__ == "__main__":
    main()
