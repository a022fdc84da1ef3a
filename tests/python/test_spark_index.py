"""Joins on Spark with an index as their right side: the rows of the native call."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

import campaign
import spark_session
import tidegate as tg
import tidegate.spark
from test_tasks import written
from test_tasks_index import joins
from tidegate.slices.indexed import IndexFile
from tidegate.spark.worker import task
from tidegate.spark.worker.indexed import IndexTask
from tidegate.spark.worker.task import Output

pytestmark = pytest.mark.filterwarnings("ignore")

SEEDS = range(campaign.tries(2))
KINDS = [pa.int64(), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.date32()]


@pytest.fixture(scope="module")
def spark():
    return spark_session.start()


def side(chance, kind: pa.DataType, name: str) -> pa.Table:
    """Create rows in no order of time, many of them with equal times."""
    storage = pa.int32() if kind == pa.date32() else pa.int64()
    times = [chance.randrange(60) for _ in range(chance.choice([0, 1, 90]))]
    ends = [time + chance.choice([0, 1, 5, 40]) for time in times]
    return pa.table(
        {
            "ts": pa.array(times, storage).cast(kind),
            "end": pa.array(ends, storage).cast(kind),
            "k": pa.array([chance.choice(["a", "b", None]) for _ in times], pa.string()),
            "x": pa.array([chance.choice([None, 0.5, 1.25, 3.0]) for _ in times], pa.float64()),
            name: pa.array(range(len(times)), pa.int64()),
        }
    )


def saved(table: pa.Table, path, **columns) -> tg.Index:
    tg.Index(table, **columns).save(path)
    return tg.open_index(path)


def same(found, expected: pa.Table) -> None:
    """Assert that a DataFrame has the columns and rows of a native result."""
    rows = found.toArrow()
    assert rows.column_names == expected.column_names
    types = zip(rows.column_names, rows.schema.types, strict=True)
    wanted = tg.digest(expected.cast(pa.schema(types)), ordered=False)
    assert tg.digest(rows, ordered=False) == wanted


@pytest.mark.parametrize("seed", SEEDS)
def test_joins_with_an_index_return_the_rows_of_the_call(spark, seed, tmp_path, monkeypatch):
    chance = campaign.rng(f"index on Spark {seed}")
    kind = chance.choice(KINDS)
    left, right = side(chance, kind, "l"), side(chance, kind, "r")
    path = written(left, tmp_path / "left", chance)
    frame = spark.read.parquet(path)
    columns = {"times": "ts", "intervals": ("ts", "end")}
    indexes = [saved(right, tmp_path / name, on=on, by="k") for name, on in columns.items()]
    for function, arguments in joins(chance, kind):
        of_spark = getattr(tidegate.spark, function.__name__.removesuffix("_batches"))
        index = indexes[function is tg.overlap_join]
        # The order of the index determines the order of rows with equal times.
        wanted = pa.table(function(left, right, **arguments))
        same(of_spark(frame, index, **arguments), wanted)
        if chance.random() < 0.3:
            count = chance.randrange(1, 4)
            found = of_spark(path, index, **arguments, partitions=count)
            assert found.rdd.getNumPartitions() <= count
            same(found, wanted)


TRADES = pa.table(
    {
        "at": pa.array([10, 20, 30, 40], pa.timestamp("us", "UTC")),
        "ticker": ["A", "B", "A", None],
        "Venue": ["p", "q", "r", "s"],
    }
)
QUOTES = pa.table(
    {
        "time": pa.array([8_000, 19_000, 29_000, 29_000, 31_000], pa.timestamp("ns", "UTC")),
        "symbol": pa.array(["A", "A", "A", "A", "B"]).dictionary_encode(),
        "bid": pa.array([8, 9, 7, 1, 6], pa.uint32()),
        "venue": pa.array(["x", "y", None, "x", "y"]).dictionary_encode(),
    }
)
ASOF = {"on": "at", "by": "ticker"}


@pytest.fixture(scope="module")
def frame(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trades")
    for at in range(2):
        pq.write_table(TRADES.slice(2 * at, 2), folder / f"{at}.parquet")
    return spark.read.parquet(str(folder))


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    path = tmp_path_factory.mktemp("index") / "quotes.index"
    return saved(QUOTES, path, on="time", by="symbol")


def test_columns_have_spark_types_and_names(spark, frame, index):
    found = tidegate.spark.asof_join(frame, index, **ASOF)
    types = {field.name: field.dataType.simpleString() for field in found.schema}
    assert types == {
        "at": "timestamp",
        "ticker": "string",
        "Venue": "string",
        "time": "timestamp",
        "symbol": "string",
        "bid": "bigint",
        # Spark does not distinguish this name from that of the left column.
        "venue_right": "string",
    }
    rows = [
        (row["ticker"], row["bid"], row["venue_right"]) for row in found.orderBy("at").collect()
    ]
    assert rows == [("A", 8, "x"), ("B", None, None), ("A", 1, "x"), (None, None, None)]
    some = tidegate.spark.asof_join(frame, index, **ASOF, columns=["bid", "at"])
    assert some.columns == ["bid", "at"]
    assert [row["bid"] for row in some.orderBy("at").collect()] == [8, None, 1, None]


def test_aggregates_have_spark_types(frame, index):
    query = {**ASOF, "lower": None, "upper": "0s"}
    aggs = {"n": tg.agg.count(), "last": tg.agg.last("venue"), "sum": tg.agg.sum("bid")}
    found = tidegate.spark.interval_join(frame, index, **query, aggs=aggs, columns=["ticker"])
    assert found.columns == ["ticker", "n", "last", "sum"]
    rows = sorted(map(tuple, found.collect()), key=repr)
    assert rows == [
        ("A", 1, "x", 8),
        ("A", 4, "x", 25),
        ("B", 0, None, None),
        (None, 0, None, None),
    ]


def test_partitions_are_joined_in_chunks_and_then_reads_the_result(frame, index):
    def first(batch):
        return batch.select(["bid"])

    found = tidegate.spark.asof_join(
        frame, index, **ASOF, then=first, then_schema="bid bigint", partitions=1
    )
    assert found.rdd.getNumPartitions() == 1
    assert sorted(row["bid"] or 0 for row in found.collect()) == [0, 0, 1, 8]


def test_a_chunk_of_rows_is_joined_at_a_time(index, monkeypatch):
    monkeypatch.setattr(task, "_CHUNK", 1)
    query = tg._tidegate.asof_join_query(
        on=("at", "time"), by=[("ticker", "symbol")], columns=["at", "bid"]
    )
    schema = pa.schema({"at": TRADES.schema.field("at").type, "bid": pa.int64()})
    work = IndexTask(
        IndexFile.of(index),
        tuple(TRADES.column_names),
        query,
        ("at", "bid"),
        schema,
        Output(("at", "bid"), None, None),
    )
    rows = TRADES.rename_columns(["u0", "u1", "u2"]).to_batches(max_chunksize=1)
    found = [*work.run(iter([*rows, rows[0].slice(1)]))]
    assert [batch.num_rows for batch in found] == [1, 1, 1, 1]
    assert pa.Table.from_batches(found)["bid"].to_pylist() == [8, None, 1, None]


def test_files_are_joined_by_tasks_and_written(spark, index, tmp_path):
    pq.write_table(TRADES, tmp_path / "trades.parquet", row_group_size=1)
    call = {**ASOF, "columns": ["at", "bid"], "partitions": 3}
    path = str(tmp_path / "trades.parquet")
    wanted = tg.asof_join(TRADES, index, **ASOF, columns=["at", "bid"])
    same(tidegate.spark.asof_join(path, index, **call), wanted)
    sink = tmp_path / "sink"
    written = tidegate.spark.asof_join(path, index, **call, sink=str(sink))
    assert written.count() == len([*sink.iterdir()]) == 3
    assert pq.read_table(sink).equals(wanted)
    plan = tidegate.spark.explain(tidegate.spark.asof_join, path, index, **ASOF)
    assert "cut between row groups" in plan
    assert f"  right      {index.path}, 5 rows, " in plan
    assert "  ties       right rows with equal times are in the order of the index" in plan
    assert "  placed     each Spark task reads left row groups; no rows are shuffled" in plan


def test_the_plan_is_explained_and_has_no_shuffle(frame, index):
    plan = tidegate.spark.explain(tidegate.spark.asof_join, frame, index, **ASOF)
    size = f"{index.path.stat().st_size:,}"
    assert plan.splitlines()[-8:] == [
        "  sent       left at, ticker, Venue",
        "  ties       right rows with equal times are in the order of the index",
        "  jobs       none before the result is used",
        plan.splitlines()[-5],
        f"  right      {index.path}, 5 rows, {size} bytes; each worker maps it",
        plan.splitlines()[-3],
        "  placed     left rows stay in their partitions",
        "  because    the right side is an index",
    ]
    assert "  index      5 rows: up to " in plan
    found = tidegate.spark.asof_join(frame, index, **ASOF)
    steps = found._jdf.queryExecution().executedPlan().toString()
    assert "tidegate_index_join" in steps
    assert "Exchange" not in steps


def test_a_stream_is_joined_as_its_rows_arrive(spark, frame, index, tmp_path):
    folder = tmp_path / "stream"
    folder.mkdir()
    for at in range(2):
        pq.write_table(TRADES.slice(2 * at, 2), folder / f"{at}.parquet")
    stream = spark.readStream.schema(frame.schema).option("maxFilesPerTrigger", 1)
    found = tidegate.spark.asof_join(stream.parquet(str(folder)), index, **ASOF, columns=["bid"])
    query = (
        found.writeStream.format("memory")
        .queryName("found")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert sorted(row["bid"] or 0 for row in spark.table("found").collect()) == [0, 0, 1, 8]


BOUNDS = {**ASOF, "lower": "-5s", "upper": "5s"}


@pytest.mark.parametrize(
    ("join", "arguments", "message"),
    [
        ("interval_join", {**BOUNDS, "how": "right"}, "whether a row of the index is unmatched"),
        ("interval_join", {**BOUNDS, "how": "full"}, "give how='inner' or how='left', or give"),
        ("window_join", {**ASOF, "window": tg.rows(2)}, "window: rows"),
        ("asof_join", {**ASOF, "parallelism": "key"}, "but the right side is an index"),
        ("asof_join", {**ASOF, "late_as": "late"}, "a join with an index has no late rows"),
        ("asof_join", {**ASOF, "sink": "found"}, "sink: left is a DataFrame"),
        ("asof_join", {**ASOF, "partitions": 0}, "partitions: expected at least 1"),
        ("asof_join", {**ASOF, "columns": []}, "`columns` is empty"),
        ("asof_join", {"on": "at"}, "but the join is on `time` by no keys"),
    ],
)
def test_what_an_index_does_not_allow_is_refused(frame, index, join, arguments, message):
    with pytest.raises(tg.TidegateError, match=message):
        getattr(tidegate.spark, join)(frame, index, **arguments)


def test_other_inputs_are_refused(frame, index):
    with pytest.raises(tg.TidegateError, match=r"only in memory; save it with index\.save"):
        tidegate.spark.asof_join(frame, tg.Index(QUOTES, on="time", by="symbol"), **ASOF)
    with pytest.raises(TypeError, match=r"left: expected a Spark DataFrame, got tidegate\.Index"):
        tidegate.spark.asof_join(index, index, on="time", by="symbol")


def test_a_changed_file_is_named(frame, tmp_path):
    opened = saved(QUOTES, tmp_path / "quotes.index", on="time", by="symbol")
    found = tidegate.spark.asof_join(frame, opened, **ASOF)
    tg.Index(QUOTES.slice(1), on="time", by="symbol").save(tmp_path / "quotes.index")
    with pytest.raises(PySparkException, match=r"quotes\.index: the index file has changed since"):
        found.collect()
