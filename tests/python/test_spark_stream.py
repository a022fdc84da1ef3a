"""Joins of streaming DataFrames: the rows of the join of tables, whenever a query stops."""

import re
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import tidegate

pytest.importorskip("google.protobuf", reason="Spark's stateful operators need protobuf")

from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

import campaign
import streaming
import tidegate.spark
from cases import more, of_campaigns
from spark_session import settings, start, unconfigured
from tidegate.spark.layout.hashed import hashed_to
from tidegate.spark.plan.session import shuffle_partitions

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def spark():
    session = start()
    with settings(session, **streaming.STORE):
        yield session


# In update mode, no emitted row is ever updated.
@pytest.mark.parametrize(
    ("how", "mode", "partitions"),
    [("inner", "append", 4), ("semi", "update", None), *more(("full", "append", 4))],
)
def test_rows_are_those_of_the_join_of_tables(spark, tmp_path, how, mode, partitions):
    streaming.write(tmp_path, 2, seed=2 + len(how))
    rows = streaming.joined(spark, tmp_path, how=how, partitions=partitions)
    rows = rows.withColumn("task", F.spark_partition_id())
    found = streaming.Sink(tmp_path, mode).drain(rows)
    streaming.check(tmp_path, found, how=how)
    assert set(found["task"].to_pylist()) == {0, 1}, "buckets are not spread over tasks"


@pytest.fixture
def kept(spark):
    """Return the session, and restore its settings afterwards."""
    with unconfigured(spark):
        yield spark


def test_the_example_of_the_manual_runs(kept, tmp_path):
    page = Path(__file__).parents[2] / "docs" / "spark.md"
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    at = next(at for at, block in enumerate(blocks) if "readStream" in block)
    example, progress, total, with_a_table = blocks[at : at + 4]
    times = pa.array([0, 1_000_000, 600_000_000], pa.timestamp("us", "UTC"))
    for name, column in [("trades", "price"), ("quotes", "bid")]:
        rows = pa.table({"ts": times, "sym": ["A", "A", "A"], column: [1.0, 2.0, 3.0]})
        (tmp_path / name).mkdir()
        pq.write_table(rows, tmp_path / name / "part.parquet")
    called = pa.table({"ts": times[:2], "sym": ["A", "A"], "name": ["Alpha", "Alpha Ltd"]})
    pq.write_table(called, tmp_path / "names.parquet")
    folders = re.compile(r'"(trades|quotes|priced|checkpoint|names.parquet)"')
    names = {"spark": kept, "tidegate": tidegate}
    exec(folders.sub(rf'"{tmp_path}/\1"', example), names)  # noqa: S102 - our code
    names["query"].processAllAvailable()
    exec(progress, names)  # noqa: S102 - our code
    fields = re.findall(r"(\w+)=", progress)
    every = [one["observedMetrics"] for one in names["query"].recentProgress]
    told = [row for metrics in every for row in metrics.values()]
    assert told
    assert all([*row.asDict()] == fields for row in told)
    exec(total, names)  # noqa: S102 - our code
    [call] = {name for metrics in every for name in metrics}
    found = pq.read_table(tmp_path / "priced")
    digest = tidegate.Digest(found.drop_columns("late"))
    digest.update(found.drop_columns("late"))
    assert names["total"](names["query"], call) == int(digest.sum, 16)
    names["query"].stop()
    found = found.to_pylist()
    assert sorted((row["price"], row["bid"]) for row in found) == [
        (1.0, 1.0),
        (2.0, 1.0),
        (2.0, 2.0),
    ]
    exec(folders.sub(rf'"{tmp_path}/\1"', with_a_table), names)  # noqa: S102 - our code
    (tmp_path / "named").mkdir()
    found = streaming.Sink(tmp_path / "named").drain(names["named"]).to_pylist()
    assert {(row["price"], row["name"]) for row in found} == {
        (1.0, "Alpha"),
        (2.0, "Alpha Ltd"),
        (3.0, "Alpha Ltd"),
    }


