"""Aggregates of partners, of which some are combined on the way.

A right row that pairs with every left row of a slice need not travel there as it is: the functions
of all such rows of a key do, as one row. So a right row goes to the slices at the ends of its reach
only, however many slices are between them::

    left rows of a key      │ l l │ l l │  l  │ l l │ l │
    slice                   │  0  │  1  │  2  │  3  │ 4 │
    left rows it can match     └────────────────┘
    the row travels to         0                3
    combined with others to          1     2

This needs functions of which the parts can be merged in any order: counts, sums and means of whole
numbers, least and greatest values, `any` and `all`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import tidegate
from tidegate.agg import Aggregate
from tidegate.spark.worker.pack import LEFT, PARTIAL, RIGHT
from tidegate.spark.worker.task import Task, threads

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidegate.agg import Function
    from tidegate.spark.layout.layout import Integers
    from tidegate.spark.worker.nearest import RightWhere
    from tidegate.spark.worker.pack import Pack, Packer
    from tidegate.spark.worker.task import Batches

# The functions of which partial results give the same bits in any order, and what merges these.
MERGED: dict[str, Function] = {
    "count": "sum",
    "sum": "sum",
    "min": "min",
    "max": "max",
    "any": "any",
    "all": "all",
}

# Whole numbers of 64 bits, in which sums of a mean's values never overflow.
_WIDE = pa.decimal128(20, 0)


@dataclass(frozen=True)
class Parts:
    """The functions of partners as functions of some partners, and the merger of their results.

    `wide` names columns that are added as decimals, and their columns. `found` has the parts that
    each function needs: a mean needs a sum and a count. `prefix` is that of no other column.
    """

    parts: dict[str, Aggregate]
    wide: dict[str, str]
    found: tuple[tuple[str, ...], ...]
    prefix: str

    @classmethod
    def of(cls, aggs: dict[str, Aggregate], right: pa.Schema, taken: Sequence[str]) -> Parts | None:
        """The parts of these functions of columns of the right side; None if one has no parts."""
        prefix = "part".ljust(1 + max(map(len, taken)), "_")
        parts = {prefix: Aggregate("count")}
        wide: dict[str, str] = {}
        found = []
        for one in aggs.values():
            split = [one]
            kind = None if one.column is None else right.field(one.column).type
            if one.function == "mean" and kind is not None:
                if not pa.types.is_integer(kind):
                    return None
                column = f"{prefix}wide{len(wide)}"
                wide[column] = str(one.column)
                split = [Aggregate("sum", column, one.where), Aggregate("count", column, one.where)]
            elif one.function not in MERGED or (
                one.function == "sum" and pa.types.is_floating(kind)
            ):
                return None
            names = tuple(f"{prefix}{len(parts) + at}" for at in range(len(split)))
            parts |= dict(zip(names, split, strict=True))
            found.append(names)
        return cls(parts, wide, tuple(found), prefix)

    @property
    def merged(self) -> dict[str, Aggregate]:
        """The functions that merge parts."""
        return {name: Aggregate(MERGED[one.function], name) for name, one in self.parts.items()}

    def widened(self, rows: pa.Table) -> pa.Table:
        """The rows with the columns that are added as decimals."""
        for name, column in self.wide.items():
            rows = rows.append_column(name, rows[column].cast(_WIDE))
        return rows

    def finished(self, merged: pa.Table) -> Iterator[pa.ChunkedArray]:
        """The results of the functions from merged parts."""
        for parts in self.found:
            of = [merged[part] for part in parts]
            yield of[0] if len(of) == 1 else _mean(*of)


def _mean(total: pa.ChunkedArray, count: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.divide(total.cast(pa.float64()), count.cast(pa.float64(), safe=False))


@dataclass(frozen=True)
class PartialsPacker:
    """Divides the right rows of a join with aggregates, as it is sent to the workers.

    `schema` has the columns that travel, and `keys` those that must be equal.
    """

    packer: Packer
    parts: Parts
    schema: pa.Schema
    keys: tuple[str, ...]
    where: RightWhere | None

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack the rows of a Spark partition."""
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
            # Before the slices that are covered, and behind them.
            yield from self._sent(rows, first, np.where(covering, begin - 1, last))
            yield from self._sent(rows, np.where(covering, end + 1, last + 1), last)
            numbers = np.flatnonzero(covering)
            covered = _taken(rows, numbers)
            yield from self._combined(covered, begin[numbers], end[numbers])

    def _sent(
        self, rows: pa.RecordBatch, first: Integers, last: Integers
    ) -> Iterator[pa.RecordBatch]:
        """Packs of the rows that have any slice."""
        numbers = np.flatnonzero(first <= last)
        if len(numbers):
            yield from self.packer.sent(_taken(rows, numbers), first[numbers], last[numbers])

    def _combined(
        self, rows: pa.RecordBatch, begin: Integers, end: Integers
    ) -> Iterator[pa.RecordBatch]:
        """Packs of one row for all rows of a key that go to the same slices."""
        name, count = f"{self.parts.prefix}slices", self.packer.layout.partition_of.size
        table = pa.Table.from_batches([rows]).rename_columns(self.schema.names)
        table = self.parts.widened(table).append_column(name, pa.array(begin * count + end))
        on = self.schema.names[self.packer.on]
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
            aggs=self.parts.parts,
            columns=groups.column_names,
            threads=threads(),
        )
        [batch] = found.combine_chunks().to_batches()
        slices = batch.column(name).to_numpy()
        sent = batch.select([on, *self.keys, *self.parts.parts])
        yield from self.packer.sent(sent, slices // count, slices % count, PARTIAL)


def _taken(rows: pa.RecordBatch, numbers: Integers) -> pa.RecordBatch:
    return rows if len(numbers) == rows.num_rows else rows.take(pa.array(numbers))


@dataclass(frozen=True)
class PartialsTask(Task):
    """A join of the packs of a partition of which some have partial rows, likewise."""

    parts: Parts | None = None

    def _joined(self, packs: list[Pack]) -> Batches:
        partials = [pack.rows for pack in packs if pack.side == PARTIAL]
        packs[:] = [pack for pack in packs if pack.side != PARTIAL]
        if self.parts is None or not partials:
            yield from super()._joined(packs)
            return
        left, right = self._side(packs, LEFT), self._side(packs, RIGHT)
        packs.clear()
        found = self._merged(self.parts, left, right, pa.concat_tables(partials))
        for batch in found.to_batches():
            if batch.num_rows:
                yield self.call.output.finished(batch)

    def _merged(self, parts: Parts, left: pa.Table, right: pa.Table, partial: pa.Table) -> pa.Table:
        """The left rows with what was found for them in rows and in partial rows."""
        function = getattr(tidegate, self.call.function)
        arguments = {**self.call.arguments, "threads": threads()}
        schema = function(left.slice(0, 0), right.slice(0, 0), **arguments).schema
        # The number of a left row is the time that its parts are merged at.
        row = f"{parts.prefix}row"
        numbered = left.append_column(row, pa.array(np.arange(left.num_rows)))
        arguments |= {"how": "left", "columns": [row]}
        found = [
            function(numbered, parts.widened(right), **{**arguments, "aggs": parts.parts}),
            function(numbered, partial, **{**arguments, "aggs": parts.merged}),
        ]
        merged = tidegate.aggregate(found, on=row, size=1, aggs=parts.merged, threads=threads())
        columns = [left[name] for name in self.call.arguments["columns"]]
        table = pa.Table.from_arrays([*columns, *parts.finished(merged)], schema=schema)
        if self.call.arguments["how"] == "inner":
            table = table.filter(pc.greater(merged[parts.prefix], 0))
        return table
