"""Sources that are added, become idle, resume and close during a run; lateness of each source.

A model in Python states from which watermark a source counts, which rows are late, and which rows
are emitted. It ignores polls, threads and snapshots, so the rows must not depend on them.
"""

import datetime as dt
import functools
import random
import threading
import zlib
from dataclasses import dataclass, field
from typing import Any, get_args

import pyarrow as pa
import pytest

import campaign
from tidegate import (
    Aggregate,
    AsofJoin,
    BandJoin,
    ClosedError,
    IntervalJoin,
    Merge,
    Operator,
    OrderError,
    Source,
    StateError,
    TidegateError,
    WindowJoin,
    agg,
    asof_join,
    band_join,
    interval_join,
    rows,
    window_join,
)
from tidegate.types import BandAlgorithm, WindowAlgorithm

SCHEMA = pa.schema([("ts", pa.int64()), ("n", pa.int64())])
LEFT = pa.schema([("ts", pa.int64()), ("l", pa.int64())])
RIGHT = pa.schema([("ts", pa.int64()), ("r", pa.int64())])
LEAST = -(1 << 63)


def taken(operator: Operator) -> list[dict[str, Any]]:
    return [row for batch in iter(operator.poll, None) for row in batch.to_pylist()]


def times(operator: Operator) -> list[int]:
    return [row["ts"] for row in taken(operator)]


@dataclass
class Modelled:
    """A source of the model."""

    number: int
    side: str | None
    lateness: int
    watermark: int = LEAST
    state: str = "active"
    taken: list[tuple[int, int]] = field(default_factory=list)
    late: list[int] = field(default_factory=list)
    # The events of the source in an operator that has all sources from the beginning.
    deeds: list[tuple[str, Any]] = field(default_factory=list)

    @property
    def rank(self) -> tuple[bool, int]:
        """The sort key of the source among rows with equal times: left sources sort first."""
        return self.side == "right", self.number


class Model:
    """A simple model of sources that are added, idle or closed."""

    def __init__(self, sides: list[str | None], lateness: list[int]) -> None:
        of_both = zip(sides, lateness, strict=True)
        self.sources = [Modelled(number, *both) for number, both in enumerate(of_both)]
        self.reached: dict[str | None, tuple[int, tuple[bool, int]]] = {}

    def look(self) -> None:
        """Record the progress of all sources together, and of each side."""
        for side in (None, "left", "right"):
            own = [source for source in self.sources if side in (None, source.side)]
            active = [(one.watermark, one.rank) for one in own if one.state == "active"]
            idle = [(one.watermark, one.rank) for one in own if one.state == "idle"]
            if active or idle:
                now = min(active) if active else max(idle)
                self.reached[side] = max(self.reached.get(side, now), now)

    def floor(self, source: Modelled) -> int:
        """The time at which an idle source resumes, so that its rows sort after earlier rows."""
        ts, last = self.reached[None]
        of_all = ts + 1 if source.rank < last and ts > LEAST else ts
        return max(source.watermark, of_all, self.floor_of(source.side))

    def floor_of_next(self, side: str | None) -> int:
        """The earliest time of an added source, so that its rows sort after all promises."""
        active = [(one.watermark, one.rank) for one in self.sources if one.state == "active"]
        idle = [(self.floor(one), one.rank) for one in self.sources if one.state == "idle"]
        ts, slowest = min(active + idle)
        rank = Modelled(len(self.sources), side, 0).rank
        return max(ts + 1 if rank < slowest else ts, self.floor_of(side))

    def floor_of(self, side: str | None) -> int:
        return self.reached[side][0] if side else LEAST

    def push(self, number: int, rows: list[tuple[int, int]]) -> None:
        source = self.sources[number]
        if source.state == "idle":
            self.look()
            source.watermark = self.floor(source)
            source.state = "active"
            source.deeds.append(("advance", source.watermark))
        for ts, n in rows:
            if ts < source.watermark:
                source.late.append(n)
                continue
            source.taken.append((ts, n))
            source.watermark = max(source.watermark, ts - source.lateness)
        source.deeds.append(("push", rows))
        self.look()

    def advance(self, number: int, ts: int) -> None:
        source = self.sources[number]
        source.watermark = max(source.watermark, ts)
        source.deeds.append(("advance", ts))
        self.look()

    def turn(self, number: int, state: str) -> None:
        self.look()
        self.sources[number].state = state
        if state == "closed":
            self.sources[number].deeds.append(("close", None))
        self.look()

    def add(self, side: str | None, since: int | None, lateness: int) -> None:
        self.look()
        number = len(self.sources)
        source = Modelled(number, side, lateness)
        source.watermark = self.floor_of_next(side) if since is None else since
        if source.watermark > LEAST:
            source.deeds.append(("advance", source.watermark))
        self.sources.append(source)

    def rows(self, side: str | None = None) -> list[tuple[int, int]]:
        """Return all rows that were not late, or only those of one side, in merged order."""
        keyed = [
            (ts, source.rank, at, n)
            for source in self.of(side)
            for at, (ts, n) in enumerate(sorted(source.taken, key=lambda row: row[0]))
        ]
        return [(ts, n) for ts, _, _, n in sorted(keyed)]

    def of(self, side: str | None) -> list[Modelled]:
        """Return the sources of a side, or all sources."""
        return [source for source in self.sources if side in (None, source.side)]


