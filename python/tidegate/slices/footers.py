"""An input's Parquet files, and the row group metadata in their footers.

If a file's footer does not contain the times of a row group, the row group's time columns are read.
"""

from __future__ import annotations

import pickle
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as pafs

from tidegate import SchemaError, TidegateError, _tidegate
from tidegate.io.files import Format, reading
from tidegate.io.open_tables import open_table
from tidegate.io.pruning import Span, bytes_stored, is_parquet, places_of, span_stored, step_of
from tidegate.io.read_files import ASKED_AT_ONCE, Reading, check_same
from tidegate.slices.files import File

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Integers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

LOWEST, HIGHEST = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)

UNKNOWN = -(1 << 128)
"""A value before all times in any unit, used for rows without a time."""

OPEN = 1 << 128
"""A value after all times in any unit, used for rows whose interval has no end."""


class Footers:
    """The contents of the footers that were read last, so that further plans need not read them.

    An entry is about 60 bytes per row group.

    Example:
        >>> some = Footers(1)
        >>> some.put("a", np.zeros((1, 7), np.int64))
        >>> some.put("b", np.ones((2, 7), np.int64))
        >>> some.get("a") is None, len(some.get("b"))
        (True, 2)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: OrderedDict[object, Integers] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: object) -> Integers | None:
        """Return the row groups of a file, or None if they are not known."""
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
            return self._found.get(key)

    def put(self, key: object, groups: Integers) -> None:
        """Keep the row groups of a file."""
        with self._lock:
            self._found[key] = groups
            if len(self._found) > self._most:
                self._found.popitem(last=False)


KNOWN = Footers(100_000)


@dataclass(frozen=True)
class Times:
    """The time columns of a side, and the unit in which times are compared."""

    first: str
    until: str
    """The column with the latest time at which a row may match: its time or its end."""

    step: int
    """The number of nanoseconds per unit, or 1 for integers."""

    nullable: bool = False
    """Whether these columns may contain nulls."""

    is_open: bool = False
    """Whether a null end means that there is no end."""

    horizon: int = HIGHEST
    """The latest start on either side."""

    @property
    def open_until(self) -> int | None:
        """The time that replaces null and later ends; None if a null end matches nothing."""
        return self.horizon if self.is_open else None


@dataclass(frozen=True)
class Source:
    """An input that consists of Parquet files."""

    name: str
    """The argument name to show in messages."""

    schema: pa.Schema
    files: Sequence[File]
    where: pc.Expression | None
    """A dataset's filter; rows that do not satisfy it do not belong to the input."""

    subsets: Sequence[Sequence[int] | None]
    """For each file, the row groups that belong to the input; None for all row groups."""

    @staticmethod
    def of(given: object, name: str) -> Source:
        """Find the files of an input.

        Raises:
            TidegateError: The input does not consist of Parquet files, or a file cannot be read.
            TypeError: The input type is not supported.
        """
        if isinstance(given, Source):
            return given
        if isinstance(given, ds.FileSystemDataset):
            return Source._of_dataset(given, name)
        if _tidegate.is_arrow(given):
            raise _not_parquet(name)
        table = open_table(given, name, Reading(streamed=True, checked=False))
        if table.pieces is None or not all(map(is_parquet, table.pieces)):
            raise _not_parquet(name)
        files: list[File] = []
        for piece in table.pieces:
            assert isinstance(piece.rows, ds.FileSystemDataset)  # noqa: S101 - for mypy
            files += _files([*piece.rows.get_fragments()], piece.names)
        return Source(name, table.schema, files, None, [None] * len(files))

    @staticmethod
    def _of_dataset(given: ds.FileSystemDataset, name: str) -> Source:
        if not isinstance(given.format, ds.ParquetFileFormat):
            raise _not_parquet(name)
        try:
            fragments = [*given.get_fragments()]
        except ValueError as error:
            message = f"{name}: a dataset that filters or projects its rows does not list its "
            message += "files; give the whole dataset, and put the condition into where"
            raise TidegateError(message) from error
        chosen = [one.row_groups and [info.id for info in one.row_groups] for one in fragments]
        files = _files(fragments, [one.path for one in fragments])
        return Source(name, given.schema, files, None, chosen)

    def groups(self, columns: Sequence[str], times: Times | None) -> Groups:
        """Return the non-empty row groups, in order.

        Args:
            columns: The columns that a task reads.
            times: The columns that contain the times. If None, the times in the result are 0.

        Raises:
            SchemaError: A file's columns differ from those of the first file, or a time is null.
            TidegateError: A file cannot be read.
        """
        width = len(fields(Groups))

        of_call = self._of_call(columns, times)

        def of_file(at: int) -> Integers:
            file, chosen = self.files[at], self.subsets[at]
            key = None
            if of_call is not None and file.modified is not None:
                some = None if chosen is None else tuple(chosen)
                key = (*of_call, file.identity, str(file.values), some)
            known = None if key is None else KNOWN.get(key)
            if known is None:
                found = [*self._rows_of(at, columns, times)]
                known = np.array(found, np.int64).reshape(-1, width)
                if key is not None:
                    KNOWN.put(key, known)
            known = known.copy()
            known[:, 0] = at
            return known

        # Each footer is dropped as soon as it has been read.
        with ThreadPoolExecutor(ASKED_AT_ONCE) as threads:
            found = [*threads.map(of_file, range(len(self.files)))]
        return Groups(*np.concatenate([np.zeros((0, width), np.int64), *found]).T)

    def _of_call(self, columns: Sequence[str], times: Times | None) -> tuple[object, ...] | None:
        """Return what determines how footers are read, or None if their contents are not kept."""
        if not self.files:
            return None
        first = self.files[0]
        try:
            filesystem = pickle.dumps(first.filesystem)
        except (TypeError, AttributeError, pickle.PicklingError):
            return None
        return filesystem, first.identity, str(self.schema), tuple(columns), times

    def _rows_of(
        self, at: int, columns: Sequence[str], times: Times | None
    ) -> Iterator[tuple[int, ...]]:
        file = self.files[at]
        with reading(file.name, Format.PARQUET):
            fragment = ds.ParquetFileFormat().make_fragment(file.path, file.filesystem)
            footer, schema = fragment.metadata, fragment.physical_schema
        known = ds.get_partition_keys(file.values)
        stored = [name for name in self.schema.names if name not in known]
        if at:
            expected = pa.schema([self.schema.field(name) for name in stored])
            check_same([self.files[0].name, file.name], [expected, schema])
        places = places_of(footer)
        of_times = () if times is None else (times.first, times.until)
        kinds = {name: self.schema.field(name).type for name in of_times}
        columns = [name for name in columns if name not in known]
        chosen = self.subsets[at]
        for number in range(footer.num_row_groups) if chosen is None else chosen:
            group = footer.row_group(number)
            if group.num_rows == 0:
                continue
            size = bytes_stored(group, places, columns)
            if times is None:
                yield at, number, group.num_rows, size, 0, 0, 0
                continue
            spans = {
                name: _span_of_folder(known[name], kind)
                if known.get(name) is not None
                else _span(group, places, name, kind, times)
                for name, kind in kinds.items()
            }
            of_start, of_end = spans[times.first], spans[times.until]
            if of_start is None or of_end is None:
                of_start, of_end = self._read_spans(file, number, times)
            found = of_start[0], of_start[1], of_end[1]
            yield at, number, group.num_rows, size, *(_in(time, times.step) for time in found)

    def _read_spans(self, file: File, number: int, times: Times) -> tuple[Span, Span]:
        """Find the earliest and latest times in a row group by reading its time columns."""
        names = [*dict.fromkeys((times.first, times.until))]
        schema = pa.schema([self.schema.field(name) for name in names])
        found: dict[str, list[Span]] = {name: [] for name in names}
        for batch in file.batches([number], schema):
            for name, column in zip(names, batch.columns, strict=True):
                if len(column):
                    found[name].append(self._span_read(file, name, column, times))
        first, until = (
            (min(start for start, _ in spans), max(end for _, end in spans))
            for spans in (found[times.first], found[times.until])
        )
        return first, until

    def _span_read(self, file: File, name: str, column: pa.Array, times: Times) -> Span:
        if column.null_count and not times.nullable:
            message = f"{self.name}: column `{name}` contains null times in {file.name}, "
            message += "but every row must have a time; filter such rows out first"
            raise SchemaError(message)
        step = step_of(column.type)
        if pa.types.is_date32(column.type):
            column = column.cast(pa.int32())
        with reading(file.name, Format.PARQUET):
            ends = pc.min_max(column.cast(pa.int64()))
        first, last = ends["min"].as_py(), ends["max"].as_py()
        span = None if first is None else (first * step, last * step)
        return _with_nulls(span, times, name) if column.null_count else (first * step, last * step)


