"""The functions that users call: two per query, for a table and for batches.

Each function passes on its arguments by name, unchanged. An option therefore appears only in the
signature, in the docstring, and in the native query that reads it.

Long because the docstrings serve as the manual; the body of each function is a single call.

Examples use `tg` for `tidegate`, `pa` for `pyarrow`, and these tables:

    >>> import pyarrow as pa
    >>> import tidegate as tg
    >>> trades = pa.table({"ts": [10, 20, 30], "sym": ["A", "B", "A"], "price": [1.0, 2.0, 3.0]})
    >>> quotes = pa.table({"ts": [8, 10, 29, 31], "sym": ["A", "A", "A", "C"], "bid": [9, 8, 7, 6]})
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from tidegate import _tidegate, agg
from tidegate._tidegate import BatchReader
from tidegate.calls import aggregates, digests, joins, merges, rolled
from tidegate.calls.arguments import told, told_class
from tidegate.deferred import Deferred
from tidegate.expressions import Expr
from tidegate.types import (
    Algorithm,
    AsofHow,
    BandAlgorithm,
    Bound,
    Bytes,
    Closed,
    ClosedEnds,
    ClosedWindow,
    Empty,
    End,
    Epoch,
    GroupKeys,
    How,
    IntervalNames,
    JoinStats,
    Length,
    Names,
    OperatorStats,
    PairOrder,
    Reports,
    Sides,
    SideValues,
    Strategy,
    Streams,
    Table,
    Time,
    Value,
    Weekday,
    Window,
    WindowAlgorithm,
    Within,
)

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = Deferred("pyarrow")


@told
def asof_join(  # noqa: PLR0913 - the options of the query
    left: Table,
    right: Table,
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
    unit: Epoch | None = None,
    progress: Reports = False,
    threads: int | None = None,
    max_rows: int | None = None,
    memory_limit: Bytes | None = None,
    lateness: Bound | tuple[Bound, Bound] = None,
) -> pa.Table:
    """Match each left row with the right row that has the same key and is nearest in time.

    A right row `r` is a candidate for a left row `l` if `l.by == r.by`, the rows satisfy `where`,
    and `r.on` is at most `tolerance` away from `l.on` in the direction that `strategy` selects. The
    candidate that is nearest in time is the match. If several nearest candidates have the same
    time, the match is the last one if that time is before `l.on`, and the first one if that time is
    after `l.on`. A time equal to `l.on` is treated as earlier, unless `strategy` is `forward`.

    The as-of join corresponds to `aj` in kdb+, `ASOF JOIN` in DuckDB and `merge_asof` in pandas,
    with an optional condition.

    Example:
        Each trade with the last quote for its symbol:

        >>> tg.asof_join(
        ...     trades, quotes, on="ts", by="sym", columns=["ts", "sym", "ts_right", "bid"]
        ... ).to_pylist()[:2]
        [{'ts': 10, 'sym': 'A', 'ts_right': 10, 'bid': 8},
         {'ts': 20, 'sym': 'B', 'ts_right': None, 'bid': None}]

        The last quote with a high enough bid in the 25 time units before each trade:

        >>> tg.asof_join(
        ...     trades, quotes, on="ts", by="sym", allow_exact_matches=False, tolerance=25,
        ...     where=tg.right.bid > 7, how="inner", columns=["ts", "ts_right", "bid"],
        ... ).to_pydict()
        {'ts': [10, 30], 'ts_right': [8, 10], 'bid': [9, 8]}

        The bid at each trade, and 20 time units later:

        >>> tg.asof_join(
        ...     trades, quotes, on="ts", by="sym", at=[0, 20], columns=["ts", "bid_0", "bid_20"]
        ... ).to_pydict()
        {'ts': [10, 20, 30], 'bid_0': [8, None, 7], 'bid_20': [7, None, 7]}

        The last two quotes up to each trade, as lists:

        >>> tg.asof_join(trades, quotes, on="ts", by="sym", n=2, columns=["ts", "bid"]).to_pydict()
        {'ts': [10, 20, 30], 'bid': [[9, 8], None, [8, 7]]}

        The bid, interpolated between the quotes before and after each trade:

        >>> tg.asof_join(
        ...     trades, quotes, on="ts", strategy="interpolate", columns=["ts", "bid"]
        ... ).to_pydict()
        {'ts': [10, 20, 30], 'bid': [8.0, 7.473684210526316, 6.5]}

    Args:
        left: The left input, which can be Arrow data (a pyarrow table, batches or reader, a polars
            or pandas DataFrame, a DuckDB relation), a path or a list of paths (a file, a folder, a
            pattern such as "trades/*.parquet", a URL such as "s3://bucket/trades/"), a pyarrow
            Dataset, Scanner or ParquetFile, a polars LazyFrame, a NumPy record array, a dict of
            arrays, or an `Index`. Only the columns that the call uses are read from files and lazy
            inputs.
        right: The right input. `right` accepts the same kinds of input as `left`. If it is an
            `Index`, `on` and `by` only need the names of the left columns.
        on: The time column, or a pair of names if the column has a different name on each side.
            Times must be integers, dates or timestamps. Timestamps with time zones are compared as
            instants. The time units of the two sides may differ. Instead of a name, `on` accepts an
            expression over `tidegate.row` columns, or its SQL text.
        by: The key columns: a name, a list of names or name pairs, or a mapping from left to right
            names. Two rows match only if all of their keys are equal. Without keys, any two rows
            may match. Instead of a name, `by` accepts an expression over `tidegate.row` columns, or
            its SQL text.
        strategy: Which right row matches. `backward`: the last right row with `r.on <= l.on`.
            `forward`: the first right row with `r.on >= l.on`. `nearest`: the right row with the
            smallest `abs(l.on - r.on)`; in a tie between an earlier and a later row, the earlier
            row. `interpolate`: the row before and the row after. Numeric columns, except those in
            `on` and `by`, are then interpolated between the two rows as float64, and all other
            columns have the values of the row before. If the time of a row equals `l.on`, that
            row's values are returned. Otherwise, a left row without a row on both sides is
            unmatched.
        tolerance: The maximum time difference, inclusive: a timedelta, a numpy timedelta64, or a
            string such as "1h30m" or "250ms". If times are integers, give an integer in the same
            unit. None sets no bound. With `at`, the difference is measured from the time at the
            offset, and a list gives each offset its own tolerance.
        at: Offsets from the time of each left row, such as `["0s", "10s", "-1m"]`, or integers if
            times are integers. At each offset, the match is the one that an as-of join would find
            if the offset were added to `l.on`. The result has one set of right columns per offset.
            Their names end with an underscore and the offset, as in `price_10s`. With None, the
            match is looked up at `l.on` itself.
        long: Whether the result has one row per left row and offset instead of one set of right
            columns per offset. The column `at` contains the offset. `long` requires `at`.
        n: The maximum number of matches per left row, which are the `n` nearest candidates in the
            direction that `strategy` selects. Each right column becomes a list, whose values are in
            time order. With None, there is one match, and columns are not lists.
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
        unit: The unit of numeric times: "s", "ms", "us" or "ns". The numbers count from 1970 in UTC
            or, with a pair such as `("s", start)`, from a datetime. The result then contains
            timestamps. Floats must be whole numbers of microseconds, or of nanoseconds if the unit
            is "ns". The inputs are read in full, so `unit` cannot be combined with `memory_limit`,
            an index or tasks.
        progress: True shows a bar with tqdm or rich, if one of them is installed. A function is
            called with a `tidegate.types.Progress` when the call begins, after each batch of the
            result, and at the end.
        threads: The number of worker threads, from 1 to 512. None means `default_threads()`.
        max_rows: The maximum number of rows in the result. None sets no limit.
        memory_limit: The maximum memory that the call uses in addition to its inputs, as a number
            of bytes or a string such as "2GB". A result that is returned as one table may use half
            of the limit. With a limit, inputs may be larger than memory. Rows are then joined in
            time order, as if both inputs had been sorted by time. None sets no limit.
        lateness: The maximum time by which rows from an input may be out of order, as a timedelta,
            a numpy timedelta64, a string such as "250ms", or an integer if times are integers. This
            option requires `memory_limit`. To give each side its own value, pass a pair: first the
            left value, then the right one. If a row is further out of order, an `OrderError` is
            raised. With None, an input that is not known to be in order is sorted in temporary
            files.

    Returns:
        A table with the left columns, followed by the right columns. A key column that has the same
        name on both sides appears only once. Each left row produces at most one result row. Result
        rows follow the order of the left rows, regardless of the number of threads. With `at`, the
        right columns are repeated for each offset, and an inner join keeps the left rows that have
        a match at any offset. With `long`, each left row produces up to one result row per offset,
        in the order of `at`, and the column `at` follows the left columns.

    Raises:
        SchemaError: A column is missing or duplicated, or has an unsuitable type, or the Arrow data
            is malformed. The error is also raised if `tolerance` is an integer although times are
            dates or timestamps, or a duration although times are integers.
        MemoryLimitError: The result would have more than `max_rows` rows, or the system is out of
            memory.
        ClosedError: An input is a stream that has already been read, or a stream is passed twice.
        TidegateError: `tolerance` is negative, `how` is `right` or `full`, another argument is
            invalid, a time is null, an input cannot be read, or `where` overflows or divides by
            zero.
        TypeError: An argument has the wrong type.

    Note:
        A null key is not equal to any key, not even another null. NaN equals NaN, and 0.0 equals
        -0.0. Neither side needs to be sorted, but sorted inputs are joined faster. If the result
        contains most of the left rows, its left columns are slices of the input, which therefore
        stays in memory.

        With `where`, right rows are tested in blocks: first the 16 rows nearest to a left row, then
        the next 64, and so on. `where` may therefore also be evaluated for rows that are farther
        away than the matching row.

        The call needs memory for the inputs and the result, plus 12 bytes per left row and 4 bytes
        per right row. With `at`, each further offset needs 8 bytes per left row. For rows that are
        not in time order, the call needs up to 60 bytes per row, or up to 80 with `where`.
    """
    return joins.table(_tidegate.asof_join_query, locals())


@told
def asof_join_batches(  # noqa: PLR0913 - the options of the query
    left: Table,
    right: Table,
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
    unit: Epoch | None = None,
    progress: Reports = False,
    threads: int | None = None,
    max_rows: int | None = None,
    memory_limit: Bytes | None = None,
    lateness: Bound | tuple[Bound, Bound] = None,
    batch_rows: int | None = None,
) -> BatchReader[JoinStats]:
    """Match each left row with the nearest right row in time, batch by batch.

    A right row `r` is a candidate for a left row `l` if `l.by == r.by`, the rows satisfy `where`,
    and `r.on` is at most `tolerance` away from `l.on` in the direction that `strategy` selects. The
    candidate that is nearest in time is the match. If several nearest candidates have the same
    time, the match is the last one if that time is before `l.on`, and the first one if that time is
    after `l.on`. A time equal to `l.on` is treated as earlier, unless `strategy` is `forward`.

    Matching rows are found before the call returns. Result columns are built as you read batches,
    so the result may be larger than memory.

    Example:
        >>> reader = tg.asof_join_batches(trades, quotes, on="ts", by="sym", batch_rows=2)
        >>> [batch.column("bid").to_pylist() for batch in reader]
        [[8, None], [7]]

    Args:
        left: The left input, which can be Arrow data (a pyarrow table, batches or reader, a polars
            or pandas DataFrame, a DuckDB relation), a path or a list of paths (a file, a folder, a
            pattern such as "trades/*.parquet", a URL such as "s3://bucket/trades/"), a pyarrow
            Dataset, Scanner or ParquetFile, a polars LazyFrame, a NumPy record array, a dict of
            arrays, or an `Index`. Only the columns that the call uses are read from files and lazy
            inputs.
        right: The right input. `right` accepts the same kinds of input as `left`. If it is an
            `Index`, `on` and `by` only need the names of the left columns.
        on: The time column, or a pair of names if the column has a different name on each side.
            Times must be integers, dates or timestamps. Timestamps with time zones are compared as
            instants. The time units of the two sides may differ. Instead of a name, `on` accepts an
            expression over `tidegate.row` columns, or its SQL text.
        by: The key columns: a name, a list of names or name pairs, or a mapping from left to right
            names. Two rows match only if all of their keys are equal. Without keys, any two rows
            may match. Instead of a name, `by` accepts an expression over `tidegate.row` columns, or
            its SQL text.
        strategy: Which right row matches. `backward`: the last right row with `r.on <= l.on`.
            `forward`: the first right row with `r.on >= l.on`. `nearest`: the right row with the
            smallest `abs(l.on - r.on)`; in a tie between an earlier and a later row, the earlier
            row. `interpolate`: the row before and the row after. Numeric columns, except those in
            `on` and `by`, are then interpolated between the two rows as float64, and all other
            columns have the values of the row before. If the time of a row equals `l.on`, that
            row's values are returned. Otherwise, a left row without a row on both sides is
            unmatched.
        tolerance: The maximum time difference, inclusive: a timedelta, a numpy timedelta64, or a
            string such as "1h30m" or "250ms". If times are integers, give an integer in the same
            unit. None sets no bound. With `at`, the difference is measured from the time at the
            offset, and a list gives each offset its own tolerance.
        at: Offsets from the time of each left row, such as `["0s", "10s", "-1m"]`, or integers if
            times are integers. At each offset, the match is the one that an as-of join would find
            if the offset were added to `l.on`. The result has one set of right columns per offset.
            Their names end with an underscore and the offset, as in `price_10s`. With None, the
            match is looked up at `l.on` itself.
        long: Whether the result has one row per left row and offset instead of one set of right
            columns per offset. The column `at` contains the offset. `long` requires `at`.
        n: The maximum number of matches per left row, which are the `n` nearest candidates in the
            direction that `strategy` selects. Each right column becomes a list, whose values are in
            time order. With None, there is one match, and columns are not lists.
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
        unit: The unit of numeric times: "s", "ms", "us" or "ns". The numbers count from 1970 in UTC
            or, with a pair such as `("s", start)`, from a datetime. The result then contains
            timestamps. Floats must be whole numbers of microseconds, or of nanoseconds if the unit
            is "ns". The inputs are read in full, so `unit` cannot be combined with `memory_limit`,
            an index or tasks.
        progress: True shows a bar with tqdm or rich, if one of them is installed. A function is
            called with a `tidegate.types.Progress` when the call begins, after each batch of the
            result, and at the end.
        threads: The number of worker threads, from 1 to 512. None means `default_threads()`.
        max_rows: The maximum number of rows in the result. None sets no limit.
        memory_limit: The maximum memory that the call uses in addition to its inputs, as a number
            of bytes or a string such as "2GB". A result that is returned as one table may use half
            of the limit. With a limit, inputs may be larger than memory. Rows are then joined in
            time order, as if both inputs had been sorted by time. None sets no limit.
        lateness: The maximum time by which rows from an input may be out of order, as a timedelta,
            a numpy timedelta64, a string such as "250ms", or an integer if times are integers. This
            option requires `memory_limit`. To give each side its own value, pass a pair: first the
            left value, then the right one. If a row is further out of order, an `OrderError` is
            raised. With None, an input that is not known to be in order is sorted in temporary
            files.
        batch_rows: The maximum number of rows per batch. None means batches of a few megabytes.

    Returns:
        A reader for the batches. Together, the batches form one table with the left columns,
        followed by the right columns. A key column that has the same name on both sides appears
        only once. Each left row produces at most one result row. Result rows follow the order of
        the left rows, regardless of the number of threads.

    Raises:
        SchemaError: A column is missing or duplicated, or has an unsuitable type, or the Arrow data
            is malformed. The error is also raised if `tolerance` is an integer although times are
            dates or timestamps, or a duration although times are integers.
        MemoryLimitError: The result would have more than `max_rows` rows, or the system is out of
            memory.
        ClosedError: An input is a stream that has already been read, or a stream is passed twice.
        TidegateError: `tolerance` is negative, `how` is `right` or `full`, another argument is
            invalid, a time is null, an input cannot be read, or `where` overflows or divides by
            zero.
        TypeError: An argument has the wrong type.

    Note:
        The call needs memory for the inputs and for a few batches that have been produced but not
        yet read, plus 12 bytes per left row and 4 bytes per right row. For rows that are not in
        time order, the call needs up to 60 bytes per row, or up to 80 with `where`.
    """
    return joins.batches(_tidegate.asof_join_query, locals())


@told
def band_join(  # noqa: PLR0913 - the options of the query
    left: Table,
    right: Table,
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
    unit: Epoch | None = None,
    progress: Reports = False,
    threads: int | None = None,
    max_rows: int | None = None,
    memory_limit: Bytes | None = None,
    lateness: Bound | tuple[Bound, Bound] = None,
) -> pa.Table:
    """Match rows from two inputs whose values are close.

    A left row `l` and a right row `r` match if `abs(l.on - r.on) <= within` for each column in
    `on`, `l.by == r.by`, and the rows satisfy `where`. With `time` and `window`, the two rows must
    also fall within each other's sliding windows. A row-based window counts rows regardless of
    their keys. Without a window, times are ignored. The function computes the band join of
    Shahvarani and Jacobsen, section 5, over whole tables or windows.

    The join never examines pairs of rows that are far apart, so neither the running time nor the
    memory grows with the product of the input sizes.

    Example:
        Trades and quotes with similar prices:

        >>> tg.band_join(trades, quotes, on=[("price", "bid")], within=4.5).to_pandas()
           ts sym  price  ts_right sym_right  bid
        0  20   B    2.0        31         C    6
        1  30   A    3.0        29         A    7
        2  30   A    3.0        31         C    6

        Two columns with separate bands, where the right value of the second column must not be
        lower:

        >>> tg.band_join(
        ...     trades, quotes, on=["ts", ("price", "bid")], within=[2, (0, 8)],
        ...     how="left", columns=["ts", "ts_right"],
        ... ).to_pydict()
        {'ts': [10, 10, 20, 30, 30], 'ts_right': [8, 10, None, 29, 31]}

        Only the last quote before each trade, and the last trade before each quote:

        >>> tg.band_join(
        ...     trades, quotes, on=[("price", "bid")], within=4.5, time="ts", window=tg.rows(1)
        ... )["bid"].to_pylist()
        [7, 6]

    Args:
        left: The left input, which can be Arrow data (a pyarrow table, batches or reader, a polars
            or pandas DataFrame, a DuckDB relation), a path or a list of paths (a file, a folder, a
            pattern such as "trades/*.parquet", a URL such as "s3://bucket/trades/"), a pyarrow
            Dataset, Scanner or ParquetFile, a polars LazyFrame, a NumPy record array, a dict of
            arrays, or an `Index`. Only the columns that the call uses are read from files and lazy
            inputs.
        right: The right input. `right` accepts the same kinds of input as `left`. If it is an
            `Index`, `on` and `by` only need the names of the left columns.
        on: The band columns: a name, a list of names or name pairs, or a mapping from left to right
            names. Band columns must contain integers, floats, decimals, dates or timestamps. If a
            column contains floats on either side, both sides are compared as floats. Instead of a
            name, `on` accepts an expression over `tidegate.row` columns, or its SQL text.
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
            may match. Instead of a name, `by` accepts an expression over `tidegate.row` columns, or
            its SQL text.
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
            matches. Partners are aggregated in time order. Partners with equal times keep the order
            of the right rows.
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
        algorithm: The algorithm that finds matching rows. All algorithms return the same rows in
            the same order. `sort` sorts the right rows by a band column, and treats the window as
            an additional band. The other algorithms (`buckets`, `pim-tree`, `im-tree`,
            `bplus-tree`, `b-chain`, `ib-chain` and `round-robin`) process rows in time order, and
            look up each row in an index over the other side's window. With `ibwj` and
            `ibwj-blocking`, threads run tasks of a few rows each on shared PIM-Trees (section 4 of
            the paper). Only `ibwj` merges the trees while tasks are running. With
            `ibwj-bplus-tree`, the same tasks run on shared B+-trees, which are never merged. `auto`
            is usually `sort`. With a window, `auto` selects `buckets` if a sample shows that `sort`
            would check more than about a thousand pairs per left row.
        unit: The unit of numeric times: "s", "ms", "us" or "ns". The numbers count from 1970 in UTC
            or, with a pair such as `("s", start)`, from a datetime. The result then contains
            timestamps. Floats must be whole numbers of microseconds, or of nanoseconds if the unit
            is "ns". The inputs are read in full, so `unit` cannot be combined with `memory_limit`,
            an index or tasks.
        progress: True shows a bar with tqdm or rich, if one of them is installed. A function is
            called with a `tidegate.types.Progress` when the call begins, after each batch of the
            result, and at the end.
        threads: The number of worker threads, from 1 to 512. None means `default_threads()`.
        max_rows: The maximum number of rows in the result. None sets no limit.
        memory_limit: The maximum memory that the call uses in addition to its inputs, as a number
            of bytes or a string such as "2GB". A result that is returned as one table may use half
            of the limit. With a limit, inputs may be larger than memory. Rows are then joined in
            time order, as if both inputs had been sorted by time. None sets no limit.
        lateness: The maximum time by which rows from an input may be out of order, as a timedelta,
            a numpy timedelta64, a string such as "250ms", or an integer if times are integers. This
            option requires `memory_limit`. To give each side its own value, pass a pair: first the
            left value, then the right one. If a row is further out of order, an `OrderError` is
            raised. With None, an input that is not known to be in order is sorted in temporary
            files.

    Returns:
        A table with the left columns, followed by the right columns. A key column that has the same
        name on both sides appears only once. Result rows follow the order of the left rows, then
        that of the right rows, regardless of the number of threads. Unmatched right rows are at the
        end.

        With `aggs`, the result has the left columns, followed by one column per aggregate, and its
        rows are in the order of the left rows. For a row without partners, counts are 0 and all
        other aggregates are null.

    Raises:
        SchemaError: A column is missing or duplicated, or has an unsuitable type, or the Arrow data
            is malformed.
        MemoryLimitError: The result would have more than `max_rows` rows, or the system is out of
            memory.
        ClosedError: An input is a stream that has already been read, or a stream is passed twice.
        TidegateError: A distance or window is negative, another argument is invalid, a time is
            null, an input cannot be read, or `where` overflows or divides by zero.
        TypeError: An argument has the wrong type.

    Note:
        Null and NaN values do not match any value. Integers, decimals and times are compared
        exactly, even if the sum of a value and the distance does not fit in 64 bits. Floats are
        subtracted and compared according to IEEE 754. For example, 0.3 and 0.2 are within 0.1 of
        each other, but 0.4 and 0.3 are not. Two equal infinities do not match, because their
        difference is NaN.

        Signed integers on one side and unsigned integers on the other side are compared as int64.
        Before decimals are compared, both sides are converted to the larger number of decimal
        places. An error is raised if a number does not fit in 64 bits after these conversions, or
        if comparing the decimals exactly requires more than 38 digits.

        With several columns, a sample is used to determine which band yields the fewest pairs. That
        band's column is indexed, and the other columns are checked pair by pair.
    """
    return joins.table(_tidegate.band_join_query, locals())


@told
def band_join_batches(  # noqa: PLR0913 - the options of the query
    left: Table,
    right: Table,
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
    unit: Epoch | None = None,
    progress: Reports = False,
    threads: int | None = None,
    max_rows: int | None = None,
    memory_limit: Bytes | None = None,
    lateness: Bound | tuple[Bound, Bound] = None,
    batch_rows: int | None = None,
) -> BatchReader[JoinStats]:
    """Match rows from two inputs whose values are close, batch by batch.

    A left row `l` and a right row `r` match if `abs(l.on - r.on) <= within` for each column in
    `on`, `l.by == r.by`, and the rows satisfy `where`. With `time` and `window`, the two rows must
    also fall within each other's sliding windows.

    With one band column, pairs are found before the call returns. With several band columns, the
    columns without an index are checked when batches are produced.

    Example:
        >>> reader = tg.band_join_batches(
        ...     trades, quotes, on=[("price", "bid")], within=4.5, batch_rows=2
        ... )
        >>> [batch.column("bid").to_pylist() for batch in reader]
        [[6, 7], [6]]

    Args:
        left: The left input, which can be Arrow data (a pyarrow table, batches or reader, a polars
            or pandas DataFrame, a DuckDB relation), a path or a list of paths (a file, a folder, a
            pattern such as "trades/*.parquet", a URL such as "s3://bucket/trades/"), a pyarrow
            Dataset, Scanner or ParquetFile, a polars LazyFrame, a NumPy record array, a dict of
            arrays, or an `Index`. Only the columns that the call uses are read from files and lazy
            inputs.
        right: The right input. `right` accepts the same kinds of input as `left`. If it is an
            `Index`, `on` and `by` only need the names of the left columns.
        on: The band columns: a name, a list of names or name pairs, or a mapping from left to right
            names. Band columns must contain integers, floats, decimals, dates or timestamps. If a
            column contains floats on either side, both sides are compared as floats. Instead of a
            name, `on` accepts an expression over `tidegate.row` columns, or its SQL text.
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
            may match. Instead of a name, `by` accepts an expression over `tidegate.row` columns, or
            its SQL text.
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
            matches. Partners are aggregated in time order. Partners with equal times keep the order
            of the right rows.
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
        algorithm: The algorithm that finds matching rows. All algorithms return the same rows in
            the same order. `sort` sorts the right rows by a band column, and treats the window as
            an additional band. The other algorithms (`buckets`, `pim-tree`, `im-tree`,
            `bplus-tree`, `b-chain`, `ib-chain` and `round-robin`) process rows in time order, and
            look up each row in an index over the other side's window. With `ibwj` and
            `ibwj-blocking`, threads run tasks of a few rows each on shared PIM-Trees (section 4 of
            the paper). Only `ibwj` merges the trees while tasks are running. With
            `ibwj-bplus-tree`, the same tasks run on shared B+-trees, which are never merged. `auto`
            is usually `sort`. With a window, `auto` selects `buckets` if a sample shows that `sort`
            would check more than about a thousand pairs per left row.
        unit: The unit of numeric times: "s", "ms", "us" or "ns". The numbers count from 1970 in UTC
            or, with a pair such as `("s", start)`, from a datetime. The result then contains
            timestamps. Floats must be whole numbers of microseconds, or of nanoseconds if the unit
            is "ns". The inputs are read in full, so `unit` cannot be combined with `memory_limit`,
            an index or tasks.
        progress: True shows a bar with tqdm or rich, if one of them is installed. A function is
            called with a `tidegate.types.Progress` when the call begins, after each batch of the
            result, and at the end.
        threads: The number of worker threads, from 1 to 512. None means `default_threads()`.
        max_rows: The maximum number of rows in the result. None sets no limit. If pairs are checked
            when batches are produced, as with `where`, you may receive some batches before an error
            is raised.
        memory_limit: The maximum memory that the call uses in addition to its inputs, as a number
            of bytes or a string such as "2GB". A result that is returned as one table may use half
            of the limit. With a limit, inputs may be larger than memory. Rows are then joined in
            time order, as if both inputs had been sorted by time. None sets no limit.
        lateness: The maximum time by which rows from an input may be out of order, as a timedelta,
            a numpy timedelta64, a string such as "250ms", or an integer if times are integers. This
            option requires `memory_limit`. To give each side its own value, pass a pair: first the
            left value, then the right one. If a row is further out of order, an `OrderError` is
            raised. With None, an input that is not known to be in order is sorted in temporary
            files.
        batch_rows: The maximum number of rows per batch. None means batches of a few megabytes.

    Returns:
        A reader for the batches. Together, the batches form one table with the left columns,
        followed by the right columns. A key column that has the same name on both sides appears
        only once. Result rows follow the order of the left rows, then that of the right rows,
        regardless of the number of threads. Unmatched right rows are at the end.

        With `aggs`, the result has the left columns, followed by one column per aggregate, and its
        rows are in the order of the left rows. For a row without partners, counts are 0 and all
        other aggregates are null.

    Raises:
        SchemaError: A column is missing or duplicated, or has an unsuitable type, or the Arrow data
            is malformed.
        MemoryLimitError: The result would have more than `max_rows` rows, or the system is out of
            memory.
        ClosedError: An input is a stream that has already been read, or a stream is passed twice.
        TidegateError: A distance or window is negative, another argument is invalid, a time is
            null, an input cannot be read, or `where` overflows or divides by zero.
        TypeError: An argument has the wrong type.
    """
    return joins.batches(_tidegate.band_join_query, locals())


@told
def interval_join(  # noqa: PLR0913 - the options of the query
    left: Table,
    right: Table,
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
    unit: Epoch | None = None,
    progress: Reports = False,
    threads: int | None = None,
    max_rows: int | None = None,
    memory_limit: Bytes | None = None,
    lateness: Bound | tuple[Bound, Bound] = None,
) -> pa.Table:
    """Match rows from two inputs that have the same key and are close in time.

    A left row `l` and a right row `r` match if `l.by == r.by`,
    `l.on + lower <= r.on <= l.on + upper`, and `where` holds. The function computes the online
    interval join from section 2.2 of PPOIJ over whole tables.

    Example:
        The quotes for a trade's symbol in the two seconds up to the trade:

        >>> tg.interval_join(trades, quotes, on="ts", by="sym", lower=-2, upper=0).to_pandas()
           ts sym  price  ts_right  bid
        0  10   A    1.0         8    9
        1  10   A    1.0        10    8
        2  30   A    3.0        29    7

        Every trade, with only those quotes that have a high enough bid:

        >>> tg.interval_join(
        ...     trades, quotes, on="ts", by="sym", lower=-2, upper=0,
        ...     how="left", where=tg.right.bid > 8, columns=["ts", "bid"],
        ... ).to_pydict()
        {'ts': [10, 20, 30], 'bid': [9, None, None]}

        One row per trade, with the number of quotes and the mean bid in the two seconds before it:

        >>> tg.interval_join(
        ...     trades, quotes, on="ts", by="sym", lower=-2, upper=0, columns=["ts", "sym"],
        ...     aggs={"quotes": tg.agg.count(), "bid": tg.agg.mean("bid")},
        ... ).to_pandas()
           ts sym  quotes  bid
        0  10   A       2  8.5
        1  20   B       0  NaN
        2  30   A       1  7.0

        The quote that is nearest to each trade:

        >>> tg.interval_join(
        ...     trades, quotes, on="ts", by="sym", lower=-20, upper=20,
        ...     limit=1, order="nearest", columns=["ts", "ts_right", "bid"],
        ... ).to_pydict()
        {'ts': [10, 30], 'ts_right': [10, 29], 'bid': [8, 7]}

        Orders that are valid for some time, with the trades during that time:

        >>> orders = pa.table({"ts": [5, 15], "sym": ["A", "A"], "good_for": [6, 30]})
        >>> tg.interval_join(
        ...     orders, trades, on="ts", by="sym", lower=0, upper=tg.left.good_for
        ... ).to_pandas()
           ts sym  good_for  ts_right  price
        0   5   A         6        10    1.0
        1  15   A        30        30    3.0

    Args:
        left: The left input, which can be Arrow data (a pyarrow table, batches or reader, a polars
            or pandas DataFrame, a DuckDB relation), a path or a list of paths (a file, a folder, a
            pattern such as "trades/*.parquet", a URL such as "s3://bucket/trades/"), a pyarrow
            Dataset, Scanner or ParquetFile, a polars LazyFrame, a NumPy record array, a dict of
            arrays, or an `Index`. Only the columns that the call uses are read from files and lazy
            inputs.
        right: The right input. `right` accepts the same kinds of input as `left`. If it is an
            `Index`, `on` and `by` only need the names of the left columns.
        on: The time column, or a pair of names if the column has a different name on each side.
            Times must be integers, dates or timestamps. Timestamps with time zones are compared as
            instants. The time units of the two sides may differ. Instead of a name, `on` accepts an
            expression over `tidegate.row` columns, or its SQL text.
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
            may match. Instead of a name, `by` accepts an expression over `tidegate.row` columns, or
            its SQL text.
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
            matches. Partners are aggregated in time order. Partners with equal times keep the order
            of the right rows.
        closed: The ends that the interval includes: `both`, `left`, `right` or `neither`.
        open_ends: Whether a bound expression that evaluates to null means that there is no bound.
            Otherwise, a row with a null bound does not match any row.
        prevailing: Whether the last right row with the same key before the interval also counts as
            a partner. The row must also satisfy `where`. `prevailing` requires `aggs`, a `lower`
            bound, and bounds that are the same for all rows.
        limit: The maximum number of pairs per left row. `order` selects these pairs, and other
            pairs are not in the result. A left row's pairs are in the order of the right rows, as
            without a limit. With `how="right"` or `how="full"`, right rows that no left row keeps
            count as unmatched. None sets no limit.
        order: The pairs that `limit` keeps. `first`: those with the earliest right rows. `last`:
            those with the latest right rows. `nearest`: those with the smallest `abs(l.on - r.on)`.
            In a tie between an earlier and a later right row, the earlier one is kept. Right rows
            with equal times are in row order, and the last of them is the nearest unless they are
            after the left row. None means `first`.
        suffix: The suffix to append to the name of a right column if the left side has a column
            with the same name.
        columns: The columns to include in the result, in this order. With `aggs`, these are the
            left columns to keep. Other columns are not computed. None means all columns.
        unit: The unit of numeric times: "s", "ms", "us" or "ns". The numbers count from 1970 in UTC
            or, with a pair such as `("s", start)`, from a datetime. The result then contains
            timestamps. Floats must be whole numbers of microseconds, or of nanoseconds if the unit
            is "ns". The inputs are read in full, so `unit` cannot be combined with `memory_limit`,
            an index or tasks.
        progress: True shows a bar with tqdm or rich, if one of them is installed. A function is
            called with a `tidegate.types.Progress` when the call begins, after each batch of the
            result, and at the end.
        threads: The number of worker threads, from 1 to 512. None means `default_threads()`.
        max_rows: The maximum number of rows in the result. None sets no limit.
        memory_limit: The maximum memory that the call uses in addition to its inputs, as a number
            of bytes or a string such as "2GB". A result that is returned as one table may use half
            of the limit. With a limit, inputs may be larger than memory. Rows are then joined in
            time order, as if both inputs had been sorted by time. None sets no limit.
        lateness: The maximum time by which rows from an input may be out of order, as a timedelta,
            a numpy timedelta64, a string such as "250ms", or an integer if times are integers. This
            option requires `memory_limit`. To give each side its own value, pass a pair: first the
            left value, then the right one. If a row is further out of order, an `OrderError` is
            raised. With None, an input that is not known to be in order is sorted in temporary
            files.

    Returns:
        A table with the left columns, followed by the right columns. A key column that has the same
        name on both sides appears only once. Result rows follow the order of the left rows, then
        that of the right rows, regardless of the number of threads. Unmatched right rows are at the
        end.

        With `aggs`, the result has the left columns, followed by one column per aggregate, and its
        rows are in the order of the left rows. For a row without partners, counts are 0 and all
        other aggregates are null. The cost per left row does not depend on the number of partners,
        unless `where` reads both sides or an end is an expression.

    Raises:
        SchemaError: A column is missing or duplicated, or has an unsuitable type, or the Arrow data
            is malformed.
        MemoryLimitError: The result would have more than `max_rows` rows, or the system is out of
            memory.
        ClosedError: An input is a stream that has already been read, or a stream is passed twice.
        TidegateError: Another argument is invalid, a time is null, an input cannot be read, or an
            expression overflows or divides by zero.
        TypeError: An argument has the wrong type.

    Note:
        A null key is not equal to any key, not even another null. NaN equals NaN, and 0.0 equals
        -0.0. A time plus a bound is compared exactly, even if the sum does not fit in 64 bits.
        Neither side needs to be sorted, but sorted inputs are joined faster.

        The call needs memory for the inputs and the result, plus 12 bytes per left row and 8 bytes
        per right row. For rows that are not in time order, the call needs up to 60 bytes per row,
        or up to 126 if an end is an expression. If the result does not fit in memory, use
        `interval_join_batches`.
    """
    return joins.table(_tidegate.interval_join_query, locals())


@told
def interval_join_batches(  # noqa: PLR0913 - the options of the query
    left: Table,
    right: Table,
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
    unit: Epoch | None = None,
    progress: Reports = False,
    threads: int | None = None,
    max_rows: int | None = None,
    memory_limit: Bytes | None = None,
    lateness: Bound | tuple[Bound, Bound] = None,
    batch_rows: int | None = None,
) -> BatchReader[JoinStats]:
    """Match rows from two inputs that have the same key and are close in time, batch by batch.

    A left row `l` and a right row `r` match if `l.by == r.by`,
    `l.on + lower <= r.on <= l.on + upper`, and `where` holds. Pairs are found before the call
    returns. Result columns are built as you read batches, so the result may be larger than memory.

    Example:
        >>> reader = tg.interval_join_batches(
        ...     trades, quotes, on="ts", by="sym", lower=-2, upper=0, batch_rows=2
        ... )
        >>> [batch.column("bid").to_pylist() for batch in reader]
        [[9, 8], [7]]

        Write a result that is larger than memory to a file, batch by batch:

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
        left: The left input, which can be Arrow data (a pyarrow table, batches or reader, a polars
            or pandas DataFrame, a DuckDB relation), a path or a list of paths (a file, a folder, a
            pattern such as "trades/*.parquet", a URL such as "s3://bucket/trades/"), a pyarrow
            Dataset, Scanner or ParquetFile, a polars LazyFrame, a NumPy record array, a dict of
            arrays, or an `Index`. Only the columns that the call uses are read from files and lazy
            inputs.
        right: The right input. `right` accepts the same kinds of input as `left`. If it is an
            `Index`, `on` and `by` only need the names of the left columns.
        on: The time column, or a pair of names if the column has a different name on each side.
            Times must be integers, dates or timestamps. Timestamps with time zones are compared as
            instants. The time units of the two sides may differ. Instead of a name, `on` accepts an
            expression over `tidegate.row` columns, or its SQL text.
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
            may match. Instead of a name, `by` accepts an expression over `tidegate.row` columns, or
            its SQL text.
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
            matches. Partners are aggregated in time order. Partners with equal times keep the order
            of the right rows.
        closed: The ends that the interval includes: `both`, `left`, `right` or `neither`.
        open_ends: Whether a bound expression that evaluates to null means that there is no bound.
            Otherwise, a row with a null bound does not match any row.
        prevailing: Whether the last right row with the same key before the interval also counts as
            a partner. The row must also satisfy `where`. `prevailing` requires `aggs`, a `lower`
            bound, and bounds that are the same for all rows.
        limit: The maximum number of pairs per left row. `order` selects these pairs, and other
            pairs are not in the result. A left row's pairs are in the order of the right rows, as
            without a limit. With `how="right"` or `how="full"`, right rows that no left row keeps
            count as unmatched. None sets no limit.
        order: The pairs that `limit` keeps. `first`: those with the earliest right rows. `last`:
            those with the latest right rows. `nearest`: those with the smallest `abs(l.on - r.on)`.
            In a tie between an earlier and a later right row, the earlier one is kept. Right rows
            with equal times are in row order, and the last of them is the nearest unless they are
            after the left row. None means `first`.
        suffix: The suffix to append to the name of a right column if the left side has a column
            with the same name.
        columns: The columns to include in the result, in this order. With `aggs`, these are the
            left columns to keep. Other columns are not computed. None means all columns.
        unit: The unit of numeric times: "s", "ms", "us" or "ns". The numbers count from 1970 in UTC
            or, with a pair such as `("s", start)`, from a datetime. The result then contains
            timestamps. Floats must be whole numbers of microseconds, or of nanoseconds if the unit
            is "ns". The inputs are read in full, so `unit` cannot be combined with `memory_limit`,
            an index or tasks.
        progress: True shows a bar with tqdm or rich, if one of them is installed. A function is
            called with a `tidegate.types.Progress` when the call begins, after each batch of the
            result, and at the end.
        threads: The number of worker threads, from 1 to 512. None means `default_threads()`.
        max_rows: The maximum number of rows in the result. None sets no limit. If pairs are checked
            when batches are produced, as with `where`, you may receive some batches before an error
            is raised.
        memory_limit: The maximum memory that the call uses in addition to its inputs, as a number
            of bytes or a string such as "2GB". A result that is returned as one table may use half
            of the limit. With a limit, inputs may be larger than memory. Rows are then joined in
            time order, as if both inputs had been sorted by time. None sets no limit.
        lateness: The maximum time by which rows from an input may be out of order, as a timedelta,
            a numpy timedelta64, a string such as "250ms", or an integer if times are integers. This
            option requires `memory_limit`. To give each side its own value, pass a pair: first the
            left value, then the right one. If a row is further out of order, an `OrderError` is
            raised. With None, an input that is not known to be in order is sorted in temporary
            files.
        batch_rows: The maximum number of rows per batch. None means batches of a few megabytes.

    Returns:
        A reader for the batches. Together, the batches form one table with the left columns,
        followed by the right columns. A key column that has the same name on both sides appears
        only once. Result rows follow the order of the left rows, then that of the right rows,
        regardless of the number of threads. Unmatched right rows are at the end.

        With `aggs`, the result has the left columns, followed by one column per aggregate, and its
        rows are in the order of the left rows. For a row without partners, counts are 0 and all
        other aggregates are null. The cost per left row does not depend on the number of partners,
        unless `where` reads both sides or an end is an expression.

    Raises:
        SchemaError: A column is missing or duplicated, or has an unsuitable type, or the Arrow data
            is malformed.
        MemoryLimitError: The result would have more than `max_rows` rows, or the system is out of
            memory.
        ClosedError: An input is a stream that has already been read, or a stream is passed twice.
        TidegateError: Another argument is invalid, a time is null, an input cannot be read, or an
            expression overflows or divides by zero.
        TypeError: An argument has the wrong type.

    Note:
        The call needs memory for the inputs and for a few batches that have been produced but not
        yet read, plus 12 bytes per left row and 8 bytes per right row. For rows that are not in
        time order, the call needs up to 60 bytes per row, or up to 126 if an end is an expression.
    """
    return joins.batches(_tidegate.interval_join_query, locals())


@told
def overlap_join(  # noqa: PLR0913 - the options of the query
    left: Table,
    right: Table,
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
    unit: Epoch | None = None,
    progress: Reports = False,
    threads: int | None = None,
    max_rows: int | None = None,
    memory_limit: Bytes | None = None,
    lateness: Bound | tuple[Bound, Bound] = None,
) -> pa.Table:
    """Match rows from two inputs whose intervals overlap.

    Each row has a start and an end. A left row `l` and a right row `r` match if
    `l.start <= r.end`, `r.start <= l.end`, `l.by == r.by`, and `where` holds. With `closed="left"`,
    `<` replaces `<=`. A row with a null start or end does not match any row, unless `open_ends` is
    true.

    Neither the running time nor the memory grows with the product of the input sizes. A few very
    long intervals do not slow down the other rows. At selected points in time, the join lists the
    right rows whose intervals are open. Each left row is therefore compared with at most twice as
    many rows as it matches, or with at most seven more rows than it matches (the window lists of
    Chazelle, "Filtering Search", 1986). If all `aggs` are counts, no pairs are examined unless
    `where` reads both sides.

    Example:
        The jobs that ran while an alarm was active:

        >>> alarms = pa.table({"start": [10, 20, 50], "end": [15, 29, 60], "alarm": [*"ABC"]})
        >>> jobs = pa.table({"start": [0, 12, 15], "end": [99, 14, 20], "job": ["x", "y", "z"]})
        >>> tg.overlap_join(alarms, jobs, on=("start", "end")).to_pandas()
           start  end alarm  start_right  end_right job
        0     10   15     A            0         99   x
        1     10   15     A           12         14   y
        2     10   15     A           15         20   z
        3     20   29     B            0         99   x
        4     20   29     B           15         20   z
        5     50   60     C            0         99   x

        Only overlaps of at least two time steps, and each alarm at most once:

        >>> tg.overlap_join(
        ...     alarms, jobs, on=("start", "end"), min_overlap=2, where=tg.right.end < 99,
        ...     how="semi", columns=["alarm"],
        ... ).to_pydict()
        {'alarm': ['A']}

        The number of jobs for each alarm:

        >>> tg.overlap_join(
        ...     alarms, jobs, on=("start", "end"), aggs={"jobs": tg.agg.count()}, columns=["alarm"]
        ... ).to_pydict()
        {'alarm': ['A', 'B', 'C'], 'jobs': [3, 2, 1]}

        A job that has not ended:

        >>> running = pa.table({"start": [40], "end": pa.array([None], pa.int64()), "job": ["w"]})
        >>> tg.overlap_join(
        ...     alarms, running, on=("start", "end"), open_ends=True, columns=["alarm", "job"]
        ... ).to_pydict()
        {'alarm': ['C'], 'job': ['w']}

        Points in intervals:

        >>> readings = pa.table({"ts": [13, 40], "value": [1.5, 2.5]})
        >>> tg.overlap_join(
        ...     readings, jobs, on=(("ts", "ts"), ("start", "end")), columns=["ts", "job"]
        ... ).to_pydict()
        {'ts': [13, 13, 40], 'job': ['x', 'y', 'x']}

    Args:
        left: The left input, which can be Arrow data (a pyarrow table, batches or reader, a polars
            or pandas DataFrame, a DuckDB relation), a path or a list of paths (a file, a folder, a
            pattern such as "trades/*.parquet", a URL such as "s3://bucket/trades/"), a pyarrow
            Dataset, Scanner or ParquetFile, a polars LazyFrame, a NumPy record array, a dict of
            arrays, or an `Index`. Only the columns that the call uses are read from files and lazy
            inputs.
        right: The right input. `right` accepts the same kinds of input as `left`. If it is an
            `Index`, `on` and `by` only need the names of the left columns.
        on: The names of the start and end columns. If the names differ between the sides, give a
            pair of names for each side, as in `(("ts", "ts"), ("start", "end"))`. If a side has a
            single time column, give its name twice. Each row on that side then matches the
            intervals that contain its time. The columns must contain integers, dates or timestamps.
            Instead of a name, `on` accepts an expression over `tidegate.row` columns, or its SQL
            text. A row with a null start or end does not match any row, unless `open_ends` is true.
        by: The key columns: a name, a list of names or name pairs, or a mapping from left to right
            names. Two rows match only if all of their keys are equal. Without keys, any two rows
            may match. Instead of a name, `by` accepts an expression over `tidegate.row` columns, or
            its SQL text.
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
            matches. Partners are aggregated in time order. Partners with equal times keep the order
            of the right rows.
        closed: Whether intervals include their ends. They always include their start. `both`:
            intervals include their ends, so two intervals that merely touch also overlap. `left`:
            intervals exclude their ends, so intervals that touch do not overlap, and empty
            intervals do not overlap any interval.
        open_ends: Whether a null start means that the interval has always been open, and a null end
            that it remains open forever. Otherwise, a row with a null start or end does not match
            any row. If a side has a single time column, a null time does not match any row in
            either case.
        min_overlap: The minimum length of the overlap, as a timedelta, a numpy timedelta64, a
            string such as "5s", or an integer if the columns contain integers. If None, any overlap
            is sufficient, even a single point.
        suffix: The suffix to append to the name of a right column if the left side has a column
            with the same name.
        columns: The columns to include in the result, in this order. With `aggs`, these are the
            left columns to keep. Other columns are not computed. None means all columns.
        unit: The unit of numeric times: "s", "ms", "us" or "ns". The numbers count from 1970 in UTC
            or, with a pair such as `("s", start)`, from a datetime. The result then contains
            timestamps. Floats must be whole numbers of microseconds, or of nanoseconds if the unit
            is "ns". The inputs are read in full, so `unit` cannot be combined with `memory_limit`,
            an index or tasks.
        progress: True shows a bar with tqdm or rich, if one of them is installed. A function is
            called with a `tidegate.types.Progress` when the call begins, after each batch of the
            result, and at the end.
        threads: The number of worker threads, from 1 to 512. None means `default_threads()`.
        max_rows: The maximum number of rows in the result. None sets no limit.
        memory_limit: The maximum memory that the call uses in addition to its inputs, as a number
            of bytes or a string such as "2GB". A result that is returned as one table may use half
            of the limit. With a limit, inputs may be larger than memory. Rows are then joined in
            time order, as if both inputs had been sorted by time. None sets no limit.
        lateness: The maximum time by which rows from an input may be out of order, as a timedelta,
            a numpy timedelta64, a string such as "250ms", or an integer if times are integers. This
            option requires `memory_limit`. To give each side its own value, pass a pair: first the
            left value, then the right one. If a row is further out of order, an `OrderError` is
            raised. With None, an input that is not known to be in order is sorted in temporary
            files.

    Returns:
        A table with the left columns, followed by the right columns. A key column that has the same
        name on both sides appears only once. Result rows follow the order of the left rows, then
        that of the right rows, regardless of the number of threads. Unmatched right rows are at the
        end.

        With `aggs`, the result has the left columns, followed by one column per aggregate, and its
        rows are in the order of the left rows. For a row without partners, counts are 0 and all
        other aggregates are null.

    Raises:
        SchemaError: A column is missing or duplicated, or has an unsuitable type, or the Arrow data
            is malformed.
        MemoryLimitError: The result would have more than `max_rows` rows, or the system is out of
            memory.
        ClosedError: An input is a stream that has already been read, or a stream is passed twice.
        TidegateError: A row starts after it ends, `min_overlap` is negative, another
            argument is invalid, an input cannot be read, or `where` overflows or divides by zero.
        TypeError: An argument has the wrong type.

    Note:
        Times are compared exactly, in the finest unit of the four columns. The overlap of two rows
        extends from the later start to the earlier end. With `aggs`, partners are ordered by start
        time.
    """
    return joins.table(_tidegate.overlap_join_query, locals())


@told
def overlap_join_batches(  # noqa: PLR0913 - the options of the query
    left: Table,
    right: Table,
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
    unit: Epoch | None = None,
    progress: Reports = False,
    threads: int | None = None,
    max_rows: int | None = None,
    memory_limit: Bytes | None = None,
    lateness: Bound | tuple[Bound, Bound] = None,
    batch_rows: int | None = None,
) -> BatchReader[JoinStats]:
    """Match rows from two inputs whose intervals overlap, batch by batch.

    Each row has a start and an end. A left row `l` and a right row `r` match if
    `l.start <= r.end`, `r.start <= l.end`, `l.by == r.by`, and `where` holds. With `closed="left"`,
    `<` replaces `<=`. A row with a null start or end does not match any row, unless `open_ends` is
    true.

    Pairs are found as batches are produced, so the result may have more pairs than fit in memory.

    Example:
        >>> alarms = pa.table({"start": [10, 20], "end": [15, 29], "alarm": ["A", "B"]})
        >>> jobs = pa.table({"start": [0, 12, 15], "end": [99, 14, 20], "job": ["x", "y", "z"]})
        >>> reader = tg.overlap_join_batches(alarms, jobs, on=("start", "end"), batch_rows=3)
        >>> [batch.column("job").to_pylist() for batch in reader]
        [['x', 'y', 'z'], ['x', 'z']]

    Args:
        left: The left input, which can be Arrow data (a pyarrow table, batches or reader, a polars
            or pandas DataFrame, a DuckDB relation), a path or a list of paths (a file, a folder, a
            pattern such as "trades/*.parquet", a URL such as "s3://bucket/trades/"), a pyarrow
            Dataset, Scanner or ParquetFile, a polars LazyFrame, a NumPy record array, a dict of
            arrays, or an `Index`. Only the columns that the call uses are read from files and lazy
            inputs.
        right: The right input. `right` accepts the same kinds of input as `left`. If it is an
            `Index`, `on` and `by` only need the names of the left columns.
        on: The names of the start and end columns. If the names differ between the sides, give a
            pair of names for each side, as in `(("ts", "ts"), ("start", "end"))`. If a side has a
            single time column, give its name twice. Each row on that side then matches the
            intervals that contain its time. The columns must contain integers, dates or timestamps.
            Instead of a name, `on` accepts an expression over `tidegate.row` columns, or its SQL
            text. A row with a null start or end does not match any row, unless `open_ends` is true.
        by: The key columns: a name, a list of names or name pairs, or a mapping from left to right
            names. Two rows match only if all of their keys are equal. Without keys, any two rows
            may match. Instead of a name, `by` accepts an expression over `tidegate.row` columns, or
            its SQL text.
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
            matches. Partners are aggregated in time order. Partners with equal times keep the order
            of the right rows.
        closed: Whether intervals include their ends. They always include their start. `both`:
            intervals include their ends, so two intervals that merely touch also overlap. `left`:
            intervals exclude their ends, so intervals that touch do not overlap, and empty
            intervals do not overlap any interval.
        open_ends: Whether a null start means that the interval has always been open, and a null end
            that it remains open forever. Otherwise, a row with a null start or end does not match
            any row. If a side has a single time column, a null time does not match any row in
            either case.
        min_overlap: The minimum length of the overlap, as a timedelta, a numpy timedelta64, a
            string such as "5s", or an integer if the columns contain integers. If None, any overlap
            is sufficient, even a single point.
        suffix: The suffix to append to the name of a right column if the left side has a column
            with the same name.
        columns: The columns to include in the result, in this order. With `aggs`, these are the
            left columns to keep. Other columns are not computed. None means all columns.
        unit: The unit of numeric times: "s", "ms", "us" or "ns". The numbers count from 1970 in UTC
            or, with a pair such as `("s", start)`, from a datetime. The result then contains
            timestamps. Floats must be whole numbers of microseconds, or of nanoseconds if the unit
            is "ns". The inputs are read in full, so `unit` cannot be combined with `memory_limit`,
            an index or tasks.
        progress: True shows a bar with tqdm or rich, if one of them is installed. A function is
            called with a `tidegate.types.Progress` when the call begins, after each batch of the
            result, and at the end.
        threads: The number of worker threads, from 1 to 512. None means `default_threads()`.
        max_rows: The maximum number of rows in the result. None sets no limit. If pairs are checked
            when batches are produced, as with `where`, you may receive some batches before an error
            is raised.
        memory_limit: The maximum memory that the call uses in addition to its inputs, as a number
            of bytes or a string such as "2GB". A result that is returned as one table may use half
            of the limit. With a limit, inputs may be larger than memory. Rows are then joined in
            time order, as if both inputs had been sorted by time. None sets no limit.
        lateness: The maximum time by which rows from an input may be out of order, as a timedelta,
            a numpy timedelta64, a string such as "250ms", or an integer if times are integers. This
            option requires `memory_limit`. To give each side its own value, pass a pair: first the
            left value, then the right one. If a row is further out of order, an `OrderError` is
            raised. With None, an input that is not known to be in order is sorted in temporary
            files.
        batch_rows: The maximum number of rows per batch. None means batches of a few megabytes.

    Returns:
        A reader for the batches. Together, the batches form one table with the left columns,
        followed by the right columns. A key column that has the same name on both sides appears
        only once. Result rows follow the order of the left rows, then that of the right rows,
        regardless of the number of threads. Unmatched right rows are at the end.

        With `aggs`, the result has the left columns, followed by one column per aggregate, and its
        rows are in the order of the left rows. For a row without partners, counts are 0 and all
        other aggregates are null.

    Raises:
        SchemaError: A column is missing or duplicated, or has an unsuitable type, or the Arrow data
            is malformed.
        MemoryLimitError: The result would have more than `max_rows` rows, or the system is out of
            memory.
        ClosedError: An input is a stream that has already been read, or a stream is passed twice.
        TidegateError: A row starts after it ends, `min_overlap` is negative, another
            argument is invalid, an input cannot be read, or `where` overflows or divides by zero.
        TypeError: An argument has the wrong type.
    """
    return joins.batches(_tidegate.overlap_join_query, locals())


@told
def window_join(  # noqa: PLR0913 - the options of the query
    left: Table,
    right: Table,
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
    unit: Epoch | None = None,
    progress: Reports = False,
    threads: int | None = None,
    max_rows: int | None = None,
    memory_limit: Bytes | None = None,
    lateness: Bound | tuple[Bound, Bound] = None,
) -> pa.Table:
    """Match rows from two inputs that fall within each other's sliding windows.

    With a time window W, a left row `l` and a right row `r` match if `abs(l.on - r.on) <= W`, `l.by
    == r.by`, and the rows satisfy `where`. With `(WL, WR)`, left rows stay in their window for WL,
    and right rows for WR, which means `-WR <= r.on - l.on <= WL`. With `tidegate.rows(n)`, the
    earlier of the two rows must be among the last n rows on its side that precede the later row.
    Rows are in merged order: by time, left before right, then by row.

    The result contains the same pairs as Kang's three-step procedure on whole tables. The papers on
    the handshake join (Teubner and Mueller) and ScaleJoin (section II) define this procedure. Every
    pair of rows within the windows is compared, unless the rows differ in `by`. A scan evaluates
    numeric comparisons between the two sides, such as `abs(left.x - right.x) <= 5` or `left.x + 2 *
    right.y > 3`, using the widest SIMD instructions that the processor supports.

    Example:
        Trades and quotes that are at most two seconds apart and have similar prices:

        >>> near = abs(tg.left.price - tg.right.bid) <= 7
        >>> tg.window_join(trades, quotes, on="ts", window=2, where=near).to_pandas()
           ts sym  price  ts_right sym_right  bid
        0  10   A    1.0        10         A    8
        1  30   A    3.0        29         A    7
        2  30   A    3.0        31         C    6

        Quotes stay in their window for two seconds, and trades do not stay at all:

        >>> tg.window_join(
        ...     trades, quotes, on="ts", window=(0, 2), columns=["ts", "bid"]
        ... ).to_pydict()
        {'ts': [10, 10, 30], 'bid': [9, 8, 7]}

        Each trade with the last quote before it, and each quote with the last trade before it:

        >>> tg.window_join(
        ...     trades, quotes, on="ts", window=tg.rows(1), columns=["ts", "ts_right"]
        ... ).to_pydict()
        {'ts': [10, 10, 20, 20, 30, 30], 'ts_right': [8, 10, 10, 29, 29, 31]}

    Args:
        left: The left input, which can be Arrow data (a pyarrow table, batches or reader, a polars
            or pandas DataFrame, a DuckDB relation), a path or a list of paths (a file, a folder, a
            pattern such as "trades/*.parquet", a URL such as "s3://bucket/trades/"), a pyarrow
            Dataset, Scanner or ParquetFile, a polars LazyFrame, a NumPy record array, a dict of
            arrays, or an `Index`. Only the columns that the call uses are read from files and lazy
            inputs.
        right: The right input. `right` accepts the same kinds of input as `left`. If it is an
            `Index`, `on` and `by` only need the names of the left columns.
        on: The time column, or a pair of names if the column has a different name on each side.
            Times must be integers, dates or timestamps. Timestamps with time zones are compared as
            instants. The time units of the two sides may differ. Instead of a name, `on` accepts an
            expression over `tidegate.row` columns, or its SQL text.
        window: How long a row stays in its side's window. Give a timedelta, a numpy timedelta64, a
            string such as "15m", or an integer if times are integers. For a row-based window, use
            `tidegate.rows(n)`, which keeps the last n rows regardless of their keys. To give each
            side its own window, pass a pair: first the left window, then the right one.
        by: The key columns: a name, a list of names or name pairs, or a mapping from left to right
            names. Two rows match only if all of their keys are equal. Without keys, any two rows
            may match. Instead of a name, `by` accepts an expression over `tidegate.row` columns, or
            its SQL text.
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
            matches. Partners are aggregated in time order. Partners with equal times keep the order
            of the right rows.
        suffix: The suffix to append to the name of a right column if the left side has a column
            with the same name.
        columns: The columns to include in the result, in this order. With `aggs`, these are the
            left columns to keep. Other columns are not computed. None means all columns.
        algorithm: The algorithm that finds matching rows. All algorithms return the same result.
            `auto` uses an index on `by`: each left row's window is a range of right rows, and all
            rows in this range are compared. If `where` compares numbers, and a sample of pairs
            shows that an index on one of these numbers is faster, `auto` uses this index instead.
            The other algorithms come from research papers and process both tables as streams:
            `scalejoin`, `scalejoin-gates`, `splitjoin`, `cell`, `three-step`, `handshake` and
            `low-latency-handshake`. These algorithms need eight bytes per pair, and compare keys
            like other numbers.
        unit: The unit of numeric times: "s", "ms", "us" or "ns". The numbers count from 1970 in UTC
            or, with a pair such as `("s", start)`, from a datetime. The result then contains
            timestamps. Floats must be whole numbers of microseconds, or of nanoseconds if the unit
            is "ns". The inputs are read in full, so `unit` cannot be combined with `memory_limit`,
            an index or tasks.
        progress: True shows a bar with tqdm or rich, if one of them is installed. A function is
            called with a `tidegate.types.Progress` when the call begins, after each batch of the
            result, and at the end.
        threads: The number of worker threads, from 1 to 512. None means `default_threads()`.
        max_rows: The maximum number of rows in the result. None sets no limit.
        memory_limit: The maximum memory that the call uses in addition to its inputs, as a number
            of bytes or a string such as "2GB". A result that is returned as one table may use half
            of the limit. With a limit, inputs may be larger than memory. Rows are then joined in
            time order, as if both inputs had been sorted by time. None sets no limit.
        lateness: The maximum time by which rows from an input may be out of order, as a timedelta,
            a numpy timedelta64, a string such as "250ms", or an integer if times are integers. This
            option requires `memory_limit`. To give each side its own value, pass a pair: first the
            left value, then the right one. If a row is further out of order, an `OrderError` is
            raised. With None, an input that is not known to be in order is sorted in temporary
            files.

    Returns:
        A table with the left columns, followed by the right columns. A key column that has the same
        name on both sides appears only once. Result rows follow the order of the left rows, then
        that of the right rows, regardless of the number of threads. Unmatched right rows are at the
        end.

        With `aggs`, the result has the left columns, followed by one column per aggregate, and its
        rows are in the order of the left rows. For a row without partners, counts are 0 and all
        other aggregates are null. With time windows, the cost per left row does not depend on the
        number of partners, unless `where` reads both sides.

    Raises:
        SchemaError: A column is missing or duplicated, or has an unsuitable type, or the Arrow data
            is malformed.
        MemoryLimitError: The result would have more than `max_rows` rows, or the system is out of
            memory.
        ClosedError: An input is a stream that has already been read, or a stream is passed twice.
        TidegateError: A window is negative, another argument is invalid, a time is null, an input
            cannot be read, or `where` overflows or divides by zero.
        TypeError: An argument has the wrong type.

    Note:
        The call needs memory for the inputs and the result. To find matches, the call also needs up
        to 60 bytes per row, up to 17 bytes per row for each scanned comparison, and up to 84 bytes
        per right row.
    """
    return joins.table(_tidegate.window_join_query, locals())


@told
def window_join_batches(  # noqa: PLR0913 - the options of the query
    left: Table,
    right: Table,
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
    unit: Epoch | None = None,
    progress: Reports = False,
    threads: int | None = None,
    max_rows: int | None = None,
    memory_limit: Bytes | None = None,
    lateness: Bound | tuple[Bound, Bound] = None,
    batch_rows: int | None = None,
) -> BatchReader[JoinStats]:
    """Match rows from two inputs that fall within each other's sliding windows, batch by batch.

    With a time window W, a left row `l` and a right row `r` match if `abs(l.on - r.on) <= W`, `l.by
    == r.by`, and the rows satisfy `where`. With `(WL, WR)`, left rows stay in their window for WL,
    and right rows for WR, which means `-WR <= r.on - l.on <= WL`. With `tidegate.rows(n)`, the
    earlier of the two rows must be among the last n rows on its side that precede the later row.
    Rows are in merged order: by time, left before right, then by row.

    Windows are determined before the call returns. Conditions are evaluated and result columns are
    built as you read batches.

    Example:
        >>> reader = tg.window_join_batches(trades, quotes, on="ts", window=2, batch_rows=2)
        >>> [batch.num_rows for batch in reader]
        [2, 2]

    Args:
        left: The left input, which can be Arrow data (a pyarrow table, batches or reader, a polars
            or pandas DataFrame, a DuckDB relation), a path or a list of paths (a file, a folder, a
            pattern such as "trades/*.parquet", a URL such as "s3://bucket/trades/"), a pyarrow
            Dataset, Scanner or ParquetFile, a polars LazyFrame, a NumPy record array, a dict of
            arrays, or an `Index`. Only the columns that the call uses are read from files and lazy
            inputs.
        right: The right input. `right` accepts the same kinds of input as `left`. If it is an
            `Index`, `on` and `by` only need the names of the left columns.
        on: The time column, or a pair of names if the column has a different name on each side.
            Times must be integers, dates or timestamps. Timestamps with time zones are compared as
            instants. The time units of the two sides may differ. Instead of a name, `on` accepts an
            expression over `tidegate.row` columns, or its SQL text.
        window: How long a row stays in its side's window. Give a timedelta, a numpy timedelta64, a
            string such as "15m", or an integer if times are integers. For a row-based window, use
            `tidegate.rows(n)`, which keeps the last n rows regardless of their keys. To give each
            side its own window, pass a pair: first the left window, then the right one.
        by: The key columns: a name, a list of names or name pairs, or a mapping from left to right
            names. Two rows match only if all of their keys are equal. Without keys, any two rows
            may match. Instead of a name, `by` accepts an expression over `tidegate.row` columns, or
            its SQL text.
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
            matches. Partners are aggregated in time order. Partners with equal times keep the order
            of the right rows.
        suffix: The suffix to append to the name of a right column if the left side has a column
            with the same name.
        columns: The columns to include in the result, in this order. With `aggs`, these are the
            left columns to keep. Other columns are not computed. None means all columns.
        algorithm: The algorithm that finds matching rows. All algorithms return the same result.
            `auto` uses an index on `by`: each left row's window is a range of right rows, and all
            rows in this range are compared. If `where` compares numbers, and a sample of pairs
            shows that an index on one of these numbers is faster, `auto` uses this index instead.
            The other algorithms come from research papers and process both tables as streams:
            `scalejoin`, `scalejoin-gates`, `splitjoin`, `cell`, `three-step`, `handshake` and
            `low-latency-handshake`. These algorithms need eight bytes per pair, and compare keys
            like other numbers.
        unit: The unit of numeric times: "s", "ms", "us" or "ns". The numbers count from 1970 in UTC
            or, with a pair such as `("s", start)`, from a datetime. The result then contains
            timestamps. Floats must be whole numbers of microseconds, or of nanoseconds if the unit
            is "ns". The inputs are read in full, so `unit` cannot be combined with `memory_limit`,
            an index or tasks.
        progress: True shows a bar with tqdm or rich, if one of them is installed. A function is
            called with a `tidegate.types.Progress` when the call begins, after each batch of the
            result, and at the end.
        threads: The number of worker threads, from 1 to 512. None means `default_threads()`.
        max_rows: The maximum number of rows in the result. None sets no limit. If pairs are checked
            when batches are produced, as with `where`, you may receive some batches before an error
            is raised.
        memory_limit: The maximum memory that the call uses in addition to its inputs, as a number
            of bytes or a string such as "2GB". A result that is returned as one table may use half
            of the limit. With a limit, inputs may be larger than memory. Rows are then joined in
            time order, as if both inputs had been sorted by time. None sets no limit.
        lateness: The maximum time by which rows from an input may be out of order, as a timedelta,
            a numpy timedelta64, a string such as "250ms", or an integer if times are integers. This
            option requires `memory_limit`. To give each side its own value, pass a pair: first the
            left value, then the right one. If a row is further out of order, an `OrderError` is
            raised. With None, an input that is not known to be in order is sorted in temporary
            files.
        batch_rows: The maximum number of rows per batch. None means batches of a few megabytes.

    Returns:
        A reader for the batches. Together, the batches form one table with the left columns,
        followed by the right columns. A key column that has the same name on both sides appears
        only once. Result rows follow the order of the left rows, then that of the right rows,
        regardless of the number of threads. Unmatched right rows are at the end.

        With `aggs`, the result has the left columns, followed by one column per aggregate, and its
        rows are in the order of the left rows. For a row without partners, counts are 0 and all
        other aggregates are null. With time windows, the cost per left row does not depend on the
        number of partners, unless `where` reads both sides.

    Raises:
        SchemaError: A column is missing or duplicated, or has an unsuitable type, or the Arrow data
            is malformed.
        MemoryLimitError: The result would have more than `max_rows` rows, or the system is out of
            memory.
        ClosedError: An input is a stream that has already been read, or a stream is passed twice.
        TidegateError: A window is negative, another argument is invalid, a time is null, an input
            cannot be read, or `where` overflows or divides by zero.
        TypeError: An argument has the wrong type.
    """
    return joins.batches(_tidegate.window_join_query, locals())


@told
def aggregate(  # noqa: PLR0913 - the options of the query
    streams: Streams,
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
    unit: Epoch | None = None,
    progress: Reports = False,
    threads: int | None = None,
    max_rows: int | None = None,
    memory_limit: Bytes | None = None,
    lateness: Bound = None,
) -> pa.Table:
    """Aggregate the rows of one or more inputs by key and time window.

    The windows are `[k * advance + offset, k * advance + offset + size)` for all integers `k`. A
    row belongs to every window that contains its time. With `session` instead of `size`, each key
    has separate windows. A window starts at the time of a row, and ends `session` after the last
    row that falls into it. The result has one row for each combination of window and key that
    contains rows.

    The function computes the multiway aggregate from section 2 of "Efficient data streaming
    multiway aggregation through concurrent algorithmic designs and new abstract data types"
    (Cederman, Gulisano, Nikolakopoulos, Papatriantafilou and Tsigas) over streams that have ended.

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
        streams: An input or a sequence of inputs, which can be Arrow data, paths, datasets, lazy
            frames, record arrays or dicts of arrays. The columns of the inputs are matched by name.
            The inputs are numbered from 0 in the order given.
        on: The time column, which must contain integers, dates or timestamps, or an expression over
            `tidegate.row` columns, or its SQL text.
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
        empty: Whether the result contains windows without rows, and what the functions return for
            them. `skip`, the default, omits them. With any other value, the windows of each key
            extend from its first window with rows to its last one. Counts are 0 in windows without
            rows. For all other functions, `null` returns null, `zero` returns 0, `last` returns the
            value of the key's previous window with rows, and `linear` returns a value on the line
            between the previous and the next window with rows. To fill each column differently,
            give a mapping from result column names to these values; columns that are not in the
            mapping are null. `linear` cannot be combined with `memory_limit`.
        keep: How long windows continue after a key's last row: `empty` adds windows that start at
            most this long after the start of the key's last window with rows. With None, the
            windows of a key end with its last row. A call with `memory_limit` needs `keep`.
        start: The time from which every key has windows: with `empty`, the windows of each key
            begin with the first window that starts at or after this time, or with its first
            non-empty window if that is earlier. Give a date, a time, a string such as
            "2026-03-02T09:30", or an integer if times are integers. Values before the first row of
            a key are null or 0. `start` cannot be combined with `memory_limit`.
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
        unit: The unit of numeric times: "s", "ms", "us" or "ns". The numbers count from 1970 in UTC
            or, with a pair such as `("s", start)`, from a datetime. The result then contains
            timestamps. Floats must be whole numbers of microseconds, or of nanoseconds if the unit
            is "ns". The inputs are read in full, so `unit` cannot be combined with `memory_limit`,
            an index or tasks.
        progress: True shows a bar with tqdm or rich, if one of them is installed. A function is
            called with a `tidegate.types.Progress` when the call begins, after each batch of the
            result, and at the end.
        threads: The number of worker threads, from 1 to 512. None means `default_threads()`.
        max_rows: The maximum number of rows in the result. None sets no limit.
        memory_limit: The maximum memory that the call uses in addition to its inputs, as a number
            of bytes or a string such as "2GB". A result that is returned as one table may use half
            of the limit. With a limit, streams may be larger than memory. None sets no limit.
        lateness: The maximum time by which rows of an input may be out of order, as a timedelta, a
            numpy timedelta64, a string such as "250ms", or an integer if times are integers. This
            option requires `memory_limit`. If a row is further out of order, an `OrderError` is
            raised. With None, an input that is not known to be in order is sorted in temporary
            files.

    Returns:
        A table with the columns `window_start` and `window_end`, the key columns, and one column
        per aggregate. `window_start` and `window_end` are int64 if times are integers, date32 if
        times are dates, and otherwise timestamps in the finest unit. Rows are ordered by window,
        then by key in ascending order, with nulls last.

    Raises:
        SchemaError: A column is missing or duplicated, or has an unsuitable type, or the Arrow data
            is malformed.
        OrderError: A row is further out of order than `lateness` allows.
        MemoryLimitError: The result would have more than `max_rows` rows, the open windows do not
            fit into `memory_limit`, or the system is out of memory.
        ClosedError: An input is a stream that has already been read, or a stream is passed twice.
        TidegateError: Another argument is invalid, a time is null, an input cannot be read, an
            integer sum does not fit in 64 bits, `where` overflows or divides by zero, or a
            temporary file cannot be written.
        TypeError: An argument has the wrong type.

    Note:
        Streams do not need to be in time order. A stream that is out of order is first sorted,
        which takes time and requires a copy. `first` and `last` order rows by time, then stream,
        then position. The time columns may have different units; times are converted without loss.
        Either all time columns or none of them must have a time zone.

        Floats are added in an order that does not depend on threads or batches, so results depend
        only on the data. Within a time slice, the rows from each stream are added in time order,
        and the streams are combined in order. A window's slices are then combined in two parts,
        which are divided at the last slice whose number is a multiple of the number of slices per
        window. Slices in the first part are combined from latest to earliest, and slices in the
        second part from earliest to latest. A session's rows are added one by one, ordered by time,
        then stream, then position.

        The running time is proportional to the number of input and result rows, regardless of how
        many windows contain each row. The call needs memory for the inputs, plus 8 bytes per row
        and 4 to 24 bytes for each combination of function, slice and key. For sessions, the call
        takes O(n log n) time and 56 bytes per row.
    """
    return aggregates.table(locals())


@told
def aggregate_batches(  # noqa: PLR0913 - the options of the query
    streams: Streams,
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
    unit: Epoch | None = None,
    progress: Reports = False,
    threads: int | None = None,
    max_rows: int | None = None,
    memory_limit: Bytes | None = None,
    lateness: Bound = None,
) -> BatchReader[dict[str, int]]:
    """Aggregate the rows of one or more inputs by key and time window, batch by batch.

    The windows are `[k * advance + offset, k * advance + offset + size)` for all integers `k`. A
    row belongs to every window that contains its time. With `session` instead of `size`, each key
    has separate windows. A window starts at the time of a row, and ends `session` after the last
    row that falls into it. The result has one row for each combination of window and key that
    contains rows.

    With `memory_limit`, the streams and the result may be larger than memory: once no further row
    can fall into a window, the window is emitted and its state is dropped. Without `memory_limit`,
    the result is computed before the call returns.

    Example:
        >>> reader = tg.aggregate_batches(
        ...     trades, on="ts", size=20, aggs={"n": tg.agg.count()}, memory_limit="256MB"
        ... )
        >>> [row for batch in reader for row in batch.to_pylist()]
        [{'window_start': 0, 'window_end': 20, 'n': 1}, {'window_start': 20, ...}]

    Args:
        streams: An input or a sequence of inputs, which can be Arrow data, paths, datasets, lazy
            frames, record arrays or dicts of arrays. The columns of the inputs are matched by name.
            The inputs are numbered from 0 in the order given.
        on: The time column, which must contain integers, dates or timestamps, or an expression over
            `tidegate.row` columns, or its SQL text.
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
        empty: Whether the result contains windows without rows, and what the functions return for
            them. `skip`, the default, omits them. With any other value, the windows of each key
            extend from its first window with rows to its last one. Counts are 0 in windows without
            rows. For all other functions, `null` returns null, `zero` returns 0, `last` returns the
            value of the key's previous window with rows, and `linear` returns a value on the line
            between the previous and the next window with rows. To fill each column differently,
            give a mapping from result column names to these values; columns that are not in the
            mapping are null. `linear` cannot be combined with `memory_limit`.
        keep: How long windows continue after a key's last row: `empty` adds windows that start at
            most this long after the start of the key's last window with rows. With None, the
            windows of a key end with its last row. A call with `memory_limit` needs `keep`.
        start: The time from which every key has windows: with `empty`, the windows of each key
            begin with the first window that starts at or after this time, or with its first
            non-empty window if that is earlier. Give a date, a time, a string such as
            "2026-03-02T09:30", or an integer if times are integers. Values before the first row of
            a key are null or 0. `start` cannot be combined with `memory_limit`.
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
        unit: The unit of numeric times: "s", "ms", "us" or "ns". The numbers count from 1970 in UTC
            or, with a pair such as `("s", start)`, from a datetime. The result then contains
            timestamps. Floats must be whole numbers of microseconds, or of nanoseconds if the unit
            is "ns". The inputs are read in full, so `unit` cannot be combined with `memory_limit`,
            an index or tasks.
        progress: True shows a bar with tqdm or rich, if one of them is installed. A function is
            called with a `tidegate.types.Progress` when the call begins, after each batch of the
            result, and at the end.
        threads: The number of worker threads, from 1 to 512. None means `default_threads()`.
        max_rows: The maximum number of rows in the result. None sets no limit.
        memory_limit: The maximum memory that the call uses in addition to its inputs, as a number
            of bytes or a string such as "2GB". A result that is returned as one table may use half
            of the limit. With a limit, streams may be larger than memory. None sets no limit.
        lateness: The maximum time by which rows of an input may be out of order, as a timedelta, a
            numpy timedelta64, a string such as "250ms", or an integer if times are integers. This
            option requires `memory_limit`. If a row is further out of order, an `OrderError` is
            raised. With None, an input that is not known to be in order is sorted in temporary
            files.

    Returns:
        A reader for the batches. Together, the batches form the table that `aggregate` returns,
        with the columns `window_start` and `window_end`, the key columns, and one column per
        aggregate. Rows are ordered by window, then by key in ascending order, with nulls last. With
        `memory_limit`, sessions are ordered by their end, then by key.

    Raises:
        SchemaError: A column is missing or duplicated, or has an unsuitable type, or the Arrow data
            is malformed.
        OrderError: A row is further out of order than `lateness` allows.
        MemoryLimitError: The result would have more than `max_rows` rows, the open windows do not
            fit into `memory_limit`, or the system is out of memory.
        ClosedError: An input is a stream that has already been read, or a stream is passed twice.
        TidegateError: Another argument is invalid, a time is null, an input cannot be read, an
            integer sum does not fit in 64 bits, `where` overflows or divides by zero, or a
            temporary file cannot be written.
        TypeError: An argument has the wrong type.

    Note:
        Temporary files are created in the folder specified by `TMPDIR`. These files have no
        directory entry, so they disappear when the process ends, even if it is killed.
    """
    return aggregates.batches(locals())


@told
def rolling(  # noqa: PLR0913 - the options of the query
    table: Table,
    *,
    on: Value,
    size: Window,
    by: Value | Sequence[Value] | None = None,
    closed: Closed = "right",
    aggs: Mapping[str, agg.Aggregate],
    columns: Sequence[str] | None = None,
    unit: Epoch | None = None,
    progress: Reports = False,
    threads: int | None = None,
    max_rows: int | None = None,
    memory_limit: Bytes | None = None,
    lateness: Bound = None,
) -> pa.Table:
    """Aggregate a window of earlier rows for each row of a table.

    The window of a row contains rows with the same key. If `size` is a length of time, the window
    contains the rows whose times are in `(t - size, t]`, where `t` is the time of the row itself.
    If `size` is `tidegate.rows(n)`, it contains the row itself and the `n - 1` rows before it, in
    time order. `closed` moves these ends: with `closed="left"`, the row itself is not in its
    window.

    The function corresponds to `rolling` in pandas and Polars, and to SQL window functions with
    `RANGE BETWEEN INTERVAL ... PRECEDING AND CURRENT ROW` or `ROWS BETWEEN ... PRECEDING AND
    CURRENT ROW`. The table does not need to be sorted.

    Example:
        The mean price over 25 time units, and over the last two trades:

        >>> aggs = {"mean": tg.agg.mean("price")}
        >>> tg.rolling(trades, on="ts", by="sym", size=25, aggs=aggs)["mean"].to_pylist()
        [1.0, 2.0, 2.0]
        >>> tg.rolling(trades, on="ts", size=tg.rows(2), aggs=aggs)["mean"].to_pylist()
        [1.0, 1.5, 2.5]

        The trades before each trade:

        >>> tg.rolling(
        ...     trades, on="ts", size=25, closed="left", aggs={"n": tg.agg.count()}
        ... )["n"].to_pylist()
        [0, 1, 2]

    Args:
        table: The input, which can be Arrow data, a path or a list of paths, a dataset, a lazy
            frame, a record array or a dict of arrays.
        on: The time column, which must contain integers, dates or timestamps, or an expression over
            `tidegate.row` columns, or its SQL text.
        size: The length of each window. A timedelta, a numpy timedelta64 or a string such as "5m"
            is a length of time, and so is an integer if times are integers. `tidegate.rows(n)`
            specifies a number of rows with the same key, in time order. Rows with equal times are
            in input order.
        by: The keys: a column, an expression over `tidegate.row` columns or its SQL text, or a list
            of these. Without keys, all rows form one group. Rows with a null key also form a group.
            NaN equals NaN, and 0.0 equals -0.0.
        closed: The ends that a window includes. The upper end is the row itself, and the lower end
            precedes it by `size`. `right`, the default, includes the row itself but not the lower
            end. `left` includes the lower end but not the row itself. `both` includes both ends,
            and `neither` excludes both ends. If `size` is a length of time, an end includes or
            excludes all rows with the same time.
        aggs: The aggregates to compute, as a mapping from result column names to functions from
            `tidegate.agg`.
        columns: The input columns to include in the result, in this order. None means all columns.
        unit: The unit of numeric times: "s", "ms", "us" or "ns". The numbers count from 1970 in UTC
            or, with a pair such as `("s", start)`, from a datetime. The result then contains
            timestamps. Floats must be whole numbers of microseconds, or of nanoseconds if the unit
            is "ns". The inputs are read in full, so `unit` cannot be combined with `memory_limit`,
            an index or tasks.
        progress: True shows a bar with tqdm or rich, if one of them is installed. A function is
            called with a `tidegate.types.Progress` when the call begins, after each batch of the
            result, and at the end.
        threads: The number of worker threads, from 1 to 512. None means `default_threads()`.
        max_rows: The maximum number of rows in the result. None sets no limit.
        memory_limit: The maximum memory that the call uses in addition to its input, as a number of
            bytes or a string such as "2GB". A result that is returned as one table may use half of
            the limit. With a limit, the input may be larger than memory, and result rows are in
            time order. None sets no limit.
        lateness: The maximum time by which rows of an input may be out of order, as a timedelta, a
            numpy timedelta64, a string such as "250ms", or an integer if times are integers. This
            option requires `memory_limit`. If a row is further out of order, an `OrderError` is
            raised. With None, an input that is not known to be in order is sorted in temporary
            files.

    Returns:
        A table with the columns of the input, followed by one column per aggregate. The result has
        one row per input row, in input order. For an empty window, `count` and `count_distinct`
        return 0, and all other functions return null. With `memory_limit`, result rows are in time
        order.

    Raises:
        SchemaError: A column is missing or duplicated, or has an unsuitable type, or the Arrow data
            is malformed.
        OrderError: A row is further out of order than `lateness` allows.
        MemoryLimitError: The result would have more than `max_rows` rows, the rows of open windows
            do not fit into `memory_limit`, or the system is out of memory.
        ClosedError: The input is a stream that has already been read.
        TidegateError: Another argument is invalid, a time is null, the input cannot be read, an
            integer sum does not fit in 64 bits, or a temporary file cannot be written.
        TypeError: An argument has the wrong type.

    Note:
        Floats are added in an order that depends only on the rows of a window and on their
        positions, so results do not depend on threads or batches. Functions receive rows in time
        order, and rows with equal times in input order.

        The running time is proportional to the number of rows, regardless of how many rows a window
        contains. The call needs memory for the input and the result, plus 24 bytes per row and 16
        to 64 bytes per row and function.
    """
    return rolled.table(locals())


@told
def rolling_batches(  # noqa: PLR0913 - the options of the query
    table: Table,
    *,
    on: Value,
    size: Window,
    by: Value | Sequence[Value] | None = None,
    closed: Closed = "right",
    aggs: Mapping[str, agg.Aggregate],
    columns: Sequence[str] | None = None,
    unit: Epoch | None = None,
    progress: Reports = False,
    threads: int | None = None,
    max_rows: int | None = None,
    memory_limit: Bytes | None = None,
    lateness: Bound = None,
    batch_rows: int | None = None,
) -> BatchReader[JoinStats]:
    """Aggregate a window of earlier rows for each row of a table, batch by batch.

    The window of a row contains rows with the same key. If `size` is a length of time, the window
    contains the rows whose times are in `(t - size, t]`, where `t` is the time of the row itself.
    If `size` is `tidegate.rows(n)`, it contains the row itself and the `n - 1` rows before it, in
    time order.

    Result columns are built as you read batches, so the result may be larger than memory.

    Example:
        >>> reader = tg.rolling_batches(
        ...     trades, on="ts", size=25, aggs={"n": tg.agg.count()}, batch_rows=2
        ... )
        >>> [batch["n"].to_pylist() for batch in reader]
        [[1, 2], [3]]

    Args:
        table: The input, which can be Arrow data, a path or a list of paths, a dataset, a lazy
            frame, a record array or a dict of arrays.
        on: The time column, which must contain integers, dates or timestamps, or an expression over
            `tidegate.row` columns, or its SQL text.
        size: The length of each window. A timedelta, a numpy timedelta64 or a string such as "5m"
            is a length of time, and so is an integer if times are integers. `tidegate.rows(n)`
            specifies a number of rows with the same key, in time order. Rows with equal times are
            in input order.
        by: The keys: a column, an expression over `tidegate.row` columns or its SQL text, or a list
            of these. Without keys, all rows form one group. Rows with a null key also form a group.
            NaN equals NaN, and 0.0 equals -0.0.
        closed: The ends that a window includes. The upper end is the row itself, and the lower end
            precedes it by `size`. `right`, the default, includes the row itself but not the lower
            end. `left` includes the lower end but not the row itself. `both` includes both ends,
            and `neither` excludes both ends. If `size` is a length of time, an end includes or
            excludes all rows with the same time.
        aggs: The aggregates to compute, as a mapping from result column names to functions from
            `tidegate.agg`.
        columns: The input columns to include in the result, in this order. None means all columns.
        unit: The unit of numeric times: "s", "ms", "us" or "ns". The numbers count from 1970 in UTC
            or, with a pair such as `("s", start)`, from a datetime. The result then contains
            timestamps. Floats must be whole numbers of microseconds, or of nanoseconds if the unit
            is "ns". The inputs are read in full, so `unit` cannot be combined with `memory_limit`,
            an index or tasks.
        progress: True shows a bar with tqdm or rich, if one of them is installed. A function is
            called with a `tidegate.types.Progress` when the call begins, after each batch of the
            result, and at the end.
        threads: The number of worker threads, from 1 to 512. None means `default_threads()`.
        max_rows: The maximum number of rows in the result. None sets no limit.
        memory_limit: The maximum memory that the call uses in addition to its input, as a number of
            bytes or a string such as "2GB". A result that is returned as one table may use half of
            the limit. With a limit, the input may be larger than memory, and result rows are in
            time order. None sets no limit.
        lateness: The maximum time by which rows of an input may be out of order, as a timedelta, a
            numpy timedelta64, a string such as "250ms", or an integer if times are integers. This
            option requires `memory_limit`. If a row is further out of order, an `OrderError` is
            raised. With None, an input that is not known to be in order is sorted in temporary
            files.
        batch_rows: The maximum number of rows per batch. None means batches of a few megabytes.

    Returns:
        A reader for the batches. Together, the batches form one table with the columns of the
        input, followed by one column per aggregate. The table has one row per input row, in input
        order, or in time order with `memory_limit`.

    Raises:
        SchemaError: A column is missing or duplicated, or has an unsuitable type, or the Arrow data
            is malformed.
        OrderError: A row is further out of order than `lateness` allows.
        MemoryLimitError: The result would have more than `max_rows` rows, the rows of open windows
            do not fit into `memory_limit`, or the system is out of memory.
        ClosedError: The input is a stream that has already been read.
        TidegateError: Another argument is invalid, a time is null, the input cannot be read, an
            integer sum does not fit in 64 bits, or a temporary file cannot be written.
        TypeError: An argument has the wrong type.
    """
    return rolled.batches(locals())


@told
def merge(  # noqa: PLR0913 - the arguments of the call
    streams: Table | Iterable[Table],
    *,
    on: str = "ts",
    lateness: Bound = None,
    unit: Epoch | None = None,
    progress: Reports = False,
    threads: int | None = None,
    memory_limit: Bytes | None = None,
) -> pa.Table:
    """Merge sorted streams into one.

    Each stream must be sorted by `on`. The result is ordered by `(on, stream number, row number
    within the stream)`. Rows with equal times are therefore in stream order, then in their original
    order (ScaleJoin, section IV.A, *ScaleGate*).

    Example:
        >>> a = pa.table({"ts": [1, 4, 9], "v": [1, 2, 3]})
        >>> b = pa.table({"ts": [2, 4], "v": [4, 5]})
        >>> tg.merge([a, b]).to_pydict()
        {'ts': [1, 2, 4, 4, 9], 'v': [1, 4, 2, 5, 3]}

        Rows that are slightly out of order, for example because they arrived over a network:

        >>> tg.merge([a, pa.table({"ts": [4, 2], "v": [5, 4]})], lateness=2)["ts"].to_pylist()
        [1, 2, 4, 4, 9]

    Args:
        streams: The streams or tables to merge, which can be Arrow data, paths, datasets, lazy
            frames, record arrays or dicts of arrays. There must be at least one stream, and all
            streams must have the same columns. If you pass a single path, each file at that path is
            a stream. The streams are numbered from 0 in the order given.
        on: The time column, which must contain integers, dates or timestamps.
        lateness: The maximum time by which rows from a stream may be out of order: a timedelta, a
            numpy timedelta64, a string such as "250ms", or an integer if times are integers. Both
            None and 0 mean that the rows are in order.
        unit: The unit of numeric times: "s", "ms", "us" or "ns". The numbers count from 1970 in UTC
            or, with a pair such as `("s", start)`, from a datetime. The result then contains
            timestamps. Floats must be whole numbers of microseconds, or of nanoseconds if the unit
            is "ns". The inputs are read in full, so `unit` cannot be combined with `memory_limit`,
            an index or tasks.
        progress: True shows a bar with tqdm or rich, if one of them is installed. A function is
            called with a `tidegate.types.Progress` when the call begins, after each batch of the
            result, and at the end.
        threads: The number of worker threads, from 1 to 512. None means `default_threads()`.
        memory_limit: The maximum memory for rows that are held in addition to the streams
            themselves, as a number of bytes or a string such as "2GB". A result that is returned as
            one table may use half of the limit. None sets no limit.

    Returns: The rows from all streams. The columns are those of the first stream. The names, types
        and order of columns must be the same in all streams.

    Raises:
        SchemaError: The time column is missing or does not contain times, the streams have
            different columns, or the Arrow data is malformed.
        OrderError: A row is further out of order than `lateness` allows.
        MemoryLimitError: The system is out of memory.
        ClosedError: An input is a stream that has already been read, or a stream is passed twice.
        TidegateError: Another argument is invalid, a time is null, or a stream cannot be read.
        TypeError: An argument has the wrong type.

    Note:
        The call first reads all streams to the end, so it needs memory for all of their rows and
        for the result. `merge_batches` holds only one or two batches per stream in memory.
    """
    return merges.table(streams, on, lateness, threads, memory_limit, progress, unit)


@told
def merge_batches(  # noqa: PLR0913 - the arguments of the call
    streams: Table | Iterable[Table],
    *,
    on: str = "ts",
    lateness: Bound = None,
    unit: Epoch | None = None,
    progress: Reports = False,
    threads: int | None = None,
    memory_limit: Bytes | None = None,
) -> BatchReader[OperatorStats]:
    """Merge sorted streams into one, batch by batch.

    The result is ordered by `(on, stream number, row number within the stream)`. The next batch of
    a stream is read only when no more rows can be merged without it, so streams may be larger than
    memory.

    Example:
        >>> readers = [trades.to_reader(max_chunksize=1), trades.to_reader(max_chunksize=2)]
        >>> with tg.merge_batches(readers) as reader:
        ...     [ts for batch in reader for ts in batch["ts"].to_pylist()]
        [10, 10, 20, 20, 30, 30]

    Args:
        streams: The streams or tables to merge, which can be Arrow data, paths, datasets, lazy
            frames, record arrays or dicts of arrays. There must be at least one stream, and all
            streams must have the same columns. If you pass a single path, each file at that path is
            a stream. The streams are numbered from 0 in the order given.
        on: The time column, which must contain integers, dates or timestamps.
        lateness: The maximum time by which rows from a stream may be out of order: a timedelta, a
            numpy timedelta64, a string such as "250ms", or an integer if times are integers. Both
            None and 0 mean that the rows are in order.
        unit: The unit of numeric times: "s", "ms", "us" or "ns". The numbers count from 1970 in UTC
            or, with a pair such as `("s", start)`, from a datetime. The result then contains
            timestamps. Floats must be whole numbers of microseconds, or of nanoseconds if the unit
            is "ns". The inputs are read in full, so `unit` cannot be combined with `memory_limit`,
            an index or tasks.
        progress: True shows a bar with tqdm or rich, if one of them is installed. A function is
            called with a `tidegate.types.Progress` when the call begins, after each batch of the
            result, and at the end.
        threads: The number of worker threads, from 1 to 512. None means `default_threads()`.
        memory_limit: The maximum memory for rows that are held in addition to the streams
            themselves, as a number of bytes or a string such as "2GB". A result that is returned as
            one table may use half of the limit. None sets no limit.

    Returns:
        A reader for the batches. Together, the batches contain the rows from all streams. The
        columns are those of the first stream. The names, types and order of columns must be the
        same in all streams. After an error, the reader is closed.

    Raises:
        SchemaError: The time column is missing or does not contain times, the streams have
            different columns, or the Arrow data is malformed.
        OrderError: A row is further out of order than `lateness` allows.
        MemoryLimitError: The system is out of memory.
        ClosedError: An input is a stream that has already been read, or a stream is passed twice.
        TidegateError: Another argument is invalid, a time is null, or a stream cannot be read.
        TypeError: An argument has the wrong type.

    Note:
        The reader holds one or two batches per stream, 40 bytes for each row in these batches, the
        rows delayed because of `lateness`, and a few result batches. Errors in the rows, such as an
        `OrderError`, are raised when you read a batch.
    """
    return merges.batches(streams, on, lateness, threads, memory_limit, progress, unit)


@told
def digest(data: Table, *, ordered: bool = True, threads: int | None = None) -> str:
    """Return a 128-bit digest that shows whether two tables have the same rows.

    Equal rows always have the same digest: on every platform, with any number of threads, and in
    every version of tidegate. The digest does not depend on how the rows are divided into batches,
    or on the layout of the values:

    - The widths of integers and floats make no difference. NaN equals NaN, and -0.0 equals 0.0.
    - Strings are equal in all layouts, including dictionaries. Binary values, dates, lists and maps
      are also equal in all layouts.
    - Decimals that differ only in scale are equal, as are times that differ only in unit. Times
      with a time zone are compared as instants.

    Values of different types are different even if they look alike: 1 equals neither 1.0 nor "1".
    Column names and their order matter. Metadata and nullability do not matter.

    The digest detects accidental differences, but does not protect against deliberately constructed
    rows with the same digest.

    Args:
        data: Arrow data, a file, a lazy frame or a dict of columns, which is read batch by batch.
        ordered: Whether the order of the rows matters. In either case, duplicate rows are counted.
        threads: The number of worker threads, from 1 to 512. None means `default_threads()`.

    Returns:
        The digest, as 32 hexadecimal digits.

    Raises:
        TidegateError: `threads` is out of range, or the data cannot be read.
        TypeError: The data has an unsupported type.

    Example:
        >>> tg.digest(trades)
        '126cab761344e5652daf7239aa5e6b94'
        >>> narrow = trades.cast(trades.schema.set(0, pa.field("ts", pa.int8())))
        >>> tg.digest(narrow) == tg.digest(trades)
        True
        >>> backwards = trades.take([2, 1, 0])
        >>> tg.digest(backwards) == tg.digest(trades)
        False
        >>> tg.digest(backwards, ordered=False) == tg.digest(trades, ordered=False)
        True
    """
    return digests.digest(data, ordered=ordered, threads=threads)


if TYPE_CHECKING:
    Aggregate = _tidegate.Aggregate
    AsofJoin = _tidegate.AsofJoin
    BandJoin = _tidegate.BandJoin
    IntervalJoin = _tidegate.IntervalJoin
    Merge = _tidegate.Merge
    OverlapJoin = _tidegate.OverlapJoin
    Rolling = _tidegate.Rolling
    WindowJoin = _tidegate.WindowJoin
else:
    Aggregate = told_class(_tidegate.Aggregate)
    AsofJoin = told_class(_tidegate.AsofJoin)
    BandJoin = told_class(_tidegate.BandJoin)
    IntervalJoin = told_class(_tidegate.IntervalJoin)
    Merge = told_class(_tidegate.Merge)
    OverlapJoin = told_class(_tidegate.OverlapJoin)
    Rolling = told_class(_tidegate.Rolling)
    WindowJoin = told_class(_tidegate.WindowJoin)
