"""Joins two sides that Spark has already partitioned by the keys, without packing or moving rows.

Examples are tables with the same number of buckets, or DataFrames that result from a `repartition`,
an aggregation or a join on the keys. Since Spark 4.1, a union of both sides keeps their partitions.
Spark does not guarantee this behavior, and a Python function cannot require that all rows with the
same key be in one partition. The union is therefore joined with a row that belongs to neither side.
This hash join needs all rows with the same key in one partition, no matter how Spark changes the
plan. The hash join is a full join, because Spark never splits a partition of a full join, even a
large one. If Spark would shuffle the union for this join, the two sides are partitioned
differently, and another route is chosen.

A join in place is worthwhile if neither side is small enough to be sent in full. A benchmark used
tables with eight buckets and 1,000 keys. Finding the pairs among 2.5 million rows per side took
3.6 s of processor time in place and 4.8 s with packs. Aggregating the partners of four million rows
took 3.7 s in place and 5.1 s with packs (`benches/results/spark-planning.md`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    IntegralType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from tidegate.spark.driver.java import NOT_TOLD
from tidegate.spark.layout.costs import There
from tidegate.spark.worker.in_place import InPlaceTask
from tidegate.spark.worker.pack import LEFT, RIGHT
from tidegate.spark.worker.task import on_worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidegate.spark.plan.join import Plan
    from tidegate.spark.worker.task import Call

# SQL for the keys of the row that belongs to neither side. They are computed from `id`, which is 0,
# because Spark does not use a constant as a join key.
_KEYS: tuple[tuple[type[DataType], str], ...] = (
    (IntegralType, "cast(id as {})"),
    (StringType, "cast(id as string)"),
    (BooleanType, "cast(id as boolean)"),
    (BinaryType, "cast(cast(id as string) as binary)"),
    (DateType, "date_from_unix_date(cast(id as int))"),
    (TimestampType, "timestamp_micros(id)"),
    (TimestampNTZType, "cast(timestamp_micros(id) as timestamp_ntz)"),
    (DecimalType, "cast(id as {})"),
)

# Nodes of a physical plan that have a single child and leave its rows in their partitions.
_WRAPPING = ("Project", "WholeStageCodegen", "InputAdapter", "ColumnarToRow")


@dataclass(frozen=True)
class InPlace:
    """Both sides as one DataFrame. Rows with the same key are in the same partition.

    `slots` contains each column's slot, for both sides. `all_keys` specifies whether Spark has
    partitioned the rows by all keys of the join.
    """

    frame: DataFrame
    slots: tuple[tuple[int, ...], tuple[int, ...]]
    partitions: int
    all_keys: bool

    @property
    def columns(self) -> int:
        """The number of columns passed to Python, including the column for the side."""
        return len(self.frame.columns)

    @property
    def there(self) -> There:
        """The properties that determine this route's cost."""
        return There(self.partitions, self.columns)


def found(plan: Plan) -> InPlace | None:
    """Return both sides in place if their partitions match, otherwise None. Runs no job."""
    if plan.streams or plan.stream_side is not None or not plan.native.keys:
        return None
    try:
        return _found(plan)
    except NOT_TOLD:
        # Spark Connect does not expose its plans, and a vendor's Spark may have different ones.
        return None


def joined(plan: Plan, way: InPlace, call: Call, schema: StructType) -> DataFrame:
    """Return the join as a DataFrame that reads the union once."""
    schemas = plan.columns.left, plan.columns.right
    task = InPlaceTask(schemas, way.slots, call, plan.order)
    return way.frame.mapInArrow(on_worker(task.run, "tidegate_join"), schema)


