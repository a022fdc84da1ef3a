"""A reference implementation of the streaming interval join: a nested loop, in streaming order.

The oracle receives the rows and promises of each source, in the order of that source. It does not
know how sources were interleaved, nor about threads and polls, because no result may depend on
these.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

import oracle
from oracle import Join, Pair

Promise = int
"""A time passed to `advance`, in nanoseconds, or in steps for integer times."""

Piece = range
"""Rows of the source's table that were pushed together."""


@dataclass(frozen=True)
class Source:
    """The input of one source, and how far its rows may be out of order."""

    table: pa.Table
    history: Sequence[Promise | Piece]
    lateness: int = 0


@dataclass(frozen=True)
class Sorted:
    """The used and the late rows of a source, and its watermark."""

    used: list[int]
    late: list[tuple[int, int]]


def sort_out(source: Source, on: str) -> Sorted:
    """Determine which rows of a source are late: those below its watermark when they arrive."""
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
    """Return the places of a side's used rows."""
    return [
        (time, number, position)
        for number, source in enumerate(sources, first_source)
        for position, time in enumerate(oracle.times(used_rows([source], on).column(on)))
    ]


def rows(table: pa.Table, numbers: Sequence[int]) -> pa.Table:
    """Return the rows with these numbers."""
    values = table.to_pylist()
    return pa.Table.from_pylist([values[number] for number in numbers], table.schema)


def used_rows(sources: Sequence[Source], on: str) -> pa.Table:
    """Return the rows of a side that were not late, source by source."""
    return pa.concat_tables(rows(source.table, sort_out(source, on).used) for source in sources)


def last_match(time: int, join: Join, step: int, *, is_left: bool) -> float:
    """Return the last time at which a row can arrive and pair with one at `time`, or `time`."""
    # The difference right - left is at most `upper`, and left - right is at most `-lower`.
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
    """Return the result as row numbers among each side's used rows, in streaming order."""
    left, right = used_rows(left_sources, join.on[0]), used_rows(right_sources, join.on[1])
    left_places = places(left_sources, join.on[0], 0)
    right_places = places(right_sources, join.on[1], len(left_sources))
    step = min(
        oracle.step(table.schema.field(name).type)
        for table, name in zip((left, right), join.on, strict=True)
    )

    # A pair is found when its later row arrives. Pairs with the same later row follow the order of
    # their earlier rows.
    def found(pair: tuple[int, int]) -> tuple[Place, Place]:
        both = left_places[pair[0]], right_places[pair[1]]
        return max(both), min(both)

    pairs = sorted(oracle.nested_loop(left, right, replace(join, how="inner")), key=found)
    if join.how == "semi":
        return [(i, None) for i in dict.fromkeys(i for i, _ in pairs)]
    events: list[tuple[tuple[object, ...], Pair]] = []
    if join.how != "anti":
        events += [((found(pair)[0][0], 0, *found(pair)), pair) for pair in pairs]
    # An unmatched row follows all pairs with the last time at which it could have matched.
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
    """Return the whole result."""
    left, right = used_rows(left_sources, join.on[0]), used_rows(right_sources, join.on[1])
    return oracle.result(left, right, pairs_in_order(left_sources, right_sources, join), join)
