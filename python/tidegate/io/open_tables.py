"""Opens any input that is not Arrow data as a table: files, datasets, lazy frames and arrays.

Native functions accept Arrow data directly. For all other inputs, `calls` opens a table with
`open_table`, plans the query for the table's columns, and reads the columns that the query needs.
"""

import operator
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from tidegate import SchemaError, TidegateError, _tidegate
from tidegate.csv_files import CsvFiles
from tidegate.io.csv_rows import Columns
from tidegate.io.files import Format, format_of
from tidegate.io.read_files import (
    FEW,
    STREAM_BATCH_ROWS,
    Piece,
    Reading,
    alike,
    check_same,
    few,
    one_file_each,
    pieces,
    row_count,
    whole,
)

KINDS = (
    "Arrow data (a pyarrow table, batches or reader, a polars or pandas DataFrame, "
    "a DuckDB relation), a path or a list of paths (a file, a folder, "
    'a pattern such as "trades/*.parquet", or a URL such as "s3://bucket/trades/"), '
    "a pyarrow Dataset, Scanner or ParquetFile, a polars LazyFrame, a NumPy record array, "
    "or a dict of arrays"
)

WHOLE = Reading()
STREAMED = Reading(streamed=True)

ArrowRows: TypeAlias = Any
"""An object with `__arrow_c_stream__`."""


@dataclass
class OpenTable:
    """A table whose columns are known, and whose rows are read on demand."""

    schema: pa.Schema
    whole: Callable[[list[str]], ArrowRows]
    """Returns all rows, with the given columns."""

    few: Callable[[list[str], int], Iterator[pa.RecordBatch]]
    """Returns all rows, with the given columns, in batches; only a few batches are in memory.

    The second argument is the approximate number of rows per batch. If Python code processes the
    rows, pass them through `checked` first, because pyarrow does not validate its input as native
    functions do."""

    name: str
    """The name of the argument, as shown at the start of messages."""

    label: str = ""
    """The address of the first file, for messages."""

    row_count: Callable[[], int | None] = lambda: None
    """The number of rows, if known before they are read."""

    rows_read: int = 0
    """The number of rows read from files so far."""

    is_kept: bool = False
    """Whether the rows can be read again, at low cost if only a few columns are read."""

    is_in_order: bool = False
    """Whether the rows are known to be in time order."""

    pieces: Sequence[Piece] | None = None
    """The files of a path."""

    failure: Exception | None = None
    """The error that ended the read early. Arrow's C interface passes on only the error's
    message."""

    def __post_init__(self) -> None:
        for column in self.schema.names:
            if "\0" in column:
                message = f"the name of column {column!r:.80} contains a NUL character, "
                message += "at which Arrow's C interface truncates it; rename the column"
                raise SchemaError(f"{self.label}: {message}" if self.label else message)

    def read(self, columns: list[str]) -> ArrowRows:
        """Return all rows, with the given columns."""
        try:
            rows = self.whole(columns)
        except (ValueError, TypeError) as error:
            raise _with_name(error, self.name) from error
        return self._noting(rows, [self.schema.field(name) for name in columns])

    def batches(self) -> ArrowRows:
        """Return all rows and columns, batch by batch."""
        return self._noting(self.few(self.schema.names, STREAM_BATCH_ROWS), [*self.schema])

    def _noting(self, rows: ArrowRows, fields: list[pa.Field]) -> ArrowRows:
        """Return the same rows, but count them as they are read, and store any error."""
        if not isinstance(rows, Iterator):
            self.rows_read += rows.num_rows if isinstance(rows, pa.Table) else 0
            return rows

        def noting() -> Iterator[pa.RecordBatch]:
            try:
                for batch in rows:
                    self.rows_read += batch.num_rows
                    yield batch
            except Exception as error:
                self.failure = _with_name(error, self.name)
                raise

        # The metadata contains the types of pandas columns.
        return pa.RecordBatchReader.from_batches(pa.schema(fields, self.schema.metadata), noting())


def csv_columns(table: OpenTable, name: str = "") -> list[str]:
    """Return a line for each CSV file of a table, with its columns, their types, and why."""
    lines: dict[str, str] = {}
    for piece in table.pieces or []:
        if piece.columns is not None:
            lines.setdefault(str(piece.columns), piece.names[0])
    return [f"{name or label}: {line}" for line, label in lines.items()]


