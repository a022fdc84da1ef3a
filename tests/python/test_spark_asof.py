"""As-of joins on Spark: the rows of the native join, regardless of how they were divided."""

import datetime as dt
import itertools
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import LongType, StringType

import campaign
import spark_session
import tidegate
import tidegate.spark
from cases import grid, more, of_campaigns
from tidegate import SchemaError, TidegateError
from tidegate.spark.driver import division, whole
from tidegate.spark.layout.layout import Bucket, Layout, Reach
from tidegate.spark.layout.nearest import HOME, Slices, carried
from tidegate.spark.plan.join import Plan
from tidegate.spark.query.axis import TimeAxis
from tidegate.spark.query.query import SparkQuery
from tidegate.spark.worker import nearest, pack
from tidegate.spark.worker.nearest import NearestPacker, RightWhere
from tidegate.spark.worker.order import Order, by_value
from tidegate.spark.worker.pack import LEFT, RIGHT, Packer, unpacked

pytestmark = pytest.mark.filterwarnings("ignore")

ROWS = 400
SECOND = 1_000_000


@pytest.fixture(scope="module")
def spark():
    return spark_session.start()


@pytest.fixture(autouse=True)
def whole_sample(monkeypatch):
    """Include all rows in the sample, so that few rows are divided like many."""
    monkeypatch.setattr(division, "FRACTION", 1.0)


@pytest.fixture
def large(monkeypatch):
    """Treat no side as small enough to be sent in full."""
    monkeypatch.setattr(whole, "LIMIT", 0)
    monkeypatch.setattr(whole, "_SURE", 0)


def events(seed: int, payload: str) -> pa.Table:
    """Create rows, half with one key and a tenth without. Times are unique on each side."""
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 12, ROWS)
    keys[rng.random(ROWS) < 0.5] = 1
    ints = rng.integers(0, 100, ROWS)
    floats = np.where(rng.random(ROWS) < 0.2, np.nan, rng.standard_normal(ROWS))
    ratios = rng.choice([0.0, -0.0, 1.5, np.nan], ROWS)
    # Some seconds are also used on the other side, so that some times are equal.
    seconds = rng.permutation(3 * ROWS)[:ROWS]
    return pa.table(
        {
            "key": pa.array(keys, mask=rng.random(ROWS) < 0.1),
            "ts": pa.array(seconds * SECOND, pa.timestamp("us", "UTC")),
            "tick": pa.array(seconds),
            "ratio": pa.array(ratios),
            "x": pa.array(ints, mask=rng.random(ROWS) < 0.2),
            "v": pa.array(floats, mask=rng.random(ROWS) < 0.1),
            "price": pa.array([Decimal(int(x)) / 100 for x in ints], pa.decimal128(10, 2)),
            payload: pa.array([f"{payload}{x}" if x % 5 else None for x in range(ROWS)]),
        }
    )


SIDES = events(1, "left_name"), events(2, "right_name")
LAST = {"on": "ts", "by": "key"}


@pytest.fixture(scope="module")
def sides(spark):
    """Return both tables, each in more Spark partitions than there are cores."""
    return tuple(spark.createDataFrame(t).repartition(3, "x").cache() for t in SIDES)


def rows_of(table: pa.Table) -> list[str]:
    """Return the rows as strings, sorted."""
    return sorted(map(repr, table.to_pylist()))


def same(frame, expected: pa.Table) -> pa.Table:
    """Assert that the DataFrame has these columns, types and rows."""
    found = frame.toArrow()
    assert found.schema.names == expected.schema.names
    assert found.schema.types == expected.schema.types
    assert rows_of(found) == rows_of(expected)
    return found


def laid_out(frames, query: dict, **of_spark) -> tuple[Plan, Layout]:
    plan = Plan.of(*frames, SparkQuery.of("asof_join", {"how": "left", **query}), **of_spark)
    return plan, division.of_join(plan)


def sent(plan: Plan, side: int, layout: Layout) -> int:
    """Return the number of rows that are sent of a side."""
    packs = plan.packed(side, layout).toArrow()["rows"]
    return sum(pa.ipc.open_stream(pack.as_buffer()).read_all().num_rows for pack in packs)


