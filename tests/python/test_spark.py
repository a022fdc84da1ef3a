"""Joins of Spark DataFrames: the rows of `tidegate.interval_join`, and of Spark's own join.

Spark runs here on one machine with two cores, so faults that only occur on a cluster are not
detected. Warnings of PySpark itself are ignored.
"""

import datetime as dt
import doctest
import gc
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark import TaskContext, cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import StructType

import spark_session
import tidegate
import tidegate.spark
from cases import grid, keys_of_all_types, more, of_campaigns
from tidegate.spark.driver import division, join
from tidegate.spark.layout.layout import Reach, by_key
from tidegate.spark.plan.host import Host
from tidegate.spark.plan.join import Plan
from tidegate.spark.query.query import SparkQuery
from tidegate.spark.query.schema import arrow
from tidegate.spark.worker.task import on_worker

pytestmark = pytest.mark.filterwarnings("ignore")

ROOT = Path(__file__).parents[2]
SECOND = dt.timedelta(seconds=1)


@pytest.fixture(scope="module")
def spark():
    return spark_session.start()


def events(seed: int, rows: int, payload: str) -> pa.Table:
    """Create rows, half with one key and a tenth without, and names that the plan might use."""
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 6, rows)
    keys[rng.random(rows) < 0.5] = 1
    lacking = rng.random(rows) < 0.1
    seconds = rng.integers(0, 3_000, rows) * 1_000_000
    return pa.table(
        {
            "key": pa.array(keys, mask=lacking),
            "ts": pa.array(seconds, pa.timestamp("us", "UTC")),
            "partition": pa.array(range(rows), pa.int64()),
            payload: pa.array([f"{payload}{row}" for row in range(rows)]),
        }
    )


LEFT, RIGHT = events(1, 300, "side"), events(2, 250, "pid")


@pytest.fixture(scope="module")
def sides(spark):
    """Return both tables, each in more Spark partitions than cores, some of them empty."""
    return tuple(spark.createDataFrame(t).repartition(5, "key").cache() for t in (LEFT, RIGHT))


def counted(table: pa.Table) -> Counter[str]:
    """Count equal rows, regardless of their order."""
    return Counter(map(repr, table.to_pylist()))


def same(found, left=LEFT, right=RIGHT, **arguments) -> None:
    """Assert that the DataFrame has the native join's columns and rows."""
    expected = tidegate.interval_join(left, right, **arguments)
    rows = found.toArrow()
    assert rows.column_names == expected.column_names
    assert counted(rows) == counted(expected)


def test_the_sides_test_something():
    pairs = tidegate.interval_join(LEFT, RIGHT, on="ts", by="key", lower="-20s", upper="20s")
    assert 300 < pairs.num_rows < 3_000
    assert LEFT["key"].null_count > 10
    full = tidegate.interval_join(
        LEFT, RIGHT, on="ts", by="key", lower="-20s", upper="20s", how="full"
    )
    assert full["partition"].null_count > 10
    assert full["partition_right"].null_count > 10


@grid(
    how=["inner", "right", "anti", *more("left", "full", "semi")],
    parallelism=["key", "time", "hybrid"],
)
def test_rows_are_those_of_the_native_join(sides, how, parallelism):
    query = {"on": "ts", "by": "key", "lower": "-20s", "upper": "20s", "how": how}
    found = tidegate.spark.interval_join(*sides, **query, parallelism=parallelism, partitions=4)
    same(found, **query)


@pytest.mark.parametrize("how", ["full", *more("inner", "left", "right", "semi", "anti")])
def test_rows_are_those_of_sparks_own_join(sides, how):
    left, right = sides[0], sides[1].toDF("rkey", "rts", "rpartition", "pid")
    near = F.expr("rts between ts - interval 20 seconds and ts + interval 20 seconds")
    expected = left.join(right, (F.col("key") == F.col("rkey")) & near, how)
    found = tidegate.spark.interval_join(
        left, right, on=("ts", "rts"), by={"key": "rkey"}, lower="-20s", upper="20s", how=how
    )
    assert found.columns == expected.columns
    assert [f.dataType for f in found.schema] == [f.dataType for f in expected.schema]
    assert counted(found.toArrow()) == counted(expected.toArrow())