@contextmanager
def advising(inputs: Iterable[object]) -> Iterator[None]:
    """Add advice to an error if the type of a CSV column does not suit the query.

    `inputs` are open tables, or the columns of CSV files; others are ignored.
    """
    try:
        yield
    except TidegateError as error:
        head = str(error).partition("; ")[0]
        for columns in (one for given in inputs for one in _of_csv(given)):
            if (advice := columns.advice(str(error))) is not None:
                raise _rebuilt(error, f"{head}; {advice}") from error
        raise


def _of_csv(given: object) -> list[Columns]:
    if isinstance(given, Columns):
        return [given]
    pieces = given.pieces or [] if isinstance(given, OpenTable) else []
    return [piece.columns for piece in pieces if piece.columns is not None]


def checked(rows: Iterator[pa.RecordBatch], name: str) -> Iterator[pa.RecordBatch]:
    """Yield the same batches after validating each one.

    If offsets or indices are wrong, as in a damaged file, pyarrow reads out of bounds.

    Raises:
        TidegateError: A batch contains malformed Arrow data; the message names the column.
    """
    for batch in rows:
        _tidegate._check(batch, name)  # noqa: SLF001 - internal to the package
        yield batch


def open_table(given: object, name: str = "", how: Reading = WHOLE) -> OpenTable:
    """Open an input that is not Arrow data.

    Args:
        given: The input.
        name: The name of the argument, as shown at the start of messages; empty on the command
            line.
        how: The options for reading files.

    Raises:
        TypeError: The type of the input is not supported; the message lists the supported types.
        TidegateError: A file cannot be found or read; the message names it.
        SchemaError: A column differs between the files of a table; the message names both files.

    Example:
        >>> open_table({"ts": [1, 2], "x": [0.5, 1.5]}).schema.names
        ['ts', 'x']
    """
    if isinstance(given, OpenTable):
        return given
    opener = _opener(given)
    if opener is None:
        raise refused(given, name)
    try:
        return opener(given, name, how)
    except (ValueError, TypeError) as error:
        raise _with_name(error, name) from error


def open_files(given: Any, name: str = "", how: Reading = WHOLE) -> list[OpenTable]:  # noqa: ANN401 - a path
    """Open the files that a path refers to, each as a separate table."""
    try:
        if isinstance(given, CsvFiles):
            found = _of_csv_files(given, name, how).pieces or []
        else:
            found = pieces(os.fspath(given), how)
    except ValueError as error:
        raise _with_name(error, name) from error
    return [of_pieces([one], name) for piece in found for one in one_file_each(piece)]


def of_one_type(tables: Sequence[OpenTable]) -> list[OpenTable]:
    """Convert tables so that each CSV column has the same type in every file."""
    pieces = iter(alike([piece for table in tables for piece in table.pieces or []]))
    found = []
    for table in tables:
        own = [next(pieces) for _ in table.pieces or []]
        is_same = all(map(operator.is_, own, table.pieces or []))
        found.append(table if is_same else of_pieces(own, table.name))
    return found


def is_table(given: object) -> bool:
    """Return whether an input is a single table, not a sequence of tables.

    Example:
        >>> is_table("trades.parquet"), is_table([{"ts": [1]}, {"ts": [2]}])
        (True, False)
    """
    return isinstance(given, OpenTable) or (
        _opener(given) is not None and not isinstance(given, list | tuple)
    )


def refused(given: object, name: str) -> TypeError:
    """Return an error that lists the supported input types."""
    kind = type(given)
    found = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    if isinstance(given, list | tuple):
        wrong = [at for at, item in enumerate(given) if not is_path(item)]
        what = type(given[wrong[0]]).__name__ if wrong else ""
        found = f"a list whose item {wrong[0]} is {what}" if wrong else "an empty list"
    begin = f"{name}: " if name else ""
    # A narwhals lazy frame does not export Arrow data, but the frame that it wraps may be
    # supported.
    wrapped = "its to_native(), or " if kind.__module__.startswith("narwhals") else ""
    return TypeError(f"{begin}expected a table, got {found}; give {wrapped}{KINDS}")


