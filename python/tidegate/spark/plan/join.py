"""The plan of a join: its arguments, and the columns that travel. Making one reads no rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
from pyspark.sql.types import DateType, StructField, StructType

import tidegate
from tidegate.spark.layout.overlap import OverlapLayout
from tidegate.spark.plan.bins import exact_ends, unfit
from tidegate.spark.plan.checks import check_division, check_late_as, empty
from tidegate.spark.plan.streams import check_host, check_watermark
from tidegate.spark.query.axis import of_band, of_time, whole
from tidegate.spark.query.input import Input, check_frames, check_keys
from tidegate.spark.query.schema import Origin, aggregate_fields, spark_schema
from tidegate.spark.worker.nearest import NearestPacker, RightWhere
from tidegate.spark.worker.order import Order
from tidegate.spark.worker.overlap import ComputedEnds, OverlapPacker, StartsAndEnds
from tidegate.spark.worker.pack import LEFT, NAMES, PACKS, RIGHT, Marked, Packer
from tidegate.spark.worker.partials import PartialsPacker, Parts
from tidegate.spark.worker.task import on_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from tidegate._tidegate import JoinPlan
    from tidegate.agg import Aggregate
    from tidegate.spark.layout.bins import Ends
    from tidegate.spark.layout.layout import Layout, Reach
    from tidegate.spark.query.axis import Axis
    from tidegate.spark.query.query import SparkQuery
    from tidegate.spark.worker.overlap import Intervals
    from tidegate.spark.worker.task import Batches
    from tidegate.types import Length

Parallelism = Literal["auto", "bins", "broadcast", "key", "time", "value", "hybrid"]


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
    def planned(
        cls,
        left: DataFrame,
        right: DataFrame,
        query: SparkQuery,
        plan: JoinPlan,
        tables: tuple[pa.Table, pa.Table],
    ) -> Columns:
        """The columns that the plan reads of the tables, and the columns of its result."""
        asked = _origins(plan)
        if not plan.schema.names:
            message = "`columns` is empty: name at least one column of the result"
            raise tidegate.SchemaError(message)
        right_columns = plan.right_columns
        if query.is_asof and query.native.how not in ("semi", "anti"):
            # Right rows with equal times are ordered by all columns, including those not in the
            # result.
            right_columns = tables[1].column_names
        sent = tables[0].select(plan.left_columns), tables[1].select(right_columns)
        native = tuple(asked)
        if not query.aggs:
            # Without the left column of its name, a right column needs no suffix in the native
            # call.
            pruned = query.plan(*sent)
            native_name = {origin: name for name, origin in _origins(pruned).items()}
            native = tuple(native_name[origin] for origin in asked.values())
        result = spark_schema(asked, left.schema, right.schema, plan.keys, query.how)
        result = _widened(left.sparkSession, result, plan.schema, asked, tables)
        result = _told_apart(left.sparkSession, result, asked, query.arguments["suffix"])
        of_right = aggregate_fields(query.aggs, right.schema, tables[1].schema, plan.schema)
        return cls(
            sent[0].schema,
            sent[1].schema,
            native,
            StructType([*result, *of_right]),
            tuple(asked.values()),
            tables,
        )


def _check_kind(
    left: DataFrame,
    right: DataFrame,
    query: SparkQuery,
    late_as: str | None,
    max_width: Length | None,
) -> None:
    """Refuse an overlap join of two streams, and what only a join of two streams has."""
    streams = left.isStreaming and right.isStreaming
    if query.is_overlap and streams:
        message = "both sides are streaming DataFrames, and overlap_join keeps no rows of streams, "
        message += "since an interval may have any length: read one side as a table, or call it "
        message += "inside `foreachBatch`, where each micro-batch is a table"
        raise tidegate.TidegateError(message)
    one = left.isStreaming or right.isStreaming
    what = "a join of a stream and a table" if one else "a join of tables"
    check_late_as(late_as, what, streams=streams)
    if max_width is not None and not streams:
        message = "max_width bounds the rows that are kept of two streams, but here a side is a "
        message += "table, whose ends may be any time away: leave it out"
        raise tidegate.TidegateError(message)


def _check_stream_and_table(plan: Plan, stream: int) -> None:
    """Refuse what a join of a stream and a table cannot do."""
    names = NAMES[stream], NAMES[1 - stream]
    if plan.reports[1 - stream]:
        asked = f"how={plan.query.how!r}"
        remedy = "give how='inner' or how={0!r}"
        if plan.query.comes_once:
            asked = "an as-of join" if plan.query.is_asof else "aggs"
            remedy = "let the stream be the left side"
        message = f"{asked}: {{0}} is a stream, which never ends, and {{1}} is a table, so that "
        message += "no row of the table is ever known to have met all its partners: "
        message += f"{remedy}, or join inside `foreachBatch`, where each micro-batch is a table"
        raise tidegate.TidegateError(message.format(*names))
    if plan.parallelism not in ("auto", "broadcast"):
        message = "parallelism {2!r} divides the rows of both sides, but {0} is a stream and {1} a "
        message += "table, which is sent whole: leave it out, or join inside `foreachBatch`, where "
        message += "each micro-batch is a table"
        raise tidegate.TidegateError(message.format(*names, plan.parallelism))


def _check_ends(plan: Plan) -> None:
    """Refuse ends from columns that may be any time away, and a width that is unfit."""
    if any(plan.query.row_ends) and plan.max_width is None:
        message = "max_width: an end from columns may be any time away, and rows of streams are "
        message += "kept as long as an end may reach them: say how far away ends are at most, such "
        message += (
            "as max_width='1 hour', or join inside `foreachBatch`, where each micro-batch is "
        )
        message += "a table"
        raise tidegate.TidegateError(message)
    if plan.max_width is not None:
        query = plan.query.native.replace(columns=plan.columns.native)
        query.operator(plan.columns.left, plan.columns.right, max_width=plan.max_width)


def _check_streams(plan: Plan) -> None:
    """Refuse what a join of streams cannot do, before the query starts."""
    time = plan.native.time
    if time is None:
        message = "time: a band join of streams needs the time columns, and with them a window, "
        message += "without which no row could be forgotten: give time='ts' and window='10 minutes'"
        raise tidegate.TidegateError(message)
    _check_ends(plan)
    if plan.query.aggs and plan.time[1].upper is None:
        message = "upper: without an upper bound, a later right row may always be a partner, so no "
        message += "left row of a stream is ever final: give one, such as upper='0s'"
        raise tidegate.TidegateError(message)
    for side, frame in enumerate((plan.left, plan.right)):
        check_watermark(frame, NAMES[side], time[0][side])
    check_host(plan.left.sparkSession)
    if plan.parallelism == "broadcast":
        message = "parallelism 'broadcast' sends one side whole, but a stream never ends: leave it "
        message += "out, or join each micro-batch inside `foreachBatch`"
        raise tidegate.TidegateError(message)
    if plan.parallelism == "bins":
        message = "parallelism 'bins' is Spark's own join of tables, and these are streams: leave "
        message += "it out, or join each micro-batch inside `foreachBatch`"
        raise tidegate.TidegateError(message)
    if plan.parallelism in (plan.query.divided, "hybrid") and not plan.is_sliced:
        why = "its pairs may be any distance apart"
        if plan.query.has_prevailing:
            why = "the row that prevails may be any time before an interval"
        message = f"parallelism {plan.parallelism!r} cuts streams into slices, but {why}: leave it "
        message += "out, or give 'key'"
        raise tidegate.TidegateError(message)


def _is_ordered(one: Aggregate, schema: pa.Schema) -> bool:
    """Whether the order of rows shows in a function's result, be it in the last bit."""
    if one.function in ("sum", "mean") and one.column is not None:
        return bool(pa.types.is_floating(schema.field(one.column).type))
    return one.function not in _IN_ANY_ORDER


