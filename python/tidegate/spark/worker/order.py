"""An order of rows that depends on their values alone: Spark keeps no order of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from tidegate.spark.layout.layout import Integers
    from tidegate.spark.query.axis import Axis


@dataclass(frozen=True)
class Order:
    """The order of the right rows of a join, as it is sent to the workers.

    They are compared by column `on` first. If that is their time, which a native join sorts by, the
    order of rows of different times does not matter; it does where rows come `by_number`.
    """

    on: str
    axis: Axis
    by_number: bool

    def put(self, rows: pa.Table) -> pa.Table:
        """The rows in this order, or as they are if only their times would be put in order."""
        times = self.axis.integers(rows[self.on])
        if not self.by_number and not len(_tied(np.sort(times))):
            return rows
        return by_value(rows, self.on, times)


def by_value(rows: pa.Table, on: str, times: Integers) -> pa.Table:
    """The rows by `times`, which rise with column `on`, and of one time by all their values.

    Columns come in their order, and nulls last. Rows whose values of sortable types are equal stay
    as they came.
    """
    order: Integers = np.argsort(times, kind="stable")
    times = times[order]
    tied = _tied(times)
    if len(tied):
        among = rows.take(pa.array(order[tied]))
        names = [on, *(name for name in rows.column_names if name != on)]
        keys = [_comparable(among[name]) for name in names if _sortable(rows, name)]
        table = pa.table(dict(zip(map(str, range(len(keys))), keys, strict=True)))
        places = pc.sort_indices(table, [(name, "ascending") for name in table.column_names])
        order[tied] = order[tied][places.to_numpy()]
    elif np.all(order[1:] > order[:-1]):
        return rows
    return rows.take(pa.array(order))


def _tied(times: Integers) -> Integers:
    """The places of rising times that are equal to the one before or after."""
    same = times[1:] == times[:-1]
    return np.flatnonzero(np.concatenate([same, [False]]) | np.concatenate([[False], same]))


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """The column; of floats, whole numbers in their order, so that -0.0 is less than 0.0."""
    if not pa.types.is_floating(column.type):
        return column
    floats = column.fill_null(0).to_numpy()
    bits = floats.view(f"i{floats.itemsize}")
    # The bits of negative floats fall as the floats rise.
    rising = bits ^ (bits >> 8 * floats.itemsize - 1 & np.iinfo(bits.dtype).max)
    return pa.array(rising, mask=column.is_null().to_numpy())


def _sortable(rows: pa.Table, name: str) -> bool:
    try:
        pc.sort_indices(rows[name].slice(0, 0))
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return False
    return True
