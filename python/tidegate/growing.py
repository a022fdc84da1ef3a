"""Event tables that grow: read as far as they are written, and written as far as they are known.

A file goes on for as long as nobody stops the reading; an Arrow stream ends with its end mark, a
pipe and standard input where they are closed.
"""

import os
import select
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

import pyarrow as pa
import pyarrow.csv

from tidegate import StateError, TidegateError
from tidegate.files import (
    CSV_PARSING,
    STANDARD_STREAM,
    BatchWriter,
    Format,
    csv_conversion,
    naming,
    open_writer,
    reading,
    send_to_nowhere,
)

# How long a reader sleeps at the end of a file that may yet grow.
PATIENCE_S = 0.05

CHUNK_BYTES = 1 << 20

# How each message of an Arrow stream begins.
STREAM_HEAD = b"\xff\xff\xff\xff"


class Stopped(Exception):  # noqa: N818 - no error, but how a reader that waits is ended
    """Somebody has stopped the reading."""


class GrowingFile:
    """The bytes of a file, from a position on."""

    def __init__(self, name: str, stop: threading.Event) -> None:
        self._name = name
        self._stop = stop
        self.may_grow = name != STANDARD_STREAM and Path(name).is_file()
        """Whether more may come behind the end, and any place can be gone to again."""

        if name == STANDARD_STREAM:
            self._descriptor = sys.stdin.fileno()
        else:
            self._descriptor = os.open(name, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        self._unread = b""
        self.position = 0
        """How many bytes have been read, or passed over."""

    def check_place(self, position: int) -> None:
        """Look whether there is such a position.

        Raises:
            StateError: The file is shorter, or not one of its own.
        """
        if not self.may_grow:
            message = f"{self._name}: has no places; give the file that the state is of"
            raise StateError(message)
        if position > (size := self._size()):
            message = (
                f"{self._name}: the state is of its first {position:,} bytes, but it has {size:,}: "
                "it was cut or replaced; remove the state to begin anew"
            )
            raise StateError(message)

    def seek(self, position: int) -> None:
        """Go on from another position; only a file of its own has any."""
        if position != self.position:
            os.lseek(self._descriptor, position, os.SEEK_SET)
            self._unread, self.position = b"", position

    def _size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def next_bytes(self, most: int = CHUNK_BYTES) -> bytes:
        """Wait for more bytes; there are none at the end.

        Raises:
            Stopped: The reading was stopped.
            TidegateError: The file has become shorter.
        """
        if self._unread:
            found, self._unread = self._unread[:most], self._unread[most:]
            self.position += len(found)
            return found
        while not self._stop.is_set():
            if not self.may_grow and not self._has_news():
                continue
            found = os.read(self._descriptor, most)
            self.position += len(found)
            if found or not self.may_grow:
                return found
            if self._size() < self.position:
                message = (
                    f"{self._name}: {self.position:,} bytes were read, but it has "
                    f"{self._size():,}: it was cut or replaced"
                )
                raise TidegateError(message)
            self._stop.wait(PATIENCE_S)
        raise Stopped

    def _has_news(self) -> bool:
        """Wait for a pipe, for a while; on Windows, where no pipe can be waited for, not at all."""
        return os.name != "posix" or bool(select.select([self._descriptor], [], [], PATIENCE_S)[0])

    def read(self, size: int) -> bytes:
        """Wait for so many bytes; there are fewer at the end only."""
        parts: list[bytes] = []
        missing = size
        while missing and (part := self.next_bytes(missing)):
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def unread(self, found: bytes) -> None:
        """Give back what was read last."""
        self._unread = found + self._unread
        self.position -= len(found)

    # What pyarrow asks of a file beside `read`.
    closed = False

    def close(self) -> None:
        """Close the file."""
        if self._descriptor != 0:
            with suppress(OSError):
                os.close(self._descriptor)


@dataclass(frozen=True)
class Place:
    """Where a reading of a file has come to, and the columns that it has."""

    position: int
    schema: pa.Schema


@dataclass(frozen=True)
class Piece:
    """Rows that were read together, and the place behind them; a pipe has no places."""

    rows: pa.Table
    end: Place | None


class Follower(Protocol):
    """A table that is read as it is written."""

    schema: pa.Schema

    def pieces(self) -> Iterator[Piece]:
        """Read on."""


def follow(
    name: str,
    layout: Format,
    stop: threading.Event,
    *,
    csv_nulls: Sequence[str] = ("",),
    place: Place | None = None,
) -> Follower:
    """Open a table that may grow, and wait for its first rows.

    Args:
        name: A file, a named pipe, or `-` for standard input.
        layout: `csv` or `arrow` (the stream layout).
        stop: Ends all waiting when it is set.
        csv_nulls: The unquoted texts that mean "no value" in CSV.
        place: Where to go on, in a file.

    Raises:
        TidegateError: The file cannot be followed; the text names it.
        StateError: The file is shorter than the place.
        Stopped: The reading was stopped.
    """
    if layout is Format.PARQUET or name.lower().endswith(".gz"):
        message = f"{name}: cannot be followed: expected CSV or an Arrow stream, uncompressed"
        raise TidegateError(message)
    with reading(name, layout):
        file = GrowingFile(name, stop)
        if place is not None:
            file.check_place(place.position)
        if layout is Format.CSV:
            return _CsvFollower(name, file, csv_nulls, place)
        return _ArrowFollower(name, file, place)


class _ArrowFollower:
    """An Arrow stream. Batches come whole, as they were written."""

    def __init__(self, name: str, file: GrowingFile, place: Place | None) -> None:
        self._name = name
        self._file = file
        head = file.read(len(STREAM_HEAD))
        if head != STREAM_HEAD:
            # Read on, other bytes would be taken for the length of what is to come.
            message = f"{name}: expected an Arrow stream, found bytes that begin none: {head!r}"
            raise TidegateError(message)
        file.unread(head)
        self._reader = pa.ipc.open_stream(pa.PythonFile(file, "r"))
        self.schema = self._reader.schema
        if place is not None:
            file.seek(place.position)

    def pieces(self) -> Iterator[Piece]:
        with reading(self._name, Format.ARROW):
            for batch in self._reader:
                end = Place(self._file.position, self.schema) if self._file.may_grow else None
                yield Piece(pa.Table.from_batches([batch]), end)


class _CsvFollower:
    """Lines of CSV. A column has the type of its values in the lines that are there at first."""

    def __init__(
        self, name: str, file: GrowingFile, nulls: Sequence[str], place: Place | None
    ) -> None:
        self._name = name
        self._file = file
        self._nulls = nulls
        self._unread = b""
        self._first: pa.Table | None = None
        if place is not None:
            self.schema = place.schema
            file.seek(place.position)
            return
        lines = self._next_lines()
        # Without a row, nothing is known of the columns but their names.
        while lines.rstrip().count(b"\n") == 0 and (more := self._next_lines()):
            lines += more
        self._first = pyarrow.csv.read_csv(
            pa.BufferReader(lines), parse_options=CSV_PARSING, convert_options=csv_conversion(nulls)
        )
        self.schema = self._first.schema

    def pieces(self) -> Iterator[Piece]:
        with reading(self._name, Format.CSV):
            if self._first is not None:
                yield Piece(self._first, self._end())
                self._first = None
            while lines := self._next_lines():
                yield Piece(self._parsed(lines), self._end())

    def _parsed(self, lines: bytes) -> pa.Table:
        conversion = csv_conversion(self._nulls)
        conversion.column_types = self.schema
        names = pyarrow.csv.ReadOptions(column_names=self.schema.names)
        return pyarrow.csv.read_csv(
            pa.BufferReader(lines),
            read_options=names,
            parse_options=CSV_PARSING,
            convert_options=conversion,
        )

    def _end(self) -> Place | None:
        position = self._file.position - len(self._unread)
        return Place(position, self.schema) if self._file.may_grow else None

    def _next_lines(self) -> bytes:
        """The lines that are complete; at the end of a pipe, the rest; then nothing."""
        while True:
            more = self._file.next_bytes()
            self._unread += more
            end = _last_end(self._unread) if more else len(self._unread)
            if end or not more:
                lines, self._unread = self._unread[:end], self._unread[end:]
                return lines


def _last_end(text: bytes) -> int:
    """Where the last complete line ends; a line break between quotes ends none."""
    end = text.rfind(b"\n") + 1
    while end and text.count(b'"', 0, end) % 2:
        end = text.rfind(b"\n", 0, end - 1) + 1
    return end


@contextmanager
def live_writer(name: str, layout: Format, schema: pa.Schema) -> Iterator[BatchWriter]:
    """Write a table such that others can read each batch once it was written.

    The file is there from the beginning, under its own name, as CSV or as an Arrow stream.

    Raises:
        TidegateError: The format cannot hold a column, or the file cannot be written; the text
            names it.
    """
    label = "standard output" if name == STANDARD_STREAM else name
    with naming(label, f"cannot be written as {layout}"), _opened(name) as file:
        if layout is Format.CSV:
            writer = open_writer(file, name, layout, schema)
        else:
            writer = pa.ipc.new_stream(file, schema)
        try:
            yield _Flushing(writer, file)
            writer.close()
            file.flush()
        except BaseException:
            send_to_nowhere(file)
            raise


@contextmanager
def _opened(name: str) -> Iterator[IO[bytes]]:
    if name == STANDARD_STREAM:
        yield sys.stdout.buffer
    else:
        with Path(name).open("wb") as file:
            yield file


@dataclass(frozen=True)
class _Flushing:
    """Hands each batch on at once."""

    writer: BatchWriter
    file: IO[bytes]

    def write_batch(self, batch: pa.RecordBatch) -> None:
        self.writer.write_batch(batch)
        self.file.flush()

    def close(self) -> None:
        self.writer.close()
