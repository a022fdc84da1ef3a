"""Joins of two sides that Spark has partitioned by their keys: one pass, the native join's rows.

Other tests compare the native join with nested loops, and this file compares it with Spark's join.
"""

import datetime as dt
import functools
import itertools
from collections import Counter
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

import campaign
import spark_session
import tidegate
import tidegate.spark
from cases import grid, keys_of_all_types, more, of_campaigns
from tidegate import agg
from tidegate.spark.driver import division, in_place, overlap
from tidegate.spark.layout.costs import Asked, Costs, There, Width, of_rows
from tidegate.spark.plan.join import Plan
from tidegate.spark.query.query import SparkQuery
from tidegate.spark.worker.in_place import InPlaceTask

pytestmark = pytest.mark.filterwarnings("ignore")

NEAR = {"on": "ts", "by": "key", "lower": "-20s", "upper": "20s"}
STAYS = "  placed     rows stay in their partitions and are passed to Python once"


@pytest.fixture(scope="module")
def spark():
    return spark_session.start()


def events(seed: int, rows: int, **payload: pa.Array) -> pa.Table:
    """Create rows, half with one key and a tenth without, and names that the plan itself uses."""
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 9, rows)
    keys[rng.random(rows) < 0.5] = 1
    lacking = rng.random(rows) < 0.1
    seconds = rng.integers(0, 3_000, rows) * 1_000_000
    return pa.table(
        {
            "key": pa.array(keys, mask=lacking),
            "side": pa.array(range(rows), pa.int64()),
            "ts": pa.array(seconds, pa.timestamp("us", "UTC")),
            **payload,
        }
    )


LEFT = events(1, 300, s1=pa.array([f"text {row}" for row in range(300)]))
RIGHT = events(2, 250, k0=pa.array(np.arange(250) / 7), u0=pa.array([[row] for row in range(250)]))


def bucketed(frame: DataFrame, folder, name: str, *keys: str, buckets: int = 3) -> DataFrame:
    """Write the rows to a table with buckets."""
    writer = frame.write.option("path", str(folder / name)).mode("overwrite")
    writer.bucketBy(buckets, *keys).saveAsTable(name)
    return frame.sparkSession.table(name)


def counting(frame: DataFrame, key: str) -> DataFrame:
    """Apply a window by key, for which Spark shuffles the rows."""
    rows = frame.withColumn("rows", F.count("*").over(Window.partitionBy(key)))
    return rows.where("rows > 0").drop("rows")


@pytest.fixture(scope="module")
def ways(spark, tmp_path_factory):
    """Return both sides for each way in which Spark may have partitioned them."""
    folder = tmp_path_factory.mktemp("buckets")
    left, right = (spark.createDataFrame(table) for table in (LEFT, RIGHT))
    found = {
        "buckets": tuple(
            bucketed(rows, folder, name, "key") for rows, name in ((left, "left"), (right, "right"))
        ),
        "cached": tuple(rows.repartition(5, "key").cache() for rows in (left, right)),
        "shuffled": tuple(rows.repartition(4, "key") for rows in (left, right)),
        "windows": tuple(counting(rows, "key") for rows in (left, right)),
    }
    yield found
    for name in ("left", "right"):
        spark.sql(f"drop table {name}")


def counted(table: pa.Table) -> Counter[str]:
    """Count equal rows, regardless of their order."""
    return Counter(map(repr, table.to_pylist()))


def joined(sides, function="interval_join", **query) -> DataFrame:
    """Join with rows that stay in their partitions; the plan calls Python once."""
    found = getattr(tidegate.spark, function)(*sides, **{"parallelism": "key", **query})
    assert passes(found) == ["tidegate_join"]
    return found


def passes(found: DataFrame) -> list[str]:
    """Return the Python functions in the physical plan."""
    plan = found._jdf.queryExecution().sparkPlan().toString()
    return [
        line.partition("MapInArrow ")[2].partition("(")[0]
        for line in plan.splitlines()
        if "MapInArrow" in line
    ]


def same(found: DataFrame, left=LEFT, right=RIGHT, function="interval_join", **query) -> None:
    """Assert that the DataFrame has the native join's columns and rows."""
    expected = getattr(tidegate, function)(left, right, **query)
    rows = found.toArrow()
    assert rows.column_names == expected.column_names
    assert counted(rows) == counted(expected)


