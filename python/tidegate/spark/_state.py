"""What a Python worker does in a streaming join: native joins whose rows Spark's store keeps.

A bucket of keys has a native join of its own. What a micro-batch brings for the bucket is appended
to the store as one *entry*, once, and removed once no row of it can matter any more. An entry is
never read in between: the native join stays in the worker's memory from batch to batch. The store
is the truth, though. Every update of a bucket writes a new random number into its *header*, and a
join that is kept in memory under another number than the header's is not used: its batch was not
committed, or another worker has had the bucket since. A join that is not there is made anew, fed
with the bucket's entries and advanced to the header's watermark; what it finds up to there has come
out before.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import tidegate
from tidegate.spark._pack import LEFT, NAMES, RIGHT
from tidegate.spark._task import threads

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql.streaming.stateful_processor import (
        ExpiredTimerInfo,
        StatefulProcessorHandle,
        TimerValues,
    )

# What comes out of a bucket: record batches of results, or of rows of a side that were late.
OUTPUT = "late tinyint, rows binary"

# Names and types of what the store keeps of a bucket. All of it changes together with the format.
_FORMAT = 1
_HEADER = "format int, query string, first bigint, next bigint, watermark bigint, version string"
_KEY = "entry bigint"
_ENTRY = "until bigint, left_rows binary, right_rows binary"

# Joins that nobody has asked for in so many seconds are let go of.
_IDLE = 600.0

_MILLISECOND = 1_000

# Later than every time, and a watermark before which nothing is late.
_FOREVER = 2**63 - 1
_NONE = -_FOREVER


class Header(NamedTuple):
    """What the store says of a bucket as a whole."""

    format: int
    query: str
    first: int
    next: int
    watermark: int
    version: str


@dataclass(frozen=True)
class Sides:
    """A join as the workers need it: by side, what is sent of it.

    Times are positions of the time columns; `lasting` says for how many microseconds after its time
    a row of the side can matter, None being for ever.
    """

    arguments: dict[str, Any]
    schemas: tuple[pa.Schema, pa.Schema]
    times: tuple[int, int]
    lasting: tuple[int | None, int | None]
    query: str
    keeps_late: bool

    def join(self) -> tidegate.IntervalJoin:
        """A native join without rows. Only `advance` raises its watermarks."""
        return tidegate.IntervalJoin(
            *self.schemas, **self.arguments, lateness=_FOREVER, threads=threads(), pin=False
        )

    def until(self, side: int, rows: pa.Table) -> int:
        """The last watermark at which some of the rows matter."""
        lasting = self.lasting[side]
        latest = pc.max(self.micros(side, rows)).as_py()
        if latest is None:
            return _NONE
        return _FOREVER if lasting is None else min(latest + lasting, _FOREVER)

    def micros(self, side: int, rows: pa.Table) -> pa.ChunkedArray:
        """The rows' times."""
        return rows.column(self.times[side]).cast(pa.int64())


class Warm(NamedTuple):
    """A native join in memory, when its entries end to matter, and when it was used last."""

    join: tidegate.IntervalJoin
    until: list[int]
    used: float


# By the version of the bucket that they stand for.
_warm: dict[str, Warm] = {}


