"""Orders rows by their values, because Spark does not preserve the order of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    import numpy.typing as npt

    from tidegate.spark.layout.layout import Integers
    from tidegate.spark.query.axis import Axis

# Ranks are big-endian, so their bytes sort in the same order.
_RANK = np.dtype(">u4")


@dataclass(frozen=True)
class Order:
    """The required order of a join's right rows. Instances are sent to the workers.

    Rows are compared first by column `on`. If `on` is the time column, the native join sorts by it.
    In this case, only rows with equal times need to be ordered. With `by_number`, all rows must be
    ordered.
    """

    on: str
    axis: Axis
    by_number: bool

    def put(self, rows: pa.Table) -> pa.Table:
        """Return the rows in this order.

        Rows that would be sorted only by time are returned unchanged.
        """
        times = self.axis.integers(rows[self.on])
        if not self.by_number and not len(_tied(np.sort(times))):
            return rows
        return by_value(rows, self.on, times)


def by_value(rows: pa.Table, on: str, times: Integers) -> pa.Table:
    """Return the rows ordered by `times` (which increase with column `on`), then by value.

    Columns are compared in order. Structs are compared field by field, arrays element by element,
    and maps entry by entry. Nulls sort last at every level. The original order is kept only for
    rows that are equal in all columns.
    """
    order: Integers = np.argsort(times, kind="stable")
    times = times[order]
    tied = _tied(times)
    if len(tied):
        among = rows.take(pa.array(order[tied]))
        names = [on, *(name for name in rows.column_names if name != on)]
        keys = [_comparable(among[name]) for name in names]
        table = pa.table(dict(zip(map(str, range(len(keys))), keys, strict=True)))
        places = pc.sort_indices(table, [(name, "ascending") for name in table.column_names])
        order[tied] = order[tied][places.to_numpy()]
    elif np.all(order[1:] > order[:-1]):
        return rows
    return rows.take(pa.array(order))


def _tied(times: Integers) -> Integers:
    """Return the positions of sorted times that equal the previous or next time."""
    same = times[1:] == times[:-1]
    return np.flatnonzero(np.concatenate([same, [False]]) | np.concatenate([[False], same]))


def _comparable(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Return values that pyarrow sorts in the same order as the column's values."""
    if pa.types.is_floating(column.type):
        return _rising_bits(column)
    if pa.types.is_nested(column.type):
        return pa.array(_ranks(column.combine_chunks()))
    return column


def _rising_bits(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return floats as integers that sort in the same order, with -0.0 before 0.0."""
    floats = column.fill_null(0).to_numpy()
    bits = floats.view(f"i{floats.itemsize}")
    # As negative floats increase, their bits decrease.
    rising = bits ^ (bits >> 8 * floats.itemsize - 1 & np.iinfo(bits.dtype).max)
    return pa.array(rising, mask=np.asarray(column.is_null()))


def _ranks(column: pa.Array) -> Integers:
    """Return the rank of each value. Only equal values share a rank."""
    kind = column.type
    if pa.types.is_null(kind):
        return np.zeros(len(column), np.int64)
    if pa.types.is_struct(kind):
        column = _bytes_of_structs(column)
    elif pa.types.is_nested(kind):
        column = _bytes_of_lists(column)
    else:
        column = _comparable(column)
    ranks = pc.rank(column, "ascending", tiebreaker="dense").to_numpy()
    return np.asarray(ranks, np.int64)


def _bytes_of_structs(column: pa.StructArray) -> pa.Array:
    """Return structs as bytes that sort in the same order: the concatenated field ranks."""
    fields = [_ranks(field) for field in column.flatten()]
    ranks = np.column_stack([np.zeros(len(column), np.int64), *fields]).astype(_RANK)
    ends = np.arange(len(column) + 1) * ranks[:1].nbytes
    return _binary(ranks, ends, column)


def _bytes_of_lists(column: pa.ListArray | pa.MapArray) -> pa.Array:
    """Return arrays or maps as bytes that sort in the same order: the concatenated ranks."""
    ends = column.offsets.to_numpy().astype(np.int64)
    values = _elements(column).slice(ends[0], ends[-1] - ends[0])
    ranks = _ranks(values).astype(_RANK)
    return _binary(ranks, (ends - ends[0]) * _RANK.itemsize, column)


def _elements(column: pa.ListArray | pa.MapArray) -> pa.Array:
    """Return the elements of all arrays or the entries of all maps."""
    if not pa.types.is_map(column.type):
        return column.values
    return pa.StructArray.from_arrays([column.keys, column.items], ["key", "value"])


def _binary(ranks: npt.NDArray[np.uint32], ends: Integers, column: pa.Array) -> pa.Array:
    """Return the ranks between consecutive ends as binary values, null where the column is null."""
    buffers = [None, pa.py_buffer(ends.astype(np.int64)), pa.py_buffer(ranks)]
    values = pa.Array.from_buffers(pa.large_binary(), len(column), buffers)
    return pc.if_else(column.is_valid(), values, None)
