"""The native operators that join or aggregate one bucket's rows."""

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
from tidegate.windows import Rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import tidegate
    from tidegate._tidegate import JoinQuery, RollingQuery
    from tidegate.spark.layout.cycle import Cycle
    from tidegate.spark.worker.aggregate import Aggregation
    from tidegate.types import Length

# A time later than all others, and a lateness with which no row is late, both in microseconds.
_FOREVER = 2**63 - 1
_ANY_LATENESS = np.timedelta64(_FOREVER, "us")

# The column with a row's position in its source, in the table of rows that were set aside.
_POSITION = 2


class Bucket(Protocol):
    """A bucket's rows in a native operator."""

    def push(self, side: int, rows: pa.RecordBatch) -> None:
        """Push the rows from one side that are not late."""

    def advance(self, watermark: int) -> None:
        """Advance the watermark. No earlier row will arrive."""

    def recall(self, watermark: int) -> None:
        """Advance, but discard results up to the watermark: they were emitted elsewhere."""

    def poll(self) -> pa.RecordBatch | None:
        """Return the next final results, or None if there are none."""


class Work(Protocol):
    """A query in the form that the workers need. An aggregation has only one side."""

    @property
    def query(self) -> str:
        """The identity of the query."""

    @property
    def keeps_late(self) -> bool:
        """Return whether late rows are emitted."""

    @property
    def gives_parts(self) -> bool:
        """Return whether results are parts that depend on the layout and are merged later."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names that messages use for the sides."""

    @property
    def schemas(self) -> tuple[pa.Schema, ...]:
        """The schema of the sent rows, for each side."""

    @property
    def times(self) -> tuple[int, ...]:
        """The position of the time column, for each side."""

    @property
    def stored(self) -> tuple[pa.Schema, ...]:
        """The schema of the stored rows, for each side."""

    @property
    def keys(self) -> tuple[tuple[int, ...], ...]:
        """The positions of the key columns, for each side."""

    def bucket(self, number: int) -> Bucket:
        """Return an empty bucket with this number."""

    def gathered(self, side: int, home: pa.Table, copies: pa.Table) -> pa.Table:
        """Return one side's rows: the rows at home in the bucket, and the copies."""

    def kept(self, side: int, rows: pa.Table) -> pa.RecordBatch:
        """Convert gathered rows to the form that the operator and the store receive."""

    def until(self, side: int, rows: pa.Table) -> int:
        """Return the last watermark at which any of the rows can still matter."""

    def are_wide(self, side: int, rows: pa.Table) -> pa.Array | None:
        """Return which rows have an end that is too far away, or None if there are none."""


@dataclass(frozen=True)
class Sides:
    """A join of two streams that runs as a native operator.

    `lasting` specifies how long after its time a row on each side can still matter, in
    microseconds; None means indefinitely. With `gives_left_rows`, each left row is emitted at most
    once. If the order of right rows with equal times affects the result, they are ordered by value,
    with column `ties` first. With `condenses`, the operator may need fewer rows than their times
    suggest. If both sides are copied, the `home` columns show which rows are originals. `keys`
    contains column positions.
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
        """The schemas of the gathered rows, which are stored unchanged."""
        if self.home is None:
            return self.schemas
        (left, right), (left_home, right_home) = self.schemas, self.home
        return (
            left.append(pa.field(left_home, pa.bool_())),
            right.append(pa.field(right_home, pa.bool_())),
        )

    def bucket(self, number: int) -> Bucket:  # noqa: ARG002 - all buckets are alike
        """Return an empty native join. Only `advance` raises its watermarks."""
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
        """Return the rows, with a column that marks rows at home if the join needs it."""
        parts = [home, copies]
        if self.home is not None:
            parts = [
                rows.append_column(self.home[side], pa.array(np.full(rows.num_rows, is_home)))
                for rows, is_home in zip(parts, (True, False), strict=True)
            ]
        return pa.concat_tables(parts)

    def kept(self, side: int, rows: pa.Table) -> pa.RecordBatch:  # noqa: ARG002 - those of any side
        """Return the rows as one batch."""
        return _one_batch(rows)

    def are_wide(self, side: int, rows: pa.Table) -> pa.Array | None:
        """Return which rows a native join sets aside as too wide, or None if there are none."""
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
        """Return the last watermark at which rows can still matter, plus one step (`_advance`)."""
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
    """A bucket's state: a snapshot of its native operator, and the rows not yet pushed."""

    native: bytes
    waiting: tuple[pa.RecordBatch | None, ...]


