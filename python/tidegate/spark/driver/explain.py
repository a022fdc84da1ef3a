"""Builds the text that describes how a call divides and sends its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import IntegralType

from tidegate._tidegate import AggregationQuery
from tidegate.calls.explain import of_index
from tidegate.spark.driver.bins import hashed
from tidegate.spark.driver.by_files import Files
from tidegate.spark.driver.jobs import recorded
from tidegate.spark.driver.route import (
    Binned,
    Broadcast,
    Overlapped,
    Rows,
    Shuffled,
    Stayed,
    Streamed,
    of_aggregation,
    of_join,
)
from tidegate.spark.layout.cycle import WIDTHS, Cycle
from tidegate.spark.layout.hashed_times import HashedTimes
from tidegate.spark.layout.overlap import BOTH, OverlapLayout
from tidegate.spark.plan.checks import empty
from tidegate.spark.plan.host import host_of
from tidegate.spark.plan.session import shuffle_partitions
from tidegate.spark.worker.pack import LEFT, NAMES, RIGHT
from tidegate.windows import Rows as RowCount

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from tidegate.spark.layout.layout import Layout, Places
    from tidegate.spark.plan.aggregate import AggregatePlan
    from tidegate.spark.plan.files import FilePlan
    from tidegate.spark.plan.indexed import IndexPlan
    from tidegate.spark.plan.join import Plan
    from tidegate.spark.plan.rolling import RollingPlan


_PARTIAL = "right rows that match all left rows of a slice are sent as one row per key"
_FILTERS = (
    "where() and select() after a join are not pushed down; use them, or columns=, before the join"
)
_OF_INDEX = "right rows with equal times are in the order of the index"
_AT_ONCE = "in the micro-batch in which the stream row arrives; this call reads the table once"
_TELLS = "rows, state and hot keys as 'tidegate.{}' in the observed metrics of the query's progress"
_FILLED = "a second shuffle sends the windows of a key to one task, which adds those without rows"
_STORES = "in Spark's state store, by bucket, and in the Python workers' memory"


def described(plan: Plan, *, fused: bool = False) -> str:
    """Describe the native join and the steps that Spark performs around it or instead of it.

    `fused` specifies whether `then` processes the result in the same call.
    """
    session = plan.left.sparkSession
    threads = int(session.conf.get("spark.task.cpus", "1") or "1")
    # An aggregate may have the name of a left column that is not in the result.
    columns = {"columns": list(plan.columns.native)} if plan.query.aggs else {}
    query = plan.query.native.replace(**columns, threads=threads)
    native = query.plan(*plan.columns.empty).explanation
    sent = (", ".join(side.names) for side in (plan.columns.left, plan.columns.right))
    lines = [native, "  sent       left {}; right {}".format(*sent)]
    if plan.query.comes_once:
        lines.append(f"  ties       {_ties(plan)}")
    with recorded() as texts:
        way = of_join(plan, fused=fused)
    if isinstance(way, Files):
        return files_described(
            way.plan, ties=_ties(plan) if plan.query.comes_once else None, way=way
        )
    lines += _jobs(texts)
    if isinstance(way, Streamed):
        return "\n".join([*lines, *_streamed(plan, way.layout)])
    lines += _of_tables(plan, way)
    if plan.stream_side is not None:
        lines.append(f"  emitted    {_AT_ONCE}")
    return "\n".join([*lines, f"  because    {way.reason}"])


def files_described(plan: FilePlan, *, ties: str | None = None, way: Files | None = None) -> str:
    """Describe tasks that read files themselves; `way` states why a call on DataFrames does so."""
    stages = len(plan.tasks.stages) - 1
    lines = [plan.tasks.explain()]
    if way is None:
        ties = _OF_INDEX if plan.has_index else "rows with equal times are in file order"
    if ties is not None:
        lines.append(f"  ties       {ties}")
    lines += _jobs([f"prepare files in {stages} stage{'s' * (stages > 1)}"] if stages else [])
    reads = "left row groups" if plan.has_index else "the rows of its slice"
    lines.append(f"  placed     each Spark task reads {reads}; no rows are shuffled")
    if way is None:
        return "\n".join([*lines, "  because    the inputs are files"])
    if way.costs is not None:
        lines.append(f"  costs      {way.costs}")
    return "\n".join([*lines, f"  because    {way.reason}"])


def index_described(plan: IndexPlan) -> str:
    """Describe the join of a DataFrame with an index."""
    threads = int(plan.left.sparkSession.conf.get("spark.task.cpus", "1") or "1")
    query = plan.query.replace(threads=threads)
    native = query.plan(empty(plan.left, "left").select([*plan.sent]), plan.index)
    size = f"{plan.file.size:,} bytes"
    emitted = ["  emitted    in the micro-batch in which the left row arrives"]
    lines = [
        native.explanation,
        f"  sent       left {', '.join(plan.sent)}",
        f"  ties       {_OF_INDEX}",
        *_jobs([]),
        f"  filters    {_FILTERS}",
        f"  right      {plan.file.path}, {plan.index.rows:,} rows, {size}; each worker maps it",
        of_index(query, native, plan.index),
        "  placed     left rows stay in their partitions",
        *(emitted if plan.left.isStreaming else []),
        "  because    the right side is an index",
    ]
    return "\n".join(lines)


def _of_tables(plan: Plan, way: Rows) -> list[str]:
    """Describe the steps that Spark performs around a native join of tables, or instead of it."""
    if isinstance(way, Binned):
        return _binned(plan, way)
    return [f"  filters    {_FILTERS}", *_native(plan, way)]


def _native(plan: Plan, way: Broadcast | Stayed | Overlapped | Shuffled) -> list[str]:
    """Describe the steps that Spark performs before and after native calls."""
    if isinstance(way, Broadcast):
        return _broadcast(way)
    if isinstance(way, Stayed):
        return _stayed(way)
    if isinstance(way, Overlapped):
        lines = [*_shuffled(plan.left.sparkSession, way.layout), *_layers(way.layout)]
    else:
        lines = _of_points(plan, way)
    if way.of_bins is not None and plan.query.function in ("interval_join", "overlap_join"):
        lines.append(f"  no bins    {way.of_bins}")
    return lines


def _of_points(plan: Plan, way: Shuffled) -> list[str]:
    """Describe where rows with a single time are sent."""
    lines = _shuffled(plan.left.sparkSession, way.layout, plan.query.divided)
    if plan.right_where is not None:
        lines.append("  filtered   right rows are tested by where before they are sent")
    if plan.query.is_asof:
        lines += _asof(plan, way.layout)
    elif plan.parts is not None and not way.layout.has_pieces:
        lines.append(f"  partial    {_PARTIAL}")
    return lines


def _jobs(texts: Sequence[str]) -> list[str]:
    """List the jobs that the call runs before its result is used."""
    if not texts:
        return ["  jobs       none before the result is used"]
    return [f"  jobs       before the result is used: {', then '.join(texts)}"]


def _tasks(session: SparkSession, layout: Layout) -> list[str]:
    """If some tasks never have a bucket, report the number of tasks in a micro-batch."""
    tasks = shuffle_partitions(session)
    if tasks <= layout.partitions:
        return []
    text = f"{tasks} by spark.sql.shuffle.partitions, for {layout.partitions} buckets, "
    text += "each with a store and Python calls in every micro-batch; "
    text += (
        "set it to a few times the number of cores before you start the query for the first time"
    )
    return [f"  tasks      {text}"]


def _streamed(plan: Plan, layout: Layout) -> list[str]:
    return [
        f"  divided    {_division(layout, plan.query.divided)}",
        *_tasks(plan.left.sparkSession, layout),
        f"  kept       {_STORES}",
        f"  emitted    {_comes(plan)}",
        f"  late rows  {_late(plan.late_as)}{_wide(plan)}",
        *_hot_keys(layout, "'hybrid'" if plan.reach.width is not None else None),
        f"  reports    {_TELLS.format(plan.query.function)}",
    ]


def _hot_keys(layout: Layout, remedy: str | None) -> list[str]:
    """Describe the effect of a hot key, if a stream's rows are divided by key."""
    if isinstance(layout, Cycle | HashedTimes) or len(layout.buckets) == 1:
        return []
    text = "one task processes all rows of a key"
    if remedy is not None:
        text += f"; parallelism={remedy}, with a new checkpoint, divides each key into slices"
    return [f"  hot keys   {text}"]


