"""`tidegate.window_join`, compared with Kang's three-step procedure in plain Python."""

from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
import tidegate
from oracle import Pair, Row
from tidegate import SchemaError, TidegateError, interval_join, rows, window_join

HOW = ["inner", "left", "right", "full", "semi", "anti"]
ALGORITHMS = [
    "auto",
    "scalejoin",
    "scalejoin-gates",
    "splitjoin",
    "cell",
    "three-step",
    "handshake",
    "low-latency-handshake",
]


def three_steps(
    left: pa.Table,
    right: pa.Table,
    window: tuple[int | tidegate.Rows, int | tidegate.Rows],
    matches: Callable[[Row, Row], bool],
) -> list[Pair]:
    """Return the pairs: each row, in merged order, scans the other window and enters its own."""
    tables = (left.to_pylist(), right.to_pylist())
    merged = sorted(
        (row["ts"], side, number) for side in (0, 1) for number, row in enumerate(tables[side])
    )
    windows: tuple[deque[int], deque[int]] = (deque(), deque())
    pairs = []
    for ts, side, number in merged:
        # 1. Rows whose window has passed are removed.
        for of_side, kept, length in zip((0, 1), windows, window, strict=True):
            while isinstance(length, int) and kept and tables[of_side][kept[0]]["ts"] < ts - length:
                kept.popleft()
        # 2. The row is compared with the rows of the other side.
        for other in windows[1 - side]:
            pair = (number, other) if side == 0 else (other, number)
            if matches(tables[0][pair[0]], tables[1][pair[1]]):
                pairs.append(pair)
        # 3. The row enters its own window, which may be limited to a number of rows.
        windows[side].append(number)
        length = window[side]
        if isinstance(length, tidegate.Rows) and len(windows[side]) > length.count:
            windows[side].popleft()
    return sorted(pairs)


def of_how(how: str, pairs: list[Pair], left_rows: int, right_rows: int) -> list[Pair]:
    """Return the rows of a result, in order."""
    matched = {i for i, _ in pairs}
    if how == "semi":
        return [(i, None) for i in sorted(matched)]
    if how == "anti":
        return [(i, None) for i in range(left_rows) if i not in matched]
    result = list(pairs)
    if how in ("left", "full"):
        result.extend((i, None) for i in range(left_rows) if i not in matched)
        result.sort(key=lambda pair: (pair[0], -1 if pair[1] is None else pair[1]))
    if how in ("right", "full"):
        used = {j for _, j in pairs}
        result.extend((None, j) for j in range(right_rows) if j not in used)
    return result


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    ts = draw(st.lists(st.integers(0, 15), max_size=30))
    if draw(st.booleans()):
        ts.sort()

    def numbers(least: int, most: int) -> list[int | None]:
        return draw(
            st.lists(st.none() | st.integers(least, most), min_size=len(ts), max_size=len(ts))
        )

    return pa.table(
        {
            "ts": pa.array(ts, pa.int64()),
            "k": pa.array(numbers(0, 2), pa.int64()),
            "x": pa.array(numbers(0, 9), pa.int32()),
        }
    )


TIMES = st.integers(0, 6)
COUNTS = st.integers(1, 6).map(rows)
NEAR = "abs(left.x - right.x) <= 2"


def near(left: Row, right: Row) -> bool:
    x, y = left["x"], right["x"]
    return isinstance(x, int) and isinstance(y, int) and abs(x - y) <= 2


@given(
    tables(),
    tables(),
    st.tuples(TIMES, TIMES) | st.tuples(COUNTS, COUNTS),
    st.booleans(),
    st.sampled_from([None, NEAR, f"({NEAR}) OR FALSE"]),
    st.sampled_from(HOW),
    st.sampled_from(ALGORITHMS),
    st.integers(1, 8),
)
def test_oracle_three_steps(left, right, window, by, where, how, algorithm, threads):
    def matches(l_row: Row, r_row: Row) -> bool:
        same = not by or (l_row["k"] is not None and l_row["k"] == r_row["k"])
        return same and (where is None or near(l_row, r_row))

    pairs = three_steps(left, right, window, matches)
    join = oracle.Join(
        on=("ts", "ts"), lower=None, upper=None, by=[("k", "k")] if by else [], how=how
    )
    wanted = oracle.result(left, right, of_how(how, pairs, left.num_rows, right.num_rows), join)
    arguments = {"on": "ts", "window": window, "where": where, "how": how, "threads": threads}
    arguments |= {"algorithm": algorithm} | ({"by": "k"} if by else {})
    oracle.assert_same(window_join(left, right, **arguments), wanted)
    reader = tidegate.window_join_batches(left, right, batch_rows=3, **arguments)
    oracle.assert_same(pa.table(reader), wanted)


