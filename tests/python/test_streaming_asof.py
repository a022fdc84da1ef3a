"""As-of joins over streams have the rows of tables, in an order that only the rows determine."""

import random
from typing import Any

import pyarrow as pa
import pytest

import campaign
from partner_streams import SCHEMA, bits, draw, happen, play
from tidegate import (
    AsofJoin,
    MemoryLimitError,
    SchemaError,
    StateError,
    TidegateError,
    asof_join,
    explain,
)

pytestmark = pytest.mark.timeout(600)

WHERE: dict[str, Any] = {
    "none": None,
    "right": "right.x > 0",
    "left": "left.x > 0",
    "each": "left.x > -3 and right.x < 5",
    "both": "left.x < right.x",
    "both, and it may fail": "left.x + right.x > 0",
}


def query(rng: random.Random) -> dict[str, Any]:
    return {
        "on": "ts",
        "by": rng.choice([None, "k", "k", ["k", "s"]]),
        "strategy": rng.choice(["backward", "forward", "nearest"]),
        "tolerance": rng.choice([None, 0, 2, 6]),
        "allow_exact_matches": rng.random() < 0.7,
        "where": rng.choice([*WHERE.values()]),
        "how": rng.choice(["left", "left", "inner", "semi", "anti"]),
    }


def final_times(left: pa.Table, right: pa.Table, asked: dict[str, Any]) -> dict[int, float]:
    """Return, for each left row by its id, the time that must pass before its partner is final."""
    both = asof_join(left, right, **{**asked, "how": "left", "columns": None}).to_pylist()
    names = ["k"] if asked["by"] == "k" else asked["by"] or []
    found = {}
    for row in both:
        keyless = any(row[name] is None for name in names)
        # A part of the condition that reads only the left row.
        bound = {WHERE["left"]: 0, WHERE["each"]: -3}.get(asked["where"])
        ruled_out = bound is not None and (row["x"] is None or row["x"] <= bound)
        if asked["strategy"] == "backward" or keyless or ruled_out:
            wait = 0
        elif row["id_right"] is not None:
            wait = abs(row["ts_right"] - row["ts"])
        else:
            wait = float("inf") if asked["tolerance"] is None else asked["tolerance"]
        found[row["id"]] = row["ts"] + wait
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(campaign.tries(80)))
def test_rows_are_those_of_tables_in_an_order_of_their_own(seed):
    rng = campaign.rng(f"as of {seed}")
    streams = draw(rng, keys=rng.choice([1, 3, 8]))
    asked = query(rng)
    given = asked | {"sources": streams.sources, "lateness": streams.lateness, "pin": False}

    def make(**more: object) -> AsofJoin:
        return AsofJoin(SCHEMA, SCHEMA, **given, **more)

    wanted = asof_join(streams.left, streams.right, **asked)
    finals = final_times(streams.left, streams.right, asked)
    order = sorted(range(wanted.num_rows), key=lambda at: finals[wanted["id"][at].as_py()])

    def is_not_early(join: AsofJoin) -> None:
        watermark = join.stats()["watermark"]
        if watermark is not None:
            due = [ts for ts in finals.values() if ts < watermark]
            assert asked["how"] != "left" or join.stats()["rows_out"] == len(due)

    found = play(make, streams, rng, checks=is_not_early)
    assert found.schema == wanted.schema
    assert bits(found) == bits(wanted.take(pa.array(order, pa.int64())))


def test_equal_histories_have_equal_snapshots_for_any_polls_and_threads():
    rng = campaign.rng("snapshots of as-of joins")
    for _ in range(campaign.tries(60)):
        streams = draw(rng, rows=60)
        asked = query(rng) | {"sources": streams.sources, "lateness": streams.lateness}
        joins = [AsofJoin(SCHEMA, SCHEMA, **asked, threads=n, pin=False) for n in (1, 2)]
        for number, event in streams.events(rng):
            for join in joins:
                happen(join, number, event)
            if rng.random() < 0.3:
                for join in joins:
                    list(iter(join.poll, None))
            elif rng.random() < 0.3:
                # A snapshot makes this join search its rows more often.
                joins[0].snapshot()
            elif rng.random() < 0.3:
                assert joins[0].snapshot() == joins[1].snapshot()
        assert joins[0].snapshot() == joins[1].snapshot()


@pytest.mark.parametrize("strategy", ["backward", "forward", "nearest"])
def test_more_rows_than_an_epoch_takes(strategy):
    rng = campaign.rng("epochs of as-of joins")
    of_left, of_right = (
        pa.table(
            {
                "ts": sorted(rng.choices(range(900_000), k=300_000)),
                "k": rng.choices(range(40), k=300_000),
                "x": range(300_000),
            }
        )
        for _ in range(2)
    )
    asked = {"on": "ts", "by": "k", "strategy": strategy, "columns": ["x", "x_right"]}
    found = []
    with AsofJoin(NARROW, NARROW, threads=2, pin=False, **asked) as join:
        for source, table in zip(join.sources, (of_left, of_right), strict=True):
            source.push(table)
            source.close()
        found.extend(join)
        assert join.stats()["state_rows"] == 0
    wanted = asof_join(of_left, of_right, **asked)
    assert pa.Table.from_batches(found).sort_by("x").equals(wanted.combine_chunks())


