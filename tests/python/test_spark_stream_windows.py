"""Aggregations of streaming DataFrames: the rows of the aggregation of tables in all conditions."""

import sys

import pyarrow as pa
import pytest

import tidegate
from tidegate import agg

pytest.importorskip("google.protobuf", reason="Spark's stateful operators need protobuf")

from pyspark.errors import StreamingQueryException

import campaign
import streaming
import tidegate.spark
from cases import more, of_campaigns
from spark_session import settings, start
from tidegate.spark.worker.aggregate import in_order

pytestmark = pytest.mark.filterwarnings("ignore")

# For the second kind, aggregates of slices are stored.
IN_ORDER = {"n": agg.count(), "mean": agg.mean("v"), "last": agg.last("v", where="v > 3")}
IN_SLICES = {"n": agg.count(), "sum": agg.sum("v"), "most": agg.max("v", where="v > 30")}
SESSIONS = {"size": None, "advance": None, "session": "1500ms"}


LISTED = pa.table(
    {
        "window_start": pa.array(
            [1_700_000_000_000_000 + at * 3_000_000 for at in range(9)], pa.timestamp("us", "UTC")
        ),
        "window_end": pa.array(
            [1_700_000_004_000_000 + at * 4_000_000 for at in range(9)], pa.timestamp("us", "UTC")
        ),
    }
)


@pytest.fixture(scope="module")
def spark():
    session = start()
    with settings(session, **streaming.STORE):
        yield session


@pytest.mark.parametrize(
    ("aggs", "changed"),
    [
        (
            IN_SLICES,
            {"by": None, "advance": None, "offset": "1s", "where": "v <> 5", "closed": "right"},
        ),
        (IN_ORDER, {"by": None, "size": "1s", "advance": "400ms", "closed": "right"}),
        (IN_ORDER, {**SESSIONS, "session": tidegate.row.v % 5 * 700_000 + 1}),
        # The first row is at 17:13:20 in the session's time zone.
        (IN_SLICES, {"size": "2d", "advance": "1d", "offset": "17h13min28s"}),
        (IN_ORDER, {"size": "1d", "advance": None, "offset": "17h13min28s", "by": None}),
        (IN_SLICES, {"size": "1s", "advance": None, "empty": "last", "keep": "9s"}),
        (IN_ORDER, {"size": "1s", "advance": None, "by": None, "empty": "null", "keep": "9s"}),
        (IN_SLICES, {"size": None, "advance": None, "windows": LISTED}),
        *more(
            (IN_ORDER, {}),
            (IN_ORDER, SESSIONS),
            (IN_ORDER, {"by": ["k", "v"], "advance": "10s"}),
            (IN_SLICES, {"by": None}),
            (IN_SLICES, {"parallelism": "time", "size": "1s"}),
            (IN_SLICES, {**SESSIONS, "by": None}),
            (IN_SLICES, {"offset": "1s", "where": "v <> 5"}),
        ),
    ],
)
def test_rows_are_those_of_the_aggregation_of_tables(spark, tmp_path, aggs, changed):
    streaming.write(tmp_path, 2, seed=3 + len(changed))
    windows = streaming.aggregated(spark, tmp_path, aggs=aggs, **changed)
    # In update mode, no emitted row is ever updated, and only final rows are emitted.
    mode = "update" if aggs is IN_SLICES else "append"
    found = streaming.Sink(tmp_path, mode).drain(windows)
    native = {name: value for name, value in changed.items() if name != "parallelism"}
    if "d" in (native.get("size") or ""):
        native["zone"] = "America/New_York"
    streaming.check_windows(tmp_path, found, aggs=aggs, **native)