EVENTS = pa.table({"ts": [1, 2, 3, 4, 5], "symbol": ["a", "b", "a", "b", "a"]})
FEEDS = pa.table({"ts": [2, 2, 3, 9], "symbol": ["a", "a", "b", "a"]})


def test_a_self_join_pairs_each_row_with_itself_by_time():
    found = window_join(EVENTS, EVENTS, on="ts", window=0)
    assert found["ts"].to_pylist() == found["ts_right"].to_pylist() == [1, 2, 3, 4, 5]


def test_one_window_is_a_window_for_both_sides():
    for window in (2, rows(2)):
        one = window_join(EVENTS, FEEDS, on="ts", window=window)
        assert one.equals(window_join(EVENTS, FEEDS, on="ts", window=(window, window)))


def test_a_time_window_is_an_interval():
    found = window_join(EVENTS, FEEDS, on="ts", window=(1, 3), by="symbol")
    assert found.equals(interval_join(EVENTS, FEEDS, on="ts", lower=-3, upper=1, by="symbol"))


def test_windows_of_time_are_durations():
    start = datetime(2024, 1, 1)  # noqa: DTZ001 - naive
    table = pa.table({"ts": [start + timedelta(seconds=n) for n in range(4)]})
    for window in ("1s", timedelta(seconds=1), "1999ms"):
        assert window_join(table, table, on="ts", window=window).num_rows == 10


# Row-based windows. The comments describe the rows that remain when a row arrives.


# The pairs of feed 9 and event 5, for any left window.
TAIL = [(5, 3), (5, 9)]


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        # The rows arrive in this order: events 1 and 2, both feeds of 2 (left before right), 3,
        # feed 3, 4, 5, feed 9.
        ((1, 1), [(2, 2), (2, 2), (3, 2), (3, 3), (4, 3), (5, 3), (5, 9)]),
        (
            (2, 1),
            [
                (1, 2),
                (1, 2),
                (2, 2),
                (2, 2),
                (2, 3),
                (3, 2),
                (3, 3),
                (4, 3),
                (4, 9),
                (5, 3),
                (5, 9),
            ],
        ),
        ((1, 2), [(2, 2), (2, 2), (3, 2), (3, 2), (3, 3), (4, 2), (4, 3), (5, 2), (5, 3), (5, 9)]),
    ],
)
def test_the_last_rows_of_each_side(lengths, expected):
    found = window_join(EVENTS, FEEDS, on="ts", window=tuple(map(rows, lengths)))
    assert (
        list(zip(found["ts"].to_pylist(), found["ts_right"].to_pylist(), strict=True)) == expected
    )


def test_a_window_of_rows_counts_rows_of_all_keys():
    # The last feed before event 5 is the one at 3, with another symbol.
    found = window_join(EVENTS, FEEDS, on="ts", window=rows(1), by="symbol")
    assert found["ts"].to_pylist() == [3, 4, 5]
    assert found["ts_right"].to_pylist() == [2, 3, 9]


def test_text_and_other_conditions_are_evaluated():
    where = "left.symbol = right.symbol AND left.ts < right.ts"
    found = window_join(EVENTS, FEEDS, on="ts", window=2, where=where)
    assert found["ts"].to_pylist() == [1, 1, 2]


def test_explain_names_the_windows():
    plan = tidegate.explain(window_join, EVENTS, FEEDS, on="ts", window=(5, 7), by="symbol")
    assert (
        "  window     left rows stay for 5, right rows for 7 (integer)\n  key        symbol\n"
        in plan
    )
    plan = tidegate.explain(tidegate.window_join_batches, EVENTS, FEEDS, on="ts", window=rows(9))
    assert "  window     the last 9 left rows, the last 9 right rows\n" in plan


