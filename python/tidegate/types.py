"""The types of arguments."""

import queue
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from os import PathLike
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NamedTuple,
    NotRequired,
    Protocol,
    TypeAlias,
    TypedDict,
    runtime_checkable,
)

import numpy as np

from tidegate._tidegate import Index, Source
from tidegate.csv_files import CsvFiles
from tidegate.deferred import Deferred
from tidegate.expressions import Expr
from tidegate.windows import Rows

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = Deferred("pyarrow")

__all__ = [
    "AggregateStats",
    "Algorithm",
    "ArrowArrayExportable",
    "ArrowSource",
    "ArrowStreamExportable",
    "BatchWriter",
    "Bound",
    "Bytes",
    "Closed",
    "ClosedEnds",
    "ClosedWindow",
    "DatasetLike",
    "Distance",
    "Empty",
    "End",
    "Epoch",
    "EpochUnit",
    "FixedOffset",
    "GroupKeys",
    "How",
    "IntervalNames",
    "JoinStats",
    "KeyNames",
    "LazyFrameLike",
    "Length",
    "Names",
    "OperatorStats",
    "Parallelism",
    "ParquetFileLike",
    "Path",
    "Progress",
    "PythonRows",
    "Reports",
    "RollingStats",
    "ScannerLike",
    "SideValues",
    "Sides",
    "Sink",
    "SourceStats",
    "StartAndEnd",
    "StreamJoinStats",
    "Streams",
    "Table",
    "Time",
    "Value",
    "WaitingStats",
    "Weekday",
    "Window",
    "Within",
]


@runtime_checkable
class ArrowStreamExportable(Protocol):
    """An object that exports an Arrow C stream, such as a table, a reader or a data frame."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any: ...  # noqa: ANN401


@runtime_checkable
class ArrowArrayExportable(Protocol):
    """An object that exports an Arrow C array, such as a record batch."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[Any, Any]: ...


