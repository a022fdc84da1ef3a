"""Words of other libraries: the error says which argument to write, with the caller's names."""

import pickle

import pytest

import tidegate as tg

TABLE = {"ts": [1, 2], "k": ["a", "b"]}

CASES = [
    (
        tg.interval_join,
        {"left_on": "ts", "right_on": "time", "left_by": "a", "right_by": "b"},
        "left_on or right_on or left_by or right_by; write on=('ts', 'time'), by=[('a', 'b')]",
    ),
    (tg.interval_join, {"tolerance": "5s"}, "write lower='-5s', upper='5s'"),
    (tg.interval_join, {"tolerance": 5}, "write lower=-5, upper=5"),
    (tg.interval_join, {"direction": "forward"}, "asof_join gives the row nearest in time"),
    (tg.interval_join, {"allow_exact_matches": False}, "write closed='neither'; the ends"),
    (tg.interval_join, {"suffixes": ("_x", "_y")}, "write suffix='_y'; right columns get it"),
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
    (tg.merge_batches, {"zzz": 1}, "its arguments are streams, on, lateness, threads"),
]


@pytest.mark.parametrize(("function", "named", "text"), CASES)
def test_a_word_of_other_libraries_is_answered_with_the_line_to_write(function, named, text):
    inputs = [[TABLE]] if function in {tg.aggregate, tg.merge, tg.merge_batches} else [TABLE] * 2
    with pytest.raises(TypeError) as caught:
        function(*inputs, **named)
    assert text in str(caught.value)


def test_other_errors_stay_as_they_are():
    with pytest.raises(TypeError, match="missing 1 required keyword argument: 'on'"):
        tg.asof_join(TABLE, TABLE)
    with pytest.raises(TypeError, match="threads: expected an integer"):
        tg.asof_join(TABLE, TABLE, on="ts", threads="2")


def test_functions_can_be_pickled():
    assert pickle.loads(pickle.dumps(tg.interval_join)) is tg.interval_join
    assert tg.interval_join.__doc__.startswith("Pair")
