"""The native work of a bucket of a stream: the join or the aggregation of its rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate._tidegate import AggregationQuery
from tidegate.spark.worker.aggregate import in_order
from tidegate.spark.worker.order import by_value
from tidegate.spark.worker.pack import NAMES, RIGHT
from tidegate.spark.worker.task import at_home, threads

if TYPE_CHECKING:
    from collections.abc import Sequence

    import tidegate
    from tidegate._tidegate import JoinQuery
    from tidegate.spark.layout.cycle import Cycle
    from tidegate.spark.worker.aggregate import Aggregation
    from tidegate.types import Length

# Later than every time, and the lateness that lets no row be late, in Spark's microseconds.
_FOREVER = 2**63 - 1
_ANY_LATENESS = np.timedelta64(_FOREVER, "us")

# Where the table of rows that were set aside has the number of a row of its source.
_POSITION = 2


class Bucket(Protocol):
    """The rows of a bucket in a native operator."""

    def push(self, side: int, rows: pa.RecordBatch) -> None:
        """Take rows of a side that are not late."""

    def advance(self, watermark: int) -> None:
        """No earlier row will come."""

    def recall(self, watermark: int) -> None:
        """Like `advance`, but omit results up to the watermark; they were emitted elsewhere."""

    def poll(self) -> pa.RecordBatch | None:
        """The next results that are final, if there are any."""


class Work(Protocol):
    """A query as the workers need it. A join has two sides, an aggregation one."""

    @property
    def query(self) -> str:
        """What tells it from other queries."""

    @property
    def keeps_late(self) -> bool:
        """Whether late rows come out."""

    @property
    def gives_parts(self) -> bool:
        """Whether results are parts, which depend on where rows go, and are put together later."""

    @property
    def names(self) -> tuple[str, ...]:
        """What messages call the sides."""

    @property
    def schemas(self) -> tuple[pa.Schema, ...]:
        """By side, what is sent of it."""

    @property
    def times(self) -> tuple[int, ...]:
        """By side, the position of the time column."""

    @property
    def stored(self) -> tuple[pa.Schema, ...]:
        """By side, what is kept of it."""

    @property
    def keys(self) -> tuple[tuple[int, ...], ...]:
        """By side, the positions of the key columns."""

    def bucket(self, number: int) -> Bucket:
        """The bucket of this number, without rows."""

    def gathered(self, side: int, home: pa.Table, copies: pa.Table) -> pa.Table:
        """The rows of a side, those at home in the bucket and copies of others."""

    def kept(self, side: int, rows: pa.Table) -> pa.RecordBatch:
        """What the operator gets of gathered rows, and the store keeps."""

    def until(self, side: int, rows: pa.Table) -> int:
        """The last watermark at which some of the rows matter."""

    def are_wide(self, side: int, rows: pa.Table) -> pa.Array | None:
        """Which rows have an end that is too far away, None if there are none."""


@dataclass(frozen=True)
class Sides:
    """A join of two streams that runs as a native operator.

    `lasting` specifies, for each side, how long after its time a row can still matter, in
    microseconds; None means indefinitely. With `gives_left_rows`, each left row is emitted at most
    once. If the order of right rows with equal times affects the result, they are ordered by value,
    starting with the column `ties`. With `condenses`, the operator may need fewer rows than their
    times suggest. If both sides are copied, the columns named by `home` show which rows are
    originals. `keys` contains column positions.
    """

    join: JoinQuery
    max_width: Length | None
    schemas: tuple[pa.Schema, pa.Schema]
    times: tuple[int, int]
    lasting: tuple[int | None, int | None]
    query: str
    keeps_late: bool
    gives_left_rows: bool = False
    ties: str | None = None
    condenses: bool = False
    home: tuple[str, str] | None = None
    keys: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())

    names: ClassVar[tuple[str, str]] = NAMES
    gives_parts: ClassVar[bool] = False

    @property
    def stored(self) -> tuple[pa.Schema, pa.Schema]:
        """Rows are kept as they are gathered."""
        if self.home is None:
            return self.schemas
        (left, right), (left_home, right_home) = self.schemas, self.home
        return (
            left.append(pa.field(left_home, pa.bool_())),
            right.append(pa.field(right_home, pa.bool_())),
        )

    def bucket(self, number: int) -> Bucket:  # noqa: ARG002 - all buckets are alike
        """A native join without rows. Only `advance` raises its watermarks."""
        query = self.join.replace(threads=threads())
        if self.home is not None:
            query = query.replace(columns=[*query.arguments["columns"], *self.home])
        join = self._operator(query, self.stored)
        return LeftRows(self, join) if self.gives_left_rows else _Join(join, self.home)

    def _operator(
        self, query: JoinQuery, schemas: tuple[pa.Schema, pa.Schema]
    ) -> tidegate.StreamJoin:
        return query.operator(*schemas, max_width=self.max_width, lateness=_ANY_LATENESS, pin=False)

    def gathered(self, side: int, home: pa.Table, copies: pa.Table) -> pa.Table:
        """The rows, with a column for their home if it decides what is reported."""
        parts = [home, copies]
        if self.home is not None:
            parts = [
                rows.append_column(self.home[side], pa.array(np.full(rows.num_rows, is_home)))
                for rows, is_home in zip(parts, (True, False), strict=True)
            ]
        return pa.concat_tables(parts)

    def kept(self, side: int, rows: pa.Table) -> pa.RecordBatch:  # noqa: ARG002 - those of any side
        """The rows."""
        return _one_batch(rows)

    def are_wide(self, side: int, rows: pa.Table) -> pa.Array | None:
        """The rows that a native join of these alone sets aside."""
        if self.max_width is None or not rows.num_rows:
            return None
        join = self._operator(self.join.replace(threads=1), self.schemas)
        join.sources[side].push(rows)
        set_aside = join.late().column(_POSITION).to_numpy()
        if not len(set_aside):
            return None
        are_wide = np.zeros(rows.num_rows, np.bool_)
        are_wide[set_aside] = True
        return pa.array(are_wide)

    def until(self, side: int, rows: pa.Table) -> int:
        """As long as a partner may come, or have come, and a step more (`_advance`)."""
        lasting = self.lasting[side]
        return _last(rows.column(self.times[side]), None if lasting is None else lasting + 1)


@dataclass(frozen=True)
class _Join:
    native: tidegate.StreamJoin
    home: tuple[str, str] | None

    def push(self, side: int, rows: pa.RecordBatch) -> None:
        self.native.sources[side].push(rows)

    def advance(self, watermark: int) -> None:
        _advance(self.native.sources, watermark)

    def recall(self, watermark: int) -> None:
        self.advance(watermark)
        _recall(self.native)

    def poll(self) -> pa.RecordBatch | None:
        batch = self.native.poll()
        return batch if batch is None or self.home is None else at_home(batch, *self.home)


class Snapshot(NamedTuple):
    """The state of a bucket: the native operator's, and by side the rows that it has not got."""

    native: bytes
    waiting: tuple[pa.RecordBatch | None, ...]


