"""Spark's own join of equal keys and time bins: the rows of the native join, and when it is used.

Other tests compare the native join with nested loops, and this file does so once more.
"""

import datetime as dt
import itertools
from collections import Counter
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

import campaign
import oracle
import spark_session
import tidegate
import tidegate.spark
from cases import grid, keys_of_all_types, more, of_campaigns
from tidegate import agg
from tidegate.spark.driver import bins as driver_bins
from tidegate.spark.driver import division, whole
from tidegate.spark.layout.balance import Sample
from tidegate.spark.layout.bins import Bins, Ends, are_safe, fitting, seen, unseen
from tidegate.spark.layout.costs import SPARK, Asked, Costs, Width, costs
from tidegate.spark.plan import host
from tidegate.spark.plan.join import Plan
from tidegate.spark.plan.session import allocated, task_memory
from tidegate.spark.query.query import SparkQuery

pytestmark = pytest.mark.filterwarnings("ignore")

HOWS = ["inner", "left", "right", "semi", "anti"]
NEAR = {"on": "ts", "by": "key", "lower": "-20s", "upper": "20s"}


@pytest.fixture(scope="module")
def spark():
    return spark_session.start()


def events(seed: int, rows: int, payload: str) -> pa.Table:
    """Create rows, half with one key and a tenth without, and names that the plan might use."""
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 6, rows)
    keys[rng.random(rows) < 0.5] = 1
    lacking = rng.random(rows) < 0.1
    return pa.table(
        {
            "key": pa.array(keys, mask=lacking),
            "ts": pa.array(
                rng.integers(-1_500, 1_500, rows) * 1_000_000, pa.timestamp("us", "UTC")
            ),
            "bin": pa.array(range(rows), pa.int64()),
            payload: pa.array([f"{payload}{row}" for row in range(rows)]),
        }
    )


LEFT, RIGHT = events(1, 300, "u0"), events(2, 250, "first")


@pytest.fixture(scope="module")
def sides(spark):
    """Return both tables, each in more Spark partitions than there are cores."""
    return tuple(spark.createDataFrame(t).repartition(3, "key").cache() for t in (LEFT, RIGHT))


def counted(table: pa.Table) -> Counter[str]:
    """Count equal rows, regardless of their order."""
    return Counter(map(repr, table.to_pylist()))


def binned(left, right, **query):
    """Join by bins. Spark's plan sends no rows to Python."""
    found = tidegate.spark.interval_join(left, right, **query, parallelism="bins")
    assert "InArrow" not in found._jdf.queryExecution().toString()
    return found


def same(found, left=LEFT, right=RIGHT, **query) -> None:
    """Assert that the DataFrame has the native join's columns and rows."""
    expected = tidegate.interval_join(left, right, **query)
    rows = found.toArrow()
    assert rows.column_names == expected.column_names
    assert counted(rows) == counted(expected)


def joined(spark, left: pa.Table, right: pa.Table, kinds: str | None = None, **query) -> None:
    """Assert that a join of two tables by bins has the native join's rows."""
    frames = [spark.createDataFrame(table, kinds) for table in (left, right)]
    same(binned(*frames, **query), left, right, **query)


@grid(
    how=["right", "semi", "anti", *more("inner", "left")],
    method=["broadcast", "shuffle_hash", None],
    width=[None, 1, 3_000_000_000],
    partitions=[None, 3],
)
def test_rows_are_those_of_the_native_join(sides, monkeypatch, how, method, width, partitions):
    monkeypatch.setattr(driver_bins, "hashed", lambda *_: method)
    if width is not None:
        monkeypatch.setattr(driver_bins, "fitting", lambda *a: at_least(fitting(*a), width))
    query = {**NEAR, "how": how}
    same(binned(*sides, **query, partitions=partitions), **query)


def at_least(bins: Bins, width: int) -> Bins:
    """Return the bins with another width, which must be at least the length of an interval."""
    return Bins(**{**vars(bins), "width": max(width, bins.ends.reach)})


@pytest.mark.parametrize("how", ["right", *more("inner", "left", "semi", "anti")])
def test_adaptive_plans_that_are_compiled_give_the_same_rows(spark, sides, how):
    with spark_session.settings(
        spark,
        spark__sql__adaptive__enabled=True,
        spark__sql__codegen__wholeStage=True,
        spark__sql__codegen__factoryMode="FALLBACK",
        spark__sql__shuffle__partitions=7,
    ):
        query = {**NEAR, "how": how}
        same(binned(*sides, **query), **query)


