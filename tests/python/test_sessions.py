"""Sessions, which a key's rows keep open, compared with sessions found row by row."""

import datetime as dt
import itertools
import math

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given

import tidegate
from streaming_oracle import Source, sort_out
from test_streaming_aggregate import Feed, happen, rest, shuffled
from tidegate import agg

AGGS = {
    "n": agg.count(),
    "values": agg.count("v", where="v > 1"),
    "sum": agg.sum("v"),
    "mean": agg.mean("v"),
    "low": agg.min("v"),
    "std": agg.std("v"),
    "first": agg.first("v"),
    "last": agg.last("v"),
}
FLOATS = [0.1, 0.7, 1e16, -1e16, 1e-9, 3.0, None]
ROW = st.fixed_dictionaries(
    {
        "ts": st.integers(-60, 60),
        "k": st.sampled_from(["a", "b", None]),
        "v": st.sampled_from(FLOATS),
        "t": st.sampled_from(["", "x", "xy", None]),
    }
)
SCHEMA = pa.schema({"ts": pa.int64(), "k": pa.string(), "v": pa.float64(), "t": pa.string()})


def oracle(streams: list[list[dict]], gap: int) -> list[dict]:
    """Return every session of every key, with its rows in order of time, stream and position."""
    merged = [row for rows in streams for row in rows]
    merged.sort(key=lambda row: row["ts"])  # stable
    found = []
    for key in ("a", "b", None):
        sessions: list[list[dict]] = []
        for row in (row for row in merged if row["k"] == key):
            if sessions and row["ts"] < sessions[-1][-1]["ts"] + gap:
                sessions[-1].append(row)
            else:
                sessions.append([row])
        found += [_result(key, rows, gap) for rows in sessions]
    return sorted(found, key=lambda one: (one["window_start"], one["k"] is None, one["k"]))


def _result(key: str | None, rows: list[dict], gap: int) -> dict:
    values = [row["v"] for row in rows if row["v"] is not None]
    total, mean, squares = 0.0, 0.0, 0.0
    for count, value in enumerate(values, 1):
        total += value
        distance = value - mean
        mean += distance / count
        squares += distance * (value - mean)
    some = len(values) > 0
    return {
        "window_start": rows[0]["ts"],
        "window_end": rows[-1]["ts"] + gap,
        "k": key,
        "n": len(rows),
        "values": sum(value > 1 for value in values),
        "sum": total if some else None,
        "mean": total / len(values) if some else None,
        "low": min(values) if some else None,
        "std": math.sqrt(squares / (len(values) - 1)) if len(values) > 1 else None,
        "first": rows[0]["v"],
        "last": rows[-1]["v"],
    }


@given(
    st.lists(st.lists(ROW, max_size=20), min_size=1, max_size=3),
    st.integers(1, 30),
    st.integers(1, 4),
)
def test_every_session_row_by_row(streams, gap, threads):
    tables = [pa.Table.from_pylist(rows, SCHEMA) for rows in streams]
    found = tidegate.aggregate(
        tables, on="ts", session=gap, by="k", aggs=AGGS, threads=threads
    ).to_pylist()
    assert found == oracle(streams, gap)


@st.composite
def feeds(draw: st.DrawFn) -> tuple[int, list[Feed]]:
    """Draw the lateness, and sources with rows in any order, pushed in pieces with promises."""
    lateness = draw(st.sampled_from([0, 3, 20, 1000]))
    found = []
    for rows in draw(st.lists(st.lists(ROW, max_size=20), min_size=1, max_size=3)):
        ordered = sorted(rows, key=lambda row: row["ts"]) if draw(st.booleans()) else rows
        cuts = [0, *sorted(draw(st.lists(st.integers(0, len(rows)), max_size=4))), len(rows)]
        history: list[int | range] = []
        for start, end in itertools.pairwise(cuts):
            history.append(range(start, end))
            if draw(st.integers(0, 3)) == 0:
                history.append(draw(st.integers(-60, 60)))
        table = pa.Table.from_pylist(ordered, SCHEMA)
        found.append(Feed(ordered, Source(table, history, lateness)))
    return lateness, found


STREAMING = AGGS | {"least": agg.min("t"), "most": agg.max("t")}