def push(source: Source, rows: list[tuple[int, int]]) -> None:
    source.push(rows)


class Play:
    """Random actions on an operator and its model."""

    def __init__(
        self, operator: Operator, model: Model, draw: random.Random, *, pace: int = 3
    ) -> None:
        self.operator, self.model, self.draw, self.pace = operator, model, draw, pace
        self.found: list[dict[str, Any]] = []
        self.clock, self.count = 0, 0

    def go_on(self, steps: int) -> None:
        deeds = [self.push, self.advance, self.idle, self.add, self.close, self.poll]
        for _ in range(steps):
            is_open = [one for one in self.model.sources if one.state != "closed"]
            (deed,) = self.draw.choices(deeds, [50, 8, 14, 8, 6, 30])
            deed(self.draw.choice(is_open))

    def push(self, source: Modelled) -> None:
        self.clock += self.draw.randint(0, self.pace)
        times = [self.clock - self.draw.randrange(8) for _ in range(self.draw.randrange(1, 5))]
        rows = [(ts, self.count + at) for at, ts in enumerate(times)]
        self.count += len(rows)
        self.operator.sources[source.number].push(rows)
        self.model.push(source.number, rows)

    def advance(self, source: Modelled) -> None:
        ts = self.clock - self.draw.randrange(8)
        self.operator.sources[source.number].advance(ts)
        self.model.advance(source.number, ts)

    def idle(self, source: Modelled) -> None:
        self.operator.sources[source.number].idle()
        if source.state == "active":
            self.model.turn(source.number, "idle")

    def add(self, beside: Modelled) -> None:
        """Add a source to a side that has at least one open source."""
        number, side = len(self.model.sources), beside.side
        if number == 9:
            return
        self.model.look()
        later = max(self.model.floor_of_next(side), self.clock - 3)
        since, lateness = self.draw.choice([None, later]), self.draw.randrange(4)
        added = self.operator.add_source(side=side, since=since, lateness=lateness)
        assert added.number == number
        self.model.add(side, since, lateness)

    def close(self, source: Modelled) -> None:
        """Close a source that is not the last one of its side."""
        others = [one for one in self.model.sources if one.side == source.side]
        if sum(one.state != "closed" for one in others) > 1:
            self.operator.sources[source.number].close()
            self.model.turn(source.number, "closed")

    def poll(self, _: Modelled) -> None:
        self.found += taken(self.operator)


def end(operator: Operator, model: Model) -> list[dict[str, Any]]:
    for source in model.sources:
        operator.sources[source.number].close()
    return taken(operator)


