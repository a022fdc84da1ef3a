"""Measures the claims of BENCHMARKS.md again: `make claims`.

Each claim is a row of the table in BENCHMARKS.md. Its first cell is the claim's name, and its
second cell is the range of tidegate's lead. In each round, tidegate and its rivals take turns, each
in a fresh process whose first call is cold and whose other calls are warm. The lead is the time of
the fastest rival divided by tidegate's time. The script prints the medians and ranges of the leads,
and fails if a median over warm calls is outside the claimed range.

On a virtual machine, the times of first calls depend on whether the host has already supplied
memory. With `--memory at-hand`, a program touches several gigabytes before each process and exits.
With `--memory anew`, the machine is idle before each process, so that the host can reclaim unused
memory.

    python benches/claims.py --rounds 5
    python benches/claims.py --only interval --memory at-hand
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

import child
import w1
import w2
import w4
import w5
import w6
import w7
from machine import machine
from merging import Job as Merging
from report import Result
from workload import Case, generate, reference

if TYPE_CHECKING:
    from collections.abc import Callable

    from measure import Measurement as Measured
    from merging import Measurement as Merged

BENCHMARKS = Path(__file__).parent.parent / "BENCHMARKS.md"
TIMEOUT_S = 300.0
OURS = "tidegate"
TOUCHED_GB = 6
REST_S = 10.0


class Times(NamedTuple):
    """The seconds of the first call in a process, and of a later call."""

    cold: float
    warm: float


Forms = dict[str, "Callable[[], Times]"]
"""The times of one process per form, with tidegate first."""


@dataclasses.dataclass(frozen=True)
class Claim:
    """A row in the table of claims. `prepare` writes its inputs to a folder."""

    name: str
    prepare: Callable[[Path, int], Forms]


def _found(script: str, job: object) -> Times:
    """Return the measurements of a script in this folder that runs a job."""
    found = child.run(str(Path(__file__).with_name(script)), job, TIMEOUT_S)
    if found is None:
        sys.exit(f"{job} took more than {TIMEOUT_S:.0f} s")
    return Times(found.first, found.medians[0])


def _measured(found: Measured | Merged | None) -> Times:
    if found is None:
        sys.exit("a system is not installed: make claims installs all of them")
    return Times(found.first_s, statistics.median(found.seconds))


def interval_join(rows: int, keys: int, skew: str) -> Callable[[Path, int], Forms]:
    """Measure W1 as one table, against buckets."""

    def prepare(folder: Path, threads: int) -> Forms:
        case = Case(rows, keys, skew)
        inputs = generate(case)
        options = w1.Options([], [threads], [], 3, 20.0, TIMEOUT_S, {}, {}, "claims")
        job = w1.write_job(inputs, reference(inputs), options, folder)
        job = dataclasses.replace(job, threads=threads)

        def run(system: str, form: str) -> Times:
            result = w1.run_form(Result(case, system, form, threads), job, options, folder)
            return _measured(result.measurement)

        return {
            OURS: partial(run, "tidegate", "table"),
            "polars": partial(run, "polars", "buckets"),
            "duckdb": partial(run, "duckdb", "buckets"),
        }

    return prepare


def aggregates(keys: int, rivals: list[str]) -> Callable[[Path, int], Forms]:
    """Measure W7 with 100 partners per row."""

    def prepare(_folder: Path, threads: int) -> Forms:
        def run(form: str) -> Times:
            return _found("w7.py", w7.Job(form, 1_000_000, keys, 100, threads, 3))

        return {form: partial(run, form) for form in [OURS, *rivals]}

    return prepare


def asof_join(keys: int, order: str) -> Callable[[Path, int], Forms]:
    """Measure W6 without a tolerance."""

    def prepare(folder: Path, threads: int) -> Forms:
        tables = w6.generate(w6.Case(1_000_000, keys, order, None))
        left, right = (_written(folder / str(n), table) for n, table in enumerate(tables))

        def run(system: str) -> Times:
            return _found("w6.py", w6.Job(system, left, right, order, None, threads, 5))

        return {form: partial(run, form) for form in [OURS, "polars", "pandas"]}

    return prepare


def _written(path: Path, table: pa.Table) -> str:
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table)
    return str(path)


def band_join(_folder: Path, threads: int) -> Forms:
    """Measure W2 with three million rows per side."""
    forms = [OURS, "polars buckets", "duckdb buckets"]
    jobs = {form: w2.Job(form, "band", 1 << 20, threads, 3) for form in forms}
    return {form: partial(_found, "w2.py", job) for form, job in jobs.items()}


def windows(folder: Path, threads: int) -> Forms:
    """Measure W4 with 243 keys."""
    rows = 10_000_000
    w4.generate(rows, 243, folder)
    forms = [OURS, "duckdb panes", "polars panes"]
    jobs = {form: w4.Job(form, threads, str(folder), rows, 3, 10) for form in forms}
    return {form: partial(_found, "w4.py", job) for form, job in jobs.items()}


def merge(folder: Path, threads: int) -> Forms:
    """Measure W5 with 20 sources."""
    tables = w5.generate(10_000_000, 20, folder)

    def run(system: str) -> Times:
        result = w5.run_system(Merging(system, tables, 5), 20, threads, folder)
        return _measured(result.measurement)

    systems = {OURS: w5.OURS, "polars": "polars sort"}
    return {form: partial(run, system) for form, system in systems.items()}


def on_spark(case: str, rows: int) -> Callable[[Path, int], Forms]:
    """Measure files on Spark in one session per round; the times are CPU seconds."""

    def prepare(folder: Path, threads: int) -> Forms:
        found: dict[str, Times] = {}

        def session() -> None:
            script, result = Path(__file__).with_name("files_spark.py"), folder / "spark.json"
            command = [sys.executable, str(script), "--cases", case, "--rows", str(rows)]
            command += ["--sink", "sum", "--threads", str(threads), "--json", str(result)]
            subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - as above
            [costs] = json.loads(result.read_text("utf-8")).values()
            for way, seconds in costs.items():
                found[way] = Times(seconds[0], statistics.median(seconds[2:]))

        def run(form: str) -> Times:
            if form == OURS:
                session()
                return found["tasks"]
            return min((one for way, one in found.items() if way != "tasks"), key=lambda t: t.warm)

        return {form: partial(run, form) for form in (OURS, "Spark")}

    return prepare


CLAIMS = [
    Claim(
        "interval join, 10M rows per side, 1,000 keys", interval_join(10_000_000, 1_000, "uniform")
    ),
    Claim("interval join, 1,000 keys", interval_join(1_000_000, 1_000, "uniform")),
    Claim("interval join, 100,000 keys", interval_join(1_000_000, 100_000, "uniform")),
    Claim("as-of join, sorted, 1,000 keys", asof_join(1_000, "sorted")),
    Claim("as-of join, shuffled, 1,000 keys", asof_join(1_000, "shuffled")),
    Claim("count, sum, mean, max of partners", aggregates(1_000, ["polars rolling"])),
    Claim("band join, 3M rows per side", band_join),
    Claim("sliding windows, 243 keys, 10M rows", windows),
    Claim("merge of 20 sorted tables, 10M rows", merge),
    Claim("on Spark, files of a million rows, 1,000 keys", on_spark("w1", 1_000_000)),
    Claim("on Spark, files of a million rows, half on one key", on_spark("hot", 1_000_000)),
    Claim("on Spark, files of 2.5M rows, 1,000 keys", on_spark("w1", 2_500_000)),
    Claim("on Spark, files of a million rows, 100 partners", on_spark("w7", 1_000_000)),
]


# Memory before a process starts


def _touch() -> None:
    touch = f"import numpy; numpy.ones({TOUCHED_GB} << 27)"
    subprocess.run([sys.executable, "-c", touch], check=True)  # noqa: S603 - a script of ours


MEMORY: dict[str, Callable[[], None]] = {
    "as-it-is": lambda: None,
    "at-hand": _touch,
    "anew": partial(time.sleep, REST_S),
}


def claimed() -> dict[str, tuple[float, float]]:
    """Return the claimed range of each row in the table."""
    line = re.compile(r"^\| ([^|]+) \| ([\d.]+) to ([\d.]+)x \|", re.MULTILINE)
    ranges = {
        name: (float(low), float(high)) for name, low, high in line.findall(BENCHMARKS.read_text())
    }
    missing = [claim.name for claim in CLAIMS if claim.name not in ranges]
    if missing:
        sys.exit(f"BENCHMARKS.md has no line with a range for {', '.join(map(repr, missing))}")
    return ranges


def measured(
    claim: Claim, threads: int, rounds: int, prepare_memory: Callable[[], None]
) -> tuple[list[float], list[float]]:
    """Return the leads of each round over the fastest rival, for first and for later calls."""
    cold, warm = [], []
    with tempfile.TemporaryDirectory() as folder:
        forms = claim.prepare(Path(folder), threads)
        for _ in range(rounds):
            times = {}
            for form, run in forms.items():
                prepare_memory()
                times[form] = run()
            ours = times.pop(OURS)
            cold.append(min(one.cold for one in times.values()) / ours.cold)
            warm.append(min(one.warm for one in times.values()) / ours.warm)
    return cold, warm


def _spread(leads: list[float]) -> str:
    return f"{statistics.median(leads):.1f}x ({min(leads):.1f} to {max(leads):.1f})"


def main() -> None:
    """Measure the claims, and compare each with its range."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="processes per form")
    parser.add_argument(
        "--threads", type=int, default=2, help="number of threads; the claims are for two"
    )
    parser.add_argument("--only", default="", help="only claims whose names contain this text")
    parser.add_argument(
        "--memory",
        choices=MEMORY,
        default="as-it-is",
        help="state of the memory before each process",
    )
    given = parser.parse_args()
    ranges = claimed()
    print(f"{machine()}; {given.threads} threads, {given.rounds} rounds, memory {given.memory}\n")
    print("| claim | claimed | warm | first call | |\n| --- | --: | --: | --: | --- |", flush=True)
    outside = 0
    for claim in CLAIMS:
        if given.only not in claim.name:
            continue
        low, high = ranges[claim.name]
        cold, warm = measured(claim, given.threads, given.rounds, MEMORY[given.memory])
        # Rounded as in the table.
        holds = low <= round(statistics.median(warm), 1) <= high
        outside += not holds
        verdict = "" if holds else "outside"
        cells = f"{low} to {high}x | {_spread(warm)} | {_spread(cold)} | {verdict}"
        print(f"| {claim.name} | {cells} |", flush=True)
    if outside:
        sys.exit(f"{outside} claims of BENCHMARKS.md are outside their range on this machine")


if __name__ == "__main__":
    main()
