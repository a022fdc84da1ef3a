"""W8 on Spark: overlaps by tidegate's forms, by hand-written bins, and by Spark's own join.

Two tables with a key. Starts are uniform and in order, lengths exponential: a left row overlaps
`--overlaps` right rows on average, not counting long ones. `--long` rows of each side are a
thousand times as long. `points` joins left points with right intervals, `intervals` two tables of
intervals, and `counts` gives each left interval with its number of overlaps, those without any,
too. `ends` is an interval join whose right rows have one time, and whose upper end is computed from
columns of the left row.

The forms of tidegate are its `--parallelism`: what it chooses by itself, and native calls that all
rows are sent to. All forms and the bins by hand are measured in turns, in one session.

By hand, an expert repeats a row for each bin of time that it covers, with bins some `--widths`
times as wide as a row is long on average. Two rows of one key and bin pair if they overlap, in the
first bin that both cover, so that no pair comes twice and none need be removed. Counts group these
pairs by left row. Each width is tried in the `--warm` turns, which are not reported. The cheapest
is the one that is timed, and is said in the table.

Numbers of rows and sums of hashes are compared before anything is timed. How figures are made is
said in `w1_spark.py`. Spark's own join is run once, and stopped at a limit; it is not compared,
unless it ends with `--plain-check`. Linux only.

    python benches/w8_spark.py --rows 1000000 --keys 24 1000 --plain-seconds 120
"""

from __future__ import annotations

import argparse
import functools
import itertools
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

import tidegate
import tidegate.spark
from spark_costs import at_most, fingerprint, local_session, spread, turns
from tidegate import agg

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_costs import Cost

SPAN = 1_000_000_000  # microseconds that the starts are spread over
LONGER = 1_000
QUESTIONS = ("points", "intervals", "counts", "ends")
LEFT, RIGHT = ("id", "key", "s", "e"), ("v", "rkey", "rs", "re")


@dataclass(frozen=True)
class Case:
    """What is asked, rows a side, keys, long rows a side, and overlaps of a left row."""

    question: str
    rows: int
    keys: int
    long: int
    overlaps: float

    @property
    def mean(self) -> int:
        """How long rows are on average, but for the long ones."""
        # Two rows overlap if their starts are less apart than the earlier one is long.
        both = 1 if self.points is not None else 2
        return max(1, round(self.overlaps * SPAN * self.keys / self.rows / both))

    @property
    def points(self) -> tuple[str, ...] | None:
        """The columns of the side whose rows have one time, if a side has such rows."""
        return {"points": LEFT, "ends": RIGHT}.get(self.question)

    @property
    def name(self) -> str:
        """Return the name of the case in the table."""
        return f"{self.question}: {self.rows:,} rows, {self.keys:,} keys, {self.long:,} long"

    def write(self, folder: Path) -> None:
        """Write both sides as Parquet, in the order of their starts."""
        for seed, names in enumerate((LEFT, RIGHT)):
            rng = np.random.default_rng([42, seed])
            starts = np.sort(rng.integers(0, SPAN, self.rows))
            lengths = rng.exponential(self.mean, self.rows)
            lengths[rng.choice(self.rows, self.long, replace=False)] *= LONGER
            if self.points is names:
                lengths[:] = 0
            columns = (
                np.arange(self.rows),
                rng.integers(0, self.keys, self.rows),
                starts,
                starts + lengths.astype(np.int64),
            )
            table = pa.table(dict(zip(names, columns, strict=True)))
            pq.write_table(table, folder / f"{names[0]}.parquet", row_group_size=1 << 18)


def tide(left: DataFrame, right: DataFrame, case: Case, **more: Any) -> DataFrame:  # noqa: ANN401
    """`tidegate.spark.overlap_join` with its defaults, but for `more` of its arguments."""
    if case.question == "ends":
        ends: dict[str, Any] = {"lower": 0, "upper": tidegate.left.e - tidegate.left.s}
        ends |= {"on": ("s", "rs"), "by": {"key": "rkey"}}
        return tidegate.spark.interval_join(left, right, **ends, **more)
    query: dict[str, Any] = {"on": (LEFT[2:], RIGHT[2:]), "by": {"key": "rkey"}}
    if case.question == "points":
        query["on"] = (("s", "s"), RIGHT[2:])
    if case.question == "counts":
        query |= {"aggs": {"n": agg.count()}, "columns": ["id"]}
    return tidegate.spark.overlap_join(left, right, **query, **more)


def _answer(pairs: DataFrame, left: DataFrame, case: Case) -> DataFrame:
    """The pairs, or each left row with their number."""
    if case.question != "counts":
        return pairs
    counts = pairs.groupBy("id").agg(F.count("*").alias("n"))
    every = left.select("id").join(counts, "id", "left")
    return every.select("id", F.coalesce("n", F.lit(0)).alias("n"))


def _overlap() -> Column:
    return (
        (F.col("key") == F.col("rkey")) & (F.col("s") <= F.col("re")) & (F.col("rs") <= F.col("e"))
    )


def plain(left: DataFrame, right: DataFrame, case: Case) -> DataFrame:
    """Spark's own join: equal keys and a residual predicate."""
    return _answer(left.join(right, _overlap()), left, case)


