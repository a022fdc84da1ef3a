"""Tasks that join left rows with an index: in task order, they return the rows of the call."""

import multiprocessing
import os
import pickle
import random

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import campaign
import tidegate as tg
from test_tasks import KINDS, side, written

SEEDS = range(campaign.tries(20))
HOWS = ["inner", "left", "semi", "anti"]


def joins(chance: random.Random, kind: pa.DataType):
    """Draw the arguments of each join, including those that tasks of two inputs refuse."""
    unit = "" if pa.types.is_integer(kind) else "d" if kind == pa.date32() else kind.unit
    length = lambda number: number if unit == "" else f"{number}{unit}"  # noqa: E731 - shorter
    keys = {"on": "ts", "by": "k"}
    ends = {
        "lower": chance.choice([None, length(-9), length(1)]),
        "upper": chance.choice([None, length(1), length(30)]),
    }
    aggs = {"n": tg.agg.count(), "sum": tg.agg.sum("x"), "first": tg.agg.first("x")}
    where = chance.choice([None, "left.x <= right.x"])
    how = chance.choice(HOWS)
    yield tg.interval_join, {**keys, **ends, "how": how, "where": where}
    yield tg.interval_join_batches, {**keys, **ends, "how": how}
    bounds = {"lower": length(-9), "upper": length(0)}
    yield tg.interval_join, {**keys, **bounds, "aggs": aggs, "prevailing": True}
    if unit == "":
        yield tg.interval_join, {**keys, "lower": 0, "upper": "left.end", "how": how}
    yield tg.overlap_join, {"on": ("ts", "end"), "by": "k", "how": how}
    window = (length(3), length(4))
    yield tg.window_join, {**keys, "window": window, "how": how, "where": where}
    yield tg.band_join, {"on": "x", "within": 1.0, "by": "k", "how": how}
    strategy = chance.choice(["backward", "forward", "nearest"])
    asof = chance.choice(["left", "inner", "semi", "anti"])
    yield tg.asof_join, {**keys, "strategy": strategy, "how": asof, "where": where}


def saved(table: pa.Table, path, kind: str) -> tg.Index:
    """Save and open an index on the times or on the intervals of the rows."""
    on = ("ts", "end") if kind == "intervals" else "ts"
    tg.Index(table, on=on, by="k").save(path)
    return tg.open_index(path)


