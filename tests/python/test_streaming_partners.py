"""Aggregates of partners over streams have the bits of those of tables, for any cuts."""

import math
import random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import campaign
from partner_streams import SCHEMA, bits, draw, happen, play
from tidegate import (
    BandJoin,
    ClosedError,
    IntervalJoin,
    MemoryLimitError,
    StateError,
    StreamJoin,
    TidegateError,
    WindowJoin,
    agg,
    band_join,
    explain,
    interval_join,
    rows,
    window_join,
)

pytestmark = pytest.mark.timeout(600)

AGGS = {
    "n": agg.count(),
    "n_x": agg.count("x"),
    "sum_x": agg.sum("x"),
    "sum_v": agg.sum("v"),
    "mean_v": agg.mean("v"),
    "var_v": agg.var("v"),
    "min_s": agg.min("s"),
    "max_v": agg.max("v"),
    "first": agg.first("id"),
    "last": agg.last("id"),
    "some": agg.last("id", where="row.x > 0"),
}
WHERE = [
    None,
    "right.x > 0",
    "left.x > 0",
    "left.x > -3 and right.x < 5",
    "left.x < right.x",
    "left.v <= right.v and right.x > -5",
]


def interval_query(rng: random.Random) -> dict[str, Any]:
    lower = rng.choice([None, -8, -3, 0, 2])
    upper = rng.choice([None, -2, 0, 3, 9])
    if lower is not None and upper is not None and lower > upper:
        upper = lower
    return {
        "on": "ts",
        "lower": lower,
        "upper": upper,
        "closed": rng.choice(["both", "left", "right", "neither"]),
        "prevailing": lower is not None and rng.random() < 0.6,
    }


def window_query(rng: random.Random) -> dict[str, Any]:
    return {"on": "ts", "window": rng.choice([0, 2, 7, (0, 4), (5, 1)])}


def band_query(rng: random.Random) -> dict[str, Any]:
    query = {"within": rng.choice([2, (0, 3), (None, 1)]), "time": "ts"}
    return {"on": "x", **query, "window": rng.choice([3, (0, 6)])}


JOINS = {
    "interval": (IntervalJoin, interval_join, interval_query),
    "window": (WindowJoin, window_join, window_query),
    "band": (BandJoin, band_join, band_query),
}


def common(rng: random.Random) -> dict[str, Any]:
    return {
        "aggs": AGGS,
        "by": rng.choice([None, "k", ["k", "s"]]),
        "where": rng.choice(WHERE),
        "how": rng.choice([None, "left", "inner"]),
        "columns": rng.choice([None, ["id", "ts"], ["id"]]),
    }


@pytest.mark.parametrize("name", JOINS)
@pytest.mark.parametrize("seed", range(campaign.tries(60)))
def test_rows_are_those_of_tables_whatever_the_cuts(name, seed):
    rng = campaign.rng(f"partners {name} {seed}")
    operator, function, ask = JOINS[name]
    streams = draw(rng)
    query = ask(rng) | common(rng)
    given = query | {"sources": streams.sources, "lateness": streams.lateness, "pin": False}

    def make(**more: object) -> StreamJoin:
        return operator(SCHEMA, SCHEMA, **given, **more, ordered=rng.random() < 0.8)

    wanted = function(streams.left, streams.right, **query)
    found = play(make, streams, rng)
    assert found.schema == wanted.schema
    # Left rows are emitted in merged order, because all intervals have the same length.
    assert bits(found) == bits(wanted)


def test_the_random_streams_have_what_they_should():
    seen = [draw(campaign.rng(f"partners interval {seed}")) for seed in range(20)]
    assert any(streams.late for streams in seen)
    assert any(streams.lateness for streams in seen)
    assert any(streams.sources > (1, 1) for streams in seen)
    values = [value for streams in seen for value in streams.right["v"].to_pylist()]
    assert None in values
    assert any(value is not None and math.isnan(value) for value in values)
    assert any(None in streams.left["k"].to_pylist() for streams in seen)