@grid(
    bounds=[("-30m", "-20m"), *more(("5s", "5m"), ("0s", "0s"), ("-1us", "1us"), ("-2h", "2h"))],
    how=["anti", *more("inner", "left", "right", "semi")],
    closed=["right", *more("left", "both", "neither")],
)
def test_any_bounds(sides, bounds, how, closed):
    query = {**NEAR, "lower": bounds[0], "upper": bounds[1], "how": how, "closed": closed}
    same(binned(*sides, **query), **query)


# The times in `test_clocks_and_zones` also have no keys.
@of_campaigns
@pytest.mark.parametrize("how", HOWS)
def test_without_a_key(sides, how):
    query = {"on": "ts", "lower": "-1s", "upper": "2s", "how": how}
    same(binned(*sides, **query), **query)


@pytest.mark.parametrize("how", ["left", *more("right")])
def test_windows_have_bins(sides, how):
    query = {"on": "ts", "by": "key", "window": ("5s", "20s"), "how": how}
    found = tidegate.spark.window_join(*sides, **query, parallelism="bins")
    assert counted(found.toArrow()) == counted(tidegate.window_join(LEFT, RIGHT, **query))


@pytest.mark.parametrize("how", ["left", *more("inner", "right", "semi", "anti")])
def test_a_frame_meets_itself(sides, how):
    query = {**NEAR, "how": how}
    same(binned(sides[0], sides[0], **query), LEFT, LEFT, **query)


ENDS = [-(2**63), 1 - 2**63, -1, 0, 1, 2**63 - 2, 2**63 - 1]


@grid(
    bounds=[
        (-1, 1),
        (2**53, 2**53),
        *more((-(2**53), 0), (1, 1), (-1, -1), (0, 0), (2, 5), (-5, -2)),
    ],
    how=["inner", "right", *more("anti", "left", "semi")],
    ansi=[True, False],
)
def test_no_sum_overflows(spark, bounds, how, ansi):
    """Test a session whose sums wrap around, and one whose sums raise errors on overflow."""
    table = pa.table({"ts": ENDS, "row": range(len(ENDS))})
    query = {"on": "ts", "lower": bounds[0], "upper": bounds[1], "how": how}
    with spark_session.settings(spark, spark__sql__ansi__enabled=ansi):
        joined(spark, table, table, **query)


@pytest.mark.parametrize("seed", range(campaign.tries(5) if campaign.ALL else 1))
def test_random_integers_pair_as_in_nested_loops(spark, seed):
    rng = np.random.default_rng([campaign.SEED, seed])
    tables = [
        pa.table(
            {"k": rng.integers(0, 3, rows), "ts": rng.integers(-40, 40, rows), name: range(rows)}
        )
        for rows, name in ((40, "l"), (50, "r"))
    ]
    lower = int(rng.integers(-10, 10))
    upper = lower + int(rng.integers(0, 8))
    how = HOWS[seed % len(HOWS)]
    closed = ("both", "left", "right", "neither")[seed % 4]
    query = {"on": "ts", "by": "k", "lower": lower, "upper": upper, "how": how, "closed": closed}
    join = oracle.Join(("ts", "ts"), lower, upper, (("k", "k"),), closed, how)
    expected = oracle.result(*tables, oracle.nested_loop(*tables, join), join)
    found = binned(*map(spark.createDataFrame, tables), **query)
    assert counted(found.toArrow()) == counted(expected)


MARCH = [dt.datetime(2026, 3, 8, 1, 0) + dt.timedelta(minutes=20 * i) for i in range(12)]  # noqa: DTZ001
NOVEMBER = [dt.datetime(2026, 11, 1, 4, 0) + dt.timedelta(minutes=20 * i) for i in range(15)]  # noqa: DTZ001
OLD = [
    dt.datetime(*day, 23, 59, 59, micro)  # noqa: DTZ001
    for day in ((1901, 1, 1), (1582, 10, 4), (1969, 12, 31), (1, 1, 1))
    for micro in (0, 1, 999_999)
]
CLOCKS = {
    "timestamp": (pa.array(MARCH + NOVEMBER, pa.timestamp("us", "UTC")), ("-20m", "40m")),
    "timestamp_ntz": (pa.array([*MARCH, *NOVEMBER, *OLD], pa.timestamp("us")), ("-1us", "40m")),
    "date": (pa.array([moment.date() for moment in MARCH + OLD], pa.date32()), ("-1d", "1d")),
    "int": (pa.array([*range(40), -(2**31), 2**31 - 1], pa.int32()), (-1, 2)),
}


