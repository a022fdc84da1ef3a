"""Measures workload W1s: the interval join of streams by key, by mode of parallelism.

The tables of W1 are pushed in chunks, in order or with late rows, and pairs are polled as soon as
they are final. The rows of each run are compared with the reference before its time is used. The
script prints Markdown and writes it, with every figure as JSON, to benches/out/.

    python benches/w1s.py throughput --rows 1000000 --keys 1,10,50,1000 --skew uniform,0.35
    python benches/w1s.py latency --keys 1000
    python benches/w1s.py load --skew uniform,0.2,0.3,0.4,0.5
    python benches/w1s.py stock
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tidegate
import workload
from workload import Case, Fingerprint, Inputs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegate.types import Parallelism

HERE = Path(__file__).parent
STOCK = HERE.parent / "tests" / "data" / "alliancedb"
MODES: tuple[Parallelism, ...] = ("key", "data", "hybrid", "auto", "scale-oij")
LATE_SHARE, LATE_US = 0.01, 1_000_000
STOCK_SECONDS = (10, 30)


@dataclasses.dataclass(frozen=True)
class Point:
    """A row of a table: a case and its measurements."""

    what: str
    rows: int
    keys: int
    skew: str
    mode: Parallelism
    threads: int
    piece: int
    pairs: int
    seconds: list[float] = dataclasses.field(default_factory=list)
    latency_s: tuple[float, float, float] | None = None
    """The median, 99th percentile and maximum."""

    paced_rows_s: float | None = None
    comparisons: list[int] = dataclasses.field(default_factory=list)

    @property
    def rows_s(self) -> float:
        """Return the input rows of both sides per second, in the median run."""
        return self.rows / statistics.median(self.seconds)

    @property
    def best_rows_s(self) -> float:
        """Return the input rows of both sides per second, in the fastest run."""
        return self.rows / min(self.seconds)

    @property
    def load_factor(self) -> float:
        """Return the comparisons of the busiest replica, divided by their mean."""
        return max(self.comparisons) / statistics.mean(self.comparisons)


@dataclasses.dataclass(frozen=True)
class Streams:
    """The input streams and the expected result."""

    inputs: Inputs
    expected: Fingerprint
    lateness: int


# Input


def streams(rows: int, keys: int, skew: str, *, late: bool) -> Streams:
    """Return the tables of W1, optionally with one row in a hundred late by up to a second."""
    workload.SKEW = 0.35 if skew == "uniform" else float(skew)
    inputs = workload.generate(Case(rows, keys, "uniform" if skew == "uniform" else "skewed"))
    expected = workload.reference(inputs)
    if late:
        rng = np.random.default_rng(workload.SEED)
        left, right = (_some_late(table, rng) for table in (inputs.left, inputs.right))
        inputs = dataclasses.replace(inputs, left=left, right=right)
    return Streams(inputs, expected, LATE_US if late else 0)


def _some_late(table: pa.Table, rng: np.random.Generator) -> pa.Table:
    times = table.column(1).to_numpy()
    late = rng.random(len(times)) < LATE_SHARE
    arrival = times + np.where(late, rng.integers(0, LATE_US, len(times)), 0)
    return table.take(np.argsort(arrival, kind="stable"))


def pieces(table: pa.Table, rows: int) -> list[pa.RecordBatch]:
    """Return the table in chunks of `rows` rows."""
    batches: list[pa.RecordBatch] = table.combine_chunks().to_batches(max_chunksize=rows)
    return batches


# Runs


def join(given: Streams, mode: Parallelism, threads: int) -> tidegate.IntervalJoin:
    """Return the live join of W1."""
    upper = given.inputs.upper
    return tidegate.IntervalJoin(
        given.inputs.left.schema,
        given.inputs.right.schema,
        on=("t", "t2"),
        by={"k": "k2"},
        lower=-upper,
        upper=upper,
        lateness=given.lateness,
        parallelism=mode,
        threads=threads,
    )


def feed(
    joining: tidegate.IntervalJoin, left: list[pa.RecordBatch], right: list[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Repeatedly push a chunk per side and poll final rows, then close the sources."""
    one, other = joining.sources
    for of_left, of_right in itertools.zip_longest(left, right):
        if of_left is not None:
            one.push(of_left)
        if of_right is not None:
            other.push(of_right)
        yield from iter(joining.poll, None)
    one.close()
    other.close()
    yield from joining


