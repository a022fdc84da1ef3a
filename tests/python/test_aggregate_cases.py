"""Windows that other systems' tests and guides define, with their inputs and results.

Flink: `SlidingEventTimeWindowsTest` and `TumblingEventTimeWindowsTest`. Kafka Streams:
`TimeWindowsTest`. Polars: the `group_by_dynamic` examples of its user guide. None of their code is
used. Sessions differ from Flink's and Kafka's where a row lies at the very end of one: windows are
half-open here, sessions included, and the row begins the next.
"""

import datetime as dt

import pyarrow as pa
import pytest

import tidegate
from tidegate import agg


def starts(ts: int, **windows: int) -> list[int]:
    """The starts of the windows that a row at `ts` is in."""
    table = pa.table({"ts": [ts]})
    found = tidegate.aggregate(table, on="ts", aggs={}, **windows)
    return found["window_start"].to_pylist()


@pytest.mark.parametrize(
    ("ts", "windows", "expected"),
    [
        # Flink, sliding by 1000 with size 5000: a time is in five windows, at either of their ends.
        (0, {"size": 5000, "advance": 1000}, [-4000, -3000, -2000, -1000, 0]),
        (4999, {"size": 5000, "advance": 1000}, [0, 1000, 2000, 3000, 4000]),
        (5000, {"size": 5000, "advance": 1000}, [1000, 2000, 3000, 4000, 5000]),
        # With an offset, and with one before zero.
        (100, {"size": 5000, "advance": 1000, "offset": 100}, [-3900, -2900, -1900, -900, 100]),
        (5099, {"size": 5000, "advance": 1000, "offset": 100}, [100, 1100, 2100, 3100, 4100]),
        (0, {"size": 5000, "advance": 1000, "offset": -100}, [-4100, -3100, -2100, -1100, -100]),
        # Flink, tumbling.
        (0, {"size": 5000}, [0]),
        (4999, {"size": 5000}, [0]),
        (5000, {"size": 5000}, [5000]),
        (4999, {"size": 5000, "offset": 100}, [100]),
        (5099, {"size": 5000, "offset": 100}, [100]),
        (5100, {"size": 5000, "offset": 100}, [5100]),
        # Kafka, hopping by 5 with size 12 and tumbling by 12, at 21; its windows begin at 0.
        (21, {"size": 12, "advance": 5}, [10, 15, 20]),
        (21, {"size": 12}, [12]),
        (20, {"size": 12, "advance": 5}, [10, 15, 20]),
    ],
)
def test_which_windows_a_time_is_in(ts, windows, expected):
    assert starts(ts, **windows) == expected


def minutes(text: list[str]) -> pa.Array:
    day = dt.date(2021, 12, 16)
    times = [dt.datetime.combine(day, dt.time.fromisoformat(one)) for one in text]
    return pa.array(times, pa.timestamp("us"))


def test_an_hour_of_half_hours_as_polars_groups_it():
    """Seven rows half an hour apart, windows of one hour that begin at the full hours."""
    halves = ["00:00", "00:30", "01:00", "01:30", "02:00", "02:30", "03:00"]
    table = pa.table({"time": minutes(halves), "n": range(7)})
    aggs = {"first": agg.first("time"), "last": agg.last("time"), "sum": agg.sum("n")}
    found = tidegate.aggregate(table, on="time", size="1h", aggs=aggs)
    assert found["window_start"] == pa.chunked_array([minutes(halves[::2])])
    assert found["first"] == found["window_start"]
    assert found["last"] == pa.chunked_array([minutes(["00:30", "01:30", "02:30", "03:00"])])
    assert found["sum"].to_pylist() == [1, 5, 9, 6]


def test_groups_within_windows_as_polars_has_them():
    """The same with groups: each has windows of its own."""
    table = pa.table(
        {
            "time": minutes(["00:00", "00:30", "01:00", "01:30", "02:00", "02:30", "03:00"]),
            "group": list("aaabbaa"),
        }
    )
    found = tidegate.aggregate(table, on="time", size="1h", by="group", aggs={"n": agg.count()})
    hours = [time.hour for time in found["window_start"].to_pylist()]
    assert list(zip(hours, found["group"].to_pylist(), found["n"].to_pylist(), strict=True)) == [
        (0, "a", 2),
        (1, "a", 1),
        (1, "b", 1),
        (2, "a", 1),
        (2, "b", 1),
        (3, "a", 1),
    ]


@pytest.mark.parametrize(
    ("times", "gap", "expected"),
    [
        # A row at the end begins another session, a row before it extends the one.
        ([0, 2, 5], 3, [(0, 5), (5, 8)]),
        ([0, 2, 4], 3, [(0, 7)]),
        ([5, 0, 2], 3, [(0, 5), (5, 8)]),
        # A row in the middle merges what would be two.
        ([0, 4, 2], 3, [(0, 7)]),
        # Rows out of order, and one far away.
        ([0, 5, 6, 30, 12], 10, [(0, 22), (30, 40)]),
    ],
)
def test_sessions_that_merge(times, gap, expected):
    table = pa.table({"ts": times})
    found = tidegate.aggregate(table, on="ts", session=gap, aggs={"n": agg.count()})
    ends = (found[f"window_{end}"].to_pylist() for end in ("start", "end"))
    assert list(zip(*ends, strict=True)) == expected
    assert sum(found["n"].to_pylist()) == len(times)


def test_a_source_that_never_speaks_holds_windows_back_until_it_is_closed():
    """An idle source: that it is idle is said, never guessed."""
    schema = pa.schema({"ts": pa.int64()})
    windows = tidegate.Aggregate(schema, on="ts", size=5, aggs={"n": agg.count()}, sources=2)
    speaking, silent = windows.sources
    speaking.push(pa.table({"ts": [1, 2, 30]}))
    assert windows.poll() is None
    silent.advance(10)
    assert windows.poll().to_pylist() == [{"window_start": 0, "window_end": 5, "n": 2}]
    silent.close()
    speaking.close()
    assert [batch.to_pylist() for batch in windows] == [
        [{"window_start": 30, "window_end": 35, "n": 1}]
    ]
