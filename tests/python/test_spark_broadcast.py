"""A small side that is sent in full: the same rows as the shuffled join, and when it is used."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkAttributeError, PySparkException
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

import campaign
import spark_session
import tidegate
import tidegate.spark
from cases import grid, more, of_campaigns
from tidegate.spark.driver import whole
from tidegate.spark.driver.jobs import described
from tidegate.spark.driver.whole import near
from tidegate.spark.layout.layout import LIMIT, Reach
from tidegate.spark.worker import task
from tidegate.spark.worker.pack import LEFT, RIGHT

pytestmark = pytest.mark.filterwarnings("ignore")

NEAR = {"on": "ts", "by": "key", "lower": "-20s", "upper": "20s"}


@pytest.fixture(scope="module")
def spark():
    return spark_session.start()


def events(seed: int, rows: int, payload: str) -> pa.Table:
    """Create rows in no order of time, half with one key and a tenth without."""
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 6, rows)
    keys[rng.random(rows) < 0.5] = 1
    lacking = rng.random(rows) < 0.1
    seconds = rng.integers(0, 3_000, rows) * 1_000_000
    return pa.table(
        {
            "key": pa.array(keys, mask=lacking),
            "ts": pa.array(seconds, pa.timestamp("us", "UTC")),
            payload: pa.array([f"{payload}{row}" for row in range(rows)]),
        }
    )


TABLES = events(1, 300, "left_name"), events(2, 250, "right_name")


@pytest.fixture(scope="module")
def files(spark, tmp_path_factory):
    """Write both tables to Parquet, in several files each."""
    frames = []
    for name, table in zip(("left", "right"), TABLES, strict=True):
        folder = tmp_path_factory.mktemp(name)
        for part in range(2):
            pq.write_table(table.slice(part * 150, 150), folder / f"{part}.parquet")
        frames.append(spark.read.parquet(str(folder)))
    return tuple(frames)


def rows_of(table: pa.Table) -> list[str]:
    """Return the rows as strings, sorted."""
    return sorted(map(repr, table.to_pylist()))


def same(found, tables=TABLES, **query) -> None:
    """Assert that the DataFrame has the native join's columns and rows."""
    expected = tidegate.interval_join(*tables, **query)
    rows = found.toArrow()
    assert rows.column_names == expected.column_names
    assert rows_of(rows) == rows_of(expected)


def explained(frames, **query) -> str:
    return tidegate.spark.explain(tidegate.spark.interval_join, *frames, **query)


def is_shuffled(frame) -> bool:
    plan = frame._jdf.queryExecution().executedPlan().toString()
    return "Exchange" in plan


@pytest.mark.parametrize("how", ["inner", "semi", "anti", *more("full", "left", "right")])
def test_rows_are_those_of_the_native_join(files, how):
    query = {**NEAR, "how": how}
    found = tidegate.spark.interval_join(*files, **query)
    same(found, **query)
    assert is_shuffled(found) == (how == "full")


@grid(
    how=["left", *more("inner", "full", "right", "semi", "anti")],
    empty=["right", *more("left", "both")],
)
def test_empty_sides(spark, files, how, empty):
    tables = [
        table.slice(0, 0) if empty in (name, "both") else table
        for name, table in zip(("left", "right"), TABLES, strict=True)
    ]
    frames = [
        file.where("false") if empty in (name, "both") else file
        for name, file in zip(("left", "right"), files, strict=True)
    ]
    query = {**NEAR, "how": how}
    same(tidegate.spark.interval_join(*frames, **query), tables, **query)


@grid(
    how=["left", "right", *more("inner", "anti")],
    bounds=[
        ("5s", "5m"),
        (None, "-40m"),
        *more((None, None), ("0s", "0s"), ("-30m", "-20m"), ("40m", None)),
    ],
)
def test_any_bounds(files, how, bounds):
    lower, upper = bounds
    query = {"on": "ts", "by": "key", "lower": lower, "upper": upper, "how": how}
    same(tidegate.spark.interval_join(*files, **query), **query)