def _comes(plan: Plan) -> str:
    """Describe when a result of a stream is emitted."""
    if plan.query.is_asof:
        return "a left row, once the watermark of the batch rules out a nearer right row"
    if plan.query.comes_once:
        return "a left row, once the watermark of the batch has passed all of its possible partners"
    return "once the watermark of the batch has passed the later row of a pair"


def _ties(plan: Plan) -> str:
    """Describe the order in which functions process right rows."""
    if plan.order is None:
        return "no result depends on the order of right rows"
    # A band join with windows also compares times.
    by_number = plan.order.by_number and plan.native.time is None
    of = "right rows" if by_number else "right rows with equal times"
    return f"{of} are ordered by value, starting with {plan.order.on}"


def _asof(plan: Plan, layout: Layout) -> list[str]:
    """Describe which right rows are copied to more than one slice."""
    lines = []
    if layout.is_cut:
        why = (
            "several right rows are looked up"
            if plan.query.has_lookups
            else "where uses both sides"
        )
        copies = f"all right rows within reach of its left rows, because {why}"
        if plan.reach.nearest:
            copies = "the nearest right rows of each key, from each task that sends rows"
        lines.append(f"  copies     from outside each slice: {copies}")
    return lines


def _wide(plan: Plan) -> str:
    """If `max_width` is set, describe the handling of rows whose end is too far away."""
    if plan.max_width is None:
        return ""
    if plan.query.is_overlap:
        return f", and rows that are longer than {plan.max_width}"
    return f", and rows with an end farther away than {plan.max_width}"


