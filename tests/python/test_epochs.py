"""The argument `unit`: numeric times are converted exactly, or the call fails."""

from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import campaign
import tidegate as tg
import tidegate.polars
from command_line import run
from tidegate import SchemaError, TidegateError

UNITS: dict[Any, int] = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
COUNT = {"n": tg.agg.count()}


def nanoseconds(table: pa.Table, name: str) -> list[int | None]:
    return [None if time is None else int(time) for time in _times(table, name)]


def _times(table: pa.Table, name: str) -> list[Any]:
    times = table[name].cast(pa.timestamp("ns", table.schema.field(name).type.tz))
    return times.cast(pa.int64()).to_pylist()


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("start", [None, "us", "ns"])
def test_numbers_are_converted_exactly(unit, start):
    if start is not None:
        start = np.datetime64("2026-03-02T00:00:00", start) + np.timedelta64(3, start)
    from_ns = 0 if start is None else int(np.datetime64(start, "ns").astype(np.int64))
    for seed in range(campaign.tries(3)):
        rng = np.random.default_rng(seed)
        whole = np.sort(rng.integers(0, 10**9, 50))
        digits = {"s": 10**6, "ms": 10**3, "us": 1, "ns": 1}[unit]
        for values in (whole, whole.astype(np.uint32), whole * digits / digits, whole / digits):
            rows = pa.table({"t": values, "x": np.arange(50)})
            given = unit if start is None else (unit, start)
            found = tg.merge([rows, rows[:0]], on="t", unit=given)
            exact = [Fraction(repr(value)) * UNITS[unit] + from_ns for value in values.tolist()]
            assert nanoseconds(found, "t") == exact
            assert found["x"].equals(rows["x"])
            assert found.schema.field("t").type.tz == ("UTC" if start is None else None)


def test_all_calls(tmp_path):
    seconds = pa.table({"t": [0.5, 1.25, 2.0], "end": [0.75, 3.0, 2.5], "k": [1, 1, 2]})
    times = pa.timestamp("us", "UTC")
    stamped = seconds
    for name in ("t", "end"):
        micros = pa.array([round(value * 1e6) for value in seconds[name].to_pylist()], times)
        stamped = stamped.set_column(seconds.schema.get_field_index(name), name, micros)
    pq.write_table(seconds, tmp_path / "rows.parquet")
    query: dict[str, Any]
    for function, query in (
        (tg.interval_join, {"on": "t", "by": "k", "lower": "-1s", "upper": "1s"}),
        (tg.asof_join, {"on": ("t", "t"), "allow_exact_matches": False}),
        (tg.overlap_join, {"on": ("t", "end")}),
        (tg.overlap_join, {"on": (("t", "t"), ("t", "end"))}),
        (tg.window_join, {"on": "t", "window": "1s"}),
        (tg.band_join, {"on": "k", "within": 1, "time": "t", "window": "1s"}),
    ):
        # A point needs no end, so the right side alone is converted there.
        wanted = function(stamped, stamped, **query).select(["t", "k", "t_right"])
        for given in (seconds, seconds.to_pandas(), pl.from_arrow(seconds), tmp_path):
            found = function(given, seconds, **query, unit="s").select(["t", "k", "t_right"])
            assert found.to_pylist() == wanted.to_pylist()
        batches = getattr(tg, f"{function.__name__}_batches")(seconds, seconds, **query, unit="s")
        found = pa.Table.from_batches(batches, batches.schema).select(["t", "k", "t_right"])
        assert found.to_pylist() == wanted.to_pylist()
        assert function.__name__ in tg.explain(function, seconds, seconds, **query, unit="s")
    windows = {"on": "t", "size": "1s", "aggs": COUNT}
    wanted = tg.aggregate([stamped, stamped], **windows)
    assert tg.aggregate([seconds, stamped], **windows, unit="s").equals(wanted)
    frame = pl.from_arrow(seconds)
    assert isinstance(frame, pl.DataFrame)
    lazy = frame.lazy().tidegate.aggregate(**windows, unit="s").collect()
    assert lazy["n"].to_list() == tg.aggregate(stamped, **windows)["n"].to_pylist()


