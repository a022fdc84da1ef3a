"""Windows that are listed in a table, and calendars that return such tables."""

import datetime as dt
import random
from collections import defaultdict
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import campaign
import tidegate as tg
from command_line import run
from tidegate import SchemaError, TidegateError, agg, aggregate

AGGS = {
    "n": agg.count(),
    "sum": agg.sum("w"),
    "last": agg.last("w"),
    "median": agg.median("v"),
    "high": agg.max("v", where="w > 3"),
}
KEYS = ["a", "b", "c", None]


def table(draw: random.Random, count: int, span: int) -> pa.Table:
    times = [draw.randrange(span) for _ in range(count)]
    maybe = lambda value: None if draw.random() < 0.2 else value  # noqa: E731 - one line
    return pa.table(
        {
            "ts": pa.array(times, pa.int64()),
            "k": pa.array([draw.choice(KEYS) for _ in times], pa.string()),
            "g": pa.array([draw.randrange(2) for _ in times], pa.int32()),
            "v": pa.array([maybe(draw.random()) for _ in times], pa.float64()),
            "w": pa.array([maybe(draw.randrange(9)) for _ in times], pa.int32()),
        }
    )


def windows(draw: random.Random, count: int, span: int, *, keyed: bool) -> pa.Table:
    starts = [draw.randrange(-5, span) for _ in range(count)]
    columns: dict[str, Any] = {
        "window_start": pa.array(starts, pa.int32()),
        "window_end": pa.array([one + draw.randrange(span) for one in starts], pa.int64()),
        "label": pa.array(["x"] * count),
    }
    if keyed:
        columns["k"] = pa.array([draw.choice(KEYS) for _ in starts], pa.large_string())
    return pa.table(columns)


def expected(streams: list[pa.Table], listed: pa.Table, by: list[str]) -> list[dict[str, Any]]:
    """Test every row against every window."""
    rows = sorted(
        (row for stream in streams for row in stream.to_pylist()), key=lambda row: row["ts"]
    )
    found = []
    for number, window in enumerate(listed.to_pylist()):
        of_key = defaultdict(list)
        for row in rows:
            is_of_key = (
                "k" not in by
                or "k" not in window
                or (window["k"] is not None and window["k"] == row["k"])
            )
            if is_of_key and window["window_start"] <= row["ts"] < window["window_end"]:
                of_key[tuple(row[name] for name in by)].append(row)
        found += [(window, key, number, inside) for key, inside in of_key.items()]
    null_last = lambda key: [(one is None, one or 0) for one in key]  # noqa: E731 - one line
    found.sort(
        key=lambda one: (one[0]["window_start"], one[0]["window_end"], null_last(one[1]), one[2])
    )
    return [
        {
            "window_start": window["window_start"],
            "window_end": window["window_end"],
            **dict(zip(by, key, strict=True)),
            **results(inside),
        }
        for window, key, _, inside in found
    ]