# One call has no key, and the other has the rows of a key in many buckets.
@pytest.mark.parametrize("how", ["full", *more("left", "right")])
def test_rows_are_divided_by_time(spark, tmp_path, how):
    streaming.write(tmp_path, 2, seed=2)
    calls = {"none": {"by": None}, "k": {"parallelism": "hybrid"}}
    columns = ["k", "ts", "v", "v_right"]
    without, with_a_key = (
        streaming.joined(spark, tmp_path, how=how, columns=columns, **call).withColumn(
            "call", F.lit(key)
        )
        for key, call in calls.items()
    )
    found = streaming.Sink(tmp_path).drain(without.union(with_a_key))
    for key, call in calls.items():
        rows = found.filter(pc.equal(found["call"], key))
        streaming.check(tmp_path, rows, how=how, by=call.get("by", "k"))


def test_the_progress_of_a_query_tells_its_rows_and_its_state(spark, tmp_path):
    streaming.write(tmp_path, 2, seed=3)
    sink = streaming.Sink(tmp_path)
    # Each of two calls in a query has its own metrics.
    one, other = (streaming.joined(spark, tmp_path, how="left", partitions=n) for n in (2, 3))
    query = sink.begin(one.union(other))
    query.processAllAvailable()
    told = [progress["observedMetrics"] for progress in query.recentProgress]
    query.stop()
    names = {name for metrics in told for name in metrics}
    assert len(names) == 2
    assert all(name.startswith("tidegate.interval_join ") for name in names)
    out = sink.all()
    late = out["late"].drop_null()
    results = out.filter(pc.is_null(out["late"])).drop_columns("late")
    twice = tidegate.Digest(results)
    twice.update(results)
    digests = []
    for name in sorted(names, key=lambda name: int(name.rpartition(" ")[2])):
        rows = [metrics[name].asDict() for metrics in told if name in metrics]
        read = sum(pq.read_table(tmp_path / side).num_rows for side in streaming.SIDES)
        assert sum(row["rows"] for row in rows) == read
        assert sum(row["late_rows"] for row in rows) == len(late) / 2 > 0
        assert max(row["buckets"] for row in rows) == 2 + len(digests)
        assert sum(row["result_rows"] for row in rows) == results.num_rows / 2 > 0
        digests.append(sum(int(row["digest"], 16) for row in rows) % 2**128)
        assert max(row["state_rows"] for row in rows) > rows[-1]["state_rows"] > 0
        assert all((row["state_bytes"] > 0) == (row["state_rows"] > 0) for row in rows)
        assert max(row["rows_of_fullest"] for row in rows) < max(row["rows"] for row in rows)
        assert {row["hot_key"] for row in rows} == {None}
    assert digests[0] == digests[1], "the rows depend on the number of buckets"
    assert sum(digests) % 2**128 == int(twice.sum, 16)


def test_a_silent_side_holds_nothing_back_if_spark_is_told_so(spark, tmp_path):
    streaming.write(tmp_path, 2, seed=7)
    for path in sorted((tmp_path / "right").iterdir())[1:]:
        path.unlink()
    with settings(spark, spark__sql__streaming__multipleWatermarkPolicy="max"):
        found = streaming.Sink(tmp_path).drain(streaming.joined(spark, tmp_path, how="left"))
    assert set(found["late"].to_pylist()) == {"left", None}
    late = found.filter(pc.equal(found["late"], "left"))["v"]
    results = found.filter(pc.is_null(found["late"])).drop_columns("late")
    left, right = (pq.read_table(tmp_path / side) for side in streaming.SIDES)
    left = left.filter(pc.invert(pc.is_in(left["v"], pa.array([*late.to_pylist(), streaming.END]))))
    expected = tidegate.interval_join(left, right, **streaming.QUERY, how="left")
    found_rows = Counter(tuple(row.values()) for row in results.to_pylist() if row["v"] > 0)
    assert found_rows == Counter(tuple(row.values()) for row in expected.to_pylist())


