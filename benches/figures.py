"""Reproduces the figures of the five papers, by number of threads if a figure has threads.

Every figure is a list of points, and each point is a measurement of at most a second. Each round
visits all points, starting with the first point of each figure, until the time budget is used up.
The value of a point is the median of its rounds. Figures without a thread axis use the largest
number of threads. Measuring needs only numpy and pyarrow. `--draw` draws the file that `--json` has
written, and needs matplotlib.

    python benches/figures.py --threads 1,2,4,8,16 --budget-seconds 240 --json figures.json
    python benches/figures.py --draw figures.json --svg benches/plots/figures.svg

`--only IBWJ` selects figures by name, and `--list` lists them. If the budget is too short for some
points, they are listed at the end and are not in the file.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import itertools
import json
import math
import os
import statistics
import sys
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import tidegate
import w1s
import w2_streams
import w3
import w4_designs
from machine import machine
from workload import SEED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidegate.types import Algorithm, BandAlgorithm, Parallelism, WindowAlgorithm

SECONDS = 0.4  # duration of a measurement without a natural end
MINUTE_S = 60
US = 1_000_000


@dataclasses.dataclass(frozen=True)
class Point:
    """A measurement, with its position in the figure and its function."""

    series: str
    x: float
    measure: Callable[[], float]


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure of a paper, with its axes and its points for the available numbers of threads."""

    name: str
    title: str
    x: str
    y: str
    points: Callable[[list[int]], Iterator[Point]]
    is_log: bool = True
    at_once: bool = False  # the first point measures all other points, too


# ScaleJoin (2015) and the handshake joins (2014), which compare every pair in a window

WINDOW_ROWS = 50_000
PIECE = 4096
Work = tuple[float, float, float]


@cache
def _row_at_a_time(algorithm: WindowAlgorithm, threads: int, minutes: int, where: str) -> w3.Load:
    """Return a join with full windows, which the next measurement continues to use."""
    window_s = minutes * MINUTE_S
    load = w3.Load(algorithm, threads, window_s, WINDOW_ROWS / window_s, where=where)
    load.fill()
    return load


def window_work(algorithm: WindowAlgorithm, threads: int, minutes: int, where: str) -> Work:
    """Return comparisons and rows per second with full windows, and the deviation of work."""
    load = _row_at_a_time(algorithm, threads, minutes, where)
    if not load.has(4 * PIECE):
        _row_at_a_time.cache_clear()
        load = _row_at_a_time(algorithm, threads, minutes, where)
    before = np.array(load.join.stats()["comparisons"])
    first, start = load.next, time.perf_counter()
    while time.perf_counter() - start < SECONDS and load.has(PIECE):
        load.push(PIECE)
    took = time.perf_counter() - start
    work = np.array(load.join.stats()["comparisons"]) - before
    return work.sum() / took, 2 * (load.next - first) / took, 100 * work.std() / work.mean()


def compared(
    algorithm: WindowAlgorithm, threads: int, minutes: int = 5, where: str = w3.WHERE
) -> float:
    """Return comparisons per second, in units of 10^9."""
    return window_work(algorithm, threads, minutes, where)[0] / 1e9


def sustained(algorithm: WindowAlgorithm, threads: int, minutes: int) -> float:
    """Return rows per second and side, for windows of `minutes`: 2 W T^2 comparisons for T rows."""
    comparisons = window_work(algorithm, threads, minutes, w3.WHERE)[0]
    return math.sqrt(comparisons / (2 * minutes * MINUTE_S))


def spread(algorithm: WindowAlgorithm, threads: int) -> float:
    """Return the standard deviation of the threads' comparisons, in percent of their mean."""
    return window_work(algorithm, threads, 5, w3.WHERE)[2]


def scalejoin_5(measure: Callable[[WindowAlgorithm, int, int], float]) -> Any:  # noqa: ANN401
    """Return points by threads and window length."""

    def points(threads: list[int]) -> Iterator[Point]:
        for count, minutes in itertools.product(threads, (5, 10, 15)):
            yield Point(
                f"{minutes} min",
                count,
                lambda n=count, m=minutes: measure("scalejoin", n, m),  # type: ignore[misc]
            )

    return points


