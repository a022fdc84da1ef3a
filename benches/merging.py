"""Measures one system's merge of W5's tables in a separate process.

Run it as `python merging.py JOB.json`; it prints its measurements as JSON. Each system is a
function that accepts the tables in the order of their sources. The function returns a `Merge`,
which contains the inputs in the system's own format.
"""

from __future__ import annotations

import dataclasses
import heapq
import importlib
import importlib.metadata
import json
import operator
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from measure import MISMATCH, NOT_INSTALLED
from workload import hash_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SMALL = 1000  # rows per source of the merge that loads libraries and starts threads


@dataclasses.dataclass(frozen=True)
class Merge:
    """A merge that is ready to run."""

    run: Callable[[], Any]
    """The timed function. The clock stops before the result is freed."""

    table: Callable[[Any], pa.Table]
    """Converts the result of `run` to Arrow for the check, untimed."""


@dataclasses.dataclass(frozen=True)
class System:
    """One way to merge."""

    prepare: Callable[[Sequence[pa.Table]], Merge]
    package: str
    stable: bool = True  # rows with equal times are ordered by source and position
    share: float = 1.0  # share of the rows, if all rows would take minutes


@dataclasses.dataclass(frozen=True)
class Job:
    """The work of a process; the parent writes it as JSON."""

    system: str
    tables: list[str]
    repeat: int


@dataclasses.dataclass(frozen=True)
class Measurement:
    """The measurements of a job."""

    rows: int
    first_s: float
    seconds: list[float]
    version: str


def tidegate(tables: Sequence[pa.Table]) -> Merge:
    """Merge with one call."""
    module = importlib.import_module("tidegate")
    return Merge(lambda: module.merge(tables, on="ts"), pa.table)


def polars(tables: Sequence[pa.Table]) -> Merge:
    """Merge with a tree of `merge_sorted`, on the streaming engine."""
    import polars as pl  # noqa: PLC0415

    parts = [pl.DataFrame(table).lazy() for table in tables]
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=False)
        odd = parts[len(parts) // 2 * 2 :]
        parts = [left.merge_sorted(right, key="ts") for left, right in pairs] + odd
    query = parts[0]
    return Merge(lambda: query.collect(engine="streaming"), lambda frame: frame.to_arrow())


def polars_sort(tables: Sequence[pa.Table]) -> Merge:
    """Sort all rows."""
    import polars as pl  # noqa: PLC0415

    frame = pl.concat([pl.DataFrame(table) for table in tables])
    return Merge(lambda: frame.sort("ts"), lambda frame: frame.to_arrow())


def duckdb(tables: Sequence[pa.Table]) -> Merge:
    """Sort all rows of a native table, and return Arrow data."""
    import duckdb  # noqa: PLC0415

    connection = duckdb.connect()
    rows = pa.concat_tables(tables)
    connection.register("given", rows)
    connection.sql("CREATE TABLE rows AS FROM given")
    return Merge(
        lambda: connection.sql("FROM rows ORDER BY ts").to_arrow_table(), lambda table: table
    )


def pyarrow(tables: Sequence[pa.Table]) -> Merge:
    """Sort all rows."""
    rows = pa.concat_tables(tables)
    return Merge(lambda: rows.sort_by("ts"), lambda table: table)


def heapq_merge(tables: Sequence[pa.Table]) -> Merge:
    """Merge existing tuples with Python's own function."""
    sources = [list(zip(*table.to_pydict().values(), strict=True)) for table in tables]

    def run() -> list[tuple[int, int]]:
        return list(heapq.merge(*sources, key=operator.itemgetter(0)))

    return Merge(run, lambda rows: pa.table(np.array(rows).T.tolist(), names=["ts", "value"]))


SYSTEMS = {
    "tidegate merge": System(tidegate, "tidegate"),
    "polars merge_sorted": System(polars, "polars", stable=False),
    "polars sort": System(polars_sort, "polars", stable=False),
    "duckdb order by": System(duckdb, "duckdb", stable=False),
    "pyarrow sort_by": System(pyarrow, "pyarrow", stable=False),
    "heapq.merge": System(heapq_merge, "", share=0.1),
}


def main(job_file: str) -> int:
    """Run the job in `job_file`."""
    job = Job(**json.loads(Path(job_file).read_text()))
    system = SYSTEMS[job.system]
    tables = [_read(path) for path in job.tables]
    tables = [table.slice(0, int(table.num_rows * system.share)) for table in tables]
    try:
        system.prepare([table.slice(0, SMALL) for table in tables]).run()
    except (ModuleNotFoundError, AttributeError) as error:
        print(error, file=sys.stderr)
        return NOT_INSTALLED
    merge = system.prepare(tables)
    start = time.perf_counter()
    result = merge.run()
    first = time.perf_counter() - start
    if not _is_right(merge.table(result), tables, stable=system.stable):
        print(f"{job.system}: not the merged rows", file=sys.stderr)
        return MISMATCH
    del result
    found = Measurement(
        rows=sum(table.num_rows for table in tables),
        first_s=first,
        seconds=[_seconds(merge) for _ in range(job.repeat)],
        version=importlib.metadata.version(system.package) if system.package else sys.version[:6],
    )
    print(json.dumps(dataclasses.asdict(found)))
    return 0


def _read(path: str) -> pa.Table:
    with pa.OSFile(path) as file:
        return pa.ipc.open_file(file).read_all()


def _seconds(merge: Merge) -> float:
    start = time.perf_counter()
    result = merge.run()
    seconds = time.perf_counter() - start
    del result
    return seconds


def _is_right(result: pa.Table, tables: Sequence[pa.Table], *, stable: bool) -> bool:
    """Return whether all rows are in order of time and, if `stable`, in their exact places."""
    rows = pa.concat_tables(tables)
    order = np.argsort(rows["ts"].to_numpy(), kind="stable")
    expected = [rows[name].to_numpy()[order] for name in ("ts", "value")]
    found = [result[name].to_numpy() for name in ("ts", "value")]
    if stable:
        return all(map(np.array_equal, found, expected))
    return np.array_equal(found[0], expected[0]) and hash_rows(found) == hash_rows(expected)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
