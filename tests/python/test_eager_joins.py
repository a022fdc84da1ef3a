"""With `ordered=False`, the first poll after both of a pair's rows were pushed returns the pair.

Random rows are pushed in random order from several sources. Two loops compute the results that each
poll must have returned so far. Watermarks determine when old rows are removed, and when a row is
certain to stay unmatched.
"""

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

import campaign
from tidegate import BandJoin, IntervalJoin, TidegateError, WindowJoin, interval_join, rows

LEFT = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("x", pa.int64()), ("l", pa.int64())])
RIGHT = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("x", pa.int64()), ("r", pa.int64())])
SCHEMAS = (LEFT, RIGHT)
HOWS = ["inner", "left", "right", "full", "semi", "anti"]

FEEDS = campaign.tries(20)
"""Random feeds for a query; the queries share most of their code."""

Row = dict[str, Any]
Near = Callable[[Row, Row], bool]


def within(low: float, high: float) -> Near:
    return lambda left, right: low <= right["ts"] - left["ts"] <= high


def of_one_key(left: Row, right: Row) -> bool:
    return left["k"] is not None and left["k"] == right["k"]


def near_x(left: Row, right: Row) -> bool:
    return None not in (left["x"], right["x"]) and abs(left["x"] - right["x"]) <= 2


def below(left: Row, right: Row) -> bool:
    return None not in (left["x"], right["x"]) and left["x"] <= right["x"]


BELOW = "left.x <= right.x"

# The arguments of each query, and the conditions that its pairs meet.
QUERIES: dict[str, tuple[type, dict[str, Any], list[Near]]] = {
    "interval": (IntervalJoin, {"on": "ts", "lower": -4, "upper": 3}, [within(-4, 3)]),
    "interval by key": (
        IntervalJoin,
        {"on": "ts", "by": "k", "lower": -2, "upper": 6},
        [within(-2, 6), of_one_key],
    ),
    "interval before": (
        IntervalJoin,
        {"on": "ts", "by": "k", "lower": -9, "upper": -3, "where": "left.x <= right.x"},
        [within(-9, -3), of_one_key, below],
    ),
    "interval without an end": (
        IntervalJoin,
        {"on": "ts", "by": "k", "lower": None, "upper": 0},
        [within(-math.inf, 0), of_one_key],
    ),
    "interval of columns": (
        IntervalJoin,
        {"on": "ts", "by": "k", "lower": "left.x - 3", "upper": 3, "max_width": 8},
        [lambda left, right: left["x"] - 3 <= right["ts"] - left["ts"] <= 3, of_one_key],
    ),
    "window": (WindowJoin, {"on": "ts", "window": (5, 2)}, [within(-2, 5)]),
    "window by key": (
        WindowJoin,
        {"on": "ts", "by": "k", "window": 4, "where": "left.x <= right.x"},
        [within(-4, 4), of_one_key, below],
    ),
    "window that is scanned": (
        WindowJoin,
        {"on": "ts", "window": (1, 6), "where": "left.x <= right.x and abs(left.x - right.x) <= 2"},
        [within(-6, 1), below, near_x],
    ),
    "window with a rest": (
        WindowJoin,
        {"on": "ts", "window": 5, "where": "left.x <= right.x and left.k = right.k"},
        [within(-5, 5), below, of_one_key],
    ),
    "band": (
        BandJoin,
        {"on": "x", "within": 2, "time": "ts", "window": 4},
        [within(-4, 4), near_x],
    ),
    "band by key": (
        BandJoin,
        {"on": "x", "within": 2, "by": "k", "time": "ts", "window": (7, 1), "where": BELOW},
        [within(-1, 7), near_x, of_one_key, below],
    ),
}  # fmt: skip


@dataclass
class Feed:
    """Rows of a source as they are pushed, with promises between them."""

    side: int
    lateness: int
    events: list[list[Row] | int]
    watermark: float = -math.inf
    used: list[Row] = field(default_factory=list)
    late: int = 0

    def take(self, pushed: list[Row]) -> list[Row]:
        """Return the rows that are not late."""
        used = []
        for row in pushed:
            if row["ts"] < self.watermark:
                self.late += 1
                continue
            used.append(row)
            self.watermark = max(self.watermark, row["ts"] - self.lateness)
        self.used += used
        return used


