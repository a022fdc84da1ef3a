"""Joins and aggregates Spark DataFrames with native calls and at most one shuffle.

The driver checks the arguments against the schemas. For a join of tables, it then chooses one of
five routes:

- *Tasks read the files*: both sides are Parquet files, or DataFrames that only scan such files, and
  the file footers contain the times of each row group. Each task reads the row groups of a time
  slice itself, so no rows are sent to Python or shuffled. For DataFrames, `auto` uses this route
  only for local files, and only if it is clearly cheaper.
- *One side is small*: it takes up at most 64 MB, both according to Spark's estimate and as Arrow
  data. That side is read immediately and sent in full to every task, as in Spark's own broadcast
  join. The other side stays in its partitions and is not shuffled, even if its keys are skewed.
  Full joins cannot use this route.
- *Bins are cheaper*: if neither side is small, one job samples the keys and times of at most 20,000
  rows. With `parallelism="key"`, nothing is sampled. Sampling is also skipped if file metadata
  shows that there are few rows, and the rows could be divided only by key. No sample is needed if
  the number of rows is known from file metadata and bins would cost little more than native calls
  even in the worst case. For large files, a job reads only the first 10,000 rows. The sample
  determines the width of the time bins and the estimated cost of the join, both with bins and with
  native calls. If bins are clearly cheaper, Spark runs the join itself, on equal keys and bins, and
  no rows are sent to Python. Bins are suitable if intervals are short, keys are evenly distributed,
  and the join uses nothing that requires a native call: `where`, `aggs`, `then` or a full join.
  `overlap_join` never uses bins.
- *Both sides are already partitioned by the keys*: Spark has hashed them into the same number of
  partitions. Examples are bucketed tables, and DataFrames that result from a `repartition`, a
  window function, an aggregation or a join on the keys, whether cached or not. Each task then joins
  the rows in one partition, and nothing is packed or shuffled. `auto` uses this route only if the
  sample shows that the partitions are balanced. In-place joins require Spark 4.1.
- *In all other cases*, a layout is chosen that assigns each row to a partition. The tasks that read
  the inputs pack each partition's rows into Arrow streams, and Spark shuffles these packs.
  After the shuffle, each task joins its rows in one native call.

If the right side is a `tidegate.Index` that `tidegate.open_index` has opened, each Python worker
maps its file, and the left rows stay in their partitions. The call does not collect or sample any
rows. All workers must be able to open the file under the same path. A left row's result depends
only on that row and the index, so such a join returns everything except unmatched right rows. If
the left side is given as files, it is divided between row groups.

Instead of pairs, a join with `aggs` returns one row per left row, with aggregates over its
partners. Each left row is sent to a single task, which also receives all of its partners. In such a
join, only the right side can be sent in full. If the interval is long and results do not depend on
row order, some right rows are combined. The right rows that match all left rows in a time slice
become one row per key. `asof_join` also sends each left row to a single task. Among the right rows
outside a time slice, only the nearest ones for each key are copied into the slice.

In `overlap_join`, rows vary in length. This join also splits heavy keys by time. If only pairs are
requested, a row is sent to every slice that its interval covers. In other joins, a row is sent to
each slice in which an overlapping row can start. For these joins, a second job reads starts and
ends to determine the length of the longest row.

An aggregation distributes its rows in the same way as a join. If results do not depend on row
order, the tasks that read the inputs compute aggregates for each time slice, and send these
aggregates instead of the rows.

A native call uses as many threads as `spark.task.cpus` assigns to its task. The same version of the
package must be installed on every node. `explain` shows which route is chosen, and why.

The destination of a row depends only on the row's own values and the plan. In an as-of join, the
destinations of copies also depend on the other rows in the same task. A retried or speculative task
therefore returns the same rows. As in any Spark join, the order of rows is not guaranteed.

If one side is a streaming DataFrame and the other side is a table, the table is read once, when the
function is called, and sent in full to every task. Each micro-batch is joined with this table. Such
a join keeps no state and needs no watermark. The results for a row are emitted in the micro-batch
in which the row arrives. The watermark of the rows is therefore preserved, and a stateful operation
can follow in the same query. The table is read again when the query is restarted.

A join of two streaming DataFrames, or an aggregation of one or more, uses a single stateful
operator. Each DataFrame needs a watermark on its time column (`withWatermark`), and the session
needs Spark's RocksDB state store. The output mode is `append`. A pair is emitted in the first
micro-batch whose watermark has passed the pair's later row. An unmatched row is emitted once the
watermark has passed every row that could match it. Left rows in as-of joins and in joins with
`aggs` are emitted in the same way. A window's aggregates are emitted once the watermark has passed
the end of the window. Output mode `update` emits the same rows at the same times: no row is ever
updated, and no window is emitted before its end. Spark rejects `complete`.

Each row, or its contribution to a time slice, is written to the state store once, and removed when
it is no longer needed. Two kinds of state are written about twice: open sessions and, for as-of
joins and `prevailing`, each key's last right row. Native operators stay in the Python workers'
memory between micro-batches, and are rebuilt from the store if a worker is lost. Rows older than
the watermark are late. With `late_as`, late rows are also emitted. Which rows are late depends only
on the micro-batches and on Spark's watermark. For a while after a restart, this watermark can be
earlier than it was before. A query's watermark is the watermark of its slowest stream, so a silent
stream delays all results. If `spark.sql.streaming.multipleWatermarkPolicy` is `max`, results are
not delayed, but rows from slower streams may be late. A query's progress includes observed metrics
for each call: the rows received, the late rows, the rows and bytes of state, and a hot key.

The rows that a stateful operator emits are older than the query's watermark. Therefore, no
operation that waits for a watermark can follow in the same query. This package rejects such
operations. Even after another `withWatermark`, a Spark operation would never return a row, because
the query's watermark waits for all streams. Instead, write the rows to a sink, and read that sink
as a stream in another query.

As in Spark itself, DataFrames from several sessions of the same Spark application can be joined.
Such sessions come from `newSession` or `foreachBatch`, for example. The settings of the first
DataFrame's session apply. A Spark Connect DataFrame cannot be joined with DataFrames of other
kinds. The same functions are available in Spark Connect sessions. A DataFrame in such a session
does not report its size, so `auto` never sends a side in full. Use `parallelism="broadcast"` to do
so.

Moving rows to Python and back costs more than the join itself. Specify the `columns` that you need,
and put the next steps (a projection, a filter, a partial aggregate) into `then`. This function
processes the result as Arrow batches before Spark receives it. Unless
`spark.sql.execution.arrow.maxBytesPerBatch` is 2147483647, Spark measures the batch again after
every row that it passes to Python. These measurements account for half of the transfer time.
`configure` sets this value. No other function in this module changes the settings of a session. For
data that fits on one machine, `tidegate.interval_join` is faster.
"""

