"""Rows without a start or an end, and starts and ends from expressions: the same rows as a loop."""

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import campaign
import spark_session
import tidegate as tg
import tidegate.polars
import tidegate.spark
from command_line import run
from tidegate import SchemaError, TidegateError, interval_join, left, overlap_join, row

Row = dict[str, Any]
LEAST, MOST = -(10**9), 10**9


def table(rng: np.random.Generator, count: int, name: str) -> pa.Table:
    """Create rows, some of which have no start, no end or neither."""
    start = rng.integers(0, 60, count)
    length = rng.integers(0, 9, count)
    return pa.table(
        {
            "start": pa.array(start, mask=rng.random(count) < 0.2),
            "end": pa.array(start + length, mask=rng.random(count) < 0.2),
            "length": length,
            "k": pa.array(rng.integers(0, 3, count), mask=rng.random(count) < 0.1),
            name: np.arange(count),
        }
    )


def tables(seed: int) -> tuple[pa.Table, pa.Table]:
    rng = np.random.default_rng(seed)
    return table(rng, 40, "l"), table(rng, 50, "r")


def overlap(one: Row, other: Row, *, closed: str, least: int = 0) -> bool:
    if one["k"] is None or one["k"] != other["k"]:
        return False
    starts, ends = (
        [missing if row[name] is None else row[name] for row in (one, other)]
        for name, missing in (("start", LEAST), ("end", MOST))
    )
    common = min(ends) - max(starts)
    lengths = [end - start for start, end in zip(starts, ends, strict=True)]
    return min(common, *lengths) >= max(least, int(closed == "left"))


def pairs(found: pa.Table) -> list[tuple[int, int]]:
    return list(zip(found["l"].to_pylist(), found["r"].to_pylist(), strict=True))


def expected(
    lefts: pa.Table, rights: pa.Table, matches: Callable[[Row, Row], bool]
) -> list[tuple[int, int]]:
    every = rights.to_pylist()
    return [
        (one["l"], other["r"])
        for one in lefts.to_pylist()
        for other in every
        if matches(one, other)
    ]


QUERY: dict[str, Any] = {"on": ("start", "end"), "by": "k", "open_ends": True}


@pytest.mark.parametrize("closed", ["both", "left"])
@pytest.mark.parametrize("least", [0, 3])
def test_overlaps_of_tables_and_indexes(closed, least):
    for seed in range(campaign.tries(3)):
        lefts, rights = tables(seed)
        query = QUERY | {"closed": closed, "min_overlap": least}
        wanted = expected(
            lefts, rights, lambda one, other: overlap(one, other, closed=closed, least=least)
        )
        found = overlap_join(lefts, rights, **query, threads=1)
        assert pairs(found) == wanted
        assert {None, 1} <= {None if end is None else 1 for end in found["end"].to_pylist()}
        assert overlap_join(lefts, rights, **query, threads=3).equals(found)
        batches = tg.overlap_join_batches(lefts, rights, **query)
        assert pa.Table.from_batches(batches, batches.schema).equals(found)
        index = tg.Index(rights.slice(0, 30), on=("start", "end"), by="k", open_ends=True)
        index.append(rights.slice(30))
        assert pairs(overlap_join(lefts.slice(0, 2), index, **query)) == [
            pair for pair in wanted if pair[0] < 2
        ]
        counts = overlap_join(lefts, rights, **query, aggs={"n": tg.agg.count()}, how="left")
        numbers = [one for one, _ in wanted]
        assert counts["n"].to_pylist() == [numbers.count(at) for at in range(lefts.num_rows)]


def test_an_index_keeps_rows_without_an_end(tmp_path):
    jobs = pa.table({"start": [None, 1, 50], "end": [3, None, 60], "r": [0, 1, 2]})
    index = tg.Index(jobs, on=("start", "end"), open_ends=True, keep=10)
    assert index.rows == 2
    assert index.time_range is not None
    assert [time.as_py() for time in index.time_range] == [1, 50]
    index.save(tmp_path / "jobs.index")
    saved = tg.open_index(tmp_path / "jobs.index")
    lefts = pa.table({"ts": [55], "l": [0]})
    query: dict[str, Any] = {"on": (("ts", "ts"), ("start", "end"))}
    assert pairs(overlap_join(lefts, saved, **query, open_ends=True)) == [(0, 1), (0, 2)]
    with pytest.raises(SchemaError, match=r"built with open_ends.*open_ends=False in both calls"):
        overlap_join(lefts, saved, **query)
    without = tg.Index(jobs, on=("start", "end"))
    with pytest.raises(SchemaError, match=r"built without .* open_ends=True in both calls"):
        overlap_join(lefts, without, **query, open_ends=True)
    with pytest.raises(TidegateError, match="open_ends: rows with a single time have no ends"):
        tg.Index(jobs, on="start", open_ends=True)


