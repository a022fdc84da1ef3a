"""Measures W7 on Spark: aggregates of partners with tidegate and three ways of Spark itself.

For each left row, the result has the count, sum, mean and maximum of the right rows with its key in
`[ts - distance, ts]`, which are `--partners` rows on average. With `--partners 0`, the partners are
all right rows up to `ts`; bins do not help in this case and are skipped. Spark's ways are:

- *range*: the union of both sides, and a window of each key with `rangeBetween`;
- *pairs*: Spark's own join, then a `groupBy` of its pairs by left row;
- *bins*: the join by equal time bins, then the same `groupBy`.

Values are integers, so all ways have bit-identical sums. `w1_spark.py` describes how figures are
computed. The join of pairs runs once and is stopped at a time limit. Linux only.

    python benches/w7_spark.py --rows 1000000 --keys 1000 --partners 100 --plain-seconds 600
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
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

import tidegate.spark
from spark_costs import at_most, fingerprint, in_turns, local_session
from tidegate import agg

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.window import WindowSpec

SPAN = 1_000_000_000  # time span of the rows in microseconds
RESULT = ("id", "n", "sum", "mean", "max")


@dataclass(frozen=True)
class Case:
    """The rows per side, the keys, and the average number of partners per left row."""

    rows: int
    keys: int
    partners: int

    @property
    def distance(self) -> int | None:
        """Return the time before a left row at which its partners begin; None means no bound."""
        return None if self.partners == 0 else SPAN * self.partners * self.keys // self.rows

    @property
    def name(self) -> str:
        """Return the name of the case in the table."""
        partners = f"{self.partners:,}" if self.partners else "all"
        return f"{self.rows:,} rows, {self.keys:,} keys, {partners} partners"

    def write(self, folder: Path) -> None:
        """Write both sides as Parquet files, in time order."""
        rng = np.random.default_rng(42)
        for side, names in (("left", ("key", "ts", "id")), ("right", ("rkey", "rts", "v"))):
            steps = rng.random(self.rows)
            times = (np.cumsum(steps) * (SPAN / steps.sum())).astype(np.int64)
            last = np.arange(self.rows) if side == "left" else rng.integers(0, 1 << 20, self.rows)
            columns = (rng.integers(0, self.keys, self.rows), times, last)
            table = pa.table(dict(zip(names, columns, strict=True)))
            pq.write_table(table, folder / f"{side}.parquet", row_group_size=1 << 18)


def tide(
    left: DataFrame,
    right: DataFrame,
    case: Case,
    parallelism: Literal["auto", "broadcast", "files", "key", "time", "hybrid"],
) -> DataFrame:
    """Join with `tidegate.spark.interval_join` and aggregates."""
    return tidegate.spark.interval_join(
        left,
        right,
        on=("ts", "rts"),
        by={"key": "rkey"},
        lower=None if case.distance is None else -case.distance,
        upper=0,
        aggs={"n": agg.count(), "sum": agg.sum("v"), "mean": agg.mean("v"), "max": agg.max("v")},
        columns=["id"],
        parallelism=parallelism,
    )


def functions(value: str, window: WindowSpec | None = None) -> list[Column]:
    """Return the aggregates of a column, by group or over a window."""
    found = [F.count(value), F.sum(value), F.avg(value), F.max(value)]
    if window is not None:
        found = [one.over(window) for one in found]
    return [one.alias(name) for one, name in zip(found, RESULT[1:], strict=True)]


def ranged(left: DataFrame, right: DataFrame, case: Case) -> DataFrame:
    """Aggregate a union of both sides in windows per key; left rows have no value."""
    none = F.lit(None).cast("bigint")
    rows = left.withColumn("v", none).unionByName(
        right.select(F.col("rkey").alias("key"), F.col("rts").alias("ts"), none.alias("id"), "v")
    )
    begin = Window.unboundedPreceding if case.distance is None else -case.distance
    window = Window.partitionBy("key").orderBy("ts").rangeBetween(begin, 0)
    return rows.select("id", *functions("v", window)).where(F.col("id").isNotNull())


def _near(case: Case) -> Column:
    """Return the condition that a right row is in the interval of a left row."""
    if case.distance is None:
        return F.col("rts") <= F.col("ts")
    return F.col("rts").between(F.col("ts") - case.distance, F.col("ts"))


def pairs(left: DataFrame, right: DataFrame, case: Case) -> DataFrame:
    """Join with Spark's own join, then group by left row."""
    near = _near(case)
    found = left.join(right, (F.col("key") == F.col("rkey")) & near, "left")
    return found.groupBy("id").agg(*functions("v"))


