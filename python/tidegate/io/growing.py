"""Reads the bytes of growing files, even if files are renamed or the reader is restarted.

A file is recognized by its device and inode (if the system has them), by its first bytes, and by
the last bytes before a position. A renamed file is read to its end. Then the new file with the
original name is read from its beginning. If a file was truncated, overwritten, removed or replaced,
an error is raised, because rows would be lost or duplicated.
"""

import hashlib
import os
import re
import select
import stat
import sys
import threading
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tidegate import StateError, TidegateError
from tidegate.bugs import bug
from tidegate.io.files import STANDARD_STREAM

# How long a reader sleeps at the end of a file that may still grow, in seconds.
PATIENCE_S = 0.05

CHUNK_BYTES = 1 << 20

# A file is identified by this many bytes at its beginning and before a position.
EDGE_BYTES = 1 << 12

ADVICE = "rename a file when it is full, and create a new file under its name"
ANEW = "give another state and another OUT to start over"


class Stopped(Exception):  # noqa: N818 - not an error: it ends a waiting reader
    """Raised if a stop is requested while a reader is waiting."""


class Edges:
    """The first bytes of a file, and the last bytes before a position."""

    def __init__(self) -> None:
        self.position = 0
        self._head = b""
        self._tail = b""

    def add(self, more: bytes) -> None:
        """Advance the position past these additional bytes."""
        self.position += len(more)
        self._head += more[: EDGE_BYTES - len(self._head)]
        self._tail = (self._tail + more[-EDGE_BYTES:])[-EDGE_BYTES:]

    def digest(self) -> str:
        """Return a short digest of these bytes."""
        return hashlib.blake2b(self._head + self._tail, digest_size=16).hexdigest()

    @classmethod
    def of(cls, descriptor: int, position: int) -> "Edges":
        """Read the edges of a file for a position; a shorter file has different edges."""
        edges = cls()
        edges.position = position
        edges._head = _read_at(descriptor, 0, min(position, EDGE_BYTES))
        first = max(position - EDGE_BYTES, 0)
        edges._tail = _read_at(descriptor, first, position - first)
        return edges


@dataclass(frozen=True)
class Mark:
    """A position in a file, with data that is used to recognize the file."""

    position: int
    device: int
    inode: int
    edges: str

    def is_in(self, descriptor: int) -> bool:
        """Return whether an open file contains the bytes before the position."""
        if os.fstat(descriptor).st_size < self.position:
            return False
        return Edges.of(descriptor, self.position).digest() == self.edges


