"""One side of a join on the driver: its columns and its key buckets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    StringType,
    StructField,
    StructType,
)

import tidegate

if TYPE_CHECKING:
    from tidegate.spark.layout.layout import Places

# The collation that compares bytes.
_BYTES = "UTF8_BINARY"

# The names of the types that Spark does not hash. Variants are new in version 4.0.
_UNHASHABLE = ("map", "variant")

# Strings that are names or lists of names, even if they are misspelled.
_NAMES = re.compile(r"[\w, ]*")

_FLOATS = (FloatType, DoubleType)


def check_frames(frames: Sequence[object], names: Sequence[str]) -> None:
    """Reject inputs that are not DataFrames, and mixtures of Spark Connect and other DataFrames."""
    for frame, name in zip(frames, names, strict=True):
        if not isinstance(frame, DataFrame):
            found = f"{type(frame).__module__}.{type(frame).__qualname__}"
            message = f"{name}: expected a Spark DataFrame, got {found}; "
            if found.startswith("pyspark.pandas."):
                message += "give its to_spark()"
            elif found.startswith("pyspark.sql.connect."):
                # Later versions have one class for all sessions.
                message += "Spark Connect needs PySpark 4.0 or later"
            else:
                message += "create one with spark.createDataFrame, or call the function of the "
                message += "same name in `tidegate`"
            raise TypeError(message)
        if type(frame) is not type(frames[0]):
            message = f"{names[0]} and {name} belong to different sessions, "
            message += "one of which uses Spark Connect; create both in the same session"
            raise tidegate.TidegateError(message)


def check_stored(argument: str, given: object, frames: Sequence[DataFrame]) -> None:
    """Reject expressions, because Spark computes columns itself."""
    names = {name for frame in frames for name in frame.columns}
    for one in _flat(given):
        if isinstance(one, tidegate.Expr):
            message = f"{argument}: only calls on local tables accept `{one}`; add a column with "
            message += "these values, as in frame.withColumn('computed', ...) with "
            message += f"{argument}='computed'"
            raise TypeError(message)
        if isinstance(one, str) and one not in names and not _NAMES.fullmatch(one):
            message = f"{argument}: there is no column `{one}`; Spark computes columns itself, as "
            message += f"in frame.withColumn('computed', F.expr({one!r})) with "
            message += f"{argument}='computed'"
            raise tidegate.SchemaError(message)


def _flat(given: object) -> Iterator[object]:
    """Yield the names and expressions in nested tuples, lists and mappings."""
    if isinstance(given, Mapping):
        given = [*given.keys(), *given.values()]
    if isinstance(given, list | tuple):
        for one in given:
            yield from _flat(one)
    else:
        yield given


def check_keys(frame: DataFrame, names: Sequence[str], side: str) -> None:
    """Reject key columns for which Spark may treat values with different bytes as equal."""
    for name in names:
        kind = frame.schema[name].dataType
        # Spark has had collations since version 4.0.
        collation = getattr(kind, "collation", _BYTES)
        if isinstance(kind, StringType) and collation != _BYTES:
            message = f"{side}: key column {name!r} has the collation {collation} in Spark, "
            message += "but is compared by its bytes here; "
            message += "convert it to UTF8_BINARY with pyspark.sql.functions.collate, "
            message += "in lower case if case does not matter"
            raise tidegate.SchemaError(message)


def by_position(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return the given columns, renamed to `u0`, `u1` and so on."""
    every = frame.columns
    return frame.toDF(*(f"a{position}" for position in range(len(every)))).select(
        *(F.col(f"a{every.index(name)}").alias(f"u{new}") for new, name in enumerate(names))
    )