def bins(left: DataFrame, right: DataFrame, case: Case) -> DataFrame:
    """Join by hand-written bins: left rows are repeated for both bins of their interval."""
    width = max(1, case.distance or 0)
    first, last = (F.floor((F.col("ts") - back) / width) for back in (width, 0))
    binned = left.withColumn("bin", F.explode(F.sequence(first, last)))
    right = right.withColumn("rbin", F.floor(F.col("rts") / width))
    near = _near(case)
    equal = (F.col("key") == F.col("rkey")) & (F.col("bin") == F.col("rbin"))
    found = binned.join(right.hint("shuffle_hash"), equal & near, "left")
    return found.groupBy("id").agg(*functions("v"))


def measure(session: SparkSession, case: Case, folder: Path, arguments: argparse.Namespace) -> str:
    """Return a row of the table; raise an error if two ways disagree."""
    left, right = (
        session.read.parquet(str(folder / f"{name}.parquet")) for name in ("left", "right")
    )
    ways: dict[str, Callable[[], DataFrame]] = {
        "tidegate": lambda: tide(left, right, case, arguments.parallelism),
        "range": lambda: ranged(left, right, case),
    }
    if case.distance is not None:
        ways["bins"] = lambda: bins(left, right, case)
    plain = functools.partial(pairs, left, right, case)
    compared = ways if arguments.no_plain_check else ways | {"pairs": plain}
    prints = {name: fingerprint(query().select(*RESULT)) for name, query in compared.items()}
    if len(set(prints.values())) > 1:
        message = f"{case.name}: the results differ: {prints}"
        raise RuntimeError(message)
    costs = in_turns(ways, arguments.repeat)
    plain_cost = at_most(arguments.plain_seconds, plain, session)
    own = costs["tidegate"].cpu
    best = min(cost.cpu for way, cost in costs.items() if way != "tidegate")
    bound = "" if plain_cost.whole else "> "
    cells = [
        case.name,
        costs["tidegate"],
        costs["range"],
        costs.get("bins", ""),
        plain_cost,
        f"{best / own:.2f}",
        f"{bound}{plain_cost.cpu / own:.2f}",
    ]
    return f"| {' | '.join(map(str, cells))} |"


HEADER = """\
| case | tidegate | range | bins, then group | pairs, then group | best of Spark / tidegate \
| pairs / tidegate |
| --- | --: | --: | --: | --: | --: | --: |"""


def main() -> None:
    """Run the cases on the command line, and print their table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--keys", type=int, nargs="+", default=[1_000])
    parser.add_argument("--partners", type=int, nargs="+", default=[100])
    parser.add_argument(
        "--parallelism", default="auto", choices=("auto", "broadcast", "key", "time", "hybrid")
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--shuffle-partitions", type=int, default=8)
    parser.add_argument(
        "--plain-seconds", type=float, default=600, help="time limit of the join of pairs"
    )
    parser.add_argument(
        "--no-plain-check", action="store_true", help="do not compare the result of the pairs"
    )
    parser.add_argument("--memory", default="8g")
    arguments = parser.parse_args()
    session = local_session(arguments.threads, arguments.memory, arguments.shuffle_partitions)
    print(HEADER, flush=True)
    for rows in arguments.rows:
        for keys in arguments.keys:
            for partners in arguments.partners:
                case = Case(rows, keys, partners)
                with tempfile.TemporaryDirectory() as name:
                    case.write(Path(name))
                    print(measure(session, case, Path(name), arguments), flush=True)


if __name__ == "__main__":
    main()
