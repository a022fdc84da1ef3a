"""Types of arguments."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    import queue

    import polars as pl
    import pyarrow as pa
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    from tidegate._tidegate import Source
    from tidegate.expressions import Expr
    from tidegate.io.open_tables import OpenTable
    from tidegate.windows import Rows

__all__ = [
    "Algorithm",
    "ArrowArrayExportable",
    "ArrowSource",
    "ArrowStreamExportable",
    "BatchWriter",
    "Bound",
    "Bytes",
    "Closed",
    "ClosedEnds",
    "Distance",
    "End",
    "How",
    "IntervalNames",
    "KeyNames",
    "Length",
    "Names",
    "Parallelism",
    "Path",
    "Sink",
    "Streams",
    "Table",
    "Window",
    "Within",
]


@runtime_checkable
class ArrowStreamExportable(Protocol):
    """An object that hands out an Arrow C stream: a table, a reader, a data frame."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any: ...  # noqa: ANN401


@runtime_checkable
class ArrowArrayExportable(Protocol):
    """An object that hands out an Arrow C array: a record batch."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[Any, Any]: ...


class BatchWriter(Protocol):
    """A writer of record batches: of Parquet, of an Arrow file or stream, of CSV."""

    def write_batch(self, batch: "pa.RecordBatch", /) -> object:
        """Write a batch behind the others."""


ArrowSource: TypeAlias = ArrowStreamExportable | ArrowArrayExportable
"""Anything that hands out Arrow data."""

Path: TypeAlias = str | PathLike[str]
"""A file, a folder, a pattern such as `trades/*.parquet`, or a URL such as `s3://bucket/day/`."""

Table: TypeAlias = (
    "ArrowSource | Path | Sequence[Path] | ds.Dataset | ds.Scanner | pq.ParquetFile | pl.LazyFrame"
    " | np.ndarray[Any, np.dtype[np.void]] | Mapping[str, Any] | OpenTable"
)
"""A table: Arrow data, files by their paths, a dataset, a lazy frame, records, a dict of arrays."""

Streams: TypeAlias = "Table | Sequence[Table]"
"""One stream of rows, or several, numbered from 0."""

Sink: TypeAlias = (
    "Callable[[pa.RecordBatch], object] | queue.Queue[pa.RecordBatch | None] | BatchWriter | Source"
)
"""A taker of batches: a function, a queue, a writer, or a source of another operator."""

Length: TypeAlias = timedelta | np.timedelta64 | str | int
"""A duration, or an integer where times are integers."""

Window: TypeAlias = "Length | Rows"
"""How long rows stay in a window: a length of time, or until a number of rows has come."""

Names: TypeAlias = str | tuple[str, str]
"""A column's name on both sides, or its names on the left and the right."""

IntervalNames: TypeAlias = tuple[str, str] | tuple[tuple[str, str], tuple[str, str]]
"""The start and the end column of both sides, or a pair of names for each side."""

KeyNames: TypeAlias = str | Sequence[Names] | Mapping[str, str]
"""Key columns: a name, a sequence of names or pairs, or a mapping from left to right names."""

Bound: TypeAlias = timedelta | np.timedelta64 | str | int | None
"""An end of an interval: a duration, an integer of integer times, or None for no bound."""

Bytes: TypeAlias = int | str
"""A number of bytes, or a text such as "2GB" or "512MiB"."""

End: TypeAlias = "Bound | Expr"
"""An end of an interval join: the same for all rows, or an expression over the columns of one side.

A string is a duration, or the SQL text of an expression."""

How: TypeAlias = Literal["inner", "left", "right", "full", "semi", "anti"]
"""Which rows a join returns, as in SQL."""

AsofHow: TypeAlias = Literal["left", "inner", "semi", "anti"]
"""Which rows an as-of join returns."""

Strategy: TypeAlias = Literal["backward", "forward", "nearest"]
"""On which side in time an as-of join looks for a partner."""

Closed: TypeAlias = Literal["both", "left", "right", "neither"]
"""Which ends of an interval belong to it."""

ClosedEnds: TypeAlias = Literal["both", "left"]
"""Whether the ends of rows that have a start and an end belong to them."""

Algorithm: TypeAlias = Literal["auto", "slices", "mq", "mq-lf", "tumlsc", "tumlmc", "wiml"]
"""How an aggregation brings rows into windows."""

WindowAlgorithm: TypeAlias = Literal[
    "auto",
    "scalejoin",
    "scalejoin-gates",
    "splitjoin",
    "cell",
    "three-step",
    "handshake",
    "low-latency-handshake",
]
"""How the rows in each other's sliding windows are compared."""

Distance: TypeAlias = float | Decimal | np.floating[Any] | np.integer[Any] | Length
"""How far values may be apart: a number, or a duration."""

Within: TypeAlias = Distance | tuple[Distance | None, Distance | None]
"""A distance to both sides, or one below and one above, of which one may be None for no bound."""

BandAlgorithm: TypeAlias = Literal[
    "auto",
    "sort",
    "buckets",
    "pim-tree",
    "im-tree",
    "bplus-tree",
    "b-chain",
    "ib-chain",
    "round-robin",
    "ibwj",
    "ibwj-blocking",
    "ibwj-bplus-tree",
]
"""How a band join finds its pairs."""

Parallelism: TypeAlias = Literal["auto", "key", "data", "hybrid", "scale-oij"]
"""Which threads of a streaming join have the rows of a key."""