def by_algorithm(*names: WindowAlgorithm, where: str = w3.WHERE) -> Any:  # noqa: ANN401
    """Return comparisons per second by threads."""

    def points(threads: list[int]) -> Iterator[Point]:
        for count, name in itertools.product(threads, names):
            yield Point(name, count, lambda n=name, c=count: compared(n, c, where=where))  # type: ignore[misc]

    return points


def rows_by_algorithm(*names: WindowAlgorithm, where: str) -> Any:  # noqa: ANN401
    """Return rows per second by threads, for row-based windows of one length."""

    def points(threads: list[int]) -> Iterator[Point]:
        for count, name in itertools.product(threads, names):
            yield Point(
                name,
                count,
                lambda n=name, c=count: window_work(n, c, 5, where)[1] / 1e6,  # type: ignore[misc]
            )

    return points


def window_latency(algorithm: WindowAlgorithm, threads: int, piece: int = 64) -> float:
    """Return the median latency in ms, from the due time of a chunk to its pairs, at 1/4 peak.

    Windows are 10 s long. The peak is the rate at which the comparisons measured above take all of
    the time.
    """
    window_s = 10
    speed = compared(algorithm, threads)
    rate = min(0.25 * math.sqrt(speed * 1e9 / (2 * window_s)), 50_000.0)
    load = w3.Load(algorithm, threads, window_s, rate)
    load.fill()
    took, start = [], time.perf_counter()
    for nth in range(int(2 * SECONDS * rate / piece)):
        due = start + nth * piece / rate
        time.sleep(max(0.0, due - time.perf_counter()))
        load.push(piece)
        took.append(time.perf_counter() - due)
    load.join.close()
    return statistics.median(took) * 1000


def latency_by_threads(*names: WindowAlgorithm) -> Any:  # noqa: ANN401
    """Return latencies by threads."""

    def points(threads: list[int]) -> Iterator[Point]:
        for count, name in itertools.product(threads, names):
            yield Point(name, count, lambda n=name, c=count: window_latency(n, c))  # type: ignore[misc]

    return points


def merged_by_sources(threads: list[int]) -> Iterator[Point]:
    """Return rows per second through the gate, by sources."""

    def rate(sources: int, count: int) -> float:
        rows = (1 << 20) // sources
        times = [pa.table({"ts": np.arange(rows) * sources + one}) for one in range(sources)]
        start = time.perf_counter()
        tidegate.merge(times, on="ts", threads=count)
        return rows * sources / (time.perf_counter() - start) / 1e6

    for sources, count in itertools.product((1, 2, 4, 8, 16, 32), {1, threads[-1]}):
        yield Point(
            f"{count} threads",
            sources,
            lambda s=sources, c=count: rate(s, c),  # type: ignore[misc]
        )


# Figure 8: rates of each stream over time, in rows per second

Rates = tuple["Callable[[int], float]", ...]


def steady(rate: float) -> Callable[[int], float]:
    """Return the rates of figure 8a."""
    return lambda _: rate


def sinus(mean: float, swing: float, period: float) -> Callable[[int], float]:
    """Return the rates of figure 8b."""
    return lambda second: mean + swing * math.sin(2 * math.pi * second / period)


def peaks(rate: float, height: float, every: int, at: int) -> Callable[[int], float]:
    """Return the rates of figure 8c, in which two of every `every` seconds have another rate."""
    return lambda second: height if (second - at) % every < 2 else rate  # noqa: PLR2004


SKEWS: dict[str, tuple[Rates, Rates]] = {
    "a": ((steady(1200),), (steady(225),) * 4),
    "b": (
        tuple(sinus(300, swing, period) for swing, period in ((250, 30), (150, 20), (200, 45))),
        tuple(sinus(400, swing, period) for swing, period in ((300, 25), (200, 60))),
    ),
    "c": (
        tuple(peaks(250, 1000, every, at) for every, at in ((30, 5), (40, 12), (50, 20), (60, 33))),
        tuple(peaks(400, 1600, every, at) for every, at in ((35, 9), (45, 25))),
    ),
}
SKEW_SECONDS, SKEW_WINDOW_S = 60, 20


