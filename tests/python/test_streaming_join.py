"""The streaming interval join has the batch join's rows in streaming order, at any timing.

Random joins are fed in random cuts and interleavings. `test_streaming_join_cases.py` contains cases
from the tests of Flink, Kafka Streams, Spark and Pathway. `test_streaming_join_sources.py` tests
the lifetime of sources, and errors.
"""

import itertools
import math
import os
import random
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

import oracle
import streaming_oracle
from drawing import calls, spelled
from streaming_oracle import Source
from tidegate import IntervalJoin, WindowJoin, agg, interval_join, left, right

PARALLELISM = ["auto", "key", "data", "hybrid", "scale-oij"]


def tick(*tables: pa.Table) -> int:
    """Return a step of the coarsest time, in which lateness and promises are drawn."""
    return max(oracle.step(table.schema.field("ts").type) for table in tables)


@st.composite
def histories(draw: st.DrawFn, table: pa.Table, count: int, lateness: int) -> list[Source]:
    """Distribute the rows of a table among sources, each with its cuts and promises."""
    numbers = draw(st.lists(st.integers(0, count - 1), min_size=len(table), max_size=len(table)))
    sources = []
    for number in range(count):
        rows = [row for row, dealt in enumerate(numbers) if dealt == number]
        # Rows are mostly in time order, as in real streams. Otherwise most rows would be late.
        if draw(st.integers(0, 3)):
            times = oracle.times(table.column("ts"))
            rows.sort(key=lambda row: times[row])
        own = streaming_oracle.rows(table, rows)
        cuts = sorted({0, len(rows), *draw(st.lists(st.integers(0, len(rows)), max_size=3))})
        history: list[int | range] = []
        for start, end in itertools.pairwise(cuts):
            if draw(st.integers(0, 5)) == 0:
                history.append(draw(st.integers(-1, 6)) * tick(table))
            history.append(range(start, end))
        sources.append(Source(own, history, lateness))
    return sources


@st.composite
def streams(draw: st.DrawFn):
    """Draw sources of both sides, a join for the oracle, and the arguments of the same join."""
    left_table, right_table, join, arguments = draw(calls())
    counts = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    lateness = [draw(st.integers(0, 3)) * tick(left_table, right_table) for _ in counts]
    types = [table.schema.field("ts").type for table in (left_table, right_table)]
    arguments |= {
        "sources": counts,
        "lateness": tuple(spelled(draw, duration, types[0]) for duration in lateness),
        "parallelism": draw(st.sampled_from(PARALLELISM)),
    }
    return (
        draw(histories(left_table, counts[0], lateness[0])),
        draw(histories(right_table, counts[1], lateness[1])),
        join,
        arguments,
    )


def play(
    left_sources: list[Source],
    right_sources: list[Source],
    arguments: dict[str, object],
    rng: random.Random,
) -> tuple[IntervalJoin, pa.Table]:
    """Feed a join in some order, with polls in between, and return all its results."""
    sources = left_sources + right_sources
    schemas = left_sources[0].table.schema, right_sources[0].table.schema
    joining = IntervalJoin(*schemas, **arguments)
    waiting = [(source, iter(source.history), at) for at, source in enumerate(sources)]
    batches: list[pa.RecordBatch] = []
    while waiting:
        turn = rng.choice(waiting)
        source, history, at = turn
        event = next(history, None)
        if event is None:
            joining.sources[at].close()
            waiting.remove(turn)
        elif isinstance(event, int):
            joining.sources[at].advance(event // oracle.step(source.table.schema.field("ts").type))
        else:
            joining.sources[at].push(source.table.slice(event.start, len(event)))
        if rng.random() < 0.3:
            batches.extend(iter(joining.poll, None))
    batches.extend(joining)
    return joining, pa.Table.from_batches(batches, joining.schema)


def assert_same(found: pa.Table, wanted: pa.Table, arguments: dict[str, object]) -> None:
    # The type of a result key holds the keys of both sides, so values are compared as keys.
    names = arguments["by"] if arguments["how"] in ("right", "full") else []
    assert oracle.keys(found, names) == oracle.keys(wanted, names)
    oracle.assert_same(found.drop_columns(names), wanted.drop_columns(names))


@given(streams(), st.randoms())
def test_rows_and_order_are_the_oracle_s(streams, rng):
    left_sources, right_sources, join, arguments = streams
    joining, found = play(left_sources, right_sources, arguments, rng)
    assert_same(found, streaming_oracle.expected(left_sources, right_sources, join), arguments)
    # All rows are counted, and no row stays in the state.
    stats, late = joining.stats(), joining.late()
    pushed = sum(source.table.num_rows for source in left_sources + right_sources)
    assert stats["rows_in"] == stats["rows_used"] + stats["rows_late"] == pushed
    assert stats["rows_late"] == late.num_rows
    assert stats["rows_out"] == found.num_rows
    assert stats["state_rows"] == 0


@given(streams(), st.randoms())
def test_rows_are_those_of_the_batch_join(streams, rng):
    left_sources, right_sources, _, arguments = streams
    _, found = play(left_sources, right_sources, arguments, rng)
    query = {
        name: value
        for name, value in arguments.items()
        if name not in ("sources", "lateness", "parallelism")
    }
    tables = [
        streaming_oracle.used_rows(sources, "ts") for sources in (left_sources, right_sources)
    ]
    wanted = interval_join(*tables, **query)
    assert found.schema == wanted.schema
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, wanted.to_pylist()))


