"""File formats for event tables (Parquet, CSV, Arrow IPC and JSON lines), and their writers.

To add a format:

1. Add the format to `Format`, and its file extensions to `ENDINGS`.
2. Add a reader to `_of_content` in `read_files.py`, and a writer to `open_writer`.
3. In `cli/commands/parsing.py`, specify whether files in this format can be followed or
   partitioned.
4. Update the help in `cli/commands/texts.py` and the list in `docs/inputs.md`, and extend
   `tests/python/test_cli_formats.py`.
"""

import gzip
import io
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegate import TidegateError
from tidegate.io.csv_lines import CsvLines
from tidegate.io.json_lines import JsonLines
from tidegate.io.leftovers import FILE_SUFFIX, remove_leftovers, temporary_stem
from tidegate.io.locks import try_lock

STANDARD_STREAM = "-"

Change: TypeAlias = Callable[[pa.DataType], pa.DataType]

# Large enough for efficient skipping and compression, and small enough to buffer in memory.
ROW_GROUP_ROWS = 1 << 18


class Format(StrEnum):
    """The file format of a table."""

    PARQUET = "parquet"
    CSV = "csv"
    TSV = "tsv"
    """Tab-separated values."""

    ARROW = "arrow"
    """Arrow IPC: the file format for files, and the stream format for standard output."""

    JSON = "jsonl"
    """One JSON object per line."""

    @property
    def is_csv(self) -> bool:
        """Whether this is CSV, with commas or tabs."""
        return self in {Format.CSV, Format.TSV}


ENDINGS = {
    ".parquet": Format.PARQUET,
    ".pq": Format.PARQUET,
    ".csv": Format.CSV,
    ".csv.gz": Format.CSV,
    ".csv.zst": Format.CSV,
    ".tsv": Format.TSV,
    ".tsv.gz": Format.TSV,
    ".tsv.zst": Format.TSV,
    ".jsonl": Format.JSON,
    ".jsonl.gz": Format.JSON,
    ".jsonl.zst": Format.JSON,
    ".ndjson": Format.JSON,
    ".arrow": Format.ARROW,
    ".ipc": Format.ARROW,
    ".feather": Format.ARROW,
    ".arrows": Format.ARROW,
}


def format_of(name: str) -> Format | None:
    """Return the format that a file's extension indicates, or None if the extension is unknown.

    Example:
        >>> format_of("trades.csv.gz")
        <Format.CSV: 'csv'>
    """
    if name == STANDARD_STREAM:
        return Format.ARROW
    lowered = name.lower()
    return next((known for ending, known in ENDINGS.items() if lowered.endswith(ending)), None)


ARROW_FILE = b"ARROW1"
PARQUET_FILE = b"PAR1"
# The first bytes of each message in an Arrow stream.
ARROW_STREAM = b"\xff\xff\xff\xff"
# The number of bytes at the beginning of a pipe that determine its format.
SNIFFED_BYTES = 1 << 16


def layout_of(beginning: bytes) -> Format:
    """Return the format of a pipe that begins with these bytes.

    Example:
        >>> layout_of(b"ts,user")
        <Format.CSV: 'csv'>
    """
    if beginning.startswith((ARROW_FILE, ARROW_STREAM)) or not beginning:
        return Format.ARROW
    if beginning.startswith(PARQUET_FILE):
        return Format.PARQUET
    if beginning.lstrip().startswith(b"{"):
        return Format.JSON
    first = beginning.lstrip(b"\r\n").split(b"\n")[0]
    return Format.TSV if b"\t" in first and b"," not in first else Format.CSV


def is_compressed(name: str) -> bool:
    """Return whether a file name has the extension of a compressed file.

    Example:
        >>> is_compressed("trades.csv.zst"), is_compressed("trades.csv")
        (True, False)
    """
    return name.lower().endswith((".gz", ".zst"))


@contextmanager
def naming(name: str, failure: str) -> Iterator[None]:
    """Convert errors from pyarrow and the operating system to errors that name the file."""
    try:
        yield
    except BrokenPipeError:
        # The reader has closed the pipe. The caller decides whether that is an error.
        raise
    except OSError as error:
        # pyarrow's message repeats the file's name and the error number.
        reason = os.strerror(error.errno) if error.errno else str(error)
        message = f"{name}: {failure}: {reason}"
        raise TidegateError(message) from error
    except (pa.ArrowException, UnicodeDecodeError) as error:
        message = f"{name}: {failure}: {error}"
        raise TidegateError(message) from error


