"""Measures workload W8: overlap joins by key with polars-bio, pyjanitor, DuckDB and Polars.

The input is two tables of intervals with 24 keys and two overlaps per left row on average. Starts
are uniform, in order or shuffled. Lengths are uniform, exponential, or Pareto (1.5), whose longest
rows are thousands of times as long as the mean. `pairs` returns all columns of all pairs, and
`counts` returns each left row with its number of pairs. In `points`, right rows have a start but no
end, which is an interval join whose upper end is computed from columns of the left row. With
`--closed left`, ends do not belong to the intervals, no interval is empty, and `points` is skipped.
Every system receives the rows in its own format before the clock starts. Forms take turns, each in
a separate process, and the script prints the medians of all rounds with their range. Row counts and
sums are compared before timing.

    python benches/w8.py --rows 1000000,10000000 --python polars-bio=.venv-bench-bio/bin/python
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import statistics
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import child

if TYPE_CHECKING:
    from collections.abc import Callable

SPAN = 1_000_000_000
RIGHT_ROWS = 1_000_000
OVERLAPS = 2
PARETO = 1.5
WARM_UP_ROWS = 10_000
MISSED = "> limit"


@dataclasses.dataclass(frozen=True)
class Job:
    """A form and a case; the parent passes them as JSON."""

    form: str
    rows: int
    keys: int
    lengths: str
    order: str
    closed: str
    threads: int
    repeat: int

    @property
    def less(self) -> str:
        """Return the comparison between a start and the end of an overlapping row."""
        return "<=" if self.closed == "both" else "<"

    @property
    def question(self) -> str:
        """Return the query: pairs, counts, or pairs with points."""
        question = self.form.rsplit(" ", 1)[1]
        return question if question in ("counts", "points") else "pairs"


def tables(job: Job) -> tuple[pa.Table, pa.Table]:
    """Return the left and the right table."""
    left, right = (_table(job, rows, seed) for rows, seed in ((job.rows, 1), (RIGHT_ROWS, 2)))
    if job.question == "points":
        right = right.set_column(2, "e", right["s"])
    return left.rename_columns(["k", "s", "e", "a"]), right.rename_columns(["k2", "s2", "e2", "b"])


def _table(job: Job, rows: int, seed: int) -> pa.Table:
    random = np.random.default_rng([42, seed])
    # Two rows overlap if their starts are closer than the length of the earlier row.
    mean = OVERLAPS * SPAN * job.keys / RIGHT_ROWS / 2
    starts = random.integers(0, SPAN, rows)
    if job.order == "sorted":
        starts.sort()
    if job.lengths == "uniform":
        lengths = random.uniform(0, 2 * mean, rows)
    elif job.lengths == "exponential":
        lengths = random.exponential(mean, rows)
    else:
        lengths = random.pareto(PARETO, rows) * mean * (PARETO - 1)
    # Systems differ in their treatment of empty intervals.
    shortest = 1 if job.closed == "left" else 0
    ends = starts + np.clip(lengths, shortest, SPAN).astype(np.int64)
    keys = random.integers(0, job.keys, rows)
    return pa.table({"k": keys, "s": starts, "e": ends, "v": random.random(rows)})


def _tidegate(job: Job) -> dict[str, Any]:
    on = (("s", "e"), ("s2", "e2"))
    return {"on": on, "by": {"k": "k2"}, "closed": job.closed, "threads": job.threads}


def tidegate_pairs(left: pa.Table, right: pa.Table, job: Job) -> Callable[[], pa.Table]:
    """Make one call."""
    import tidegate as tg  # noqa: PLC0415 - each process loads its own system

    return lambda: tg.overlap_join(left, right, **_tidegate(job))


def tidegate_batches(left: pa.Table, right: pa.Table, job: Job) -> Callable[[], pa.Table]:
    """Join batch by batch, and drop each batch except the last."""
    import tidegate as tg  # noqa: PLC0415 - as above

    def run() -> pa.Table:
        rows, total = 0, 0.0
        with tg.overlap_join_batches(left, right, **_tidegate(job)) as batches:
            for batch in batches:
                rows += batch.num_rows
                total += pc.sum(batch.column("b")).as_py() or 0.0
        return pa.table({"n": [rows], "b": [total]})

    return run


def tidegate_counts(left: pa.Table, right: pa.Table, job: Job) -> Callable[[], pa.Table]:
    """Count the overlaps of each left row."""
    import tidegate as tg  # noqa: PLC0415 - as above

    return lambda: tg.overlap_join(left, right, **_tidegate(job), aggs={"n": tg.agg.count()})


def tidegate_points(left: pa.Table, right: pa.Table, job: Job) -> Callable[[], pa.Table]:
    """Use an interval join with the length of the left row as the upper end."""
    import tidegate as tg  # noqa: PLC0415 - as above

    length = tg.left.e - tg.left.s
    return lambda: tg.interval_join(
        left, right, on=("s", "s2"), by={"k": "k2"}, lower=0, upper=length, threads=job.threads
    )


def tidegate_overlaps(left: pa.Table, right: pa.Table, job: Job) -> Callable[[], pa.Table]:
    """Use an overlap join of intervals and points."""
    import tidegate as tg  # noqa: PLC0415 - as above

    return lambda: tg.overlap_join(
        left, right, **_tidegate(job) | {"on": (("s", "e"), ("s2", "s2"))}
    )


def polars_pairs(left: pa.Table, right: pa.Table, job: Job) -> Callable[[], pa.Table]:
    """Use an equi-join with a filter, as planned by Polars' `join_where`."""
    import polars as pl  # noqa: PLC0415 - as above

    l, r = pl.DataFrame(left).lazy(), pl.DataFrame(right).lazy()  # noqa: E741
    conditions = ("k = k2", f"s {job.less} e2", f"s2 {job.less} e")
    found = l.join_where(r, *map(pl.sql_expr, conditions))
    return lambda: found.collect().to_arrow()


