"""The overlap join of DataFrames: the rows of `tidegate.overlap_join`.

The work of tasks is tested without Spark, on random tables; the other tests share one session.
"""

import datetime as dt
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

import campaign
import spark_session
import tidegate
import tidegate.spark
from cases import grid, more, of_campaigns
from tidegate import agg
from tidegate._tidegate import join_query
from tidegate.spark.driver import overlap
from tidegate.spark.layout import lengths
from tidegate.spark.layout.lengths import Sample, Side
from tidegate.spark.layout.overlap import OverlapLayout
from tidegate.spark.plan.join import Plan
from tidegate.spark.query.axis import TimeAxis
from tidegate.spark.query.query import SparkQuery
from tidegate.spark.worker.order import Order
from tidegate.spark.worker.overlap import OverlapPacker, OverlapTask, StartsAndEnds
from tidegate.spark.worker.pack import unpacked
from tidegate.spark.worker.task import Call, Output, Task

pytestmark = pytest.mark.filterwarnings("ignore")

HOWS = ["inner", "left", "right", "full", "semi", "anti"]
ON = (("start", "end"), ("from", "to"))
AGGS = {
    "n": agg.count(),
    "sum": agg.sum("w"),
    "first": agg.first("r"),
    "mean": agg.mean("w"),
    "all": agg.collect("w"),
}


def intervals(seed: int, rows: int, names: tuple[str, str, str], until: int = 3_000) -> pa.Table:
    """Create rows: half have one key, a tenth none, a tenth one time, and some are long."""
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 6, rows)
    keys[rng.random(rows) < 0.5] = 1
    starts = rng.integers(0, until, rows)
    starts[rng.random(rows) < 0.1] = until // 2
    spans = rng.integers(0, 20, rows)
    spans[rng.random(rows) < 0.02] *= 100
    start, end, payload = names
    return pa.table(
        {
            "key": pa.array(keys, mask=rng.random(rows) < 0.1),
            start: pa.array(starts, mask=rng.random(rows) < 0.05),
            end: pa.array(starts + spans, mask=rng.random(rows) < 0.05),
            payload: np.arange(rows),
            "w": pa.array(rng.integers(0, 9, rows) / 8),
        }
    )


TABLES = intervals(1, 300, ("start", "end", "l")), intervals(2, 250, ("from", "to", "r"))


@pytest.fixture(scope="module")
def spark():
    return spark_session.start()


@pytest.fixture(scope="module")
def sides(spark):
    """Return both tables, each in more Spark partitions than there are cores."""
    return tuple(spark.createDataFrame(table).repartition(3).cache() for table in TABLES)


def counted(table: pa.Table) -> Counter[str]:
    """Count equal rows, regardless of their order."""
    return Counter(map(repr, table.to_pylist()))


def by_value(right: pa.Table) -> pa.Table:
    """Sort the right rows in the order that decides ties."""
    return Order("from", TimeAxis(days=False), by_number=False).put(right)


def same(found, tables=TABLES, **query) -> None:
    """Assert that the DataFrame has the native join's columns and rows."""
    left, right = tables
    right = by_value(right) if query.get("aggs") else right
    expected = tidegate.overlap_join(left, right, **query)
    rows = found.toArrow()
    assert rows.column_names == expected.column_names
    assert counted(rows) == counted(expected)


# Without Spark


def sample(tables: tuple[pa.Table, pa.Table], *, keyed: bool) -> Sample:
    """Create a sample that contains all rows with a start and an end."""
    found, longest = [], []
    for table, (start, end) in zip(tables, ON, strict=True):
        rows = table.filter(pa.compute.is_valid(pa.compute.add(table[start], table[end])))
        starts, ends = (rows[name].to_numpy() for name in (start, end))
        keys = rows["key"].fill_null(0).to_numpy() if keyed else np.zeros(rows.num_rows, np.int64)
        found.append(Side(keys, starts, ends))
        longest.append(int((ends - starts).max(initial=0)))
    return Sample((found[0], found[1]), (longest[0], longest[1]), 1.0)