@grid(
    zone=["America/New_York", "Etc/UTC"],
    clock=["timestamp_ntz", "int", *more("timestamp", "date")],
    how=["left", "right", *more("inner", "anti", "semi")],
)
def test_clocks_and_zones(spark, clock, zone, how):
    times, (lower, upper) = CLOCKS[clock]
    table = pa.table({"ts": times, "row": range(len(times))})
    query = {"on": "ts", "lower": lower, "upper": upper, "how": how}
    with spark_session.settings(spark, spark__sql__session__timeZone=zone):
        joined(spark, table, table, f"ts {clock}, row bigint", **query)


@grid(
    bounds=[("1d", "2d"), *more(("1h", "23h"), ("1h", "25h"))],
    closed=["neither", *more("both")],
)
def test_no_whole_day_may_be_between_the_ends(spark, bounds, closed):
    days = pa.array([dt.date(2026, 1, day) for day in range(1, 29)])
    table = pa.table({"ts": days, "row": range(28)})
    query = {"on": "ts", "lower": bounds[0], "upper": bounds[1], "closed": closed, "how": "left"}
    joined(spark, table, table, **query)


@pytest.mark.parametrize("how", ["inner", *more("right")])
def test_a_date_meets_a_timestamp(spark, how):
    days = [dt.date(2026, 3, day) for day in (7, 8, 9)]
    noons = [dt.datetime(2026, 3, day, 12) for day in (9, 7, 8)]  # noqa: DTZ001
    left, right = pa.table({"day": days}), pa.table({"noon": pa.array(noons, pa.timestamp("us"))})
    query = {"on": ("day", "noon"), "lower": "0s", "upper": "1d", "how": how, "closed": "left"}
    frames = (
        spark.createDataFrame(left, "day date"),
        spark.createDataFrame(right, "noon timestamp_ntz"),
    )
    same(binned(*frames, **query), left, right, **query)


KEYS = {
    "string": pa.array(["a", "", None, "é", "b"]),
    "binary": pa.array([b"a", b"", None, b"\xff", b"b"]),
    "double": pa.array([0.0, -0.0, None, float("nan"), 1.5]),
    "float": pa.array([0.0, -0.0, None, float("nan"), 1.5], pa.float32()),
    "decimal": pa.array(
        [Decimal("1.50"), Decimal("0.00"), None, Decimal("-1.00"), Decimal("2.00")]
    ),
    "date": pa.array([dt.date(2026, 1, day) for day in (1, 2, 3, 4)] + [None]),
    "boolean": pa.array([True, False, None, True, False]),
}


@grid(
    kinds=[[*KEYS], *more(*([kind] for kind in KEYS))],
    how=["left", *more("inner", "right", "semi", "anti")],
)
def test_keys_of_all_types(spark, kinds, how):
    table = keys_of_all_types({kind: KEYS[kind] for kind in kinds})
    times = table["ts"].take([*range(table.num_rows - 1, -1, -1)])
    other = table.set_column(table.num_columns - 1, "ts", times)
    query = {"on": "ts", "by": [*kinds, "kind"], "lower": -99, "upper": 99, "how": how}
    joined(spark, table, other, **query)


@pytest.mark.parametrize("how", ["right", *more("inner", "left", "semi", "anti")])
def test_keys_of_two_widths_meet(spark, how):
    left = pa.table({"k": pa.array(range(20), pa.int32()), "ts": range(20)})
    right = pa.table({"k": pa.array(range(10, 30), pa.int64()), "ts": range(10, 30)})
    query = {"on": "ts", "by": "k", "lower": 0, "upper": 0, "how": how}
    found = binned(spark.createDataFrame(left), spark.createDataFrame(right), **query)
    same(found, left, right, **query)
    asked = tidegate.spark.interval_join(
        spark.createDataFrame(left), spark.createDataFrame(right), **query, parallelism="key"
    )
    assert [f.dataType for f in found.schema] == [f.dataType for f in asked.schema]


