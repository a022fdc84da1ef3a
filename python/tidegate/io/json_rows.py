"""Reads rows from JSON lines files, whole or block by block."""

from collections.abc import Callable, Iterator
from contextlib import suppress

import pyarrow as pa
import pyarrow.json

from tidegate import TidegateError
from tidegate.io.csv_rows import BLOCK_BYTES, Opener, larger_block


def table(opener: Opener) -> pa.Table:
    """Read all rows in a file."""
    block = BLOCK_BYTES
    while True:
        try:
            options = pyarrow.json.ReadOptions(block_size=block)
            found = pyarrow.json.read_json(opener(), read_options=options)
        except pa.ArrowInvalid as error:
            block = larger_block(block, error)
        else:
            return found.cast(_with_times(found))


def blocks(opener: Opener) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Read JSON lines in blocks; the first block determines the column names and types."""
    if not hasattr(pyarrow.json, "open_json"):
        message = "this version of pyarrow cannot read JSON lines in blocks; "
        message += "install pyarrow 20 or later, or omit the memory limit"
        raise TidegateError(message)
    block = BLOCK_BYTES
    while True:
        try:
            first = _open_json(opener, block).read_next_batch()
        except pa.ArrowInvalid as error:
            block = larger_block(block, error)
        else:
            schema = _with_times(first)
            return schema, _json_rows(opener, schema, block)


def _json_rows(opener: Opener, schema: pa.Schema, block: int) -> Iterator[pa.RecordBatch]:
    yield from _growing_blocks(
        lambda size: (batch.cast(schema) for batch in _open_json(opener, size)), block
    )


def _open_json(opener: Opener, block: int) -> pa.RecordBatchReader:
    options = pyarrow.json.ReadOptions(block_size=block)
    return pyarrow.json.open_json(opener(), read_options=options)


def _with_times(rows: pa.Table | pa.RecordBatch) -> pa.Schema:
    """Return the schema, with time types for string columns whose values are all times."""
    schema = rows.schema
    for place, field in enumerate(schema):
        if pa.types.is_string(field.type) and rows.column(place).null_count < rows.num_rows:
            for kind in (pa.timestamp("ns"), pa.timestamp("ns", "UTC")):
                with suppress(pa.ArrowInvalid):
                    rows.column(place).cast(kind)
                    schema = schema.set(place, field.with_type(kind))
                    break
    return schema


def _growing_blocks(
    of_size: Callable[[int], Iterator[pa.RecordBatch]], block: int
) -> Iterator[pa.RecordBatch]:
    """Read the rows in a file, increasing the block size if a row does not fit in a block."""
    rows = 0
    while True:
        # Rows before the block that was too small have already been yielded.
        passed = rows
        try:
            for batch in of_size(block):
                fresh = batch.slice(min(passed, batch.num_rows))
                passed -= batch.num_rows - fresh.num_rows
                if fresh.num_rows:
                    yield fresh
                    rows += fresh.num_rows
        except pa.ArrowInvalid as error:
            block = larger_block(block, error)
        else:
            return
