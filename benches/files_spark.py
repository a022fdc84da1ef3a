"""Measures tasks on Spark that read Parquet files themselves, and what Spark does with the rows.

The files are in time order. The systems take turns in one session, and row counts and checksums are
compared before timing. A figure is the CPU time of Spark, its Python workers and this process:
the median, with its range, and the median wall-clock time in seconds. The cases are those of
`w1_spark.py`, `w6_spark.py`, `w7_spark.py` and `w8_spark.py`, which explain the queries:

- `w1`: pairs with 4 matches per left row, compared with hand-written bins that Spark joins by hash;
  `hot`: the same with half of the rows on one key.
- `w6`: as-of joins with a tolerance that nearly all left rows meet, compared with Spark's own.
- `w7`: aggregates of 100 partners, compared with bins that are then grouped, and with a window with
  `rangeBetween` over the union of both sides.
- `w8`: pairs of overlapping rows, compared with hand-written bins of several widths.

With `--sink all`, a sink reads all columns of all rows and keeps none. With `--sink sum`, the rows
are counted and one column is added up, so each system returns only that column.

    python benches/files_spark.py --cases w1 hot w6 w7 w8 --rows 1000000 2500000 10000000
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

import tidegate.spark
import w1_spark
import w6_spark
import w7_spark
import w8_spark
from spark_costs import Cost, cpu_seconds, fingerprint, local_session, spread
from tidegate import agg

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    Queries = dict[str, Callable[[], DataFrame]]

COMPUTED = "tidegate.bench.computed"
LEAST = 1e-300
KEYS = 1_000
# Gaps between the right rows of a key have an exponential distribution, so 40 of them are enough.
GAPS = 40


def sides(session: SparkSession, folder: Path, names: tuple[str, str]) -> list[DataFrame]:
    """Return the files of both sides as DataFrames."""
    found = [session.read.parquet(str(folder / f"{name}.parquet")) for name in names]
    if not computed(session):
        return found
    # Only Spark can apply this condition, which practically all rows satisfy.
    return [side.where(F.rand() > LEAST) for side in found]


def computed(session: SparkSession) -> bool:
    """Return whether Spark computes the rows, so that tasks cannot read the files."""
    return session.conf.get(COMPUTED, "false") == "true"


def parallelism(session: SparkSession) -> Literal["auto", "files"]:
    """Return the value of the option for calls."""
    return "auto" if computed(session) else "files"


def pairs(
    session: SparkSession, rows: int, folder: Path, columns: list[str] | None, *, hot: bool
) -> Queries:
    """Return the queries of W1."""
    case = w1_spark.make(rows, KEYS, skewed=False, hot=hot, folder=folder)
    left, right = sides(session, folder, ("left", "right"))
    more: dict[str, Any] = {"columns": columns}
    return {
        "tasks": lambda: w1_spark.tide(left, right, case, parallelism=parallelism(session), **more),
        "bins by hand": lambda: w1_spark.bins(left, right, case, "shuffle_hash"),
    }


def nearest(session: SparkSession, rows: int, folder: Path, columns: list[str] | None) -> Queries:
    """Return the queries of W6."""
    case = w6_spark.Case(rows, KEYS, hot=False)
    case.write(folder)
    left, right = sides(session, folder, ("left", "right"))
    query: dict[str, Any] = {"on": ("ts", "rts"), "by": {"key": "rkey"}}
    query |= {"tolerance": GAPS * KEYS * w6_spark.SPAN // rows, "parallelism": "files"}
    query["columns"] = columns or w6_spark.RESULT
    session.conf.set(w6_spark.NATIVE, "true")
    return {
        "tasks": lambda: tidegate.spark.asof_join(left, right, **query),
        "Spark's own": lambda: w6_spark.native(left, right),
    }


def partners(session: SparkSession, rows: int, folder: Path, columns: list[str] | None) -> Queries:
    """Return the queries of W7."""
    case = w7_spark.Case(rows, KEYS, 100)
    case.write(folder)
    left, right = sides(session, folder, ("left", "right"))
    found: Queries = {
        "tasks": lambda: w7_spark.tide(left, right, case, parallelism(session)),
        "bins, then a group": lambda: w7_spark.bins(left, right, case),
        "union and `rangeBetween`": lambda: w7_spark.ranged(left, right, case),
    }
    if columns is not None:
        found["tasks"] = functools.partial(one_sum, left, right, case)
    return found


def one_sum(left: DataFrame, right: DataFrame, case: w7_spark.Case) -> DataFrame:
    """Return only the column that is added up."""
    return tidegate.spark.interval_join(
        left,
        right,
        on=("ts", "rts"),
        by={"key": "rkey"},
        lower=-(case.distance or 0),
        upper=0,
        aggs={"sum": agg.sum("v")},
        columns=["id"],
        parallelism="files",
    )


def overlaps(session: SparkSession, rows: int, folder: Path, columns: list[str] | None) -> Queries:
    """Return the queries of W8."""
    case = w8_spark.Case("intervals", rows, KEYS, 100, 2.0)
    case.write(folder)
    left, right = sides(session, folder, ("id", "v"))
    found: Queries = {
        "tasks": lambda: w8_spark.tide(left, right, case, parallelism="files", columns=columns)
    }
    for width in (2, 4, 8):
        name = f"bins by hand, {width} mean lengths wide"
        found[name] = functools.partial(w8_spark.bins, left, right, case, width)
    return found


CASES: dict[str, tuple[str, Callable[..., Queries]]] = {
    "w1": ("c", functools.partial(pairs, hot=False)),
    "hot": ("c", functools.partial(pairs, hot=True)),
    "w6": ("c", nearest),
    "w7": ("sum", partners),
    "w8": ("v", overlaps),
}


def once(query: Callable[[], DataFrame], column: str | None) -> Cost:
    """Return the cost of planning and running a query, and of reading or adding up its rows."""
    begin, cpu = time.perf_counter(), cpu_seconds()
    rows = query()
    if column is None:
        rows.write.format("noop").mode("overwrite").save()
    else:
        rows.agg(F.count("*"), F.sum(F.col(column).cast("double"))).collect()
    return Cost(cpu_seconds() - cpu, time.perf_counter() - begin)


def measure(
    session: SparkSession, name: str, rows: int, folder: Path, arguments: argparse.Namespace
) -> dict[str, list[Cost]]:
    """Return the costs of each system in all turns; raise an error if two systems disagree."""
    column, make = CASES[name]
    summed = column if arguments.sink == "sum" else None
    queries = make(session, rows, folder, None if summed is None else [summed])
    shown = sorted(queries["tasks"]().columns)
    prints = {way: fingerprint(query().select(*shown)) for way, query in queries.items()}
    if len({*prints.values()}) > 1:
        message = f"{name}: the results differ: {prints}"
        raise RuntimeError(message)
    runs: dict[str, list[Cost]] = {way: [] for way in queries}
    for turn in range(arguments.warm + arguments.repeat):
        for way in [*queries][:: -1 if turn % 2 else 1]:
            runs[way].append(once(queries[way], summed))
    return runs


def lines_of(name: str, rows: int, runs: dict[str, list[Cost]]) -> list[str]:
    """Return rows of the table, one per system."""
    own = statistics.median(cost.cpu for cost in runs["tasks"])
    lines = []
    for way, costs in runs.items():
        cpu, wall = (statistics.median(found) for found in zip(*((c.cpu, c.wall) for c in costs)))  # noqa: B905
        cells = f"{name}, {rows:,} rows", way, spread(costs), f"{wall:.1f}", f"{cpu / own:.2f}"
        lines.append(f"| {' | '.join(cells)} |")
    return lines


HEADER = """\
| case | system | CPU s (range) | wall-clock s | CPU of this / tasks |
| --- | --- | --: | --: | --: |"""


def main() -> None:
    """Run the cases on the command line, and print their table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", default=[*CASES], choices=CASES)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--sink", default="all", choices=("all", "sum"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--warm", type=int, default=2, help="turns that are not counted")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--shuffle-partitions", type=int, default=8)
    parser.add_argument("--memory", default="8g")
    parser.add_argument(
        "--computed", action="store_true", help="w1, hot and w7 with DataFrames that are not files"
    )
    parser.add_argument("--json", type=Path, help="a file for the CPU seconds of all turns")
    arguments = parser.parse_args()
    quiet = {"spark.ui.showConsoleProgress": "false"}
    session = local_session(
        arguments.threads, arguments.memory, arguments.shuffle_partitions, quiet
    )
    session.conf.set(COMPUTED, str(arguments.computed).lower())
    print(HEADER, flush=True)
    found: dict[str, dict[str, list[float]]] = {}
    for name in arguments.cases:
        for rows in arguments.rows:
            with tempfile.TemporaryDirectory() as folder:
                every = measure(session, name, rows, Path(folder), arguments)
            warm = {way: costs[arguments.warm :] for way, costs in every.items()}
            print(*lines_of(name, rows, warm), sep="\n", flush=True)
            found[f"{name} {rows}"] = {
                way: [cost.cpu for cost in costs] for way, costs in every.items()
            }
    if arguments.json:
        arguments.json.write_text(json.dumps(found), "utf-8")


if __name__ == "__main__":
    main()
