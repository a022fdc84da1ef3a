"""Finds the first or last rows for each key in a table.

Equal keys may have different representations, such as 0.0 and -0.0. The result contains rows for
each representation. Rows are found by sorting and grouping, so the time does not depend on the
number of rows per key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.slices.footers import Integers

RANK = "\x1frank"


def last_rows(  # noqa: PLR0913 - the keys and how to choose their rows
    rows: pa.Table,
    keys: Sequence[str],
    times: Integers | None = None,
    *,
    first: bool = False,
    nulls: bool = False,
    most: int = 1,
) -> pa.Table:
    """Return the last rows for each key, in time order.

    Args:
        rows: The rows.
        keys: The key columns; without keys, all rows have the same key.
        times: The row times; None if the rows are in time order.
        first: Whether to return the first rows for each key instead.
        nulls: Whether null counts as a key. If not, rows with a null key are omitted.
        most: The maximum number of rows for each key.

    Example:
        >>> rows = pa.table({"k": ["a", "b", "a", None], "x": [1, 2, 3, 4]})
        >>> last_rows(rows, ["k"])["x"].to_pylist()
        [2, 3]
        >>> last_rows(rows, ["k"], np.array([3, 2, 1, 0]))["x"].to_pylist()
        [2, 1]
        >>> last_rows(rows, ["k"], first=True, nulls=True)["x"].to_pylist()
        [1, 2, 4]
        >>> last_rows(rows, ["k"], most=2)["x"].to_pylist()
        [1, 2, 3]
    """
    order = None
    if times is not None and np.any(times[1:] < times[:-1]):
        order = np.argsort(times, kind="stable")
    chosen = np.sort(_ranks(rows, keys, order, first=first, nulls=nulls, most=most))
    if order is not None:
        chosen = order[chosen]
    mask = np.zeros(rows.num_rows, bool)
    mask[chosen] = True
    kept = rows.filter(pa.array(mask))
    if order is not None:
        kept = kept.take(pa.array(np.searchsorted(np.sort(chosen), chosen)))
    return kept


def _ranks(  # noqa: PLR0913 - as for `last_rows`
    rows: pa.Table,
    keys: Sequence[str],
    order: Integers | None,
    *,
    first: bool,
    nulls: bool,
    most: int,
) -> Integers:
    """Return the positions, in time order, of the rows to keep."""
    count = rows.num_rows
    if not keys:
        return np.arange(count)[:most] if first else np.arange(count)[-most:]
    rank = np.arange(count)
    if order is not None:
        rank[order] = np.arange(count)
    columns = {str(at): _codes(rows.column(name)) for at, name in enumerate(keys)}
    ranked = pa.table({**columns, RANK: rank})
    if most > 1:
        return _several(ranked, order, first=first, nulls=nulls, most=most)
    groups = ranked.group_by([*columns], use_threads=False)
    end = "min" if first else "max"
    found = groups.aggregate([(RANK, end)])
    if not nulls:
        found = found.drop_null()
    positions: Integers = found.column(f"{RANK}_{end}").to_numpy()
    return positions


def _several(
    ranked: pa.Table, order: Integers | None, *, first: bool, nulls: bool, most: int
) -> Integers:
    """Return the positions of up to `most` rows per key."""
    if order is not None:
        ranked = ranked.take(pa.array(order))
    if not nulls:
        ranked = ranked.drop_null()
    keys = [name for name in ranked.column_names if name != RANK]
    groups = ranked.group_by(keys, use_threads=False).aggregate([(RANK, "list")])
    found = [np.zeros(0, np.int64)]
    # The values of a list are in the order of the rows.
    for lists in groups.column(f"{RANK}_list").chunks:
        lengths = lists.value_lengths().to_numpy()
        ends = np.repeat(np.cumsum(lengths), lengths)
        at = np.arange(len(ends))
        kept = at < ends - np.repeat(lengths, lengths) + most if first else at >= ends - most
        found.append(lists.flatten().to_numpy()[kept])
    return np.concatenate(found)


def _codes(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column that can be grouped quickly, with different values for different keys."""
    if pa.types.is_dictionary(column.type):
        return _numbers(column)
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date64(kind):
        column = column.cast(pa.int64())
    elif pa.types.is_floating(kind):
        column = column.cast(pa.float64())
    return _mixed(column) if column.type in _WORDS else column


_WORDS = {pa.int64(), pa.uint64(), pa.float64()}


def _mixed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Distribute 64-bit words over their entire range.

    pyarrow groups words with many trailing zeros, such as whole floats, a hundred times slower.
    """
    nulls = column.is_null().to_numpy() if column.null_count else None
    words = column.fill_null(0).to_numpy().view(np.uint64)
    # Each of these operations has an inverse, so that different words remain different.
    words = (words ^ (words >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    return pa.chunked_array([pa.array(words ^ (words >> np.uint64(29)), mask=nulls)])


def _numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Replace the values of a dictionary column with integers."""
    chunks = column.chunks
    # Each chunk may have a different dictionary.
    nothing = pa.array([], column.type.value_type)
    codes = pa.concat_arrays([nothing, *(one.dictionary for one in chunks)])
    codes = codes.dictionary_encode().indices
    starts = np.cumsum([0, *(len(one.dictionary) for one in chunks)]).tolist()
    found = [
        codes.slice(start, len(one.dictionary)).take(one.indices)
        for start, one in zip(starts, chunks, strict=False)
    ]
    return pa.chunked_array(found, pa.int32())
