"""The streaming interval join, obviously right: the pairs of a nested loop, in streaming order.

The oracle is given what each source was fed and promised, in its own order. It sees nothing of how
sources were interleaved, of threads or of polls, since no result may depend on them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

import oracle
from oracle import Join, Pair

Promise = int
"""A time that `advance` was given, in nanoseconds, or in steps for integer times."""

Piece = range
"""Rows of the source's table that were pushed together."""


@dataclass(frozen=True)
class Source:
    """What one source was fed, and how far its rows may be out of order."""

    table: pa.Table
    history: Sequence[Promise | Piece]
    lateness: int = 0


@dataclass(frozen=True)
class Sorted:
    """The rows of a source that were used, and those that were late, with the watermark."""

    used: list[int]
    late: list[tuple[int, int]]


def sort_out(source: Source, on: str) -> Sorted:
    """Tell which rows of a source are late: those below its watermark when they come."""
    times = oracle.times(source.table.column(on))
    watermark = -math.inf
    found = Sorted([], [])
    for event in source.history:
        if isinstance(event, int):
            watermark = max(watermark, event)
            continue
        for row in event:
            if times[row] < watermark:
                found.late.append((row, watermark))
            else:
                found.used.append(row)
                watermark = max(watermark, times[row] - source.lateness)
    return found


# A row's place in merged order: its time, its source, its position.
Place = tuple[int, int, int]


def places(sources: Sequence[Source], on: str, first_source: int) -> list[Place]:
    """The places of a side's used rows."""
    return [
        (time, number, position)
        for number, source in enumerate(sources, first_source)
        for position, time in enumerate(oracle.times(used_rows([source], on).column(on)))
    ]


def rows(table: pa.Table, numbers: Sequence[int]) -> pa.Table:
    """The rows of these numbers."""
    values = table.to_pylist()
    return pa.Table.from_pylist([values[number] for number in numbers], table.schema)


def used_rows(sources: Sequence[Source], on: str) -> pa.Table:
    """The rows of a side that were not late, source after source."""
    return pa.concat_tables(rows(source.table, sort_out(source, on).used) for source in sources)


def last_match(time: int, join: Join, step: int, *, is_left: bool) -> float:
    """The last time at which a row can come that pairs with one at `time`, or its own time."""
    # The difference right - left is at most `upper`, and left - right at most `-lower`.
    bound, opened = (
        (join.upper, ("left", "neither")) if is_left else (join.lower, ("right", "neither"))
    )
    if bound is None:
        return math.inf
    furthest = bound if is_left else -bound
    steps = furthest // step
    if steps * step == furthest and join.closed in opened:
        steps -= 1
    later = steps * step
    matches = oracle.within(later if is_left else -later, join)
    return time + max(later, 0) if matches else time


def pairs_in_order(
    left_sources: Sequence[Source], right_sources: Sequence[Source], join: Join
) -> list[Pair]:
    """Row numbers of the result among the used rows of each side, in the order of streams."""
    left, right = used_rows(left_sources, join.on[0]), used_rows(right_sources, join.on[1])
    left_places = places(left_sources, join.on[0], 0)
    right_places = places(right_sources, join.on[1], len(left_sources))
    step = min(
        oracle.step(table.schema.field(name).type)
        for table, name in zip((left, right), join.on, strict=True)
    )

    # A pair is found when its later row comes; pairs of one later row by their earlier rows.
    def found(pair: tuple[int, int]) -> tuple[Place, Place]:
        both = left_places[pair[0]], right_places[pair[1]]
        return max(both), min(both)

    pairs = sorted(oracle.nested_loop(left, right, replace(join, how="inner")), key=found)
    if join.how == "semi":
        return [(i, None) for i in dict.fromkeys(i for i, _ in pairs)]
    events: list[tuple[tuple[object, ...], Pair]] = []
    if join.how != "anti":
        events += [((found(pair)[0][0], 0, *found(pair)), pair) for pair in pairs]
    # A row without a pair comes after all pairs of the last time at which it could have got one.
    if join.how in ("left", "full", "anti"):
        for i in set(range(left.num_rows)) - {i for i, _ in pairs}:
            last = last_match(left_places[i][0], join, step, is_left=True)
            events.append(((last, 1, left_places[i]), (i, None)))
    if join.how in ("right", "full"):
        for j in set(range(right.num_rows)) - {j for _, j in pairs}:
            last = last_match(right_places[j][0], join, step, is_left=False)
            events.append(((last, 1, right_places[j]), (None, j)))
    return [pair for _, pair in sorted(events, key=lambda event: event[0])]


def expected(
    left_sources: Sequence[Source], right_sources: Sequence[Source], join: Join
) -> pa.Table:
    """The whole result."""
    left, right = used_rows(left_sources, join.on[0]), used_rows(right_sources, join.on[1])
    return oracle.result(left, right, pairs_in_order(left_sources, right_sources, join), join)
