"""`tidegate.WindowJoin`: rows and order, compared with `IntervalJoin` and the batch join.

Time windows are intervals, so `IntervalJoin`, which has a separate oracle, gives the rows and the
time of their emission. For row-based windows, the batch join gives them; it is tested against the
three-step procedure.
"""

import operator
import random
from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate
from tidegate import (
    IntervalJoin,
    MemoryLimitError,
    StateError,
    TidegateError,
    WindowJoin,
    rows,
    window_join,
)

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
HOW = ["inner", "left", "right", "full", "semi", "anti"]
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("x", pa.int32()), ("s", pa.string())])
CONDITIONS = [
    None,
    "abs(left.x - right.x) <= 2",
    "left.x <= right.x AND left.s = right.s",
    "left.s < right.s",
    "abs(left.x - right.x) <= 2 AND left.k + right.k > 1",
]

Event = tuple[int, pa.Table]


@st.composite
def feeds(draw: st.DrawFn, sources: int) -> list[Event]:
    """Draw rows of several sources, each in time order, in pieces, in the order of their pushes."""
    events = []
    ts = [0] * sources
    nulls = draw(st.booleans())
    for _ in range(draw(st.integers(0, 12))):
        source = draw(st.integers(0, sources - 1))
        piece = []
        for _ in range(draw(st.integers(1, 6))):
            ts[source] += draw(st.integers(0, 3))
            null = nulls and draw(st.integers(0, 6)) == 0
            piece.append(
                {
                    "ts": ts[source],
                    "k": None if null else draw(st.integers(0, 2)),
                    "x": None if null else draw(st.integers(0, 9)),
                    "s": draw(st.sampled_from(["a", "b"])),
                }
            )
        events.append((source, pa.Table.from_pylist(piece, SCHEMA)))
    return events


def play(
    join: tidegate.StreamJoin, events: list[Event], polls: Iterator[bool]
) -> list[dict[str, object]]:
    """Return all rows that a join emits while it is fed the events, with polls in between."""
    batches = []
    with join:
        for source, table in events:
            join.sources[source].push(table)
            if next(polls):
                batches.extend(iter(join.poll, None))
        for source in join.sources:
            source.close()
        batches.extend(join)
    return [row for batch in batches for row in batch.to_pylist()]


def sometimes(rng: random.Random) -> Iterator[bool]:
    while True:
        yield rng.random() < 0.4


@given(
    feeds(4),
    st.tuples(st.integers(0, 5), st.integers(0, 5)),
    st.booleans(),
    st.sampled_from(CONDITIONS),
    st.sampled_from(HOW),
    st.sampled_from(ALGORITHMS),
    st.integers(1, 8),
    st.randoms(),
)
def test_windows_of_time_are_intervals(events, window, by, where, how, algorithm, threads, rng):
    query = {"on": "ts", "where": where, "how": how, "sources": (2, 2)}
    query |= {"by": "k"} if by else {}
    interval = IntervalJoin(SCHEMA, SCHEMA, lower=-window[1], upper=window[0], **query)
    wanted = play(interval, events, sometimes(rng))
    join = WindowJoin(
        SCHEMA, SCHEMA, window=window, algorithm=algorithm, threads=threads, pin=False, **query
    )
    assert play(join, events, sometimes(rng)) == wanted


@given(
    feeds(2),
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
    st.booleans(),
    st.sampled_from(CONDITIONS),
    st.sampled_from(HOW),
    st.sampled_from(ALGORITHMS),
    st.randoms(),
)
def test_windows_of_rows_give_the_batch_join_s_rows(events, counts, by, where, how, algorithm, rng):
    query = {"on": "ts", "where": where, "how": how, "window": tuple(map(rows, counts))}
    query |= {"by": "k"} if by else {}
    tables = [
        pa.concat_tables(
            [SCHEMA.empty_table(), *(table for source, table in events if source == side)]
        )
        for side in (0, 1)
    ]
    wanted = window_join(*tables, **query).to_pylist()
    join = WindowJoin(SCHEMA, SCHEMA, algorithm=algorithm, threads=2, pin=False, **query)
    found = play(join, events, sometimes(rng))
    assert sorted(map(repr, found)) == sorted(map(repr, wanted))
    # The order is that of the three-step procedure, whichever thread compares.
    other = WindowJoin(SCHEMA, SCHEMA, algorithm="three-step", **query)
    assert play(other, events, sometimes(rng)) == found


