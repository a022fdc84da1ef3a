"""Measures workload W13: joins of three tables, the last of which matches few pairs.

Trades, quotes and news are in time order and have uniform keys. Each trade is paired with the
quotes in the time before it, 20 on average. In the result, only few of these pairs remain. The
cases are:

- `quotes`: with the news in the second around the quote;
- `trades`: with the news in the second around the trade;
- `both`: with the news in the second around the trade, if the quote's bid is below the median.

`tidegate` calls `join_all`, and `tidegate calls` makes one call per step. The systems take turns,
each in a fresh process per round. Before any later call is timed, the first results are compared by
their number of rows and a checksum of all columns. The script prints a Markdown table.

    python benches/w13.py --trades 1000000 --quotes 1000000 --news 20000 --threads 2 --rounds 3
"""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import child
import turns
from market import distinct_times, prices, random_of
from workload import SEED, hash_rows

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable

    Form = Callable[["Job"], Callable[[], Any]]

DAY_US = 86_400_000_000
SECOND_US = 1_000_000
QUOTES_A_TRADE = 20
CASES = ["quotes", "trades", "both"]
VALUES = {"trades": "price", "quotes": "bid", "news": "item"}


@dataclasses.dataclass(frozen=True)
class Job:
    """A system and a case, which the parent process passes as JSON."""

    form: str
    case: str
    folder: str
    before_us: int
    median: float
    threads: int
    repeat: int

    def read(self) -> list[pa.Table]:
        """Read the trades, the quotes and the news."""
        found = []
        for name in VALUES:
            with pa.OSFile(str(Path(self.folder) / name)) as file:
                found.append(pa.ipc.open_file(file).read_all())
        return found

    @property
    def where(self) -> str | None:
        """The condition of the last step."""
        return f"left.bid < {self.median}" if self.case == "both" else None

    @property
    def time(self) -> str:
        """The column of the pairs that the last step compares."""
        return "ts_right" if self.case == "quotes" else "ts"


def generate(folder: Path, rows: dict[str, int], keys: int) -> float:
    """Write the tables, and return the median bid."""
    for at, (name, value) in enumerate(VALUES.items()):
        random = random_of(SEED, at)
        columns = {
            "ts": distinct_times(random, 0, DAY_US, rows[name]),
            "k": random.integers(0, keys, rows[name]),
            value: prices(random, rows[name]),
        }
        table = pa.table(columns)
        if name == "quotes":
            median = float(np.median(columns[value]))
        with pa.ipc.new_file(folder / name, table.schema) as file:
            file.write_table(table)
    return median


def _steps(job: Job) -> tuple[dict[str, Any], dict[str, Any]]:
    first = {"on": "ts", "by": "k", "lower": -job.before_us, "upper": 0}
    last = {
        "on": (job.time, "ts"), "by": "k", "lower": -SECOND_US, "upper": SECOND_US,
        "suffix": "_news", "where": job.where,
    }  # fmt: skip
    return first, last


def tidegate(job: Job) -> Callable[[], Any]:
    """Make one call for both steps."""
    import tidegate as tg  # noqa: PLC0415 - each process loads its own system

    trades, quotes, news = job.read()
    first, last = _steps(job)
    steps = tg.Step(tg.interval_join, quotes, **first), tg.Step(tg.interval_join, news, **last)
    return lambda: tg.join_all(trades, *steps, threads=job.threads)


def tidegate_calls(job: Job) -> Callable[[], Any]:
    """Make one call per step."""
    import tidegate as tg  # noqa: PLC0415 - as above

    trades, quotes, news = job.read()
    first, last = _steps(job)

    def run() -> pa.Table:
        pairs = tg.interval_join(trades, quotes, **first, threads=job.threads)
        return tg.interval_join(pairs, news, **last, threads=job.threads)

    return run