class DatasetLike(Protocol):
    """A pyarrow dataset. Protocols reject other values even where pyarrow has no type hints."""

    @property
    def schema(self) -> Any:  # noqa: ANN401 - pyarrow's schema
        """The columns."""

    def scanner(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as pyarrow
        """Scan some columns."""


class ScannerLike(Protocol):
    """A pyarrow scanner."""

    @property
    def projected_schema(self) -> Any:  # noqa: ANN401 - pyarrow's schema
        """The columns that are scanned."""

    def to_batches(self) -> Any:  # noqa: ANN401 - pyarrow's batches
        """Return the rows."""


class ParquetFileLike(Protocol):
    """A pyarrow Parquet file."""

    @property
    def schema_arrow(self) -> Any:  # noqa: ANN401 - pyarrow's schema
        """The columns."""

    def iter_batches(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as pyarrow
        """Return the rows of some columns."""


class LazyFrameLike(Protocol):
    """A polars lazy frame."""

    def collect_schema(self) -> Any:  # noqa: ANN401 - polars' schema
        """Return the columns."""

    def lazy(self) -> Any:  # noqa: ANN401 - a lazy frame
        """Return the frame itself."""


class OpenTableLike(Protocol):
    """A table that this package has opened."""

    @property
    def rows_read(self) -> int:
        """The number of rows read so far."""

    def read(self, columns: list[str]) -> Any:  # noqa: ANN401 - Arrow data
        """Return the rows of some columns."""

    def batches(self) -> Any:  # noqa: ANN401 - Arrow data
        """Return the rows, batch by batch."""


class FixedOffset(Protocol):
    """A pandas date offset with a fixed length, such as `pandas.offsets.Second(5)`."""

    @property
    def nanos(self) -> int:
        """The length in nanoseconds."""


class BatchWriter(Protocol):
    """A writer of record batches, for example to a Parquet, Arrow or CSV file."""

    def write_batch(self, batch: "pa.RecordBatch", /) -> object:
        """Write another batch."""


ArrowSource: TypeAlias = ArrowStreamExportable | ArrowArrayExportable
"""Any object that exports Arrow data."""

PythonRows: TypeAlias = (
    Sequence[Mapping[str, Any]] | Sequence[tuple[Any, ...]] | Mapping[str, Sequence[Any]]
)
"""Rows as Python objects: a list of dicts or tuples, or a dict with a list for each column."""

Path: TypeAlias = str | PathLike[str]
"""A file, a folder, a pattern such as `trades/*.parquet`, or a URL such as `s3://bucket/day/`."""

Table: TypeAlias = (
    ArrowSource
    | Path
    | Sequence[Path]
    | DatasetLike
    | ScannerLike
    | ParquetFileLike
    | LazyFrameLike
    | np.ndarray[Any, np.dtype[np.void]]
    | Mapping[str, Any]
    | CsvFiles
    | OpenTableLike
    | Index
)
"""A table: Arrow data, paths, `tidegate.csv`, a dataset, a lazy frame, records, a dict, or an
index."""

Streams: TypeAlias = Table | Sequence[Table]
"""One or more streams of rows, numbered from 0."""

Sink: TypeAlias = (
    Callable[["pa.RecordBatch"], object]
    | queue.Queue["pa.RecordBatch | None"]
    | BatchWriter
    | Source
)
"""A receiver of batches: a function, a queue, a writer, or another operator's source."""

Length: TypeAlias = timedelta | np.timedelta64 | FixedOffset | str | int
"""A duration, or an integer if times are integers.

For aggregation windows, a string may also be in calendar units, as in "1mo"."""

Empty: TypeAlias = Literal["skip", "null", "zero", "last", "linear"]
"""What an aggregation returns for windows without rows."""

EpochUnit: TypeAlias = Literal["s", "ms", "us", "ns"]
"""The unit of numbers that count the time since 1970."""


class Progress(NamedTuple):
    """How far a call has progressed."""

    done: int
    """The approximate number of left rows of a join, or of input rows, that have been processed."""

    total: int | None
    """The total number of these rows, or None if it is not known yet."""

    rows: int
    """The number of result rows so far."""


Reports: TypeAlias = bool | Callable[[Progress], object]
"""Whether to show a progress bar, or the function to call with a call's progress."""

Epoch: TypeAlias = EpochUnit | tuple[EpochUnit, datetime | np.datetime64]
"""The unit of numeric times, counted from 1970, or a pair of this unit and another start."""

Weekday: TypeAlias = Literal[
    "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"
]
"""A day of the week."""

Time: TypeAlias = int | datetime | date | np.datetime64 | str
"""A time: a date, a datetime, an ISO 8601 string, or an integer in the unit of the column."""

Window: TypeAlias = Length | Rows
"""The length of a window: a duration or a row count."""

Names: TypeAlias = str | tuple[str, str]
"""A column name used on both sides, or one name each for the left and right sides."""

Value: TypeAlias = str | Expr
"""A column, or an expression over the columns of a row, which may be SQL text."""

Sides: TypeAlias = Value | tuple[Value, Value]
"""A column or an expression for both sides, or one each for the left and right sides."""

SideValues: TypeAlias = Value | Sequence[Sides] | Mapping[str, Value] | Mapping[Expr, Value]
"""Columns or expressions: one, a sequence of them or of pairs, or a mapping from left to right."""

GroupKeys: TypeAlias = Value | Sequence[Value] | Mapping[str, Value]
"""Keys: a column or an expression, a sequence of them, or a mapping from result columns to them."""

StartAndEnd: TypeAlias = tuple[str | Expr, str | Expr]
"""The columns, or expressions, with the start and the end of a side's rows."""

IntervalNames: TypeAlias = StartAndEnd | tuple[StartAndEnd, StartAndEnd]
"""The start and end columns of both sides, or one pair of names per side."""

KeyNames: TypeAlias = str | Sequence[Names] | Mapping[str, str]
"""Key columns: a name, a sequence of names or pairs, or a mapping from left to right names."""

Bound: TypeAlias = timedelta | np.timedelta64 | FixedOffset | str | int | None
"""An end of an interval: a duration, an integer if times are integers, or None for no bound."""

Bytes: TypeAlias = int | str
"""A number of bytes, or a string such as "2GB" or "512MiB"."""

End: TypeAlias = Bound | Expr
"""An end of an interval join: a constant for all rows, or an expression over one side's columns.

A string is a duration, or the SQL text of an expression."""

How: TypeAlias = Literal["inner", "left", "right", "full", "semi", "anti"]
"""The rows that a join returns, as in SQL."""

AsofHow: TypeAlias = Literal["left", "inner", "semi", "anti"]
"""The rows that an as-of join returns."""

Strategy: TypeAlias = Literal["backward", "forward", "nearest", "interpolate"]
"""The direction in which an as-of join searches for a match in time, or interpolation."""

StreamStrategy: TypeAlias = Literal["backward", "forward", "nearest"]
"""The direction in which an as-of join of streams searches for a match in time."""

PairOrder: TypeAlias = Literal["first", "last", "nearest"]
"""The pairs that an interval join with a limit keeps."""

Closed: TypeAlias = Literal["both", "left", "right", "neither"]
"""The ends that an interval includes."""

ClosedWindow: TypeAlias = Literal["left", "right"]
"""The end that a window includes."""

ClosedEnds: TypeAlias = Literal["both", "left"]
"""The ends that are included in the intervals of rows with a start and an end."""

Algorithm: TypeAlias = Literal["auto", "slices", "mq", "mq-lf", "tumlsc", "tumlmc", "wiml"]
"""The algorithm that an aggregation uses to assign rows to windows."""

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
"""The algorithm that a window join uses to compare rows."""

Distance: TypeAlias = float | Decimal | np.floating[Any] | np.integer[Any] | Length
"""The maximum distance between values: a number or a duration."""

Within: TypeAlias = Distance | tuple[Distance | None, Distance | None]
"""One distance for both directions, or separate ones below and above; None means no bound."""

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
"""The algorithm that a band join uses to find pairs."""

Parallelism: TypeAlias = Literal["auto", "key", "data", "hybrid", "scale-oij"]
"""The method that a streaming join uses to assign keys to threads."""


class OwnInterval(TypedDict, total=False):
    """The interval of one function in `interval_join`: see `tidegate.agg`."""

    lower: Length | None
    upper: Length | None
    closed: Closed
    prevailing: bool


class JoinStats(TypedDict):
    """The progress of a join of tables: see `BatchReader.stats`."""

    left_rows: int
    right_rows: int
    rows: int
    left_rows_done: int
    threads: int
    keys: str
    where: str


class SourceStats(TypedDict):
    """The state of one of an operator's sources."""

    name: str
    rows_in: int
    rows_used: int
    rows_late: int
    watermark: int | None
    closed: bool
    idle: bool
    abandoned: str | None
    memory: int


class WaitingStats(TypedDict):
    """The source that an operator waits for."""

    source: str
    seconds: float
    rows: int


class OperatorStats(TypedDict):
    """The state of an operator: see `Operator.stats`."""

    rows_in: int
    rows_used: int
    rows_late: int
    rows_out: int
    watermark: int | None
    latency: tuple[float, float, float] | None
    memory: int
    memory_limit: int | None
    waiting: WaitingStats | None
    sources: list[SourceStats]


class AggregateStats(OperatorStats):
    """The state of an aggregation."""

    state_keys: NotRequired[int]
    state_cells: NotRequired[int]
    state_rows: NotRequired[int]
    state_bytes: int


class RollingStats(OperatorStats):
    """The state of an operator for rolling windows."""

    state_rows: int
    state_bytes: int


class StreamJoinStats(OperatorStats):
    """The state of a streaming join."""

    state_rows: int
    state_bytes: int
    comparisons: NotRequired[list[int]]
    split_keys: NotRequired[int]
    index: NotRequired[str]
    merges: NotRequired[int]