class GrowingFile:
    """Reads the bytes of a file from its beginning or from a mark."""

    def __init__(
        self,
        name: str,
        stop: threading.Event,
        mark: Mark | None = None,
        *,
        until_end: bool = False,
    ) -> None:
        self._name = name
        self._stop = stop
        self._until_end = until_end
        self.may_grow = name != STANDARD_STREAM and (mark is not None or Path(name).is_file())
        """Whether the file may grow beyond its current end, and can be recognized later."""

        if mark is not None:
            self._descriptor = _marked(name, mark)
        elif name == STANDARD_STREAM:
            self._descriptor = sys.stdin.fileno()
        elif self.may_grow:
            self._descriptor = _open(name)
        else:
            self._descriptor = _open_pipe(name, stop)
        self.limit: int | None = None
        """A position at which a read ends; later reads continue after it."""

        self._unread = b""
        self.edges = Edges()
        """The edges of the bytes that have been read."""

        self._was_renamed = False
        self._successor: int | None = None
        # The previous file with this name, and its final size.
        self._before: tuple[int, int] | None = None

    @property
    def position(self) -> int:
        """The number of bytes that have been read or skipped."""
        return self.edges.position - len(self._unread)

    @property
    def has_successor(self) -> bool:
        """Whether this file has ended because a new, non-empty file now has its name."""
        return self._successor is not None

    def seek(self, position: int) -> None:
        """Continue from another position."""
        os.lseek(self._descriptor, position, os.SEEK_SET)
        self._unread, self.edges = b"", Edges.of(self._descriptor, position)

    def mark(self, edges: Edges | None = None) -> Mark:
        """Return a mark for the current position, or for the position of other edges."""
        of = os.fstat(self._descriptor)
        known = self.edges if edges is None else edges
        return Mark(known.position, of.st_dev, of.st_ino, known.digest())

    def enter_successor(self) -> None:
        """Continue with the new file that has this name."""
        if self._successor is None:
            bug(f"{self._name} has no successor yet")
        self._forget_before()
        self._before = self._descriptor, self.edges.position
        self._descriptor, self._successor = self._successor, None
        self.edges, self._was_renamed = Edges(), False

    def next_bytes(self, most: int = CHUNK_BYTES) -> bytes:
        """Wait for more bytes and return them; at the end of the file, return no bytes.

        Raises:
            Stopped: A stop was requested.
            TidegateError: The file was truncated, overwritten, removed or replaced.
        """
        if self._unread:
            found, self._unread = self._unread[:most], self._unread[most:]
            return found
        while not self._stop.is_set():
            if not self.may_grow and not self._has_news():
                continue
            # Checked before the read, because a file that has a successor no longer grows.
            is_over = self.may_grow and self._is_over()
            found = os.read(self._descriptor, self._within_limit(most))
            if found:
                if self.may_grow:
                    # Checked after the read, because an overwriting writer starts with the first
                    # bytes.
                    self._check_edges()
                self.edges.add(found)
            elif is_over:
                self._check_between()
                self._successor = _open(self._name)
            if found or is_over or not self.may_grow or self._until_end:
                return found
            self._stop.wait(PATIENCE_S)
        raise Stopped

    def _within_limit(self, most: int) -> int:
        left = 0 if self.limit is None else self.limit - self.edges.position
        return min(most, left) if left > 0 else most

    def _is_over(self) -> bool:
        """Return whether a new, non-empty file has this file's name.

        Raises:
            TidegateError: The file was truncated, removed or replaced.
        """
        self._check_before()
        own = os.fstat(self._descriptor)
        if own.st_size < self.edges.position:
            self._raise(f"was truncated from {self.edges.position:,} bytes to {own.st_size:,}")
        try:
            named = Path(self._name).stat()
        except FileNotFoundError:
            named = None
        if named is not None and os.path.samestat(named, own):
            return False
        if own.st_nlink == 0 and not self._was_renamed:
            self._raise("was removed" if named is None else "was replaced by another file")
        self._was_renamed = True
        return named is not None and stat.S_ISREG(named.st_mode) and named.st_size > 0

    def _check_before(self) -> None:
        """Raise an error if bytes were added to the previous file after it had ended."""
        if self._before is not None:
            descriptor, size = self._before
            more = os.fstat(descriptor).st_size - size
            if more != 0:
                self._raise(
                    f"{more:,} bytes were written to the previous file with this name "
                    "after the new one had been created"
                )

    def _check_between(self) -> None:
        """Raise an error if another file had this name between this file and the new one."""
        own = os.fstat(self._descriptor)
        for path in _siblings(self._name):
            with suppress(FileNotFoundError):
                other, named = path.stat(), Path(self._name).stat()
                is_own = os.path.samestat(other, own) or os.path.samestat(other, named)
                if not is_own and other.st_mtime_ns > own.st_mtime_ns:
                    self._raise(f"was renamed twice (the second file with this name is now {path})")

    def _check_edges(self) -> None:
        known = self.edges
        if Edges.of(self._descriptor, known.position).digest() != known.digest():
            self._raise(f"was overwritten: its first {known.position:,} bytes have changed")

    def _raise(self, fault: str) -> None:
        message = f"{self._name}: {fault} while it was followed; {ADVICE}"
        raise TidegateError(message)

    def _has_news(self) -> bool:
        """Wait briefly for input from a pipe; return immediately on Windows, which cannot do so."""
        return os.name != "posix" or bool(select.select([self._descriptor], [], [], PATIENCE_S)[0])

    def read(self, size: int) -> bytes:
        """Wait for `size` bytes and return them; return fewer bytes only at the end."""
        parts: list[bytes] = []
        missing = size
        while missing and (part := self.next_bytes(missing)):
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def unread(self, found: bytes) -> None:
        """Undo a read by putting the bytes back into the buffer."""
        self._unread = found + self._unread

    # The members that pyarrow requires of a file in addition to `read`.
    closed = False

    def close(self) -> None:
        """Close the file."""
        self._forget_before()
        if self._descriptor != 0:
            with suppress(OSError):
                os.close(self._descriptor)

    def _forget_before(self) -> None:
        if self._before is not None:
            with suppress(OSError):
                os.close(self._before[0])
            self._before = None


