"""Each call builds one query and at most one plan, regardless of its inputs."""

import pickle
import threading
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate as tg
from tidegate import _tidegate

LEFT = pa.table({"ts": np.arange(40), "k": np.arange(40) % 3, "x": np.arange(40) * 1.5})
RIGHT = pa.table({"ts": np.arange(40) + 1, "k": np.arange(40) % 3, "y": np.arange(40) * 2.5})

INTERVAL = {"on": "ts", "by": "k", "lower": -3, "upper": 0}
COUNTS = {"size": 10, "aggs": {"n": tg.agg.count()}}
JOINS = [
    (tg.interval_join, INTERVAL),
    (tg.interval_join, INTERVAL | {"aggs": {"n": tg.agg.count()}, "prevailing": True}),
    (tg.asof_join, {"on": "ts", "by": "k", "tolerance": 5}),
    (tg.window_join, {"on": "ts", "window": 3, "where": "left.x < right.y"}),
    (tg.band_join, {"on": [("x", "y")], "within": 2.0, "time": "ts", "window": 5}),
    (tg.overlap_join, {"on": (("ts", "ts"), ("ts", "ts"))}),
]


def batches_of(function):
    return getattr(tg, f"{function.__name__}_batches")


@pytest.fixture
def planned(monkeypatch):
    """Count how often Python code plans a query."""
    counts = Counter()
    for kind in (_tidegate.JoinQuery, _tidegate.AggregationQuery):

        def counted(self, *inputs, native=kind.plan, name=kind.__name__):
            counts[name] += 1
            return native(self, *inputs)

        monkeypatch.setattr(kind, "plan", counted)
    return counts


@pytest.fixture
def files(tmp_path):
    """Both tables as Parquet files."""
    for name, table in (("left", LEFT), ("right", RIGHT)):
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=10)
    return tmp_path / "left.parquet", tmp_path / "right.parquet"


@pytest.mark.parametrize(("function", "query"), JOINS)
def test_tables_need_no_plan_before_the_native_call(function, query, planned):
    found = function(LEFT, RIGHT, **query)
    with batches_of(function)(LEFT, RIGHT, **query) as reader:
        assert pa.Table.from_batches([*reader], reader.schema) == found
    assert not planned


@pytest.mark.parametrize(("function", "query"), JOINS)
@pytest.mark.parametrize("limit", [None, "256MB"])
def test_a_call_on_files_is_planned_once(function, query, limit, files, planned):
    expected = function(LEFT, RIGHT, **query)
    assert function(*files, **query, memory_limit=limit) == expected
    assert planned == {"JoinQuery": 1}
    with batches_of(function)(*files, **query, memory_limit=limit) as reader:
        assert pa.Table.from_batches([*reader], reader.schema) == expected
    assert planned == {"JoinQuery": 2}


@pytest.mark.parametrize("limit", [None, "256MB"])
def test_an_aggregation_of_files_is_planned_once(limit, files, planned):
    query = {"on": "ts", "size": 10, "by": "k", "aggs": {"n": tg.agg.count()}}
    expected = tg.aggregate(LEFT, **query)
    assert not planned
    assert tg.aggregate(files[0], **query, memory_limit=limit) == expected
    assert planned == {"AggregationQuery": 1}
    with tg.aggregate_batches(files[0], **query, memory_limit=limit) as reader:
        assert pa.Table.from_batches([*reader], reader.schema) == expected
    assert planned == {"AggregationQuery": 2}


def test_an_explanation_is_planned_once(files, planned):
    assert "time" in tg.explain(tg.interval_join_batches, *files, **INTERVAL)
    assert planned == {"JoinQuery": 1}


@pytest.mark.parametrize(("function", "query"), JOINS)
def test_a_query_is_a_value(function, query):
    """A query can be pickled, and `replace` derives other queries from it."""
    made = getattr(_tidegate, f"{function.__name__}_query")(**query)
    again = pickle.loads(pickle.dumps(made))
    assert repr(again) == repr(made)
    assert again.table(LEFT, RIGHT) == function(LEFT, RIGHT, **query)
    one = made.replace(max_rows=0)
    assert (made.max_rows, one.max_rows) == (None, 0)
    with pytest.raises(tg.MemoryLimitError):
        one.table(LEFT, RIGHT)
    assert made.table(LEFT, RIGHT) == again.table(LEFT, RIGHT)


def test_a_query_of_an_aggregation_is_a_value():
    made = _tidegate.AggregationQuery(on="ts", size=10, aggs={"n": tg.agg.count()})
    again = pickle.loads(pickle.dumps(made))
    assert again.table(LEFT) == tg.aggregate(LEFT, on="ts", size=10, aggs={"n": tg.agg.count()})
    assert again.replace(size=40).table(LEFT)["n"].to_pylist() == [40]


