"""Measures W4 on Spark: sliding windows with tidegate and with Spark's own `window()`.

The input is a Parquet table with N rows over 10 000 s. Windows of 30 s begin every 3 s, so each row
belongs to ten windows. There are two sets of functions: count, mean and first, whose results depend
on the order of rows, and count, sum and max of integers, which tidegate sends as aggregates of
slices. Row counts and checksums are compared before timing. The systems take turns, with a sink
that reads all rows and keeps none. A figure is the median of `--repeat` runs, including planning:
the CPU time of Spark, its Python workers and this process, and in parentheses the wall-clock time.
Linux only.

    python benches/w4_spark.py --rows 1000000 --keys 243 40000
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

import tidegate.spark
from spark_costs import fingerprint, in_turns, local_session
from tidegate import agg

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

SPAN_US = 10_000_000_000
SIZE, ADVANCE = "30 seconds", "3 seconds"
FUNCTIONS: dict[str, tuple[dict[str, agg.Aggregate], dict[str, Column]]] = {}


def define() -> None:
    """Define both sets of functions for each system, after Spark has started."""
    FUNCTIONS["count, mean, first"] = (
        {"n": agg.count(), "mean": agg.mean("v"), "first": agg.first("v")},
        {"n": F.count("*"), "mean": F.avg("v"), "first": F.min_by("v", "ts")},
    )
    FUNCTIONS["count, sum, max"] = (
        {"n": agg.count(), "sum": agg.sum("i"), "max": agg.max("i")},
        {"n": F.count("*"), "sum": F.sum("i"), "max": F.max("i")},
    )


def generate(rows: int, keys: int, path: Path) -> None:
    """Generate distinct times, uniform keys, a float with exact sums, and an integer."""
    rng = np.random.default_rng(42)
    times = np.cumsum(rng.integers(1, 2 * SPAN_US // rows, rows))
    table = pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "k": rng.integers(0, keys, rows),
            "v": rng.integers(0, 1 << 20, rows) / 1024,
            "i": rng.integers(0, 1 << 20, rows),
        }
    )
    pq.write_table(table, path, row_group_size=1 << 18)


def tide(rows: DataFrame, functions: str) -> DataFrame:
    """Aggregate with `tidegate.spark.aggregate` and its defaults."""
    aggs = FUNCTIONS[functions][0]
    return tidegate.spark.aggregate(rows, on="ts", size="30s", advance="3s", by="k", aggs=aggs)


def spark_window(rows: DataFrame, functions: str) -> DataFrame:
    """Aggregate with Spark's own windows."""
    aggregates = [column.alias(name) for name, column in FUNCTIONS[functions][1].items()]
    groups = rows.groupBy(F.window("ts", SIZE, ADVANCE).alias("w"), "k").agg(*aggregates)
    ends = [F.col(f"w.{end}").alias(f"window_{end}") for end in ("start", "end")]
    return groups.select(*ends, "k", *FUNCTIONS[functions][1])


def measure(session: SparkSession, path: Path, functions: str, repeat: int) -> str:
    """Return the cells of a row; raise an error if the systems disagree."""
    rows = session.read.parquet(str(path))
    queries: dict[str, Callable[[], DataFrame]] = {
        "tidegate": lambda: tide(rows, functions),
        "window()": lambda: spark_window(rows, functions),
    }
    prints = {name: fingerprint(query()) for name, query in queries.items()}
    if len(set(prints.values())) > 1:
        message = f"{functions}: the results differ: {prints}"
        raise RuntimeError(message)
    costs = in_turns(queries, repeat)
    ratio = costs["window()"].cpu / costs["tidegate"].cpu
    return f"{prints['tidegate'][0]:,} | {costs['tidegate']} | {costs['window()']} | {ratio:.1f}"


def main() -> None:
    """Run the cases on the command line, and print their table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, nargs="+", default=[243, 40_000])
    parser.add_argument("--functions", nargs="*", help="sets of functions; by default, all")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--memory", default="8g")
    parser.add_argument(
        "--set", nargs="*", default=[], metavar="NAME=VALUE", help="settings for Spark"
    )
    given = parser.parse_args()
    settings = dict(setting.split("=", 1) for setting in given.set)
    session = local_session(given.threads, given.memory, 8, settings)
    define()
    print("| keys | functions | result rows | tidegate | window() | window() / tidegate |")
    print("| --: | --- | --: | --: | --: | --: |")
    for keys in given.keys:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.parquet"
            generate(given.rows, keys, path)
            for functions in given.functions or FUNCTIONS:
                line = measure(session, path, functions, given.repeat)
                print(f"| {keys:,} | {functions} | {line} |", flush=True)


if __name__ == "__main__":
    main()