def test_the_sides_test_something():
    found = tidegate.asof_join(*SIDES, **LAST, columns=["ts", "ts_right"])
    assert 20 < found["ts_right"].null_count < 200
    assert sum(row["ts"] == row["ts_right"] for row in found.to_pylist()) > 5
    assert SIDES[0]["key"].null_count > 10


STRATEGIES = ("backward", "forward", "nearest")
DIVISIONS = ("time", "hybrid", "broadcast", "key")
CHANGES = (
    {},
    {"allow_exact_matches": False, "how": "semi"},
    {"where": "right.v > 0 and right.ts is not null", "tolerance": "60s", "how": "inner"},
    {"where": tidegate.left.x < tidegate.right.x, "tolerance": "30s", "how": "inner"},
    {"where": "left.x > 50", "how": "anti"},
    *more(
        {"tolerance": "7s", "how": "inner"},
        {"by": None, "where": "right.x > left.x", "allow_exact_matches": False},
        {"tolerance": "40s", "allow_exact_matches": False, "how": "anti"},
        {"by": None, "tolerance": "20s"},
        {"by": None, "where": "right.x > 90", "how": "inner"},
        {"where": "right.x > 60"},
        {"where": "left.x < right.x"},
        {"by": None, "tolerance": "40s", "how": "semi"},
    ),
)


