"""The native part of tidegate, written in Rust.

Long because its docstrings serve as the manual of the native classes.

Import names from `tidegate`, not from this module. Examples use `tg` for `tidegate`, `pa` for
`pyarrow`, and these tables:

    >>> import pyarrow as pa
    >>> import tidegate as tg
    >>> trades = pa.table({"ts": [10, 20, 30], "sym": ["A", "B", "A"], "price": [1.0, 2.0, 3.0]})
    >>> quotes = pa.table({"ts": [8, 10, 29, 31], "sym": ["A", "A", "A", "C"], "bid": [9, 8, 7, 6]})
"""

# ruff: noqa: PYI021 - the stub is the manual: docstrings of native functions are written here.

import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from datetime import date, datetime
from types import GenericAlias, TracebackType
from typing import (
    Any,
    Final,
    Generic,
    Literal,
    Self,
    TypeAlias,
    final,
)

import numpy as np
import pyarrow as pa
from typing_extensions import TypeVar, disjoint_base

import tidegate
from tidegate import agg
from tidegate.expressions import Expr
from tidegate.runtime.running import Running
from tidegate.types import (
    AggregateStats,
    Algorithm,
    ArrowSource,
    AsofHow,
    BandAlgorithm,
    Bound,
    Bytes,
    Closed,
    ClosedEnds,
    ClosedWindow,
    Empty,
    End,
    EpochUnit,
    GroupKeys,
    How,
    IntervalNames,
    JoinStats,
    KeyNames,
    Length,
    Names,
    OperatorStats,
    PairOrder,
    Parallelism,
    PythonRows,
    RollingStats,
    Sides,
    SideValues,
    Sink,
    Strategy,
    StreamJoinStats,
    Streams,
    StreamStrategy,
    Table,
    Time,
    Value,
    Weekday,
    Window,
    WindowAlgorithm,
    Within,
)

__all__ = [
    "BUILD_PROFILE",
    "SIMD",
    "Aggregate",
    "AggregationPlan",
    "AggregationQuery",
    "AsofJoin",
    "BandJoin",
    "BatchReader",
    "ClosedError",
    "Digest",
    "InputRows",
    "IntervalJoin",
    "JoinPlan",
    "JoinQuery",
    "MemoryLimitError",
    "Merge",
    "MergeReader",
    "Operator",
    "OrderError",
    "Rolling",
    "RollingQuery",
    "SchemaError",
    "Source",
    "StateError",
    "StreamJoin",
    "TidegateError",
    "WindowJoin",
    "__version__",
    "aggregation_query",
    "asof_join_query",
    "band_join_query",
    "byte_count",
    "default_threads",
    "digest",
    "instants_of",
    "interval_join_query",
    "is_arrow",
    "join_query",
    "merge",
    "merge_batches",
    "overlap_join_query",
    "reader_of",
    "release_memory",
    "rolling_query",
    "window_join_query",
]

_Reach: TypeAlias = tuple[tuple[str, str], tuple[float | None, float | None]]
"""A left column, a right column, and the smallest and largest possible difference between their
values in a pair."""

__version__: Final[str]
"""The version of the package."""

BUILD_PROFILE: Final[Literal["debug", "release"]]
"""The build profile of the native part. Measure times only with `release`."""

SIMD: Final[Literal["portable", "neon", "avx2", "avx512"]]
"""The SIMD instructions that the native loops use. The environment variable `TIDEGATE_SIMD` selects
them."""

class TidegateError(ValueError):
    """The base class of all errors that tidegate raises for invalid calls or data.

    The message names the column or argument, shows the given and expected values, and says what to
    do.

    Example:
        >>> tg.interval_join(trades, quotes, on="ts", lower=2, upper=1)
        Traceback (most recent call last):
        tidegate.TidegateError: lower must not be greater than upper, but lower is 2 ...
    """

class SchemaError(TidegateError):
    """A column is missing or duplicated, or has an unsuitable type.

    Example:
        >>> tg.interval_join(trades, quotes, on="time", lower=0, upper=1)
        Traceback (most recent call last):
        tidegate.SchemaError: left: there is no column `time`, which `on` names; it has `ts`, ...
    """

class OrderError(TidegateError):
    """Rows violate a promised order.

    Example:
        >>> tg.merge([trades, trades.take([2, 1])])
        Traceback (most recent call last):
        tidegate.OrderError: streams[1]: row 1 of `ts` is 20, after a row that promised nothing ...
    """

class MemoryLimitError(TidegateError):
    """A limit on rows or memory was reached, or the system is out of memory.

    If the system refuses an allocation (for example because of `ulimit -v`), this error is raised,
    and nothing is allocated. On Linux, the error is also raised for an allocation of 64 MiB or more
    that exceeds the memory available on the machine or in the container. Simultaneous allocations
    by other processes are not taken into account, so the system may still kill a process.

    Example:
        >>> tg.interval_join(trades, quotes, on="ts", lower=None, upper=None, max_rows=10)
        Traceback (most recent call last):
        tidegate.MemoryLimitError: the result has ... rows, more than max_rows = 10; raise it, ...
    """

class StateError(TidegateError):
    """A snapshot cannot be restored."""

class ClosedError(TidegateError):
    """A handle was used after it was closed.

    Example:
        >>> reader = tg.interval_join_batches(trades, quotes, on="ts", lower=0, upper=1)
        >>> reader.close()
        >>> next(reader)
        Traceback (most recent call last):
        tidegate.ClosedError: the reader is closed
    """

_StatsT_co = TypeVar("_StatsT_co", covariant=True, default=Any)

@final
class BatchReader(Generic[_StatsT_co]):
    """Read the record batches of a result, in order.

    A result that is larger than memory can be written batch by batch. A reader is an Arrow stream,
    a context manager, and an iterator that can be used only once. Several threads may read from the
    same reader, but each batch is returned to only one thread. A process that was created by
    `fork()` cannot use its parent's readers.

    If the reader comes from `interval_join_batches`, all worker threads produce batches. The
    threads pause while they are a few batches ahead of the consumer. The reader holds both inputs
    until it is closed or garbage-collected. The reader also needs 12 bytes per left row and 8 bytes
    per right row, or up to 60 bytes per row if rows are out of time order.

    A reader returned by `merge_batches` merges rows only when a batch is requested. Such a reader
    holds the rows that have been read from its streams but not yet merged. Streams that may block,
    such as those of generators, are read on a separate thread. A stream may call `stats()` and
    `close()` on the merge that is reading it. If the stream requests a batch from this merge, a
    `TidegateError` is raised, because the batch would depend on itself.

    Example:
        >>> with tg.interval_join_batches(trades, quotes, on="ts", lower=-2, upper=0) as reader:
        ...     [batch.num_rows for batch in reader]
        [3]
    """

    @property
    def schema(self) -> pa.Schema:
        """The schema of all batches, as a `pyarrow.Schema`.

        The schema is available before the first batch.

        Example:
            >>> tg.interval_join_batches(
            ...     trades, quotes, on="ts", by="sym", lower=-2, upper=0
            ... ).schema.names
            ['ts', 'sym', 'price', 'ts_right', 'bid']
        """

    def stats(self) -> _StatsT_co:
        """Return statistics about the work so far.

        Returns:
            A dict. For a join, its entries are:

            - `left_rows` and `right_rows`: the number of rows in the inputs;
            - `rows`: the number of result rows returned so far;
            - `left_rows_done`: the approximate number of left rows that have been joined; all of
              them once the end has been read;
            - `threads`: the number of threads;
            - `keys`: how keys were compared;
            - `where`: how the pairs that satisfy the condition were found. The value is "looked up
              by value", "every pair compared" or "evaluated on every pair", or "none" if there is
              no condition or the algorithm tests the condition in another way.

            For a merge, its entries are:

            - `rows_in`: the number of rows read, which is `rows_used` plus `rows_late`;
            - `rows_out`: the number of rows returned;
            - `watermark`: the time before which no further row can arrive, in the unit of the time
              column; None until every stream has delivered a row, and after all have ended;
            - `latency`: the seconds between a row's arrival and its merge, as median, 99th
              percentile and maximum; None before the first row;
            - `memory`: the number of bytes held for rows, and `memory_limit`, which is None;
            - `sources`: one dict per stream, with the entries `name`, `rows_in`, `rows_used`,
              `rows_late`, `watermark`, `closed`, `abandoned` (always None) and `memory`, the number
              of bytes held for the stream's rows.

        Raises:
            ClosedError: The reader was created before this process was forked.

        Example:
            >>> reader = tg.interval_join_batches(
            ...     trades, quotes, on="ts", by="sym", lower=-2, upper=0
            ... )
            >>> next(reader).num_rows, reader.stats()["rows"], reader.stats()["keys"]
            (3, 3, 'hashed byte strings')
            >>> tg.merge_batches([trades, trades]).stats()["rows_out"]
            0
        """

    def close(self) -> None:
        """Stop the work and drop the batches that have been produced but not read.

        A second call has no effect. The reader is also closed at the end of a `with` block.

        Raises:
            ClosedError: The reader was created before this process was forked.

        Example:
            >>> tg.interval_join_batches(trades, quotes, on="ts", lower=0, upper=0).close()
        """

    def __iter__(self) -> Self: ...
    def __next__(self) -> pa.RecordBatch: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        _type: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any: ...  # noqa: ANN401 - a capsule has no type
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...  # noqa: ANN401 - a type

@final
class Source:
    """Feed rows into an operator.

    Sources are created by an operator and returned by `Operator.sources`. Each source receives the
    rows from one stream, such as a file, a connection or a partition. A thread may push into a
    source while other threads push into other sources or poll the operator. A `Source` object is
    only a handle: dropping it has no effect, and the source stays open until `close` is called.
    When a source is used as a context manager, it is closed at the end of the block, or abandoned
    if the block raises an exception.

    The *watermark* of a source is a promise that no subsequent row has an earlier time. The
    watermark is the latest time so far minus the operator's `lateness`, or the time passed to
    `advance` if that is later. A row before the watermark is late: it is set aside for
    `Operator.late`, and does not appear in any result. Whether a row is late depends only on the
    rows from the same source.

    Example:
        >>> merge = tg.Merge(trades.schema, sources=2)
        >>> with merge.sources[0] as source:
        ...     source.push(trades)
        >>> [source["closed"] for source in merge.stats()["sources"]]
        [True, False]
    """

    @property
    def number(self) -> int:
        """The number of the source.

        Among rows with equal times, rows from lower-numbered sources come first.

        Example:
            >>> [source.number for source in tg.Merge(trades.schema, sources=3).sources]
            [0, 1, 2]
        """

    def push(
        self,
        data: ArrowSource | PythonRows,
        *,
        extra: Literal["error", "ignore"] = "error",
        unit: EpochUnit | None = None,
        block: bool | None = None,
    ) -> None:
        """Add rows.

        Either all rows are accepted, or the call fails and no rows are accepted. If the data types
        match the schema, only rows that are out of time order are copied.

        Example:
            >>> merge = tg.Merge(trades.schema, lateness=10)
            >>> merge.sources[0].push(trades.take([1, 0, 2]))
            >>> merge.sources[0].push(trades[:1])  # 30 was pushed before, so 10 is late
            >>> merge.poll()["ts"].to_pylist(), merge.late()["ts"].to_pylist()
            ([10, 20], [10])

            Rows as Python dicts, with a column that the operator does not have:

            >>> merge = tg.Merge(trades.schema)
            >>> row = {"ts": 10, "sym": "A", "price": 1, "venue": "X"}
            >>> merge.sources[0].push([row, {**row, "ts": 20}], extra="ignore")
            >>> merge.sources[0].close()
            >>> merge.poll().to_pylist()[0]
            {'ts': 10, 'sym': 'A', 'price': 1.0}

        Args:
            data: Rows that have the columns of the operator's schema, in any order: Arrow data, a
                pandas or polars DataFrame, a list of dicts or tuples, or a dict with a list for
                each column. The values in tuples are in schema order. Types may differ from the
                schema if every value can be converted exactly. Strings may have a different layout,
                integers may have a different width, times may have a different unit, and floats may
                be passed as integers. Times may be ISO 8601 strings, with a UTC offset if, and only
                if, the column has a time zone. A Python float is rounded if the column has a lower
                precision.
            extra: How to treat columns that are not in the schema. `error`: an error is raised.
                `ignore`: the columns are ignored.
            unit: The unit of numbers in timestamp columns, which count from 1970 in UTC. A float is
                interpreted as the shortest decimal that represents it. It must be a whole number of
                the column's units. Arrow data has its own units, so it does not accept `unit`.
            block: Whether to wait if `memory_limit` leaves no room for the rows now but may leave
                room later. If False, the call raises an error instead. If None, the call waits only
                while a thread is running the operator (`Operator.running`). Late rows occupy memory
                until they are fetched. The call raises an error if all other sources are waiting
                for this one, and polls cannot make any more room. The call also raises an error if
                the thread that ran the operator has failed. A push from that thread itself, for
                example in a sink, never waits, because the thread would wait for itself.

        Raises:
            SchemaError: A column is missing or not in the schema, or the kind of its type differs.
            MemoryLimitError: The rows would exceed `memory_limit`. The push can be repeated once
                there is room. If polls cannot make room, the message says which limit to set.
            ClosedError: The source or its operator is closed, or was created before this process
                was forked.
            TidegateError: A time is null, the Arrow data is malformed, or a value does not match
                its column's type.
            TypeError: The argument is neither Arrow data nor rows.
        """

    def push_json(
        self,
        text: bytes | bytearray | memoryview | str,
        *,
        extra: Literal["error", "ignore"] = "error",
        unit: EpochUnit | None = None,
        block: bool | None = None,
    ) -> None:
        """Add rows from JSON text, such as a message from a broker.

        Either all rows are accepted, or the call fails and no rows are accepted.

        Example:
            >>> schema = pa.schema([("ts", pa.timestamp("s", "UTC")), ("kw", pa.float64())])
            >>> merge = tg.Merge(schema)
            >>> merge.sources[0].push_json(
            ...     b'[{"ts": "2026-03-02T09:00:00Z", "kw": 1.5},'
            ...     b' {"ts": "2026-03-02T10:00:00+01:00", "kw": 2}]'
            ... )
            >>> merge.sources[0].close()
            >>> merge.poll()["kw"].to_pylist()
            [1.5, 2.0]

        Args:
            text: JSON objects, one per line, or a JSON array of objects, in UTF-8. Each object has
                a value for each column. Times are ISO 8601 strings, with a UTC offset if, and only
                if, the column has a time zone, or numbers if `unit` is given.
            extra: How to treat columns that are not in the schema. `error`: an error is raised.
                `ignore`: the columns are ignored.
            unit: The unit of numbers in timestamp columns, which count from 1970 in UTC. A float is
                interpreted as the shortest decimal that represents it. It must be a whole number of
                the column's units. Arrow data has its own units, so it does not accept `unit`.
            block: Whether to wait if `memory_limit` leaves no room for the rows now but may leave
                room later. If False, the call raises an error instead. If None, the call waits only
                while a thread is running the operator (`Operator.running`). Late rows occupy memory
                until they are fetched. The call raises an error if all other sources are waiting
                for this one, and polls cannot make any more room. The call also raises an error if
                the thread that ran the operator has failed. A push from that thread itself, for
                example in a sink, never waits, because the thread would wait for itself.

        Raises:
            SchemaError: A column is missing or not in the schema.
            TidegateError: The text is not JSON, or a value does not match its column's type. The
                message names the line or the row.
            TypeError: A value is not an object, or the argument is not text.
            MemoryLimitError: The rows would exceed `memory_limit`.
            ClosedError: The source or its operator is closed, or was created before this process
                was forked.
        """

    def advance(self, ts: int | date | datetime | np.datetime64 | pa.Scalar) -> None:
        """Promise that no subsequent row has a time before `ts`.

        A source without new rows holds back the rows from all other sources, because it may still
        deliver earlier rows. A call to `advance` promises that no such rows will follow. A time
        before the watermark has no effect.

        Example:
            >>> merge = tg.Merge(trades.schema, sources=2)
            >>> merge.sources[0].push(trades)
            >>> merge.poll() is None
            True
            >>> merge.sources[1].advance(20)
            >>> merge.poll()["ts"].to_pylist()
            [10, 20]

        Args:
            ts: An integer in the unit of the time column. For a timestamp column, `ts` may also be
                a `numpy.datetime64` or a datetime. A datetime must have a time zone if, and only
                if, the column has one. For a date column, `ts` may also be a date.

        Raises:
            TidegateError: The time has a different type than the column, or is not a whole number
                of the column's units.
            ClosedError: The source or its operator is closed, or was created before this process
                was forked.
            TypeError: The argument is not a time.
        """

    def push_async(
        self,
        data: ArrowSource | PythonRows,
        *,
        extra: Literal["error", "ignore"] = "error",
        unit: EpochUnit | None = None,
    ) -> Coroutine[Any, Any, None]:
        """Add rows in asyncio code, waiting while `memory_limit` leaves no room for them.

        The event loop keeps running during the wait. If the task is cancelled while it waits, no
        rows are pushed.

        Example:
            >>> import asyncio
            >>> merge = tg.Merge(trades.schema, memory_limit=400)
            >>> async def feed() -> None:
            ...     with merge.sources[0] as source:
            ...         for row in trades.to_pylist() * 2:
            ...             await source.push_async([{**row, "ts": 30}])
            >>> async def count() -> int:
            ...     return sum([batch.num_rows async for batch in merge])
            >>> async def both() -> int:
            ...     return (await asyncio.gather(feed(), count()))[1]
            >>> asyncio.run(both())
            6

        Args:
            data: Rows that have the columns of the operator's schema, in any order: Arrow data, a
                pandas or polars DataFrame, a list of dicts or tuples, or a dict with a list for
                each column. The values in tuples are in schema order. Types may differ from the
                schema if every value can be converted exactly. Strings may have a different layout,
                integers may have a different width, times may have a different unit, and floats may
                be passed as integers. Times may be ISO 8601 strings, with a UTC offset if, and only
                if, the column has a time zone. A Python float is rounded if the column has a lower
                precision.
            extra: How to treat columns that are not in the schema. `error`: an error is raised.
                `ignore`: the columns are ignored.
            unit: The unit of numbers in timestamp columns, which count from 1970 in UTC. A float is
                interpreted as the shortest decimal that represents it. It must be a whole number of
                the column's units. Arrow data has its own units, so it does not accept `unit`.

        Raises:
            SchemaError: A column is missing or not in the schema, or the kind of its type differs.
            MemoryLimitError: The rows would never fit into `memory_limit`, or all other sources are
                waiting for this one and there is no room for the rows. The message says which limit
                to set.
            ClosedError: The source or its operator is closed, or was created before this process
                was forked.
            TidegateError: A time is null, the Arrow data is malformed, or a value does not match
                its column's type.
            TypeError: The argument is neither Arrow data nor rows.
        """

    def idle(self) -> None:
        """Mark the source as idle until the next push.

        Other sources do not wait for an idle source: the operator's watermark is the lowest
        watermark among the sources that are not idle. The source resumes when rows are pushed
        again. The source's watermark is then at least the operator's watermark. In a join, it is
        also at least the watermark of the source's side. Rows before this watermark are late, as if
        the watermark had been passed to `advance`. While all open sources are idle, the operator's
        watermark is the highest of their watermarks.

        A second call has no effect. `advance` and `close` can also be called on an idle source.

        Example:
            >>> merge = tg.Merge(trades.schema, sources=2)
            >>> first, second = merge.sources
            >>> first.push(trades[:2])
            >>> merge.poll() is None  # the second source may deliver a row before 10
            True
            >>> second.idle()
            >>> merge.poll()["ts"].to_pylist()
            [10, 20]
            >>> second.push(trades)  # the first source has reached 20
            >>> merge.late()["ts"].to_pylist()
            [10]

        Raises:
            ClosedError: The source or its operator is closed, or was created before this process
                was forked.
        """

    def close(self) -> None:
        """Promise that there are no more rows.

        A second call has no effect, nor does a call on an abandoned source. Rows that have already
        been pushed are kept.

        Raises:
            ClosedError: The source was created before this process was forked.

        Example:
            >>> merge = tg.Merge(trades.schema)
            >>> merge.sources[0].push(trades)
            >>> merge.sources[0].close()
            >>> sum(batch.num_rows for batch in merge)
            3
        """

    def abandon(self, reason: str) -> None:
        """Report that the remaining rows from this source will never arrive.

        Results that do not depend on these rows are still returned. After that, polling the
        operator raises an error that states the reason, so no row is mistaken for an unmatched row.
        If a `with source:` block raises an exception, the source is abandoned. In a snapshot of the
        operator, the source is recorded as open. After a restore into a new operator, the source
        resumes after the last row that was pushed.

        Args:
            reason: The reason, as text for the user.

        Raises:
            ClosedError: The source was created before this process was forked.
            TypeError: The reason is not a string.

        Example:
            >>> merge = tg.Merge(trades.schema, sources=2)
            >>> merge.sources[0].abandon("the connection was lost")
            >>> merge.poll()
            Traceback (most recent call last):
            tidegate.TidegateError: source 0 was abandoned before its end (the connection was...
        """

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        _type: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None: ...