@given(
    feeds(2),
    st.sampled_from([(3, 2), (rows(3), rows(2))]),
    st.booleans(),
    st.sampled_from(CONDITIONS),
    st.sampled_from(HOW),
    st.tuples(st.sampled_from(ALGORITHMS), st.sampled_from(ALGORITHMS)),
    st.randoms(),
)
def test_a_snapshot_goes_on(events, window, by, where, how, algorithms, rng):
    query = {"on": "ts", "where": where, "how": how, "window": window}
    query |= {"by": "k"} if by else {}
    wanted = play(WindowJoin(SCHEMA, SCHEMA, **query), events, sometimes(rng))
    cut = rng.randint(0, len(events))
    before, after = algorithms
    with WindowJoin(SCHEMA, SCHEMA, **query, algorithm=before, threads=3, pin=False) as first:
        for source, table in events[:cut]:
            first.sources[source].push(table)
        begun = [row for batch in iter(first.poll, None) for row in batch.to_pylist()]
        state = first.snapshot()
        # The operator that made the snapshot also continues, even if it held back results.
        kept = play(first, events[cut:], sometimes(rng))
    assert begun + kept == wanted
    other = WindowJoin(SCHEMA, SCHEMA, **query, algorithm=after, threads=2, pin=False)
    other.restore(state)
    assert begun + play(other, events[cut:], sometimes(rng)) == wanted


@given(
    feeds(2),
    st.sampled_from([(3, 2), (rows(3), rows(2))]),
    st.sampled_from(CONDITIONS),
    st.sampled_from(HOW),
    st.data(),
)
def test_snapshots_do_not_tell_threads_or_algorithms(events, window, where, how, data):
    query = {"on": "ts", "where": where, "how": how, "window": window, "pin": False}
    states = set()
    for algorithm in ("scalejoin", "scalejoin-gates", "handshake", "low-latency-handshake"):
        threads = data.draw(st.integers(1, 8))
        with WindowJoin(SCHEMA, SCHEMA, algorithm=algorithm, threads=threads, **query) as join:
            for source, table in events:
                join.sources[source].push(table)
            states.add(join.snapshot())
    assert len(states) == 1


def table(ts: list[int], x: list[int]) -> pa.Table:
    return pa.table({"ts": pa.array(ts, pa.int64()), "x": pa.array(x, pa.int64())})


def test_a_snapshot_of_other_windows_is_refused():
    schema = table([], []).schema
    with WindowJoin(schema, schema, on="ts", window=3) as join:
        state = join.snapshot()
    with WindowJoin(schema, schema, on="ts", window=4) as other, pytest.raises(StateError):
        other.restore(state)


def test_rows_are_let_go_of_when_they_leave_their_window():
    schema = table([], []).schema
    for window, kept in ((10, 11), (rows(5), 5)):
        with WindowJoin(schema, schema, on="ts", window=window) as join:
            for start in range(0, 1000, 50):
                numbers = list(range(start, start + 50))
                for source in join.sources:
                    source.push(table(numbers, numbers))
                for _ in iter(join.poll, None):
                    pass
            # The last rows of the right side are not ready yet.
            assert 2 * kept - 2 <= join.stats()["state_rows"] <= 2 * kept + 2


def test_threads_share_the_comparisons_equally():
    schema = table([], []).schema
    for algorithm in ("scalejoin", "scalejoin-gates", "cell"):
        with WindowJoin(
            schema, schema, on="ts", window=400, where="left.x = right.x", threads=4, pin=False,
            algorithm=algorithm,
        ) as join:  # fmt: skip
            numbers = list(range(2000))
            # One side has five times as many rows, all with one value.
            join.sources[0].push(table([n for n in numbers for _ in range(5)], [7] * 10_000))
            join.sources[1].push(table(numbers, numbers))
            for source in join.sources:
                source.close()
            for _ in join:
                pass
            comparisons = join.stats()["comparisons"]
        # Each row is compared with the 401 times up to its own, with 5 rows each; the first have
        # fewer.
        assert len(comparisons) == 4
        assert max(comparisons) <= min(comparisons) * 1.01


