"""Joins and aggregations as steps of lazy Polars queries.

Importing this module adds the namespace `tidegate` to `polars.LazyFrame`. Each call then becomes a
step in the query. Polars requests only the columns that later steps read, and stops the step once
it has enough rows. Rows are processed batch by batch. If a filter follows the join, only a few rows
are in memory at a time.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl
from polars.io.plugins import register_io_source

import tidegate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    Frame: TypeAlias = pl.LazyFrame | pl.DataFrame
    Right: TypeAlias = pl.LazyFrame | pl.DataFrame | tidegate.Index

__all__ = ["Joins"]

# This checks for the feature, because the version may be that of a release candidate.
if "explain_name" not in inspect.signature(register_io_source).parameters:
    _message = f"tidegate.polars needs polars 2 or later, but this is {pl.__version__}; "
    _message += "run pip install --upgrade polars"
    raise ImportError(_message)


@pl.api.register_lazyframe_namespace("tidegate")
class Joins:
    """The join and aggregation methods of a lazy frame. The frame is the first input.

    The right input is another frame, or an `Index`, which names its own columns. Each time the
    query is collected, the join uses the rows that the index contains at that time.

    The methods have the same names and arguments as tidegate's functions, except for `columns` and
    `batch_rows`, which Polars controls. To choose columns, use `select` after the step.

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

    def interval_join(self, right: Right, **query: Any) -> pl.LazyFrame:  # noqa: ANN401 - as in tidegate
        """Join rows whose times lie within an interval: `tidegate.interval_join`."""
        return self._join("interval_join", tidegate.interval_join_batches, right, query)

    def asof_join(self, right: Right, **query: Any) -> pl.LazyFrame:  # noqa: ANN401 - as in tidegate
        """Join each row with the row that is nearest in time: `tidegate.asof_join`."""
        return self._join("asof_join", tidegate.asof_join_batches, right, query)

    def overlap_join(self, right: Right, **query: Any) -> pl.LazyFrame:  # noqa: ANN401 - as in tidegate
        """Join rows whose intervals overlap: `tidegate.overlap_join`."""
        return self._join("overlap_join", tidegate.overlap_join_batches, right, query)

    def window_join(self, right: Right, **query: Any) -> pl.LazyFrame:  # noqa: ANN401 - as in tidegate
        """Join rows within sliding windows: `tidegate.window_join`."""
        return self._join("window_join", tidegate.window_join_batches, right, query)

    def band_join(self, right: Right, **query: Any) -> pl.LazyFrame:  # noqa: ANN401 - as in tidegate
        """Join rows whose values are close: `tidegate.band_join`."""
        return self._join("band_join", tidegate.band_join_batches, right, query)

    def aggregate(self, *others: Frame, **query: Any) -> pl.LazyFrame:  # noqa: ANN401 - as in tidegate
        """Aggregate this frame and any others by window and key: `tidegate.aggregate`."""
        for at, other in enumerate(others, 1):
            _check_frame(f"streams[{at}]", other)
        streams = [self._left, *(other.lazy() for other in others)]

        def batches(*frames: Frame, columns: list[str] | None = None) -> Any:  # noqa: ANN401, ARG001 - all are computed
            return tidegate.aggregate_batches(list(frames), **query)

        return _step("aggregate", batches, streams, query)

    def _join(
        self,
        name: str,
        batches: Callable[..., Any],
        right: Right,
        query: dict[str, Any],
    ) -> pl.LazyFrame:
        if not isinstance(right, tidegate.Index):
            _check_frame("right", right)
            right = right.lazy()

        def joined(*frames: Right, columns: list[str] | None = None) -> Any:  # noqa: ANN401 - a reader
            # Aggregates of partners are always included, after the columns.
            aggs = query.get("aggs") or ()
            read = None if columns is None else [one for one in columns if one not in aggs]
            return batches(*frames, **query, columns=read)

        return _step(name, joined, [self._left, right], query)


def _check_frame(name: str, given: object) -> None:
    if not isinstance(given, pl.LazyFrame | pl.DataFrame):
        index = " or a tidegate.Index" if name == "right" else ""
        message = f"{name}: expected a polars frame{index}, got a {type(given).__name__}"
        raise TypeError(message)


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
        for batch in batches(*inputs, columns=columns):
            frame = _frame(batch, columns)
            # Polars applies `most` before the filter.
            if most is not None:
                frame = frame.head(most)
                most -= frame.height
            yield frame if predicate is None else frame.filter(predicate)
            if most == 0:
                return

    return register_io_source(rows, schema=schema, explain_name=f"TIDEGATE {name}")


def _without_rows(side: Right) -> pl.DataFrame | tidegate.Index:
    """Return an input with the same columns and no rows."""
    if isinstance(side, tidegate.Index):
        return tidegate.Index(side.schema.empty_table(), on=side.on, by=side.by)
    return pl.DataFrame(schema=side.collect_schema())


def _frame(batch: pa.RecordBatch, columns: list[str]) -> pl.DataFrame:
    """Return these columns of a batch, or a frame with only a row count if there are none."""
    if not columns:
        return pl.DataFrame(height=batch.num_rows)
    return pl.DataFrame(batch).select(columns)
