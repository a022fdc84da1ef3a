"""Plans and runs rolling windows in time slices.

A row belongs to the slice that contains its time. If windows are time-based, a task also reads the
rows before its slice that its windows can reach. If windows are row-based, one preparation step per
slice writes each key's last rows and their number to files, which are carried into later slices
(`carries.py`, `key_rows.py`).
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tidegate import _tidegate, agg
from tidegate.bounded.ordered import LOWEST, places
from tidegate.io.destinations import file_in
from tidegate.io.pruning import step_of
from tidegate.slices.carries import Carry
from tidegate.slices.cuts import Ranges
from tidegate.slices.division import Input, Sorting, divided
from tidegate.slices.footers import Source, Times
from tidegate.slices.key_rows import Counts, RowCounter, counting, notes
from tidegate.slices.layers import Access
from tidegate.slices.plan import Call, TaskPlan, plan_name
from tidegate.slices.scratch import scratch_folder
from tidegate.slices.task import Work
from tidegate.slices.window_rows import selected
from tidegate.windows import Rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegate._tidegate import RollingQuery
    from tidegate.slices.cuts import Target
    from tidegate.slices.footers import Integers
    from tidegate.slices.plan import Side
    from tidegate.slices.task import Range

HOME, COUNT = "\x1fhome", "\x1fcount"


def planned(query: RollingQuery, table: object, target: Target, scratch: str | None) -> TaskPlan:
    """Divide rolling windows into tasks.

    Raises:
        TidegateError: The table does not consist of Parquet files, or preparation steps are needed
            but no scratch folder is given.
    """
    source = Source.of(table, "table")
    plan = query.plan([source.schema])
    step = step_of(source.schema.field(query.on).type)
    times, columns = Times(query.on, query.on, step), tuple(plan.columns[0])
    size: object = query.arguments["size"]
    length = None if isinstance(size, Rows) else window_length(query, source.schema)

    def access(cut: Integers) -> list[Access]:
        if length is None:
            return [Access(Ranges.of(cut, 0, 0, own=True), is_own=True)]
        return [Access(Ranges.of(cut, -length, 0, own=True))]

    identity = pickle.dumps(query)
    inputs = [Input(source, source.groups(columns, times), columns, times)]
    found = divided(inputs, access, Sorting(scratch, target, identity))
    cut, sides = found.cut, found.sides
    names = [name for name in plan.schema.names if name not in query.arguments["aggs"]]
    work = RollingWork(query.replace(columns=[*names, HOME]), tuple(plan.schema.names), step)
    call = Call(plan.schema, plan.explanation, identity, work, found.stages)
    if isinstance(size, Rows) and len(cut):
        only_own = query.arguments["closed"] in ("right", "neither") and size.count == 1
        if not only_own:
            whole = scratch_folder(scratch, "rolling", "size as a duration")
            folder = file_in(whole, plan_name(identity, cut, sides))
            call, sides = _prepared(call, query, work, sides[0], (cut, folder))
    return TaskPlan(call, cut, sides)


def window_length(query: RollingQuery, schema: pa.Schema) -> int:
    """Return the length of time-based windows in the unit of times."""
    size = query.arguments["size"]
    join = _tidegate.interval_join_query(on=query.on, lower=None, upper=size, columns=[])
    time = join.plan(schema, schema).time
    assert time is not None  # noqa: S101 - for mypy
    return int(time[1][1] or 0)


@dataclass(frozen=True)
class RollingWork(Work):
    """Aggregates the windows of a slice's rows."""

    query: RollingQuery
    names: tuple[str, ...]
    step: int
    """The number of nanoseconds per time unit."""

    def home(self, table: pa.Table, own: Range) -> np.ndarray:
        """Return which rows belong to a slice."""
        times = table.column(self.query.on)
        return own.has(places(times, step_of(times.type) // self.step, nulls=LOWEST))

    def batches(self, tables: list[pa.Table], own: Range) -> Iterator[pa.RecordBatch]:
        """Yield the rows that belong to a slice, with the aggregates of their windows."""
        [table] = tables
        tables.clear()
        marked = table.append_column(HOME, pa.array(self.home(table, own)))
        del table
        with self.query.batches([marked]) as batches:
            for batch in batches:
                here = batch.column(HOME)
                rows = batch if here.true_count == len(here) else batch.filter(here)
                yield rows.select(self.names)


@dataclass(frozen=True)
class RowRollingWork(Work):
    """Aggregates the row-based windows of a slice's rows."""

    work: RollingWork
    counts: Counts
    most: int
    """The number of earlier rows per key that the task reads."""

    pane: int
    """A window's rows are combined in panes of this many rows, numbered from a key's first row. The
    last bits of floats depend on the panes."""

    entries: tuple[str, ...] = ()
    """The files with the numbers of rows before the slice."""

    def of_slice(self, number: int, own: Range) -> Work:  # noqa: ARG002 - as for any work
        """Return what the task of a slice does."""
        return replace(self, entries=self.counts.entries(number))

    def batches(self, tables: list[pa.Table], own: Range) -> Iterator[pa.RecordBatch]:
        """Yield the rows that belong to a slice, with the aggregates of their windows."""
        assert self.counts.counter is not None  # noqa: S101 - for mypy
        found = self.counts.counter.rows(tables, self.entries)
        home = self.work.home(tables[0], own)[found.rows]
        carried = np.bincount(found.key, ~home, len(found.count)).astype(np.int64)
        # A pane begins with the first remaining row of each key.
        needed = np.minimum(found.before, self.most)
        skipped = carried - needed + (needed - found.before) % self.pane
        rows = selected(tables, found.without(skipped))
        tables.clear()
        yield from self.work.batches(rows, own)


def _prepared(
    call: Call, query: RollingQuery, work: RollingWork, side: Side, division: tuple[Integers, str]
) -> tuple[Call, list[Side]]:
    """Add preparation steps to a call, and add the carried rows to its table."""
    (cut, folder), given = division, query.arguments
    rows = given["size"].count
    pane = rows + {"both": 1, "neither": -1}.get(given["closed"], 0)
    most = rows - (given["closed"] in ("right", "neither")) + pane - 1
    every = {"aggs": {COUNT: agg.count()}, "size": given["size"], "threads": query.threads}
    of_keys = _tidegate.AggregationQuery(on=query.on, by=given["by"], **every)
    counter = RowCounter.of(of_keys, [side.schema])
    slices = len(cut) + 1
    counts = Counts.of(counter, slices, folder)
    carry = Carry(folder, "before", slices, side.schema, counter.keys, nulls=True, most=most)
    stages, sides = counting(counts, (carry,), [side], cut)
    told = notes([counts, carry], stages, most, "before")
    preparations = [*call.preparations, *stages]
    own = RowRollingWork(work, counts, most, pane)
    return replace(call, work=own, preparations=preparations, notes=told, carries=True), sides
