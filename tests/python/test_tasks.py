"""Calls that are divided into tasks: together, the tasks return the rows of the call."""

import concurrent.futures
import multiprocessing
import pickle
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import campaign
import tidegate as tg
from tidegate.slices.cuts import Ranges, borders
from tidegate.slices.footers import Groups, Source

SEEDS = range(campaign.tries(20))
HOWS = ["inner", "left", "right", "full", "semi", "anti"]
SPAN = 200
KINDS = [pa.int64(), pa.timestamp("us"), pa.timestamp("ms", "UTC"), pa.date32()]
# The call returns the rows of each of these joins by left row.
BY_LEFT_ROW = {"interval_join", "overlap_join", "asof_join"}


def side(chance: random.Random, kind: pa.DataType, *, in_order: bool) -> pa.Table:
    count = chance.choice([0, 1, 40, 300])
    times = [chance.randrange(SPAN) for _ in range(count)]
    if in_order:
        times.sort()
    storage = pa.int32() if kind == pa.date32() else pa.int64()
    ends = [time + chance.choice([0, 1, 5, 40]) for time in times]
    return pa.table(
        {
            "ts": pa.array(times, storage).cast(kind),
            "end": pa.array(ends, storage).cast(kind),
            "k": pa.array([chance.choice(["a", "b", None]) for _ in times], pa.string()),
            "x": pa.array([chance.choice([None, 0.5, 1.25, 3.0]) for _ in times], pa.float64()),
        }
    )


def written(table: pa.Table, folder, chance: random.Random) -> str:
    """Write the table to one to three files, in small row groups."""
    folder.mkdir(parents=True)
    cuts = sorted(chance.randrange(table.num_rows + 1) for _ in range(chance.randrange(3)))
    for number, (start, stop) in enumerate(zip([0, *cuts], [*cuts, table.num_rows], strict=True)):
        part = table.slice(start, stop - start)
        pq.write_table(
            part, folder / f"{number}.parquet", row_group_size=chance.choice([3, 20, 90])
        )
    return str(folder)


def joins(chance: random.Random, kind: pa.DataType):
    """Draw the arguments of each join."""
    unit = "" if pa.types.is_integer(kind) else "d" if kind == pa.date32() else kind.unit
    length = lambda number: number if unit == "" else f"{number}{unit}"  # noqa: E731 - shorter
    lower = chance.choice([-9, -1, 0, 3])
    upper = lower + chance.choice([0, 4, 30])
    bounds = {"on": "ts", "by": "k", "lower": length(lower), "upper": length(upper)}
    aggs = {"n": tg.agg.count(), "sum": tg.agg.sum("x"), "median": tg.agg.median("x")}
    how = chance.choice(HOWS)
    yield tg.interval_join, {**bounds, "how": how}
    yield tg.interval_join, {**bounds, "aggs": {**aggs, "first": tg.agg.first("x")}}
    yield tg.overlap_join, {"on": ("ts", "end"), "by": "k", "how": how}
    yield tg.overlap_join, {"on": ("ts", "end"), "by": "k", "aggs": aggs}
    window = (length(3), length(4))
    yield tg.window_join, {"on": "ts", "window": window, "where": "left.k = right.k", "how": how}
    yield tg.band_join, {"on": "x", "within": 1.0, "time": "ts", "window": window, "how": how}
    strategy = chance.choice(["backward", "forward", "nearest"])
    yield tg.asof_join, {"on": "ts", "by": "k", "strategy": strategy, "tolerance": length(7)}