@st.composite
def feeds(draw: st.DrawFn, *, null_x: bool) -> list[Feed]:
    numbers = itertools.count()
    x = st.integers(0, 9) | st.none() if null_x else st.integers(0, 9)
    found = []
    for side in (0, 0, 1, 1):
        events: list[list[Row] | int] = []
        time = draw(st.integers(0, 15))
        for _ in range(draw(st.integers(0, 4))):
            if draw(st.integers(0, 4)) == 0:
                events.append(time + draw(st.integers(-3, 6)))
            pushed = []
            for _ in range(draw(st.integers(1, 6))):
                time += draw(st.integers(-3, 5))
                key = draw(st.sampled_from(["a", "b", None]))
                pushed.append({"ts": time, "k": key, "x": draw(x), "lr"[side]: next(numbers)})
            events.append(pushed)
        found.append(Feed(side, draw(st.integers(0, 3)), events))
    # Each side has one lateness.
    found[1].lateness, found[3].lateness = found[0].lateness, found[2].lateness
    return found


def turns(feeds: list[Feed], rng: random.Random) -> Iterator[tuple[int, list[Row] | int | None]]:
    """Yield the events of all sources in some order; None ends a source."""
    waiting = {at: iter([*feed.events, None]) for at, feed in enumerate(feeds)}
    while waiting:
        at = rng.choice(sorted(waiting))
        event = next(waiting[at])
        yield at, event
        if event is None:
            del waiting[at]


def results(lefts: list[Row], rights: list[Row], near: list[Near], how: str) -> Counter[Any]:
    pairs = [
        (left["l"], right["r"])
        for left in lefts
        for right in rights
        if all(one(left, right) for one in near)
    ]
    of_left, of_right = {left for left, _ in pairs}, {right for _, right in pairs}
    if how in ("semi", "anti"):
        return Counter(
            (row["l"], None) for row in lefts if (row["l"] in of_left) == (how == "semi")
        )
    found: list[tuple[int | None, int | None]] = list(pairs)
    if how in ("left", "full"):
        found += [(row["l"], None) for row in lefts if row["l"] not in of_left]
    if how in ("right", "full"):
        found += [(None, row["r"]) for row in rights if row["r"] not in of_right]
    return Counter(found)


def numbers(batches: list[pa.RecordBatch]) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for batch in batches:
        rights = batch.column("r").to_pylist() if "r" in batch.schema.names else [None] * len(batch)
        found.update(zip(batch.column("l").to_pylist(), rights, strict=True))
    return found


def polled(join: Any) -> list[pa.RecordBatch]:
    return list(iter(join.poll, None))


def make(query: str, feeds: list[Feed], **more: Any) -> Any:
    kind, arguments, _ = QUERIES[query]
    lateness = (feeds[0].lateness, feeds[2].lateness)
    return kind(*SCHEMAS, **arguments, sources=(2, 2), lateness=lateness, ordered=False, **more)


def act(join: Any, feed: Feed, at: int, event: list[Row] | int | None) -> None:
    if event is None:
        join.sources[at].close()
        feed.watermark = math.inf
    elif isinstance(event, int):
        join.sources[at].advance(event)
        feed.watermark = max(feed.watermark, event)
    else:
        join.sources[at].push(pa.Table.from_pylist(event, SCHEMAS[feed.side]))
        feed.take(event)


def sides(feeds: list[Feed]) -> tuple[list[Row], list[Row]]:
    return feeds[0].used + feeds[1].used, feeds[2].used + feeds[3].used


@pytest.mark.parametrize("query", QUERIES)
@settings(max_examples=FEEDS)
@given(data=st.data(), how=st.sampled_from(HOWS), threads=st.sampled_from([1, 2]), rng=st.randoms())
def test_oracle_a_pair_comes_in_the_first_poll_after_both_rows(query, data, how, threads, rng):
    given_feeds = data.draw(feeds(null_x=query != "interval of columns"))
    near = QUERIES[query][2]
    join = make(query, given_feeds, how=how, threads=threads)
    found: Counter[Any] = Counter()
    for at, event in turns(given_feeds, rng):
        act(join, given_feeds[at], at, event)
        found += numbers(polled(join))
        pairs = Counter({pair: count for pair, count in found.items() if None not in pair})
        if how not in ("semi", "anti"):
            assert pairs == results(*sides(given_feeds), near, "inner")
        elif how == "semi":
            assert found == results(*sides(given_feeds), near, "semi")
    assert found == results(*sides(given_feeds), near, how)
    stats = join.stats()
    assert stats["rows_late"] == sum(feed.late for feed in given_feeds)
    assert stats["rows_out"] == found.total()
    assert stats["state_rows"] == 0


