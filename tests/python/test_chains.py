"""Chained operators: the same rows as calls on tables, watermarks, and one snapshot."""

import datetime as dt
import itertools
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import campaign
import tidegate as tg
from tidegate.runtime import chain as _chain
from tidegate.runtime import logger as _logger

pytestmark = pytest.mark.timeout(120)

TRADES = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("x", pa.int64())])
QUOTES = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("y", pa.int64())])
NEWS = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("z", pa.int64())])
LATENESS = 3


class Net(NamedTuple):
    """A chain, its outer sources, and a function that computes the expected table."""

    chain: tg.Chain
    sources: list[tg.Source]
    schemas: list[pa.Schema]
    expected: Callable[[Sequence[pa.Table]], pa.Table]


def near(left: Any, right: Any, **more: Any) -> dict[str, Any]:
    return {"on": "ts", "by": "k", "lower": -4, "upper": 6, **more}


def pairs_of(how: str, threads: int, *, ordered: bool = True) -> tg.IntervalJoin:
    query = near(TRADES, QUOTES, how=how, lateness=LATENESS)
    return tg.IntervalJoin(TRADES, QUOTES, **query, threads=threads, ordered=ordered)


AGGS = {"n": tg.agg.count(), "sum": tg.agg.sum("x")}


def counts(threads: int) -> Net:
    """Create a join, an aggregation, and an as-of join of its windows with other rows."""
    pairs = pairs_of("left", threads)
    count = tg.Aggregate(pairs.schema, on="ts", size=10, advance=5, by="k", aggs=AGGS)
    last = tg.AsofJoin(
        NEWS, count.schema, on=("ts", "window_end"), by="k", lateness=(LATENESS, None)
    )
    feeds: Any = {last.right_sources[0]: count, count.sources[0]: pairs}

    def expected(tables: Sequence[pa.Table]) -> pa.Table:
        joined = tg.interval_join(tables[0], tables[1], **near(None, None, how="left"))
        windows = tg.aggregate(joined, on="ts", size=10, advance=5, by="k", aggs=AGGS)
        return tg.asof_join(tables[2], windows, on=("ts", "window_end"), by="k")

    sources = [*pairs.sources, last.left_sources[0]]
    return Net(tg.Chain(last, feeds), sources, [TRADES, QUOTES, NEWS], expected)


def three(threads: int, *, how: str = "inner", ordered: bool = True) -> Net:
    """Create a join of a join: three streams."""
    first = pairs_of("inner", threads, ordered=ordered)
    query = {"on": "ts", "by": "k", "lower": 0, "upper": 5, "how": how}
    last = tg.IntervalJoin(
        first.schema, NEWS, **query, lateness=(None, LATENESS), suffix="_news", threads=threads
    )

    def expected(tables: Sequence[pa.Table]) -> pa.Table:
        joined = tg.interval_join(tables[0], tables[1], **near(None, None))
        return tg.interval_join(joined, tables[2], **query, suffix="_news")

    sources = [*first.sources, last.right_sources[0]]
    feeds: Any = {last.left_sources[0]: first}
    return Net(tg.Chain(last, feeds), sources, [TRADES, QUOTES, NEWS], expected)


def eager(threads: int) -> Net:
    """Create a join whose first input, the pairs of another join, arrives in any order."""
    return three(threads, how="full", ordered=False)


def later(threads: int, of: str = "later") -> Net:
    """Create windows over the later, or the earlier, time of pairs."""
    pairs = pairs_of("inner", threads)
    schema = pairs.schema.append(pa.field("seen", pa.int64()))
    count = tg.Aggregate(schema, on="seen", size=7, by="k", aggs=AGGS)
    feeds: Any = {count.sources[0]: (pairs, of)}
    made = {"later": pc.max_element_wise, "earlier": pc.min_element_wise}[of]

    def expected(tables: Sequence[pa.Table]) -> pa.Table:
        joined = tg.interval_join(tables[0], tables[1], **near(None, None))
        joined = joined.append_column("seen", made(joined["ts"], joined["ts_right"]))
        return tg.aggregate(joined, on="seen", size=7, by="k", aggs=AGGS)

    return Net(tg.Chain(count, feeds), pairs.sources, [TRADES, QUOTES], expected)


