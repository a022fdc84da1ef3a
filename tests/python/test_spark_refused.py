"""Unsupported joins and aggregations on Spark are refused, and the message says what to do."""

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

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
    message = r"expected a Spark DataFrame, got pandas\..*DataFrame; create one with spark.crea"
    with pytest.raises(TypeError, match=f"right: {message}"):
        tidegate.spark.interval_join(table, frame, **streaming.QUERY)
    with pytest.raises(TypeError, match=f"left: {message}"):
        tidegate.spark.band_join(frame, table, **BAND)
    with pytest.raises(TypeError, match=rf"streams\[1\]: {message}"):
        tidegate.spark.aggregate([table, frame], **WINDOWS)


Q = {"on": "id", "lower": 0, "upper": 0}
SPARK = "a Spark DataFrame would be collected on the driver"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda df: tidegate.interval_join(df, df, **Q), "left: {}; write tidegate.spark.interval"),
        (
            lambda df: tidegate.interval_join_batches(pa.table({"id": [1]}), right=df, **Q),
            r"right: {}; write tidegate.spark.interval_join\(",
        ),
        (
            lambda df: tidegate.aggregate([df, df], on="id", size=1, aggs={"n": agg.count()}),
            "streams: {}; write tidegate.spark.aggregate",
        ),
        (
            lambda df: tidegate.merge([df], on="id"),
            r"streams: {}; if it is small, give its toArrow",
        ),
        (tidegate.digest, r"data: {}; if it is small, give its toArrow"),
        (lambda df: tidegate.IntervalJoin(df, df, **Q), r"left: {}; .* its limit\(0\).toArrow\(\)"),
        (
            tidegate.Merge(pa.schema([("id", pa.int64())]), on="id").sources[0].push,
            r"data: {}; call the function of `tidegate.spark`, or, .* toArrow\(\)",
        ),
        (
            lambda df: tidegate.explain(tidegate.interval_join, df, df, **Q),
            "left: {}; call the fun",
        ),
    ],
)
def test_functions_without_spark_collect_no_dataframe(spark, call, message):
    stream = spark.readStream.format("rate").load().selectExpr("value as id")
    for frame in (spark.range(3), stream):
        with pytest.raises(TypeError, match=message.format(SPARK)):
            call(frame)


def test_dataframes_of_pandas_on_spark():
    # With pandas 3, PySpark cannot import its own DataFrame class.
    kind = type("DataFrame", (), {"__module__": "pyspark.pandas.frame"})
    with pytest.raises(TypeError, match=r"write tidegate.spark.interval_join.* its to_spark\(\)"):
        tidegate.interval_join(kind(), kind(), **Q)
    with pytest.raises(
        TypeError, match=r"left: expected a Spark DataFrame, .*; give its to_spark\(\)"
    ):
        tidegate.spark.interval_join(kind(), kind(), **Q)
    merge = tidegate.Merge(pa.schema([("id", pa.int64())]), on="id")
    with pytest.raises(TypeError, match=r"give its to_spark\(\).toArrow\(\)"):
        merge.sources[0].push(kind())


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("lower", "interval 5 seconds", "lower: only Spark can evaluate .*; write a duration"),
        ("where", "v > 1", "where: only Spark can evaluate .*; write the condition, as SQL text"),
        ("on", "id", "on: only Spark can evaluate .*; write the name of a column"),
    ],
)
def test_columns_of_spark(spark, argument, value, message):
    frame = spark.range(3)
    for call, table in (
        (tidegate.spark.interval_join, frame),
        (tidegate.interval_join, pa.table({"id": [1]})),
    ):
        with pytest.raises(TypeError, match=message):
            call(table, table, **{**Q, argument: F.expr(value)})


