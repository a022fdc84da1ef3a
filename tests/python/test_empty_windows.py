"""Windows without rows: which ones are returned, and what functions return for them."""

import datetime as dt
import random
from collections import defaultdict
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import campaign
import tidegate as tg
from calendar_oracle import ZONES
from command_line import run
from tidegate import Aggregate, TidegateError, agg, aggregate

AGGS = {"n": agg.count(), "v": agg.mean("v"), "s": agg.sum("w"), "name": agg.last("name")}
KEYS = ["a", "b", "c", None]


def table(draw: random.Random, count: int, span: int) -> pa.Table:
    """Create rows in time order, with gaps and some null values."""
    times = sorted(
        draw.choice([draw.randrange(span), draw.randrange(span // 9)]) for _ in "v" * count
    )
    maybe = lambda value: None if draw.random() < 0.2 else value  # noqa: E731 - one line
    return pa.table(
        {
            "ts": pa.array(times, pa.int64()),
            "k": pa.array([draw.choice(KEYS) for _ in times], pa.string()),
            "v": pa.array([maybe(draw.random()) for _ in times], pa.float64()),
            "w": pa.array([maybe(draw.randrange(9)) for _ in times], pa.int32()),
            "name": pa.array([maybe(draw.choice("xyz")) for _ in times], pa.string()),
        }
    )


def shape(draw: random.Random) -> dict[str, int]:
    size = draw.randint(1, 30)
    return {
        "size": size,
        "advance": draw.choice([size, draw.randint(1, 30)]),
        "offset": draw.randint(-30, 30),
    }


def value(fill: str, own: dict[int, dict[str, Any]], start: int, name: str) -> Any:
    """Return the value of a column in a window without rows."""
    if fill == "zero":
        return 0
    before = max((other for other in own if other < start), default=None)
    if before is None:
        return None
    old = own[before][name]
    if fill == "last":
        return old
    after = min((other for other in own if other > start), default=None)
    if fill == "null" or after is None or None in (old, own[after][name]):
        return None
    return old + (own[after][name] - old) * ((start - before) / (after - before))


def filled(
    rows: list[dict[str, Any]],
    windows: dict[str, int],
    fills: dict[str, str],
    keep: int | None,
    grid: dict[str, int | None],
) -> list[dict[str, Any]]:
    """Add windows without rows, key by key and window by window."""
    of_key: dict[Any, dict[int, dict[str, Any]]] = defaultdict(dict)
    for row in rows:
        of_key[row.get("k")][row["window_start"]] = row
    found = []
    for own in of_key.values():
        first, last = min(own), max(own)
        step = windows["advance"]
        low, high = grid.get("start"), grid.get("end")
        begin = first if low is None else min(first, low + (first - low) % step)
        until = last + (keep or 0) if high is None else max(last + (keep or 0), high - 1)
        for start in range(begin, until + 1, step):
            before = max((other for other in own if other <= start), default=None)
            is_on_grid = high is not None and start < high
            if start in own:
                found.append(own[start])
            elif before is None or keep is None or start <= before + keep or is_on_grid:
                row = dict.fromkeys(rows[0]) | {"window_start": start, "n": 0}
                row |= {name: own[first][name] for name in ("k",) if name in row}
                row["window_end"] = start + windows["size"]
                row |= {name: value(fill, own, start, name) for name, fill in fills.items()}
                found.append(row)
    order = lambda row: (row["window_start"], row.get("k") is None, row.get("k") or "")  # noqa: E731 - used once
    return sorted(found, key=order)


def random_fills(draw: random.Random, *, lines: bool) -> dict[str, str]:
    every = {
        "v": ["null", "zero", "last", *(["linear"] if lines else [])],
        "s": ["null", "zero", "last"],
        "name": ["null", "last"],
    }
    return {name: draw.choice(fills) for name, fills in every.items() if draw.random() < 0.8}


@pytest.mark.parametrize("by", [None, "k"])
def test_tables_against_each_window_of_each_key(by):
    draw = campaign.rng(f"empty windows of tables by {by}")
    for _ in range(campaign.tries(150)):
        rows, windows = table(draw, draw.randint(1, 40), 900), shape(draw)
        fills, keep = random_fills(draw, lines=True), draw.choice([None, draw.randint(0, 200)])
        query = {"on": "ts", "by": by, "aggs": AGGS, **windows}
        low, high = sorted(draw.choices(range(-90, 1100), k=2))
        grid = {"start": draw.choice([None, low]), "end": draw.choice([None, high])}
        found = aggregate(rows, **query, empty=fills, keep=keep, **grid).to_pylist()
        plain = aggregate(rows, **query).to_pylist()
        assert found == (filled(plain, windows, fills, keep, grid) if plain else [])


@pytest.mark.parametrize("function", [agg.last("name"), agg.collect("name")])
def test_streams_against_tables(function):
    draw = campaign.rng(f"empty windows of streams: {function}")
    for _ in range(campaign.tries(60)):
        rows, windows = table(draw, draw.randint(1, 40), 900), shape(draw)
        fills = {"v": draw.choice(["null", "last", "zero"]), "name": "last"}
        aggs = {**AGGS, "name": function}
        query = {"on": "ts", "by": "k", "aggs": aggs, **windows}
        query |= {"empty": fills, "keep": draw.randint(0, 200)}
        query |= {"end": draw.choice([None, draw.randrange(1100)])}
        found, first = [], 0
        operator = Aggregate(rows.schema, **query)
        while first < rows.num_rows:
            count = draw.randint(1, 9)
            source = operator.sources[0]
            source.push(rows.slice(first, count))
            first += count
            last = rows["ts"][min(first, rows.num_rows) - 1].as_py()
            if draw.random() < 0.3:
                source.advance(last if first >= rows.num_rows else rows["ts"][first].as_py())
            found += [row for batch in iter(operator.poll, None) for row in batch.to_pylist()]
            if draw.random() < 0.3:
                state = operator.snapshot()
                operator = Aggregate(rows.schema, **query)
                operator.restore(state)
        operator.sources[0].close()
        found += [row for batch in operator for row in batch.to_pylist()]
        assert found == aggregate(rows, **query).to_pylist(), query


def test_a_promise_emits_windows_that_it_has_passed():
    query = {"on": "ts", "size": 10, "by": "k", "aggs": AGGS, "empty": "null", "keep": 30}
    rows = table(campaign.rng("a promise"), 1, 9)
    operator = Aggregate(rows.schema, **query)
    operator.sources[0].push(rows)
    starts = []
    for watermark in (9, 10, 29, 30, 100):
        operator.sources[0].advance(watermark)
        found = [row for batch in iter(operator.poll, None) for row in batch.to_pylist()]
        starts.append([row["window_start"] for row in found])
    assert starts == [[], [0], [10], [20], [30]]
    operator.sources[0].close()
    assert [batch.num_rows for batch in operator] == []


def test_calendar_windows_have_no_window_for_a_day_that_was_skipped():
    days = [dt.datetime(2011, 12, day, 20, tzinfo=dt.UTC) for day in (28, 31)]
    rows = pa.table({"ts": pa.array(days, pa.timestamp("us", "Pacific/Apia"))})
    found = aggregate(rows, on="ts", size="1d", aggs={"n": agg.count()}, empty="null")
    starts = [time.isoformat()[:10] for time in found["window_start"].to_pylist()]
    assert starts == ["2011-12-28", "2011-12-29", "2011-12-31", "2012-01-01"]
    assert found["n"].to_pylist() == [1, 0, 0, 1]


def test_all_calendar_windows_follow_each_other():
    draw = campaign.rng("a grid of calendar windows")
    for zone in ZONES:
        unit = draw.choice(["d", "w", "mo", "q"])
        first = dt.datetime(draw.randint(1980, 2015), 1, 15, tzinfo=dt.UTC)
        rows = pa.table({"ts": [first, first + dt.timedelta(days=3_000)], "k": [1, 1]})
        size = f"{draw.randint(1, 3)}{unit}"
        query = {"on": "ts", "size": size, "zone": zone, "by": "k", "aggs": {"n": agg.count()}}
        found = aggregate(rows, **query, empty="null")
        starts, ends = found["window_start"].to_pylist(), found["window_end"].to_pylist()
        assert len(starts) > 3_000 / 3 / 92
        assert starts[1:] == ends[:-1]
        assert sum(found["n"].to_pylist()) == 2


def test_files_and_the_command(tmp_path):
    rows = table(campaign.rng("files with empty windows"), 40, 900)
    path, out = tmp_path / "rows.parquet", tmp_path / "out.parquet"
    pq.write_table(rows, path, row_group_size=5)
    query = {"on": "ts", "by": "k", "size": 10, "aggs": AGGS, "keep": 50}
    wanted = aggregate(rows, **query, empty={"v": "last", "s": "zero"})
    limited = aggregate(path, **query, empty={"v": "last", "s": "zero"}, memory_limit="256MB")
    assert limited.to_pylist() == wanted.to_pylist()
    given = ["n=count()", "v=mean(v)", "s=sum(w)", "name=last(name)"]
    result = run(
        *("aggregate", str(path), "--on", "ts", "--by", "k", "--size", "10", "-o", str(out)),
        *("--empty", "v=last,s=zero", "--keep", "50"),
        *(part for text in given for part in ("--agg", text)),
    )
    assert result.exit_code == 0, result.output
    assert pq.read_table(out).to_pylist() == wanted.to_pylist()


ROWS = table(campaign.rng("refused"), 3, 30)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"empty": "forward"}, "empty must be one of null, zero, last, linear, got `forward`"),
        ({"empty": {"x": "last"}}, "empty: `x` is not in aggs; name one of the aggregates"),
        ({"empty": {"v": "skip"}}, "empty must be one of null, zero, last, linear, got `skip`"),
        ({"empty": {"name": "zero"}}, "`name` is string, but `zero` needs numbers; write"),
        ({"empty": {"s": "linear"}}, "`s` is int64, but `linear` needs float32 or float64"),
        ({"keep": 9}, "keep needs empty, which adds windows without rows"),
        ({"empty": "null", "keep": -1}, "keep must not be negative"),
        ({"empty": "null", "memory_limit": "256MB"}, "empty needs keep in a stream or a call with"),
        ({"empty": {"v": "linear"}, "keep": 9, "memory_limit": "256MB"}, "`linear` needs the next"),
        ({"start": 9}, "start needs empty, which adds windows without rows"),
        ({"empty": "null", "start": 9, "end": 3}, "start must not be after end"),
        ({"empty": "null", "start": "2026-03-02"}, "start is a time, but column `ts` is int64"),
        (
            {"empty": "null", "keep": 9, "start": 3, "memory_limit": "256MB"},
            "start needs all rows, because the first row of a key may follow much later",
        ),
        ({"empty": "null", "max_rows": 1}, "the result has more rows than max_rows = 1"),
        ({"empty": "null", "size": None, "session": 9}, "empty cannot be combined with session"),
    ],
)
def test_what_is_refused(arguments, message):
    with pytest.raises(TidegateError, match=message):
        aggregate(ROWS, **{"on": "ts", "size": 1, "aggs": AGGS, **arguments})


