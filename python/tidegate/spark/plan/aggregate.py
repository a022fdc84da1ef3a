"""The plan of an aggregation: its arguments, and the columns that are sent. It reads no rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import (
    DataType,
    DateType,
    IntegralType,
    LongType,
    StructField,
    StructType,
)

import tidegate
from tidegate import _tidegate
from tidegate.agg import Aggregate
from tidegate.calls.listed_windows import windows_table
from tidegate.spark.layout.layout import Reach
from tidegate.spark.plan.checks import check_division, check_late_as
from tidegate.spark.plan.checks import empty as empty_table
from tidegate.spark.plan.streams import check_engine, check_host, check_watermark
from tidegate.spark.query.axis import TimeAxis
from tidegate.spark.query.input import Input, check_frames, check_keys, check_stored
from tidegate.spark.query.schema import aggregate_fields
from tidegate.spark.worker.aggregate import Aggregation, Partials
from tidegate.spark.worker.pack import PACKS, RIGHT, Marked, Packer
from tidegate.spark.worker.partials import MERGED
from tidegate.spark.worker.task import on_worker
from tidegate.windows import Rows

if TYPE_CHECKING:
    from tidegate._tidegate import AggregationPlan
    from tidegate.spark.layout.layout import Layout
    from tidegate.types import ClosedWindow, Empty, Length, Table, Time, Value, Weekday, Window

Parallelism = Literal["auto", "files", "key", "time", "hybrid"]


@dataclass(frozen=True)
class AggregatePlan:
    """An aggregation of DataFrames with checked arguments, ready for a layout."""

    frames: tuple[DataFrame, ...]
    aggregation: Aggregation
    # The columns that are sent: first the time, then the keys.
    sent: tuple[str, ...]
    result: StructType
    # The native plan of the aggregation.
    native: AggregationPlan
    partitions: int | None
    parallelism: Parallelism
    late_as: str | None
    scratch: str | None = None

    @classmethod
    def of(  # noqa: PLR0913 - the arguments of the public function
        cls,
        streams: DataFrame | Sequence[DataFrame],
        *,
        on: str,
        size: Window | None = None,
        advance: Window | None = None,
        step: Length | None = None,
        closed: ClosedWindow | None = None,
        offset: Length | None = None,
        zone: str | None = None,
        week_start: Weekday | None = None,
        session: Length | Value | None = None,
        windows: Table | None = None,
        empty: Empty | Mapping[str, Empty] | None = None,
        keep: Length | None = None,
        start: Time | None = None,
        end: Time | None = None,
        by: str | Sequence[str] | None = None,
        aggs: Mapping[str, Aggregate],
        where: tidegate.Expr | str | None = None,
        partitions: int | None = None,
        parallelism: Parallelism = "auto",
        late_as: str | None = None,
        scratch: str | None = None,
    ) -> AggregatePlan:
        """Check the arguments of `tidegate.spark.aggregate`."""
        frames = tuple(streams) if isinstance(streams, list | tuple) else (streams,)
        names = _names(frames)
        check_frames(frames, names)
        check_stored("on", on, frames)
        check_stored("by", by, frames)
        keys = _key_names(by)
        check_division(partitions, parallelism, get_args(Parallelism), keyed=bool(keys))
        if session is not None and parallelism in ("time", "hybrid"):
            message = f"parallelism {parallelism!r} divides time into slices, "
            message += "but a session cannot be divided; choose 'key'"
            raise tidegate.TidegateError(message)
        listed = windows_table(windows)
        _check_whole(size, listed, parallelism)
        if empty not in (None, "skip"):
            _check_fill(frames, parallelism)
        if not isinstance(aggs, Mapping):
            message = "aggs: expected a mapping from names to functions such as "
            message += f'{{"n": tidegate.agg.count()}}, got {aggs!r}'
            raise TypeError(message)
        aggregation = Aggregation(
            on,
            size,
            advance,
            offset,
            session,
            tuple(keys),
            dict(aggs),
            where,
            zone,
            week_start,
            empty,
            keep,
            listed,
            start,
            end,
            step,
            closed,
        )
        _check_kind(frames, names, late_as)
        tables = [empty_table(frame, name) for frame, name in zip(frames, names, strict=True)]
        aggregation = _in_session_zone(aggregation, tables, frames[0].sparkSession)
        native = aggregation.plan(tables)
        if frames[0].isStreaming and aggregation.fills:
            # Rejects arguments that streams do not support.
            with _tidegate.AggregationQuery(**aggregation.arguments).operator(tables[0].schema):
                pass
        for frame, name in zip(frames, names, strict=True):
            check_keys(frame, keys, name)
        sent = tuple(dict.fromkeys((on, *keys, *native.columns[0])))
        _check_types(frames, sent)
        result = _spark_schema(frames, aggregation, native, tables[0].schema)
        if late_as in result.names:
            message = f"late_as: the result already has a column {late_as!r}; choose another name"
            raise tidegate.SchemaError(message)
        if frames[0].isStreaming:
            check_engine(frames[0].sparkSession)
            for frame, name in zip(frames, names, strict=True):
                check_watermark(frame, name, on)
            check_host(frames[0].sparkSession)
            if parallelism == "hybrid":
                message = "parallelism 'hybrid' splits heavy keys, "
                message += "but the heavy keys of a stream are not known in advance; "
                message += "leave it out, or give 'key' or 'time'"
                raise tidegate.TidegateError(message)
        return cls(
            frames,
            aggregation,
            sent,
            result,
            native,
            partitions,
            parallelism,
            late_as,
            scratch,
        )

    @property
    def streams(self) -> bool:
        """Return whether the inputs are streams."""
        return self.frames[0].isStreaming

    @property
    def fills_afterwards(self) -> bool:
        """Return whether windows without rows are added after the windows have been computed."""
        is_cut = self.parallelism in ("time", "hybrid")
        return self.aggregation.fills and is_cut and not self.streams

    @property
    def with_rows(self) -> AggregatePlan:
        """The plan of the windows with rows, if other windows are added afterwards."""
        if not self.fills_afterwards:
            return self
        plain = replace(self.aggregation, empty=None, keep=None, start=None, end=None)
        return replace(self, aggregation=plain)

    @property
    def inputs(self) -> list[str]:
        """The names of the DataFrames, as shown in messages."""
        return _names(self.frames)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the input."""
        return self.sent if self.source is None else (*self.sent, self.source)

    @cached_property
    def input(self) -> Input:
        """The rows from all streams, with the columns that are sent."""
        numbered = [self._numbered(frame, number) for number, frame in enumerate(self.frames)]
        rows = reduce(DataFrame.union, numbered)
        return Input.of(rows, self.names, [self.aggregation.on], self.aggregation.by)

    def _numbered(self, frame: DataFrame, number: int) -> DataFrame:
        # Columns are selected by position, so that no name needs quotes.
        every = frame.columns
        columns = [F.col(f"a{every.index(name)}").alias(name) for name in self.sent]
        if self.source is not None:
            columns.append(F.lit(number).cast("smallint").alias(self.source))
        return frame.toDF(*(f"a{at}" for at in range(len(every)))).select(*columns)

    @property
    def source(self) -> str | None:
        """The column that contains the number of the DataFrame, if the result depends on it."""
        told = len(self.frames) > 1 and (self.streams or not self.combines)
        return self._free_name("source") if told else None

    @property
    def kept(self) -> tuple[str, ...]:
        """The columns that contain a slice and its aggregates."""
        return ("window_start", *self.aggregation.by, *self.aggregation.aggs)

    @property
    def empty(self) -> pa.Table:
        """An empty table with the columns that are sent."""
        rows = empty_table(self.frames[0], "stream").select(list(self.sent))
        if self.source is None:
            return rows
        return rows.append_column(self.source, pa.array([], pa.int16()))

    def owner(self, layout: Layout) -> str | None:
        """Return the name of the key bucket column, or None if the column is not needed."""
        told = layout.is_cut and len(layout.buckets) > 1
        return self._free_name("bucket") if told else None

    def _free_name(self, name: str) -> str:
        taken = {*self.sent, *self.result.names, "bucket"}
        return name.ljust(max(map(len, taken)) + 1, "_")

    @cached_property
    def combines(self) -> bool:
        """Return whether partial aggregates can be sent instead of rows, with the same results."""
        # Counts are 0 in windows without rows, but the sums that merge counts are not. Slices are
        # merged by their starts, which windows on the right do not contain.
        query = self.aggregation
        are_plain = query.step is None and query.closed != "right"
        return not self.is_whole and are_plain and self.is_unordered

    @cached_property
    def is_unordered(self) -> bool:
        """Return whether results do not depend on the order of rows with equal times."""
        if isinstance(self.aggregation.size, Rows):
            return False
        for name, one in self.aggregation.aggs.items():
            of_floats = pa.types.is_floating(self.native.schema.field(name).type)
            if one.function not in MERGED or (one.function == "sum" and of_floats):
                return False
        return True

    @property
    def merges(self) -> bool:
        """Return whether a stream's buckets compute partial windows, which are merged later."""
        is_asked = self.parallelism == "auto" and not self.aggregation.by
        return self.streams and self.combines and is_asked and not self.is_whole

    @property
    def is_sliced(self) -> bool:
        """Return whether windows of streams are divided by time."""
        is_asked = self.parallelism == "time" or not (self.merges or self.aggregation.by)
        return self.streams and is_asked and not self.is_whole

    @property
    def of_parts(self) -> tuple[Aggregation, str]:
        """The aggregation that merges partial windows, and the name of the window-end column."""
        _, final = self.by_slice
        # Windows are one step of time long, so only parts with the same start are merged.
        step = np.timedelta64(1, "us")
        parts = replace(final, size=step, advance=None, offset=None, zone=None, week_start=None)
        return parts, self._free_name("end")

    @property
    def is_whole(self) -> bool:
        """Return whether one task must process all rows of a key, regardless of their times.

        Any row can extend a session, windows without rows depend on earlier windows, and a number
        of rows is counted from the first row of the key. Windows listed in a table can have any
        length.
        """
        query = self.aggregation
        if query.session is not None or query.windows is not None:
            return True
        return query.fills or isinstance(query.size, Rows)

    @property
    def in_days(self) -> bool:
        """Return whether all times are dates."""
        return isinstance(self.frames[0].schema[self.aggregation.on].dataType, DateType)

    @property
    def reach(self) -> Reach:
        """The reach from a window's start to its rows."""
        longest = self.native.longest
        if longest is None:
            return Reach.of(0, 0)
        return Reach.of(0, longest if self.aggregation.closed == "right" else longest - 1)

    @property
    def sends_slices(self) -> bool:
        """Return whether tasks send aggregates of slices instead of rows.

        For streams, rows are sent, because they may be late.
        """
        return self.combines and not self.streams

    def packed(self, layout: Layout) -> DataFrame:
        """Return the data to send as packs. Each pack is for one partition of the layout."""
        buckets, rows = len(layout.buckets), self.input.frame
        owner = self.owner(layout)
        if buckets > 1:
            bucket = F.expr(f"cast(pmod({self.input.key_hash(self.input)}, {buckets}) as int)")
            more = () if owner is None else (owner,)
            rows = rows.select("*", *(bucket.alias(name) for name in (*more, "bucket")))
        extra = 1 if buckets > 1 else 0
        packer = Packer(layout, RIGHT, self.input.on, TimeAxis(self.in_days), extra=extra)
        if not self.sends_slices:
            work = Marked(packer.run).run if self.streams else packer.run
            return rows.mapInArrow(on_worker(work, "tidegate_pack_rows"), PACKS)
        slices, _ = self.by_slice
        pack = Partials(self.names, slices, replace(packer, on=0))
        return rows.mapInArrow(on_worker(pack.run, "tidegate_pack_slices"), PACKS)

    @property
    def by_slice(self) -> tuple[Aggregation, Aggregation]:
        """The aggregation of rows into slices and the aggregation of slices into windows."""
        query, (size, offset) = self.aggregation, self.native.slices
        merged = {name: Aggregate(MERGED[one.function], name) for name, one in query.aggs.items()}
        return (
            replace(
                query,
                size=size,
                advance=None,
                offset=offset,
                week_start=None,
                empty=None,
                keep=None,
                start=None,
                end=None,
            ),
            replace(query, on="window_start", aggs=merged, where=None),
        )