def test_a_pyspark_that_is_too_old(tmp_path):
    (tmp_path / "pyspark.py").write_text("__version__ = '3.4.1'")
    code = "import sys; sys.path.insert(0, sys.argv[1]); import tidegate.spark"
    told = subprocess.run(
        [sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=False
    )
    last = told.stderr.splitlines()[-1]
    expected = "ImportError: tidegate.spark needs PySpark 4.0 or later, or 3.5 for tables only, "
    assert last.startswith(f"{expected}but this is 3.4.1; ")


def test_a_session_of_spark_connect(spark, folder, monkeypatch):
    class Remote(type(spark.range(1))):
        pass

    table, other = (spark.read.parquet(str(folder / "left")) for _ in range(2))
    monkeypatch.setattr(other, "__class__", Remote)
    with pytest.raises(tidegate.TidegateError, match="left and right belong to different session"):
        tidegate.spark.interval_join(table, other, **streaming.QUERY)


def test_sessions_of_one_spark_do_mix(spark, folder):
    other = spark.newSession().read.parquet(str(folder / "right"))
    mine = spark.read.parquet(str(folder / "left"))
    mixed = tidegate.spark.interval_join(mine, other, **streaming.QUERY, parallelism="key")
    right = spark.read.parquet(str(folder / "right"))
    alone = tidegate.spark.interval_join(mine, right, **streaming.QUERY, parallelism="key")
    assert mixed.count() == alone.count() > 0


@pytest.mark.parametrize("query", [streaming.joined, streaming.aggregated])
def test_an_output_mode_that_cannot_work(spark, folder, tmp_path, query):
    more = {"aggs": WINDOWS["aggs"]} if query is streaming.aggregated else {}
    writer = query(spark, folder, **more).writeStream.outputMode("complete").format("noop")
    with pytest.raises((AnalysisException, StreamingQueryException), match=r"(?i)output mode"):
        writer.option("checkpointLocation", str(tmp_path)).start().processAllAvailable()


def test_a_schema_that_has_changed_at_a_restart(spark, tmp_path):
    streaming.write(tmp_path, 1, seed=2)
    sink = streaming.Sink(tmp_path)
    # There is one task, because a failing query has tried each of its tasks four times.
    with settings(spark, spark__sql__shuffle__partitions=1):
        with streaming.held_back(tmp_path):
            sink.drain(streaming.joined(spark, tmp_path, partitions=1))
        left, right = streaming.read(spark, tmp_path)
        changed = left.selectExpr("k", "ts", "v", "cast(v as int) as w")
        query = sink.begin(
            tidegate.spark.interval_join(changed, right, **streaming.QUERY, partitions=1)
        )
        with pytest.raises(StreamingQueryException, match="its columns, arguments or number of"):
            query.processAllAvailable()


@pytest.fixture
def bare_python(spark, tmp_path, monkeypatch):
    """Use workers whose Python lacks the package."""
    if sys.platform == "win32":
        pytest.skip("the other Python is a shell script")
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    hidden.joinpath("sitecustomize.py").write_text("import sys; sys.modules['tidegate'] = None\n")
    python = tmp_path / "python"
    path = f"{hidden}:{Path(__file__).parent}"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={path} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))


LACKING = "cannot import tidegate .* install the same version of tidegate on every"


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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"partitions": "8"}, "partitions: expected an int or None, got '8'"),
        ({"partitions": True}, "partitions: expected an int or None, got True"),
        ({"columns": "ts"}, "columns: expected a list of column names, got 'ts'"),
        ({"by": 5}, "by: expected a column name, a list of names or of pairs of"),
        ({"late_as": 3}, "late_as: expected the name of a column, got 3"),
        ({"then": "v", "then_schema": "v long"}, "then: expected a function of a pyarrow.Record"),
    ],
)
def test_arguments_of_other_types(spark, folder, change, message):
    sides = (spark.read.parquet(str(folder / side)) for side in streaming.SIDES)
    with pytest.raises(TypeError, match=message):
        tidegate.spark.interval_join(*sides, **{**streaming.QUERY, **change})


@pytest.mark.parametrize(
    ("streams", "change", "message"),
    [
        (None, {}, "stream: expected a Spark DataFrame, got builtins.NoneType"),
        (pd.DataFrame(), {}, r"stream: expected a Spark DataFrame, got pandas\."),
        (
            "left",
            {"aggs": [agg.count()]},
            "aggs: expected a mapping from names to functions such as",
        ),
        ("left", {"by": 3}, "by: expected a column name or a list of them, got 3"),
    ],
)
def test_arguments_of_other_types_for_windows(spark, folder, streams, change, message):
    if isinstance(streams, str):
        streams = spark.read.parquet(str(folder / streams))
    with pytest.raises(TypeError, match=message):
        tidegate.spark.aggregate(streams, **{**WINDOWS, **change})


