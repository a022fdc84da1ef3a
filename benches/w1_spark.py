"""Measures W1 on Spark: tidegate, hand-written bins, and Spark's own join.

The row counts and checksums of all systems are compared before timing. The systems take turns, and
each is timed with a sink that reads all rows and keeps none. A figure is the median of `--repeat`
runs, including planning. It is the CPU time of Spark, its Python workers and this process, which
other work on the machine distorts least; wall-clock time is in parentheses. The plain join runs
once and is stopped at a time limit. Linux only.

    python benches/w1_spark.py --rows 1000000 --keys 10 1000 100000 --keys-skewed 1000

With `--forms planned`, the script measures the choices of `parallelism="auto"`: native calls and
the bins that tidegate plans. It also measures hand-written bins. CPU seconds are then medians with
their range.

    python benches/w1_spark.py --rows 2500000 --keys 1000 --keys-hot 1000 --forms planned

With `--forms bucketed`, both sides are tables with eight buckets by key. The join in place is
compared with native calls that pack and shuffle rows, and with bins. Spark also shuffles bins of
such tables, unless a setting allows it to join tables by key and bin that are partitioned by key.
With `--partners`, left rows are returned with the count and a sum of their partners, and there are
no bins.

    python benches/w1_spark.py --rows 2500000 --keys 1000 --forms bucketed
"""

from __future__ import annotations

import argparse
import functools
import itertools
import math
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

import tidegate.spark
from spark_costs import at_most, fingerprint, in_turns, local_session, spread, turns
from tidegate import agg
from tidegate.spark.driver import in_place
from tidegate.spark.plan.join import Plan

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

SPAN = 1_000_000_000  # time span of the rows in microseconds
SKEW = 0.35  # share of the keys that has 1 - SKEW of the rows, recursively


@dataclass(frozen=True)
class Case:
    """The rows per side, the keys and their distribution, and half the width of the interval."""

    rows: int
    keys: int
    skewed: bool
    hot: bool
    half: int

    @property
    def name(self) -> str:
        """Return the name of the case in the table."""
        kind = "half on one key" if self.hot else "skewed" if self.skewed else "uniform"
        return f"{self.rows:,} rows, {self.keys:,} keys, {kind}"


def draw_keys(rng: np.random.Generator, case: Case) -> np.ndarray:
    """Return uniform or self-similar keys; with a hot key, half of them are 0."""
    uniform = rng.random(case.rows)
    power = math.log(SKEW) / math.log(1 - SKEW) if case.skewed else 1.0
    keys = (case.keys * uniform**power).astype(np.int64)
    if case.hot:
        keys[rng.random(case.rows) < 0.5] = 0  # noqa: PLR2004
    return keys


def side(rng: np.random.Generator, case: Case, names: tuple[str, str, str, str]) -> pa.Table:
    """Return a table in time order with a key, a time, an integer and a float."""
    steps = rng.random(case.rows)
    times = (np.cumsum(steps) * (SPAN / steps.sum())).astype(np.int64)
    payload = rng.integers(0, 1 << 30, case.rows), rng.random(case.rows)
    return pa.table(dict(zip(names, (draw_keys(rng, case), times, *payload), strict=True)))


def make(  # noqa: PLR0913 - what a case is made of
    rows: int, keys: int, *, skewed: bool, hot: bool, folder: Path, matches: float = 4
) -> Case:
    """Write both sides as Parquet files, and choose the interval for `matches` pairs per row."""
    rng = np.random.default_rng(42)
    case = Case(rows, keys, skewed, hot, 0)
    shares = np.bincount(draw_keys(rng, case)) / rows
    # A left row with key k matches rows * share(k) * 2 * half / SPAN right rows.
    half = matches * SPAN / (2 * rows * float((shares**2).sum()))
    for name, columns in (("left", ("key", "ts", "a", "b")), ("right", ("rkey", "rts", "c", "d"))):
        pq.write_table(side(rng, case, columns), folder / f"{name}.parquet", row_group_size=1 << 18)
    return Case(rows, keys, skewed, hot, max(1, round(half)))


