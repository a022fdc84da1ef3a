"""Finds the rows in each window of an aggregation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tidegate import agg

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate._tidegate import AggregationQuery
    from tidegate.slices.footers import Integers

ROW = "\x1frow"


def rows_of_windows(
    query: AggregationQuery, tables: Sequence[pa.Table]
) -> tuple[pa.Table, Integers, Integers]:
    """Find the rows in each window that satisfy the query's condition.

    Returns:
        The windows; the rows of all windows, window by window, each in merged order; and the
        position of each window's first row, followed by the number of rows. Rows are numbered
        across all streams.
    """
    marked, count = [], 0
    for table in tables:
        numbers = pa.array(np.arange(count, count + table.num_rows))
        marked.append(table.append_column(ROW, numbers))
        count += table.num_rows
    return collected(query, marked)


def collected(
    query: AggregationQuery, marked: Sequence[pa.Table]
) -> tuple[pa.Table, Integers, Integers]:
    """Like `rows_of_windows`, for streams whose column `ROW` contains the row numbers."""
    query = query.replace(aggs={ROW: agg.collect(ROW)}, max_rows=None)
    found = query.table(marked).combine_chunks()
    rows, first = np.zeros(0, np.int64), np.zeros(1, np.int64)
    for lists in found.column(ROW).chunks:
        rows = np.concatenate([rows, lists.flatten().to_numpy()])
        ends = len(rows) - lists.value_lengths().to_numpy()[::-1].cumsum()[::-1]
        first = np.concatenate([first[:-1], ends, [len(rows)]])
    return found, rows, first


def selected(tables: Sequence[pa.Table], rows: Integers) -> list[pa.Table]:
    """Return the selected rows of all streams, in each stream's order."""
    mask = np.zeros(sum(table.num_rows for table in tables), bool)
    mask[rows] = True
    found, start = [], 0
    for table in tables:
        part = mask[start : start + table.num_rows]
        found.append(table if part.all() else table.filter(pa.array(part)))
        start += table.num_rows
    return found
