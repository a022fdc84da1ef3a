"""Writes event tables that can be read while they grow and stay valid if the writer is killed.

Without a state, a CSV file or an Arrow stream is written batch by batch. With a state, an output
also reports how much of its data has been synced. The state records this, and a resumed run
truncates the output to it:

- `LiveFile`: a CSV file or an Arrow stream, recognized by its length and its first and last bytes.
- `LiveParts`: a folder of Parquet files, recognized by their number and sizes. A part is given its
  final name once a state includes it.

`prepare` syncs the output and describes it. Then the state is written, and `publish` renames the
new part to its final name.
"""

import hashlib
import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol, cast

import pyarrow as pa

from tidegate import StateError, TidegateError
from tidegate.bugs import bug
from tidegate.io.files import (
    STANDARD_STREAM,
    BatchWriter,
    Format,
    naming,
    open_writer,
    send_to_nowhere,
    sync_folder,
)
from tidegate.io.growing import ANEW, Edges, Mark

# The end marker of an Arrow stream.
END_MARK = b"\xff\xff\xff\xff\0\0\0\0"


class Batches(Protocol):
    """An object that accepts batches of rows."""

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Add rows."""


@contextmanager
def live_writer(name: str, layout: Format, schema: pa.Schema) -> Iterator[Batches]:
    """Write a table so that others can read each batch as soon as it is written.

    The file is a CSV file or an Arrow stream, and has its final name from the start.

    Raises:
        TidegateError: The format cannot represent a column, or the file cannot be written. The
            message names the column or the file.
    """
    label = "standard output" if name == STANDARD_STREAM else name
    with naming(label, f"cannot be written as {layout}"), _opened(name) as file:
        writer = _writer(file, name, layout, schema)
        try:
            yield _Flushing(writer, file)
            writer.close()
            file.flush()
        except BaseException:
            send_to_nowhere(file)
            raise


def _writer(file: IO[bytes], name: str, layout: Format, schema: pa.Schema) -> BatchWriter:
    if layout is Format.ARROW:
        stream: BatchWriter = pa.ipc.new_stream(file, schema)
        return stream
    return open_writer(file, name, layout, schema)


@contextmanager
def _opened(name: str) -> Iterator[IO[bytes]]:
    if name == STANDARD_STREAM:
        yield sys.stdout.buffer
    else:
        with Path(name).open("wb") as file:
            yield file


@dataclass(frozen=True)
class _Flushing:
    """Flushes each batch immediately."""

    writer: BatchWriter
    file: IO[bytes]

    def write_batch(self, batch: pa.RecordBatch) -> None:
        self.writer.write_batch(batch)
        self.file.flush()


# Outputs that a state describes


@dataclass(frozen=True)
class Parts:
    """The number of parts in a folder, and the data that identifies the folder."""

    parts: int
    sizes: str
    device: int
    inode: int


class Live(Batches, Protocol):
    """An output that a state describes."""

    def prepare(self) -> Mark | Parts:
        """Sync all written data, and return a description of it."""

    def publish(self) -> None:
        """Rename a new part to its final name, after a state that includes it has been written."""

    def finish(self) -> None:
        """Complete the output as its format requires, and sync it."""


@dataclass(frozen=True)
class Target:
    """The path, format and columns of an output."""

    path: Path
    layout: Format
    schema: pa.Schema
    force: bool


@contextmanager
def live_output(target: Target, known: Mark | Parts | None) -> Iterator[Live]:
    """Create an output, or resume the output that a state describes.

    Raises:
        StateError: The state belongs to another output.
        TidegateError: The file already exists, or cannot be written.
    """
    path, layout = target.path, target.layout
    if known is not None and isinstance(known, Parts) != (layout is Format.PARQUET):
        message = f"{path}: the state belongs to a different kind of output; {ANEW}"
        raise StateError(message)
    with naming(str(path), f"cannot be written as {layout}"):
        if layout is Format.PARQUET:
            parts = LiveParts(target, known if isinstance(known, Parts) else None)
            try:
                yield parts
            except BaseException:
                parts.abandon()
                raise
            return
        if known is not None and not path.is_file():
            message = (
                f"{path}: the state belongs to this output, but the file does not exist; "
                f"restore it, or {ANEW}"
            )
            raise StateError(message)
        with path.open("r+b" if path.exists() else "x+b") as file:
            try:
                yield LiveFile(file, target, known if isinstance(known, Mark) else None)
                file.flush()
            except BaseException:
                send_to_nowhere(file)
                raise


class LiveFile:
    """A CSV file or an Arrow stream. Writing resumes after the bytes that a state includes."""

    def __init__(self, file: IO[bytes], target: Target, known: Mark | None) -> None:
        self._file = file
        self._folder = target.path.resolve().parent
        beginning = _beginning(target.layout, target.schema)
        edges = Edges()
        if known is None:
            _check_unused(target, beginning)
            file.truncate(0)
            file.write(beginning)
            edges.add(beginning)
        else:
            _check_mark(target.path, file.fileno(), known, beginning)
            file.truncate(known.position)
            file.seek(known.position)
            edges = Edges.of(file.fileno(), known.position)
        # The writer writes the beginning of the format again, although the file already has it.
        self._body = _Body(file, edges, beginning)
        self._writer = _writer(
            cast("IO[bytes]", self._body), target.path.name, target.layout, target.schema
        )

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write rows so that readers can see them immediately."""
        self._writer.write_batch(batch)
        self._file.flush()

    def prepare(self) -> Mark:
        """Sync all written data, and return a description of it."""
        _sync(self._file)
        sync_folder(self._folder)
        found, edges = os.fstat(self._file.fileno()), self._body.edges
        return Mark(edges.position, found.st_dev, found.st_ino, edges.digest())

    def publish(self) -> None:
        """Do nothing, because the file already has its final name."""

    def finish(self) -> None:
        """Write the end marker of an Arrow stream; a resumed run removes the marker."""
        self._writer.close()
        _sync(self._file)