@pytest.mark.parametrize("how", ["anti", *more("inner")])
def test_keys_with_one_hash_are_compared(sides, monkeypatch, how):
    monkeypatch.setattr(
        "tidegate.spark.query.input.Input.key_hash",
        lambda *_: "7L",
    )
    query = {**NEAR, "how": how}
    same(binned(*sides, **query), **query)


@grid(how=["right", *more("semi", "inner", "left", "anti")], suffix=["_of_it", *more("_right")])
def test_names_are_those_of_the_native_join(sides, how, suffix):
    query = {**NEAR, "how": how, "suffix": suffix}
    names = tidegate.interval_join(LEFT, RIGHT, **query).column_names
    found = tidegate.spark.interval_join(*sides, **query, parallelism="bins")
    assert found.columns == names
    columns = ["u0", "ts"] if how in ("semi", "anti") else [f"bin{suffix}", "u0", "first", "key"]
    same(binned(*sides, **query, columns=columns), **query, columns=columns)


@pytest.mark.parametrize("how", ["left", *more("right", "inner", "semi", "anti")])
def test_the_schema_is_that_of_other_divisions(spark, how):
    left = spark.sql("select 1 as k, 5L as ts").withMetadata("k", {"unit": "none"})
    right = spark.sql("select nullif(1, 2) as k, 5L as ts, 'a' as x")
    query = {"on": "ts", "by": "k", "lower": 0, "upper": 0, "how": how}
    other = tidegate.spark.interval_join(left, right, **query, parallelism="key")
    found = binned(left, right, **query)
    for mine, theirs in zip(found.schema, other.schema, strict=True):
        assert (mine.name, mine.dataType, mine.metadata) == (
            theirs.name,
            theirs.dataType,
            theirs.metadata,
        )
        assert theirs.nullable or not mine.nullable


@grid(empty=["left", *more("right", "both")], how=["right", *more("anti", "inner", "left", "semi")])
def test_empty_sides(sides, empty, how):
    tables = [
        table.slice(0, 0) if empty in (name, "both") else table
        for name, table in zip(("left", "right"), (LEFT, RIGHT), strict=True)
    ]
    frames = [
        frame.where("false") if empty in (name, "both") else frame
        for name, frame in zip(("left", "right"), sides, strict=True)
    ]
    query = {**NEAR, "how": how}
    same(binned(*frames, **query), *tables, **query)


@pytest.mark.parametrize(
    ("side", "how", "key"),
    [
        ("left", "right", "null"),
        ("right", "inner", "null"),
        *more(*itertools.product(["left", "right"], HOWS, ["1", "null"])),
    ],
)
def test_a_null_time_is_refused(spark, side, how, key):
    """A null time is refused even without a key, although Spark infers filters from conditions."""
    # The rows are not constants: Spark removes constant rows that it knows to be unmatched.
    rows = [(None if key == "null" else int(key), None), (1, 1)]
    lacking, whole_side = (
        spark.createDataFrame(some, "k int, ts int") for some in (rows, [(1, 1)])
    )
    frames = (lacking, whole_side) if side == "left" else (whole_side, lacking)
    found = binned(*frames, on="ts", by="k", lower=0, upper=0, how=how)
    # A side that is sent in full fails outside the calls whose errors PySpark translates.
    failed = (PySparkException, Py4JJavaError)
    with pytest.raises(failed, match=rf"{side}: the time column 'ts' is null in a row"):
        found.collect()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"how": "full"}, "a full join keeps rows from both sides"),
        ({"lower": None}, "one end of its interval is missing"),
        ({"upper": None}, "one end of its interval is missing"),
        ({"lower": "-200000d"}, "too far away"),
        ({"where": "left.bin < right.bin"}, "Spark may interpret the condition in `where`"),
        ({"aggs": {"n": agg.count()}}, "only native calls can aggregate partners"),
    ],
)
def test_bins_are_refused_with_a_reason(sides, change, reason):
    query = {**NEAR, **change, "parallelism": "bins"}
    with pytest.raises(tidegate.TidegateError, match=f"'bins' is not available for .*{reason}"):
        tidegate.spark.interval_join(*sides, **query)


