"""Measures workload W7: aggregates of partners with Polars, DuckDB and a join of pairs.

For each left row, the result has the count, sum, mean and maximum of the right rows with its key in
`[t - d, t]`. The tables are as in W1, and d is chosen for a number of partners per left row. Every
system receives the rows in its own format before the clock starts. Forms take turns, each in a
separate process, and the script prints the medians of all rounds with their range. Counts, sums and
maxima are compared before timing. With `--question quantiles`, the aggregates are the count, median
and 90th percentile.

    python benches/w7.py --rows 1000000 --keys 10,1000 --partners 4,100,1000 --threads 1,2
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

import child
from clickhouse import load_tables
from workload import SPAN_US, Case, push_by_turns, tables

if TYPE_CHECKING:
    from collections.abc import Callable

WARM_UP_ROWS = 10_000
MISSED = "> limit"


@dataclasses.dataclass(frozen=True)
class Job:
    """A form and a case; the parent passes them as JSON."""

    form: str
    rows: int
    keys: int
    partners: int
    threads: int
    repeat: int
    question: str = "sums"

    @property
    def distance(self) -> int:
        """Return the time before a left row at which its partners begin."""
        return SPAN_US * self.partners * self.keys // self.rows

    @property
    def is_possible(self) -> bool:
        """Return whether a key has more rows than the requested partners."""
        return 2 * self.partners * self.keys <= self.rows


def tidegate(left: pa.Table, right: pa.Table, job: Job) -> Callable[[], pa.Table]:
    """Make one call."""
    import tidegate as tg  # noqa: PLC0415 - each process loads its own system

    return lambda: tg.interval_join(left, right, **_question(job))


def tidegate_stream(left: pa.Table, right: pa.Table, job: Job) -> Callable[[], pa.Table]:
    """Push the tables in chunks from two sources, and poll the results after each chunk."""
    import tidegate as tg  # noqa: PLC0415 - as above

    question = _question(job)
    return lambda: push_by_turns(
        tg.IntervalJoin(left.schema, right.schema, **question), left, right
    )


def _question(job: Job) -> dict[str, Any]:
    """Return the arguments of both joins of tidegate."""
    import tidegate as tg  # noqa: PLC0415 - as above

    aggs = {"n": tg.agg.count()}
    if job.question == "sums":
        aggs |= {"sum": tg.agg.sum("d"), "mean": tg.agg.mean("d"), "max": tg.agg.max("d")}
    else:
        aggs |= {"median": tg.agg.median("d"), "p90": tg.agg.quantile("d", 0.9)}
    return {
        "on": ("t", "t2"),
        "by": {"k": "k2"},
        "lower": -job.distance,
        "upper": 0,
        "aggs": aggs,
        "threads": job.threads,
    }


def tidegate_pairs(left: pa.Table, right: pa.Table, job: Job) -> Callable[[], pa.Table]:
    """Group all pairs in Polars, the way without aggregates of partners."""
    import tidegate as tg  # noqa: PLC0415 - as above

    question = _pairs(job)
    return _grouped(lambda numbered: tg.interval_join(numbered, right, **question), left, job)


def scale_oij(left: pa.Table, right: pa.Table, job: Job) -> Callable[[], pa.Table]:
    """Group the pairs of a live Scale-OIJ join in the same way."""
    import tidegate as tg  # noqa: PLC0415 - as above

    question = _pairs(job) | {"parallelism": "scale-oij"}
    return _grouped(
        lambda numbered: push_by_turns(
            tg.IntervalJoin(numbered.schema, right.schema, **question), numbered, right
        ),
        left,
        job,
    )


def splitjoin(left: pa.Table, right: pa.Table, job: Job) -> Callable[[], pa.Table]:
    """Group the pairs of SplitJoin, which compares each row with an entire window."""
    import tidegate as tg  # noqa: PLC0415 - as above

    question = _pairs(job) | {"window": (0, job.distance), "algorithm": "splitjoin"}
    del question["lower"], question["upper"]
    return _grouped(
        lambda numbered: push_by_turns(
            tg.WindowJoin(numbered.schema, right.schema, **question), numbered, right
        ),
        left,
        job,
    )


def _pairs(job: Job) -> dict[str, Any]:
    """Return the arguments of the joins whose pairs are grouped."""
    return {name: value for name, value in _question(job).items() if name != "aggs"} | {
        "columns": ["l", "d"]
    }


def _grouped(
    pairs_of: Callable[[pa.Table], pa.Table], left: pa.Table, job: Job
) -> Callable[[], pa.Table]:
    """Aggregate the pairs of each left row in Polars."""
    import polars as pl  # noqa: PLC0415 - as above

    numbered = left.append_column("l", pa.array(range(left.num_rows), pa.int64()))

    d = pl.col("d")
    functions = {"sum": d.sum(), "mean": d.mean(), "max": d.max()}
    if job.question == "quantiles":
        functions = {"median": d.median(), "p90": d.quantile(0.9, "linear")}

    def run() -> pa.Table:
        found = pl.DataFrame(pairs_of(numbered)).group_by("l").agg(n=pl.len(), **functions)
        return pl.DataFrame(numbered).join(found, on="l", how="left").to_arrow()

    return run


def polars_rolling(left: pa.Table, right: pa.Table, job: Job) -> Callable[[], pa.Table]:
    """Aggregate both sides in one table, with time windows that end at each row."""
    import polars as pl  # noqa: PLC0415 - as above

    col = pl.col
    l = pl.DataFrame(left).lazy().with_columns(v=None, is_left=True)  # noqa: E741
    r = pl.DataFrame(right).lazy().select(k="k2", t="t2", v="d", is_left=False)
    both = pl.concat([r, l], how="diagonal_relaxed").sort("t", maintain_order=True)
    size, v, t = f"{job.distance}i", col("v"), col("t")
    functions = {
        "sum": v.rolling_sum_by(t, size, closed="both"),
        "mean": v.rolling_mean_by(t, size, closed="both"),
        "max": v.rolling_max_by(t, size, closed="both"),
    }
    if job.question == "quantiles":
        functions = {
            "median": v.rolling_median_by(t, size, closed="both"),
            "p90": v.rolling_quantile_by(
                t, size, quantile=0.9, interpolation="linear", closed="both"
            ),
        }
    found = both.with_columns(
        n=v.is_not_null().cast(pl.Int64).rolling_sum_by(t, size, closed="both").over("k"),
        **{name: function.over("k") for name, function in functions.items()},
    )
    rows = found.filter("is_left").select("k", "t", "a", "b", "n", *functions)
    return lambda: rows.collect().to_arrow()


def polars_prefixes(left: pa.Table, right: pa.Table, job: Job) -> Callable[[], pa.Table]:
    """Look up prefix sums per key as of both ends; this cannot compute maxima."""
    import polars as pl  # noqa: PLC0415 - as above

    l, r, col = pl.DataFrame(left).lazy(), pl.DataFrame(right).lazy(), pl.col  # noqa: E741
    prefixes = r.select(
        k="k2",
        t2="t2",
        s=col("d").cum_sum().over("k2"),
        c=pl.int_range(1, pl.len() + 1).over("k2"),
    )
    before = l.with_columns(begin=col("t") - job.distance - 1)
    joined = before.join_asof(prefixes, left_on="t", right_on="t2", by="k").join_asof(
        prefixes, left_on="begin", right_on="t2", by="k", suffix="_b"
    )
    n = col("c").fill_null(0) - col("c_b").fill_null(0)
    total = col("s").fill_null(0) - col("s_b").fill_null(0)
    rows = joined.select("k", "t", "a", "b", n=n, sum=total, mean=total / n)
    return lambda: rows.collect().to_arrow()


def duckdb_range(left: pa.Table, right: pa.Table, job: Job) -> Callable[[], pa.Table]:
    """Aggregate both sides in one table, with a RANGE frame."""
    import duckdb  # noqa: PLC0415 - as above

    connection = duckdb.connect(config={"threads": job.threads, "preserve_insertion_order": False})
    for name, table in (("l", left), ("r", right)):
        connection.register("arrow_input", table)
        connection.execute(f"create table {name} as from arrow_input")
        connection.unregister("arrow_input")
    values = "sum(v) over w as sum, avg(v) over w as mean, max(v) over w as max"
    if job.question == "quantiles":
        values = "median(v) over w as median, quantile_cont(v, 0.9) over w as p90"
    query = f"""
        with both_sides as (
            select k, t, a, b, null::double as v, true as is_left from l union all
            select k2, t2, null, null, d, false from r
        ), found as (
            select *, count(v) over w as n, {values} from both_sides
            window w as (
                partition by k order by t range between {job.distance} preceding and current row
            )
        )
        select * exclude (v, is_left) from found where is_left
    """  # noqa: S608 - numbers only
    return lambda: connection.sql(query).to_arrow_table()


def chdb_range(left: pa.Table, right: pa.Table, job: Job) -> Callable[[], pa.Table]:
    """Aggregate as with DuckDB."""
    session = load_tables({"l": left, "r": right})
    names = "sum, mean, max" if job.question == "sums" else "median, p90"
    values = "sum(v) over w as sum, avg(v) over w as mean, max(v) over w as max"
    if job.question == "quantiles":
        values = "median(v) over w as median, quantileExactInclusive(0.9)(v) over w as p90"
    query = f"""
        select k, t, a, b, n, {names} from (
            select k, t, a, b, is_left, sum(1 - is_left) over w as n, {values} from (
                select k, t, a, b, null as v, 1 as is_left from l union all
                select k2 as k, t2 as t, 0 as a, 0 as b, d as v, 0 as is_left from r
            )
            window w as (
                partition by k order by t range between {job.distance} preceding and current row
            )
        )
        where is_left
        settings max_threads = {job.threads}
    """  # noqa: S608 - numbers only
    return lambda: session.query(query, "ArrowTable")


FORMS: dict[str, Callable[[pa.Table, pa.Table, Job], Callable[[], pa.Table]]] = {
    "tidegate": tidegate,
    "tidegate stream": tidegate_stream,
    "tidegate pairs grouped": tidegate_pairs,
    "scale-oij pairs grouped": scale_oij,
    "splitjoin pairs grouped": splitjoin,
    "polars rolling": polars_rolling,
    "polars prefix sums": polars_prefixes,
    "duckdb range frame": duckdb_range,
    "chdb range frame": chdb_range,
}


def fingerprint(result: pa.Table) -> child.Fingerprint:
    """Return the row count, the partner count, and the sums of aggregates to 6 digits."""
    every = ("sum", "max", "median", "p90")
    names = [name for name in every if name in result.column_names]
    sums = [float(f"{pc.sum(result[name]).as_py():.6g}") for name in names]
    return [result.num_rows, pc.sum(result["n"]).as_py(), *sums]


def measure(job: Job) -> child.Found:
    """Run one form in this process: a small run loads libraries, and the others are measured."""
    pa.set_cpu_count(job.threads)
    left, right = tables(Case(job.rows, job.keys, "uniform"))
    form = FORMS[job.form]
    form(left.slice(0, WARM_UP_ROWS), right.slice(0, WARM_UP_ROWS), job)()
    return child.measure(form(left, right, job), fingerprint, job.repeat)


def main() -> None:
    """Measure every form for every case, in turns, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--rows", default="1000000", help="rows per side, comma-separated")
    add("--keys", default="10,1000,100000", help="numbers of keys, comma-separated")
    add("--partners", default="4,100,1000,10000", help="partners per row, comma-separated")
    add("--threads", default="1,2", help="thread counts, comma-separated")
    add("--forms", default=",".join(FORMS), help="forms to run")
    add("--question", default="sums", choices=["sums", "quantiles"])
    add("--rounds", type=int, default=5, help="processes per form, which take turns")
    add("--repeat", type=int, default=3, help="timed calls per process, after the first")
    add("--timeout", type=float, default=120, help="maximum seconds per process")
    given = parser.parse_args()
    print("| rows | keys | partners | threads | form | first call, s | warm, s | warm, M rows/s |")
    print("| --: | --: | --: | --: | --- | --: | --: | --: |")
    for rows in map(int, given.rows.split(",")):
        for keys in map(int, given.keys.split(",")):
            for partners in map(int, given.partners.split(",")):
                for threads in map(int, given.threads.split(",")):
                    jobs = [
                        Job(form, rows, keys, partners, threads, given.repeat, given.question)
                        for form in given.forms.split(",")
                        if (given.question, form) != ("quantiles", "polars prefix sums")
                    ]
                    if jobs[0].is_possible:
                        _print_case(jobs, given.rounds, given.timeout)


