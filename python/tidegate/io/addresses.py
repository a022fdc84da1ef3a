"""Finds the files that a table's address (a path, a folder, a pattern or a URL) refers to.

All addresses are accessed through `pyarrow.fs` file systems, so the same code lists local folders
and folders in an object store.
"""

import errno
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

import pyarrow.fs as pafs

from tidegate import TidegateError
from tidegate.io.files import ENDINGS, naming
from tidegate.io.http import HttpFiles

SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
SCHEMES = ("s3", "gs", "az", "abfs", "abfss", "http", "https", "file")

# Prefixes of file names that contain no data, such as `_SUCCESS` and `.part-0.crc`.
HIDDEN = (".", "_")
# Log folders of table formats, in which the files may have more rows than the table.
TABLE_LOGS = {"_delta_log": ("Delta", "deltalake.DeltaTable(path).to_pyarrow_dataset()")}


class MissingFileError(TidegateError, FileNotFoundError):
    """The file does not exist."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.errno = errno.ENOENT


@dataclass(frozen=True)
class Place:
    """A file system, and a path or pattern in it."""

    filesystem: pafs.FileSystem
    path: str
    address: str
    """The address to show in messages: the caller's text without secrets."""

    scheme: str = ""

    def named(self, path: str) -> str:
        """Return the address of another path in the same file system, for messages."""
        return self.address if path == self.path else self.scheme + path


@dataclass(frozen=True)
class Files:
    """The files that form a table, ordered by path."""

    place: Place
    paths: tuple[str, ...]
    base: str | None
    """The folder whose subfolders encode columns, as in `day=2024-01-31`."""

    @property
    def names(self) -> list[str]:
        """The addresses of the files, for messages."""
        return [self.place.named(path) for path in self.paths]


def is_pattern(path: str) -> bool:
    """Return whether a path contains a wildcard character."""
    return any(character in path for character in "*?[")


def names_one_file(address: str) -> bool:
    """Return whether an address refers to a single local file; the file may not exist.

    Example:
        >>> names_one_file("trades.csv"), names_one_file("trades-*.csv"), names_one_file("/")
        (True, False, False)
    """
    if SCHEME.match(address):
        return False
    found = stat_of(address)
    if found is None:
        return not is_pattern(address)
    return not stat.S_ISDIR(found.st_mode)


def stat_of(path: str) -> os.stat_result | None:
    """Return the status of a path, or None if no such file exists or can exist."""
    try:
        return os.stat(path)  # noqa: PTH116 - the path may be invalid
    except (OSError, ValueError):
        return None


def find(address: str, *, mapped: bool) -> Files:
    """List the files that an address refers to.

    Args:
        address: A file, a folder, a pattern with `*`, `?`, `[...]` or `**`, or a URL of one of
            these.
        mapped: Whether local files are mapped into memory.

    Raises:
        TidegateError: There is no such file, or the address cannot be reached; the message names
            the address.
    """
    place = place_of(address, mapped=mapped)
    with naming(place.address, "cannot be read"):
        found = place.filesystem.get_file_info(place.path)
        if found.type == pafs.FileType.Directory:
            return _of_folder(place)
        if found.type == pafs.FileType.NotFound and is_pattern(place.path):
            return _of_pattern(place)
    if found.type == pafs.FileType.NotFound:
        message = f"{place.address}: cannot be read: {os.strerror(errno.ENOENT)}"
        raise MissingFileError(message)
    return Files(place, (place.path,), None)


def local_files(address: str) -> list[str]:
    """Return the paths of the existing local files that an address refers to."""
    scheme = SCHEME.match(address)
    if scheme and scheme[1].lower() != "file":
        return []
    try:
        return [*find(address, mapped=False).paths]
    except TidegateError:
        return []


# File systems


def place_of(address: str, *, mapped: bool) -> Place:
    """Return the file system that an address belongs to, and the path in this file system."""
    if not address:
        message = "the path is empty; "
        message += "give a file, a folder, a pattern or a URL, or . for the working directory"
        raise TidegateError(message)
    scheme = SCHEME.match(address)
    if scheme is None:
        path = os.path.expanduser(address)  # noqa: PTH111 - keeps a trailing slash
        path = path.replace(os.sep, "/") if os.sep != "/" else path
        return Place(pafs.LocalFileSystem(use_mmap=mapped), _without_slash(path), address)
    kind = scheme[1].lower()
    if kind not in SCHEMES:
        names = ", ".join(f"{known}://" for known in SCHEMES)
        message = f"{address:.200}: {kind}:// is not supported; give a path, or one of {names}"
        raise TidegateError(message)
    rest = address[scheme.end() :]
    if kind in {"http", "https"}:
        shown = f"{kind}://{_without_secrets(rest)}"
        return Place(pafs.PyFileSystem(HttpFiles()), address, shown)
    if kind == "file":
        return Place(
            pafs.LocalFileSystem(use_mmap=mapped), _without_slash(rest), address, "file://"
        )
    # A question mark separates options such as the region, so it is not a wildcard.
    rest, mark, options = rest.partition("?")
    root, _, path = rest.partition("/")
    shown = f"{kind}://{_without_secrets(rest)}"
    with naming(shown, "cannot be reached"):
        filesystem, base = _remote(kind, root, mark + options)
    return Place(filesystem, _without_slash(f"{base}/{path}"), shown, f"{kind}://")


