"""Reads rows from files, all at once or batch by batch.

Parquet and Arrow files are read as `pyarrow.dataset` datasets. CSV files and Arrow streams have no
index, so this module reads them from the beginning. A dataset would infer the types of CSV columns
from only the first few values.
"""

import codecs
import re
import stat
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from tidegate import SchemaError, TidegateError
from tidegate.io import csv_rows, guesses, json_rows
from tidegate.io.addresses import Files, find, stat_of
from tidegate.io.csv_rows import Columns, Opener
from tidegate.io.dialects import PLAIN, Dialect
from tidegate.io.files import (
    ARROW_FILE,
    ENDINGS,
    SNIFFED_BYTES,
    STANDARD_STREAM,
    Format,
    converted,
    format_of,
    layout_of,
    read_whole,
    reading,
    with_wide_indices,
)

# The number of rows read from a file at a time.
STREAM_BATCH_ROWS = 1 << 16

# The number of files whose schemas are read at the same time. Latency accounts for most of the
# time.
ASKED_AT_ONCE = 16

# Options for reading a dataset with few batches in memory. With threads, a dataset would read far
# ahead of a slow consumer.
FEW: dict[str, Any] = {
    "batch_size": STREAM_BATCH_ROWS,
    "batch_readahead": 2,
    "fragment_readahead": 1,
    "use_threads": False,
}
# The number of bytes to read at a time from a column of a Parquet file.
PAGE_BYTES = 1 << 20

# The value in a folder name that represents null, and a pattern that matches integers.
NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,9}")

COMPRESSED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}


@dataclass(frozen=True)
class Reading:
    """The options for reading the files of a table."""

    layout: Format | None = None
    """The format of all files; if None, the extensions determine the format."""

    csv: Dialect = PLAIN
    """The options for parsing CSV values."""

    streamed: bool = False
    """Whether the rows are read only once, in batches, with only a few rows in memory."""

    checked: bool = True
    """Whether to compare the columns of all files when the table is opened. Otherwise, only the
    first file of a Parquet table is opened, and the caller checks each file that it reads."""


@dataclass(frozen=True)
class Piece:
    """Consecutive files of a table that have the same format."""

    names: list[str]
    """The names of the files, for messages."""

    layout: Format
    schema: pa.Schema
    rows: ds.Dataset | Iterator[pa.RecordBatch]
    """A dataset, or batches that can be read only once."""

    again: "Callable[[Mapping[str, pa.DataType]], Piece] | None" = None
    """Rereads a CSV file with different types for some columns."""

    columns: Columns | None = None
    """The columns of a CSV file, with reasons for their types."""


def pieces(address: str, how: Reading) -> list[Piece]:
    """Open the files that an address refers to, or standard input for `-`.

    Raises:
        TidegateError: A file cannot be found, or cannot be read in the specified format.
        SchemaError: A column differs between the files.
    """
    if address == STANDARD_STREAM:
        return [_of_pipe("standard input", sys.stdin.buffer, how, None)]
    if _is_pipe(address):
        with reading(address, "a table"), Path(address).open("rb") as stream:
            return [_of_pipe(address, stream, how, format_of(address))]
    files = find(address, mapped=not how.streamed)
    layouts = {how.layout or _layout(name) for name in files.names}
    if len(layouts) > 1:
        message = f"{address}: its files have different formats, {' and '.join(sorted(layouts))}; "
        message += "select files of one format, for example with a pattern that ends in .parquet"
        raise TidegateError(message)
    [layout] = layouts
    if layout is Format.PARQUET or (layout is Format.ARROW and _are_arrow_files(files)):
        return [_of_dataset(files, layout, checked=how.checked)]
    return [_of_file(files, at, layout, how) for at in range(len(files.paths))]


def one_file_each(piece: Piece) -> list[Piece]:
    """Return the same files, each as a separate piece."""
    rows = piece.rows
    # The file system of a single file that was read from a pipe is unknown.
    if len(piece.names) == 1 or not isinstance(rows, ds.FileSystemDataset):
        return [piece]
    return [
        Piece([name], piece.layout, piece.schema, _of_fragment(fragment, rows))
        for name, fragment in zip(piece.names, rows.get_fragments(), strict=True)
    ]


