"""Prepares joins in which matching rows may be any distance apart in time.

In as-of joins without a tolerance and joins with `prevailing`, a slice needs one right row per key
from before the slice, after it, or both. Preparation steps find these rows:

- One preparation step per slice reads the slice's right rows and keeps one row per key.
- Further steps merge these rows (`carries.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

import tidegate
from tidegate import _tidegate
from tidegate.slices.carries import Carry, merging
from tidegate.slices.cuts import Ranges
from tidegate.slices.footers import HIGHEST
from tidegate.slices.layers import Own
from tidegate.slices.plan import Stage
from tidegate.slices.scratch import write_rows
from tidegate.slices.task import Range

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate._tidegate import JoinPlan, JoinQuery
    from tidegate.expressions import Expr
    from tidegate.slices.footers import Integers
    from tidegate.slices.plan import Preparation, Side
    from tidegate.slices.task import Rows

ONLY = "\x1fonly"


@dataclass(frozen=True)
class DistantMatches:
    """Right rows that may match, however far away in time the left row is."""

    keys: tuple[str, ...]
    backwards: tuple[bool, ...]
    """False for each key's last row before a slice, and True for its first row after the slice."""

    lower: int
    upper: int
    """All other right rows match within these bounds."""

    where: Expr | str | None
    """A condition on right columns that these rows must satisfy; None for no condition."""

    instead: str
    """The argument to pass so that the distance between matching rows is limited."""

    @staticmethod
    def of(query: JoinQuery, plan: JoinPlan) -> DistantMatches | None:
        """Return a join's distant matches, or None if the distance between rows is limited.

        Raises:
            TidegateError: The condition reads columns from both sides.
        """
        if plan.time is None:
            return None
        ends = lower, upper = plan.time[1]
        keys = tuple(right for _, right in plan.keys)
        if plan.looks_back and lower is not None and upper is not None:
            # If the prevailing row does not satisfy `where`, no earlier row takes its place.
            bounds = int(lower), int(upper)
            instead = "a tolerance" if query.function == "asof_join" else "prevailing=False"
            return DistantMatches(keys, (False,), *bounds, None, instead)
        if query.function != "asof_join" or None not in ends:
            return None
        several = [name for name in ("n", "at") if query.arguments[name] is not None]
        if several:
            message = f"tasks: in this asof_join, {several[0]} looks up more than the nearest row "
            message += "outside a slice; give a tolerance, or call the function itself"
            raise tidegate.TidegateError(message)
        of_left, of_right = plan.condition_columns
        if of_left and of_right:
            message = "tasks: in this asof_join, where reads columns of both sides, so any "
            message += "right row may match, however distant in time; "
            message += "give a tolerance, or call the function itself"
            raise tidegate.TidegateError(message)
        backwards = tuple(end for end in (False, True) if ends[end] is None)
        where = query.arguments["where"] if of_right else None
        return DistantMatches(keys, backwards, 0, 0, where, "a tolerance")

    def carries(self, side: Side, slices: int, folder: str) -> tuple[Carry, ...]:
        """Return the carries that bring right rows into each slice; `folder` has their files."""
        return tuple(
            Carry(folder, "after" if one else "before", slices, side.schema, self.keys, one)
            for one in self.backwards
        )

    def stages(self, side: Side, cut: Integers) -> list[Sequence[Preparation]]:
        """Return the preparation steps for a side and its carries, stage by stage."""
        # The carried rows end where the rows that a slice reads itself begin.
        moved = Ranges.of(cut, self.lower, self.lower, own=False)
        reads = moved.reads(side.groups.first, side.groups.last)
        right = replace(side, reads=reads, reach=None, carries=())
        starts = [*moved.first.tolist(), HIGHEST + 1]
        carries, where = side.carries, self.where

        def found(number: int) -> Preparation:
            own = Range(starts[number], starts[number + 1] - 1)
            return KeepRows(right.rows(number, Own(own)), number, carries, where)

        numbers = [at for at in range(len(cut) + 1) if any(one.reads(at) for one in carries)]
        return [Stage(numbers, found), *merging(carries)]

    def notes(self, side: Side, stages: Sequence[Sequence[Preparation]]) -> list[str]:
        """Explain the preparation steps."""
        name, groups, carries = side.source.name, side.groups, side.carries
        each = -(-int(groups.size.sum()) // max(1, int(groups.rows.sum())))
        names = {False: "the last before", True: "the first after"}
        kept = " and ".join(names[one.backwards] for one in carries)
        merges = sum(map(len, stages[1:]))
        files = sum(one.files for one in carries)
        entries = sum(one.levels for one in carries)
        first = f"  prepare    {len(stages[0]):,} preparation steps read {name} once more to find "
        first += f"one row per key, {kept} each slice; "
        first += f"{merges:,} merge these rows, in {len(stages)} stages"
        second = f"  scratch    {files:,} files, each with at most one row per key, about {each:,} "
        second += f"bytes per row; a task reads up to {entries} of these files"
        return [first, second]


@dataclass(frozen=True)
class KeepRows:
    """A preparation step that keeps one row per key from a slice."""

    rows: Rows
    number: int
    carries: tuple[Carry, ...]
    where: Expr | str | None

    def run(self) -> None:
        """Write the rows to carry.

        Raises:
            TidegateError: A file has changed since the plan was created, or cannot be read or
                written.
        """
        rows = self.rows.read()
        if self.where is not None and rows.num_rows:
            rows = _matching(rows, self.rows.on, self.where)
        for carry in self.carries:
            if carry.reads(self.number):
                kept = carry.last_rows(rows, self.rows.on)
                write_rows(carry.total(0, carry.node(self.number)), kept)


def _matching(rows: pa.Table, on: str, where: Expr | str) -> pa.Table:
    """Return the rows that satisfy a condition on right columns."""
    query = _tidegate.interval_join_query(
        on=(ONLY, on),
        lower=None,
        upper=None,
        where=where,
        columns=rows.schema.names,
        threads=1,
    )
    only = pa.table([rows.column(on).slice(0, 1)], [ONLY])
    return query.table(only, rows).cast(rows.schema)
