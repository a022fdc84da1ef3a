"""Joins of a streaming DataFrame and a table: the rows of the joins of tables, emitted on arrival.

Each join runs twice: on all rows natively, and as a query over files that arrive one by one.
"""

from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

pytest.importorskip("google.protobuf", reason="Spark's stateful operators need protobuf")

import streaming
import tidegate
import tidegate.spark
from cases import more
from spark_session import settings, start
from tidegate import agg

pytestmark = pytest.mark.filterwarnings("ignore")

INTERVAL = streaming.QUERY
# Aggregates that depend on the order of right rows, and one right row that is far earlier.
AGGS = {"n": agg.count(), "last": agg.last("v"), "sum": agg.sum("v")}
ASOF = {"on": "ts", "by": "k", "where": "right.v % 2 = 0"}
SPANS = {"on": (("ts", "ts"), ("ts", "until")), "by": "k", "closed": "left"}

CASES = [
    ("interval_join", "right", {**INTERVAL, "how": "right"}),
    ("interval_join", "left", {**INTERVAL, "aggs": AGGS, "prevailing": True}),
    ("asof_join", "left", ASOF),
    ("overlap_join", "left", {**SPANS, "how": "anti"}),
    *more(
        ("interval_join", "left", {**INTERVAL, "how": "left"}),
        ("interval_join", "left", {**INTERVAL, "how": "semi"}),
        ("interval_join", "left", {**INTERVAL, "by": None, "upper": None}),
        ("interval_join", "right", {**INTERVAL, "where": "left.v > right.v"}),
        ("window_join", "left", {**streaming.QUERIES["window_join"], "how": "anti"}),
        ("window_join", "right", streaming.QUERIES["window_join"]),
        ("band_join", "left", {"on": "v", "within": 25, "by": "k", "how": "left"}),
        ("band_join", "right", {"on": "v", "within": 25, "by": "k", "how": "right"}),
        ("asof_join", "left", {**ASOF, "strategy": "nearest", "how": "anti"}),
        ("overlap_join", "right", {**SPANS, "on": (("ts", "until"), ("ts", "ts"))}),
        ("overlap_join", "left", {**SPANS, "aggs": AGGS}),
    ),
]


