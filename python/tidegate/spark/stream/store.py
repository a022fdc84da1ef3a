"""Runs native operators for streams in a Python worker, with their rows in Spark's state store.

Each bucket of keys has its own native operator. The rows that a micro-batch adds to a bucket are
appended to the store once, as one *entry*. The entry is removed once none of its rows can still
matter. While the operator stays in the worker's memory from batch to batch, entries are never read.
The store is still authoritative. Every update to a bucket writes a new random number into the
bucket's *header*, an entry with a separate key. An operator in memory is used only if it has
the same number as the header. If the numbers differ, the operator's last batch was not committed,
or another worker has since processed the bucket. If no operator can be used, a new one is created.
The new operator receives the entries of the bucket and is advanced to the watermark in the header.
Results up to that watermark have already been emitted. A join that emits pairs recomputes old pairs
only if it needs to know which rows were matched.

Spark may run a bucket's task on any idle worker, so operators of earlier micro-batches remain on
other workers. A worker keeps at most one operator per bucket. Workers also drop operators with an
old watermark. Every bucket is updated whenever the watermark advances, so such operators must be
out of date.

Judging by their times alone, some rows may be needed indefinitely. Examples are the last right row
with a key, which a left row may match, and any row in an open session. The operator drops such a
row once a later row replaces it, or once the session's state includes it. Without further measures,
the entries of such an operator (`condenses`) would grow indefinitely. Therefore, all entries are
removed once they take up somewhat more space than the operator's last *snapshot*. A new snapshot
then becomes the first new entry. As a result, each row is written at most about twice, and the
store is about twice as large as the operator's state.

`operators.py` defines the operators and the rows that they store.
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

# The output of a bucket: record batches of results, or of late rows on a side. If the end of a row
# is too far away, the number of its side is increased by the number of sides. Each bucket that had
# any work also emits a row without a batch, with numbers for the query's progress (`metrics.py`).
OUTPUT = f"late tinyint, rows binary, {COLUMNS}"

# The names and types of a bucket's data in the store. The format number must change with them. The
# types are not strings, because Spark would parse them in each task of each micro-batch. There is
# only one state variable, because Spark creates encoders for each of them in every task.
_FORMAT = 5
_KEY = StructType().add("entry", LongType())
_ENTRY = StructType().add("until", LongType()).add("rows", ArrayType(BinaryType()))

# The key of the entry with the header. Before format 5, the header was a separate state variable.
_HEADER = (-1,)

# The codec for rows in the store, which follow their uncompressed size. With RocksDB's own codec,
# rows take up a third more space.
_CODEC = pa.Codec("zstd", compression_level=1)
_SIZE = 8

# The number of bytes by which entries must exceed the last snapshot before a new one is written.
_SPARE = 1 << 16

# If a bucket receives at least `_MANY` rows on a side in one batch, `_SAMPLED` of these rows are
# checked for a hot key. A key is hot if at least the share `_HOT` of them has this key.
_MANY = 10_000
_SAMPLED = 1_000
_HOT = 0.5

# An operator that is not used for this number of seconds is dropped.
_IDLE = 600.0

_MILLISECOND = 1_000

# The version in the header of a mark, which has no operator.
_MARKED = "mark"

# The watermark of a query that has none yet. No row is older than it.
_NONE = -(2**63) + 1


class Header(NamedTuple):
    """The description of a bucket in the store."""

    format: int
    query: str
    first: int
    next: int
    watermark: int
    version: str


def read_header(stored: tuple[int, list[bytes]]) -> Header:
    """Return the header from an entry of the store."""
    _, [text] = stored
    return Header(*json.loads(text))


@dataclass
class Size:
    """The sizes, in bytes, of a bucket's last snapshot and of the entries written since then."""

    snapshot: int = 0
    since: int = 0


class Entry(NamedTuple):
    """An entry in the store: the last watermark at which it matters, and its rows and bytes."""

    until: int
    rows: int
    bytes: int


class Warm(NamedTuple):
    """A bucket in memory, with its store entries and their size.

    The bucket has the state described by `header` and was last used at time `used`.
    """

    bucket: Bucket
    entries: list[Entry]
    size: Size
    header: Header
    used: float = 0.0


# For each side, tables of rows that are at home in the bucket, and tables of copies.
Packs = list[tuple[list[pa.Table], list[pa.Table]]]


class Place(NamedTuple):
    """A bucket of a running query."""

    run: str
    query: str
    number: int


_warm: dict[Place, Warm] = {}