class Condensing(ABC):
    """A bucket whose state may need fewer rows than their times suggest."""

    @property
    @abstractmethod
    def condenses(self) -> bool:
        """Return whether a snapshot may need fewer rows than their times suggest."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """Return the state. Callers must have polled all final results."""

    @abstractmethod
    def restore(self, native: bytes) -> None:
        """Restore the state from a native snapshot. The bucket must still be empty."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """The number of rows that are kept. A session's state is not counted as rows."""


class LeftRows(Condensing):
    """A native join that returns each left row once.

    If results depend on the order of right rows, the join receives a right row only after the
    watermark has passed it. By then, all rows with the same time have arrived, and the order
    depends only on their values.
    """

    def __init__(self, work: Sides, native: tidegate.StreamJoin) -> None:
        """Create a join without rows."""
        self._work = work
        self._native = native
        self._waiting = work.schemas[RIGHT].empty_table()

    def push(self, side: int, rows: pa.RecordBatch) -> None:
        """Push the rows from one side that are not late."""
        if side == RIGHT and self._work.ties is not None:
            self._waiting = pa.concat_tables([self._waiting, pa.Table.from_batches([rows])])
        else:
            self._native.sources[side].push(rows)

    def advance(self, watermark: int) -> None:
        """Advance the watermark. No earlier row will arrive."""
        if self._waiting.num_rows and self._work.ties is not None:
            times = self._waiting.column(self._work.times[RIGHT]).cast(pa.int64())
            is_ready = pc.less(times, watermark)
            ready, times = self._waiting.filter(is_ready), times.filter(is_ready)
            rows = by_value(ready, self._work.ties, times.to_numpy())
            self._native.sources[RIGHT].push(rows)
            self._waiting = self._waiting.filter(pc.invert(is_ready)).combine_chunks()
        _advance(self._native.sources, watermark)

    def recall(self, watermark: int) -> None:
        """Advance, but discard results up to the watermark: they were emitted elsewhere."""
        self.advance(watermark)
        _recall(self._native)

    def poll(self) -> pa.RecordBatch | None:
        """Return the next final results, or None if there are none."""
        return self._native.poll()

    @property
    def condenses(self) -> bool:
        """Return whether a snapshot may need fewer rows than their times suggest."""
        return self._work.condenses

    def snapshot(self) -> Snapshot:
        """Return the state. Callers must have polled all final results."""
        waiting = _one_batch(self._waiting) if self._waiting.num_rows else None
        return Snapshot(self._native.snapshot(), (None, waiting))

    def restore(self, native: bytes) -> None:
        """Restore the state from a native snapshot. The bucket must still be empty."""
        self._native.restore(native)

    @property
    def rows(self) -> int:
        """The number of rows that are kept."""
        return int(self._native.stats()["state_rows"] + self._waiting.num_rows)