def _with_nulls(span: Span | None, times: Times, column: str) -> Span:
    """Return the earliest and latest times in a column that contains nulls.

    Args:
        span: The earliest and latest times of the other rows; None if there are no other rows.
        times: The time columns of the side.
        column: The name of the column.
    """
    if times.is_open and column == times.until:
        return (OPEN if span is None else span[0]), OPEN
    return UNKNOWN, (UNKNOWN if span is None else span[1])


def _span_of_folder(value: object, kind: pa.DataType) -> Span:
    """Return the time shared by all rows of a file, as encoded in its folder name."""
    time = pa.scalar(value, kind)
    if pa.types.is_date32(kind):
        time = time.cast(pa.int32())
    place = time.cast(pa.int64()).as_py() * step_of(kind)
    return place, place


def _span(
    group: Any,  # noqa: ANN401 - of pyarrow
    places: Mapping[str, int],
    column: str,
    kind: pa.DataType,
    times: Times,
) -> Span | None:
    """Return the earliest and latest times in a row group, or None if they are unknown."""
    span = span_stored(group, places, column, kind, nulls=times.nullable)
    if not times.nullable:
        return span
    place = places.get(column)
    told = None if place is None else group.column(place).statistics
    if told is None or not told.has_null_count:
        return None
    if told.null_count == group.num_rows:
        return _with_nulls(None, times, column)
    return span if span is None or not told.null_count else _with_nulls(span, times, column)


