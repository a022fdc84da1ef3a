"""Right rows that are combined before they are sent: the rows of the native join.

Most tests run the tasks' code without Spark: the packs of some Spark partitions, and the join of
each partition of the layout.
"""

import datetime as dt
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import campaign
import spark_session
import tidegate
import tidegate.spark
from cases import grid, more
from tidegate import agg
from tidegate._tidegate import join_query
from tidegate.spark.driver import division
from tidegate.spark.layout.balance import Sample, by_time, hybrid
from tidegate.spark.layout.layout import Bucket, Layout, Reach
from tidegate.spark.plan.join import Plan
from tidegate.spark.query.axis import TimeAxis
from tidegate.spark.query.query import SparkQuery
from tidegate.spark.worker.pack import LEFT, PACKS, PARTIAL, RIGHT, Packer, unpacked
from tidegate.spark.worker.partials import PartialsPacker, PartialsTask, Parts
from tidegate.spark.worker.task import Call, Output

pytestmark = pytest.mark.filterwarnings("ignore")

AGGS = {
    "n": agg.count(),
    "n_x": agg.count("x"),
    "n_high": agg.count(where="row.x > 3"),
    "n_x_high": agg.count("x", where="row.v > 0"),
    "sum_x": agg.sum("x"),
    "sum_high": agg.sum("x", where="row.v > 0"),
    "mean_x": agg.mean("x"),
    "sum_price": agg.sum("price"),
    "min_v": agg.min("v"),
    "max_v": agg.max("v"),
    "min_name": agg.min("name"),
    "max_day": agg.max("day"),
    "any_flag": agg.any("flag"),
    "all_flags": agg.all("flag", where="row.x < 8"),
}


def table(rows: int, keys: int, span: int, rng: np.random.Generator) -> pa.Table:
    """Create rows in any order; values include nulls, NaN, both zeros and large integers."""
    ints = rng.integers(-9, 10, rows)
    floats = rng.choice([0.0, -0.0, np.nan, np.inf, -np.inf, 1.5, -2.5], rows)
    return pa.table(
        {
            "ts": rng.integers(-span, span + 1, rows),
            "key": rng.integers(0, keys, rows),
            "x": pa.array(ints, mask=rng.random(rows) < 0.2),
            "v": pa.array(floats, mask=rng.random(rows) < 0.2),
            "price": pa.array(ints, pa.int64()).cast(pa.decimal128(20, 0)),
            "name": pa.array([None if x == 0 else f"n{x}" for x in ints.tolist()], pa.string()),
            "day": pa.array([dt.date(2026, 1, 10 + x) for x in ints.tolist()], pa.date32()),
            "flag": pa.array(ints % 3 == 0, mask=rng.random(rows) < 0.2),
        }
    )


def as_text(found: pa.Table) -> list[str]:
    """Return the rows as strings, sorted."""
    return sorted(map(repr, found.to_pylist()))


def through_tasks(left, right, query, layout, cuts) -> tuple[pa.Table, int]:
    """Run the join as tasks do, and return also the number of partial rows that were sent."""
    aggs = query["aggs"]
    by = query["by"]
    parts = Parts.of(aggs, right.schema, [*left.column_names, *right.column_names, *aggs])
    assert parts is not None
    arguments = {**query, "columns": left.column_names}
    output = Output((*left.column_names, *aggs), None, None)
    task = PartialsTask(
        (left.schema, right.schema),
        None,
        Call(join_query("interval_join", arguments), output),
        parts=parts,
    )
    packs = []
    for side, rows in ((LEFT, left), (RIGHT, right)):
        packer = Packer(layout, side, 0, TimeAxis(days=False), extra=1)
        work = packer.run
        if side == RIGHT:
            work = PartialsPacker(packer, parts, right.schema, tuple(by or ()), None).run
        bucket = pa.array((rows["key"].to_numpy() if by else np.zeros(rows.num_rows)), pa.int32())
        placed = rows.append_column("bucket", pc.bit_wise_and(bucket, len(layout.buckets) - 1))
        for begin, end in zip([0, *cuts], [*cuts, rows.num_rows], strict=True):
            piece = placed.slice(begin, max(0, end - begin)).combine_chunks()
            packs += [pack for batch in work(iter(piece.to_batches())) for pack in unpacked(batch)]
    partial = sum(pack.rows.num_rows for pack in packs if pack.side == PARTIAL)
    found = []
    for partition in range(layout.partitions):
        mine = [pack for pack in packs if pack.partition == partition]
        found += list(task.run(iter([_packed(mine)])))
    expected = tidegate.interval_join(left, right, **query)
    return pa.Table.from_batches(found, expected.schema), partial


def _packed(packs) -> pa.RecordBatch:
    rows = []
    for pack in packs:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, pack.rows.schema) as stream:
            stream.write_table(pack.rows)
        rows.append(sink.getvalue().to_pybytes())
    return pa.record_batch(
        {
            "side": pa.array([pack.side for pack in packs], pa.int8()),
            "partition": pa.array([pack.partition for pack in packs], pa.int32()),
            "rows": pa.array(rows, pa.binary()),
        }
    )