@given(feeds(), st.integers(1, 30), st.integers(1, 4), st.randoms(use_true_random=False))
def test_sessions_of_rows_as_they_come(given, gap, threads, rng):
    lateness, found = given
    arguments = {"on": "ts", "session": gap, "by": "k", "aggs": STREAMING}
    more = {"sources": len(found), "lateness": lateness}
    whole = tidegate.Aggregate(SCHEMA, **arguments, **more)
    cut = tidegate.Aggregate(SCHEMA, **arguments, **more, threads=threads)
    used = [pa.Table.from_pylist(feed.used(), SCHEMA) for feed in found]
    expected = tidegate.aggregate(used, **arguments).to_pylist()
    expected.sort(key=lambda one: (one["window_end"], one["k"] is None, one["k"]))
    results: tuple[list[dict], list[dict]] = ([], [])
    for number, event in shuffled(found, rng):
        happen(whole, number, event)
        happen(cut, number, event)
        if rng.random() < 0.5:
            # A session is emitted as soon as no row can extend it.
            results[0].extend(rest(whole))
            marks = [one["watermark"] for one in whole.stats()["sources"] if not one["closed"]]
            upto = -math.inf if None in marks else min(marks, default=math.inf)
            assert repr(results[0]) == repr([x for x in expected if x["window_end"] <= upto])
        if rng.random() < 0.5:
            snapshot = cut.snapshot()
            assert snapshot == cut.snapshot()
            # The operator that made the snapshot can also continue.
            if rng.random() < 0.5:
                cut = tidegate.Aggregate(SCHEMA, **arguments, **more, threads=rng.randint(1, 4))
                cut.restore(snapshot)
                assert cut.snapshot() == snapshot
            results[1].extend(rest(cut))
    results[0].extend(row for batch in whole for row in batch.to_pylist())
    results[1].extend(rest(cut))
    assert repr(results[0]) == repr(expected)
    assert repr(results[1]) == repr(expected)
    late = sum(len(sort_out(feed.source, "ts").late) for feed in found)
    stats = whole.stats()
    assert (stats["rows_late"], stats["state_cells"]) == (late, 0)
    assert cut.late().num_rows == late
    assert (stats["latency"] is None) == (stats["rows_used"] == 0)


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_many_sessions_of_rows_as_they_come(threads):
    # There are more sessions than fit in a page. Their keys disappear and return, so slots are
    # reused.
    count = 300_000
    times = [3 * at + (at % 7) // 3 for at in range(count)]
    keys = [(at * 7919) % 1009 + 1009 * (at // 50_000) for at in range(count)]
    table = pa.table({"ts": times, "k": keys, "v": [0.1 * (at % 13) for at in range(count)]})
    arguments = {"on": "ts", "session": 2000, "by": "k", "threads": threads}
    arguments |= {"aggs": {"n": agg.count(), "sum": agg.sum("v"), "last": agg.last("v")}}
    windows = tidegate.Aggregate(table.schema, **arguments, sources=2)
    found = []
    for start in range(0, count, 70_000):
        rows = table.slice(start, 70_000)
        odd = pc.equal(pc.bit_wise_and(rows["k"], 1), 1)
        windows.sources[0].push(rows.filter(odd))
        windows.sources[1].push(rows.filter(pc.invert(odd)))
        found += list(iter(windows.poll, None))
    for source in windows.sources:
        source.close()
    found += list(windows)
    whole = tidegate.aggregate(table, **arguments)
    assert pa.Table.from_batches(found).equals(
        whole.sort_by([("window_end", "ascending"), ("k", "ascending")])
    )


def test_a_row_at_the_end_of_a_session_begins_the_next():
    table = pa.table({"ts": [0, 4, 9, 14], "k": ["a", "a", "a", "b"]})
    found = tidegate.aggregate(table, on="ts", session=5, by="k", aggs={"n": agg.count()})
    ends = zip(found["window_start"].to_pylist(), found["window_end"].to_pylist(), strict=True)
    assert list(ends) == [(0, 9), (9, 14), (14, 19)]


def test_sessions_of_times_without_a_key():
    start = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    times = [start + dt.timedelta(minutes=minute) for minute in (0, 3, 9, 30)]
    table = pa.table({"ts": pa.array(times, pa.timestamp("ms", "UTC"))})
    found = tidegate.aggregate(table, on="ts", session="10m", aggs={"n": agg.count()})
    assert found["n"].to_pylist() == [3, 1]
    assert found["window_end"].to_pylist() == [
        start + dt.timedelta(minutes=19),
        start + dt.timedelta(minutes=40),
    ]
    assert found.schema.field("window_end").type == pa.timestamp("ms", "UTC")


def test_more_sessions_than_a_page_has():
    count = 600_000
    table = pa.table({"ts": range(0, 2 * count, 2), "v": range(count)})
    found = tidegate.aggregate(table, on="ts", session=2, aggs={"v": agg.sum("v")}, threads=2)
    assert found["v"].to_pylist() == list(range(count))
    assert found["window_start"].to_pylist() == list(range(0, 2 * count, 2))


def test_explain_tells_of_sessions():
    table = pa.table({"ts": [1]})
    plan = tidegate.explain(tidegate.aggregate, table, on="ts", session=5, aggs={"n": agg.count()})
    assert "sessions that end 5 (integer) after their last row, on ts" in plan
    aggs = {"n": agg.count()}
    plan = tidegate.explain(tidegate.Aggregate, table, on="ts", session=5, aggs=aggs, sources=2)
    assert "sessions that end 5 (integer) after their last row, on ts" in plan
    assert "by the end of the session, then key, once no row can extend the session" in plan


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"session": 0}, tidegate.TidegateError, "session must be greater than 0, got 0"),
        ({"session": "1s"}, tidegate.TidegateError, "session is a duration"),
        ({"session": 5, "size": 5}, tidegate.TidegateError, "size cannot be combined with session"),
        (
            {"session": 5, "advance": 5},
            tidegate.TidegateError,
            "advance cannot be combined with session",
        ),
        (
            {"session": 5, "offset": 5},
            tidegate.TidegateError,
            "offset cannot be combined with session",
        ),
        ({}, TypeError, "size: expected a duration, got None; give size, session or windows"),
        ({"session": 5, "algorithm": "mq"}, tidegate.TidegateError, "sessions have their own"),
        (
            {"session": 5, "algorithm": "slices"},
            tidegate.TidegateError,
            "sessions have their own algorithm",
        ),
        ({"session": 5, "max_rows": 1}, tidegate.MemoryLimitError, "max_rows = 1"),
        ({"session": 2**62}, tidegate.TidegateError, "begins or ends outside the 64-bit range"),
    ],
)
def test_arguments_that_mean_nothing(arguments, error, text):
    table = pa.table({"ts": [1, 9, 2**62]})
    with pytest.raises(error, match=text):
        tidegate.aggregate(table, on="ts", aggs={"n": agg.count()}, **arguments)
