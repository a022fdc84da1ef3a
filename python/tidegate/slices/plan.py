"""The plan of a call: its tasks, and how they divide the work.

Examples use this plan:

    >>> import pathlib
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> import tidegate as tg
    >>> pq.write_table(pa.table({"ts": range(0, 100, 2)}), "trades.parquet", row_group_size=10)
    >>> pq.write_table(pa.table({"ts": range(100)}), "quotes.parquet", row_group_size=10)
    >>> plan = tg.tasks(
    ...     tg.interval_join, "trades.parquet", "quotes.parquet", on="ts", lower=-2, upper=0,
    ...     target=1500,
    ... )
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING, Protocol, overload

import numpy as np
import pyarrow as pa

from tidegate import TidegateError, _tidegate
from tidegate.io.destinations import file_in, names_in
from tidegate.io.files import with_wide_indices
from tidegate.slices.footers import HIGHEST, LOWEST
from tidegate.slices.task import Part, Range, Rows, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tidegate.slices.carries import Carry
    from tidegate.slices.cuts import Ranges, Reads
    from tidegate.slices.footers import Groups, Integers, Source, Times
    from tidegate.slices.task import Work

RESULT = re.compile(r"([0-9a-f]{12})-\d{6,}\.parquet")
"""The name of a file that a task writes: the identity of the plan, and the number of the task."""


@dataclass(frozen=True)
class Side:
    """An input of the call, and the rows that each slice reads from it."""

    source: Source
    groups: Groups
    columns: tuple[str, ...]
    times: Times
    reads: Reads
    reach: Ranges | None
    """The times of the rows that each slice reads in addition to its own; None for no others."""

    home: str | None = None
    carries: tuple[Carry, ...] = ()
    """Carries from which each slice reads rows of other slices."""

    @property
    def schema(self) -> pa.Schema:
        """The columns to read."""
        return pa.schema([self.source.schema.field(name) for name in self.columns])

    def rows(self, number: int, own: Range) -> Rows:
        """Return the rows that a slice reads."""
        parts: dict[int, list[int]] = {}
        groups = self.groups
        for at in self.reads.of(number).tolist():
            parts.setdefault(int(groups.file[at]), []).append(int(groups.number[at]))
        files = self.source.files
        return Rows(
            name=self.source.name,
            schema=self.schema,
            parts=tuple(Part(files[file], tuple(numbers)) for file, numbers in parts.items()),
            where=self.source.where,
            on=self.times.first,
            until=self.times.until,
            step=self.times.step,
            own=own,
            reach=None if self.reach is None else self.reach.at(number),
            home=self.home,
            before=self._carried(number, backwards=False),
            after=self._carried(number, backwards=True),
        )

    def _carried(self, number: int, *, backwards: bool) -> tuple[str, ...]:
        found = [one.entries(number) for one in self.carries if one.backwards is backwards]
        return tuple(chain.from_iterable(found))


class Tasks(Sequence[Task]):
    """Tasks of a plan. Each task is created when it is accessed."""

    def __init__(self, plan: TaskPlan, numbers: Sequence[int]) -> None:
        self._plan = plan
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, at: int) -> Task: ...
    @overload
    def __getitem__(self, at: slice) -> list[Task]: ...
    def __getitem__(self, at: int | slice) -> Task | list[Task]:
        made = self._plan._task  # noqa: SLF001 - the same module
        if isinstance(at, slice):
            return [made(number) for number in self._numbers[at]]
        return made(self._numbers[at])


class Preparation(Protocol):
    """Work that has to be done before the tasks can run; writes files that tasks read."""

    def run(self) -> None:
        """Do the work. It can be repeated, with the same result."""


class Stage(Sequence[Preparation]):
    """Some preparations. Each one is created when it is accessed."""

    def __init__(self, numbers: Sequence[int], make: Callable[[int], Preparation]) -> None:
        self._numbers = numbers
        self._make = make

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, at: int) -> Preparation: ...
    @overload
    def __getitem__(self, at: slice) -> list[Preparation]: ...
    def __getitem__(self, at: int | slice) -> Preparation | list[Preparation]:
        if isinstance(at, slice):
            return [self._make(number) for number in self._numbers[at]]
        return self._make(self._numbers[at])


@dataclass(frozen=True)
class Call:
    """The call that a plan divides."""

    schema: pa.Schema
    explanation: str
    identity: bytes
    """The pickled query, which distinguishes this call from others with the same files."""

    work: Work
    preparations: Sequence[Sequence[Preparation]] = ()
    notes: Sequence[str] = ()
    """Lines of the explanation about the preparations."""


def plan_name(identity: bytes, cut: Integers, sides: Sequence[Side]) -> str:
    """Return a name for a plan that changes whenever a task's result may change."""
    state = blake2b(identity, digest_size=6)
    state.update(cut.tobytes())
    for side in sides:
        for file in side.source.files:
            state.update(f"{file.path}\0{file.size}\0{file.modified}\0".encode())
        # A dataset may contain only some row groups of its files.
        state.update(side.groups.file.tobytes() + side.groups.number.tobytes())
    return state.hexdigest()


