"""Interval joins of DataFrames with ends from columns: the rows of `tidegate.interval_join`.

The starts and ends of rows' intervals are tested without Spark. On Spark, each query tests many
random cases together, which differ in an additional key.
"""

import itertools
import random
import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

import campaign
import spark_session
import tidegate
import tidegate.spark
from cases import grid, more, of_campaigns
from tidegate import _tidegate

pytestmark = pytest.mark.filterwarnings("ignore")


# Without Spark.

FIXED = [None, -3, 0, 4]
OF_ROWS = ["left.near", "-left.near", "right.near", "-right.near", "right.far - right.near"]
times = st.one_of(st.integers(-20, 20), st.sampled_from([-(2**63), 2**63 - 1]))
# Their differences and negatives are 64-bit integers.
distances = st.one_of(st.none(), st.integers(-9, 9), st.sampled_from([10 - 2**63, 2**63 - 10]))
sides = st.lists(st.tuples(times, distances, st.integers(0, 9)), max_size=12)


def rows(drawn, payload: str) -> pa.Table:
    """The drawn rows: times, nullable distances, and non-null distances."""
    columns = zip(*drawn, strict=True) if drawn else ([], [], [])
    arrays = [pa.array(column, pa.int64()) for column in columns]
    return pa.table([*arrays, pa.array(range(len(drawn)))], names=["ts", "near", "far", payload])


@given(
    sides,
    sides,
    st.sampled_from([*FIXED, *OF_ROWS]),
    st.sampled_from([*FIXED, *OF_ROWS]),
    st.sampled_from(["both", "left", "right", "neither"]),
)
def test_rows_pair_only_where_their_intervals_overlap(left, right, lower, upper, closed):
    tables = rows(left, "l"), rows(right, "r")
    query = {"on": "ts", "lower": lower, "upper": upper, "closed": closed}
    computed = [end for end in (lower, upper) if isinstance(end, str)]
    if not computed and None not in (lower, upper) and lower > upper:
        return
    plan = _tidegate.interval_join_query(**query).plan(*tables)
    if not computed:
        assert plan.row_intervals("left", tables[0]) is None
        return
    pairs = tidegate.interval_join(*tables, **query, columns=["l", "r"])
    pairs = {*zip(*pairs.to_pydict().values(), strict=True)}
    found = [
        [*plan.row_intervals(side, table).to_pydict().values()]
        for side, table in zip(("left", "right"), tables, strict=True)
    ]
    overlaps = set()
    for one, other in itertools.product(range(len(left)), range(len(right))):
        starts, ends = zip(
            (found[0][0][one], found[0][1][one]),
            (found[1][0][other], found[1][1][other]),
            strict=True,
        )
        if max(starts) <= min(ends):
            overlaps.add((one, other))
    assert pairs <= overlaps
    for starts, ends in found:
        assert all(start <= end for start, end in zip(starts, ends, strict=True))
    if any("left" in end for end in computed) and any("right" in end for end in computed):
        return
    # The interval of an unmatched row is its own time. That of a matched row covers exactly its
    # partners.
    matched = [{pair[side] for pair in pairs} for side in (0, 1)]
    assert {(l, r) for l, r in overlaps if l in matched[0] and r in matched[1]} == pairs  # noqa: E741


def test_intervals_of_rows_with_other_columns_are_refused():
    left, right = rows([(1, 2, 3)], "l"), rows([(1, 2, 3)], "r")
    join = _tidegate.interval_join_query(on="ts", lower=0, upper="left.near")
    plan = join.plan(left, right)
    with pytest.raises(tidegate.SchemaError, match="rows: expected the columns of the left side"):
        plan.row_intervals("left", left.select(["near", "ts"]))
    with pytest.raises(ValueError, match="side must be one of left, right, got `row`"):
        plan.row_intervals("row", left)


# On Spark.


