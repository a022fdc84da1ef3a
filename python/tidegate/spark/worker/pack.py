"""Packs rows in the tasks that read them and unpacks them in the tasks that join them.

A *pack* is an Arrow stream with a few thousand rows from one side. Spark moves each pack as a
single row, because Spark's own row format costs more than the join.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidegate.spark.layout.layout import Integers, Layout, Places
    from tidegate.spark.query.axis import Axis

    _Column = TypeVar("_Column", pa.Array, pa.ChunkedArray)

# The kinds of rows in a pack. Rows outside their home are marked as copies if the layout must
# distinguish them. A partial row contains aggregates of several right rows (`partials.py`).
LEFT, RIGHT, LEFT_COPY, RIGHT_COPY, PARTIAL = range(5)
NAMES = ("left", "right")

# The schema of packs in Spark and in Arrow.
PACKS = "side tinyint, partition int, rows binary"
_PACKS = pa.schema([("side", pa.int8()), ("partition", pa.int32()), ("rows", pa.binary())])

# The maximum size in bytes of a pack with several rows. Spark passes up to 10,000 packs as one
# Arrow column, which can hold 2 GiB.
_PACK = 1 << 17

# The maximum number of bytes of rows that are collected before they are divided.
_COLLECTED = 1 << 26


# The partition of the mark that each task sends in addition to the packs of a stream.
MARK = -1


@dataclass(frozen=True)
class Marked:
    """Sends a mark before the packs of a stream.

    As a result, every non-empty micro-batch checks that the state store belongs to this query,
    wherever the rows are sent.
    """

    pack: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Send the mark, then the packs of a Spark partition."""
        yield pa.RecordBatch.from_pylist([{"side": LEFT, "partition": MARK}], schema=_PACKS)
        yield from self.pack(batches)


