"""Windows of calendar units: against `zoneinfo`, row by row."""

import datetime as dt
import random
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import campaign
import tidegate as tg
from calendar_oracle import UTC, ZONES, Windows, zone_of
from command_line import run
from tidegate import Aggregate, TidegateError, agg, aggregate

UNITS = {"d": 9, "w": 4, "mo": 7, "q": 3, "y": 2}
DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
N = {"n": agg.count()}
# The time zone data of the system and of the module may differ for later times, and releases in
# 2026 corrected earlier times in Tehran.
YEARS = range(1975, 2025)
FIRST_YEARS = {"Asia/Tehran": 1980}


def windows(draw: random.Random, zone: str) -> Windows:
    unit = draw.choice([*UNITS])
    is_plain = draw.random() < 0.4
    size = 1 if is_plain else draw.randint(1, UNITS[unit])
    of_months = unit in ("mo", "q", "y")
    minutes = draw.choice([0, 0, 0, 150, 360, 1350])
    return Windows(
        zone=zone,
        unit=unit,
        size=size,
        advance=size if is_plain else draw.randint(1, UNITS[unit]),
        months=draw.choice([0, draw.randint(0, 13)]) if of_months else 0,
        days=draw.choice([0, draw.randint(0, 40)]),
        clock=dt.timedelta(minutes=minutes),
        week_start=draw.choice(DAYS) if unit == "w" else "monday",
    )


def times(draw: random.Random, zone: str, count: int) -> list[dt.datetime]:
    """Return times within 50 years, many of which are close to changes of the offset."""
    found: list[dt.datetime] = []
    years = range(FIRST_YEARS.get(zone, YEARS.start), YEARS.stop)
    while len(found) < count:
        time = dt.datetime(draw.choice(years), draw.randint(1, 12), draw.randint(1, 28), tzinfo=UTC)
        time += dt.timedelta(seconds=draw.randrange(86_400))
        change = after_change(zone, time)
        if draw.random() < 0.7 and change is not None and change.year in years:
            near = [-1, 0, 1, 59, 60, draw.randrange(-100_000, 100_000)]
            time = change + dt.timedelta(seconds=draw.choice(near))
        found.append(time)
    return sorted(found)


def after_change(zone: str, time: dt.datetime) -> dt.datetime | None:
    """Return the time of a change of the offset within the next 300 days."""

    def offset(at: dt.datetime) -> dt.timedelta | None:
        return at.astimezone(zone_of(zone)).utcoffset()

    for day in range(0, 300, 10):
        low, high = time + dt.timedelta(days=day), time + dt.timedelta(days=day + 10)
        if offset(low) != offset(high):
            while high - low > dt.timedelta(seconds=1):
                middle = (low + (high - low) / 2).replace(microsecond=0)
                low, high = (middle, high) if offset(middle) == offset(low) else (low, middle)
            return high
    return None


def expected(of: Windows, every: list[dt.datetime]) -> list[dict[str, Any]]:
    counts = Counter(window for time in every for window in of.of(time))
    return [
        {"window_start": start, "window_end": end, "n": n}
        for (start, end), n in sorted(counts.items())
    ]


def table(every: list[dt.datetime], zone: str | None, unit: str = "us") -> pa.Table:
    plain = pa.array([time.replace(tzinfo=None) for time in every], pa.timestamp(unit))
    return pa.table({"ts": plain.cast(pa.timestamp(unit, zone))})


def in_utc(found: pa.Table) -> list[dict[str, Any]]:
    rows = found.to_pylist()
    for row in rows:
        for name in ("window_start", "window_end"):
            time = row[name]
            row[name] = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    return rows


