"""Streaming windows: the rows, bits and order of whole tables, for any timing."""

import itertools
import math
import random
from dataclasses import dataclass

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

import campaign
import window_oracle
from streaming_oracle import Source, sort_out
from test_aggregate_properties import (
    ALGORITHMS,
    CONDITIONS,
    KEYS,
    aggregates,
    chunked,
    shapes,
    streams,
    table,
    text,
)
from tidegate import Aggregate, agg, aggregate
from window_oracle import Windows

Event = pa.Table | int | None
"""Rows, a promise, or the end of a source."""


@dataclass(frozen=True)
class Feed:
    """The input of a source."""

    rows: list[dict]
    source: Source

    def events(self) -> list[Event]:
        """Return the events of the source, in order."""
        of_history = [
            event if isinstance(event, int) else self.source.table.slice(event[0], len(event))
            for event in self.source.history
            if isinstance(event, int) or event
        ]
        return [*of_history, None]

    def used(self) -> list[dict]:
        """Return the rows that are not late, in time order."""
        used = [self.rows[row] for row in sort_out(self.source, "ts").used]
        return sorted(used, key=lambda one: one["ts"])


@st.composite
def feeds(draw: st.DrawFn) -> tuple[int, list[Feed]]:
    """Draw the lateness, and sources with rows in any order, pushed in pieces with promises."""
    lateness = draw(st.sampled_from([0, 0, 3, 20, 1000]))
    found = []
    for rows in draw(streams()):
        cuts = [0, *sorted(draw(st.lists(st.integers(0, len(rows)), max_size=4))), len(rows)]
        history: list[int | range] = []
        for start, end in itertools.pairwise(cuts):
            history.append(range(start, end))
            if draw(st.integers(0, 3)) == 0:
                history.append(draw(st.integers(-50, 50)))
        found.append(Feed(rows, Source(table(rows, []), history, lateness)))
    return lateness, found


def shuffled(found: list[Feed], rng: random.Random) -> list[tuple[int, Event]]:
    """Interleave the events of all sources at random."""
    waiting = [(number, feed.events()) for number, feed in enumerate(found)]
    happens = []
    while waiting:
        turn = rng.choice(waiting)
        happens.append((turn[0], turn[1].pop(0)))
        if not turn[1]:
            waiting.remove(turn)
    return happens


def happen(windows: Aggregate, number: int, event: Event) -> None:
    source = windows.sources[number]
    if event is None:
        source.close()
    elif isinstance(event, int):
        source.advance(event)
    else:
        source.push(event)


def rest(windows: Aggregate) -> list[dict]:
    """Return all rows that are final."""
    return [row for batch in iter(windows.poll, None) for row in batch.to_pylist()]


@given(
    st.data(), feeds(), shapes(), aggregates(), st.integers(1, 4), st.randoms(use_true_random=False)
)
def test_rows_as_they_come_and_rows_that_are_there(data, given, windows, functions, threads, rng):
    lateness, found = given
    by = data.draw(st.lists(st.sampled_from(sorted(KEYS)), unique=True, max_size=3))
    condition, holds = data.draw(st.sampled_from(CONDITIONS))
    ours, theirs = functions
    arguments = {
        "on": "ts",
        "size": windows.size,
        "advance": windows.advance,
        "offset": windows.offset,
        "by": by,
        "aggs": ours,
        "where": condition,
        "threads": threads,
    }
    operator = Aggregate(
        table([], []).schema,
        **arguments,
        sources=len(found),
        lateness=lateness,
        algorithm=data.draw(st.sampled_from(ALGORITHMS)),
    )
    results = []
    for number, event in shuffled(found, rng):
        happen(operator, number, event)
        if rng.random() < 0.5:
            results.extend(rest(operator))
    results.extend(row for batch in operator for row in batch.to_pylist())

    used = [feed.used() for feed in found]
    assert text(results) == text(window_oracle.aggregate(used, windows, by, theirs, holds))
    whole = aggregate(chunked(data.draw, used), **arguments)
    assert whole.schema == operator.schema
    assert text(results) == text(whole.to_pylist())

    late = [(at, *one) for at, feed in enumerate(found) for one in sort_out(feed.source, "ts").late]
    returned = operator.late()
    assert [tuple(one.values())[:3] for one in returned.to_pylist()] == late
    stats = operator.stats()
    assert stats["rows_in"] == sum(len(feed.rows) for feed in found)
    assert stats["rows_late"] == len(late)
    assert stats["rows_in"] == stats["rows_used"] + stats["rows_late"]
    assert stats["rows_out"] == len(results)
    assert stats.get("state_cells", 0) == stats.get("state_rows", 0) == 0


