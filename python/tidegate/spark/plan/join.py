"""The plan of a join: the columns that travel, and the layout that a sample of rows asks for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import StructField, StructType

import tidegate
from tidegate.spark.driver.jobs import described
from tidegate.spark.driver.whole import Choice
from tidegate.spark.driver.whole import chosen as chosen_whole
from tidegate.spark.layout.balance import Division, Sample, chosen
from tidegate.spark.layout.layout import by_key
from tidegate.spark.query.input import Input, check_frames, check_keys
from tidegate.spark.query.query import Query, native_schema
from tidegate.spark.query.schema import Origin, arrow, output, spark_schema
from tidegate.spark.stream.join import check
from tidegate.spark.stream.join import layout as stream_layout
from tidegate.spark.worker.pack import LEFT, NAMES, PACKS, RIGHT, Packer
from tidegate.spark.worker.task import on_worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.spark.layout.layout import Copied, Integers, Layout, Reach
    from tidegate.spark.query.axis import Axis

Parallelism = Literal["auto", "broadcast", "key", "time", "value", "hybrid"]

# Rows sampled from both sides together: a partition's share is then known within a few percent.
# They are drawn from this fraction, so that the draw costs little beside the scan.
SAMPLED = 20_000
FRACTION = 0.02

# Cells (rows times columns) of a partition: about 128 MB of numbers in a worker's memory.
_PARTITION_CELLS = 16_000_000

# Rows that are worth a task.
_PARTITION_ROWS = 10_000

DAY = 86_400_000_000


@dataclass(frozen=True)
class Columns:
    """What travels of each side, and what comes out under which name and Spark type."""

    left: pa.Schema
    right: pa.Schema
    native: tuple[str, ...]
    result: StructType
    origins: tuple[Origin, ...]
    empty: tuple[pa.Table, pa.Table]

    def of(self, side: int) -> pa.Schema:
        """What travels of a side."""
        return self.right if side == RIGHT else self.left

    @classmethod
    def checked(
        cls, left: DataFrame, right: DataFrame, query: Query, columns: Sequence[str] | None
    ) -> Columns:
        """Check the query against both schemas, and drop the columns that nobody asks for."""
        if isinstance(columns, str):
            message = f"columns: expected a list of column names, got {columns!r}"
            raise TypeError(message)
        tables = empty(left, "left"), empty(right, "right")
        native = native_schema(query, *tables, None if columns is None else list(columns))
        for side, frame in enumerate((left, right)):
            check_keys(frame, [pair[side] for pair in query.by], NAMES[side])
        origins = output(left.columns, right.columns, query.by, query.how, query.suffix)
        asked = {name: origins[name] for name in native.names}
        if not asked:
            message = "`columns` is empty: name at least one column of the result"
            raise tidegate.SchemaError(message)
        used = set(asked.values()) | _used_by_where(query, *tables)
        for left_name, right_name in (*query.compared, *query.by):
            used |= {Origin("left", left_name), Origin("right", right_name)}
        sent_left = [name for name in left.columns if Origin("left", name) in used]
        sent_right = [name for name in right.columns if Origin("right", name) in used]
        # Without the left column of its name, a right column needs no suffix in the native call.
        pruned = output(sent_left, sent_right, query.by, query.how, query.suffix)
        native_name = {origin: name for name, origin in pruned.items()}
        result = spark_schema(asked, left.schema, right.schema, query.by, query.how)
        return cls(
            tables[0].select(sent_left).schema,
            tables[1].select(sent_right).schema,
            tuple(native_name[origin] for origin in asked.values()),
            _widened(left.sparkSession, result, native, asked, tables),
            tuple(asked.values()),
            tables,
        )


def _check_kind(left: DataFrame, right: DataFrame, late_as: str | None) -> None:
    """Both sides are tables, or both are streams."""
    if left.isStreaming != right.isStreaming:
        names = ("left", "right") if left.isStreaming else ("right", "left")
        message = "{} is a streaming DataFrame and {} is not: read both as streams, or join inside "
        message += "`foreachBatch`, where both are tables"
        raise tidegate.TidegateError(message.format(*names))
    check_late_as(late_as, "a join", streams=left.isStreaming)


def check_late_as(late_as: str | None, what: str, *, streams: bool) -> None:
    """Refuse a column for late rows where there are none, and what is no name."""
    if late_as is not None and not isinstance(late_as, str):
        message = f"late_as: expected the name of a column, got {late_as!r}"
        raise TypeError(message)
    if late_as is not None and not streams:
        message = f"late_as: in {what} of tables no row is late: leave it out"
        raise tidegate.TidegateError(message)


def empty(frame: DataFrame, side: str) -> pa.Table:
    """No rows of `frame`, as Arrow."""
    names = frame.columns
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        message = f"{side}: columns {twice} are there twice: rename or drop one of each"
        raise tidegate.SchemaError(message)
    return arrow(frame.sparkSession, frame.schema).empty_table()


def _used_by_where(query: Query, left: pa.Table, right: pa.Table) -> set[Origin]:
    """Columns without which the predicate cannot be read."""
    if query.where is None:
        return set()
    used = set()
    for name in left.column_names:
        if not _works(query, left.drop_columns([name]), right):
            used.add(Origin("left", name))
    for name in right.column_names:
        if not _works(query, left, right.drop_columns([name])):
            used.add(Origin("right", name))
    return used


def _works(query: Query, left: pa.Table, right: pa.Table) -> bool:
    try:
        native_schema(query, left, right, None)
    except tidegate.TidegateError:
        return False
    return True


def _widened(
    session: SparkSession,
    result: StructType,
    native: pa.Schema,
    origins: dict[str, Origin],
    empty: tuple[pa.Table, pa.Table],
) -> StructType:
    """The result's schema with the wider type of keys whose sides differ in width."""
    fields = []
    for field in result:
        origin = origins[field.name]
        source = empty[0] if origin.side == "left" else empty[1]
        kind = native.field(field.name).type
        if kind == source.schema.field(origin.name).type:
            fields.append(field)
            continue
        table = pa.table({"widened": pa.array([], kind)})
        wider = session.createDataFrame(table).schema["widened"].dataType
        fields.append(StructField(field.name, wider, field.nullable, field.metadata))
    return StructType(fields)