def test_complete_windows_of_rows_are_emitted(spark, tmp_path):
    streaming.write(tmp_path, 2, seed=12)
    query = {"on": "ts", "by": "k", "size": tidegate.rows(3), "aggs": IN_ORDER}
    left, _ = streaming.read(spark, tmp_path)
    text = tidegate.spark.explain(tidegate.spark.aggregate, left, **query, partitions=2)
    assert "emitted    once the watermark of the batch has passed the last row of a win" in text
    found = streaming.Sink(tmp_path).drain(tidegate.spark.aggregate(left, **query, partitions=2))
    [used] = streaming.on_time(tmp_path, "left")
    expected = tidegate.aggregate(in_order(used, "ts", days=False), **query)
    wanted = [row for row in expected.to_pylist() if row["n"] == 3]
    # The row that moves the watermark has no key.
    rows = [row for row in found.to_pylist() if row["last"] != streaming.END]
    assert sorted(map(repr, map(dict.values, rows))) == sorted(map(repr, map(dict.values, wanted)))
    assert len(rows) > 5


# `test_spark_cluster.py` kills the executor of an aggregation, with its workers.
@of_campaigns
@pytest.mark.skipif(sys.platform != "linux", reason="finds the workers in /proc")
@pytest.mark.parametrize(
    ("aggs", "changed"),
    [
        (IN_ORDER, {"by": ["k", "v"], "advance": "10s"}),
        *more((IN_SLICES, {}), (IN_ORDER, {}), (IN_ORDER, SESSIONS)),
    ],
)
def test_workers_that_are_killed_cost_no_row(spark, tmp_path, aggs, changed):
    streaming.write(tmp_path, 2, seed=3)
    killer = streaming.Killer(tmp_path, spark)
    found = killer.drain(streaming.aggregated(spark, tmp_path, aggs=aggs, **changed))
    assert killer.killed >= 4
    streaming.check_windows(tmp_path, found, aggs=aggs, **changed)


@of_campaigns
def test_a_query_that_is_stopped_goes_on_where_it_was(spark, tmp_path):
    streaming.write(tmp_path, 3, seed=4)
    found = streaming.Sink(tmp_path).stop_often(
        lambda: streaming.aggregated(spark, tmp_path, aggs=IN_SLICES), campaign.tries(1)
    )
    streaming.check_windows(tmp_path, found, restarted=True, aggs=IN_SLICES)


def test_a_query_goes_on_unless_it_is_another(spark, tmp_path):
    streaming.write(tmp_path, 2, seed=4)
    sink = streaming.Sink(tmp_path)

    def aggregated(**changed):
        query = {"aggs": IN_SLICES, "partitions": 1, **changed}
        return streaming.aggregated(spark, tmp_path, **query)

    # There is one task, because a failing query has tried each of its tasks four times.
    with settings(spark, spark__sql__shuffle__partitions=1):
        with streaming.held_back(tmp_path):
            # The first batch leaves state, because the watermark has passed none of its rows.
            sink.drain(aggregated())
        with pytest.raises(StreamingQueryException, match="state of another query"):
            sink.begin(aggregated(size="9s")).processAllAvailable()
        found = sink.drain(aggregated())
    streaming.check_windows(tmp_path, found, restarted=True, aggs=IN_SLICES)


def test_one_stream_and_what_follows_in_its_call(spark, tmp_path):
    streaming.write(tmp_path, 1, seed=6)
    left, _ = streaming.read(spark, tmp_path)
    query = {**streaming.WINDOWS, "aggs": IN_SLICES}
    counting = tidegate.spark.aggregate(
        left,
        **query,
        then=lambda batch: batch.select(["window_start", "n"]),
        then_schema="window_start timestamp, n long",
    )
    rows = streaming.Sink(tmp_path).drain(counting)
    assert rows.column_names == ["window_start", "n"]
    [used] = streaming.on_time(tmp_path, "left")
    expected = tidegate.aggregate(used.sort_by("ts"), **query)
    assert sum(rows["n"].to_pylist()) == sum(expected["n"].to_pylist()) > 0