def test_bins_are_refused_for_keys_of_two_types(spark):
    left = spark.createDataFrame([(Decimal("1.5"), 1)], "k decimal(5, 2), ts int")
    right = spark.createDataFrame([(Decimal("1.5"), 1)], "k decimal(7, 3), ts int")
    query = {"on": "ts", "by": "k", "lower": 0, "upper": 0}
    with pytest.raises(tidegate.TidegateError, match="have different types"):
        tidegate.spark.interval_join(left, right, **query, parallelism="bins")


def test_bins_leave_nothing_to_then(sides):
    more_arguments = {"then": lambda batch: batch, "then_schema": "a int", "parallelism": "bins"}
    with pytest.raises(tidegate.TidegateError, match="call mapInArrow on the result"):
        tidegate.spark.interval_join(*sides, **NEAR, **more_arguments)
    with pytest.raises(tidegate.TidegateError, match="call mapInArrow on the result"):
        tidegate.spark.explain(tidegate.spark.interval_join, *sides, **NEAR, **more_arguments)


def test_other_joins_and_streams_have_no_bins(spark, sides):
    known = "expected one of auto, broadcast, files, key, {}, hybrid, got 'bins'"
    with pytest.raises(tidegate.TidegateError, match=known.format("value")):
        tidegate.spark.band_join(*sides, on="bin", within=1, parallelism="bins")
    with pytest.raises(tidegate.TidegateError, match=known.format("time")):
        tidegate.spark.asof_join(*sides, on="ts", parallelism="bins")
    stream = spark.readStream.format("rate").load().withWatermark("timestamp", "1 minute")
    query = {"on": "timestamp", "lower": "0s", "upper": "1s", "parallelism": "bins"}
    store = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    with (
        spark_session.settings(spark, spark__sql__streaming__stateStore__providerClass=store),
        pytest.raises(tidegate.TidegateError, match="'bins' uses Spark's own join of tables"),
    ):
        tidegate.spark.interval_join(stream, stream, **query)
    with pytest.raises(tidegate.TidegateError, match=r"parallelism must be one of .* got `bins`"):
        tidegate.IntervalJoin(
            LEFT.schema, RIGHT.schema, on="ts", lower="0s", upper="1s", parallelism="bins"
        )


def explained(frames, **query) -> str:
    return tidegate.spark.explain(tidegate.spark.interval_join, *frames, **query)


@pytest.fixture
def large(monkeypatch):
    """Both sides are large."""
    monkeypatch.setattr(whole, "LIMIT", 10)
    monkeypatch.setattr(whole, "_SURE", -1)


def fixed(monkeypatch, bins: float, native: float) -> None:
    monkeypatch.setattr(driver_bins, "costs", lambda *_, **__: Costs(bins, native))


@pytest.mark.usefixtures("large")
def test_auto_takes_bins_if_they_are_clearly_cheaper(sides, monkeypatch):
    fixed(monkeypatch, 1.0, 3.0)
    found = tidegate.spark.interval_join(*sides, **NEAR)
    assert "InArrow" not in found._jdf.queryExecution().toString()
    same(found, **NEAR)
    text = explained(sides, **NEAR)
    assert "divided    by key and time bins, " in text
    assert " microseconds wide, in Spark's own join" in text
    assert "costs      about 1 s of processor time by bins, 3 s natively" in text
    assert "than 10 bytes, and bins are clearly cheaper" in text


@pytest.mark.usefixtures("large")
def test_auto_keeps_native_calls_otherwise(sides, monkeypatch):
    fixed(monkeypatch, 2.9, 3.0)
    found = tidegate.spark.interval_join(*sides, **NEAR)
    assert "MapInArrow tidegate_join" in found._jdf.queryExecution().toString()
    text = explained(sides, **NEAR)
    assert "no bins    about 2.9 s of processor time by bins, 3 s natively" in text
    assert "placed     by " in text


@pytest.mark.usefixtures("large")
def test_auto_keeps_native_calls_where_bins_cannot_be(sides, monkeypatch):
    fixed(monkeypatch, 1.0, 3.0)
    assert "no bins    a full join keeps" in explained(sides, **NEAR, how="full")
    where = {**NEAR, "where": "left.bin < right.bin"}
    assert "no bins    Spark may interpret" in explained(sides, **where)
    then = {"then": lambda batch: batch, "then_schema": "a int"}
    assert "no bins    `then` runs in Python" in explained(sides, **NEAR, **then)
    band = tidegate.spark.explain(tidegate.spark.band_join, *sides, on="bin", within=1)
    assert "bins" not in band
    monkeypatch.setattr(driver_bins, "_HASHED", 0)
    monkeypatch.setattr(driver_bins, "_WHOLE", 0)
    assert "placed     by " in explained(sides, **NEAR)