def _found(plan: Plan) -> InPlace | None:
    of_left, of_right = (_partitioning(mine.frame) for mine in plan.inputs)
    if of_left is None or of_right is None:
        return None
    (left, partitions), (right, others) = of_left, of_right
    pairs = list(zip(left, right, strict=False))
    keys = set(zip(plan.inputs[LEFT].by, plan.inputs[RIGHT].by, strict=True))
    alike = partitions == others and len(left) == len(right) and keys >= set(pairs)
    if not pairs or not alike or plan.partitions not in (None, partitions):
        return None
    # A column in two pairs would need two slots.
    if len(set(left)) < len(pairs) or len(set(right)) < len(pairs):
        return None
    kinds = [plan.inputs[LEFT].fields[one].dataType for one, _ in pairs]
    texts = [_key(kind) for kind in kinds]
    if None in texts or kinds != [plan.inputs[RIGHT].fields[one].dataType for _, one in pairs]:
        return None
    slots = _slots(plan, pairs)
    union = reduce(lambda one, other: one.union(other), _aligned(plan, slots))
    names = [f"k{at}" for at in range(len(pairs))]
    keyed = [f"{text} {name}" for text, name in zip(texts, names, strict=True)]
    of_none = plan.left.sparkSession.range(0, 1, 1, 1).selectExpr(*keyed).hint("shuffle_hash")
    equal = reduce(
        Column.__and__,
        (F.col(f"s{slots[LEFT][one]}") == F.col(name) for (one, _), name in zip(pairs, names)),  # noqa: B905
    )
    frame = union.join(of_none, equal, "full").select(*union.columns)
    if not _stays(frame):
        return None
    return InPlace(frame, slots, partitions, all_keys=len(pairs) == len(keys))


def _key(kind: DataType) -> str | None:
    """Return SQL for a key of the additional row; None if values are not compared as bytes."""
    text = next((text for known, text in _KEYS if isinstance(kind, known)), None)
    return None if text is None else text.format(kind.simpleString())


def _slots(plan: Plan, pairs: Sequence[tuple[int, int]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the slot of each column.

    Columns that are paired in `pairs` share a slot, as do columns of the same type.
    """
    left, right = ([field.dataType for field in plan.inputs[side].fields] for side in (LEFT, RIGHT))
    partner = dict(pairs)
    free = [at for at in range(len(right)) if at not in partner.values()]
    for at, kind in enumerate(left):
        same = next((other for other in free if right[other] == kind), None)
        if at not in partner and same is not None:
            partner[at] = same
            free.remove(same)
    of_right = {other: at for at, other in partner.items()}
    of_right |= {other: len(left) + number for number, other in enumerate(free)}
    return tuple(range(len(left))), tuple(of_right[at] for at in range(len(right)))


def _aligned(plan: Plan, slots: tuple[tuple[int, ...], tuple[int, ...]]) -> list[DataFrame]:
    """Return both sides with one column per slot (null where unused) and the `side` column."""
    count = max(map(max, slots)) + 1
    frames = []
    for side in (LEFT, RIGHT):
        mine = plan.inputs[side]
        rows = mine.frame if plan.keeps[side] else mine.without_unmatchable()
        column_of = {slot: f"u{at}" for at, slot in enumerate(slots[side])}
        columns = [f"{column_of.get(slot, 'null')} s{slot}" for slot in range(count)]
        frames.append(rows.selectExpr(*columns, f"cast({side} as tinyint) side"))
    return frames


def _partitioning(frame: DataFrame) -> tuple[list[int], int] | None:
    """Return the columns whose hash determines a row's partition in Spark, and the partition count.

    Bucketed tables report their partitioning before Spark prepares a plan. Aggregations and joins
    report their partitioning only afterwards.
    """
    execution = frame._jdf.queryExecution()  # noqa: SLF001 - no other way
    for plan in (execution.sparkPlan(), _initial(execution.executedPlan())):
        found = plan.outputPartitioning()
        if found.getClass().getSimpleName() != "HashPartitioning":
            continue
        hashed = found.expressions()
        names = [hashed.apply(at).sql() for at in range(hashed.size())]
        columns = {name: at for at, name in enumerate(frame.columns)}
        if all(name in columns for name in names):
            return [columns[name] for name in names], int(found.numPartitions())
    return None


def _initial(plan: Any) -> Any:  # noqa: ANN401 - an object of Java
    """Return Spark's initial plan, before Spark adapts it."""
    return plan.initialPlan() if plan.nodeName() == "AdaptiveSparkPlan" else plan


def _stays(frame: DataFrame) -> bool:
    """Return whether Spark can join the union with the additional row and move no other rows."""
    plan = _below(_initial(frame._jdf.queryExecution().executedPlan()))  # noqa: SLF001 - as above
    if plan.nodeName() != "ShuffledHashJoin":
        return False
    return bool(_below(plan.children().apply(0)).nodeName() == "Union")


def _below(plan: Any) -> Any:  # noqa: ANN401 - an object of Java
    """Return the first node that does anything other than pass on rows."""
    while plan.nodeName().startswith(_WRAPPING):
        plan = plan.children().apply(0)
    return plan
