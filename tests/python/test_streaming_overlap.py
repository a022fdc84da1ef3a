"""Overlap joins of streams return the rows of tables, in an order that only the rows determine."""

import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import campaign
from partner_streams import SCHEMA, Streams, bits, draw, play
from tidegate import (
    Chain,
    IntervalJoin,
    OverlapJoin,
    SchemaError,
    StateError,
    TidegateError,
    agg,
    explain,
    overlap_join,
)

pytestmark = pytest.mark.timeout(600)

HOWS = ["inner", "left", "right", "full", "semi", "anti"]
LONGEST = 6
SPANS = SCHEMA.append(pa.field("end", pa.int64()))
POINTS = (("ts", "ts"), ("ts", "end"))
WHERE: dict[str | None, Any] = {
    None: lambda _a, _b: True,
    "left.x < right.x": lambda a, b: None not in (a["x"], b["x"]) and a["x"] < b["x"],
}


def spans(table: pa.Table) -> pa.Table:
    """Add an end to each row, up to `LONGEST` after its time."""
    rows = zip(table["ts"].to_pylist(), table["x"].to_pylist(), strict=True)
    ends = [None if x is None else ts + x % (LONGEST + 1) for ts, x in rows]
    return table.append_column("end", pa.array(ends, pa.int64()))


def drawn(rng: random.Random, **more: int) -> Streams:
    """Draw streams of rows that have an end."""
    streams = draw(rng, **more)
    histories = [
        [(number, spans(event) if isinstance(event, pa.Table) else event) for number, event in one]
        for one in streams.histories
    ]
    left, right = spans(streams.left), spans(streams.right)
    return replace(streams, histories=histories, left=left, right=right)


def query(rng: random.Random) -> dict[str, Any]:
    return {
        "on": rng.choice([("ts", "end"), ("ts", "end"), POINTS, POINTS[::-1]]),
        "by": rng.choice([None, "k", ["k", "s"]]),
        "where": rng.choice([*WHERE]),
        "closed": rng.choice(["both", "left"]),
        "min_overlap": rng.choice([None, None, 0, 2]),
    }


def widths(asked: dict[str, Any]) -> tuple[int, int]:
    """Return the maximum length of the rows on each side."""
    sides = asked["on"] if isinstance(asked["on"][0], tuple) else (asked["on"],) * 2
    left, right = (LONGEST if start != end else 0 for start, end in sides)
    return left, right


def in_order(streams: Streams, asked: dict[str, Any], how: str) -> list[tuple[Any, Any]]:
    """Return the ids of the results of a nested loop, in the order of a stream."""
    sides = asked["on"] if isinstance(asked["on"][0], tuple) else (asked["on"],) * 2
    left, right = (
        [(at, row, row[start], row[end]) for at, row in enumerate(table.to_pylist())]
        for table, (start, end) in zip((streams.left, streams.right), sides, strict=True)
    )
    names = [asked["by"]] if isinstance(asked["by"], str) else asked["by"] or []
    least = max(asked["min_overlap"] or 0, 1 if asked["closed"] == "left" else 0)

    def meets(a: tuple, b: tuple) -> bool:
        (_, one, start, end), (_, other, other_start, other_end) = a, b
        if end is None or other_end is None:
            return False
        # The length of the common part, and the lengths of both rows.
        common = min(end, other_end) - max(start, other_start)
        lengths = common, end - start, other_end - other_start
        keys = all(one[name] is not None and one[name] == other[name] for name in names)
        return keys and min(lengths) >= least and WHERE[asked["where"]](one, other)

    # The place of a pair: the time of its later row, then both rows in merged order.
    pairs = {
        (max(a[2], b[2]), 0, *sorted([(a[2], 0, a[0]), (b[2], 1, b[0])], reverse=True)): (a, b)
        for a in left
        for b in right
        if meets(a, b)
    }
    found: dict[tuple, tuple] = {}
    if how == "semi":
        firsts = {a[0]: place for place, (a, _) in sorted(pairs.items(), reverse=True)}
        found |= {place: (left[at][1]["id"],) for at, place in firsts.items()}
    elif how != "anti":
        found |= {place: (a[1]["id"], b[1]["id"]) for place, (a, b) in pairs.items()}
    keeps = how in ("left", "full", "anti"), how in ("right", "full")
    for side, rows in enumerate((left, right)):
        most = max(widths(asked)[side] - least, 0)
        matched = {pair[side][0] for pair in pairs.values()}
        alone = [row for row in rows if keeps[side] and row[0] not in matched]
        for at, row, start, _ in alone:
            ids = (row["id"], None) if side == 0 else (None, row["id"])
            found[start + most, 1, (start, side, at)] = ids[: 1 if how == "anti" else 2]
    return [found[place] for place in sorted(found)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(campaign.tries(60)))
