"""Streams in a Python worker: native operators whose rows Spark's state store keeps.

A bucket of keys has a native operator of its own. The rows that a micro-batch brings for the
bucket are appended to the store as one *entry*, once, and removed once none of them can matter. An
entry is never read in between: the operator stays in the worker's memory from batch to batch. The
store is the truth, though. Every update of a bucket writes a new random number into its *header*,
an entry with a key of its own, and an operator that is kept in memory under another number than the
header's is not used: its batch was not committed, or another worker has had the bucket since. An
operator that is not there is made anew, fed with the bucket's entries and advanced to the header's
watermark. Results up to that watermark have already been emitted. A join that emits pairs does not
recompute them unless it needs to know which rows were matched.

Spark may run a bucket's task on any idle worker, so operators of earlier micro-batches remain on
other workers. A worker keeps at most one operator per bucket. It also drops operators with an old
watermark: whenever the watermark rises, every bucket is updated, so operators with an older one
must be out of date.

A row may matter for ever by its time, as the last right row of a key that a left row may look back
to, or a row of a session that goes on. The operator drops it once a later row takes its place, or
its session has a state that stands for it. Where that happens (`condenses`), the
entries would grow for ever. So once they have as many bytes as the last *snapshot* of the operator,
and some to spare, they are removed. A new snapshot is written as the first entry of what follows.
So no row is written more than about twice, and the store has about twice what the operator keeps.

Which operator it is, and what it stores of its rows, is told in `operators.py`.
"""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext, cloudpickle
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    LongType,
    StructType,
)

import tidegate
from tidegate.spark.stream.metrics import COLUMNS, Digested, Numbers
from tidegate.spark.stream.operators import Condensing
from tidegate.spark.worker.pack import MARK, typed
from tidegate.spark.worker.task import loader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql.streaming.stateful_processor import (
        ExpiredTimerInfo,
        StatefulProcessorHandle,
        TimerValues,
    )

    from tidegate.spark.stream.operators import Bucket, Work

# What comes out of a bucket: record batches of results, or of rows of a side that were late. The
# number of a side is larger by the number of sides for rows with an end that is too far away. One
# more row of each bucket that had any work has no batch, but numbers that the query's progress
# shows: `metrics.py`.
OUTPUT = f"late tinyint, rows binary, {COLUMNS}"

# Names and types of what the store keeps of a bucket. All of it changes together with the format.
# As text, each task of each micro-batch would have Spark parse them. It is one state, since each
# has Spark make its encoders anew in every task.
_FORMAT = 5
_KEY = StructType().add("entry", LongType())
_ENTRY = StructType().add("until", LongType()).add("rows", ArrayType(BinaryType()))

# The key of the entry that has the header. Before format 5, the header was a state of its own.
_HEADER = (-1,)

# How rows are compressed in the store, behind their number of bytes: RocksDB's own codec leaves a
# third more.
_CODEC = pa.Codec("zstd", compression_level=1)
_SIZE = 8

# Bytes of entries beyond those of the last snapshot, before the next is taken.
_SPARE = 1 << 16

# A hot key is looked for where a bucket gets at least `_MANY` rows of a side at once. `_SAMPLED` of
# these rows are looked at, and a key is hot if it has the share `_HOT` of them.
_MANY = 10_000
_SAMPLED = 1_000
_HOT = 0.5

# An operator that is not used for this number of seconds is dropped.
_IDLE = 600.0

_MILLISECOND = 1_000

# The version of the header that stands for a mark: there is no operator.
_MARKED = "mark"

# A watermark before which nothing is late.
_NONE = -(2**63) + 1


class Header(NamedTuple):
    """What the store says of a bucket as a whole."""

    format: int
    query: str
    first: int
    next: int
    watermark: int
    version: str


def read_header(stored: tuple[int, list[bytes]]) -> Header:
    """The header that the store has as an entry."""
    _, [text] = stored
    return Header(*json.loads(text))


