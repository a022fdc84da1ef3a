"""Joins of inputs in time order, slice by slice.

The native join for tables joins a slice of left rows with the right rows within its reach. The
result is therefore the same, including the order of rows, as for a single call on both inputs
sorted by time:

    left    │ slice 1 │ slice 2 │ slice 3 │
    right  ─┴──window 1──┴──┐
                  └──window 2──┴──┐

A window holds the right rows that may match. Right rows are not read until a slice needs them. If
the window would exceed its share of the memory limit, the slice is shortened. Right rows that are
still unmatched after their last window are written to a temporary file and returned at the end.
"""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import tidegate
from tidegate import _tidegate
from tidegate.bounded.ordered import HIGHEST, LOWEST, PLACE, Ordered, places, typed
from tidegate.bounded.results import Result
from tidegate.bounded.shares import LARGE, Shares
from tidegate.bounded.sorting import Run, sort
from tidegate.io.pruning import pruned, step_of
from tidegate.runtime.rows import size_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from tidegate._tidegate import BatchReader, JoinPlan, JoinQuery
    from tidegate.bounded.limits import Limits
    from tidegate.bounded.sorting import Steps
    from tidegate.io.open_tables import OpenTable

    Integers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

# Column names that are not used in user data.
LEFT = "\x1fleft"
ROW = "\x1frow"
ROW_NUMBER = pa.field(ROW, pa.int64())


def joined(
    query: JoinQuery, plan: JoinPlan, inputs: tuple[OpenTable, OpenTable], limits: Limits | None
) -> Result:
    """Start a join that is computed slice by slice.

    Args:
        query: The join.
        plan: The join's plan for these inputs.
        inputs: The left and right inputs.
        limits: The memory limit and the lateness. None means slices of a suitable size, with no
            limit on their windows.

    Raises:
        TidegateError: The join has no time column that can be used to divide its rows, or an
            argument is invalid.
    """
    shares = Shares(LARGE, is_bound=False) if limits is None else Shares(limits.of_batches)
    reach = reach_of(query, plan)
    schemas = plan._inputs  # noqa: SLF001 - internal to the package
    left, right = (typed(one, schema) for one, schema in zip(inputs, schemas, strict=True))
    left, right = pruned(left, right, plan, query.how)
    late = (None, None) if limits is None else limits.of_sides()
    # The limit applies to the rows of all slices together, not to each slice.
    of_slices = query.replace(max_rows=None)
    if query.arguments["batch_rows"] is None:
        of_slices = of_slices.replace(batch_rows=shares.rows_made(plan.schema, query.threads))
    join = _Join(of_slices, plan, reach, shares)
    join.open(left, right, late)
    return Result(plan.schema, join.result(), join.stats, query.max_rows)


@dataclass(frozen=True)
class Reach:
    """The columns that order the rows, and the bounds within which rows may match."""

    starts: tuple[str, str]
    ends: tuple[str, str] | None
    """The end columns; None if each row has a single time."""

    lower: int | None
    """The smallest `right - left` difference between the times of two matching rows."""

    upper: int | None
    factors: tuple[int, int]
    looks_back: bool = False
    """Whether the last right row with a given key may match regardless of its age."""

    advice: str = ""
    """The advice to include in the error about too many right rows within reach."""

    is_open: bool = False
    """Whether a null start or end means that the interval is open."""

    def has_open_ends(self, side: int) -> bool:
        """Return whether rows on a side may have no end; a single time that is null has one."""
        ends = self.ends
        return self.is_open and ends is not None and self.starts[side] != ends[side]


EXPRESSION_ENDS = (
    "rows are partitioned by column values, but `on` computes the start or the end; add it to the "
    "table as a column"
)
"""The problem, and the advice, if rows cannot be divided by an expression."""