class Condensing(ABC):
    """A bucket whose state may be smaller than the rows that may matter by their times."""

    @property
    @abstractmethod
    def condenses(self) -> bool:
        """Whether it may be."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """The state, once all results that are final have been polled."""

    @abstractmethod
    def restore(self, native: bytes) -> None:
        """Go on from a native snapshot, before there are any rows."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """The rows that are kept; the state of a session is none."""


class LeftRows(Condensing):
    """A native join that gives each left row one row.

    If the order of right rows shows, it gets them once the watermark has passed them. Then all rows
    of a time are there, and their order depends on them alone.
    """

    def __init__(self, work: Sides, native: tidegate.StreamJoin) -> None:
        """A join without rows."""
        self._work = work
        self._native = native
        self._waiting = work.schemas[RIGHT].empty_table()

    def push(self, side: int, rows: pa.RecordBatch) -> None:
        """Take rows of a side that are not late."""
        if side == RIGHT and self._work.ties is not None:
            self._waiting = pa.concat_tables([self._waiting, pa.Table.from_batches([rows])])
        else:
            self._native.sources[side].push(rows)

    def advance(self, watermark: int) -> None:
        """No earlier row will come."""
        if self._waiting.num_rows and self._work.ties is not None:
            times = self._waiting.column(self._work.times[RIGHT]).cast(pa.int64())
            is_ready = pc.less(times, watermark)
            ready, times = self._waiting.filter(is_ready), times.filter(is_ready)
            rows = by_value(ready, self._work.ties, times.to_numpy())
            self._native.sources[RIGHT].push(rows)
            self._waiting = self._waiting.filter(pc.invert(is_ready)).combine_chunks()
        _advance(self._native.sources, watermark)

    def recall(self, watermark: int) -> None:
        """Like `advance`, but omit results up to the watermark; they were emitted elsewhere."""
        self.advance(watermark)
        _recall(self._native)

    def poll(self) -> pa.RecordBatch | None:
        """The next results that are final, if there are any."""
        return self._native.poll()

    @property
    def condenses(self) -> bool:
        """Whether a snapshot may be smaller than the rows that may matter by their times."""
        return self._work.condenses

    def snapshot(self) -> Snapshot:
        """The state, once all results that are final have been polled."""
        waiting = _one_batch(self._waiting) if self._waiting.num_rows else None
        return Snapshot(self._native.snapshot(), (None, waiting))

    def restore(self, native: bytes) -> None:
        """Go on from a native snapshot, before there are any rows."""
        self._native.restore(native)

    @property
    def rows(self) -> int:
        """The rows that are kept."""
        return int(self._native.stats()["state_rows"] + self._waiting.num_rows)


@dataclass(frozen=True)
class Windows:
    """An aggregation of streams, whose rows come as one stream of which `source` is a column.

    Where the order of rows shows in no result, `slices` makes of the rows of a micro-batch what is
    kept of them: aggregates by slice of `slice` microseconds, counted from `offset`. Then `final`
    aggregates these; else `slices` is None, and it aggregates the rows. Windows are `size`
    microseconds long, if they are no sessions. With a `cycle`, a bucket has all rows of the windows
    that begin in its slices, and some rows of others.
    """

    schema: pa.Schema
    kept_schema: pa.Schema
    slices: Aggregation | None
    final: Aggregation
    sources: int
    source: str | None
    size: int | None
    slice: int | None
    offset: int
    query: str
    keeps_late: bool
    gives_parts: bool = False
    cycle: Cycle | None = None

    names: ClassVar[tuple[str]] = ("streams",)
    times: ClassVar[tuple[int]] = (0,)

    @property
    def schemas(self) -> tuple[pa.Schema]:
        """The columns that are read, the time first."""
        return (self.schema,)

    @property
    def stored(self) -> tuple[pa.Schema]:
        """Rows, or slices."""
        return (self.kept_schema,)

    def bucket(self, number: int) -> Bucket:
        """A native aggregation without rows."""
        return _Aggregate(self, number)

    def owned(self, windows: pa.RecordBatch, number: int) -> pa.RecordBatch:
        """The windows that a bucket gives, which is the one of the slice of their starts."""
        if self.cycle is None:
            return windows
        starts = windows.column("window_start").cast(pa.int64()).to_numpy()
        nowhere = np.zeros(len(starts), np.int64)
        slices, _ = self.cycle.slices(nowhere, starts, self.cycle.left_span, None)
        return windows.filter(pa.array(self.cycle.partition_of[slices] == number))

    def gathered(self, side: int, home: pa.Table, copies: pa.Table) -> pa.Table:  # noqa: ARG002 - there is one
        """The rows."""
        return pa.concat_tables([home, copies])

    def kept(self, side: int, rows: pa.Table) -> pa.RecordBatch:  # noqa: ARG002 - there is one
        """The rows, or what their slices add up to."""
        if self.slices is not None:
            rows = self.slices.run([rows]).select(self.kept_schema.names)
        return _one_batch(rows)

    def are_wide(self, side: int, rows: pa.Table) -> pa.Array | None:  # noqa: ARG002 - as of joins
        """None: windows are of one width."""
        return None

    def until(self, side: int, rows: pa.Table) -> int:
        """As long as a window of the rows is open; a session may be for ever."""
        return _last(rows.column(self.times[side]), None if self.has_sessions else self.size)

    @property
    def keys(self) -> tuple[tuple[int, ...]]:
        """The positions of the key columns."""
        return (tuple(map(self.schema.names.index, self.final.by)),)

    @property
    def has_sessions(self) -> bool:
        """Whether windows are sessions."""
        return self.final.session is not None

    def start(self, time: int) -> int:
        """Where the slice begins that a time is in; where there are none, the time."""
        if self.slices is None or self.slice is None:
            return time
        return (time - self.offset) // self.slice * self.slice + self.offset


class _Aggregate(Condensing):
    """A native aggregation that gets rows once the watermark has passed them.

    So it gets them in an order that depends on them alone. A session may go on for ever, and its
    state stands for its rows.
    """

    def __init__(self, work: Windows, number: int) -> None:
        self._work = work
        self._number = number
        query = AggregationQuery(**work.final.arguments, threads=threads())
        self._native = query.operator(work.kept_schema, sources=work.sources)
        self._waiting: list[pa.Table] = []

    def push(self, side: int, rows: pa.RecordBatch) -> None:  # noqa: ARG002 - there is one
        self._waiting.append(pa.Table.from_batches([rows]))

    def advance(self, watermark: int) -> None:
        # A slice in which the watermark is may still get rows.
        before = self._work.start(watermark)
        if self._waiting:
            rows = pa.concat_tables(self._waiting)
            is_ready = pc.less(rows.column(self._work.final.on).cast(pa.int64()), before)
            self._take(rows.filter(is_ready))
            self._waiting = [rows.filter(pc.invert(is_ready)).combine_chunks()]
        for source in self._native.sources:
            source.advance(before)

    def recall(self, watermark: int) -> None:
        self.advance(watermark)
        _recall(self._native)

    def _take(self, rows: pa.Table) -> None:
        on, name = self._work.final.on, self._work.source
        for number, source in enumerate(self._native.sources):
            mine = rows
            if self._work.sources > 1 and name is not None:
                mine = rows.filter(pc.equal(rows.column(name), number))
            if self._work.slices is None:
                mine = in_order(mine, on, days=False)
            else:
                mine = mine.take(pc.sort_indices(mine.column(on)))
            source.push(mine)

    def poll(self) -> pa.RecordBatch | None:
        batch = self._native.poll()
        return None if batch is None else self._work.owned(batch, self._number)

    @property
    def condenses(self) -> bool:
        return self._work.has_sessions

    def snapshot(self) -> Snapshot:
        waiting = pa.concat_tables(self._waiting) if self._waiting else None
        rows = _one_batch(waiting) if waiting is not None and waiting.num_rows else None
        return Snapshot(self._native.snapshot(), (rows,))

    def restore(self, native: bytes) -> None:
        self._native.restore(native)

    @property
    def rows(self) -> int:
        return sum(rows.num_rows for rows in self._waiting)


def _advance(sources: Sequence[tidegate.Source], watermark: int) -> None:
    """Release the results that are final once all rows before the watermark have arrived.

    In merged order, a left row whose time equals the watermark could be emitted, too. Whether it is
    emitted at this watermark or at the next would then depend on the micro-batch that contains
    it, and a rebuilt operator could not tell. Sources therefore stay one step behind.
    """
    for source in sources:
        source.advance(watermark - 1)


def _recall(native: Any) -> None:  # noqa: ANN401 - its stub has only public methods
    """Process all ready rows but discard their results, which have already been emitted."""
    native._recall()  # noqa: SLF001 - of Rust


def _one_batch(rows: pa.Table) -> pa.RecordBatch:
    if rows.num_rows == 0:
        return pa.RecordBatch.from_pylist([], schema=rows.schema)
    [batch] = rows.combine_chunks().to_batches()
    return batch


def _last(times: pa.ChunkedArray, lasting: int | None) -> int:
    """The latest of `times`, plus `lasting`; for ever if that is None, never without times."""
    latest = pc.max(times.cast(pa.int64())).as_py()
    if latest is None:
        return -_FOREVER
    return _FOREVER if lasting is None else min(latest + lasting, _FOREVER)