def from_the_beginning(operator: Operator, model: Model) -> list[dict[str, Any]]:
    """Return the results of an operator that has all sources from the beginning, fed one by one."""
    # The operator lists left sources first.
    for source, mine in zip(
        sorted(model.sources, key=lambda source: source.rank), operator.sources, strict=True
    ):
        for deed, what in source.deeds:
            getattr(mine, deed)(*(() if what is None else (what,)))
    for mine in operator.sources:
        mine.close()
    return taken(operator)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("seed", range(campaign.tries(20)))
def test_the_rows_of_a_merge_are_those_of_sources_that_were_always_there(seed: int, threads: int):
    draw = random.Random(seed)  # noqa: S311 - not for secrets
    lateness = [draw.randrange(5) for _ in range(draw.randrange(1, 4))]
    merge = Merge(SCHEMA, sources=len(lateness), lateness=lateness, threads=threads)
    model = Model([None] * len(lateness), list(lateness))
    play = Play(merge, model, draw)
    play.go_on(80)
    found = play.found + end(merge, model)
    assert [(row["ts"], row["n"]) for row in found] == model.rows(), seed
    late = merge.late()
    assert late["n"].to_pylist() == [n for source in model.sources for n in source.late]
    all_lateness = [source.lateness for source in model.sources]
    whole = Merge(SCHEMA, sources=len(all_lateness), lateness=all_lateness)
    assert from_the_beginning(whole, model) == found, seed
    columns = ["late_source", "late_position", "n"]
    assert whole.late().select(columns).equals(late.select(columns))


@pytest.mark.parametrize("seed", range(campaign.tries(20)))
def test_a_snapshot_has_sources_that_were_added_and_idle_ones(seed: int):
    draw = random.Random(seed)  # noqa: S311 - not for secrets
    lateness = [draw.randrange(5) for _ in range(draw.randrange(1, 4))]

    def made() -> Merge:
        return Merge(SCHEMA, sources=len(lateness), lateness=lateness)

    merge, model = made(), Model([None] * len(lateness), list(lateness))
    play = Play(merge, model, draw)
    for _ in range(6):
        play.go_on(15)
        saved = merge.snapshot()
        assert merge.snapshot() == saved
        play.operator = merge = made()
        merge.restore(saved)
        assert merge.snapshot() == saved, seed
        told = [(one["closed"], one["idle"]) for one in merge.stats()["sources"]]
        expected = [(one.state == "closed", one.state == "idle") for one in model.sources]
        assert told == expected
    found = play.found + end(merge, model)
    assert [(row["ts"], row["n"]) for row in found] == model.rows(), seed


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("how", ["inner", "left", "full", "anti"])
@pytest.mark.parametrize("seed", range(campaign.tries(4)))
def test_joins_give_what_the_tables_of_the_rows_in_time_give(seed: int, how: Any, *, ordered: bool):
    draw = random.Random(seed)  # noqa: S311 - not for secrets
    args: dict[str, Any] = {"on": "ts", "lower": -3, "upper": 2, "how": how}
    join = IntervalJoin(
        LEFT, RIGHT, **args, sources=(2, 1), lateness=([0, 2], [1]), ordered=ordered
    )
    model = Model(["left", "left", "right"], [0, 2, 1])
    play = Play(join, model, draw)
    play.go_on(80)
    found = play.found + end(join, model)
    expected = interval_join(*tables(model), **args).to_pylist()
    assert sorted(map(repr, found)) == sorted(map(repr, expected)), seed
    late = sorted(n for source in model.sources for n in source.late)
    told = [row.get("l") if row["late_side"] == "left" else row["r"] for row in late_rows(join)]
    assert sorted(told) == late


def tables(model: Model) -> tuple[pa.Table, pa.Table]:
    """Return the rows of each side that were not late, in merged order."""
    left = [{"ts": ts, "l": n} for ts, n in model.rows("left")]
    right = [{"ts": ts, "r": n} for ts, n in model.rows("right")]
    return pa.Table.from_pylist(left, LEFT), pa.Table.from_pylist(right, RIGHT)