def test_columns_and_types(spark, tmp_path):
    streaming.write(tmp_path, 1, seed=7)
    found = streaming.aggregated(spark, tmp_path, aggs=IN_SLICES)
    assert found.isStreaming
    assert found.dtypes == [
        ("window_start", "timestamp"),
        ("window_end", "timestamp"),
        ("k", "string"),
        ("n", "bigint"),
        ("sum", "bigint"),
        ("most", "bigint"),
        ("late", "struct<stream:int,row:struct<ts:timestamp,k:string,v:bigint>>"),
    ]
    assert all("spark.watermarkDelayMs" not in field.metadata for field in found.schema)


def test_explain_tells_what_is_kept_of_a_stream(spark, tmp_path):
    streaming.write(tmp_path, 1, seed=8)
    sides = streaming.read(spark, tmp_path)
    for aggs, kept in ((IN_ORDER, "kept       rows,"), (IN_SLICES, "kept       aggregates by")):
        text = tidegate.spark.explain(
            tidegate.spark.aggregate, sides, **streaming.WINDOWS, aggs=aggs
        )
        assert kept in text
        assert "by key: 2 buckets" in text
        assert "late rows  dropped" in text
        assert "parallelism='time', with a new checkpoint" in text


@pytest.mark.parametrize(
    ("changed", "division"),
    [
        ({"aggs": IN_SLICES}, "by a hash of time to 2 buckets, whose parts one task merges"),
        (
            {"aggs": IN_ORDER},
            "by time: slices 8 times as wide as the reach of pairs, in turn to 2 buckets",
        ),
        ({"aggs": IN_ORDER, **SESSIONS}, "by time: 1 slices in 1 partitions"),
        ({"aggs": IN_SLICES, "parallelism": "time"}, "by time: slices 8 times as wide"),
    ],
)
def test_explain_tells_how_windows_without_a_key_are_divided(spark, tmp_path, changed, division):
    streaming.write(tmp_path, 1, seed=8)
    query = {**streaming.WINDOWS, "by": None, **changed}
    sides = streaming.read(spark, tmp_path)
    assert division in tidegate.spark.explain(tidegate.spark.aggregate, sides, **query)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parallelism": "hybrid"}, "the heavy keys of a stream are not known"),
        ({**SESSIONS, "parallelism": "time"}, "a session cannot be divided"),
        ({"late_as": "n"}, "late_as: the result already has a column 'n'"),
        ({"then": lambda batch: batch, "then_schema": "a int"}, "give one of them"),
    ],
)
def test_unfit_arguments(spark, tmp_path, change, message):
    streaming.write(tmp_path, 1, seed=9)
    with pytest.raises(tidegate.TidegateError, match=message):
        streaming.aggregated(spark, tmp_path, **{"aggs": IN_SLICES, **change})


def test_a_stream_needs_a_watermark(spark, tmp_path):
    streaming.write(tmp_path, 1, seed=10)
    left, _ = streaming.read(spark, tmp_path)
    bare = spark.readStream.schema("k string, ts timestamp, v long").parquet(
        str(tmp_path / "right")
    )
    query = {**streaming.WINDOWS, "aggs": IN_SLICES}
    with pytest.raises(tidegate.TidegateError, match=r"streams\[1\]: column 'ts' has no watermark"):
        tidegate.spark.aggregate([left, bare], **query)


def test_a_stream_and_a_table_do_not_mix(spark, tmp_path):
    streaming.write(tmp_path, 1, seed=11)
    left, _ = streaming.read(spark, tmp_path)
    table = spark.read.parquet(str(tmp_path / "right"))
    query = {**streaming.WINDOWS, "aggs": IN_SLICES}
    for streams, message in (
        ([left, table], r"streams\[1\] is not a streaming DataFrame, but streams\[0\] is"),
        ([table, left], r"streams\[1\] is a streaming DataFrame, but streams\[0\] is not"),
    ):
        with pytest.raises(tidegate.TidegateError, match=message):
            tidegate.spark.aggregate(streams, **query)
    with pytest.raises(tidegate.TidegateError, match="has no late rows"):
        tidegate.spark.aggregate(table, **query, late_as="late")