def _in(time: int, step: int) -> int:
    """Convert a time to a unit of `step` nanoseconds, and clamp it to the 64-bit range."""
    return min(max(time // step, LOWEST), HIGHEST)


def _not_parquet(name: str) -> TidegateError:
    message = f"{name}: expected Parquet files, whose footers contain the times of the rows; "
    message += "give a path or a pyarrow dataset of Parquet files, or write the rows to such files"
    return TidegateError(message)


def _files(fragments: Sequence[ds.ParquetFileFragment], names: Sequence[str]) -> list[File]:
    """Return the files behind some fragments of the same dataset."""
    if not fragments:
        return []
    filesystem = fragments[0].filesystem
    is_local = isinstance(filesystem, pafs.LocalFileSystem)
    # A task may run in a process with another working directory.
    paths = [str(Path(one.path).absolute()) if is_local else one.path for one in fragments]
    with reading(names[0], Format.PARQUET):
        infos = filesystem.get_file_info(paths)
    return [
        File(path, name, filesystem, info.size, info.mtime_ns, one.partition_expression)
        for path, name, info, one in zip(paths, names, infos, fragments, strict=True)
    ]


@dataclass(frozen=True)
class Groups:
    """The row group metadata from the footers; each array has one entry per row group."""

    file: Integers
    number: Integers
    rows: Integers
    size: Integers
    """The uncompressed size, in bytes, of the columns that tasks read."""

    first: Integers
    last: Integers
    """The earliest and latest times. Rows without a time are treated as earlier than all others."""

    until: Integers
    """The latest time at which a row may match: the latest row time or row end."""

    def __len__(self) -> int:
        """Return the number of row groups."""
        return len(self.rows)

    def at(self, which: np.ndarray | slice) -> Groups:
        """Return some of the row groups."""
        return Groups(*(getattr(self, field.name)[which] for field in fields(self)))
