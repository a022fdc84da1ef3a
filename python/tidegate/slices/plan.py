"""A task plan: the tasks of a call, and how they divide the work.

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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING, Protocol, TypeAlias, overload

import numpy as np
import pyarrow as pa

from tidegate import TidegateError, _tidegate
from tidegate.io.destinations import file_in, names_in
from tidegate.io.files import with_wide_indices
from tidegate.slices.footers import HIGHEST, LOWEST
from tidegate.slices.layers import Own
from tidegate.slices.task import AllRows, Range, Rows, Task, parts_of, widened

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegate.slices.carries import Carry
    from tidegate.slices.cuts import Ranges, Reads
    from tidegate.slices.files import File
    from tidegate.slices.footers import Groups, Integers, Source, Times
    from tidegate.slices.layers import Layer, Layers
    from tidegate.slices.task import Part, Work


@dataclass(frozen=True)
class Sorted:
    """The input rows that a first stage sorts."""

    groups: Groups
    """The input's row groups."""

    some: np.ndarray
    """A mask of the row groups that are sorted."""

    files: tuple[File, ...]
    """The input files, followed by the sorted files."""

    starts: Integers
    """The position of each row group's first row in the input; 0 for sorted files, which contain
    the position of each row."""


RESULT = re.compile(r"([0-9a-f]{12})-\d{6,}\.parquet")
"""The name of a task's result file: the plan's identifier and the task number."""


@dataclass(frozen=True)
class Side:
    """An input of the call, and the rows that each slice reads from it."""

    source: Source
    groups: Groups
    """The row groups that tasks read."""

    columns: tuple[str, ...]
    times: Times
    reads: Reads
    reach: Ranges | None
    """The time range of the additional rows that each slice reads; None for no additional rows."""

    home: str | None = None
    sorted: Sorted | None = None
    """The rows that are sorted first; None if tasks read only the input files."""

    carries: tuple[Carry, ...] = ()
    """Carries that supply each slice with rows from other slices."""

    @property
    def cut(self) -> str:
        """How the slices are cut, for explanations."""
        return f"cut by `{self.times.first}` according to file statistics"

    @property
    def schema(self) -> pa.Schema:
        """The columns that a task reads."""
        return self._stored if self.sorted is None else widened(self._stored)

    @property
    def _stored(self) -> pa.Schema:
        return pa.schema([self.source.schema.field(name) for name in self.columns])

    def rows(self, number: int, own: Own) -> Rows:
        """Return the rows that a task reads."""
        return Rows(
            name=self.source.name,
            schema=self._stored,
            parts=self._parts(self.reads.of(number)),
            where=self.source.where,
            on=self.times.first,
            until=self.times.until,
            step=self.times.step,
            horizon=self.times.open_until,
            own=own.times,
            lengths=own.lengths,
            reach=None if self.reach is None or own.only else self.reach.at(number),
            home=self.home,
            restores=self.sorted is not None,
            before=self._carried(number, backwards=False),
            after=self._carried(number, backwards=True),
        )

    def _parts(self, which: Integers) -> tuple[Part, ...]:
        if self.sorted is None:
            return parts_of(self.source.files, self.groups, which)
        own = self.groups.file[which] < len(self.source.files)
        files, starts = self.sorted.files, self.sorted.starts
        found = parts_of(files, self.groups, which[own], starts)
        return found + parts_of(files, self.groups, which[~own])

    def _carried(self, number: int, *, backwards: bool) -> tuple[str, ...]:
        found = [one.entries(number) for one in self.carries if one.backwards is backwards]
        return tuple(chain.from_iterable(found))


@dataclass(frozen=True)
class Portions:
    """The only input of a call, whose row groups are divided among the tasks, in order."""

    source: Source
    groups: Groups
    columns: tuple[str, ...]
    reads: Reads
    sorted: None = None
    carries: tuple[()] = ()

    cut = "cut between row groups"

    def rows(self, number: int, _own: Own) -> AllRows:
        """Return the rows that a task reads."""
        return AllRows(
            name=self.source.name,
            schema=pa.schema([self.source.schema.field(name) for name in self.columns]),
            parts=parts_of(self.source.files, self.groups, self.reads.of(number)),
            where=self.source.where,
        )