def earlier(threads: int) -> Net:
    return later(threads, "earlier")


def lined(threads: int) -> Net:
    """Create an as-of join with a tolerance, then a merge, then sessions."""
    nearest = tg.AsofJoin(
        TRADES, QUOTES, on="ts", by="k", strategy="nearest", tolerance=4, lateness=LATENESS
    )
    lines = tg.Merge(nearest.schema, threads=threads)
    count = tg.Aggregate(nearest.schema, on="ts", session=3, by="k", aggs={"n": tg.agg.count()})
    feeds: Any = {count.sources[0]: lines, lines.sources[0]: nearest}

    def expected(tables: Sequence[pa.Table]) -> pa.Table:
        query: Any = {"on": "ts", "by": "k", "strategy": "nearest", "tolerance": 4}
        joined = tg.asof_join(*tables, **query)
        return tg.aggregate(joined, on="ts", session=3, by="k", aggs={"n": tg.agg.count()})

    return Net(tg.Chain(count, feeds), nearest.sources, [TRADES, QUOTES], expected)


def windows(threads: int) -> Net:
    """Create a window join that keeps unmatched rows, followed by an aggregation."""
    query: Any = {"on": "ts", "window": (3, 5), "by": "k", "how": "left"}
    join = tg.WindowJoin(TRADES, QUOTES, **query, lateness=LATENESS, threads=threads)
    count = tg.Aggregate(join.schema, on="ts", size=4, by="k", aggs=AGGS)

    def expected(tables: Sequence[pa.Table]) -> pa.Table:
        joined = tg.window_join(*tables, **query)
        return tg.aggregate(joined, on="ts", size=4, by="k", aggs=AGGS)

    feeds: Any = {count.sources[0]: join}
    return Net(tg.Chain(count, feeds), join.sources, [TRADES, QUOTES], expected)


NETS = [counts, three, eager, later, earlier, lined, windows]


def drawn(draw: random.Random, schemas: Sequence[pa.Schema]) -> list[pa.Table]:
    """Draw tables of random rows, each slightly out of time order but without late rows."""

    def table(schema: pa.Schema) -> pa.Table:
        count = draw.choice([0, 5, 60, 200])
        times = sorted(draw.choices(range(draw.choice([20, 150])), k=count))
        times.sort(key=lambda ts: ts + draw.uniform(0, LATENESS))
        keys = draw.choices(range(3), k=count)
        return pa.table([times, keys, range(count)], schema=schema)

    return [table(schema) for schema in schemas]


def in_line(rows: pa.Table) -> list[tuple[Any, ...]]:
    """Return rows as sorted tuples."""
    lines = zip(*(column.to_pylist() for column in rows.columns), strict=True)
    return sorted(lines, key=lambda line: [(value is not None, value or 0) for value in line])


def pieces(draw: random.Random, tables: Sequence[pa.Table]) -> list[tuple[int, pa.Table | None]]:
    """Return pushes in a random order of sources. None ends a source."""
    cut: list[list[tuple[int, pa.Table | None]]] = []
    for number, table in enumerate(tables):
        size = draw.choice([1, 7, 50])
        starts = range(0, table.num_rows, size)
        cut.append([(number, table.slice(start, size)) for start in starts])
        cut[-1].append((number, None))
    turns = [number for number, own in enumerate(cut) for _ in own]
    draw.shuffle(turns)
    nexts = [iter(own) for own in cut]
    return [next(nexts[number]) for number in turns]


def feed(net: Net, push: tuple[int, pa.Table | None]) -> None:
    number, rows = push
    if rows is None:
        net.sources[number].close()
    else:
        net.sources[number].push(rows)


def check(net: Net, found: Sequence[pa.RecordBatch], tables: Sequence[pa.Table]) -> None:
    expected = net.expected(tables)
    rows = pa.Table.from_batches(found, net.chain.operators[-1].schema)
    assert in_line(rows) == in_line(expected)
    for operator in net.chain.operators:
        assert operator.stats()["rows_late"] == 0


