"""Calls in which a right row may match at any distance, divided into tasks after preparations."""

import concurrent.futures
import multiprocessing
import pickle
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import campaign
import tidegate as tg
from cases import more
from test_tasks import assert_same_rows, results, side, written
from tidegate.slices.carries import FAN_IN, Carry
from tidegate.slices.last_rows import last_rows
from tidegate.slices.scratch import rows_of, write_rows

SEEDS = range(campaign.tries(8))
KINDS = [pa.int64(), pa.timestamp("us"), pa.date32()]


def sparse(chance: random.Random, kind: pa.DataType, *, in_order: bool) -> pa.Table:
    """Draw rows whose keys are mostly rare, so that matches are many slices away."""
    rows = side(chance, kind, in_order=in_order)
    while (count := rows.num_rows) < chance.choice([0, 30, 200]):
        rows = side(chance, kind, in_order=in_order)
    strings = [chance.choice(["a", "b", "c", None, *"defghij"]) for _ in range(count)]
    zeros = [chance.choice([0.0, -0.0, float("nan"), 1.0, None]) for _ in range(count)]
    return rows.append_column("z", pa.array(zeros, pa.float64())).set_column(
        rows.schema.get_field_index("k"), "k", pa.array(strings, pa.string()).dictionary_encode()
    )


def calls(chance: random.Random, kind: pa.DataType):
    """Draw the arguments of calls that look back or ahead at any distance."""
    by = chance.choice([None, "k", "z", ["k", "z"]])
    for strategy in ("backward", "forward", "nearest"):
        yield (
            tg.asof_join,
            {
                "on": "ts",
                "by": by,
                "strategy": strategy,
                "how": chance.choice(["inner", "left", "semi", "anti"]),
                "where": chance.choice([None, None, "right.x > 1", "left.x > 1"]),
                "allow_exact_matches": chance.random() < 0.7,
            },
        )
    unit = "" if pa.types.is_integer(kind) else "d" if kind == pa.date32() else kind.unit
    length = lambda number: number if unit == "" else f"{number}{unit}"  # noqa: E731 - shorter
    for lower in (chance.choice([-40, -20, -1]), chance.choice([0, 15])):
        yield (
            tg.interval_join,
            {
                "on": "ts",
                "by": by,
                "lower": length(lower),
                "upper": length(lower + chance.choice([0, 4, 30])),
                "closed": chance.choice(["both", "left", "right", "neither"]),
                "where": chance.choice([None, "right.x > 1", "left.x < right.x"]),
                "how": chance.choice(["left", "inner"]),
                "prevailing": True,
                "aggs": {"n": tg.agg.count(), "mean": tg.agg.mean("x"), "first": tg.agg.first("x")},
            },
        )


def prepared(plan, chance: random.Random):
    """Run pickled copies of the preparations twice, in random order within each stage."""
    for stage in plan.stages[:-1]:
        twice = pickle.loads(pickle.dumps([*stage])) * 2
        chance.shuffle(twice)
        for preparation in twice:
            preparation.run()
    return plan