def polars(job: Job) -> Callable[[], Any]:
    """Join with inequalities, and let Polars order the steps."""
    import polars as pl  # noqa: PLC0415 - as above

    col = pl.col
    trades, quotes, news = (pl.DataFrame(table).lazy() for table in job.read())
    quotes = quotes.rename({"ts": "ts_right"})
    news = news.rename({"ts": "ts_news"})

    def run() -> pl.DataFrame:
        pairs = trades.join(quotes, on="k").filter(
            col("ts_right").is_between(col("ts") - job.before_us, col("ts"))
        )
        found = pairs.join(news, on="k").filter(
            col("ts_news").is_between(col(job.time) - SECOND_US, col(job.time) + SECOND_US)
        )
        if job.case == "both":
            found = found.filter(col("bid") < job.median)
        return found.collect(engine="streaming")

    return run


def duckdb(job: Job) -> Callable[[], Any]:
    """Join with inequalities, and let DuckDB order the steps."""
    import duckdb  # noqa: PLC0415 - as above

    connection = duckdb.connect(config={"threads": job.threads, "preserve_insertion_order": False})
    for name, table in zip(VALUES, job.read(), strict=True):
        connection.register("arrow_input", table)
        connection.execute(f"create table {name} as from arrow_input")
    time = "q.ts" if job.case == "quotes" else "t.ts"
    query = (
        "select t.ts, t.k, price, q.ts as ts_right, bid, n.ts as ts_news, item from trades t"  # noqa: S608 - fixed strings
        f" join quotes q on t.k = q.k and q.ts between t.ts - {job.before_us} and t.ts"
        f" join news n on t.k = n.k and n.ts between {time} - {SECOND_US} and {time} + {SECOND_US}"
    )
    if job.case == "both":
        query += f" where bid < {job.median}"
    return lambda: connection.sql(query).to_arrow_table()


FORMS: dict[str, Form] = {
    "tidegate": tidegate,
    "tidegate calls": tidegate_calls,
    "polars": polars,
    "duckdb": duckdb,
}


def fingerprint(result: Any) -> child.Fingerprint:  # noqa: ANN401 - a table of any system
    """Return the number of rows and an order-independent checksum of all values."""
    table = result if isinstance(result, pa.Table) else result.to_arrow()
    names = sorted(table.column_names)
    checksum = hash_rows([table[name].cast(pa.float64()).to_numpy() for name in names])
    # Split into two numbers that floats represent exactly.
    return [table.num_rows, checksum >> 32, checksum & 0xFFFF_FFFF]


def measure(job: Job) -> child.Found:
    """Run a job in this process."""
    pa.set_cpu_count(job.threads)
    return child.measure(FORMS[job.form](job), fingerprint, job.repeat)


def main() -> None:
    """Measure all cases, print a table, and write all figures."""
    given = _options()
    rows = {name: getattr(given, name) for name in VALUES}
    # A trade is paired with the quotes of its key that precede it by at most this time.
    before_us = QUOTES_A_TRADE * given.keys * DAY_US // given.quotes
    every: dict[str, turns.Rounds] = {}
    with tempfile.TemporaryDirectory() as folder:
        median = generate(Path(folder), rows, given.keys)
        for case in given.cases.split(","):
            print(case, file=sys.stderr, flush=True)
            jobs = [
                Job(one, case, folder, before_us, median, given.threads, given.repeat)
                for one in given.systems.split(",")
            ]
            every[case] = turns.measured(__file__, jobs, given.rounds, given.timeout)
    sizes = ", ".join(f"{count:,} {name}" for name, count in rows.items())
    turns.report(f"{sizes}, {given.keys:,} keys, {given.threads} threads", every, given)


def _options() -> argparse.Namespace:
    lists: dict[str, Iterable[str]] = {"systems": FORMS, "cases": CASES}
    parser = turns.parser(__doc__, lists)
    parser.add_argument("--trades", type=int, default=1_000_000, help="the number of trades")
    parser.add_argument("--quotes", type=int, default=1_000_000, help="the number of quotes")
    parser.add_argument("--news", type=int, default=20_000, help="the number of news")
    parser.add_argument("--keys", type=int, default=100, help="the number of keys")
    return turns.parsed(parser, lists)


if __name__ == "__main__":
    child.main(lambda job: measure(Job(**job)), main)
