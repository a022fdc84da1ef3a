"""Writes files to paths and URLs; each file appears under its name whole or not at all.

A local file is written under a temporary name and then renamed. An object store shows an object
only when its upload is complete, so the file is first written to local disk and then copied.
"""

import mmap
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.fs as pafs

from tidegate.io.addresses import SCHEME, Place, place_of
from tidegate.io.files import BatchWriter, Format, batch_writer, naming, writer_into


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
    """Write a table to a path or URL, whose folder exists.

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


def _copy(descriptor: int, place: Place) -> None:
    """Copy an open file to an object store.

    The bytes are written in one call, because closing a stream completes an object, even after an
    error between two calls.
    """
    # The mapping is closed with its last reference, which may belong to an error from the stream.
    content = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    with place.filesystem.open_output_stream(place.path) as stream:
        stream.write(content)


def names_in(folder: str) -> set[str]:
    """Return the names of the files in a folder, which may not exist.

    Empty files are left out: in some object stores, such a file appears before its upload is
    complete.

    Raises:
        TidegateError: The folder cannot be listed; the message names it.
    """
    place = place_of(folder, mapped=False)
    with naming(place.address, "cannot be listed"):
        selector = pafs.FileSelector(place.path, allow_not_found=True)
        return {info.base_name for info in place.filesystem.get_file_info(selector) if info.size}