@dataclass(frozen=True)
class Windows:
    """An aggregation of streams, whose rows arrive as a single stream with a `source` column.

    If no result depends on row order, `slices` aggregates each micro-batch's rows into slices.
    `final` then aggregates the slices. Otherwise, `slices` is None, and `final` aggregates the
    rows. No window is longer than `longest` microseconds; None means that the length is unknown.
    With a `cycle`, a bucket contains all rows in the windows that start in its slices, and some
    rows from other windows.
    """

    schema: pa.Schema
    kept_schema: pa.Schema
    slices: Aggregation | None
    final: Aggregation
    sources: int
    source: str | None
    longest: int | None
    query: str
    keeps_late: bool
    gives_parts: bool = False
    cycle: Cycle | None = None

    names: ClassVar[tuple[str]] = ("streams",)
    times: ClassVar[tuple[int]] = (0,)

    @property
    def schemas(self) -> tuple[pa.Schema]:
        """The schema of the columns that are read, starting with the time."""
        return (self.schema,)

    @property
    def stored(self) -> tuple[pa.Schema]:
        """The schema of the stored rows or slices."""
        return (self.kept_schema,)

    def bucket(self, number: int) -> Bucket:
        """Return an empty native aggregation."""
        return _Aggregate(self, number)

    def owned(self, windows: pa.RecordBatch, number: int) -> pa.RecordBatch:
        """Return the windows that a bucket emits: the windows that start in its slices."""
        if self.cycle is None:
            return windows
        starts = windows.column("window_start").cast(pa.int64()).to_numpy()
        nowhere = np.zeros(len(starts), np.int64)
        slices, _ = self.cycle.slices(nowhere, starts, self.cycle.left_span, None)
        return windows.filter(pa.array(self.cycle.partition_of[slices] == number))

    def gathered(self, side: int, home: pa.Table, copies: pa.Table) -> pa.Table:  # noqa: ARG002 - there is one
        """Return the rows from both tables."""
        return pa.concat_tables([home, copies])

    def kept(self, side: int, rows: pa.Table) -> pa.RecordBatch:  # noqa: ARG002 - there is one
        """Return the rows, or the aggregates of their slices."""
        if self.slices is not None:
            rows = self.slices.run([rows]).select(self.kept_schema.names)
        return _one_batch(rows)

    def are_wide(self, side: int, rows: pa.Table) -> pa.Array | None:  # noqa: ARG002 - as of joins
        """Always None, because no row in an aggregation has an end."""
        return None

    def until(self, side: int, rows: pa.Table) -> int:
        """Return the last watermark at which a window that contains any of the rows is open.

        There is no such watermark for sessions and row-based windows, or for windows without rows
        after other windows. Windows from a table can be much longer than others.
        """
        return _last(rows.column(self.times[side]), None if self.is_condensed else self.longest)

    @property
    def keys(self) -> tuple[tuple[int, ...]]:
        """The positions of the key columns."""
        return (tuple(map(self.schema.names.index, self.final.by)),)

    @property
    def is_condensed(self) -> bool:
        """Return whether the state of the operator replaces the rows."""
        final = self.final
        is_long = final.windows is not None or isinstance(final.size, Rows)
        return is_long or final.session is not None or final.fills


class _Aggregate(Condensing):
    """A native aggregation that receives rows after the watermark has passed them.

    The order of rows then depends only on their values. A session can last indefinitely. Its state
    replaces its rows.
    """

    def __init__(self, work: Windows, number: int) -> None:
        self._work = work
        self._number = number
        query = AggregationQuery(**work.final.arguments, threads=threads())
        self._native = query.operator(work.kept_schema, sources=work.sources)
        self._slices = None
        if work.slices is not None:
            self._slices = work.slices.plan([work.schema.empty_table()])
        self._waiting: list[pa.Table] = []

    def push(self, side: int, rows: pa.RecordBatch) -> None:  # noqa: ARG002 - there is one
        self._waiting.append(pa.Table.from_batches([rows]))

    def advance(self, watermark: int) -> None:
        # The slice that contains the watermark may still receive rows.
        before = watermark
        if self._slices is not None:
            [(before, _)] = self._slices.last_windows([watermark])
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
        return self._work.is_condensed

    def snapshot(self) -> Snapshot:
        waiting = pa.concat_tables(self._waiting) if self._waiting else None
        rows = _one_batch(waiting) if waiting is not None and waiting.num_rows else None
        return Snapshot(self._native.snapshot(), (rows,))

    def restore(self, native: bytes) -> None:
        self._native.restore(native)

    @property
    def rows(self) -> int:
        return sum(rows.num_rows for rows in self._waiting)


