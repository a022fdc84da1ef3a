"""A `pyarrow.fs` file system that reads single files on HTTP servers, whole or in parts."""

import io
import urllib.error
import urllib.request
from collections.abc import Sequence
from http.client import HTTPResponse
from typing import NoReturn

import pyarrow as pa
import pyarrow.fs as pafs

# The maximum time to wait for a response from a server, in seconds.
TIMEOUT_S = 60

# The number of bytes per request. Each request takes at least one round trip.
PART_BYTES = 1 << 20

PARTIAL_CONTENT = 206


class HttpFiles(pafs.FileSystemHandler):  # type: ignore[misc]
    """Files by URL. HTTP can neither list folders nor write files."""

    def get_type_name(self) -> str:
        """Return the type name of this file system."""
        return "http"

    def normalize_path(self, path: str) -> str:
        """Return the URL unchanged."""
        return path

    def get_file_info(self, paths: Sequence[str]) -> list[pafs.FileInfo]:
        """Return the type and size of the file at each URL."""
        return [_info(path) for path in paths]

    def get_file_info_selector(self, selector: pafs.FileSelector) -> NoReturn:
        """Raise an error, because HTTP cannot list folders."""
        message = f"{selector.base_dir}: HTTP cannot list files; give the URLs of all files"
        raise OSError(message)

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open a file for reading at any position."""
        length, has_parts = _measured(path)
        if length is None or not has_parts:
            return pa.BufferReader(_get(path))
        return pa.PythonFile(io.BufferedReader(_Parts(path, length), PART_BYTES), mode="r")

    def open_input_stream(self, path: str) -> pa.NativeFile:
        """Open a file for reading from beginning to end."""
        return self.open_input_file(path)

    def _refuse(self, *_arguments: object, **_named: object) -> NoReturn:
        message = "files cannot be written over HTTP"
        raise OSError(message)

    copy_file = create_dir = delete_dir = delete_dir_contents = delete_file = _refuse
    delete_root_dir_contents = move = open_append_stream = open_output_stream = _refuse


class _Parts(io.RawIOBase):
    """A file on an HTTP server that is read in parts."""

    def __init__(self, url: str, length: int) -> None:
        self._url = url
        self._length = length
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._length}[whence]
        self._at = max(begin + offset, 0)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        last = min(self._at + len(buffer), self._length) - 1
        if last < self._at:
            return 0
        part = _get(self._url, f"bytes={self._at}-{last}")
        if len(part) != last + 1 - self._at:
            message = f"the server sent {len(part)} bytes, expected {last + 1 - self._at}"
            raise OSError(message)
        buffer[: len(part)] = part
        self._at += len(part)
        return len(part)


def _info(url: str) -> pafs.FileInfo:
    try:
        length, _ = _measured(url)
    except FileNotFoundError:
        return pafs.FileInfo(url, pafs.FileType.NotFound)
    return pafs.FileInfo(url, pafs.FileType.File, size=-1 if length is None else length)


def _measured(url: str) -> tuple[int | None, bool]:
    """Return a file's length, if known, and a flag that is true if the server supports ranges."""
    with _ask(url, "bytes=0-0") as answer:
        total = (answer.headers.get("Content-Range") or "").rpartition("/")[2]
        if answer.status == PARTIAL_CONTENT and total.isdigit():
            return int(total), True
        length = answer.headers.get("Content-Length") or ""
        return (int(length) if length.isdigit() else None), False


def _get(url: str, part: str | None = None) -> bytes:
    with _ask(url, part) as answer:
        return answer.read()


def _ask(url: str, part: str | None) -> HTTPResponse:
    headers = {"Accept-Encoding": "identity", **({} if part is None else {"Range": part})}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - the caller's own scheme
    try:
        answer: HTTPResponse = urllib.request.urlopen(request, timeout=TIMEOUT_S)  # noqa: S310 - as above
    except urllib.error.HTTPError as error:
        if error.code in {404, 410}:
            raise FileNotFoundError(2, "No such file") from error
        raise OSError(f"the server returned {error.code} {error.reason}") from error  # noqa: EM102, TRY003 - shorter
    except urllib.error.URLError as error:
        raise OSError(str(error.reason)) from error
    return answer