@given(streams(), st.randoms())
def test_unordered_rows_are_the_same(streams, rng):
    left_sources, right_sources, _, arguments = streams
    _, wanted = play(left_sources, right_sources, arguments, rng)
    unordered = arguments | {"ordered": False, "parallelism": "auto"}
    joining, found = play(left_sources, right_sources, unordered, rng)
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, wanted.to_pylist()))
    assert joining.stats()["state_rows"] == 0


@given(streams(), st.randoms())
def test_late_rows_say_whose_they_are(streams, rng):
    left_sources, right_sources, _, arguments = streams
    joining, _ = play(left_sources, right_sources, arguments, rng)
    late = joining.late().to_pylist()
    wanted = [
        (side, number, row)
        for side, sources in (("left", left_sources), ("right", right_sources))
        for number, source in enumerate(sources)
        for row, _ in streaming_oracle.sort_out(source, "ts").late
    ]
    assert [tuple(row[f"late_{of}"] for of in ("side", "source", "position")) for row in late] == (
        wanted
    )
    for row, (side, number, position) in zip(late, wanted, strict=True):
        sources, name = (left_sources, "l") if side == "left" else (right_sources, "r")
        assert row[name] == sources[number].table.column(name)[position].as_py()
        assert row["r" if name == "l" else "l"] is None
    assert joining.late().num_rows == 0


# Keys and times of a size at which threads share the work


def events(rng: random.Random, rows: int, keys: int, name: str) -> pa.Table:
    """Create rows with increasing times; the first key is hot."""
    times = sorted(rng.randrange(rows) for _ in range(rows))
    weights = [keys, *[1] * (keys - 1)]
    return pa.table(
        {
            "ts": times,
            "k": pa.array(rng.choices(range(keys), weights, k=rows), pa.int64()),
            name: range(rows),
        }
    )


def in_pieces(table: pa.Table, lateness: int = 0, piece: int = 997) -> Source:
    cuts = [*range(0, table.num_rows, piece), table.num_rows]
    return Source(table, [range(*ends) for ends in itertools.pairwise(cuts)], lateness)


@pytest.mark.parametrize("parallelism", PARALLELISM)
@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("how", ["full", "semi"])
def test_threads_and_modes_change_nothing(parallelism, threads, how):
    rng = random.Random(7)  # noqa: S311 - not for secrets
    query = {"on": "ts", "by": "k", "lower": -9, "upper": 5, "how": how}
    parts = [in_pieces(events(rng, 6_000, 7, name)) for name in ("l", "l", "r", "r", "r")]
    arguments = query | {"sources": (2, 3), "parallelism": parallelism, "threads": threads}
    joining, found = play(parts[:2], parts[2:], arguments, rng)
    _, wanted = play(parts[:2], parts[2:], query | {"sources": (2, 3), "threads": 1}, rng)
    assert found.num_rows > 12_000 if how == "full" else 6_000
    assert found.equals(wanted)
    assert len(joining.stats()["comparisons"]) == threads
    assert sum(joining.stats()["comparisons"]) > 0