def test_explain_says_who_compares():
    plan = tidegate.explain(window_join, EVENTS, FEEDS, on="ts", window=5)
    assert "  algorithm  group and sweep (auto): each left row's window is a run of right" in plan
    plan = tidegate.explain(
        window_join,
        EVENTS,
        FEEDS,
        on="ts",
        window=5,
        by="symbol",
        algorithm="low-latency-handshake",
    )
    assert (
        "  algorithm  low-latency handshake join: rows pass quickly through a chain of threads"
        in plan
    )
    assert "  index      a hash table on each thread, keyed by numbers that must be equal\n" in plan
    plan = tidegate.explain(window_join, EVENTS, FEEDS, on="ts", window=5, algorithm="cell")
    assert "  algorithm  CellJoin: each row's window is divided into one piece per thread\n" in plan
    assert "  index      none: every pair in the windows is compared\n" in plan


def test_an_unknown_algorithm_is_refused():
    for function in (window_join, tidegate.window_join_batches):
        with pytest.raises(
            TidegateError, match="algorithm must be one of auto, scalejoin, scalejoin-gates, "
        ):
            function(EVENTS, FEEDS, on="ts", window=1, algorithm="hash")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_numbers_at_the_ends_of_their_type_are_compared_as_others(algorithm):
    ends = [-(2**31), -(2**31) + 1, 0, 2**31 - 2, 2**31 - 1, None]
    table = pa.table({"ts": list(range(6)), "x": pa.array(ends, pa.int32())})
    for where, pairs in (
        ("left.x = right.x", 5),
        ("left.x <= right.x", 15),
        ("left.x < right.x", 10),
    ):
        found = window_join(table, table, on="ts", window=9, where=where, algorithm=algorithm)
        assert found.num_rows == pairs


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_too_many_rows_are_refused_whoever_compares(algorithm):
    arguments = {"on": "ts", "window": 9, "algorithm": algorithm}
    assert window_join(EVENTS, FEEDS, max_rows=20, **arguments).num_rows == 20
    with pytest.raises(tidegate.MemoryLimitError, match="more than max_rows = 19"):
        window_join(EVENTS, FEEDS, max_rows=19, **arguments)


# Bad input


@pytest.mark.parametrize(
    ("window", "message"),
    [
        (-1, "window must not be negative, got -1 (integer)"),
        ((1, -2), "window must not be negative, got -2 (integer)"),
        (
            "5s",
            "window is a duration, but the time columns are integers; give window as an integer",
        ),
        ((rows(1), 1), "window: one side has a time and the other has a number of rows"),
        (2**70, "window is 1180591620717411303424 integer, which does not fit 64 bits"),
    ],
)
def test_windows_without_meaning_are_refused(window, message):
    with pytest.raises(TidegateError) as error:
        window_join(EVENTS, FEEDS, on="ts", window=window)
    assert message in str(error.value)


@pytest.mark.parametrize("window", [None, 1.5, (1,), (1, 2, 3), [1, 2], True])
def test_windows_of_another_type_are_refused(window):
    with pytest.raises(TypeError, match="window: "):
        window_join(EVENTS, FEEDS, on="ts", window=window)


@pytest.mark.parametrize("count", [0, -1, 2**33])
def test_windows_of_no_rows_are_refused(count):
    with pytest.raises(TidegateError, match="rows: expected a number of rows from 1"):
        rows(count)


@pytest.mark.parametrize("count", [True, 1.0, "1"])
def test_windows_of_a_strange_number_of_rows_are_refused(count):
    with pytest.raises(TypeError):
        rows(count)


@pytest.mark.parametrize(
    ("where", "error", "message"),
    [
        ("left.y < right.x", SchemaError, "where: the left table has no column `y`; it has `ts`,"),
        ("left.symbol < right.ts", SchemaError, "cannot compare `left.symbol` of type"),
        ("left.ts / (right.ts - 2) > 1", TidegateError, "ivide by zero"),
        (
            "left.symbol REGEXP '('",
            TidegateError,
            "the regular expression does not compile: unclosed",
        ),
        ("left.ts + 9223372036854775807 > right.ts", TidegateError, "verflow"),
    ],
)
def test_conditions_that_cannot_be_are_refused(where, error, message):
    with pytest.raises(error) as raised:
        window_join(EVENTS, FEEDS, on="ts", window=5, where=where)
    assert message in str(raised.value)