def test_a_query_says_what_it_is_asked_for():
    ends = {"lower": -1, "upper": "left.x"}
    query = _tidegate.interval_join_query(on="ts", **ends, how="full", threads=3)
    assert (query.function, query.how, query.threads) == ("interval_join", "full", 3)
    assert query.keeps_right
    assert query.row_ends == (False, True)
    assert query.arguments["upper"] == "left.x"
    partners = query.replace(how=None, aggs={"n": tg.agg.count()})
    assert (partners.how, partners.keeps_right) == ("left", False)


def test_a_plan_says_what_pairs_and_conditions_need():
    query = _tidegate.interval_join_query(
        on="ts", lower=-2, upper=3, closed="right", where="right.y > 2"
    )
    plan = query.plan(LEFT, RIGHT)
    assert plan.distances == (-1, 3)
    assert plan.condition_columns == ([], ["y"])
    assert plan.end_columns == ([], [])
    assert plan.steps("far", 7) == 7
    ends = query.replace(lower="left.k", where=None).plan(LEFT, RIGHT)
    assert (ends.distances, ends.end_columns) == ((None, None), (["k"], []))
    overlap = _tidegate.overlap_join_query(on=("ts", "k"))
    assert overlap.plan(LEFT, RIGHT).intervals == (("ts", "k"), ("ts", "k"))
    last = _tidegate.asof_join_query(on="ts").plan(LEFT, RIGHT)
    near = _tidegate.asof_join_query(on="ts", tolerance=1).plan(LEFT, RIGHT)
    assert (last.looks_back, near.looks_back) == (True, False)


@pytest.mark.parametrize("limits", [{}, {"memory_limit": "1GB"}])
def test_a_missing_file_costs_no_stream(limits):
    stream = LEFT.to_reader()
    for call in (tg.interval_join, tg.interval_join_batches):
        with pytest.raises(FileNotFoundError, match="missing"):
            call(stream, "missing.parquet", **INTERVAL, **limits)
    for call in (tg.aggregate, tg.aggregate_batches):
        with pytest.raises(FileNotFoundError, match="missing"):
            call([stream, "missing.parquet"], on="ts", **COUNTS, **limits)
    with pytest.raises(FileNotFoundError, match="missing"):
        tg.merge([stream, "missing.parquet"], on="ts", **limits)
    assert stream.read_all().num_rows == LEFT.num_rows


@pytest.mark.parametrize(
    ("function", "inputs", "arguments"),
    [
        (tg.interval_join, (LEFT, RIGHT), INTERVAL | {"memory_limit": 5}),
        (tg.interval_join, (LEFT, RIGHT), INTERVAL | {"lateness": 5}),
        (
            tg.interval_join_batches,
            (LEFT, RIGHT),
            INTERVAL | {"memory_limit": "1GB", "lateness": "z"},
        ),
        (tg.band_join, (LEFT, RIGHT), {"on": [("x", "y")], "within": 2, "memory_limit": "1GB"}),
        (tg.aggregate, (LEFT,), COUNTS | {"on": "ts", "lateness": (1, 2), "memory_limit": "1GB"}),
        (tg.merge, (5,), {"on": "ts"}),
        (tg.merge, ([LEFT],), {"on": "ts", "digest": True}),
        (tg.IntervalJoin, (5, RIGHT), INTERVAL),
    ],
)
def test_an_explanation_fails_as_the_call_does(function, inputs, arguments):
    with pytest.raises((tg.TidegateError, TypeError)) as expected:
        function(*inputs, **arguments)
    with pytest.raises(type(expected.value)) as found:
        tg.explain(function, *inputs, **arguments)
    assert str(found.value) == str(expected.value)


def test_classes_are_explained_with_any_input_that_they_accept(files):
    text = tg.explain(tg.IntervalJoin, LEFT, RIGHT, **INTERVAL)
    assert text == tg.explain(tg.IntervalJoin, left=files[0], right=RIGHT.schema, **INTERVAL)
    assert text == tg.explain(tg.IntervalJoin, *files, **INTERVAL)
    band = {"on": "x", "within": 2.0, "time": "ts", "window": 5}
    assert "the same stream" in tg.explain(tg.BandJoin, LEFT.schema, None, **band)


class Made:
    """Return batches for a reader, with a schema that may differ from theirs."""

    schema = pa.schema([("ts", pa.int64())])

    def __init__(self, *batches):
        self.batches = iter(batches)
        self.is_closed = threading.Event()

    def __next__(self):
        return next(self.batches)

    def stats(self):
        return {}

    def close(self):
        self.is_closed.set()


def test_a_reader_checks_the_types_of_its_batches():
    good = pa.record_batch({"ts": pa.array([1, 2], pa.int64())})
    for bad in (
        pa.record_batch({"ts": pa.array([1, 2], pa.int8())}),
        pa.record_batch({"ts": pa.array([1], pa.int64()), "x": pa.array([1], pa.int64())}),
    ):
        made = Made(good, bad, good)
        reader = _tidegate.reader_of(made, "made_batches")
        assert next(reader).equals(good)
        # The error ends the reader: no later batch hides that rows are missing.
        for _ in range(2):
            with pytest.raises(tg.TidegateError, match="has different types from its reader"):
                next(reader)
        assert made.is_closed.wait(30)