AnySide: TypeAlias = Side | Portions


class Tasks(Sequence[Task]):
    """A plan's tasks. Each task is created when it is accessed."""

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
    """A step that must run before the tasks. It writes files that the tasks read."""

    def run(self) -> None:
        """Run the step. Running it again writes the same files."""


class Stage(Sequence[Preparation]):
    """The preparation steps in a stage. Each one is created when it is accessed."""

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
    """The pickled query, which distinguishes this call from other calls over the same files. In a
    join with an index, the identity of the index file follows."""

    work: Work
    preparations: Sequence[Sequence[Preparation]] = ()
    notes: Sequence[str] = ()
    """Explanation lines about the preparation steps or the index."""

    carries: bool = False
    """Whether the work reads rows or results that preparation steps carry from other slices."""


def plan_name(identity: bytes, cut: Integers, sides: Sequence[AnySide]) -> str:
    """Return a plan name that changes whenever a task's result may change."""
    state = blake2b(identity, digest_size=6)
    state.update(cut.tobytes())
    for side in sides:
        for file in side.source.files:
            state.update(f"{file.path}\0{file.size}\0{file.modified}\0".encode())
        # A dataset may contain only some row groups of its files.
        state.update(side.groups.file.tobytes() + side.groups.number.tobytes())
    return state.hexdigest()


