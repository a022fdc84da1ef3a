"""Measures workload W10: several intervals, offsets and tables around each row.

Labels and events are in time order over a year, have uniform keys and distinct times. Sums of the
events' values are exact. The cases are:

- `interval`: count, sum, mean and maximum over the last day at each label;
- `intervals`: the same functions over the last hour, day, 7 days and 30 days;
- `offset`: the last value at each label;
- `offsets`: the last value 0, 1, 10 and 60 s after each label;
- `tables`: the functions of `interval` over each of five tables, which share out the events.

`tidegate` makes one call. `tidegate calls` makes one call for each interval, offset or table, and
puts the columns together. The systems take turns, each in a fresh process per round. Before any
later call is timed, the first results are compared by their number of rows and a checksum of all
columns. The script prints Markdown tables.

    python benches/w10.py --labels 1000000 --events 10000000 --keys 1000 --threads 2 --rounds 5
"""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import child
import turns
from market import distinct_times, prices, random_of
from workload import SEED, hash_rows

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable

    Form = Callable[["Job"], Callable[[], Any]]

YEAR_US = 365 * 86_400_000_000
INTERVALS = ["1h", "1d", "7d", "30d"]
OFFSETS = ["0s", "1s", "10s", "60s"]
CASES = ["interval", "intervals", "offset", "offsets", "tables"]
TABLES = 5
FUNCTIONS = ["n", "sum", "mean", "max"]


@dataclasses.dataclass(frozen=True)
class Job:
    """A system and a case, which the parent process passes as JSON."""

    form: str
    case: str
    folder: str
    threads: int
    repeat: int

    def read(self, name: str) -> pa.Table:
        """Read the labels or the events in time order."""
        with pa.OSFile(str(Path(self.folder) / name)) as file:
            return pa.ipc.open_file(file).read_all()

    @property
    def spans(self) -> list[str]:
        """The intervals or offsets of the case."""
        of_case = {"interval": ["1d"], "intervals": INTERVALS, "offset": ["0s"], "tables": ["1d"]}
        return of_case.get(self.case, OFFSETS)

    def parts(self) -> dict[str, pa.Table]:
        """Return the events of each table."""
        events = self.read("events")
        numbers = np.arange(len(events))
        return {
            f"t{at}": events.take(pa.array(numbers[at::TABLES])).combine_chunks()
            for at in range(TABLES)
        }

    @property
    def has_offsets(self) -> bool:
        """Whether the case looks up values at offsets."""
        return self.case.startswith("offset")


