"""Plans and runs windowed aggregations in slices of time.

A window belongs to the slice that contains its start. A task reads the rows of its slice, and those
after it that windows of its slice contain.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

import tidegate
from tidegate.bounded.ordered import places
from tidegate.io.pruning import step_of
from tidegate.slices.cuts import Ranges, borders
from tidegate.slices.footers import LOWEST, Source, Times
from tidegate.slices.plan import Call, Side, TaskPlan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidegate._tidegate import AggregationQuery
    from tidegate.slices.cuts import Target
    from tidegate.slices.task import Range


def planned(
    query: AggregationQuery, streams: Sequence[object], names: Sequence[str], target: Target
) -> TaskPlan:
    """Divide an aggregation into tasks.

    Raises:
        TidegateError: A stream does not consist of Parquet files with statistics, or the query has
            sessions.
    """
    sources = [Source.of(one, name) for one, name in zip(streams, names, strict=True)]
    plan = query.plan([source.schema for source in sources])
    if plan.windows is None:
        message = "tasks: a session may be of any length, so it cannot be divided by time; "
        message += "give a size, or call aggregate itself"
        raise tidegate.TidegateError(message)
    size, advance, offset = plan.windows
    step = min(step_of(source.schema.field(query.on).type) for source in sources)
    times = Times(query.on, query.on, step)
    groups = [
        source.groups(columns, times) for source, columns in zip(sources, plan.columns, strict=True)
    ]
    cut = borders(groups, target, (advance, offset))
    # The last window of a slice starts at most one advance before the next slice.
    ranges = Ranges.of(cut, 0, size - advance, own=False)
    sides = [
        Side(source, of, tuple(columns), times, ranges.reads(of.first, of.last), ranges)
        for source, of, columns in zip(sources, groups, plan.columns, strict=True)
    ]
    work = AggregationWork(query, plan.schema.names[0], step)
    call = Call(plan.schema, plan.explanation, pickle.dumps(query), work)
    return TaskPlan(call, cut, sides)


@dataclass(frozen=True)
class AggregationWork:
    """Aggregates the rows of a slice."""

    query: AggregationQuery
    start: str
    """The result column with the start of each window."""

    step: int

    def batches(self, tables: list[pa.Table], own: Range) -> Iterator[pa.RecordBatch]:
        """Yield the windows that start in a slice."""
        found = self.query.table(tables)
        for batch in found.to_batches():
            starts = batch.column(self.start)
            at = places(starts, step_of(starts.type) // self.step, nulls=LOWEST)
            here = own.has(at)
            yield batch if here.all() else batch.filter(pa.array(here))
