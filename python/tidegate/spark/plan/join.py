"""The plan of a join: its arguments, and the columns that are sent. It reads no rows.

Long because each kind of join rejects some arguments with its own message.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DateType, StructField, StructType

import tidegate
from tidegate.spark.layout.overlap import OverlapLayout
from tidegate.spark.plan.bins import exact_ends, unfit
from tidegate.spark.plan.checks import (
    check_asked,
    check_columns,
    check_division,
    check_late_as,
    check_width,
    empty,
)
from tidegate.spark.plan.streams import check_engine, check_host, check_watermark
from tidegate.spark.query.axis import of_band, of_time, whole
from tidegate.spark.query.files import passed
from tidegate.spark.query.input import Input, check_frames, check_keys
from tidegate.spark.query.schema import Origin, aggregate_fields, spark_schema, told_apart
from tidegate.spark.worker.nearest import NearestPacker, RightWhere
from tidegate.spark.worker.order import Order
from tidegate.spark.worker.overlap import ComputedEnds, OverlapPacker, StartsAndEnds
from tidegate.spark.worker.pack import LEFT, NAMES, PACKS, RIGHT, Marked, Packer
from tidegate.spark.worker.partials import PartialsPacker, Parts
from tidegate.spark.worker.task import on_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame

    from tidegate._tidegate import JoinPlan
    from tidegate.agg import Aggregate
    from tidegate.spark.layout.bins import Ends
    from tidegate.spark.layout.layout import Layout, Reach
    from tidegate.spark.query.axis import Axis
    from tidegate.spark.query.query import SparkQuery
    from tidegate.spark.worker.overlap import Intervals
    from tidegate.spark.worker.task import Batches
    from tidegate.types import Length

Parallelism = Literal["auto", "bins", "broadcast", "files", "key", "time", "value", "hybrid"]


@dataclass(frozen=True)
class Columns:
    """The columns sent from each side, and the names and Spark types of the result columns."""

    left: pa.Schema
    right: pa.Schema
    native: tuple[str, ...]
    result: StructType
    origins: tuple[Origin, ...]
    empty: tuple[pa.Table, pa.Table]

    def of(self, side: int) -> pa.Schema:
        """Return the columns that are sent from a side."""
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
        """Return the columns that the plan reads from the tables, and the columns of its result."""
        asked = origins_of(plan)
        check_asked(plan.schema)
        right_columns = plan.right_columns
        if query.has_limit or (query.is_asof and query.native.how not in ("semi", "anti")):
            # Right rows with equal times are ordered by all columns, including those not in the
            # result.
            right_columns = tables[1].column_names
        sent = tables[0].select(plan.left_columns), tables[1].select(right_columns)
        native = tuple(asked)
        # The columns that determine the names of several lookups are always sent.
        if not query.aggs and not query.has_lookups:
            # In the native call, a right column needs no suffix if the left column with the same
            # name is not sent.
            pruned = query.plan(*sent)
            native_name = {origin: name for name, origin in origins_of(pruned).items()}
            native = tuple(native_name[origin] for origin in asked.values())
        result = spark_schema(asked, left.schema, right.schema, plan.keys, query.how)
        result = widened(result, plan.schema, asked, tables)
        result = told_apart(left.sparkSession, result, asked, query.arguments["suffix"])
        of_right = aggregate_fields(query.aggs, right.schema, tables[1].schema, plan.schema)
        return cls(
            sent[0].schema,
            sent[1].schema,
            native,
            StructType([*result, *of_right]),
            tuple(asked.values()),
            tables,
        )


def _of_open_ends(
    parallelism: Parallelism, partitions: int | None, *, keyed: bool
) -> tuple[Parallelism, int | None]:
    """Return how to divide rows whose intervals can be infinitely long: only by key."""
    if parallelism not in ("auto", "key", "broadcast"):
        message = f"parallelism {parallelism!r} splits rows by time, but with open_ends, a row can "
        message += "match all later rows; leave it out, or give 'key' or 'broadcast'"
        raise tidegate.TidegateError(message)
    if parallelism == "broadcast":
        return parallelism, partitions
    return "key", partitions if keyed else 1


def _check_kind(
    left: DataFrame,
    right: DataFrame,
    late_as: str | None,
    max_width: Length | None,
) -> None:
    """Reject streams that cannot be joined, and options that require two streams."""
    if left.isStreaming or right.isStreaming:
        check_engine(left.sparkSession)
    streams = left.isStreaming and right.isStreaming
    one = left.isStreaming or right.isStreaming
    what = "a join of a stream and a table" if one else "a join of tables"
    check_late_as(late_as, what, streams=streams)
    check_width(max_width, streams=streams)


def _check_limit(query: SparkQuery) -> None:
    """Reject a limit if the result contains unmatched right rows."""
    if query.has_limit and query.native.keeps_right:
        message = f"how={query.native.how!r} returns right rows that no left row keeps, but a task "
        message += "reads only some of the pairs that limit compares; give how='inner' or "
        message += "how='left'"
        raise tidegate.TidegateError(message)


def _check_stream_and_table(plan: Plan, stream: int) -> None:
    """Reject options that a join of a stream and a table does not support."""
    names = NAMES[stream], NAMES[1 - stream]
    if plan.reports[1 - stream]:
        asked = f"how={plan.query.how!r}"
        remedy = "give how='inner' or how={0!r}"
        if plan.query.comes_once:
            asked = "limit" if plan.query.has_limit else "aggs"
            if plan.query.is_asof:
                asked = "an as-of join"
            remedy = "make the stream the left side"
        message = f"{asked}: {{0}} is a stream, which never ends, and {{1}} is a table, so "
        message += "later rows can always match a row in the table; "
        message += f"{remedy}, or join inside `foreachBatch`, where each micro-batch is a table"
        raise tidegate.TidegateError(message.format(*names))
    if plan.parallelism not in ("auto", "broadcast"):
        message = "parallelism {2!r} divides the rows on both sides, "
        message += "but {0} is a stream, and {1} is a table that is sent in full; leave it out, "
        message += "or join inside `foreachBatch`, where each micro-batch is a table"
        raise tidegate.TidegateError(message.format(*names, plan.parallelism))


def _check_ends(plan: Plan) -> None:
    """Reject ends read from columns without a `max_width`, and an invalid `max_width`."""
    if plan.has_widths and plan.max_width is None:
        what, how_far = "an interval end computed from columns can be at any distance", "distance"
        if plan.query.is_overlap:
            what, how_far = "a row can have any length", "length"
        message = f"max_width: {what}, "
        message += "and rows from streams are kept as long as an interval may reach them; "
        message += f"give the maximum {how_far}, such as max_width='1 hour', "
        message += "or join inside `foreachBatch`, where each micro-batch is a table"
        raise tidegate.TidegateError(message)
    if plan.max_width is not None or plan.query.is_overlap:
        query = plan.query.native.replace(columns=plan.columns.native)
        query.operator(plan.columns.left, plan.columns.right, max_width=plan.max_width)


def _check_streams(plan: Plan) -> None:
    """Reject options that a join of streams does not support, before the query starts."""
    if plan.native.time is None and not plan.query.is_overlap:
        message = "time: a band join of streams needs the time columns and a window; "
        message += "without them, no row could be removed; give time='ts' and window='10 minutes'"
        raise tidegate.TidegateError(message)
    _check_ends(plan)
    if plan.query.has_lookups or plan.query.has_limit:
        # Raises the error of the operator, which names the alternative.
        plan.query.native.operator(plan.columns.left, plan.columns.right)
    times = plan.time[0]
    if plan.query.aggs and plan.time[1].upper is None:
        message = "upper: without an upper bound, later right rows can always match, "
        message += "so no left row in a stream is ever final; give a bound, such as upper='0s'"
        raise tidegate.TidegateError(message)
    for side, frame in enumerate((plan.left, plan.right)):
        check_watermark(frame, NAMES[side], times[side])
    check_host(plan.left.sparkSession)
    if plan.parallelism == "broadcast":
        message = "parallelism 'broadcast' sends one side in full, but a stream never ends; "
        message += "leave it out, or join each micro-batch inside `foreachBatch`"
        raise tidegate.TidegateError(message)
    if plan.parallelism == "bins":
        message = "parallelism 'bins' uses Spark's own join of tables, but these are streams; "
        message += "leave it out, or join each micro-batch inside `foreachBatch`"
        raise tidegate.TidegateError(message)
    if plan.parallelism in (plan.query.divided, "hybrid") and not plan.is_sliced:
        why = "the rows of a pair can be any distance apart"
        if plan.query.has_prevailing:
            why = "the prevailing row can be any distance before an interval"
        message = f"parallelism {plan.parallelism!r} divides streams into slices, but {why}; "
        message += "leave it out, or give 'key'"
        raise tidegate.TidegateError(message)


def _is_ordered(one: Aggregate, schema: pa.Schema) -> bool:
    """Return whether row order can change a function's result, even if only in the last bit."""
    if one.function in ("sum", "mean") and one.column is not None:
        # The type of an expression is not known here.
        is_stored = one.column in schema.names
        return not is_stored or bool(pa.types.is_floating(schema.field(one.column).type))
    return one.function not in _IN_ANY_ORDER