@dataclass(frozen=True)
class Packing:
    """Packs one side's rows.

    The columns to send are followed by `extra` columns: the bucket, unless it is the same for all
    rows, and a row hash if the layout has pieces.
    """

    layout: Places
    side: int
    extra: int = field(kw_only=True)

    def collected(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a Spark partition's rows in batches that are divided together."""
        collected: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            collected.append(batch)
            size += batch.nbytes
            if size >= self.enough:
                yield from pa.Table.from_batches(collected).combine_chunks().to_batches()
                collected, size = [], 0
        if collected:
            yield from pa.Table.from_batches(collected).combine_chunks().to_batches()

    @property
    def enough(self) -> int:
        """The total size of rows that are divided together, in bytes."""
        return min(8 * self.layout.partitions * _PACK, _COLLECTED)

    def parts(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, Integers, Integers | None]:
        """Return the columns to send, each row's bucket, and each row's hash if there is one."""
        end = rows.num_columns - self.extra
        extra = [column.to_numpy() for column in rows.columns[end:]]
        buckets = extra[0] if extra else np.zeros(rows.num_rows, dtype=np.int32)
        return rows.select(range(end)), buckets, extra[1] if len(extra) > 1 else None

    def packed(
        self, rows: pa.RecordBatch, numbers: Integers, places: Integers, kind: int
    ) -> pa.RecordBatch:
        """Return packs of one kind with the rows in `numbers`.

        A row's entry in `places` is twice its partition number, plus 1 for a copy.
        """
        most = max(1, _PACK * rows.num_rows // max(1, rows.nbytes))
        # The sort is stable, so rows stay in time order and the join need not sort them.
        order = np.argsort(
            places.astype(np.min_scalar_type(2 * self.layout.partitions)), kind="stable"
        )
        numbers, places = numbers[order], places[order]
        begins = np.flatnonzero(np.diff(places, prepend=-1))
        sides, partitions, offsets = [], [], [0]
        sink = pa.BufferOutputStream()
        for begin, end in zip(begins, [*begins[1:], len(places)], strict=True):
            taken = _taken(rows, numbers[begin:end])
            for start in range(0, taken.num_rows, most):
                with pa.ipc.new_stream(sink, rows.schema) as stream:
                    stream.write_batch(taken.slice(start, most))
                sides.append(kind + 2 * (places[begin] % 2))
                partitions.append(places[begin] // 2)
                offsets.append(sink.tell())
        ends = pa.py_buffer(np.array(offsets, dtype=np.int32))
        streams = pa.Array.from_buffers(pa.binary(), len(sides), [None, ends, sink.getvalue()])
        arrays = [pa.array(sides, pa.int8()), pa.array(partitions, pa.int32()), streams]
        return pa.RecordBatch.from_arrays(arrays, schema=_PACKS)


@dataclass(frozen=True)
class Packer(Packing):
    """Divides one side's rows. Instances are sent to the workers.

    `on` is the position of the column by which rows are divided.
    """

    layout: Layout
    on: int
    axis: Axis

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack the rows in a Spark partition."""
        for every in self.collected(batches):
            rows, buckets, hashes = self.parts(every)
            yield from self.sent(rows, *self._slices(rows, buckets, hashes))

    def _slices(
        self, rows: pa.RecordBatch, buckets: Integers, hashes: Integers | None
    ) -> tuple[Integers, Integers]:
        times = self.axis.integers(rows.column(self.on))
        span = self.layout.right_span if self.side == RIGHT else self.layout.left_span
        first, last = self.layout.slices(np.maximum(buckets, 0), times, span, hashes)
        anywhere = np.flatnonzero(buckets < 0)
        first[anywhere] = last[anywhere] = -1 - buckets[anywhere]
        return first, last

    def sent(
        self, rows: pa.RecordBatch, first: Integers, last: Integers, kind: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield packs of the rows. Each row is sent to every slice from its first to its last.

        The packs belong to the packer's side unless another `kind` is specified.
        """
        home = first if self.side == RIGHT else last
        # First, all rows are sent to their first slice. Then, the rows with a second slice are sent
        # to that slice, and so on.
        slice_, numbers = first.copy(), np.arange(rows.num_rows)
        while len(numbers):
            # A partition with pieces of several slices needs each row only once.
            sent = numbers[self.layout.before[slice_[numbers]] < first[numbers]]
            places = 2 * self.layout.partition_of[slice_[sent]]
            if self.layout.reports_at_home:
                places += slice_[sent] != home[sent]
            if len(sent):
                yield self.packed(rows, sent, places, self.side if kind is None else kind)
            slice_ += 1
            numbers = numbers[slice_[numbers] <= last[numbers]]


def _taken(rows: pa.RecordBatch, numbers: Integers) -> pa.RecordBatch:
    """Return the rows with these `numbers`, which must be in ascending order."""
    if numbers[-1] - numbers[0] == len(numbers) - 1:
        return rows.slice(numbers[0], len(numbers))
    return rows.take(pa.array(numbers))


class Pack(NamedTuple):
    """One side's rows for one partition."""

    side: int
    partition: int
    rows: pa.Table


def as_streams(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield each batch as an Arrow stream, which preserves nested values exactly."""
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        yield pa.RecordBatch.from_pydict({"rows": [sink.getvalue().to_pybytes()]})


def typed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows with the names and types of a schema."""
    columns = [
        of_type(column, field.type) for column, field in zip(rows.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def of_type(column: _Column, kind: pa.DataType) -> _Column:
    """Return the column converted to a type.

    Spark writes a null into every field of a null struct. If such a field is declared not null,
    pyarrow refuses to cast the struct even to its own type.
    """
    return column if column.type == kind else column.cast(kind)


def unpacked(batch: pa.RecordBatch) -> Iterator[Pack]:
    """Yield the packs of a batch. The packs share the memory of the batch."""
    sides, partitions, streams = batch.columns
    for side, partition, rows in zip(
        sides.to_pylist(), partitions.to_pylist(), streams, strict=True
    ):
        yield Pack(side, partition, pa.ipc.open_stream(rows.as_buffer()).read_all())
