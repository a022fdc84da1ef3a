"""Joins and aggregations as methods of Polars frames, and as steps of lazy queries.

Importing this module adds the namespace `tidegate` to `polars.DataFrame` and `polars.LazyFrame`. In
a lazy query, each join becomes a step. Polars requests only the columns that later steps read, and
stops the join once it has enough rows. Rows are processed batch by batch. If a filter follows the
join, only a few rows are in memory at a time.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias

import polars as pl
from polars.io.plugins import register_io_source

import tidegate
from tidegate.frames import Method

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

    Frame: TypeAlias = pl.LazyFrame | pl.DataFrame

__all__ = ["Frames", "Joins"]

P = ParamSpec("P")

# This checks for the feature, because the version may be that of a release candidate.
if "explain_name" not in inspect.signature(register_io_source).parameters:
    _message = f"tidegate.polars needs polars 2 or later, but this is {pl.__version__}; "
    _message += "run pip install --upgrade polars"
    raise ImportError(_message)


def _eager(function: Callable[Concatenate[Any, P], pa.Table]) -> Method[P, pl.DataFrame]:
    return Method(function)


def _lazy(function: Callable[Concatenate[Any, P], Any]) -> Method[P, pl.LazyFrame]:
    return Method(function)


@pl.api.register_dataframe_namespace("tidegate")
class Frames:
    """The methods of a data frame. The frame is the left input, or the only one.

    The methods have the same names and arguments as tidegate's functions, and return data frames.

    Example:
        >>> import polars as pl
        >>> import tidegate as tg
        >>> import tidegate.polars
        >>> trades = pl.DataFrame({"ts": [10, 20], "sym": ["A", "B"], "price": [1.0, 2.0]})
        >>> quotes = pl.DataFrame({"ts": [9, 18, 19], "sym": ["A", "B", "B"], "bid": [3, 4, 5]})
        >>> trades.tidegate.asof_join(quotes, on="ts", by="sym").select("sym", "bid").rows()
        [('A', 3), ('B', 5)]
        >>> bars = quotes.tidegate.aggregate(on="ts", size=10, aggs={"bid": tg.agg.max("bid")})
        >>> bars.rows()
        [(0, 10, 3), (10, 20, 5)]
    """

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame

    interval_join = _eager(tidegate.interval_join)
    asof_join = _eager(tidegate.asof_join)
    overlap_join = _eager(tidegate.overlap_join)
    window_join = _eager(tidegate.window_join)
    band_join = _eager(tidegate.band_join)
    aggregate = _eager(tidegate.aggregate)

    def _called(
        self, function: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any]
    ) -> pl.DataFrame:
        return pl.DataFrame(function(self._frame, *given, **named))


@pl.api.register_lazyframe_namespace("tidegate")
class Joins:
    """The methods of a lazy frame. The frame is the left input, or the only one.

    The methods have the same names and arguments as tidegate's functions, except for `columns` and
    `batch_rows`, which Polars controls. To choose columns, use `select` afterwards.

    Example:
        >>> import polars as pl
        >>> import tidegate.polars
        >>> trades = pl.LazyFrame({"ts": [10, 20], "sym": ["A", "B"], "price": [1.0, 2.0]})
        >>> quotes = pl.LazyFrame({"ts": [9, 18, 19], "sym": ["A", "B", "B"], "bid": [3, 4, 5]})
        >>> last = trades.tidegate.asof_join(quotes, on="ts", by="sym")
        >>> last.select("sym", "bid").collect().rows()
        [('A', 3), ('B', 5)]
        >>> pairs = trades.tidegate.interval_join(quotes, on="ts", by="sym", lower=-2, upper=0)
        >>> pairs.filter(pl.col("bid") > 3).collect()["bid"].to_list()
        [4, 5]
    """

    def __init__(self, left: pl.LazyFrame) -> None:
        self._left = left

    interval_join = _lazy(tidegate.interval_join_batches)
    asof_join = _lazy(tidegate.asof_join_batches)
    overlap_join = _lazy(tidegate.overlap_join_batches)
    window_join = _lazy(tidegate.window_join_batches)
    band_join = _lazy(tidegate.band_join_batches)
    aggregate = _lazy(tidegate.aggregate_batches)

    def _called(
        self, function: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any]
    ) -> pl.LazyFrame:
        name = function.__name__.removesuffix("_batches")
        if name == "aggregate":
            return self._aggregated(function, given, named)
        right = given[0] if given else named.pop("right", None)
        return self._join(name, function, right, named)

    def _aggregated(
        self, batches: Callable[..., Any], given: tuple[Any, ...], query: dict[str, Any]
    ) -> pl.LazyFrame:
        left = self._left
        empty = pl.DataFrame(schema=left.collect_schema())
        schema = pl.DataFrame(batches(empty, *given, **query)).schema

        def rows(
            wanted: list[str] | None,
            predicate: pl.Expr | None,
            most: int | None,
            _batch_rows: int | None,
        ) -> Iterator[pl.DataFrame]:
            columns = schema.names() if wanted is None else wanted
            yield from _limited(batches(left, *given, **query), columns, predicate, most)

        return register_io_source(rows, schema=schema, explain_name="TIDEGATE aggregate")

    def _join(
        self,
        name: str,
        batches: Callable[..., Any],
        right: Frame,
        query: dict[str, Any],
    ) -> pl.LazyFrame:
        left = self._left
        if "columns" in query or "batch_rows" in query:
            message = f"{name}: omit columns and batch_rows, and write .select(...) after the join"
            raise TypeError(message)
        if not isinstance(right, pl.LazyFrame | pl.DataFrame):
            message = f"right: expected a polars frame, got a {type(right).__name__}"
            raise TypeError(message)
        # Names, types and arguments are checked here, on frames without rows.
        sides = (left, right.lazy())
        empty = [pl.DataFrame(schema=side.collect_schema()) for side in sides]
        schema = pl.DataFrame(batches(*empty, **query)).schema

        def rows(
            wanted: list[str] | None,
            predicate: pl.Expr | None,
            most: int | None,
            _batch_rows: int | None,
        ) -> Iterator[pl.DataFrame]:
            columns = schema.names() if wanted is None else wanted
            # Aggregates of partners are always included, after the columns.
            read = [one for one in columns if one not in (query.get("aggs") or ())]
            made = batches(*sides, **query, columns=read)
            yield from _limited(made, columns, predicate, most)

        return register_io_source(rows, schema=schema, explain_name=f"TIDEGATE {name}")


def _limited(
    batches: Iterable[pa.RecordBatch],
    columns: list[str],
    predicate: pl.Expr | None,
    most: int | None,
) -> Iterator[pl.DataFrame]:
    """Yield frames until there are enough rows."""
    for batch in batches:
        frame = _frame(batch, columns)
        # Polars applies `most` before the filter.
        if most is not None:
            frame = frame.head(most)
            most -= frame.height
        yield frame if predicate is None else frame.filter(predicate)
        if most == 0:
            return


def _frame(batch: pa.RecordBatch, columns: list[str]) -> pl.DataFrame:
    """Return these columns of a batch, or a frame with only a row count if there are none."""
    if not columns:
        return pl.DataFrame(height=batch.num_rows)
    return pl.DataFrame(batch).select(columns)