# `test_no_whole_step_is_between_the_ends` also joins rows without a key.
@of_campaigns
@pytest.mark.parametrize("how", ["full", "left", "right", "anti"])
def test_without_a_key_time_alone_divides(sides, how):
    query = {"on": "ts", "lower": SECOND, "upper": 30 * SECOND, "how": how}
    same(tidegate.spark.interval_join(*sides, **query, partitions=4), **query)


@grid(
    bounds=[(None, "-40m"), *more(("5s", "5m"), ("40m", None), ("0s", "0s"), ("-30m", "-20m"))],
    parallelism=["time", *more("hybrid")],
)
def test_any_bounds(sides, bounds, parallelism):
    lower, upper = bounds
    query = {"on": "ts", "by": "key", "lower": lower, "upper": upper, "how": "full"}
    found = tidegate.spark.interval_join(*sides, **query, parallelism=parallelism, partitions=3)
    same(found, **query)


@pytest.mark.parametrize("how", ["full", *more("left", "right")])
def test_no_whole_step_is_between_the_ends(spark, how):
    """From one to 23 hours after a date there is no other date, so all rows stay unmatched."""
    days = pa.array([dt.date(2026, 1, day) for day in range(1, 29)])
    left, right = pa.table({"ts": days, "l": range(28)}), pa.table({"ts": days, "r": range(28)})
    query = {"on": "ts", "lower": "1h", "upper": "23h", "how": how}
    frames = (spark.createDataFrame(table) for table in (left, right))
    found = tidegate.spark.interval_join(*frames, **query, parallelism="time", partitions=4)
    same(found, left, right, **query)
    alone = tidegate.interval_join(left, right, **query)
    assert alone.num_rows == 28 * (1 + (how == "full"))


# `test_a_retried_task_gives_equal_rows` and `test_spark_partners` also have joins without a key.
@of_campaigns
@grid(how=["right", "full", *more("left")], parallelism=["time", "hybrid"])
def test_without_bounds(spark, how, parallelism):
    tables = [table.select(["key", "ts"]).slice(0, 60) for table in (LEFT, RIGHT)]
    query = {"on": "ts", "by": "key", "lower": None, "upper": None, "how": how}
    frames = (spark.createDataFrame(table) for table in tables)
    found = tidegate.spark.interval_join(*frames, **query, parallelism=parallelism, partitions=3)
    same(found, *tables, **query)


@pytest.mark.parametrize("closed", ["left", *more("both", "right", "neither")])
def test_closed(spark, closed):
    left = pa.table({"ts": [0, 0, 10, 2**63 - 1, -(2**63)]})
    right = pa.table({"rts": [-1, 0, 1, 5, 10, 11, 2**63 - 1, -(2**63)]})
    query = {"on": ("ts", "rts"), "lower": -1, "upper": 1, "closed": closed, "how": "full"}
    frames = (spark.createDataFrame(table) for table in (left, right))
    found = tidegate.spark.interval_join(*frames, **query, partitions=3)
    same(found, left, right, **query)


# The next test, and the as-of joins in `test_the_same_rows_whatever_spark_does`, use adaptive
# plans.
@of_campaigns
@pytest.mark.parametrize(
    ("partitions", "adaptive", "shuffled"),
    [(11, True, 20), (1, True, 2), (7, False, 7), (2, False, 50), (50, True, 1)],
)
def test_numbers_of_partitions_change_no_row(spark, sides, partitions, adaptive, shuffled):
    query = {"on": "ts", "by": "key", "lower": "-20s", "upper": "20s", "how": "full"}
    with spark_session.settings(
        spark, spark__sql__adaptive__enabled=adaptive, spark__sql__shuffle__partitions=shuffled
    ):
        found = tidegate.spark.interval_join(*sides, **query, partitions=partitions)
        same(found, **query)


