"""Event tables that are read while they are written.

A file has no end until the reading is stopped. An Arrow stream ends with its end mark. A pipe and
standard input end when they are closed.
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

# How each message of an Arrow stream begins.
STREAM_HEAD = b"\xff\xff\xff\xff"

# A line that is longer has an open quote, most likely, or is none of CSV.
LONGEST_LINE_BYTES = 1 << 20


@dataclass(frozen=True)
class Place:
    """Where a reading of a file has come to, the columns that it has, and the lines before."""

    mark: Mark
    schema: pa.Schema
    lines: int = 0


@dataclass(frozen=True)
class Piece:
    """Rows that were read together, and the place behind them; a pipe has no places."""

    rows: pa.Table
    end: Place | None


class Follower(Protocol):
    """A table that is read as it is written."""

    schema: pa.Schema
    begin: Place | None
    """Before the first piece; a pipe has no places."""

    def pieces(self) -> Iterator[Piece]:
        """Read on."""


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
        name: A file, a named pipe, or `-` for standard input.
        layout: `csv` or `arrow` (the stream layout).
        stop: Ends all waiting when it is set.
        csv: How to parse CSV values.
        place: Where to resume in a file.

    Raises:
        TidegateError: The file cannot be followed; the text names it.
        StateError: The file is not the one that the place is of.
        Stopped: The reading was stopped.
    """
    if layout in {Format.PARQUET, Format.JSON} or is_compressed(name):
        message = f"{name}: cannot be followed: expected CSV or an Arrow stream, uncompressed"
        raise TidegateError(message)
    with reading(name, layout):
        file = GrowingFile(name, stop, None if place is None else place.mark)
        if layout is Format.CSV:
            return _CsvFollower(name, file, csv, place)
        return _ArrowFollower(name, file, place)


class _ArrowFollower:
    """An Arrow stream. Batches come whole, as they were written."""

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
            # Read on, other bytes would be taken for the length of what is to come.
            message = (
                f"{self._name}: expected an Arrow stream, found a file that begins with {head!r}"
            )
            raise TidegateError(message)
        self._file.unread(head)
        self._reader = pa.ipc.open_stream(pa.PythonFile(self._file, "r"))

    def _go_to(self, position: int) -> None:
        if any(pa.types.is_dictionary(each) for each in _types(self.schema)):
            # The batches before have the dictionaries.
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
    """Go through the types of all columns, and what they consist of."""
    left = list(schema.types)
    while left:
        found = left.pop()
        yield found
        left += [found.field(place).type for place in range(found.num_fields)]


class _CsvFollower:
    """Lines of CSV. The lines present at the start determine the column types."""

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
        # Without a row, nothing is known of the columns but their names.
        while lines.rstrip().count(b"\n") == 0 and (more := self._next_lines()):
            lines += more
        self.schema = self._schema_of(lines)
        self._first = self._parsed(lines, pyarrow.csv.ReadOptions(), self.schema)
        self.begin = self._behind_names(lines)

    def _behind_names(self, lines: bytes) -> Place | None:
        if not self._file.may_grow:
            return None
        edges = Edges()
        # Empty lines before are passed over.
        start = len(lines) - len(lines.lstrip(b"\r\n"))
        edges.add(lines[: first_end(lines, start)])
        count = lines.count(b"\n", 0, edges.position)
        return Place(self._file.mark(edges), self.schema, count)

    def _begin(self) -> None:
        """Be at the beginning of a file."""
        self._unread = b""
        self._ends = LineEnds()
        # Of the lines that were handed on.
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
        """Go on with the file that has the name now, which begins with the same names."""
        self._file.enter_successor()
        self._begin()
        rows = self._parsed(self._next_lines(), pyarrow.csv.ReadOptions(), self.schema)
        if rows.schema.names != self.schema.names:
            _raise_other_columns(self._name, rows.schema, self.schema)
        return Piece(rows, self._end())

    def _schema_of(self, lines: bytes) -> pa.Schema:
        """The columns of the first lines, with specified or inferred types."""
        with self._naming_lines(lines):
            return guessed_schema(
                lambda: in_arrow_memory(lines), self._dialect, block=len(lines) + 1
            )

    def _parsed(
        self, lines: bytes, options: pyarrow.csv.ReadOptions, schema: pa.Schema
    ) -> pa.Table:
        plain = plain_schema(schema, self._dialect.types)
        conversion = self._dialect.conversion(dict(zip(plain.names, plain.types, strict=True)))
        # Parse all lines in one block, so that no line is split, however long it is.
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
        """Add the affected line numbers to an error."""
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
        """The lines that are complete; at the end of a pipe, the rest; then nothing."""
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
            else f"line {line:,} opens a quote that nothing closes; close it, or write a quote "
            'within a quoted value as ""'
        )
        message = f"{self._name}: line {self._lines + 1:,} {fault}: {advice}"
        raise TidegateError(message)


def _raise_other_columns(name: str, found: pa.Schema, wanted: pa.Schema) -> NoReturn:
    message = (
        f"{name}: the file that has this name now has other columns than the one before: found "
        f"{_columns(found)}; expected {_columns(wanted)}"
    )
    raise TidegateError(message)


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} ({field.type})" for field in schema)