class Processor(StatefulProcessor):
    """The stateful operator, which Spark calls for a bucket's new rows and for new watermarks."""

    def __init__(self, work: Work, places: tuple[int, ...]) -> None:
        """Create the operator for `work`; `places` contains Spark's key for each bucket."""
        self._work = work
        self._places = places

    def __reduce__(self) -> tuple[Callable[[bytes], Any], tuple[bytes]]:
        """Pickle the operator so that a worker without the package reports a clear error."""
        pickled: bytes = cloudpickle.dumps(partial(type(self), self._work, self._places))  # type: ignore[no-untyped-call]
        return _maker(), (pickled,)

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state variable."""
        self._handle = handle
        self._entries = handle.getMapState("entries", _KEY, _ENTRY)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,  # noqa: ANN401
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        """Process packs of rows."""
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
        """Emit the results that have become final."""
        packs: Packs = [([], [])] * len(self._work.schemas)
        return self._step(key[0], self._old_header(), packs, timerValues)

    def close(self) -> None:
        """Do nothing, because there is nothing to close."""

    def _mark(self) -> None:
        """Record the query in the state, or reject the state of another query."""
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
            # The bucket has no entries left, so its header is also removed.
            self._entries.clear()
            return
        if not old.version or old.watermark != watermark:
            self._handle.registerTimer(_next_timer(watermark))
        header = Header(_FORMAT, self._query, first, end, watermark, uuid.uuid4().hex)
        self._put(header)
        _warm[self._place(number)] = warm._replace(header=header, used=time.monotonic())

    def _hot_key(self, tables: Sequence[pa.Table]) -> tuple[int, str | None]:
        """Return a hot key as text, preceded by the approximate number of its rows on one side."""
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
            # The state has an earlier format, in which the header is stored elsewhere.
            header = Header(0, "", 0, 0, _NONE, "")
        else:
            return Header(_FORMAT, self._query, 0, 0, _NONE, "")
        if header.format != _FORMAT or header.query != self._query:
            message = "the checkpoint has the state of another query: "
            message += "its columns, arguments or number of partitions differ, "
            message += "or a different version of tidegate wrote it; "
            message += "start this query with a new checkpoint location"
            number, _, query = header.query.partition(" ")
            mine = len(self._places)
            if header.format == _FORMAT and query == self._work.query:
                message = f"the checkpoint has the state of {number} buckets, but this query has "
                message += f"{mine}; write partitions={number}, "
                message += "or start the query with a new checkpoint location"
            raise tidegate.StateError(message)
        return header

    def _put(self, header: Header) -> None:
        """Write the header of the bucket."""
        self._entries.updateValue(_HEADER, (_NONE, [json.dumps(header).encode()]))

    @property
    def _query(self) -> str:
        """The query's identity, which starts with its number of buckets."""
        return f"{len(self._places)} {self._work.query}"

    def _place(self, number: int) -> Place:
        """The key under which a bucket's operator is cached."""
        return Place(_run(), self._query, number)

    def _taken(self, number: int, header: Header) -> Warm:
        """Return the bucket's operator, in the state that the header describes."""
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
                message = f"the state store lacks entry {entry} of a bucket, "
                message += f"which has entries {header.first} to {header.next}; "
                message += "the checkpoint is damaged"
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
        """Return a side's rows that are on time, and its late rows."""
        schema = self._work.schemas[side]
        # Received types include the session time zone, which may differ between runs.
        tables = [typed(pack, schema) for pack in packs]
        rows = pa.concat_tables(tables) if tables else schema.empty_table()
        times = rows.column(self._work.times[side]).cast(pa.int64())
        if times.null_count:
            name = schema.names[self._work.times[side]]
            message = f"{self._work.names[side]}: column {name!r} has a null, "
            message += "but each row in a stream needs a time; filter such rows out"
            raise tidegate.TidegateError(message)
        is_late = pc.less(times, watermark)
        if not pc.any(is_late).as_py():
            return rows, schema.empty_table()
        return rows.filter(pc.invert(is_late)), rows.filter(is_late)

    def _narrow(self, side: int, rows: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Return a side's rows whose ends are close enough, and its remaining rows."""
        are_wide = self._work.are_wide(side, rows)
        if are_wide is None:
            return rows, rows.schema.empty_table()
        return rows.filter(pc.invert(are_wide)), rows.filter(are_wide)

    def _updated(
        self, old: Header, warm: Warm, tables: list[pa.Table], watermark: int
    ) -> tuple[int, int]:
        """Append the rows and remove expired entries. Returns the range of entry numbers."""
        first, end = old.first, old.next
        while warm.entries and warm.entries[0].until < watermark:
            self._entries.removeKey((first,))
            first += 1
            del warm.entries[0]
        if any(table.num_rows for table in tables):
            until = max(self._work.until(side, table) for side, table in enumerate(tables))
            # No entry expires before an older one, so only the oldest needs to be checked.
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
    """The operator for Spark before 4.1, which passes rows only as pandas frames."""

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,  # noqa: ANN401
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Any]:
        """Process packs of rows."""
        packs = (row for frame in rows for row in frame.itertuples(index=False))
        return map(_frame, super().handleInputRows(key, packs, timerValues))

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,  # noqa: ANN401
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Any]:
        """Emit the results that have become final."""
        return map(_frame, super().handleExpiredTimer(key, timerValues, expiredTimerInfo))


