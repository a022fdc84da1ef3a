"""Aggregates of DataFrames: the rows of the native call, however they are divided and sent."""

import datetime as dt
import functools
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import campaign
import spark_session
import tidegate
import tidegate.spark
from cases import grid, more, of_campaigns
from tidegate import agg

pytestmark = pytest.mark.filterwarnings("ignore")

WINDOWS = {"on": "ts", "size": "50s", "advance": "20s", "offset": "7s"}
# Partial aggregates of these functions yield the same bits in any order.
COMBINED = {
    "n": agg.count(),
    "values": agg.count("value"),
    "total": agg.sum("number", where="value > 2"),
    "low": agg.min("value"),
    "high": agg.max("name"),
    "any": agg.any("flag"),
    "all": agg.all("flag", where="value > 2"),
}
# Those of these functions do not.
ORDERED = {
    "mean": agg.mean("value"),
    "sum": agg.sum("value"),
    "std": agg.std("number"),
    "first": agg.first("name"),
    "last": agg.last("value", where="number <> 3"),
    "lasts": agg.last("name", 2),
    "top": agg.top("name", 2, by="value"),
    "held": agg.time_weighted_mean("number"),
    "flags": agg.mean("flag"),
}


ORDER = [(name, "ascending") for name in ("ts", "value", "number", "name")]


@pytest.fixture(scope="module")
def spark():
    return spark_session.start()


def rows(seed: int, count: int = 600) -> pa.Table:
    """Create rows, half with one key and some without, sorted by value; many times are equal."""
    rng = np.random.default_rng(seed)
    keys = np.where(rng.random(count) < 0.5, 1, rng.integers(0, 9, count))
    table = pa.table(
        {
            "key": pa.array(keys, mask=rng.random(count) < 0.1),
            "ts": pa.array(rng.integers(-900, 900, count) * 1_000_000, pa.timestamp("us", "UTC")),
            "value": pa.array(rng.random(count) * 9, mask=rng.random(count) < 0.1),
            "number": pa.array(rng.integers(-5, 5, count)),
            "flag": pa.array(rng.random(count) < 0.7, mask=rng.random(count) < 0.1),
            "name": pa.array([f"n{number}" for number in rng.integers(0, 50, count)], pa.string()),
        }
    )
    return table.sort_by(ORDER)


def counted(table: pa.Table) -> Counter[str]:
    """Format rows, with floats by their bits and times without the name of their time zone."""
    plain = [str(sorted((k, _bits(v)) for k, v in row.items())) for row in table.to_pylist()]
    return Counter(plain)


def _bits(value: object) -> object:
    if isinstance(value, float):
        return value.hex()
    return value.astimezone(dt.UTC) if isinstance(value, dt.datetime) else value


def shuffled(spark, table: pa.Table, parts: int):
    order = np.random.default_rng(0).permutation(table.num_rows)
    return spark.createDataFrame(table.take(pa.array(order))).repartition(parts)


def same(spark, tables: list[pa.Table], *, parts: int = 3, **arguments) -> None:
    """Assert that both calls return the same rows."""
    divided = {"partitions", "parallelism"} & arguments.keys()
    ours = {name: arguments.pop(name) for name in divided}
    expected = tidegate.aggregate(tables, **arguments)
    frames = [shuffled(spark, table, parts) for table in tables]
    found = tidegate.spark.aggregate(frames, **arguments, **ours)
    assert found.columns == expected.column_names
    assert counted(found.toArrow()) == counted(expected)
    assert expected.num_rows > 0


@grid(aggs=[COMBINED, ORDERED], parallelism=["key", "hybrid", *more("auto", "time")])
def test_rows_are_those_of_the_native_call(spark, aggs, parallelism):
    division = {"partitions": 4, "parallelism": parallelism}
    same(spark, [rows(1)], by="key", aggs=aggs, **WINDOWS, **division)


# `test_random_windows` also draws numbers of partitions.
@of_campaigns
@grid(aggs=[COMBINED, ORDERED], partitions=[1, 2, 9, 50])
def test_numbers_of_partitions_change_no_row(spark, aggs, partitions):
    division = {"partitions": partitions, "parallelism": "hybrid"}
    same(spark, [rows(2)], by="key", aggs=aggs, **WINDOWS, **division)


