"""One side of a join on the driver: its columns, and the bucket of its keys."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import (
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    LongType,
    StructField,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


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

    @property
    def time(self) -> Column:
        """The time of a row."""
        return F.col(f"u{self.on}")

    @property
    def time_type(self) -> DataType:
        """Type of the time."""
        return self.fields[self.on].dataType

    @property
    def in_days(self) -> bool:
        """Whether the time is a date."""
        return isinstance(self.time_type, DateType)

    @property
    def lacks_key(self) -> Column | None:
        """Whether a key is null, if one can be."""
        nullable = [F.col(f"u{key}").isNull() for key in self.by if self.fields[key].nullable]
        return reduce(Column.__or__, nullable) if nullable else None

    def without_unmatchable(self) -> DataFrame:
        """The rows that have a key.

        A row without a time stays, for the join to refuse it.
        """
        if self.lacks_key is None:
            return self.frame
        return self.frame.where(~self.lacks_key | self.time.isNull())

    def key_hash(self, other: Input) -> Column:
        """Hash of the key, equal for equal keys of both sides."""
        return F.xxhash64(
            *(
                _comparable(F.col(f"u{key}"), self.fields[key].dataType, theirs.dataType)
                for key, theirs in zip(self.by, (other.fields[m] for m in other.by), strict=True)
            )
        )

    def with_bucket(self, other: Input, buckets: int, slices: int, *, kept: bool) -> DataFrame:
        """The rows that travel, each with its bucket if there are several.

        A kept row without a key matches nothing. Its bucket is -1 minus any of the slices, so that
        such rows are spread evenly.
        """
        rows = self.frame if kept else self.without_unmatchable()
        if buckets == 1:
            return rows
        bucket = F.pmod(self.key_hash(other), F.lit(buckets))
        if kept and self.lacks_key is not None:
            anywhere = -1 - F.pmod(F.xxhash64(self.time), F.lit(slices))
            bucket = F.when(self.lacks_key, anywhere).otherwise(bucket)
        return rows.select("*", bucket.cast("int").alias("bucket"))


def _comparable(column: Column, mine: DataType, theirs: DataType) -> Column:
    """The key as a type whose hash does not depend on the width or scale a side happens to have."""
    if isinstance(mine, IntegralType) and mine != theirs:
        return column.cast(LongType())
    if isinstance(mine, FloatType) or (isinstance(mine, DecimalType) and mine != theirs):
        return column.cast(DoubleType())
    return column