Opener: TypeAlias = Callable[[Any, str, Reading], OpenTable]


def _opener(given: object) -> Opener | None:
    """Return the function that opens this input, or None if the input's type is not supported."""
    if is_path(given):
        return _of_paths
    if isinstance(given, list | tuple):
        return _of_paths if given and all(map(is_path, given)) else None
    if isinstance(given, CsvFiles):
        return _of_csv_files
    if isinstance(given, Mapping):
        return _of_arrays
    if getattr(getattr(given, "dtype", None), "names", None):
        return _of_records
    return next((opener for kind, opener in _kinds() if isinstance(given, kind)), None)


def _kinds() -> Iterator[tuple[type, Opener]]:
    """Yield the supported classes from libraries that have been imported."""
    yield ds.Dataset, _of_dataset
    yield ds.Scanner, _of_scanner
    yield pq.ParquetFile, _of_parquet_file
    if polars := sys.modules.get("polars"):
        yield polars.LazyFrame, _of_lazy_frame
    if duckdb := sys.modules.get("duckdb"):
        yield duckdb.DuckDBPyRelation, _of_relation


def is_path(given: object) -> bool:
    """Return whether an input is a single path, address or pattern."""
    return isinstance(given, str | os.PathLike)


def _with_name(error: Exception, name: str) -> Exception:
    """Return the error with the argument's name prepended to its message."""
    if not name or str(error).startswith(f"{name}: "):
        return error
    return _rebuilt(error, f"{name}: {error}")


def _rebuilt(error: Exception, text: str) -> Exception:
    """Return an error of the same type with another message."""
    try:
        return type(error)(text)
    except Exception:  # noqa: BLE001 - a constructor with other arguments may raise anything
        return TidegateError(text)


# Files


def _of_paths(given: Any, name: str, how: Reading) -> OpenTable:  # noqa: ANN401 - a path or a list
    addresses = [given] if is_path(given) else given
    found = [piece for address in addresses for piece in pieces(os.fspath(address), how)]
    return of_pieces(found, name)


def _of_csv_files(given: CsvFiles, name: str, how: Reading) -> OpenTable:
    # An extension such as `.txt` does not matter, because the files are known to be CSV.
    listed: Any = [given.paths] if is_path(given.paths) else given.paths
    layouts = {format_of(os.fspath(path)) for path in listed} - {None}
    layout = None if layouts and all(one.is_csv for one in layouts if one) else Format.CSV
    return _of_paths(given.paths, name, replace(how, csv=given.dialect, layout=layout))


def of_pieces(found: Sequence[Piece], name: str) -> OpenTable:
    """Return a table with the rows from several files, one file after another."""
    found = alike(found)
    schema = found[0].schema
    check_same([piece.names[0] for piece in found], [piece.schema for piece in found])

    def read(columns: list[str]) -> ArrowRows:
        if any(pa.types.is_dictionary(schema.field(column).type) for column in columns):
            fields = [schema.field(column) for column in columns]
            selected = pa.schema(fields, schema.metadata)
            batches = checked(whole(found, schema, columns), name or found[0].names[0])
            rows = pa.Table.from_batches(batches, selected)
            return _with_one_dictionary_each(rows)
        return whole(found, schema, columns)

    return OpenTable(
        schema,
        read,
        lambda columns, rows: few(found, columns, rows),
        name,
        found[0].names[0],
        lambda: row_count(found),
        is_kept=not any(isinstance(piece.rows, Iterator) for piece in found),
        pieces=found,
    )


def _with_one_dictionary_each(table: pa.Table) -> pa.Table:
    """Give each dictionary column a single dictionary, as Arrow files require."""
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(place, field, table.column(place).combine_chunks())
    return table


# Datasets


def _of_dataset(given: ds.Dataset, name: str, _how: Reading) -> OpenTable:
    return OpenTable(
        given.schema,
        lambda columns: iter(given.scanner(columns=columns).to_reader()),
        lambda columns, rows: given.scanner(
            columns=columns, **{**FEW, "batch_size": rows}
        ).to_batches(),
        name,
        is_kept=True,
    )


