"""Writes rows as JSON, one object per line. pyarrow can read such files but not write them."""

import json
from typing import Any

import pyarrow as pa

from tidegate import TidegateError
from tidegate.io.iso_times import as_text

TEXT = (
    pa.types.is_timestamp,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_decimal,
)
PLAIN = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_null,
)


class JsonLines:
    """Writes batches to a file. Times, dates and decimals are written as strings.

    Raises:
        TidegateError: JSON cannot represent a column or a value; the message names the column.
    """

    def __init__(self, file: Any, schema: pa.Schema) -> None:  # noqa: ANN401 - pyarrow's or Python's
        for field in schema:
            if not _is_held(field.type) and not _is_text(field.type):
                message = f"column `{field.name}`: JSON cannot represent {field.type}; "
                message += "write Parquet or Arrow, or omit the column with --columns"
                raise TidegateError(message)
        self._file = file
        self._encode = json.JSONEncoder(
            ensure_ascii=False, allow_nan=False, separators=(",", ":")
        ).encode

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        columns = [
            as_text(column, name) if _is_text(column.type) else column
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        rows = pa.RecordBatch.from_arrays(columns, names=batch.schema.names).to_pylist()
        try:
            lines = [self._encode(row) for row in rows]
        except ValueError as error:
            message = f"{_not_finite(batch)}: JSON has no NaN or infinity; "
            message += "write Parquet, CSV or Arrow, or exclude such rows with --where"
            raise TidegateError(message) from error
        if lines:
            self._file.write(("\n".join(lines) + "\n").encode())

    def close(self) -> None:
        """Do nothing, because JSON Lines files have no end marker."""


def _is_text(kind: pa.DataType) -> bool:
    return any(test(kind) for test in TEXT)


def _is_held(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_dictionary(kind):
        return _is_held(kind.value_type)
    if pa.types.is_struct(kind):
        return all(_is_held(field.type) for field in kind)
    return any(test(kind) for test in PLAIN)


def _not_finite(batch: pa.RecordBatch) -> str:
    """Return the name of the column that contains a value that JSON cannot represent."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if _is_text(column.type):
            continue
        try:
            json.dumps(column.to_pylist(), allow_nan=False, default=str)
        except ValueError:
            return f"column `{name}`"
    return "a column"
