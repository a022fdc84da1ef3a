"""Measures workload W2 on tables: band joins of 3w rows per side with Polars, DuckDB and NumPy.

`x` is uniform int32, `n` the row's number. *band*: `abs(l.x - r.x) <= d`. *window*: also `-w <= r.n
- l.n < w`, which are the contents of count windows of w rows if rows arrive in turn. d is chosen
for 2 matches per row. Every system receives the rows in its own format before the clock starts, and
returns all four columns as one table. Only tidegate's table is in order. Before timing, the number
of rows and the sums of all columns are compared.

    python benches/w2.py --windows 65536,1048576 --cases band,window --threads 1,2
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import child

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl
    from numpy.typing import NDArray

SEED = 42
SIDE, MATCHES = 3, 2  # windows per side, matches per row
COLUMNS = ("n", "x", "n_right", "x_right")
WARM_UP_ROWS = 10_000


@dataclasses.dataclass(frozen=True)
class Job:
    """A form and a case; the parent passes them as JSON."""

    form: str
    case: str
    window: int
    threads: int
    repeat: int

    @property
    def distance(self) -> int:
        """Return the maximum distance between the values of a pair."""
        opposite = self.window if self.case == "window" else SIDE * self.window
        return (MATCHES << 32) // (2 * opposite)


def generate(job: Job) -> list[pa.Table]:
    """Generate both sides."""
    random = np.random.Generator(np.random.PCG64(SEED))
    rows = SIDE * job.window
    draws = [random.integers(-(2**31), 2**31, rows, dtype=np.int32) for _ in range(2)]
    return [pa.table({"n": np.arange(rows), "x": x}) for x in draws]


def tidegate(left: pa.Table, right: pa.Table, job: Job) -> Callable[[], pa.Table]:
    """Make one call."""
    import tidegate as tg  # noqa: PLC0415 - each process loads its own system

    def run() -> pa.Table:
        if job.case == "band":
            return tg.band_join(left, right, on="x", within=job.distance, threads=job.threads)
        return tg.band_join(
            left,
            right,
            on="x",
            within=job.distance,
            time="n",
            window=tg.rows(job.window),
            threads=job.threads,
        )

    return run


def polars_buckets(left: pa.Table, right: pa.Table, job: Job) -> Callable[[], pa.Table]:
    """Join on buckets of x as wide as the band; a left row is in one or two buckets."""
    import polars as pl  # noqa: PLC0415 - as above

    l, r, col = pl.DataFrame(left).lazy(), pl.DataFrame(right).lazy(), pl.col  # noqa: E741
    x, d = col("x").cast(pl.Int64), job.distance
    first, last = (x - d) // (2 * d), (x + d) // (2 * d)
    reached = pl.concat([l.with_columns(b=first), l.filter(first != last).with_columns(b=last)])
    pairs = reached.join(r.with_columns(b=x // (2 * d)), on="b").filter(
        (col("x").cast(pl.Int64) - col("x_right").cast(pl.Int64)).abs() <= d, *_window(job)
    )
    return lambda: pairs.select(COLUMNS).collect(engine="streaming").to_arrow()


def polars_join_where(left: pa.Table, right: pa.Table, job: Job) -> Callable[[], pa.Table]:
    """Join with inequalities, as most users would first write it."""
    import polars as pl  # noqa: PLC0415 - as above

    l, r = (  # noqa: E741
        pl.DataFrame(side).lazy().with_columns(w=pl.col("x").cast(pl.Int64))
        for side in (left, right)
    )
    col, d = pl.col, job.distance
    pairs = l.with_columns(low=col("w") - d, high=col("w") + d).join_where(
        r, col("w_right") >= col("low"), col("w_right") <= col("high"), *_window(job)
    )
    return lambda: pairs.select(COLUMNS).collect(engine="streaming").to_arrow()


def _window(job: Job) -> list[pl.Expr]:
    import polars as pl  # noqa: PLC0415 - as above

    if job.case == "band":
        return []
    n, other = pl.col("n"), pl.col("n_right")
    return [other >= n - job.window, other < n + job.window]


def duckdb_buckets(left: pa.Table, right: pa.Table, job: Job) -> Callable[[], pa.Table]:
    """Join on buckets of x as wide as the band; a left row is in one or two buckets."""
    d = job.distance
    reached = f"""
        select *, (x::bigint - {d}) // {2 * d} as b from l union all
        select *, (x::bigint + {d}) // {2 * d} as b from l
        where (x::bigint - {d}) // {2 * d} <> (x::bigint + {d}) // {2 * d}
    """  # noqa: S608 - numbers only
    return _duckdb(
        left,
        right,
        job,
        f"""
        with reached as ({reached}), buckets as (select *, x::bigint // {2 * d} as b from r)
        select l.n, l.x, r.n as n_right, r.x as x_right from reached l join buckets r using (b)
        where abs(l.x::bigint - r.x) <= {d} {_sql_window(job)}
        """,  # noqa: S608 - numbers only
    )


def duckdb_iejoin(left: pa.Table, right: pa.Table, job: Job) -> Callable[[], pa.Table]:
    """Join with IEJoin on x, as most users would first write it."""
    d = job.distance
    return _duckdb(
        left,
        right,
        job,
        f"""
        select l.n, l.x, r.n as n_right, r.x as x_right
        from l join r on r.x >= l.x::bigint - {d} and r.x <= l.x::bigint + {d} {_sql_window(job)}
        """,  # noqa: S608 - numbers only
    )


def _sql_window(job: Job) -> str:
    if job.case == "band":
        return ""
    return f"and r.n >= l.n - {job.window} and r.n < l.n + {job.window}"


def _duckdb(left: pa.Table, right: pa.Table, job: Job, query: str) -> Callable[[], pa.Table]:
    import duckdb  # noqa: PLC0415 - as above

    connection = duckdb.connect(config={"threads": job.threads, "preserve_insertion_order": False})
    for name, table in (("l", left), ("r", right)):
        connection.register("arrow_input", table)
        connection.execute(f"create table {name} as from arrow_input")
        connection.unregister("arrow_input")
    return lambda: connection.sql(query).to_arrow_table()


def numpy_by_hand(left: pa.Table, right: pa.Table, job: Job) -> Callable[[], pa.Table]:
    """Sort both sides, search and repeat rows, on one thread."""
    sides = [
        [column.to_numpy() for column in side.select(["n", "x"]).columns] for side in (left, right)
    ]

    def run() -> list[NDArray[np.generic]]:
        (l_n, l_x), (r_n, r_x) = (_sorted(*side) for side in sides)
        codes, d = r_x.astype(np.int64), job.distance
        first = np.searchsorted(codes, l_x.astype(np.int64) - d, "left")
        counts = np.searchsorted(codes, l_x.astype(np.int64) + d, "right") - first
        ends = np.cumsum(counts)
        places = np.arange(ends[-1]) + np.repeat(first - ends + counts, counts)
        columns = [np.repeat(l_n, counts), np.repeat(l_x, counts), r_n[places], r_x[places]]
        if job.case == "window":
            after = columns[2] - columns[0]
            inside = (after >= -job.window) & (after < job.window)
            columns = [column[inside] for column in columns]
        return columns

    return lambda: pa.table(dict(zip(COLUMNS, run(), strict=True)))


def _sorted(
    n: NDArray[np.int64], x: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    order = np.argsort(x)
    return n[order], x[order]


FORMS: dict[str, Callable[[pa.Table, pa.Table, Job], Callable[[], pa.Table]]] = {
    "tidegate": tidegate,
    "polars buckets": polars_buckets,
    "polars join_where": polars_join_where,
    "duckdb buckets": duckdb_buckets,
    "duckdb IEJoin": duckdb_iejoin,
    "numpy by hand": numpy_by_hand,
}


def fingerprint(result: pa.Table) -> child.Fingerprint:
    """Return the number of rows and the sums of the columns."""
    sums = (pc.sum(result[name].cast(pa.int64())).as_py() for name in COLUMNS)
    return [result.num_rows, *sums]


def measure(job: Job) -> child.Found:
    """Run one form in this process: a small run loads libraries, and the others are measured."""
    pa.set_cpu_count(job.threads)
    left, right = generate(job)
    form = FORMS[job.form]
    form(left.slice(0, WARM_UP_ROWS), right.slice(0, WARM_UP_ROWS), job)()
    return child.measure(form(left, right, job), fingerprint, job.repeat)


def main() -> None:
    """Measure every form for every case, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--windows", default="65536,1048576", help="window sizes, comma-separated")
    parser.add_argument("--cases", default="band,window", help="cases to run")
    parser.add_argument("--threads", default="1,2", help="thread counts, comma-separated")
    parser.add_argument("--forms", default=",".join(FORMS), help="forms to run")
    parser.add_argument("--repeat", type=int, default=3, help="timed runs; the median counts")
    parser.add_argument("--timeout", type=float, default=300, help="maximum seconds per form")
    given = parser.parse_args()
    print("| case | w | threads | form | s | CPU s | rows/s | result rows |")
    print("| --- | --: | --: | --- | --: | --: | --: | --: |")
    for case in given.cases.split(","):
        for window in map(int, given.windows.split(",")):
            expected: child.Fingerprint = []
            for threads in map(int, given.threads.split(",")):
                for form in given.forms.split(","):
                    job = Job(form, case, window, threads, given.repeat)
                    line, expected = _line(job, expected, given.timeout)
                    print(f"| {case} | {window:,} | {threads} | {form} | {line} |", flush=True)


def _line(job: Job, expected: child.Fingerprint, timeout: float) -> tuple[str, child.Fingerprint]:
    """Run a job in a separate process; return its measurements and the expected result."""
    found = child.run(__file__, job, timeout)
    if found is None:
        return f"> {timeout:.0f} | | | ", expected
    expected = expected or found.fingerprint
    if found.fingerprint != expected:
        sys.exit(f"{job.form}: expected {expected}, found {found.fingerprint}")
    seconds, cpu = found.medians
    rate = 2 * SIDE * job.window / seconds / 1e6
    return f"{seconds:.3f} | {cpu:.3f} | {rate:,.1f} M | {expected[0]:,}", expected


if __name__ == "__main__":
    child.main(lambda job: measure(Job(**job)), main)