@grid(adaptive=["true", *more("false")], how=["full", *more("inner")])
def test_before_spark_4_1_the_partition_number_travels(spark, sides, monkeypatch, how, adaptive):
    monkeypatch.setattr(join, "host_of", lambda _: Host(places_rows=False))
    query = {"on": "ts", "by": "key", "lower": "-20s", "upper": "20s", "how": how}
    with spark_session.settings(spark, spark__sql__adaptive__enabled=adaptive):
        found = tidegate.spark.interval_join(*sides, **query, parallelism="hybrid", partitions=7)
        same(found, **query)
    plan = found._sc._jvm.PythonSQLUtils.explainString(found._jdf.queryExecution(), "formatted")
    assert "REPARTITION" in plan


def test_a_retried_task_gives_equal_rows(spark):
    # A batch has at most 131,072 rows, and each of the two tasks has more pairs.
    rows = 700
    frame = spark.range(rows, numPartitions=3).selectExpr("id", "id % 10 as ts")

    def fails_twice(batch: pa.RecordBatch) -> pa.RecordBatch:
        attempt = TaskContext.get().attemptNumber()
        if attempt < 2 and batches:
            message = "planned failure after the first batch"
            raise RuntimeError(message)
        batches.append(batch.num_rows)
        return batch.append_column("attempt", pa.array([attempt] * batch.num_rows))

    batches: list[int] = []
    query = {"on": "ts", "lower": None, "upper": None, "columns": ["id", "id_right"]}
    found = tidegate.spark.interval_join(
        frame,
        frame,
        **query,
        partitions=2,
        parallelism="time",
        then=fails_twice,
        then_schema="id bigint, id_right bigint, attempt bigint",
    )
    table = found.toArrow()
    pairs = table["id"].to_numpy() * rows + table["id_right"].to_numpy()
    assert (np.sort(pairs) == np.arange(rows * rows)).all()
    assert set(table["attempt"].to_pylist()) == {2}


def half_on_one_key(rng: np.random.Generator) -> np.ndarray:
    keys = rng.integers(0, 1_000, 12_000)
    keys[::2] = 0
    return keys


# `test_spark_skew` counts the rows that tasks receive; this test counts the rows that they join.
@of_campaigns
def test_hot_keys_are_spread_over_the_partitions(spark, monkeypatch):
    monkeypatch.setattr(division, "FRACTION", 0.1)
    rng = np.random.default_rng(3)
    table = pa.table({"k": half_on_one_key(rng), "ts": rng.integers(0, 10_000_000, 12_000)})
    frame = spark.createDataFrame(table)
    query = {"on": "ts", "by": "k", "lower": -100, "upper": 100}

    def counting(batch: pa.RecordBatch) -> pa.RecordBatch:
        task = TaskContext.get().partitionId()
        return pa.RecordBatch.from_pydict({"task": [task], "rows": [batch.num_rows]})

    tasks = tidegate.spark.interval_join(
        frame,
        frame,
        **query,
        how="left",
        where="right.ts is null",
        parallelism="hybrid",
        partitions=8,
        then=counting,
        then_schema="task int, rows bigint",
    )
    # No rows match, so each left row is counted once, in its home partition.
    rows = {
        row.task: row.rows
        for row in tasks.groupBy("task").agg(F.sum("rows").alias("rows")).collect()
    }
    assert sum(rows.values()) == 12_000
    assert len(rows) == 8
    assert max(rows.values()) < 1.3 * 12_000 / 8
    text = tidegate.spark.explain(
        tidegate.spark.interval_join, frame, frame, **query, parallelism="hybrid", partitions=8
    )
    assert "of them cut by time" in text


def test_rows_find_their_partitions_by_hash(spark, monkeypatch):
    monkeypatch.setattr(join, "host_of", lambda _: Host(places_rows=False))
    layout = by_key(13, "right", Reach.of(0, 0))
    packs = spark.range(1300).selectExpr("cast(id % 13 as int) as partition")
    placed = join.in_partitions(packs, layout).withColumn("task", F.spark_partition_id())
    found = {(row["partition"], row["task"]) for row in placed.collect()}
    assert found == {(number, number) for number in range(13)}