# Ends of a reach are whole numbers up to here, be they floats.
_EXACT = 2**53


def _is_bytewise(kind: pa.DataType) -> bool:
    """Whether values are equal if their bytes are, as those of floats are not."""
    types = pa.types
    tests = types.is_integer, types.is_string, types.is_binary, types.is_boolean, types.is_temporal
    return any(test(kind) for test in tests)


# Functions in whose results the order of rows never shows.
_IN_ANY_ORDER = frozenset(
    ["count", "sum", "mean", "min", "max", "any", "all", "median", "quantile", "count_distinct"],
)


def _origins(plan: JoinPlan) -> dict[str, Origin]:
    """The result's columns, in order, and the input column of each; the left one, if of both.

    Aggregates are left out: they are made of rows, not of a column.
    """
    return {
        name: Origin("right", str(right)) if left is None else Origin("left", left)
        for name, (left, right) in zip(plan.schema.names, plan.origins, strict=True)
        if (left, right) != (None, None)
    }


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


def _told_apart(
    session: SparkSession, result: StructType, origins: dict[str, Origin], suffix: str
) -> StructType:
    """The result's schema; right names that differ from left names only in case get a suffix.

    Spark treats such names as equal unless `spark.sql.caseSensitive` is true.
    """
    if session.conf.get("spark.sql.caseSensitive", "false") == "true":
        return result
    lefts = {name.lower() for name, origin in origins.items() if origin.side == "left"}
    fields = []
    for field, origin in zip(result, origins.values(), strict=True):
        is_taken = origin.side == "right" and field.name.lower() in lefts
        name = f"{field.name}{suffix}" if is_taken else field.name
        fields.append(StructField(name, field.dataType, field.nullable, field.metadata))
    return StructType(fields)