@pytest.mark.usefixtures("large")
def test_one_sample_is_taken(sides, monkeypatch):
    taken = []
    sampled = division.sampled
    monkeypatch.setattr(division, "sampled", lambda *a: taken.append(a) or sampled(*a))
    fixed(monkeypatch, 3.0, 3.0)
    for query in ({}, *more({"parallelism": "bins"}, {"how": "full"})):
        taken.clear()
        tidegate.spark.interval_join(*sides, **NEAR, **query)
        assert len(taken) == 1


def test_explain_tells_both_costs_of_bins_that_were_asked_for(sides, monkeypatch):
    text = explained(sides, **NEAR, parallelism="bins")
    assert "of processor time by bins" in text
    assert "placed     Spark sends the copied rows to every task (broadcast)" in text
    assert text.endswith("because    parallelism is 'bins'")
    monkeypatch.setattr(driver_bins, "_WHOLE", 0)
    text = explained(sides, **NEAR, parallelism="bins")
    assert "placed     each task of Spark hashes its copied rows (shuffle_hash)" in text
    monkeypatch.setattr(driver_bins, "_HASHED", 0)
    assert "placed     Spark sorts the rows" in explained(sides, **NEAR, parallelism="bins")


def test_sessions_without_a_limit_hand_rows_over_for_less(spark, sides, monkeypatch):
    seen = []
    monkeypatch.setattr(
        driver_bins,
        "costs",
        lambda _, asked, *__, **___: seen.append(asked.measured) or Costs(1.0, 1.0),
    )
    name = "spark.sql.execution.arrow.maxBytesPerBatch"
    explained(sides, **NEAR, parallelism="bins")
    before = spark.conf.get(name)
    spark.conf.set(name, str(2**31 - 1))
    try:
        explained(sides, **NEAR, parallelism="bins")
    finally:
        spark.conf.set(name, before)
    assert seen == [True, False]


ROWS = 10_000
COLUMNS = Width(4, 4, 8)
ASKED = Asked(COLUMNS, measured=False, once=False)


def sample(keys: int, *, hot: bool = False, span: int = 10**9, weight: float = 100.0) -> Sample:
    """Draw rows with uniform times, each of which represents `weight` rows."""
    rng = np.random.default_rng(7)
    drawn = []
    for _ in range(2):
        key = rng.integers(0, keys, ROWS)
        if hot:
            key[::2] = 0
        drawn += [key, rng.integers(0, span, ROWS)]
    return Sample(*drawn, weight)


@pytest.mark.parametrize("keys", [1, 10, 1_000, 100_000])
@pytest.mark.parametrize("matches", [4, 50])
def test_pairs_are_known_from_the_sample(keys, matches):
    half = round(matches * 10**9 * keys / (2 * 100 * ROWS))
    found = fitting(sample(keys), "left", Ends(-half, half), ASKED)
    # Rows near the first and the last time have fewer partners.
    share = 1 - half / (2 * 10**9) if half < 10**9 else 10**9 / (2 * half)
    assert found.pairs == pytest.approx(100 * ROWS * matches * share, rel=0.2)


def test_an_interval_far_from_the_left_rows_has_no_pairs():
    far = fitting(sample(10), "left", Ends(3 * 10**9, 3 * 10**9 + 1_000), ASKED)
    near = fitting(sample(10), "left", Ends(10**7, 10**7 + 1_000), ASKED)
    assert far.pairs == 0
    assert near.pairs > 0


def test_bins_are_wide_where_candidates_are_few():
    ends = Ends(-1_000, 1_000)
    few = fitting(sample(100_000), "left", ends, ASKED)
    many = fitting(sample(1), "left", ends, ASKED)
    assert few.width > many.width >= ends.reach
    assert few.copies < many.copies


def test_bins_are_dear_where_a_key_has_many_rows():
    """The interval has the same length for all keys, so a hot key has many candidates."""
    ends = Ends(-2_000_000, 2_000_000)
    even = costs(fitting(sample(1_000), "left", ends, ASKED), ASKED)
    hot = costs(fitting(sample(1_000, hot=True), "left", ends, ASKED), ASKED)
    assert hot.bins > 2 * even.bins