@pytest.fixture(scope="module")
def spark():
    session = start()
    with settings(session, **streaming.STORE):
        yield session


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write files of both sides with ends; times are whole seconds, many of them equal."""
    files = tmp_path_factory.mktemp("streams")
    streaming.write(files, 2, seed=12, grain=1_000_000)
    return files


def rows_of(folder, side):
    table = pa.concat_tables(map(pq.read_table, sorted((folder / side).iterdir())))
    return with_ends(table)


def with_ends(table):
    """Add an end some seconds after the time of each row."""
    micros = table["ts"].cast(pa.int64()).to_numpy()
    ends = micros + table["v"].to_numpy() % 5 * 1_000_000
    # The row that ends a stream has the value -1.
    return table.append_column("until", pa.array(ends, table["ts"].type))


def frames(spark, folder, stream):
    """Return the two sides, of which `stream` is a streaming DataFrame without a watermark."""
    sides = []
    for side in streaming.SIDES:
        if side == stream:
            frame = spark.readStream.schema("k string, ts timestamp, v long")
            frame = frame.option("maxFilesPerTrigger", 1).parquet(str(folder / side))
        else:
            frame = spark.read.parquet(str(folder / side))
        whole = F.expr("timestampadd(SECOND, cast(pmod(v, 5) as int), ts)")
        sides.append(frame.withColumn("until", whole))
    return sides


def counted(table):
    return Counter(repr([*row.values()]) for row in table.to_pylist())


@pytest.mark.parametrize(("join", "stream", "query"), CASES)
def test_rows_are_those_of_the_join_of_tables(spark, folder, tmp_path, join, stream, query):
    found = getattr(tidegate.spark, join)(*frames(spark, folder, stream), **query)
    assert found.isStreaming
    sink = streaming.Sink(tmp_path)
    table = sink.drain(found)
    assert len(sink.tables) == 3
    left, right = (rows_of(folder, side) for side in streaming.SIDES)
    if query.get("aggs") or join == "asof_join":
        # Right rows with equal times are ordered by their values, the first of which is the key.
        right = right.sort_by([("ts", "ascending"), ("k", "ascending"), ("v", "ascending")])
    expected = getattr(tidegate, join)(left, right, **query)
    assert table.column_names == expected.column_names
    assert expected.num_rows > 10
    assert counted(table.cast(expected.schema)) == counted(expected)


def test_a_query_that_is_stopped_goes_on_where_it_was(spark, folder, tmp_path):
    """A restarted query uses the table as it is at that time."""
    query = {**INTERVAL, "how": "left"}

    def make():
        return tidegate.spark.interval_join(*frames(spark, folder, "left"), **query)

    found = streaming.Sink(tmp_path).stop_often(make, 1)
    sides = (rows_of(folder, side) for side in streaming.SIDES)
    assert counted(found.drop(["until", "until_right"])) == counted(
        tidegate.interval_join(*sides, **query).drop(["until", "until_right"])
    )


def test_windows_of_the_result_go_by_the_watermark_of_the_stream(spark, folder, tmp_path):
    """Rows are not older than the watermark, so a stateful operator can follow in the query."""
    stream, table = frames(spark, folder, "left")
    found = tidegate.spark.interval_join(
        stream.withWatermark("ts", "60 seconds"),
        table,
        **INTERVAL,
        columns=["k", "ts", "v", "v_right"],
    )
    aggs = {"n": agg.count(), "sum": agg.sum("v_right")}
    windows = tidegate.spark.aggregate(found, on="ts", size="4s", by="k", aggs=aggs, partitions=2)
    result = streaming.Sink(tmp_path).drain(windows)
    pairs = tidegate.interval_join(
        *(rows_of(folder, side).filter(pa.compute.field("v") > 0) for side in streaming.SIDES),
        **INTERVAL,
    )
    expected = tidegate.aggregate(pairs.sort_by("ts"), on="ts", size="4s", by="k", aggs=aggs)
    assert expected.num_rows > 5
    assert counted(result.cast(expected.schema)) == counted(expected)


def test_explain_tells_the_job_and_when_rows_come(spark, folder):
    text = tidegate.spark.explain(
        tidegate.spark.interval_join, *frames(spark, folder, "right"), **INTERVAL
    )
    assert "jobs       before the result is used: collect the left side" in text
    assert "left is sent in full to every task" in text
    assert "right rows stay in their partitions" in text
    assert "in which the stream row arrives; this call reads the table once" in text


@pytest.mark.parametrize(
    ("join", "stream", "query", "message"),
    [
        (
            "interval_join",
            "left",
            {**INTERVAL, "how": "full"},
            r"^how='full': left is a stream, which never .* give how='inner' or how='left', or",
        ),
        (
            "window_join",
            "right",
            {**streaming.QUERIES["window_join"], "how": "semi"},
            r"^how='semi': right is a stream.*left is a table.*'inner' or how='right'",
        ),
        ("interval_join", "right", {**INTERVAL, "aggs": AGGS}, "^aggs: right is a stream.*make"),
        ("asof_join", "right", ASOF, "^an as-of join: right is a stream.*make the stream the left"),
        (
            "interval_join",
            "left",
            {**INTERVAL, "parallelism": "key"},
            "^parallelism 'key' divides the rows on both sides, but left is a stream, and right is",
        ),
        (
            "interval_join",
            "left",
            {**INTERVAL, "parallelism": "bins"},
            "^parallelism 'bins' divides.*leave it out",
        ),
        (
            "interval_join",
            "left",
            {**INTERVAL, "late_as": "late"},
            "^late_as: a join of a stream and a table has no late rows; leave it out",
        ),
        (
            "interval_join",
            "left",
            {**INTERVAL, "max_width": "1s"},
            "^max_width limits how long rows from two .* but here one side is a table.*leave it",
        ),
    ],
)
def test_what_is_refused(spark, folder, join, stream, query, message):
    with pytest.raises(tidegate.TidegateError, match=message):
        getattr(tidegate.spark, join)(*frames(spark, folder, stream), **query)


def test_a_large_table_is_sent_only_if_that_is_asked_for(spark, folder):
    stream, _ = frames(spark, folder, "left")
    large = spark.range(10_000_000).selectExpr("'a' as k", "timestamp_seconds(id) as ts", "id as v")
    message = r"^right has about 2.* MB, more than 64.0 MB, and left is a stream.*parallelism='bro"
    with pytest.raises(tidegate.TidegateError, match=message):
        tidegate.spark.interval_join(stream, large.where("v > 1"), **INTERVAL)


def test_a_row_without_a_time_is_found_by_its_task(spark, tmp_path):
    (tmp_path / "in").mkdir()
    lacking = pa.table([["a"], [None], [1]], schema=streaming.SCHEMA)
    pq.write_table(lacking, tmp_path / "in" / "0.parquet")
    stream = spark.readStream.schema("k string, ts timestamp, v long").parquet(str(tmp_path / "in"))
    table = spark.createDataFrame(pa.table([["a"], [0], [1]], schema=streaming.SCHEMA))
    found = tidegate.spark.interval_join(stream, table, **INTERVAL)
    with pytest.raises(StreamingQueryException, match="null"):
        streaming.Sink(tmp_path).drain(found)