@dataclass
class Size:
    """The bytes of the last snapshot of a bucket, and of the entries that were written since."""

    snapshot: int = 0
    since: int = 0


class Entry(NamedTuple):
    """An entry in the store: until when it matters, its rows and bytes."""

    until: int
    rows: int
    bytes: int


class Warm(NamedTuple):
    """A bucket in memory, its entries in the store, and their size.

    The bucket has the state that `header` describes and was last used at time `used`.
    """

    bucket: Bucket
    entries: list[Entry]
    size: Size
    header: Header
    used: float = 0.0


# By side, tables of rows that are at home in the bucket, and of copies of others.
Packs = list[tuple[list[pa.Table], list[pa.Table]]]


class Place(NamedTuple):
    """A bucket of a running query."""

    run: str
    query: str
    number: int


_warm: dict[Place, Warm] = {}


class Processor(StatefulProcessor):
    """The stateful operator: a call has new rows of a bucket, or tells that the watermark rose."""

    def __init__(self, work: Work, places: tuple[int, ...]) -> None:
        """What to do with the rows; `places` has the key that Spark knows each bucket by."""
        self._work = work
        self._places = places

    def __reduce__(self) -> tuple[Callable[[bytes], Any], tuple[bytes]]:
        """As something that tells a worker without the package what it lacks."""
        pickled: bytes = cloudpickle.dumps(partial(type(self), self._work, self._places))  # type: ignore[no-untyped-call]
        return _maker(), (pickled,)

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state."""
        self._handle = handle
        self._entries = handle.getMapState("entries", _KEY, _ENTRY)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,  # noqa: ANN401
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        """Take in packs of rows."""
        if key[0] == MARK:
            self._mark()
            return iter(())
        packs: Packs = [([], []) for _ in self._work.schemas]
        for row in rows:
            mine = packs[row.side % len(packs)][row.side // 2]
            mine.append(pa.ipc.open_stream(row.rows).read_all())
        old = self._old_header()
        if old.version and _next_timer(old.watermark) <= timerValues.getCurrentWatermarkInMs():
            self._handle.deleteTimer(_next_timer(old.watermark))
        return self._step(key[0], old, packs, timerValues)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,  # noqa: ANN401
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: ARG002, N803
    ) -> Iterator[Row]:
        """Let results out that have become final."""
        packs: Packs = [([], [])] * len(self._work.schemas)
        return self._step(key[0], self._old_header(), packs, timerValues)

    def close(self) -> None:
        """Nothing is open."""

    def _mark(self) -> None:
        """Note whose state this is, or refuse state of another query before a row is added."""
        if not self._old_header().version:
            self._put(Header(_FORMAT, self._query, 0, 0, _NONE, _MARKED))

    def _step(
        self,
        number: int,
        old: Header,
        packs: Packs,
        timers: TimerValues,
    ) -> Iterator[Row]:
        watermark = max(old.watermark, _micros(timers.getCurrentWatermarkInMs()))
        warm = self._taken(number, old)
        tables = []
        came = set_aside = 0
        for side, (at_home, copies) in enumerate(packs):
            table, late = self._divided(side, at_home, watermark)
            table, wide = self._narrow(side, table)
            set_aside += late.num_rows + wide.num_rows
            came += table.num_rows + late.num_rows + wide.num_rows
            copied, _ = self._divided(side, copies, watermark)
            copied, _ = self._narrow(side, copied)
            tables.append(self._work.gathered(side, table, copied))
            for mark, rows in ((side, late), (side + len(packs), wide)):
                if rows.num_rows and self._work.keeps_late:
                    yield from _rows(rows.to_batches(), mark)
        results, digested = _results(warm.bucket, watermark), Digested()
        if not self._work.gives_parts:
            results = digested.passed(results)
        yield from _rows(results, None)
        first, end = self._updated(old, warm, tables, watermark)
        rows_kept = sum(entry.rows for entry in warm.entries)
        kept = sum(entry.bytes for entry in warm.entries)
        of_hot_key, hot_key = self._hot_key(tables)
        numbers = Numbers(came, set_aside, rows_kept, kept, of_hot_key, hot_key)
        yield _row(None, None, digested.told(numbers))
        if first == end:
            # Nothing is left of the bucket: it is as if it had never been.
            self._entries.clear()
            return
        if not old.version or old.watermark != watermark:
            self._handle.registerTimer(_next_timer(watermark))
        header = Header(_FORMAT, self._query, first, end, watermark, uuid.uuid4().hex)
        self._put(header)
        _warm[self._place(number)] = warm._replace(header=header, used=time.monotonic())

    def _hot_key(self, tables: Sequence[pa.Table]) -> tuple[int, str | None]:
        """About how many rows of a side a key has that has most of many, and the key as text."""
        side = max(range(len(tables)), key=lambda side: tables[side].num_rows)
        rows, keys = tables[side], list(self._work.keys[side])
        if not keys or rows.num_rows < _MANY:
            return 0, None
        numbers = np.linspace(0, rows.num_rows - 1, _SAMPLED).astype(np.int64)
        sample = rows.select(keys).take(pa.array(numbers))
        groups = sample.group_by(sample.column_names).aggregate([([], "count_all")])
        counts = groups.column(groups.num_columns - 1).to_numpy()
        most = int(counts.argmax())
        if counts[most] < _HOT * _SAMPLED:
            return 0, None
        values = (groups.column(at)[most].as_py() for at in range(len(keys)))
        return rows.num_rows * int(counts[most]) // _SAMPLED, ", ".join(map(str, values))

    def _old_header(self) -> Header:
        stored = self._entries.getValue(_HEADER)
        if stored is not None:
            header = read_header(stored)
        elif self._entries.exists():
            # Its header is where an earlier format had it.
            header = Header(0, "", 0, 0, _NONE, "")
        else:
            return Header(_FORMAT, self._query, 0, 0, _NONE, "")
        if header.format != _FORMAT or header.query != self._query:
            message = "the checkpoint has the state of another query: its columns, arguments, or "
            message += "number of partitions differ, or another version of tidegate wrote it; "
            message += "start this query with a checkpoint location of its own"
            number, _, query = header.query.partition(" ")
            mine = len(self._places)
            if header.format == _FORMAT and query == self._work.query:
                message = f"the checkpoint has the state of {number} buckets, and this query has "
                message += f"{mine}: write partitions={number}, or start it with a checkpoint "
                message += "location of its own"
            raise tidegate.StateError(message)
        return header

    def _put(self, header: Header) -> None:
        """Write the header of the bucket."""
        self._entries.updateValue(_HEADER, (_NONE, [json.dumps(header).encode()]))

    @property
    def _query(self) -> str:
        """What tells the query from others, the number of its buckets first."""
        return f"{len(self._places)} {self._work.query}"

    def _place(self, number: int) -> Place:
        """The key under which a bucket's operator is cached."""
        return Place(_run(), self._query, number)

    def _taken(self, number: int, header: Header) -> Warm:
        """The operator of the bucket, as it was when the header was written."""
        mine = self._place(number)
        warm = _warm.pop(mine, None)
        _drop_outdated(mine, header.watermark)
        if warm is not None and warm.header == header:
            return warm
        del warm  # Free its memory before another operator is created.
        return self._restored(number, header)

    def _restored(self, number: int, header: Header) -> Warm:
        bucket = self._work.bucket(self._places.index(number))
        entries = []
        size = Size()
        for entry in range(header.first, header.next):
            stored = self._entries.getValue((entry,))
            if stored is None:
                message = f"the state store lacks entry {entry} of a bucket that has entries "
                message += f"{header.first} to {header.next}: the checkpoint is damaged"
                raise tidegate.StateError(message)
            until, parts = stored
            count = 0
            sides, snapshots = parts[: len(self._work.stored)], parts[len(self._work.stored) :]
            if snapshots and isinstance(bucket, Condensing):
                bucket.restore(_decompressed(snapshots[0]).to_pybytes())
                size = Size(_bytes(parts))
                count = bucket.rows
            else:
                size.since += _bytes(parts)
            for side, packed in enumerate(sides):
                if packed is not None:
                    rows = _unpacked(packed, self._work.stored[side])
                    bucket.push(side, rows)
                    count += rows.num_rows
            entries.append(Entry(until, count, _bytes(parts)))
        if header.watermark != _NONE:
            bucket.recall(header.watermark)
        return Warm(bucket, entries, size, header)

    def _divided(
        self, side: int, packs: Iterable[pa.Table], watermark: int
    ) -> tuple[pa.Table, pa.Table]:
        """The rows of a side that are in time, and the rows that are late."""
        schema = self._work.schemas[side]
        # Received types include the session time zone, which may differ between runs.
        tables = [typed(pack, schema) for pack in packs]
        rows = pa.concat_tables(tables) if tables else schema.empty_table()
        times = rows.column(self._work.times[side]).cast(pa.int64())
        if times.null_count:
            name = schema.names[self._work.times[side]]
            message = f"{self._work.names[side]}: column {name!r} has a null, and a row without a "
            message += "time has no place in a stream: filter such rows out"
            raise tidegate.TidegateError(message)
        is_late = pc.less(times, watermark)
        if not pc.any(is_late).as_py():
            return rows, schema.empty_table()
        return rows.filter(pc.invert(is_late)), rows.filter(is_late)

    def _narrow(self, side: int, rows: pa.Table) -> tuple[pa.Table, pa.Table]:
        """The rows of a side whose ends are near enough, and the others."""
        are_wide = self._work.are_wide(side, rows)
        if are_wide is None:
            return rows, rows.schema.empty_table()
        return rows.filter(pc.invert(are_wide)), rows.filter(are_wide)

    def _updated(
        self, old: Header, warm: Warm, tables: list[pa.Table], watermark: int
    ) -> tuple[int, int]:
        """Which entries there are once the rows are appended and what has ended is removed."""
        first, end = old.first, old.next
        while warm.entries and warm.entries[0].until < watermark:
            self._entries.removeKey((first,))
            first += 1
            del warm.entries[0]
        if any(table.num_rows for table in tables):
            until = max(self._work.until(side, table) for side, table in enumerate(tables))
            # In the order of the entries, so that only the oldest is looked at.
            until = max([until, *(entry.until for entry in warm.entries[-1:])])
            stored: list[bytes | None] = [None] * len(tables)
            count = 0
            for side, table in enumerate(tables):
                if table.num_rows:
                    rows = self._work.kept(side, table)
                    warm.bucket.push(side, rows)
                    stored[side] = _packed(rows)
                    count += rows.num_rows
            warm.size.since += _bytes(stored)
            is_large = warm.size.since > warm.size.snapshot + _SPARE
            if is_large and isinstance(warm.bucket, Condensing) and warm.bucket.condenses:
                for entry in range(first, end):
                    self._entries.removeKey((entry,))
                first = end
                warm.entries.clear()
                stored = _condensed(warm.bucket)
                count = warm.bucket.rows
                warm.size.snapshot, warm.size.since = _bytes(stored), 0
            warm.entries.append(Entry(until, count, _bytes(stored)))
            self._entries.updateValue((end,), (until, stored))
            end += 1
        return first, end