def polars_bio_pairs(left: pa.Table, right: pa.Table, job: Job) -> Callable[[], pa.Table]:
    """Use `overlap` with string contigs."""
    pb, l, r = _polars_bio(left, right, job)  # noqa: E741
    return lambda: pb.overlap(l, r, suffixes=("_l", "_r")).collect().to_arrow()


def polars_bio_counts(left: pa.Table, right: pa.Table, job: Job) -> Callable[[], pa.Table]:
    """Use `count_overlaps`."""
    pb, l, r = _polars_bio(left, right, job)  # noqa: E741
    return lambda: pb.count_overlaps(l, r).collect().to_arrow().rename_columns({"count": "n"})


def _polars_bio(left: pa.Table, right: pa.Table, job: Job) -> tuple[Any, Any, Any]:
    import polars as pl  # noqa: PLC0415 - as above
    import polars_bio as pb  # noqa: PLC0415 - as above

    pb.set_option("datafusion.bio.coordinate_system_check", "false")
    # Zero-based coordinates have half-open intervals, and one-based coordinates have closed ones.
    is_half_open = str(job.closed == "left").lower()
    pb.set_option("datafusion.bio.coordinate_system_zero_based", is_half_open)
    pb.set_option("datafusion.execution.target_partitions", str(job.threads))
    frames = []
    for table in (left, right):
        key, start, end, _ = table.column_names
        frame = pl.DataFrame(table).with_columns(pl.col(key).cast(pl.String))
        frames.append(frame.rename({key: "chrom", start: "start", end: "end"}))
    return pb, *frames