def test_arguments_to_explain(spark, folder):
    table = spark.read.parquet(str(folder / "left"))
    for function, inputs, given, message in (
        (tidegate.spark.interval_join, [table], streaming.QUERY, "argument: 'right_df'"),
        (tidegate.spark.window_join, [table, table], {"on": "ts"}, "argument: 'window'"),
        (tidegate.spark.aggregate, [], WINDOWS, "argument: 'streams'"),
        (tidegate.spark.band_join, [table, table], {**BAND, "windows": 3}, "argument 'windows'"),
    ):
        with pytest.raises(TypeError, match=message):
            tidegate.spark.explain(function, *inputs, **given)


def test_keys_that_spark_does_not_compare_by_their_bytes(spark, folder):
    table = spark.read.parquet(str(folder / "left"))
    other = table.withColumn("k", F.collate("k", "UTF8_LCASE"))
    with pytest.raises(tidegate.SchemaError, match="right: key column 'k' has the collation UTF8"):
        tidegate.spark.interval_join(table, other, **streaming.QUERY)
    with pytest.raises(tidegate.SchemaError, match="stream: key column 'k' has the collation"):
        tidegate.spark.aggregate(other, **WINDOWS)


def test_a_column_that_does_not_go_to_python(spark, folder):
    table = spark.read.parquet(str(folder / "left"))
    other = table.selectExpr("*", "INTERVAL '3' YEAR as years")
    with pytest.raises(tidegate.SchemaError, match="column 'years' is interval year, which Spark"):
        tidegate.spark.interval_join(table, other, **streaming.QUERY)


@pytest.mark.parametrize(
    ("then", "message"),
    [
        (lambda batch: batch.num_rows, "must return a pyarrow.RecordBatch or pyarrow.Table, but"),
        (lambda batch: batch.select(["k"]), "a column 'k' of type string, which cannot be cast"),
    ],
)
def test_what_then_may_not_return(spark, folder, then, message):
    table = spark.read.parquet(str(folder / "left"))
    found = tidegate.spark.interval_join(
        table, table, **streaming.QUERY, then=then, then_schema="k int"
    )
    with pytest.raises(PySparkException, match=message):
        found.collect()


def test_rows_that_the_watermark_has_passed(spark, folder):
    left, right = streaming.read(spark, folder)
    pairs = tidegate.spark.interval_join(left, right, **streaming.QUERY)
    counted = left.groupBy(F.window("ts", "4 seconds"), "k").count()
    starts = counted.select(F.window_time("window").alias("ts"), "k", "count")
    renamed = right.select("k", F.col("ts").alias("other"))
    met = left.join(renamed, "k").where("other between ts and ts + interval 3 seconds")
    for stream, name in (
        (pairs.withWatermark("ts", "1 second"), "TransformWithState"),
        (starts, "Aggregate"),
        (met, "Join"),
    ):
        with pytest.raises(tidegate.TidegateError, match=rf"stateful .* \({name}.*; write them to"):
            tidegate.spark.aggregate(stream, **WINDOWS)
    # Joins with tables and counts of tables keep no rows back.
    of_table = spark.read.parquet(str(folder / "right")).groupBy("k").count()
    assert tidegate.spark.aggregate(left.join(of_table, "k"), **WINDOWS).isStreaming


COMPUTED = {"on": "id + 1", "size": 5, "aggs": {"n": agg.count()}}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda df: tidegate.spark.aggregate(df, **COMPUTED), "on: there is no column `id"),
        (lambda df: tidegate.spark.rolling(df, **COMPUTED), "on: there is no column `id"),
        (
            lambda df: tidegate.spark.aggregate(df, **COMPUTED | {"on": "id", "by": "id % 2"}),
            r"by: there is .* frame.withColumn\('computed', F.expr\('id % 2'\)\) with by='comput",
        ),
        (
            lambda df: tidegate.spark.rolling(df, **COMPUTED | {"on": tidegate.row.id + 1}),
            r"on: only calls on local tables accept `row.id \+ 1`; add a column",
        ),
        (
            lambda df: tidegate.spark.interval_join(df, df, **Q, by=[(tidegate.left.id, "id")]),
            "by: only calls on local tables accept `left.id`; add a column",
        ),
        (
            lambda df: tidegate.spark.overlap_join(df, df, on=("id", "id + 1")),
            r"on: there is no column `id \+ 1`; Spark computes columns itself",
        ),
    ],
)
def test_spark_computes_keys_and_times_itself(spark, call, message):
    with pytest.raises((TypeError, tidegate.TidegateError), match=message):
        call(spark.range(3))