@pytest.mark.parametrize("cut", [1_000_000, 70_000])
def test_more_rows_than_an_epoch_takes(cut):
    rng = campaign.rng("epochs of partners")
    sources = [
        pa.table(
            {
                "ts": sorted(rng.choices(range(500_000), k=200_000)),
                "v": rng.choices(range(99), k=200_000),
            }
        )
        for _ in range(4)
    ]
    query = {"on": "ts", "lower": -3, "upper": 2, "aggs": {"n": agg.count(), "v": agg.sum("v")}}
    query |= {"columns": ["ts"], "prevailing": True}
    schema = sources[0].schema
    found = []
    with IntervalJoin(schema, schema, sources=(2, 2), threads=2, pin=False, **query) as join:
        for start in range(0, 200_000, cut):
            for source, table in zip(join.sources, sources, strict=True):
                source.push(table[start : start + cut])
            found.extend(iter(join.poll, None))
        for source in join.sources:
            source.close()
        found.extend(join)
    # Of rows with equal times, those of the first source are first.
    left, right = (
        pa.concat_tables(pair).take(pc.sort_indices(pa.concat_tables(pair)["ts"]))
        for pair in (sources[:2], sources[2:])
    )
    wanted = interval_join(left, right, **query)
    assert pa.Table.from_batches(found).equals(wanted.combine_chunks())


LEFT = pa.table({"ts": [1, 4, 9], "k": ["a", "b", "a"], "l": [1, 2, 3]})
RIGHT = pa.table({"ts": [2, 4, 9], "k": ["a", "b", "a"], "r": [10, 20, 30]})
QUERY = {"on": "ts", "by": "k", "lower": -1, "upper": 2, "aggs": {"r": agg.sum("r")}}


def new(**arguments: Any) -> IntervalJoin:
    return IntervalJoin(LEFT.schema, RIGHT.schema, **(QUERY | arguments))


def test_a_left_row_comes_when_no_partner_can_come():
    join = new()
    left, right = join.sources
    left.push(LEFT)
    right.push(RIGHT[:1])
    assert join.poll() is None
    right.advance(3)
    # The interval of the row at 1 ends at 3, and rows at 3 may still arrive.
    assert join.poll() is None
    right.advance(4)
    assert join.poll().to_pylist() == [{"ts": 1, "k": "a", "l": 1, "r": 10}]
    assert join.poll() is None
    right.push(RIGHT[1:])
    # The left source may still push rows at 9.
    assert join.poll().to_pylist() == [{"ts": 4, "k": "b", "l": 2, "r": 20}]
    left.close()
    assert join.poll() is None
    right.close()
    assert join.poll().to_pylist() == [{"ts": 9, "k": "a", "l": 3, "r": 30}]
    assert next(join, None) is None


def test_the_row_that_prevails_before_an_empty_interval_is_waited_for():
    join = new(lower=2, upper=2, closed="neither", prevailing=True)
    join.left_sources[0].push(LEFT[:1])
    join.left_sources[0].advance(9)
    join.right_sources[0].advance(3)
    # A row at 3 would be the last before the interval, which is empty.
    assert join.poll() is None
    join.right_sources[0].push(pa.table({"ts": [3, 4], "k": ["a", "a"], "r": [5, 6]}))
    assert join.poll()["r"].to_pylist() == [5]


def test_the_state_is_bounded_by_the_interval():
    schema = pa.schema([("ts", pa.int64()), ("k", pa.int64())])
    for prevailing, most in ((False, 120), (True, 3000)):
        join = IntervalJoin(
            schema, schema, on="ts", by="k", lower=-50, upper=0, prevailing=prevailing,
            aggs={"n": agg.count()}, columns=["ts"],
        )  # fmt: skip
        found = 0
        for start in range(0, 20_000, 100):
            ts = list(range(start, start + 100))
            for source in join.sources:
                source.push(pa.table({"ts": ts, "k": [number % 7 for number in ts]}))
            found += sum(batch.num_rows for batch in iter(join.poll, None))
            assert join.stats()["state_rows"] < most
        assert found == 19_999