def test_a_grid_has_the_windows_of_a_day():
    noon = dt.datetime(2026, 3, 2, 12, tzinfo=dt.UTC)
    rows = pa.table({"ts": pa.array([noon], pa.timestamp("us", "UTC")), "v": [1.5]})
    query = {"on": "ts", "size": "6h", "aggs": {"n": agg.count(), "v": agg.last("v")}}
    grid = {"start": "2026-03-02T00:00+00:00", "end": noon.replace(hour=23)}
    found = aggregate(rows, **query, empty="last", **grid)
    assert found["n"].to_pylist() == [0, 0, 1, 0]
    assert found["v"].to_pylist() == [None, None, 1.5, 1.5]
    with pytest.raises(TidegateError, match="end is a time without a time zone, but column `ts`"):
        aggregate(rows, **query, empty="last", end=dt.date(2026, 3, 3))
    with pytest.raises(TypeError, match="start: expected a date, a time, a string such as"):
        aggregate(rows, **query, empty="last", start="noon")


def test_an_operator_needs_to_know_how_long_a_key_lasts():
    with pytest.raises(TidegateError, match='write, for example, keep="1d"'):
        Aggregate(ROWS.schema, on="ts", size=1, aggs=AGGS, empty="null")
    with pytest.raises(
        TypeError, match='empty: expected "skip", "null", "zero", "last" or "linear"'
    ):
        Aggregate(ROWS.schema, on="ts", size=1, aggs=AGGS, empty=0, keep=9)


def test_a_snapshot_is_of_one_way_to_fill():
    query = {"on": "ts", "size": 1, "aggs": AGGS, "keep": 9}
    state = Aggregate(ROWS.schema, **query, empty="last").snapshot()
    with pytest.raises(tg.StateError, match="empty: "):
        Aggregate(ROWS.schema, **query, empty="null").restore(state)


def test_a_plan_shows_the_windows_without_rows():
    shown = tg.explain(tg.aggregate, ROWS, on="ts", size=1, aggs=AGGS, empty={"v": "last"}, keep=9)
    assert (
        "empty      windows up to 9 after a window with rows: n zero, v last, s null, name null"
        in shown
    )