MARCH = [dt.datetime(2026, 3, 8, 1, 0) + dt.timedelta(minutes=20 * i) for i in range(12)]  # noqa: DTZ001
NOVEMBER = [dt.datetime(2026, 11, 1, 4, 0) + dt.timedelta(minutes=20 * i) for i in range(15)]  # noqa: DTZ001
CLOCKS = {
    "timestamp": pa.array(MARCH + NOVEMBER, pa.timestamp("us", "UTC")),
    "timestamp_ntz": pa.array([*MARCH, *NOVEMBER, dt.datetime(1901, 1, 1)], pa.timestamp("us")),  # noqa: DTZ001
    "date": pa.array([moment.date() for moment in MARCH + NOVEMBER], pa.date32()),
    "int": pa.array(range(40), pa.int32()),
}


@grid(
    zone=["America/New_York", *more("Etc/UTC")],
    clock=["timestamp_ntz", *more("date", "timestamp", "int")],
)
def test_clocks_and_zones(spark, clock, zone):
    table = pa.table({"ts": CLOCKS[clock], "row": range(len(CLOCKS[clock]))})
    ends = (-1, 2) if clock == "int" else ("-1d", "1d") if clock == "date" else ("-20m", "40m")
    query = {"on": "ts", "lower": ends[0], "upper": ends[1], "how": "full"}
    with spark_session.settings(spark, spark__sql__session__timeZone=zone):
        frame = spark.createDataFrame(table, f"ts {clock}, row bigint")
        same(
            tidegate.spark.interval_join(frame, frame, **query, partitions=3), table, table, **query
        )


PAYLOADS = pa.table(
    {
        "ts": pa.array([1, 2, 3], pa.int64()),
        "decimal": pa.array([Decimal("1.50"), None, Decimal("-2.25")], pa.decimal128(20, 2)),
        "binary": pa.array([b"\x00\xff", b"", None], pa.binary()),
        "list": pa.array([[1, None], [], None], pa.list_(pa.int32())),
        "struct": pa.array(
            [{"a": "x", "b": dt.datetime(2026, 3, 8, 7, 30)}, None, {"a": None, "b": None}],  # noqa: DTZ001
            pa.struct([("a", pa.string()), ("b", pa.timestamp("us", "UTC"))]),
        ),
        "map": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
        "bool": pa.array([True, None, False]),
        "float": pa.array([1.5, float("inf"), None], pa.float32()),
        "length": pa.array(
            [dt.timedelta(seconds=1), None, dt.timedelta(days=-1)], pa.duration("us")
        ),
        "day": pa.array([dt.date(2026, 1, 1), None, dt.date(1900, 1, 1)]),
    }
)


def test_payloads_of_all_types(spark):
    frame = spark.createDataFrame(PAYLOADS)
    query = {"on": "ts", "lower": 0, "upper": 1, "how": "full"}
    found = tidegate.spark.interval_join(frame, frame, **query, partitions=2)
    same(found, PAYLOADS, PAYLOADS, **query)
    assert [f.dataType for f in found.schema][10:] == [f.dataType for f in frame.schema]


KEYS = {
    "string": pa.array(["a", "", None, "é", "b"]),
    "binary": pa.array([b"a", b"", None, b"\xff", b"b"]),
    "float": pa.array([0.0, -0.0, None, float("nan"), 1.5]),
    "decimal": pa.array(
        [Decimal("1.50"), Decimal("0.00"), None, Decimal("-1.00"), Decimal("2.00")]
    ),
    "date": pa.array([dt.date(2026, 1, day) for day in (1, 2, 3, 4)] + [None]),
    "boolean": pa.array([True, False, None, True, False]),
}


@pytest.mark.parametrize("kinds", [[*KEYS], *more(*([kind] for kind in KEYS))])
def test_keys_of_all_types(spark, kinds):
    table = keys_of_all_types({kind: KEYS[kind] for kind in kinds})
    other = table.take([*range(table.num_rows - 1, -1, -1)])
    query = {"on": "ts", "by": [*kinds, "kind"], "lower": -99, "upper": 99, "how": "full"}
    frames = (spark.createDataFrame(side) for side in (table, other))
    found = tidegate.spark.interval_join(*frames, **query, parallelism="key", partitions=5)
    same(found, table, other, **query)


