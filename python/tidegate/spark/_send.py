"""The columns that send a row to its partitions, and the one stream that both sides travel in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import (
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    LongType,
    StructField,
    TimestampNTZType,
)

from tidegate.spark._task import LEFT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.spark._layout import Bucket, Layout, Span

_DAY = 86_400_000_000


@dataclass(frozen=True)
class Input:
    """One side of a join: the columns by position, so that no name can clash or need quotes."""

    frame: DataFrame
    fields: tuple[StructField, ...]
    on: int
    by: tuple[int, ...]

    @classmethod
    def of(cls, frame: DataFrame, names: Sequence[str], on: str, by: Sequence[str]) -> Input:
        """The columns called `names`, renamed to `u0`, `u1` and so on."""
        every = frame.columns
        kept = [every.index(name) for name in names]
        fields = frame.schema.fields
        return cls(
            frame.toDF(*(f"a{position}" for position in range(len(every)))).select(
                *(F.col(f"a{old}").alias(f"u{new}") for new, old in enumerate(kept))
            ),
            tuple(fields[position] for position in kept),
            names.index(on),
            tuple(names.index(name) for name in by),
        )

    def column(self, position: int) -> Column:
        """The column at `position`."""
        return F.col(f"u{position}")

    def type(self, position: int) -> DataType:
        """Type of the column at `position`."""
        return self.fields[position].dataType

    @property
    def lacks_key(self) -> Column | None:
        """Whether a key is null, if one can be."""
        nullable = [self.column(key).isNull() for key in self.by if self.fields[key].nullable]
        return reduce(Column.__or__, nullable) if nullable else None

    def without_unmatchable(self) -> DataFrame:
        """The rows that have a key.

        A row without a time stays, for the join to refuse it.
        """
        if self.lacks_key is None:
            return self.frame
        return self.frame.where(~self.lacks_key | self.column(self.on).isNull())


def key_hash(side: Input, other: Input) -> Column:
    """Hash of the key, equal for equal keys of both sides."""
    return F.xxhash64(
        *(
            _comparable(side.column(key), side.type(key), other.type(match))
            for key, match in zip(side.by, other.by, strict=True)
        )
    )


def _comparable(column: Column, mine: DataType, theirs: DataType) -> Column:
    """The key as a type whose hash does not depend on the width or scale a side happens to have."""
    if isinstance(mine, IntegralType) and mine != theirs:
        return column.cast(LongType())
    if isinstance(mine, FloatType) or (isinstance(mine, DecimalType) and mine != theirs):
        return column.cast(DoubleType())
    return column


def routing_time(side: Input, *, days: bool) -> Column:
    """The time as a long: the integer itself, days, or microseconds of UTC or of the local clock.

    Arithmetic on `timestamp_ntz` goes through the session's zone in Spark, whose clock jumps: its
    fields are read instead.
    """
    column, kind = side.column(side.on), side.type(side.on)
    if isinstance(kind, DateType):
        time = F.unix_date(column) if days else F.unix_date(column).cast("long") * _DAY
    elif isinstance(kind, TimestampNTZType):
        seconds = F.hour(column) * 3600 + F.minute(column) * 60
        micros = (F.date_part(F.lit("SECOND"), column) * 1_000_000).cast("long")
        time = (
            F.unix_date(column.cast("date")).cast("long") * _DAY
            + seconds.cast("long") * 1_000_000
            + micros
        )
    elif isinstance(kind, IntegralType):
        time = column
    else:
        time = F.unix_micros(column)
    # A row without a time goes anywhere: the join refuses it.
    return F.coalesce(time.cast("long"), F.lit(0))


@dataclass(frozen=True)
class Slots:
    """Columns of the stream that both sides share: each holds a column of one side or of both."""

    types: tuple[DataType, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]

    @classmethod
    def of(cls, left: Sequence[DataType], right: Sequence[DataType]) -> Slots:
        """Pair columns of one type, so that rows are not padded with nulls."""
        types = list(left)
        free = list(range(len(types)))
        slots = []
        for kind in right:
            slot = next((slot for slot in free if types[slot] == kind), None)
            if slot is None:
                slot = len(types)
                types.append(kind)
            else:
                free.remove(slot)
            slots.append(slot)
        return cls(tuple(types), tuple(range(len(left))), tuple(slots))

    def columns(self, side: Input, slots: Sequence[int]) -> list[Column]:
        """The side's columns, each in its slot, and nulls in the slots of the other side alone."""
        filled = {slot: position for position, slot in enumerate(slots)}
        return [
            (side.column(filled[slot]) if slot in filled else F.lit(None).cast(kind)).alias(
                f"c{slot}"
            )
            for slot, kind in enumerate(self.types)
        ]