def throughput(given: Streams, point: Point, repeat: int) -> Point:
    """Time entire runs, after one whose rows are checked."""
    left, right = pieces(given.inputs.left, point.piece), pieces(given.inputs.right, point.piece)
    joining = join(given, point.mode, point.threads)
    _check(workload.checksum(feed(joining, left, right)), given.expected, point)
    seconds = []
    for _ in range(repeat):
        joining = join(given, point.mode, point.threads)
        start = time.perf_counter()
        for batch in feed(joining, left, right):
            del batch
        seconds.append(time.perf_counter() - start)
    stats = joining.stats()
    return dataclasses.replace(
        point, pairs=stats["rows_out"], seconds=seconds, comparisons=stats["comparisons"]
    )


def latency(given: Streams, point: Point) -> Point:
    """Push at half the rate of the fastest run, and read the latencies that the join reports."""
    rate = point.rows_s / 2
    left, right = pieces(given.inputs.left, point.piece), pieces(given.inputs.right, point.piece)
    joining = join(given, point.mode, point.threads)
    one, other = joining.sources
    start = time.perf_counter()
    pushed = 0
    for of_left, of_right in zip(left, right, strict=True):
        while time.perf_counter() - start < pushed / rate:
            joining.poll()
        one.push(of_left)
        other.push(of_right)
        pushed += of_left.num_rows + of_right.num_rows
        for batch in iter(joining.poll, None):
            del batch
    taken = time.perf_counter() - start
    return dataclasses.replace(
        point, latency_s=joining.stats()["latency"], paced_rows_s=pushed / taken
    )


def balance(given: Streams, point: Point) -> Point:
    """Count the comparisons per replica in the second half, after measuring key frequencies."""
    left, right = pieces(given.inputs.left, point.piece), pieces(given.inputs.right, point.piece)
    joining = join(given, point.mode, point.threads)
    sources = joining.sources
    counts = []
    half = len(left) // 2
    for part in (slice(0, half), slice(half, None)):
        for both in zip(left[part], right[part], strict=True):
            for source, piece in zip(sources, both, strict=True):
                source.push(piece)
            for batch in iter(joining.poll, None):
                del batch
        counts.append(joining.stats()["comparisons"])
    return dataclasses.replace(
        point, comparisons=[after - before for before, after in zip(*counts, strict=True)]
    )


def _check(found: Fingerprint, expected: Fingerprint, point: Point) -> None:
    if found != expected:
        sys.exit(f"{point}: expected {expected}, found {found}")


# Measurements


def run_cases(options: argparse.Namespace) -> list[Point]:
    """Measure all points of the synthetic workload."""
    points = []
    for keys, skew in itertools.product(options.keys, options.skew):
        given = streams(options.rows, keys, skew, late=options.late)
        for mode, threads in itertools.product(options.modes, options.threads):
            point = Point(
                options.what, 2 * options.rows, keys, skew, mode, threads, options.piece, 0
            )
            point = throughput(given, point, options.repeat)
            if options.what == "latency":
                point = latency(given, point)
            elif options.what == "load":
                point = balance(given, point)
            points.append(point)
            _say(point)
    return points