@pytest.mark.parametrize("how", ["full", *more("inner")])
def test_keys_of_two_widths_meet(spark, how):
    left = pa.table({"k": pa.array(range(20), pa.int32()), "ts": range(20)})
    right = pa.table({"k": pa.array(range(10, 30), pa.int64()), "ts": range(10, 30)})
    query = {"on": "ts", "by": "k", "lower": 0, "upper": 0, "how": how}
    frames = (spark.createDataFrame(side) for side in (left, right))
    found = tidegate.spark.interval_join(*frames, **query, parallelism="key", partitions=7)
    same(found, left, right, **query)


def test_no_column_name_clashes_with_the_plans_own(spark):
    names = ["ts", "partition", "side", "slice", "home", "bucket", "time", "unmatchable"]
    names += ["u0", "a0", "c0", "l_", "r_", "x.y", "a`b", "draw", "hash", ""]
    table = pa.table({name: pa.array(range(9), pa.int64()) for name in names})
    frame = spark.createDataFrame(table)
    query = {"on": "time", "by": "partition", "lower": -1, "upper": 1, "how": "full"}
    same(
        tidegate.spark.interval_join(frame, frame, **query, parallelism="time", partitions=3),
        table,
        table,
        **query,
    )


@grid(empty=["right", *more("both", "left")], parallelism=["time", *more("auto")])
def test_empty_sides(spark, sides, empty, parallelism):
    left = LEFT.slice(0, 0) if empty != "right" else LEFT
    right = RIGHT.slice(0, 0) if empty != "left" else RIGHT
    frames = (
        sides[0].limit(0) if empty != "right" else sides[0],
        sides[1].limit(0) if empty != "left" else sides[1],
    )
    query = {"on": "ts", "by": "key", "lower": "-20s", "upper": "20s", "how": "full"}
    found = tidegate.spark.interval_join(*frames, **query, parallelism=parallelism, partitions=3)
    same(found, left, right, **query)


def nullable(frame) -> dict[str, bool]:
    return {field.name: field.nullable for field in frame.schema}


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("inner", {"k": False, "ts": False, "a": True, "ts_right": False}),
        ("left", {"k": False, "ts": False, "a": True, "ts_right": True}),
        ("right", {"k": False, "ts": True, "a": True, "ts_right": False}),
        ("full", {"k": False, "ts": True, "a": True, "ts_right": True}),
        ("semi", {"k": False, "ts": False, "a": True}),
        ("anti", {"k": False, "ts": False, "a": True}),
    ],
)
def test_nullability(spark, how, expected):
    left = spark.sql("select 1 as k, 10L as ts, cast(null as int) as a")
    right = spark.sql("select 1 as k, 10L as ts")
    found = tidegate.spark.interval_join(
        left, right, on="ts", by="k", lower=0, upper=0, how=how, parallelism="key"
    )
    assert nullable(found) == expected


def test_only_needed_columns_travel(sides):
    query = {
        "on": "ts",
        "by": "key",
        "lower": "-20s",
        "upper": "20s",
        "where": "left.side < right.pid and right.partition > 3",
        "how": "inner",
    }
    columns = ["partition_right", "key"]
    plan = Plan.of(*sides, SparkQuery.of("interval_join", query), columns=columns)
    assert plan.columns.left.names == ["key", "ts", "side"]
    assert plan.columns.right.names == ["key", "ts", "partition", "pid"]
    query["columns"] = columns
    same(tidegate.spark.interval_join(*sides, **query), **query)


def test_where_as_an_expression(sides):
    where = (tidegate.left["partition"] + 3 < tidegate.right["partition"]) & ~tidegate.right[
        "pid"
    ].is_null()
    query = {"on": "ts", "by": "key", "lower": "-20s", "upper": "20s", "where": where}
    for how in ("full", *more("anti")):
        same(tidegate.spark.interval_join(*sides, **query, how=how), **query, how=how)


