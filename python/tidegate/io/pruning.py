"""Finds the row groups of Parquet files that a join can skip, using the statistics of the files.

A row group is skipped if its times show that its rows match no rows in the other side's row groups.
If the result includes one side's unmatched rows, all row groups on that side are read.
"""

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from tidegate import _tidegate
from tidegate.io.files import reading
from tidegate.io.open_tables import OpenTable, of_pieces
from tidegate.io.read_files import ASKED_AT_ONCE, Piece, few_of_row_groups

Span: TypeAlias = tuple[int, int]
"""The earliest and latest times of some rows, in the unit that `step_of` defines."""

CODE_BYTES = 4
"""The size of a dictionary index, in bytes."""

SMALL_DICTIONARY = 1 << 18
"""The maximum size of a dictionary in a file, in bytes. Each batch holds the whole dictionary."""

UNITS_OF_PARQUET = {"milliseconds": 10**6, "microseconds": 10**3, "nanoseconds": 1}


@dataclass(frozen=True)
class Group:
    """A row group of a file."""

    file: tuple[int, int]
    """The index of the piece in the table, and the index of the file in the piece."""

    fragment: ds.ParquetFileFragment
    number: int
    metadata: Any
    places: Mapping[str, int]
    """The positions of the file's columns, by path; paths that occur more than once are omitted."""


def row_groups(table: OpenTable) -> list[Group] | None:
    """Return the non-empty row groups of a table, in order, or None if a file is not Parquet."""
    if table.pieces is None or not all(is_parquet(piece) for piece in table.pieces):
        return None
    found = [
        ((at, file), fragment)
        for at, piece in enumerate(table.pieces)
        for file, fragment in enumerate(_dataset(piece).get_fragments())
    ]
    with ThreadPoolExecutor(ASKED_AT_ONCE) as threads:
        footers = threads.map(lambda one: one[1].metadata, found)
    return [
        Group(file, fragment, info.id, footer.row_group(info.id), places)
        for (file, fragment), footer in zip(found, footers, strict=True)
        for places in [places_of(footer)]
        for info in fragment.row_groups
        if info.num_rows > 0
    ]


def places_of(footer: Any) -> Mapping[str, int]:  # noqa: ANN401 - pyarrow has no types
    """Return the positions of the columns, which are the same in all row groups of a file."""
    paths = [footer.schema.column(at).path for at in range(footer.num_columns)]
    seen = Counter(paths)
    return {path: at for at, path in enumerate(paths) if seen[path] == 1}


def few_of(
    table: OpenTable,
    groups: Sequence[Group],
    columns: list[str],
    rows: int,
    coded: Collection[str] = (),
) -> Iterator[pa.RecordBatch]:
    """Yield the rows in some of a table's row groups, with only a few batches in memory at a time.

    The strings in `coded` columns remain dictionary-encoded.
    """
    assert table.pieces is not None  # noqa: S101 - for mypy
    schema = pa.schema([table.schema.field(column) for column in columns])
    for (at, file), some in groupby(groups, key=attrgetter("file")):
        of_file = [*some]
        piece = table.pieces[at]
        with reading(piece.names[file], piece.layout):
            numbers = [one.number for one in of_file]
            yield from few_of_row_groups(of_file[0].fragment, numbers, schema, rows, coded)


def is_parquet(piece: Piece) -> bool:
    """Return whether a piece consists of Parquet files."""
    rows = piece.rows
    return isinstance(rows, ds.FileSystemDataset) and isinstance(rows.format, ds.ParquetFileFormat)


def _dataset(piece: Piece) -> Any:  # noqa: ANN401 - pyarrow has no types
    return piece.rows


def spans(groups: Iterable[Group], column: str, kind: pa.DataType) -> list[Span] | None:
    """Return the earliest and latest times in each row group.

    The result is None if the statistics of a row group do not contain these times, or report a null
    time.
    """
    found = []
    for group in groups:
        span = span_stored(group.metadata, group.places, column, kind)
        if span is None:
            return None
        found.append(span)
    return found


def span_stored(
    group: Any,  # noqa: ANN401 - pyarrow has no types
    places: Mapping[str, int],
    column: str,
    kind: pa.DataType,
    *,
    nulls: bool = False,
) -> Span | None:
    """Return the earliest and latest times that the statistics of a row group report.

    The result is None if there are no such statistics, or if a time is null and `nulls` is false.
    """
    place = places.get(column)
    stored = None if place is None else group.column(place)
    told = None if stored is None or not stored.is_stats_set else stored.statistics
    if told is None or not told.has_min_max or not told.has_null_count:
        return None
    if told.null_count and not nulls:
        return None
    step = _step_stored(told, kind)
    return None if step is None else (told.min_raw * step, told.max_raw * step)