NEAR = {"on": [("l", "r")], "within": 9, "time": "ts"}
JOINS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "interval": (IntervalJoin, interval_join, {"on": "ts", "lower": -1, "upper": 1}),
    "asof": (AsofJoin, asof_join, {"on": "ts"}),
    "asof-forward": (AsofJoin, asof_join, {"on": "ts", "strategy": "forward"}),
    "window": (WindowJoin, window_join, {"on": "ts", "window": 1}),
    "band": (BandJoin, band_join, NEAR | {"window": 1}),
}
LAST_ROWS = {"window": (rows(3), rows(2))}
for name in get_args(WindowAlgorithm):
    asked = {"on": "ts", "algorithm": name} | LAST_ROWS
    JOINS[f"window of rows, {name}"] = (WindowJoin, window_join, asked)
# Only whole tables can be sorted.
for name in sorted({*get_args(BandAlgorithm)} - {"sort"}):
    asked = NEAR | {"algorithm": name} | LAST_ROWS
    JOINS[f"band of rows, {name}"] = (BandJoin, band_join, asked)


@pytest.mark.parametrize("of", JOINS)
@pytest.mark.parametrize("seed", range(campaign.tries(5)))
def test_added_sources_of_a_join_have_the_places_of_sources_that_were_always_there(
    seed: int, of: str
):
    draw = random.Random(f"{seed} {of}")  # noqa: S311 - not for secrets
    operator, of_tables, args = JOINS[of]
    args = args | {"how": draw.choice(["inner", "left"])}
    lefts, rights = draw.randint(1, 2), draw.randint(1, 2)
    made = functools.partial(operator, LEFT, RIGHT, **args)
    join = made(sources=(lefts, rights))
    model = Model(["left"] * lefts + ["right"] * rights, [0] * (lefts + rights))
    # Most rows have the same time as another row.
    play = Play(join, model, draw, pace=1)
    play.go_on(40)
    if draw.random() < 0.5:
        play.operator = made(sources=(lefts, rights))
        play.operator.restore(join.snapshot())
    play.go_on(60)
    found = play.found + end(play.operator, model)
    sides = [model.of(side) for side in ("left", "right")]
    whole = made(
        sources=tuple(map(len, sides)),
        lateness=tuple([source.lateness for source in side] for side in sides),
    )
    assert found == from_the_beginning(whole, model), seed
    expected = of_tables(*tables(model), **args).to_pylist()
    assert sorted(map(repr, found)) == sorted(map(repr, expected)), seed


def late_rows(operator: Operator) -> list[dict[str, Any]]:
    return operator.late().to_pylist()


def test_late_rows_of_an_added_source_are_numbered_on_their_side():
    join = IntervalJoin(LEFT, RIGHT, on="ts", lower=0, upper=0)
    join.sources[0].push([(10, 0)])
    added = join.add_source(side="left")
    assert [source.number for source in join.left_sources] == [0, 2]
    assert [source.number for source in join.right_sources] == [1]
    added.push([(9, 1)])
    (late,) = late_rows(join)
    assert (late["late_side"], late["late_source"], late["late_watermark"]) == ("left", 1, 10)
    assert join.stats()["sources"][2]["name"] == "left source 1"


def test_an_asof_join_takes_sources():
    join = AsofJoin(LEFT, RIGHT, on="ts")
    join.sources[1].push([(1, 1)])
    added = join.add_source(side="right")
    added.push([(2, 2)])
    join.sources[0].push([(3, 0)])
    for source in join.sources:
        source.close()
    assert [row["r"] for row in taken(join)] == [2]


def test_rows_of_a_left_source_come_before_right_rows_of_their_time_whenever_it_was_added():
    join = WindowJoin(LEFT, RIGHT, on="ts", window=rows(1))
    left, right = join.sources
    added = join.add_source(side="left")
    for source, number in ((right, 10), (right, 11), (left, 1), (added, 2)):
        source.push([(5, number)])
    for source in join.sources:
        source.close()
    # Left rows sort first. The window contains the last of them, which is from the added source.
    assert [(row["l"], row["r"]) for row in taken(join)] == [(2, 10), (2, 11)]