def test_then_aggregates_in_the_call(sides):
    def partial(batch: pa.RecordBatch) -> pa.Table:
        groups = pa.table(batch).group_by("key").aggregate([("partition_right", "sum")])
        return groups.rename_columns(["key", "total"])

    query = {"on": "ts", "by": "key", "lower": "-20s", "upper": "20s"}
    partials = tidegate.spark.interval_join(
        *sides,
        **query,
        columns=["key", "partition_right"],
        then=partial,
        then_schema="key bigint, total bigint",
    )
    found = partials.groupBy("key").agg(F.sum("total").alias("total")).toArrow()
    pairs = tidegate.interval_join(LEFT, RIGHT, **query)
    expected = pairs.group_by("key").aggregate([("partition_right", "sum")])
    assert counted(found) == counted(expected.rename_columns(["key", "total"]))


def test_then_may_return_what_spark_does_not_take(sides):
    def coded(batch: pa.RecordBatch) -> pa.RecordBatch:
        names = batch.column("side").dictionary_encode()
        moments = batch.column("ts").cast(pa.timestamp("ns", "Asia/Tokyo"))
        return pa.RecordBatch.from_arrays([names, moments], names=["side", "ts"])

    query = {"on": "ts", "by": "key", "lower": "-20s", "upper": "20s", "columns": ["side", "ts"]}
    found = tidegate.spark.interval_join(
        *sides, **query, then=coded, then_schema="side string, ts timestamp"
    )
    same(found, **query)


def test_then_that_breaks_its_schema_is_named(sides):
    found = tidegate.spark.interval_join(
        *sides,
        on="ts",
        by="key",
        lower="-20s",
        upper="20s",
        then=lambda batch: batch,
        then_schema="other int",
    )
    with pytest.raises(PySparkException, match="`then` returned the columns"):
        found.collect()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"on": "tz"}, "tz"),
        ({"by": "kee"}, "kee"),
        ({"by": {"side": "partition"}}, "side"),
        ({"lower": "1m", "upper": "-1m"}, "lower"),
        ({"how": "outer"}, "how"),
        ({"columns": ["none"]}, "none"),
        ({"columns": []}, "columns"),
        ({"where": "left.nothing > 1"}, "nothing"),
        ({"partitions": 0}, "partitions"),
        ({"parallelism": "random"}, "parallelism"),
        ({"by": None, "parallelism": "hybrid"}, "by"),
        ({"then": lambda batch: batch}, "then_schema"),
        ({"then_schema": "a int"}, "then_schema"),
    ],
)
def test_errors_come_before_any_work(sides, change, message):
    query = {"on": "ts", "by": "key", "lower": "-20s", "upper": "20s", **change}
    with pytest.raises(tidegate.TidegateError, match=message):
        tidegate.spark.interval_join(*sides, **query)


def test_unfit_frames(spark, sides):
    twice = sides[0].select("ts", "key", "key")
    with pytest.raises(tidegate.SchemaError, match=r"left: .*key.*duplicated"):
        tidegate.spark.interval_join(twice, sides[1], on="ts", lower=0, upper=0)


@pytest.mark.parametrize("parallelism", ["time", *more("key")])
def test_a_null_time_is_refused_by_the_task(spark, parallelism):
    left = spark.createDataFrame([(1, 1), (None, 2)], "k int, ts int")
    right = spark.createDataFrame([(1, 1), (None, None)], "k int, ts int")
    found = tidegate.spark.interval_join(
        left, right, on="ts", by="k", lower=0, upper=0, parallelism=parallelism, partitions=2
    )
    with pytest.raises(PySparkException, match="ts"):
        found.collect()


def test_explain_names_the_division(sides):
    query = {"on": "ts", "by": "key", "lower": "-20s", "upper": "20s"}
    join = tidegate.spark.interval_join
    by_time = tidegate.spark.explain(join, *sides, **query, parallelism="time", partitions=4)
    assert "by time: 4 slices in 4 partitions" in by_time
    assert "threads    1" in by_time
    by_key = tidegate.spark.explain(join, *sides, **query, parallelism="key", partitions=4)
    assert "by key: 4 buckets in 4 partitions, none cut" in by_key
    with pytest.raises(TypeError, match="interval_join"):
        tidegate.spark.explain(tidegate.interval_join, *sides, **query)


def test_another_version_on_a_worker_is_refused(monkeypatch):
    work = on_worker(iter, "nothing")
    monkeypatch.setattr(tidegate, "__version__", "0.0.0")
    with pytest.raises(tidegate.TidegateError, match=r"0\.0\.0; install the same version"):
        next(work(iter(())))