@grid(
    how=["left", "right", "semi", "anti", *more("inner", "full")],
    way=["buckets", "cached", "shuffled", "windows"],
)
def test_rows_are_those_of_the_native_join(ways, how, way):
    query = {**NEAR, "how": how}
    same(joined(ways[way], **query), **query)


@pytest.mark.parametrize("way", ["buckets", *more("cached", "shuffled", "windows")])
def test_explain_says_that_rows_stay(ways, way):
    join = tidegate.spark.interval_join
    assert STAYS in tidegate.spark.explain(join, *ways[way], **NEAR, parallelism="key")


# `test_spark` compares a join whose rows are sent.
@of_campaigns
@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_rows_are_those_of_sparks_own_join(ways, how):
    left, right = ways["buckets"][0], ways["buckets"][1].toDF("rkey", "rside", "rts", "k0", "u0")
    near = F.expr("rts between ts - interval 20 seconds and ts + interval 20 seconds")
    expected = left.join(right, (F.col("key") == F.col("rkey")) & near, how)
    query = {"on": ("ts", "rts"), "by": {"key": "rkey"}, "lower": "-20s", "upper": "20s"}
    found = joined((left, right), **query, how=how)
    assert [f.dataType for f in found.schema] == [f.dataType for f in expected.schema]
    assert counted(found.toArrow()) == counted(expected.toArrow())


@grid(way=["windows", *more("buckets", "cached", "shuffled")], how=["full", *more("inner")])
def test_adaptive_plans_that_are_compiled_give_the_same_rows(spark, ways, way, how):
    """With these settings, Spark merges partitions of the `windows` sides."""
    with spark_session.settings(
        spark,
        spark__sql__adaptive__enabled=True,
        spark__sql__codegen__wholeStage=True,
        spark__sql__codegen__factoryMode="FALLBACK",
        spark__sql__shuffle__partitions=20,
    ):
        query = {**NEAR, "how": how}
        # These settings create new plans for the sides.
        sides = [rows.select("*") for rows in ways[way]]
        found = joined(sides, **query)
        same(found, **query)
        if way == "windows":
            assert "AQEShuffleRead coalesced" in found._jdf.queryExecution().toString()


FUNCTIONS = {
    "window_join": {"on": "ts", "by": "key", "window": "20s", "how": "full"},
    "band_join": {"on": "side", "by": "key", "within": 3},
    "asof_join": {"on": "side", "by": "key", "strategy": "nearest"},
    "overlap_join": {"on": ("side", "end"), "by": "key", "how": "left"},
}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_all_joins_have_rows_in_place(spark, function):
    tables = [
        table.append_column("end", pa.array(np.asarray(table["side"]) + np.arange(len(table)) % 9))
        for table in (LEFT, RIGHT)
    ]
    sides = [spark.createDataFrame(table).repartition(3, "key") for table in tables]
    query = FUNCTIONS[function]
    same(joined(sides, function, **query), *tables, function, **query)


def test_functions_of_partners_see_them_in_the_order_of_their_values(ways):
    query = {**NEAR, "aggs": {"n": agg.count(), "last": agg.last("k0")}, "columns": ["side"]}
    query |= {"where": "right.k0 > 3", "prevailing": True}
    left, right = LEFT, RIGHT.sort_by([("ts", "ascending"), ("key", "ascending")])
    order = [(name, "ascending") for name in ("ts", "key", "k0")]
    same(joined(ways["buckets"], **query), left, right.sort_by(order), **query)


def test_a_function_takes_the_result_in_the_same_pass(ways):
    def counted_by_key(batch: pa.RecordBatch) -> pa.Table:
        return pa.table(batch).group_by("key").aggregate([([], "count_all")])

    query = {**NEAR, "columns": ["key"], "parallelism": "key"}
    found = tidegate.spark.interval_join(
        *ways["buckets"], **query, then=counted_by_key, then_schema="key long, count_all long"
    )
    assert passes(found) == ["tidegate_join"]
    rows = found.groupBy("key").sum("count_all").toArrow().to_pylist()
    expected = tidegate.interval_join(LEFT, RIGHT, **NEAR)["key"].value_counts().to_pylist()
    assert {row["key"]: row["sum(count_all)"] for row in rows} == {
        row["values"]: row["counts"] for row in expected
    }


