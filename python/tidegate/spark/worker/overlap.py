"""Packs rows that have a start and an end, and joins the rows in a partition.

An interval join whose ends are computed from columns also has rows with a start and an end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

import tidegate
from tidegate.bugs import bug
from tidegate.spark.layout.overlap import Rows
from tidegate.spark.worker.pack import LEFT, LEFT_COPY, NAMES, RIGHT, RIGHT_COPY, Packing
from tidegate.spark.worker.task import Task

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegate._tidegate import JoinQuery
    from tidegate.spark.layout.layout import Integers
    from tidegate.spark.layout.overlap import OverlapLayout
    from tidegate.spark.query.axis import Axis
    from tidegate.spark.worker.pack import Pack
    from tidegate.spark.worker.task import Batches

# The number of bytes of rows that are packed together, in one Arrow column. It can hold 2 GiB.
_PACKED = 1 << 29


class Intervals(Protocol):
    """Computes the starts and ends of rows as integers, preserving their order.

    Instances are sent to the workers.
    """

    @property
    def columns(self) -> tuple[int, ...]:
        """The positions of the columns that determine the starts and ends."""

    @property
    def are_points(self) -> bool:
        """Return whether it is known in advance that all rows are points in time."""

    def of(self, rows: pa.RecordBatch | pa.Table) -> tuple[Integers, Integers]:
        """Return the starts and ends. Nulls become arbitrary integers."""

    def told_by(self, columns: pa.Table) -> tuple[Integers, Integers]:
        """Return the starts and ends of a table with only these columns. Rejects no rows."""


@dataclass(frozen=True)
class StartsAndEnds:
    """Starts and ends that are stored in two columns. Rows must not start after they end."""

    side: int
    names: tuple[str, str]
    columns: tuple[int, int]
    axis: Axis

    @property
    def are_points(self) -> bool:
        """Return whether one column contains both the start and the end."""
        start, end = self.columns
        return start == end

    def told_by(self, columns: pa.Table) -> tuple[Integers, Integers]:
        """Return the starts and ends of a table with only these two columns."""
        start, end = columns.columns
        return self.axis.integers(start), self.axis.integers(end)

    def of(self, rows: pa.RecordBatch | pa.Table) -> tuple[Integers, Integers]:
        """Return the starts and ends."""
        start, end = (rows.column(at) for at in self.columns)
        starts, ends = self.axis.integers(start), self.axis.integers(end)
        late = starts > ends
        if not late.any():
            return starts, ends
        if start.null_count or end.null_count:
            lacking = (one.is_null().to_numpy(zero_copy_only=False) for one in (start, end))
            known = ~np.logical_or(*lacking)
            starts, ends, late = starts * known, ends * known, late & known
        for row in np.flatnonzero(late)[:1].tolist():
            names = [f"`{name}`" for name in self.names]
            message = (
                f"{NAMES[self.side]}: a row has {start[row].as_py()} in column {names[0]} "
                f"and {end[row].as_py()} in column {names[1]}, "
                "expected a start at or before its end; "
                f'swap the two, or exclude such rows with .where("{names[0]} <= {names[1]}")'
            )
            raise tidegate.TidegateError(message)
        return starts, ends


@dataclass(frozen=True)
class ComputedEnds:
    """One side's intervals in an interval join, with ends computed from columns.

    Rows match only if their intervals overlap. The plan of the native `query` computes the
    intervals from the columns that their ends depend on. `schemas` contains these columns for both
    sides.
    """

    side: int
    query: JoinQuery
    schemas: tuple[pa.Schema, pa.Schema]
    columns: tuple[int, ...]
    are_points: bool

    def told_by(self, columns: pa.Table) -> tuple[Integers, Integers]:
        """Return the starts and ends of a table with only these columns."""
        plan = self.query.plan(*self.schemas)
        schema = self.schemas[self.side]
        rows = columns.rename_columns(schema.names).cast(schema)
        found = plan.row_intervals(("left", "right")[self.side], rows)
        if found is None:
            bug("no end is computed from columns")
        return found.column("start").to_numpy(), found.column("end").to_numpy()

    def of(self, rows: pa.RecordBatch | pa.Table) -> tuple[Integers, Integers]:
        """Return the starts and ends."""
        names = self.schemas[self.side].names
        return self.told_by(pa.table([rows.column(at) for at in self.columns], names=names))


def longest(intervals: Intervals, rows: pa.Table) -> int:
    """Return the length of the longest row in a table of interval columns, or 0 if it is empty."""
    starts, ends = intervals.told_by(rows)
    # A length may need all 64 bits.
    lengths = np.maximum(starts, ends).view(np.uint64) - starts.view(np.uint64)
    return min(int(lengths.max(initial=0)), np.iinfo(np.int64).max)


@dataclass(frozen=True)
class OverlapPacker(Packing):
    """Divides one side's rows. Instances are sent to the workers."""

    layout: OverlapLayout
    intervals: Intervals

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack the rows in a Spark partition."""
        for every in self.collected(batches):
            rows, buckets, hashes = self.parts(every)
            of_layout = Rows(buckets, *self.intervals.of(rows), hashes)
            self._check_lengths(of_layout)
            most = max(1, _PACKED * rows.num_rows // max(1, rows.nbytes))
            for sent in self.layout.places(self.side, of_layout, most):
                places = 2 * sent.partitions
                if self.layout.reports_at_home:
                    places += sent.copies
                if len(sent.rows):
                    yield self.packed(rows, sent.rows, places, self.side)

    def _check_lengths(self, rows: Rows) -> None:
        for row in self.layout.lost(self.side, rows)[:1].tolist():
            name, length = NAMES[self.side], int(rows.ends[row]) - int(rows.starts[row])
            message = f"{name}: a row is {length:,} steps long, "
            message += "but no row was as long as this when the join was planned: "
            message += "the DataFrame returns different rows each time it is read; "
            message += f"call {name}.cache() or checkpoint() first, or give parallelism='key'"
            raise tidegate.TidegateError(message)


@dataclass(frozen=True)
class OverlapTask(Task):
    """An inner join of packs that returns the pairs in which at least one row is at home.

    Two native joins find each of these pairs exactly once. The first join matches left rows at home
    with all right rows. The second join matches left copies with right rows at home.
    """

    def _joined(self, packs: list[Pack]) -> Batches:
        kinds = [
            [pack for pack in packs if pack.side == kind]
            for kind in (LEFT, RIGHT, LEFT_COPY, RIGHT_COPY)
        ]
        packs.clear()
        left, right, left_copies, right_copies = kinds
        for lefts, rights in ((left, right + right_copies), (left_copies, right)):
            if lefts and rights:
                yield from self.call.run(self._side(lefts, LEFT), self._side(rights, RIGHT))
