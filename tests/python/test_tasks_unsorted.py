"""Calls over files that are not in time order: preparations sort their rows before tasks run."""

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
from tidegate.io.destinations import names_in
from tidegate.slices.footers import Source
from tidegate.slices.task import Part

SEEDS = range(campaign.tries(12))
HOWS = ["inner", "left", "right", "full", "semi", "anti"]
SPAN = 2000
KINDS = [pa.int64(), pa.timestamp("us"), pa.timestamp("ms", "UTC"), pa.date32()]
# Sums of these values depend on the order in which they are added up.
VALUES = [None, 0.1, 0.7, 1e9, -3.3]
KEYS = [pa.string(), pa.dictionary(pa.int8(), pa.string())]


def table(chance: random.Random, kind: pa.DataType, rows: int) -> pa.Table:
    """Create rows in random order; some have the same time."""
    hot = chance.choice([0, 0, 0.3, 0.9])
    times = [700 if chance.random() < hot else chance.randrange(SPAN) for _ in range(rows)]
    storage = pa.int32() if kind == pa.date32() else pa.int64()
    keys = pa.array([chance.choice(["a", "b", "c", None]) for _ in times], pa.string())
    return pa.table(
        {
            "ts": pa.array(times, storage).cast(kind),
            "k": keys.cast(chance.choice(KEYS)),
            "x": pa.array([chance.choice(VALUES) for _ in times], pa.float64()),
            "row": range(rows),
            "tags": [[str(time)] * (time % 3) for time in times],
        }
    )


def written(rows: pa.Table, folder: Path, chance: random.Random) -> str:
    """Write rows to one to four files; some of them have no statistics, and some are sorted."""
    folder.mkdir(parents=True)
    cuts = sorted(chance.randrange(rows.num_rows + 1) for _ in range(chance.randrange(4)))
    parts = []
    for number, (start, stop) in enumerate(zip([0, *cuts], [*cuts, rows.num_rows], strict=True)):
        part = rows.slice(start, stop - start)
        if chance.random() < 0.2:
            part = part.sort_by("ts")
        statistics = chance.random() < 0.6
        size = chance.choice([30, 120])
        pq.write_table(
            part, folder / f"{number}.parquet", row_group_size=size, write_statistics=statistics
        )
        parts.append(part)
    return str(folder), pa.concat_tables(parts)


def prepared(plan) -> int:
    """Run pickled copies of the preparations twice in random order, and return their number."""
    chance = campaign.rng("order of preparations")
    count = 0
    for stage in plan.stages[:-1]:
        some = pickle.loads(pickle.dumps([*stage]))
        count += len(some)
        some *= 2
        chance.shuffle(some)
        for preparation in some:
            preparation.run()
    return count


def assert_same_rows(plan, whole: pa.Table) -> list[pa.Table]:
    """Run pickled copies of the tasks twice in random order, and compare their results."""
    tasks = pickle.loads(pickle.dumps([*plan.tasks])) * 2
    campaign.rng("order of tasks").shuffle(tasks)
    parts = {}
    for task in tasks:
        part = task.run().read_all()
        assert parts.setdefault(task.number, part).equals(part)
    found = [parts[number] for number in range(len(parts))]
    digests = [tg.Digest(plan.schema) for _ in found]
    for digest, part in zip(digests, found, strict=True):
        digest.update(part)
    added = plan.digest(digests)
    assert added.rows == whole.num_rows
    assert added.unordered == tg.digest(whole, ordered=False)
    return found


def bytes_read(plan) -> tuple[int, int]:
    """Return the number of bytes that tasks and that preparations read from their files."""
    of_tasks = 0
    for task in plan.tasks:
        inputs = task._inputs
        if task._needed is not None and not inputs[task._needed].read().num_rows:
            inputs = [inputs[task._needed]]
        of_tasks += sum(map(size_of, inputs))
    of_preparations = sum(size_of(one.rows) for stage in plan.stages[:-1] for one in stage)
    return of_tasks, of_preparations


def size_of(rows) -> int:
    return sum(size_of_part(part, rows.schema.names) for part in rows.parts)


def size_of_part(part: Part, columns: list[str]) -> int:
    footer = pq.read_metadata(part.file.path)
    size = 0
    for number in part.numbers:
        group = footer.row_group(number)
        for at in range(group.num_columns):
            if group.column(at).path_in_schema.split(".")[0] in columns:
                size += group.column(at).num_values * 8
    return size


