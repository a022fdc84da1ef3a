"""Joins of streaming DataFrames with one result row per left row: aggregates of partners, as-of.

Right rows with equal times arrive in descending order of their values.
"""

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tidegate
from tidegate import agg

pytest.importorskip("google.protobuf", reason="Spark's stateful operators need protobuf")

import campaign
import streaming
import tidegate.spark
from cases import more, of_campaigns
from spark_session import settings, start
from tidegate.spark.plan.join import Plan
from tidegate.spark.query.query import SparkQuery
from tidegate.spark.stream import join as stream_join
from tidegate.spark.stream.join import told as told_arguments
from tidegate.spark.worker.order import by_value
from tidegate.spark.worker.task import Call, Output

pytestmark = pytest.mark.filterwarnings("ignore")

# With this delay, no row is late.
LONG = 40_000

# Every time in the files is a multiple of this number of microseconds.
GRAIN = 1_000_000

AGGS = {"n": agg.count(), "first": agg.first("v"), "all": agg.collect("v"), "sum": agg.sum("w")}
NEAR = {**streaming.QUERY, "aggs": AGGS}
BAND = {**streaming.QUERIES["band_join"], "aggs": AGGS}
ASOF = {"on": "ts", "by": "k"}
NEAREST = {**ASOF, "strategy": "nearest", "tolerance": "2s"}


@pytest.fixture(scope="module")
def spark():
    session = start()
    with settings(session, **streaming.STORE, spark__sql__shuffle__partitions=2):
        yield session


def sides(spark, folder: Path, delay: int = LONG):
    """Read both folders as streams. The right one has a column `w`, which decreases on arrival."""
    left, right = (
        spark.readStream.schema("k string, ts timestamp, v long")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder / side))
        .withWatermark("ts", f"{delay} milliseconds")
        for side in streaming.SIDES
    )
    return left, right.selectExpr("k", "ts", "-v as w", "v")


def query(spark, folder: Path, join: str, delay: int = LONG, **arguments: Any):
    function = getattr(tidegate.spark, join)
    return function(*sides(spark, folder, delay), **{"partitions": 4, **arguments})


def check(folder: Path, found: pa.Table, join: str, late: set, **arguments: Any) -> None:
    """Check that the rows are those of the join of tables, without late rows."""
    left, right = streaming._used(streaming._files(folder), late)
    right = right.append_column("w", pc.negate(right["v"])).select(["k", "ts", "w", "v"])
    right = by_value(right, arguments["on"], right["ts"].cast(pa.int64()).to_numpy())
    expected = getattr(tidegate, join)(left, right, **arguments)
    names = expected.column_names
    rows = found.filter(pc.not_equal(found["v"], streaming.END)).select(names)
    assert rows.num_rows == expected.num_rows > 20
    found_rows, rows_of_tables = (
        sorted(map(repr, table.cast(expected.schema).to_pylist())) for table in (rows, expected)
    )
    assert found_rows == rows_of_tables


@pytest.mark.parametrize(
    ("join", "arguments", "spread"),
    [
        (
            "window_join",
            {"on": "ts", "by": "k", "window": "3s", "aggs": AGGS},
            {"parallelism": "hybrid"},
        ),
        ("band_join", {**BAND, "by": None, "how": "inner"}, {"partitions": 3}),
        *more(
            ("asof_join", NEAREST, {"parallelism": "time"}),
            ("asof_join", {**ASOF, "strategy": "forward", "how": "semi"}, {"partitions": 1}),
            ("interval_join", {**NEAR, "prevailing": True}, {}),
            ("asof_join", ASOF, {}),
        ),
    ],
)
def test_rows_are_those_of_the_join_of_tables(spark, tmp_path, join, arguments, spread):
    streaming.write(tmp_path, 2, seed=3, grain=GRAIN)
    found = query(spark, tmp_path, join, **arguments, **spread)
    check(tmp_path, streaming.Sink(tmp_path).drain(found), join, set(), **arguments)


@pytest.mark.parametrize(
    ("join", "arguments"),
    [
        ("interval_join", {**NEAR, "prevailing": True}),
        ("asof_join", ASOF),
        *more(("interval_join", NEAR)),
    ],
)
def test_late_rows_are_partners_of_none(spark, tmp_path, join, arguments):
    streaming.write(tmp_path, 2, seed=3, grain=GRAIN)
    stream = query(spark, tmp_path, join, streaming.DELAY, **arguments, late_as="late")
    found = streaming.Sink(tmp_path).drain(stream)
    late = streaming._late(streaming._files(tmp_path), restarted=False)
    marked = found.filter(pc.is_valid(found["late"])).to_pylist()
    assert sorted(row["late"] for row in marked) == sorted(side for side, _ in late)
    left = {("left", row["v"]) for row in marked if row["late"] == "left"}
    assert left == {row for row in late if row[0] == "left"} != set()
    # The aggregates contain no columns of a right row.
    of_right = {row["v_right"] for row in marked if "v_right" in row and row["late"] == "right"}
    assert of_right <= {v for side, v in late if side == "right"}
    check(tmp_path, found.filter(pc.is_null(found["late"])), join, late, **arguments)