@pytest.mark.parametrize("make", NETS)
@pytest.mark.parametrize("seed", range(campaign.tries(12)))
def test_a_chain_has_the_rows_of_the_calls_on_tables(make: Callable[[int], Net], seed: int):
    draw = random.Random(f"{make.__name__} {seed}")  # noqa: S311 - not for secrets
    net = make(draw.choice([1, 2]))
    tables = drawn(draw, net.schemas)
    found: list[pa.RecordBatch] = []
    for push in pieces(draw, tables):
        feed(net, push)
        if draw.random() < 0.3:
            found += iter(net.chain.poll, None)
    found += iter(net.chain.poll, None)
    check(net, found, tables)


@pytest.mark.parametrize("make", [counts, three, later])
def test_the_order_of_rows_does_not_depend_on_pushes(make: Callable[[int], Net]):
    draw = random.Random(7)  # noqa: S311 - not for secrets
    tables = drawn(draw, make(1).schemas)
    while min(table.num_rows for table in tables) < 50:
        tables = drawn(draw, make(1).schemas)
    seen = []
    for threads in (1, 2, 1, 2):
        net = make(threads)
        found: list[pa.RecordBatch] = []
        for push in pieces(draw, tables):
            feed(net, push)
            found += iter(net.chain.poll, None)
        seen.append(pa.Table.from_batches(found).combine_chunks())
    assert seen[0].num_rows > 10
    assert all(rows.equals(seen[0]) for rows in seen)


@pytest.mark.parametrize("make", NETS)
@pytest.mark.parametrize("seed", range(campaign.tries(8)))
def test_restored_chains_lose_and_double_nothing(make: Callable[[int], Net], seed: int):
    """Rows pushed between a snapshot and the restoration of the next chain are lost."""
    draw = random.Random(f"restored {make.__name__} {seed}")  # noqa: S311 - not for secrets
    net = make(draw.choice([1, 2]))
    tables = drawn(draw, net.schemas)
    feeds = pieces(draw, tables)
    kept: list[pa.RecordBatch] = []
    at = 0
    while at < len(feeds):
        upto = min(len(feeds), at + draw.randrange(1, 12))
        for push in feeds[at:upto]:
            feed(net, push)
            if draw.random() < 0.4:
                kept += itertools.islice(iter(net.chain.poll, None), draw.choice([1, 2, 100]))
        at = upto
        saved = net.chain.snapshot()
        # Rows pushed after the snapshot are lost with the process.
        for push in feeds[at : at + draw.randrange(4)]:
            feed(net, push)
        net.chain.poll()
        net = make(draw.choice([1, 2]))
        net.chain.restore(saved)
    kept += iter(net.chain.poll, None)
    check(net, kept, tables)


@pytest.mark.parametrize("make", NETS)
def test_threads_drive_a_chain_and_snapshots_are_taken_meanwhile(make: Callable[[int], Net]):
    """A snapshot's earlier rows, which the sink has, and its later rows form the whole result."""
    draw = random.Random(f"threads {make.__name__}")  # noqa: S311 - not for secrets
    net = make(2)
    tables = drawn(draw, net.schemas)
    while min(table.num_rows for table in tables) < 50:
        tables = drawn(draw, net.schemas)
    found: list[pa.RecordBatch] = []
    saved: list[tuple[bytes, int]] = []

    def push(number: int) -> None:
        with net.sources[number] as source:
            for start in range(0, tables[number].num_rows, 5):
                source.push(tables[number].slice(start, 5))

    feeders = [threading.Thread(target=push, args=(number,)) for number in range(len(tables))]
    with net.chain.running(found.append) as running:
        for feeder in feeders:
            feeder.start()
        while any(feeder.is_alive() for feeder in feeders) or not saved:
            # The sink has received exactly the rows that the snapshot counts as returned. The lock
            # of steps is free only between two batches.
            with net.chain._turns.alone():
                before = len(found)
            snapshot = net.chain.snapshot()
            if len(found) == before:
                saved.append((snapshot, before))
        running.wait()
    check(net, found, tables)
    assert saved
    for snapshot, before in draw.sample(saved, min(3, len(saved))):
        again = make(1)
        again.chain.restore(snapshot)
        rest = list(found[:before])
        offsets = [
            source["rows_in"]
            for operator in again.chain.operators
            for source, one in zip(operator.stats()["sources"], operator.sources, strict=True)
            if one in again.sources
        ]
        by_source = dict(zip(_outer(again), offsets, strict=True))
        for source, table in zip(again.sources, tables, strict=True):
            if (rows := table.slice(by_source[source])).num_rows:
                source.push(rows)
            source.close()
        rest += iter(again.chain.poll, None)
        check(again, rest, tables)