def test_a_limit_makes_native_calls_dearer():
    bins = fitting(sample(1_000), "left", Ends(-2_000_000, 2_000_000), ASKED)
    measured = costs(bins, ASKED._replace(measured=True))
    assert measured.native > costs(bins, ASKED).native
    assert measured.bins == costs(bins, ASKED).bins


def test_left_rows_that_come_once_are_no_pairs():
    """Of a left row's fifty pairs, one row is returned from Python."""
    bins = fitting(sample(1_000), "right", Ends(-25_000_000, 25_000_000), ASKED)
    pairs, once = (costs(bins, Asked(COLUMNS, measured=True, once=once)) for once in (False, True))
    assert once.native < pairs.native / 4
    assert once.bins < pairs.bins


def test_an_empty_sample_has_no_pairs():
    none = np.array([], np.int64)
    bins = fitting(Sample(none, none, none, none, 50.0), "right", Ends(0, 5), ASKED)
    assert bins.pairs == bins.copies == 0
    assert bins.width >= 5


def test_the_smaller_side_of_an_inner_join_is_copied(spark):
    few = spark.range(100).selectExpr("id as ts")
    many = spark.range(9_000).selectExpr("id as ts")
    query = SparkQuery.of("interval_join", {"on": "ts", "lower": -1, "upper": 1})
    for frames, copied in (((few, many), "left"), ((many, few), "right")):
        plan = Plan.of(*frames, query, parallelism="bins")
        bins, _ = driver_bins.weighed(plan, division.sample_of_join(plan))
        assert bins.copied == copied


@pytest.fixture
def files(spark, sides, tmp_path):
    """Write wide rows to Parquet files, whose footers contain the number of rows."""
    frames = []
    for name, frame in zip(("left", "right"), sides, strict=True):
        wide = frame.selectExpr("*", f"bin + 1 {name}1", f"bin + 2 {name}2")
        wide.write.parquet(f"{tmp_path}/{name}")
        frames.append(spark.read.parquet(f"{tmp_path}/{name}"))
    return frames


LOOKED = "used: look at the first 10,000 right rows"


def unsampled(frames, *, looks: bool = False, **query) -> bool:
    text = explained(frames, **{**NEAR, **query})
    found = "bins cost at most slightly more for any number of pairs" in text
    (jobs,) = (line for line in text.splitlines() if line.startswith("  jobs "))
    assert found == jobs.endswith(LOOKED if looks else "none before the result is used")
    assert looks == (LOOKED in jobs) == ("rows with the same key and bin are adjacent" in text)
    assert not (found and ("costs  " in text or "compared  " in text))
    return found


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("how", ["inner", "left", "right"])
def test_auto_takes_bins_without_a_sample_where_files_tell_the_rows(files, monkeypatch, how):
    monkeypatch.setattr(host, "SPARK", SPARK._replace(generated=0.0))
    assert unsampled(files, how=how)
    found = tidegate.spark.interval_join(*files, **NEAR, how=how)
    assert "InArrow" not in found._jdf.queryExecution().toString()
    same(found, *(frame.toArrow() for frame in files), **NEAR, how=how)
    assert found.count() > 0


@pytest.mark.usefixtures("large")
def test_rows_are_sampled_where_bins_may_be_a_mistake(files, sides, monkeypatch):
    monkeypatch.setattr(host, "SPARK", SPARK._replace(generated=0.0, job=0.0))
    left, right = files
    assert unsampled(files)
    assert not unsampled(sides), "the number of rows is unknown"
    assert not unsampled((left.where("bin > 3"), right)), (
        "the number of rows after a filter is unknown"
    )
    assert not unsampled(files, how="semi"), "a row that is returned once may be compared with many"
    narrow = [frame.select("key", "ts") for frame in files]
    assert not unsampled(narrow), "sending narrow rows is cheap"
    monkeypatch.setattr(driver_bins, "_WHOLE", 0)
    for name, least in (("_ONE_TASK", 10), ("_HASHED", 0)):
        monkeypatch.setattr(driver_bins, name, least)
        assert unsampled(files, looks=True), "by the settings, a task has more memory"
    monkeypatch.setattr(driver_bins, "task_memory", lambda _: 0)
    assert not unsampled(files), "a task may lack memory for most of the rows"


