"""Joins and aggregations as methods of pandas data frames.

Importing this module adds the accessor `tidegate` to `pandas.DataFrame`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec

import pandas as pd
import pyarrow as pa

import tidegate
from tidegate.frames import Method

__all__ = ["Frames"]

P = ParamSpec("P")

NULLABLE = {
    **{getattr(pa, f"int{bits}")(): getattr(pd, f"Int{bits}Dtype")() for bits in (8, 16, 32, 64)},
    **{getattr(pa, f"uint{bits}")(): getattr(pd, f"UInt{bits}Dtype")() for bits in (8, 16, 32, 64)},
    pa.bool_(): pd.BooleanDtype(),
}
"""The pandas types of integer and Boolean columns that contain nulls."""


def _method(function: Callable[Concatenate[Any, P], pa.Table]) -> Method[P, pd.DataFrame]:
    return Method(function)


@pd.api.extensions.register_dataframe_accessor("tidegate")
class Frames:
    """The methods of a data frame. The frame is the left input, or the only one.

    The methods have the same names and arguments as tidegate's functions, and return data frames.
    Columns keep their types. If a NumPy integer or Boolean column gains missing values, for example
    because of unmatched rows, its type becomes nullable, such as `Int64` or `boolean`, so that its
    values stay exact. If the left frame has a named index, it becomes the index of the result.

    Example:
        >>> import pandas as pd
        >>> import tidegate as tg
        >>> import tidegate.pandas
        >>> trades = pd.DataFrame({"ts": [10, 20, 30], "sym": ["A", "B", "C"]})
        >>> quotes = pd.DataFrame({"ts": [9, 18, 19], "sym": ["A", "B", "B"], "bid": [3, 4, 5]})
        >>> last = trades.tidegate.asof_join(quotes, on="ts", by="sym", columns=["sym", "bid"])
        >>> last["bid"].tolist(), str(last["bid"].dtype)
        ([3, 5, <NA>], 'Int64')
        >>> bars = quotes.tidegate.aggregate(on="ts", size=10, aggs={"bid": tg.agg.max("bid")})
        >>> bars["bid"].tolist()
        [3, 5]
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    interval_join = _method(tidegate.interval_join)
    asof_join = _method(tidegate.asof_join)
    overlap_join = _method(tidegate.overlap_join)
    window_join = _method(tidegate.window_join)
    band_join = _method(tidegate.band_join)
    aggregate = _method(tidegate.aggregate)
    rolling = _method(tidegate.rolling)
    features = _method(tidegate.features)

    def _called(
        self, function: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any]
    ) -> pd.DataFrame:
        return _frame(function(self._frame, *given, **named))


def _frame(table: pa.Table) -> pd.DataFrame:
    """Return a table as a data frame in which integers with nulls stay integers."""
    frame = table.to_pandas()
    for place, field in enumerate(table.schema):
        column = table.column(place)
        is_widened = field.type in NULLABLE and column.null_count and field.name in frame.columns
        # Types other than NumPy floats and objects can already represent nulls.
        if is_widened and frame[field.name].dtype.kind in "fO":
            frame[field.name] = column.to_pandas(types_mapper=NULLABLE.get).array
    return frame