def generate(folder: Path, labels: int, events: int, keys: int) -> None:
    """Write labels at even times, and events at odd times."""
    for name, rows, shift in (("labels", labels, 0), ("events", events, 1)):
        random = random_of(SEED, shift)
        times = 2 * distinct_times(random, 0, YEAR_US // 2, rows) + shift
        columns = {"ts": pa.array(times, pa.timestamp("us")), "k": random.integers(0, keys, rows)}
        if name == "events":
            columns["v"] = prices(random, rows)
        table = pa.table(columns)
        with pa.ipc.new_file(folder / name, table.schema) as file:
            file.write_table(table)


def _functions(span: str, **interval: Any) -> dict[str, Any]:  # noqa: ANN401 - bounds
    from tidegate import agg  # noqa: PLC0415 - each process loads its own system

    made = (agg.count(**interval), *(of("v", **interval) for of in (agg.sum, agg.mean, agg.max)))
    return {f"{name}_{span}": one for name, one in zip(FUNCTIONS, made, strict=True)}


def tidegate(job: Job) -> Callable[[], Any]:
    """Make one call for all intervals or offsets."""
    import tidegate as tg  # noqa: PLC0415 - as above

    labels, events = job.read("labels"), job.read("events")
    query: dict[str, Any] = {"on": "ts", "by": "k", "threads": job.threads}
    if job.case == "tables":
        views = {
            name: tg.FeatureView(part, lower="-1d", aggs=_functions("1d"))
            for name, part in job.parts().items()
        }
        return lambda: tg.features(labels, views, **query)
    if job.case == "offset":
        query["columns"] = ["ts", "k", "v"]
        return lambda: tg.asof_join(labels, events, **query).rename_columns({"v": "v_0s"})
    if job.has_offsets:
        query["columns"] = ["ts", "k", *(f"v_{span}" for span in job.spans)]
        return lambda: tg.asof_join(labels, events, **query, at=job.spans)
    aggs: dict[str, Any] = {}
    for span in job.spans:
        aggs |= _functions(span, lower=f"-{span}")
    return lambda: tg.interval_join(labels, events, **query, lower="-1h", upper="0s", aggs=aggs)


def tidegate_calls(job: Job) -> Callable[[], Any]:
    """Make one call for each interval or offset."""
    import tidegate as tg  # noqa: PLC0415 - as above

    labels, events = job.read("labels"), job.read("events")
    query: dict[str, Any] = {"by": "k", "threads": job.threads}
    parts = job.parts() if job.case == "tables" else {}

    def of_tables() -> pa.Table:
        result = labels
        for table, part in parts.items():
            interval: dict[str, Any] = {"lower": "-1d", "upper": "0s", "aggs": _functions("1d")}
            found = tg.interval_join(labels, part, on="ts", **query, **interval)
            for name in _functions("1d"):
                result = result.append_column(f"{table}_{name}", found[name])
        return result

    if job.case == "tables":
        return of_tables

    def at(span: str) -> pa.Table:
        if job.has_offsets:
            moved = labels.set_column(0, "ts", pc.add(labels["ts"], _duration(span)))
            found = tg.asof_join(moved, events, on="ts", **query)
            return found.select(["v"]).rename_columns([f"v_{span}"])
        names = list(_functions(span))
        found = tg.interval_join(
            labels, events, on="ts", **query, lower=f"-{span}", upper="0s", aggs=_functions(span)
        )
        return found.select(names)

    def run() -> pa.Table:
        result = labels
        for span in job.spans:
            columns = at(span)
            for name in columns.column_names:
                result = result.append_column(name, columns[name])
        return result

    return run


def _duration(span: str) -> pa.Scalar:
    return pa.scalar(int(span.removesuffix("s")) * 1_000_000, pa.duration("us"))


def polars(job: Job) -> Callable[[], Any]:
    """Use rolling expressions over labels and events together, or one as-of join per offset."""
    import polars as pl  # noqa: PLC0415 - as above

    labels, events = pl.DataFrame(job.read("labels")), pl.DataFrame(job.read("events"))
    col = pl.col
    parts = job.parts() if job.case == "tables" else {}
    if job.has_offsets:

        def at(span: str) -> pl.Series:
            moved = labels.with_columns(col("ts").dt.offset_by(span)).set_sorted("ts")
            found = moved.join_asof(events, on="ts", by="k", check_sortedness=False)
            return found["v"].rename(f"v_{span}")

        return lambda: labels.with_columns([at(span) for span in job.spans])

    def rolling(span: str) -> list[pl.Expr]:
        made = {
            "n": col("is_event").rolling_sum_by("ts", span, closed="both"),
            "sum": col("v").rolling_sum_by("ts", span, closed="both"),
            "mean": col("v").rolling_mean_by("ts", span, closed="both"),
            "max": col("v").rolling_max_by("ts", span, closed="both"),
        }
        return [one.over("k").alias(f"{name}_{span}") for name, one in made.items()]

    def run(events: pl.DataFrame = events) -> pl.DataFrame:
        one = pl.lit(1, pl.Int64)
        both = pl.concat(
            [
                labels.with_columns(v=pl.lit(None, pl.Float64), is_event=one - 1),
                events.with_columns(is_event=one),
            ]
        ).sort("ts")
        columns = [expression for span in job.spans for expression in rolling(span)]
        return both.with_columns(columns).filter(col("is_event") == 0).drop("v", "is_event")

    def of_tables() -> pl.DataFrame:
        found = [labels]
        for table, part in parts.items():
            values = run(pl.DataFrame(part)).select(pl.exclude("ts", "k"))
            found.append(values.rename({name: f"{table}_{name}" for name in values.columns}))
        return pl.concat(found, how="horizontal")

    return of_tables if job.case == "tables" else run


def duckdb(job: Job) -> Callable[[], Any]:
    """Use window functions over labels and events together, or one as-of join per offset."""
    import duckdb  # noqa: PLC0415 - as above

    connection = duckdb.connect(config={"threads": job.threads, "preserve_insertion_order": False})
    for name in ("labels", "events"):
        connection.register("arrow_input", job.read(name))
        connection.execute(f"create table {name} as from arrow_input")
    if job.has_offsets:
        joins = "".join(
            f" asof left join events e{at} on l.k = e{at}.k and l.ts + interval {span[:-1]} second"
            f" >= e{at}.ts"
            for at, span in enumerate(job.spans)
        )
        columns = ", ".join(f'e{at}.v as "v_{span}"' for at, span in enumerate(job.spans))
        query = f"select l.ts, l.k, {columns} from labels l{joins}"  # noqa: S608 - fixed strings
    else:
        columns = ", ".join(
            f'{function} over w{span} as "{name}_{span}"'
            for span in job.spans
            for name, function in zip(
                FUNCTIONS, ["count(v)", "sum(v)", "avg(v)", "max(v)"], strict=True
            )
        )
        units = {"h": "hour", "d": "day"}
        windows = ", ".join(
            f"w{span} as (partition by k order by ts range between interval {span[:-1]} "
            f"{units[span[-1]]} preceding and current row)"
            for span in job.spans
        )
        both = "select ts, k, v from events union all select ts, k, null from labels"
        query = (
            f"select * exclude v from (select *, {columns} from ({both}) window {windows})"  # noqa: S608 - as above
            " where v is null"
        )
    return lambda: connection.sql(query).to_arrow_table()


FORMS: dict[str, Form] = {
    "tidegate": tidegate,
    "tidegate calls": tidegate_calls,
    "polars": polars,
    "duckdb": duckdb,
}
WITHOUT = {("tidegate calls", "interval"), ("tidegate calls", "offset"), ("duckdb", "tables")}
"""Cases in which a system would repeat another form, or repeat its own statement for each table."""


def fingerprint(result: Any) -> child.Fingerprint:  # noqa: ANN401 - a table of any system
    """Return the number of rows and an order-independent checksum of all values."""
    table = result if isinstance(result, pa.Table) else result.to_arrow()
    columns = []
    for name in sorted(table.column_names):
        column = table[name]
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64())
        # Some systems return 0 as the sum of no values. Counts of any type are equal.
        missing = 0.0 if "sum" in name else -1.0
        column = pc.fill_null(column.cast(pa.float64(), safe=False), missing)
        columns.append(np.round(column.to_numpy(), 6))
    checksum = hash_rows(columns)
    # Split into two numbers that floats represent exactly.
    return [table.num_rows, checksum >> 32, checksum & 0xFFFF_FFFF]


