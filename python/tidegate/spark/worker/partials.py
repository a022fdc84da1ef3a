"""Packs right rows for a join with aggregates, and combines some of them into partial rows.

If a right row matches every left row in a slice, that slice does not need the row itself. Instead,
a single row is sent with the aggregates of all such rows with the same key. A right row is
therefore sent only to the slices at the ends of its reach, regardless of how many slices are
between them::

    left rows of a key      │ l l │ l l │  l  │ l l │ l │
    slice                   │  0  │  1  │  2  │  3  │ 4 │
    left rows it can match     └────────────────┘
    the row travels to         0                3
    combined with others to          1     2

This requires functions whose partial results can be merged in any order: `count`, `any`, `all`,
sums of integers and decimals, means of integers, minimums and maximums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import tidegate
from tidegate.agg import Aggregate
from tidegate.spark.worker.pack import LEFT, PARTIAL, RIGHT, typed
from tidegate.spark.worker.task import Task, threads

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidegate.agg import Function
    from tidegate.spark.layout.layout import Integers
    from tidegate.spark.worker.nearest import RightWhere
    from tidegate.spark.worker.pack import Pack, Packer
    from tidegate.spark.worker.task import Batches

# The functions whose partial results merge to the same bits in any order, with the functions that
# merge them.
MERGED: dict[str, Function] = {
    "count": "sum",
    "sum": "sum",
    "min": "min",
    "max": "max",
    "any": "any",
    "all": "all",
}

# A type in which sums of 64-bit integers never overflow. A part can be too large for 64 bits even
# if its sum with other parts is not.
_WIDE = pa.decimal128(38, 0)


@dataclass(frozen=True)
class Part:
    """The part of a row that a function needs: a column of values to count, add or compare.

    If `kind` is not None, values are cast to `kind`, the type of their sum.
    """

    one: Aggregate
    kind: pa.DataType | None = None

    @property
    def merged(self) -> Function:
        """The function that merges the values of several rows."""
        return MERGED[self.one.function]

    def of(self, rows: pa.Table) -> pa.ChunkedArray | pa.Array:
        """Return the values of these rows."""
        name, where = self.one.column, self.one.where
        counts = None if where is None else _passing(rows, where)
        if self.one.function == "count":
            if name is not None:
                valid = rows[name].is_valid()
                counts = valid if counts is None else pc.and_(valid, counts)
            if counts is None:
                return pa.array(np.ones(rows.num_rows, np.int64))
            return counts.cast(pa.int64())
        values = rows[name] if self.kind is None else rows[name].cast(self.kind)
        return values if counts is None else pc.if_else(counts, values, None)


def _passing(rows: pa.Table, where: str) -> pa.Array:
    """Return whether each row meets a function's condition."""
    # Only a native call can evaluate the condition, so one left row is joined with all rows.
    number = "row".ljust(1 + max(map(len, rows.column_names)), "_")
    found = tidegate.interval_join(
        pa.table({number: [0]}),
        rows.append_column(number, pa.array(np.arange(rows.num_rows))),
        on=number,
        lower=None,
        upper=None,
        aggs={"rows": Aggregate("collect", number, where)},
        threads=threads(),
    )
    passing = np.zeros(rows.num_rows, np.bool_)
    passing[found["rows"].combine_chunks().flatten().to_numpy()] = True
    return pa.array(passing)


@dataclass(frozen=True)
class Parts:
    """The aggregates of partners, split into parts that can be merged.

    `names` contains the parts that each function needs: a mean needs a sum and a count. `kinds`
    contains the type of each function's result if it differs from the type of the function's part.
    """

    parts: dict[str, Part]
    names: tuple[tuple[str, ...], ...]
    kinds: tuple[pa.DataType | None, ...]
    prefix: str

    @classmethod
    def of(cls, aggs: dict[str, Aggregate], right: pa.Schema, taken: Sequence[str]) -> Parts | None:
        """Return the parts of these functions over right columns, or None if one cannot be split.

        No part's name is in `taken`.
        """
        prefix = "part".ljust(1 + max(map(len, taken)), "_")
        found: dict[Part, str] = {}
        names, kinds = [], []
        for one in aggs.values():
            if one.column is not None and one.column not in right.names:
                return None
            kind = None if one.column is None else right.field(one.column).type
            split = _split(one, kind)
            if not split:
                return None
            names.append(tuple(found.setdefault(part, f"{prefix}{len(found)}") for part in split))
            kinds.append(_sum_of(kind) if one.function == "sum" else None)
        parts = {name: part for part, name in found.items()}
        return cls(parts, tuple(names), tuple(kinds), prefix)

    @property
    def merged(self) -> dict[str, Aggregate]:
        """The functions that merge parts."""
        return {name: Aggregate(part.merged, name) for name, part in self.parts.items()}

    def of_rows(self, rows: pa.Table, kept: Sequence[str]) -> pa.Table:
        """Return the `kept` columns of the rows, followed by their parts."""
        columns = {name: rows[name] for name in kept}
        return pa.table({**columns, **{name: part.of(rows) for name, part in self.parts.items()}})

    def finished(self, merged: pa.Table) -> Iterator[pa.ChunkedArray]:
        """Yield the results of the functions, computed from merged parts."""
        for names, kind in zip(self.names, self.kinds, strict=True):
            parts = [merged[name] for name in names]
            last = self.parts[names[-1]].one
            if last.function == "count":
                parts[-1] = parts[-1].fill_null(0)
            if kind is not None:
                parts[-1] = _fitting(parts[-1], kind, str(last.column))
            yield parts[0] if len(parts) == 1 else _mean(*parts)


