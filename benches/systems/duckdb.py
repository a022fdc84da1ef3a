"""DuckDB: native in-memory tables in, an Arrow table (or its batches) out.

Insertion order need not be preserved, which lets DuckDB write the result in parallel; an Arrow
table was as fast to make as a native temporary table.
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
    """Hash join on the key, the rest as residual."""
    return _table(inputs, threads, sql.plain(inputs.upper))


def prefer_range_joins(inputs: Inputs, threads: int) -> Query[pa.Table]:
    """The plain query with that setting: a range join on time, the key as residual."""
    return _table(inputs, threads, sql.plain(inputs.upper), prefer_range_joins=True)


def range_join(inputs: Inputs, threads: int) -> Query[pa.Table]:
    """IEJoin on key and time as one number."""
    return _table(inputs, threads, sql.range_join(inputs.upper))


def neighbours(inputs: Inputs, threads: int) -> Query[pa.Table]:
    """Time buckets, each joined with itself and its two neighbours."""
    return _table(inputs, threads, sql.neighbours(inputs.upper))


def buckets(inputs: Inputs, threads: int) -> Query[pa.Table]:
    """Time buckets as wide as the interval."""
    return _table(inputs, threads, sql.buckets(inputs.upper, 1, "//"))


def wide_buckets(inputs: Inputs, threads: int) -> Query[pa.Table]:
    """Time buckets twice as wide: fewer copies of left rows, more pairs to filter."""
    return _table(inputs, threads, sql.buckets(inputs.upper, 2, "//"))


def buckets_batches(inputs: Inputs, threads: int) -> Query[int]:
    """Time buckets, the result taken as it comes and dropped."""
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