def measure(job: Job) -> child.Found:
    """Run a job in this process."""
    pa.set_cpu_count(job.threads)
    return child.measure(FORMS[job.form](job), fingerprint, job.repeat)


def main() -> None:
    """Measure all cases, print a table, and write all figures."""
    given = _options()
    every: dict[str, turns.Rounds] = {}
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder), given.labels, given.events, given.keys)
        for case in given.cases.split(","):
            print(case, file=sys.stderr, flush=True)
            systems = [one for one in given.systems.split(",") if (one, case) not in WITHOUT]
            jobs = [Job(one, case, folder, given.threads, given.repeat) for one in systems]
            every[case] = turns.measured(__file__, jobs, given.rounds, given.timeout)
    sizes = f"{given.labels:,} labels, {given.events:,} events, {given.keys:,} keys"
    turns.report(f"{sizes}, {given.threads} threads", every, given)


def _options() -> argparse.Namespace:
    lists: dict[str, Iterable[str]] = {"systems": FORMS, "cases": CASES}
    parser = turns.parser(__doc__, lists)
    parser.add_argument("--labels", type=int, default=1_000_000, help="the number of left rows")
    parser.add_argument("--events", type=int, default=10_000_000, help="the number of right rows")
    parser.add_argument("--keys", type=int, default=1_000, help="the number of keys")
    return turns.parsed(parser, lists)


if __name__ == "__main__":
    child.main(lambda job: measure(Job(**job)), main)
