"""Argument names of other libraries: the error shows the argument to write instead."""

import inspect
import pickle

import pyarrow as pa
import pytest

import tidegate as tg
from tidegate import _tidegate

TABLE = {"ts": [1, 2], "k": ["a", "b"]}

CASES = [
    (
        tg.interval_join,
        {"left_on": "ts", "right_on": "time", "left_by": "a", "right_by": "b"},
        "left_on or right_on or left_by or right_by; write on=('ts', 'time'), by=[('a', 'b')]",
    ),
    (tg.interval_join, {"tolerance": "5s"}, "write lower='-5s', upper='5s'"),
    (tg.interval_join, {"tolerance": 5}, "write lower=-5, upper=5"),
    (tg.interval_join, {"direction": "forward"}, "asof_join returns the row nearest in time"),
    (tg.interval_join, {"allow_exact_matches": False}, "write closed='neither'; this excludes"),
    (
        tg.interval_join,
        {"suffixes": ("_x", "_y")},
        "write suffix='_y'; right columns get this suffix",
    ),
    (tg.asof_join, {"left_on": "ts", "right_on": "ts"}, "write on='ts'"),
    (tg.asof_join, {"left_on": "ts"}, r"write on=('ts', '<the right name>')"),
    (tg.asof_join, {"direction": "forward"}, "write strategy='forward'"),
    (
        tg.asof_join_batches,
        {"left_by": ["a", "c"], "right_by": ["a", "d"]},
        "asof_join_batches() has no argument left_by or right_by; write by=['a', ('c', 'd')]",
    ),
    (tg.band_join, {"left_on": "x", "right_on": "y"}, "write on=('x', 'y')"),
    (tg.band_join, {"tolerance": 5}, "write within=5"),
    (tg.window_join, {"tolerance": "5s"}, "write window='5s'"),
    (tg.overlap_join, {"predicate": "left.x > 1"}, "write where='left.x > 1'"),
    (tg.aggregate, {"every": "1h"}, "write size='1h'"),
    (tg.aggregate, {"every": "1h", "period": "2h"}, "write size='2h', advance='1h'"),
    (tg.aggregate, {"period": "2h"}, "write size='2h'"),
    (
        tg.aggregate,
        {"index_column": "ts", "group_by": ["k"]},
        "write on='ts', by=['k']",
    ),
    (tg.merge, {"onn": "ts"}, "has no argument onn; did you mean on?"),
    (tg.Index, {"on": "ts", "by_keys": "k"}, "Index() has no argument by_keys; write by='k'"),
    (tg.Index, {"time_column": "ts"}, "write on='ts'"),
    (
        tg.Index,
        {"on": "ts", "lower": 0},
        "table, on, by, keep, open_ends, threads",
    ),
    (tg.merge_batches, {"zzz": 1}, "its arguments are streams, on, lateness, unit, progress"),
]


@pytest.mark.parametrize(("function", "named", "text"), CASES)
def test_a_word_of_other_libraries_is_answered_with_the_line_to_write(function, named, text):
    inputs = [TABLE] if function is tg.Index else [TABLE] * 2
    if function in {tg.aggregate, tg.merge, tg.merge_batches}:
        inputs = [[TABLE]]
    with pytest.raises(TypeError) as caught:
        function(*inputs, **named)
    assert text in str(caught.value)


def test_open_index_answers_likewise():
    with pytest.raises(
        TypeError, match=r"open_index\(\) has no argument n_threads; write threads=2"
    ):
        tg.open_index("quotes.index", n_threads=2)
    with pytest.raises(TypeError, match="did you mean verify"):
        tg.open_index("quotes.index", verfy=True)


SCHEMA = pa.schema({"ts": pa.int64(), "k": pa.string()})
CLASSES = [
    (tg.IntervalJoin, {"left_on": "ts", "right_on": "time"}, "write on=('ts', 'time')"),
    (tg.IntervalJoin, {"on": "ts", "tolerance": "5s"}, "write lower='-5s', upper='5s'"),
    (
        tg.IntervalJoin,
        {"on": "ts", "lower": 0, "upper": 1, "left_by": "a", "right_by": "b"},
        "IntervalJoin() has no argument left_by or right_by; write by=[('a', 'b')]",
    ),
    (tg.AsofJoin, {"on": "ts", "direction": "forward"}, "write strategy='forward'"),
    (tg.BandJoin, {"left_on": "x", "right_on": "y"}, "write on=('x', 'y')"),
    (tg.WindowJoin, {"on": "ts", "tolerance": "5s"}, "write window='5s'"),
    (tg.Aggregate, {"on": "ts", "every": "1h"}, "write size='1h'"),
    (tg.Aggregate, {"index_column": "ts", "group_by": "k"}, "write on='ts', by='k'"),
    (tg.Merge, {"onn": "ts"}, "Merge() has no argument onn; did you mean on?"),
]
OPERATORS = [
    tg.AsofJoin, tg.BandJoin, tg.IntervalJoin, tg.OverlapJoin, tg.WindowJoin, tg.Aggregate,
    tg.Merge,
]  # fmt: skip