def _open(name: str) -> int:
    return os.open(name, os.O_RDONLY | getattr(os, "O_BINARY", 0))


def _open_pipe(name: str, stop: threading.Event) -> int:
    """Open a file that may block, such as a named pipe without a writer.

    The wait takes place on a separate thread, because the system resumes a wait after a signal
    whose handler does not raise an exception.

    Raises:
        Stopped: A stop was requested.
    """
    opened: Future[int] = Future()

    def run() -> None:
        try:
            opened.set_result(_open(name))
        except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
            opened.set_exception(error)

    threading.Thread(target=run, name="tidegate-pipe", daemon=True).start()
    while not stop.is_set():
        if wait([opened], PATIENCE_S).done:
            return opened.result()
    raise Stopped


def _read_at(descriptor: int, first: int, size: int) -> bytes:
    """Read at a position without changing the file's current position."""
    if hasattr(os, "pread"):
        return os.pread(descriptor, size, first)
    place = os.lseek(descriptor, 0, os.SEEK_CUR)
    os.lseek(descriptor, first, os.SEEK_SET)
    try:
        return os.read(descriptor, size)
    finally:
        os.lseek(descriptor, place, os.SEEK_SET)


def _marked(name: str, mark: Mark) -> int:
    """Open the file that a mark belongs to; it may have been renamed.

    Raises:
        StateError: There is no such file.
    """
    named = _identity(name)
    names = [name] if named == (mark.device, mark.inode) else [*_renamed(name, mark), name]
    for candidate in names:
        with suppress(FileNotFoundError):
            descriptor = _open(candidate)
            if mark.is_in(descriptor):
                return descriptor
            os.close(descriptor)
    fault = f"the state includes its first {mark.position:,} bytes"
    if named is None:
        message = f"{name}: {fault}, but the file does not exist; {ANEW}"
    elif (size := Path(name).stat().st_size) < mark.position:
        message = f"{name}: {fault}, but it is {size:,} bytes long: "
        message += f"it was truncated or replaced; {ANEW}"
    else:
        message = f"{name}: {fault}, but these bytes have changed: it was replaced; {ANEW}"
    raise StateError(message)


def _siblings(name: str) -> list[Path]:
    """Return files with names like those of rotated logs: `a.csv.1`, `a-1.csv` and so on."""
    path = Path(name)
    number = r"[-._][-._:T\d]*\d"
    stem, ending = re.escape(path.stem), re.escape(path.suffix)
    renamed = re.compile(rf"{stem}{ending}{number}|{stem}{number}{ending}")
    return [other for other in path.parent.iterdir() if renamed.fullmatch(other.name)]


def _identity(name: str) -> tuple[int, int] | None:
    try:
        found = Path(name).stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _renamed(name: str, mark: Mark) -> list[str]:
    """Return the files in the same folder that have the mark's inode."""
    folders = {Path(name).parent, Path(name).resolve().parent}
    return [
        entry.path
        for folder in folders
        if folder.is_dir()
        for entry in os.scandir(folder)
        if entry.inode() == mark.inode and entry.is_file()
    ]