def calls(chance: random.Random, kind: pa.DataType):
    """Draw the arguments of each join."""
    unit = "" if pa.types.is_integer(kind) else "d" if kind == pa.date32() else kind.unit
    length = lambda number: number if unit == "" else f"{number}{unit}"  # noqa: E731 - shorter
    lower = chance.choice([-9, -1, 0, 3])
    upper = lower + chance.choice([0, 4, 30])
    bounds = {"on": "ts", "by": "k", "lower": length(lower), "upper": length(upper)}
    aggs = {"n": tg.agg.count(), "sum": tg.agg.sum("x"), "last": tg.agg.last("row")}
    window = (length(3), length(4))
    for how in chance.sample(HOWS, 3):
        yield tg.interval_join, {**bounds, "how": how}
    yield tg.interval_join, {**bounds, "aggs": aggs}
    yield (
        tg.window_join,
        {
            "on": "ts",
            "window": window,
            "where": "left.k = right.k",
            "how": chance.choice(HOWS),
        },
    )
    band = {"on": "x", "within": 1.0, "time": "ts", "window": window}
    yield tg.band_join, {**band, "how": chance.choice(HOWS)}
    yield tg.band_join, {**band, "aggs": aggs}
    yield tg.interval_join, {**bounds, "aggs": aggs, "prevailing": True}
    yield tg.asof_join, {"on": "ts", "by": "k"}
    for strategy in ("backward", "forward", "nearest"):
        yield tg.asof_join, {"on": "ts", "by": "k", "strategy": strategy, "tolerance": length(7)}


