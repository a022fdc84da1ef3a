"""Interval joins of DataFrames with ends from columns: the rows of `tidegate.interval_join`."""

import random

import pyarrow as pa
import pytest

import spark_session
import tidegate
import tidegate.spark

pytestmark = pytest.mark.filterwarnings("ignore")


def table(name: str, seed: int) -> pa.Table:
    draw = random.Random(seed)  # noqa: S311 - for tests
    return pa.table(
        {
            "ts": [draw.randrange(1_000) for _ in range(300)],
            "near": [draw.choice([None, 1, 5, 30, 200]) for _ in range(300)],
            "k": [draw.choice("aab") for _ in range(300)],
            name: range(300),
        }
    )


LEFT, RIGHT = table("l", 1), table("r", 2)


@pytest.fixture(scope="module")
def spark():
    return spark_session.start()


ENDS = {
    "left": {"lower": -3, "upper": tidegate.left.near},
    "right": {"lower": "-right.near", "upper": "right.near"},
    "both": {"lower": "-left.near", "upper": tidegate.right.near},
}


@pytest.mark.parametrize(
    ("ends", "how", "parallelism", "by"),
    [
        ("left", "inner", "auto", "k"),
        ("right", "left", "time", "k"),
        ("both", "right", "hybrid", "k"),
        ("right", "full", "key", "k"),
        ("both", "anti", "time", None),
        ("left", "inner", "broadcast", None),
    ],
)
def test_rows_are_those_of_tables(spark, ends, how, parallelism, by):
    frames = [
        spark.createDataFrame(side.to_pylist(), schema)
        for side, schema in (
            (LEFT, "ts long, near long, k string, l long"),
            (RIGHT, "ts long, near long, k string, r long"),
        )
    ]
    columns = ["l"] if how == "anti" else ["l", "r"]
    query = {"on": "ts", "by": by, "how": how, "columns": columns, **ENDS[ends]}
    found = tidegate.spark.interval_join(*frames, **query, parallelism=parallelism)
    wanted = tidegate.interval_join(LEFT, RIGHT, **query).to_pylist()
    key = str
    assert sorted(map(tuple, found.collect()), key=key) == sorted(
        (tuple(row.values()) for row in wanted), key=key
    )


def test_bins_need_fixed_ends_and_streams_a_width(spark):
    frame = spark.createDataFrame([(1, 2)], "ts long, near long")
    with pytest.raises(tidegate.TidegateError, match="'bins' is not for this join"):
        tidegate.spark.interval_join(
            frame, frame, on="ts", lower=0, upper=tidegate.left.near, parallelism="bins"
        )
    rates = spark.readStream.format("rate").load().withWatermark("timestamp", "1 minute")
    query = {"on": "timestamp", "lower": "0s", "upper": "left.value * INTERVAL '1 second'"}
    with pytest.raises(tidegate.TidegateError, match="max_width: an end from columns may be any"):
        tidegate.spark.interval_join(rates, rates, **query)
    with pytest.raises(tidegate.TidegateError, match="max_width must not be negative, got -1"):
        tidegate.spark.interval_join(rates, rates, **query, max_width="-1s")
    with pytest.raises(tidegate.TidegateError, match="max_width: it bounds ends that are computed"):
        tidegate.spark.interval_join(rates, rates, **query | {"upper": "1s"}, max_width="1s")
    with pytest.raises(tidegate.TidegateError, match="max_width bounds what is kept of streams"):
        tidegate.spark.interval_join(frame, frame, on="ts", lower=0, upper=1, max_width=5)