def test_oracle_rows_are_those_of_a_loop_in_merged_order(seed):
    rng = campaign.rng(f"overlap {seed}")
    streams, asked, how = drawn(rng, keys=rng.choice([1, 3])), query(rng), HOWS[seed % 6]
    columns = ["id"] if how in ("semi", "anti") else ["id", "id_right"]
    given = asked | {
        "how": how,
        "columns": columns,
        "sources": streams.sources,
        "lateness": streams.lateness,
        "max_width": rng.choice([LONGEST, widths(asked)]),
    }

    def make(**more: object) -> OverlapJoin:
        return OverlapJoin(SPANS, SPANS, **given, **more)

    wanted = in_order(streams, asked, how)
    found = play(make, streams, rng)
    assert [tuple(row.values()) for row in found.to_pylist()] == wanted
    table = overlap_join(streams.left, streams.right, **asked, how=how, columns=columns)
    assert found.schema == table.schema
    assert sorted(bits(found)) == sorted(bits(table))
    eager = play(lambda **more: make(ordered=False, **more), streams, rng, restores=False)
    assert sorted(bits(eager)) == sorted(bits(table))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(campaign.tries(20)))
def test_aggregates_are_those_of_tables_in_merged_order(seed):
    rng = campaign.rng(f"aggregates of overlaps {seed}")
    streams = drawn(rng)
    asked = query(rng) | {
        "how": rng.choice(["left", "inner"]),
        "aggs": {"n": agg.count(), "sum": agg.sum("v"), "last": agg.last("id")},
    }
    given = asked | {"sources": streams.sources, "lateness": streams.lateness}
    found = play(
        lambda **more: OverlapJoin(SPANS, SPANS, **given, max_width=LONGEST, **more), streams, rng
    )
    assert bits(found) == bits(overlap_join(streams.left, streams.right, **asked))


def test_equal_histories_have_equal_snapshots_for_any_number_of_threads():
    rng = campaign.rng("snapshots of overlap joins")
    for how in HOWS[: campaign.tries(3)]:
        streams = drawn(rng, rows=60)
        asked = query(rng) | {"sources": streams.sources, "lateness": streams.lateness}
        joins = [
            OverlapJoin(SPANS, SPANS, **asked, max_width=LONGEST, how=how, threads=n)
            for n in (1, 3)
        ]
        for number, event in streams.events(rng)[:-2]:
            for join in joins:
                source = join.sources[number]
                if event is None:
                    source.close()
                elif isinstance(event, int):
                    source.advance(event)
                else:
                    source.push(event)
            if rng.random() < 0.5:
                for join in joins:
                    list(iter(join.poll, None))
        assert joins[0].snapshot() == joins[1].snapshot()


BUSY = pa.schema([("start", pa.int64()), ("end", pa.int64())])
NAMES = ("start", "end")


def new(**more: Any) -> OverlapJoin:
    return OverlapJoin(BUSY, BUSY, **{"on": NAMES, "max_width": (5, 9)} | more)


def test_longer_rows_are_set_aside_and_a_snapshot_keeps_them():
    join = new(lateness=2)
    join.left_sources[0].push([(10, 15), (20, 26), (3, 4), (21, 21), (4, 99)])
    join.right_sources[0].push([(10, 19), (20, 30)])
    again = new(lateness=2)
    again.restore(join.snapshot())
    for operator in (join, again):
        late = operator.late().to_pylist()
        assert [row["late_position"] for row in late] == [1, 2, 4, 1]
        assert [row["late_reason"] for row in late] == ["wide", "late", "wide", "wide"]
        stats = operator.stats()
        assert (stats["rows_in"], stats["rows_late"]) == (7, 4)
        # Rows that are set aside do not move the watermark.
        assert [one["watermark"] for one in stats["sources"]] == [19, 8]
    with pytest.raises(StateError, match="max_width"):
        new(lateness=2, max_width=9).restore(join.snapshot())