def plain(left: DataFrame, right: DataFrame, case: Case) -> DataFrame:
    """Join with Spark's own join: equal keys and a residual predicate."""
    near = F.col("rts").between(F.col("ts") - case.half, F.col("ts") + case.half)
    return left.join(right, (F.col("key") == F.col("rkey")) & near)


def bins(left: DataFrame, right: DataFrame, case: Case, hint: str) -> DataFrame:
    """Join by hand-written bins: left rows are repeated for every bin that their interval meets."""
    width = 2 * case.half
    first, last = (F.floor((F.col("ts") + end) / width) for end in (-case.half, case.half))
    binned = left.withColumn("bin", F.explode(F.sequence(first, last)))
    right = right.withColumn("rbin", F.floor(F.col("rts") / width))
    near = F.col("rts").between(F.col("ts") - case.half, F.col("ts") + case.half)
    equal = (F.col("key") == F.col("rkey")) & (F.col("bin") == F.col("rbin"))
    return binned.join(right.hint(hint), equal & near).drop("bin", "rbin")


def tide(left: DataFrame, right: DataFrame, case: Case, **more: Any) -> DataFrame:  # noqa: ANN401
    """Join with `tidegate.spark.interval_join` with its defaults, except for `more` arguments."""
    query: dict[str, Any] = {"on": ("ts", "rts"), "by": {"key": "rkey"}}
    query |= {"lower": -case.half, "upper": case.half}
    return tidegate.spark.interval_join(left, right, **query, **more)


def summed(pairs: DataFrame) -> DataFrame:
    """Aggregate after the join: pairs and a sum per key."""
    return pairs.groupBy("key").agg(F.count("*").alias("pairs"), F.sum("c").alias("total"))


def tide_summed(left: DataFrame, right: DataFrame, case: Case, parallelism: str) -> DataFrame:
    """Compute the same aggregate, partly inside the native call."""

    def partial(batch: pa.RecordBatch) -> pa.Table:
        groups = pa.table(batch).group_by("key").aggregate([("c", "count"), ("c", "sum")])
        return groups.rename_columns(["key", "pairs", "total"])

    partials = tide(
        left,
        right,
        case,
        columns=["key", "c"],
        parallelism=parallelism,
        then=partial,
        then_schema="key bigint, pairs bigint, total bigint",
    )
    return partials.groupBy("key").agg(F.sum("pairs").alias("pairs"), F.sum("total").alias("total"))


def measure(session: SparkSession, case: Case, folder: Path, arguments: argparse.Namespace) -> str:
    """Return a row of the table; raise an error if two systems disagree."""
    left, right = (
        session.read.parquet(str(folder / f"{name}.parquet")) for name in ("left", "right")
    )
    joins: dict[str, Callable[[], DataFrame]] = {
        "tidegate": lambda: tide(left, right, case, parallelism=arguments.parallelism),
        "hash": lambda: bins(left, right, case, "shuffle_hash"),
        "merge": lambda: bins(left, right, case, "merge"),
    }
    sums: dict[str, Callable[[], DataFrame]] = {
        "tidegate": lambda: tide_summed(left, right, case, arguments.parallelism),
        "hash": lambda: summed(bins(left, right, case, "shuffle_hash")),
    }
    if arguments.forms == "hash":
        del joins["merge"]
        sums.clear()
    for group in (joins, sums):
        prints = {name: fingerprint(query()) for name, query in group.items()}
        if len(set(prints.values())) > 1:
            message = f"{case.name}: the results differ: {prints}"
            raise RuntimeError(message)
    join, sum_ = (in_turns(group, arguments.repeat) for group in (joins, sums))
    plain_cost = None
    if arguments.plain_seconds:
        query = functools.partial(plain, left, right, case)
        plain_cost = at_most(arguments.plain_seconds, query, session)
    best = min(cost.cpu for name, cost in join.items() if name != "tidegate")
    ahead = "-"
    if plain_cost is not None:
        bound = "" if plain_cost.whole else "> "
        ahead = f"{bound}{plain_cost.cpu / join['tidegate'].cpu:.1f}"
    cells = [
        case.name,
        join["tidegate"],
        join["hash"],
        join.get("merge", "-"),
        plain_cost or "-",
        f"{best / join['tidegate'].cpu:.2f}",
        ahead,
        *(sum_.values() or ("-", "-")),
        f"{sum_['hash'].cpu / sum_['tidegate'].cpu:.2f}" if sum_ else "-",
    ]
    return f"| {' | '.join(map(str, cells))} |"


