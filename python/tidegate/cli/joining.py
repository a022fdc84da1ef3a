"""The work of the commands that join two files: read, join, write, count."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeAlias, TypedDict, TypeVar

import pyarrow as pa
from tqdm import tqdm

import tidegate
from tidegate import _tidegate
from tidegate.agg import Aggregate
from tidegate.cli.tables import NO_LIMITS, Input, Limits, Output, opened
from tidegate.io.given import OpenTable
from tidegate.types import (
    AsofHow,
    Closed,
    ClosedEnds,
    How,
    IntervalNames,
    Strategy,
    Within,
)


class Options(TypedDict):
    """The arguments that all joins have, as the command line gives them."""

    by: dict[str, str] | None
    where: str | None
    suffix: str
    columns: list[str] | None
    threads: int | None
    max_rows: int | None


class Arguments(Options):
    """The arguments of `tidegate.interval_join`."""

    on: tuple[str, str]
    how: How | None
    aggs: dict[str, Aggregate] | None
    lower: str | int | None
    upper: str | int | None
    closed: Closed
    prevailing: bool


class AsofArguments(Options):
    """The arguments of `tidegate.asof_join`."""

    on: tuple[str, str]
    how: AsofHow
    strategy: Strategy
    tolerance: str | int | None
    allow_exact_matches: bool


class BandArguments(Options):
    """The arguments of `tidegate.band_join`."""

    how: How | None
    aggs: dict[str, Aggregate] | None
    on: list[tuple[str, str]]
    within: list[Within]


class OverlapArguments(Options):
    """The arguments of `tidegate.overlap_join`."""

    how: How | None
    aggs: dict[str, Aggregate] | None
    on: IntervalNames
    closed: ClosedEnds
    min_overlap: str | int | None


ArgumentsT_co = TypeVar("ArgumentsT_co", bound=Options, covariant=True)


@dataclass(frozen=True)
class Job(Generic[ArgumentsT_co]):
    """Two tables and how to join them."""

    left: Input
    right: Input
    arguments: ArgumentsT_co
    limits: Limits = NO_LIMITS


AnyArguments: TypeAlias = Arguments | AsofArguments | BandArguments | OverlapArguments
AnyJob: TypeAlias = Job[Arguments] | Job[AsofArguments] | Job[BandArguments] | Job[OverlapArguments]


@dataclass(frozen=True)
class Counts:
    """What a join read and wrote; its text is the last line of the command."""

    left: int
    right: int
    out: int
    seconds: float

    def __str__(self) -> str:
        """Tell the counts and the speed in input rows per second."""
        speed = (self.left + self.right) / max(self.seconds, 1e-9)
        return (
            f"{self.left:,} rows left, {self.right:,} rows right, {self.out:,} rows out, "
            f"{self.seconds:.2f} s, {speed:,.0f} input rows/s"
        )


def plan(job: AnyJob) -> str:
    """Tell how the join would be done; of files that say so, only the columns' types are read."""
    left, right = opened([job.left, job.right], streamed=job.limits.streamed)
    given: dict[str, Any] = {**job.arguments, **asdict(job.limits)}
    return tidegate.explain(_function(job.arguments), left, right, **given)


def plan_of(
    left: pa.Schema, right: pa.Schema, arguments: AnyArguments, limits: Limits = NO_LIMITS
) -> _tidegate.JoinPlan:
    """The plan of a join of tables with these columns."""
    within: dict[str, Any] = asdict(limits)
    if "strategy" in arguments:
        return _tidegate.plan_asof_join(left, right, **arguments, **within)
    if "within" in arguments:
        return _tidegate.plan_band_join(left, right, **arguments, **within)
    if "min_overlap" in arguments:
        return _tidegate.plan_overlap_join(left, right, **arguments, **within)
    return _tidegate.plan_interval_join(left, right, **arguments, **within)


def _start(
    left: OpenTable, right: OpenTable, arguments: AnyArguments, limits: Limits
) -> tidegate.BatchReader:
    """Read the columns that the join needs, and begin to join."""
    return _function(arguments)(left, right, **arguments, **asdict(limits))


def _function(arguments: AnyArguments) -> Callable[..., tidegate.BatchReader]:
    """The function whose arguments they are."""
    if "strategy" in arguments:
        return tidegate.asof_join_batches
    if "within" in arguments:
        return tidegate.band_join_batches
    if "min_overlap" in arguments:
        return tidegate.overlap_join_batches
    return tidegate.interval_join_batches


def run(job: AnyJob, output: Output, *, show_progress: bool) -> Counts:
    """Join two files into a third, a batch at a time."""
    start = time.perf_counter()
    output.check([job.left, job.right])
    if job.arguments["threads"] is not None:
        pa.set_cpu_count(job.arguments["threads"])
    left, right = opened([job.left, job.right], streamed=job.limits.streamed)
    rows = 0
    with (
        tqdm(desc="join", unit=" rows", unit_scale=True, disable=not show_progress) as bar,
        _start(left, right, job.arguments, job.limits) as batches,
        output.writer(batches.schema) as writer,
    ):
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
            # Known in steps only, and in one step for a join without a condition.
            stats = batches.stats()
            if done := stats["left_rows_done"]:
                bar.set_postfix_str(f"{done / stats['left_rows']:.0%} of left rows", refresh=False)
            bar.update(batch.num_rows)
        stats = batches.stats()
    # Row groups that no row of the result is made of have not been read.
    of_left = left.row_count() or stats["left_rows"]
    of_right = right.row_count() or stats["right_rows"]
    return Counts(of_left, of_right, rows, time.perf_counter() - start)