# `test_spark_stream_killed.py` kills a worker of the same join.
@of_campaigns
@pytest.mark.skipif(sys.platform != "linux", reason="finds the workers in /proc")
def test_workers_that_are_killed_cost_no_row(spark, tmp_path):
    streaming.write(tmp_path, 2, seed=3)
    killer = streaming.Killer(tmp_path, spark)
    found = killer.drain(streaming.joined(spark, tmp_path, how="full"))
    assert killer.killed >= 4
    streaming.check(tmp_path, found, how="full")


@of_campaigns
def test_a_query_that_is_stopped_goes_on_where_it_was(spark, tmp_path):
    streaming.write(tmp_path, 3, seed=4)
    found = streaming.Sink(tmp_path).stop_often(
        lambda: streaming.joined(spark, tmp_path, how="full"), campaign.tries(1)
    )
    streaming.check(tmp_path, found, restarted=True, how="full")


@pytest.mark.parametrize(
    ("buckets", "tasks"), [(1, 1), (2, 2), (7, 7), (64, 64), (50, 200), (48, 96), (3, 9)]
)
def test_each_bucket_has_a_task_of_its_own(spark, buckets, tasks):
    places = hashed_to(buckets)
    keys = spark.createDataFrame([(place,) for place in places], "place int")
    # This is how Spark places the keys of a stateful operator.
    found = keys.select(F.expr(f"pmod(hash(place), {tasks})")).toArrow().column(0).to_pylist()
    assert len({*found}) == buckets
    assert [task % buckets for task in found] == [*range(buckets)]


def test_buckets_are_as_many_as_the_tasks_of_a_micro_batch(spark, tmp_path):
    streaming.write(tmp_path, 1, seed=8)
    for tasks, expected in ((3, 3), (64, 64), (67, 64), (96, 48), (200, 50)):
        with settings(spark, spark__sql__shuffle__partitions=tasks):
            text = tidegate.spark.explain(
                tidegate.spark.interval_join, *streaming.read(spark, tmp_path), **streaming.QUERY
            )
        assert f"by key: {expected} buckets" in text


def test_a_host_may_let_spark_choose_the_number_of_tasks():
    session = SimpleNamespace(conf={"spark.sql.shuffle.partitions": "auto"})
    assert shuffle_partitions(session) == 200


# Without a number, the query is first refused, and then resumes with one.
@pytest.mark.parametrize("partitions", [None, *more(3)])
def test_a_query_goes_on_unless_it_is_another_or_has_another_number_of_buckets(
    spark, tmp_path, partitions
):
    streaming.write(tmp_path, 2, seed=4)
    sink = streaming.Sink(tmp_path)

    def joined(**changed):
        query = {"how": "full", "partitions": partitions, **changed}
        return streaming.joined(spark, tmp_path, **query)

    with streaming.held_back(tmp_path):
        # The first batch leaves state in every bucket, because the watermark has passed none of its
        # rows.
        sink.drain(joined())
    with pytest.raises(StreamingQueryException, match="state of another query"):
        sink.begin(joined(upper="3s")).processAllAvailable()
    # Spark itself resumes with the number of tasks in the checkpoint.
    with settings(spark, spark__sql__shuffle__partitions=5):
        if partitions is None:
            with pytest.raises(StreamingQueryException, match="write partitions=2"):
                sink.begin(joined()).processAllAvailable()
        found = sink.drain(joined(partitions=partitions or 2))
    streaming.check(tmp_path, found, restarted=True, how="full")


def test_what_follows_the_join_in_its_call(spark, tmp_path):
    streaming.write(tmp_path, 1, seed=6)
    counting = streaming.joined(
        spark,
        tmp_path,
        late_as=None,
        then=lambda batch: pa.record_batch({"rows": [batch.num_rows]}),
        then_schema="rows long",
    )
    rows = sum(streaming.Sink(tmp_path).drain(counting)["rows"].to_pylist())
    sides = streaming.on_time(tmp_path, *streaming.SIDES)
    assert rows == tidegate.interval_join(*sides, **streaming.QUERY).num_rows > 0