@pytest.mark.parametrize("parallelism", ["data", "hybrid", "auto", "scale-oij"])
def test_a_hot_key_is_shared_out(parallelism):
    rng = random.Random(7)  # noqa: S311 - not for secrets
    tables = [events(rng, 150_000, 1, name) for name in ("l", "r")]
    query = {"on": "ts", "by": "k", "lower": -9, "upper": 9}
    if parallelism == "auto":
        # Without a condition, sharing the pairs would not be worthwhile.
        query["where"] = left.l >= 0
    schemas = [table.schema for table in tables]
    joining = IntervalJoin(*schemas, **query, parallelism=parallelism, threads=4)
    for source, table in zip(joining.sources, tables, strict=True):
        source.push(table)
    rows = sum(batch.num_rows for batch in iter(joining.poll, None))
    stats = joining.stats()
    assert sum(stats["comparisons"]) == rows
    # Divided by key alone, one replica would do everything, as it does before loads are measured.
    assert max(stats["comparisons"]) < 0.75 * rows
    assert stats["split_keys"] == (0 if parallelism == "data" else 1)


def uneven(rng, rows, name):
    """Draw events of 50 keys; 40 % of the keys have 60 % of the rows, and so on recursively."""
    exponent = math.log(0.4) / math.log(0.6)
    keys = [int(50 * rng.random() ** exponent) for _ in range(rows)]
    return pa.table({"ts": list(range(rows)), "k": keys, name: list(range(rows))})


@pytest.mark.parametrize(
    ("load_factor", "least", "most"), [(None, 1.0, 1.35), (1.05, 1.0, 1.2), (8, 2.0, 8.0)]
)
def test_comparisons_are_balanced_as_the_load_factor_says(load_factor, least, most):
    rng = random.Random(3)  # noqa: S311 - not for secrets
    tables = [uneven(rng, 160_000, name) for name in ("l", "r")]
    query = {"on": "ts", "by": "k", "lower": -400, "upper": 400, "where": left.l < right.r - 390}
    also = {"parallelism": "hybrid", "load_factor": load_factor, "threads": 8}
    joining = IntervalJoin(*(table.schema for table in tables), **query, **also)
    counts = []
    for half in (0, 80_000):
        for start in range(half, half + 80_000, 8_000):
            for source, table in zip(joining.sources, tables, strict=True):
                source.push(table.slice(start, 8_000))
            for batch in iter(joining.poll, None):
                del batch
        counts.append(joining.stats()["comparisons"])
    made = [after - before for before, after in zip(*counts, strict=True)]
    assert least <= max(made) / (sum(made) / 8) <= most
    splits = joining.stats()["split_keys"]
    line = f"\n  split      {splits} of the keys are now on several threads"
    assert (line in joining.explain()) == (splits > 0)
    assert (splits > 0) == (load_factor != 8)


def test_parallelism_by_key_leaves_a_key_on_one_replica():
    rng = random.Random(7)  # noqa: S311 - not for secrets
    parts = [in_pieces(events(rng, 3_000, 1, name)) for name in ("l", "r")]
    arguments = {"on": "ts", "by": "k", "lower": 0, "upper": 9, "parallelism": "key", "threads": 4}
    joining, found = play(parts[:1], parts[1:], arguments, rng)
    assert sorted(joining.stats()["comparisons"]) == [0, 0, 0, found.num_rows]


# Extreme times


EXTREMES = [-(2**63), -(2**63) + 1, -2, -1, 0, 1, 2, 2**63 - 2, 2**63 - 1]