def test_a_task_joins_some_rows_at_a_time(monkeypatch):
    monkeypatch.setattr(task, "_CHUNK", 100)
    batches = [pa.RecordBatch.from_pydict({"ts": np.arange(rows)}) for rows in (5, 0, 9, 1, 50, 3)]
    tables = list(task.in_chunks(iter(batches)))
    assert [table.num_rows for table in tables] == [14, 51, 3]
    assert pa.concat_tables(tables) == pa.Table.from_batches(batches)


def test_without_a_key(files):
    query = {"on": "ts", "lower": "-1s", "upper": "1s", "how": "left", "where": "right.key > 2"}
    same(tidegate.spark.interval_join(*files, **query), **query)


@grid(clock=["int", *more("date", "timestamp_ntz")], how=["right", *more("inner", "left")])
def test_clocks(spark, clock, how):
    numbers = pa.array([5, 1, 9, 3, 3, 30, -4], pa.int32())
    kinds = {"date": pa.date32(), "int": pa.int32(), "timestamp_ntz": pa.timestamp("us")}
    times = numbers.cast(pa.int64()).cast(kinds[clock]) if clock == "timestamp_ntz" else numbers
    table = pa.table({"ts": times.cast(kinds[clock]), "row": range(7)})
    step = {"date": dt.timedelta(days=1), "int": 1, "timestamp_ntz": dt.timedelta(microseconds=1)}
    query = {"on": "ts", "lower": -2 * step[clock], "upper": step[clock], "how": how}
    frame = spark.createDataFrame(table, f"ts {clock}, row bigint")
    found = tidegate.spark.interval_join(frame, frame, **query, parallelism="broadcast")
    same(found, (table, table), **query)


def test_a_date_meets_a_timestamp(spark):
    days = [dt.date(2026, 3, day) for day in (7, 8, 9)]
    noons = [dt.datetime(2026, 3, day, 12) for day in (9, 7, 8)]  # noqa: DTZ001
    left = pa.table({"day": days})
    right = pa.table({"noon": pa.array(noons, pa.timestamp("us"))})
    query = {"on": ("day", "noon"), "lower": "0s", "upper": "1d"}
    frames = (
        spark.createDataFrame(left, "day date"),
        spark.createDataFrame(right, "noon timestamp_ntz"),
    )
    found = tidegate.spark.interval_join(*frames, **query, parallelism="broadcast")
    same(found, (left, right), **query)


def test_a_null_time_is_refused(spark):
    table = spark.createDataFrame([(1, 1), (2, None)], "k int, ts int")
    full = spark.createDataFrame([(1, 1)], "k int, ts int")
    query = {"on": "ts", "by": "k", "lower": 0, "upper": 0, "parallelism": "broadcast"}
    with pytest.raises(tidegate.TidegateError, match="ts"):
        tidegate.spark.interval_join(full, table, **query, how="left")
    found = tidegate.spark.interval_join(table, full, **query, how="left")
    with pytest.raises(PySparkException, match="ts"):
        found.collect()