def test_columns_and_types(spark, tmp_path):
    streaming.write(tmp_path, 1, seed=7)
    found = streaming.joined(spark, tmp_path, columns=["v_right", "ts"], how="left")
    assert found.isStreaming
    assert found.dtypes == [("v_right", "bigint"), ("ts", "timestamp"), ("late", "string")]
    # The results are older than the watermark, so no later operator may use it.
    assert all("spark.watermarkDelayMs" not in field.metadata for field in found.schema)


def test_explain_tells_how_a_stream_is_kept(spark, tmp_path):
    streaming.write(tmp_path, 1, seed=8)
    text = tidegate.spark.explain(
        tidegate.spark.interval_join, *streaming.read(spark, tmp_path), **streaming.QUERY
    )
    assert "by key: 2 buckets" in text
    assert "state store" in text
    assert "hot keys   one task processes all rows of a key; parallelism='hybrid'" in text
    assert "'tidegate.interval_join' in the observed metrics" in text
    assert "tasks      " not in text
    with settings(spark, spark__sql__shuffle__partitions=200):
        text = tidegate.spark.explain(
            tidegate.spark.interval_join, *streaming.read(spark, tmp_path), **streaming.QUERY
        )
    assert "tasks      200 by spark.sql.shuffle.partitions" in text
    without = {**streaming.QUERY, "by": None}
    for query, division in (
        (without, "by time: slices 8 times as wide as the reach of pairs, in turn to 2 buckets"),
        ({**streaming.QUERY, "parallelism": "hybrid", "partitions": 5}, "by key and time: slices"),
        ({**without, "lower": None}, "by time: 1 slices in 1 partitions"),
    ):
        sides = streaming.read(spark, tmp_path)
        assert division in tidegate.spark.explain(tidegate.spark.interval_join, *sides, **query)
    assert "late rows  dropped" in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parallelism": "broadcast"}, "a stream never ends"),
        ({"parallelism": "hybrid", "lower": None}, "the rows of a pair can be any distance apart"),
        ({"late_as": "k"}, "late_as: the result already has a column 'k'"),
        ({"then": lambda batch: batch, "then_schema": "a int"}, "give one of them"),
        ({"on": ("ts", "v")}, "v"),
        ({"partitions": 0}, "partitions"),
    ],
)
def test_unfit_arguments(spark, tmp_path, change, message):
    streaming.write(tmp_path, 1, seed=9)
    with pytest.raises(tidegate.TidegateError, match=message):
        streaming.joined(spark, tmp_path, **change)


def test_a_stream_needs_a_watermark(spark, tmp_path):
    streaming.write(tmp_path, 1, seed=10)
    left, _ = streaming.read(spark, tmp_path)
    bare = spark.readStream.schema("k string, ts timestamp, v long").parquet(
        str(tmp_path / "right")
    )
    with pytest.raises(tidegate.TidegateError, match=r"right: column 'ts' has no watermark"):
        tidegate.spark.interval_join(left, bare, **streaming.QUERY)


def test_a_stream_needs_rocksdb(spark, tmp_path):
    streaming.write(tmp_path, 1, seed=11)
    other = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    store = dict.fromkeys(streaming.STORE, other)
    with settings(spark, **store), pytest.raises(tidegate.TidegateError, match="RocksDB"):
        streaming.joined(spark, tmp_path)


def test_tables_have_no_late_rows(spark):
    table = spark.createDataFrame([("a", 1)], "k string, ts long")
    with pytest.raises(tidegate.TidegateError, match="has no late rows"):
        tidegate.spark.interval_join(table, table, on="ts", lower=0, upper=0, late_as="late")