def pyjanitor_pairs(left: pa.Table, right: pa.Table, job: Job) -> Callable[[], pa.Table]:
    """Use `conditional_join` on pandas frames."""
    import janitor  # noqa: F401, PLC0415 - it adds the method

    l, r = left.to_pandas(), right.to_pandas()  # noqa: E741
    on = (("k", "k2", "=="), ("s", "e2", job.less), ("e", "s2", job.less.replace("<", ">")))
    return lambda: pa.Table.from_pandas(l.conditional_join(r, *on), preserve_index=False)


def duckdb_pairs(left: pa.Table, right: pa.Table, job: Job) -> Callable[[], pa.Table]:
    """Use the conditions in SQL, which run as a range join (IEJoin)."""
    connection = _duckdb(left, right, job)
    connection.execute("set prefer_range_joins = true")
    query = f"from l join r on k = k2 and s {job.less} e2 and s2 {job.less} e"
    return lambda: connection.sql(query).to_arrow_table()


def duckdb_points(left: pa.Table, right: pa.Table, job: Job) -> Callable[[], pa.Table]:
    """Use SQL for points between two columns."""
    connection = _duckdb(left, right, job)
    connection.execute("set prefer_range_joins = true")
    query = "from l join r on k = k2 and s2 between s and e"
    return lambda: connection.sql(query).to_arrow_table()


def duckdb_counts(left: pa.Table, right: pa.Table, job: Job) -> Callable[[], pa.Table]:
    """Find positions of starts and ends, by as-of joins with numbered rows per key."""
    connection = _duckdb(left, right, job)
    more, less = (">=", ">") if job.closed == "both" else (">", ">=")
    query = f"""
        with begun as (select k2, s2, count(*) over (partition by k2 order by s2) as b from r),
        ended as (select k2, e2, count(*) over (partition by k2 order by e2) as d from r)
        select l.*, coalesce(b, 0) - coalesce(d, 0) as n from l
        asof left join begun on l.k = begun.k2 and l.e {more} begun.s2
        asof left join ended on l.k = ended.k2 and l.s {less} ended.e2
    """  # noqa: S608 - ours
    return lambda: connection.sql(query).to_arrow_table()


def _duckdb(left: pa.Table, right: pa.Table, job: Job) -> Any:  # noqa: ANN401 - a connection
    import duckdb  # noqa: PLC0415 - as above

    connection = duckdb.connect(config={"threads": job.threads, "preserve_insertion_order": False})
    for name, table in (("l", left), ("r", right)):
        connection.register("arrow_input", table)
        connection.execute(f"create table {name} as from arrow_input")
        connection.unregister("arrow_input")
    return connection


FORMS: dict[str, Callable[[pa.Table, pa.Table, Job], Callable[[], pa.Table]]] = {
    "tidegate pairs": tidegate_pairs,
    "tidegate batches": tidegate_batches,
    "polars-bio pairs": polars_bio_pairs,
    "pyjanitor pairs": pyjanitor_pairs,
    "duckdb pairs": duckdb_pairs,
    "polars pairs": polars_pairs,
    "tidegate counts": tidegate_counts,
    "polars-bio counts": polars_bio_counts,
    "duckdb counts": duckdb_counts,
    "tidegate points": tidegate_points,
    "tidegate-overlap points": tidegate_overlaps,
    "polars-bio points": polars_bio_pairs,
    "duckdb points": duckdb_points,
    "polars points": polars_pairs,
}


def fingerprint(result: pa.Table) -> child.Fingerprint:
    """Return the number of pairs, and sums of a right and a left column to 6 digits."""
    names = result.column_names
    if "n" in names and "a" in names:
        sums = [pc.sum(pc.multiply(result["n"], result["a"]))]
    else:
        sums = [pc.sum(result[name]) for name in ("b", "b_r", "a", "a_l") if name in names]
    pairs = pc.sum(result["n"]).as_py() if "n" in names else result.num_rows
    return [pairs, *(float(f"{value.as_py():.6g}") for value in sums)]