DAY = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
KEYS = {
    "tinyint": pa.array([0, 1, None, -3], pa.int8()),
    "bigint": pa.array([0, 2**63 - 1, None, -(2**63)], pa.int64()),
    "string": pa.array(["", "0", None, "é"]),
    "boolean": pa.array([False, True, None, True]),
    "binary": pa.array([b"", b"0", None, b"\xff"]),
    "date": pa.array([dt.date(1970, 1, 1), dt.date(2026, 1, 1), None, dt.date(1, 1, 1)]),
    "timestamp": pa.array([DAY, dt.datetime.fromtimestamp(0, dt.UTC), None, DAY]),
    "timestamp_ntz": pa.array([DAY, None, DAY, DAY], pa.timestamp("us")),
    "decimal": pa.array([Decimal("0.00"), Decimal("-1.50"), None, Decimal("9.99")]),
}


@pytest.mark.parametrize("kinds", [[*KEYS], *more(*([kind] for kind in KEYS))])
def test_keys_of_any_type_that_is_equal_by_its_bytes(spark, kinds):
    table = keys_of_all_types({kind: KEYS[kind].take(pa.array([*range(4)] * 3)) for kind in kinds})
    keys = [*kinds, "kind"]
    types = {"decimal": "decimal(3, 2)", "kind": "string"}
    schema = ", ".join(f"{key} {types.get(key, key)}" for key in keys)
    sides = [
        spark.createDataFrame(table, f"{schema}, ts long").repartition(3, *keys) for _ in range(2)
    ]
    query = {"on": "ts", "by": keys, "lower": -6, "upper": 6, "how": "full"}
    same(joined(sides, **query), table, table, **query)


def test_keys_that_are_equal_with_other_bytes_are_shuffled(spark):
    table = pa.table({"key": [0.0, -0.0, float("nan"), 1.0] * 5, "ts": range(20)})
    sides = [spark.createDataFrame(table).repartition(3, "key") for _ in range(2)]
    query = {"on": "ts", "by": "key", "lower": -6, "upper": 6, "parallelism": "key"}
    found = tidegate.spark.interval_join(*sides, **query)
    assert "tidegate_pack_left" in passes(found)
    del query["parallelism"]
    same(found, table, table, **query)


def test_two_keys_of_which_rows_are_partitioned_by_one_or_both(spark):
    table = LEFT.append_column("other", pa.array(np.arange(300) % 3))
    query = {"on": "ts", "by": ["key", "other"], "lower": "-90s", "upper": "90s", "how": "full"}
    for keys in (["other", "key"], *more(["key"], ["other"], ["key", "other"])):
        sides = [spark.createDataFrame(table).repartition(4, *keys) for _ in range(2)]
        same(joined(sides, **query), table, table, **query)
    sides = [spark.createDataFrame(table).repartition(4, *keys) for keys in (["key"], ["other"])]
    found = tidegate.spark.interval_join(*sides, **query, parallelism="key")
    assert "tidegate_pack_left" in passes(found)
    if campaign.ALL:
        same(found, table, table, **query)


def test_a_column_that_is_in_two_pairs_of_keys(spark):
    table = LEFT.append_column("other", LEFT["key"])
    query = {"on": "ts", "by": [("key", "key"), ("key", "other")], "lower": "-9s", "upper": "9s"}
    left = spark.createDataFrame(table).repartition(4, "key", "key")
    right = spark.createDataFrame(table).repartition(4, "key", "other")
    found = tidegate.spark.interval_join(left, right, **query, parallelism="key")
    assert "tidegate_pack_left" in passes(found)
    same(found, table, table, **query)