@dataclass(frozen=True)
class RollingRows:
    """Rolling windows of a stream.

    A row can still matter for `length` microseconds after its time. If `length` is None, windows
    are row-based, and the state of the operator replaces the rows. `by` contains the key columns.
    """

    schema: pa.Schema
    rolling: RollingQuery
    length: int | None
    query: str
    keeps_late: bool
    by: tuple[str, ...]

    names: ClassVar[tuple[str]] = ("table",)
    times: ClassVar[tuple[int]] = (0,)
    gives_parts: ClassVar[bool] = False

    @property
    def schemas(self) -> tuple[pa.Schema]:
        """The schema of the columns that are read, starting with the time."""
        return (self.schema,)

    @property
    def stored(self) -> tuple[pa.Schema]:
        """The schema of the stored rows."""
        return (self.schema,)

    @property
    def keys(self) -> tuple[tuple[int, ...]]:
        """The positions of the key columns."""
        return (tuple(map(self.schema.names.index, self.by)),)

    def bucket(self, number: int) -> Bucket:  # noqa: ARG002 - all buckets are alike
        """Return an operator without rows."""
        return _Rolling(self)

    def gathered(self, side: int, home: pa.Table, copies: pa.Table) -> pa.Table:  # noqa: ARG002 - there is one
        """Return the rows from both tables."""
        return pa.concat_tables([home, copies])

    def kept(self, side: int, rows: pa.Table) -> pa.RecordBatch:  # noqa: ARG002 - there is one
        """Return the rows as one batch."""
        return _one_batch(rows)

    def are_wide(self, side: int, rows: pa.Table) -> pa.Array | None:  # noqa: ARG002 - as of joins
        """Always None, because no row has an end."""
        return None

    def until(self, side: int, rows: pa.Table) -> int:
        """Return the last watermark at which a window can contain any of the rows."""
        length = None if self.length is None else self.length + 1
        return _last(rows.column(self.times[side]), length)


class _Rolling(Condensing):
    """A native operator that receives rows after the watermark has passed them."""

    def __init__(self, work: RollingRows) -> None:
        self._work = work
        self._native = work.rolling.replace(threads=threads()).operator(work.schema)
        self._waiting = work.schema.empty_table()

    def push(self, side: int, rows: pa.RecordBatch) -> None:  # noqa: ARG002 - there is one
        self._waiting = pa.concat_tables([self._waiting, pa.Table.from_batches([rows])])

    def advance(self, watermark: int) -> None:
        is_ready = pc.less(self._waiting.column(0).cast(pa.int64()), watermark)
        [source] = self._native.sources
        ready = self._waiting.filter(is_ready)
        if ready.num_rows:
            # The order of rows with equal times depends only on their values.
            source.push(in_order(ready, self._work.rolling.on, days=False))
            self._waiting = self._waiting.filter(pc.invert(is_ready)).combine_chunks()
        source.advance(watermark)

    def recall(self, watermark: int) -> None:
        self.advance(watermark)
        _recall(self._native)

    def poll(self) -> pa.RecordBatch | None:
        return self._native.poll()

    @property
    def condenses(self) -> bool:
        return self._work.length is None

    def snapshot(self) -> Snapshot:
        waiting = _one_batch(self._waiting) if self._waiting.num_rows else None
        return Snapshot(self._native.snapshot(), (waiting,))

    def restore(self, native: bytes) -> None:
        self._native.restore(native)

    @property
    def rows(self) -> int:
        return int(self._native.stats()["state_rows"] + self._waiting.num_rows)


def _advance(sources: Sequence[tidegate.Source], watermark: int) -> None:
    """Release the results that are final once all rows before the watermark have arrived.

    In merged order, a left row whose time equals the watermark could also be emitted. The row would
    then be emitted either at the current watermark or at the next one, depending on its
    micro-batch. A rebuilt operator does not know the micro-batch. Sources therefore stay one step
    behind the watermark.
    """
    for source in sources:
        source.advance(watermark - 1)


def _recall(native: Any) -> None:  # noqa: ANN401 - its stub has only public methods
    """Process all rows that are ready, but discard results that have already been emitted."""
    native._recall()  # noqa: SLF001 - a native method


def _one_batch(rows: pa.Table) -> pa.RecordBatch:
    if rows.num_rows == 0:
        return pa.RecordBatch.from_pylist([], schema=rows.schema)
    [batch] = rows.combine_chunks().to_batches()
    return batch


def _last(times: pa.ChunkedArray, lasting: int | None) -> int:
    """Return the latest of `times` plus `lasting`.

    If `lasting` is None, the result is later than any time. Without times, it is earlier.
    """
    latest = pc.max(times.cast(pa.int64())).as_py()
    if latest is None:
        return -_FOREVER
    return _FOREVER if lasting is None else min(latest + lasting, _FOREVER)