def measure_planned(
    session: SparkSession, case: Case, folder: Path, arguments: argparse.Namespace
) -> str:
    """Return a row of the table of planned bins; raise an error if two forms disagree."""
    left, right = (
        session.read.parquet(str(folder / f"{name}.parquet")) for name in ("left", "right")
    )

    def native() -> DataFrame:
        with mock.patch.object(Plan, "without_bins", "they are measured separately"):
            return tide(left, right, case)

    joins: dict[str, Callable[[], DataFrame]] = {
        "native": native,
        "bins": lambda: tide(left, right, case, parallelism="bins"),
        "hand": lambda: bins(left, right, case, "shuffle_hash"),
    }
    prints = {name: fingerprint(query()) for name, query in joins.items()}
    if len(set(prints.values())) > 1:
        message = f"{case.name}: the results differ: {prints}"
        raise RuntimeError(message)
    found = turns(joins, arguments.repeat)
    query: dict[str, Any] = {"on": ("ts", "rts"), "by": {"key": "rkey"}}
    query |= {"lower": -case.half, "upper": case.half}
    join = tidegate.spark.interval_join
    auto = tidegate.spark.explain(join, left, right, **query)
    chosen = "bins" if "time bins" in auto else "whole" if "sent in full" in auto else "native"
    [told] = re.findall(
        r"about (\S+) s of processor time by bins, (\S+) s natively",
        tidegate.spark.explain(join, left, right, **query, parallelism="bins"),
    )
    cells = [
        f"{case.name}, {prints['bins'][0] / case.rows:.0f} matches",
        *map(spread, found.values()),
    ]
    return f"| {' | '.join([*cells, chosen, ', '.join(told)])} |"


def measure_bucketed(
    session: SparkSession, case: Case, folder: Path, arguments: argparse.Namespace
) -> str:
    """Return a row of the table of bucketed tables; raise an error if two forms disagree."""
    tables = []
    for name, key in (("left", "key"), ("right", "rkey")):
        rows = session.read.parquet(str(folder / f"{name}.parquet"))
        writer = rows.write.option("path", str(folder / f"{name}_buckets")).mode("overwrite")
        writer.bucketBy(BUCKETS, key).saveAsTable(name)
        tables.append(session.table(name))
    left, right = tables
    asked: dict[str, Any] = {}
    if arguments.partners:
        asked["aggs"] = {"partners": agg.count(), "total": agg.sum("c")}
        asked["columns"] = ["key", "ts", "a"]

    def packed() -> DataFrame:
        with mock.patch.object(in_place, "found", return_value=None):
            return tide(left, right, case, parallelism="key", **asked)

    def kept() -> DataFrame:
        session.conf.set(BY_ALL_KEYS, "false")
        return bins(left, right, case, "shuffle_hash")

    def with_setting(query: Callable[[], DataFrame]) -> DataFrame:
        session.conf.set(BY_ALL_KEYS, "true")
        return query()

    found: dict[str, Callable[[], DataFrame]] = {
        "in place": lambda: tide(left, right, case, parallelism="key", **asked),
        "packed": packed,
        "auto": lambda: tide(left, right, case, **asked),
    }
    if not arguments.partners:
        found["bins"] = lambda: tide(left, right, case, parallelism="bins")
        found["hand"] = lambda: bins(left, right, case, "shuffle_hash")
        found["kept"] = kept
    joins: dict[str, Callable[[], DataFrame]] = {
        name: query if name == "kept" else functools.partial(with_setting, query)
        for name, query in found.items()
    }
    prints = {name: fingerprint(query()) for name, query in joins.items()}
    if len(set(prints.values())) > 1:
        message = f"{case.name}: the results differ: {prints}"
        raise RuntimeError(message)
    turns(joins, arguments.warm)
    costs = [*map(spread, turns(joins, arguments.repeat).values())]
    what = "count and sum of partners"
    if not arguments.partners:
        what = f"{prints['bins'][0] / case.rows:.0f} matches"
    cells = [f"{case.name}, {what}", *costs, *["-"] * (BUCKETED_FORMS - len(costs))]
    return f"| {' | '.join(cells)} |"


