"""Sessions whose rows have their own gaps, compared with sessions found row by row."""

import datetime as dt
import itertools

import hypothesis.strategies as st
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

import tidegate
import tidegate.polars
from command_line import run
from tidegate import agg

STATES = {
    "n": agg.count(),
    "sum": agg.sum("v"),
    "first": agg.first("v"),
    "last": agg.last("v"),
}
ALL_VALUES = {"n": agg.count(), "values": agg.collect("v")}
ROW = st.fixed_dictionaries(
    {
        "ts": st.integers(-40, 40),
        "k": st.sampled_from(["a", "b", None]),
        "gap": st.integers(1, 25),
        "v": st.integers(0, 9),
    }
)
SCHEMA = pa.schema({"ts": pa.int64(), "k": pa.string(), "gap": pa.int32(), "v": pa.int64()})


def oracle(streams: list[list[dict]]) -> list[dict]:
    """Return every session of every key, with its rows in order of time, stream and position."""
    merged = sorted(itertools.chain(*streams), key=lambda row: row["ts"])  # stable
    sessions: list[tuple[str | None, int, list[dict]]] = []
    for key in ("a", "b", None):
        end = -(2**63)
        for row in merged:
            if row["k"] != key:
                continue
            if row["ts"] < end:
                sessions[-1][2].append(row)
                end = max(end, row["ts"] + row["gap"])
            else:
                end = row["ts"] + row["gap"]
                sessions.append((key, end, [row]))
            sessions[-1] = (key, end, sessions[-1][2])
    return [
        {
            "window_start": rows[0]["ts"],
            "window_end": end,
            "k": key,
            "n": len(rows),
            "sum": sum(row["v"] for row in rows),
            "first": rows[0]["v"],
            "last": rows[-1]["v"],
            "values": [row["v"] for row in rows],
        }
        for key, end, rows in sessions
    ]


def expected(streams: list[list[dict]], aggs: dict, *by: str) -> list[dict]:
    names = ("window_start", "window_end", "k", *aggs)
    rows = [{name: one[name] for name in names} for one in oracle(streams)]
    return sorted(rows, key=lambda one: (*(one[name] for name in by), one["k"] or "c"))


@given(
    st.lists(st.lists(ROW, max_size=20), min_size=1, max_size=3),
    st.sampled_from([STATES, ALL_VALUES]),
    st.integers(1, 4),
)
def test_every_session_row_by_row(streams, aggs, threads):
    tables = [pa.Table.from_pylist(rows, SCHEMA) for rows in streams]
    found = tidegate.aggregate(
        tables, on="ts", session=tidegate.row.gap, by="k", aggs=aggs, threads=threads
    )
    assert found.to_pylist() == expected(streams, aggs, "window_start")


@given(
    st.lists(st.lists(ROW, max_size=20), min_size=1, max_size=2),
    st.sampled_from([STATES, ALL_VALUES]),
    st.integers(1, 8),
    st.randoms(use_true_random=False),
)
def test_streams_return_the_sessions_of_tables(streams, aggs, size, rng):
    arguments = {"on": "ts", "session": "gap", "by": "k", "aggs": aggs, "sources": len(streams)}
    operator = tidegate.Aggregate(SCHEMA, **arguments)
    found = []
    ordered = [sorted(rows, key=lambda row: row["ts"]) for rows in streams]
    pieces = [
        (at, number) for number, rows in enumerate(ordered) for at in range(0, len(rows), size)
    ]
    for at, number in sorted(pieces):
        rows = pa.Table.from_pylist(ordered[number][at : at + size], SCHEMA)
        operator.sources[number].push(rows)
        if rng.random() < 0.5:
            while (batch := operator.poll()) is not None:
                found += batch.to_pylist()
        if rng.random() < 0.3:
            snapshot = operator.snapshot()
            operator = tidegate.Aggregate(SCHEMA, **arguments, threads=rng.randint(1, 3))
            operator.restore(snapshot)
            assert operator.snapshot() == snapshot
    for source in operator.sources:
        source.close()
    found += [row for batch in operator for row in batch.to_pylist()]
    assert found == expected(ordered, aggs, "window_end")


START = dt.datetime(2026, 3, 2, tzinfo=dt.UTC)
VIEWS = pa.table(
    {
        "ts": pa.array([START + dt.timedelta(minutes=at) for at in (0, 4, 30, 90)]),
        "gap": pa.array([dt.timedelta(minutes=at) for at in (10, 45, 10, 10)], pa.duration("s")),
        "minutes": [10, 45, 10, 10],
    }
)
QUERY = {"on": "ts", "session": tidegate.row.gap, "aggs": {"n": agg.count()}}
ENDS = [START + dt.timedelta(minutes=at) for at in (49, 100)]