from __future__ import annotations

from tidegate.spark import _needed  # noqa: F401 - first, to check the version

# isort: split
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

import tidegate
from tidegate.calls.arguments import told
from tidegate.spark.driver.calls import AggregateCall, JoinCall
from tidegate.spark.driver.features import features_described
from tidegate.spark.driver.rolling import rolling_described
from tidegate.spark.driver.tasks import Ending
from tidegate.spark.feature_tables import features
from tidegate.spark.joins import asof_join, band_join, interval_join, overlap_join, window_join
from tidegate.spark.plan.aggregate import Parallelism
from tidegate.spark.plan.features import FeaturesPlan
from tidegate.spark.plan.files import Input
from tidegate.spark.plan.rolling import RollingPlan
from tidegate.spark.plan.session import wanted
from tidegate.spark.query.query import Function
from tidegate.spark.rolling_windows import rolling
from tidegate.spark.worker.task import Then
from tidegate.types import (
    ClosedWindow,
    Empty,
    Epoch,
    Length,
    Table,
    Time,
    Value,
    Weekday,
    Window,
)

__all__ = [
    "aggregate",
    "asof_join",
    "band_join",
    "configure",
    "explain",
    "features",
    "interval_join",
    "overlap_join",
    "rolling",
    "window_join",
]

_JOINS = (interval_join, window_join, band_join, asof_join, overlap_join)