class _Body(io.RawIOBase):
    """Writes bytes to a file, skipping those already in it, and tracks its first and last bytes."""

    def __init__(self, file: IO[bytes], edges: Edges, passed_over: bytes) -> None:
        super().__init__()
        self._file = file
        self.edges = edges
        self._passed_over = passed_over

    def writable(self) -> bool:
        return True

    def write(self, given: Any) -> int:  # noqa: ANN401 - any buffer
        more = bytes(given)
        passed = min(len(more), len(self._passed_over))
        if more[:passed] != self._passed_over[:passed]:
            bug("the writer began with different bytes than before")
        self._passed_over = self._passed_over[passed:]
        self._file.write(more[passed:])
        self.edges.add(more[passed:])
        return len(more)


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _beginning(layout: Format, schema: pa.Schema) -> bytes:
    """Return the bytes that precede the first row of a file."""
    memory = io.BytesIO()
    _writer(memory, "", layout, schema).close()
    return memory.getvalue().removesuffix(END_MARK if layout is Format.ARROW else b"")


def _check_unused(target: Target, beginning: bytes) -> None:
    """Reject a file with rows. A run that is killed before its first state writes no rows."""
    path = target.path
    size = path.stat().st_size
    if not target.force and not (
        size <= len(beginning) and beginning.startswith(path.read_bytes())
    ):
        message = f"{path} exists; give --force to replace it, or another -o"
        raise TidegateError(message)


def _check_mark(path: Path, descriptor: int, mark: Mark, beginning: bytes) -> None:
    """Check that a file contains the bytes in the state, and no bytes from another writer."""
    found = os.fstat(descriptor)
    counted = f"{path}: the state includes its first {mark.position:,} bytes"
    if found.st_size < mark.position:
        message = f"{counted}, but it is {found.st_size:,} bytes long: "
        message += f"it was truncated or replaced; {ANEW}"
        raise StateError(message)
    if not mark.is_in(descriptor):
        message = f"{counted}, but these bytes have changed: it was replaced; {ANEW}"
        raise StateError(message)
    with path.open("rb") as file:
        if file.read(len(beginning)) != beginning:
            message = f"{path}: has different columns from those that this command writes; {ANEW}"
            raise StateError(message)
    is_same = (found.st_dev, found.st_ino) == (mark.device, mark.inode)
    if not is_same and found.st_size > mark.position:
        message = (
            f"{counted}, but it is a copy or a different file and has {found.st_size:,}; "
            f"truncate it to {mark.position} bytes, or {ANEW}"
        )
        raise StateError(message)