NARROW = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("x", pa.int64())])


def grow(**asked: Any) -> list[int]:
    """Return the number of kept rows after each of many pushes of few keys."""
    join = AsofJoin(NARROW, NARROW, on="ts", by="k", **asked)
    kept = []
    for start in range(0, 40_000, 200):
        ts = list(range(start, start + 200))
        piece = pa.table({"ts": ts, "k": [at % 5 for at in ts], "x": [at % 3 for at in ts]})
        for source in join.sources:
            source.push(piece)
        while join.poll() is not None:
            pass
        kept.append(join.stats()["state_rows"])
    return kept


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"where": "right.x > 0"},
        {"tolerance": 10_000},
        {"strategy": "nearest"},
        {"strategy": "nearest", "where": "right.x > 0"},
        {"strategy": "forward"},
        {"where": "left.x < right.x", "tolerance": 100},
        {"where": "left.x < right.x", "strategy": "nearest", "tolerance": 100},
    ],
)
def test_the_state_is_bounded_where_keys_are_few(asked):
    assert max(grow(**asked)) < 2_000


def test_a_condition_on_pairs_without_a_tolerance_keeps_all_right_rows():
    assert grow(where="left.x < right.x")[-1] >= 40_000


def test_a_snapshot_has_one_right_row_a_key():
    join = AsofJoin(NARROW, NARROW, on="ts", by="k")
    ts = list(range(1_000))
    join.right_sources[0].push(pa.table({"ts": ts, "k": [at % 5 for at in ts], "x": ts}))
    join.left_sources[0].advance(2_000)
    join.right_sources[0].advance(2_000)
    again = AsofJoin(NARROW, NARROW, on="ts", by="k")
    again.restore(join.snapshot())
    assert again.stats()["state_rows"] == 5
    again.left_sources[0].push(pa.table({"ts": [2_000] * 3, "k": [0, 4, 9], "x": [0] * 3}))
    for source in again.sources:
        source.close()
    assert again.poll()["x_right"].to_pylist() == [995, 999, None]


LEFT = pa.table({"ts": [1, 4, 9], "k": ["a", "b", "a"], "l": [1, 2, 3]})
RIGHT = pa.table({"ts": [0, 4, 6, 9], "k": ["a", "b", "a", "a"], "r": [10, 20, 30, 40]})


def new(**arguments: Any) -> AsofJoin:
    query = {"on": "ts", "by": "k", "columns": ["l", "r"]} | arguments
    return AsofJoin(LEFT.schema, RIGHT.schema, **query)


def polled(join: AsofJoin) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for batch in iter(join.poll, None) for row in batch.to_pylist()]


def test_a_left_row_comes_when_no_partner_can_come():
    join = new()
    join.left_sources[0].push(LEFT)
    join.right_sources[0].push(RIGHT[:1])
    assert polled(join) == []
    join.right_sources[0].advance(1)
    assert polled(join) == []
    join.right_sources[0].advance(2)
    assert polled(join) == [(1, 10)]
    join.right_sources[0].push(RIGHT[1:])
    assert polled(join) == [(2, 20)]
    join.left_sources[0].close()
    assert polled(join) == []
    join.right_sources[0].close()
    assert polled(join) == [(3, 40)]


def test_a_row_that_waits_does_not_hold_later_rows_back():
    join = new(strategy="forward", allow_exact_matches=False)
    join.left_sources[0].push(LEFT)
    join.right_sources[0].push(RIGHT)
    # The row of "b" at 4 is still unmatched, and so is that of "a" at 9.
    assert polled(join) == [(1, 30)]
    for source in join.sources:
        source.close()
    assert polled(join) == [(2, None), (3, None)]


def test_the_nearest_row_is_final_once_no_other_is_nearer():
    join = new(strategy="nearest")
    join.left_sources[0].push(LEFT[:1])
    join.left_sources[0].advance(100)
    join.right_sources[0].push(RIGHT[:1])
    join.right_sources[0].advance(2)
    # A row at 2 would be as far away as the one at 0, which is preferred.
    assert polled(join) == []
    join.right_sources[0].advance(3)
    assert polled(join) == [(1, 10)]


