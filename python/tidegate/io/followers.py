"""Reads event tables while they are being written.

A regular file does not end until reading is stopped. An Arrow stream ends with its end mark. Pipes
and standard input end when they are closed.
"""

import threading
from collections.abc import Iterator
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn, Protocol

import pyarrow as pa

from tidegate import TidegateError
from tidegate.io.csv_rows import Columns, of_lines, parsed
from tidegate.io.dialects import PLAIN, Dialect
from tidegate.io.files import (
    ARROW_STREAM,
    SNIFFED_BYTES,
    STANDARD_STREAM,
    Format,
    is_compressed,
    layout_of,
    reading,
)
from tidegate.io.growing import Edges, GrowingFile, Mark
from tidegate.io.headers import Header, header_in
from tidegate.io.lines import LineEnds, count_breaks, open_quote

# A longer line most likely contains an unclosed quote, or is not CSV.
LONGEST_LINE_BYTES = 1 << 20


@dataclass(frozen=True)
class Place:
    """A position in a file, with the file's columns and the number of lines before it."""

    mark: Mark
    schema: pa.Schema
    lines: int = 0
    files: int = 1
    """The number of files with this name that have been read, including this one."""


@dataclass(frozen=True)
class Piece:
    """Rows that were read together, and the position after them (None for a pipe)."""

    rows: pa.Table
    end: Place | None


class Follower(Protocol):
    """A table that is read while it is being written."""

    name: str
    schema: pa.Schema
    columns: Columns | None
    """The columns of a CSV file, with reasons for their types."""

    begin: Place | None
    """The position before the first piece; None for a pipe."""

    def pieces(self) -> Iterator[Piece]:
        """Yield rows as they are written, until the table ends."""


def follow(  # noqa: PLR0913 - the options for reading
    name: str,
    layout: Format | None,
    stop: threading.Event,
    *,
    csv: Dialect = PLAIN,
    place: Place | None = None,
    anew: bool = False,
    until_end: bool = False,
) -> Follower:
    """Open a table that may grow, and wait for its first rows.

    Args:
        name: The path of a file or a named pipe, or `-` for standard input.
        layout: `csv`, `tsv` or `arrow` (the stream layout). If it is None, the first bytes of the
            pipe determine it.
        stop: The event that ends all waits when it is set.
        csv: The options for parsing CSV values.
        place: The position at which to resume in a file.
        anew: Whether to read a CSV file up to this position again, with other types.
        until_end: Whether to stop at the current end of a file, instead of waiting until it grows.

    Raises:
        TidegateError: The file cannot be followed; the message names it.
        StateError: The position belongs to a different file.
        Stopped: A stop was requested.
    """
    if layout is None and name != STANDARD_STREAM and not Path(name).is_fifo():
        message = f"{name}: expected a single file whose extension names a format"
        raise TidegateError(message)
    _check_followed(name, layout)
    with reading(name, layout or "a table"):
        file = GrowingFile(name, stop, place.mark if place else None, until_end=until_end)
        if layout is None:
            beginning = file.next_bytes(SNIFFED_BYTES)
            file.unread(beginning)
            layout = layout_of(beginning)
            _check_followed(name, layout)
        if layout.is_csv:
            dialect = csv.tab_separated() if layout is Format.TSV else csv
            if anew and place is not None:
                file.limit = place.mark.position
                place = None
            return _CsvFollower(name, file, dialect, place)
        return _ArrowFollower(name, file, None if anew else place)


def _check_followed(name: str, layout: Format | None) -> None:
    if layout in {Format.PARQUET, Format.JSON} or is_compressed(name):
        label = "standard input" if name == STANDARD_STREAM else name
        message = f"{label}: cannot be followed: expected an uncompressed CSV file or Arrow stream"
        raise TidegateError(message)