def test_a_limit_that_is_reached_loses_nothing():
    schema = pa.schema([("ts", pa.int64()), ("x", pa.int64())])
    join = IntervalJoin(
        schema, schema, on="ts", lower=-5, upper=0, aggs={"sum": agg.sum("x")}, prevailing=True,
        memory_limit=30_000,
    )  # fmt: skip
    left, right = join.sources
    table = pa.table({"ts": range(5_000), "x": range(5_000)})
    refused, found = 0, []
    for start in range(0, 5_000, 100):
        piece = table[start : start + 100]
        for source, other in ((left, right), (right, left)):
            try:
                source.push(piece)
            except MemoryLimitError:
                refused += 1
                other.advance(start)
                found.extend(iter(join.poll, None))
                source.push(piece)
        if start % 300 == 0:
            found.extend(iter(join.poll, None))
    left.close()
    right.close()
    found.extend(join)
    assert refused > 0
    wanted = interval_join(
        table, table, on="ts", lower=-5, upper=0, aggs={"sum": agg.sum("x")}, prevailing=True
    )
    assert pa.Table.from_batches(found).to_pylist() == wanted.to_pylist()


def test_rows_that_are_kept_count_towards_the_limit_until_they_leave():
    join = new(prevailing=True)
    for source, table in zip(join.sources, (LEFT, RIGHT), strict=True):
        source.push(table)
    assert join.stats()["memory"] > 0
    again = new(prevailing=True)
    again.restore(join.snapshot())
    assert again.stats()["memory"] > 0
    with pytest.raises(MemoryLimitError, match="the snapshot's rows and state"):
        new(prevailing=True, memory_limit=10).restore(join.snapshot())
    for one in (join, again):
        for source in one.sources:
            source.close()
        assert sum(batch.num_rows for batch in one) == 3
        assert one.stats()["memory"] == 0


@pytest.mark.parametrize(
    "other",
    [
        {"upper": 3},
        {"how": "inner"},
        {"by": None},
        {"closed": "left"},
        {"where": "left.l < right.r"},
        {"aggs": {"r": agg.max("r")}},
        {"aggs": {"r": agg.sum("r", where="row.r > 1")}},
        {"aggs": {"s": agg.sum("r")}},
        {"prevailing": True},
        {"sources": (2, 1)},
        {"columns": ["l"]},
        {"aggs": None, "how": "semi"},
    ],
)
def test_a_snapshot_is_of_one_query(other):
    join = new()
    join.left_sources[0].push(LEFT)
    with pytest.raises(StateError, match="another query"):
        new(**other).restore(join.snapshot())


def test_equal_histories_have_equal_snapshots_for_any_polls_and_threads():
    rng = campaign.rng("snapshots of partners")
    for _ in range(campaign.tries(10)):
        streams = draw(rng, rows=60)
        joins = [
            IntervalJoin(
                SCHEMA, SCHEMA, on="ts", by="k", lower=-4, upper=1, prevailing=True, aggs=AGGS,
                sources=streams.sources, lateness=streams.lateness, threads=threads, pin=False,
            )
            for threads in (1, 2)
        ]  # fmt: skip
        for number, event in streams.events(rng):
            for join in joins:
                happen(join, number, event)
            if rng.random() < 0.3:
                found = [[*iter(join.poll, None)] for join in joins]
                assert bits(pa.Table.from_batches(found[0], joins[0].schema)) == bits(
                    pa.Table.from_batches(found[1], joins[0].schema)
                )
            elif rng.random() < 0.3:
                joins[0].stats()
                assert joins[0].snapshot() == joins[1].snapshot()


@pytest.mark.slow
def test_damage_is_found_wherever_it_is():
    join = new(prevailing=True)
    join.left_sources[0].push(LEFT)
    join.right_sources[0].push(RIGHT)
    snapshot = join.snapshot()
    rng = random.Random(1)  # noqa: S311 - not for secrets
    for place in range(0, len(snapshot), 1 if campaign.ALL else 7):
        damaged = bytearray(snapshot)
        damaged[place] ^= 1 << rng.randrange(8)
        with pytest.raises(StateError):
            new(prevailing=True).restore(bytes(damaged))