def test_max_width_bounds_the_state():
    join = new(how="full")
    for start in range(0, 50_000, 5_000):
        rows = {"start": range(start, start + 5_000), "end": range(start, start + 5_000)}
        for source in join.sources:
            source.push(pa.table(rows))
        while join.poll() is not None:
            pass
        assert join.stats()["state_rows"] < 100


def test_points_need_no_width():
    join = OverlapJoin(BUSY, BUSY, on=("start", "start"))
    for source in join.sources:
        source.push([(1, 1), (2, 2)])
        source.close()
    assert join.poll()["start_right"].to_pylist() == [1, 2]


def test_a_row_that_starts_after_its_end_is_named_and_nothing_is_pushed():
    join = new()
    join.left_sources[0].push([(1, 2)])
    message = (
        "left source 0: row 2: column `start` is 3 steps after column `end`, expected a start at "
        "or before its end; swap the two, or filter such rows out first"
    )
    with pytest.raises(TidegateError, match=f"^{message}$"):
        join.left_sources[0].push([(3, 4), (8, 5)])
    with pytest.raises(TidegateError, match=r"row 1.*null"):
        join.left_sources[0].push([{"start": None, "end": 5}])
    assert join.stats()["rows_in"] == 1


def test_times_of_different_units_are_compared_exactly():
    left = pa.table({"start": pa.array([1], pa.date32()), "end": pa.array([2], pa.date32())})
    times = pa.array([172_800_000, 172_800_001], pa.timestamp("ms"))
    right = pa.table({"from": times, "to": times})
    join = OverlapJoin(
        left.schema, right.schema, on=(NAMES, ("from", "to")), max_width="1d", columns=["from"]
    )
    for source, table in zip(join.sources, (left, right), strict=True):
        source.push(table)
        source.close()
    assert join.poll()["from"].to_pylist() == times[:1].to_pylist()


def test_a_chain_follows_the_starts():
    overlaps = new(columns=["start", "end", "start_right"])
    later = IntervalJoin(BUSY, overlaps.schema, on="start", lower=0, upper=0, suffix="_of_pair")
    chain = Chain(later, {later.right_sources[0]: overlaps})
    later.left_sources[0].push([(1, 1), (4, 4)])
    overlaps.left_sources[0].push([(1, 5), (4, 5)])
    overlaps.right_sources[0].push([(3, 9)])
    for source in (*overlaps.sources, later.left_sources[0]):
        source.close()
    found = [row for batch in iter(chain.poll, None) for row in batch.to_pylist()]
    assert [(row["start"], row["start_right"]) for row in found] == [(1, 3), (4, 3)]


def test_explain_shows_the_width_and_the_condition():
    text = explain(OverlapJoin, BUSY, BUSY, on=NAMES, max_width=(5, 9), closed="left", how="anti")
    assert text.splitlines()[:3] == [
        "overlap_join (anti)",
        "  overlap    left.start < right.end and right.start < left.end",
        "  key        none: all rows are one group",
    ]
    assert (
        "  width      left rows are at most 5 steps long, and right rows at most 9 steps; longer "
        "rows are set aside, like late rows" in text
    )


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"max_width": None}, TidegateError, "max_width: a row can have any length.*max_width="),
        ({"max_width": -1}, TidegateError, "max_width must not be negative, got -1"),
        (
            {"max_width": (1, None)},
            TypeError,
            "max_width: expected a width for each side, got None",
        ),
        ({"max_width": "5s"}, TidegateError, "max_width is a duration, but the time columns"),
        ({"on": "start"}, TypeError, "on: expected a tuple with the names of the start and end"),
        ({"on": ("start", "end + 1")}, SchemaError, "left: .*`end \\+ 1`.*add a column"),
        ({"open_ends": True}, TypeError, "open_ends"),
        ({"closed": "right"}, TidegateError, "closed"),
    ],
)
def test_errors_name_the_argument(more, error, message):
    with pytest.raises(error, match=message):
        new(**more)
