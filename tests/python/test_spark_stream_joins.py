"""Window and band joins of streaming DataFrames: the rows of the joins of tables."""

import sys

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tidegate

pytest.importorskip("google.protobuf", reason="Spark's stateful operators need protobuf")

from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

import campaign
import streaming
import tidegate.spark
from cases import more, of_campaigns
from spark_session import settings, start

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def spark():
    session = start()
    with settings(session, **streaming.STORE):
        yield session


# The operator is that of interval joins, which `test_spark_stream_killed.py` kills and stops. In
# `test_spark_state.py`, buckets of band joins resume from a store, with every `how` of both joins.
CASES = [
    ("window_join", "anti", {"partitions": 8, "where": "left.v > right.v"}, 3),
    ("band_join", "left", {"by": None, "suffix": "_right"}, 2),
    *more(
        ("window_join", "full", {"partitions": 8, "where": "left.v > right.v"}, 3),
        ("window_join", "anti", {"partitions": 1, "window": "3s"}, 2),
        ("band_join", "semi", {"within": (30, 5)}, 1),
        ("window_join", "inner", {"partitions": 1}, 2),
        ("window_join", "left", {}, 3),
        ("window_join", "right", {"where": "left.v > right.v"}, 2),
        ("window_join", "full", {"partitions": 16}, 5),
        ("band_join", "inner", {}, 2),
        ("band_join", "left", {"partitions": 16}, 5),
        ("band_join", "right", {"by": None, "suffix": "_right"}, 2),
    ),
]


@pytest.mark.skipif(sys.platform != "linux", reason="finds the workers in /proc")
@pytest.mark.parametrize(("join", "how", "more", "shuffled"), CASES)
def test_rows_are_those_of_the_join_of_tables_though_workers_are_killed(
    spark, tmp_path, record_property, join, how, more, shuffled
):
    streaming.write(tmp_path, 2, seed=2 + len(how))
    killer = streaming.Killer(tmp_path, spark, daemon=campaign.ALL)
    with settings(spark, spark__sql__shuffle__partitions=shuffled):
        found = killer.drain(streaming.joined(spark, tmp_path, join, how=how, **more))
    assert killer.killed >= 4
    record_property("kills", (join, "worker", killer.killed))
    native = {name: value for name, value in more.items() if name != "partitions"}
    if more.get("by", "k") is None:
        found = found.drop_columns(["k_right"])
    streaming.check(tmp_path, found, join, how=how, **native)


@of_campaigns
@pytest.mark.parametrize("join", ["window_join", "band_join"])
def test_a_query_that_is_stopped_goes_on_where_it_was(spark, tmp_path, join):
    streaming.write(tmp_path, 3, seed=4)
    found = streaming.Sink(tmp_path).stop_often(
        lambda: streaming.joined(spark, tmp_path, join, how="left"), campaign.tries(1)
    )
    streaming.check(tmp_path, found, join, restarted=True, how="left")


def test_rows_that_are_too_wide_come_marked(spark, tmp_path):
    streaming.write(tmp_path, 1, seed=9)
    ends = {"lower": "-1s", "upper": "left.v % 7 * INTERVAL '1 second'"}
    found = streaming.Sink(tmp_path).drain(
        streaming.joined(spark, tmp_path, how="left", **ends, max_width="4s")
    )
    left, right = streaming.on_time(tmp_path, *streaming.SIDES)
    is_wide = left["v"].to_numpy() % 7 > 4
    rows = found.to_pylist()
    wide = {row["v"] for row in rows if row["late"] == "left wide"}
    assert wide == {*left["v"].to_numpy()[is_wide].tolist()} != set()
    expected = tidegate.interval_join(
        left.filter(pa.array(~is_wide)), right, **streaming.QUERY | ends, how="left"
    )
    results = [row for row in rows if not row["late"] and row["v"] != streaming.END]
    assert any(row["v_right"] for row in results)
    assert streaming._counted(results) == streaming._counted(expected.to_pylist())