@disjoint_base
class Operator(Generic[_StatsT_co]):
    """Match, aggregate or merge rows as they are pushed into sources.

    `IntervalJoin`, `BandJoin`, `WindowJoin`, `OverlapJoin`, `AsofJoin`, `Aggregate`, `Rolling` and
    `Merge` are operators.
    Data flows through each of them as follows:

        sources: push, advance, close  ->  operator  ->  poll or iterate: record batches
                                            |    ^
                                   snapshot v    | restore

    Threads may push rows into the sources while other threads poll the operator. An operator is an
    iterator over record batches. Iteration waits for rows until all sources are closed, but `poll`
    does not wait. Each batch is returned to a single caller. Polls do the work, on the operator's
    threads. Nothing runs in the background, except inside a `running` block. The emitted rows and
    their order depend only on the input rows, not on the timing or size of pushes or on the number
    of threads.

    In asyncio, use `async for` to read the batches; a separate thread then does the work and waits
    for rows. Any consumer of Arrow streams, such as `polars.from_arrow` or DuckDB, can also read
    from an operator. Such a consumer waits until all sources are closed.

    When an operator is used as a context manager, it is closed at the end of the block. If an
    operator is dropped while the operator and at least one of its sources are open, a
    `ResourceWarning` reports how many rows it held. Python shows this warning in development mode.
    A process that was created by `fork()` cannot use its parent's operators. `Operator` itself
    cannot be instantiated.

    Example:
        >>> def drain(operator: tg.Operator) -> int:
        ...     return sum(batch.num_rows for batch in iter(operator.poll, None))
        >>> with tg.Merge(trades.schema) as merge:
        ...     merge.sources[0].push(trades)
        ...     drain(merge)
        3
        >>> count = {"n": tg.agg.count()}
        >>> with tg.Aggregate(trades.schema, on="ts", size=10, aggs=count) as windows:
        ...     windows.sources[0].push(trades)
        ...     drain(windows)
        2

        In asyncio:

        >>> import asyncio
        >>> async def count(operator: tg.Operator) -> int:
        ...     return sum([batch.num_rows async for batch in operator])
        >>> merge = tg.Merge(trades.schema)
        >>> with merge.sources[0] as source:
        ...     source.push(trades)
        >>> asyncio.run(count(merge))
        3
    """

    @property
    def schema(self) -> pa.Schema:
        """The schema of the results.

        Example:
            >>> tg.IntervalJoin(
            ...     trades.schema, quotes.schema, on="ts", by="sym", lower=-2, upper=0
            ... ).schema.names
            ['ts', 'sym', 'price', 'ts_right', 'bid']
        """

    @property
    def sources(self) -> list[Source]:
        """The sources, ordered by number. In a join, the left sources precede the right sources.

        Raises:
            ClosedError: The operator was created before this process was forked.

        Example:
            >>> join = tg.IntervalJoin(
            ...     trades.schema, quotes.schema, on="ts", lower=0, upper=0, sources=(2, 1)
            ... )
            >>> [source.number for source in join.sources]
            [0, 1, 2]
        """

    def add_source(
        self,
        *,
        side: Literal["left", "right"] | None = None,
        since: int | date | datetime | np.datetime64 | pa.Scalar | None = None,
        lateness: Bound = None,
    ) -> Source:
        """Add a source while the operator is running.

        The result contains the same rows, in the same order, as if the new source had existed from
        the beginning with the watermark `since`. The new source is the last one in `sources`. Among
        rows with equal times, rows from the new source follow those from the other sources. In a
        join, the new rows follow the other rows on the same side, and left rows precede right rows.
        `Source.close` removes a source.

        Without `since`, the source begins at the operator's watermark, which is the lowest
        watermark among the open sources that are not idle. In a join, the source begins at its
        side's watermark if that is later. While all left sources are idle, right rows with that
        time may already have been emitted. A new left source therefore begins one time unit later.
        If several threads feed the sources, the operator's watermark depends on their progress. If
        you know the time of the source's first row, pass this time as `since`. A snapshot includes
        the added sources, and `restore` recreates them.

        Example:
            >>> merge = tg.Merge(trades.schema)
            >>> merge.sources[0].push(trades[:2])
            >>> late_comer = merge.add_source()
            >>> late_comer.number, merge.stats()["sources"][1]["watermark"]
            (1, 20)
            >>> late_comer.push(trades[1:])
            >>> for source in merge.sources:
            ...     source.close()
            >>> [ts for batch in merge for ts in batch["ts"].to_pylist()]
            [10, 20, 20, 30]

        Args:
            side: The side of a join to which the source is added.
            since: The watermark of the new source, in any form that `Source.advance` accepts. None
                means the lowest possible watermark.
            lateness: The maximum time by which rows from the new source may be out of order. None
                means the same lateness as for the other sources or, in a join, for the other
                sources on the same side.

        Returns:
            The new source.

        Raises:
            OrderError: Rows that would follow the new source's rows at `since` may already have
                been emitted.
            ClosedError: The operator, all of its sources, or all sources on the side are closed.
            TidegateError: The operator is an aggregation, which has a fixed set of sources. The
                error is also raised if `side` is missing, or is given for an operator without
                sides. The error is also raised if `lateness` is missing but the other sources have
                different values, or if there would be more than 65536 sources.
            TypeError: An argument has the wrong type.
        """

    @property
    def memory_limit(self) -> int | None:
        """The maximum number of bytes to hold, or None for no limit.

        The limit can be changed at any time. A fifth of the limit is divided evenly among the
        sources until they are closed. A source can always use its entire share, no matter how much
        memory the other sources use. A source that runs ahead therefore leaves room for the source
        that all others are waiting for. In an aggregation, another fifth is reserved for the state.
        The rest is allocated on a first-come, first-served basis.

        A row counts towards its source's share from the push until a poll finds that the row is no
        longer needed. All rows from a push count towards the limit until all of them have been
        processed. A source holds rows that are delayed because of `lateness`, and it holds late
        rows until they are returned. In a join, a source also holds each row that later rows may
        match, together with the other rows from the same push. If each source's share has room for
        these rows, an additional eighth, and the next push, then a refused push always fits after
        enough polls.

        If the limit is set to less than the number of bytes held, pushes are refused until there is
        room. No rows are lost.

        Raises:
            ClosedError: The operator was created before this process was forked.
            TidegateError: The limit is negative.
            TypeError: The limit is not an integer.

        Example:
            >>> merge = tg.Merge(trades.schema, memory_limit=100)
            >>> merge.sources[0].push(trades)
            Traceback (most recent call last):
            tidegate.MemoryLimitError: source 0: 3 rows need ... set memory_limit to ... or more
            >>> merge.memory_limit = 1000
            >>> merge.sources[0].push(trades)
            >>> merge.memory_limit
            1000
        """

    @memory_limit.setter
    def memory_limit(self, limit: Bytes | None) -> None: ...
    def poll(self) -> pa.RecordBatch | None:
        """Return the next results that are final, if there are any.

        The call does not wait. None means that no results are final yet, or that all sources are
        closed and all results have been returned. A result that has been returned is never changed
        by later pushes.

        Returns:
            The next results in order, or None. A batch has at most about 33,000 rows in a join and
            about 40,000 rows in a merge, but can be larger if there are thousands of sources.

        Raises:
            ClosedError: The operator is closed, or was created before this process was forked.
            MemoryLimitError: The state of an aggregation does not fit into `memory_limit`. No rows
                are lost, and the poll can be repeated. The error is also raised if the system is
                out of memory. If memory runs out in the middle of the work, all later polls raise
                the same error.
            TidegateError: A condition cannot be evaluated for a row or a pair, or a sum overflows
                its type. Polls and snapshots raise the same error until you call `skip`. Otherwise,
                rows could be missing from later results.

        Example:
            >>> join = tg.IntervalJoin(
            ...     trades.schema, quotes.schema, on="ts", by="sym", lower=-2, upper=0, how="anti"
            ... )
            >>> join.left_sources[0].push(trades)
            >>> join.poll() is None
            True
            >>> join.right_sources[0].advance(25)
            >>> [ts for batch in iter(join.poll, None) for ts in batch["ts"].to_pylist()]
            [10, 20]
        """

    def run(
        self,
        sink: Sink,
        *,
        late: Callable[[pa.Table], object] | None = None,
        punctuations: bool = False,
    ) -> None:
        """Pass each result to a sink as soon as it is final, until all sources are closed.

        This call is equivalent to a loop over the operator. Feeders push rows from other threads,
        and pushes wait while the memory limit leaves no room. Ctrl-C ends the call. A feeder that
        starts before this call should push with `block=True`.

        Example:
            >>> import threading
            >>> merge = tg.Merge(trades.schema)
            >>> def feed() -> None:
            ...     with merge.sources[0] as source:
            ...         source.push(trades)
            >>> threading.Thread(target=feed).start()
            >>> merge.run(lambda batch: print(batch["ts"].to_pylist()))
            [10, 20, 30]

            Punctuations among the rows. The last one states that no further pair is below 31:

            >>> join = tg.IntervalJoin(trades.schema, quotes.schema, on="ts", lower=-2, upper=0)
            >>> for source, rows in zip(join.sources, [trades, quotes]):
            ...     source.push(rows)
            ...     source.close()
            >>> batches = []
            >>> join.run(batches.append, punctuations=True)
            >>> batches[-1]["watermark"].to_pylist()
            [31]

        Args:
            sink: Where results go. A function is called with each record batch. A `queue.Queue`
                receives the batches, followed by None at the end. A writer with a `write_batch`
                method, such as `pyarrow.parquet.ParquetWriter`, is not closed at the end. A source
                of another operator is closed at the end.
            late: A function that is called with tables of late rows, in the form that `late`
                returns. Without this function, late rows are kept until `late` is called, and count
                towards `memory_limit`.
            punctuations: Whether punctuations are inserted as rows among the results. Each batch
                then has a final `watermark` column of 64-bit integers, which is null in result
                rows. A punctuation is a batch of one row: `watermark` is the operator's `promised`
                value, and all other columns are null. When `promised` has increased after a batch,
                a punctuation is emitted. The punctuation follows all results with times before its
                value. The results do not change, but the positions of the punctuations among them
                depend on when the sink accepts batches. Punctuations do not affect `memory_limit`,
                snapshots or digests. A sink that is a source of another operator does not accept
                punctuations. In a `Chain`, such a source receives the promised values without these
                rows.

        Raises:
            ClosedError: The operator is closed, or was created before this process was forked.
            TidegateError: The operator is already running, `poll` fails, or punctuations were
                requested but the sink is a source.
            SchemaError: Punctuations were requested, but the results already have a `watermark`
                column.
            TypeError: The sink has an unsupported type.
            Exception: The sink raised an exception. The next poll returns the batch that the sink
                did not accept.
        """

    def running(
        self,
        sink: Sink,
        *,
        late: Callable[[pa.Table], object] | None = None,
        punctuations: bool = False,
    ) -> Running:
        """Pass all results to a sink on a separate thread while a block is running.

        Example:
            Trades with their quotes, written to a file:

            >>> import pyarrow.parquet as pq
            >>> join = tg.IntervalJoin(trades.schema, quotes.schema, on="ts", lower=-2, upper=0)
            >>> with pq.ParquetWriter("pairs.parquet", join.schema) as file, join.running(file):
            ...     join.left_sources[0].push(trades)
            ...     join.right_sources[0].push(quotes)
            >>> pq.read_table("pairs.parquet").num_rows
            3

        Args:
            sink: Where results go. A function is called with each record batch. A `queue.Queue`
                receives the batches, followed by None at the end. A writer with a `write_batch`
                method, such as `pyarrow.parquet.ParquetWriter`, is not closed at the end. A source
                of another operator is closed at the end.
            late: A function that is called with tables of late rows, in the form that `late`
                returns. Without this function, late rows are kept until `late` is called, and count
                towards `memory_limit`.
            punctuations: Whether punctuations are inserted as rows among the results. Each batch
                then has a final `watermark` column of 64-bit integers, which is null in result
                rows. A punctuation is a batch of one row: `watermark` is the operator's `promised`
                value, and all other columns are null. When `promised` has increased after a batch,
                a punctuation is emitted. The punctuation follows all results with times before its
                value. The results do not change, but the positions of the punctuations among them
                depend on when the sink accepts batches. Punctuations do not affect `memory_limit`,
                snapshots or digests. A sink that is a source of another operator does not accept
                punctuations. In a `Chain`, such a source receives the promised values without these
                rows.

        Returns:
            A context manager that runs the thread.

        Raises:
            TidegateError: Punctuations were requested, but the sink is a source.
            SchemaError: Punctuations were requested, but the results already have a `watermark`
                column.
            TypeError: The sink has an unsupported type.
        """

    def skip(self) -> bool:
        """Resume after a condition or a sum has failed, skipping values that cannot be computed.

        A condition fails for a pair or row if the condition divides by zero or if a value exceeds
        the range of its type. A sum fails if it overflows its type. The operator still computes and
        keeps all other results of that step. It then halts: each `poll` raises the error, whose
        message shows the values. While the operator is halted, its sources do not accept rows, so
        feeders notice the failure immediately. No rows are lost.

        This call resumes the operator. A failed condition counts as false for the pair or row, and
        a sum that overflows is null. If a later step fails, the operator halts again.

        Example:
            >>> import pyarrow as pa
            >>> import tidegate as tg
            >>> rows = pa.schema({"ts": pa.int64(), "x": pa.int64()})
            >>> join = tg.IntervalJoin(
            ...     rows, rows, on="ts", lower=0, upper=0, where="left.x / right.x > 1"
            ... )
            >>> left, right = join.sources
            >>> left.push([{"ts": 1, "x": 8}, {"ts": 2, "x": 8}])
            >>> right.push([{"ts": 1, "x": 0}, {"ts": 2, "x": 2}])
            >>> left.close(), right.close()
            (None, None)
            >>> join.poll()
            Traceback (most recent call last):
            tidegate.TidegateError: where `left.x / right.x`: Divide by zero error, for left.x...
            >>> join.skip()
            True
            >>> join.poll()["ts"].to_pylist()
            [2]

        Returns:
            True if there was a failure to skip.
        """

    def late(self) -> pa.Table:
        """Return the late rows that no earlier call has returned.

        A row is late if its time is before its source's watermark when the row is pushed. Late rows
        do not appear in any result. A row with an interval end farther away than `max_width` is
        treated like a late row.

        Returns:
            A table whose first three columns are `late_source` (the number of the source),
            `late_position` (the row's number among all rows from the source) and `late_watermark`
            (the watermark when the row was pushed). These columns are followed by the sources'
            columns. In a join, the first column is `late_side`, which is `left` or `right`, and the
            sources of each side are numbered from 0. The other columns are those of a full join,
            with nulls in the columns of the opposite side. An operator with `max_width` adds
            `late_reason` after `late_watermark`. The reason is `late`, or `wide` for a row with an
            interval end farther away than `max_width`. The `late_watermark` of a wide row is null.
            Rows are ordered by source and position. Late rows count towards `memory_limit` until
            they are returned.

        Raises:
            ClosedError: The operator was created before this process was forked.

        Example:
            >>> merge = tg.Merge(trades.schema)
            >>> merge.sources[0].push(trades.take([1, 0]))
            >>> merge.late().to_pylist()
            [{'late_source': 0, 'late_position': 1, 'late_watermark': 20, 'ts': 10, ...}]
            >>> join = tg.IntervalJoin(trades.schema, quotes.schema, on="ts", lower=-2, upper=0)
            >>> join.left_sources[0].push(trades.take([0, 2, 1]))
            >>> join.late().select(["late_side", "late_watermark", "ts"]).to_pylist()
            [{'late_side': 'left', 'late_watermark': 30, 'ts': 20}]
        """

    def stats(self) -> _StatsT_co:
        """Return statistics about the operator's work so far.

        Returns:
            A dict. Every operator has these entries:

            - `rows_in`: the number of rows pushed, which is `rows_used` plus `rows_late`;
            - `rows_out`: the number of result rows returned;
            - `watermark`: the time before which no further row can arrive, in the unit of the time
              column (the finer of the two); None until every source has made a promise, and after
              all sources are closed;
            - `latency`: the seconds from the push of a row until the results that it made final
              were computed, as median, 99th percentile and maximum; None before the first row;
            - `memory`: the number of bytes that count towards `memory_limit`, and `memory_limit`;
            - `waiting`: None, unless rows are waiting for a source that may deliver earlier rows.
              Then it is a dict with the `source` that has the lowest watermark, the `seconds` since
              that source last delivered anything, and the number of waiting `rows`;
            - `sources`: one dict per source, with the entries `name`, `rows_in`, `rows_used`,
              `rows_late`, `watermark`, `closed`, `abandoned` (a reason or None) and `memory`, the
              number of bytes held for the source's rows.

            A join also reports `state_rows`, the number of rows kept because later rows may match
            them, and `state_bytes`, the number of additional bytes held. If a join returns pairs,
            `comparisons` contains the number of pairs that each thread has examined. If an interval
            join returns pairs, `split_keys` is the number of keys that several threads share. If a
            band join returns pairs, `index` shows the indexed column and the kind of index, and
            `merges` counts how often new rows have been merged into trees.

            An aggregation also reports `state_keys`, the number of known keys, `state_cells`, the
            number of states per function, and `state_bytes`, the size of the state in bytes. If a
            function needs all values in a window, the aggregation instead reports `state_rows`, the
            number of rows kept, and `state_bytes`, the number of additional bytes held.

        Raises:
            ClosedError: The operator was created before this process was forked.

        Example:
            >>> join = tg.IntervalJoin(trades.schema, quotes.schema, on="ts", lower=-2, upper=0)
            >>> join.left_sources[0].push(trades)
            >>> stats = join.stats()
            >>> stats["rows_in"], stats["watermark"], stats["sources"][0]["watermark"]
            (3, None, 30)
        """

    @property
    def promised(self) -> int | None:
        """The time before which no further results will be emitted, also known as a punctuation.

        A result's time is the time of its later row or the end of its window. If the time columns
        have different units, the finer unit is used. The time of an unmatched row is the last time
        at which it could have matched, or the row's own time if that is later. All results before
        `promised` are therefore complete, and with `ordered=False`, results can be sorted up to
        this time. A reader that lags behind other readers may still return results with times
        before `promised`. The value increases with polls. `promised` is None until every source has
        made a promise, and also while results are waiting to be polled. After a restore, `promised`
        is None until rows or promises arrive.

        Raises:
            ClosedError: The operator was created before this process was forked.

        Example:
            >>> join = tg.IntervalJoin(
            ...     trades.schema, quotes.schema, on="ts", lower=-2, upper=0, ordered=False
            ... )
            >>> for source, rows in zip(join.sources, [trades, quotes]):
            ...     source.push(rows)
            >>> while (batch := join.poll()) is not None:
            ...     pass
            >>> join.promised
            30
        """

    def digest(self) -> Digest:
        """Return the digest of all results returned so far.

        If two runs have equal digests, they have returned the same rows, regardless of the number
        of threads, the timing of polls and the machine. A snapshot includes the digest, so the
        digest of a run that resumes from a snapshot covers all results since the beginning. With
        `ordered=False`, rows may be emitted in any order, so compare `unordered` instead.

        Returns:
            A copy that is not affected by later results.

        Raises:
            TidegateError: The operator was created without `digest=True`.
            ClosedError: The operator was created before this process was forked.

        Example:
            >>> merge = tg.Merge(trades.schema, digest=True)
            >>> with merge.sources[0] as source:
            ...     source.push(trades)
            >>> polled = merge.poll()
            >>> merge.digest().ordered == tg.digest(trades)
            True
        """

    def explain(self) -> str:
        """Describe what the operator does, in the form used by `tidegate.explain`.

        Returns:
            A few lines of text.

        Raises:
            ClosedError: The operator was created before this process was forked.

        Example:
            >>> print(tg.Merge(trades.schema, sources=2, threads=1).explain())
            merge
              time       ts
              lateness   none: rows that are out of time order within their source are late
              sources    2
              ...
        """

    def snapshot(self) -> bytes:
        """Return the state as bytes.

        Another operator with the same arguments can restore the snapshot and resume as if this one
        had never stopped. The other operator may run in another process, with a different number of
        threads, a different `parallelism`, or a different aggregation algorithm. A snapshot
        contains all pushed rows that may still be needed, and the late rows and results that have
        not been returned. All rows that are ready are processed before the snapshot is taken. The
        results of these rows do not count towards `memory_limit`, so poll the operator soon
        afterwards. Operators with equal histories return equal bytes.

        Returns:
            The bytes, which include a version and a checksum.

        Raises:
            ClosedError: The operator is closed, or was created before this process was forked.
            MemoryLimitError: The state of an aggregation does not fit into `memory_limit`. No rows
                are lost, and the call can be repeated. The error is also raised if the system is
                out of memory. If memory runs out in the middle of the work, all later polls raise
                the same error.
            TidegateError: A condition cannot be evaluated for a row or a pair, or a sum overflows
                its type. Polls and snapshots raise the same error until you call `skip`. Otherwise,
                rows could be missing from later results.

        Example:
            >>> arguments = dict(on="ts", by="sym", lower=-2, upper=0)
            >>> join = tg.IntervalJoin(trades.schema, quotes.schema, **arguments)
            >>> join.left_sources[0].push(trades)
            >>> snapshot = join.snapshot()
            >>> again = tg.IntervalJoin(trades.schema, quotes.schema, **arguments, threads=1)
            >>> again.restore(snapshot)
            >>> again.right_sources[0].push(quotes)
            >>> again.poll()["bid"].to_pylist()
            [9, 8, 7]
        """

    def restore(self, snapshot: bytes) -> None:
        """Resume from a snapshot.

        Example:
            >>> tg.Merge(trades.schema).restore(b"something else")
            Traceback (most recent call last):
            tidegate.StateError: ...

        Args:
            snapshot: The bytes that `snapshot` returned.

        Raises:
            StateError: The snapshot is damaged, was written by another version of tidegate, or
                belongs to another query, or this operator has already been used. The operator is
                then unchanged, or closed if the damage was detected late.
            MemoryLimitError: The rows and the state do not fit into `memory_limit`. The operator is
                unchanged, so you can raise the limit and try again.
            ClosedError: The operator was created before this process was forked.
            TypeError: The argument is not a `bytes` object.
        """

    def close(self) -> None:
        """Drop all rows and results. Subsequent pushes and polls fail.

        A second call has no effect. The operator is also closed at the end of a `with` block.

        Raises:
            ClosedError: The operator was created before this process was forked.

        Example:
            >>> with tg.Merge(trades.schema) as merge:
            ...     merge.sources[0].push(trades)
            >>> merge.poll()
            Traceback (most recent call last):
            tidegate.ClosedError: the merge is closed; create a new one
        """

    def __aiter__(self) -> AsyncIterator[pa.RecordBatch]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any: ...  # noqa: ANN401 - a capsule has no type
    def __iter__(self) -> Self: ...
    def __next__(self) -> pa.RecordBatch: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        _type: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None: ...
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...  # noqa: ANN401 - a type