def whole(
    found: Sequence[Piece], schema: pa.Schema, columns: list[str]
) -> Iterator[pa.RecordBatch]:
    """Read some columns of all pieces in parallel, and yield their rows in order."""
    parts = [
        _in_memory(piece) if isinstance(piece.rows, Iterator) else piece.rows for piece in found
    ]
    parts = [part.replace_schema(schema) for part in parts]
    rows = parts[0] if len(parts) == 1 else ds.UnionDataset(schema, parts)
    try:
        yield from rows.scanner(columns=columns).to_reader()
    except (OSError, pa.ArrowException):
        for piece in found:
            _raise_what_fails(piece, columns)
        raise


def few(found: Sequence[Piece], columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
    """Read some columns of all pieces in order, with only a few batches in memory at any time.

    `rows` is the approximate number of rows per batch.
    """
    for piece in found:
        with reading(piece.names[0], piece.layout):
            if isinstance(piece.rows, Iterator):
                yield from (batch.select(columns) for batch in piece.rows)
            elif piece.layout is Format.PARQUET:
                yield from _few_of_parquet(piece.rows, columns, rows)
            else:
                options = FEW | {"batch_size": rows}
                yield from piece.rows.scanner(columns=columns, **options).to_batches()


def _few_of_parquet(dataset: ds.Dataset, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
    schema = pa.schema([dataset.schema.field(column) for column in columns])
    for fragment in dataset.get_fragments():
        groups = [info.id for info in fragment.row_groups]
        yield from few_of_row_groups(fragment, groups, schema, rows)


def few_of_row_groups(
    fragment: ds.ParquetFileFragment,
    groups: list[int],
    schema: pa.Schema,
    rows: int,
    coded: Collection[str] = (),
) -> Iterator[pa.RecordBatch]:
    """Read selected columns and row groups of a Parquet file, page by page.

    A scanner would hold several row groups in memory. The strings in `coded` columns remain encoded
    with the file's dictionary.
    """
    columns = schema.names
    schema = coded_schema(schema, coded)
    # The values of columns that are encoded in folder names.
    values = ds.get_partition_keys(fragment.partition_expression)
    stored = [column for column in columns if column not in values]
    constants = {
        column: pa.scalar(values[column], schema.field(column).type)
        for column in columns
        if column in values
    }
    with _opened(fragment) as opened:
        file = pq.ParquetFile(
            opened,
            metadata=fragment.metadata,
            read_dictionary=[column for column in stored if column in coded],
            buffer_size=PAGE_BYTES,
            pre_buffer=False,
        )
        for batch in file.iter_batches(rows, groups, columns=stored, use_threads=False):
            arrays = [
                pa.repeat(constants[column], batch.num_rows)
                if column in constants
                else batch.column(column)
                for column in columns
            ]
            read = pa.RecordBatch.from_arrays(arrays, names=columns)
            yield converted(read, schema)


def coded_schema(schema: pa.Schema, coded: Collection[str]) -> pa.Schema:
    """Return the schema with dictionary types for some columns.

    Example:
        >>> coded_schema(pa.schema([("s", pa.string())]), ["s"]).field("s").type.value_type
        DataType(string)
    """
    return pa.schema(
        [
            field.with_type(pa.dictionary(pa.int32(), field.type)) if field.name in coded else field
            for field in schema
        ]
    )


def _opened(fragment: ds.ParquetFileFragment) -> pa.NativeFile:
    """Open a file without mapping it, because mapped pages would remain in the process's memory."""
    if isinstance(fragment.filesystem, pafs.LocalFileSystem):
        return pafs.LocalFileSystem().open_input_file(fragment.path)
    return fragment.open()


def row_count(found: Sequence[Piece]) -> int | None:
    """Return the number of rows, if the metadata of the files contains it."""
    count = 0
    for piece in found:
        if piece.layout is not Format.PARQUET or isinstance(piece.rows, Iterator):
            return None
        count += sum(one.metadata.num_rows for one in piece.rows.get_fragments())
    return count


def _in_memory(piece: Piece) -> ds.Dataset:
    with reading(piece.names[0], piece.layout):
        return ds.InMemoryDataset(pa.Table.from_batches(piece.rows, piece.schema))


def _raise_what_fails(piece: Piece, columns: list[str]) -> None:
    """Read files again one by one, to raise an error that names the damaged file."""
    for one in one_file_each(piece):
        with reading(one.names[0], one.layout):
            if not isinstance(one.rows, Iterator):
                for _ in one.rows.scanner(columns=columns).to_batches():
                    pass


def _layout(name: str) -> Format:
    layout = format_of(name)
    if layout is None:
        message = f"{name}: the extension is unknown; expected one of {', '.join(ENDINGS)}"
        raise TidegateError(message)
    return layout


def _is_pipe(address: str) -> bool:
    """Return whether a path is a named pipe or a device, which can be read only once."""
    found = stat_of(address)
    return found is not None and not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode))