@given(feeds(), shapes(), st.randoms(use_true_random=False))
def test_a_window_comes_as_soon_as_it_is_complete(given, windows, rng):
    lateness, found = given
    arguments = {"on": "ts", "size": windows.size, "advance": windows.advance}
    arguments |= {"offset": windows.offset, "by": "k", "aggs": {"n": agg.count()}}
    operator = Aggregate(table([], []).schema, **arguments, sources=len(found), lateness=lateness)
    whole = aggregate([table(feed.used(), []) for feed in found], **arguments).to_pylist()
    results = []
    for number, event in shuffled(found, rng):
        happen(operator, number, event)
        results.extend(rest(operator))
        marks = [one["watermark"] for one in operator.stats()["sources"] if not one["closed"]]
        if None in marks:
            assert results == []
        else:
            upto = min(marks, default=math.inf)
            assert results == [row for row in whole if row["window_end"] <= upto]


@settings(max_examples=campaign.tries(60 if campaign.ALL else 40))
@given(feeds(), shapes(), aggregates(), st.integers(1, 4), st.randoms(use_true_random=False))
def test_every_cut_of_a_history_goes_on_alike(given, windows, functions, threads, rng):
    lateness, found = given
    schema = table([], []).schema
    arguments = {"on": "ts", "size": windows.size, "advance": windows.advance}
    arguments |= {"offset": windows.offset, "by": ["k", "f"], "aggs": functions[0]}
    arguments |= {"sources": len(found), "lateness": lateness}

    def some(threads: int) -> Aggregate:
        return Aggregate(schema, **arguments, threads=threads, algorithm=rng.choice(ALGORITHMS))

    whole, other, cut = some(1), some(threads), some(threads)
    results: tuple[list[dict], list[dict]] = ([], [])
    for number, event in shuffled(found, rng):
        for one in (whole, other, cut):
            happen(one, number, event)
        if rng.random() < 0.5:
            rest(other)
            results[0].extend(rest(whole))
            results[1].extend(rest(cut))
        # Equal histories yield equal bytes, for all threads and algorithms, with or without
        # restarts.
        snapshot = whole.snapshot()
        assert other.snapshot() == snapshot
        assert cut.snapshot() == snapshot
        cut = some(threads)
        cut.restore(snapshot)
        assert cut.snapshot() == snapshot
    results[0].extend(rest(whole))
    results[1].extend(rest(cut))
    assert text(results[0]) == text(results[1])
    used = [table(feed.used(), []) for feed in found]
    query = {name: arguments[name] for name in ("on", "size", "advance", "offset", "by", "aggs")}
    assert text(results[0]) == text(aggregate(used, **query).to_pylist())
    assert text(whole.late().to_pylist()) == text(cut.late().to_pylist())
    of_both = [one.stats() for one in (whole, cut)]
    names = ("rows_in", "rows_used", "rows_late", "rows_out", "watermark")
    for name in (*names, "state_cells", "state_rows"):
        assert of_both[0].get(name) == of_both[1].get(name), name


def test_a_snapshot_between_windows_changes_nothing():
    # Keys arrive in descending order, and the snapshot sorts them while a window is incomplete.
    rows = pa.table({"ts": [0, 0, 3, 6, 8, 9], "k": ["b", "a", "a", "b", "a", "b"]})
    arguments = {"on": "ts", "size": 6, "advance": 2, "by": "k", "aggs": {"n": agg.count()}}
    windows = Aggregate(rows.schema, **arguments)
    windows.sources[0].push(rows.slice(0, 4))
    results = rest(windows)
    windows.snapshot()
    windows.sources[0].push(rows.slice(4))
    windows.sources[0].close()
    assert results + rest(windows) == aggregate(rows, **arguments).to_pylist()


@pytest.mark.slow
@pytest.mark.parametrize("keys", [3, 5_000])
@pytest.mark.parametrize("threads", [1, 3])
def test_many_rows(keys, threads):
    rng = np.random.default_rng(7)
    types = {"ts": pa.timestamp("us"), "k": pa.int64(), "s": pa.dictionary(pa.int32(), pa.string())}
    schema = pa.schema(types | {"v": pa.float64(), "n": pa.int32()})
    tables = []
    for _ in range(3):
        rows = 40_000
        columns = [
            pa.array(np.sort(rng.integers(0, 2_000_000, rows))).cast(pa.timestamp("us")),
            rng.integers(0, keys, rows),
            pa.array(["x", "y", None]).take(rng.integers(0, 3, rows)).dictionary_encode(),
            rng.random(rows),
            rng.integers(-(2**31), 2**31, rows),
        ]
        tables.append(pa.table([*columns], names=schema.names).cast(schema))
    arguments = {
        "on": "ts",
        "size": "50ms",
        "advance": "20ms",
        "by": ["k", "s"],
        "aggs": {
            "count": agg.count(),
            "mean": agg.mean("v"),
            "std": agg.std("v", where="n > 0"),
            "total": agg.sum("n"),
            "first": agg.first("s"),
            "last": agg.last("v"),
            "largest": agg.max("n"),
        },
    }
    whole = aggregate(tables, **arguments)
    operator = Aggregate(schema, **arguments, sources=3, threads=threads)
    batches = []
    for piece in range(40):
        for source, one in zip(operator.sources, tables, strict=True):
            source.push(one.slice(piece * 1000, 1000))
        if piece % 3 == 0:
            batches.extend(iter(operator.poll, None))
    for source in operator.sources:
        source.close()
    batches.extend(operator)
    found = pa.Table.from_batches(batches, whole.schema)
    texts = [
        field.with_type(pa.string()) if pa.types.is_dictionary(field.type) else field
        for field in whole.schema
    ]
    assert found.cast(pa.schema(texts)).equals(whole.cast(pa.schema(texts)))


