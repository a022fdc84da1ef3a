"""The rows of an input in time order, and what is known of their order before they are read.

Each batch gets a column `PLACE`: the time as a 64-bit integer, in the finest unit of all inputs.
"""

import functools
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import tidegate
from tidegate import _tidegate
from tidegate.bounded.ahead import ahead
from tidegate.bounded.shares import Shares
from tidegate.bounded.sorting import Steps, is_sorted, sort
from tidegate.io.events import STREAM_BATCH_ROWS
from tidegate.io.given import STREAMED, OpenTable, open_table
from tidegate.io.pruning import is_parquet

PLACE = "\x1fplace"
"""A name that no column of a user has."""

Integers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

LOWEST = np.iinfo(np.int64).min
HIGHEST = np.iinfo(np.int64).max


@dataclass
class Given:
    """An input, opened."""

    name: str
    """Of the argument, for messages."""

    table: OpenTable


def given(value: object, name: str) -> Given:
    """Open an input of any kind; its rows are read later."""
    if hasattr(value, "__arrow_c_stream__") and not _is_relation(value):
        return Given(name, _of_stream(value, name))
    if hasattr(value, "__arrow_c_array__"):
        return Given(name, _of_table(pa.table(pa.record_batch(value)), name))
    return Given(name, open_table(value, name, STREAMED))


def _is_relation(value: object) -> bool:
    return type(value).__name__ == "DuckDBPyRelation"


def _of_stream(value: Any, name: str) -> OpenTable:  # noqa: ANN401 - any of many
    if isinstance(value, pa.Table):
        return _of_table(value, name)
    try:
        reader = pa.RecordBatchReader.from_stream(value)
    except pa.ArrowException as error:
        message = f"{name}: {error}"
        raise tidegate.ClosedError(message) from error
    if type(value).__module__.startswith(("polars.", "pandas")):
        return _of_table(reader.read_all(), name)
    return OpenTable(
        reader.schema,
        lambda _columns: reader,
        lambda columns, _rows: _selected(reader, columns),
        name,
    )


def _selected(reader: pa.RecordBatchReader, columns: list[str]) -> Iterator[pa.RecordBatch]:
    return (batch.select(columns) for batch in reader)


def _of_table(table: pa.Table, name: str) -> OpenTable:
    def few(columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        return iter(table.select(columns).to_batches(rows))

    return OpenTable(table.schema, table.select, few, name, is_kept=True)


def places(times: pa.Array, factor: int, *, nulls: int) -> Integers:
    """Times as 64-bit integers, in steps that are smaller by a factor; nulls become an integer."""
    if pa.types.is_date32(times.type):
        times = times.cast(pa.int32())
    numbers = times.cast(pa.int64())
    if numbers.null_count:
        numbers = pc.fill_null(numbers, nulls)
    found: Integers = numbers.to_numpy(zero_copy_only=False)
    if factor == 1:
        return found
    most = HIGHEST // factor
    # Beyond the range, all are equally far away.
    scaled: Integers = np.clip(found, -most, most) * factor
    if times.null_count:
        scaled[times.is_null().to_numpy(zero_copy_only=False)] = nulls
    return scaled


def ascends(table: OpenTable, on: str, rows: int = STREAM_BATCH_ROWS) -> bool:
    """Whether the times of a table ascend, by reading them alone, some rows at a time."""
    last = LOWEST
    for batch in table.few([on], rows):
        found = places(batch.column(0), 1, nulls=LOWEST)
        if len(found) == 0:
            continue
        if found[0] < last or not is_sorted(pa.chunked_array([found])):
            return False
        last = found[-1]
    return True


@dataclass
class Ordered:
    """An input whose rows are given in time order.

    Args:
        given: The input.
        columns: The columns that are read.
        on: The time column.
        factor: How many steps of `PLACE` a step of the time column has.
        lateness: How far rows may be out of order; None if that is not known.
        shares: What may be taken.
        files: Closes temporary files.
        nullable: Whether a time may be null; such rows then come first.
    """

    given: Given
    columns: list[str]
    on: str
    factor: int
    lateness: Any
    shares: Shares
    files: ExitStack
    nullable: bool = False
    rows: int = 0
    """The rows that were read."""

    def __post_init__(self) -> None:
        field = pa.field(PLACE, pa.int64(), nullable=False)
        table = self.given.table
        self.plain = pa.schema([table.schema.field(name) for name in self.columns])
        self.schema = self.plain.append(field)
        if self.lateness is not None:
            # The text of a wrong lateness is told before rows are read.
            nothing = pa.Table.from_batches([], self.schema)
            _tidegate.merge_batches([nothing], on=self.on, lateness=self.lateness).close()

    @functools.cached_property
    def ascends(self) -> bool:
        """Whether the times of a table that is read again are in order, by reading them alone."""
        table = self.given.table
        if self.lateness is not None or table.is_in_order or not table.is_kept:
            return table.is_in_order
        return ascends(table, self.on, self.shares.rows_read(self.plain))

    def batches(self) -> Steps:
        """The rows, and None from time to time."""
        rows = self._read()
        if self.lateness is not None:
            return self._within_lateness(rows)
        table = self.given.table
        if table.is_in_order or self.ascends:
            return rows
        return sort(rows, self.schema, PLACE, self.shares, self.files)

    def _read(self) -> Steps:
        table = self.given.table
        few = table.few(self.columns, self.shares.rows_read(self.plain))
        if table.pieces is not None and all(map(is_parquet, table.pieces)):
            few = ahead(few, self.shares.batches_ahead(self.plain))
        try:
            for batch in few:
                yield self._placed(batch)
        except (pa.ArrowException, OSError) as error:
            message = f"{self.given.name}: {error}"
            raise tidegate.TidegateError(message) from error

    def _placed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        times = batch.column(self.on)
        if times.null_count and not self.nullable:
            row = self.rows + pc.index(times.is_null(), value=True).as_py()
            message = f"{self.given.name}: column `{self.on}`, row {row}: the time is null, "
            message += "expected a time in every row; filter such rows out first"
            raise tidegate.TidegateError(message)
        self.rows += batch.num_rows
        place = pa.array(places(times, self.factor, nulls=LOWEST))
        columns = [*batch.select(self.plain.names).columns, place]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _within_lateness(self, rows: Steps) -> Steps:
        failed: list[Exception] = []

        def noting() -> Iterator[pa.RecordBatch]:
            try:
                yield from (batch for batch in rows if batch is not None)
            except Exception as error:
                failed.append(error)
                raise

        reader = pa.RecordBatchReader.from_batches(self.schema, noting())
        try:
            with _tidegate.merge_batches([reader], on=self.on, lateness=self.lateness) as merged:
                yield from merged
        except tidegate.OrderError as error:
            told = str(error).replace("streams[0]", self.given.name)
            told = told.partition("; sort the stream")[0]
            message = f"{told}; raise lateness, or leave it out, so that the input is sorted"
            raise tidegate.OrderError(message) from None
        except tidegate.TidegateError:
            if failed:
                raise failed[0] from None
            raise
