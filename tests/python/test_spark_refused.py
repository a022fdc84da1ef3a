"""What cannot be joined or aggregated on Spark is refused, and the message says what to do."""

import sys
from pathlib import Path

import pandas as pd
import pytest
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException

pytest.importorskip("google.protobuf", reason="Spark's stateful operators need protobuf")

import streaming
import tidegate
import tidegate.spark
from spark_session import settings, start
from tidegate import agg

pytestmark = pytest.mark.filterwarnings("ignore")

BAND = {"on": "v", "within": 3}
WINDOWS = {**streaming.WINDOWS, "aggs": {"n": agg.count()}}


@pytest.fixture(scope="module")
def spark():
    session = start()
    with settings(session, **streaming.STORE):
        yield session


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    files = tmp_path_factory.mktemp("streams")
    streaming.write(files, 2, seed=1)
    return files


def test_what_is_no_dataframe(spark, folder):
    table = spark.read.parquet(str(folder / "left"))
    frame = pd.DataFrame({"ts": [1], "v": [2]})
    message = r"expected a DataFrame of Spark, got pandas\..*DataFrame: make one with spark.create"
    with pytest.raises(TypeError, match=f"right: {message}"):
        tidegate.spark.interval_join(table, frame, **streaming.QUERY)
    with pytest.raises(TypeError, match=f"left: {message}"):
        tidegate.spark.band_join(frame, table, **BAND)
    with pytest.raises(TypeError, match=rf"streams\[1\]: {message}"):
        tidegate.spark.aggregate([table, frame], **WINDOWS)


def test_a_session_of_spark_connect(spark, folder, monkeypatch):
    class Remote(type(spark.range(1))):
        pass

    table, other = (spark.read.parquet(str(folder / "left")) for _ in range(2))
    monkeypatch.setattr(other, "__class__", Remote)
    with pytest.raises(tidegate.TidegateError, match="left and right are of different sessions"):
        tidegate.spark.interval_join(table, other, **streaming.QUERY)


def test_sessions_of_one_spark_do_mix(spark, folder):
    other = spark.newSession().read.parquet(str(folder / "right"))
    mine = spark.read.parquet(str(folder / "left"))
    mixed = tidegate.spark.interval_join(mine, other, **streaming.QUERY, parallelism="key")
    right = spark.read.parquet(str(folder / "right"))
    alone = tidegate.spark.interval_join(mine, right, **streaming.QUERY, parallelism="key")
    assert mixed.count() == alone.count() > 0


@pytest.mark.parametrize("join", streaming.QUERIES)
def test_a_stream_and_a_table_do_not_mix(spark, folder, join):
    stream, _ = streaming.read(spark, folder)
    table = spark.read.parquet(str(folder / "right"))
    function, query = getattr(tidegate.spark, join), streaming.QUERIES[join]
    with pytest.raises(tidegate.TidegateError, match="left is a streaming DataFrame and right is"):
        function(stream, table, **query)
    with pytest.raises(tidegate.TidegateError, match="right is a streaming DataFrame and left is"):
        function(table, stream, **query)


@pytest.mark.parametrize("query", [streaming.joined, streaming.aggregated])
def test_an_output_mode_that_cannot_work(spark, folder, tmp_path, query):
    more = {"aggs": WINDOWS["aggs"]} if query is streaming.aggregated else {}
    writer = query(spark, folder, **more).writeStream.outputMode("complete").format("noop")
    with pytest.raises((AnalysisException, StreamingQueryException), match=r"(?i)output mode"):
        writer.option("checkpointLocation", str(tmp_path)).start().processAllAvailable()


def test_a_schema_that_has_changed_at_a_restart(spark, tmp_path):
    streaming.write(tmp_path, 2, seed=2)
    sink = streaming.Sink(tmp_path)
    with streaming.held_back(tmp_path):
        sink.drain(streaming.joined(spark, tmp_path))
    left, right = streaming.read(spark, tmp_path)
    changed = left.selectExpr("k", "ts", "v", "cast(v as int) as w")
    query = sink.begin(
        tidegate.spark.interval_join(changed, right, **streaming.QUERY, partitions=4)
    )
    with pytest.raises(StreamingQueryException, match="its columns, arguments, or number of"):
        query.processAllAvailable()


@pytest.fixture
def bare_python(spark, tmp_path, monkeypatch):
    """Workers whose Python lacks the package."""
    if sys.platform == "win32":
        pytest.skip("a shell script stands for the other Python")
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    hidden.joinpath("sitecustomize.py").write_text("import sys; sys.modules['tidegate'] = None\n")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={hidden}:$PYTHONPATH exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))


LACKING = "tidegate cannot be imported by .* install the same version for the Python of every"


@pytest.mark.usefixtures("bare_python")
def test_a_worker_whose_python_lacks_the_package(spark, folder):
    sides = (spark.read.parquet(str(folder / side)) for side in streaming.SIDES)
    with pytest.raises(PySparkException, match=LACKING):
        tidegate.spark.interval_join(*sides, **streaming.QUERY, parallelism="key").count()


@pytest.mark.usefixtures("bare_python")
def test_a_worker_of_a_stream_whose_python_lacks_the_package(spark, folder, tmp_path):
    sink = streaming.Sink(tmp_path)
    with pytest.raises((StreamingQueryException, PySparkException), match=LACKING):
        sink.drain(streaming.joined(spark, folder))
