"""Measures workload W12: calendar windows, windows without rows, and rolling windows.

The rows are in time order, have uniform keys, and have values whose sums are exact. The cases are:

- `fixed-days`: windows of 24 hours, without a time zone;
- `days`, `weeks` and `months`: calendar windows in New York, over ten years;
- `hours-filled`: hours of each key, including those without rows, with the last mean;
- `rolling-time` and `rolling-rows`: the mean of the last 5 minutes or 20 rows at each row, over
  10,000 s.

The systems take turns, each in a fresh process per round. Before any later call is timed, the first
results are compared by their number of rows and a checksum of all columns. The script prints
Markdown tables.

    python benches/w12.py --rows 10000000 --keys 243 --threads 2 --rounds 5 --json w12.json
"""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

ZONE = "America/New_York"
YEARS_US = 3_652 * 86_400_000_000
SHORT_US = 10_000_000_000
BEGIN_US = 1_451_606_400_000_000  # 2016-01-01
WINDOWS = {"days": "1d", "weeks": "1w", "months": "1mo", "fixed-days": "24h"}
ROLLING = ("rolling-time", "rolling-rows")
CASES = ["fixed-days", "days", "weeks", "months", "hours-filled", *ROLLING]


@dataclasses.dataclass(frozen=True)
class Job:
    """A system and a case, which the parent process passes as JSON."""

    form: str
    case: str
    folder: str
    threads: int
    repeat: int

    @property
    def rows(self) -> pa.Table:
        """Read the rows in time order: ts, k, v."""
        with pa.OSFile(str(Path(self.folder) / file_of(self.case))) as file:
            return pa.ipc.open_file(file).read_all()


def file_of(case: str) -> str:
    """Return the name of the file with the rows of a case."""
    return "short" if case in ROLLING else "years"


def generate(path: Path, rows: int, keys: int, span: int) -> None:
    """Write rows with distinct times and uniform keys."""
    random = random_of(SEED, span)
    times = BEGIN_US + distinct_times(random, 0, span, rows)
    columns = {
        "ts": pa.array(times, pa.timestamp("us", ZONE)),
        "k": random.integers(0, keys, rows),
        "v": prices(random, rows),
    }
    table = pa.table(columns)
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table)


def tidegate(job: Job) -> Callable[[], Any]:
    """Make one call."""
    import tidegate as tg  # noqa: PLC0415 - each process loads its own system

    rows, threads = job.rows, job.threads
    aggs = {"n": tg.agg.count(), "mean": tg.agg.mean("v")}
    if job.case in ROLLING:
        size = "5m" if job.case == "rolling-time" else tg.rows(20)
        mean = {"mean": aggs["mean"]}
        return lambda: tg.rolling(rows, on="ts", by="k", size=size, aggs=mean, threads=threads)
    windows: dict[str, Any] = {"on": "ts", "by": "k", "aggs": aggs, "threads": threads}
    if job.case == "hours-filled":
        return lambda: tg.aggregate(rows, **windows, size="1h", empty={"mean": "last"})
    if job.case == "fixed-days":
        rows = rows.set_column(0, "ts", rows["ts"].cast(pa.timestamp("us")))
    return lambda: tg.aggregate(rows, **windows, size=WINDOWS[job.case])


def polars(job: Job) -> Callable[[], Any]:
    """Truncate times and group by them, or use rolling expressions, as an expert would."""
    import polars as pl  # noqa: PLC0415 - as above

    frame, col = pl.DataFrame(job.rows), pl.col
    if job.case in ROLLING:
        rolling = (
            col("v").rolling_mean_by("ts", "5m")
            if job.case == "rolling-time"
            else col("v").rolling_mean(20, min_samples=1)
        )
        return lambda: frame.with_columns(mean=rolling.over("k"))
    every = WINDOWS.get(job.case, "1h")
    if job.case == "fixed-days":
        frame = frame.with_columns(col("ts").dt.convert_time_zone("UTC"))
    query = (
        frame.lazy()
        .group_by(window_start=col("ts").dt.truncate(every), k=col("k"))
        .agg(n=pl.len().cast(pl.Int64), mean=col("v").mean())
    )
    if job.case == "hours-filled":
        return lambda: (
            query.sort("k", "window_start")
            .collect(engine="streaming")
            .upsample("window_start", every="1h", group_by="k", maintain_order=True)
            .with_columns(col("k", "mean").forward_fill(), col("n").fill_null(0))
        )
    return lambda: query.collect(engine="streaming")


