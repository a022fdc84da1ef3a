"""Rolling windows of DataFrames: the same rows as the native call."""

from collections import Counter

import pyarrow as pa
import pytest

import campaign
import spark_session
import streaming
import tidegate
import tidegate.spark
from tidegate import agg
from tidegate.spark.worker.aggregate import in_order

pytestmark = pytest.mark.filterwarnings("ignore")

AGGS = {
    "n": agg.count(),
    "sum": agg.sum("number"),
    "mean": agg.mean("value"),
    "last": agg.last("name"),
    "values": agg.collect("number"),
    "double": agg.max("value * 2"),
}


@pytest.fixture(scope="module")
def spark():
    return spark_session.start()


def rows(count: int) -> pa.Table:
    draw = campaign.rng("rolling on Spark")
    return pa.table(
        {
            "ts": pa.array(
                [draw.randrange(99) * 1_000_000 for _ in range(count)], pa.timestamp("us", "UTC")
            ),
            "key": [draw.choice([1, 2, None]) for _ in range(count)],
            "number": [draw.randrange(9) for _ in range(count)],
            "value": [draw.random() for _ in range(count)],
            "name": [draw.choice("abc") for _ in range(count)],
        }
    )


@pytest.mark.parametrize("size", ["9s", tidegate.rows(4)])
def test_rows_are_those_of_the_native_call(spark, size):
    given = rows(300)
    frame = spark.createDataFrame(given).repartition(3)
    for by in ("key", None):
        # On Spark, rows with equal times are ordered by the values of the columns that are read.
        read = [name for name in given.column_names if by or name != "key"]
        ordered = given.sort_by([(name, "ascending") for name in read])
        query = {"on": "ts", "by": by, "size": size, "aggs": AGGS, "columns": ["number", "ts"]}
        found = tidegate.spark.rolling(frame, **query).toArrow()
        expected = tidegate.rolling(ordered, **query)
        assert found.column_names == expected.column_names
        lines = lambda table: Counter(map(repr, table.to_pylist()))  # noqa: E731 - one line
        assert lines(found.cast(expected.schema)) == lines(expected)


def test_what_is_refused(spark):
    frame = spark.createDataFrame(rows(3))
    with pytest.raises(tidegate.SchemaError, match="table: there is no column `k`"):
        tidegate.spark.rolling(frame, on="ts", by="k", size="9s", aggs=AGGS)
    with pytest.raises(TypeError, match="table"):
        tidegate.spark.rolling(rows(3), on="ts", size="9s", aggs=AGGS)
    with pytest.raises(tidegate.TidegateError, match="late_as: a call on tables has no late rows"):
        tidegate.spark.rolling(frame, on="ts", size="9s", aggs=AGGS, late_as="late")
    stream = spark.readStream.format("rate").load()
    with pytest.raises(tidegate.TidegateError, match="table: column 'timestamp' has no watermark"):
        tidegate.spark.rolling(stream, on="timestamp", size="9s", aggs={"n": agg.count()})
    with pytest.raises(TypeError, match=r"write tidegate\.spark\.rolling\(\.\.\.\)"):
        tidegate.rolling(frame, on="ts", size="9s", aggs=AGGS)


STREAMED = {"n": agg.count(), "mean": agg.mean("v"), "last": agg.last("v")}


@pytest.mark.parametrize(("size", "restarts"), [("4s", 0), (tidegate.rows(3), 1)])
def test_streams_return_the_rows_of_tables(spark, tmp_path, size, restarts):
    pytest.importorskip("google.protobuf", reason="Spark's stateful operators need protobuf")
    streaming.write(tmp_path, 2, seed=5)
    query = {"on": "ts", "by": "k", "size": size, "aggs": STREAMED}
    call = {**query, "late_as": "late", "partitions": 2}

    def rolling():
        return tidegate.spark.rolling(streaming.read(spark, tmp_path)[0], **call)

    with spark_session.settings(spark, **streaming.STORE):
        left, _ = streaming.read(spark, tmp_path)
        text = tidegate.spark.explain(tidegate.spark.rolling, left, **call)
        assert "emitted    once the watermark of the batch has passed a row" in text
        assert "late rows  marked in column 'late'" in text
        found = streaming.Sink(tmp_path).stop_often(rolling, restarts).to_pylist()
    [used] = streaming.on_time(tmp_path, "left")
    late = [row for row in found if row["late"]]
    assert {(row["n"], row["mean"], row["last"]) for row in late} == {(None, None, None)}
    wanted = tidegate.rolling(in_order(used, "ts", days=False), **query).to_pylist()
    rows = [row for row in found if not row.pop("late") and row["v"] != streaming.END]
    assert Counter(map(repr, map(dict.values, rows))) == Counter(
        map(repr, map(dict.values, wanted))
    )
    assert len(rows) > 20


def test_a_plan_shows_how_a_table_is_divided(spark):
    frame = spark.createDataFrame(rows(3))
    query = {"on": "ts", "size": "9s", "aggs": {"n": agg.count()}}
    text = tidegate.spark.explain(tidegate.spark.rolling, frame, by="key", **query)
    assert "divided    by key; one task processes all rows of a key" in text
    text = tidegate.spark.explain(tidegate.spark.rolling, frame, **query)
    assert "divided    not at all, because there is no key" in text