def bucket(row: dict, names: tuple[str, str], layout: OverlapLayout, *, keyed: bool) -> int:
    """Return the bucket of a row as the plan computes it, or a place for an unmatchable row."""
    needed = [row[name] for name in (*names, *(["key"] if keyed else []))]
    if None in needed:
        return -1 - hash(str(row)) % len(layout.partition_of)
    return row["key"] % layout.keys if keyed else 0


def through_tasks(
    tables: tuple[pa.Table, pa.Table], query: dict, layout: OverlapLayout, *, keyed: bool
) -> pa.Table:
    """Run the join as tasks do."""
    packs = []
    for side, (table, names) in enumerate(zip(tables, ON, strict=True)):
        places = [bucket(row, names, layout, keyed=keyed) for row in table.to_pylist()]
        rows = table.append_column("bucket", pa.array(places, pa.int32()))
        rows = rows.append_column("hash", pa.array(np.arange(rows.num_rows) * 7))
        packer = OverlapPacker(
            layout, side, StartsAndEnds(side, names, (1, 2), TimeAxis(days=False)), extra=2
        )
        cuts = rows.to_batches(max_chunksize=17)
        packs += [pack for batch in packer.run(iter(cuts)) for pack in unpacked(batch)]
    expected = tidegate.overlap_join(*tables, **query)
    columns = tables[0].column_names if query.get("aggs") else expected.column_names
    told = layout.reports_at_home and query["how"] == "full"
    call = Call(
        join_query("overlap_join", {**query, "columns": columns}),
        Output(tuple(expected.column_names), None, None),
    )
    schemas = tables[0].schema, tables[1].schema
    task = Task(schemas, ("l__", "r__") if told else None, call)
    if layout.reports_at_home and query["how"] == "inner":
        task = OverlapTask(schemas, None, call)
    found = []
    for partition in range(layout.partitions):
        mine = [pack for pack in packs if pack.partition == partition]
        if mine:
            found += list(task._joined(mine))
    return pa.Table.from_batches(found, expected.schema)


KEPT = {"inner": "either", "right": "right", "full": "both"}


@settings(max_examples=campaign.tries(25))
@given(
    st.integers(0, 2**32),
    st.tuples(st.integers(0, 60), st.integers(0, 60)),
    st.sampled_from(HOWS),
    st.integers(1, 6),
    st.booleans(),
    st.sampled_from(["time", "hybrid"]),
    st.sampled_from(["both", "left"]),
    st.sampled_from([None, 0, 3]),
    st.sampled_from([None, "(left.l + right.r) % 3 > 0", "left.l > 9", "right.w < 0.5"]),
)
# A bucket has two layers of one slice each for left rows, so right rows are copied as well.
@example(3434892116, (12, 1), "full", 2, True, "hybrid", "both", None, None)  # noqa: FBT003
def test_tasks_find_the_rows_of_the_native_join(
    seed, rows, how, partitions, keyed, division, closed, least, where
):
    tables = tuple(
        intervals(seed + side, count, (*names, payload), until=100)
        for side, (count, names, payload) in enumerate(zip(rows, ON, "lr", strict=True))
    )
    query = {
        "on": ON,
        "by": "key" if keyed else None,
        "how": how,
        "closed": closed,
        "min_overlap": least,
        "where": where,
    }
    kept = KEPT.get(how, "left")
    layout = lengths.chosen(sample(tables, keyed=keyed), partitions, kept, division)
    found = through_tasks(tables, query, layout, keyed=keyed)
    assert counted(found) == counted(tidegate.overlap_join(*tables, **query))


@settings(max_examples=campaign.tries(15))
@given(st.integers(0, 2**32), st.integers(2, 6), st.booleans())
def test_tasks_find_pairs_where_their_later_row_starts(seed, partitions, keyed):
    tables = tuple(
        intervals(seed + side, 60, (*names, payload), until=100)
        for side, (names, payload) in enumerate(zip(ON, "lr", strict=True))
    )
    drawn = replace(sample(tables, keyed=keyed), longest=(None, None))
    layout = lengths.by_time(drawn, partitions, "either")
    query = {"on": ON, "by": "key" if keyed else None, "how": "inner"}
    assert layout.reports_at_home
    found = through_tasks(tables, query, layout, keyed=keyed)
    assert counted(found) == counted(tidegate.overlap_join(*tables, **query))


