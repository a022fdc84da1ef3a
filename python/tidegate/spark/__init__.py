"""Joins and aggregations of Spark DataFrames, with at most one shuffle and native calls.

The driver checks the arguments against both schemas. For tables, it then chooses one of four
routes:

- *One side is small*: it takes at most 64 MB, both by Spark's estimate and as Arrow data. That side
  is read immediately and sent whole to every task, as in Spark's own broadcast join. The other side
  stays in its partitions, however its keys are distributed, and nothing is shuffled. Full joins
  cannot use this route.
- *Bins are cheaper*: otherwise, the keys and times of at most 20 000 rows are sampled, in one job
  over the key and time columns. This job is skipped with `parallelism="key"`. It is also skipped if
  file metadata shows that there are few rows and only keys could divide them, or if it shows the
  number of rows and bins would not be clearly more expensive for any keys and times. For large
  files, a job reads the first 10 000 rows. The sample determines the width of the time bins and the
  estimated cost of the join, both with bins and with native calls. If bins are clearly cheaper,
  Spark does the join itself, on equal keys and bins, and no rows are sent to Python. Bins are
  suitable if intervals are short, keys are evenly distributed, and the join uses nothing that
  requires a native call: `where`, `aggs`, `then` or a full join. `overlap_join` has no bins.
- *Both sides are already partitioned by the keys*, by Spark's hash and into the same number of
  partitions. Examples are bucketed tables, and DataFrames after a `repartition`, a window, an
  aggregation or a join by the keys, cached or not. Each task then joins the rows that it has, and
  nothing is packed or shuffled. `auto` uses this route only if the sample shows that the partitions
  are balanced. It requires Spark 4.1.
- *Otherwise*, a layout is chosen that assigns each row to a partition. The tasks that read the
  inputs pack the rows of each partition into Arrow streams, and Spark shuffles these packs. Each
  task after the shuffle joins its rows in one native call.

Instead of pairs, a join with `aggs` returns one row per left row, with aggregates of its partners.
Each left row goes to a single task, which has all of its right rows. Only the right side is ever
sent whole. If the interval is long and results do not depend on the order of rows, right rows that
match all left rows of a slice of time are combined into one row per key. In `asof_join`, each left
row also goes to a single task. Of the right rows outside a time slice, only the nearest ones for
each key are copied into it.

In `overlap_join`, rows vary in length. Heavy keys are split by time here, too. If only pairs are
requested, a row is sent to the slices that it covers. Otherwise, it is sent to the slices in which
a row that it overlaps may start. This requires the maximum length of the rows, which a second job
determines from their starts and ends.

An aggregation distributes rows in the same way. If results do not depend on the order of rows, the
tasks that read the inputs compute aggregates per slice of time and send these instead.

A native call uses as many threads as `spark.task.cpus` assigns to its task. The same version of the
package must be installed on every node. `explain` shows which route was chosen, and why.

The destination of a row depends only on its own values and the plan. The destinations of copies in
an as-of join also depend on the other rows in the same task. A retried or speculative task
therefore returns the same rows. Their order is not guaranteed, as in any Spark join.

If one side is a streaming DataFrame and the other a table, the table is read once, when the
function is called, and sent whole to every task. Each micro-batch is joined with this table; no
state is kept, and no watermark is needed. A row is emitted in the micro-batch in which it arrives.
The watermark of the rows is therefore preserved, and a stateful operation can follow in the same
query. The table is read again when the query is restarted.

Joins of two or more streaming DataFrames, and aggregations of one, use a single stateful operator.
Each DataFrame needs a watermark on its time column (`withWatermark`), and the session needs Spark's
RocksDB state store. The output mode is `append`. A pair is emitted in the micro-batch whose
watermark has passed its later row. An unmatched row is emitted once the watermark has passed all
rows that could have matched it; the same applies to a left row of a join with `aggs` or of an as-of
join. The aggregates of a window are emitted once the watermark has passed its end. In the output
mode `update`, the same rows are emitted at the same times: no row is ever updated, and no window is
emitted before its end. Spark rejects `complete`.

Each row, or its contribution to a slice of time, is written to the state store once, and removed
when it is no longer needed. The last right row of each key, which as-of joins and `prevailing` may
need, and the state of an open session are each written about twice. Native operators stay in the
memory of the Python workers between micro-batches, and are rebuilt from the store if a worker is
lost. Rows older than the watermark are late; with `late_as`, they are also emitted. Which rows are
late depends only on the micro-batches and on Spark's watermark, which may be lower for a while
after a restart. The watermark of a query is that of its slowest stream, so a silent stream holds
results back, unless `spark.sql.streaming.multipleWatermarkPolicy` is `max`. In that case, rows of
slower streams may be late. A query's progress reports observed metrics for each call: the rows
received, the late rows, the rows and bytes of state, and a hot key.

The rows that such an operator emits are older than its watermark. Therefore, no operation that
waits for a watermark can follow in the same query. The operators of this package are rejected
there. Even after another `withWatermark`, a Spark operation would never return a row, because a
query's watermark waits for all of its streams. Instead, write the rows to a sink, and read that
sink as a stream in another query.

DataFrames from several sessions of the same Spark application (`newSession`, and those in
`foreachBatch`) can be joined, as in Spark itself; the settings are those of the first DataFrame's
session. DataFrames of Spark Connect cannot be joined with other DataFrames. The same functions are
available in Spark Connect sessions. Their DataFrames do not report their size, so `auto` never
sends a side whole; `parallelism="broadcast"` does.

Moving rows to Python and back costs more than the join itself. Name the `columns` that you need,
and put the next steps (a projection, a filter, a partial aggregate) into `then`, which processes
the result as Arrow batches before Spark receives it. Unless
`spark.sql.execution.arrow.maxBytesPerBatch` is 2147483647, Spark remeasures the batch after every
row that it passes to Python, which accounts for half of the transfer time. `configure` sets this
value; nothing else here changes the settings of a session. For data that fits on one machine,
`tidegate.interval_join` is faster.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, cast

from tidegate.calls.arguments import told
from tidegate.spark import _needed  # noqa: F401 - first: it refuses what the others cannot import
from tidegate.spark.driver.aggregate import aggregated
from tidegate.spark.driver.explain import aggregate_described, described
from tidegate.spark.joins import asof_join, band_join, interval_join, overlap_join, window_join
from tidegate.spark.plan.aggregate import AggregatePlan
from tidegate.spark.plan.join import Plan
from tidegate.spark.plan.session import wanted
from tidegate.spark.query.query import SparkQuery

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    import tidegate
    from tidegate.spark.layout.balance import Division
    from tidegate.spark.query.query import Function
    from tidegate.spark.worker.task import Then
    from tidegate.types import Length

__all__ = [
    "aggregate",
    "asof_join",
    "band_join",
    "configure",
    "explain",
    "interval_join",
    "overlap_join",
    "window_join",
]

# Arguments that change nothing about the plan.
_AFTERWARDS = ("then", "then_schema")

# Arguments of joins that say how rows travel.
_OF_SPARK = ("columns", "partitions", "parallelism", "late_as", "max_width")


@told
def aggregate(  # noqa: PLR0913 - the arguments of the native aggregation, and four of Spark
    streams: DataFrame | Sequence[DataFrame],
    *,
    on: str,
    size: Length | None = None,
    advance: Length | None = None,
    offset: Length | None = None,
    session: Length | None = None,
    by: str | Sequence[str] | None = None,
    aggs: Mapping[str, tidegate.agg.Aggregate],
    where: tidegate.Expr | str | None = None,
    partitions: int | None = None,
    parallelism: Division = "auto",
    late_as: str | None = None,
    then: Then | None = None,
    then_schema: StructType | str | None = None,
) -> DataFrame:
    """Aggregate the rows of one or many DataFrames by key over sliding windows of time.

    A row is in every window `[k * advance + offset, k * advance + offset + size)`, k being any
    integer, that holds its time. With `session` instead of `size`, windows are those of a key: from
    a row up to `session` after the last row that falls in the window. The result has a row for each
    window and key that has rows: those of `tidegate.aggregate`, in no particular order.

    Spark does not preserve the order of rows. Within a DataFrame, rows with equal times are
    therefore ordered by value: by the columns that the aggregation reads, in DataFrame order, with
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
        streams: One DataFrame, or several that have the columns in the same types, all of them
            tables or all of them streams. They are numbered from 0 in this order.
        on: Time column: timestamp, timestamp_ntz, date or integer. For streams, the column that has
            the watermark.
        size: How long a window is: a duration, or an integer where times are integers.
        advance: How much later the next window begins, in the same forms. None takes `size`.
        offset: Where windows begin, counted from 1970-01-01T00:00 UTC (0 for integers).
        session: How long a session lasts after its last row, in place of `size`, `advance` and
            `offset`. Of streams, the state has aggregates of a session that goes on, and its rows
            for functions of all values.
        by: Key columns: a name or a list of names. Null is a group.
        aggs: What is computed: from names of result columns to functions of `tidegate.agg`.
        where: Which rows there are at all: a condition on `tidegate.row` columns, or its SQL text.
        partitions: The number of partitions. By default, it depends on the number of cores and
            rows. For streams, this is the number of buckets that keys are divided into: by default,
            the value of `spark.sql.shuffle.partitions`, but at most 64. A restarted query must use
            the same number.
        parallelism: How the rows are divided. `key`: buckets of keys, nothing sampled, one heavy
            key makes one heavy task. `time`: slices of time, with copies of the rows whose windows
            reach over a border. `hybrid`: buckets of keys; heavy keys are cut by
            time. `auto`: whichever makes a sample's fullest partition smallest. Sessions are
            divided by key only, and without `by` they are one task's work. Streams: `auto` is `key`
            with `by`. Without, rows are dealt to all buckets if the order of rows shows in no
            result. The aggregates that each bucket finds are then merged by one task. Otherwise,
            `auto` is `time`, which deals slices of time to the buckets in turn. A slice is eight
            times as long as a window, and its rows are one task's work.
        late_as: For streams: the name of a further column of the result, null in a result. A late
            row has nulls elsewhere, and there a struct of `stream`, the number of its DataFrame,
            and `row`, a struct of its columns that the aggregation reads. Without it, late rows
            are dropped.
        then: A function that takes every `pyarrow.RecordBatch` of the result inside the same call,
            and returns another, or a `pyarrow.Table`. It sees some of the rows at a time, so an
            aggregate must be finished by a `groupBy` of its partial results.
        then_schema: The Spark schema of what `then` returns, as a `StructType` or text such as
            `"origin string, flights bigint"`.

    Returns:
        A DataFrame of `window_start` and `window_end`, the key columns, and a column for each of
        `aggs`. Of streams, the row of a window comes once, when the watermark has passed its end,
        whichever the output mode.

    Raises:
        tidegate.SchemaError: A column is missing, is there twice, or has an unfit type.
        tidegate.TidegateError: Another argument is unfit. A null time, and an integer sum beyond 64
            bits of a window or a slice of it, is found by the task that meets it, so that Spark
            raises for it when the DataFrame is used.
    """
    plan = AggregatePlan.of(
        streams,
        on=on,
        size=size,
        advance=advance,
        offset=offset,
        session=session,
        by=by,
        aggs=aggs,
        where=where,
        partitions=partitions,
        parallelism=parallelism,
        late_as=late_as,
    )
    return aggregated(plan, then, then_schema)


def configure(session: SparkSession) -> dict[str, str]:
    """Set what makes calls of this package cheaper in a session, and what streams need.

    - `spark.sql.execution.arrow.maxBytesPerBatch` to 2147483647: Spark measures no batch that it
      hands to Python. A batch still has at most `spark.sql.execution.arrow.maxRecordsPerBatch`
      rows, 10,000 by default. Lower this where rows have 100 kB or more.
    - `spark.sql.streaming.stateStore.providerClass` to Spark's RocksDB store, which streams need. A
      vendor's RocksDB store is left as it is.
    - `spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled` to true: a micro-batch
      writes the changes of its state, and not the whole store. A query may be restarted with
      either value.

    All calls and queries that begin later in the session go by the settings, also queries without
    this package. Other sessions of the same Spark keep theirs.

    Args:
        session: The session.

    Returns:
        The settings that were changed, with their new values, for a log.

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
    *inputs: DataFrame | Sequence[DataFrame],
    **arguments: Any,  # noqa: ANN401
) -> str:
    r"""Say what a call would do with the same arguments: how its rows are divided and sent.

    The inputs are sampled, or a small one is read, as the call itself does. Nothing else is done.

    Args:
        function: `tidegate.spark.interval_join`, `tidegate.spark.window_join`,
            `tidegate.spark.band_join`, `tidegate.spark.asof_join`, `tidegate.spark.overlap_join` or
            `tidegate.spark.aggregate`.
        *inputs: The inputs of the function: both sides of a join, or the streams of an aggregation.
        **arguments: The other arguments of the function.

    Returns:
        A few lines of text.

    Raises:
        TypeError: `function` is another function.
        tidegate.TidegateError: The function would raise.

    Example:
        >>> ticks = spark.range(1000).selectExpr("id % 7 as key", "id as ts")
        >>> plan = tidegate.spark.explain(
        ...     tidegate.spark.interval_join, ticks, ticks, on="ts", by="key", lower=-5, upper=0
        ... )
        >>> print("\n".join(plan.splitlines()[-5:-3]))
          divided    right is sent whole to every task, 1,000 rows
          placed     left rows stay in their partitions
    """
    known = (interval_join, window_join, band_join, asof_join, overlap_join, aggregate)
    if function not in known:
        message = "function: expected tidegate.spark.interval_join, tidegate.spark.window_join, "
        message += "tidegate.spark.band_join, tidegate.spark.asof_join, "
        message += f"tidegate.spark.overlap_join or tidegate.spark.aggregate, got {function!r}"
        raise TypeError(message)
    # `bind` refuses an argument that the function does not have, and names a missing argument.
    call = inspect.signature(function).bind(*inputs, **arguments)
    call.apply_defaults()
    kept = {name: value for name, value in call.kwargs.items() if name not in _AFTERWARDS}
    if function is aggregate:
        return aggregate_described(AggregatePlan.of(*call.args, **kept))
    of_spark = {name: kept.pop(name) for name in _OF_SPARK if name in kept}
    left, right = call.args
    query = SparkQuery.of(cast("Function", function.__name__), kept)
    fused = call.kwargs.get("then") is not None
    return described(Plan.of(left, right, query, **of_spark), fused=fused)
