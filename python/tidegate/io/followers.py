"""Reads event tables while they are being written.

A regular file does not end until reading is stopped. An Arrow stream ends with its end mark. Pipes
and standard input end when they are closed.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import NoReturn, Protocol

import pyarrow as pa
import pyarrow.csv

from tidegate import TidegateError
from tidegate.io.csv_rows import (
    PARSING,
    PLAIN,
    Dialect,
    as_guessed,
    explained,
    guessed_schema,
    plain_schema,
)
from tidegate.io.files import (
    Format,
    in_arrow_memory,
    is_compressed,
    reading,
)
from tidegate.io.growing import Edges, GrowingFile, Mark
from tidegate.io.lines import LineEnds, count_breaks, first_end, open_quote

# The first bytes of each message in an Arrow stream.
STREAM_HEAD = b"\xff\xff\xff\xff"

# A longer line most likely contains an unclosed quote, or is not CSV.
LONGEST_LINE_BYTES = 1 << 20


@dataclass(frozen=True)
class Place:
    """A position in a file, with the file's columns and the number of lines before it."""

    mark: Mark
    schema: pa.Schema
    lines: int = 0


@dataclass(frozen=True)
class Piece:
    """Rows that were read together, and the position after them (None for a pipe)."""

    rows: pa.Table
    end: Place | None


class Follower(Protocol):
    """A table that is read while it is being written."""

    schema: pa.Schema
    begin: Place | None
    """The position before the first piece; None for a pipe."""

    def pieces(self) -> Iterator[Piece]:
        """Yield rows as they are written, until the table ends."""


def follow(
    name: str,
    layout: Format,
    stop: threading.Event,
    *,
    csv: Dialect = PLAIN,
    place: Place | None = None,
) -> Follower:
    """Open a table that may grow, and wait for its first rows.

    Args:
        name: The path of a file or a named pipe, or `-` for standard input.
        layout: `csv` or `arrow` (the stream layout).
        stop: The event that ends all waits when it is set.
        csv: The options for parsing CSV values.
        place: The position at which to resume in a file.

    Raises:
        TidegateError: The file cannot be followed; the message names it.
        StateError: The position belongs to a different file.
        Stopped: A stop was requested.
    """
    if layout in {Format.PARQUET, Format.JSON} or is_compressed(name):
        message = f"{name}: cannot be followed: expected an uncompressed CSV file or Arrow stream"
        raise TidegateError(message)
    with reading(name, layout):
        file = GrowingFile(name, stop, None if place is None else place.mark)
        if layout is Format.CSV:
            return _CsvFollower(name, file, csv, place)
        return _ArrowFollower(name, file, place)


