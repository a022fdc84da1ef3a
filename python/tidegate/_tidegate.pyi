"""The native part of tidegate, written in Rust.

Names are taken from `tidegate`, not from here. Examples use `tg` for `tidegate`, `pa` for
`pyarrow`, and these tables:

    >>> import pyarrow as pa
    >>> import tidegate as tg
    >>> trades = pa.table({"ts": [10, 20, 30], "sym": ["A", "B", "A"], "price": [1.0, 2.0, 3.0]})
    >>> quotes = pa.table({"ts": [8, 10, 29, 31], "sym": ["A", "A", "A", "C"], "bid": [9, 8, 7, 6]})
"""

# ruff: noqa: PYI021 - the stub is the manual: docstrings of native functions are written here.

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Literal, Self, TypedDict, final

import pyarrow as pa

from tidegate.agg import Aggregate
from tidegate.expressions import Expr
from tidegate.types import ArrowSource, Bound, Closed, How, KeyNames, Length, Names, Streams

__all__ = [
    "BUILD_PROFILE",
    "BatchReader",
    "ClosedError",
    "MemoryLimitError",
    "OrderError",
    "SchemaError",
    "StateError",
    "TidegateError",
    "__version__",
    "aggregate",
    "default_threads",
    "explain_aggregate",
    "explain_interval_join",
    "interval_join",
    "interval_join_batches",
]

__version__: Final[str]
"""The version of the package."""

BUILD_PROFILE: Final[Literal["debug", "release"]]
"""How the native part was built. Only times measured with `release` mean anything."""

class TidegateError(ValueError):
    """Anything that tidegate refuses.

    The text names the column or argument, what was given, what was expected, and what to do.

    Example:
        >>> tg.interval_join(trades, quotes, on="ts", lower=2, upper=1)
        Traceback (most recent call last):
        tidegate.TidegateError: lower must not be greater than upper, but lower is 2 ...
    """

class SchemaError(TidegateError):
    """A column is missing, doubled, or of a type that does not fit.

    Example:
        >>> tg.interval_join(trades, quotes, on="time", lower=0, upper=1)
        Traceback (most recent call last):
        tidegate.SchemaError: left: there is no column `time`, which `on` names; it has `ts`, ...
    """

class OrderError(TidegateError):
    """Rows break a promised order."""

class MemoryLimitError(TidegateError):
    """A limit on rows or memory was reached; no memory was taken.

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

class _Stats(TypedDict):
    left_rows: int
    right_rows: int
    rows: int
    left_rows_done: int
    threads: int
    keys: str

@final
class BatchReader:
    """Read the record batches of a join's result, in order.

    All threads make batches, and wait when they are a few batches ahead of who reads, so a result
    larger than memory can be written as it comes. Until the reader is closed or gone it holds both
    inputs and 12 bytes a left row and 8 a right row (up to 60 a row for rows out of time order).
    It is a one-time iterator, an Arrow stream and a context manager. Several threads may take
    batches from one reader; each batch comes to one of them. A process made by `fork()` cannot
    use a reader of its parent.

    Example:
        >>> with tg.interval_join_batches(trades, quotes, on="ts", lower=-2, upper=0) as reader:
        ...     [batch.num_rows for batch in reader]
        [3]
    """

    @property
    def schema(self) -> pa.Schema:
        """The schema of every batch, a `pyarrow.Schema`.

        It is known before the first batch.

        Example:
            >>> tg.interval_join_batches(
            ...     trades, quotes, on="ts", by="sym", lower=-2, upper=0
            ... ).schema.names
            ['ts', 'sym', 'price', 'ts_right', 'bid']
        """

    def stats(self) -> _Stats:
        """Return numbers that describe the join so far.

        Returns:
            `left_rows` and `right_rows`, the rows of the inputs; `rows`, the result rows handed
            out; `left_rows_done`, about how many left rows have been
            joined, the last of them when the end has been read; `threads`;
            and `keys`, how keys were compared.

        Raises:
            ClosedError: The reader is one of a parent process.

        Example:
            >>> reader = tg.interval_join_batches(
            ...     trades, quotes, on="ts", by="sym", lower=-2, upper=0
            ... )
            >>> next(reader).num_rows, reader.stats()["rows"], reader.stats()["keys"]
            (3, 3, 'hashed byte strings')
        """

    def close(self) -> None:
        """End the work and drop the batches that were made ahead.

        A second call does nothing. The end of a `with` block closes, too.

        Raises:
            ClosedError: The reader is one of a parent process.

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