# Arguments that do not affect the plan.
_AFTERWARDS = ("then", "then_schema", "sink")

# Arguments that only calls on Spark have.
_OF_SPARK = ("columns", "partitions", "parallelism", "late_as", "max_width", "scratch", "unit")


@told
def aggregate(  # noqa: PLR0913 - the arguments of the native aggregation, and four of Spark
    streams: Input | Sequence[Input],
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
    aggs: Mapping[str, tidegate.agg.Aggregate],
    where: tidegate.Expr | str | None = None,
    unit: Epoch | None = None,
    partitions: int | None = None,
    parallelism: Parallelism = "auto",
    late_as: str | None = None,
    then: Then | None = None,
    then_schema: StructType | str | None = None,
    sink: str | None = None,
    scratch: str | None = None,
) -> DataFrame:
    """Aggregate the rows of one or more DataFrames by key over sliding time windows.

    The windows are `[k * advance + offset, k * advance + offset + size)` for all integers `k`. A
    row belongs to every window that contains its time. With `session` instead of `size`, each key
    has its own windows. Such a window starts at a row and ends `session` after the last row in the
    window. The result contains one row for each combination of window and key that has rows. The
    function returns the same rows as `tidegate.aggregate`, but in no particular order.

    Spark does not preserve the order of rows, so rows of a DataFrame with equal times are ordered
    by value. The comparison uses the columns that the aggregation reads, in DataFrame order, with
    nulls last. Structs are compared field by field, and arrays and maps element by element. The
    results of `first` and `last`, and the last bits of float sums, therefore depend only on the
    rows.

    Example:
        >>> meters = spark.createDataFrame(
        ...     [("north", 0, 4), ("north", 7, 1), ("south", 8, 2)], ["house", "minute", "watts"]
        ... )
        >>> found = tidegate.spark.aggregate(
        ...     meters, on="minute", size=10, advance=5, by="house",
        ...     aggs={"n": tidegate.agg.count(), "most": tidegate.agg.max("watts")},
        ... )
        >>> found.where("house = 'north'").orderBy("window_start").show()
        +------------+----------+-----+---+----+
        |window_start|window_end|house|  n|most|
        +------------+----------+-----+---+----+
        |          -5|         5|north|  1|   4|
        |           0|        10|north|  2|   4|
        |           5|        15|north|  1|   1|
        +------------+----------+-----+---+----+
        <BLANKLINE>

    Args:
        streams: One DataFrame, or several whose columns have the same types. The DataFrames are
            either all tables or all streams. DataFrames are numbered from 0 in the given order. The
            streams can also be Parquet files: a path, a URL or a pyarrow dataset, or a list of
            these. Rows with equal times are then in file order, as in `tidegate` itself.
        on: The time column, whose type must be timestamp, timestamp_ntz, date or integer. For
            streams, the watermark must be defined on this column.
        size: The length of a window: a duration, or an integer if times are integers. "1d", "1w",
            "1mo", "1q", "1y" and their multiples are calendar units, except for timestamp_ntz
            without `zone`. `tidegate.rows(n)` specifies a number of rows with the same key. One
            task then processes all rows of a key, unless tasks read files. A stream returns only
            complete windows.
        advance: The distance between the starts of consecutive windows: a duration, or an integer
            if times are integers. None means `size`.
        step: The difference between the lengths of windows that begin at the same time, for running
            totals: each window of length `size` is preceded by shorter windows that end after one
            step, two steps and so on.
        closed: Whether a window contains its start (`left`, the default) or its end (`right`).
        offset: The shift of window starts relative to 1970-01-01T00:00 UTC, or to 0 for integers.
        zone: The time zone of calendar units. The default is `spark.sql.session.timeZone` or, for
            files, the time zone of the time column.
        week_start: The first day of windows that consist of weeks: `monday`, the default, to
            `sunday`.
        session: How long each row keeps the session of its key open, as a duration, a column or an
            expression. This argument replaces `size`, `advance` and `offset`. For streams, the
            state contains each open session's aggregates and, if a function needs all values, the
            session's rows.
        windows: A table with the columns `window_start` and `window_end`, and optionally key
            columns, which replaces `size`, as in `tidegate.aggregate`. This argument accepts local
            data, not a DataFrame. One task then processes all rows of a key, unless tasks read
            files.
        empty: Whether the result contains windows without rows, and what functions return for
            them, as in `tidegate.aggregate`. By default, one task then processes all rows of a key.
            With `parallelism`, rows can be divided by time. A second shuffle then sends the windows
            of a key to one task. `linear` is not available for streams.
        keep: How long windows continue after a key's last row, as in `tidegate.aggregate`. Required
            for streams with `empty`.
        start: The time from which every key has windows if `empty` is given, as in
            `tidegate.aggregate`. Not available for streams.
        end: The time before which every key has windows if `empty` is given, as in
            `tidegate.aggregate`.
        by: The key columns: a name or a list of names. Rows with a null key form a group.
        aggs: The aggregates to compute: functions of `tidegate.agg`, keyed by result column name.
        where: A condition on `tidegate.row` columns that selects the rows to aggregate, or its SQL
            text.
        unit: The unit of numeric times: "s", "ms", "us" or "ns". The numbers count from 1970 in UTC
            or, with a pair such as `("s", start)`, from a datetime. The result then contains
            timestamps. The numbers must be whole numbers of microseconds. `unit` does not apply to
            streams, whose times need watermarks, or to files.
        partitions: The number of partitions. The default depends on the number of cores and the
            number of rows. For streams, this is the number of buckets into which keys are divided:
            by default, the value of `spark.sql.shuffle.partitions`, but at most 64. A restarted
            query must use the same number.
        parallelism: The method for dividing rows among tasks. `key`: rows are divided into buckets
            by key. No rows are sampled, and a heavy key results in a heavy task. `time`: rows are
            divided into time slices, and rows whose windows cross a border are copied. `hybrid`:
            rows are divided into buckets by key, and heavy keys are split by time. `auto`: the
            division whose fullest partition has the fewest rows in a sample. Sessions are divided
            only by key. Without `by`, a single task processes all sessions. For streams, `auto` is
            `key` with `by`. Without `by`, `auto` distributes the rows over all buckets if results
            do not depend on row order, and one task merges the aggregates from all buckets.
            Otherwise, `auto` is `time`, which assigns time slices to the buckets in turn. A slice
            is eight times as long as a window, and a single task processes all rows in a slice.
            `files`: each task reads the rows of its time slice from Parquet files itself, so only
            results pass through Spark. The streams must be files, or DataFrames that only select
            columns of Parquet files and compare them with constants. The files must contain
            statistics for the time columns. `auto` also considers `files` if the files are local.
        late_as: For streams: the name of an additional result column that marks late rows. The
            column is null in regular result rows. In a late row, this column is a struct with two
            fields: `stream`, the number of the row's DataFrame, and `row`, a struct of the columns
            that the aggregation reads. The other columns of a late row are null. Without this
            column, late rows are dropped.
        then: A function that processes each `pyarrow.RecordBatch` of the result before the rows are
            returned to Spark. The function returns another batch or a `pyarrow.Table`. Each call
            receives only some of the rows, so combine an aggregate's partial results with a
            `groupBy`.
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
        A DataFrame with the columns `window_start` and `window_end`, the key columns, and one
        column per aggregate. For streams, a window's row is emitted once, when the watermark has
        passed the end of the window, in every output mode.

    Raises:
        tidegate.SchemaError: A column is missing or duplicated, or has an unsuitable type.
        tidegate.TidegateError: Another argument is invalid. A task fails if it reads a null time,
            or if an integer sum over a window or a slice of a window exceeds 64 bits. Spark then
            raises the error when you use the DataFrame.
    """
    arguments = {
        "on": on,
        "size": size,
        "advance": advance,
        "step": step,
        "closed": closed,
        "offset": offset,
        "zone": zone,
        "week_start": week_start,
        "session": session,
        "windows": windows,
        "empty": empty,
        "keep": keep,
        "start": start,
        "end": end,
        "by": by,
        "aggs": aggs,
        "where": where,
    }
    of_spark = {
        "partitions": partitions,
        "parallelism": parallelism,
        "late_as": late_as,
        "scratch": scratch,
        "unit": unit,
    }
    return AggregateCall(streams, arguments, of_spark).run(Ending(then, then_schema, sink))


