"""Measures workload W4: sliding windows over many streams with tidegate, DuckDB and Polars.

The form `streaming`, and the forms named after the designs from the multiway aggregation paper, are
tidegate's streaming operator. It receives batches of 8,192 rows from each source in turn, and is
polled after each turn.

The input is 20 sorted streams with N rows in total over 10 000 s. Windows of 30 s begin every 3 s,
so each row belongs to ten windows (with `--windows 1000`: 3 000 s, a thousand windows). The result
is the count, mean and first value per window and key. Every system receives the rows in its own
format before the clock starts: tidegate receives 20 tables, and the others receive one table sorted
by time. All return one table, and only tidegate's is in order. Before timing, the number of rows
and the sums of all columns are compared.

    python benches/w4.py --rows 10000000 --keys 243,40000 --threads 1,2
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import child

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegate import Aggregate
    from tidegate.types import Algorithm

    Form = Callable[[list[pa.Table], pa.Table, int, int], Callable[[], pa.Table]]

SEED = 42
STREAMS = 20
SPAN_US, ADVANCE_US = 10_000_000_000, 3_000_000
PUSH_ROWS = 8_192
COLUMNS = ("w", "k", "n", "mean", "first")
TOLERANCE = 1e-9  # relative tolerance of float sums, which each system adds in a different order
WARM_UP_ROWS = 10_000


@dataclasses.dataclass(frozen=True)
class Job:
    """A system and a case; the parent writes them as JSON."""

    form: str
    threads: int
    folder: str
    size: int
    repeat: int
    panes: int


def generate(rows: int, keys: int, folder: Path) -> None:
    """Write the streams, with distinct times, uniform keys and one float."""
    random = np.random.Generator(np.random.PCG64(SEED))
    steps = random.integers(1, 2 * SPAN_US // rows, rows)
    columns = {
        "ts": np.cumsum(steps),
        "k": random.integers(0, keys, rows),
        "v": random.random(rows),
    }
    stream_of = random.integers(0, STREAMS, rows)
    for stream in range(STREAMS):
        chosen = stream_of == stream
        _write(folder / str(stream), {name: values[chosen] for name, values in columns.items()})
    _write(folder / "all", columns)


def _write(path: Path, columns: dict[str, np.ndarray]) -> None:
    table = pa.table(columns)
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table)


def read(path: Path) -> pa.Table:
    """Read a table that `generate` wrote."""
    with pa.OSFile(str(path)) as file:
        return pa.ipc.open_file(file).read_all()


def _arguments(threads: int, panes: int) -> dict[str, Any]:
    from tidegate import agg  # noqa: PLC0415 - each process loads its own system

    aggs = {"n": agg.count(), "mean": agg.mean("v"), "first": agg.first("v")}
    windows = {"on": "ts", "size": panes * ADVANCE_US, "advance": ADVANCE_US}
    return {**windows, "by": "k", "aggs": aggs, "threads": threads}


def _result(found: pa.Table) -> pa.Table:
    return found.drop_columns("window_end").rename_columns(COLUMNS)


def tidegate_slices(
    streams: list[pa.Table], _whole: pa.Table, threads: int, panes: int
) -> Callable[[], pa.Table]:
    """Make one call."""
    import tidegate  # noqa: PLC0415 - as above

    return lambda: _result(tidegate.aggregate(streams, **_arguments(threads, panes)))


def fed(windows: Aggregate, batches: list[list[pa.RecordBatch]]) -> list[pa.RecordBatch]:
    """Push the batches of all sources in turns, and poll after each turn."""
    found: list[pa.RecordBatch] = []
    for turn in itertools.zip_longest(*batches):
        for source, batch in zip(windows.sources, turn, strict=True):
            if batch is None:
                source.close()
            else:
                source.push(batch)
        found.extend(iter(windows.poll, None))
    for source in windows.sources:
        source.close()
    return [*found, *windows]


def tidegate_streaming(algorithm: Algorithm) -> Form:
    """Push the batches of all sources in turns, and poll after each turn."""

    def form(
        streams: list[pa.Table], _whole: pa.Table, threads: int, panes: int
    ) -> Callable[[], pa.Table]:
        import tidegate  # noqa: PLC0415 - as above

        batches = [stream.to_batches(max_chunksize=PUSH_ROWS) for stream in streams]

        def run() -> pa.Table:
            windows = tidegate.Aggregate(
                streams[0].schema,
                **_arguments(threads, panes),
                sources=len(streams),
                algorithm=algorithm,
            )
            return _result(pa.Table.from_batches(fed(windows, batches), windows.schema))

        return run

    return form


def duckdb_panes(
    _streams: list[pa.Table], whole: pa.Table, threads: int, panes: int
) -> Callable[[], pa.Table]:
    """Use panes of 3 s, then ten panes per window, as an expert would."""
    return _duckdb(
        whole,
        threads,
        f"""
        with panes as (
            select ts // {ADVANCE_US} as pane, k, count(*) as n, sum(v) as s, arg_min(v, ts) as f
            from r group by all
        )
        select (pane - back) * {ADVANCE_US} as w, k, sum(n)::bigint as n, sum(s) / sum(n) as mean,
            arg_min(f, pane) as first
        from panes, range({panes}) as t(back) group by all
        """,  # noqa: S608 - numbers only
    )


def duckdb_windows(
    _streams: list[pa.Table], whole: pa.Table, threads: int, panes: int
) -> Callable[[], pa.Table]:
    """Put each row into ten windows, as most users would first write it."""
    return _duckdb(
        whole,
        threads,
        f"""
        select (ts // {ADVANCE_US} - back) * {ADVANCE_US} as w, k, count(*) as n, avg(v) as mean,
            arg_min(v, ts) as first
        from r, range({panes}) as t(back) group by all
        """,  # noqa: S608 - numbers only
    )


def _duckdb(whole: pa.Table, threads: int, query: str) -> Callable[[], pa.Table]:
    import duckdb  # noqa: PLC0415 - as above

    connection = duckdb.connect(config={"threads": threads, "preserve_insertion_order": False})
    connection.register("arrow_input", whole)
    connection.execute("create table r as from arrow_input")
    return lambda: connection.sql(query).to_arrow_table()


def polars_panes(
    _streams: list[pa.Table], whole: pa.Table, _threads: int, panes: int
) -> Callable[[], pa.Table]:
    """Use panes of 3 s, then ten panes per window, as an expert would."""
    import polars as pl  # noqa: PLC0415 - as above

    frame, col = pl.DataFrame(whole), pl.col
    backs = pl.LazyFrame({"back": range(panes)}, schema={"back": pl.Int64})
    slices = (
        frame.lazy()
        .group_by(pane=col("ts") // ADVANCE_US, k=col("k"))
        .agg(n=pl.len(), s=col("v").sum(), f=col("v").first())
    )
    windows = (
        slices.join(backs, how="cross")
        .group_by(w=(col("pane") - col("back")) * ADVANCE_US, k=col("k"))
        .agg(
            n=col("n").sum().cast(pl.Int64),
            mean=col("s").sum() / col("n").sum(),
            first=col("f").get(col("pane").arg_min()),
        )
    )
    return lambda: windows.collect(engine="streaming").to_arrow()


def polars_dynamic(
    _streams: list[pa.Table], whole: pa.Table, _threads: int, panes: int
) -> Callable[[], pa.Table]:
    """Use `group_by_dynamic`, as most users would first write it."""
    import polars as pl  # noqa: PLC0415 - as above

    frame, col = pl.DataFrame(whole), pl.col
    windows = (
        frame.lazy()
        .with_columns(col("ts").set_sorted())
        .group_by_dynamic(
            "ts",
            every=f"{ADVANCE_US}i",
            period=f"{panes * ADVANCE_US}i",
            offset=f"{(1 - panes) * ADVANCE_US}i",
            group_by="k",
        )
        .agg(n=pl.len().cast(pl.Int64), mean=col("v").mean(), first=col("v").first())
        .select(w="ts", k="k", n="n", mean="mean", first="first")
    )
    return lambda: windows.collect().to_arrow()


def flink_hop(
    _streams: list[pa.Table], whole: pa.Table, threads: int, panes: int
) -> Callable[[], pa.Table]:
    """Use HOP in Flink SQL, from a file to files, including the start of the job."""
    from flink import Flink  # noqa: PLC0415 - as above

    session = Flink(threads)
    time_column = "t AS TO_TIMESTAMP_LTZ(ts / 1000, 3)"
    # More rows with the last millisecond may follow.
    time_column += ", WATERMARK FOR t AS t - INTERVAL '0.001' SECOND"
    session.add("r", whole, f"ts BIGINT, k BIGINT, v DOUBLE, {time_column}")
    advance = ADVANCE_US // 1_000_000
    query = f"""
        SELECT window_start, k, COUNT(*), AVG(v), MIN(ts) FROM TABLE(HOP(TABLE r,
            DESCRIPTOR(t), INTERVAL '{advance}' SECOND, INTERVAL '{advance * panes}' SECOND(6)))
        GROUP BY window_start, window_end, k
    """  # noqa: S608 - numbers only
    types = dict(
        zip(COLUMNS, ("TIMESTAMP(3)", "BIGINT", "BIGINT", "DOUBLE", "BIGINT"), strict=True)
    )

    def run() -> pa.Table:
        found = session.insert("windows", query, types)
        starts = found["w"].cast(pa.timestamp("us")).cast(pa.int64())
        # Overlapping windows do not support FIRST_VALUE, but times are distinct.
        firsts = whole["v"].take(pa.array(np.searchsorted(whole["ts"], found["first"])))
        return found.set_column(0, "w", starts).set_column(4, "first", firsts)

    return run


ALGORITHMS: tuple[Algorithm, ...] = ("mq", "mq-lf", "tumlsc", "tumlmc", "wiml")
FORMS: dict[str, Form] = {
    "tidegate": tidegate_slices,
    "tidegate streaming": tidegate_streaming("slices"),
    **{f"tidegate {algorithm}": tidegate_streaming(algorithm) for algorithm in ALGORITHMS},
    "duckdb panes": duckdb_panes,
    "duckdb windows": duckdb_windows,
    "polars panes": polars_panes,
    "polars dynamic": polars_dynamic,
    "flink hop": flink_hop,
}
OTHERS = ("flink hop",)
"""Forms that need a separate environment."""


def fingerprint(result: pa.Table) -> child.Fingerprint:
    """Return the number of rows and the sums of the columns."""
    return [result.num_rows, *(float(pc.sum(result[name]).as_py()) for name in COLUMNS)]


def measure(job: Job) -> child.Found:
    """Run one form in this process: a small run to load libraries, then measured runs."""
    pa.set_cpu_count(job.threads)
    folder = Path(job.folder)
    form = FORMS[job.form]
    if job.form.startswith("tidegate"):
        streams, whole = [read(folder / str(stream)) for stream in range(STREAMS)], pa.table({})
    else:
        streams, whole = [], read(folder / "all")
    small = [stream.slice(0, WARM_UP_ROWS) for stream in streams]
    form(small, whole.slice(0, WARM_UP_ROWS), job.threads, job.panes)()
    run = form(streams, whole, job.threads, job.panes)
    return child.measure(run, fingerprint, job.repeat)


def main() -> None:
    """Measure every form for every case, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of all streams")
    parser.add_argument("--keys", default="243,40000", help="numbers of keys, comma-separated")
    parser.add_argument("--threads", default="1,2", help="thread counts, comma-separated")
    parser.add_argument("--windows", type=int, default=10, help="windows per row")
    usual = ",".join(form for form in FORMS if form not in OTHERS)
    parser.add_argument("--forms", default=usual, help="forms to run")
    parser.add_argument(
        "--python", default=sys.executable, help="interpreter of Flink's environment"
    )
    parser.add_argument("--repeat", type=int, default=3, help="timed runs; the median counts")
    parser.add_argument("--timeout", type=float, default=300, help="maximum seconds per form")
    given = parser.parse_args()
    print("| keys | threads | form | first, s | s | rows/s | result rows |")
    print("| --: | --: | --- | --: | --: | --: | --: |")
    for keys in map(int, given.keys.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            generate(given.rows, keys, Path(folder))
            expected: child.Fingerprint = []
            for threads in map(int, given.threads.split(",")):
                for form in given.forms.split(","):
                    job = Job(form, threads, folder, given.rows, given.repeat, given.windows)
                    python = given.python if form in OTHERS else sys.executable
                    line, expected = _line(job, expected, given.timeout, python)
                    print(f"| {keys:,} | {threads} | {form} | {line} |", flush=True)


def _line(
    job: Job, expected: child.Fingerprint, timeout: float, python: str
) -> tuple[str, child.Fingerprint]:
    """Run a job in a separate process; return its measurements and the expected result."""
    found = child.run(__file__, job, timeout, python)
    if found is None:
        return f"> {timeout:.0f} | | | ", expected
    expected = expected or found.fingerprint
    if not np.allclose(found.fingerprint, expected, rtol=TOLERANCE, atol=0):
        sys.exit(f"{job.form}: expected {expected}, found {found.fingerprint}")
    seconds, _ = found.medians
    rate, rows = job.size / seconds / 1e6, int(expected[0])
    return f"{found.first:.3f} | {seconds:.3f} | {rate:,.1f} M | {rows:,}", expected


if __name__ == "__main__":
    child.main(lambda job: measure(Job(**job)), main)