bounds = st.one_of(st.none(), st.integers(-60, 60))


@settings(max_examples=campaign.tries(25), deadline=None)
@given(
    st.integers(0, 2**32),
    st.tuples(st.integers(0, 40), st.integers(0, 60)),
    st.tuples(bounds, bounds),
    st.integers(1, 6),
    st.booleans(),
    st.sampled_from(["both", "left", "right", "neither"]),
    st.sampled_from(["left", "inner"]),
    st.sampled_from([None, "left.x > 2"]),
    st.lists(st.integers(0, 60), max_size=2).map(sorted),
)
def test_tasks_find_the_rows_of_the_native_join(
    seed, rows, ends, partitions, keyed, closed, how, where, cuts
):
    rng = np.random.default_rng(seed)
    left, right = (table(count, 3, 50, rng) for count in rows)
    lower, upper = ends
    if None not in ends and lower > upper:
        lower, upper = upper, lower
    query = {
        "on": "ts",
        "by": ["key"] if keyed else None,
        "lower": lower,
        "upper": upper,
        "closed": closed,
        "how": how,
        "where": where,
        "aggs": AGGS,
    }
    borders = tuple(sorted(rng.choice(100, partitions - 1, replace=False) - 50))
    buckets = [Bucket(tuple(range(partitions)), tuple(map(int, borders)))]
    if keyed and seed % 2:
        buckets.append(Bucket((0,)))
    layout = Layout(partitions, tuple(buckets), "right", Reach(lower, upper, partial=True))
    found, _ = through_tasks(left, right, query, layout, cuts)
    assert as_text(found) == as_text(tidegate.interval_join(left, right, **query))


@given(
    st.lists(st.integers(-50, 50), max_size=20),
    st.tuples(bounds, bounds),
    st.lists(st.integers(-50, 50), max_size=5, unique=True).map(sorted),
)
def test_a_slice_is_covered_if_all_its_times_pair(times, ends, borders):
    low, high = ends
    if None not in ends and low > high:
        low, high = high, low
    count = len(borders) + 1
    bucket = Bucket(tuple(range(count)), tuple(borders))
    layout = Layout(count, (bucket,), "right", Reach(low, high, partial=True))
    array = np.array(times, dtype=np.int64)
    zeros = np.zeros_like(array)
    sent = layout.slices(zeros, array, layout.right_span, None)
    # These edges are far from all rows, like those of a slice without a border.
    edges = [-10_000, *borders, 10_000]
    for time, begin, end in zip(times, *layout.covered(*sent), strict=True):
        for number in range(count):
            inside = (low is None or time - (edges[number + 1] - 1) > low) and (
                high is None or time - edges[number] < high
            )
            assert (begin <= number <= end) == inside


def test_rows_of_a_wide_reach_travel_once_or_twice():
    rng = np.random.default_rng(5)
    times = np.sort(rng.integers(0, 10**6, 4_000))
    zeros = np.zeros_like(times)
    for lower, upper, most in ((-(10**6), 0, 1.6), (None, 0, 1.1), (-400_000, -100_000, 1.7)):
        reach = Reach.of(lower, upper)
        sample = Sample(zeros, times, zeros, times, 1.0)
        plain = by_time(sample, 16, "right", reach)
        partial = by_time(sample, 16, "right", replace(reach, partial=True))
        assert plain.sent > 1.9 * partial.sent
        assert plain.fullest > 2 * partial.fullest
        assert partial.sent <= most * partial.rows
        assert partial.fullest <= 1.5 * partial.sent / 16
        cut = hybrid(sample, 16, "right", replace(reach, partial=True), most=16)
        assert cut.fullest <= 1.5 * partial.fullest


@pytest.fixture(scope="module")
def spark():
    return spark_session.start()


@pytest.fixture(autouse=True)
def whole_sample(monkeypatch):
    """Include all rows in the sample, so that few rows are divided like many."""
    monkeypatch.setattr(division, "FRACTION", 1.0)


@pytest.fixture(scope="module")
def tables():
    rng = np.random.default_rng(1)
    found = []
    for rows in (300, 1_200):
        one = table(rows, 3, 10**7, rng)
        found.append(
            one.set_column(0, "ts", one["ts"].cast(pa.timestamp("us", "UTC"))).append_column(
                "text", pc.binary_join_element_wise("k", one["key"].cast(pa.string()), "")
            )
        )
    return found


@pytest.fixture(scope="module")
def sides(spark, tables):
    return [spark.createDataFrame(one).repartition(3).cache() for one in tables]


def partial_rows(plan: Plan) -> int:
    """Return the number of partial rows that the plan sends."""
    packs = plan.packed(RIGHT, division.of_join(plan)).toArrow()
    assert packs.schema.names == [part.split()[0] for part in PACKS.split(", ")]
    every = [pack for batch in packs.to_batches() for pack in unpacked(batch)]
    return sum(pack.rows.num_rows for pack in every if pack.side == PARTIAL)