def configure(session: SparkSession) -> dict[str, str]:
    """Set session options that streams require or that make calls to this package cheaper.

    - `spark.sql.execution.arrow.maxBytesPerBatch` to 2147483647: Spark does not measure the batches
      that it passes to Python. A batch still has at most
      `spark.sql.execution.arrow.maxRecordsPerBatch` rows, 10,000 by default. Lower this limit if
      rows are 100 kB or larger.
    - `spark.sql.streaming.stateStore.providerClass` to Spark's RocksDB store, which streams need.
      If the session already uses a vendor's RocksDB store, this setting is unchanged.
    - `spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled` to true: a micro-batch
      writes only the changes to its state, not the whole store. A query can be restarted with
      either value of this setting.

    The settings apply to all calls and queries that start later in the session, including queries
    without this package. Other sessions of the same Spark application keep their settings.

    Args:
        session: The session to configure.

    Returns:
        The changed settings and their new values, for example for logging.

    Example:
        >>> changed = tidegate.spark.configure(spark)
        >>> tidegate.spark.configure(spark)
        {}
    """
    changed = wanted(session)
    for name, value in changed.items():
        session.conf.set(name, value)
    return changed


def explain(
    function: Callable[..., DataFrame],
    *inputs: Any,  # noqa: ANN401 - those of the function
    **arguments: Any,  # noqa: ANN401
) -> str:
    r"""Describe how a call with the same arguments would divide and send its rows.

    As in the call itself, the inputs are sampled, or a small input is read in full. Nothing else
    runs.

    Args:
        function: `tidegate.spark.interval_join`, `tidegate.spark.window_join`,
            `tidegate.spark.band_join`, `tidegate.spark.asof_join`, `tidegate.spark.overlap_join`,
            `tidegate.spark.aggregate`, `tidegate.spark.features` or `tidegate.spark.rolling`.
        *inputs: The inputs of the function: both sides of a join, the `streams` of an aggregation,
            the `table` of rolling windows, or the `labels` and `views` of features.
        **arguments: The other arguments of the function.

    Returns:
        A few lines of text.

    Raises:
        TypeError: `function` is not one of these functions.
        tidegate.TidegateError: A call to the function would raise this error.

    Example:
        >>> ticks = spark.range(1000).selectExpr("id % 7 as key", "id as ts")
        >>> plan = tidegate.spark.explain(
        ...     tidegate.spark.interval_join, ticks, ticks, on="ts", by="key", lower=-5, upper=0
        ... )
        >>> print("\n".join(plan.splitlines()[-5:-3]))
          divided    right is sent in full to every task, 1,000 rows
          placed     left rows stay in their partitions
    """
    known = (*_JOINS, aggregate, features, rolling)
    if function not in known:
        message = "function: expected tidegate.spark.interval_join, tidegate.spark.window_join, "
        message += "tidegate.spark.band_join, tidegate.spark.asof_join, "
        message += "tidegate.spark.overlap_join, tidegate.spark.aggregate, "
        message += "tidegate.spark.features or "
        message += f"tidegate.spark.rolling, got {function!r}"
        raise TypeError(message)
    # `bind` rejects unknown arguments and reports the names of missing ones.
    call = inspect.signature(function).bind(*inputs, **arguments)
    call.apply_defaults()
    if function is features:
        return features_described(FeaturesPlan.of(*call.args, **call.kwargs))
    if function is rolling:
        return rolling_described(RollingPlan.of(*call.args, **call.kwargs))
    kept = {name: value for name, value in call.kwargs.items() if name not in _AFTERWARDS}
    of_spark = {name: kept.pop(name) for name in _OF_SPARK if name in kept}
    if function is aggregate:
        return AggregateCall(call.args[0], kept, of_spark).explain()
    left, right = call.args
    name, fused = cast("Function", function.__name__), call.kwargs.get("then") is not None
    return JoinCall(name, (left, right), kept, of_spark).explain(fused=fused)
