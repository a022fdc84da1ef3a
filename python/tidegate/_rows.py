"""Rows that are Python's dicts or tuples, as a table of a schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from tidegate._tidegate import SchemaError, TidegateError


def table(rows: Sequence[Any], schema: pa.Schema, name: str, ignores_extra: bool) -> pa.Table:  # noqa: FBT001 - called from Rust
    """The rows as a table; tuples are in the order of the schema.

    Errors begin with `name` and say which row of these is meant.
    """
    values = [_values(row, number, schema, name, ignores_extra) for number, row in enumerate(rows)]
    columns = list(zip(*values, strict=True)) or [()] * len(schema)
    arrays = [_array(column, field, name) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _values(
    row: object,
    number: int,
    schema: pa.Schema,
    name: str,
    ignores_extra: bool,  # noqa: FBT001 - as above
) -> Sequence[Any]:
    """The values of a row, in the order of the schema."""
    if isinstance(row, Mapping):
        missing = [column for column in schema.names if column not in row]
        if missing:
            message = f"{name}: row {number} has no value for column `{missing[0]}`; give None for "
            message += "a null"
            raise SchemaError(message)
        extra = [] if ignores_extra else [key for key in row if key not in schema.names]
        if extra:
            message = f"{name}: row {number} has a value for `{extra[0]}`, which is no column; "
            message += 'leave it out, or push with extra="ignore"'
            raise SchemaError(message)
        return [row[column] for column in schema.names]
    if isinstance(row, tuple):
        if len(row) != len(schema):
            names = ", ".join(schema.names)
            message = f"{name}: row {number} has {len(row)} values, expected {len(schema)}: {names}"
            raise SchemaError(message)
        return row
    message = f"{name}: expected rows as dicts or tuples, or Arrow data, got a list whose row "
    message += f"{number} is {type(row).__name__}"
    raise TypeError(message)


def _array(column: Sequence[Any], field: pa.Field, name: str) -> pa.Array:
    """The values of a column."""
    errors = (pa.ArrowException, TypeError, ValueError, OverflowError)
    try:
        return pa.array(column, field.type)
    except errors:
        for number, value in enumerate(column):
            try:
                pa.array([value], field.type)
            except errors as error:
                message = f"{name}: column `{field.name}`, row {number}: {value!r:.80} is no value "
                message += f"of {field.type}: {error}"
                raise TidegateError(message) from None
        raise