def random_cases(seed: int, payload: str) -> pa.Table:
    """Create cases of few rows: ends that are null, equal, far away or on the wrong side; ties."""
    every = []
    for case in range(campaign.tries(30)):
        draw = random.Random(f"{campaign.SEED} {seed} {case}")  # noqa: S311 - for tests
        for _ in range(draw.randrange(14)):
            near = draw.choice([None, -4, 0, 1, 5, 30, 2_000])
            key = draw.choice(["a", "a", "b", None])
            every.append((case, key, draw.randrange(-40, 40), near, draw.randrange(9)))
    columns = [[*column] for column in zip(*every, strict=True)]
    names = ["case", "k", "ts", "near", "far", payload]
    return pa.table([*columns, range(len(every))], names=names)


LEFT, RIGHT = random_cases(1, "l"), random_cases(2, "r")


@pytest.fixture(scope="module")
def spark():
    return spark_session.start()


@pytest.fixture(scope="module")
def frames(spark):
    """Return both tables, each in more Spark partitions than there are cores."""
    return tuple(spark.createDataFrame(table).repartition(3).cache() for table in (LEFT, RIGHT))


# Each pair of ends with the same condition in Spark SQL.
ENDS = {
    "left": ((-3, tidegate.left.near), "r.ts - l.ts between -3 and l.near"),
    "right": (("-right.near", "right.far"), "r.ts - l.ts between -r.near and r.far"),
    "both": (("-left.near", tidegate.right.near), "r.ts - l.ts between -l.near and r.near"),
    "crossed": (("right.near", "left.far"), "r.ts - l.ts between r.near and l.far"),
    "half": ((None, "left.near"), "r.ts - l.ts <= l.near"),
}


def counted(table: pa.Table) -> list[str]:
    """Sort the rows."""
    return sorted(map(repr, table.to_pylist()))


def columns(how: str) -> list[str]:
    return ["l"] if how in ("semi", "anti") else ["l", "r"]


@grid(
    ends=ENDS,
    how=["left", "right", "full", "semi", "anti", *more("inner")],
    parallelism=["time", "hybrid", "auto", "key", "broadcast"],
    by=[["case", "k"], ["case"]],
)
def test_rows_are_those_of_tables(frames, ends, how, parallelism, by):
    (lower, upper), _ = ENDS[ends]
    if parallelism == "broadcast" and how == "full":
        how = "left"
    query = {"on": "ts", "by": by, "how": how, "columns": columns(how)}
    query |= {"lower": lower, "upper": upper}
    partitions = {} if parallelism in ("auto", "broadcast") else {"partitions": 4}
    found = tidegate.spark.interval_join(*frames, **query, **partitions, parallelism=parallelism)
    assert counted(found.toArrow()) == counted(tidegate.interval_join(LEFT, RIGHT, **query))


# Other tests compare the native join with nested loops.
@of_campaigns
@grid(
    ends=["crossed", "left", "right", "both", "half"],
    how=["full", "inner", "left", "right", "semi", "anti"],
)
def test_rows_are_those_of_sparks_own_loop(frames, ends, how):
    (lower, upper), condition = ENDS[ends]
    # Spark finds no equal keys in this condition, so it compares all pairs.
    condition = (
        f"l.case <= r.case and r.case <= l.case and l.k <= r.k and r.k <= l.k and {condition}"
    )
    kind = {"semi": "left_semi", "anti": "left_anti"}.get(how, how)
    left, right = (frame.alias(name) for frame, name in zip(frames, "lr", strict=True))
    loop = left.join(right, F.expr(condition), kind).select(*columns(how))
    assert "NestedLoop" in loop._jdf.queryExecution().toString()
    query = {"on": "ts", "by": ["case", "k"], "how": how, "columns": columns(how)}
    found = tidegate.spark.interval_join(
        *frames, **query, lower=lower, upper=upper, parallelism="hybrid", partitions=3
    )
    assert counted(found.toArrow()) == counted(loop.toArrow())


