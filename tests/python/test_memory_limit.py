"""The memory limit: shares of sources, memory that polls free, and a limit that changes."""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import campaign
from tidegate import (
    Aggregate,
    AsofJoin,
    BandJoin,
    ClosedError,
    IntervalJoin,
    MemoryLimitError,
    Merge,
    Operator,
    Source,
    TidegateError,
    WindowJoin,
    agg,
    rows,
)

pytestmark = pytest.mark.timeout(300)

LEFT = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("x", pa.float64())])
RIGHT = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("x", pa.float64()), ("t", pa.string())])
REACH = 6


def interval(**limit: int | None) -> IntervalJoin:
    return IntervalJoin(
        LEFT, RIGHT, on="ts", by="k", lower=-REACH, upper=REACH, how="full", sources=(2, 1),
        lateness=2, threads=2, pin=False, **limit,
    )  # fmt: skip


def window(algorithm: str, how: str = "left") -> Callable[..., WindowJoin]:
    def make(**limit: int | None) -> WindowJoin:
        return WindowJoin(
            LEFT, RIGHT, on="ts", window=REACH, where="abs(left.x - right.x) <= 2", how=how,
            algorithm=algorithm, sources=(1, 2), threads=2, pin=False, **limit,
        )  # fmt: skip

    return make


def counted(**limit: int | None) -> WindowJoin:
    return WindowJoin(LEFT, RIGHT, on="ts", window=rows(3), by="k", threads=2, pin=False, **limit)


def band(**limit: int | None) -> BandJoin:
    return BandJoin(
        LEFT, RIGHT, on="x", within=1, time="ts", window=REACH, how="anti", sources=(2, 2),
        threads=2, pin=False, **limit,
    )  # fmt: skip


def partners(**limit: int | None) -> IntervalJoin:
    return IntervalJoin(
        LEFT, RIGHT, on="ts", by="k", lower=-REACH, upper=REACH, prevailing=True, sources=(2, 1),
        aggs={"n": agg.count(), "sum": agg.sum("x"), "t": agg.max("t")}, lateness=2, threads=2,
        pin=False, **limit,
    )  # fmt: skip


def as_of(strategy: str) -> Callable[..., AsofJoin]:
    def make(**limit: int | None) -> AsofJoin:
        return AsofJoin(
            LEFT, RIGHT, on="ts", by="k", strategy=strategy, tolerance=REACH, sources=(2, 1),
            lateness=2, threads=2, pin=False, **limit,
        )  # fmt: skip

    return make


def merge(**limit: int | None) -> Merge:
    return Merge(RIGHT, sources=3, lateness=2, threads=2, **limit)


def windows(**limit: int | None) -> Aggregate:
    return Aggregate(
        RIGHT, on="ts", size=4, advance=2, by="k", sources=3, threads=2,
        aggs={"n": agg.count(), "x": agg.mean("x"), "t": agg.max("t"), "first": agg.first("t")},
        **limit,
    )  # fmt: skip


def sessions(**limit: int | None) -> Aggregate:
    aggs = {"n": agg.count(), "x": agg.sum("x")}
    return Aggregate(RIGHT, on="ts", session=2, by="k", sources=2, lateness=1, aggs=aggs, **limit)


OPERATORS = {
    "merge": merge,
    "interval": interval,
    "counted": counted,
    "band": band,
    "partners": partners,
    **{strategy: as_of(strategy) for strategy in ("backward", "forward", "nearest")},
    "windows": windows,
    "sessions": sessions,
    "auto": window("auto"),
    "scalejoin": window("scalejoin"),
    "handshake": window("handshake"),
    "low-latency-handshake": window("low-latency-handshake", "inner"),
}


def drained(operator: Operator) -> list[dict[str, object]]:
    return [row for batch in iter(operator.poll, None) for row in batch.to_pylist()]


def of_times(schema: pa.Schema, times: list[int], offset: int = 0) -> pa.Table:
    columns = {
        "ts": times,
        "k": [ts % 2 for ts in times],
        "x": [float((ts * 7 + offset) % 5) for ts in times],
        "t": [f"text {ts % 3}" for ts in times],
    }
    return pa.table({name: columns[name] for name in schema.names}, schema)