def run_stock(options: argparse.Namespace) -> list[Point]:
    """Measure the stock data: for each execution, the submissions of the seconds before it."""
    tables = [
        pq.read_table(options.stock / f"stock_60s_{name}.parquet") for name in ("r_cj", "s_sb")
    ]
    left, right = (pieces(table, options.piece) for table in tables)
    keys = len(np.unique(tables[0].column("key").to_numpy()))
    points = []
    for seconds, mode, threads in itertools.product(STOCK_SECONDS, options.modes, options.threads):
        expected = tidegate.interval_join(
            *tables, on="ts_ms", by="key", lower=-1000 * seconds, upper=0
        ).num_rows
        taken = []
        for _ in range(options.repeat):
            joining = tidegate.IntervalJoin(
                tables[0].schema,
                tables[1].schema,
                on="ts_ms",
                by="key",
                lower=-1000 * seconds,
                upper=0,
                parallelism=mode,
                threads=threads,
            )
            start = time.perf_counter()
            found = sum(batch.num_rows for batch in feed(joining, left, right))
            taken.append(time.perf_counter() - start)
            if found != expected:
                sys.exit(f"stock, {seconds} s, {mode}: expected {expected} pairs, found {found}")
        rows = sum(table.num_rows for table in tables)
        point = Point(
            "stock",
            rows,
            keys,
            f"{seconds} s",
            mode,
            threads,
            options.piece,
            expected,
            taken,
            comparisons=joining.stats()["comparisons"],
        )
        points.append(point)
        _say(point)
    return points


# Output


HEADER = (
    *("rows of both sides", "keys", "skew", "mode", "threads", "rows per push"),
    *("pairs", "M rows/s", "at best", "p50, ms", "p99, ms", "load factor"),
)


def markdown(points: list[Point]) -> str:
    """Return a table with one row per point."""
    lines = [HEADER, ["---"] * len(HEADER), *map(_cells, points)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _cells(point: Point) -> list[str]:
    median, high = point.latency_s[:2] if point.latency_s else (None, None)
    return [
        f"{point.rows:,}",
        str(point.keys),
        point.skew,
        point.mode,
        str(point.threads),
        f"{point.piece:,}",
        f"{point.pairs:,}",
        f"{point.rows_s / 1e6:.2f}",
        f"{point.best_rows_s / 1e6:.2f}",
        "-" if median is None else f"{1e3 * median:.2f}",
        "-" if high is None else f"{1e3 * high:.2f}",
        f"{point.load_factor:.2f}",
    ]


def _say(point: Point) -> None:
    print(" ".join(_cells(point)), file=sys.stderr, flush=True)


def main() -> None:
    """Measure, print and write the results."""
    options = _options()
    points = run_stock(options) if options.what == "stock" else run_cases(options)
    text = markdown(points)
    print(text)
    folder = HERE / "out"
    folder.mkdir(exist_ok=True)
    (folder / f"{options.name}.md").write_text(text)
    values = [dataclasses.asdict(point) for point in points]
    (folder / f"{options.name}.json").write_text(json.dumps(values, indent=1))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("what", choices=["throughput", "latency", "load", "stock"], help="what to measure")
    add("--rows", type=int, help="rows per side; 1,000,000 by default")
    add("--keys", default="1,10,50,1000", help="numbers of keys, comma-separated")
    add("--skew", default="uniform", help="uniform, or the s of a self-similar law: 0.2 to 0.5")
    add("--modes", default=",".join(MODES), help="modes of parallelism, comma-separated")
    add("--threads", help="comma-separated; by default 1,2, or 2 to 8 for load")
    add("--stock", type=Path, default=STOCK, help="folder of the stock data")
    add("--piece", type=int, help="rows per push; by default 10,000, or 1,000 for latency")
    add("--late", action="store_true", help="1 %% of the rows are late by up to a second")
    add(
        "--repeat",
        type=int,
        help="timed runs, of which the median counts; by default 3, or 1 for load",
    )
    add("--name", help="name of the files in benches/out")
    given = parser.parse_args()
    is_load = given.what == "load"
    given.rows = given.rows or 1_000_000
    given.keys = [int(keys) for keys in given.keys.split(",")]
    given.skew = given.skew.split(",")
    given.modes = given.modes.split(",")
    given.threads = [
        int(number) for number in (given.threads or ("2,4,8" if is_load else "1,2")).split(",")
    ]
    given.piece = given.piece or (1_000 if given.what == "latency" else 10_000)
    given.repeat = given.repeat or (1 if is_load else 3)
    given.name = given.name or f"w1s-{given.what}"
    return given


if __name__ == "__main__":
    main()
