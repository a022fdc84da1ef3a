"""Measures W6 on Spark: the as-of join with tidegate and two ways of Spark itself.

Each left row is matched with the last right row of its key at or before its time. Spark's ways are:

- *window*: the union of both sides, and `last` without nulls over a window of each key;
- *native*: Spark's own `ASOF JOIN` (Spark 4.3 and later, enabled by a setting).

All right times differ, and left rows sort after right rows with the same time, so all ways have the
same result. `w1_spark.py` describes how figures are computed. `ASOF JOIN` runs once and is stopped
at a time limit. Linux only.

    python benches/w6_spark.py --rows 1000000 --keys 1000 --keys-hot 1000
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
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

import tidegate.spark
from spark_costs import at_most, fingerprint, in_turns, local_session

if TYPE_CHECKING:
    from collections.abc import Callable

SPAN = 1_000_000_000  # time span of the rows in microseconds
LEFT, RIGHT = ("key", "ts", "a", "b"), ("rkey", "rts", "c", "d")
RESULT = (*LEFT, *RIGHT[1:])
HOT = 0.5  # share of the rows on the hot key, if there is one
NATIVE = "spark.sql.join.asofJoin.enabled"


@dataclass(frozen=True)
class Case:
    """The rows per side and the keys; one key can have half of the rows."""

    rows: int
    keys: int
    hot: bool

    @property
    def name(self) -> str:
        """Return the name of the case in the table."""
        return f"{self.rows:,} rows, {self.keys:,} keys{', half on one' if self.hot else ''}"

    def write(self, folder: Path) -> None:
        """Write both sides as Parquet files, in time order."""
        rng = np.random.default_rng(42)
        step = SPAN // self.rows
        for name, names, least in (("left", LEFT, 0), ("right", RIGHT, 1)):
            keys = rng.integers(0, self.keys, self.rows)
            if self.hot:
                keys[rng.random(self.rows) < HOT] = 0
            times = np.cumsum(rng.integers(least, 2 * step, self.rows, endpoint=True))
            columns = (keys, times, rng.integers(0, 1 << 62, self.rows), rng.random(self.rows))
            table = pa.table(dict(zip(names, columns, strict=True)))
            pq.write_table(table, folder / f"{name}.parquet", row_group_size=1 << 18)


def tide(
    left: DataFrame,
    right: DataFrame,
    parallelism: Literal["auto", "broadcast", "key", "time", "hybrid"],
) -> DataFrame:
    """Join with `tidegate.spark.asof_join`."""
    return tidegate.spark.asof_join(
        left,
        right,
        on=("ts", "rts"),
        by={"key": "rkey"},
        columns=RESULT,
        parallelism=parallelism,
    )


def window(left: DataFrame, right: DataFrame) -> DataFrame:
    """Join with a union of both sides, and the last right row in a window over each key."""
    right = right.select(
        F.col("rkey").alias("key"), F.col("rts").alias("ts"), F.struct(*RIGHT[1:]).alias("last")
    )
    rows = left.withColumn("side", F.lit(1)).unionByName(
        right.withColumn("side", F.lit(0)), allowMissingColumns=True
    )
    before = (
        Window.partitionBy("key")
        .orderBy("ts", "side")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    found = rows.withColumn("last", F.last("last", ignorenulls=True).over(before))
    return found.where("side = 1").select(*LEFT, "last.*")


def native(left: DataFrame, right: DataFrame) -> DataFrame:
    """Join with Spark's own as-of join."""
    query = "SELECT * FROM {left} LEFT ASOF JOIN {right} "
    query += "MATCH_CONDITION (ts >= rts) ON key = rkey"
    return left.sparkSession.sql(query, left=left, right=right).select(*RESULT)


def measure(session: SparkSession, case: Case, folder: Path, arguments: argparse.Namespace) -> str:
    """Return a row of the table; raise an error if two ways disagree."""
    left, right = (
        session.read.parquet(str(folder / f"{name}.parquet")) for name in ("left", "right")
    )
    ways: dict[str, Callable[[], DataFrame]] = {
        "tidegate": lambda: tide(left, right, arguments.parallelism),
        "window": lambda: window(left, right),
    }
    own = functools.partial(native, left, right)
    compared = ways if arguments.no_native_check else ways | {"native": own}
    prints = {name: fingerprint(query().select(*RESULT)) for name, query in compared.items()}
    if len(set(prints.values())) > 1:
        message = f"{case.name}: the results differ: {prints}"
        raise RuntimeError(message)
    costs = in_turns(ways, arguments.repeat)
    native_cost = at_most(arguments.native_seconds, own, session)
    bound = "" if native_cost.whole else "> "
    ratios = (
        f"{costs['window'].cpu / costs['tidegate'].cpu:.2f}",
        f"{bound}{native_cost.cpu / costs['tidegate'].cpu:.2f}",
    )
    cells = [case.name, *costs.values(), native_cost, *ratios]
    return f"| {' | '.join(map(str, cells))} |"


HEADER = """\
| case | tidegate | window | native | window / tidegate | native / tidegate |
| --- | --: | --: | --: | --: | --: |"""


def main() -> None:
    """Run the cases on the command line, and print their table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--keys", type=int, nargs="*", default=[1_000])
    parser.add_argument(
        "--keys-hot",
        type=int,
        nargs="*",
        default=[],
        help="numbers of keys, with half of the rows on one key",
    )
    parser.add_argument(
        "--parallelism", default="auto", choices=("auto", "broadcast", "key", "time", "hybrid")
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--shuffle-partitions", type=int, default=8)
    parser.add_argument("--native-seconds", type=float, default=600, help="time limit of ASOF JOIN")
    parser.add_argument(
        "--no-native-check", action="store_true", help="do not compare the result of ASOF JOIN"
    )
    parser.add_argument("--memory", default="8g")
    arguments = parser.parse_args()
    session = local_session(
        arguments.threads, arguments.memory, arguments.shuffle_partitions, {NATIVE: "true"}
    )
    print(HEADER, flush=True)
    for rows in arguments.rows:
        cases = [(keys, False) for keys in arguments.keys]
        for keys, hot in [*cases, *((keys, True) for keys in arguments.keys_hot)]:
            case = Case(rows, keys, hot)
            with tempfile.TemporaryDirectory() as name:
                case.write(Path(name))
                print(measure(session, case, Path(name), arguments), flush=True)


if __name__ == "__main__":
    main()