@pytest.mark.parametrize("seed", SEEDS)
def test_tasks_with_an_index_return_the_rows_of_the_call_in_order(seed, tmp_path):
    chance = campaign.rng(f"tasks with an index {seed}")
    kind = chance.choice(KINDS)
    left, right = (side(chance, kind, in_order=chance.random() < 0.5) for _ in range(2))
    folder = written(left, tmp_path / "left", chance)
    indexes = [saved(right, tmp_path / name, name) for name in ("times", "intervals")]
    divided = 0
    for function, arguments in joins(chance, kind):
        wanted = pa.table(function(left, right, **arguments))
        index = indexes[function is tg.overlap_join]
        whole = tg.tasks(function, folder, index, **arguments)
        target = max(1, sum(task.size for task in whole.tasks) // chance.choice([1, 2, 5, 20]))
        plan = tg.tasks(function, folder, index, **arguments, target=target)
        assert len(plan.stages) == 1
        assert sum(task.rows for task in plan.tasks) == left.num_rows
        divided += len(plan.tasks) > 1
        tasks = [*plan.tasks]
        if chance.random() < 0.3:
            tasks = pickle.loads(pickle.dumps(tasks))
        found = pa.concat_tables([task.run().read_all() for task in tasks])
        assert found.schema.names == wanted.schema.names
        assert tg.digest(found) == tg.digest(wanted)
    assert divided or left.num_rows < 100


TRADES = pa.table({"at": [30, 10, 20, 10], "ticker": ["A", "B", "A", "A"], "price": [1, 2, 3, 4]})
QUOTES = pa.table({"ts": [8, 19, 29, 31], "sym": ["A", "A", "A", "B"], "bid": [8, 9, 7, 6]})
ASOF = {"on": "at", "by": "ticker"}


@pytest.fixture(name="files")
def _files(tmp_path):
    pq.write_table(TRADES, tmp_path / "trades.parquet", row_group_size=2)
    tg.Index(QUOTES, on="ts", by="sym").save(tmp_path / "quotes.index")
    return tmp_path


def planned(files, **more):
    index = tg.open_index(files / "quotes.index")
    return tg.tasks(tg.asof_join, files / "trades.parquet", index, **ASOF, **more)


def test_tasks_divide_left_rows_between_row_groups(files):
    plan = planned(files, target=1)
    assert [(task.row_groups, task.rows) for task in plan.tasks] == [(1, 2), (1, 2)]
    assert [task.run().read_all()["bid"].to_pylist() for task in plan.tasks] == [[7, None], [9, 8]]
    path = files / "quotes.index"
    lines = plan.explain().splitlines()
    assert lines[-4].startswith("  tasks      2, cut between row groups; the largest reads ")
    assert lines[-3].startswith("  left       1 file, 2 row groups, 4 rows, ")
    size = f"{path.stat().st_size:,}"
    assert lines[-2] == f"  right      {path}, 4 rows, {size} bytes; each process maps it"
    assert lines[-1].startswith("  index      4 rows: up to ")


def test_tasks_of_a_dataset_read_only_its_row_groups(files):
    [fragment] = ds.dataset(files / "trades.parquet").get_fragments()
    part = fragment.subset(row_group_ids=[1])
    some = ds.FileSystemDataset([part], part.physical_schema, part.format, part.filesystem)
    index = tg.open_index(files / "quotes.index")
    plan = tg.tasks(tg.asof_join, some, index, **ASOF)
    [task] = plan.tasks
    assert task.run().read_all()["bid"].to_pylist() == [9, 8]


def written_by(task, folder) -> str:
    return task.write(folder)


def test_processes_of_a_pool_map_the_file(files):
    plan = planned(files, target=1)
    (files / "found").mkdir()
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        paths = pool.starmap(written_by, [(task, files / "found") for task in plan.tasks])
    found = pa.concat_tables(map(pq.read_table, paths))
    assert found.equals(tg.asof_join(TRADES, QUOTES, on=("at", "ts"), by={"ticker": "sym"}))
    assert len(plan.missing(files / "found")) == 0


def test_a_plan_with_another_index_file_has_another_name(files):
    path = files / "quotes.index"
    first = planned(files).tasks[0]
    assert planned(files).tasks[0].name == first.name
    # The first task maps the file.
    assert first.run().read_all().num_rows == 4
    os.utime(path, ns=(1, 1))
    assert planned(files).tasks[0].name != first.name
    message = r"quotes\.index: the index file has changed since the plan was created; create a new"
    with pytest.raises(tg.TidegateError, match=message):
        first.run().read_all()
    path.unlink()
    with pytest.raises(tg.TidegateError, match=r"quotes\.index: the index file cannot be read"):
        first.run().read_all()


def test_an_index_whose_file_has_been_replaced_is_refused(files):
    index = tg.open_index(files / "quotes.index")
    tg.Index(QUOTES.slice(1), on="ts", by="sym").save(files / "quotes.index")
    message = r"quotes\.index: the index file has changed since it was opened; open it again"
    with pytest.raises(tg.TidegateError, match=message):
        tg.tasks(tg.asof_join, files / "trades.parquet", index, **ASOF)


def test_joins_that_tasks_with_an_index_cannot_divide_are_refused(files):
    trades, index = files / "trades.parquet", tg.open_index(files / "quotes.index")
    bounds = {"lower": 0, "upper": 1}
    for how in ("right", "full"):
        message = f"how='{how}': whether a row of the index is unmatched depends on all left rows"
        with pytest.raises(tg.TidegateError, match=message):
            tg.tasks(tg.interval_join, trades, index, **ASOF, **bounds, how=how)
    for window in (tg.rows(2), (tg.rows(1), tg.rows(2))):
        with pytest.raises(tg.TidegateError, match=r"window: rows\(\d\) counts the left rows"):
            tg.tasks(tg.window_join, trades, index, **ASOF, window=window)
    with pytest.raises(tg.SchemaError, match="the index is on `ts` by `sym`, but the join is on"):
        tg.tasks(tg.asof_join, trades, index, on=("at", "bid"), by="ticker")
    with pytest.raises(tg.TidegateError, match="left: expected Parquet files"):
        tg.tasks(tg.asof_join, TRADES, index, **ASOF)
    with pytest.raises(tg.TidegateError, match="left: expected Parquet files"):
        tg.tasks(tg.asof_join, index, index, on="ts", by="sym")
    index.append(QUOTES)
    for other in (index, tg.Index(QUOTES, on="ts", by="sym")):
        with pytest.raises(tg.TidegateError, match=r"only in memory; save it with index\.save"):
            tg.tasks(tg.asof_join, trades, other, **ASOF)