def divided(chance: random.Random, scratch, function, *inputs, slices=None, **arguments):
    whole = tg.tasks(function, *inputs, **arguments)
    count = slices or chance.choice([1, 2, 5, 20, 50])
    target = max(1, sum(task.size for task in whole.tasks) // count)
    plan = tg.tasks(function, *inputs, target=target, scratch=scratch, **arguments)
    return prepared(plan, chance)


@pytest.mark.parametrize("seed", SEEDS)
def test_tasks_find_right_rows_at_any_distance(seed, tmp_path):
    chance = campaign.rng(f"last rows by tasks {seed}")
    kind, in_order = chance.choice(KINDS), chance.random() < 0.7
    left, right = (sparse(chance, kind, in_order=in_order) for _ in range(2))
    paths = [
        written(table, tmp_path / name, chance)
        for name, table in (("left", left), ("right", right))
    ]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    for function, arguments in campaign.some(chance, calls(chance, kind), 3):
        whole = function(left, right, **arguments)
        plan = divided(chance, scratch, function, *paths, **arguments)
        parts = results(plan)
        assert_same_rows(plan, parts, whole)
        if in_order:
            assert tg.digest(pa.concat_tables(parts)) == tg.digest(whole)


@pytest.fixture
def rare(tmp_path):
    """Write two tables of 1,000 rows in time order, with rare and frequent keys."""
    for name in ("left", "right"):
        (tmp_path / name).mkdir()
        at = np.arange(1000)
        # Half of the left rows find one of five frequent keys.
        key = np.where(at % 2, at % 5, at if name == "right" else at * 7 % 1000)
        table = pa.table({"ts": at, "k": key, name[0]: at})
        pq.write_table(table, tmp_path / name / "0.parquet", row_group_size=10)
    (tmp_path / "scratch").mkdir()
    return str(tmp_path / "left"), str(tmp_path / "right")


@pytest.mark.parametrize("strategy", ["nearest", *more("backward", "forward")])
def test_rows_pass_through_two_levels_of_merges(rare, tmp_path, strategy):
    arguments = {"on": "ts", "by": "k", "strategy": strategy}
    chance = campaign.rng("levels")
    plan = divided(chance, tmp_path / "scratch", tg.asof_join, *rare, slices=100, **arguments)
    assert len(plan.tasks) > 2 * FAN_IN
    # One stage for the slices, two for the merges, one for the tasks.
    assert len(plan.stages) == 4
    parts = results(plan)
    assert pa.concat_tables(parts).equals(tg.asof_join(*rare, **arguments))
    # However many slices there are, a task reads at most one file per level and direction.
    read = [len(task._inputs[1].before) + len(task._inputs[1].after) for task in plan.tasks]
    assert max(read) == (4 if strategy == "nearest" else 2)


def test_preparations_and_tasks_run_in_other_processes(rare, tmp_path):
    arguments = {"on": "ts", "by": "k", "target": 3000, "scratch": tmp_path / "scratch"}
    plan = tg.tasks(tg.asof_join, *rare, **arguments)
    (tmp_path / "result").mkdir()
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, spawn) as pool:
        for stage in plan.stages[:-1]:
            assert [*pool.map(run, stage)] == [None] * len(stage)
        paths = [*pool.map(write, plan.tasks, [str(tmp_path / "result")] * len(plan.tasks))]
    assert len(paths) > 5
    assert pq.read_table(tmp_path / "result").equals(tg.asof_join(*rare, on="ts", by="k"))
    (folder,) = (tmp_path / "scratch").iterdir()
    assert "arrows" in {path.suffix[1:] for path in folder.iterdir()}


def run(preparation) -> None:
    preparation.run()


def write(task, folder: str) -> str:
    return task.write(folder)


def test_a_task_without_its_preparations_says_what_to_run(rare, tmp_path):
    arguments = {"on": "ts", "by": "k", "target": 3000, "scratch": tmp_path / "scratch"}
    plan = tg.tasks(tg.asof_join, *rare, **arguments)
    with pytest.raises(tg.TidegateError, match=r"run all preparation steps in plan\.stages"):
        plan.tasks[-1].run().read_all()


def test_a_scratch_folder_is_needed_only_for_several_slices(rare):
    plan = tg.tasks(tg.asof_join, *rare, on="ts", by="k")
    assert [len(stage) for stage in plan.stages] == [1]
    with pytest.raises(tg.TidegateError, match=r"give scratch, an existing folder .* a tolerance"):
        tg.tasks(tg.asof_join, *rare, on="ts", by="k", target=3000)
    plan = tg.tasks(tg.asof_join, *rare, on="ts", by="k", tolerance=3, target=3000)
    assert len(plan.stages) == 1


@pytest.mark.usefixtures("bucket")
def test_a_scratch_folder_can_be_in_an_object_store(rare, tmp_path):
    arguments = {"on": "ts", "by": "k", "strategy": "forward"}
    whole = tg.asof_join(*rare, **arguments)
    for scratch in ("s3://market/scratch/", f"file://{tmp_path}/scratch"):
        plan = tg.tasks(tg.asof_join, *rare, target=10_000, scratch=scratch, **arguments)
        assert len(plan.tasks) > 2
        parts = results(prepared(plan, campaign.rng("store")))
        assert pa.concat_tables(parts).equals(whole)


