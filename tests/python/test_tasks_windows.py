"""Windows that may need rows or windows from other slices, divided into tasks."""

import datetime as dt
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import campaign
import tidegate as tg
from test_tasks import assert_same_rows, results, written
from test_tasks_last_rows import divided
from test_tasks_sessions import AGGS, rows

SEEDS = range(campaign.tries(2))
SPAN = 400
KINDS = [pa.int64(), pa.timestamp("us", "UTC"), pa.timestamp("s")]


def many(chance: random.Random, kind: pa.DataType, *, in_order: bool) -> pa.Table:
    """Draw at least 60 rows."""
    found = rows(chance, kind, in_order=in_order)
    return found if len(found) >= 60 else many(chance, kind, in_order=in_order)


def unit_of(kind: pa.DataType) -> str:
    return "" if pa.types.is_integer(kind) else kind.unit


def length(kind: pa.DataType, number: int) -> Any:
    return number if unit_of(kind) == "" else f"{number}{unit_of(kind)}"


def of_rows(chance: random.Random, _kind: pa.DataType) -> dict[str, Any]:
    size = chance.choice([1, 2, 7, 40])
    advance = {} if chance.random() < 0.4 else {"advance": tg.rows(chance.choice([1, 3, 9, 60]))}
    return {"size": tg.rows(size), **advance}


def of_list(chance: random.Random, kind: pa.DataType) -> dict[str, Any]:
    starts = [chance.randrange(-20, SPAN) for _ in range(chance.choice([0, 1, 30]))]
    ends = [start + chance.choice([0, 1, 9, 90]) for start in starts]
    windows = pa.table(
        {
            "window_start": pa.array(starts, pa.int64()).cast(kind),
            "window_end": pa.array(ends, pa.int64()).cast(kind),
        }
    )
    if chance.random() < 0.5:
        keys = pa.array([chance.choice(["a", "b", None]) for _ in starts], pa.string())
        windows = windows.append_column("k", keys)
    return {"windows": windows}


def of_time(chance: random.Random, kind: pa.DataType) -> dict[str, Any]:
    given = filled(chance, kind)
    del given["empty"], given["keep"]
    bounds = {"start", "end"}
    return {name: value for name, value in given.items() if name not in bounds}


