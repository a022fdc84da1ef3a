"""Random joins and aggregations of thousands of rows, compared with DuckDB and Polars.

Property tests draw tables of a few rows, which a loop can check. Here tables are too large for a
loop, so threads share the work. A campaign draws many of them.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import campaign
import tidegate as tg

HOWS = ["inner", "left", "right", "full", "semi", "anti"]
MILLISECOND = 1_000

Rows = list[tuple[int | None, ...]]


@dataclass(frozen=True)
class Drawn:
    """Two tables, their join as arguments and in SQL, and the number of threads."""

    left: pa.Table
    right: pa.Table
    arguments: dict[str, Any]
    sql: str
    how: str
    threads: int

    def rows(self, found: pa.Table) -> Rows:
        """Return the row numbers in a result."""
        names = ["l"] if self.how in ("semi", "anti") else ["l", "r"]
        return list(zip(*(found.column(name).to_pylist() for name in names), strict=True))


def table(
    rng: random.Random,
    name: str,
    *,
    is_time: bool,
    keys: int,
    skew: bool,
    counts: Sequence[int] = (0, 1, 50, 700, 2_000),
) -> pa.Table:
    """Draw rows with a time, a nullable key, two values, and their numbers in column `name`."""
    draw = np.random.default_rng(rng.randrange(2**32))
    count = rng.choice(counts)
    ts = draw.integers(0, rng.choice([20, 500, 20_000]), count)
    if rng.random() < 0.5:
        ts.sort()
    times = pa.array(ts * MILLISECOND, pa.timestamp("us")) if is_time else pa.array(ts)
    numbers = draw.zipf(1.5, count) % keys if skew else draw.integers(0, keys, count)
    x = draw.integers(-300, 300, count) / 10
    x[draw.random(count) < 0.02] = rng.choice([np.nan, np.inf, -0.0, 1e300])
    return pa.table(
        {
            "ts": times,
            "k": pa.array(numbers, pa.int64(), mask=draw.random(count) < rng.choice([0, 0.1])),
            "x": pa.array(x, mask=draw.random(count) < rng.choice([0, 0.1])),
            "y": pa.array(draw.integers(0, 50, count), pa.int32()),
            name: pa.array(range(count), pa.int64()),
        }
    )


def drawn(rng: random.Random) -> tuple[str, Drawn]:
    """Draw the name of a function, and its arguments."""
    function = rng.choice(["interval_join", "window_join", "band_join"])
    is_time = rng.random() < 0.5
    keys, skew = rng.choice([3, 40, 2_000]), rng.random() < 0.3
    left, right = (table(rng, name, is_time=is_time, keys=keys, skew=skew) for name in ("l", "r"))
    low, high = sorted(rng.randint(-30, 30) for _ in range(2))
    conditions: list[str] = []
    arguments: dict[str, Any] = {}
    unit = MILLISECOND if is_time else 1
    told = (lambda steps: np.timedelta64(steps * unit, "us")) if is_time else (lambda steps: steps)
    distance = "(epoch_us(b.ts) - epoch_us(a.ts))" if is_time else "(b.ts - a.ts)"
    if function == "interval_join":
        arguments |= {"on": "ts", "lower": told(low), "upper": told(high)}
        conditions.append(f"{distance} BETWEEN {low * unit} AND {high * unit}")
    elif function == "window_join":
        stays = abs(low), abs(high)
        arguments |= {"on": "ts", "window": tuple(map(told, stays))}
        conditions.append(f"{distance} BETWEEN {-stays[1] * unit} AND {stays[0] * unit}")
    else:
        within = rng.randint(0, 3)
        arguments |= {"on": "y", "within": within}
        conditions.append(f"abs(a.y - b.y) <= {within}")
    # If times are close, pairs without a key would be millions.
    if function == "band_join" or rng.random() < 0.8:
        arguments["by"] = "k"
        conditions.append("a.k = b.k")
    else:
        arguments["where"] = "abs(left.y - right.y) <= 1"
        conditions.append("abs(a.y - b.y) <= 1")
    if rng.random() < 0.3:
        # In DuckDB, NaN equals itself and is larger than all other values.
        some = "left.y < right.y AND left.x + 1 > 0 AND left.x < 1e9"
        arguments["where"] = f"{arguments.get('where', 'TRUE')} AND {some}"
        conditions.append("a.y < b.y AND a.x + 1 > 0 AND a.x < 1e9")
    how = rng.choice(HOWS)
    return function, Drawn(
        left, right, arguments, " AND ".join(conditions), how, rng.choice([1, 2, 4])
    )


def drawn_overlap(rng: random.Random) -> Drawn:
    """Draw an overlap join of rows with a duration; few of them are long."""
    is_time = rng.random() < 0.5
    keys, skew = rng.choice([1, 3, 40]), rng.random() < 0.3
    counts = (0, 50, 700, 2_000, 2_000, 2_000)
    left, right = (
        lasting(rng, table(rng, name, is_time=is_time, keys=keys, skew=skew, counts=counts))
        for name in ("l", "r")
    )
    closed = rng.choice(["both", "left"])
    arguments: dict[str, Any] = {"on": ("ts", "end"), "closed": closed}
    less = "<=" if closed == "both" else "<"
    conditions = [f'a.ts {less} b."end"', f'b.ts {less} a."end"']
    if closed == "left":
        conditions += ['a.ts < a."end"', 'b.ts < b."end"']
    if rng.random() < 0.5:
        least = rng.randint(0, 12)
        arguments["min_overlap"] = f"{least}ms" if is_time else least
        common = 'least(a."end", b."end") - greatest(a.ts, b.ts)'
        common = f"epoch_us({common})" if is_time else common
        conditions.append(f"{common} >= {least * (MILLISECOND if is_time else 1)}")
    where = ["TRUE"]
    # As above, pairs without a key would be millions.
    if rng.random() < 0.7:
        arguments["by"] = "k"
        conditions.append("a.k = b.k")
    else:
        where.append("abs(left.y - right.y) <= 1")
    if rng.random() < 0.4:
        where.append(rng.choice(["left.y < right.y", "left.y > 20", "right.y % 3 = 1"]))
    if len(where) > 1:
        arguments["where"] = " AND ".join(where)
        conditions += [text.replace("left.", "a.").replace("right.", "b.") for text in where]
    how, threads = rng.choice(HOWS), rng.choice([1, 2, 4])
    return Drawn(left, right, arguments, " AND ".join(conditions), how, threads)


def lasting(rng: random.Random, rows: pa.Table) -> pa.Table:
    """Draw rows with an interval, some of which lack a start or an end."""
    draw = np.random.default_rng(rng.randrange(2**32))
    count, type_ = rows.num_rows, rows["ts"].type
    unit = MILLISECOND if pa.types.is_timestamp(type_) else 1
    lengths = np.minimum(draw.pareto(1.0, count) * rng.choice([0, 5, 50, 50]), 5_000).astype(int)
    starts = rows["ts"].to_numpy().astype(int)
    share = rng.choice([0, 0.1])
    start, end = (
        pa.array(column, mask=draw.random(count) < share).cast(type_)
        for column in (starts, starts + lengths * unit)
    )
    return rows.set_column(0, "ts", start).append_column("end", end)


def by_duckdb(join: Drawn) -> Rows:
    wanted = "a.l" if join.how in ("semi", "anti") else "a.l, b.r"
    with duckdb.connect(config={"threads": 2}) as connection:
        if join.how in ("semi", "anti"):
            # The IEJoin of DuckDB 2.0.1 misses pairs here; a nested loop does not.
            connection.execute("SET nested_loop_join_threshold = 1_000_000")
        connection.register("a", join.left)
        connection.register("b", join.right)
        query = f"SELECT {wanted} FROM a {join.how} JOIN b ON {join.sql} ORDER BY ALL NULLS LAST"  # noqa: S608 - our names
        return connection.sql(query).fetchall()


@pytest.mark.parametrize("number", range(campaign.tries(12)))
def test_joins_find_the_rows_of_duckdb(number):
    function, join = drawn(campaign.rng(f"joins {number}"))
    found = getattr(tg, function)(
        join.left, join.right, how=join.how, threads=join.threads, **join.arguments
    )
    found.validate(full=True)
    # Rows are ordered by the row numbers of both sides, and those without a left row are last.
    assert join.rows(found) == by_duckdb(join), (function, join.arguments, join.how)


@pytest.mark.parametrize("number", range(campaign.tries(30)))
def test_overlaps_find_the_rows_of_duckdb(number):
    join = drawn_overlap(campaign.rng(f"overlaps {number}"))
    found = tg.overlap_join(
        join.left, join.right, how=join.how, threads=join.threads, **join.arguments
    )
    found.validate(full=True)
    assert join.rows(found) == by_duckdb(join), (join.arguments, join.how)


def feed(
    operator: tg.StreamJoin, tables: tuple[pa.Table, pa.Table], rng: random.Random
) -> pa.Table:
    """Distribute the rows of both tables among sources, push them in random pieces, and poll."""
    waiting, found = [], []
    sides = ((tables[0], operator.left_sources), (tables[1], operator.right_sources))
    for side, sources in sides:
        for number, source in enumerate(sources):
            own = side.take(pa.array(range(number, side.num_rows, len(sources)), pa.int64()))
            own, size = own.sort_by("ts"), rng.choice([7, 100, 5_000])
            pieces = [own.slice(start, size) for start in range(0, own.num_rows, size)]
            waiting.append((source, pieces))
    while waiting:
        turn = rng.choice(waiting)
        source, pieces = turn
        if pieces:
            source.push(pieces.pop(0))
        else:
            source.close()
            waiting.remove(turn)
        if rng.random() < 0.2:
            found.extend(iter(operator.poll, None))
    found.extend(operator)
    return pa.Table.from_batches(found, operator.schema)


@pytest.mark.parametrize("number", range(campaign.tries(4)))
def test_streams_find_the_rows_of_duckdb(number):
    rng = campaign.rng(f"streams {number}")
    function, join = drawn(rng)
    while function == "band_join":
        function, join = drawn(rng)
    make = {"interval_join": tg.IntervalJoin, "window_join": tg.WindowJoin}[function]
    schemas = join.left.schema, join.right.schema
    arguments = join.arguments | {"sources": (rng.randint(1, 3), rng.randint(1, 3)), "pin": False}
    with make(*schemas, how=join.how, threads=join.threads, **arguments) as operator:
        rows = join.rows(feed(operator, (join.left, join.right), rng))
    ends = len(join.left), len(join.right)

    def place(row: tuple[int | None, ...]) -> tuple[int, ...]:
        return tuple(end if at is None else at for at, end in zip(row, ends, strict=False))

    assert sorted(rows, key=place) == by_duckdb(join), (function, join.arguments, join.how)


@pytest.mark.parametrize("number", range(campaign.tries(3)))
def test_joins_find_the_rows_of_polars(number):
    rng = campaign.rng(f"polars {number}")
    keys = rng.choice([3, 40])
    left, right = (table(rng, name, is_time=False, keys=keys, skew=False) for name in ("l", "r"))
    low, high = sorted(rng.randint(-20, 20) for _ in range(2))
    found = tg.interval_join(left, right, on="ts", by="k", lower=low, upper=high, threads=3)
    frames = [
        pl.from_arrow(left).select("ts", "k", "l"),
        pl.from_arrow(right).select("ts", "k", "r"),
    ]
    distance = pl.col("ts_right") - pl.col("ts")
    wanted = frames[0].join(frames[1], on="k").filter(distance.is_between(low, high))
    rows = list(zip(found["l"].to_pylist(), found["r"].to_pylist(), strict=True))
    assert wanted.select("l", "r").sort("l", "r").rows() == rows


AGGS = {
    "n": tg.agg.count(),
    "few": tg.agg.count("x", where="y < 10"),
    "sum": tg.agg.sum("y"),
    "low": tg.agg.min("y"),
    "high": tg.agg.max("y"),
    "first": tg.agg.first("x"),
    "last": tg.agg.last("y"),
    "mean": tg.agg.mean("y"),
    "var": tg.agg.var("y"),
}
SQL = """
    WITH windows AS (
      SELECT *, {offset} + {advance} * unnest(range(
        (ts - {offset} - {size})::BIGINT // {advance} - 2, (ts - {offset})::BIGINT // {advance} + 2
      )) AS start
      FROM rows
    )
    SELECT start AS window_start, start + {size} AS window_end {keys}, count(*) AS n,
      count(x) FILTER (y < 10) AS few, sum(y)::BIGINT AS sum, min(y) AS low, max(y) AS high,
      (array_agg(x ORDER BY ts, s, l))[1] AS first, (array_agg(y ORDER BY ts, s, l))[-1] AS last,
      avg(y) AS mean, var_samp(y) AS var
    FROM windows WHERE start <= ts AND ts < start + {size}
    GROUP BY ALL ORDER BY start {order}