def _outer(net: Net) -> list[tg.Source]:
    return [
        source
        for operator in net.chain.operators
        for source in operator.sources
        if source in net.sources
    ]


def test_a_sink_takes_snapshots_behind_its_own_rows():
    net = three(1)
    tables = [pa.table([range(50), [0] * 50, range(50)], schema=schema) for schema in net.schemas]
    found: list[pa.RecordBatch] = []
    saved: list[tuple[bytes, int]] = []

    def take(batch: pa.RecordBatch) -> None:
        found.append(batch)
        saved.append((net.chain.snapshot(), len(found)))

    with net.chain.running(take):
        for start in range(0, 50, 10):
            for source, table in zip(net.sources, tables, strict=True):
                source.push(table.slice(start, 10))
    check(net, found, tables)
    for snapshot, had in saved:
        again = three(1)
        again.chain.restore(snapshot)
        for source, table in zip(again.sources, tables, strict=True):
            operator = next(one for one in again.chain.operators if source in one.sources)
            stats = operator.stats()["sources"][source.number]
            if (rest := table.slice(stats["rows_in"])).num_rows:
                source.push(rest)
            source.close()
        check(again, [*found[:had], *iter(again.chain.poll, None)], tables)


def test_watermarks_go_through_without_rows():
    """No pair is found, but the rows of the last operator become final."""
    first = tg.IntervalJoin(TRADES, QUOTES, on="ts", by="k", lower=-4, upper=6)
    last = tg.IntervalJoin(
        first.schema, NEWS, on="ts", by="k", lower=0, upper=5, how="right", suffix="_news"
    )
    chain = tg.Chain(last, {last.left_sources[0]: first})
    last.right_sources[0].push([(10, 1, 1)])
    assert chain.poll() is None
    for source in first.sources:
        source.advance(16)
    # A pair with time 10 may still arrive, because its right row could be at 16.
    assert chain.poll() is None
    for source in first.sources:
        source.advance(17)
    last.right_sources[0].advance(11)
    assert chain.poll()["ts_news"].to_pylist() == [10]
    assert last.stats()["sources"][0]["watermark"] == 11


def test_units_of_times_may_differ():
    """Promises are rounded down, and lags are rounded up."""
    left = pa.schema([("ts", pa.timestamp("s")), ("x", pa.int64())])
    right = pa.schema([("ts", pa.timestamp("ms")), ("y", pa.int64())])
    for upper in ("1ms", "1s", "1500ms"):
        join = tg.IntervalJoin(left, right, on="ts", lower="0s", upper=upper)
        count = tg.Aggregate(join.schema, on="ts", size="2s", by="y", aggs={"n": tg.agg.count()})
        chain = tg.Chain(count, {count.sources[0]: join})
        times = pa.table({"ts": range(20), "x": range(20)}).cast(left)
        marks = pa.table({"ts": range(0, 20_000, 250), "y": [n % 3 for n in range(80)]})
        marks = marks.cast(right)
        found = []
        for start in range(20):
            join.sources[0].push(times.slice(start, 1))
            join.sources[1].push(marks.slice(4 * start, 4))
            found += iter(chain.poll, None)
        for source in join.sources:
            source.close()
        found += iter(chain.poll, None)
        pairs = tg.interval_join(times, marks, on="ts", lower="0s", upper=upper)
        expected = tg.aggregate(pairs, on="ts", size="2s", by="y", aggs={"n": tg.agg.count()})
        assert pa.Table.from_batches(found).equals(expected)
        assert count.stats()["rows_late"] == 0


