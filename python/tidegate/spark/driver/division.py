"""The division of the rows of tables: the layout that suits a sample of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tidegate.spark.driver.files import rows_of
from tidegate.spark.driver.jobs import described
from tidegate.spark.layout.balance import Division, Sample, chosen
from tidegate.spark.layout.layout import by_key
from tidegate.spark.plan.session import allocated, shuffle_partitions
from tidegate.spark.query.axis import TimeAxis
from tidegate.spark.worker.pack import LEFT, RIGHT

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.spark.layout.layout import Copied, Integers, Layout
    from tidegate.spark.plan.aggregate import AggregatePlan
    from tidegate.spark.plan.join import Plan
    from tidegate.spark.query.input import Input

# Rows sampled from both sides together: a partition's share is then known within a few percent.
# They are drawn from this fraction, so that the draw costs little beside the scan.
SAMPLED = 20_000
FRACTION = 0.02

# Cells (rows times columns) of a partition: about 128 MB of numbers in a worker's memory.
PARTITION_CELLS = 16_000_000

# Rows that are worth a task.
_PARTITION_ROWS = 10_000

# Rows of both sides that are divided by key without a sample, which would take as long as their
# join. Even if they all have one key, one task joins them at once.
_FEW = 250_000


def of_join(plan: Plan, sample: Sample | None = None) -> Layout:
    """The layout of a join of tables. It runs the sampling job, unless that is not needed."""
    session = plan.left.sparkSession
    if plan.parallelism == "key":
        partitions = plan.partitions or shuffle_partitions(session)
        [copied] = copied_sides(plan)
        return by_key(partitions, copied, plan.reach)
    sample = sample or sample_of_join(plan)
    partitions = tasks_of(plan, sample.rows)
    division: Division = "auto"
    if plan.parallelism == plan.query.divided or not plan.native.keys:
        division = "time"
    elif plan.parallelism == "hybrid":
        division = "hybrid"
    layouts = (
        chosen(sample, partitions, copied, plan.reach, division)
        for copied in copied_sides(plan, (len(sample.left_hash), len(sample.right_hash)))
    )
    return min(layouts, key=lambda layout: layout.cost)


def of_few(plan: Plan, rows: float) -> Layout:
    """The layout of a join with few rows, which are divided only by key."""
    [copied] = copied_sides(plan)
    return by_key(tasks_of(plan, rows), copied, plan.reach)


def few_of(plan: Plan) -> float | None:
    """The rows of both sides if these are few, as files tell, and are to be divided by key."""
    if plan.parallelism != "auto" or not plan.native.keys:
        return None
    return _few([one.frame for one in plan.inputs])


def _few(frames: Sequence[DataFrame]) -> float | None:
    """The rows of all frames, if these are few."""
    rows = 0.0
    for frame in frames:
        found = rows_of(frame)
        if found is None or rows + found.number > _FEW:
            return None
        rows += found.number
    return rows


def tasks_of(plan: Plan, rows: float) -> int:
    """The partitions of a join of this number of rows."""
    columns = max(len(plan.columns.left), len(plan.columns.right))
    return plan.partitions or default_partitions(rows, columns, cores(plan.left.sparkSession))


def of_aggregation(plan: AggregatePlan) -> Layout:
    """The layout of an aggregation of tables, likewise."""
    session = plan.frames[0].sparkSession
    if plan.aggregation.session is not None:
        # All rows of a key go together, since any of them may keep a session open.
        one_group = not plan.aggregation.by
        partitions = 1 if one_group else plan.partitions or shuffle_partitions(session)
        return by_key(partitions, "right", plan.reach)
    if plan.parallelism == "key":
        partitions = plan.partitions or shuffle_partitions(session)
        return by_key(partitions, "right", plan.reach)
    if plan.parallelism == "auto" and plan.aggregation.by:
        few = _few(plan.frames)
        if few is not None:
            tasks = default_partitions(few, len(plan.sent), cores(session))
            return by_key(plan.partitions or tasks, "right", plan.reach)
    sample = _sample_of_rows(plan)
    columns, at_once = len(plan.sent), cores(session)
    partitions = plan.partitions or default_partitions(sample.rows, columns, at_once)
    division = plan.parallelism if plan.aggregation.by else "time"
    return chosen(sample, partitions, "right", plan.reach, division)


def copied_sides(plan: Plan, rows: tuple[float, float] | None = None) -> tuple[Copied, ...]:
    """The side whose rows go to more than one slice: one whose rows need not be kept.

    Of an inner join whose `rows` are known it is either, the one with fewer rows first.
    """
    if plan.query.how == "full":
        return ("both",)
    if plan.query.how == "right":
        return ("left",)
    if plan.query.how != "inner" or rows is None or plan.reach.upper is None:
        return ("right",)
    left, right = rows
    return ("left", "right") if left < right else ("right", "left")


def sample_of_join(plan: Plan) -> Sample:
    """Keys and times of rows, each row of both sides as likely as another."""
    left, right = plan.inputs
    rows, weight = sampled(
        _keys_and_times(left, right, LEFT).union(_keys_and_times(right, left, RIGHT)),
        f"keys and {plan.query.divided}s",
    )
    hashes: list[Integers] = []
    times: list[Integers] = []
    for number, name in ((LEFT, "left"), (RIGHT, "right")):
        side = rows.filter(pc.field("side") == number)
        hashes.append(side.column("hash").to_numpy())
        times.append(plan.axis.integers(side.column(name)))
    return Sample(hashes[LEFT], times[LEFT], hashes[RIGHT], times[RIGHT], weight)


def _keys_and_times(side: Input, other: Input, number: int) -> DataFrame:
    """Hashes of the keys and times of a side's rows, each side's times in a column of its own."""
    times = [(side.value, "left"), (F.lit(None).cast(other.value_type), "right")]
    if number == RIGHT:
        times = [(times[1][0], "left"), (times[0][0], "right")]
    drawn = side.without_unmatchable().sample(fraction=FRACTION, seed=number)
    return drawn.select(
        F.lit(number).alias("side"),
        F.expr(side.key_hash(other)).alias("hash"),
        *(time.alias(name) for time, name in times),
    )


def _sample_of_rows(plan: AggregatePlan) -> Sample:
    """Keys and times of rows, as the right side of a join whose left rows are windows."""
    rows = plan.input
    drawn = rows.frame.sample(fraction=FRACTION, seed=0)
    found, weight = sampled(
        drawn.select(F.expr(rows.key_hash(rows)).alias("hash"), rows.value.alias("time"))
    )
    none = np.array([], np.int64)
    times = TimeAxis(plan.in_days).integers(found.column("time"))
    return Sample(none, none, found.column("hash").to_numpy(), times, weight)


def sampled(drawn: DataFrame, what: str = "keys and times") -> tuple[pa.Table, float]:
    """At most `SAMPLED` of the rows, each as likely as another, and how many each stands for.

    The rows were drawn with `FRACTION`. Those with the smallest random numbers are taken, so that
    one pass over the inputs does: the largest number taken tells how many rows there are.
    """
    with described(drawn.sparkSession, f"sample {what}"):
        rows = drawn.withColumn("draw", F.rand(seed=0)).orderBy("draw").limit(SAMPLED).toArrow()
    least = 1.0 if rows.num_rows < SAMPLED else float(rows.column("draw").to_numpy().max())
    return rows, 1 / (FRACTION * least)


def default_partitions(rows: float, columns: int, cores: int) -> int:
    """A whole number of partitions a core, none above what a worker should hold."""
    used = min(cores, math.ceil(rows / _PARTITION_ROWS) or 1)
    return used * max(1, math.ceil(rows * columns / (PARTITION_CELLS * used)))


def cores(session: SparkSession) -> int:
    """How many tasks can run at once; for Spark Connect, the number of shuffle partitions.

    Spark Connect does not report the number of cores. With dynamic allocation, executors may join
    later, so their maximum number is used.
    """
    try:
        registered = session.sparkContext.defaultParallelism
    except PySparkException:
        return shuffle_partitions(session)
    return max(registered, allocated(session))