# Datasets

DATASET_FORMATS = {Format.PARQUET: ds.ParquetFileFormat, Format.ARROW: ds.IpcFileFormat}


def _of_dataset(files: Files, layout: Format, *, checked: bool) -> Piece:
    """Open files that have an index, and add the columns encoded in names such as `day=1`."""
    options = ds.FileSystemFactoryOptions(
        partition_base_dir=files.base,
        partitioning=None if files.base is None else _folders(files),
    )
    of_format = DATASET_FORMATS[layout]()
    names = files.names
    _schema_of(names[0], of_format.make_fragment(files.paths[0], files.place.filesystem), layout)
    with reading(files.place.address, layout):
        # This uses the columns of the first file. The other files are compared with it.
        dataset = ds.FileSystemDatasetFactory(
            files.place.filesystem, [*files.paths], of_format, options
        ).finish()
    if checked:
        of_each = names, dataset.get_fragments(), [layout] * len(names)
        with ThreadPoolExecutor(ASKED_AT_ONCE) as threads:
            schemas = [*threads.map(_schema_of, *of_each)]
        check_same(names, schemas)
    piece = Piece(names, layout, dataset.schema, dataset)
    return piece if len(names) == 1 else _wide(piece)


def _folders(files: Files) -> ds.HivePartitioning:
    """Return the columns encoded in folder names, as integers if possible, otherwise as strings.

    The type inference in pyarrow reads `01` as 1 and fails if a column contains only nulls.
    """
    values: dict[str, set[str]] = {}
    for path in files.paths:
        for folder in path[len(files.base or "") :].split("/")[:-1]:
            name, equals, value = folder.partition("=")
            if equals:
                values.setdefault(unquote(name), set()).add(unquote(value))
    kinds = {
        name: pa.int32() if _are_whole(found - {NULL_FOLDER}) else pa.string()
        for name, found in values.items()
    }
    return ds.HivePartitioning(pa.schema(kinds))


def _are_whole(values: set[str]) -> bool:
    """Return whether all values are 32-bit integers without leading zeros or plus signs."""
    return bool(values) and all(
        WHOLE_NUMBER.fullmatch(value) and abs(int(value)) < 1 << 31 for value in values
    )


def _wide(piece: Piece) -> Piece:
    """Return the same files, with dictionary indices wide enough for their combined values."""
    schema, rows = with_wide_indices(piece.schema), piece.rows
    if schema.equals(piece.schema):
        return piece
    if isinstance(rows, ds.FileSystemDataset):
        fragments = [*rows.get_fragments()]
        rows = ds.FileSystemDataset(fragments, schema, rows.format, rows.filesystem)
    elif isinstance(rows, Iterator):
        rows = (converted(batch, schema) for batch in rows)
    return replace(piece, schema=schema, rows=rows)


def _schema_of(name: str, fragment: ds.Fragment, layout: Format) -> pa.Schema:
    with reading(name, layout):
        return fragment.physical_schema


def _of_fragment(fragment: ds.Fragment, like: ds.FileSystemDataset) -> ds.Dataset:
    return ds.FileSystemDataset([fragment], like.schema, like.format, like.filesystem)