# Up to this limit, the bounds of a reach are exact integers, even if they are floats.
_EXACT = 2**53


def _is_bytewise(kind: pa.DataType) -> bool:
    """Return whether two values of this type are equal if and only if their bytes are equal."""
    types = pa.types
    tests = types.is_integer, types.is_string, types.is_binary, types.is_boolean, types.is_temporal
    return any(test(kind) for test in tests)


# Functions whose results never depend on the order of rows.
_IN_ANY_ORDER = frozenset(
    ["count", "sum", "mean", "min", "max", "any", "all", "median", "quantile", "count_distinct"],
)


def origins_of(plan: JoinPlan) -> dict[str, Origin]:
    """Return the input column of each result column, in order; for keys, the left input column.

    Aggregates are omitted, because they are computed from rows rather than taken from a column.
    """
    return {
        name: Origin("right", str(right)) if left is None else Origin("left", left)
        for name, (left, right) in zip(plan.schema.names, plan.origins, strict=True)
        if (left, right) != (None, None)
    }


def widened(
    result: StructType,
    native: pa.Schema,
    origins: dict[str, Origin],
    empty: tuple[pa.Table, pa.Table],
) -> StructType:
    """Return the schema of the result, using the native type of each column.

    The native type differs from that of the input for keys that differ in width, and for several
    lookups per row.
    """
    fields = []
    for field in result:
        origin, found = origins[field.name], native.field(field.name)
        source = empty[0] if origin.side == "left" else empty[1]
        nullable = field.nullable or (found.nullable and origin.side == "right")
        kind = field.dataType
        if found.type != source.schema.field(origin.name).type:
            kind = from_arrow_type(passed(found.type), prefer_timestamp_ntz=True)
        fields.append(StructField(field.name, kind, nullable, field.metadata))
    return StructType(fields)