def _remote(kind: str, root: str, options: str) -> tuple[pafs.FileSystem, str]:
    """Return the file system for an object store, and the path of `root` in this file system."""
    if kind == "az":
        if "@" not in root:
            return _azure(), root
        kind = "abfs"
    filesystem, base = pafs.FileSystem.from_uri(f"{kind}://{root}{options}")
    return filesystem, base.rstrip("/")


def _azure() -> pafs.FileSystem:
    """Return the Azure account from the environment variables that Azure's own tools use."""
    account = os.environ.get("AZURE_STORAGE_ACCOUNT")
    if account is None:
        message = "no account: set AZURE_STORAGE_ACCOUNT, or write az://CONTAINER@ACCOUNT."
        message += "dfs.core.windows.net/PATH"
        raise OSError(message)
    return pafs.AzureFileSystem(account, account_key=os.environ.get("AZURE_STORAGE_KEY"))


def _without_slash(path: str) -> str:
    return path.rstrip("/") or "/"


def _without_secrets(rest: str) -> str:
    """Return an address without its scheme, password or options."""
    parts = urlsplit(f"//{rest}")
    host = parts.netloc
    if ":" in host.rpartition("@")[0]:
        host = host.rpartition("@")[2]
    return host + parts.path


# Folders and patterns


def _of_folder(place: Place) -> Files:
    """Return all files under a folder, except hidden files."""
    paths = _below(place, place.path)
    if not paths:
        message = f"{place.address}: the folder contains no tables; "
        message += f"expected names that end in {', '.join(ENDINGS)}"
        raise TidegateError(message)
    return Files(place, tuple(paths), place.path)


def _below(place: Place, folder: str) -> list[str]:
    """Return the sorted paths of the files under a folder."""
    found = place.filesystem.get_file_info(pafs.FileSelector(folder, recursive=True))
    paths = []
    for info in found:
        inside = info.path[len(folder) :].strip("/").split("/")
        for name in inside:
            if name in TABLE_LOGS:
                kind, call = TABLE_LOGS[name]
                message = f"{place.named(folder)}: is a {kind} table; "
                message += "its files contain more rows than the table; "
                message += f"read it as {call}"
                raise TidegateError(message)
        if info.type == pafs.FileType.File and not any(name.startswith(HIDDEN) for name in inside):
            paths.append(info.path)
    return sorted(paths)


def _of_pattern(place: Place) -> Files:
    """Return the files that match a pattern, and all files under folders that match it."""
    segments = place.path.split("/")
    first = next(at for at, segment in enumerate(segments) if is_pattern(segment))
    base = "/".join(segments[:first]) or ("/" if first else ".")
    found = set(_matching(place, base, segments[first:]))
    paths = sorted(path.removeprefix("./") for path in found)
    if not paths:
        message = f"{place.address}: no file matches this pattern"
        raise TidegateError(message)
    return Files(place, tuple(paths), "" if base == "." else base)


def _matching(place: Place, folder: str, segments: list[str]) -> Iterator[str]:
    """Yield the files under a folder whose relative paths match the segments."""
    if not segments:
        yield from _below(place, folder)
        return
    wanted, *others = segments
    inside = [info for info in _inside(place, folder) if not info.base_name.startswith(HIDDEN)]
    folders = [info.path for info in inside if info.type == pafs.FileType.Directory]
    if wanted == "**":
        yield from _matching(place, folder, others)
        for below in folders:
            yield from _matching(place, below, segments)
        return
    for info in inside:
        if not fnmatchcase(info.base_name, wanted):
            continue
        if info.type == pafs.FileType.Directory:
            yield from _matching(place, info.path, others)
        elif not others:
            yield info.path


def _inside(place: Place, folder: str) -> list[pafs.FileInfo]:
    """Return the entries of a folder, ordered by name, or an empty list if it does not exist."""
    selector = pafs.FileSelector(folder, allow_not_found=True)
    return sorted(place.filesystem.get_file_info(selector), key=lambda info: info.path)
