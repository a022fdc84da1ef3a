"""Implements the commands that join two files: reads, joins, writes and counts rows."""

import time
from dataclasses import dataclass

import pyarrow as pa
from tqdm import tqdm

from tidegate._tidegate import JoinQuery
from tidegate.calls import explain, ways
from tidegate.cli.tables import NO_LIMITS, Input, Limits, Output, opened, show_csv


@dataclass(frozen=True)
class Job:
    """The two tables to join, with the query and the limits."""

    left: Input
    right: Input
    query: JoinQuery
    limits: Limits = NO_LIMITS


@dataclass(frozen=True)
class Counts:
    """The numbers of rows read and written; `str` returns the last line that the command prints."""

    left: int
    right: int
    out: int
    seconds: float

    def __str__(self) -> str:
        """Return the counts and the speed in input rows per second."""
        speed = (self.left + self.right) / max(self.seconds, 1e-9)
        return (
            f"{self.left:,} rows left, {self.right:,} rows right, {self.out:,} rows out, "
            f"{self.seconds:.2f} s, {speed:,.0f} input rows/s"
        )


def plan(job: Job) -> str:
    """Describe how the files would be joined, reading only their schemas if possible."""
    left, right = opened([job.left, job.right], streamed=job.limits.streamed)
    return explain.of_join(job.query, left, right, job.limits.of_call(), in_batches=True)


def run(job: Job, output: Output, *, show_progress: bool, verbose: bool) -> Counts:
    """Join two files and write the result to a third file, one batch at a time."""
    start = time.perf_counter()
    output.check([job.left, job.right])
    if job.query.arguments["threads"] is not None:
        pa.set_cpu_count(job.query.threads)
    left, right = opened([job.left, job.right], streamed=job.limits.streamed)
    show_csv([left, right], shown=verbose)
    rows = 0
    with (
        tqdm(desc="join", unit=" rows", unit_scale=True, disable=not show_progress) as bar,
        ways.joined_batches(job.query, left, right, job.limits.of_call()) as batches,
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
    of_right = right.row_count() or stats["right_rows"]
    return Counts(of_left, of_right, rows, time.perf_counter() - start)