@given(
    st.lists(st.sampled_from(EXTREMES), max_size=8).map(sorted),
    st.lists(st.sampled_from(EXTREMES), max_size=8).map(sorted),
    st.tuples(*[st.one_of(st.none(), st.sampled_from(EXTREMES))] * 2),
    st.sampled_from(["both", "left", "right", "neither"]),
    st.sampled_from(["inner", "left", "right", "full", "semi", "anti"]),
    st.randoms(),
)
def test_sums_beyond_64_bits_saturate(left_times, right_times, bounds, closed, how, rng):
    lower, upper = bounds if None in bounds else sorted(bounds)
    left_table = pa.table({"ts": pa.array(left_times, pa.int64())})
    right_table = pa.table({"ts": pa.array(right_times, pa.int64())})
    query = {"on": "ts", "lower": lower, "upper": upper, "closed": closed, "how": how}
    parts = in_pieces(left_table), in_pieces(right_table)
    _, found = play([parts[0]], [parts[1]], query | {"lateness": rng.choice([0, 2**63 - 1])}, rng)
    wanted = interval_join(left_table, right_table, **query)
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, wanted.to_pylist()))


# Conditions


@pytest.mark.parametrize("threads", [1, 3])
def test_a_condition_sees_rows_of_any_age(threads):
    rng = random.Random(3)  # noqa: S311 - not for secrets
    tables = [events(rng, 4_000, 3, name) for name in ("l", "r")]
    query = {"on": "ts", "by": "k", "lower": -40, "upper": 40, "how": "full"}
    condition = (left.l + right.r) % 7 == 0
    parts = [in_pieces(table, piece=501) for table in tables]
    arguments = query | {"where": condition, "threads": threads}
    _, found = play(parts[:1], parts[1:], arguments, rng)
    wanted = interval_join(*tables, **query, where=condition)
    key = [("ts", "ascending"), ("l", "ascending"), ("r", "ascending")]
    assert found.num_rows > 1_000
    assert found.sort_by(key).equals(wanted.sort_by(key))


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="threads are pinned only on Linux")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs several processors")
def test_no_thread_that_runs_python_code_is_pinned():
    all_of_them = os.sched_getaffinity(0)
    seen = []

    def count(lists: pa.ListArray) -> pa.Array:
        seen.append(os.sched_getaffinity(0))
        return pa.array([1] * len(lists))

    rows = 20_000
    table = pa.table({"ts": range(rows), "k": [ts % 3 for ts in range(rows)]})
    ones = agg.udf(count, "k", returns=pa.int64())
    query = {"on": "ts", "lower": -50, "upper": 0, "threads": 2, "aggs": {"ones": ones}}
    for pin in (None, True, False):
        join = IntervalJoin(table.schema, table.schema, **query, pin=pin)
        for source in join.sources:
            source.push(table)
            source.close()
        assert sum(batch.num_rows for batch in join) == rows
    assert len(seen) >= 3
    assert all(found == all_of_them for found in seen)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads the threads from /proc")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs several processors")
def test_threads_are_pinned_where_that_is_asked_for_and_operators_begin_elsewhere():
    schema = pa.schema({"ts": pa.int64()})

    def threads() -> dict[str, frozenset[int]]:
        found = {}
        for task in Path("/proc/self/task").iterdir():
            with suppress(OSError):
                found[task.name] = frozenset(os.sched_getaffinity(int(task.name)))
        return found

    def pinned(kind: type, **query: Any) -> set[frozenset[int]]:
        """Return the processors of an operator's threads, once each thread is pinned to one."""
        before = threads()
        operator = kind(schema, schema, on="ts", threads=2, **query)
        assert "each pinned to one processor" in operator.explain()
        while True:
            found = {of for task, of in threads().items() if task not in before}
            if found and all(len(of) == 1 for of in found):
                return found
            time.sleep(0.01)

    interval = {"lower": 0, "upper": 0}
    near = {"window": 5, "where": "left.ts = right.ts"}
    gates = near | {"algorithm": "scalejoin-gates"}
    for kind, query in [
        (IntervalJoin, interval),
        (WindowJoin, near),
        (WindowJoin, near | {"algorithm": "scalejoin"}),
        (WindowJoin, near | {"algorithm": "low-latency-handshake"}),
        (WindowJoin, gates | {"pin": False}),
    ]:
        operator = kind(schema, schema, on="ts", threads=2, **query)
        assert "pinned" not in operator.explain()
    assert pinned(WindowJoin, **gates)
    everywhere = [pinned(IntervalJoin, **interval, pin=True) for _ in range(8)]
    assert len(set.union(*everywhere)) > 1
