"""Punctuations: no result is returned below a watermark that an operator has promised."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg

SCHEMA = pa.schema([("ts", pa.int64()), ("x", pa.int64())])
JOINS = {
    "interval": lambda **more: tg.IntervalJoin(
        SCHEMA, SCHEMA, on="ts", lower=-4, upper=2, threads=2, pin=False, **more
    ),
    "band": lambda **more: tg.BandJoin(
        SCHEMA, SCHEMA, on="x", within=1, time="ts", window=5, threads=2, pin=False, **more
    ),
    "window": lambda **more: tg.WindowJoin(
        SCHEMA, SCHEMA, on="ts", window=5, where="left.x = right.x", threads=2, pin=False, **more
    ),
    "handshake": lambda **more: tg.WindowJoin(
        SCHEMA, SCHEMA, on="ts", window=5, threads=2, pin=False,
        algorithm="handshake", **more,
    ),
    "low latency": lambda **more: tg.WindowJoin(
        SCHEMA, SCHEMA, on="ts", window=5, threads=2, pin=False,
        algorithm="low-latency-handshake", **more,
    ),
}  # fmt: skip


def rows(ts):
    return pa.table({"ts": ts, "x": [one % 3 for one in ts]}, schema=SCHEMA)


def push(join, sides, size):
    """Push some rows of each side, and close a side without remaining rows."""
    for source, side in zip(join.sources, sides, strict=True):
        if side:
            source.push(rows(side[:size]))
            del side[:size]
        else:
            source.close()


def places(batch):
    """Return the times of the later rows of pairs."""
    times = batch.select(["ts", "ts_right"]).to_pydict().values()
    return [max(pair) for pair in zip(*times, strict=True)]


@pytest.mark.parametrize("kind", JOINS)
@given(
    left=st.lists(st.integers(0, 40), max_size=30),
    right=st.lists(st.integers(0, 40), max_size=30),
    ordered=st.booleans(),
    size=st.integers(1, 9),
)
def test_no_pair_comes_below_what_was_promised(kind, left, right, ordered, size):
    join = JOINS[kind](ordered=ordered)
    promised, came, rises = None, 0, 0
    sides = [sorted(left), sorted(right)]
    while any(sides):
        push(join, sides, size)
        while (batch := join.poll()) is not None:
            assert promised is None or min(places(batch)) >= promised
            came += batch.num_rows
            assert join.promised is None or join.promised >= (promised or 0)
        if join.promised is not None:
            rises += promised is None or join.promised > promised
            assert promised is None or join.promised >= promised
            promised = join.promised
    for source in join.sources:
        source.close()
    for batch in join:
        assert promised is None or min(places(batch)) >= promised
    # The handshake join holds back pairs until the left window has passed.
    lasts = kind != "handshake" and min(len(left), len(right)) > size
    if lasts and min(max(left), max(right)) > 0:
        assert rises > 0


def test_a_window_comes_at_its_end_and_a_row_of_a_merge_at_its_time():
    windows = tg.Aggregate(SCHEMA, on="ts", size=10, aggs={"n": tg.agg.count()})
    merge = tg.Merge(SCHEMA)
    for operator, ts in ((windows, [1, 7, 23]), (merge, [1, 7, 23])):
        assert operator.promised is None
        operator.sources[0].push(rows(ts))
        batch = operator.poll()
        assert batch.num_rows > 0
        while operator.poll() is not None:
            pass
        assert operator.promised == 23
    # The window of the last row ends at 30, after the promised watermark.
    windows.sources[0].close()
    assert [row["window_end"] for batch in windows for row in batch.to_pylist()] == [30]


def test_nothing_is_promised_while_results_wait_and_before_all_sources_have_spoken():
    join = JOINS["interval"]()
    join.sources[0].push(rows([10, 12]))
    assert join.poll() is None
    assert join.promised is None
    join.sources[1].push(rows([11, 14]))
    assert join.promised is None
    assert join.poll().num_rows > 0
    while join.poll() is not None:
        pass
    assert join.promised == 12


@given(
    left=st.lists(st.integers(0, 40), max_size=20),
    right=st.lists(st.integers(0, 40), max_size=20),
    how=st.sampled_from(["left", "full", "anti"]),
    reach=st.sampled_from([(-10, -5), (-4, 2), (5, 10)]),
    size=st.integers(1, 6),
)
def test_no_row_without_a_partner_comes_below_what_was_promised(left, right, how, reach, size):
    lower, upper = reach
    join = tg.IntervalJoin(SCHEMA, SCHEMA, on="ts", lower=lower, upper=upper, how=how)
    sides, promised = [sorted(left), sorted(right)], None
    while any(sides):
        push(join, sides, size)
        while (batch := join.poll()) is not None:
            for row in batch.to_pylist():
                own, other = row["ts"], row.get("ts_right")
                # An unmatched row is emitted at the last time of a possible partner, or at its own
                # if later.
                last = max(own, own + upper) if own is not None else max(other, other - lower)
                place = last if own is None or other is None else max(own, other)
                assert promised is None or place >= promised
        promised = join.promised
    for source in join.sources:
        source.close()