@pytest.mark.parametrize(("how", "by"), [("full", "k"), ("left", None)])
def test_rows_with_a_start_and_an_end_are_joined_by_their_overlaps(spark, tmp_path, how, by):
    streaming.write(tmp_path, 2, seed=11)
    until = F.expr("ts + (abs(v) % 7) * INTERVAL '1' SECOND")
    sides = [frame.withColumn("until", until) for frame in streaming.read(spark, tmp_path)]
    query = {"on": ("ts", "until"), "by": by, "how": how}
    found = streaming.Sink(tmp_path).drain(
        tidegate.spark.overlap_join(
            *sides, **query, max_width="4s", late_as="late", partitions=3, closed="left"
        )
    )
    rows = found.to_pylist()
    tables = []
    for side, table in zip(
        ("left", "right"), streaming.on_time(tmp_path, *streaming.SIDES), strict=True
    ):
        lengths = table["v"].to_numpy() % 7
        ends = pc.add(table["ts"], pa.array(lengths * 1_000_000, pa.duration("us")))
        is_wide = lengths > 4
        tables.append(table.append_column("until", ends).filter(pa.array(~is_wide)))
        name = "v" if side == "left" else "v_right"
        wide = {row[name] for row in rows if row["late"] == f"{side} wide"}
        assert wide == {*table["v"].to_numpy()[is_wide].tolist()} != set()
    expected = tidegate.overlap_join(*tables, **query, closed="left")
    results = [
        row for row in rows if not row["late"] and streaming.END not in (row["v"], row["v_right"])
    ]
    assert any(row["v"] and row["v_right"] for row in results)
    assert streaming._counted(results) == streaming._counted(expected.to_pylist())


def test_streams_of_rows_with_an_end_need_a_width(spark, tmp_path):
    streaming.write(tmp_path, 1, seed=12)
    sides = [frame.withColumn("until", F.col("ts")) for frame in streaming.read(spark, tmp_path)]
    query = {"on": ("ts", "until"), "by": "k"}
    with pytest.raises(tidegate.TidegateError, match="max_width: a row can have any length, and"):
        tidegate.spark.overlap_join(*sides, **query)
    with pytest.raises(tidegate.TidegateError, match="open_ends: a row without an end"):
        tidegate.spark.overlap_join(*sides, **query, open_ends=True, max_width="4s")
    text = tidegate.spark.explain(tidegate.spark.overlap_join, *sides, **query, max_width="4s")
    assert "late rows  dropped, and rows that are longer than 4s" in text
    assert "state store" in text


def test_a_band_join_of_streams_needs_a_window(spark, tmp_path):
    streaming.write(tmp_path, 1, seed=5)
    sides = streaming.read(spark, tmp_path)
    with pytest.raises(tidegate.TidegateError, match="time: a band join of streams needs the time"):
        tidegate.spark.band_join(*sides, on="v", within=3)
    with pytest.raises(tidegate.TidegateError, match=r"rows\(5\) counts rows"):
        tidegate.spark.band_join(*sides, on="v", within=3, time="ts", window=tidegate.rows(5))


def test_explain_tells_how_a_band_join_is_kept(spark, tmp_path):
    streaming.write(tmp_path, 1, seed=6)
    text = tidegate.spark.explain(
        tidegate.spark.band_join, *streaming.read(spark, tmp_path), **streaming.QUERIES["band_join"]
    )
    assert "by key: 2 buckets" in text
    assert "state store" in text


def test_explain_tells_which_rows_are_too_wide(spark, tmp_path):
    streaming.write(tmp_path, 1, seed=7)
    ends = {"lower": "0s", "upper": "left.v % 7 * INTERVAL '1 second'", "max_width": "4s"}
    text = tidegate.spark.explain(
        tidegate.spark.interval_join, *streaming.read(spark, tmp_path), on="ts", by="k", **ends
    )
    assert "late rows  dropped, and rows with an end farther away than 4s" in text
