"""Measures W8 on Spark: overlap joins with tidegate, hand-written bins, and Spark's own join.

The input is two tables with a key. Starts are uniform and in order, and lengths are exponential: a
left row overlaps `--overlaps` right rows on average, not counting long ones. `--long` rows per side
are a thousand times as long. `points` joins left points with right intervals, and `intervals` joins
two tables of intervals. `counts` returns each left interval with its number of overlaps, including
intervals without any. `ends` is an interval join whose right rows have one time, and whose upper
end is computed from columns of the left row.

The forms of tidegate are values of `--parallelism`: its own choice, and native calls that receive
all rows. All forms and the hand-written bins are measured in turns, in one session.

For hand-written bins, an expert repeats a row for each time bin that it covers. Bins are `--widths`
times as wide as the average length of a row. Two rows with the same key and bin form a pair if they
overlap and this is the first bin that both cover, so no duplicates have to be removed. Counts group
these pairs by left row. Each width is tried in the `--warm` turns, which are not reported. The
cheapest width is timed, and the table shows it.

Row counts and sums of hashes are compared before timing. `w1_spark.py` describes how figures are
computed. Spark's own join runs once and is stopped at a time limit. Its rows are compared only with
`--plain-check`, if it finishes. Linux only.

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

SPAN = 1_000_000_000  # time span of the starts in microseconds
LONGER = 1_000
QUESTIONS = ("points", "intervals", "counts", "ends")
LEFT, RIGHT = ("id", "key", "s", "e"), ("v", "rkey", "rs", "re")


@dataclass(frozen=True)
class Case:
    """The query, rows per side, keys, long rows per side, and overlaps per left row."""

    question: str
    rows: int
    keys: int
    long: int
    overlaps: float

    @property
    def mean(self) -> int:
        """Return the average length of rows, except long ones."""
        # Two rows overlap if their starts are closer than the length of the earlier row.
        both = 1 if self.points is not None else 2
        return max(1, round(self.overlaps * SPAN * self.keys / self.rows / both))

    @property
    def points(self) -> tuple[str, ...] | None:
        """Return the columns of the side whose rows have a single time, if there is one."""
        return {"points": LEFT, "ends": RIGHT}.get(self.question)

    @property
    def name(self) -> str:
        """Return the name of the case in the table."""
        return f"{self.question}: {self.rows:,} rows, {self.keys:,} keys, {self.long:,} long"

    def write(self, folder: Path) -> None:
        """Write both sides as Parquet files, in the order of their starts."""
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
    """Join with `tidegate.spark.overlap_join` with its defaults, except for `more` arguments."""
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
    """Return the pairs, or each left row with their number."""
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
    """Join with Spark's own join: equal keys and a residual predicate."""
    return _answer(left.join(right, _overlap()), left, case)


def bins(left: DataFrame, right: DataFrame, case: Case, times: float) -> DataFrame:
    """Join by hand-written bins: rows are repeated for every time bin that they cover."""
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
    """Return table rows, one per form; raise an error if two forms disagree."""
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
    """Return the ratio to the cost of hand-written bins."""
    below = "" if all(cost.whole for cost in costs) else "< "
    return f"{below}{by_hand / _median(costs):.2f}"


def _median(costs: list[Cost]) -> float:
    return float(np.median([cost.cpu for cost in costs]))


def _wall(costs: list[Cost]) -> float:
    return float(np.median([cost.wall for cost in costs]))


HEADER = """\
| case | result rows | form | CPU s (range) | wall-clock s \
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
    add(
        "--widths", type=float, nargs="+", default=[2, 4, 8], help="widths of bins, in mean lengths"
    )
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
        "--plain-seconds", type=float, default=60, help="time limit of Spark's own join; 0 skips it"
    )
    add("--plain-check", action="store_true", help="also compare the rows of Spark's own join")
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