class TaskPlan:
    """A call over files, divided into tasks. `tidegate.tasks` makes plans.

    Example:
        >>> len(plan.tasks), sum(task.run().read_all().num_rows for task in plan.tasks)
        (2, 148)
        >>> plan.schema.names
        ['ts', 'ts_right']
    """

    schema: pa.Schema
    """The columns of the result."""

    def __init__(self, call: Call, cut: Integers, sides: Sequence[Side]) -> None:
        self.schema = with_wide_indices(call.schema)
        self._call = call
        self._borders = cut
        self._sides = tuple(sides)
        sizes = [side.reads.sums(side.groups.size) for side in sides]
        self._sizes: Integers = np.sum(sizes, axis=0)
        self._id = plan_name(call.identity, cut, sides)

    @property
    def tasks(self) -> Tasks:
        """The tasks, in time order.

        Example:
            >>> [task.number for task in plan.tasks]
            [0, 1]
        """
        return Tasks(self, range(len(self._borders) + 1))

    @property
    def stages(self) -> list[Sequence[Preparation] | Tasks]:
        """The stages of the plan; the tasks are the last one, and most plans have no others.

        All objects in a stage can run at the same time, after the previous stage has finished.

        Example:
            >>> *before, tasks = plan.stages
            >>> for stage in before:
            ...     for preparation in stage:
            ...         preparation.run()
            >>> len(before), len(tasks)
            (0, 2)
        """
        return [*self._call.preparations, self.tasks]

    def _own(self, number: int) -> Range:
        first = LOWEST if number == 0 else int(self._borders[number - 1])
        last = HIGHEST if number == len(self._borders) else int(self._borders[number]) - 1
        return Range(first, last)

    def _task(self, number: int) -> Task:
        own = self._own(number)
        reads = [(side.groups, side.reads.of(number)) for side in self._sides]
        size = int(self._sizes[number])
        return Task(
            number=number,
            name=self._name(number),
            schema=self.schema,
            row_groups=sum(len(found) for _, found in reads),
            rows=sum(int(groups.rows[found].sum()) for groups, found in reads),
            size=size,
            share=size / max(1, int(self._sizes.sum())),
            _own=own,
            _work=self._call.work,
            _inputs=tuple(side.rows(number, own) for side in self._sides),
        )

    def missing(self, folder: str | os.PathLike[str]) -> Tasks:
        """Return the tasks whose files are not in a folder yet, in time order.

        Run these tasks to resume a plan that was interrupted. The plan may have been made again: as
        long as files and arguments are the same, the tasks are the same, too.

        Example:
            >>> pathlib.Path("pairs").mkdir()
            >>> path = plan.tasks[0].write("pairs")
            >>> [task.number for task in plan.missing("pairs")]
            [1]

        Args:
            folder: The path or URL that was passed to `Task.write`. The folder need not exist yet.

        Raises:
            TidegateError: The folder contains the files of another plan, or cannot be listed.
        """
        folder = os.fspath(folder)
        found = names_in(folder)
        for name in sorted(found):
            of = RESULT.fullmatch(name)
            if of is not None and of[1] != self._id:
                message = f"{file_in(folder, name)}: belongs to another plan, because files, "
                message += (
                    "arguments or target have changed since; write each plan to its own folder"
                )
                raise TidegateError(message)
        numbers = range(len(self._borders) + 1)
        return Tasks(self, [number for number in numbers if self._name(number) not in found])

    def _name(self, number: int) -> str:
        return f"{self._id}-{number:06d}.parquet"

    def digest(self, parts: Iterable[_tidegate.Digest]) -> _tidegate.Digest:
        """Combine the digests of the tasks' results, in the order of the tasks.

        Example:
            >>> def digested(task):
            ...     digest = tg.Digest(task.schema)
            ...     digest.update(task.run())
            ...     return digest
            >>> plan.digest(map(digested, plan.tasks)).rows
            148

        Args:
            parts: The digest of each task's result, as a `tidegate.Digest`.

        Returns:
            The digest of the whole result.
        """
        whole = _tidegate.Digest(self.schema)
        for part in parts:
            whole.append(part)
        return whole

    def explain(self) -> str:
        """Explain the plan: the call, the slices, and what the tasks read.

        Example:
            >>> print(plan.explain().splitlines()[-2])
              left       1 file, 5 row groups, 50 rows, ... bytes...
        """
        lines = [self._call.explanation.rstrip("\n"), self._of_tasks()]
        lines += [self._of_side(side) for side in self._sides]
        lines += self._call.notes
        return "\n".join(lines)

    def _of_tasks(self) -> str:
        count, largest = len(self.tasks), int(self._sizes.max())
        cut = f"cut by `{self._sides[0].times.first}` according to file statistics"
        return f"  tasks      {count:,}, {cut}; the largest reads {largest:,} bytes"

    def _of_side(self, side: Side) -> str:
        groups = side.groups
        size, read = int(groups.size.sum()), int(side.reads.sums(groups.size).sum())
        files = len(side.source.files)
        line = f"  {side.source.name:<10} {files:,} file{'s' * (files != 1)}, "
        line += f"{len(groups):,} row groups, {int(groups.rows.sum()):,} rows, {size:,} bytes"
        if read > size:
            line += f"; the tasks read {read / size:.3g} times as many"
        return line
