"""The batches of a result, produced on request by the native reader, and tables built from them."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

import tidegate
from tidegate.io.files import with_wide_indices
from tidegate.runtime.rows import size_of


class Result:
    """Batches that are produced when they are read.

    Args:
        schema: The schema of every batch. Dictionaries have 32-bit indices, because the total
            number of distinct values is unknown.
        batches: An iterator over batches. The iterator occasionally yields None, so that a closed
            reader is noticed.
        stats: A function that returns statistics about the work so far.
        max_rows: The maximum number of rows.
    """

    def __init__(
        self,
        schema: pa.Schema,
        batches: Iterator[pa.RecordBatch | None],
        stats: Callable[[], dict[str, Any]],
        max_rows: int | None = None,
    ) -> None:
        self.schema = with_wide_indices(schema)
        self._batches = batches
        self._stats = stats
        self._max_rows = max_rows
        self._rows = 0

    def __iter__(self) -> "Result":
        return self

    def __next__(self) -> pa.RecordBatch | None:
        batch = next(self._batches)
        if batch is None:
            return None
        rows = self._rows + batch.num_rows
        check_rows(rows, self._max_rows)
        self._rows = rows
        return self._as_told(batch) if batch.num_rows else None

    def _as_told(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.schema.equals(self.schema):
            return batch
        columns = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(batch.columns, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def close(self) -> None:
        """Stop the work and close the temporary files."""
        if callable(close := getattr(self._batches, "close", None)):
            close()

    def stats(self) -> dict[str, Any]:
        """Return statistics about the work so far."""
        return {**self._stats(), "rows": self._rows}


def check_rows(rows: int, max_rows: int | None) -> None:
    """Raise an error if a result has too many rows."""
    if max_rows is not None and rows > max_rows:
        message = f"the result has at least {rows} rows, more than max_rows = {max_rows}; "
        message += "raise it, or request fewer rows"
        raise tidegate.MemoryLimitError(message)


def known(reader: pa.RecordBatchReader) -> Result:
    """Wrap the batches of a result that has already been computed."""
    return Result(reader.schema, iter(reader), dict)


def table(reader: Any, limit: int, batches: str) -> pa.Table:  # noqa: ANN401 - of Rust
    """Collect all batches of a reader into one table.

    Args:
        reader: The reader.
        limit: The call's memory limit. The table may use half of this limit.
        batches: The name of the function that returns batches, used in error messages.

    Raises:
        MemoryLimitError: The table would need more than half of the limit.
    """
    found = []
    size = 0
    with reader:
        for batch in reader:
            size += size_of(batch)
            if size > limit // 2:
                message = f"the result needs more than {limit // 2} bytes, half of memory_limit; "
                message += f"raise memory_limit, or write tidegate.{batches}(...), "
                message += "whose result may be larger than memory"
                raise tidegate.MemoryLimitError(message)
            found.append(batch)
        return pa.Table.from_batches(found, reader.schema)
