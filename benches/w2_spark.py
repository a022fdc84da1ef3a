"""Measures W2 on Spark: tidegate, hand-written buckets of values, and Spark's own join.

The values are uniform 32-bit integers with two matches per row. With `--heavy`, half of the left
rows have one value. `w1_spark.py` describes how figures are computed. Spark's own plan compares all
pairs, so it runs once and is stopped at a time limit. Linux only.

    python benches/w2_spark.py --rows 100000 1000000 --plain-seconds 30
"""

from __future__ import annotations

import argparse
import functools
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

import tidegate.spark
from spark_costs import at_most, fingerprint, in_turns, local_session

if TYPE_CHECKING:
    from collections.abc import Callable

MATCHES = 2


@dataclass(frozen=True)
class Case:
    """The rows per side, and whether half of the left rows have one value."""

    rows: int
    heavy: bool

    @property
    def within(self) -> int:
        """Return the maximum distance between the values of a pair."""
        return (MATCHES << 32) // (2 * self.rows)

    @property
    def name(self) -> str:
        """Return the name of the case in the table."""
        return f"{self.rows:,} rows, {'half on one value' if self.heavy else 'uniform'}"

    def write(self, folder: Path) -> None:
        """Write both sides as Parquet files."""
        rng = np.random.default_rng(42)
        for name, columns in (("left", ("x", "a")), ("right", ("y", "b"))):
            values = rng.integers(-(2**31), 2**31, self.rows, dtype=np.int64)
            if self.heavy and name == "left":
                values[rng.random(self.rows) < 0.5] = 12_345  # noqa: PLR2004
            table = pa.table(dict(zip(columns, (values, np.arange(self.rows)), strict=True)))
            pq.write_table(table, folder / f"{name}.parquet", row_group_size=1 << 18)


def plain(left: DataFrame, right: DataFrame, case: Case) -> DataFrame:
    """Join with the band as most users would first write it."""
    return left.join(right, F.abs(F.col("x") - F.col("y")) <= case.within)


def buckets(left: DataFrame, right: DataFrame, case: Case) -> DataFrame:
    """Join by hand-written buckets: left rows are repeated for each bucket in their band."""
    width = 2 * case.within
    first, last = (F.floor((F.col("x") + end) / width) for end in (-case.within, case.within))
    reached = left.withColumn("bucket", F.explode(F.sequence(first, last)))
    right = right.withColumn("own", F.floor(F.col("y") / width)).hint("shuffle_hash")
    near = F.abs(F.col("x") - F.col("y")) <= case.within
    return reached.join(right, (F.col("bucket") == F.col("own")) & near).drop("bucket", "own")


def tide(
    left: DataFrame, right: DataFrame, case: Case, parallelism: Literal["auto", "value"]
) -> DataFrame:
    """Join with `tidegate.spark.band_join`."""
    return tidegate.spark.band_join(
        left, right, on=[("x", "y")], within=case.within, parallelism=parallelism
    )


def measure(session: SparkSession, case: Case, arguments: argparse.Namespace) -> str:
    """Return a row of the table; raise an error if two systems disagree."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        case.write(folder)
        left, right = (
            session.read.parquet(str(folder / f"{side}.parquet")) for side in ("left", "right")
        )
        queries: dict[str, Callable[[], DataFrame]] = {
            "auto": lambda: tide(left, right, case, "auto"),
            "value": lambda: tide(left, right, case, "value"),
            "buckets": lambda: buckets(left, right, case),
        }
        prints = {name: fingerprint(query()) for name, query in queries.items()}
        if len(set(prints.values())) > 1:
            message = f"{case.name}: the results differ: {prints}"
            raise RuntimeError(message)
        costs = in_turns(queries, arguments.repeat)
        cells: list[object] = [case.name, *(costs[name] for name in queries)]
        if arguments.plain_seconds:
            query = functools.partial(plain, left, right, case)
            cells.append(at_most(arguments.plain_seconds, query, session))
        else:
            cells.append("-")
    return f"| {' | '.join(map(str, cells))} |"


HEADER = """\
| case | tidegate, auto | tidegate, by value | buckets by hand | Spark's own |
| --- | --: | --: | --: | --: |"""


def main() -> None:
    """Run the cases on the command line, and print their table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--heavy", action="store_true", help="give half of the left rows one value")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--shuffle-partitions", type=int, default=8)
    parser.add_argument(
        "--plain-seconds", type=float, default=0, help="time limit of Spark's own join"
    )
    parser.add_argument("--memory", default="4g")
    arguments = parser.parse_args()
    session = local_session(arguments.threads, arguments.memory, arguments.shuffle_partitions)
    print(HEADER, flush=True)
    for rows in arguments.rows:
        print(measure(session, Case(rows, arguments.heavy), arguments), flush=True)


if __name__ == "__main__":
    main()