def default_threads() -> int:
    """Return the number of threads that a call uses when it does not say.

    It is the least of the processors that this process may use, its share of them in a container,
    and `OMP_NUM_THREADS`, by which Spark tells a worker how many are its own.

    Example:
        >>> tg.default_threads() >= 1
        True
    """

def interval_join(
    left: ArrowSource,
    right: ArrowSource,
    *,
    on: Names,
    lower: Bound,
    upper: Bound,
    by: KeyNames | None = None,
    where: Expr | str | None = None,
    how: How = "inner",
    closed: Closed = "both",
    suffix: str = "_right",
    columns: Sequence[str] | None = None,
    threads: int | None = None,
    max_rows: int | None = None,
) -> pa.Table:
    """Pair the rows of two inputs that share a key and are close in time.

    `(l, r)` is a pair when `l.by == r.by` and `l.on + lower <= r.on <= l.on + upper` and `where`
    holds (the online interval join of PPOIJ, section 2.2, over whole tables).

    Example:
        The quotes of a trade's symbol in the two seconds up to the trade:

        >>> tg.interval_join(trades, quotes, on="ts", by="sym", lower=-2, upper=0).to_pandas()
           ts sym  price  ts_right  bid
        0  10   A    1.0         8    9
        1  10   A    1.0        10    8
        2  30   A    3.0        29    7

        The same with every trade, and only where the quote is good enough:

        >>> tg.interval_join(
        ...     trades, quotes, on="ts", by="sym", lower=-2, upper=0,
        ...     how="left", where=tg.right.bid > 8, columns=["ts", "bid"],
        ... ).to_pydict()
        {'ts': [10, 20, 30], 'bid': [9, None, None]}

    Args:
        left: Arrow data: a pyarrow Table or RecordBatchReader, a polars or pandas DataFrame, a
            DuckDB relation, or anything else with `__arrow_c_stream__` or `__arrow_c_array__`.
        right: Likewise.
        on: The time column, or a pair of its names on the left and the right. Integers, dates and
            timestamps; timestamps with zones are compared as instants; units may differ.
        lower: How long after the left time matches begin; negative for before. A timedelta, a
            numpy timedelta64, a string such as "1h30m", "-5s" or "250ms", an integer in the unit
            of the time columns (the finer of the two), or None for no bound.
        upper: How long after the left time matches end, likewise. Not less than `lower`.
        by: The key columns, all of which must be equal: a name, a list of names or of pairs of
            names, or a mapping from left to right names. Without it any two rows may pair.
        where: A condition on a pair, of `tidegate.left` and `tidegate.right` columns, or its SQL
            text. A pair for which it is null is no pair.
        how: `inner`: the pairs. `left`, `right`, `full`: also the rows of that side, or both, that
            have no pair. `semi`, `anti`: the left rows that have a pair, or have none.
        closed: Which ends of the interval match: `both`, `left`, `right` or `neither`.
        suffix: Added to the name of a right column that the left side has too.
        columns: The columns of the result, in this order; others are not made.
        threads: The number of threads, from 1 to 512; see `default_threads`.
        max_rows: The most rows that the result may have.

    Returns:
        The left columns, then the right ones; a key column of one name on both sides comes once.
        Rows are in left row order, then right row order, whatever the threads; right rows without
        a pair follow at the end. Neither side needs to be sorted, but sorted ones are faster.

    Raises:
        SchemaError: A column is missing, doubled, or of a type that does not fit.
        MemoryLimitError: The result would have more than `max_rows` rows.
        TidegateError: Another argument has no meaning, a time is null, or the Arrow data is
            malformed.
        TypeError: An argument is of the wrong type.

    Note:
        A null key is equal to nothing, not even null; NaN is equal to NaN and 0.0 to -0.0. A time
        plus a bound is compared exactly, also where the sum leaves the range of 64 bits.

        Memory: the inputs, the result, and 12 bytes a left row and 8 a right row (up to 60 a row
        for rows out of time order). Where the result is too large, see `interval_join_batches`.
    """

