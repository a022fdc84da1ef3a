"""Runs an aggregation in Python workers, which compute partial aggregates and then windows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import tidegate
from tidegate import _tidegate
from tidegate.spark.query.axis import TimeAxis
from tidegate.spark.worker.order import by_value
from tidegate.spark.worker.pack import of_type
from tidegate.spark.worker.task import Batches, Output, by_partition, threads

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tidegate._tidegate import AggregationPlan
    from tidegate.agg import Aggregate
    from tidegate.spark.layout.layout import Layout
    from tidegate.spark.worker.pack import Pack, Packer
    from tidegate.types import ClosedWindow, Empty, Length, Time, Value, Weekday, Window

# The number of bytes of rows that are aggregated together before they are sent.
_COLLECTED = 1 << 26


@dataclass(frozen=True)
class Aggregation:
    """The arguments of the native aggregation."""

    on: str
    size: Window | None
    advance: Window | None
    offset: Length | None
    session: Length | Value | None
    by: tuple[str, ...]
    aggs: dict[str, Aggregate] = field(default_factory=dict)
    where: tidegate.Expr | str | None = None
    zone: str | None = None
    week_start: Weekday | None = None
    empty: Empty | Mapping[str, Empty] | None = None
    keep: Length | None = None
    windows: pa.Table | None = None
    start: Time | None = None
    end: Time | None = None
    step: Length | None = None
    closed: ClosedWindow | None = None

    @property
    def fills(self) -> bool:
        """Return whether the result contains windows without rows."""
        return self.empty not in (None, "skip")

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments in the form that `tidegate.aggregate` accepts."""
        # Without these arguments, the remaining ones identify streaming queries of older versions.
        newer = {
            "zone": self.zone,
            "week_start": self.week_start,
            "empty": self.empty,
            "keep": self.keep,
            "windows": self.windows,
            "start": self.start,
            "end": self.end,
            "step": self.step,
            "closed": self.closed,
        }
        return {
            "on": self.on,
            "size": self.size,
            "advance": self.advance,
            "offset": self.offset,
            "session": self.session,
            "by": list(self.by) or None,
            "aggs": self.aggs,
            "where": self.where,
            **{name: value for name, value in newer.items() if value is not None},
        }

    def plan(self, streams: Sequence[pa.Table]) -> AggregationPlan:
        """Return the native plan. Raises the same errors as the native aggregation."""
        return _tidegate.AggregationQuery(**self.arguments).plan(streams)

    def run(self, streams: Sequence[pa.Table], more: Sequence[str] = ()) -> pa.Table:
        """Aggregate the streams; `more` contains additional keys."""
        by = [*self.by, *more] or None
        query = _tidegate.AggregationQuery(**self.arguments)
        return query.replace(by=by, threads=threads()).table(streams)


@dataclass(frozen=True)
class Partials:
    """Aggregates rows by slice, then packs these aggregates. Instances are sent to the workers.

    The input has the columns in `names`. Any other columns to send follow these columns.
    """

    names: tuple[str, ...]
    slices: Aggregation
    packer: Packer

    def run(self, batches: Batches) -> Batches:
        """Pack the slices of a Spark partition."""
        yield from self.packer.run(self._partials(batches))

    def _partials(self, batches: Batches) -> Batches:
        collected: list[pa.RecordBatch] = []
        for batch in batches:
            collected.append(batch)
            if sum(one.nbytes for one in collected) >= _COLLECTED:
                yield from self._of(collected)
                collected = []
        if collected:
            yield from self._of(collected)

    def _of(self, batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = pa.Table.from_batches(batches)
        # The other columns that must be sent receive names that are not in use.
        longest = max(map(len, [*self.names, *self.slices.aggs]))
        more = [
            f"key{at}".ljust(longest + 1, "_") for at in range(rows.num_columns - len(self.names))
        ]
        found = self.slices.run([rows.rename_columns([*self.names, *more])], more)
        kept = ["window_start", *self.slices.by, *self.slices.aggs, *more]
        yield from found.select(kept).combine_chunks().to_batches()


@dataclass(frozen=True)
class AggregateTask:
    """Computes the windows of a partition from its packs. Instances are sent to the workers.

    `source` names the column with the stream number, and `owner` names the column with the key
    bucket. The bucket is needed if windows must be assigned to partitions.
    """

    names: tuple[str, ...]
    aggregation: Aggregation
    streams: int
    source: str | None
    owner: str | None
    in_order: bool
    days: bool
    layout: Layout
    output: Output

    def run(self, batches: Batches) -> Batches:
        """Aggregate the rows in a Spark partition, which may contain several layout partitions."""
        for packs in by_partition(batches):
            found = self._windows(packs)
            kept = [name for name in found.column_names if name != self.owner]
            for batch in found.select(kept).to_batches():
                if batch.num_rows:
                    yield self.output.finished(batch)

    def _windows(self, packs: list[Pack]) -> pa.Table:
        rows = pa.concat_tables([pack.rows.rename_columns(self.names) for pack in packs])
        partition = packs[0].partition
        packs.clear()
        streams = [rows]
        if self.source is not None:
            numbers = range(self.streams)
            streams = [rows.filter(pc.field(self.source) == number) for number in numbers]
        if self.in_order:
            streams = [in_order(stream, self.aggregation.on, days=self.days) for stream in streams]
        found = self.aggregation.run(streams, () if self.owner is None else (self.owner,))
        if not self.layout.is_cut:
            return found
        starts = TimeAxis(self.days).integers(found["window_start"])
        buckets = np.zeros(len(starts), np.int64)
        if self.owner is not None:
            buckets = found[self.owner].to_numpy().astype(np.int64)
        slices, _ = self.layout.slices(buckets, starts, self.layout.left_span, None)
        return found.filter(pa.array(self.layout.partition_of[slices] == partition))


@dataclass(frozen=True)
class FillTask:
    """Adds windows without rows to a Spark partition. Instances are sent to the workers.

    The partition contains all windows with rows of its keys. `rows` is the schema of the rows that
    were aggregated.
    """

    aggregation: Aggregation
    rows: pa.Schema
    output: Output

    def run(self, batches: Batches) -> Batches:
        """Add windows to those in a Spark partition."""
        collected = [batch for batch in batches if batch.num_rows]
        if not collected:
            return
        query = _tidegate.AggregationQuery(**self.aggregation.arguments, threads=threads())
        schema = query.plan([self.rows]).schema
        columns = [
            of_type(column.combine_chunks(), field.type)
            for column, field in zip(pa.Table.from_batches(collected).columns, schema, strict=True)
        ]
        windows = pa.Table.from_arrays(columns, schema=schema)
        collected.clear()
        for batch in query.filled(windows, [self.rows]).to_batches():
            yield self.output.finished(batch)


def in_order(rows: pa.Table, on: str, *, days: bool) -> pa.Table:
    """Return the rows ordered by time, and by value if their times are equal."""
    return by_value(rows, on, TimeAxis(days).integers(rows[on]))