@dataclass(frozen=True)
class Plan:
    """A join of two DataFrames, ready to be laid out and sent."""

    query: Query
    left: DataFrame
    right: DataFrame
    columns: Columns
    partitions: int | None
    parallelism: Parallelism
    late_as: str | None

    @classmethod
    def of(  # noqa: PLR0913 - the query, and the arguments of Spark
        cls,
        left: DataFrame,
        right: DataFrame,
        query: Query,
        *,
        columns: Sequence[str] | None = None,
        partitions: int | None = None,
        parallelism: Parallelism = "auto",
        late_as: str | None = None,
    ) -> Plan:
        """Check the arguments of a join."""
        check_frames((left, right), NAMES)
        known = ("auto", "broadcast", "key", query.divided, "hybrid")
        check_division(partitions, parallelism, known, query.divided, keyed=bool(query.by))
        if parallelism == "broadcast" and query.how == "full":
            message = "parallelism 'broadcast' sends one side whole, but a full join returns rows "
            message += "without a partner of both: choose another"
            raise tidegate.TidegateError(message)
        _check_kind(left, right, late_as)
        sent = Columns.checked(left, right, query, columns)
        if late_as in sent.result.names:
            message = f"late_as: the result has a column {late_as!r}: choose another name"
            raise tidegate.SchemaError(message)
        plan = cls(query, left, right, sent, partitions, parallelism, late_as)
        if plan.streams:
            check(plan)
        return plan

    @cached_property
    def inputs(self) -> tuple[Input, Input]:
        """The rows and columns that travel, left and right."""
        left_key, right_key = ([pair[side] for pair in self.query.by] for side in (LEFT, RIGHT))
        on = self.query.compared[0]
        left_bands, right_bands = (
            [pair[side] for pair in self.query.bands] for side in (LEFT, RIGHT)
        )
        return (
            Input.of(self.left, self.columns.left.names, on[LEFT], left_key, left_bands),
            Input.of(self.right, self.columns.right.names, on[RIGHT], right_key, right_bands),
        )

    @property
    def streams(self) -> bool:
        """Whether both sides are streams."""
        return self.left.isStreaming

    def packed(self, side: int) -> DataFrame:
        """The rows of a side as packs, each for a partition."""
        mine, other = self.inputs[side], self.inputs[1 - side]
        # A row without a key can be late, too.
        kept = self.keeps[side] or self.late_as is not None
        places = mine.places(other, self.layout, kept=kept)
        packer = Packer(self.layout, side, mine.on, self.axis, len(places))
        rows = mine.frame if kept else mine.without_unmatchable()
        rows = rows.select("*", *places)
        return rows.mapInArrow(on_worker(packer.run, f"tidegate_pack_{NAMES[side]}"), PACKS)

    @property
    def keeps(self) -> tuple[bool, bool]:
        """Whether rows without a partner are returned, left and right."""
        how = self.query.how
        return how in ("left", "anti", "full"), how in ("right", "full")

    @property
    def reports(self) -> tuple[bool, bool]:
        """Whether what is returned of a row depends on all of its partners, left and right."""
        how = self.query.how
        return how not in ("inner", "right"), how in ("right", "full")

    @cached_property
    def choice(self) -> Choice:
        """The side that is sent whole. Reading it collects a small side."""
        return chosen_whole(self)

    @property
    def cores(self) -> int:
        """Tasks that run at a time."""
        return cores(self.left.sparkSession)

    @cached_property
    def _axis_and_reach(self) -> tuple[Axis, Reach]:
        on = self.query.compared[0]
        kinds = (self.columns.left.field(on[LEFT]).type, self.columns.right.field(on[RIGHT]).type)
        return self.query.axis(kinds)

    @property
    def axis(self) -> Axis:
        """What rows are divided by."""
        return self._axis_and_reach[0]

    @property
    def reach(self) -> Reach:
        """How far pairs reach for each other along the axis."""
        return self._axis_and_reach[1]

    @cached_property
    def layout(self) -> Layout:
        """The layout. Reading it runs the sampling jobs, unless they are not needed."""
        if self.streams:
            return stream_layout(self)
        if self.parallelism == "key":
            partitions = self.partitions or shuffle_partitions(self.left.sparkSession)
            [copied] = self._copied(None)
            return by_key(partitions, copied, self.reach)
        sample = self._sample()
        columns = max(len(self.columns.left), len(self.columns.right))
        partitions = self.partitions or default_partitions(sample.rows, columns, self.cores)
        division: Division = "auto"
        if self.parallelism == self.query.divided or not self.query.by:
            division = "time"
        elif self.parallelism == "hybrid":
            division = "hybrid"
        layouts = (
            chosen(sample, partitions, copied, self.reach, division)
            for copied in self._copied(sample)
        )
        return min(layouts, key=lambda layout: layout.cost)

    def _copied(self, sample: Sample | None) -> tuple[Copied, ...]:
        """The side whose rows go to more than one slice: one whose rows need not be kept.

        Of an inner join it is either, the smaller one first.
        """
        if self.query.how == "full":
            return ("both",)
        if self.query.how == "right":
            return ("left",)
        if self.query.how != "inner" or sample is None or self.reach.upper is None:
            return ("right",)
        fewer_left = len(sample.left_hash) < len(sample.right_hash)
        return ("left", "right") if fewer_left else ("right", "left")

    def _sample(self) -> Sample:
        """Keys and times of rows, each row of both sides as likely as another."""
        left, right = self.inputs
        rows, weight = sampled(
            _keys_and_times(left, right, LEFT).union(_keys_and_times(right, left, RIGHT)),
            f"keys and {self.query.divided}s",
        )
        hashes: list[Integers] = []
        times: list[Integers] = []
        for number, name in ((LEFT, "left"), (RIGHT, "right")):
            side = rows.filter(pc.field("side") == number)
            hashes.append(side.column("hash").to_numpy())
            times.append(self.axis.integers(side.column(name)))
        return Sample(hashes[LEFT], times[LEFT], hashes[RIGHT], times[RIGHT], weight)