@final
class Merge(Operator[OperatorStats]):
    """Merge the rows from push sources.

    Rows are emitted in *merged order*: by time, then source number, then position within the
    source. A row is emitted as soon as no source can deliver a row that precedes it (ScaleJoin,
    section IV.A, *ScaleGate*). The emitted rows and their order depend only on the input rows, not
    on the timing or size of pushes or on the number of threads.

    This is an `Operator`: threads may push rows into its sources while other threads poll. `poll`
    does not wait, but iteration waits for rows until all sources are closed.

    Example:
        >>> a, b = pa.table({"ts": [1, 4, 9]}), pa.table({"ts": [2, 4]})
        >>> merge = tg.Merge(a.schema, sources=2)
        >>> first, second = merge.sources
        >>> first.push(a)
        >>> second.push(b)
        >>> merge.poll()["ts"].to_pylist()
        [1, 2, 4, 4]
        >>> first.close()
        >>> second.close()
        >>> [batch["ts"].to_pylist() for batch in merge]
        [[9]]

        One source per thread:

        >>> import threading
        >>> merge = tg.Merge(a.schema, sources=2)
        >>> def feed(source, table):
        ...     with source:
        ...         for batch in table.to_batches(max_chunksize=1):
        ...             source.push(batch)
        >>> for source, table in zip(merge.sources, [a, b]):
        ...     threading.Thread(target=feed, args=(source, table)).start()
        >>> [ts for batch in merge for ts in batch["ts"].to_pylist()]
        [1, 2, 4, 4, 9]

    Args:
        schema: The schema of all sources: a `pyarrow.Schema`, or data with this schema.
        on: The time column, which must contain integers, dates or timestamps.
        sources: The number of sources, from 1 to 65536. None means one.
        lateness: The maximum time by which rows from a source may be out of order: a timedelta, a
            numpy timedelta64, a string such as "250ms", or an integer if times are integers. Use a
            list to give each source its own value. Both None and 0 mean that the rows are in order.
        memory_limit: The maximum number of bytes for pushed rows that no poll has returned yet,
            including late rows. Each row adds 40 bytes of overhead. None sets no limit. Batches
            that polls prepare in advance do not count towards the limit. The `memory_limit`
            property describes how sources share the limit.
        threads: The number of worker threads, from 1 to 512. None means `default_threads()`.
        digest: Whether the operator computes a digest of its results. The `digest()` method returns
            the digest. Each batch is then hashed before it is returned.

    Raises:
        SchemaError: The time column is missing, or does not contain times.
        TidegateError: Another argument is invalid.
        TypeError: An argument has the wrong type.
    """

    def __new__(
        cls,
        schema: pa.Schema | Table,
        *,
        on: str = "ts",
        sources: int | None = None,
        lateness: Bound | list[Bound] = None,
        memory_limit: Bytes | None = None,
        threads: int | None = None,
        digest: bool = False,
    ) -> Self: ...
    @property
    def on(self) -> str:
        """The time column.

        Example:
            >>> tg.Merge(trades.schema).on
            'ts'
        """

    def index(
        self,
        *,
        by: str | Sequence[str] | None = None,
        keep: Bound = None,
        threads: int | None = None,
    ) -> tidegate.Index:
        """Create an empty index for the merged rows.

        Run the merge with the index's `append` as its sink. Joins with the index then find the rows
        that have been merged so far.

        Example:
            >>> merge = tg.Merge(quotes.schema)
            >>> recent = merge.index(by="sym", keep=20)
            >>> with merge.running(recent.append):
            ...     merge.sources[0].push(quotes)
            >>> recent.rows
            2
            >>> tg.asof_join(trades, recent, on="ts", by="sym")["bid"].to_pylist()
            [None, None, 7]

        Args:
            by: The key columns: a name or a list of names. None means that the joins have no keys.
            keep: The age at which rows expire, relative to the latest row: a timedelta, a numpy
                timedelta64, a string such as "1h", or an integer if times are integers. Rows with a
                start and an end expire when they end this long before the latest start. None keeps
                all rows.
            threads: The number of worker threads, from 1 to 512. None means `default_threads()`.

        Raises:
            SchemaError: A key column is missing or has an unsuitable type.
            TidegateError: `keep` is negative or does not fit the time column.
            TypeError: An argument has the wrong type.
        """

    def reader(self) -> MergeReader:
        """Create another reader for the rows.

        Like the readers of T-Gate, each reader receives every row in order and may run on its own
        thread. A reader starts with the first row that no reader or poll has received. Readers that
        are created before any row is received therefore receive all rows. A merge that has readers
        cannot itself be polled. Each batch is produced once, by the first reader that needs it, and
        is kept until the slowest reader has received it. Until then, the rows in the batch count
        towards `memory_limit`. To make feeders wait for slow readers, push with `block=True`.

        A snapshot can only be taken when all readers have reached the same row.

        Example:
            >>> import threading
            >>> merge = tg.Merge(trades.schema)
            >>> sums = []
            >>> def read(reader):
            ...     sums.append(sum(sum(batch["ts"].to_pylist()) for batch in reader))
            >>> readers = [merge.reader(), merge.reader()]
            >>> threads = [threading.Thread(target=read, args=(one,)) for one in readers]
            >>> for thread in threads:
            ...     thread.start()
            >>> with merge.sources[0] as source:
            ...     source.push(trades)
            >>> for thread in threads:
            ...     thread.join()
            >>> sums
            [60, 60]

        Raises:
            ClosedError: The merge is closed, or was created before this process was forked.
        """