class _ArrowFollower:
    """Reads an Arrow stream. Each batch is returned whole, as it was written."""

    def __init__(self, name: str, file: GrowingFile, place: Place | None) -> None:
        self._name = name
        self._file = file
        self._open()
        self.schema = self._reader.schema
        if place is not None:
            self._go_to(place.mark.position)
        self.begin = self._end()

    def _open(self) -> None:
        head = self._file.read(len(STREAM_HEAD))
        if head != STREAM_HEAD:
            # Other bytes would be interpreted as the length of a message.
            message = (
                f"{self._name}: expected an Arrow stream, found a file that begins with {head!r}"
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
        with reading(self._name, Format.ARROW):
            while True:
                for batch in self._reader:
                    yield Piece(pa.Table.from_batches([batch]), self._end())
                if not self._file.has_successor:
                    return
                self._file.enter_successor()
                self._open()
                if not self._reader.schema.equals(self.schema):
                    _raise_other_columns(self._name, self._reader.schema, self.schema)
                yield Piece(self.schema.empty_table(), self._end())

    def _end(self) -> Place | None:
        return Place(self._file.mark(), self.schema) if self._file.may_grow else None


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
        self._name = name
        self._file = file
        self._dialect = dialect
        self._first: pa.Table | None = None
        self._begin()
        if place is not None:
            self.schema = place.schema
            file.seek(place.mark.position)
            self._edges, self._lines = copy(file.edges), place.lines
            self.begin = self._end()
            return
        lines = self._next_lines()
        # Before the first row, only the names of the columns are known.
        while lines.rstrip().count(b"\n") == 0 and (more := self._next_lines()):
            lines += more
        self.schema = self._schema_of(lines)
        self._first = self._parsed(lines, pyarrow.csv.ReadOptions(), self.schema)
        self.begin = self._behind_names(lines)

    def _behind_names(self, lines: bytes) -> Place | None:
        if not self._file.may_grow:
            return None
        edges = Edges()
        # Empty lines before the header are skipped.
        start = len(lines) - len(lines.lstrip(b"\r\n"))
        edges.add(lines[: first_end(lines, start)])
        count = lines.count(b"\n", 0, edges.position)
        return Place(self._file.mark(edges), self.schema, count)

    def _begin(self) -> None:
        """Reset the position to the beginning of a file."""
        self._unread = b""
        self._ends = LineEnds()
        # The edges of the lines that were returned, and their number.
        self._edges = Edges()
        self._lines = 0

    def pieces(self) -> Iterator[Piece]:
        with reading(self._name, Format.CSV):
            if self._first is not None:
                yield Piece(self._first, self._end())
                self._first = None
            names = pyarrow.csv.ReadOptions(column_names=self.schema.names)
            while True:
                while lines := self._next_lines():
                    yield Piece(self._parsed(lines, names, self.schema), self._end())
                if not self._file.has_successor:
                    return
                yield self._entered()

    def _entered(self) -> Piece:
        """Switch to the new file with this name; its first line must name the same columns."""
        self._file.enter_successor()
        self._begin()
        rows = self._parsed(self._next_lines(), pyarrow.csv.ReadOptions(), self.schema)
        if rows.schema.names != self.schema.names:
            _raise_other_columns(self._name, rows.schema, self.schema)
        return Piece(rows, self._end())

    def _schema_of(self, lines: bytes) -> pa.Schema:
        """Return the columns of the first lines, with specified or inferred types."""
        with self._naming_lines(lines):
            return guessed_schema(
                lambda: in_arrow_memory(lines), self._dialect, block=len(lines) + 1
            )

    def _parsed(
        self, lines: bytes, options: pyarrow.csv.ReadOptions, schema: pa.Schema
    ) -> pa.Table:
        plain = plain_schema(schema, self._dialect.types)
        conversion = self._dialect.conversion(dict(zip(plain.names, plain.types, strict=True)))
        # Parse all lines in one block, so that even a long line is not split.
        options.block_size = len(lines) + 1
        with self._naming_lines(lines):
            try:
                rows = pyarrow.csv.read_csv(in_arrow_memory(lines), options, PARSING, conversion)
            except pa.ArrowInvalid as error:
                raise explained(error, schema) from error
            if rows.schema.names != schema.names:
                return rows
            batches = [as_guessed(batch, schema) for batch in rows.to_batches()]
        return pa.Table.from_batches(batches, schema)

    @contextmanager
    def _naming_lines(self, lines: bytes) -> Iterator[None]:
        """Add the numbers of the affected lines to an error."""
        try:
            yield
        except pa.ArrowInvalid as error:
            first = self._lines - count_breaks(lines) + 1
            message = f"in lines {first:,} to {max(self._lines, first):,}: {error}"
            raise pa.ArrowInvalid(message) from error

    def _end(self) -> Place | None:
        if not self._file.may_grow:
            return None
        return Place(self._file.mark(self._edges), self.schema, self._lines)

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
        place = open_quote(self._unread)
        line = self._lines + 1 + self._unread.count(b"\n", 0, place)
        advice = (
            "expected a line feed at the end of each line"
            if place is None
            else f"line {line:,} opens a quote that is never closed; "
            'close it, or write a quote within a quoted value as ""'
        )
        message = f"{self._name}: line {self._lines + 1:,} {fault}: {advice}"
        raise TidegateError(message)


def _raise_other_columns(name: str, found: pa.Schema, wanted: pa.Schema) -> NoReturn:
    message = (
        f"{name}: the new file with this name has different columns from the previous one: "
        f"found {_columns(found)}; expected {_columns(wanted)}"
    )
    raise TidegateError(message)


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} ({field.type})" for field in schema)
