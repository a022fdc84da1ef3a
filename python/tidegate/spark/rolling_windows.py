"""Rolling windows of DataFrames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import DateType, StructField, StructType

import tidegate
from tidegate._tidegate import RollingQuery
from tidegate.calls.arguments import told
from tidegate.spark.plan.checks import check_asked, check_division, empty
from tidegate.spark.query.input import check_frames
from tidegate.spark.query.schema import aggregate_fields, arrow
from tidegate.spark.worker.rolling import RollingTask
from tidegate.spark.worker.task import on_worker

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from tidegate.types import Closed, Window


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
    partitions: int | None = None,
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
        table: The DataFrame, which must not be a stream.
        on: The time column, whose type must be timestamp, timestamp_ntz, date or integer.
        size: The length of each window: a duration, an integer if times are integers, or a number
            of rows with the same key, as `tidegate.rows(n)`.
        by: The key columns: a name or a list of names. Rows with a null key form a group.
        closed: The ends that a window includes, as in `tidegate.rolling`. `right`, the default,
            includes the row itself.
        aggs: The aggregates to compute: functions of `tidegate.agg`, keyed by result column name.
        columns: The columns of the DataFrame to include in the result, in this order. None means
            all columns.
        partitions: The number of partitions into which keys are divided. None lets Spark choose the
            number.

    Returns:
        A DataFrame with the columns of the input, followed by one column per aggregate. Each input
        row produces one row.

    Raises:
        tidegate.SchemaError: A column is missing or duplicated, or has an unsuitable type.
        tidegate.TidegateError: The DataFrame is a stream, or another argument is invalid. A task
            fails if it reads a null time, or if an integer sum exceeds 64 bits. Spark then raises
            the error when you use the DataFrame.
    """
    check_frames([table], ["table"])
    if table.isStreaming:
        message = "table: rolling windows of streams are not supported on Spark; call "
        message += "tidegate.spark.interval_join of the stream with itself and aggs, or use "
        message += "tidegate.Rolling"
        raise tidegate.TidegateError(message)
    keys = [] if by is None else [by] if isinstance(by, str) else list(by)
    check_division(partitions, "key" if keys else "time", ("key", "time"), keyed=bool(keys))
    query = RollingQuery(on=on, size=size, by=keys, closed=closed, aggs=aggs, columns=columns)
    rows = empty(table, "table")
    plan = query.plan([rows])
    check_asked(plan.schema)
    # Columns are selected by position, so that no name needs quotes.
    renamed = table.toDF(*(f"a{at}" for at in range(len(table.columns))))
    read = [F.col(f"a{table.columns.index(name)}").alias(name) for name in plan.columns[0]]
    of_keys = [F.col(f"a{table.columns.index(name)}") for name in keys]
    if partitions is None and keys:
        divided = renamed.repartition(*of_keys)
    else:
        divided = renamed.repartition(partitions or 1, *of_keys)
    own = [name for name in plan.schema.names if name not in aggs]
    fields = [_field(table.schema, name) for name in own]
    schema = StructType([*fields, *aggregate_fields(aggs, table.schema, rows.schema, plan.schema)])
    days = isinstance(table.schema[on].dataType, DateType)
    task = RollingTask(query, arrow(table.sparkSession, schema), days)
    return divided.select(*read).mapInArrow(on_worker(task.run, "tidegate_rolling"), schema)


def _field(schema: StructType, name: str) -> StructField:
    field = schema[name]
    return StructField(name, field.dataType, field.nullable, field.metadata)