def reach_of(query: JoinQuery, plan: JoinPlan) -> Reach:
    """Return a join's reach in time, and the columns that order its rows.

    Raises:
        TidegateError: The join has no time column that can be used to divide its rows.
    """
    name = query.function
    schemas = plan._inputs  # noqa: SLF001 - internal to the package
    if name == "overlap_join" and plan.intervals is None:
        message = f"memory_limit: {EXPRESSION_ENDS}, or omit memory_limit"
        raise tidegate.TidegateError(message)
    if sides := plan.intervals:
        starts = (sides[0][0], sides[1][0])
        ends = (sides[0][1], sides[1][1])
        kinds = [schemas[side].field(column).type for side in (0, 1) for column in sides[side]]
        least = min(map(step_of, kinds))
        if any(
            step_of(schemas[side].field(starts[side]).type)
            != step_of(schemas[side].field(ends[side]).type)
            for side in (0, 1)
        ):
            message = "memory_limit: the start and end columns of a side have different units; "
            message += "cast them to the same unit, or omit memory_limit"
            raise tidegate.SchemaError(message)
        factors = (step_of(kinds[0]) // least, step_of(kinds[2]) // least)
        is_open = bool(query.arguments.get("open_ends"))
        shorter = "shorter intervals"
        if is_open:
            shorter += ", for instance by replacing null ends with the time until which rows match"
        return Reach(starts, ends, 0, 0, factors, advice=shorter, is_open=is_open)
    if plan.time is None:
        message = f"memory_limit: {name} joins by values that are not ordered by time; omit it, "
        message += 'or write tidegate.window_join(..., window=..., where="abs(left.x - right.x) <= '
        message += '1"), which joins rows that are close in time'
        raise tidegate.TidegateError(message)
    starts, (lower, upper) = plan.time
    if name in {"window_join", "band_join"} and lower is None and upper is None:
        message = "memory_limit: a row-based window counts rows of whole inputs, "
        message += "which cannot be split by time; "
        message += 'give a time-based window, such as window="5s", or omit memory_limit'
        raise tidegate.TidegateError(message)
    steps = [step_of(schemas[side].field(starts[side]).type) for side in (0, 1)]
    factors = (steps[0] // min(steps), steps[1] // min(steps))
    advice = {"asof_join": "a tolerance", "window_join": "a shorter window"}
    if plan.looks_back and lower is None:
        lower = 0
    return Reach(
        starts,
        None,
        _whole(lower),
        _whole(upper),
        factors,
        plan.looks_back,
        advice.get(name, "a narrower interval that is the same for all rows"),
    )


def _whole(end: float | None) -> int | None:
    return None if end is None else int(end)


@dataclass
class _Part:
    """Consecutive rows from one side."""

    batch: pa.RecordBatch
    starts: Integers
    until: Integers
    """The last time at which each row may match: the row's own time or its end."""

    rows: Integers | None = None
    """The row numbers of right rows; None unless the join returns unmatched right rows."""

    matched: Any = None
    """Flags that show which of these rows have matched."""

    @functools.cached_property
    def size(self) -> int:
        return size_of(self.batch)

    def cut(self, start: int, stop: int) -> _Part:
        some = slice(start, stop)
        return _Part(
            self.batch.slice(start, stop - start),
            self.starts[some],
            self.until[some],
            None if self.rows is None else self.rows[some],
            None if self.matched is None else self.matched[some],
        )

    def only(self, mask: Any) -> _Part:  # noqa: ANN401 - booleans
        return _Part(
            self.batch.filter(pa.array(mask)),
            self.starts[mask],
            self.until[mask],
            None if self.rows is None else self.rows[mask],
            None if self.matched is None else self.matched[mask],
        )


@dataclass
class _Join:
    query: JoinQuery
    plan: JoinPlan
    reach: Reach
    shares: Shares
    files: ExitStack = field(default_factory=ExitStack)
    window: deque[_Part] = field(default_factory=deque)
    window_bytes: int = 0
    read_to: int = LOWEST
    """The time of the last right row read so far."""

    carried: int = 0
    """The size in bytes of the right rows carried over from the previous window."""

    right_ended: bool = False
    kept_back: int = 0
    """The total size in bytes of the last rows for all keys, as of the most recent lookup."""

    before: int = 0
    """The size in bytes of the right rows that precede all intervals. These rows are kept because
    the last row with a given key may match."""

    told: dict[str, Any] = field(default_factory=dict)
    left_done: int = 0
    unmatched: Run | None = None

    def open(self, left: OpenTable, right: OpenTable, lateness: tuple[Any, Any]) -> None:
        self.keeps_right = self.query.keeps_right
        needed = self.plan.needed
        sides = []
        for side, table in enumerate((left, right)):
            columns = list(needed[side])
            ends = self.reach.ends
            sides.append(
                Ordered(
                    table,
                    columns,
                    self.reach.starts[side],
                    self.reach.factors[side],
                    lateness[side],
                    self.shares,
                    self.files,
                    nullable=ends is not None,
                    may_code=self.query.arguments.get("aggs") is None,
                )
            )
        self.left, self.right = sides

    def stats(self) -> dict[str, Any]:
        """Return the statistics of a join reader."""
        first = {"threads": self.query.threads}
        return {
            "left_rows": self.left.rows,
            "right_rows": self.right.rows,
            "left_rows_done": self.left_done,
            "keys": "none",
            "where": "none",
            **first,
            **self.told,
        }

    # The rows on both sides

    def result(self) -> Steps:
        """Yield the batches of the result, with an occasional None."""
        with ThreadPoolExecutor(2) as threads:
            # In parallel, because all times must be read if the statistics do not show the order.
            list(threads.map(Ordered.look, (self.left, self.right)))
        lefts, rights = self._parts(self.left, 0), self._parts(self.right, 1)
        with self.files, closing(lefts), closing(rights):
            held: deque[_Part] = deque()
            size = 0
            for part in lefts:
                if part is None:
                    yield None
                    continue
                held.append(part)
                size += part.size
                while size >= self.shares.slice_with(self.carried):
                    yield from self._slice(held, rights)
                    size = sum(one.size for one in held)
            while held:
                yield from self._slice(held, rights)
            if self.keeps_right:
                yield from self._rest(rights)

    def _parts(self, side: Ordered, number: int) -> Generator[_Part | None, None, None]:
        numbers = 0
        for batch in side.batches():
            if batch is None or batch.num_rows == 0:
                yield None
                continue
            starts = batch.column(PLACE).to_numpy()
            until = starts
            if self.reach.ends is not None:
                column = batch.column(self.reach.ends[number])
                nulls = HIGHEST if self.reach.has_open_ends(number) else LOWEST
                until = places(column, self.reach.factors[number], nulls=nulls)
                self._check_ends(side, batch, starts, until, number)
            rows = matched = None
            if number == 1 and self.keeps_right:
                rows, matched = numbers + np.arange(len(starts)), np.zeros(len(starts), bool)
                numbers += len(starts)
            most = max(1, self.shares.slice // 4)
            pieces = -(-size_of(batch) // most)
            step = -(-batch.num_rows // pieces)
            whole = _Part(batch, starts, until, rows, matched)
            for start in range(0, batch.num_rows, step):
                yield whole.cut(start, min(start + step, batch.num_rows))

    def _check_ends(
        self, side: Ordered, batch: pa.RecordBatch, starts: Integers, until: Integers, number: int
    ) -> None:
        wrong = (starts > until) & (until != LOWEST)
        if self.reach.ends is not None and wrong.any():
            at = int(np.argmax(wrong))
            start, end = self.reach.starts[number], self.reach.ends[number]
            message = (
                f"{side.table.name}: a row has {batch.column(start)[at]} in column `{start}`, "
            )
            message += f"after {batch.column(end)[at]} in column `{end}`, "
            message += "expected a start at or before its end; "
            message += "swap the two, or filter such rows out first"
            raise tidegate.TidegateError(message)

    def _slice(self, held: deque[_Part], rights: Iterator[_Part | None]) -> Steps:
        """Join as many left rows as fit into their share of the memory limit."""
        parts: list[_Part] = []
        size = 0
        most = self.shares.slice_with(self.carried)
        while held and (not parts or size + held[0].size <= most):
            size += held[0].size
            parts.append(held.popleft())
        lowest = parts[0].starts[0]
        if self.reach.ends is not None and lowest == LOWEST and not self.reach.has_open_ends(0):
            # Rows with a null start come first, and do not match any row.
            firsts = [part.starts[part.starts > LOWEST] for part in parts]
            lowest = next((found[0] for found in firsts if len(found)), LOWEST)
        self._drop(_plus(int(lowest), self.reach.lower, LOWEST))
        self.carried = self.window_bytes
        wanted = max(self._reached(part) for part in parts)
        while not self.right_ended and self.read_to <= wanted and self._has_room():
            try:
                part = next(rights)
            except StopIteration:
                self.right_ended = True
                continue
            if part is None:
                yield None
            else:
                self._add(part)
        if not self.right_ended and self.read_to <= wanted:
            # Keep only the left rows whose right rows have all been read.
            parts = self._cut(parts, held)
        yield from self._join(parts)

    def _reached(self, part: _Part) -> int:
        """Return the last time at which a right row may match one of these left rows."""
        if self.reach.ends is not None:
            return int(part.until.max())
        return _plus(int(part.starts[-1]), self.reach.upper, HIGHEST)

    def _done(self, part: _Part) -> int:
        """Return the number of leading left rows for which all possible partners have been read."""
        if self.reach.ends is not None:
            ends = np.maximum.accumulate(part.until)
            return int(np.searchsorted(ends, self.read_to, "left"))
        upper = self.reach.upper
        return bisect_left(
            part.starts, self.read_to, key=lambda start: _plus(int(start), upper, HIGHEST)
        )

    def _has_room(self) -> bool:
        return not self.shares.is_bound or self.window_bytes - self.before < self.shares.window

    def _add(self, part: _Part) -> None:
        self.window.append(part)
        self.window_bytes += part.size
        self.read_to = int(part.starts[-1])

    def _cut(self, parts: list[_Part], held: deque[_Part]) -> list[_Part]:
        kept: list[_Part] = []
        for at, part in enumerate(parts):
            rows, count = self._done(part), len(part.starts)
            if rows:
                kept.append(part.cut(0, rows))
            if rows < count:
                held.extendleft(reversed(parts[at + 1 :]))
                held.appendleft(part.cut(rows, count))
                break
        if not kept:
            message = f"{self.query.function}: "
            message += "the right rows within reach of one left row need more than "
            message += f"{self.shares.window} bytes, their share of memory_limit; "
            message += f"raise memory_limit, read fewer columns, or give {self.reach.advice}"
            raise tidegate.MemoryLimitError(message)
        return kept

    def _drop(self, lowest: int) -> None:
        """Drop the right rows that no subsequent left row can match."""
        if lowest == LOWEST and not self.reach.looks_back:
            return
        back: list[_Part] = []
        kept: deque[_Part] = deque()
        for part in self.window:
            dead, alive = self._parted(part, lowest)
            if alive is not None:
                kept.append(alive)
            if dead is None:
                continue
            if self.reach.looks_back:
                back.append(dead)
            elif dead.matched is not None:
                self._keep_unmatched(dead.only(~dead.matched))
        if back:
            back = self._last_of_keys(back)
            kept.extendleft(reversed(back))
        self.before = sum(part.size for part in back)
        self.window = kept
        self.window_bytes = sum(part.size for part in kept)

    def _parted(self, part: _Part, lowest: int) -> tuple[_Part | None, _Part | None]:
        """Split off the rows that cannot match at time `lowest` or later."""
        count = len(part.until)
        if self.reach.ends is None:
            rows = int(np.searchsorted(part.until, lowest, "left"))
            if 0 < rows < count:
                return part.cut(0, rows), part.cut(rows, count)
        else:
            alive = part.until >= lowest
            rows = count - int(np.count_nonzero(alive))
            if 0 < rows < count:
                return part.only(~alive), part.only(alive)
        return (part, None) if rows else (None, part)

    # One slice

    def _table(self, parts: list[_Part] | deque[_Part], side: Ordered) -> pa.Table:
        batches = [part.batch.select(side.plain.names) for part in parts]
        return pa.Table.from_batches(batches, side.plain)

    def _join(self, parts: list[_Part]) -> Steps:
        left, right = self._table(parts, self.left), self._table(self.window, self.right)
        rows = left.num_rows
        if self.keeps_right:
            yield from self._join_marked(left, right)
        else:
            with self.query.batches(left, right) as reader:
                yield from reader
                self._note(reader)
        self.left_done += rows

    def _note(self, reader: BatchReader[Any]) -> None:
        stats = reader.stats()
        self.told = {name: stats[name] for name in ("keys", "where", "threads")}

    def _join_marked(self, left: pa.Table, right: pa.Table) -> Steps:
        """Join all left rows, and record which right rows have matched."""
        names = self.plan.schema.names
        left = left.append_column(LEFT, pa.array(np.ones(left.num_rows, bool)))
        right = right.append_column(ROW, pa.array(np.arange(right.num_rows)))
        matched = np.ones(right.num_rows, bool)
        marked = self.query.replace(columns=[*names, LEFT, ROW])
        with marked.batches(left, right) as reader:
            for batch in reader:
                is_pair = batch.column(LEFT).is_valid()
                alone = batch.filter(pc.invert(is_pair)).column(ROW)
                matched[alone.to_numpy()] = False
                pairs = batch.filter(is_pair) if len(alone) else batch
                yield pairs.select(names)
            self._note(reader)
        start = 0
        for part in self.window:
            assert part.matched is not None  # noqa: S101 - for mypy
            part.matched |= matched[start : start + len(part.starts)]
            start += len(part.starts)

    # Unmatched right rows

    def _keep_unmatched(self, part: _Part) -> None:
        if part.batch.num_rows == 0:
            return
        if self.unmatched is None:
            self.unmatched = Run(self.right.plain.append(ROW_NUMBER))
            self.files.callback(self.unmatched.close)
        columns = [*part.batch.select(self.right.plain.names).columns, pa.array(part.rows)]
        self.unmatched.write(pa.RecordBatch.from_arrays(columns, schema=self.unmatched.schema))

    def _rest(self, rights: Iterator[_Part | None]) -> Steps:
        """Yield the remaining unmatched right rows in order."""
        for part in self.window:
            self._keep_unmatched(part.only(~part.matched))
        self.window.clear()
        for later in rights:
            if later is not None:
                self._keep_unmatched(later)
            yield None
        if self.unmatched is None:
            return
        self.unmatched.end()
        nothing = pa.Table.from_batches([], self.left.plain)
        rows: Steps = (batch for batch in self.unmatched.read())
        if self.reach.ends is not None:
            # Rows with long intervals leave the windows after rows that start later.
            rows = sort(
                rows, self.unmatched.schema, ROW, self.shares, self.files, self.shares.sorted
            )
        for batch in rows:
            if batch is None:
                yield None
                continue
            alone = pa.Table.from_batches([batch.select(self.right.plain.names)])
            with self.query.batches(nothing, alone) as reader:
                yield from reader

    # The last right row for each key

    def _last_of_keys(self, parts: list[_Part]) -> list[_Part]:
        """Return the last right row for each key among the rows that precede all windows."""
        size = sum(part.size for part in parts)
        if size < 2 * self.kept_back + self.shares.window // 8:
            return parts
        batches = [part.batch for part in parts]
        # A null key does not match any key.
        keys = [(right, right) for _, right in self.plan.keys]
        rows = pa.Table.from_batches(batches)
        if keys:
            valid = (pc.is_valid(rows.column(right)) for right, _ in keys)
            rows = rows.filter(functools.reduce(pc.and_, valid))
        later = _tidegate.interval_join_query(
            on=PLACE,
            lower=0,
            upper=None,
            by=keys or None,
            closed="neither",
            how="anti",
            suffix="\x1f",
        )
        last = later.table(rows, rows)
        found = []
        for batch in last.combine_chunks().to_batches():
            starts = batch.column(PLACE).to_numpy()
            found.append(_Part(batch, starts, starts))
        self.kept_back = sum(part.size for part in found)
        if self.shares.is_bound and self.kept_back > self.shares.window // 3:
            message = f"{self.query.function}: the last right rows for all keys need "
            message += f"{self.kept_back} bytes, more than their share of memory_limit, "
            message += f"which is {self.shares.window // 3} bytes; "
            message += f"raise memory_limit, read fewer columns, or give {self.reach.advice}"
            raise tidegate.MemoryLimitError(message)
        return found


def _plus(place: int, offset: int | None, unbounded: int) -> int:
    return unbounded if offset is None else min(max(place + offset, LOWEST), HIGHEST)