def test_a_worker_without_the_package_says_so(tmp_path):
    script = tmp_path / "worker.py"
    script.write_text(
        "import pickle, sys\n"
        "sys.modules['tidegate'] = None\n"
        "work = pickle.load(open(sys.argv[1], 'rb'))\n"
        "next(work(iter(())))\n"
    )
    work = tmp_path / "work"
    work.write_bytes(cloudpickle.dumps(on_worker(iter, "nothing")))
    ran = subprocess.run(
        [sys.executable, script, work], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1
    assert f"{sys.executable} cannot import tidegate" in ran.stderr
    assert "PYSPARK_PYTHON" in ran.stderr


def test_a_worker_that_is_kept_sets_modules_aside_once(tmp_path):
    # Runs in a separate process, because the modules stay set aside.
    script = tmp_path / "worker.py"
    script.write_text(
        "import gc, os, pickle, sys\n"
        "work = pickle.load(open(sys.argv[1], 'rb'))\n"
        "def aside():\n"
        "    list(work(iter(())))\n"
        "    return gc.get_freeze_count()\n"
        "garbage = []\n"
        "os.environ.pop('SPARK_REUSE_WORKER', None)\n"
        "not_kept = aside()\n"
        "os.environ['SPARK_REUSE_WORKER'] = '1'\n"
        "first = aside()\n"
        "garbage.append(garbage)\n"
        "second = aside()\n"
        "import sqlite3\n"
        "print(not_kept, first > 10_000, second == first, aside() > second, gc.isenabled())\n"
    )
    work = tmp_path / "work"
    work.write_bytes(cloudpickle.dumps(on_worker(iter, "nothing")))
    ran = subprocess.run(
        [sys.executable, script, work], capture_output=True, text=True, check=True, timeout=100
    )
    assert ran.stdout == "0 True True True True\n"


def test_a_collection_of_garbage_after_a_task_looks_at_few_objects(spark, sides):
    # PySpark informs workers whether they are kept, and kept workers set their modules aside.
    query = {"on": "ts", "by": "key", "lower": "-20s", "upper": "20s", "parallelism": "key"}

    def counted(_: pa.RecordBatch) -> pa.Table:
        return pa.table({"aside": [gc.get_freeze_count()], "left": [len(gc.get_objects())]})

    schema = "aside long, left long"
    found = tidegate.spark.interval_join(*sides, **query, then=counted, then_schema=schema)
    rows = found.collect()
    assert rows
    assert all(row["aside"] > 10 * row["left"] for row in rows)


def test_sparks_pages_tell_what_is_done(spark, sides):
    tracker = spark.sparkContext._jsc.sc().statusStore()
    spark.sparkContext.setJobDescription("my own")
    arguments = {"on": "ts", "by": "key", "lower": "-20s", "upper": "20s"}
    found = tidegate.spark.interval_join(*sides, **arguments, parallelism="hybrid")
    assert spark.sparkContext.getLocalProperty("spark.job.description") == "my own"
    tidegate.spark.interval_join(*sides, **arguments, parallelism="broadcast")
    spark.sparkContext.setLocalProperty("spark.job.description", "")
    jobs = tracker.jobsList(None)
    described = [jobs.apply(number).description() for number in range(jobs.size())]
    texts = {text.get() for text in described if text.isDefined()}
    assert {"tidegate: sample keys and times", "tidegate: collect the right side"} <= texts
    plan = found._jdf.queryExecution().toString()
    for name in ("tidegate_pack_left", "tidegate_pack_right", "tidegate_join"):
        assert f"MapInArrow {name}(" in plan


@pytest.mark.parametrize("zone", ["America/New_York", *more("UTC")])
def test_arrow_types_are_those_that_spark_says(spark, zone):
    schema = StructType.fromDDL(
        "a boolean, b tinyint, c smallint, d int, e bigint, f float, g double, h decimal(9, 2), "
        "i string not null, j binary, k date, l timestamp, m timestamp_ntz not null"
    )
    nested = StructType.fromDDL("n array<struct<o: int, p: timestamp>>, q interval day to second")
    with spark_session.settings(spark, spark__sql__session__timeZone=zone):
        for kind in (schema, StructType([*schema, *nested])):
            said = spark.createDataFrame([], kind).toArrow().schema
            assert arrow(spark, kind).equals(said)


def test_the_examples_run(spark):
    names = {"spark": spark, "tidegate": tidegate}
    for module, least in ((tidegate.spark, 5), (tidegate.spark.joins, 10)):
        with (
            spark_session.unconfigured(spark),
            spark_session.settings(spark, spark__sql__shuffle__partitions=1),
        ):
            results = doctest.testmod(module, extraglobs=names)
        assert results.attempted >= least
        assert results.failed == 0


def test_the_examples_of_own_functions_run(spark):
    page = str(ROOT / "python" / "examples" / "own_functions.md")
    with spark_session.settings(
        spark, spark__sql__session__timeZone="UTC", spark__sql__shuffle__partitions=1
    ):
        results = doctest.testfile(page, module_relative=False, globs={"spark": spark})
    assert results.attempted >= 20
    assert results.failed == 0


@pytest.mark.parametrize("parallelism", ["broadcast", "bins", *more("key")])
def test_right_columns_whose_names_differ_by_case_alone_get_the_suffix(
    spark, tmp_path, parallelism
):
    left = spark.sql("select 1L as ts, 2 as Price, 3 as k")
    right = spark.sql("select 1L as ts, 4 as price, 5 as K, 6 as b")
    query = {"on": "ts", "lower": 0, "upper": 0, "parallelism": parallelism}
    found = tidegate.spark.interval_join(left, right, **query)
    assert found.columns == ["ts", "Price", "k", "ts_right", "price_right", "K_right", "b"]
    assert found.selectExpr("price", "price_right", "k", "k_right").collect() == [(2, 4, 3, 5)]
    found.write.parquet(str(tmp_path / "written"))
    chosen = tidegate.spark.interval_join(left, right, **query, columns=["price", "Price", "b"])
    assert chosen.collect() == [(4, 2, 6)]
    assert chosen.columns == ["price_right", "Price", "b"]
    with spark_session.settings(spark, spark__sql__caseSensitive="true"):
        found = tidegate.spark.interval_join(left, right, **query)
        assert found.columns == ["ts", "Price", "k", "ts_right", "price", "K", "b"]


def test_explain_says_that_later_filters_reach_no_scan(spark):
    frame = spark.range(100).selectExpr("id as ts")
    for parallelism, reaches in (("bins", True), ("broadcast", False), ("key", False)):
        query = {"on": "ts", "lower": 0, "upper": 0, "parallelism": parallelism}
        query |= {"by": "ts"} if parallelism == "key" else {}
        text = tidegate.spark.explain(tidegate.spark.interval_join, frame, frame, **query)
        assert ("after a join are not pushed down" in text) != reaches


def test_an_error_of_a_task_is_short_and_says_which_rows_a_number_counts(spark):
    left = spark.sql("select cast(null as bigint) as ts union all select 2L")
    query = {"on": "ts", "lower": 0, "upper": 0, "parallelism": "time"}
    with pytest.raises(PySparkException) as raised:
        tidegate.spark.interval_join(left, spark.range(9).selectExpr("id ts"), **query).collect()
    lines = str(raised.value).splitlines()
    assert len(lines) <= 6
    assert lines[-2].startswith("tidegate.TidegateError: left: column `ts`, row 0: the time is nul")
    assert lines[-1] == "Row numbers count the rows of a side within this Spark task."


def test_an_error_of_a_function_of_the_caller_has_its_lines(spark):
    def then(batch: pa.RecordBatch) -> pa.RecordBatch:
        return tidegate.interval_join(batch, batch, on="missing", lower=0, upper=0)

    frame = spark.range(9).selectExpr("id ts")
    query = {"on": "ts", "lower": 0, "upper": 0, "then": then, "then_schema": "ts bigint"}
    with pytest.raises(PySparkException, match="in then\n"):
        tidegate.spark.interval_join(frame, frame, **query).collect()