def measure(job: Job) -> child.Found:
    """Run one form in this process: a small run loads libraries, and the others are measured."""
    pa.set_cpu_count(job.threads)
    left, right = tables(job)
    form = FORMS[job.form]
    form(left.slice(0, WARM_UP_ROWS), right.slice(0, WARM_UP_ROWS), job)()
    return child.measure(form(left, right, job), fingerprint, job.repeat)


def main() -> None:
    """Measure every form for every case, in turns, and print a table."""
    options = _options()
    pythons = dict(entry.split("=", 1) for entry in options.python)
    print(
        "| left rows | keys | lengths | order | closed | threads | form | first call, s | warm, s "
        "| times |"
    )
    print("| --: | --: | --- | --- | --- | --: | --- | --: | --: | --: |")
    cases = itertools.product(
        map(int, options.rows.split(",")),
        options.lengths.split(","),
        options.order.split(","),
        options.closed.split(","),
        map(int, options.threads.split(",")),
    )
    for rows, lengths, order, closed, threads in cases:
        jobs = [
            Job(form, rows, options.keys, lengths, order, closed, threads, options.repeat)
            for form in options.forms.split(",")
        ]
        for question in ("pairs", "counts", "points"):
            asked = [job for job in jobs if job.question == question]
            if question == "points" and closed != "both":
                continue
            _compare(asked, options.rounds, options.timeout, pythons)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--rows", default="1000000", help="left rows, comma-separated")
    add("--keys", type=int, default=24, help="the number of keys")
    add(
        "--lengths",
        default="uniform,exponential,pareto",
        help="distributions of lengths, comma-separated",
    )
    add("--order", default="sorted,shuffled", help="orders of rows, comma-separated")
    add("--closed", default="both", help="both, or left for half-open intervals")
    add("--threads", default="2", help="thread counts, comma-separated")
    add("--forms", default=",".join(FORMS), help="forms to run")
    add(
        "--python",
        action="append",
        default=[],
        help="SYSTEM=PYTHON, the interpreter of a system's environment",
    )
    add("--repeat", type=int, default=5, help="warm calls per process")
    add("--rounds", type=int, default=5, help="processes per form")
    add("--timeout", type=float, default=300, help="maximum seconds per process")
    return parser.parse_args()


def _compare(jobs: list[Job], rounds: int, timeout: float, pythons: dict[str, str]) -> None:
    """Run the jobs of one query in turns, and print one line each."""
    firsts: dict[str, list[float]] = {job.form: [] for job in jobs}
    warm: dict[str, list[float]] = {job.form: [] for job in jobs}
    expected: child.Fingerprint = []
    for number in range(rounds):
        for job in jobs if number % 2 == 0 else jobs[::-1]:
            python = pythons.get(job.form.rsplit(" ", 1)[0], sys.executable)
            found = child.run(__file__, job, timeout, python)
            if found is None:
                continue
            expected = expected or found.fingerprint
            both = zip(found.fingerprint, expected, strict=False)
            if any(one != other for one, other in both):
                sys.exit(f"{job.form}: expected {expected}, found {found.fingerprint}")
            firsts[job.form].append(found.first)
            warm[job.form].append(statistics.median(found.seconds))
    own = warm[jobs[0].form] if jobs else []
    for job in jobs:
        head = (
            f"| {job.rows:,} | {job.keys} | {job.lengths} | {job.order} | {job.closed} | "
            f"{job.threads} | {job.form} |"
        )
        if not warm[job.form]:
            print(head, f"{MISSED} | | |", flush=True)
            continue
        ratios = [other / mine for other, mine in zip(warm[job.form], own, strict=False)]
        columns = (_spread(firsts[job.form]), _spread(warm[job.form]), _spread(ratios, 1))
        print(head, " | ".join(columns), "|", flush=True)


def _spread(values: list[float], digits: int = 3) -> str:
    if not values:
        return ""
    median, low, high = statistics.median(values), min(values), max(values)
    return f"{median:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


if __name__ == "__main__":
    child.main(lambda job: measure(Job(**job)), main)