def cases():
    """Yield every change, in a campaign with every strategy, and vary the division."""
    for number, (changed, strategy) in enumerate(itertools.product(CHANGES, STRATEGIES)):
        if not campaign.ALL and (number // 3 + number // 12) % 3 != number % 3:
            continue
        division = DIVISIONS[(number + number // 3 + number // 12) % 4]
        if "by" in changed:
            division = ("time", "auto")[number % 2]
        yield pytest.param(changed, strategy, division, id=f"{changed} {strategy} {division}")


@pytest.mark.parametrize(("changed", "strategy", "parallelism"), [*cases()])
def test_rows_are_those_of_the_native_join(sides, changed, strategy, parallelism):
    query = {**LAST, "strategy": strategy, **changed}
    found = tidegate.spark.asof_join(*sides, **query, parallelism=parallelism, partitions=4)
    assert same(found, tidegate.asof_join(*SIDES, **query)).num_rows > 20


# `test_a_heavy_key_is_cut_and_few_rows_are_copied` also has large sides.
@of_campaigns
@grid(by=["key", None], where=["right.x > left.x", None])
def test_large_sides_are_shuffled(sides, large, by, where):
    query = {**LAST, "by": by, "where": where}
    assert "sent in full" not in tidegate.spark.explain(tidegate.spark.asof_join, *sides, **query)
    found = tidegate.spark.asof_join(*sides, **query, partitions=3)
    same(found, tidegate.asof_join(*SIDES, **query))


@pytest.mark.parametrize(
    "by", [["key", "ratio"], *more("price", "ratio", {"left_name": "right_name"})], ids=repr
)
def test_keys_of_other_types(sides, by):
    """NaN equals NaN, and 0.0 equals -0.0."""
    query = {"on": ("tick", "tick"), "by": by, "strategy": "nearest"}
    found = tidegate.spark.asof_join(*sides, **query, parallelism="time", partitions=5)
    same(found, tidegate.asof_join(*SIDES, **query))


def test_names_suffix_and_columns(spark, sides):
    renamed = SIDES[1].rename_columns(["k", "time", *SIDES[1].column_names[2:]])
    frames = sides[0], spark.createDataFrame(renamed).repartition(3)
    query = {"on": ("ts", "time"), "by": {"key": "k"}, "suffix": "_of_right"}
    chosen = ["v_of_right", "right_name", "ts"]
    for columns, parallelism in (
        (chosen, "time"),
        *more((None, "broadcast"), (None, "time"), (chosen, "broadcast")),
        *more((["time"], "broadcast"), (["time"], "time")),
    ):
        found = tidegate.spark.asof_join(
            *frames, **query, columns=columns, parallelism=parallelism, partitions=4
        )
        same(found, tidegate.asof_join(SIDES[0], renamed, **query, columns=columns))


def test_left_columns_that_are_not_read_do_not_travel(sides):
    join = tidegate.spark.asof_join
    query = {**LAST, "where": "right.x > 3"}
    text = tidegate.spark.explain(join, *sides, **query, columns=["right_name"])
    assert f"sent       left key, ts; right {', '.join(SIDES[1].column_names)}\n" in text
    # The result has no right columns, so their order does not matter.
    text = tidegate.spark.explain(join, *sides, **query, columns=["key"], how="semi")
    assert "sent       left key, ts; right key, ts, x\n" in text


@pytest.mark.parametrize("how", ["semi", "anti"])
def test_one_side_of_a_schema(sides, how):
    assert tidegate.spark.asof_join(*sides, **LAST, how=how).schema.names == SIDES[0].column_names


@pytest.mark.parametrize("how", ["left", "inner"])
def test_right_columns_are_null_where_a_partner_may_lack(spark, how):
    left, right = (spark.range(3).selectExpr("id as ts", f"id as {name}") for name in "lr")
    fields = tidegate.spark.asof_join(left, right, on="ts", how=how).schema
    assert fields["r"].nullable == (how == "left")
    assert not fields["l"].nullable


def test_types_are_those_of_the_columns(sides):
    fields = tidegate.spark.asof_join(*sides, **LAST).schema
    assert fields["right_name"].dataType == StringType()
    assert fields["tick_right"].dataType == LongType()


@grid(empty=["right", *more("both", "left")], parallelism=["time", *more("broadcast", "hybrid")])
def test_empty_sides(sides, empty, parallelism):
    names = ("left", "right")
    frames = [
        side.where("x > 1000") if empty in (name, "both") else side
        for name, side in zip(names, sides, strict=True)
    ]
    tables = [
        table.slice(0, 0) if empty in (name, "both") else table
        for name, table in zip(names, SIDES, strict=True)
    ]
    query = {**LAST, "strategy": "nearest", "where": "right.x > 4"}
    found = tidegate.spark.asof_join(*frames, **query, parallelism=parallelism, partitions=4)
    same(found, tidegate.asof_join(*tables, **query))


def skewed(seed: int, rows: int) -> pa.Table:
    """Create rows, nearly all with one key."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "key": np.where(rng.random(rows) < 0.9, 3, rng.integers(0, 50, rows)),
            "ts": rng.permutation(4 * rows)[:rows],
            "v": rng.standard_normal(rows),
        }
    )


@pytest.mark.parametrize(
    ("strategy", "parallelism"),
    [("backward", "auto"), *more(("nearest", "hybrid"), ("forward", "time"))],
)
def test_a_heavy_key_is_cut_and_few_rows_are_copied(spark, large, strategy, parallelism):
    tables = skewed(3, 2_000), skewed(4, 2_000)
    frames = [spark.createDataFrame(table).repartition(3) for table in tables]
    query = {"on": "ts", "by": "key", "strategy": strategy, "tolerance": None}
    of_spark = {"partitions": 5, "parallelism": parallelism}
    plan, layout = laid_out(frames, query, **of_spark)
    assert layout.is_cut
    assert layout.fullest < 1.3 * layout.sent / 5
    # Each of three tasks sends at most two rows per key to a slice.
    slices = len(layout.partition_of)
    assert 2_000 < sent(plan, RIGHT, layout) <= min(2_000 + 2 * 3 * 50 * slices, 4_000)
    assert sent(plan, LEFT, layout) == 2_000
    found = tidegate.spark.asof_join(*frames, **query, **of_spark)
    same(found, tidegate.asof_join(*tables, **query))


def test_a_condition_on_both_sides_needs_all_rows_within_reach(spark, large):
    tables = skewed(5, 2_000), skewed(6, 2_000)
    frames = [spark.createDataFrame(table).repartition(2) for table in tables]
    where = "left.v < right.v - 3"
    for tolerance in (300, *more(None)):
        query = {"on": "ts", "by": "key", "where": where, "tolerance": tolerance}
        plan, layout = laid_out(frames, query, partitions=4, parallelism="time")
        assert not layout.reach.nearest
        copies = sent(plan, RIGHT, layout) - 2_000
        assert copies > 2_000 if tolerance is None else 150 < copies < 300
        found = tidegate.spark.asof_join(*frames, **query, partitions=4, parallelism="time")
        same(found, tidegate.asof_join(*tables, **query))


@pytest.mark.parametrize("tolerance", [995, *more(None)])
def test_a_partner_is_far_before_its_slice(spark, tolerance):
    """Some keys have right rows only at one end of time, and some slices have no right rows."""
    left = pa.table({"key": [1, 2, 3, 4] * 250, "ts": range(1_000)})
    ends = {"key": [1, 1, 2, 3, 3], "ts": [3, 4, 990, 2, 995], "name": list("abcde")}
    right = pa.table(ends)
    frames = [spark.createDataFrame(table).repartition(2) for table in (left, right)]
    for strategy in ("nearest", *more("backward", "forward")):
        query = {"on": "ts", "by": "key", "strategy": strategy, "tolerance": tolerance}
        _, layout = laid_out(frames, query, partitions=5, parallelism="time")
        assert len(layout.partition_of) == 5
        found = tidegate.spark.asof_join(*frames, **query, parallelism="time", partitions=5)
        same(found, tidegate.asof_join(left, right, **query))


@pytest.mark.parametrize("strategy", ["nearest", *more("backward", "forward")])
def test_one_time_has_most_rows(spark, strategy):
    """A left row is in one piece of the slice, and every piece has the right rows that it needs."""
    rng = np.random.default_rng(7)
    left = pa.table({"ts": np.where(rng.random(2_000) < 0.9, 500, rng.integers(0, 1_000, 2_000))})
    left = left.append_column("row", pa.array(range(2_000)))
    right = pa.table({"ts": rng.permutation(1_000)[:60], "v": rng.standard_normal(60)})
    right = right.filter(pa.array(right["ts"].to_numpy() != 500))
    frames = [spark.createDataFrame(table).repartition(3) for table in (left, right)]
    query = {"on": "ts", "strategy": strategy}
    _, layout = laid_out(frames, query, partitions=4, parallelism="time")
    assert layout.has_pieces
    found = tidegate.spark.asof_join(*frames, **query, parallelism="time", partitions=4)
    same(found, tidegate.asof_join(left, right, **query))


def tied() -> tuple[pa.Table, pa.Table]:
    """Create right rows that mostly share their time and key with others."""
    rng = np.random.default_rng(8)
    values = rng.choice([0.0, -0.0, np.nan, 1.0, -2.5], 600)
    left = pa.table({"key": rng.integers(0, 3, 200), "ts": rng.integers(0, 60, 200)})
    right = pa.table(
        {
            "name": pa.array([None if n % 7 == 0 else "n" * (n % 3) for n in range(600)]),
            "key": rng.integers(0, 3, 600),
            "v": pa.array(values, mask=rng.random(600) < 0.1),
            "ts": rng.integers(0, 30, 600) * 2,
        }
    )
    return left, right


@pytest.mark.parametrize(
    ("strategy", "parallelism"),
    [
        ("backward", "broadcast"),
        ("forward", "hybrid"),
        *more(("nearest", "time"), ("backward", "time"), ("forward", "key")),
    ],
)
def test_ties_are_decided_by_values(spark, strategy, parallelism):
    left, right = tied()
    query = {"on": "ts", "by": "key", "strategy": strategy}
    times = TimeAxis(days=False).integers(right["ts"])
    expected = tidegate.asof_join(left, by_value(right, "ts", times), **query)
    assert rows_of(expected) != rows_of(tidegate.asof_join(left, right, **query))
    for seed in range(campaign.tries(1)):
        order = np.random.default_rng(seed).permutation(600)
        frames = [spark.createDataFrame(table) for table in (left, right.take(pa.array(order)))]
        frames = [frame.repartition(3 + seed) for frame in frames]
        found = tidegate.spark.asof_join(
            *frames, **query, parallelism=parallelism, partitions=4 + seed
        )
        same(found, expected)


def test_columns_that_do_not_compare_travel(spark):
    left = pa.table({"ts": range(100)})
    right = pa.table({"ts": range(0, 100, 7), "list": [[n, n] for n in range(15)]})
    frames = [spark.createDataFrame(table).repartition(2) for table in (left, right)]
    found = tidegate.spark.asof_join(*frames, on="ts", parallelism="time", partitions=3)
    assert rows_of(found.toArrow()) == rows_of(tidegate.asof_join(left, right, on="ts"))


def test_dates_beside_timestamps(spark):
    days = [dt.date(2026, 1, 1 + n) for n in range(28)]
    rng = np.random.default_rng(9)
    micros = 1_767_225_600_000_000 + rng.permutation(28 * 24)[:100] * 3_600 * SECOND
    left = pa.table({"day": pa.array(days)})
    right = pa.table({"time": pa.array(micros, pa.timestamp("us", "UTC")), "n": range(100)})
    frames = [spark.createDataFrame(table) for table in (left, right)]
    frames[1] = frames[1].selectExpr("CAST(time AS timestamp_ntz) AS time", "n")
    right = frames[1].toArrow()
    for strategy in ("nearest", *more("backward", "forward")):
        query = {"on": ("day", "time"), "strategy": strategy, "tolerance": "5h"}
        found = tidegate.spark.asof_join(*frames, **query, parallelism="time", partitions=4)
        same(found, tidegate.asof_join(left, right, **query))


@pytest.mark.parametrize(
    ("side", "parallelism", "where"),
    [
        ("right", "broadcast", None),
        ("left", "time", "right.x > 0"),
        *more(("right", "time", None), ("right", "time", "right.x > 0")),
    ],
)
def test_a_null_time_is_an_error_that_names_it(spark, side, parallelism, where):
    frames = [
        spark.range(9).selectExpr("id as x", f"nullif(id, {3 if side == name else -1}) as at")
        for name in ("left", "right")
    ]
    with pytest.raises((TidegateError, PySparkException), match=rf"{side}.*`at`.*null"):
        tidegate.spark.asof_join(
            *frames, on="at", where=where, parallelism=parallelism, partitions=2
        ).collect()


def test_the_same_rows_whatever_spark_does(spark, sides):
    query = {**LAST, "strategy": "nearest", "parallelism": "hybrid", "partitions": 7}
    expected = tidegate.asof_join(*SIDES, **LAST, strategy="nearest")
    for width in (200, *more(1)):
        with spark_session.settings(
            spark, spark__sql__shuffle__partitions=width, spark__sql__adaptive__enabled="true"
        ):
            same(tidegate.spark.asof_join(*sides, **query), expected)


def test_then_sees_the_rows(sides):
    def counted(batch: pa.RecordBatch) -> pa.Table:
        return pa.table({"n": [batch.num_rows]})

    found = tidegate.spark.asof_join(
        *sides,
        **LAST,
        how="inner",
        parallelism="time",
        partitions=4,
        then=counted,
        then_schema="n bigint",
    )
    expected = tidegate.asof_join(*SIDES, **LAST, how="inner").num_rows
    assert sum(found.toArrow()["n"].to_pylist()) == expected


def test_explain_tells_what_travels(sides):
    explain = tidegate.spark.explain
    # Decimals have no known size.
    sides = [side.drop("price") for side in sides]
    text = explain(tidegate.spark.asof_join, *sides, **LAST, where="right.x > 3", how="inner")
    assert "asof_join (inner)" in text
    assert "right is sent in full" in text
    assert "right rows with equal times are ordered by value, starting with ts" in text
    cut = {**LAST, "parallelism": "time", "partitions": 4}
    text = explain(tidegate.spark.asof_join, *sides, **cut, where="right.x > 3")
    assert "by time: 4 slices" in text
    assert "filtered   right rows are tested by where before they are sent" in text
    assert "from outside each slice: the nearest right rows of each key" in text
    text = explain(tidegate.spark.asof_join, *sides, **cut, where="right.x > left.x")
    assert "filtered" not in text
    assert "because where uses both sides" in text
    text = explain(tidegate.spark.asof_join, *sides, **LAST, parallelism="key")
    assert "copies" not in text


def test_the_left_side_is_never_sent_whole(sides):
    sides = [side.drop("price") for side in sides]
    for how in ("left", *more("inner", "semi")):
        text = tidegate.spark.explain(
            tidegate.spark.asof_join, sides[0].limit(3), sides[1], **LAST, how=how
        )
        assert "right is sent in full" in text


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"tolerance": "-5s"}, TidegateError, "tolerance must not be negative"),
        ({"tolerance": 5}, SchemaError, "give tolerance a unit"),
        ({"tolerance": 1.5}, TypeError, "tolerance"),
        (
            {"strategy": "last"},
            TidegateError,
            "backward, forward, nearest, interpolate, got `last`",
        ),
        ({"how": "full"}, TidegateError, "one of left, inner, semi, anti, got `full`"),
        ({"how": "right"}, TidegateError, "got `right`"),
        ({"on": "time"}, SchemaError, "no column `time`, which `on` names"),
        ({"on": "v"}, SchemaError, "v"),
        ({"by": "nope"}, SchemaError, "nope"),
        ({"columns": ["nope"]}, SchemaError, "nope"),
        ({"columns": []}, SchemaError, "columns"),
        ({"columns": "ts"}, TypeError, "expected a list of column names"),
        ({"where": "right.nope > 1"}, SchemaError, "nope"),
        ({"where": "x > 1"}, TidegateError, "has no side"),
        ({"partitions": 0}, TidegateError, "at least 1"),
        ({"parallelism": "value"}, TidegateError, "auto, broadcast, files, key, time, hybrid"),
        ({"by": None, "parallelism": "key"}, TidegateError, "give `by`, or choose 'time'"),
        ({"then": lambda batch: batch}, TidegateError, "give both or neither"),
        ({"late_as": "late"}, TidegateError, "has no late rows"),
    ],
)
def test_refusals_say_what_to_write(sides, changed, error, words):
    with pytest.raises(error, match=words):
        tidegate.spark.asof_join(*sides, **(LAST | changed))


def test_a_table_of_another_kind_is_refused(sides):
    with pytest.raises(TypeError, match=r"right: expected a Spark DataFrame, got pyarrow"):
        tidegate.spark.asof_join(sides[0], SIDES[1], **LAST)


# Without Spark: the rows that a slice receives from others.

SLICES = Layout(5, (Bucket((0, 1, 2, 3, 4), (10, 20, 30, 40)),), "right", Reach(None, None))


def places(times: list[int], reach: Reach) -> tuple[Slices, Slices]:
    """Return the home slices of rows with these times, and the slices within their reach."""
    bucket = np.zeros(len(times), np.int64)
    spans = HOME, reach.right_span(copied=True)
    home, reached = (Slices(*SLICES.slices(bucket, np.array(times), one, None)) for one in spans)
    return home, reached


@pytest.mark.parametrize(
    ("reach", "expected"),
    [
        (Reach(None, 0), {(12, 2, 3), (35, 4, 4)}),
        (Reach(0, None), {(11, 0, 0), (31, 1, 2)}),
        (Reach(None, None), {(12, 2, 3), (35, 4, 4), (11, 0, 0), (31, 1, 2)}),
        (Reach(-9, 0), {(12, 2, 2), (35, 4, 4)}),
        (Reach(0, 5), {(11, 0, 0), (31, 2, 2)}),
        (Reach(0, 1), set()),
    ],
)
def test_a_slice_gets_the_nearest_rows_outside_it(reach, expected):
    times = [11, 12, 31, 35]
    found = carried(np.zeros(4, np.int64), *places(times, reach))
    rows = zip(found.rows, *found.slices, strict=True)
    assert {(times[row], begin, end) for row, begin, end in rows} == expected


def test_keys_do_not_hide_each_other():
    found = carried(np.array([1, 2, 1]), *places([5, 6, 15], Reach(None, 0)))
    assert set(zip(found.rows, *found.slices, strict=True)) == {(0, 1, 1), (2, 2, 4), (1, 1, 4)}


def drawn(rng: np.random.Generator) -> tuple[Layout, dict]:
    """Draw a layout of three buckets with borders and pieces, and a query whose pairs it fits."""
    strategy = str(rng.choice(STRATEGIES))
    tolerance = None if rng.random() < 0.5 else int(rng.integers(0, 60))
    lower, upper = None if tolerance is None else -tolerance, tolerance
    reach = {
        "backward": Reach(lower, 0, nearest=True),
        "forward": Reach(0, upper, nearest=True),
        "nearest": Reach(lower, upper, nearest=True),
    }[strategy]
    partitions = int(rng.integers(1, 7))
    buckets = []
    for _ in range(3):
        borders = np.unique(rng.integers(-10, 210, rng.integers(0, 6)))
        pieces = rng.integers(1, min(3, partitions + 1), len(borders) + 1)
        homes = [rng.permutation(partitions)[:count] for count in pieces]
        buckets.append(
            Bucket(
                tuple(np.concatenate(homes).tolist()),
                tuple(borders.tolist()),
                tuple(pieces.tolist()) if max(pieces) > 1 else (),
            )
        )
    exact = bool(rng.random() < 0.7)
    query = {"strategy": strategy, "tolerance": tolerance, "allow_exact_matches": exact}
    return Layout(partitions, tuple(buckets), "right", reach), query


def batches(table: pa.Table, rng: np.random.Generator) -> list[pa.RecordBatch]:
    """Return the rows in random order, with two more columns: the bucket and a hash."""
    table = table.take(pa.array(rng.permutation(table.num_rows)))
    buckets = (table["key"].to_numpy() % 3).astype(np.int32)
    hashes = rng.integers(-(2**62), 2**62, table.num_rows)
    extended = table.append_column("bucket", pa.array(buckets))
    return extended.append_column("hash", pa.array(hashes)).to_batches(max_chunksize=17)


@pytest.mark.parametrize(
    ("collected", "held"),
    [(1, 1), (1, 1 << 13), (1, 1 << 26), (1 << 26, 1 << 26)],
    ids=["sent in parts", "reduced twice", "held back", "sent at once"],
)
def test_every_left_row_finds_its_partner_where_it_is(monkeypatch, collected, held):
    monkeypatch.setattr(pack, "_COLLECTED", collected)
    monkeypatch.setattr(nearest, "_HELD", held)
    on, axis = {"on": "ts", "by": "key"}, TimeAxis(days=False)
    rows = 0
    seeds = campaign.tries(12)
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        layout, query = drawn(rng)
        count = int(rng.integers(0, 120))
        left = pa.table({"ts": rng.integers(0, 200, 100), "key": rng.integers(0, 5, 100)})
        times, keys = rng.integers(0, 200, count), rng.integers(0, 4, count)
        right = pa.table({"ts": times, "key": keys, "v": rng.integers(0, 9, count)})
        packer = Packer(layout, RIGHT, 0, axis, extra=2)
        packs = [
            *Packer(layout, LEFT, 0, axis, extra=2).run(iter(batches(left, rng))),
            *NearestPacker(packer, (1,), None).run(iter(batches(right, rng))),
        ]
        parts: dict[tuple[int, int], list[pa.Table]] = {}
        for one in itertools.chain.from_iterable(map(unpacked, packs)):
            parts.setdefault((one.partition, one.side), []).append(one.rows)
        found = []
        for partition in range(layout.partitions):
            mine, others = (
                pa.concat_tables([table.slice(0, 0), *parts.get((partition, side), [])])
                for side, table in ((LEFT, left), (RIGHT, right))
            )
            others = Order("ts", axis, by_number=False).put(others)
            found.append(tidegate.asof_join(mine, others, **on, **query))
        in_order = by_value(right, "ts", times)
        expected = tidegate.asof_join(left, in_order, **on, **query)
        assert rows_of(pa.concat_tables(found)) == rows_of(expected), seed
        rows += expected["v"].null_count
    assert 13 * seeds < rows < 90 * seeds


def test_a_condition_on_right_rows_sees_no_other_columns():
    left = pa.schema([("at", pa.timestamp("us", "UTC")), ("row_", pa.list_(pa.int64()))])
    right = pa.schema([("at", pa.timestamp("us", "UTC")), ("x", pa.int64())])
    rows = pa.table(
        {"a": pa.array([5, 1, 3], right.field("at").type), "b": [1, 9, 8], "bucket": [0, 1, 2]}
    )
    [batch] = rows.to_batches()
    where = RightWhere((left, right), ("at", "at"), tidegate.right.x > 5)
    assert where.passing(batch).to_pylist() == rows.slice(1).to_pylist()