@pytest.mark.parametrize("kind", ["parquet", "ipc"])
def test_the_sink_of_a_chain_is_a_file(kind: str, tmp_path: Path):
    net = three(2)
    tables = [
        pa.table([range(300), [n % 3 for n in range(300)], range(300)], schema=schema)
        for schema in net.schemas
    ]
    path = tmp_path / "rows"
    writer = pq.ParquetWriter if kind == "parquet" else pa.ipc.new_file
    schema = net.chain.operators[-1].schema
    with writer(path, schema) as file, net.chain.running(file):
        for source, table in zip(net.sources, tables, strict=True):
            source.push(table)
    read = pq.read_table(path) if kind == "parquet" else pa.ipc.open_file(path).read_all()
    assert read.num_rows > 100
    assert in_line(read) == in_line(net.expected(tables))


def test_a_memory_limit_holds_back_through_the_chain(caplog: pytest.LogCaptureFixture):
    """The last operator has a small memory limit, and the sink pauses for a while."""
    goes_on = threading.Event()
    _logger._TOLD.clear()
    pairs = tg.IntervalJoin(TRADES, QUOTES, on="ts", lower=0, upper=0, memory_limit=60_000)
    lines = tg.Merge(pairs.schema, memory_limit=100_000)
    chain = tg.Chain(lines, {lines.sources[0]: pairs})
    found: list[pa.RecordBatch] = []
    most: list[int] = []

    def take(batch: pa.RecordBatch) -> None:
        goes_on.wait(60)
        most.append(lines.stats()["memory"])
        found.append(batch)

    def push(number: int, schema: pa.Schema) -> None:
        with pairs.sources[number] as source:
            for start in range(0, 20_000, 100):
                rows = range(start, start + 100)
                source.push(pa.table([rows, [0] * 100, rows], schema=schema), block=True)

    feeders = [threading.Thread(target=push, args=one) for one in enumerate((TRADES, QUOTES))]
    with chain.running(take) as running:
        for feeder in feeders:
            feeder.start()
        # The merge had no room for a batch of the join.
        while not any(text.startswith("source 0: ") for text in caplog.messages):
            assert running.error is None
            feeders[0].join(0.001)
        goes_on.set()
        for feeder in feeders:
            feeder.join()
    assert sum(batch.num_rows for batch in found) == 20_000
    assert max(most) <= 100_000


class Full(Exception):  # noqa: N818 - for tests
    pass


def test_an_error_of_the_sink_ends_all_threads_and_loses_nothing():
    net = three(1)
    tables = [pa.table([range(9), [0] * 9, range(9)], schema=schema) for schema in net.schemas]

    def refuse(_: pa.RecordBatch) -> None:
        raise Full

    with pytest.raises(Full), net.chain.running(refuse) as running:  # noqa: PT012 - several calls may raise
        for source, table in zip(net.sources, tables, strict=True):
            source.push(table)
    assert all(not one._thread.is_alive() for one in running._all)
    for source in net.sources:
        source.close()
    check(net, list(iter(net.chain.poll, None)), tables)


def test_an_abandoned_source_ends_a_chain():
    net = three(1)
    with pytest.raises(tg.TidegateError, match="the line is down"), net.chain.running(print):
        net.sources[0].abandon("the line is down")
    # The last operator's source is still open, so no row became final.
    assert not net.chain.operators[-1].stats()["sources"][0]["closed"]
    with pytest.raises(tg.TidegateError, match="the line is down"):
        net.chain.poll()


def test_a_block_that_raises_closes_no_source():
    net = three(1)
    with pytest.raises(Full), net.chain.running(print):
        raise Full
    assert not any(s["closed"] for one in net.chain.operators for s in one.stats()["sources"])
    with net.chain.running(print) as running:
        running.stop()
        assert running.wait()