@pytest.mark.parametrize("zone", ZONES)
def test_windows_of_fifty_years_row_by_row(zone):
    draw = campaign.rng(f"calendar windows in {zone}")
    for _ in range(campaign.tries(12)):
        of = windows(draw, zone)
        every = times(draw, zone, 40)
        own_zone = draw.choice([True, False])
        rows = table(every, zone if own_zone else draw.choice([None, "UTC", "Asia/Tokyo"]))
        given = None if own_zone else zone
        found = aggregate(rows, on="ts", zone=given, aggs=N, **of.arguments())
        assert in_utc(found) == expected(of, every), of


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_units_of_time_columns(unit):
    draw = campaign.rng(f"calendar windows in {unit}")
    for zone in ("Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia"):
        of, every = windows(draw, zone), times(draw, zone, 60)
        found = aggregate(table(every, zone, unit), on="ts", aggs=N, **of.arguments())
        assert in_utc(found) == expected(of, every), of


def pushed(rows: pa.Table, query: dict[str, Any], draw: random.Random) -> list[dict[str, Any]]:
    """Aggregate rows that arrive piece by piece, with a restart in the middle."""
    found, first = [], 0
    operator = Aggregate(rows.schema, **query)
    while first < rows.num_rows:
        count = draw.randint(1, 9)
        operator.sources[0].push(rows.slice(first, count))
        found += [row for batch in iter(operator.poll, None) for row in batch.to_pylist()]
        first += count
        if draw.random() < 0.3:
            state = operator.snapshot()
            operator = Aggregate(rows.schema, **query)
            operator.restore(state)
    operator.sources[0].close()
    return found + [row for batch in operator for row in batch.to_pylist()]


@pytest.mark.parametrize("function", [agg.count(), agg.median("v"), agg.sum("v")])
def test_streams_have_the_windows_of_tables(function):
    draw = campaign.rng(f"streams in calendar windows: {function}")
    for _ in range(campaign.tries(15)):
        zone = draw.choice(ZONES)
        of, every = windows(draw, zone), times(draw, zone, 60)
        values = pa.array([draw.random() for _ in every])
        rows = table(every, zone).append_column("v", values)
        query = {"on": "ts", "aggs": {"n": function}, "threads": 2, **of.arguments()}
        assert pushed(rows, query, draw) == aggregate(rows, **query).to_pylist(), of


@pytest.mark.parametrize("algorithm", ["mq", "mq-lf", "tumlsc", "tumlmc", "wiml"])
def test_every_algorithm_has_the_same_windows(algorithm):
    draw = campaign.rng(f"{algorithm} in calendar windows")
    of, every = windows(draw, "Europe/Berlin"), times(draw, "Europe/Berlin", 200)
    query = {"on": "ts", "aggs": N, **of.arguments()}
    rows = table(every, "Europe/Berlin")
    assert aggregate(rows, **query, algorithm=algorithm).equals(aggregate(rows, **query))


@pytest.mark.parametrize("way", ["memory_limit", "tasks"])
def test_files_have_the_windows_of_tables(tmp_path, way):
    draw = campaign.rng(f"files in calendar windows: {way}")
    for number in range(campaign.tries(12)):
        zone = draw.choice(ZONES)
        of, every = windows(draw, zone), times(draw, zone, 400)
        values = pa.array([draw.randint(0, 9) for _ in every])
        rows = table(every, zone).append_column("v", values)
        path = tmp_path / f"{number}.parquet"
        pq.write_table(rows, path, row_group_size=draw.randint(5, 60))
        query = {"on": "ts", "aggs": {"n": agg.count(), "v": agg.sum("v")}, **of.arguments()}
        wanted = aggregate(rows, **query)
        if way == "memory_limit":
            assert aggregate(path, **query, memory_limit="256MB").equals(wanted), of
            continue
        plan = tg.tasks(tg.aggregate, path, **query, target=1_500)
        assert len(plan.tasks) > 1
        found = [batch for task in plan.tasks for batch in task.run()]
        assert pa.Table.from_batches(found, plan.schema).to_pylist() == wanted.to_pylist(), of
        digest = tg.Digest(wanted.schema)
        digest.update(wanted)
        assert str(digest) == str(plan.digest(map(_digested, plan.tasks)))


def _digested(task: Any) -> tg.Digest:
    digest = tg.Digest(task.schema)
    digest.update(task.run())
    return digest