class _ArrowFollower:
    """Reads an Arrow stream. Each batch is returned whole, as it was written."""

    def __init__(self, name: str, file: GrowingFile, place: Place | None) -> None:
        self.name = name
        self._file = file
        self.columns: Columns | None = None
        self._files = 1 if place is None else place.files
        self._open()
        self.schema = self._reader.schema
        if place is not None:
            self._go_to(place.mark.position)
        self.begin = self._end()

    def _open(self) -> None:
        head = self._file.read(len(ARROW_STREAM))
        if head != ARROW_STREAM:
            # Other bytes would be interpreted as the length of a message.
            message = (
                f"{self.name}: expected an Arrow stream, found a file that begins with {head!r}"
            )
            raise TidegateError(message)
        self._file.unread(head)
        self._reader = pa.ipc.open_stream(pa.PythonFile(self._file, "r"))

    def _go_to(self, position: int) -> None:
        if any(pa.types.is_dictionary(each) for each in _types(self.schema)):
            # The earlier batches contain the dictionaries.
            while self._file.position < position:
                self._reader.read_next_batch()
        else:
            self._file.seek(position)

    def pieces(self) -> Iterator[Piece]:
        with reading(self.name, Format.ARROW):
            while True:
                for batch in self._reader:
                    yield Piece(pa.Table.from_batches([batch]), self._end())
                if not self._file.has_successor:
                    return
                self._file.enter_successor()
                self._files += 1
                self._open()
                if not self._reader.schema.equals(self.schema):
                    _raise_other_columns(self.name, _columns(self._reader.schema), self.schema)
                yield Piece(self.schema.empty_table(), self._end())

    def _end(self) -> Place | None:
        if not self._file.may_grow:
            return None
        return Place(self._file.mark(), self.schema, files=self._files)


def _types(schema: pa.Schema) -> Iterator[pa.DataType]:
    """Yield the types of all columns, including the types nested in them."""
    left = list(schema.types)
    while left:
        found = left.pop()
        yield found
        left += [found.field(place).type for place in range(found.num_fields)]