def _print_case(jobs: list[Job], rounds: int, timeout: float) -> None:
    """Run jobs in turns, and print one line each."""
    firsts: dict[str, list[float]] = {job.form: [] for job in jobs}
    warm: dict[str, list[float]] = {job.form: [] for job in jobs}
    expected: child.Fingerprint = []
    for _ in range(rounds):
        for job in jobs:
            found = child.run(__file__, job, timeout)
            if found is None:
                continue
            expected = expected or found.fingerprint
            same = found.fingerprint == expected[: len(found.fingerprint)]
            if not same:
                sys.exit(f"{job.form}: expected {expected}, found {found.fingerprint}")
            firsts[job.form].append(found.first)
            warm[job.form].append(statistics.median(found.seconds))
    for job in jobs:
        head = f"| {job.rows:,} | {job.keys:,} | {job.partners:,} | {job.threads} | {job.form} |"
        if not warm[job.form]:
            print(head, f"{MISSED} | | |", flush=True)
            continue
        rate = 2 * job.rows / statistics.median(warm[job.form]) / 1e6
        columns = (_spread(firsts[job.form]), _spread(warm[job.form]), f"{rate:,.1f}")
        print(head, " | ".join(columns), "|", flush=True)


def _spread(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.3f} ({min(seconds):.3f} to {max(seconds):.3f})"


if __name__ == "__main__":
    child.main(lambda job: measure(Job(**job)), main)
