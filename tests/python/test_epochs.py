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