def test_a_left_source_begins_after_right_rows_that_were_handed_out():
    join = WindowJoin(LEFT, RIGHT, on="ts", window=rows(1))
    left, right = join.sources
    left.idle()
    push(right, [(10, 0), (10, 1)])
    assert taken(join) == []
    with pytest.raises(OrderError, match=r"since: rows before 11 \(integer\) may .*, got 10"):
        join.add_source(side="left", since=10)
    added = join.add_source(side="left")
    push(added, [(10, 2), (11, 3)])
    assert [row["l"] for row in late_rows(join)] == [2]
    # Right rows may still follow at 10.
    push(join.add_source(side="right", since=10), [(10, 4)])
    for source in join.sources:
        source.close()
    assert [(row["l"], row["r"]) for row in taken(join)] == [(3, 4)]


def test_rows_wait_for_an_added_left_source_before_a_right_one():
    join = IntervalJoin(LEFT, RIGHT, on="ts", lower=0, upper=0)
    push(join.sources[1], [(5, 0)])
    join.add_source(side="left", since=5)
    push(join.sources[0], [(7, 1)])
    assert join.stats()["waiting"]["source"] == "left source 1"


# Idle sources


def test_others_go_on_without_an_idle_source_at_once():
    merge = Merge(SCHEMA, sources=3)
    push(merge.sources[1], [(5, 0), (6, 1)])
    merge.sources[2].close()
    assert times(merge) == []
    merge.sources[0].idle()
    assert times(merge) == [5, 6]
    # The idle source would sort before a row at 6.
    push(merge.sources[0], [(6, 2), (7, 3)])
    assert merge.late()["n"].to_pylist() == [2]
    push(merge.sources[1], [(8, 4)])
    assert times(merge) == [7]


def test_rows_that_lateness_holds_back_come_with_the_watermark_of_the_others():
    merge = Merge(SCHEMA, sources=2, lateness=[10, 0])
    push(merge.sources[0], [(20, 0)])
    merge.sources[0].idle()
    push(merge.sources[1], [(5, 1)])
    assert times(merge) == [5]
    push(merge.sources[1], [(30, 2)])
    assert times(merge) == [20, 30]


def test_the_watermark_stands_still_where_all_sources_are_idle():
    merge = Merge(SCHEMA, sources=2, lateness=3)
    push(merge.sources[0], [(10, 0)])
    push(merge.sources[1], [(20, 1)])
    for source in merge.sources:
        source.idle()
        source.idle()
    assert times(merge) == [10]
    assert merge.stats()["waiting"]["rows"] == 1
    merge.sources[0].advance(21)
    assert times(merge) == [20]


def test_an_idle_source_is_not_the_one_that_others_wait_for():
    merge = Merge(SCHEMA, sources=3)
    push(merge.sources[2], [(5, 0)])
    assert merge.stats()["waiting"]["source"] == "source 0"
    merge.sources[0].idle()
    assert merge.stats()["waiting"]["source"] == "source 1"
    assert "1 rows, for source 1, which has been silent" in merge.explain()
    assert [one["idle"] for one in merge.stats()["sources"]] == [True, False, False]


def test_a_push_that_is_refused_leaves_a_source_idle():
    merge = Merge(SCHEMA, sources=2, memory_limit=500)
    merge.sources[0].idle()
    with pytest.raises(TidegateError, match="memory_limit"):
        push(merge.sources[0], [(1, n) for n in range(100)])
    push(merge.sources[0], [])
    assert merge.stats()["sources"][0]["idle"]
    push(merge.sources[0], [(1, 0)])
    assert not merge.stats()["sources"][0]["idle"]


def test_a_closed_source_cannot_be_idle():
    merge = Merge(SCHEMA)
    merge.sources[0].close()
    with pytest.raises(ClosedError, match="source 0 is closed: rows cannot follow its end"):
        merge.sources[0].idle()