def filled(chance: random.Random, kind: pa.DataType) -> dict[str, Any]:
    size, advance = chance.choice([(2, 2), (10, 10), (9, 3), (3, 8)])
    fill: Any = chance.choice(["null", "last", {"sum": "linear", "n": "last", "last": "last"}])
    given = {
        "size": length(kind, size),
        "closed": chance.choice([None, "right"]),
        "empty": fill,
        "keep": chance.choice([None, length(kind, 25)]),
    }
    if size == advance and chance.random() < 0.7:
        given["step"] = length(kind, max(1, size // 3))
    else:
        given["advance"] = length(kind, advance)
    if chance.random() < 0.4:
        given |= {"start": time(kind, -30), "end": time(kind, SPAN + 30)}
    return given


def time(kind: pa.DataType, number: int) -> Any:
    if pa.types.is_integer(kind):
        return number
    scale = {"us": 1, "s": 1_000_000}[kind.unit]
    zone = dt.UTC if kind.tz else None
    return dt.datetime(1970, 1, 1, tzinfo=zone) + dt.timedelta(microseconds=number * scale)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "windows", [of_time, of_rows, of_list, filled], ids=lambda one: one.__name__
)
def test_tasks_return_the_windows_of_the_call(windows, seed, tmp_path):
    chance = campaign.rng(f"{windows.__name__} by tasks {seed}")
    kind = chance.choice(KINDS)
    streams = [
        many(chance, kind, in_order=chance.random() < 0.7) for _ in range(chance.choice([1, 2]))
    ]
    paths = [written(table, tmp_path / str(at), chance) for at, table in enumerate(streams)]
    (tmp_path / "scratch").mkdir()
    for slices in (chance.choice([1, 5]), 12):
        arguments = {
            "on": "ts",
            "by": chance.choice([None, "k", "z", ["k", "z"]]),
            **windows(chance, kind),
            "aggs": AGGS,
            "where": chance.choice([None, None, "x < 0.7"]),
        }
        whole = tg.aggregate(paths, **arguments)
        plan = divided(
            chance, tmp_path / "scratch", tg.aggregate, paths, slices=slices, **arguments
        )
        parts = results(plan)
        assert_same_rows(plan, parts, whole)
        assert tg.digest(pa.concat_tables(parts)) == tg.digest(whole)


@pytest.mark.parametrize("seed", SEEDS)
def test_tasks_return_the_rows_of_rolling_windows(seed, tmp_path):
    chance = campaign.rng(f"rolling by tasks {seed}")
    kind, in_order = chance.choice(KINDS), chance.random() < 0.7
    table = many(chance, kind, in_order=in_order)
    path = written(table, tmp_path / "rows", chance)
    (tmp_path / "scratch").mkdir()
    for slices in (5, 12):
        size = chance.choice([length(kind, chance.choice([1, 9, 80])), tg.rows(1), tg.rows(6)])
        arguments = {
            "on": "ts",
            "by": chance.choice([None, "k", "z", ["k", "z"]]),
            "size": size,
            "closed": chance.choice(["left", "right", "both", "neither"]),
            "columns": chance.choice([None, ["x"], ["y", "ts"]]),
            "aggs": {f"{name}_": one for name, one in AGGS.items()},
        }
        # The times in Parquet files have a finer unit, which affects the last bits of floats.
        whole = tg.rolling(path, **arguments)
        plan = divided(chance, tmp_path / "scratch", tg.rolling, path, slices=slices, **arguments)
        parts = results(plan)
        assert_same_rows(plan, parts, whole)
        if in_order:
            assert tg.digest(pa.concat_tables(parts)) == tg.digest(whole)


@pytest.fixture
def rare(tmp_path):
    """Write the rows of a frequent key, and of one whose two rows are at the ends."""
    (tmp_path / "rows").mkdir()
    (tmp_path / "scratch").mkdir()
    at = np.arange(2000)
    table = pa.table({"ts": at, "k": np.where((at == 3) | (at == 1996), 1, 0), "x": at / 7})
    pq.write_table(table, tmp_path / "rows" / "0.parquet", row_group_size=20)
    return str(tmp_path / "rows")


@pytest.mark.parametrize(
    ("function", "windows"),
    [
        (tg.aggregate, {"size": tg.rows(2)}),
        (tg.aggregate, {"size": 5, "empty": "linear"}),
        (tg.rolling, {"size": tg.rows(2)}),
    ],
)
def test_rows_pass_through_two_levels_of_merges(rare, tmp_path, function, windows):
    query = {"on": "ts", "by": "k", **windows, "aggs": {"sum": tg.agg.sum("x")}}
    plan = divided(campaign.rng("levels"), tmp_path / "scratch", function, rare, slices=35, **query)
    assert len(plan.stages) == 4
    assert len(plan.tasks) > 32
    assert pa.concat_tables(results(plan)).equals(function(rare, **query))
    (folder,) = (tmp_path / "scratch").iterdir()
    assert f"{len([*folder.iterdir()])} files" in plan.explain()
    with pytest.raises(tg.TidegateError, match="give scratch, an existing folder"):
        tg.tasks(function, rare, target=8000, **query)


def test_windows_of_other_slices_are_not_computed_again(rare):
    query = tg._tidegate.AggregationQuery(on="ts", size=5, by="k", aggs={"n": tg.agg.count()})
    windows = query.table([pq.read_table(rare)])
    whole = query.replace(empty="zero")
    some = whole.filled(windows, [pq.read_schema(f"{rare}/0.parquet")], first=500, last=599)
    every = whole.table([pq.read_table(rare)])
    starts = every["window_start"].to_numpy()
    assert some.equals(every.filter(pa.array((starts >= 500) & (starts <= 599))))
    assert len(some) == 40
    with pytest.raises(tg.SchemaError, match="windows: expected the columns"):
        whole.filled(windows.drop_columns("n"), [pq.read_schema(f"{rare}/0.parquet")])


def test_tasks_with_windows_of_a_table_read_only_their_rows(rare):
    windows = {"window_start": [100, 1500], "window_end": [120, 1510]}
    query = {"on": "ts", "windows": pa.table(windows), "aggs": {"n": tg.agg.count()}}
    plan = tg.tasks(tg.aggregate, rare, target=3000, **query)
    assert sum(task.rows for task in plan.tasks) <= 60
    assert [n for part in results(plan) for n in part["n"].to_pylist()] == [20, 10]
    again = tg.tasks(tg.aggregate, rare, target=3000, **query)
    assert again.tasks[0].name == plan.tasks[0].name
    other = {**query, "windows": pa.table({**windows, "window_end": [120, 1511]})}
    assert tg.tasks(tg.aggregate, rare, target=3000, **other).tasks[0].name != plan.tasks[0].name