@settings(max_examples=campaign.tries(15))
@given(st.integers(0, 2**32), st.integers(1, 6), st.sampled_from(["left", "inner"]))
def test_tasks_aggregate_all_partners_of_a_row(seed, partitions, how):
    tables = tuple(
        intervals(seed + side, 60, (*names, payload), until=100)
        for side, (names, payload) in enumerate(zip(ON, "lr", strict=True))
    )
    counts = {"n": agg.count(), "most": agg.max("w"), "total": agg.sum("r")}
    query = {"on": ON, "by": "key", "how": how, "aggs": counts}
    layout = lengths.chosen(sample(tables, keyed=True), partitions, "left", "hybrid")
    found = through_tasks(tables, query, layout, keyed=True)
    assert counted(found) == counted(tidegate.overlap_join(*tables, **query))


# On Spark


@grid(
    how=["inner", "right", "full", *more("anti", "left", "semi")],
    parallelism=["key", "time", "hybrid"],
    closed=["both", "left"],
    least=[None, 3],
    where=[None, "left.w <= right.w"],
)
def test_rows_are_those_of_the_native_join(sides, how, parallelism, closed, least, where):
    query = {"on": ON, "by": "key", "how": how}
    query |= {"closed": closed, "min_overlap": least, "where": where}
    found = tidegate.spark.overlap_join(*sides, **query, parallelism=parallelism, partitions=4)
    same(found, **query)


# `test_a_date_is_its_midnight` also joins rows without a key.
def random_cases(side: int, payload: str) -> pa.Table:
    """Return small random cases, each with its own key, with nested, equal, empty and long rows."""
    every = []
    for case in range(campaign.tries(30)):
        rng = np.random.default_rng([campaign.SEED, side, case])
        rows = int(rng.integers(0, 14))
        starts = rng.integers(-30, 30, rows)
        ends = starts + rng.choice([0, 1, 4, 15, 200, 5_000], rows)
        columns = starts, ends, rng.integers(0, 2, rows)
        lacking = rng.random((3, rows)) < 0.08
        begins, until, keys = (
            [None if gone else int(value) for gone, value in zip(mask, column, strict=True)]
            for mask, column in zip(lacking, columns, strict=True)
        )
        every += zip([case] * rows, keys, begins, until, strict=True)
    columns = [pa.array(column, pa.int64()) for column in zip(*every, strict=True)]
    table = pa.table([*columns], names=["case", "key", *ON[side]])
    return table.append_column(payload, pa.array(range(len(every)), pa.int64()))


def own_loop(frames, how: str, closed: str, least: int):
    """Run Spark's nested-loop join: Spark finds no equal keys here, so it compares all pairs."""
    left, right = (frame.alias(name) for frame, name in zip(frames, "lr", strict=True))
    met = [f"l.{key} <= r.{key} and r.{key} <= l.{key}" for key in ("case", "key")]
    met += ["l.start <= r.to and r.from <= l.end"]
    if closed == "left":
        met += ["l.start < r.to and r.from < l.end and l.start < l.end and r.from < r.to"]
    met += [f"least(l.end, r.to) - greatest(l.start, r.from) >= {least}"]
    kind = {"semi": "left_semi", "anti": "left_anti"}.get(how, how)
    found = left.join(right, F.expr(" and ".join(met)), kind)
    assert "NestedLoop" in found._jdf.queryExecution().toString()
    return found


