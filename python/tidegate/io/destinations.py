"""Writes files to paths and URLs. A file appears under its name only when it is complete.

A local file is written under a temporary name and then renamed. An object store shows an object
only when its upload is complete, so the file is first written to local disk and then copied.
"""

import mmap
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.fs as pafs

from tidegate.io.addresses import SCHEME, Place, place_of
from tidegate.io.files import BatchWriter, Format, batch_writer, naming, replaced_whole, writer_into


def file_in(folder: str, name: str) -> str:
    """Return the address of a file in a folder.

    Example:
        >>> file_in("result", "0.parquet")
        'result/0.parquet'
        >>> file_in("s3://bucket/result/?region=eu-west-1", "0.parquet")
        's3://bucket/result/0.parquet?region=eu-west-1'
    """
    scheme = SCHEME.match(folder)
    if scheme is None or scheme[1].lower() == "file":
        return f"{folder.rstrip('/')}/{name}"
    rest, mark, options = folder.partition("?")
    return f"{rest.rstrip('/')}/{name}{mark}{options}"


@contextmanager
def written_whole(address: str, layout: Format, schema: pa.Schema) -> Iterator[BatchWriter]:
    """Write a table to a path or URL in an existing folder.

    Raises:
        TidegateError: The format cannot represent a column, or the file cannot be written. The
            message names the column or the file.
    """
    place = place_of(address, mapped=False)
    if isinstance(place.filesystem, pafs.LocalFileSystem):
        with batch_writer(place.path, layout, schema) as writer:
            yield writer
        return
    # The file has no name, so the operating system removes it, however the process ends.
    with naming(place.address, f"cannot be written as {layout}"), tempfile.TemporaryFile() as file:
        with writer_into(file, place.path, layout, schema) as writer:
            yield writer
        _copy(file.fileno(), place)


@contextmanager
def opened_whole(address: str) -> Iterator[IO[bytes]]:
    """Open a new file at a path or URL. The file appears when the block ends without an error.

    Raises:
        TidegateError: The address is not supported.
    """
    place = place_of(address, mapped=False)
    if isinstance(place.filesystem, pafs.LocalFileSystem):
        with replaced_whole(Path(place.path)) as file:
            yield file
        return
    with tempfile.TemporaryFile() as file:
        yield file
        file.flush()
        _copy(file.fileno(), place)


def _copy(descriptor: int, place: Place) -> None:
    """Copy an open file to an object store.

    The bytes are written in one call, because closing the stream completes the object, even after
    an error between two calls.
    """
    # The mapping is closed with its last reference, which may belong to an error from the stream.
    content = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    with place.filesystem.open_output_stream(place.path) as stream:
        stream.write(content)


def names_in(folder: str) -> set[str]:
    """Return the names of the files in a folder; the set is empty if the folder does not exist.

    Empty files are omitted, because some object stores show an empty file until the upload is
    complete.

    Raises:
        TidegateError: The folder cannot be listed; the message names it.
    """
    place = place_of(folder, mapped=False)
    with naming(place.address, "cannot be listed"):
        selector = pafs.FileSelector(place.path, allow_not_found=True)
        return {info.base_name for info in place.filesystem.get_file_info(selector) if info.size}
