"""Measures all workloads on Spark in one session: tidegate, expert forms and Spark's plain form.

The rows of tidegate and of the expert forms are compared first. Then all forms run in turns, in
alternating order. First turns are not counted, and medians of the others are reported. Spark's
plain form runs once and is stopped at a time limit. For each case, the script prints the CPU time
of Spark, its Python workers and this process, and in parentheses the wall-clock time. It also
prints the ratios of the fastest expert form and of the plain form, and whether they meet the
target. Every turn of every form is written to a JSON file. Linux only.

    python benches/spark_proof.py --json proof.json
    python benches/spark_proof.py --only W1 W7 --rows 2500000 --turns 5 --json w1.json
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import statistics
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import machine
import spark_costs
import tidegate.spark
import w1_spark
import w1s_spark
import w2_spark
import w4_spark
import w6_spark
import w7_spark
import w8_spark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from spark_costs import Cost

    Form = Callable[[], DataFrame]

WORKLOADS = ("W1", "W2", "W4", "W6", "W7", "W8", "streams")

# The target ratios of the fastest expert form's CPU time to tidegate's: for any case, and for
# aggregates of partners.
NEVER_BEHIND = 1 / 1.05
PARTNERS = 5.0

# The number of shuffle partitions for tables.
PARTITIONS = 8

# The names of tidegate's forms.
OWN = "tidegate"


@dataclass(frozen=True)
class Case:
    """A query with tidegate's form, the expert forms and, if there is one, Spark's plain form.

    `aim` is the target ratio of the fastest expert form's time to tidegate's.
    """

    name: str
    forms: dict[str, Form]
    plain: Form | None = None
    aim: float = NEVER_BEHIND
    columns: tuple[str, ...] = field(default=())


def sides(session: SparkSession, folder: Path, names: tuple[str, str]) -> list[DataFrame]:
    """Return both tables of a case."""
    return [session.read.parquet(str(folder / f"{name}.parquet")) for name in names]


def w1(session: SparkSession, folder: Path, rows: int) -> Iterator[Case]:
    """Return interval joins by key, with uniform keys and with half of the rows on one key."""
    for hot, keys in itertools.product((False, True), (10, 1_000, 100_000)):
        case = w1_spark.make(rows, keys, skewed=False, hot=hot, folder=folder)
        left, right = sides(session, folder, ("left", "right"))
        yield Case(
            f"W1 {case.name}",
            {
                OWN: functools.partial(w1_spark.tide, left, right, case),
                "bins, hash": functools.partial(w1_spark.bins, left, right, case, "shuffle_hash"),
                "bins, merge": functools.partial(w1_spark.bins, left, right, case, "merge"),
            },
            functools.partial(w1_spark.plain, left, right, case),
        )


def w2(session: SparkSession, folder: Path, rows: int) -> Iterator[Case]:
    """Return band joins without a key."""
    for heavy in (False, True):
        case = w2_spark.Case(rows, heavy)
        case.write(folder)
        left, right = sides(session, folder, ("left", "right"))
        yield Case(
            f"W2 {case.name}",
            {
                OWN: functools.partial(w2_spark.tide, left, right, case, "auto"),
                "buckets": functools.partial(w2_spark.buckets, left, right, case),
            },
            functools.partial(w2_spark.plain, left, right, case),
        )


def w4(session: SparkSession, folder: Path, rows: int) -> Iterator[Case]:
    """Return windowed aggregations by key."""
    w4_spark.define()
    for keys in (243, 40_000):
        w4_spark.generate(rows, keys, folder / "rows.parquet")
        [table] = sides(session, folder, ("rows",))  # type: ignore[arg-type]
        for functions in w4_spark.FUNCTIONS:
            yield Case(
                f"W4 {rows:,} rows, {keys:,} keys: {functions}",
                {
                    OWN: functools.partial(w4_spark.tide, table, functions),
                    "window()": functools.partial(w4_spark.spark_window, table, functions),
                },
            )


def w6(session: SparkSession, folder: Path, rows: int) -> Iterator[Case]:
    """Return as-of joins."""
    session.conf.set(w6_spark.NATIVE, "true")
    for hot in (False, True):
        case = w6_spark.Case(rows, 1_000, hot)
        case.write(folder)
        left, right = sides(session, folder, ("left", "right"))
        yield Case(
            f"W6 {case.name}",
            {
                OWN: functools.partial(w6_spark.tide, left, right, "auto"),
                "last in a window": functools.partial(w6_spark.window, left, right),
            },
            functools.partial(w6_spark.native, left, right),
            columns=w6_spark.RESULT,
        )


def w7(session: SparkSession, folder: Path, rows: int) -> Iterator[Case]:
    """Return aggregates of partners."""
    case = w7_spark.Case(rows, 1_000, 100)
    case.write(folder)
    left, right = sides(session, folder, ("left", "right"))
    yield Case(
        f"W7 {case.name}",
        {
            OWN: functools.partial(w7_spark.tide, left, right, case, "auto"),
            "range window": functools.partial(w7_spark.ranged, left, right, case),
            "bins, then group": functools.partial(w7_spark.bins, left, right, case),
        },
        functools.partial(w7_spark.pairs, left, right, case),
        PARTNERS,
        w7_spark.RESULT,
    )


def w8(session: SparkSession, folder: Path, rows: int) -> Iterator[Case]:
    """Return overlap joins of intervals."""
    for question in ("points", "intervals", "counts"):
        case = w8_spark.Case(question, rows, 24, 100, 2)
        case.write(folder)
        left, right = sides(session, folder, (w8_spark.LEFT[0], w8_spark.RIGHT[0]))
        widths = {
            f"bins, {width} mean lengths": functools.partial(
                w8_spark.bins, left, right, case, width
            )
            for width in (2, 4, 8)
        }
        yield Case(
            f"W8 {case.name}",
            {OWN: functools.partial(w8_spark.tide, left, right, case), **widths},
            functools.partial(w8_spark.plain, left, right, case),
        )


TABLES = {"W1": w1, "W2": w2, "W4": w4, "W6": w6, "W7": w7, "W8": w8}


def check(case: Case) -> int:
    """Return the number of result rows; raise an error if two forms disagree."""
    prints = {
        name: spark_costs.fingerprint(form().select(*case.columns) if case.columns else form())
        for name, form in case.forms.items()
    }
    if len(set(prints.values())) > 1:
        message = f"{case.name}: the results differ: {prints}"
        raise RuntimeError(message)
    return prints[OWN][0]


def measured(case: Case, session: SparkSession, given: argparse.Namespace) -> dict[str, object]:
    """Measure all turns of a case, and return them with their medians."""
    rows = check(case)
    spark_costs.turns(case.forms, given.warm)
    found = spark_costs.turns(case.forms, given.turns)
    plain = None
    if case.plain is not None and given.plain_seconds:
        plain = spark_costs.at_most(given.plain_seconds, case.plain, session)
    own = median(found[OWN])
    expert = min(median(costs).cpu for name, costs in found.items() if name != OWN)
    ratio = expert / own.cpu
    return {
        "case": case.name,
        "rows": rows,
        "forms": {name: [cost._asdict() for cost in costs] for name, costs in found.items()},
        "plain": plain and plain._asdict(),
        "expert / tidegate": ratio,
        "aim": case.aim,
        "met": ratio >= case.aim,
        "plain / tidegate": plain and plain.cpu / own.cpu,
    }


def median(costs: list[Cost]) -> Cost:
    """Return the medians of CPU time and wall-clock time."""
    processors, clock = ([getattr(cost, of) for cost in costs] for of in ("cpu", "wall"))
    return spark_costs.Cost(statistics.median(processors), statistics.median(clock))


def line(found: dict[str, object]) -> str:
    """Return a case as a row of the table."""
    forms: dict[str, list[dict[str, float]]] = found["forms"]  # type: ignore[assignment]
    costs = {
        name: median([spark_costs.Cost(**turn) for turn in turns])  # type: ignore[arg-type]
        for name, turns in forms.items()
    }
    others = ", ".join(f"{name}: {cost}" for name, cost in costs.items() if name != OWN)
    plain, times = "-", "-"
    if found["plain"] is not None:
        cost = spark_costs.Cost(**found["plain"])  # type: ignore[arg-type]
        plain, times = str(cost), f"{'' if cost.whole else '> '}{found['plain / tidegate']:.1f}"
    verdict = f"{found['aim']:.2f}, {'met' if found['met'] else 'missed'}"
    cells = [found["case"], costs[OWN], others, plain, f"{found['expert / tidegate']:.2f}"]
    return f"| {' | '.join(map(str, [*cells, verdict, times]))} |"


def streams(session: SparkSession, rows: int, given: argparse.Namespace) -> Iterator[list[str]]:
    """Measure stateful joins with `rows` rows per micro-batch, one row per turn."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        batches = given.batches
        case = w1_spark.make(rows * batches, 1_000, skewed=False, hot=False, folder=folder)
        end = w1s_spark.cut(folder, batches)
        systems = {label: w1s_spark.SYSTEMS[label] for label in given.stream_systems}
        prints = {
            label: w1s_spark.pairs(session, system, case, folder, end)
            for label, system in systems.items()
        }
        if len({tuple(found) for found in prints.values()}) > 1:
            message = f"the results of streams differ: {prints}"
            raise RuntimeError(message)
        for turn in range(given.stream_turns):
            for label in [*systems][:: -1 if turn % 2 else 1]:
                cells = w1s_spark.timed(session, systems[label], case, folder)
                yield [f"{rows:,}", label, str(turn), *cells]


