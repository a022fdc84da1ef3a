"""Joins and aggregations of Spark DataFrames: at most one shuffle, and native calls.

On the driver, the arguments are checked against both schemas. For tables, one of four ways is
chosen.

- *One side is small*: Spark thinks that it has at most 64 MB, and so it has as Arrow data. Then it
  is read at once and sent whole to every task, as in Spark's own broadcast join. The other side
  stays in its partitions, however its keys are spread, and nothing is shuffled. Not for full joins.
- *Bins are cheaper*: otherwise, keys and times of at most 20 000 rows are sampled. That is one job
  over the key and time columns. `parallelism="key"` runs none, and none is run where files tell
  that rows are few and only keys could divide them. Nor is one run where files tell the number of
  rows, and bins do not cost clearly more whatever keys and times the rows have; of large files, a
  job reads the first 10 000 rows. From the sample follow the width of bins of time, and what the
  join costs by bins and by native calls. If bins are clearly cheaper, Spark joins equal keys and
  bins by itself, and no row goes to Python. They are where intervals are short, keys are even, and
  nothing is asked for that only a native call does: `where`, `aggs`, `then`, a full join. Rows of
  `overlap_join` have no bins.
- *Both sides are partitioned by the keys already*, by Spark's hash and into as many partitions:
  tables with buckets, and DataFrames after a `repartition`, a window, an aggregation or a join by
  the keys, cached or not. Then each task joins the rows that it has, and nothing is packed or
  shuffled. `auto` asks for partitions that are even, by the sample. It needs Spark 4.1.
- *Otherwise* a layout is chosen that gives every row its partition. The tasks that read the inputs
  pack rows of a partition into Arrow streams, Spark shuffles these packs, and each task after that
  joins its rows in one native call.

With `aggs`, a join gives one row a left row, with aggregates of its partners, in place of pairs. A
left row goes to one task, which has all of its right rows. Only the right side is ever sent whole.
Where the interval is long and results do not depend on the order of rows, right rows that pair with
all left rows of a slice of time travel as one row a key.
The same holds for `asof_join`, where a slice of time gets copies of the nearest right rows of each
key outside it, and no others.

Rows of `overlap_join` have lengths of their own. Heavy keys are cut by time, too. If only pairs are
asked for, a row goes to the slices that it covers. Otherwise it goes to the slices in which a row
that it overlaps may start. How long rows are at most must be known then, which takes a second job
over starts and ends.

An aggregation sends rows in the same way, or, where results do not depend on the order of rows,
aggregates by slice of time, made by the tasks that read the inputs.

A native call has as many threads as `spark.task.cpus` gives its task. The package must be installed
on every node, in one version. `explain` says which way was chosen, and why.

Where a row goes depends on nothing but its own values and the plan, and for copies of an as-of join
on the other rows of its task, so a retried or speculative task yields equal rows. Their order is
not promised, as in any Spark join.

A streaming DataFrame and a table: the table is read once, when the function is called, and sent
whole to every task. Each micro-batch is joined with it, nothing is kept, and no watermark is
needed. A row comes in the micro-batch that brings it. So rows keep their watermark, and a stateful
operation of the same query can follow. The table is read anew when the query is started again.

Two or more streaming DataFrames, and an aggregation of one, go through one stateful operator. Each
needs a watermark on its time column (`withWatermark`) and the session Spark's RocksDB state store;
the output mode is `append`. A pair comes out in the micro-batch whose watermark has passed its
later row, a row without a partner in the one whose watermark has passed all that it could have had,
as does a left row of a join with `aggs` or of an as-of join, and the aggregates of a window in the
one whose watermark has passed its end. The mode `update` gives the same rows at the same time: none
is ever updated, and no window comes before its end. Spark refuses `complete`. Every row, or what it
adds to a slice of time, is written to the state store once, and removed once it cannot matter any
more. The last right row of each key, which as-of joins and `prevailing` look back to, and the state
of a session that goes on, are written about twice. Native operators stay in the Python workers'
memory from batch to batch, and are made anew from the store where a worker was lost. Rows are late
if they are older than the watermark; `late_as` lets them out, too. Which rows are late depends on
the micro-batches and on Spark's watermark, which may be lower for a while after a restart, and
nothing else. A query's watermark is that of its slowest stream, so a silent one holds results back,
unless `spark.sql.streaming.multipleWatermarkPolicy` is `max`: then rows of slower streams may be
late. The progress of a query has observed metrics of each call: rows that came, late ones, rows and
bytes of state, and a key that is hot.

The rows that come out of such an operator are older than its watermark. So no operation that waits
for a watermark can follow in the same query. The operators of this package are refused there. An
operation of Spark, after another `withWatermark`, would never give a row, for the watermark of a
query waits for all of its streams. Write the rows to a sink, and read that as the stream of another
query.

DataFrames of several sessions of one Spark (`newSession`, and those in `foreachBatch`) can be
joined, as in Spark itself; the settings are those of the first one's session. DataFrames of Spark
Connect and others cannot. Sessions of Spark Connect have the same functions. Their DataFrames do
not tell their size, so `auto` sends no side whole; `parallelism="broadcast"` does.

Getting rows to Python and back costs more than the join itself. Name the `columns` that are needed,
and move what comes next (a projection, a filter, a partial aggregate) into `then`, which sees the
result as Arrow batches before Spark does. Spark measures the batch anew after every row that it
hands to Python, which takes half of the time that handing over takes, unless
`spark.sql.execution.arrow.maxBytesPerBatch` is 2147483647. `configure` sets it; nothing else here
changes a session's settings. For data that fits one machine, `tidegate.interval_join` is faster.
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