class PandasProcessor(Processor):
    """The same where Spark hands rows over as pandas frames only, before 4.1."""

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,  # noqa: ANN401
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Any]:
        """Take in packs of rows."""
        packs = (row for frame in rows for row in frame.itertuples(index=False))
        return map(_frame, super().handleInputRows(key, packs, timerValues))

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,  # noqa: ANN401
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Any]:
        """Let results out that have become final."""
        return map(_frame, super().handleExpiredTimer(key, timerValues, expiredTimerInfo))


def _frame(row: Row) -> Any:  # noqa: ANN401 - pandas publishes no types
    """A row of the output as a pandas frame; a number that may lack stays one."""
    import pandas as pd  # noqa: PLC0415 - only where it is needed

    kinds = {"late": "Int8", "rows": "object", "hot_key": "object"}
    told = row.asDict().items()
    return pd.DataFrame({name: pd.array([one], kinds.get(name, "Int64")) for name, one in told})


def _run() -> str:
    """The ID of the streaming query that a task belongs to, which survives restarts."""
    context = TaskContext.get()
    return (context and context.getLocalProperty("sql.streaming.queryId")) or ""


def _drop_outdated(taken: Place, watermark: int) -> None:
    """Drop operators that can no longer match any header or have not been used for a long time.

    `watermark` is taken from the header of the bucket `taken`. The micro-batch that wrote this
    header also wrote one with the same watermark for every other bucket of the query that has
    state.
    """
    now = time.monotonic()
    for place, warm in list(_warm.items()):
        is_of_query = place._replace(number=taken.number) == taken
        if (is_of_query and warm.header.watermark < watermark) or now - warm.used > _IDLE:
            del _warm[place]


