"""Aggregates of real data, compared with DuckDB, which joins every row with its windows."""

from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate import agg, aggregate


@pytest.fixture
def sql() -> Iterator[Callable[[str, pa.Table], pa.Table]]:
    """Run SQL on a table `r` in which column `place` is the position of each row."""
    with duckdb.connect(config={"threads": 2}) as connection:

        def run(query: str, table: pa.Table) -> pa.Table:
            places = pa.array(range(table.num_rows), pa.int64())
            connection.register("r", table.append_column("place", places))
            return connection.sql(query).to_arrow_table()

        yield run


def same(found: pa.Table, wanted: pa.Table) -> None:
    assert found.column_names == wanted.column_names
    assert found.cast(wanted.schema).equals(wanted)


def test_orders_of_a_stock_in_each_second_of_three(data: Path, sql):
    folder = data / "alliancedb"
    names = ("stock_60s_r_cj.parquet", "stock_60s_s_sb.parquet")
    streams = [pq.read_table(folder / name) for name in names]
    found = aggregate(
        streams,
        on="ts_ms",
        size=3000,
        advance=1000,
        by="key",
        aggs={"n": agg.count(), "since": agg.min("ts_ms"), "until": agg.last("ts_ms")},
    )
    wanted = sql(
        """
        select (ts_ms // 1000 - back) * 1000 as window_start, window_start + 3000 as window_end,
            key, count(*) as n, min(ts_ms) as since, max(ts_ms) as until
        from r, range(3) as t(back) group by all order by window_start, key
        """,
        pa.concat_tables(streams),
    )
    assert wanted.num_rows > 400_000
    same(found, wanted)


def test_flights_of_every_hour_by_airport_and_carrier(data: Path, sql):
    # Flights are sorted by scheduled time, so departure times are out of order, and some are null.
    flights = pq.read_table(data / "nycflights13" / "flights.parquet")
    known = flights.filter(flights["dep_utc"].is_valid())
    found = aggregate(
        known,
        on="dep_utc",
        size="1h",
        advance="20min",
        offset="5min",
        by=["origin", "carrier"],
        aggs={
            "n": agg.count(),
            "delay": agg.sum("dep_delay"),
            "late": agg.count(where="dep_delay > 30"),
            "tail": agg.max("tailnum"),
            "first": agg.first("flight"),
        },
    )
    wanted = sql(
        """
        with windows as (
            select *, time_bucket(interval 20 minute, dep_utc, timestamp '1970-01-01 00:05:00+00')
                - back * interval 20 minute as window_start
            from r, range(3) as t(back)
        )
        select window_start, window_start + interval 1 hour as window_end, origin, carrier,
            count(*) as n, sum(dep_delay)::bigint as delay,
            count(*) filter (where dep_delay > 30) as late, max(tailnum) as tail,
            arg_min(flight, (dep_utc, place)) as first
        from windows group by all order by window_start, origin, carrier
        """,
        known,
    )
    assert wanted.num_rows > 200_000
    same(found, wanted)


def test_weather_of_every_day_with_its_nulls(data: Path, sql):
    weather = pq.read_table(data / "nycflights13" / "weather.parquet")
    found = aggregate(
        weather,
        on="time_hour",
        size="1d",
        by="origin",
        aggs={
            "gusts": agg.count("wind_gust"),
            "strongest": agg.max("wind_gust"),
            "warm": agg.max("temp", where="wind_speed < 10"),
        },
    )
    wanted = sql(
        """
        select time_bucket(interval 1 day, time_hour, timestamp '1970-01-01') as window_start,
            window_start + interval 1 day as window_end, origin, count(wind_gust) as gusts,
            max(wind_gust) as strongest, max(temp) filter (where wind_speed < 10) as warm
        from r group by all order by window_start, origin
        """,
        weather,
    )
    assert wanted.num_rows > 1_000
    assert wanted["strongest"].null_count > 0
    same(found, wanted)