def _in_session_zone(
    query: Aggregation, tables: Sequence[pa.Table], session: SparkSession
) -> Aggregation:
    """Return the aggregation with the time zone of calendar units.

    Unless a zone is given, it is the time zone of the session, in which Spark shows timestamps.
    """
    zone = pa.timestamp("us", session.conf.get("spark.sql.session.timeZone"))
    native = query.plan([_with_times_of(table, query.on, zone) for table in tables])
    if native.advice is not None:
        warnings.warn(native.advice, stacklevel=7)
    return replace(query, zone=native.zone)


def _with_times_of(table: pa.Table, on: str, kind: pa.DataType) -> pa.Table:
    """Return an empty table whose time column has another type if it is a timestamp with a zone."""
    at = table.schema.get_field_index(on)
    if at < 0 or getattr(table.schema.field(at).type, "tz", None) is None:
        return table
    return table.schema.set(at, table.schema.field(at).with_type(kind)).empty_table()


def _key_names(by: str | Sequence[str] | None) -> list[str]:
    if by is None or isinstance(by, str):
        return [] if by is None else [by]
    if not isinstance(by, Sequence) or not all(isinstance(name, str) for name in by):
        message = f"by: expected a column name or a list of them, got {by!r}; Spark computes keys "
        message += 'itself, as in frame.withColumn("hour", F.hour("time"))'
        raise TypeError(message)
    return list(by)