def results(rows: list[dict[str, Any]]) -> dict[str, Any]:
    values = sorted(row["v"] for row in rows if row["v"] is not None)
    ints = [row["w"] for row in rows if row["w"] is not None]
    high = [row["v"] for row in rows if row["v"] is not None and (row["w"] or 0) > 3]
    middle = values[(len(values) - 1) // 2 : len(values) // 2 + 1]
    return {
        "n": len(rows),
        "sum": sum(ints) if ints else None,
        "last": rows[-1]["w"],
        "median": sum(middle) / len(middle) if values else None,
        "high": max(high, default=None),
    }


def test_a_row_counts_in_every_window_that_contains_it() -> None:
    draw = campaign.rng("listed windows")
    for _ in range(campaign.tries(60)):
        streams = [table(draw, draw.randrange(30), 40) for _ in range(draw.randint(1, 2))]
        listed = windows(draw, draw.randrange(8), 40, keyed=draw.random() < 0.5)
        by = draw.choice([[], ["k"], ["g", "k"]])
        found = aggregate(
            streams, on="ts", by=by, windows=listed, aggs=AGGS, threads=draw.randint(1, 4)
        )
        wanted = expected(streams, listed, by)
        assert len(found) == len(wanted)
        for row, want in zip(found.to_pylist(), wanted, strict=True):
            assert row == pytest.approx(want)


def test_streams_return_the_windows_of_tables_by_their_ends() -> None:
    draw = campaign.rng("listed windows of streams")
    for _ in range(campaign.tries(40)):
        given = table(draw, draw.randrange(1, 50), 40).sort_by("ts")
        listed = windows(draw, draw.randrange(8), 40, keyed=draw.random() < 0.5)
        query = {"on": "ts", "by": draw.choice([None, "k"]), "windows": listed, "aggs": AGGS}
        operator = tg.Aggregate(given.schema, **query)
        found, at = [], 0
        while at < len(given):
            more = draw.randint(1, 9)
            operator.sources[0].push(given.slice(at, more))
            found += iter(operator.poll, None)
            at += more
            if draw.random() < 0.3:
                saved = operator.snapshot()
                operator = tg.Aggregate(given.schema, **query)
                operator.restore(saved)
                assert operator.snapshot() == saved
        ended = given["ts"][-1].as_py()
        assert all(end <= ended for batch in found for end in batch["window_end"].to_pylist())
        operator.sources[0].close()
        found += iter(operator.poll, None)
        stream = pa.Table.from_batches(found, operator.schema).to_pylist()
        whole = aggregate(given, **query).to_pylist()
        assert stream == sorted(whole, key=lambda row: (row["window_end"], row["window_start"]))


def test_files_and_the_command_read_windows_from_files(tmp_path: Any) -> None:
    draw = campaign.rng("files of windows")
    given, listed = table(draw, 200, 90), windows(draw, 9, 50, keyed=True)
    pq.write_table(given, tmp_path / "rows.parquet")
    pq.write_table(listed, tmp_path / "windows.parquet")
    query = {"on": "ts", "by": "k", "aggs": {"n": agg.count()}}
    wanted = aggregate(given, **query, windows=listed)
    path = str(tmp_path / "windows.parquet")
    assert aggregate(tmp_path / "rows.parquet", **query, windows=path).equals(wanted)
    assert aggregate(given, **query, windows=listed.to_pydict()).equals(wanted)
    operator = tg.Aggregate(given.schema, **query, windows=path)
    assert "9 windows from a table by k" in operator.explain()
    out = str(tmp_path / "out.parquet")
    command = ["aggregate", str(tmp_path / "rows.parquet"), "--on", "ts", "--by", "k"]
    result = run(*command, "--windows", path, "--agg", "n=count()", "-o", out)
    assert result.exit_code == 0, result.output
    assert pq.read_table(out).equals(wanted)


ROWS = pa.table({"ts": [1, 2], "k": ["a", "b"]})
ONE = {"window_start": [0], "window_end": [2]}
LISTED = {"window_start": [0, 3], "window_end": [2, 1]}


@pytest.mark.parametrize(
    ("listed", "changes", "error", "words"),
    [
        (LISTED, {}, TidegateError, "windows, row 1: the window ends at 1"),
        ({"window_start": [0]}, {}, SchemaError, "windows: there is no column `window_end`"),
        ({**ONE, "k": [1]}, {"by": "k"}, SchemaError, "column `k` is int64, but"),
        ({**LISTED, "window_end": [None, 1]}, {}, TidegateError, "windows: column `window_end`"),
        (LISTED, {"size": 3}, TidegateError, "size cannot be combined with windows"),
        (LISTED, {"session": 3}, TidegateError, "session cannot be combined with windows"),
        (LISTED, {"zone": "UTC"}, TidegateError, "zone cannot be combined with windows"),
        (LISTED, {"algorithm": "mq"}, TidegateError, "windows from a table have their own"),
        (ONE, {"empty": "null"}, TidegateError, "empty cannot be combined with windows"),
        (3, {}, TypeError, "windows"),
    ],
)
def test_wrong_windows_are_explained(
    listed: Any, changes: dict[str, Any], error: type[Exception], words: str
) -> None:
    query = {"on": "ts", "windows": listed, "aggs": {"n": agg.count()}, **changes}
    with pytest.raises(error) as caught:
        aggregate(ROWS, **query)
    assert words in str(caught.value)


def test_a_window_without_a_zone_does_not_fit_times_with_one() -> None:
    rows = pa.table({"ts": pa.array([0], pa.timestamp("us", "UTC"))})
    listed = tg.calendar("2026-03-06", "2026-03-06", opens="09:00", closes="10:00")
    with pytest.raises(SchemaError, match="with and without a time zone"):
        aggregate(rows, on="ts", windows=listed, aggs={"n": agg.count()})


def sessions(
    first: dt.date,
    last: dt.date,
    opens: dt.time,
    closes: dt.time,
    zone: str,
    holidays: set[dt.date],
) -> list[tuple[dt.datetime, dt.datetime]]:
    """Return the sessions on working days, according to Python's time zone rules."""
    found = []
    day = first
    while day <= last:
        if day.weekday() < 5 and day not in holidays:
            until = day if closes > opens else day + dt.timedelta(1)
            place = ZoneInfo(zone)
            found.append(
                (
                    dt.datetime.combine(day, opens, place),
                    dt.datetime.combine(until, closes, place),
                )
            )
        day += dt.timedelta(1)
    return found


def test_sessions_are_those_of_pythons_time_zones() -> None:
    draw = campaign.rng("calendars")
    for zone in ("America/New_York", "Europe/Berlin", "Asia/Kathmandu", "Australia/Lord_Howe"):
        first = dt.date(draw.randrange(1980, 2037), draw.randint(1, 12), 5)
        last = first + dt.timedelta(draw.randrange(400))
        # These times of day are neither skipped nor repeated.
        opens, closes = dt.time(draw.randrange(5, 23), 30), dt.time(draw.randrange(5, 23), 15)
        holidays = {first + dt.timedelta(draw.randrange(90)) for _ in range(9)}
        found = tg.calendar(
            first, last.isoformat(), opens=opens, closes=closes, zone=zone, holidays=holidays
        )
        assert found.schema.field("window_start").type == pa.timestamp("us", zone)
        pairs = zip(found["window_start"].to_pylist(), found["window_end"].to_pylist(), strict=True)
        assert [*pairs] == sessions(first, last, opens, closes, zone, holidays)


def test_special_days_and_skipped_times() -> None:
    found = tg.calendar(
        "2026-03-28",
        "2026-03-30",
        opens="02:30",
        closes="03:30",
        zone="Europe/Berlin",
        weekdays=["sunday", "monday"],
        holidays=["2026-03-30"],
        special={"2026-03-30": ("09:00", "10:00")},
    )
    # The clocks skip 02:30 on 29 March.
    assert [str(time) for time in found["window_start"].to_pylist()] == [
        "2026-03-29 03:00:00+02:00",
        "2026-03-30 09:00:00+02:00",
    ]


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"last": "2026-01-01"}, TidegateError, "before first"),
        ({"first": "today"}, TidegateError, "first: 'today' is not a day"),
        ({"first": 3}, TypeError, "first: expected a date"),
        ({"opens": "9"}, TidegateError, "opens: '9' is not a time of day"),
        ({"closes": 16}, TypeError, "closes: expected a time"),
        ({"weekdays": ["mon"]}, TidegateError, "expected names such as 'monday', got 'mon'"),
        ({"zone": "New York"}, TidegateError, "is not a time zone"),
        ({"tz": "UTC", "end": "x"}, TypeError, "no argument tz or end; write zone='UTC', last='x'"),
    ],
)
def test_wrong_calendars_are_explained(
    changes: dict[str, Any], error: type[Exception], words: str
) -> None:
    given = {"first": "2026-03-06", "last": "2026-03-09", "opens": "09:30", "closes": "16:00"}
    with pytest.raises(error, match=words):
        tg.calendar(**{**given, **changes})