@pytest.mark.parametrize("of_left", [pa.table, pl.DataFrame, dict])
def test_expressions_and_names_that_look_like_them(of_left):
    rows = {"a t": [1.5, 2.5], "k": [1, 2]}
    right = pa.table({"a t": [1.0], "k": [0]})
    query: dict[str, Any] = {"on": "a t", "by": [("k", tg.row.k + 1)], "unit": "s"}
    found = tg.asof_join(of_left(rows), right, **query)
    assert found["a t_right"].is_valid().to_pylist() == [True, False]
    assert pa.types.is_timestamp(found["a t_right"].type)
    later = tg.interval_join(of_left(rows), right, on="a t", lower="-1s", upper="0s", unit="s")
    assert later["k"].to_pylist() == [1]


def test_nulls_and_times_without_a_zone():
    rows = pa.table({"s": [0.5, None], "e": [None, 2.0], "x": [1, 2]})
    other = pa.table(
        {"s": pa.array([0], pa.timestamp("ms")), "e": pa.array([9], pa.timestamp("s"))}
    )
    query: dict[str, Any] = {"on": ("s", "e"), "unit": "s", "open_ends": True}
    found = tg.overlap_join(rows, other, **query)
    assert found["x"].to_pylist() == [1, 2]
    assert found.schema.field("s").type == pa.timestamp("us")


@pytest.mark.parametrize(
    ("rows", "unit", "error", "message"),
    [
        ({"t": [0.1234567]}, "s", TidegateError, r"row 0: 0.1234567 s is not a whole number of us"),
        ({"t": [float("nan")]}, "ms", TidegateError, "nan ms is not a whole number of us; round"),
        ({"t": [1e300]}, "ns", TidegateError, "is not a whole number of ns"),
        ({"t": np.array([2**62])}, "s", TidegateError, "a time does not fit timestamp"),
        ({"t": [1]}, "min", TypeError, "unit: expected one of 's', 'ms', 'us', 'ns', or a pair"),
        ({"t": [1]}, ("s", "2026"), TypeError, "unit: expected a datetime as the start"),
        (
            {"t": np.array([0], "datetime64[s]")},
            "s",
            SchemaError,
            "no time column contains numbers",
        ),
        ({"u": [1]}, "s", SchemaError, "no time column contains numbers"),
    ],
)
def test_messages(rows, unit, error, message):
    with pytest.raises(error, match=message):
        tg.aggregate(rows, on="t", size="1s", aggs=COUNT, unit=unit)


def test_the_message_has_the_line_that_rounds():
    frame = pd.DataFrame({"t": [0.1234567]})
    with pytest.raises(TidegateError) as raised:
        tg.merge([frame], on="t", unit="s")
    line = str(raised.value).partition("write ")[2]
    rounded = eval(line, {"streams": frame, "pandas": pd})  # noqa: S307 - a line of this package
    assert tg.merge([rounded], on="t").num_rows == 1


def test_calls_that_do_not_read_whole_inputs():
    rows = pa.table({"t": [1]})
    with pytest.raises(TidegateError, match="unit: inputs are read in full"):
        tg.merge([rows], on="t", unit="s", memory_limit="1GB")
    with pytest.raises(SchemaError, match="the times of an index cannot be converted"):
        tg.asof_join(rows, tg.Index(rows, on="t"), on="t", unit="s")
    with pytest.raises(TypeError, match="tasks: unit applies to a whole call"):
        tg.tasks(tg.asof_join, "a.parquet", "b.parquet", on="t", unit="s")


# The command, which converts times in files of any format


