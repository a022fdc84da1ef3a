"""The calls on Sail, an engine that serves Spark Connect without Spark: the rows of native calls.

The tests need `pysail` and `pyspark-client`, which do not go together with `pyspark`.
`.github/scripts/test_sail.sh` runs them in a separate environment.
"""

import importlib.util
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pysail", reason="Sail is in a separate environment: make sail")

from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

import tidegate
import tidegate.spark
from spark_calls import (
    AGGS,
    COUNTS,
    LEFT,
    NEAR,
    RIGHT,
    VALUES,
    WINDOWS,
    counted,
    same,
    same_windows,
)
from tidegate import agg
from tidegate.spark.driver import division
from tidegate.spark.driver.join import in_partitions, told_by
from tidegate.spark.layout.costs import SAIL
from tidegate.spark.layout.layout import Reach, by_key
from tidegate.spark.plan.host import host_of
from tidegate.spark.plan.join import Plan
from tidegate.spark.query.query import SparkQuery

pytestmark = pytest.mark.filterwarnings("ignore")

HOWS = ["inner", "left", "right", "full", "semi", "anti"]


@pytest.fixture(scope="module")
def spark():
    from pysail.spark import SparkConnectServer  # noqa: PLC0415 - starts threads
    from pyspark.sql import SparkSession  # noqa: PLC0415 - as above

    server = SparkConnectServer(ip="127.0.0.1", port=0)
    server.start(background=True)
    _, port = server.listening_address
    session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
    yield session
    session.stop()
    server.stop()


@pytest.fixture(scope="module")
def sides(spark):
    return [spark.createDataFrame(table) for table in (LEFT, RIGHT)]


@pytest.fixture
def sampled(monkeypatch):
    """Sample half of the rows, so that heavy keys are split."""
    monkeypatch.setattr(division, "FRACTION", 0.5)
    monkeypatch.setattr(division, "PARTITION_CELLS", 3_000)


def test_pyspark_client_has_no_java():
    assert importlib.util.find_spec("py4j") is None
    script = "import sys, tidegate.spark; print('py4j' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_the_engine_is_asked_once(spark):
    host = host_of(spark)
    assert host.is_sail
    assert host.prices is SAIL
    assert not host.places_rows
    assert host.shuffled >= 1
    assert host_of(spark) is host


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("parallelism", ["auto", "key", "time", "hybrid", "bins", "broadcast"])
@pytest.mark.usefixtures("sampled")
def test_interval_join(sides, how, parallelism):
    if how == "full" and parallelism in {"bins", "broadcast"}:
        pytest.skip("a full join has neither form")
    same(sides, "interval_join", **NEAR, how=how, parallelism=parallelism)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("partitions", [1, 2, 7, 40])
@pytest.mark.usefixtures("sampled")
def test_any_number_of_partitions(sides, how, partitions):
    same(sides, "interval_join", **NEAR, how=how, parallelism="hybrid", partitions=partitions)


def test_workers_map_an_index(sides, tmp_path):
    tidegate.Index(RIGHT, on="ts", by="k").save(tmp_path / "right.index")
    index = tidegate.open_index(tmp_path / "right.index")
    same([sides[0], index], "interval_join", **NEAR)
    same([sides[0], index], "interval_join", **NEAR, aggs=AGGS)


@pytest.mark.parametrize("parallelism", ["auto", "key", "time", "bins"])
@pytest.mark.usefixtures("sampled")
def test_timestamps_and_texts(sides, parallelism):
    near = {"on": "at", "by": ["k", "text"], "lower": "-30s", "upper": "20s"}
    same(sides, "interval_join", **near, parallelism=parallelism)


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("parallelism", ["auto", "key", "time", "hybrid", "broadcast"])
@pytest.mark.usefixtures("sampled")
def test_asof_join(sides, how, parallelism):
    asked = {"on": "ts", "by": "k", "how": how, "parallelism": parallelism}
    same(sides, "asof_join", **asked)
    same(sides, "asof_join", **asked, strategy="nearest", tolerance=40)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("parallelism", ["auto", "key", "time", "hybrid"])
@pytest.mark.usefixtures("sampled")
def test_overlap_join(sides, how, parallelism):
    asked = {"on": ("ts", "end"), "by": "k"}
    same(sides, "overlap_join", **asked, how=how, parallelism=parallelism)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.usefixtures("sampled")
def test_band_join(sides, how):
    for by in ("k", None):
        same(sides, "band_join", on="x", within=0.5, by=by, how=how)


@pytest.mark.usefixtures("sampled")
def test_window_join(sides):
    same(sides, "window_join", on="ts", by="k", window=30, where="left.a < right.b")


@pytest.mark.parametrize("parallelism", ["auto", "key", "time", "hybrid", "broadcast"])
@pytest.mark.parametrize("lower", [-50, None])
@pytest.mark.usefixtures("sampled")
def test_aggregates_of_partners(sides, parallelism, lower):
    asked = {**NEAR, "lower": lower, "parallelism": parallelism}
    same(sides, "interval_join", **asked, aggs=AGGS)
    same(sides, "interval_join", **asked, aggs={"n": agg.count(), "most": agg.max("b")})


@pytest.mark.parametrize("parallelism", ["auto", "key", "time", "hybrid"])
@pytest.mark.parametrize("aggs", [COUNTS, VALUES], ids=["counts", "values"])
@pytest.mark.usefixtures("sampled")
def test_aggregate(sides, parallelism, aggs):
    same_windows(sides[0], **WINDOWS, aggs=aggs, parallelism=parallelism)


def test_sessions(sides):
    same_windows(sides[0], on="ts", by="k", session=60, aggs=COUNTS)


