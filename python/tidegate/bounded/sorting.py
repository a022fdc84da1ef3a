"""Sorts rows with temporary files.

Rows are sorted in memory, in runs that fit into a share of the memory limit. A small input is
sorted entirely in memory. Otherwise, each sorted run is written to a file, and the runs are merged.
The files have no directory entry, so they disappear when the process ends, even if it is killed.
"""

import tempfile
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate import TidegateError, _tidegate
from tidegate.bounded.shares import RUNS, Shares
from tidegate.io.files import naming
from tidegate.runtime.rows import size_of

COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")
BUFFER_BYTES = 1 << 16

Batches: TypeAlias = Iterator[pa.RecordBatch]

Steps: TypeAlias = Generator[pa.RecordBatch | None, None, None]
"""Batches, with an occasional None so that a closed reader is noticed."""


class Run:
    """Batches in a temporary file, which is written once and then read once.

    Raises:
        TidegateError: The file cannot be written, for example because the disk is full. The
            message names the folder.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._folder = tempfile.gettempdir()
        with self._told():
            self._file: IO[bytes] = tempfile.TemporaryFile(buffering=BUFFER_BYTES)  # noqa: SIM115 - it outlives this call
            self._writer = pa.ipc.new_stream(self._file, schema, options=COMPRESSED)

    @contextmanager
    def _told(self) -> Iterator[None]:
        failure = "a temporary file cannot be written there"
        try:
            with naming(self._folder, failure):
                yield
        except TidegateError as error:
            message = f"{error}; free space, or set TMPDIR to a folder on a larger disk"
            raise TidegateError(message) from error.__cause__

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        with self._told():
            self._writer.write_batch(batch)

    def end(self) -> None:
        """Write the buffered rows."""
        with self._told():
            self._writer.close()
            self._file.flush()

    def read(self) -> pa.RecordBatchReader:
        """Return a reader for the rows."""
        self._file.seek(0)
        return pa.ipc.open_stream(pa.PythonFile(self._file, "r"))

    def close(self) -> None:
        """Remove the file and discard buffered rows."""
        with suppress(OSError):
            self._file.close()


class Runs:
    """Sorted runs, in the original order of their rows.

    Once there are many runs of the same size, they are merged into one run to limit the number of
    open files.
    """

    def __init__(self, schema: pa.Schema, key: str, shares: Shares, files: ExitStack) -> None:
        self._schema = schema
        self._key = key
        self._rows = shares.rows_merged(schema)
        self._files = files
        self._levels: list[list[Run]] = []

    def add(self, run: Run, level: int = 0) -> Steps:
        """Add a run after the existing runs."""
        if level == len(self._levels):
            self._levels.append([])
        self._levels[level].append(run)
        if len(self._levels[level]) == RUNS:
            runs, self._levels[level] = self._levels[level], []
            merged = self.new()
            for batch in self._merged(runs):
                merged.write(batch)
                yield None
            merged.end()
            yield from self.add(merged, level + 1)

    def new(self) -> Run:
        """Create a run that is closed together with `files`."""
        run = Run(self._schema)
        self._files.callback(run.close)
        return run

    def sort(self, batches: list[pa.RecordBatch]) -> Steps:
        """Sort rows into a run."""
        run = self.new()
        table = pa.Table.from_batches(batches)
        batches.clear()
        keys = table.column(self._key)
        if is_sorted(keys):
            for batch in table.to_batches(self._rows):
                run.write(batch)
        else:
            table = table.combine_chunks()
            order = pc.sort_indices(table.column(self._key))
            for start in range(0, len(order), self._rows):
                for batch in table.take(order[start : start + self._rows]).to_batches():
                    run.write(batch)
                yield None
        run.end()
        yield from self.add(run)

    def rows(self) -> Batches:
        """Yield all rows in order; rows with equal keys keep their original order."""
        while sum(map(len, self._levels)) > RUNS:
            low = next(level for level, runs in enumerate(self._levels) if runs)
            merged = self.new()
            for batch in self._merged(self._levels[low]):
                merged.write(batch)
            merged.end()
            self._levels[low] = []
            if low + 1 == len(self._levels):
                self._levels.append([])
            self._levels[low + 1].append(merged)
        # Runs at a higher level contain earlier rows.
        return self._merged([run for level in reversed(self._levels) for run in level])

    def _merged(self, runs: list[Run]) -> Batches:
        if len(runs) == 1:
            yield from runs[0].read()
        elif runs:
            with _tidegate.merge_batches([run.read() for run in runs], on=self._key) as merged:
                yield from merged
        for run in runs:
            run.close()


def is_sorted(keys: pa.ChunkedArray) -> bool:
    """Return whether integers ascend.

    Example:
        >>> is_sorted(pa.chunked_array([[1, 2], [2, 3]]))
        True
    """
    last = None
    for chunk in keys.chunks:
        values = chunk.to_numpy(zero_copy_only=False)
        if len(values) == 0:
            continue
        if (last is not None and values[0] < last) or bool(np.any(values[1:] < values[:-1])):
            return False
        last = values[-1]
    return True


def sort(  # noqa: PLR0913, PLR0917 - each has a separate role
    batches: Steps, schema: pa.Schema, key: str, shares: Shares, files: ExitStack, most: int
) -> Steps:
    """Sort rows by a column; rows with equal keys keep their original order.

    Args:
        batches: The rows, as batches with an occasional None.
        schema: The schema of the rows.
        key: A column of 64-bit integers without nulls.
        shares: The shares of the memory limit.
        files: The stack that closes the temporary files.
        most: The maximum size in bytes of the rows to sort at a time.

    Yields:
        The sorted batches, with an occasional None.
    """
    runs = Runs(schema, key, shares, files)
    held: list[pa.RecordBatch] = []
    size = 0
    has_runs = False
    for batch in batches:
        yield None
        if batch is None or batch.num_rows == 0:
            continue
        held.append(batch)
        size += size_of(batch)
        if size >= most:
            yield from runs.sort(held)
            size = 0
            has_runs = True
    if held and not has_runs and size <= shares.sorted_in_memory:
        yield from _in_memory(held, key)
        return
    if held:
        yield from runs.sort(held)
    yield from runs.rows()


def _in_memory(batches: list[pa.RecordBatch], key: str) -> Batches:
    table = pa.Table.from_batches(batches)
    if is_sorted(table.column(key)):
        yield from batches
        return
    # Keep the batch sizes of the input.
    sizes = [batch.num_rows for batch in batches]
    batches.clear()
    table = table.combine_chunks()
    order = pc.sort_indices(table.column(key))
    start = 0
    for rows in sizes:
        yield from table.take(order.slice(start, rows)).to_batches()
        start += rows
