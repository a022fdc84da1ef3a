"""Windows that contain their ends instead of their starts, compared with a loop."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl
import pyarrow as pa
import pytest

import tidegate as tg
from command_line import run

STATES = {"n": tg.agg.count(), "sum": tg.agg.sum("x"), "last": tg.agg.last("x")}
AGGS = {**STATES, "held": tg.agg.time_weighted_mean("x"), "all": tg.agg.collect("x")}


def held(rows: list[dict[str, Any]], end: int) -> float:
    """Return the mean of values that hold until the next row, or until the end."""
    ends = [row["ts"] for row in rows[1:]] + [end]
    spans = [until - row["ts"] for row, until in zip(rows, ends, strict=True)]
    values = [row["x"] for row in rows]
    if not sum(spans):
        return values[-1]
    return sum(x * span for x, span in zip(values, spans, strict=True)) / sum(spans)


@pytest.mark.parametrize("seed", range(4))
def test_windows_that_contain_their_ends_are_those_of_a_loop(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - test data
    times = sorted(draw.randrange(-60, 60) for _ in range(50))
    rows = [{"ts": ts, "k": draw.randrange(2), "x": draw.randrange(9)} for ts in times]
    size, offset = draw.randrange(1, 20), draw.randrange(-9, 9)
    advance = draw.choice([size, draw.randrange(1, 25)])
    wanted = []
    for start in range(-100 * advance + offset, 100 * advance, advance):
        inside = [row for row in rows if start < row["ts"] <= start + size]
        for key in sorted({row["k"] for row in inside}):
            mine = [row for row in inside if row["k"] == key]
            values = [row["x"] for row in mine]
            result = {"n": len(mine), "sum": sum(values), "last": values[-1], "all": values}
            result["held"] = held(mine, start + size)
            window = {"window_start": start, "window_end": start + size, "k": key}
            wanted.append({**window, **{name: result[name] for name in AGGS}})
    options: dict[str, Any] = {"on": "ts", "size": size, "advance": advance, "offset": offset}
    options |= {"by": "k", "closed": "right"}
    table = pa.Table.from_pylist(rows)
    found = tg.aggregate(table, aggs=AGGS, **options)
    approximate = [row | {"held": pytest.approx(row["held"])} for row in wanted]
    assert found.to_pylist() == approximate
    # A stream emits the same rows, each as soon as its window is complete.
    for aggs in (STATES, AGGS):
        plain = found.select(["window_start", "window_end", "k", *aggs]).to_pylist()
        got = []
        with tg.Aggregate(table.schema, aggs=aggs, **options) as operator:
            [source] = operator.sources
            for start in range(0, len(table), 7):
                source.push(table.slice(start, 7))
                watermark = [*times, 99][start + 7 : start + 8] or [99]
                source.advance(watermark[0])
                got += [row for batch in iter(operator.poll, None) for row in batch.to_pylist()]
                passed = [row for row in plain if row["window_end"] < watermark[0]]
                assert got[: len(passed)] == passed
            source.close()
            got += [row for batch in operator for row in batch.to_pylist()]
        assert got == plain


def test_calendar_windows_can_contain_their_ends() -> None:
    zone = ZoneInfo("Europe/Berlin")
    first = datetime(2026, 3, 27, tzinfo=zone)
    times = [first + timedelta(hours=6 * at) for at in range(20)]
    table = pa.table({"ts": pa.array(times, pa.timestamp("us", "Europe/Berlin"))})
    options: dict[str, Any] = {"on": "ts", "size": "1d", "aggs": {"n": tg.agg.count()}}
    found = tg.aggregate(table, closed="right", **options)
    polars = pl.from_arrow(table).group_by_dynamic("ts", every="1d", closed="right").agg(n=pl.len())
    assert found["window_start"].to_pylist() == polars["ts"].to_list()
    assert found["n"].to_pylist() == polars["n"].to_list()
    filled = tg.aggregate(table.take([0, 19]), closed="right", empty="zero", **options)
    assert filled["window_start"].to_pylist() == found["window_start"].to_pylist()
    with tg.Aggregate(table.schema, closed="right", empty="zero", keep="1h", **options) as operator:
        operator.sources[0].push(table)
        operator.sources[0].close()
        assert pa.Table.from_batches(operator).equals(found)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"closed": "both"}, "closed must be one of left, right"),
        ({"closed": "right", "size": None, "session": 5}, "closed cannot be combined with session"),
        (
            {"closed": "right", "size": tg.rows(5)},
            "closed cannot be combined with a number of rows",
        ),
    ],
)
def test_an_end_that_windows_cannot_include_is_refused(more: dict[str, Any], message: str) -> None:
    options: dict[str, Any] = {"on": "ts", "size": 10, "aggs": {"n": tg.agg.count()}, **more}
    with pytest.raises((TypeError, tg.TidegateError), match=message):
        tg.aggregate(pa.table({"ts": [1]}), **options)


def test_the_command_closes_windows_on_the_right(tmp_path: Any) -> None:
    (tmp_path / "rows.csv").write_text("ts\n10\n11\n20\n")
    flags = ["--on", "ts", "--size", "10", "--closed", "right", "--agg", "n=count()"]
    result = run("aggregate", str(tmp_path / "rows.csv"), *flags, "--format", "csv")
    assert result.stdout.splitlines()[1:] == ["0,10,1", "10,20,2"]