@grid(aggs=[COMBINED, *more(ORDERED)], parallelism=["time", *more("auto")])
def test_without_a_key_time_alone_divides(spark, aggs, parallelism):
    same(spark, [rows(3)], aggs=aggs, **WINDOWS, partitions=4, parallelism=parallelism)


@pytest.mark.parametrize("aggs", [ORDERED, *more(COMBINED)])
def test_streams_are_told_apart(spark, aggs):
    tables = [rows(4, 300), rows(6, 0), rows(7, 300)]
    division = {"partitions": 4, "parallelism": "hybrid"}
    same(spark, tables, parts=2, by="key", aggs=aggs, **WINDOWS, **division)


@grid(
    aggs=[ORDERED, *more(COMBINED)],
    arguments=[
        {"by": ["key", "name"], "partitions": 4, "parallelism": "key"},
        *more({"partitions": 5}, {"by": "key"}, {"by": "key", "partitions": 1}, {}),
    ],
)
def test_sessions(spark, aggs, arguments):
    tables = [rows(8), rows(9)]
    gaps = tidegate.row.number * 2_000_000 + 9_000_000
    session = gaps if "partitions" in arguments else "5s"
    same(spark, tables, on="ts", session=session, aggs=aggs, where="number > -5", **arguments)


@pytest.mark.parametrize("parallelism", ["time", "hybrid"])
def test_sessions_are_not_cut(spark, parallelism):
    frame = shuffled(spark, rows(1), 1)
    query = {"on": "ts", "session": "5s", "by": "key", "aggs": COMBINED}
    with pytest.raises(tidegate.TidegateError, match=f"parallelism '{parallelism}' divides time"):
        tidegate.spark.aggregate(frame, **query, parallelism=parallelism)


