"""Plans aggregations in time slices, and runs those with windows.

A window belongs to the slice that contains its start. A task reads the rows in its slice, and any
later rows in windows that start in its slice. `sessions.py` runs session aggregations.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tidegate import TidegateError
from tidegate.bounded.ordered import places
from tidegate.io.destinations import file_in
from tidegate.io.pruning import step_of
from tidegate.slices import sessions
from tidegate.slices.cuts import Ranges
from tidegate.slices.division import Input, Sorting, divided
from tidegate.slices.footers import HIGHEST, LOWEST, Source, Times
from tidegate.slices.layers import Access
from tidegate.slices.plan import Call, TaskPlan, plan_name
from tidegate.slices.scratch import scratch_folder
from tidegate.windows import Rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidegate._tidegate import AggregationPlan, AggregationQuery
    from tidegate.slices.cuts import Target
    from tidegate.slices.footers import Integers
    from tidegate.slices.task import Range


def planned(
    query: AggregationQuery,
    streams: Sequence[object],
    names: Sequence[str],
    target: Target,
    scratch: str | None,
) -> TaskPlan:
    """Divide an aggregation into tasks.

    Raises:
        TidegateError: A stream does not consist of Parquet files, preparation steps are needed but
            no scratch folder is given, or windows without rows are requested.
    """
    if query.arguments["empty"] not in (None, "skip"):
        message = (
            "empty: a task does not know the rows in other slices; leave empty out, and fill the "
        )
        message += (
            'windows of the combined result with aggregate(..., on="window_start", empty=...)'
        )
        raise TidegateError(message)
    if query.arguments["closed"] == "right":
        message = "closed: tasks divide windows that contain their starts; leave closed out, or "
        message += "call tidegate.aggregate with memory_limit"
        raise TidegateError(message)
    if isinstance(query.arguments["size"], Rows):
        message = "size: a task does not know how many rows of a key precede its slice; give size "
        message += 'as a duration, such as "5m", or call tidegate.aggregate with memory_limit'
        raise TidegateError(message)
    sources = [Source.of(one, name) for one, name in zip(streams, names, strict=True)]
    plan = query.plan([source.schema for source in sources])
    windows = None if plan.longest is None else Windows(plan)
    step = min(step_of(source.schema.field(query.on).type) for source in sources)
    times = Times(query.on, query.on, step)
    inputs = [
        Input(source, source.groups(columns, times), tuple(columns), times)
        for source, columns in zip(sources, plan.columns, strict=True)
    ]
    identity = pickle.dumps(query)

    def access(cut: Integers) -> list[Access]:
        # A session belongs to the slice of its first row.
        ranges = Ranges.of(cut, 0, 0, own=False) if windows is None else windows.ranges(cut)
        return [Access(ranges)] * len(inputs)

    grid = None if windows is None else windows.starts
    found = divided(inputs, access, Sorting(scratch, target, identity), grid)
    work = AggregationWork(query, plan.schema.names[0], step)
    call = Call(plan.schema, plan.explanation, identity, work, found.stages)
    cut, sides = found.cut, found.sides
    if windows is None and len(cut):
        folder = scratch_folder(scratch, "aggregate", "size in place of session")
        folder = file_in(folder, plan_name(identity, cut, sides))
        of_sessions = sessions.Sessions(query, (plan.schema.names[0], plan.schema.names[1]), step)
        call, sides = sessions.prepared(call, of_sessions, sides, cut, folder)
    return TaskPlan(call, cut, sides)


@dataclass(frozen=True)
class Windows:
    """The windows of an aggregation without sessions."""

    plan: AggregationPlan

    def _last(self, times: Integers) -> Integers:
        """Return the start and end of the last window that starts at or before each time."""
        return np.array(self.plan.last_windows(times.tolist()), np.int64).reshape(-1, 2)

    def starts(self, times: Integers) -> Integers:
        """Move times back to the start of a window."""
        return self._last(times)[:, 0]

    def ranges(self, cut: Integers) -> Ranges:
        """Return the rows that each slice reads: those in the windows that start in the slice."""
        last = self._last(cut - 1)[:, 1] - 1
        return Ranges(np.concatenate([[LOWEST], cut]), np.concatenate([last, [HIGHEST]]))


@dataclass(frozen=True)
class AggregationWork:
    """Aggregates the rows of a slice."""

    query: AggregationQuery
    start: str
    """The result column that contains the start of each window."""

    step: int

    def batches(self, tables: list[pa.Table], own: Range) -> Iterator[pa.RecordBatch]:
        """Yield the windows that start in a slice."""
        found = self.query.table(tables)
        for batch in found.to_batches():
            starts = batch.column(self.start)
            at = places(starts, step_of(starts.type) // self.step, nulls=LOWEST)
            here = own.has(at)
            yield batch if here.all() else batch.filter(pa.array(here))
