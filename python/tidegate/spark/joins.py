"""The public join functions of `tidegate.spark`.

Long because the docstrings serve as the manual; the body of each function is a single call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

import tidegate
from tidegate.calls.arguments import told
from tidegate.spark.driver.calls import JoinCall
from tidegate.spark.driver.tasks import Ending
from tidegate.spark.plan.files import Input, Right
from tidegate.spark.worker.task import Then
from tidegate.types import (
    AsofHow,
    Bound,
    Closed,
    ClosedEnds,
    End,
    Epoch,
    How,
    IntervalNames,
    KeyNames,
    Length,
    Names,
    PairOrder,
    Strategy,
    Window,
    Within,
)


@told
def interval_join(  # noqa: PLR0913 - the arguments of the native join, and four of Spark
    left_df: Input,
    right_df: Right,
    *,
    on: Names,
    lower: End,
    upper: End,
    by: KeyNames | None = None,
    where: tidegate.Expr | str | None = None,
    how: How | None = None,
    aggs: Mapping[str, tidegate.agg.Aggregate] | None = None,
    closed: Closed = "both",
    open_ends: bool = False,
    prevailing: bool = False,
    limit: int | None = None,
    order: PairOrder | None = None,
    max_width: Length | None = None,
    suffix: str = "_right",
    columns: Sequence[str] | None = None,
    unit: Epoch | None = None,
    partitions: int | None = None,
    parallelism: Literal["auto", "bins", "broadcast", "files", "key", "time", "hybrid"] = "auto",
    late_as: str | None = None,
    then: Then | None = None,
    then_schema: StructType | str | None = None,
    sink: str | None = None,
    scratch: str | None = None,
) -> DataFrame:
    """Match rows from two DataFrames that have the same key and are close in time.

    A left row `l` and a right row `r` match if their keys are equal,
    `l.ts + lower <= r.ts <= l.ts + upper`, and `where` holds. The function returns the same rows as
    `tidegate.interval_join`, but in no particular order.

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

        One row per flight, with the number of weather rows and the strongest wind in these two
        hours:

        >>> seen = tidegate.spark.interval_join(
        ...     flights, weather, on="hour", by="origin", lower=-2, upper=0,
        ...     aggs={"n": tidegate.agg.count(), "wind": tidegate.agg.max("wind")},
        ... )
        >>> seen.orderBy("hour").show()
        +------+----+---+----+
        |origin|hour|  n|wind|
        +------+----+---+----+
        |   JFK|  10|  1| 7.5|
        |   LGA|  20|  0|NULL|
        +------+----+---+----+
        <BLANKLINE>

    Args:
        left_df: The left side: a DataFrame, or Parquet files, as a path, a URL, a list of these or
            a pyarrow dataset. Both sides must be of the same kind. Right rows with equal times are
            in file order, as in `tidegate` itself.
        right_df: The right side. It can also be a `tidegate.Index` that `tidegate.open_index` has
            opened from a file that all workers can access under the same path. Each Python worker
            then maps this file, no rows are shuffled, and right rows with equal times are in the
            order of the index. Such a join cannot return unmatched right rows. If one side is a
            stream and the other side is a table, the call reads the table once and sends the whole
            table to every task of every micro-batch. The results for a stream row are then emitted
            in the micro-batch in which the row arrives. The stream needs no watermark. A table
            larger than 64 MB requires `parallelism="broadcast"`.
        on: The time column, or a pair of names if the column has a different name on each side. The
            column's type must be timestamp, timestamp_ntz, date or integer. For streams, the
            watermark must be defined on the time column.
        lower: The smallest `r.ts - l.ts` of two matching rows: a duration, or an integer if times
            are integers. None sets no bound. To set a separate bound for each row, pass an
            expression over the columns of one side, such as `-tidegate.left.tolerance`, or its SQL
            text. The expression must return a duration or an integer. An expression over left
            columns may also return a time, which is then the end of the interval itself. If the
            expression is null for a row, that row does not match any row. With an expression, a
            table's rows are divided by each row's interval, as in `overlap_join`, so a few wide
            intervals cause only a few copies. For streams, see `max_width`.
        upper: The largest `r.ts - l.ts` of two matching rows. `upper` accepts the same values as
            `lower`. None sets no bound.
        by: The key columns: a name, a list of names or name pairs, or a mapping from left to right
            names. Two rows match only if all of their keys are equal. A null key matches nothing.
            Without keys, any two rows may match.
        where: A condition on two rows, such as `"left.price < right.bid"`. Build the condition from
            `tidegate.left` and `tidegate.right` columns, or give it as SQL text. If the condition
            is null, the rows do not match.
        how: Which rows to return. `inner`: all pairs of matching rows. `left`, `right` and `full`:
            also the unmatched rows from the left side, the right side, or both sides. `semi`: only
            the matched left rows. `anti`: only the unmatched left rows. With `aggs`, `how` must be
            `left`, which keeps all left rows, or `inner`, which keeps only left rows that have
            partners. None means `inner`, or `left` if `aggs` is given.
        aggs: Aggregates from `tidegate.agg`, keyed by result column name. Each left row then
            appears once, with aggregates over its partners, which are the right rows that it
            matches. If times are compared, partners are aggregated in time order. Spark does not
            preserve the order of rows, so right rows with equal times are ordered by value. Such
            rows are compared by the first column of `on`, then, in DataFrame order, by the other
            columns that the join reads, with nulls last. Structs are compared field by field, and
            arrays and maps element by element. For streams, the division into micro-batches does
            not affect the result. A left row is emitted once the watermark has passed all possible
            partners of the row, so an interval join of streams requires an upper bound.
        closed: The ends that the interval includes: `both`, `left`, `right` or `neither`.
        open_ends: Whether a bound expression that evaluates to null means that there is no bound.
            Otherwise, a row with a null bound does not match any row. `open_ends` requires tables,
            whose rows are then divided only by key.
        prevailing: Whether the last right row with the same key before the interval also counts as
            a partner. The row must also satisfy `where`. `prevailing` requires `aggs` and a `lower`
            bound. The last row before an interval may be arbitrarily old, so a time slice would
            need copies of all earlier right rows. Streams are therefore divided only by key, and
            the last right row for each key is kept indefinitely.
        limit: The maximum number of pairs per left row. `order` selects these pairs, and other
            pairs are not in the result. A left row's pairs are in the order of the right rows, as
            without a limit. With `how="right"` or `how="full"`, right rows that no left row keeps
            count as unmatched. None sets no limit.
        order: The pairs that `limit` keeps. `first`: those with the earliest right rows. `last`:
            those with the latest right rows. `nearest`: those with the smallest `abs(l.on - r.on)`.
            In a tie between an earlier and a later right row, the earlier one is kept. Right rows
            with equal times are in row order, and the last of them is the nearest unless they are
            after the left row. None means `first`.
        max_width: For streams: the maximum distance, as a duration, between a row's time and an
            interval end that is computed from columns. `max_width` is required for computed ends,
            because it determines how long rows are kept. A row whose interval end is farther away
            is set aside, like a late row. With `late_as`, such a row is emitted and marked as `left
            wide` or `right wide`; otherwise, it is dropped.
        suffix: The suffix to append to the name of a right column if the left side has a column
            with the same name.
        columns: The columns to include in the result, in this order. With `aggs`, these are the
            left columns to keep. Other columns are not sent to Python. None means all columns.
        unit: The unit of numeric times: "s", "ms", "us" or "ns". The numbers count from 1970 in UTC
            or, with a pair such as `("s", start)`, from a datetime. The result then contains
            timestamps. The numbers must be whole numbers of microseconds. `unit` does not apply to
            joins of two streams, whose times need watermarks, or to files.
        partitions: The number of partitions. The default depends on the number of cores and the
            number of rows. A side that is not shuffled keeps its partitions, unless there are more
            than this number. In that case, some partitions are merged. For streams, `partitions` is
            the number of buckets that keys are divided into. For streams, the default is the value
            of `spark.sql.shuffle.partitions`, but at most 64. A restarted query must use the same
            number.
        parallelism: The method for dividing rows among tasks. `broadcast`: one side is read
            immediately and sent in full to every task, regardless of its size. Use `broadcast` if
            Spark cannot determine that the side is small, for example after a filter. `key`: rows
            are divided into buckets by key. No rows are sampled, and a heavy key results in a heavy
            task. Sides that are already partitioned by the keys are not shuffled. `time`: rows are
            divided into time slices, and the rows near a border are copied. `hybrid`: rows are
            divided into buckets by key, and heavy keys are split by time. `bins`: Spark itself
            joins on equal keys and time bins, so no rows are sent to Python. A sample determines
            the width of the bins. `bins` requires tables and intervals with two bounds, and does
            not support full joins, `where`, `aggs` or `then`. For tables, `auto` chooses the form
            with the lowest estimated cost, and `explain` shows the estimates. The candidates are
            `broadcast` if a side is small, `bins` if they are clearly cheaper, and the division
            whose fullest partition is the smallest. The existing partitions of both sides are also
            a candidate if they are balanced and each partition contains all rows with its keys.
            Rows are not sampled if a side is small and an estimate shows that the other forms would
            cost more. Sampling is also skipped if file metadata shows that there are few rows, or
            that bins are not clearly more expensive. For streams, `key` divides the rows only by
            key. `time` assigns time slices to the buckets in turn, to spread out a heavy key's
            rows. Rows near slice borders are copied. `hybrid` also assigns slices in turn, but
            starts each key at a different bucket. `auto` is `key` with `by`, and `time` otherwise.
            `time` and `hybrid` do not support intervals without an end. Without `by`, a join with
            such intervals has a single bucket, and therefore a single task. `files`: each task
            reads the rows of its time slice from Parquet files itself, so only results pass through
            Spark. Both sides must be files, or DataFrames that only select columns of Parquet files
            and compare them with constants. The files must contain statistics for the time columns.
            `auto` also considers `files` if the files are local.
        late_as: For streams: the name of an additional result column that marks late rows. The
            column is null in regular result rows. In a late row, the column contains the row's
            side, `left` or `right`, and the columns of the other side are null. Without this
            column, late rows are dropped.
        then: A function that processes each `pyarrow.RecordBatch` of the result before the rows are
            returned to Spark. The function returns another batch or a `pyarrow.Table`. The function
            receives only some of the rows at a time, so combine an aggregate's partial results with
            a `groupBy`.
        then_schema: The Spark schema of the data that `then` returns: a `StructType`, or a string
            such as `"origin string, flights bigint"`.
        sink: A folder in which tasks write the result as Parquet files, so that its rows never pass
            through Spark. All workers must be able to write to the folder, which is a path or a
            URL. The call waits until all files are written. It returns one row per file: the number
            of the `task`, the `path`, the number of `rows`, and their `digest`, which is
            `tidegate.Digest.sum` of the file's rows. Each file appears only when it is complete,
            and its name depends only on the call and the input files. If a call is interrupted,
            repeat it: files that are already present are not written again. `sink` requires tasks
            that read files (see `parallelism`).
        scratch: A folder for the files that preparation steps write, if tasks that read files need
            rows from other slices. As-of joins without a tolerance, joins with `prevailing` and
            aggregations with `session` are examples. All workers must be able to access the folder,
            which is a path or a URL. The default is a temporary folder if Spark runs only on this
            machine.

    Returns:
        A DataFrame with the left columns, then the right columns. With `semi` and `anti`, the
        result has only the left columns. With `aggs`, the result has the left columns, followed by
        one column per aggregate. If a row has no partners, counts are 0 and other aggregates are
        null.

    Raises:
        tidegate.SchemaError: A column is missing or duplicated, or has an unsuitable type.
        tidegate.TidegateError: Another argument is invalid, or, for streams, a watermark or the
            RocksDB state store is missing. The error is also raised if a side that is sent in full
            contains a null time. In other cases, the task that reads a null time fails, so Spark
            raises the error when you use the DataFrame.
    """
    arguments = {
        "on": on,
        "lower": lower,
        "upper": upper,
        "by": by,
        "where": where,
        "how": how,
        "aggs": aggs,
        "closed": closed,
        "open_ends": open_ends,
        "prevailing": prevailing,
        "limit": limit,
        "order": order,
        "suffix": suffix,
    }
    of_spark = {
        "columns": columns,
        "partitions": partitions,
        "parallelism": parallelism,
        "scratch": scratch,
        "unit": unit,
        "late_as": late_as,
        "max_width": max_width,
    }
    call = JoinCall("interval_join", (left_df, right_df), arguments, of_spark)
    return call.run(Ending(then, then_schema, sink))


@told
def window_join(  # noqa: PLR0913 - the arguments of the native join, and four of Spark
    left_df: Input,
    right_df: Right,
    *,
    on: Names,
    window: Window | tuple[Window, Window],
    by: KeyNames | None = None,
    where: tidegate.Expr | str | None = None,
    how: How | None = None,
    aggs: Mapping[str, tidegate.agg.Aggregate] | None = None,
    suffix: str = "_right",
    columns: Sequence[str] | None = None,
    unit: Epoch | None = None,
    partitions: int | None = None,
    parallelism: Literal["auto", "bins", "broadcast", "files", "key", "time", "hybrid"] = "auto",
    late_as: str | None = None,
    then: Then | None = None,
    then_schema: StructType | str | None = None,
    sink: str | None = None,
    scratch: str | None = None,
) -> DataFrame:
    """Match rows from two DataFrames that lie in each other's sliding time windows.

    With a window W, a left row `l` and a right row `r` match if `abs(l.ts - r.ts) <= W`, their keys
    are equal, and `where` holds. With `(WL, WR)`, left rows stay in their window for the time WL,
    and right rows for WR. The function returns the same rows as `tidegate.window_join`, but in no
    particular order. A window join is equivalent to an interval join with `lower=-WR` and
    `upper=WL`. With `parallelism="time"`, or with `"auto"` and no `by`, rows are therefore divided
    into time slices. Rows that are at most one window away from a border are copied.

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
        left_df: The left side: a DataFrame, or Parquet files, as a path, a URL, a list of these or
            a pyarrow dataset. Both sides must be of the same kind. Right rows with equal times are
            in file order, as in `tidegate` itself.
        right_df: The right side. It can also be a `tidegate.Index` that `tidegate.open_index` has
            opened from a file that all workers can access under the same path. Each Python worker
            then maps this file, no rows are shuffled, and right rows with equal times are in the
            order of the index. Such a join cannot return unmatched right rows. If one side is a
            stream and the other side is a table, the call reads the table once and sends the whole
            table to every task of every micro-batch. The results for a stream row are then emitted
            in the micro-batch in which the row arrives. The stream needs no watermark. A table
            larger than 64 MB requires `parallelism="broadcast"`.
        on: The time column, or a pair of names if the column has a different name on each side. The
            column's type must be timestamp, timestamp_ntz, date or integer. For streams, the
            watermark must be defined on the time column.
        window: The length of time that a row stays in its side's window: a duration, or an integer
            if times are integers. To give each side its own window, pass a pair: first the left
            window, then the right one. Row-based windows (`tidegate.rows(n)`) are not supported.
            The rows of a DataFrame have no order beyond their times, so "the last n rows" is
            undefined if times are equal.
        by: The key columns: a name, a list of names or name pairs, or a mapping from left to right
            names. Two rows match only if all of their keys are equal. A null key matches nothing.
            Without keys, any two rows may match.
        where: A condition on two rows, such as `"left.price < right.bid"`. Build the condition from
            `tidegate.left` and `tidegate.right` columns, or give it as SQL text. If the condition
            is null, the rows do not match.
        how: Which rows to return. `inner`: all pairs of matching rows. `left`, `right` and `full`:
            also the unmatched rows from the left side, the right side, or both sides. `semi`: only
            the matched left rows. `anti`: only the unmatched left rows. With `aggs`, `how` must be
            `left`, which keeps all left rows, or `inner`, which keeps only left rows that have
            partners. None means `inner`, or `left` if `aggs` is given.
        aggs: Aggregates from `tidegate.agg`, keyed by result column name. Each left row then
            appears once, with aggregates over its partners, which are the right rows that it
            matches. If times are compared, partners are aggregated in time order. Spark does not
            preserve the order of rows, so right rows with equal times are ordered by value. Such
            rows are compared by the first column of `on`, then, in DataFrame order, by the other
            columns that the join reads, with nulls last. Structs are compared field by field, and
            arrays and maps element by element. For streams, the division into micro-batches does
            not affect the result. A left row is emitted once the watermark has passed all possible
            partners of the row, so an interval join of streams requires an upper bound.
        suffix: The suffix to append to the name of a right column if the left side has a column
            with the same name.
        columns: The columns to include in the result, in this order. With `aggs`, these are the
            left columns to keep. Other columns are not sent to Python. None means all columns.
        unit: The unit of numeric times: "s", "ms", "us" or "ns". The numbers count from 1970 in UTC
            or, with a pair such as `("s", start)`, from a datetime. The result then contains
            timestamps. The numbers must be whole numbers of microseconds. `unit` does not apply to
            joins of two streams, whose times need watermarks, or to files.
        partitions: The number of partitions. The default depends on the number of cores and the
            number of rows. A side that is not shuffled keeps its partitions, unless there are more
            than this number. In that case, some partitions are merged. For streams, `partitions` is
            the number of buckets that keys are divided into. For streams, the default is the value
            of `spark.sql.shuffle.partitions`, but at most 64. A restarted query must use the same
            number.
        parallelism: The method for dividing rows among tasks. `broadcast`: one side is read
            immediately and sent in full to every task, regardless of its size. Use `broadcast` if
            Spark cannot determine that the side is small, for example after a filter. `key`: rows
            are divided into buckets by key. No rows are sampled, and a heavy key results in a heavy
            task. Sides that are already partitioned by the keys are not shuffled. `time`: rows are
            divided into time slices, and the rows near a border are copied. `hybrid`: rows are
            divided into buckets by key, and heavy keys are split by time. `bins`: Spark itself
            joins on equal keys and time bins, so no rows are sent to Python. A sample determines
            the width of the bins. `bins` requires tables and intervals with two bounds, and does
            not support full joins, `where`, `aggs` or `then`. For tables, `auto` chooses the form
            with the lowest estimated cost, and `explain` shows the estimates. The candidates are
            `broadcast` if a side is small, `bins` if they are clearly cheaper, and the division
            whose fullest partition is the smallest. The existing partitions of both sides are also
            a candidate if they are balanced and each partition contains all rows with its keys.
            Rows are not sampled if a side is small and an estimate shows that the other forms would
            cost more. Sampling is also skipped if file metadata shows that there are few rows, or
            that bins are not clearly more expensive. For streams, `key` divides the rows only by
            key. `time` assigns time slices to the buckets in turn, to spread out a heavy key's
            rows. Rows near slice borders are copied. `hybrid` also assigns slices in turn, but
            starts each key at a different bucket. `auto` is `key` with `by`, and `time` otherwise.
            `time` and `hybrid` do not support intervals without an end. Without `by`, a join with
            such intervals has a single bucket, and therefore a single task. `files`: each task
            reads the rows of its time slice from Parquet files itself, so only results pass through
            Spark. Both sides must be files, or DataFrames that only select columns of Parquet files
            and compare them with constants. The files must contain statistics for the time columns.
            `auto` also considers `files` if the files are local.
        late_as: For streams: the name of an additional result column that marks late rows. The
            column is null in regular result rows. In a late row, the column contains the row's
            side, `left` or `right`, and the columns of the other side are null. Without this
            column, late rows are dropped.
        then: A function that processes each `pyarrow.RecordBatch` of the result before the rows are
            returned to Spark. The function returns another batch or a `pyarrow.Table`. The function
            receives only some of the rows at a time, so combine an aggregate's partial results with
            a `groupBy`.
        then_schema: The Spark schema of the data that `then` returns: a `StructType`, or a string
            such as `"origin string, flights bigint"`.
        sink: A folder in which tasks write the result as Parquet files, so that its rows never pass
            through Spark. All workers must be able to write to the folder, which is a path or a
            URL. The call waits until all files are written. It returns one row per file: the number
            of the `task`, the `path`, the number of `rows`, and their `digest`, which is
            `tidegate.Digest.sum` of the file's rows. Each file appears only when it is complete,
            and its name depends only on the call and the input files. If a call is interrupted,
            repeat it: files that are already present are not written again. `sink` requires tasks
            that read files (see `parallelism`).
        scratch: A folder for the files that preparation steps write, if tasks that read files need
            rows from other slices. As-of joins without a tolerance, joins with `prevailing` and
            aggregations with `session` are examples. All workers must be able to access the folder,
            which is a path or a URL. The default is a temporary folder if Spark runs only on this
            machine.

    Returns:
        A DataFrame with the left columns, then the right columns. With `semi` and `anti`, the
        result has only the left columns. With `aggs`, the result has the left columns, followed by
        one column per aggregate. If a row has no partners, counts are 0 and other aggregates are
        null.

    Raises:
        tidegate.SchemaError: A column is missing or duplicated, or has an unsuitable type.
        tidegate.TidegateError: A window is negative or row-based, another argument is invalid, or a
            stream has no watermark or no RocksDB state store. The error is also raised if a side
            that is sent in full contains a null time. In other cases, the task that reads a null
            time fails, so Spark raises the error when you use the DataFrame.
        TypeError: A window is of the wrong type.
    """
    arguments = {
        "on": on,
        "window": window,
        "by": by,
        "where": where,
        "how": how,
        "aggs": aggs,
        "suffix": suffix,
    }
    of_spark = {
        "columns": columns,
        "partitions": partitions,
        "parallelism": parallelism,
        "scratch": scratch,
        "unit": unit,
        "late_as": late_as,
    }
    call = JoinCall("window_join", (left_df, right_df), arguments, of_spark)
    return call.run(Ending(then, then_schema, sink))


@told
def band_join(  # noqa: PLR0913 - the arguments of the native join, and four of Spark
    left_df: Input,
    right_df: Right,
    *,
    on: str | Sequence[Names] | Mapping[str, str],
    within: Within | list[Within] | Mapping[str, Within],
    time: Names | None = None,
    window: Window | tuple[Window, Window] | None = None,
    by: KeyNames | None = None,
    where: tidegate.Expr | str | None = None,
    how: How | None = None,
    aggs: Mapping[str, tidegate.agg.Aggregate] | None = None,
    suffix: str = "_right",
    columns: Sequence[str] | None = None,
    unit: Epoch | None = None,
    partitions: int | None = None,
    parallelism: Literal["auto", "broadcast", "files", "key", "value", "hybrid"] = "auto",
    late_as: str | None = None,
    then: Then | None = None,
    then_schema: StructType | str | None = None,
    sink: str | None = None,
    scratch: str | None = None,
) -> DataFrame:
    """Match rows from two DataFrames whose values are close.

    A left row `l` and a right row `r` match if `abs(l.on - r.on) <= within` for each column of
    `on`, their keys are equal, and `where` holds. The function returns the same rows as
    `tidegate.band_join`, but in no particular order. Spark's own plan for such a join compares
    every left row with every right row.

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
        left_df: The left side: a DataFrame, or Parquet files, as a path, a URL, a list of these or
            a pyarrow dataset. Both sides must be of the same kind. Right rows with equal times are
            in file order, as in `tidegate` itself.
        right_df: The right side. It can also be a `tidegate.Index` that `tidegate.open_index` has
            opened from a file that all workers can access under the same path. Each Python worker
            then maps this file, no rows are shuffled, and right rows with equal times are in the
            order of the index. Such a join cannot return unmatched right rows. If one side is a
            stream and the other side is a table, the call reads the table once and sends the whole
            table to every task of every micro-batch. The results for a stream row are then emitted
            in the micro-batch in which the row arrives. The stream needs no watermark. A table
            larger than 64 MB requires `parallelism="broadcast"`.
        on: The band columns: a name, a list of names or name pairs, or a mapping from left to right
            names. Band columns must contain integers, floats, decimals, dates or timestamps. If a
            column contains floats on either side, both sides are compared as floats. Rows are
            divided among tasks by the values of the first column, so put the most selective column
            first.
        within: The maximum distance between the values in two matching rows. Give one distance for
            all columns, a list with one distance per column, or a mapping from left column names to
            distances. A distance is a number. For integer times, the distance must be an integer.
            For dates and timestamps, the distance is a duration. A pair `(below, above)` means
            `l.on - below <= r.on <= l.on + above`, where None sets no bound.
        time: The time column if there is a window, or a pair of names if the column has a different
            name on each side. For streams, the watermark must be defined on the time column, and a
            window is required.
        window: The length of time that a row stays in its side's window: a duration, or an integer
            if times are integers. To give each side its own window, pass a pair: first the left
            window, then the right one. Row-based windows (`tidegate.rows(n)`) are not supported.
            The rows of a DataFrame have no order beyond their times, so "the last n rows" is
            undefined if times are equal.
        by: The key columns: a name, a list of names or name pairs, or a mapping from left to right
            names. Two rows match only if all of their keys are equal. A null key matches nothing.
            Without keys, any two rows may match.
        where: A condition on two rows, such as `"left.price < right.bid"`. Build the condition from
            `tidegate.left` and `tidegate.right` columns, or give it as SQL text. If the condition
            is null, the rows do not match.
        how: Which rows to return. `inner`: all pairs of matching rows. `left`, `right` and `full`:
            also the unmatched rows from the left side, the right side, or both sides. `semi`: only
            the matched left rows. `anti`: only the unmatched left rows. With `aggs`, `how` must be
            `left`, which keeps all left rows, or `inner`, which keeps only left rows that have
            partners. None means `inner`, or `left` if `aggs` is given.
        aggs: Aggregates from `tidegate.agg`, keyed by result column name. Each left row then
            appears once, with aggregates over its partners, which are the right rows that it
            matches. If times are compared, partners are aggregated in time order. Spark does not
            preserve the order of rows, so right rows with equal times are ordered by value. Such
            rows are compared by the first column of `on`, then, in DataFrame order, by the other
            columns that the join reads, with nulls last. Structs are compared field by field, and
            arrays and maps element by element. For streams, the division into micro-batches does
            not affect the result. A left row is emitted once the watermark has passed all possible
            partners of the row, so an interval join of streams requires an upper bound.
        suffix: The suffix to append to the name of a right column if the left side has a column
            with the same name.
        columns: The columns to include in the result, in this order. With `aggs`, these are the
            left columns to keep. Other columns are not sent to Python. None means all columns.
        unit: The unit of numeric times: "s", "ms", "us" or "ns". The numbers count from 1970 in UTC
            or, with a pair such as `("s", start)`, from a datetime. The result then contains
            timestamps. The numbers must be whole numbers of microseconds. `unit` does not apply to
            joins of two streams, whose times need watermarks, or to files.
        partitions: The number of partitions. The default depends on the number of cores and the
            number of rows. A side that is not shuffled keeps its partitions, unless there are more
            than this number. In that case, some partitions are merged. For streams, `partitions` is
            the number of buckets that keys are divided into. For streams, the default is the value
            of `spark.sql.shuffle.partitions`, but at most 64. A restarted query must use the same
            number.
        parallelism: The method for dividing rows among tasks. `broadcast`: one side is read
            immediately and sent in full to every task, regardless of its size. Use `broadcast` if
            Spark cannot determine that the side is small, for example after a filter. `key`: rows
            are divided into buckets by key. No rows are sampled, and a heavy key results in a heavy
            task. Sides that are already partitioned by the keys are not shuffled. `value`: rows are
            divided into value slices, and the rows near a border are copied. `hybrid`: rows are
            divided into buckets by key, and heavy keys are split by value. If a single value has
            more rows than a partition should have, one side's rows are divided further by hash, and
            the other side's rows are copied. A full join does not divide single values, because
            neither side can be copied. `auto`: `broadcast` if a side is small; otherwise, the
            division whose fullest partition, estimated from a sample, is the smallest. For streams,
            `key` divides the rows only by key. `value` assigns value slices to the buckets in turn,
            to spread out a heavy key's rows. Rows near slice borders are copied. `hybrid` also
            assigns slices in turn, but starts each key at a different bucket. `auto` is `key` with
            `by`, and `value` otherwise. `value` and `hybrid` do not support bands without an end.
            Without `by`, a join with such a band has a single bucket, and therefore a single task.
            `files`: each task reads the rows of its time slice from Parquet files itself, so only
            results pass through Spark. Both sides must be files, or DataFrames that only select
            columns of Parquet files and compare them with constants. The files must contain
            statistics for the time columns. `auto` also considers `files` if the files are local.
        late_as: For streams: the name of an additional result column that marks late rows. The
            column is null in regular result rows. In a late row, the column contains the row's
            side, `left` or `right`, and the columns of the other side are null. Without this
            column, late rows are dropped.
        then: A function that processes each `pyarrow.RecordBatch` of the result before the rows are
            returned to Spark. The function returns another batch or a `pyarrow.Table`. The function
            receives only some of the rows at a time, so combine an aggregate's partial results with
            a `groupBy`.
        then_schema: The Spark schema of the data that `then` returns: a `StructType`, or a string
            such as `"origin string, flights bigint"`.
        sink: A folder in which tasks write the result as Parquet files, so that its rows never pass
            through Spark. All workers must be able to write to the folder, which is a path or a
            URL. The call waits until all files are written. It returns one row per file: the number
            of the `task`, the `path`, the number of `rows`, and their `digest`, which is
            `tidegate.Digest.sum` of the file's rows. Each file appears only when it is complete,
            and its name depends only on the call and the input files. If a call is interrupted,
            repeat it: files that are already present are not written again. `sink` requires tasks
            that read files (see `parallelism`).
        scratch: A folder for the files that preparation steps write, if tasks that read files need
            rows from other slices. As-of joins without a tolerance, joins with `prevailing` and
            aggregations with `session` are examples. All workers must be able to access the folder,
            which is a path or a URL. The default is a temporary folder if Spark runs only on this
            machine.

    Returns:
        A DataFrame with the left columns, then the right columns. With `semi` and `anti`, the
        result has only the left columns. With `aggs`, the result has the left columns, followed by
        one column per aggregate. If a row has no partners, counts are 0 and other aggregates are
        null.

    Raises:
        tidegate.SchemaError: A column is missing or duplicated, or has an unsuitable type.
        tidegate.TidegateError: Another argument is invalid, or a stream has no window, no watermark
            or no RocksDB state store. The error is also raised if a side that is sent in full
            contains a null time. In other cases, the task that reads a null time fails, so Spark
            raises the error when you use the DataFrame.
    """
    arguments = {
        "on": on,
        "within": within,
        "time": time,
        "window": window,
        "by": by,
        "where": where,
        "how": how,
        "aggs": aggs,
        "suffix": suffix,
    }
    of_spark = {
        "columns": columns,
        "partitions": partitions,
        "parallelism": parallelism,
        "scratch": scratch,
        "unit": unit,
        "late_as": late_as,
    }
    call = JoinCall("band_join", (left_df, right_df), arguments, of_spark)
    return call.run(Ending(then, then_schema, sink))


@told
def asof_join(  # noqa: PLR0913 - the arguments of the native join, and four of Spark
    left_df: Input,
    right_df: Right,
    *,
    on: Names,
    by: KeyNames | None = None,
    strategy: Strategy = "backward",
    tolerance: Bound | Sequence[Bound] = None,
    at: Sequence[Length] | None = None,
    long: bool = False,
    n: int | None = None,
    allow_exact_matches: bool = True,
    where: tidegate.Expr | str | None = None,
    how: AsofHow = "left",
    suffix: str = "_right",
    columns: Sequence[str] | None = None,
    unit: Epoch | None = None,
    partitions: int | None = None,
    parallelism: Literal["auto", "broadcast", "files", "key", "time", "hybrid"] = "auto",
    late_as: str | None = None,
    then: Then | None = None,
    then_schema: StructType | str | None = None,
    sink: str | None = None,
    scratch: str | None = None,
) -> DataFrame:
    """Match each row in one DataFrame with the row in another that is nearest in time.

    A right row `r` is a candidate for a left row `l` if their keys are equal, `where` holds, and
    `r.on` lies on the side of `l.on` that `strategy` selects, at most `tolerance` away. The
    candidate that is nearest in time is the match. The function returns the same rows as
    `tidegate.asof_join`, but in no particular order.

    With streams, a left row is emitted once no future row can be its match. With `backward`, this
    is the case once the watermark has passed the left row's time. With `forward`, the watermark
    must have passed the matching row. With `nearest`, the watermark must have passed the left row's
    time plus the distance to the matching row. An unmatched left row is emitted once the watermark
    has passed the row's time plus `tolerance`. Without `tolerance`, an unmatched left row is kept
    indefinitely, unless `strategy` is `backward`. `backward` and `nearest` keep each key's last
    right row for `tolerance`, or indefinitely if `tolerance` is not set.

    Spark does not preserve the order of rows, so right rows with equal times are ordered by value.
    Right rows are compared by `on`, and then by the other columns in DataFrame order, with nulls
    last. Structs are compared field by field, and arrays and maps element by element. If several
    nearest candidates have the same time, the match is the last one if that time is before `l.on`,
    and the first one if that time is after `l.on`. A time equal to `l.on` counts as earlier, unless
    `strategy` is `forward`.

    If `where` reads only right columns, right rows are tested before they are sent, so `where` may
    be evaluated for any right row. If `where` reads both sides, the nearest row may fail the
    condition. Each time slice then needs copies of all right rows within `tolerance`. Without
    `tolerance`, each slice needs copies of all earlier right rows, all later ones, or both,
    depending on `strategy`. `auto` counts these copies, and divides rows only by key if the copies
    cost more than they save. The same applies to `at`, `n` and `interpolate`, which look up more
    than one right row. Streams on both sides support none of these three.

    Example:
        >>> trades = spark.createDataFrame([("A", 10), ("B", 20), ("A", 30)], ["sym", "ts"])
        >>> quotes = spark.createDataFrame(
        ...     [("A", 8, 9.5), ("A", 29, 9.7), ("A", 31, 9.9)], ["sym", "ts", "bid"]
        ... )
        >>> priced = tidegate.spark.asof_join(trades, quotes, on="ts", by="sym", tolerance=5)
        >>> priced.orderBy("ts").show()
        +---+---+--------+----+
        |sym| ts|ts_right| bid|
        +---+---+--------+----+
        |  A| 10|       8| 9.5|
        |  B| 20|    NULL|NULL|
        |  A| 30|      29| 9.7|
        +---+---+--------+----+
        <BLANKLINE>

    Args:
        left_df: The left side: a DataFrame, or Parquet files, as a path, a URL, a list of these or
            a pyarrow dataset. Both sides must be of the same kind. Right rows with equal times are
            in file order, as in `tidegate` itself.
        right_df: The right side. It can also be a `tidegate.Index` that `tidegate.open_index` has
            opened from a file that all workers can access under the same path. Each Python worker
            then maps this file, no rows are shuffled, and right rows with equal times are in the
            order of the index. Such a join cannot return unmatched right rows. If one side is a
            stream and the other side is a table, the call reads the table once and sends the whole
            table to every task of every micro-batch. The results for a stream row are then emitted
            in the micro-batch in which the row arrives. The stream needs no watermark. A table
            larger than 64 MB requires `parallelism="broadcast"`.
        on: The time column, or a pair of names if the column has a different name on each side. The
            column's type must be timestamp, timestamp_ntz, date or integer. For streams, the
            watermark must be defined on the time column.
        by: The key columns: a name, a list of names or name pairs, or a mapping from left to right
            names. Two rows match only if all of their keys are equal. A null key matches nothing.
            Without keys, any two rows may match.
        strategy: Which right row matches. `backward`: the last right row with `r.on <= l.on`.
            `forward`: the first right row with `r.on >= l.on`. `nearest`: the right row with the
            smallest `abs(l.on - r.on)`; in a tie between an earlier and a later row, the earlier
            row. `interpolate`: the row before and the row after. Numeric columns, except those in
            `on` and `by`, are then interpolated between the two rows as float64, and all other
            columns have the values of the row before. If the time of a row equals `l.on`, that
            row's values are returned. Otherwise, a left row without a row on both sides is
            unmatched.
        tolerance: The maximum time difference, inclusive: a duration, or an integer if times are
            integers. None sets no bound. With `at`, the difference is measured from the time at the
            offset, and a list gives each offset its own tolerance.
        at: Offsets from the time of each left row, such as `["0s", "10s", "-1m"]`, or integers if
            times are integers. At each offset, the match is the one that an as-of join would find
            if the offset were added to `l.on`. The result has one set of right columns per offset.
            Their names end with an underscore and the offset, as in `price_10s`. With None, the
            match is looked up at `l.on` itself.
        long: Whether the result has one row per left row and offset instead of one set of right
            columns per offset. The column `at` contains the offset. `long` requires `at`.
        n: The maximum number of matches per left row, which are the `n` nearest candidates in the
            direction that `strategy` selects. Each right column becomes a list, whose values are in
            time order. With None, there is one match, and columns are not lists.
        allow_exact_matches: Whether a right row with the same time may match.
        where: A condition on two rows, such as `"left.price < right.bid"`. Build the condition from
            `tidegate.left` and `tidegate.right` columns, or give it as SQL text. If the condition
            is null, the rows do not match.
        how: Which rows to return. `left`: all left rows. The right columns of unmatched rows are
            null. `inner`: only the matched left rows. `semi`: only the left columns of the matched
            left rows. `anti`: only the left columns of the unmatched left rows.
        suffix: The suffix to append to the name of a right column if the left side has a column
            with the same name.
        columns: The columns to include in the result, in this order. Other left columns are not
            sent to Python. All right columns are sent, because they determine the order of right
            rows with equal times. None means all columns.
        unit: The unit of numeric times: "s", "ms", "us" or "ns". The numbers count from 1970 in UTC
            or, with a pair such as `("s", start)`, from a datetime. The result then contains
            timestamps. The numbers must be whole numbers of microseconds. `unit` does not apply to
            joins of two streams, whose times need watermarks, or to files.
        partitions: The number of partitions. The default depends on the number of cores and the
            number of rows. A side that is not shuffled keeps its partitions, unless there are more
            than this number. In that case, some partitions are merged. For streams, `partitions` is
            the number of buckets that keys are divided into. For streams, the default is the value
            of `spark.sql.shuffle.partitions`, but at most 64. A restarted query must use the same
            number.
        parallelism: The method for dividing rows among tasks. `broadcast`: the right side is read
            immediately and sent in full to every task, regardless of its size. Use `broadcast` if
            Spark cannot determine that the side is small, for example after a filter. `key`: rows
            are divided into buckets by key. No rows are sampled, and a heavy key results in a heavy
            task. Sides that are already partitioned by the keys are not shuffled. `time`: rows are
            divided into time slices. For each key, each slice also receives the nearest right rows
            outside the slice. Each task that reads right rows sends at most one row before the
            slice and one row after it. `hybrid`: rows are divided into buckets by key, and heavy
            keys are split by time. `auto` selects `broadcast` if the right side is small.
            Otherwise, `auto` keeps the existing partitions of both sides if they are balanced and
            each partition contains all rows with its keys. If they are not, `auto` uses the
            division whose fullest partition is the smallest in a sample. Without `by`, `auto` uses
            time slices. For streams, `key` divides the rows only by key. `time` assigns time slices
            to the buckets in turn, and copies all right rows within `tolerance` of a slice.
            `hybrid` also assigns slices in turn, but starts each key at a different bucket. Both
            `time` and `hybrid` require a tolerance. `auto` is `key` with `by`, and `time`
            otherwise. With neither `by` nor `tolerance`, the join has a single bucket, and
            therefore a single task. `files`: each task reads the rows of its time slice from
            Parquet files itself, so only results pass through Spark. Both sides must be files, or
            DataFrames that only select columns of Parquet files and compare them with constants.
            The files must contain statistics for the time columns. `auto` also considers `files` if
            the files are local.
        late_as: For streams: the name of an additional result column that marks late rows. The
            column is null in regular result rows. In a late row, the column contains the row's
            side, `left` or `right`, and the columns of the other side are null. Without this
            column, late rows are dropped.
        then: A function that processes each `pyarrow.RecordBatch` of the result before the rows are
            returned to Spark. The function returns another batch or a `pyarrow.Table`. The function
            receives only some of the rows at a time, so combine an aggregate's partial results with
            a `groupBy`.
        then_schema: The Spark schema of the data that `then` returns: a `StructType`, or a string
            such as `"origin string, flights bigint"`.
        sink: A folder in which tasks write the result as Parquet files, so that its rows never pass
            through Spark. All workers must be able to write to the folder, which is a path or a
            URL. The call waits until all files are written. It returns one row per file: the number
            of the `task`, the `path`, the number of `rows`, and their `digest`, which is
            `tidegate.Digest.sum` of the file's rows. Each file appears only when it is complete,
            and its name depends only on the call and the input files. If a call is interrupted,
            repeat it: files that are already present are not written again. `sink` requires tasks
            that read files (see `parallelism`).
        scratch: A folder for the files that preparation steps write, if tasks that read files need
            rows from other slices. As-of joins without a tolerance, joins with `prevailing` and
            aggregations with `session` are examples. All workers must be able to access the folder,
            which is a path or a URL. The default is a temporary folder if Spark runs only on this
            machine.

    Returns:
        A DataFrame with the left columns, then the right columns. With `semi` and `anti`, it has
        only the left columns. Each left row produces at most one result row.

    Raises:
        tidegate.SchemaError: A column is missing, duplicated or has an unsuitable type, or
            `tolerance` has an unsuitable unit.
        tidegate.TidegateError: `tolerance` is negative, another argument is invalid, only the right
            side is a stream, or both sides are streams and a watermark or the RocksDB state store
            is missing. The error is also raised if a side that is sent in full contains a null
            time. In other cases, the task that reads a null time fails, so Spark raises the error
            when you use the DataFrame. A task also fails if `where` overflows or divides by zero.
    """
    arguments = {
        "on": on,
        "by": by,
        "strategy": strategy,
        "tolerance": tolerance,
        "at": at,
        "long": long,
        "n": n,
        "allow_exact_matches": allow_exact_matches,
        "where": where,
        "how": how,
        "suffix": suffix,
    }
    of_spark = {
        "columns": columns,
        "partitions": partitions,
        "parallelism": parallelism,
        "scratch": scratch,
        "unit": unit,
        "late_as": late_as,
    }
    call = JoinCall("asof_join", (left_df, right_df), arguments, of_spark)
    return call.run(Ending(then, then_schema, sink))


@told
def overlap_join(  # noqa: PLR0913 - the arguments of the native join, and four of Spark
    left_df: Input,
    right_df: Right,
    *,
    on: IntervalNames,
    by: KeyNames | None = None,
    where: tidegate.Expr | str | None = None,
    how: How | None = None,
    aggs: Mapping[str, tidegate.agg.Aggregate] | None = None,
    closed: ClosedEnds = "both",
    open_ends: bool = False,
    min_overlap: Length | None = None,
    max_width: Length | None = None,
    suffix: str = "_right",
    columns: Sequence[str] | None = None,
    unit: Epoch | None = None,
    partitions: int | None = None,
    parallelism: Literal["auto", "broadcast", "files", "key", "time", "hybrid"] = "auto",
    late_as: str | None = None,
    then: Then | None = None,
    then_schema: StructType | str | None = None,
    sink: str | None = None,
    scratch: str | None = None,
) -> DataFrame:
    """Match rows from two DataFrames whose intervals overlap.

    Each row has a start and an end. A left row `l` and a right row `r` match if their keys are
    equal, `l.start <= r.end`, `r.start <= l.end`, and `where` holds. With `closed="left"`, `<`
    replaces `<=`. A row with a null start or end matches nothing, unless `open_ends` is true. The
    function returns the same rows as `tidegate.overlap_join`, but in no particular order.

    Both sides may be streams. Each stream needs a watermark on its start column, and `max_width`
    limits the length of its rows.

    Example:
        >>> alarms = spark.createDataFrame(
        ...     [("A", 10, 15), ("B", 20, 29), ("C", 50, 60)], ["alarm", "start", "end"]
        ... )
        >>> jobs = spark.createDataFrame(
        ...     [("x", 0, 30), ("y", 12, 14), ("z", 15, 20)], ["job", "start", "end"]
        ... )
        >>> found = tidegate.spark.overlap_join(
        ...     alarms, jobs, on=("start", "end"), columns=["alarm", "job"], how="left"
        ... )
        >>> found.orderBy("alarm", "job").show()
        +-----+----+
        |alarm| job|
        +-----+----+
        |    A|   x|
        |    A|   y|
        |    A|   z|
        |    B|   x|
        |    B|   z|
        |    C|NULL|
        +-----+----+
        <BLANKLINE>

        Points in intervals:

        >>> readings = spark.createDataFrame([(13, 1.5), (40, 2.5)], ["ts", "value"])
        >>> found = tidegate.spark.overlap_join(
        ...     readings, jobs, on=(("ts", "ts"), ("start", "end")),
        ...     aggs={"jobs": tidegate.agg.count()},
        ... )
        >>> found.orderBy("ts").show()
        +---+-----+----+
        | ts|value|jobs|
        +---+-----+----+
        | 13|  1.5|   2|
        | 40|  2.5|   0|
        +---+-----+----+
        <BLANKLINE>

    Args:
        left_df: The left side: a DataFrame, or Parquet files, as a path, a URL, a list of these or
            a pyarrow dataset. Both sides must be of the same kind. Right rows with equal times are
            in file order, as in `tidegate` itself.
        right_df: The right side. It can also be a `tidegate.Index` that `tidegate.open_index` has
            opened from a file that all workers can access under the same path. Each Python worker
            then maps this file, no rows are shuffled, and right rows with equal times are in the
            order of the index. Such a join cannot return unmatched right rows. If one side is a
            stream and the other side is a table, the call reads the table once and sends the whole
            table to every task of every micro-batch. The results for a stream row are then emitted
            in the micro-batch in which the row arrives. The stream needs no watermark. A table
            larger than 64 MB requires `parallelism="broadcast"`.
        on: The names of the start and end columns. If the names differ between the sides, give a
            pair of names for each side, as in `(("ts", "ts"), ("start", "end"))`. If a side has a
            single time column, give its name twice. Each row on that side then matches the
            intervals that contain its time. The type of the columns must be timestamp,
            timestamp_ntz, date or integer.
        by: The key columns: a name, a list of names or name pairs, or a mapping from left to right
            names. Two rows match only if all of their keys are equal. A null key matches nothing.
            Without keys, any two rows may match.
        where: A condition on two rows, such as `"left.price < right.bid"`. Build the condition from
            `tidegate.left` and `tidegate.right` columns, or give it as SQL text. If the condition
            is null, the rows do not match.
        how: Which rows to return. `inner`: all pairs of matching rows. `left`, `right` and `full`:
            also the unmatched rows from the left side, the right side, or both sides. `semi`: only
            the matched left rows. `anti`: only the unmatched left rows. With `aggs`, `how` must be
            `left`, which keeps all left rows, or `inner`, which keeps only left rows that have
            partners. None means `inner`, or `left` if `aggs` is given.
        aggs: Aggregates from `tidegate.agg`, keyed by result column name. Each left row then
            appears once, with aggregates over its partners, which are the right rows that it
            matches. Partners are aggregated in the order of their starts. Spark does not preserve
            the order of rows, so right rows with equal starts are ordered by value. The comparison
            uses the columns that the join reads, in DataFrame order, with nulls last. Structs are
            compared field by field, and arrays and maps element by element.
        closed: Whether intervals include their ends. They always include their start. `both`:
            intervals include their ends, so two intervals that merely touch also overlap. `left`:
            intervals exclude their ends, so intervals that touch do not overlap, and empty
            intervals do not overlap any interval.
        open_ends: Whether a null start means that the interval has always been open, and a null end
            that it remains open forever. Otherwise, a row with a null start or end does not match
            any row. If a side has a single time column, a null time does not match any row in
            either case. With `open_ends`, rows are divided only by key.
        min_overlap: The minimum length of the overlap: a duration, or an integer if the columns
            contain integers. If None, any overlap is sufficient, even a single point.
        max_width: For streams: the maximum length, as a duration, of a row from its start to its
            end. `max_width` is required unless both sides have a single time column, because it
            determines how long rows are kept. A longer row is set aside, like a late row. With
            `late_as`, such a row is emitted and marked as `left wide` or `right wide`; otherwise,
            it is dropped.
        suffix: The suffix to append to the name of a right column if the left side has a column
            with the same name.
        columns: The columns to include in the result, in this order. With `aggs`, these are the
            left columns to keep. Other columns are not sent to Python. None means all columns.
        unit: The unit of numeric times: "s", "ms", "us" or "ns". The numbers count from 1970 in UTC
            or, with a pair such as `("s", start)`, from a datetime. The result then contains
            timestamps. The numbers must be whole numbers of microseconds. `unit` does not apply to
            joins of two streams, whose times need watermarks, or to files.
        partitions: The number of partitions. The default depends on the number of cores and the
            number of rows. A side that is not shuffled keeps its partitions, unless there are more
            than this number. In that case, some partitions are merged. For streams, `partitions` is
            the number of buckets that keys are divided into. For streams, the default is the value
            of `spark.sql.shuffle.partitions`, but at most 64. A restarted query must use the same
            number.
        parallelism: The method for dividing rows among tasks. `broadcast`: one side is read
            immediately and sent in full to every task, regardless of its size. Use `broadcast` if
            Spark cannot determine that the side is small, for example after a filter. `key`: rows
            are divided into buckets by key. No rows are sampled, and a heavy key results in a heavy
            task. Sides that are already partitioned by the keys are not shuffled. `time`: rows are
            divided into time slices, and each row is sent to all slices in which it may have
            matches. `hybrid`: rows are divided into buckets by key, and heavy keys are split by
            time. `auto` chooses the form with the lowest estimated cost, and `explain` shows the
            estimates. The candidates are `broadcast` if a side is small, and the division whose
            fullest partition is the smallest. The existing partitions of both sides are also a
            candidate if they are balanced and each partition contains all rows with its keys. Rows
            are not sampled if a side is small and an estimate shows that the other forms would cost
            more, or if file metadata shows that there are few rows. `files`: each task reads the
            rows of its time slice from Parquet files itself, so only results pass through Spark.
            Both sides must be files, or DataFrames that only select columns of Parquet files and
            compare them with constants. The files must contain statistics for the time columns.
            `auto` also considers `files` if the files are local.
        late_as: For streams: the name of an additional result column that marks late rows. The
            column is null in regular result rows. In a late row, the column contains the row's
            side, `left` or `right`, and the columns of the other side are null. Without this
            column, late rows are dropped.
        then: A function that processes each `pyarrow.RecordBatch` of the result before the rows are
            returned to Spark. The function returns another batch or a `pyarrow.Table`. The function
            receives only some of the rows at a time, so combine an aggregate's partial results with
            a `groupBy`.
        then_schema: The Spark schema of the data that `then` returns: a `StructType`, or a string
            such as `"origin string, flights bigint"`.
        sink: A folder in which tasks write the result as Parquet files, so that its rows never pass
            through Spark. All workers must be able to write to the folder, which is a path or a
            URL. The call waits until all files are written. It returns one row per file: the number
            of the `task`, the `path`, the number of `rows`, and their `digest`, which is
            `tidegate.Digest.sum` of the file's rows. Each file appears only when it is complete,
            and its name depends only on the call and the input files. If a call is interrupted,
            repeat it: files that are already present are not written again. `sink` requires tasks
            that read files (see `parallelism`).
        scratch: A folder for the files that preparation steps write, if tasks that read files need
            rows from other slices. As-of joins without a tolerance, joins with `prevailing` and
            aggregations with `session` are examples. All workers must be able to access the folder,
            which is a path or a URL. The default is a temporary folder if Spark runs only on this
            machine.

    Returns:
        A DataFrame with the left columns, then the right columns. With `semi` and `anti`, the
        result has only the left columns. With `aggs`, the result has the left columns, followed by
        one column per aggregate. If a row has no partners, counts are 0 and other aggregates are
        null.

    Raises:
        tidegate.SchemaError: A column is missing or duplicated, or has an unsuitable type.
        tidegate.TidegateError: Another argument is invalid, or a side that is sent in full contains
            a row that starts after it ends. On any other side, the task that reads such a row
            fails, so Spark raises the error when you use the DataFrame.

    Note:
        Times are compared exactly, in the finest unit of the four columns. In an inner join, a row
        is sent to all time slices that it covers, so a few very long rows cause only a few copies.
        All other joins need all of a row's matches in the same task, so they send these matches to
        the slice in which the row starts. Very long rows are placed in separate slices, which may
        require a second copy of the other side. For these joins, an additional job finds the
        longest row, unless keys divide the rows evenly or all rows are points. If rereading a
        DataFrame returns an even longer row, the task that reads the row raises an error.
    """
    arguments = {
        "on": on,
        "by": by,
        "where": where,
        "how": how,
        "aggs": aggs,
        "closed": closed,
        "open_ends": open_ends,
        "min_overlap": min_overlap,
        "suffix": suffix,
    }
    of_spark = {
        "columns": columns,
        "partitions": partitions,
        "parallelism": parallelism,
        "scratch": scratch,
        "unit": unit,
        "late_as": late_as,
        "max_width": max_width,
    }
    call = JoinCall("overlap_join", (left_df, right_df), arguments, of_spark)
    return call.run(Ending(then, then_schema, sink))