def test_feeders_on_threads_take_turns_in_being_idle():
    merge = Merge(SCHEMA, sources=4)

    def feed(source: Source) -> None:
        for n in range(200):
            source.push([(n, n)])
            if n % 3 == 0:
                source.idle()
        source.close()

    threads = [threading.Thread(target=feed, args=(source,)) for source in merge.sources]
    for thread in threads:
        thread.start()
    found = [row for batch in merge for row in batch["ts"].to_pylist()]
    for thread in threads:
        thread.join()
    assert found == sorted(found)
    stats = merge.stats()
    assert stats["rows_in"] == 800
    assert len(found) + stats["rows_late"] == 800


# Adding sources


def test_a_source_begins_no_earlier_than_the_operator_has_come():
    merge = Merge(SCHEMA, sources=2)
    push(merge.sources[0], [(10, 0)])
    push(merge.sources[1], [(7, 1)])
    with pytest.raises(OrderError, match=r"since: rows before 7 \(integer\) may .*, got 6"):
        merge.add_source(since=6)
    assert merge.add_source(since=7).number == 2
    assert merge.add_source(since=12).number == 3
    watermarks = [one["watermark"] for one in merge.stats()["sources"]]
    assert watermarks == [10, 7, 7, 12]


def test_a_source_begins_where_idle_ones_would_go_on():
    merge = Merge(SCHEMA, sources=2)
    push(merge.sources[0], [(5, 0)])
    merge.sources[0].idle()
    push(merge.sources[1], [(10, 1)])
    merge.sources[1].close()
    assert times(merge) == [5, 10]
    # A row from the idle source at 10 would be late.
    assert merge.stats()["watermark"] == 11
    with pytest.raises(OrderError, match="rows before 11"):
        merge.add_source(since=10)
    push(merge.add_source(), [(10, 2), (11, 3)])
    assert (times(merge), merge.late()["n"].to_pylist()) == ([11], [2])


def test_a_source_begins_at_a_time():
    schema = pa.schema({"ts": pa.timestamp("s")})
    merge = Merge(schema)
    merge.add_source(since=dt.datetime(2024, 1, 1))  # noqa: DTZ001 - naive
    assert merge.stats()["sources"][1]["watermark"] == 1704067200
    with pytest.raises(TypeError, match="since: expected a time of column `ts`"):
        merge.add_source(since="2024-01-01")  # type: ignore[arg-type]


def test_no_source_is_added_behind_the_end():
    merge = Merge(SCHEMA)
    merge.sources[0].close()
    with pytest.raises(ClosedError, match=r"all sources are closed.*before the last one is closed"):
        merge.add_source()
    join = IntervalJoin(LEFT, RIGHT, on="ts", lower=0, upper=0)
    join.sources[1].close()
    with pytest.raises(ClosedError, match="all right sources are closed"):
        join.add_source(side="right")
    assert join.add_source(side="left").number == 2
    join.close()
    with pytest.raises(ClosedError, match="the join is closed"):
        join.add_source(side="left")


def test_a_source_needs_a_side_where_there_are_sides():
    join = IntervalJoin(LEFT, RIGHT, on="ts", lower=0, upper=0)
    with pytest.raises(TidegateError, match=r'write add_source\(side="left"\)'):
        join.add_source()
    with pytest.raises(TidegateError, match=r"side: a merge has no sides; write add_source\(\)"):
        Merge(SCHEMA).add_source(side="left")
    with pytest.raises(TidegateError, match="side"):
        join.add_source(side="both")  # type: ignore[arg-type]


@pytest.mark.parametrize("function", [agg.count(), agg.median("n")])
def test_an_aggregation_keeps_its_sources_and_says_what_to_do(function: Any):
    windows = Aggregate(SCHEMA, on="ts", size=10, aggs={"a": function})
    with pytest.raises(TidegateError, match=r"add sources to a tidegate.Merge, and run the merge"):
        windows.add_source()
    # The message's advice works.
    merge = Merge(SCHEMA)
    with merge.running(windows.sources[0]):
        added = merge.add_source()
        push(merge.sources[0], [(1, 1)])
        push(added, [(2, 3)])
    assert [row["a"] for row in taken(windows)] == [2]