def divided(chance: random.Random, function, *inputs, **arguments):
    """Divide a call into up to twenty tasks."""
    whole = tg.tasks(function, *inputs, **arguments)
    target = max(1, sum(task.size for task in whole.tasks) // chance.choice([1, 2, 5, 20]))
    return tg.tasks(function, *inputs, target=target, **arguments)


def results(plan) -> list[pa.Table]:
    """Run pickled copies of the tasks twice, in random order, and return their results."""
    for preparations in plan.stages[:-1]:
        for preparation in preparations:
            preparation.run()
    tasks = pickle.loads(pickle.dumps([*plan.tasks]))
    parts = {}
    twice = tasks * 2
    campaign.rng("order of tasks").shuffle(twice)
    for task in twice:
        part = task.run().read_all()
        assert tg.digest(parts.setdefault(task.number, part)) == tg.digest(part)
    assert sum(task.share for task in tasks) == pytest.approx(1) or not any(t.size for t in tasks)
    return [parts[number] for number in range(len(tasks))]


def assert_same_rows(plan, parts: list[pa.Table], whole: pa.Table) -> None:
    digests = [tg.Digest(plan.schema) for _ in parts]
    for digest, part in zip(digests, parts, strict=True):
        digest.update(part)
    added = plan.digest(pickle.loads(pickle.dumps(digests)))
    assert added.rows == whole.num_rows
    assert added.unordered == tg.digest(whole, ordered=False)
    assert added.ordered == tg.digest(pa.concat_tables(parts))


@pytest.mark.parametrize("seed", SEEDS)
def test_tasks_return_the_rows_of_a_join(seed, tmp_path):
    chance = campaign.rng(f"joins by tasks {seed}")
    kind, in_order = chance.choice(KINDS), chance.random() < 0.6
    left, right = (side(chance, kind, in_order=in_order) for _ in range(2))
    paths = [
        written(table, tmp_path / name, chance)
        for name, table in (("left", left), ("right", right))
    ]
    for function, arguments in campaign.some(chance, joins(chance, kind), 4):
        whole = function(left, right, **arguments)
        plan = divided(chance, function, *paths, scratch=tmp_path, **arguments)
        parts = results(plan)
        assert_same_rows(plan, parts, whole)
        keeps_right = arguments.get("how") in {"right", "full"}
        if in_order and function.__name__ in BY_LEFT_ROW and not keeps_right:
            assert pa.concat_tables(parts).equals(whole.cast(plan.schema))


@pytest.mark.parametrize("seed", SEEDS)
def test_tasks_return_the_windows_of_an_aggregation(seed, tmp_path):
    chance = campaign.rng(f"aggregations by tasks {seed}")
    kind = chance.choice(KINDS[:-1])
    unit = "" if pa.types.is_integer(kind) else kind.unit
    length = lambda number: number if unit == "" else f"{number}{unit}"  # noqa: E731 - shorter
    streams = [side(chance, kind, in_order=chance.random() < 0.6) for _ in range(2)]
    paths = [written(table, tmp_path / str(at), chance) for at, table in enumerate(streams)]
    size, advance = chance.choice([(10, 10), (10, 4), (3, 8), (90, 30)])
    arguments = {
        "on": "ts",
        "by": "k",
        "size": length(size),
        "advance": length(advance),
        "offset": length(chance.choice([0, 2])),
        "aggs": {"n": tg.agg.count(), "mean": tg.agg.mean("x"), "last": tg.agg.last("x")},
    }
    whole = tg.aggregate(streams, **arguments)
    plan = divided(chance, tg.aggregate, paths, scratch=tmp_path, **arguments)
    parts = results(plan)
    assert_same_rows(plan, parts, whole)
    assert pa.concat_tables(parts).equals(whole.cast(plan.schema))


def test_folders_may_encode_the_time(tmp_path):
    for day in (3, 5, 6):
        (tmp_path / f"day={day}").mkdir()
        table = pa.table({"k": [1, 2] * 20, "x": range(40)})
        pq.write_table(table, tmp_path / f"day={day}" / "0.parquet", row_group_size=10)
    arguments = {"on": "day", "by": "k", "lower": 0, "upper": 1}
    plan = tg.tasks(tg.interval_join, tmp_path, tmp_path, target=900, **arguments)
    assert len(plan.tasks) > 1
    assert_same_rows(plan, results(plan), tg.interval_join(tmp_path, tmp_path, **arguments))


# What a plan is for


@pytest.fixture
def folders(tmp_path):
    """Write two tables of 1,000 rows in time order, in 20 row groups each."""
    for name in ("left", "right"):
        (tmp_path / name).mkdir()
        table = pa.table({"ts": range(1000), name[0]: np.arange(1000) % 7})
        pq.write_table(table, tmp_path / name / "0.parquet", row_group_size=50)
    return str(tmp_path / "left"), str(tmp_path / "right")


def test_a_task_reads_only_the_row_groups_of_its_slice(folders):
    whole = tg.tasks(tg.interval_join, *folders, on="ts", lower=0, upper=5)
    assert [task.row_groups for task in whole.tasks] == [40]
    target = whole.tasks[0].size // 10
    plan = tg.tasks(tg.interval_join, *folders, on="ts", lower=0, upper=5, target=target)
    groups = [task.row_groups for task in plan.tasks]
    assert len(groups) in {10, 11}
    # Two row groups of each side, and the next one on the right.
    assert max(groups) <= 6
    assert sum(groups) <= 40 + len(groups)


def test_tasks_run_in_other_processes_and_write_whole_files(folders, tmp_path):
    plan = tg.tasks(tg.interval_join, *folders, on="ts", lower=0, upper=5, target=3000)
    result = tmp_path / "result"
    result.mkdir()
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, spawn) as pool:
        paths = [*pool.map(write, plan.tasks, [str(result)] * len(plan.tasks))]
    assert sorted(path.name for path in result.iterdir()) == [Path(path).name for path in paths]
    wanted = tg.interval_join(*folders, on="ts", lower=0, upper=5)
    assert pq.read_table(result).equals(wanted)
    assert (
        tg.tasks(tg.interval_join, *folders, on="ts", lower=0, upper=5, target=3000).tasks[0].name
        == Path(paths[0]).name
    )