@pytest.mark.parametrize(("kind", "named", "text"), CLASSES)
def test_classes_answer_likewise(kind, named, text):
    schemas = [SCHEMA] if kind in {tg.Aggregate, tg.Merge} else [SCHEMA] * 2
    with pytest.raises(TypeError) as caught:
        kind(*schemas, **named)
    assert text in str(caught.value)


@pytest.mark.parametrize("kind", OPERATORS)
def test_classes_stay_what_they_are(kind):
    native = getattr(_tidegate, kind.__name__)
    assert issubclass(kind, native)
    assert inspect.signature(kind) == inspect.signature(native)
    assert inspect.getdoc(kind) == inspect.getdoc(native)
    assert pickle.loads(pickle.dumps(kind)) is kind
    assert repr(kind) == f"<class 'tidegate.{kind.__name__}'>"
    with pytest.raises(TypeError, match="is not an acceptable base type"):
        type("Own", (kind,), {})


def test_operators_have_no_attributes_of_their_own():
    operator = tg.Merge(SCHEMA)
    assert isinstance(operator, tg.Merge)
    assert not hasattr(operator, "__dict__")
    with pytest.raises(AttributeError):
        operator.own = 1


def test_other_errors_of_classes_stay_as_they_are():
    with pytest.raises(TypeError, match=r"missing 1 required keyword(-only)? argument: 'on'"):
        tg.AsofJoin(SCHEMA, SCHEMA)
    with pytest.raises(TypeError, match="threads: expected an integer"):
        tg.Merge(SCHEMA, threads="2")


BOUNDS = {"on": "ts", "lower": 0, "upper": 1}
COUNT = {"aggs": {"n": tg.agg.count()}}


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ("outer", "full"),
        ("full_outer", "full"),
        ("fullouter", "full"),
        ("left_outer", "left"),
        ("right outer", "right"),
        ("leftsemi", "semi"),
        ("left_anti", "anti"),
        ("LEFT", "left"),
    ],
)
@pytest.mark.parametrize("function", [tg.interval_join, tg.IntervalJoin])
def test_a_join_of_other_libraries_is_answered_with_the_word_to_write(function, given, word):
    inputs = [SCHEMA] * 2 if function is tg.IntervalJoin else [TABLE] * 2
    with pytest.raises(tg.TidegateError) as caught:
        function(*inputs, **BOUNDS, how=given)
    assert str(caught.value) == (
        f"how must be one of inner, left, right, full, semi, anti, got `{given}`; write `{word}`"
    )


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda how: tg.asof_join(TABLE, TABLE, on="ts", how=how), "an as-of join looks up"),
        (lambda how: tg.AsofJoin(SCHEMA, SCHEMA, on="ts", how=how), "an as-of join looks up"),
        (
            lambda how: tg.interval_join(TABLE, TABLE, **BOUNDS, **COUNT, how=how),
            "with aggs, the result has one row for each left row",
        ),
    ],
)
@pytest.mark.parametrize("how", ["outer", "full_outer", "full"])
def test_an_outer_join_of_left_rows_alone_is_told_why_there_is_none(call, text, how):
    with pytest.raises(tg.TidegateError) as caught:
        call(how)
    assert text in str(caught.value)


def test_other_errors_stay_as_they_are():
    with pytest.raises(TypeError, match=r"missing 1 required keyword(-only)? argument: 'on'"):
        tg.asof_join(TABLE, TABLE)
    with pytest.raises(TypeError, match="threads: expected an integer"):
        tg.asof_join(TABLE, TABLE, on="ts", threads="2")


def test_functions_can_be_pickled():
    assert pickle.loads(pickle.dumps(tg.interval_join)) is tg.interval_join
    assert tg.interval_join.__doc__.startswith("Match")
