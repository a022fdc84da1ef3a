"""Converts numeric times, which count from 1970 or from a given start, to timestamps.

Only a call with `unit` converts its time columns. Each number must be converted exactly, because
rounded times could match other rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate import _tidegate
from tidegate._tidegate import SchemaError, TidegateError
from tidegate.calls.casts import cast_of_floats
from tidegate.calls.inputs import OpenTable, read_table
from tidegate.io.open_tables import checked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

UNITS = ("s", "ms", "us", "ns")

# Floats of each unit are whole numbers of these units. A whole number of finer units would usually
# not fit into a float.
OF_FLOATS = {"s": "us", "ms": "us", "us": "us", "ns": "ns"}

NO_NUMBERS = (
    "unit: applies only to numeric times, but no time column contains numbers; leave it out"
)
OF_INDEX = (
    "the times of an index cannot be converted; build the index on a timestamp column, and leave "
    "unit out"
)


@dataclass(frozen=True)
class Epoch:
    """The meaning of numeric times: their unit, and the time from which they count."""

    unit: str
    start: pa.Scalar[Any]

    @classmethod
    def of(cls, given: Any) -> Epoch:  # noqa: ANN401 - any argument
        """Read the argument `unit`.

        Raises:
            TypeError: The argument is neither a unit nor a pair of a unit and a start.
        """
        unit, start = given if isinstance(given, tuple) and len(given) == 2 else (given, None)  # noqa: PLR2004 - a pair
        if unit not in UNITS:
            message = f"unit: expected one of {', '.join(map(repr, UNITS))}, or a pair such as "
            message += f'("s", datetime(2026, 3, 2)) for times since a start, got {given!r:.80}'
            raise TypeError(message)
        if start is None:
            return cls(unit, pa.scalar(0, pa.timestamp("us", "UTC")))
        if not isinstance(start, datetime | np.datetime64):
            message = f"unit: expected a datetime as the start, got {start!r:.80}"
            raise TypeError(message)
        found = pa.scalar(start)
        zone = None if found.type.tz is None else "UTC"
        return cls(unit, found.cast(pa.timestamp(found.type.unit, zone)))


def converted(
    inputs: Mapping[str, Any], columns: Mapping[str, Sequence[str]], given: object
) -> list[pa.Table]:
    """Return the inputs as tables whose time columns are timestamps.

    Args:
        inputs: The inputs of the call, by the names that messages use.
        columns: For each input, the names of its time columns.
        given: The argument `unit`.

    Raises:
        TidegateError: A number is not a whole number of the finest unit.
        SchemaError: No time column contains numbers, or an input is an index.
    """
    epoch = Epoch.of(given)
    tables = {name: _table(name, one) for name, one in inputs.items()}
    kinds = [
        tables[side].schema.field(name).type
        for side, names in columns.items()
        for name in names
        if name in tables[side].schema.names
    ]
    if not any(map(_is_number, kinds)):
        raise SchemaError(NO_NUMBERS)
    # Times without a zone are taken to be in UTC, so all of them can be compared.
    if any(pa.types.is_timestamp(kind) and kind.tz is None for kind in kinds):
        start = epoch.start.cast(pa.timestamp(epoch.start.type.unit))
        epoch = Epoch(epoch.unit, start)
    for side, names in columns.items():
        for name in dict.fromkeys(names):
            tables[side] = _with_times(tables[side], name, epoch, side, inputs[side])
    return list(tables.values())


def in_batches(table: OpenTable, names: Sequence[str], given: str) -> OpenTable:
    """Return an open table that converts numeric times to timestamps as its rows are read.

    Args:
        table: The table.
        names: The names of its time columns.
        given: The unit.
    """
    kinds = dict(zip(table.schema.names, table.schema.types, strict=True))
    wanted = [name for name in dict.fromkeys(names) if name in kinds and _is_number(kinds[name])]
    if not wanted:
        return table
    # Integers keep their unit, as in CSV files.
    start = pa.scalar(0, pa.timestamp("s", "UTC"))
    epoch = replace(Epoch.of(given), start=start)
    place = table.name or table.label

    def converting(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        before = 0
        for batch in rows:
            found = pa.Table.from_batches([batch])
            for name in wanted:
                found = _with_times(found, name, epoch, place, None, before)
            before += batch.num_rows
            yield from found.to_batches()

    def whole(columns: list[str]) -> Iterator[pa.RecordBatch]:
        rows = table.whole(columns)
        batches = rows.to_batches() if isinstance(rows, pa.Table) else rows
        return converting(checked(iter(batches), place))

    schema = table.schema.empty_table()
    for name in wanted:
        schema = _with_times(schema, name, epoch, place, None)
    return replace(
        table,
        schema=schema.schema,
        whole=whole,
        few=lambda columns, rows: converting(checked(table.few(columns, rows), place)),
        # Statistics in the files are about the numbers.
        pieces=None,
    )


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _table(name: str, given: Any) -> pa.Table:  # noqa: ANN401 - any input
    """Return all rows of an input."""
    if isinstance(given, _tidegate.Index):
        message = f"{name}: {OF_INDEX}"
        raise SchemaError(message)
    if isinstance(given, _tidegate.InputRows):
        # The input was read to look for expressions in other arguments.
        return _tidegate._with_computed(given, name, "on", [], [], None)[0]  # noqa: SLF001 - internal to the package
    return read_table(name, given)


def _with_times(  # noqa: PLR0913, PLR0917 - a column and its place in messages
    table: pa.Table, name: str, epoch: Epoch, side: str, given: object, before: int = 0
) -> pa.Table:
    """Return a table with a column of numbers converted to timestamps.

    `before` is the number of rows before those in the table.
    """
    if name not in table.schema.names or not _is_number(table.schema.field(name).type):
        # Native code reports a missing column, and converts timestamps of other units.
        return table
    column = table[name]
    unit = epoch.unit if pa.types.is_integer(column.type) else OF_FLOATS[epoch.unit]
    finest = max(unit, str(epoch.start.type.unit), key=UNITS.index)
    steps = column if unit == epoch.unit else None
    if pa.types.is_floating(column.type):
        steps = _whole(
            column, epoch.unit, unit, f"{side}: column `{name}`", (name, side, given, before)
        )
    assert steps is not None  # noqa: S101 - integers count the unit itself
    try:
        since = steps.cast(pa.int64()).cast(pa.duration(unit)).cast(pa.duration(finest))
        times = pc.add(epoch.start.cast(pa.timestamp(finest, epoch.start.type.tz)), since)
    except pa.ArrowInvalid as error:
        message = f"{side}: column `{name}`: a time does not fit timestamp[{finest}]: {error}"
        raise TidegateError(message) from error
    field = table.schema.field(name).with_type(times.type)
    return table.set_column(table.schema.get_field_index(name), field, times)


def _whole(
    column: pa.ChunkedArray, of: str, unit: str, place: str, where: tuple[str, str, object, int]
) -> pa.ChunkedArray:
    """Return floats that count one unit as integers that count another unit, without loss."""
    factor = 1000.0 ** (UNITS.index(unit) - UNITS.index(of))
    values = column.cast(pa.float64()).combine_chunks().to_numpy(zero_copy_only=False)
    known = column.is_valid().combine_chunks().to_numpy(zero_copy_only=False)
    with np.errstate(invalid="ignore", over="ignore"):
        steps = np.rint(values * factor)
        # Larger floats are whole numbers of coarser units only.
        exact = (steps / factor == values) & (np.abs(steps) < 2.0**53)
    if (wrong := np.flatnonzero(known & ~exact)).size:
        row = int(wrong[0])
        name, side, given, before = where
        message = (
            f"{place}, row {before + row}: {values[row]} {of} is not a whole number of {unit}; "
        )
        line = cast_of_floats(given, side, name) if of == "s" else None
        message += f"to round the times, write {line}" if line else "round the times first"
        raise TidegateError(message)
    whole = np.where(known & exact, steps, 0).astype(np.int64)
    return pa.chunked_array([pa.array(whole, mask=~known)])