def sampled(drawn: DataFrame, what: str = "keys and times") -> tuple[pa.Table, float]:
    """At most `SAMPLED` of the rows, each as likely as another, and how many each stands for.

    The rows were drawn with `FRACTION`. Those with the smallest random numbers are taken, so that
    one pass over the inputs does: the largest number taken tells how many rows there are.
    """
    with described(drawn.sparkSession, f"sample {what}"):
        rows = drawn.withColumn("draw", F.rand(seed=0)).orderBy("draw").limit(SAMPLED).toArrow()
    least = 1.0 if rows.num_rows < SAMPLED else float(rows.column("draw").to_numpy().max())
    return rows, 1 / (FRACTION * least)


def check_division(
    partitions: int | None,
    parallelism: str,
    known: Sequence[str],
    divided: str = "time",
    *,
    keyed: bool,
) -> None:
    """Refuse numbers of partitions and ways to divide that there are not."""
    if type(partitions) not in (int, type(None)):
        message = f"partitions: expected an int or None, got {partitions!r}"
        raise TypeError(message)
    if partitions is not None and partitions < 1:
        message = f"partitions: expected at least 1, got {partitions}"
        raise tidegate.TidegateError(message)
    if parallelism not in known:
        message = f"parallelism: expected one of {', '.join(known)}, got {parallelism!r}"
        raise tidegate.TidegateError(message)
    if parallelism in ("key", "hybrid") and not keyed:
        message = f"parallelism {parallelism!r} divides by key: give `by`, or choose {divided!r}"
        raise tidegate.TidegateError(message)


def _keys_and_times(side: Input, other: Input, number: int) -> DataFrame:
    """Hashes of the keys and times of a side's rows, each side's times in a column of its own."""
    times = [(side.value, "left"), (F.lit(None).cast(other.value_type), "right")]
    if number == RIGHT:
        times = [(times[1][0], "left"), (times[0][0], "right")]
    drawn = side.without_unmatchable().sample(fraction=FRACTION, seed=number)
    return drawn.select(
        F.lit(number).alias("side"),
        (side.key_hash(other) if side.by else F.lit(0).cast("long")).alias("hash"),
        *(time.alias(name) for time, name in times),
    )


def default_partitions(rows: float, columns: int, cores: int) -> int:
    """A whole number of partitions a core, none above what a worker should hold."""
    used = min(cores, math.ceil(rows / _PARTITION_ROWS) or 1)
    return used * max(1, math.ceil(rows * columns / (_PARTITION_CELLS * used)))


def cores(session: SparkSession) -> int:
    """Tasks that run at a time; Spark Connect does not tell, so its shuffle width stands in."""
    try:
        return session.sparkContext.defaultParallelism
    except PySparkException:
        return shuffle_partitions(session)


def shuffle_partitions(session: SparkSession) -> int:
    """Partitions that Spark shuffles rows into if nobody says how many."""
    return int(session.conf.get("spark.sql.shuffle.partitions", "200") or "200")