def check_same(names: Sequence[str], schemas: Sequence[pa.Schema]) -> None:
    """Reject tables that differ in a column; the order of the columns may differ."""
    # A file's dictionary indices are only as wide as its own values require.
    first, *others = map(with_wide_indices, schemas)
    for name, schema in zip(names[1:], others, strict=True):
        if schema.equals(first):
            continue
        for one, other, of_one, of_other in (
            (first, schema, names[0], name),
            (schema, first, name, names[0]),
        ):
            names_of_other = {*other.names}
            for field in one:
                if field.name not in names_of_other:
                    message = f"{of_other}: there is no column `{field.name}`, which {of_one} has; "
                    message += "files of one table must have the same columns"
                    raise SchemaError(message)
        for field in first:
            found = schema.field(field.name).type
            if found != field.type:
                message = f"{name}: column `{field.name}` is {found}, "
                message += f"but in {names[0]} it is {field.type}; "
                message += "files of one table must have the same columns"
                raise SchemaError(message)


# Files that are read from the beginning


def _of_file(files: Files, at: int, layout: Format, how: Reading) -> Piece:
    return _of_content(
        files.names[at],
        layout,
        lambda: files.place.filesystem.open_input_file(files.paths[at]),
        how,
    )


def _of_buffer(name: str, layout: Format, content: pa.Buffer, how: Reading) -> Piece:
    return _of_content(name, layout, lambda: pa.BufferReader(content), how)


def _of_pipe(name: str, stream: IO[bytes], how: Reading, named: Format | None) -> Piece:
    """Read a pipe; if neither an option nor its name determines the format, its bytes do."""
    content = read_whole(stream).read_buffer()
    layout, found = how.layout or named, layout_of(_beginning(content))
    if layout is Format.ARROW and (found.is_csv or found is Format.JSON):
        message = f"{name}: cannot be read as arrow: it begins like {found}; "
        message += f"omit the format, or give {found}"
        raise TidegateError(message)
    return _of_buffer(name, layout or found, content, how)


def _beginning(content: pa.Buffer) -> bytes:
    return bytes(_decompressed(pa.BufferReader(content)).read(SNIFFED_BYTES))


def _of_content(name: str, layout: Format, opener: Opener, how: Reading) -> Piece:
    """Open the table in a file."""
    with reading(name, layout):
        if layout.is_csv:
            dialect = how.csv.tab_separated() if layout is Format.TSV else how.csv
            text = _as_utf8(lambda: _decompressed(opener()), how)
            return _of_csv(name, text, replace(how, csv=dialect))
        content = opener()
        if layout is Format.PARQUET or (layout is Format.ARROW and _starts(content, ARROW_FILE)):
            of_format = DATASET_FORMATS[layout]()
            fragment = of_format.make_fragment(content)
            schema = fragment.physical_schema
            dataset = ds.FileSystemDataset([fragment], schema, of_format)
            return Piece([name], layout, schema, dataset)
        if layout is Format.JSON and not how.streamed:
            table = json_rows.table(lambda: _decompressed(opener()))
            return Piece([name], layout, table.schema, ds.InMemoryDataset(table))
        if layout is Format.JSON:
            schema, rows = json_rows.blocks(lambda: _decompressed(opener()))
            return Piece([name], layout, schema, rows)
        reader = pa.ipc.open_stream(content)
        return Piece([name], layout, reader.schema, iter(reader))


# CSV


def _of_csv(name: str, opener: Opener, how: Reading) -> Piece:
    if how.streamed:
        return _of_csv_blocks(name, opener, how.csv, {})
    return _of_csv_table(name, opener, how.csv, *csv_rows.table(opener, how.csv))


def _of_csv_blocks(
    name: str, opener: Opener, dialect: Dialect, types: Mapping[str, pa.DataType]
) -> Piece:
    def again(more: Mapping[str, pa.DataType]) -> Piece:
        with reading(name, Format.CSV):
            return _of_csv_blocks(name, opener, dialect, {**types, **more})

    columns, rows = csv_rows.blocks(opener, dialect, types)
    return Piece([name], Format.CSV, columns.schema, rows, again, columns)


