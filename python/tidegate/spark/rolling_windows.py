"""Rolling windows of DataFrames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame

import tidegate
from tidegate.calls.arguments import told
from tidegate.spark.driver.rolling import rolled
from tidegate.spark.plan.rolling import RollingPlan
from tidegate.types import Closed, Epoch, Window


@told
def rolling(  # noqa: PLR0913 - the arguments of the native call, and one of Spark
    table: DataFrame,
    *,
    on: str,
    size: Window,
    by: str | Sequence[str] | None = None,
    closed: Closed = "right",
    aggs: Mapping[str, tidegate.agg.Aggregate],
    columns: Sequence[str] | None = None,
    unit: Epoch | None = None,
    partitions: int | None = None,
    late_as: str | None = None,
) -> DataFrame:
    """Aggregate a window of earlier rows for each row of a DataFrame.

    The function returns the same rows as `tidegate.rolling`, but in no particular order. Rows are
    divided among tasks by key, and a task processes all rows of its keys. Without `by`, one task
    processes all rows.

    Spark does not preserve the order of rows, so rows with equal times are ordered by value. The
    comparison uses all columns that are read, with nulls last.

    Example:
        >>> meters = spark.createDataFrame(
        ...     [("north", 0, 4), ("north", 7, 1), ("south", 8, 2)], ["house", "minute", "watts"]
        ... )
        >>> sums = {"sum": tidegate.agg.sum("watts")}
        >>> found = tidegate.spark.rolling(meters, on="minute", by="house", size=10, aggs=sums)
        >>> found.orderBy("minute").show()
        +-----+------+-----+---+
        |house|minute|watts|sum|
        +-----+------+-----+---+
        |north|     0|    4|  4|
        |north|     7|    1|  5|
        |south|     8|    2|  2|
        +-----+------+-----+---+
        <BLANKLINE>

    Args:
        table: The DataFrame, which can be a stream. A stream needs a watermark on its time column.
        on: The time column, whose type must be timestamp, timestamp_ntz, date or integer.
        size: The length of each window: a duration, an integer if times are integers, or a number
            of rows with the same key, as `tidegate.rows(n)`.
        by: The key columns: a name or a list of names. Rows with a null key form a group.
        closed: The ends that a window includes, as in `tidegate.rolling`. `right`, the default,
            includes the row itself.
        aggs: The aggregates to compute: functions of `tidegate.agg`, keyed by result column name.
        columns: The columns of the DataFrame to include in the result, in this order. None means
            all columns.
        unit: The unit of numeric times: "s", "ms", "us" or "ns". The numbers count from 1970 in UTC
            or, with a pair such as `("s", start)`, from a datetime. The result then contains
            timestamps. The numbers must be whole numbers of microseconds. `unit` does not apply to
            streams, whose times need watermarks.
        partitions: The number of partitions into which keys are divided. None lets Spark choose the
            number. For streams, the default is the value of `spark.sql.shuffle.partitions`, but at
            most 64, and a restarted query must use the same number.
        late_as: For streams: the name of an additional boolean result column that is true in late
            rows and null in other rows. The aggregates of a late row are null. Without this column,
            late rows are dropped.

    Returns:
        A DataFrame with the columns of the input, followed by one column per aggregate. Each input
        row produces one row. A row of a stream is emitted once the watermark has passed it.

    Raises:
        tidegate.SchemaError: A column is missing or duplicated, or has an unsuitable type.
        tidegate.TidegateError: Another argument is invalid, or the DataFrame is a stream and a
            watermark or the RocksDB state store is missing. A task fails if it reads a null time,
            or if an integer sum exceeds 64 bits. Spark then raises the error when you use the
            DataFrame.
    """
    arguments = {
        "on": on,
        "size": size,
        "by": by,
        "closed": closed,
        "aggs": aggs,
        "columns": columns,
    }
    return rolled(RollingPlan.of(table, partitions, late_as, unit=unit, **arguments))