STEPS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@pytest.mark.parametrize("ending", ["parquet", "arrows", "jsonl", "csv"])
@pytest.mark.parametrize("limit", [[], ["--memory-limit", "256MB"]])
def test_the_command_reads_numbers_as_times(tmp_path, monkeypatch, ending, limit):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(campaign.SEED)
    seconds = np.sort(rng.integers(0, 10**9, 30))
    for name, unit in (("left", "ms"), ("right", "s")):
        rows = pa.table({"t": seconds * STEPS[unit], name: np.arange(30)})
        kind = "parquet" if ending in {"arrows", "jsonl"} and name == "right" else ending
        pq.write_table(rows, f"{name}.parquet")
        if kind != "parquet":
            assert (
                run("merge", f"{name}.parquet", "--on", "t", "-o", f"{name}.{kind}").exit_code == 0
            )
            (tmp_path / f"{name}.parquet").unlink()
    files = sorted(str(path.name) for path in tmp_path.iterdir())
    units = ["--epoch-unit", "ms", "--epoch-unit", "s"]
    query = ["--on", "t", "--lower", "-1d", "--upper", "0s", "-o", "out.parquet", "--force"]
    assert run("join", *files, *query, *units, *limit).exit_code == 0
    found = pq.read_table("out.parquet")
    pairs = [(a, b) for a in range(30) for b in range(30) if 0 <= seconds[a] - seconds[b] <= 86400]
    assert list(zip(*found.select(["left", "right"]).to_pydict().values(), strict=True)) == pairs
    assert {str(one) for one in nanoseconds(found, "t")} == {f"{one}000000000" for one in seconds}
    windows = ["--on", "t", "--size", "1d", "--agg", "n=count()", "-o", "days.parquet", "--force"]
    assert run("aggregate", files[0], *windows, *units[:2], *limit).exit_code == 0
    days = pq.read_table("days.parquet")
    assert days.schema.field("window_start").type.tz == "UTC"
    assert sum(days["n"].to_pylist()) == 30


def test_the_command_merges_and_indexes_numbers_as_times(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"t": [1000, 4000], "e": [2000, 5000]}), "a.parquet")
    (tmp_path / "b.csv").write_text("t,e\n3000,3500\n")
    given = ["--on", "t", "--epoch-unit", "ms", "--format", "csv"]
    result = run("merge", "a.parquet", "b.csv", *given, "--columns", "t")
    assert result.exit_code == 2
    result = run("merge", "a.parquet", "b.csv", *given)
    assert [line[:20] for line in result.stdout.splitlines()[1:]] == [
        f"1970-01-01T00:00:0{second}Z" for second in (1, 3, 4)
    ]
    for name in ("a.parquet", "b.csv"):
        index = ["index", name, "--on", "t,e", "--epoch-unit", "ms", "-o", f"{name}.index"]
        assert run(*index).exit_code == 0
        times = tg.open_index(f"{name}.index").time_range
        assert times is not None
        assert pa.types.is_timestamp(times[0].type)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--size", "1h"], "if the integers count time since 1970, give their unit: --epoch-unit"),
        (["--size", "1h", "--epoch-unit", "ms"], "row 1: 2.0001 ms is not a whole number of us"),
        (
            ["--size", "1h", "--epoch-unit", "ms", "--follow"],
            "--epoch-unit cannot convert the times of an Arrow stream with --follow",
        ),
    ],
)
def test_messages_of_the_command(tmp_path, monkeypatch, options, said):
    monkeypatch.chdir(tmp_path)
    values = [1, 2] if "--epoch-unit" not in options else [1.0, 2.0001]
    rows = pa.table({"t": values})
    if "--follow" in options:
        with pa.OSFile("t.arrows", "wb") as file, pa.ipc.new_stream(file, rows.schema) as writer:
            writer.write_table(rows)
    else:
        pq.write_table(rows, "t.parquet")
    [name] = tmp_path.iterdir()
    query = ["--on", "t", "--agg", "n=count()", "--format", "csv"]
    result = run("aggregate", name.name, *query, *options)
    assert result.exit_code == 1
    assert said in result.stderr


def test_numbers_beside_times_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"t": [1]}), "a.parquet")
    pq.write_table(pa.table({"t": pa.array([1], pa.timestamp("s", "UTC"))}), "b.parquet")
    for files in (["a.parquet", "b.parquet"], ["b.parquet", "a.parquet"]):
        said = run("asof", *files, "--on", "t", "--format", "csv").stderr
        assert "an integer and a time cannot be compared" in said
        assert said.strip().endswith("give their unit: --epoch-unit ms (or s, us, ns)")
    pq.write_table(pa.table({"t": [10**13]}), "far.parquet")
    for layout in ("csv", "jsonl"):
        given = ["--on", "t", "--epoch-unit", "s", "-o", f"out.{layout}"]
        said = run("merge", "far.parquet", *given).stderr
        assert (
            "column `t`: the value 10000000000000 of type timestamp[s, tz=UTC] is too far" in said
        )