def test_then_runs_in_the_same_call(sides):
    def first(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.select(["a"])

    kept = {"then": first, "then_schema": "a bigint"}
    found = tidegate.spark.interval_join(*sides, **NEAR, **kept).toArrow()
    expected = tidegate.interval_join(LEFT, RIGHT, **NEAR, columns=["a"])
    assert counted(found) == counted(expected)


@pytest.mark.parametrize("how", ["right", "full"])
def test_keys_of_two_widths(spark, how):
    left, right = (pa.table({"k": pa.array(range(99), kind), "ts": range(99)}) for kind in WIDTHS)
    frames = [spark.createDataFrame(table) for table in (left, right)]
    asked = {"on": "ts", "by": "k", "lower": 0, "upper": 5, "how": how, "parallelism": "key"}
    same(frames, "interval_join", left=left, right=right, **asked)


WIDTHS = [pa.int32(), pa.int64()]


@pytest.mark.parametrize("partitions", [1, 2, 5, 16, 60])
def test_each_layout_partition_has_a_partition_of_sail(spark, partitions):
    """The rows would also be right if two shared one, but not the balance of the tasks."""
    assert len(told_by(spark, partitions)) == partitions
    layout = by_key(partitions, "right", Reach.of(0, 0))
    packs = spark.range(100 * partitions).selectExpr(f"cast(id % {partitions} as int) partition")
    placed = in_partitions(packs, layout).withColumn("task", F.spark_partition_id())
    found = {(row["partition"], row["task"]) for row in placed.collect()}
    assert len(found) == len({task for _, task in found}) == partitions


def test_partitions_that_share_one_give_the_same_rows(sides, monkeypatch):
    monkeypatch.setattr("tidegate.spark.driver.join.told_by", lambda *_: [0] * 7)
    same(sides, "interval_join", **NEAR, how="full", parallelism="key", partitions=7)


@pytest.mark.parametrize(
    "keys",
    [
        pa.array([float("nan"), -float("nan"), 0.0, -0.0, 1.5] * 20),
        pa.array([float("nan"), -float("nan"), 0.0, -0.0, 1.5] * 20, pa.float32()),
        pa.array([1, 2, 3, None, 5] * 20, pa.int16()),
        pa.array([True, False] * 50),
        pa.array([b"", b"a", None, b"\0", b"b"] * 20),
        pa.array([1, 2, 3, None, 5] * 20, pa.int32()).cast(pa.date32()),
        pa.array([1, 2, 3, None, 5] * 20, pa.timestamp("us")),
        pa.array([1, 2, 3, None, 5] * 20).cast(pa.decimal128(30, 2)),
    ],
    ids=lambda keys: str(keys.type),
)
def test_keys_of_other_types(spark, keys):
    table = pa.table({"k": keys, "ts": range(100)})
    frame = spark.createDataFrame(table)
    if pa.types.is_timestamp(keys.type):
        # The zone of the session is UTC.
        frame = frame.withColumn("k", F.col("k").cast("timestamp_ntz"))
    asked = {"on": "ts", "by": "k", "lower": -10, "upper": 10, "how": "full"}
    same([frame, frame], "interval_join", left=table, right=table, **asked, partitions=9)
    asked["how"] = "inner"
    bins = {**asked, "parallelism": "bins"}
    same([frame, frame], "interval_join", left=table, right=table, **bins)


@pytest.mark.parametrize("parallelism", ["key", "time", "bins"])
def test_sides_from_files_and_from_rows(spark, sides, tmp_path, parallelism):
    """Sail reads strings of files in another Arrow layout."""
    sides[1].write.parquet(str(tmp_path / "right"))
    right = spark.read.parquet(str(tmp_path / "right"))
    asked = {**NEAR, "by": ["text"], "how": "left", "parallelism": parallelism}
    same([sides[0], right], "interval_join", **asked)


def test_streams_are_refused(spark, sides):
    stream = spark.readStream.format("rate").load().withColumnRenamed("timestamp", "ts")
    with pytest.raises(tidegate.TidegateError, match=r"streams need Spark, but .* Sail"):
        tidegate.spark.aggregate(stream, on="ts", size="1s", aggs={"n": agg.count()})
    with pytest.raises(tidegate.TidegateError, match=r"streams need Spark, but .* Sail"):
        tidegate.spark.interval_join(stream, stream, on="ts", lower="-1s", upper="1s")
    asked = {"on": ("ts", "at"), "lower": "-1s", "upper": "1s", "parallelism": "broadcast"}
    with pytest.raises(tidegate.TidegateError, match=r"streams need Spark, but .* Sail"):
        tidegate.spark.interval_join(stream, sides[1], **asked)


def test_the_rows_of_a_sample_are_from_everywhere(spark):
    """Sail's `rand` repeats in every batch, and Sail does not sort by it."""
    count = 2_500_000
    frame = spark.range(count).selectExpr("id ts", "id % 8192 k")
    query = SparkQuery.of("interval_join", {"on": "ts", "by": "k", "lower": 0, "upper": 0})
    sample = division.sample_of_join(Plan.of(frame, frame, query, parallelism="auto"))
    assert sample.rows == pytest.approx(2 * count, rel=0.05)
    for hashes, times in (
        (sample.left_hash, sample.left_time),
        (sample.right_hash, sample.right_time),
    ):
        assert np.bincount(times * 10 // count, minlength=10).min() > 0.07 * len(times)
        assert len(np.unique(hashes)) > 0.5 * len(hashes)


def test_explain_tells_how_rows_are_placed(sides):
    text = tidegate.spark.explain(
        tidegate.spark.interval_join, *sides, **NEAR, parallelism="key", partitions=3
    )
    assert "by a number whose hash selects the partition" in text
