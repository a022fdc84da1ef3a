"""Implements `tidegate index`: reads rows, builds their index and saves it."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from tqdm import tqdm

import tidegate
from tidegate.calls.inputs import rows_of
from tidegate.cli.tables import Input, Output, opened, show_csv


@dataclass(frozen=True)
class Job:
    """The table to index, with the options of the index."""

    table: Input
    on: str | tuple[str, str]
    by: list[str] | None
    threads: int | None
    open_ends: bool = False


@dataclass(frozen=True)
class Counts:
    """The size of the index; `str` returns the last line that the command prints."""

    rows: int
    size: int
    seconds: float

    def __str__(self) -> str:
        """Return the counts and the speed in rows per second."""
        speed = self.rows / max(self.seconds, 1e-9)
        return (
            f"{self.rows:,} rows in the index, {self.size:,} bytes, {self.seconds:.2f} s, "
            f"{speed:,.0f} rows/s"
        )


def run(job: Job, output: Output, *, show_progress: bool, verbose: bool) -> Counts:
    """Build the index of a table and write it to a file."""
    start = time.perf_counter()
    output.check([job.table])
    if job.threads is not None:
        pa.set_cpu_count(job.threads)
    [table] = opened([job.table])
    show_csv([table], shown=verbose)
    table = job.table.timed(table)
    # The number of steps is known, but not the time that each of them takes.
    with tqdm(desc="index", unit=" steps", total=3, disable=not show_progress) as bar:
        bar.set_postfix_str("read")
        rows: Any = rows_of("table", table, table.schema.names)
        bar.update()
        bar.set_postfix_str("group and sort")
        options: dict[str, Any] = {"open_ends": job.open_ends, "threads": job.threads}
        index = tidegate.Index(rows, on=job.on, by=job.by, **options)
        bar.update()
        bar.set_postfix_str("write")
        index.save(output.name)
        bar.update()
    size = Path(output.name).stat().st_size
    return Counts(index.rows, size, time.perf_counter() - start)
