"""Joins and aggregations as methods of Polars frames, and as steps of lazy queries.

Importing this module adds the namespace `tidegate` to `polars.DataFrame` and `polars.LazyFrame`. In
a lazy query, each join becomes a step. Polars requests only the columns that later steps read, and
stops the join once it has enough rows. Rows are processed batch by batch. If a filter follows the
join, only a few rows are in memory at a time.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias

import polars as pl
from polars.io.plugins import register_io_source

import tidegate
from tidegate.deferred import Deferred
from tidegate.frames import Method

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = Deferred("pyarrow")

Right: TypeAlias = pl.LazyFrame | pl.DataFrame | tidegate.Index

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
    rolling = _eager(tidegate.rolling)
    features = _eager(tidegate.features)

    def _called(
        self, function: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any]
    ) -> pl.DataFrame:
        return pl.DataFrame(function(self._frame, *given, **named))


@pl.api.register_lazyframe_namespace("tidegate")
class Joins:
    """The methods of a lazy frame. The frame is the left input, or the only one.

    The right input is another frame, or an `Index`, which names its own columns. Each time the
    query is collected, the join uses the rows that the index contains at that time.

    The methods have the same names and arguments as tidegate's functions, except for `columns` and
    `batch_rows`, which Polars controls. To choose columns, use `select` afterwards.

    Example:
        >>> import polars as pl
        >>> import tidegate as tg
        >>> import tidegate.polars
        >>> trades = pl.LazyFrame({"ts": [10, 20], "sym": ["A", "B"], "price": [1.0, 2.0]})
        >>> quotes = pl.LazyFrame({"ts": [9, 18, 19], "sym": ["A", "B", "B"], "bid": [3, 4, 5]})
        >>> last = trades.tidegate.asof_join(quotes, on="ts", by="sym")
        >>> last.select("sym", "bid").collect().rows()
        [('A', 3), ('B', 5)]
        >>> pairs = trades.tidegate.interval_join(quotes, on="ts", by="sym", lower=-2, upper=0)
        >>> pairs.filter(pl.col("bid") > 3).collect()["bid"].to_list()
        [4, 5]
        >>> index = tidegate.Index(quotes, on="ts", by="sym")
        >>> trades.tidegate.asof_join(index, on="ts", by="sym").collect()["bid"].to_list()
        [3, 5]
        >>> sums = trades.tidegate.aggregate(on="ts", size=20, aggs={"sum": tg.agg.sum("price")})
        >>> sums.collect().rows()
        [(0, 20, 1.0), (20, 40, 2.0)]
    """

    def __init__(self, left: pl.LazyFrame) -> None:
        self._left = left

    interval_join = _lazy(tidegate.interval_join_batches)
    asof_join = _lazy(tidegate.asof_join_batches)
    overlap_join = _lazy(tidegate.overlap_join_batches)
    window_join = _lazy(tidegate.window_join_batches)
    band_join = _lazy(tidegate.band_join_batches)
    aggregate = _lazy(tidegate.aggregate_batches)
    rolling = _lazy(tidegate.rolling_batches)

    def _called(
        self, function: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any]
    ) -> pl.LazyFrame:
        name = function.__name__.removesuffix("_batches")
        if name == "aggregate":

            def aggregated(
                *frames: Right,
                columns: list[str] | None = None,  # noqa: ARG001 - all are computed
                progress: Any = False,  # noqa: ANN401 - any argument
            ) -> Any:  # noqa: ANN401 - a reader
                return function(*frames, *given, **named, progress=progress)

            return _step(name, aggregated, [self._left], named)
        if name == "rolling":

            def rolled(
                *frames: Right,
                columns: list[str] | None = None,
                progress: Any = False,  # noqa: ANN401 - any argument
            ) -> Any:  # noqa: ANN401 - a reader
                read = _without(columns, named["aggs"])
                return function(*frames, *given, **named, columns=read, progress=progress)

            return _step(name, rolled, [self._left], named)
        right, *others = given or (named.pop("right", None),)
        if not isinstance(right, pl.LazyFrame | pl.DataFrame | tidegate.Index):
            message = "right: expected a polars frame or a tidegate.Index, got a "
            message += type(right).__name__
            raise TypeError(message)

        def joined(
            *frames: Right,
            columns: list[str] | None = None,
            progress: Any = False,  # noqa: ANN401 - any argument
        ) -> Any:  # noqa: ANN401 - a reader
            read = _without(columns, named.get("aggs") or ())
            return function(*frames, *others, **named, columns=read, progress=progress)

        right = right.lazy() if isinstance(right, pl.DataFrame) else right
        return _step(name, joined, [self._left, right], named)


def _without(columns: list[str] | None, aggs: Collection[str]) -> list[str] | None:
    """Return the columns to request. Aggregates are always included after these columns."""
    return None if columns is None else [one for one in columns if one not in aggs]


def _step(
    name: str,
    batches: Callable[..., Any],
    inputs: list[pl.LazyFrame | tidegate.Index],
    query: dict[str, Any],
) -> pl.LazyFrame:
    """Return a call as a step of a query; `batches` receives the inputs and the columns to read."""
    if "columns" in query or "batch_rows" in query:
        message = f"{name}: omit columns and batch_rows, and write .select(...) after the call"
        raise TypeError(message)
    # A query that only reads the schema shows no progress.
    progress = query.pop("progress", False)
    # Names, types and arguments are checked here, on frames without rows.
    empty = [_without_rows(one) for one in inputs]
    schema = pl.DataFrame(batches(*empty)).schema

    def rows(
        wanted: list[str] | None,
        predicate: pl.Expr | None,
        most: int | None,
        _batch_rows: int | None,
    ) -> Iterator[pl.DataFrame]:
        columns = schema.names() if wanted is None else wanted
        for batch in batches(*inputs, columns=columns, progress=progress):
            frame = _frame(batch, columns)
            # Polars applies `most` before the filter.
            if most is not None:
                frame = frame.head(most)
                most -= frame.height
            yield frame if predicate is None else frame.filter(predicate)
            if most == 0:
                return

    return register_io_source(rows, schema=schema, explain_name=f"TIDEGATE {name}")


def _without_rows(side: pl.LazyFrame | tidegate.Index) -> pl.DataFrame | tidegate.Index:
    """Return an input with the same columns and no rows."""
    if isinstance(side, tidegate.Index):
        is_open = side._open_ends  # noqa: SLF001 - internal to the package
        empty = side.schema.empty_table()
        return tidegate.Index(empty, on=side.on, by=side.by, open_ends=is_open)
    return pl.DataFrame(schema=side.collect_schema())


def _frame(batch: pa.RecordBatch, columns: list[str]) -> pl.DataFrame:
    """Return these columns of a batch, or a frame with only a row count if there are none."""
    if not columns:
        return pl.DataFrame(height=batch.num_rows)
    return pl.DataFrame(batch).select(columns)