def test_lazy_frames():
    lefts, rights = tables(3)
    wanted = overlap_join(lefts, rights, **QUERY)
    frame = pl.from_arrow(lefts)
    assert isinstance(frame, pl.DataFrame)
    index = tg.Index(rights, on=("start", "end"), by="k", open_ends=True)
    for right in (index, pl.from_arrow(rights)):
        seen: list[object] = []
        found = frame.lazy().tidegate.overlap_join(right, **QUERY, progress=seen.append)
        assert not seen
        assert pairs(found.collect().to_arrow()) == pairs(wanted)
        assert seen


def test_a_point_without_a_time_matches_nothing():
    readings = pa.table({"ts": [None, 5], "l": [0, 1]})
    jobs = pa.table({"start": [None, 7], "end": [9, None], "r": [0, 1]})
    on = (("ts", "ts"), ("start", "end"))
    assert pairs(overlap_join(readings, jobs, on=on, open_ends=True)) == [(1, 0)]
    assert pairs(overlap_join(readings, jobs, on=on)) == []


@pytest.mark.parametrize("side", ["left", "right", "both"])
def test_bounds_of_interval_joins(side):
    for seed in range(campaign.tries(3)):
        rng = np.random.default_rng(seed)
        lefts, rights = tables(seed)
        lefts = lefts.append_column("ts", pa.array(rng.integers(0, 60, lefts.num_rows)))
        rights = rights.append_column("ts", pa.array(rng.integers(0, 60, rights.num_rows)))
        lower = -(tg.left.start if side != "right" else tg.right.start)
        upper = tg.right.end if side != "left" else tg.left.end

        def matches(one: Row, other: Row) -> bool:
            start = (one if side != "right" else other)["start"]
            end = (other if side != "left" else one)["end"]
            first = LEAST if start is None else one["ts"] - start
            last = MOST if end is None else one["ts"] + end
            return one["k"] is not None and one["k"] == other["k"] and first <= other["ts"] <= last

        query: dict[str, Any] = {"on": "ts", "by": "k", "lower": lower, "upper": upper}
        found = interval_join(lefts, rights, **query, open_ends=True, threads=2)
        assert pairs(found) == expected(lefts, rights, matches)
        assert interval_join(lefts, rights, **query).num_rows < found.num_rows
        limited = interval_join(lefts, rights, **query, open_ends=True, memory_limit="256MB")
        assert sorted(pairs(limited)) == sorted(pairs(found))


def test_the_rows_that_an_open_row_needs_exceed_the_limit(monkeypatch):
    monkeypatch.setattr("tidegate.bounded.shares.LEAST", 1)
    starts = np.arange(20_000)
    rights = pa.table({"start": starts, "end": starts, "r": starts})
    lefts = pa.table({"start": [0, 5], "end": pa.array([None, 6], pa.int64()), "l": [0, 1]})
    query: dict[str, Any] = {"on": ("start", "end"), "memory_limit": 100_000}
    with (
        pytest.raises(tg.MemoryLimitError, match="replacing null ends with the time until which"),
        tg.overlap_join_batches(lefts, rights, **query, open_ends=True) as reader,
    ):
        list(reader)
    with tg.overlap_join_batches(lefts, rights, **query) as reader:
        assert pairs(pa.Table.from_batches(reader, reader.schema)) == [(1, 5), (1, 6)]


def test_starts_and_ends_from_expressions():
    lefts, rights = tables(1)
    ends = pc.add(rights["start"], rights["length"])
    rights = rights.drop_columns("end")
    wanted = overlap_join(lefts, rights.append_column("end", ends), **QUERY)
    for end in (row.start + row.length, "start + length", tg.right.start + tg.right.length):
        on = (("start", "end"), ("start", end))
        found = overlap_join(lefts, rights, **QUERY | {"on": on})
        assert pairs(found) == pairs(wanted)
        assert "start + " in tg.explain(overlap_join, lefts, rights, **QUERY | {"on": on})
        assert overlap_join(
            lefts, rights, **QUERY | {"on": on}, columns=["l", "r"]
        ).column_names == ["l", "r"]
    # `coalesce` replaces null ends on one side only.
    open_left = row.end.coalesce(MOST)
    on = (("start", open_left), ("start", "length"))
    few = overlap_join(lefts, rights.slice(0, 0), on=on)
    assert few.num_rows == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda lefts, rights: overlap_join(
                lefts, rights, on=("start", row.start + 1), memory_limit="1GB"
            ),
            "add it to the table as a column, or omit memory_limit",
        ),
        (
            lambda lefts, rights: overlap_join(lefts, rights, on=("start", "start +")),
            r"on `start \+`",
        ),
        (
            lambda lefts, rights: overlap_join(lefts, rights, on=("start", "1 + 1")),
            "on: `1 [+] 1` reads no column",
        ),
        (
            lambda lefts, rights: interval_join(
                lefts, rights, on="length", lower=0, upper=1, open_ends=True
            ),
            "open_ends: lower and upper are the same for all rows",
        ),
    ],
)
def test_messages(call, message):
    with pytest.raises(TidegateError, match=message):
        call(*tables(1))