@dataclass(frozen=True)
class Input:
    """One side of a join. Columns are named by position, so no name can clash or need quotes."""

    frame: DataFrame
    fields: tuple[StructField, ...]
    on: int
    by: tuple[int, ...]
    bands: tuple[int, ...]
    interval: tuple[int, ...]
    is_open: bool = False
    """Whether rows without a start or an end can match."""

    @classmethod
    def of(
        cls,
        frame: DataFrame,
        names: Sequence[str],
        on: Sequence[str],
        by: Sequence[str],
        bands: Sequence[str] = (),
    ) -> Input:
        """Return the columns in `names`, renamed to `u0`, `u1` and so on.

        `on` names one column that contains each row's value, or two columns that contain its start
        and end.
        """
        kept = [frame.columns.index(name) for name in names]
        fields = frame.schema.fields
        return cls(
            by_position(frame, names),
            tuple(fields[position] for position in kept),
            names.index(on[0]),
            tuple(names.index(name) for name in by),
            tuple(names.index(name) for name in bands),
            tuple(names.index(name) for name in on) if len(on) > 1 else (),
        )

    @property
    def value(self) -> Column:
        """The row's time, its start, or its value in the first band column."""
        return F.col(f"u{self.on}")

    @property
    def value_type(self) -> DataType:
        """The type of the value."""
        return self.fields[self.on].dataType

    @property
    def is_unmatchable(self) -> Column | None:
        """The condition that a row has a null key, band column, start or end, or a NaN band column.

        None if no row can meet this condition.
        """
        needed = (*self.by, *self.bands, *(() if self.is_open else self.interval))
        columns = [(at, self.fields[at]) for at in needed]
        lacks = [F.col(f"u{at}").isNull() for at, field in columns if field.nullable]
        floats = [at for at in self.bands if isinstance(self.fields[at].dataType, _FLOATS)]
        lacks += [F.coalesce(F.isnan(f"u{at}"), F.lit(False)) for at in floats]  # noqa: FBT003
        return reduce(Column.__or__, lacks) if lacks else None

    def without_unmatchable(self) -> DataFrame:
        """Return the rows that have a key and a value.

        Rows without a time and rows that start after they end are kept so that the join can reject
        them.
        """
        if self.is_unmatchable is None:
            return self.frame
        wanted = ~self.is_unmatchable
        if self.interval:
            start, end = (F.col(f"u{at}") for at in self.interval)
            return self.frame.where(wanted | (start > end))
        return self.frame.where(wanted if self.bands else wanted | self.value.isNull())

    def key_hash(self, other: Input) -> str:
        """Return SQL for a hash that is equal for equal keys on both sides; 0 without keys.

        Building a `Column` instead would take a dozen calls to Spark's process for each key.
        """
        if not self.by:
            return "0L"
        theirs = (other.fields[key] for key in other.by)
        keys = (
            comparable(f"u{key}", self.fields[key].dataType, field.dataType)
            for key, field in zip(self.by, theirs, strict=True)
        )
        return f"xxhash64({', '.join(keys)})"

    def row_hash(self) -> Column:
        """Return a hash of a row's sent columns, except those that cannot be hashed."""
        hashed = [at for at, field in enumerate(self.fields) if _is_hashable(field.dataType)]
        return F.xxhash64(*(F.col(f"u{at}") for at in hashed))

    def places(self, other: Input, layout: Places, *, kept: bool) -> list[Column]:
        """Return the columns sent with a row: its `bucket` and, if a slice has pieces, its `hash`.

        If a kept row matches nothing, its bucket is `-1 - slice` for an arbitrary slice, so such
        rows are distributed evenly. If a row's time alone determines its partition, no column is
        added, because passing columns to Python takes time.
        """
        buckets, slices = layout.keys, len(layout.partition_of)
        unmatchable = self.is_unmatchable if kept else None
        if buckets == 1 and unmatchable is None and not layout.has_pieces:
            return []
        bucket = F.lit(0) if buckets == 1 else F.expr(f"pmod({self.key_hash(other)}, {buckets})")
        if unmatchable is not None:
            anywhere = -1 - F.pmod(self.row_hash(), F.lit(slices))
            bucket = F.when(unmatchable, anywhere).otherwise(bucket)
        places = [bucket.cast("int").alias("bucket")]
        if layout.has_pieces:
            places.append(self.row_hash().alias("hash"))
        return places


def _is_hashable(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _is_hashable(kind.elementType)
    if isinstance(kind, StructType):
        return all(_is_hashable(field.dataType) for field in kind)
    return kind.typeName() not in _UNHASHABLE


def comparable(column: str, mine: DataType, theirs: DataType) -> str:
    """Return the key in a type whose hash does not depend on the width or scale of either key."""
    if isinstance(mine, IntegralType) and mine != theirs:
        return f"cast({column} as bigint)"
    if isinstance(mine, FloatType) or (isinstance(mine, DecimalType) and mine != theirs):
        column = f"cast({column} as double)"
    return one_float(column, mine)


def one_float(column: str, kind: DataType) -> str:
    """Return SQL in which equal floats have the same bits.

    All NaNs are equal, as are both zeros. Spark also treats them as equal when it compares and
    hashes floats, but Sail uses the bits.
    """
    return f"(nanvl({column}, double('nan')) + 0.0D)" if isinstance(kind, _FLOATS) else column
