"""Divides the rows in tables: samples them and chooses a suitable layout."""

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
from tidegate.spark.plan.host import host_of
from tidegate.spark.plan.session import allocated, shuffle_partitions
from tidegate.spark.query.axis import TimeAxis
from tidegate.spark.query.schema import collected
from tidegate.spark.worker.pack import LEFT, RIGHT

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from tidegate.spark.layout.layout import Copied, Integers, Layout
    from tidegate.spark.plan.aggregate import AggregatePlan
    from tidegate.spark.plan.join import Plan
    from tidegate.spark.query.input import Input

# The number of rows sampled from both sides together. This number determines the size of a
# partition to within a few percent. The rows are drawn from this fraction, so drawing costs little
# compared with the scan.
SAMPLED = 20_000
FRACTION = 0.02

# The seed of the random numbers by which Sail sorts drawn rows. The sides are drawn with 0 and 1.
_OTHER_SEED = 2

# The maximum number of cells (rows times columns) in a partition. If they contain numbers, they
# take up about 128 MB of a worker's memory.
PARTITION_CELLS = 16_000_000

# The number of rows that justifies a task.
_PARTITION_ROWS = 10_000

# Up to this number of rows on both sides together, rows are divided by key without a sample. A
# sample would take as long as the join. Even if all rows have the same key, a single task joins
# them quickly.
_FEW = 250_000


def of_join(plan: Plan, sample: Sample | None = None) -> Layout:
    """Return the layout for joining tables. Runs the sampling job only if it is needed."""
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
    """Return the layout of a join with few rows, which are divided only by key."""
    [copied] = copied_sides(plan)
    return by_key(tasks_of(plan, rows), copied, plan.reach)


def few_of(plan: Plan) -> float | None:
    """Return the row count if files show that it is small and the rows can be divided by key."""
    if plan.parallelism != "auto" or not plan.native.keys:
        return None
    return _few([one.frame for one in plan.inputs])


def _few(frames: Sequence[DataFrame]) -> float | None:
    """Return the number of rows in all frames, or None if it is large or unknown."""
    rows = 0.0
    for frame in frames:
        found = rows_of(frame)
        if found is None or rows + found.number > _FEW:
            return None
        rows += found.number
    return rows


def tasks_of(plan: Plan, rows: float) -> int:
    """Return the number of partitions for a join of this many rows."""
    columns = max(len(plan.columns.left), len(plan.columns.right))
    return plan.partitions or default_partitions(rows, columns, cores(plan.left.sparkSession))


def of_aggregation(plan: AggregatePlan) -> Layout:
    """Return the layout for aggregating tables. Runs the sampling job only if it is needed."""
    session = plan.frames[0].sparkSession
    if plan.is_whole:
        # All rows with the same key must be in one partition.
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
    # Tasks that read files have another route.
    asked: Division = "auto" if plan.parallelism == "files" else plan.parallelism
    division = asked if plan.aggregation.by else "time"
    return chosen(sample, partitions, "right", plan.reach, division)


def copied_sides(plan: Plan, rows: tuple[float, float] | None = None) -> tuple[Copied, ...]:
    """Return the sides that may be copied to several slices.

    The result must not contain unmatched rows from a copied side, unless both sides are copied. An
    inner join can copy either side if `rows` is known. The side with fewer rows is listed first.
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
    """Return a sample of keys and times in which every row on both sides is equally likely."""
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
    """Return the key hashes and times of randomly sampled rows from one side."""
    times = [(side.value, "left"), (F.lit(None).cast(other.value_type), "right")]
    if number == RIGHT:
        times = [(times[1][0], "left"), (times[0][0], "right")]
    columns = [F.lit(number).alias("side"), F.expr(side.key_hash(other)).alias("hash")]
    columns += [time.alias(name) for time, name in times]
    return drawn(side.without_unmatchable(), columns, seed=number)


def _sample_of_rows(plan: AggregatePlan) -> Sample:
    """Return a sample of keys and times, as for a join of windows (left) with rows (right)."""
    rows = plan.input
    columns = [F.expr(rows.key_hash(rows)).alias("hash"), rows.value.alias("time")]
    found, weight = sampled(drawn(rows.frame, columns, seed=0))
    none = np.array([], np.int64)
    times = TimeAxis(plan.in_days).integers(found.column("time"))
    return Sample(none, none, found.column("hash").to_numpy(), times, weight)


def drawn(rows: DataFrame, columns: Sequence[Column], seed: int) -> DataFrame:
    """Return these columns of random rows, each of which is drawn with probability `FRACTION`."""
    if not host_of(rows.sparkSession).is_sail:
        return rows.sample(fraction=FRACTION, seed=seed).select(*columns)
    selected = rows.select(*columns)
    return selected.where(_random(selected, seed) < FRACTION)


def sampled(drawn: DataFrame, what: str = "keys and times") -> tuple[pa.Table, float]:
    """Return up to `SAMPLED` equally likely rows, and the number of rows that each represents.

    The rows were drawn with probability `FRACTION`. The rows with the smallest random numbers are
    used, so a single pass over the inputs is enough. The total number of rows is estimated from the
    largest of these random numbers.
    """
    draw = F.rand(seed=0)
    if host_of(drawn.sparkSession).is_sail:
        draw = _random(drawn, _OTHER_SEED)
    with described(drawn.sparkSession, f"sample {what}"):
        rows = collected(drawn.withColumn("draw", draw).orderBy("draw").limit(SAMPLED))
    least = 1.0 if rows.num_rows < SAMPLED else float(rows.column("draw").to_numpy().max())
    return rows, 1 / (FRACTION * least)


def _random(rows: DataFrame, seed: int) -> Column:
    """Return a random number from 0 to 1 for each row, for Sail.

    In every batch, Sail's `rand` starts the same sequence, and Sail does not sort by it, as if it
    were constant. The hash of a number and of the row's values has neither problem.
    """
    return F.xxhash64(F.rand(seed), *rows.columns) / 2.0**64 + 0.5


def default_partitions(rows: float, columns: int, cores: int) -> int:
    """Return a partition count that keeps partitions small and is a multiple of the core count."""
    used = min(cores, math.ceil(rows / _PARTITION_ROWS) or 1)
    return used * max(1, math.ceil(rows * columns / (PARTITION_CELLS * used)))


def cores(session: SparkSession) -> int:
    """Return how many tasks can run in parallel; for Spark Connect, how many shuffle partitions.

    Spark Connect does not report the number of cores. With dynamic allocation, executors may join
    later, so the maximum number of executors is used.
    """
    try:
        registered = session.sparkContext.defaultParallelism
    except PySparkException:
        return shuffle_partitions(session)
    return max(registered, allocated(session))
