"""Joins with DuckDB. Inputs are native in-memory tables, and results are Arrow data.

Insertion order is not preserved, so that DuckDB can write results in parallel. Creating an Arrow
table was as fast as creating a native temporary table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from systems import Query, sql

if TYPE_CHECKING:
    import pyarrow as pa

    from workload import Inputs

BATCH_ROWS = 1 << 16


def plain(inputs: Inputs, threads: int) -> Query[pa.Table]:
    """Use a hash join on the key, and filter its pairs by time."""
    return _table(inputs, threads, sql.plain(inputs.upper))


def prefer_range_joins(inputs: Inputs, threads: int) -> Query[pa.Table]:
    """Use the plain query with this setting: a range join on time, whose pairs are filtered."""
    return _table(inputs, threads, sql.plain(inputs.upper), prefer_range_joins=True)


def range_join(inputs: Inputs, threads: int) -> Query[pa.Table]:
    """Use IEJoin on key and time as one number."""
    return _table(inputs, threads, sql.range_join(inputs.upper))


def neighbours(inputs: Inputs, threads: int) -> Query[pa.Table]:
    """Join each time bucket with the same bucket and its two neighbours."""
    return _table(inputs, threads, sql.neighbours(inputs.upper))


def buckets(inputs: Inputs, threads: int) -> Query[pa.Table]:
    """Use time buckets that are as wide as the interval."""
    return _table(inputs, threads, sql.buckets(inputs.upper, 1, "//"))


def wide_buckets(inputs: Inputs, threads: int) -> Query[pa.Table]:
    """Use time buckets twice as wide, with fewer copies of left rows and more pairs to filter."""
    return _table(inputs, threads, sql.buckets(inputs.upper, 2, "//"))


def buckets_batches(inputs: Inputs, threads: int) -> Query[int]:
    """Use time buckets, and drop each batch of the result on arrival."""
    connection = _connect(inputs, threads)
    query = sql.buckets(inputs.upper, 1, "//")

    def run() -> int:
        return sum(batch.num_rows for batch in connection.sql(query).to_arrow_reader(BATCH_ROWS))

    return Query(run, lambda _: connection.sql(query).to_arrow_reader(BATCH_ROWS))


def _table(inputs: Inputs, threads: int, query: str, **settings: bool) -> Query[pa.Table]:
    connection = _connect(inputs, threads, **settings)
    return Query(
        lambda: connection.sql(query).to_arrow_table(),
        lambda table: table.to_batches(),
    )


def _connect(inputs: Inputs, threads: int, **settings: bool) -> duckdb.DuckDBPyConnection:
    config: dict[str, str | bool | int | float | list[str]] = {
        "threads": threads,
        "preserve_insertion_order": False,
        **settings,
    }
    connection = duckdb.connect(config=config)
    for name, table in (("l", inputs.left), ("r", inputs.right)):
        connection.register("arrow_input", table)
        connection.execute(f"create table {name} as from arrow_input")
        connection.unregister("arrow_input")
    return connection
