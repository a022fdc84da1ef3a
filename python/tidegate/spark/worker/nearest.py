"""Packs the right rows of an as-of join. Only the nearest rows outside a slice are copied to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import tidegate
from tidegate.spark.layout.nearest import HOME, Carried, Slices, carried
from tidegate.spark.worker.order import by_value
from tidegate.spark.worker.task import threads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegate.spark.layout.layout import Integers
    from tidegate.spark.worker.pack import Packer

# The maximum number of bytes of rows for other slices that are held back until all rows are known.
_HELD = 1 << 26

# The columns that follow a row for other slices: its home slices, and the slices within its reach.
_PLACES = ("home_first", "home_last", "reached_first", "reached_last")

_ENDS = np.iinfo(np.int64)


@dataclass(frozen=True)
class RightWhere:
    """A condition that reads only right columns. Instances are sent to the workers."""

    schemas: tuple[pa.Schema, pa.Schema]
    on: tuple[str, str]
    where: tidegate.Expr | str

    def passing(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that meet the condition. Rows may have additional columns at the end."""
        left, right = self.schemas
        number = "row".ljust(1 + max(map(len, [*left.names, *right.names])), "_")
        # Only a native join can evaluate the condition, so one left row is joined with all rows.
        nothing = [
            pa.array([0], field.type) if field.name == self.on[0] else pa.nulls(1, field.type)
            for field in left
        ]
        columns = [*rows.columns[: len(right)], pa.array(np.arange(rows.num_rows))]
        found = tidegate.interval_join(
            pa.table(nothing, names=left.names),
            pa.table(columns, names=[*right.names, number]),
            on=self.on,
            lower=None,
            upper=None,
            where=self.where,
            columns=[number],
            threads=threads(),
        )
        return rows.take(pa.array(np.sort(found[number].to_numpy())))


@dataclass(frozen=True)
class NearestPacker:
    """Divides the right rows of an as-of join. Instances are sent to the workers.

    Each row is sent to its home. For each key, a Spark partition also sends each slice two rows
    within its reach: the last row before the slice and the first row after it. `keys` contains the
    positions of the columns that must be equal.
    """

    packer: Packer
    keys: tuple[int, ...]
    where: RightWhere | None

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack the rows in a Spark partition."""
        crossing: list[pa.Table] = []
        size = 0
        for batch in self.packer.collected(batches):
            every = batch if self.where is None else self.where.passing(batch)
            rows, buckets, hashes = self.packer.parts(every)
            times = self.packer.axis.integers(rows.column(self.packer.on))
            layout = self.packer.layout
            home = Slices(*layout.slices(buckets, times, HOME, hashes))
            reached = Slices(*layout.slices(buckets, times, layout.right_span, hashes))
            yield from self.packer.sent(rows, *home)
            crossing.append(self._crossing(rows, times, home, reached))
            size += crossing[-1].nbytes
            if size < _HELD:
                continue
            crossing = [self._nearest(pa.concat_tables(crossing))]
            size = crossing[0].nbytes
            # If these rows filled half of the space, they would have to be compared again too soon.
            if size >= _HELD // 2:
                yield from self._sent(crossing.pop())
                size = 0
        if crossing:
            yield from self._sent(pa.concat_tables(crossing))

    def _crossing(
        self, rows: pa.RecordBatch, times: Integers, home: Slices, reached: Slices
    ) -> pa.Table:
        """Return the nearest rows, with their slices."""
        outside = np.flatnonzero((reached.first < home.first) | (reached.last > home.last))
        keys = [rows.column(key).take(pa.array(outside)) for key in self.keys]
        groups = _numbers(keys, len(outside)) * self.packer.layout.partition_of.size
        groups += home.first[outside]
        outside = outside[_is_extreme(groups, times[outside])]
        taken = pa.Table.from_batches([rows.take(pa.array(outside))])
        for name, slices in zip(_PLACES, [*home, *reached], strict=True):
            taken = taken.append_column(name, pa.array(slices[outside]))
        return self._nearest(taken)

    def _nearest(self, rows: pa.Table) -> pa.Table:
        rows, found = self._carried(rows)
        return rows.take(pa.array(np.unique(found.rows)))

    def _carried(self, rows: pa.Table) -> tuple[pa.Table, Carried]:
        """Return the rows in order, and the rows that other slices need."""
        name = rows.column_names[self.packer.on]
        rows = by_value(rows, name, self.packer.axis.integers(rows[name]))
        places = [rows[place].to_numpy() for place in _PLACES]
        home, reached = Slices(*places[:2]), Slices(*places[2:])
        keys = [rows.column(key).combine_chunks() for key in self.keys]
        return rows, carried(_numbers(keys, rows.num_rows), home, reached)

    def _sent(self, crossing: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield packs of the rows for the slices that need them."""
        rows, (numbers, slices) = self._carried(crossing)
        travelling = rows.select(range(rows.num_columns - len(_PLACES)))
        begin = 0
        for batch in travelling.take(pa.array(numbers)).combine_chunks().to_batches():
            end = begin + batch.num_rows
            yield from self.packer.sent(batch, *slices.of(np.arange(begin, end)))
            begin = end


def _numbers(keys: list[pa.Array], rows: int) -> Integers:
    """Return a small number for each row; rows with equal numbers have equal keys."""
    numbers = np.zeros(rows, np.int64)
    for at, key in enumerate(keys):
        encoded = key.dictionary_encode()
        codes = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy().astype(np.int64)
        if at == 0:
            numbers = codes
            continue
        numbers = numbers * (len(encoded.dictionary) + 1) + codes
        numbers = np.unique(numbers, return_inverse=True)[1]
    return numbers


def _is_extreme(groups: Integers, times: Integers) -> npt.NDArray[np.bool_]:
    """Return whether each row has the earliest or latest time in its group."""
    if len(groups) and groups.max() > 8 * len(groups):
        groups = np.unique(groups, return_inverse=True)[1]
    count = int(groups.max(initial=-1)) + 1
    least, greatest = np.full(count, _ENDS.max), np.full(count, _ENDS.min)
    np.minimum.at(least, groups, times)
    np.maximum.at(greatest, groups, times)
    extreme: npt.NDArray[np.bool_] = (times == least[groups]) | (times == greatest[groups])
    return extreme