HEADER = """\
| case | tidegate, s (clock) | expert's forms | plain | expert / tidegate | aim | plain / tidegate |
| --- | --: | --- | --: | --: | --- | --: |"""
OF_STREAMS = """\
| rows per side and batch | system | turn | batch, s | CPU per batch, s | all, s | state, MB |
| --: | --- | --: | --: | --: | --: | --: |"""


def main() -> None:
    """Run the workloads on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--only", nargs="+", default=list(WORKLOADS), choices=WORKLOADS)
    add("--rows", type=int, nargs="+", default=[1_000_000], help="rows per side")
    add("--stream-rows", type=int, nargs="+", default=[20_000, 200_000])
    add("--stream-systems", nargs="+", default=list(w1s_spark.SYSTEMS), choices=w1s_spark.SYSTEMS)
    add(
        "--batches", type=int, default=8, help="batches per stream; the first three are not counted"
    )
    add("--warm", type=int, default=2, help="turns that are not counted")
    add("--turns", type=int, default=5)
    add("--stream-turns", type=int, default=3)
    add("--plain-seconds", type=float, default=30, help="time limit of the plain form; 0 skips it")
    add("--threads", type=int, default=2)
    add("--memory", default="8g")
    add("--json", type=Path, help="file for all turns")
    given = parser.parse_args()
    session = spark_costs.local_session(
        given.threads, given.memory, PARTITIONS, {"spark.ui.showConsoleProgress": "false"}
    )
    settings = tidegate.spark.configure(session)
    record: dict[str, object] = {"machine": machine.machine(), "settings": settings}
    record |= {"turns": given.turns, "warm": given.warm, "cases": [], "streams": []}

    def kept(kind: str, found: object) -> None:
        """Write after each case, so that a stopped run keeps its figures."""
        record[kind].append(found)  # type: ignore[attr-defined]
        if given.json is not None:
            given.json.write_text(json.dumps(record, indent=1))

    chosen = [name for name in TABLES if name in given.only]
    if chosen:
        print(HEADER, flush=True)
    for rows in given.rows:
        for workload in chosen:
            with tempfile.TemporaryDirectory() as folder:
                for case in TABLES[workload](session, Path(folder), rows):
                    found = measured(case, session, given)
                    print(line(found), flush=True)
                    kept("cases", found)
    if "streams" in given.only:
        # Each partition is a task in every micro-batch.
        session.conf.set("spark.sql.shuffle.partitions", given.threads)
        print(f"\n{OF_STREAMS}", flush=True)
        for rows in given.stream_rows:
            for cells in streams(session, rows, given):
                print(f"| {' | '.join(cells)} |", flush=True)
                kept("streams", cells)


if __name__ == "__main__":
    main()
