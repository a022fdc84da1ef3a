"""Plans and runs joins in slices of time.

A left row belongs to the slice that contains its time, and the slice's task finds all of its pairs.
An unmatched right row belongs to the slice that contains its own time. If the result includes such
rows, a task also reads the left rows within their reach, which belong to other slices.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

import tidegate
from tidegate.io.destinations import file_in
from tidegate.io.pruning import step_of
from tidegate.slices.cuts import Ranges, borders
from tidegate.slices.distant import DistantMatches
from tidegate.slices.footers import LOWEST, Source, Times
from tidegate.slices.plan import Call, Side, TaskPlan, plan_name
from tidegate.slices.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidegate._tidegate import JoinPlan, JoinQuery
    from tidegate.slices.cuts import Target
    from tidegate.slices.footers import Groups, Integers
    from tidegate.slices.task import Range

LEFT, RIGHT = "\x1fleft", "\x1fright"


def planned(
    query: JoinQuery, left: object, right: object, target: Target, scratch: str | None
) -> TaskPlan:
    """Divide a join into tasks.

    Raises:
        TidegateError: An input does not consist of Parquet files with statistics, rows may match at
            any distance in time, or preparations are needed but no scratch folder is given.
    """
    sources = Source.of(left, "left"), Source.of(right, "right")
    plan = query.plan(sources[0].schema, sources[1].schema)
    distant = DistantMatches.of(query, plan)
    times, reach = _times(query, plan, distant)
    groups = [
        source.groups(columns, time)
        for source, columns, time in zip(sources, plan.needed, times, strict=True)
    ]
    cut = borders(groups, target)
    own = Ranges.of(cut, 0, 0, own=True)
    marks = query.keeps_right
    halos = _halos(plan, groups, cut, reach, marks=marks)
    sides = [
        Side(
            source,
            of,
            tuple(columns),
            time,
            own.reads(of.first, of.last) if halo is None else halo.reads(of.first, of.until),
            halo,
            name if marks else None,
        )
        for source, of, columns, time, halo, name in zip(
            sources,
            groups,
            plan.needed,
            times,
            (halos[0] if marks else None, halos[1]),
            (LEFT, RIGHT),
            strict=True,
        )
    ]
    work = JoinWork(query, tuple(plan.schema.names), marks)
    call = Call(plan.schema, plan.explanation, pickle.dumps(query), work)
    if distant is not None and len(cut):
        folder = scratch_folder(scratch, query.function, distant.instead)
        name = plan_name(call.identity, cut, sides)
        carries = distant.carries(sides[1], len(cut) + 1, file_in(folder, name))
        sides[1] = replace(sides[1], carries=carries)
        stages = distant.stages(sides[1], cut)
        call = replace(call, preparations=stages, notes=distant.notes(sides[1], stages))
    return TaskPlan(call, cut, sides)


def _halos(
    plan: JoinPlan, groups: Sequence[Groups], cut: Integers, reach: tuple[int, int], *, marks: bool
) -> tuple[Ranges, Ranges]:
    """Return the times of the left and of the right rows that each slice may have to read."""
    if plan.intervals is None:
        lower, upper = reach
        return Ranges.of(cut, -upper, -lower, own=True), Ranges.of(cut, lower, upper, own=marks)
    own = Ranges.of(cut, 0, 0, own=True)
    halos = []
    for other in reversed(groups):
        # A row overlaps the rows of a slice only if it starts before the last of them ends.
        mine = own.reads(other.first, other.last)
        ends = [other.until[mine.of(at)].max(initial=LOWEST) for at in range(len(cut) + 1)]
        halos.append(Ranges(own.first, np.maximum(own.last, ends)))
    return halos[0], halos[1]


def _times(
    query: JoinQuery, plan: JoinPlan, distant: DistantMatches | None
) -> tuple[tuple[Times, Times], tuple[int, int]]:
    """Return the time columns of both sides, and the reach of a left row."""
    schemas = plan._inputs  # noqa: SLF001 - internal to the package
    if plan.intervals is not None:
        columns = plan.intervals
        step = _finest(schemas, columns)
        left, right = (Times(start, end, step, nullable=True) for start, end in columns)
        return (left, right), (0, 0)
    if plan.time is None:
        message = f"tasks: {query.function} joins by values that have no order in time; "
        message += "give a time-based window, or call the function itself"
        raise tidegate.TidegateError(message)
    (left_on, right_on), (lower, upper) = plan.time
    if distant is not None:
        lower, upper = distant.lower, distant.upper
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
    """Return what to write so that rows match only within a distance in time."""
    known = {"asof_join": "a tolerance", "window_join": 'a time-based window, such as window="5s"'}
    known["band_join"] = known["window_join"]
    return known.get(function, "bounds that are the same for all rows")


@dataclass(frozen=True)
class JoinWork:
    """Joins the rows of a slice."""

    query: JoinQuery
    names: tuple[str, ...]
    marks: bool
    """Whether rows from other slices are marked, because some of them may remain unmatched."""

    def batches(self, tables: list[pa.Table], _own: Range) -> Iterator[pa.RecordBatch]:
        """Yield the pairs and the unmatched rows that belong to a slice."""
        right, left = tables.pop(), tables.pop()
        query = self.query.replace(columns=[*self.names, LEFT, RIGHT]) if self.marks else self.query
        with query.batches(left, right) as batches:
            del left, right
            for batch in batches:
                yield self._at_home(batch) if self.marks else batch

    def _at_home(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the pairs whose left row is at home, and unmatched rows that are at home."""
        left, right = batch.column(LEFT), batch.column(RIGHT)
        at_home = left.fill_null(False)  # noqa: FBT003 - pyarrow's own
        if left.null_count:
            at_home = pa.compute.coalesce(left, right)
        rows = batch if at_home.true_count == len(at_home) else batch.filter(at_home)
        return rows.select(self.names)