@pytest.mark.parametrize("function", [agg.min, agg.max])
def test_values_that_lie_between_others_again_and_again(function):
    # Each value is between the previous two, so codes between theirs run out.
    values, low, high = [], 0, 1 << 200
    for turn in range(150):
        middle = (low + high) // 2
        values.append(f"{middle:051x}")
        low, high = (middle, high) if turn % 3 else (low, middle)
    whole = pa.table({"ts": range(len(values)), "v": pa.array(values, pa.string_view())})
    arguments = {"on": "ts", "size": 100, "advance": 7}
    arguments |= {"aggs": {"v": function("v"), "n": agg.count()}}
    windows, found = Aggregate(whole.schema, **arguments), []
    for number, batch in enumerate(whole.to_batches(max_chunksize=1)):
        windows.sources[0].push(batch)
        found += rest(windows)
        if number % 40 == 39:
            snapshot = windows.snapshot()
            windows = Aggregate(whole.schema, **arguments)
            windows.restore(snapshot)
            assert windows.snapshot() == snapshot
    windows.sources[0].close()
    found += rest(windows)
    assert found == aggregate(whole, **arguments).to_pylist()


def test_values_that_no_state_has_are_forgotten():
    schema = pa.schema({"ts": pa.int64(), "v": pa.binary()})
    windows = Aggregate(schema, on="ts", size=10, aggs={"v": agg.max("v")})
    held = []
    for turn in range(20):
        values = [f"{turn}-{at}".encode() for at in range(3000)]
        windows.sources[0].push(pa.table({"ts": [10 * turn] * 3000, "v": values}, schema))
        assert len(rest(windows)) == (turn > 0)
        held.append(windows.stats()["memory"])
    assert max(held[10:]) <= max(held[:10])


def test_state_does_not_grow_with_keys_and_rows_that_are_gone():
    schema = pa.schema({"ts": pa.int64(), "k": pa.string(), "v": pa.int64()})
    operator = Aggregate(
        schema, on="ts", size=10, by="k", aggs={"first": agg.first("v"), "n": agg.count()}
    )
    largest = 0
    for turn in range(200):
        rows = range(turn * 1000, turn * 1000 + 1000)
        keys = [f"key {row}" for row in rows]
        operator.sources[0].push(pa.table({"ts": rows, "k": keys, "v": rows}, schema=schema))
        found = rest(operator)
        assert len(found) == 1000 - (10 if turn == 0 else 0)
        assert all(row["first"] == int(row["k"].removeprefix("key ")) for row in found)
        largest = max(largest, operator.stats()["state_keys"])
    assert largest < 5000
    assert operator.stats()["memory"] < 10_000_000


def test_windows_of_every_shape_of_time():
    windows = Windows(7, 3, 1)
    rows = [{"ts": at} for at in (-5, -5, 0, 2, 9)]
    wanted = window_oracle.aggregate([rows], windows, [], {"n": ("count", None, lambda _: True)})
    for type_, factor in [(pa.int32(), None), (pa.date32(), "d"), (pa.timestamp("s", "UTC"), "s")]:
        column = pa.array([row["ts"] for row in rows], pa.int32())
        column = (
            column.cast(pa.int64()).cast(type_)
            if pa.types.is_timestamp(type_)
            else column.cast(type_)
        )
        spelled = (
            (lambda steps: steps) if factor is None else (lambda steps, f=factor: f"{steps}{f}")
        )
        operator = Aggregate(
            pa.schema({"ts": type_}),
            on="ts",
            size=spelled(7),
            advance=spelled(3),
            offset=spelled(1),
            aggs={"n": agg.count()},
        )
        operator.sources[0].push(pa.table({"ts": column}))
        operator.sources[0].close()
        assert [row["n"] for row in rest(operator)] == [row["n"] for row in wanted]
