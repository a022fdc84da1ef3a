"""On Spark, right rows with equal times are ordered by all their values, regardless of type."""

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidegate import agg

pytest.importorskip("google.protobuf", reason="Spark's stateful operators need protobuf")

from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

import streaming
import tidegate.spark
from cases import more
from spark_session import settings, start
from tidegate.spark.worker.order import by_value

pytestmark = pytest.mark.filterwarnings("ignore")

NAN = float("nan")
POINT = pa.struct([("y", pa.list_(pa.float64()))])

# Values of each type, in ascending order.
RISING: dict[str, tuple[pa.DataType, list[Any]]] = {
    "struct": (
        pa.struct([("j", pa.int32()), ("s", pa.string())]),
        [
            {"j": 0, "s": "z"},
            {"j": 1, "s": "a"},
            {"j": 1, "s": None},
            {"j": None, "s": "a"},
            {"j": None, "s": None},
            None,
        ],
    ),
    "struct without fields": (pa.struct([]), [{}, None]),
    "struct in a struct": (
        pa.struct([("x", POINT)]),
        [
            {"x": {"y": []}},
            {"x": {"y": [-0.0]}},
            {"x": {"y": [0.0]}},
            {"x": {"y": [1.0]}},
            {"x": {"y": [1.0, 2.0]}},
            {"x": {"y": [NAN]}},
            {"x": {"y": [None]}},
            {"x": {"y": None}},
            {"x": None},
            None,
        ],
    ),
    "map": (
        pa.map_(pa.string(), pa.struct([("a", pa.int64())])),
        [[], [("a", {"a": 1})], [("a", {"a": 1}), ("b", None)], [("a", None)], [("b", None)], None],
    ),
    "array of maps": (
        pa.list_(pa.map_(pa.int8(), pa.bool_())),
        [[], [[(1, False)]], [[(1, True)], []], [None], None],
    ),
    "array of nulls": (pa.list_(pa.null()), [[], [None], [None, None], None]),
    "float": (pa.float32(), [-np.inf, -1.5, -0.0, 0.0, 1.5, NAN, None]),
    "binary": (pa.binary(), [b"", b"a", b"a\0", b"\xff", None]),
}


@pytest.mark.parametrize(("kind", "rising"), RISING.values(), ids=RISING)
def test_values_of_one_time_rise(kind, rising):
    for seed in range(20):
        shuffled = random.Random(seed).sample(rising, len(rising))  # noqa: S311 - for tests
        rows = pa.table({"ts": [1] * len(rising), "v": pa.array(shuffled, kind)})
        found = by_value(rows, "ts", np.ones(len(rising), np.int64))["v"]
        assert list(map(str, found.to_pylist())) == list(map(str, rising)), seed


def test_a_part_of_a_table_is_in_the_order_of_its_own_values():
    kind, rising = RISING["map"]
    every = pa.table({"v": pa.array([[("z", None)], *reversed(rising), [("z", None)]], kind)})
    rows = every.slice(1, len(rising)).append_column("ts", pa.array([1] * len(rising)))
    found = by_value(rows, "ts", np.ones(len(rising), np.int64))
    assert found["v"].to_pylist() == rising


# Values of each Spark type as SQL literals, in ascending order.
SQL = {
    "struct": ("struct(1 as a, 'x' as b)", "struct(1 as a, 'y' as b)", "struct(2 as a, 'a' as b)"),
    "struct_in_struct": ("struct(struct(1 as b) as a)", "struct(struct(2 as b) as a)"),
    "no_fields": ("from_json('{}', 'struct<>')", "cast(null as struct<>)"),
    "variant": ("parse_json('1')", "parse_json('2')"),
    "array": ("array(1)", "array(1, 2)", "array(2)", "cast(null as array<int>)"),
    "array_of_structs": ("array(struct(1 as a))", "array(struct(2 as a))"),
    "map": ("map('a', 1)", "map('a', 2)", "map('b', 0)"),
    "map_of_structs": ("map('a', struct(1 as a))", "map('a', struct(2 as a))"),
    "binary": ("x'00'", "x'0001'", "x'ff'"),
    "boolean": ("false", "true"),
    "byte": ("-1Y", "1Y"),
    "decimal": ("-1.5bd", "1.5bd", "2.5bd"),
    "double": ("-0.0d", "0.0d", "double('nan')"),
    "date": ("date'2026-01-01'", "date'2026-01-02'"),
    "timestamp": ("timestamp'2026-01-01 00:00:00Z'", "timestamp'2026-01-01 00:00:01Z'"),
    "ntz": ("timestamp_ntz'2026-01-01 00:00:00'", "timestamp_ntz'2026-01-01 00:00:01'"),
    "day_interval": ("interval '1' day", "interval '2' day"),
    "void": ("null",),
}


def tied(spark):
    """Build right rows with equal times and descending values, one key per type, and left rows.

    The last column contains the position of a row among the values of its key.
    """
    rows = [
        [repr(name), "5L", *(value if name == one else "null" for one in SQL), str(place)]
        for name, values in SQL.items()
        for place, value in reversed(list(enumerate(values)))
    ]
    # These values determine the types of the columns.
    first = ["null", "0L", *(values[0] for values in SQL.values()), "0"]
    columns = ", ".join(["k", "ts", *(f"v_{name}" for name in SQL), "place"])
    listed = ", ".join(f"({', '.join(row)})" for row in [first, *rows])
    values = f"values {listed} as t({columns})"
    right = spark.sql(f"from {values}").where("k is not null")
    return spark.sql(f"select explode(array({', '.join(map(repr, SQL))})) as k, 5L as ts"), right


