"""Windows that begin at the same time and grow by a step, compared with a loop."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate as tg
from command_line import run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AGGS = {
    "n": tg.agg.count(),
    "sum": tg.agg.sum("x"),
    "last": tg.agg.last("x"),
    "top": tg.agg.top("x", 2),
}
STATES = {name: AGGS[name] for name in ("n", "sum", "last")}


def expected(
    rows: list[dict[str, Any]], panes: Iterator[tuple[Any, list[Any]]]
) -> list[dict[str, Any]]:
    """Return the results of windows, given the start and the ends of those of each block."""
    found = []
    for start, ends in panes:
        for end in ends:
            inside = [row for row in rows if start <= row["ts"] < end]
            for key in sorted({row["k"] for row in inside}):
                values = [row["x"] for row in inside if row["k"] == key]
                result = {"n": len(values), "sum": sum(values), "last": values[-1]}
                result["top"] = sorted(values, reverse=True)[:2]
                found.append({"window_start": start, "window_end": end, "k": key, **result})
    return found


@pytest.mark.parametrize("seed", range(4))
def test_running_totals_are_those_of_a_loop(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)  # noqa: S311 - test data
    span = draw.choice([30, 300, 3000])
    times = sorted(draw.randrange(-span, span) for _ in range(60))
    rows = [{"ts": ts, "k": draw.randrange(3), "x": draw.randrange(99)} for ts in times]
    size, offset = draw.randrange(1, 40), draw.randrange(-50, 50)
    step = draw.randrange(1, size + 1)
    panes = (
        (start, [min(end, start + size) for end in range(start + step, start + size + step, step)])
        for start in range(-200 * size + offset, 200 * size, size)
        if -span - size < start < span
    )
    wanted = expected(rows, panes)
    options: dict[str, Any] = {"on": "ts", "size": size, "step": step, "offset": offset, "by": "k"}
    table = pa.Table.from_pylist(rows)
    for threads in (1, 3):
        found = tg.aggregate(table, aggs=AGGS, threads=threads, **options)
        assert found.to_pylist() == wanted
    split = [table.slice(0, 20), table.slice(20)]
    assert tg.aggregate(split, aggs=AGGS, **options).to_pylist() == wanted
    without = [{name: row[name] for name in row if name != "top"} for row in wanted]
    for algorithm in ("mq", "tumlmc", "wiml"):
        found = tg.aggregate(split, aggs=STATES, algorithm=algorithm, **options)
        assert found.to_pylist() == without
    # A stream, with a snapshot in the middle, for states and for kept rows.
    for aggs, results in ((STATES, without), (AGGS, wanted)):
        got = []
        operator = tg.Aggregate(table.schema, aggs=aggs, **options)
        for start in range(0, len(table), 7):
            operator.sources[0].push(table.slice(start, 7))
            got += [row for batch in iter(operator.poll, None) for row in batch.to_pylist()]
            if start == 21:
                state = operator.snapshot()
                operator = tg.Aggregate(table.schema, aggs=aggs, **options)
                operator.restore(state)
        operator.sources[0].close()
        got += [row for batch in operator for row in batch.to_pylist()]
        assert got == results
    pq.write_table(table, tmp_path / "rows.parquet")
    found = tg.aggregate(tmp_path / "rows.parquet", aggs=AGGS, memory_limit="256MB", **options)
    assert found.to_pylist() == wanted


@pytest.mark.parametrize("fill", ["null", "zero", "last"])
def test_windows_without_rows_grow_as_well(fill: str) -> None:
    draw = random.Random(fill)  # noqa: S311 - test data
    rows = [{"ts": draw.randrange(-90, 90), "k": draw.randrange(3)} for _ in range(12)]
    rows.sort(key=lambda row: row["ts"])
    blocks = [(start, [start + 4, start + 8, start + 10]) for start in range(-97, 100, 10)]
    wanted = []
    for key in {row["k"] for row in rows}:
        mine = [row["ts"] for row in rows if row["k"] == key]
        before = None
        for start, ends in blocks:
            for end in ends:
                n = sum(start <= ts < end for ts in mine)
                if not n and (before is None or end > mine[-1]):
                    continue
                empty = {"null": None, "zero": 0, "last": before}[fill]
                before = n or before
                wanted.append((start, end, key, n or empty))
    options: dict[str, Any] = {"on": "ts", "size": 10, "step": 4, "offset": 3, "by": "k"}
    options |= {"empty": fill, "aggs": {"n": tg.agg.sum("one")}}
    table = pa.Table.from_pylist([row | {"one": 1} for row in rows])
    found = tg.aggregate(table, **options)
    assert [tuple(row.values()) for row in found.to_pylist()] == sorted(wanted)
    # An operator has the same windows if keys continue long enough, and later ones.
    whole = tg.aggregate(table, keep=60, **options)
    with tg.Aggregate(table.schema, keep=60, **options) as operator:
        for start in range(0, len(table), 5):
            operator.sources[0].push(table.slice(start, 5))
        operator.sources[0].close()
        assert pa.Table.from_batches(operator).equals(whole)


def test_values_between_windows_that_grow_are_interpolated_by_their_ends() -> None:
    table = pa.table({"ts": [1, 31], "x": [1.0, 6.0]})
    found = tg.aggregate(
        table, on="ts", size=10, step=5, empty="linear", aggs={"x": tg.agg.mean("x")}
    )
    assert found["window_end"].to_pylist() == [5, 10, 15, 20, 25, 30, 35, 40]
    assert found["x"].to_pylist() == [1.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 6.0]


@pytest.mark.parametrize(
    ("size", "step"), [("1mo", "1d"), ("1q", "1mo"), ("1d", "6h"), ("1w", "1d"), ("1mo", "10d")]
)
def test_running_totals_of_calendar_windows_follow_the_time_zone(size: str, step: str) -> None:
    zone = ZoneInfo("Europe/Berlin")
    draw = random.Random(size + step)  # noqa: S311 - test data
    first = datetime(2026, 1, 1, tzinfo=UTC)
    times = sorted(first + timedelta(minutes=draw.randrange(200 * 1440)) for _ in range(50))
    rows = [{"ts": ts, "k": draw.randrange(2), "x": draw.randrange(99)} for ts in times]

    def day(year: int, month: int, number: int = 1) -> datetime:
        return datetime(year + (month - 1) // 12, (month - 1) % 12 + 1, number, tzinfo=zone)

    def later(start: datetime, length: str) -> datetime:
        count, unit = int(length.rstrip("moqdwh")), length.lstrip("0123456789")
        if unit == "h":
            return (start.astimezone(UTC) + timedelta(hours=count)).astimezone(zone)
        if unit in ("mo", "q"):
            return day(start.year, start.month + count * (3 if unit == "q" else 1))
        return start + timedelta(days=count * (7 if unit == "w" else 1))

    def panes() -> Iterator[tuple[Any, list[Any]]]:
        start = datetime(2025, 12, 29, tzinfo=zone) if size == "1w" else day(2025, 10)
        while start < day(2026, 9):
            next_start = later(start, size)
            ends = [later(start, step)]
            while ends[-1] < next_start:
                ends.append(later(ends[-1], step))
            yield start, [*ends[:-1], next_start]
            start = next_start

    schema = pa.schema([("ts", pa.timestamp("us", "Europe/Berlin")), ("k", "int8"), ("x", "int64")])
    table = pa.Table.from_pylist(rows, schema)
    found = tg.aggregate(table, on="ts", size=size, step=step, by="k", aggs=AGGS)
    assert found.to_pylist() == expected(rows, panes())
    with tg.Aggregate(schema, on="ts", size=size, step=step, by="k", aggs=STATES) as operator:
        operator.sources[0].push(table)
        operator.sources[0].close()
        assert pa.Table.from_batches(operator).equals(found.drop_columns("top"))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"step": 20}, "step must not be longer than size"),
        ({"step": 0}, "step must be greater than 0, got 0"),
        ({"step": 5, "advance": 5}, "step cannot be combined with advance"),
        ({"step": 5, "size": None, "session": 5}, "step cannot be combined with session"),
        ({"step": 5, "size": tg.rows(5)}, "step cannot be combined with a number of rows"),
    ],
)
def test_an_invalid_step_is_refused(more: dict[str, Any], message: str) -> None:
    options: dict[str, Any] = {"on": "ts", "size": 10, "aggs": {"n": tg.agg.count()}, **more}
    with pytest.raises((TypeError, tg.TidegateError), match=message):
        tg.aggregate(pa.table({"ts": [1]}), **options)


def test_the_command_accepts_a_step(tmp_path: Path) -> None:
    pq.write_table(pa.table({"ts": [1, 7, 12]}), tmp_path / "rows.parquet")
    flags = ["--on", "ts", "--size", "10", "--step", "5", "--agg", "n=count()"]
    result = run("aggregate", str(tmp_path / "rows.parquet"), *flags, "--format", "csv")
    assert result.stdout.splitlines()[1:] == ["0,5,1", "0,10,2", "10,15,1", "10,20,1"]
