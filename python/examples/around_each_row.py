"""Aggregates the events around each row, with one result row per input row.

1. For each flight from New York in 2013, the script computes the mean and maximum wind speed in the
   preceding three hours.
2. For each trade message from three crypto exchanges, it computes the number of trades, the volume
   and the volume-weighted average price (VWAP) in the preceding ten seconds.

To verify both results, the script also computes all pairs of the join and groups them.

    python python/examples/around_each_row.py
"""

from __future__ import annotations

import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import tidegate as tg

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(__file__).parents[2] / "tests" / "data"
BUG = "the aggregates differ from the grouped pairs; this is a bug in tidegate; please report it"


def main() -> None:
    """Run both examples."""
    wind_before_flights()
    trades_before_trades()


def wind_before_flights() -> None:
    """Aggregate the weather in the three hours before each flight."""
    flights = pq.read_table(DATA / "nycflights13" / "flights.parquet")
    weather = pq.read_table(DATA / "nycflights13" / "weather.parquet")
    query: dict[str, Any] = {
        "on": ("sched_dep_utc", "time_hour"),
        "by": "origin",
        "lower": timedelta(hours=-3),
        "upper": timedelta(0),
    }
    found, seconds = timed(
        lambda: tg.interval_join(
            flights,
            weather,
            **query,
            columns=["carrier", "flight", "origin", "sched_dep_utc"],
            aggs={
                "hours": tg.agg.count("wind_speed"),
                "wind": tg.agg.mean("wind_speed"),
                "strongest": tg.agg.max("wind_speed"),
            },
        )
    )
    print(f"wind of the three hours before {flights.num_rows:,} flights: {seconds:.3f} s")
    show(found.slice(100_000, 2), ["wind", "strongest"])
    numbered, grouped = pairs(flights, weather, query, "wind_speed")
    means = [(row, count, total / count) for row, count, total in grouped if count]
    check(numbered.num_rows, found["hours"], found["wind"], means)


def trades_before_trades() -> None:
    """Aggregate the trades in the ten seconds before each trade."""
    messages = pq.read_table(DATA / "exchange_feeds" / "messages.parquet")
    trades = messages.filter(pc.match_substring(messages["kind"], "trade"))
    trades = trades.select(["event_ts", "feed", "instrument", "price", "size"])
    query: dict[str, Any] = {
        "on": "event_ts",
        "by": "instrument",
        "lower": "-10s",
        "upper": "0s",
        "closed": "left",
    }
    found, seconds = timed(
        lambda: tg.interval_join(
            trades,
            trades,
            **query,
            aggs={
                "trades": tg.agg.count(),
                "volume": tg.agg.sum("size"),
                "vwap": tg.agg.weighted_mean("price", "size"),
            },
        )
    )
    print(f"volume and VWAP of the 10 seconds before {trades.num_rows} trades: {seconds:.3f} s")
    busiest = pc.index(found["trades"], pc.max(found["trades"])).as_py()
    show(found.slice(busiest, 2), ["price", "size", "volume", "vwap"])
    numbered, grouped = pairs(trades, trades, query, "size")
    check(numbered.num_rows, found["trades"], found["volume"], grouped)


def timed(call: Callable[[], pa.Table]) -> tuple[pa.Table, float]:
    """Return the result of a call and its duration in seconds."""
    start = time.perf_counter()
    found = call()
    return found, time.perf_counter() - start


def show(rows: pa.Table, rounded: list[str]) -> None:
    """Print some rows."""
    for name in rounded:
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, name, pc.round(rows[name], 2))
    print(rows.to_pandas().to_string(index=False))


def pairs(
    left: pa.Table, right: pa.Table, query: dict[str, Any], column: str
) -> tuple[pa.Table, list[tuple[int, int, float]]]:
    """Build all pairs for numbered left rows; return them with counts and sums per left row."""
    numbered = pa.table({"row": range(left.num_rows)} | {n: left[n] for n in left.column_names})
    name = f"{column}_right" if column in left.column_names else column
    made = tg.interval_join(numbered, right, **query, columns=["row", name])
    groups = made.group_by("row").aggregate([(name, "count"), (name, "sum")]).to_pydict()
    return numbered, list(
        zip(groups["row"], groups[f"{name}_count"], groups[f"{name}_sum"], strict=True)
    )


def check(
    rows: int,
    counts: pa.ChunkedArray,
    values: pa.ChunkedArray,
    grouped: list[tuple[int, int, float]],
) -> None:
    """Exit if the counts or values of the two methods differ."""
    wanted_counts, wanted = [0] * rows, [0.0] * rows
    for row, count, value in grouped:
        wanted_counts[row], wanted[row] = count, value
    same = counts.to_pylist() == wanted_counts
    distance = pc.abs(pc.subtract(values.fill_null(0), pa.array(wanted)))
    if not same or pc.max(distance).as_py() > 1e-6 * max([1.0, *map(abs, wanted)]):
        sys.exit(BUG)
    print("Grouping the pairs gives the same values.\n")


if __name__ == "__main__":
    main()
