"""A duration has the same meaning in every argument that accepts one, whatever its type."""

import datetime as dt
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tidegate as tg
from tidegate import agg, left, right

START = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - naive
TIMES = [START + dt.timedelta(seconds=at) for at in range(20)]
TABLE = pa.table({"ts": pa.array(TIMES, pa.timestamp("us")), "x": range(20)})
ENDS = TABLE.append_column("end", TABLE["ts"])
COUNT = {"n": agg.count()}


class Seconds(dt.timedelta):
    """A duration stored only in attributes; the base class fields are 0, as in older pandas."""

    def __new__(cls, count: int) -> Self:
        found = super().__new__(cls)
        found.count = count
        return found

    days = property(lambda _: 0)
    seconds = property(lambda self: self.count)
    microseconds = property(lambda _: 0)


DURATIONS = [
    Seconds(5),
    pd.Timedelta(seconds=5),
    *(pd.Timedelta(seconds=5).as_unit(unit) for unit in ("s", "ms", "us")),
    pd.Timestamp("2026-01-01 00:00:05") - pd.Timestamp("2026-01-01"),
    pd.Series(TIMES[:6:5], dtype="datetime64[ms]").diff().max(),
    pd.offsets.Second(5),
    *(np.timedelta64(5, "s").astype(f"timedelta64[{unit}]") for unit in ("s", "ms", "us", "ns")),
]


def pushed_out_of_order(lateness: Any) -> pa.Table:
    merge = tg.Merge(TABLE.schema, lateness=lateness)
    merge.sources[0].push(TABLE.take([8, 3, 2, 9]))
    merge.sources[0].close()
    return pa.Table.from_batches(list(merge))


CALLS: dict[str, Callable[[Any], Any]] = {
    "lower": lambda w: tg.interval_join(TABLE, TABLE, on="ts", lower=w, upper=None),
    "upper": lambda w: tg.interval_join(TABLE, TABLE, on="ts", lower=None, upper=w),
    "window": lambda w: tg.window_join(TABLE, TABLE, on="ts", window=(w, w)),
    "within": lambda w: tg.band_join(TABLE, TABLE, on=["ts", "x"], within=[w, 9]),
    "tolerance": lambda w: tg.asof_join(TABLE, TABLE.slice(0, 3), on="ts", tolerance=w),
    "size": lambda w: tg.aggregate(TABLE, on="ts", size=w, aggs=COUNT),
    "advance": lambda w: tg.aggregate(TABLE, on="ts", size="10s", advance=w, aggs=COUNT),
    "offset": lambda w: tg.aggregate(TABLE, on="ts", size="10s", offset=w, aggs=COUNT),
    "session": lambda w: tg.aggregate(TABLE.take([0, 1, 7, 19]), on="ts", session=w, aggs=COUNT),
    "min_overlap": lambda w: tg.overlap_join(ENDS, ENDS, on=("ts", "end"), min_overlap=w),
    "lateness of tables": lambda w: tg.merge([TABLE.take([6, 1, 8])], on="ts", lateness=w),
    "lateness of a source": pushed_out_of_order,
    "a list of lateness": lambda w: pushed_out_of_order([w]),
}
LITERALS: dict[str, Callable[[Any], Any]] = {
    "an end": lambda w: tg.interval_join(TABLE, TABLE, on="ts", lower=left.ts + w, upper=None),
    "where": lambda w: tg.window_join(
        TABLE, TABLE, on="ts", window="1h", where=right.ts - left.ts == w
    ),
}


@pytest.mark.parametrize("given", DURATIONS, ids=lambda one: f"{type(one).__name__}-{one!r}")
@pytest.mark.parametrize("name", CALLS)
def test_a_duration_of_any_type_is_as_long(name, given):
    assert CALLS[name](given).equals(CALLS[name](dt.timedelta(seconds=5)))


@pytest.mark.parametrize("given", [one for one in DURATIONS if not hasattr(one, "is_on_offset")])
@pytest.mark.parametrize("name", LITERALS)
def test_a_literal_in_an_expression_is_as_long(name, given):
    found = LITERALS[name](given)
    assert found.equals(LITERALS[name](dt.timedelta(seconds=5)))
    assert found.num_rows > 0


@pytest.mark.parametrize("given", [Seconds(5), pd.Timedelta(seconds=5).as_unit("s")])
def test_a_pushed_length_is_as_long(given):
    merge = tg.Merge(pa.schema({"ts": pa.int64(), "length": pa.duration("us")}))
    merge.sources[0].push([{"ts": 0, "length": given}])
    merge.sources[0].close()
    assert pa.Table.from_batches(list(merge))["length"].to_pylist() == [dt.timedelta(seconds=5)]


def test_nanoseconds_are_kept():
    ticks = pa.table({"ts": pa.array([0, 1, 2], pa.timestamp("ns"))})
    for tick in (pd.Timedelta(1, "ns"), np.timedelta64(1, "ns")):
        assert tg.interval_join(ticks, ticks, on="ts", lower=tick, upper=tick).num_rows == 2
        assert (
            tg.interval_join(ticks, ticks, on="ts", lower=left.ts + tick, upper=None).num_rows == 3
        )


@pytest.mark.parametrize("given", [pd.NaT, np.timedelta64("NaT"), np.timedelta64("NaT", "s")])
def test_no_length_is_refused(given):
    with pytest.raises(tg.TidegateError, match=r"^lower: NaT is not a duration; give None"):
        tg.interval_join(TABLE, TABLE, on="ts", lower=given, upper=None)


@pytest.mark.parametrize(
    "given", [np.array([5, 6]), pd.Series([5]), np.array([5], "m8[s]"), pd.NA, pd.Timestamp(5)]
)
def test_several_lengths_and_other_objects_are_refused(given):
    with pytest.raises(TypeError, match=r"^lower: expected a timedelta, a string such as .*; got"):
        tg.interval_join(TABLE, TABLE, on="ts", lower=given, upper=None)