def test_a_limit_that_is_reached_loses_nothing():
    join = AsofJoin(NARROW, NARROW, on="ts", by="k", memory_limit=60_000)
    of_left, of_right = join.sources
    ts = list(range(6_000))
    table = pa.table({"ts": ts, "k": [at % 40 for at in ts], "x": ts})
    refused, found = 0, []
    for start in range(0, 6_000, 100):
        piece = table[start : start + 100]
        for source, other in ((of_right, of_left), (of_left, of_right)):
            try:
                source.push(piece)
            except MemoryLimitError:
                refused += 1
                other.advance(start)
                found.extend(iter(join.poll, None))
                source.push(piece)
    for source in join.sources:
        source.close()
    found.extend(join)
    assert refused > 0
    assert join.stats()["memory"] == 0
    wanted = asof_join(table, table, on="ts", by="k")
    assert pa.Table.from_batches(found).to_pylist() == wanted.to_pylist()


@pytest.mark.parametrize(
    "other",
    [
        {"strategy": "nearest"},
        {"tolerance": 3},
        {"allow_exact_matches": False},
        {"by": None},
        {"how": "inner"},
        {"where": "left.l < right.r"},
        {"columns": ["l"]},
        {"lateness": 1},
    ],
)
def test_a_snapshot_is_of_one_query(other):
    join = new()
    join.left_sources[0].push(LEFT)
    with pytest.raises(StateError, match="another query"):
        new(**other).restore(join.snapshot())


def test_damage_is_found_wherever_it_is():
    join = new(strategy="nearest")
    join.left_sources[0].push(LEFT)
    join.right_sources[0].push(RIGHT)
    snapshot = join.snapshot()
    rng = random.Random(1)  # noqa: S311 - not for secrets
    for place in range(0, len(snapshot), 1 if campaign.ALL else 7):
        damaged = bytearray(snapshot)
        damaged[place] ^= 1 << rng.randrange(8)
        with pytest.raises(StateError):
            new(strategy="nearest").restore(bytes(damaged))


def test_times_of_two_units_are_compared_as_instants():
    of_left = pa.table({"ts": pa.array([1, 2, 4], pa.timestamp("s")), "l": [1, 2, 3]})
    of_right = pa.table({"ts": pa.array([999, 1_500, 3_000], pa.timestamp("ms")), "r": [1, 2, 3]})
    query = {"on": "ts", "strategy": "nearest", "tolerance": "600ms", "columns": ["l", "r"]}
    join = AsofJoin(of_left, of_right, **query)
    for source, table in zip(join.sources, (of_left, of_right), strict=True):
        for at in range(3):
            source.push(table[at : at + 1])
        source.close()
    found = pa.Table.from_batches(list(join))
    assert found.to_pylist() == asof_join(of_left, of_right, **query).to_pylist()
    assert found["r"].to_pylist() == [1, 2, None]


def test_wide_text_and_dictionaries_ride_along():
    words = pa.array(["x", "y", None, "x"]).dictionary_encode()
    of_right = RIGHT.append_column("w", words).append_column("t", pa.array(["é" * 99] * 4))
    join = AsofJoin(LEFT, of_right, on="ts", by="k", columns=["l", "w", "t"])
    for source, table in zip(join.sources, (LEFT, of_right), strict=True):
        source.push(table)
    again = AsofJoin(LEFT, of_right, on="ts", by="k", columns=["l", "w", "t"])
    again.restore(join.snapshot())
    for source in again.sources:
        source.close()
    found = pa.Table.from_batches(list(again)).to_pylist()
    assert found == asof_join(LEFT, of_right, on="ts", by="k", columns=["l", "w", "t"]).to_pylist()
    assert [row["w"] for row in found] == ["x", "y", "x"]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"how": "full"}, TidegateError, "how must be one of left, inner, semi, anti"),
        ({"tolerance": -1}, TidegateError, "tolerance"),
        ({"tolerance": "1s"}, SchemaError, "tolerance"),
        ({"strategy": "sideways"}, TidegateError, "strategy"),
        ({"on": "nothing"}, SchemaError, "nothing"),
        ({"columns": ["nothing"]}, SchemaError, "nothing"),
        ({"aggs": {}}, TypeError, "aggs"),
    ],
)
def test_bad_arguments(arguments, error, words):
    with pytest.raises(error, match=words):
        new(**arguments)


def test_a_condition_that_fails_stays_an_error():
    join = new(where="left.l / (right.r - 10) > 0")
    for source, table in zip(join.sources, (LEFT, RIGHT), strict=True):
        source.push(table)
        source.close()
    for _ in range(2):
        with pytest.raises(TidegateError, match="zero"):
            join.poll()


def test_explain_says_what_is_kept_and_what_a_poll_costs():
    def memory(**asked: Any) -> str:
        text = explain(AsofJoin, LEFT, RIGHT, on="ts", by="k", threads=1, **asked)
        assert "  cost       a poll with final rows" in text
        return next(line for line in text.splitlines() if line.startswith("  memory"))

    assert "the last right row for each key" in memory()
    assert "right rows until they are ready" in memory(strategy="forward")
    assert "there is no tolerance" in memory(where="left.l < right.r")
    assert "until they are outside the tolerance" in memory(where="left.l < right.r", tolerance=3)