def interval_join_batches(
    left: ArrowSource,
    right: ArrowSource,
    *,
    on: Names,
    lower: Bound,
    upper: Bound,
    by: KeyNames | None = None,
    where: Expr | str | None = None,
    how: How = "inner",
    closed: Closed = "both",
    suffix: str = "_right",
    columns: Sequence[str] | None = None,
    threads: int | None = None,
    max_rows: int | None = None,
    batch_rows: int | None = None,
) -> BatchReader:
    """Do as `interval_join`, and return the rows batch by batch.

    `(l, r)` is a pair when `l.by == r.by` and `l.on + lower <= r.on <= l.on + upper` and `where`
    holds. The pairs are found before the call returns; their columns are made as they are taken.

    Example:
        >>> reader = tg.interval_join_batches(
        ...     trades, quotes, on="ts", by="sym", lower=-2, upper=0, batch_rows=2
        ... )
        >>> [batch.column("bid").to_pylist() for batch in reader]
        [[9, 8], [7]]

        A result larger than memory goes into a file as it comes:

        >>> import os, tempfile
        >>> import pyarrow.parquet as pq
        >>> path = os.path.join(tempfile.mkdtemp(), "pairs.parquet")
        >>> with tg.interval_join_batches(trades, quotes, on="ts", lower=-2, upper=0) as reader:
        ...     with pq.ParquetWriter(path, reader.schema) as file:
        ...         for batch in reader:
        ...             file.write_batch(batch)
        >>> pq.read_metadata(path).num_rows
        3

    Args:
        left: As for `interval_join`.
        right: As for `interval_join`.
        on: As for `interval_join`.
        lower: As for `interval_join`.
        upper: As for `interval_join`.
        by: As for `interval_join`.
        where: As for `interval_join`.
        how: As for `interval_join`.
        closed: As for `interval_join`.
        suffix: As for `interval_join`.
        columns: As for `interval_join`.
        threads: As for `interval_join`.
        max_rows: As for `interval_join`; with `where`, rows are counted as they are made, so that
            batches may come before the error.
        batch_rows: The most rows of a batch. Without it, batches take a few megabytes.

    Returns:
        A reader of the batches. Joined together they are the table of `interval_join`.

    Raises:
        SchemaError: As for `interval_join`.
        MemoryLimitError: As for `interval_join`.
        TidegateError: As for `interval_join`.
        TypeError: As for `interval_join`.

    Note:
        Memory: the inputs, 12 bytes a left row and 8 a right row (up to 60 a row for rows out of
        time order), and the few batches that are made but not yet taken.
    """

def explain_interval_join(
    left: ArrowSource,
    right: ArrowSource,
    *,
    on: Names,
    lower: Bound,
    upper: Bound,
    by: KeyNames | None = None,
    where: Expr | str | None = None,
    how: How = "inner",
    closed: Closed = "both",
    suffix: str = "_right",
    columns: Sequence[str] | None = None,
    threads: int | None = None,
    max_rows: int | None = None,
    batch_rows: int | None = None,
) -> str:
    """Say what `interval_join` would do with these arguments; `tidegate.explain` calls it.

    Only the schemas are read, and the arguments are checked as `interval_join` checks them.

    Example:
        >>> print(tg.explain(tg.interval_join, trades, quotes, on="ts", lower=-2, upper=0,
        ...                  threads=2))
        interval_join (inner)
          time       right.ts - left.ts in [-2, 0] integer
        ...

    Args:
        left: As for `interval_join`.
        right: As for `interval_join`.
        on: As for `interval_join`.
        lower: As for `interval_join`.
        upper: As for `interval_join`.
        by: As for `interval_join`.
        where: As for `interval_join`.
        how: As for `interval_join`.
        closed: As for `interval_join`.
        suffix: As for `interval_join`.
        columns: As for `interval_join`.
        threads: As for `interval_join`.
        max_rows: As for `interval_join`.
        batch_rows: As for `interval_join_batches`.

    Returns:
        A few lines of text: the interval, the keys, the algorithm, the index, the threads, the
        memory bound and the columns.

    Raises:
        SchemaError: As for `interval_join`.
        TidegateError: As for `interval_join`.
        TypeError: As for `interval_join`.
    """

