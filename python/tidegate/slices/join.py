"""Plans and runs joins in time slices.

A left row belongs to the slice that contains its time, and the slice's task finds all of its pairs.
An unmatched right row belongs to the slice that contains its time. If the result includes such
rows, a task also reads the left rows from other slices that its right rows can reach.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

import tidegate
from tidegate.bounded.joins import EXPRESSION_ENDS
from tidegate.io.destinations import file_in
from tidegate.io.pruning import step_of
from tidegate.slices.cuts import Ranges
from tidegate.slices.distant import DistantMatches
from tidegate.slices.division import Input, Sorting, divided
from tidegate.slices.footers import LOWEST, Source, Times
from tidegate.slices.layers import Access
from tidegate.slices.overlaps import Overlaps
from tidegate.slices.plan import Call, TaskPlan, plan_name
from tidegate.slices.scratch import scratch_folder
from tidegate.slices.task import Work

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidegate._tidegate import JoinPlan, JoinQuery
    from tidegate.slices.cuts import Target
    from tidegate.slices.footers import Integers
    from tidegate.slices.task import Range

LEFT, RIGHT = "\x1fleft", "\x1fright"


def planned(
    query: JoinQuery, left: object, right: object, target: Target, scratch: str | None
) -> TaskPlan:
    """Divide a join into tasks.

    Raises:
        TidegateError: An input does not consist of Parquet files, matching rows may be any distance
            apart in time, or preparation steps are needed but no scratch folder is given.
    """
    sources = Source.of(left, "left"), Source.of(right, "right")
    plan = query.plan(sources[0].schema, sources[1].schema)
    distant = DistantMatches.of(query, plan)
    times, reach = _times(query, plan, distant)
    marks = query.keeps_right
    inputs = [
        Input(source, source.groups(columns, time), tuple(columns), time, home if marks else None)
        for source, columns, time, home in zip(
            sources, plan.needed, times, (LEFT, RIGHT), strict=True
        )
    ]

    def access(cut: Integers) -> list[Access]:
        lower, upper = reach
        left = Ranges.of(cut, *((-upper, -lower) if marks else (0, 0)), own=True)
        right = Ranges.of(cut, lower, upper, own=marks)
        return [Access(left, is_own=not marks), Access(right, side=1)]

    if plan.intervals is not None:
        inputs = _with_ends(inputs)
        access = Overlaps(inputs, marks=marks).access
    identity = pickle.dumps(query)
    found = divided(inputs, access, Sorting(scratch, target, identity))
    cut, sides, layers = found.cut, found.sides, found.layers
    work = JoinWork(query, tuple(plan.schema.names), marks)
    call = Call(plan.schema, plan.explanation, identity, work, found.stages)
    if distant is not None and len(cut):
        folder = scratch_folder(scratch, query.function, distant.instead)
        name = plan_name(identity, cut, sides)
        carries = distant.carries(sides[1], len(cut) + 1, file_in(folder, name))
        sides[1] = replace(sides[1], carries=carries)
        stages = distant.stages(sides[1], cut)
        notes = distant.notes(sides[1], stages)
        call = replace(call, preparations=[*found.stages, *stages], notes=notes)
    return TaskPlan(call, cut, sides, layers)


def _with_ends(inputs: Sequence[Input]) -> list[Input]:
    """Let rows reach at most to the latest start on either side, which no end has to exceed."""
    horizon = max(int(one.groups.last.max(initial=LOWEST)) for one in inputs)
    return [
        replace(
            one,
            times=replace(one.times, horizon=horizon),
            groups=replace(one.groups, until=np.minimum(one.groups.until, horizon)),
        )
        if one.times.is_open
        else one
        for one in inputs
    ]


def _times(
    query: JoinQuery, plan: JoinPlan, distant: DistantMatches | None
) -> tuple[tuple[Times, Times], tuple[int, int]]:
    """Return both sides' time columns, and the reach of a left row."""
    schemas = plan._inputs  # noqa: SLF001 - internal to the package
    if query.function == "overlap_join" and plan.intervals is None:
        message = f"tasks: {EXPRESSION_ENDS}, or call the function itself"
        raise tidegate.TidegateError(message)
    if plan.intervals is not None:
        columns = plan.intervals
        step = _finest(schemas, columns)
        is_open = bool(query.arguments.get("open_ends"))
        left, right = (
            # A single time that is null is no interval.
            Times(start, end, step, nullable=True, is_open=is_open and start != end)
            for start, end in columns
        )
        return (left, right), (0, 0)
    if plan.time is None:
        message = f"tasks: {query.function} joins by values that are not ordered by time; "
        message += "give a time-based window, or call the function itself"
        raise tidegate.TidegateError(message)
    (left_on, right_on), (lower, upper) = plan.time
    if distant is not None:
        lower, upper = distant.lower, distant.upper
    if query.function == "interval_join" and any(query.row_ends):
        message = "tasks: a bound is computed for each row, but rows are partitioned by column "
        message += "values; write the ends of each row to columns, and join them by overlap_join "
        message += "with on=(('start', 'end'), ('ts', 'ts')), which also has open_ends"
        raise tidegate.TidegateError(message)
    if query.arguments.get("limit") is not None and query.keeps_right:
        message = f"tasks: how={query.how!r} returns right rows that no left row keeps, but a task "
        message += "reads only some of the pairs that limit compares; give how='inner' or "
        message += "how='left', or call the function itself"
        raise tidegate.TidegateError(message)
    if lower is None or upper is None:
        message = f"tasks: in this {query.function}, matching rows may be any distance apart in "
        message += f"time; give {_advice(query.function)}, or call the function itself"
        raise tidegate.TidegateError(message)
    step = _finest(schemas, ((left_on,), (right_on,)))
    return (Times(left_on, left_on, step), Times(right_on, right_on, step)), (
        int(lower),
        int(upper),
    )


def _finest(schemas: list[pa.Schema], columns: tuple[tuple[str, ...], ...]) -> int:
    return min(
        step_of(schema.field(name).type)
        for schema, names in zip(schemas, columns, strict=True)
        for name in names
    )


def _advice(function: str) -> str:
    """Return which argument limits the distance in time between matching rows."""
    known = {"asof_join": "a tolerance", "window_join": 'a time-based window, such as window="5s"'}
    known["band_join"] = known["window_join"]
    return known.get(function, "bounds that are the same for all rows")


@dataclass(frozen=True)
class JoinWork(Work):
    """Joins the rows of a slice."""

    query: JoinQuery
    names: tuple[str, ...]
    marks: bool
    """Whether columns mark the rows that belong to the slice; needed for unmatched right rows."""

    def batches(self, tables: list[pa.Table], _own: Range) -> Iterator[pa.RecordBatch]:
        """Yield the pairs and unmatched rows that belong to a slice."""
        right, left = tables.pop(), tables.pop()
        query = self.query.replace(columns=[*self.names, LEFT, RIGHT]) if self.marks else self.query
        with query.batches(left, right) as batches:
            del left, right
            for batch in batches:
                yield self._at_home(batch) if self.marks else batch

    def _at_home(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the pairs whose left row belongs to the slice, and the slice's unmatched rows."""
        left, right = batch.column(LEFT), batch.column(RIGHT)
        at_home = left.fill_null(False)  # noqa: FBT003 - pyarrow's own
        if left.null_count:
            at_home = pa.compute.coalesce(left, right)
        rows = batch if at_home.true_count == len(at_home) else batch.filter(at_home)
        return rows.select(self.names)