@cache
def skewed(which: str, threads: int) -> tuple[list[float], list[float], list[float]]:
    """Return rows, comparisons per thread and their deviation in percent, for each second."""
    left, right = SKEWS[which]
    rng = np.random.Generator(np.random.PCG64(SEED))
    schemas = [w3.table(rng, 0, 0, 1, names).schema for names in ("xy", "ab")]
    join = tidegate.WindowJoin(
        *schemas, on="ts", window=SKEW_WINDOW_S * US, where=w3.WHERE, algorithm="scalejoin",
        threads=threads, sources=(len(left), len(right)),
    )  # fmt: skip
    names = ["xy"] * len(left) + ["ab"] * len(right)
    came, mean, deviation = [], [], []
    before = np.zeros(threads)
    for second in range(SKEW_SECONDS):
        rates = [max(1.0, rate(second)) for rate in (*left, *right)]
        for source, rate, of_side in zip(join.sources, rates, names, strict=True):
            source.push(w3.table(rng, int(rate), second * US, rate, of_side))
        for batch in iter(join.poll, None):
            del batch
        work = np.array(join.stats()["comparisons"], float)
        done, before = work - before, work
        came.append(sum(map(int, rates)) / 1e3)
        mean.append(done.mean() / 1e6)
        deviation.append(100 * done.std() / max(1.0, done.mean()))
    join.close()
    return came, mean, deviation


def skew_over_time(which: str) -> Any:  # noqa: ANN401
    """Return rows, comparisons and deviations by second."""
    series = ("rows, thousands", "comparisons per thread, millions", "deviation, %")

    def points(threads: list[int]) -> Iterator[Point]:
        for second, (at, name) in itertools.product(range(SKEW_SECONDS), enumerate(series)):
            yield Point(
                name,
                second,
                lambda a=at, s=second: skewed(which, threads[-1])[a][s],  # type: ignore[misc]
            )

    return points


# The index-based join (2020)

IBWJ_WINDOW = 1 << 17
BAND_PIECE = 1 << 12


def band_rate(  # noqa: PLR0913 - what a measurement is of
    algorithm: BandAlgorithm,
    threads: int,
    *,
    window: float = IBWJ_WINDOW,
    kind: str = "uniform",
    matches: float = 2,
    of_one: bool = False,
    **settings: float,
) -> float:
    """Return millions of rows per second, with full row-based windows."""
    case = w2_streams.Case(algorithm, threads, int(window), kind, matches)
    load = w2_streams.Load(case, BAND_PIECE, settings or None, of_one=of_one)
    load.run(load.pieces(case.window))
    # The timed part always contains an entire merge, for any ratio.
    pieces = load.pieces(max(case.window, 1 << 16))
    seconds, _, _ = load.run(pieces)
    rows = len(pieces) * BAND_PIECE * len(load.join.sources)
    load.join.close()
    return rows / seconds / 1e6


def band_points(
    lines: Callable[[list[int]], list[tuple[str, dict[str, Any]]]],
    axis: str,
    values: tuple[float, ...] | None = None,
) -> Any:  # noqa: ANN401
    """Return one series per line, over the values of an argument or, without any, over threads."""

    def points(threads: list[int]) -> Iterator[Point]:
        for value, (name, asked) in itertools.product(values or threads, lines(threads)):
            arguments = {"threads": threads[-1], **asked, axis: value}
            yield Point(name, value, lambda given=arguments: band_rate(**given))  # type: ignore[misc]

    return points


def lines(*names: str, **asked: Any) -> Callable[[list[int]], list[tuple[str, dict[str, Any]]]]:  # noqa: ANN401
    """Return algorithms as series, on one thread or, if the name says so, on all threads."""

    def of(threads: list[int]) -> list[tuple[str, dict[str, Any]]]:
        found = []
        for name in names:
            algorithm, _, on_all = name.partition(" on ")
            count = threads[-1] if on_all else 1
            title = f"{algorithm}, {count} threads" if on_all else algorithm
            found.append((title, {"algorithm": algorithm, "threads": count, **asked}))
        return list({title: (title, line) for title, line in found}.values())

    return of


def of_one_or_two(_: list[int]) -> list[tuple[str, dict[str, Any]]]:
    """Return the points of figure 12a."""
    return [
        ("two streams", {"algorithm": "ibwj"}),
        ("a stream with itself", {"algorithm": "ibwj", "of_one": True}),
        ("PIM-Tree, rows enter ahead", {"algorithm": "pim-tree"}),
    ]


