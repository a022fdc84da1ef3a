"""Plans and runs joins whose right side is an index in a file.

Each left row is matched with the whole index, so no row depends on the other left rows. The tasks
therefore divide only the row groups of the left input. The order of the left rows does not matter,
and no preparation steps are needed.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import tidegate
from tidegate.slices.cuts import Reads, bytes_per_slice
from tidegate.slices.footers import Source
from tidegate.slices.plan import Call, Portions, TaskPlan
from tidegate.slices.task import Work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from tidegate._tidegate import JoinPlan, JoinQuery
    from tidegate.slices.cuts import Target
    from tidegate.slices.footers import Groups
    from tidegate.slices.task import Range

_PLANNED = "the plan was created; create a new plan"


@dataclass(frozen=True)
class IndexFile:
    """The file of an index, as it was when the index was opened."""

    path: str
    size: int
    modified: int
    """The last modification time in nanoseconds."""

    @staticmethod
    def of(index: tidegate.Index) -> IndexFile:
        """Return the file of an index.

        Raises:
            TidegateError: The index was not opened from a file, or the file has changed.
        """
        opened = index._opened  # noqa: SLF001 - internal to the package
        if index.path is None or opened is None:
            message = "right: other processes cannot use an index that is only in memory; save it "
            message += "with index.save(path), and give tidegate.open_index(path)"
            raise tidegate.TidegateError(message)
        file = IndexFile(str(index.path), *opened)
        file.check("it was opened; open it again")
        return file

    @property
    def identity(self) -> bytes:
        """Bytes that change if the file changes."""
        return f"{self.path}\0{self.size}\0{self.modified}\0".encode()

    def check(self, since: str = _PLANNED) -> None:
        """Raise an error if the file has been changed or removed.

        Args:
            since: The end of the message, which states since when, and what to do.
        """
        try:
            found = Path(self.path).stat()
        except OSError as error:
            message = f"{self.path}: the index file cannot be read ({error.strerror}); it must be "
            message += "accessible under this path in all processes"
            raise tidegate.TidegateError(message) from error
        if (found.st_size, found.st_mtime_ns) != (self.size, self.modified):
            raise self._changed(since)

    def index(self) -> tidegate.Index:
        """Return the index. A process maps the file only once.

        Raises:
            TidegateError: The file has changed since the plan was created, or cannot be read.
        """
        self.check()
        index = _mapped(self)
        # The file may have been replaced just before it was opened.
        if index._opened != (self.size, self.modified):  # noqa: SLF001 - internal to the package
            _mapped.cache_clear()
            raise self._changed(_PLANNED)
        return index

    def _changed(self, since: str) -> tidegate.TidegateError:
        return tidegate.TidegateError(f"{self.path}: the index file has changed since {since}")


# A process rarely alternates between the tasks of several plans.
@lru_cache(maxsize=2)
def _mapped(file: IndexFile) -> tidegate.Index:
    return tidegate.open_index(file.path, threads=1)


def check_rows(query: JoinQuery, index: tidegate.Index, plan: JoinPlan) -> None:
    """Reject joins in which the result for a left row depends on other left rows.

    Raises:
        TidegateError: The result includes unmatched right rows, or a window counts rows.
        SchemaError: The columns of the index differ from those of the join.
    """
    if query.keeps_right:
        message = f"how={query.how!r}: whether a row of the index is unmatched depends on all left "
        message += "rows, and each task knows only some of them; give how='inner' or how='left', "
        message += "or give the files of the right side instead of the index"
        raise tidegate.TidegateError(message)
    windows = query.arguments.get("window")
    for window in windows if isinstance(windows, tuple) else (windows,):
        if isinstance(window, tidegate.Rows):
            message = f"window: {window!r} counts the left rows, and each task knows only some of "
            message += "them; give a time-based window, or call the function itself"
            raise tidegate.TidegateError(message)
    left, right = plan._inputs  # noqa: SLF001 - internal to the package
    is_open = index._open_ends  # noqa: SLF001 - as above
    rows = right.empty_table()
    empty = tidegate.Index(rows, on=index.on, by=index.by, open_ends=is_open, threads=1)
    query.batches(left.empty_table(), empty).close()


def planned(
    query: JoinQuery,
    left: object,
    index: tidegate.Index,
    target: Target,
    explained: Callable[[JoinQuery, JoinPlan, tidegate.Index], str],
) -> TaskPlan:
    """Divide a join with an index into tasks.

    Args:
        query: The join.
        left: The left input.
        index: The right side.
        target: The number of bytes that each task should read.
        explained: Returns the line that explains how a join uses an index.

    Raises:
        TidegateError: The left input does not consist of Parquet files, or the index was not opened
            from a file.
    """
    file = IndexFile.of(index)
    source = Source.of(left, "left")
    plan = query.plan(source.schema, index)
    check_rows(query, index, plan)
    columns = plan.needed[0]
    groups = source.groups(columns, None)
    reads = _divided(groups, bytes_per_slice(target, [groups]))
    starts = np.cumsum(groups.rows) - groups.rows
    cut = starts[reads.start[1:-1]]
    size = f"{index.rows:,} rows, {file.size:,} bytes"
    notes = [
        f"  right      {file.path}, {size}; each process maps it",
        explained(query, plan, index),
    ]
    identity = pickle.dumps(query) + file.identity
    call = Call(plan.schema, plan.explanation, identity, IndexWork(query, file), notes=notes)
    return TaskPlan(call, cut, [Portions(source, groups, tuple(columns), reads)])


def _divided(groups: Groups, target: int) -> Reads:
    """Divide row groups into runs of about `target` bytes; a run contains at least one."""
    count = max(1, -(-int(groups.size.sum()) // target))
    middle = np.cumsum(groups.size) - groups.size / 2
    part = np.floor(middle / max(1, int(groups.size.sum())) * count)
    first = np.flatnonzero(np.diff(part, prepend=-1))
    starts = first if len(first) else np.zeros(1, np.int64)
    return Reads(np.arange(len(groups)), np.append(starts, len(groups)))


@dataclass(frozen=True)
class IndexWork(Work):
    """Joins left rows with the index in a file."""

    query: JoinQuery
    file: IndexFile

    def batches(self, tables: list[pa.Table], _own: Range) -> Iterator[pa.RecordBatch]:
        """Yield the part of the result that belongs to some left rows."""
        with self.query.batches(tables.pop(), self.file.index()) as batches:
            yield from batches