def _maker() -> Callable[[bytes], Processor]:
    """What makes a processor of a pickle; pickled whole, as what `loader` returns."""
    load = loader()

    def make(pickled: bytes) -> Processor:
        made: Processor = load(pickled)()
        return made

    return make


def _condensed(bucket: Condensing) -> list[bytes | None]:
    """An entry that stands for all before: by side the rows that wait, then the snapshot."""
    snapshot = bucket.snapshot()
    waiting = [None if rows is None else _packed(rows) for rows in snapshot.waiting]
    return [*waiting, _compressed(pa.py_buffer(snapshot.native))]


def _bytes(parts: Iterable[bytes | None]) -> int:
    """The bytes of an entry."""
    return sum(len(part) for part in parts if part is not None)


def _packed(rows: pa.RecordBatch) -> bytes:
    """Rows as the store has them."""
    return _compressed(rows.serialize())


def _unpacked(stored: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """What `_packed` was given."""
    return pa.ipc.read_record_batch(_decompressed(stored), schema)


def _compressed(plain: pa.Buffer) -> bytes:
    size: int = plain.size
    compressed: bytes = _CODEC.compress(plain, asbytes=True)
    return size.to_bytes(_SIZE, "little") + compressed


def _decompressed(stored: bytes) -> pa.Buffer:
    size = int.from_bytes(stored[:_SIZE], "little")
    return _CODEC.decompress(stored[_SIZE:], size)


def _next_timer(watermark: int) -> int:
    """A time that passes as soon as the watermark rises."""
    return max(0, watermark // _MILLISECOND) + 1


def _micros(watermark: int) -> int:
    """Spark's watermark as ours; it says 0 as long as it has none."""
    return watermark * _MILLISECOND if watermark > 0 else _NONE


def _results(bucket: Bucket, watermark: int) -> Iterator[pa.RecordBatch]:
    """What is final at a watermark and was not before."""
    if watermark != _NONE:
        bucket.advance(watermark)
    return iter(bucket.poll, None)


def _rows(batches: Iterable[pa.RecordBatch], late: int | None) -> Iterator[Row]:
    """Batches as rows of the operator's output."""
    for batch in batches:
        if not batch.num_rows:
            continue
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        yield _row(late, sink.getvalue().to_pybytes(), Numbers())


def _row(late: int | None, rows: bytes | None, numbers: Numbers) -> Row:
    """A row of the operator's output."""
    return Row(late=late, rows=rows, **numbers._asdict())