def test_a_snapshot_is_restored_before_sources_are_added():
    merge = Merge(SCHEMA)
    merge.add_source()
    saved = merge.snapshot()
    used = Merge(SCHEMA)
    used.add_source()
    with pytest.raises(StateError, match="unused"):
        used.restore(saved)
    again = Merge(SCHEMA)
    again.restore(saved)
    assert len(again.sources) == 2


def test_a_snapshot_of_plain_sources_is_of_the_first_version():
    merge = Merge(SCHEMA, sources=2)
    assert merge.snapshot()[8:10] == b"\x01\x00"
    merge.sources[0].idle()
    assert merge.snapshot()[8:10] == b"\x02\x00"


@pytest.mark.slow
def test_a_damaged_snapshot_of_sources_is_refused_or_harmless():
    merge = Merge(SCHEMA, sources=2, lateness=2)
    merge.add_source(lateness=1).push([(5, 0)])
    merge.sources[0].push([(7, 1)])
    merge.sources[0].idle()
    content = merge.snapshot()[:-4]
    refused = []
    step = 1 if campaign.ALL else 5
    for at in range(10, len(content), step):
        for flip in (0x01, 0x80):
            damaged = bytearray(content)
            damaged[at] ^= flip
            saved = bytes(damaged) + zlib.crc32(damaged).to_bytes(4, "little")
            again = Merge(SCHEMA, sources=2, lateness=2)
            try:
                again.restore(saved)
                for source in again.sources:
                    source.close()
                taken(again)
            except TidegateError as error:
                refused.append(str(error))
    assert len(refused) > 100 / step
    assert [text for text in refused if "bug" in text] == []


def test_a_source_that_is_added_shares_the_memory_limit():
    merge = Merge(SCHEMA, memory_limit=1000)
    added = merge.add_source()
    push(added, [(1, 0)])
    assert merge.stats()["sources"][1]["memory"] > 0
    merge.sources[0].close()
    added.close()
    assert times(merge) == [1]
    assert merge.stats()["memory"] == 0


# Lateness


def test_each_source_has_its_lateness():
    merge = Merge(SCHEMA, sources=2, lateness=[0, 5])
    assert "0, 5 (integer), a value for each source" in merge.explain()
    for source in merge.sources:
        push(source, [(10, 0), (6, 1)])
        source.close()
    assert times(merge) == [6, 10, 10]
    with pytest.raises(TidegateError, match=r"its own; write add_source\(lateness=...\)"):
        Merge(SCHEMA, sources=2, lateness=[0, 5]).add_source()


def test_a_list_of_lateness_has_a_value_for_each_source():
    with pytest.raises(TidegateError, match="each of the 2 sources, got a list of 3"):
        Merge(SCHEMA, sources=2, lateness=[1, 2, 3])
    with pytest.raises(TypeError, match=r"lateness\[1\]"):
        Merge(SCHEMA, sources=2, lateness=[1, object()])  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"write a pair of lists, lateness=\(\[left"):
        IntervalJoin(LEFT, RIGHT, on="ts", lower=0, upper=0, lateness=[1, 2])  # type: ignore[arg-type]
    with pytest.raises(TidegateError, match="each of the 1 right sources, got a list of 2"):
        IntervalJoin(LEFT, RIGHT, on="ts", lower=0, upper=0, lateness=(0, [1, 2]))


def test_an_aggregation_has_a_lateness_for_each_source():
    windows = Aggregate(
        SCHEMA, on="ts", size=10, aggs={"n": agg.count()}, sources=2, lateness=[0, 5]
    )
    for source in windows.sources:
        push(source, [(12, 0), (8, 1)])
        source.close()
    assert [(row["window_start"], row["n"]) for row in taken(windows)] == [(0, 1), (10, 2)]


def test_one_lateness_for_all_is_the_same_query_as_before():
    one, other = Merge(SCHEMA, lateness=3), Merge(SCHEMA, lateness=[3])
    other_saved = other.snapshot()
    with pytest.raises(StateError, match="lateness"):
        one.restore(other_saved)