class LiveParts:
    """A folder of Parquet files, each of which contains the rows written between two states."""

    _NAME = re.compile(r"part-(\d{9})\.parquet|\.part-\d{9}\.parquet\.tmp")

    def __init__(self, target: Target, known: Parts | None) -> None:
        self._folder = folder = target.path
        self._schema = target.schema
        self._sizes: list[int] = []
        self._file: IO[bytes] | None = None
        self._writer: BatchWriter | None = None
        if known is None:
            folder.mkdir(exist_ok=True)
            sync_folder(folder.resolve().parent)
            self._check_unused(force=target.force)
        else:
            self._go_on(known)

    def _check_unused(self, *, force: bool) -> None:
        found = [path.name for path in self._folder.iterdir()]
        others = [name for name in found if not self._NAME.fullmatch(name)]
        if others or (found and not force):
            advice = "give another -o" if others else "give --force to replace them, or another -o"
            message = f"{self._folder} already has files, such as {(others or found)[0]}; {advice}"
            raise TidegateError(message)
        for name in found:
            (self._folder / name).unlink()

    def _go_on(self, known: Parts) -> None:
        if not self._folder.is_dir():
            message = (
                f"{self._folder}: the state belongs to this folder, which does not exist; {ANEW}"
            )
            raise StateError(message)
        if known.parts:
            # The last part may lack its final name if the run was killed.
            with suppress(FileNotFoundError):
                self._show(known.parts)
        own = {path.name for path in map(self._part, self._numbers(known)) if path.exists()}
        self._sizes += [(self._folder / name).stat().st_size for name in sorted(own)]
        if self._digest() != known.sizes:
            message = (
                f"{self._folder}: the state includes {known.parts:,} parts, "
                f"but some of them are missing or have changed; restore them, or {ANEW}"
            )
            raise StateError(message)
        found = self._folder.stat()
        is_same = (found.st_dev, found.st_ino) == (known.device, known.inode)
        for name in [path.name for path in self._folder.iterdir()]:
            if self._NAME.fullmatch(name) and name not in own:
                if not is_same:
                    message = (
                        f"{self._folder}: is a copy or a different folder, "
                        f"and the state does not include {name}; "
                        f"move this file elsewhere, or {ANEW}"
                    )
                    raise StateError(message)
                (self._folder / name).unlink()

    def _numbers(self, known: Parts) -> range:
        """Return a state's part numbers, up to one more than the number of files."""
        return range(1, min(known.parts, len(list(self._folder.iterdir())) + 1) + 1)

    def _part(self, number: int) -> Path:
        return self._folder / f"part-{number:09}.parquet"

    def _unnamed(self, number: int) -> Path:
        return self._folder / f".part-{number:09}.parquet.tmp"

    def _show(self, number: int) -> None:
        self._unnamed(number).replace(self._part(number))
        sync_folder(self._folder)

    def _digest(self) -> str:
        return hashlib.blake2b(repr(self._sizes).encode(), digest_size=16).hexdigest()

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Add rows to the part that the next state will include."""
        if self._writer is None:
            path = self._unnamed(len(self._sizes) + 1)
            self._file = path.open("wb")
            self._writer = open_writer(self._file, path.name, Format.PARQUET, self._schema)
        self._writer.write_batch(batch)

    def prepare(self) -> Parts:
        """Sync the new part, and return a description of all parts."""
        if self._file is not None and self._writer is not None:
            self._writer.close()
            _sync(self._file)
            self._file.close()
            self._sizes.append(self._unnamed(len(self._sizes) + 1).stat().st_size)
        sync_folder(self._folder)
        found = self._folder.stat()
        return Parts(len(self._sizes), self._digest(), found.st_dev, found.st_ino)

    def publish(self) -> None:
        """Rename the new part to its final name."""
        if self._writer is not None:
            self._file = self._writer = None
            self._show(len(self._sizes))

    def finish(self) -> None:
        """Do nothing, because each part is already complete."""

    def abandon(self) -> None:
        """Remove a part that no state includes."""
        if self._file is not None and not self._file.closed:
            send_to_nowhere(self._file)
            self._file.close()
            self._unnamed(len(self._sizes) + 1).unlink(missing_ok=True)
