"""Collects a small side once and sends it in full to every task. The other side stays in place.

The other side then needs neither a layout nor a shuffle, and skewed keys cannot overload any task.
The other side can also be a stream: each micro-batch is joined with the same rows, and no state is
kept. Collected rows are sorted by time or value, so a task joins its rows only with the collected
rows within reach.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

import tidegate
from tidegate.spark.driver.division import cores
from tidegate.spark.driver.files import Rows, rows_of
from tidegate.spark.driver.jobs import described
from tidegate.spark.layout.costs import Small
from tidegate.spark.query.schema import collected
from tidegate.spark.worker.pack import LEFT, NAMES, RIGHT, as_streams, typed
from tidegate.spark.worker.task import in_chunks, on_worker

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from tidegate.spark.layout.layout import Integers, Reach
    from tidegate.spark.plan.join import Plan
    from tidegate.spark.query.axis import Axis
    from tidegate.spark.worker.overlap import StartsAndEnds
    from tidegate.spark.worker.task import Batches, Call

# The maximum size in bytes of a side that `auto` sends in full. Each Python worker holds a copy.
LIMIT = 1 << 26

# A side that Spark estimates at no more than this many bytes is collected immediately, up to a
# number of rows. Counting its rows first would take another job, about a tenth of a second.
_SURE = 1 << 22

# The number of bytes that Spark reads from files in one task by default.
_SPLIT = 1 << 27

# The number of bytes that Spark adds to the size of a row.
_HEADER = 8

# The size that Spark reports for a side of unknown size.
_UNKNOWN = 2**63 - 1


class Whole(NamedTuple):
    """A side that is sent in full, sorted by time or value."""

    side: int
    rows: pa.Table


class Choice(NamedTuple):
    """The side that is sent in full, or None, and the reason."""

    whole: Whole | None
    reason: str


def chosen(plan: Plan) -> Choice:
    """Return the smaller side if it may be sent in full, and is small or `broadcast` is set."""
    if plan.stream_side is not None:
        return _of_table(plan, 1 - plan.stream_side)
    if plan.parallelism not in ("auto", "broadcast"):
        return Choice(None, f"parallelism is {plan.parallelism!r}")
    # Every task has all rows of the side that is sent in full, so no task can determine which of
    # these rows are unmatched.
    sides = [side for side in (RIGHT, LEFT) if not plan.reports[side]]
    if not sides:
        return Choice(None, "a full join returns the unmatched rows of both sides")
    sizes = {side: _estimated_bytes(plan.inputs[side].frame) for side in sides}
    side = min(sides, key=lambda side: sizes[side])
    return _if_small(plan, side, sizes[side])


def _of_table(plan: Plan, side: int) -> Choice:
    """Return the table that is joined with a stream. Such a table must be sent in full."""
    whole, reason = _if_small(plan, side, _estimated_bytes(plan.inputs[side].frame))
    if whole is not None:
        return Choice(whole, reason)
    message = f"{reason}, and {NAMES[1 - side]} is a stream, "
    message += f"so every task in every micro-batch would receive all of {NAMES[side]}; "
    message += "give parallelism='broadcast' if the workers have enough memory, "
    message += "or join inside `foreachBatch`, where each micro-batch is a table and rows are "
    message += "shuffled"
    raise tidegate.TidegateError(message)


def _if_small(plan: Plan, side: int, estimated: int) -> Choice:
    """Return a side if it is small or if `broadcast` is requested."""
    if plan.parallelism == "broadcast":
        return Choice(_collected(plan, side), "parallelism is 'broadcast'")
    width = _width(plan.columns.of(side))
    likely = None if estimated == _UNKNOWN else _of_files(plan, side, width)
    # If there are many files, the footers of a few give only an estimate. The estimate is trusted
    # only if it is at most half or more than twice the limit.
    chance = 1 if likely is not None and likely.exact else 2
    sure = estimated <= _SURE or (likely is not None and chance * likely.number <= LIMIT)
    # Counting computed rows costs as much as collecting them, so they are collected immediately.
    # Strings can be long, so their bytes are counted first.
    if width is not None and (sure or (estimated <= LIMIT and _is_computed(plan, side))):
        whole = _collected(plan, side, LIMIT // max(1, width) + 1)
        size = _bytes(whole.rows, width)
        if size <= LIMIT:
            return Choice(whole, f"{NAMES[side]} has {_text(size)}, at most {_text(LIMIT)}")
        return Choice(None, f"{NAMES[side]} has more than {_text(LIMIT)}")
    if likely is not None and likely.number > chance * LIMIT:
        about = "" if likely.exact else "about "
        has = f"{NAMES[side]} has {about}{_text(round(likely.number))}"
        return Choice(None, f"{has}, more than {_text(LIMIT)}")
    is_small, reason = _measured(plan, side, estimated)
    return Choice(_collected(plan, side) if is_small else None, f"{NAMES[side]} {reason}")


def _is_computed(plan: Plan, side: int) -> bool:
    """Return whether a side has no string columns and does more than select rows from files."""
    if _texts(plan.columns.of(side)):
        return False
    return rows_of(plan.inputs[side].frame) is None


def _of_files(plan: Plan, side: int, width: int | None) -> Rows | None:
    """Return the Arrow size of a side that reads Parquet files, in bytes, or None if unknown.

    Footers contain the number of rows, but not the lengths of strings or the effect of a filter.
    """
    if width is None or _texts(plan.columns.of(side)):
        return None
    rows = rows_of(plan.inputs[side].frame, filtered=False)
    return None if rows is None else rows._replace(number=rows.number * width)


def _measured(plan: Plan, side: int, estimated: int) -> tuple[bool, str]:
    """Return whether `auto` may send the side in full, and the reason."""
    if estimated == _UNKNOWN:
        return False, "is of unknown size"
    if estimated > LIMIT:
        return False, f"has about {_text(estimated)}, more than {_text(LIMIT)}"
    size = _counted_bytes(plan, side)
    if size is None:
        return False, "has columns whose size is not known in advance"
    if size > LIMIT:
        return False, f"has {_text(size)}, more than {_text(LIMIT)}"
    return True, f"has {_text(size)}, at most {_text(LIMIT)}"


def _text(size: int) -> str:
    return f"{size:,} bytes" if size < 1 << 20 else f"{size / (1 << 20):,.1f} MB"


def _estimated_bytes(frame: DataFrame) -> int:
    """Return Spark's size estimate for files or local rows, in bytes.

    The estimate is often too high. For compressed files, it is too low. Spark Connect does not
    report an estimate.
    """
    try:
        statistics = frame._jdf.queryExecution().optimizedPlan().stats()  # noqa: SLF001 - no other way
    except PySparkException:
        return _UNKNOWN
    return min(int(statistics.sizeInBytes()), _UNKNOWN)


def rows_beside(plan: Plan, whole: Whole) -> Small | None:
    """Return a side that may be sent in full, and both row counts; None if a size is unknown.

    Footers show the number of rows in Parquet files. For other inputs, Spark knows the size in
    bytes and assumes a size per row.
    """
    other = plan.inputs[1 - whole.side].frame
    size = _estimated_bytes(other)
    if size == _UNKNOWN:
        return None
    rows = [0.0, 0.0]
    rows[whole.side] = float(whole.rows.num_rows)
    in_files = rows_of(other)
    if in_files is None:
        width = other._jdf.schema().defaultSize() + _HEADER  # noqa: SLF001 - as above
        in_files = Rows(size / width, exact=False)
    rows[1 - whole.side] = in_files.number
    tasks = max(cores(plan.left.sparkSession), -(-size // _SPLIT))
    return Small(whole.side, (rows[LEFT], rows[RIGHT]), min(plan.partitions or tasks, tasks))


def _counted_bytes(plan: Plan, side: int) -> int | None:
    """Return the size of a side as Arrow data, in bytes, or None if a column's size is unknown.

    Files can contain many times as many rows as their size suggests. Only the string columns of
    files are read.
    """
    schema = plan.columns.of(side)
    width = _width(schema)
    if width is None:
        return None
    lengths = [F.sum(F.octet_length(f"u{at}")) for at in _texts(schema)]
    with described(plan.left.sparkSession, f"measure the {NAMES[side]} side"):
        [counted] = plan.inputs[side].frame.agg(F.count("*"), *lengths).collect()
    return int(width * counted[0]) + sum(length or 0 for length in counted[1:])


def _width(schema: pa.Schema) -> int | None:
    """Return the size of a row without strings, in bytes, or None if a column's size is unknown."""
    width = 4 * len(_texts(schema))
    for field in schema:
        if pa.types.is_primitive(field.type):
            width += max(1, field.type.bit_width // 8)
        elif not _is_text(field.type):
            return None
    return width


def _texts(schema: pa.Schema) -> list[int]:
    return [at for at, field in enumerate(schema) if _is_text(field.type)]


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _bytes(rows: pa.Table, width: int) -> int:
    """Return the size of collected rows, in bytes."""
    lengths = (pc.sum(pc.binary_length(rows.column(at))).as_py() for at in _texts(rows.schema))
    return int(width * rows.num_rows) + sum(length or 0 for length in lengths)


def _collected(plan: Plan, side: int, most: int | None = None) -> Whole:
    """Collect a side's rows that can have a partner, in the order that the join requires.

    `most` limits the number of rows.
    """
    mine = plan.inputs[side]
    wanted = mine.without_unmatchable()
    with described(plan.left.sparkSession, f"collect the {NAMES[side]} side"):
        rows = _arrow(wanted if most is None else wanted.limit(most), plan.columns.of(side))
    table = rows.combine_chunks()
    _check(plan, side, table)
    if side == RIGHT and plan.order is not None:
        table = plan.order.put(table)
    times = plan.axis.integers(table.column(mine.on))
    if np.any(times[1:] < times[:-1]):
        table = table.take(pa.array(np.argsort(times, kind="stable")))
    return Whole(side, table)


def _arrow(rows: DataFrame, schema: pa.Schema) -> pa.Table:
    """Return the rows as Arrow data, with the column names of a schema.

    PySpark's `toArrow` fails on a null struct whose fields are declared not null, such as the
    fields of a variant. Rows with such types are converted to Arrow in Python tasks.
    """
    if not any(map(_has_required_fields, schema.types)):
        return collected(rows).rename_columns(schema.names)
    work = on_worker(as_streams, "tidegate_collect")
    streams = collected(rows.mapInArrow(work, "rows binary")).column("rows")
    tables = [pa.ipc.open_stream(stream.as_buffer()).read_all() for stream in streams]
    return pa.concat_tables([schema.empty_table(), *(typed(table, schema) for table in tables)])


def _has_required_fields(kind: pa.DataType) -> bool:
    """Return whether a type contains, at any level, a struct with a field declared as not null."""
    if pa.types.is_map(kind):
        # Map entries are such structs, but an entry is never null.
        return _has_required_fields(kind.key_type) or _has_required_fields(kind.item_type)
    fields = [kind.field(at) for at in range(kind.num_fields)]
    required = pa.types.is_struct(kind) and not all(field.nullable for field in fields)
    return required or any(_has_required_fields(field.type) for field in fields)


def _check(plan: Plan, side: int, rows: pa.Table) -> None:
    """Reject rows without a time and rows that start after they end, as tasks do."""
    if plan.query.is_overlap:
        # No other check is needed, and a native join would index all rows just to check them.
        plan.starts_and_ends(side).of(rows)
        return
    sides = [plan.columns.of(one).empty_table() for one in (LEFT, RIGHT)]
    sides[side] = rows
    query = plan.query.native.replace(columns=list(plan.columns.native))
    query.batches(sides[LEFT], sides[RIGHT]).close()


def joined(plan: Plan, whole: Whole, call: Call, schema: StructType) -> DataFrame:
    """Return the join as a DataFrame with the same partitions as the other side."""
    session = plan.left.sparkSession
    other = plan.inputs[1 - whole.side]
    task = _Task(
        whole=_sent(session, NAMES[whole.side], _stream(whole.rows)),
        side=whole.side,
        near=_near(plan, whole.side),
        schema=plan.columns.of(1 - whole.side),
        call=call,
    )
    rows = other.frame if plan.keeps[1 - whole.side] else other.without_unmatchable()
    if plan.partitions is not None:
        rows = rows.coalesce(plan.partitions)
    return rows.mapInArrow(on_worker(task.run, "tidegate_join"), schema)


def _sent(session: SparkSession, name: str, stream: pa.Buffer) -> Broadcast[pa.Buffer] | _Held:
    """Return the rows as a broadcast variable, or as data sent with the task.

    Spark Connect has no broadcast variables.
    """
    try:
        context = session.sparkContext
    except PySparkException:
        if stream.size > LIMIT:
            message = f"parallelism 'broadcast': {name} takes up {_text(stream.size)}, "
            message += (
                f"but Spark Connect can send at most {_text(LIMIT)} to every task; leave it out"
            )
            raise tidegate.TidegateError(message) from None
        return _Held(stream)
    return context.broadcast(stream)


@dataclass(frozen=True)
class _Held:
    """Rows that are sent with the task."""

    value: pa.Buffer


def _stream(rows: pa.Table) -> pa.Buffer:
    """Return the rows as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return sink.getvalue()


@dataclass(frozen=True)
class _Task:
    """Joins a Spark partition with the side sent in full. Instances are sent to the workers."""

    whole: Broadcast[pa.Buffer] | _Held
    side: int
    near: _Within | _Overlapping
    schema: pa.Schema
    call: Call

    def run(self, batches: Batches) -> Batches:
        """Join the rows in a Spark partition in chunks."""
        whole = pa.ipc.open_stream(self.whole.value).read_all()
        part_for = self.near.parts(whole)
        for rows in in_chunks(batches):
            mine = rows.rename_columns(self.schema.names).combine_chunks()
            part = whole.slice(*part_for(mine))
            yield from self.call.run(*((mine, part) if self.side == RIGHT else (part, mine)))


Part = Callable[[pa.Table], tuple[int, int]]


def _near(plan: Plan, side: int) -> _Within | _Overlapping:
    """Return an object that selects the rows on `side` that the other side's rows can match."""
    mine, other = plan.inputs[side], plan.inputs[1 - side]
    if plan.query.is_overlap:
        return _Overlapping(plan.starts_and_ends(side), plan.starts_and_ends(1 - side))
    return _Within(plan.reach, plan.axis, side, (mine.on, other.on))


@dataclass(frozen=True)
class _Within:
    """Selects rows whose times are within reach. Instances are sent to the workers."""

    reach: Reach
    axis: Axis
    side: int
    columns: tuple[int, int]

    def parts(self, whole: pa.Table) -> Part:
        """Return a function that returns the first position and the count of the rows to join."""
        times = self.axis.integers(whole.column(self.columns[0]))

        def part(rows: pa.Table) -> tuple[int, int]:
            reached = self.axis.integers(rows.column(self.columns[1]))
            return near(self.reach, self.side, times, reached)

        return part


@dataclass(frozen=True)
class _Overlapping:
    """Selects rows that may overlap other rows. Instances are sent to the workers."""

    whole: StartsAndEnds
    other: StartsAndEnds

    def parts(self, whole: pa.Table) -> Part:
        """Return a function that returns the first position and the count of the rows to join."""
        starts, ends = self.whole.of(whole)
        # Rows are sorted by their starts. No row up to a position ends after `latest`.
        latest = np.maximum.accumulate(ends)

        def part(rows: pa.Table) -> tuple[int, int]:
            first, last = self.other.of(rows)
            begin = int(np.searchsorted(latest, first.min()))
            end = int(np.searchsorted(starts, last.max(), side="right"))
            return begin, max(0, end - begin)

        return part


def near(reach: Reach, side: int, whole: Integers, times: Integers) -> tuple[int, int]:
    """Return the first position and the count of the rows in `whole` that `times` can reach.

    `times` contains the times of the other side. `whole` contains the times of the side that is
    sent in full, in ascending order.
    """
    lower, upper = reach.lower, reach.upper
    if side == LEFT:
        lower, upper = None if upper is None else -upper, None if lower is None else -lower
    begin, end = 0, len(whole)
    if lower is not None:
        begin = int(np.searchsorted(whole, _clamped(int(times.min()) + lower)))
    if upper is not None:
        end = int(np.searchsorted(whole, _clamped(int(times.max()) + upper), side="right"))
    return begin, max(0, end - begin)


def _clamped(time: int) -> int:
    ends = np.iinfo(np.int64)
    return min(max(time, ends.min), ends.max)