@dataclass(frozen=True)
class Plan:
    """A join of two DataFrames with checked arguments, ready for a layout."""

    query: SparkQuery
    native: JoinPlan
    left: DataFrame
    right: DataFrame
    columns: Columns
    partitions: int | None
    parallelism: Parallelism
    late_as: str | None
    max_width: Length | None = None
    scratch: str | None = None

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
        scratch: str | None = None,
    ) -> Plan:
        """Check the arguments of a join."""
        check_frames((left, right), NAMES)
        check_columns(columns)
        _check_kind(left, right, late_as, max_width)
        tables = empty(left, "left"), empty(right, "right")
        native = query.plan(*tables, None if columns is None else list(columns))
        for side, frame in enumerate((left, right)):
            check_keys(frame, [pair[side] for pair in native.keys], NAMES[side])
        _check_limit(query)
        query = query.settled(native, tables)
        of_times = ("bins",) if query.function == "interval_join" else ()
        known = ("auto", *of_times, "broadcast", "files", "key", query.divided, "hybrid")
        if parallelism == "bins" and query.is_overlap:
            why = unfit(query, native, tables)
            message = f"parallelism 'bins' is not available for overlap joins: {why}; "
            message += "leave it out, or give 'broadcast', 'key', 'time' or 'hybrid'"
            raise tidegate.TidegateError(message)
        check_division(partitions, parallelism, known, query.divided, keyed=bool(native.keys))
        if query.is_overlap and native.intervals is None:
            message = "on: Spark requires column names, but `on` computes a start or an end; "
            message += "add it to the DataFrame with withColumn"
            raise tidegate.TidegateError(message)
        if query.has_open_ends and not (left.isStreaming or right.isStreaming):
            parallelism, partitions = _of_open_ends(
                parallelism, partitions, keyed=bool(native.keys)
            )
        if parallelism == "broadcast" and query.how == "full":
            message = "parallelism 'broadcast' sends one side in full, "
            message += "but a full join returns the unmatched rows of both sides; "
            message += "choose another parallelism"
            raise tidegate.TidegateError(message)
        sent = Columns.planned(left, right, query, native, tables)
        if late_as in sent.result.names:
            message = f"late_as: the result already has a column {late_as!r}; choose another name"
            raise tidegate.SchemaError(message)
        plan = cls(
            query,
            native,
            left,
            right,
            sent,
            partitions,
            parallelism,
            late_as,
            max_width,
            scratch,
        )
        if plan.streams:
            _check_streams(plan)
        elif plan.stream_side is not None:
            _check_stream_and_table(plan, plan.stream_side)
        elif parallelism == "bins" and plan.without_bins is not None:
            message = f"parallelism 'bins' is not available for this join: {plan.without_bins}; "
            message += "leave it out, or give another parallelism"
            raise tidegate.TidegateError(message)
        return plan

    @cached_property
    def inputs(self) -> tuple[Input, Input]:
        """The rows and columns sent from each side."""
        left_key, right_key = ([pair[side] for pair in self.native.keys] for side in (LEFT, RIGHT))
        (left_on, right_on), _ = self._divided
        left_bands, right_bands = (
            [pair[side] for pair, _ in self.native.bands] for side in (LEFT, RIGHT)
        )
        left: Sequence[str] = [left_on]
        right: Sequence[str] = [right_on]
        if self.query.is_overlap and not self.streams:
            left, right = self.starts_and_ends_named
        sides = (
            Input.of(self.left, self.columns.left.names, left, left_key, left_bands),
            Input.of(self.right, self.columns.right.names, right, right_key, right_bands),
        )
        one, other = (replace(side, is_open=self.query.has_open_ends) for side in sides)
        return one, other

    @property
    def has_intervals(self) -> bool:
        """Return whether rows have a start and an end and must overlap to match."""
        return self.query.is_overlap or any(self.query.row_ends)

    def intervals(self, side: int) -> Intervals:
        """Return the starts and ends of one side's rows, for use by the workers."""
        if not self.query.is_overlap:
            return self._computed_ends(side)
        return self.starts_and_ends(side)

    @property
    def has_widths(self) -> bool:
        """Return whether `max_width` limits how long rows from streams are kept."""
        if self.query.is_overlap:
            return any(start != end for start, end in self.starts_and_ends_named)
        return any(self.query.row_ends)

    def starts_and_ends(self, side: int) -> StartsAndEnds:
        """Return the start and end columns of an overlap join, for use by the workers."""
        start, end = self.inputs[side].interval
        return StartsAndEnds(side, self.starts_and_ends_named[side], (start, end), self.axis)

    @property
    def starts_and_ends_named(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """For each side of an overlap join, the names of the start and end columns."""
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
        """Return whether all times are dates. Dates are counted in days."""
        at = [
            (side, position) for side in self.inputs for position in (side.interval or (side.on,))
        ]
        return all(isinstance(side.fields[position].dataType, DateType) for side, position in at)

    @property
    def streams(self) -> bool:
        """Return whether both sides are streams."""
        return self.left.isStreaming and self.right.isStreaming

    @property
    def stream_side(self) -> int | None:
        """The side that is a stream if the other side is a table, otherwise None."""
        if self.left.isStreaming == self.right.isStreaming:
            return None
        return LEFT if self.left.isStreaming else RIGHT

    @cached_property
    def without_bins(self) -> str | None:
        """The reason that this join cannot use time bins; None if it can."""
        return unfit(self.query, self.native, self.columns.empty)

    @cached_property
    def ends(self) -> Ends:
        """The smallest and largest time difference in a pair, if bins can be used."""
        return exact_ends(self.native)

    def packed(self, side: int, layout: Layout | OverlapLayout) -> DataFrame:
        """Return one side's rows as packs. Each pack is for one partition of the layout."""
        mine, other = self.inputs[side], self.inputs[1 - side]
        # Rows without a key can also be late.
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
        """Return the function that packs one side's rows, with `extra` columns at the end."""
        if isinstance(layout, OverlapLayout):
            return OverlapPacker(layout, side, self.intervals(side), extra=extra).run
        mine = self.inputs[side]
        packer = Packer(layout, side, mine.on, self.axis, extra=extra)
        work = packer.run
        if side == RIGHT and self.reach.nearest:
            work = NearestPacker(packer, mine.by, self.right_where).run
        # If a partition has several pieces of a slice, it cannot tell which rows were combined.
        if side == RIGHT and self.parts is not None and not layout.has_pieces:
            schema = self.columns.right
            keys = tuple(schema.names[key] for key in mine.by)
            work = PartialsPacker(packer, self.parts, schema, keys, self.right_where).run
        return work

    @property
    def keeps(self) -> tuple[bool, bool]:
        """Return, for each side, whether the result contains its unmatched rows."""
        how = self.query.how
        return how in ("left", "anti", "full"), how in ("right", "full")

    @property
    def reports(self) -> tuple[bool, bool]:
        """Return, for each side, whether a row's result depends on all partners of the row."""
        how = self.query.how
        return how not in ("inner", "right"), how in ("right", "full")

    @property
    def _divided(self) -> tuple[tuple[str, str], tuple[float | None, float | None]]:
        """The columns by which rows can be divided, and the bounds on pairs in these columns.

        Rows with a start and an end are divided by their starts.
        """
        if self.query.is_overlap and not self.streams:
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
        if self.query.has_prevailing or self.native.looks_back:
            # The last row before an interval can be arbitrarily far before it.
            ends = None, ends[1]
        axis, reach = (of_band if self.native.bands else of_time)(kinds, *ends)
        # The slices of a stream in one bucket are far apart, so a bucket does not know the nearest
        # row.
        nearest = self.query.is_asof and not self.streams and not all(self._where_reads)
        # A slice needs more than one row of each key from outside.
        nearest = nearest and not self.query.has_lookups
        return axis, replace(reach, nearest=nearest, partial=self.parts is not None)

    @cached_property
    def parts(self) -> Parts | None:
        """If partial rows can be sent, the aggregates of partners, split into parts."""
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
        """Return whether two rows within reach match whenever the bytes of their keys are equal."""
        if len(self.native.bands) + (self.native.time is not None) > 1:
            return False
        on, ends = self._divided
        kinds = [self.columns.of(side).field(on[side]).type for side in (LEFT, RIGHT)]
        # Values of other types are rounded when they are converted to the axis.
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
        """Return, for each side, whether the condition reads any of its columns."""
        left, right = self.native.condition_columns
        return bool(left), bool(right)

    @property
    def right_where(self) -> RightWhere | None:
        """The condition to test before right rows are sent, if it reads only right columns."""
        alone = self.query.is_asof or self.parts is not None
        if not alone or self._where_reads != (False, True):
            return None
        on, _ = self._divided
        schemas = self.columns.left, self.columns.right
        return RightWhere(schemas, on, self.query.arguments["where"])

    @cached_property
    def order(self) -> Order | None:
        """The required order of right rows, if the result depends on their order."""
        if not self._shows_order:
            return None
        # Functions process the rows of a band by number, and other rows by time first.
        return Order(self._divided[0][RIGHT], self.axis, by_number=bool(self.native.bands))

    @property
    def _shows_order(self) -> bool:
        schema = self.columns.right
        ordered = any(_is_ordered(one, schema) for one in self.query.aggs.values())
        always = self.query.has_prevailing or self.query.is_asof or self.query.has_limit
        return ordered or always

    @property
    def axis(self) -> Axis:
        """The axis along which rows are divided."""
        return self._axis_and_reach[0]

    @property
    def reach(self) -> Reach:
        """The bounds of pairs along the axis."""
        return self._axis_and_reach[1]

    @property
    def time(self) -> tuple[tuple[str, str], Reach]:
        """The time columns of the streams, and the bounds on pairs in microseconds."""
        columns, ends = self._reach_in_time
        return columns, whole(*ends)

    @property
    def _reach_in_time(self) -> tuple[tuple[str, str], tuple[float | None, float | None]]:
        far = 0
        if self.max_width is not None:
            far = self.native.steps("max_width", self.max_width)
        if self.query.is_overlap:
            (left, left_end), (right, right_end) = self.starts_and_ends_named
            return (left, right), (
                -far if right != right_end else 0,
                far if left != left_end else 0,
            )
        if self.native.time is None:
            message = "time: this band join has no time column; give `time` and `window`"
            raise tidegate.TidegateError(message)
        names, ends = self.native.time
        if self.max_width is None:
            return names, ends
        lower, upper = (
            sign * far if is_of_row else end
            for sign, is_of_row, end in zip((-1, 1), self.query.row_ends, ends, strict=True)
        )
        return names, (lower, upper)

    @property
    def is_sliced(self) -> bool:
        """Return whether rows from streams are divided by time or value, with or without keys."""
        asked = self.parallelism in (self.query.divided, "hybrid") or not self.native.keys
        return asked and self.reach.width is not None

    @property
    def home_names(self) -> tuple[str, str]:
        """Unused names for the columns that mark rows at home, for the left and right sides."""
        taken = {*self.columns.left.names, *self.columns.right.names, *self.columns.native}
        longest = max(len(name) for name in taken)
        return "l".ljust(longest + 1, "_"), "r".ljust(longest + 1, "_")