def _late(name: str | None) -> str:
    return "dropped" if name is None else f"marked in column {name!r}"


_METHODS = {
    "broadcast": "Spark sends the {} rows to every task (broadcast)",
    "shuffle_hash": "each task of Spark hashes its {} rows (shuffle_hash)",
    None: "Spark sorts the rows",
}


def _unit(plan: Plan) -> str:
    """Return the unit of times."""
    if any(isinstance(plan.inputs[side].value_type, IntegralType) for side in (LEFT, RIGHT)):
        return ""
    return " days" if plan.in_days else " microseconds"


def _binned(plan: Plan, way: Binned) -> list[str]:
    bins, unit = way.bins, _unit(plan)
    keys = "key and " if plan.native.keys else ""
    return [
        f"  divided    by {keys}time bins, {bins.width:,}{unit} wide, in Spark's own join",
        f"  rows       about {bins.rows:,.0f}, and {bins.copies:,.0f} copies of {bins.copied} rows",
        *([] if way.costs is None else [_compared(bins.candidates, bins.pairs)]),
        f"  placed     {_METHODS[hashed(plan, bins)].format('copied')}",
        *([] if way.costs is None else [f"  costs      {way.costs}"]),
    ]


def _compared(candidates: float, pairs: float) -> str:
    return f"  compared   about {candidates:,.0f} pairs, of which {pairs:,.0f} are results"


def _broadcast(way: Broadcast) -> list[str]:
    whole = way.whole
    mine, other = NAMES[whole.side], NAMES[1 - whole.side]
    weighed = []
    if way.costs is not None:
        weighed = [f"  costs      {way.costs}", f"  weighed    {way.basis}"]
    return [
        f"  divided    {mine} is sent in full to every task, {whole.rows.num_rows:,} rows",
        f"  placed     {other} rows stay in their partitions",
        *weighed,
    ]


def _stayed(way: Stayed) -> list[str]:
    costs = [] if way.costs is None else [f"  costs      {way.costs}"]
    partitions = f"{way.sides.partitions:,} partitions"
    return [
        f"  divided    by key: both sides are already divided by hash into {partitions}",
        "  placed     rows stay in their partitions and are passed to Python once",
        *costs,
    ]


def aggregate_described(plan: AggregatePlan) -> str:
    """Describe the native aggregation, and the steps that Spark performs around it."""
    session = plan.frames[0].sparkSession
    threads = int(session.conf.get("spark.task.cpus", "1") or "1")
    tables = [empty(frame, "stream").select(list(plan.sent)) for frame in plan.frames]
    query = AggregationQuery(**plan.aggregation.arguments, threads=threads)
    native = query.plan(tables).explanation
    why, inner = "a result depends on their order", plan.with_rows
    if plan.aggregation.session is not None:
        why = "any of them can extend a session"
    elif plan.aggregation.windows is not None:
        why = "windows from a table can have any length"
    elif isinstance(plan.aggregation.size, RowCount):
        why = "windows count the rows of their key"
    elif inner.aggregation.fills:
        why = "windows without rows depend on the other windows of their key"
    what = f"rows, because {why}"
    if inner.combines:
        what = "aggregates per slice and key, computed where the rows are read"
    with recorded() as texts:
        way = of_aggregation(inner)
    if isinstance(way, Files):
        return files_described(way.plan, way=way)
    if isinstance(way, Streamed):
        return "\n".join([native, *_streamed_windows(plan, way.layout)])
    sent = f"  sent       {what}: {', '.join(plan.sent)}"
    lines = [native, sent, *_jobs(texts), *_shuffled(session, way.layout)]
    if plan.fills_afterwards:
        lines.append(f"  filled     {_FILLED}")
    return "\n".join(lines)