def test_then_runs_in_the_task(files):
    def counted(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict({"rows": [batch.num_rows]})

    found = tidegate.spark.interval_join(*files, **NEAR, then=counted, then_schema="rows bigint")
    assert not is_shuffled(found)
    expected = tidegate.interval_join(*TABLES, **NEAR).num_rows
    assert found.agg(F.sum("rows")).first()[0] == expected


# `test_spark` tests the same for tasks that receive shuffled rows.
@of_campaigns
def test_a_retried_task_gives_equal_rows(spark):
    # A batch has at most 131,072 rows, and each of two tasks has half of the pairs.
    rows = 520
    frame = spark.range(rows, numPartitions=2).selectExpr("id", "id % 10 as ts")

    def fails_twice(batch: pa.RecordBatch) -> pa.RecordBatch:
        attempt = TaskContext.get().attemptNumber()
        if attempt < 2 and batches:
            message = "planned failure after the first batch"
            raise RuntimeError(message)
        batches.append(batch.num_rows)
        return batch.append_column("attempt", pa.array([attempt] * batch.num_rows))

    batches: list[int] = []
    found = tidegate.spark.interval_join(
        frame,
        frame,
        on="ts",
        lower=None,
        upper=None,
        columns=["id", "id_right"],
        then=fails_twice,
        then_schema="id bigint, id_right bigint, attempt bigint",
    )
    assert not is_shuffled(found)
    table = found.toArrow()
    pairs = table["id"].to_numpy() * rows + table["id_right"].to_numpy()
    assert (np.sort(pairs) == np.arange(rows * rows)).all()
    assert set(table["attempt"].to_pylist()) == {2}


def test_the_smaller_side_is_sent_if_either_may_be(spark):
    few = spark.range(10).selectExpr("id as ts")
    many = spark.range(1_000, numPartitions=3).selectExpr("id as ts")
    query = {"on": "ts", "lower": 0, "upper": 0}
    assert "left is sent in full to every task, 10 rows" in explained((few, many), **query)
    assert "right is sent in full to every task, 10 rows" in explained((many, few), **query)
    assert "of both sides" in explained((few, many), **query, how="full")
    for how, frames, side in more(("semi", (few, many), "right"), ("right", (many, few), "left")):
        assert f"{side} is sent in full" in explained(frames, **query, how=how)


def test_the_limit_is_of_counted_bytes(files, monkeypatch):
    right = TABLES[1]
    exact = 250 * (8 + 8 + 4) + sum(len(name) for name in right["right_name"].to_pylist())
    query = {**NEAR, "how": "left"}
    monkeypatch.setattr(whole, "_estimated_bytes", lambda _: 0)
    monkeypatch.setattr(whole, "_SURE", -1)
    monkeypatch.setattr(whole, "LIMIT", exact)
    assert "right is sent in full" in explained(files, **query)
    monkeypatch.setattr(whole, "LIMIT", exact - 1)
    text = explained(files, **query)
    assert f"because    right has {exact:,} bytes, more than {exact - 1:,} bytes" in text
    assert "sent in full" not in text


def test_what_spark_thinks_very_small_is_collected_at_once(files, monkeypatch):
    right = TABLES[1].filter(TABLES[1]["key"].is_valid())
    exact = right.num_rows * (8 + 8 + 4) + sum(map(len, right["right_name"].to_pylist()))
    query = {**NEAR, "how": "left"}
    with monkeypatch.context() as patched:
        patched.setattr(whole, "_counted_bytes", lambda *_: pytest.fail("counted"))
        patched.setattr(whole, "LIMIT", exact)
        assert f"because    right has {exact:,} bytes, at most" in explained(files, **query)
    # Spark's estimate was wrong, so rows were collected without being used.
    for limit in (exact - 1, *more(100)):
        monkeypatch.setattr(whole, "LIMIT", limit)
        monkeypatch.setattr(whole, "_estimated_bytes", lambda _: 0)
        text = explained(files, **query)
        assert f"because    right has more than {limit:,} bytes" in text
        assert "sent in full" not in text


def test_what_spark_thinks_large_is_not_counted(files, monkeypatch):
    monkeypatch.setattr(whole, "LIMIT", 100)
    monkeypatch.setattr(whole, "_SURE", -1)
    monkeypatch.setattr(whole, "_counted_bytes", lambda *_: pytest.fail("counted"))
    text = explained(files, **NEAR, how="left")
    assert "because    right has about" in text
    assert "more than 100 bytes" in text


@pytest.fixture(scope="module")
def numbers(spark, tmp_path_factory):
    """Write both tables without their strings to files. By the footers, each row has 16 bytes."""
    frames = []
    for name, table in zip(("left", "right"), TABLES, strict=True):
        folder = tmp_path_factory.mktemp(f"{name}_numbers")
        pq.write_table(table.select(["key", "ts"]), folder / "0.parquet")
        frames.append(spark.read.parquet(str(folder)))
    return tuple(frames)


def test_rows_that_footers_tell_are_not_counted(numbers, monkeypatch):
    monkeypatch.setattr(whole, "_SURE", -1)
    monkeypatch.setattr(whole, "_estimated_bytes", lambda _: 0)
    query = {**NEAR, "how": "left"}
    with monkeypatch.context() as patched:
        patched.setattr(whole, "_counted_bytes", lambda *_: pytest.fail("counted"))
        patched.setattr(whole, "LIMIT", 250 * 16)
        text = explained(numbers, **query)
        assert "right is sent in full to every task" in text
        assert "jobs       before the result is used: collect the right side\n" in text
        patched.setattr(whole, "LIMIT", 250 * 16 - 1)
        text = explained(numbers, **query)
        assert "because    right has 4,000 bytes, more than 3,999 bytes" in text
        assert "measure" not in text
    # Rows that remain after a filter are counted.
    monkeypatch.setattr(whole, "LIMIT", 250 * 16 - 1)
    filtered = numbers[0], numbers[1].where("key = 5")
    assert "measure the right side" in explained(filtered, **query)


def test_rows_of_which_a_few_footers_tell_are_counted_near_the_limit(numbers, monkeypatch):
    monkeypatch.setattr(whole, "_SURE", -1)
    monkeypatch.setattr(whole, "_estimated_bytes", lambda _: 0)
    some = whole.rows_of(numbers[1])._replace(exact=False)
    monkeypatch.setattr(whole, "rows_of", lambda *_, **__: some)
    query = {**NEAR, "how": "left"}
    with monkeypatch.context() as patched:
        patched.setattr(whole, "_counted_bytes", lambda *_: pytest.fail("counted"))
        patched.setattr(whole, "LIMIT", 2 * 250 * 16)
        assert "right is sent in full to every task" in explained(numbers, **query)
        patched.setattr(whole, "LIMIT", 250 * 16 // 2 - 1)
        text = explained(numbers, **query)
        assert "because    right has about 4,000 bytes, more than 1,999 bytes" in text
    monkeypatch.setattr(whole, "LIMIT", 250 * 16)
    assert "measure the right side, then collect the right side" in explained(numbers, **query)


@pytest.mark.parametrize("function", ["overlap_join", *more("interval_join")])
def test_few_rows_of_files_are_not_sampled_to_be_divided_by_key(numbers, function):
    query = {**NEAR, "how": "full"}
    if function == "overlap_join":
        query = {"on": ("ts", "ts"), "by": "key", "how": "full"}
    join = getattr(tidegate.spark, function)
    text = tidegate.spark.explain(join, *numbers, **query)
    assert "jobs       none before the result is used" in text
    assert "according to the files, there are few rows, so none are sampled" in text
    assert "by key: 1 buckets in 1 partitions" in text or "1 slices in 1 partitions" in text
    tables = [table.select(["key", "ts"]) for table in TABLES]
    expected = getattr(tidegate, function)(*tables, **query)
    assert rows_of(join(*numbers, **query).toArrow()) == rows_of(expected)


@pytest.mark.parametrize("function", ["interval_join", *more("overlap_join")])
def test_more_rows_of_files_are_sampled_to_be_divided(numbers, monkeypatch, function):
    """Rows without a key, and rows that are not read from files, are also sampled."""
    query = {**NEAR, "how": "full"}
    if function == "overlap_join":
        query = {"on": ("ts", "ts"), "by": "key", "how": "full"}
    join = getattr(tidegate.spark, function)
    drawn = "jobs       before the result is used: sample keys"
    for division in more("time", "hybrid"):
        assert drawn in tidegate.spark.explain(join, *numbers, **query, parallelism=division)
    others = [numbers[0], numbers[1].dropDuplicates()]
    assert drawn in tidegate.spark.explain(join, *others, **query)
    monkeypatch.setattr("tidegate.spark.driver.division._FEW", 549)
    assert drawn in tidegate.spark.explain(join, *numbers, **query)
    if not campaign.ALL:
        return
    del query["by"]
    monkeypatch.setattr("tidegate.spark.driver.division._FEW", 550)
    assert drawn in tidegate.spark.explain(join, *numbers, **query)


def test_few_rows_of_files_are_not_sampled_to_be_aggregated_by_key(numbers):
    query = {"on": "ts", "size": "1 minute", "aggs": {"n": tidegate.agg.count()}}
    aggregate = tidegate.spark.aggregate
    text = tidegate.spark.explain(aggregate, numbers[0], by="key", **query)
    assert "jobs       none before the result is used" in text
    found = aggregate(numbers[0], by="key", **query).toArrow()
    expected = tidegate.aggregate(TABLES[0].sort_by("ts"), by="key", **query)
    assert rows_of(found) == rows_of(expected)
    assert "sample keys and times" in tidegate.spark.explain(aggregate, numbers[0], **query)


def test_a_size_that_spark_does_not_know_is_taken_as_large(spark, files):
    unknown = spark.createDataFrame([(1, 1)], "key bigint, ts bigint")
    text = explained((unknown, unknown), on="ts", by="key", lower=0, upper=0)
    assert "because    right is of unknown size" in text
    asked = explained(
        (unknown, unknown), on="ts", by="key", lower=0, upper=0, parallelism="broadcast"
    )
    assert "because    parallelism is 'broadcast'" in asked


class Remote:
    """The stand-in for a DataFrame or session of Spark Connect, without a plan or a context."""

    def __getattr__(self, name: str) -> None:
        raise PySparkAttributeError(name)


def test_spark_connect_tells_no_size_and_takes_no_description():
    assert whole._estimated_bytes(Remote()) == whole._UNKNOWN
    with described(Remote(), "anything"):
        pass


def test_nested_columns_are_not_counted(spark):
    nested = spark.range(5).selectExpr("id as ts", "array(id) as items")
    query = {"on": "ts", "lower": 0, "upper": 0}
    assert "size is not known in advance" in explained((nested, nested), **query)
    plain = explained((nested, nested), **query, columns=["ts", "items"])
    assert "right is sent in full" in plain, "the size of a column that is not sent does not count"


def test_a_full_join_cannot_be_asked_to_broadcast(files):
    with pytest.raises(tidegate.TidegateError, match="full join"):
        tidegate.spark.interval_join(*files, **NEAR, how="full", parallelism="broadcast")


def test_a_side_that_is_computed_is_computed_once_by_the_call(spark):
    seen = spark.sparkContext.accumulator(0)

    def counted(batches):
        for batch in batches:
            seen.add(batch.num_rows)
            yield batch

    every = spark.range(200_000, numPartitions=2).selectExpr("id as ts", "id % 9 as k", "id as v")
    computed = every.mapInArrow(counted, every.schema)
    query = {"on": "ts", "by": "k", "lower": 0, "upper": 0}
    found = tidegate.spark.interval_join(every, computed, **query)
    assert not is_shuffled(found)
    assert seen.value == 200_000


def test_a_computed_side_with_too_many_rows_is_shuffled(spark, monkeypatch):
    monkeypatch.setattr(whole, "LIMIT", 1 << 12)
    monkeypatch.setattr(whole, "_estimated_bytes", lambda _: 1 << 10)
    frame = spark.range(1000, numPartitions=2).selectExpr("id as ts")
    told = explained((frame, frame), on="ts", lower=0, upper=0)
    assert "right has more than 4,096 bytes" in told


def test_the_side_that_is_not_moved_keeps_its_partitions(spark):
    frame = spark.range(100, numPartitions=40).selectExpr("id as ts")
    query = {"on": "ts", "lower": 0, "upper": 0}
    assert tidegate.spark.interval_join(frame, frame, **query).rdd.getNumPartitions() == 40
    few = tidegate.spark.interval_join(frame, frame, **query, partitions=3)
    assert not is_shuffled(few)
    assert few.rdd.getNumPartitions() == 3


@pytest.mark.parametrize("side", [LEFT, RIGHT])
@pytest.mark.parametrize(
    ("lower", "upper"), [(-3, 5), (2, 4), (-9, -7), (None, 1), (1, None), (-LIMIT, LIMIT)]
)
def test_all_rows_within_reach_are_near(side, lower, upper):
    rng = np.random.default_rng(11)
    ends = [-(2**63), 2**63 - 1]
    whole = np.sort(np.append(rng.integers(-60, 60, 200), ends))
    for mine in (rng.integers(-10, 10, 5), np.array([0]), np.array(ends)):
        first, count = near(Reach.of(lower, upper), side, whole, mine)
        for time in mine.tolist():
            gaps = [time - w if side == LEFT else w - time for w in whole.tolist()]
            met = [
                row
                for row, gap in enumerate(gaps)
                if (lower is None or gap >= lower) and (upper is None or gap <= upper)
            ]
            assert all(first <= row < first + count for row in met)
    first, count = near(Reach.of(0, 0), side, whole, np.array([0, 3]))
    assert set(whole[first : first + count].tolist()) <= {0, 1, 2, 3}