def _split(one: Aggregate, kind: Any) -> list[Part]:  # noqa: ANN401 - a type, or none
    """Return a function's parts for values of this type."""
    if one.function == "mean":
        if not pa.types.is_integer(kind):
            return []
        total, count = (Aggregate(name, one.column, one.where) for name in ("sum", "count"))
        return [Part(total, _WIDE), Part(count)]
    if one.function != "sum":
        return [Part(one)] if one.function in MERGED else []
    if pa.types.is_decimal(kind):
        return [Part(one, pa.decimal128(38, kind.scale))]
    return [Part(one, _WIDE)] if pa.types.is_integer(kind) else []


def _sum_of(kind: pa.DataType) -> pa.DataType | None:
    """Return the result type of `sum` for an integer column, or None for other columns."""
    if pa.types.is_signed_integer(kind):
        return pa.int64()
    return pa.uint64() if pa.types.is_unsigned_integer(kind) else None


def _fitting(total: pa.ChunkedArray, kind: pa.DataType, column: str) -> pa.ChunkedArray:
    try:
        return total.cast(kind)
    except pa.ArrowInvalid as error:
        message = f"sum({column}): the sum over a left row's partners does not fit {kind}; "
        message += "cast the column to decimal(38, 0)"
        raise tidegate.TidegateError(message) from error


def _mean(total: pa.ChunkedArray, count: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.divide(total.cast(pa.float64()), count.cast(pa.float64(), safe=False))


@dataclass(frozen=True)
class PartialsPacker:
    """Divides the right rows of a join with aggregates. Instances are sent to the workers.

    `schema` contains the columns to send, and `keys` the columns that must be equal.
    """

    packer: Packer
    parts: Parts
    schema: pa.Schema
    keys: tuple[str, ...]
    where: RightWhere | None

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack the rows in a Spark partition."""
        layout = self.packer.layout
        for batch in self.packer.collected(batches):
            every = batch if self.where is None else self.where.passing(batch)
            rows, buckets, hashes = self.packer.parts(every)
            times = self.packer.axis.integers(rows.column(self.packer.on))
            first, last = layout.slices(buckets, times, layout.right_span, hashes)
            begin, end = layout.covered(first, last)
            covering = begin <= end
            if not covering.any():
                yield from self.packer.sent(rows, first, last)
                continue
            # Rows are sent unchanged to the slices before and after those that they cover.
            yield from self._sent(rows, first, np.where(covering, begin - 1, last))
            yield from self._sent(rows, np.where(covering, end + 1, last + 1), last)
            numbers = np.flatnonzero(covering)
            covered = _taken(rows, numbers)
            yield from self._combined(covered, begin[numbers], end[numbers])

    def _sent(
        self, rows: pa.RecordBatch, first: Integers, last: Integers
    ) -> Iterator[pa.RecordBatch]:
        """Yield packs of the rows that belong to at least one slice."""
        numbers = np.flatnonzero(first <= last)
        if len(numbers):
            yield from self.packer.sent(_taken(rows, numbers), first[numbers], last[numbers])

    def _combined(
        self, rows: pa.RecordBatch, begin: Integers, end: Integers
    ) -> Iterator[pa.RecordBatch]:
        """Yield packs with one row for all rows with the same key that cover the same slices."""
        name, count = f"{self.parts.prefix}slices", self.packer.layout.partition_of.size
        table = pa.Table.from_batches([rows]).rename_columns(self.schema.names)
        on = self.schema.names[self.packer.on]
        table = self.parts.of_rows(table, list(dict.fromkeys([on, *self.keys])))
        table = table.append_column(name, pa.array(begin * count + end))
        by = [name, *self.keys]
        groups = table.group_by(by).aggregate([(on, "min")])
        groups = groups.rename_columns([*by, on]).select([on, *by])
        found = tidegate.interval_join(
            groups,
            table,
            on=on,
            by=by,
            lower=None,
            upper=None,
            aggs=self.parts.merged,
            columns=groups.column_names,
            threads=threads(),
        )
        [batch] = found.combine_chunks().to_batches()
        slices = batch.column(name).to_numpy()
        sent = batch.drop_columns([name])
        yield from self.packer.sent(sent, slices // count, slices % count, PARTIAL)


def _taken(rows: pa.RecordBatch, numbers: Integers) -> pa.RecordBatch:
    return rows if len(numbers) == rows.num_rows else rows.take(pa.array(numbers))


@dataclass(frozen=True)
class PartialsTask(Task):
    """The task that joins the packs in a partition. Some packs contain partial rows."""

    parts: Parts | None = None

    def _joined(self, packs: list[Pack]) -> Batches:
        partials = [pack.rows for pack in packs if pack.side == PARTIAL]
        packs[:] = [pack for pack in packs if pack.side != PARTIAL]
        if self.parts is None or not partials:
            yield from super()._joined(packs)
            return
        left, right = self._side(packs, LEFT), self._side(packs, RIGHT)
        packs.clear()
        of_partials = pa.concat_tables(partials)
        kept = [name for name in of_partials.column_names if name not in self.parts.parts]
        of_rows = self.parts.of_rows(right, kept)
        # If there are no right rows, the empty table has times in UTC. Partial rows have times in
        # the session time zone.
        of_partials = typed(of_partials, of_rows.schema)
        every = pa.concat_tables([of_rows, of_partials]).combine_chunks()
        query = self.call.query.replace(threads=threads())
        schema = query.plan(left, right).schema
        columns = query.arguments["columns"]
        found = query.replace(aggs=self.parts.merged).table(left, every)
        results = [*found.select(columns).columns, *self.parts.finished(found)]
        for batch in pa.Table.from_arrays(results, schema=schema).to_batches():
            if batch.num_rows:
                yield self.call.output.finished(batch)