class _CsvFollower:
    """Reads lines of CSV. The lines present at the start determine the column types."""

    def __init__(self, name: str, file: GrowingFile, dialect: Dialect, place: Place | None) -> None:
        self.name = name
        self._file = file
        self._dialect = dialect
        self._check_encoding()
        self._files = 1 if place is None else place.files
        self._first: pa.Table | None = None
        self._begin()
        if place is not None:
            self.schema = place.schema
            self.columns: Columns | None = Columns(place.schema, dialect, dict(dialect.types))
            self._head = Header(place.schema.names, b"")
            file.seek(place.mark.position)
            self._edges, self._lines = copy(file.edges), place.lines
            self.begin = self._end()
            return
        lines = self._next_lines()
        # Before the first row, only the names of the columns are known.
        least = 0 if dialect.names or dialect.header is False else 1
        while lines.rstrip().count(b"\n") < least and (more := self._next_lines()):
            lines += more
        text = self._decoded(lines)
        self._head = header_in(text, dialect)
        before, rows = count_breaks(self._head.line), text[len(self._head.line) :]
        self.columns = self._widest(rows, of_lines(rows, dialect, self._head), before)
        self.schema = self.columns.schema
        self._first = self._parsed(rows, before)
        self.begin = self._behind_names(lines)

    @property
    def _encoding(self) -> str:
        return self._dialect.encoding or "utf-8"

    def _check_encoding(self) -> None:
        if "\n".encode(self._encoding) != b"\n":
            message = f"{self.name}: cannot be followed in encoding {self._encoding}; "
            message += "convert the file to UTF-8"
            raise TidegateError(message)

    def _decoded(self, lines: bytes) -> bytes:
        """Return lines as UTF-8."""
        if self._dialect.encoding is None:
            return lines
        return lines.decode(self._encoding).encode()

    def _widest(self, rows: bytes, columns: Columns, before: int) -> Columns:
        """Return the columns with inferred timestamps in nanoseconds.

        A later value may have a fraction of a second. Times beyond the range of nanoseconds are in
        microseconds.
        """
        found = columns
        for unit in ("ns", "us"):
            kinds = [
                one.with_type(pa.timestamp(unit, one.type.tz))
                if pa.types.is_timestamp(one.type) and one.name not in columns.given
                else one
                for one in columns.schema
            ]
            found = replace(columns, schema=pa.schema(kinds))
            with suppress(pa.ArrowInvalid):
                parsed(rows, self._dialect, self._head, found, before)
                break
        return found

    def _behind_names(self, lines: bytes) -> Place | None:
        if not self._file.may_grow:
            return None
        edges = Edges()
        header = self._head.line.decode().encode(self._encoding)
        edges.add(lines[: len(header)])
        return Place(self._file.mark(edges), self.schema, count_breaks(self._head.line))

    def _begin(self) -> None:
        """Reset the position to the beginning of a file."""
        self._unread = b""
        self._marks = self._dialect.marks
        self._ends = LineEnds(self._marks)
        # The edges of the lines that were returned, and their number.
        self._edges = Edges()
        self._lines = 0

    def pieces(self) -> Iterator[Piece]:
        with reading(self.name, Format.CSV):
            if self._first is not None:
                yield Piece(self._first, self._end())
                self._first = None
            while True:
                while lines := self._next_lines():
                    before = self._lines - count_breaks(lines)
                    yield Piece(self._parsed(self._decoded(lines), before), self._end())
                if not self._file.has_successor:
                    return
                yield self._entered()

    def _entered(self) -> Piece:
        """Switch to the new file with this name; its first line must name the same columns."""
        self._file.enter_successor()
        self._files += 1
        self._begin()
        lines = self._decoded(self._next_lines())
        names_expected = not self._dialect.names and self._dialect.header is not False
        head = header_in(lines, replace(self._dialect, header=names_expected or None))
        if head.names != self.schema.names:
            _raise_other_columns(self.name, ", ".join(head.names), self.schema)
        self._head = head
        rows = self._parsed(lines[len(head.line) :], count_breaks(head.line))
        return Piece(rows, self._end())

    def _parsed(self, lines: bytes, before: int) -> pa.Table:
        assert self.columns is not None  # noqa: S101 - for mypy
        rows = parsed(lines, self._dialect, self._head, self.columns, before)
        return pa.Table.from_batches([rows], self.schema)

    def _end(self) -> Place | None:
        if not self._file.may_grow:
            return None
        return Place(self._file.mark(self._edges), self.schema, self._lines, self._files)

    def _next_lines(self) -> bytes:
        """Return complete lines; at the end of a pipe, return the remaining bytes, then nothing."""
        while more := self._file.next_bytes():
            end = self._ends.last(more)
            if end:
                lines, self._unread = self._unread + more[:end], more[end:]
                return self._handed_on(lines)
            self._unread += more
            if len(self._unread) > LONGEST_LINE_BYTES:
                self._raise_unending(f"does not end within {LONGEST_LINE_BYTES:,} bytes")
        if self._file.has_successor and self._unread:
            self._raise_unending("does not end, and the file was renamed")
        lines, self._unread = self._unread, b""
        return self._handed_on(lines)

    def _handed_on(self, lines: bytes) -> bytes:
        self._edges.add(lines)
        self._lines += count_breaks(lines)
        return lines

    def _raise_unending(self, fault: str) -> NoReturn:
        place = open_quote(self._unread, self._marks)
        line = self._lines + 1 + self._unread.count(b"\n", 0, place)
        advice = (
            "expected a line feed at the end of each line"
            if place is None
            else f"line {line:,} opens a quote that is never closed; "
            'close it, or write a quote within a quoted value as ""'
        )
        message = f"{self.name}: line {self._lines + 1:,} {fault}: {advice}"
        raise TidegateError(message)


def _raise_other_columns(name: str, found: str, wanted: pa.Schema) -> NoReturn:
    message = (
        f"{name}: the new file with this name has different columns from the previous one: "
        f"found {found}; expected {_columns(wanted)}"
    )
    raise TidegateError(message)


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} ({field.type})" for field in schema)
