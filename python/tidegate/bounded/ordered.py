"""Reads an input's rows in time order, after checking whether they are already in order.

A column `PLACE` is added to each batch. The column contains the time as a 64-bit integer, in the
finest unit of all inputs.
"""

import functools
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import tidegate
from tidegate import _tidegate
from tidegate.bounded.ahead import ahead
from tidegate.bounded.shares import Shares, row_bytes
from tidegate.bounded.sorting import Steps, is_sorted, sort
from tidegate.bounded.stretches import Stretch, stretches
from tidegate.io.files import converted
from tidegate.io.open_tables import STREAMED, OpenTable, checked, open_table
from tidegate.io.pruning import Group, coded_columns, few_of, is_parquet, row_groups
from tidegate.io.read_files import coded_schema

PLACE = "\x1fplace"
"""A column name that is not used in user data."""

Integers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

LOWEST = np.iinfo(np.int64).min
HIGHEST = np.iinfo(np.int64).max


def opened_in_batches(given: object, name: str) -> OpenTable:
    """Open an input of any kind.

    The rows are read later, a few batches at a time.
    """
    if hasattr(given, "__arrow_c_stream__") and not _is_relation(given):
        return _of_stream(given, name)
    if hasattr(given, "__arrow_c_array__"):
        return _of_table(_imported(given, name), name)
    return open_table(given, name, STREAMED)


def _is_relation(value: object) -> bool:
    return type(value).__name__ == "DuckDBPyRelation"


def _of_stream(value: Any, name: str) -> OpenTable:  # noqa: ANN401 - any of many
    if isinstance(value, pa.Table):
        return _of_table(value, name)
    if type(value).__module__.startswith(("polars.", "pandas")):
        return _of_table(_imported(value, name), name)
    stream = _tidegate._CheckedBatches(value, name)  # noqa: SLF001 - internal to the package

    def selected(columns: list[str]) -> Iterator[pa.RecordBatch]:
        return (batch.select(columns) for batch in stream)

    return OpenTable(stream.schema, selected, lambda columns, _rows: selected(columns), name)


def _imported(value: Any, name: str) -> pa.Table:  # noqa: ANN401 - any Arrow data
    """Return in-memory rows as a pyarrow table, validated before pyarrow imports them."""
    stream = _tidegate._CheckedBatches(value, name)  # noqa: SLF001 - internal to the package
    return pa.Table.from_batches(stream, stream.schema)


def typed(table: OpenTable, schema: pa.Schema) -> OpenTable:
    """Cast a table to a schema that differs only in the types of empty, untyped columns."""
    if table.schema.equals(schema):
        return table

    def cast(rows: Any) -> Any:  # noqa: ANN401 - a table, or batches
        if isinstance(rows, pa.Table):
            return rows.cast(selected(rows.schema.names))
        return (converted(batch, selected(batch.schema.names)) for batch in rows)

    def selected(columns: list[str]) -> pa.Schema:
        return pa.schema([schema.field(column) for column in columns])

    return replace(
        table,
        schema=schema,
        whole=lambda columns: cast(table.whole(columns)),
        few=lambda columns, rows: cast(checked(table.few(columns, rows), table.name)),
        pieces=None,
    )


