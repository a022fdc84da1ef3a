"""Implements the commands that join two files: reads, joins, writes and counts rows."""

import time
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
from tqdm import tqdm

from tidegate import Index, _tidegate
from tidegate._tidegate import JoinQuery
from tidegate.calls import explain, ways
from tidegate.calls.index import with_names_of
from tidegate.cli.tables import NO_LIMITS, IndexInput, Input, Limits, Output, opened, show_csv
from tidegate.io.open_tables import OpenTable


@dataclass(frozen=True)
class Job:
    """The two tables to join, with the query and the limits."""

    left: Input
    right: Input | IndexInput
    query: JoinQuery
    limits: Limits = NO_LIMITS


@dataclass(frozen=True)
class Counts:
    """The numbers of rows read and written; `str` returns the last line that the command prints."""

    left: int
    right: int
    out: int
    seconds: float
    has_index: bool = False
    """Whether the right side is an index, of which not all rows are read."""

    def __str__(self) -> str:
        """Return the counts and the speed in input rows per second."""
        seconds = max(self.seconds, 1e-9)
        if self.has_index:
            return (
                f"{self.left:,} rows left, {self.right:,} rows in the index, {self.out:,} rows "
                f"out, {self.seconds:.2f} s, {self.left / seconds:,.0f} left rows/s"
            )
        speed = (self.left + self.right) / seconds
        return (
            f"{self.left:,} rows left, {self.right:,} rows right, {self.out:,} rows out, "
            f"{self.seconds:.2f} s, {speed:,.0f} input rows/s"
        )


class _Opened(NamedTuple):
    """The opened inputs, and the query with their column names."""

    query: JoinQuery
    left: OpenTable
    right: OpenTable | Index


def _opened(job: Job) -> _Opened:
    if isinstance(job.right, IndexInput):
        [left] = opened([job.left])
        left = job.left.timed(left)
        index = job.right.open()
        return _Opened(_with_names_of(index, job.query), left, index)
    left, right = opened([job.left, job.right], streamed=job.limits.streamed)
    return _Opened(job.query, job.left.timed(left), job.right.timed(right))


def _with_names_of(index: Index, query: JoinQuery) -> JoinQuery:
    """Return the query with the index's names for right columns, unless the options name others.

    `--on ts` and `--by symbol` then name only left columns.
    """
    given = query.arguments
    for name in ("on", "time"):
        pair = given.get(name)
        if isinstance(pair, tuple) and pair[0] == pair[1]:
            given[name] = pair[0]
    by = given["by"]
    if by is not None:
        given["by"] = [left if left == right else (left, right) for left, right in by.items()]
    making = getattr(_tidegate, f"{query.function}_query")
    named = with_names_of(making, index, given)
    return query.replace(**{name: named[name] for name in ("on", "time", "by") if name in named})


def plan(job: Job) -> str:
    """Describe how the files would be joined, reading only their schemas if possible."""
    query, left, right = _opened(job)
    return explain.of_join(query, left, right, job.limits.of_call(), in_batches=True)


def run(job: Job, output: Output, *, show_progress: bool, verbose: bool) -> Counts:
    """Join two files and write the result to a third file, one batch at a time."""
    start = time.perf_counter()
    output.check([job.left, job.right])
    if job.query.arguments["threads"] is not None:
        pa.set_cpu_count(job.query.threads)
    query, left, right = _opened(job)
    show_csv([one for one in (left, right) if isinstance(one, OpenTable)], shown=verbose)
    rows = 0
    with (
        tqdm(desc="join", unit=" rows", unit_scale=True, disable=not show_progress) as bar,
        ways.joined_batches(query, left, right, job.limits.of_call()) as batches,
        output.writer(batches.schema) as writer,
    ):
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
            # Progress advances in steps, and in a single step for a join without a condition.
            stats = batches.stats()
            if done := stats["left_rows_done"]:
                bar.set_postfix_str(f"{done / stats['left_rows']:.0%} of left rows", refresh=False)
            bar.update(batch.num_rows)
        stats = batches.stats()
    # Row groups that do not contribute to the result have not been read.
    of_left = left.row_count() or stats["left_rows"]
    if isinstance(right, Index):
        return Counts(of_left, right.rows, rows, time.perf_counter() - start, has_index=True)
    of_right = right.row_count() or stats["right_rows"]
    return Counts(of_left, of_right, rows, time.perf_counter() - start)