@pytest.mark.parametrize("seed", SEEDS)
def test_tasks_return_the_rows_of_a_join(seed, tmp_path):
    chance = campaign.rng(f"joins of unsorted files {seed}")
    kind = chance.choice(KINDS)
    paths, tables = zip(
        *(
            written(table(chance, kind, chance.choice([1, 200, 600])), tmp_path / name, chance)
            for name in ("left", "right")
        ),
        strict=True,
    )
    slices = chance.choice([1, 3, 20])
    for function, arguments in campaign.some(chance, calls(chance, kind), 2):
        whole = function(*tables, **arguments)
        size = sum(task.size for task in tg.tasks(function, *paths, **arguments).tasks)
        target = max(1, size // slices)
        plan = tg.tasks(function, *paths, target=target, scratch=tmp_path, **arguments)
        prepared(plan)
        assert_same_rows(plan, whole)


@pytest.mark.parametrize("seed", SEEDS)
def test_tasks_return_the_windows_of_an_aggregation(seed, tmp_path):
    chance = campaign.rng(f"aggregations of unsorted files {seed}")
    kind = chance.choice(KINDS[:-1])
    unit = "" if pa.types.is_integer(kind) else kind.unit
    length = lambda number: number if unit == "" else f"{number}{unit}"  # noqa: E731 - shorter
    paths, tables = zip(
        *(written(table(chance, kind, 500), tmp_path / str(at), chance) for at in range(2)),
        strict=True,
    )
    size, advance = chance.choice([(10, 10), (30, 10), (3, 8)])
    windows = {"size": length(size), "advance": length(advance)}
    arguments = {
        "on": "ts",
        "by": "k",
        **chance.choice([windows, {"session": length(size)}]),
        "aggs": {"n": tg.agg.count(), "sum": tg.agg.sum("x"), "last": tg.agg.last("row")},
    }
    whole = tg.aggregate(tables, **arguments)
    for target in (10**9, 20_000, 3_000):
        plan = tg.tasks(tg.aggregate, paths, target=target, scratch=tmp_path, **arguments)
        prepared(plan)
        parts = assert_same_rows(plan, whole)
        assert pa.concat_tables(parts).equals(whole.cast(plan.schema))


@pytest.fixture
def folders(tmp_path):
    """Write two tables of 20,000 rows in random order, in 20 row groups each."""
    for name in ("left", "right"):
        (tmp_path / name).mkdir()
        times = np.random.default_rng(len(name)).permutation(20_000)
        rows = pa.table({"ts": times, name[0]: np.arange(20_000)})
        pq.write_table(rows, tmp_path / name / "0.parquet", row_group_size=1000)
    (tmp_path / "scratch").mkdir()
    return str(tmp_path / "left"), str(tmp_path / "right"), tmp_path / "scratch"


BOUNDS = {"on": "ts", "lower": -3, "upper": 5}


def test_tasks_read_each_row_about_once_after_sorting(folders):
    *paths, scratch = folders
    size = sum(task.size for task in tg.tasks(tg.interval_join, *paths, **BOUNDS).tasks)
    plan = tg.tasks(tg.interval_join, *paths, **BOUNDS, target=size // 20, scratch=scratch)
    assert 19 <= len(plan.tasks) <= 21
    # Each preparation reads two row groups of one side.
    assert 18 <= prepared(plan) <= 22
    of_tasks, of_preparations = bytes_read(plan)
    assert of_preparations == 2 * 20_000 * 16
    assert of_tasks <= 1.2 * of_preparations
    assert sum(task.size for task in plan.tasks) <= 1.2 * size
    assert max(task.size for task in plan.tasks) <= 1.5 * size / 20
    whole = tg.interval_join(*paths, **BOUNDS)
    assert_same_rows(plan, whole)


def test_pairs_are_in_the_order_of_the_files(folders):
    *paths, scratch = folders
    plan = tg.tasks(tg.interval_join, *paths, **BOUNDS, target=20_000, scratch=scratch)
    prepared(plan)
    assert len(plan.tasks) > 10
    for task in plan.tasks:
        part = task.run().read_all()
        places = list(zip(part["l"].to_pylist(), part["r"].to_pylist(), strict=True))
        assert places == sorted(places)


def test_only_row_groups_that_are_wide_in_time_are_sorted(tmp_path):
    times = np.arange(20_000)
    for at in range(10):
        of_file = times[at * 2000 : (at + 1) * 2000]
        if at == 4:
            of_file = np.append(of_file[:-1], 0)
        rows = pa.table({"ts": of_file, "x": of_file})
        pq.write_table(rows, tmp_path / f"{at}.parquet", row_group_size=500)
    size = sum(task.size for task in tg.tasks(tg.interval_join, tmp_path, tmp_path, **BOUNDS).tasks)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    paths = [str(tmp_path / "*.parquet")] * 2
    plan = tg.tasks(tg.interval_join, *paths, **BOUNDS, target=size // 10, scratch=scratch)
    # The tasks read less than twice the bytes of the files.
    assert len(plan.stages) == 1
    plan = tg.tasks(tg.interval_join, *paths, **BOUNDS, target=size // 20, scratch=scratch)
    assert len(plan.stages) == 2
    sorters = [*plan.stages[0]]
    assert all(part.numbers == (3,) for one in sorters for part in one.rows.parts)
    assert all("4.parquet" in part.file.path for one in sorters for part in one.rows.parts)
    prepared(plan)
    assert_same_rows(plan, tg.interval_join(*paths, **BOUNDS))


def test_a_plan_explains_what_is_sorted(folders):
    *paths, scratch = folders
    plan = tg.tasks(tg.interval_join, *paths, **BOUNDS, target=100_000, scratch=scratch)
    groups = Source.of(paths[0], "left").groups(["ts", "l"], plan._sides[0].times)
    size = f"{int(groups.size.sum()):,}"
    line = f"20 row groups are first sorted into 4 files: {size} bytes are read, written, and "
    assert line in plan.explain()


def test_a_plan_that_sorts_rows_needs_a_folder(folders):
    *paths, scratch = folders
    with pytest.raises(tg.TidegateError, match="left: its row groups contain rows from many"):
        tg.tasks(tg.interval_join, *paths, **BOUNDS, target=20_000)
    plan = tg.tasks(tg.interval_join, *paths, **BOUNDS, target=20_000, scratch=scratch)
    with pytest.raises(tg.TidegateError, match="has not been written yet or has been removed"):
        plan.tasks[0].run().read_all()
    assert [*scratch.iterdir()] == []
    scratch.rmdir()
    with pytest.raises(tg.TidegateError, match="cannot be written"):
        plan.stages[0][0].run()


def test_rows_are_sorted_in_an_object_store(folders, bucket):
    *paths, _ = folders
    scratch = "s3://key:secret@market/scratch"
    plan = tg.tasks(tg.interval_join, *paths, **BOUNDS, target=100_000, scratch=scratch)
    with pytest.raises(tg.TidegateError, match=r"s3://market/scratch/.*has not been written yet"):
        plan.tasks[0].run().read_all()
    names = {one.name for one in plan.stages[0]}
    assert prepared(plan) == len(names)
    assert names_in(plan.stages[0][0].folder) == names
    assert "secret" not in str(plan.stages[0])
    assert_same_rows(plan, tg.interval_join(*paths, **BOUNDS))


def test_other_files_are_never_taken_for_the_sorted_ones(folders):
    *paths, scratch = folders
    how = {"target": 20_000, "scratch": scratch}
    plan = tg.tasks(tg.interval_join, *paths, **BOUNDS, **how)
    names = {one.name for one in plan.stages[0]}
    assert names == {
        one.name for one in tg.tasks(tg.interval_join, *paths, **BOUNDS, **how).stages[0]
    }
    others = [
        tg.tasks(tg.interval_join, *paths, **{**BOUNDS, "upper": 6}, **how),
        tg.tasks(tg.interval_join, *paths, **BOUNDS, target=20_001, scratch=scratch),
        tg.tasks(tg.interval_join, ds.dataset(paths[0]), paths[1], **BOUNDS, **how, how="semi"),
    ]
    path = Path(paths[0]) / "0.parquet"
    pq.write_table(pq.read_table(path), path, row_group_size=1000)
    others.append(tg.tasks(tg.interval_join, *paths, **BOUNDS, **how))
    for other in others:
        assert names.isdisjoint(one.name for one in other.stages[0])
    with pytest.raises(tg.TidegateError, match=r"0\.parquet: the file has changed since the plan"):
        plan.stages[0][0].run()


def test_files_in_order_without_statistics_are_not_sorted(tmp_path):
    rows = pa.table({"ts": range(1000), "x": range(1000)})
    pq.write_table(rows, tmp_path / "0.parquet", row_group_size=10, write_statistics=False)
    plan = tg.tasks(tg.interval_join, tmp_path, tmp_path, **BOUNDS, target=3000)
    assert len(plan.stages) == 1
    assert len(plan.tasks) > 3
    assert max(task.row_groups for task in plan.tasks) < 100
    assert_same_rows(plan, tg.interval_join(rows, rows, **BOUNDS))
