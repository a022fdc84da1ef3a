"""Plans aggregations in time slices, and runs those with windows.

A window belongs to the slice that contains its start. A task reads the rows in its slice, and any
later rows in windows that start in its slice. `sessions.py` runs session aggregations.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tidegate._tidegate import TidegateError
from tidegate.io.destinations import file_in
from tidegate.io.pruning import step_of
from tidegate.slices import filled, row_windows, sessions
from tidegate.slices import listed as listing
from tidegate.slices.cuts import Ranges
from tidegate.slices.division import Input, Sorting, divided
from tidegate.slices.footers import HIGHEST, LOWEST, Source, Times
from tidegate.slices.layers import Access
from tidegate.slices.plan import Call, TaskPlan, plan_name
from tidegate.slices.scratch import scratch_folder
from tidegate.slices.windows import AggregationWork
from tidegate.windows import Rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate._tidegate import AggregationPlan, AggregationQuery
    from tidegate.slices.cuts import Target
    from tidegate.slices.footers import Integers
    from tidegate.slices.task import Work


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
            no scratch folder is given, or windows contain their ends instead of their starts.
    """
    sources = [Source.of(one, name) for one, name in zip(streams, names, strict=True)]
    plan = query.plan([source.schema for source in sources])
    check_gaps(plan)
    windows = None if plan.longest is None else Windows(plan, query.arguments["closed"] == "right")
    given = query.arguments["windows"]
    every = [source.schema.field(query.on).type for source in sources]
    step = min(map(step_of, [*every, plan.schema.types[0]]))
    listed = None if given is None else listing.ListedWindows.of(given, step)
    times = Times(query.on, query.on, step)
    inputs = [
        Input(source, source.groups(columns, times), tuple(columns), times)
        for source, columns in zip(sources, plan.columns, strict=True)
    ]
    identity = pickle.dumps(query if given is None else listing.told(query))

    def access(cut: Integers) -> list[Access]:
        # A session or a window of rows belongs to the slice of its first row.
        ranges = Ranges.of(cut, 0, 0, own=False)
        if listed is not None:
            ranges = listed.ranges(cut)
        elif windows is not None:
            ranges = windows.ranges(cut)
        return [Access(ranges)] * len(inputs)

    grid = None if windows is None else windows.starts
    found = divided(inputs, access, Sorting(scratch, target, identity), grid)
    start = plan.schema.names[0]
    work: Work = AggregationWork(query, start, step)
    if listed is not None:
        work = listing.ListedWork(query, start, step, listed)
    call = Call(plan.schema, plan.explanation, identity, work, found.stages)
    cut, sides = found.cut, found.sides
    if not len(cut):
        return TaskPlan(call, cut, sides)

    def folder(instead: str) -> str:
        """Return the folder that contains the files of preparation steps."""
        whole = scratch_folder(scratch, "aggregate", instead)
        return file_in(whole, plan_name(identity, cut, sides))

    if query.arguments["session"] is not None:
        of_sessions = sessions.Sessions(query, (start, plan.schema.names[1]), step)
        path = folder("size in place of session")
        call, sides = sessions.prepared(call, of_sessions, sides, cut, path)
    elif isinstance(query.arguments["size"], Rows):
        path = folder("size as a duration")
        own = AggregationWork(query, start, step)
        call, sides = row_windows.prepared(call, own, sides, cut, path)
    elif query.arguments["empty"] not in (None, "skip"):
        of_keys = filled.FilledWindows.of(query, [side.schema for side in sides], start, step)
        call = filled.prepared(call, of_keys, sides, cut, folder("no empty"))
    return TaskPlan(call, cut, sides)


def check_gaps(plan: AggregationPlan) -> None:
    """Check that all rows of sessions have the same gap.

    Tasks determine from the last row of a key whether its session extends into their slice.

    Raises:
        TidegateError: Each row has its own gap.
    """
    if plan.gap_column is not None:
        message = "session: tasks can only divide sessions whose gap is the same for all rows; "
        message += "pass a duration, or call tidegate.aggregate with memory_limit"
        raise TidegateError(message)


@dataclass(frozen=True)
class Windows:
    """The windows of an aggregation without sessions."""

    plan: AggregationPlan
    contain_ends: bool
    """Whether windows contain their ends instead of their starts."""

    def _last(self, times: Integers) -> Integers:
        """Return the start and end of the last window that starts at or before each time."""
        return np.array(self.plan.last_windows(times.tolist()), np.int64).reshape(-1, 2)

    def starts(self, times: Integers) -> Integers:
        """Move times back to the start of a window."""
        return self._last(times)[:, 0]

    def ranges(self, cut: Integers) -> Ranges:
        """Return the rows that each slice reads: those in the windows that start in the slice."""
        ends = self._last(cut - 1)[:, 1]
        last = ends if self.contain_ends else ends - 1
        return Ranges(np.concatenate([[LOWEST], cut]), np.concatenate([last, [HIGHEST]]))