def test_numbers_whose_arithmetic_fails_are_for_the_evaluation_to_judge():
    schema = table([], []).schema
    most = 2**63 - 1
    with WindowJoin(schema, schema, on="ts", window=1, where="left.x + 1 > right.x") as join:
        left, right = join.sources
        left.push(table([1, 2, 9], [4, 5, most]))
        right.push(table([1, 2, 4], [4, 9, 5]))
        # The row at 9 is near no other row, so the arithmetic has not failed yet.
        assert sum(batch.num_rows for batch in iter(join.poll, None)) == 2
        right.push(table([9], [1]))
        left.close()
        right.close()
        with pytest.raises(TidegateError, match="verflow"):
            list(join)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("where", ["left.x < right.x", "left.x = right.x", "left.x >= right.x"])
def test_numbers_use_all_of_64_bits_beside_a_null(algorithm, where):
    numbers = [-(2**63), None, 2**63 - 1, 0]
    side = pa.table({"ts": [1, 2, 3, 4], "x": pa.array(numbers, pa.int64())})
    holds = {"<": operator.lt, "=": operator.eq, ">=": operator.ge}[where.split()[1]]
    pairs = {
        (at + 1, other + 1)
        for at, left in enumerate(numbers)
        for other, right in enumerate(numbers)
        if left is not None and right is not None and holds(left, right)
    }
    found = window_join(side, side, on="ts", window=9, where=where, algorithm=algorithm)
    assert set(zip(*(found[name].to_pylist() for name in ("ts", "ts_right")), strict=True)) == pairs
    with WindowJoin(
        side.schema, side.schema, on="ts", window=9, where=where, algorithm=algorithm
    ) as join:
        for source in join.sources:
            source.push(side)
            source.close()
        rows = [row for batch in join for row in batch.to_pylist()]
    assert {(row["ts"], row["ts_right"]) for row in rows} == pairs


def fill(join: WindowJoin, holds_back: bool) -> None:  # noqa: FBT001 - a test parameter
    """Push to both sides and poll, many times."""
    for last in range(0, 100_000, 500):
        for source in join.sources:
            source.push(table(list(range(last, last + 500)), list(range(500))))
        for _ in iter(join.poll, None):
            pass
        # The charged memory covers everything that is kept, except results that are held back.
        stats = join.stats()
        assert holds_back or stats["state_bytes"] + stats["state_rows"] * 16 <= stats["memory"]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_window_beyond_the_memory_limit_is_refused_until_rows_leave(algorithm):
    schema = table([], []).schema
    where = "abs(left.x - right.x) <= 2 AND left.ts <= right.ts + 5"
    with WindowJoin(
        schema, schema, on="ts", window=100_000, where=where, algorithm=algorithm, threads=2,
        memory_limit=2_000_000, pin=False,
    ) as join:  # fmt: skip
        with pytest.raises(MemoryLimitError, match="of memory_limit = 2000000 are held"):
            fill(join, holds_back=algorithm == "handshake")
        left, right = join.sources
        last = join.stats()["sources"][0]["rows_in"]
        assert 2_000 < last < 2_000_000 / 40
        if algorithm == "handshake":
            return  # its rows leave as new ones arrive
        # No row is lost, and there is room again after rows have left.
        assert join.stats()["state_rows"] > 2 * last - 1_002
        for source in join.sources:
            source.advance(300_000)
        for _ in iter(join.poll, None):
            pass
        left.push(table([300_000], [1]))
        right.push(table([300_001], [1]))
        left.close()
        right.close()
        assert sum(batch.num_rows for batch in join) == 1


def test_explain_names_the_algorithm():
    schema = table([], []).schema
    text = tidegate.explain(
        WindowJoin, schema, schema, on="ts", window=(1, 2), where="left.x < right.x", threads=2
    )
    assert text.startswith("window_join (inner)\n")
    assert "  window     left rows stay for 1, right rows for 2 (integer)\n" in text
    assert "  scan       1 of 1 conjuncts, as ranges of numbers, with " in text
    assert "  algorithm  shared rows (auto): each thread compares a share of the new" in text
    assert "  index      rows in blocks by value, if few pairs of a sample" in text
    where = "left.s < right.s"
    text = tidegate.explain(WindowJoin, SCHEMA, SCHEMA, on="ts", window=1, where=where)
    assert "  algorithm  ScaleJoin: rows are stored on the threads round robin" in text
    assert "  index      none: every pair in the windows is compared" in text


def test_an_unknown_algorithm_is_refused():
    schema = table([], []).schema
    with pytest.raises(
        TidegateError, match="algorithm must be one of auto, scalejoin, scalejoin-gates"
    ):
        WindowJoin(schema, schema, on="ts", window=1, algorithm="hash")