WINDOWS = tuple(float(1 << power) for power in (14, 16, 18))
RATIOS = tuple(2.0**-power for power in range(6, -1, -1))

# The interval join (2025)

OIJ_ROWS = 200_000
MODES: tuple[Parallelism, ...] = ("key", "data", "hybrid", "scale-oij")


@cache
def _streams(keys: int, skew: str) -> tuple[w1s.Streams, list[list[pa.RecordBatch]]]:
    given = w1s.streams(OIJ_ROWS, keys, skew, late=False)
    return given, [w1s.pieces(side, 10_000) for side in (given.inputs.left, given.inputs.right)]


def _fed(keys: int, skew: str, mode: Parallelism, threads: int) -> tidegate.IntervalJoin:
    given, sides = _streams(keys, skew)
    join = w1s.join(given, mode, threads)
    for batch in w1s.feed(join, *sides):
        del batch
    return join


def interval_rate(keys: int, skew: str, mode: Parallelism, threads: int) -> float:
    """Return millions of rows per second."""
    _streams(keys, skew)
    start = time.perf_counter()
    _fed(keys, skew, mode, threads)
    return 2 * OIJ_ROWS / (time.perf_counter() - start) / 1e6


def load_factor(keys: int, skew: str, mode: Parallelism, threads: int) -> float:
    """Return the busiest thread's comparisons in the second half, divided by their mean."""
    given, sides = _streams(keys, skew)
    point = w1s.Point("load", 2 * OIJ_ROWS, keys, skew, mode, threads, len(sides[0][0]), 0)
    return w1s.balance(given, point).load_factor


def interval_latency(keys: int, skew: str, mode: Parallelism, threads: int) -> float:
    """Return the median time in ms from the push of a row until its pairs are emitted."""
    latency = _fed(keys, skew, mode, threads).stats()["latency"]
    return 1000 * float(latency[0]) if latency else math.nan


def interval_points(
    measure: Callable[[int, str, Parallelism, int], float], axis: str, skew: str = "0.35"
) -> Any:  # noqa: ANN401
    """Return one series per mode."""

    def points(threads: list[int]) -> Iterator[Point]:
        most = threads[-1]
        cases: dict[str, list[tuple[float, tuple[int, str, int]]]] = {
            "keys": [(keys, (keys, skew, most)) for keys in (1, 5, 10, 50, 100, 500)],
            "threads": [(count, (50, skew, count)) for count in threads],
            "skew": [(float(s), (50, s, most)) for s in ("0.2", "0.3", "0.35", "0.4", "0.45")],
        }
        for (x, (keys, of, count)), mode in itertools.product(cases[axis], MODES):
            yield Point(
                mode,
                x,
                lambda k=keys, s=of, m=mode, c=count: measure(k, s, m, c),  # type: ignore[misc]
            )

    return points


# The multiway aggregation (2017)

AGGREGATED = 40_000
QUERIES = {query.name: query for query in w4_designs.QUERIES}