def write(task, folder: str) -> str:
    return task.write(folder)


def test_the_footers_of_unchanged_files_are_read_once(folders, monkeypatch):
    read = []
    rows_of = Source._rows_of

    def counted(self, at, *others):
        read.append(self.files[at].name)
        return rows_of(self, at, *others)

    monkeypatch.setattr(Source, "_rows_of", counted)
    call = {"on": "ts", "lower": -2, "upper": 0, "target": 2000}
    first = tg.tasks(tg.interval_join, *folders, **call)
    assert len(read) == len({*read})
    seen = len(read)
    again = tg.tasks(tg.interval_join, *folders, **call)
    assert len(read) == seen
    assert [task.name for task in again.tasks] == [task.name for task in first.tasks]
    tg.tasks(tg.interval_join, *folders, **call, columns=["ts"])
    assert len(read) == 2 * seen, "other columns have other sizes"
    path = next(Path(folders[0]).rglob("*.parquet"))
    rows = pq.read_table(path)
    more = pa.concat_tables([rows, rows.slice(rows.num_rows - 1)])
    pq.write_table(more, path, row_group_size=50)
    changed = tg.tasks(tg.interval_join, *folders, **call)
    assert {Path(name).name for name in read[2 * seen :]} >= {path.name}
    assert sum(task.rows for task in changed.tasks) > sum(task.rows for task in first.tasks)


def test_a_changed_or_removed_file_is_named(folders):
    plan = tg.tasks(tg.interval_join, *folders, on="ts", lower=0, upper=5)
    path = f"{folders[1]}/0.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)
    with pytest.raises(tg.TidegateError, match=r"0\.parquet: the file has changed since the plan"):
        plan.tasks[0].run().read_all()
    Path(path).unlink()
    with pytest.raises(tg.TidegateError, match=r"0\.parquet: the file has been removed since"):
        plan.tasks[0].run().read_all()


def test_folders_that_encode_columns_and_datasets(tmp_path, tmp_path_factory):
    for day in ("2024-01-01", "2024-01-02"):
        (tmp_path / f"day={day}").mkdir()
        table = pa.table({"ts": range(50), "x": range(50)})
        pq.write_table(table, tmp_path / f"day={day}" / "0.parquet", row_group_size=10)
    arguments = {"on": "ts", "by": "day", "lower": 0, "upper": 3}
    cut = {"target": 400, "scratch": tmp_path_factory.mktemp("scratch")}
    plan = tg.tasks(tg.interval_join, tmp_path, tmp_path, **cut, **arguments)
    whole = tg.interval_join(tmp_path, tmp_path, **arguments)
    assert_same_rows(plan, results(plan), whole)
    data = ds.dataset(tmp_path, partitioning="hive")
    plan = tg.tasks(tg.interval_join, data, data, **cut, **arguments)
    rows = data.to_table()
    assert_same_rows(plan, results(plan), tg.interval_join(rows, rows, **arguments))
    some = data.filter(ds.field("day") == "2024-01-02")
    with pytest.raises(tg.TidegateError, match="right: a dataset that filters or projects"):
        tg.tasks(tg.interval_join, data, some, **arguments)


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (tg.interval_join, {"on": "ts", "lower": None, "upper": 0}, "any distance apart in time"),
        (tg.window_join, {"on": "ts", "window": tg.rows(3)}, "give a time-based window"),
        (tg.band_join, {"on": [("l", "r")], "within": 1}, "values that are not ordered by time"),
    ],
)
def test_joins_without_a_distance_in_time_are_refused(folders, function, arguments, message):
    with pytest.raises(tg.TidegateError, match=message):
        tg.tasks(function, *folders, **arguments)


