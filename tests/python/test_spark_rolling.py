"""Rolling windows of DataFrames: the same rows as the native call."""

from collections import Counter

import pyarrow as pa
import pytest

import campaign
import spark_session
import tidegate
import tidegate.spark
from tidegate import agg

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
    stream = spark.readStream.format("rate").load()
    with pytest.raises(tidegate.TidegateError, match=r"use tidegate\.Rolling"):
        tidegate.spark.rolling(stream, on="timestamp", size="9s", aggs={"n": agg.count()})
    with pytest.raises(TypeError, match=r"write tidegate\.spark\.rolling\(\.\.\.\)"):
        tidegate.rolling(frame, on="ts", size="9s", aggs=AGGS)