def _names(frames: Sequence[DataFrame]) -> list[str]:
    if not frames:
        message = "streams: expected at least one DataFrame, got none"
        raise tidegate.TidegateError(message)
    return ["stream"] if len(frames) == 1 else [f"streams[{at}]" for at in range(len(frames))]


def _check_whole(size: object, listed: pa.Table | None, parallelism: str) -> None:
    """Reject row-based windows and windows listed in a table if rows are divided by time."""
    if not isinstance(size, Rows) and listed is None:
        return
    name = "size" if listed is None else "windows"
    if parallelism not in {"auto", "key", "files"}:
        message = f"parallelism {parallelism!r} divides time into slices, "
        message += f"but {name} needs all rows of a key in one task; choose 'key' or 'files'"
        raise tidegate.TidegateError(message)


def _check_fill(frames: Sequence[DataFrame], parallelism: str) -> None:
    """Reject windows without rows in streams that are divided by time."""
    if parallelism in ("time", "hybrid") and any(frame.isStreaming for frame in frames):
        message = f"parallelism {parallelism!r} divides time into slices, but windows without "
        message += "rows depend on the other windows of their key; choose 'key' for streams"
        raise tidegate.TidegateError(message)


def _check_kind(frames: Sequence[DataFrame], names: Sequence[str], late_as: str | None) -> None:
    """Reject a mixture of tables and streams."""
    for frame, name in zip(frames, names, strict=True):
        if frame.isStreaming != frames[0].isStreaming:
            kinds = ("is", "is not") if frame.isStreaming else ("is not", "is")
            message = f"{name} {kinds[0]} a streaming DataFrame, but {names[0]} {kinds[1]}; "
            message += "read all inputs as streams, "
            message += "or aggregate inside `foreachBatch`, where all inputs are tables"
            raise tidegate.TidegateError(message)
    check_late_as(late_as, "an aggregation of tables", streams=frames[0].isStreaming)


def _check_types(frames: Sequence[DataFrame], names: Sequence[str]) -> None:
    first = frames[0].schema
    for number, frame in enumerate(frames):
        for name in names:
            mine, other = first[name].dataType, frame.schema[name].dataType
            if mine != other:
                message = (
                    f"column `{name}` is {mine.simpleString()} in streams[0] and "
                    f"{other.simpleString()} in streams[{number}]; cast one of them"
                )
                raise tidegate.SchemaError(message)


def _spark_schema(
    frames: Sequence[DataFrame], query: Aggregation, native: AggregationPlan, read: pa.Schema
) -> StructType:
    """Return the Spark schema of the result."""
    given = frames[0].schema
    time = given[query.on].dataType
    window: DataType = LongType() if isinstance(time, IntegralType) else time
    fields = [StructField(f"window_{end}", window, nullable=False) for end in ("start", "end")]
    for name in query.by:
        nullable = any(frame.schema[name].nullable for frame in frames)
        fields.append(StructField(name, given[name].dataType, nullable, given[name].metadata))
    return StructType([*fields, *aggregate_fields(query.aggs, given, read, native.schema)])
