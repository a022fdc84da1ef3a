"""Files that preparation steps write, and that later steps and tasks read."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs

from tidegate import TidegateError
from tidegate.io.addresses import place_of
from tidegate.io.destinations import written_whole
from tidegate.io.files import (
    Format,
    converted,
    decoded,
    naming,
    reading,
)
from tidegate.io.open_tables import checked

if TYPE_CHECKING:
    from collections.abc import Iterator


def scratch_folder(given: str | None, function: str, instead: str) -> str:
    """Return the scratch folder's absolute path or URL.

    Args:
        given: The folder that the caller passed, if any.
        function: The name of the function whose call is divided.
        instead: The argument to pass instead of a scratch folder.

    Raises:
        TidegateError: No folder was passed.
    """
    if given is None:
        message = f"tasks: this {function} needs rows from other slices, however distant in time; "
        message += "so that preparation steps can write them to files, give scratch, an existing "
        message += f"folder that all processes can access; or give {instead}, or call the function "
        message += "itself"
        raise TidegateError(message)
    place = place_of(given, mapped=False)
    if not isinstance(place.filesystem, pafs.LocalFileSystem):
        return given
    # A task may run in a process with another working directory.
    return str(Path(place.path).absolute())


def write_rows(path: str, rows: pa.Table) -> None:
    """Write rows to a file that appears under its name only when it is complete.

    The schema metadata is also written.

    Raises:
        TidegateError: The file cannot be written.
    """
    # Each plan has its own folder, which its first preparation creates.
    place = place_of(path, mapped=False)
    if isinstance(place.filesystem, pafs.LocalFileSystem):
        with naming(path, "cannot be written"):
            Path(place.path).parent.mkdir(exist_ok=True)
    with written_whole(path, Format.ARROW, rows.schema) as writer:
        for batch in _compact(rows).to_batches():
            writer.write_batch(batch)


def rows_of(path: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows in a file.

    Raises:
        TidegateError: The file has not been written, has other columns, or cannot be read.
    """
    with _opened(path) as rows:
        if not rows.schema.equals(schema):
            message = f"{path}: expected a file with the columns {schema.names}, "
            message += f"got {rows.schema.names}; empty the scratch folder"
            raise TidegateError(message)
        yield from checked(rows, path)


def metadata_of(path: str) -> dict[bytes, bytes]:
    """Return a file's schema metadata.

    Raises:
        TidegateError: The file has not been written, or cannot be read.
    """
    with _opened(path) as rows:
        return rows.schema.metadata or {}


@contextmanager
def _opened(path: str) -> Iterator[pa.RecordBatchReader]:
    place = place_of(path, mapped=False)
    files = place.filesystem
    with reading(place.address, Format.ARROW):
        if files.get_file_info(place.path).type == pafs.FileType.NotFound:
            message = f"{place.address}: this file has not been written yet; "
            message += "run all preparation steps in plan.stages, stage by stage, before the tasks"
            raise TidegateError(message)
        with files.open_input_file(place.path) as file, pa.ipc.open_stream(file) as rows:
            yield rows


def _compact(rows: pa.Table) -> pa.Table:
    """Copy rows, so that their buffers and dictionaries hold no values from other rows."""
    plain = decoded(rows.schema)
    coded = [pa.types.is_dictionary(field.type) for field in rows.schema]
    if not any(coded):
        return rows.combine_chunks()
    batches = []
    for batch in rows.to_batches():
        # Encoded batch by batch, because all values together may exceed the type of the indices.
        columns = [
            pc.dictionary_encode(column) if is_coded else column
            for column, is_coded in zip(converted(batch, plain).columns, coded, strict=True)
        ]
        batches.append(converted(pa.record_batch(columns, rows.schema.names), rows.schema))
    return pa.Table.from_batches(batches, rows.schema)