@grid(
    lower=["-6s", None],
    upper=["-1s", None],
    case=[
        ("time", "text", "left", None),
        ("hybrid", ["key"], "inner", "right.x > 2 and right.v > 0"),
        *more(("time", None, "left", "left.x > 2")),
    ],
)
def test_on_spark(sides, tables, lower, upper, case):
    parallelism, by, how, where = case
    query = {"on": "ts", "by": by, "lower": lower, "upper": upper, "how": how, "where": where}
    query["aggs"] = AGGS
    arguments = {"partitions": 5, "parallelism": parallelism}
    plan = Plan.of(*sides, SparkQuery.of("interval_join", query), **arguments)
    sent = partial_rows(plan)
    assert sent < 400
    assert sent or lower == "-6s"
    found = tidegate.spark.interval_join(*sides, **query, **arguments).toArrow()
    expected = tidegate.interval_join(*tables, **query)
    assert found.schema.types == expected.schema.types
    assert as_text(found) == as_text(expected)


def test_bands_of_whole_numbers(spark):
    rng = np.random.default_rng(2)
    tables = [table(rows, 3, 500, rng) for rows in (150, 600)]
    sides = [spark.createDataFrame(one).repartition(3) for one in tables]
    query = {"on": "ts", "within": 300, "aggs": AGGS}
    plan = Plan.of(*sides, SparkQuery.of("band_join", query), partitions=6, parallelism="value")
    assert partial_rows(plan) > 0
    found = tidegate.spark.band_join(*sides, **query, partitions=6, parallelism="value")
    assert as_text(found.toArrow()) == as_text(tidegate.band_join(*tables, **query))


@pytest.mark.parametrize(
    "changed",
    [
        {"aggs": {"last": agg.last("x")}},
        {"aggs": {"sum": agg.sum("v")}},
        {"aggs": {"mean": agg.mean("v")}},
        {"aggs": {"median": agg.median("x")}},
        {"where": "left.x > right.x"},
        {"prevailing": True},
        {"by": "v"},
    ],
)
def test_rows_that_must_be_told_apart_travel_alone(sides, changed):
    query = {"on": "ts", "by": "key", "lower": "-6s", "upper": "0s", "aggs": AGGS, **changed}
    arguments = {"partitions": 4, "parallelism": "time"}
    plan = Plan.of(*sides, SparkQuery.of("interval_join", query), **arguments)
    assert plan.parts is None


def test_explain_tells_nothing_of_rows_that_travel_alone(sides):
    query = {"on": "ts", "by": "key", "lower": "-6s", "upper": "0s", "aggs": {"m": agg.mean("v")}}
    arguments = {"partitions": 4, "parallelism": "time"}
    plan = Plan.of(*sides, SparkQuery.of("interval_join", query), **arguments)
    assert partial_rows(plan) == 0
    text = tidegate.spark.explain(tidegate.spark.interval_join, *sides, **query, **arguments)
    assert "partial" not in text


def test_explain_tells_what_is_combined(sides):
    query = {"on": "ts", "by": "key", "lower": "-6s", "upper": "0s", "aggs": AGGS}
    text = tidegate.spark.explain(
        tidegate.spark.interval_join, *sides, **query, where="right.x > 2", parallelism="time"
    )
    assert "match all left rows of a slice are sent as one row per key" in text
    assert "right rows are tested by where before they are sent" in text


def test_sums_that_need_more_than_64_bits_on_their_way(spark):
    """A partial sum may be too large although the sum is not; a too large sum is refused."""
    half = [2**63 - 1 - n for n in range(50)]
    right = pa.table({"ts": range(100), "x": half + [-x for x in half]})
    left = pa.table({"ts": [99, 120, 140], "y": [0, 1, 2]})
    sides = [spark.createDataFrame(one) for one in (left, right)]
    query = {"on": "ts", "lower": None, "upper": 0}
    query["aggs"] = {"mean": agg.mean("x"), "sum": agg.sum("x")}
    arguments = {"partitions": 3, "parallelism": "time"}
    found = tidegate.spark.interval_join(*sides, **query, **arguments).toArrow()
    assert as_text(found) == as_text(tidegate.interval_join(left, right, **query))
    early = spark.createDataFrame(pa.table({"ts": [40, 60, 70], "y": [0, 1, 2]}))
    with pytest.raises(Exception, match="sum"):
        tidegate.spark.interval_join(early, sides[1], **query, **arguments).toArrow()


def test_a_right_row_without_a_time_is_refused(spark):
    right = pa.table({"ts": [1, None, 3], "x": [1, 2, 3]})
    left = pa.table({"ts": range(100)})
    sides = [spark.createDataFrame(one) for one in (left, right)]
    query = {"on": "ts", "lower": None, "upper": 0, "aggs": {"n": agg.count()}}
    with pytest.raises(Exception, match="null"):
        tidegate.spark.interval_join(*sides, **query, partitions=4, parallelism="time").toArrow()