def bins(left: DataFrame, right: DataFrame, case: Case, times: float) -> DataFrame:
    """By hand: rows repeated for every bin of time that they cover, then equal bins."""
    width = max(1, round(times * case.mean))

    def binned(frame: DataFrame, start: str, end: str, name: str) -> DataFrame:
        first, last = (F.floor(F.col(column) / width) for column in (start, end))
        frame = frame.withColumn(f"{name}first", first)
        if start == end:
            return frame.withColumn(f"{name}bin", first)
        return frame.withColumn(f"{name}bin", F.explode(F.sequence(first, last)))

    of_left = binned(left, "s", "s" if case.points is LEFT else "e", "l")
    of_right = binned(right, "rs", "rs" if case.points is RIGHT else "re", "r")
    once = F.col("lbin") == F.greatest("lfirst", "rfirst")
    met = (F.col("lbin") == F.col("rbin")) & once & _overlap()
    pairs = of_left.join(of_right.hint("shuffle_hash"), met)
    return _answer(pairs.drop("lfirst", "rfirst", "lbin", "rbin"), left, case)


def measure(session: SparkSession, case: Case, folder: Path, arguments: argparse.Namespace) -> str:
    """Lines of the table, one a form; raises if two disagree."""
    left, right = (
        session.read.parquet(str(folder / f"{names[0]}.parquet")) for names in (LEFT, RIGHT)
    )
    ways: dict[str, Callable[[], DataFrame]] = {
        f"tidegate, {form}": functools.partial(tide, left, right, case, parallelism=form)
        for form in arguments.parallelism
    }
    by_hand: dict[str, Callable[[], DataFrame]] = {
        f"{width:g}": functools.partial(bins, left, right, case, width)
        for width in arguments.widths
    }
    own = functools.partial(plain, left, right, case)
    compared = ways | by_hand
    if arguments.plain_check:
        compared |= {"plain": own}
    prints = {name: fingerprint(query()) for name, query in compared.items()}
    if len(set(prints.values())) > 1:
        message = f"{case.name}: the results differ: {prints}"
        raise RuntimeError(message)
    warm = turns(ways | by_hand, arguments.warm)
    width = min(by_hand, key=lambda width: min(cost.cpu for cost in warm[width]))
    hand = f"bins by hand, {width} mean lengths wide"
    costs = turns(ways | {hand: by_hand[width]}, arguments.repeat)
    rows = f"{next(iter(prints.values()))[0]:,}"
    of_hand = _median(costs[hand])
    lines = [
        [case.name, rows, name, spread(found), f"{_wall(found):.1f}", _times(of_hand, found)]
        for name, found in costs.items()
    ]
    if arguments.plain_seconds:
        cost = at_most(arguments.plain_seconds, own, session)
        over = "" if cost.whole else "> "
        spent, clock = f"{over}{cost.cpu:.1f}", f"{over}{cost.wall:.1f}"
        lines.append([case.name, rows, "Spark's own join", spent, clock, _times(of_hand, [cost])])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _times(by_hand: float, costs: list[Cost]) -> str:
    """How many times as cheap as bins by hand."""
    below = "" if all(cost.whole for cost in costs) else "< "
    return f"{below}{by_hand / _median(costs):.2f}"


def _median(costs: list[Cost]) -> float:
    return float(np.median([cost.cpu for cost in costs]))


def _wall(costs: list[Cost]) -> float:
    return float(np.median([cost.wall for cost in costs]))


HEADER = """\
| case | rows of the result | form | seconds of processors (range) | by the clock \
| bins by hand / this |
| --- | --: | --- | --: | --: | --: |"""


def main() -> None:
    """Run the cases on the command line, and print their table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--rows", type=int, nargs="+", default=[1_000_000])
    add("--keys", type=int, nargs="+", default=[24, 1_000])
    add("--questions", nargs="+", default=QUESTIONS, choices=QUESTIONS)
    add("--long", type=int, default=100, help="rows of a side that are a thousand times as long")
    add("--overlaps", type=float, default=2, help="overlaps per left row")
    add("--widths", type=float, nargs="+", default=[2, 4, 8], help="of bins, in mean lengths")
    add(
        "--parallelism",
        nargs="+",
        default=["auto", "hybrid"],
        choices=("auto", "broadcast", "key", "time", "hybrid"),
        help="the forms of tidegate",
    )
    add("--threads", type=int, default=2)
    add("--warm", type=int, default=2, help="turns before the reported ones, at least one")
    add("--repeat", type=int, default=3)
    add("--shuffle-partitions", type=int, default=8)
    add(
        "--plain-seconds", type=float, default=60, help="limit of Spark's own join; 0 leaves it out"
    )
    add("--plain-check", action="store_true", help="compare the rows of Spark's own join, too")
    add("--memory", default="8g")
    add("--set", nargs="*", default=[], metavar="NAME=VALUE", help="settings for Spark")
    arguments = parser.parse_args()
    session = local_session(
        arguments.threads,
        arguments.memory,
        arguments.shuffle_partitions,
        dict(setting.split("=", 1) for setting in arguments.set),
    )
    print(HEADER, flush=True)
    for rows, keys, question in itertools.product(
        arguments.rows, arguments.keys, arguments.questions
    ):
        case = Case(question, rows, keys, arguments.long, arguments.overlaps)
        with tempfile.TemporaryDirectory() as name:
            case.write(Path(name))
            print(measure(session, case, Path(name), arguments), flush=True)


if __name__ == "__main__":
    main()