def test_without_a_key_and_aggregates_of_partners(frames):
    small = [table.filter(pa.compute.field("case") < 8) for table in (LEFT, RIGHT)]
    few = [frame.where("case < 8") for frame in frames]
    query = {"on": "ts", "lower": "-right.near", "upper": 2, "aggs": {"n": tidegate.agg.count()}}
    found = tidegate.spark.interval_join(*few, **query, parallelism="time", partitions=4)
    assert counted(found.toArrow()) == counted(tidegate.interval_join(*small, **query))


@grid(end=["right.near", *more("left.near")], how=["left", *more("inner")])
def test_slices_of_time_copy_the_rows_near_their_ends(spark, end, how):
    """Each row has its own interval, so not all rows of a side are copied."""
    draw = random.Random(5)  # noqa: S311 - for tests
    sides = []
    for payload in "lr":
        times = sorted(draw.randrange(1_000_000) for _ in range(5_000))
        near = [draw.randrange(50) for _ in times]
        table = pa.table({"ts": times, "near": near, payload: range(len(times))})
        sides.append(spark.createDataFrame(table))
    query = {"on": "ts", "lower": 0, "upper": end, "how": how}
    text = tidegate.spark.explain(
        tidegate.spark.interval_join, *sides, **query, parallelism="time", partitions=8
    )
    assert "by time: 8 slices in 8 partitions" in text
    rows, copies = re.search(r"rows +about ([\d,]+), and ([\d,]+) copies", text).groups()
    assert int(rows.replace(",", "")) > 4_000
    assert int(copies.replace(",", "")) < 1_000


@pytest.mark.parametrize("kind", ["timestamp", "date", *more("timestamp_ntz")])
def test_ends_that_are_times_or_have_a_unit(spark, kind):
    step = "1d" if kind == "date" else "1s"
    time = "date_add(date '1970-01-01', {})" if kind == "date" else "timestamp_seconds({})"
    draw = random.Random(7)  # noqa: S311 - for tests
    sides = []
    for payload in "lr":
        starts = [draw.randrange(200) for _ in range(120)]
        ends = [start + draw.randrange(4) for start in starts]
        table = pa.table({payload: pa.array(range(120)), "s": starts, "e": ends})
        frame = spark.createDataFrame(table).withColumns({n: F.col(n).cast("int") for n in "se"})
        made = {
            name: F.expr(time.format(at)).cast(kind) for name, at in (("ts", "s"), ("until", "e"))
        }
        sides.append(frame.select(payload, *(made[name].alias(name) for name in made)))
    query = {"on": "ts", "lower": f"-{step}", "upper": tidegate.left.until, "columns": ["l", "r"]}
    tables = [side.toArrow() for side in sides]
    found = tidegate.spark.interval_join(*sides, **query, parallelism="time", partitions=3)
    expected = tidegate.interval_join(*tables, **query)
    assert expected.num_rows > 100
    assert counted(found.toArrow()) == counted(expected)


def test_bins_need_fixed_ends_and_streams_a_width(spark):
    frame = spark.createDataFrame([(1, 2)], "ts long, near long")
    with pytest.raises(tidegate.TidegateError, match="'bins' is not available for this join"):
        tidegate.spark.interval_join(
            frame, frame, on="ts", lower=0, upper=tidegate.left.near, parallelism="bins"
        )
    rates = spark.readStream.format("rate").load().withWatermark("timestamp", "1 minute")
    query = {"on": "timestamp", "lower": "0s", "upper": "left.value * INTERVAL '1 second'"}
    with pytest.raises(
        tidegate.TidegateError, match="max_width: an interval end computed from columns"
    ):
        tidegate.spark.interval_join(rates, rates, **query)
    with pytest.raises(tidegate.TidegateError, match="max_width must not be negative, got -1"):
        tidegate.spark.interval_join(rates, rates, **query, max_width="-1s")
    with pytest.raises(tidegate.TidegateError, match="max_width: it limits ends that are computed"):
        tidegate.spark.interval_join(rates, rates, **query | {"upper": "1s"}, max_width="1s")
    with pytest.raises(
        tidegate.TidegateError, match="max_width limits how long rows from two streams are kept"
    ):
        tidegate.spark.interval_join(frame, frame, on="ts", lower=0, upper=1, max_width=5)