def test_a_condition_on_both_sides_is_refused(rare, tmp_path):
    with pytest.raises(tg.TidegateError, match="where reads columns of both sides"):
        tg.tasks(tg.asof_join, *rare, on="ts", where="left.l < right.r", scratch=tmp_path)


def test_a_missing_scratch_folder_is_named(rare, tmp_path):
    arguments = {"on": "ts", "by": "k", "target": 3000, "scratch": tmp_path / "missing"}
    plan = tg.tasks(tg.asof_join, *rare, **arguments)
    with pytest.raises(tg.TidegateError, match=r"missing.*: cannot be written"):
        plan.stages[0][0].run()


def test_the_explanation_shows_preparations_and_their_files(rare, tmp_path):
    arguments = {"on": "ts", "by": "k", "target": 3000, "scratch": tmp_path / "scratch"}
    plan = prepared(tg.tasks(tg.asof_join, *rare, **arguments), campaign.rng("explained"))
    told = plan.explain()
    count = len(plan.tasks)
    assert f"{count - 1} preparation steps read right once more" in told
    assert "one row per key, the last before each slice" in told
    (folder,) = (tmp_path / "scratch").iterdir()
    assert f"{len([*folder.iterdir()])} files" in told


# The rows of each key


@pytest.mark.parametrize("seed", SEEDS)
def test_the_last_row_of_each_key_is_never_lost(seed):
    chance = campaign.rng(f"last rows {seed}")
    parts = [sparse(chance, pa.int64(), in_order=chance.random() < 0.5) for _ in range(3)]
    rows = pa.concat_tables(parts)
    times = rows["ts"].to_numpy()
    keys = chance.choice([[], ["k"], ["z"], ["k", "z"]])
    for first in (False, True):
        for nulls in (False, True):
            found = last_rows(rows, keys, times, first=first, nulls=nulls)
            chosen = {}
            for row in sorted(rows.to_pylist(), key=lambda row: row["ts"], reverse=first):
                key = tuple(repr(row[name]) for name in keys)
                if nulls or "None" not in key:
                    chosen[key] = row
            if first:
                # The first of the rows with the same time.
                for row in reversed(rows.to_pylist()):
                    key = tuple(repr(row[name]) for name in keys)
                    if key in chosen and row["ts"] == chosen[key]["ts"]:
                        chosen[key] = row
            wanted = sorted(repr(row) for row in chosen.values())
            assert sorted(map(repr, found.to_pylist())) == wanted
            assert found["ts"].to_pylist() == sorted(found["ts"].to_pylist())
            assert found.schema.equals(rows.schema)


def test_written_dictionaries_contain_only_the_values_of_the_rows(tmp_path):
    many = pa.array([str(at) for at in range(100)]).dictionary_encode()
    found = last_rows(pa.table({"k": [1] * 100, "v": many}), ["k"])
    path = str(tmp_path / "found.arrows")
    write_rows(path, found)
    (batch,) = rows_of(path, found.schema)
    assert batch["v"].dictionary.to_pylist() == ["99"]


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("slices", [2, 3, 32, 33, 64, 65, 1024, 1025, 1100])
def test_the_entries_of_a_slice_cover_all_slices_before_it(slices, backwards):
    carry = Carry("x", "y", slices, pa.schema([]), (), backwards)
    totals = {carry.total(0, carry.node(at)): {at} for at in range(slices) if carry.reads(at)}
    entries = {}
    for level in range(carry.levels):
        for merge in carry.merges(level):
            merged = set()
            for node in range(merge.first, merge.stop):
                if node > merge.first:
                    entries[carry.entry(level, node)] = {*merged}
                if carry.has_total(level, node):
                    merged |= totals[carry.total(level, node)]
            if carry.has_total(level + 1, merge.first // FAN_IN):
                totals[carry.total(level + 1, merge.first // FAN_IN)] = merged
    for number in range(slices):
        found = [at for path in carry.entries(number) for at in sorted(entries[path])]
        wanted = range(number + 1, slices) if backwards else range(number)
        assert found == [*wanted]
    assert carry.files == len(totals) + len(entries)