@pytest.mark.parametrize("query", QUERIES)
@settings(max_examples=FEEDS)
@given(data=st.data(), how=st.sampled_from(HOWS), rng=st.randoms())
def test_oracle_a_snapshot_goes_on_and_gives_nothing_twice(query, data, how, rng):
    given_feeds = data.draw(feeds(null_x=query != "interval of columns"))
    join = make(query, given_feeds, how=how, threads=1)
    found: Counter[Any] = Counter()
    for at, event in turns(given_feeds, rng):
        act(join, given_feeds[at], at, event)
        if rng.random() < 0.4:
            found += numbers(polled(join))
        if rng.random() < 0.3:
            state = join.snapshot()
            assert join.snapshot() == state
            join = make(query, given_feeds, how=how, threads=2, pin=False)
            join.restore(state)
            assert join.snapshot() == state
    found += numbers(polled(join))
    assert found == results(*sides(given_feeds), QUERIES[query][2], how)


def table(side: int, times: list[int], key: str = "a", first: int = 0) -> pa.Table:
    count = len(times)
    columns = [times, [key] * count, [5] * count, range(first, first + count)]
    return pa.table(columns, schema=SCHEMAS[side])


@pytest.mark.parametrize("query", ["interval", "window", "window that is scanned", "band"])
def test_no_other_source_holds_a_pair_back(query):
    kind, arguments, _ = QUERIES[query]
    join = kind(*SCHEMAS, **arguments, sources=(2, 3), lateness=1_000, ordered=False)
    join.right_sources[1].push(table(1, [100]))
    assert join.poll() is None
    join.left_sources[0].push(table(0, [101]))
    assert numbers([join.poll()]) == {(0, 0): 1}
    # This row is earlier than the others, because all may be late by 1,000.
    join.left_sources[1].push(table(0, [99], first=1))
    assert numbers([join.poll()]) == {(1, 0): 1}
    assert join.stats()["waiting"] is None


@pytest.mark.parametrize("query", ["interval", "window", "window that is scanned", "band"])
def test_a_row_stays_alone_as_soon_as_the_other_side_has_passed_it(query):
    kind, arguments, _ = QUERIES[query]
    join = kind(*SCHEMAS, **arguments, how="full", ordered=False)
    left, right = join.sources
    left.push(table(0, [10]))
    right.advance(11)
    assert join.poll() is None
    # Left rows may still arrive at any time from 10 on, and right rows from 20 on.
    right.advance(20)
    assert numbers([join.poll()]) == {(0, None): 1}
    right.push(table(1, [20]))
    assert join.poll() is None
    right.close()
    left.close()
    assert numbers(polled(join)) == {(None, 0): 1}


def test_a_row_without_a_key_is_alone_at_once():
    join = IntervalJoin(*SCHEMAS, on="ts", by="k", lower=-4, upper=3, how="left", ordered=False)
    join.sources[0].push(pa.table([[1], [None], [2], [3]], schema=LEFT))
    assert numbers([join.poll()]) == {(3, None): 1}


@pytest.mark.parametrize("query", ["interval by key", "window that is scanned", "band"])
def test_a_row_of_the_far_future_keeps_no_others(query):
    kind, arguments, _ = QUERIES[query]
    join = kind(*SCHEMAS, **arguments, sources=(2, 1), ordered=False, threads=1)
    ahead, left = join.left_sources
    ahead.push(table(0, [10**9]))
    count, most = 2_000, 0
    for step in range(60):
        times = list(range(step * count, (step + 1) * count))
        left.push(table(0, times, first=step * count))
        join.right_sources[0].push(table(1, times[::100], first=step * count))
        ahead.advance(times[-1])
        assert polled(join)
        most = max(most, join.stats()["state_rows"])
    assert most < 40_000


def test_rows_that_have_left_are_no_part_of_a_snapshot():
    """A snapshot depends neither on the number of polls nor on their results."""
    states = []
    for polls in (1, 5):
        query = {"on": "ts", "by": "k", "lower": -4, "upper": 3, "ordered": False}
        join = IntervalJoin(*SCHEMAS, **query, sources=(2, 1))
        ahead, left, right = join.sources
        # A later row is pushed first.
        ahead.push(table(0, [500]))
        for start in range(0, 1_000, 100):
            left.push(table(0, list(range(start, start + 100))))
            right.advance(start + 98)
            for _ in range(polls):
                join.poll()
        states.append(join.snapshot())
    assert states[0] == states[1]
    assert join.stats()["state_rows"] < 10


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_large_epochs_and_a_hot_key(threads):
    """More rows than one thread takes in one step, most of them with one key, in no order."""
    draw = random.Random(7)  # noqa: S311 - for tests
    count = 100_000
    tables = []
    for schema in SCHEMAS:
        times = [draw.randrange(3_000_000) for _ in range(count)]
        keys = ["hot" if draw.random() < 0.7 else f"k{draw.randrange(500)}" for _ in times]
        columns = [times, keys, [draw.randrange(100) for _ in times], range(count)]
        tables.append(pa.table(columns, schema=schema))
    query = {"on": "ts", "by": "k", "lower": -30, "upper": 20, "where": "left.x <= right.x"}
    wanted = interval_join(*tables, **query, how="full")
    join = IntervalJoin(
        *SCHEMAS, **query, how="full", ordered=False, lateness=4_000_000, threads=threads
    )
    batches = []
    for start in range(0, count, 40_000):
        for source, rows_in in zip(join.sources, tables, strict=True):
            source.push(rows_in.slice(start, 40_000))
        batches += polled(join)
    for source in join.sources:
        source.close()
    assert numbers(batches + polled(join)) == numbers(wanted.to_batches())