def rolling_streamed(plan: RollingPlan, layout: Layout) -> list[str]:
    """Describe rolling windows of a stream."""
    return [
        f"  sent       rows: {', '.join(plan.sent)}",
        f"  divided    {_division(layout, 'time')}",
        *_tasks(plan.table.sparkSession, layout),
        "  ties       rows with equal times are ordered by value",
        f"  kept       rows that later windows may contain, {_STORES}",
        "  emitted    once the watermark of the batch has passed a row",
        f"  late rows  {_late(plan.late_as)}",
        *_hot_keys(layout, None),
        f"  reports    {_TELLS.format('rolling')}",
    ]


def _streamed_windows(plan: AggregatePlan, layout: Layout) -> list[str]:
    what = "aggregates by slice of time and key" if plan.combines else "rows"
    end = "the last row" if isinstance(plan.aggregation.size, RowCount) else "the end"
    return [
        f"  sent       rows: {', '.join(plan.sent)}",
        f"  divided    {_division(layout, 'time')}",
        *_tasks(plan.frames[0].sparkSession, layout),
        f"  kept       {what}, {_STORES}",
        f"  emitted    once the watermark of the batch has passed {end} of a window",
        f"  late rows  {_late(plan.late_as)}",
        *_hot_keys(layout, "'time'" if not plan.is_whole else None),
        f"  reports    {_TELLS.format('aggregate')}",
    ]


def _layers(layout: OverlapLayout) -> list[str]:
    """Describe the bucket with the most slices: its layers and the destinations of its rows."""
    layers = max(layout.layers, key=lambda one: sum(len(layer.cut.partitions) for layer in one))
    if not layout.is_cut:
        return []
    lines = []
    for layer in layers:
        slices = len(layer.cut.borders) + 1
        every = "1 slice" if slices == 1 else f"{slices} slices"
        if layer.side == BOTH:
            lines.append(f"  layer      {every}: each row goes to the slices that it covers")
            continue
        length = "of any length"
        if layer.longest is not None:
            length = f"up to {layer.longest:,} steps long"
        name, other = NAMES[layer.side], NAMES[1 - layer.side]
        text = f"{every}: {name} rows {length} go where they start, {other} rows to all that"
        lines.append(f"  layer      {text} may have partners")
    return lines


def _shuffled(session: SparkSession, layout: Places, what: str = "time") -> list[str]:
    placed = "by partition number (repartitionById)"
    if not host_of(session).places_rows:
        placed = "by a number whose hash selects the partition"
    lines = [f"  divided    {_division(layout, what)}"]
    if layout.rows:
        share = layout.fullest * layout.partitions / layout.rows
        copies = max(0, layout.sent - layout.rows)
        lines += [
            f"  rows       about {layout.rows:,.0f}, and {copies:,.0f} copies",
            f"  fullest    partition: {share:.2f} times an even share, including copies",
        ]
    return [*lines, f"  placed     {placed}"]


def _division(layout: Places, what: str) -> str:
    if isinstance(layout, HashedTimes):
        return f"by a hash of {what} to {layout.partitions} buckets, whose parts one task merges"
    if isinstance(layout, Cycle):
        keys = "key and " if len(layout.buckets) > 1 else ""
        text = f"by {keys}{what}: slices {WIDTHS} times as wide as the reach of pairs, in turn to "
        return f"{text}{layout.partitions} buckets"
    slices = [len(bucket.borders) + 1 for bucket in layout.buckets]
    if isinstance(layout, OverlapLayout):
        slices = [sum(len(layer.cut.borders) + 1 for layer in one) for one in layout.layers]
    cut = [count for count in slices if count > 1]
    pieces = sum(len(bucket.partitions) for bucket in layout.buckets) - sum(slices)
    heavy = f", heavy ones divided by row into {pieces} more pieces" if pieces else ""
    if len(slices) == 1:
        return f"by {what}: {slices[0]} slices in {layout.partitions} partitions{heavy}"
    text = f"by key: {len(slices)} buckets in {layout.partitions} partitions"
    if not cut:
        return f"{text}, none cut"
    return f"{text}, {len(cut)} of them cut by {what} into {sum(cut)} slices{heavy}"
