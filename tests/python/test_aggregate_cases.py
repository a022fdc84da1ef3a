"""Windows from other systems' tests and guides, with their inputs and results.

Flink: `SlidingEventTimeWindowsTest`, `TumblingEventTimeWindowsTest`, and the sums of sliding
windows and of sessions in `WindowOperatorTest`. Kafka Streams: `TimeWindowsTest` and
`KStreamWindowAggregateTest`. Polars: the `group_by_dynamic` examples in its user guide and
reference. None of their code is used. Sessions differ from those of Flink and Kafka if a row is at
the very end of one. Here all windows, including sessions, are half-open, so such a row begins the
next session.
"""

import datetime as dt

import pyarrow as pa
import pytest

import tidegate
from tidegate import agg


def starts(ts: int, **windows: int) -> list[int]:
    """Return the starts of the windows that contain a row at `ts`."""
    table = pa.table({"ts": [ts]})
    found = tidegate.aggregate(table, on="ts", aggs={}, **windows)
    return found["window_start"].to_pylist()


@pytest.mark.parametrize(
    ("ts", "windows", "expected"),
    [
        # Flink, sliding by 1000 with size 5000: each time is in five windows.
        (0, {"size": 5000, "advance": 1000}, [-4000, -3000, -2000, -1000, 0]),
        (4999, {"size": 5000, "advance": 1000}, [0, 1000, 2000, 3000, 4000]),
        (5000, {"size": 5000, "advance": 1000}, [1000, 2000, 3000, 4000, 5000]),
        # With an offset, and with a negative one.
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
        # Kafka, at 21: hopping by 5 with size 12, and tumbling by 12. Its windows begin at 0.
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
    """Seven rows at half-hour intervals, in windows of one hour that begin on the hour."""
    halves = ["00:00", "00:30", "01:00", "01:30", "02:00", "02:30", "03:00"]
    table = pa.table({"time": minutes(halves), "n": range(7)})
    aggs = {"first": agg.first("time"), "last": agg.last("time"), "sum": agg.sum("n")}
    found = tidegate.aggregate(table, on="time", size="1h", aggs=aggs)
    assert found["window_start"] == pa.chunked_array([minutes(halves[::2])])
    assert found["first"] == found["window_start"]
    assert found["last"] == pa.chunked_array([minutes(["00:30", "01:30", "02:30", "03:00"])])
    assert found["sum"].to_pylist() == [1, 5, 9, 6]


def test_groups_within_windows_as_polars_has_them():
    """Each group of the same rows has separate windows."""
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
        # A row at the end of a session begins another one, and an earlier row extends the session.
        ([0, 2, 5], 3, [(0, 5), (5, 8)]),
        ([0, 2, 4], 3, [(0, 7)]),
        ([5, 0, 2], 3, [(0, 5), (5, 8)]),
        # A row in the middle merges what would be two sessions.
        ([0, 4, 2], 3, [(0, 7)]),
        # Some rows are out of order, and one is far away.
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
    """A source becomes idle only if it is declared idle."""
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


EVENTS = pa.schema({"ts": pa.int64(), "key": pa.string(), "n": pa.int64()})


def push(windows: tidegate.Aggregate, *rows: tuple[str, int, int]) -> None:
    """Push rows, given as key, number and time."""
    columns = {"ts": [row[2] for row in rows], "key": [row[0] for row in rows]}
    columns["n"] = [row[1] for row in rows]
    windows.sources[0].push(pa.table(columns, EVENTS))


def taken(windows: tidegate.Aggregate) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for batch in iter(windows.poll, None) for row in batch.to_pylist()]


def test_sums_of_sliding_windows_as_the_watermark_rises():
    """Flink's watermark of 999 means that times up to 999 are complete, as 1000 does here."""
    windows = tidegate.Aggregate(
        EVENTS, on="ts", size=3000, advance=1000, by="key", aggs={"n": agg.sum("n")}, lateness=10**6
    )
    two, one = [3999, 3000, 1998, 1999, 1000], [20, 0, 999]
    push(windows, *(("key2", 1, ts) for ts in two[:2]), *(("key1", 1, ts) for ts in one))
    push(windows, *(("key2", 1, ts) for ts in two[2:]))
    source = windows.sources[0]
    source.advance(1000)
    assert taken(windows) == [(-2000, 1000, "key1", 3)]
    source.advance(2000)
    assert taken(windows) == [(-1000, 2000, "key1", 3), (-1000, 2000, "key2", 3)]
    source.advance(3000)
    assert taken(windows) == [(0, 3000, "key1", 3), (0, 3000, "key2", 3)]
    source.advance(4000)
    assert taken(windows) == [(1000, 4000, "key2", 5)]
    source.advance(5000)
    assert taken(windows) == [(2000, 5000, "key2", 2)]
    source.advance(6000)
    assert taken(windows) == [(3000, 6000, "key2", 2)]
    source.advance(8000)
    assert taken(windows) == []


def test_sums_of_sessions_with_a_snapshot_between():
    """Sessions of 3000, some of whose rows arrive after the state has moved to another operator."""
    query = {"on": "ts", "session": 3000, "by": "key", "aggs": {"n": agg.sum("n")}}
    windows = tidegate.Aggregate(EVENTS, **query, lateness=10**6)
    push(windows, ("key2", 1, 0), ("key2", 2, 1000), ("key2", 3, 2500))
    push(windows, ("key1", 1, 10), ("key1", 2, 1000))
    windows, before = tidegate.Aggregate(EVENTS, **query, lateness=10**6), windows
    windows.restore(before.snapshot())
    push(windows, ("key1", 3, 2500))
    push(windows, ("key2", 4, 5501), ("key2", 5, 6000), ("key2", 5, 6000), ("key2", 6, 6050))
    source = windows.sources[0]
    source.advance(12_000)
    assert taken(windows) == [
        (10, 5500, "key1", 6),
        (0, 5500, "key2", 6),
        (5501, 9050, "key2", 20),
    ]
    push(windows, ("key2", 10, 15_000), ("key2", 20, 15_000))
    source.advance(18_000)
    assert taken(windows) == [(15_000, 18_000, "key2", 30)]


def test_hopping_windows_of_four_keys_row_by_row():
    """Windows of size 10 that hop by 5. Kafka has no windows that begin before 0."""
    keys = "ABCDA" + "ABDBC" + "ABDBC"
    windows = tidegate.Aggregate(
        EVENTS, on="ts", size=10, advance=5, by="key", aggs={"n": agg.count(), "at": agg.last("n")}
    )
    found = []
    for ts, key in enumerate(keys):
        push(windows, (key, ts, ts))
        found += taken(windows)
    windows.sources[0].close()
    found += taken(windows)
    assert [row for row in found if row[0] >= 0] == [
        *((0, 10, "A", 3, 5), (0, 10, "B", 3, 8), (0, 10, "C", 2, 9), (0, 10, "D", 2, 7)),
        *((5, 15, "A", 2, 10), (5, 15, "B", 4, 13), (5, 15, "C", 2, 14), (5, 15, "D", 2, 12)),
        *((10, 20, "A", 1, 10), (10, 20, "B", 2, 13), (10, 20, "C", 1, 14), (10, 20, "D", 1, 12)),
    ]


def test_windows_of_an_index_that_are_closed_on_the_right():
    """Windows of size 3 every 2 integers; those closed on the right begin one number later."""
    table = pa.table({"idx": range(6), "A": list("AABBBC")})
    aggs = {"first": agg.first("A"), "last": agg.last("A"), "n": agg.count()}
    found = tidegate.aggregate(table, on="idx", size=3, advance=2, offset=1, aggs=aggs)
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        (-1, 2, "A", "A", 2),
        (1, 4, "A", "B", 3),
        (3, 6, "B", "C", 3),
        (5, 8, "C", "C", 1),
    ]