def test_snapshots_of_a_sink_and_of_another_thread_do_not_wait_for_each_other():
    net = later(1)
    inside, goes_on = threading.Event(), threading.Event()

    def take(_: pa.RecordBatch) -> None:
        inside.set()
        goes_on.wait(30)
        net.chain.snapshot()

    for source, schema in zip(net.sources, net.schemas, strict=True):
        source.push(pa.table([range(40), [0] * 40, range(40)], schema=schema))
    other = threading.Thread(target=net.chain.snapshot)
    with (  # noqa: PT012 - several calls may raise
        pytest.raises(tg.StateError, match="take snapshots on a single thread"),
        net.chain.running(take),
    ):
        assert inside.wait(30)
        other.start()
        while net.chain._turns._alone is None:
            other.join(0.001)
        goes_on.set()
        other.join()


@pytest.mark.timeout(60)
def test_a_sink_stops_the_chain_while_a_snapshot_waits_for_it():
    net = later(1)
    inside = threading.Event()

    def take(_: pa.RecordBatch) -> None:
        inside.set()
        while net.chain._turns._alone is None:
            time.sleep(0.001)
        # The thread of the other operator may already be waiting for the snapshot.
        time.sleep(0.2)
        running.stop()

    for source, schema in zip(net.sources, net.schemas, strict=True):
        source.push(pa.table([range(40), [0] * 40, range(40)], schema=schema))
    with net.chain.running(take) as running:
        assert inside.wait(30)
        assert net.chain.snapshot()


@pytest.mark.timeout(60)
def test_a_feeder_that_asked_to_wait_learns_of_the_error_of_the_chain():
    merge = tg.Merge(pa.schema({"ts": pa.int64()}), memory_limit=2_000)
    behind = tg.Merge(merge.schema, memory_limit=2_000)
    chain = tg.Chain(behind, {behind.sources[0]: merge})

    def refuse(_: pa.RecordBatch) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught, chain.running(refuse):  # noqa: PT012 - in a loop
        for ts in range(1_000):
            merge.sources[0].push([(ts,)], block=True)
    assert "has ended with an error" in str(caught.value.__cause__)
    # Polling makes room again.
    merge.sources[0].close()
    rows = sum(batch.num_rows for batch in iter(chain.poll, None))
    assert rows == merge.stats()["rows_in"]


@pytest.mark.timeout(60)
@pytest.mark.skipif(os.name != "posix", reason="sending signals within a process requires POSIX")
def test_a_signal_handler_within_a_call_does_not_wait_for_the_call(
    monkeypatch: pytest.MonkeyPatch,
):
    net = later(1)
    found: list[str] = []

    def handle(_number: int, _frame: object) -> None:
        with pytest.raises(tg.StateError, match="a signal handler called the chain") as caught:
            net.chain.snapshot()
        found.append(str(caught.value))

    promise = _chain._ChainFeed.promise

    def interrupted(feed: Any, operator: Any) -> None:
        signal.raise_signal(signal.SIGTERM)
        promise(feed, operator)

    before = signal.signal(signal.SIGTERM, handle)
    monkeypatch.setattr(_chain._ChainFeed, "promise", interrupted)
    try:
        net.chain.poll()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert found
    assert net.chain.snapshot()


@pytest.mark.timeout(60)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_does_not_wait_for_its_parents_threads():
    net = later(1)
    inside, goes_on = threading.Event(), threading.Event()

    def take(_: pa.RecordBatch) -> None:
        inside.set()
        goes_on.wait(30)

    for source, schema in zip(net.sources, net.schemas, strict=True):
        source.push(pa.table([range(40), [0] * 40, range(40)], schema=schema))
    with net.chain.running(take):
        assert inside.wait(30)
        child = os.fork()
        if child == 0:
            # If the call hangs, the alarm ends the process.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(20)
            try:
                net.chain.snapshot()
            except tg.ClosedError as error:
                os._exit(7 if "before the process forked" in str(error) else 1)
            os._exit(2)
        goes_on.set()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def saved_of(net: Net) -> bytes:
    for source, schema in zip(net.sources, net.schemas, strict=True):
        source.push(pa.table([range(5), [0] * 5, range(5)], schema=schema))
    net.chain.poll()
    return net.chain.snapshot()


