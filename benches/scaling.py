"""Measures how the rates of W1 to W8 grow with the number of threads.

A process generates the rows of a workload and repeatedly runs its query with each number of threads
in turn. The first results have to be the same for every number. Results of `BandJoin`, `WindowJoin`
and batches are not compared, because they are not kept. Processes of all workloads take turns. Each
cell has the median of the processes' medians, and its ratio to the rate with the first number of
threads. `copying memory` copies arrays with the same number of threads, which is the limit for
workloads that move memory. The script prints Markdown and writes it, with every figure as JSON, to
benches/out/. With `--svg` it draws the curves, which needs matplotlib.

    python benches/scaling.py --threads 1,2,4,8,16 --svg benches/plots/scaling.svg
    python benches/scaling.py --threads 1,2 --only streams
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import tidegate
import w1s
import w2
import w2_streams
import w3
import w4
import w5
import w6
import w7
import w8
import workload
from machine import machine

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from tidegate.types import BandAlgorithm, Parallelism, WindowAlgorithm

    Ask: TypeAlias = Callable[[int], "Asked"]
    """Runs a query with a number of threads."""
    Prepare: TypeAlias = Callable[[], Ask]
    """Generates the rows of a query."""

HERE = Path(__file__).parent
KEYS = 1_000
PIECE = 10_000
FULL_WINDOW_S, FULL_WINDOW_ROWS = 300, 200_000


@dataclasses.dataclass(frozen=True)
class Asked:
    """The work and the time of a call."""

    amount: float
    seconds: float
    result: pa.Table | None = None


def _whole(amount: float, call: Callable[[int], pa.Table]) -> Ask:
    """Time a call that reads all its input and returns its entire result."""

    def ask(threads: int) -> Asked:
        start = time.perf_counter()
        result = call(threads)
        return Asked(amount, time.perf_counter() - start, result)

    return ask


# Workloads


def memory() -> Ask:
    """Copy arrays, counting bytes read and written."""
    source = np.ones(1 << 27)
    target = np.ones(1 << 27)

    def ask(threads: int) -> Asked:
        cuts = np.linspace(0, len(source), threads + 1).astype(int)
        with ThreadPoolExecutor(threads) as pool:
            start = time.perf_counter()
            list(
                pool.map(lambda a, b: np.copyto(target[a:b], source[a:b]), cuts[:-1], cuts[1:]),
            )
            return Asked(2 * source.nbytes, time.perf_counter() - start)

    return ask


def interval_join() -> Ask:
    """Measure W1 as one table."""
    inputs = workload.generate(workload.Case(5_000_000, KEYS, "uniform"))

    def call(threads: int) -> pa.Table:
        return tidegate.interval_join(inputs.left, inputs.right, **_w1(inputs), threads=threads)

    return _whole(10_000_000, call)


def _w1(inputs: workload.Inputs) -> dict[str, Any]:
    interval = {"lower": -inputs.upper, "upper": inputs.upper}
    return {"on": ("t", "t2"), "by": {"k": "k2"}, **interval}


def interval_join_batches() -> Ask:
    """Measure W1 as batches, each of which is dropped."""
    inputs = workload.generate(workload.Case(5_000_000, KEYS, "uniform"))

    def call(threads: int) -> pa.Table:
        with tidegate.interval_join_batches(
            inputs.left, inputs.right, **_w1(inputs), threads=threads
        ) as batches:
            return pa.table({"rows": [sum(batch.num_rows for batch in batches)]})

    return _whole(10_000_000, call)


def interval_join_streams(mode: Parallelism) -> Prepare:
    """Measure W1s by mode of parallelism."""

    def prepare() -> Ask:
        given = w1s.streams(1_000_000, KEYS, "uniform", late=False)
        sides = [w1s.pieces(side, PIECE) for side in (given.inputs.left, given.inputs.right)]

        checked: set[int] = set()

        def ask(threads: int) -> Asked:
            join = w1s.join(given, mode, threads)
            batches = w1s.feed(join, *sides)
            if threads not in checked:
                checked.add(threads)
                return _whole(0, lambda _: pa.Table.from_batches(batches, join.schema))(threads)
            start = time.perf_counter()
            for batch in batches:
                del batch
            return Asked(2_000_000, time.perf_counter() - start)

        return ask

    return prepare


def band_join() -> Ask:
    """Measure W2 on tables."""
    left, right = w2.generate(w2.Job("tidegate", "band", 1 << 20, 1, 1))

    def call(threads: int) -> pa.Table:
        return w2.tidegate(left, right, w2.Job("tidegate", "band", 1 << 20, threads, 1))()

    return _whole(left.num_rows + right.num_rows, call)


def band_join_streams(algorithm: BandAlgorithm) -> Prepare:
    """Measure W2 with full windows of 2^20 rows, by algorithm."""

    def prepare() -> Ask:
        def ask(threads: int) -> Asked:
            load = w2_streams.Load(
                w2_streams.Case(algorithm, threads, 1 << 20, "uniform", 2), 1 << 14
            )
            load.run(load.pieces(1 << 20))
            pieces = load.pieces(1 << 19)
            seconds, _, _ = load.run(pieces)
            load.join.close()
            return Asked(2 * len(pieces) * load.piece, seconds)

        return ask

    return prepare


def window_join() -> Ask:
    """Measure W3 on tables, comparing every pair in a window."""
    rows = 400_000
    random = np.random.Generator(np.random.PCG64(workload.SEED))
    left, right = (w3.table(random, rows, 0, 1000, names) for names in ("xy", "ab"))
    window = rows // 4 * 1000

    def call(threads: int) -> pa.Table:
        return tidegate.window_join(
            left, right, on="ts", window=window, where=w3.WHERE, algorithm="scalejoin",
            threads=threads,
        )  # fmt: skip

    return _whole(w3.compared(rows, window, 1000), call)


def window_join_streams(algorithm: WindowAlgorithm) -> Prepare:
    """Measure W3 with full windows, by algorithm."""

    def prepare() -> Ask:
        options = argparse.Namespace(seconds=1.0, piece=4096)

        def ask(threads: int) -> Asked:
            rate = FULL_WINDOW_ROWS / FULL_WINDOW_S
            load = w3.Load(algorithm, threads, FULL_WINDOW_S, rate)
            speed, _, _ = w3.timed(load, options)
            return Asked(speed, 1.0)

        return ask

    return prepare


def aggregate(form: str, keys: int) -> Prepare:
    """Measure W4 by design."""

    def prepare() -> Ask:
        rows = 10_000_000
        with tempfile.TemporaryDirectory() as folder:
            w4.generate(rows, keys, Path(folder))
            streams = [w4.read(Path(folder) / str(stream)) for stream in range(w4.STREAMS)]
        calls = {}

        def call(threads: int) -> pa.Table:
            if threads not in calls:
                calls[threads] = w4.FORMS[form](streams, pa.table({}), threads, 10)
            return calls[threads]()

        return _whole(rows, call)

    return prepare


def merge(sources: int) -> Prepare:
    """Measure W5."""

    def prepare() -> Ask:
        rows = 10_000_000
        with tempfile.TemporaryDirectory() as folder:
            tables = [w4.read(Path(path)) for path in w5.generate(rows, sources, Path(folder))]
        return _whole(rows, lambda threads: tidegate.merge(tables, on="ts", threads=threads))

    return prepare


def asof_join(order: str) -> Prepare:
    """Measure W6 without a tolerance."""

    def prepare() -> Ask:
        left, right = w6.generate(w6.Case(2_000_000, KEYS, order, None))

        def call(threads: int) -> pa.Table:
            return tidegate.asof_join(left, right, on=("t", "t2"), by="k", threads=threads)

        return _whole(4_000_000, call)

    return prepare


def partners() -> Ask:
    """Measure W7: count, sum, mean and max of 100 partners per row."""
    rows = 2_000_000
    left, right = workload.tables(workload.Case(rows, KEYS, "uniform"))

    def call(threads: int) -> pa.Table:
        return w7.tidegate(left, right, w7.Job("tidegate", rows, KEYS, 100, threads, 1))()

    return _whole(2 * rows, call)


def overlap_join(form: str) -> Prepare:
    """Measure W8 with 4M and 1M intervals."""

    def prepare() -> Ask:
        def job(threads: int) -> w8.Job:
            return w8.Job(form, 4_000_000, 24, "pareto", "shuffled", "both", threads, 1)

        left, right = w8.tables(job(1))
        return _whole(5_000_000, lambda threads: w8.FORMS[form](left, right, job(threads))())

    return prepare


WORKLOADS: dict[str, tuple[str, Prepare]] = {
    "copying memory": ("GB", memory),
    "W1 interval_join, 5M rows per side": ("M rows", interval_join),
    "W1 interval_join_batches": ("M rows", interval_join_batches),
    **{
        f"W1 streams, IntervalJoin, {mode}": ("M rows", interval_join_streams(mode))
        for mode in w1s.MODES
    },
    "W2 band_join, 3M rows per side": ("M rows", band_join),
    **{
        f"W2 streams, BandJoin, {name}": ("M rows", band_join_streams(name))
        for name in ("buckets", "ibwj")
    },
    "W3 window_join, every pair": ("G pairs", window_join),
    **{
        f"W3 streams, WindowJoin, {name}": ("G pairs", window_join_streams(name))
        for name in ("auto", "scalejoin", "low-latency-handshake")
    },
    "W4 aggregate, 243 keys": ("M rows", aggregate("tidegate", 243)),
    "W4 aggregate, 40,000 keys": ("M rows", aggregate("tidegate", 40_000)),
    "W4 streams, Aggregate, 243 keys": ("M rows", aggregate("tidegate streaming", 243)),
    "W4 streams, Aggregate, wiml": ("M rows", aggregate("tidegate wiml", 243)),
    "W5 merge, 20 tables": ("M rows", merge(20)),
    "W6 asof_join, sorted": ("M rows", asof_join("sorted")),
    "W6 asof_join, shuffled": ("M rows", asof_join("shuffled")),
    "W7 aggregates of 100 partners": ("M rows", partners),
    "W8 overlap_join, shuffled": ("M rows", overlap_join("tidegate pairs")),
    "W8 overlap_join, counts": ("M rows", overlap_join("tidegate counts")),
}
SCALES = {"GB": 1e9, "M rows": 1e6, "G pairs": 1e9}


# Processes


def measured(name: str, threads: list[int], repeat: int) -> dict[int, float]:
    """Run the query with each number of threads in turn; return median rates after first calls."""
    unit, prepare = WORKLOADS[name]
    ask = prepare()
    rates: dict[int, list[float]] = {count: [] for count in threads}
    expected: pa.Table | None = None
    for turn in range(1 + repeat):
        for count in threads if turn % 2 == 0 else threads[::-1]:
            asked = ask(count)
            if turn > 0:
                rates[count].append(asked.amount / asked.seconds / SCALES[unit])
            elif asked.result is not None:
                expected = asked.result if expected is None else expected
                if not asked.result.equals(expected):
                    sys.exit(f"{name}: {count} threads give other rows than {threads[0]}")
        # Free its memory, so that timed calls cannot reuse it.
        expected = None
    return {count: statistics.median(found) for count, found in rates.items()}


def process(name: str, options: argparse.Namespace) -> dict[int, float]:
    """Measure in a separate process."""
    command = [sys.executable, __file__, "--process", name, "--repeat", str(options.repeat)]
    command += ["--threads", ",".join(map(str, options.threads))]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)  # noqa: S603 - this script
    return {int(count): rate for count, rate in json.loads(done.stdout).items()}


# Output

Rates = dict[str, dict[int, list[float]]]


def markdown(rates: Rates, threads: list[int]) -> str:
    """Return the medians by number of threads, with ranges and multiples of the first."""
    lines = [
        "| workload | per second | " + " | ".join(map(_threads, threads)) + " |",
        "| --- | --- |" + " --: |" * len(threads),
    ]
    for name, by_threads in rates.items():
        first = statistics.median(by_threads[threads[0]])
        cells = []
        for count in threads:
            found = by_threads[count]
            median = statistics.median(found)
            times = "" if count == threads[0] else f", {median / first:.1f}x"
            cells.append(f"{median:.1f} ({min(found):.1f} to {max(found):.1f}){times}")
        lines.append(f"| {name} | {WORKLOADS[name][0]} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"


def draw(rates: Rates, threads: list[int], on: str, out: Path) -> None:
    """Draw one panel per group of workloads: speedup by threads."""
    import matplotlib as mpl  # noqa: PLC0415 - needed only to draw

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "scaling"  # equal data gives equal files
    mpl.rcParams["svg.fonttype"] = "none"  # text, not outlines
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the choice of what draws

    groups = {
        "joins of tables": [name for name in rates if "streams" not in name],
        "joins and aggregates of streams": [name for name in rates if "streams" in name],
    }
    figure, all_axes = plt.subplots(1, 2, figsize=(11, 5.5), layout="constrained", sharey=True)
    for axes, (title, names) in zip(all_axes, groups.items(), strict=True):
        colors = mpl.colormaps["tab20"](range(0, 20, 2))
        axes.set_prop_cycle(color=[*colors, "black", "darkkhaki", "gold", "teal"])
        axes.plot(threads, [count / threads[0] for count in threads], color="gray", linestyle=":")
        for name in names:
            medians = [statistics.median(rates[name][count]) for count in threads]
            axes.plot(
                threads,
                [median / medians[0] for median in medians],
                marker="o",
                markersize=3,
                linestyle="--" if name == "copying memory" else "-",
                label=name.replace(" streams,", ""),
            )
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set_xticks(threads, [str(count) for count in threads])
        axes.set_yticks(threads, [f"{count}x" for count in threads])
        axes.set_xlabel("threads")
        axes.set_title(title, loc="left", fontsize=10)
        axes.legend(fontsize=7, frameon=False)
    all_axes[0].set_ylabel("times the rate of one thread")
    figure.suptitle(on, fontsize=8, color="gray")
    out.parent.mkdir(exist_ok=True)
    figure.savefig(out, metadata={"Date": None})


def main() -> None:
    """Measure, print, write and draw."""
    options = _options()
    if options.process:
        print(json.dumps(measured(options.process, options.threads, options.repeat)))
        return
    names = [name for name in WORKLOADS if options.only in name]
    rates: Rates = {name: {count: [] for count in options.threads} for name in names}
    end = time.monotonic() + options.seconds
    for turn in range(options.rounds):
        for name in names:
            if time.monotonic() > end:
                break
            for count, rate in process(name, options).items():
                rates[name][count].append(rate)
            last = {count: round(found[-1], 1) for count, found in rates[name].items()}
            print(f"{turn + 1} {name}: {last}", file=sys.stderr, flush=True)
    rates = {name: found for name, found in rates.items() if found[options.threads[0]]}
    on = machine()
    text = f"{on}\n\n{markdown(rates, options.threads)}"
    print(text)
    folder = HERE / "out"
    folder.mkdir(exist_ok=True)
    (folder / "scaling.md").write_text(text)
    (folder / "scaling.json").write_text(json.dumps({"machine": on, "rates": rates}, indent=1))
    if options.svg:
        draw(rates, options.threads, on, options.svg)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add(
        "--threads",
        default="",
        help="comma-separated; by default, powers of two up to the processors",
    )
    add("--only", default="", help="only workloads whose names contain this text")
    add("--rounds", type=int, default=3, help="processes per workload, which take turns")
    add("--repeat", type=int, default=3, help="timed calls per process and number of threads")
    add("--seconds", type=float, default=float("inf"), help="no process starts after this time")
    add("--svg", type=Path, help="output file for the curves")
    add("--process", help=argparse.SUPPRESS)
    given = parser.parse_args()
    processors = os.cpu_count() or 1
    powers = [1 << power for power in range(processors.bit_length())]
    given.threads = [int(count) for count in given.threads.split(",") if count] or powers
    return given


if __name__ == "__main__":
    main()