def test_other_inputs_and_null_times_are_refused(folders, tmp_path):
    bounds = {"on": "ts", "lower": 0, "upper": 5}
    for rows in ({"ts": [1]}, pa.table({"ts": [1]})):
        with pytest.raises(tg.TidegateError, match="left: expected Parquet files"):
            tg.tasks(tg.interval_join, rows, folders[1], **bounds)
    plain = tmp_path / "plain.parquet"
    for has_statistics in (True, False):
        pq.write_table(pa.table({"ts": [1, None]}), plain, write_statistics=has_statistics)
        with pytest.raises(tg.SchemaError, match=r"`ts` contains null times in .*plain\.parquet"):
            tg.tasks(tg.interval_join, plain, folders[1], **bounds)
    pq.write_table(pa.table({"ts": [1, 2]}), f"{folders[1]}/1.parquet")
    with pytest.raises(tg.TidegateError, match="there is no column `r`, which"):
        tg.tasks(tg.interval_join, folders[0], folders[1], **bounds)


def test_arguments_of_whole_calls_and_other_functions_are_refused(folders):
    with pytest.raises(TypeError, match="memory_limit applies to a whole call, not to its tasks"):
        tg.tasks(tg.interval_join, *folders, on="ts", lower=0, upper=5, memory_limit="1GB")
    with pytest.raises(TypeError, match="function: expected one of aggregate, aggregate_batches"):
        tg.tasks(tg.merge, folders, on="ts")
    with pytest.raises(TypeError, match="has no argument tolerance"):
        tg.tasks(tg.interval_join, *folders, on="ts", tolerance=5)


# Borders


def groups(*rows: tuple[int, int, int]) -> Groups:
    """Create row groups from a size, a first and a last time each."""
    size, first, last = np.array(rows, np.int64).reshape(-1, 3).T
    number = np.arange(len(size))
    return Groups(number, number, size, size, first, last, last)


def test_borders_divide_bytes_evenly_and_prefer_the_starts_of_row_groups():
    even = groups(*((100, 10 * at, 10 * at + 9) for at in range(100)))
    assert borders([even], 1000).tolist() == [100 * at for at in range(1, 10)]
    assert borders([even], 10**6).tolist() == []
    one = groups((1000, 0, 999))
    assert borders([one], 250).tolist() == [250, 500, 750]
    assert borders([one], 250, lambda times: (times - 7) // 100 * 100 + 7).tolist() == [
        207,
        407,
        707,
    ]
    assert borders([groups((1000, 5, 5))], 250).tolist() == []
    assert borders([groups()], 250).tolist() == []


@pytest.mark.parametrize("seed", SEEDS)
def test_each_slice_reads_the_row_groups_that_overlap_its_range(seed):
    chance = np.random.default_rng(seed)
    first = chance.integers(0, 100, 30)
    last = first + chance.integers(0, 40, 30)
    cut = np.unique(chance.integers(1, 130, 5))
    lower, upper = sorted(chance.integers(-20, 20, 2).tolist())
    ranges = Ranges.of(cut, lower, upper, own=bool(seed % 2))
    reads = ranges.reads(first, last)
    for number in range(len(cut) + 1):
        at = ranges.at(number)
        wanted = [i for i in range(30) if first[i] <= at.last and last[i] >= at.first]
        assert reads.of(number).tolist() == wanted