def polars_dynamic(job: Job) -> Callable[[], Any]:
    """Use `group_by_dynamic` or `rolling`, as most users would first write it."""
    import polars as pl  # noqa: PLC0415 - as above

    frame, col = pl.DataFrame(job.rows), pl.col
    aggs = {"n": pl.len().cast(pl.Int64), "mean": col("v").mean()}
    if job.case in ROLLING:
        rolling = frame.lazy().rolling("ts", period="5m", group_by="k").agg(col("v").last(), **aggs)
        return lambda: rolling.drop("n").collect()
    every = WINDOWS[job.case]
    if job.case == "fixed-days":
        frame = frame.with_columns(col("ts").dt.convert_time_zone("UTC"))
    windows = frame.lazy().group_by_dynamic("ts", every=every, group_by="k").agg(**aggs)
    return lambda: windows.rename({"ts": "window_start"}).collect()


def duckdb(job: Job) -> Callable[[], Any]:
    """Truncate times and group by them, or use window functions. Times are in UTC."""
    import duckdb  # noqa: PLC0415 - as above

    connection = duckdb.connect(config={"threads": job.threads, "preserve_insertion_order": False})
    rows = job.rows
    # The extension for time zones is not part of the package.
    rows = rows.set_column(0, "ts", rows["ts"].cast(pa.timestamp("us")))
    connection.register("arrow_input", rows)
    connection.execute("create table r as from arrow_input")
    if job.case in ROLLING:
        frame = (
            "range between interval 299999999 microseconds preceding and current row"
            if job.case == "rolling-time"
            else "rows between 19 preceding and current row"
        )
        query = f"select *, avg(v) over (partition by k order by ts {frame}) as mean from r"  # noqa: S608 - fixed strings
    else:
        query = """
            select date_trunc('day', ts)::timestamp as window_start, k, count(*) as n,
                avg(v) as mean
            from r group by all
        """
    return lambda: connection.sql(query).to_arrow_table()


FORMS: dict[str, Form] = {
    "tidegate": tidegate,
    "polars": polars,
    "polars dynamic": polars_dynamic,
    "duckdb": duckdb,
}
WITHOUT = {("polars dynamic", "hours-filled"), ("polars dynamic", "rolling-rows")}
WITHOUT |= {("duckdb", case) for case in ("days", "weeks", "months", "hours-filled")}
"""Cases that a system does not run: they repeat another form, or need a join or an extension."""


def fingerprint(result: Any) -> child.Fingerprint:  # noqa: ANN401 - a table of any system
    """Return the number of rows and an order-independent checksum of all values."""
    table = result if isinstance(result, pa.Table) else result.to_arrow()
    is_rolling = "v" in table.column_names
    names = ("ts", "k", "v", "mean") if is_rolling else ("window_start", "k", "n", "mean")
    columns = []
    for name in names:
        column = table[name]
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
        columns.append(pc.fill_null(column, 0).to_numpy())
    checksum = hash_rows(columns)
    # Split into two numbers that floats represent exactly.
    return [table.num_rows, checksum >> 32, checksum & 0xFFFF_FFFF]


def measure(job: Job) -> child.Found:
    """Run a job in this process."""
    pa.set_cpu_count(job.threads)
    return child.measure(FORMS[job.form](job), fingerprint, job.repeat)


def main() -> None:
    """Measure all cases, print tables, and write all figures."""
    given = _options()
    every: dict[str, turns.Rounds] = {}
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder) / "years", given.rows, given.keys, YEARS_US)
        generate(Path(folder) / "short", given.rows, given.keys, SHORT_US)
        for case in given.cases.split(","):
            print(case, file=sys.stderr, flush=True)
            systems = [one for one in given.systems.split(",") if (one, case) not in WITHOUT]
            jobs = [Job(one, case, folder, given.threads, given.repeat) for one in systems]
            every[case] = turns.measured(__file__, jobs, given.rounds, given.timeout)
    heading = f"{given.rows:,} rows, {given.keys:,} keys, {given.threads} threads"
    turns.report(heading, every, given, given.rows)


def _options() -> argparse.Namespace:
    lists: dict[str, Iterable[str]] = {"systems": FORMS, "cases": CASES}
    parser = turns.parser(__doc__, lists)
    parser.add_argument("--rows", type=int, default=10_000_000, help="the number of rows")
    parser.add_argument("--keys", type=int, default=243, help="the number of keys")
    return turns.parsed(parser, lists)


if __name__ == "__main__":
    child.main(lambda job: measure(Job(**job)), main)