@pytest.mark.usefixtures("large")
def test_large_tables_of_many_keys_are_sampled(spark, files, tmp_path, monkeypatch):
    monkeypatch.setattr(host, "SPARK", SPARK._replace(generated=0.0))
    monkeypatch.setattr(driver_bins, "_ONE_TASK", 10)
    left, right = files
    assert unsampled(files, looks=True)
    right.withColumn("key", right.bin).write.parquet(f"{tmp_path}/keys")
    text = explained((left, spark.read.parquet(f"{tmp_path}/keys")), **NEAR)
    assert f"{LOOKED}, then sample keys and times" in text
    assert "no rows are sampled" not in text


GIGABYTE = 1 << 30

# Spark reserves this memory for itself.
RESERVED = 300 << 20


@pytest.mark.parametrize(
    ("settings", "bytes_"),
    [
        ({"master": "local[4]", "driver.memory": "8g"}, int((8 * GIGABYTE - RESERVED) * 0.6) // 4),
        ({"master": "local[2,4]"}, int((GIGABYTE - RESERVED) * 0.6) // 2),
        ({"master": "local", "driver.memory": "2048"}, int((2 * GIGABYTE - RESERVED) * 0.6)),
        ({"master": "local", "driver.memory": "4294967296b"}, int((4 * GIGABYTE - RESERVED) * 0.6)),
        ({"master": "local[1]", "driver.memory": "100m"}, 0),
        (
            {
                "master": "yarn",
                "executor.memory": "4GB",
                "executor.cores": "4",
                "memory.fraction": "0.5",
            },
            int((4 * GIGABYTE - RESERVED) * 0.5) // 4,
        ),
        ({"master": "spark://host:7077", "executor.memory": "4g"}, 0),
        ({"master": "k8s://host", "executor.cores": "2", "executor.memory": "much"}, 0),
        ({}, 0),
    ],
)
def test_settings_tell_the_memory_of_a_task(settings, bytes_):
    conf = {f"spark.{name}": value for name, value in settings.items()}
    assert task_memory(SimpleNamespace(conf=conf)) == bytes_


@pytest.mark.parametrize(
    ("settings", "tasks"),
    [
        ({}, 0),
        ({"dynamicAllocation.enabled": "false", "dynamicAllocation.maxExecutors": "8"}, 0),
        ({"dynamicAllocation.enabled": "true", "dynamicAllocation.maxExecutors": "8"}, 8),
        (
            {
                "dynamicAllocation.enabled": "true",
                "dynamicAllocation.maxExecutors": "8",
                "executor.cores": "5",
                "task.cpus": "2",
            },
            16,
        ),
        ({"dynamicAllocation.enabled": "true", "sql.shuffle.partitions": "37"}, 37),
    ],
)
def test_settings_tell_the_tasks_of_executors_that_join_later(settings, tasks):
    conf = {f"spark.{name}": value for name, value in settings.items()}
    assert allocated(SimpleNamespace(conf=conf)) == tasks


@pytest.mark.parametrize(("keys", "together"), [(10, True), (1_000, True), (100_000, False)])
def test_rows_of_few_keys_lie_together(keys, together):
    # The rows alternate between keys, so that six rows of a key share a bin.
    numbers = np.arange(10_000)
    bins = unseen((1e6, 1e6), "right", Ends(0, 4 * keys - 1))
    found = seen(bins, numbers % keys * 2**40, numbers)
    assert (bins.together, found.together) == (False, together)


def test_bins_of_unseen_rows():
    bins = unseen((100.0, 300.0), "right", Ends(-5, 4))
    assert (bins.width, bins.rows, bins.of_copied) == (15, 400.0, 300.0)
    assert bins.copies == 300 * 9 / 15
    wide, narrow = (
        Asked(Width(columns, columns, 2 * columns), measured=False, once=False)
        for columns in (4, 2)
    )
    assert are_safe(unseen((2e6, 2e6), "right", Ends(-5, 4)), wide)
    assert not are_safe(unseen((2e6, 2e6), "right", Ends(-5, 4)), narrow)
    assert not are_safe(unseen((2e4, 2e4), "right", Ends(-5, 4)), wide), "few rows"