def test_a_value_that_does_not_fit_names_the_left_row_and_stays_an_error():
    right = pa.table({"ts": [0, 0], "k": ["a", "a"], "r": [2**63 - 1, 1]})
    join = new(aggs={"n": agg.sum("r")}, lower=0, upper=0)
    left = pa.table({"ts": [-5, 0], "k": ["a", "a"], "l": [0, 0]})
    join.left_sources[0].push(left[:1])
    join.left_sources[0].advance(0)
    join.right_sources[0].advance(0)
    assert join.poll().num_rows == 1
    join.left_sources[0].push(left[1:])
    join.right_sources[0].push(right)
    for source in join.sources:
        source.close()
    for _ in range(2):
        with pytest.raises(TidegateError, match=r"left row 1 \(from 0, in merged order\)"):
            join.poll()


def test_a_condition_that_fails_stays_an_error():
    join = new(where="10 / left.l > right.r")
    join.left_sources[0].push(pa.table({"ts": [1], "k": ["a"], "l": [0]}))
    join.right_sources[0].push(RIGHT)
    for source in join.sources:
        source.close()
    for _ in range(2):
        with pytest.raises(TidegateError, match="zero"):
            join.poll()


def test_a_closed_join_says_so():
    join = new()
    join.left_sources[0].push(LEFT)
    join.close()
    with pytest.raises(ClosedError):
        join.poll()


def test_results_do_not_hold_the_rows_that_were_pushed():
    join = new(columns=["l"], upper=0)
    join.left_sources[0].push(LEFT)
    for source in join.sources:
        source.close()
    found = join.poll()
    # A slice of the pushed rows would keep all of their memory.
    assert found.column("l").buffers()[1].address != LEFT["l"].chunk(0).buffers()[1].address
    assert found["l"].to_pylist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("operator", "arguments", "words"),
    [
        (IntervalJoin, {"how": "full"}, 'give "left" for all of them'),
        (IntervalJoin, {"parallelism": "key"}, "parallelism: with aggs"),
        (IntervalJoin, {"lower": None, "prevailing": True}, "prevailing: no row precedes"),
        (IntervalJoin, {"aggs": None, "prevailing": True}, "prevailing: .* give aggs"),
        (IntervalJoin, {"aggs": {}}, "aggs"),
        (IntervalJoin, {"aggs": {"ts": agg.count()}}, "two columns `ts`"),
        (WindowJoin, {"algorithm": "cell", "window": 1}, "algorithm: aggregates of partners"),
        (WindowJoin, {"window": rows(2)}, "window: aggs over windows of rows are for whole tables"),
        (
            BandJoin,
            {"on": "ts", "within": 1, "time": "ts", "window": rows(2)},
            "window: aggs over windows of rows are for whole tables",
        ),
    ],
)
def test_refusals_say_what_to_write(operator, arguments, words):
    query = {"on": "ts", "aggs": QUERY["aggs"]}
    if operator is IntervalJoin:
        query |= {"lower": -1, "upper": 2}
    with pytest.raises(TidegateError, match=words):
        operator(LEFT.schema, RIGHT.schema, **(query | arguments))


def test_explain_says_what_is_kept_and_what_a_poll_costs():
    text = explain(IntervalJoin, LEFT, RIGHT, **QUERY, prevailing=True, ordered=False, threads=1)
    lines = text.splitlines()
    assert lines[0] == "interval_join (left), aggregates of partners"
    assert "  aggregates r = sum(r)" in lines
    assert any(line.startswith("  prevailing the last right row") for line in lines)
    assert any("right rows that are kept" in line for line in lines if "  cost" in line)
    assert any(
        "a later row with the same key replaces them" in line
        for line in lines
        if "  memory" in line
    )
    assert lines[-1].endswith("last time at which a right row can match, also with ordered=False")