def test_dates_have_a_calendar_but_no_zone():
    days = [dt.date(2024, 1, 31), dt.date(2024, 2, 1), dt.date(2024, 2, 29), dt.date(2024, 3, 1)]
    for kind in (pa.date32(), pa.date64()):
        rows = pa.table({"day": pa.array(days, kind)})
        found = aggregate(rows, on="day", size="1mo", aggs=N)
        assert found["n"].to_pylist() == [1, 2, 1]
        weeks = aggregate(rows, on="day", size="1w", aggs=N)["window_start"]
        first = weeks[0].as_py()
        assert (first if isinstance(first, dt.date) else first.date()).weekday() == 0
        with pytest.raises(TidegateError, match="dates, which have no time zone; leave zone out"):
            aggregate(rows, on="day", size="1mo", zone="UTC", aggs=N)


def test_hours_stay_hours_and_days_without_a_zone_have_24():
    rows = table(
        [dt.datetime(2024, 3, 31, hour, tzinfo=UTC) for hour in range(24)], "Europe/Berlin"
    )
    assert aggregate(rows, on="ts", size="24h", aggs=N)["n"].to_pylist() == [24]
    assert aggregate(rows, on="ts", size="1d", aggs=N)["n"].to_pylist() == [22, 2]
    plain = table([dt.datetime(1970, 1, 1, tzinfo=UTC), dt.datetime(1970, 1, 5, tzinfo=UTC)], None)
    assert aggregate(plain, on="ts", size="1w", aggs=N)["n"].to_pylist() == [2]
    assert aggregate(plain, on="ts", size="1w", zone="UTC", aggs=N)["n"].to_pylist() == [1, 1]


BERLIN = table([dt.datetime(2024, 1, 1, tzinfo=UTC)], "Europe/Berlin")
PLAIN = table([dt.datetime(2024, 1, 1, tzinfo=UTC)], None)
INTEGERS = pa.table({"ts": [1]})


@pytest.mark.parametrize(
    ("rows", "arguments", "message"),
    [
        (
            PLAIN,
            {"size": "1mo"},
            "months, which have no fixed length; add a time zone, such as zone=",
        ),
        (
            PLAIN,
            {"size": "1w", "week_start": "sunday"},
            "week_start needs a time zone, as in zone=",
        ),
        (PLAIN, {"size": "1d", "offset": "1mo"}, "offset contains months, which have no fixed"),
        (PLAIN, {"size": "1d", "zone": "Mars/Olympus"}, "`Mars/Olympus` is not a time zone; write"),
        (INTEGERS, {"size": 1, "zone": "UTC"}, "integers, which have no time zone; leave zone out"),
        (INTEGERS, {"size": "1d"}, "size is a duration, but the time columns are integers"),
        (BERLIN, {"size": "1d", "advance": "1h"}, "advance is a fixed length, but the windows are"),
        (BERLIN, {"size": "24h", "advance": "1d"}, "size is a fixed length, but the windows are"),
        (BERLIN, {"size": "1mo", "advance": "1w"}, "size and advance must both count months"),
        (BERLIN, {"size": "1mo1d"}, "size contains both months and days; write one of them"),
        (
            BERLIN,
            {"size": "1d6h"},
            "size contains both calendar units and hours or smaller units; write",
        ),
        (BERLIN, {"size": "1.5d"}, "size is not a whole number of days; write hours instead"),
        (BERLIN, {"size": "0.5mo"}, "months and longer units must be whole numbers"),
        (BERLIN, {"size": "-1mo"}, r"size must be greater than 0, got -1 \(months\)"),
        (
            BERLIN,
            {"size": "1h", "zone": "Europe/Berlin"},
            "zone: size is a fixed length, so windows",
        ),
        (BERLIN, {"size": "1d", "week_start": "sunday"}, "week_start needs an advance in weeks"),
        (
            BERLIN,
            {"size": "1w", "week_start": "Sunday"},
            "week_start must be one of monday.*sunday",
        ),
        (BERLIN, {"size": "1d", "offset": "1mo"}, "offset contains months, but size counts days"),
        (
            BERLIN,
            {"size": "1d", "offset": 3},
            "offset is the integer 3, but the windows are calendar",
        ),
        (BERLIN, {"session": "1h", "zone": "UTC"}, "zone cannot be combined with session"),
        (BERLIN, {"session": "1h", "week_start": "monday"}, "week_start cannot be combined with"),
    ],
)
def test_what_is_refused(rows, arguments, message):
    with pytest.raises(TidegateError, match=message):
        aggregate(rows, on="ts", aggs=N, **arguments)