# Other tests compare the native join with nested loops.
@of_campaigns
@grid(
    how=["left", "inner", "right", "full", "semi", "anti"],
    parallelism=["hybrid", "time", "key"],
    closed=["left", "both"],
    least=[4, 0],
)
def test_rows_are_those_of_sparks_own_loop(spark, how, parallelism, closed, least):
    tables = random_cases(0, "l"), random_cases(1, "r")
    frames = [spark.createDataFrame(table).repartition(3) for table in tables]
    names = ["l"] if how in ("semi", "anti") else ["l", "r"]
    query = {"on": ON, "by": ["case", "key"], "how": how, "closed": closed, "columns": names}
    query |= {"min_overlap": least, "parallelism": parallelism}
    found = tidegate.spark.overlap_join(*frames, **query)
    expected = own_loop(frames, how, closed, least).select(*names)
    assert counted(found.toArrow()) == counted(expected.toArrow())


@of_campaigns
@grid(how=["full", "inner", "left"], partitions=[3, 1])
def test_without_a_key_time_alone_divides(sides, how, partitions):
    query = {"on": ON, "how": how}
    found = tidegate.spark.overlap_join(*sides, **query, parallelism="time", partitions=partitions)
    same(found, **query)


@grid(how=["anti", "semi", *more("left", "right", "inner")], by=["key", None])
def test_one_side_is_sent_whole(sides, how, by):
    query = {"on": ON, "how": how, "by": by}
    found = tidegate.spark.overlap_join(*sides, **query, parallelism="broadcast")
    assert "tidegate_pack" not in found._jdf.queryExecution().toString()
    same(found, **query)


@grid(how=["left", "inner"], parallelism=["broadcast", "hybrid"])
def test_aggregates_of_partners(sides, how, parallelism):
    query = {"on": ON, "by": "key", "how": how, "aggs": AGGS, "columns": ["l", "key"]}
    same(tidegate.spark.overlap_join(*sides, **query, parallelism=parallelism), **query)


@grid(how=["left", *more("right", "inner", "anti")], parallelism=["time", *more("hybrid")])
def test_points_in_intervals(spark, sides, how, parallelism):
    points = TABLES[0].drop_columns(["end"]).rename_columns({"start": "ts"})
    query = {"on": (("ts", "ts"), ("from", "to")), "by": "key", "how": how}
    left = spark.createDataFrame(points)
    found = tidegate.spark.overlap_join(
        left, sides[1], **query, parallelism=parallelism, partitions=4
    )
    same(found, (points, TABLES[1]), **query)


def with_times(frame, kind: str):
    """Cast the DataFrame's times to this type, because Spark reads Arrow's times as zoned ones."""
    times = {"start", "end", "from", "to", "ts"} & {*frame.columns}
    if kind != "timestamp_ntz":
        return frame
    return frame.withColumns(
        {
            name: F.col(name).cast(kind)
            for name in times
            if frame.schema[name].dataType.simpleString() == "timestamp"
        }
    )


KINDS = {
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "date": pa.date32(),
    "int": pa.int32(),
}


@grid(kind=["timestamp", *more("date", "timestamp_ntz", "int")], how=["left", *more("inner")])
def test_types_of_times(spark, kind, how):
    tables = []
    for table, names in zip(TABLES, ON, strict=True):
        for name in names:
            at = table.column_names.index(name)
            numbers = table[name].cast(pa.int32())
            if kind.startswith("timestamp"):
                numbers = pa.compute.multiply(table[name], 1_000_000)
            table = table.set_column(at, name, numbers.cast(KINDS[kind]))  # noqa: PLW2901
        tables.append(table)
    query = {"on": ON, "by": "key", "how": how}
    with spark_session.settings(spark, spark__sql__session__timeZone="UTC"):
        frames = [with_times(spark.createDataFrame(table), kind) for table in tables]
        found = tidegate.spark.overlap_join(*frames, **query, parallelism="time", partitions=4)
        assert found.schema["start"].dataType.simpleString() == kind
        same(found, tables, **query)