@pytest.mark.filterwarnings("ignore")
def test_tasks_and_spark(tmp_path):
    lefts, rights = tables(2)
    paths = []
    for name, rows in (("left", lefts), ("right", rights)):
        paths.append(str(tmp_path / f"{name}.parquet"))
        pq.write_table(rows, paths[-1])
    out = tmp_path / "out.parquet"
    bounds = {"on": "length", "by": "k", "lower": -left.start, "upper": left.end}
    with pytest.raises(TidegateError, match=r"tasks: a bound is computed .* by overlap_join"):
        tg.tasks(interval_join, *paths, **bounds, open_ends=True)
    command = [*paths, "--on", "start,end", "--by", "k", "--open-ends", "-o", str(out)]
    assert run("overlap", *command).exit_code == 0
    wanted = pairs(overlap_join(lefts, rights, **QUERY))
    assert pairs(pq.read_table(out)) == wanted
    index = str(tmp_path / "right.index")
    given = ["--on", "start,end", "--by", "k", "--open-ends", "-o", index]
    assert run("index", paths[1], *given).exit_code == 0
    assert run("overlap", paths[0], "--right-index", index, *command[2:], "--force").exit_code == 0
    assert sorted(pairs(pq.read_table(out))) == sorted(wanted)
    spark = spark_session.start()
    frames = spark.createDataFrame(lefts), spark.createDataFrame(rights)
    found = tidegate.spark.overlap_join(*frames, **QUERY)
    assert sorted(pairs(found.toArrow())) == sorted(wanted)
    no_key = {"on": ("start", "end"), "open_ends": True}
    found = tidegate.spark.overlap_join(*frames, **no_key)
    assert sorted(pairs(found.toArrow())) == sorted(pairs(overlap_join(lefts, rights, **no_key)))
    found = tidegate.spark.interval_join(*frames, **bounds, open_ends=True)
    of_table = interval_join(lefts, rights, **bounds, open_ends=True)
    assert sorted(pairs(found.toArrow())) == sorted(pairs(of_table))
    with pytest.raises(TidegateError, match="'time' splits rows by time, but with open_ends"):
        tidegate.spark.overlap_join(*frames, **QUERY, parallelism="time")


def test_bounds_of_rows_without_an_end_in_tasks_and_streams(tmp_path, monkeypatch):
    """Tasks join the ends in columns, and operators reject rows that would be kept forever."""
    monkeypatch.chdir(tmp_path)
    lefts, rights = tables(4)
    ends = [pc.add(lefts["length"], bound) for bound in (pc.negate(lefts["start"]), lefts["end"])]
    pq.write_table(lefts.append_column("from", ends[0]).append_column("to", ends[1]), "l.parquet")
    pq.write_table(rights.append_column("ts", rights["length"]), "r.parquet")
    on = (("from", "to"), ("ts", "ts"))
    plan = tg.tasks(overlap_join, "l.parquet", "r.parquet", on=on, by="k", open_ends=True)
    found = pa.concat_tables([pa.table(task.run()) for task in plan.tasks])
    bounds: dict[str, Any] = {"on": "length", "by": "k", "lower": -left.start, "upper": left.end}
    wanted = interval_join(lefts, rights, **bounds, open_ends=True)
    assert sorted(pairs(found)) == sorted(pairs(wanted))
    with pytest.raises(TypeError, match=r"no argument open_ends; .*left.end.coalesce\("):
        tg.IntervalJoin(lefts, rights, **bounds, open_ends=True)
    given = ["--on", "length", "--by", "k", "--lower", "-left.start", "--upper", "left.end"]
    for name in ("l", "r"):
        with pa.OSFile(f"{name}.arrows", "wb") as file, pa.ipc.new_stream(file, lefts.schema) as to:
            to.write_table(lefts)
    given += ["--open-ends", "--max-width", "9", "--follow", "--until-end", "--format", "csv"]
    result = run("join", "l.arrows", "r.arrows", *given)
    assert "open_ends: a row without an end would be kept forever" in result.stderr
