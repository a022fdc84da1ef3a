"""Divides rows with a start and an end: samples them and chooses a suitable layout."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tidegate.spark.driver.bins import number
from tidegate.spark.driver.division import drawn, sampled, tasks_of
from tidegate.spark.driver.jobs import described
from tidegate.spark.layout.lengths import Kept, Sample, Side, by_time, chosen, uncut
from tidegate.spark.layout.overlap import by_key
from tidegate.spark.plan.session import shuffle_partitions
from tidegate.spark.worker.overlap import longest
from tidegate.spark.worker.pack import LEFT, NAMES, RIGHT
from tidegate.spark.worker.task import on_worker

if TYPE_CHECKING:
    from tidegate.spark.layout.balance import Division
    from tidegate.spark.layout.overlap import OverlapLayout
    from tidegate.spark.plan.join import Plan
    from tidegate.spark.worker.overlap import Intervals
    from tidegate.spark.worker.task import Batches

# If a partition has this multiple of the mean number of rows, it is worth running a job that may
# balance the partitions.
_UNEVEN = 1.3

# The length that represents rows whose length exceeds 64 bits.
_ANY = 2**63 - 1

_KEPT: dict[str, Kept] = {"inner": "either", "right": "right", "full": "both"}


def of_join(plan: Plan, sample: Sample | None = None) -> OverlapLayout:
    """Return the layout for an overlap join of tables.

    Runs up to three jobs over keys, starts and ends: one for sampling, and one for each side whose
    longest row must be known. The longest row matters if a side's rows are intervals whose matches
    must all be in one task, and if keys alone do not divide the rows evenly.
    """
    session = plan.left.sparkSession
    if plan.parallelism == "key":
        return by_key(plan.partitions or shuffle_partitions(session))
    sample = sample or sample_of_join(plan)
    partitions = tasks_of(plan, sample.rows)
    kept, division = _KEPT.get(plan.query.how, "left"), _division(plan)
    if partitions == 1:
        return by_time(sample, partitions, kept)
    if kept == "either":
        layout = chosen(sample, partitions, kept, division)
        if _is_even(layout):
            return layout
    elif division == "auto":
        layout = uncut(sample, partitions, kept)
        if _is_even(layout):
            return layout
    return chosen(_with_lengths(plan, sample, kept), partitions, kept, division)


def of_few(plan: Plan, rows: float) -> OverlapLayout:
    """Return the layout of a join with few rows, which are divided only by key."""
    return by_key(tasks_of(plan, rows))


def _division(plan: Plan) -> Division:
    if plan.parallelism == "time" or not plan.native.keys:
        return "time"
    return "hybrid" if plan.parallelism == "hybrid" else "auto"


def _is_even(layout: OverlapLayout) -> bool:
    return layout.fullest <= _UNEVEN * layout.sent / layout.partitions


def sample_of_join(plan: Plan) -> Sample:
    """Return a sample of keys, starts and ends, in which every row is equally likely."""
    both = _drawn(plan, LEFT).union(_drawn(plan, RIGHT))
    rows, weight = sampled(both, "keys, starts and ends")
    sides = []
    for side in (LEFT, RIGHT):
        mine = rows.filter(pc.field("side") == side)
        intervals = plan.intervals(side)
        columns = [mine.column(_name(side, at)) for at in range(len(intervals.columns))]
        starts, ends = intervals.told_by(pa.table(columns, [f"{at}" for at in range(len(columns))]))
        sides.append(Side(mine.column("hash").to_numpy(), starts, ends))
    left, right = (0 if plan.intervals(side).are_points else None for side in (LEFT, RIGHT))
    return Sample((sides[LEFT], sides[RIGHT]), (left, right), weight)


def _drawn(plan: Plan, side: int) -> DataFrame:
    """Return the key hashes and interval columns of some rows on a side.

    The interval columns have different names on each side. The other side's columns are null.
    """
    rows, other = plan.inputs[side], plan.inputs[1 - side]
    told = []
    for number_, one in enumerate(plan.inputs):
        for nth, at in enumerate(plan.intervals(number_).columns):
            kind = one.fields[at].dataType
            if number_ == side:
                told.append(F.expr(f"u{at} {_name(number_, nth)}"))
            else:
                told.append(F.lit(None).cast(kind).alias(_name(number_, nth)))
    columns = [F.expr(f"{side} side"), F.expr(f"{rows.key_hash(other)} hash"), *told]
    return drawn(rows.without_unmatchable(), columns, seed=side)


def _name(side: int, nth: int) -> str:
    return f"{NAMES[side]}_{nth}"


def _with_lengths(plan: Plan, sample: Sample, kept: Kept) -> Sample:
    """Return the sample with the lengths of the longest rows, if the layout requires them."""
    sides = {"left": (LEFT,), "right": (RIGHT,)}.get(kept, (LEFT, RIGHT))
    left, right = (
        _longest(plan, side) if side in sides and sample.longest[side] is None else known
        for side, known in enumerate(sample.longest)
    )
    return replace(sample, longest=(left, right))


def _longest(plan: Plan, side: int) -> int:
    """Return the length of the longest row on a side."""
    frame = plan.inputs[side].frame
    if plan.query.is_overlap:
        lengths = frame.selectExpr(f"{_length(plan, side)} length")
    else:
        intervals = plan.intervals(side)
        read = frame.select(*(F.col(f"u{at}") for at in intervals.columns))
        work = on_worker(partial(_lengths, intervals), f"tidegate_lengths_{NAMES[side]}")
        lengths = read.mapInArrow(work, "length long")
    with described(plan.left.sparkSession, f"find the longest row of the {NAMES[side]} side"):
        [[found]] = lengths.agg(F.max("length")).collect()
    return max(0, found or 0)


def _lengths(intervals: Intervals, batches: Batches) -> Batches:
    """Yield the length of the longest row in each batch."""
    for batch in batches:
        found = longest(intervals, pa.Table.from_batches([batch]))
        yield pa.RecordBatch.from_pydict({"length": pa.array([found], pa.int64())})


def _length(plan: Plan, side: int) -> str:
    """Return SQL for the length of a row, which is null if the row lacks a start or an end."""
    rows = plan.inputs[side]
    start, end = (
        number(f"u{at}", rows.fields[at].dataType, in_days=plan.in_days) for at in rows.interval
    )
    length = f"coalesce(try_subtract({end}, {start}), {_ANY}L)"
    return f"case when {start} is not null and {end} is not null then {length} end"