def bytes_of(groups: Iterable[Group], columns: Sequence[str]) -> int:
    """Return the uncompressed size of some columns in the files."""
    return sum(bytes_stored(group.metadata, group.places, columns) for group in groups)


def bytes_stored(group: Any, places: Mapping[str, int], columns: Sequence[str]) -> int:  # noqa: ANN401 - pyarrow has no types
    """Return the uncompressed size of some columns in a row group."""
    size = 0
    for column in columns:
        place = places.get(column)
        # A nested column has several parts, and is counted as one column of average size.
        size += (
            group.total_byte_size // group.num_columns
            if place is None
            else group.column(place).total_uncompressed_size
        )
    return size


def coded_columns(groups: Sequence[Group], schema: pa.Schema) -> set[str]:
    """Return the string columns to read using the dictionaries in the files.

    Each string is then decoded and looked up once per row group instead of once per row.
    """
    return {
        field.name
        for field in schema
        if field.type in {pa.string(), pa.binary()} and _is_coded(groups, field.name)
    }


def _is_coded(groups: Sequence[Group], column: str) -> bool:
    size = values = 0
    for group in groups:
        stored = _stored(group, column)
        if stored is None or not stored.has_dictionary_page:
            return False
        if stored.data_page_offset - stored.dictionary_page_offset > SMALL_DICTIONARY:
            return False
        size += stored.total_uncompressed_size
        values += stored.num_values
    return size <= CODE_BYTES * values


def _stored(group: Group, column: str) -> Any:  # noqa: ANN401 - pyarrow has no types
    place = group.places.get(column)
    return None if place is None else group.metadata.column(place)


def _step_stored(told: Any, kind: pa.DataType) -> int | None:  # noqa: ANN401 - pyarrow has no types
    """Return the factor that converts a stored integer to the unit that `step_of` defines."""
    if told.physical_type not in {"INT32", "INT64"}:
        return None
    logical = json.loads(told.logical_type.to_json())
    if not _is_time(kind):
        return None
    if not pa.types.is_timestamp(kind):
        return step_of(kind)
    if logical.get("Type") == "Timestamp":
        # A column of seconds is stored in milliseconds.
        return UNITS_OF_PARQUET.get(logical.get("timeUnit", ""))
    return None


def step_of(kind: pa.DataType) -> int:
    """Return the number of nanoseconds per unit of a time type, or 1 for integers.

    Example:
        >>> step_of(pa.timestamp("s"))
        1000000000
    """
    if pa.types.is_integer(kind):
        return 1
    step = pa.array([1], pa.int32() if pa.types.is_date32(kind) else pa.int64()).cast(kind)
    zone = kind.tz if pa.types.is_timestamp(kind) else None
    return int(step.cast(pa.timestamp("ns", zone)).cast(pa.int64())[0].as_py())


def _is_time(kind: pa.DataType) -> bool:
    """Return whether statistics of this type can be used as times."""
    tests = (pa.types.is_signed_integer, pa.types.is_date32, pa.types.is_timestamp)
    return any(test(kind) for test in tests)


def pruned(
    left: Any,  # noqa: ANN401 - see below
    right: Any,  # noqa: ANN401 - see below
    plan: _tidegate.JoinPlan,
    how: str,
) -> tuple[Any, Any]:
    """Return a join's inputs without the row groups that cannot affect the result.

    Args:
        left: The left input: an open table or an Arrow table.
        right: The right input: an open table or an Arrow table.
        plan: The plan of the join.
        how: The unmatched rows that the result contains.
    """
    if plan.time is None or plan.time[1] == (None, None):
        return left, right
    sides = [_Side.of(table) for table in (left, right)]
    if all(side.groups is None for side in sides):
        return left, right
    columns, (lower, upper) = plan.time
    for side, column in zip(sides, columns, strict=True):
        side.look_at(column)
    # If the times of a row group are unknown, one of them may be null. The call has to report that.
    if any(side.spans is None or side.step is None for side in sides):
        return left, right
    below = None if lower is None or plan.looks_back else int(lower)
    above = None if upper is None else int(upper)
    _by_time(sides, below, above, how)
    return sides[0].table(), sides[1].table()