@pytest.mark.parametrize("seed", range(campaign.tries(2)))
def test_random_windows(spark, seed):
    rng = np.random.default_rng(seed)
    size, advance = (int(length) for length in rng.integers(1, 120, 2))
    table = rows(seed)
    table = table.set_column(1, "ts", pa.array(table["ts"].cast("int64").to_numpy() // 1_000_000))
    same(
        spark,
        [table],
        on="ts",
        size=size,
        advance=advance,
        offset=int(rng.integers(-50, 50)),
        closed=[None, "right"][seed % 2],
        by=["key", "name"] if seed % 2 else "key",
        aggs=ORDERED if seed % 3 else COMBINED,
        where="number > -4",
        partitions=int(rng.integers(1, 9)),
        parallelism=str(rng.choice(["auto", "key", "time", "hybrid"])),
    )


def test_days(spark):
    days = rows(8)["ts"].cast("int64").to_numpy() // 10_000_000
    table = rows(8).set_column(1, "ts", pa.array(days.astype(np.int32)).cast(pa.date32()))
    table = table.sort_by(ORDER)
    for aggs in (ORDERED, *more(COMBINED)):
        same(
            spark,
            [table],
            on="ts",
            size="7d",
            advance="2d",
            by="key",
            aggs=aggs,
            partitions=3,
            parallelism="time",
        )


@grid(
    aggs=[COMBINED, ORDERED],
    windows=[
        {"size": "1d"},
        {"size": "3d", "advance": "2d", "offset": "6h"},
        {"size": "1w", "week_start": "sunday"},
        {"size": "2mo", "advance": "1mo", "offset": "14d"},
    ],
    parallelism=["hybrid", *more("auto", "time", "key")],
)
def test_calendar_windows(spark, aggs, windows, parallelism):
    table = rows(10)
    times = table["ts"].cast("int64").to_numpy() * 9_999 + 1_710_000_000_000_000
    table = table.set_column(1, "ts", pa.array(times, pa.timestamp("us", "UTC")))
    division = {"partitions": 4, "parallelism": parallelism}
    # The session's time zone is that of New York.
    for zone in ("America/New_York", "Australia/Lord_Howe"):
        query = {"on": "ts", "by": "key", "aggs": aggs, **windows}
        expected = counted(tidegate.aggregate(table, **query, zone=zone))
        given = {} if zone == "America/New_York" else {"zone": zone}
        frame = shuffled(spark, table, 3)
        found = tidegate.spark.aggregate(frame, **query, **given, **division)
        assert counted(found.toArrow()) == expected
        assert len(expected) > 9


@grid(
    aggs=[COMBINED, ORDERED],
    arguments=[
        {"by": "key", "empty": "null", "parallelism": "key"},
        {"by": ["key", "name"], "empty": "last", "keep": "90s", "parallelism": "hybrid"},
        *more(
            {"by": "key", "empty": {"mean": "linear"}, "parallelism": "time"},
            {"by": ["key", "name"], "empty": "last", "keep": "90s"},
        ),
        *more({"empty": "last"}),
    ],
)
def test_windows_without_rows(spark, aggs, arguments):
    table = rows(11, 60)
    same(spark, [table], aggs=aggs, **WINDOWS, partitions=4, **arguments)


def test_running_totals(spark):
    arguments = {"on": "ts", "size": "5m", "step": "90s", "by": "key", "aggs": COMBINED}
    arguments |= {"closed": "right", "empty": "null"}
    same(spark, [rows(15)], **arguments, partitions=4, parallelism="hybrid")


@pytest.mark.parametrize("parallelism", ["hybrid", *more("key", "time")])
def test_expressions_in_functions(spark, parallelism):
    aggs = {
        "mean": agg.mean(tidegate.row.value * tidegate.row.number),
        "sum": agg.sum("value * number"),
        "whole": agg.sum("number * number"),
        "most": agg.max("value - 1"),
        "flag": agg.any("number > 3"),
        "when": agg.max("ts + INTERVAL '1 hour'"),
    }
    division = {"partitions": 4, "parallelism": parallelism}
    same(spark, [rows(12)], by="key", aggs=aggs, **WINDOWS, **division)
    whole = {name: aggs[name] for name in ("whole", "most", "flag")}
    same(spark, [rows(12)], by="key", aggs=whole, **WINDOWS, **division)


def test_a_plan_shows_the_shuffle_of_windows_without_rows(spark):
    frame = shuffled(spark, rows(1), 1)
    query = {"on": "ts", "size": "9s", "by": "key", "aggs": COMBINED, "empty": "null"}
    explain = functools.partial(tidegate.spark.explain, tidegate.spark.aggregate, frame, **query)
    shown = explain(parallelism="time")
    assert "\n  sent       aggregates per slice and key" in shown
    assert "\n  filled     a second shuffle sends the windows of a key to one task" in shown
    assert "filled     a second" not in explain(parallelism="key")


def test_windows_from_a_table(spark):
    starts = np.random.default_rng(24).integers(-900, 900, 20) * 1_000_000
    listed = pa.table(
        {
            "window_start": pa.array(starts, pa.timestamp("us", "UTC")),
            "window_end": pa.array(starts + 400_000_000, pa.timestamp("us", "UTC")),
            "key": pa.array([*range(10)] * 2),
        }
    )
    same(spark, [rows(25)], on="ts", windows=listed, by="key", aggs=COMBINED | ORDERED)


def test_windows_of_rows(spark):
    tables = [rows(21), rows(22)]
    windows = {"size": tidegate.rows(7), "advance": tidegate.rows(3)}
    same(spark, tables, on="ts", **windows, by="key", aggs=COMBINED | ORDERED)
    frame = spark.createDataFrame(rows(23).to_pandas())
    query = {"on": "ts", **windows, "aggs": COMBINED}
    with pytest.raises(
        tidegate.TidegateError, match="all rows of a key in one task; choose 'key' or"
    ):
        tidegate.spark.aggregate(frame, **query, parallelism="time")


def test_a_plan_shows_the_session_s_time_zone(spark):
    frame = shuffled(spark, rows(1), 1)
    query = {"on": "ts", "size": "1mo", "aggs": COMBINED}
    shown = tidegate.spark.explain(tidegate.spark.aggregate, frame, **query)
    assert "midnight of their first day in America/New_York, by the rules of tzdb" in shown


def test_a_fixed_length_of_days_causes_a_warning(spark):
    frame = shuffled(spark, rows(1), 1)
    query = {"on": "ts", "aggs": COMBINED}
    with pytest.warns(UserWarning, match="do not begin at midnight in America/New_York") as caught:
        tidegate.spark.aggregate(frame, **query, size=dt.timedelta(days=1))
    ours = [one.filename for one in caught if "fixed length" in str(one.message)]
    assert ours == [__file__]


def test_decimals_and_names_that_need_quotes(spark):
    table = rows(9).select(["key", "ts", "number"])
    table = table.append_column("a `b`.c", table["number"].cast(pa.decimal128(22, 2)))
    aggs = {"x.y": agg.sum("a `b`.c"), "bucket": agg.max("a `b`.c"), "source": agg.count()}
    same(spark, [table], by="key", aggs=aggs, **WINDOWS, partitions=3, parallelism="hybrid")


def test_a_hot_key_is_cut_by_time(spark):
    rng = np.random.default_rng(1)
    count = 6_000
    keys = np.where(rng.random(count) < 0.8, 0, rng.integers(0, 1_000, count))
    table = pa.table({"key": keys, "ts": np.arange(count), "number": keys})
    arguments = {"on": "ts", "size": 100, "advance": 50, "by": "key", "partitions": 8}
    frame = spark.createDataFrame(table)
    plan = tidegate.spark.explain(
        tidegate.spark.aggregate, frame, **arguments, aggs={"n": agg.mean("number")}
    )
    assert "cut by time" in plan or "by time:" in plan
    same(spark, [table], aggs={"n": agg.mean("number")}, **arguments)


def test_then_sees_the_result(spark):
    def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.select(["n"])

    frame = shuffled(spark, rows(1), 2)
    found = tidegate.spark.aggregate(
        frame, by="key", aggs={"n": agg.count()}, **WINDOWS, then=doubled, then_schema="n bigint"
    )
    whole = tidegate.aggregate(rows(1), by="key", aggs={"n": agg.count()}, **WINDOWS)
    assert found.columns == ["n"]
    assert Counter(found.toArrow()["n"].to_pylist()) == Counter(whole["n"].to_pylist())


def test_explain_says_what_travels(spark):
    frame = shuffled(spark, rows(1), 2)
    combined, ordered = (
        tidegate.spark.explain(tidegate.spark.aggregate, frame, by="key", aggs=aggs, **WINDOWS)
        for aggs in (COMBINED, ORDERED)
    )
    assert "sent       aggregates per slice and key" in combined
    assert "sent       rows, because a result depends on their order: ts, key, value" in ordered


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": 0}, "size must be greater than 0"),
        ({"advance": "-1s"}, "advance must be greater than 0"),
        ({"by": "none"}, "none"),
        ({"aggs": {"n": agg.sum("name")}}, "sum of column `name`"),
        ({"partitions": 0}, "partitions: expected at least 1, got 0"),
        ({"parallelism": "broadcast"}, "expected one of auto, files, key, time, hybrid"),
        ({"by": None, "parallelism": "key"}, "divides rows by key; give `by`"),
        ({"aggs": {"key": agg.count()}}, "two columns `key`"),
    ],
)
def test_errors_come_before_any_work(spark, change, message):
    frame = spark.createDataFrame(rows(1))
    arguments = {**WINDOWS, "by": "key", "aggs": {"n": agg.count()}, **change}
    with pytest.raises(tidegate.TidegateError, match=message):
        tidegate.spark.aggregate(frame, **arguments)


def test_unfit_streams(spark):
    frame = spark.createDataFrame(rows(1))
    other = frame.withColumn("number", frame["number"].cast("int"))
    arguments = {**WINDOWS, "aggs": {"n": agg.sum("number")}}
    with pytest.raises(tidegate.TidegateError, match="at least one DataFrame"):
        tidegate.spark.aggregate([], **arguments)
    message = r"`number` is bigint in streams\[0\] and int in streams\[1\]; cast one"
    with pytest.raises(tidegate.SchemaError, match=message):
        tidegate.spark.aggregate([frame, other], **arguments)


def test_a_null_time_is_refused_by_the_task(spark):
    frame = spark.createDataFrame(rows(1)).selectExpr("nullif(ts, ts) as ts", "number")
    aggs = {"n": agg.count()}
    found = tidegate.spark.aggregate(frame, on="ts", size="1s", aggs=aggs, partitions=2)
    with pytest.raises(PySparkException, match="null"):
        found.toArrow()