class Processor(StatefulProcessor):
    """The stateful operator: a call has new rows of a bucket, or tells that the watermark rose."""

    def __init__(self, sides: Sides) -> None:
        """What to join."""
        self._sides = sides

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the states."""
        self._handle = handle
        self._header = handle.getValueState("header", _HEADER)
        self._entries = handle.getMapState("entries", _KEY, _ENTRY)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,  # noqa: ANN401, ARG002
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        """Take in packs of rows."""
        packs: tuple[list[pa.Table], list[pa.Table]] = ([], [])
        for row in rows:
            packs[row.side % 2].append(pa.ipc.open_stream(row.rows).read_all())
        old = self._old_header()
        if old.version and _next_timer(old.watermark) <= timerValues.getCurrentWatermarkInMs():
            self._handle.deleteTimer(_next_timer(old.watermark))
        return self._step(old, packs, timerValues)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,  # noqa: ANN401, ARG002
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: ARG002, N803
    ) -> Iterator[Row]:
        """Let results out that have become final."""
        return self._step(self._old_header(), ((), ()), timerValues)

    def close(self) -> None:
        """Nothing is open."""

    def _step(
        self,
        old: Header,
        packs: tuple[Iterable[pa.Table], Iterable[pa.Table]],
        timers: TimerValues,
    ) -> Iterator[Row]:
        watermark = max(old.watermark, _micros(timers.getCurrentWatermarkInMs()))
        warm = self._taken(old)
        tables = []
        for side in (LEFT, RIGHT):
            table, late = self._divided(side, packs[side], watermark)
            tables.append(table)
            if late.num_rows and self._sides.keeps_late:
                yield from _rows(late.to_batches(), side)
        _advance(warm.join, watermark)
        yield from _rows(iter(warm.join.poll, None), None)
        first, end = self._updated(old, warm, tables, watermark)
        if first == end:
            # Nothing is left of the bucket: it is as if it had never been.
            self._header.clear()
            return
        if not old.version or old.watermark != watermark:
            self._handle.registerTimer(_next_timer(watermark))
        version = uuid.uuid4().hex
        self._header.update((_FORMAT, self._sides.query, first, end, watermark, version))
        _warm[version] = warm._replace(used=time.monotonic())

    def _old_header(self) -> Header:
        stored = self._header.get()
        if stored is None:
            return Header(_FORMAT, self._sides.query, 0, 0, _NONE, "")
        header = Header(*stored)
        if header.format != _FORMAT or header.query != self._sides.query:
            message = "the checkpoint has the state of another query: its columns, arguments, or "
            message += "number of partitions were others, or another version of tidegate wrote it; "
            message += "start this query with a checkpoint location of its own"
            raise tidegate.StateError(message)
        return header

    def _taken(self, header: Header) -> Warm:
        """The native join of the bucket, as it was when the header was written."""
        now = time.monotonic()
        for version in [key for key, warm in _warm.items() if now - warm.used > _IDLE]:
            del _warm[version]
        warm = _warm.pop(header.version, None)
        return warm or self._restored(header)

    def _restored(self, header: Header) -> Warm:
        join = self._sides.join()
        until = []
        for entry in range(header.first, header.next):
            stored = self._entries.getValue((entry,))
            if stored is None:
                message = f"the state store lacks entry {entry} of a bucket that has entries "
                message += f"{header.first} to {header.next}: the checkpoint is damaged"
                raise tidegate.StateError(message)
            end, *sides = stored
            until.append(end)
            for side, rows in enumerate(sides):
                if rows is not None:
                    batch = pa.ipc.read_record_batch(pa.py_buffer(rows), self._sides.schemas[side])
                    join.sources[side].push(batch)
        _advance(join, header.watermark)
        while join.poll() is not None:
            pass
        return Warm(join, until, 0.0)

    def _divided(
        self, side: int, packs: Iterable[pa.Table], watermark: int
    ) -> tuple[pa.Table, pa.Table]:
        """The rows of a side that are in time, and those that are not."""
        schema = self._sides.schemas[side]
        # A session's time zone is in the types of what it sends, and may be another next time.
        tables = [pack.rename_columns(schema.names).cast(schema) for pack in packs]
        rows = pa.concat_tables(tables) if tables else schema.empty_table()
        times = self._sides.micros(side, rows)
        if times.null_count:
            name = schema.names[self._sides.times[side]]
            message = f"{NAMES[side]}: column {name!r} has a null, and a row without a time can be "
            message += "in no join: filter such rows out"
            raise tidegate.TidegateError(message)
        is_late = pc.less(times, watermark)
        if not pc.any(is_late).as_py():
            return rows, schema.empty_table()
        return rows.filter(pc.invert(is_late)), rows.filter(is_late)

    def _updated(
        self, old: Header, warm: Warm, tables: list[pa.Table], watermark: int
    ) -> tuple[int, int]:
        """Which entries there are once the rows are appended and what has ended is removed."""
        first, end = old.first, old.next
        while warm.until and warm.until[0] < watermark:
            self._entries.removeKey((first,))
            first += 1
            del warm.until[0]
        if any(table.num_rows for table in tables):
            until = max(self._sides.until(side, table) for side, table in enumerate(tables))
            # In the order of the entries, so that only the oldest is looked at.
            until = max([until, *warm.until[-1:]])
            stored: list[bytes | None] = [None, None]
            for side, table in enumerate(tables):
                if table.num_rows:
                    [rows] = table.combine_chunks().to_batches()
                    warm.join.sources[side].push(rows)
                    stored[side] = rows.serialize().to_pybytes()
            self._entries.updateValue((end,), (until, *stored))
            warm.until.append(until)
            end += 1
        return first, end


def _next_timer(watermark: int) -> int:
    """A time that passes as soon as the watermark rises."""
    return max(0, watermark // _MILLISECOND) + 1


def _micros(watermark: int) -> int:
    """Spark's watermark as ours; it says 0 as long as it has none."""
    return watermark * _MILLISECOND if watermark > 0 else _NONE


def _advance(join: tidegate.IntervalJoin, watermark: int) -> None:
    if watermark != _NONE:
        for source in join.sources:
            source.advance(watermark)


def _rows(batches: Iterable[pa.RecordBatch], late: int | None) -> Iterator[Row]:
    """Batches as rows of the operator's output."""
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        yield Row(late=late, rows=sink.getvalue().to_pybytes())