@final
class MergeReader:
    """Reads all rows from a merge, independently of other readers.

    `Merge.reader` creates readers.

    A reader is an iterator over record batches. Iteration waits for rows until all sources are
    closed, but `poll` does not wait. In asyncio, use `async for` to read the batches. A reader that
    is closed or dropped releases the rows that it has not read. When a reader is used as a context
    manager, it is closed at the end of the block. `MergeReader` itself cannot be instantiated.

    Example:
        >>> merge = tg.Merge(trades.schema)
        >>> first, second = merge.reader(), merge.reader()
        >>> merge.sources[0].push(trades)
        >>> first.poll()["ts"].to_pylist(), second.poll()["ts"].to_pylist()
        ([10, 20, 30], [10, 20, 30])
    """

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows.

        Example:
            >>> tg.Merge(trades.schema).reader().schema.names
            ['ts', 'sym', 'price']
        """

    def poll(self) -> pa.RecordBatch | None:
        """Return the next final rows that this reader has not read, if there are any.

        The call does not wait. None means that none of the rows this reader needs are final yet, or
        that all sources are closed and this reader has read all rows.

        Example:
            >>> merge = tg.Merge(trades.schema, sources=2)
            >>> reader = merge.reader()
            >>> merge.sources[0].push(trades)
            >>> reader.poll() is None
            True

        Raises:
            ClosedError: The reader or its merge is closed, or was created before this process was
                forked.
            TidegateError: A source was abandoned.
        """

    def close(self) -> None:
        """Release the rows that this reader has not read yet.

        A second call has no effect.

        Example:
            >>> merge = tg.Merge(trades.schema)
            >>> with merge.reader() as reader:
            ...     merge.sources[0].push(trades)
            >>> merge.poll()["ts"].to_pylist()  # there are no other readers
            [10, 20, 30]

        Raises:
            ClosedError: The merge was created before this process was forked.
        """

    def __aiter__(self) -> AsyncIterator[pa.RecordBatch]: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> pa.RecordBatch: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        _type: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None: ...

class StreamJoin(Operator[StreamJoinStats]):
    """Join rows from a left and a right side as they are pushed into sources.

    `IntervalJoin`, `BandJoin`, `WindowJoin`, `OverlapJoin` and `AsofJoin` are such joins. Each side
    has its own sources.

    Example:
        >>> join = tg.IntervalJoin(trades.schema, quotes.schema, on="ts", lower=-2, upper=0)
        >>> isinstance(join, tg.StreamJoin)
        True
    """

    @property
    def left_sources(self) -> list[Source]:
        """The sources on the left side.

        Raises:
            ClosedError: The join was created before this process was forked.

        Example:
            >>> join = tg.IntervalJoin(
            ...     trades.schema, quotes.schema, on="ts", lower=0, upper=0, sources=(2, 1)
            ... )
            >>> [source.number for source in join.left_sources]
            [0, 1]
        """

    @property
    def right_sources(self) -> list[Source]:
        """The sources on the right side.

        Raises:
            ClosedError: The join was created before this process was forked.

        Example:
            >>> join = tg.IntervalJoin(
            ...     trades.schema, quotes.schema, on="ts", lower=0, upper=0, sources=(2, 1)
            ... )
            >>> [source.number for source in join.right_sources]
            [2]
        """

@final
class Rolling(Operator[RollingStats]):
    """Aggregate a window of earlier rows for each row, as rows are pushed into sources.

    The operator ignores late rows. Otherwise, its result rows are identical, bit for bit, to those
    of `rolling`. They are in merged order: by time, then by source, then by position in the source.
    A row is emitted as soon as no source can deliver a row that precedes it or falls into its
    window. If a window includes rows with the same time as its row, the row is emitted once that
    time has passed.

    This is an `Operator`: threads may push rows into its sources while other threads poll. `poll`
    does not wait, but iteration waits for rows until all sources are closed.

    Example:
        >>> means = tg.Rolling(
        ...     trades.schema, on="ts", by="sym", size=25, aggs={"mean": tg.agg.mean("price")}
        ... )
        >>> means.sources[0].push(trades)
        >>> means.poll().to_pydict()  # another trade at 30 may still arrive
        {'ts': [10, 20], 'sym': ['A', 'B'], 'price': [1.0, 2.0], 'mean': [1.0, 2.0]}
        >>> means.sources[0].close()
        >>> means.poll().to_pydict()
        {'ts': [30], 'sym': ['A'], 'price': [3.0], 'mean': [2.0]}

    Args:
        schema: The schema of all sources: a `pyarrow.Schema`, or data with this schema.
        on: The time column, which must contain integers, dates or timestamps.
        size: The length of each window. A timedelta, a numpy timedelta64 or a string such as "5m"
            is a length of time, and so is an integer if times are integers. `tidegate.rows(n)`
            specifies a number of rows with the same key, in time order. Rows with equal times are
            in input order.
        by: The key columns: a name or a list of names. Without keys, all rows form one group. Rows
            with a null key also form a group. NaN equals NaN, and 0.0 equals -0.0.
        closed: The ends that a window includes. The upper end is the row itself, and the lower end
            precedes it by `size`. `right`, the default, includes the row itself but not the lower
            end. `left` includes the lower end but not the row itself. `both` includes both ends,
            and `neither` excludes both ends. If `size` is a length of time, an end includes or
            excludes all rows with the same time.
        aggs: The aggregates to compute, as a mapping from result column names to functions from
            `tidegate.agg`.
        columns: The input columns to include in the result, in this order. None means all columns.
        sources: The number of sources, from 1 to 65536. None means one.
        lateness: The maximum time by which rows from a source may be out of order: a timedelta, a
            numpy timedelta64, a string such as "250ms", or an integer if times are integers. Use a
            list to give each source its own value. Both None and 0 mean that the rows are in order.
        threads: The number of worker threads, from 1 to 512. None means `default_threads()`.
        memory_limit: The maximum number of bytes for pushed rows that have no results yet, for late
            rows, and for rows that later windows may contain. None sets no limit. The
            `memory_limit` property describes how sources share the limit.
        digest: Whether the operator computes a digest of its results. The `digest()` method returns
            the digest. Each batch is then hashed before it is returned.

    Raises:
        SchemaError: A column is missing or duplicated, or has an unsuitable type.
        TidegateError: Another argument is invalid.
        TypeError: An argument has the wrong type.

    Note:
        If `size` is a length of time, the operator keeps rows until no later window contains them.
        With `tidegate.rows(n)`, it keeps the last rows of each key, no matter how old they are, so
        that memory grows with the number of keys.

        Results are computed with the code for tables, from the new rows and the rows kept. A poll
        with results therefore takes time proportional to the number of these rows.
    """

    def __new__(
        cls,
        schema: pa.Schema | Table,
        *,
        on: str,
        size: Window,
        by: str | Sequence[str] | None = None,
        closed: Closed = "right",
        aggs: Mapping[str, agg.Aggregate],
        columns: Sequence[str] | None = None,
        sources: int | None = None,
        lateness: Bound | list[Bound] = None,
        threads: int | None = None,
        memory_limit: Bytes | None = None,
        digest: bool = False,
    ) -> Self: ...

class AsofJoin(StreamJoin):
    """Match each left row with the right row nearest in time as rows are pushed into sources.

    This is the as-of join for push sources. Each side may have any number of sources. The operator
    ignores late rows, and otherwise returns the same rows as `asof_join`. A left row is emitted
    once no later row can become its match:

    - `backward`: once its own time has passed;
    - `forward`: once the time of the matching row has passed;
    - `nearest`: once the left row's time plus the distance to the matching row has passed, because
      later rows cannot be nearer.

    With `backward`, an unmatched left row is also emitted once its own time has passed. With
    `forward` and `nearest`, it is emitted once its time plus `tolerance` has passed, or at the end
    if there is no `tolerance`. A row that cannot match any row is emitted once its own time has
    passed: a row with a null key, or a row that does not satisfy the part of `where` that reads
    only left columns. This part is considered only if no other part of `where` reads both sides or
    can fail.

    The emitted rows and their order depend only on the input rows, not on the timing or size of
    pushes or on the number of threads. Rows are ordered by the times described above. If these
    times are equal, rows are in *merged order*: by their own time, then source, then position.

    This is an `Operator`: threads may push rows into its sources while other threads poll. `poll`
    does not wait, but iteration waits for rows until all sources are closed.

    Example:
        Each trade with the last quote for its symbol:

        >>> join = tg.AsofJoin(
        ...     trades.schema, quotes.schema, on="ts", by="sym", columns=["ts", "sym", "bid"]
        ... )
        >>> left, right = join.sources
        >>> left.push(trades)
        >>> right.push(quotes)
        >>> join.poll().to_pylist()
        [{'ts': 10, 'sym': 'A', 'bid': 8}, {'ts': 20, 'sym': 'B', 'bid': None}]

        The trade at 30 is not final, because the left source may still deliver another row at 30:

        >>> left.close()
        >>> join.poll().to_pylist()
        [{'ts': 30, 'sym': 'A', 'bid': 7}]

        The first quote at most 20 time units after each trade:

        >>> join = tg.AsofJoin(
        ...     trades.schema, quotes.schema, on="ts", by="sym", strategy="forward", tolerance=20,
        ...     allow_exact_matches=False, columns=["ts", "ts_right"],
        ... )
        >>> for source, rows in zip(join.sources, [trades, quotes]):
        ...     source.push(rows)
        ...     source.close()
        >>> [row for batch in join for row in batch.to_pylist()]
        [{'ts': 10, 'ts_right': 29}, {'ts': 20, 'ts_right': None}, {'ts': 30, 'ts_right': None}]

    Args:
        left: The schema of the left sources: a `pyarrow.Schema`, or data with this schema.
        right: The schema of the right sources: a `pyarrow.Schema`, or data with this schema.
        on: The time column, or a pair of names if the column has a different name on each side.
            Times must be integers, dates or timestamps. Timestamps with time zones are compared as
            instants. The time units of the two sides may differ.
        by: The key columns: a name, a list of names or name pairs, or a mapping from left to right
            names. Two rows match only if all of their keys are equal. Without keys, any two rows
            may match.
        strategy: Which right row matches. `backward`: the last right row with `r.on <= l.on`.
            `forward`: the first right row with `r.on >= l.on`. `nearest`: the right row with the
            smallest `abs(l.on - r.on)`; in a tie between an earlier and a later row, the earlier
            row.
        tolerance: The maximum time difference, inclusive: a timedelta, a numpy timedelta64, or a
            string such as "1h30m" or "250ms". If times are integers, give an integer in the same
            unit. None sets no bound.
        allow_exact_matches: Whether a right row with the same time may match.
        where: A condition that two rows must satisfy to match. Build the condition from
            `tidegate.left` and `tidegate.right` columns, or give it as SQL text. If the condition
            is null, the rows do not match.
        how: Which rows to return. `left`: all left rows. The right columns of unmatched rows are
            null. `inner`: only the matched left rows. `semi`: only the left columns of the matched
            left rows. `anti`: only the left columns of the unmatched left rows.
        suffix: The suffix to append to the name of a right column if the left side has a column
            with the same name.
        columns: The columns to include in the result, in this order. Other columns are not
            computed. None means all columns.
        sources: The number of left sources and the number of right sources, each from 1 to 32768.
            None means one of each.
        lateness: The maximum time by which rows from a source may be out of order: a timedelta, a
            numpy timedelta64, a string such as "250ms", or an integer if times are integers. To
            give each side its own value, pass a pair: first the left value, then the right one.
            Either value may be a list with one value per source on that side. Both None and 0 mean
            that the rows are in order.
        threads: The number of worker threads, from 1 to 512. None means `default_threads()`.
        memory_limit: The maximum number of bytes for three kinds of rows: pushed rows that have not
            been joined yet, rows that later rows may match, and late rows. None sets no limit. The
            `memory_limit` property describes how sources share the limit.
        ordered: Whether results are emitted in the order that the class description specifies. An
            as-of join always uses this order.
        pin: Whether each of the operator's worker threads is pinned to a processor. Pinning helps
            if nothing else uses the processors. Otherwise, pinning slows the operator down. Each
            operator pins its first thread to a different processor. The thread that calls the
            operator is not pinned. Threads are never pinned if an aggregate is a Python function.
            By default, threads are pinned only in a `WindowJoin` with `scalejoin-gates`.
        digest: Whether the operator computes a digest of its results. The `digest()` method returns
            the digest. Each batch is then hashed before it is returned.

    Raises:
        SchemaError: A column is missing or duplicated, or has an unsuitable type. The error is also
            raised if `tolerance` is an integer but times are dates or timestamps, or if it is a
            duration but times are integers.
        TidegateError: `tolerance` is negative, `how` is `right` or `full`, or another argument is
            invalid.
        TypeError: An argument has the wrong type.

    Note:
        If `where` fails, for example because of a division by zero, all subsequent polls raise the
        same error until you call `skip`. Otherwise, rows could be missing from later results.

        `backward` and `nearest` keep the last right row for each key, and the right rows that
        waiting left rows may match. `forward` does not keep right rows whose time has passed. Rows
        are removed in groups, so the operator may temporarily hold up to twice as many rows as it
        needs. If `where` reads both sides, or if its evaluation can fail, older rows may also be
        needed. In that case, all right rows within `tolerance` are kept, or all right rows if no
        `tolerance` is given.

        If any left rows are final, a poll costs as much as an `asof_join` of the waiting left rows
        with the right rows kept.

        In memory, each row has an overhead of 40 bytes.
    """

    def __new__(
        cls,
        left: pa.Schema | Table,
        right: pa.Schema | Table,
        *,
        on: Names,
        by: KeyNames | None = None,
        strategy: StreamStrategy = "backward",
        tolerance: Bound = None,
        allow_exact_matches: bool = True,
        where: Expr | str | None = None,
        how: AsofHow = "left",
        suffix: str = "_right",
        columns: Sequence[str] | None = None,
        sources: tuple[int, int] | None = None,
        lateness: Bound | tuple[Bound | list[Bound], Bound | list[Bound]] = None,
        threads: int | None = None,
        memory_limit: Bytes | None = None,
        ordered: bool = True,
        pin: bool | None = None,
        digest: bool = False,
    ) -> Self: ...

@final
class IntervalJoin(StreamJoin):
    """Match rows that are close in time as rows are pushed into sources.

    This is the interval join for push sources (the online interval join from section 2.2 of PPOIJ).
    Each side may have any number of sources. The operator ignores late rows, and otherwise returns
    the same rows as `interval_join`. A pair is emitted as soon as no source can deliver a row that
    precedes the pair's later row. Rows are in *merged order*: by time, then source (left sources
    first), then position. In left, right, full and anti joins, an unmatched row is emitted once no
    further row can match it. Rows are kept only as long as later rows may match them.

    The emitted rows and their order depend only on the input rows. The timing and size of pushes,
    the number of threads and `parallelism` do not affect the result. Pairs are ordered by their
    later row in merged order, then by their earlier row. Each row has a last time at which it can
    match. If the row remains unmatched, it is emitted after all pairs with this time. For a left
    row, the last time is the row's own time plus `upper`. For a right row, the last time is the
    row's own time minus `lower`. This last time is never earlier than the row's own time. If
    `closed` excludes the end of the interval, the last time is one unit earlier. If an end is given
    as an expression, `max_width` takes its place.

    This is an `Operator`: threads may push rows into its sources while other threads poll. `poll`
    does not wait, but iteration waits for rows until all sources are closed.

    Example:
        >>> join = tg.IntervalJoin(
        ...     trades.schema, quotes.schema, on="ts", by="sym", lower=-2, upper=0
        ... )
        >>> left, right = join.sources
        >>> left.push(trades)
        >>> right.push(quotes)
        >>> join.poll()["bid"].to_pylist()
        [9, 8, 7]

        Results later than 30 are not final, because the left source may still deliver another row
        at 30:

        >>> right.push(pa.table({"ts": [32], "sym": ["B"], "bid": [6]}))
        >>> left.push(pa.table({"ts": [33], "sym": ["B"], "price": [4.0]}))
        >>> right.close()
        >>> join.poll()["price"].to_pylist()
        [4.0]

        Two left partitions with rows up to 3 out of order, and unmatched trades:

        >>> with tg.IntervalJoin(
        ...     trades.schema, quotes.schema, on="ts", by="sym", lower=-2, upper=0, how="left",
        ...     sources=(2, 1), lateness=(3, 0), columns=["ts", "sym", "bid"],
        ... ) as join:
        ...     partitions, (quoting,) = join.left_sources, join.right_sources
        ...     partitions[0].push(trades.take([1, 0]))  # 20 was pushed first, so 10 is late
        ...     partitions[1].push(trades[2:])
        ...     quoting.push(quotes)
        ...     for source in join.sources:
        ...         source.close()
        ...     [row for batch in join for row in batch.to_pylist()]
        ...     join.late().select(["late_side", "late_source", "late_watermark", "ts"]).to_pylist()
        [{'ts': 20, 'sym': 'B', 'bid': None}, {'ts': 30, 'sym': 'A', 'bid': 7}]
        [{'late_side': 'left', 'late_source': 0, 'late_watermark': 17, 'ts': 10}]

        The mean bid of the quotes at most 2 before each trade, and of the prevailing quote:

        >>> join = tg.IntervalJoin(
        ...     trades.schema, quotes.schema, on="ts", by="sym", lower=-2, upper=0, prevailing=True,
        ...     aggs={"bid": tg.agg.mean("bid")}, columns=["ts"],
        ... )
        >>> for source, rows in zip(join.sources, [trades, quotes]):
        ...     source.push(rows)
        ...     source.close()
        >>> [row for batch in join for row in batch.to_pylist()]
        [{'ts': 10, 'bid': 8.5}, {'ts': 20, 'bid': None}, {'ts': 30, 'bid': 7.5}]

        This join matches orders, each valid for at most 20 time units, with the trades made during
        that time. An order that is valid for longer is set aside:

        >>> orders = pa.table({"ts": [5, 15], "sym": ["A", "A"], "good_for": [6, 30]})
        >>> join = tg.IntervalJoin(
        ...     orders.schema, trades.schema, on="ts", by="sym", lower=0, upper=tg.left.good_for,
        ...     max_width=20, columns=["ts", "price"],
        ... )
        >>> for source, rows in zip(join.sources, [orders, trades]):
        ...     source.push(rows)
        ...     source.close()
        >>> [row for batch in join for row in batch.to_pylist()]
        [{'ts': 5, 'price': 1.0}]
        >>> join.late().select(["late_reason", "ts", "good_for"]).to_pylist()
        [{'late_reason': 'wide', 'ts': 15, 'good_for': 30}]

    Args:
        left: The schema of the left sources: a `pyarrow.Schema`, or data with this schema.
        right: The schema of the right sources: a `pyarrow.Schema`, or data with this schema.
        on: The time column, or a pair of names if the column has a different name on each side.
            Times must be integers, dates or timestamps. Timestamps with time zones are compared as
            instants. The time units of the two sides may differ.
        lower: The start of the interval, as a distance from the left row's time. If the value is
            negative, the interval starts before that time. Give a timedelta, a numpy timedelta64 or
            a string such as "1h30m", "-5s" or "250ms". If times are integers, give an integer in
            the same unit. None sets no bound. To set a separate start for each row, pass an
            expression over the columns of one side, such as `-tg.left.tolerance`, or its SQL text.
            The expression must return a duration or an integer. An expression over left columns may
            also return a time, which is then used as the start itself. If the expression is null
            for a row, that row does not match any row.
        upper: The end of the interval, as a distance from the left row's time. `upper` accepts the
            same values as `lower`, and must not be less than `lower`. If expressions place the end
            of a row's interval before its start, the row does not match any row. None sets no
            bound.
        by: The key columns: a name, a list of names or name pairs, or a mapping from left to right
            names. Two rows match only if all of their keys are equal. Without keys, any two rows
            may match.
        where: A condition that two rows must satisfy to match. Build the condition from
            `tidegate.left` and `tidegate.right` columns, or give it as SQL text. If the condition
            is null, the rows do not match.
        how: Which rows to return. `inner`: all pairs of matching rows. `left`, `right` and `full`:
            also the unmatched rows from the left side, the right side, or both sides. `semi`: only
            the matched left rows. `anti`: only the unmatched left rows. With `aggs`, `how` must be
            `left`, which keeps all left rows, or `inner`, which keeps only left rows that have
            partners. None means `inner`, or `left` if `aggs` is given.
        aggs: Aggregates from `tidegate.agg`, keyed by result column name. Each left row then
            appears once, with aggregates over its partners, which are the right rows that it
            matches. Partners are aggregated in time order. Partners with equal times keep the
            merged order.
        closed: The ends that the interval includes: `both`, `left`, `right` or `neither`.
        prevailing: Whether the last right row with the same key before the interval also counts as
            a partner. The row must also satisfy `where`. `prevailing` requires `aggs`, a `lower`
            bound, and bounds that are the same for all rows.
        max_width: The maximum distance between a row's time and an interval end that is given as an
            expression: a timedelta, a numpy timedelta64, a string such as "1h", or an integer if
            times are integers. To give each side its own value, pass a pair: first the left value,
            then the right one. `max_width` is required if an end is an expression, because it
            determines how long rows are kept and which rows are compared. A greater width means
            that more rows are compared. A row whose interval end is farther away is set aside, like
            a late row.
        load_factor: The load at which `hybrid` and `auto` split keys (the threshold of Algorithm
            1). A thread's load is the number of comparisons it performs, divided by the mean over
            all threads. The factor must be at least 1. With a smaller factor, more keys are split,
            and several threads examine each row with a split key. None means 1.2.
        suffix: The suffix to append to the name of a right column if the left side has a column
            with the same name.
        columns: The columns to include in the result, in this order. With `aggs`, these are the
            left columns to keep. Other columns are not computed. None means all columns.
        sources: The number of left sources and the number of right sources, each from 1 to 32768.
            None means one of each.
        lateness: The maximum time by which rows from a source may be out of order: a timedelta, a
            numpy timedelta64, a string such as "250ms", or an integer if times are integers. To
            give each side its own value, pass a pair: first the left value, then the right one.
            Either value may be a list with one value per source on that side. Both None and 0 mean
            that the rows are in order.
        parallelism: The assignment of keys to threads. `key`: all rows with the same key are
            processed by one thread. `data`: every thread stores all rows, and each thread finds the
            matches for its share of the rows. `hybrid`: the number of threads for a key depends on
            the key's share of all comparisons, which is measured repeatedly. `auto`: without a
            `where`, the same as `key`. With a `where`, `auto` starts as `key` and switches to
            `hybrid` once one thread has far more comparisons to perform than the others. These
            patterns are described in section 3 of the PPOIJ paper; `hybrid` is its Algorithm 1.
            `scale-oij`: each key is assigned to a team of threads, and keys with more rows have
            larger teams. Each row is stored by one thread, which looks for matches in the lists of
            all threads in the team. This is the Scale-OIJ algorithm, included for comparison. With
            `aggs` or `ordered=False`, only `auto` is allowed.
        threads: The number of worker threads, from 1 to 512. None means `default_threads()`.
        memory_limit: The maximum number of bytes for three kinds of rows: pushed rows that have not
            been joined yet, rows that later rows may match, and late rows. None sets no limit. The
            `memory_limit` property describes how sources share the limit.
        ordered: Whether results are emitted in the order that the class description specifies. A
            pair is then held back until no source can deliver an earlier row. If False, a pair is
            emitted by the first poll after both of its rows have been pushed, regardless of
            lateness and other sources. The result contains the same rows, but their order depends
            on the pushes. An unmatched row is emitted once no row from the other side can match it.
            Each row is kept longer, until the other side has passed the row's interval. With
            `aggs`, rows are emitted in order in either case.
        pin: Whether each of the operator's worker threads is pinned to a processor. Pinning helps
            if nothing else uses the processors. Otherwise, pinning slows the operator down. Each
            operator pins its first thread to a different processor. The thread that calls the
            operator is not pinned. Threads are never pinned if an aggregate is a Python function.
            By default, threads are pinned only in a `WindowJoin` with `scalejoin-gates`.
        digest: Whether the operator computes a digest of its results. The `digest()` method returns
            the digest. Each batch is then hashed before it is returned.

    Raises:
        SchemaError: A column is missing or duplicated, or has an unsuitable type.
        TidegateError: Another argument is invalid.
        TypeError: An argument has the wrong type.

    Note:
        If `where` fails, for example because of a division by zero, all subsequent polls raise the
        same error until you call `skip`. Otherwise, rows could be missing from later results.

        If `lower` or `upper` is None, the rows from one side are kept indefinitely.

        With `aggs`, a left row is emitted once no further row can become its partner. A left row's
        position in the result is the last time at which the row could have had a partner, so left
        rows are emitted in merged order.
        The result is bit-for-bit identical to the result of `interval_join` for the same rows in
        merged order. With `prevailing`, the last right row for each key is also kept. If a
        user-defined Python function fails, the next poll calls it again.

        A poll that emits left rows costs as much as a call to `interval_join` with these left rows
        and all right rows still held. Even polls that emit few left rows are slow if many right
        rows are held.

        In memory, each row has an overhead of 40 bytes.
    """

    def __new__(
        cls,
        left: pa.Schema | Table,
        right: pa.Schema | Table,
        *,
        on: Names,
        lower: End,
        upper: End,
        by: KeyNames | None = None,
        where: Expr | str | None = None,
        how: How | None = None,
        aggs: Mapping[str, agg.Aggregate] | None = None,
        closed: Closed = "both",
        prevailing: bool = False,
        max_width: Length | tuple[Length, Length] | None = None,
        load_factor: float | None = None,
        suffix: str = "_right",
        columns: Sequence[str] | None = None,
        sources: tuple[int, int] | None = None,
        lateness: Bound | tuple[Bound | list[Bound], Bound | list[Bound]] = None,
        parallelism: Parallelism = "auto",
        threads: int | None = None,
        memory_limit: Bytes | None = None,
        ordered: bool = True,
        pin: bool | None = None,
        digest: bool = False,
    ) -> Self: ...

@final
class Aggregate(Operator[AggregateStats]):
    """Aggregate rows by key and time window as they are pushed into sources.

    This is the sliding-window aggregation for push sources: the multiway aggregate that Cederman,
    Gulisano, Nikolakopoulos, Papatriantafilou and Tsigas define in section 2. The operator ignores
    late rows. Otherwise, its results are identical, bit for bit, to those of `aggregate` with each
    source as a stream. A window's rows are emitted as soon as no source can deliver a row that
    falls into the window. Result rows are ordered by window, then by key. Sessions are ordered by
    end time, then by key, so that an open session does not hold back others.

    The emitted rows and their order depend only on the input rows, not on the timing or size of
    pushes or on the number of threads.

    This is an `Operator`: threads may push rows into its sources while other threads poll. `poll`
    does not wait, but iteration waits for rows until all sources are closed.

    Example:
        >>> windows = tg.Aggregate(
        ...     trades.schema, on="ts", size=20, advance=10, by="sym",
        ...     aggs={"n": tg.agg.count(), "mean": tg.agg.mean("price")}, sources=2,
        ... )
        >>> first, second = windows.sources
        >>> first.push(trades)
        >>> second.push(pa.table({"ts": [15, 25], "sym": ["A", "B"], "price": [4.0, 5.0]}))
        >>> for row in windows.poll().to_pylist():
        ...     print(row)
        {'window_start': 0, 'window_end': 20, 'sym': 'A', 'n': 2, 'mean': 2.5}

        Later windows are not final, because the second source may still deliver another row at 25:

        >>> second.advance(30)
        >>> [row["n"] for batch in iter(windows.poll, None) for row in batch.to_pylist()]
        [2, 2]
        >>> for source in windows.sources:
        ...     source.close()
        >>> [row["n"] for batch in windows for row in batch.to_pylist()]
        [1, 2, 1]

        A source whose rows are up to 3 out of order:

        >>> with tg.Aggregate(
        ...     trades.schema, on="ts", size=10, aggs={"n": tg.agg.count()}, lateness=3
        ... ) as windows:
        ...     windows.sources[0].push(trades.take([1, 0]))  # 20 was pushed first, so 10 is late
        ...     windows.late().select(["late_source", "late_watermark", "ts"]).to_pylist()
        [{'late_source': 0, 'late_watermark': 17, 'ts': 10}]

        Sessions, which end 10 after their last row:

        >>> sessions = tg.Aggregate(
        ...     trades.schema, on="ts", session=10, by="sym", aggs={"n": tg.agg.count()}
        ... )
        >>> sessions.sources[0].push(trades)
        >>> sessions.sources[0].advance(35)
        >>> for row in sessions.poll().to_pylist():
        ...     print(row)
        {'window_start': 10, 'window_end': 20, 'sym': 'A', 'n': 1}
        {'window_start': 20, 'window_end': 30, 'sym': 'B', 'n': 1}

    Args:
        schema: The schema of all sources: a `pyarrow.Schema`, or data with this schema.
        on: The time column, which must contain integers, dates or timestamps.
        size: The length of a window: a timedelta, a numpy timedelta64, or a string such as "1h30m"
            or "250ms". If times are integers, give an integer in the same unit. The size must be a
            positive whole number of the time column's units. In strings, "1d", "1w", "1mo", "1q",
            "1y" and their multiples are calendar units if the time zone is known, which means that
            the time column has a time zone, `zone` is given, or the column contains dates. Local
            days then have 23 to 25 hours, while "24h" always has 24 hours. `tidegate.rows(n)`
            specifies a number of rows with the same key.
        advance: The time between the starts of successive windows. `advance` accepts the same
            values as `size`. None means `size`. If `advance` is greater than `size`, there are gaps
            between windows. If `size` is in calendar units or is a number of rows, `advance` must
            be, too.
        step: The difference between the lengths of windows that begin at the same time. The result
            then contains running totals: each window of length `size` is preceded by shorter
            windows that end after one step, two steps and so on. `step` accepts durations like
            `size`, and calendar units if `size` is in calendar units.
        closed: The end that a window of length `size` includes: `left`, the default, or `right`.
            With `right`, a row at the start of a window belongs to the window that ends there.
        offset: The offset of window starts from 1970-01-01T00:00 UTC, or from 0 if times are
            integers. `offset` accepts the same values as `size`, and may also be negative or 0.
            None means 0. If `size` is in calendar units, `offset` is added to the local date and
            time: with `size="1mo"` and `offset="14d6h"`, windows begin on the 15th at 06:00.
        zone: The time zone in which calendar units are counted: a name such as "Europe/Berlin", or
            an offset such as "+05:30". None means the time zone of the time column. Times without a
            time zone are in UTC.
        week_start: The first day of windows that consist of weeks: `monday` to `sunday`. None means
            Monday.
        session: How long each row keeps the session of its key open. `session` accepts the same
            values as `size`, except for calendar units, and replaces `size`, `advance` and
            `offset`. If each row has its own gap, `session` is a column or an expression, such as
            `tidegate.row.gap`. Its values are durations, or integers in the same unit as the times,
            and must be greater than 0. A row whose time is exactly the end of a session starts a
            new session.
        windows: A table with one row per window, which replaces `size`. The columns `window_start`
            and `window_end` contain the start of each window, inclusive, and its end, exclusive.
            Windows may overlap, and a row belongs to every window that contains its time. If the
            table has columns with the names of key columns, a window contains only rows with the
            same values in these columns. Other columns are ignored. `tidegate.calendar` returns
            such a table.
        empty: Whether the results contain windows without rows, and what the functions return for
            them. `skip`, the default, omits them. With any other value, windows without rows are
            emitted as soon as the watermark has passed their end. Counts are 0 in these windows.
            For all other functions, `null` returns null, `zero` returns 0, and `last` returns the
            value of the key's previous window with rows. To fill each column differently, give a
            mapping from result column names to these values; columns that are not in the mapping
            are null.
        keep: How long windows continue after a key's last row: `empty` adds windows that start at
            most this long after the start of the key's last window with rows. Required with
            `empty`, because more rows may always arrive for a key.
        end: The time before which every key has windows: with `empty`, the windows of each key end
            with the last window that starts before this time, or with its last non-empty window if
            that is later. Give a date, a time, a string such as "2026-03-02T09:30", or an integer
            if times are integers.
        by: The keys: a column, an expression over `tidegate.row` columns or its SQL text, a list of
            these, or a mapping from names of result columns to them. `"payload.symbol"` is a field
            of a struct, unless a column has this name. Without keys, all rows form one group. Rows
            with a null key also form a group. NaN equals NaN, and 0.0 equals -0.0.
        aggs: The aggregates to compute, as a mapping from result column names to functions from
            `tidegate.agg`.
        where: A condition that selects the rows to aggregate. Build the condition from
            `tidegate.row` columns, or give it as SQL text.
        sources: The number of sources, from 1 to 65536. None means one.
        lateness: The maximum time by which rows from a source may be out of order: a timedelta, a
            numpy timedelta64, a string such as "250ms", or an integer if times are integers. Use a
            list to give each source its own value. Both None and 0 mean that the rows are in order.
        algorithm: The algorithm that assigns rows to windows. All algorithms return the same
            result. `auto` selects `slices`, the fastest algorithm, which aggregates rows into time
            slices that all windows share. `slices` keeps separate states for each stream, and
            combines slices into windows. The other algorithms are designs from section 5 of the
            paper, included for comparison. In `mq` and `mq-lf`, one thread merges the streams and
            updates the windows. The queues in `mq` use locks; those in `mq-lf` are lock-free. In
            `tumlsc` and `tumlmc`, a gate merges the streams. The windows are updated by one thread
            in `tumlsc`, and by many in `tumlmc`. In `wiml`, the streams are not merged, and each
            stream updates the windows independently. The designs from the paper process rows one at
            a time and need far more time and memory. Sessions always use a separate algorithm.
        threads: The number of worker threads, from 1 to 512. None means `default_threads()`.
        memory_limit: The maximum number of bytes for pushed rows that have not been aggregated yet,
            for late rows, and for the state. None sets no limit. The state that a pushed row may
            add is counted in advance, so every accepted row can be aggregated. Batches that polls
            prepare in advance do not count towards the limit. The `memory_limit` property describes
            how sources and the state share the limit.
        digest: Whether the operator computes a digest of its results. The `digest()` method returns
            the digest. Each batch is then hashed before it is returned.

    Raises:
        SchemaError: A column is missing or duplicated, or has an unsuitable type.
        TidegateError: Another argument is invalid.
        TypeError: An argument has the wrong type.

    Note:
        Each row is added to one state per function. The rows themselves are kept only for first and
        last values. The starts and ends of windows divide time into slices. The state holds 8 to 32
        bytes per function, key and slice, for the slices of two windows. Each open session needs an
        additional 56 bytes. Keys without rows in these slices are removed from the state. Values in
        string, binary and decimal columns are also removed if they are neither the smallest nor the
        largest.

        Some functions need all values in a window (`median`, `quantile`, `count_distinct`,
        `collect` and `udf`). For these functions, the operator keeps the rows themselves until
        their windows are complete. A poll that completes a window then takes time proportional to
        the number of rows kept. For sessions, the operator keeps all rows since the start of the
        oldest open session.

        If an aggregate fails, for example because a sum does not fit in 64 bits, all subsequent
        polls raise the same error until you call `skip`. Otherwise, rows could be missing from
        later results. If a user-defined Python function fails, no rows are lost: the next poll
        calls the function again.
    """

    def __new__(
        cls,
        schema: pa.Schema | Table,
        *,
        on: str,
        size: Window | None = None,
        advance: Window | None = None,
        step: Length | None = None,
        closed: ClosedWindow | None = None,
        offset: Length | None = None,
        zone: str | None = None,
        week_start: Weekday | None = None,
        session: Length | Value | None = None,
        windows: Table | None = None,
        empty: Empty | Mapping[str, Empty] | None = None,
        keep: Length | None = None,
        end: Time | None = None,
        by: GroupKeys | None = None,
        aggs: Mapping[str, agg.Aggregate],
        where: Expr | str | None = None,
        sources: int | None = None,
        lateness: Bound | list[Bound] = None,
        algorithm: Algorithm = "auto",
        threads: int | None = None,
        memory_limit: Bytes | None = None,
        digest: bool = False,
    ) -> Self: ...
    def open(self) -> pa.Table:
        """Return the windows that are still open, with their values so far.

        They are the rows that the operator would emit, in this order, if all sources were closed
        now. They include rows that have been pushed but are not final yet. The operator itself is
        unchanged: each window is still emitted once, when it is complete. Results that are complete
        but have not been polled yet are not included. With `empty`, the windows that `keep` and
        `end` add are included.

        The call takes a snapshot and processes its state, so it takes time and memory proportional
        to the state.

        Example:
            >>> windows = tg.Aggregate(trades.schema, on="ts", size=25, aggs={"n": tg.agg.count()})
            >>> windows.sources[0].push(trades)
            >>> windows.open().to_pylist()
            [{'window_start': 25, 'window_end': 50, 'n': 1}]
            >>> windows.poll().to_pylist()
            [{'window_start': 0, 'window_end': 25, 'n': 2}]

        Returns:
            A table with the columns of the results.

        Raises:
            ClosedError: The operator is closed, or was created before this process was forked.
            MemoryLimitError: The system is out of memory.
            TidegateError: A function or a condition cannot be computed, or a source was abandoned.
        """

@final
class WindowJoin(StreamJoin):
    """Match rows that fall within each other's sliding windows as rows are pushed into sources.

    This is the window join for push sources. Each side may have any number of sources. The operator
    ignores late rows, and otherwise returns the same rows as `window_join`. Each row is compared
    with all rows in the other side's window, so any condition is possible. A scan evaluates
    comparisons between numeric columns on the two sides, or between sums and differences of such
    columns. The scan uses the processor's widest SIMD instructions. If few pairs match, matching
    rows are looked up instead.

    The emitted rows and their order depend only on the input rows. The timing and size of pushes,
    the number of threads and `algorithm` do not affect the result. Pairs are ordered by their later
    row in *merged order* (by time, then source with left sources first, then position), then by
    their earlier row. Each row has a last time at which it can match. If the row remains unmatched,
    it is emitted after all pairs with this time. With time-based windows, the last time is the
    row's own time plus its side's window. With row-based windows, it is the time of the newer row
    that pushes the row out of its window. Unmatched rows that are still in row-based windows at the
    end are emitted in merged order.

    This is an `Operator`: threads may push rows into its sources while other threads poll. `poll`
    does not wait, but iteration waits for rows until all sources are closed.

    Example:
        >>> near = abs(tg.left.price - tg.right.bid) <= 7
        >>> join = tg.WindowJoin(trades.schema, quotes.schema, on="ts", window=2, where=near)
        >>> for source, rows in zip(join.sources, [trades, quotes]):
        ...     source.push(rows)
        ...     source.close()
        >>> [(row["ts"], row["ts_right"]) for batch in join for row in batch.to_pylist()]
        [(10, 10), (30, 29), (30, 31)]

        The last two trades and the last two quotes, with two feeds of quotes:

        >>> join = tg.WindowJoin(
        ...     trades.schema, quotes.schema, on="ts", window=tg.rows(2), sources=(1, 2)
        ... )
        >>> for source, rows in zip(join.sources, [trades, quotes[:2], quotes[2:]]):
        ...     source.push(rows)
        >>> join.poll()["ts_right"].to_pylist()  # the first feed may still deliver rows before 20
        [8, 10]

    Args:
        left: The schema of the left sources: a `pyarrow.Schema`, or data with this schema.
        right: The schema of the right sources: a `pyarrow.Schema`, or data with this schema.
        on: The time column, or a pair of names if the column has a different name on each side.
            Times must be integers, dates or timestamps. Timestamps with time zones are compared as
            instants. The time units of the two sides may differ.
        window: How long a row stays in its side's window. Give a timedelta, a numpy timedelta64, a
            string such as "15m", or an integer if times are integers. For a row-based window, use
            `tidegate.rows(n)`, which keeps the last n rows regardless of their keys. To give each
            side its own window, pass a pair: first the left window, then the right one.
        by: The key columns: a name, a list of names or name pairs, or a mapping from left to right
            names. Two rows match only if all of their keys are equal. Without keys, any two rows
            may match.
        where: A condition that two rows must satisfy to match. Build the condition from
            `tidegate.left` and `tidegate.right` columns, or give it as SQL text. If the condition
            is null, the rows do not match.
        how: Which rows to return. `inner`: all pairs of matching rows. `left`, `right` and `full`:
            also the unmatched rows from the left side, the right side, or both sides. `semi`: only
            the matched left rows. `anti`: only the unmatched left rows. With `aggs`, `how` must be
            `left`, which keeps all left rows, or `inner`, which keeps only left rows that have
            partners. None means `inner`, or `left` if `aggs` is given.
        aggs: Aggregates from `tidegate.agg`, keyed by result column name. Each left row then
            appears once, with aggregates over its partners, which are the right rows that it
            matches. Partners are aggregated in time order. Partners with equal times keep the
            merged order.
        suffix: The suffix to append to the name of a right column if the left side has a column
            with the same name.
        columns: The columns to include in the result, in this order. With `aggs`, these are the
            left columns to keep. Other columns are not computed. None means all columns.
        sources: The number of left sources and the number of right sources, each from 1 to 32768.
            None means one of each.
        lateness: The maximum time by which rows from a source may be out of order: a timedelta, a
            numpy timedelta64, a string such as "250ms", or an integer if times are integers. To
            give each side its own value, pass a pair: first the left value, then the right one.
            Either value may be a list with one value per source on that side. Both None and 0 mean
            that the rows are in order.
        algorithm: The algorithm that divides the comparisons among threads. `auto`: each thread
            processes a share of the new rows. If a sample of pairs shows that lookups by value are
            faster, `auto` looks up matches instead of comparing all pairs. `scalejoin`: rows are
            distributed among the threads round robin, and each thread compares new rows with its
            share of the windows (ScaleJoin, Algorithm 1). `scalejoin-gates`: ScaleJoin as
            published. Each thread reads rows one at a time from one gate, and adds its results to
            another gate. `splitjoin`: rows are also processed one at a time. One tree distributes
            them to the threads, and another tree collects the results (SplitJoin). `cell`: the
            window that a row is compared with is divided into one piece per thread (CellJoin).
            `three-step`: a single thread makes all comparisons (Kang's procedure).
            `low-latency-handshake`: rows pass quickly through a chain of threads, and each row is
            stored by one thread in the chain (Low-Latency Handshake Join, Figures 12 to 14). If the
            condition requires numbers to be equal, rows are looked up in a hash table. Otherwise,
            rows are sorted by their value in the first band, and looked up if only a few rows are
            within reach. `handshake`: the two windows flow past each other through the chain of
            threads (the handshake join of Teubner and Mueller). With `handshake`, results are
            therefore emitted only after the left window has passed and subsequent rows have moved
            the chain forward. The number of results held back depends on the number of threads.
            These results are released when a snapshot is taken or all sources are closed. Results
            that are held back do not count towards the memory limit. Expired rows are removed when
            further rows arrive, not when sources call `advance`. With `scalejoin-gates` and both
            handshake joins, threads continue to process a poll's rows after the poll has returned.
            With `aggs`, only `auto` is allowed.
        threads: The number of worker threads, from 1 to 512. None means `default_threads()`.
        memory_limit: The maximum number of bytes for three kinds of rows: pushed rows that have not
            been joined yet, rows that later rows may match, and late rows. None sets no limit. The
            `memory_limit` property describes how sources share the limit.
        ordered: Whether results are emitted in the order that the class description specifies. A
            pair is then held back until no source can deliver an earlier row. If False, with
            time-based windows and `algorithm` set to `auto`, a pair is emitted by the first poll
            after both of its rows have been pushed, regardless of lateness and other sources. The
            result contains the same rows, but their order depends on the pushes. An unmatched row
            is emitted once no row from the other side can match it. Each row is kept longer, until
            the other side has passed the row's window. Row-based windows and the other algorithms
            depend on the merged order, so their pairs are still held back. Pairs joined in the same
            step are then emitted in any order. With `aggs`, rows are emitted in order in either
            case.
        pin: Whether each of the operator's worker threads is pinned to a processor. Pinning helps
            if nothing else uses the processors. Otherwise, pinning slows the operator down. Each
            operator pins its first thread to a different processor. The thread that calls the
            operator is not pinned. Threads are never pinned if an aggregate is a Python function.
            By default, threads are pinned only in a `WindowJoin` with `scalejoin-gates`.
        digest: Whether the operator computes a digest of its results. The `digest()` method returns
            the digest. Each batch is then hashed before it is returned.

    Raises:
        SchemaError: A column is missing or duplicated, or has an unsuitable type.
        TidegateError: A window is negative, or another argument is invalid.
        TypeError: An argument has the wrong type.

    Note:
        If `where` fails, for example because of a division by zero, all subsequent polls raise the
        same error until you call `skip`. Otherwise, rows could be missing from later results.

        Keys are compared like other numbers, without an index. If windows are time-based and there
        are few rows per key, `IntervalJoin` makes far fewer comparisons.

        With `aggs`, a left row is emitted once no further row can become its partner. A left row's
        position in the result is the last time at which the row could have had a partner, so left
        rows are emitted in merged order.
        The result is bit-for-bit identical to the result of `window_join` for the same rows in
        merged order. Row-based windows are not allowed. If a user-defined Python function fails,
        the next poll calls it again. With `aggs`, each row has an overhead of 40 bytes.

        A poll that emits left rows costs as much as a call to `window_join` with these left rows
        and all right rows still held. Even polls that emit few left rows are slow if many right
        rows are held.

        Without `aggs`, each row needs an additional 90 to 260 bytes for the values that are
        compared.
    """

    def __new__(
        cls,
        left: pa.Schema | Table,
        right: pa.Schema | Table,
        *,
        on: Names,
        window: Window | tuple[Window, Window],
        by: KeyNames | None = None,
        where: Expr | str | None = None,
        how: How | None = None,
        aggs: Mapping[str, agg.Aggregate] | None = None,
        suffix: str = "_right",
        columns: Sequence[str] | None = None,
        sources: tuple[int, int] | None = None,
        lateness: Bound | tuple[Bound | list[Bound], Bound | list[Bound]] = None,
        algorithm: WindowAlgorithm = "auto",
        threads: int | None = None,
        memory_limit: Bytes | None = None,
        ordered: bool = True,
        pin: bool | None = None,
        digest: bool = False,
    ) -> Self: ...

@final
class OverlapJoin(StreamJoin):
    """Match rows whose intervals overlap as rows are pushed into sources.

    This is the overlap join for push sources. Each side may have any number of sources, which
    deliver rows in the order of their starts. The operator ignores late rows and rows that are
    longer than `max_width`, and otherwise returns the same rows as `overlap_join`. A pair is
    emitted as soon as no source can deliver a row that precedes the pair's later row. Rows are in
    *merged order*: by start, then source (left sources first), then position. In left, right, full
    and anti joins, an unmatched row is emitted once no further row can overlap it. Rows are kept
    only as long as later rows may overlap them.

    The emitted rows and their order depend only on the input rows. The timing and size of pushes
    and the number of threads do not affect the result. Pairs are ordered by their later row in
    merged order, then by their earlier row. Each row has a last time at which it can match: the
    row's start plus its side's `max_width`, minus `min_overlap`. If the row remains unmatched, it
    is emitted after all pairs with this time. With `closed="left"`, the last time is at least one
    unit earlier.

    This is an `Operator`: threads may push rows into its sources while other threads poll. `poll`
    does not wait, but iteration waits for rows until all sources are closed.

    Example:
        This join matches each alarm with the jobs that were running during the alarm. The job that
        started at 40 is too long:

        >>> alarms = pa.table({"alarm": ["A", "B"], "start": [10, 20], "end": [15, 29]})
        >>> jobs = pa.table({"job": ["x", "y", "z"], "start": [0, 12, 40], "end": [30, 14, 99]})
        >>> join = tg.OverlapJoin(
        ...     alarms.schema, jobs.schema, on=("start", "end"), max_width=(10, 50),
        ...     columns=["alarm", "job"],
        ... )
        >>> for source, rows in zip(join.sources, [alarms, jobs]):
        ...     source.push(rows)
        ...     source.close()
        >>> [tuple(row.values()) for batch in join for row in batch.to_pylist()]
        [('A', 'x'), ('A', 'y'), ('B', 'x')]
        >>> join.late().select(["late_reason", "job"]).to_pylist()
        [{'late_reason': 'wide', 'job': 'z'}]

        The number of jobs that were running at each time:

        >>> ticks = pa.table({"ts": [5, 13, 31]})
        >>> join = tg.OverlapJoin(
        ...     ticks.schema, jobs.schema, on=(("ts", "ts"), ("start", "end")), max_width=50,
        ...     aggs={"running": tg.agg.count()},
        ... )
        >>> for source, rows in zip(join.sources, [ticks, jobs]):
        ...     source.push(rows)
        ...     source.close()
        >>> [row for batch in join for row in batch.to_pylist()]
        [{'ts': 5, 'running': 1}, {'ts': 13, 'running': 2}, {'ts': 31, 'running': 0}]

    Args:
        left: The schema of the left sources: a `pyarrow.Schema`, or data with this schema.
        right: The schema of the right sources: a `pyarrow.Schema`, or data with this schema.
        on: The names of the start and end columns. If the names differ between the sides, give a
            pair of names for each side, as in `(("ts", "ts"), ("start", "end"))`. If a side has a
            single time column, give its name twice. Each row on that side then matches the
            intervals that contain its time. The columns must contain integers, dates or timestamps.
            Sources deliver rows in the order of their starts, so a start must not be null. A row
            with a null end does not match any row.
        by: The key columns: a name, a list of names or name pairs, or a mapping from left to right
            names. Two rows match only if all of their keys are equal. Without keys, any two rows
            may match.
        where: A condition that two rows must satisfy to match. Build the condition from
            `tidegate.left` and `tidegate.right` columns, or give it as SQL text. If the condition
            is null, the rows do not match.
        how: Which rows to return. `inner`: all pairs of matching rows. `left`, `right` and `full`:
            also the unmatched rows from the left side, the right side, or both sides. `semi`: only
            the matched left rows. `anti`: only the unmatched left rows. With `aggs`, `how` must be
            `left`, which keeps all left rows, or `inner`, which keeps only left rows that have
            partners. None means `inner`, or `left` if `aggs` is given.
        aggs: Aggregates from `tidegate.agg`, keyed by result column name. Each left row then
            appears once, with aggregates over its partners, which are the right rows that it
            matches. Partners are aggregated in time order. Partners with equal times keep the
            merged order.
        closed: Whether intervals include their ends. They always include their start. `both`:
            intervals include their ends, so two intervals that merely touch also overlap. `left`:
            intervals exclude their ends, so intervals that touch do not overlap, and empty
            intervals do not overlap any interval.
        min_overlap: The minimum length of the overlap, as a timedelta, a numpy timedelta64, a
            string such as "5s", or an integer if the columns contain integers. If None, any overlap
            is sufficient, even a single point.
        max_width: The maximum length of a row, from its start to its end: a timedelta, a numpy
            timedelta64, a string such as "1h", or an integer if times are integers. To give each
            side its own value, pass a pair: first the left value, then the right one. `max_width`
            is required unless both sides have a single time column, because it determines how long
            rows are kept and which rows are compared. A greater width means that more rows are
            compared. A longer row is set aside, like a late row.
        suffix: The suffix to append to the name of a right column if the left side has a column
            with the same name.
        columns: The columns to include in the result, in this order. With `aggs`, these are the
            left columns to keep. Other columns are not computed. None means all columns.
        sources: The number of left sources and the number of right sources, each from 1 to 32768.
            None means one of each.
        lateness: The maximum time by which rows from a source may be out of order: a timedelta, a
            numpy timedelta64, a string such as "250ms", or an integer if times are integers. To
            give each side its own value, pass a pair: first the left value, then the right one.
            Either value may be a list with one value per source on that side. Both None and 0 mean
            that the rows are in order.
        threads: The number of worker threads, from 1 to 512. None means `default_threads()`.
        memory_limit: The maximum number of bytes for three kinds of rows: pushed rows that have not
            been joined yet, rows that later rows may match, and late rows. None sets no limit. The
            `memory_limit` property describes how sources share the limit.
        ordered: Whether results are emitted in the order that the class description specifies. A
            pair is then held back until no source can deliver an earlier row. If False, a pair is
            emitted by the first poll after both of its rows have been pushed, regardless of
            lateness and other sources. The result contains the same rows, but their order depends
            on the pushes. An unmatched row is emitted once no row from the other side can match it.
            Each row is kept longer, until the other side has passed the row's interval. With
            `aggs`, rows are emitted in order in either case.
        pin: Whether each of the operator's worker threads is pinned to a processor. Pinning helps
            if nothing else uses the processors. Otherwise, pinning slows the operator down. Each
            operator pins its first thread to a different processor. The thread that calls the
            operator is not pinned. Threads are never pinned if an aggregate is a Python function.
            By default, threads are pinned only in a `WindowJoin` with `scalejoin-gates`.
        digest: Whether the operator computes a digest of its results. The `digest()` method returns
            the digest. Each batch is then hashed before it is returned.

    Raises:
        SchemaError: A column is missing or duplicated, or has an unsuitable type.
        TidegateError: Another argument is invalid.
        TypeError: An argument has the wrong type.

    Note:
        A push fails if one of its rows starts after its end. The error names the row.

        If `where` fails, for example because of a division by zero, all subsequent polls raise the
        same error until you call `skip`. Otherwise, rows could be missing from later results.

        With `aggs`, a left row is emitted once no further row can overlap it. Left rows are emitted
        in merged order. The result is bit-for-bit identical to the result of `overlap_join` for the
        same rows in merged order. If a user-defined Python function fails, the next poll calls it
        again.

        In a join with `aggs`, a poll that emits left rows costs as much as a call to `overlap_join`
        with those left rows and all right rows that are still held.

        In memory, each row has an overhead of 56 bytes, or 40 bytes with `aggs`.
    """

    def __new__(
        cls,
        left: pa.Schema | Table,
        right: pa.Schema | Table,
        *,
        on: IntervalNames,
        by: KeyNames | None = None,
        where: Expr | str | None = None,
        how: How | None = None,
        aggs: Mapping[str, agg.Aggregate] | None = None,
        closed: ClosedEnds = "both",
        min_overlap: Length | None = None,
        max_width: Length | tuple[Length, Length] | None = None,
        suffix: str = "_right",
        columns: Sequence[str] | None = None,
        sources: tuple[int, int] | None = None,
        lateness: Bound | tuple[Bound | list[Bound], Bound | list[Bound]] = None,
        threads: int | None = None,
        memory_limit: Bytes | None = None,
        ordered: bool = True,
        pin: bool | None = None,
        digest: bool = False,
    ) -> Self: ...

@final
class BandJoin(StreamJoin):
    """Match rows with close values over sliding windows as rows are pushed into sources.

    This is the band join for push sources (the index-based window join of Shahvarani and Jacobsen,
    sections 2 to 4). Each side may have any number of sources. The operator ignores late rows, and
    otherwise returns the same rows as `band_join`. Each side's window is indexed by value. Each row
    is added to its own side's index and looked up in the other side's index. Pairs outside the band
    are never examined.

    The emitted rows and their order depend only on the input rows. The timing and size of pushes,
    the number of threads and `algorithm` do not affect the result. Pairs are ordered by their later
    row in *merged order* (by time, then source with left sources first, then position), then by
    their earlier row. Each row has a last time at which it can match. If the row remains unmatched,
    it is emitted after all pairs with this time. With time-based windows, the last time is the
    row's own time plus its side's window. With row-based windows, it is the time of the newer row
    that pushes the row out of its window.

    With `right=None`, rows from the same stream are joined with each other. Each row acts as a left
    row. Each row is matched with all preceding rows (in merged order) within the window. These act
    as right rows. Each pair of rows therefore appears only once, and no row matches itself. A
    self-join keeps one index instead of two.

    This is an `Operator`: threads may push rows into its sources while other threads poll. `poll`
    does not wait, but iteration waits for rows until all sources are closed.

    Example:
        >>> join = tg.BandJoin(
        ...     trades.schema, quotes.schema, on=[("price", "bid")], within=7, time="ts", window=2
        ... )
        >>> for source, rows in zip(join.sources, [trades, quotes]):
        ...     source.push(rows)
        ...     source.close()
        >>> [(row["ts"], row["ts_right"]) for batch in join for row in batch.to_pylist()]
        [(10, 10), (30, 29), (30, 31)]
        >>> join.stats()["index"]
        'buckets on right.bid'

        Quotes that are at most two time units apart and have similar bids, each pair once:

        >>> join = tg.BandJoin(quotes.schema, None, on="bid", within=2, time="ts", window=2)
        >>> with join.sources[0] as source:
        ...     source.push(quotes)
        >>> [(row["ts"], row["ts_right"]) for batch in join for row in batch.to_pylist()]
        [(10, 8), (31, 29)]

    Args:
        left: The schema of the left sources: a `pyarrow.Schema`, or data with this schema.
        right: The schema of the right sources: a `pyarrow.Schema`, or data with this schema. If
            `right` is None, rows from the left sources are joined with each other. Such a self-join
            accepts single names, not pairs, for `on`, `by` and `time`. The self-join has only one
            `window`, and `how` must be `inner`.
        on: The band columns: a name, a list of names or name pairs, or a mapping from left to right
            names. Band columns must contain integers, floats, decimals, dates or timestamps. If a
            column contains floats on either side, both sides are compared as floats.
        within: The maximum distance between the values in two matching rows. Give one distance for
            all columns, a list with one distance per column, or a mapping from left column names to
            distances. A distance is a number. For integer times, the distance must be an integer.
            For dates and timestamps, the distance is a timedelta, a numpy timedelta64 or a string
            such as "250ms". A pair `(below, above)` means `l.on - below <= r.on <= l.on + above`,
            where None sets no bound.
        time: The time column that orders the rows for `window`, or a pair of names if the column
            has a different name on each side.
        window: How long a row stays in its side's window. Give a timedelta, a numpy timedelta64, a
            string such as "15m", or an integer if times are integers. For a row-based window, use
            `tidegate.rows(n)`, which keeps the last n rows regardless of their keys. To give each
            side its own window, pass a pair: first the left window, then the right one.
        by: The key columns: a name, a list of names or name pairs, or a mapping from left to right
            names. Two rows match only if all of their keys are equal. Without keys, any two rows
            may match.
        where: A condition that two rows must satisfy to match. Build the condition from
            `tidegate.left` and `tidegate.right` columns, or give it as SQL text. If the condition
            is null, the rows do not match.
        how: Which rows to return. `inner`: all pairs of matching rows. `left`, `right` and `full`:
            also the unmatched rows from the left side, the right side, or both sides. `semi`: only
            the matched left rows. `anti`: only the unmatched left rows. With `aggs`, `how` must be
            `left`, which keeps all left rows, or `inner`, which keeps only left rows that have
            partners. None means `inner`, or `left` if `aggs` is given.
        aggs: Aggregates from `tidegate.agg`, keyed by result column name. Each left row then
            appears once, with aggregates over its partners, which are the right rows that it
            matches. Partners are aggregated in time order. Partners with equal times keep the
            merged order.
        settings: A dict with settings for the index that `algorithm` selects. `pim-tree` has two
            settings. `merge_ratio` is the number of rows at which subindexes are merged, as a
            fraction of the rows in the window. The ratio must be greater than 0 and at most 1.
            `insertion_depth` is the depth of the subindexes in the tree, from 0 to 32. `im-tree`
            accepts only `merge_ratio`. `b-chain` and `ib-chain` accept `chain_length`, from 2 to
            1024. `ibwj` and `ibwj-blocking` accept `merge_ratio`, `insertion_depth` and
            `task_rows`, the number of rows per task, from 1 to 65536. `ibwj-bplus-tree` accepts
            only `task_rows`. None selects the settings that were fastest in benchmarks.
        suffix: The suffix to append to the name of a right column if the left side has a column
            with the same name.
        columns: The columns to include in the result, in this order. With `aggs`, these are the
            left columns to keep. Other columns are not computed. None means all columns.
        sources: The number of left sources and the number of right sources, each from 1 to 32768.
            None means one of each. If `right` is None, there are no right sources: `sources=(3, 0)`
            creates three left sources.
        lateness: The maximum time by which rows from a source may be out of order: a timedelta, a
            numpy timedelta64, a string such as "250ms", or an integer if times are integers. To
            give each side its own value, pass a pair: first the left value, then the right one.
            Either value may be a list with one value per source on that side. If `right` is None,
            use a single list instead of a pair. Both None and 0 mean that the rows are in order.
        algorithm: The index for finding matching rows in a side's window: `buckets`, `pim-tree`,
            `im-tree`, `bplus-tree`, `b-chain`, `ib-chain` or `round-robin`. All algorithms return
            the same rows in the same order. With `ibwj` and `ibwj-blocking`, threads run tasks of a
            few rows each on shared PIM-Trees (section 4 of the paper). Only `ibwj` merges the trees
            while tasks are running. With `ibwj-bplus-tree`, the same tasks run on shared B+-trees,
            which are never merged. `auto` selects `buckets`, which computes the positions of blocks
            for many rows at a time instead of searching for each block. With `aggs`, `auto` uses
            the algorithm of `band_join`.
        threads: The number of worker threads, from 1 to 512. None means `default_threads()`.
        memory_limit: The maximum number of bytes for three kinds of rows: pushed rows that have not
            been joined yet, rows that later rows may match, and late rows. None sets no limit. The
            `memory_limit` property describes how sources share the limit.
        ordered: Whether results are emitted in the order that the class description specifies. A
            pair is then held back until no source can deliver an earlier row. If False, with
            time-based windows and `algorithm` set to `auto`, a pair is emitted by the first poll
            after both of its rows have been pushed, regardless of lateness and other sources. The
            result contains the same rows, but their order depends on the pushes. An unmatched row
            is emitted once no row from the other side can match it. Each row is kept longer, until
            the other side has passed the row's window. Row-based windows and the other algorithms
            depend on the merged order, so their pairs are still held back. Pairs joined in the same
            step are then emitted in any order. Pairs of a self-join are also held back. With
            `aggs`, rows are emitted in order in either case.
        pin: Whether each of the operator's worker threads is pinned to a processor. Pinning helps
            if nothing else uses the processors. Otherwise, pinning slows the operator down. Each
            operator pins its first thread to a different processor. The thread that calls the
            operator is not pinned. Threads are never pinned if an aggregate is a Python function.
            By default, threads are pinned only in a `WindowJoin` with `scalejoin-gates`.
        digest: Whether the operator computes a digest of its results. The `digest()` method returns
            the digest. Each batch is then hashed before it is returned.

    Raises:
        SchemaError: A column is missing or duplicated, or has an unsuitable type.
        TidegateError: A distance or a window is negative, or another argument is invalid.
        TypeError: An argument has the wrong type.

    Note:
        If `where` fails, for example because of a division by zero, all subsequent polls raise the
        same error until you call `skip`. Otherwise, rows could be missing from later results.

        With several columns, or with `by`, one column is indexed, and the values in the other
        columns are compared. The indexed column is the one that yields the fewest candidates in an
        initial sample of rows. Later samples may select a different column.

        With `aggs`, a left row is emitted once no further row can become its partner. A left row's
        position in the result is the last time at which the row could have had a partner, so left
        rows are emitted in merged order.
        The result is bit-for-bit identical to the result of `band_join` for the same rows in merged
        order. Row-based windows are not allowed. If a user-defined Python function fails, the next
        poll calls it again. With `aggs`, each row has an overhead of 40 bytes.

        A poll that emits left rows costs as much as a call to `band_join` with these left rows and
        all right rows still held. Even polls that emit few left rows are slow if many right rows
        are held.

        In memory, each row has an overhead of 40 bytes. If the result has several columns of 8-byte
        values, each of these columns adds about 16 bytes per row, because its values are also kept
        row by row. `explain` shows the number of bytes that each row needs.
    """

    def __new__(
        cls,
        left: pa.Schema | Table,
        right: pa.Schema | Table | None,
        *,
        on: str | Sequence[Names] | Mapping[str, str],
        within: Within | list[Within] | Mapping[str, Within],
        time: Names,
        window: Window | tuple[Window, Window],
        by: KeyNames | None = None,
        where: Expr | str | None = None,
        how: How | None = None,
        aggs: Mapping[str, agg.Aggregate] | None = None,
        settings: Mapping[str, float] | None = None,
        suffix: str = "_right",
        columns: Sequence[str] | None = None,
        sources: tuple[int, int] | None = None,
        lateness: Bound | list[Bound] | tuple[Bound | list[Bound], Bound | list[Bound]] = None,
        algorithm: BandAlgorithm = "auto",
        threads: int | None = None,
        memory_limit: Bytes | None = None,
        ordered: bool = True,
        pin: bool | None = None,
        digest: bool = False,
    ) -> Self: ...

def default_threads() -> int:
    """Return the default number of threads for a call.

    The default is the smallest of three numbers: the number of processors that this process may
    use, its CPU share in a container, and `OMP_NUM_THREADS`. Spark sets `OMP_NUM_THREADS` to the
    number of cores per worker.

    Example:
        >>> tg.default_threads() >= 1
        True
    """

def release_memory() -> bool:
    """Release the memory that is kept for subsequent calls.

    When a large array is dropped, its memory is kept, so that the next call can reuse it. Up to 320
    MiB is kept, plus up to 4 GiB that Linux reclaims as soon as any process needs memory. Memory
    that is still used by results is not released. The environment variable `TIDEGATE_POOL_BYTES`,
    which is read on import, sets the maximum number of bytes to keep. With 0, all memory is
    returned to the system immediately, but calls are slower. On Linux with glibc, this function
    also calls `malloc_trim`, which returns free pages between small arrays, including arrays that
    belong to other libraries.

    Example:
        >>> tg.release_memory() in (True, False)
        True

    Returns:
        Whether there was any memory to release.
    """

@final
class Digest:
    """A digest of rows that are added batch by batch.

    The size of a digest does not depend on the number of rows. The `digest` function computes the
    digest of a whole table. The documentation of `digest` specifies which rows have equal digests.

    Args:
        schema: The columns of the rows: a `pyarrow.Schema`, or data with this schema.

    Raises:
        TypeError: The argument has no schema.

    Example:
        >>> digest = tg.Digest(trades.schema)
        >>> for batch in trades.to_batches(max_chunksize=1):
        ...     digest.update(batch)
        >>> digest.rows
        3
        >>> digest.ordered == tg.digest(trades)
        True
        >>> digest.unordered == tg.digest(trades, ordered=False)
        True
    """

    def __new__(cls, schema: pa.Schema | Table) -> Self: ...
    def _update(self, data: ArrowSource, threads: int | None) -> None: ...
    def update(self, data: Table, *, threads: int | None = None) -> None:
        """Append rows to those already added.

        Example:
            >>> digest = tg.Digest(trades.schema)
            >>> digest.update(trades)
            >>> digest.update(quotes)
            Traceback (most recent call last):
            tidegate.SchemaError: column 2: expected `price` of kind float, ...

        Args:
            data: Arrow data, a file, a lazy frame or a dict of columns. The rows are read batch by
                batch.
            threads: The number of worker threads, from 1 to 512. None means `default_threads()`.

        Raises:
            SchemaError: A column's name or the kind of its type differs. No row was added.
            TidegateError: `threads` is out of range, or the data cannot be read. No row was added.
            TypeError: The data has an unsupported type.
        """

    def append(self, later: Digest) -> None:
        """Append the rows of another digest, as if they had been added to this digest.

        The rows can therefore be digested where they are stored. A digest can be pickled.

        Example:
            >>> first, rest = tg.Digest(trades.schema), tg.Digest(trades.schema)
            >>> first.update(trades.slice(0, 1))
            >>> rest.update(trades.slice(1))
            >>> first.append(rest)
            >>> first.ordered == tg.digest(trades)
            True

        Args:
            later: The digest of the rows to append; it does not change.

        Raises:
            SchemaError: A column's name or the kind of its type differs. No row was appended.
            TypeError: `later` is not a digest.
        """

    @property
    def rows(self) -> int:
        """The number of rows added so far.

        Example:
            >>> tg.Digest(trades.schema).rows
            0
        """

    @property
    def ordered(self) -> str:
        """The digest of the rows in order, as 32 hexadecimal digits.

        Example:
            >>> digest = tg.Digest(trades.schema)
            >>> digest.update(trades)
            >>> digest.ordered
            '126cab761344e5652daf7239aa5e6b94'
        """

    @property
    def unordered(self) -> str:
        """An order-independent digest of the rows, as 32 hexadecimal digits.

        Example:
            >>> digest = tg.Digest(trades.schema)
            >>> digest.update(trades)
            >>> digest.unordered
            '0c12aa90da8abdd4e782350b7f41956d'
        """

    @property
    def sum(self) -> str:
        """The sum from which `unordered` is computed, as 32 hexadecimal digits.

        Adding the sums of several sets of rows modulo 2^128 gives the sum for all of these rows.
        Sums can therefore be computed where the rows are stored, as is done for streams on Spark.
        The sum does not depend on the names and types of the columns.

        Example:
            >>> whole, first, rest = (tg.Digest(trades.schema) for _ in range(3))
            >>> whole.update(trades)
            >>> first.update(trades.slice(0, 1))
            >>> rest.update(trades.slice(1))
            >>> added = int(first.sum, 16) + int(rest.sum, 16)
            >>> f"{added % 2**128:032x}" == whole.sum
            True
        """

    def __reduce__(self) -> tuple[Any, ...]: ...

def unpickled_digest(columns: list[tuple[str, str]], state: bytes) -> Digest:
    """Return a digest that has been pickled."""

@final
class JoinPlan:
    """The columns that a join of two tables will read and return.

    `tidegate.explain` shows a description of the plan. On Spark, the join sends only the columns
    listed in the plan. The `tidegate` command reads only these columns from files.

    Example:
        >>> from tidegate._tidegate import interval_join_query
        >>> plan = interval_join_query(
        ...     on="ts", by="sym", lower=-2, upper=0, where="right.bid > 6", columns=["ts", "price"]
        ... ).plan(trades, quotes)
        >>> plan.left_columns, plan.right_columns
        (['ts', 'sym', 'price'], ['ts', 'sym', 'bid'])
    """

    @property
    def _inputs(self) -> list[pa.Schema]: ...
    @property
    def explanation(self) -> str:
        """A few lines of text that explain what the join would do.

        Example:
            >>> from tidegate._tidegate import interval_join_query
            >>> plan = interval_join_query(on="ts", lower=-2, upper=0).plan(trades, quotes)
            >>> plan.explanation.splitlines()[0]
            'interval_join (inner)'
        """

    @property
    def schema(self) -> pa.Schema:
        """The schema of the result.

        Example:
            >>> from tidegate._tidegate import interval_join_query
            >>> interval_join_query(on="ts", lower=-2, upper=0).plan(trades, quotes).schema.names
            ['ts', 'sym', 'price', 'ts_right', 'sym_right', 'bid']
        """

    @property
    def left_columns(self) -> list[str]:
        """The columns that the join reads from the left input, in input order.

        The list includes the columns that the join compares, the columns that the condition reads,
        and the result columns.

        Example:
            >>> from tidegate._tidegate import interval_join_query
            >>> plan = interval_join_query(
            ...     on="ts", lower=-2, upper=0, columns=["bid"]
            ... ).plan(trades, quotes)
            >>> plan.left_columns
            ['ts']
        """

    @property
    def right_columns(self) -> list[str]:
        """The columns that the join reads from the right input, in input order.

        Example:
            >>> from tidegate._tidegate import interval_join_query
            >>> plan = interval_join_query(
            ...     on="ts", lower=-2, upper=0, columns=["bid"]
            ... ).plan(trades, quotes)
            >>> plan.right_columns
            ['ts', 'bid']
        """

    @property
    def needed(self) -> tuple[list[str], list[str]]:
        """The columns that the inputs must contain for the join to return the same result.

        The list includes the columns that the join reads, plus every left column whose name
        requires a suffix on a right column.

        Example:
            >>> from tidegate._tidegate import interval_join_query
            >>> plan = interval_join_query(
            ...     on="ts", lower=-2, upper=0, columns=["sym_right"]
            ... ).plan(trades, quotes)
            >>> plan.left_columns, plan.needed
            (['ts'], (['ts', 'sym'], ['ts', 'sym']))
        """

    @property
    def origins(self) -> list[tuple[str | None, str | None]]:
        """The left and right columns from which each result column is computed.

        If a key has the same name on both sides, and the result may include unmatched right rows,
        the key is computed from both columns.

        Example:
            >>> from tidegate._tidegate import interval_join_query
            >>> plan = interval_join_query(
            ...     on="ts", by="sym", lower=-2, upper=0, how="full"
            ... ).plan(trades, quotes)
            >>> dict(zip(plan.schema.names, plan.origins))["sym"]
            ('sym', 'sym')
        """

    @property
    def keys(self) -> list[tuple[str, str]]:
        """For each key, the left column and the right column.

        Example:
            >>> from tidegate._tidegate import interval_join_query
            >>> interval_join_query(on="ts", by="sym", lower=-2, upper=0).plan(trades, quotes).keys
            [('sym', 'sym')]
        """

    @property
    def bands(self) -> list[_Reach]:
        """The band columns, each with the smallest and largest possible `right - left` of a pair.

        A difference is a float if either side is a float, and an integer otherwise. Differences
        between times use the finer of the two sides' units, and differences between decimals use
        units of the last decimal place. None means that there is no bound.

        Example:
            >>> from tidegate._tidegate import band_join_query
            >>> band_join_query(on={"price": "bid"}, within=(1.5, None)).plan(trades, quotes).bands
            [(('price', 'bid'), (-1.5, None))]
        """

    @property
    def time(self) -> _Reach | None:
        """The time columns, with the smallest and largest possible `right - left` of a pair.

        The differences use the finer of the two sides' units. None means that there is no bound, as
        for row-based windows. For a band join without windows, `time` itself is None.

        Example:
            >>> from tidegate._tidegate import interval_join_query, window_join_query
            >>> interval_join_query(on="ts", lower=-2, upper=None).plan(trades, quotes).time
            (('ts', 'ts'), (-2, None))
            >>> window_join_query(on="ts", window=(3, 5)).plan(trades, quotes).time
            (('ts', 'ts'), (-5, 3))
        """

    @property
    def distances(self) -> tuple[int | None, int | None]:
        """The smallest and the largest time difference `right - left` of a pair, inclusive.

        The differences use the finer of the two sides' units. None means that there is no bound,
        for example because an end is computed from columns.

        Example:
            >>> from tidegate._tidegate import interval_join_query
            >>> query = interval_join_query(on="ts", lower=-2, upper=5, closed="left")
            >>> query.plan(trades, quotes).distances
            (-2, 4)
        """

    @property
    def intervals(self) -> tuple[tuple[str, str], tuple[str, str]] | None:
        """The start and end columns on each side, or None if rows have a single time.

        Example:
            >>> from tidegate._tidegate import overlap_join_query
            >>> overlap_join_query(on=("ts", "ts")).plan(trades, quotes).intervals
            (('ts', 'ts'), ('ts', 'ts'))
        """

    @property
    def _has_row_bounds(self) -> bool: ...
    @property
    def looks_back(self) -> bool:
        """Whether the last right row with a given key may match regardless of its age.

        Example:
            >>> from tidegate._tidegate import asof_join_query
            >>> asof_join_query(on="ts").plan(trades, quotes).looks_back
            True
        """

    @property
    def condition_columns(self) -> tuple[list[str], list[str]]:
        """The columns that `where` reads on each side.

        Example:
            >>> from tidegate._tidegate import asof_join_query
            >>> query = asof_join_query(on="ts", where="right.bid > 8")
            >>> query.plan(trades, quotes).condition_columns
            ([], ['bid'])
        """

    @property
    def end_columns(self) -> tuple[list[str], list[str]]:
        """The columns on each side from which interval ends are computed.

        Example:
            >>> from tidegate._tidegate import interval_join_query
            >>> query = interval_join_query(on="ts", lower=0, upper="right.bid")
            >>> query.plan(trades, quotes).end_columns
            ([], ['bid'])
        """

    def steps(self, name: str, length: Length) -> int:
        """Convert a duration to the time unit of an interval join or an overlap join.

        Args:
            name: The name of the argument, for error messages.
            length: The duration.

        Returns:
            The duration in the finer unit of the two sides, rounded down.

        Raises:
            TidegateError: The duration is negative, or it is a plain number but times have a unit.
            TypeError: `length` is not a duration.

        Example:
            >>> from tidegate._tidegate import interval_join_query
            >>> interval_join_query(on="ts", lower=0, upper=1).plan(trades, quotes).steps("far", 7)
            7
        """

    def row_intervals(self, side: Literal["left", "right"], rows: Table) -> pa.RecordBatch | None:
        """Return the start and end of each row's interval if its ends are computed from columns.

        Two rows can match only if their intervals overlap, but overlapping intervals do not
        guarantee a match. On Spark, the join divides rows by these intervals. If a row cannot match
        any row, its start and end are both equal to its time.

        Args:
            side: The side to which the rows belong, `"left"` or `"right"`.
            rows: Rows with the columns for which the plan was created.

        Returns:
            The integer columns `start` and `end`, in the finer of the two sides' units. The result
            is None if no end is computed from columns.

        Raises:
            TypeError: The rows are not Arrow data.
            SchemaError: The rows have different columns.
            TidegateError: `side` is neither `"left"` nor `"right"`.

        Example:
            >>> from tidegate._tidegate import interval_join_query
            >>> left = pa.table({"ts": [10, 20], "near": [3, None]})
            >>> right = pa.table({"ts": [11, 30]})
            >>> plan = interval_join_query(on="ts", lower=-1, upper="left.near").plan(left, right)
            >>> plan.row_intervals("left", left).to_pydict()
            {'start': [9, 20], 'end': [13, 20]}
            >>> plan.row_intervals("right", right).to_pydict()
            {'start': [11, 30], 'end': [11, 30]}
        """

@final
class AggregationPlan:
    """The columns that an aggregation over tables will read and return.

    `tidegate.explain` shows a description of the plan. On Spark, the aggregation sends only the
    columns listed in the plan.

    Example:
        >>> from tidegate._tidegate import AggregationQuery
        >>> plan = AggregationQuery(
        ...     on="ts", size=4, by="sym", aggs={"top": tg.agg.max("price")}
        ... ).plan(trades)
        >>> plan.columns, plan.longest
        ([['ts', 'sym', 'price']], 4)
    """

    @property
    def _inputs(self) -> list[pa.Schema]: ...
    @property
    def explanation(self) -> str:
        """A few lines of text that explain what the aggregation would do.

        Example:
            >>> from tidegate._tidegate import AggregationQuery
            >>> plan = AggregationQuery(on="ts", size=4, aggs={"n": tg.agg.count()}).plan(trades)
            >>> plan.explanation.splitlines()[0]
            'aggregate'
        """

    @property
    def schema(self) -> pa.Schema:
        """The schema of the result.

        Example:
            >>> from tidegate._tidegate import AggregationQuery
            >>> query = AggregationQuery(on="ts", size=4, aggs={"n": tg.agg.count()})
            >>> query.plan(trades).schema.names
            ['window_start', 'window_end', 'n']
        """

    @property
    def columns(self) -> list[list[str]]:
        """The columns that the aggregation reads from each stream, in stream order.

        Example:
            >>> from tidegate._tidegate import AggregationQuery
            >>> plan = AggregationQuery(
            ...     on="ts", size=4, aggs={"n": tg.agg.count()}, where="price > 6"
            ... ).plan([trades, trades])
            >>> plan.columns
            [['ts', 'price'], ['ts', 'price']]
        """

    @property
    def longest(self) -> int | None:
        """A length of time that no window exceeds, in the finest unit of the time columns.

        None for sessions.

        Example:
            >>> from tidegate._tidegate import AggregationQuery
            >>> query = AggregationQuery(on="ts", size=4, advance=2, aggs={"n": tg.agg.count()})
            >>> query.plan(trades).longest
            4
        """

    def last_windows(self, times: list[int]) -> list[tuple[int, int]]:
        """Return the start and end of the last window that starts at or before each time.

        Example:
            >>> from tidegate._tidegate import AggregationQuery
            >>> query = AggregationQuery(on="ts", size=4, advance=2, aggs={"n": tg.agg.count()})
            >>> query.plan(trades).last_windows([5, 6])
            [(4, 8), (6, 10)]

        Args:
            times: The times, in the finest unit of the time columns.

        Raises:
            TidegateError: The aggregation has sessions.
            TypeError: `times` is not a list of integers.
        """

    @property
    def slices(self) -> tuple[int | str, int | str]:
        """The size and offset of adjacent windows that can be combined into every window.

        The size is the largest possible one. Aggregations with sessions raise an error.

        Example:
            >>> from tidegate._tidegate import AggregationQuery
            >>> query = AggregationQuery(on="ts", size=6, advance=4, aggs={"n": tg.agg.count()})
            >>> query.plan(trades).slices
            (2, 0)
        """

    @property
    def calendar(self) -> str | None:
        """A description of the calendar, if windows consist of calendar units.

        The description changes whenever the rules of the time zone change.

        Example:
            >>> from tidegate._tidegate import AggregationQuery
            >>> query = AggregationQuery(on="ts", size=4, aggs={"n": tg.agg.count()})
            >>> query.plan(trades).calendar is None
            True
        """

    @property
    def zone(self) -> str | None:
        """The time zone of the windows, if they consist of calendar units in a time zone.

        Example:
            >>> from tidegate._tidegate import AggregationQuery
            >>> query = AggregationQuery(on="ts", size=4, aggs={"n": tg.agg.count()})
            >>> query.plan(trades).zone is None
            True
        """

    @property
    def gap_column(self) -> str | None:
        """The column or expression that contains the gaps of sessions. None for all other windows.

        Example:
            >>> from tidegate._tidegate import AggregationQuery
            >>> query = AggregationQuery(on="ts", session=tg.row.ts, aggs={"n": tg.agg.count()})
            >>> query.plan(trades).gap_column
            'ts'
        """

    @property
    def advice(self) -> str | None:
        """Advice to the caller if the windows may differ from what the caller expects.

        Example:
            >>> from tidegate._tidegate import AggregationQuery
            >>> query = AggregationQuery(on="ts", size=4, aggs={"n": tg.agg.count()})
            >>> query.plan(trades).advice is None
            True
        """

@final
class JoinQuery:
    """A description of a join that does not depend on its inputs.

    Queries are created by `interval_join_query` and similar functions. A query is immutable and can
    be pickled. Calls on tables and files, the command and Spark all use queries, so each option is
    read in only one place.

    Example:
        >>> from tidegate._tidegate import interval_join_query
        >>> query = interval_join_query(on="ts", by="sym", lower=-2, upper=0)
        >>> query.table(trades, quotes)["bid"].to_pylist()
        [9, 8, 7]
        >>> query.replace(how="anti").table(trades, quotes)["ts"].to_pylist()
        [20]
    """

    @property
    def function(self) -> str:
        """The name of the function for which this query was built, such as `interval_join`."""

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments by name, as passed by the caller."""

    @property
    def how(self) -> How:
        """The value of `how`, or its default if no value was passed."""

    @property
    def keeps_right(self) -> bool:
        """Whether the result keeps unmatched right rows."""

    @property
    def threads(self) -> int:
        """The number of threads."""

    @property
    def max_rows(self) -> int | None:
        """The maximum number of rows in the result; None for no limit."""

    @property
    def row_ends(self) -> tuple[bool, bool]:
        """Whether the lower and upper bounds of intervals are computed from columns."""

    def replace(self, **changes: object) -> Self:
        """Return the same query with different values for some arguments."""

    def plan(
        self, left: Table | pa.Schema | InputRows, right: Table | pa.Schema | InputRows
    ) -> JoinPlan:
        """Return the plan for inputs with these columns. No rows are read."""

    def table(
        self, left: ArrowSource | InputRows | Index, right: ArrowSource | InputRows | Index
    ) -> pa.Table:
        """Join two inputs of Arrow data."""

    def batches(
        self, left: ArrowSource | InputRows | Index, right: ArrowSource | InputRows | Index
    ) -> BatchReader[JoinStats]:
        """Join two inputs of Arrow data, batch by batch."""

    def operator(
        self,
        left: pa.Schema | ArrowSource,
        right: pa.Schema | ArrowSource,
        *,
        max_width: Length | None = None,
        lateness: Bound | tuple[Bound, Bound] = None,
        pin: bool | None = None,
    ) -> StreamJoin:
        """Return an operator that performs the same join on rows that arrive over time."""

    def __reduce__(self) -> tuple[Any, ...]: ...

def join_query(function: str, arguments: dict[str, Any]) -> JoinQuery:
    """Build a query from the arguments of the function with this name."""

@final
class AggregationQuery:
    """A description of an aggregation that does not depend on its streams.

    An aggregation query is immutable and can be pickled. `tidegate.aggregate` explains the options.

    Example:
        >>> from tidegate._tidegate import AggregationQuery
        >>> query = AggregationQuery(on="ts", size=20, aggs={"n": tg.agg.count()})
        >>> query.table(trades)["n"].to_pylist()
        [1, 2]
    """

    def __new__(
        cls,
        *,
        on: Value,
        size: Window | None = None,
        advance: Window | None = None,
        step: Length | None = None,
        closed: ClosedWindow | None = None,
        offset: Length | None = None,
        zone: str | None = None,
        week_start: Weekday | None = None,
        session: Length | Value | None = None,
        windows: Table | None = None,
        empty: Empty | Mapping[str, Empty] | None = None,
        keep: Length | None = None,
        start: Time | None = None,
        end: Time | None = None,
        by: GroupKeys | None = None,
        aggs: Mapping[str, agg.Aggregate],
        where: Expr | str | None = None,
        algorithm: Algorithm = "auto",
        threads: int | None = None,
        max_rows: int | None = None,
    ) -> Self: ...
    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments by name, as passed by the caller."""

    @property
    def on(self) -> str:
        """The time column."""

    @property
    def threads(self) -> int:
        """The number of threads."""

    @property
    def max_rows(self) -> int | None:
        """The maximum number of rows in the result; None for no limit."""

    def replace(self, **changes: object) -> Self:
        """Return the same query with different values for some arguments."""

    def plan(self, streams: Streams | Sequence[pa.Schema | InputRows | Index]) -> AggregationPlan:
        """Return the plan for streams with these columns. No rows are read."""

    def table(
        self,
        streams: Streams | Sequence[InputRows | Index],
        *,
        ordinals: Sequence[int] | None = None,
    ) -> pa.Table:
        """Aggregate streams of Arrow data.

        `ordinals` is for a part of the rows with row-based windows. For each row in merged order,
        it contains the number of earlier rows with the same key, including rows that are not in the
        part. Only windows that begin with a row of the part are returned.
        """

    def filled(
        self,
        windows: Table,
        streams: Sequence[pa.Schema | Table],
        *,
        first: int = ...,
        last: int = ...,
    ) -> pa.Table:
        """Add the windows without rows that `empty` requests to the windows with rows.

        Example:
            >>> from tidegate._tidegate import AggregationQuery
            >>> query = AggregationQuery(on="ts", size=5, aggs={"n": tg.agg.count()})
            >>> windows = query.table(trades)
            >>> windows["window_start"].to_pylist()
            [10, 20, 30]
            >>> query.replace(empty="null").filled(windows, [trades])["window_start"].to_pylist()
            [10, 15, 20, 25, 30]

        Args:
            windows: Results of the same query without `empty`, in any order.
            streams: The schemas of the streams.
            first: The earliest start of the windows to return, in the finest unit of the time
                columns.
            last: The latest start of these windows.
        """

    def operator(
        self,
        schema: pa.Schema | ArrowSource,
        *,
        sources: int | None = None,
        lateness: Bound | list[Bound] = None,
        memory_limit: Bytes | None = None,
    ) -> Operator[Any]:
        """Return an operator that performs the same aggregation on rows that arrive over time."""

    def __reduce__(self) -> tuple[Any, ...]: ...

def aggregation_query(arguments: dict[str, Any]) -> AggregationQuery:
    """Build an aggregation query from the arguments of a call."""

class RollingQuery:
    """A description of rolling windows that does not depend on their table.

    A rolling query is immutable and can be pickled. `tidegate.rolling` explains the options.

    Example:
        >>> from tidegate._tidegate import RollingQuery
        >>> query = RollingQuery(on="ts", size=15, aggs={"n": tg.agg.count()})
        >>> query.table([trades])["n"].to_pylist()
        [1, 2, 2]
    """

    def __new__(
        cls,
        *,
        on: Value,
        size: Window,
        by: Value | Sequence[Value] | None = None,
        closed: Closed = "right",
        aggs: Mapping[str, agg.Aggregate],
        columns: Sequence[str] | None = None,
        threads: int | None = None,
        max_rows: int | None = None,
        batch_rows: int | None = None,
    ) -> Self: ...
    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments by name, as passed by the caller."""

    @property
    def on(self) -> str:
        """The time column."""

    @property
    def threads(self) -> int:
        """The number of threads."""

    @property
    def max_rows(self) -> int | None:
        """The maximum number of rows in the result; None for no limit."""

    def replace(self, **changes: object) -> Self:
        """Return the same query with different values for some arguments."""

    def plan(self, tables: Sequence[pa.Schema | Table | InputRows]) -> AggregationPlan:
        """Return the plan for one table with these columns, given in a list. No rows are read."""

    def table(self, tables: Sequence[Table | InputRows]) -> pa.Table:
        """Aggregate the windows of one table of Arrow data, given in a list."""

    def batches(self, tables: Sequence[Table | InputRows]) -> BatchReader[JoinStats]:
        """Aggregate the windows of one table, given in a list, batch by batch."""

    def operator(
        self,
        schema: pa.Schema | ArrowSource,
        *,
        sources: int | None = None,
        lateness: Bound | list[Bound] = None,
        memory_limit: Bytes | None = None,
    ) -> Operator[Any]:
        """Return an operator that runs this query on rows that arrive over time."""

    def __reduce__(self) -> tuple[Any, ...]: ...

def rolling_query(arguments: dict[str, Any]) -> RollingQuery:
    """Build a rolling query from a call's arguments."""

class Index:
    """A table prepared once as the right side of many joins.

    When the index is built, the rows are grouped by key and sorted by time. A join with a few left
    rows then searches for their matches instead of passing over all right rows. The result is the
    same as with the table itself, including the order of its rows.

    `asof_join`, and `interval_join` and `window_join` with bounds that are the same for all rows,
    use the index. `overlap_join` uses an index on a start and an end column. Other joins also
    accept an index, but read all of its rows.

    The index refers to the rows of the table. It needs another 12 bytes per row (21 bytes if rows
    have a start and an end) and a few bytes per key. `append` adds rows, `expire` removes old ones,
    and `save` writes the index to a file. Other threads can join with the index in the meantime:
    each call sees one version of the rows. Arrow libraries can read the rows, as in
    `pa.table(index)`.

    Example:
        >>> index = tg.Index(quotes, on="ts", by="sym")
        >>> tg.asof_join(trades, index, on="ts", by="sym", columns=["ts", "bid"]).to_pydict()
        {'ts': [10, 20, 30], 'bid': [8, None, 7]}

        Rows that have a start and an end:

        >>> jobs = pa.table({"start": [0, 12, 15], "end": [99, 14, 20], "job": ["x", "y", "z"]})
        >>> index = tg.Index(jobs, on=("start", "end"))
        >>> tg.overlap_join(trades, index, on=("ts", "ts"), columns=["ts", "job"]).to_pydict()
        {'ts': [10, 20, 20, 30], 'job': ['x', 'x', 'z', 'x']}

    Args:
        table: The rows, which can be Arrow data, a path or a list of paths, a lazy frame or a dict
            of arrays. They must not change afterwards.
        on: The time column, or a pair with the start and end columns for `overlap_join`. A row with
            a null start or end does not match any row, unless `open_ends` is true.
        by: The key columns: a name or a list of names. None means that the joins have no keys.
        keep: The age at which rows expire, relative to the latest row: a timedelta, a numpy
            timedelta64, a string such as "1h", or an integer if times are integers. Rows with a
            start and an end expire when they end this long before the latest start. None keeps all
            rows.
        open_ends: Whether a null start or end means that the interval is open, as in
            `overlap_join`. Joins with the index must have the same `open_ends`. Rows without an end
            never expire.
        threads: The number of worker threads, from 1 to 512. None means `default_threads()`.

    Raises:
        SchemaError: A column is missing or has an unsuitable type.
        TidegateError: A time is null, a row ends before it starts, the table cannot be read or has
            too many rows, or `keep` is invalid.
        TypeError: The table has an unsupported type.
    """

    def __new__(
        cls,
        table: Table,
        *,
        on: str | tuple[str, str],
        by: str | Sequence[str] | None = None,
        keep: Bound = None,
        open_ends: bool = False,
        threads: int | None = None,
    ) -> Self: ...
    def append(self, table: Table) -> None:
        """Append rows to the index.

        The rows must have the same columns and types as the index, and can have any times.

        The work is proportional to the number of new rows, except that new rows are merged with
        earlier ones from time to time. Each row is merged only a few times in total. Calls that are
        running in other threads see the rows either with or without the new ones.

        Example:
            >>> index = tg.Index(quotes, on="ts", by="sym")
            >>> index.append({"ts": [30], "sym": ["B"], "bid": [6]})
            >>> index.rows
            5

        Args:
            table: The rows, which can be Arrow data, a path or a list of paths, a lazy frame or a
                dict of arrays. They must not change afterwards.

        Raises:
            SchemaError: The columns or types of the rows differ from those of the index.
            TidegateError: A time is null, or there would be too many rows. The index is unchanged.
            TypeError: The rows have an unsupported type.
        """

    def expire(self, *, before: int | datetime | date | np.datetime64) -> None:
        """Remove the rows before a time from the index.

        Rows that have a start and an end are removed if they end before the time. Rows with a null
        start or end remain.

        The memory of removed rows is released once they outnumber the rows that remain. Calls that
        are running in other threads see the rows either with or without the removed ones.

        Example:
            >>> index = tg.Index(quotes, on="ts", by="sym")
            >>> index.expire(before=19)
            >>> index.rows
            2

        Args:
            before: The time of the earliest row to keep, with the type of the time or end column,
                or as an integer in that column's unit.

        Raises:
            TidegateError: The time does not fit the column.
            TypeError: `before` is neither a time nor an integer.
        """

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the index and its rows to a file that `open_index` can open.

        The file is written under a temporary name and then renamed, so it replaces an existing file
        only when it is complete. The file contains the rows that the index has at the time of the
        call.

        Example:
            >>> tg.Index(quotes, on="ts", by="sym").save("quotes.index")
            >>> tg.open_index("quotes.index").rows
            4

        Args:
            path: The file.

        Raises:
            TidegateError: The file cannot be written.
            TypeError: `path` is not a path.
        """

    def _write(self, path: str | os.PathLike[str]) -> None: ...
    @property
    def _open_ends(self) -> bool: ...
    @property
    def _most_searched(self) -> int: ...
    @property
    def path(self) -> str | None:
        """The file from which `open_index` opened the index.

        None if the index was built in memory, or if it has changed since it was opened. An index
        with a path can be pickled: other processes then open the same file.

        Example:
            >>> tg.Index(quotes, on="ts", by="sym").path is None
            True
        """

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table.

        Example:
            >>> tg.Index(quotes, on="ts", by="sym").schema.names
            ['ts', 'sym', 'bid']
        """

    @property
    def on(self) -> str | tuple[str, str]:
        """The time column, or the start and end columns.

        Example:
            >>> tg.Index(quotes, on="ts", by="sym").on
            'ts'
        """

    @property
    def by(self) -> list[str]:
        """The key columns.

        Example:
            >>> tg.Index(quotes, on="ts", by="sym").by
            ['sym']
        """

    @property
    def rows(self) -> int:
        """The number of rows.

        Example:
            >>> tg.Index(quotes, on="ts", by="sym").rows
            4
        """

    @property
    def _span(self) -> tuple[int, int] | None: ...
    @property
    def time_range(self) -> tuple[pa.Scalar[Any], pa.Scalar[Any]] | None:
        """The earliest and latest time, or start, as Arrow scalars.

        None if there are no rows.

        Example:
            >>> first, last = tg.Index(quotes, on="ts", by="sym").time_range
            >>> first.as_py(), last.as_py()
            (8, 31)
        """

    @property
    def nbytes(self) -> int:
        """The number of bytes that the index takes up in addition to the table.

        Example:
            >>> tg.Index(quotes, on="ts", by="sym").nbytes < 100
            True
        """
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any: ...  # noqa: ANN401 - a capsule has no type

@final
class SavedIndex:
    """A file that contains an index, passed to the constructor of `Index`.

    Args:
        path: The file.
        verify: True verifies the checksums of all bytes, so the whole file is read. By default, the
            description and the keys are checked when the file is opened, and the order of the rows
            is checked before the first join.
        threads: The number of worker threads, from 1 to 512. None means `default_threads()`.

    Raises:
        StateError: The file does not contain an index, is damaged, or was written by a later
            version.
        TypeError: An argument has the wrong type.
    """

    def __new__(cls, path: str | os.PathLike[str], verify: bool, threads: int) -> Self: ...
    @property
    def on(self) -> str | tuple[str, str]:
        """The time column, or the start and end columns."""

class InputRows:
    """Arrow data that has been read and will be passed to a native call later.

    Example:
        >>> from tidegate._tidegate import InputRows
        >>> InputRows(trades, "left").schema.names
        ['ts', 'sym', 'price']
    """

    def __new__(cls, data: ArrowSource, name: str) -> Self: ...
    @property
    def schema(self) -> pa.Schema:
        """The schema of the data."""

def is_arrow(ob: object) -> bool:
    """Return whether native functions accept an object without conversion."""

def instants_of(zone: str, local: Sequence[int]) -> list[int]:
    """Convert local times in seconds since 1970 to seconds since 1970-01-01T00:00 UTC."""

def byte_count(argument: str, given: Bytes | None) -> int | None:
    """Convert a size such as `"2GB"` to a number of bytes."""

def reader_of(rows: object, made_by: str) -> BatchReader[Any]:
    """Return a reader for the batches that an iterator with a schema produces.

    The reader has a thread that produces the batches, one batch ahead of the consumer. The iterator
    must occasionally yield None, so that the thread notices when the reader is closed.
    """

def merge(
    streams: Sequence[ArrowSource],
    *,
    on: str = "ts",
    lateness: Bound = None,
    threads: int | None = None,
) -> pa.Table:
    """Merge streams of Arrow data into one table."""

def merge_batches(
    streams: Sequence[ArrowSource],
    *,
    on: str = "ts",
    lateness: Bound = None,
    threads: int | None = None,
    memory_limit: Bytes | None = None,
) -> BatchReader[OperatorStats]:
    """Merge streams of Arrow data, batch by batch."""

def digest(data: ArrowSource, *, ordered: bool = True, threads: int | None = None) -> str:
    """Return the digest of Arrow data."""

def asof_join_query(
    *,
    on: Sides,
    by: SideValues | None = None,
    strategy: Strategy = "backward",
    tolerance: Bound | Sequence[Bound] = None,
    at: Sequence[Length] | None = None,
    long: bool = False,
    n: int | None = None,
    allow_exact_matches: bool = True,
    where: Expr | str | None = None,
    how: AsofHow = "left",
    suffix: str = "_right",
    columns: Sequence[str] | None = None,
    threads: int | None = None,
    max_rows: int | None = None,
    batch_rows: int | None = None,
) -> JoinQuery:
    """Build the query for `asof_join`; see that function for the options."""

def band_join_query(
    *,
    on: SideValues,
    within: Within | list[Within] | Mapping[str, Within],
    time: Names | None = None,
    window: Window | tuple[Window, Window] | None = None,
    by: SideValues | None = None,
    where: Expr | str | None = None,
    how: How | None = None,
    aggs: Mapping[str, agg.Aggregate] | None = None,
    settings: Mapping[str, float] | None = None,
    suffix: str = "_right",
    columns: Sequence[str] | None = None,
    algorithm: BandAlgorithm = "auto",
    threads: int | None = None,
    max_rows: int | None = None,
    batch_rows: int | None = None,
) -> JoinQuery:
    """Build the query for `band_join`; see that function for the options."""

def interval_join_query(
    *,
    on: Sides,
    lower: End,
    upper: End,
    by: SideValues | None = None,
    where: Expr | str | None = None,
    how: How | None = None,
    aggs: Mapping[str, agg.Aggregate] | None = None,
    closed: Closed = "both",
    open_ends: bool = False,
    prevailing: bool = False,
    limit: int | None = None,
    order: PairOrder | None = None,
    suffix: str = "_right",
    columns: Sequence[str] | None = None,
    threads: int | None = None,
    max_rows: int | None = None,
    batch_rows: int | None = None,
) -> JoinQuery:
    """Build the query for `interval_join`; see that function for the options."""

def overlap_join_query(
    *,
    on: IntervalNames,
    by: SideValues | None = None,
    where: Expr | str | None = None,
    how: How | None = None,
    aggs: Mapping[str, agg.Aggregate] | None = None,
    closed: ClosedEnds = "both",
    open_ends: bool = False,
    min_overlap: Length | None = None,
    suffix: str = "_right",
    columns: Sequence[str] | None = None,
    threads: int | None = None,
    max_rows: int | None = None,
    batch_rows: int | None = None,
) -> JoinQuery:
    """Build the query for `overlap_join`; see that function for the options."""

def window_join_query(
    *,
    on: Sides,
    window: Window | tuple[Window, Window],
    by: SideValues | None = None,
    where: Expr | str | None = None,
    how: How | None = None,
    aggs: Mapping[str, agg.Aggregate] | None = None,
    suffix: str = "_right",
    columns: Sequence[str] | None = None,
    algorithm: WindowAlgorithm = "auto",
    threads: int | None = None,
    max_rows: int | None = None,
    batch_rows: int | None = None,
) -> JoinQuery:
    """Build the query for `window_join`; see that function for the options."""

def _with_computed(
    data: Table | InputRows,
    name: str,
    argument: str,
    values: Sequence[str | Expr],
    taken: Sequence[str],
    threads: int | None,
) -> tuple[pa.Table, list[str]]: ...
def _check(data: Table, name: str) -> None: ...
def _set_callbacks(
    table_of_rows: Callable[..., pa.Table],
    tell: Callable[[str, int, str], None],
    waits_for: Callable[[int, int], bool],
) -> None: ...
def _manual(name: str) -> str | None: ...

@final
class _CheckedBatches:
    def __new__(cls, data: Table, name: str) -> Self: ...
    @property
    def schema(self) -> pa.Schema: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> pa.RecordBatch: ...