# In `test_spark_state_left_rows.py`, buckets resume from a store.
@of_campaigns
@pytest.mark.parametrize(
    ("join", "arguments", "spread"),
    [
        ("asof_join", NEAREST, {"parallelism": "time"}),
        *more(("interval_join", {**NEAR, "prevailing": True}, {}), ("asof_join", ASOF, {})),
    ],
)
def test_a_query_that_is_stopped_goes_on_where_it_was(spark, tmp_path, join, arguments, spread):
    streaming.write(tmp_path, 3, seed=3, grain=GRAIN)
    found = streaming.Sink(tmp_path).stop_often(
        lambda: query(spark, tmp_path, join, **arguments, **spread), campaign.tries(1)
    )
    check(tmp_path, found, join, set(), **arguments)


# The store is that of the other joins. In `test_spark_state_left_rows.py`, buckets resume from it
# in another worker.
@of_campaigns
@pytest.mark.skipif(sys.platform != "linux", reason="finds the workers in /proc")
def test_workers_that_are_killed_cost_no_row(spark, tmp_path):
    streaming.write(tmp_path, 2, seed=4, grain=GRAIN)
    killer = streaming.Killer(tmp_path, spark)
    found = killer.drain(query(spark, tmp_path, "asof_join", **ASOF))
    assert killer.killed >= 4
    check(tmp_path, found, "asof_join", set(), **ASOF)


@pytest.mark.parametrize(
    ("join", "arguments", "words"),
    [
        ("interval_join", {**NEAR, "upper": None}, "no left row in a stream is ever final"),
        (
            "interval_join",
            {**NEAR, "prevailing": True, "parallelism": "hybrid"},
            "the prevailing row can be any distance before.*or give 'key'",
        ),
        ("asof_join", {**ASOF, "parallelism": "time"}, "any distance apart.*or give 'key'"),
        ("asof_join", {**ASOF, "parallelism": "broadcast"}, "a stream never ends"),
        ("asof_join", {**ASOF, "late_as": "v_right"}, "already has a column 'v_right'"),
        ("interval_join", {**NEAR, "how": "full"}, 'give "left" for all of them'),
    ],
)
def test_unfit_arguments(spark, tmp_path, join, arguments, words):
    streaming.write(tmp_path, 1, seed=5)
    with pytest.raises(tidegate.TidegateError, match=words):
        query(spark, tmp_path, join, **arguments)


def test_explain_tells_when_a_left_row_comes(spark, tmp_path):
    streaming.write(tmp_path, 1, seed=6)
    streams = sides(spark, tmp_path)
    text = tidegate.spark.explain(tidegate.spark.band_join, *streams, **BAND)
    assert "once the watermark of the batch has passed all of its possible partners" in text
    assert "right rows with equal times are ordered by value, starting with v" in text
    text = tidegate.spark.explain(tidegate.spark.asof_join, *streams, **ASOF)
    assert "a left row, once the watermark of the batch rules out" in text
    assert "by key: 2 buckets" in text
    more = {"tolerance": "1s", "where": "left.v < right.v", "parallelism": "time"}
    text = tidegate.spark.explain(tidegate.spark.asof_join, *streams, **ASOF, **more)
    assert "by time: slices 8 times as wide as the reach of pairs" in text


@pytest.mark.parametrize(
    ("join", "arguments", "lasting", "condenses"),
    [
        ("interval_join", NEAR, (2, 6), False),
        ("interval_join", {**NEAR, "prevailing": True}, (2, None), True),
        ("asof_join", ASOF, (0, None), True),
        ("asof_join", {**ASOF, "tolerance": "3s"}, (0, 3), True),
        ("asof_join", {**ASOF, "tolerance": "3s", "strategy": "nearest"}, (3, 6), True),
        ("asof_join", {**ASOF, "strategy": "forward"}, (None, None), True),
    ],
)
def test_rows_are_kept_while_a_left_row_may_need_them(
    spark, tmp_path, join, arguments, lasting, condenses
):
    streaming.write(tmp_path, 1, seed=7)
    plan = Plan.of(*sides(spark, tmp_path), SparkQuery.of(join, {"how": "left", **arguments}))
    call = Call(plan.query.native, Output((), None, None))
    work = stream_join._sides(plan, stream_join.layout(plan), call)
    kept = [None if time is None else time / 1_000_000 for time in work.lasting]
    assert (*kept,) == lasting
    assert work.condenses == condenses
    assert work.gives_left_rows
    assert work.ties == "ts"


def test_a_function_of_ones_own_is_known_again_by_its_name():
    def spread(lists):
        return lists

    def told(function, name="v"):
        return told_arguments({"aggs": {"a": agg.udf(function, [name], pa.int64())}, "on": "ts"})

    one = told(spread)
    assert "spread" in repr(one)
    assert " at 0x" not in repr(one)
    assert one != told(spread, "w")
    assert one != told(told)
    assert told_arguments({"aggs": {"a": agg.sum("v")}}) != told_arguments(
        {"aggs": {"a": agg.sum("w")}}
    )