def named_by(error: MemoryLimitError) -> int:
    """Return the limit that a message recommends."""
    return int(re.search(r"set memory_limit to (\d+) or more", str(error)).group(1))


def schema_of(operator: Operator, number: int) -> pa.Schema:
    of_left = len(operator.left_sources) if hasattr(operator, "left_sources") else 0
    return LEFT if number < of_left else RIGHT


def enough(make: Callable[..., Operator], pushes: list[list[pa.Table]]) -> int:
    """Return the limit that suffices according to the manual, for rows with different times."""
    largest, state = 0, 0
    for number, of_source in enumerate(pushes):
        # The rows that must be kept at one time: those within reach, late ones, and whole pushes.
        most = max((table.num_rows for table in of_source), default=0)
        held = 2 * REACH + 2 + 2 + 2 * most
        with make() as operator:
            one = of_times(schema_of(operator, number), list(range(100)))
            operator.sources[number].push(one)
            row = -(-operator.stats()["sources"][number]["memory"] // 100)
        # A push of few rows needs some extra bytes per column.
        largest = max(largest, (held * 9 // 8 + most + 1) * (row + 16))
    if make in (windows, sessions):
        with make() as operator:
            for number, of_source in enumerate(pushes):
                for table in of_source:
                    operator.sources[number].push(table)
            drained(operator)
            # The state of one key and slice exists for each of two windows.
            state = 8 * 1024
    return 5 * max(len(pushes) * largest, state)


def feed(
    operator: Operator, pushes: list[list[pa.Table]], turns: Callable[[list[int]], int]
) -> tuple[list[dict[str, object]], int]:
    """Push all rows, again after a poll if refused; return results and the number of refusals."""
    waiting = [list(of_source) for of_source in pushes]
    found: list[dict[str, object]] = []
    refused: set[int] = set()
    refusals = 0
    limit = operator.memory_limit
    while left := [number for number, of_source in enumerate(waiting) if of_source]:
        candidates = [number for number in left if number not in refused]
        assert candidates, f"every source is refused: {operator.stats()}"
        number = turns(candidates)
        try:
            operator.sources[number].push(waiting[number][0])
        except MemoryLimitError:
            refusals += 1
            held = operator.stats()["memory"]
            found += drained(operator)
            operator.late()
            if operator.stats()["memory"] < held:
                refused.clear()
            else:
                refused.add(number)
            continue
        refused.clear()
        waiting[number].pop(0)
        if not waiting[number]:
            operator.sources[number].close()
        assert limit is None or operator.stats()["memory"] <= limit
    return found + drained(operator), refusals


@st.composite
def histories(draw: st.DrawFn, operator: Operator) -> list[list[pa.Table]]:
    """Draw, for each source, pushes of rows with different times."""
    pushes = []
    for number in range(len(operator.sources)):
        steps = draw(st.lists(st.integers(1, 3), max_size=60))
        times = [sum(steps[: at + 1]) for at in range(len(steps))]
        size = draw(st.integers(1, 8))
        schema = schema_of(operator, number)
        pieces = range(0, len(times), size)
        pushes.append([of_times(schema, times[at : at + size], number) for at in pieces])
        if not times:
            operator.sources[number].close()
    return pushes


@pytest.mark.parametrize("name", OPERATORS)
@settings(max_examples=campaign.tries(40))
@given(st.data())
def test_refused_pushes_are_taken_after_polls_and_all_rows_come(name, data):
    make = OPERATORS[name]
    with make() as unlimited:
        pushes = data.draw(histories(unlimited))
        wanted, refusals = feed(unlimited, pushes, min)
    assert refusals == 0
    limit = enough(make, pushes)
    # The first or last source runs ahead as much as possible, or sources take random turns.
    order = data.draw(st.sampled_from(["first", "last", "any"]))
    rng = data.draw(st.randoms())
    turns = {"first": min, "last": max, "any": rng.choice}[order]
    with make(memory_limit=limit) as limited:
        for number, of_source in enumerate(pushes):
            if not of_source:
                limited.sources[number].close()
        found, _ = feed(limited, pushes, turns)
    assert repr(found) == repr(wanted)


@pytest.mark.parametrize("name", OPERATORS)
def test_a_source_that_runs_ahead_leaves_room_for_the_others(name):
    make = OPERATORS[name]
    with make() as unlimited:
        sources = len(unlimited.sources)
        pushes = [
            [
                of_times(schema_of(unlimited, number), list(range(at, at + 10)), number)
                for at in range(0, 1_000, 10)
            ]
            for number in range(sources)
        ]
        wanted, _ = feed(unlimited, pushes, min)
    with make(memory_limit=enough(make, pushes)) as limited:
        found, refusals = feed(limited, pushes, min)
    assert refusals > 10
    assert repr(found) == repr(wanted)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", OPERATORS)
def test_a_push_that_would_wait_for_ever_names_the_limit_that_lets_it_go_on(name):
    make = OPERATORS[name]
    with make() as unlimited:
        schemas = [schema_of(unlimited, number) for number in range(len(unlimited.sources))]
        pushes = [
            [of_times(schema, [*range(first, first + 5)], number) for first in range(0, 200, 5)]
            for number, schema in enumerate(schemas)
        ]
        wanted, _ = feed(unlimited, pushes, min)
    # The limit admits a push and little more.
    with make(memory_limit=0) as operator:
        with pytest.raises(MemoryLimitError) as none_fits:
            operator.sources[-1].push(pushes[-1][0])
        operator.memory_limit = named_by(none_fits.value)
        limits = [operator.memory_limit]

        def push_all(number: int) -> None:
            with operator.sources[number] as source:
                for table in pushes[number]:
                    while True:
                        try:
                            source.push(table, block=True)
                        except MemoryLimitError as error:
                            limits.append(named_by(error))
                            operator.memory_limit = max(limits)
                        else:
                            break

        with ThreadPoolExecutor(len(pushes)) as feeders:
            fed = [feeders.submit(push_all, number) for number in range(len(pushes))]
            found = [row for batch in operator for row in batch.to_pylist()]
        assert [one.result() for one in fed] == [None] * len(pushes)
    assert repr(found) == repr(wanted)
    assert len(limits) > 1


def test_a_push_that_waits_ends_where_the_operator_does():
    with interval(memory_limit=4_000) as operator, ThreadPoolExecutor(1) as feeders:
        operator.sources[0].close()
        ahead = feeders.submit(push_until_it_ends, operator.sources[1])
        while not ahead.done() and not operator.sources[1]._is_full():
            assert operator.poll() is None
        operator.sources[2].abandon("no more")
        with pytest.raises(TidegateError, match="was abandoned before its end"):
            ahead.result(30)


def push_until_it_ends(source: Source) -> None:
    for first in range(0, 10**6, 5):
        source.push(of_times(LEFT, [*range(first, first + 5)]), block=True)


def test_rows_that_were_joined_and_let_go_of_do_not_count():
    schema = pa.schema([("ts", pa.int64())])
    join = IntervalJoin(schema, schema, on="ts", lower=0, upper=0, memory_limit=240)
    left, right = join.sources

    def row(ts: int) -> pa.Table:
        return pa.table({"ts": [ts]}, schema)

    for ts in (1, 2):
        left.push(row(ts))
        right.push(row(ts))
    left.push(row(3))
    assert join.stats()["memory"] == 240
    assert [found["ts"] for found in drained(join)] == [1, 2]
    assert join.stats()["memory"] == 3 * 48
    right.push(row(3))
    left.close()
    right.close()
    assert [found["ts"] for found in drained(join)] == [3]


def test_what_is_left_of_a_large_push_is_all_that_counts():
    join = IntervalJoin(LEFT, LEFT, on="ts", lower=0, upper=0, memory_limit=1_000_000, pin=False)
    left, right = join.sources
    left.push(of_times(LEFT, list(range(9_000))))
    right.advance(8_990)
    assert drained(join) == []
    # The last rows have not been joined, so the push is kept unchanged.
    assert join.stats()["sources"][0]["memory"] > 500_000
    left.advance(9_000)
    right.advance(8_999)
    assert drained(join) == []
    assert join.stats()["sources"][0]["memory"] < 1_000


@pytest.mark.parametrize("name", OPERATORS)
def test_the_limit_can_be_raised_while_an_operator_runs(name):
    make = OPERATORS[name]
    with make(memory_limit=1_000) as operator:
        schema = schema_of(operator, 0)
        table = of_times(schema, list(range(1_000)))
        with pytest.raises(MemoryLimitError, match="at the same time") as caught:
            operator.sources[0].push(table)
        assert operator.stats()["memory"] == operator.stats()["rows_in"] == 0
        enough = named_by(caught.value)
        operator.memory_limit = enough - 16
        with pytest.raises(MemoryLimitError):
            operator.sources[0].push(table)
        operator.memory_limit = enough
        operator.sources[0].push(table)
        assert operator.memory_limit == operator.stats()["memory_limit"] == enough
        held = operator.stats()["memory"]
        assert 0 < held <= enough
        # The limit can also be lowered: no more rows are accepted until there is room, and none are
        # lost.
        operator.memory_limit = 0
        assert operator.stats()["memory"] == held
        with pytest.raises(MemoryLimitError, match="of memory_limit = 0"):
            operator.sources[0].push(table)
        operator.memory_limit = None
        assert operator.memory_limit is operator.stats()["memory_limit"] is None
        operator.sources[0].push(of_times(schema, list(range(1_000, 9_000))))
        for source in operator.sources:
            source.close()
        drained(operator)
        if not isinstance(operator, Merge | Aggregate):
            return
        assert sum(source["rows_used"] for source in operator.stats()["sources"]) == 9_000


def test_explain_says_the_limit_of_the_moment():
    for name, make in OPERATORS.items():
        if name == "merge":
            continue
        with make(memory_limit=77) as operator:
            assert "; at most 77 bytes" in operator.explain()
            operator.memory_limit = 99
            assert "; at most 99 bytes" in operator.explain()
            operator.memory_limit = None
            assert "; no limit" in operator.explain()


@pytest.mark.parametrize(
    ("limit", "error", "text"),
    [
        (-1, TidegateError, "memory_limit must be at least 0, got -1"),
        (1.5, TypeError, "memory_limit"),
        ("5", TidegateError, "memory_limit: `5` is not a number of bytes; write, for example,"),
        (2**70, (TidegateError, OverflowError, TypeError), "memory_limit"),
    ],
)
def test_a_limit_that_is_none_is_refused(limit, error, text):
    with merge(memory_limit=5) as operator:
        with pytest.raises(error, match=text):
            operator.memory_limit = limit
        assert operator.memory_limit == 5


def test_a_closed_source_leaves_its_share_to_the_others():
    with merge(memory_limit=6_000) as operator:
        first, second, third = operator.sources
        table = of_times(RIGHT, list(range(10)))

        def fill() -> tuple[int, str]:
            for pushed in range(1_000):
                try:
                    first.push(table)
                except MemoryLimitError as error:
                    return pushed, str(error)
            pytest.fail("the limit was never reached")

        pushed, text = fill()
        assert pushed > 0
        assert "or raise the limit; 800 bytes of the limit are reserved for other sources" in text
        second.close()
        third.close()
        pushed, text = fill()
        assert pushed > 0
        assert "reserved for other" not in text


def test_a_snapshot_is_restored_under_the_limit_that_it_was_taken_under():
    with interval() as join:
        for number in range(3):
            schema = schema_of(join, number)
            join.sources[number].push(of_times(schema, list(range(0, 300, 3 - number)), number))
        found = drained(join)
        held = join.stats()["memory"]
        snapshot = join.snapshot()
        for source in join.sources:
            source.close()
        found_later = drained(join)
    assert found
    with interval(memory_limit=500) as small:
        with pytest.raises(MemoryLimitError, match="the snapshot's"):
            small.restore(snapshot)
        small.memory_limit = held
        small.restore(snapshot)
        for source in small.sources:
            source.close()
        assert repr(drained(small)) == repr(found_later)


def test_a_closed_operator_keeps_its_limit():
    join = interval(memory_limit=5_000)
    join.close()
    assert join.memory_limit == 5_000
    with pytest.raises(ClosedError):
        join.poll()