def test_damaged_snapshots_are_refused():
    saved = saved_of(three(1))
    for at in [*range(40), *range(40, len(saved), 37), len(saved) - 1]:
        net = three(1)
        changed = bytearray(saved)
        changed[at] ^= 1
        with pytest.raises(tg.StateError):
            net.chain.restore(bytes(changed))
        with pytest.raises(tg.StateError):
            net.chain.restore(saved[:at])
        # The chain is unchanged.
        net.chain.restore(saved)


def test_snapshots_of_other_chains_and_versions_are_refused():
    saved = saved_of(three(1))
    with pytest.raises(
        tg.StateError, match=r"of another chain: .IntervalJoin, IntervalJoin; 0 feeds"
    ):
        counts(1).chain.restore(saved)
    with pytest.raises(tg.StateError, match="not taken from a chain: it does not begin"):
        three(1).chain.restore(three(1).chain.operators[0].snapshot())
    body = bytearray(saved[:-4])
    body[len(_chain._MAGIC)] = 2
    newer = bytes(body) + _chain._SUM.pack(_chain.zlib.crc32(bytes(body)))
    with pytest.raises(tg.StateError, match="but this version of tidegate reads version 1"):
        three(1).chain.restore(newer)
    # One operator has another query, so the operators restored before it are closed.
    net = three(1, how="left")
    with pytest.raises(tg.StateError):
        net.chain.restore(saved)
    with pytest.raises(tg.ClosedError):
        net.chain.operators[0].poll()


def joined(**query: Any) -> tg.IntervalJoin:
    return tg.IntervalJoin(TRADES, QUOTES, on="ts", **{"lower": 0, "upper": 1, **query})


def sorted_out(operator: tg.Operator, on: str = "ts", **more: Any) -> tg.Merge:
    schema = operator.schema
    if on not in schema.names:
        schema = schema.append(pa.field(on, pa.int64()))
    return tg.Merge(schema, on=on, **more)


TIMES = [
    *(pa.int32(), pa.int64(), pa.uint32(), pa.uint64(), pa.date32(), pa.date64()),
    *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
    *(pa.timestamp(unit, "Europe/Berlin") for unit in ("s", "ms", "us", "ns")),
    pa.timestamp("us", "+05:45"),
]


def days(numbers: Sequence[int], kind: pa.DataType) -> pa.Array:
    """Return times, given as days since the epoch; integer types use the numbers themselves."""
    if pa.types.is_integer(kind):
        return pa.array(numbers, kind)
    found = pa.array([dt.date(1970, 1, 1) + dt.timedelta(number) for number in numbers])
    zone = getattr(kind, "tz", None)
    instants = found.cast(pa.timestamp(getattr(kind, "unit", "ms")))
    return instants.view(kind) if zone else instants.cast(kind)


@pytest.mark.parametrize("of", ["later", "earlier"])
@pytest.mark.parametrize("kind", TIMES, ids=str)
def test_the_later_and_the_earlier_time_are_of_any_type(kind: pa.DataType, of: Any):
    step = 1 if pa.types.is_integer(kind) else "1d"
    schema = pa.schema([("ts", kind)])
    pairs = tg.IntervalJoin(schema, schema, on="ts", lower=0, upper=step, how="full")
    merged = tg.Merge(pairs.schema.append(pa.field("seen", kind)), on="seen")
    chain = tg.Chain(merged, {merged.sources[0]: (pairs, of)})
    for source, numbers in zip(pairs.sources, [[3, 5, 9], [4, 20]], strict=True):
        source.push(pa.table({"ts": days(numbers, kind)}))
        source.close()
    found = pa.Table.from_batches(iter(chain.poll, None))["seen"].combine_chunks()
    assert found.equals(days([4 if of == "later" else 3, 5, 9, 20], kind))