def test_gaps_are_durations_or_expressions():
    found = tidegate.aggregate(VIEWS, **QUERY)
    assert (found["window_end"].to_pylist(), found["n"].to_pylist()) == (ENDS, [3, 1])
    seconds = VIEWS.set_column(0, "ts", VIEWS["ts"].cast(pa.timestamp("s", "UTC")))
    for session in (tidegate.row.minutes * 60, "minutes * 60"):
        found = tidegate.aggregate(seconds, **QUERY | {"session": session})
        assert (found["window_end"].to_pylist(), found["n"].to_pylist()) == (ENDS, [3, 1])


def test_every_form_has_the_same_sessions(tmp_path):
    whole = tidegate.aggregate(VIEWS, **QUERY)
    limited = tidegate.aggregate(VIEWS, **QUERY, memory_limit="256MB")
    assert limited.equals(whole)
    frames = pl.DataFrame(VIEWS), pl.DataFrame(VIEWS).lazy()
    frame, lazy = (one.tidegate.aggregate(**QUERY) for one in frames)  # type: ignore[attr-defined]
    assert frame.equals(pl.DataFrame(whole))
    assert lazy.collect().equals(frame)
    path = tmp_path / "views.csv"
    path.write_text("ts,gap\n0,10\n4,45\n30,10\n90,10\n")
    command = ["aggregate", str(path), "--on", "ts", "--session", "gap", "--agg", "n=count()"]
    assert run(*command, "--format", "csv").stdout.split()[1:] == ["0,49,3", "90,100,1"]
    plan = tidegate.explain(tidegate.aggregate, VIEWS, **QUERY)
    assert "sessions that end once `gap` has passed after each row, on ts" in plan


def test_tasks_say_which_gap_they_need(tmp_path):
    path = tmp_path / "views.parquet"
    pq.write_table(VIEWS, path)
    with pytest.raises(tidegate.TidegateError, match="same for all rows; pass a duration, or call"):
        tidegate.tasks(tidegate.aggregate, path, **QUERY)


@pytest.mark.parametrize(
    ("gaps", "text"),
    [
        ([5, None, 5], "row 1: session: `gap` is null, expected a gap"),
        ([5, 5, 0], "row 2: session: `gap` is 0, expected a gap greater than 0"),
        ([-1, 5, 5], "row 0: session: `gap` is -1, expected a gap greater than 0"),
        ([5, 2**63 - 1, 5], "row 1: session: `gap` ends the session outside the 64-bit range"),
    ],
)
def test_a_row_without_a_valid_gap_is_named(gaps, text):
    table = pa.table({"ts": [9, 4, 7], "gap": pa.array(gaps, pa.int64())})
    with pytest.raises(tidegate.TidegateError, match=text):
        tidegate.aggregate(table, **QUERY)
    operator = tidegate.Aggregate(table.schema, **QUERY, lateness=10)
    with pytest.raises(tidegate.TidegateError, match=text):
        operator.sources[0].push(table)
    # The rejected rows are not part of any result.
    operator.sources[0].push(pa.table({"ts": [9], "gap": [5]}))
    operator.sources[0].close()
    assert [row["n"] for batch in operator for row in batch.to_pylist()] == [1]


def test_rows_that_a_condition_excludes_need_no_gap():
    table = pa.table({"ts": [0, 4, 7], "gap": [5, None, 0]})
    query = QUERY | {"where": "gap > 0"}
    assert tidegate.aggregate(table, **query)["window_end"].to_pylist() == [5]
    operator = tidegate.Aggregate(table.schema, **query)
    operator.sources[0].push(table)
    operator.sources[0].close()
    assert [row["window_end"] for batch in operator for row in batch.to_pylist()] == [5]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"session": "gab"}, "there is no column `gab`.*did you mean `gap`"),
        ({"session": "half an hour"}, "no column `half an hour`.* a unit, as in '30m'"),
        ({"session": "5 parsecs"}, "session"),
        ({"session": tidegate.row.name}, "`name` is string, expected a duration, or an integer"),
        ({"session": tidegate.row.wait}, "the times are integers; cast it to int64"),
        ({"session": tidegate.row.gap, "size": 5}, "size cannot be combined with session"),
        ({"session": tidegate.row.gap, "algorithm": "mq"}, "sessions have their own algorithm"),
        ({"session": tidegate.row.gap, "empty": "null"}, "empty cannot be combined with session"),
    ],
)
def test_arguments_that_mean_nothing(arguments, text):
    wait = pa.array([1], pa.duration("s"))
    table = pa.table({"ts": [1], "gap": [2], "name": ["x"], "wait": wait})
    with pytest.raises(tidegate.TidegateError, match=text):
        tidegate.aggregate(table, **QUERY | arguments)


def test_durations_are_whole_units_of_the_times():
    table = pa.table(
        {
            "ts": pa.array([START, START], pa.timestamp("s", "UTC")),
            "gap": pa.array([1000, 1500], pa.duration("ms")),
        }
    )
    with pytest.raises(tidegate.TidegateError, match="row 1: session: `gap` is not a whole number"):
        tidegate.aggregate(table, **QUERY)
