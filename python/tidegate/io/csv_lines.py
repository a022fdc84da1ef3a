"""Writes rows as CSV. pyarrow's own writer formats times differently and cannot write tabs.

Each row ends with a line feed. The text of all rows of a batch is built in one Arrow array, whose
buffer is then written.
"""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate import TidegateError
from tidegate.io.iso_times import as_text

BINARY = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)


class CsvLines:
    """Writes batches to a file, after a header. Strings are quoted, and nulls are empty.

    Raises:
        TidegateError: CSV cannot represent a column; the message names the column.
    """

    def __init__(self, file: Any, schema: pa.Schema, delimiter: str) -> None:  # noqa: ANN401 - pyarrow's or Python's
        for field in schema:
            try:
                _texts(pa.nulls(1, field.type), field.name)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                message = (
                    f"column `{field.name}`: CSV cannot represent {field.type}; "
                    "write Parquet or Arrow, or omit the column with --columns"
                )
                raise TidegateError(message) from error
        self._file = file
        self._delimiter = delimiter
        names = ('"' + name.replace('"', '""') + '"' for name in schema.names)
        file.write(f"{delimiter.join(names)}\n".encode())

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        if not batch.num_rows:
            return
        # Binary, because the values of a binary column need not be UTF-8.
        named = zip(batch.columns, batch.schema.names, strict=True)
        columns = [_texts(column, name).cast(pa.large_binary()) for column, name in named]
        empty, *parts = [pa.scalar(one, pa.large_binary()) for one in ("", self._delimiter, "\n")]
        lines = pc.binary_join_element_wise(
            *columns, parts[0], null_handling="replace", null_replacement=""
        )
        lines = pc.binary_join_element_wise(lines, empty, parts[1])
        _, offsets, text = lines.buffers()
        ends = pa.Array.from_buffers(
            pa.int64(), len(lines) + 1, [None, offsets], offset=lines.offset
        )
        start, end = ends[0].as_py(), ends[-1].as_py()
        self._file.write(memoryview(text)[start:end])

    def close(self) -> None:
        """Do nothing, because CSV files have no end marker."""


def _texts(column: pa.Array, name: str) -> pa.Array:
    """Return the values of a column as they are written.

    Raises:
        TidegateError: A time is too far from 1970.
        ArrowInvalid: CSV cannot represent the type.
        ArrowNotImplementedError: CSV cannot represent the type.
    """
    kind = column.type
    if isinstance(column, pa.DictionaryArray):
        return pc.take(_texts(column.dictionary, name), column.indices)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _quoted(column.cast(pa.large_string()), pa.large_string())
    if any(is_kind(kind) for is_kind in BINARY):
        variable = column.cast(pa.binary()) if pa.types.is_fixed_size_binary(kind) else column
        return _quoted(variable.cast(pa.large_binary()), pa.large_binary())
    if pa.types.is_nested(kind):
        message = f"{kind} has no form as a string"
        raise pa.ArrowNotImplementedError(message)
    return as_text(column, name)


def _quoted(column: pa.Array, kind: pa.DataType) -> pa.Array:
    doubled = pc.replace_substring(column, '"', '""')
    mark, empty = (pa.scalar(one, kind) for one in ('"', ""))
    return pc.binary_join_element_wise(mark, doubled, mark, empty)