def readings() -> pa.Table:
    """Return readings of 243 meters, one per meter and minute, unordered within each minute."""
    rng = np.random.Generator(np.random.PCG64(42))
    minutes = np.repeat(np.arange(AGGREGATED // 243), 243)
    meters = np.tile(np.arange(243), AGGREGATED // 243)
    order = np.lexsort((rng.random(len(minutes)), minutes))
    loads = rng.gamma(2.0, 0.5, len(minutes))
    keys = pa.array(meters[order]).cast(pa.string())
    return pa.table({"ts": minutes[order], "key": keys, "load_kwh": loads})


@cache
def _rows_of(*, comments: bool) -> pa.Table:
    return w4_designs.comments(AGGREGATED) if comments else readings()


@cache
def _inputs(count: int, *, comments: bool) -> list[list[pa.RecordBatch]]:
    return w4_designs.inputs(_rows_of(comments=comments), count)


# The result of the first design by query and inputs, which all designs have to return.
_expected: dict[tuple[str, int], tuple[int, float]] = {}


def aggregate_rate(query: str, inputs: int, design: Algorithm, threads: int) -> float:
    """Return millions of rows per second; raise an error if the designs' results differ."""
    asked = QUERIES[query]
    batches = _inputs(inputs, comments=asked.comments)
    schema = _rows_of(comments=asked.comments).schema
    windows = w4_designs.aggregate(asked, schema, inputs, design, threads)
    done = w4_designs.run(windows, batches)
    found = w4_designs.checksum(done.found)
    if found != _expected.setdefault((query, inputs), found):
        sys.exit(f"{query}, {inputs} inputs, {design} on {threads} threads: other results")
    return AGGREGATED / done.seconds / 1e6


def designs_of(query: str) -> tuple[Algorithm, ...]:
    """Return the paper's designs for a query; WiML supports only functions that ignore order."""
    names: tuple[Algorithm, ...] = ("mq", "mq-lf", "tumlsc", "tumlmc")
    return names if query.endswith("OS") else ("mq", "mq-lf", "wiml")


def aggregate_by_inputs(query: str) -> Any:  # noqa: ANN401
    """Return the points of figures 13 to 33."""

    def points(threads: list[int]) -> Iterator[Point]:
        for inputs, design in itertools.product((1, 5, 10, 20), (*designs_of(query), "slices")):
            yield Point(
                design,
                inputs,
                lambda i=inputs, d=design: aggregate_rate(query, i, d, threads[-1]),  # type: ignore[misc]
            )

    return points


def aggregate_by_threads(threads: list[int]) -> Iterator[Point]:
    """Return the points of figure 34, with the other designs in addition to TuMLMC."""
    for count, query, design in itertools.product(
        threads, ("k-OS", "K-OS"), ("tumlsc", "tumlmc", "slices")
    ):
        yield Point(
            f"{query}, {design}",
            count,
            lambda q=query, d=design, n=count: aggregate_rate(q, 20, d, n),  # type: ignore[misc]
        )


RATE, PAIRS = "million rows a second", "10^9 comparisons a second"
HANDSHAKES: tuple[WindowAlgorithm, ...] = ("handshake", "low-latency-handshake")
FIGURES = [
    Figure("ScaleJoin 5a", "ScaleJoin by window", "threads", PAIRS, scalejoin_5(compared)),
    Figure("ScaleJoin 5b", "ScaleJoin, rates", "threads", "rows a second", scalejoin_5(sustained)),
    Figure(
        "ScaleJoin 5c", "ScaleJoin, work of threads", "threads", "deviation, %",
        scalejoin_5(lambda name, count, _: spread(name, count)), is_log=False,
    ),
    Figure(
        "ScaleJoin 6", "ScaleJoin and handshake joins", "threads", PAIRS,
        by_algorithm("scalejoin", "scalejoin-gates", "splitjoin", "handshake", "auto"),
    ),
    Figure("ScaleJoin 7a", "the gate", "sources", RATE, merged_by_sources),
    Figure(
        "ScaleJoin 7b", "latency at a quarter of the peak", "threads", "median, ms",
        latency_by_threads("scalejoin", "auto"),
    ),
    *(
        Figure(
            f"ScaleJoin 8{which}", title, "second", "count", skew_over_time(which), is_log=False,
            at_once=True,
        )
        for which, title in (("a", "constant rates"), ("b", "sinus"), ("c", "peaks"))
    ),
    Figure("Handshake 17", "handshake joins", "nodes", RATE,
        rows_by_algorithm(*HANDSHAKES, where=w3.WHERE),
    ),
    Figure(
        "Handshake 19", "latency of the low-latency join", "nodes", "median, ms",
        latency_by_threads("low-latency-handshake"),
    ),
    Figure(
        "Handshake T2", "with an index", "nodes", RATE,
        rows_by_algorithm(*HANDSHAKES, where=w3.EQUAL),
    ),
    Figure(
        "IBWJ 8a", "one tree, one tree per thread, a shared tree", "rows of a window", RATE,
        band_points(
            lines("bplus-tree", "round-robin on all", "ibwj-bplus-tree on all", "ibwj on all"),
            "window", WINDOWS,
        ),
    ),
    Figure(
        "IBWJ 8b", "chains", "length", RATE,
        band_points(lines("b-chain", "ib-chain"), "chain_length", (2, 4, 6, 8)),
    ),
    Figure(
        "IBWJ 8c, 9a", "insertion depth", "depth", RATE,
        band_points(lines("pim-tree", "ibwj on all"), "insertion_depth", (1, 2, 3, 4)),
    ),
    Figure(
        "IBWJ 9b-9d", "merge ratio", "ratio", RATE,
        band_points(lines("im-tree", "pim-tree", "ibwj on all"), "merge_ratio", RATIOS),
    ),
    Figure(
        "IBWJ 10b, 12b", "by window", "rows of a window", RATE,
        band_points(
            lines(
                "bplus-tree", "im-tree", "pim-tree", "ibwj-bplus-tree on all", "ibwj on all",
                "ibwj-blocking on all", "buckets",
            ),
            "window", WINDOWS,
        ),
    ),
    Figure(
        "IBWJ 10c", "by matches", "matches a row", RATE,
        band_points(
            lines("bplus-tree", "im-tree", "pim-tree", "ibwj on all"), "matches", (0.1, 1, 16, 64)
        ),
    ),
    Figure(
        "IBWJ 11a", "task size", "rows of a task", RATE,
        band_points(lines("ibwj on all"), "task_rows", (1, 2, 4, 8, 16, 64)),
    ),
    Figure("IBWJ 12a", "threads", "threads", RATE, band_points(of_one_or_two, "threads")),
    Figure(
        "IBWJ 12c", "a stream with itself", "rows of a window", RATE,
        band_points(lines("pim-tree", "ibwj on all", of_one=True), "window", WINDOWS),
    ),
    Figure(
        "IBWJ 13", "values that drift", "rows of a window", RATE,
        band_points(
            lines("bplus-tree", "im-tree", "pim-tree", "ibwj on all", kind="drifting"), "window",
            WINDOWS,
        ),
    ),
    Figure(
        "OIJ 10", "uniform keys", "keys", RATE, interval_points(interval_rate, "keys", "uniform")
    ),
    Figure("OIJ 11", "skewed keys", "keys", RATE, interval_points(interval_rate, "keys")),
    Figure(
        "OIJ 12", "balance", "keys", "busiest over mean", interval_points(load_factor, "keys"),
    ),
    Figure("OIJ 13", "threads", "threads", RATE, interval_points(interval_rate, "threads")),
    Figure("OIJ 14", "skew of 50 keys", "skew", RATE, interval_points(interval_rate, "skew")),
    Figure(
        "OIJ 16", "latency at full rate", "keys", "median, ms",
        interval_points(interval_latency, "keys"),
    ),
    *(
        Figure(f"Aggregation {q}", "designs by inputs", "inputs", RATE, aggregate_by_inputs(q))
        for q in QUERIES
    ),
    Figure("Aggregation 34", "20 inputs by threads", "threads", RATE, aggregate_by_threads),
]  # fmt: skip


# Measuring and drawing


def rounds(figures: list[Figure], threads: list[int]) -> Iterator[tuple[Figure, Point]]:
    """Yield the first point of each figure, then the second, and so on, in repeated rounds."""
    while True:
        of_figures = [[(figure, point) for point in figure.points(threads)] for figure in figures]
        for column in itertools.zip_longest(*of_figures):
            yield from (one for one in column if one is not None)


def measured(figures: list[Figure], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the values of all points that fit into the budget."""
    found: dict[tuple[str, str, float], list[float]] = {}
    total = sum(len(list(figure.points(options.threads))) for figure in figures)
    end = time.monotonic() + options.budget_seconds
    begun: set[str] = set()
    for figure, point in itertools.islice(rounds(figures, options.threads), options.rounds * total):
        is_free = figure.at_once and figure.name in begun
        if time.monotonic() > end and not is_free:
            continue
        value = point.measure()
        begun.add(figure.name)
        found.setdefault((figure.name, point.series, point.x), []).append(float(value))
        print(f"{figure.name}: {point.series} at {point.x:g}: {value:.4g}", file=sys.stderr)
        gc.collect()
    return [
        {"figure": name, "series": series, "x": x, "values": values}
        for (name, series, x), values in found.items()
    ]


def markdown(points: list[dict[str, Any]]) -> str:
    """Return one table of medians per figure."""
    parts = []
    for figure in FIGURES:
        own = [point for point in points if point["figure"] == figure.name]
        if not own:
            continue
        xs = sorted({point["x"] for point in own})
        lines = [f"**{figure.name}**: {figure.title}, {figure.y}", ""]
        lines.append(f"| {figure.x} | " + " | ".join(f"{x:g}" for x in xs) + " |")
        lines.append("| --- |" + " --: |" * len(xs))
        for series in dict.fromkeys(point["series"] for point in own):
            by_x = {p["x"]: statistics.median(p["values"]) for p in own if p["series"] == series}
            cells = " | ".join(f"{by_x[x]:.3g}" if x in by_x else "-" for x in xs)
            lines.append(f"| {series} | {cells} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def draw(data: dict[str, Any], out: Path) -> None:
    """Draw one panel per figure."""
    import matplotlib as mpl  # noqa: PLC0415 - needed only to draw

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "figures"  # equal data gives equal files
    mpl.rcParams["svg.fonttype"] = "none"  # text, not outlines
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the choice of what draws

    points = data["points"]
    names = {point["figure"] for point in points}
    figures = [figure for figure in FIGURES if figure.name in names]
    columns = min(4, len(figures))
    rows = math.ceil(len(figures) / columns)
    size = (4.2 * columns, 3.2 * rows)
    drawing, grid = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    for axes in grid.flat[len(figures) :]:
        axes.set_axis_off()
    for figure, axes in zip(figures, grid.flat, strict=False):
        own = [point for point in points if point["figure"] == figure.name]
        for series in dict.fromkeys(point["series"] for point in own):
            line = sorted(
                (p["x"], statistics.median(p["values"])) for p in own if p["series"] == series
            )
            axes.plot(*zip(*line, strict=True), marker="o", markersize=3, label=series)
        if figure.is_log:
            axes.set_xscale("log", base=2)
            axes.set_yscale("log", base=2)
            ticks = sorted({point["x"] for point in own})
            axes.set_xticks(ticks, [f"{x:g}" for x in ticks], fontsize=6)
            axes.minorticks_off()
            axes.yaxis.set_major_formatter("{x:g}")
        axes.set_title(f"{figure.name}: {figure.title}", loc="left", fontsize=8)
        axes.set_xlabel(figure.x, fontsize=7)
        axes.set_ylabel(figure.y, fontsize=7)
        axes.legend(fontsize=6, frameon=False)
    drawing.suptitle(data["machine"], fontsize=8, color="gray")
    out.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(out, metadata={"Date": None})


def main() -> None:
    """Measure and write values, or draw them."""
    options = _options()
    if options.draw:
        draw(json.loads(options.draw.read_text()), options.svg)
        return
    figures = [figure for figure in FIGURES if options.only in figure.name]
    if options.list:
        for figure in figures:
            count = len(list(figure.points(options.threads)))
            print(f"{figure.name}: {figure.title}, {figure.y} by {figure.x}; {count} points")
        return
    points = measured(figures, options)
    data = {"machine": machine(), "threads": options.threads, "points": points}
    print(f"{data['machine']}\n\n{markdown(points)}")
    total = sum(len(list(figure.points(options.threads))) for figure in figures)
    print(f"{len(points)} of {total} points", file=sys.stderr)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(data, indent=1))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add(
        "--threads",
        default="",
        help="comma-separated; by default, powers of two up to the number of processors",
    )
    add("--budget-seconds", type=float, default=300, help="no measurement starts after this time")
    add("--rounds", type=int, default=3, help="maximum number of measurements per point")
    add("--only", default="", help="only figures whose names contain this text")
    add("--list", action="store_true", help="list the figures without measuring")
    add("--json", type=Path, help="file for all values")
    add("--draw", type=Path, help="draw a file that --json has written, without measuring")
    add("--svg", type=Path, default=Path("figures.svg"), help="output of --draw")
    given = parser.parse_args()
    processors = os.cpu_count() or 1
    powers = [1 << power for power in range(processors.bit_length())]
    given.threads = sorted({int(count) for count in given.threads.split(",") if count} or powers)
    return given


if __name__ == "__main__":
    main()