def _of_table(table: pa.Table, name: str) -> OpenTable:
    def few(columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        return iter(table.select(columns).to_batches(rows))

    return OpenTable(table.schema, table.select, few, name, is_kept=True)


def places(times: pa.Array, factor: int, *, nulls: int) -> Integers:
    """Return times as 64-bit integers, multiplied by a factor, with `nulls` in place of nulls."""
    if pa.types.is_date32(times.type):
        times = times.cast(pa.int32())
    numbers = times.cast(pa.int64())
    if numbers.null_count:
        numbers = pc.fill_null(numbers, nulls)
    found: Integers = numbers.to_numpy(zero_copy_only=False)
    if factor == 1:
        return found
    most = HIGHEST // factor
    # Times beyond the range are all treated as equally far away.
    scaled: Integers = np.clip(found, -most, most) * factor
    if times.null_count:
        scaled[times.is_null().to_numpy(zero_copy_only=False)] = nulls
    return scaled


def ascends(batches: Iterator[pa.RecordBatch]) -> bool:
    """Return whether times are in ascending order in batches that contain only the time column."""
    last = LOWEST
    for batch in batches:
        found = places(batch.column(0), 1, nulls=LOWEST)
        if len(found) == 0:
            continue
        if found[0] < last or not is_sorted(pa.chunked_array([found])):
            return False
        last = found[-1]
    return True


def check_lateness(lateness: Any, on: str, schema: pa.Schema) -> None:  # noqa: ANN401 - any lateness
    """Reject a lateness that is invalid for a schema's time column."""
    if lateness is not None:
        nothing = pa.Table.from_batches([], schema)
        _tidegate.merge_batches([nothing], on=on, lateness=lateness).close()


@dataclass
class Ordered:
    """An input whose rows are returned in time order.

    Args:
        table: The input.
        columns: The columns to read.
        on: The time column.
        factor: The number of `PLACE` units per unit of the time column.
        lateness: The maximum time by which rows may be out of order; None if it is unknown.
        shares: The shares of the memory limit.
        files: The stack that closes temporary files.
        nullable: Whether times may be null; rows with a null time are sorted first.
        may_code: Whether strings may be dictionary-encoded.
    """

    table: OpenTable
    columns: list[str]
    on: str
    factor: int
    lateness: Any
    shares: Shares
    files: ExitStack
    nullable: bool = False
    may_code: bool = False
    rows: int = 0
    """The number of rows read so far."""

    def __post_init__(self) -> None:
        field = pa.field(PLACE, pa.int64(), nullable=False)
        plain = pa.schema([self.table.schema.field(name) for name in self.columns])
        self.coded = coded_columns(self.groups or [], plain) if self.may_code else set()
        self.plain = coded_schema(plain, self.coded)
        self.schema = self.plain.append(field)
        # Reported before any rows are read.
        check_lateness(self.lateness, self.on, self.schema)

    @functools.cached_property
    def stretches(self) -> list[Stretch] | None:
        """The stretches of Parquet files with time statistics; None for other inputs."""
        table = self.table
        if self.lateness is not None or table.is_in_order:
            return None
        return stretches(table, self.on)

    @functools.cached_property
    def groups(self) -> list[Group] | None:
        """The row groups of Parquet files, if their order is known before they are read."""
        if self.stretches is not None:
            return [group for stretch in self.stretches for group in stretch]
        return row_groups(self.table) if self.table.is_in_order else None

    @functools.cached_property
    def ascends(self) -> bool:
        """Whether the times are in order. To determine this, a table that can be reread is read."""
        table = self.table
        if self.lateness is not None or table.is_in_order or not table.is_kept:
            return table.is_in_order
        return ascends(checked(table.few([self.on], self._rows_read), self.table.name))

    def look(self) -> None:
        """Determine the order of the rows before they are read."""
        if self.stretches is None:
            _ = self.ascends

    def batches(self) -> Steps:
        """Yield the rows, with an occasional None."""
        if self.stretches is not None:
            return self._ahead(self._of_stretches(self.stretches))
        table = self.table
        rows = self._placed(
            checked(table.few(self.columns, self._rows_read), self.table.name)
            if self.groups is None
            else self._few_of(self.groups)
        )
        if table.pieces is not None and all(map(is_parquet, table.pieces)):
            rows = self._ahead(rows)
        if self.lateness is not None:
            return self._within_lateness(rows)
        if table.is_in_order or self.ascends:
            return rows
        return sort(rows, self.schema, PLACE, self.shares, self.files, self.shares.sorted)

    def _few_of(self, groups: list[Group]) -> Iterator[pa.RecordBatch]:
        table = self.table
        rows = few_of(table, groups, self.columns, self._rows_read, self.coded)
        return checked(rows, self.table.name)

    @property
    def _rows_read(self) -> int:
        return self.shares.rows_read(self.plain)

    def _ahead(self, rows: Steps) -> Steps:
        """Read these rows in advance, on a separate thread."""
        return ahead(rows, self.shares.batches_ahead(self.plain))

    def _of_stretches(self, stretches: list[Stretch]) -> Steps:
        last = LOWEST
        for stretch in stretches:
            for batch in self._of_stretch(stretch):
                yield batch
                if batch is not None:
                    self._check_statistics(batch, last)
                    last = batch.column(PLACE)[-1].as_py()

    def _of_stretch(self, stretch: Stretch) -> Steps:
        """Yield the rows in a stretch in order."""
        table = self.table
        rows = self._placed(self._few_of(stretch))
        size = sum(group.metadata.num_rows for group in stretch) * row_bytes(self.plain)
        if len(stretch) == 1 and size > self.shares.sorted_in_memory:
            times = few_of(table, stretch, [self.on], self._rows_read)
            if ascends(checked(times, self.table.name)):
                return rows
        shares = self.shares
        return sort(rows, self.schema, PLACE, shares, self.files, shares.sorted_beside)

    def _check_statistics(self, batch: pa.RecordBatch, last: int) -> None:
        if batch.column(PLACE)[0].as_py() < last:
            message = f"{self.table.name}: a row has {batch.column(self.on)[0]} "
            message += f"in column `{self.on}`, which the statistics of its row group rule out; "
            message += "rewrite the file"
            raise tidegate.TidegateError(message)

    def _placed(self, few: Iterator[pa.RecordBatch]) -> Steps:
        """Yield rows as they are read, with the `PLACE` column added."""
        try:
            for batch in few:
                yield self._with_places(batch)
        except (pa.ArrowException, OSError) as error:
            message = f"{self.table.name}: {error}"
            raise tidegate.TidegateError(message) from error

    def _with_places(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        times = batch.column(self.on)
        if times.null_count and not self.nullable:
            row = self.rows + pc.index(times.is_null(), value=True).as_py()
            message = f"{self.table.name}: column `{self.on}`, row {row}: the time is null, "
            message += "but every row must have a time; filter such rows out first"
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
            told = str(error).replace("streams[0]", self.table.name)
            told = told.partition("; sort the stream")[0]
            message = f"{told}; raise lateness, or omit it to have the input sorted"
            raise tidegate.OrderError(message) from None
        except tidegate.TidegateError:
            if failed:
                raise failed[0] from None
            raise