@pytest.fixture(scope="module")
def spark():
    session = start()
    with settings(session, **streaming.STORE):
        yield session


LAST = {"aggs": {"place": agg.last("place")}}
JOINS = {
    "asof_join": {"on": "ts"},
    "interval_join": {"on": "ts", "lower": 0, "upper": 0, **LAST},
    "window_join": {"on": "ts", "window": 1, **LAST},
    "band_join": {"on": "ts", "within": 0, **LAST},
    "overlap_join": {"on": ("ts", "ts"), **LAST},
}


def places(found) -> dict[str, int]:
    return {row.k: row.place for row in found.select("k", "place").collect()}


# Parquet does not support columns of these types.
NOT_IN_FILES = ("v_void", "v_no_fields")

LARGEST = {name: len(values) - 1 for name, values in SQL.items()}


@pytest.mark.parametrize(
    ("join", "parallelism"),
    [
        ("asof_join", "broadcast"),
        ("asof_join", "key"),
        *more(*((join, way) for join in JOINS for way in ("broadcast", "key"))),
    ],
)
def test_the_last_of_the_right_rows_of_one_time_has_the_largest_value(spark, join, parallelism):
    left, right = tied(spark)
    query = dict(JOINS[join])
    if "aggs" in query:
        # All columns are sent.
        columns = [name for name in right.columns if name.startswith("v_")]
        query["aggs"] = {**query["aggs"], **{f"last_{name}": agg.last(name) for name in columns}}
    function = getattr(tidegate.spark, join)
    assert places(function(left, right, by="k", **query, parallelism=parallelism)) == LARGEST


@pytest.mark.parametrize("windows", [{"size": 10}, *more({"session": 10})])
def test_an_aggregation_sees_the_rows_of_one_time_in_the_order_of_their_values(spark, windows):
    _, rows = tied(spark)
    columns = [name for name in rows.columns if name.startswith("v_")]
    aggs = {"place": agg.last("place"), "all": agg.collect("place")}
    aggs |= {name: agg.first(name) for name in columns}
    found = tidegate.spark.aggregate(rows, on="ts", by="k", **windows, aggs=aggs)
    assert places(found) == LARGEST
    assert all(row.all == sorted(row.all) for row in found.select("all").collect())


@pytest.mark.parametrize("call", ["asof_join", *more("interval_join", "aggregate")])
def test_streams_see_the_rows_of_one_time_in_the_order_of_their_values(spark, tmp_path, call):
    frames = []
    for name, frame in zip(("left", "right"), tied(spark), strict=True):
        timed = frame.drop(*NOT_IN_FILES).withColumn("ts", F.timestamp_seconds("ts"))
        timed.coalesce(1).write.parquet(str(tmp_path / name))
        # A later row causes the results of all other rows to be emitted.
        later = timed.limit(1).withColumn("ts", F.timestamp_seconds(F.lit(500)))
        later.withColumn("k", F.lit("later")).write.mode("append").parquet(str(tmp_path / name))
        stream = spark.readStream.schema(timed.schema).parquet(str(tmp_path / name))
        frames.append(stream.withWatermark("ts", "1 second"))
    left, right = frames
    if call == "asof_join":
        found = tidegate.spark.asof_join(left, right, on="ts", by="k", partitions=2)
    elif call == "interval_join":
        columns = {name: agg.last(name) for name in right.columns[2:]}
        near = {"lower": "0s", "upper": "0s", "aggs": columns, "columns": ["k"]}
        found = tidegate.spark.interval_join(left, right, on="ts", by="k", **near, partitions=2)
    else:
        columns = {name: agg.last(name) for name in right.columns[2:]}
        found = tidegate.spark.aggregate(right, on="ts", by="k", size="10s", aggs=columns)
    rows = streaming.Sink(tmp_path).drain(found.select("k", "place"))
    expected = {k: place for k, place in LARGEST.items() if f"v_{k}" not in NOT_IN_FILES}
    told = dict(zip(rows["k"].to_pylist(), rows["place"].to_pylist(), strict=True))
    assert told.items() >= expected.items()


@pytest.mark.parametrize("parallelism", ["broadcast", "key", *more("time")])
def test_fewer_columns_do_not_change_which_row_is_nearest(spark, parallelism):
    left = spark.sql("select 'a' as k, 5L as ts")
    right = spark.sql("from values ('a', 5L, 1, 9), ('a', 5L, 2, 7) as t(k, ts, seq, bid)")
    query = {"on": "ts", "by": "k", "parallelism": parallelism}
    for columns in (None, ["k", "bid"], ["bid"]):
        found = tidegate.spark.asof_join(left, right, **query, columns=columns)
        assert [row.bid for row in found.collect()] == [7], columns
    # A different column order produces a different row order.
    found = tidegate.spark.asof_join(left, right.select("bid", "k", "ts", "seq"), **query)
    assert [row.bid for row in found.collect()] == [9]