def test_streams_with_different_zones_need_one_for_the_windows():
    streams = [BERLIN, table([dt.datetime(2024, 1, 1, tzinfo=UTC)], "UTC")]
    message = 'different time zones, Europe/Berlin and UTC; choose one .*zone="Europe/Berlin"'
    with pytest.raises(TidegateError, match=message):
        aggregate(streams, on="ts", size="1d", aggs=N)
    assert aggregate(streams, on="ts", size="1d", zone="UTC", aggs=N)["n"].to_pylist() == [2]


def test_a_fixed_length_of_whole_days_says_what_it_counts_from():
    message = 'do not begin at midnight in Europe/Berlin; write size="1d" for calendar units'
    day = dt.timedelta(days=1)
    with pytest.warns(UserWarning, match=message) as caught:
        aggregate(BERLIN, on="ts", size=day, aggs=N)
    assert [one.filename for one in caught] == [__file__]
    with (
        pytest.warns(UserWarning, match=message) as caught,
        Aggregate(BERLIN.schema, on="ts", size=day, aggs=N),
    ):
        pass
    assert [one.filename for one in caught] == [__file__]
    utc = table([dt.datetime(2024, 1, 1, tzinfo=UTC)], "UTC")
    with pytest.warns(UserWarning, match='begin on Thursdays; write size="1w"'):
        aggregate(utc, on="ts", size=7 * day, aggs=N)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        aggregate(utc, on="ts", size=day, aggs=N)
        aggregate(BERLIN, on="ts", size="24h", aggs=N)
        aggregate(BERLIN, on="ts", size=day / 2, aggs=N)
        aggregate(PLAIN, on="ts", size=day, aggs=N)


def test_a_plan_shows_the_zone_and_the_version_of_its_rules():
    arguments = {"on": "ts", "size": "1mo", "offset": "14d6h", "aggs": N}
    shown = tg.explain(tg.aggregate, BERLIN, **arguments)
    line = "calendar   months begin 14d6h after midnight of their first day in Europe/Berlin, by "
    assert line + "the rules of tzdb 20" in shown
    assert line in Aggregate(BERLIN.schema, **arguments).explain()


def test_a_snapshot_carries_the_zone():
    def operator(zone: str, size: str = "1d") -> Aggregate:
        return Aggregate(PLAIN.schema, on="ts", size=size, zone=zone, aggs=N)

    before = operator("Europe/Berlin")
    before.sources[0].push(PLAIN)
    state = before.snapshot()
    operator("Europe/Berlin").restore(state)
    with pytest.raises(tg.StateError, match=r"in zone Europe/Berlin with rules [0-9a-f]{16}"):
        operator("Europe/Paris").restore(state)
    with pytest.raises(tg.StateError, match="windows: 1 days every 1"):
        operator("Europe/Berlin", "2d").restore(state)


def test_the_command_has_calendar_windows(tmp_path: Path):
    first = dt.datetime(2024, 3, 30, 22, tzinfo=UTC)
    every = [first + dt.timedelta(hours=hour) for hour in range(72)]
    given, out = tmp_path / "rows.parquet", tmp_path / "days.parquet"
    pq.write_table(table(every, None), given)
    options = ["--on", "ts", "--size", "1d", "--zone", "Europe/Berlin", "--agg", "n=count()"]
    result = run("aggregate", str(given), *options, "-o", str(out))
    assert result.exit_code == 0, result.output
    assert pq.read_table(out)["n"].to_pylist() == [1, 23, 24, 24]