def test_a_date_is_its_midnight(spark):
    days = [dt.date(2026, 1, day) for day in range(1, 29)]
    left = pa.table({"start": days, "end": [*days[1:], dt.date(2026, 2, 3)], "l": range(28)})
    times = pa.array(np.arange(28) * 86_400_000_000 // 2 + 1_767_225_600_000_000)
    right = pa.table({"ts": times.cast(pa.timestamp("us")), "r": range(28)})
    query = {"on": (("start", "end"), ("ts", "ts")), "how": "left"}
    with spark_session.settings(spark, spark__sql__session__timeZone="UTC"):
        frames = spark.createDataFrame(left), spark.createDataFrame(right)
        frames = frames[0], with_times(frames[1], "timestamp_ntz")
        found = tidegate.spark.overlap_join(*frames, **query, parallelism="time", partitions=3)
        same(found, (left, right), **query)


def test_names_of_both_sides(spark):
    left = pa.table({"s": [1, 5], "e": [4, 9], "k": ["a", "b"]})
    right = pa.table({"s": [2, 6], "e": [3, 7], "k": ["a", "b"]})
    frames = [spark.createDataFrame(table) for table in (left, right)]
    query = {"on": ("s", "e"), "by": {"k": "k"}, "suffix": "_2", "columns": ["e_2", "k", "s"]}
    found = tidegate.spark.overlap_join(*frames, **query, parallelism="key")
    same(found, (left, right), **query)


def test_only_what_is_read_travels(sides):
    query = SparkQuery.of("overlap_join", {"on": ON, "by": "key", "where": "left.w > 0"})
    plan = Plan.of(*sides, query, columns=["r"])
    assert plan.columns.left.names == ["key", "start", "end", "w"]
    assert plan.columns.right.names == ["key", "from", "to", "r"]


def test_a_function_takes_the_result(sides):
    counts = tidegate.spark.overlap_join(
        *sides,
        on=ON,
        by="key",
        columns=["key", "w"],
        parallelism="hybrid",
        partitions=4,
        then=lambda batch: pa.table({"n": [batch.num_rows]}),
        then_schema="n bigint",
    )
    pairs = tidegate.overlap_join(*TABLES, on=ON, by="key")
    assert counts.agg(F.sum("n")).collect()[0][0] == pairs.num_rows


def explained(sides, **arguments) -> str:
    arguments = {"on": ON, "by": "key", "partitions": 4, **arguments}
    return tidegate.spark.explain(tidegate.spark.overlap_join, *sides, **arguments)


def test_explain_tells_the_slices(sides):
    text = explained(sides, parallelism="hybrid")
    assert text.startswith("overlap_join (inner)\n")
    assert "divided    by key: 32 buckets in 4 partitions, " in text
    assert "of them cut by time into" in text
    assert "slices: each row goes to the slices that it covers" in text
    assert text.endswith("because    parallelism is 'hybrid'")
    text = explained(sides, parallelism="time", how="left")
    assert "divided    by time: " in text
    assert re.search(r"left rows up to 1,\d00 steps long go where they start, right rows to", text)
    assert "none cut" in explained(sides, parallelism="key")
    for arguments in more({}):
        assert "right is sent in full to every task, " in explained(sides, **arguments)


def jobs(spark, sides, **arguments) -> list[str]:
    """Return the descriptions of the jobs that planning runs."""
    tracker = spark.sparkContext._jsc.sc().statusStore()
    before = tracker.jobsList(None).size()
    arguments = {"on": ON, **arguments}
    query = {name: arguments.pop(name) for name in ("on", "by", "how") if name in arguments}
    overlap.of_join(Plan.of(*sides, SparkQuery.of("overlap_join", query), **arguments))
    found = tracker.jobsList(None)
    texts = (found.apply(at).description() for at in range(found.size() - before))
    return sorted({text.get().removeprefix("tidegate: ") for text in texts})


def test_the_longest_row_is_looked_for_where_it_matters(spark, sides):
    drawn = "sample keys, starts and ends"
    left, right = (f"find the longest row of the {side} side" for side in ("left", "right"))
    assert jobs(spark, sides, by="key", parallelism="key") == []
    for how, looked in (("full", [left, right]), *more(("left", [left]), ("right", [right]))):
        assert jobs(spark, sides, how=how, partitions=4) == [*looked, drawn]
    assert jobs(spark, sides, how="left", partitions=1) == [drawn]
    points = (("start", "start"), ("from", "to"))
    assert jobs(spark, sides, on=points, how="left", partitions=4) == [drawn]


def test_a_start_after_its_end(spark, sides):
    table = TABLES[1].set_column(2, "to", pa.compute.subtract(TABLES[1]["from"], 7))
    right = spark.createDataFrame(table.slice(0, 40)).cache()
    message = r"right: a row has \d+ in column `from` and \d+ in column `to`, expected a start "
    message += r"at or before its end; .*\.where\(\"`from` <= `to`\"\)"
    with pytest.raises(tidegate.TidegateError, match=message):
        tidegate.spark.overlap_join(sides[0], right, on=ON)
    for arguments in more({"parallelism": "time"}, {"parallelism": "key", "by": "key"}):
        found = tidegate.spark.overlap_join(sides[0], right, on=ON, **arguments, partitions=2)
        with pytest.raises(PySparkException, match=message):
            found.count()
    # The wrong row can be on the side that stays in its partitions.
    found = tidegate.spark.overlap_join(
        right, sides[0], on=ON[::-1], how="left", parallelism="broadcast"
    )
    with pytest.raises(PySparkException, match=message.replace("right", "left")):
        found.count()
    # The wrong row can also lack a key, so that it has no partner.
    alone = spark.createDataFrame(
        [(None, 5, 4, 0, 0.0)], "key long, `from` long, to long, r long, w double"
    )
    found = tidegate.spark.overlap_join(sides[0], alone, on=ON, by="key", parallelism="key")
    with pytest.raises(PySparkException, match="right: a row has 5 in column `from` and 4"):
        found.count()


def test_rows_that_are_longer_when_they_are_read_again(spark, sides, monkeypatch):
    monkeypatch.setattr(overlap, "_longest", lambda *_: 3)
    arguments = {"on": ON, "how": "left", "partitions": 4}
    found = tidegate.spark.overlap_join(*sides, **arguments, parallelism="time")
    with pytest.raises(PySparkException, match=r"left: a row is \d+ steps long.*left\.cache\(\)"):
        found.count()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"on": "start"}, "on: expected a tuple with the names of the start and end columns"),
        ({"on": (("begin", "end"), ON[1])}, "left: there is no column `begin`"),
        ({"on": (("w", "end"), ON[1])}, "left: column `w` is double, expected a time"),
        ({"closed": "right"}, "closed must be one of both, left, got `right`"),
        ({"min_overlap": -1}, "min_overlap must not be negative, got -1"),
        ({"min_overlap": "1s"}, "min_overlap is a duration, but the time columns are integers"),
        ({"how": "outer"}, "how must be one of"),
        ({"by": None, "parallelism": "key"}, "divides rows by key; give `by`, or choose 'time'"),
        (
            {"parallelism": "value"},
            "expected one of auto, broadcast, files, key, time, hybrid, got .value.",
        ),
        (
            {"parallelism": "bins"},
            "'bins' is not available for overlap joins: bins all have the same width.*; leave it",
        ),
        ({"parallelism": "broadcast", "how": "full"}, "a full join returns the unmatched rows of"),
        ({"partitions": 0}, "partitions: expected at least 1, got 0"),
        ({"columns": []}, "`columns` is empty"),
        ({"then": lambda batch: batch}, "`then` and `then_schema` require each"),
    ],
)
def test_what_is_refused_before_any_job(spark, sides, change, message):
    tracker = spark.sparkContext._jsc.sc().statusStore()
    before = tracker.jobsList(None).size()
    arguments = {"on": ON, "by": "key", **change}
    with pytest.raises((tidegate.TidegateError, TypeError), match=message):
        tidegate.spark.overlap_join(*sides, **arguments)
    assert tracker.jobsList(None).size() == before


def test_two_streams_need_a_maximum_width(spark):
    stream = spark.readStream.format("rate").load().selectExpr("value start", "value end")
    message = r"^max_width: a row can have any length.*give the maximum length.*foreachBatch"
    with pytest.raises(tidegate.TidegateError, match=message):
        tidegate.spark.overlap_join(stream, stream, on=("start", "end"))