def _omits(how: str) -> tuple[bool, bool]:
    """Return whether the result omits unmatched rows, for each side."""
    return how in {"inner", "semi", "right"}, how in {"inner", "semi", "left", "anti"}


def _by_time(sides: "list[_Side]", lower: int | None, upper: int | None, how: str) -> None:
    left, right = sides
    assert left.spans is not None  # noqa: S101 - for mypy
    assert right.spans is not None  # noqa: S101 - for mypy
    step = min(left.step or 1, right.step or 1)
    below = None if lower is None else lower * step
    above = None if upper is None else upper * step
    # The times on the other side that a row on one side can match.
    of_left = [_reach(span, below, above) for span in left.spans]
    backward = (None if above is None else -above), (None if below is None else -below)
    of_right = [_reach(span, *backward) for span in right.spans]
    omits_left, omits_right = _omits(how)
    if omits_right:
        right.keep(_touching(right.spans, of_left))
    if omits_left:
        left.keep(_touching(left.spans, of_right))


ALWAYS = 1 << 100
"""A number greater than any time in nanoseconds."""


def _reach(span: Span, lower: int | None, upper: int | None) -> Span:
    first = -ALWAYS if lower is None else span[0] + lower
    return first, ALWAYS if upper is None else span[1] + upper


def _touching(some: Sequence[Span], others: Sequence[Span]) -> list[bool]:
    """For each span, return whether it overlaps any other span."""
    merged: list[Span] = []
    for first, last in sorted(one for one in others if one[0] <= one[1]):
        if merged and first <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))
    ends = [last for _, last in merged]

    def touches(span: Span) -> bool:
        at = bisect_left(ends, span[0])
        return at < len(merged) and merged[at][0] <= span[1]

    return [touches(span) for span in some]


@dataclass
class _Side:
    given: Any
    groups: list[Group] | None
    kept: list[bool]
    spans: list[Span] | None = None
    step: int | None = None

    @staticmethod
    def of(given: Any) -> "_Side":  # noqa: ANN401 - a table of any kind
        groups = row_groups(given) if isinstance(given, OpenTable) else None
        return _Side(given, groups, [True] * len(groups or []))

    def look_at(self, column: str) -> None:
        """Determine the earliest and latest times on one side."""
        kind = self.given.schema.field(column).type
        if not _is_time(kind):
            return
        self.step = step_of(kind)
        if self.groups is not None:
            self.spans = spans(self.groups, column, kind)
        elif isinstance(self.given, pa.Table):
            times = self.given.column(column)
            integers = times.cast(pa.int32()) if pa.types.is_date32(kind) else times
            ends = pc.min_max(integers.cast(pa.int64())).as_py()
            if ends["min"] is None:
                self.spans = []
            else:
                self.spans = [(ends["min"] * self.step, ends["max"] * self.step)]

    def keep(self, kept: Sequence[bool]) -> None:
        if self.groups is not None:
            self.kept = [one and other for one, other in zip(self.kept, kept, strict=True)]

    def table(self) -> Any:  # noqa: ANN401 - a table of any kind
        if self.groups is None or all(self.kept):
            return self.given
        kept = [group for group, is_kept in zip(self.groups, self.kept, strict=True) if is_kept]
        return of_groups(self.given, kept)


def of_groups(table: OpenTable, groups: Sequence[Group]) -> OpenTable:
    """Return the table restricted to some of its row groups."""
    assert table.pieces is not None  # noqa: S101 - for mypy
    numbers: dict[tuple[int, int], list[int]] = {}
    for group in groups:
        numbers.setdefault(group.file, []).append(group.number)
    pieces = []
    for at, piece in enumerate(table.pieces):
        rows = _dataset(piece)
        files = zip(piece.names, rows.get_fragments(), strict=True)
        kept = [
            (name, fragment.subset(row_group_ids=numbers[at, file]))
            for file, (name, fragment) in enumerate(files)
            if (at, file) in numbers
        ]
        parts = [fragment for _, fragment in kept]
        dataset = ds.FileSystemDataset(parts, rows.schema, rows.format, rows.filesystem)
        names = [name for name, _ in kept] or piece.names[:1]
        pieces.append(replace(piece, names=names, rows=dataset))
    return replace(
        of_pieces(pieces, table.name),
        row_count=table.row_count,
        is_in_order=table.is_in_order,
    )