class TaskPlan:
    """A call over files, divided into tasks. `tidegate.tasks` creates plans.

    Example:
        >>> len(plan.tasks), sum(task.run().read_all().num_rows for task in plan.tasks)
        (2, 148)
        >>> plan.schema.names
        ['ts', 'ts_right']
    """

    schema: pa.Schema
    """The columns of the result."""

    def __init__(
        self, call: Call, cut: Integers, sides: Sequence[AnySide], layers: Layers | None = None
    ) -> None:
        self.schema = with_wide_indices(call.schema)
        self._call = call
        self._borders = cut
        self._sides = tuple(sides)
        self._layers = layers
        sizes = [self._sizes_of(at) for at in range(len(sides))]
        self._sizes: Integers = np.sum(sizes, axis=0)
        self._id = plan_name(call.identity, cut, sides)

    @property
    def tasks(self) -> Tasks:
        """The tasks: slice tasks in time order, followed by tasks for long rows.

        In a join with an index, the tasks are in the order of their left rows.

        Example:
            >>> [task.number for task in plan.tasks]
            [0, 1]
        """
        return Tasks(self, range(len(self._sizes)))

    @property
    def stages(self) -> list[Sequence[Preparation] | Tasks]:
        """The plan's stages. The tasks form the last stage, and most plans have no other stages.

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

    def _sizes_of(self, at: int) -> Integers:
        """Return how many bytes each task reads from a side."""
        side = self._sides[at]
        sizes = side.reads.sums(side.groups.size)
        for number, layer in enumerate(self._extra, len(self._borders) + 1):
            if layer.side != at and not layer.is_likely:
                sizes[number] = 0
        return sizes

    def with_call(self, **changes: object) -> TaskPlan:
        """Return the plan with some attributes of its call replaced."""
        call = replace(self._call, **changes)  # type: ignore[arg-type]
        return TaskPlan(call, self._borders, self._sides, self._layers)

    @property
    def carries(self) -> bool:
        """Whether preparations carry rows from one slice to others."""
        return self._call.carries or any(side.carries for side in self._sides)

    @property
    def _extra(self) -> tuple[Layer, ...]:
        return () if self._layers is None else self._layers.tasks

    def _owns(self, number: int) -> list[Own]:
        """Return the rows on each side that belong to a task."""
        layer = number - len(self._borders) - 1
        if layer >= 0:
            return [self._extra[layer].of(at) for at in range(len(self._sides))]
        first = LOWEST if number == 0 else int(self._borders[number - 1])
        last = HIGHEST if number == len(self._borders) else int(self._borders[number]) - 1
        lengths = None if self._layers is None else (0, self._layers.limit)
        return [Own(Range(first, last), lengths)] * len(self._sides)

    def _task(self, number: int) -> Task:
        owns = self._owns(number)
        reads = [(side.groups, side.reads.of(number)) for side in self._sides]
        size = int(self._sizes[number])
        layer = number - len(self._borders) - 1
        return Task(
            number=number,
            name=self._name(number),
            schema=self.schema,
            row_groups=sum(len(found) for _, found in reads),
            rows=sum(int(groups.rows[found].sum()) for groups, found in reads),
            size=size,
            share=size / max(1, int(self._sizes.sum())),
            _own=owns[0].times,
            _work=self._call.work.of_slice(number, owns[0].times),
            _inputs=tuple(
                side.rows(number, own) for side, own in zip(self._sides, owns, strict=True)
            ),
            _needed=self._extra[layer].side if layer >= 0 else None,
        )

    def missing(self, folder: str | os.PathLike[str]) -> Tasks:
        """Return the tasks whose files are not in a folder yet, in task order.

        Run these tasks to resume an interrupted plan. You can create the plan again: if the files
        and arguments are the same, the tasks are also the same.

        Example:
            >>> pathlib.Path("pairs").mkdir()
            >>> path = plan.tasks[0].write("pairs")
            >>> [task.number for task in plan.missing("pairs")]
            [1]

        Args:
            folder: The path or URL that was passed to `Task.write`. The folder does not need to
                exist yet.

        Raises:
            TidegateError: The folder contains files from another plan, or cannot be listed.
        """
        folder = os.fspath(folder)
        found = names_in(folder)
        for name in sorted(found):
            of = RESULT.fullmatch(name)
            if of is not None and of[1] != self._id:
                message = f"{file_in(folder, name)}: belongs to another plan, because files, "
                message += "arguments or target have changed; write each plan to its own folder"
                raise TidegateError(message)
        numbers = range(len(self._sizes))
        return Tasks(self, [number for number in numbers if self._name(number) not in found])

    def _name(self, number: int) -> str:
        return f"{self._id}-{number:06d}.parquet"

    def digest(self, parts: Iterable[_tidegate.Digest]) -> _tidegate.Digest:
        """Combine the digests of the tasks' results, in task order.

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
        line = f"  tasks      {count:,}, {self._sides[0].cut}; the largest reads {largest:,} bytes"
        if self._layers is not None:
            line += (
                f"\n{'':<13}{len(self._extra):,} of them process only rows whose end is more than "
            )
            line += f"{self._layers.limit:,} after their start"
        return line

    def _of_side(self, side: AnySide) -> str:
        groups = side.groups if side.sorted is None else side.sorted.groups
        size, read = int(groups.size.sum()), int(side.reads.sums(side.groups.size).sum())
        files = len(side.source.files)
        line = f"  {side.source.name:<10} {files:,} file{'s' * (files != 1)}, "
        line += f"{len(groups):,} row groups, {int(groups.rows.sum()):,} rows, {size:,} bytes"
        if read > size:
            line += f"; the tasks read {read / size:.3g} times as many"
        return line if side.sorted is None else f"{line}\n{self._of_sorted(side.sorted, files)}"

    def _of_sorted(self, some: Sorted, unsorted: int) -> str:
        """Return the cost of sorting: the bytes that are read, written, and read again by tasks."""
        size, files = int(some.groups.size[some.some].sum()), len(some.files) - unsorted
        line = f"{'':<13}{int(some.some.sum()):,} row groups are first sorted into {files:,} file"
        return f"{line}{'s' * (files != 1)}: {size:,} bytes are read, written, and read again"
