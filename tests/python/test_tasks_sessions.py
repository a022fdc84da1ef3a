"""Sessions that are divided into tasks: together, the tasks return the sessions of the call."""

import concurrent.futures
import multiprocessing
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import campaign
import tidegate as tg
from cases import more
from test_tasks import assert_same_rows, results, written
from test_tasks_last_rows import divided, run, write

SEEDS = range(campaign.tries(6))
SPAN = 400
FLOATS = [0.0, -0.0, float("nan"), None]
AGGS = {
    "n": tg.agg.count(),
    "sum": tg.agg.sum("x"),
    "mean": tg.agg.mean("x"),
    "var": tg.agg.var("x"),
    "first": tg.agg.first("x"),
    "last": tg.agg.last("x"),
    "top": tg.agg.max("x"),
    "at": tg.agg.arg_max("x", "y"),
    "median": tg.agg.median("x"),
    "distinct": tg.agg.count_distinct("y"),
    "all": tg.agg.collect("y"),
}


def rows(chance: random.Random, kind: pa.DataType, *, in_order: bool) -> pa.Table:
    """Draw rows of keys with few and with many rows, so that sessions are short and long."""
    count = chance.choice([0, 1, 60, 400])
    times = [chance.randrange(SPAN) for _ in range(count)]
    if in_order:
        times.sort()
    keys = [chance.choice(["a", "a", "a", "b", "b", None, *"cdefgh"]) for _ in times]
    return pa.table(
        {
            "ts": pa.array(times, pa.int64()).cast(kind),
            "k": pa.array(keys, pa.string()).dictionary_encode(),
            "z": pa.array([chance.choice(FLOATS) for _ in times], pa.float64()),
            "x": pa.array(
                [chance.choice([None, chance.random(), 1e9]) for _ in times], pa.float64()
            ),
            "y": pa.array([chance.randrange(5) for _ in times], pa.int64()),
        }
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_tasks_return_the_sessions_of_an_aggregation(seed, tmp_path):
    chance = campaign.rng(f"sessions by tasks {seed}")
    kind = chance.choice([pa.int64(), pa.timestamp("us"), pa.timestamp("s")])
    unit = "" if pa.types.is_integer(kind) else kind.unit
    length = lambda number: number if unit == "" else f"{number}{unit}"  # noqa: E731 - shorter
    streams = [
        rows(chance, kind, in_order=chance.random() < 0.7) for _ in range(chance.choice([1, 2, 3]))
    ]
    paths = [written(table, tmp_path / str(at), chance) for at, table in enumerate(streams)]
    (tmp_path / "scratch").mkdir()
    for slices in campaign.some(chance, [1, 5, 20, *more(50)], 1):
        arguments = {
            "on": "ts",
            "by": chance.choice([None, "k", "z", ["k", "z"]]),
            # Shorter than a slice, as long as some, and longer.
            "session": length(chance.choice([1, 3, 8, 25, 100])),
            "aggs": AGGS,
            "where": chance.choice([None, None, "x < 0.7"]),
        }
        whole = tg.aggregate(streams, **arguments)
        plan = divided(
            chance, tmp_path / "scratch", tg.aggregate, paths, slices=slices, **arguments
        )
        parts = results(plan)
        assert_same_rows(plan, parts, whole)
        assert tg.digest(pa.concat_tables(parts)) == tg.digest(whole)


@pytest.fixture
def steady(tmp_path):
    """Write rows of a key without a pause, of one with pauses, and of one with two rows."""
    (tmp_path / "rows").mkdir()
    at = np.arange(2000)
    key = np.where(at % 2, 0, np.where(at % 100 < 60, 1, 2))
    key[[10, 1500]] = 3
    table = pa.table({"ts": at, "k": key, "x": np.random.default_rng(0).random(2000)})
    pq.write_table(table, tmp_path / "rows" / "0.parquet", row_group_size=20)
    (tmp_path / "scratch").mkdir()
    return str(tmp_path / "rows")


def test_a_session_that_spans_all_slices_is_returned_once(steady, tmp_path):
    arguments = {"on": "ts", "by": "k", "session": 4, "aggs": {"sum": tg.agg.sum("x")}}
    chance = campaign.rng("spanning")
    plan = divided(chance, tmp_path / "scratch", tg.aggregate, steady, slices=50, **arguments)
    assert len(plan.stages) == 4
    assert len(plan.tasks) > 40
    parts = results(plan)
    whole = tg.aggregate(steady, **arguments)
    assert pa.concat_tables(parts).equals(whole)
    assert parts[0].filter(pa.compute.equal(parts[0]["k"], 0)).num_rows == 1


def test_sessions_in_other_processes(steady, tmp_path):
    arguments = {"on": "ts", "by": "k", "session": 4, "aggs": {"sum": tg.agg.sum("x")}}
    plan = tg.tasks(
        tg.aggregate_batches, steady, target=8000, scratch=tmp_path / "scratch", **arguments
    )
    assert len(plan.tasks) > 4
    (tmp_path / "result").mkdir()
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, spawn) as pool:
        for stage in plan.stages[:-1]:
            assert [*pool.map(run, stage)] == [None] * len(stage)
        assert [*pool.map(write, plan.tasks, [str(tmp_path / "result")] * len(plan.tasks))]
    assert pq.read_table(tmp_path / "result").equals(tg.aggregate(steady, **arguments))


def test_the_explanation_counts_the_files_of_sessions(steady, tmp_path):
    arguments = {"on": "ts", "by": "k", "session": 4, "aggs": {"sum": tg.agg.sum("x")}}
    chance = campaign.rng("explained")
    plan = divided(chance, tmp_path / "scratch", tg.aggregate, steady, slices=5, **arguments)
    (folder,) = (tmp_path / "scratch").iterdir()
    assert f"{len([*folder.iterdir()])} files" in plan.explain()


def test_sessions_in_several_slices_need_a_scratch_folder(steady):
    arguments = {"on": "ts", "by": "k", "session": 4, "aggs": {"sum": tg.agg.sum("x")}}
    assert len(tg.tasks(tg.aggregate, steady, **arguments).stages) == 1
    with pytest.raises(tg.TidegateError, match="give scratch, an existing folder"):
        tg.tasks(tg.aggregate, steady, target=8000, **arguments)