@dataclass(frozen=True)
class Plan:
    """A join of two DataFrames, ready to be laid out and sent."""

    query: SparkQuery
    native: JoinPlan
    left: DataFrame
    right: DataFrame
    columns: Columns
    partitions: int | None
    parallelism: Parallelism
    late_as: str | None
    max_width: Length | None = None

    @classmethod
    def of(  # noqa: PLR0913 - the query, and the arguments of Spark
        cls,
        left: DataFrame,
        right: DataFrame,
        query: SparkQuery,
        *,
        columns: Sequence[str] | None = None,
        partitions: int | None = None,
        parallelism: Parallelism = "auto",
        late_as: str | None = None,
        max_width: Length | None = None,
    ) -> Plan:
        """Check the arguments of a join."""
        check_frames((left, right), NAMES)
        if isinstance(columns, str):
            message = f"columns: expected a list of column names, got {columns!r}"
            raise TypeError(message)
        _check_kind(left, right, query, late_as, max_width)
        tables = empty(left, "left"), empty(right, "right")
        native = query.plan(*tables, None if columns is None else list(columns))
        for side, frame in enumerate((left, right)):
            check_keys(frame, [pair[side] for pair in native.keys], NAMES[side])
        query = query.settled(native, tables)
        of_times = ("bins",) if query.function == "interval_join" else ()
        known = ("auto", *of_times, "broadcast", "key", query.divided, "hybrid")
        if parallelism == "bins" and query.is_overlap:
            why = unfit(query, native, tables)
            message = f"parallelism 'bins' is not for overlap joins: {why}: leave it out, or give "
            message += "'broadcast', 'key', 'time' or 'hybrid'"
            raise tidegate.TidegateError(message)
        check_division(partitions, parallelism, known, query.divided, keyed=bool(native.keys))
        if parallelism == "broadcast" and query.how == "full":
            message = "parallelism 'broadcast' sends one side whole, but a full join returns rows "
            message += "without a partner of both sides: choose another parallelism"
            raise tidegate.TidegateError(message)
        sent = Columns.planned(left, right, query, native, tables)
        if late_as in sent.result.names:
            message = f"late_as: the result has a column {late_as!r} already: choose another name"
            raise tidegate.SchemaError(message)
        plan = cls(query, native, left, right, sent, partitions, parallelism, late_as, max_width)
        if plan.streams:
            _check_streams(plan)
        elif plan.stream_side is not None:
            _check_stream_and_table(plan, plan.stream_side)
        elif parallelism == "bins" and plan.without_bins is not None:
            message = f"parallelism 'bins' is not for this join: {plan.without_bins}; leave it "
            message += "out, or give another parallelism"
            raise tidegate.TidegateError(message)
        return plan

    @cached_property
    def inputs(self) -> tuple[Input, Input]:
        """The rows and columns that travel, left and right."""
        left_key, right_key = ([pair[side] for pair in self.native.keys] for side in (LEFT, RIGHT))
        (left_on, right_on), _ = self._divided
        left_bands, right_bands = (
            [pair[side] for pair, _ in self.native.bands] for side in (LEFT, RIGHT)
        )
        left: Sequence[str] = [left_on]
        right: Sequence[str] = [right_on]
        if self.query.is_overlap:
            left, right = self.starts_and_ends_named
        return (
            Input.of(self.left, self.columns.left.names, left, left_key, left_bands),
            Input.of(self.right, self.columns.right.names, right, right_key, right_bands),
        )

    @property
    def has_intervals(self) -> bool:
        """Whether rows have a start and an end, and pair only where these intervals overlap."""
        return self.query.is_overlap or any(self.query.row_ends)

    def intervals(self, side: int) -> Intervals:
        """The starts and ends of the rows of a side, for the workers."""
        if not self.query.is_overlap:
            return self._computed_ends(side)
        return self.starts_and_ends(side)

    def starts_and_ends(self, side: int) -> StartsAndEnds:
        """The start and the end column of an overlap join, likewise."""
        start, end = self.inputs[side].interval
        return StartsAndEnds(side, self.starts_and_ends_named[side], (start, end), self.axis)

    @property
    def starts_and_ends_named(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """The names of the start and end columns of each side of an overlap join."""
        assert self.native.intervals is not None  # noqa: S101 - for mypy
        return self.native.intervals

    def _computed_ends(self, side: int) -> ComputedEnds:
        sides = self.columns.left, self.columns.right
        plan = self.query.of_ends.plan(*sides)
        read = plan.left_columns, plan.right_columns
        left, right = (
            pa.schema([schema.field(name) for name in names])
            for schema, names in zip(sides, read, strict=True)
        )
        return ComputedEnds(
            side,
            self.query.of_ends,
            (left, right),
            tuple(sides[side].names.index(name) for name in read[side]),
            are_points=not plan.end_columns[side],
        )

    @property
    def in_days(self) -> bool:
        """Whether all times are dates, and so are counted in days."""
        at = [
            (side, position) for side in self.inputs for position in (side.interval or (side.on,))
        ]
        return all(isinstance(side.fields[position].dataType, DateType) for side, position in at)

    @property
    def streams(self) -> bool:
        """Whether both sides are streams."""
        return self.left.isStreaming and self.right.isStreaming

    @property
    def stream_side(self) -> int | None:
        """The side that is a stream while the other is a table, if there is such a side."""
        if self.left.isStreaming == self.right.isStreaming:
            return None
        return LEFT if self.left.isStreaming else RIGHT

    @cached_property
    def without_bins(self) -> str | None:
        """The reason why this join cannot use time bins; None if it can."""
        return unfit(self.query, self.native, self.columns.empty)

    @cached_property
    def ends(self) -> Ends:
        """The least and the largest distance in time of a pair, where there may be bins."""
        return exact_ends(self.native)

    def packed(self, side: int, layout: Layout | OverlapLayout) -> DataFrame:
        """The rows of a side as packs, each for a partition of the layout."""
        mine, other = self.inputs[side], self.inputs[1 - side]
        # A row without a key can be late, too.
        kept = self.keeps[side] or self.late_as is not None
        places = mine.places(other, layout, kept=kept)
        work = self._packing(side, layout, len(places))
        rows = mine.frame if kept else mine.without_unmatchable()
        rows = rows.select("*", *places)
        if self.streams:
            work = Marked(work).run
        return rows.mapInArrow(on_worker(work, f"tidegate_pack_{NAMES[side]}"), PACKS)

    def _packing(
        self, side: int, layout: Layout | OverlapLayout, extra: int
    ) -> Callable[[Batches], Batches]:
        """What makes packs of a side's rows; behind their columns are `extra` ones."""
        if isinstance(layout, OverlapLayout):
            return OverlapPacker(layout, side, self.intervals(side), extra=extra).run
        mine = self.inputs[side]
        packer = Packer(layout, side, mine.on, self.axis, extra=extra)
        work = packer.run
        if side == RIGHT and self.reach.nearest:
            work = NearestPacker(packer, mine.by, self.right_where).run
        # A partition that has several pieces of a slice cannot tell whose rows are combined.
        if side == RIGHT and self.parts is not None and not layout.has_pieces:
            schema = self.columns.right
            keys = tuple(schema.names[key] for key in mine.by)
            work = PartialsPacker(packer, self.parts, schema, keys, self.right_where).run
        return work

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

    @property
    def _divided(self) -> tuple[tuple[str, str], tuple[float | None, float | None]]:
        """The columns that rows may be divided by, and how far pairs are apart in them.

        Of rows that have a start and an end, it is the start.
        """
        if self.query.is_overlap:
            (left, _), (right, _) = self.starts_and_ends_named
            return (left, right), (None, None)
        return self.native.bands[0] if self.native.bands else self._reach_in_time

    @cached_property
    def _axis_and_reach(self) -> tuple[Axis, Reach]:
        on, ends = self._divided
        kinds = (self.columns.left.field(on[LEFT]).type, self.columns.right.field(on[RIGHT]).type)
        if self.query.is_overlap:
            every = zip((LEFT, RIGHT), self.starts_and_ends_named, strict=True)
            return of_time(
                [self.columns.of(side).field(name).type for side, names in every for name in names],
                *ends,
            )
        if self.query.has_prevailing:
            # The last row before an interval may be any time before it.
            ends = None, ends[1]
        axis, reach = (of_band if self.native.bands else of_time)(kinds, *ends)
        # Slices of streams are far from each other, so that no row is the nearest of all.
        nearest = self.query.is_asof and not self.streams and not all(self._where_reads)
        return axis, replace(reach, nearest=nearest, partial=self.parts is not None)

    @cached_property
    def parts(self) -> Parts | None:
        """The functions of partners in parts, if partial rows may travel beside rows."""
        query, right = self.query, self.columns.right
        if (
            not query.aggs
            or self.has_intervals
            or self.streams
            or self._shows_order
            or all(self._where_reads)
        ):
            return None
        if not self._is_covered_by_reach:
            return None
        taken = [*self.columns.left.names, *right.names, *query.aggs]
        return Parts.of(query.aggs, right, taken)

    @property
    def _is_covered_by_reach(self) -> bool:
        """Whether rows pair if they are within reach, and have one key whose bytes are equal."""
        if len(self.native.bands) + (self.native.time is not None) > 1:
            return False
        on, ends = self._divided
        kinds = [self.columns.of(side).field(on[side]).type for side in (LEFT, RIGHT)]
        # Others are rounded on their way to an axis.
        exact = all(map(pa.types.is_integer, kinds)) or (
            kinds[0] == kinds[1]
            and not (pa.types.is_floating(kinds[0]) or pa.types.is_decimal(kinds[0]))
        )
        keys = [self.columns.right.field(pair[RIGHT]).type for pair in self.native.keys]
        return (
            exact
            and all(end is None or abs(end) <= _EXACT for end in ends)
            and all(_is_bytewise(key) for key in keys)
        )

    @cached_property
    def _where_reads(self) -> tuple[bool, bool]:
        """Whether the condition reads columns of the left side, and of the right one."""
        left, right = self.native.condition_columns
        return bool(left), bool(right)

    @property
    def right_where(self) -> RightWhere | None:
        """The condition that tasks test which send right rows, if these alone meet it or not."""
        alone = self.query.is_asof or self.parts is not None
        if not alone or self._where_reads != (False, True):
            return None
        on, _ = self._divided
        schemas = self.columns.left, self.columns.right
        return RightWhere(schemas, on, self.query.arguments["where"])

    @cached_property
    def order(self) -> Order | None:
        """The order that right rows must come in, where it shows in the result."""
        if not self._shows_order:
            return None
        # Functions see the rows of a band by number, and others by time first.
        return Order(self._divided[0][RIGHT], self.axis, by_number=bool(self.native.bands))

    @property
    def _shows_order(self) -> bool:
        schema = self.columns.right
        ordered = any(_is_ordered(one, schema) for one in self.query.aggs.values())
        return ordered or self.query.has_prevailing or self.query.is_asof

    @property
    def axis(self) -> Axis:
        """What rows are divided by."""
        return self._axis_and_reach[0]

    @property
    def reach(self) -> Reach:
        """How far pairs reach for each other along the axis."""
        return self._axis_and_reach[1]

    @property
    def time(self) -> tuple[tuple[str, str], Reach]:
        """The time columns of streams, and how many microseconds pairs reach."""
        columns, ends = self._reach_in_time
        return columns, whole(*ends)

    @property
    def _reach_in_time(self) -> tuple[tuple[str, str], tuple[float | None, float | None]]:
        if self.native.time is None:
            message = "time: a band join without windows has no time: give `time` and `window`"
            raise tidegate.TidegateError(message)
        names, ends = self.native.time
        if self.max_width is None:
            return names, ends
        far = self.native.steps("max_width", self.max_width)
        lower, upper = (
            sign * far if is_of_row else end
            for sign, is_of_row, end in zip((-1, 1), self.query.row_ends, ends, strict=True)
        )
        return names, (lower, upper)

    @property
    def is_sliced(self) -> bool:
        """Whether rows of streams are divided by time or by value, beside or instead of keys."""
        asked = self.parallelism in (self.query.divided, "hybrid") or not self.native.keys
        return asked and self.reach.width is not None

    @property
    def home_names(self) -> tuple[str, str]:
        """Names that no column of either side has, for a column that tells rows at home."""
        taken = {*self.columns.left.names, *self.columns.right.names, *self.columns.native}
        longest = max(len(name) for name in taken)
        return "l".ljust(longest + 1, "_"), "r".ljust(longest + 1, "_")