@pytest.mark.parametrize("times", [[-(2**63), 2**63 - 1], [-(2**63), -(2**63) + 1, 0, 2**63 - 1]])
@pytest.mark.parametrize("query", ["interval", "interval by key", "window that is scanned", "band"])
def test_times_at_the_ends_of_64_bits(query, times):
    near = QUERIES[query][2]
    feed = [Feed(side, 0, []) for side in (0, 0, 1, 1)]
    join = make(query, feed, how="full")
    for at in (0, 2):
        act(join, feed[at], at, table(feed[at].side, times).to_pylist())
    found = numbers(polled(join))
    state = join.snapshot()
    join = make(query, feed, how="full")
    join.restore(state)
    for at in range(4):
        act(join, feed[at], at, None)
    assert found + numbers(polled(join)) == results(*sides(feed), near, "full")


def test_a_condition_is_evaluated_for_rows_within_the_window_alone():
    """Rows outside the window cause no overflow."""
    where = "left.x + right.x > 0"
    join = WindowJoin(*SCHEMAS, on="ts", window=5, where=where, ordered=False)
    big = 2**62
    join.sources[0].push(pa.table([[1, 100], ["a", "a"], [big, 1], [0, 1]], schema=LEFT))
    join.sources[1].push(pa.table([[50, 101], ["a", "a"], [big, 2], [0, 1]], schema=RIGHT))
    assert numbers(polled(join)) == {(1, 1): 1}
    join.sources[1].push(pa.table([[101], ["a"], [2**63 - 1], [2]], schema=RIGHT))
    with pytest.raises(TidegateError, match="overflow"):
        join.poll()


def test_windows_of_rows_go_by_merged_order():
    """The last rows before a row are known only after all earlier rows have arrived."""
    join = WindowJoin(*SCHEMAS, on="ts", window=rows(2), ordered=False)
    join.sources[0].push(table(0, [1]))
    join.sources[1].push(table(1, [2]))
    assert join.poll() is None
    join.sources[0].advance(3)
    assert numbers([join.poll()]) == {(0, 0): 1}
    assert "eager" not in join.explain()


def test_what_is_promised_by_name_is_refused():
    with pytest.raises(TidegateError, match="parallelism: with ordered=False, any thread"):
        IntervalJoin(*SCHEMAS, on="ts", lower=0, upper=1, ordered=False, parallelism="key")


@pytest.mark.parametrize("query", ["interval", "window", "window that is scanned", "band"])
def test_explain_says_when_pairs_come(query):
    kind, arguments, _ = QUERIES[query]
    eager = kind(*SCHEMAS, **arguments, ordered=False).explain()
    assert "algorithm  eager" in eager
    assert "in the first poll after both of its rows were pushed" in eager
    ordered = kind(*SCHEMAS, **arguments).explain()
    assert "once no source can deliver an earlier row" in ordered
    values = [line.lstrip().partition(" ")[2].lstrip() for line in eager.splitlines()]
    assert [value for value in values if "  " in value] == []


def test_snapshots_of_the_other_order():
    query = {"on": "ts", "lower": -4, "upper": 3, "lateness": 10}
    ordered = IntervalJoin(*SCHEMAS, **query)
    eager = IntervalJoin(*SCHEMAS, **query, ordered=False)
    for join in (ordered, eager):
        join.sources[0].push(table(0, [12, 10]))
        join.sources[1].push(table(1, [1]))
        assert join.poll() is None
    # In the other operator, waiting rows become ordinary new rows.
    other = IntervalJoin(*SCHEMAS, **query, ordered=False)
    other.restore(ordered.snapshot())
    other.sources[1].push(table(1, [11], first=1))
    assert numbers([other.poll()]) == {(0, 1): 1, (1, 1): 1}
    with pytest.raises(TidegateError, match="it belongs to a join with ordered=False"):
        IntervalJoin(*SCHEMAS, **query).restore(eager.snapshot())