def _of_scanner(given: ds.Scanner, name: str, _how: Reading) -> OpenTable:
    """Open a scanner that returns only the projected columns."""
    return OpenTable(
        given.projected_schema,
        lambda columns: (batch.select(columns) for batch in given.to_reader()),
        lambda columns, _rows: (batch.select(columns) for batch in given.to_batches()),
        name,
    )


def _of_parquet_file(given: pq.ParquetFile, name: str, _how: Reading) -> OpenTable:
    return OpenTable(
        given.schema_arrow,
        lambda columns: given.iter_batches(STREAM_BATCH_ROWS, columns=columns),
        lambda columns, rows: given.iter_batches(rows, columns=columns),
        name,
        is_kept=True,
    )


# Frames and relations of other libraries


def _of_lazy_frame(given: Any, name: str, _how: Reading) -> OpenTable:  # noqa: ANN401 - may not be installed
    polars = sys.modules["polars"]
    if not hasattr(given, "collect_batches"):
        message = "expected a LazyFrame from polars 1.34 or later, "
        message += f"but this is polars {polars.__version__}; "
        message += "call .collect() on it, or run pip install --upgrade polars"
        raise TypeError(message)
    schema = given.collect_schema()
    for column, dtype in schema.items():
        _refuse_objects(column, dtype)
    return OpenTable(
        pa.table(polars.DataFrame(schema=schema)).schema,
        lambda columns: given.select(columns).collect(),
        lambda columns, rows: _of_frames(given.select(columns).collect_batches(chunk_size=rows)),
        name,
    )


def _refuse_objects(column: str, dtype: object) -> None:
    """Reject Polars `Object` columns, which would export object addresses as values."""
    if str(dtype) == "Object":
        message = (
            f"column `{column}` contains Python objects (polars type Object), "
            "which Arrow cannot represent; convert it to another type, or remove it with .drop()"
        )
        raise SchemaError(message)


def _of_frames(frames: Iterator[Any]) -> Iterator[pa.RecordBatch]:
    for frame in frames:
        yield from pa.table(frame).to_batches()


def _of_relation(given: Any, name: str, _how: Reading) -> OpenTable:  # noqa: ANN401 - may not be installed
    def read(columns: list[str]) -> ArrowRows:
        quoted = (column.replace('"', '""') for column in columns)
        return given.project(", ".join(f'"{column}"' for column in quoted))

    def few(columns: list[str], _rows: int) -> Iterator[pa.RecordBatch]:
        yield from pa.RecordBatchReader.from_stream(read(columns))

    return OpenTable(pa.table(given.limit(0)).schema, read, few, name)


# Arrays


def _of_records(given: Any, name: str, _how: Reading) -> OpenTable:  # noqa: ANN401 - NumPy's
    return _of_arrays({field: given[field] for field in given.dtype.names}, name, _how)


def _of_arrays(given: Mapping[Any, Any], name: str, _how: Reading) -> OpenTable:
    columns = {column: _array(column, values) for column, values in given.items()}
    lengths = {column: len(values) for column, values in columns.items()}
    for column, length in lengths.items():
        first = next(iter(lengths))
        if length != lengths[first]:
            message = f"column `{column}` has {length} values, "
            message += f"but column `{first}` has {lengths[first]}; pass columns of equal length"
            raise SchemaError(message)
    table = pa.table(columns)

    def few(columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        return iter(table.select(columns).to_batches(rows))

    return OpenTable(table.schema, table.select, few, name, is_kept=True)


def _array(column: object, values: Any) -> pa.Array | pa.ChunkedArray:  # noqa: ANN401 - any array
    if not isinstance(column, str):
        message = f"expected column names as the keys of the dict, got {column!r:.80}"
        raise TypeError(message)
    _refuse_objects(column, getattr(values, "dtype", None))
    try:
        has_chunks = hasattr(values, "__arrow_c_stream__") or isinstance(values, pa.ChunkedArray)
        return pa.chunked_array(values) if has_chunks else pa.array(values)
    except (pa.ArrowException, TypeError, ValueError) as error:
        message = f"column `{column}`: expected an array or a list of values: {error}"
        raise SchemaError(message) from error