REFUSED = {
    "another number": lambda left, right: (left.repartition(4, "key"), right.repartition(3, "key")),
    "another type": lambda left, right: (
        left.withColumn("key", F.col("key").cast("int")).repartition(4, "key"),
        right.repartition(4, "key"),
    ),
    "other columns": lambda left, right: (
        left.repartition(4, "key"),
        right.repartition(4, "side"),
    ),
    "one side only": lambda left, right: (left.repartition(4, "key"), right),
    "no hash": lambda left, right: (left.repartition(4), right.repartition(4)),
    "a key made since": lambda left, right: tuple(
        rows.repartition(4, "key").withColumn("key", F.col("key") % 3) for rows in (left, right)
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_sides_that_are_not_partitioned_alike_are_shuffled(spark, case):
    left, right = (spark.createDataFrame(table) for table in (LEFT, RIGHT))
    found = tidegate.spark.interval_join(*REFUSED[case](left, right), **NEAR, parallelism="key")
    assert sorted(passes(found)) == ["tidegate_join", "tidegate_pack_left", "tidegate_pack_right"]


def test_a_number_of_partitions_that_sides_do_not_have(ways):
    query = {**NEAR, "parallelism": "key"}
    found = tidegate.spark.interval_join(*ways["buckets"], **query, partitions=7)
    assert "tidegate_pack_left" in passes(found)
    found = tidegate.spark.interval_join(*ways["buckets"], **query, partitions=3)
    assert passes(found) == ["tidegate_join"]


def test_a_union_that_keeps_no_partitions(spark, ways):
    """Spark 4.0 has no union that keeps partitions, and a setting of later versions prevents it."""
    with spark_session.settings(spark, spark__sql__unionOutputPartitioning=False):
        sides = [rows.select("*") for rows in ways["buckets"]]
        found = tidegate.spark.interval_join(*sides, **NEAR, parallelism="key")
        assert "tidegate_pack_left" in passes(found)
        if campaign.ALL:
            same(found, **NEAR)


def test_a_setting_that_changes_after_the_call_changes_no_row(spark, ways):
    query = {**NEAR, "how": "full"}
    found = joined([rows.select("*") for rows in ways["buckets"]], **query)
    for settings in (
        {"spark__sql__sources__bucketing__enabled": False},
        *more({"spark__sql__unionOutputPartitioning": False}),
    ):
        with spark_session.settings(spark, **settings, spark__sql__adaptive__enabled=True):
            same(found.select("*"), **query)


def test_a_null_time_is_found_by_the_task_that_meets_it(spark):
    left = LEFT.set_column(2, "ts", pa.array([None] * 300, LEFT["ts"].type))
    sides = [spark.createDataFrame(table).repartition(2, "key") for table in (left, RIGHT)]
    with pytest.raises(PySparkException, match="left: column `ts`, row 0: the time is null"):
        joined(sides, **NEAR).toArrow()


# The choice


ASKED = Asked(Width(4, 4, 8), measured=False, once=False)


def test_rows_stay_where_they_are_unless_tasks_are_many():
    assert of_rows((1e6, 1e6), ASKED, There(8, 5)).stays
    assert not of_rows((1e3, 1e3), ASKED, There(1_000, 5)).stays
    assert not of_rows((1e6, 1e6), ASKED, There(8, 50)).stays
    assert not Costs(1.0, 1.0).stays


def test_the_cheapest_of_all_forms():
    assert Costs(0.9, 1.0, None, 0.9).cheapest == "in place"
    assert Costs(0.7, 1.0, None, 0.9).cheapest == "bins"
    assert Costs(None, 1.0, 0.8, 0.9).cheapest == "whole"
    assert Costs(None, 1.0, None, 1.1).cheapest == "native"


def weighed(monkeypatch, times: float) -> None:
    """Let each sampled row represent `times` as many rows, so that no side is small."""
    sampled = division.sampled

    def heavier(*arguments):
        found, weight = sampled(*arguments)
        return found, weight * times

    for module in (division, overlap):
        monkeypatch.setattr(module, "sampled", heavier)
    monkeypatch.setattr(division, "FRACTION", 1.0)
    monkeypatch.setattr("tidegate.spark.driver.whole.LIMIT", -1)
    monkeypatch.setattr("tidegate.spark.driver.whole._SURE", -1)


@functools.cache
def even(spark, *, hot: bool = False):
    """Create two sides with 40 evenly distributed keys, or one hot key, in four partitions."""
    keys = np.full(400, 7) if hot else np.arange(400) % 40
    table = pa.table({"key": keys, "ts": np.arange(400), "end": np.arange(400) + 3})
    return table, [spark.createDataFrame(table).repartition(4, "key").cache() for _ in range(2)]


@pytest.mark.parametrize(
    ("function", "query"),
    [
        ("interval_join", {"on": "ts", "lower": -300, "upper": 300, "how": "full"}),
        ("overlap_join", {"on": ("ts", "end"), "how": "full"}),
        *more(
            ("asof_join", {"on": "ts"}),
            ("interval_join", {"on": "ts", "lower": -300, "upper": 300}),
            (
                "interval_join",
                {"on": "ts", "lower": -80, "upper": 80, "where": "left.end > right.ts"},
            ),
        ),
    ],
)
def test_auto_leaves_rows_of_even_keys_where_they_are(spark, monkeypatch, function, query):
    table, sides = even(spark)
    query = {"by": "key", **query}
    weighed(monkeypatch, 10_000)
    join = getattr(tidegate.spark, function)
    text = tidegate.spark.explain(join, *sides, **query)
    assert STAYS in text
    assert "by key: both sides are already divided by hash into 4 partitions" in text
    assert " s natively, " in text or " s of processor time natively, " in text
    assert " s in place" in text
    assert "rows that stay in their partitions are cheaper" in text
    found = join(*sides, **query)
    assert passes(found) == ["tidegate_join"]
    same(found, table, table, function, **query)


def test_auto_shuffles_rows_of_a_hot_key_and_rows_that_fill_a_worker(spark, monkeypatch):
    query = {"on": "ts", "by": "key", "lower": -300, "upper": 300, "how": "full"}
    weighed(monkeypatch, 10_000)
    _, sides = even(spark, hot=True)
    assert STAYS not in tidegate.spark.explain(tidegate.spark.interval_join, *sides, **query)
    _, sides = even(spark)
    # In `test_auto_leaves_rows_of_even_keys_where_they_are`, only a tenth of these rows stay. With
    # all rows, a task would hold more than a worker should.
    weighed(monkeypatch, 10)
    assert STAYS not in tidegate.spark.explain(tidegate.spark.interval_join, *sides, **query)


def test_auto_shuffles_few_rows_that_are_in_many_partitions(spark, monkeypatch):
    query = {"on": "ts", "by": "key", "lower": -300, "upper": 300, "how": "full"}
    weighed(monkeypatch, 2_000)
    _, sides = even(spark)
    many = [rows.repartition(20, "key") for rows in sides]
    assert STAYS in tidegate.spark.explain(tidegate.spark.interval_join, *sides, **query)
    text = tidegate.spark.explain(tidegate.spark.interval_join, *many, **query)
    assert STAYS not in text


def test_auto_shuffles_rows_that_are_partitioned_by_one_of_two_keys(spark, monkeypatch):
    """The sample has a hash of both keys, so it does not show how one of them is distributed."""
    weighed(monkeypatch, 10_000)
    _, sides = even(spark)
    query = {"on": "ts", "by": ["key", "end"], "lower": -300, "upper": 300, "how": "full"}
    assert STAYS not in tidegate.spark.explain(tidegate.spark.interval_join, *sides, **query)


def test_nothing_runs_to_see_how_rows_are_partitioned(spark, ways):
    plan = Plan.of(*ways["shuffled"], SparkQuery.of("interval_join", NEAR), parallelism="key")
    tracker = spark.sparkContext.statusTracker()
    spark.sparkContext.setJobGroup("in place", "")
    try:
        assert in_place.found(plan).partitions == 4
        assert not tracker.getJobIdsForGroup("in place")
    finally:
        spark.sparkContext.setJobGroup("", "")


# The task, without Spark


class Pairs:
    """A native call that returns both of its tables."""

    def run(self, left: pa.Table, right: pa.Table):
        yield left, right


@pytest.mark.parametrize("cuts", [[], [3], [1, 2, 5, 6], [*range(1, 9)]])
def test_rows_of_both_sides_and_of_none_in_any_order(cuts):
    batch = pa.RecordBatch.from_pydict(
        {
            "s0": pa.array([1, 2, 3, 4, 5, 6, 7, 8, 9]),
            "s1": pa.array(["a", None, None, "d", "e", None, "g", "h", "i"]),
            "s2": pa.array([None, 0.5, None, None, None, 1.5, None, None, None]),
            "side": pa.array([0, 1, None, 0, 0, 1, 0, 0, 0], pa.int8()),
        }
    )
    schemas = (
        pa.schema({"key": pa.int64(), "text": pa.string()}),
        pa.schema({"x": pa.float64(), "key": pa.int64()}),
    )
    task = InPlaceTask(schemas, ((0, 1), (2, 0)), Pairs(), None)
    ends = [0, *cuts, 9]
    batches = (batch.slice(a, b - a) for a, b in itertools.pairwise(ends))
    [(left, right)] = task.run(batches)
    assert left.to_pydict() == {"key": [1, 4, 5, 7, 8, 9], "text": list("adeghi")}
    assert right.to_pydict() == {"x": [0.5, 1.5], "key": [2, 6]}
    only_left = batch.filter(pa.array([True, *[False] * 8]))
    [(left, right)] = task.run(iter([only_left]))
    assert (len(left), right) == (1, schemas[1].empty_table())
    assert not [*task.run(iter([batch.slice(2, 1), batch.slice(0, 0)]))]
