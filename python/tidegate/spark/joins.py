"""The joins of `tidegate.spark`, as its users call them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.spark.driver.join import joined
from tidegate.spark.plan.join import Plan
from tidegate.spark.query.query import BandQuery, IntervalQuery
from tidegate.spark.query.window import bounds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Literal

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    import tidegate
    from tidegate.spark.worker.task import Then
    from tidegate.types import Bound, Closed, How, KeyNames, Names, Window, Within


def interval_join(  # noqa: PLR0913 - the arguments of the native join, and four of Spark
    left_df: DataFrame,
    right_df: DataFrame,
    *,
    on: Names,
    lower: Bound,
    upper: Bound,
    by: KeyNames | None = None,
    where: tidegate.Expr | str | None = None,
    how: How = "inner",
    closed: Closed = "both",
    suffix: str = "_right",
    columns: Sequence[str] | None = None,
    partitions: int | None = None,
    parallelism: Literal["auto", "broadcast", "key", "time", "hybrid"] = "auto",
    late_as: str | None = None,
    then: Then | None = None,
    then_schema: StructType | str | None = None,
) -> DataFrame:
    """Pair the rows of two DataFrames that share a key and are close in time.

    `(l, r)` is in the result when the keys are equal and
    `l.ts + lower <= r.ts <= l.ts + upper`, and `where` holds: the rows of
    `tidegate.interval_join`, in no particular order.

    Example:
        >>> flights = spark.createDataFrame([("JFK", 10), ("LGA", 20)], ["origin", "hour"])
        >>> weather = spark.createDataFrame(
        ...     [("JFK", 9, 7.5), ("JFK", 12, 3.0)], ["origin", "hour", "wind"]
        ... )
        >>> seen = tidegate.spark.interval_join(
        ...     flights, weather, on="hour", by="origin", lower=-2, upper=0, how="left"
        ... )
        >>> seen.orderBy("hour").show()
        +------+----+----------+----+
        |origin|hour|hour_right|wind|
        +------+----+----------+----+
        |   JFK|  10|         9| 7.5|
        |   LGA|  20|      NULL|NULL|
        +------+----+----------+----+
        <BLANKLINE>

    Args:
        left_df: The left side.
        right_df: The right side, a stream if and only if the left side is.
        on: Time column, one name or a pair: timestamp, timestamp_ntz, date or integer. For streams,
            the column that has the watermark.
        lower: Least `r.ts - l.ts`: a duration, an integer in the column's unit (microseconds for
            timestamps, days for dates), or None for no bound.
        upper: Greatest `r.ts - l.ts`.
        by: Key columns that must be equal: a name, a list, or a mapping of left to right names.
            A null key matches nothing.
        where: A further predicate over both sides, such as `"left.price < right.bid"`.
        how: `inner`, `left`, `right`, `full`, `semi` or `anti`.
        closed: Which bounds belong to the interval.
        suffix: Added to a right column whose name the left side has too.
        columns: Result columns to return; others do not travel at all.
        partitions: Number of partitions; by default enough for the cores and the rows. A side that
            is not moved keeps its own, unless they are more. For streams, the number of buckets
            that keys are divided into, 64 by default; a restarted query must have the same.
        parallelism: How the rows are divided. `broadcast`: one side is read at once and sent whole
            to every task, however large; useful where Spark cannot tell that it is small, as after
            a filter. `key`: buckets of keys, nothing sampled, one heavy key makes one heavy task.
            `time`: slices of time, with copies of the rows near a border. `hybrid`: buckets of
            keys, of which the heavy ones are cut by time. `auto`: `broadcast` if a side is small,
            otherwise whichever of the others makes a sample's fullest partition smallest. Streams:
            `key` divides them by key alone, which is what `auto` does where there is one. `time`
            deals slices of time to the buckets in turn, which spreads the rows of a heavy key, and
            copies the rows near a border; `auto` does so without `by`. `hybrid` begins each key's
            turn at another bucket. Neither is for full joins nor for intervals without an end:
            without `by` these are one bucket, which is one task.
        late_as: For streams: the name of a further column of the result, which is `left` or `right`
            in a late row of that side, with null for what it has not, and null in a result. Without
            it, late rows are dropped.
        then: Applied to every `pyarrow.RecordBatch` of the result inside the same call; returns
            another, or a `pyarrow.Table`. It sees some of the rows at a time, so an aggregate must
            be finished by a `groupBy` of its partial results.
        then_schema: Spark schema of what `then` returns, as a `StructType` or text such as
            `"origin string, flights bigint"`.

    Returns:
        A DataFrame of the left columns, then the right ones (left only, for semi and anti).

    Raises:
        tidegate.SchemaError: A column is missing, is there twice, or has an unfit type.
        tidegate.TidegateError: Another argument is unfit, a stream has no watermark or no RocksDB
            to keep its state, or a time is null in a side that is sent whole. Elsewhere the task
            finds it that meets it, so that Spark raises for it when the DataFrame is used.
    """
    query = IntervalQuery.of(
        on=on, lower=lower, upper=upper, by=by, where=where, how=how, closed=closed, suffix=suffix
    )
    plan = Plan.of(
        left_df,
        right_df,
        query,
        columns=columns,
        partitions=partitions,
        parallelism=parallelism,
        late_as=late_as,
    )
    return joined(plan, then, then_schema)


def window_join(  # noqa: PLR0913 - the arguments of the native join, and four of Spark
    left_df: DataFrame,
    right_df: DataFrame,
    *,
    on: Names,
    window: Window | tuple[Window, Window],
    by: KeyNames | None = None,
    where: tidegate.Expr | str | None = None,
    how: How = "inner",
    suffix: str = "_right",
    columns: Sequence[str] | None = None,
    partitions: int | None = None,
    parallelism: Literal["auto", "broadcast", "key", "time", "hybrid"] = "auto",
    late_as: str | None = None,
    then: Then | None = None,
    then_schema: StructType | str | None = None,
) -> DataFrame:
    """Pair the rows of two DataFrames that are in each other's sliding windows of time.

    With a window W, `(l, r)` is in the result when `abs(l.ts - r.ts) <= W`, the keys are equal and
    `where` holds; with `(WL, WR)`, left rows stay for WL and right rows for WR: the rows of
    `tidegate.window_join`, in no particular order. It is the interval join with `lower=-WR` and
    `upper=WL`, so that `parallelism="time"`, or `"auto"` without `by`, makes slices of time with
    copies of the rows within a window of a border.

    Example:
        >>> flights = spark.createDataFrame([("JFK", 10), ("LGA", 20)], ["origin", "hour"])
        >>> gusts = spark.createDataFrame([(9, 7.5), (12, 30.0), (40, 9.0)], ["hour", "wind"])
        >>> seen = tidegate.spark.window_join(
        ...     flights, gusts, on="hour", window=3, where="right.wind > 20", how="left"
        ... )
        >>> seen.orderBy("hour").show()
        +------+----+----------+----+
        |origin|hour|hour_right|wind|
        +------+----+----------+----+
        |   JFK|  10|        12|30.0|
        |   LGA|  20|      NULL|NULL|
        +------+----+----------+----+
        <BLANKLINE>

    Args:
        left_df: The left side.
        right_df: The right side.
        on: As for `interval_join`.
        window: How long the rows of both sides stay, or a pair of such for the left and the right
            side: a duration, or an integer in the column's unit (microseconds for timestamps, days
            for dates). Not `tidegate.rows(n)`: the rows of a DataFrame have no order beyond their
            times, so that the last n are not defined where times are equal.
        by: As for `interval_join`.
        where: As for `interval_join`.
        how: As for `interval_join`.
        suffix: As for `interval_join`.
        columns: As for `interval_join`.
        partitions: As for `interval_join`.
        parallelism: As for `interval_join`.
        late_as: As for `interval_join`.
        then: As for `interval_join`.
        then_schema: As for `interval_join`.

    Returns:
        A DataFrame of the left columns, then the right ones (left only, for semi and anti).

    Raises:
        tidegate.SchemaError: As for `interval_join`.
        tidegate.TidegateError: A window is negative or counts rows; else as for `interval_join`.
        TypeError: A window is of another type.
    """
    lower, upper = bounds(window)
    return interval_join(
        left_df,
        right_df,
        on=on,
        lower=lower,
        upper=upper,
        by=by,
        where=where,
        how=how,
        suffix=suffix,
        columns=columns,
        partitions=partitions,
        parallelism=parallelism,
        late_as=late_as,
        then=then,
        then_schema=then_schema,
    )


def band_join(  # noqa: PLR0913 - the arguments of the native join, and four of Spark
    left_df: DataFrame,
    right_df: DataFrame,
    *,
    on: str | Sequence[Names] | Mapping[str, str],
    within: Within | list[Within] | Mapping[str, Within],
    time: Names | None = None,
    window: Window | tuple[Window, Window] | None = None,
    by: KeyNames | None = None,
    where: tidegate.Expr | str | None = None,
    how: How = "inner",
    suffix: str = "_right",
    columns: Sequence[str] | None = None,
    partitions: int | None = None,
    parallelism: Literal["auto", "broadcast", "key", "value", "hybrid"] = "auto",
    late_as: str | None = None,
    then: Then | None = None,
    then_schema: StructType | str | None = None,
) -> DataFrame:
    """Pair the rows of two DataFrames whose values are close.

    `(l, r)` is in the result when `abs(l.on - r.on) <= within` for each column of `on`, the keys
    are equal, and `where` holds: the rows of `tidegate.band_join`, in no particular order. Spark's
    own plan for it compares all pairs of rows.

    Example:
        >>> towns = spark.createDataFrame([("Alm", 47.5), ("Ufer", 48.1)], ["town", "lat"])
        >>> masts = spark.createDataFrame([(1, 47.45), (2, 47.6), (3, 50.0)], ["mast", "lat"])
        >>> near = tidegate.spark.band_join(
        ...     towns, masts, on="lat", within=0.25, how="left", columns=["town", "mast"]
        ... )
        >>> near.orderBy("town", "mast").show()
        +----+----+
        |town|mast|
        +----+----+
        | Alm|   1|
        | Alm|   2|
        |Ufer|NULL|
        +----+----+
        <BLANKLINE>

    Args:
        left_df: The left side.
        right_df: The right side, a stream if and only if the left side is.
        on: As for `tidegate.band_join`. Rows are divided by the values of the first column: name
            the one first that leaves the fewest pairs.
        within: As for `tidegate.band_join`.
        time: The time columns, where there is a window: one name or a pair. For streams, the
            columns that have the watermarks.
        window: As for `window_join`: pairs are those of rows that are close and in each other's
            windows of time. Streams need one.
        by: As for `interval_join`.
        where: As for `interval_join`.
        how: As for `interval_join`.
        suffix: As for `interval_join`.
        columns: As for `interval_join`.
        partitions: As for `interval_join`.
        parallelism: As for `interval_join`, but for `value`, which stands for `time`: slices of
            values, with copies of the rows near a border. A value with more rows than a partition
            should have is divided further, by a hash of the rows of one side, with copies of the
            other side's rows; in a full join, of which no side can be copied alone, it is not.
            Streams are divided as those of `interval_join` are, by slices of values.
        late_as: As for `interval_join`.
        then: As for `interval_join`.
        then_schema: As for `interval_join`.

    Returns:
        A DataFrame of the left columns, then the right ones (left only, for semi and anti).

    Raises:
        tidegate.SchemaError: A column is missing, is there twice, or has an unfit type.
        tidegate.TidegateError: Another argument is unfit, or a stream lacks what `interval_join`
            asks of it, or a window.
    """
    query = BandQuery.of(
        on=on,
        within=within,
        time=time,
        window=window,
        by=by,
        where=where,
        how=how,
        suffix=suffix,
    )
    plan = Plan.of(
        left_df,
        right_df,
        query,
        columns=columns,
        partitions=partitions,
        parallelism=parallelism,
        late_as=late_as,
    )
    return joined(plan, then, then_schema)