def aggregate(
    streams: Streams,
    *,
    on: str,
    size: Length,
    advance: Length | None = None,
    offset: Length | None = None,
    by: str | Sequence[str] | None = None,
    aggs: Mapping[str, Aggregate],
    where: Expr | str | None = None,
    algorithm: Literal["auto", "slices"] = "auto",
    threads: int | None = None,
    max_rows: int | None = None,
) -> pa.Table:
    """Aggregate the rows of one or many inputs by key over sliding windows of time.

    A row is in every window `[k * advance + offset, k * advance + offset + size)`, k being any
    integer, that holds its time. The result has a row for each window and key that has rows.

    The operator is the multiway aggregate of Cederman, Gulisano, Nikolakopoulos, Papatriantafilou
    and Tsigas, "Efficient data streaming multiway aggregation through concurrent algorithmic
    designs and new abstract data types", section 2, over streams that have ended.

    Example:
        >>> north = pa.table({"ts": [0, 4, 9], "k": ["a", "b", "a"], "kwh": [1.0, 2.0, 4.0]})
        >>> south = pa.table({"ts": [4, 5], "k": ["a", None], "kwh": [8.0, 16.0]})
        >>> found = tg.aggregate(
        ...     [north, south], on="ts", size=10, advance=5, by="k",
        ...     aggs={"n": tg.agg.count(), "kwh": tg.agg.sum("kwh"), "last": tg.agg.last("kwh")},
        ... )
        >>> for row in found.to_pylist()[1:4]:
        ...     print(row)
        {'window_start': -5, 'window_end': 5, 'k': 'b', 'n': 1, 'kwh': 2.0, 'last': 2.0}
        {'window_start': 0, 'window_end': 10, 'k': 'a', 'n': 3, 'kwh': 13.0, 'last': 4.0}
        {'window_start': 0, 'window_end': 10, 'k': 'b', 'n': 1, 'kwh': 2.0, 'last': 2.0}

    Args:
        streams: One input, or a sequence of inputs whose columns of the same names are taken
            together. They are numbered from 0 in this order.
        on: The time column: an integer, date or timestamp. Units are reconciled without loss; a
            zone is on all streams or on none.
        size: How long a window is: a timedelta, a numpy timedelta64, a string such as "1h30m" or
            "250ms", or an integer in the unit of the time column (the finest of all streams). A
            whole number of these units, greater than 0.
        advance: How much later the next window begins, likewise; the size when None. Greater than
            the size leaves gaps.
        offset: Where windows begin, counted from 1970-01-01T00:00 UTC (0 for integers). Of any
            sign; 0 when None.
        by: The key columns: a name or a list of names. Without it all rows are one group. Null is
            a group, NaN equals NaN and 0.0 equals -0.0.
        aggs: What is computed: from the names of the result's columns to functions of
            `tidegate.agg`.
        where: Which rows there are at all: a condition on `tidegate.row` columns, or its SQL text.
        algorithm: `auto`, or `slices`, the one there is: rows are added up by slice of time, which
            all windows share, and slices combined to windows.
        threads: The number of threads, from 1 to 512; see `default_threads`.
        max_rows: The most rows that the result may have.

    Returns:
        `window_start` and `window_end` (int64 for integers, date32 for dates, else a timestamp in
        the finest unit), the key columns, then a column for each of `aggs`. Rows are in the order
        of windows, then keys ascending, nulls last.

    Raises:
        SchemaError: A column is missing, doubled, or of a type that does not fit.
        MemoryLimitError: The result would have more than `max_rows` rows.
        TidegateError: Another argument has no meaning, a time is null, an integer sum does not fit
            64 bits, or the Arrow data is malformed.
        TypeError: An argument is of the wrong type.

    Note:
        Streams need not be in time order; those that are not are sorted first, which costs time
        and a copy. First and last follow the order of time, then stream, then position.

        Results are a function of the data: floats are added in an order that neither threads nor
        batches change. That is, within a slice a stream's rows in time order, then the streams,
        then the slices: those before the last multiple of the window's slices from the latest to
        the earliest, those after it from the earliest to the latest.

        The work is proportional to rows and results, however many windows a row is in. Memory: the
        inputs, 8 bytes a row, and 4 to 24 bytes for each function, slice and key.
    """

def explain_aggregate(
    streams: Streams,
    *,
    on: str,
    size: Length,
    advance: Length | None = None,
    offset: Length | None = None,
    by: str | Sequence[str] | None = None,
    aggs: Mapping[str, Aggregate],
    where: Expr | str | None = None,
    algorithm: Literal["auto", "slices"] = "auto",
    threads: int | None = None,
    max_rows: int | None = None,
) -> str:
    """Say what `aggregate` would do with these arguments; `tidegate.explain` calls it.

    Only the schemas are read, and the arguments are checked as `aggregate` checks them.

    Example:
        >>> print(tg.explain(tg.aggregate, trades, on="ts", size=20, advance=10, by="sym",
        ...                  aggs={"n": tg.agg.count()}, threads=2))
        aggregate
          streams    1
          windows    [k * 10 + 0, k * 10 + 0 + 20) integer, on ts
          key        sym; null is a group
        ...

    Args:
        streams: As for `aggregate`.
        on: As for `aggregate`.
        size: As for `aggregate`.
        advance: As for `aggregate`.
        offset: As for `aggregate`.
        by: As for `aggregate`.
        aggs: As for `aggregate`.
        where: As for `aggregate`.
        algorithm: As for `aggregate`.
        threads: As for `aggregate`.
        max_rows: As for `aggregate`.

    Returns:
        A few lines of text: the windows, the keys, the functions, the algorithm, the threads, the
        memory bound and the columns.

    Raises:
        SchemaError: As for `aggregate`.
        TidegateError: As for `aggregate`.
        TypeError: As for `aggregate`.
    """