def test_the_later_time_of_two_units_has_the_finer_one():
    kinds = [pa.timestamp(unit, "UTC") for unit in ("s", "ns")]
    schemas = [pa.schema([("ts", kind)]) for kind in kinds]
    pairs = tg.IntervalJoin(*schemas, on="ts", lower="0s", upper="1d")
    merged = tg.Merge(pairs.schema.append(pa.field("seen", kinds[1])), on="seen")
    chain = tg.Chain(merged, {merged.sources[0]: (pairs, "later")})
    for source, kind in zip(pairs.sources, kinds, strict=True):
        source.push(pa.table({"ts": days([3], kind)}))
        source.close()
    [batch] = iter(chain.poll, None)
    assert batch["seen"].equals(days([3], kinds[1]))


def refused(before: Any, on: str = "ts", of: str | None = None, **more: Any) -> str:
    last = sorted_out(before, on, **more)
    with pytest.raises(tg.TidegateError) as error:
        tg.Chain(last, {last.sources[0]: (before, of) if of else before})
    return str(error.value)


def test_times_that_cannot_be_followed_are_refused():
    assert "`x` is not among the time columns of the results (ts, ts_right)" in refused(
        joined(), "x"
    )
    assert "have no column `seen`" in refused(joined(), "seen")
    assert "already have a column `ts`" in refused(joined(), "ts", "later")
    one = joined(columns=["ts", "x"])
    assert "must have both times, but have only (ts)" in refused(one, "seen", "later")
    unbounded = "may be any distance below the times of other results"
    assert unbounded in refused(joined(upper=None))
    assert unbounded in refused(tg.WindowJoin(TRADES, QUOTES, on="ts", window=tg.rows(3)))
    sessions = tg.Aggregate(TRADES, on="ts", session=3, aggs={"n": tg.agg.count()})
    assert unbounded in refused(sessions, "window_start")
    assert unbounded in refused(joined(upper=None, how="left"), "seen", "later")
    assert "memory_limit: results with ordered=False" in refused(
        joined(ordered=False), memory_limit=10_000
    )
    last = sorted_out(joined(), "seen")
    with pytest.raises(tg.TidegateError, match=r"feeds.*later"):
        tg.Chain(last, {last.sources[0]: (joined(), "soon")})


def test_chains_of_other_shapes_are_refused():
    first = joined()
    last = sorted_out(first)
    with pytest.raises(tg.TidegateError, match="expected a source and the operator that feeds it"):
        tg.Chain(last, {})
    with pytest.raises(TypeError, match="last: expected an operator, got str"):
        tg.Chain("last", {last.sources[0]: first})
    with pytest.raises(TypeError, match=r"feeds: expected a source, .* got Merge"):
        tg.Chain(last, {last: first})
    with pytest.raises(TypeError, match=r"expected an operator that feeds a source, .* got int"):
        tg.Chain(last, {last.sources[0]: 7})
    with pytest.raises(tg.TidegateError, match="does not belong to any operator in the chain"):
        tg.Chain(last, {sorted_out(first).sources[0]: first})
    two = tg.Merge(first.schema, sources=2)
    with pytest.raises(tg.TidegateError, match="feeds two sources or itself"):
        tg.Chain(two, {two.sources[0]: first, two.sources[1]: first})
    with pytest.raises(tg.TidegateError, match="feeds two sources or itself"):
        tg.Chain(two, {two.sources[0]: two})
    tg.Chain(last, {last.sources[0]: first})
    with pytest.raises(tg.TidegateError, match="the source is in use"):
        tg.Chain(last, {last.sources[0]: joined()})


def test_views_of_one_source_are_equal():
    merge, other = tg.Merge(TRADES, sources=2), tg.Merge(TRADES)
    first, second = merge.sources
    assert first == merge.sources[0]
    assert hash(first) == hash(merge.sources[0])
    assert first != second
    assert first != other.sources[0]
    assert first != "source"
    assert len({*merge.sources, *merge.sources, *other.sources}) == 3