# The forms in the table of bucketed tables.
BUCKETED_FORMS = 6

# The number of buckets, and whether Spark requires partitioning by all join keys.
BUCKETS = 8
BY_ALL_KEYS = "spark.sql.requireAllClusterKeysForCoPartition"

BUCKETED = """\
| case | in place | packed | `auto` | planned bins | bins by hand | the same, not shuffled |
| --- | --: | --: | --: | --: | --: | --: |"""

PLANNED = """\
| case | native calls | planned bins | bins by hand | `auto` | model: bins, native |
| --- | --: | --: | --: | --- | --: |"""

HEADER = """\
| case | tidegate | bins, hash | bins, sort-merge | plain | best bins / tidegate \
| plain / tidegate | sum in the call | bins, then sum | ratio |
| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: |"""


def main() -> None:
    """Run the cases on the command line, and print their table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--keys", type=int, nargs="*", default=[10, 1_000, 100_000])
    parser.add_argument("--keys-skewed", type=int, nargs="*", default=[])
    parser.add_argument(
        "--keys-hot", type=int, nargs="*", default=[], help="half of the rows on one key"
    )
    parser.add_argument("--parallelism", default="auto", help="parallelism of tidegate's joins")
    parser.add_argument(
        "--forms",
        default="all",
        choices=("all", "hash", "planned", "bucketed"),
        help="`hash`: no sums, no sort-merge; `planned`: what `auto` chooses from; `bucketed`: the "
        "same of tables with buckets",
    )
    parser.add_argument(
        "--warm", type=int, default=1, help="turns of `bucketed` that are not counted"
    )
    parser.add_argument(
        "--partners", action="store_true", help="for `bucketed`: aggregate partners"
    )
    parser.add_argument(
        "--matches", type=float, nargs="+", default=[4], help="matches per left row"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--shuffle-partitions", type=int, default=8)
    parser.add_argument(
        "--plain-seconds", type=float, default=0, help="time limit of the plain join"
    )
    parser.add_argument("--memory", default="8g")
    parser.add_argument(
        "--set", nargs="*", default=[], metavar="NAME=VALUE", help="settings for Spark"
    )
    arguments = parser.parse_args()
    session = local_session(
        arguments.threads,
        arguments.memory,
        arguments.shuffle_partitions,
        dict(setting.split("=", 1) for setting in arguments.set),
    )
    lines = {"planned": (PLANNED, measure_planned), "bucketed": (BUCKETED, measure_bucketed)}
    header, line = lines.get(arguments.forms, (HEADER, measure))
    print(header, flush=True)
    for rows, matches in itertools.product(arguments.rows, arguments.matches):
        kinds = [(keys, False, False) for keys in arguments.keys]
        kinds += [(keys, True, False) for keys in arguments.keys_skewed]
        kinds += [(keys, False, True) for keys in arguments.keys_hot]
        for keys, skewed, hot in kinds:
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                case = make(rows, keys, skewed=skewed, hot=hot, folder=folder, matches=matches)
                print(line(session, case, folder, arguments), flush=True)


if __name__ == "__main__":
    main()
