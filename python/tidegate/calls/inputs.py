"""Opens and reads the inputs of a call.

Files are opened and read on a separate thread, so that Ctrl-C can interrupt the wait.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import pyarrow as pa

from tidegate._tidegate import Index, InputRows, is_arrow
from tidegate.calls.distinct import check_streams
from tidegate.csv_files import CsvFiles
from tidegate.io.open_tables import (
    STREAMED,
    WHOLE,
    OpenTable,
    advising,
    checked,
    is_path,
    is_table,
    of_one_type,
    open_files,
    open_table,
    refused,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidegate.io.read_files import Reading

__all__ = [
    "STREAMED",
    "WHOLE",
    "Input",
    "OpenTable",
    "advising",
    "columns_of",
    "elsewhere",
    "listed",
    "names",
    "of_sides",
    "of_streams",
    "opened",
    "read_schema",
    "read_streams",
    "read_table",
    "rows_of",
    "schema_of",
    "streams_of_files",
]

Result = TypeVar("Result")

Input: TypeAlias = "pa.Table | InputRows | Index | OpenTable"
"""An input that can be read at least once, and whose columns are known."""


def opened(name: str, given: Any, how: Reading = WHOLE) -> OpenTable:  # noqa: ANN401 - any input
    """Open an input that is not Arrow data."""
    return elsewhere(lambda: open_table(given, name, how))


def of_sides(left: Any, right: Any) -> tuple[Input, Input]:  # noqa: ANN401 - any inputs
    """Read the sides of a join that are Arrow data, and open the others."""
    sides = _read({"left": left, "right": right})
    return sides[0], sides[1]


def _read(every: dict[str, Any]) -> list[Input]:
    """Read the inputs that are Arrow data, and open the others.

    Files are opened first, so that no stream is consumed if a file is missing. Arrow inputs are
    read one after the other, because a DuckDB connection cannot return a result while another is
    open.
    """
    found = [given if is_arrow(given) else opened(name, given) for name, given in every.items()]
    return [
        one if isinstance(one, pa.Table | OpenTable | Index) else InputRows(one, name)
        for name, one in zip(every, found, strict=True)
    ]


def rows_of(name: str, one: Input, columns: list[str]) -> pa.Table | InputRows | Index:
    """Return an input's rows; an open table is read first."""
    if not isinstance(one, OpenTable):
        return one
    rows = elsewhere(lambda: one.read(columns))
    try:
        return InputRows(rows, name)
    except Exception:
        # Arrow's C interface passes on only the message of an exception.
        if one.failure is not None:
            raise one.failure from None
        raise


def read_schema(name: str, given: Any) -> pa.Schema:  # noqa: ANN401 - any input
    """Return the schema of an input. A stream that does not expose its schema is consumed."""
    one = columns_of(schema_of(name, given))
    known = one if isinstance(one, pa.Schema) else getattr(one, "schema", None)
    if isinstance(known, pa.Schema):
        return known
    if hasattr(one, "__arrow_c_schema__"):
        return pa.schema(one)
    return InputRows(one, name).schema


def read_table(
    name: str,
    given: Any,  # noqa: ANN401 - any input
    columns: list[str] | None = None,
) -> pa.Table:
    """Read an input, or some of its columns, into a pyarrow table."""
    if is_arrow(given):
        table = pa.table(given)
        table = pa.Table.from_batches(checked(iter(table.to_batches()), name), table.schema)
        return table if columns is None else table.select(columns)
    one = given if isinstance(given, OpenTable) else opened(name, given)
    used = one.schema.names if columns is None else columns
    schema = pa.schema([one.schema.field(column) for column in used], one.schema.metadata)

    def read() -> pa.Table:
        rows = one.read(used)
        batches = pa.table(rows).to_batches() if hasattr(rows, "__arrow_c_stream__") else rows
        return pa.Table.from_batches(checked(iter(batches), name), schema)

    try:
        return elsewhere(read)
    except Exception:
        # Arrow passes on only the message of an exception.
        if one.failure is not None:
            raise one.failure from None
        raise


def schema_of(name: str, given: Any) -> Any:  # noqa: ANN401 - any input
    """Return an object that provides the schema of an input or other data."""
    if hasattr(given, "__arrow_c_schema__") or is_arrow(given):
        return given
    return opened(name, given)


def columns_of(given: Any) -> Any:  # noqa: ANN401 - see `schema_of`
    """Return the schema of an open table; return other objects unchanged."""
    return given.schema if isinstance(given, OpenTable) else given


def listed(streams: Any) -> list[Any]:  # noqa: ANN401 - any streams
    """Return the `streams` argument as a list. A single input counts as one stream.

    Raises:
        ClosedError: A stream that can be read only once appears twice.
    """
    if isinstance(streams, list | tuple):
        check_streams(streams)
        return [*streams]
    if is_arrow(streams) or is_table(streams):
        return [streams]
    try:
        every = [*streams]
    except TypeError:
        raise refused(streams, "streams") from None
    check_streams(every)
    return every


def of_streams(streams: Any, name: str = "streams") -> list[Input]:  # noqa: ANN401 - any streams
    """Return the streams of an aggregation; a CSV column is read as the same type in all files.

    Args:
        streams: The streams.
        name: The name of the streams in messages.
    """
    every = listed(streams)
    return _with_one_type(_read(dict(zip(names(len(every), name), every, strict=True))))


def streams_of_files(streams: Any, how: Reading) -> list[Any]:  # noqa: ANN401 - any streams
    """Return a merge's streams. For a single path, each file at that path is a stream.

    Inputs that are not Arrow data are opened. If all inputs are files, each CSV column has the same
    type in all of these files.
    """
    if isinstance(streams, OpenTable | CsvFiles) or is_path(streams):
        given = [streams] if isinstance(streams, OpenTable) else None
        return elsewhere(lambda: of_one_type(given or open_files(streams, "streams", how)))
    every = listed(streams)
    return _with_one_type(
        [
            one if is_arrow(one) else opened(name, one, how)
            for one, name in zip(every, names(len(every)), strict=True)
        ]
    )


def _with_one_type(tables: list[Any]) -> list[Any]:
    """Return the streams; if all are files, read each CSV column as the same type in all files."""
    if not tables or not all(isinstance(one, OpenTable) for one in tables):
        return tables
    return elsewhere(lambda: of_one_type(tables))


def read_streams(streams: Sequence[Any]) -> list[Any]:
    """Return the rows from streams; open tables are read first."""
    return [
        rows_of(f"streams[{at}]", one, one.schema.names) if isinstance(one, OpenTable) else one
        for at, one in enumerate(streams)
    ]


def names(streams: int, name: str = "streams") -> list[str]:
    """Return the names that messages use for this many streams."""
    return [f"{name}[{at}]" if streams > 1 else name for at in range(streams)]


def elsewhere(work: Callable[[], Result]) -> Result:
    """Run a function on another thread, so that Ctrl-C can interrupt the wait."""
    done: Future[Result] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
            done.set_exception(error)

    threading.Thread(target=run, name="tidegate-files", daemon=True).start()
    return done.result()
