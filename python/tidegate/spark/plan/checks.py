"""Checks that joins and aggregations share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tidegate
from tidegate.spark.query.schema import arrow

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from tidegate.types import Length


def check_late_as(late_as: str | None, what: str, *, streams: bool) -> None:
    """Reject `late_as` if it is not a name, or if the call has no late rows."""
    if late_as is not None and not isinstance(late_as, str):
        message = f"late_as: expected the name of a column, got {late_as!r}"
        raise TypeError(message)
    if late_as is not None and not streams:
        message = f"late_as: {what} has no late rows; leave it out"
        raise tidegate.TidegateError(message)


def check_division(
    partitions: int | None,
    parallelism: str,
    known: Sequence[str],
    divided: str = "time",
    *,
    keyed: bool,
) -> None:
    """Reject invalid values of `partitions` and `parallelism`."""
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
        message = f"parallelism {parallelism!r} divides rows by key; "
        message += f"give `by`, or choose {divided!r}"
        raise tidegate.TidegateError(message)


def check_columns(columns: object) -> None:
    """Reject a single name as the list of columns."""
    if isinstance(columns, str):
        message = f"columns: expected a list of column names, got {columns!r}"
        raise TypeError(message)


def check_asked(result: pa.Schema) -> None:
    """Reject a result without columns."""
    if not result.names:
        message = "`columns` is empty; name at least one column of the result"
        raise tidegate.SchemaError(message)


def check_width(max_width: Length | None, *, streams: bool) -> None:
    """Reject `max_width` if the call does not keep rows from two streams."""
    if max_width is not None and not streams:
        message = "max_width limits how long rows from two streams are kept, "
        message += "but here one side is a table whose intervals can have any length; leave it out"
        raise tidegate.TidegateError(message)


def empty(frame: DataFrame, side: str) -> pa.Table:
    """Return an empty Arrow table with the columns of `frame`."""
    names = frame.columns
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        message = f"{side}: columns {twice} are duplicated; rename or drop one of each"
        raise tidegate.SchemaError(message)
    return arrow(frame.sparkSession, frame.schema).empty_table()