@dataclass(frozen=True)
class Traveller:
    """A side on its way: its columns in slots, and what decides where its rows go."""

    side: Input
    other: Input
    columns: list[Column]
    kept: bool
    span: Span
    tags: tuple[int, int]

    def sent(self, layout: Layout, *, days: bool) -> DataFrame:
        """A row for each partition that needs the row: slots, `side` and `partition`."""
        count = len(layout.buckets)
        bucket = F.lit(0)
        if count > 1:
            bucket = F.pmod(key_hash(self.side, self.other), F.lit(count)).cast("int")
        rows = self.side.frame if self.kept else self.side.without_unmatchable()
        rows = rows.select(
            *self.columns,
            bucket.alias("bucket"),
            routing_time(self.side, days=days).alias("time"),
            self._unmatchable.alias("unmatchable"),
        )
        slots = [F.col(f"c{slot}") for slot in range(len(self.columns))]
        first = self._slice(layout, self.span.first, 0)
        if not self.span.copied or not layout.is_cut:
            spread = rows.select(*slots, first.alias("slice"), first.alias("home"))
        else:
            last = self._slice(layout, self.span.last, 1)
            home = last if self.tags[0] == LEFT else first
            spread = rows.select(
                *slots, F.explode(F.sequence(first, last)).alias("slice"), home.alias("home")
            )
        partitions = [p for bucket in layout.buckets for p in bucket.partitions]
        own, copy = (F.lit(tag).cast(ByteType()) for tag in self.tags)
        if self.tags[0] == self.tags[1]:
            tag = own
        else:
            tag = F.when(F.col("slice") == F.col("home"), own).otherwise(copy)
        return spread.select(
            *slots,
            tag.alias("side"),
            _lookup(partitions, F.col("slice").cast("int")).cast("int").alias("partition"),
        )

    @property
    def _unmatchable(self) -> Column:
        lacks = self.side.lacks_key
        return F.lit(False) if lacks is None or not self.kept else lacks  # noqa: FBT003

    def _slice(self, layout: Layout, shift: int | None, end: int) -> Column:
        """First (`end` 0) or last slice of a row, numbered over all buckets."""
        bucket, base = F.col("bucket"), layout.slice_base
        if not layout.is_cut:
            slices = _lookup(base, bucket)
        elif shift is None:
            slices = _lookup(
                [
                    start + end * (len(bucket.partitions) - 1)
                    for start, bucket in zip(base, layout.buckets, strict=True)
                ],
                bucket,
            )
        else:
            slices = _slice_at(layout.buckets, base, shift)
        total = base[-1] + len(layout.buckets[-1].partitions)
        if self.side.lacks_key is None or not self.kept:
            return slices
        # A kept row without a key matches nothing: its time alone spreads such rows evenly.
        anywhere = F.pmod(F.xxhash64("time"), F.lit(total))
        return F.when(F.col("unmatchable"), anywhere).otherwise(slices)


def _slice_at(buckets: Sequence[Bucket], base: Sequence[int], shift: int) -> Column:
    """Slice of `time + shift` in the row's bucket, without a sum that could overflow."""
    bucket = F.col("bucket")
    starts = [cells.start - shift for cells in buckets]
    lasts = [cells.start - shift + cells.width * len(cells.cells) - 1 for cells in buckets]
    cells: list[int] = []
    offsets: list[int] = []
    for first, cut in zip(base, buckets, strict=True):
        offsets.append(len(cells))
        cells.extend(first + slice_ for slice_ in cut.cells)
    start = _lookup(starts, bucket)
    within = F.least(F.greatest(F.col("time"), start), _lookup(lasts, bucket)) - start
    cell = F.call_function("div", within, _lookup([cut.width for cut in buckets], bucket))
    return _lookup(cells, (cell + _lookup(offsets, bucket)).cast("int"))


def _lookup(values: Sequence[int], index: Column) -> Column:
    """The value at `index`, as a long."""
    if len(set(values)) == 1:
        return F.lit(values[0]).cast("long")
    return F.get(F.expr(f"array({', '.join(f'{value}L' for value in values)})"), index)