def _frame(row: Row) -> Any:  # noqa: ANN401 - pandas publishes no types
    """Return a row of the output as a pandas frame, with nullable integers."""
    import pandas as pd  # noqa: PLC0415 - only where it is needed

    kinds = {"late": "Int8", "rows": "object", "hot_key": "object"}
    told = row.asDict().items()
    return pd.DataFrame({name: pd.array([one], kinds.get(name, "Int64")) for name, one in told})


def _run() -> str:
    """Return the ID of the streaming query that a task belongs to. Restarts preserve the ID."""
    context = TaskContext.get()
    return (context and context.getLocalProperty("sql.streaming.queryId")) or ""


def _drop_outdated(taken: Place, watermark: int) -> None:
    """Drop operators that can no longer match any header or have not been used for a long time.

    `watermark` comes from the header of the `taken` bucket. The micro-batch that wrote this header
    also wrote a header for every other bucket of the query that has state. All of these headers
    have the same watermark.
    """
    now = time.monotonic()
    for place, warm in list(_warm.items()):
        is_of_query = place._replace(number=taken.number) == taken
        if (is_of_query and warm.header.watermark < watermark) or now - warm.used > _IDLE:
            del _warm[place]


def _maker() -> Callable[[bytes], Processor]:
    """Return a function that unpickles a processor. The function itself is pickled by value."""
    load = loader()

    def make(pickled: bytes) -> Processor:
        made: Processor = load(pickled)()
        return made

    return make


def _condensed(bucket: Condensing) -> list[bytes | None]:
    """Return an entry that replaces all others: each side's waiting rows, then the snapshot."""
    snapshot = bucket.snapshot()
    waiting = [None if rows is None else _packed(rows) for rows in snapshot.waiting]
    return [*waiting, _compressed(pa.py_buffer(snapshot.native))]


def _bytes(parts: Iterable[bytes | None]) -> int:
    """Return the size of an entry, in bytes."""
    return sum(len(part) for part in parts if part is not None)


def _packed(rows: pa.RecordBatch) -> bytes:
    """Return rows in the format of the store."""
    return _compressed(rows.serialize())


def _unpacked(stored: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows that `_packed` converted."""
    return pa.ipc.read_record_batch(_decompressed(stored), schema)


def _compressed(plain: pa.Buffer) -> bytes:
    size: int = plain.size
    compressed: bytes = _CODEC.compress(plain, asbytes=True)
    return size.to_bytes(_SIZE, "little") + compressed


def _decompressed(stored: bytes) -> pa.Buffer:
    size = int.from_bytes(stored[:_SIZE], "little")
    return _CODEC.decompress(stored[_SIZE:], size)


def _next_timer(watermark: int) -> int:
    """Return a time that the watermark passes as soon as it advances."""
    return max(0, watermark // _MILLISECOND) + 1


def _micros(watermark: int) -> int:
    """Convert Spark's watermark to microseconds; 0 means that Spark has none yet."""
    return watermark * _MILLISECOND if watermark > 0 else _NONE


def _results(bucket: Bucket, watermark: int) -> Iterator[pa.RecordBatch]:
    """Advance a bucket to a watermark, and iterate over the results that become final."""
    if watermark != _NONE:
        bucket.advance(watermark)
    return iter(bucket.poll, None)


def _rows(batches: Iterable[pa.RecordBatch], late: int | None) -> Iterator[Row]:
    """Yield batches as rows of the operator's output."""
    for batch in batches:
        if not batch.num_rows:
            continue
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        yield _row(late, sink.getvalue().to_pybytes(), Numbers())


def _row(late: int | None, rows: bytes | None, numbers: Numbers) -> Row:
    """Return a row of the operator's output."""
    return Row(late=late, rows=rows, **numbers._asdict())