def _of_csv_table(
    name: str, opener: Opener, dialect: Dialect, table: pa.Table, columns: Columns
) -> Piece:
    def again(types: Mapping[str, pa.DataType]) -> Piece:
        with reading(name, Format.CSV):
            found = csv_rows.retyped(opener, dialect, table, types)
        return _of_csv_table(name, opener, dialect, found, replace(columns, schema=found.schema))

    rows = ds.InMemoryDataset(table)
    return Piece([name], Format.CSV, table.schema, rows, again, columns)


def alike(found: Sequence[Piece]) -> list[Piece]:
    """Convert files so that each column has the same type in all files.

    A CSV column has the type that it would have if all rows were in a single file. Dictionary
    indices are wide enough for the combined values of all files.
    """
    if sum(len(piece.names) for piece in found) > 1:
        found = [_wide(piece) for piece in found]
    guessed = [piece for piece in found if piece.again is not None]
    counts = [Counter(piece.schema.names) for piece in guessed]
    types = {
        name: _common(guessed, name)
        for name in (counts[0] if counts else [])
        if all(count[name] == 1 for count in counts)
    }
    return [piece if piece.again is None else _with_types(piece, types) for piece in found]


def _with_types(piece: Piece, types: Mapping[str, pa.DataType]) -> Piece:
    assert piece.again is not None  # noqa: S101 - for mypy
    other = {name: kind for name, kind in types.items() if piece.schema.field(name).type != kind}
    return piece.again(other) if other else piece


def _common(guessed: Sequence[Piece], name: str) -> pa.DataType:
    """Return the type that a column of several CSV files would have in a single file."""
    kinds = [piece.schema.field(name).type for piece in guessed]
    if (given := guesses.common_given(kinds)) is not None:
        return given
    known = guesses.widened(kinds)
    is_kept = not any(isinstance(piece.rows, Iterator) for piece in guessed)
    # Some times in seconds exceed the range of nanoseconds.
    is_narrower = len({*kinds} - {pa.null()}) > 1 and getattr(known, "unit", None) == "ns"
    if known is not None and not (is_kept and is_narrower):
        return known
    fitting = guesses.guesses_from(kinds) if is_kept else []
    return next((kind for kind in fitting if _all_fit(guessed, name, kind)), pa.string())


def _all_fit(guessed: Sequence[Piece], name: str, kind: pa.DataType) -> bool:
    """Return whether all values of a column fit a type."""
    with suppress(TidegateError):
        for piece in guessed:
            _with_types(piece, {name: kind})
        return True
    return False


# Text


def _as_utf8(opener: Opener, how: Reading) -> Opener:
    """Return a function that opens a CSV file as UTF-8.

    If pyarrow reads the whole file, it does so on a separate thread, which must not call Python's
    decoder when Python exits. The file is therefore decoded first.
    """
    name = how.csv.encoding
    if name is None:
        head = opener().read(2)
        name = "utf-16" if head in {codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE} else "utf-8"
    if codecs.lookup(name).name == "utf-8":
        return opener
    if how.streamed:
        return lambda: pa.transcoding_input_stream(opener(), name, "utf-8")
    content = read_whole(pa.transcoding_input_stream(opener(), name, "utf-8")).read_buffer()
    return lambda: pa.BufferReader(content)


def _decompressed(content: pa.NativeFile) -> pa.NativeFile:
    for magic, codec in COMPRESSED.items():
        if _starts(content, magic):
            return pa.CompressedInputStream(content, codec)
    return content


def _are_arrow_files(files: Files) -> bool:
    """Return whether the first bytes of files show that they are Arrow files, not Arrow streams."""

    def is_file(path: str) -> bool:
        with files.place.filesystem.open_input_file(path) as content:
            return _starts(content, ARROW_FILE)

    with reading(files.place.address, Format.ARROW), ThreadPoolExecutor(ASKED_AT_ONCE) as threads:
        return all(threads.map(is_file, files.paths))


def _starts(content: pa.NativeFile, magic: bytes) -> bool:
    head = content.read(len(magic))
    content.seek(0)
    return bool(head == magic)