# Reading


def reading(name: str, layout: str) -> AbstractContextManager[None]:
    """Convert errors that occur while a file is being read into errors that name the file."""
    label = "standard input" if name == STANDARD_STREAM else name
    return naming(label, f"cannot be read as {layout}")


def read_whole(stream: IO[bytes]) -> pa.NativeFile:
    """Copy a stream into Arrow-managed memory."""
    memory = pa.BufferOutputStream()
    shutil.copyfileobj(stream, memory, 1 << 20)
    return pa.BufferReader(memory.getvalue())


def in_arrow_memory(content: bytes) -> pa.NativeFile:
    """Copy bytes into Arrow-managed memory, and return this memory as a file.

    Arrow's threads may release a file after Python has started to exit. If such a thread needs the
    interpreter to free Python's memory, the process aborts.
    """
    return read_whole(io.BytesIO(content))


# Writing


class BatchWriter(Protocol):
    """Writes record batches one after another; the result is complete once the writer is closed."""

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write the rows in a batch."""

    def close(self) -> None:
        """Write the part that ends the file, such as a Parquet footer."""


@contextmanager
def batch_writer(name: str, layout: Format, schema: pa.Schema) -> Iterator[BatchWriter]:
    """Write a table to the file `name`, or to standard output if the name is `-`.

    The file appears under its name only when the block has ended without an error and all rows are
    on disk. Until then, and after an error, an existing file with this name is unchanged. Pipes and
    devices are written to directly.

    Raises:
        TidegateError: The format cannot represent a column, or the file cannot be written. The
            message names the column or the file.
    """
    label = "standard output" if name == STANDARD_STREAM else name
    with (
        naming(label, f"cannot be written as {layout}"),
        _sink(name) as file,
        writer_into(file, name, layout, schema) as writer,
    ):
        yield writer


@contextmanager
def writer_into(
    file: IO[bytes], name: str, layout: Format, schema: pa.Schema
) -> Iterator[BatchWriter]:
    """Write a table to an open file; it is complete only if the block ends without an error."""
    writer = open_writer(file, name, layout, schema)
    try:
        yield writer
        writer.close()
        file.flush()
    except BaseException:
        # Closing adds an end mark, which would make a truncated result look complete.
        send_to_nowhere(file)
        with suppress(Exception):
            writer.close()
        raise


def open_writer(file: IO[bytes], name: str, layout: Format, schema: pa.Schema) -> BatchWriter:
    """Return a writer for an open file."""
    if layout is Format.PARQUET:
        return _ParquetWriter(file, schema)
    if layout.is_csv:
        delimiter = "\t" if layout is Format.TSV else ","
        return _TextWriter(file, name, schema, partial(CsvLines, delimiter=delimiter))
    if layout is Format.JSON:
        return _TextWriter(file, name, schema, JsonLines)
    if name == STANDARD_STREAM or name.lower().endswith(".arrows"):
        stream: BatchWriter = pa.ipc.new_stream(file, schema)
        return stream
    return _ArrowFileWriter(file, schema)


class _ParquetWriter:
    """Combines batches into row groups of a suitable size."""

    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        # All batches together may have more distinct values than the index type can address.
        self._schema = with_wide_indices(without_views(schema))
        self._writer = pq.ParquetWriter(file, self._schema)
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0

    def write_batch(self, batch: pa.RecordBatch) -> None:
        self._batches.append(converted(batch, self._schema))
        self._rows += batch.num_rows
        if self._rows >= ROW_GROUP_ROWS:
            self._write_row_group()

    def close(self) -> None:
        if self._batches:
            self._write_row_group()
        self._writer.close()

    def _write_row_group(self) -> None:
        self._writer.write_table(pa.Table.from_batches(self._batches), self._rows)
        self._batches, self._rows = [], 0


class _ArrowFileWriter:
    """Writes an Arrow file, which can contain only one dictionary per column.

    If a later batch has a different dictionary, the file is rewritten with plain values, because
    some readers do not support growing dictionaries.
    """

    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        self._file = file
        coded = [field.name for field in schema if _has_dictionary(field.type)]
        self._schema = schema if file.seekable() or not coded else decoded(schema)
        self._is_coded = self._schema is schema and bool(coded)
        self._first: pa.RecordBatch | None = None
        self._writer = pa.ipc.new_file(file, self._schema)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        if self._is_coded and self._first is None:
            self._first = batch
        if self._is_coded and not _have_same_dictionaries(self._first, batch):
            self._begin_anew()
        self._writer.write_batch(converted(batch, self._schema))

    def close(self) -> None:
        self._writer.close()

    def _begin_anew(self) -> None:
        """Rewrite the batches written so far without dictionaries."""
        self._writer.close()
        self._schema, self._is_coded = decoded(self._schema), False
        with tempfile.TemporaryFile(dir=Path(self._file.name).parent) as copy:
            self._file.seek(0)
            shutil.copyfileobj(self._file, copy, 1 << 20)
            self._file.seek(0)
            self._file.truncate()
            self._writer = pa.ipc.new_file(self._file, self._schema)
            before = pa.ipc.open_file(pa.PythonFile(copy, "r"))
            for at in range(before.num_record_batches):
                self._writer.write_batch(converted(before.get_batch(at), self._schema))


def _have_same_dictionaries(first: pa.RecordBatch, batch: pa.RecordBatch) -> bool:
    """Return whether two batches have equal dictionaries; nested ones never count as equal."""
    for one, other in zip(first.columns, batch.columns, strict=True):
        if isinstance(one, pa.DictionaryArray):
            if not one.dictionary.equals(other.dictionary):
                return False
        elif _has_dictionary(one.type):
            return False
    return True


def _has_dictionary(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return True
    return any(_has_dictionary(kind.field(place).type) for place in range(kind.num_fields))


class _TextWriter:
    """Writes rows as text, compressed with gzip or zstd if the file name has such an extension."""

    def __init__(
        self,
        file: IO[bytes],
        name: str,
        schema: pa.Schema,
        rows: Callable[[Any, pa.Schema], BatchWriter],
    ) -> None:
        self._schema = without_views(schema)
        self._compressed = _compressed(file, name)
        self._writer = rows(self._compressed or file, self._schema)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(converted(batch, self._schema))

    def close(self) -> None:
        self._writer.close()
        if self._compressed is not None:
            self._compressed.close()


def _compressed(file: IO[bytes], name: str) -> gzip.GzipFile | pa.CompressedOutputStream | None:
    if name.lower().endswith(".gz"):
        # The header contains neither a name nor a time, so that equal rows result in equal files.
        return gzip.GzipFile("", "wb", 6, file, mtime=0)
    if name.lower().endswith(".zst"):
        return pa.CompressedOutputStream(pa.PythonFile(_LeftOpen(file), "w"), "zstd")
    return None


class _LeftOpen:
    """A file that stays open when the compressed stream on top of it is closed."""

    closed = False

    def __init__(self, file: IO[bytes]) -> None:
        self.write = file.write
        self.flush = file.flush

    def close(self) -> None:
        """Leave the file open."""


def without_views(schema: pa.Schema) -> pa.Schema:
    """Replace types that some pyarrow writers do not support, such as Polars string views."""
    return _with_kinds(schema, _without_view)


def _without_view(given: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(given) and _without_view(given.value_type) != given.value_type:
        return _without_view(given.value_type)
    if pa.types.is_string_view(given):
        return pa.string()
    if pa.types.is_binary_view(given):
        return pa.binary()
    return given


def converted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert a batch to the types of a schema."""
    columns = [
        column if column.type == field.type else _cast(column, field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    if not isinstance(column, pa.DictionaryArray):
        return column.cast(wanted)
    if not pa.types.is_dictionary(wanted):
        return pc.take(column.dictionary.cast(wanted), column.indices)
    return pa.DictionaryArray.from_arrays(
        column.indices.cast(wanted.index_type),
        column.dictionary.cast(wanted.value_type),
        ordered=wanted.ordered,
    )


def decoded(schema: pa.Schema) -> pa.Schema:
    """Return the schema with plain types instead of dictionary types."""
    return _with_dictionaries(schema, lambda kind: kind.value_type)


def with_wide_indices(schema: pa.Schema) -> pa.Schema:
    """Return the schema with dictionary indices of at least 32 bits.

    Example:
        >>> narrow = pa.dictionary(pa.int8(), pa.string())
        >>> with_wide_indices(pa.schema([("s", narrow)])).field("s").type.index_type
        DataType(int32)
    """
    return _with_dictionaries(schema, _with_wide_index)


def _with_wide_index(kind: pa.DataType) -> pa.DataType:
    is_wide = kind.index_type.bit_width > pa.int32().bit_width
    return kind if is_wide else pa.dictionary(pa.int32(), kind.value_type, kind.ordered)


def _with_dictionaries(schema: pa.Schema, change: Change) -> pa.Schema:
    return _with_kinds(schema, lambda kind: _changed(kind, change))


def _with_kinds(schema: pa.Schema, change: Change) -> pa.Schema:
    fields = [field.with_type(change(field.type)) for field in schema]
    return pa.schema(fields, schema.metadata)


def _changed(kind: pa.DataType, change: Change) -> pa.DataType:
    """Return a type in which `change` has been applied to each dictionary type."""
    if pa.types.is_dictionary(kind):
        return change(kind)
    if pa.types.is_struct(kind):
        return pa.struct([one.with_type(_changed(one.type, change)) for one in kind])
    for is_kind, made in ((pa.types.is_list, pa.list_), (pa.types.is_large_list, pa.large_list)):
        if is_kind(kind):
            return made(kind.value_field.with_type(_changed(kind.value_type, change)))
    return kind


# Where the bytes go


def writes_in_place(name: str) -> bool:
    """Return whether `name` is standard output, a pipe or a device rather than a regular file."""
    if name == STANDARD_STREAM:
        return True
    try:
        return not stat.S_ISREG(os.stat(name).st_mode)  # noqa: PTH116 - any string, even an invalid path
    except (OSError, ValueError):
        return False


@contextmanager
def _sink(name: str) -> Iterator[IO[bytes]]:
    if name == STANDARD_STREAM:
        yield sys.stdout.buffer
    elif writes_in_place(name):
        with Path(name).open("wb") as file:
            yield file
    else:
        with replaced_whole(Path(name)) as file:
            yield file


@contextmanager
def replaced_whole(path: Path, temporary_name: str | None = None) -> Iterator[IO[bytes]]:
    """Open a new file that replaces `path` when the block ends without an error.

    The new file is given the permissions of the file that it replaces.

    Args:
        path: The file to replace.
        temporary_name: A name in the same folder to use until then; no other file may have it.
    """
    target = path.resolve()
    name = temporary_name or temporary_stem() + FILE_SUFFIX
    # In the same folder, because a file cannot be renamed into another file system.
    temporary = target.with_name(name)
    if temporary_name is None:
        remove_leftovers(target.parent)
    else:
        temporary.unlink(missing_ok=True)
    replaced = target.stat() if target.exists() else None
    try:
        with open(temporary, "x+b", opener=_private if replaced else None) as file:
            # The lock shows other runs that the file is not a leftover.
            try_lock(file.fileno())
            yield file
            # Buffered data is written now, so that a full disk raises an error before the rename.
            file.flush()
            if replaced is not None:
                take_permissions(file.fileno(), replaced)
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def _private(path: str, flags: int) -> int:
    """Open a file that only its owner can access until its final permissions are set."""
    return os.open(path, flags, 0o600)


def take_permissions(made: int, replaced: os.stat_result) -> None:
    """Copy the mode and, if permitted, the owner of a file or folder to an open one.

    If the group cannot be copied, the new file's group is given no permissions.
    """
    if os.name != "posix":
        return
    mode = stat.S_IMODE(replaced.st_mode) & (stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO)
    own = os.fstat(made)
    if own.st_uid != replaced.st_uid:
        with suppress(OSError):
            os.fchown(made, replaced.st_uid, -1)
    if own.st_gid != replaced.st_gid:
        try:
            os.fchown(made, -1, replaced.st_gid)
        except OSError:
            mode &= ~stat.S_IRWXG
    if stat.S_IMODE(own.st_mode) != mode:
        os.fchmod(made, mode)


def sync_folder(folder: Path) -> None:
    """Make renames in a folder survive a power failure; Windows does not support this."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def send_to_nowhere(file: IO[bytes]) -> None:
    """Redirect further writes to `file`, including buffered data, to the null device."""
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), file.fileno())