"""


@pytest.mark.parametrize("number", range(campaign.tries(6)))
def test_aggregations_find_the_rows_of_duckdb(number):
    rng = campaign.rng(f"aggregations {number}")
    keys = rng.choice([3, 2_000])
    streams = [
        table(rng, "l", is_time=False, keys=keys, skew=False) for _ in range(rng.randint(1, 3))
    ]
    windows = {
        "size": rng.randint(1, 200),
        "advance": rng.randint(5, 90),
        "offset": rng.randint(-50, 50),
    }
    by = rng.choice([[], ["k"]])
    threads = rng.choice([1, 3])
    found = tg.aggregate(streams, on="ts", by=by, threads=threads, aggs=AGGS, **windows).to_pylist()
    numbered = [
        side.append_column("s", pa.array([at] * side.num_rows, pa.int64()))
        for at, side in enumerate(streams)
    ]
    keys, order = (", k", ", k NULLS LAST") if by else ("", "")
    with duckdb.connect(config={"threads": 2}) as connection:
        connection.register("rows", pa.concat_tables(numbered))
        query = SQL.format(keys=keys, order=order, **windows)
        wanted = connection.sql(query).to_arrow_table().to_pylist()
    assert len(found) == len(wanted)
    for ours, theirs in zip(found, wanted, strict=True):
        for name in ("mean", "var"):
            one, other = ours.pop(name), theirs.pop(name)
            assert one == other or math.isclose(one, other, rel_tol=1e-9)
        assert repr(ours) == repr(theirs)
